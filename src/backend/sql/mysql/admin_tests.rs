//! Tests the requests of administrators on real servers.

#![cfg(test)]

use std::time::Duration;

use super::MySql;
use crate::backend::testing::conformance;
use crate::backend::testing::conformance::requests::{claim_for_a_minute as claim, take_token as take};
use crate::backend::{Access, Admin, Backend, Url};
use crate::lock::{Change, Claim, Closing, Lock, LockName, Owner, Purpose, Removal, RunOutcome, RunQuery, RunRecord};
use crate::lock::{ErrorClass, Forgotten, StillHeld};
use crate::system::Timestamp;
use servers::MariaDb;
use servers::stores::{MariaDbStore, Store};

const MINUTE: Duration = Duration::from_secs(60);

fn open(url: &str) -> Box<dyn Admin> {
    let access = Access { timeout: Duration::from_secs(10), ..Access::default() };
    MySql::open(&Url::parse(url).unwrap(), &access).unwrap().backend
}

fn release(backend: &mut dyn Backend, claim: &Claim) -> StillHeld {
    let closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
    backend.release(claim, Duration::ZERO, closing).unwrap().answer
}

fn change(backend: &mut dyn Admin, name: &str, from: &str, to: &str, left: Duration) -> StillHeld {
    let (name, from, to) = (LockName::new(name).unwrap(), from.to_owned(), to.to_owned());
    backend.change(&Change { name, from, to, left }).unwrap()
}

fn listed(backend: &mut dyn Admin, names: &[&str]) -> Vec<(String, String, bool)> {
    let locks = backend.locks(names).unwrap().locks;
    locks.into_iter().map(|lock| (lock.name.clone(), lock.state.owner.clone(), lock.is_held())).collect()
}

fn held(name: &str, owner: &str) -> (String, String, bool) {
    (name.to_owned(), owner.to_owned(), true)
}

/// Creates a user without rights.
fn user(store: &MariaDbStore) -> (String, String) {
    let user = servers::unique("user");
    store.0.mariadb(&format!("create user {user}@'127.0.0.1'"));
    let url = store.0.login(&user).url();
    (user, url)
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn the_right_to_read_suffices_to_list_locks_and_runs() {
    let store = MariaDbStore::new();
    let first = claim("job", 1);
    take(&mut *open(&store.url()), &first);
    let (user, url) = user(&store);
    store.0.mariadb(&format!("grant select on shedlock to {user}@'127.0.0.1'"));
    let mut backend = open(&url);
    assert_eq!(listed(&mut *backend, &[]), [held("job", first.owner.as_str())]);
    assert_eq!(listed(&mut *backend, &["job"]), [held("job", first.owner.as_str())]);
    let error = backend.runs(&RunQuery::default()).unwrap_err();
    assert_eq!(error.class, ErrorClass::Permanent);
    assert!(error.message.contains("no history in the table shedlock_history: SELECT command denied"), "{error:?}");
    assert!(error.hint.unwrap().contains("GRANT SELECT ON shedlock_history TO"));
    store.0.mariadb(&format!("grant select on shedlock_history to {user}@'127.0.0.1'"));
    assert_eq!(backend.runs(&RunQuery::default()).unwrap().runs.len(), 1);
    // A table that exists needs no right to create it.
    assert_eq!(
        backend.create_missing().unwrap(),
        ["the table shedlock is there", "the table shedlock_history is there"]
    );
    let name = LockName::new("job").unwrap();
    let owner = first.owner.as_str().to_owned();
    let error = backend.change(&Change { name, from: owner.clone(), to: owner, left: MINUTE }).unwrap_err();
    assert!(error.message.contains("UPDATE command denied"), "{error:?}");
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn who_may_make_no_table_is_told_what_to_run() {
    let store = MariaDbStore::new();
    let (user, url) = user(&store);
    store.0.mariadb(&format!("grant select on {}.* to {user}@'127.0.0.1'", store.0.name));
    let error = open(&url).create_missing().unwrap_err();
    assert!(error.message.contains("there is no table shedlock, and it cannot be created"), "{error:?}");
    assert!(error.hint.unwrap().contains("CREATE TABLE IF NOT EXISTS `shedlock` (name VARCHAR(64)"));
    store.make_table();
    let error = open(&url).create_missing().unwrap_err();
    assert!(error.message.contains("no history in the table shedlock_history"), "{error:?}");
    assert!(error.hint.unwrap().contains("CREATE TABLE IF NOT EXISTS `shedlock_history` (id BIGINT"));
    assert_eq!(store.things(), ["shedlock"]);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn odd_rows_are_shown_as_far_as_they_can_be() {
    let store = MariaDbStore::new();
    store.0.mariadb(
        "create table shedlock (name varbinary(64), lock_until varchar(40), locked_at varchar(40), locked_by varbinary(9)); \
         insert into shedlock values (null, utc_timestamp(3) + interval 1 hour, utc_timestamp(3), 'none'), \
         ('b', 'soon', 'now', null), ('a', utc_timestamp(3) + interval 1 hour, null, x'68ff'), \
         ('c', null, '0000-00-00 00:00:00', 'h'); \
         create table shedlock_history (id int, name varchar(9), owner varchar(9), host int, started_at varchar(40), \
         ended_at varchar(40), exit_code varchar(9), outcome varchar(9)); \
         insert into shedlock_history values (null, 'a', 'x', 1, null, null, null, null), (7, 'a', null, 1, 'now', 'soon', 'x', 'y'), \
         (8, null, 'x', 1, null, null, null, null)",
    );
    let mut backend = open(&store.url());
    let free = |name: &str, owner: &str| (name.to_owned(), owner.to_owned(), false);
    assert_eq!(listed(&mut *backend, &[]), [held("a", "h\u{fffd}"), free("b", ""), free("c", "h")]);
    let locks = backend.locks(&["b", "a"]).unwrap().locks;
    assert!(locks[0].state.since.is_none() && locks[0].state.until.is_some());
    assert!(locks[1].state.since.is_none() && locks[1].state.until.is_none());
    let odd = RunRecord {
        token: 7,
        name: "a".to_owned(),
        owner: String::new(),
        host: "1".to_owned(),
        started_at: None,
        ended_at: None,
        exit_code: None,
        outcome: Some("y".to_owned()),
    };
    let wanted = RunQuery { since: Some(Timestamp::now()), ..RunQuery::default() };
    for wanted in [RunQuery::default(), wanted] {
        assert_eq!(backend.runs(&wanted).unwrap().runs, *std::slice::from_ref(&odd));
    }
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn the_newest_runs_of_a_lock_have_its_largest_tokens_whatever_the_clock_said() {
    let store = MariaDbStore::new();
    let mut backend = open(&store.url());
    for owner in 1..=4 {
        let claim = claim("job", owner);
        take(&mut *backend, &claim);
        assert_eq!(release(&mut *backend, &claim), StillHeld::Held);
    }
    let mut tokens = |newest_per_lock| -> Vec<u64> {
        let found = backend.runs(&RunQuery { newest_per_lock, ..RunQuery::default() }).unwrap().runs;
        found.iter().map(|run| run.token).collect()
    };
    let newest = *tokens(None).iter().max().unwrap();
    let ahead = "update shedlock_history set started_at = started_at + interval 1 year";
    store.0.mariadb(&format!("{ahead} where id < {}", newest - 1));
    assert_eq!(tokens(None), [newest - 2, newest - 3, newest, newest - 1]);
    assert_eq!(tokens(Some(2)), [newest, newest - 1]);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn another_s_table_is_no_history() {
    let store = MariaDbStore::new();
    store.0.mariadb("create table shedlock_history (id int, x int)");
    let error = open(&store.url()).runs(&RunQuery::default()).unwrap_err();
    assert_eq!(error.class, ErrorClass::Permanent);
    assert!(error.message.contains("no history in the table shedlock_history: unknown column"), "{error:?}");
    assert!(error.hint.unwrap().contains("?table="));
    let error = open(&store.url()).create_missing().unwrap_err();
    assert!(error.message.contains("no history in the table shedlock_history: unknown column"), "{error:?}");
    store.0.mariadb("drop table shedlock, shedlock_history; create table shedlock (x int)");
    for error in [open(&store.url()).create_missing().unwrap_err(), open(&store.url()).locks(&[]).unwrap_err()] {
        assert!(error.message.contains("unknown column"), "{error:?}");
        assert!(error.hint.unwrap().contains("it needs the columns name"));
    }
}

/// Treats both spellings as one lock, as an acquisition does.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_lock_is_found_by_a_name_that_the_table_takes_for_its_own() {
    let store = MariaDbStore::new();
    store.make_table();
    assert!(store.java_take("Job", "Java-Host", MINUTE));
    let mut backend = open(&store.url());
    assert_eq!(listed(&mut *backend, &["JOB", "job"]), [held("JOB", "Java-Host"), held("job", "Java-Host")]);
    assert_eq!(listed(&mut *backend, &[]), [held("Job", "Java-Host")]);
    // The stored owner is spelt differently.
    for to in ["java-host", "JAVA-HOST"] {
        assert_eq!(change(&mut *backend, "job", "java-host", to, MINUTE * 5), StillHeld::Lost);
    }
    assert_eq!(store.stored("Job").unwrap().owner, "Java-Host");
    assert_eq!(change(&mut *backend, "job", "Java-Host", "java-host", MINUTE * 5), StillHeld::Held);
    assert_eq!(listed(&mut *backend, &["Job"]), [held("Job", "java-host")]);
}

/// The history ignores spaces at the end of a name, and this table of locks does not.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_name_with_a_space_too_many_does_not_reach_the_runs_of_another_lock() {
    let store = MariaDbStore::new();
    store.make_table();
    // MariaDB has the one collation, MySQL the other.
    let collation = store.0.mariadb(
        "select collation_name from information_schema.collations \
         where collation_name in ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin') limit 1",
    );
    store.0.mariadb(&format!(
        "alter table shedlock modify name varchar(64) character set utf8mb4 collate {} not null",
        collation.trim()
    ));
    let (mut backend, first) = (open(&store.url()), claim("job", 1));
    take(&mut *backend, &first);
    assert_eq!(release(&mut *backend, &first), StillHeld::Held);
    assert!(store.java_take("job ", "java-host", MINUTE));
    store.java_release("job ", "java-host", Duration::ZERO);
    let removal = Removal::new(LockName::from_stored("job ").unwrap(), "java-host".to_owned());
    assert_eq!(backend.forget(&removal).unwrap(), Forgotten::Gone { lock: true, runs: 0 });
    assert_eq!(listed(&mut *backend, &[]).len(), 1);
    assert_eq!(store.history("job").len(), 1);
}

/// A server that is not strict cuts a name to the width of the column.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_name_that_would_be_cut_is_not_that_of_another_lock() {
    let server = MariaDb::fresh(&["--sql-mode="]);
    server.mariadb("create database ops; create user jobs@'127.0.0.1'; grant all on ops.* to jobs@'127.0.0.1'");
    let mut backend = open(&format!("mysql://jobs@127.0.0.1:{}/ops", server.port()));
    let (name, first) = ("x".repeat(64), claim(&"x".repeat(64), 1));
    take(&mut *backend, &first);
    assert_eq!(release(&mut *backend, &first), StillHeld::Held);
    let owner = Owner::for_pause("ada", "host", 7, None, "");
    let longer = LockName::from_stored(&format!("{name}y")).unwrap();
    let pause = Claim { name: longer, owner, purpose: Purpose::Pause, ..first.clone() };
    let error = backend.acquire(&pause).unwrap_err();
    assert_eq!(error.class, ErrorClass::Permanent, "{error:?}");
    assert_eq!(listed(&mut *backend, &[]), [(name, first.owner.ended(), false)]);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn of_several_servers_one_that_is_read_only_is_passed_over_and_one_alone_answers() {
    let (writable, reader) = (MariaDb::fresh(&[]), MariaDb::fresh(&["--read-only"]));
    for (server, owner) in [(&writable, "right"), (&reader, "behind")] {
        server.mariadb("create database ops");
        server.mariadb(&format!(
            "create table ops.shedlock as select 'job' name, utc_timestamp(3) + interval 1 hour lock_until, \
             utc_timestamp(3) locked_at, '{owner}' locked_by"
        ));
        server.mariadb("create user jobs@'127.0.0.1'; grant all on ops.* to jobs@'127.0.0.1'");
    }
    let url = |ports: &[u16]| {
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("mysql://jobs@{}/ops", hosts.join(","))
    };
    let both = url(&[reader.port(), writable.port()]);
    assert_eq!(listed(&mut *open(&both), &[]), [held("job", "right")]);
    assert_eq!(listed(&mut *open(&both), &["job"]), [held("job", "right")]);
    assert_eq!(change(&mut *open(&both), "job", "right", "next", MINUTE), StillHeld::Held);
    assert_eq!(open(&both).create_missing().unwrap().len(), 2);
    assert_eq!(open(&both).runs(&RunQuery::default()).unwrap().runs, [][..]);
    assert_eq!(listed(&mut *open(&url(&[reader.port()])), &[]), [held("job", "behind")]);
    writable.stop();
    let error = open(&both).locks(&[]).unwrap_err();
    assert_eq!(error.class, ErrorClass::Transient, "{error:?}");
    let error = open(&url(&[reader.port(), reader.port()])).locks(&[]).unwrap_err();
    assert!(error.message.contains("the server is read only"), "{error:?}");
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn what_the_schema_makes_and_grants_is_enough_for_a_user_who_may_make_nothing() {
    let store = MariaDbStore::new();
    for query in ["", "?table=Some_locks"] {
        let (user, url) = user(&store);
        let url = url + query;
        let schema = open(&url).schema().unwrap();
        store.0.mariadb(&schema);
        let grants =
            schema.lines().filter_map(|line| line.strip_prefix("-- ")).filter(|line| line.starts_with("GRANT"));
        let grants: Vec<String> = grants.map(|line| line.replace("'%'", "'127.0.0.1'")).collect();
        assert_eq!(grants.len(), 2, "{schema}");
        assert!(grants[0].contains(&user), "{schema}");
        grants.iter().for_each(|grant| _ = store.0.mariadb(grant));
        let mut backend = open(&url);
        let first = claim("job", 1);
        assert!(take(&mut *backend, &first).is_some());
        assert_eq!(backend.renew(&first).unwrap().answer, StillHeld::Held);
        assert_eq!(change(&mut *backend, "job", first.owner.as_str(), first.owner.as_str(), MINUTE), StillHeld::Held);
        assert_eq!(listed(&mut *backend, &[]), [held("job", first.owner.as_str())]);
        assert_eq!(release(&mut *backend, &first), StillHeld::Held);
        assert_eq!(backend.runs(&RunQuery::default()).unwrap().runs.len(), 1);
    }
    let mut things = store.things();
    things.sort();
    assert_eq!(things, ["Some_locks", "Some_locks_history", "shedlock", "shedlock_history"]);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn another_table_is_listed_changed_and_made() {
    let store = MariaDbStore::new();
    let mut backend = open(&format!("{}?table={}.locks", store.url(), store.0.name));
    let (one, other) = (format!("{}.locks", store.0.name), format!("{}.locks_history", store.0.name));
    assert_eq!(
        backend.create_missing().unwrap(),
        [format!("created the table {one}"), format!("created the table {other}")]
    );
    assert_eq!(store.things(), ["locks", "locks_history"]);
    let first = claim("job", 1);
    take(&mut *backend, &first);
    assert_eq!(listed(&mut *backend, &[]), [held("job", first.owner.as_str())]);
    assert_eq!(backend.runs(&RunQuery::default()).unwrap().runs.len(), 1);
    assert_eq!(change(&mut *backend, "job", first.owner.as_str(), "x", Duration::ZERO), StillHeld::Held);
    assert!(!listed(&mut *backend, &[])[0].2);
    assert_eq!(store.things(), ["locks", "locks_history"]);
}

/// Lists current rows, also on a connection that was used before.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_server_without_autocommit_shows_what_has_changed() {
    let server = MariaDb::fresh(&["--autocommit=0", "--default-time-zone=+02:00"]);
    let database = server.database();
    let (mut ours, mut others) = (open(&database.url()), open(&database.url()));
    let [first, second] = [claim("a", 1), claim("b", 2)];
    let found = |backend: &mut dyn Admin| -> Vec<Lock> { backend.locks(&[]).unwrap().locks };
    take(&mut *others, &first);
    assert_eq!(found(&mut *ours).len(), 1);
    take(&mut *others, &second);
    let locks = found(&mut *ours);
    assert_eq!(locks.len(), 2);
    for lock in locks {
        assert!(lock.is_held() && lock.state.since.unwrap().0.abs_diff(Timestamp::now().0) < 20_000, "{lock:?}");
    }
    assert_eq!(ours.runs(&RunQuery::default()).unwrap().runs.len(), 2);
    assert_eq!(release(&mut *others, &first), StillHeld::Held);
    assert_eq!(found(&mut *ours).iter().filter(|lock| lock.is_held()).count(), 1);
    assert!(ours.runs(&RunQuery::default()).unwrap().runs.iter().any(|run| run.ended_at.is_some()));
}

/// The history of earlier versions has the index (name, id).
#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_history_of_an_earlier_version_works() {
    let columns = "id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, \
        name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, \
        owner VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, \
        host VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, started_at DATETIME(3) NOT NULL, \
        ended_at DATETIME(3), exit_code INT, outcome VARCHAR(16) CHARACTER SET utf8mb4";
    for test in [
        conformance::taking_again_has_a_larger_token_and_one_record,
        conformance::taking_again_after_another_s_run_leaves_one_record,
        conformance::a_run_is_recorded_and_closed,
        conformance::only_the_last_runs_are_kept,
        conformance::a_long_history_is_pruned_now_and_then,
        conformance::an_acquisition_that_comes_after_it_was_given_back_takes_nothing,
    ] {
        let store = MariaDbStore::new();
        store.0.mariadb(&format!("CREATE TABLE shedlock_history ({columns}, INDEX name (name, id)) ENGINE = InnoDB"));
        test(&store);
    }
}

/// Finding the oldest records takes as long as there are records; a server that is asked by many hosts should not do it often.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn most_runs_read_a_few_rows_however_long_the_history_is() {
    let server = MariaDb::fresh(&[]);
    let database = server.database();
    let mut backend = open(&database.url());
    take(&mut *backend, &claim("job", 1));
    database.mariadb(&format!(
        "INSERT INTO shedlock_history (name, owner, host, started_at, ended_at, exit_code, outcome) \
         SELECT 'job', concat('host:1:', seq), 'host', utc_timestamp(3), utc_timestamp(3), 0, 'success' FROM {}; \
         ANALYZE TABLE shedlock_history",
        servers::MariaDbDatabase::numbers(2000)
    ));
    let read = || -> u64 {
        let counters = database.mariadb("SHOW GLOBAL STATUS LIKE 'Handler_read%'");
        let counters = counters.lines().filter(|line| !line.starts_with("Handler_read_rnd_deleted"));
        counters.map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap()).sum()
    };
    release(&mut *backend, &claim("job", 1));
    // The statement that reads the numbers reads rows itself.
    let (first, second) = (read(), read());
    let own = second - first;
    let mut reads = |number| {
        let claim = Claim { keep: 1000, ..claim("job", number) };
        let before = read();
        take(&mut *backend, &claim);
        release(&mut *backend, &claim);
        read().saturating_sub(before + own)
    };
    let most = reads(7);
    assert!(most < 100, "{most}");
    let pruning = reads(50);
    assert!(pruning > 1000, "{pruning}");
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_column_of_others_that_needs_a_value_is_named() {
    let store = MariaDbStore::new();
    let mut backend = open(&store.url());
    backend.create_missing().unwrap();
    store.0.mariadb("alter table shedlock add extra integer not null");
    let error = backend.acquire(&claim("job", 1)).unwrap_err();
    assert!(error.message.contains("'extra' doesn't have a default value"), "{error:?}");
    assert!(error.hint.unwrap().starts_with("give the column a default"));
    let mut found = Vec::new();
    backend.check(&mut |finding| found.push(finding));
    assert!(
        found.iter().any(|finding| finding.seen == "extra requires a value, but shedlock writes none"),
        "{found:?}"
    );
}

/// Restores the ids of a dump without the table's AUTO_INCREMENT, and those of records that were deleted before a restart.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn tokens_grow_although_the_counter_was_lost() {
    let server = MariaDb::fresh(&[]);
    let database = server.database();
    let mut backend = open(&database.url());
    backend.create_missing().unwrap();
    let restore =
        "insert into shedlock_history (id, name, owner, host, started_at) values (1100, 'job', 'x:1:1', 'x', now(3))";
    for (number, counter) in
        ["alter table shedlock_history auto_increment = 1", "truncate shedlock_history"].iter().enumerate()
    {
        database.mariadb(&format!("{counter}; {restore}"));
        let claim = claim("job", number as u64);
        assert!(take(&mut *backend, &claim).unwrap() > 1100, "{counter}");
        release(&mut *backend, &claim);
        database.mariadb(
            "delete from shedlock_history where owner = 'x:1:1'; alter table shedlock_history auto_increment = 1",
        );
        let next = self::claim("job", 100 + number as u64);
        assert!(take(&mut *backend, &next).unwrap() > 1101, "{counter}");
        release(&mut *backend, &next);
    }
    let last = database.mariadb("select max(id) from shedlock_history").parse::<u64>().unwrap();
    database.mariadb("delete from shedlock_history");
    server.stop();
    server.start();
    let token = take(&mut *open(&database.url()), &claim("job", 1000)).unwrap();
    assert!(token > last, "{token} {last}");
}
