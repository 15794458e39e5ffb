//! Tests the operators' commands on real files.

#![cfg(test)]

use std::path::PathBuf;

use rusqlite::Batch;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::ValueRef;

use super::file::{Directory, File};
use super::*;
use crate::backend::testing::conformance;
use crate::backend::{Admin, Backend, from_url};
use crate::lock::{Claim, Closing, LockName, Owner, Purpose, RunOutcome};
use crate::lock::{ENDLESS, ErrorClass};
use crate::system::Moment;

const MINUTE: Duration = Duration::from_secs(60);
const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/// Holds a directory for a file of locks.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    fn open(&self) -> Box<dyn Admin> {
        self.open_table("shedlock")
    }

    fn open_table(&self, table: &str) -> Box<dyn Admin> {
        let url = format!("sqlite:{}?table={table}", self.path().display());
        from_url(&url, &Access::default()).unwrap().backend
    }

    /// Opens the backend as after a reboot: two minutes from now, so everything in the file is older.
    fn open_in_another_boot(&self) -> SqlLocks<Sqlite> {
        let since_boot = i64::try_from(Moment::now().since_boot().as_millis()).unwrap();
        locks(Sqlite { boot: another_boot(since_boot + 120_000), ..self.database() })
    }

    /// Opens the backend as in a container with a boot id of its own.
    fn open_elsewhere(&self) -> SqlLocks<Sqlite> {
        locks(Sqlite { boot: another_boot(0), ..self.database() })
    }

    fn open_in_no_boot(&self) -> SqlLocks<Sqlite> {
        locks(self.database())
    }

    fn database(&self) -> Sqlite {
        let file = File::new(self.path(), None, Directory::MustExist);
        Sqlite::new(file, "PRAGMA synchronous = NORMAL", "shedlock".to_owned(), Contact::default())
    }

    /// Runs SQL with a client, as a person would, and returns the last value.
    fn sql(&self, sql: &str) -> String {
        let connection = Connection::open(self.path()).unwrap();
        connection.busy_timeout(MINUTE).unwrap();
        let mut last = String::new();
        let mut statements = Batch::new(&connection, sql);
        while let Some(mut statement) = statements.next().unwrap() {
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().unwrap() {
                last = match row.get_ref(0).unwrap() {
                    ValueRef::Null => String::new(),
                    ValueRef::Integer(number) => number.to_string(),
                    value => String::from_utf8_lossy(value.as_bytes().unwrap()).into_owned(),
                };
            }
        }
        last
    }

    fn is_held(&self, name: &str) -> bool {
        is_held(&mut *self.open(), name)
    }
}

fn locks(database: Sqlite) -> SqlLocks<Sqlite> {
    SqlLocks::new(database)
}

fn another_boot(offset_ms: i64) -> Boot {
    Boot { id: Some("00000000-0000-4000-8000-000000000000".to_owned()), offset_ms }
}

fn is_held(backend: &mut dyn Admin, name: &str) -> bool {
    backend.locks(&[name]).unwrap().locks[0].is_held()
}

fn claim(name: &str, number: u64) -> Claim {
    Claim {
        name: LockName::new(name).unwrap(),
        owner: Owner::new("host", 1, number),
        lease: MINUTE,
        keep: 100,
        purpose: Purpose::Run,
    }
}

fn pausing(name: &str) -> Claim {
    Claim { owner: Owner::for_pause("ada", "host", 7, None, "disk"), purpose: Purpose::Pause, ..claim(name, 7) }
}

fn is_granted(backend: &mut dyn Admin, claim: &Claim) -> bool {
    matches!(backend.acquire(claim).unwrap().answer, Acquired::Granted(_))
}

fn works(backend: &mut dyn Admin) {
    let claim = claim("works", 1);
    assert!(matches!(backend.acquire(&claim).unwrap().answer, Acquired::Granted(grant) if grant.token.is_some()));
    let closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
    assert_eq!(backend.release(&claim, Duration::ZERO, closing), Ok(StillHeld::Held.into()));
}

fn change(name: &str, from: &str, to: &str, left: Duration) -> Change {
    Change { name: LockName::new(name).unwrap(), from: from.to_owned(), to: to.to_owned(), left }
}

#[track_caller]
fn complains(error: &BackendError, message: &str, hint: &str) {
    assert_eq!(error.class, ErrorClass::Permanent, "{error:?}");
    assert!(error.message.contains(message), "{error:?}");
    assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{error:?}");
}

#[test]
fn a_job_of_an_earlier_boot_holds_nothing() {
    let place = Place::new();
    assert!(is_granted(&mut *place.open(), &claim("job", 1)));
    assert!(place.is_held("job"));
    let mut later = place.open_in_another_boot();
    assert!(!is_held(&mut later, "job"));
    let (owner, next) = (claim("job", 1).owner, claim("job", 2).owner);
    assert_eq!(later.change(&change("job", owner.as_str(), next.as_str(), MINUTE)), Ok(StillHeld::Lost));
    assert!(place.is_held("job"), "nor is anything changed");
}

#[test]
fn a_job_in_a_container_with_another_boot_id_holds_its_lock_by_the_wall_clock() {
    let place = Place::new();
    assert!(is_granted(&mut *place.open(), &claim("job", 1)));
    let mut tables_elsewhere = place.open_elsewhere();
    let lock = tables_elsewhere.locks(&["job"]).unwrap().locks.remove(0);
    assert!(
        lock.is_held() && lock.state.left <= conformance::requests::ROUNDED_UP && lock.state.left > MINUTE / 2,
        "{lock:?}"
    );
    assert!(!is_granted(&mut tables_elsewhere, &claim("job", 2)));
    // The boot clock of another boot id does not count.
    place.sql("UPDATE shedlock SET boot_until = 1");
    assert!(is_held(&mut tables_elsewhere, "job") && !place.is_held("job"));
    let until = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 second')";
    place.sql(&format!("UPDATE shedlock SET boot_for = locked_by || ' ' || {until}, lock_until = {until}"));
    assert!(is_granted(&mut tables_elsewhere, &claim("job", 2)));
}

#[test]
fn a_pause_outlives_a_reboot() {
    let place = Place::new();
    assert!(is_granted(&mut *place.open(), &pausing("job")));
    for backend in [&mut place.open_in_another_boot(), &mut place.open_in_no_boot()] {
        assert!(is_held(backend, "job"));
        assert!(!is_granted(backend, &claim("job", 2)));
    }
    place.sql("UPDATE shedlock SET lock_until = '2020-01-01T00:00:00.000Z'");
    assert!(!place.is_held("job"), "it goes by the wall clock");
    assert!(is_granted(&mut *place.open(), &claim("job", 3)));
    assert!(!is_held(&mut place.open_in_another_boot(), "job"), "the next run goes by the boot again");
}

#[test]
fn a_pause_judges_a_running_job_by_its_boot() {
    let place = Place::new();
    for name in ["running", "over"] {
        assert!(is_granted(&mut *place.open(), &claim(name, 1)));
    }
    // The wall clock was set far ahead, so the row's end has passed.
    place.sql("UPDATE shedlock SET boot_for = locked_by || ' 2020-01-01T00:00:00.000Z', lock_until = '2020-01-01T00:00:00.000Z'");
    assert!(!is_granted(&mut *place.open(), &pausing("running")));
    assert!(is_granted(&mut place.open_in_another_boot(), &pausing("over")));
    assert!(place.is_held("over"));
}

#[test]
fn what_is_changed_outlives_a_reboot() {
    let place = Place::new();
    for (number, to) in [(1, claim("job", 1).owner), (2, pausing("job").owner)] {
        let claim = claim("job", number);
        assert!(is_granted(&mut *place.open(), &claim));
        let change = change("job", claim.owner.as_str(), to.as_str(), MINUTE);
        assert_eq!(place.open().change(&change), Ok(StillHeld::Held));
        assert!(place.is_held("job"));
        assert!(is_held(&mut place.open_in_another_boot(), "job"));
        place.sql("UPDATE shedlock SET lock_until = '2020-01-01T00:00:00.000Z'");
        assert!(!place.is_held("job"), "the wall clock decides");
    }
}

#[test]
fn what_was_freed_stays_free_when_the_clock_is_set_back() {
    let place = Place::new();
    let claim = claim("job", 1);
    assert!(is_granted(&mut *place.open(), &claim));
    let change = change("job", claim.owner.as_str(), &claim.owner.ended(), Duration::ZERO);
    assert_eq!(place.open().change(&change), Ok(StillHeld::Held));
    // The row is as if freed at a time that is now in the future.
    let later = "'2199-01-01T00:00:00.000Z'";
    place.sql(&format!("UPDATE shedlock SET boot_for = replace(boot_for, lock_until, {later}), lock_until = {later}"));
    assert!(!place.is_held("job"));
    assert!(is_granted(&mut *place.open(), &claim));
}

#[test]
fn a_row_that_no_taking_understands_is_held_and_can_be_freed() {
    let place = Place::new();
    works(&mut *place.open());
    place.sql(&format!(
        "DROP TABLE shedlock; CREATE TABLE shedlock (name PRIMARY KEY, lock_until, locked_at, locked_by); \
         INSERT INTO shedlock VALUES \
         ('blank', '2026-01-31 18:00:00', {NOW}, 'a person'), ('number', 1769882400000, {NOW}, 5), \
         ('null', NULL, NULL, NULL), ('since', '2020-01-01T00:00:00.000Z', 'yesterday', 'ada'), \
         ('far', strftime('%Y-%m-%d %H:%M:%S', 'now', '+1 hour'), {NOW}, ''), (x'fe', {NOW}, {NOW}, x'ff41'), \
         ('plain', strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 hour'), {NOW}, 'somebody')"
    ));
    let mut backend = place.open();
    let found = backend.locks(&[]).unwrap().locks;
    let find = |name: &str| found.iter().find(|lock| lock.name == name).unwrap();
    for (name, owner) in [("blank", "a person"), ("number", "5"), ("null", ""), ("since", "ada"), ("far", "")] {
        let lock = find(name);
        assert!(lock.is_held(), "{lock:?}");
        assert_eq!((lock.state.owner.as_str(), lock.state.since.and(lock.state.until)), (owner, None));
        if !owner.is_empty() {
            assert!(backend.acquire(&claim(name, 1)).is_err(), "{name}");
            assert_eq!(lock.state.left, ENDLESS);
        }
    }
    assert!(find("far").state.left < MINUTE * 61, "as far as it can be read");
    let garbage = find("\u{fffd}");
    assert!(!garbage.is_held() && garbage.state.owner == "\u{fffd}A", "{garbage:?}");
    assert!(find("plain").is_held() && find("plain").state.until.is_some());
    for (name, owner) in [("blank", "a person"), ("far", ""), ("since", "ada")] {
        assert_eq!(backend.change(&change(name, owner, owner, MINUTE)), Ok(StillHeld::Held), "{name}");
        assert!(!is_granted(&mut *backend, &claim(name, 1)), "{name}");
        assert_eq!(backend.change(&change(name, owner, owner, Duration::ZERO)), Ok(StillHeld::Held), "{name}");
        assert!(!is_held(&mut *backend, name) && is_granted(&mut *backend, &claim(name, 1)), "{name}");
    }
}

#[test]
fn a_lock_that_a_trigger_does_not_let_us_write_is_not_taken() {
    let place = Place::new();
    let backend = &mut *place.open();
    works(backend);
    for event in ["UPDATE", "INSERT", "DELETE"] {
        place.sql(&format!("CREATE TRIGGER on_{event} BEFORE {event} ON shedlock BEGIN SELECT RAISE(IGNORE); END"));
    }
    for name in ["works", "new"] {
        complains(&backend.acquire(&claim(name, 2)).unwrap_err(), "did not keep the row of the lock", "trigger");
        assert_eq!(backend.runs(&RunQuery::default()).unwrap().runs.len(), 1, "nor is a run recorded");
    }
    let removal = Removal::new(LockName::new("works").unwrap(), claim("works", 1).owner.ended());
    assert_eq!(backend.forget(&removal), Ok(Forgotten::InUse));
    place.sql("DROP TRIGGER on_UPDATE");
    assert!(is_granted(backend, &claim("works", 3)));
}

#[test]
fn a_table_whose_names_are_no_key_is_no_table_of_locks() {
    let place = Place::new();
    place.sql("CREATE TABLE shedlock (name TEXT, lock_until TEXT, locked_at TEXT, locked_by TEXT)");
    complains(&place.open().acquire(&claim("job", 1)).unwrap_err(), "is not a table of locks", "primary key");
    assert_eq!(place.sql("SELECT count(*) FROM shedlock"), "0");
}

#[test]
fn odd_values_in_the_history_are_listed() {
    let place = Place::new();
    works(&mut *place.open());
    place.sql(
        "INSERT INTO shedlock_history VALUES (-5, 'odd', 'one', x'ff', 'yesterday', 17, 'three', x'41'), \
         ('many', 'odd', 'two', '', '2026-01-31 18:00:00', '2026-01-31T18:00:00Z', 1.5, 3)",
    );
    let found = place.open().runs(&RunQuery::default()).unwrap().runs;
    assert_eq!(found.len(), 3);
    for run in found.iter().filter(|run| run.name == "odd") {
        assert_eq!((run.token, run.started_at, run.ended_at, run.exit_code), (0, None, None, None));
    }
    let since = Some(Timestamp(0));
    assert!(place.open().runs(&RunQuery { since, newest_per_lock: Some(2), ..RunQuery::default() }).is_ok());
}

#[test]
fn who_looks_makes_nothing() {
    let place = Place::new();
    let directory = place.0.path().join("none");
    for path in [place.path(), directory.join("locks.db")] {
        let mut backend = Sqlite::at_default_path(path).backend;
        assert_eq!(backend.locks(&[]).unwrap().locks, []);
        assert_eq!(backend.runs(&RunQuery::default()).unwrap().runs, [][..]);
        assert_eq!(backend.change(&change("job", "a", "b", MINUTE)), Ok(StillHeld::Lost));
        backend.disconnect();
        backend.schema().unwrap();
    }
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 0);
    // `make` creates the directory too.
    let path = directory.join("locks.db").display().to_string();
    let made = [format!("created the file {path}"), "created the table shedlock".to_owned()];
    let mut backend = Sqlite::at_default_path(directory.join("locks.db")).backend;
    assert_eq!(backend.create_missing().unwrap()[..2], made);
    works(&mut *backend);
    // The file exists, without a table of locks.
    place.sql("CREATE TABLE t (x)");
    let mut backend = place.open();
    assert_eq!(backend.locks(&["job"]).unwrap().locks, []);
    assert_eq!(backend.runs(&RunQuery::default()).unwrap().runs, [][..]);
    assert_eq!(backend.change(&change("job", "a", "b", MINUTE)), Ok(StillHeld::Lost));
    assert_eq!(place.sql("SELECT name FROM sqlite_schema"), "t");
}

#[test]
fn a_directory_that_is_missing_is_told() {
    let place = Place::new();
    let url = format!("sqlite:{}/none/locks.db", place.0.path().display());
    let mut backend = from_url(&url, &Access::default()).unwrap().backend;
    complains(&backend.create_missing().unwrap_err(), "none does not exist", "create it with `mkdir");
    complains(&backend.locks(&[]).unwrap_err(), "none does not exist", "create it with `mkdir");
    complains(&backend.runs(&RunQuery::default()).unwrap_err(), "none does not exist", "create it with `mkdir");
    assert!(!place.0.path().join("none").exists());
}

#[test]
fn a_table_made_for_java_gets_its_columns_when_it_is_made() {
    const JAVA: &str = "name VARCHAR(64) NOT NULL PRIMARY KEY, lock_until TEXT NOT NULL, locked_at TEXT NOT NULL, \
                        locked_by VARCHAR(255) NOT NULL";
    let ways = [
        (String::new(), "added to the table shedlock: boot_id, boot_until, boot_for"),
        // Another process has added some of the columns.
        (", boot_id TEXT, boot_until INTEGER".to_owned(), "added to the table shedlock: boot_for"),
    ];
    for (more, line) in ways {
        let place = Place::new();
        place.sql(&format!("CREATE TABLE shedlock ({JAVA}{more})"));
        place.sql(&format!(
            "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES \
                            ('held', strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 hour'), {NOW}, 'java')"
        ));
        let columns = || place.sql("SELECT group_concat(name) FROM pragma_table_info('shedlock')");
        let before = columns();
        let mut backend = place.open();
        assert!(is_held(&mut *backend, "held"));
        assert_eq!(backend.change(&change("held", "java", "java", MINUTE)), Ok(StillHeld::Held));
        assert_eq!(columns(), before);
        let there = "the table shedlock is there";
        assert_eq!(backend.create_missing().unwrap()[1..], [there, line, "created the table shedlock_history"]);
        assert_eq!(columns(), "name,lock_until,locked_at,locked_by,boot_id,boot_until,boot_for");
        assert_eq!(place.open().create_missing().unwrap()[1..], [there, "the table shedlock_history is there"]);
        assert!(place.is_held("held"));
        works(&mut *backend);
    }
}

#[test]
fn tables_of_others_are_told_from_ours() {
    let place = Place::new();
    place.sql("CREATE TABLE shedlock (id INTEGER); CREATE TABLE shedlock_history (id INTEGER, name TEXT)");
    let mut backend = place.open();
    let (not_ours, columns) = ("the table shedlock is not a table of locks", "it needs the columns");
    complains(&backend.locks(&[]).unwrap_err(), not_ours, columns);
    complains(&backend.change(&change("job", "a", "b", MINUTE)).unwrap_err(), not_ours, columns);
    complains(&backend.create_missing().unwrap_err(), not_ours, columns);
    let (history, rename) = ("no history in the table shedlock_history", "rename it");
    complains(&backend.runs(&RunQuery::default()).unwrap_err(), history, rename);
    assert_eq!(place.sql("SELECT count(*) FROM pragma_table_info('shedlock')"), "1", "nothing is added to it");
    place.sql("DROP TABLE shedlock");
    complains(&backend.create_missing().unwrap_err(), history, rename);
}

#[test]
fn the_schema_makes_a_file_that_works() {
    for table in ["shedlock", "locks"] {
        let place = Place::new();
        let mut backend = place.open_table(table);
        let schema = backend.schema().unwrap();
        place.sql(&schema);
        assert_eq!(place.sql("PRAGMA journal_mode"), "wal");
        let things = || place.sql("SELECT group_concat(sql) FROM sqlite_schema");
        let before = things();
        works(&mut *backend);
        assert_eq!(backend.runs(&RunQuery::default()).unwrap().runs.len(), 1);
        backend.create_missing().unwrap();
        assert_eq!(things(), before);
        assert!(before.contains(&format!("{table}_history")), "{before}");
        let comments = schema.lines().filter(|line| line.starts_with("--")).count();
        assert!(comments >= 4 && schema.contains("WAL mode"), "{schema}");
    }
}

#[test]
fn a_file_that_somebody_writes_is_listed_all_the_same() {
    let place = Place::new();
    assert!(is_granted(&mut *place.open(), &claim("job", 1)));
    let writer = Connection::open(place.path()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE; UPDATE shedlock SET locked_by = 'nobody'").unwrap();
    let mut backend = place.open();
    assert!(is_held(&mut *backend, "job"));
    assert_eq!(backend.runs(&RunQuery::default()).unwrap().runs.len(), 1);
    let owner = claim("job", 1).owner;
    let change = change("job", owner.as_str(), owner.as_str(), Duration::ZERO);
    assert_eq!(backend.change(&change).unwrap_err().class, ErrorClass::Transient);
    writer.execute_batch("ROLLBACK").unwrap();
    assert_eq!(backend.change(&change), Ok(StillHeld::Held));
    assert!(!is_held(&mut *backend, "job"));
}

#[test]
fn a_history_with_another_key_works() {
    let columns = "id INTEGER NOT NULL, name VARCHAR(64) NOT NULL, owner VARCHAR(255) NOT NULL, host VARCHAR(255) NOT NULL, \
                   started_at TEXT NOT NULL, ended_at TEXT, exit_code INTEGER, outcome TEXT";
    // The first key is that of earlier versions.
    for table in [format!("({columns}, PRIMARY KEY (name, owner)) WITHOUT ROWID"), format!("({columns})")] {
        for test in [
            conformance::taking_again_has_a_larger_token_and_one_record,
            conformance::taking_again_after_another_s_run_leaves_one_record,
            conformance::a_run_is_recorded_and_closed,
            conformance::a_record_is_closed_also_when_the_lock_was_lost,
            conformance::an_unused_acquisition_leaves_no_record,
            conformance::only_the_last_runs_are_kept,
            conformance::a_long_history_is_pruned_now_and_then,
        ] {
            let store = servers::stores::SqliteStore::new();
            let path = servers::stores::Store::url(&store).replace("sqlite:", "");
            Connection::open(path).unwrap().execute_batch(&format!("CREATE TABLE shedlock_history {table}")).unwrap();
            test(&store);
        }
    }
}

#[test]
fn a_column_of_others_that_needs_a_value_is_named() {
    let place = Place::new();
    place.open().create_missing().unwrap();
    place.sql(
        "drop table shedlock; create table shedlock (name text primary key, lock_until text not null, \
         locked_at text not null, locked_by text not null, extra text not null)",
    );
    let error = place.open().acquire(&claim("job", 1)).unwrap_err();
    complains(&error, "the column extra of shedlock requires a value, but shedlock writes none", "give it a default");
}

#[test]
fn tokens_grow_although_an_older_file_was_restored() {
    let place = Place::new();
    let token = |backend: &mut dyn Admin, number: u64| {
        let claim = claim("job", number);
        let Acquired::Granted(grant) = backend.acquire(&claim).unwrap().answer else { panic!("held") };
        let closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
        backend.release(&claim, Duration::ZERO, closing).unwrap();
        grant.token.unwrap()
    };
    let first = token(&mut *place.open(), 1);
    // An older file lacks the records.
    place.sql("delete from shedlock_history");
    let second = token(&mut *place.open(), 2);
    assert!(second > first);
    // Ids that are ahead of the clock, as COPY of another file may bring.
    place.sql("update shedlock_history set id = id + 86400000");
    assert!(token(&mut *place.open(), 3) > second + 86_400_000);
}
