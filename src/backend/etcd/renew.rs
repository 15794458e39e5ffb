//! The renewal of a lock: another lease for its key, unless the one that it has lasts long enough.

use super::layout::{StoredLock, StoredTimes, acquired_times};
use super::operations::Keys;
use super::snapshot::Snapshot;
use super::{Etcd, MAX_TRANSACTIONS, errors, operations};
use crate::lock::Claim;
use crate::lock::{BackendError, StillHeld};
use crate::system::Moment;

impl Etcd {
    /// Renews the lock if this owner holds it. Queries a lease of another process, such as that of an extension: the lease that
    /// etcd grants afterwards, for a whole number of seconds that is larger, does not end before it.
    pub(crate) fn renew_lock(&mut self, claim: &Claim) -> Result<StillHeld, BackendError> {
        let name = claim.name.as_str();
        let until = Moment::now() + claim.lease;
        // The cached state of the lock may be out of date.
        let (mut snapshot, mut is_cached) = self.cached_or_read(claim)?;
        for _ in 0..MAX_TRANSACTIONS {
            let Some(lock) = snapshot.lock.clone().filter(|lock| lock.is_of(claim.owner.as_str())) else {
                return Ok(StillHeld::Lost);
            };
            if is_cached && self.earliest_end(lock.lease).is_none_or(|end| end >= until) {
                (snapshot, is_cached) = (self.read_lock(name)?.0, false);
                continue;
            }
            if !is_cached && self.lasts_until(&lock, until)? {
                self.cached = Some((name.to_owned(), snapshot));
                return Ok(StillHeld::Held);
            }
            let lease = match self.grant(self.outlasting(lock.lease, claim.lease)) {
                Err(error) if errors::is_out_of_space(&error) => {
                    // The lock must still be this owner's: the cached state alone does not prove that.
                    if is_cached {
                        (snapshot, is_cached) = (self.read_lock(name)?.0, false);
                        continue;
                    }
                    return if self.extend_lease_until(&lock, until)? { Ok(StillHeld::Held) } else { Err(error) };
                }
                answer => answer?,
            };
            let run = snapshot.exact().and_then(|state| state.run);
            let since = lock.since.unwrap_or(lease.clock.now);
            let until = acquired_times(claim, lease.clock.now, None).until;
            let state = StoredTimes { owner: lock.owner.clone(), since, until, run };
            let operations = [
                (Keys::Locks, operations::put(&self.space.lock(name), &lock.value, lease.id)),
                (Keys::States, operations::put(&self.space.state(name), &state.to_json(), 0)),
            ];
            match self.write(name, &snapshot, &operations)? {
                Err(now) => {
                    // A proxy before etcd may have sent the transaction twice.
                    if now.lease() != lease.id {
                        let _ = self.client.revoke(lease.id);
                    }
                    (snapshot, is_cached) = (now, false);
                }
                Ok(outcome) => {
                    let lock = StoredLock { revision: outcome.revision, lease: lease.id, ..lock };
                    self.cached = Some((name.to_owned(), Snapshot { lock: Some(lock), state: Some(state) }));
                    return Ok(StillHeld::Held);
                }
            }
        }
        Err(self.too_many_conflicts())
    }
}
