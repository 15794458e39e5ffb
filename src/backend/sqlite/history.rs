//! The table of runs beside the table of locks; its ids are the fencing tokens.
//!
//! The transaction that takes the lock writes the record, and the one that releases it closes it, and now and then prunes the
//! records. A record is found by its name, among the newest first. There is no index by owner: the record of a run that ends is
//! mostly the newest, and an index would be one more page in every commit.
//!
//! Tables of earlier versions have the key (name, owner) instead, and work as well: the next id then takes a look at all
//! records of the name.

use rusqlite::Connection;
use rusqlite::ErrorCode;

use super::statements::Statements;
use crate::lock::{Claim, Closing, Grant, Holder};

pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS {history} (id INTEGER NOT NULL, name VARCHAR(64) NOT NULL, \
                                 owner VARCHAR(255) NOT NULL, host VARCHAR(255) NOT NULL, started_at TEXT NOT NULL, \
                                 ended_at TEXT, exit_code INTEGER, outcome TEXT, PRIMARY KEY (name, id)) WITHOUT ROWID";

/// Inserts a record; its id is the token. The file may be lost and created anew, and the clock may be set back, so
/// the id is the greater of the next number and the clock.
const RECORD: &str = "INSERT INTO {history} (id, name, owner, host, started_at) \
                      SELECT max(coalesce(max(id) + 1, 0), :millis), :name, :owner, :host, :started \
                      FROM {history} WHERE name = :name \
                      RETURNING id";

/// Begins the record of an earlier taking by the same owner anew.
const RECORD_AGAIN: &str = "UPDATE {history} SET started_at = :started, ended_at = NULL, exit_code = NULL, outcome = NULL, \
                            id = (SELECT max(max(id) + 1, :millis) FROM {history} WHERE name = :name) \
                            WHERE name = :name AND owner = :owner RETURNING id";

const CLOSE: &str = "UPDATE {history} SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), exit_code = :exit_code, \
                            outcome = :outcome \
                     WHERE name = :name AND id = {own} AND ended_at IS NULL";

const DISCARD: &str = "DELETE FROM {history} WHERE name = :name AND id = {own} AND ended_at IS NULL";

/// `{own}`: the id of the owner's record.
pub(super) const OWN: &str =
    "(SELECT id FROM {history} WHERE name = :name AND owner = :owner ORDER BY id DESC LIMIT 1)";

const PRUNE: &str = "DELETE FROM {history} WHERE name = :name AND id <= \
                     (SELECT id FROM {history} WHERE name = :name ORDER BY id DESC LIMIT 1 OFFSET :keep)";

/// Removes the records of a lock. The columns that are returned tell shedlock's table from another one.
pub(super) const FORGET: &str = "DELETE FROM {history} WHERE name = :name RETURNING id, owner, host, started_at";

/// Says whether the owner may have a record of an earlier taking, whose answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taking {
    First,
    Again,
}

/// Records a taking and returns its token.
pub(super) fn record(
    statements: &Statements<'_>,
    connection: &Connection,
    claim: &Claim,
    grant: &Grant,
    taking: Taking,
) -> rusqlite::Result<Option<u64>> {
    let values = [
        (":millis", i64::try_from(grant.locked_at.0).unwrap_or(i64::MAX).into()),
        (":started", grant.locked_at.to_string().into()),
        (":host", Holder::of(claim.owner.as_str()).host().to_owned().into()),
    ];
    let write = |statement| statements.rows(connection, statement, claim, &values, |row| row.get::<_, i64>(0));
    let id = match taking {
        Taking::First => None,
        Taking::Again => write(RECORD_AGAIN)?,
    };
    let id = id.map_or_else(|| write(RECORD), |id| Ok(Some(id)))?;
    Ok(id.and_then(|id| id.try_into().ok()))
}

/// Closes or removes the record of a taking, and now and then removes the oldest runs.
pub(super) fn close(
    statements: &Statements<'_>,
    connection: &Connection,
    claim: &Claim,
    closing: Closing,
) -> rusqlite::Result<()> {
    match closing {
        Closing::Ended { verdict, exit_code } => {
            let values =
                [(":exit_code", exit_code.map(i64::from).into()), (":outcome", verdict.as_str().to_owned().into())];
            statements.rows(connection, CLOSE, claim, &values, |_| Ok(()))?;
        }
        // The file has no network: a taking never arrives late, so its record can go.
        Closing::Unused | Closing::GivenUp => _ = statements.rows(connection, DISCARD, claim, &[], |_| Ok(()))?,
    }
    if claim.prunes() {
        // The newest record stays, because the next token follows from it.
        statements.rows(connection, PRUNE, claim, &[(":keep", claim.keep.max(1).into())], |_| Ok(()))?;
    }
    Ok(())
}

/// Returns true if the error means that the table is not one of shedlock's, as opposed to an error of the file.
pub(super) fn is_foreign(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        // A value has another type than in shedlock's table.
        None => true,
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => true,
        // Errors that have no code of their own in SQLite, such as a missing column.
        Some(_) => error.sqlite_extended_error_code() == Some(rusqlite::ffi::SQLITE_ERROR),
    }
}
