//! Choices that the same seed repeats.

use std::ops::Range;
use std::time::Duration;

/// A stream of numbers (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Makes the stream of a seed and of whatever tells it from others of that seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed);
        let state = random.next() ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93);
        Self(state)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Returns true in so many of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    /// Returns a number below `count`; 0 if that is 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.within(0..count)).unwrap_or_default()
    }

    /// Returns a duration between these, in milliseconds.
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 1);
        Duration::from_millis(self.within(ms(least)..ms(most).max(ms(least)) + 1))
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(list.len()).ok().filter(|count| *count > 0)?;
        list.get(usize::try_from(self.within(0..count)).ok()?)
    }
}
