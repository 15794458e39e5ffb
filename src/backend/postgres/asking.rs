//! How a server is asked: which of several, for how long, and what becomes of tables that are missing.

use std::cell::Cell;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::place::Places;
use super::session::{Failure, Session};
use super::statements::{LOCKED, Missing, NOW, READ_ONLY, Statement, Table};
use super::{Postgres, Values, time, trouble};
use crate::backend::{Trouble, TroubleKind};
use crate::clock::{Moment, Timestamp};

/// A statement is given no less than this.
const SHORTEST: Duration = Duration::from_secs(1);

/// So much sooner than the caller stops waiting a statement is given up, so that the caller learns why.
const LEEWAY: Duration = Duration::from_millis(250);

/// How many tables may be missing.
const TABLES: usize = 2;

/// How often what people ask is asked again on a new connection, where the server ended the old one.
const AGAIN: usize = 3;

/// Whether a statement goes with its part for the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recorded {
    Yes,
    No,
}

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
        let ended = Cell::new(false);
        let mut work = |backend: &mut Self, session: &mut Session, limit: Duration| {
            let rows = match backend.query(session, statement, Recorded::No, values, limit)? {
                // A standby need not have the table yet.
                Err(failure) if trouble::is_no_table(&failure) => {
                    backend.query(session, &NOW, Recorded::No, &[], limit)?
                }
                Err(failure) if table == Table::Runs && backend.is_refusal(&failure) => {
                    return Err(backend.unusable_history(&failure, "SELECT"));
                }
                answer => answer,
            };
            let is_read_only = |row: &Row| row.try_get(1).unwrap_or(false);
            ended.set(rows.as_ref().err().is_some_and(trouble::is_end_of_session));
            Ok(rows.and_then(|rows| if rows.iter().any(is_read_only) { Err(Failure::ReadOnly) } else { Ok(rows) }))
        };
        let mut answer = self.on_a_primary(&mut work);
        for _ in 0..AGAIN {
            if answer.is_ok() || !ended.take() {
                break;
            }
            // What is only looked at, or may be done twice, is asked for on a new connection.
            self.session = None;
            answer = self.on_a_primary(&mut work);
        }
        let rows = answer?;
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
        let leeway = if session.is_lent() { LEEWAY + SHORTEST } else { LEEWAY };
        let limit = self.time_left().saturating_sub(leeway).max(SHORTEST);
        let answer = work(self, &mut session, limit)?;
        if answer.is_ok() {
            self.begun = None;
        }
        let answer = answer.map_err(|failure| self.find_lock(failure, &mut session)).map_err(|failure| match failure {
            failure if session.is_lent() && trouble::is_silence(&failure) => Failure::Pooled,
            failure => failure,
        });
        if answer.as_ref().err().is_some_and(trouble::is_read_only)
            && let Some(trouble) = self.only_reads(&mut session, limit)
        {
            return Err(trouble);
        }
        // A connection on which the server answered is as good as before.
        if answer.as_ref().err().is_none_or(trouble::is_answer) && !session.is_over() {
            self.session = Some(session);
        }
        Ok(answer)
    }

    /// Why this session can only read, if it is not for the server's sake: another server would be no better.
    pub(super) fn only_reads(&self, session: &mut Session, limit: Duration) -> Option<Trouble> {
        let rows = session.query(READ_ONLY, &[], limit).ok()?;
        let row = rows.first()?;
        let text = |column: usize| row.try_get::<_, &str>(column).ok();
        Some(trouble::only_reads(self.servers.label(), text(0)?, text(1)?, text(2)?))
    }

    /// Finds the table that kept a statement waiting until it was taken back.
    fn find_lock(&self, failure: Failure, session: &mut Session) -> Failure {
        let names = [Table::Locks, Table::Runs].map(|table| self.tables.bare(table));
        let found = match failure {
            Failure::Cancelled => session.query(LOCKED, &[(&names.as_slice(), Type::TEXT_ARRAY)], SHORTEST),
            failure => return failure,
        };
        let place = found.ok().and_then(|rows| rows.first()?.try_get(0).ok());
        place.map_or(Failure::Cancelled, |place| Failure::Locked { row: false, place })
    }

    /// Asks, with a table that is missing made if the statement takes a lock, and without the history where it may not be kept.
    fn ask_with_tables(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        values: Values<'_>,
        limit: Duration,
    ) -> Result<Result<Vec<Row>, Failure>, Trouble> {
        let mut missing = TABLES;
        loop {
            let recorded = if self.history.is_kept() { Recorded::Yes } else { Recorded::No };
            let failure = match self.query(session, statement, recorded, values, limit)? {
                Ok(rows) => return Ok(Ok(rows)),
                Err(failure) => failure,
            };
            let is_recorded = recorded == Recorded::Yes && statement.is_recorded();
            let made = if trouble::is_no_table(&failure) && missing > 0 {
                missing -= 1;
                match (self.tables.missing(&trouble::said(&failure)), statement.missing) {
                    // Only a taking makes tables.
                    (Table::Locks, Missing::Trouble) => return Ok(Err(failure)),
                    (Table::Locks, Missing::Lost) => return Ok(Ok(Vec::new())),
                    (Table::Runs, Missing::Trouble | Missing::Lost) => {
                        self.history.bar(self.no_table(Table::Runs, "and only a taking makes it", ""));
                        Ok(())
                    }
                    (Table::Locks, Missing::Made) => self.create_first(session, Table::Locks, limit)?,
                    // Without that of locks there is no lock; without that of runs there is no history.
                    (Table::Runs, Missing::Made) => match self.create_first(session, Table::Runs, limit) {
                        Err(trouble) if trouble.kind == TroubleKind::Lasting => {
                            self.history.bar(trouble);
                            Ok(())
                        }
                        answer => answer?,
                    },
                }
            } else if is_recorded && self.is_refusal(&failure) && !trouble::is_given_up(&failure) {
                // Whose fault it is shows without the history.
                let answer = self.query(session, statement, Recorded::No, values, limit)?;
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

    /// Sends a statement, which names the schemas of its tables if another client may have changed the session.
    fn query(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        recorded: Recorded,
        values: Values<'_>,
        limit: Duration,
    ) -> Result<Result<Vec<Row>, Failure>, Trouble> {
        if session.is_lent()
            && !self.tables.are_placed()
            && let Err(failure) = self.place(session, limit)?
        {
            return Ok(Err(failure));
        }
        loop {
            let (only_for, placed) = (session.only_for(), self.tables.are_placed());
            let plain = || self.tables.plain(statement, only_for);
            let full = match recorded {
                Recorded::Yes => self.tables.recorded(statement, only_for).unwrap_or_else(plain),
                Recorded::No => plain(),
            };
            let answer = session.query(&full, values, limit);
            if placed || session.is_own() {
                return Ok(answer);
            }
            match answer {
                Ok(rows) if !rows.is_empty() => {
                    session.served_by_own();
                    return Ok(Ok(rows));
                }
                // The lock is lost, the table is missing, or this was not a session of our own.
                Err(failure) if !trouble::is_no_table(&failure) => return Ok(Err(failure)),
                answer => match self.place(session, limit)? {
                    Ok(_) if self.tables.are_placed() => {}
                    Ok(_) => return Ok(answer),
                    Err(failure) => return Ok(Err(failure)),
                },
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

    /// Makes a table that is missing at the first use, unless the database has one of its name in another schema: which of
    /// the two was meant is not for us to say.
    pub(super) fn create_first(
        &mut self,
        session: &mut Session,
        table: Table,
        limit: Duration,
    ) -> Result<Result<(), Failure>, Trouble> {
        let places = match self.place(session, limit)? {
            Ok(places) => places,
            Err(failure) => return Ok(Err(failure)),
        };
        if let Some(trouble) = self.ambiguity(table, &places) {
            return Err(trouble);
        }
        self.create(session, table, limit)
    }

    /// Another schema has a table of this name. One that is now where it was missing is no trouble: another process made it.
    pub(super) fn ambiguity(&self, table: Table, places: &Places) -> Option<Trouble> {
        let bare = self.tables.bare(table);
        let is_there = match self.tables.are_placed() {
            true => places.all(&bare).any(|found| found.eq_ignore_ascii_case(self.tables.name(table))),
            false => places.of(&bare).is_some(),
        };
        let others: Vec<String> = places.all(&bare).filter(|_| !is_there).collect();
        let first = others.first()?;
        let why = format!("and it is not made, since there is {}", others.join(" and "));
        let hint = match table {
            Table::Locks => format!("name the one that is meant, such as ?table={first}, or "),
            Table::Runs => String::new(),
        };
        Some(self.no_table(table, &why, &hint))
    }

    /// A table that is missing, and has to be made by a person.
    fn no_table(&self, table: Table, why: &str, otherwise: &str) -> Trouble {
        let (label, name) = (self.servers.label(), self.tables.name(table));
        Trouble::lasting(format!("{label}: there is no table {name}, {why}"))
            .hint(format!("{otherwise}have somebody who may run: {}", self.tables.create(table)))
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
        if trouble::is_no_schema(&failure) {
            let (label, name) = (self.servers.label(), self.tables.name(table));
            let schema = name.split('.').next().unwrap_or_default();
            return Err(Trouble::lasting(format!("{label}: there is no schema {schema} for the table {name}")).hint(
                format!(
                    "look at ?table= in the URL, or have somebody who may run: CREATE SCHEMA {schema}; {statement}"
                ),
            ));
        }
        Err(self.no_table(table, &format!("and it cannot be made: {}", trouble::said(&failure)), ""))
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
