//! Reads and writes of a lock. A write is carried out only if the lock is still as it was read.

use std::time::Duration;

use super::granted_leases::LEASE_ROUNDING;
use super::operations::{self, Keys, Operation};
use super::snapshot::{DELETION_DELAY, Snapshot};
use super::wire::{Clock, Range, TransactionResult};
use super::{Etcd, without_ambiguity};
use crate::lock::{BackendError, Claim, LockState, Owner};
use crate::system::Moment;

/// Milliseconds by which the end that is stored beside a lock may differ from that of its lease, which is in seconds.
const END_TOLERANCE_MS: u64 = 2_000;

impl Etcd {
    /// Reads a lock.
    pub(crate) fn read_lock(&mut self, name: &str) -> Result<(Snapshot, Clock), BackendError> {
        let outcome = self.transact(&[], &self.read_operations(name), &[]).map_err(without_ambiguity)?;
        Ok((self.decode(&mut outcome.ranges.into_iter()), outcome.clock))
    }

    pub(crate) fn read_operations(&self, name: &str) -> [Operation; 2] {
        [
            (Keys::Locks, operations::get(&self.space.lock(name))),
            (Keys::States, operations::get(&self.space.state(name))),
        ]
    }

    /// Decodes the answers to the operations that read a lock.
    pub(crate) fn decode(&self, ranges: &mut impl Iterator<Item = Range>) -> Snapshot {
        let mut first = || ranges.next().and_then(|range| range.entries.into_iter().next());
        let lock = first();
        Snapshot::from_entries(lock, if self.permitted_keys >= Keys::States { first() } else { None })
    }

    /// Carries out the operations if the lock's key is as it was read; otherwise returns the present state of the lock.
    pub(crate) fn write(
        &mut self,
        name: &str,
        snapshot: &Snapshot,
        operations: &[Operation],
    ) -> Result<Result<TransactionResult, Snapshot>, BackendError> {
        let compare = [operations::is_at(&self.space.lock(name), snapshot.revision())];
        let outcome = self.transact(&compare, operations, &self.read_operations(name))?;
        Ok(if outcome.succeeded { Ok(outcome) } else { Err(self.decode(&mut outcome.ranges.into_iter())) })
    }

    /// Returns the cached state of a lock and true, or reads it and returns false.
    pub(crate) fn cached_or_read(&mut self, claim: &Claim) -> Result<(Snapshot, bool), BackendError> {
        match self.cached.take() {
            Some((name, snapshot)) if name == claim.name.as_str() && snapshot.is_of(&claim.owner) => {
                Ok((snapshot, true))
            }
            _ => Ok((self.read_lock(claim.name.as_str())?.0, false)),
        }
    }

    /// Describes a lock that another owner holds. Asks for the time left of a lease of the Java library's.
    pub(crate) fn describe(&mut self, snapshot: &Snapshot, clock: Clock) -> Result<Option<LockState>, BackendError> {
        let lease =
            snapshot.lock.as_ref().filter(|lock| lock.lease != 0 && snapshot.exact().is_none()).map(|lock| lock.lease);
        let left = match lease {
            None => None,
            // The lease ended just now: etcd deletes its key within the second.
            Some(lease) => {
                Some(self.client.lease(lease).map_err(without_ambiguity)?.map_or(Duration::ZERO, |lease| lease.left))
            }
        };
        Ok(snapshot.describe(clock, left))
    }

    /// Describes a lock that a person names, by the time that its lease has left: at least that of a lock whose job may run on,
    /// and at most that of one that is kept.
    pub(crate) fn describe_by_lease(
        &mut self,
        snapshot: &Snapshot,
        clock: Clock,
    ) -> Result<Option<LockState>, BackendError> {
        let Some(lock) = snapshot.lock.as_ref().filter(|lock| lock.lease != 0) else {
            return Ok(snapshot.describe(clock, None));
        };
        let now = Moment::now();
        let left = match self.earliest_end(lock.lease) {
            Some(end) => end.since(now),
            None => {
                self.client.lease(lock.lease).map_err(without_ambiguity)?.map_or(Duration::ZERO, |lease| lease.left)
            }
        };
        let run = self.runs.iter().find(|run| run.owner == lock.owner);
        // The end is by the clock of the member that gave this process its times.
        let end = run.map_or(clock.now, |run| run.since + now.since(run.acquired_at)) + left;
        let is_kept = lock.owner.ends_with(Owner::ENDED_SUFFIX);
        Ok(snapshot.describe(clock, Some(left)).map(|state| LockState {
            until: state.until.filter(|until| until.0.abs_diff(end.0) <= END_TOLERANCE_MS).or(Some(end)),
            left: if is_kept { left + LEASE_ROUNDING } else { left.max(DELETION_DELAY) },
            ..state
        }))
    }
}
