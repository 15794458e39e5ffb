//! The release of a lock: its key is deleted, or gets a lease for the rest of the time that it stays held.

use std::time::Duration;

use super::layout::{StoredLock, StoredTimes, lock_value};
use super::operations::{Keys, Operation};
use super::snapshot::Snapshot;
use super::wire::{Clock, TransactionResult};
use super::{Etcd, MAX_TRANSACTIONS, errors, operations};
use crate::lock::{BackendError, Remark, Reply, StillHeld};
use crate::lock::{Claim, Closing};
use crate::system::{Moment, Timestamp};

/// The most by which the end by the present clock may be later than that by the clock of the acquisition, for the latter to be
/// shown.
const SHOWN_END_TOLERANCE: Duration = Duration::from_secs(2);

impl Etcd {
    /// Releases the lock if this owner holds it, and closes the run's record.
    pub(crate) fn release_lock(
        &mut self,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
    ) -> Result<Reply<StillHeld>, BackendError> {
        self.undo_lost_acquisitions()?;
        let name = claim.name.as_str();
        let (mut snapshot, mut clock) = self.read_lock(name)?;
        for _ in 0..MAX_TRANSACTIONS {
            let mut operations = self.closing_operations(claim, &snapshot, clock.now, closing)?;
            let held = snapshot.lock.clone().filter(|lock| lock.is_of(claim.owner.as_str()));
            // Without the exact times nothing is left of a lock that was freed.
            let is_freed = || snapshot.lock.is_none() && self.freed_owner.as_deref() == Some(claim.owner.as_str());
            let still_held =
                if snapshot.was_released_by(&claim.owner) || self.permitted_keys == Keys::Locks && is_freed() {
                    return Ok(StillHeld::Held.into());
                } else if let Some(lock) = &held {
                    operations.splice(0..0, self.freeing_operations(claim, &snapshot, lock, hold, clock)?);
                    StillHeld::Held
                } else if operations.is_empty() {
                    return Ok(StillHeld::Lost.into());
                } else {
                    StillHeld::Lost
                };
            let (written, unrecorded) = match self.write(name, &snapshot, &operations) {
                Err(error) if errors::is_out_of_space(&error) => {
                    self.write_without_space(name, &snapshot, &operations, error)?
                }
                answer => (answer?, None),
            };
            match written {
                Err(_) => (snapshot, clock) = self.read_lock(name)?,
                Ok(outcome) => {
                    self.cached = None;
                    // The lock is free. What follows only tidies up; a lease that goes on may be that of the hold.
                    if let Some(lock) = held.filter(|lock| lock.lease != 0 && self.hold_lease != Some(lock.lease)) {
                        let _ = self.client.revoke(lock.lease);
                    }
                    let _ = self.prune(claim, &outcome);
                    let has_ended = matches!(closing, Closing::Ended { .. });
                    let unrecorded = unrecorded.or_else(|| self.unrecorded(claim).filter(|_| has_ended));
                    return Ok(Reply { answer: still_held, remark: Remark { unrecorded, cut: None } });
                }
            }
        }
        Err(self.too_many_conflicts())
    }

    /// Returns the operations that free a lock, or leave it to a lease for the rest of its hold.
    fn freeing_operations(
        &mut self,
        claim: &Claim,
        snapshot: &Snapshot,
        lock: &StoredLock,
        hold: Duration,
        clock: Clock,
    ) -> Result<[Operation; 2], BackendError> {
        let (name, ended) = (claim.name.as_str(), claim.owner.ended());
        // The server's clock may have been set back after the acquisition.
        let since = lock.since.unwrap_or(clock.now).min(clock.now);
        let remaining = self.remaining_hold(claim, lock, hold)?;
        self.hold_lease = None;
        let operation = match remaining.is_zero() {
            true => {
                self.freed_owner = Some(claim.owner.as_str().to_owned());
                operations::delete(&self.space.lock(name))
            }
            false => {
                let lease = match self.grant(remaining) {
                    Ok(lease) => lease.id,
                    // The hold may be longer than asked for, but not shorter.
                    Err(error) if errors::is_out_of_space(&error) => {
                        let until = Moment::now() + remaining;
                        if !self.lasts_until(lock, until)? && !self.extend_lease_until(lock, until)? {
                            return Err(error);
                        }
                        self.hold_lease = Some(lock.lease);
                        lock.lease
                    }
                    Err(error) => return Err(error),
                };
                operations::put(&self.space.lock(name), &lock_value(since, &ended), lease)
            }
        };
        let until = match remaining.is_zero() {
            true => clock.now,
            false => displayed_end(since + hold, clock.now + remaining),
        };
        let state = StoredTimes { owner: ended, since, until, run: snapshot.exact().and_then(|state| state.run) };
        let state = operations::put(&self.space.state(name), &state.to_json(), 0);
        Ok([(Keys::Locks, operation), (Keys::States, state)])
    }

    /// Carries out a release on a server that has no space for it as it is: within another transaction, or at least the deletion.
    /// The reason is returned if the record stays open.
    fn write_without_space(
        &mut self,
        name: &str,
        snapshot: &Snapshot,
        operations: &[Operation],
        error: BackendError,
    ) -> Result<(Result<TransactionResult, Snapshot>, Option<BackendError>), BackendError> {
        let within: Vec<Operation> = operations.iter().map(|(keys, all)| (*keys, operations::within(all))).collect();
        match self.write(name, snapshot, &within) {
            Err(again) if errors::is_out_of_space(&again) => match operations.first() {
                Some((_, first)) if operations::deletes(first) => {
                    Ok((self.write(name, snapshot, &operations[..1])?, Some(error)))
                }
                _ => Err(error),
            },
            answer => Ok((answer?, None)),
        }
    }
}

/// Returns the end of a hold that is shown: the one by the clock of the acquisition, if the present clock agrees.
fn displayed_end(by_acquisition: Timestamp, by_now: Timestamp) -> Timestamp {
    let is_near = by_now >= by_acquisition && by_now.since(by_acquisition) <= SHOWN_END_TOLERANCE;
    if is_near { by_acquisition } else { by_now }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_that_is_shown_is_never_far_from_the_lease_s() {
        for (by_acquisition, by_now, end) in
            [(5_000, 5_000, 5_000), (5_000, 7_000, 5_000), (5_000, 7_001, 7_001), (5_000, 4_000, 4_000)]
        {
            assert_eq!(displayed_end(Timestamp(by_acquisition), Timestamp(by_now)), Timestamp(end));
        }
    }
}
