//! The host's boot: reads its id, and the clock that counts from it. They decide whether the lock of a running job is held.

use std::io::Read;

use super::row::Now;
use crate::system::{Moment, Timestamp};

/// Identifies the host's current boot.
#[derive(Default)]
pub(crate) struct Boot {
    /// The id of the boot; `None` if the system has none, and then the wall clock decides.
    pub(crate) id: Option<String>,
    /// Milliseconds by which this process's boot clock is ahead of the host's.
    pub(crate) offset_ms: i64,
}

impl Boot {
    /// Reads the current boot from /proc.
    pub(crate) fn current() -> Self {
        Self { id: id(), offset_ms: offset_ms() }
    }

    /// Reads both clocks.
    pub(crate) fn now(&self) -> Now<'_> {
        let since_boot = i64::try_from(Moment::now().since_boot().as_millis()).unwrap_or(i64::MAX);
        Now { wall: Timestamp::now(), boot: self.id.as_deref(), boot_ms: since_boot - self.offset_ms }
    }
}

/// File with the id of the host's current boot; a container may have another file mounted over it.
pub(crate) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Reads the id of the host's current boot, a UUID.
fn id() -> Option<String> {
    let mut id = [0; 36];
    std::fs::File::open(BOOT_ID).ok()?.read_exact(&mut id).ok()?;
    String::from_utf8(id.to_vec()).ok()
}

/// Reads by how many milliseconds this process's boot clock is ahead of the host's. In a time namespace, as some containers
/// have, it has an offset of its own, but all processes that share the file must read one clock.
fn offset_ms() -> i64 {
    std::fs::read_to_string("/proc/self/timens_offsets").map_or(0, |offsets| parse_offset_ms(&offsets))
}

/// Parses the boot clock's offset from lines of a clock's name, seconds and nanoseconds. A kernel without time
/// namespaces has no such file, and no offset.
fn parse_offset_ms(offsets: &str) -> i64 {
    let line = offsets.lines().find_map(|line| line.trim().strip_prefix("boottime")).unwrap_or_default();
    let mut numbers = line.split_whitespace().map(|number| number.parse::<i64>().unwrap_or_default());
    let (secs, nanos) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    secs.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        assert_eq!(parse_offset_ms("monotonic           0         0\nboottime        86400         0\n"), 86_400_000);
        assert_eq!(parse_offset_ms("monotonic 0 0\nboottime -5 250000000\n"), -4_750);
        assert_eq!(parse_offset_ms(""), 0);
    }
}
