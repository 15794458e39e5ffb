//! Reads the server's answers to the operations on locks.

use std::time::Duration;

use mysql::consts::ColumnType;
use mysql::prelude::Queryable;
use mysql::{Column, Conn, Value};

use super::super::sql::{self, Cell};
use super::errors::Failure;
use super::statements::{Message, Step};
use crate::lock::{Grant, LockState};
use crate::system::Moment;

/// The server's answer to one operation.
#[derive(Default)]
pub(super) struct Answer {
    /// Number of rows that were changed.
    pub(super) changed: u64,
    /// Rows with the lock's name, of which there should be one.
    pub(super) rows: Vec<Row>,
    /// Number of records that were written or deleted.
    pub(super) records: u64,
    /// Id of the record in the history.
    pub(super) token: Option<u64>,
    /// Set if a column of the row's times keeps no milliseconds: the stored time may be earlier than the requested one.
    pub(super) coarse: bool,
    /// Set if the column of the end is a `TIMESTAMP`, which holds no time after 2038.
    pub(super) ends: bool,
    /// Time that the answer took.
    pub(super) took: Duration,
}

/// The lock's row.
pub(super) struct Row {
    pub(super) ours: bool,
    /// Set if the row has this owner's mark of a run that has ended.
    pub(super) ended: bool,
    pub(super) held: bool,
    /// Set if the end is the latest time that a `TIMESTAMP` holds, or later.
    pub(super) last: bool,
    pub(super) state: LockState,
}

impl Row {
    /// Returns the grant if the lock is this owner's.
    pub(super) fn grant(&self) -> Option<Grant> {
        let (locked_at, until) = self.state.since.zip(self.state.until)?;
        self.ours.then_some(Grant { locked_at, until, token: None })
    }

    /// Returns the time from the beginning to the end of the lock.
    pub(super) fn lasts(&self) -> Option<Duration> {
        let (since, until) = self.state.since.zip(self.state.until)?;
        Some(Duration::from_millis(until.0.saturating_sub(since.0)))
    }
}

/// Sends the statements of an operation, and reads all answers.
pub(super) fn ask(connection: &mut Conn, message: &Message) -> Result<Answer, Failure> {
    let mut answer = Answer::default();
    let begun = Moment::now();
    let mut results = connection.query_iter(&message.text).map_err(|error| Failure::new(error, Step::Lock))?;
    let mut number = 0;
    while let Some(result) = results.iter() {
        if number == message.write {
            answer.changed = result.affected_rows();
        }
        if Some(number) == message.record && result.affected_rows() > 0 {
            answer.records = result.affected_rows();
            answer.token = result.last_insert_id();
        }
        if let [.., since, until] = result.columns().as_ref() {
            answer.coarse = is_coarse(since) || is_coarse(until);
            answer.ends = until.column_type() == ColumnType::MYSQL_TYPE_TIMESTAMP;
        }
        for row in result {
            answer.rows.push(cells(row.map_err(|error| Failure::new(error, message.step(number)))?).into());
        }
        number += 1;
    }
    answer.took = Moment::now().since(begun);
    Ok(answer)
}

/// Sends statements, and passes the rows of all their answers on as they come.
pub(super) fn read(
    connection: &mut Conn,
    statements: &str,
    mut take: impl FnMut(sql::Row),
) -> Result<(), mysql::Error> {
    let mut results = connection.query_iter(statements)?;
    while let Some(result) = results.iter() {
        for row in result {
            take(cells(row?));
        }
    }
    Ok(())
}

fn cells(row: mysql::Row) -> sql::Row {
    let cell = |value| match value {
        Value::NULL => Cell::Nothing,
        Value::Bytes(bytes) => Cell::Text(String::from_utf8_lossy(&bytes).into_owned()),
        other => Cell::Text(other.as_sql(true)),
    };
    sql::Row(row.unwrap().into_iter().map(cell).collect())
}

/// Returns whether the column is a time without milliseconds.
fn is_coarse(column: &Column) -> bool {
    use ColumnType::{MYSQL_TYPE_DATE, MYSQL_TYPE_DATETIME, MYSQL_TYPE_TIMESTAMP};
    let times = [MYSQL_TYPE_DATE, MYSQL_TYPE_DATETIME, MYSQL_TYPE_TIMESTAMP];
    times.contains(&column.column_type()) && column.decimals() < 3
}

impl From<sql::Row> for Row {
    /// Reads the row of a look. Comparisons and computed values may be NULL; of the last two columns only the types
    /// count.
    fn from(row: sql::Row) -> Self {
        let is = |column| row.number(column) == Some(1);
        let left = Duration::from_micros(row.number(6).unwrap_or_default().try_into().unwrap_or_default());
        let state = LockState { owner: row.text(3).unwrap_or_default(), since: row.time(4), until: row.time(5), left };
        Self { ours: is(0), ended: is(1), held: is(2), last: is(7), state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_none_make_a_lock_that_is_free() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let cells = [text("0"), Cell::Nothing, Cell::Nothing, text("h"), Cell::Nothing, text("-1"), text("-5")];
        let row = Row::from(sql::Row(cells.to_vec()));
        assert!(!row.ours && !row.held && row.grant().is_none());
        let state = LockState { owner: "h".to_owned(), since: None, until: None, left: Duration::ZERO };
        assert_eq!(row.state, state);
    }
}
