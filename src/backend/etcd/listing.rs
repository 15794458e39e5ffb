//! Listing and changing locks for the commands that people run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::layout::{self, Held, State, after};
use super::look::Look;
use super::operations::{self, Part};
use super::rights::Keys;
use super::wire::{Clock, Entry};
use super::{Etcd, TRIES, errors, only_read};
use crate::backend::{Admin, BackendError, Forgotten, Kept, Reached, Tell};
use crate::lock::{Change, Lock, LockState, Locks, Order, Removal, RunList, Runs, Wanted};
use crate::system::Timestamp;

/// Operations of one transaction. etcd takes 128, or what --max-txn-ops says.
const AT_ONCE: usize = 32;

/// Locks or runs per request, if all are read.
const PAGE: u64 = 2_000;

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

impl Etcd {
    /// Lists the locks of these names, or all of them. A free lock has no key; that it had a run shows that it exists.
    pub(super) fn list(&mut self, names: &[&str]) -> Result<Locks, BackendError> {
        let names: BTreeSet<&str> = names.iter().copied().collect();
        let (found, clock) = if names.is_empty() { self.look_at_all()? } else { self.look_at(&names)? };
        let mut locks = Vec::new();
        for (name, look) in found {
            // Many leases are not asked for: what is shown of all locks is what was meant.
            let state = if names.is_empty() { self.describe(&look, clock)? } else { self.measure(&look, clock)? };
            let state = state.or_else(|| look.state.is_some_and(|state| state.run.is_some()).then(free));
            locks.extend(state.map(|state| Lock { name, state }));
        }
        Ok(Locks { now: clock.now, locks })
    }

    fn look_at(&mut self, names: &BTreeSet<&str>) -> Result<(BTreeMap<String, Look>, Clock), BackendError> {
        let names: Vec<&str> = names.iter().copied().collect();
        let (mut found, mut clock) = (BTreeMap::new(), None);
        for names in names.chunks(AT_ONCE / 2) {
            let read: Vec<_> = names.iter().flat_map(|name| self.reading(name)).collect();
            let outcome = self.transact(&[], &read, &[]).map_err(only_read)?;
            let mut ranges = outcome.ranges.into_iter();
            found.extend(names.iter().map(|name| ((*name).to_owned(), self.seen(&mut ranges))));
            clock = Some(outcome.clock);
        }
        clock.map(|clock| (found, clock)).ok_or_else(|| BackendError::permanent("no lock is named"))
    }

    fn look_at_all(&mut self) -> Result<(BTreeMap<String, Look>, Clock), BackendError> {
        let kinds = [(Keys::Locks, self.space.locks()), (Keys::States, self.space.states())];
        let mut rest: Vec<(Keys, Vec<u8>, Vec<u8>)> =
            kinds.iter().map(|(keys, start)| (*keys, start.clone().into_bytes(), after(start))).collect();
        let (mut found, mut clock): (BTreeMap<String, Look>, _) = (BTreeMap::new(), None);
        while !rest.is_empty() {
            let page = |(keys, from, to): &(Keys, Vec<u8>, Vec<u8>)| {
                (*keys, operations::get_between(from, to, Part::First(PAGE)))
            };
            let outcome = self.transact(&[], &rest.iter().map(page).collect::<Vec<_>>(), &[]).map_err(only_read)?;
            clock = Some(outcome.clock);
            let mut next = Vec::new();
            for ((keys, _, to), range) in rest.into_iter().zip(outcome.ranges) {
                next.extend(after_page(&range.entries).map(|from| (keys, from, to)));
                let start = &kinds[usize::from(keys == Keys::States)].1;
                for entry in range.entries {
                    // A key that is not text is not a lock's.
                    let name = std::str::from_utf8(&entry.key).ok().and_then(|key| key.strip_prefix(&start[..]));
                    let Some(look) = name.map(|name| found.entry(name.to_owned()).or_default()) else { continue };
                    match keys {
                        Keys::States => look.state = State::parse(&entry.value),
                        _ => look.lock = Some(Held::of(entry)),
                    }
                }
            }
            rest = next;
        }
        clock.map(|clock| (found, clock)).ok_or_else(|| BackendError::permanent("no lock was read"))
    }
}

/// Returns where the next page begins; `None` after the last one.
fn after_page(entries: &[Entry]) -> Option<Vec<u8>> {
    let last = entries.last().filter(|_| entries.len() as u64 == PAGE)?;
    Some([&last.key[..], b"\0"].concat())
}

/// Returns the state of a free lock.
fn free() -> LockState {
    LockState { owner: String::new(), since: None, until: None, left: Duration::ZERO }
}

impl Admin for Etcd {
    fn drops_free_locks(&self) -> bool {
        true
    }

    fn runs(&mut self, wanted: &Wanted) -> Result<Runs, BackendError> {
        // A limit of zero would be none, and an answer with very many would be too long.
        let newest = |limit: Option<u32>| {
            let limit = limit.filter(|_| wanted.since.is_none()).map(|limit| u64::from(limit.max(1)));
            limit.filter(|limit| *limit <= PAGE)
        };
        // The last run of each lock is found by its name, without reading all of them.
        let known = match wanted.names.is_empty() && wanted.of_each.is_some() && wanted.since.is_none() {
            true => self.look_at_all()?.0,
            false => BTreeMap::new(),
        };
        let names: BTreeSet<&str> = wanted.names.iter().chain(known.keys()).map(String::as_str).collect();
        let start = self.space.runs();
        let (ranges, part) = match names.is_empty() {
            true => (vec![(start.clone().into_bytes(), after(&start))], newest(wanted.limit).map(Part::Newest)),
            false => (
                names.iter().map(|name| self.space.runs_of(name)).collect(),
                // Not the last by their keys: another taking may come between the grant that gives a key its number and the
                // transaction that writes it.
                newest([wanted.limit, wanted.of_each].into_iter().flatten().min()).map(Part::Newest),
            ),
        };
        let part = part.filter(|_| !names.is_empty() || wanted.of_each.is_none());
        let (mut runs, mut now) = (RunList::default(), Timestamp::default());
        let mut take = |entries: &[Entry], space| {
            let found = entries.iter().filter_map(|entry| layout::run(space, entry));
            found.filter(|run| wanted.includes(run)).for_each(|run| runs.push(run));
        };
        match part {
            Some(part) => {
                for ranges in ranges.chunks(AT_ONCE) {
                    let read: Vec<_> =
                        ranges.iter().map(|(from, to)| operations::get_between(from, to, part)).collect();
                    let outcome = self.client.transact(&[], &read, &[]).map_err(only_read)?;
                    outcome.ranges.iter().for_each(|range| take(&range.entries, &self.space));
                    now = outcome.clock.now;
                }
            }
            None => {
                for (mut from, to) in ranges {
                    // The runs of one lock may be very many too.
                    while from < to {
                        let read = [operations::get_between(&from, &to, Part::First(PAGE))];
                        let outcome = self.client.transact(&[], &read, &[]).map_err(only_read)?;
                        let entries = outcome.ranges.into_iter().next().unwrap_or_default().entries;
                        take(&entries, &self.space);
                        now = outcome.clock.now;
                        from = after_page(&entries).unwrap_or_else(|| to.clone());
                    }
                }
            }
        }
        // Tokens are revisions of the whole store, so they order the runs of all locks.
        Ok(Runs { now, runs: wanted.select(runs, Order::Token) })
    }

    fn change(&mut self, change: &Change) -> Result<Kept, BackendError> {
        let name = change.name.as_str();
        self.known = None;
        for _ in 0..TRIES {
            let (look, clock) = self.look(name)?;
            let Some(lock) = look.lock.clone() else { return Ok(Kept::Lost) };
            if lock.owner != change.from {
                return Ok(if lock.owner == change.to { Kept::Kept } else { Kept::Lost });
            }
            let run = look.exact().and_then(|state| state.run);
            // A value that is not in our form stays as it is unless the owner changes.
            let (since, value) = match lock.since {
                since if change.to == lock.owner => (since.unwrap_or(clock.now), lock.value.clone()),
                _ => (clock.now, layout::value(clock.now, &change.to)),
            };
            let (left, operation) = match change.left.is_zero() {
                true => (Duration::ZERO, operations::delete(&self.space.lock(name))),
                false => {
                    let lease = self.grant(change.left)?.id;
                    (change.left, operations::put(&self.space.lock(name), &value, lease))
                }
            };
            let state = State { owner: change.to.clone(), since, until: clock.now + left, run };
            let state = operations::put(&self.space.state(name), &state.to_json(), 0);
            let operations = [(Keys::Locks, operation), (Keys::States, state)];
            let written = match self.write(name, &look, &operations) {
                // A server without space deletes.
                Err(error) if errors::is_of_space(&error) && left.is_zero() => {
                    self.write(name, &look, &operations[..1])?
                }
                answer => answer?,
            };
            if written.is_ok() {
                if lock.lease != 0 {
                    let _ = self.client.revoke(lock.lease);
                }
                return Ok(Kept::Kept);
            }
        }
        Err(self.forestalled())
    }

    /// Deletes the keys of a lock in one transaction, if none was written since they were read. Nothing remembers the owner of a
    /// lock whose key is gone. All rights are needed, or some of the keys would stay.
    fn forget(&mut self, removal: &Removal) -> Result<Forgotten, BackendError> {
        let name = removal.name.as_str();
        let (lock, state, (from, to)) = (self.space.lock(name), self.space.state(name), self.space.runs_of(name));
        let all = [operations::get_between(&from, &to, Part::FirstKeys(1))];
        let delete = [operations::delete(&lock), operations::delete(&state), operations::delete_between(&from, &to)];
        self.known = None;
        for _ in 0..TRIES {
            let read = self
                .client
                .transact(&[], &[operations::get(&lock), operations::get(&state)], &[])
                .map_err(only_read)?;
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
        Err(self.forestalled())
    }

    fn make(&mut self) -> Result<Vec<String>, BackendError> {
        self.look("")?;
        Ok(vec!["etcd needs nothing to be created".to_owned()])
    }

    fn schema(&self) -> String {
        SCHEMA
            .replace("{locks}", &self.space.locks())
            .replace("{states}", &self.space.states())
            .replace("{runs}", &self.space.runs())
            .replace("{user}", self.client.user().unwrap_or("jobs"))
    }

    fn check(&mut self, tell: Tell<'_>) -> Reached {
        self.probe(tell)
    }
}
