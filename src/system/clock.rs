//! The two clocks of a run: `Moment`, on this host's boot clock, for all waiting; and `Timestamp`, a backend's wall clock, for
//! stored and printed times.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// An instant on `CLOCK_BOOTTIME`: it never jumps, and it goes on while the machine is suspended, so a lease that
/// ran out during a suspend is seen to have run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    /// Reads the clock.
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::CLOCK_BOOTTIME)
            .or_else(|_| clock_gettime(ClockId::CLOCK_MONOTONIC))
            .expect("every Linux has a monotonic clock");
        Self(Duration::from(now))
    }

    /// Returns how long this host has been suspended since boot.
    pub(crate) fn suspended() -> Duration {
        let awake = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
        Self::now().0.saturating_sub(awake)
    }

    /// Creates the instant `since_boot` after boot.
    pub(crate) const fn at(since_boot: Duration) -> Self {
        Self(since_boot)
    }

    /// Returns the time since boot.
    pub(crate) const fn since_boot(self) -> Duration {
        self.0
    }

    /// Returns how long ago `earlier` was; zero if it is in the future.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(earlier))
    }
}

/// A point on the backend's wall clock, in milliseconds since 1970-01-01 UTC. Shown as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Timestamp(pub(crate) u64);

impl Timestamp {
    /// Reads this host's wall clock: for log lines, and for locks in a file on this host. A server has a clock of its own.
    pub(crate) fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Parses `2026-01-31T18:00:00.000Z`; `None` for any other text.
    #[cfg(any(
        test,
        feature = "sqlite",
        feature = "postgres",
        feature = "mysql",
        feature = "redis",
        feature = "http",
        feature = "zookeeper"
    ))]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        humantime::parse_rfc3339_weak(text).ok().map(Self::from)
    }

    /// Returns how long before it `earlier` was; zero if `earlier` is later.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The last instant humantime can format is the end of the year 9999.
        let millis = self.0.min(253_402_300_799_999);
        humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(millis)).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_reads_what_it_prints() {
        let text = "2026-01-31T18:00:58.900Z";
        assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        assert_eq!(Timestamp(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn moments_never_wrap() {
        let boot = Moment::at(Duration::ZERO);
        assert_eq!(boot - Duration::from_secs(1), boot);
        assert_eq!(boot.since(boot + Duration::MAX), Duration::ZERO);
    }
}
