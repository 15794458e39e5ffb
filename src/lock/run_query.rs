//! A query for recorded runs, and its answer.

use super::RunList;
#[cfg(any(test, feature = "redis", feature = "etcd", feature = "record"))]
use super::RunRecord;
use crate::system::Timestamp;

/// Runs of the history, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runs {
    /// The backend's clock.
    pub(crate) now: Timestamp,
    pub(crate) runs: RunList,
}

/// A query for runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RunQuery {
    /// The names of the locks; empty for all.
    pub(crate) names: Vec<String>,
    /// The most runs, the newest ones.
    pub(crate) limit: Option<u32>,
    /// The most runs of each name, those with the largest tokens: a clock that was ahead makes an old run look new.
    pub(crate) newest_per_lock: Option<u32>,
    /// Only runs that had not ended before this time.
    pub(crate) since: Option<Timestamp>,
}

#[cfg(any(test, feature = "redis", feature = "etcd", feature = "record"))]
impl RunQuery {
    /// Returns whether the run had not ended before the time asked for.
    pub(crate) fn includes(&self, run: &RunRecord) -> bool {
        self.since.is_none_or(|since| run.ended_at.is_none_or(|end| end >= since))
    }

    /// Returns the wanted number of the runs, newest first: those that began last, or of two that began at once the one with the
    /// larger token; or only by their tokens, if these order the runs of all locks.
    pub(crate) fn select(&self, mut runs: RunList, order: Order) -> RunList {
        if let Some(most) = self.newest_per_lock {
            runs.sort(false);
            runs.truncate_each_name(most);
        }
        runs.sort(order == Order::Beginning);
        runs.truncate(self.limit.map_or(usize::MAX, |limit| limit as usize));
        runs
    }
}

/// The order of runs.
#[cfg(any(test, feature = "redis", feature = "etcd", feature = "record"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Beginning,
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "only etcd has it"))]
    Token,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_runs_of_a_name_have_its_largest_tokens_whatever_the_clock_said() {
        let run = |token: u64, name: &str, started: u64| RunRecord {
            token,
            name: name.to_owned(),
            owner: String::new(),
            host: String::new(),
            started_at: Some(Timestamp(started)),
            ended_at: None,
            exit_code: None,
            outcome: None,
        };
        // Two runs of a clock that was ahead.
        let runs = [run(1, "a", 9_000), run(2, "a", 9_001), run(3, "a", 50), run(4, "b", 60), run(5, "a", 70)];
        let tokens = |wanted: &RunQuery, order| -> Vec<u64> {
            let found = wanted.select(runs.iter().cloned().collect(), order);
            found.iter().map(|run| run.token).collect()
        };
        let of_each = |most| RunQuery { newest_per_lock: Some(most), ..RunQuery::default() };
        assert_eq!(tokens(&of_each(1), Order::Beginning), [5, 4]);
        assert_eq!(tokens(&of_each(3), Order::Beginning), [2, 5, 4, 3]);
        #[cfg(feature = "etcd")]
        assert_eq!(tokens(&of_each(3), Order::Token), [5, 4, 3, 2]);
        assert_eq!(tokens(&RunQuery { limit: Some(2), ..RunQuery::default() }, Order::Beginning), [2, 1]);
    }
}
