//! What the server answers to an operation.

use std::time::Duration;

use mysql::consts::ColumnType;
use mysql::prelude::Queryable;
use mysql::{Column, Conn, Value};

use super::statements::{Message, Step};
use super::trouble::Failure;
use crate::clock::{Moment, Timestamp};
use crate::lock::{Grant, Record};

/// What the server answered to one operation.
pub(super) struct Answer {
    /// How many rows were changed.
    pub(super) changed: u64,
    /// The rows of that name: one.
    pub(super) rows: Vec<Row>,
    /// The record in the history.
    pub(super) token: Option<u64>,
    /// A column of the row's times keeps no milliseconds, so what is stored may be earlier than what was asked for.
    pub(super) coarse: bool,
    /// The column of the end is a `TIMESTAMP`, which holds no time after 2038.
    pub(super) ends: bool,
    /// How long it took to come.
    pub(super) took: Duration,
}

/// The lock's row.
pub(super) struct Row {
    pub(super) ours: bool,
    /// It bears our mark of a run that has ended.
    pub(super) ended: bool,
    pub(super) held: bool,
    /// The end is the latest time that a `TIMESTAMP` holds, or later.
    pub(super) last: bool,
    pub(super) record: Record,
}

impl Row {
    /// The lock as ours, if it is.
    pub(super) fn grant(&self) -> Option<Grant> {
        let (locked_at, until) = self.record.since.zip(self.record.until)?;
        self.ours.then_some(Grant { locked_at, until, token: None })
    }

    /// From the beginning to the end of the lock.
    pub(super) fn lasts(&self) -> Option<Duration> {
        let (since, until) = self.record.since.zip(self.record.until)?;
        Some(Duration::from_millis(until.0.saturating_sub(since.0)))
    }
}

/// Sends the statements, and reads all that comes back.
pub(super) fn ask(connection: &mut Conn, message: &Message) -> Result<Answer, Failure> {
    let mut answer =
        Answer { changed: 0, rows: Vec::new(), token: None, coarse: false, ends: false, took: Duration::ZERO };
    let begun = Moment::now();
    let mut results = connection.query_iter(&message.text).map_err(|error| Failure::new(error, Step::Lock))?;
    let mut number = 0;
    while let Some(result) = results.iter() {
        if number == message.write {
            answer.changed = result.affected_rows();
        }
        if Some(number) == message.record && result.affected_rows() > 0 {
            answer.token = result.last_insert_id();
        }
        if let [.., since, until] = result.columns().as_ref() {
            answer.coarse = is_coarse(since) || is_coarse(until);
            answer.ends = until.column_type() == ColumnType::MYSQL_TYPE_TIMESTAMP;
        }
        for row in result {
            let read = row.and_then(|row| Ok(mysql::from_row_opt::<Columns>(row)?));
            answer.rows.push(read.map_err(|error| Failure::new(error, message.step(number)))?.into());
        }
        number += 1;
    }
    answer.took = Moment::now().since(begun);
    Ok(answer)
}

/// The columns of the look. What is compared or computed may be no value. Of the last two only the types count.
type Columns =
    (Option<i64>, Option<i64>, Option<i64>, Vec<u8>, Option<i64>, Option<i64>, Option<i64>, Option<i64>, Value, Value);

/// Whether this is a time without milliseconds.
fn is_coarse(column: &Column) -> bool {
    use ColumnType::{MYSQL_TYPE_DATE, MYSQL_TYPE_DATETIME, MYSQL_TYPE_TIMESTAMP};
    let times = [MYSQL_TYPE_DATE, MYSQL_TYPE_DATETIME, MYSQL_TYPE_TIMESTAMP];
    times.contains(&column.column_type()) && column.decimals() < 3
}

impl From<Columns> for Row {
    fn from((ours, ended, held, owner, since, until, left, last, ..): Columns) -> Self {
        let is = |answer| answer == Some(1);
        let time = |millis: Option<i64>| millis?.try_into().ok().map(Timestamp);
        let left = Duration::from_micros(left.unwrap_or_default().try_into().unwrap_or_default());
        let owner = String::from_utf8_lossy(&owner).into_owned();
        let record = Record { owner, since: time(since), until: time(until), left };
        Self { ours: is(ours), ended: is(ended), held: is(held), last: is(last), record }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_none_make_a_lock_that_is_free() {
        let row = Row::from((
            Some(0),
            None,
            None,
            b"h\xff".to_vec(),
            None,
            Some(-1),
            Some(-5),
            None,
            Value::NULL,
            Value::NULL,
        ));
        assert!(!row.ours && !row.held && row.grant().is_none());
        let record = Record { owner: "h\u{fffd}".to_owned(), since: None, until: None, left: Duration::ZERO };
        assert_eq!(row.record, record);
    }
}
