//! Builds the rules of a run from its options, and checks every rule that spans two of them.

use std::time::Duration;

use super::Mistake;
use super::defaults::{BACKEND_TIMEOUT, KILL_AFTER, NOTIFY_TIMEOUT};
use super::layers::Layers;
use super::parse::{exit_codes, notify_events, parse_from_one_second, parse_wait_limit, shell_command};
use crate::duration;
use crate::run::{
    Every, Group, Leftovers, Notify, NotifyEvent, OnBackendError, OnExpiry, OnFailure, OnLost, Placement, Policy,
    WaitFor, WaitLimit,
};
use crate::system::Signal;
use crate::variables;

/// The facts about the process on which the settings of a run depend besides options.
pub(crate) struct ProcessContext {
    pub(crate) terminal: bool,
    pub(crate) session_leader: bool,
    /// The owners of the enclosing runs.
    pub(crate) enclosing: Vec<String>,
    /// The seed of splay and jitter.
    pub(crate) random: u64,
}

/// Builds the rules of a run from its options.
pub(super) fn policy(layers: &Layers, process: &ProcessContext) -> Result<Policy, Mistake> {
    let Some(given) = layers.get("at-most") else {
        return Err(Mistake::new("--at-most is missing")
            .hint("set the longest time that the job may run, such as --at-most 1h"));
    };
    let at_most = given.read(parse_from_one_second)?;
    let shortest = layers.get("at-least");
    let at_least = shortest.map_or(Ok(Duration::ZERO), |given| given.read(duration::parse))?;
    if let Some(shortest) = shortest.filter(|_| at_least > at_most) {
        let (low, high) = (duration::format(at_least), duration::format(at_most));
        return Err(Mistake::new(format!("{} {low} is longer than {} {high}", shortest.source, given.source))
            .hint("make --at-most the longer one"));
    }
    let every = layers.get("every").map(|given| Ok((given, given.read(duration::parse)?))).transpose()?;
    if let Some((given, _)) = every.filter(|(_, every)| every.is_zero()) {
        return Err(Mistake::new(format!("{} is 0", given.source)).hint("leave it out to run at every firing"));
    }
    let lease = layers.get("lease").map(|given| given.read(parse_from_one_second)).transpose()?;
    let splay = layers.duration("splay")?.unwrap_or_default();
    Ok(Policy {
        at_most,
        at_least,
        lease,
        every: every.map(|(_, every)| Every(every)),
        wait: layers.get("wait").map_or(Ok(WaitLimit::UpTo(Duration::ZERO)), |given| given.read(parse_wait_limit))?,
        splay: random_part(splay, process.random),
        on_expiry: match layers.choice("on-expiry")? {
            Some("extend") => OnExpiry::Extend,
            Some("ignore") => OnExpiry::Ignore,
            _ => OnExpiry::Kill,
        },
        on_lost: match layers.choice("on-lost")? {
            Some("ignore") => OnLost::Ignore,
            _ => OnLost::Kill,
        },
        wait_for: match layers.choice("wait-for")? {
            Some("group") => WaitFor::Leftovers(Leftovers::Group),
            Some("tree") => WaitFor::Leftovers(Leftovers::Tree),
            _ => WaitFor::Child,
        },
        guarded: lease.is_some() && !layers.flag("no-die-with-shedlock")?,
        enclosing: process.enclosing.clone(),
        signal: layers.get("signal").map_or(Ok(Signal::TERM), |given| given.read(Signal::parse))?,
        kill_after: layers.duration("kill-after")?.unwrap_or(KILL_AFTER),
        stop_timeout: layers.duration("stop-timeout")?,
        on_failure: match layers.choice("on-failure")? {
            Some("release") => OnFailure::Release,
            Some("hold") => OnFailure::Hold,
            _ => OnFailure::AtLeast,
        },
        success_codes: layers.get("success-codes").map_or(Ok(vec![0]), |given| given.read(exit_codes))?,
        on_backend_error: match layers.choice("on-backend-error")? {
            Some("skip") => OnBackendError::Skip,
            Some("run") => OnBackendError::Run,
            _ => OnBackendError::Fail,
        },
        backend_timeout: layers.duration("backend-timeout")?.unwrap_or(BACKEND_TIMEOUT),
        placement: placement(layers, process)?,
        seed: process.random,
    })
}

/// Returns the settings of --notify. A run within the command of another run's --notify has none: it would report its
/// own reports, without end.
pub(super) fn notify(layers: &Layers) -> Result<Option<Notify>, Mistake> {
    let command = layers.get("notify").map_or(Ok(String::new()), |given| given.read(shell_command))?;
    let on = layers.get("notify-on").map(|given| given.read(notify_events)).transpose()?;
    let timeout = layers.get("notify-timeout").map(|given| given.read(parse_from_one_second)).transpose()?;
    let wanted = !command.trim().is_empty() && !variables::is_notified();
    Ok(wanted.then(|| Notify {
        command,
        on: on.unwrap_or_else(|| NotifyEvent::ALL[2..6].to_vec()),
        timeout: timeout.unwrap_or(NOTIFY_TIMEOUT),
    }))
}

fn placement(layers: &Layers, process: &ProcessContext) -> Result<Placement, Mistake> {
    let group = match layers.set_one_of("foreground", "new-group")? {
        Some("foreground") => Group::Shared,
        Some(_) => Group::Own,
        None if process.terminal => Group::Shared,
        None => Group::Own,
    };
    Ok(Placement { group, terminal: process.terminal, session_leader: process.session_leader })
}

/// Returns a random part of a duration.
fn random_part(whole: Duration, random: u64) -> Duration {
    let nanos = whole.as_nanos() * u128::from(random) / u128::from(u64::MAX);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
