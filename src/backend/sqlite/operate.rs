//! What people ask of the store, and have done to it. Only [`Operate::make`] makes anything: where there is no file or no
//! table there are no locks and no runs.

use std::time::Duration;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row};

use super::statements::{ADD_COLUMNS, CREATE, Fault, Form, SYNCHRONOUS_FULL, Statements, kept, modifier, time};
use super::{Sqlite, history, is_busy};
use crate::backend::{FOR_EVER, Finding, Kept, Operate, Trouble};
use crate::clock::Timestamp;
use crate::lock::{Change, Lock, Locks, PastRun, Record, Runs, Wanted};

/// `{odd}`: a taking complains of the row's times, so it does not get the lock.
const ODD: &str = "(strftime('%Y-%m-%dT%H:%M:%fZ', lock_until) IS NOT coalesce(lock_until, '') \
                    OR strftime('%Y-%m-%dT%H:%M:%fZ', locked_at) IS NOT coalesce(locked_at, ''))";

const LIST: &str = "SELECT name, locked_by, locked_at, lock_until, {held} OR {odd}, {left} FROM {table} \
                    WHERE :names IS NULL OR name IN (SELECT value FROM json_each(:names))";

const RUNS: &str = "SELECT id, name, owner, host, started_at, ended_at, exit_code, outcome FROM \
                    (SELECT *, row_number() OVER (PARTITION BY name ORDER BY started_at DESC, id DESC) AS place FROM {history} \
                     WHERE (:names IS NULL OR name IN (SELECT value FROM json_each(:names))) \
                           AND (:since IS NULL OR ended_at IS NULL OR ended_at >= :since)) \
                    WHERE :of_each IS NULL OR place <= :of_each \
                    ORDER BY started_at DESC, id DESC, name LIMIT coalesce(:limit, -1)";

/// One that is repeated finds its own owner, and does the same again. What is held from now on has no boot, and what is free
/// is marked as a release does it. A row that no taking understands is put in order.
const CHANGE: &str = "UPDATE {table} SET locked_by = :to, \
                             locked_at = CASE WHEN locked_by = :to AND NOT {odd} THEN locked_at \
                                              ELSE strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END, \
                             lock_until = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :left){boot} \
                      WHERE name = :name AND locked_by IN (:from, :to) AND ({held} OR {odd})";

/// `{boot}`: what a change writes into a table of ours in addition.
const CHANGE_BOOT: &str = ", boot_id = CASE WHEN :left_ms > 0 THEN NULL ELSE :boot END, boot_until = 0, \
                             boot_for = :to || ' ' || strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :left)";

impl Sqlite {
    /// The locks of these names, or all.
    pub(super) fn list(&mut self, names: &[&str]) -> Result<Locks, Trouble> {
        let found = self.on_what_is_there(|connection, statements| {
            let values = [(":names", json(names)), (":boot", statements.boot.map(str::to_owned).into())];
            Ok(query(connection, &fill(statements, LIST), &values, lock)?)
        })?;
        let mut locks = found.unwrap_or_default();
        locks.sort_by(|one: &Lock, other| one.name.cmp(&other.name));
        Ok(Locks { now: Timestamp::now(), locks })
    }

    /// Runs `operation` if there are a file and a table, which are left as they are.
    fn on_what_is_there<T>(
        &mut self,
        operation: impl Fn(&Connection, &Statements<'_>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Trouble> {
        let opened = match self.connection.take() {
            Some(connection) => Some(connection),
            None => self.connect_to_file()?,
        };
        let Some(connection) = opened else {
            self.file.miss_directory()?;
            return Ok(None);
        };
        let mut statements = self.statements();
        let mut answer = operation(&connection, &statements);
        if answer.as_ref().is_err_and(|fault| fault.remedy() == Some(ADD_COLUMNS)) {
            statements.form = Form::Javas;
            answer = operation(&connection, &statements);
        }
        let fault = match answer {
            Err(fault) if fault.remedy().is_none_or(|remedy| remedy == ADD_COLUMNS) => fault,
            answer => {
                self.connection = Some(connection);
                return Ok(answer.ok());
            }
        };
        if is_busy(fault.error()) && connection.is_autocommit() {
            self.connection = Some(connection);
        }
        Err(self.complain(&fault))
    }

    /// Says what is wrong with a table, or with the file.
    fn complain(&self, fault: &Fault) -> Trouble {
        match fault {
            Fault::History(error) if history::is_foreign(error) => self.unrecorded_because(error),
            Fault::Lock(error) if history::is_foreign(error) => {
                let (path, table) = (self.file.path().display(), &self.table);
                Trouble::lasting(format!("backend {path}: the table {table} is not one of locks: {error}"))
                    .hint("it needs the columns name, the primary key, lock_until, locked_at and locked_by")
            }
            fault => self.explain(fault.error()),
        }
    }

    /// Puts the tables of a file in order, and tells of each.
    fn make_tables(&self, connection: &Connection) -> Result<Vec<String>, Fault> {
        let statements = self.statements();
        let mut lines = Vec::new();
        let tables = [(self.table.clone(), CREATE), (format!("{}_history", self.table), history::CREATE)];
        for (table, create) in tables {
            let sql = "SELECT name FROM pragma_table_info(:table)";
            let columns = query(connection, sql, &[(":table", table.clone().into())], |row| Ok(text(row, 0)))?;
            if columns.is_empty() {
                connection.execute_batch(&statements.fill(create))?;
                lines.push(format!("made the table {table}"));
                continue;
            }
            lines.push(format!("the table {table} is there"));
            if create == history::CREATE {
                continue;
            }
            // Nothing is added to a table that is another's.
            connection.prepare(&statements.fill("SELECT name, lock_until, locked_at, locked_by FROM {table}"))?;
            let is_missing = |column: &&(&str, &str)| columns.iter().all(|there| there != column.0);
            let missing: Vec<_> = BOOT_COLUMNS.iter().filter(is_missing).collect();
            if missing.is_empty() {
                continue;
            }
            let add = |(column, kind): &&(&str, &str)| format!("ALTER TABLE {{table}} ADD COLUMN {column} {kind};");
            let add: String = missing.iter().map(add).collect();
            connection.execute_batch(&statements.fill(&format!("BEGIN IMMEDIATE; {add} COMMIT")))?;
            let names: Vec<_> = missing.iter().map(|(column, _)| *column).collect();
            lines.push(format!("added to the table {table}: {}", names.join(", ")));
        }
        connection.prepare(&fill(&statements, RUNS)).map_err(Fault::History)?;
        Ok(lines)
    }
}

/// What a table has that was made for Java once we have used it.
const BOOT_COLUMNS: [(&str, &str); 3] = [("boot_id", "TEXT"), ("boot_until", "INTEGER"), ("boot_for", "TEXT")];

impl Operate for Sqlite {
    fn runs(&mut self, wanted: &Wanted) -> Result<Runs, Trouble> {
        let found = self.on_what_is_there(|connection, statements| {
            let values = [
                (":names", json(&wanted.names)),
                (":since", wanted.since.map(|since| since.to_string()).into()),
                (":of_each", wanted.of_each.into()),
                (":limit", wanted.limit.into()),
            ];
            query(connection, &fill(statements, RUNS), &values, run).map_err(Fault::History)
        })?;
        Ok(Runs { now: Timestamp::now(), runs: found.unwrap_or_default() })
    }

    fn change(&mut self, change: &Change) -> Result<Kept, Trouble> {
        let changed = self.on_what_is_there(|connection, statements| {
            let (left, left_ms) = modifier(change.left);
            let values: [(&str, Value); 6] = [
                (":name", change.name.as_str().to_owned().into()),
                (":from", change.from.clone().into()),
                (":to", change.to.clone().into()),
                (":left", left.into()),
                (":left_ms", left_ms.into()),
                (":boot", statements.boot.map(str::to_owned).into()),
            ];
            connection.execute_batch(SYNCHRONOUS_FULL)?;
            query(connection, &fill(statements, CHANGE), &values, |_| Ok(()))?;
            Ok(kept(connection.changes()))
        })?;
        Ok(changed.unwrap_or(Kept::Lost))
    }

    fn make(&mut self) -> Result<Vec<String>, Trouble> {
        let opened = match self.connection.take() {
            Some(connection) => Some(connection),
            None => self.connect_to_file()?,
        };
        let Some(connection) = opened else {
            self.connection = Some(self.connect()?);
            let (path, table) = (self.file.path().display(), &self.table);
            return Ok(vec![
                format!("made the file {path}"),
                format!("made the table {table}"),
                format!("made the table {table}_history"),
            ]);
        };
        let mut lines = vec![format!("the file {} is there", self.file.path().display())];
        lines.extend(self.make_tables(&connection).map_err(|fault| self.complain(&fault))?);
        self.connection = Some(connection);
        Ok(lines)
    }

    fn schema(&self) -> String {
        let statements = self.statements();
        let (create, create_history) = (statements.fill(CREATE), statements.fill(history::CREATE));
        format!("{SCHEMA}{create};\n\n-- The runs of each lock, and the tokens:\n{create_history};\n")
    }

    fn check(&mut self, tell: &mut dyn FnMut(Finding)) -> crate::backend::Reached {
        self.probe(tell)
    }
}

const SCHEMA: &str = "\
-- What shedlock needs in a SQLite file. It makes the file by itself when it first takes a lock, with these tables;
-- this is for a file that is to be there before. It has to be in WAL mode, on a local disk. Whoever uses its locks
-- needs the right to read and write the file and to write to its directory: SQLite knows no other rights.
PRAGMA journal_mode = WAL;

-- The locks, as the Java library ShedLock has them, and the boot of the machine that a running job lives in:
";

fn fill(statements: &Statements<'_>, statement: &str) -> String {
    let boot = if statements.form == Form::Ours { CHANGE_BOOT } else { "" };
    statements.fill(&statement.replace("{odd}", ODD).replace("{boot}", boot))
}

/// Names as a parameter; null for all.
fn json<T: AsRef<str>>(names: &[T]) -> Value {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { Value::Null } else { serde_json::json!(names).to_string().into() }
}

/// Runs a statement to its end, and reads its rows. It may know some of the values only.
fn query<T>(
    connection: &Connection,
    statement: &str,
    values: &[(&str, Value)],
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut prepared = connection.prepare(statement)?;
    for (key, value) in values {
        if let Some(index) = prepared.parameter_index(key)? {
            prepared.raw_bind_parameter(index, value)?;
        }
    }
    let mut rows = prepared.raw_query();
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn lock(row: &Row<'_>) -> rusqlite::Result<Lock> {
    let (held, left): (bool, Option<i64>) = (row.get(4)?, row.get(5)?);
    let left = left.and_then(|left| left.try_into().ok()).filter(|left| *left > 0).map(Duration::from_millis);
    let (since, until) = (time(row, 2).ok(), time(row, 3).ok());
    let left = match (held, since.and(until)) {
        (false, _) => Duration::ZERO,
        // It ends within this millisecond.
        (true, Some(_)) => left.unwrap_or(Duration::from_millis(1)),
        (true, None) => left.unwrap_or(FOR_EVER),
    };
    let record = Record { owner: text(row, 1), since, until, left };
    Ok(Lock { name: text(row, 0), record })
}

fn run(row: &Row<'_>) -> rusqlite::Result<PastRun> {
    let number = |index| row.get_ref(index).ok().and_then(|value| value.as_i64().ok());
    let outcome = row.get_ref(7)? != ValueRef::Null;
    Ok(PastRun {
        token: number(0).and_then(|id| id.try_into().ok()).unwrap_or_default(),
        name: text(row, 1),
        owner: text(row, 2),
        host: text(row, 3),
        started_at: time(row, 4).ok(),
        ended_at: time(row, 5).ok(),
        exit_code: number(6),
        outcome: outcome.then(|| text(row, 7)),
    })
}

/// Whatever is there, as text: a person or another program may have written it.
fn text(row: &Row<'_>, index: usize) -> String {
    match row.get_ref(index) {
        Ok(ValueRef::Text(text) | ValueRef::Blob(text)) => String::from_utf8_lossy(text).into_owned(),
        Ok(ValueRef::Integer(number)) => number.to_string(),
        Ok(ValueRef::Real(number)) => number.to_string(),
        Ok(ValueRef::Null) | Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rusqlite::Batch;
    use rusqlite::fallible_iterator::FallibleIterator;

    use super::super::file::{Directory, File};
    use super::*;
    use crate::backend::{Acquired, TroubleKind, from_url};
    use crate::lock::{Claim, Closing, LockName, Owner, Purpose, Verdict};

    const MINUTE: Duration = Duration::from_secs(60);
    const NOW: &str = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

    /// A directory in which a file of locks is or will be.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self) -> PathBuf {
            self.0.path().join("locks.db")
        }

        fn open(&self) -> Box<dyn Operate> {
            self.open_table("shedlock")
        }

        fn open_table(&self, table: &str) -> Box<dyn Operate> {
            let url = format!("sqlite:{}?table={table}", self.path().display());
            from_url(&url, &crate::backend::Access::default()).unwrap()
        }

        /// The backend as it is after the machine has started anew: two minutes from now, so all in the file is older.
        fn open_in_another_boot(&self) -> Sqlite {
            Sqlite { ahead_ms: super::super::connect::boot_ms() + 120_000, ..self.open_elsewhere() }
        }

        /// The backend as it is in a container with a boot id of its own.
        fn open_elsewhere(&self) -> Sqlite {
            Sqlite { boot: Some("00000000-0000-4000-8000-000000000000".to_owned()), ..self.open_in_no_boot() }
        }

        fn open_in_no_boot(&self) -> Sqlite {
            let file = File::new(self.path(), None, Directory::MustExist);
            Sqlite::new(file, "PRAGMA synchronous = NORMAL", "shedlock".to_owned())
        }

        /// As a person would, with a client; what it answers last.
        fn sql(&self, sql: &str) -> String {
            let connection = Connection::open(self.path()).unwrap();
            connection.busy_timeout(MINUTE).unwrap();
            let mut last = String::new();
            let mut statements = Batch::new(&connection, sql);
            while let Some(mut statement) = statements.next().unwrap() {
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next().unwrap() {
                    last = text(row, 0);
                }
            }
            last
        }

        fn is_held(&self, name: &str) -> bool {
            is_held(&mut *self.open(), name)
        }
    }

    fn is_held(backend: &mut dyn Operate, name: &str) -> bool {
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
        Claim { owner: Owner::of_pause("ada", "host", 7, None, "disk"), purpose: Purpose::Pause, ..claim(name, 7) }
    }

    fn is_granted(backend: &mut dyn Operate, claim: &Claim) -> bool {
        matches!(backend.acquire(claim).unwrap().answer, Acquired::Granted(_))
    }

    fn works(backend: &mut dyn Operate) {
        let claim = claim("works", 1);
        assert!(matches!(backend.acquire(&claim).unwrap().answer, Acquired::Granted(grant) if grant.token.is_some()));
        let closing = Closing::Ended { verdict: Verdict::Success, exit_code: Some(0) };
        assert_eq!(backend.release(&claim, Duration::ZERO, closing), Ok(Kept::Kept.into()));
    }

    fn change(name: &str, from: &str, to: &str, left: Duration) -> Change {
        Change { name: LockName::new(name).unwrap(), from: from.to_owned(), to: to.to_owned(), left }
    }

    #[track_caller]
    fn complains(trouble: &Trouble, message: &str, hint: &str) {
        assert_eq!(trouble.kind, TroubleKind::Lasting, "{trouble:?}");
        assert!(trouble.message.contains(message), "{trouble:?}");
        assert!(trouble.hint.as_deref().unwrap_or_default().contains(hint), "{trouble:?}");
    }

    #[test]
    fn a_job_of_an_earlier_boot_holds_nothing() {
        let place = Place::new();
        assert!(is_granted(&mut *place.open(), &claim("job", 1)));
        assert!(place.is_held("job"));
        let mut later = place.open_in_another_boot();
        assert!(!is_held(&mut later, "job"));
        let (owner, next) = (claim("job", 1).owner, claim("job", 2).owner);
        assert_eq!(later.change(&change("job", owner.as_str(), next.as_str(), MINUTE)), Ok(Kept::Lost));
        assert!(place.is_held("job"), "nor is anything changed");
    }

    #[test]
    fn a_job_in_a_container_with_another_boot_id_holds_its_lock_by_the_wall_clock() {
        let place = Place::new();
        assert!(is_granted(&mut *place.open(), &claim("job", 1)));
        let mut elsewhere = place.open_elsewhere();
        let lock = elsewhere.list(&["job"]).unwrap().locks.remove(0);
        assert!(lock.is_held() && lock.record.left <= MINUTE && lock.record.left > MINUTE / 2, "{lock:?}");
        assert!(!is_granted(&mut elsewhere, &claim("job", 2)));
        // Nor does another's boot clock count.
        place.sql("UPDATE shedlock SET boot_until = 1");
        assert!(is_held(&mut elsewhere, "job") && !place.is_held("job"));
        let until = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 second')";
        place.sql(&format!("UPDATE shedlock SET boot_for = locked_by || ' ' || {until}, lock_until = {until}"));
        assert!(is_granted(&mut elsewhere, &claim("job", 2)));
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
        // The wall clock was set far ahead, and the row's end is past by it.
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
            assert_eq!(place.open().change(&change), Ok(Kept::Kept));
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
        assert_eq!(place.open().change(&change), Ok(Kept::Kept));
        // As if it had been freed in what is now the future.
        let later = "'2199-01-01T00:00:00.000Z'";
        place.sql(&format!(
            "UPDATE shedlock SET boot_for = replace(boot_for, lock_until, {later}), lock_until = {later}"
        ));
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
            assert_eq!((lock.record.owner.as_str(), lock.record.since.and(lock.record.until)), (owner, None));
            if !owner.is_empty() {
                assert!(backend.acquire(&claim(name, 1)).is_err(), "{name}");
                assert_eq!(lock.record.left, FOR_EVER);
            }
        }
        assert!(find("far").record.left < MINUTE * 61, "as far as it can be read");
        let garbage = find("\u{fffd}");
        assert!(!garbage.is_held() && garbage.record.owner == "\u{fffd}A", "{garbage:?}");
        assert!(find("plain").is_held() && find("plain").record.until.is_some());
        for (name, owner) in [("blank", "a person"), ("far", ""), ("since", "ada")] {
            assert_eq!(backend.change(&change(name, owner, owner, MINUTE)), Ok(Kept::Kept), "{name}");
            assert!(!is_granted(&mut *backend, &claim(name, 1)), "{name}");
            assert_eq!(backend.change(&change(name, owner, owner, Duration::ZERO)), Ok(Kept::Kept), "{name}");
            assert!(!is_held(&mut *backend, name) && is_granted(&mut *backend, &claim(name, 1)), "{name}");
        }
    }

    #[test]
    fn odd_values_in_the_history_are_listed() {
        let place = Place::new();
        works(&mut *place.open());
        place.sql(
            "INSERT INTO shedlock_history VALUES (-5, 'odd', 'one', x'ff', 'yesterday', 17, 'three', x'41'), \
             ('many', 'odd', 'two', '', '2026-01-31 18:00:00', '2026-01-31T18:00:00Z', 1.5, 3)",
        );
        let found = place.open().runs(&Wanted::default()).unwrap().runs;
        assert_eq!(found.len(), 3);
        for run in found.iter().filter(|run| run.name == "odd") {
            assert_eq!((run.token, run.started_at, run.ended_at, run.exit_code), (0, None, None, None));
        }
        let since = Some(Timestamp(0));
        assert!(place.open().runs(&Wanted { since, of_each: Some(2), ..Wanted::default() }).is_ok());
    }

    #[test]
    fn who_looks_makes_nothing() {
        let place = Place::new();
        let directory = place.0.path().join("none");
        for path in [place.path(), directory.join("locks.db")] {
            let mut backend = Sqlite::at_default_place(path);
            assert_eq!(backend.locks(&[]).unwrap().locks, []);
            assert_eq!(backend.runs(&Wanted::default()).unwrap().runs, []);
            assert_eq!(backend.change(&change("job", "a", "b", MINUTE)), Ok(Kept::Lost));
            backend.disconnect();
            backend.schema();
        }
        assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 0);
        // One who makes makes the directory, too.
        let path = directory.join("locks.db").display().to_string();
        let made = [format!("made the file {path}"), "made the table shedlock".to_owned()];
        let mut backend = Sqlite::at_default_place(directory.join("locks.db"));
        assert_eq!(backend.make().unwrap()[..2], made);
        works(&mut *backend);
        // A file that is there and has no table of ours.
        place.sql("CREATE TABLE t (x)");
        let mut backend = place.open();
        assert_eq!(backend.locks(&["job"]).unwrap().locks, []);
        assert_eq!(backend.runs(&Wanted::default()).unwrap().runs, []);
        assert_eq!(backend.change(&change("job", "a", "b", MINUTE)), Ok(Kept::Lost));
        assert_eq!(place.sql("SELECT name FROM sqlite_schema"), "t");
    }

    #[test]
    fn a_directory_that_is_missing_is_told() {
        let place = Place::new();
        let url = format!("sqlite:{}/none/locks.db", place.0.path().display());
        let mut backend = from_url(&url, &crate::backend::Access::default()).unwrap();
        complains(&backend.make().unwrap_err(), "none does not exist", "make it with `mkdir");
        complains(&backend.locks(&[]).unwrap_err(), "none does not exist", "make it with `mkdir");
        complains(&backend.runs(&Wanted::default()).unwrap_err(), "none does not exist", "make it with `mkdir");
        assert!(!place.0.path().join("none").exists());
    }

    #[test]
    fn a_table_made_for_java_gets_its_columns_when_it_is_made() {
        const JAVA: &str = "name VARCHAR(64) NOT NULL PRIMARY KEY, lock_until TEXT NOT NULL, locked_at TEXT NOT NULL, \
                            locked_by VARCHAR(255) NOT NULL";
        let ways = [
            (String::new(), "added to the table shedlock: boot_id, boot_until, boot_for"),
            // Somebody has begun.
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
            assert_eq!(backend.change(&change("held", "java", "java", MINUTE)), Ok(Kept::Kept));
            assert_eq!(columns(), before);
            let there = "the table shedlock is there";
            assert_eq!(backend.make().unwrap()[1..], [there, line, "made the table shedlock_history"]);
            assert_eq!(columns(), "name,lock_until,locked_at,locked_by,boot_id,boot_until,boot_for");
            assert_eq!(place.open().make().unwrap()[1..], [there, "the table shedlock_history is there"]);
            assert!(place.is_held("held"));
            works(&mut *backend);
        }
    }

    #[test]
    fn tables_of_others_are_told_from_ours() {
        let place = Place::new();
        place.sql("CREATE TABLE shedlock (id INTEGER); CREATE TABLE shedlock_history (id INTEGER, name TEXT)");
        let mut backend = place.open();
        let (not_ours, columns) = ("the table shedlock is not one of locks", "it needs the columns");
        complains(&backend.locks(&[]).unwrap_err(), not_ours, columns);
        complains(&backend.change(&change("job", "a", "b", MINUTE)).unwrap_err(), not_ours, columns);
        complains(&backend.make().unwrap_err(), not_ours, columns);
        let (history, rename) = ("shedlock_history is not the table of runs", "RENAME TO old");
        complains(&backend.runs(&Wanted::default()).unwrap_err(), history, rename);
        assert_eq!(place.sql("SELECT count(*) FROM pragma_table_info('shedlock')"), "1", "nothing is added to it");
        place.sql("DROP TABLE shedlock");
        complains(&backend.make().unwrap_err(), history, rename);
    }

    #[test]
    fn the_schema_makes_a_file_that_works() {
        for table in ["shedlock", "locks"] {
            let place = Place::new();
            let mut backend = place.open_table(table);
            let schema = backend.schema();
            place.sql(&schema);
            assert_eq!(place.sql("PRAGMA journal_mode"), "wal");
            let things = || place.sql("SELECT group_concat(sql) FROM sqlite_schema");
            let before = things();
            works(&mut *backend);
            assert_eq!(backend.runs(&Wanted::default()).unwrap().runs.len(), 1);
            backend.make().unwrap();
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
        assert_eq!(backend.runs(&Wanted::default()).unwrap().runs.len(), 1);
        let owner = claim("job", 1).owner;
        let change = change("job", owner.as_str(), owner.as_str(), Duration::ZERO);
        assert_eq!(backend.change(&change).unwrap_err().kind, TroubleKind::Passing);
        writer.execute_batch("ROLLBACK").unwrap();
        assert_eq!(backend.change(&change), Ok(Kept::Kept));
        assert!(!is_held(&mut *backend, "job"));
    }
}
