//! The two requests of a taking: a lease of etcd's, and the transaction that binds the lock's key to it.

use super::layout::{self, Held, State, taken, value};
use super::leases::NewLease;
use super::look::Look;
use super::operations::{self, Part};
use super::rights::Keys;
use super::runs::Run;
use super::wire::{Clock, Range};
use super::{Etcd, TRIES, only_read};
use crate::backend::BackendError;
use crate::lock::{Claim, Grant, Purpose};
use crate::system::Moment;

impl Etcd {
    /// Takes the lock with this lease if nobody holds it.
    pub(super) fn take(
        &mut self,
        claim: &Claim,
        mut look: Look,
        NewLease { id: lease, mut revision, clock }: NewLease,
    ) -> Result<Result<Grant, (Look, Clock)>, BackendError> {
        let name = claim.name.as_str();
        let is_run = claim.purpose == Purpose::Run;
        let mut state = taken(claim, clock.now, None);
        let recorded = is_run && claim.keep > 0;
        for _ in 0..TRIES {
            if look.lock.is_some() && !look.is_of(&claim.owner) {
                return Ok(Err((look, clock)));
            }
            // What an earlier taking has written since is another record than that of this one.
            revision = revision.max(look.revision());
            // A pause is no run, and hides none.
            state.run = if is_run { Some(revision) } else { look.state.as_ref().and_then(|state| state.run) };
            let lock = value(state.since, claim.owner.as_str());
            let mut operations = vec![
                (Keys::Locks, operations::put(&self.space.lock(name), &lock, lease)),
                (Keys::States, operations::put(&self.space.state(name), &state.to_json(), 0)),
            ];
            operations.extend(self.former_run(claim, &look).map(|key| (Keys::Runs, operations::delete(&key))));
            if recorded {
                let (from, to) = self.space.runs_of(name);
                let key = self.space.run(name, revision, claim.owner.as_str());
                operations
                    .push((Keys::Runs, operations::put(&key, layout::begun(state.since).to_string().as_bytes(), 0)));
                // The server counts them one by one.
                if claim.prunes() {
                    operations.push((Keys::Runs, operations::get_between(&from, &to, Part::FirstKeys(1))));
                }
            }
            match self.write(name, &look, &operations)? {
                // What came between us and etcd has sent it twice: no other request names this lease.
                Err(now) if now.is_of(&claim.owner) && now.lease() == lease => {
                    return Ok(Ok(self.note(claim, &state, lock, lease, (now.revision(), None))));
                }
                Err(now) => look = now,
                Ok(outcome) => {
                    let counted = outcome.ranges.into_iter().next();
                    return Ok(Ok(self.note(claim, &state, lock, lease, (outcome.revision, counted))));
                }
            }
        }
        Err(self.forestalled())
    }

    /// Remembers a lock that was taken at a revision, with the count of its records.
    fn note(
        &mut self,
        claim: &Claim,
        state: &State,
        value: Vec<u8>,
        lease: i64,
        (revision, counted): (u64, Option<Range>),
    ) -> Grant {
        let (name, owner) = (claim.name.as_str().to_owned(), claim.owner.as_str().to_owned());
        let held = Held { owner: owner.clone(), since: Some(state.since), value, revision, lease };
        self.known = Some((name.clone(), Look { lock: Some(held), state: Some(state.clone()) }));
        let Range { entries, count } = counted.unwrap_or_default();
        let oldest = entries.into_iter().next().map(|entry| entry.key);
        self.runs.retain(|run| run.owner != owner || run.name != name);
        let is_run = claim.purpose == Purpose::Run;
        if let (true, Some(number)) = (is_run, state.run) {
            // The latest time at which it can have been taken.
            let taken = Moment::now();
            self.runs.push(Run { name, owner, revision: number, since: state.since, taken, all: count, oldest });
        }
        Grant { locked_at: state.since, until: state.since + claim.lease, token: is_run.then_some(revision) }
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
