//! The answers of a backend, and what it remarks beside them.

use super::{BackendError, Grant, LockState};
use crate::system::Timestamp;

/// The answer to an acquisition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acquired {
    Granted(Grant),
    Held(LockState),
}

/// Says whether an owner still held its lock: the answer to a renewal, a release or a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StillHeld {
    Held,
    /// The lock had another owner or none.
    Lost,
}

/// The answer to a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgotten {
    /// Nothing is left. Says what there was.
    Gone { lock: bool, runs: u64 },
    /// The lock is held, or another owner has had it in the meantime.
    InUse,
}

/// An answer of the backend, with a remark for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply<T> {
    pub(crate) answer: T,
    pub(crate) remark: Remark,
}

/// The faults of a request that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Remark {
    /// The reason why an acquisition has no record and mostly no token, or why a release did not close its record.
    pub(crate) unrecorded: Option<BackendError>,
    /// The lock's end, if it is sooner than requested because the backend can store no later time.
    pub(crate) cut: Option<Timestamp>,
}

impl<T> From<T> for Reply<T> {
    fn from(answer: T) -> Self {
        Self { answer, remark: Remark::default() }
    }
}

impl StillHeld {
    #[cfg(any(test, feature = "postgres", feature = "mysql", feature = "record"))]
    pub(crate) fn from_owned(is_owned: bool) -> Self {
        if is_owned { Self::Held } else { Self::Lost }
    }
}
