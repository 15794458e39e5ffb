//! The statements of the table of locks, and how they are carried out.

use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, Row};

use super::history;
use crate::backend::Kept;
use crate::clock::Timestamp;
use crate::lock::{Claim, Closing, Grant, Purpose, Record};

/// `{ours}`: do the row's boot columns speak of this taking? They do not where somebody who knows nothing of them, a Java
/// application or a person, has changed the row since.
const OURS: &str = "(boot_for IS locked_by || ' ' || lock_until AND boot_id IS NOT NULL AND :boot IS NOT NULL)";

/// `{held}`: is this row's lock held? The wall clock decides where the boot columns have nothing to say. What was freed
/// stays free whatever clock is set. It is in nearly every statement, and each part of it is compiled by every run.
const HELD: &str = "CASE WHEN {ours} AND boot_id = :boot THEN boot_until > boot_ms() \
                    ELSE {held_by_wall_clock} AND NOT ({ours} AND (boot_until <= 0 OR {before_boot})) END";

/// `{before_boot}`: was the lock taken before this machine started? Another boot id alone does not say so: containers of
/// one kernel may each have one of their own. The minute is for a clock that was set right after the start.
const BEFORE_BOOT: &str =
    "locked_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (boot_ms() / -1000.0) || ' seconds', '-1 minute')";

/// A lock that was kept after its job, and whose taking lies in the future, was taken before the clock was set back: its end may
/// be a year away. All who take it share this clock, and no job runs under it. The minute is for small corrections.
const HELD_BY_WALL_CLOCK: &str = "(lock_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AND NOT (locked_by LIKE '%:ended' \
                                   AND locked_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+1 minute')))";

/// `{left}`: for how many milliseconds, if it is held.
const LEFT: &str = "CASE WHEN {ours} AND boot_id = :boot THEN boot_until - boot_ms() ELSE {left_by_wall_clock} END";
const LEFT_BY_WALL_CLOCK: &str = "CAST((julianday(lock_until) - julianday('now')) * 86400000 AS INTEGER)";

/// Reading comes first: a skip then neither waits for the write lock nor makes another wait.
const PEEK: &str = "SELECT {held}, locked_by, locked_at, lock_until, {left} FROM {table} WHERE name = :name";

/// The clocks are read inside the statement, that is after any wait for the write lock. `:alive_in` is the boot that the taking
/// lasts as long as: none for a pause, which goes by the wall clock and outlives a reboot.
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

/// `{rest}`: until when a lock stays held that is released now. No longer than `:hold` from now on, since the clock may
/// have been set back after the taking.
const REST: &str =
    "min(strftime('%Y-%m-%dT%H:%M:%fZ', locked_at, :hold), strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :hold))";

/// A release that is repeated finds its own mark, and changes nothing. Where nothing is to be held any more, the boot
/// columns go on to say so: a clock that is set back later must not make the lock look held again.
const RELEASE: &str = "UPDATE {table} SET locked_by = :ended, \
                              boot_id = CASE WHEN locked_by = :ended THEN boot_id \
                                             WHEN {rest} > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') THEN NULL ELSE :boot END, \
                              boot_until = CASE WHEN locked_by = :ended THEN boot_until ELSE 0 END, \
                              boot_for = CASE WHEN locked_by = :ended THEN boot_for \
                                              ELSE :ended || ' ' || strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END, \
                              lock_until = CASE WHEN locked_by = :ended THEN lock_until \
                                           ELSE max(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), {rest}) END \
                       WHERE name = :name AND (locked_by = :ended OR locked_by = :owner AND {held})";

pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(64) NOT NULL PRIMARY KEY, lock_until TEXT NOT NULL, \
                      locked_at TEXT NOT NULL, locked_by VARCHAR(255) NOT NULL, boot_id TEXT, boot_until INTEGER, boot_for TEXT) \
                      WITHOUT ROWID";

/// What a person has asked for is not to be forgotten in a power cut.
pub(super) const SYNCHRONOUS_FULL: &str = "PRAGMA synchronous = FULL";

/// For a table that has the four columns of the Java library only.
pub(super) const ADD_COLUMNS: &str = "BEGIN IMMEDIATE; ALTER TABLE {table} ADD COLUMN boot_id TEXT; \
                           ALTER TABLE {table} ADD COLUMN boot_until INTEGER; \
                           ALTER TABLE {table} ADD COLUMN boot_for TEXT; COMMIT";

/// In bytes, once it is filled.
const USUAL_LENGTH: usize = 2048;

/// The statements of one table, on one boot of the machine.
pub(super) struct Statements<'a> {
    pub(super) table: &'a str,
    pub(super) boot: Option<&'a str>,
    /// How safely to write; it is set before each write, since a skip does not write.
    pub(super) synchronous: &'static str,
    /// Whether takings are noted in the history.
    pub(super) recorded: bool,
    pub(super) form: Form,
}

/// What columns the table of locks has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Ours,
    /// Those of the Java library only.
    Javas,
}

/// What SQLite complains of, and where.
#[derive(Debug)]
pub(super) enum Fault {
    /// The table of locks, or the file.
    Lock(rusqlite::Error),
    /// A statement of the history's.
    History(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Lock(error)
    }
}

impl Fault {
    /// What may mend it: a table that is missing or older.
    pub(super) fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Lock(error) => match error.to_string() {
                text if text.contains("no such table") => Some(CREATE),
                text if text.contains("no such column") || text.contains("has no column") => Some(ADD_COLUMNS),
                _ => None,
            },
            Self::History(error) => error.to_string().contains("no such table").then_some(history::CREATE),
        }
    }

    pub(super) fn error(&self) -> &rusqlite::Error {
        match self {
            Self::Lock(error) | Self::History(error) => error,
        }
    }
}

impl Statements<'_> {
    /// Puts in what the words in braces stand for.
    pub(super) fn fill(&self, statement: &str) -> String {
        let mut text = String::with_capacity(USUAL_LENGTH);
        self.fill_into(&mut text, statement);
        text
    }

    /// In one pass, since it is done for every statement of a run.
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
                ("rest", _) => self.fill_into(text, REST),
                ("table", _) => text.extend(["\"", self.table, "\""]),
                ("history", _) => text.extend(["\"", self.table, "_history\""]),
                (other, _) => text.extend(["{", other, "}"]),
            }
        }
    }

    /// Who else holds the lock; `None` if nobody does, or we do.
    pub(super) fn peek(&self, connection: &Connection, claim: &Claim) -> rusqlite::Result<Option<Record>> {
        let found = self.rows(connection, PEEK, claim, &[], |row| {
            let left: Option<i64> = row.get(4)?;
            let record = Record {
                owner: row.get(1)?,
                since: Some(time(row, 2)?),
                until: Some(time(row, 3)?),
                left: Duration::from_millis(left.unwrap_or_default().try_into().unwrap_or_default()),
            };
            Ok((row.get::<_, bool>(0)?, record))
        })?;
        Ok(found.and_then(|(held, record)| (held && record.owner != claim.owner.as_str()).then_some(record)))
    }

    /// Takes the lock and notes it; `None` if another was quicker.
    pub(super) fn acquire(&self, connection: &Connection, claim: &Claim) -> Result<Option<Grant>, Fault> {
        let (lease, lease_ms) = modifier(claim.lease);
        let is_pause = claim.purpose == Purpose::Pause;
        let (boot, synchronous) = if is_pause { (None, SYNCHRONOUS_FULL) } else { (self.boot, self.synchronous) };
        let boot = boot.map(str::to_owned);
        let values = [(":lease", lease.into()), (":lease_ms", lease_ms.into()), (":alive_in", boot.into())];
        atomically(connection, synchronous, || {
            let granted = self.rows(connection, ACQUIRE, claim, &values, |row| {
                Ok(Grant { locked_at: time(row, 0)?, until: time(row, 1)?, token: None })
            })?;
            let Some(grant) = granted.filter(|_| self.recorded && !is_pause) else { return Ok(granted) };
            let token = history::record(self, connection, claim, &grant).map_err(Fault::History)?;
            Ok(Some(Grant { token, ..grant }))
        })
    }

    pub(super) fn renew(&self, connection: &Connection, claim: &Claim) -> Result<Kept, Fault> {
        connection.execute_batch(self.synchronous)?;
        let (lease, lease_ms) = modifier(claim.lease);
        let values = [(":lease", lease.into()), (":lease_ms", lease_ms.into())];
        self.rows(connection, RENEW, claim, &values, |_| Ok(()))?;
        Ok(kept(connection.changes()))
    }

    /// Gives the lock back, and closes its record whether or not it still was ours.
    pub(super) fn release(
        &self,
        connection: &Connection,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
    ) -> Result<Kept, Fault> {
        let (hold, _) = modifier(hold);
        let values = [(":hold", hold.into()), (":ended", claim.owner.ended().into())];
        atomically(connection, self.synchronous, || {
            self.rows(connection, RELEASE, claim, &values, |_| Ok(()))?;
            let kept = kept(connection.changes());
            if self.recorded {
                history::close(self, connection, claim, closing).map_err(Fault::History)?;
            }
            Ok(kept)
        })
    }

    /// Runs a statement and returns its first row. It is stepped to its end, since only then does it commit, and
    /// only then does it say that it could not.
    pub(super) fn rows<T>(
        &self,
        connection: &Connection,
        statement: &str,
        claim: &Claim,
        more: &[(&str, Value)],
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        let mut prepared = connection.prepare(&self.fill(statement))?;
        let common: [(&str, Value); 3] = [
            (":name", claim.name.as_str().to_owned().into()),
            (":owner", claim.owner.as_str().to_owned().into()),
            (":boot", self.boot.map(str::to_owned).into()),
        ];
        for (key, value) in common.iter().chain(more) {
            if let Some(index) = prepared.parameter_index(key)? {
                prepared.raw_bind_parameter(index, value)?;
            }
        }
        let mut rows = prepared.raw_query();
        let mut first = None;
        while let Some(row) = rows.next()? {
            first = Some(read(row)?);
        }
        Ok(first)
    }
}

/// Does all of `work` in one commit, or nothing of it.
fn atomically<T>(
    connection: &Connection,
    synchronous: &str,
    work: impl FnOnce() -> Result<T, Fault>,
) -> Result<T, Fault> {
    connection.execute_batch(synchronous)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let done = work().and_then(|done| {
        connection.execute_batch("COMMIT")?;
        Ok(done)
    });
    if done.is_err() && !connection.is_autocommit() {
        // A commit that met a reader leaves the transaction open. If this fails too the connection is given up.
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
}

/// Reads a time of a row. Only our own form is taken: another one, such as milliseconds or a blank for the `T`, would
/// be compared as text all the same, and make a lock that is held look free.
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

/// A duration as SQLite's date functions want it, and in milliseconds; rounded up.
pub(super) fn modifier(duration: Duration) -> (String, i64) {
    let millis = i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
    (format!("+{}.{:03} seconds", millis / 1000, millis % 1000), millis)
}

pub(super) fn kept(changed: u64) -> Kept {
    if changed == 0 { Kept::Lost } else { Kept::Kept }
}
