//! `shedlock status --max-age`: for a monitor.

use std::time::Duration;

use clap::ArgMatches;

use super::super::operator::Operator;
use super::super::print;
use super::warn_of_unknown;
use crate::backend::{Admin, BackendError};
use crate::config::Mistake;
use crate::duration;
use crate::exit::{self, Exit};
use crate::lock::{Lock, Locks, Runs, Wanted};
use crate::report::{Succeeded, Zone, last_success, past};
use crate::system::Timestamp;

/// Parses --max-age.
pub(super) fn max_age(matches: &ArgMatches, names: &[String]) -> Result<Option<Duration>, Mistake> {
    let Some(text) = matches.get_one::<String>("max-age") else { return Ok(None) };
    let most = duration::parse(text).map_err(|why| Mistake::new(format!("--max-age {why}")))?;
    if most.is_zero() {
        return Err(Mistake::new("--max-age is 0; no success is as recent as that"));
    }
    if names.is_empty() {
        return Err(Mistake::new("--max-age needs a NAME").hint("name the locks whose jobs have to succeed that often"));
    }
    Ok(Some(most))
}

/// Prints a line for each lock, and returns 1 unless all have succeeded lately.
pub(super) fn succeeded(
    names: &[String],
    most: Duration,
    operator: &mut Operator,
    zone: &Zone,
) -> anyhow::Result<Exit> {
    let (mut text, mut unknown, mut code) = (String::new(), Vec::new(), 0);
    for name in names {
        let (locks, runs) = operator.ask(|backend| recent_runs(backend, name, most))?;
        let past = past(&runs.runs, &locks);
        let succeeded = Succeeded { name, runs: &past, now: runs.now, most };
        text += &succeeded.line(zone);
        if !succeeded.is_recent() {
            code = exit::NO;
        }
        if past.is_empty() && locks.locks.iter().all(Lock::is_only_of_a_pause) {
            unknown.push(&name[..]);
        }
    }
    let done = print(text.as_bytes())?;
    warn_of_unknown(&unknown, operator);
    Ok(Exit { code, ..done })
}

/// Reads the runs of a lock that had not ended `most` ago; if none of them succeeded up to now, all of its runs.
fn recent_runs(backend: &mut dyn Admin, name: &str, most: Duration) -> Result<(Locks, Runs), BackendError> {
    let locks = backend.locks(&[name])?;
    let since = Timestamp(locks.now.0.saturating_sub(u64::try_from(most.as_millis()).unwrap_or(u64::MAX)));
    let mut wanted = Wanted { names: vec![name.to_owned()], since: Some(since), ..Wanted::default() };
    let mut runs = backend.runs(&wanted)?;
    if last_success(past(&runs.runs, &locks).iter(), locks.now).end.is_none() {
        wanted.since = None;
        runs = backend.runs(&wanted)?;
    }
    backend.disconnect();
    Ok((locks, runs))
}
