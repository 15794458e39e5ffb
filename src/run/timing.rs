//! When things are due in a run: the stop, the kill, the renewal, the next try, and how long the lock stays held.

use std::time::Duration;

use super::policy::{OnFailure, Patience, Policy};
use crate::clock::Moment;
use crate::exit::Outcome;
use crate::lock::Grant;

const MINUTE: Duration = Duration::from_secs(60);
/// How often SIGKILL is repeated until the whole job is dead: it may be forking.
const KILL_AGAIN: Duration = Duration::from_millis(50);

/// The times that follow from a run's policy.
#[derive(Debug)]
pub(crate) struct Timing {
    at_most: Duration,
    /// Between the first signal and SIGKILL.
    pub(super) kill_after: Duration,
    /// Between SIGKILL and the end of the lease.
    margin: Duration,
    wait: Patience,
    /// When waiting began, and how often we have asked.
    waiting: Option<(Moment, u32)>,
    answer: Duration,
    random: u64,
}

impl Timing {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            at_most: policy.at_most,
            kill_after: policy.kill_after.min(policy.at_most / 5),
            margin: margin(policy.at_most),
            wait: policy.wait,
            waiting: None,
            answer: Duration::ZERO,
            random: policy.seed | 1,
        }
    }

    /// When the job gets its first signal, if the lease ends at `end`.
    pub(super) fn stop_at(&self, end: Moment) -> Moment {
        self.kill_at(end) - self.kill_after
    }

    /// When it gets SIGKILL.
    pub(super) fn kill_at(&self, end: Moment) -> Moment {
        end - self.margin
    }

    /// When it gets SIGKILL once more. Not past [`Timing::undead_at`], which is looked at only then: a short margin is
    /// hardly longer than the pause, and the lock would be lost before it is renewed.
    pub(super) fn kill_again(&self, now: Moment, end: Moment) -> Moment {
        let (again, undead_at) = (now + KILL_AGAIN, self.undead_at(end));
        if now < undead_at { again.min(undead_at) } else { again }
    }

    /// When what SIGKILL has not ended must be taken for lasting.
    pub(super) fn undead_at(&self, end: Moment) -> Moment {
        end - self.margin / 2
    }

    /// When a lease of at-most that was asked for at `sent` is renewed: a third is left to try in.
    pub(super) fn renew_at(&self, sent: Moment) -> Moment {
        sent + self.at_most * 2 / 3
    }

    /// How long to pause after a failed renewal, with `left` until the job would have to be stopped.
    pub(super) fn renew_again(&self, left: Duration, lasting: bool) -> Duration {
        let share = if lasting { left / 4 } else { left / 10 };
        share.clamp(Duration::from_millis(50), Duration::from_secs(30))
    }

    /// Notes how long the backend took to answer: who is slow is asked less often.
    pub(super) fn answered(&mut self, took: Duration) {
        self.answer = took;
    }

    /// When to ask again for a lock that stays held for `left` unless it is released; `None` if waiting is over.
    ///
    /// The pause grows to at most a second, after a minute to at most five, so that a lock that becomes free is
    /// noticed in that time. It is spread at random, lest all waiters ask at once.
    pub(super) fn next_try(&mut self, now: Moment, left: Duration) -> Option<Moment> {
        let (since, tries) = self.waiting.unwrap_or((now, 0));
        self.waiting = Some((since, tries.saturating_add(1)));
        let longest = if now.since(since) < MINUTE { Duration::from_millis(900) } else { Duration::from_millis(4_500) };
        let grown = Duration::from_millis(25).saturating_mul(1 << tries.min(10));
        let pause = grown.max(self.answer * 8).min(longest.saturating_sub(self.answer));
        let pause = pause.max(Duration::from_millis(10)).mul_f64(self.between(0.6, 1.0));
        // It is free when its time is up, and not a moment before unless somebody gives it back.
        let at = now + pause.min(left + Duration::from_millis(1).mul_f64(self.between(1.0, 20.0)));
        match self.wait {
            Patience::Forever => Some(at),
            Patience::UpTo(wait) if wait.is_zero() || now >= since + wait => None,
            Patience::UpTo(wait) => Some(at.min(since + wait)),
        }
    }

    /// How long after it was taken the lock is to stay held, now that the run has come to `outcome`; `waited` passed
    /// between our start and the taking.
    pub(super) fn hold(&self, policy: &Policy, outcome: Outcome, grant: Grant, waited: Duration) -> Duration {
        let every = policy.every.map_or(Duration::ZERO, |every| {
            Duration::from_millis(every.held_until(grant.locked_at, waited).0.saturating_sub(grant.locked_at.0))
        });
        let success = matches!(outcome, Outcome::Exited(code) if policy.success_codes.contains(&code));
        match policy.on_failure {
            OnFailure::Release if !success => Duration::ZERO,
            OnFailure::Hold if !success => policy.at_most.max(every),
            _ => policy.at_least.max(every),
        }
    }

    /// A number from `low` to `high` (xorshift64; it spreads load and guards nothing).
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let unit = f64::from(u32::try_from(self.random >> 32).unwrap_or_default()) / f64::from(u32::MAX);
        low + unit * (high - low)
    }
}

/// How long before the end of a lease everything must be dead: what it takes the kernel to end and us to notice, and
/// what this host's clock may lose against the backend's in that time (500 ppm, the most that NTP corrects).
fn margin(lease: Duration) -> Duration {
    let reaction = (lease / 20).clamp(Duration::from_millis(100), Duration::from_secs(2));
    reaction + lease / 2000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_part_of_the_lease() {
        assert_eq!(margin(Duration::from_secs(1)), Duration::from_micros(100_500));
        assert_eq!(margin(Duration::from_secs(3600)), Duration::from_millis(3_800));
        assert_eq!(margin(Duration::from_secs(86_400)), Duration::from_millis(45_200));
    }

    #[test]
    fn a_kill_is_repeated_no_later_than_the_undead_are_looked_for() {
        let margin = margin(Duration::from_secs(1));
        let (at_most, waiting, answer) = (Duration::from_secs(1), None, Duration::ZERO);
        let timing = Timing { at_most, kill_after: at_most / 5, margin, wait: Patience::Forever, waiting, answer, random: 1 };
        let end = Moment::at(Duration::from_secs(100));
        let first = timing.kill_at(end);
        assert_eq!(timing.kill_again(first, end), first + KILL_AGAIN);
        assert_eq!(timing.kill_again(first + KILL_AGAIN, end), timing.undead_at(end));
        let late = timing.undead_at(end);
        assert_eq!(timing.kill_again(late, end), late + KILL_AGAIN);
    }
}
