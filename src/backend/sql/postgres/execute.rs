//! Sends statements with the right table names and time limits, and finds the cause of failures.

use std::cell::Cell;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::admin_statements::{LOCKED_TABLE, SERVER_ONLY, WHY_READ_ONLY};
use super::answer::read_cells;
use super::failure::Failure;
use super::session::Session;
use super::tables::Statement;
use super::{Postgres, Values, errors};
use crate::backend::net::bounds::{ANSWER_BYTES, LISTING_BYTES};
use crate::backend::sql::engine::{self, History, RowSink, TABLES};
use crate::lock::BackendError;
use crate::system::{Moment, Timestamp};

/// Minimum time limit of a statement.
const MIN_STATEMENT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between giving up a statement and the end of the caller's wait, so that the caller learns the cause.
const CANCEL_MARGIN: Duration = Duration::from_millis(250);

/// Number of times that a listing or a change is repeated on a new connection after the server ended the old one.
const RECONNECT_TRIES: usize = 3;

/// Number of columns about the server that begin the answer to a listing or a change: its time, and whether it is
/// read-only.
const SERVER_COLUMNS: usize = 2;

impl Postgres {
    /// Sends a listing or a change, and creates no table. Every answer begins with the server's time and whether it is
    /// read-only, even if there is nothing else. Returns the time, and passes on the rows that have more columns.
    pub(crate) fn ask_writable(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        values: Values<'_>,
        sink: RowSink<'_>,
    ) -> Result<Timestamp, Failure> {
        let is_empty = Cell::new(true);
        let mut sink = |row: &engine::Row| {
            is_empty.set(false);
            sink(row);
        };
        for _ in 0..RECONNECT_TRIES {
            match self.ask_writable_once(session, statement, values, &mut sink) {
                // A listing, or a change that may be made twice, is repeated on a new connection, but no row of it.
                Err(failure) if errors::is_end_of_session(&failure) && is_empty.get() => {
                    *session = self.servers.connect()?;
                }
                answer => return answer,
            }
        }
        self.ask_writable_once(session, statement, values, &mut sink)
    }

    /// Sends a listing or a change of one row, whose only column says whether something is so.
    pub(crate) fn query_flag(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        values: Values<'_>,
    ) -> Result<bool, Failure> {
        let mut is_so = false;
        self.ask_writable(session, statement, values, &mut |row| is_so = row.number(0) == Some(1))?;
        Ok(is_so)
    }

    fn ask_writable_once(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        values: Values<'_>,
        sink: RowSink<'_>,
    ) -> Result<Timestamp, Failure> {
        let (mut now, mut is_read_only) = (None, false);
        let mut each = |row: Row| {
            is_read_only |= row.try_get(1).unwrap_or(false);
            now = now.or_else(|| read_cells(&row, 0).time(0));
            if row.len() > SERVER_COLUMNS && !is_read_only {
                sink(&read_cells(&row, SERVER_COLUMNS));
            }
        };
        match self.each(session, statement, History::Without, values, LISTING_BYTES, &mut each) {
            // A standby need not have the table yet.
            Err(failure) if errors::is(&failure, errors::NO_TABLE) => {
                self.each(session, &SERVER_ONLY, History::Without, &[], ANSWER_BYTES, &mut each)?;
            }
            answer => answer?,
        }
        if is_read_only {
            return Err(self.refine(session, Failure::ReadOnly));
        }
        Ok(now.unwrap_or(Timestamp(0)))
    }

    /// Sends an operation. The statement names the schemas of its tables if another client may have changed the
    /// session.
    pub(crate) fn query(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        history: History,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let mut rows = Vec::new();
        self.each(session, statement, history, values, ANSWER_BYTES, &mut |row| rows.push(row))?;
        Ok(rows)
    }

    /// Sends an operation, and passes the rows on as they come, of this many bytes at most. A failure may come after rows.
    fn each(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        history: History,
        values: Values<'_>,
        most: usize,
        sink: &mut dyn FnMut(Row),
    ) -> Result<(), Failure> {
        if session.is_pooled() && !self.tables.are_qualified() {
            self.find_tables(session)?;
        }
        let is_empty = Cell::new(true);
        let mut sink = |row| {
            is_empty.set(false);
            sink(row);
        };
        loop {
            let (required_pid, is_qualified) = (session.required_pid(), self.tables.are_qualified());
            let full = self.tables.operation(statement, history, required_pid);
            let limit = self.limit(session);
            let answer =
                session.each(&full, values, limit, most, &mut sink).map_err(|failure| self.refine(session, failure));
            if is_qualified || session.is_own() {
                return self.note_answer(answer);
            }
            match answer {
                Ok(()) if !is_empty.get() => {
                    session.confirm_own();
                    return self.note_answer(Ok(()));
                }
                Err(failure) if !errors::is(&failure, errors::NO_TABLE) => return Err(failure),
                // No row or no table: the lock is lost, the table is missing, or the session is not shedlock's own.
                answer => {
                    self.find_tables(session)?;
                    if !self.tables.are_qualified() {
                        return self.note_answer(answer);
                    }
                }
            }
        }
    }

    /// Gives the next attempt the whole time again after an answer.
    fn note_answer<T>(&mut self, answer: Result<T, Failure>) -> Result<T, Failure> {
        if answer.is_ok() {
            self.first_failure = None;
        }
        answer
    }

    /// Sends a statement as it stands.
    pub(crate) fn send(
        &mut self,
        session: &mut Session,
        statement: &str,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let limit = self.limit(session);
        session.query(statement, values, limit).map_err(|failure| self.refine(session, failure))
    }

    /// Refines a failure: finds the lock that kept the statement waiting, names the pooler that did not answer, or
    /// explains why this session is read-only.
    pub(crate) fn refine(&self, session: &mut Session, failure: Failure) -> Failure {
        match failure {
            Failure::Cancelled => self.find_lock(session),
            failure if session.is_pooled() && errors::is_silence(&failure) => Failure::PoolerSilence,
            failure if errors::is_read_only(&failure) => match self.explain_read_only(session) {
                Some(error) => {
                    session.abandon();
                    Failure::Backend(error)
                }
                None => failure,
            },
            failure => failure,
        }
    }

    /// Returns why this session is read-only, if the cause is the role or the URL: no other server would help.
    pub(crate) fn explain_read_only(&self, session: &mut Session) -> Option<BackendError> {
        let rows = session.query(WHY_READ_ONLY, &[], self.limit(session)).ok()?;
        let row = rows.first()?;
        let text = |column: usize| row.try_get::<_, &str>(column).ok();
        Some(errors::explain_read_only(text(0)?, text(1)?, text(2)?))
    }

    /// Finds the table that kept a statement waiting until it was cancelled.
    fn find_lock(&self, session: &mut Session) -> Failure {
        let names = TABLES.map(|table| self.tables.bare(table));
        let found = session.query(LOCKED_TABLE, &[(&names.as_slice(), Type::TEXT_ARRAY)], MIN_STATEMENT_TIMEOUT);
        let table = found.ok().and_then(|rows| rows.first()?.try_get(0).ok());
        table.map_or(Failure::Cancelled, |place| Failure::Locked { row: false, place })
    }

    /// Returns how long the server may work on a statement: as long as the caller waits for the answer, less the time
    /// that failed attempts have used.
    pub(crate) fn limit(&self, session: &Session) -> Duration {
        let now = Moment::now();
        let leeway = if session.is_pooled() { CANCEL_MARGIN + MIN_STATEMENT_TIMEOUT } else { CANCEL_MARGIN };
        let left = (self.first_failure.unwrap_or(now) + self.timeout).since(now).max(MIN_STATEMENT_TIMEOUT);
        left.saturating_sub(leeway).max(MIN_STATEMENT_TIMEOUT)
    }
}
