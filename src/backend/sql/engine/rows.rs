//! Reads stored rows of locks and runs, no matter what wrote them. No value makes reading fail.

use std::time::Duration;

use super::columns::Column;
use crate::lock::ENDLESS;
use crate::lock::{Lock, LockState, RunRecord};
use crate::system::Timestamp;

/// Minimum remaining time of a held lock.
const MIN_REMAINING: Duration = Duration::from_micros(1);

/// Holds a value of a row, whatever the type of its column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        expect(dead_code, reason = "MySQL writes them as text")
    )]
    Number(i64),
    /// A time since 1970 or a duration, in seconds. Infinity reads as none.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "only PostgreSQL has them"))]
    Seconds(f64),
    Text(String),
}

/// Holds the values of a row, in the order of their columns.
pub(crate) struct Row(pub(crate) Vec<Cell>);

impl Row {
    /// Reads a lock: name, owner, since, until, whether it is held, and for how many microseconds. A row without a name
    /// is no lock.
    pub(crate) fn lock(&self) -> Option<Lock> {
        let (since, until) = (self.time(2), self.time(3));
        let left = self.micros(5).filter(|left| !left.is_zero());
        let left = match (self.number(4) == Some(1), since.and(until)) {
            (false, _) => Duration::ZERO,
            (true, Some(_)) => left.unwrap_or(MIN_REMAINING),
            (true, None) => left.unwrap_or(ENDLESS),
        };
        let state = LockState { owner: self.text(1).unwrap_or_default(), since, until, left };
        Some(Lock { name: self.text(0)?, state })
    }

    /// Reads a run: id, name, owner, host, begin, end, exit code and outcome. A row without an id or a name is no run.
    pub(crate) fn run(&self) -> Option<RunRecord> {
        self.cell(0)?;
        Some(RunRecord {
            token: self.number(0).and_then(|id| id.try_into().ok()).unwrap_or_default(),
            name: self.text(1)?,
            owner: self.text(2).unwrap_or_default(),
            host: self.text(3).unwrap_or_default(),
            started_at: self.time(4),
            ended_at: self.time(5),
            exit_code: self.number(6),
            outcome: self.text(7),
        })
    }

    fn cell(&self, column: usize) -> Option<&Cell> {
        self.0.get(column).filter(|cell| **cell != Cell::Null)
    }

    pub(crate) fn text(&self, column: usize) -> Option<String> {
        Some(match self.cell(column)? {
            Cell::Text(text) => text.clone(),
            Cell::Number(number) => number.to_string(),
            Cell::Seconds(seconds) => seconds.to_string(),
            Cell::Null => return None,
        })
    }

    /// Returns the text of a column; empty if there is no value.
    pub(crate) fn text_or_empty(&self, column: usize) -> String {
        self.text(column).unwrap_or_default()
    }

    /// Reads the description of a column: name, type, whether it may be null, and whether it may be left out.
    pub(crate) fn column(&self) -> Column {
        let is = |column| self.number(column) == Some(1);
        Column { name: self.text_or_empty(0), kind: self.text_or_empty(1), nullable: is(2), optional: is(3) }
    }

    pub(crate) fn number(&self, column: usize) -> Option<i64> {
        match self.cell(column)? {
            Cell::Number(number) => Some(*number),
            Cell::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Reads a time: milliseconds since 1970, seconds, or RFC 3339 as shedlock writes it.
    pub(crate) fn time(&self, column: usize) -> Option<Timestamp> {
        match self.cell(column)? {
            Cell::Seconds(seconds) => seconds.is_finite().then(|| Timestamp(micros(*seconds) / 1000)),
            Cell::Text(text) if text.contains('T') => Timestamp::parse(text).filter(|time| time.to_string() == *text),
            _ => self.number(column)?.try_into().ok().map(Timestamp),
        }
    }

    /// Reads a duration in microseconds; `None` if it has no end.
    fn micros(&self, column: usize) -> Option<Duration> {
        match self.cell(column)? {
            Cell::Seconds(seconds) => seconds.is_finite().then(|| Duration::from_micros(micros(*seconds))),
            _ => Some(Duration::from_micros(self.number(column)?.try_into().unwrap_or_default())),
        }
    }
}

/// Converts seconds to whole microseconds, in which servers count. A negative number becomes zero.
pub(crate) fn micros(seconds: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it ends at the largest number")]
    let micros = (seconds * 1e6).round() as u64;
    micros
}
