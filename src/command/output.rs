//! Writes a command's answer to stdout, and its remarks and errors to stderr.

use std::io::{self, BufWriter, ErrorKind, Write, stdout};

use nix::errno::Errno;

use crate::config::Mistake;
use crate::exit::{self, Exit};
use crate::system::error_text;
use crate::{job, report};

/// How many bytes of an answer are written to stdout at once.
const BUFFER_SIZE: usize = 64 * 1024;

/// Writes a command's answer to stdout.
pub(super) fn print(text: &[u8]) -> anyhow::Result<Exit> {
    print_all([text])
}

/// Writes an answer that comes in pieces to stdout.
pub(super) fn print_all(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> anyhow::Result<Exit> {
    job::ignore_pipe();
    let mut stdout = BufWriter::with_capacity(BUFFER_SIZE, stdout().lock());
    let written =
        pieces.into_iter().try_for_each(|piece| stdout.write_all(piece.as_ref())).and_then(|()| stdout.flush());
    if written.is_err() {
        // Keeps the rest from being written when the buffer is dropped.
        drop(stdout.into_parts());
    }
    match written {
        // `shedlock man | head` closes the pipe early; that is no error.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(report::stdout_error(&error)),
        _ => Ok(Exit { code: 0, raise: None }),
    }
}

/// Prints why a command refuses, and returns the exit code for no.
pub(super) fn refuse(message: &str, hint: Option<&str>) -> Exit {
    remark(message, hint);
    Exit { code: exit::NO, raise: None }
}

/// Prints a remark on stderr; a closed stderr is no error, because the exit code is the answer.
pub(super) fn remark(message: &str, hint: Option<&str>) {
    job::ignore_pipe();
    report::print_error(message, hint);
}

/// Prints on stderr why a command failed.
pub(crate) fn print_failure(error: &anyhow::Error) {
    let hint = error.downcast_ref::<Mistake>().and_then(|mistake| mistake.hint.as_deref());
    let code = |cause: &(dyn std::error::Error + 'static)| {
        let of_io = || Some(Errno::from_raw(cause.downcast_ref::<io::Error>()?.raw_os_error()?));
        cause.downcast_ref::<Errno>().copied().or_else(of_io)
    };
    let of_limit = error.chain().filter_map(code).find_map(|code| match code {
        Errno::EMFILE | Errno::ENFILE => Some("raise the limit of open files with `ulimit -n`"),
        Errno::EAGAIN => {
            Some("this user, or its container, has too many processes: see `ulimit -u`, and pids.max of the cgroup")
        }
        _ => None,
    });
    let words =
        error.chain().map(|cause| code(cause).map_or_else(|| cause.to_string(), |code| error_text(&code.into())));
    let text = words.collect::<Vec<_>>().join(": ");
    report::print_error(&unnumbered(&text), hint.or(of_limit));
}

/// Removes the number that Rust appends to system errors, ` (os error 11)`.
fn unnumbered(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, rest)| rest))
}
