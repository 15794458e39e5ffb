//! What people ask of the store, and have done to it. Only [`Operate::make`] makes anything: where there is no table there
//! are no locks and no runs.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::statements::{CHANGE, LIST, RUNS, TABLES, Table};
use super::{Interval, Postgres, left, time};
use crate::backend::{Finding, Kept, Operate, Trouble};
use crate::lock::{Change, Lock, Locks, PastRun, Record, Runs, Wanted};

/// What is held is held for a moment at least.
const MOMENT: Duration = Duration::from_micros(1);

impl Postgres {
    /// The locks of these names, or all.
    pub(super) fn list(&mut self, names: &[&str]) -> Result<Locks, Trouble> {
        let names = (!names.is_empty()).then_some(names);
        let (now, rows) = self.look(Table::Locks, &LIST, &[(&names, Type::TEXT_ARRAY)])?;
        let mut locks: Vec<Lock> = rows.iter().filter_map(lock).collect();
        locks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Locks { now, locks })
    }

    /// Makes a table where it is missing, and says what was found.
    fn make_table(&mut self, table: Table, is_there: bool) -> Result<String, Trouble> {
        let name = self.tables.name(table).to_owned();
        if is_there {
            return Ok(format!("the table {name} is there"));
        }
        self.on_a_primary(&mut |backend, session, limit| backend.create(session, table, limit))?;
        Ok(format!("made the table {name}"))
    }
}

impl Operate for Postgres {
    fn runs(&mut self, wanted: &Wanted) -> Result<Runs, Trouble> {
        let names = (!wanted.names.is_empty()).then_some(&wanted.names);
        let since = wanted.since.map(|since| i64::try_from(since.0).unwrap_or(i64::MAX));
        let (of_each, limit) = (wanted.of_each.map(i64::from), wanted.limit.map(i64::from));
        let (now, rows) = self.look(
            Table::Runs,
            &RUNS,
            &[(&names, Type::TEXT_ARRAY), (&since, Type::INT8), (&of_each, Type::INT8), (&limit, Type::INT8)],
        )?;
        Ok(Runs { now, runs: rows.iter().filter_map(run).collect() })
    }

    fn change(&mut self, change: &Change) -> Result<Kept, Trouble> {
        let (_, rows) = self.look(
            Table::Locks,
            &CHANGE,
            &[
                (&change.name.as_str(), Type::TEXT),
                (&change.from, Type::TEXT),
                (&change.to, Type::TEXT),
                (&Interval(change.left), Type::INTERVAL),
            ],
        )?;
        let changed = rows.first().and_then(|row| value(row, 2));
        Ok(if changed == Some(true) { Kept::Kept } else { Kept::Lost })
    }

    fn make(&mut self) -> Result<Vec<String>, Trouble> {
        let names = [Table::Locks, Table::Runs].map(|table| self.tables.name(table).to_owned());
        let (_, rows) = self.look(Table::Locks, &TABLES, &[(&names[0], Type::TEXT), (&names[1], Type::TEXT)])?;
        let is_there = |index| rows.first().and_then(|row| value(row, index)) == Some(true);
        let lines = vec![self.make_table(Table::Locks, is_there(2))?, self.make_table(Table::Runs, is_there(3))?];
        // What is there may be something else.
        self.list(&[""])?;
        self.runs(&Wanted { limit: Some(0), ..Wanted::default() })?;
        Ok(lines)
    }

    fn schema(&self) -> String {
        self.tables.schema(self.servers.user())
    }

    fn check(&mut self, tell: &mut dyn FnMut(Finding)) {
        self.probe(tell);
    }
}

/// A value of a row; `None` where there is none, or one of another type, as others may have made the table.
fn value<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Option<T> {
    row.try_get::<_, Option<T>>(index).ok().flatten()
}

fn lock(row: &Row) -> Option<Lock> {
    let (now, since, until) = (value(row, 0)?, value(row, 4), value(row, 5));
    let is_held = value(row, 6) == Some(true);
    let left = until.filter(|_| is_held).map_or(Duration::ZERO, |until| left(until, now).max(MOMENT));
    let record = Record {
        owner: value(row, 3).unwrap_or_default(),
        since: since.and_then(time),
        until: until.and_then(time),
        left,
    };
    Some(Lock { name: value(row, 2)?, record })
}

fn run(row: &Row) -> Option<PastRun> {
    let at = |index| value(row, index).and_then(time);
    let token = value::<i64>(row, 2)?;
    Some(PastRun {
        token: token.try_into().unwrap_or_default(),
        name: value(row, 3).unwrap_or_default(),
        owner: value(row, 4).unwrap_or_default(),
        host: value(row, 5).unwrap_or_default(),
        started_at: at(6),
        ended_at: at(7),
        exit_code: value(row, 8),
        outcome: value(row, 9),
    })
}
