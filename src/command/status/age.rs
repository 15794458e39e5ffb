//! `shedlock status --max-age`: tells a monitor whether the last success of each lock is recent.

use std::time::Duration;

use clap::ArgMatches;

use super::super::operator::Operator;
use super::super::output::print;
use super::warnings::warn_of_unknown;
use crate::backend::Admin;
use crate::config::Mistake;
use crate::duration;
use crate::exit::{self, Exit};
use crate::lock::BackendError;
use crate::lock::{Lock, Locks, RunQuery, Runs};
use crate::report::{RecentSuccess, Zone, last_success, shown_runs};
use crate::system::Timestamp;

/// Parses --max-age, which needs names.
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
pub(super) fn print_ages(
    names: &[String],
    most: Duration,
    operator: &mut Operator,
    zone: &Zone,
) -> anyhow::Result<Exit> {
    let (mut text, mut unknown, mut code) = (String::new(), Vec::new(), 0);
    for name in names {
        let (locks, runs) = operator.ask(|backend| recent_runs(backend, name, most))?;
        let shown = shown_runs(&runs.runs, &locks);
        let succeeded = RecentSuccess { name, runs: &shown, now: runs.now, most };
        text += &succeeded.line(zone);
        if !succeeded.is_recent() {
            code = exit::NO;
        }
        if shown.is_empty() && locks.locks.iter().all(Lock::is_past_pause) {
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
    let mut wanted = RunQuery { names: vec![name.to_owned()], since: Some(since), ..RunQuery::default() };
    let mut runs = backend.runs(&wanted)?;
    if last_success(shown_runs(&runs.runs, &locks).iter(), locks.now).end.is_none() {
        wanted.since = None;
        runs = backend.runs(&wanted)?;
    }
    backend.disconnect();
    Ok((locks, runs))
}
