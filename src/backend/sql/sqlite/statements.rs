//! The operations on locks. An acquisition, a renewal or a release reads the row, decides in [`row`](super::row) and writes
//! the row, all in one transaction; the clocks are read inside it, so after any wait for the write lock. Every run compiles the
//! statements that it uses, which is the greatest part of its own work: so they are short, and keep one text.

use std::time::Duration;

use rusqlite::Connection;

use super::boot::Boot;
use super::execute::{Failure, atomically, cell, cells, each, json, query, time};
use super::history;
use super::row::{BootEnd, Now, Row};
use super::tables::Tables;
use crate::backend::clock::wait_past;
use crate::backend::sql::engine::{self, Cell, History, RowSink};
use crate::lock::{Acquired, BackendError, Forgotten, StillHeld};
use crate::lock::{Change, Claim, Closing, Grant, Purpose, Removal, RunQuery};
use crate::system::Timestamp;

/// Reads a row. `{columns}` stands for the values of a [`Row`], as [`Columns`] says.
const READ: &str = "SELECT {columns} FROM {table} WHERE name = :name";

/// Writes a row. `{boot}` stands for the columns that are written too if the table has them.
const WRITE: &str =
    "UPDATE {table} SET locked_by = :owner, locked_at = :since, lock_until = :until{boot} WHERE name = :name";
/// Inserts a row. Fails on a table whose names are no key. The conflict never happens.
const INSERT: &str = "INSERT INTO {table} (name, locked_by, locked_at, lock_until, boot_id, boot_until, boot_for) \
                      VALUES (:name, :owner, :since, :until, :boot, :boot_until, :boot_for) ON CONFLICT (name) DO NOTHING";

/// Lists locks. The last column is the milliseconds left by a time in another form.
const LIST: &str = "SELECT {columns}, name, CAST((julianday(lock_until) - julianday('now')) * 86400000 AS INTEGER) FROM {table} \
                    WHERE :names IS NULL OR name IN (SELECT value FROM json_each(:names))";

/// Lists runs. `{runs}` stands for all runs, or those of [`OF_EACH`].
const RUNS: &str = "SELECT id, name, owner, host, started_at, ended_at, exit_code, outcome FROM {runs} \
                    WHERE (:names IS NULL OR name IN (SELECT value FROM json_each(:names))) \
                          AND (:since IS NULL OR ended_at IS NULL OR ended_at >= :since) \
                    ORDER BY started_at DESC, id DESC, name LIMIT coalesce(:limit, -1)";

/// Numbers the runs of each name, which takes longer than all the rest.
const OF_EACH: &str = "(SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY name ORDER BY id DESC) AS place \
                        FROM {history} WHERE (:names IS NULL OR name IN (SELECT value FROM json_each(:names))) \
                             AND (:since IS NULL OR ended_at IS NULL OR ended_at >= :since)) WHERE place <= :newest_per_lock)";

const FORGET: &str = "DELETE FROM {table} WHERE name = :name";

/// Waits for the disk at each commit: a change or a removal by a person must survive a power cut.
pub(crate) const SYNCHRONOUS_FULL: &str = "PRAGMA synchronous = FULL";

/// Carries out the operations on the tables, during one boot of the host.
pub(crate) struct Statements<'a> {
    pub(crate) tables: Tables<'a>,
    pub(crate) boot: &'a Boot,
    /// Durability of a write; it is set before each write, because a refused acquisition does not write.
    pub(crate) synchronous: &'static str,
    /// Decides whether runs are recorded in the history.
    pub(crate) history: History,
}

impl Statements<'_> {
    fn read(&self, connection: &Connection, name: &str) -> rusqlite::Result<Option<Row>> {
        let rows = query(connection, &self.tables.fill(READ), &[(":name", name.to_owned().into())], read_row)?;
        Ok(rows.into_iter().next())
    }

    /// Reads a row with times of shedlock's form.
    fn read_well_formed(&self, connection: &Connection, claim: &Claim) -> Result<Option<Row>, Failure> {
        let row = self.read(connection, claim.name.as_str())?;
        let odd = row.as_ref().and_then(|row| row.since.as_ref().err().or(row.until.as_ref().err()));
        match odd {
            None => Ok(row),
            Some(text) => {
                let why =
                    format!("the lock's row has the time `{text}`, which is not of the form 2026-01-31T18:00:00.000Z");
                Err(BackendError::permanent(why).into())
            }
        }
    }

    fn write(&self, connection: &Connection, statement: &str, name: &str, row: &Row) -> Result<(), Failure> {
        let stored = |time: &Result<Timestamp, String>| time.as_ref().map_or_else(Clone::clone, ToString::to_string);
        let until = stored(&row.until);
        let (id, until_ms) = row.boot.as_ref().map(|boot| (boot.id.clone(), boot.until_ms)).unzip();
        let boot_for = row.boot.as_ref().map(|_| boot_key(&row.owner, &until));
        let values = [
            (":name", name.to_owned().into()),
            (":owner", row.owner.clone().into()),
            (":since", stored(&row.since).into()),
            (":until", until.into()),
            (":boot", id.into()),
            (":boot_until", until_ms.into()),
            (":boot_for", boot_for.into()),
        ];
        each(connection, &self.tables.fill(statement), &values, |_| Ok(()))?;
        if connection.changes() == 0 {
            let error =
                BackendError::permanent(format!("the table {} did not keep the row of the lock", self.tables.locks));
            return Err(error.hint("a trigger on the table may prevent it; remove the trigger").into());
        }
        Ok(())
    }

    /// Fails if the table has the lock for another owner, or for a shorter time than was written: a trigger may have changed it
    /// after the write.
    fn check_stored(&self, connection: &Connection, claim: &Claim, written: &Row) -> Result<(), Failure> {
        let stored = self.read(connection, claim.name.as_str())?;
        if stored.is_some_and(|stored| stored.owner == written.owner && stored.until >= written.until) {
            return Ok(());
        }
        let error =
            BackendError::permanent(format!("the table {} did not keep the lock as it was taken", self.tables.locks));
        Err(error.hint("a trigger on the table may have changed it; remove the trigger").into())
    }

    /// Returns the other owner that holds the lock, without waiting for a writer and without making one wait. `None` also if
    /// an acquisition has to write the row.
    pub(crate) fn holder(&self, connection: &Connection, claim: &Claim) -> Result<Option<Acquired>, Failure> {
        let row = self.read_well_formed(connection, claim)?;
        let now = self.boot.now();
        let is_of_another_owner = |row: &Row| is_of_another(row, claim, now) && row.moved_to_now(now).is_none();
        Ok(row.filter(is_of_another_owner).map(|row| Acquired::Held(row.state(now))))
    }

    /// Acquires the lock and records the run. `may_have_record` is set if an earlier
    /// acquisition by this owner may have left a record.
    pub(crate) fn acquire(
        &self,
        connection: &Connection,
        claim: &Claim,
        may_have_record: bool,
    ) -> Result<Acquired, Failure> {
        let is_pause = claim.purpose == Purpose::Pause;
        atomically(connection, if is_pause { SYNCHRONOUS_FULL } else { self.synchronous }, || {
            let found = self.read_well_formed(connection, claim)?;
            let now = self.boot.now();
            let (statement, has_record) = match found {
                Some(row) if is_of_another(&row, claim, now) => {
                    let moved = row.moved_to_now(now);
                    if let Some(moved) = &moved {
                        self.write(connection, WRITE, claim.name.as_str(), moved)?;
                    }
                    return Ok(Acquired::Held(moved.unwrap_or(row).state(now)));
                }
                Some(row) => (WRITE, may_have_record || row.owner == claim.owner.as_str()),
                None => (INSERT, may_have_record),
            };
            // A pause goes by the wall clock, and outlives a reboot.
            let row = Row::taken(claim.owner.as_str(), claim.lease, now, !is_pause);
            self.write(connection, statement, claim.name.as_str(), &row)?;
            self.check_stored(connection, claim, &row)?;
            let mut grant = Grant { locked_at: now.wall, until: row.until.unwrap_or_default(), token: None };
            if self.history == History::With && !is_pause {
                grant.token =
                    history::record(&self.tables, connection, claim, &grant, has_record).map_err(Failure::History)?;
            }
            Ok(Acquired::Granted(grant))
        })
    }

    /// Extends the lock if this owner still holds it.
    pub(crate) fn renew(&self, connection: &Connection, claim: &Claim) -> Result<StillHeld, Failure> {
        atomically(connection, self.synchronous, || {
            let row = self.read_well_formed(connection, claim)?;
            let now = self.boot.now();
            let Some(row) = row.filter(|row| row.owner == claim.owner.as_str() && row.is_held(now)) else {
                return Ok(StillHeld::Lost);
            };
            let renewed = row.renewed(claim.lease, now);
            self.write(connection, WRITE, claim.name.as_str(), &renewed)?;
            self.check_stored(connection, claim, &renewed)?;
            Ok(StillHeld::Held)
        })
    }

    /// Releases the lock, and closes its record even if the lock was lost. A repeated release finds its own mark and
    /// changes nothing.
    pub(crate) fn release(
        &self,
        connection: &Connection,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
    ) -> Result<StillHeld, Failure> {
        let ended = claim.owner.ended();
        atomically(connection, self.synchronous, || {
            let row = self.read_well_formed(connection, claim)?;
            let now = self.boot.now();
            let kept = match row {
                Some(row) if row.owner == ended => StillHeld::Held,
                Some(row) if row.owner == claim.owner.as_str() && row.is_held(now) => {
                    self.write(connection, WRITE, claim.name.as_str(), &row.released(ended, hold, now))?;
                    StillHeld::Held
                }
                _ => StillHeld::Lost,
            };
            if self.history == History::With {
                history::close(&self.tables, connection, claim, closing, now.wall).map_err(Failure::History)?;
            }
            Ok(kept)
        })
    }

    /// Changes the owner and the end. A repeated change finds its own owner and does the same again.
    pub(crate) fn change(&self, connection: &Connection, change: &Change) -> Result<StillHeld, Failure> {
        let name = change.name.as_str();
        atomically(connection, SYNCHRONOUS_FULL, || {
            let row = self.read(connection, name)?;
            let now = self.boot.now();
            let of_the_change = |row: &Row| [&change.from, &change.to].contains(&&row.owner);
            let Some(row) = row.filter(|row| of_the_change(row) && row.is_held(now)) else {
                return Ok(StillHeld::Lost);
            };
            self.write(connection, WRITE, name, &row.changed(&change.to, change.left, now))?;
            Ok(StillHeld::Held)
        })
    }

    /// Removes the lock if it is free and the last owner is the one seen, and its records if no row stays.
    pub(crate) fn forget(&self, connection: &Connection, removal: &Removal) -> Result<Forgotten, Failure> {
        let name = [(":name", removal.name.as_str().to_owned().into())];
        let delete =
            |statement| query(connection, &self.tables.fill(statement), &name, |_| Ok(())).map(|rows| rows.len());
        atomically(connection, SYNCHRONOUS_FULL, || {
            let found = self.read(connection, removal.name.as_str())?;
            let now = self.boot.now();
            if found.as_ref().is_some_and(|row| row.owner != removal.seen || row.is_held(now)) {
                return Ok(Forgotten::InUse);
            }
            if found.is_some() {
                delete(FORGET)?;
                if connection.changes() == 0 {
                    return Ok(Forgotten::InUse);
                }
            }
            let runs = match self.history {
                History::With => {
                    // A table of another form is the deletion's to report. Nobody draws a token during the transaction.
                    let newest = history::newest_id(&self.tables, connection, removal.name.as_str()).ok().flatten();
                    wait_past(newest.and_then(|id| id.try_into().ok()).unwrap_or_default(), now.wall.0);
                    delete(history::FORGET).map_err(Failure::History)?
                }
                History::Without => 0,
            };
            Ok(Forgotten::Gone { lock: found.is_some(), runs: runs as u64 })
        })
    }

    /// Lists the locks of these names, or all.
    pub(crate) fn list(&self, connection: &Connection, names: &[&str], sink: RowSink<'_>) -> Result<(), Failure> {
        let now = self.boot.now();
        Ok(each(connection, &self.tables.fill(LIST), &[(":names", json(names))], |cells| {
            let [name, left_of_malformed] = [cell(cells, 6)?, cell(cells, 7)?];
            let row = read_row(cells)?;
            let left =
                if row.is_malformed() { left_of_malformed } else { row.left_ms(now).map_or(Cell::Null, Cell::Number) };
            let micros = match left {
                Cell::Number(millis) => Cell::Number(millis.saturating_mul(1000)),
                other => other,
            };
            let held = Cell::Number(row.is_held(now).into());
            let times = [row.since, row.until].map(|time| time.map_or(Cell::Null, |time| Cell::Text(time.to_string())));
            let [since, until] = times;
            sink(&engine::Row(vec![name, Cell::Text(row.owner), since, until, held, micros]));
            Ok(())
        })?)
    }

    /// Lists the runs that a query asks for, the newest first.
    pub(crate) fn runs(&self, connection: &Connection, wanted: &RunQuery, sink: RowSink<'_>) -> rusqlite::Result<()> {
        let values = [
            (":names", json(&wanted.names)),
            (":since", wanted.since.map(|since| since.to_string()).into()),
            (":newest_per_lock", wanted.newest_per_lock.into()),
            (":limit", wanted.limit.into()),
        ];
        let runs = if wanted.newest_per_lock.is_some() { OF_EACH } else { "{history}" };
        each(connection, &self.tables.fill(&RUNS.replace("{runs}", runs)), &values, |row| {
            cells(row, [4, 5]).map(|row| sink(&row))
        })
    }
}

fn is_of_another(row: &Row, claim: &Claim, now: Now<'_>) -> bool {
    row.owner != claim.owner.as_str() && row.is_held(now)
}

/// Returns the text by which the boot columns name the acquisition that they belong to.
fn boot_key(owner: &str, until: &str) -> String {
    format!("{owner} {until}")
}

/// Reads a row of `{columns}`.
fn read_row(cells: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let text = |column| cell(cells, column).map(|cell| engine::Row(vec![cell]).text_or_empty(0));
    let (owner, stored_until) = (text(0)?, text(2)?);
    let boot = match (cell(cells, 3)?, cell(cells, 4)?, cell(cells, 5)?) {
        (Cell::Text(id), Cell::Number(until_ms), Cell::Text(of)) if of == boot_key(&owner, &stored_until) => {
            Some(BootEnd { id, until_ms })
        }
        _ => None,
    };
    Ok(Row { owner, since: time(text(1)?), until: time(stored_until), boot })
}
