//! The release of a lock: its key is deleted, or gets a lease for the rest of the time that it stays held.

use std::time::Duration;

use super::layout::{Held, State, value};
use super::look::Look;
use super::rights::{Keys, Operation};
use super::wire::{Clock, Outcome};
use super::{Etcd, TRIES, errors, operations};
use crate::backend::{BackendError, Kept, Remark, Reply};
use crate::lock::{Claim, Closing};
use crate::system::{Moment, Timestamp};

/// The most by which the end by the present clock may be later than the one by the clock of the taking, for that one to be shown.
const ROUNDING: Duration = Duration::from_secs(2);

impl Etcd {
    /// Gives the lock back if this owner holds it, and closes the run's record.
    pub(super) fn give_back(
        &mut self,
        claim: &Claim,
        hold: Duration,
        closing: Closing,
    ) -> Result<Reply<Kept>, BackendError> {
        self.make_void()?;
        let name = claim.name.as_str();
        let (mut look, mut clock) = self.look(name)?;
        for _ in 0..TRIES {
            let mut operations = self.closing(claim, &look, clock.now, closing)?;
            let held = look.lock.clone().filter(|lock| lock.is_of(claim.owner.as_str()));
            // Without the exact times nothing is left of a lock that was freed.
            let is_freed = || look.lock.is_none() && self.freed.as_deref() == Some(claim.owner.as_str());
            let kept = if look.was_released_by(&claim.owner) || self.permitted == Keys::Locks && is_freed() {
                return Ok(Kept::Kept.into());
            } else if let Some(lock) = &held {
                operations.splice(0..0, self.freeing(claim, &look, lock, hold, clock)?);
                Kept::Kept
            } else if operations.is_empty() {
                return Ok(Kept::Lost.into());
            } else {
                Kept::Lost
            };
            let (written, unrecorded) = match self.write(name, &look, &operations) {
                Err(error) if errors::is_of_space(&error) => {
                    self.write_without_space(name, &look, &operations, error)?
                }
                answer => (answer?, None),
            };
            match written {
                Err(_) => (look, clock) = self.look(name)?,
                Ok(outcome) => {
                    self.known = None;
                    // The lock is free. What follows only tidies up; a lease that goes on may be that of the hold.
                    if let Some(lock) = held.filter(|lock| lock.lease != 0 && self.held_by != Some(lock.lease)) {
                        let _ = self.client.revoke(lock.lease);
                    }
                    let _ = self.prune(claim, &outcome);
                    let has_ended = matches!(closing, Closing::Ended { .. });
                    let unrecorded = unrecorded.or_else(|| self.unrecorded(claim).filter(|_| has_ended));
                    return Ok(Reply { answer: kept, remark: Remark { unrecorded, cut: None } });
                }
            }
        }
        Err(self.forestalled())
    }

    /// Returns the operations that free a lock, or leave it to a lease for the rest of its hold.
    fn freeing(
        &mut self,
        claim: &Claim,
        look: &Look,
        lock: &Held,
        hold: Duration,
        clock: Clock,
    ) -> Result<[Operation; 2], BackendError> {
        let (name, ended) = (claim.name.as_str(), claim.owner.ended());
        // The server's clock may have been set back after the taking.
        let since = lock.since.unwrap_or(clock.now).min(clock.now);
        let rest = self.rest(claim, lock, hold)?;
        self.held_by = None;
        let operation = match rest.is_zero() {
            true => {
                self.freed = Some(claim.owner.as_str().to_owned());
                operations::delete(&self.space.lock(name))
            }
            false => {
                let lease = match self.grant(rest) {
                    Ok(lease) => lease.id,
                    // Rather held for longer than not for long enough.
                    Err(error) if errors::is_of_space(&error) => {
                        let until = Moment::now() + rest;
                        if !self.lasts(lock, until)? && !self.lasts_again(lock, until)? {
                            return Err(error);
                        }
                        self.held_by = Some(lock.lease);
                        lock.lease
                    }
                    Err(error) => return Err(error),
                };
                operations::put(&self.space.lock(name), &value(since, &ended), lease)
            }
        };
        let until = match rest.is_zero() {
            true => clock.now,
            false => shown(since + hold, clock.now + rest),
        };
        let state = State { owner: ended, since, until, run: look.exact().and_then(|state| state.run) };
        let state = operations::put(&self.space.state(name), &state.to_json(), 0);
        Ok([(Keys::Locks, operation), (Keys::States, state)])
    }

    /// Carries out a release on a server that has no space for it as it is: within another transaction, or at least the deletion.
    /// The reason is returned if the record stays open.
    fn write_without_space(
        &mut self,
        name: &str,
        look: &Look,
        operations: &[Operation],
        error: BackendError,
    ) -> Result<(Result<Outcome, Look>, Option<BackendError>), BackendError> {
        let within: Vec<Operation> = operations.iter().map(|(keys, all)| (*keys, operations::within(all))).collect();
        match self.write(name, look, &within) {
            Err(again) if errors::is_of_space(&again) => match operations.first() {
                Some((_, first)) if operations::deletes(first) => {
                    Ok((self.write(name, look, &operations[..1])?, Some(error)))
                }
                _ => Err(error),
            },
            answer => Ok((answer?, None)),
        }
    }
}

/// Returns the end of a hold that is shown: the one by the clock that tells the taking, if the present one agrees with it.
fn shown(by_taking: Timestamp, by_now: Timestamp) -> Timestamp {
    let is_near = by_now >= by_taking && by_now.since(by_taking) <= ROUNDING;
    if is_near { by_taking } else { by_now }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_that_is_shown_is_never_far_from_the_lease_s() {
        for (by_taking, by_now, end) in
            [(5_000, 5_000, 5_000), (5_000, 7_000, 5_000), (5_000, 7_001, 7_001), (5_000, 4_000, 4_000)]
        {
            assert_eq!(shown(Timestamp(by_taking), Timestamp(by_now)), Timestamp(end));
        }
    }
}
