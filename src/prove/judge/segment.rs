//! A time in which an owner held its lock for certain.

use std::time::Duration;

use crate::prove::rules::Rule;
use crate::system::Moment;

/// The part of a lease that a server's clock may gain on this host's before that counts: two in a thousand, and what is lost
/// where times are cut to whole milliseconds.
const RATE_MARGIN: f64 = 0.002;
const ROUNDING_MARGIN: Duration = Duration::from_millis(10);

/// A time in which the owner held the lock for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) from: Moment,
    pub(crate) until: Moment,
    /// Until when it would be held without any renewal.
    pub(crate) granted_until: Moment,
    /// The moment before the acquisition was sent.
    pub(crate) asked: Moment,
    /// A shorter renewal was answered at this moment.
    pub(crate) shortened: Option<Moment>,
    /// The lock is kept after its release.
    pub(crate) is_kept: bool,
}

impl Segment {
    /// Returns the rule that is broken if the lock is lost at this moment.
    pub(crate) fn rule_at(&self, moment: Moment) -> Rule {
        if self.is_kept {
            return Rule::Hold;
        }
        let was_shortened = self.shortened.is_some_and(|shortened| shortened <= moment);
        if was_shortened || moment >= self.granted_until { Rule::Renewal } else { Rule::Expiry }
    }
}

/// Returns until when a lock is held for certain that was asked for at this moment.
pub(super) fn certain_end(asked: Moment, lease: Duration) -> Moment {
    asked + lease.saturating_sub(lease.mul_f64(RATE_MARGIN) + ROUNDING_MARGIN)
}
