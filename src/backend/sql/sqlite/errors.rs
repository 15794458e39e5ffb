//! Explains errors of SQLite in one line: class, cause and remedy.

use rusqlite::ErrorCode;

use super::execute::Failure;
use super::file::File;
use super::history::is_of_another_table;
use crate::backend::sql::engine::{Explanation, Fault, Table, unknown_column_requires_value};
use crate::lock::BackendError;

/// Hint for a file that is damaged or is not a SQLite database.
pub(crate) const DAMAGED_HINT: &str = "check the path; if it is right, move the file away while no job runs, together with its -wal and -shm files: shedlock creates a new one";

/// Classifies a failure of an operation on this table of locks, and explains it.
pub(crate) fn explain(file: &File, table: &str, failure: &Failure) -> Explanation {
    let fault = match failure {
        Failure::Lock(error) if is_no_table(error) => Fault::TableMissing(Table::Locks),
        Failure::History(error) if is_no_table(error) => Fault::TableMissing(Table::Runs),
        Failure::History(error) if is_of_another_table(error) => Fault::HistoryRefused,
        _ => Fault::Other,
    };
    let error = match failure {
        Failure::Lock(error) if is_without_value(error) => {
            let text = error.to_string();
            unknown_column_requires_value(table, text.rsplit('.').next().unwrap_or_default())
        }
        Failure::Lock(error) if is_of_schema(error) => {
            BackendError::permanent(format!("the table {table} is not a table of locks: {error}"))
                .hint("it needs the columns name, the primary key, lock_until, locked_at and locked_by")
        }
        Failure::Lock(error) | Failure::History(error) => explain_error(file, error),
        Failure::Backend(error) => error.clone(),
    };
    let server_words = failure.error().map_or_else(|| error.message.clone(), ToString::to_string);
    Explanation { fault, error, server_words, lacks_right: false, remedy: None }
}

/// Turns an error of SQLite into a message and a hint.
pub(crate) fn explain_error(file: &File, error: &rusqlite::Error) -> BackendError {
    let path = file.path().display();
    if error.to_string().contains("duplicate column name") {
        return BackendError::transient("another process is adding columns to the table");
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            BackendError::transient("the database is locked by another process")
                .hint(format!("find the process with `fuser -v {path}`; it may be a backup or an editor"))
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            BackendError::permanent("the file is damaged or is not a SQLite database").hint(DAMAGED_HINT)
        }
        Some(ErrorCode::DiskFull) => BackendError::transient("no space left on its disk")
            .hint(format!("free some space; `df {path}` shows how much is left")),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => file.explain_open_error(),
        Some(ErrorCode::SystemIoFailure) => file.explain_io_error(error),
        _ => BackendError::permanent(error.to_string()),
    }
}

fn is_no_table(error: &rusqlite::Error) -> bool {
    error.to_string().contains("no such table")
}

/// Matches errors that have no code of their own in SQLite, such as a missing column.
fn is_of_schema(error: &rusqlite::Error) -> bool {
    let is_vague = error.sqlite_extended_error_code() == Some(rusqlite::ffi::SQLITE_ERROR);
    (is_vague || matches!(error, rusqlite::Error::SqlInputError { .. }))
        && !error.to_string().contains("duplicate column name")
}

/// Returns whether a column needs a value, which the text then ends with.
fn is_without_value(error: &rusqlite::Error) -> bool {
    error.sqlite_extended_error_code() == Some(rusqlite::ffi::SQLITE_CONSTRAINT_NOTNULL)
}

pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
