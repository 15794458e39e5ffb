//! Looking at a lock, and writing it if it is still as it was seen.

use std::time::Duration;

use super::layout::{Held, State};
use super::leases::CUT;
use super::rights::{Keys, Operation};
use super::wire::{Clock, Entry, Outcome, Range};
use super::{Etcd, only_read, operations};
use crate::backend::{BackendError, FOR_EVER};
use crate::lock::{Claim, LockState, Owner};
use crate::system::Moment;

/// Characters kept of another owner.
const SHOWN: usize = 255;
/// The time that a lock whose lease is over counts as held: etcd deletes its key about a second late.
const LATE: Duration = Duration::from_secs(1);

/// Milliseconds by which the end that is stored beside a lock may differ from that of its lease, which is in seconds.
const AGREES: u64 = 2_000;

/// The stored state of a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) lock: Option<Held>,
    pub(super) state: Option<State>,
}

impl Look {
    pub(super) fn of(lock: Option<Entry>, state: Option<Entry>) -> Self {
        Self { lock: lock.map(Held::of), state: state.and_then(|entry| State::parse(&entry.value)) }
    }

    /// Returns the revision at which the lock's key was written last; zero if there is none.
    pub(super) fn revision(&self) -> u64 {
        self.lock.as_ref().map_or(0, |lock| lock.revision)
    }

    /// Returns the lease of the lock's key; zero if there is none.
    pub(super) fn lease(&self) -> i64 {
        self.lock.as_ref().map_or(0, |lock| lock.lease)
    }

    /// Returns whether this owner holds the lock.
    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.is_of(owner.as_str()))
    }

    /// Returns whether this owner has released the lock, which may still be held for the rest of its time.
    pub(super) fn was_released_by(&self, owner: &Owner) -> bool {
        let (ended, stored) = (owner.ended(), self.state.as_ref());
        match &self.lock {
            Some(lock) => lock.is_of(&ended),
            None => stored.is_some_and(|state| state.owner == ended),
        }
    }

    /// Returns the exact times of the lock, if they are those of its owner.
    pub(super) fn exact(&self) -> Option<&State> {
        let lock = self.lock.as_ref()?;
        self.state.as_ref().filter(|state| lock.is_of(&state.owner))
    }

    /// Describes a lock whose key exists. `lease` is the time that its lease has left, if that was asked for.
    pub(super) fn describe(&self, clock: Clock, lease: Option<Duration>) -> Option<LockState> {
        let lock = self.lock.as_ref()?;
        let until = match (self.exact(), lease) {
            (Some(state), _) => Some(state.until),
            // etcd tells whole seconds, rounded down.
            (None, Some(lease)) => Some(clock.now + lease + Duration::from_secs(1)),
            (None, None) => None,
        };
        let left = match until {
            Some(until) => until.since(clock.now).max(LATE),
            None => FOR_EVER,
        };
        Some(LockState { owner: lock.owner.chars().take(SHOWN).collect(), since: lock.since, until, left })
    }
}

impl Etcd {
    /// Reads a lock.
    pub(super) fn look(&mut self, name: &str) -> Result<(Look, Clock), BackendError> {
        let outcome = self.transact(&[], &self.reading(name), &[]).map_err(only_read)?;
        Ok((self.seen(&mut outcome.ranges.into_iter()), outcome.clock))
    }

    pub(super) fn reading(&self, name: &str) -> [Operation; 2] {
        [
            (Keys::Locks, operations::get(&self.space.lock(name))),
            (Keys::States, operations::get(&self.space.state(name))),
        ]
    }

    /// Decodes the answers to `reading`.
    pub(super) fn seen(&self, ranges: &mut impl Iterator<Item = Range>) -> Look {
        let mut first = || ranges.next().and_then(|range| range.entries.into_iter().next());
        let lock = first();
        Look::of(lock, if self.permitted >= Keys::States { first() } else { None })
    }

    /// Carries out the operations if the lock's key is as it was read; otherwise returns what it is now.
    pub(super) fn write(
        &mut self,
        name: &str,
        look: &Look,
        operations: &[Operation],
    ) -> Result<Result<Outcome, Look>, BackendError> {
        let compare = [operations::is_at(&self.space.lock(name), look.revision())];
        let outcome = self.transact(&compare, operations, &self.reading(name))?;
        Ok(if outcome.succeeded { Ok(outcome) } else { Err(self.seen(&mut outcome.ranges.into_iter())) })
    }

    /// Returns what is known of a lock and true, or reads it.
    pub(super) fn known_or_look(&mut self, claim: &Claim) -> Result<(Look, bool), BackendError> {
        match self.known.take() {
            Some((name, look)) if name == claim.name.as_str() && look.is_of(&claim.owner) => Ok((look, true)),
            _ => Ok((self.look(claim.name.as_str())?.0, false)),
        }
    }

    /// Describes a lock that another owner holds. Asks for the time left of a lease of the Java library's.
    pub(super) fn describe(&mut self, look: &Look, clock: Clock) -> Result<Option<LockState>, BackendError> {
        let lease = look.lock.as_ref().filter(|lock| lock.lease != 0 && look.exact().is_none()).map(|lock| lock.lease);
        let left = match lease {
            None => None,
            // It ended just now: its key goes within the second.
            Some(lease) => {
                Some(self.client.lease(lease).map_err(only_read)?.map_or(Duration::ZERO, |lease| lease.left))
            }
        };
        Ok(look.describe(clock, left))
    }

    /// Describes a lock that is asked for by its name, by what its lease has left: at least that of a lock whose job may run on,
    /// and at most that of one that is kept.
    pub(super) fn measure(&mut self, look: &Look, clock: Clock) -> Result<Option<LockState>, BackendError> {
        let Some(lock) = look.lock.as_ref().filter(|lock| lock.lease != 0) else {
            return Ok(look.describe(clock, None));
        };
        let now = Moment::now();
        let left = match self.end_of(lock.lease) {
            Some(end) => end.since(now),
            None => self.client.lease(lock.lease).map_err(only_read)?.map_or(Duration::ZERO, |lease| lease.left),
        };
        let run = self.runs.iter().find(|run| run.owner == lock.owner);
        // By the clock of the member that this process had its times from.
        let end = run.map_or(clock.now, |run| run.since + now.since(run.taken)) + left;
        let is_kept = lock.owner.ends_with(Owner::ENDED);
        Ok(look.describe(clock, Some(left)).map(|state| LockState {
            until: state.until.filter(|until| until.0.abs_diff(end.0) <= AGREES).or(Some(end)),
            left: if is_kept { left + CUT } else { left.max(LATE) },
            ..state
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Timestamp;

    /// Whatever any clock says, the lease alone decides.
    #[test]
    fn a_lock_whose_key_is_there_is_held() {
        let clock = |now| Clock { earliest: Timestamp(now), now: Timestamp(now) };
        let look = |owner: &str| Look {
            lock: Some(Held { owner: owner.to_owned(), since: None, value: Vec::new(), revision: 1, lease: 1 }),
            state: Some(State { owner: owner.to_owned(), since: Timestamp(0), until: Timestamp(5_000), run: None }),
        };
        let left = |owner: &str, now| look(owner).describe(clock(now), None).unwrap().left;
        for owner in ["a", "a:ended"] {
            assert_eq!(left(owner, 9_000), LATE);
            assert_eq!(left(owner, 1_000), Duration::from_secs(4));
        }
    }
}
