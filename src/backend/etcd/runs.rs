//! The records of runs: each has a key of its own, which belongs to no lease.

use super::layout::{self, State};
use super::look::Look;
use super::operations::{self, Part};
use super::rights::{Keys, Operation};
use super::wire::Outcome;
use super::{Etcd, only_read};
use crate::backend::BackendError;
use crate::lock::{Claim, Closing};
use crate::system::{Moment, Timestamp};

/// A run of this process, which has a record.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) owner: String,
    /// The revision in the key of its record.
    pub(super) revision: u64,
    pub(super) since: Timestamp,
    /// When it was taken at the latest, by this host's clock.
    pub(super) taken: Moment,
    /// The number of runs that are recorded, and the key of the oldest, if the release removes the surplus.
    pub(super) all: u64,
    pub(super) oldest: Option<Vec<u8>>,
}

impl Etcd {
    /// Returns the key of the record that an earlier taking by this owner left, whose answer was lost.
    pub(super) fn former_run(&self, claim: &Claim, look: &Look) -> Option<Vec<u8>> {
        let owner = claim.owner.as_str();
        let stored = look.state.as_ref().filter(|state| state.owner == owner).and_then(|state| state.run);
        let revision = stored.or(self.run_of(claim).map(|run| run.revision))?;
        Some(self.space.run(claim.name.as_str(), revision, owner))
    }

    /// Returns what this process knows of the run of a claim.
    pub(super) fn run_of(&self, claim: &Claim) -> Option<&Run> {
        self.runs.iter().find(|run| run.owner == claim.owner.as_str() && run.name == claim.name.as_str())
    }

    /// Returns the operations that close the record of a run, and now and then count the records.
    pub(super) fn closing(
        &mut self,
        claim: &Claim,
        look: &Look,
        now: Timestamp,
        closing: Closing,
    ) -> Result<Vec<Operation>, BackendError> {
        if self.permitted < Keys::Runs {
            return Ok(Vec::new());
        }
        let (name, owner) = (claim.name.as_str(), claim.owner.as_str());
        let ours = self.run_of(claim).cloned();
        let stored = look.state.as_ref().filter(|state| state.owner == owner);
        let (from, to) = self.space.runs_of(name);
        if claim.keep == 0 && matches!(closing, Closing::Ended { .. }) {
            return Ok(vec![(Keys::Runs, operations::delete_between(&from, &to))]);
        }
        let (key, since) = match (&ours, stored) {
            (Some(run), _) => (self.space.run(name, run.revision, owner), run.since),
            (None, Some(State { run: Some(revision), since, .. })) => (self.space.run(name, *revision, owner), *since),
            // Another taking has replaced what is stored of this one.
            (None, None) if claim.keep > 0 => match self.find_run(name, owner)? {
                Some((key, since)) => (key, since),
                None => return Ok(Vec::new()),
            },
            _ => return Ok(Vec::new()),
        };
        let Some(record) = layout::ended(layout::begun(since), now, closing) else {
            return Ok(vec![(Keys::Runs, operations::delete(&key))]);
        };
        let mut operations =
            vec![operations::if_version(&key, 1, &[operations::put(&key, record.to_string().as_bytes(), 0)])];
        let one = ours.filter(|run| run.all == u64::from(claim.keep) + 1).and_then(|run| run.oldest);
        operations.extend(one.filter(|oldest| *oldest != key).map(|oldest| operations::delete(&oldest)));
        if claim.prunes() {
            operations.push(operations::get_between(&from, &to, Part::FirstKeys(1)));
        }
        Ok(operations.into_iter().map(|operation| (Keys::Runs, operation)).collect())
    }

    /// Finds the record of an owner of whom nothing else is known.
    fn find_run(&mut self, name: &str, owner: &str) -> Result<Option<(Vec<u8>, Timestamp)>, BackendError> {
        let (from, to) = self.space.runs_of(name);
        let read = [(Keys::Runs, operations::get_between(&from, &to, Part::All))];
        let outcome = self.transact(&[], &read, &[]).map_err(only_read)?;
        let entries = outcome.ranges.into_iter().flat_map(|range| range.entries);
        let mut ours = entries.filter_map(|entry| Some((layout::run(&self.space, &entry)?, entry.key)));
        Ok(ours.find(|(run, _)| run.owner == owner).and_then(|(run, key)| Some((key, run.started_at?))))
    }

    /// Removes the oldest records, if they were counted and there are more than the history keeps.
    pub(super) fn prune(&mut self, claim: &Claim, outcome: &Outcome) -> Result<(), BackendError> {
        let surplus = outcome.ranges.last().map_or(0, |range| range.count).saturating_sub(u64::from(claim.keep));
        if surplus == 0 {
            return Ok(());
        }
        let (from, to) = self.space.runs_of(claim.name.as_str());
        let read = [(Keys::Runs, operations::get_between(&from, &to, Part::FirstKeys(surplus + 1)))];
        let found = self.transact(&[], &read, &[])?.ranges.into_iter().next().unwrap_or_default();
        // A record that is kept is the end of those that go.
        let end = usize::try_from(surplus).ok().and_then(|place| found.entries.get(place));
        let end = end.map_or(to, |entry| entry.key.clone());
        self.transact(&[], &[(Keys::Runs, operations::delete_between(&from, &end))], &[]).map(drop)
    }
}
