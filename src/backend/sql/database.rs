//! Contract between the SQL engine and a kind of server.

use std::time::Duration;

use super::rows::Row;
use crate::backend::{Acquired, BackendError, Credentials, Forgotten, Kept, Reply};
use crate::lock::{Change, Claim, Closing, Removal, Wanted};
use crate::system::Timestamp;

/// Names one of the two tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Table {
    Locks,
    Runs,
}

pub(in crate::backend) const TABLES: [Table; 2] = [Table::Locks, Table::Runs];

/// Extent of an operation: with or without its part for the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum History {
    With,
    Without,
}

/// Treatment of a missing table or file, which is created or not. Only a taking, `init` and `check` create them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Making {
    Yes,
    No,
}

/// Kind of a failure, which decides the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Fault {
    /// Server that grants no locks now, because it is read-only or a cluster's node that is not ready: another server may.
    Unfit,
    /// Missing table: it can be created.
    Missing(Table),
    /// Permanent refusal of the history: the operation can go on without it.
    History,
    /// Failure that shedlock cannot mend.
    Other,
}

/// A failure with its explanation.
pub(in crate::backend) struct Explained {
    pub(in crate::backend) fault: Fault,
    pub(in crate::backend) error: BackendError,
    /// Message in the server's own words.
    pub(in crate::backend) said: String,
    /// Set if a right is missing, which another user may have.
    pub(in crate::backend) is_denied: bool,
    /// Remedy for a refused history, where neither a new table nor rights to it would help.
    pub(in crate::backend) remedy: Option<String>,
}

impl Explained {
    /// Returns these rights if one of them is missing.
    pub(super) fn lacks<'a>(&self, rights: &'a str) -> Option<&'a str> {
        self.is_denied.then_some(rights)
    }
}

/// Receives the rows of a listing as they come, since there may be very many.
pub(in crate::backend) type Take<'a> = &'a mut dyn FnMut(&Row);

/// A kind of SQL server: its statements, sessions and errors.
pub(in crate::backend) trait Database: Send {
    type Session: Send;
    type Failure: From<BackendError>;

    /// Set for servers that log an error when a process ends without closing its session. The session is then closed
    /// after what may be the last request.
    const CLOSES_WHEN_DONE: bool = false;

    /// Returns the name of the servers in messages, which begins with `backend `.
    fn label(&self) -> String;
    /// Returns the user who logs in; empty where there is no login.
    fn user(&self) -> String {
        String::new()
    }
    /// Returns the user who takes locks, as GRANT expects it.
    fn grantee(&self) -> String {
        self.user()
    }
    /// Returns a table's name as people write it.
    fn name(&self, table: Table) -> String;
    /// Returns the statement that creates a table, in one line.
    fn creation(&self, table: Table) -> String;
    /// Returns the statements that create both tables, with comments for the person who runs them.
    fn schema(&self) -> String;

    /// Returns the number of servers that can replace each other.
    fn servers(&self) -> usize {
        1
    }
    /// Makes the next connection begin with another server.
    fn pass_over(&mut self) {}
    /// Notes the start of an attempt.
    fn begin(&mut self) {}
    /// Opens a session; `None` if the database file is missing and must not be created.
    fn connect(&mut self, making: Making) -> Result<Option<Self::Session>, BackendError>;
    /// Uses this login from the next session on; returns false if it cannot.
    fn log_in_with(&mut self, _: &Credentials) -> bool {
        false
    }
    /// Returns the session if it stays open after what may be the last request.
    fn rest(&mut self, session: Self::Session) -> Option<Self::Session> {
        (!Self::CLOSES_WHEN_DONE).then_some(session)
    }
    fn close(&mut self, session: Self::Session) {
        drop(session);
    }
    /// Returns whether the session can go on after this failure.
    fn outlives(&self, session: &Self::Session, failure: &Self::Failure) -> bool;
    /// Rolls back what a failed operation has begun, before another one is tried in this session.
    fn roll_back(&mut self, _: &mut Self::Session) -> Result<(), Self::Failure> {
        Ok(())
    }

    fn explain(&self, failure: &Self::Failure) -> Explained;

    /// Takes the lock unless another owner holds it. The remark in the reply is only about the lock's end.
    fn acquire(
        &mut self,
        session: &mut Self::Session,
        claim: &Claim,
        history: History,
    ) -> Result<Reply<Acquired>, Self::Failure>;
    fn renew(&mut self, session: &mut Self::Session, claim: &Claim) -> Result<Reply<Kept>, Self::Failure>;
    fn release(
        &mut self,
        session: &mut Self::Session,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
        history: History,
    ) -> Result<Reply<Kept>, Self::Failure>;
    fn change(&mut self, session: &mut Self::Session, change: &Change) -> Result<Kept, Self::Failure>;
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
        take: Take<'_>,
    ) -> Result<Timestamp, Self::Failure>;
    /// Lists runs as rows of id, name, owner, host, begin, end, exit code and outcome, in the same way.
    fn runs(
        &mut self,
        session: &mut Self::Session,
        wanted: &Wanted,
        take: Take<'_>,
    ) -> Result<Timestamp, Self::Failure>;

    /// Creates a table; `false` if another process created it at the same time.
    fn create(&mut self, session: &mut Self::Session, table: Table) -> Result<bool, Self::Failure>;
    /// Returns the tables of this name in other schemas, where shedlock cannot decide which one is meant.
    fn elsewhere(&mut self, _: &mut Self::Session, _: Table) -> Result<Vec<String>, Self::Failure> {
        Ok(Vec::new())
    }
    /// Explains why a table could not be created, where its CREATE statement would not help.
    fn no_place(&self, _: Table, _: &Self::Failure) -> Option<BackendError> {
        None
    }
    fn is_there(&mut self, session: &mut Self::Session, table: Table) -> Result<bool, Self::Failure>;
    /// Brings an existing table up to date, and returns a line about that.
    fn amend(&mut self, _: &mut Self::Session, _: Table) -> Result<Option<String>, Self::Failure> {
        Ok(None)
    }
    /// Returns a line about the place of the tables, such as a file.
    fn place(&self, _: &Self::Session) -> Option<String> {
        None
    }
}
