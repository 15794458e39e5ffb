//! Describes a held lock: owner, since when, until when, and the reason for a pause.

use std::time::Duration;

use super::times::ago;
use crate::lock::ENDLESS;
use crate::lock::{Holder, LockState};
use crate::system::Timestamp;
use crate::text::shorten;

/// How much a pause without an end may seem to be shortened by a backend's rounding.
const ROUNDING: Duration = Duration::from_secs(60);

/// Describes a held lock, as the end of a sentence that begins with the lock. With `now`, the backend's clock, it adds
/// relative times.
pub(crate) fn describe_holder(record: &LockState, now: Option<Timestamp>) -> String {
    let holder = Holder::parse(&record.owner);
    let pause = holder.pause();
    let who = match (pause, holder.has_ended()) {
        (Some(pause), false) => format!("is paused by {}", shorten(pause.by)),
        (Some(pause), true) => format!("is kept after its last run, as before the pause by {},", shorten(pause.by)),
        (None, true) => format!("is kept after the run of {}", shorten(holder.owner())),
        (None, false) => format!("is held by {}", shorten(&record.owner)),
    };
    let said = format!("{who} since {} until {}", time(record.since, now), held_until(record, now));
    match pause.filter(|pause| holder.is_paused() && !pause.reason.is_empty()) {
        Some(pause) => format!("{said}: {}", shorten(pause.reason)),
        None => said,
    }
}

/// Returns the text for the end of a held lock.
pub(crate) fn held_until(record: &LockState, now: Option<Timestamp>) -> String {
    match has_no_end(record) {
        true => "it is resumed".to_owned(),
        false => time(record.until, now),
    }
}

fn time(time: Option<Timestamp>, now: Option<Timestamp>) -> String {
    match (time, now) {
        (Some(time), Some(now)) => format!("{time} ({})", ago(time, now)),
        (Some(time), None) => time.to_string(),
        (None, _) => "unknown".to_owned(),
    }
}

/// Returns whether a held lock is paused without an end.
fn has_no_end(record: &LockState) -> bool {
    let (Some(since), Some(until)) = (record.since, record.until) else { return false };
    Holder::parse(&record.owner).is_paused() && until + ROUNDING >= since + ENDLESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Owner;

    fn record(owner: &str, since: u64, until: u64) -> LockState {
        let left = Duration::from_millis(until);
        LockState { owner: owner.to_owned(), since: Some(Timestamp(since)), until: Some(Timestamp(until)), left }
    }

    #[test]
    fn times_are_told_absolutely_and_by_the_stores_clock() {
        let held = describe_holder(&record("web1:42:00000000000000ff", 0, 3_600_000), Some(Timestamp(300_000)));
        assert_eq!(
            held,
            "is held by web1:42:00000000000000ff since 1970-01-01T00:00:00.000Z (5m ago) \
             until 1970-01-01T01:00:00.000Z (in 55m)"
        );
        let kept = describe_holder(&record("web1:42:00000000000000ff:ended", 0, 1000), None);
        assert!(kept.starts_with("is kept after the run of web1:42:00000000000000ff since 1970"), "{kept}");
    }

    #[test]
    fn a_pause_without_an_end_lasts_until_it_is_resumed() {
        let pause = Owner::for_pause("ada", "web1", 1, None, "");
        let end = (ENDLESS - ROUNDING / 2).as_millis().try_into().unwrap();
        let told = describe_holder(&record(pause.as_str(), 0, end), Some(Timestamp(2000)));
        assert_eq!(told, "is paused by ada@web1 since 1970-01-01T00:00:00.000Z (2s ago) until it is resumed");
        let told = describe_holder(&record(pause.as_str(), 0, end / 2), None);
        assert!(told.ends_with("until 1974-12-30T23:59:45.000Z"), "{told}");
        assert!(describe_holder(&record("java", 0, end), None).ends_with("until 1979-12-29T23:59:30.000Z"));
    }
}
