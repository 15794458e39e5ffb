//! The statements of the table of locks.

use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, Row};

use super::super::sql::{History, Take};
use super::execute::{Failure, atomically, cells, each, json, modifier, query, time};
use super::history::{self, Taking};
use crate::backend::{Forgotten, Kept};
use crate::lock::{Change, Claim, Closing, Grant, LockState, Purpose, Removal, Wanted};

/// `{ours}`: true if the row's boot columns belong to its current taking. They do not after a Java application or a
/// person, unaware of them, has changed the row.
const OURS: &str = "(boot_for IS locked_by || ' ' || lock_until AND boot_id IS NOT NULL AND :boot IS NOT NULL)";

/// `{held}`: true if this row's lock is held. If the boot columns do not apply, the wall clock decides. A released
/// lock stays free whatever the clock is set to. Nearly every statement contains this expression, and every run
/// compiles each part of it: keep it short.
const HELD: &str = "CASE WHEN {ours} AND boot_id = :boot THEN boot_until > boot_ms() \
                    ELSE {held_by_wall_clock} AND NOT ({ours} AND (boot_until <= 0 OR {before_boot})) END";

/// `{before_boot}`: true if the lock was taken before this host started. Another boot id alone does not prove that,
/// because containers of one kernel may have their own. The minute allows for a clock that was set right after the
/// start.
const BEFORE_BOOT: &str =
    "locked_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (boot_ms() / -1000.0) || ' seconds', '-1 minute')";

/// `{held_by_wall_clock}`: true if the lock is held by the wall clock. A lock kept after its job, with its taking in
/// the future, was taken before the clock was set back, and its end may be a year away: it counts as free. That is
/// safe, because all its users share this clock and no job runs under it. The minute allows for small corrections.
const HELD_BY_WALL_CLOCK: &str = "(lock_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AND NOT (locked_by LIKE '%:ended' \
                                   AND locked_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 minute')))";

/// `{left}`: the milliseconds left, if the lock is held.
const LEFT: &str = "CASE WHEN {ours} AND boot_id = :boot THEN boot_until - boot_ms() ELSE {left_by_wall_clock} END";
const LEFT_BY_WALL_CLOCK: &str = "CAST((julianday(lock_until) - julianday('now')) * 86400000 AS INTEGER)";

/// Reads before any write: a skip then neither waits for the write lock nor makes another process wait.
const PEEK: &str = "SELECT {held}, locked_by, locked_at, lock_until, {left} FROM {table} WHERE name = :name";

/// Takes the lock. The clocks are read inside the statement, so after any wait for the write lock. `:alive_in` is the
/// boot that the taking ends with; it is null for a pause, which goes by the wall clock and outlives a reboot.
const ACQUIRE: &str = "INSERT INTO {table} (name, lock_until, locked_at, locked_by, boot_id, boot_until, boot_for) \
                       VALUES (:name, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :lease), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), \
                               :owner, :alive_in, boot_ms() + :lease_ms, \
                               :owner || ' ' || strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :lease)) \
                       ON CONFLICT (name) DO UPDATE SET lock_until = excluded.lock_until, locked_at = excluded.locked_at, \
                               locked_by = excluded.locked_by, boot_id = excluded.boot_id, \
                               boot_until = excluded.boot_until, boot_for = excluded.boot_for \
                       WHERE locked_by = :owner OR NOT {held} \
                       RETURNING locked_at, lock_until";

const RENEW: &str = "UPDATE {table} SET lock_until = max(lock_until, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :lease)), \
                            boot_id = :boot, boot_until = max(boot_until, boot_ms() + :lease_ms), \
                            boot_for = :owner || ' ' || max(lock_until, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :lease)) \
                     WHERE name = :name AND locked_by = :owner AND {held}";

/// `{rest}`: the end of a lock that is released now and stays held. At most `:hold` from now, because the clock may
/// have been set back after the taking.
const REST: &str =
    "min(strftime('%Y-%m-%dT%H:%M:%fZ', locked_at, :hold), strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :hold))";

/// Releases the lock. A repeated release finds its own mark and changes nothing. If the lock is to be free, the boot
/// columns keep saying so: a clock that is set back later must not make it look held again.
const RELEASE: &str = "UPDATE {table} SET locked_by = :ended, \
                              boot_id = CASE WHEN locked_by = :ended THEN boot_id \
                                             WHEN {rest} > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') THEN NULL ELSE :boot END, \
                              boot_until = CASE WHEN locked_by = :ended THEN boot_until ELSE 0 END, \
                              boot_for = CASE WHEN locked_by = :ended THEN boot_for \
                                              ELSE :ended || ' ' || strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END, \
                              lock_until = CASE WHEN locked_by = :ended THEN lock_until \
                                           ELSE max(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), {rest}) END \
                       WHERE name = :name AND (locked_by = :ended OR locked_by = :owner AND {held})";

/// `{odd}`: true if the row's times are malformed; a taking reports them as an error and does not get the lock.
const ODD: &str = "(strftime('%Y-%m-%dT%H:%M:%fZ', lock_until) IS NOT coalesce(lock_until, '') \
                    OR strftime('%Y-%m-%dT%H:%M:%fZ', locked_at) IS NOT coalesce(locked_at, ''))";

const LIST: &str = "SELECT name, locked_by, locked_at, lock_until, {held} OR {odd}, 1000 * ({left}) FROM {table} \
                    WHERE :names IS NULL OR name IN (SELECT value FROM json_each(:names))";

/// `{runs}`: all runs, or those of [`OF_EACH`].
const RUNS: &str = "SELECT id, name, owner, host, started_at, ended_at, exit_code, outcome FROM {runs} \
                    WHERE (:names IS NULL OR name IN (SELECT value FROM json_each(:names))) \
                          AND (:since IS NULL OR ended_at IS NULL OR ended_at >= :since) \
                    ORDER BY started_at DESC, id DESC, name LIMIT coalesce(:limit, -1)";

/// Numbers the runs of each name, which takes longer than all the rest.
const OF_EACH: &str = "(SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY name ORDER BY started_at DESC, id DESC) AS place \
                        FROM {history} WHERE (:names IS NULL OR name IN (SELECT value FROM json_each(:names))) \
                             AND (:since IS NULL OR ended_at IS NULL OR ended_at >= :since)) WHERE place <= :of_each)";

/// Changes the owner and the end. A repeated change finds its own owner and does the same again. A lock that is held
/// from now on has no boot, and one that is free is marked as a release marks it. A row with malformed times is
/// repaired.
const CHANGE: &str = "UPDATE {table} SET locked_by = :to, \
                             locked_at = CASE WHEN locked_by = :to AND NOT {odd} THEN locked_at \
                                              ELSE strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END, \
                             lock_until = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :left){boot} \
                      WHERE name = :name AND locked_by IN (:from, :to) AND ({held} OR {odd})";

/// `{boot}`: the columns that a change also writes if the table has them.
const CHANGE_BOOT: &str = ", boot_id = CASE WHEN :left_ms > 0 THEN NULL ELSE :boot END, boot_until = 0, \
                             boot_for = :to || ' ' || strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :left)";

/// Deletes a free lock. A row with malformed times counts as held.
const FORGET: &str =
    "DELETE FROM {table} WHERE name = :name AND coalesce(locked_by, '') = :seen AND NOT ({held} OR {odd}) RETURNING 1";
const STAYS: &str = "SELECT 1 FROM {table} WHERE name = :name";

pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(64) NOT NULL PRIMARY KEY, lock_until TEXT NOT NULL, \
                      locked_at TEXT NOT NULL, locked_by VARCHAR(255) NOT NULL, boot_id TEXT, boot_until INTEGER, boot_for TEXT) \
                      WITHOUT ROWID";

/// A change or a removal by a person must survive a power cut.
pub(super) const SYNCHRONOUS_FULL: &str = "PRAGMA synchronous = FULL";

/// Bytes of a usual statement once it is filled.
const USUAL_LENGTH: usize = 2048;

/// The statements on one table during one boot of the host.
pub(super) struct Statements<'a> {
    pub(super) table: &'a str,
    pub(super) boot: Option<&'a str>,
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
        let mut text = String::with_capacity(USUAL_LENGTH);
        self.fill_into(&mut text, statement);
        text
    }

    /// Works in one pass, because every statement of a run goes through it.
    fn fill_into(&self, text: &mut String, statement: &str) {
        let mut words = statement.split(['{', '}']);
        while let Some(plain) = words.next() {
            text.push_str(plain);
            let Some(word) = words.next() else { return };
            match (word, self.form) {
                ("held", Form::Ours) => self.fill_into(text, HELD),
                ("held" | "held_by_wall_clock", _) => self.fill_into(text, HELD_BY_WALL_CLOCK),
                ("left", Form::Ours) => self.fill_into(text, LEFT),
                ("left" | "left_by_wall_clock", _) => self.fill_into(text, LEFT_BY_WALL_CLOCK),
                ("before_boot", _) => self.fill_into(text, BEFORE_BOOT),
                ("ours", _) => self.fill_into(text, OURS),
                ("odd", _) => self.fill_into(text, ODD),
                ("boot", Form::Ours) => self.fill_into(text, CHANGE_BOOT),
                ("boot", Form::Javas) => {}
                ("rest", _) => self.fill_into(text, REST),
                ("table", _) => text.extend(["\"", self.table, "\""]),
                ("own", _) => self.fill_into(text, history::OWN),
                ("history", _) => text.extend(["\"", self.table, "_history\""]),
                (other, _) => text.extend(["{", other, "}"]),
            }
        }
    }

    /// Returns the other owner that holds the lock, or else which taking it would be.
    pub(super) fn peek(&self, connection: &Connection, claim: &Claim) -> rusqlite::Result<Result<Taking, LockState>> {
        let found = self.rows(connection, PEEK, claim, &[], |row| {
            let left: Option<i64> = row.get(4)?;
            let record = LockState {
                owner: row.get(1)?,
                since: Some(time(row, 2)?),
                until: Some(time(row, 3)?),
                left: Duration::from_millis(left.unwrap_or_default().try_into().unwrap_or_default()),
            };
            Ok((row.get::<_, bool>(0)?, record))
        })?;
        Ok(match found {
            Some((_, record)) if record.owner == claim.owner.as_str() => Ok(Taking::Again),
            Some((true, record)) => Err(record),
            _ => Ok(Taking::First),
        })
    }

    /// Takes the lock and records the run; returns `None` if another process was faster.
    pub(super) fn acquire(
        &self,
        connection: &Connection,
        claim: &Claim,
        taking: Taking,
    ) -> Result<Option<Grant>, Failure> {
        let (lease, lease_ms) = modifier(claim.lease);
        let is_pause = claim.purpose == Purpose::Pause;
        let (boot, synchronous) = if is_pause { (None, SYNCHRONOUS_FULL) } else { (self.boot, self.synchronous) };
        let boot = boot.map(str::to_owned);
        let values = [(":lease", lease.into()), (":lease_ms", lease_ms.into()), (":alive_in", boot.into())];
        atomically(connection, synchronous, || {
            let granted = self.rows(connection, ACQUIRE, claim, &values, |row| {
                Ok(Grant { locked_at: time(row, 0)?, until: time(row, 1)?, token: None })
            })?;
            let Some(grant) = granted.filter(|_| self.history == History::With && !is_pause) else {
                return Ok(granted);
            };
            let token = history::record(self, connection, claim, &grant, taking).map_err(Failure::History)?;
            Ok(Some(Grant { token, ..grant }))
        })
    }

    pub(super) fn renew(&self, connection: &Connection, claim: &Claim) -> Result<Kept, Failure> {
        connection.execute_batch(self.synchronous)?;
        let (lease, lease_ms) = modifier(claim.lease);
        let values = [(":lease", lease.into()), (":lease_ms", lease_ms.into())];
        self.rows(connection, RENEW, claim, &values, |_| Ok(()))?;
        Ok(kept(connection.changes()))
    }

    /// Releases the lock, and closes its record even if the lock was lost.
    pub(super) fn release(
        &self,
        connection: &Connection,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
    ) -> Result<Kept, Failure> {
        let (hold, _) = modifier(hold);
        let values = [(":hold", hold.into()), (":ended", claim.owner.ended().into())];
        atomically(connection, self.synchronous, || {
            self.rows(connection, RELEASE, claim, &values, |_| Ok(()))?;
            let kept = kept(connection.changes());
            if self.history == History::With {
                history::close(self, connection, claim, closing).map_err(Failure::History)?;
            }
            Ok(kept)
        })
    }

    pub(super) fn change(&self, connection: &Connection, change: &Change) -> Result<Kept, Failure> {
        let (left, left_ms) = modifier(change.left);
        let values: [(&str, Value); 6] = [
            (":name", change.name.as_str().to_owned().into()),
            (":from", change.from.clone().into()),
            (":to", change.to.clone().into()),
            (":left", left.into()),
            (":left_ms", left_ms.into()),
            (":boot", self.boot.map(str::to_owned).into()),
        ];
        connection.execute_batch(SYNCHRONOUS_FULL)?;
        query(connection, &self.fill(CHANGE), &values, |_| Ok(()))?;
        Ok(kept(connection.changes()))
    }

    /// Removes the lock if it is free and the last owner is the one seen, and its records if no row stays.
    pub(super) fn forget(&self, connection: &Connection, removal: &Removal) -> Result<Forgotten, Failure> {
        let values: [(&str, Value); 3] = [
            (":name", removal.name.as_str().to_owned().into()),
            (":seen", removal.seen.clone().into()),
            (":boot", self.boot.map(str::to_owned).into()),
        ];
        let count = |statement| query(connection, &self.fill(statement), &values, |_| Ok(())).map(|rows| rows.len());
        atomically(connection, SYNCHRONOUS_FULL, || {
            let lock = count(FORGET)? > 0;
            if !lock && count(STAYS)? > 0 {
                return Ok(Forgotten::InUse);
            }
            let runs = match self.history {
                History::With => count(history::FORGET).map_err(Failure::History)?,
                History::Without => 0,
            };
            Ok(Forgotten::Gone { lock, runs: runs as u64 })
        })
    }

    pub(super) fn list(&self, connection: &Connection, names: &[&str], take: Take<'_>) -> Result<(), Failure> {
        let values = [(":names", json(names)), (":boot", self.boot.map(str::to_owned).into())];
        Ok(each(connection, &self.fill(LIST), &values, |row| cells(row, [2, 3]).map(|row| take(&row)))?)
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

    /// Runs a statement for a claim and returns its first row.
    pub(super) fn rows<T>(
        &self,
        connection: &Connection,
        statement: &str,
        claim: &Claim,
        more: &[(&str, Value)],
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        let common: [(&str, Value); 3] = [
            (":name", claim.name.as_str().to_owned().into()),
            (":owner", claim.owner.as_str().to_owned().into()),
            (":boot", self.boot.map(str::to_owned).into()),
        ];
        let rows = query(connection, &self.fill(statement), &[&common, more].concat(), read)?;
        Ok(rows.into_iter().next())
    }
}

fn kept(changed: u64) -> Kept {
    Kept::if_so(changed > 0)
}
