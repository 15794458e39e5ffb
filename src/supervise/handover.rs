//! Hands a lock over by writing its handle to stdout; if that fails, the lock has to be released.

use std::fs::File;
use std::io::{Write, stdout};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;

use crate::job;
use crate::lock::{Grant, Handle};
use crate::report::escaped_json;
use crate::system::{Timestamp, error_text};

/// How long, in milliseconds, to wait for the reader. Until then nothing else happens, and no signal is seen.
const READER_TIMEOUT: u16 = 3_000;

/// Returns the JSON object that shedlock-json(5) describes.
pub(super) fn json_object(handle: &Handle, grant: &Grant, until: Timestamp) -> String {
    let object = json!({
        "handle": handle.to_string(),
        "name": handle.name.as_str(),
        "owner": handle.owner.as_str(),
        "token": grant.token,
        "since": grant.locked_at.to_string(),
        "until": until.to_string(),
    });
    escaped_json(format!("{object:#}\n"))
}

/// Writes the handle; the error says why it could not be written.
pub(super) fn hand_over(text: &str) -> Result<(), String> {
    if job::stdout_was_closed() {
        return Err("it is closed".to_owned());
    }
    let stdout = stdout();
    let mut room = [PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)];
    if !poll(&mut room, PollTimeout::from(READER_TIMEOUT)).is_ok_and(|ready| ready > 0) {
        return Err("nobody reads it".to_owned());
    }
    // Rust's stdout treats some errors as success.
    let written = stdout.as_fd().try_clone_to_owned().and_then(|stdout| {
        let mut stdout = File::from(stdout);
        stdout.write_all(text.as_bytes())
    });
    written.map_err(|error| error_text(&error))
}
