//! `shedlock status --prometheus`: the locks as metrics.

use std::collections::HashMap;

use super::super::operator::Operator;
use super::super::output::print_all;
use super::listing::Listing;
use crate::exit::Exit;
use crate::lock::{RunList, RunQuery};
use crate::report::{LockMetrics, LockView, ShownRun, last_success, prometheus_text, shown_runs};
use crate::system::Timestamp;

/// Prints metrics of the locks.
pub(super) fn print_metrics(
    listing: &Listing,
    views: &[LockView<'_>],
    operator: &mut Operator,
) -> anyhow::Result<Exit> {
    listing.must_be_whole()?;
    let now = listing.locks.now;
    let known = || views.iter().filter(|lock| lock.is_known());
    let success = |lock: &LockView<'_>| last_success(lock.last_run().into_iter(), now).end;
    // Where the last run did not succeed, or never came back, an earlier one may have.
    let unclear = known().filter(|lock| lock.last_run().is_some() && success(lock).is_none());
    let unclear = RunQuery { names: unclear.map(|lock| lock.name.to_owned()).collect(), ..RunQuery::default() };
    let runs = match unclear.names.is_empty() {
        true => RunList::default(),
        false => operator.ask(|backend| backend.runs(&unclear))?.runs,
    };
    let mut earlier: HashMap<String, (Option<ShownRun>, Option<Timestamp>)> = HashMap::new();
    for run in shown_runs(&runs, &listing.locks).iter() {
        let (ended, success) = earlier.entry(run.record.name.clone()).or_default();
        *success = last_success(std::iter::once(run.clone()), now).end.max(*success);
        let is_newer = ended.as_ref().is_none_or(|other| other.record.token < run.record.token);
        if is_newer && run.record.ended_at.is_some() {
            *ended = Some(run);
        }
    }
    let locks: Vec<_> = known()
        .map(|lock| match earlier.remove(lock.name) {
            Some((ended, success)) => LockMetrics { lock, ended, success },
            None => LockMetrics { lock, ended: lock.last_run(), success: success(lock) },
        })
        .collect();
    print_all(prometheus_text(&locks, now))
}
