//! Reads a lock for `unlock`, `pause`, `resume` and `forget`, describes it, and suggests the name that was meant.

use std::time::Duration;

use crate::backend::Admin;
use crate::config::Mistake;
use crate::exit::Exit;
use crate::lock::BackendError;
use crate::lock::{Lock, LockName, LockState, Locks};
use crate::report;
use crate::suggest;
use crate::system::{Moment, Timestamp};
use crate::text::printable_name;

use super::operator::Operator;
use super::output::print;

/// How often a command reads a lock that changes hands, before it gives up.
pub(super) const MAX_READS: usize = 10;

/// How much the end of a lock may differ from what was requested, from the backend's rounding and the time of the request.
pub(super) const TOLERANCE: Duration = Duration::from_secs(15);

/// A lock as it was read.
pub(super) struct Seen {
    /// The backend's clock when it answered.
    now: Timestamp,
    /// When the request for the lock was sent.
    asked: Moment,
    lock: Option<Lock>,
}

impl Seen {
    /// Reads the lock of this name, with retries.
    pub(super) fn read(operator: &mut Operator, name: &LockName) -> anyhow::Result<Self> {
        operator.ask(|backend| Self::read_once(backend, name))
    }

    /// Reads the lock of this name once.
    pub(super) fn read_once(backend: &mut dyn Admin, name: &LockName) -> Result<Self, BackendError> {
        let asked = Moment::now();
        let Locks { now, mut locks } = backend.locks(&[name.as_str()])?;
        let same = locks.iter().position(|lock| lock.name == name.as_str());
        // A server may treat differently written names as equal. For one with a space too many, that would be another lock.
        let place = same.unwrap_or(if name.is_invalid_for_run() { locks.len() } else { 0 });
        let lock = (place < locks.len()).then(|| locks.swap_remove(place));
        Ok(Self { now, asked, lock })
    }

    /// Returns the backend's clock now. It may be ahead by the time that the reading took.
    pub(super) fn clock(&self) -> Timestamp {
        self.now + Moment::now().since(self.asked)
    }

    /// Returns the state of the lock if it is held.
    pub(super) fn held(&self) -> Option<&LockState> {
        self.lock.as_ref().filter(|lock| lock.is_held()).map(|lock| &lock.state)
    }

    /// Returns whether the backend knows the lock from more than a pause.
    pub(super) fn is_known(&self) -> bool {
        self.lock.as_ref().is_some_and(|lock| !lock.is_past_pause())
    }

    /// Returns the owner of the lock, or the last one of a free lock; `None` if the backend does not know the lock.
    pub(super) fn owner(&self) -> Option<&str> {
        self.lock.as_ref().map(|lock| lock.state.owner.as_str())
    }

    /// Returns whether the lock is still free as it was.
    pub(super) fn is_unchanged_since(&self, before: &Self) -> bool {
        let state = |seen: &Self| seen.lock.as_ref().map(|lock| (lock.state.owner.clone(), lock.state.since));
        self.held().is_none() && state(self) == state(before)
    }

    /// Returns until when the lock is held.
    pub(super) fn until(&self) -> Option<String> {
        self.held().map(|record| report::held_until(record, Some(self.now)))
    }

    /// Describes the lock: `is held by … since … until …`, or `is free`.
    pub(super) fn state(&self) -> String {
        self.held().map_or_else(|| "is free".to_owned(), |record| report::describe_holder(record, Some(self.now)))
    }
}

/// Fails if a lock is still as it was before a change, or if `to` holds it for longer than `left`. A trigger or row security
/// may undo a statement that the server accepted.
pub(super) fn check_change(
    operator: &mut Operator,
    name: &LockName,
    before: &LockState,
    to: &str,
    left: Duration,
) -> anyhow::Result<()> {
    // If the lock cannot be read, the change is believed.
    let Ok(after) = Seen::read(operator, name) else { return Ok(()) };
    let is_left = |record: &&LockState| record.owner == before.owner && record.since == before.since;
    let is_longer = |record: &&LockState| record.owner == to && record.left > left + TOLERANCE;
    if after.held().filter(|record| is_left(record) || is_longer(record)).is_none() {
        return Ok(());
    }
    let message = format!("the backend did not change the lock `{name}` as requested: it {}", after.state());
    Err(Mistake::new(message)
        .hint("a trigger or row security on the table may cause this; `shedlock check` looks for them")
        .into())
}

/// Returns the time from `now` to `kept_until`.
pub(super) fn time_until(kept_until: Option<Timestamp>, now: Timestamp) -> Duration {
    kept_until.map_or(Duration::ZERO, |until| Duration::from_millis(until.0.saturating_sub(now.0)))
}

/// Prints the answer of a command as lines.
pub(super) fn print_lines(lines: &[String]) -> anyhow::Result<Exit> {
    let text: String = lines.iter().map(|line| format!("{}\n", report::printable(line))).collect();
    print(text.as_bytes())
}

/// Returns a hint with a similar name: of a `wanted` lock, or, if no lock has the given name, of any.
pub(super) fn suggest_lock(
    operator: &mut Operator,
    name: &LockName,
    seen: &Seen,
    wanted: impl Fn(&Lock) -> bool,
) -> Option<String> {
    let locks = operator.ask(|backend| backend.locks(&[])).ok()?.locks;
    let near = nearest(name.as_str(), &locks, wanted, seen.is_known())?;
    Some(suggest::did_you_mean(&printable_name(near)))
}

fn nearest<'a>(name: &str, locks: &'a [Lock], wanted: impl Fn(&Lock) -> bool, only_wanted: bool) -> Option<&'a str> {
    let others = || locks.iter().filter(|lock| lock.name != name);
    let names = |lock: &'a Lock| lock.name.as_str();
    let first = suggest::nearest(name, others().filter(|lock| wanted(lock)).map(names));
    first.or_else(|| suggest::nearest(name, others().filter(|_| !only_wanted).map(names)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str, held: bool) -> Lock {
        let left = Duration::from_secs(held.into());
        Lock { name: name.to_owned(), state: LockState { owner: "a".to_owned(), since: None, until: None, left } }
    }

    #[test]
    fn a_name_that_is_held_is_suggested_before_one_that_is_nearer() {
        let locks = [lock("nightly", false), lock("Nihgtly-1", true), lock("weekly", true)];
        assert_eq!(nearest("nightly-", &locks, Lock::is_held, false), Some("Nihgtly-1"));
        assert_eq!(nearest("nightlx", &locks[..1], Lock::is_held, false), Some("nightly"));
        assert_eq!(nearest("nightlx", &locks[..1], Lock::is_held, true), None);
        assert_eq!(nearest("nightly", &locks[..1], Lock::is_held, false), None);
        assert_eq!(nearest("backup", &locks, Lock::is_held, false), None);
        assert_eq!(nearest("JOB", &[lock("job", true)], Lock::is_held, false), Some("job"));
        assert_eq!(nearest("a", &[lock("xy", true)], Lock::is_held, false), None);
    }
}
