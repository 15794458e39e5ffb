//! The smallest complete backend: records in this process's memory, for tests. CONTRIBUTING.md counts its lines.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::backend::record::engine::{ReadResult, Record, RecordLocks, RecordSink, RecordStore, WriteResult};
use crate::backend::{Access, Opened, Url};
use crate::lock::BackendError;
use crate::system::Timestamp;

/// The records of one path by the names of their locks, each with its version.
type Records = BTreeMap<String, (Record, u64)>;

/// Every store of this process, by its path.
static STORES: LazyLock<Mutex<BTreeMap<String, Records>>> = LazyLock::new(Mutex::default);

/// Number of reads and writes so far, as a store counts its transactions.
static NUMBER: AtomicU64 = AtomicU64::new(1);

fn next() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// The store under one path.
pub(crate) struct Trial(String);

impl Trial {
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        url.nothing_left(&[])?;
        Ok(Opened::server(RecordLocks::new(Self(url.rest().to_owned())), url, access))
    }

    fn stores() -> MutexGuard<'static, BTreeMap<String, Records>> {
        STORES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on the records, if the store exists.
    fn with<T: Default>(&self, work: impl FnOnce(&mut Records) -> T) -> T {
        Self::stores().get_mut(&self.0).map(work).unwrap_or_default()
    }
}

impl RecordStore for Trial {
    type Version = u64;

    fn max_runs(&self) -> u32 {
        1000
    }

    fn label(&self) -> String {
        "backend trial".to_owned()
    }

    fn read(&mut self, name: &str) -> Result<ReadResult<u64>, BackendError> {
        let found = self.with(|records| records.get(name).cloned());
        Ok(ReadResult { now: Timestamp::now(), min_token: next(), found })
    }

    fn write(&mut self, name: &str, record: &Record, version: Option<&u64>) -> Result<WriteResult, BackendError> {
        let mut stores = Self::stores();
        let records = stores.entry(self.0.clone()).or_default();
        if records.get(name).map(|(_, version)| version) != version {
            return Ok(WriteResult::Conflict);
        }
        records.insert(name.to_owned(), (record.clone(), next()));
        Ok(WriteResult::Done)
    }

    fn remove(&mut self, name: &str, version: &u64) -> Result<WriteResult, BackendError> {
        let is_same = |records: &mut Records| {
            records.get(name).is_some_and(|(_, stored)| stored == version) && records.remove(name).is_some()
        };
        Ok(if self.with(is_same) { WriteResult::Done } else { WriteResult::Conflict })
    }

    fn list(&mut self, sink: RecordSink<'_>) -> Result<Timestamp, BackendError> {
        self.with(|records| records.iter().for_each(|(name, (record, _))| sink(name.clone(), record.clone())));
        Ok(Timestamp::now())
    }

    fn disconnect(&mut self) {}

    fn create_missing(&mut self) -> Result<Vec<String>, BackendError> {
        let (mut stores, path) = (Self::stores(), self.0.clone());
        let line = if stores.contains_key(&path) { "the store is there" } else { "created the store" };
        stores.entry(path).or_default();
        Ok(vec![line.to_owned()])
    }

    fn schema(&mut self) -> Result<String, BackendError> {
        Ok("nothing has to be made\n".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::RunRecord;
    use servers::stores::{self, Run, Shift, Stored};

    crate::backend::testing::conformance::conformance!(super::TrialStore::new);

    /// A store as another program or a person sees it.
    struct TrialStore(Trial);

    impl TrialStore {
        fn new() -> Self {
            Self(Trial(servers::unique("trial")))
        }

        /// Writes as another program does, which knows nothing of the runs.
        fn write(&self, name: &str, owner: &str, since: Timestamp, until: Timestamp) {
            self.0.with(|records| {
                let (record, version) = records.entry(name.to_owned()).or_default();
                let (owner, since, until) = (owner.to_owned(), Some(since), Some(until));
                *record = Record { owner, since, until, set_at: None, ..record.clone() };
                *version = next();
            });
        }

        fn record(&self, name: &str) -> Option<Record> {
            self.0.with(|records| records.get(name).map(|(record, _)| record.clone()))
        }

        fn owned(&self, name: &str) -> (Timestamp, Timestamp) {
            let Record { since, until, .. } = self.record(name).unwrap();
            (since.unwrap(), until.unwrap())
        }
    }

    fn millis(time: Timestamp) -> i64 {
        i64::try_from(time.0).unwrap()
    }

    impl stores::Store for TrialStore {
        fn url(&self) -> String {
            format!("trial:{}", self.0.0)
        }

        fn in_one_record(&self) -> bool {
            true
        }

        fn stored(&self, name: &str) -> Option<Stored> {
            let Record { owner, since, until, .. } = self.record(name)?;
            let now = millis(Timestamp::now());
            Some(Stored { owner, since: since.map(millis)?, until: until.map(millis)?, now })
        }

        fn delete(&self, name: &str) {
            self.0.with(|records| records.remove(name).map(|_| ()));
        }

        fn steal(&self, name: &str, owner: &str) {
            let (since, until) = self.owned(name);
            self.write(name, owner, since, until);
        }

        fn shift(&self, name: &str, by: Shift) {
            self.0.with(|records| {
                let (record, version) = records.get_mut(name).unwrap();
                for time in [&mut record.since, &mut record.until, &mut record.set_at].into_iter().flatten() {
                    time.0 = time.0.checked_add_signed(by.millis()).unwrap();
                }
                *version = next();
            });
        }

        fn connections(&self) -> usize {
            0
        }

        fn make_table(&self) {
            Trial(self.0.0.clone()).create_missing().unwrap();
        }

        fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool {
            self.make_table();
            let is_free = self.stored(name).is_none_or(|lock| !lock.is_held());
            if is_free {
                self.write(name, owner, Timestamp::now(), Timestamp::now() + at_most);
            }
            is_free
        }

        fn java_release(&self, name: &str, owner: &str, rest: Duration) {
            let (since, _) = self.owned(name);
            if self.record(name).unwrap().owner == owner {
                self.write(name, owner, since, Timestamp::now() + rest);
            }
        }

        fn history(&self, name: &str) -> Vec<Run> {
            let read = |run: &RunRecord| Run {
                token: run.token,
                owner: run.owner.clone(),
                host: run.host.clone(),
                started: millis(run.started_at.unwrap()),
                ended: run.ended_at.map(millis),
                exit_code: run.exit_code,
                outcome: run.outcome.clone(),
            };
            self.record(name).unwrap_or_default().runs.iter().rev().map(read).collect()
        }

        fn things(&self) -> Vec<String> {
            Trial::stores().keys().filter(|path| **path == self.0.0).cloned().collect()
        }

        fn carry_out(&self, _: &str) {
            self.make_table();
        }
    }
}
