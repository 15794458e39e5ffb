//! Reads arguments that several commands share: names of locks, and the time zone.

use clap::ArgMatches;

use crate::config::Mistake;
use crate::lock::LockName;
use crate::report::Zone;

/// Returns the lock that NAME on the command line names.
pub(super) fn lock_argument(matches: &ArgMatches) -> anyhow::Result<LockName> {
    let text = matches.get_one::<String>("NAME").map(String::as_str).unwrap_or_default();
    Ok(parse_lock(text)?)
}

/// Reads the name of a lock that another program may have made; the mistake names the argument.
pub(super) fn parse_lock(text: &str) -> Result<LockName, Mistake> {
    LockName::from_stored(text).map_err(|why| Mistake::new(format!("NAME {why}")))
}

/// Returns the names on the command line, of locks that other programs may have made.
pub(super) fn lock_arguments(matches: &ArgMatches) -> Result<Vec<String>, Mistake> {
    let names: Vec<String> = matches.get_many::<String>("NAME").into_iter().flatten().cloned().collect();
    names.iter().try_for_each(|name| parse_lock(name).map(drop))?;
    Ok(names)
}

/// Returns the lock if exactly one is named: it may have a backend of its own.
pub(super) fn only_lock(names: &[String]) -> Option<LockName> {
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
