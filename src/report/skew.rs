//! Describes times of a lock that cannot be. They give away a holder that writes its times in another time zone or by another
//! clock, so that it does not exclude others.

use std::time::Duration;

use crate::duration::brief;
use crate::lock::{Holder, LockState};
use crate::system::Timestamp;

/// The largest difference between two readings of a backend's clock, for example after a failover, and between the clocks of
/// hosts that are kept right.
const CLOCKS: Duration = Duration::from_secs(60);

/// The way out, for whatever [`skew`] returns.
pub(crate) const SKEW_HINT: &str = "a Java application must use the database's time, or UTC: see shedlock-backends(7)";

/// Returns the end of a sentence that begins with the lock, if it cannot have been taken when it says so. `started` is the start
/// of shedlock's last run of this lock, if that is known.
pub(crate) fn skew(state: &LockState, started: Option<Timestamp>) -> Option<String> {
    if let Some(ahead) = ahead(state) {
        return Some(format!(
            "was taken {} after now, by the backend's clock: {}",
            brief(ahead),
            "its holder writes times in another time zone, or the backend's clock was set back"
        ));
    }
    let behind = behind(state, started?)?;
    Some(format!(
        "was taken {} before shedlock's last run, as its holder wrote after that run: {}",
        brief(behind),
        "its holder writes times in another time zone, or by a clock that is late"
    ))
}

/// Returns how far in the future a held lock was taken.
fn ahead(state: &LockState) -> Option<Duration> {
    let now = state.until?.0.checked_sub(u64::try_from(state.left.as_millis()).ok()?)?;
    let ahead = Duration::from_millis(state.since?.0.saturating_sub(now));
    (!state.left.is_zero() && ahead > CLOCKS).then_some(ahead)
}

/// Returns how long before a run of shedlock another program took the lock. The run held it then, so the other took it later.
fn behind(state: &LockState, started: Timestamp) -> Option<Duration> {
    let behind = started.since(state.since?);
    (Holder::of(&state.owner).is_foreign() && behind > CLOCKS).then_some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const NOW: u64 = 100 * HOUR;

    /// A lock for an hour, taken by a clock that is off by this many hours.
    fn taken(owner: &str, off: i64) -> LockState {
        let since = NOW.checked_add_signed(off * 3_600_000).unwrap();
        let left = Duration::from_millis((since + HOUR).saturating_sub(NOW));
        LockState { owner: owner.to_owned(), since: Some(Timestamp(since)), until: Some(Timestamp(since + HOUR)), left }
    }

    #[test]
    fn a_clock_ahead_is_noticed_at_once_and_one_behind_by_an_earlier_run() {
        let told = |state: &LockState, started: Option<u64>| skew(state, started.map(Timestamp)).unwrap_or_default();
        let runs = [None, Some(0), Some(NOW - HOUR / 2)];
        assert!(runs.iter().all(|run| told(&taken("java", 9), *run).starts_with("was taken 9h after now, ")));
        assert!(runs.iter().all(|run| told(&taken("java", 0), *run).is_empty()));
        let west = runs.map(|run| told(&taken("java", -4), run));
        assert_eq!([&west[0], &west[1]], ["", ""]);
        assert!(west[2].starts_with("was taken 3h30m before shedlock's last run, "), "{}", west[2]);
    }

    #[test]
    fn our_own_runs_and_pauses_and_clocks_that_agree_are_not_remarked_upon() {
        let ours = ["web1:42:00000000000000ff", "web1:42:00000000000000ff:ended", "paused:ada@web1:::00000000000000ff"];
        assert!(ours.iter().all(|owner| skew(&taken(owner, -4), Some(Timestamp(NOW))).is_none()));
        let mut near = taken("java", 0);
        near.since = Some(Timestamp(NOW + 50_000));
        assert_eq!(skew(&near, Some(Timestamp(NOW + 100_000))), None);
        near.since = None;
        assert_eq!(skew(&near, Some(Timestamp(NOW))), None);
    }
}
