//! Servers that are healthy and grant no locks: what `run`, `check` and `prove` say of each, and of it beside one that does.

use super::{Report, command};
use crate::support::{Finished, Place, finish};
use servers::{Etcd, MariaDb, Postgres, RedisCluster};

/// What the three say of a backend.
struct Asked {
    run: Finished,
    check: Finished,
    prove: Finished,
}

impl Asked {
    fn about(url: &str) -> Self {
        let (place, limit) = (Place::new(), ["--backend-timeout", "2s"]);
        let mut run = place.run("a", [&limit[..], &["--", "touch", "ran"]].concat());
        let run = finish(run.env("SHEDLOCK_BACKEND", url));
        assert_eq!(place.path("ran").exists(), run.code() == Some(0), "{run:?}");
        let mut check = place.shedlock([&["check"][..], &limit].concat());
        let check = finish(check.env("SHEDLOCK_BACKEND", url));
        let prove = finish(&mut command(&place, url, &[&["--for", "3s"][..], &limit].concat()));
        Self { run, check, prove }
    }

    /// Fails unless `run` and `prove` end with 125, and `check` with 1; each names the server, says why, and says what to do.
    #[track_caller]
    fn is_refused(&self, server: &str, [said, checked]: [&str; 2], [hint, advice]: [&str; 2]) {
        for finished in [&self.run, &self.prove] {
            assert_eq!(finished.code(), Some(125), "{finished:?}");
            for part in [server, said, &format!("\nhint: {hint}")] {
                assert!(finished.stderr.contains(part), "{part}: {finished:?}");
            }
        }
        assert_eq!(self.check.code(), Some(1), "{:?}", self.check);
        let text = self.check.stdout.replace("\n               ", "");
        for part in [checked, &format!("→ {advice}")] {
            assert!(text.contains(part), "{part}: {:?}", self.check);
        }
    }

    /// Fails unless a run works, and the rules are kept.
    #[track_caller]
    fn grants(&self) {
        self.run.is_silent_with(0);
        Report::of(self.prove.clone()).is_kept();
    }

    /// Fails unless `check` finds the backend good, and says so of the server that is passed over.
    #[track_caller]
    fn passes_over(&self, said: &str) {
        self.grants();
        assert_eq!(self.check.code(), Some(0), "{:?}", self.check);
        assert!(self.check.stdout.contains(said), "{:?}", self.check);
    }
}

#[test]
fn a_learner_of_etcd() {
    let voter = Etcd::fresh();
    let learner = voter.learner();
    let server = format!("127.0.0.1:{}", learner.port());
    let said = "the server is a learner, and grants no locks";
    let hint = "name all members in the URL, separated by commas";
    Asked::about(&learner.url()).is_refused(&server, [said; 2], [hint; 2]);
    let both = format!("etcd://{server},127.0.0.1:{}", voter.port());
    Asked::about(&both).passes_over(&format!("etcd://{server} is a learner, and is skipped"));
}

/// It has no locks of its own, and names the node that has: a client that knows no cluster does not follow.
#[test]
fn a_replica_in_a_redis_cluster() {
    let cluster = RedisCluster::fresh();
    let replica = cluster.replica();
    let server = format!("redis://127.0.0.1:{}", replica.port());
    Asked::about(&server).is_refused(
        &server,
        ["a node of a cluster", "the server is a replica in a cluster"],
        ["write redis-cluster://"; 2],
    );
    // As a node of the cluster it is as good as any.
    let asked = Asked::about(&format!("redis-cluster://127.0.0.1:{}", replica.port()));
    asked.grants();
    assert_eq!(asked.check.code(), Some(0), "{:?}", asked.check);
}

#[test]
fn a_hot_standby_of_postgresql() {
    let primary = Postgres::fresh(&[]);
    let database = primary.database();
    let standby = primary.standby();
    let server = format!("127.0.0.1:{}", standby.port());
    let url = |hosts: &str| format!("postgres://postgres@{hosts}/{}", database.name);
    Asked::about(&url(&server)).is_refused(
        &server,
        ["read-only transaction", "read-only"],
        ["a lock needs a writable server", "name the primary"],
    );
    let both = Asked::about(&url(&format!("{server},127.0.0.1:{}", primary.port())));
    both.grants();
    assert!(both.check.stdout.contains(&format!("{server} is read-only, and is skipped")), "{:?}", both.check);
}

#[test]
fn a_session_of_postgresql_that_may_only_read() {
    let (server, role) = (servers::postgres(), servers::unique("reader"));
    server.psql(&format!("create role {role} login"));
    let database = server.database_of(&role);
    let at = format!("127.0.0.1:{}", server.port());
    let said = format!("sessions of {role} are read-only: ");
    let url = database.login(&role).url();
    server.psql(&format!("alter role {role} set default_transaction_read_only = on"));
    let hint = format!("run: ALTER ROLE {role} RESET default_transaction_read_only");
    Asked::about(&url).is_refused(&at, [&said; 2], [&hint; 2]);
    server.psql(&format!("alter role {role} reset default_transaction_read_only"));
    let url = format!("{url}?options=-cdefault_transaction_read_only%3Don");
    let hint = "take default_transaction_read_only out of `options` in the URL";
    Asked::about(&url).is_refused(&at, [&said; 2], [hint; 2]);
}

/// Who is exempt may write, so a run works; but the server is a replica that somebody has named by mistake, and `check` says so.
#[test]
fn a_mariadb_that_is_read_only() {
    let (reader, writable) = (MariaDb::fresh(&[]), MariaDb::fresh(&[]));
    let database = reader.database();
    writable.mariadb(&format!("create database {}", database.name));
    for server in [&reader, &writable] {
        server.mariadb(
            "create user jobs@'127.0.0.1'; grant all on *.* to jobs@'127.0.0.1'; \
             revoke super, read only admin on *.* from jobs@'127.0.0.1'",
        );
    }
    Asked::about(&database.login("jobs").url()).grants();
    reader.mariadb("set global read_only = 1");
    let server = format!("127.0.0.1:{}", reader.port());
    let url = |user: &str, hosts: &str| format!("mysql://{user}@{hosts}/{}", database.name);
    let checked = "the server is read-only, as replicas are";
    let advice = "name the primary, or all servers separated by commas";
    Asked::about(&url("jobs", &server)).is_refused(
        &server,
        ["--read-only", checked],
        ["a lock needs a writable server", advice],
    );
    let exempt = Asked::about(&url("root", &server));
    exempt.grants();
    assert_eq!(exempt.check.code(), Some(1), "{:?}", exempt.check);
    assert!(exempt.check.stdout.contains(checked), "{:?}", exempt.check);
    let both = Asked::about(&url("jobs", &format!("{server},127.0.0.1:{}", writable.port())));
    both.grants();
    assert!(both.check.stdout.contains(&format!("{server} is read-only, and is skipped")), "{:?}", both.check);
}
