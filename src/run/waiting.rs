//! The pauses of a wait: for a lock that is held, and for a server that has no room. It neither asks nor sleeps.

use std::time::Duration;

use super::policy::WaitLimit;
use crate::system::Moment;

const MINUTE: Duration = Duration::from_secs(60);

/// A wait, from its first try.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    limit: WaitLimit,
    backend_timeout: Duration,
    /// When waiting began, and how many tries there were.
    begun: Option<(Moment, u32)>,
    /// How long the backend took to answer.
    answer: Duration,
    random: u64,
}

impl Waiting {
    pub(crate) fn new(limit: WaitLimit, backend_timeout: Duration, seed: u64) -> Self {
        Self { limit, backend_timeout, begun: None, answer: Duration::ZERO, random: seed | 1 }
    }

    /// Notes how long the backend took to answer: a slow server is asked less often.
    pub(crate) fn answered(&mut self, took: Duration) {
        self.answer = took;
    }

    /// Returns when to ask again for a lock that stays held for `left` unless it is released; `None` if waiting is over.
    ///
    /// The pause grows to at most a second, after a minute to at most five, so that a lock that becomes free is
    /// noticed in that time. It is spread at random, lest all waiters ask at once.
    pub(crate) fn next_try(&mut self, now: Moment, left: Duration) -> Option<Moment> {
        let (since, tries) = self.count(now);
        let grown = Duration::from_millis(25).saturating_mul(1 << tries.min(10));
        let pause = grown.max(self.answer * 8).min(longest(now.since(since)).saturating_sub(self.answer));
        // A server that needs longer than that has reasons to be asked less, even if a waiter then gets in later.
        let pause = pause.max(self.answer / 4).max(Duration::from_millis(10)).mul_f64(self.between(0.6, 1.0));
        // The lock is free when its time is up, and not a moment before unless its owner releases it. A lock without an end
        // stays held for as long as there are numbers.
        let freed = left.saturating_add(Duration::from_millis(1).mul_f64(self.between(1.0, 20.0)));
        again(now, since, pause.min(freed), self.limit)
    }

    /// Returns when to ask a full server again; `None` if waiting is over.
    ///
    /// Every try costs the server a connection, which the runs that hold a lock need: so the pause is long from the first try
    /// on. `--wait` is for a held lock. While shedlock does not know that the lock is held, it tries for `--backend-timeout`,
    /// as without `--wait`, where that is longer. A server that wants no request for a time gets none, up to the end of the
    /// wait.
    pub(crate) fn next_try_when_full(
        &mut self,
        now: Moment,
        known_held: bool,
        respite: Option<Duration>,
    ) -> Option<Moment> {
        let (since, _) = self.count(now);
        let pause = longest(now.since(since)).max(self.answer * 4).mul_f64(self.between(0.2, 1.0));
        let pause = pause.max(respite.unwrap_or_default());
        let limit = match self.limit {
            WaitLimit::UpTo(wait) if !known_held => WaitLimit::UpTo(wait.max(self.backend_timeout)),
            wait => wait,
        };
        again(now, since, pause, limit)
    }

    /// Counts a try, and returns when waiting began and how many tries came before.
    fn count(&mut self, now: Moment) -> (Moment, u32) {
        let (since, tries) = self.begun.unwrap_or((now, 0));
        self.begun = Some((since, tries.saturating_add(1)));
        (since, tries)
    }

    /// Returns a number from `low` to `high` (xorshift64; it spreads load and guards nothing).
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let unit = f64::from(u32::try_from(self.random >> 32).unwrap_or_default()) / f64::from(u32::MAX);
        low + unit * (high - low)
    }
}

/// Returns the longest pause of a run that has waited for `waited`: with the time for an answer, a waiter gets in within a
/// second, or later within five.
fn longest(waited: Duration) -> Duration {
    if waited < MINUTE { Duration::from_millis(900) } else { Duration::from_millis(4_500) }
}

/// Returns the end of a pause, but no later than that of the wait, when the last try is made; `None` if that has come.
fn again(now: Moment, since: Moment, pause: Duration, limit: WaitLimit) -> Option<Moment> {
    let at = now + pause;
    match limit {
        WaitLimit::Forever => Some(at),
        WaitLimit::UpTo(wait) if wait.is_zero() || now >= since + wait => None,
        WaitLimit::UpTo(wait) => Some(at.min(since + wait)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn t(millis: u64) -> Moment {
        Moment::at(ms(1_000_000 + millis))
    }

    fn waiting(limit: WaitLimit, seed: u64) -> Waiting {
        Waiting::new(limit, ms(10_000), seed)
    }

    #[test]
    fn who_does_not_wait_does_not_try_again() {
        assert_eq!(waiting(WaitLimit::UpTo(ms(0)), 1).next_try(t(0), ms(1)), None);
    }

    #[test]
    fn the_last_try_is_at_the_end_of_the_wait() {
        let mut wait = waiting(WaitLimit::UpTo(ms(2_000)), 1);
        let mut now = t(0);
        while let Some(at) = wait.next_try(now, ms(60_000)) {
            assert!(now < at && at <= t(2_000), "{at:?}");
            now = at;
        }
        assert_eq!(now, t(2_000));
    }

    #[test]
    fn pauses_grow_to_a_second_and_after_a_minute_to_five() {
        for seed in 0..50 {
            let mut wait = waiting(WaitLimit::Forever, seed);
            let (mut now, mut longest_early, mut longest_late) = (t(0), ms(0), ms(0));
            let mut tries = 0;
            while now < t(120_000) {
                let at = wait.next_try(now, ms(600_000)).unwrap();
                let longest = if now < t(60_000) { &mut longest_early } else { &mut longest_late };
                *longest = (*longest).max(at.since(now));
                now = at;
                tries += 1;
            }
            assert!(longest_early > ms(500) && longest_early <= ms(1_000), "{longest_early:?}");
            assert!(longest_late > ms(2_500) && longest_late <= ms(5_000), "{longest_late:?}");
            assert!(tries < 150, "{tries}");
        }
    }

    #[test]
    fn who_waits_slows_down_with_the_server() {
        let first_pause = |answer| {
            let mut wait = waiting(WaitLimit::Forever, 1);
            wait.answered(ms(answer));
            wait.next_try(t(0), ms(60_000)).unwrap().since(t(0))
        };
        assert!(first_pause(1) <= ms(25));
        assert!(first_pause(50) >= ms(200));
        assert!(first_pause(4_000) >= ms(500));
        // From try to answer it is still within a second.
        for answer in [100, 300, 500, 800] {
            assert!(first_pause(answer) + ms(answer) <= ms(1_000), "{answer}");
        }
    }

    #[test]
    fn waiters_do_not_ask_all_at_once() {
        let mut first: Vec<Moment> = (0..20)
            .map(|seed| {
                waiting(WaitLimit::Forever, u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15))
                    .next_try(t(0), ms(60_000))
                    .unwrap()
            })
            .collect();
        first.sort();
        first.dedup();
        assert!(first.len() > 15, "{first:?}");
    }

    #[test]
    fn a_lock_whose_time_is_up_is_asked_for_at_once_and_not_before() {
        for seed in 0..50 {
            let mut wait = waiting(WaitLimit::Forever, seed);
            for _ in 0..20 {
                wait.next_try(t(0), ms(60_000));
            }
            let at = wait.next_try(t(10_000), ms(100)).unwrap();
            assert!(t(10_101) <= at && at <= t(10_120), "{at:?}");
            assert!(wait.next_try(t(10_200), ms(0)).unwrap() > t(10_200));
        }
    }

    #[test]
    fn a_lock_without_an_end_is_asked_for_like_any_other() {
        let at = waiting(WaitLimit::Forever, 1).next_try(t(0), Duration::MAX).unwrap();
        assert!(t(0) < at && at <= t(25), "{at:?}");
    }

    #[test]
    fn a_full_server_is_asked_seldom_and_the_more_so_the_slower_it_is() {
        let (mut shortest, mut longest) = (ms(u64::MAX), ms(0));
        for seed in 0..50 {
            let mut wait = waiting(WaitLimit::Forever, u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
            let pause = wait.next_try_when_full(t(0), false, None).unwrap().since(t(0));
            (shortest, longest) = (shortest.min(pause), longest.max(pause));
            wait.answered(ms(3_000));
            assert!(wait.next_try_when_full(t(0), false, None).unwrap() >= t(2_400));
        }
        assert!(ms(180) <= shortest && shortest < ms(300), "{shortest:?}");
        assert!(ms(750) < longest && longest <= ms(900), "{longest:?}");
    }
    #[test]
    fn a_full_server_that_wants_respite_is_asked_at_the_end_of_the_wait_at_the_latest() {
        let respite = Some(ms(30_000));
        assert_eq!(waiting(WaitLimit::Forever, 1).next_try_when_full(t(0), true, respite), Some(t(30_000)));
        assert_eq!(waiting(WaitLimit::UpTo(ms(12_000)), 1).next_try_when_full(t(0), true, respite), Some(t(12_000)));
    }
}
