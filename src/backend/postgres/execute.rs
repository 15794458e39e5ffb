//! Sends statements with the right table names and time limits, and finds the cause of failures.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::super::sql::{self, Cell, History, Listing, TABLES};
use super::session::{Failure, Session};
use super::statements::{LOCKED, NOW, READ_ONLY, Statement};
use super::{Postgres, Values, errors};
use crate::backend::BackendError;
use crate::system::{Moment, Timestamp};

/// Minimum time limit of a statement.
const SHORTEST: Duration = Duration::from_secs(1);

/// Time between giving up a statement and the end of the caller's wait, so that the caller learns the cause.
const LEEWAY: Duration = Duration::from_millis(250);

/// Number of times that a listing or a change is repeated on a new connection after the server ended the old one.
const AGAIN: usize = 3;

/// Number of columns about the server that begin the answer to a listing or a change: its time, and whether it is
/// read-only.
const OF_SERVER: usize = 2;

impl Postgres {
    /// Sends a listing or a change, and creates no table. Every answer begins with the server's time and whether it is
    /// read-only, even if there is nothing else. Returns the time, and the rows that have more columns.
    pub(super) fn look(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        values: Values<'_>,
    ) -> Result<Listing, Failure> {
        for _ in 0..AGAIN {
            match self.look_once(session, statement, values) {
                // A listing, or a change that may be made twice, is repeated on a new connection.
                Err(failure) if errors::is_end_of_session(&failure) => *session = self.servers.connect()?,
                answer => return answer,
            }
        }
        self.look_once(session, statement, values)
    }

    fn look_once(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        values: Values<'_>,
    ) -> Result<Listing, Failure> {
        let rows = match self.query(session, statement, History::Without, values) {
            // A standby need not have the table yet.
            Err(failure) if errors::is(&failure, errors::NO_TABLE) => {
                self.query(session, &NOW, History::Without, &[])?
            }
            answer => answer?,
        };
        if rows.iter().any(|row| row.try_get(1).unwrap_or(false)) {
            return Err(self.sort(session, Failure::ReadOnly));
        }
        let now = rows.first().and_then(|row| cells(row, 0).time(0)).unwrap_or(Timestamp(0));
        let rows = rows.iter().filter(|row| row.len() > OF_SERVER).map(|row| cells(row, OF_SERVER)).collect();
        Ok(Listing { now, rows })
    }

    /// Sends an operation. The statement names the schemas of its tables if another client may have changed the
    /// session.
    pub(super) fn query(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        history: History,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Failure> {
        if session.is_lent() && !self.tables.are_placed() {
            self.place(session)?;
        }
        loop {
            let (only_for, placed) = (session.only_for(), self.tables.are_placed());
            let full = self.tables.operation(statement, history, only_for);
            let answer = self.send(session, &full, values);
            if placed || session.is_own() {
                return self.answered(answer);
            }
            match answer {
                Ok(rows) if !rows.is_empty() => {
                    session.served_by_own();
                    return self.answered(Ok(rows));
                }
                Err(failure) if !errors::is(&failure, errors::NO_TABLE) => return Err(failure),
                // No row or no table: the lock is lost, the table is missing, or the session is not shedlock's own.
                answer => {
                    self.place(session)?;
                    if !self.tables.are_placed() {
                        return self.answered(answer);
                    }
                }
            }
        }
    }

    /// Gives the next attempt the whole time again after an answer.
    fn answered<T>(&mut self, answer: Result<T, Failure>) -> Result<T, Failure> {
        if answer.is_ok() {
            self.begun = None;
        }
        answer
    }

    /// Sends a statement as it stands.
    pub(super) fn send(
        &mut self,
        session: &mut Session,
        statement: &str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let limit = self.limit(session);
        session.query(statement, values, limit).map_err(|failure| self.sort(session, failure))
    }

    /// Refines a failure: finds the lock that kept the statement waiting, names the pooler that did not answer, or
    /// explains why this session is read-only.
    pub(super) fn sort(&self, session: &mut Session, failure: Failure) -> Failure {
        match failure {
            Failure::Cancelled => self.find_lock(session),
            failure if session.is_lent() && errors::is_silence(&failure) => Failure::Pooled,
            failure if errors::is_read_only(&failure) => match self.only_reads(session) {
                Some(error) => {
                    session.leave();
                    Failure::Ours(error)
                }
                None => failure,
            },
            failure => failure,
        }
    }

    /// Returns why this session is read-only, if the cause is the role or the URL: no other server would help.
    pub(super) fn only_reads(&self, session: &mut Session) -> Option<BackendError> {
        let rows = session.query(READ_ONLY, &[], self.limit(session)).ok()?;
        let row = rows.first()?;
        let text = |column: usize| row.try_get::<_, &str>(column).ok();
        Some(errors::only_reads(text(0)?, text(1)?, text(2)?))
    }

    /// Finds the table that kept a statement waiting until it was cancelled.
    fn find_lock(&self, session: &mut Session) -> Failure {
        let names = TABLES.map(|table| self.tables.bare(table));
        let found = session.query(LOCKED, &[(&names.as_slice(), Type::TEXT_ARRAY)], SHORTEST);
        let place = found.ok().and_then(|rows| rows.first()?.try_get(0).ok());
        place.map_or(Failure::Cancelled, |place| Failure::Locked { row: false, place })
    }

    /// Returns how long the server may work on a statement: as long as the caller waits for the answer, less the time
    /// that failed attempts have used.
    pub(super) fn limit(&self, session: &Session) -> Duration {
        let now = Moment::now();
        let leeway = if session.is_lent() { LEEWAY + SHORTEST } else { LEEWAY };
        let left = (self.begun.unwrap_or(now) + self.patience).since(now).max(SHORTEST);
        left.saturating_sub(leeway).max(SHORTEST)
    }
}

/// Reads the values of a row from a column on. People may have created the table: a value of another type reads as
/// none.
pub(super) fn cells(row: &Row, from: usize) -> sql::Row {
    fn value<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Option<T> {
        row.try_get::<_, Option<T>>(column).ok().flatten()
    }
    let cell = |column: usize| match *row.columns()[column].type_() {
        Type::BOOL => value::<bool>(row, column).map(|is| Cell::Number(is.into())),
        Type::INT8 => value(row, column).map(Cell::Number),
        Type::FLOAT8 => value(row, column).map(Cell::Seconds),
        _ => value(row, column).map(Cell::Text),
    };
    sql::Row((from..row.len()).map(|column| cell(column).unwrap_or(Cell::Nothing)).collect())
}
