//! This process: how it begins and how it ends.

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// The program that runs, whatever its path is by now.
pub(super) const OWN_PROGRAM: &CStr = c"/proc/self/exe";
/// Remembers whether stdout was closed when the program began.
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Opens /dev/null on those of the descriptors 0 to 2 that are closed, so that no file of shedlock becomes a
/// standard stream of the job. Comes first, and uses as little memory as it can.
pub(crate) fn fill_standard_descriptors() {
    // One arena for all threads: the allocator would map and unmap a large one for the worker's few kilobytes.
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "no library has it")]
    // SAFETY: it sets a number of the allocator's, before any other thread is there.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
    for number in 0..=2 {
        #[expect(unsafe_code, reason = "asking whether a descriptor is open must name one that may not be")]
        // SAFETY: it is only asked about, and the answer that it is not open is what shedlock wants to know.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if fcntl(descriptor, FcntlArg::F_GETFD).is_err() {
            // The lowest free number is the one that is missing. It stays open, for the job too.
            STDOUT_WAS_CLOSED.fetch_or(number == 1, Ordering::Relaxed);
            let null = OpenOptions::new().read(true).write(true).open("/dev/null");
            let _ = null.map(IntoRawFd::into_raw_fd).map(keep_over_exec);
        }
    }
}

/// Returns whether shedlock was started with stdout closed.
pub(crate) fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

/// Reads the command line, as the C library passes it to `main`.
pub(crate) fn arguments(count: i32, words: *const *const c_char) -> Vec<OsString> {
    let mut arguments = Vec::new();
    for index in 0..usize::try_from(count).unwrap_or_default() {
        #[expect(unsafe_code, reason = "Rust's own start, which would do it, is left out")]
        // SAFETY: the array has `count` entries.
        let place = unsafe { words.add(index) };
        #[expect(unsafe_code, reason = "see above")]
        // SAFETY: the entry is in the array.
        let word = unsafe { *place };
        #[expect(unsafe_code, reason = "see above")]
        // SAFETY: every entry is a C string that lives as long as the process.
        let word = unsafe { CStr::from_ptr(word) };
        arguments.push(OsStr::from_bytes(word.to_bytes()).to_owned());
    }
    arguments
}

fn keep_over_exec(number: i32) {
    #[expect(unsafe_code, reason = "the descriptor has no owner any more")]
    // SAFETY: it was opened just now and is never closed.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    let _ = fcntl(descriptor, FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()));
}

/// Ends this process at once. The worker's thread may hang, and nothing else needs an orderly end.
pub(crate) fn exit(code: u8) -> ! {
    // Help goes through a buffer; everything else was written when it was said.
    let _ = io::stdout().flush();
    #[expect(unsafe_code, reason = "the library's exit waits for other threads' locks")]
    // SAFETY: it ends the process and touches nothing of it.
    unsafe {
        libc::_exit(i32::from(code))
    }
}
