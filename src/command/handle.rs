//! Finds the lock that a caller holds: by its handle, or the lock of the job that it is part of.

use anyhow::anyhow;
use clap::ArgMatches;

use super::operator::Operator;
use super::output::refuse;
use crate::config::Mistake;
use crate::exit::Exit;
use crate::lock::{Handle, Holder, LockName, Locks, Owner};
use crate::system::Timestamp;
use crate::text::shorten;
use crate::variables;

/// Returns the handle that the command names, and its backend.
pub(super) fn find_own(matches: &ArgMatches) -> anyhow::Result<(Handle, Operator)> {
    let handle = match matches.get_one::<String>("HANDLE") {
        Some(text) => Handle::parse(text).map_err(|why| Mistake::new(format!("HANDLE `{text}` {why}")))?,
        None => job_handle()?,
    };
    let given = matches.contains_id("HANDLE");
    let operator = match !given || variables::enclosing().iter().any(|owner| owner == handle.owner.as_str()) {
        true => Operator::for_job(matches, &handle.name)?,
        false => Operator::new(matches, Some(&handle.name))?,
    };
    Ok((handle, operator))
}

/// Returns the lock that this process runs under.
fn job_handle() -> Result<Handle, Mistake> {
    let Some((name, owner)) = variables::current_lock() else {
        return Err(Mistake::new("no HANDLE is given, and this is not a job of `shedlock run`")
            .hint("give the handle that `shedlock acquire` printed, NAME@OWNER"));
    };
    let name = LockName::new(&name).map_err(|why| Mistake::new(format!("{} {why}", variables::NAME)))?;
    let owner = Owner::parse(&owner).map_err(|why| Mistake::new(format!("{} {why}", variables::OWNER)))?;
    Ok(Handle { name, owner })
}

/// Prints that the lock is lost, and who holds it now if the backend can tell.
pub(super) fn refuse_lost(handle: &Handle, operator: &mut Operator) -> Exit {
    let name = &handle.name;
    let found = operator.ask(|backend| backend.locks(&[name.as_str()]));
    let why = found.ok().and_then(|found| why_not_held(&handle.owner, &found));
    refuse(
        &format!("the lock `{name}` is no longer ours{}", why.map(|why| format!(": {why}")).unwrap_or_default()),
        None,
    )
}

/// Returns why this owner does not hold the lock; `None` if it does. `found` is the backend's listing of that one name.
pub(super) fn why_not_held(owner: &Owner, found: &Locks) -> Option<String> {
    // Some backends remember only the name of a free lock.
    let known = found.locks.first().filter(|lock| lock.is_held() || !lock.state.owner.is_empty());
    let Some(lock) = known else { return Some("it is free".to_owned()) };
    let (record, holder) = (&lock.state, Holder::parse(&lock.state.owner));
    let time = |time: Option<Timestamp>| time.map_or_else(|| "an unknown time".to_owned(), |time| time.to_string());
    let (since, until) = (time(record.since), time(record.until));
    let was_ours = holder.owner() == owner.as_str();
    Some(match (lock.is_held(), holder.has_ended(), was_ours) {
        (true, false, true) => return None,
        (true, true, true) => format!("it was released, and is kept until {until}"),
        (true, true, false) => match holder.pause() {
            Some(_) => format!("it is kept until {until} after its last run"),
            None => format!("it is kept until {until} after the run of {}", shorten(holder.owner())),
        },
        (true, false, false) => match holder.pause() {
            Some(pause) if pause.reason.is_empty() => format!("it is paused by {} since {since}", shorten(pause.by)),
            Some(pause) => {
                format!("it is paused by {} since {since}: {}", shorten(pause.by), shorten(pause.reason))
            }
            None => format!("it is held by {} since {since} until {until}", shorten(holder.owner())),
        },
        (false, true, true) => "it was released or unlocked, and is free".to_owned(),
        (false, false, true) => format!("its time was up at {until}, and it is free"),
        (false, _, false) => match holder.pause() {
            Some(pause) => format!("it is free, and was paused by {} before", shorten(pause.by)),
            None => format!("it is free, and was last held by {}", shorten(holder.owner())),
        },
    })
}

/// Returns the error of a bad argument, with its name.
pub(super) fn bad_argument(argument: &str, why: &str) -> anyhow::Error {
    anyhow!(Mistake::new(format!("{argument} {why}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lock::{Lock, LockState};

    fn why(owner: &Owner, stored: &str, left: u64) -> Option<String> {
        let (since, until) = (Some(Timestamp(0)), Some(Timestamp(1_000)));
        let record = LockState { owner: stored.to_owned(), since, until, left: Duration::from_millis(left) };
        let lock = Lock { name: "job".to_owned(), state: record };
        why_not_held(owner, &Locks { now: Timestamp(500), locks: vec![lock] })
    }

    #[test]
    fn what_has_become_of_a_lock_is_told() {
        let ours = Owner::new("web1", 1, 2);
        let pause = Owner::for_pause("ada", "web2", 3, None, "disk");
        let (since, until) = ("since 1970-01-01T00:00:00.000Z", "until 1970-01-01T00:00:01.000Z");
        for (stored, left, told) in [
            ("java", 1, format!("it is held by java {since} {until}")),
            ("java", 0, "it is free, and was last held by java".to_owned()),
            ("web2:1:00:ended", 1, format!("it is kept {until} after the run of web2:1:00")),
            ("web2:1:00:ended", 0, "it is free, and was last held by web2:1:00".to_owned()),
            ("", 0, "it is free".to_owned()),
            (ours.as_str(), 0, "its time was up at 1970-01-01T00:00:01.000Z, and it is free".to_owned()),
            (&ours.ended(), 0, "it was released or unlocked, and is free".to_owned()),
            (&ours.ended(), 1, format!("it was released, and is kept {until}")),
            (pause.as_str(), 1, format!("it is paused by ada@web2 {since}: disk")),
            (&pause.ended(), 1, format!("it is kept {until} after its last run")),
            (&pause.ended(), 0, "it is free, and was paused by ada@web2 before".to_owned()),
        ] {
            assert_eq!(why(&ours, stored, left), Some(told));
        }
        assert_eq!(why(&ours, ours.as_str(), 1), None);
        let nothing = Locks { now: Timestamp(0), locks: Vec::new() };
        assert_eq!(why_not_held(&ours, &nothing).as_deref(), Some("it is free"));
    }
}
