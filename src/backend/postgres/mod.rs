//! Locks in a PostgreSQL table, the Java library's.
//!
//! Every operation is one statement in one message: it is not prepared first, which would cost another round trip and
//! would not survive PgBouncer.

mod asking;
mod check;
mod connect;
mod operate;
mod passfile;
mod pid;
mod place;
mod session;
mod statements;
mod trouble;

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::history::History;
use super::tls::Tls;
use super::{Access, Acquired, Backend, FOR_EVER, Kept, Operate, Pace, Reply, Trouble, TroubleKind, Url};
use crate::clock::{Moment, Timestamp};
use crate::lock::{Claim, Closing, Grant, Locks, Purpose, Record};
use connect::Servers;
use session::{Failure, Session};
use statements::{ACQUIRE, DIGITS, DISCARD, GIVE_BACK, IN_THE_WAY, PAUSE, RELEASE, RENEW, Statement, Table, Tables};

/// How often a taking may find the lock free and then taken before that counts as trouble.
const RACES: usize = 10;

/// So much earlier than asked for may a lock end, in a column that keeps milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// So many digits of a second are milliseconds.
const MILLISECONDS: i32 = 3;

/// In microseconds: what a column without milliseconds keeps is a multiple of it.
const HUNDREDTH: u64 = 10_000;

/// The parameters of a statement, with their types.
type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// Locks in a PostgreSQL table.
pub(crate) struct Postgres {
    servers: Servers,
    address: String,
    tables: Tables,
    history: History,
    session: Option<Session>,
    /// How long to try, one try after the other.
    patience: Duration,
    /// When the first of the tries began that have failed since the last answer.
    begun: Option<Moment>,
}

impl Postgres {
    /// Checks `postgres://USER@HOST/DATABASE`, without reaching for the server.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Box<dyn Operate>, String> {
        let servers = Servers::of_url(url, access)?;
        let table = url.take_table()?;
        url.nothing_left(&[&["table"][..], &Servers::PARAMETERS, &Tls::PARAMETERS].concat())?;
        Ok(Box::new(Self {
            servers,
            address: url.public(),
            tables: Tables::new(table),
            history: History::default(),
            session: None,
            patience: access.patience,
            begun: None,
        }))
    }

    /// Judges the answer to a taking or a renewal: the lock has to stay ours until its end, which others have to see too.
    fn judge(&mut self, end: End, lease: Duration) -> Result<(), Trouble> {
        if self.session.as_ref().is_some_and(Session::is_unreplicated) {
            return Err(trouble::unreplicated(self.servers.label()));
        }
        let is_early = end.left + ROUNDING < lease;
        if !is_early && !end.is_round() {
            return Ok(());
        }
        // Either by chance, or because the column keeps no more.
        let rows = self.ask(&DIGITS, &[]).map_err(Trouble::unclear)?;
        let Some(row) = rows.first() else { return Ok(()) };
        let is_coarse = matches!(row.try_get(0), Ok(0..MILLISECONDS)) || matches!(row.try_get(1), Ok(true));
        match (is_coarse, is_early) {
            (true, _) => Err(self.too_coarse()),
            (false, true) => Err(self.too_early()),
            (false, false) => Ok(()),
        }
    }

    /// The lock would be free before the job is dead. It was taken, and is to be given back.
    fn too_coarse(&self) -> Trouble {
        let message = "keeps no milliseconds, and a lock would end before its time";
        Trouble::lasting(format!("{}: the table {} {message}", self.servers.label(), self.tables.name(Table::Locks)))
            .hint("make its columns lock_until and locked_at TIMESTAMP, without a precision")
            .unclear()
    }

    /// As too coarse, and the column is not to blame.
    fn too_early(&self) -> Trouble {
        let (label, table) = (self.servers.label(), self.tables.name(Table::Locks));
        Trouble::lasting(format!("{label}: the table {table} stores an earlier end of the lock than it was given"))
            .hint(format!("look at its triggers and rules: psql -c '\\d {table}'"))
            .unclear()
    }

    /// Asks for a renewal or a release. That its row was still ours and nothing was changed is no loss of the lock. It may be
    /// that another changed it just then, which shows when it is asked again.
    fn change_ours(&mut self, statement: &Statement, values: Values<'_>) -> Result<Vec<Row>, Trouble> {
        let is_kept_back = |row: &Row| matches!(row.try_get(0), Ok(false));
        let mut rows = self.ask(statement, values)?;
        if rows.first().is_some_and(is_kept_back) {
            rows = self.ask(statement, values)?;
        }
        if rows.first().is_some_and(is_kept_back) { Err(self.kept_back()) } else { Ok(rows) }
    }

    /// The server took the statement and left our row as it was.
    fn kept_back(&self) -> Trouble {
        let (label, table) = (self.servers.label(), self.tables.name(Table::Locks));
        Trouble::lasting(format!("{label}: the table {table} does not let the row of the lock be changed"))
            .hint(format!("look at its row security, triggers and rules: psql -c '\\d {table}'"))
    }

    /// The table has no place for this name beside one that it takes for the same.
    fn spelt_otherwise(&self, name: &str, stored: &str) -> Trouble {
        let (label, table) = (self.servers.label(), self.tables.name(Table::Locks));
        Trouble::lasting(format!("{label}: the column name of {table} takes {name} and {stored} for one lock"))
            .hint(format!("say {stored}, or run: ALTER TABLE {table} ALTER COLUMN name TYPE VARCHAR(64)"))
    }

    fn explain(&self, failure: &Failure) -> Trouble {
        let table = match failure {
            Failure::Locked { place, .. } => self.tables.missing(place),
            _ => Table::Locks,
        };
        trouble::of_asking(self.servers.label(), self.servers.user(), self.tables.name(table), failure)
    }
}

impl Backend for Postgres {
    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, Trouble> {
        let lease = Interval(claim.lease);
        let values: Values<'_> = &[
            (&claim.name.as_str(), Type::TEXT),
            (&claim.owner.as_str(), Type::TEXT),
            (&lease, Type::INTERVAL),
            (&claim.owner.host(), Type::TEXT),
        ];
        for _ in 0..RACES {
            let rows = self.ask(if claim.purpose == Purpose::Pause { &PAUSE } else { &ACQUIRE }, values)?;
            if let Some(row) = rows.first() {
                let (acquired, end) = read(row).map_err(|error| self.explain(&Failure::Said(error)))?;
                if matches!(acquired, Acquired::Granted(_)) {
                    self.judge(end, claim.lease)?;
                }
                return Ok(Reply { answer: acquired, remark: self.history.remark(claim.purpose) });
            }
        }
        let rows = self.ask(&IN_THE_WAY, &values[..1])?;
        Err(match rows.first().map(|row| (row.try_get::<_, String>(0), row.try_get(1))) {
            Some((Ok(stored), Ok(false))) => self.spelt_otherwise(claim.name.as_str(), &stored),
            // By chance it may have become free just now.
            Some(_) => Trouble { kind: TroubleKind::Passing, ..self.kept_back() },
            None => Trouble::passing(format!("{}: others were quicker each time", self.servers.label())),
        })
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<Kept>, Trouble> {
        let lease = Interval(claim.lease);
        let rows = self.change_ours(
            &RENEW,
            &[(&claim.name.as_str(), Type::TEXT), (&claim.owner.as_str(), Type::TEXT), (&lease, Type::INTERVAL)],
        )?;
        if let Some(row) = rows.first() {
            let end = ending(row, 1).map_err(|error| self.explain(&Failure::Said(error)))?;
            self.judge(end, claim.lease)?;
        }
        Ok(kept(&rows).into())
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, Trouble> {
        let hold = Interval(hold);
        let (exit_code, outcome) = match closing {
            Closing::Ended { verdict, exit_code } => (exit_code.map(i32::from), Some(verdict.as_str())),
            Closing::Unused | Closing::GivenUp => (None, None),
        };
        let ended = claim.owner.ended();
        // The newest stays with every backend, since some count on from it.
        let keep = i64::from(claim.keep.max(1));
        let values: Values<'_> = &[
            (&claim.name.as_str(), Type::TEXT),
            (&claim.owner.as_str(), Type::TEXT),
            (&hold, Type::INTERVAL),
            (&ended, Type::TEXT),
            (&exit_code, Type::INT4),
            (&outcome, Type::TEXT),
            (&keep, Type::INT8),
        ];
        let statement = match closing {
            Closing::Ended { .. } => &RELEASE,
            Closing::Unused => &DISCARD,
            Closing::GivenUp if kept(&self.change_ours(&GIVE_BACK, values)?) == Kept::Kept => {
                return Ok(Kept::Kept.into());
            }
            Closing::GivenUp => &GIVE_BACK,
        };
        let rows = self.change_ours(statement, values)?;
        Ok(Reply { answer: kept(&rows), remark: self.history.remark(claim.purpose) })
    }

    fn disconnect(&mut self) {
        if let Some(session) = self.session.take() {
            session.close();
        }
    }

    fn locks(&mut self, names: &[&str]) -> Result<Locks, Trouble> {
        self.list(names)
    }

    fn pace(&self) -> Pace {
        // A connection costs the server a process, which takes it some milliseconds.
        Pace { first: Duration::from_millis(20), longest: Duration::from_millis(500) }
    }

    fn address(&self) -> &str {
        &self.address
    }
}

/// When a lock ends, as it is stored.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Microseconds of the epoch.
    at: u64,
    left: Duration,
}

impl End {
    /// A column without milliseconds could hold it.
    fn is_round(&self) -> bool {
        self.at.is_multiple_of(HUNDREDTH)
    }
}

/// Reads an end, and after it the time.
fn ending(row: &Row, at: usize) -> Result<End, tokio_postgres::Error> {
    let (until, now): (f64, f64) = (row.try_get(at)?, row.try_get(at + 1)?);
    Ok(End { at: micros(until), left: left(until, now) })
}

/// Reads the answer to [`ACQUIRE`], and when the lock ends.
fn read(row: &Row) -> Result<(Acquired, End), tokio_postgres::Error> {
    let (since, until): (f64, f64) = (row.try_get(2)?, row.try_get(3)?);
    let end = ending(row, 3)?;
    if let (true, Some(locked_at), Some(until)) = (row.try_get(0)?, time(since), time(until)) {
        let token = row.try_get::<_, Option<i64>>(5)?.and_then(|id| id.try_into().ok());
        return Ok((Acquired::Granted(Grant { locked_at, until, token }), end));
    }
    let record = Record { owner: row.try_get(1)?, since: time(since), until: time(until), left: end.left };
    Ok((Acquired::Held(record), end))
}

/// A time of the server, which may have none: `infinity` is not one.
fn time(epoch: f64) -> Option<Timestamp> {
    epoch.is_finite().then(|| Timestamp(micros(epoch) / 1000))
}

/// For how long a lock is held, if it is.
fn left(until: f64, now: f64) -> Duration {
    if until.is_finite() { Duration::from_micros(micros(until - now)) } else { FOR_EVER }
}

/// Whole microseconds, which is what the server counts in, of its seconds; none of what is negative.
fn micros(seconds: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it ends at the largest number")]
    let micros = (seconds * 1e6).round() as u64;
    micros
}

/// A duration as a parameter.
#[derive(Debug)]
struct Interval(Duration);

impl ToSql for Interval {
    /// Microseconds, days and months.
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_i64(i64::try_from(self.0.as_nanos().div_ceil(1000))?);
        out.put_i64(0);
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::INTERVAL
    }

    to_sql_checked!();
}

fn kept(rows: &[Row]) -> Kept {
    if rows.is_empty() { Kept::Lost } else { Kept::Kept }
}

#[cfg(test)]
mod tests {
    crate::backend::conformance::conformance!(crate::servers::stores::PostgresStore::new);

    #[test]
    fn a_taking_that_was_given_up_takes_nothing() {
        let store = || crate::servers::stores::PostgresStore::new();
        crate::backend::conformance::a_taking_that_comes_after_it_was_given_back_takes_nothing(&store());
        crate::backend::conformance::a_taking_beside_its_giving_back_takes_nothing(&store());
    }

    #[test]
    fn taking_again_shortens_nothing() {
        crate::backend::conformance::taking_again_shortens_nothing(&crate::servers::stores::PostgresStore::new());
    }
}
