//! Rules for clocks that were wrong when a lock was acquired, the same for every backend.

use std::time::Duration;

/// Waits, before a lock is removed, until a clock that read `now` is past the lock's last token: the next token is the time,
/// and has to be larger. Both are in milliseconds. Returns false if nothing was to be waited for, also not for a token that is
/// far ahead: it was drawn before the clock was set back.
#[cfg(any(test, feature = "sqlite", feature = "record"))]
pub(crate) fn wait_past(token: u64, now: u64) -> bool {
    let ahead = token.saturating_add(1).saturating_sub(now);
    let is_soon = (1..=1000).contains(&ahead);
    if is_soon {
        std::thread::sleep(Duration::from_millis(ahead));
    }
    is_soon
}

/// The least time by which an acquisition lies in the future if it comes from a clock that was ahead.
pub(crate) const MIN_CLOCK_LEAD: Duration = Duration::from_secs(60);

/// The most by which local time is ahead of UTC. An application of the Java library may write such times, and judges its lock by
/// them.
#[cfg(any(feature = "postgres", feature = "sqlite", all(test, any(feature = "mysql", feature = "redis"))))]
const MAX_UTC_OFFSET: Duration = Duration::from_secs(14 * 3600);

/// Returns how far in the future an acquisition by this owner has to lie to come from a clock that was ahead. shedlock's owners
/// have three parts or more; any other may be a Java application, which may write local times.
#[cfg(any(feature = "postgres", feature = "sqlite", all(test, any(feature = "mysql", feature = "redis"))))]
pub(crate) fn min_clock_lead(owner: &str) -> Duration {
    if owner.matches(':').count() > 1 { MIN_CLOCK_LEAD } else { MAX_UTC_OFFSET }
}
