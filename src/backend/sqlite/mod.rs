//! Locks in one SQLite file, for the processes of one host.
//!
//! The layout is the Java library's, plus three columns: a running job's row carries the boot id of the machine and
//! the lease's end on the boot clock, and is judged by them for as long as the row says what it said when they were
//! written. Setting the wall clock neither frees nor prolongs such a lock, and a reboot frees it at once. What outlives
//! the job (at-least, every) is judged by the wall clock; a lock that is free stays free wherever that is set.
//!
//! Journal and durability. The file is in WAL mode with `synchronous=NORMAL`: a commit is a write without an fsync,
//! readers never wait, and neither a kill nor a power cut can damage the file. A commit survives the death of every
//! process, since it is in the kernel. A power cut can forget the last commits; the row of a running job is void
//! after a reboot anyway, so what can be lost is the at-least or every of a job that had just ended. Who minds
//! says `?synchronous=full` and pays an fsync per take and per release.

mod file;

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};

use super::url::percent_decode;
use super::{Access, Acquired, Backend, Kept, Pace, Trouble, Url};
use crate::clock::{Moment, Timestamp};
use crate::lock::{Claim, Closing, Grant, Record};
use file::{Directory, File};

/// `{ours}`: do the row's boot columns speak of this taking? They do not where somebody who knows nothing of them, a Java
/// application or a person, has changed the row since.
const OURS: &str = "(boot_for = locked_by || ' ' || lock_until AND boot_id IS NOT NULL AND :boot IS NOT NULL)";

/// `{held}`: is this row's lock held? The wall clock decides where the boot columns have nothing to say.
const HELD: &str = "CASE WHEN {ours} THEN boot_id = :boot AND boot_until > boot_ms() \
                    ELSE lock_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END";

/// Reading comes first: a skip then neither waits for the write lock nor makes another wait.
const PEEK: &str = "SELECT {held}, locked_by, locked_at, lock_until, \
                    CASE WHEN {ours} THEN boot_until - boot_ms() \
                         ELSE CAST((julianday(lock_until) - julianday('now')) * 86400000 AS INTEGER) END \
                    FROM {table} WHERE name = :name";

/// The clocks are read inside the statement, that is after any wait for the write lock.
const ACQUIRE: &str = "INSERT INTO {table} (name, lock_until, locked_at, locked_by, boot_id, boot_until, boot_for) \
                       VALUES (:name, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :lease), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), \
                               :owner, :boot, boot_ms() + :lease_ms, \
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

const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(64) NOT NULL PRIMARY KEY, lock_until TEXT NOT NULL, \
                      locked_at TEXT NOT NULL, locked_by VARCHAR(255) NOT NULL, boot_id TEXT, boot_until INTEGER, boot_for TEXT) \
                      WITHOUT ROWID";

/// For a table that has the four columns of the Java library only.
const ADD_COLUMNS: &str = "BEGIN IMMEDIATE; ALTER TABLE {table} ADD COLUMN boot_id TEXT; \
                           ALTER TABLE {table} ADD COLUMN boot_until INTEGER; \
                           ALTER TABLE {table} ADD COLUMN boot_for TEXT; COMMIT";

/// Small pages, since a commit writes whole pages and ours are a row each.
const PAGE_SIZE: &str = "PRAGMA page_size = 1024";

/// Folds the write-ahead log into the file, and empties it. Whoever opens the file first has to read the whole log, so
/// it is kept short; a mere checkpoint would not do, since that reader does not learn how far it got, and the log would
/// grow. It takes two fsyncs, for which no job should wait: it is done while a job runs, when the connection is closed,
/// or by a release that finds the log longer than [`LONG_LOG`].
const FOLD_LOG: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// In bytes; some 30 commits.
const LONG_LOG: u64 = 32 * 1024;

/// How often a taking may find the lock free and then taken before that counts as busy.
const RACES: usize = 100;

/// Locks in one SQLite file.
pub(crate) struct Sqlite {
    file: File,
    address: String,
    synchronous: &'static str,
    table: String,
    /// This boot of this machine; `None` where the system does not tell, and then wall clocks decide.
    boot: Option<String>,
    /// How many milliseconds the boot clock is ahead of that of the machine.
    ahead_ms: i64,
    connection: Option<Connection>,
}

impl Sqlite {
    /// Checks `sqlite:PATH`, without touching the file.
    pub(crate) fn open(url: &Url, _: &Access) -> Result<Box<dyn Backend>, String> {
        let rest = match url.rest().strip_prefix("//") {
            None => url.rest(),
            Some(path) if path.starts_with('/') => path,
            Some(_) => return Err("names a host; write sqlite:PATH or sqlite:///ABSOLUTE/PATH".to_owned()),
        };
        let path = String::from_utf8(percent_decode(rest)).map_err(|_| "has a path that is no text".to_owned())?;
        if path.is_empty() {
            return Err("names no file; write sqlite:PATH".to_owned());
        }
        if path == "~" || path.starts_with("~/") {
            return Err("begins with `~`, which only a shell makes a directory of; write the whole path".to_owned());
        }
        if path == ":memory:" {
            return Err("is a database in memory, which excludes nobody; name a file".to_owned());
        }
        let mode = url.take("mode").map(|mode| file::parse_mode(&mode)).transpose()?;
        let synchronous = match url.take("synchronous").as_deref() {
            None | Some("normal") => "PRAGMA synchronous = NORMAL",
            Some("full") => "PRAGMA synchronous = FULL",
            Some(other) => return Err(format!("has synchronous={other}; known are normal and full")),
        };
        let table = url.take_table()?;
        if table.contains('.') {
            return Err(format!("has table={table}; a file has no schemas"));
        }
        url.nothing_left(&["mode", "synchronous", "table"])?;
        Ok(Box::new(Self::new(File::new(PathBuf::from(path), mode, Directory::MustExist), synchronous, table)))
    }

    /// The file that is used when nobody named a backend; its directory is made too.
    pub(crate) fn at_default_place(path: PathBuf) -> Box<dyn Backend> {
        Box::new(Self::new(
            File::new(path, None, Directory::Make),
            "PRAGMA synchronous = NORMAL",
            "shedlock".to_owned(),
        ))
    }

    fn new(file: File, synchronous: &'static str, table: String) -> Self {
        let mut address = file.address();
        if table != "shedlock" {
            address += &format!("?table={table}");
        }
        Self { file, address, synchronous, table, boot: None, ahead_ms: 0, connection: None }
    }

    /// Runs `operation` on an open connection, after putting the table in order where it was missing or older.
    fn with_table<T>(
        &mut self,
        operation: impl Fn(&Connection, &Statements<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Trouble> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let statements = Statements { table: &self.table, boot: self.boot.as_deref(), synchronous: self.synchronous };
        let mut answer = operation(&connection, &statements);
        if let Err(error) = &answer {
            let remedy = match error.to_string() {
                text if text.contains("no such table") => Some(CREATE),
                text if text.contains("no such column") || text.contains("has no column") => Some(ADD_COLUMNS),
                _ => None,
            };
            if let Some(remedy) = remedy {
                answer = connection
                    .execute_batch(&statements.fill(remedy))
                    .and_then(|()| operation(&connection, &statements));
            }
        }
        match answer {
            Ok(answer) => {
                self.connection = Some(connection);
                Ok(answer)
            }
            Err(error) => {
                let trouble = self.explain(&error);
                // A connection that only met a writer is as good as before. One whose COMMIT met a reader is still within
                // its transaction, where a lock would be granted that nobody else sees.
                if is_busy(&error) && connection.is_autocommit() {
                    self.connection = Some(connection);
                }
                Err(trouble)
            }
        }
    }

    fn connect(&mut self) -> Result<Connection, Trouble> {
        self.file.follow_links();
        self.file.refuse_network()?;
        if self.boot.is_none() {
            self.boot = boot_id();
            self.ahead_ms = ahead_ms();
        }
        let ahead_ms = self.ahead_ms;
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_EXRESCODE;
        let open = || Connection::open_with_flags(self.file.path(), flags);
        let opened = match open() {
            Ok(connection) => Ok(connection),
            Err(_) => {
                if self.file.is_missing() {
                    let create = format!("{PAGE_SIZE}; {}", self.fill_table(CREATE));
                    self.file.create(&create)?;
                }
                // Also if it is there: another process may have made it since we found none.
                open()
            }
        };
        // SQLite opens for reading what it could not open for writing, and in between another process may have made it.
        let again = opened.as_ref().is_ok_and(|found| found.is_readonly("main") == Ok(true)) && self.file.is_writable();
        let connection = if again { open() } else { opened }.map_err(|error| self.explain(&error))?;
        let prepare = || {
            // Waiting for other writers is the caller's affair, who knows the deadline and the signals.
            connection.busy_timeout(Duration::ZERO)?;
            connection
                .create_scalar_function("boot_ms", 0, FunctionFlags::SQLITE_UTF8, move |_| Ok(boot_ms() - ahead_ms))?;
            connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        };
        prepare().map_err(|error| self.explain(&error))?;
        Ok(connection)
    }

    fn fold_log(&self) {
        if let Some(connection) = &self.connection {
            // If others are at work it fails, and is theirs to do.
            let _ = connection.query_row(FOLD_LOG, (), |_| Ok(()));
        }
    }

    fn fill_table(&self, statement: &str) -> String {
        Statements { table: &self.table, boot: None, synchronous: self.synchronous }.fill(statement)
    }

    /// Says in one line what SQLite means, and what to do.
    fn explain(&self, error: &rusqlite::Error) -> Trouble {
        let path = self.file.path().display();
        let Some(code) = error.sqlite_error_code() else {
            return Trouble::lasting(format!("backend {path}: {error}"));
        };
        if error.to_string().contains("duplicate column name") {
            return Trouble::passing(format!("backend {path}: another process is adding columns to the table"));
        }
        match code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                Trouble::passing(format!("backend {path}: the database is locked by another process"))
                    .hint(format!("find who has it open with `fuser -v {path}`; a backup or an editor may hold it"))
            }
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                Trouble::lasting(format!("backend {path}: the file is damaged or is no SQLite database"))
                    .hint("while no job runs, move it away together with its -wal and -shm files; a new one is made")
            }
            ErrorCode::DiskFull => Trouble::lasting(format!("backend {path}: no space left on its disk")),
            ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => self.file.explain_refusal(),
            ErrorCode::SystemIoFailure => self.file.explain_io(error),
            _ => Trouble::lasting(format!("backend {path}: {error}")),
        }
    }
}

impl Backend for Sqlite {
    fn acquire(&mut self, claim: &Claim) -> Result<Acquired, Trouble> {
        self.with_table(|connection, statements| {
            for _ in 0..RACES {
                if let Some(record) = statements.peek(connection, claim)? {
                    return Ok(Acquired::Held(record));
                }
                if let Some(grant) = statements.acquire(connection, claim)? {
                    return Ok(Acquired::Granted(grant));
                }
            }
            Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None))
        })
    }

    fn renew(&mut self, claim: &Claim) -> Result<Kept, Trouble> {
        self.with_table(|connection, statements| {
            let (lease, lease_ms) = modifier(claim.lease);
            let changed = statements.execute(
                connection,
                RENEW,
                claim,
                &[(":lease", lease.into()), (":lease_ms", lease_ms.into())],
            )?;
            Ok(kept(changed))
        })
    }

    fn release(&mut self, claim: &Claim, hold: Duration, _: Closing) -> Result<Kept, Trouble> {
        let answer = self.with_table(|connection, statements| {
            let (hold, _) = modifier(hold);
            let changed = statements.execute(
                connection,
                RELEASE,
                claim,
                &[(":hold", hold.into()), (":ended", claim.owner.ended().into())],
            )?;
            Ok(kept(changed))
        })?;
        if self.file.log_size() > LONG_LOG {
            self.fold_log();
        }
        Ok(answer)
    }

    fn disconnect(&mut self) {
        if self.connection.as_ref().is_some_and(|connection| connection.total_changes() > 0) {
            self.fold_log();
        }
        self.connection = None;
    }

    fn pace(&self) -> Pace {
        // A writer holds the file for well under a millisecond.
        Pace { first: Duration::from_millis(1), longest: Duration::from_millis(20) }
    }

    fn address(&self) -> &str {
        &self.address
    }
}

/// The statements of one table, on one boot of the machine.
struct Statements<'a> {
    table: &'a str,
    boot: Option<&'a str>,
    /// How safely to write; it is set before each write, since a skip does not write.
    synchronous: &'static str,
}

impl Statements<'_> {
    fn fill(&self, statement: &str) -> String {
        statement
            .replace("{held}", HELD)
            .replace("{ours}", OURS)
            .replace("{rest}", REST)
            .replace("{table}", &format!("\"{}\"", self.table))
    }

    /// Who else holds the lock; `None` if nobody does, or we do.
    fn peek(&self, connection: &Connection, claim: &Claim) -> rusqlite::Result<Option<Record>> {
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

    fn acquire(&self, connection: &Connection, claim: &Claim) -> rusqlite::Result<Option<Grant>> {
        connection.execute_batch(self.synchronous)?;
        let (lease, lease_ms) = modifier(claim.lease);
        self.rows(connection, ACQUIRE, claim, &[(":lease", lease.into()), (":lease_ms", lease_ms.into())], |row| {
            Ok(Grant { locked_at: time(row, 0)?, until: time(row, 1)?, token: None })
        })
    }

    fn execute(
        &self,
        connection: &Connection,
        statement: &str,
        claim: &Claim,
        more: &[(&str, Value)],
    ) -> rusqlite::Result<u64> {
        connection.execute_batch(self.synchronous)?;
        self.rows(connection, statement, claim, more, |_| Ok(()))?;
        Ok(connection.changes())
    }

    /// Runs a statement and returns its first row. It is stepped to its end, since only then does it commit, and
    /// only then does it say that it could not.
    fn rows<T>(
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

/// Reads a time of a row. Only our own form is taken: another one, such as milliseconds or a blank for the `T`, would
/// be compared as text all the same, and make a lock that is held look free.
fn time(row: &Row<'_>, index: usize) -> rusqlite::Result<Timestamp> {
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
fn modifier(duration: Duration) -> (String, i64) {
    let millis = i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
    (format!("+{}.{:03} seconds", millis / 1000, millis % 1000), millis)
}

/// Reads the identity of this boot of the machine, a UUID.
fn boot_id() -> Option<String> {
    let mut id = [0; 36];
    std::fs::File::open("/proc/sys/kernel/random/boot_id").ok()?.read_exact(&mut id).ok()?;
    String::from_utf8(id.to_vec()).ok()
}

fn boot_ms() -> i64 {
    i64::try_from(Moment::now().since_boot().as_millis()).unwrap_or(i64::MAX)
}

/// Reads how far the boot clock is ahead of the machine's: in a time namespace, that is in some containers, it has an offset of
/// its own, and all who share the file must read one clock.
fn ahead_ms() -> i64 {
    std::fs::read_to_string("/proc/self/timens_offsets").map_or(0, |offsets| boot_offset_ms(&offsets))
}

/// Finds it in the text of the file: a line each with the clock's name, seconds and nanoseconds. Without namespaces for
/// time there is no such file, and no offset.
fn boot_offset_ms(offsets: &str) -> i64 {
    let line = offsets.lines().find_map(|line| line.trim().strip_prefix("boottime")).unwrap_or_default();
    let mut numbers = line.split_whitespace().map(|number| number.parse::<i64>().unwrap_or_default());
    let (secs, nanos) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    secs.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}

fn kept(changed: u64) -> Kept {
    if changed == 0 { Kept::Lost } else { Kept::Kept }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::backend::conformance::conformance!(crate::servers::stores::SqliteStore::new);

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        assert_eq!(boot_offset_ms("monotonic           0         0\nboottime        86400         0\n"), 86_400_000);
        assert_eq!(boot_offset_ms("monotonic 0 0\nboottime -5 250000000\n"), -4_750);
        assert_eq!(boot_offset_ms(""), 0);
    }
}
