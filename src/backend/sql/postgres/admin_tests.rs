//! Tests the requests of administrators on real servers.

#![cfg(test)]

use std::time::Duration;

use crate::backend::{Access, Admin, from_url};
use crate::lock::{Acquired, BackendError, ErrorClass, Forgotten, StillHeld};
use crate::lock::{Change, Claim, Closing, Lock, LockName, Owner, Purpose, Removal, RunOutcome, RunQuery};
use crate::system::Timestamp;
use servers::{Postgres, PostgresDatabase, postgres};

const MINUTE: Duration = Duration::from_secs(60);

fn open(url: &str) -> Box<dyn Admin> {
    from_url(url, &Access { timeout: Duration::from_secs(10), ..Access::default() }).unwrap().backend
}

fn claim(owner: Owner) -> Claim {
    Claim { name: LockName::new("job").unwrap(), owner, lease: MINUTE, keep: 100, purpose: Purpose::Run }
}

/// Acquires the lock once and releases it.
fn works(backend: &mut dyn Admin) {
    static RUNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1000);
    let number = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let claim = claim(Owner::new("host", 1, number));
    assert!(matches!(backend.acquire(&claim).unwrap().answer, Acquired::Granted(grant) if grant.token.is_some()));
    let closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
    assert_eq!(backend.release(&claim, Duration::ZERO, closing), Ok(StillHeld::Held.into()));
}

fn change(from: &str, to: &str, left: Duration) -> Change {
    Change { name: LockName::new("job").unwrap(), from: from.to_owned(), to: to.to_owned(), left }
}

/// Creates a role without any right, which can log in to the database.
fn role(database: &PostgresDatabase, name: &str) -> (String, Box<dyn Admin>) {
    let role = format!("{}_{name}", database.name);
    database.psql(&format!("create role {role} login; revoke create on schema public from public"));
    let backend = open(&database.login(&role).url());
    (role, backend)
}

#[track_caller]
fn complains(error: &BackendError, message: &str, hint: &str) {
    assert_eq!(error.class, ErrorClass::Permanent, "{error:?}");
    assert!(error.message.contains(message), "{error:?}");
    assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{error:?}");
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn both_kinds_of_times_are_read_and_infinity() {
    for kind in ["timestamp", "timestamptz"] {
        let database = postgres().database();
        database.psql(&format!("alter database {} set timezone = 'America/St_Johns'", database.name));
        database.psql(&format!(
            "create table shedlock (name text primary key, lock_until {kind}, locked_at {kind}, locked_by text); \
             set timezone = 'UTC'; insert into shedlock values \
             ('endless', 'infinity', '2026-01-31 18:00:00.123456', 'a person'), \
             ('free', '-infinity', '-infinity', ''), ('null', null, null, null), \
             ('plain', now() + interval '1h', now(), 'somebody'), \
             ('past', now() - interval '1s', now() - interval '2s', 'somebody')"
        ));
        let mut backend = open(&database.url());
        let found = backend.locks(&[]).unwrap();
        let [endless, free, null, past, plain] = &found.locks[..] else { panic!("{kind}: {found:?}") };
        assert_eq!(endless.state.owner, "a person");
        assert_eq!(endless.state.since, Timestamp::parse("2026-01-31T18:00:00.123Z"), "{kind}");
        assert_eq!((endless.state.until, endless.state.left), (None, crate::lock::ENDLESS));
        assert_eq!([free, null, past].map(Lock::is_held), [false; 3], "{kind}: {found:?}");
        assert_eq!((free.state.since, null.state.until), (None, None));
        assert!(plain.state.left > MINUTE * 59 && plain.state.left <= MINUTE * 60, "{kind}: {plain:?}");
        // The lock had no end, and now has one; its time of acquisition is that of the change.
        let change = Change { name: LockName::new("endless").unwrap(), ..change("a person", "another", MINUTE) };
        assert_eq!(backend.change(&change), Ok(StillHeld::Held));
        let lock = &backend.locks(&["endless"]).unwrap().locks[0];
        assert!(lock.state.left > MINUTE / 2 && lock.state.left <= MINUTE, "{kind}: {lock:?}");
        assert!(found.now.0.abs_diff(lock.state.since.unwrap().0) < 20_000, "{kind}: {lock:?}");
        // There is no history.
        let gone = Forgotten::Gone { lock: true, runs: 0 };
        for (name, seen, answer) in [
            ("endless", "another", Forgotten::InUse),
            ("plain", "somebody", Forgotten::InUse),
            ("free", "", gone),
            ("null", "", gone),
            ("past", "somebody", gone),
        ] {
            let removal = Removal::new(LockName::new(name).unwrap(), seen.to_owned());
            assert_eq!(backend.forget(&removal), Ok(answer), "{kind}: {name}");
        }
        assert_eq!(
            database.psql("select string_agg(name, ',' order by name) from shedlock"),
            "endless,plain",
            "{kind}"
        );
    }
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn odd_values_in_the_history_are_listed() {
    let database = postgres().database();
    let mut backend = open(&database.url());
    works(&mut *backend);
    database.psql(
        "alter table shedlock_history alter owner drop not null, alter host drop not null, \
         alter started_at drop not null; \
         insert into shedlock_history values (-5, 'a\tb', null, null, null, 'infinity', -1, 'whatever'), \
         (9223372036854775807, '', '', '', '-infinity', '-infinity', 2147483647, '')",
    );
    let found = backend.runs(&RunQuery::default()).unwrap().runs;
    assert_eq!(found.len(), 3);
    let odd = found.iter().find(|run| run.name == "a\\tb" || run.name == "a\tb").unwrap();
    assert_eq!((odd.token, odd.started_at, odd.ended_at, odd.exit_code), (0, None, None, Some(-1)));
    assert_eq!((odd.owner.as_str(), odd.outcome.as_deref()), ("", Some("whatever")));
    let since = Some(Timestamp::now());
    let found = backend.runs(&RunQuery { since, ..RunQuery::default() }).unwrap().runs;
    assert_eq!(found.len(), 1, "infinity is not over: {found:?}");
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn the_newest_runs_of_a_lock_have_its_largest_tokens_whatever_the_clock_said() {
    let database = postgres().database();
    let mut backend = open(&database.url());
    (0..4).for_each(|_| works(&mut *backend));
    database.psql(
        "update shedlock_history set started_at = started_at + interval '1 year' \
         where id < (select max(id) - 1 from shedlock_history)",
    );
    let mut tokens = |newest_per_lock| -> Vec<u64> {
        let found = backend.runs(&RunQuery { newest_per_lock, ..RunQuery::default() }).unwrap().runs;
        found.iter().map(|run| run.token).collect()
    };
    let all = tokens(None);
    let newest = *all.iter().max().unwrap();
    assert_eq!(all, [newest - 2, newest - 3, newest, newest - 1]);
    assert_eq!(tokens(Some(2)), [newest, newest - 1]);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn who_may_only_look_may_look() {
    let database = postgres().database();
    works(&mut *open(&database.url()));
    database.psql("update shedlock set lock_until = now() + interval '1h', locked_by = 'somebody'");
    let (role, mut backend) = role(&database, "watcher");
    complains(&backend.locks(&[]).unwrap_err(), "permission denied", "needs SELECT");
    database.psql(&format!("grant select on shedlock to {role}"));
    assert!(backend.locks(&["job"]).unwrap().locks[0].is_held());
    let hint = format!("GRANT SELECT ON shedlock_history TO {role}");
    complains(&backend.runs(&RunQuery::default()).unwrap_err(), "no history in the table shedlock_history", &hint);
    database.psql(&format!("grant select on shedlock_history to {role}"));
    assert_eq!(backend.runs(&RunQuery::default()).unwrap().runs.len(), 1);
    assert_eq!(backend.create_missing().unwrap().len(), 2);
    complains(&backend.change(&change("somebody", "else", MINUTE)).unwrap_err(), "permission denied", "UPDATE");
    // Reading works also where the server makes the role's sessions read-only.
    for setting in [format!("role {role}"), format!("role {role} in database {}", database.name)] {
        database.psql(&format!("alter {setting} set default_transaction_read_only = on"));
        backend.disconnect();
        assert!(backend.locks(&["job"]).unwrap().locks[0].is_held(), "{setting}");
        database.psql(&format!("alter {setting} reset default_transaction_read_only"));
    }
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn what_may_not_be_made_is_shown() {
    let database = postgres().database();
    let (_, mut backend) = role(&database, "clerk");
    let refusal = backend.create_missing().unwrap_err();
    complains(&refusal, "there is no table shedlock, and it cannot be created: permission denied", "CREATE TABLE");
    let statement = refusal.hint.unwrap().split_once("owner to run: ").unwrap().1.to_owned();
    database.psql(&statement);
    let refusal = backend.create_missing().unwrap_err();
    complains(
        &refusal,
        "no history in the table shedlock_history: it does not exist, and it cannot be created",
        "CREATE TABLE IF NOT EXISTS shedlock_history",
    );
    assert_eq!(backend.locks(&[]).unwrap_err().class, ErrorClass::Permanent);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn the_lines_say_what_was_made() {
    let database = postgres().database();
    database.psql(
        "create schema ops; create table ops.locks (name text primary key, lock_until timestamp, \
                   locked_at timestamp, locked_by text)",
    );
    let mut backend = open(&format!("{}?table=ops.Locks", database.url()));
    let made = ["the table ops.Locks is there", "created the table ops.Locks_history"];
    assert_eq!(backend.create_missing().unwrap(), made);
    let again = ["the table ops.Locks is there", "the table ops.Locks_history is there"];
    assert_eq!(backend.create_missing().unwrap(), again);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn tables_of_others_are_told_from_ours() {
    let database = postgres().database();
    database.psql("create table shedlock (id int); create table shedlock_history (id int, name text)");
    let mut backend = open(&database.url());
    let (not_ours, columns) = ("the table shedlock is not a table of locks", "it needs the columns");
    complains(&backend.locks(&[]).unwrap_err(), not_ours, columns);
    complains(&backend.change(&change("a", "b", MINUTE)).unwrap_err(), not_ours, columns);
    complains(&backend.create_missing().unwrap_err(), not_ours, columns);
    let (history, rename) = ("no history in the table shedlock_history", "rename it, and create instead: CREATE");
    complains(&backend.runs(&RunQuery::default()).unwrap_err(), history, rename);
    database.psql("drop table shedlock");
    complains(&backend.create_missing().unwrap_err(), history, rename);
    // The right to create the table makes no difference.
    assert_eq!(backend.locks(&[]).unwrap().locks, []);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn the_schema_lets_a_user_work_who_may_make_nothing() {
    let database = postgres().database();
    let (role, mut backend) = role(&database, "jobs");
    let rights = |schema: &str| -> String {
        schema.lines().filter_map(|line| line.strip_prefix("-- ")).filter(|line| line.starts_with("GRANT")).collect()
    };
    let schema = backend.schema().unwrap();
    database.psql(&schema);
    complains(&backend.locks(&[]).unwrap_err(), "permission denied", "SELECT");
    database.psql(&rights(&schema));
    works(&mut *backend);
    assert_eq!(backend.runs(&RunQuery::default()).unwrap().runs.len(), 1);
    // The test repeats this with the tables in another schema.
    let mut backend = open(&format!("{}?table=ops.locks", database.login(&role).url()));
    let schema = backend.schema().unwrap();
    let prepare = schema.lines().find_map(|line| line.split_once("must exist: ")).unwrap().1;
    database.psql(prepare);
    database.psql(&schema);
    database.psql(&rights(&schema));
    works(&mut *backend);
    assert_eq!(database.psql("select count(*) from ops.locks_history"), "1");
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_standby_is_not_asked() {
    let primary = Postgres::fresh(&[]);
    let database = primary.database();
    let name = &database.name;
    works(&mut *open(&database.url()));
    let standby = primary.standby();
    // The barred server reports itself read-only, and has no table.
    let barred = Postgres::only_read(name);
    for other in [standby.port(), barred.port()] {
        let url = |ports: [u16; 2]| {
            let hosts = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
            format!("postgres://postgres@{hosts}/{name}")
        };
        for ports in [[other, primary.port()], [primary.port(), other]] {
            let mut backend = open(&url(ports));
            assert_eq!(backend.locks(&[]).unwrap().locks.len(), 1);
            let mut backend = open(&url(ports));
            assert!(!backend.runs(&RunQuery::default()).unwrap().runs.is_empty());
            let mut backend = open(&url(ports));
            works(&mut *backend);
            database.psql("update shedlock set lock_until = now() + interval '1h', locked_by = 'somebody'");
            let mut backend = open(&url(ports));
            assert_eq!(backend.change(&change("somebody", "else", MINUTE)), Ok(StillHeld::Held));
            assert_eq!(backend.locks(&[]).unwrap().locks[0].state.owner, "else");
            database.psql("update shedlock set lock_until = now()");
        }
        let mut alone = open(&url([other, other]));
        for error in [
            alone.locks(&[]).unwrap_err(),
            alone.runs(&RunQuery::default()).unwrap_err(),
            alone.change(&change("else", "else", MINUTE)).unwrap_err(),
            alone.create_missing().unwrap_err(),
        ] {
            assert_eq!(error.class, ErrorClass::Transient, "{error:?}");
            assert!(error.hint.unwrap().contains("a lock needs a writable server"));
        }
    }
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_column_of_others_that_needs_a_value_is_named() {
    let database = postgres().database();
    let mut backend = open(&database.url());
    works(&mut *backend);
    database.psql("delete from shedlock; alter table shedlock add extra integer not null");
    let error = backend.acquire(&claim(Owner::new("host", 1, 1))).unwrap_err();
    complains(&error, "the column extra of shedlock requires a value, but shedlock writes none", "give it a default");
    let mut found = Vec::new();
    backend.check(&mut |finding| found.push(finding));
    assert!(
        found.iter().any(|finding| finding.seen == "extra requires a value, but shedlock writes none"),
        "{found:?}"
    );
}
