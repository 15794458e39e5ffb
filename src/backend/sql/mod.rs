//! Locks in the tables of an SQL database: the part that is the same for every server.
//!
//! A [`Database`] brings its server's statements, which are written by hand, its sessions and its classes of errors.
//! The engine skips read-only servers, creates missing tables, goes on without a history where there can be none, and
//! reads the listed rows.

mod check;
mod columns;
mod database;
mod recovery;
mod rows;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod survey;

use std::time::Duration;

use super::{Acquired, Admin, Backend, BackendError, Credentials, Forgotten, Kept, Reached, Remark, Reply, Tell};
use crate::lock::{Change, Claim, Closing, Locks, Purpose, Removal, RunList, Runs, Wanted};
use crate::system::Timestamp;
pub(super) use check::{Diagnose, Facts};
pub(super) use columns::Dialect;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) use columns::{Column, value_missing};
pub(super) use database::{Database, Explained, Fault, History, Making, TABLES, Table, Take};
#[cfg(feature = "postgres")]
pub(super) use rows::micros;
pub(super) use rows::{Cell, Row};
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) use survey::{About, Server};

/// Backend that keeps locks in the tables of a database.
pub(super) struct SqlLocks<D: Database> {
    pub(super) database: D,
    session: Option<D::Session>,
    /// Reason why there is no history. A history that was refused is not tried again.
    unrecorded: Option<BackendError>,
}

/// Result of an operation whose table of locks is missing.
enum Absent<T> {
    /// The table is created.
    Made,
    /// An error, or this answer if there is no database at all.
    Gone(T),
    Answer(T),
}

impl<D: Database> SqlLocks<D> {
    pub(super) fn new(database: D) -> Self {
        Self { database, session: None, unrecorded: None }
    }

    /// Performs an operation, and names the database in its error.
    fn perform<T>(
        &mut self,
        history: History,
        absent: Absent<T>,
        work: impl FnMut(&mut D, &mut D::Session, History) -> Result<T, D::Failure>,
    ) -> Result<T, BackendError> {
        self.ask_each(history, absent, work).map_err(|error| error.of(&self.database.label()))
    }

    /// Returns whether an operation for this claim includes the history.
    fn history_of(claim: &Claim) -> History {
        if claim.purpose == Purpose::Pause { History::Without } else { History::With }
    }

    /// Adds to a reply why this claim has no record. A pause has none anyway.
    fn remarked<T>(&self, claim: &Claim, reply: Reply<T>) -> Reply<T> {
        let barred = self.unrecorded.clone().filter(|_| claim.purpose == Purpose::Run);
        let unrecorded = barred.map(|error| error.of(&self.database.label()));
        Reply { answer: reply.answer, remark: Remark { unrecorded, ..reply.remark } }
    }
}

impl<D: Database> Backend for SqlLocks<D> {
    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.database.log_in_with(login)
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError> {
        let reply = self.perform(Self::history_of(claim), Absent::Made, |database, session, history| {
            database.acquire(session, claim, history)
        })?;
        let mut reply = self.remarked(claim, reply);
        if D::CLOSES_WHEN_DONE && matches!(reply.answer, Acquired::Held(_)) {
            self.disconnect();
        }
        let is_untold = reply.remark.unrecorded.is_none() && claim.purpose == Purpose::Run;
        if matches!(reply.answer, Acquired::Granted(grant) if grant.token.is_none() && is_untold) {
            let error = Self::no_history(&self.database, "its column id generates no number", None);
            reply.remark.unrecorded = Some(error.of(&self.database.label()));
        }
        Ok(reply)
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<Kept>, BackendError> {
        let absent = Absent::Gone(Kept::Lost.into());
        self.perform(History::Without, absent, |database, session, _| database.renew(session, claim))
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, BackendError> {
        // A taking that was given up may have been the first one, which creates the table.
        let absent = match closing {
            Closing::GivenUp => Absent::Answer(Kept::Lost.into()),
            Closing::Unused | Closing::Ended { .. } => Absent::Gone(Kept::Lost.into()),
        };
        let reply = self.perform(Self::history_of(claim), absent, |database, session, history| {
            database.release(session, claim, hold, closing, history)
        })?;
        self.session = self.session.take().and_then(|session| self.database.rest(session));
        Ok(self.remarked(claim, reply))
    }

    fn disconnect(&mut self) {
        if let Some(session) = self.session.take() {
            self.database.close(session);
        }
    }

    fn locks(&mut self, names: &[&str]) -> Result<Locks, BackendError> {
        let none = Locks { now: Timestamp::now(), locks: Vec::new() };
        let work = |database: &mut D, session: &mut D::Session, _| {
            let mut locks = Vec::new();
            let now = database.locks(session, names, &mut |row| locks.extend(row.lock()))?;
            Ok(Locks { now, locks })
        };
        let mut found = self.perform(History::Without, Absent::Answer(none), work)?;
        found.locks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }
}

impl<D: Diagnose> Admin for SqlLocks<D> {
    fn runs(&mut self, wanted: &Wanted) -> Result<Runs, BackendError> {
        let none = Runs { now: Timestamp::now(), runs: RunList::default() };
        let work = |database: &mut D, session: &mut D::Session, _| {
            let mut runs = RunList::default();
            let take: Take<'_> = &mut |row| row.run().into_iter().for_each(|run| runs.push(run));
            let now = database.runs(session, wanted, take).map_err(|failure| match database.explain(&failure) {
                found if found.fault == Fault::History => {
                    Self::no_history(database, &found.said, found.lacks("SELECT")).into()
                }
                _ => failure,
            })?;
            Ok(Runs { now, runs })
        };
        self.perform(History::Without, Absent::Answer(none), work)
    }

    fn change(&mut self, change: &Change) -> Result<Kept, BackendError> {
        let work = |database: &mut D, session: &mut D::Session, _| database.change(session, change);
        self.perform(History::Without, Absent::Answer(Kept::Lost), work)
    }

    fn forget(&mut self, removal: &Removal) -> Result<Forgotten, BackendError> {
        let none = Forgotten::Gone { lock: false, runs: 0 };
        let work = |database: &mut D, session: &mut D::Session, _| Self::remove(database, session, removal);
        self.perform(History::Without, Absent::Answer(none), work)
    }

    fn make(&mut self) -> Result<Vec<String>, BackendError> {
        let lines = self.perform(History::Without, Absent::Made, |database, session, _| {
            let mut lines = Vec::from_iter(database.place(session));
            for table in TABLES {
                let is_made = !database.is_there(session, table)? && Self::create(database, session, table)?;
                let name = database.name(table);
                lines.push(if is_made {
                    format!("created the table {name}")
                } else {
                    format!("the table {name} is there")
                });
                lines.extend(database.amend(session, table)?);
            }
            Ok(lines)
        })?;
        // An existing table may be something else, which reading it shows.
        self.locks(&[""])?;
        self.runs(&Wanted { limit: Some(0), ..Wanted::default() })?;
        Ok(lines)
    }

    fn schema(&self) -> String {
        self.database.schema()
    }

    fn check(&mut self, tell: Tell<'_>) -> Reached {
        self.probe(tell)
    }
}
