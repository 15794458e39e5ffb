//! The leases that this process was granted, and how long any lease lasts.
//!
//! Nothing here goes by `Date`: each member of a cluster has a clock of its own, and two answers may come from two of them.

use std::time::Duration;

use super::Etcd;
use super::layout::{Held, seconds};
use super::wire::Clock;
use crate::backend::BackendError;
use crate::lock::Claim;
use crate::system::Moment;

/// The second that etcd cuts from the time that a lease has left.
pub(super) const CUT: Duration = Duration::from_secs(1);

/// A lease that this process was granted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Granted {
    pub(super) id: i64,
    /// The earliest time at which it can end, by this host's clock: its time begins after the request was sent.
    end: Moment,
    /// The latest time at which it ends if nobody renews it: its time began before the answer came.
    latest: Moment,
}

impl Granted {
    /// Returns a time from now on that is not over before this lease, and is at least the wanted one.
    fn outlasted_by(&self, wanted: Duration, now: Moment) -> Duration {
        wanted.max(self.latest.since(now))
    }
}

/// A new lease.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewLease {
    pub(super) id: i64,
    /// The revision of the store before the lock is written.
    pub(super) revision: u64,
    pub(super) clock: Clock,
}

impl Etcd {
    /// Grants a lease for a lock.
    pub(super) fn grant(&mut self, duration: Duration) -> Result<NewLease, BackendError> {
        let random = getrandom::u64().map_err(|_| BackendError::transient("this host has no randomness"))?;
        let id = i64::try_from(random >> 1).unwrap_or(i64::MAX).max(1);
        let (sent, seconds) = (Moment::now(), seconds(duration));
        let (revision, clock) = self.client.grant(id, seconds)?;
        self.note_lease(id, sent, Duration::from_secs(seconds));
        Ok(NewLease { id, revision, clock })
    }

    fn note_lease(&mut self, id: i64, sent: Moment, lasting: Duration) {
        self.granted.retain(|lease| lease.id != id && lease.end > sent);
        self.granted.push(Granted { id, end: sent + lasting, latest: Moment::now() + lasting });
    }

    /// Returns the earliest end of a lease of this process; `None` if it was granted to another.
    pub(super) fn end_of(&self, lease: i64) -> Option<Moment> {
        self.granted.iter().find(|granted| granted.id == lease).map(|granted| granted.end)
    }

    /// Returns the time for which to grant a lock another lease, so that it does not end before the present one. The answer to
    /// the present one may have been late, and at-least longer than what is asked for now.
    pub(super) fn outlasting(&self, lease: i64, wanted: Duration) -> Duration {
        let present = self.granted.iter().find(|granted| granted.id == lease);
        present.map_or(wanted, |present| present.outlasted_by(wanted, Moment::now()))
    }

    /// Returns whether a lock that was just read lasts until this time already.
    pub(super) fn lasts(&mut self, lock: &Held, until: Moment) -> Result<bool, BackendError> {
        if let Some(end) = self.end_of(lock.lease) {
            return Ok(end >= until);
        }
        let Some(asked) = (lock.lease != 0).then(Moment::now) else { return Ok(false) };
        Ok(self.client.lease(lock.lease)?.is_some_and(|lease| asked + lease.left >= until))
    }

    /// Gives a lock that was just read the whole time of its lease again. Returns whether it lasts until this time then. A server
    /// without space does this, and grants no other lease.
    pub(super) fn lasts_again(&mut self, lock: &Held, until: Moment) -> Result<bool, BackendError> {
        let Some(asked) = (lock.lease != 0).then(Moment::now) else { return Ok(false) };
        let Some(lasting) = self.client.keep_alive(lock.lease)? else { return Ok(false) };
        self.note_lease(lock.lease, asked, lasting);
        Ok(asked + lasting >= until)
    }

    /// Returns how long a lock still has to stay held so that it was for `hold` since its taking.
    ///
    /// Where another process took it, the age of its lease is all that can be known of its own. The lease is no older than the
    /// taking: it may be younger, if the lock was extended or the leader changed. And its age is counted as a second less than
    /// etcd says, which cuts the time left. So the lock never frees too early; it stays held for `hold` from now at most.
    pub(super) fn rest(&mut self, claim: &Claim, lock: &Held, hold: Duration) -> Result<Duration, BackendError> {
        let age = match self.run_of(claim) {
            _ if hold.is_zero() => return Ok(hold),
            Some(run) => Moment::now().since(run.taken),
            None if lock.lease == 0 => Duration::ZERO,
            None => self
                .client
                .lease(lock.lease)?
                .map_or(Duration::ZERO, |lease| lease.granted.saturating_sub(lease.left + CUT)),
        };
        Ok(hold.saturating_sub(age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer came two seconds late, to a taking with an at-least of twelve and a lease of six.
    #[test]
    fn a_lease_that_follows_another_does_not_end_before_it() {
        let at = |seconds| Moment::at(Duration::from_secs(seconds));
        let first = Granted { id: 1, end: at(112), latest: at(114) };
        let lease = Duration::from_secs(6);
        assert_eq!(first.outlasted_by(lease, at(107)), Duration::from_secs(7));
        assert_eq!(first.outlasted_by(lease, at(110)), lease);
    }
}
