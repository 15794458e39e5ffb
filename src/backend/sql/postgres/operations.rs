//! The operations of a run: acquires, renews and releases a lock, and checks that the table stores what was asked for.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::answer::{Interval, StoredEnd, has_triggers, is_ahead, read_acquired, read_end};
use super::failure::Failure;
use super::run_statements::{
    ACQUIRE, DISCARD, MOVE_TO_NOW, RELEASE, RELEASE_AND_PRUNE, RENEW, ROW_IN_THE_WAY, SECOND_DIGITS, STORED_END, UNDO,
};
use super::session::Session;
use super::tables::Statement;
use super::{Postgres, Values, errors};
use crate::backend::sql::engine::{Database, History, Table};
use crate::lock::{Acquired, BackendError, Claim, Closing, ErrorClass, Holder, StillHeld};

/// Number of times that an acquisition may find the lock free and then held before it fails.
const ACQUIRE_TRIES: usize = 10;

/// Tolerance for the stored end of a lock, which a column that keeps milliseconds may round down.
const STORED_END_TOLERANCE: Duration = Duration::from_millis(1);

/// Number of digits of a second that make milliseconds.
const MILLISECOND_DIGITS: i32 = 3;

impl Postgres {
    /// Acquires the lock unless another owner holds it.
    pub(crate) fn acquire_lock(
        &mut self,
        session: &mut Session,
        claim: &Claim,
        history: History,
    ) -> Result<Acquired, Failure> {
        let lease = Interval(claim.lease);
        let values: Values<'_> = &[
            (&claim.name.as_str(), Type::TEXT),
            (&claim.owner.as_str(), Type::TEXT),
            (&lease, Type::INTERVAL),
            (&Holder::parse(claim.owner.as_str()).host(), Type::TEXT),
        ];
        let mut was_moved = false;
        for _ in 0..ACQUIRE_TRIES {
            let rows =
                self.with_new_id(session, |database, session| database.query(session, &ACQUIRE, history, values))?;
            if let Some(row) = rows.first() {
                let (acquired, end) = read_acquired(row)?;
                if matches!(acquired, Acquired::Held(_)) && is_ahead(row)? && !was_moved {
                    was_moved = true;
                    self.query(session, &MOVE_TO_NOW, History::Without, &values[..1])?;
                    continue;
                }
                if matches!(acquired, Acquired::Granted(_)) {
                    self.check_end(session, end, claim.lease)?;
                    if has_triggers(row)? {
                        self.check_stored_end(session, end, &values[..2])?;
                    }
                }
                return Ok(acquired);
            }
        }
        let rows = self.query(session, &ROW_IN_THE_WAY, History::Without, &values[..1])?;
        Err(match rows.first().map(|row| (row.try_get::<_, String>(0), row.try_get(1))) {
            Some((Ok(stored), Ok(false))) => {
                errors::spelt_otherwise(self.tables.name(Table::Locks), claim.name.as_str(), &stored)
            }
            // The lock may have become free just now.
            Some(_) => {
                BackendError { class: ErrorClass::Transient, ..errors::row_unchanged(self.tables.name(Table::Locks)) }
            }
            None => BackendError::transient("other hosts changed the lock at every attempt"),
        }
        .into())
    }

    /// Extends the lock if this owner still holds it.
    pub(crate) fn renew_lock(&mut self, session: &mut Session, claim: &Claim) -> Result<StillHeld, Failure> {
        let lease = Interval(claim.lease);
        let values: Values<'_> =
            &[(&claim.name.as_str(), Type::TEXT), (&claim.owner.as_str(), Type::TEXT), (&lease, Type::INTERVAL)];
        let rows = self.change_own_row(session, &RENEW, History::Without, values)?;
        if let Some(row) = rows.first() {
            self.check_end(session, read_end(row, 1)?, claim.lease)?;
        }
        Ok(StillHeld::from_owned(!rows.is_empty()))
    }

    /// Releases the lock if this owner still holds it, and closes the run's record.
    pub(crate) fn release_lock(
        &mut self,
        session: &mut Session,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
        history: History,
    ) -> Result<StillHeld, Failure> {
        let (exit_code, outcome) = match closing {
            Closing::Ended { outcome, exit_code } => (exit_code.map(i32::from), Some(outcome.as_str())),
            Closing::Unused | Closing::Undone => (None, None),
        };
        // Every backend keeps the newest record, since some continue their tokens from it.
        let (ended, keep) = (claim.owner.ended(), i64::from(claim.keep.max(1)));
        let values: Values<'_> = &[
            (&claim.name.as_str(), Type::TEXT),
            (&claim.owner.as_str(), Type::TEXT),
            (&Interval(hold), Type::INTERVAL),
            (&ended, Type::TEXT),
            (&exit_code, Type::INT4),
            (&outcome, Type::TEXT),
            (&keep, Type::INT8),
        ];
        let statement = match closing {
            Closing::Ended { .. } if claim.prunes() => &RELEASE_AND_PRUNE,
            Closing::Ended { .. } => &RELEASE,
            Closing::Unused => &DISCARD,
            Closing::Undone => &UNDO,
        };
        // The mark of an acquisition that was given up has an id too.
        let mut rows = self
            .with_new_id(session, |database, session| database.change_own_row(session, statement, history, values))?;
        if closing == Closing::Undone && rows.is_empty() {
            rows = self.change_own_row(session, statement, history, values)?;
        }
        Ok(StillHeld::from_owned(!rows.is_empty()))
    }

    /// Checks the stored end after an acquisition or a renewal: the lock must stay held until its end, and other sessions must
    /// see that end, also after a failover.
    fn check_end(&mut self, session: &mut Session, end: StoredEnd, lease: Duration) -> Result<(), Failure> {
        if session.is_unreplicated() {
            return Err(errors::unreplicated().into());
        }
        let is_early = end.left + STORED_END_TOLERANCE < lease;
        if !is_early && !end.is_round() {
            return Ok(());
        }
        // An end may be round or early by chance, or because the column keeps fewer digits.
        let asked = self.query(session, &SECOND_DIGITS, History::Without, &[]);
        let rows = asked.map_err(|failure| self.explain(&failure).error.ambiguous())?;
        let Some(row) = rows.first() else { return Ok(()) };
        let has_no_milliseconds =
            matches!(row.try_get(0), Ok(0..MILLISECOND_DIGITS)) || matches!(row.try_get(1), Ok(true));
        match (has_no_milliseconds, is_early) {
            (true, _) => Err(errors::no_milliseconds(self.tables.name(Table::Locks)).into()),
            (false, true) => Err(errors::too_early(self.tables.name(Table::Locks)).into()),
            (false, false) => Ok(()),
        }
    }

    /// Fails if a lock that was granted until `end` is not stored so: a trigger may have changed it after the statement.
    fn check_stored_end(&mut self, session: &mut Session, end: StoredEnd, values: Values<'_>) -> Result<(), Failure> {
        let asked = self.query(session, &STORED_END, History::Without, values);
        let rows = asked.map_err(|failure| self.explain(&failure).error.ambiguous())?;
        match rows.first().map(|row| read_end(row, 0)).transpose()? {
            Some(stored) if !stored.is_before(&end) => Ok(()),
            _ => Err(errors::too_early(self.tables.name(Table::Locks)).into()),
        }
    }

    /// Sends a renewal or a release. A row that still has this owner but was not changed is no lost lock: another
    /// session may have changed it just then, which shows when the request is repeated.
    fn change_own_row(
        &mut self,
        session: &mut Session,
        statement: &Statement,
        history: History,
        values: Values<'_>,
    ) -> Result<Vec<Row>, Failure> {
        let is_unchanged = |row: &Row| matches!(row.try_get(0), Ok(false));
        let mut rows = self.query(session, statement, history, values)?;
        if rows.first().is_some_and(is_unchanged) {
            rows = self.query(session, statement, history, values)?;
        }
        if rows.first().is_some_and(is_unchanged) {
            Err(errors::row_unchanged(self.tables.name(Table::Locks)).into())
        } else {
            Ok(rows)
        }
    }
}
