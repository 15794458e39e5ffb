//! What a backend is asked for, and what it answers.

use std::time::Duration;

use super::{LockName, Owner};
use crate::system::Timestamp;

/// What a backend is asked for: this lock, for this run, for so long.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    /// How long the lock is to be ours, from the moment the backend grants or renews it.
    pub(crate) lease: Duration,
    /// How many runs of the lock the history keeps.
    pub(crate) keep: u32,
    pub(crate) purpose: Purpose,
}

/// What a lock is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Run,
    /// A pause is no run: it leaves no record, draws no token, and outlives a reboot.
    Pause,
}

/// A lock that is to change hands, or its end: only if it is held by `from`.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) name: LockName,
    /// The owner as it is stored.
    pub(crate) from: String,
    /// The owner to be stored. Another one holds it from now on.
    pub(crate) to: String,
    /// For how long the lock is held from now on; zero frees it.
    pub(crate) left: Duration,
}

/// A lock that was granted, in the backend's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) locked_at: Timestamp,
    pub(crate) until: Timestamp,
    /// The fencing token: larger than that of every taking of the lock before. `None` where the backend may keep no history.
    pub(crate) token: Option<u64>,
}

/// What becomes of the history's record of a taking when the lock is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// A run came of it, and this of the run. Of what was done under a handle nobody need know a code.
    Ended { verdict: RunOutcome, exit_code: Option<u8> },
    /// No job has run under it: the record goes.
    Unused,
    /// The same, and a request for it may still be on its way: a mark refuses that when it arrives.
    GivenUp,
}

/// How a run ended, in the words of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    Success,
    Failure,
    /// At-most was used up and the job was stopped.
    Expired,
    /// The lock was lost and the job was stopped.
    Lost,
    /// The command could not be started.
    Error,
}

impl RunOutcome {
    /// As it is stored.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Expired => "expired",
            Self::Lost => "lost",
            Self::Error => "error",
        }
    }
}

/// What the backend says of a lock that somebody else holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockState {
    /// The owner as stored; a Java application's is its host name.
    pub(crate) owner: String,
    /// `None` where the row holds something that is no time.
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    /// How long the lock stays held unless it is renewed or released.
    pub(crate) left: Duration,
}
