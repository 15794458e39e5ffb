//! Figures of what was recorded: how many requests of each kind, how long they took, the longest stall, and the errors. Bounded in
//! memory, however long it runs.

use std::collections::BTreeMap;
use std::time::Duration;

use super::history::{Answer, Call, Request};
use crate::system::Moment;
use crate::text::shorten;

/// The messages of errors that are counted apart.
const MOST_MESSAGES: usize = 20;
/// The buckets of a histogram for each doubling of the time: a value is right to within three in a hundred.
const STEPS: u32 = 32;

/// The figures so far.
pub(crate) struct Figures {
    start: Moment,
    pub(crate) takings: Latency,
    pub(crate) skips: Latency,
    pub(crate) releases: Latency,
    pub(crate) requests: u64,
    /// Requests that the relay cut, delayed or kept.
    pub(crate) cuts: u64,
    pub(crate) errors: Errors,
    pub(crate) stall: Stall,
    last: Moment,
}

/// How often something was done, and how long it took.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    /// Requests by the logarithm of their microseconds.
    buckets: BTreeMap<u32, u64>,
    pub(crate) count: u64,
}

/// Errors by their messages.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    pub(crate) by_message: BTreeMap<String, u64>,
    /// Those with yet other messages.
    pub(crate) others: u64,
    pub(crate) count: u64,
}

/// The longest time in which no request for a lock was answered although there was one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stall {
    failing: Option<Moment>,
    answered: Moment,
    pub(crate) from: Moment,
    pub(crate) lasted: Duration,
}

impl Figures {
    pub(crate) fn new(start: Moment) -> Self {
        Self {
            start,
            takings: Latency::default(),
            skips: Latency::default(),
            releases: Latency::default(),
            requests: 0,
            cuts: 0,
            errors: Errors::default(),
            stall: Stall { failing: None, answered: start, from: start, lasted: Duration::ZERO },
            last: start,
        }
    }

    /// Adds a call. They come in the order of their answers.
    pub(crate) fn add(&mut self, call: &Call) {
        self.requests += 1;
        self.cuts += u64::from(call.fault.is_some());
        let (took, is_cut) = (call.answered.since(call.sent), call.fault.is_some());
        self.last = self.last.max(call.answered);
        if !is_cut && matches!(call.request, Request::Acquire { .. }) {
            self.stall.add(call.sent, call.answered, matches!(call.answer, Answer::Failed { .. }));
        }
        match (&call.answer, call.request) {
            (Answer::Failed { message, .. }, _) if !is_cut => self.errors.add(message),
            (Answer::Granted { .. }, _) => self.takings.add(took, is_cut),
            (Answer::Refused(_), _) => self.skips.add(took, is_cut),
            (Answer::StillHeld(_), Request::Release { .. }) => self.releases.add(took, is_cut),
            _ => {}
        }
    }

    /// Counts the time that nothing was answered at the end as a stall, too.
    pub(crate) fn finish(&mut self, end: Moment) {
        if let Some(failing) = self.stall.failing {
            self.stall.add(failing, end, false);
        }
    }

    /// Returns how many takings there were in a second.
    pub(crate) fn rate(&self) -> f64 {
        let time = self.last.since(self.start).as_secs_f64();
        if time > 0.0 { count(self.takings.count) / time } else { 0.0 }
    }

    /// Returns when the longest stall began, counted from the start.
    pub(crate) fn stall_began(&self) -> Duration {
        self.stall.from.since(self.start)
    }
}

impl Latency {
    fn add(&mut self, took: Duration, is_cut: bool) {
        self.count += 1;
        if !is_cut {
            *self.buckets.entry(bucket(took)).or_default() += 1;
        }
    }

    /// Returns the time within which so many of a hundred requests were answered; `None` if there was none.
    pub(crate) fn percentile(&self, percent: u64) -> Option<Duration> {
        let all: u64 = self.buckets.values().sum();
        let wanted = (all * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        found.map(|(bucket, _)| value(*bucket))
    }
}

impl Errors {
    fn add(&mut self, message: &str) {
        self.count += 1;
        let message = shorten(message);
        if self.by_message.len() < MOST_MESSAGES || self.by_message.contains_key(message.as_ref()) {
            *self.by_message.entry(message.into_owned()).or_default() += 1;
        } else {
            self.others += 1;
        }
    }
}

impl Stall {
    fn add(&mut self, sent: Moment, answered: Moment, failed: bool) {
        // Another client's request may have been answered since this one was sent.
        let from = self.failing.map_or(sent, |failing| failing.min(sent)).max(self.answered);
        self.failing = failed.then_some(from);
        if !failed {
            self.answered = self.answered.max(answered);
        }
        let lasted = answered.since(from);
        if lasted > self.lasted {
            (self.from, self.lasted) = (from, lasted);
        }
    }
}

fn bucket(took: Duration) -> u32 {
    let micros = took.as_secs_f64() * 1e6;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number that is not negative")]
    let bucket = (micros.max(1.0).log2() * f64::from(STEPS)).round() as u32;
    bucket
}

fn value(bucket: u32) -> Duration {
    Duration::from_secs_f64((f64::from(bucket) / f64::from(STEPS)).exp2() / 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn count(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_three_in_a_hundred() {
        let mut latency = Latency::default();
        (1..=1000).for_each(|ms| latency.add(Duration::from_millis(ms), false));
        latency.add(Duration::from_secs(60), true);
        for (percent, wanted) in [(50, 0.5), (99, 0.99), (100, 1.0)] {
            let found = latency.percentile(percent).unwrap().as_secs_f64();
            assert!((found / wanted - 1.0).abs() < 0.03, "{percent}: {found}");
        }
        assert_eq!((latency.count, Latency::default().percentile(50)), (1001, None));
        assert!(latency.buckets.len() < 400);
    }

    #[test]
    fn only_so_many_messages_are_kept() {
        let mut errors = Errors::default();
        (0..100).for_each(|number| errors.add(&format!("error {}", number % 25)));
        assert_eq!((errors.by_message.len(), errors.count, errors.others), (20, 100, 20));
    }

    #[test]
    fn a_stall_lasts_from_the_first_request_that_failed_to_the_next_answer() {
        let at = |secs| Moment::at(Duration::from_secs(secs));
        let mut figures = Figures::new(at(100));
        for (sent, answered, failed) in
            [(100, 101, false), (103, 104, true), (104, 109, true), (109, 110, false), (110, 113, false)]
        {
            figures.stall.add(at(sent), at(answered), failed);
        }
        assert_eq!((figures.stall_began(), figures.stall.lasted), (Duration::from_secs(3), Duration::from_secs(7)));
        figures.stall.add(at(120), at(121), true);
        figures.finish(at(140));
        assert_eq!((figures.stall_began(), figures.stall.lasted), (Duration::from_secs(20), Duration::from_secs(20)));
    }
}
