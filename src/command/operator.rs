//! How the commands beside `run` ask the backend: one thing after the other, and again where the trouble may pass.

use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use clap::ArgMatches;

use crate::backend::{Admin, BackendError, Retry};
use crate::config::{Mistake, Reach};
use crate::lock::LockName;
use crate::report::Zone;
use crate::system::Moment;

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
    pub(super) fn ask<T>(&mut self, what: impl FnMut(&mut dyn Admin) -> Result<T, BackendError>) -> anyhow::Result<T> {
        self.try_ask(what).map_err(failure)
    }

    /// The same, with the trouble as it is.
    pub(super) fn try_ask<T>(
        &mut self,
        mut what: impl FnMut(&mut dyn Admin) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let mut retry = Retry::new(self.reach.backend.pace, Moment::now() + self.reach.timeout);
        loop {
            let sent = Moment::now();
            let error = match what(self.backend()) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
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

    /// The URL of the backend, without a password.
    pub(super) fn address(&self) -> &str {
        &self.reach.backend.address
    }

    /// Where the backend is named.
    pub(super) fn source(&self) -> &str {
        &self.reach.source
    }

    /// The variables that begin like those of options, and set nothing.
    pub(super) fn unknown_variables(&self) -> &[String] {
        &self.reach.unknown_variables
    }

    /// The backend itself, for what is asked once.
    pub(super) fn backend(&mut self) -> &mut dyn Admin {
        self.reach.backend.backend.as_mut()
    }

    pub(super) fn timeout(&self) -> Duration {
        self.reach.timeout
    }
}

/// The error that trouble ends a command with.
pub(super) fn failure(error: BackendError) -> anyhow::Error {
    let mistake = Mistake::new(error.message);
    match error.hint {
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

/// The names on the command line. They are not checked, since others may store names that we would not take.
pub(super) fn asked_names(matches: &ArgMatches) -> Result<Vec<String>, Mistake> {
    let names: Vec<String> = matches.get_many::<String>("NAME").into_iter().flatten().cloned().collect();
    match names.iter().any(String::is_empty) {
        true => Err(Mistake::new("NAME is empty; a lock needs a name")),
        false => Ok(names),
    }
}

/// The only lock that is named, whose backend may be its own.
pub(super) fn only(names: &[String]) -> Option<LockName> {
    let [name] = names else { return None };
    LockName::new(name).ok()
}

/// The zone that times are shown in.
pub(super) fn zone(matches: &ArgMatches) -> Result<Zone, Mistake> {
    if !matches.get_flag("local") {
        return Ok(Zone::utc());
    }
    let variable = std::env::var_os("TZ").map(|zone| zone.to_string_lossy().into_owned());
    Zone::local(variable.as_deref()).map_err(|why| Mistake::new(format!("--local {why}")))
}

/// The name that was probably meant.
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
