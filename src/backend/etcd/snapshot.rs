//! The stored state of one lock, as its keys were read, and the state of the lock that follows from it.

use std::time::Duration;

use super::layout::{StoredLock, StoredTimes};
use super::wire::{Clock, Entry};
use crate::lock::{ENDLESS, LockState, Owner};

/// Characters kept of another owner.
const MAX_OWNER_CHARACTERS: usize = 255;
/// The time that a lock whose lease is over counts as held: etcd deletes its key about a second late.
pub(crate) const DELETION_DELAY: Duration = Duration::from_secs(1);

/// Holds the stored state of a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) lock: Option<StoredLock>,
    pub(crate) state: Option<StoredTimes>,
}

impl Snapshot {
    pub(crate) fn from_entries(lock: Option<Entry>, state: Option<Entry>) -> Self {
        Self { lock: lock.map(StoredLock::from_entry), state: state.and_then(|entry| StoredTimes::parse(&entry.value)) }
    }

    /// Returns the revision at which the lock's key was written last; zero if there is none.
    pub(crate) fn revision(&self) -> u64 {
        self.lock.as_ref().map_or(0, |lock| lock.revision)
    }

    /// Returns the lease of the lock's key; zero if there is none.
    pub(crate) fn lease(&self) -> i64 {
        self.lock.as_ref().map_or(0, |lock| lock.lease)
    }

    /// Returns whether this owner holds the lock.
    pub(crate) fn is_of(&self, owner: &Owner) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.is_of(owner.as_str()))
    }

    /// Returns whether this owner has released the lock, which may still be held for the rest of its time.
    pub(crate) fn was_released_by(&self, owner: &Owner) -> bool {
        let (ended, stored) = (owner.ended(), self.state.as_ref());
        match &self.lock {
            Some(lock) => lock.is_of(&ended),
            None => stored.is_some_and(|state| state.owner == ended),
        }
    }

    /// Returns the exact times of the lock, if they are those of its owner.
    pub(crate) fn exact(&self) -> Option<&StoredTimes> {
        let lock = self.lock.as_ref()?;
        self.state.as_ref().filter(|state| lock.is_of(&state.owner))
    }

    /// Describes a lock whose key exists. `lease` is the time that its lease has left, if that was asked for.
    pub(crate) fn describe(&self, clock: Clock, lease: Option<Duration>) -> Option<LockState> {
        let lock = self.lock.as_ref()?;
        let until = match (self.exact(), lease) {
            (Some(state), _) => Some(state.until),
            // etcd reports whole seconds, rounded down.
            (None, Some(lease)) => Some(clock.now + lease + Duration::from_secs(1)),
            (None, None) => None,
        };
        let left = match until {
            Some(until) => until.since(clock.now).max(DELETION_DELAY),
            None => ENDLESS,
        };
        Some(LockState {
            owner: lock.owner.chars().take(MAX_OWNER_CHARACTERS).collect(),
            since: lock.since,
            until,
            left,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Timestamp;

    /// The lease alone decides, whatever any clock says.
    #[test]
    fn a_lock_whose_key_is_there_is_held() {
        let clock = |now| Clock { earliest: Timestamp(now), now: Timestamp(now) };
        let snapshot = |owner: &str| Snapshot {
            lock: Some(StoredLock { owner: owner.to_owned(), since: None, value: Vec::new(), revision: 1, lease: 1 }),
            state: Some(StoredTimes {
                owner: owner.to_owned(),
                since: Timestamp(0),
                until: Timestamp(5_000),
                run: None,
            }),
        };
        let left = |owner: &str, now| snapshot(owner).describe(clock(now), None).unwrap().left;
        for owner in ["a", "a:ended"] {
            assert_eq!(left(owner, 9_000), DELETION_DELAY);
            assert_eq!(left(owner, 1_000), Duration::from_secs(4));
        }
    }
}
