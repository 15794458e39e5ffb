//! What a backend is asked for, and what it answers.

use std::time::Duration;

use super::{LockName, Owner};
use crate::clock::Timestamp;

/// What a backend is asked for: this lock, for this run, for so long.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    /// How long the lock is to be ours, from the moment the backend grants or renews it.
    pub(crate) lease: Duration,
}

/// A lock that was granted, in the backend's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) locked_at: Timestamp,
    pub(crate) until: Timestamp,
}

/// What the backend says of a lock that somebody else holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// The owner as stored; a Java application's is its host name.
    pub(crate) owner: String,
    /// `None` where the row holds something that is no time.
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    /// How long the lock stays held unless it is renewed or released.
    pub(crate) left: Duration,
}
