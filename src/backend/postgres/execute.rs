//! Sends statements with the right table names and time limits, and finds the cause of failures.

use std::cell::Cell;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::super::sql::{self, History, TABLES, Take};
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
    /// read-only, even if there is nothing else. Returns the time, and passes on the rows that have more columns.
    pub(super) fn look(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        values: Values<'_>,
        take: Take<'_>,
    ) -> Result<Timestamp, Failure> {
        let is_empty = Cell::new(true);
        let mut take = |row: &sql::Row| {
            is_empty.set(false);
            take(row);
        };
        for _ in 0..AGAIN {
            match self.look_once(session, statement, values, &mut take) {
                // A listing, or a change that may be made twice, is repeated on a new connection, but no row of it.
                Err(failure) if errors::is_end_of_session(&failure) && is_empty.get() => {
                    *session = self.servers.connect()?;
                }
                answer => return answer,
            }
        }
        self.look_once(session, statement, values, &mut take)
    }

    /// Sends a listing or a change of one row, whose only column says whether something is so.
    pub(super) fn holds(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        values: Values<'_>,
    ) -> Result<bool, Failure> {
        let mut is_so = false;
        self.look(session, statement, values, &mut |row| is_so = row.number(0) == Some(1))?;
        Ok(is_so)
    }

    fn look_once(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        values: Values<'_>,
        take: Take<'_>,
    ) -> Result<Timestamp, Failure> {
        let (mut now, mut is_read_only) = (None, false);
        let mut each = |row: Row| {
            is_read_only |= row.try_get(1).unwrap_or(false);
            now = now.or_else(|| cells(&row, 0).time(0));
            if row.len() > OF_SERVER && !is_read_only {
                take(&cells(&row, OF_SERVER));
            }
        };
        match self.each(session, statement, History::Without, values, &mut each) {
            // A standby need not have the table yet.
            Err(failure) if errors::is(&failure, errors::NO_TABLE) => {
                self.each(session, &NOW, History::Without, &[], &mut each)?;
            }
            answer => answer?,
        }
        if is_read_only {
            return Err(self.sort(session, Failure::ReadOnly));
        }
        Ok(now.unwrap_or(Timestamp(0)))
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
        let mut rows = Vec::new();
        self.each(session, statement, history, values, &mut |row| rows.push(row))?;
        Ok(rows)
    }

    /// Does the same, and passes the rows on as they come. A failure may come after rows.
    fn each(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        history: History,
        values: Values<'_>,
        take: &mut dyn FnMut(Row),
    ) -> Result<(), Failure> {
        if session.is_lent() && !self.tables.are_placed() {
            self.place(session)?;
        }
        let is_empty = Cell::new(true);
        let mut take = |row| {
            is_empty.set(false);
            take(row);
        };
        loop {
            let (only_for, placed) = (session.only_for(), self.tables.are_placed());
            let full = self.tables.operation(statement, history, only_for);
            let limit = self.limit(session);
            let answer = session.each(&full, values, limit, &mut take).map_err(|failure| self.sort(session, failure));
            if placed || session.is_own() {
                return self.answered(answer);
            }
            match answer {
                Ok(()) if !is_empty.get() => {
                    session.served_by_own();
                    return self.answered(Ok(()));
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
        Type::BOOL => value::<bool>(row, column).map(|is| sql::Cell::Number(is.into())),
        Type::INT8 => value(row, column).map(sql::Cell::Number),
        Type::FLOAT8 => value(row, column).map(sql::Cell::Seconds),
        _ => value(row, column).map(sql::Cell::Text),
    };
    sql::Row((from..row.len()).map(|column| cell(column).unwrap_or(sql::Cell::Nothing)).collect())
}
