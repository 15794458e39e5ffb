//! The contract between the engine and a kind of SQL server.

use std::time::Duration;

use super::rows::Row;
use crate::backend::{Acquired, BackendError, Kept, Reply};
use crate::lock::{Change, Claim, Closing, Wanted};
use crate::system::Timestamp;

/// One of the two tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Table {
    Locks,
    Runs,
}

pub(in crate::backend) const TABLES: [Table; 2] = [Table::Locks, Table::Runs];

/// Says whether an operation includes its part for the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum History {
    With,
    Without,
}

/// Says whether a missing table or file is created, as only a taking and `init` do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Making {
    Yes,
    No,
}

/// How a failure can be mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Fault {
    /// By another server: this one can only be read.
    ReadOnly,
    /// By making the table.
    Missing(Table),
    /// By going on without the history, which the server refuses for good.
    History,
    /// Not by us.
    Other,
}

/// A failure, explained.
pub(in crate::backend) struct Explained {
    pub(in crate::backend) fault: Fault,
    pub(in crate::backend) error: BackendError,
    /// The server's own words.
    pub(in crate::backend) said: String,
    /// Another user may do it.
    pub(in crate::backend) is_denied: bool,
}

impl Explained {
    /// Returns these rights if one of them is missing.
    pub(super) fn lacks<'a>(&self, rights: &'a str) -> Option<&'a str> {
        self.is_denied.then_some(rights)
    }
}

/// Holds the rows that a server lists, and its time.
pub(in crate::backend) struct Listing {
    pub(in crate::backend) now: Timestamp,
    pub(in crate::backend) rows: Vec<Row>,
}

/// A kind of SQL server: its statements, its sessions and its errors.
pub(in crate::backend) trait Database: Send {
    type Session: Send;
    type Failure: From<BackendError>;

    /// The server complains in its log of a session that ends without a word, as one does whose process ends: it is closed
    /// after what may be the last request.
    const CLOSES_WHEN_DONE: bool = false;

    /// Returns how the server is named in messages, beginning with `backend `.
    fn label(&self) -> String;
    /// Returns who logs in; empty where nobody does.
    fn user(&self) -> String {
        String::new()
    }
    /// Returns the user of the locks as GRANT wants it.
    fn grantee(&self) -> String {
        self.user()
    }
    /// Returns a table's name as people write it.
    fn name(&self, table: Table) -> String;
    /// Returns the statement that makes a table, in one line.
    fn creation(&self, table: Table) -> String;
    /// Returns the statements that make both tables, with comments for the person who runs them.
    fn schema(&self) -> String;

    /// Returns how many servers may stand in for each other.
    fn servers(&self) -> usize {
        1
    }
    /// Lets the next connection begin with another server.
    fn pass_over(&mut self) {}
    /// Notes that a try begins.
    fn begin(&mut self) {}
    /// Opens a session; `None` if there is no store and none is to be made.
    fn connect(&mut self, making: Making) -> Result<Option<Self::Session>, BackendError>;
    /// Returns a session that is kept after what may be the last request.
    fn rest(&mut self, session: Self::Session) -> Option<Self::Session> {
        (!Self::CLOSES_WHEN_DONE).then_some(session)
    }
    fn close(&mut self, session: Self::Session) {
        drop(session);
    }
    /// Tells whether the session can go on after this failure.
    fn outlives(&self, session: &Self::Session, failure: &Self::Failure) -> bool;
    /// Takes back what a failed operation has begun, before another one is tried in this session.
    fn roll_back(&mut self, _: &mut Self::Session) -> Result<(), Self::Failure> {
        Ok(())
    }

    fn explain(&self, failure: &Self::Failure) -> Explained;

    /// Takes the lock unless another holds it. The remark is only about the end.
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
    /// Lists locks: name, owner, since, until, whether it is held, and for how long.
    fn locks(&mut self, session: &mut Self::Session, names: &[&str]) -> Result<Listing, Self::Failure>;
    /// Lists runs: id, name, owner, host, begin, end, exit code, outcome.
    fn runs(&mut self, session: &mut Self::Session, wanted: &Wanted) -> Result<Listing, Self::Failure>;

    /// Makes a table, and returns whether it did: another process may have made it at the same time.
    fn create(&mut self, session: &mut Self::Session, table: Table) -> Result<bool, Self::Failure>;
    /// Returns the tables of that name in other schemas, where which one is meant is not for us to say.
    fn elsewhere(&mut self, _: &mut Self::Session, _: Table) -> Result<Vec<String>, Self::Failure> {
        Ok(Vec::new())
    }
    /// Explains why a table could not be made, where the statement that makes it would be no help.
    fn no_place(&self, _: Table, _: &Self::Failure) -> Option<BackendError> {
        None
    }
    fn is_there(&mut self, session: &mut Self::Session, table: Table) -> Result<bool, Self::Failure>;
    /// Brings a table that is there up to date, and returns a line about that.
    fn amend(&mut self, _: &mut Self::Session, _: Table) -> Result<Option<String>, Self::Failure> {
        Ok(None)
    }
    /// Returns a line about what the tables are in.
    fn place(&self, _: &Self::Session) -> Option<String> {
        None
    }
}
