//! Reads files whose paths come from a user or the environment: whatever is there, such as a FIFO into which nobody writes
//! or a device without an end, opening does not wait, and reading is bounded in time and length.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Moment;
use crate::duration;

/// The size in bytes of the longest file that is read.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// An open file that was not read yet.
pub(crate) struct Input {
    file: File,
    data: Metadata,
}

impl Input {
    /// Opens a file without waiting for the writer of a FIFO.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
        let data = file.metadata()?;
        Ok(Self { file, data })
    }

    /// Returns what the system knows of the file that was opened, whatever the path leads to by now.
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.data
    }

    /// Returns whether the file can be read again, and never keeps a reader waiting: it is no pipe and no device.
    pub(crate) fn is_regular(&self) -> bool {
        self.data.is_file()
    }

    /// Reads to the end, for `timeout` at most.
    pub(crate) fn read(&self, timeout: Duration) -> io::Result<Vec<u8>> {
        let bytes = self.read_start(timeout)?;
        if bytes.len() > MAX_BYTES {
            let message = format!("it has more than {MAX_BYTES} bytes");
            return Err(io::Error::new(ErrorKind::FileTooLarge, message));
        }
        Ok(bytes)
    }

    /// Reads a text to its end, for `timeout` at most.
    pub(crate) fn read_text(&self, timeout: Duration) -> io::Result<String> {
        String::from_utf8(self.read(timeout)?).map_err(|_| ErrorKind::InvalidData.into())
    }

    /// Reads to the end, or one byte more than [`MAX_BYTES`].
    pub(crate) fn read_start(&self, timeout: Duration) -> io::Result<Vec<u8>> {
        let (mut bytes, mut deadline) = (Vec::new(), None);
        // A FIFO that has no writer yet reads as if it were at its end.
        let mut is_ready = self.is_regular();
        loop {
            if !is_ready {
                self.wait(*deadline.get_or_insert_with(|| Moment::now() + timeout), timeout)?;
            }
            let room = (MAX_BYTES + 1).saturating_sub(bytes.len());
            match (&self.file).take(room as u64).read_to_end(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => is_ready = false,
                Err(error) => return Err(error),
                Ok(_) => return Ok(bytes),
            }
        }
    }

    /// Waits until there is something to read, or the last writer has gone.
    fn wait(&self, deadline: Moment, timeout: Duration) -> io::Result<()> {
        loop {
            // Rounded up, so that less than a millisecond causes no busy loop.
            let left = deadline.since(Moment::now()) + Duration::from_millis(1);
            let mut files = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
            match poll(&mut files, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
                Ok(0) if Moment::now() >= deadline => {
                    let message = format!("its end did not come within {}", duration::format(timeout));
                    return Err(io::Error::new(ErrorKind::TimedOut, message));
                }
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Reads a file, for `timeout` at most.
#[cfg(any(test, feature = "tls"))]
pub(crate) fn read(path: &Path, timeout: Duration) -> io::Result<Vec<u8>> {
    Input::open(path)?.read(timeout)
}

/// Returns what to do about a file that could not be read.
pub(crate) fn remedy(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::TimedOut => Some(
            "it is a pipe or a device that is kept open, or into which nobody writes: name a file, or raise --backend-timeout",
        ),
        ErrorKind::FileTooLarge => Some("check the path: no file that shedlock reads is as long as that"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use nix::sys::stat::Mode;
    use nix::unistd::{mkfifo, pipe};

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_file_is_read_to_its_end_whatever_patience_there_is() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("file");
        for text in ["", "short", &"x".repeat(MAX_BYTES)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(&path, Duration::ZERO).unwrap(), text.as_bytes());
        }
        std::fs::write(&path, "x".repeat(MAX_BYTES + 1)).unwrap();
        let error = read(&path, LONG).unwrap_err();
        assert_eq!((error.kind(), remedy(&error).is_some()), (ErrorKind::FileTooLarge, true));
        assert_eq!(read(here.path(), LONG).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(Input::open(here.path()).unwrap().read_text(LONG).unwrap_err().kind(), ErrorKind::IsADirectory);
        std::fs::write(&path, b"\xff").unwrap();
        assert_eq!(Input::open(&path).unwrap().read_text(LONG).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_device_is_read_to_its_end_or_not_at_all() {
        assert_eq!(read(Path::new("/dev/null"), LONG).unwrap(), b"");
        assert_eq!(read(Path::new("/dev/zero"), LONG).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_fifo_without_a_writer_or_without_an_end_is_left() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("fifo");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let error = read(&path, SHORT).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (ErrorKind::TimedOut, "its end did not come within 50ms".to_owned())
        );
        let mut writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        writer.write_all(b"begun").unwrap();
        assert_eq!(read(&path, SHORT).unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn a_writer_may_come_late_and_write_piece_by_piece() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("fifo");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let input = Input::open(&path).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| input.read_text(LONG).unwrap());
            std::thread::sleep(SHORT);
            let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
            for piece in ["one ", "two"] {
                writer.write_all(piece.as_bytes()).unwrap();
                std::thread::sleep(SHORT);
            }
            drop(writer);
            assert_eq!(reader.join().unwrap(), "one two");
        });
    }

    /// Reads a pipe as a shell's `<(…)` passes it on.
    #[test]
    fn a_pipe_whose_writer_has_gone_has_what_was_written() {
        let (reader, writer) = pipe().unwrap();
        File::from(writer).write_all(b"text").unwrap();
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(read(Path::new(&path), LONG).unwrap(), b"text");
    }
}
