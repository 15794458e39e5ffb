//! The smallest complete backend: locks in this process's memory, for tests. CONTRIBUTING.md counts its lines.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use super::{Access, Acquired, Admin, Backend, BackendError, Kept, Opened, Pace, Reply, Url};
use crate::lock::{Change, Claim, Closing, Grant, Lock, LockState, Locks, Purpose, RunRecord, Runs, Wanted};
use crate::system::Timestamp;

/// The part of a time that its whole milliseconds leave out: no lease ends early by it.
const MILLISECOND: Duration = Duration::from_millis(1);

/// Every store of this process, by its path.
static STORES: LazyLock<Mutex<BTreeMap<String, Store>>> = LazyLock::new(Mutex::default);

/// The backend of the locks under one path.
pub(super) struct Trial(String);

#[derive(Default)]
struct Store {
    locks: BTreeMap<String, Row>,
    runs: Vec<RunRecord>,
    last_token: u64,
}

struct Row {
    owner: String,
    since: Timestamp,
    until: Timestamp,
}

impl Row {
    fn is_held(&self) -> bool {
        self.until > Timestamp::now()
    }

    fn state(&self) -> LockState {
        let left = Duration::from_millis(self.until.0.saturating_sub(Timestamp::now().0 + 1));
        LockState { owner: self.owner.clone(), since: Some(self.since), until: Some(self.until), left }
    }
}

impl Store {
    fn held(&mut self, name: &str) -> Option<&mut Row> {
        self.locks.get_mut(name).filter(|row| row.is_held())
    }

    /// Records a taking under a new token. A repeated taking replaces its record.
    fn record(&mut self, claim: &Claim, started_at: Timestamp) -> u64 {
        self.last_token += 1;
        self.runs.retain(|run| !is_of(run, claim));
        let owner = claim.owner.as_str();
        self.runs.push(RunRecord {
            token: self.last_token,
            name: claim.name.to_string(),
            owner: owner.to_owned(),
            host: owner.split(':').next().unwrap_or_default().to_owned(),
            started_at: Some(started_at),
            ended_at: None,
            exit_code: None,
            outcome: None,
        });
        self.last_token
    }

    /// Closes the record of a taking, and drops the oldest records of its lock.
    fn close(&mut self, claim: &Claim, closing: Closing) {
        match closing {
            Closing::Unused | Closing::GivenUp => self.runs.retain(|run| !is_of(run, claim)),
            Closing::Ended { verdict, exit_code } => {
                let open = self.runs.iter_mut().find(|run| is_of(run, claim) && run.ended_at.is_none());
                if let Some(run) = open {
                    run.ended_at = Some(Timestamp::now());
                    run.exit_code = exit_code.map(i64::from);
                    run.outcome = Some(verdict.as_str().to_owned());
                }
            }
        }
        let of_name = self.runs.iter().filter(|run| run.name == claim.name.as_str()).count();
        let mut surplus = of_name.saturating_sub(claim.keep.max(1) as usize);
        self.runs.retain(|run| {
            let goes = surplus > 0 && run.name == claim.name.as_str();
            surplus -= usize::from(goes);
            !goes
        });
    }
}

fn is_of(run: &RunRecord, claim: &Claim) -> bool {
    run.name == claim.name.as_str() && run.owner == claim.owner.as_str()
}

fn is_wanted(name: &str, wanted: &[impl AsRef<str>]) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| wanted.as_ref() == name)
}

fn after(moment: Timestamp, duration: Duration) -> Timestamp {
    Timestamp(moment.0 + u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 2))
}

impl Trial {
    pub(super) fn open(url: &Url, _: &Access) -> Result<Opened, String> {
        url.nothing_left(&[])?;
        let backend = Box::new(Self(url.rest().to_owned()));
        Ok(Opened { backend, address: url.public(), pace: Pace::OF_SERVERS })
    }

    fn stores() -> MutexGuard<'static, BTreeMap<String, Store>> {
        STORES.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Runs `work` on the store, if it exists.
    fn with<T: Default>(&self, work: impl FnOnce(&mut Store) -> T) -> T {
        Self::stores().get_mut(&self.0).map(work).unwrap_or_default()
    }
}

impl Backend for Trial {
    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError> {
        let mut stores = Self::stores();
        let store = stores.entry(self.0.clone()).or_default();
        if let Some(row) = store.held(claim.name.as_str()).filter(|row| row.owner != claim.owner.as_str()) {
            return Ok(Acquired::Held(row.state()).into());
        }
        let since = Timestamp::now();
        let until = after(since, claim.lease + MILLISECOND);
        store.locks.insert(claim.name.to_string(), Row { owner: claim.owner.as_str().to_owned(), since, until });
        let token = (claim.purpose == Purpose::Run).then(|| store.record(claim, since));
        Ok(Acquired::Granted(Grant { locked_at: since, until, token }).into())
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<Kept>, BackendError> {
        let kept = self.with(|store| {
            let row = store.held(claim.name.as_str()).filter(|row| row.owner == claim.owner.as_str())?;
            row.until = row.until.max(after(Timestamp::now(), claim.lease));
            Some(Kept::Kept)
        });
        Ok(kept.unwrap_or(Kept::Lost).into())
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, BackendError> {
        let kept = self.with(|store| {
            store.close(claim, closing);
            let ended = claim.owner.ended();
            let row = store.locks.get_mut(claim.name.as_str())?;
            if row.is_held() && row.owner == claim.owner.as_str() {
                row.until = after(row.since, hold).max(Timestamp::now());
                row.owner.clone_from(&ended);
            }
            (row.owner == ended).then_some(Kept::Kept)
        });
        Ok(kept.unwrap_or(Kept::Lost).into())
    }

    fn disconnect(&mut self) {}

    fn locks(&mut self, names: &[&str]) -> Result<Locks, BackendError> {
        let locks = self.with(|store| {
            let listed = store.locks.iter().filter(|(name, _)| is_wanted(name, names));
            listed.map(|(name, row)| Lock { name: name.clone(), state: row.state() }).collect()
        });
        Ok(Locks { now: Timestamp::now(), locks })
    }
}

impl Admin for Trial {
    fn runs(&mut self, wanted: &Wanted) -> Result<Runs, BackendError> {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let mut of_each = |name: &str| {
            let count = seen.entry(name.to_owned()).or_default();
            *count += 1;
            wanted.of_each.is_none_or(|most| *count <= most)
        };
        let runs = self.with(|store| {
            let newest = store.runs.iter().rev().filter(|run| is_wanted(&run.name, &wanted.names));
            let since = |run: &&RunRecord| wanted.since.is_none_or(|since| run.ended_at.is_none_or(|end| end >= since));
            let most = wanted.limit.map_or(usize::MAX, |limit| limit as usize);
            newest.filter(since).filter(|run| of_each(&run.name)).take(most).cloned().collect()
        });
        Ok(Runs { now: Timestamp::now(), runs })
    }

    fn change(&mut self, change: &Change) -> Result<Kept, BackendError> {
        let kept = self.with(|store| {
            let row =
                store.held(change.name.as_str()).filter(|row| [&change.from, &change.to].contains(&&row.owner))?;
            let now = Timestamp::now();
            row.since = if row.owner == change.to { row.since } else { now };
            row.owner.clone_from(&change.to);
            row.until = after(now, change.left);
            Some(Kept::Kept)
        });
        Ok(kept.unwrap_or(Kept::Lost))
    }

    fn make(&mut self) -> Result<Vec<String>, BackendError> {
        let (mut stores, path) = (Self::stores(), self.0.clone());
        let line = if stores.contains_key(&path) { "the store is there" } else { "created the store" };
        stores.entry(path).or_default();
        Ok(vec![line.to_owned()])
    }

    fn schema(&self) -> String {
        "nothing has to be made\n".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servers::stores::{self, Run, Stored};

    crate::backend::conformance::conformance!(super::TrialStore::new);

    /// A store as a Java application or a person sees it.
    struct TrialStore(String);

    impl TrialStore {
        fn new() -> Self {
            Self(servers::unique("trial"))
        }

        fn with<T: Default>(&self, work: impl FnOnce(&mut Store) -> T) -> T {
            Trial(self.0.clone()).with(work)
        }
    }

    fn millis(time: Timestamp) -> i64 {
        i64::try_from(time.0).unwrap()
    }

    impl stores::Store for TrialStore {
        fn url(&self) -> String {
            format!("trial:{}", self.0)
        }

        fn stored(&self, name: &str) -> Option<Stored> {
            self.with(|store| {
                let Row { owner, since, until } = store.locks.get(name)?;
                let now = millis(Timestamp::now());
                Some(Stored { owner: owner.clone(), since: millis(*since), until: millis(*until), now })
            })
        }

        fn delete(&self, name: &str) {
            self.with(|store| store.locks.remove(name).map(|_| ()));
        }

        fn steal(&self, name: &str, owner: &str) {
            self.with(|store| store.locks.get_mut(name).unwrap().owner = owner.to_owned());
        }

        fn shift(&self, name: &str, by: Duration) {
            self.with(|store| {
                let row = store.locks.get_mut(name).unwrap();
                (row.since, row.until) = (after(row.since, by), after(row.until, by));
            });
        }

        fn connections(&self) -> usize {
            0
        }

        fn make_table(&self) {
            Trial(self.0.clone()).make().unwrap();
        }

        fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool {
            self.make_table();
            self.with(|store| {
                let since = Timestamp::now();
                let is_free = store.held(name).is_none();
                if is_free {
                    let row = Row { owner: owner.to_owned(), since, until: after(since, at_most) };
                    store.locks.insert(name.to_owned(), row);
                }
                is_free
            })
        }

        fn java_release(&self, name: &str, owner: &str, rest: Duration) {
            self.with(|store| {
                let row = store.locks.get_mut(name).filter(|row| row.owner == owner)?;
                row.until = after(Timestamp::now(), rest);
                Some(())
            });
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
            self.with(|store| store.runs.iter().rev().filter(|run| run.name == name).map(read).collect())
        }

        fn things(&self) -> Vec<String> {
            Trial::stores().keys().filter(|path| **path == self.0).cloned().collect()
        }

        fn carry_out(&self, _: &str) {
            self.make_table();
        }
    }
}
