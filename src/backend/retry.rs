//! Computes the pauses before a failed request is repeated, for runs and for other commands. This file neither sends nor
//! sleeps.

use std::time::Duration;

use super::Pace;
use crate::lock::ErrorClass;
use crate::system::Moment;

/// Time before the deadline that is left for the answer to the last try.
const LAST_TRY_TIME: Duration = Duration::from_millis(500);
/// Pause after a refusal by an overloaded server, as a multiple of the time that the refusal took.
pub(crate) const OVERLOAD_PAUSE_FACTOR: u32 = 4;

/// Computes the pauses between the tries of one request.
pub(crate) struct Retry {
    deadline: Moment,
    pause: Duration,
    longest: Duration,
    /// Whether a permanent error is tried again, too.
    retries_permanent: bool,
    /// The pause that the server asked for when the last try failed.
    requested_pause: Option<Duration>,
}

impl Retry {
    pub(crate) fn new(pace: Pace, deadline: Moment) -> Self {
        Self { deadline, pause: pace.first, longest: pace.longest, retries_permanent: false, requested_pause: None }
    }

    /// Goes on trying after a permanent error. A lock that is not released blocks its job until its lease ends,
    /// and what looks permanent may pass: a proxy answers while its server restarts, a password is being changed.
    pub(crate) fn retrying_permanent(self) -> Self {
        Self { retries_permanent: true, ..self }
    }

    /// Notes the pause that the server asked for when it refused the last try.
    pub(crate) fn note_requested_pause(&mut self, requested_pause: Option<Duration>) {
        self.requested_pause = requested_pause;
    }

    /// Returns the pause after a try that was sent at `sent` and failed with this class; `None` if it was the last.
    pub(crate) fn pause(&mut self, met: ErrorClass, sent: Moment, now: Moment) -> Option<Duration> {
        let took = now.since(sent);
        let pause = match met {
            // Frequent tries would not help.
            ErrorClass::Permanent if self.retries_permanent => self.longest,
            ErrorClass::Permanent => return None,
            ErrorClass::Transient => self.pause,
            // A refusal costs a server nearly as much as an answer. A server with too many clients refuses slowly,
            // and clients that do not slow down with it keep it from recovering.
            ErrorClass::Overloaded => self.pause.max(took * OVERLOAD_PAUSE_FACTOR),
        };
        self.pause = (self.pause * 2).min(self.longest);
        // The last try is made as late as possible for an answer that takes as long as this one.
        let until = |reserve| (self.deadline - reserve).since(now);
        let left = until(took.min(LAST_TRY_TIME));
        // Half of every pause is random, so that clients which collided do not collide again. A fully random pause
        // spreads them no better: after a few pauses they are spread anyway, and shorter pauses only cost more tries.
        let own = pause.mul_f64(0.5 + 0.5 * random()).min(left);
        // The server may be well long before that, so there is a last try, and more time for it than a refusal takes.
        let wanted = self
            .requested_pause
            .take()
            .map_or(Duration::ZERO, |requested_pause| requested_pause.min(until(LAST_TRY_TIME)));
        (!left.is_zero()).then(|| own.max(wanted))
    }
}

/// Returns a random number from 0 to 1; always 1 if the system has no randomness.
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

    #[test]
    fn who_insists_tries_again_after_an_error_that_looks_permanent_but_not_often() {
        let ms = Duration::from_millis;
        let start = Moment::at(Duration::from_secs(100));
        let mut retry = Retry::new(Pace { first: ms(1), longest: ms(400) }, start + ms(1000)).retrying_permanent();
        let pause = retry.pause(ErrorClass::Permanent, start, start).unwrap();
        assert!(pause >= ms(200) && pause <= ms(400), "{pause:?}");
        let late = start + ms(1000);
        assert_eq!(retry.pause(ErrorClass::Permanent, late, late), None);
    }

    #[test]
    fn a_server_that_wants_respite_is_left_alone_and_asked_once_more_before_the_deadline() {
        let ms = Duration::from_millis;
        let start = Moment::at(Duration::from_secs(100));
        let mut retry = Retry::new(Pace { first: ms(20), longest: ms(40) }, start + ms(10_000));
        retry.note_requested_pause(Some(ms(2_000)));
        assert_eq!(retry.pause(ErrorClass::Overloaded, start, start + ms(5)), Some(ms(2_000)));
        let soon = retry.pause(ErrorClass::Overloaded, start, start).unwrap();
        assert!(soon <= ms(40), "it was for one try: {soon:?}");
        retry.note_requested_pause(Some(ms(30_000)));
        assert_eq!(retry.pause(ErrorClass::Transient, start + ms(3_000), start + ms(3_005)), Some(ms(6_495)));
        // The last try is refused as well.
        retry.note_requested_pause(Some(ms(30_000)));
        let last = retry.pause(ErrorClass::Overloaded, start + ms(9_500), start + ms(9_505)).unwrap();
        assert!(last <= ms(40), "{last:?}");
        assert_eq!(retry.pause(ErrorClass::Overloaded, start + ms(9_999), start + ms(10_000)), None);
    }
}
