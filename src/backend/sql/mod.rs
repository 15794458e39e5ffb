//! Locks in the tables of an SQL database: what is the same on every server, once.
//!
//! A [`Database`] brings the statements of its server, which are written by hand, its sessions and its classes of errors.
//! The engine asks the next server where one can only be read, makes tables that are missing, goes on without a history that
//! cannot be had, and reads what is listed.

mod check;
mod columns;
mod rows;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod survey;

use std::time::Duration;

use super::{Acquired, Admin, Backend, BackendError, ErrorClass, Finding, Kept, Reached, Remark, Reply, Tell};
use crate::lock::{Change, Claim, Closing, Locks, Purpose, Runs, Wanted};
use crate::system::Timestamp;
pub(super) use check::Facts;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) use columns::Column;
pub(super) use columns::Dialect;
#[cfg(feature = "postgres")]
pub(super) use rows::micros;
pub(super) use rows::{Cell, Row};
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) use survey::{About, Server, survey};

/// One of the two tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Locks,
    Runs,
}

pub(super) const TABLES: [Table; 2] = [Table::Locks, Table::Runs];

/// Names the rights to the history that taking a lock needs.
const ALL: &str = "SELECT, INSERT, UPDATE, DELETE";

/// Says whether an operation includes its part for the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    With,
    Without,
}

/// Says whether a missing table or file is created, as only a taking and `init` do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Making {
    Yes,
    No,
}

/// How a failure can be mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// By another server: this one can only be read.
    ReadOnly,
    /// By making the table.
    Missing(Table),
    /// By going on without the history, which the server refuses for good.
    History,
    /// Not by us.
    Other,
}

/// Holds the rows that a server lists, and its time.
pub(super) struct Listing {
    pub(super) now: Timestamp,
    pub(super) rows: Vec<Row>,
}

/// A kind of SQL server: its statements, its sessions and its errors.
pub(super) trait Database: Send {
    type Session: Send;
    type Failure: From<BackendError>;

    /// The server complains in its log of a session that ends without a word, as one does whose process ends: it is closed
    /// after what may be the last request.
    const CLOSES_WHEN_DONE: bool = false;
    /// Names the subject of trouble with the whole backend, in the words of a check.
    const SUBJECT: &str = "server";
    const DIALECT: Dialect;

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

    fn fault(&self, failure: &Self::Failure) -> Fault;
    /// Makes a failure the caller's trouble.
    fn explain(&self, failure: &Self::Failure) -> BackendError;
    /// Returns the server's own words.
    fn said(&self, failure: &Self::Failure) -> String;
    /// Tells whether another user may do it.
    fn is_denied(&self, _: &Self::Failure) -> bool {
        false
    }

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

    /// Tells of the server, before its tables. The error is that it does not answer any more.
    fn survey(&mut self, session: &mut Option<Self::Session>, tell: Tell<'_>) -> Result<Reached, BackendError>;
    /// Describes a table; `None` where there is none, or none for this user.
    fn describe(&mut self, session: &mut Self::Session, table: Table) -> Result<Option<Facts>, Self::Failure>;
    /// Tells what else a check finds after the tables.
    fn conclude(&self, _: &mut Self::Session, _: Tell<'_>) {}
}

/// Locks in the tables of a database.
pub(super) struct SqlLocks<D: Database> {
    pub(super) database: D,
    session: Option<D::Session>,
    /// Why there is no history; one that cannot be had is not asked for again.
    unrecorded: Option<BackendError>,
}

/// What is answered where the table of locks is missing.
enum Absent<T> {
    /// It is made.
    Made,
    /// An error, or this answer where there is no store at all.
    BackendError(T),
    Answer(T),
}

impl<D: Database> SqlLocks<D> {
    pub(super) fn new(database: D) -> Self {
        Self { database, session: None, unrecorded: None }
    }

    /// Does the work, and names the database where that fails.
    fn perform<T>(
        &mut self,
        history: History,
        absent: Absent<T>,
        work: impl FnMut(&mut D, &mut D::Session, History) -> Result<T, D::Failure>,
    ) -> Result<T, BackendError> {
        self.ask_each(history, absent, work).map_err(|error| error.of(&self.database.label()))
    }

    /// Asks one server after the other, as long as they can only be read.
    fn ask_each<T>(
        &mut self,
        history: History,
        absent: Absent<T>,
        mut work: impl FnMut(&mut D, &mut D::Session, History) -> Result<T, D::Failure>,
    ) -> Result<T, BackendError> {
        let making = if matches!(absent, Absent::Made) { Making::Yes } else { Making::No };
        let mut absent = Some(absent);
        for left in (0..self.database.servers()).rev() {
            self.database.begin();
            let opened = match self.session.take() {
                Some(session) => Some(session),
                None => self.database.connect(making)?,
            };
            let Some(mut session) = opened else {
                return match absent {
                    Some(Absent::Answer(answer) | Absent::BackendError(answer)) => Ok(answer),
                    _ => Err(self.gone()),
                };
            };
            let failure = match self.mend(&mut session, history, &mut absent, &mut work) {
                Ok(answer) => {
                    self.session = Some(session);
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let is_read_only = self.database.fault(&failure) == Fault::ReadOnly;
            if is_read_only {
                self.database.pass_over();
            } else if self.database.outlives(&session, &failure) {
                self.session = Some(session);
            }
            if left == 0 || !is_read_only {
                return Err(self.database.explain(&failure));
            }
        }
        Err(BackendError::permanent("there is no server to ask"))
    }

    /// Asks a server, and again with its tables made or without the history.
    fn mend<T>(
        &mut self,
        session: &mut D::Session,
        history: History,
        absent: &mut Option<Absent<T>>,
        work: &mut impl FnMut(&mut D, &mut D::Session, History) -> Result<T, D::Failure>,
    ) -> Result<T, D::Failure> {
        let (mut made, mut made_runs) = (false, false);
        let mut refusal = None;
        loop {
            let is_barred = self.unrecorded.is_some() || refusal.is_some();
            let history = if is_barred { History::Without } else { history };
            let failure = match work(&mut self.database, session, history) {
                Ok(answer) => {
                    // The fault was the history's.
                    self.unrecorded = refusal.or(self.unrecorded.take());
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let is_making = matches!(absent, Some(Absent::Made));
            match self.database.fault(&failure) {
                Fault::Missing(Table::Locks) if is_making && !made => {
                    made = true;
                    self.database.roll_back(session)?;
                    Self::create_first(&mut self.database, session, Table::Locks)?;
                }
                Fault::Missing(Table::Runs) if is_making && !made_runs => {
                    made_runs = true;
                    self.database.roll_back(session)?;
                    if let Err(failure) = Self::create_first(&mut self.database, session, Table::Runs) {
                        let error = self.database.explain(&failure);
                        if error.class != ErrorClass::Permanent || self.database.fault(&failure) == Fault::ReadOnly {
                            return Err(failure);
                        }
                        self.unrecorded = Some(error);
                    }
                }
                Fault::Missing(Table::Runs) if history == History::With => {
                    self.database.roll_back(session)?;
                    let why = "it is not there, and only a taking makes it";
                    self.unrecorded = Some(Self::no_history(&self.database, why, Some(ALL)));
                }
                Fault::Missing(_) => {
                    return match absent.take() {
                        Some(Absent::Answer(answer)) => self.database.roll_back(session).map(|()| answer),
                        _ => Err(self.gone().into()),
                    };
                }
                Fault::History if history == History::With => {
                    refusal = Some(Self::refused(&self.database, &failure, ALL));
                    self.database.roll_back(session)?;
                }
                _ => return Err(failure),
            }
        }
    }

    /// Makes a table that a taking misses.
    fn create_first(database: &mut D, session: &mut D::Session, table: Table) -> Result<bool, D::Failure> {
        let others = database.elsewhere(session, table)?;
        let Some(first) = others.first() else { return Self::create(database, session, table) };
        let mut error = Self::not_made(
            database,
            table,
            &format!("and it is not made, since there is {}", others.join(" and ")),
            Some(ALL),
        );
        if let (Table::Locks, Some(hint)) = (table, &error.hint) {
            let hint = format!("name the one that is meant, such as ?table={first}, or {hint}");
            error = error.hint(hint);
        }
        Err(error.into())
    }

    fn create(database: &mut D, session: &mut D::Session, table: Table) -> Result<bool, D::Failure> {
        let failure = match database.create(session, table) {
            Ok(is_made) => return Ok(is_made),
            Err(failure) => failure,
        };
        if database.fault(&failure) == Fault::ReadOnly {
            return Err(failure);
        }
        let error = database.explain(&failure);
        if error.class != ErrorClass::Permanent {
            // Nothing was asked for yet.
            return Err(BackendError { ambiguous: false, ..error }.into());
        }
        let why = format!("and it cannot be made: {}", database.said(&failure));
        let lacking = Some(ALL).filter(|_| database.is_denied(&failure));
        let error = database.no_place(table, &failure);
        Err(error.unwrap_or_else(|| Self::not_made(database, table, &why, lacking)).into())
    }

    /// Explains that a table is missing, and has to be made by a person.
    fn not_made(database: &D, table: Table, why: &str, lacking: Option<&str>) -> BackendError {
        if table == Table::Runs {
            return Self::no_history(database, &format!("it is not there, {why}"), lacking);
        }
        BackendError::permanent(format!("there is no table {}, {why}", database.name(table)))
            .hint(format!("have somebody who may run: {}", database.creation(table)))
    }

    /// Explains that the table of locks was there, and is not any more.
    fn gone(&self) -> BackendError {
        BackendError::permanent(format!("there is no table {} any more", self.database.name(Table::Locks)))
            .hint("only a taking makes it: look who has dropped or renamed it")
    }

    fn refused(database: &D, failure: &D::Failure, rights: &str) -> BackendError {
        Self::no_history(database, &database.said(failure), Some(rights).filter(|_| database.is_denied(failure)))
    }

    /// Explains why the table of runs is of no use. `lacking` are the rights that are needed where it, or one of them, is missing;
    /// otherwise something else is in its place.
    fn no_history(database: &D, why: &str, lacking: Option<&str>) -> BackendError {
        let (name, create) = (database.name(Table::Runs), database.creation(Table::Runs));
        BackendError::permanent(format!("no history in the table {name}: {why}")).hint(match lacking {
            Some(_) if database.user().is_empty() => format!("have somebody who may run: {create}"),
            Some(rights) => {
                format!("have somebody who may run: {create}; GRANT {rights} ON {name} TO {}", database.grantee())
            }
            None => {
                format!("rename it, and have made instead: {create}; or name other tables with ?table=")
            }
        })
    }

    /// Returns whether an operation for this claim goes with the history.
    fn history_of(claim: &Claim) -> History {
        if claim.purpose == Purpose::Pause { History::Without } else { History::With }
    }

    /// Adds to an answer why this claim has no record; a pause would have none anyway.
    fn remarked<T>(&self, claim: &Claim, reply: Reply<T>) -> Reply<T> {
        let barred = self.unrecorded.clone().filter(|_| claim.purpose == Purpose::Run);
        let unrecorded = barred.map(|error| error.of(&self.database.label()));
        Reply { answer: reply.answer, remark: Remark { unrecorded, ..reply.remark } }
    }
}

impl<D: Database> Backend for SqlLocks<D> {
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
            let error = Self::no_history(&self.database, "its column id draws no number", None);
            reply.remark.unrecorded = Some(error.of(&self.database.label()));
        }
        Ok(reply)
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<Kept>, BackendError> {
        let absent = Absent::BackendError(Kept::Lost.into());
        self.perform(History::Without, absent, |database, session, _| database.renew(session, claim))
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, BackendError> {
        // What was given up may have been the first taking of all.
        let absent = match closing {
            Closing::GivenUp => Absent::Answer(Kept::Lost.into()),
            Closing::Unused | Closing::Ended { .. } => Absent::BackendError(Kept::Lost.into()),
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
        let none = Listing { now: Timestamp::now(), rows: Vec::new() };
        let work = |database: &mut D, session: &mut D::Session, _| database.locks(session, names);
        let Listing { now, rows } = self.perform(History::Without, Absent::Answer(none), work)?;
        let mut locks: Vec<_> = rows.iter().filter_map(Row::lock).collect();
        locks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Locks { now, locks })
    }
}

impl<D: Database> Admin for SqlLocks<D> {
    fn runs(&mut self, wanted: &Wanted) -> Result<Runs, BackendError> {
        let none = Listing { now: Timestamp::now(), rows: Vec::new() };
        let work = |database: &mut D, session: &mut D::Session, _| {
            database.runs(session, wanted).map_err(|failure| match database.fault(&failure) {
                Fault::History => Self::refused(database, &failure, "SELECT").into(),
                _ => failure,
            })
        };
        let Listing { now, rows } = self.perform(History::Without, Absent::Answer(none), work)?;
        Ok(Runs { now, runs: rows.iter().filter_map(Row::run).collect() })
    }

    fn change(&mut self, change: &Change) -> Result<Kept, BackendError> {
        let work = |database: &mut D, session: &mut D::Session, _| database.change(session, change);
        self.perform(History::Without, Absent::Answer(Kept::Lost), work)
    }

    fn make(&mut self) -> Result<Vec<String>, BackendError> {
        let lines = self.perform(History::Without, Absent::Made, |database, session, _| {
            let mut lines = Vec::from_iter(database.place(session));
            for table in TABLES {
                let is_made = !database.is_there(session, table)? && Self::create(database, session, table)?;
                let name = database.name(table);
                lines.push(if is_made {
                    format!("made the table {name}")
                } else {
                    format!("the table {name} is there")
                });
                lines.extend(database.amend(session, table)?);
            }
            Ok(lines)
        })?;
        // What is there may be something else.
        self.locks(&[""])?;
        self.runs(&Wanted { limit: Some(0), ..Wanted::default() })?;
        Ok(lines)
    }

    fn schema(&self) -> String {
        self.database.schema()
    }

    fn check(&mut self, tell: &mut dyn FnMut(Finding)) -> Reached {
        self.probe(tell)
    }
}
