//! How a server is asked: which of several, for how long, and what becomes of tables that are missing.

use std::time::Duration;

use tokio_postgres::Row;

use super::session::{Failure, Session};
use super::statements::{NOW, Statement, Table};
use super::{Postgres, Values, time, trouble};
use crate::backend::{Trouble, TroubleKind};
use crate::clock::{Moment, Timestamp};

/// A statement is given no less than this.
const SHORTEST: Duration = Duration::from_secs(1);

/// How many tables may be missing.
const TABLES: usize = 2;

/// What is asked of a server, and how long it may take. The outer error is the last word, whatever other servers would say.
type Work<'a, T> = &'a mut dyn FnMut(&mut Postgres, &mut Session, Duration) -> Result<Result<T, Failure>, Trouble>;

impl Postgres {
    /// Asks for an operation, on a connection that is open or is opened; the tables are made where they are missing.
    pub(super) fn ask(&mut self, statement: &Statement, values: Values<'_>) -> Result<Vec<Row>, Trouble> {
        self.on_a_primary(&mut |backend, session, limit| backend.ask_with_tables(session, statement, values, limit))
    }

    /// Asks for what is there, on a connection that is open or is opened, and makes nothing. The answer to the statement
    /// begins with the time and whether the server can only be read, also where there is nothing else; the time and the rows
    /// that have more are returned.
    pub(super) fn look(
        &mut self,
        table: Table,
        statement: &Statement,
        values: Values<'_>,
    ) -> Result<(Timestamp, Vec<Row>), Trouble> {
        let (statement, now) = (self.tables.plain(statement), self.tables.plain(&NOW));
        let rows = self.on_a_primary(&mut |backend, session, limit| {
            let rows = match session.query(&statement, values, limit) {
                // A standby need not have the table yet.
                Err(failure) if trouble::is_no_table(&failure) => session.query(&now, &[], limit),
                Err(failure) if table == Table::Runs && backend.is_refusal(&failure) => {
                    return Err(backend.unusable_history(&failure, "SELECT"));
                }
                answer => answer,
            };
            let is_read_only = |row: &Row| row.try_get(1).unwrap_or(false);
            Ok(rows.and_then(|rows| if rows.iter().any(is_read_only) { Err(Failure::ReadOnly) } else { Ok(rows) }))
        })?;
        let now = rows.first().and_then(|row| time(row.try_get(0).ok()?));
        let is_more = |row: &Row| row.len() > 2;
        Ok((now.unwrap_or(Timestamp(0)), rows.into_iter().filter(is_more).collect()))
    }

    /// Asks one server after the other; one that cannot be written is passed over.
    pub(super) fn on_a_primary<T>(&mut self, work: Work<'_, T>) -> Result<T, Trouble> {
        for _ in 1..self.servers.count() {
            match self.on_one(work)? {
                Err(failure) if trouble::is_read_only(&failure) => {
                    self.session = None;
                    self.servers.pass_over();
                }
                answer => return answer.map_err(|failure| self.explain(&failure)),
            }
        }
        self.on_one(work)?.map_err(|failure| {
            if trouble::is_read_only(&failure) {
                self.session = None;
                self.servers.pass_over();
            }
            self.explain(&failure)
        })
    }

    /// Asks the server that we are connected to. The outer error says that there is none.
    fn on_one<T>(&mut self, work: Work<'_, T>) -> Result<Result<T, Failure>, Trouble> {
        let now = Moment::now();
        if self.begun.is_none_or(|begun| now.since(begun) >= self.patience) {
            self.begun = Some(now);
        }
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.servers.connect()?,
        };
        let limit = self.time_left();
        let answer = work(self, &mut session, limit)?;
        if answer.is_ok() {
            self.begun = None;
        }
        // A connection on which the server answered is as good as before.
        if answer.as_ref().err().is_none_or(trouble::is_answer) && !session.is_over() {
            self.session = Some(session);
        }
        Ok(answer)
    }

    /// Asks, with a table that is missing made, and without the history where it may not be kept.
    fn ask_with_tables(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        values: Values<'_>,
        limit: Duration,
    ) -> Result<Result<Vec<Row>, Failure>, Trouble> {
        let plain = self.tables.plain(statement);
        let mut missing = TABLES;
        loop {
            let recorded = self.tables.recorded(statement).filter(|_| self.history.is_kept());
            let failure = match session.query(recorded.as_ref().unwrap_or(&plain), values, limit) {
                Ok(rows) => return Ok(Ok(rows)),
                Err(failure) => failure,
            };
            let made = if trouble::is_no_table(&failure) && missing > 0 {
                missing -= 1;
                match self.tables.missing(&trouble::said(&failure)) {
                    Table::Locks => self.create(session, Table::Locks, limit)?,
                    // Without that of locks there is no lock; without that of runs there is no history.
                    Table::Runs => match self.create(session, Table::Runs, limit) {
                        Err(trouble) if trouble.kind == TroubleKind::Lasting => {
                            self.history.bar(trouble);
                            Ok(())
                        }
                        answer => answer?,
                    },
                }
            } else if recorded.is_some() && self.is_refusal(&failure) {
                // Whose fault it is shows without the history.
                let answer = session.query(&plain, values, limit);
                if answer.is_ok() {
                    self.bar_history(&failure);
                }
                return Ok(answer);
            } else {
                Err(failure)
            };
            if let Err(failure) = made {
                return Ok(Err(failure));
            }
        }
    }

    /// The server answered, and will not answer otherwise next time.
    fn is_refusal(&self, failure: &Failure) -> bool {
        trouble::is_answer(failure) && self.explain(failure).kind == TroubleKind::Lasting
    }

    /// How long the server may be busy with a statement: as long as somebody waits for the answer. Tries that have failed
    /// before have had their share of it.
    fn time_left(&self) -> Duration {
        let now = Moment::now();
        (self.begun.unwrap_or(now) + self.patience).since(now).max(SHORTEST)
    }

    /// Makes a table. A server that cannot be written is no place for it, and that is not the last word.
    pub(super) fn create(
        &self,
        session: &mut Session,
        table: Table,
        limit: Duration,
    ) -> Result<Result<(), Failure>, Trouble> {
        let statement = self.tables.create(table);
        let Err(failure) = session.execute(&statement, limit) else { return Ok(Ok(())) };
        if trouble::is_made_already(&failure) {
            return Ok(Ok(()));
        }
        if trouble::is_read_only(&failure) {
            return Ok(Err(failure));
        }
        let trouble = self.explain(&failure);
        if trouble.kind != TroubleKind::Lasting {
            // Nothing was asked for yet.
            return Err(Trouble { unclear: false, ..trouble });
        }
        let (label, name, said) = (self.servers.label(), self.tables.name(table), trouble::said(&failure));
        Err(Trouble::lasting(format!("{label}: there is no table {name}, and it cannot be made: {said}"))
            .hint(format!("have somebody who may run: {statement}")))
    }

    /// Does without the history, whose table is there and cannot be used.
    fn bar_history(&mut self, failure: &Failure) {
        self.history.bar(self.unusable_history(failure, "SELECT, INSERT, UPDATE, DELETE"));
    }

    /// What is wrong with the table of runs; `rights` are those that are needed.
    pub(super) fn unusable_history(&self, failure: &Failure, rights: &str) -> Trouble {
        let (label, table) = (self.servers.label(), self.tables.name(Table::Runs));
        let message = format!("{label}: the table {table} cannot be used: {}", trouble::said(failure));
        let hint = match trouble::is_forbidden(failure) {
            true => format!("GRANT {rights} ON {table} TO {}", self.servers.user()),
            false => format!("rename it, and have made instead: {}", self.tables.create(Table::Runs)),
        };
        Trouble::lasting(message).hint(hint)
    }
}
