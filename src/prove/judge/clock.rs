//! Compares the store's clock with this host's: it has to run as fast, and never to jump.

use std::collections::VecDeque;
use std::time::Duration;

use super::judgement::{Judgement, at};
use crate::duration::brief;
use crate::prove::history::{Answer, Call};
use crate::prove::rules::Rule;
use crate::system::{Moment, Timestamp};

/// The samples that are kept, and the shortest time between two.
const MOST: usize = 600;
const INTERVAL: Duration = Duration::from_millis(20);
/// The difference that counts, beside a part of the time between two samples.
const JUMP: Duration = Duration::from_millis(150);
const RATE: f64 = 0.005;
/// The samples from which a grain can be told.
const SAMPLES_FOR_GRAIN: usize = 5;
const SECOND: Duration = Duration::from_secs(1);

/// The store's time, which was read between two moments.
#[derive(Debug, Clone, Copy)]
struct Sample {
    sent: Moment,
    answered: Moment,
    time: Timestamp,
}

/// Samples of the store's clock.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    samples: VecDeque<Sample>,
    /// Notes the millisecond of the first time, how many there were, and whether all lie on the same one.
    coarse: Option<(u64, usize, bool)>,
    judgement: Judgement,
}

impl Clock {
    /// Adds what a call says about the store's clock.
    pub(crate) fn add(&mut self, call: &Call, start: Moment) {
        let Some(time) = time_of(call) else { return };
        let rest = time.0 % 1_000;
        let (first, count, same) = self.coarse.unwrap_or((rest, 0, true));
        self.coarse = Some((first, count + 1, same && rest == first));
        let sample = Sample { sent: call.sent, answered: call.answered, time };
        if self.samples.back().is_some_and(|last| sample.sent < last.answered + INTERVAL) {
            return;
        }
        let grain = self.grain();
        self.judgement.checked(Rule::Clock, 1);
        let differing = |earlier: &Sample| Some((*earlier, deviation(earlier, &sample, grain)?));
        let last = self.samples.back().and_then(differing);
        // A clock that runs wrong is as wrong in a long pause as in a short one.
        let is_jump = last.is_some_and(|(last, (by, _))| by > sample.sent.since(last.answered) / 4);
        let worst = self.samples.iter().filter_map(differing).max_by_key(|(_, (by, _))| *by);
        if let Some((earlier, (by, is_ahead))) = if is_jump { last } else { worst } {
            let direction = if is_ahead { "ahead" } else { "back" };
            let elapsed = sample.sent.since(earlier.answered);
            let text = match is_jump {
                true => format!(
                    "it jumped {direction} by {} between {} and {}",
                    brief(by),
                    at(earlier.answered, start),
                    at(sample.sent, start)
                ),
                false => format!(
                    "it went {} {direction} in {}: {:.1} %",
                    brief(by),
                    brief(elapsed),
                    by.as_secs_f64() / elapsed.as_secs_f64().max(0.001) * 100.0
                ),
            };
            self.judgement.broken(Rule::Clock, by, text);
            if is_jump {
                // A jump is told once.
                self.samples.clear();
            }
        }
        self.samples.push_back(sample);
        if self.samples.len() > MOST {
            // Every other one goes, so that a clock that runs fast is seen against the oldest.
            let mut place = 0;
            self.samples.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
    }

    /// Returns what was seen, with a jump as a doubt only where the store's locks do not go by this clock.
    pub(crate) fn judgement(&self, decides: bool) -> Judgement {
        let mut judgement = self.judgement.clone();
        if !decides && let Some(verdict) = judgement.verdicts.get_mut(&Rule::Clock) {
            verdict.doubtful += std::mem::take(&mut verdict.broken);
            if let Some(worst) = &mut verdict.worst {
                worst.broken = false;
            }
        }
        judgement
    }

    fn grain(&self) -> Duration {
        match self.coarse {
            Some((_, SAMPLES_FOR_GRAIN.., false)) => Duration::ZERO,
            _ => SECOND,
        }
    }
}

/// Returns by how much the time between two samples differs, and whether the store's clock went ahead; `None` if that is in order.
fn deviation(first: &Sample, second: &Sample, grain: Duration) -> Option<(Duration, bool)> {
    let (least, most) = (second.sent.since(first.answered), second.answered.since(first.sent));
    let allowed = JUMP + grain * 2 + most.mul_f64(RATE);
    let elapsed = second.time.since(first.time);
    let back = first.time.since(second.time);
    if elapsed > most + allowed {
        return Some((elapsed.saturating_sub(most), true));
    }
    let behind = (least + back).saturating_sub(elapsed);
    (behind > allowed).then_some((behind, false))
}

/// Returns the store's time that a call has read. A list has it; of a repeated acquisition it is that of the first.
fn time_of(call: &Call) -> Option<Timestamp> {
    match call.answer {
        Answer::Listed { now, .. } => Some(now),
        _ => None,
    }
}

/// Returns how coarse the store's clock is, as far as these calls show.
pub(super) fn grain(calls: &[Call]) -> Duration {
    let mut rests = calls.iter().filter_map(time_of).map(|time| time.0 % 1_000);
    let first = rests.next();
    if first.is_some() && rests.all(|rest| Some(rest) == first) { SECOND } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::Config;

    use super::*;
    use crate::prove::history::Request;
    use crate::prove::random::Random;

    /// Has a clock read every 100 ms for a minute, with requests that take any time, and returns what was seen. `time` gives the
    /// store's time in milliseconds by the true one.
    fn seen(seed: u64, time: impl Fn(u64) -> u64) -> (u64, String) {
        let (start, mut random, mut clock) = (Moment::at(SECOND), Random::new(seed, 0), Clock::default());
        for turn in 0..600 {
            let sent = turn * 100 + random.within(0..40);
            let read = sent + random.within(0..30);
            let moment = |ms: u64| start + Duration::from_millis(ms);
            let call = Call {
                lock: 0,
                owner: String::new(),
                request: Request::List,
                sent: moment(sent),
                answered: moment(read + random.within(0..30)),
                answer: Answer::Listed { now: Timestamp(time(1_700_000_000_123 + read)), state: None },
                fault: None,
            };
            clock.add(&call, start);
        }
        let verdict = clock.judgement(true).verdicts[&Rule::Clock].clone();
        assert!(verdict.checked > 500);
        assert_eq!(clock.judgement(false).verdicts[&Rule::Clock].broken, 0);
        (verdict.broken, verdict.worst.map(|case| case.text).unwrap_or_default())
    }

    proptest! {
        #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(50) })]

        #[test]
        fn a_clock_that_goes_right_is_believed(seed in any::<u64>()) {
            prop_assert_eq!(seen(seed, |ms| ms).0, 0);
            // As the answers of HTTP have it, and as NTP corrects a clock.
            prop_assert_eq!(seen(seed, |ms| ms / 1_000 * 1_000).0, 0);
            prop_assert_eq!(seen(seed, |ms| ms + (ms - 1_700_000_000_000) / 2_000).0, 0);
        }
    }

    #[test]
    fn a_clock_that_jumps_is_seen_once() {
        let ahead = |ms: u64| if ms > 1_700_000_030_000 { ms + 3_600_000 } else { ms };
        let back = |ms: u64| if ms > 1_700_000_030_000 { ms - 500 } else { ms };
        let (times, text) = seen(1, ahead);
        assert!(times == 1 && text.starts_with("it jumped ahead by 1h between 29."), "{times}: {text}");
        let (times, text) = seen(1, back);
        assert!(times == 1 && text.starts_with("it jumped back by "), "{times}: {text}");
    }

    #[test]
    fn a_clock_that_runs_wrong_is_seen() {
        let (_, fast) = seen(1, |ms| ms + (ms - 1_700_000_000_000) / 10);
        assert!(fast.contains(" ahead in ") && fast.ends_with("10.0 %"), "{fast}");
        let (_, slow) = seen(1, |ms| ms - (ms - 1_700_000_000_000) / 20);
        assert!(slow.contains(" back in ") && slow.ends_with("5.0 %"), "{slow}");
    }
}
