//! Locks in a store that reads a record with its version, and writes it if the version is still the same.
//!
//! A [`RecordStore`] brings the requests of its store, its clock and its classes of errors. The engine decides what to
//! write. It reads and writes once per operation, and begins again if another client has written in between. An
//! acquisition that finds no record creates an empty one first. The engine must not know which store it has.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod record;
#[cfg(test)]
mod simulation;

use std::time::Duration;

use crate::backend::clock::wait_past;
use crate::backend::{Admin, Backend, Credentials, Finding, FindingSink, LockTest};
use crate::lock::{Acquired, BackendError, Forgotten, Reply, StillHeld};
use crate::lock::{Change, Claim, Closing, Grant, Lock, Locks, Order, Removal, RunList, RunQuery, Runs};
use crate::system::Timestamp;
pub(crate) use record::{Clock, Record};

/// Number of times that an operation reads a record which other clients keep writing.
const MAX_ATTEMPTS: u32 = 16;

/// Stores records. Connects when it has to, and drops its connection after an error.
pub(crate) trait RecordStore: Send {
    /// Identifies the record that was read: a write succeeds only if the store still has it. A record that was removed and
    /// created again has another version.
    type Version;

    /// Returns the coarseness of the store's clock: the true time is at most this much later than the time of the last read.
    fn clock_resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// Returns the most runs that a record keeps, since each request sends all of them.
    fn max_runs(&self) -> u32 {
        100
    }

    /// Returns the name of the store in messages, which begins with `backend `.
    fn label(&self) -> String;

    /// Reads a lock's record, and the store's clock at the same time or before.
    fn read(&mut self, name: &str) -> Result<ReadResult<Self::Version>, BackendError>;

    /// Writes a record if the store still has this version; `None` if it must have none. The error is ambiguous if the
    /// request was sent.
    fn write(
        &mut self,
        name: &str,
        record: &Record,
        version: Option<&Self::Version>,
    ) -> Result<WriteResult, BackendError>;

    /// Removes a record if the store still has this version. The error is ambiguous if the request was sent.
    fn remove(&mut self, name: &str, version: &Self::Version) -> Result<WriteResult, BackendError>;

    /// Passes on the records of all locks with their names, as they come, and returns the earliest time that the store's
    /// clock allows.
    fn list(&mut self, sink: RecordSink<'_>) -> Result<Timestamp, BackendError>;

    fn disconnect(&mut self);

    /// Uses this login from the next connection on; returns false if it cannot.
    fn log_in_with(&mut self, _: &Credentials) -> bool {
        false
    }

    /// Creates what the first acquisition would create, and returns a line for each thing.
    fn create_missing(&mut self) -> Result<Vec<String>, BackendError>;

    /// Returns the commands or manifests that create everything needed. It does not reach the store.
    fn schema(&mut self) -> Result<String, BackendError>;

    /// Tries what its functions must do, where another program has them, and returns what was found.
    fn try_functions(&mut self) -> Vec<Finding> {
        Vec::new()
    }

    /// Reports findings that are special to this store.
    fn check(&mut self, _: FindingSink<'_>) -> LockTest {
        LockTest::Possible
    }
}

/// Holds the answer to a read of a lock's record.
pub(crate) struct ReadResult<V> {
    /// The earliest time that it can be, by the store's clock.
    pub(crate) now: Timestamp,
    /// The smallest token that an acquisition may get, from a number of the store that only grows; 0 if it has none.
    pub(crate) min_token: u64,
    pub(crate) found: Option<(Record, V)>,
}

/// Says how the store answered a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteResult {
    Done,
    /// The store no longer has the version.
    Conflict,
}

/// Receives a lock's name and its record.
pub(crate) type RecordSink<'a> = &'a mut dyn FnMut(String, Record);

/// Keeps each lock in one record of a store.
pub(crate) struct RecordLocks<S>(S);

/// Says what an operation does with the record that it has read.
enum Decision<T> {
    /// The answer is known, and nothing is written.
    Answer(T),
    /// The operation writes this record, and if the store accepts it, this is the answer.
    Write(Record, T),
    /// An empty record is written where there is none, and the operation begins again.
    CreateEmpty,
    Fail(BackendError),
}

impl<S: RecordStore> RecordLocks<S> {
    pub(crate) fn new(store: S) -> Self {
        Self(store)
    }

    /// Reads a record, and writes the one that `decide` returns; again if another client was faster.
    fn update<T>(
        &mut self,
        name: &str,
        decide: impl Fn(Option<&Record>, Clock, u64) -> Decision<T>,
    ) -> Result<T, BackendError> {
        for _ in 0..MAX_ATTEMPTS {
            let ReadResult { now, min_token, found } = self.read(name)?;
            let (record, version) = found.unzip();
            match decide(record.as_ref(), Clock { now, resolution: self.0.clock_resolution() }, min_token) {
                Decision::Answer(answer) => return Ok(answer),
                Decision::Write(mut record, answer) => {
                    record.keep_newest_runs(self.0.max_runs());
                    if self.write(name, &record, version.as_ref())? == WriteResult::Done {
                        return Ok(answer);
                    }
                }
                Decision::CreateEmpty => {
                    self.write(name, &Record::default(), None)?;
                }
                Decision::Fail(error) => return Err(self.with_label(error)),
            }
        }
        Err(self.too_many_conflicts())
    }

    fn read(&mut self, name: &str) -> Result<ReadResult<S::Version>, BackendError> {
        // Reading changes nothing.
        let read = self.0.read(name).map_err(|error| BackendError { ambiguous: false, ..error });
        read.map_err(|error| self.with_label(error))
    }

    fn write(
        &mut self,
        name: &str,
        record: &Record,
        version: Option<&S::Version>,
    ) -> Result<WriteResult, BackendError> {
        self.0.write(name, record, version).map_err(|error| self.with_label(error))
    }

    fn too_many_conflicts(&self) -> BackendError {
        self.with_label(BackendError::transient("other clients keep writing this lock"))
    }

    fn with_label(&self, error: BackendError) -> BackendError {
        error.naming(&self.0.label())
    }

    /// Passes on the records of these locks, or of all, and returns the time.
    fn read_records<'a>(
        &mut self,
        names: impl ExactSizeIterator<Item = &'a str>,
        sink: RecordSink<'_>,
    ) -> Result<Timestamp, BackendError> {
        let listed = if names.len() == 0 { self.0.list(sink) } else { self.read_each(names, sink) };
        listed.map_err(|error| self.with_label(BackendError { ambiguous: false, ..error }))
    }

    fn read_each<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        sink: RecordSink<'_>,
    ) -> Result<Timestamp, BackendError> {
        let mut now = Timestamp(0);
        let mut sorted: Vec<_> = names.collect();
        sorted.sort_unstable();
        sorted.dedup();
        for name in sorted {
            let read = self.0.read(name)?;
            now = read.now;
            if let Some((record, _)) = read.found {
                sink(name.to_owned(), record);
            }
        }
        Ok(now)
    }
}

/// Explains why a lock cannot be acquired any more.
fn no_larger_token(name: &str, last: u64) -> BackendError {
    BackendError::permanent(format!("the lock's last token is {last}, which no token can follow"))
        .hint(format!("another program has written it: let tokens begin again with `shedlock forget {name}`"))
}

impl<S: RecordStore> Backend for RecordLocks<S> {
    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.0.log_in_with(login)
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError> {
        let answer = self.update(claim.name.as_str(), |record, clock, min_token| {
            // A missing record has no version: a run that acquired the lock since, ended and was forgotten would go unnoticed,
            // and its token may be larger than this floor.
            let Some(last) = record else { return Decision::CreateEmpty };
            if last.is_held(clock) && last.owner != claim.owner.as_str() {
                let held = Acquired::Held(last.state(clock));
                return last
                    .clock_corrected(clock)
                    .map_or(Decision::Answer(held.clone()), |corrected| Decision::Write(corrected, held));
            }
            let Some((acquired, token)) = last.acquired(claim, clock, min_token) else {
                return Decision::Fail(no_larger_token(claim.name.as_str(), last.token.max(min_token)));
            };
            let until = acquired.until.unwrap_or(clock.now);
            Decision::Write(acquired, Acquired::Granted(Grant { locked_at: clock.now, until, token }))
        });
        Ok(answer?.into())
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<StillHeld>, BackendError> {
        let still_held = self.update(claim.name.as_str(), |record, clock, _| {
            match record.and_then(|record| record.renewed(claim, clock)) {
                Some(renewed) => Decision::Write(renewed, StillHeld::Held),
                None => Decision::Answer(StillHeld::Lost),
            }
        });
        Ok(still_held?.into())
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<StillHeld>, BackendError> {
        let still_held = self.update(claim.name.as_str(), |record, clock, _| {
            let released = record.map(|record| record.released(claim, hold, closing, clock));
            let still_held =
                StillHeld::from_owned(released.as_ref().is_some_and(|released| released.owner == claim.owner.ended()));
            match released {
                // An acquisition that is still on its way has to meet another version than the one that it has read.
                released if closing == Closing::Undone => Decision::Write(released.unwrap_or_default(), still_held),
                Some(released) if Some(&released) != record => Decision::Write(released, still_held),
                _ => Decision::Answer(still_held),
            }
        });
        Ok(still_held?.into())
    }

    fn disconnect(&mut self) {
        self.0.disconnect();
    }

    fn locks(&mut self, names: &[&str]) -> Result<Locks, BackendError> {
        let mut records = Vec::new();
        let now = self.read_records(names.iter().copied(), &mut |name, record| {
            // The runs are most of a record.
            records.push((name, Record { runs: Vec::new(), ..record }));
        })?;
        let clock = Clock { now, resolution: self.0.clock_resolution() };
        let mut locks: Vec<_> =
            records.into_iter().map(|(name, record)| Lock { name, state: record.state(clock) }).collect();
        locks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Locks { now, locks })
    }
}

impl<S: RecordStore> Admin for RecordLocks<S> {
    fn runs(&mut self, wanted: &RunQuery) -> Result<Runs, BackendError> {
        let mut runs = RunList::default();
        let now = self.read_records(wanted.names.iter().map(String::as_str), &mut |_, record| {
            record.runs.into_iter().filter(|run| wanted.includes(run)).for_each(|run| runs.push(run));
        })?;
        Ok(Runs { now, runs: wanted.select(runs, Order::Beginning) })
    }

    fn change(&mut self, change: &Change) -> Result<StillHeld, BackendError> {
        self.update(change.name.as_str(), |record, clock, _| {
            match record.and_then(|record| record.changed(change, clock)) {
                Some(changed) => Decision::Write(changed, StillHeld::Held),
                None => Decision::Answer(StillHeld::Lost),
            }
        })
    }

    fn forget(&mut self, removal: &Removal) -> Result<Forgotten, BackendError> {
        let name = removal.name.as_str();
        let mut behind = None;
        for _ in 0..MAX_ATTEMPTS {
            let ReadResult { now, min_token, found } = self.read(name)?;
            let Some((record, version)) = found else { return Ok(Forgotten::Gone { lock: false, runs: 0 }) };
            if record.is_held(Clock { now, resolution: self.0.clock_resolution() }) || record.owner != removal.seen {
                return Ok(Forgotten::InUse);
            }
            // Another floor than a time is always past the last token.
            if min_token > 0 && wait_past(record.token, min_token) {
                behind = Some((record.token, min_token));
                continue;
            }
            behind = None;
            let removed = self.0.remove(name, &version);
            if removed.map_err(|error| self.with_label(error))? == WriteResult::Done {
                return Ok(Forgotten::Gone { lock: true, runs: record.runs.len() as u64 });
            }
        }
        Err(match behind {
            None => self.too_many_conflicts(),
            Some((last, floor)) => self.with_label(
                BackendError::permanent(format!(
                    "the lock's last token is {last}, and the store's next would be {floor}, which is not larger"
                ))
                .hint("the store's smallest token (`floor`) has to be larger than every token so far, or 0"),
            ),
        })
    }

    fn create_missing(&mut self) -> Result<Vec<String>, BackendError> {
        self.0.create_missing().map_err(|error| self.with_label(error))
    }

    fn schema(&mut self) -> Result<String, BackendError> {
        self.0.schema().map_err(|error| self.with_label(error))
    }

    fn try_functions(&mut self) -> Vec<Finding> {
        self.0.try_functions()
    }

    fn check(&mut self, report: FindingSink<'_>) -> LockTest {
        let reached = self.0.check(report);
        if matches!(reached, LockTest::Possible) {
            report(Finding::good(
                "history",
                format!("at most {} runs of each lock, in its own record", self.0.max_runs()),
            ));
        }
        reached
    }
}
