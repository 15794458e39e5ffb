//! The two requests of an acquisition: the grant of an etcd lease, and the transaction that binds the lock's key to it.

use super::granted_leases::NewLease;
use super::granted_leases::RecordedRun;
use super::layout::{self, StoredLock, StoredTimes, acquired_times, lock_value};
use super::operations::Keys;
use super::operations::{self, RangePart};
use super::snapshot::Snapshot;
use super::wire::{Clock, Range};
use super::{Etcd, MAX_TRANSACTIONS, without_ambiguity};
use crate::lock::BackendError;
use crate::lock::{Claim, Grant, Purpose};
use crate::system::Moment;

impl Etcd {
    /// Acquires the lock with this lease if nobody holds it.
    pub(crate) fn acquire_lock(
        &mut self,
        claim: &Claim,
        mut snapshot: Snapshot,
        NewLease { id: lease, mut revision, clock }: NewLease,
    ) -> Result<Result<Grant, (Snapshot, Clock)>, BackendError> {
        let name = claim.name.as_str();
        let is_run = claim.purpose == Purpose::Run;
        let mut state = acquired_times(claim, clock.now, None);
        let recorded = is_run && claim.keep > 0;
        for _ in 0..MAX_TRANSACTIONS {
            if snapshot.lock.is_some() && !snapshot.is_of(&claim.owner) {
                return Ok(Err((snapshot, clock)));
            }
            // An earlier acquisition that has written since has another record than this one.
            revision = revision.max(snapshot.revision());
            // A pause is no run, and hides none.
            state.run = if is_run { Some(revision) } else { snapshot.state.as_ref().and_then(|state| state.run) };
            let lock = lock_value(state.since, claim.owner.as_str());
            let mut operations = vec![
                (Keys::Locks, operations::put(&self.space.lock(name), &lock, lease)),
                (Keys::States, operations::put(&self.space.state(name), &state.to_json(), 0)),
            ];
            operations.extend(self.former_run(claim, &snapshot).map(|key| (Keys::Runs, operations::delete(&key))));
            if recorded {
                let (from, to) = self.space.runs_of(name);
                let key = self.space.run(name, revision, claim.owner.as_str());
                operations.push((
                    Keys::Runs,
                    operations::put(&key, layout::begun_record(state.since).to_string().as_bytes(), 0),
                ));
                // The server counts the records one by one.
                if claim.prunes() {
                    operations.push((Keys::Runs, operations::get_between(&from, &to, RangePart::FirstKeys(1))));
                }
            }
            match self.write(name, &snapshot, &operations)? {
                // A proxy before etcd has sent the transaction twice: no other request names this lease.
                Err(now) if now.is_of(&claim.owner) && now.lease() == lease => {
                    return Ok(Ok(self.remember(claim, &state, lock, lease, (now.revision(), None))));
                }
                Err(now) => snapshot = now,
                Ok(outcome) => {
                    let counted = outcome.ranges.into_iter().next();
                    return Ok(Ok(self.remember(claim, &state, lock, lease, (outcome.revision, counted))));
                }
            }
        }
        Err(self.too_many_conflicts())
    }

    /// Remembers a lock that was acquired at a revision, with the count of its records.
    fn remember(
        &mut self,
        claim: &Claim,
        state: &StoredTimes,
        value: Vec<u8>,
        lease: i64,
        (revision, counted): (u64, Option<Range>),
    ) -> Grant {
        let (name, owner) = (claim.name.as_str().to_owned(), claim.owner.as_str().to_owned());
        let held = StoredLock { owner: owner.clone(), since: Some(state.since), value, revision, lease };
        self.cached = Some((name.clone(), Snapshot { lock: Some(held), state: Some(state.clone()) }));
        let Range { entries, count } = counted.unwrap_or_default();
        let oldest = entries.into_iter().next().map(|entry| entry.key);
        self.runs.retain(|run| run.owner != owner || run.name != name);
        let is_run = claim.purpose == Purpose::Run;
        if let (true, Some(number)) = (is_run, state.run) {
            // The latest time at which the lock can have been acquired.
            let acquired_at = Moment::now();
            self.runs.push(RecordedRun {
                name,
                owner,
                revision: number,
                since: state.since,
                acquired_at,
                all: count,
                oldest,
            });
        }
        Grant { locked_at: state.since, until: state.since + claim.lease, token: is_run.then_some(revision) }
    }

    /// Undoes the acquisitions whose answers were lost: revokes their leases, so that none is carried out later.
    pub(crate) fn undo_lost_acquisitions(&mut self) -> Result<(), BackendError> {
        while let Some(lease) = self.ambiguous_leases.last() {
            self.client.revoke(*lease).map_err(without_ambiguity)?;
            self.ambiguous_leases.pop();
        }
        Ok(())
    }
}
