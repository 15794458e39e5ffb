//! Runs statements, reads their rows, and sorts the errors that they fail with by table.

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row};

use crate::backend::sql::engine::{self, Cell};
use crate::lock::BackendError;
use crate::system::Timestamp;

/// Says why an operation failed, by the table that the statement was about.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error about the table of locks, or the file.
    Lock(rusqlite::Error),
    /// An error of a statement on the history.
    History(rusqlite::Error),
    /// An error that shedlock itself has found.
    Backend(BackendError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Lock(error)
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

impl Failure {
    /// Returns true if the table of locks lacks the columns that shedlock adds.
    pub(crate) fn lacks_boot_columns(&self) -> bool {
        let Self::Lock(error) = self else { return false };
        let text = error.to_string();
        text.contains("no such column") || text.contains("has no column")
    }

    /// Returns the error of SQLite, if it is one.
    pub(crate) fn error(&self) -> Option<&rusqlite::Error> {
        match self {
            Self::Lock(error) | Self::History(error) => Some(error),
            Self::Backend(_) => None,
        }
    }
}

/// Runs a statement to its end and reads its rows: only at its end does it commit, or report that it could not.
/// `values` may name parameters that the statement does not have.
pub(crate) fn query<T>(
    connection: &Connection,
    statement: &str,
    values: &[(&str, Value)],
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut found = Vec::new();
    each(connection, statement, values, |row| {
        found.push(read(row)?);
        Ok(())
    })?;
    Ok(found)
}

/// Runs a statement to its end, and passes each row on. The connection keeps the compiled statement for the next time.
pub(crate) fn each(
    connection: &Connection,
    statement: &str,
    values: &[(&str, Value)],
    mut sink: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut prepared = connection.prepare_cached(statement)?;
    for (key, value) in values {
        if let Some(index) = prepared.parameter_index(key)? {
            prepared.raw_bind_parameter(index, value)?;
        }
    }
    let mut rows = prepared.raw_query();
    while let Some(row) = rows.next()? {
        sink(row)?;
    }
    Ok(())
}

/// Runs a statement whose rows do not matter.
fn run(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    each(connection, statement, &[], |_| Ok(()))
}

/// Runs a query whose only parameter is the name of a table.
pub(crate) fn ask(connection: &Connection, question: &str, table: &str) -> rusqlite::Result<Vec<engine::Row>> {
    query(connection, question, &[(":table", table.to_owned().into())], |row| cells(row, []))
}

/// Reads the names of a table's columns; returns none if the table is missing.
pub(crate) fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let rows = ask(connection, "SELECT name FROM pragma_table_info(:table)", table)?;
    Ok(rows.iter().filter_map(|row| row.text(0)).collect())
}

/// Returns the columns, with their types, that shedlock adds and the table lacks.
pub(crate) fn missing_columns(
    connection: &Connection,
    table: &str,
) -> rusqlite::Result<Vec<(&'static str, &'static str)>> {
    let ours = [("boot_id", "TEXT"), ("boot_until", "INTEGER"), ("boot_for", "TEXT")];
    let there = columns(connection, table)?;
    Ok(ours.into_iter().filter(|(column, _)| there.iter().all(|name| name != column)).collect())
}

/// Reads a value of a row.
pub(crate) fn cell(row: &Row<'_>, column: usize) -> rusqlite::Result<Cell> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Cell::Null,
        ValueRef::Text(text) | ValueRef::Blob(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Integer(number) => Cell::Number(number),
        ValueRef::Real(number) => Cell::Text(number.to_string()),
    })
}

/// Reads the values of a row. In a column of times, a value that is not text counts as no time.
pub(crate) fn cells<const N: usize>(row: &Row<'_>, times: [usize; N]) -> rusqlite::Result<engine::Row> {
    let read = |column| match cell(row, column)? {
        Cell::Text(text) if times.contains(&column) && !text.contains('T') => Ok(Cell::Null),
        Cell::Number(_) if times.contains(&column) => Ok(Cell::Null),
        value => Ok(value),
    };
    (0..row.as_ref().column_count()).map(read).collect::<rusqlite::Result<_>>().map(engine::Row)
}

/// Encodes names as one parameter; null stands for all names.
pub(crate) fn json<T: AsRef<str>>(names: &[T]) -> Value {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { Value::Null } else { serde_json::json!(names).to_string().into() }
}

/// Runs `work` in one transaction: all of it is committed, or nothing.
pub(crate) fn atomically<T>(
    connection: &Connection,
    synchronous: &str,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    connection.execute_batch(synchronous)?;
    run(connection, "BEGIN IMMEDIATE")?;
    let done = work().and_then(|done| {
        run(connection, "COMMIT")?;
        Ok(done)
    });
    if done.is_err() && !connection.is_autocommit() {
        // A COMMIT that met a reader leaves the transaction open. If the ROLLBACK fails too, the connection is
        // closed.
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
}

/// Reads a time in shedlock's own form, or returns the text. Others compare times as text: another form, such as milliseconds
/// or a blank for the `T`, would make a held lock look free.
pub(crate) fn time(text: String) -> Result<Timestamp, String> {
    Timestamp::parse(&text).filter(|time| time.to_string() == text).ok_or(text)
}
