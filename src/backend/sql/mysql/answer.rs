//! Reads the server's answers to the operations on locks.

use std::time::Duration;

use super::errors::Failure;
use super::link::{AnswerPart, Extent, Link, LinkError};
use super::statements::Message;
use super::wire::{self, Column};
use crate::backend::sql::engine::{self, Table};
use crate::lock::{Grant, LockState};
use crate::system::Moment;

/// Holds the server's answer to one operation.
#[derive(Default)]
pub(crate) struct Answer {
    /// Number of rows that were changed.
    pub(crate) changed: u64,
    /// Rows with the lock's name, of which there should be one.
    pub(crate) rows: Vec<Row>,
    /// Number of records that were written or deleted.
    pub(crate) records: u64,
    /// Id of the record in the history.
    pub(crate) token: Option<u64>,
    /// Set if a column of the row's times keeps no milliseconds: the stored time may be earlier than the requested one.
    pub(crate) lacks_milliseconds: bool,
    /// Set if the column of the end is a `TIMESTAMP`, which holds no time after 2038.
    pub(crate) end_is_timestamp: bool,
    /// The table that is no part of the transaction, if the server has said so.
    pub(crate) outside: Option<Table>,
    /// Time that the answer took.
    pub(crate) took: Duration,
}

/// Holds the lock's row, as compared with the claim.
pub(crate) struct Row {
    /// Set if the row has this owner.
    pub(crate) is_ours: bool,
    /// Set if the row has this owner's mark of a run that has ended.
    pub(crate) has_ended: bool,
    pub(crate) is_held: bool,
    /// Set if the end is the latest time that a `TIMESTAMP` holds, or later.
    pub(crate) is_latest: bool,
    pub(crate) state: LockState,
}

impl Row {
    /// Returns the grant if the lock is this owner's.
    pub(crate) fn grant(&self) -> Option<Grant> {
        let (locked_at, until) = self.state.since.zip(self.state.until)?;
        self.is_ours.then_some(Grant { locked_at, until, token: None })
    }

    /// Returns the time from the beginning to the end of the lock.
    pub(crate) fn duration(&self) -> Option<Duration> {
        let (since, until) = self.state.since.zip(self.state.until)?;
        Some(Duration::from_millis(until.0.saturating_sub(since.0)))
    }
}

/// Sends the statements of an operation, and reads all answers.
pub(crate) fn ask(connection: &mut Link, message: &Message) -> Result<Answer, Failure> {
    let mut answer = Answer::default();
    let begun = Moment::now();
    let mut number = 0;
    let failed = |number| move |trouble| Failure::new(trouble, message.stage(number));
    connection.ask(&message.text, Extent::Answer).map_err(failed(number))?;
    while let Some(part) = connection.next().map_err(failed(number))? {
        match part {
            AnswerPart::Completed(done) => {
                if number == message.write {
                    answer.changed = done.changed;
                    // A trigger may write into another table, of either kind.
                    answer.outside = Some(Table::Locks).filter(|_| done.written.outside && !done.written.within);
                } else if number > message.write && number < message.commit && done.written.outside {
                    answer.outside = answer.outside.or(Some(Table::Runs));
                }
                if Some(number) == message.record && done.changed > 0 {
                    (answer.records, answer.token) = (done.changed, done.id);
                }
                number += 1;
            }
            AnswerPart::Columns(columns) => {
                if let [.., since, until] = columns.as_slice() {
                    answer.lacks_milliseconds = is_coarse(*since) || is_coarse(*until);
                    answer.end_is_timestamp = until.kind == wire::TIMESTAMP;
                }
            }
            AnswerPart::Row(row) => answer.rows.push(row.into()),
            AnswerPart::End => number += 1,
        }
    }
    answer.took = Moment::now().since(begun);
    Ok(answer)
}

/// Sends statements, and passes the rows of all their answers on as they come.
pub(crate) fn read(
    connection: &mut Link,
    statements: &str,
    extent: Extent,
    mut sink: impl FnMut(engine::Row),
) -> Result<(), LinkError> {
    connection.ask(statements, extent)?;
    while let Some(part) = connection.next()? {
        if let AnswerPart::Row(row) = part {
            sink(row);
        }
    }
    Ok(())
}

/// Executes a statement whose rows, if it has any, do not matter.
pub(crate) fn execute(connection: &mut Link, statement: &str) -> Result<(), LinkError> {
    read(connection, statement, Extent::Answer, drop)
}

/// Returns whether the column is a time without milliseconds.
fn is_coarse(column: Column) -> bool {
    [wire::DATE, wire::DATETIME, wire::TIMESTAMP].contains(&column.kind) && column.decimals < 3
}

impl From<engine::Row> for Row {
    /// Reads the lock's row. Comparisons and computed values may be NULL; of the last two columns only the types
    /// count.
    fn from(row: engine::Row) -> Self {
        let is = |column| row.number(column) == Some(1);
        let left = Duration::from_micros(row.number(6).unwrap_or_default().try_into().unwrap_or_default());
        let state = LockState { owner: row.text(3).unwrap_or_default(), since: row.time(4), until: row.time(5), left };
        Self { is_ours: is(0), has_ended: is(1), is_held: is(2), is_latest: is(7), state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sql::engine::Cell;

    #[test]
    fn times_that_are_none_make_a_lock_that_is_free() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let cells = [text("0"), Cell::Null, Cell::Null, text("h"), Cell::Null, text("-1"), text("-5")];
        let row = Row::from(engine::Row(cells.to_vec()));
        assert!(!row.is_ours && !row.is_held && row.grant().is_none());
        let state = LockState { owner: "h".to_owned(), since: None, until: None, left: Duration::ZERO };
        assert_eq!(row.state, state);
    }
}
