//! Locks in one SQLite file, shared by the processes of one host.
//!
//! The layout is the Java library's, plus three columns. The row of a running job carries the host's boot id and the
//! lease end on the boot clock. They decide whether the lock is held, as long as the row is unchanged since they were
//! written. So setting the wall clock neither frees nor prolongs such a lock, and a reboot frees it at once. The wall
//! clock decides in two other cases: for at-least and every, which outlive the job, and for a row that carries
//! another boot id but was taken since this host started, because containers of one kernel may have their own boot
//! ids. A free lock stays free whatever the wall clock is set to.
//!
//! Journal and durability: the file is in WAL mode with `synchronous=NORMAL`. A commit is a write without an fsync,
//! readers never wait, and neither a kill nor a power cut can damage the file. A commit survives the death of every
//! process, because the kernel has it. A power cut can lose the last commits. The row of a running job is void after
//! a reboot anyway, so only the at-least or every of a job that had just ended can be lost. `?synchronous=full`
//! prevents that, at an fsync per take and per release.

mod check;
mod connect;
mod entry;
mod execute;
mod file;
mod fold;
mod history;
mod mount;
mod refusal;
mod row;
mod statements;

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::sql::{Database, Explained, Fault, History, Making, SqlLocks, TABLES, Table, Take, value_missing};
use super::url::percent_decode;
use super::{Access, Acquired, BackendError, Forgotten, Kept, Opened, Pace, Reply, Url};
use crate::lock::{Change, Claim, Closing, Removal, Wanted};
use crate::system::Timestamp;
use execute::Failure;
use file::{Directory, File};
use statements::{Form, Statements};

/// Hint for a file that is damaged or is not a SQLite database.
const DAMAGED: &str = "check the path; if it is right, move the file away while no job runs, together with its -wal and -shm files: shedlock creates a new one";

/// A backend that keeps the locks in one SQLite file.
pub(crate) struct Sqlite {
    file: File,
    synchronous: &'static str,
    table: String,
    /// The id of the host's current boot; `None` if the system has none, and then the wall clock decides.
    boot: Option<String>,
    /// Milliseconds by which this process's boot clock is ahead of the host's.
    ahead_ms: i64,
    /// Set if this process created the file.
    made: bool,
    /// Set once a taking may have left a record.
    asked: bool,
}

impl Sqlite {
    /// Parses `sqlite:PATH`, without touching the file.
    pub(crate) fn open(url: &Url, _: &Access) -> Result<Opened, String> {
        let rest = match url.rest().strip_prefix("//") {
            None => url.rest(),
            Some(path) if path.starts_with('/') => path,
            Some(_) => return Err("names a host; write sqlite:PATH or sqlite:///ABSOLUTE/PATH".to_owned()),
        };
        let path = percent_decode(rest).map_err(|_| "has a path that is not text".to_owned())?;
        if path.is_empty() {
            return Err("names no file; write sqlite:PATH".to_owned());
        }
        if path == "~" || path.starts_with("~/") {
            return Err("begins with `~`, which only a shell expands; write the whole path".to_owned());
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
        Ok(Self::new(File::new(PathBuf::from(path), mode, Directory::MustExist), synchronous, table).locks())
    }

    /// Returns the backend used when no URL is given; it also creates the file's directory.
    pub(crate) fn at_default_place(path: PathBuf) -> Opened {
        Self::new(File::new(path, None, Directory::Make), "PRAGMA synchronous = NORMAL", "shedlock".to_owned()).locks()
    }

    fn new(file: File, synchronous: &'static str, table: String) -> Self {
        Self { file, synchronous, table, boot: None, ahead_ms: 0, made: false, asked: false }
    }

    fn locks(self) -> Opened {
        let table = if self.table == "shedlock" { String::new() } else { format!("?table={}", self.table) };
        let address = self.file.address() + &table;
        // A writer needs the file for well under a millisecond.
        let pace = Pace { first: Duration::from_millis(1), longest: Duration::from_millis(20) };
        Opened { backend: Box::new(SqlLocks::new(self)), address, pace, rotation: None }
    }

    fn statements(&self, history: History) -> Statements<'_> {
        Statements {
            table: &self.table,
            boot: self.boot.as_deref(),
            ahead_ms: self.ahead_ms,
            synchronous: self.synchronous,
            history,
            form: Form::Ours,
        }
    }

    /// Runs `work` without adding columns: if ours are missing, repeats it with those of the Java library only.
    fn leaving_the_form<T>(
        &self,
        history: History,
        mut work: impl FnMut(&Statements<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut statements = self.statements(history);
        match work(&statements) {
            Err(failure) if failure.is_of_form() => {
                statements.form = Form::Javas;
                work(&statements)
            }
            answer => answer,
        }
    }

    fn take(&self, session: &Connection, claim: &Claim, history: History) -> Result<Acquired, Failure> {
        let statements = self.statements(history);
        match statements.holder(session, claim)? {
            Some(held) => Ok(held),
            None => statements.acquire(session, claim, self.asked),
        }
    }

    /// Turns an error of SQLite into a message and a hint.
    fn explain_error(&self, error: &rusqlite::Error) -> BackendError {
        let path = self.file.path().display();
        if error.to_string().contains("duplicate column name") {
            return BackendError::transient("another process is adding columns to the table");
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
                BackendError::transient("the database is locked by another process")
                    .hint(format!("find the process with `fuser -v {path}`; it may be a backup or an editor"))
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                BackendError::permanent("the file is damaged or is not a SQLite database").hint(DAMAGED)
            }
            Some(ErrorCode::DiskFull) => BackendError::transient("no space left on its disk")
                .hint(format!("free some space; `df {path}` shows how much is left")),
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                self.file.explain_refusal()
            }
            Some(ErrorCode::SystemIoFailure) => self.file.explain_io(error),
            _ => BackendError::permanent(error.to_string()),
        }
    }
}

impl Database for Sqlite {
    type Session = Connection;
    type Failure = Failure;

    fn label(&self) -> String {
        format!("backend {}", self.file.path().display())
    }

    fn name(&self, table: Table) -> String {
        match table {
            Table::Locks => self.table.clone(),
            Table::Runs => format!("{}_history", self.table),
        }
    }

    fn creation(&self, table: Table) -> String {
        self.statements(History::With).fill(if table == Table::Locks { statements::CREATE } else { history::CREATE })
    }

    fn schema(&self) -> String {
        let [create, create_history] = TABLES.map(|table| self.creation(table));
        format!("{SCHEMA}{create};\n\n-- The runs of each lock, and the tokens:\n{create_history};\n")
    }

    fn connect(&mut self, making: Making) -> Result<Option<Connection>, BackendError> {
        self.open_file(making)
    }

    fn rest(&mut self, session: Connection) -> Option<Connection> {
        let log = self.file.log();
        if log.is_long() {
            log.fold(session).wait();
            return None;
        }
        Some(session)
    }

    fn close(&mut self, session: Connection) {
        let log = self.file.log();
        if session.total_changes() > 0 && log.is_worth_a_fold() {
            log.fold(session);
        }
    }

    /// Keeps a connection that met a writer; it is as good as before. If its COMMIT met a reader, the transaction is
    /// still open, and no other process would see a lock granted in it: such a connection is closed.
    fn outlives(&self, session: &Connection, failure: &Failure) -> bool {
        failure.error().is_none_or(is_busy) && session.is_autocommit()
    }

    fn explain(&self, failure: &Failure) -> Explained {
        let fault = match failure {
            Failure::Lock(error) if is_no_table(error) => Fault::Missing(Table::Locks),
            Failure::History(error) if is_no_table(error) => Fault::Missing(Table::Runs),
            Failure::History(error) if history::is_foreign(error) => Fault::History,
            _ => Fault::Other,
        };
        let error = match failure {
            Failure::Lock(error) if is_without_value(error) => {
                let text = error.to_string();
                value_missing(&self.table, text.rsplit('.').next().unwrap_or_default())
            }
            Failure::Lock(error) if is_of_schema(error) => {
                BackendError::permanent(format!("the table {} is not a table of locks: {error}", self.table))
                    .hint("it needs the columns name, the primary key, lock_until, locked_at and locked_by")
            }
            Failure::Lock(error) | Failure::History(error) => self.explain_error(error),
            Failure::Ours(error) => error.clone(),
        };
        let said = failure.error().map_or_else(|| error.message.clone(), ToString::to_string);
        Explained { fault, error, said, is_denied: false, remedy: None }
    }

    fn acquire(
        &mut self,
        session: &mut Connection,
        claim: &Claim,
        history: History,
    ) -> Result<Reply<Acquired>, Failure> {
        let answer = match self.take(session, claim, history) {
            // A table made by the Java library gets the missing columns with the first taking.
            Err(failure) if failure.is_of_form() => {
                self.amend(session, Table::Locks)?;
                self.take(session, claim, history)
            }
            answer => answer,
        };
        self.asked |= !matches!(answer, Ok(Acquired::Held(_)));
        answer.map(Reply::from)
    }

    fn renew(&mut self, session: &mut Connection, claim: &Claim) -> Result<Reply<Kept>, Failure> {
        self.statements(History::Without).renew(session, claim).map(Reply::from)
    }

    fn release(
        &mut self,
        session: &mut Connection,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
        history: History,
    ) -> Result<Reply<Kept>, Failure> {
        self.statements(history).release(session, claim, hold, closing).map(Reply::from)
    }

    fn change(&mut self, session: &mut Connection, change: &Change) -> Result<Kept, Failure> {
        self.leaving_the_form(History::Without, |statements| statements.change(session, change))
    }

    fn forget(&mut self, session: &mut Connection, removal: &Removal, history: History) -> Result<Forgotten, Failure> {
        self.leaving_the_form(history, |statements| statements.forget(session, removal))
    }

    fn locks(&mut self, session: &mut Connection, names: &[&str], take: Take<'_>) -> Result<Timestamp, Failure> {
        self.leaving_the_form(History::Without, |statements| statements.list(session, names, take))?;
        Ok(Timestamp::now())
    }

    fn runs(&mut self, session: &mut Connection, wanted: &Wanted, take: Take<'_>) -> Result<Timestamp, Failure> {
        self.statements(History::With).runs(session, wanted, take).map_err(Failure::History)?;
        Ok(Timestamp::now())
    }

    fn create(&mut self, session: &mut Connection, table: Table) -> Result<bool, Failure> {
        let wrap = if table == Table::Locks { Failure::Lock } else { Failure::History };
        session.execute_batch(&self.creation(table)).map(|()| true).map_err(wrap)
    }

    fn is_there(&mut self, session: &mut Connection, table: Table) -> Result<bool, Failure> {
        Ok(!self.made && !execute::columns(session, &self.name(table))?.is_empty())
    }

    fn amend(&mut self, session: &mut Connection, table: Table) -> Result<Option<String>, Failure> {
        let name = self.name(table);
        let missing = execute::missing_columns(session, &name)?;
        if table == Table::Runs || missing.is_empty() {
            return Ok(None);
        }
        // Fails on a table that is not a table of locks, before any column is added to it.
        let statements = self.statements(History::Without);
        session.prepare(&statements.fill("SELECT name, lock_until, locked_at, locked_by FROM {table}"))?;
        let add = |(column, kind): &(&str, &str)| format!("ALTER TABLE {{table}} ADD COLUMN {column} {kind};");
        let add: String = missing.iter().map(add).collect();
        session.execute_batch(&statements.fill(&format!("BEGIN IMMEDIATE; {add} COMMIT")))?;
        let names: Vec<_> = missing.iter().map(|(column, _)| *column).collect();
        Ok(Some(format!("added to the table {name}: {}", names.join(", "))))
    }

    fn place(&self, _: &Connection) -> Option<String> {
        let path = self.file.path().display();
        Some(if self.made { format!("created the file {path}") } else { format!("the file {path} is there") })
    }
}

const SCHEMA: &str = "\
-- The tables that shedlock needs in a SQLite file. shedlock creates the file with these tables when it first takes a lock;
-- use this to create the file beforehand. It must be in WAL mode, on a local disk. A user who takes locks must be able to
-- read and write the file and to write to its directory: SQLite has no other rights.
PRAGMA journal_mode = WAL;

-- The locks, in the layout of the Java library ShedLock, and the boot of the host that a running job belongs to:
";

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

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

#[cfg(test)]
mod operating;

#[cfg(test)]
mod tests {
    crate::backend::conformance::conformance!(servers::stores::SqliteStore::new);

    #[test]
    fn a_time_zone_is_no_clock_that_was_ahead() {
        crate::backend::conformance::a_time_zone_is_no_clock_that_was_ahead(&servers::stores::SqliteStore::new());
    }

    #[test]
    fn every_run_of_a_long_history_is_listed() {
        crate::backend::conformance::every_run_of_a_long_history_is_listed(&servers::stores::SqliteStore::new());
    }
}
