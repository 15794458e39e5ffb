//! Closes what a guardian inherits and must not keep open.

use std::fs;

use nix::errno::Errno;
use nix::libc;

/// Closes every descriptor but the first three. Async-signal-safe; kernels before 5.9 cannot.
pub(super) fn close_others() -> nix::Result<()> {
    #[expect(unsafe_code, reason = "no library of ours has it")]
    // SAFETY: nothing in the process that calls it, or in its memory, owns a descriptor that it would use again.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    Errno::result(result).map(drop)
}

/// Closes every descriptor but the first three, one by one.
pub(super) fn close_listed() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<i32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // The listing's own descriptor is among them, and closed already.
        let _ = nix::unistd::close(number);
    }
}
