//! The mask of permission bits that new files of this process do not get.

use std::fs;

/// Reads the umask from /proc, if it is mounted.
pub(crate) fn umask() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let text = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(text.trim(), 8).ok()
}
