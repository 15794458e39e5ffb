//! The operators' requests: the runs of a lock, changes, removal, and the commands that set a cluster up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::layout::{self, StoredTimes, after};
use super::listing::{OPERATIONS_PER_TRANSACTION, next_page_start};
use super::operations::Keys;
use super::operations::{self, PAGE_ENTRIES, RangePart};
use super::wire::Entry;
use super::{Etcd, MAX_TRANSACTIONS, errors, without_ambiguity};
use crate::backend::{Admin, FindingSink, LockTest};
use crate::lock::{BackendError, Forgotten, StillHeld};
use crate::lock::{Change, Order, Removal, RunList, RunQuery, Runs};
use crate::system::Timestamp;

/// The output of `shedlock schema`.
const SCHEMA: &str = "\
# etcd needs nothing to be created: the first run of a lock creates its keys.
# This role has all the rights that shedlock needs, and no more. Locks work with the first of them, without a history:
# etcdctl role add shedlock
# etcdctl role grant-permission shedlock --prefix=true readwrite '{locks}'
# etcdctl role grant-permission shedlock --prefix=true readwrite '{states}'
# etcdctl role grant-permission shedlock --prefix=true readwrite '{runs}'
# etcdctl user add {user}
# etcdctl user grant-role {user} shedlock
";

impl Admin for Etcd {
    fn ends_locks_by_its_clock(&self) -> bool {
        false
    }

    fn drops_free_locks(&self) -> bool {
        true
    }

    fn runs(&mut self, wanted: &RunQuery) -> Result<Runs, BackendError> {
        // A limit of zero would be no limit, and an answer with very many runs would be too long.
        let newest = |limit: Option<u32>| {
            let limit = limit.filter(|_| wanted.since.is_none()).map(|limit| u64::from(limit.max(1)));
            limit.filter(|limit| *limit <= PAGE_ENTRIES)
        };
        // shedlock finds the last run of each lock by the lock's name, without reading all runs.
        let known = match wanted.names.is_empty() && wanted.newest_per_lock.is_some() && wanted.since.is_none() {
            true => self.read_all_locks()?.0,
            false => BTreeMap::new(),
        };
        let names: BTreeSet<&str> = wanted.names.iter().chain(known.keys()).map(String::as_str).collect();
        let start = self.space.runs();
        let (ranges, limit) = match names.is_empty() {
            true => (vec![(start.clone().into_bytes(), after(&start))], newest(wanted.limit)),
            false => (
                names.iter().map(|name| self.space.runs_of(name)).collect(),
                // The newest runs are not the last by their keys: another acquisition may come between the grant that gives a key
                // its number and the transaction that writes it.
                newest([wanted.limit, wanted.newest_per_lock].into_iter().flatten().min()),
            ),
        };
        let limit = limit.filter(|_| !names.is_empty() || wanted.newest_per_lock.is_none());
        let (mut runs, mut now) = (RunList::default(), Timestamp::default());
        self.client.http.begin_list();
        let mut take = |entries: &[Entry], space| {
            let found = entries.iter().filter_map(|entry| layout::decode_run(space, entry));
            found.filter(|run| wanted.includes(run)).for_each(|run| runs.push(run));
        };
        match limit {
            Some(limit) => {
                // All ranges of a transaction come in one page.
                let at_once =
                    usize::try_from(PAGE_ENTRIES / limit).map_or(1, |count| count.clamp(1, OPERATIONS_PER_TRANSACTION));
                for ranges in ranges.chunks(at_once) {
                    let part = RangePart::Newest(limit);
                    let read: Vec<_> =
                        ranges.iter().map(|(from, to)| operations::get_between(from, to, part)).collect();
                    let outcome = self.client.transact(&[], &read, &[]).map_err(without_ambiguity)?;
                    outcome.ranges.iter().for_each(|range| take(&range.entries, &self.space));
                    now = outcome.clock.now;
                }
            }
            None => {
                for (mut from, to) in ranges {
                    // The runs of one lock may be very many too.
                    while from < to {
                        let read = [operations::get_between(&from, &to, RangePart::First(PAGE_ENTRIES))];
                        let outcome = self.client.transact(&[], &read, &[]).map_err(without_ambiguity)?;
                        let entries = outcome.ranges.into_iter().next().unwrap_or_default().entries;
                        take(&entries, &self.space);
                        now = outcome.clock.now;
                        from = next_page_start(&from, &entries).unwrap_or_else(|| to.clone());
                    }
                }
            }
        }
        // Tokens are revisions of the whole store, so they order the runs of all locks.
        Ok(Runs { now, runs: wanted.select(runs, Order::Token) })
    }

    fn change(&mut self, change: &Change) -> Result<StillHeld, BackendError> {
        let name = change.name.as_str();
        self.cached = None;
        for _ in 0..MAX_TRANSACTIONS {
            let (snapshot, clock) = self.read_lock(name)?;
            let Some(lock) = snapshot.lock.clone() else { return Ok(StillHeld::Lost) };
            if lock.owner != change.from {
                return Ok(if lock.owner == change.to { StillHeld::Held } else { StillHeld::Lost });
            }
            let run = snapshot.exact().and_then(|state| state.run);
            // A value that is not in shedlock's form stays as it is unless the owner changes.
            let (since, value) = match lock.since {
                since if change.to == lock.owner => (since.unwrap_or(clock.now), lock.value.clone()),
                _ => (clock.now, layout::lock_value(clock.now, &change.to)),
            };
            let (left, operation) = match change.left.is_zero() {
                true => (Duration::ZERO, operations::delete(&self.space.lock(name))),
                false => {
                    let lease = self.grant(change.left)?.id;
                    (change.left, operations::put(&self.space.lock(name), &value, lease))
                }
            };
            let state = StoredTimes { owner: change.to.clone(), since, until: clock.now + left, run };
            let state = operations::put(&self.space.state(name), &state.to_json(), 0);
            let operations = [(Keys::Locks, operation), (Keys::States, state)];
            let written = match self.write(name, &snapshot, &operations) {
                // A server without space still deletes.
                Err(error) if errors::is_out_of_space(&error) && left.is_zero() => {
                    self.write(name, &snapshot, &operations[..1])?
                }
                answer => answer?,
            };
            if written.is_ok() {
                if lock.lease != 0 {
                    let _ = self.client.revoke(lock.lease);
                }
                return Ok(StillHeld::Held);
            }
        }
        Err(self.too_many_conflicts())
    }

    /// Deletes the keys of a lock in one transaction, if none was written since they were read. Nothing remembers the owner of a
    /// lock whose key is gone. The user needs all rights, or some of the keys would stay.
    fn forget(&mut self, removal: &Removal) -> Result<Forgotten, BackendError> {
        let name = removal.name.as_str();
        let (lock, state, (from, to)) = (self.space.lock(name), self.space.state(name), self.space.runs_of(name));
        let all = [operations::get_between(&from, &to, RangePart::FirstKeys(1))];
        let delete = [operations::delete(&lock), operations::delete(&state), operations::delete_between(&from, &to)];
        self.cached = None;
        for _ in 0..MAX_TRANSACTIONS {
            let read = self
                .client
                .transact(&[], &[operations::get(&lock), operations::get(&state)], &[])
                .map_err(without_ambiguity)?;
            let mut entries = read.ranges.into_iter().map(|range| range.entries.into_iter().next());
            let (held, known) = (entries.next().flatten(), entries.next().flatten());
            let revision = |entry: &Option<Entry>| entry.as_ref().map_or(0, |entry| entry.modified);
            let compare = [operations::is_at(&lock, revision(&held)), operations::is_at(&state, revision(&known))];
            let was_there = known.is_some();
            if held.is_some() {
                return Ok(Forgotten::InUse);
            }
            let removed = self.client.transact(&compare, &[all.as_slice(), &delete].concat(), &[])?;
            if removed.succeeded {
                let runs = removed.ranges.first().map_or(0, |range| range.count);
                return Ok(Forgotten::Gone { lock: was_there, runs });
            }
        }
        Err(self.too_many_conflicts())
    }

    fn create_missing(&mut self) -> Result<Vec<String>, BackendError> {
        self.read_lock("")?;
        Ok(vec!["etcd needs nothing to be created".to_owned()])
    }

    fn schema(&mut self) -> Result<String, BackendError> {
        Ok(SCHEMA
            .replace("{locks}", &self.space.locks())
            .replace("{states}", &self.space.states())
            .replace("{runs}", &self.space.runs())
            .replace("{user}", self.client.user().unwrap_or("jobs")))
    }

    fn check(&mut self, report: FindingSink<'_>) -> LockTest {
        self.probe(report)
    }
}
