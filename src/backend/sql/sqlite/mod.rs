//! Locks in one SQLite file, shared by the processes of one host.
//!
//! The layout is the Java library's, plus three columns. The row of a running job carries the host's boot id and the
//! lease end on the boot clock. They decide whether the lock is held, as long as the row is unchanged since they were
//! written. So setting the wall clock neither frees nor prolongs such a lock, and a reboot frees it at once. The wall
//! clock decides in two other cases: for at-least and every, which outlive the job, and for a row that carries
//! another boot id but was acquired since this host started, because containers of one kernel may have their own boot
//! ids. A free lock stays free whatever the wall clock is set to.
//!
//! Journal and durability: the file is in WAL mode with `synchronous=NORMAL`. A commit is a write without an fsync,
//! readers never wait, and neither a kill nor a power cut can damage the file. A commit survives the death of every
//! process, because the kernel has it. A power cut can lose the last commits. The row of a running job is void after
//! a reboot anyway, so only the at-least or every of a job that had just ended can be lost. `?synchronous=full`
//! prevents that, at an fsync per acquisition and per release.

mod boot;
mod check;
mod checkpoint;
mod connect;
mod errors;
mod execute;
mod file;
mod file_errors;
mod history;
mod mount;
mod path_check;
mod row;
mod statements;
mod tables;

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;

use crate::backend::net::url::percent_decode;
use crate::backend::sql::engine::{
    CreateMissing, Database, Dialect, Explanation, Facts, History, LastRequest, RowSink, SqlLocks, Table,
};
use crate::backend::{Access, Contact, FindingSink, LockTest, Opened, Pace, Url};
use crate::lock::{Acquired, BackendError, Forgotten, Reply, StillHeld};
use crate::lock::{Change, Claim, Closing, Removal, RunQuery};
use crate::system::{Helpers, Timestamp};
use boot::Boot;
pub(crate) use checkpoint::CHECKPOINT_THREAD;
use execute::Failure;
use file::{Directory, File};
use statements::Statements;
use tables::{Columns, Tables};

/// Keeps locks in one SQLite file.
pub(crate) struct Sqlite {
    file: File,
    synchronous: &'static str,
    table: String,
    boot: Boot,
    /// Set if this process created the file.
    has_created_file: bool,
    /// Set once an acquisition may have left a record.
    may_have_record: bool,
    contact: Contact,
}

impl Sqlite {
    /// Parses `sqlite:PATH`, without touching the file.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
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
        Ok(Self::new(
            File::new(PathBuf::from(path), mode, Directory::MustExist),
            synchronous,
            table,
            access.contact.clone(),
        )
        .into_opened())
    }

    /// Returns the backend used when no URL is given; it also creates the file's directory.
    pub(crate) fn at_default_path(path: PathBuf) -> Opened {
        Self::new(
            File::new(path, None, Directory::Create),
            "PRAGMA synchronous = NORMAL",
            "shedlock".to_owned(),
            Contact::default(),
        )
        .into_opened()
    }

    fn new(file: File, synchronous: &'static str, table: String, contact: Contact) -> Self {
        Self {
            file,
            synchronous,
            table,
            boot: Boot::default(),
            has_created_file: false,
            may_have_record: false,
            contact,
        }
    }

    fn into_opened(self) -> Opened {
        let table = if self.table == "shedlock" { String::new() } else { format!("?table={}", self.table) };
        let address = self.file.address() + &table;
        // A writer needs the file for well under a millisecond.
        let pace = Pace { first: Duration::from_millis(1), longest: Duration::from_millis(20) };
        let contact = self.contact.clone();
        Opened {
            backend: Box::new(SqlLocks::new(self)),
            address,
            pace,
            rotation: None,
            contact,
            helpers: Helpers::default(),
            provider: None,
        }
    }

    fn tables(&self) -> Tables<'_> {
        Tables { locks: &self.table, columns: Columns::WithBoot }
    }

    fn statements(&self, history: History) -> Statements<'_> {
        Statements { tables: self.tables(), boot: &self.boot, synchronous: self.synchronous, history }
    }

    /// Runs `work` without adding columns: if those that shedlock adds are missing, repeats it with the others.
    fn without_adding_columns<T>(
        &self,
        history: History,
        mut work: impl FnMut(&Statements<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut statements = self.statements(history);
        match work(&statements) {
            Err(failure) if failure.lacks_boot_columns() => {
                statements.tables.columns = Columns::JavaOnly;
                work(&statements)
            }
            answer => answer,
        }
    }

    fn acquire_once(&self, session: &Connection, claim: &Claim, history: History) -> Result<Acquired, Failure> {
        let statements = self.statements(history);
        match statements.holder(session, claim)? {
            Some(held) => Ok(held),
            None => statements.acquire(session, claim, self.may_have_record),
        }
    }
}

impl Database for Sqlite {
    type Session = Connection;
    type Failure = Failure;

    const DIALECT: Dialect = tables::DIALECT;
    const SUBJECT: &str = "file";

    fn label(&self) -> String {
        format!("backend {}", self.file.path().display())
    }

    fn name(&self, table: Table) -> String {
        self.tables().name(table)
    }

    fn create_statement(&self, table: Table) -> String {
        self.tables().create_statement(table)
    }

    fn schema(&self) -> String {
        self.tables().schema()
    }

    fn connect(&mut self, create_missing: CreateMissing) -> Result<Option<Connection>, BackendError> {
        self.open_file(create_missing)
    }

    fn keep_open(&mut self, session: Connection, request: LastRequest) -> Option<Connection> {
        let log = self.file.log();
        if request == LastRequest::Release && log.is_long() {
            log.start_checkpoint(session).wait();
            return None;
        }
        Some(session)
    }

    fn close(&mut self, session: Connection) {
        let log = self.file.log();
        if session.total_changes() > 0 && log.is_half_long() {
            log.start_checkpoint(session);
        }
    }

    /// Keeps a connection that met a writer; it is as good as before. If its COMMIT met a reader, the transaction is
    /// still open, and no other process would see a lock granted in it: such a connection is closed.
    fn can_go_on(&self, session: &Connection, failure: &Failure) -> bool {
        failure.error().is_none_or(errors::is_busy) && session.is_autocommit()
    }

    fn explain(&self, failure: &Failure) -> Explanation {
        errors::explain(&self.file, &self.table, failure)
    }

    fn acquire(
        &mut self,
        session: &mut Connection,
        claim: &Claim,
        history: History,
    ) -> Result<Reply<Acquired>, Failure> {
        let answer = match self.acquire_once(session, claim, history) {
            // A table made by the Java library gets the missing columns with the first acquisition.
            Err(failure) if failure.lacks_boot_columns() => {
                self.upgrade_table(session, Table::Locks)?;
                self.acquire_once(session, claim, history)
            }
            answer => answer,
        };
        self.may_have_record |= !matches!(answer, Ok(Acquired::Held(_)));
        answer.map(Reply::from)
    }

    fn renew(&mut self, session: &mut Connection, claim: &Claim) -> Result<Reply<StillHeld>, Failure> {
        self.statements(History::Without).renew(session, claim).map(Reply::from)
    }

    fn release(
        &mut self,
        session: &mut Connection,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
        history: History,
    ) -> Result<Reply<StillHeld>, Failure> {
        self.statements(history).release(session, claim, hold, closing).map(Reply::from)
    }

    fn change(&mut self, session: &mut Connection, change: &Change) -> Result<StillHeld, Failure> {
        self.without_adding_columns(History::Without, |statements| statements.change(session, change))
    }

    fn forget(&mut self, session: &mut Connection, removal: &Removal, history: History) -> Result<Forgotten, Failure> {
        self.without_adding_columns(history, |statements| statements.forget(session, removal))
    }

    fn locks(&mut self, session: &mut Connection, names: &[&str], sink: RowSink<'_>) -> Result<Timestamp, Failure> {
        self.without_adding_columns(History::Without, |statements| statements.list(session, names, sink))?;
        Ok(Timestamp::now())
    }

    fn runs(&mut self, session: &mut Connection, wanted: &RunQuery, sink: RowSink<'_>) -> Result<Timestamp, Failure> {
        self.statements(History::With).runs(session, wanted, sink).map_err(Failure::History)?;
        Ok(Timestamp::now())
    }

    fn create_table(&mut self, session: &mut Connection, table: Table) -> Result<bool, Failure> {
        let wrap = if table == Table::Locks { Failure::Lock } else { Failure::History };
        session.execute_batch(&self.create_statement(table)).map(|()| true).map_err(wrap)
    }

    fn table_exists(&mut self, session: &mut Connection, table: Table) -> Result<bool, Failure> {
        Ok(!self.has_created_file && !execute::columns(session, &self.name(table))?.is_empty())
    }

    fn upgrade_table(&mut self, session: &mut Connection, table: Table) -> Result<Option<String>, Failure> {
        let name = self.name(table);
        let missing = execute::missing_columns(session, &name)?;
        if table == Table::Runs || missing.is_empty() {
            return Ok(None);
        }
        // Fails on a table that is not a table of locks, before any column is added to it.
        let tables = self.tables();
        session.prepare(&tables.fill("SELECT name, lock_until, locked_at, locked_by FROM {table}"))?;
        let add = |(column, kind): &(&str, &str)| format!("ALTER TABLE {{table}} ADD COLUMN {column} {kind};");
        let add: String = missing.iter().map(add).collect();
        session.execute_batch(&tables.fill(&format!("BEGIN IMMEDIATE; {add} COMMIT")))?;
        let names: Vec<_> = missing.iter().map(|(column, _)| *column).collect();
        Ok(Some(format!("added to the table {name}: {}", names.join(", "))))
    }

    fn describe_file(&self) -> Option<String> {
        let path = self.file.path().display();
        Some(if self.has_created_file {
            format!("created the file {path}")
        } else {
            format!("the file {path} is there")
        })
    }
    fn check_server(
        &mut self,
        session: &mut Option<Connection>,
        tell: FindingSink<'_>,
    ) -> Result<LockTest, BackendError> {
        self.check_file(session, tell)
    }

    fn describe_table(&mut self, session: &mut Connection, table: Table) -> Result<Option<Facts>, Failure> {
        self.table_facts(session, table)
    }

    fn finish_check(&self, session: &mut Connection, tell: FindingSink<'_>) {
        self.finish_checking(session, tell);
    }
}

#[cfg(test)]
mod admin_tests;

#[cfg(test)]
mod tests {
    crate::backend::testing::conformance::conformance!(servers::stores::SqliteStore::new);

    #[test]
    fn a_time_zone_is_no_clock_that_was_ahead() {
        crate::backend::testing::conformance::a_time_zone_is_no_clock_that_was_ahead(
            &servers::stores::SqliteStore::new(),
        );
    }

    #[test]
    fn every_run_of_a_long_history_is_listed() {
        crate::backend::testing::conformance::every_run_of_a_long_history_is_listed(
            &servers::stores::SqliteStore::new(),
        );
    }
}
