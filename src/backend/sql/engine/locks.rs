//! A backend of any SQL database: the operations of the contract, each in the sessions of one [`Database`].

use std::time::Duration;

use super::database::{Database, Fault, History, LastRequest, RowSink, TABLES};
use crate::backend::{Admin, Backend, Credentials, FindingSink, LockTest};
use crate::lock::{Acquired, BackendError, Forgotten, Remark, Reply, StillHeld};
use crate::lock::{Change, Claim, Closing, Locks, Purpose, Removal, RunList, RunQuery, Runs};
use crate::system::Timestamp;

/// Keeps locks in the tables of a database.
pub(crate) struct SqlLocks<D: Database> {
    pub(crate) database: D,
    pub(crate) session: Option<D::Session>,
    /// Reason why there is no history. A history that was refused is not tried again.
    pub(crate) history_error: Option<BackendError>,
}

/// Says what an operation does if the table of locks is missing.
pub(crate) enum IfMissing<T> {
    /// Creates the table.
    Create,
    /// Fails; if there is no database at all, returns this answer.
    Error(T),
    /// Returns this answer.
    Return(T),
}

impl<D: Database> SqlLocks<D> {
    pub(crate) fn new(database: D) -> Self {
        Self { database, session: None, history_error: None }
    }

    /// Performs an operation, and names the database in its error.
    fn perform<T>(
        &mut self,
        history: History,
        if_missing: IfMissing<T>,
        work: impl FnMut(&mut D, &mut D::Session, History) -> Result<T, D::Failure>,
    ) -> Result<T, BackendError> {
        self.try_servers(history, if_missing, work).map_err(|error| error.naming(&self.database.label()))
    }

    /// Closes the session after what may be the last request, if the database wants that.
    fn keep_open(&mut self, request: LastRequest) {
        self.session = self.session.take().and_then(|session| self.database.keep_open(session, request));
    }

    /// Returns whether an operation for this claim includes the history.
    fn history_of(claim: &Claim) -> History {
        if claim.purpose == Purpose::Pause { History::Without } else { History::With }
    }

    /// Adds to a reply why this claim has no record. A pause has none anyway.
    fn with_remark<T>(&self, claim: &Claim, reply: Reply<T>) -> Reply<T> {
        let barred = self.history_error.clone().filter(|_| claim.purpose == Purpose::Run);
        let history_error = barred.map(|error| error.naming(&self.database.label()));
        Reply { answer: reply.answer, remark: Remark { unrecorded: history_error, ..reply.remark } }
    }
}

impl<D: Database> Backend for SqlLocks<D> {
    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.database.log_in_with(login)
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError> {
        let reply = self.perform(Self::history_of(claim), IfMissing::Create, |database, session, history| {
            database.acquire(session, claim, history)
        })?;
        let mut reply = self.with_remark(claim, reply);
        if matches!(reply.answer, Acquired::Held(_)) {
            self.keep_open(LastRequest::RefusedAcquisition);
        }
        let is_untold = reply.remark.unrecorded.is_none() && claim.purpose == Purpose::Run;
        if matches!(reply.answer, Acquired::Granted(grant) if grant.token.is_none() && is_untold) {
            let error = Self::no_history(&self.database, "its column id generates no number", None);
            reply.remark.unrecorded = Some(error.naming(&self.database.label()));
        }
        Ok(reply)
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<StillHeld>, BackendError> {
        let if_missing = IfMissing::Error(StillHeld::Lost.into());
        self.perform(History::Without, if_missing, |database, session, _| database.renew(session, claim))
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<StillHeld>, BackendError> {
        // An acquisition that was given up may have been the first one, which creates the table.
        let if_missing = match closing {
            Closing::Undone => IfMissing::Return(StillHeld::Lost.into()),
            Closing::Unused | Closing::Ended { .. } => IfMissing::Error(StillHeld::Lost.into()),
        };
        let reply = self.perform(Self::history_of(claim), if_missing, |database, session, history| {
            database.release(session, claim, hold, closing, history)
        })?;
        self.keep_open(LastRequest::Release);
        Ok(self.with_remark(claim, reply))
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
        let mut found = self.perform(History::Without, IfMissing::Return(none), work)?;
        found.locks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }
}

impl<D: Database> Admin for SqlLocks<D> {
    fn runs(&mut self, wanted: &RunQuery) -> Result<Runs, BackendError> {
        let none = Runs { now: Timestamp::now(), runs: RunList::default() };
        let work = |database: &mut D, session: &mut D::Session, _| {
            let mut runs = RunList::default();
            let each: RowSink<'_> = &mut |row| row.run().into_iter().for_each(|run| runs.push(run));
            let now = database.runs(session, wanted, each).map_err(|failure| match database.explain(&failure) {
                found if found.fault == Fault::HistoryRefused => {
                    Self::no_history(database, &found.server_words, found.missing_rights("SELECT")).into()
                }
                _ => failure,
            })?;
            Ok(Runs { now, runs })
        };
        self.perform(History::Without, IfMissing::Return(none), work)
    }

    fn change(&mut self, change: &Change) -> Result<StillHeld, BackendError> {
        let work = |database: &mut D, session: &mut D::Session, _| database.change(session, change);
        self.perform(History::Without, IfMissing::Return(StillHeld::Lost), work)
    }

    fn forget(&mut self, removal: &Removal) -> Result<Forgotten, BackendError> {
        let none = Forgotten::Gone { lock: false, runs: 0 };
        let work = |database: &mut D, session: &mut D::Session, _| Self::forget_lock(database, session, removal);
        self.perform(History::Without, IfMissing::Return(none), work)
    }

    fn create_missing(&mut self) -> Result<Vec<String>, BackendError> {
        let lines = self.perform(History::Without, IfMissing::Create, |database, session, _| {
            let mut lines = Vec::from_iter(database.describe_file());
            for table in TABLES {
                let is_made = !database.table_exists(session, table)? && Self::create(database, session, table)?;
                let name = database.name(table);
                lines.push(if is_made {
                    format!("created the table {name}")
                } else {
                    format!("the table {name} is there")
                });
                lines.extend(database.upgrade_table(session, table)?);
            }
            Ok(lines)
        })?;
        // An existing table may be something else, which reading it shows.
        self.locks(&[""])?;
        self.runs(&RunQuery { limit: Some(0), ..RunQuery::default() })?;
        Ok(lines)
    }

    fn schema(&mut self) -> Result<String, BackendError> {
        Ok(self.database.schema())
    }

    fn check(&mut self, tell: FindingSink<'_>) -> LockTest {
        self.check_all(tell)
    }
}
