//! The requests to a backend, and its answers.

use std::time::Duration;

use super::{LockName, Owner};
use crate::system::Timestamp;

/// The time that a lock without an end counts as held: ten years. Only people and other programs make such locks.
pub(crate) const ENDLESS: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The request for a lock: its name, the owner, and the lease.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    /// The time for which to hold the lock, from when the backend grants or renews it.
    pub(crate) lease: Duration,
    /// The number of runs that the history keeps.
    pub(crate) keep: u32,
    pub(crate) purpose: Purpose,
}

/// A release removes the oldest records with a chance of one in `keep / PRUNE_SHARE`, so that a history has a twentieth more
/// than it keeps, on average.
#[cfg(any(test, feature = "sqlite", feature = "postgres", feature = "mysql", feature = "etcd"))]
const PRUNE_SHARE: u32 = 20;

#[cfg(any(test, feature = "sqlite", feature = "postgres", feature = "mysql", feature = "etcd"))]
impl Claim {
    /// Returns whether the release removes the oldest records, where finding them takes the backend longer the more there
    /// are. The owner's random number decides, so that nothing has to be counted or remembered, and a repeated release
    /// does the same again. A short history is pruned each time.
    pub(crate) fn prunes(&self) -> bool {
        self.owner.random().is_multiple_of(u64::from((self.keep / PRUNE_SHARE).max(1)))
    }
}

/// The purpose of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Run,
    /// A pause: it has no record and no token, and survives a reboot.
    Pause,
}

/// A change of a lock's owner or end, which applies only while `from` holds the lock.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) name: LockName,
    /// The owner as stored.
    pub(crate) from: String,
    /// The new owner.
    pub(crate) to: String,
    /// The time for which the lock is held from now on; zero frees it.
    pub(crate) left: Duration,
}

/// The removal of a lock and its history. It applies only while the lock is free and its last owner is the one that was seen.
#[derive(Debug, Clone)]
pub(crate) struct Removal {
    pub(crate) name: LockName,
    /// The last owner as listed; empty if no owner is known.
    #[cfg_attr(
        not(any(test, feature = "postgres", feature = "mysql", feature = "sqlite", feature = "record")),
        expect(dead_code, reason = "Redis and etcd delete the key of a free lock, and its owner with it")
    )]
    pub(crate) seen: String,
    /// The age from which on the marks of undone acquisitions are removed, too: the time that a request may still be on its way.
    #[cfg_attr(
        not(any(test, feature = "postgres", feature = "mysql")),
        expect(dead_code, reason = "elsewhere the marks go by themselves, or there are none")
    )]
    pub(crate) mark_age: Duration,
}

impl Removal {
    pub(crate) fn new(name: LockName, seen: String) -> Self {
        Self { name, seen, mark_age: Duration::from_secs(3600) }
    }
}

/// A lock that was granted, in the backend's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) locked_at: Timestamp,
    pub(crate) until: Timestamp,
    /// The fencing token, larger than every earlier one of the lock. `None` if the backend may keep no history.
    pub(crate) token: Option<u64>,
}

/// The end of a run's record in the history, when the lock is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The run ended with this outcome. A lock released by its handle may have no exit code.
    Ended { outcome: RunOutcome, exit_code: Option<u8> },
    /// No job ran under the lock: the record is removed.
    Unused,
    /// The acquisition is undone while a request may still be in flight: a mark makes the backend refuse it when it arrives.
    Undone,
}

/// How a run ended, in the words of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    Success,
    Failure,
    /// At-most was used up, and the job was stopped.
    Expired,
    /// The lock was lost, and the job was stopped.
    Lost,
    /// The command could not be started.
    Error,
}

impl RunOutcome {
    /// Returns the word that is stored.
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

/// The state of a lock as the backend stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockState {
    /// The owner as stored; for a Java application its host name.
    pub(crate) owner: String,
    /// `None` if the stored value is not a time.
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    /// How long the lock stays held unless it is renewed or released.
    pub(crate) left: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_history_is_pruned_each_time_and_a_long_one_now_and_then() {
        let prunings = |keep| {
            let owners = (0..2000).map(|random| Owner::new("a:host", 7, random).with_at_least(Duration::from_secs(1)));
            let claims = owners.map(|owner| Claim {
                name: LockName::new("job").unwrap(),
                owner,
                lease: Duration::from_secs(1),
                keep,
                purpose: Purpose::Run,
            });
            claims.filter(Claim::prunes).count()
        };
        assert_eq!([0, 1, 3, 39].map(prunings), [2000; 4]);
        assert_eq!([40, 100, 1000, u32::MAX].map(prunings), [1000, 400, 40, 1]);
    }
}
