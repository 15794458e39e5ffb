//! Describes times of a lock that cannot be. They give away a holder that writes its times in another time zone or by another
//! clock, so that it does not exclude others.

use std::time::Duration;

use crate::duration::brief;
use crate::lock::LockState;

/// The largest difference between two readings of a backend's clock, for example after a failover, and between the clocks of
/// hosts that are kept right.
const CLOCKS: Duration = Duration::from_secs(60);

/// The way out, for whatever [`skew`] returns.
pub(crate) const SKEW_HINT: &str = "a Java application must use the database's time, or UTC: see shedlock-backends(7)";

/// Returns the end of a sentence that begins with the lock, if it was taken in the future. A holder whose times are too early
/// cannot be told from one that was faster: it takes a lock only when that is free by its own times, too.
pub(crate) fn skew(state: &LockState) -> Option<String> {
    let ahead = ahead(state).filter(|ahead| *ahead > CLOCKS)?;
    Some(format!(
        "was taken {} after now, by the backend's clock: {}",
        brief(ahead),
        "its holder writes times in another time zone, or the backend's clock was set back"
    ))
}

/// Returns how far in the future a held lock was taken.
fn ahead(state: &LockState) -> Option<Duration> {
    let now = state.until?.0.checked_sub(u64::try_from(state.left.as_millis()).ok()?)?;
    let ahead = Duration::from_millis(state.since?.0.saturating_sub(now));
    (!state.left.is_zero()).then_some(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Timestamp;

    #[test]
    fn only_a_lock_that_was_taken_in_the_future_is_remarked_upon() {
        const NOW: u64 = 360_000_000;
        let taken = |since: u64, until: u64| {
            let left = Duration::from_millis(until.saturating_sub(NOW));
            let state = LockState {
                owner: "java".to_owned(),
                since: Some(Timestamp(since)),
                until: Some(Timestamp(until)),
                left,
            };
            skew(&state)
        };
        let ahead = |hours: u64| taken(NOW + hours * 3_600_000, NOW + (hours + 1) * 3_600_000);
        assert!(ahead(9).is_some_and(|told| told.starts_with("was taken 9h after now, ")));
        assert_eq!((ahead(0), taken(NOW + 50_000, NOW + 60_000)), (None, None));
        assert_eq!((taken(NOW - 60_000, NOW + 1), taken(NOW - 60_000, NOW - 1)), (None, None));
        let unknown = LockState { owner: String::new(), since: None, until: None, left: Duration::MAX };
        assert_eq!(skew(&unknown), None);
    }
}
