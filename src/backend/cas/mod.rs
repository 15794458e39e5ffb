//! Locks in a store that reads a record with its version, and writes it if the version is still the same.
//!
//! A [`CasStore`] brings the requests of its store, its clock and its classes of errors. The engine decides what to
//! write. It reads and writes once per operation, and begins again if another client has written in between. A taking that
//! finds no record makes an empty one first.

mod record;
#[cfg(test)]
mod world;

use std::time::Duration;

use super::{
    Acquired, Admin, Backend, BackendError, Credentials, Finding, Forgotten, Kept, Reached, Reply, Tell, wait_past,
};
use crate::lock::{Change, Claim, Closing, Grant, Lock, Locks, Order, Removal, RunList, Runs, Wanted};
use crate::system::Timestamp;
pub(in crate::backend) use record::{Clock, Record};

/// Number of times that an operation reads a record which other clients keep writing.
const TRIES: u32 = 16;

/// A store of records. It connects when it has to, and drops its connection after an error.
pub(in crate::backend) trait CasStore: Send {
    /// Identifies what was read: a write succeeds only if the store still has it. Also a record that was removed and made
    /// anew has another one.
    type Version;

    /// The coarseness of the store's clock: the true time is at most this much later than the time of a read.
    const GRAIN: Duration;
    /// The most runs that a record keeps, since each request sends all of them.
    const RUNS: u32 = 100;

    /// Returns the name of the store in messages, which begins with `backend `.
    fn label(&self) -> String;

    /// Reads a lock's record, and the store's clock at the same time or before.
    fn read(&mut self, name: &str) -> Result<Read<Self::Version>, BackendError>;

    /// Writes a record if the store still has this version; `None` if it must have none. The error is ambiguous if the
    /// request was sent.
    fn write(&mut self, name: &str, record: &Record, version: Option<&Self::Version>) -> Result<Written, BackendError>;

    /// Removes a record if the store still has this version. The error is ambiguous if the request was sent.
    fn remove(&mut self, name: &str, version: &Self::Version) -> Result<Written, BackendError>;

    /// Passes on the records of all locks with their names, as they come, and returns the earliest time that it can be.
    fn list(&mut self, take: Take<'_>) -> Result<Timestamp, BackendError>;

    fn disconnect(&mut self);

    /// Uses this login from the next connection on; returns false if it cannot.
    fn log_in_with(&mut self, _: &Credentials) -> bool {
        false
    }

    /// Creates what the first taking would create, and returns a line for each thing.
    fn make(&mut self) -> Result<Vec<String>, BackendError>;

    /// Returns the commands or manifests that create what is needed.
    fn schema(&self) -> String;

    /// Checks what is special to this store.
    fn check(&mut self, _: Tell<'_>) -> Reached {
        Reached::Yes
    }
}

/// The answer to reading a lock.
pub(in crate::backend) struct Read<V> {
    /// The earliest time that it can be, by the store's clock.
    pub(in crate::backend) now: Timestamp,
    /// The smallest token that a taking may get, from a number of the store that only grows; 0 if it has none.
    pub(in crate::backend) floor: u64,
    pub(in crate::backend) found: Option<(Record, V)>,
}

/// The answer to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backend) enum Written {
    Done,
    /// The store no longer has the version.
    Conflict,
}

/// Receives a lock's name and its record.
pub(in crate::backend) type Take<'a> = &'a mut dyn FnMut(String, Record);

/// Backend that keeps each lock in one record.
pub(in crate::backend) struct CasLocks<S>(S);

/// The decision of an operation about the record that it has read.
enum Next<T> {
    /// The answer is known, and nothing is written.
    Answer(T),
    /// This record is written, and if it was, this is the answer.
    Write(Record, T),
    /// An empty record is written where there is none, and the operation begins again.
    Make,
    Refuse(BackendError),
}

impl<S: CasStore> CasLocks<S> {
    pub(in crate::backend) fn new(store: S) -> Self {
        Self(store)
    }

    /// Reads a record and writes what `decide` makes of it; again if another client was faster.
    fn update<T>(
        &mut self,
        name: &str,
        decide: impl Fn(Option<&Record>, Clock, u64) -> Next<T>,
    ) -> Result<T, BackendError> {
        for _ in 0..TRIES {
            let Read { now, floor, found } = self.read(name)?;
            let (record, version) = found.unzip();
            match decide(record.as_ref(), Clock { now, grain: S::GRAIN }, floor) {
                Next::Answer(answer) => return Ok(answer),
                Next::Write(mut record, answer) => {
                    record.keep(S::RUNS);
                    if self.write(name, &record, version.as_ref())? == Written::Done {
                        return Ok(answer);
                    }
                }
                Next::Make => {
                    self.write(name, &Record::default(), None)?;
                }
                Next::Refuse(error) => return Err(self.named(error)),
            }
        }
        Err(self.busy())
    }

    fn read(&mut self, name: &str) -> Result<Read<S::Version>, BackendError> {
        // Reading changes nothing.
        let read = self.0.read(name).map_err(|error| BackendError { ambiguous: false, ..error });
        read.map_err(|error| self.named(error))
    }

    fn write(&mut self, name: &str, record: &Record, version: Option<&S::Version>) -> Result<Written, BackendError> {
        self.0.write(name, record, version).map_err(|error| self.named(error))
    }

    fn busy(&self) -> BackendError {
        self.named(BackendError::transient("other clients keep writing this lock"))
    }

    fn named(&self, error: BackendError) -> BackendError {
        error.of(&self.0.label())
    }

    /// Passes on the records of these locks, or of all, and returns the time.
    fn records<'a>(
        &mut self,
        names: impl ExactSizeIterator<Item = &'a str>,
        take: Take<'_>,
    ) -> Result<Timestamp, BackendError> {
        let listed = if names.len() == 0 { self.0.list(take) } else { self.each(names, take) };
        listed.map_err(|error| self.named(BackendError { ambiguous: false, ..error }))
    }

    fn each<'a>(&mut self, names: impl Iterator<Item = &'a str>, take: Take<'_>) -> Result<Timestamp, BackendError> {
        let mut now = Timestamp(0);
        let mut sorted: Vec<_> = names.collect();
        sorted.sort_unstable();
        sorted.dedup();
        for name in sorted {
            let read = self.0.read(name)?;
            now = read.now;
            if let Some((record, _)) = read.found {
                take(name.to_owned(), record);
            }
        }
        Ok(now)
    }
}

/// Explains why a lock cannot be taken any more.
fn no_larger_token(name: &str, last: u64) -> BackendError {
    BackendError::permanent(format!("the lock's last token is {last}, which no token can follow"))
        .hint(format!("another program has written it: let tokens begin again with `shedlock forget {name}`"))
}

impl<S: CasStore> Backend for CasLocks<S> {
    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.0.log_in_with(login)
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError> {
        let acquired = self.update(claim.name.as_str(), |record, clock, floor| {
            // Nothing has no version: a run that took the lock since, ended and was forgotten would go unnoticed, and its token
            // may be larger than this floor.
            let Some(last) = record else { return Next::Make };
            if last.is_held(clock) && last.owner != claim.owner.as_str() {
                let held = Acquired::Held(last.state(clock));
                return last.righted(clock).map_or(Next::Answer(held.clone()), |righted| Next::Write(righted, held));
            }
            let Some((taken, token)) = last.taken(claim, clock, floor) else {
                return Next::Refuse(no_larger_token(claim.name.as_str(), last.token.max(floor)));
            };
            let until = taken.until.unwrap_or(clock.now);
            Next::Write(taken, Acquired::Granted(Grant { locked_at: clock.now, until, token }))
        });
        Ok(acquired?.into())
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<Kept>, BackendError> {
        let kept = self.update(claim.name.as_str(), |record, clock, _| {
            match record.and_then(|record| record.renewed(claim, clock)) {
                Some(renewed) => Next::Write(renewed, Kept::Kept),
                None => Next::Answer(Kept::Lost),
            }
        });
        Ok(kept?.into())
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, BackendError> {
        let kept = self.update(claim.name.as_str(), |record, clock, _| {
            let released = record.map(|record| record.released(claim, hold, closing, clock));
            let kept = Kept::if_so(released.as_ref().is_some_and(|released| released.owner == claim.owner.ended()));
            match released {
                // A taking that is still on its way has to meet another version than the one that it has read.
                released if closing == Closing::GivenUp => Next::Write(released.unwrap_or_default(), kept),
                Some(released) if Some(&released) != record => Next::Write(released, kept),
                _ => Next::Answer(kept),
            }
        });
        Ok(kept?.into())
    }

    fn disconnect(&mut self) {
        self.0.disconnect();
    }

    fn locks(&mut self, names: &[&str]) -> Result<Locks, BackendError> {
        let mut records = Vec::new();
        let now = self.records(names.iter().copied(), &mut |name, record| {
            // The runs are most of a record.
            records.push((name, Record { runs: Vec::new(), ..record }));
        })?;
        let clock = Clock { now, grain: S::GRAIN };
        let mut locks: Vec<_> =
            records.into_iter().map(|(name, record)| Lock { name, state: record.state(clock) }).collect();
        locks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Locks { now, locks })
    }
}

impl<S: CasStore> Admin for CasLocks<S> {
    fn runs(&mut self, wanted: &Wanted) -> Result<Runs, BackendError> {
        let mut runs = RunList::default();
        let now = self.records(wanted.names.iter().map(String::as_str), &mut |_, record| {
            record.runs.into_iter().filter(|run| wanted.includes(run)).for_each(|run| runs.push(run));
        })?;
        Ok(Runs { now, runs: wanted.select(runs, Order::Beginning) })
    }

    fn change(&mut self, change: &Change) -> Result<Kept, BackendError> {
        self.update(change.name.as_str(), |record, clock, _| {
            match record.and_then(|record| record.changed(change, clock)) {
                Some(changed) => Next::Write(changed, Kept::Kept),
                None => Next::Answer(Kept::Lost),
            }
        })
    }

    fn forget(&mut self, removal: &Removal) -> Result<Forgotten, BackendError> {
        let name = removal.name.as_str();
        for _ in 0..TRIES {
            let Read { now, floor, found } = self.read(name)?;
            let Some((record, version)) = found else { return Ok(Forgotten::Gone { lock: false, runs: 0 }) };
            if record.is_held(Clock { now, grain: S::GRAIN }) || record.owner != removal.seen {
                return Ok(Forgotten::InUse);
            }
            // Another floor than a time is always past the last token.
            if floor > 0 && wait_past(record.token, floor) {
                continue;
            }
            let removed = self.0.remove(name, &version);
            if removed.map_err(|error| self.named(error))? == Written::Done {
                return Ok(Forgotten::Gone { lock: true, runs: record.runs.len() as u64 });
            }
        }
        Err(self.busy())
    }

    fn make(&mut self) -> Result<Vec<String>, BackendError> {
        self.0.make().map_err(|error| self.named(error))
    }

    fn schema(&self) -> String {
        self.0.schema()
    }

    fn check(&mut self, tell: Tell<'_>) -> Reached {
        let reached = self.0.check(tell);
        if matches!(reached, Reached::Yes) {
            tell(Finding::good("history", format!("at most {} runs of each lock, in its own record", S::RUNS)));
        }
        reached
    }
}
