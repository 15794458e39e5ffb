//! Choices that the same seed repeats.

use std::ops::Range;

/// A stream of numbers (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    /// The stream of a seed and of whatever tells it from others of that seed.
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

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(list.len()).ok().filter(|count| *count > 0)?;
        list.get(usize::try_from(self.within(0..count)).ok()?)
    }
}
