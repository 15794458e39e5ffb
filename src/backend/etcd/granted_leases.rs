//! The leases that this process was granted, and the runs that it has recorded.

use std::time::Duration;

use super::wire::Clock;
use crate::system::{Moment, Timestamp};

/// The part of a second by which etcd may round down the time that a lease has left.
pub(crate) const LEASE_ROUNDING: Duration = Duration::from_secs(1);

/// Describes a lease that etcd granted to this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GrantedLease {
    pub(crate) id: i64,
    /// The earliest time at which the lease can end, by this host's clock: its time begins after the request was sent.
    pub(crate) end: Moment,
    /// The latest time at which the lease ends if nobody renews it: its time began before the answer came.
    pub(crate) latest: Moment,
}

impl GrantedLease {
    /// Returns the wanted duration, or a longer one if this lease would otherwise end later.
    pub(crate) fn outlasted_by(&self, wanted: Duration, now: Moment) -> Duration {
        wanted.max(self.latest.since(now))
    }
}

/// Describes a lease that etcd has just granted, with the state of the store at that time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewLease {
    pub(crate) id: i64,
    /// The revision of the store before the lock is written.
    pub(crate) revision: u64,
    pub(crate) clock: Clock,
}

/// Describes a run of this process that has a record.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRun {
    pub(crate) name: String,
    pub(crate) owner: String,
    /// The revision in the key of its record.
    pub(crate) revision: u64,
    pub(crate) since: Timestamp,
    /// The latest time at which the lock can have been acquired, by this host's clock.
    pub(crate) acquired_at: Moment,
    /// The number of runs that are recorded, and the key of the oldest, if the release removes the surplus.
    pub(crate) all: u64,
    pub(crate) oldest: Option<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives an answer two seconds late, to an acquisition with an at-least of twelve and a lease of six.
    #[test]
    fn a_lease_that_follows_another_does_not_end_before_it() {
        let at = |seconds| Moment::at(Duration::from_secs(seconds));
        let first = GrantedLease { id: 1, end: at(112), latest: at(114) };
        let lease = Duration::from_secs(6);
        assert_eq!(first.outlasted_by(lease, at(107)), Duration::from_secs(7));
        assert_eq!(first.outlasted_by(lease, at(110)), lease);
    }
}
