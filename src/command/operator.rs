//! Sends the requests of the commands beside `run`: one after the other, with retries after transient errors.

use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use clap::ArgMatches;

use crate::backend::{Admin, Opened, Retry};
use crate::config::{BackendAccess, Configuration, Mistake};
use crate::lock::BackendError;
use crate::lock::LockName;
use crate::system::Moment;

/// The backend, for the requests of an operator.
pub(super) struct Operator {
    access: BackendAccess,
}

impl Operator {
    /// Opens the backend for the lock of this name, or for no lock in particular.
    pub(super) fn new(matches: &ArgMatches, name: Option<&LockName>) -> anyhow::Result<Self> {
        Self::with(&Configuration::read(matches)?, name)
    }

    /// Opens the backend for one of several locks.
    pub(super) fn with(configuration: &Configuration, name: Option<&LockName>) -> anyhow::Result<Self> {
        Ok(Self { access: BackendAccess::new(configuration, name)? })
    }

    /// Opens the backend of the lock that this job runs under.
    pub(super) fn for_job(matches: &ArgMatches, name: &LockName) -> anyhow::Result<Self> {
        Ok(Self { access: BackendAccess::for_job(matches, name)? })
    }

    /// Sends a request, and retries after transient errors until `--backend-timeout` is over. The request must be idempotent,
    /// because an answer may be lost.
    pub(super) fn ask<T>(&mut self, what: impl FnMut(&mut dyn Admin) -> Result<T, BackendError>) -> anyhow::Result<T> {
        self.try_ask(what).map_err(failure)
    }

    /// Sends a request as [`Self::ask`] does, and retries after permanent errors, too: for a release.
    pub(super) fn insist<T>(
        &mut self,
        what: impl FnMut(&mut dyn Admin) -> Result<T, BackendError>,
    ) -> anyhow::Result<T> {
        let retry = self.retry().retrying_permanent();
        self.try_for(retry, what).map_err(failure)
    }

    /// Sends a request as [`Self::ask`] does, and returns the backend's error as it is.
    pub(super) fn try_ask<T>(
        &mut self,
        what: impl FnMut(&mut dyn Admin) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        self.try_for(self.retry(), what)
    }

    fn retry(&self) -> Retry {
        Retry::new(self.access.backend.pace, Moment::now() + self.access.timeout)
    }

    fn try_for<T>(
        &mut self,
        mut retry: Retry,
        mut what: impl FnMut(&mut dyn Admin) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        loop {
            let sent = Moment::now();
            let error = match what(self.backend()) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let Opened { backend, rotation, .. } = &mut self.access.backend;
            if rotation.as_mut().is_some_and(|rotation| rotation.log_in_again(backend.as_mut(), &error)) {
                continue;
            }
            retry.note_requested_pause(error.respite);
            match retry.pause(error.class, sent, Moment::now()) {
                Some(pause) => thread::sleep(pause),
                None => return Err(error),
            }
        }
    }

    /// Closes the connection, so that none is held while the command waits.
    pub(super) fn disconnect(&mut self) {
        self.backend().disconnect();
    }

    /// Returns the URL of the backend, without a password.
    pub(super) fn address(&self) -> &str {
        &self.access.backend.address
    }

    /// Returns the option, variable or file that names the backend.
    pub(super) fn source(&self) -> &str {
        &self.access.source
    }

    /// Returns the variables that begin like those of options and set nothing.
    pub(super) fn unknown_variables(&self) -> &[String] {
        self.access.unknown_variables()
    }

    /// Returns how many runs of the lock of this name the history keeps.
    pub(super) fn history_keep(&mut self, name: &LockName) -> Result<u32, Mistake> {
        self.access.history_keep(name)
    }

    /// Returns the backend, for requests without retries.
    pub(super) fn backend(&mut self) -> &mut dyn Admin {
        self.access.backend.backend.as_mut()
    }

    pub(super) fn timeout(&self) -> Duration {
        self.access.timeout
    }
}

/// Converts a backend error to a command's error.
pub(super) fn failure(error: BackendError) -> anyhow::Error {
    let mistake = Mistake::new(error.message);
    match error.hint {
        Some(hint) => anyhow!(mistake.hint(hint)),
        None => anyhow!(mistake),
    }
}
