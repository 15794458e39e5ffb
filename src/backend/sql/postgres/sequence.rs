//! Keeps the sequence that draws the ids of the history, which are the tokens, ahead of the recorded ones.

use tokio_postgres::Row;
use tokio_postgres::error::DbError;
use tokio_postgres::types::Type;

use super::Postgres;
use super::errors::{DENIED, DUPLICATE, is, is_server_error, server_words};
use super::failure::Failure;
use super::run_statements::ADVANCE;
use super::session::Session;
use crate::backend::sql::engine::{Database, History, Table};

/// Code for a negative limit, with which an acquisition reports that the sequence is behind the history.
const BEHIND_CODE: &str = "2201W";
/// Code for a sequence that has drawn its last number.
const EXHAUSTED_CODE: &str = "2200H";

/// Numbers of ids to draw, one after the other, until the sequence is no longer behind the history, where shedlock may not
/// set it. The server draws a million in a few seconds.
const DRAWS: [i64; 8] = [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576];

impl Postgres {
    /// Sends a statement that may write a record. If the sequence of the ids is behind the history, advances it and sends
    /// the statement again.
    pub(crate) fn with_new_id(
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
            Err(failure) if is_behind(&failure, &self.tables.bare(Table::Runs)) => Err(Failure::SequenceBehind),
            answer => answer,
        }
    }

    /// Advances the sequence if it is behind the history and this role may set it, and returns a line about that.
    pub(crate) fn advance_sequence(&mut self, session: &mut Session) -> Result<Option<String>, Failure> {
        let advanced = match self.query(session, &ADVANCE, History::Without, &[(&0_i64, Type::INT8)]) {
            // A user who may only read may call this, too.
            Err(failure) if is_server_error(&failure) => None,
            answer => answer?.first().and_then(|row| row.try_get::<_, Option<i64>>(0).ok().flatten()),
        };
        let name = self.name(Table::Runs);
        Ok(advanced.map(|id| format!("the sequence of {name} was behind its ids, and has been advanced to {id}")))
    }

    /// Returns the remedy for a history whose sequence draws no usable number for this user.
    pub(crate) fn sequence_remedy(&self, failure: &Failure) -> Option<String> {
        let (history, user) = (self.tables.name(Table::Runs), &self.servers.login.user);
        let said = server_words(failure);
        // The message may be in any language.
        let named =
            said.trim_end_matches(is_quote).rsplit(|letter: char| letter.is_whitespace() || is_quote(letter)).next()?;
        let repair = if matches!(failure, Failure::SequenceBehind) {
            advance_statement(history)
        } else if is(failure, EXHAUSTED_CODE) {
            let quoted = said.split(is_quote).nth(1)?;
            format!("ALTER TABLE {history} ALTER id TYPE BIGINT; ALTER SEQUENCE {quoted} AS BIGINT NO MAXVALUE")
        } else if is(failure, DENIED) && (said.contains("sequence") || named.ends_with("_seq")) {
            format!("GRANT USAGE ON SEQUENCE {named} TO {user}")
        } else {
            return None;
        };
        Some(format!("ask the database's owner to run: {repair}"))
    }
}

/// Returns whether the sequence drew an id for the history that is not larger than the recorded ones.
fn is_behind(failure: &Failure, history: &str) -> bool {
    let Failure::Driver(error) = failure else { return false };
    let table = error.as_db_error().and_then(DbError::table);
    is(failure, BEHIND_CODE) || is(failure, DUPLICATE) && table == Some(history)
}

fn is_quote(letter: char) -> bool {
    "\"'«»„“”".contains(letter)
}

/// Returns the statement that advances the sequence of a history to its largest id.
pub(crate) fn advance_statement(history: &str) -> String {
    format!("SELECT setval(pg_get_serial_sequence('{history}', 'id'), max(id)) FROM {history}")
}
