//! The statements of the tables. A taking, a renewal or a release reads the row, decides in [`row`](super::row) and writes the
//! row, all in one transaction; the clocks are read inside it, so after any wait for the write lock. Every run compiles the
//! statements that it uses, which is the greatest part of its own work: so they are short, and keep one text.

use std::time::Duration;

use rusqlite::Connection;

use super::super::sql::{self, Cell, History, Take};
use super::connect::boot_ms;
use super::execute::{Failure, atomically, cell, cells, each, json, query, time};
use super::history;
use super::row::{Boot, Now, Row};
use crate::backend::{Acquired, BackendError, Forgotten, Kept, wait_past};
use crate::lock::{Change, Claim, Closing, Grant, Purpose, Removal, Wanted};
use crate::system::Timestamp;

/// `{columns}`: what a [`Row`] is read from.
const COLUMNS: &str = "locked_by, locked_at, lock_until, boot_id, boot_until, boot_for";
const COLUMNS_OF_JAVA: &str = "locked_by, locked_at, lock_until, NULL, NULL, NULL";

const READ: &str = "SELECT {columns} FROM {table} WHERE name = :name";

/// `{boot}`: the columns that are written too if the table has them.
const WRITE: &str =
    "UPDATE {table} SET locked_by = :owner, locked_at = :since, lock_until = :until{boot} WHERE name = :name";
const BOOT: &str = ", boot_id = :boot, boot_until = :boot_until, boot_for = :boot_for";

/// Fails on a table whose names are no key. The conflict never happens.
const INSERT: &str = "INSERT INTO {table} (name, locked_by, locked_at, lock_until, boot_id, boot_until, boot_for) \
                      VALUES (:name, :owner, :since, :until, :boot, :boot_until, :boot_for) ON CONFLICT (name) DO NOTHING";

/// The last column is the milliseconds left by a time in another form.
const LIST: &str = "SELECT {columns}, name, CAST((julianday(lock_until) - julianday('now')) * 86400000 AS INTEGER) FROM {table} \
                    WHERE :names IS NULL OR name IN (SELECT value FROM json_each(:names))";

/// `{runs}`: all runs, or those of [`OF_EACH`].
const RUNS: &str = "SELECT id, name, owner, host, started_at, ended_at, exit_code, outcome FROM {runs} \
                    WHERE (:names IS NULL OR name IN (SELECT value FROM json_each(:names))) \
                          AND (:since IS NULL OR ended_at IS NULL OR ended_at >= :since) \
                    ORDER BY started_at DESC, id DESC, name LIMIT coalesce(:limit, -1)";

/// Numbers the runs of each name, which takes longer than all the rest.
const OF_EACH: &str = "(SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY name ORDER BY id DESC) AS place \
                        FROM {history} WHERE (:names IS NULL OR name IN (SELECT value FROM json_each(:names))) \
                             AND (:since IS NULL OR ended_at IS NULL OR ended_at >= :since)) WHERE place <= :of_each)";

const FORGET: &str = "DELETE FROM {table} WHERE name = :name";

pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(64) NOT NULL PRIMARY KEY, lock_until TEXT NOT NULL, \
                      locked_at TEXT NOT NULL, locked_by VARCHAR(255) NOT NULL, boot_id TEXT, boot_until INTEGER, boot_for TEXT) \
                      WITHOUT ROWID";

/// A change or a removal by a person must survive a power cut.
pub(super) const SYNCHRONOUS_FULL: &str = "PRAGMA synchronous = FULL";

/// The statements on the tables, during one boot of the host.
pub(super) struct Statements<'a> {
    pub(super) table: &'a str,
    pub(super) boot: Option<&'a str>,
    /// Milliseconds by which this process's boot clock is ahead of the host's.
    pub(super) ahead_ms: i64,
    /// Durability of a write; it is set before each write, because a skip does not write.
    pub(super) synchronous: &'static str,
    /// Decides whether takings are recorded in the history.
    pub(super) history: History,
    pub(super) form: Form,
}

/// The columns that the table of locks has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Ours,
    /// Only the columns of the Java library.
    Javas,
}

impl Statements<'_> {
    /// Replaces the words in braces.
    pub(super) fn fill(&self, statement: &str) -> String {
        let mut text = String::with_capacity(256);
        self.fill_into(&mut text, statement);
        text
    }

    fn fill_into(&self, text: &mut String, statement: &str) {
        let mut rest = statement;
        while let Some((plain, from)) = rest.split_once('{') {
            let (word, after) = from.split_once('}').unwrap_or((from, ""));
            text.push_str(plain);
            match (word, self.form) {
                ("table", _) => text.extend(["\"", self.table, "\""]),
                ("history", _) => text.extend(["\"", self.table, "_history\""]),
                ("columns", Form::Ours) => text.push_str(COLUMNS),
                ("columns", Form::Javas) => text.push_str(COLUMNS_OF_JAVA),
                ("boot", Form::Ours) => text.push_str(BOOT),
                ("boot", Form::Javas) => {}
                ("own", _) => self.fill_into(text, history::OWN),
                (other, _) => text.extend(["{", other, "}"]),
            }
            rest = after;
        }
        text.push_str(rest);
    }

    fn now(&self) -> Now<'_> {
        Now { wall: Timestamp::now(), boot: self.boot, boot_ms: boot_ms() - self.ahead_ms }
    }

    fn read(&self, connection: &Connection, name: &str) -> rusqlite::Result<Option<Row>> {
        let rows = query(connection, &self.fill(READ), &[(":name", name.to_owned().into())], row)?;
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
        let boot_for = row.boot.as_ref().map(|_| taking(&row.owner, &until));
        let values = [
            (":name", name.to_owned().into()),
            (":owner", row.owner.clone().into()),
            (":since", stored(&row.since).into()),
            (":until", until.into()),
            (":boot", id.into()),
            (":boot_until", until_ms.into()),
            (":boot_for", boot_for.into()),
        ];
        each(connection, &self.fill(statement), &values, |_| Ok(()))?;
        if connection.changes() == 0 {
            let error = BackendError::permanent(format!("the table {} did not keep the row of the lock", self.table));
            return Err(error.hint("a trigger on the table may prevent it; remove the trigger").into());
        }
        Ok(())
    }

    /// Returns who else holds the lock, without waiting for a writer and without making one wait. `None` also if a taking
    /// has to write the row.
    pub(super) fn holder(&self, connection: &Connection, claim: &Claim) -> Result<Option<Acquired>, Failure> {
        let row = self.read_well_formed(connection, claim)?;
        let now = self.now();
        let is_theirs = |row: &Row| is_of_another(row, claim, now) && row.moved(now).is_none();
        Ok(row.filter(is_theirs).map(|row| Acquired::Held(row.state(now))))
    }

    /// Takes the lock and records the run. `asked` is set if an earlier taking by this owner may have left a record.
    pub(super) fn acquire(&self, connection: &Connection, claim: &Claim, asked: bool) -> Result<Acquired, Failure> {
        let is_pause = claim.purpose == Purpose::Pause;
        atomically(connection, if is_pause { SYNCHRONOUS_FULL } else { self.synchronous }, || {
            let found = self.read_well_formed(connection, claim)?;
            let now = self.now();
            let (statement, again) = match found {
                Some(row) if is_of_another(&row, claim, now) => {
                    let moved = row.moved(now);
                    if let Some(moved) = &moved {
                        self.write(connection, WRITE, claim.name.as_str(), moved)?;
                    }
                    return Ok(Acquired::Held(moved.unwrap_or(row).state(now)));
                }
                Some(row) => (WRITE, asked || row.owner == claim.owner.as_str()),
                None => (INSERT, asked),
            };
            // A pause goes by the wall clock, and outlives a reboot.
            let row = Row::taken(claim.owner.as_str(), claim.lease, now, !is_pause);
            self.write(connection, statement, claim.name.as_str(), &row)?;
            let mut grant = Grant { locked_at: now.wall, until: row.until.unwrap_or_default(), token: None };
            if self.history == History::With && !is_pause {
                grant.token = history::record(self, connection, claim, &grant, again).map_err(Failure::History)?;
            }
            Ok(Acquired::Granted(grant))
        })
    }

    pub(super) fn renew(&self, connection: &Connection, claim: &Claim) -> Result<Kept, Failure> {
        atomically(connection, self.synchronous, || {
            let row = self.read_well_formed(connection, claim)?;
            let now = self.now();
            let Some(row) = row.filter(|row| row.owner == claim.owner.as_str() && row.is_held(now)) else {
                return Ok(Kept::Lost);
            };
            self.write(connection, WRITE, claim.name.as_str(), &row.renewed(claim.lease, now))?;
            Ok(Kept::Kept)
        })
    }

    /// Releases the lock, and closes its record even if the lock was lost. A repeated release finds its own mark and
    /// changes nothing.
    pub(super) fn release(
        &self,
        connection: &Connection,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
    ) -> Result<Kept, Failure> {
        let ended = claim.owner.ended();
        atomically(connection, self.synchronous, || {
            let row = self.read_well_formed(connection, claim)?;
            let now = self.now();
            let kept = match row {
                Some(row) if row.owner == ended => Kept::Kept,
                Some(row) if row.owner == claim.owner.as_str() && row.is_held(now) => {
                    self.write(connection, WRITE, claim.name.as_str(), &row.released(ended, hold, now))?;
                    Kept::Kept
                }
                _ => Kept::Lost,
            };
            if self.history == History::With {
                history::close(self, connection, claim, closing, now.wall).map_err(Failure::History)?;
            }
            Ok(kept)
        })
    }

    /// Changes the owner and the end. A repeated change finds its own owner and does the same again.
    pub(super) fn change(&self, connection: &Connection, change: &Change) -> Result<Kept, Failure> {
        let name = change.name.as_str();
        atomically(connection, SYNCHRONOUS_FULL, || {
            let row = self.read(connection, name)?;
            let now = self.now();
            let of_the_change = |row: &Row| [&change.from, &change.to].contains(&&row.owner);
            let Some(row) = row.filter(|row| of_the_change(row) && row.is_held(now)) else { return Ok(Kept::Lost) };
            self.write(connection, WRITE, name, &row.changed(&change.to, change.left, now))?;
            Ok(Kept::Kept)
        })
    }

    /// Removes the lock if it is free and the last owner is the one seen, and its records if no row stays.
    pub(super) fn forget(&self, connection: &Connection, removal: &Removal) -> Result<Forgotten, Failure> {
        let name = [(":name", removal.name.as_str().to_owned().into())];
        let delete = |statement| query(connection, &self.fill(statement), &name, |_| Ok(())).map(|rows| rows.len());
        atomically(connection, SYNCHRONOUS_FULL, || {
            let found = self.read(connection, removal.name.as_str())?;
            let now = self.now();
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
                    let newest = history::newest(self, connection, removal.name.as_str()).ok().flatten();
                    wait_past(newest.and_then(|id| id.try_into().ok()).unwrap_or_default(), now.wall.0);
                    delete(history::FORGET).map_err(Failure::History)?
                }
                History::Without => 0,
            };
            Ok(Forgotten::Gone { lock: found.is_some(), runs: runs as u64 })
        })
    }

    pub(super) fn list(&self, connection: &Connection, names: &[&str], take: Take<'_>) -> Result<(), Failure> {
        let now = self.now();
        Ok(each(connection, &self.fill(LIST), &[(":names", json(names))], |cells| {
            let [name, left_of_odd] = [cell(cells, 6)?, cell(cells, 7)?];
            let row = row(cells)?;
            let left = if row.is_odd() { left_of_odd } else { row.left_ms(now).map_or(Cell::Nothing, Cell::Number) };
            let micros = match left {
                Cell::Number(millis) => Cell::Number(millis.saturating_mul(1000)),
                other => other,
            };
            let held = Cell::Number(row.is_held(now).into());
            let times =
                [row.since, row.until].map(|time| time.map_or(Cell::Nothing, |time| Cell::Text(time.to_string())));
            let [since, until] = times;
            take(&sql::Row(vec![name, Cell::Text(row.owner), since, until, held, micros]));
            Ok(())
        })?)
    }

    pub(super) fn runs(&self, connection: &Connection, wanted: &Wanted, take: Take<'_>) -> rusqlite::Result<()> {
        let values = [
            (":names", json(&wanted.names)),
            (":since", wanted.since.map(|since| since.to_string()).into()),
            (":of_each", wanted.of_each.into()),
            (":limit", wanted.limit.into()),
        ];
        let runs = if wanted.of_each.is_some() { OF_EACH } else { "{history}" };
        each(connection, &self.fill(&RUNS.replace("{runs}", runs)), &values, |row| {
            cells(row, [4, 5]).map(|row| take(&row))
        })
    }
}

fn is_of_another(row: &Row, claim: &Claim, now: Now<'_>) -> bool {
    row.owner != claim.owner.as_str() && row.is_held(now)
}

/// Returns the name of a taking by which the boot columns know whether they belong to it.
fn taking(owner: &str, until: &str) -> String {
    format!("{owner} {until}")
}

/// Reads a row of `{columns}`.
fn row(cells: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let text = |column| cell(cells, column).map(|cell| sql::Row(vec![cell]).word(0));
    let (owner, stored_until) = (text(0)?, text(2)?);
    let boot = match (cell(cells, 3)?, cell(cells, 4)?, cell(cells, 5)?) {
        (Cell::Text(id), Cell::Number(until_ms), Cell::Text(of)) if of == taking(&owner, &stored_until) => {
            Some(Boot { id, until_ms })
        }
        _ => None,
    };
    Ok(Row { owner, since: time(text(1)?), until: time(stored_until), boot })
}
