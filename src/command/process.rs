//! Asks the system what the commands need to know about this process and its host.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;
use nix::unistd::{getpid, getsid};

use crate::config::{Mistake, ProcessContext};
use crate::system::error_text;

/// Collects what the settings of a run depend on; `enclosing` are the owners of the enclosing runs.
pub(super) fn context(enclosing: Vec<String>, random: u64) -> ProcessContext {
    ProcessContext {
        terminal: has_terminal(),
        session_leader: getsid(None).is_ok_and(|leader| leader == getpid()),
        enclosing,
        random,
    }
}

/// Returns a random number that makes an owner unique.
pub(crate) fn random() -> Result<u64, Mistake> {
    getrandom::u64().map_err(|error| {
        let why = error.raw_os_error().map(|code| error_text(&io::Error::from_raw_os_error(code)));
        let why = why.unwrap_or_else(|| error.to_string());
        Mistake::new(format!("the system returned no random number: {why}"))
            .hint("shedlock needs getrandom(2); a seccomp filter, such as a container's, may block it")
    })
}

/// Returns this host's name.
pub(super) fn host() -> String {
    hostname::get().map(|host| host.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns whether this process has a controlling terminal, whatever its descriptors are.
fn has_terminal() -> bool {
    OpenOptions::new().read(true).custom_flags(libc::O_NOCTTY).open("/dev/tty").is_ok()
}
