//! A row of the table of locks: decides whether its lock is held, and what each operation writes. Nothing here asks SQLite.

use std::time::Duration;

use crate::backend::clock::min_clock_lead;
use crate::lock::{LockState, Owner};
use crate::system::Timestamp;

/// Holds the time of both clocks, and the boot from which one of them counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now<'a> {
    pub(crate) wall: Timestamp,
    /// The id of the host's current boot, if the system has one.
    pub(crate) boot: Option<&'a str>,
    /// Milliseconds since this boot, on the host's clock.
    pub(crate) boot_ms: i64,
}

impl Now<'_> {
    /// Returns the wall clock's time after a duration, which is rounded up to milliseconds.
    fn after(self, duration: Duration) -> Timestamp {
        later(self.wall, duration)
    }
}

/// Holds the values of a lock's row, which are written as they stand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) owner: String,
    /// The stored value, if it is not a time of shedlock's form.
    pub(crate) since: Result<Timestamp, String>,
    pub(crate) until: Result<Timestamp, String>,
    /// The columns that shedlock adds, if they belong to the current acquisition. They do not after a Java application or a
    /// person, unaware of them, has changed the row.
    pub(crate) boot: Option<BootEnd>,
}

/// Says when a lock ends, on the clock of one boot of the host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BootEnd {
    pub(crate) id: String,
    /// The end of the lock in milliseconds since that boot. Zero if it was released: it then stays free whatever the
    /// clock is set to.
    pub(crate) until_ms: i64,
}

impl Row {
    /// Returns the row of a lock that is acquired now.
    pub(crate) fn taken(owner: &str, lease: Duration, now: Now<'_>, ends_with_boot: bool) -> Self {
        let boot = now.boot.filter(|_| ends_with_boot);
        Self {
            owner: owner.to_owned(),
            since: Ok(now.wall),
            until: Ok(now.after(lease)),
            boot: boot.map(|id| BootEnd { id: id.to_owned(), until_ms: end_ms(lease, now) }),
        }
    }

    /// Returns the row with a later end. Never shortens the lock, but an end by a wall clock that was ahead does not count.
    pub(crate) fn renewed(self, lease: Duration, now: Now<'_>) -> Self {
        let is_ahead = self.is_ahead(now);
        let until =
            self.until.clone().map(|until| if is_ahead { now.after(lease) } else { until.max(now.after(lease)) });
        // The end on the clock of another boot says nothing here.
        let earlier = self.boot.as_ref().filter(|boot| now.boot == Some(&boot.id));
        let until_ms = earlier.map_or(i64::MIN, |boot| boot.until_ms).max(end_ms(lease, now));
        let since = self.beginning(now);
        Self { since, until, boot: now.boot.map(|id| BootEnd { id: id.to_owned(), until_ms }), ..self }
    }

    /// Returns the row of a lock that is released now, and stays held until `hold` after its acquisition: at most `hold` from
    /// now, because the clock may have been set back since. From then on it counts as acquired now, or it would be free.
    pub(crate) fn released(self, ended: String, hold: Duration, now: Now<'_>) -> Self {
        let rest = self.since.as_ref().map_or(now.wall, |since| later(*since, hold)).min(now.after(hold));
        let until = rest.max(now.wall);
        Self { owner: ended, since: self.beginning(now), until: Ok(until), boot: boot_of_free_lock(until, now) }
    }

    /// Returns the row with another owner and end. A row with malformed times is repaired.
    pub(crate) fn changed(self, to: &str, left: Duration, now: Now<'_>) -> Self {
        let since = if self.owner == to && !self.is_malformed() { self.beginning(now) } else { Ok(now.wall) };
        let until = now.after(left);
        Self { owner: to.to_owned(), since, until: Ok(until), boot: boot_of_free_lock(until, now) }
    }

    /// Returns true if the times are malformed; an acquisition then fails, and does not get the lock.
    pub(crate) fn is_malformed(&self) -> bool {
        self.since.is_err() || self.until.is_err()
    }

    /// Returns true if the lock is held. A row with malformed times counts as held.
    pub(crate) fn is_held(&self, now: Now<'_>) -> bool {
        let (Ok(since), Ok(until)) = (&self.since, &self.until) else { return true };
        match (&self.boot, now.boot) {
            (Some(boot), Some(current)) if boot.id == current => boot.until_ms > now.boot_ms,
            (Some(boot), Some(_)) if boot.until_ms <= 0 || is_before_boot(*since, now) => false,
            // The lock was to be kept after its job until a time that never came, and may be a year away.
            _ => *until > now.wall && !(self.is_ahead(now) && self.owner.ends_with(Owner::ENDED_SUFFIX)),
        }
    }

    /// Returns true if the wall clock was ahead when the lock was acquired, by more than a small correction.
    fn is_ahead(&self, now: Now<'_>) -> bool {
        self.since.as_ref().is_ok_and(|since| *since > now.wall + min_clock_lead(&self.owner))
    }

    /// Returns the beginning of a lock that goes on: now, if the clock was ahead when it was acquired.
    fn beginning(&self, now: Now<'_>) -> Result<Timestamp, String> {
        if self.is_ahead(now) { Ok(now.wall) } else { self.since.clone() }
    }

    /// Returns the row by the present clock, if the clock was ahead when another owner acquired the lock: it ends when the time
    /// that it was acquired for has passed once more. `None` if there is nothing to change: a lock that ends with this boot goes
    /// by another clock, and an end before the beginning has been set since.
    pub(crate) fn moved_to_now(&self, now: Now<'_>) -> Option<Self> {
        let (since, until) = (self.since.as_ref().ok()?, self.until.as_ref().ok()?);
        let is_of_this_boot = self.boot.as_ref().is_some_and(|boot| now.boot == Some(&boot.id));
        let term = Duration::from_millis(until.0.checked_sub(since.0).filter(|term| *term > 0)?);
        let moved = || Self { since: Ok(now.wall), until: Ok(now.after(term)), ..self.clone() };
        (self.is_ahead(now) && !is_of_this_boot).then(moved)
    }

    /// Returns the milliseconds left, if the lock is held and its end is a time.
    pub(crate) fn left_ms(&self, now: Now<'_>) -> Option<i64> {
        let until = self.until.as_ref().ok()?;
        Some(match &self.boot {
            Some(boot) if now.boot == Some(&boot.id) => boot.until_ms.saturating_sub(now.boot_ms),
            _ => signed(until.0) - signed(now.wall.0),
        })
    }

    /// Returns the state of a held lock, for another process.
    pub(crate) fn state(self, now: Now<'_>) -> LockState {
        let left = self.left_ms(now).and_then(|left| left.try_into().ok()).unwrap_or_default();
        LockState {
            owner: self.owner,
            since: self.since.ok(),
            until: self.until.ok(),
            left: Duration::from_millis(left),
        }
    }
}

/// Returns true if a lock was acquired before this host started. Another boot id alone does not prove that, because
/// containers of one kernel may have their own. The minute allows for a clock that was set right after the start.
fn is_before_boot(since: Timestamp, now: Now<'_>) -> bool {
    signed(since.0) < signed(now.wall.0) - now.boot_ms - 60_000
}

/// Returns the boot columns of a lock that no job holds any more. The wall clock decides while it stays held.
fn boot_of_free_lock(until: Timestamp, now: Now<'_>) -> Option<BootEnd> {
    let boot = now.boot.filter(|_| until <= now.wall);
    boot.map(|id| BootEnd { id: id.to_owned(), until_ms: 0 })
}

/// Returns when a lease ends. The clock was read in whole milliseconds, rounded down, and a lease is never shorter.
fn end_ms(lease: Duration, now: Now<'_>) -> i64 {
    now.boot_ms.saturating_add(signed(millis(lease))).saturating_add(1)
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp(time.0.saturating_add(millis(by)))
}

/// Returns a duration in milliseconds, rounded up.
fn millis(duration: Duration) -> u64 {
    duration.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX)
}

fn signed(millis: u64) -> i64 {
    millis.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 1_800_000_000_000;
    const MINUTE: Duration = Duration::from_secs(60);
    const UP: i64 = 86_400_000;

    fn now(wall: u64, boot: &str, boot_ms: i64) -> Now<'_> {
        Now { wall: Timestamp(wall), boot: Some(boot), boot_ms }
    }

    fn here() -> Now<'static> {
        now(AT, "here", UP)
    }

    fn taken() -> Row {
        Row::taken("host:1:a", MINUTE, here(), true)
    }

    #[test]
    fn a_running_job_s_lock_goes_by_the_boot_clock_alone() {
        for wall in [0, AT - 3_600_000, AT, AT + 3_600_000] {
            assert!(taken().is_held(now(wall, "here", UP + 60_000)));
            assert!(!taken().is_held(now(wall, "here", UP + 60_001)));
        }
        assert_eq!(taken().left_ms(now(0, "here", UP + 20_001)), Some(40_000));
        let odd = Row { boot: Some(BootEnd { id: "here".to_owned(), until_ms: i64::MIN }), ..taken() };
        assert!(!odd.is_held(here()) && odd.left_ms(here()) < Some(0));
    }

    #[test]
    fn another_boot_id_frees_a_lock_only_if_it_was_taken_before_the_boot() {
        // A container of the same kernel has another id.
        assert!(taken().is_held(now(AT + 59_999, "there", UP)));
        assert!(!taken().is_held(now(AT + 60_000, "there", UP)));
        // The host has started again.
        assert!(taken().is_held(now(AT + 59_000, "there", 1_000)), "within the minute for a clock that is set then");
        let long = Row::taken("host:1:a", MINUTE * 60, here(), true);
        assert!(!long.is_held(now(AT + 120_000, "there", 1_000)));
        let pause = Row::taken("ada", MINUTE * 60, here(), false);
        assert!(pause.is_held(now(AT + 120_000, "there", 1_000)));
    }

    #[test]
    fn what_is_kept_after_a_job_is_free_once_the_clock_was_set_back_before_it() {
        let kept = taken().released("host:1:a:ended".to_owned(), MINUTE * 60, here());
        assert_eq!((kept.boot.clone(), kept.left_ms(here())), (None, Some(3_600_000)));
        assert!(kept.is_held(now(AT - 60_000, "here", UP)));
        assert!(!kept.is_held(now(AT - 60_001, "here", UP)));
        assert!(Row { owner: "java".to_owned(), ..kept }.is_held(now(AT - 60_001, "here", UP)), "a job may run");
    }

    #[test]
    fn a_lock_of_a_clock_that_was_ahead_is_moved_to_the_present_once() {
        let back = now(AT - 3_600_000, "here", UP);
        let changed = Row { boot: None, ..taken() };
        let moved = changed.moved_to_now(back).unwrap();
        assert_eq!((moved.since.clone(), moved.until.clone()), (Ok(back.wall), Ok(back.wall + MINUTE)));
        assert_eq!((moved.owner.as_str(), moved.moved_to_now(back)), ("host:1:a", None));
        // Small corrections, a lock that ends with this boot, and an end that was set since.
        assert_eq!(changed.moved_to_now(now(AT - 60_000, "here", UP)), None);
        assert_eq!(taken().moved_to_now(back), None);
        assert_eq!(Row { until: Ok(back.wall + MINUTE), ..changed.clone() }.moved_to_now(back), None);
        // A Java application writes the times of its zone.
        let java = Row { owner: "java".to_owned(), ..changed };
        assert_eq!(java.moved_to_now(now(AT - 14 * 3_600_000, "here", UP)), None);
        assert!(java.moved_to_now(now(AT - 14 * 3_600_000 - 1, "here", UP)).is_some());
        let there = taken().moved_to_now(now(AT - 3_600_000, "there", UP)).unwrap();
        assert_eq!(there.boot, taken().boot, "another container goes by the clock that it has in common with its job");
    }

    #[test]
    fn a_release_keeps_the_lock_at_most_for_its_time_from_now() {
        let until = |wall| taken().released(String::new(), MINUTE, now(wall, "here", UP)).until;
        assert_eq!(until(AT + 10_000), Ok(Timestamp(AT + 60_000)));
        assert_eq!(until(AT + 90_000), Ok(Timestamp(AT + 90_000)));
        assert_eq!(until(AT - 10_000), Ok(Timestamp(AT + 50_000)), "the clock was set back");
        let far = taken().released("host:1:a:ended".to_owned(), MINUTE, now(AT - 3_600_000, "here", UP));
        assert_eq!(
            (far.since.clone(), far.until.clone()),
            (Ok(Timestamp(AT - 3_600_000)), Ok(Timestamp(AT - 3_540_000)))
        );
        assert!(far.is_held(now(AT - 3_590_000, "here", UP)), "it was asked for by the clock as it is now");
        // A lock that was freed stays free whatever the clock is set to.
        let free = taken().released(String::new(), Duration::ZERO, here());
        assert!(!free.is_held(now(0, "here", UP)) && !free.is_held(now(0, "there", 0)));
    }

    #[test]
    fn a_renewal_never_shortens_a_lock() {
        let sooner = taken().renewed(Duration::from_secs(1), now(AT, "here", UP + 1000));
        assert_eq!(sooner, taken());
        let later = taken().renewed(MINUTE, now(AT - 500, "here", UP + 1000));
        assert_eq!(later.until, taken().until, "the clock was set back");
        assert_eq!(later.boot.map(|boot| boot.until_ms), Some(UP + 61_001));
        // Columns of another acquisition do not count.
        let changed = Row { boot: None, ..taken() }.renewed(MINUTE, here());
        assert_eq!(changed.boot, taken().boot);
        let there = taken().renewed(MINUTE, now(AT, "there", 1000)).boot;
        assert_eq!(
            there,
            Some(BootEnd { id: "there".to_owned(), until_ms: 61_001 }),
            "nor does the clock of another boot"
        );
    }

    #[test]
    fn a_part_of_a_millisecond_counts_as_a_whole_one() {
        let row = Row::taken("host:1:a", Duration::from_micros(1001), here(), true);
        assert_eq!(row.until, Ok(Timestamp(AT + 2)));
        assert!(row.is_held(now(AT, "here", UP + 2)));
    }
}
