//! The locks that a backend lists.

use super::{Holder, LockState};
use crate::system::Timestamp;

/// A lock as stored. Its name may be one that shedlock would refuse, because other programs write here too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) name: String,
    /// The state, with the current or last owner.
    pub(crate) state: LockState,
}

impl Lock {
    /// Returns whether the lock is held, as the backend judges it.
    pub(crate) fn is_held(&self) -> bool {
        !self.state.left.is_zero()
    }

    /// Returns whether the backend knows only a past pause of the lock. Some backends forget that.
    pub(crate) fn is_past_pause(&self) -> bool {
        !self.is_held() && Holder::parse(&self.state.owner).pause().is_some()
    }
}

/// The locks of a backend, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Locks {
    /// The backend's clock.
    pub(crate) now: Timestamp,
    pub(crate) locks: Vec<Lock>,
}
