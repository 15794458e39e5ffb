//! Values as the server reads them, and what it answers to an operation.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::super::sql::micros;
use crate::backend::{Acquired, FOR_EVER};
use crate::lock::{Grant, LockState};
use crate::system::Timestamp;

/// In microseconds: what a column without milliseconds keeps is a multiple of it.
const HUNDREDTH: u64 = 10_000;

/// The end of a lock, as it is stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// Microseconds of the epoch.
    at: u64,
    pub(super) left: Duration,
}

impl End {
    /// Tells whether a column without milliseconds could hold it.
    pub(super) fn is_round(&self) -> bool {
        self.at.is_multiple_of(HUNDREDTH)
    }
}

/// Reads an end, and after it the time.
pub(super) fn ending(row: &Row, at: usize) -> Result<End, tokio_postgres::Error> {
    let (until, now): (f64, f64) = (row.try_get(at)?, row.try_get(at + 1)?);
    Ok(End { at: micros(until), left: left(until, now) })
}

/// Reads the answer to [`ACQUIRE`], and when the lock ends.
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

/// Returns a time of the server; `infinity` is none.
fn time(epoch: f64) -> Option<Timestamp> {
    epoch.is_finite().then(|| Timestamp(micros(epoch) / 1000))
}

/// Returns how long a lock stays held, if it is.
fn left(until: f64, now: f64) -> Duration {
    if until.is_finite() { Duration::from_micros(micros(until - now)) } else { FOR_EVER }
}

/// A duration as a parameter.
#[derive(Debug)]
pub(super) struct Interval(pub(super) Duration);

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
