//! Requests of the commands beside `run`: one after the other, with retries after transient errors.

use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use clap::ArgMatches;

use crate::backend::{Admin, BackendError, Opened, Retry};
use crate::config::{Mistake, Reach};
use crate::lock::LockName;
use crate::report::Zone;
use crate::system::Moment;

/// Sends an operator's requests to the backend.
pub(super) struct Operator {
    reach: Reach,
}

impl Operator {
    /// Opens the backend for the lock of this name, or for no lock in particular.
    pub(super) fn new(matches: &ArgMatches, name: Option<&LockName>) -> anyhow::Result<Self> {
        Ok(Self { reach: Reach::of(matches, name)? })
    }

    /// Opens the backend of the lock that our job runs under.
    pub(super) fn of_job(matches: &ArgMatches, name: &LockName) -> anyhow::Result<Self> {
        Ok(Self { reach: Reach::of_job(matches, name)? })
    }

    /// Sends a request, and retries after transient errors until `--backend-timeout` is over. The request must be idempotent,
    /// because an answer may be lost.
    pub(super) fn ask<T>(&mut self, what: impl FnMut(&mut dyn Admin) -> Result<T, BackendError>) -> anyhow::Result<T> {
        self.try_ask(what).map_err(failure)
    }

    /// The same, but retries after permanent errors, too: for a release.
    pub(super) fn insist<T>(
        &mut self,
        what: impl FnMut(&mut dyn Admin) -> Result<T, BackendError>,
    ) -> anyhow::Result<T> {
        let retry = self.retry().insisting();
        self.try_for(retry, what).map_err(failure)
    }

    /// The same, but returns the backend's error.
    pub(super) fn try_ask<T>(
        &mut self,
        what: impl FnMut(&mut dyn Admin) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        self.try_for(self.retry(), what)
    }

    fn retry(&self) -> Retry {
        Retry::new(self.reach.backend.pace, Moment::now() + self.reach.timeout)
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
            let Opened { backend, rotation, .. } = &mut self.reach.backend;
            if rotation.as_mut().is_some_and(|rotation| rotation.log_in_again(backend.as_mut(), &error)) {
                continue;
            }
            retry.leave_alone(error.respite);
            match retry.pause(error.class, sent, Moment::now()) {
                Some(pause) => thread::sleep(pause),
                None => return Err(error),
            }
        }
    }

    /// Closes the connection before a pause.
    pub(super) fn disconnect(&mut self) {
        self.backend().disconnect();
    }

    /// Returns the URL of the backend, without a password.
    pub(super) fn address(&self) -> &str {
        &self.reach.backend.address
    }

    /// Returns the option, variable or file that names the backend.
    pub(super) fn source(&self) -> &str {
        &self.reach.source
    }

    /// Returns the variables that begin like those of options and set nothing.
    pub(super) fn unknown_variables(&self) -> &[String] {
        &self.reach.unknown_variables
    }

    /// Returns the backend, for requests without retries.
    pub(super) fn backend(&mut self) -> &mut dyn Admin {
        self.reach.backend.backend.as_mut()
    }

    pub(super) fn timeout(&self) -> Duration {
        self.reach.timeout
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

/// Returns the lock that NAME on the command line names.
pub(super) fn name(matches: &ArgMatches) -> anyhow::Result<LockName> {
    let text = matches.get_one::<String>("NAME").map(String::as_str).unwrap_or_default();
    Ok(lock_name(text)?)
}

/// Reads the name of a lock that another program may have made; the mistake names the argument.
pub(super) fn lock_name(text: &str) -> Result<LockName, Mistake> {
    LockName::stored(text).map_err(|why| Mistake::new(format!("NAME {why}")))
}

/// Returns the names on the command line, of locks that other programs may have made.
pub(super) fn asked_names(matches: &ArgMatches) -> Result<Vec<String>, Mistake> {
    let names: Vec<String> = matches.get_many::<String>("NAME").into_iter().flatten().cloned().collect();
    names.iter().try_for_each(|name| lock_name(name).map(drop))?;
    Ok(names)
}

/// Returns the lock if exactly one is named: it may have a backend of its own.
pub(super) fn only(names: &[String]) -> Option<LockName> {
    let [name] = names else { return None };
    LockName::new(name).ok()
}

/// Returns the time zone for output.
pub(super) fn zone(matches: &ArgMatches) -> Result<Zone, Mistake> {
    if !matches.get_flag("local") {
        return Ok(Zone::utc());
    }
    let variable = std::env::var_os("TZ").map(|zone| zone.to_string_lossy().into_owned());
    Zone::local(variable.as_deref()).map_err(|why| Mistake::new(format!("--local {why}")))
}

/// Returns the known name that was probably meant.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = |known: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    let (distance, known) = known.map(|known| (far(known), known)).min()?;
    (distance * 3 <= name.chars().count().max(known.chars().count())).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_another_name_is_not() {
        let known = || ["backup", "nightly-report", "a"].into_iter();
        for (typed, meant) in [
            ("bakcup", Some("backup")),
            ("Backup", Some("backup")),
            ("nightly_report", Some("nightly-report")),
            ("nightly", None),
            ("b", None),
            ("vacuum", None),
        ] {
            assert_eq!(nearest(typed, known()), meant, "{typed}");
        }
        assert_eq!(nearest("a", [].into_iter()), None);
    }
}
