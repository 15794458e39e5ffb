//! Keeps the sequence that draws the ids of the history, which are the tokens, ahead of the recorded ones.

use tokio_postgres::Row;
use tokio_postgres::error::DbError;
use tokio_postgres::types::Type;

use super::Postgres;
use super::errors::{DENIED, DUPLICATE, is, is_said, said};
use super::session::{Failure, Session};
use super::statements::ADVANCE;
use crate::backend::sql::{Database, History, Table};

/// Code for a negative limit, with which a taking reports that the sequence is behind the history.
const BEHIND: &str = "2201W";
/// Code for a sequence that has drawn its last number.
const EXHAUSTED: &str = "2200H";

/// Numbers of ids to draw, one after the other, until the sequence is no longer behind the history, where shedlock may not
/// set it. The server draws a million in a few seconds.
const DRAWS: [i64; 8] = [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576];

impl Postgres {
    /// Sends a statement that may write a record. If the sequence of the ids is behind the history, advances it and sends
    /// the statement again.
    pub(super) fn draw_id(
        &mut self,
        session: &mut Session,
        mut send: impl FnMut(&mut Self, &mut Session) -> Result<Vec<Row>, Failure>,
    ) -> Result<Vec<Row>, Failure> {
        for draws in DRAWS {
            match send(self, session) {
                Err(failure) if is_behind(&failure, &self.tables.bare(Table::Runs)) => {
                    self.query(session, &ADVANCE, History::Without, &[(&draws, Type::INT8)])?;
                }
                answer => return answer,
            }
        }
        match send(self, session) {
            Err(failure) if is_behind(&failure, &self.tables.bare(Table::Runs)) => Err(Failure::Behind),
            answer => answer,
        }
    }

    /// Advances the sequence if it is behind the history and this role may set it, and returns a line about that.
    pub(super) fn advance(&mut self, session: &mut Session) -> Result<Option<String>, Failure> {
        let advanced = match self.query(session, &ADVANCE, History::Without, &[(&0_i64, Type::INT8)]) {
            // Whoever may only read may call this, too.
            Err(failure) if is_said(&failure) => None,
            answer => answer?.first().and_then(|row| row.try_get::<_, Option<i64>>(0).ok().flatten()),
        };
        let name = self.name(Table::Runs);
        Ok(advanced.map(|id| format!("the sequence of {name} was behind its ids, and has been advanced to {id}")))
    }
}

/// Returns whether the sequence drew an id for the history that is not larger than the recorded ones.
fn is_behind(failure: &Failure, history: &str) -> bool {
    let Failure::Said(error) = failure else { return false };
    let table = error.as_db_error().and_then(DbError::table);
    is(failure, BEHIND) || is(failure, DUPLICATE) && table == Some(history)
}

/// Returns the remedy for a history whose sequence draws no usable number for this user.
pub(super) fn remedy(failure: &Failure, history: &str, user: &str) -> Option<String> {
    let said = said(failure);
    // The message may be in any language.
    let named =
        said.trim_end_matches(is_quote).rsplit(|letter: char| letter.is_whitespace() || is_quote(letter)).next()?;
    let statement = if matches!(failure, Failure::Behind) {
        statement(history)
    } else if is(failure, EXHAUSTED) {
        let quoted = said.split(is_quote).nth(1)?;
        format!("ALTER TABLE {history} ALTER id TYPE BIGINT; ALTER SEQUENCE {quoted} AS BIGINT NO MAXVALUE")
    } else if is(failure, DENIED) && (said.contains("sequence") || named.ends_with("_seq")) {
        format!("GRANT USAGE ON SEQUENCE {named} TO {user}")
    } else {
        return None;
    };
    Some(format!("ask the database's owner to run: {statement}"))
}

fn is_quote(letter: char) -> bool {
    "\"'«»„“”".contains(letter)
}

/// Returns the statement that advances the sequence of a history to its largest id.
pub(super) fn statement(history: &str) -> String {
    format!("SELECT setval(pg_get_serial_sequence('{history}', 'id'), max(id)) FROM {history}")
}
