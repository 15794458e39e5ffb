//! Locks in a PostgreSQL table, in the layout of the Java library ShedLock.
//!
//! Every operation is one statement in one message. shedlock does not prepare it first: that would cost another round
//! trip, and would not work behind PgBouncer.

mod answer;
mod check;
mod connect;
mod errors;
mod execute;
mod passfile;
mod paths;
mod pid;
mod sequence;
mod session;
mod statements;

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::sql::{Database, Explained, Fault, History, Making, SqlLocks, Table, Take};
use super::tls::Tls;
use super::{Access, Acquired, BackendError, Credentials, ErrorClass, Forgotten, Kept, Opened, Reply, Url};
use crate::lock::{Change, Claim, Closing, Holder, Removal, Wanted};
use crate::system::{Moment, Timestamp};
use answer::{End, Interval, ending, is_ahead, read};
use connect::Servers;
use session::{Failure, Session};
use statements::{
    ACQUIRE, CHANGE, DIGITS, DISCARD, FORGET, GIVE_BACK, IN_THE_WAY, LIST, MOVE, NOW, RELEASE, RELEASE_AND_PRUNE,
    RENEW, RUNS, RUNS_OF_EACH, Statement, TABLE_IS_THERE, Tables,
};

/// Number of times that a taking may find the lock free and then taken before it fails.
const RACES: usize = 10;

/// Tolerance for the stored end of a lock, which a column that keeps milliseconds may round down.
const ROUNDING: Duration = Duration::from_millis(1);

/// Number of digits of a second that make milliseconds.
const MILLISECONDS: i32 = 3;

/// Parameters of a statement, with their types.
type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// Backend that keeps locks in a PostgreSQL table.
pub(crate) struct Postgres {
    servers: Servers,
    tables: Tables,
    /// Time for all attempts of a request together.
    patience: Duration,
    /// Start of the first attempt that failed since the last answer.
    begun: Option<Moment>,
}

impl Postgres {
    /// Checks `postgres://USER@HOST/DATABASE` without connecting.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        let servers = Servers::of_url(url, access)?;
        let table = url.take_table()?;
        url.nothing_left(&[&["table"][..], &Servers::PARAMETERS, &Tls::PARAMETERS].concat())?;
        let database = Self { servers, tables: Tables::new(table), patience: access.patience, begun: None };
        Ok(Opened::server(SqlLocks::new(database), url))
    }

    /// Judges the answer to a taking or a renewal: the lock must stay held until its end, and other sessions must see
    /// that end, also after a failover.
    fn judge(&mut self, session: &mut Session, end: End, lease: Duration) -> Result<(), Failure> {
        if session.is_unreplicated() {
            return Err(errors::unreplicated().into());
        }
        let is_early = end.left + ROUNDING < lease;
        if !is_early && !end.is_round() {
            return Ok(());
        }
        // An end may be round or early by chance, or because the column keeps fewer digits.
        let asked = self.query(session, &DIGITS, History::Without, &[]);
        let rows = asked.map_err(|failure| self.explain(&failure).error.ambiguous())?;
        let Some(row) = rows.first() else { return Ok(()) };
        let is_coarse = matches!(row.try_get(0), Ok(0..MILLISECONDS)) || matches!(row.try_get(1), Ok(true));
        match (is_coarse, is_early) {
            (true, _) => Err(errors::too_coarse(self.tables.name(Table::Locks)).into()),
            (false, true) => Err(errors::too_early(self.tables.name(Table::Locks)).into()),
            (false, false) => Ok(()),
        }
    }

    /// Sends a renewal or a release. A row that still has this owner but was not changed is no lost lock: another
    /// session may have changed it just then, which shows when the request is repeated.
    fn change_ours(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        history: History,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let is_kept_back = |row: &Row| matches!(row.try_get(0), Ok(false));
        let mut rows = self.query(session, statement, history, values)?;
        if rows.first().is_some_and(is_kept_back) {
            rows = self.query(session, statement, history, values)?;
        }
        if rows.first().is_some_and(is_kept_back) {
            Err(errors::kept_back(self.tables.name(Table::Locks)).into())
        } else {
            Ok(rows)
        }
    }
}

impl Database for Postgres {
    type Session = Session;
    type Failure = Failure;

    fn label(&self) -> String {
        self.servers.label.clone()
    }

    fn user(&self) -> String {
        self.servers.login.user.clone()
    }

    fn name(&self, table: Table) -> String {
        self.tables.name(table).to_owned()
    }

    fn creation(&self, table: Table) -> String {
        self.tables.create(table)
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

    fn begin(&mut self) {
        let now = Moment::now();
        if self.begun.is_none_or(|begun| now.since(begun) >= self.patience) {
            self.begun = Some(now);
        }
    }

    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.servers.login.replace(login)
    }

    fn connect(&mut self, _: Making) -> Result<Option<Session>, BackendError> {
        self.servers.connect().map(Some)
    }

    fn close(&mut self, session: Session) {
        session.close();
    }

    /// Returns true for a connection on which the server answered: it is as good as before.
    fn outlives(&self, session: &Session, failure: &Failure) -> bool {
        errors::is_answer(failure) && !session.is_over()
    }

    fn explain(&self, failure: &Failure) -> Explained {
        let table = match failure {
            Failure::Locked { place, .. } => self.tables.missing(place),
            _ => Table::Locks,
        };
        let error = errors::of_asking(&self.servers.login.user, self.tables.name(table), failure);
        let said = errors::said(failure);
        let fault = match failure {
            failure if errors::is_read_only(failure) => Fault::Unfit,
            Failure::Behind => Fault::History,
            failure if errors::is(failure, errors::NO_TABLE) => Fault::Missing(self.tables.missing(&said)),
            // A repetition without the history shows which table is to blame.
            failure if errors::is_said(failure) && !errors::is(failure, errors::GIVEN_UP) => match error.class {
                ErrorClass::Permanent => Fault::History,
                _ => Fault::Other,
            },
            _ => Fault::Other,
        };
        let remedy = sequence::remedy(failure, self.tables.name(Table::Runs), &self.servers.login.user);
        Explained { fault, error, said, is_denied: errors::is(failure, errors::DENIED), remedy }
    }

    fn acquire(&mut self, session: &mut Session, claim: &Claim, history: History) -> Result<Reply<Acquired>, Failure> {
        let lease = Interval(claim.lease);
        let values: Values<'_> = &[
            (&claim.name.as_str(), Type::TEXT),
            (&claim.owner.as_str(), Type::TEXT),
            (&lease, Type::INTERVAL),
            (&Holder::of(claim.owner.as_str()).host(), Type::TEXT),
        ];
        let mut is_moved = false;
        for _ in 0..RACES {
            let rows = self.draw_id(session, |database, session| database.query(session, &ACQUIRE, history, values))?;
            if let Some(row) = rows.first() {
                let (acquired, end) = read(row)?;
                if matches!(acquired, Acquired::Held(_)) && is_ahead(row)? && !is_moved {
                    is_moved = true;
                    self.query(session, &MOVE, History::Without, &values[..1])?;
                    continue;
                }
                if matches!(acquired, Acquired::Granted(_)) {
                    self.judge(session, end, claim.lease)?;
                }
                return Ok(acquired.into());
            }
        }
        let rows = self.query(session, &IN_THE_WAY, History::Without, &values[..1])?;
        Err(match rows.first().map(|row| (row.try_get::<_, String>(0), row.try_get(1))) {
            Some((Ok(stored), Ok(false))) => {
                errors::spelt_otherwise(self.tables.name(Table::Locks), claim.name.as_str(), &stored)
            }
            // The lock may have become free just now.
            Some(_) => {
                BackendError { class: ErrorClass::Transient, ..errors::kept_back(self.tables.name(Table::Locks)) }
            }
            None => BackendError::transient("other hosts changed the lock at every attempt"),
        }
        .into())
    }

    fn renew(&mut self, session: &mut Session, claim: &Claim) -> Result<Reply<Kept>, Failure> {
        let lease = Interval(claim.lease);
        let values: Values<'_> =
            &[(&claim.name.as_str(), Type::TEXT), (&claim.owner.as_str(), Type::TEXT), (&lease, Type::INTERVAL)];
        let rows = self.change_ours(session, &RENEW, History::Without, values)?;
        if let Some(row) = rows.first() {
            self.judge(session, ending(row, 1)?, claim.lease)?;
        }
        Ok(Kept::if_so(!rows.is_empty()).into())
    }

    fn release(
        &mut self,
        session: &mut Session,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
        history: History,
    ) -> Result<Reply<Kept>, Failure> {
        let (exit_code, outcome) = match closing {
            Closing::Ended { verdict, exit_code } => (exit_code.map(i32::from), Some(verdict.as_str())),
            Closing::Unused | Closing::GivenUp => (None, None),
        };
        // Every backend keeps the newest record, since some continue their tokens from it.
        let (ended, keep) = (claim.owner.ended(), i64::from(claim.keep.max(1)));
        let values: Values<'_> = &[
            (&claim.name.as_str(), Type::TEXT),
            (&claim.owner.as_str(), Type::TEXT),
            (&Interval(hold), Type::INTERVAL),
            (&ended, Type::TEXT),
            (&exit_code, Type::INT4),
            (&outcome, Type::TEXT),
            (&keep, Type::INT8),
        ];
        let statement = match closing {
            Closing::Ended { .. } if claim.prunes() => &RELEASE_AND_PRUNE,
            Closing::Ended { .. } => &RELEASE,
            Closing::Unused => &DISCARD,
            Closing::GivenUp => &GIVE_BACK,
        };
        // The mark of a taking that was given up has an id too.
        let mut rows =
            self.draw_id(session, |database, session| database.change_ours(session, statement, history, values))?;
        if closing == Closing::GivenUp && rows.is_empty() {
            rows = self.change_ours(session, statement, history, values)?;
        }
        Ok(Kept::if_so(!rows.is_empty()).into())
    }

    fn change(&mut self, session: &mut Session, change: &Change) -> Result<Kept, Failure> {
        let values: Values<'_> = &[
            (&change.name.as_str(), Type::TEXT),
            (&change.from, Type::TEXT),
            (&change.to, Type::TEXT),
            (&Interval(change.left), Type::INTERVAL),
        ];
        self.holds(session, &CHANGE, values).map(Kept::if_so)
    }

    fn forget(&mut self, session: &mut Session, removal: &Removal, history: History) -> Result<Forgotten, Failure> {
        let values: Values<'_> = &[(&removal.name.as_str(), Type::TEXT), (&removal.seen, Type::TEXT)];
        let rows = self.query(session, &FORGET, history, values)?;
        let row = rows.first().map(|row| execute::cells(row, 0));
        let number = |column| row.as_ref().and_then(|row| row.number(column)).unwrap_or_default();
        Ok(match (number(0), number(1)) {
            (0, 1) => Forgotten::InUse,
            (lock, _) => Forgotten::Gone { lock: lock == 1, runs: number(2).try_into().unwrap_or_default() },
        })
    }

    fn locks(&mut self, session: &mut Session, names: &[&str], take: Take<'_>) -> Result<Timestamp, Failure> {
        let names = (!names.is_empty()).then_some(names);
        self.look(session, &LIST, &[(&names, Type::TEXT_ARRAY)], take)
    }

    fn runs(&mut self, session: &mut Session, wanted: &Wanted, take: Take<'_>) -> Result<Timestamp, Failure> {
        let names = (!wanted.names.is_empty()).then_some(&wanted.names);
        let since = wanted.since.map(|since| i64::try_from(since.0).unwrap_or(i64::MAX));
        let (of_each, limit) = (wanted.of_each.map(i64::from), wanted.limit.map(i64::from));
        let values: Values<'_> =
            &[(&names, Type::TEXT_ARRAY), (&since, Type::INT8), (&of_each, Type::INT8), (&limit, Type::INT8)];
        let statement = if of_each.is_some() { &RUNS_OF_EACH } else { &RUNS };
        self.look(session, statement, values, take)
    }

    fn create(&mut self, session: &mut Session, table: Table) -> Result<bool, Failure> {
        let limit = self.limit(session);
        match session.execute(&self.tables.create(table), limit) {
            Ok(()) => Ok(true),
            Err(failure) if errors::MADE_ALREADY.iter().any(|code| errors::is(&failure, code)) => Ok(false),
            Err(failure) => Err(self.sort(session, failure)),
        }
    }

    fn elsewhere(&mut self, session: &mut Session, table: Table) -> Result<Vec<String>, Failure> {
        let places = self.place(session)?;
        let bare = self.tables.bare(table);
        // A table that is now where it was missing is no error: another process created it.
        let is_there = match self.tables.are_placed() {
            true => places.all(&bare).any(|found| found.eq_ignore_ascii_case(self.tables.name(table))),
            false => places.of(&bare).is_some(),
        };
        Ok(places.all(&bare).filter(|_| !is_there).collect())
    }

    fn no_place(&self, table: Table, failure: &Failure) -> Option<BackendError> {
        if let Failure::Ours(error) = failure {
            return Some(error.clone());
        }
        let (name, create) = (self.tables.name(table), self.tables.create(table));
        let (schema, _) = name.split_once('.').filter(|_| errors::is(failure, errors::NO_SCHEMA))?;
        Some(BackendError::permanent(format!("there is no schema {schema} for the table {name}")).hint(format!(
            "check ?table= in the URL, or ask the database's owner to run: CREATE SCHEMA {schema}; {create}"
        )))
    }

    fn amend(&mut self, session: &mut Session, table: Table) -> Result<Option<String>, Failure> {
        if table == Table::Runs { self.advance(session) } else { Ok(None) }
    }

    fn is_there(&mut self, session: &mut Session, table: Table) -> Result<bool, Failure> {
        // Settles which schemas the table names mean.
        self.look(session, &NOW, &[], &mut |_| {})?;
        let name = self.name(table);
        self.holds(session, &TABLE_IS_THERE, &[(&name, Type::TEXT)])
    }
}

#[cfg(test)]
mod ids;
#[cfg(test)]
mod operating;

#[cfg(test)]
mod tests {
    crate::backend::conformance::conformance!(servers::stores::PostgresStore::new);

    #[test]
    fn a_server_whose_clock_was_ahead_has_forgotten_it_soon() {
        let server = servers::Postgres::with_moving_clock();
        let store = servers::stores::PostgresStore(server.database());
        let set = |offset: &str| server.set_clock(offset);
        crate::backend::conformance::a_server_whose_clock_was_ahead_has_forgotten_it_soon(&store, &set);
    }

    #[test]
    fn a_time_zone_is_no_clock_that_was_ahead() {
        crate::backend::conformance::a_time_zone_is_no_clock_that_was_ahead(&servers::stores::PostgresStore::new());
    }

    #[test]
    fn every_run_of_a_long_history_is_listed() {
        crate::backend::conformance::every_run_of_a_long_history_is_listed(&servers::stores::PostgresStore::new());
    }

    #[test]
    fn a_taking_that_was_given_up_takes_nothing() {
        let store = || servers::stores::PostgresStore::new();
        crate::backend::conformance::a_taking_that_comes_after_it_was_given_back_takes_nothing(&store());
        crate::backend::conformance::a_taking_beside_its_giving_back_takes_nothing(&store());
    }

    #[test]
    fn taking_again_shortens_nothing() {
        crate::backend::conformance::taking_again_shortens_nothing(&servers::stores::PostgresStore::new());
    }
}
