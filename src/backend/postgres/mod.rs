//! Locks in a PostgreSQL table, the Java library's.
//!
//! Every operation is one statement in one message: it is not prepared first, which would cost another round trip and
//! would not survive PgBouncer.

mod check;
mod connect;
mod operate;
mod passfile;
mod session;
mod statements;
mod trouble;

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::history::History;
use super::tls::Tls;
use super::{Access, Acquired, Backend, FOR_EVER, Kept, Operate, Pace, Trouble, TroubleKind, Url};
use crate::clock::{Moment, Timestamp};
use crate::lock::{Claim, Closing, Grant, Locks, Record};
use connect::Servers;
use session::{Failure, Session};
use statements::{ACQUIRE, RELEASE, RENEW, Statement, Table, Tables};

/// How often a taking may find the lock free and then taken before that counts as trouble.
const RACES: usize = 10;

/// A statement is given no less than this.
const SHORTEST: Duration = Duration::from_secs(1);

/// So much earlier than asked for may a lock end, in a column that keeps milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// How many tables may be missing.
const TABLES: usize = 2;

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

    /// Asks, on a connection that is open or is opened; a server that cannot be written is passed over, and the tables are
    /// made where they are missing.
    fn ask(&mut self, statement: &Statement, values: Values<'_>) -> Result<Vec<Row>, Trouble> {
        for _ in 1..self.servers.count() {
            match self.ask_one(statement, values)? {
                Err(failure) if trouble::is_read_only(&failure) => {
                    self.session = None;
                    self.servers.pass_over();
                }
                answer => return answer.map_err(|failure| self.explain(&failure)),
            }
        }
        self.ask_one(statement, values)?.map_err(|failure| {
            if trouble::is_read_only(&failure) {
                self.session = None;
                self.servers.pass_over();
            }
            self.explain(&failure)
        })
    }

    /// Asks the server that we are connected to. The outer error says that there is none.
    fn ask_one(&mut self, statement: &Statement, values: Values<'_>) -> Result<Result<Vec<Row>, Failure>, Trouble> {
        let now = Moment::now();
        if self.begun.is_none_or(|begun| now.since(begun) >= self.patience) {
            self.begun = Some(now);
        }
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.servers.connect()?,
        };
        let answer = self.ask_with_tables(&mut session, statement, values)?;
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
    ) -> Result<Result<Vec<Row>, Failure>, Trouble> {
        let limit = self.time_left();
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
                self.create(session, self.tables.missing(&trouble::said(&failure)), limit)?
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

    /// Makes a table. A server that cannot be written is no place for it, and that is not the last word. Without the table of
    /// locks there is no lock; without that of runs there is no history.
    fn create(&mut self, session: &mut Session, table: Table, limit: Duration) -> Result<Result<(), Failure>, Trouble> {
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
        let refusal = Trouble::lasting(format!("{label}: there is no table {name}, and it cannot be made: {said}"))
            .hint(format!("have somebody who may run: {statement}"));
        match table {
            Table::Locks => Err(refusal),
            Table::Runs => {
                self.history.bar(refusal);
                Ok(Ok(()))
            }
        }
    }

    /// Does without the history, whose table is there and cannot be used.
    fn bar_history(&mut self, failure: &Failure) {
        let (label, table) = (self.servers.label(), self.tables.name(Table::Runs));
        let message = format!("{label}: the table {table} cannot be used: {}", trouble::said(failure));
        let hint = match trouble::is_forbidden(failure) {
            true => format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {}", self.servers.user()),
            false => format!("rename it, and have made instead: {}", self.tables.create(Table::Runs)),
        };
        self.history.bar(Trouble::lasting(message).hint(hint));
    }

    /// The lock would be free before the job is dead. It was taken, and is to be given back.
    fn too_coarse(&self) -> Trouble {
        let message = "keeps no milliseconds, and a lock would end before its time";
        Trouble::lasting(format!("{}: the table {} {message}", self.servers.label(), self.tables.name(Table::Locks)))
            .hint("make its columns lock_until and locked_at TIMESTAMP, without a precision")
            .unclear()
    }

    fn explain(&self, failure: &Failure) -> Trouble {
        trouble::of_asking(self.servers.label(), self.servers.user(), self.tables.name(Table::Locks), failure)
    }
}

impl Backend for Postgres {
    fn acquire(&mut self, claim: &Claim) -> Result<Acquired, Trouble> {
        let lease = Interval(claim.lease);
        let values: Values<'_> = &[
            (&claim.name.as_str(), Type::TEXT),
            (&claim.owner.as_str(), Type::TEXT),
            (&lease, Type::INTERVAL),
            (&claim.owner.host(), Type::TEXT),
        ];
        for _ in 0..RACES {
            let rows = self.ask(&ACQUIRE, values)?;
            if let Some(row) = rows.first() {
                let (acquired, left) = read(row).map_err(|error| self.explain(&Failure::Said(error)))?;
                if matches!(acquired, Acquired::Granted(_)) && left + ROUNDING < claim.lease {
                    return Err(self.too_coarse());
                }
                return Ok(acquired);
            }
        }
        Err(Trouble::passing(format!("{}: others were quicker each time", self.servers.label())))
    }

    fn renew(&mut self, claim: &Claim) -> Result<Kept, Trouble> {
        let lease = Interval(claim.lease);
        let rows = self.ask(
            &RENEW,
            &[(&claim.name.as_str(), Type::TEXT), (&claim.owner.as_str(), Type::TEXT), (&lease, Type::INTERVAL)],
        )?;
        Ok(kept(&rows))
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Kept, Trouble> {
        let hold = Interval(hold);
        let (exit_code, outcome) = match closing {
            Closing::Ended { verdict, exit_code } => (exit_code.map(i32::from), Some(verdict.as_str())),
            Closing::Unused => (None, None),
        };
        let rows = self.ask(
            &RELEASE,
            &[
                (&claim.name.as_str(), Type::TEXT),
                (&claim.owner.as_str(), Type::TEXT),
                (&hold, Type::INTERVAL),
                (&claim.owner.ended(), Type::TEXT),
                (&exit_code, Type::INT4),
                (&outcome, Type::TEXT),
                // The newest stays with every backend, since some count on from it.
                (&i64::from(claim.keep.max(1)), Type::INT8),
            ],
        )?;
        Ok(kept(&rows))
    }

    fn unrecorded(&mut self) -> Option<Trouble> {
        self.history.take_reason()
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

/// Reads the answer to [`ACQUIRE`], and for how long the lock is held.
fn read(row: &Row) -> Result<(Acquired, Duration), tokio_postgres::Error> {
    let (since, until, now): (f64, f64, f64) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
    let time = |epoch: f64| epoch.is_finite().then(|| Timestamp(micros(epoch) / 1000));
    let left = if until.is_finite() { Duration::from_micros(micros(until - now)) } else { FOR_EVER };
    if let (true, Some(locked_at), Some(until)) = (row.try_get(0)?, time(since), time(until)) {
        let token = row.try_get::<_, Option<i64>>(5)?.and_then(|id| id.try_into().ok());
        return Ok((Acquired::Granted(Grant { locked_at, until, token }), left));
    }
    let record = Record { owner: row.try_get(1)?, since: time(since), until: time(until), left };
    Ok((Acquired::Held(record), left))
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
    fn taking_again_shortens_nothing() {
        crate::backend::conformance::taking_again_shortens_nothing(&crate::servers::stores::PostgresStore::new());
    }
}
