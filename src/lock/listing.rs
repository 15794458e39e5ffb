//! What a store has of locks and runs, for people to see.

use super::{Holder, LockState};
use crate::system::Timestamp;

/// A lock as it is stored. Its name need not be one that we would take: others write here too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) name: String,
    /// Who holds it, or held it last.
    pub(crate) state: LockState,
}

impl Lock {
    /// Whether it is held, by whatever its backend judges that by.
    pub(crate) fn is_held(&self) -> bool {
        !self.state.left.is_zero()
    }

    /// Returns whether all that the store knows of it is that it was paused once. Some stores forget that.
    pub(crate) fn is_only_of_a_pause(&self) -> bool {
        !self.is_held() && Holder::of(&self.state.owner).pause().is_some()
    }
}

/// The locks of a store, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Locks {
    /// The store's clock.
    pub(crate) now: Timestamp,
    pub(crate) locks: Vec<Lock>,
}

/// A run as the history has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunRecord {
    pub(crate) token: u64,
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) host: String,
    /// `None` where the history holds something that is no time.
    pub(crate) started_at: Option<Timestamp>,
    /// `None` while it runs, and for ever if it never came back.
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) exit_code: Option<i64>,
    /// One of the words of [`super::RunOutcome`].
    pub(crate) outcome: Option<String>,
}

/// Runs of the history, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runs {
    /// The store's clock.
    pub(crate) now: Timestamp,
    pub(crate) runs: Vec<RunRecord>,
}

/// Which runs are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Wanted {
    /// Of the locks of these names; empty for all.
    pub(crate) names: Vec<String>,
    /// No more than this, the newest ones.
    pub(crate) limit: Option<u32>,
    /// No more than this of each name, the newest ones.
    pub(crate) of_each: Option<u32>,
    /// Only those that had not ended before.
    pub(crate) since: Option<Timestamp>,
}
