//! Failover drills: a cluster loses its leader while `shedlock prove` runs. What replicates before it answers forgets nothing; what
//! does not is found out.

use std::process::{Child, Stdio};

use servers::{EtcdCluster, Postgres, PostgresDatabase, RedisSentinel, ZooKeeperEnsemble};

use super::{Report, command};
use crate::support::{Place, finish, start, wait_until};

/// A `prove` that is running.
struct Drill {
    running: Child,
    place: Place,
    url: String,
}

impl Drill {
    fn start(url: &str, lasting: &str) -> Self {
        let place = Place::new();
        let mut command = command(&place, url, &["--for", lasting]);
        Self { running: start(command.stdout(Stdio::piped())), place, url: url.to_owned() }
    }

    /// Waits until locks of its rounds are seen.
    fn wait_for_locks(&self) {
        let mut status = self.place.shedlock(["status"]);
        status.env("SHEDLOCK_BACKEND", &self.url);
        let rows = |text: &str| text.lines().filter(|line| line.starts_with("shedlock-prove-")).count();
        wait_until("locks", || (rows(&finish(&mut status).stdout) > 2).then_some(()));
    }

    fn report(self) -> Report {
        Report::of(self.running.wait_with_output().unwrap().into())
    }
}

/// A primary and its standby. The second waits for the first if `names` says so.
fn primary_and_standby(names: &str) -> (Postgres, PostgresDatabase, Postgres, String) {
    let primary = Postgres::fresh(&[]);
    let standby = primary.standby();
    primary.psql(&format!("alter system set synchronous_standby_names = '{names}'"));
    primary.psql("select pg_reload_conf()");
    let database = primary.database();
    let follows = || (standby.psql("select pg_is_in_recovery()") == "t" && streams(&primary)).then_some(());
    wait_until("the standby follows", follows);
    let url = database.url().replace(
        &format!("127.0.0.1:{}", primary.port()),
        &format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port()),
    );
    (primary, database, standby, url)
}

fn streams(primary: &Postgres) -> bool {
    primary.psql("select count(*) from pg_stat_replication where state = 'streaming'") == "1"
}

/// Waits until so many runs are recorded.
fn wait_for_runs(database: &PostgresDatabase, count: u32) {
    let runs = || database.try_psql("select count(*) from shedlock_history").ok()?.parse::<u32>().ok();
    wait_until("runs", || runs().filter(|runs| *runs >= count));
}

#[test]
fn a_synchronous_standby_forgets_nothing() {
    let (primary, database, standby, url) = primary_and_standby("*");
    let drill = Drill::start(&url, "20s");
    wait_for_runs(&database, 100);
    primary.kill();
    standby.psql("alter system set synchronous_standby_names = ''");
    standby.psql("select pg_promote()");
    let report = drill.report();
    report.is_kept();
    assert_eq!(report.forgotten(), 0);
    assert!(report.figure("errors").as_u64() > Some(0), "{:?}", report.finished);
}

#[test]
fn an_asynchronous_standby_that_lags_behind_is_found_out() {
    let (primary, database, standby, url) = primary_and_standby("");
    let drill = Drill::start(&url, "20s");
    wait_for_runs(&database, 60);
    // Nothing reaches the standby any more.
    standby.psql("alter system set primary_conninfo = ''");
    standby.psql("select pg_reload_conf()");
    wait_until("the standby is left alone", || (!streams(&primary)).then_some(()));
    let begun = database.psql("select timezone('utc', clock_timestamp())");
    let new = format!(
        "select count(*) from shedlock where locked_at > '{begun}' and lock_until > locked_at + interval '20 s' \
         and name like 'shedlock-prove-%' and name not like '%-0'"
    );
    wait_until("a new lock is held for long", || database.try_psql(&new).ok().filter(|count| count != "0"));
    primary.kill();
    standby.psql("select pg_promote()");
    let report = drill.report();
    assert_eq!(report.finished.code(), Some(1), "{:?}", report.finished);
    assert!(report.forgotten() > 0, "{:?}", report.finished);
}

#[test]
fn a_replica_of_redis_that_was_cut_off_is_found_out() {
    let group = RedisSentinel::fresh();
    let database = group.master.database();
    let drill = Drill::start(&group.url(&database), "25s");
    let keys = |pattern: &str| group.master.cli(&["-n", &database.number.to_string(), "keys", pattern]);
    wait_until("locks", || keys("*shedlock-prove*").contains("history").then_some(()));
    group.replica.freeze();
    let known = keys("job-lock:*shedlock-prove*");
    let left = |key: &str| group.master.cli(&["-n", &database.number.to_string(), "pttl", key]).trim().parse::<i64>();
    let is_new = |key: &&str| !known.contains(*key) && left(key).is_ok_and(|left| left > 20_000);
    wait_until("a new lock is held for long", || {
        keys("job-lock:*shedlock-prove*").lines().find(is_new).map(str::to_owned)
    });
    group.master.kill();
    group.replica.thaw();
    wait_until("a new master", || (group.master_port() == group.replica.port()).then_some(()));
    let report = drill.report();
    assert!(report.figure("errors").as_u64() > Some(0), "{:?}", report.finished);
    assert_eq!(report.finished.code(), Some(1), "{:?}", report.finished);
    assert!(report.forgotten() > 0, "{:?}", report.finished);
}

#[test]
fn etcd_s_leader_may_be_killed() {
    let cluster = EtcdCluster::fresh();
    let drill = Drill::start(&cluster.url(), "20s");
    drill.wait_for_locks();
    cluster.members[cluster.leader()].kill();
    let report = drill.report();
    report.is_kept();
    assert_eq!(report.forgotten(), 0);
    assert!(report.figure("longest_stall").as_f64() > Some(0.05), "{:?}", report.finished);
}

#[test]
fn zookeeper_s_leader_may_be_killed() {
    let ensemble = ZooKeeperEnsemble::fresh();
    let drill = Drill::start(&format!("zookeeper://{}", ensemble.hosts()), "20s");
    let leader = ensemble.leader();
    drill.wait_for_locks();
    leader.kill();
    let report = drill.report();
    report.is_kept();
    assert_eq!(report.forgotten(), 0);
    assert!(report.figure("errors").as_u64() > Some(0), "{:?}", report.finished);
}
