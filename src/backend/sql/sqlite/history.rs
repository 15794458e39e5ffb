//! The table of runs beside the table of locks; its ids are the fencing tokens.
//!
//! The transaction that acquires the lock writes the record, and the one that releases it closes it, and now and then prunes
//! the records. A record is found by its name, among the newest first. There is no index by owner: the record of a run that
//! ends is mostly the newest, and an index would be one more page in every commit.
//!
//! Tables of earlier versions have the key (name, owner) instead, and work as well: the next id then requires a look at all
//! records of the name.

use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode};

use super::execute::{each, query};
use super::tables::Tables;
use crate::lock::{Claim, Closing, Grant, Holder};
use crate::system::Timestamp;

/// Reads the newest record. The next id follows from it.
const NEWEST: &str = "SELECT id FROM {history} WHERE name = :name ORDER BY id DESC LIMIT 1";

const RECORD: &str =
    "INSERT INTO {history} (id, name, owner, host, started_at) VALUES (:id, :name, :owner, :host, :started)";

/// Begins the record of an earlier acquisition by the same owner anew.
const REPLACE_RECORD: &str = "UPDATE {history} SET id = :id, started_at = :started, ended_at = NULL, exit_code = NULL, outcome = NULL \
                            WHERE name = :name AND owner = :owner";

const CLOSE: &str = "UPDATE {history} SET ended_at = :ended, exit_code = :exit_code, outcome = :outcome \
                     WHERE name = :name AND id = {own} AND ended_at IS NULL";

const DISCARD: &str = "DELETE FROM {history} WHERE name = :name AND id = {own} AND ended_at IS NULL";

const PRUNE: &str = "DELETE FROM {history} WHERE name = :name AND id <= \
                     (SELECT id FROM {history} WHERE name = :name ORDER BY id DESC LIMIT 1 OFFSET :keep)";

/// Removes the records of a lock. The columns that are returned tell shedlock's table from another one.
pub(crate) const FORGET: &str = "DELETE FROM {history} WHERE name = :name RETURNING id, owner, host, started_at";

/// Returns the id of the newest record of a lock.
pub(crate) fn newest_id(tables: &Tables<'_>, connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let name = [(":name", name.to_owned().into())];
    let found = query(connection, &tables.fill(NEWEST), &name, |row| row.get(0))?;
    Ok(found.into_iter().next())
}

/// Records an acquisition and returns its token. `has_record` is set if the owner may have a record of an earlier acquisition,
/// whose answer was lost.
pub(crate) fn record(
    tables: &Tables<'_>,
    connection: &Connection,
    claim: &Claim,
    grant: &Grant,
    has_record: bool,
) -> rusqlite::Result<Option<u64>> {
    let newest = newest_id(tables, connection, claim.name.as_str())?;
    // The file may be lost and created anew, and the clock may be set back, so the id is the greater of the next number
    // and the clock.
    let millis = i64::try_from(grant.locked_at.0).unwrap_or(i64::MAX);
    let id = newest.map_or(millis, |newest| newest.saturating_add(1).max(millis));
    let values = [
        (":id", id.into()),
        (":started", grant.locked_at.to_string().into()),
        (":host", Holder::parse(claim.owner.as_str()).host().to_owned().into()),
    ];
    let values = [&name_and_owner(claim)[..], &values].concat();
    let write = |statement| -> rusqlite::Result<bool> {
        each(connection, &tables.fill(statement), &values, |_| Ok(()))?;
        Ok(connection.changes() > 0)
    };
    if !(has_record && write(REPLACE_RECORD)?) {
        write(RECORD)?;
    }
    Ok(id.try_into().ok())
}

/// Closes or removes the record of an acquisition, and now and then removes the oldest runs.
pub(crate) fn close(
    tables: &Tables<'_>,
    connection: &Connection,
    claim: &Claim,
    closing: Closing,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let run = |statement, more: &[(&str, Value)]| {
        each(connection, &tables.fill(statement), &[&name_and_owner(claim)[..], more].concat(), |_| Ok(()))
    };
    match closing {
        Closing::Ended { outcome, exit_code } => run(
            CLOSE,
            &[
                (":ended", now.to_string().into()),
                (":exit_code", exit_code.map(i64::from).into()),
                (":outcome", outcome.as_str().to_owned().into()),
            ],
        )?,
        // The file has no network: an acquisition never arrives late, so its record can go.
        Closing::Unused | Closing::Undone => run(DISCARD, &[])?,
    }
    if claim.prunes() {
        // The newest record stays, because the next token follows from it.
        run(PRUNE, &[(":keep", claim.keep.max(1).into())])?;
    }
    Ok(())
}

fn name_and_owner(claim: &Claim) -> [(&'static str, Value); 2] {
    [(":name", claim.name.as_str().to_owned().into()), (":owner", claim.owner.as_str().to_owned().into())]
}

/// Returns true if the error means that the table is not one of shedlock's, as opposed to an error of the file.
pub(crate) fn is_of_another_table(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        // A value has another type than in shedlock's table.
        None => true,
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => true,
        // Errors that have no code of their own in SQLite, such as a missing column.
        Some(_) => error.sqlite_extended_error_code() == Some(rusqlite::ffi::SQLITE_ERROR),
    }
}
