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
const ODD: &str = "(strftime('%Y-%m-%dT%H:%M:%fZ', lock_until) IS NOT lock_until \
                    OR strftime('%Y-%m-%dT%H:%M:%fZ', locked_at) IS NOT locked_at)";

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
        let Some(connection) = opened else { return Ok(None) };
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

    fn check(&mut self, tell: &mut dyn FnMut(Finding)) {
        self.probe(tell);
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
