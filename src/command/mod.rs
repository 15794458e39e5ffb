//! One file per subcommand.

pub(crate) mod acquire;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod extend;
mod held;
pub(crate) mod history;
pub(crate) mod init;
pub(crate) mod man;
mod operator;
mod own;
pub(crate) mod pause;
pub(crate) mod release;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod status;
pub(crate) mod unlock;
pub(crate) mod verify;
mod waiting;

use std::io::{ErrorKind, Write, stdout};

use anyhow::Context;

use crate::exit::Exit;
use crate::job;

/// Writes a command's answer to stdout.
fn print(text: &[u8]) -> anyhow::Result<Exit> {
    job::ignore_pipe();
    let mut stdout = stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        // `shedlock man | head` closes the pipe early, and has what it wanted.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(Exit { code: 0, raise: None }),
    }
}
