//! One file per subcommand.

pub(crate) mod acquire;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod extend;
pub(crate) mod forget;
mod held;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod man;
pub(crate) mod names;
mod operator;
mod own;
pub(crate) mod pause;
pub(crate) mod release;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod status;
pub(crate) mod unlock;
pub(crate) mod usage;
pub(crate) mod verify;

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::config::Mistake;
use crate::exit::{self, Exit};
use crate::system::error_text;
use crate::{job, report};
pub(crate) use operator::nearest;

/// The bytes that are written at once.
const BUFFER: usize = 64 * 1024;

/// Writes a command's answer to stdout.
fn print(text: &[u8]) -> anyhow::Result<Exit> {
    print_all([text])
}

/// Writes an answer that comes in pieces to stdout.
fn print_all(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> anyhow::Result<Exit> {
    job::ignore_pipe();
    let mut stdout = BufWriter::with_capacity(BUFFER, stdout().lock());
    let written =
        pieces.into_iter().try_for_each(|piece| stdout.write_all(piece.as_ref())).and_then(|()| stdout.flush());
    if written.is_err() {
        // Keeps what is left from being written when the buffer is dropped.
        drop(stdout.into_parts());
    }
    match written {
        // `shedlock man | head` closes the pipe early; that is no error.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(report::unwritten(&error)),
        _ => Ok(Exit { code: 0, raise: None }),
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

/// Prints why the answer is no, and returns that exit code.
fn refuse(message: &str, hint: Option<&str>) -> Exit {
    remark(message, hint);
    Exit { code: exit::NO, raise: None }
}

/// Prints a remark on stderr; a closed stderr is no error, because the exit code is the answer.
fn remark(message: &str, hint: Option<&str>) {
    job::ignore_pipe();
    report::error(message, hint);
}

/// Prints on stderr why a command failed.
pub(crate) fn tell(error: &anyhow::Error) {
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
    report::error(&unnumbered(&text), hint.or(of_limit));
}

/// Removes the number that Rust appends to system errors, ` (os error 11)`.
fn unnumbered(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// Writes a file atomically; `-` is stdout.
fn save(file: &str, text: &[u8]) -> anyhow::Result<Exit> {
    if file == "-" {
        return print(text);
    }
    replace(Path::new(file), text)
        .map_err(|error| Mistake::new(format!("{file} cannot be written: {}", error_text(&error))))?;
    Ok(Exit { code: 0, raise: None })
}

fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    // Replaces the target of a link, not the link.
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        // Writes to a device or a pipe in place; for a directory this fails with the right error.
        return OpenOptions::new().write(true).open(&target)?.write_all(text);
    }
    let name = target.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
    let draft: PathBuf = target.with_file_name(format!(".{name}.{}", std::process::id()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&draft)?;
        file.write_all(text)?;
        fs::rename(&draft, &target)
    };
    // Reports the first error, not that of the removal.
    write().inspect_err(|_| drop(fs::remove_file(&draft)))
}
