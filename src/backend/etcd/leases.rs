//! The leases that this process was granted, and how long any lease lasts.
//!
//! Nothing here goes by `Date`: each member of a cluster has a clock of its own, and two answers may come from two of them.

use std::time::Duration;

use super::Etcd;
use super::granted_leases::{GrantedLease, LEASE_ROUNDING, NewLease};
use super::layout::{StoredLock, seconds};
use crate::lock::BackendError;
use crate::lock::Claim;
use crate::system::Moment;

impl Etcd {
    /// Grants a lease for a lock.
    pub(crate) fn grant(&mut self, duration: Duration) -> Result<NewLease, BackendError> {
        let random = getrandom::u64().map_err(|_| BackendError::transient("this host has no randomness"))?;
        let id = i64::try_from(random >> 1).unwrap_or(i64::MAX).max(1);
        let (sent, seconds) = (Moment::now(), seconds(duration));
        let (revision, clock) = self.client.grant(id, seconds)?;
        self.note_lease(id, sent, Duration::from_secs(seconds));
        Ok(NewLease { id, revision, clock })
    }

    fn note_lease(&mut self, id: i64, sent: Moment, lasting: Duration) {
        self.granted_leases.retain(|lease| lease.id != id && lease.end > sent);
        self.granted_leases.push(GrantedLease { id, end: sent + lasting, latest: Moment::now() + lasting });
    }

    /// Returns the earliest end of a lease of this process; `None` if it was granted to another.
    pub(crate) fn earliest_end(&self, lease: i64) -> Option<Moment> {
        self.granted_leases.iter().find(|granted| granted.id == lease).map(|granted| granted.end)
    }

    /// Returns the time for which to grant a lock another lease, so that it does not end before the present one. The answer to
    /// the present one may have been late, and its at-least longer than the duration wanted now.
    pub(crate) fn outlasting(&self, lease: i64, wanted: Duration) -> Duration {
        let present = self.granted_leases.iter().find(|granted| granted.id == lease);
        present.map_or(wanted, |present| present.outlasted_by(wanted, Moment::now()))
    }

    /// Returns whether the lease of a lock that was just read lasts until this time.
    pub(crate) fn lasts_until(&mut self, lock: &StoredLock, until: Moment) -> Result<bool, BackendError> {
        if let Some(end) = self.earliest_end(lock.lease) {
            return Ok(end >= until);
        }
        let Some(sent) = (lock.lease != 0).then(Moment::now) else { return Ok(false) };
        Ok(self.client.lease(lock.lease)?.is_some_and(|lease| sent + lease.left >= until))
    }

    /// Renews the lease of a lock that was just read for the whole of its time. Returns whether it lasts until this time then. A
    /// server without space does this, and grants no other lease.
    pub(crate) fn extend_lease_until(&mut self, lock: &StoredLock, until: Moment) -> Result<bool, BackendError> {
        let Some(sent) = (lock.lease != 0).then(Moment::now) else { return Ok(false) };
        let Some(lasting) = self.client.keep_alive(lock.lease)? else { return Ok(false) };
        self.note_lease(lock.lease, sent, lasting);
        Ok(sent + lasting >= until)
    }

    /// Returns how long a lock still has to stay held until `hold` has passed since its acquisition.
    ///
    /// Where another process acquired the lock, the age of the lease is the only evidence of the lock's age. The lease is no
    /// older than the acquisition: it may be younger, if the lock was extended or the leader changed. shedlock counts its age as
    /// a second less than etcd says, which cuts the time left. So the lock never frees too early; it stays held for `hold` from
    /// now at most.
    pub(crate) fn remaining_hold(
        &mut self,
        claim: &Claim,
        lock: &StoredLock,
        hold: Duration,
    ) -> Result<Duration, BackendError> {
        let age = match self.run_of(claim) {
            _ if hold.is_zero() => return Ok(hold),
            Some(run) => Moment::now().since(run.acquired_at),
            None if lock.lease == 0 => Duration::ZERO,
            None => self
                .client
                .lease(lock.lease)?
                .map_or(Duration::ZERO, |lease| lease.granted.saturating_sub(lease.left + LEASE_ROUNDING)),
        };
        Ok(hold.saturating_sub(age))
    }
}
