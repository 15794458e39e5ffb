//! One file per subcommand.

pub(crate) mod completions;
pub(crate) mod man;
pub(crate) mod run;

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
