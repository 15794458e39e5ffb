//! What was seen of each rule, and how it is said.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::prove::rules::{Case, Rule, Verdict};
use crate::system::Moment;

/// What was seen of each rule.
#[derive(Debug, Clone, Default)]
pub(crate) struct Judgement {
    pub(crate) verdicts: BTreeMap<Rule, Verdict>,
    /// Locks that were held by a client with their time not used up, and that the store gave away or knew nothing of.
    pub(crate) forgotten: u64,
}

impl Judgement {
    /// Adds what was seen in another round.
    pub(crate) fn merge(&mut self, other: Self) {
        for (rule, verdict) in other.verdicts {
            self.verdicts.entry(rule).or_default().merge(verdict);
        }
        self.forgotten += other.forgotten;
    }

    pub(super) fn checked(&mut self, rule: Rule, times: u64) {
        self.verdicts.entry(rule).or_default().checked += times;
    }

    pub(super) fn broken(&mut self, rule: Rule, by: Duration, text: String) {
        let verdict = Verdict { broken: 1, worst: Some(Case { by, broken: true, text }), ..Verdict::default() };
        self.verdicts.entry(rule).or_default().merge(verdict);
    }

    pub(super) fn doubtful(&mut self, rule: Rule, by: Duration, text: String) {
        let verdict = Verdict { doubtful: 1, worst: Some(Case { by, broken: false, text }), ..Verdict::default() };
        self.verdicts.entry(rule).or_default().merge(verdict);
    }

    pub(super) fn measured(&mut self, rule: Rule, value: Duration) {
        let verdict = self.verdicts.entry(rule).or_default();
        verdict.most = verdict.most.max(Some(value));
    }
}

/// Formats a moment as the time since the start.
pub(super) fn at(moment: Moment, start: Moment) -> String {
    seconds(moment.since(start))
}

/// Formats a time in seconds.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// Returns whether a lock's holder, as stored, is this owner, running or ended.
pub(super) fn is_of(stored: &str, owner: &str) -> bool {
    stored.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest == crate::lock::Owner::ENDED_SUFFIX)
}
