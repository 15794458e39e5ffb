//! What is only read: locks and runs as they are stored, whoever wrote them. Nothing in a row makes reading fail.

use std::str::FromStr;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Value};

use super::statements::{COMMIT, NOW, ROLLBACK, Step, Tables, literal};
use super::trouble::Failure;
use crate::clock::Timestamp;
use crate::lock::{Lock, PastRun, Record, Wanted};

/// Before each of the others.
const CLOCK: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {now}) DIV 1000, @@global.read_only";

const LOCKS: &str = "SELECT name, locked_by, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', locked_at) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', lock_until) DIV 1000, TIMESTAMPDIFF(MICROSECOND, {now}, lock_until) \
    FROM {table}";

const RUNS: &str = "SELECT id, name, owner, host, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', started_at) DIV 1000, \
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at) DIV 1000, exit_code, outcome FROM \
    (SELECT runs.*, ROW_NUMBER() OVER (PARTITION BY name ORDER BY started_at DESC, id DESC) AS place \
    FROM {history} AS runs WHERE {run} AND {names} AND {since}) AS placed \
    WHERE place <= {of_each} ORDER BY started_at DESC, id DESC LIMIT {limit}";

/// What has no end, or one that is no time, may not have ended before.
const SINCE: &str = "IFNULL(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ended_at) DIV 1000 >= {millis}, TRUE)";

/// Statements that only read.
pub(super) struct Question {
    text: String,
    /// What they are about.
    step: Step,
}

/// What the server answered.
pub(super) struct Asked {
    pub(super) now: Timestamp,
    pub(super) read_only: bool,
    /// The rows, each with the place of its statement among those that look.
    pub(super) rows: Vec<(usize, Row)>,
}

/// The columns of a row as text; nothing stands for what is not there.
pub(super) struct Row(Vec<Option<Vec<u8>>>);

impl Tables {
    /// One statement for each name, so that the place says which was asked for.
    pub(super) fn locks(&self, names: &[&str]) -> Question {
        let looks = match names {
            [] => vec![LOCKS.to_owned()],
            names => names.iter().map(|name| format!("{LOCKS} WHERE name = {}", literal(name))).collect(),
        };
        self.question(&looks, Step::Lock)
    }

    pub(super) fn runs(&self, wanted: &Wanted) -> Question {
        let names: Vec<String> = wanted.names.iter().map(|name| literal(name)).collect();
        let names = if names.is_empty() { "TRUE".to_owned() } else { format!("name IN ({})", names.join(", ")) };
        let since = wanted.since.map(|since| SINCE.replace("{millis}", &since.0.to_string()));
        let text = RUNS
            .replace("{names}", &names)
            .replace("{since}", since.as_deref().unwrap_or("TRUE"))
            .replace("{of_each}", &wanted.of_each.unwrap_or(u32::MAX).to_string())
            .replace("{limit}", &wanted.limit.unwrap_or(u32::MAX).to_string());
        self.question(&[text], Step::History)
    }

    fn question(&self, looks: &[String], step: Step) -> Question {
        // On a server without autocommit the next questions would be shown the same rows if this transaction did not end.
        let text = format!("{CLOCK}; {}; {COMMIT}", looks.join("; ")).replace("{now}", NOW);
        Question { text: self.name(&text), step }
    }
}

impl Question {
    /// Asks. A table that is missing has no rows.
    pub(super) fn ask(&self, connection: &mut Conn) -> Result<Asked, Failure> {
        let mut asked = Asked { now: Timestamp(0), read_only: false, rows: Vec::new() };
        match self.read(connection, &mut asked) {
            Err(error) => {
                let failure = Failure::new(error, self.step);
                if !failure.is_missing_table() {
                    return Err(failure);
                }
                connection.query_drop(ROLLBACK).map_err(|error| Failure::new(error, self.step))?;
                Ok(asked)
            }
            Ok(()) => Ok(asked),
        }
    }

    fn read(&self, connection: &mut Conn, asked: &mut Asked) -> Result<(), mysql::Error> {
        let mut results = connection.query_iter(&self.text)?;
        let mut number = 0_usize;
        while let Some(result) = results.iter() {
            for row in result {
                let row = Row::from(row?);
                // The clock is the first.
                match number.checked_sub(1) {
                    None => {
                        asked.now = row.time(0).unwrap_or(Timestamp(0));
                        asked.read_only = !matches!(row.text(1).as_deref(), Some("0" | "OFF") | None);
                    }
                    Some(place) => asked.rows.push((place, row)),
                }
            }
            number += 1;
        }
        Ok(())
    }
}

impl Row {
    /// The row as a lock, of the name that was asked for if one was.
    pub(super) fn lock(&self, asked: Option<&str>) -> Option<Lock> {
        let name = asked.map(str::to_owned).or_else(|| self.text(0))?;
        let left = self.number::<u64>(4).unwrap_or_default();
        let owner = self.text(1).unwrap_or_default();
        let record = Record { owner, since: self.time(2), until: self.time(3), left: Duration::from_micros(left) };
        Some(Lock { name, record })
    }

    /// The row as a run; none without a number and a name.
    pub(super) fn run(&self) -> Option<PastRun> {
        Some(PastRun {
            token: self.number(0)?,
            name: self.text(1)?,
            owner: self.text(2).unwrap_or_default(),
            host: self.text(3).unwrap_or_default(),
            started_at: self.time(4),
            ended_at: self.time(5),
            exit_code: self.number(6),
            outcome: self.text(7),
        })
    }

    fn text(&self, column: usize) -> Option<String> {
        let bytes = self.0.get(column)?.as_ref()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    fn number<T: FromStr>(&self, column: usize) -> Option<T> {
        self.text(column)?.parse().ok()
    }

    fn time(&self, column: usize) -> Option<Timestamp> {
        self.number(column).map(Timestamp)
    }
}

impl From<mysql::Row> for Row {
    fn from(row: mysql::Row) -> Self {
        let text = |value| match value {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        };
        Self(row.unwrap().into_iter().map(text).collect())
    }
}
