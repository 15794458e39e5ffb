//! `shedlock resume`: ends a pause, and only a pause.

use std::time::Duration;

use clap::ArgMatches;

use super::arguments;
use super::inspect::{MAX_READS, Seen, check_change, print_lines, suggest_lock, time_until};
use super::operator::Operator;
use super::output::refuse;
use crate::exit::Exit;
use crate::lock::StillHeld;
use crate::lock::{Change, Holder, Lock, LockState, Owner};

/// Ends a pause. The lock is then kept for the rest of the at-least or every that was running when the pause began.
pub(crate) fn resume(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let name = arguments::lock_argument(matches)?;
    let mut operator = Operator::new(matches, Some(&name))?;
    let mut seen = Seen::read(&mut operator, &name)?;
    for _ in 0..MAX_READS {
        let Some(record) = seen.held().filter(|record| is_pause(record)) else { break };
        let ended = format!("{}{}", record.owner, Owner::ENDED_SUFFIX);
        let kept_until = Holder::parse(&record.owner).pause().and_then(|pause| pause.kept_until);
        let mut left = Duration::ZERO;
        let done = operator.ask(|backend| {
            // Excludes the time of the request, so that a run that fires right at the end gets in.
            left = time_until(kept_until, seen.clock());
            backend.change(&Change { name: name.clone(), from: record.owner.clone(), to: ended.clone(), left })
        })?;
        check_change(&mut operator, &name, record, &ended, left)?;
        let end = kept_until.filter(|_| !left.is_zero());
        let after = match done {
            StillHeld::Held => None,
            StillHeld::Lost => Some(Seen::read(&mut operator, &name)?),
        };
        // An earlier try ended the pause and its answer was lost, or somebody else ended it.
        if after.as_ref().is_none_or(|after| after.held().is_none_or(|record| record.owner == ended)) {
            return print_lines(&[match end {
                Some(end) => format!("`{name}` is no longer paused; it stays kept after its last run until {end}"),
                None => format!("`{name}` is no longer paused; it is free"),
            }]);
        }
        seen = after.unwrap_or(seen);
    }
    let wanted = |lock: &Lock| lock.is_held() && is_pause(&lock.state);
    let hint = suggest_lock(&mut operator, &name, &seen, wanted);
    Ok(refuse(&format!("the lock `{name}` is not paused: it {}", seen.state()), hint.as_deref()))
}

fn is_pause(record: &LockState) -> bool {
    Holder::parse(&record.owner).is_paused()
}
