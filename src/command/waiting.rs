//! The pauses between tries for a held lock.

use std::time::Duration;

use crate::run::Patience;
use crate::system::Moment;

/// A wait that began at `begun`.
pub(super) struct Waiting {
    begun: Moment,
    patience: Patience,
    tries: u32,
}

impl Waiting {
    pub(super) fn new(patience: Patience) -> Self {
        Self { begun: Moment::now(), patience, tries: 0 }
    }

    /// Returns the pause before the next try, after one at `sent` that found the lock held for another `left`; `None` once the
    /// wait is over. The pauses are those of a waiting run: a free lock is noticed within a second, after a minute within five,
    /// and a slow server gets fewer requests.
    pub(super) fn pause(&mut self, sent: Moment, left: Duration) -> Option<Duration> {
        let now = Moment::now();
        let (waited, took) = (now.since(self.begun), now.since(sent));
        let longest = Duration::from_millis(if waited < Duration::from_secs(60) { 900 } else { 4_500 });
        let grown = Duration::from_millis(25) * (1 << self.tries.min(10));
        self.tries += 1;
        let pause = grown.max(took * 8).min(longest).max(took / 4).mul_f64(0.6 + 0.4 * random());
        // The lock is free when its time is up, and sooner only if it is released.
        let pause = pause.min(left.saturating_add(Duration::from_millis(1).mul_f64(1.0 + 19.0 * random())));
        match self.patience {
            Patience::Forever => Some(pause),
            Patience::UpTo(wait) if waited >= wait => None,
            Patience::UpTo(wait) => Some(pause.min(wait - waited)),
        }
    }
}

/// Returns a number from 0 to 1, to spread the load.
fn random() -> f64 {
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_less_than_a_second_and_none_is_longer_than_the_lock_is_held() {
        let mut waiting = Waiting::new(Patience::Forever);
        let hour = Duration::from_secs(3600);
        for try_number in 0..100 {
            let pause = waiting.pause(Moment::now(), hour).unwrap();
            assert!(
                pause < Duration::from_secs(1) && (try_number < 10 || pause > Duration::from_millis(500)),
                "{pause:?}"
            );
        }
        assert!(waiting.pause(Moment::now(), Duration::ZERO).unwrap() <= Duration::from_millis(20));
    }

    #[test]
    fn waiting_ends() {
        let mut waiting = Waiting::new(Patience::UpTo(Duration::ZERO));
        assert_eq!(waiting.pause(Moment::now(), Duration::MAX), None);
        let mut waiting = Waiting::new(Patience::UpTo(Duration::from_secs(60)));
        assert!(waiting.pause(Moment::now(), Duration::MAX).is_some());
    }
}
