//! How soon a request that met trouble is made again: for runs and for the commands beside them. It neither asks nor sleeps.

use std::time::Duration;

use super::{ErrorClass, Pace};
use crate::system::Moment;

/// How much sooner than at the deadline the last try may be made, so that its answer still comes in time.
const RESERVE: Duration = Duration::from_millis(500);
/// A full server is left alone for so many times as long as it took to say so.
pub(crate) const RESPITE: u32 = 4;

/// The pauses between the tries of one request.
pub(crate) struct Retry {
    deadline: Moment,
    pause: Duration,
    longest: Duration,
}

impl Retry {
    pub(crate) fn new(pace: Pace, deadline: Moment) -> Self {
        Self { deadline, pause: pace.first, longest: pace.longest }
    }

    /// Returns how long to pause after a try that was made at `sent` and met this kind of trouble; `None` if it was the last.
    pub(crate) fn pause(&mut self, met: ErrorClass, sent: Moment, now: Moment) -> Option<Duration> {
        let took = now.since(sent);
        let pause = match met {
            ErrorClass::Permanent => return None,
            ErrorClass::Transient => self.pause,
            // Refusing costs a server nearly as much as answering. Where too many ask, it is slow to refuse, and
            // who does not slow down with it keeps it from ever getting done.
            ErrorClass::Overloaded => self.pause.max(took * RESPITE),
        };
        self.pause = (self.pause * 2).min(self.longest);
        // The last try is made as late as its answer, if it takes as long as this one, allows.
        let left = (self.deadline - took.min(RESERVE)).since(now);
        // Half of every pause is at random, lest those who collided collide again. All of it at random spreads
        // them no better: after a few pauses they are spread anyway, and the shorter pauses only cost more tries.
        (!left.is_zero()).then(|| pause.mul_f64(0.5 + 0.5 * random()).min(left))
    }
}

/// A number from 0 to 1; without randomness from the system, always 1.
fn random() -> f64 {
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_the_deadline_and_what_stays_is_not_tried_again() {
        let ms = Duration::from_millis;
        let start = Moment::at(Duration::from_secs(100));
        let mut retry = Retry::new(Pace { first: ms(100), longest: ms(400) }, start + ms(1000));
        assert_eq!(retry.pause(ErrorClass::Permanent, start, start), None);
        for longest in [100, 200, 400, 400] {
            let pause = retry.pause(ErrorClass::Transient, start, start).unwrap();
            assert!(pause >= ms(longest) / 2 && pause <= ms(longest), "{pause:?} of {longest}");
        }
        // A server that took 100 ms to say that it is full is left alone for longer, and then there is time for its answer.
        let pause = retry.pause(ErrorClass::Overloaded, start, start + ms(100)).unwrap();
        assert!(pause >= ms(200) && pause <= ms(400), "{pause:?}");
        assert_eq!(retry.pause(ErrorClass::Overloaded, start + ms(850), start + ms(950)), None);
    }
}
