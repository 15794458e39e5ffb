//! How the commands beside `run` ask the backend: one thing after the other, and again where the trouble may pass.

use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use clap::ArgMatches;

use crate::backend::{Operate, Trouble, TroubleKind};
use crate::clock::Moment;
use crate::config::{Mistake, Reach};
use crate::lock::LockName;

/// Somebody who asks the backend.
pub(super) struct Operator {
    reach: Reach,
}

impl Operator {
    /// Asks the backend of the lock of this name, or of none in particular.
    pub(super) fn new(matches: &ArgMatches, name: Option<&LockName>) -> anyhow::Result<Self> {
        Ok(Self { reach: Reach::of(matches, name)? })
    }

    /// Asks that of the lock which the job runs under that we are part of.
    pub(super) fn of_job(matches: &ArgMatches, name: &LockName) -> anyhow::Result<Self> {
        Ok(Self { reach: Reach::of_job(matches, name)? })
    }

    /// Asks, and asks again until `--backend-timeout` is over if the trouble may pass. What is asked for must be safe to be
    /// done twice, since an answer may be lost.
    pub(super) fn ask<T>(&mut self, mut what: impl FnMut(&mut dyn Operate) -> Result<T, Trouble>) -> anyhow::Result<T> {
        let deadline = Moment::now() + self.reach.timeout;
        let pace = self.reach.backend.pace();
        let mut pause = pace.first;
        loop {
            let trouble = match what(self.reach.backend.as_mut()) {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            };
            let left = deadline.since(Moment::now());
            if trouble.kind == TroubleKind::Lasting || left.is_zero() {
                return Err(failure(trouble));
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(pace.longest);
        }
    }

    /// Closes the connection before a pause.
    pub(super) fn disconnect(&mut self) {
        self.reach.backend.disconnect();
    }

    /// The URL of the backend, without a password.
    pub(super) fn address(&self) -> &str {
        self.reach.backend.address()
    }

    pub(super) fn timeout(&self) -> Duration {
        self.reach.timeout
    }
}

/// The error that trouble ends a command with.
pub(super) fn failure(trouble: Trouble) -> anyhow::Error {
    let mistake = Mistake::new(trouble.message);
    match trouble.hint {
        Some(hint) => anyhow!(mistake.hint(hint)),
        None => anyhow!(mistake),
    }
}

/// The lock that a word of the command line names.
pub(super) fn name(matches: &ArgMatches) -> anyhow::Result<LockName> {
    let text = matches.get_one::<String>("NAME").map(String::as_str).unwrap_or_default();
    Ok(lock_name(text)?)
}

/// The lock of this name; the mistake names the argument.
pub(super) fn lock_name(text: &str) -> Result<LockName, Mistake> {
    LockName::new(text).map_err(|why| Mistake::new(format!("NAME {why}")))
}
