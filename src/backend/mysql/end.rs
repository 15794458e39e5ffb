//! Compares the end of a lock with the stored one, which may be sooner.

use std::time::Duration;

use super::answer::{Answer, Row};
use super::{MySql, errors};
use crate::backend::sql::Table;
use crate::backend::{BackendError, Remark};
use crate::duration::brief;
use crate::system::Timestamp;

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);

/// The stored end of a lock that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    AsAsked,
    /// The latest time that its column holds.
    Last(Option<Timestamp>),
    /// The latest time of a `TIMESTAMP`, in a column that holds later ones: the end must be written again.
    Unneeded,
    /// An earlier end, changed by something else.
    Sooner,
}

impl End {
    pub(super) fn remark(end: Option<Self>) -> Remark {
        let cut = if let Some(Self::Last(until)) = end { until } else { None };
        Remark { unrecorded: None, cut }
    }
}

impl MySql {
    /// Explains that the table stores no milliseconds, so the lock would be free before the job is dead. The lock was
    /// taken, and must be given back.
    fn too_coarse() -> BackendError {
        BackendError::permanent("the table stores no milliseconds, so a lock would end too early")
            .hint("change its columns `lock_until` and `locked_at` to TIMESTAMP(3)")
            .ambiguous()
    }

    /// Explains that the server stored something other than what was written.
    pub(super) fn altered(&self, what: &str) -> BackendError {
        let table = self.tables.name(Table::Locks);
        let bare = table.rsplit('.').next().unwrap_or(&table);
        BackendError::permanent(format!("the table {table} {what}"))
            .hint(format!("check its triggers: SHOW TRIGGERS LIKE '{bare}'"))
            .ambiguous()
    }

    /// Checks that the lock is held for the whole lease, or until the latest time that its column holds.
    pub(super) fn judge_end(&mut self, answer: &Answer, row: &Row, lease: Duration) -> Result<End, BackendError> {
        if answer.coarse {
            return Err(Self::too_coarse());
        }
        let end = self.end(answer, row, lease);
        match end {
            End::Sooner => {
                let left = if row.held { brief(row.state.left) } else { "no time".to_owned() };
                Err(self.altered(&format!("stores the lock for {left} instead of {}", crate::duration::format(lease))))
            }
            End::Last(_) if !row.held => Err(Self::past_the_end()),
            end => Ok(end),
        }
    }

    /// Classifies the stored end of a lock that was written for a lease.
    pub(super) fn end(&mut self, answer: &Answer, row: &Row, lease: Duration) -> End {
        if row.state.left + answer.took + MILLISECOND >= lease {
            return End::AsAsked;
        }
        match (row.last, answer.ends) {
            (false, _) => End::Sooner,
            (true, true) => End::Last(row.state.until),
            (true, false) => {
                self.tables.endless = true;
                End::Unneeded
            }
        }
    }

    /// Explains that the latest time of the column has passed, so that no lock can be held any more.
    fn past_the_end() -> BackendError {
        BackendError::permanent("the table cannot store a time this late").hint(errors::DATETIME).ambiguous()
    }
}
