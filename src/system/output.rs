//! Writes to a descriptor that other processes share, such as stderr, without ever waiting for the reader.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use nix::errno::Errno;
use nix::libc;

/// Writes as much as `to` takes at once, and never waits for the reader. What it leads to is shared, as stderr is with
/// the job, so it cannot be told not to block: a socket is told so for this one message, and a pipe or a terminal is
/// opened anew.
pub(crate) fn write_without_waiting(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
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

/// Calls something that writes to a pipe; if nobody reads that any more, the error alone says so, and no SIGPIPE ends shedlock.
#[cfg(feature = "provider")]
pub(crate) fn without_pipe_signal<T>(write: impl FnOnce() -> nix::Result<T>) -> nix::Result<T> {
    use nix::sys::signal::{SigSet, SigmaskHow, Signal};

    let mut set = SigSet::empty();
    set.add(Signal::SIGPIPE);
    let before = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let result = write();
    if !before.contains(Signal::SIGPIPE) {
        if matches!(result, Err(Errno::EPIPE)) {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            #[expect(unsafe_code, reason = "no library of ours has it")]
            // SAFETY: set and time live through the call, which reads them only; nobody asks for a description of the signal.
            unsafe {
                libc::sigtimedwait(set.as_ref(), std::ptr::null_mut(), &raw const now);
            }
        }
        before.thread_set_mask()?;
    }
    result
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::{Duration, Instant};

    use nix::fcntl::{FcntlArg, fcntl};

    use super::*;

    /// Writes until there is no more room, and says how much that was. What others share does not change.
    fn fill(to: &impl AsFd) -> usize {
        let flags = || fcntl(to, FcntlArg::F_GETFL).unwrap();
        let (before, mut all) = (flags(), 0);
        loop {
            match write_without_waiting(to.as_fd(), &[b'x'; 1000]) {
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
        // A child of another test has shedlock's descriptors until it executes its program.
        let ends = Instant::now() + Duration::from_secs(30);
        while write_without_waiting(writer.as_fd(), b"x").map_err(|error| error.kind()) != Err(ErrorKind::BrokenPipe) {
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
        assert_eq!(write_without_waiting(file.as_fd(), b"two").unwrap(), 3);
        file.write_all(b" three").unwrap();
        assert_eq!(fs::read(directory.path().join("log")).unwrap(), b"one two three");
    }
}
