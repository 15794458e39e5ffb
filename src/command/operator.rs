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

    /// Asks, and asks again until `--backend-timeout` is over if the trouble may pass. What is asked for must be safe to be
    /// done twice, since an answer may be lost.
    pub(super) fn ask<T>(&mut self, what: impl FnMut(&mut dyn Operate) -> Result<T, Trouble>) -> anyhow::Result<T> {
        self.try_ask(what).map_err(failure)
    }

    /// The same, with the trouble as it is.
    pub(super) fn try_ask<T>(
        &mut self,
        mut what: impl FnMut(&mut dyn Operate) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
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
                return Err(trouble);
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(pace.longest);
        }
    }

    /// The URL of the backend, without a password.
    pub(super) fn address(&self) -> &str {
        self.reach.backend.address()
    }

    /// Where the backend is named.
    pub(super) fn source(&self) -> &str {
        &self.reach.source
    }

    /// The backend itself, for what is asked once.
    pub(super) fn backend(&mut self) -> &mut dyn Operate {
        self.reach.backend.as_mut()
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
