//! Lists of locks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::layout::{StoredLock, StoredTimes, after};
use super::operations::Keys;
use super::operations::{self, PAGE_ENTRIES, RangePart};
use super::snapshot::Snapshot;
use super::wire::{Clock, Entry};
use super::{Etcd, without_ambiguity};
use crate::lock::{BackendError, Lock, LockState, Locks};

/// Operations of one transaction. etcd takes 128, or what --max-txn-ops says.
pub(crate) const OPERATIONS_PER_TRANSACTION: usize = 32;

impl Etcd {
    /// Lists the locks of these names, or all of them. A free lock has no key; its record of a run shows that it exists.
    pub(crate) fn list(&mut self, names: &[&str]) -> Result<Locks, BackendError> {
        let names: BTreeSet<&str> = names.iter().copied().collect();
        let (found, clock) = if names.is_empty() { self.read_all_locks()? } else { self.read_locks(&names)? };
        let mut locks = Vec::new();
        for (name, snapshot) in found {
            // A list of all locks shows the stored times: otherwise shedlock would have to ask for many leases.
            let state = if names.is_empty() {
                self.describe(&snapshot, clock)?
            } else {
                self.describe_by_lease(&snapshot, clock)?
            };
            let state = state.or_else(|| snapshot.state.is_some_and(|state| state.run.is_some()).then(free));
            locks.extend(state.map(|state| Lock { name, state }));
        }
        Ok(Locks { now: clock.now, locks })
    }

    fn read_locks(&mut self, names: &BTreeSet<&str>) -> Result<(BTreeMap<String, Snapshot>, Clock), BackendError> {
        let names: Vec<&str> = names.iter().copied().collect();
        let (mut found, mut clock) = (BTreeMap::new(), None);
        for names in names.chunks(OPERATIONS_PER_TRANSACTION / 2) {
            let read: Vec<_> = names.iter().flat_map(|name| self.read_operations(name)).collect();
            let outcome = self.transact(&[], &read, &[]).map_err(without_ambiguity)?;
            let mut ranges = outcome.ranges.into_iter();
            found.extend(names.iter().map(|name| ((*name).to_owned(), self.decode(&mut ranges))));
            clock = Some(outcome.clock);
        }
        clock.map(|clock| (found, clock)).ok_or_else(|| BackendError::permanent("no lock is named"))
    }

    pub(crate) fn read_all_locks(&mut self) -> Result<(BTreeMap<String, Snapshot>, Clock), BackendError> {
        let kinds = [(Keys::Locks, self.space.locks()), (Keys::States, self.space.states())];
        let mut rest: Vec<(Keys, Vec<u8>, Vec<u8>)> =
            kinds.iter().map(|(keys, start)| (*keys, start.clone().into_bytes(), after(start))).collect();
        let (mut found, mut clock): (BTreeMap<String, Snapshot>, _) = (BTreeMap::new(), None);
        self.client.http.begin_list();
        while !rest.is_empty() {
            let page = |(keys, from, to): &(Keys, Vec<u8>, Vec<u8>)| {
                (*keys, operations::get_between(from, to, RangePart::First(PAGE_ENTRIES)))
            };
            let outcome =
                self.transact(&[], &rest.iter().map(page).collect::<Vec<_>>(), &[]).map_err(without_ambiguity)?;
            clock = Some(outcome.clock);
            let mut next = Vec::new();
            for ((keys, from, to), range) in rest.into_iter().zip(outcome.ranges) {
                next.extend(
                    next_page_start(&from, &range.entries).filter(|from| *from < to).map(|from| (keys, from, to)),
                );
                let start = &kinds[usize::from(keys == Keys::States)].1;
                for entry in range.entries {
                    // A key that is not text is not a lock's.
                    let name = std::str::from_utf8(&entry.key).ok().and_then(|key| key.strip_prefix(&start[..]));
                    let Some(snapshot) = name.map(|name| found.entry(name.to_owned()).or_default()) else { continue };
                    match keys {
                        Keys::States => snapshot.state = StoredTimes::parse(&entry.value),
                        _ => snapshot.lock = Some(StoredLock::from_entry(entry)),
                    }
                }
            }
            rest = next;
        }
        clock.map(|clock| (found, clock)).ok_or_else(|| BackendError::permanent("no lock was read"))
    }
}

/// Returns where the next page begins; `None` after the last one. The list of a server that goes back would never end.
pub(crate) fn next_page_start(from: &[u8], entries: &[Entry]) -> Option<Vec<u8>> {
    let last = entries.last().filter(|last| entries.len() as u64 == PAGE_ENTRIES && last.key[..] >= *from)?;
    Some([&last.key[..], b"\0"].concat())
}

/// Returns the state of a free lock.
fn free() -> LockState {
    LockState { owner: String::new(), since: None, until: None, left: Duration::ZERO }
}
