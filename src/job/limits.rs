//! How much is done about a job's processes before signals, deadlines and answers get their turn.

use std::time::Duration;

/// The number of searches for newly born descendants in one go.
pub(super) const MAX_SEARCHES: usize = 10;
/// The number of children that are reaped in one go.
pub(super) const MAX_REAPED: usize = 256;
/// The longest hunt for descendants that fork, in one go.
pub(super) const MAX_HUNT: Duration = Duration::from_millis(40);
/// The time without a birth after which a hunt walks through /proc again.
pub(super) const QUIET_AFTER: Duration = Duration::from_millis(5);
