//! Compares the end of a lock with the stored one, which may be earlier.

use std::time::Duration;

use super::answer::{Answer, Row};
use super::errors;
use super::tables::Tables;
use crate::backend::sql::engine::Table;
use crate::duration::brief;
use crate::lock::{BackendError, Remark};
use crate::system::Timestamp;

pub(crate) const MILLISECOND: Duration = Duration::from_millis(1);

/// Says how the stored end of a lock differs from what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredEnd {
    AsRequested,
    /// The latest time that its column holds.
    Latest(Option<Timestamp>),
    /// The latest time of a `TIMESTAMP`, in a column that holds later ones: the end must be written again.
    CutForNothing,
    /// An earlier end, changed by something else.
    Earlier,
}

impl StoredEnd {
    /// Returns the remark that the end was cut, if it was.
    pub(crate) fn remark(end: Option<Self>) -> Remark {
        let cut = if let Some(Self::Latest(until)) = end { until } else { None };
        Remark { unrecorded: None, cut }
    }
}

impl Tables {
    /// Explains that the table stores no milliseconds, so the lock would be free before the job is dead. The lock was
    /// acquired, and must be released.
    fn explain_no_milliseconds() -> BackendError {
        BackendError::permanent("the table stores no milliseconds, so a lock would end too early")
            .hint("change its columns `lock_until` and `locked_at` to TIMESTAMP(3)")
            .ambiguous()
    }

    /// Explains that the server stored something other than what was written.
    pub(crate) fn explain_altered_row(&self, what: &str) -> BackendError {
        let table = self.name(Table::Locks);
        let bare = table.rsplit('.').next().unwrap_or(&table);
        BackendError::permanent(format!("the table {table} {what}"))
            .hint(format!("check its triggers: SHOW TRIGGERS LIKE '{bare}'"))
            .ambiguous()
    }

    /// Checks that the lock is held for the whole lease, or until the latest time that its column holds.
    pub(crate) fn judge_end(&mut self, answer: &Answer, row: &Row, lease: Duration) -> Result<StoredEnd, BackendError> {
        if answer.lacks_milliseconds {
            return Err(Self::explain_no_milliseconds());
        }
        let end = self.classify_end(answer, row, lease);
        match end {
            StoredEnd::Earlier => {
                let left = if row.is_held { brief(row.state.left) } else { "no time".to_owned() };
                Err(self.explain_altered_row(&format!(
                    "stores the lock for {left} instead of {}",
                    crate::duration::format(lease)
                )))
            }
            StoredEnd::Latest(_) if !row.is_held => Err(Self::explain_full_column()),
            end => Ok(end),
        }
    }

    /// Classifies the stored end of a lock that was written for a lease.
    pub(crate) fn classify_end(&mut self, answer: &Answer, row: &Row, lease: Duration) -> StoredEnd {
        if row.state.left + answer.took + MILLISECOND >= lease {
            return StoredEnd::AsRequested;
        }
        match (row.is_latest, answer.end_is_timestamp) {
            (false, _) => StoredEnd::Earlier,
            (true, true) => StoredEnd::Latest(row.state.until),
            (true, false) => {
                self.holds_any_time = true;
                StoredEnd::CutForNothing
            }
        }
    }

    /// Explains that the latest time of the column has passed, so that no lock can be held any more.
    fn explain_full_column() -> BackendError {
        BackendError::permanent("the table cannot store a time this late").hint(errors::DATETIME_HINT).ambiguous()
    }
}
