//! Refuses storage engines without transactions, such as MyISAM, Aria and MEMORY.
//!
//! An operation is a transaction: while it lasts, nobody else sees or changes the lock's row. In an engine without them each
//! statement counts alone. An acquisition that meets its own undoing may then find the lock free and no mark, while the undoing
//! finds no lock; it is held afterwards, by a run that has been told that it is not.
//!
//! An acquisition learns the kind of its tables for nothing: the server says in the result of each statement whether the
//! transaction has written into a table that takes part in it or into another, if it is asked to by one more variable in the SET
//! that is sent anyway. Only if the table is of the other kind does a second request ask for the engine's name. A server that
//! cannot say so is not asked, and grants the lock as before; `check` and `init` ask every server.

use std::time::Duration;

use super::MySql;
use super::answer::{self, Answer};
use super::errors::{Failure, Stage, UNKNOWN_VARIABLE};
use super::link::{Extent, Link};
use crate::backend::sql::engine::{History, Row, Table};
use crate::lock::{BackendError, Claim, Closing};

/// Describes a table, which `{where}` selects: its kind, its engine, and whether that has transactions. The server hides tables to
/// which the user has no right.
pub(crate) const DESCRIBE_TABLE: &str = "SELECT table_type, tables.engine, transactions FROM information_schema.tables \
    LEFT JOIN information_schema.engines ON engines.engine = tables.engine WHERE {where}";

impl MySql {
    /// Asks for the lock; frees it again and fails if an engine has no transactions.
    pub(crate) fn ask_for_lock(
        &mut self,
        session: &mut Link,
        claim: &Claim,
        history: History,
    ) -> Result<Answer, Failure> {
        let asks_written = session.tells_changes && self.tables.asks_written;
        let answer = match answer::ask(session, &self.tables.acquire(claim, history, asks_written)) {
            // The SET is the first statement: nothing has been written.
            Err(failure) if asks_written && failure.is(&UNKNOWN_VARIABLE) => {
                self.tables.asks_written = false;
                answer::ask(session, &self.tables.acquire(claim, history, false))?
            }
            answer => answer?,
        };
        let refusal = answer.outside.map(|table| self.engine_error(session, table)).transpose()?.flatten();
        let Some(error) = refusal else { return Ok(answer) };
        let free = self.tables.release(claim, Duration::ZERO, Closing::Unused, history);
        let is_free = answer::ask(session, &free).is_ok();
        Err(if is_free { error } else { error.ambiguous() }.into())
    }

    /// Returns the error if the server says that the table's engine has no transactions.
    pub(crate) fn engine_error(&self, session: &mut Link, table: Table) -> Result<Option<BackendError>, Failure> {
        let mut error = None;
        let question = DESCRIBE_TABLE.replace("{where}", &self.tables.condition(table));
        let name = self.tables.name(table);
        let asked = answer::read(session, &question, Extent::Answer, |row| error = explain(&name, table, &row));
        match asked.map_err(|trouble| Failure::new(trouble, Stage::Commit)) {
            Err(failure) if !failure.is_answer() => Err(failure),
            // A server that refuses the question may have engines of its own.
            _ => Ok(error),
        }
    }
}

/// Explains that a table's engine has no transactions, if the server says so in this row. NDB and RocksDB have some.
pub(crate) fn explain(name: &str, table: Table, row: &Row) -> Option<BackendError> {
    if !row.text_or_empty(2).eq_ignore_ascii_case("NO") {
        return None;
    }
    let harm = match table {
        Table::Locks => "a lock that was given up may be taken later",
        Table::Runs => "a lock and its token may get out of step",
    };
    let seen = format!("the table {name} uses {}, which has no transactions: {harm}", row.text_or_empty(1));
    Some(BackendError::permanent(seen).hint(format!("ALTER TABLE {name} ENGINE = InnoDB")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::sql::engine::Cell;

    #[test]
    fn an_engine_is_judged_by_what_the_server_says_of_it() {
        let explained = |engine: &str, transactions: Option<&str>| {
            let last = transactions.map_or(Cell::Null, |text| Cell::Text(text.to_owned()));
            let row = Row(vec![Cell::Text("BASE TABLE".to_owned()), Cell::Text(engine.to_owned()), last]);
            explain("ops.shedlock", Table::Locks, &row)
        };
        for (engine, transactions) in
            [("InnoDB", Some("YES")), ("ROCKSDB", Some("YES")), ("ndbcluster", Some("YES")), ("unheard-of", None)]
        {
            assert_eq!(explained(engine, transactions), None, "{engine}");
        }
        let error = explained("Aria", Some("NO")).unwrap();
        assert!(error.message.starts_with("the table ops.shedlock uses Aria, which has no"), "{}", error.message);
        assert_eq!(error.hint.as_deref(), Some("ALTER TABLE ops.shedlock ENGINE = InnoDB"));
    }
}
