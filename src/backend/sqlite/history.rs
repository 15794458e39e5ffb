//! The table of runs beside the table of locks; its ids are the fencing tokens.
//!
//! The transaction that takes the lock writes the record, and the one that releases it closes it, and now and then prunes the
//! records. A record is found by its name, among the newest first. There is no index by owner: the record of a run that ends is
//! mostly the newest, and an index would be one more page in every commit.
//!
//! Tables of earlier versions have the key (name, owner) instead, and work as well: the next id then takes a look at all
//! records of the name.

use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode};

use super::execute::{each, query};
use super::statements::Statements;
use crate::lock::{Claim, Closing, Grant, Holder};
use crate::system::Timestamp;

pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS {history} (id INTEGER NOT NULL, name VARCHAR(64) NOT NULL, \
                                 owner VARCHAR(255) NOT NULL, host VARCHAR(255) NOT NULL, started_at TEXT NOT NULL, \
                                 ended_at TEXT, exit_code INTEGER, outcome TEXT, PRIMARY KEY (name, id)) WITHOUT ROWID";

/// The newest record. The next id follows from it.
const NEWEST: &str = "SELECT id FROM {history} WHERE name = :name ORDER BY id DESC LIMIT 1";

const RECORD: &str =
    "INSERT INTO {history} (id, name, owner, host, started_at) VALUES (:id, :name, :owner, :host, :started)";

/// Begins the record of an earlier taking by the same owner anew.
const RECORD_AGAIN: &str = "UPDATE {history} SET id = :id, started_at = :started, ended_at = NULL, exit_code = NULL, outcome = NULL \
                            WHERE name = :name AND owner = :owner";

const CLOSE: &str = "UPDATE {history} SET ended_at = :ended, exit_code = :exit_code, outcome = :outcome \
                     WHERE name = :name AND id = {own} AND ended_at IS NULL";

const DISCARD: &str = "DELETE FROM {history} WHERE name = :name AND id = {own} AND ended_at IS NULL";

/// `{own}`: the id of the owner's record.
pub(super) const OWN: &str =
    "(SELECT id FROM {history} WHERE name = :name AND owner = :owner ORDER BY id DESC LIMIT 1)";

const PRUNE: &str = "DELETE FROM {history} WHERE name = :name AND id <= \
                     (SELECT id FROM {history} WHERE name = :name ORDER BY id DESC LIMIT 1 OFFSET :keep)";

/// Removes the records of a lock. The columns that are returned tell shedlock's table from another one.
pub(super) const FORGET: &str = "DELETE FROM {history} WHERE name = :name RETURNING id, owner, host, started_at";

/// Returns the id of the newest record of a lock.
pub(super) fn newest(
    statements: &Statements<'_>,
    connection: &Connection,
    name: &str,
) -> rusqlite::Result<Option<i64>> {
    let name = [(":name", name.to_owned().into())];
    let found = query(connection, &statements.fill(NEWEST), &name, |row| row.get(0))?;
    Ok(found.into_iter().next())
}

/// Records a taking and returns its token. `again` is set if the owner may have a record of an earlier taking, whose answer
/// was lost.
pub(super) fn record(
    statements: &Statements<'_>,
    connection: &Connection,
    claim: &Claim,
    grant: &Grant,
    again: bool,
) -> rusqlite::Result<Option<u64>> {
    let newest = newest(statements, connection, claim.name.as_str())?;
    // The file may be lost and created anew, and the clock may be set back, so the id is the greater of the next number
    // and the clock.
    let millis = i64::try_from(grant.locked_at.0).unwrap_or(i64::MAX);
    let id = newest.map_or(millis, |newest| newest.saturating_add(1).max(millis));
    let values = [
        (":id", id.into()),
        (":started", grant.locked_at.to_string().into()),
        (":host", Holder::of(claim.owner.as_str()).host().to_owned().into()),
    ];
    let values = [&of(claim)[..], &values].concat();
    let write = |statement| -> rusqlite::Result<bool> {
        each(connection, &statements.fill(statement), &values, |_| Ok(()))?;
        Ok(connection.changes() > 0)
    };
    if !(again && write(RECORD_AGAIN)?) {
        write(RECORD)?;
    }
    Ok(id.try_into().ok())
}

/// Closes or removes the record of a taking, and now and then removes the oldest runs.
pub(super) fn close(
    statements: &Statements<'_>,
    connection: &Connection,
    claim: &Claim,
    closing: Closing,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let run = |statement, more: &[(&str, Value)]| {
        each(connection, &statements.fill(statement), &[&of(claim)[..], more].concat(), |_| Ok(()))
    };
    match closing {
        Closing::Ended { verdict, exit_code } => run(
            CLOSE,
            &[
                (":ended", now.to_string().into()),
                (":exit_code", exit_code.map(i64::from).into()),
                (":outcome", verdict.as_str().to_owned().into()),
            ],
        )?,
        // The file has no network: a taking never arrives late, so its record can go.
        Closing::Unused | Closing::GivenUp => run(DISCARD, &[])?,
    }
    if claim.prunes() {
        // The newest record stays, because the next token follows from it.
        run(PRUNE, &[(":keep", claim.keep.max(1).into())])?;
    }
    Ok(())
}

fn of(claim: &Claim) -> [(&'static str, Value); 2] {
    [(":name", claim.name.as_str().to_owned().into()), (":owner", claim.owner.as_str().to_owned().into())]
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
