//! The extension of a running job's lock: shortly before the job would be stopped because at-most is used up, the lock's end
//! is asked for, because the job, or a person, may have extended it.

use std::time::Duration;

use super::event::{Action, Ownership};
use super::notice::{LossCause, Notice};
use super::policy::{OnExpiry, Policy};
use super::running::{Extension, GrantedLock, LockQuery, Renewal, Running};
use crate::exit::ExitReason;
use crate::lock::Grant;
use crate::lock::{BackendError, ENDLESS};
use crate::system::{Moment, Timestamp};

/// The least by which an extension moves the lock's end: a smaller difference comes from rounding, and from the time that
/// requests take.
const MIN_EXTENSION: Duration = Duration::from_secs(1);

impl Extension {
    /// Notes that a renewal for no longer than `lease` was answered at `now`, and so carried out before.
    pub(super) fn renewed(&mut self, lease: Duration, now: Moment) {
        // What the clocks may differ by in that time.
        self.latest_end = self.latest_end.max(now + lease + lease / 1000);
    }

    /// Notes that a renewal for no longer than `lease` was not answered, and may be carried out even later.
    pub(super) fn may_still_renew(&mut self, lease: Duration) {
        self.unanswered = self.unanswered.max(lease);
    }
}

impl Running {
    /// Returns the state of the extension when the job starts, for a lock whose at-most is used up at `limit`.
    pub(super) fn initial_extension(&self, grant: Grant, limit: Moment) -> Extension {
        Extension {
            until: self.stored_end(grant),
            latest_end: limit.max(self.lease_end),
            unanswered: Duration::ZERO,
            query: LockQuery::Due(self.first_query(limit)),
        }
    }

    /// Returns how long the lock is to stay held, counted from its acquisition.
    pub(super) fn hold(&self, reason: ExitReason, lease: GrantedLock) -> Duration {
        let waited = lease.requested.since(self.started);
        match self.extended().map(|until| until.since(lease.grant.locked_at)) {
            Some(at_most) => self.timing.hold(&Policy { at_most, ..Policy::clone(&self.policy) }, reason, waited),
            None => self.timing.hold(&self.policy, reason, waited),
        }
    }

    /// Returns until when at-most was extended, if it was.
    pub(super) fn extended(&self) -> Option<Timestamp> {
        let (extension, lease) = (self.extension?, self.lease?);
        (extension.until >= self.stored_end(lease.grant) + MIN_EXTENSION).then_some(extension.until)
    }

    /// Returns the end of at-most as the backend has it, which is later where its clock is coarse.
    fn stored_end(&self, grant: Grant) -> Timestamp {
        grant.until.max(grant.locked_at + self.policy.at_most)
    }

    /// Returns when to query the lock's end.
    pub(super) fn query_at(&self) -> Option<Moment> {
        match self.extension.map(|extension| extension.query) {
            // The renewal's answer comes first, and then there is a tick.
            Some(LockQuery::Due(at)) if self.would_query() && !self.is_in_flight() => Some(at),
            _ => None,
        }
    }

    fn would_query(&self) -> bool {
        self.killing.is_none() && !self.loss_reported && self.limit.is_some()
    }

    /// Returns when it is too late to learn of an extension.
    fn query_by(&self, limit: Moment) -> Moment {
        match self.policy.on_expiry {
            OnExpiry::Ignore => limit,
            OnExpiry::Kill | OnExpiry::Extend => self.timing.before_limit.stop_at(limit),
        }
    }

    /// Returns when to query the lock's end so that the answer comes in time, if at-most is used up at `limit`.
    fn first_query(&self, limit: Moment) -> Moment {
        self.query_by(limit) - self.timing.query_ahead
    }

    /// Queries the lock's end. A renewal does not wait for long behind a backend that does not answer: once a renewal is due,
    /// shedlock does not query again.
    pub(super) fn query_lock(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Some(by) = self.limit.map(|limit| self.query_by(limit)).filter(|by| now < *by) else {
            self.set_query(LockQuery::Over);
            return;
        };
        let deadline = match self.renewal {
            Renewal::Due(at) => by.min(at),
            Renewal::Off | Renewal::InFlight { .. } => by,
        };
        todo.push(Action::QueryLock { deadline });
        self.set_query(LockQuery::InFlight);
    }

    fn set_query(&mut self, look: LockQuery) {
        if let Some(extension) = &mut self.extension {
            extension.query = look;
        }
    }

    pub(super) fn on_queried(
        &mut self,
        answer: &Result<Ownership, BackendError>,
        sent: Moment,
        now: Moment,
        todo: &mut Vec<Action>,
    ) {
        self.set_query(LockQuery::Over);
        if !self.would_query() || self.is_abandoned(now) {
            return;
        }
        let late = self.limit.is_some_and(|limit| now >= self.query_by(limit));
        match answer {
            // After a stall the lock may have ended because its time was up, as the job's is.
            Ok(Ownership::Gone) if late => {}
            Ok(Ownership::Gone) => {
                let kind = LossCause::from_end(self.lease_end, now);
                self.lose_lock(kind, now, todo);
            }
            Ok(Ownership::Held { until: Some(until), left }) => {
                self.on_lock_end(*until, (*left).min(ENDLESS), sent, now, todo);
            }
            Ok(Ownership::Held { until: None, .. }) => {}
            // As long as there is time, it is asked again.
            Err(_) => self.set_query(LockQuery::Due(now + self.timing.query_ahead / 4)),
        }
    }

    /// Takes over a later end: the lock is held for `left` from `sent` on at least. An end that shedlock's own renewals can
    /// have set is no extension.
    fn on_lock_end(&mut self, until: Timestamp, left: Duration, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        let Some(extension) = self.extension else { return };
        // By the backend's clock, which has set both times; and by shedlock's, because a renewal that took long makes a lock
        // end later than was meant.
        if until < extension.until + MIN_EXTENSION || sent + left < extension.latest_end + MIN_EXTENSION {
            return;
        }
        // Or one of shedlock's own, carried out just now.
        if !extension.unanswered.is_zero() && left < extension.unanswered + MIN_EXTENSION {
            return;
        }
        let limit = sent + left - self.timing.drift_beyond(left);
        let query = LockQuery::Due(self.first_query(limit));
        self.extension = Some(Extension { until, latest_end: now + left, query, ..extension });
        self.limit = Some(limit);
        self.lease_end = match self.policy.renews() {
            true => self.lease_end.max(sent + self.policy.term(Some(sent + left)).from(sent)),
            false => limit,
        };
        todo.push(Action::Emit(Notice::Extended(until)));
        if self.needs_renewal() && !self.is_in_flight() {
            self.renewal = Renewal::Due(self.timing.renew_at(sent));
        }
        if self.policy.guarded {
            todo.push(Action::Guard(self.guard_at()));
        }
    }
}
