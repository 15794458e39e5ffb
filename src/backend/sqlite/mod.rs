//! Locks in one SQLite file, for the processes of one host.
//!
//! The layout is the Java library's, plus three columns: a running job's row carries the boot id of the machine and
//! the lease's end on the boot clock, and is judged by them for as long as the row says what it said when they were
//! written. Setting the wall clock neither frees nor prolongs such a lock, and a reboot frees it at once. Containers of one
//! kernel may have boot ids of their own: a row with another id that was taken since this machine started is judged by the
//! wall clock. So is what outlives the job (at-least, every); a lock that is free stays free wherever that is set.
//!
//! Journal and durability. The file is in WAL mode with `synchronous=NORMAL`: a commit is a write without an fsync,
//! readers never wait, and neither a kill nor a power cut can damage the file. A commit survives the death of every
//! process, since it is in the kernel. A power cut can forget the last commits; the row of a running job is void
//! after a reboot anyway, so what can be lost is the at-least or every of a job that had just ended. Who minds
//! says `?synchronous=full` and pays an fsync per take and per release.

mod check;
mod connect;
mod entry;
mod file;
mod fold;
mod history;
mod limits;
mod mount;
mod operate;
mod statements;

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::history::History;
use super::url::percent_decode;
use super::{Access, Acquired, Backend, Kept, Operate, Pace, Reply, Trouble, Url};
use crate::lock::{Claim, Closing, Locks};
use file::{Directory, File};
use statements::{Fault, Form, Statements};

/// What to do about a file that is no database of ours.
const DAMAGED: &str = "see whether the path is the right one; if it is, move it away while no job runs, together with its -wal and \
                       -shm files: a new one is made";

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
    history: History,
}

/// How many tables may be missing or older: that of locks may be either, one after the other, and that of runs missing.
const REMEDIES: usize = 3;

impl Sqlite {
    /// Checks `sqlite:PATH`, without touching the file.
    pub(crate) fn open(url: &Url, _: &Access) -> Result<Box<dyn Operate>, String> {
        let rest = match url.rest().strip_prefix("//") {
            None => url.rest(),
            Some(path) if path.starts_with('/') => path,
            Some(_) => return Err("names a host; write sqlite:PATH or sqlite:///ABSOLUTE/PATH".to_owned()),
        };
        let path = percent_decode(rest).map_err(|_| "has a path that is no text".to_owned())?;
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
            Some("full") => statements::SYNCHRONOUS_FULL,
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
    pub(crate) fn at_default_place(path: PathBuf) -> Box<dyn Operate> {
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
        Self {
            file,
            address,
            synchronous,
            table,
            boot: None,
            ahead_ms: 0,
            connection: None,
            history: History::default(),
        }
    }

    /// Runs `operation` on an open connection, after putting the tables in order where they were missing or older.
    fn with_table<T>(
        &mut self,
        operation: impl Fn(&Connection, &Statements<'_>) -> Result<T, Fault>,
    ) -> Result<T, Trouble> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let mut remedies = 0;
        let error = loop {
            let statements = self.statements();
            let fault = match operation(&connection, &statements) {
                Ok(answer) => {
                    self.connection = Some(connection);
                    return Ok(answer);
                }
                Err(fault) => fault,
            };
            let remedy = fault.remedy().filter(|_| remedies < REMEDIES);
            remedies += 1;
            let failed = remedy.map(|remedy| connection.execute_batch(&statements.fill(remedy)));
            match (failed, fault) {
                (Some(Ok(())), _) => {}
                // The lock works without it.
                (None, Fault::History(error)) | (Some(Err(error)), Fault::History(_))
                    if history::is_foreign(&error) =>
                {
                    let why = self.unrecorded_because(&error);
                    self.history.bar(why);
                }
                (None, fault) => break fault,
                (Some(Err(error)), _) => break Fault::Lock(error),
            }
        };
        let error = error.error();
        let trouble = self.explain(error);
        // A connection that only met a writer is as good as before. One whose COMMIT met a reader is still within
        // its transaction, where a lock would be granted that nobody else sees.
        if is_busy(error) && connection.is_autocommit() {
            self.connection = Some(connection);
        }
        Err(trouble)
    }

    fn statements(&self) -> Statements<'_> {
        Statements {
            table: &self.table,
            boot: self.boot.as_deref(),
            synchronous: self.synchronous,
            recorded: self.history.is_kept(),
            form: Form::Ours,
        }
    }

    fn unrecorded_because(&self, error: &rusqlite::Error) -> Trouble {
        let (path, table) = (self.file.path().display(), &self.table);
        Trouble::lasting(format!("backend {path}: {table}_history is not the table of runs: {error}")).hint(format!(
            "rename it, for instance with `ALTER TABLE {table}_history RENAME TO old`; a new one is made"
        ))
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
                Trouble::lasting(format!("backend {path}: the file is damaged or is no SQLite database")).hint(DAMAGED)
            }
            ErrorCode::DiskFull => Trouble::passing(format!("backend {path}: no space left on its disk"))
                .hint(format!("make room; `df {path}` shows how much there is")),
            ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied => self.file.explain_refusal(),
            ErrorCode::SystemIoFailure => self.file.explain_io(error),
            _ => Trouble::lasting(format!("backend {path}: {error}")),
        }
    }
}

impl Backend for Sqlite {
    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, Trouble> {
        let answer = self.with_table(|connection, statements| {
            for _ in 0..RACES {
                if let Some(record) = statements.peek(connection, claim)? {
                    return Ok(Acquired::Held(record));
                }
                if let Some(grant) = statements.acquire(connection, claim)? {
                    return Ok(Acquired::Granted(grant));
                }
            }
            Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None).into())
        })?;
        Ok(Reply { answer, remark: self.history.remark(claim.purpose) })
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<Kept>, Trouble> {
        Ok(self.with_table(|connection, statements| statements.renew(connection, claim))?.into())
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, Trouble> {
        let answer = self.with_table(|connection, statements| statements.release(connection, claim, hold, closing))?;
        let log = self.file.log();
        if log.is_long()
            && let Some(connection) = self.connection.take()
        {
            log.fold(connection).wait();
        }
        Ok(Reply { answer, remark: self.history.remark(claim.purpose) })
    }

    fn disconnect(&mut self) {
        let log = self.file.log();
        if let Some(connection) = self.connection.take().filter(|connection| connection.total_changes() > 0)
            && log.is_worth_a_fold()
        {
            log.fold(connection);
        }
    }

    fn locks(&mut self, names: &[&str]) -> Result<Locks, Trouble> {
        self.list(names)
    }

    fn pace(&self) -> Pace {
        // A writer holds the file for well under a millisecond.
        Pace { first: Duration::from_millis(1), longest: Duration::from_millis(20) }
    }

    fn address(&self) -> &str {
        &self.address
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

#[cfg(test)]
mod tests {
    crate::backend::conformance::conformance!(crate::servers::stores::SqliteStore::new);
}
