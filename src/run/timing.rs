//! When things are due in a run: the stop, the kill, the renewal, and how long the lock stays held.

use std::time::Duration;

use super::policy::{OnExpiry, OnFailure, OnLost, Policy};
use crate::exit::ExitReason;
use crate::system::Moment;

/// Says how long before an end, of at-most or of a lease, a job is stopped that must be dead by then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Margins {
    /// The time between the first signal and SIGKILL.
    pub(super) kill_after: Duration,
    /// The time between SIGKILL and the end.
    margin: Duration,
}

impl Margins {
    fn new(span: Duration, kill_after: Duration) -> Self {
        Self { kill_after: kill_after.min(span / 5), margin: margin(span) }
    }

    /// Returns when the job gets its first signal, if the end is at `end`.
    pub(super) fn stop_at(&self, end: Moment) -> Moment {
        self.kill_at(end) - self.kill_after
    }

    /// Returns when the job gets SIGKILL, if the end is at `end`.
    pub(super) fn kill_at(&self, end: Moment) -> Moment {
        end - self.margin
    }

    /// Returns when the guardian sends SIGKILL, if shedlock has not at `kill_at`. It has most of the margin left,
    /// since the host may be what kept shedlock from it.
    pub(super) fn guard_after(&self, kill_at: Moment) -> Moment {
        kill_at + self.margin / 4
    }

    /// Returns when a job that has to be dead at `end` counts as one that SIGKILL cannot end.
    pub(super) fn unkillable_at(&self, end: Moment) -> Moment {
        end - self.margin / 2
    }

    /// Returns when a job that gets SIGKILL at `kill_at` counts as one that SIGKILL cannot end.
    pub(super) fn unkillable_after(&self, kill_at: Moment) -> Moment {
        kill_at + self.margin / 2
    }
}

/// Holds the times that follow from a run's policy.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    at_most: Duration,
    lease: Duration,
    /// The margins before at-most is used up.
    pub(super) before_limit: Margins,
    /// The margins before the lease ends.
    pub(super) before_end: Margins,
    /// The time before the stop at which the lock's end is queried.
    pub(super) query_ahead: Duration,
}

impl Timing {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            at_most: policy.at_most,
            lease: policy.lease(),
            before_limit: Margins::new(policy.at_most, policy.kill_after),
            before_end: Margins::new(policy.lease(), policy.kill_after),
            query_ahead: (policy.at_most / 10).min(Duration::from_secs(2)),
        }
    }

    /// Returns what this host's clock may lose against the backend's until an end that is `left` away, as far as the
    /// margin of at-most has no room for it.
    pub(super) fn drift_beyond(&self, left: Duration) -> Duration {
        drift(left.saturating_sub(self.at_most))
    }

    /// Returns when the guardian is to kill a job that shedlock has not killed; `None` if the job may outlive its lock,
    /// which ends at `end`, and at-most at `limit`.
    pub(super) fn guard_at(&self, policy: &Policy, end: Moment, limit: Option<Moment>) -> Option<Moment> {
        let kills = match limit {
            Some(limit) if end >= limit => policy.on_expiry == OnExpiry::Kill,
            _ => policy.on_lost == OnLost::Kill,
        };
        kills.then(|| self.before_end.guard_after(self.before_end.kill_at(end)))
    }

    /// Returns when a lease that was asked for at `sent` is renewed: early, so that there is time to try again.
    pub(super) fn renew_at(&self, sent: Moment) -> Moment {
        sent + self.lease / 3
    }

    /// Returns how long to pause after a failed renewal, with `left` until it would come too late. Once that has come
    /// there is no hurry.
    pub(super) fn renew_again(&self, left: Duration, is_permanent: bool) -> Duration {
        let longest = Duration::from_secs(30);
        if left.is_zero() {
            return longest;
        }
        let share = if is_permanent { left / 4 } else { left / 10 };
        share.clamp(Duration::from_millis(50), longest)
    }

    /// Returns how long after its acquisition the lock is to stay held, now that the run has come to `reason`; `waited`
    /// passed between shedlock's start and the acquisition.
    pub(super) fn hold(&self, policy: &Policy, reason: ExitReason, waited: Duration) -> Duration {
        let every = policy.every.map_or(Duration::ZERO, |every| every.hold(waited));
        let success = policy.is_success(reason);
        match policy.on_failure {
            _ if matches!(reason, ExitReason::NotFound | ExitReason::CannotExecute) => Duration::ZERO,
            OnFailure::Release if !success => Duration::ZERO,
            OnFailure::Hold if !success => policy.at_most.max(every),
            _ => policy.at_least.max(every),
        }
    }
}

/// Returns how long before the end of a lease everything must be dead: what it takes the kernel to end and shedlock to
/// notice, and what this host's clock may lose against the backend's in that time (500 ppm, the most that NTP
/// corrects).
fn margin(lease: Duration) -> Duration {
    let reaction = (lease / 20).clamp(Duration::from_millis(100), Duration::from_secs(2));
    reaction + drift(lease)
}

/// Returns what two clocks may differ by after `span`.
fn drift(span: Duration) -> Duration {
    span / 2000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::policy::Every;
    use crate::system::Signal;

    #[test]
    fn the_margin_is_part_of_the_lease() {
        assert_eq!(margin(Duration::from_secs(1)), Duration::from_micros(100_500));
        assert_eq!(margin(Duration::from_secs(3600)), Duration::from_millis(3_800));
        assert_eq!(margin(Duration::from_secs(86_400)), Duration::from_millis(45_200));
    }

    #[test]
    fn a_renewal_that_meets_silence_leaves_the_time_for_another_try() {
        // No server gets less than a second, and PostgreSQL takes one more to cancel the statement.
        for lease in [7, 8, 10, 12, 15, 20, 30, 60, 3_600] {
            for lease in [
                Policy { lease: Some(ms(lease * 1000)), at_most: ms(7_200_000), ..policy() },
                Policy { on_expiry: OnExpiry::Extend, at_most: ms(lease * 1000), ..policy() },
            ] {
                let timing = Timing::new(&lease);
                let begun = timing.renew_at(t(0));
                let again = begun + lease.request_timeout().max(ms(1000)) + ms(1000);
                let left = timing.before_end.stop_at(t(0) + lease.lease()).since(again);
                assert!(left >= ms(500), "{:?}: {left:?}", lease.lease());
            }
        }
    }

    #[test]
    fn the_drawing_of_a_run_has_these_times() {
        let drawing = include_str!("../../docs/images/run.svg");
        let timing = Timing::new(&Policy { at_most: ms(300_000), lease: Some(ms(60_000)), ..policy() });
        for (margins, span, what) in
            [(timing.before_limit, 300_000, "the end"), (timing.before_end, 60_000, "the lease ends")]
        {
            let before = |due: Moment| format!("{:.2} s before", t(span).since(due).as_secs_f64());
            let (stop, kill) = (before(margins.stop_at(t(span))), before(margins.kill_at(t(span))));
            assert!(drawing.contains(&format!(">TERM {stop} {what}<")), "{stop}");
            assert!(drawing.contains(&format!(">SIGKILL {kill}")), "{kill}");
        }
    }

    #[test]
    fn the_table_of_margins_has_these_times() {
        let document = include_str!("../../docs/choosing.md");
        for (text, seconds) in [("1m", 60), ("5m", 300), ("1h", 3_600), ("1d", 86_400)] {
            let margins = Timing::new(&Policy { at_most: ms(seconds * 1000), ..policy() }).before_limit;
            let before = |due: Moment| t(seconds * 1000).since(due).as_secs_f64();
            let (stop, kill) = (before(margins.stop_at(t(seconds * 1000))), before(margins.kill_at(t(seconds * 1000))));
            let row = format!("\n| {text} | {stop:.2} s | {kill:.2} s |\n");
            assert!(document.contains(&row), "{row}");
        }
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn t(millis: u64) -> Moment {
        Moment::at(ms(1_000_000 + millis))
    }

    fn policy() -> Policy {
        Policy { at_least: ms(10_000), ..Policy::plain() }
    }

    #[test]
    fn the_first_signal_sigkill_the_guardian_and_the_end_come_in_this_order() {
        for at_most in [1_000, 1_500, 10_000, 3_600_000, 315_360_000_000] {
            for kill_after in [0, 1, 10_000, 3_600_000] {
                let timing = Timing::new(&Policy { at_most: ms(at_most), kill_after: ms(kill_after), ..policy() });
                let before = timing.before_limit;
                let (stop, kill) = (before.stop_at(t(at_most)), before.kill_at(t(at_most)));
                let (guard, unkillable) = (before.guard_after(kill), before.unkillable_at(t(at_most)));
                assert!(
                    t(0) < stop && stop <= kill && kill < guard && guard < unkillable && unkillable < t(at_most),
                    "{at_most} {kill_after}"
                );
                assert_eq!(kill.since(stop), ms(kill_after.min(at_most / 5)));
                assert!(timing.renew_at(t(0)) < stop, "a renewal comes before the stop: {at_most} {kill_after}");
            }
        }
    }

    #[test]
    fn the_hold_counts_from_the_acquisition_and_every_from_the_firing() {
        let hold = |policy: &Policy, reason, waited| Timing::new(policy).hold(policy, reason, ms(waited));
        let success = ExitReason::Exited(0);
        assert_eq!(hold(&policy(), success, 5_000), ms(10_000));
        let every = |every| Policy { every: Some(Every(ms(every))), ..policy() };
        assert_eq!(hold(&every(3_600_000), success, 0), ms(3_240_000));
        assert_eq!(hold(&every(3_600_000), success, 59_000), ms(3_181_000));
        assert_eq!(hold(&every(10_000), success, 0), ms(10_000), "at-least is longer");
        assert_eq!(hold(&every(60_000), success, 3_600_000), ms(10_000), "every is over");
        assert_eq!(hold(&every(3_600_000), ExitReason::Expired, 0), ms(3_240_000));
    }

    #[test]
    fn only_the_codes_that_are_named_are_success() {
        let policy = Policy { on_failure: OnFailure::Release, success_codes: vec![0, 3], ..policy() };
        let held = |reason| !Timing::new(&policy).hold(&policy, reason, ms(0)).is_zero();
        assert!(held(ExitReason::Exited(0)) && held(ExitReason::Exited(3)));
        for reason in [ExitReason::Exited(1), ExitReason::Killed(Signal::TERM), ExitReason::Expired, ExitReason::Lost] {
            assert!(!held(reason), "{reason:?}");
        }
    }

    #[test]
    fn a_failed_renewal_is_tried_again_the_sooner_the_less_time_is_left() {
        let timing = Timing::new(&policy());
        assert_eq!(timing.renew_again(ms(3_600_000), true), ms(30_000));
        assert_eq!(timing.renew_again(ms(40_000), true), ms(10_000));
        assert_eq!(timing.renew_again(ms(40_000), false), ms(4_000));
        assert_eq!(timing.renew_again(ms(1), false), ms(50));
        assert_eq!(timing.renew_again(ms(0), false), ms(30_000), "it is too late");
    }
}
