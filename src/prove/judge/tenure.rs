//! What one owner had of a lock: when it held it for certain, and when it may have held it. Read from the owner's own calls alone.
//!
//! A request that was answered took effect between the moments before it was sent and after it was answered. One that was not
//! answered may take effect at any time after it was sent.

use std::time::Duration;

use super::segment::{Segment, certain_end};
use crate::lock::StillHeld;
use crate::prove::history::{Answer, Call, Request};
use crate::prove::rules::Rule;
use crate::system::Moment;

/// Until when the owner may have held the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// A request without an answer may still take effect.
    Open,
    /// Its time is up.
    Time(Moment),
    /// It was released.
    Released(Moment),
    /// Its acquisition was undone.
    Undone(Moment),
}

/// An owner and its lock.
#[derive(Debug)]
pub(crate) struct Tenure<'a> {
    pub(crate) owner: &'a str,
    pub(crate) segments: Vec<Segment>,
    /// From when on it may have held the lock; `None` if it never did.
    pub(crate) from: Option<Moment>,
    pub(crate) end: End,
    /// The lock may have been kept until then, after a release with a hold.
    pub(crate) kept_until: Option<Moment>,
    /// The longest lease that was asked for.
    pub(crate) lease: Duration,
    /// Calls that were answered *lost* while the lock was held for certain, with the time that was left.
    pub(crate) lost_early: Vec<(&'a Call, Duration, Rule)>,
    /// An acquisition of its own lock that was refused.
    pub(crate) refused: Vec<&'a Call>,
    pub(crate) repeated: u64,
    pub(crate) renewed: u64,
    /// Renewals, releases and changes after the time was up, for the judge to look at.
    pub(crate) late: Vec<&'a Call>,
    /// The tokens of its grants.
    pub(crate) tokens: Vec<u64>,
    /// When the release was answered, if every call of the owner was.
    pub(crate) closed: Option<Moment>,
    pub(crate) is_unclear: bool,
}

impl<'a> Tenure<'a> {
    /// Reads the calls of one owner, in the order in which they were sent.
    pub(crate) fn new(owner: &'a str, calls: impl IntoIterator<Item = &'a Call>) -> Self {
        let mut tenure = Self {
            owner,
            segments: Vec::new(),
            from: None,
            end: End::Time(Moment::at(Duration::ZERO)),
            kept_until: None,
            lease: Duration::ZERO,
            lost_early: Vec::new(),
            refused: Vec::new(),
            repeated: 0,
            renewed: 0,
            late: Vec::new(),
            tokens: Vec::new(),
            closed: None,
            is_unclear: false,
        };
        for call in calls {
            tenure.add(call);
        }
        tenure.segments.retain(|segment| segment.from < segment.until);
        tenure
    }

    fn add(&mut self, call: &'a Call) {
        match (call.request, &call.answer) {
            (request, Answer::Failed { ambiguous, .. }) if *ambiguous || call.fault.is_some() => {
                self.is_unclear = true;
                self.unanswered(request, call);
            }
            (Request::Acquire { lease }, Answer::Granted { token, .. }) => {
                self.repeated += u64::from(self.is_certain_during(call));
                self.tokens.extend(token);
                self.granted(call, lease);
            }
            (Request::Acquire { .. }, Answer::Refused(_)) if self.is_certain_during(call) => self.refused.push(call),
            // It was granted perhaps, and its time was up before the answer: a backend then asks again.
            (Request::Acquire { lease }, Answer::Refused(_) | Answer::Failed { .. })
                if certain_end(call.sent, lease) < call.answered =>
            {
                self.from = Some(self.from.unwrap_or(call.sent));
                self.lease = self.lease.max(lease);
                self.may_end(call.answered);
            }
            (Request::Renew { lease }, Answer::StillHeld(StillHeld::Held)) => {
                self.renewed += 1;
                self.renewed(call, lease);
            }
            (Request::Release { hold, undo: false }, Answer::StillHeld(StillHeld::Held)) => self.released(call, hold),
            (Request::Release { undo: true, .. }, Answer::StillHeld(_)) => {
                self.stop(call.sent);
                // A release before this one, whose answer is missing, may have kept the lock.
                self.end = match self.kept_until {
                    Some(_) => End::Released(call.answered),
                    None => End::Undone(call.answered),
                };
            }
            (Request::Change { left }, Answer::StillHeld(StillHeld::Held)) => self.changed(call, left),
            (
                Request::Renew { .. } | Request::Release { undo: false, .. } | Request::Change { .. },
                Answer::StillHeld(StillHeld::Lost),
            ) => self.lost(call),
            _ => {}
        }
    }

    fn running(&mut self) -> Option<&mut Segment> {
        self.segments.last_mut().filter(|segment| !segment.is_kept)
    }

    fn is_certain_during(&mut self, call: &Call) -> bool {
        self.running().is_some_and(|segment| segment.from <= call.sent && call.answered < segment.until)
    }

    fn granted(&mut self, call: &Call, lease: Duration) {
        let until = certain_end(call.sent, lease);
        self.from = Some(self.from.unwrap_or(call.sent));
        self.lease = self.lease.max(lease);
        self.may_end(call.answered + lease);
        match self.running() {
            // To acquire it again is to acquire it for that time.
            Some(segment) if call.answered < segment.until => {
                (segment.until, segment.granted_until, segment.shortened) = (until, until, None);
                return;
            }
            // Its time may have been up before it was acquired again.
            Some(segment) => segment.until = segment.until.min(until),
            None => {}
        }
        self.segments.push(Segment {
            from: call.answered,
            until,
            granted_until: until,
            asked: call.sent,
            shortened: None,
            is_kept: false,
        });
    }

    fn renewed(&mut self, call: &'a Call, lease: Duration) {
        if self.is_over_before(call.sent) {
            self.late.push(call);
            return;
        }
        let until = certain_end(call.sent, lease);
        self.lease = self.lease.max(lease);
        self.may_end(call.answered + lease);
        match self.running() {
            Some(segment) if call.sent < segment.until => {
                if until < segment.until {
                    segment.shortened = Some(call.answered);
                }
                segment.until = segment.until.max(until);
            }
            Some(segment) => {
                let segment = Segment { from: call.answered, until, granted_until: until, shortened: None, ..*segment };
                self.segments.push(segment);
            }
            None => {}
        }
    }

    fn released(&mut self, call: &'a Call, hold: Duration) {
        if self.is_over_before(call.sent) {
            self.late.push(call);
            return;
        }
        let asked = self.segments.first().map(|segment| segment.asked);
        let is_first = !matches!(self.end, End::Released(_));
        self.stop(call.sent);
        if is_first
            && !hold.is_zero()
            && let Some(asked) = asked
        {
            let until = certain_end(asked, hold);
            let kept =
                Segment { from: call.answered, until, granted_until: until, asked, shortened: None, is_kept: true };
            self.segments.push(kept);
        }
        if is_first {
            let kept = (!hold.is_zero()).then(|| call.answered.max(self.last_grant() + hold));
            self.kept_until = self.kept_until.max(kept);
            self.end = End::Released(call.answered);
            self.closed = (!self.is_unclear).then_some(call.answered);
        }
    }

    fn changed(&mut self, call: &'a Call, left: Duration) {
        if self.is_over_before(call.sent) {
            self.late.push(call);
            return;
        }
        let until = certain_end(call.sent, left);
        if let Some(segment) = self.running() {
            (segment.until, segment.granted_until, segment.shortened) = (until, until, None);
        }
        self.lease = self.lease.max(left);
        if !matches!(self.end, End::Open) {
            self.end = End::Time(call.answered + left);
        }
    }

    fn lost(&mut self, call: &'a Call) {
        if self.is_over_before(call.sent) {
            self.late.push(call);
        }
        if let Some(segment) = self.running()
            && segment.from <= call.sent
            && call.answered < segment.until
        {
            let (left, rule) = (segment.until.since(call.answered), segment.rule_at(call.answered));
            self.lost_early.push((call, left, rule));
        }
        self.stop(call.sent);
    }

    /// A request without an answer may be carried out at any time, or never.
    fn unanswered(&mut self, request: Request, call: &Call) {
        match request {
            Request::Acquire { lease } => {
                self.from = Some(self.from.unwrap_or(call.sent));
                self.lease = self.lease.max(lease);
                self.end = End::Open;
                // It may have made the time shorter that an earlier one has got.
                self.stop(certain_end(call.sent, lease));
            }
            Request::Renew { lease } => {
                self.lease = self.lease.max(lease);
                self.end = End::Open;
            }
            Request::Release { hold, .. } => {
                self.stop(call.sent);
                self.end = End::Open;
                if !hold.is_zero() {
                    self.kept_until = self.kept_until.max(Some(self.last_grant() + hold));
                }
            }
            Request::Change { .. } => {
                self.stop(call.sent);
                self.end = End::Open;
            }
            Request::List | Request::Runs => {}
        }
    }

    /// Ends the time in which the lock is held for certain.
    fn stop(&mut self, at: Moment) {
        if let Some(segment) = self.running() {
            segment.until = segment.until.min(at);
        }
    }

    fn may_end(&mut self, at: Moment) {
        self.end = match self.end {
            End::Time(end) => End::Time(end.max(at)),
            other => other,
        };
    }

    fn last_grant(&self) -> Moment {
        self.segments.iter().map(|segment| segment.from).max().unwrap_or(Moment::at(Duration::ZERO))
    }

    /// Returns whether the lock's time was up before this moment, without a release and without a doubt.
    fn is_over_before(&self, moment: Moment) -> bool {
        matches!(self.end, End::Time(end) if end < moment) && self.from.is_some()
    }
}

impl Tenure<'_> {
    /// Returns until when the owner may have had the lock, running or kept; `None` if that is open.
    pub(crate) fn latest_end(&self) -> Option<Moment> {
        match self.end {
            End::Open => None,
            End::Time(end) | End::Undone(end) => Some(end),
            End::Released(end) => Some(self.kept_until.unwrap_or(end)),
        }
    }
}
