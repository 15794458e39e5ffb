//! This process: how it begins and how it ends.

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// Remembers whether stdout was closed when the program began.
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Opens /dev/null on those of the descriptors 0 to 2 that are closed, so that no file of ours can become somebody's
/// standard output. Comes first, and uses as little memory as it can.
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
        // SAFETY: it is only asked about, and the answer that it is not open is what we want to know.
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

/// Writes as much as `to` takes at once, and never waits for the reader. What it leads to is shared, as stderr is with
/// the job, so it cannot be told not to block: a socket is told so for this one message, and a pipe or a terminal is
/// opened anew.
pub(crate) fn write_now(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let number = to.as_raw_fd();
    #[expect(unsafe_code, reason = "no library of ours has it")]
    // SAFETY: the pointer and the length are those of the bytes, which the call only reads.
    let sent =
        unsafe { libc::send(number, bytes.as_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    match usize::try_from(sent) {
        Ok(sent) => return Ok(sent),
        Err(_) if Errno::last() == Errno::ENOTSOCK => {}
        Err(_) => return Err(io::Error::last_os_error()),
    }
    let path = format!("/proc/self/fd/{number}");
    let kind = fs::metadata(&path).map(|data| data.file_type());
    if kind.is_ok_and(|kind| kind.is_fifo() || kind.is_char_device()) {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        // It may belong to another user, from before a su(1).
        if let Ok(mut again) = OpenOptions::new().write(true).custom_flags(flags).open(path) {
            return again.write(bytes);
        }
    }
    Ok(nix::unistd::write(to, bytes)?)
}

fn keep_over_exec(number: i32) {
    #[expect(unsafe_code, reason = "the descriptor has no owner any more")]
    // SAFETY: it was opened just now and is never closed.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    let _ = fcntl(descriptor, FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()));
}

/// Ends this process at once. The worker's thread may hang, and nothing of ours needs an orderly end.
pub(crate) fn exit(code: u8) -> ! {
    // Help goes through a buffer; everything else was written when it was said.
    let _ = io::stdout().flush();
    #[expect(unsafe_code, reason = "the library's exit waits for other threads' locks")]
    // SAFETY: it ends the process and touches nothing of it.
    unsafe {
        libc::_exit(i32::from(code))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    /// Writes until there is no more room, and says how much that was. What others share does not change.
    fn fill(to: &impl AsFd) -> usize {
        let flags = || fcntl(to, FcntlArg::F_GETFL).unwrap();
        let (before, mut all) = (flags(), 0);
        loop {
            match write_now(to.as_fd(), &[b'x'; 1000]) {
                Ok(count) => all += count,
                Err(error) => {
                    assert_eq!((error.kind(), flags()), (ErrorKind::WouldBlock, before));
                    return all;
                }
            }
        }
    }

    #[test]
    fn a_reader_that_does_not_read_keeps_nobody_waiting() {
        let (mut reader, writer) = io::pipe().unwrap();
        let room = fill(&writer);
        assert!(room >= 4096);
        let mut read = vec![0; room];
        reader.read_exact(&mut read).unwrap();
        assert!(fill(&writer) >= 4096, "there is room again");
        drop(reader);
        // A child of another test has our descriptors until it executes its program.
        let ends = Instant::now() + Duration::from_secs(30);
        while write_now(writer.as_fd(), b"x").map_err(|error| error.kind()) != Err(ErrorKind::BrokenPipe) {
            assert!(Instant::now() < ends, "a pipe without a reader takes more");
            thread::sleep(Duration::from_millis(1));
        }
        let (_reader, writer) = UnixStream::pair().unwrap();
        assert!(fill(&writer) > 0);
        let terminal = nix::pty::openpty(None, None).unwrap();
        assert!(fill(&terminal.slave) > 0);
    }

    #[test]
    fn a_file_is_written_on() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = fs::File::create(directory.path().join("log")).unwrap();
        file.write_all(b"one ").unwrap();
        assert_eq!(write_now(file.as_fd(), b"two").unwrap(), 3);
        file.write_all(b" three").unwrap();
        assert_eq!(fs::read(directory.path().join("log")).unwrap(), b"one two three");
    }
}
