//! Locks in a PostgreSQL table, in the layout of the Java library ShedLock.
//!
//! Every operation is one statement in one message. shedlock does not prepare it first: that would cost another round
//! trip, and would not work behind PgBouncer.

mod admin_statements;
mod answer;
mod check;
mod connect;
mod errors;
mod execute;
mod failure;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod operations;
mod passfile;
mod pid;
mod read_limit;
mod run_statements;
mod schemas;
mod sequence;
mod session;
mod socket;
mod tables;

use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};

use crate::backend::net::tls::Tls;
use crate::backend::sql::engine::{
    CreateMissing, Database, Dialect, Explanation, Facts, Fault, History, RowSink, SqlLocks, Table,
};
use crate::backend::{Access, Credentials, FindingSink, LockTest, Opened, Url};
use crate::lock::{Acquired, BackendError, ErrorClass, Forgotten, Reply, StillHeld};
use crate::lock::{Change, Claim, Closing, Removal, RunQuery};
use crate::system::{Moment, Timestamp};
use admin_statements::{CHANGE, FORGET, LOCKS, RUNS, RUNS_OF_EACH, SERVER_ONLY, TABLE_EXISTS};
use answer::{Interval, read_cells};
use connect::Servers;
use failure::Failure;
use session::Session;
use tables::Tables;

/// Parameters of a statement, with their types.
type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// Keeps locks in a table of PostgreSQL servers.
pub(crate) struct Postgres {
    servers: Servers,
    tables: Tables,
    /// Time for all attempts of a request together.
    timeout: Duration,
    /// Start of the first attempt that failed since the last answer.
    first_failure: Option<Moment>,
}

impl Postgres {
    /// Checks `postgres://USER@HOST/DATABASE` without connecting.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        let servers = Servers::from_url(url, access)?;
        let table = url.take_table()?;
        url.nothing_left(&[&["table"][..], &Servers::PARAMETERS, &Tls::PARAMETERS].concat())?;
        let database = Self { servers, tables: Tables::new(table), timeout: access.timeout, first_failure: None };
        Ok(Opened::server(SqlLocks::new(database), url, access))
    }
}

impl Database for Postgres {
    type Session = Session;
    type Failure = Failure;

    const DIALECT: Dialect = tables::DIALECT;

    fn label(&self) -> String {
        self.servers.label.clone()
    }

    fn user(&self) -> String {
        self.servers.login.user.clone()
    }

    fn name(&self, table: Table) -> String {
        self.tables.name(table).to_owned()
    }

    fn create_statement(&self, table: Table) -> String {
        self.tables.create_statement(table)
    }

    fn schema(&self) -> String {
        self.tables.schema(&self.servers.login.user)
    }

    fn servers(&self) -> usize {
        self.servers.hosts.count()
    }

    fn pass_over(&mut self) {
        self.servers.hosts.pass_over();
    }

    fn start_attempt(&mut self) {
        let now = Moment::now();
        if self.first_failure.is_none_or(|first| now.since(first) >= self.timeout) {
            self.first_failure = Some(now);
        }
    }

    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.servers.login.replace(login)
    }

    fn connect(&mut self, _: CreateMissing) -> Result<Option<Session>, BackendError> {
        self.servers.connect().map(Some)
    }

    fn close(&mut self, session: Session) {
        session.close();
    }

    /// Returns true for a connection on which the server answered: it is as good as before.
    fn can_go_on(&self, session: &Session, failure: &Failure) -> bool {
        errors::is_answer(failure) && !session.is_unusable()
    }

    fn explain(&self, failure: &Failure) -> Explanation {
        let table = match failure {
            Failure::Locked { place, .. } => self.tables.table_in_message(place),
            _ => Table::Locks,
        };
        let error = errors::explain_request(&self.servers.login.user, self.tables.name(table), failure);
        let server_words = errors::server_words(failure);
        let fault = match failure {
            failure if errors::is_read_only(failure) => Fault::GrantsNoLocks,
            Failure::SequenceBehind => Fault::HistoryRefused,
            failure if errors::is(failure, errors::NO_TABLE) => {
                Fault::TableMissing(self.tables.table_in_message(&server_words))
            }
            // A repetition without the history shows which table is to blame.
            failure if errors::is_server_error(failure) && !errors::is(failure, errors::GIVEN_UP) => {
                match error.class {
                    ErrorClass::Permanent => Fault::HistoryRefused,
                    _ => Fault::Other,
                }
            }
            _ => Fault::Other,
        };
        let remedy = self.sequence_remedy(failure);
        Explanation { fault, error, server_words, lacks_right: errors::is(failure, errors::DENIED), remedy }
    }

    fn acquire(&mut self, session: &mut Session, claim: &Claim, history: History) -> Result<Reply<Acquired>, Failure> {
        self.acquire_lock(session, claim, history).map(Reply::from)
    }

    fn renew(&mut self, session: &mut Session, claim: &Claim) -> Result<Reply<StillHeld>, Failure> {
        self.renew_lock(session, claim).map(Reply::from)
    }

    fn release(
        &mut self,
        session: &mut Session,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
        history: History,
    ) -> Result<Reply<StillHeld>, Failure> {
        self.release_lock(session, claim, hold, closing, history).map(Reply::from)
    }

    fn change(&mut self, session: &mut Session, change: &Change) -> Result<StillHeld, Failure> {
        let values: Values<'_> = &[
            (&change.name.as_str(), Type::TEXT),
            (&change.from, Type::TEXT),
            (&change.to, Type::TEXT),
            (&Interval(change.left), Type::INTERVAL),
        ];
        self.query_flag(session, &CHANGE, values).map(StillHeld::from_owned)
    }

    fn forget(&mut self, session: &mut Session, removal: &Removal, history: History) -> Result<Forgotten, Failure> {
        let age = removal.mark_age.as_secs_f64();
        let values: Values<'_> =
            &[(&removal.name.as_str(), Type::TEXT), (&removal.seen, Type::TEXT), (&age, Type::FLOAT8)];
        let rows = self.query(session, &FORGET, history, values)?;
        let row = rows.first().map(|row| read_cells(row, 0));
        let number = |column| row.as_ref().and_then(|row| row.number(column)).unwrap_or_default();
        Ok(match (number(0), number(1)) {
            (0, 1) => Forgotten::InUse,
            (lock, _) => Forgotten::Gone { lock: lock == 1, runs: number(2).try_into().unwrap_or_default() },
        })
    }

    fn locks(&mut self, session: &mut Session, names: &[&str], sink: RowSink<'_>) -> Result<Timestamp, Failure> {
        let names = (!names.is_empty()).then_some(names);
        self.ask_writable(session, &LOCKS, &[(&names, Type::TEXT_ARRAY)], sink)
    }

    fn runs(&mut self, session: &mut Session, wanted: &RunQuery, sink: RowSink<'_>) -> Result<Timestamp, Failure> {
        let names = (!wanted.names.is_empty()).then_some(&wanted.names);
        let since = wanted.since.map(|since| i64::try_from(since.0).unwrap_or(i64::MAX));
        let (newest_per_lock, limit) = (wanted.newest_per_lock.map(i64::from), wanted.limit.map(i64::from));
        let values: Values<'_> =
            &[(&names, Type::TEXT_ARRAY), (&since, Type::INT8), (&newest_per_lock, Type::INT8), (&limit, Type::INT8)];
        let statement = if newest_per_lock.is_some() { &RUNS_OF_EACH } else { &RUNS };
        self.ask_writable(session, statement, values, sink)
    }

    fn create_table(&mut self, session: &mut Session, table: Table) -> Result<bool, Failure> {
        let limit = self.limit(session);
        match session.execute(&self.tables.create_statement(table), limit) {
            Ok(()) => Ok(true),
            Err(failure) if errors::EXISTS_ALREADY.iter().any(|code| errors::is(&failure, code)) => Ok(false),
            Err(failure) => Err(self.refine(session, failure)),
        }
    }

    fn tables_elsewhere(&mut self, session: &mut Session, table: Table) -> Result<Vec<String>, Failure> {
        let found = self.find_tables(session)?;
        let bare = self.tables.bare(table);
        // A table that is now where it was missing is no error: another process created it.
        let is_there = match self.tables.are_qualified() {
            true => found.all(&bare).any(|name| name.eq_ignore_ascii_case(self.tables.name(table))),
            false => found.schema_of(&bare).is_some(),
        };
        Ok(found.all(&bare).filter(|_| !is_there).collect())
    }

    fn explain_creation(&self, table: Table, failure: &Failure) -> Option<BackendError> {
        if let Failure::Backend(error) = failure {
            return Some(error.clone());
        }
        let (name, create) = (self.tables.name(table), self.tables.create_statement(table));
        let (schema, _) = name.split_once('.').filter(|_| errors::is(failure, errors::NO_SCHEMA))?;
        Some(BackendError::permanent(format!("there is no schema {schema} for the table {name}")).hint(format!(
            "check ?table= in the URL, or ask the database's owner to run: CREATE SCHEMA {schema}; {create}"
        )))
    }

    fn upgrade_table(&mut self, session: &mut Session, table: Table) -> Result<Option<String>, Failure> {
        if table == Table::Runs { self.advance_sequence(session) } else { Ok(None) }
    }

    fn table_exists(&mut self, session: &mut Session, table: Table) -> Result<bool, Failure> {
        // Settles which schemas the table names mean.
        self.ask_writable(session, &SERVER_ONLY, &[], &mut |_| {})?;
        let name = self.name(table);
        self.query_flag(session, &TABLE_EXISTS, &[(&name, Type::TEXT)])
    }
    fn check_server(&mut self, session: &mut Option<Session>, tell: FindingSink<'_>) -> Result<LockTest, BackendError> {
        self.check_hosts(session, tell)
    }

    fn describe_table(&mut self, session: &mut Session, table: Table) -> Result<Option<Facts>, Failure> {
        self.table_facts(session, table)
    }
}

#[cfg(test)]
mod admin_tests;
#[cfg(test)]
mod sequence_tests;

#[cfg(test)]
mod tests {
    crate::backend::testing::conformance::conformance!(
        #[ignore = "needs a server: --include-ignored"]
        servers::stores::PostgresStore::new
    );

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn a_server_whose_clock_was_ahead_has_forgotten_it_soon() {
        let server = servers::Postgres::with_moving_clock();
        let store = servers::stores::PostgresStore(server.database());
        let set = |offset: &str| server.set_clock(offset);
        crate::backend::testing::conformance::a_server_whose_clock_was_ahead_has_forgotten_it_soon(&store, &set);
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn a_time_zone_is_no_clock_that_was_ahead() {
        crate::backend::testing::conformance::a_time_zone_is_no_clock_that_was_ahead(
            &servers::stores::PostgresStore::new(),
        );
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn every_run_of_a_long_history_is_listed() {
        crate::backend::testing::conformance::every_run_of_a_long_history_is_listed(
            &servers::stores::PostgresStore::new(),
        );
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn an_acquisition_that_was_given_up_takes_nothing() {
        let store = || servers::stores::PostgresStore::new();
        crate::backend::testing::conformance::an_acquisition_that_comes_after_it_was_given_back_takes_nothing(&store());
        crate::backend::testing::conformance::an_acquisition_beside_its_giving_back_takes_nothing(&store());
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn taking_again_shortens_nothing() {
        crate::backend::testing::conformance::taking_again_shortens_nothing(&servers::stores::PostgresStore::new());
    }
}
