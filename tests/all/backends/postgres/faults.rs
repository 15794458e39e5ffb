//! A server that is full, starting, stopped, killed or frozen.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Site, fails, row};
use crate::support::process::Started;
use crate::support::{finish, kill, wait_until};
use servers::{Postgres, PostgresDatabase};

/// Sessions of psql that hold all places of a server but those of superusers.
struct Crowd<'a> {
    server: &'a Postgres,
    sessions: Vec<Child>,
}

impl<'a> Crowd<'a> {
    fn new(server: &'a Postgres, url: &str, count: usize) -> Self {
        let session = || {
            let mut psql = Command::new("psql");
            psql.args(["-X", "-d", url, "-c", "select pg_sleep(100)"]).stdout(Stdio::null()).stderr(Stdio::null());
            psql.spawn().unwrap()
        };
        let asleep = "select count(*) from pg_stat_activity where query = 'select pg_sleep(100)' and state = 'active'";
        let asleep = || server.psql(asleep).parse::<usize>().unwrap();
        let whole = asleep() + count;
        let mut crowd = Self { server, sessions: (0..count).map(|_| session()).collect() };
        wait_until("a full server", || {
            for child in &mut crowd.sessions {
                // The place of one that has just left may not be free yet.
                if child.try_wait().unwrap().is_some() {
                    *child = session();
                }
            }
            (asleep() == whole).then_some(())
        });
        crowd
    }

    fn leave(&self, count: usize) {
        let one = "select pg_terminate_backend(pid) from pg_stat_activity where query = 'select pg_sleep(100)' limit";
        self.server.psql(&format!("{one} {count}"));
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        for session in &mut self.sessions {
            let _ = session.kill();
            let _ = session.wait();
        }
    }
}

/// Returns a server with two places for ordinary roles, and a site of one.
fn narrow() -> (Postgres, PostgresDatabase, Site) {
    let server = Postgres::fresh(&["max_connections=6", "superuser_reserved_connections=4", "max_wal_senders=0"]);
    server.psql("create role clerk login");
    let database = server.database_of("clerk");
    let site = Site::new(database.login("clerk").socket_url());
    (server, database, site)
}

#[test]
fn a_full_server_is_tried_again_until_a_place_is_free() {
    let (server, database, site) = narrow();
    let crowd = Crowd::new(&server, &site.url, 2);
    let mut run = site.run("job", ["--backend-timeout", "25s", "true"]);
    let run = Started::new(&site.place, "run", &mut run);
    wait_until("two tries", || (server.log().matches("FATAL:  ").count() >= 2).then_some(()));
    crowd.leave(1);
    run.finish().is_silent_with(0);
    assert!(row(&database, "job").owner.ends_with(":ended"));

    let crowd = Crowd::new(&server, &site.url, 1);
    let begun = Instant::now();
    let finished = site.fails(["--backend-timeout", "1s"], "remaining connection slots are reserved");
    assert!(begun.elapsed() > Duration::from_millis(700), "{:?}", begun.elapsed());
    assert!(finished.stderr.contains("\nhint: raise the server's max_connections, "), "{finished:?}");
    // Nothing was taken meanwhile, and a waiter takes full for no error.
    let mut waiting = site.run("job", ["--backend-timeout", "300ms", "--wait", "20s", "true"]);
    let waiting = Started::new(&site.place, "waiting", &mut waiting);
    let before = server.log().matches("FATAL:  ").count();
    wait_until("more tries", || (server.log().matches("FATAL:  ").count() >= before + 4).then_some(()));
    crowd.leave(2);
    waiting.finish().is_silent_with(0);
}

#[test]
fn a_role_or_a_database_with_its_own_limit_is_full_too() {
    let database = servers::postgres().database();
    let role = servers::unique("limited");
    database.psql(&format!("create role {role} login connection limit 0; grant create on schema public to {role}"));
    let site = Site::new(database.login(&role).socket_url());
    let finished = site.fails(["--backend-timeout", "500ms"], "too many connections for role");
    assert!(finished.stderr.contains("\nhint: "), "{finished:?}");
    let run = Started::new(&site.place, "run", &mut site.run("job", ["--backend-timeout", "25s", "true"]));
    database.psql(&format!("alter role {role} connection limit 5"));
    run.finish().is_silent_with(0);
}

#[test]
fn a_server_that_is_starting_is_tried_again() {
    let server = Postgres::fresh(&[]);
    let database = server.database();
    let site = Site::new(database.url());
    site.works();
    server.stop();
    // A standby that nobody may read is starting up until it is promoted.
    std::fs::write(server.path().join("data/standby.signal"), "").unwrap();
    let log = server.log().len();
    std::thread::scope(|scope| {
        let settings = server.path().join("data/postgresql.auto.conf");
        std::fs::write(&settings, "hot_standby = off\n").unwrap();
        scope.spawn(|| server.start());
        wait_until("the start", || server.log()[log..].contains("entering standby mode").then_some(()));
        let finished = site.fails(["--backend-timeout", "700ms"], "the database system is");
        assert!(!finished.stderr.contains("password"), "{finished:?}");
        let run = Started::new(&site.place, "run", &mut site.run("job", ["--backend-timeout", "25s", "true"]));
        let promote = "f=data/postmaster.pid; touch data/promote; kill -USR1 $(head -n 1 $f)";
        server.directory().run("sh", &["-c", promote]);
        run.finish().is_silent_with(0);
    });
}

#[test]
fn a_server_that_is_down_is_tried_until_it_is_back() {
    let server = Postgres::fresh(&[]);
    let database = server.database();
    let site = Site::new(database.url());
    site.works();
    server.stop();
    let finished = site.fails(["--backend-timeout", "700ms"], "connection refused");
    assert!(finished.stderr.contains("\nhint: check that the server is running"), "{finished:?}");
    let socket = Site::new(database.socket_url());
    socket.fails(["--backend-timeout", "300ms"], "no server is listening on its socket");
    let runs = [&site, &socket].map(|site| {
        Started::new(&site.place, "run", &mut site.run("job", ["--backend-timeout", "25s", "--wait", "9s", "true"]))
    });
    server.start();
    for run in runs {
        run.finish().is_silent_with(0);
    }
    // After a crash it recovers first.
    server.kill();
    let run = Started::new(&site.place, "run", &mut site.run("job", ["--backend-timeout", "25s", "true"]));
    server.start();
    run.finish().is_silent_with(0);
}

#[test]
fn a_server_that_dies_while_the_job_runs_leaves_the_job_its_code() {
    let server = Postgres::fresh(&[]);
    let database = server.database();
    let site = Site::new(database.url());
    let [first, second] = ["first", "second"].map(|name| site.job(name, ["--backend-timeout", "1s"]));
    let patient = site.job("patient", ["--backend-timeout", "25s"]);
    server.kill();
    first.end(7).complains(7, "connection refused; the lock frees when its time is up");
    second.end(0).complains(0, "the lock frees when its time is up");
    patient.tell(3);
    server.start();
    patient.started.finish().is_silent_with(3);
    assert_eq!(["first", "second", "patient"].map(|name| row(&database, name).held), [true, true, false]);
}

#[test]
fn an_open_connection_that_the_server_closes_is_opened_again() {
    let server = Postgres::fresh(&[]);
    let database = server.database();
    let site = Site::new(database.url());
    site.works();
    // The job ends while the connection of the acquisition is still open at our end.
    let end = format!(
        "psql -XqAt -d '{}' -c \"select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'shedlock'\"",
        database.socket_url()
    );
    let finished = finish(&mut site.run("job", ["sh", "-c", &end]));
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""));
    assert!(!row(&database, "job").held);
}

#[test]
fn a_frozen_server_is_an_error_when_the_time_is_up_and_nothing_stays_taken() {
    let server = Postgres::fresh(&[]);
    let database = server.database();
    let site = Site::new(database.url());
    site.works();
    server.freeze();
    site.fails(["--backend-timeout", "1s"], "");
    server.thaw();
    assert!(site.is_free("job"));
}

#[test]
fn a_frozen_server_keeps_nobody_from_going_when_the_job_has_ended() {
    let server = Postgres::fresh(&[]);
    let database = server.database();
    let site = Site::new(database.url());
    let job = site.job("job", ["--backend-timeout", "1s"]);
    server.freeze();
    job.end(5).complains(5, "the lock frees when its time is up");
    // One that is patient gives the lock back after the thaw.
    server.thaw();
    let patient = site.job("patient", ["--backend-timeout", "25s"]);
    server.freeze();
    patient.tell(0);
    server.thaw();
    patient.started.finish().is_silent_with(0);
    assert!(!row(&database, "patient").held);
}

/// A session that holds what it locks until it is told to end.
struct Holder {
    psql: Child,
}

impl Holder {
    fn new(database: &PostgresDatabase, sql: &str) -> Self {
        let mut psql = Command::new("psql");
        psql.args(["-Xq", "-d", &database.socket_url(), "-c", &format!("begin; {sql}; select pg_sleep(100)")]);
        let psql = psql.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let asleep =
            "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()";
        wait_until("the lock of the session", || (database.psql(asleep) == "1").then_some(()));
        Self { psql }
    }

    /// Rolls back.
    fn end(mut self, database: &PostgresDatabase) {
        let end = "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()";
        database.psql(end);
        self.psql.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}

#[test]
fn a_row_or_table_that_a_person_keeps_locked_is_waited_for_only_so_long() {
    let database = servers::postgres().database();
    let site = Site::new(database.url());
    site.works();
    for (sql, what) in [
        ("update shedlock set locked_by = locked_by", "a row of the table shedlock"),
        ("lock table shedlock", "the table shedlock"),
        ("lock table shedlock_history", "the table shedlock_history"),
    ] {
        let holder = Holder::new(&database, sql);
        let finished = site.fails(["--backend-timeout", "2s"], &format!("another session has locked {what}"));
        assert!(finished.stderr.contains("\nhint: end its transaction"), "{finished:?}");
        assert!(finished.stderr.contains("pg_blocking_pids"), "{finished:?}");
        // Nobody waits there who could take the lock once it is too late.
        let waiting = "select count(*) from pg_stat_activity where application_name = 'shedlock' and \
                       datname = current_database()";
        wait_until(&format!("the end of all that wait for `{sql}`"), || (database.psql(waiting) == "0").then_some(()));
        holder.end(&database);
        assert!(site.is_free("job"), "{sql}");
    }
}

#[test]
fn a_lock_that_no_standby_has_confirmed_is_not_believed_ours() {
    let server = Postgres::fresh(&[]);
    let database = server.database();
    let site = Site::new(database.url());
    assert!(site.is_free("job"));
    server.psql("alter system set synchronous_standby_names = 'nobody'");
    server.psql("select pg_reload_conf()");
    let finished = finish(&mut site.run("job", ["--backend-timeout", "2s", "touch", "ran"]));
    finished.complains(125, "no answer in time");
    assert!(!site.place.path("ran").exists());
    server.psql("alter system reset synchronous_standby_names");
    server.psql("select pg_reload_conf()");
    assert!(site.is_free("job"));
}

#[test]
fn an_acquisition_that_waits_for_a_row_when_it_is_stopped_takes_nothing_later() {
    let database = servers::postgres().database();
    let site = Site::new(database.url());
    assert!(site.is_free("job"));
    let session = Holder::new(&database, "update shedlock set locked_by = locked_by");
    let mut stopped = Started::new(&site.place, "stopped", &mut site.run("job", ["true"]));
    let waiting =
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    wait_until("the statement that waits", || (database.psql(waiting) == "1").then_some(()));
    kill(stopped.pid(), "TERM");
    wait_until("the end", || stopped.has_ended().then_some(()));
    session.end(&database);
    wait_until("the statement to end", || (database.psql(waiting) == "0").then_some(()));
    assert!(site.is_free("job"));
}

#[test]
fn a_wait_for_a_standby_that_somebody_cancels_or_ends_starts_no_job() {
    let server = Postgres::fresh(&[]);
    let database = server.database();
    let site = Site::new(database.url());
    assert!(site.is_free("job"));
    let names = |set: &str| {
        server.psql(&format!("alter system {set}"));
        server.psql("select pg_reload_conf()");
    };
    let waiting = "pid from pg_stat_activity where wait_event = 'SyncRep' and application_name = 'shedlock'";
    // A setting that was read again counts only when the checkpointer has seen it too.
    let nobody_confirms = || {
        names("set synchronous_standby_names = 'nobody'");
        wait_until("the server to wait for its standby", || {
            std::thread::scope(|scope| {
                let write = scope.spawn(|| server.psql("select pg_logical_emit_message(true, 'probe', '')"));
                let ended = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'";
                wait_until("a write to wait or to end", || {
                    let waits = server.psql(ended).contains('t');
                    (waits || write.is_finished()).then_some(waits)
                })
                .then_some(())
            })
        });
    };
    for end in ["pg_cancel_backend", "pg_terminate_backend"] {
        nobody_confirms();
        let mut run = Started::new(
            &site.place,
            end,
            &mut site.run("job", ["--backend-timeout", "5s", "sh", "-c", "touch ran; sleep 60"]),
        );
        // Each try that waits is ended, until the run gives up.
        wait_until(&format!("the end of a run after {end}"), || {
            server.psql(&format!("select {end}(pid) from (select {waiting}) as waiting"));
            assert!(!site.place.path("ran").exists(), "the job runs after {end}");
            run.has_ended().then_some(())
        });
        assert_eq!(run.finish().code(), Some(125), "{end}");
        names("reset synchronous_standby_names");
        assert!(site.is_free("job"), "{end}");
    }
    // As is a renewal: the job is stopped before its lease ends.
    let job = site.job("job", ["--lease", "4s"]);
    nobody_confirms();
    let mut started = job.started;
    wait_until("the end of the leased run", || {
        server.psql(&format!("select pg_cancel_backend(pid) from (select {waiting}) as waiting"));
        started.has_ended().then_some(())
    });
    let finished = started.finish();
    assert_eq!(finished.code(), Some(123), "{finished:?}");
    assert!(finished.stderr.contains("did not wait for its standby"), "{finished:?}");
}

#[test]
fn a_column_without_milliseconds_is_refused_at_every_acquisition_and_renewal() {
    let database = servers::postgres().database();
    let site = Site::new(database.url());
    for digits in 0..=2 {
        site.works();
        // Each has a lock of its own: an end that is rounded up to a second keeps the one before.
        let job = site.job(&format!("leased-{digits}"), ["--lease", "2s"]);
        let column = |precision: &str| {
            database.psql(&format!("alter table shedlock alter column lock_until type timestamp{precision}"));
        };
        column(&format!("({digits})"));
        let finished = job.started.finish();
        assert_eq!(finished.code(), Some(123), "{digits}: {finished:?}");
        assert!(finished.stderr.contains("stores no milliseconds"), "{digits}: {finished:?}");
        for run in 0..10 {
            // What was given back ends when the column can say so.
            fails(site.run(&format!("{digits}-{run}"), [""; 0]).arg("true"), "stores no milliseconds");
        }
        column("");
    }
    // A trigger that shortens is called what it is.
    database.psql(
        "create function shorten() returns trigger language plpgsql as \
         'begin new.lock_until := new.lock_until - interval ''1s''; return new; end'; \
         create trigger shorten before insert or update on shedlock for each row execute function shorten()",
    );
    let finished =
        fails(site.run("shortened", [""; 0]).arg("true"), "stores an earlier end of the lock than requested");
    assert!(finished.stderr.contains("\nhint: check its triggers"), "{finished:?}");
    // So is one that frees the lock when the statement has written it.
    database.psql(
        "drop trigger shorten on shedlock; create function free() returns trigger language plpgsql as \
         'begin update shedlock set lock_until = now() - interval ''1s'' where name = new.name; return null; end'; \
         create trigger free after insert or update on shedlock for each row when (pg_trigger_depth() = 0) execute function free()",
    );
    fails(site.run("freed", [""; 0]).arg("true"), "stores an earlier end of the lock than requested");
    // Nor is one in the way that changes nothing.
    database.psql(
        "drop trigger free on shedlock; create function look() returns trigger language plpgsql as 'begin return null; end'; \
         create trigger look after insert or update on shedlock for each row execute function look()",
    );
    finish(&mut site.run("seen", ["true"])).is_silent_with(0);
}

#[test]
fn a_row_that_something_keeps_from_being_changed_is_not_called_freed_by_another() {
    let ignored = "create function ignore() returns trigger language plpgsql as 'begin return null; end'; \
                   create trigger ignore before update on shedlock for each row execute function ignore()";
    let secured = "alter table shedlock enable row level security; \
                   create policy seen on shedlock for select using (true); \
                   create policy made on shedlock for insert with check (true)";
    for sql in [ignored, secured] {
        let database = servers::postgres().database();
        let role = servers::unique("clerk");
        Site::new(database.url()).works();
        database.psql(&format!(
            "delete from shedlock; create role {role} login; \
             grant all on shedlock, shedlock_history, shedlock_history_id_seq to {role}; {sql}"
        ));
        let site = Site::new(database.login(&role).socket_url());
        let finished = finish(&mut site.run("job", ["--backend-timeout", "1s", "true"]));
        assert!(finished.stderr.contains("refuses changes to the lock's row"), "{sql}: {finished:?}");
        assert!(finished.stderr.contains("\nhint: check its row security, triggers and rules"), "{sql}: {finished:?}");
        assert!(row(&database, "job").held, "{sql}");
        // A renewal that changes nothing says the same, and the lock is given up in time.
        let renewed = ["--lease", "3s", "--backend-timeout", "1s", "sleep", "100"];
        let finished = finish(&mut site.run("renewed", renewed));
        assert!(finished.stderr.contains("refuses changes to the lock's row"), "{sql}: {finished:?}");
    }
}

#[test]
fn a_name_that_the_column_takes_for_another_is_refused() {
    let folding = "create collation folding (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    for (prepare, kind) in [("create extension citext", "citext"), (folding, "varchar(64) collate folding")] {
        let database = servers::postgres().database();
        database.psql(&format!(
            "{prepare}; create table shedlock (name {kind} primary key, lock_until timestamp not null, \
             locked_at timestamp not null, locked_by varchar(255) not null)"
        ));
        let site = Site::new(database.url());
        let refused = || {
            let finished = fails(
                site.run("Job", ["--backend-timeout", "20s"]).args(["touch", "ran"]),
                "the column name of shedlock treats Job and job as one lock",
            );
            assert!(finished.stderr.contains("\nhint: use job, or run: ALTER TABLE shedlock"), "{finished:?}");
        };
        // Held and free.
        let job = site.job("job", [""; 0]);
        refused();
        let held = row(&database, "job");
        assert!(held.held && held.owner == job.owner, "{kind}: {held:?}");
        job.end(0).is_silent_with(0);
        refused();
        assert!(!site.place.path("ran").exists());
        assert!(site.is_free("job") && site.is_free("other"), "{kind}");
        assert_eq!(database.psql("select count(*) from shedlock"), "2");
        database.psql("alter table shedlock alter column name type varchar(64)");
        assert!(site.is_free("Job"), "{kind}");
    }
}
