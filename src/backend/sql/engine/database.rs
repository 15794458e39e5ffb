//! The contract between the SQL engine and one kind of database.

use std::time::Duration;

use super::columns::{Column, Dialect};
use super::rows::Row;
use crate::backend::{Credentials, Finding, FindingSink, LockTest};
use crate::lock::{Acquired, BackendError, Forgotten, Reply, StillHeld};
use crate::lock::{Change, Claim, Closing, Removal, RunQuery};
use crate::system::Timestamp;

/// Names one of the two tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Locks,
    Runs,
}

pub(crate) const TABLES: [Table; 2] = [Table::Locks, Table::Runs];

/// Says whether an operation includes its part for the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum History {
    With,
    Without,
}

/// Says whether a missing table or file is created. Only an acquisition, `init` and `check` create one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreateMissing {
    Yes,
    No,
}

/// Classifies a failure by what the engine can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server grants no locks now, because it is read-only or a cluster's node that is not ready: another server may.
    GrantsNoLocks,
    /// The table is missing, and can be created.
    TableMissing(Table),
    /// The history is refused for good: the operation can go on without it.
    HistoryRefused,
    /// Nothing that shedlock could mend.
    Other,
}

/// Explains a failure to the engine and to people.
pub(crate) struct Explanation {
    pub(crate) fault: Fault,
    pub(crate) error: BackendError,
    /// Message in the server's own words.
    pub(crate) server_words: String,
    /// Set if a right is missing, which another user may have.
    pub(crate) lacks_right: bool,
    /// Remedy for a refused history, where neither a new table nor rights to it would help.
    pub(crate) remedy: Option<String>,
}

impl Explanation {
    /// Returns these rights if one of them is missing.
    pub(crate) fn missing_rights<'a>(&self, rights: &'a str) -> Option<&'a str> {
        self.lacks_right.then_some(rights)
    }
}

/// Receives the rows of a listing one by one, since there may be very many.
pub(crate) type RowSink<'a> = &'a mut dyn FnMut(&Row);

/// Describes one kind of SQL database to the engine: its statements, its sessions, its errors and its check.
pub(crate) trait Database: Send {
    /// Connects to one server, or to the file.
    type Session: Send;
    /// Says why an operation failed; [`explain`](Self::explain) makes an error of it.
    type Failure: From<BackendError>;

    /// Syntax of the statements that repair a table.
    const DIALECT: Dialect;
    /// Subject of findings about the database as a whole.
    const SUBJECT: &str = "server";

    /// Returns the name of the servers in messages, which begins with `backend `.
    fn label(&self) -> String;
    /// Returns the user of the login; empty where there is no login.
    fn user(&self) -> String {
        String::new()
    }
    /// Returns the user of the login, as GRANT expects it.
    fn grantee(&self) -> String {
        self.user()
    }
    /// Returns a table's name as people write it.
    fn name(&self, table: Table) -> String;
    /// Returns the statement that creates a table, in one line.
    fn create_statement(&self, table: Table) -> String;
    /// Returns the statements that create both tables, with comments for an operator.
    fn schema(&self) -> String;

    /// Returns the number of servers that can replace each other.
    fn servers(&self) -> usize {
        1
    }
    /// Makes the next connection begin with another server.
    fn pass_over(&mut self) {}
    /// Notes the start of an attempt, so that its statements together keep to the time limit.
    fn start_attempt(&mut self) {}
    /// Opens a session; `None` if the database file is missing and must not be created.
    fn connect(&mut self, create_missing: CreateMissing) -> Result<Option<Self::Session>, BackendError>;
    /// Uses this login from the next session on; returns false if it cannot.
    fn log_in_with(&mut self, _: &Credentials) -> bool {
        false
    }
    /// Returns the session if it stays open after what may be the last request of this process.
    fn keep_open(&mut self, session: Self::Session, _: LastRequest) -> Option<Self::Session> {
        Some(session)
    }
    /// Closes a session before it is replaced, or for good.
    fn close(&mut self, session: Self::Session) {
        drop(session);
    }
    /// Returns whether the session can go on after this failure.
    fn can_go_on(&self, session: &Self::Session, failure: &Self::Failure) -> bool;
    /// Rolls back what a failed operation has begun, before another one is tried in this session.
    fn roll_back(&mut self, _: &mut Self::Session) -> Result<(), Self::Failure> {
        Ok(())
    }

    /// Classifies a failure, and explains it to people.
    fn explain(&self, failure: &Self::Failure) -> Explanation;

    /// Acquires the lock unless another owner holds it. The remark in the reply is only about the lock's end.
    fn acquire(
        &mut self,
        session: &mut Self::Session,
        claim: &Claim,
        history: History,
    ) -> Result<Reply<Acquired>, Self::Failure>;
    /// Extends the lock if this owner still holds it.
    fn renew(&mut self, session: &mut Self::Session, claim: &Claim) -> Result<Reply<StillHeld>, Self::Failure>;
    /// Releases the lock if this owner still holds it, and closes the run's record.
    fn release(
        &mut self,
        session: &mut Self::Session,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
        history: History,
    ) -> Result<Reply<StillHeld>, Self::Failure>;
    /// Gives a lock another end or another owner, if the named owner holds it.
    fn change(&mut self, session: &mut Self::Session, change: &Change) -> Result<StillHeld, Self::Failure>;
    /// Deletes a free lock's row and its records. Without the history, deletes the row alone.
    fn forget(
        &mut self,
        session: &mut Self::Session,
        removal: &Removal,
        history: History,
    ) -> Result<Forgotten, Self::Failure>;
    /// Lists locks as rows of name, owner, since, until, whether the lock is held, and for how long. Returns the server's
    /// time. No row may come before a failure that the operation survives.
    fn locks(
        &mut self,
        session: &mut Self::Session,
        names: &[&str],
        each: RowSink<'_>,
    ) -> Result<Timestamp, Self::Failure>;
    /// Lists runs as rows of id, name, owner, host, begin, end, exit code and outcome, in the same way.
    fn runs(
        &mut self,
        session: &mut Self::Session,
        wanted: &RunQuery,
        each: RowSink<'_>,
    ) -> Result<Timestamp, Self::Failure>;

    /// Creates a table; `false` if another process created it at the same time.
    fn create_table(&mut self, session: &mut Self::Session, table: Table) -> Result<bool, Self::Failure>;
    /// Returns the tables of this name in other schemas, where shedlock cannot decide which one is meant.
    fn tables_elsewhere(&mut self, _: &mut Self::Session, _: Table) -> Result<Vec<String>, Self::Failure> {
        Ok(Vec::new())
    }
    /// Explains why a table could not be created, where its CREATE statement would not help.
    fn explain_creation(&self, _: Table, _: &Self::Failure) -> Option<BackendError> {
        None
    }
    /// Returns whether a table exists.
    fn table_exists(&mut self, session: &mut Self::Session, table: Table) -> Result<bool, Self::Failure>;
    /// Brings an existing table up to date, and returns a line about that.
    fn upgrade_table(&mut self, _: &mut Self::Session, _: Table) -> Result<Option<String>, Self::Failure> {
        Ok(None)
    }
    /// Returns a line about the file that contains the tables, if there is one.
    fn describe_file(&self) -> Option<String> {
        None
    }

    /// Reports, for `shedlock check`, everything about the server or the file before the tables, and leaves the session
    /// for these. The error means that the server no longer answers.
    fn check_server(
        &mut self,
        session: &mut Option<Self::Session>,
        tell: FindingSink<'_>,
    ) -> Result<LockTest, BackendError>;
    /// Describes a table for `shedlock check`; `None` if it is missing or invisible to this user.
    fn describe_table(&mut self, session: &mut Self::Session, table: Table) -> Result<Option<Facts>, Self::Failure>;
    /// Reports, for `shedlock check`, what remains after the tables.
    fn finish_check(&self, _: &mut Self::Session, _: FindingSink<'_>) {}
}

/// Names a request after which the process may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastRequest {
    /// An acquisition that found the lock held.
    RefusedAcquisition,
    Release,
}

/// Describes a table as its server sees it.
#[derive(Default)]
pub(crate) struct Facts {
    /// Finding about the table as a whole, if something is wrong with it.
    pub(crate) table_finding: Option<Finding>,
    pub(crate) columns: Vec<Column>,
    /// Findings that only this kind of server makes.
    pub(crate) more_findings: Vec<Finding>,
    /// Columns of each unique key, as names separated by commas.
    pub(crate) keys: Vec<String>,
    /// Missing rights; `None` where the server knows no rights.
    pub(crate) missing_rights: Option<Vec<String>>,
    /// Rights without which runs still have tokens, but their ends are not recorded.
    pub(crate) rights_for_ends: &'static [&'static str],
    /// Set if the table can store runs: its key finds a record, and the server generates the ids.
    pub(crate) stores_runs: bool,
}
