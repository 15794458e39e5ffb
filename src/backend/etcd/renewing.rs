//! The renewal of a lock: another lease for its key, unless the one that it has lasts long enough.

use super::layout::{Held, State, taken};
use super::look::Look;
use super::rights::Keys;
use super::{Etcd, TRIES, errors, operations};
use crate::backend::{BackendError, Kept};
use crate::lock::Claim;
use crate::system::Moment;

impl Etcd {
    /// Renews the lock if this owner holds it. A lease that is another process's, such as that of an extension, is asked for: the
    /// one that is granted afterwards, for a whole number of seconds that is larger, does not end before it.
    pub(super) fn keep(&mut self, claim: &Claim) -> Result<Kept, BackendError> {
        let name = claim.name.as_str();
        let until = Moment::now() + claim.lease;
        // What this process knows of the lock may be out of date.
        let (mut look, mut is_known) = self.known_or_look(claim)?;
        for _ in 0..TRIES {
            let Some(lock) = look.lock.clone().filter(|lock| lock.is_of(claim.owner.as_str())) else {
                return Ok(Kept::Lost);
            };
            if is_known && self.end_of(lock.lease).is_none_or(|end| end >= until) {
                (look, is_known) = (self.look(name)?.0, false);
                continue;
            }
            if !is_known && self.lasts(&lock, until)? {
                self.known = Some((name.to_owned(), look));
                return Ok(Kept::Kept);
            }
            let lease = match self.grant(self.outlasting(lock.lease, claim.lease)) {
                Err(error) if errors::is_of_space(&error) => {
                    // The lock must still be ours; what is known of it is not enough.
                    if is_known {
                        (look, is_known) = (self.look(name)?.0, false);
                        continue;
                    }
                    return if self.lasts_again(&lock, until)? { Ok(Kept::Kept) } else { Err(error) };
                }
                answer => answer?,
            };
            let run = look.exact().and_then(|state| state.run);
            let since = lock.since.unwrap_or(lease.clock.now);
            let until = taken(claim, lease.clock.now, None).until;
            let state = State { owner: lock.owner.clone(), since, until, run };
            let operations = [
                (Keys::Locks, operations::put(&self.space.lock(name), &lock.value, lease.id)),
                (Keys::States, operations::put(&self.space.state(name), &state.to_json(), 0)),
            ];
            match self.write(name, &look, &operations)? {
                Err(now) => {
                    // What came between us and etcd may have sent it twice.
                    if now.lease() != lease.id {
                        let _ = self.client.revoke(lease.id);
                    }
                    (look, is_known) = (now, false);
                }
                Ok(outcome) => {
                    let lock = Held { revision: outcome.revision, lease: lease.id, ..lock };
                    self.known = Some((name.to_owned(), Look { lock: Some(lock), state: Some(state) }));
                    return Ok(Kept::Kept);
                }
            }
        }
        Err(self.forestalled())
    }
}
