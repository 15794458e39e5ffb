//! `shedlock unlock`: shows the holder of a lock and frees it.

use std::time::Duration;

use clap::ArgMatches;

use super::arguments;
use super::consent::{Consent, is_agreed, refuse_unasked};
use super::inspect::{MAX_READS, Seen, check_change, print_lines, suggest_lock};
use super::operator::Operator;
use super::output::refuse;
use crate::exit::Exit;
use crate::lock::StillHeld;
use crate::lock::{Change, Holder, Lock, LockName, LockState};
use crate::text::shorten;

/// Frees a lock, but only as it was shown: after a change of hands it belongs to another owner.
pub(crate) fn unlock(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let name = arguments::lock_argument(matches)?;
    let mut operator = Operator::new(matches, Some(&name))?;
    let consent = Consent::from(matches);
    let mut seen = Seen::read(&mut operator, &name)?;
    for read in 0..MAX_READS {
        let Some(record) = seen.held() else { return Ok(not_held(&mut operator, &name, &seen)) };
        // The user agreed to free the lock that was shown, not the current one.
        if read > 0 && consent == Consent::ToAsk {
            break;
        }
        let (state, effect) = (seen.state(), effect(&name, record));
        match consent {
            Consent::Missing => return Ok(refuse_unasked(&format!("the lock `{name}` {state}"), "frees")),
            Consent::ToAsk => {
                // The user may take long to answer.
                operator.disconnect();
                if !is_agreed(&format!("the lock `{name}` {state}"), &effect, "free it?") {
                    return Ok(refuse(&format!("the lock `{name}` is left unchanged"), None));
                }
            }
            Consent::Forced => {}
        }
        let owner = &record.owner;
        // Keeps the owner without the `:ended` mark: a run would take a free lock with that mark for its own release.
        let change = Change { name: name.clone(), from: owner.clone(), to: owner.clone(), left: Duration::ZERO };
        let freed = operator.ask(|backend| backend.change(&change))?;
        check_change(&mut operator, &name, record, owner, Duration::ZERO)?;
        if freed == StillHeld::Lost {
            seen = Seen::read(&mut operator, &name)?;
        }
        // If the change found another state and the lock is free, the holder released it, or an earlier try freed it and its
        // answer was lost.
        if freed == StillHeld::Held || seen.held().is_none() {
            let mut lines = vec![format!("`{name}` is free now; it {}", state.replacen("is ", "was ", 1))];
            lines.extend((consent == Consent::Forced).then_some(effect));
            return print_lines(&lines);
        }
    }
    let message =
        format!("the lock `{name}` has changed hands in the meantime and is left unchanged: it {}", seen.state());
    Ok(refuse(&message, None))
}

fn not_held(operator: &mut Operator, name: &LockName, seen: &Seen) -> Exit {
    let hint = suggest_lock(operator, name, seen, Lock::is_held);
    refuse(&format!("the lock `{name}` is free"), hint.as_deref())
}

/// Returns the consequence of freeing the lock, which depends on its holder.
fn effect(name: &LockName, record: &LockState) -> String {
    let holder = Holder::parse(&record.owner);
    if holder.is_paused() {
        let resume = format!("`shedlock resume {}` ends a pause more gently", name.shell_word());
        return format!("{resume}: it keeps the lock for the rest of its last run's --at-least or --every");
    }
    if holder.has_ended() {
        return "no job runs under it: this drops the rest of its last run's --at-least or --every".to_owned();
    }
    match holder.process() {
        Some((host, pid)) => format!(
            "a job without --lease does not notice and runs on until shortly before its --at-most is used up, a \
             script after `shedlock acquire` for as long as it likes; a job with --lease is stopped within about a third of the lease; find it on {}, pid {pid}",
            shorten(host)
        ),
        None => "the application that holds it, such as one in Java, does not notice and runs on".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Owner;

    #[test]
    fn what_comes_of_it_depends_on_who_holds_it() {
        let name = LockName::new("job").unwrap();
        let run = Owner::new("web1", 42, 7);
        let pause = Owner::for_pause("ada", "web1", 7, None, "");
        for (owner, said) in [
            (run.as_str(), "find it on web1, pid 42"),
            (run.as_str(), "runs on until shortly before its --at-most is used up"),
            (&run.ended(), "no job runs under it"),
            (pause.as_str(), "`shedlock resume job` ends a pause more gently"),
            (&pause.ended(), "no job runs under it"),
            ("java-host", "the application that holds it"),
        ] {
            let record = LockState { owner: owner.to_owned(), since: None, until: None, left: Duration::MAX };
            let effect = effect(&name, &record);
            assert!(effect.contains(said), "{owner}: {effect}");
        }
    }
}
