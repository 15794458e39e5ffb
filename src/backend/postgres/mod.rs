//! Locks in a PostgreSQL table, the Java library's.
//!
//! Every operation is one statement in one message: it is not prepared first, which would cost another round trip and
//! would not survive PgBouncer. The columns may be `timestamp` or `timestamptz`: comparisons go by the epoch, which is
//! the same for both, and for what is written the statement sets the time zone to UTC for its own transaction. Their
//! common table expression is there for that alone; it is evaluated before the first row is written.

mod connect;
mod passfile;
mod trouble;

use std::time::Duration;

use postgres::types::{ToSql, Type};
use postgres::{Client, Row};

use super::tls::Tls;
use super::{Access, Acquired, Backend, Kept, Pace, Trouble, TroubleKind, Url};
use crate::clock::Timestamp;
use crate::lock::{Claim, Grant, Record};
use connect::Servers;

const UTC: &str = "zone AS MATERIALIZED (SELECT set_config('TimeZone', 'UTC', true))";

/// The server's time when the statement began.
const NOW: &str = "timezone('utc', CURRENT_TIMESTAMP)";

const HELD: &str = "extract(epoch FROM lock.lock_until) > extract(epoch FROM CURRENT_TIMESTAMP)";

/// Looks first: a skip then neither writes nor waits for a row that another is writing. `$1` name, `$2` owner, `$3` lease
/// in milliseconds. No row at all means that another was quicker between the look and the taking.
const ACQUIRE: &str = "WITH {utc}, \
    seen AS MATERIALIZED (SELECT locked_by::text AS locked_by, {ms:locked_at} AS since, {ms:lock_until} AS until, \
            {left} AS rest FROM {table} AS lock WHERE name = $1 AND locked_by <> $2 AND {held}), \
    taken AS (INSERT INTO {table} AS lock (name, lock_until, locked_at, locked_by) \
              SELECT $1, {now} + $3 * interval '1 millisecond', {now}, $2 FROM zone WHERE NOT EXISTS (SELECT FROM seen) \
              ON CONFLICT (name) DO UPDATE SET lock_until = excluded.lock_until, locked_at = excluded.locked_at, \
                                               locked_by = excluded.locked_by \
              WHERE lock.locked_by = $2 OR NOT {held} \
              RETURNING {ms:locked_at} AS since, {ms:lock_until} AS until) \
    SELECT true, NULL, since, until, NULL FROM taken UNION ALL SELECT false, locked_by, since, until, rest FROM seen";

/// `$1` name, `$2` owner, `$3` lease in milliseconds.
const RENEW: &str = "WITH {utc} UPDATE {table} AS lock \
    SET lock_until = greatest(lock.lock_until, {now} + $3 * interval '1 millisecond') \
    FROM zone WHERE name = $1 AND locked_by = $2 AND {held} RETURNING true";

/// A release that is repeated finds its own mark, and changes nothing. A lock stays held no longer than hold from now on,
/// since the server's clock may have been set back after the taking. `$1` name, `$2` owner, `$3` hold in milliseconds,
/// `$4` the owner as ended.
const RELEASE: &str = "WITH {utc} UPDATE {table} AS lock \
    SET locked_by = $4, \
        lock_until = CASE WHEN locked_by = $4 THEN lock.lock_until \
                     ELSE greatest({now}, least(lock.locked_at, {now}) + $3 * interval '1 millisecond') END \
    FROM zone WHERE name = $1 AND (locked_by = $4 OR locked_by = $2 AND {held}) RETURNING true";

const CREATE: &str = "CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(64) NOT NULL PRIMARY KEY, \
    lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL)";

/// Milliseconds since the epoch, in whole, of a column that may also say `infinity`.
const MILLIS: &str = "CASE WHEN isfinite(lock.{column}) THEN floor(extract(epoch FROM lock.{column}) * 1000)::int8 END";

const LEFT: &str = "CASE WHEN isfinite(lock.lock_until) THEN \
    ceil((extract(epoch FROM lock.lock_until) - extract(epoch FROM CURRENT_TIMESTAMP)) * 1000)::int8 END";

/// How often a taking may find the lock free and then taken before that counts as trouble.
const RACES: usize = 10;

/// How long a lock stays held that has no end.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Locks in a PostgreSQL table.
pub(crate) struct Postgres {
    servers: Servers,
    address: String,
    table: String,
    client: Option<Client>,
}

impl Postgres {
    /// Checks `postgres://USER@HOST/DATABASE`, without reaching for the server.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Box<dyn Backend>, String> {
        let servers = Servers::of_url(url, access)?;
        let table = url.take_table()?;
        url.nothing_left(&[&["table"][..], &Servers::PARAMETERS, &Tls::PARAMETERS].concat())?;
        Ok(Box::new(Self { servers, address: url.public(), table, client: None }))
    }

    /// Asks, on a connection that is open or is opened; a server that cannot be written is passed over, and the table is
    /// made where it is missing.
    fn ask(&mut self, statement: &str, values: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>, Trouble> {
        let statement = self.fill(statement);
        for _ in 1..self.servers.count() {
            match self.ask_one(&statement, values)? {
                Err(error) if trouble::is_read_only(&error) => {
                    self.client = None;
                    self.servers.pass_over();
                }
                answer => return answer.map_err(|error| self.explain(&error)),
            }
        }
        self.ask_one(&statement, values)?.map_err(|error| {
            if trouble::is_read_only(&error) {
                self.client = None;
                self.servers.pass_over();
            }
            self.explain(&error)
        })
    }

    /// Asks the server that we are connected to. The outer error says that there is none.
    fn ask_one(
        &mut self,
        statement: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Result<Vec<Row>, postgres::Error>, Trouble> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => self.servers.connect()?,
        };
        let mut answer = client.query_typed(statement, values);
        if answer.as_ref().is_err_and(|error| error.code() == Some(&postgres::error::SqlState::UNDEFINED_TABLE)) {
            self.create(&mut client)?;
            answer = client.query_typed(statement, values);
        }
        // A connection on which the server answered is as good as before.
        if answer.as_ref().err().is_none_or(|error| error.as_db_error().is_some()) && !client.is_closed() {
            self.client = Some(client);
        }
        Ok(answer)
    }

    fn create(&self, client: &mut Client) -> Result<(), Trouble> {
        let statement = self.fill(CREATE);
        match client.batch_execute(&statement) {
            Ok(()) => Ok(()),
            // Another process makes it at the same time.
            Err(error) if error.code().is_some_and(|code| ["23505", "42P07", "42710"].contains(&code.code())) => Ok(()),
            Err(error) => {
                let trouble = self.explain(&error);
                let label = self.servers.label();
                Err(match trouble.kind {
                    TroubleKind::Lasting => Trouble::lasting(format!(
                        "{label}: there is no table {}, and it cannot be made: {}",
                        self.table,
                        error.as_db_error().map_or_else(|| error.to_string(), |answer| answer.message().to_owned())
                    ))
                    .hint(format!("have somebody who may run: {statement}")),
                    // Nothing was asked for yet.
                    _ => Trouble { unclear: false, ..trouble },
                })
            }
        }
    }

    fn fill(&self, statement: &str) -> String {
        statement
            .replace("{utc}", UTC)
            .replace("{ms:locked_at}", &MILLIS.replace("{column}", "locked_at"))
            .replace("{ms:lock_until}", &MILLIS.replace("{column}", "lock_until"))
            .replace("{left}", LEFT)
            .replace("{held}", HELD)
            .replace("{now}", NOW)
            .replace("{table}", &self.table)
    }

    fn explain(&self, error: &postgres::Error) -> Trouble {
        trouble::of_asking(self.servers.label(), self.servers.user(), error)
    }
}

impl Backend for Postgres {
    fn acquire(&mut self, claim: &Claim) -> Result<Acquired, Trouble> {
        let lease = millis(claim.lease);
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(&claim.name.as_str(), Type::TEXT), (&claim.owner.as_str(), Type::TEXT), (&lease, Type::INT8)];
        for _ in 0..RACES {
            let rows = self.ask(ACQUIRE, &values)?;
            if let Some(row) = rows.first() {
                return read(row).map_err(|error| self.explain(&error));
            }
        }
        Err(Trouble::passing(format!("{}: others were quicker each time", self.servers.label())))
    }

    fn renew(&mut self, claim: &Claim) -> Result<Kept, Trouble> {
        let lease = millis(claim.lease);
        let rows = self.ask(
            RENEW,
            &[(&claim.name.as_str(), Type::TEXT), (&claim.owner.as_str(), Type::TEXT), (&lease, Type::INT8)],
        )?;
        Ok(kept(&rows))
    }

    fn release(&mut self, claim: &Claim, hold: Duration) -> Result<Kept, Trouble> {
        let hold = millis(hold);
        let rows = self.ask(
            RELEASE,
            &[
                (&claim.name.as_str(), Type::TEXT),
                (&claim.owner.as_str(), Type::TEXT),
                (&hold, Type::INT8),
                (&claim.owner.ended(), Type::TEXT),
            ],
        )?;
        Ok(kept(&rows))
    }

    fn disconnect(&mut self) {
        self.client = None;
    }

    fn pace(&self) -> Pace {
        // A connection costs the server a process, which takes it some milliseconds.
        Pace { first: Duration::from_millis(20), longest: Duration::from_millis(500) }
    }

    fn address(&self) -> &str {
        &self.address
    }
}

/// Reads the answer to [`ACQUIRE`].
fn read(row: &Row) -> Result<Acquired, postgres::Error> {
    let time = |index| {
        Ok(row.try_get::<_, Option<i64>>(index)?.map(|millis| Timestamp(millis.try_into().unwrap_or_default())))
    };
    let (since, until) = (time(2)?, time(3)?);
    if let (true, Some(locked_at), Some(until)) = (row.try_get(0)?, since, until) {
        return Ok(Acquired::Granted(Grant { locked_at, until }));
    }
    let left: Option<i64> = row.try_get(4)?;
    Ok(Acquired::Held(Record {
        owner: row.try_get(1)?,
        since,
        until,
        left: left.map_or(FOR_EVER, |left| Duration::from_millis(left.try_into().unwrap_or_default())),
    }))
}

/// In whole milliseconds, rounded up.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

fn kept(rows: &[Row]) -> Kept {
    if rows.is_empty() { Kept::Lost } else { Kept::Kept }
}

#[cfg(test)]
mod tests {
    crate::backend::conformance::conformance!(crate::servers::stores::PostgresStore::new);
}
