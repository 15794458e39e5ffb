//! The two requests of a taking: a lease of etcd's, and the transaction that binds the lock's key to it.

use std::time::Duration;

use super::layout::{self, Held, State, seconds, taken, value};
use super::look::Look;
use super::rights::Keys;
use super::runs::Run;
use super::wire::{self, Clock, Outcome, Part};
use super::{Etcd, TRIES, only_read};
use crate::backend::BackendError;
use crate::lock::{Claim, Grant, Purpose};

impl Etcd {
    /// Grants a lease for a lock. Returns its id, the revision of the store before the lock is written, and the time.
    pub(super) fn grant(&mut self, duration: Duration) -> Result<(i64, u64, Clock), BackendError> {
        let random = getrandom::u64().map_err(|_| BackendError::transient("this host has no randomness"))?;
        let id = i64::try_from(random >> 1).unwrap_or(i64::MAX).max(1);
        let (revision, clock) = self.client.grant(id, seconds(duration))?;
        Ok((id, revision, clock))
    }

    /// Takes the lock with this lease if nobody holds it.
    pub(super) fn take(
        &mut self,
        claim: &Claim,
        mut look: Look,
        (lease, revision, clock): (i64, u64, Clock),
    ) -> Result<Result<Grant, (Look, Clock)>, BackendError> {
        let name = claim.name.as_str();
        let is_run = claim.purpose == Purpose::Run;
        let mut state = taken(claim, clock.now, is_run.then_some(revision));
        let recorded = is_run && claim.keep > 0;
        for _ in 0..TRIES {
            if look.lock.is_some() && !look.is_of(&claim.owner) && !look.is_over(clock) {
                return Ok(Err((look, clock)));
            }
            // A pause is no run, and hides none.
            if !is_run {
                state.run = look.state.as_ref().and_then(|state| state.run);
            }
            let lock = value(state.since, claim.owner.as_str());
            let mut operations = vec![
                (Keys::Locks, wire::put(&self.space.lock(name), &lock, lease)),
                (Keys::States, wire::put(&self.space.state(name), &state.to_json(), 0)),
            ];
            operations.extend(self.former_run(claim, &look).map(|key| (Keys::Runs, wire::delete(&key))));
            if recorded {
                let (from, to) = self.space.runs_of(name);
                let key = self.space.run(name, revision, claim.owner.as_str());
                operations.push((Keys::Runs, wire::put(&key, layout::begun(state.since).to_string().as_bytes(), 0)));
                // The server counts them one by one.
                if claim.prunes() {
                    operations.push((Keys::Runs, wire::get_between(&from, &to, Part::FirstKeys(1))));
                }
            }
            match self.write(name, &look, &operations)? {
                Err(now) => look = now,
                Ok(outcome) => {
                    self.note(claim, &state, lock, lease, revision, &outcome);
                    let token = is_run.then_some(outcome.revision);
                    return Ok(Ok(Grant { locked_at: state.since, until: state.since + claim.lease, token }));
                }
            }
        }
        Err(self.forestalled())
    }

    /// Remembers a lock that was taken.
    fn note(&mut self, claim: &Claim, state: &State, value: Vec<u8>, lease: i64, before: u64, outcome: &Outcome) {
        let (name, owner) = (claim.name.as_str().to_owned(), claim.owner.as_str().to_owned());
        let held = Held { owner: owner.clone(), since: Some(state.since), value, revision: outcome.revision, lease };
        self.known = Some((name.clone(), Look { lock: Some(held), state: Some(state.clone()) }));
        let wire::Range { entries, count } = outcome.ranges.first().cloned().unwrap_or_default();
        let oldest = entries.into_iter().next().map(|entry| entry.key);
        self.runs.retain(|run| run.owner != owner || run.name != name);
        if claim.purpose == Purpose::Run {
            self.runs.push(Run { name, owner, revision: before, since: state.since, all: count, oldest });
        }
    }

    /// Revokes the leases of takings whose answers were lost, so that none of them is carried out later.
    pub(super) fn make_void(&mut self) -> Result<(), BackendError> {
        while let Some(lease) = self.unclear.last() {
            self.client.revoke(*lease).map_err(only_read)?;
            self.unclear.pop();
        }
        Ok(())
    }
}
