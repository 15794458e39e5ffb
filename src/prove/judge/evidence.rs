//! Compares what refusals, lists and runs say about a lock with what was answered before.

use std::collections::BTreeMap;
use std::time::Duration;

use super::judgement::{Judgement, at, is_of, seconds};
use super::tenure::{End, Tenure};
use crate::lock::{Owner, RunRecord};
use crate::prove::history::{Answer, Call};
use crate::prove::rules::Rule;
use crate::system::Moment;

/// How late a lock may free before that is remarked upon, in addition to the grain of the store's clock.
const UNWISE_AFTER: Duration = Duration::from_secs(2);
/// How late it may free at all, in addition to two leases: after a change of leader a lease may begin anew.
const BROKEN_AFTER: Duration = Duration::from_secs(5);
/// A lock with more runs than this may have lost the oldest of its history.
const MOST_RUNS: usize = 60;

/// Knows the owners of a lock, and when each can have held it.
pub(super) struct Evidence<'a> {
    tenures: BTreeMap<&'a str, &'a Tenure<'a>>,
    all: &'a [Tenure<'a>],
    grain: Duration,
    start: Moment,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(tenures: &'a [Tenure<'a>], grain: Duration, start: Moment) -> Self {
        let by_owner = tenures.iter().map(|tenure| (tenure.owner, tenure)).collect();
        Self { tenures: by_owner, all: tenures, grain, start }
    }

    pub(super) fn judge(&self, calls: &[&Call], judgement: &mut Judgement) {
        let first = calls.first().map_or(self.start, |call| call.sent);
        for tenure in self.all {
            let seen_later = |end: Moment| calls.iter().any(|call| call.sent > end && call.owner != tenure.owner);
            match tenure.end {
                End::Undone(end) if seen_later(end) => judgement.checked(Rule::Cut, 1),
                End::Time(end) if tenure.from.is_some() && end > first && seen_later(end) => {
                    judgement.checked(Rule::Expiry, 1);
                }
                _ => {}
            }
        }
        let mut runs_seen = 0;
        for call in calls {
            match &call.answer {
                Answer::Refused(state) => self.refused(call, &state.owner, judgement),
                Answer::Listed { state, .. } => {
                    judgement.checked(Rule::Record, 1);
                    let holder = state.as_ref().filter(|state| !state.left.is_zero()).map(|state| state.owner.as_str());
                    self.listed(call, holder, judgement);
                }
                Answer::Granted { .. } => runs_seen += 1,
                Answer::Runs(runs) if runs_seen < MOST_RUNS => self.runs(call, runs, judgement),
                _ => {}
            }
        }
    }

    /// Checks that a refusal names somebody who holds the lock.
    fn refused(&self, call: &Call, holder: &str, judgement: &mut Judgement) {
        judgement.checked(Rule::Refusal, 1);
        let Some(tenure) = self.named(holder) else {
            let text = format!("{} was refused at {} by {holder}, whom nobody knows", call.owner, self.at(call.sent));
            judgement.broken(Rule::Refusal, Duration::ZERO, text);
            return;
        };
        if tenure.from.is_none_or(|from| from > call.answered) {
            let text = format!(
                "{} was refused at {} by {holder}, which did not have the lock yet",
                call.owner,
                self.at(call.sent)
            );
            judgement.broken(Rule::Refusal, Duration::ZERO, text);
            return;
        }
        self.held(call, tenure, judgement);
    }

    /// Checks that a list says who holds the lock.
    fn listed(&self, call: &Call, holder: Option<&str>, judgement: &mut Judgement) {
        let covers = |tenure: &&Tenure<'_>| {
            tenure.segments.iter().any(|segment| segment.from < call.sent && call.answered < segment.until)
        };
        let certain = self.all.iter().find(covers);
        match (certain, holder) {
            (Some(tenure), None) => {
                let text = format!("the list of {} shows a free lock, which {} held", self.at(call.sent), tenure.owner);
                judgement.broken(Rule::Record, Duration::ZERO, text);
            }
            (Some(tenure), Some(holder)) if !is_of(holder, tenure.owner) => {
                let text =
                    format!("the list of {} names {holder}; the holder was {}", self.at(call.sent), tenure.owner);
                judgement.broken(Rule::Record, Duration::ZERO, text);
            }
            (_, Some(holder)) => match self.named(holder) {
                Some(tenure) => self.held(call, tenure, judgement),
                None => {
                    let text = format!("the list of {} names {holder}, whom nobody knows", self.at(call.sent));
                    judgement.broken(Rule::Record, Duration::ZERO, text);
                }
            },
            (None, None) => {}
        }
    }

    /// Checks that an owner that is named as the holder can be that.
    fn held(&self, call: &Call, tenure: &Tenure<'_>, judgement: &mut Judgement) {
        let Some(end) = tenure.latest_end().filter(|end| *end < call.sent) else { return };
        let (late, owner) = (call.sent.since(end), tenure.owner);
        let seen = self.at(call.sent);
        match tenure.end {
            End::Undone(_) => {
                let text =
                    format!("at {seen} {owner} held the lock, {} after its acquisition was undone", seconds(late));
                judgement.broken(Rule::Cut, late, text);
            }
            End::Released(_) if tenure.kept_until.is_none() => {
                let rule = if tenure.is_unclear { Rule::Cut } else { Rule::Hold };
                let text = format!("at {seen} {owner} held the lock, {} after it was released", seconds(late));
                judgement.broken(rule, late, text);
            }
            end => {
                let rule = if matches!(end, End::Released(_)) { Rule::Hold } else { Rule::Expiry };
                judgement.measured(rule, late);
                let text = format!("at {seen} the lock of {owner} was still held, {} after its time", seconds(late));
                if late > BROKEN_AFTER + tenure.lease * 2 + self.grain {
                    judgement.broken(rule, late, text);
                } else if late > UNWISE_AFTER + self.grain {
                    judgement.doubtful(rule, late, text);
                }
            }
        }
    }

    /// Checks that the history has a record of each run.
    fn runs(&self, call: &Call, runs: &[RunRecord], judgement: &mut Judgement) {
        let known = self.all.iter().filter(|tenure| {
            !tenure.is_unclear
                && !matches!(tenure.end, End::Undone(_))
                && !tenure.tokens.is_empty()
                && tenure.segments.first().is_some_and(|segment| segment.from < call.sent)
        });
        for tenure in known {
            judgement.checked(Rule::Record, 1);
            let record = runs.iter().find(|run| run.owner == tenure.owner);
            let wrong = match record {
                None => Some("has no record of".to_owned()),
                Some(run) if !tenure.tokens.contains(&run.token) => Some(format!("has the token {} for", run.token)),
                Some(run) if tenure.closed.is_some_and(|closed| closed <= call.sent) => {
                    let is_right = run.outcome.as_deref() == Some("success") && run.ended_at.is_some();
                    (!is_right).then(|| "does not have the end of".to_owned())
                }
                Some(_) => None,
            };
            if let Some(wrong) = wrong {
                let text = format!("the history of {} {wrong} the run of {}", self.at(call.sent), tenure.owner);
                judgement.broken(Rule::Record, Duration::ZERO, text);
            }
        }
    }

    /// Returns the owner that a stored holder names.
    fn named(&self, holder: &str) -> Option<&'a Tenure<'a>> {
        self.tenures.get(holder.strip_suffix(Owner::ENDED_SUFFIX).unwrap_or(holder)).copied()
    }

    fn at(&self, moment: Moment) -> String {
        at(moment, self.start)
    }
}
