//! Judges the history of a round by the rules of a lock. Pure: it sees calls and answers with their times, and nothing else.
//!
//! No rule depends on this host being quick: what counts is what must have been so whenever each request took effect between its
//! sending and its answer.

mod clock;
mod evidence;
mod judgement;
mod segment;
mod tenure;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use self::evidence::Evidence;
use self::judgement::{at, seconds};
use self::segment::Segment;
use self::tenure::Tenure;
use super::history::{Answer, Call, Request};
use super::rules::Rule;
use crate::lock::StillHeld;
use crate::system::Moment;

pub(crate) use clock::Clock;
pub(crate) use judgement::Judgement;

/// Judges the calls of a round; texts count the time from `start`.
pub(crate) fn judge(calls: &[Call], start: Moment) -> Judgement {
    let mut judgement = Judgement::default();
    let mut by_lock: BTreeMap<usize, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        by_lock.entry(call.lock).or_default().push(call);
    }
    let grain = clock::grain(calls);
    for calls in by_lock.values_mut() {
        calls.sort_by_key(|call| call.sent);
        judge_lock(calls, grain, start, &mut judgement);
    }
    judgement
}

fn judge_lock(calls: &[&Call], grain: Duration, start: Moment, judgement: &mut Judgement) {
    let mut by_owner: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        by_owner.entry(&call.owner).or_default().push(call);
    }
    let tenures: Vec<Tenure<'_>> =
        by_owner.iter().map(|(owner, calls)| Tenure::new(owner, calls.iter().copied())).collect();
    let history = LockHistory { tenures: &tenures, calls, start };
    history.exclusion(judgement);
    history.lost(judgement);
    history.again(judgement);
    history.late(judgement);
    history.tokens(judgement);
    Evidence::new(&tenures, grain, start).judge(calls, judgement);
}

/// Holds what happened to one lock in one round.
struct LockHistory<'a> {
    tenures: &'a [Tenure<'a>],
    calls: &'a [&'a Call],
    start: Moment,
}

impl LockHistory<'_> {
    /// Checks that two owners never hold the lock at once.
    fn exclusion(&self, judgement: &mut Judgement) {
        let all = self.tenures.iter().flat_map(|tenure| tenure.segments.iter().map(move |segment| (tenure, segment)));
        let mut all: Vec<(&Tenure<'_>, &Segment)> = all.collect();
        all.sort_by_key(|(_, segment)| segment.from);
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        judgement.checked(Rule::Exclusion, count(all.len()));
        judgement.checked(Rule::Hold, count(all.iter().filter(|(_, segment)| segment.is_kept).count()));
        let mut holder: Option<(&Tenure<'_>, &Segment)> = None;
        for (tenure, segment) in all {
            if let Some((first, held)) = holder
                && segment.from < held.until
                && first.owner != tenure.owner
            {
                let by = held.until.min(segment.until).since(segment.from);
                let text = format!(
                    "{} held it from {} to {} and {} from {} to {}",
                    first.owner,
                    self.at(held.from),
                    self.at(held.until),
                    tenure.owner,
                    self.at(segment.from),
                    self.at(segment.until)
                );
                judgement.broken(Rule::Exclusion, by, text);
                // Of two that asked at the same time, the store has granted both; nothing ended too soon.
                if segment.asked >= held.from {
                    judgement.forgotten += u64::from(!held.is_kept);
                    let (rule, early) = (self.cause(first, held, segment.from), held.until.since(segment.from));
                    let text = format!(
                        "{} had it until {}, and {} got it {} earlier",
                        first.owner,
                        self.at(held.until),
                        tenure.owner,
                        seconds(early)
                    );
                    judgement.broken(rule, early, text);
                }
            }
            if holder.is_none_or(|(_, held)| held.until < segment.until) {
                holder = Some((tenure, segment));
            }
        }
    }

    /// Checks that the lock is not lost before its time.
    fn lost(&self, judgement: &mut Judgement) {
        for tenure in self.tenures {
            judgement.checked(Rule::Renewal, tenure.renewed);
            for (call, left, rule) in &tenure.lost_early {
                judgement.forgotten += 1;
                let cause = tenure.segments.iter().rfind(|segment| segment.from <= call.sent);
                let rule = cause.map_or(*rule, |segment| match self.cause(tenure, segment, call.answered) {
                    Rule::Late => Rule::Late,
                    _ => *rule,
                });
                let text = format!(
                    "{} was told at {} that its lock was lost, {} before its time was up",
                    tenure.owner,
                    self.at(call.answered),
                    seconds(*left)
                );
                judgement.broken(rule, *left, text);
            }
        }
    }

    /// Returns the rule that was broken when this owner lost its lock at this moment.
    fn cause(&self, tenure: &Tenure<'_>, held: &Segment, moment: Moment) -> Rule {
        let harms = |call: &&Call| {
            matches!(call.request, Request::Renew { .. } | Request::Release { .. } | Request::Change { .. })
                && call.sent <= moment
                && call.answered >= held.from
        };
        let late = |tenure: &Tenure<'_>| tenure.late.iter().any(harms);
        match held.rule_at(moment) {
            Rule::Expiry if self.tenures.iter().any(|other| other.owner != tenure.owner && late(other)) => Rule::Late,
            rule => rule,
        }
    }

    /// Checks that an owner that acquires its lock again has it.
    fn again(&self, judgement: &mut Judgement) {
        for tenure in self.tenures {
            judgement.checked(Rule::Again, tenure.repeated);
            for call in &tenure.refused {
                let holder = match &call.answer {
                    Answer::Refused(state) => state.owner.as_str(),
                    _ => "",
                };
                let text = format!(
                    "{} was refused its own lock at {}; the holder was {holder}",
                    tenure.owner,
                    self.at(call.sent)
                );
                judgement.broken(Rule::Again, Duration::ZERO, text);
            }
        }
    }

    /// Checks that what a late owner asks for is answered *lost*: only while another holds the lock for certain: a store may free a lock later
    /// than its time.
    fn late(&self, judgement: &mut Judgement) {
        for tenure in self.tenures {
            for call in &tenure.late {
                let others = self.tenures.iter().filter(|other| other.owner != tenure.owner);
                let covers = |segment: &&Segment| segment.from < call.sent && call.answered < segment.until;
                let Some(holder) = others.into_iter().find(|other| other.segments.iter().any(|s| covers(&s))) else {
                    continue;
                };
                judgement.checked(Rule::Late, 1);
                if matches!(call.answer, Answer::StillHeld(StillHeld::Held)) {
                    let text = format!(
                        "{} was told at {} that it still held the lock, which {} held",
                        tenure.owner,
                        self.at(call.answered),
                        holder.owner
                    );
                    judgement.broken(Rule::Late, Duration::ZERO, text);
                }
            }
        }
    }

    /// Checks that a token is larger than each that was known before its acquisition was sent.
    fn tokens(&self, judgement: &mut Judgement) {
        let mut by_sending: Vec<(&Call, u64)> = Vec::new();
        for call in self.calls {
            if let Answer::Granted { token: Some(token), .. } = call.answer {
                by_sending.push((call, token));
            }
        }
        let mut by_answer = by_sending.clone();
        by_answer.sort_by_key(|(call, _)| call.answered);
        let (mut next, mut largest) = (0, None::<(&Call, u64)>);
        for (call, token) in by_sending {
            while let Some((earlier, known)) = by_answer.get(next).filter(|(earlier, _)| earlier.answered < call.sent) {
                if largest.is_none_or(|(_, most)| most < *known) {
                    largest = Some((earlier, *known));
                }
                next += 1;
            }
            let Some((before, most)) = largest else { continue };
            judgement.checked(Rule::Token, 1);
            if token <= most {
                let text = format!(
                    "{} got the token {token} at {}, after {} had got {most} at {}",
                    call.owner,
                    self.at(call.answered),
                    before.owner,
                    self.at(before.answered)
                );
                judgement.broken(Rule::Token, Duration::from_millis(most - token), text);
            }
        }
    }

    fn at(&self, moment: Moment) -> String {
        at(moment, self.start)
    }
}
