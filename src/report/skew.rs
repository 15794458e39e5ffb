//! Describes impossible times of a lock. They reveal a holder that writes its times in another time zone or by another
//! clock, so that it does not exclude others.

use std::time::Duration;

use crate::duration::brief;
use crate::lock::{Holder, LockState};
use crate::system::Timestamp;

/// The largest difference between two readings of a backend's clock, for example after a failover, and between the clocks of
/// hosts that are kept right.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);

/// The remedy for what [`skew`] returns about another program's lock.
pub(crate) const SKEW_HINT: &str = "a Java application must use the database's time, or UTC: see shedlock-backends(7)";
/// The remedy for a lock that shedlock took: shedlock writes the backend's own time, so no setting of it is wrong.
const SHEDLOCK_SKEW_HINT: &str = "A CLOCK THAT WAS AHEAD in shedlock-backends(7) says when the lock is free";

/// Describes a lock that was taken in the future, as the end of a sentence that begins with the lock. A holder whose times are
/// too early cannot be told from one that was faster: it takes a lock only when that is free by its own times, too.
pub(crate) fn skew(state: &LockState) -> Option<String> {
    let ahead = ahead(state).filter(|ahead| *ahead > MAX_CLOCK_DIFFERENCE)?;
    let cause = match Holder::parse(&state.owner).is_foreign() {
        true => "its holder writes times in another time zone, or the backend's clock was set back",
        false => "that clock was ahead then, or was set back since",
    };
    Some(format!("was taken {} after now, by the backend's clock: {cause}", brief(ahead)))
}

/// Returns the hint for what [`skew`] returns.
pub(crate) fn skew_hint(state: &LockState) -> &'static str {
    if Holder::parse(&state.owner).is_foreign() { SKEW_HINT } else { SHEDLOCK_SKEW_HINT }
}

/// Returns whether a time of the backend lies further in the future than two readings of its clock differ.
pub(super) fn is_in_future(time: Timestamp, now: Timestamp) -> bool {
    time > now + MAX_CLOCK_DIFFERENCE
}

/// Describes a run that began or ended in the future, as the end of a sentence that begins with the run.
pub(super) fn skew_of_run(began: Option<Timestamp>, ended: Option<Timestamp>, now: Timestamp) -> Option<String> {
    let ahead = |time: &Timestamp| is_in_future(*time, now);
    let (word, time) = match (began.filter(ahead), ended.filter(ahead)) {
        (_, Some(ended)) => ("ended", ended),
        (Some(began), None) => ("began", began),
        (None, None) => return None,
    };
    let ahead = brief(Duration::from_secs((time.0 - now.0) / 1000));
    Some(format!("{word} {ahead} after now, by the backend's clock, which was ahead then or was set back since"))
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

    #[test]
    fn a_run_of_the_future_is_remarked_upon_and_one_of_another_reading_is_not() {
        let now = Timestamp(360_000_000);
        let after = |seconds: u64| Some(now + Duration::from_secs(seconds));
        let told = |began, ended| skew_of_run(began, ended, now).unwrap_or_default();
        assert!(told(after(7200), after(10_800)).starts_with("ended 3h after now, by the backend's clock"));
        assert!(told(after(0), after(61)).starts_with("ended 1m1s after now"));
        assert!(told(after(7200), None).starts_with("began 2h after now"));
        assert_eq!((told(after(50), after(60)), told(None, None)), (String::new(), String::new()));
    }

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

    #[test]
    fn only_a_lock_of_another_program_is_said_to_have_the_times_of_a_time_zone() {
        let told = |owner: &str| {
            let hour = Duration::from_secs(3600);
            let (since, until) = (Some(Timestamp(7_200_000)), Some(Timestamp(10_800_000)));
            let state = LockState { owner: owner.to_owned(), since, until, left: 2 * hour };
            (skew(&state).is_some_and(|told| told.contains("time zone")), skew_hint(&state).contains("Java"))
        };
        assert_eq!(told("java-host"), (true, true));
        assert_eq!(told("web1:42:00000000000000ff"), (false, false));
        assert_eq!(told("paused:ada@ops1:::00000000000000ff"), (false, false));
    }
}
