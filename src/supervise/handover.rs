//! Hands a lock over by writing its handle to stdout; if that fails, the lock has to be released.

use std::fs::File;
use std::io::{Write, stdout};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::job;
use crate::lock::Handle;
use crate::system::error_text;

/// How long, in milliseconds, to wait for the reader. Until then nothing else happens, and no signal is seen.
const PATIENCE: u16 = 3_000;

/// Writes the handle; the error says why it could not be written.
pub(crate) fn hand_over(handle: &Handle) -> Result<(), String> {
    if job::stdout_was_closed() {
        return Err("it is closed".to_owned());
    }
    let stdout = stdout();
    let mut room = [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)];
    if !poll(&mut room, PollTimeout::from(PATIENCE)).is_ok_and(|ready| ready > 0) {
        return Err("nobody reads it".to_owned());
    }
    // Rust's stdout treats some errors as success.
    let written = stdout.as_fd().try_clone_to_owned().and_then(|stdout| {
        let mut stdout = File::from(stdout);
        stdout.write_all(format!("{handle}\n").as_bytes())
    });
    written.map_err(|error| error_text(&error))
}
