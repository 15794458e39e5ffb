//! Locks in a PostgreSQL table, the Java library's.
//!
//! Every operation is one statement in one message: it is not prepared first, which would cost another round trip and
//! would not survive PgBouncer. The columns may be `timestamp` or `timestamptz`: what is compared and returned goes by the
//! epoch, which is the same for both, and for what is written the statement sets the time zone to UTC for its own
//! transaction. Its common table expression is there for that alone; it is evaluated before the first row is written.
//!
//! The statements know few functions: a new server process looks up each one that it meets, and most of the time that a
//! taking takes is spent there.

mod connect;
mod passfile;
mod session;
mod trouble;

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::tls::Tls;
use super::{Access, Acquired, Backend, FOR_EVER, Kept, Pace, Trouble, TroubleKind, Url};
use crate::clock::{Moment, Timestamp};
use crate::lock::{Claim, Closing, Grant, Record};
use connect::Servers;
use session::{Failure, Session};

/// Beside the zone it limits the wait for a row that another is writing to what a run that is told to stop waits for its
/// last answer: a statement that nobody waits for would take the lock for nobody.
const UTC: &str =
    "zone AS MATERIALIZED (SELECT set_config('TimeZone', 'UTC', true), set_config('lock_timeout', '900ms', true))";

/// The server's time is that when the statement began.
const HELD: &str = "date_part('epoch', lock.lock_until) > date_part('epoch', CURRENT_TIMESTAMP)";

/// Looks first: a skip then neither writes nor waits for a row that another is writing. `$1` name, `$2` owner, `$3` lease.
/// No row at all means that another was quicker between the look and the taking.
const ACQUIRE: &str = "WITH {utc}, \
    seen AS MATERIALIZED (SELECT locked_by, locked_at, lock_until FROM {table} AS lock \
                          WHERE name = $1 AND locked_by <> $2 AND {held}), \
    taken AS (INSERT INTO {table} AS lock (name, lock_until, locked_at, locked_by) \
              SELECT $1, CURRENT_TIMESTAMP + $3, CURRENT_TIMESTAMP, $2 FROM zone WHERE NOT EXISTS (SELECT FROM seen) \
              ON CONFLICT (name) DO UPDATE SET lock_until = excluded.lock_until, locked_at = excluded.locked_at, \
                                               locked_by = excluded.locked_by \
              WHERE lock.locked_by = $2 OR NOT {held} \
              RETURNING locked_by, locked_at, lock_until) \
    SELECT granted, locked_by, date_part('epoch', locked_at), date_part('epoch', lock_until), \
           date_part('epoch', CURRENT_TIMESTAMP) \
    FROM (SELECT true AS granted, * FROM taken UNION ALL SELECT false, * FROM seen) AS answer";

/// `$1` name, `$2` owner, `$3` lease.
const RENEW: &str = "WITH {utc} UPDATE {table} AS lock SET lock_until = greatest(lock.lock_until, CURRENT_TIMESTAMP + $3) \
    FROM zone WHERE name = $1 AND locked_by = $2 AND {held} RETURNING true";

/// A release that is repeated finds its own mark, and changes nothing. A lock stays held no longer than hold from now on,
/// since the server's clock may have been set back after the taking. `$1` name, `$2` owner, `$3` hold, `$4` the owner as
/// ended.
const RELEASE: &str = "WITH {utc} UPDATE {table} AS lock \
    SET locked_by = $4, \
        lock_until = CASE WHEN locked_by = $4 THEN lock.lock_until \
                     ELSE greatest(CURRENT_TIMESTAMP, least(lock.locked_at, CURRENT_TIMESTAMP) + $3) END \
    FROM zone WHERE name = $1 AND (locked_by = $4 OR locked_by = $2 AND {held}) RETURNING true";

const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(64) NOT NULL PRIMARY KEY, \
    lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL)";

/// How often a taking may find the lock free and then taken before that counts as trouble.
const RACES: usize = 10;

/// A statement is given no less than this.
const SHORTEST: Duration = Duration::from_secs(1);

/// So much earlier than asked for may a lock end, in a column that keeps milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// Locks in a PostgreSQL table.
pub(crate) struct Postgres {
    servers: Servers,
    address: String,
    table: String,
    session: Option<Session>,
    /// How long to try, one try after the other.
    patience: Duration,
    /// When the first of the tries began that have failed since the last answer.
    begun: Option<Moment>,
}

impl Postgres {
    /// Checks `postgres://USER@HOST/DATABASE`, without reaching for the server.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Box<dyn Backend>, String> {
        let servers = Servers::of_url(url, access)?;
        let table = url.take_table()?;
        url.nothing_left(&[&["table"][..], &Servers::PARAMETERS, &Tls::PARAMETERS].concat())?;
        Ok(Box::new(Self {
            servers,
            address: url.public(),
            table,
            session: None,
            patience: access.patience,
            begun: None,
        }))
    }

    /// Asks, on a connection that is open or is opened; a server that cannot be written is passed over, and the table is
    /// made where it is missing.
    fn ask(&mut self, statement: &str, values: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>, Trouble> {
        let statement = self.fill(statement);
        for _ in 1..self.servers.count() {
            match self.ask_one(&statement, values)? {
                Err(failure) if trouble::is_read_only(&failure) => {
                    self.session = None;
                    self.servers.pass_over();
                }
                answer => return answer.map_err(|failure| self.explain(&failure)),
            }
        }
        self.ask_one(&statement, values)?.map_err(|failure| {
            if trouble::is_read_only(&failure) {
                self.session = None;
                self.servers.pass_over();
            }
            self.explain(&failure)
        })
    }

    /// Asks the server that we are connected to. The outer error says that there is none.
    fn ask_one(
        &mut self,
        statement: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Result<Vec<Row>, Failure>, Trouble> {
        let now = Moment::now();
        if self.begun.is_none_or(|begun| now.since(begun) >= self.patience) {
            self.begun = Some(now);
        }
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.servers.connect()?,
        };
        let limit = self.time_left();
        let mut answer = session.query(statement, values, limit);
        if answer.as_ref().is_err_and(trouble::is_no_table) {
            answer = match self.create(&mut session, limit)? {
                Ok(()) => session.query(statement, values, limit),
                Err(failure) => Err(failure),
            };
        }
        if answer.is_ok() {
            self.begun = None;
        }
        // A connection on which the server answered is as good as before.
        let answered = match &answer {
            Ok(_) => true,
            Err(Failure::Said(error)) => error.as_db_error().is_some(),
            Err(Failure::Silence | Failure::Cancelled) => false,
        };
        if answered && !session.is_over() {
            self.session = Some(session);
        }
        Ok(answer)
    }

    /// How long the server may be busy with a statement: as long as somebody waits for the answer. Tries that have failed
    /// before have had their share of it.
    fn time_left(&self) -> Duration {
        let now = Moment::now();
        (self.begun.unwrap_or(now) + self.patience).since(now).max(SHORTEST)
    }

    /// Makes the table. A server that cannot be written is no place for it, and that is not the last word.
    fn create(&self, session: &mut Session, limit: Duration) -> Result<Result<(), Failure>, Trouble> {
        let statement = self.fill(CREATE);
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
        let (label, table, said) = (self.servers.label(), &self.table, trouble::said(&failure));
        Err(Trouble::lasting(format!("{label}: there is no table {table}, and it cannot be made: {said}"))
            .hint(format!("have somebody who may run: {statement}")))
    }

    fn fill(&self, statement: &str) -> String {
        statement.replace("{utc}", UTC).replace("{held}", HELD).replace("{table}", &self.table)
    }

    /// The lock would be free before the job is dead. It was taken, and is to be given back.
    fn too_coarse(&self) -> Trouble {
        let message = "keeps no milliseconds, and a lock would end before its time";
        Trouble::lasting(format!("{}: the table {} {message}", self.servers.label(), self.table))
            .hint("make its columns lock_until and locked_at TIMESTAMP, without a precision")
            .unclear()
    }

    fn explain(&self, failure: &Failure) -> Trouble {
        trouble::of_asking(self.servers.label(), self.servers.user(), &self.table, failure)
    }
}

impl Backend for Postgres {
    fn acquire(&mut self, claim: &Claim) -> Result<Acquired, Trouble> {
        let lease = Interval(claim.lease);
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(&claim.name.as_str(), Type::TEXT), (&claim.owner.as_str(), Type::TEXT), (&lease, Type::INTERVAL)];
        for _ in 0..RACES {
            let rows = self.ask(ACQUIRE, &values)?;
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
            RENEW,
            &[(&claim.name.as_str(), Type::TEXT), (&claim.owner.as_str(), Type::TEXT), (&lease, Type::INTERVAL)],
        )?;
        Ok(kept(&rows))
    }

    fn release(&mut self, claim: &Claim, hold: Duration, _: Closing) -> Result<Kept, Trouble> {
        let hold = Interval(hold);
        let rows = self.ask(
            RELEASE,
            &[
                (&claim.name.as_str(), Type::TEXT),
                (&claim.owner.as_str(), Type::TEXT),
                (&hold, Type::INTERVAL),
                (&claim.owner.ended(), Type::TEXT),
            ],
        )?;
        Ok(kept(&rows))
    }

    fn disconnect(&mut self) {
        if let Some(session) = self.session.take() {
            session.close();
        }
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
        return Ok((Acquired::Granted(Grant { locked_at, until, token: None }), left));
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
}
