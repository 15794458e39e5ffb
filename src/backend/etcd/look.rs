//! Looking at a lock, and writing it if it is still as it was seen.

use std::time::Duration;

use super::layout::{Held, State};
use super::rights::{Keys, Operation};
use super::wire::{self, Clock, Entry, Outcome, Range};
use super::{Etcd, only_read};
use crate::backend::{BackendError, FOR_EVER};
use crate::lock::{Claim, LockState, Owner};
use crate::system::Timestamp;

/// Characters kept of another owner.
const SHOWN: usize = 255;
/// The time that a lock whose lease is over counts as held: etcd deletes its key about a second late.
const LATE: Duration = Duration::from_secs(1);

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

    /// Returns whether the lock may be taken although its key exists: its job has ended, and so has the time that it
    /// stays held, which its lease outlives by a second or two.
    pub(super) fn is_over(&self, clock: Clock) -> bool {
        self.exact().is_some_and(|state| state.owner.ends_with(Owner::ENDED) && state.until <= clock.earliest)
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
            _ if self.is_over(clock) => Duration::ZERO,
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
        [(Keys::Locks, wire::get(&self.space.lock(name))), (Keys::States, wire::get(&self.space.state(name)))]
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
        let compare = [wire::is_at(&self.space.lock(name), look.revision())];
        let outcome = self.transact(&compare, operations, &self.reading(name))?;
        Ok(if outcome.succeeded { Ok(outcome) } else { Err(self.seen(&mut outcome.ranges.into_iter())) })
    }

    /// Returns what is known of a lock, or reads it.
    pub(super) fn known_or_look(&mut self, claim: &Claim) -> Result<Look, BackendError> {
        match self.known.take() {
            Some((name, look)) if name == claim.name.as_str() && look.is_of(&claim.owner) => Ok(look),
            _ => Ok(self.look(claim.name.as_str())?.0),
        }
    }

    /// Describes a lock that another owner holds. Asks for the time left of a lease of the Java library's.
    pub(super) fn describe(&mut self, look: &Look, clock: Clock) -> Result<Option<LockState>, BackendError> {
        let lease = look.lock.as_ref().filter(|lock| lock.lease != 0 && look.exact().is_none()).map(|lock| lock.lease);
        let left = match lease {
            None => None,
            // It ended just now: its key goes within the second.
            Some(lease) => Some(self.client.time_left(lease).map_err(only_read)?.unwrap_or_default()),
        };
        Ok(look.describe(clock, left))
    }

    /// Returns whether the owner holds the lock until this time already. Without the exact times, its lease says so.
    pub(super) fn is_held_until(
        &mut self,
        claim: &Claim,
        look: &Look,
        until: Timestamp,
        clock: Clock,
    ) -> Result<bool, BackendError> {
        let Some(lock) = look.lock.as_ref().filter(|_| look.is_of(&claim.owner)) else { return Ok(false) };
        let end = match look.exact() {
            Some(state) => Some(state.until),
            None if lock.lease == 0 => None,
            None => self.client.time_left(lock.lease).map_err(only_read)?.map(|left| clock.now + left),
        };
        Ok(end >= Some(until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that runs is protected by its lease alone, whatever any clock says.
    #[test]
    fn only_a_lock_whose_job_has_ended_is_over_before_its_key_is_gone() {
        let clock = |now| Clock { earliest: Timestamp(now), now: Timestamp(now) };
        let look = |owner: &str, of: &str| Look {
            lock: Some(Held { owner: owner.to_owned(), since: None, value: Vec::new(), revision: 1, lease: 1 }),
            state: Some(State { owner: of.to_owned(), since: Timestamp(0), until: Timestamp(5_000), run: None }),
        };
        assert!(look("a:ended", "a:ended").is_over(clock(5_000)));
        assert!(!look("a:ended", "a:ended").is_over(clock(4_999)));
        assert!(!look("a", "a").is_over(clock(9_000)));
        assert!(!look("b", "a:ended").is_over(clock(9_000)));
        assert!(!Look { state: None, ..look("a:ended", "a") }.is_over(clock(9_000)));
        let left = |owner: &str| look(owner, owner).describe(clock(9_000), None).unwrap().left;
        assert_eq!((left("a"), left("a:ended")), (LATE, Duration::ZERO));
    }
}
