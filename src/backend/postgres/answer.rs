//! Reads the server's answers to the operations on locks, and writes durations as parameters.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::super::sql::micros;
use crate::backend::{Acquired, FOR_EVER, ahead_of};
use crate::lock::{Grant, LockState, Owner};
use crate::system::Timestamp;

/// Hundredth of a second, in microseconds. A column without milliseconds stores only multiples of it.
const HUNDREDTH: u64 = 10_000;

/// The stored end of a lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// Microseconds since 1970.
    at: u64,
    pub(super) left: Duration,
}

impl End {
    /// Returns whether a column without milliseconds could store this end.
    pub(super) fn is_round(&self) -> bool {
        self.at.is_multiple_of(HUNDREDTH)
    }
}

/// Reads a lock's end from a column, and the server's time from the next one.
pub(super) fn ending(row: &Row, at: usize) -> Result<End, tokio_postgres::Error> {
    let (until, now): (f64, f64) = (row.try_get(at)?, row.try_get(at + 1)?);
    Ok(End { at: micros(until), left: left(until, now) })
}

/// Reads the answer to [`ACQUIRE`], and the lock's end.
pub(super) fn read(row: &Row) -> Result<(Acquired, End), tokio_postgres::Error> {
    let (since, until): (f64, f64) = (row.try_get(2)?, row.try_get(3)?);
    let end = ending(row, 3)?;
    if let (true, Some(locked_at), Some(until)) = (row.try_get(0)?, time(since), time(until)) {
        let token = row.try_get::<_, Option<i64>>(5)?.and_then(|id| id.try_into().ok());
        return Ok((Acquired::Granted(Grant { locked_at, until, token }), end));
    }
    let record = LockState { owner: row.try_get(1)?, since: time(since), until: time(until), left: end.left };
    Ok((Acquired::Held(record), end))
}

/// Returns whether the answer to [`ACQUIRE`] is a lock that was taken while the server's clock was ahead, and is to be moved.
pub(super) fn is_ahead(row: &Row) -> Result<bool, tokio_postgres::Error> {
    let (since, until, now): (f64, f64, f64) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
    let (owner, ahead): (&str, f64) = (row.try_get(1)?, since - now);
    Ok(ahead > ahead_of(owner).as_secs_f64() && (ahead > until - since || owner.ends_with(Owner::ENDED)))
}

/// Converts a time of the server; `None` for `infinity`.
fn time(epoch: f64) -> Option<Timestamp> {
    epoch.is_finite().then(|| Timestamp(micros(epoch) / 1000))
}

/// Returns how long the lock stays held; zero once its end has passed.
fn left(until: f64, now: f64) -> Duration {
    if until.is_finite() { Duration::from_micros(micros(until - now)) } else { FOR_EVER }
}

/// A duration as a parameter.
#[derive(Debug)]
pub(super) struct Interval(pub(super) Duration);

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
