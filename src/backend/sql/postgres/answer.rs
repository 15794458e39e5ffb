//! Reads the server's answers to the operations on locks, and writes durations as parameters.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::backend::clock::min_clock_lead;
use crate::backend::sql::engine::{self, micros};
use crate::lock::{Acquired, ENDLESS};
use crate::lock::{Grant, LockState, Owner};
use crate::system::Timestamp;

/// Hundredth of a second, in microseconds. A column without milliseconds stores only multiples of it.
const HUNDREDTH_SECOND: u64 = 10_000;

/// Holds the stored end of a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredEnd {
    /// Microseconds since 1970.
    at: u64,
    pub(crate) left: Duration,
}

impl StoredEnd {
    /// Returns whether this end is earlier than another.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        self.at < other.at
    }

    /// Returns whether a column without milliseconds could store this end.
    pub(crate) fn is_round(&self) -> bool {
        self.at.is_multiple_of(HUNDREDTH_SECOND)
    }
}

/// Returns whether the table has triggers, by the answer to [`ACQUIRE`](super::run_statements::ACQUIRE).
pub(crate) fn has_triggers(row: &Row) -> Result<bool, tokio_postgres::Error> {
    Ok(row.try_get::<_, Option<bool>>(6)?.unwrap_or_default())
}

/// Reads a lock's end from a column, and the server's time from the next one.
pub(crate) fn read_end(row: &Row, at: usize) -> Result<StoredEnd, tokio_postgres::Error> {
    let (until, now): (f64, f64) = (row.try_get(at)?, row.try_get(at + 1)?);
    Ok(StoredEnd { at: micros(until), left: left(until, now) })
}

/// Reads the answer to [`ACQUIRE`](super::run_statements::ACQUIRE), and the lock's end.
pub(crate) fn read_acquired(row: &Row) -> Result<(Acquired, StoredEnd), tokio_postgres::Error> {
    let (since, until): (f64, f64) = (row.try_get(2)?, row.try_get(3)?);
    let end = read_end(row, 3)?;
    if let (true, Some(locked_at), Some(until)) = (row.try_get(0)?, time(since), time(until)) {
        let token = row.try_get::<_, Option<i64>>(5)?.and_then(|id| id.try_into().ok());
        return Ok((Acquired::Granted(Grant { locked_at, until, token }), end));
    }
    let record = LockState { owner: row.try_get(1)?, since: time(since), until: time(until), left: end.left };
    Ok((Acquired::Held(record), end))
}

/// Returns whether the answer to [`ACQUIRE`](super::run_statements::ACQUIRE) is a lock that was acquired while the server's
/// clock was ahead, and is to be moved.
pub(crate) fn is_ahead(row: &Row) -> Result<bool, tokio_postgres::Error> {
    let (since, until, now): (f64, f64, f64) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
    let (owner, ahead): (&str, f64) = (row.try_get(1)?, since - now);
    Ok(ahead > min_clock_lead(owner).as_secs_f64() && (ahead > until - since || owner.ends_with(Owner::ENDED_SUFFIX)))
}

/// Converts a time of the server; `None` for `infinity`.
fn time(epoch: f64) -> Option<Timestamp> {
    epoch.is_finite().then(|| Timestamp(micros(epoch) / 1000))
}

/// Returns how long the lock stays held; zero once its end has passed.
fn left(until: f64, now: f64) -> Duration {
    if until.is_finite() { Duration::from_micros(micros(until - now)) } else { ENDLESS }
}

/// Reads the values of a row from a column on. People may have created the table: a value of another type reads as
/// none.
pub(crate) fn read_cells(row: &Row, from: usize) -> engine::Row {
    fn value<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Option<T> {
        row.try_get::<_, Option<T>>(column).ok().flatten()
    }
    let cell = |column: usize| match *row.columns()[column].type_() {
        Type::BOOL => value::<bool>(row, column).map(|is| engine::Cell::Number(is.into())),
        Type::INT8 => value(row, column).map(engine::Cell::Number),
        Type::FLOAT8 => value(row, column).map(engine::Cell::Seconds),
        _ => value(row, column).map(engine::Cell::Text),
    };
    engine::Row((from..row.len()).map(|column| cell(column).unwrap_or(engine::Cell::Null)).collect())
}

/// Writes a duration as a parameter.
#[derive(Debug)]
pub(crate) struct Interval(pub(crate) Duration);

impl ToSql for Interval {
    /// Writes microseconds, then days and months.
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
