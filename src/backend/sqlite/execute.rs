//! Statements: running them, reading their rows, and the errors they fail with.

use std::time::Duration;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row};

use super::super::sql::{self, Cell};
use crate::backend::BackendError;
use crate::system::Timestamp;

/// An error of SQLite, by the table it is about.
#[derive(Debug)]
pub(in crate::backend) enum Failure {
    /// An error about the table of locks, or the file.
    Lock(rusqlite::Error),
    /// An error of a statement on the history.
    History(rusqlite::Error),
    Ours(BackendError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Lock(error)
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Ours(error)
    }
}

impl Failure {
    /// Returns true if the table of locks lacks the columns that shedlock adds.
    pub(super) fn is_of_form(&self) -> bool {
        let Self::Lock(error) = self else { return false };
        let text = error.to_string();
        text.contains("no such column") || text.contains("has no column")
    }

    pub(super) fn error(&self) -> Option<&rusqlite::Error> {
        match self {
            Self::Lock(error) | Self::History(error) => Some(error),
            Self::Ours(_) => None,
        }
    }
}

/// Runs a statement to its end and reads its rows: only at its end does it commit, or report that it could not.
/// `values` may name parameters that the statement does not have.
pub(super) fn query<T>(
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

/// Does the same, and keeps no row.
pub(super) fn each(
    connection: &Connection,
    statement: &str,
    values: &[(&str, Value)],
    mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut prepared = connection.prepare(statement)?;
    for (key, value) in values {
        if let Some(index) = prepared.parameter_index(key)? {
            prepared.raw_bind_parameter(index, value)?;
        }
    }
    let mut rows = prepared.raw_query();
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}

/// Runs a query whose only parameter is the name of a table.
pub(super) fn ask(connection: &Connection, question: &str, table: &str) -> rusqlite::Result<Vec<sql::Row>> {
    query(connection, question, &[(":table", table.to_owned().into())], |row| cells(row, []))
}

/// Reads the names of a table's columns; returns none if the table is missing.
pub(super) fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let rows = ask(connection, "SELECT name FROM pragma_table_info(:table)", table)?;
    Ok(rows.iter().filter_map(|row| row.text(0)).collect())
}

/// Returns the columns, with their types, that shedlock adds and the table lacks.
pub(super) fn missing_columns(
    connection: &Connection,
    table: &str,
) -> rusqlite::Result<Vec<(&'static str, &'static str)>> {
    let ours = [("boot_id", "TEXT"), ("boot_until", "INTEGER"), ("boot_for", "TEXT")];
    let there = columns(connection, table)?;
    Ok(ours.into_iter().filter(|(column, _)| there.iter().all(|name| name != column)).collect())
}

/// Reads the values of a row. In a column of times, a value that is not text counts as no time.
pub(super) fn cells<const N: usize>(row: &Row<'_>, times: [usize; N]) -> rusqlite::Result<sql::Row> {
    let cell = |column| {
        Ok(match row.get_ref(column)? {
            ValueRef::Null => Cell::Nothing,
            value if times.contains(&column) && !value.as_str().is_ok_and(|text| text.contains('T')) => Cell::Nothing,
            ValueRef::Text(text) | ValueRef::Blob(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Integer(number) => Cell::Number(number),
            ValueRef::Real(number) => Cell::Text(number.to_string()),
        })
    };
    (0..row.as_ref().column_count()).map(cell).collect::<rusqlite::Result<_>>().map(sql::Row)
}

/// Encodes names as one parameter; null stands for all names.
pub(super) fn json<T: AsRef<str>>(names: &[T]) -> Value {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { Value::Null } else { serde_json::json!(names).to_string().into() }
}

/// Runs `work` in one transaction: all of it is committed, or nothing.
pub(super) fn atomically<T>(
    connection: &Connection,
    synchronous: &str,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    connection.execute_batch(synchronous)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let done = work().and_then(|done| {
        connection.execute_batch("COMMIT")?;
        Ok(done)
    });
    if done.is_err() && !connection.is_autocommit() {
        // A COMMIT that met a reader leaves the transaction open. If the ROLLBACK fails too, the connection is
        // closed.
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
}

/// Reads a time from a row, and accepts shedlock's own form only. SQL compares times as text: another form, such as
/// milliseconds or a blank for the `T`, would make a held lock look free.
pub(super) fn time(row: &Row<'_>, index: usize) -> rusqlite::Result<Timestamp> {
    let found: Value = row.get(index)?;
    let text = match &found {
        Value::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    Timestamp::parse(&text).filter(|time| time.to_string() == text).ok_or_else(|| {
        let why = format!("the lock's row has the time `{text}`, which is not of the form 2026-01-31T18:00:00.000Z");
        rusqlite::Error::UserFunctionError(why.into())
    })
}

/// Formats a duration as a modifier of SQLite's date functions, and as milliseconds; both are rounded up.
pub(super) fn modifier(duration: Duration) -> (String, i64) {
    let millis = i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
    (format!("+{}.{:03} seconds", millis / 1000, millis % 1000), millis)
}
