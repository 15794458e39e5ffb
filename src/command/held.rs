//! What `unlock`, `pause` and `resume` share: a look at the lock, what they say of it, and which one was perhaps meant.

use std::time::Duration;

use crate::backend::{Admin, BackendError};
use crate::config::Mistake;
use crate::exit::Exit;
use crate::lock::{Lock, LockName, LockState, Locks};
use crate::report;
use crate::system::{Moment, Timestamp};

use super::operator::{self, Operator};

/// How often a lock that changes hands is looked at again before that is told instead.
pub(super) const LOOKS: usize = 10;

/// How far the end of a lock may be from what was asked for, for a store's roundings and the time that the asking took.
pub(super) const TOLERANCE: Duration = Duration::from_secs(15);

/// A lock as it was seen.
pub(super) struct Seen {
    /// The store's clock.
    now: Timestamp,
    /// When the store was asked.
    asked: Moment,
    lock: Option<Lock>,
}

impl Seen {
    /// Looks at the lock of this name.
    pub(super) fn of(operator: &mut Operator, name: &LockName) -> anyhow::Result<Self> {
        operator.ask(|backend| Self::once(backend, name))
    }

    /// Looks, and does not try again.
    pub(super) fn once(backend: &mut dyn Admin, name: &LockName) -> Result<Self, BackendError> {
        let asked = Moment::now();
        let Locks { now, mut locks } = backend.locks(&[name.as_str()])?;
        // A server may take names for equal that are written differently.
        let place = locks.iter().position(|lock| lock.name == name.as_str()).unwrap_or_default();
        let lock = (place < locks.len()).then(|| locks.swap_remove(place));
        Ok(Self { now, asked, lock })
    }

    /// What the store's clock shows by now. It is ahead by up to the time that the look took.
    pub(super) fn clock(&self) -> Timestamp {
        self.now + Moment::now().since(self.asked)
    }

    /// Who holds it.
    pub(super) fn held(&self) -> Option<&LockState> {
        self.lock.as_ref().filter(|lock| lock.is_held()).map(|lock| &lock.state)
    }

    /// Whether the store has the lock, held or not, and of more than a pause.
    pub(super) fn is_known(&self) -> bool {
        self.lock.as_ref().is_some_and(|lock| !lock.is_only_of_a_pause())
    }

    /// Until when it is held.
    pub(super) fn until(&self) -> Option<String> {
        self.held().map(|record| report::until(record, Some(self.now)))
    }

    /// `is held by … since … until …`, or `is free`.
    pub(super) fn state(&self) -> String {
        self.held().map_or_else(|| "is free".to_owned(), |record| report::holding(record, Some(self.now)))
    }
}

/// Fails if a lock that was held is as it was before, or held for longer than it was to be from then on by the owner `to`. A table
/// may take a statement and keep its row, by a trigger or row security.
pub(super) fn must_be(
    operator: &mut Operator,
    name: &LockName,
    before: &LockState,
    to: &str,
    left: Duration,
) -> anyhow::Result<()> {
    // What could not be looked at is believed.
    let Ok(after) = Seen::of(operator, name) else { return Ok(()) };
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

/// For how long a lock is to be held that is to stay held until then, at `now`.
pub(super) fn rest(kept_until: Option<Timestamp>, now: Timestamp) -> Duration {
    kept_until.map_or(Duration::ZERO, |until| Duration::from_millis(until.0.saturating_sub(now.0)))
}

/// Prints lines of an answer, whatever there is in an owner that others have written.
pub(super) fn say(lines: &[String]) -> anyhow::Result<Exit> {
    let text: String = lines.iter().map(|line| format!("{}\n", report::visible(line))).collect();
    super::print(text.as_bytes())
}

/// The lock that was perhaps meant, as a hint: one that is `wanted`, or, if there is none of the name that was given, any.
pub(super) fn suggestion(
    operator: &mut Operator,
    name: &LockName,
    seen: &Seen,
    wanted: impl Fn(&Lock) -> bool,
) -> Option<String> {
    let locks = operator.ask(|backend| backend.locks(&[])).ok()?.locks;
    let near = nearest(name.as_str(), &locks, wanted, seen.is_known())?;
    Some(format!("did you mean `{near}`?"))
}

fn nearest<'a>(name: &str, locks: &'a [Lock], wanted: impl Fn(&Lock) -> bool, only_wanted: bool) -> Option<&'a str> {
    let others = || locks.iter().filter(|lock| lock.name != name);
    let names = |lock: &'a Lock| lock.name.as_str();
    let first = operator::nearest(name, others().filter(|lock| wanted(lock)).map(names));
    first.or_else(|| operator::nearest(name, others().filter(|_| !only_wanted).map(names)))
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
