//! `shedlock forget`: removes locks that are no longer used, with their history.

use clap::ArgMatches;

use super::arguments::{lock_arguments, parse_lock};
use super::inspect::{MAX_READS, Seen, print_lines, suggest_lock};
use super::operator::Operator;
use super::output::refuse;
use crate::config::{Configuration, Mistake};
use crate::exit::Exit;
use crate::lock::Forgotten;
use crate::lock::{Holder, LockName, LockState, Removal, RunQuery};

/// The locks that may be removed, by their last owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owners {
    /// Only runs of shedlock: another program may rely on the row.
    Shedlock,
    All,
}

/// Removes each named lock by itself, in the given order, until the backend cannot be asked.
pub(crate) fn forget(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let mut names: Vec<LockName> = Vec::new();
    for name in lock_arguments(matches)? {
        let name = parse_lock(&name)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let owners = if matches.get_flag("force") { Owners::All } else { Owners::Shedlock };
    let configuration = Configuration::read(matches)?;
    let (mut answer, mut done) = (Exit { code: 0, raise: None }, Vec::new());
    for name in names {
        match forget_one(&configuration, &name, owners).map_err(|error| with_forgotten(error, &done))? {
            Ok(line) => {
                done.push(format!("`{name}`"));
                print_lines(&[line])?;
            }
            Err(no) => answer = no,
        }
    }
    Ok(answer)
}

/// Removes one lock, and returns the line that says so, or the exit code after it was refused.
fn forget_one(configuration: &Configuration, name: &LockName, owners: Owners) -> anyhow::Result<Result<String, Exit>> {
    // Each lock may have a backend of its own.
    let mut operator = Operator::with(configuration, Some(name))?;
    let mut seen = Seen::read(&mut operator, name)?;
    for _ in 0..MAX_READS {
        if let Some(record) = seen.held() {
            let message = format!("the lock `{name}` {}; it is not forgotten", seen.state());
            return Ok(Err(refuse(&message, Some(&hint_if_held(name, record, seen.until())))));
        }
        let owner = seen.owner().unwrap_or_default().to_owned();
        if owners == Owners::Shedlock && Holder::parse(&owner).is_foreign() {
            let message = format!("the lock `{name}` is not forgotten: its last holder, {owner}, was not shedlock");
            let hint = "a Java application that knows the row never runs again once it is gone: stop all of them, then use --force";
            return Ok(Err(refuse(&message, Some(hint))));
        }
        let was_known = seen.owner().is_some() || has_runs(&mut operator, name)?;
        let removal = Removal::new(name.clone(), owner.clone());
        // A table may treat an odd name and another as equal; keys are exact, and a pause may have left one.
        let is_exact = !name.is_invalid_for_run() || operator.backend().drops_free_locks();
        let forgotten = match was_known || is_exact {
            true => operator.ask(|backend| backend.forget(&removal))?,
            false => Forgotten::Gone { lock: false, runs: 0 },
        };
        match forgotten {
            Forgotten::Gone { lock: false, runs: 0 } if !was_known => {
                let hint = suggest_lock(&mut operator, name, &seen, |_| true);
                return Ok(Err(refuse(
                    &format!("neither the lock `{name}` nor a run of it is known"),
                    hint.as_deref(),
                )));
            }
            Forgotten::Gone { lock, runs } => {
                return Ok(Ok(forgotten_line(name, lock || seen.owner().is_some(), runs)));
            }
            Forgotten::InUse => {
                let before = seen;
                seen = Seen::read(&mut operator, name)?;
                if !owner.is_empty() && seen.is_unchanged_since(&before) {
                    return Err(Mistake::new(format!("the backend did not remove the lock `{name}`"))
                        .hint("a trigger or row security on the table may cause this; `shedlock check` looks for them")
                        .into());
                }
            }
        }
    }
    Ok(Err(refuse(&format!("the lock `{name}` keeps changing hands; it is not forgotten"), None)))
}

/// Returns what has to be done before a lock that is held can be forgotten.
fn hint_if_held(name: &LockName, record: &LockState, until: Option<String>) -> String {
    let holder = Holder::parse(&record.owner);
    if holder.is_paused() {
        return format!("`shedlock resume {}` ends the pause", name.shell_word());
    }
    match until.filter(|_| holder.has_ended()) {
        Some(until) => format!("wait until {until}, or free the lock with `shedlock unlock {}`", name.shell_word()),
        None => format!("wait until the job has ended, or free the lock with `shedlock unlock {}`", name.shell_word()),
    }
}

/// Returns whether the history has a run of the lock. Some backends know a free lock only from its history.
fn has_runs(operator: &mut Operator, name: &LockName) -> anyhow::Result<bool> {
    let wanted = RunQuery { names: vec![name.as_str().to_owned()], limit: Some(1), ..RunQuery::default() };
    Ok(!operator.ask(|backend| backend.runs(&wanted))?.runs.is_empty())
}

/// Returns the line that says what was removed of a lock.
fn forgotten_line(name: &LockName, lock: bool, runs: u64) -> String {
    let runs = match runs {
        0 => None,
        1 => Some("1 run".to_owned()),
        runs => Some(format!("{runs} runs")),
    };
    match (lock, runs) {
        (true, Some(runs)) => format!("forgot `{name}`: the lock and {runs}"),
        (false, Some(runs)) => format!("forgot `{name}`: {runs}"),
        (true, None) => format!("forgot `{name}`: the lock"),
        (false, None) => format!("forgot `{name}`"),
    }
}

/// Adds the locks that were removed before an error to its message.
fn with_forgotten(error: anyhow::Error, done: &[String]) -> anyhow::Error {
    if done.is_empty() {
        return error;
    }
    let hint = error.downcast_ref::<Mistake>().and_then(|mistake| mistake.hint.clone());
    Mistake { message: format!("{error:#}; forgotten before that: {}", done.join(", ")), hint }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_is_said_in_one_line() {
        let name = LockName::new("job").unwrap();
        for (lock, runs, wanted) in [
            (true, 12, "forgot `job`: the lock and 12 runs"),
            (true, 1, "forgot `job`: the lock and 1 run"),
            (true, 0, "forgot `job`: the lock"),
            (false, 3, "forgot `job`: 3 runs"),
            (false, 0, "forgot `job`"),
        ] {
            assert_eq!(forgotten_line(&name, lock, runs), wanted);
        }
    }

    #[test]
    fn an_error_keeps_its_hint_and_says_what_is_gone() {
        let error = || anyhow::Error::from(Mistake::new("no answer").hint("look"));
        let done = ["`a`".to_owned(), "`b`".to_owned()];
        let told = with_forgotten(error(), &done).downcast::<Mistake>().unwrap();
        assert_eq!(told, Mistake::new("no answer; forgotten before that: `a`, `b`").hint("look"));
        assert_eq!(with_forgotten(error(), &[]).to_string(), "no answer");
    }
}
