//! The records of runs: each has a key of its own, which belongs to no lease.

use super::granted_leases::RecordedRun;
use super::layout::{self, StoredTimes};
use super::operations::{self, Keys, Operation, PAGE_ENTRIES, RangePart};
use super::snapshot::Snapshot;
use super::wire::TransactionResult;
use super::{Etcd, without_ambiguity};
use crate::lock::BackendError;
use crate::lock::{Claim, Closing};
use crate::system::Timestamp;

impl Etcd {
    /// Returns the key of the record that an earlier acquisition by this owner left, whose answer was lost.
    pub(crate) fn former_run(&self, claim: &Claim, snapshot: &Snapshot) -> Option<Vec<u8>> {
        let owner = claim.owner.as_str();
        let stored = snapshot.state.as_ref().filter(|state| state.owner == owner).and_then(|state| state.run);
        let revision = stored.or(self.run_of(claim).map(|run| run.revision))?;
        Some(self.space.run(claim.name.as_str(), revision, owner))
    }

    /// Returns the run of a claim, if this process recorded it.
    pub(crate) fn run_of(&self, claim: &Claim) -> Option<&RecordedRun> {
        self.runs.iter().find(|run| run.owner == claim.owner.as_str() && run.name == claim.name.as_str())
    }

    /// Returns the operations that close the record of a run, and now and then count the records.
    pub(crate) fn closing_operations(
        &mut self,
        claim: &Claim,
        snapshot: &Snapshot,
        now: Timestamp,
        closing: Closing,
    ) -> Result<Vec<Operation>, BackendError> {
        if self.permitted_keys < Keys::Runs {
            return Ok(Vec::new());
        }
        let (name, owner) = (claim.name.as_str(), claim.owner.as_str());
        let recorded = self.run_of(claim).cloned();
        let stored = snapshot.state.as_ref().filter(|state| state.owner == owner);
        let (from, to) = self.space.runs_of(name);
        if claim.keep == 0 && matches!(closing, Closing::Ended { .. }) {
            return Ok(vec![(Keys::Runs, operations::delete_between(&from, &to))]);
        }
        let (key, since) = match (&recorded, stored) {
            (Some(run), _) => (self.space.run(name, run.revision, owner), run.since),
            (None, Some(StoredTimes { run: Some(revision), since, .. })) => {
                (self.space.run(name, *revision, owner), *since)
            }
            // Another acquisition has replaced the stored times of this one.
            (None, None) if claim.keep > 0 => match self.find_run(name, owner)? {
                Some((key, since)) => (key, since),
                None => return Ok(Vec::new()),
            },
            _ => return Ok(Vec::new()),
        };
        let Some(record) = layout::ended_record(layout::begun_record(since), now, closing) else {
            return Ok(vec![(Keys::Runs, operations::delete(&key))]);
        };
        let mut operations =
            vec![operations::if_version(&key, 1, &[operations::put(&key, record.to_string().as_bytes(), 0)])];
        let surplus = recorded.filter(|run| run.all == u64::from(claim.keep) + 1).and_then(|run| run.oldest);
        operations.extend(surplus.filter(|oldest| *oldest != key).map(|oldest| operations::delete(&oldest)));
        if claim.prunes() {
            operations.push(operations::get_between(&from, &to, RangePart::FirstKeys(1)));
        }
        Ok(operations.into_iter().map(|operation| (Keys::Runs, operation)).collect())
    }

    /// Finds the record of an owner by its name, among the newest ones.
    fn find_run(&mut self, name: &str, owner: &str) -> Result<Option<(Vec<u8>, Timestamp)>, BackendError> {
        let (from, to) = self.space.runs_of(name);
        let read = [(Keys::Runs, operations::get_between(&from, &to, RangePart::Newest(PAGE_ENTRIES)))];
        let outcome = self.transact(&[], &read, &[]).map_err(without_ambiguity)?;
        let entries = outcome.ranges.into_iter().flat_map(|range| range.entries);
        let mut runs = entries.filter_map(|entry| Some((layout::decode_run(&self.space, &entry)?, entry.key)));
        Ok(runs.find(|(run, _)| run.owner == owner).and_then(|(run, key)| Some((key, run.started_at?))))
    }

    /// Removes the oldest records, if they were counted and there are more than the history keeps.
    pub(crate) fn prune(&mut self, claim: &Claim, outcome: &TransactionResult) -> Result<(), BackendError> {
        let surplus = outcome.ranges.last().map_or(0, |range| range.count).saturating_sub(u64::from(claim.keep));
        // The rest goes with later releases.
        let surplus = surplus.min(PAGE_ENTRIES);
        if surplus == 0 {
            return Ok(());
        }
        let (from, to) = self.space.runs_of(claim.name.as_str());
        let read = [(Keys::Runs, operations::get_between(&from, &to, RangePart::FirstKeys(surplus + 1)))];
        let found = self.transact(&[], &read, &[])?.ranges.into_iter().next().unwrap_or_default();
        // A record that is kept is the end of those that go.
        let end = usize::try_from(surplus).ok().and_then(|place| found.entries.get(place));
        let end = end.map_or(to, |entry| entry.key.clone());
        self.transact(&[], &[(Keys::Runs, operations::delete_between(&from, &end))], &[]).map(drop)
    }
}
