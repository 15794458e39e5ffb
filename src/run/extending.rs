//! A job that runs: shortly before the job would be stopped because at-most is used up, the lock's end is asked for,
//! since the job, or a person, may have extended it.

use std::time::Duration;

use super::event::{Action, Ownership};
use super::notice::{Notice, NoticeKind};
use super::policy::{OnExpiry, Policy};
use super::running::{Extension, Lease, LockQuery, Renewal, Running};
use crate::backend::{BackendError, FOR_EVER};
use crate::exit::ExitReason;
use crate::lock::Grant;
use crate::system::{Moment, Timestamp};

/// The least by which an extended end is later: takings and renewals round, and take their time.
const EXTENDED: Duration = Duration::from_secs(1);

impl Extension {
    /// Notes that a renewal for no longer than `lease` was answered at `now`, and so carried out before.
    pub(super) fn renewed(&mut self, lease: Duration, now: Moment) {
        // What the clocks may differ by in that time.
        self.reach = self.reach.max(now + lease + lease / 1000);
    }

    /// Notes that a renewal for no longer than `lease` was not answered, and may be carried out even later.
    pub(super) fn left_unclear(&mut self, lease: Duration) {
        self.stray = self.stray.max(lease);
    }
}

impl Running {
    /// Returns what is known at first of the end of a lock whose at-most is used up at `limit`.
    pub(super) fn first_extension(&self, grant: Grant, limit: Moment) -> Extension {
        Extension {
            until: self.meant(grant),
            reach: limit.max(self.lease_end),
            stray: Duration::ZERO,
            query: LockQuery::Due(self.first_query(limit)),
        }
    }

    /// Returns how long the lock is to stay held, counted from its taking.
    pub(super) fn hold(&self, outcome: ExitReason, lease: Lease) -> Duration {
        let waited = lease.taken.since(self.started);
        match self.extended().map(|until| until.since(lease.grant.locked_at)) {
            Some(at_most) => self.timing.hold(&Policy { at_most, ..Policy::clone(&self.policy) }, outcome, waited),
            None => self.timing.hold(&self.policy, outcome, waited),
        }
    }

    /// Returns until when at-most was extended, if it was.
    pub(super) fn extended(&self) -> Option<Timestamp> {
        let (extension, lease) = (self.extension?, self.lease?);
        (extension.until >= self.meant(lease.grant) + EXTENDED).then_some(extension.until)
    }

    /// Returns the end of at-most as the backend has it, which is later where its clock is coarse.
    fn meant(&self, grant: Grant) -> Timestamp {
        grant.until.max(grant.locked_at + self.policy.at_most)
    }

    /// Returns when the lock's end is to be asked for.
    pub(super) fn query_at(&self) -> Option<Moment> {
        match self.extension.map(|extension| extension.query) {
            // The renewal's answer comes first, and then there is a tick.
            Some(LockQuery::Due(at)) if self.would_query() && !self.is_in_flight() => Some(at),
            _ => None,
        }
    }

    fn would_query(&self) -> bool {
        self.killing.is_none() && !self.lost_emitted && self.limit.is_some()
    }

    /// Returns when it is too late to learn of an extension.
    fn query_by(&self, limit: Moment) -> Moment {
        match self.policy.on_expiry {
            OnExpiry::Ignore => limit,
            OnExpiry::Kill | OnExpiry::Extend => self.timing.before_limit.stop_at(limit),
        }
    }

    /// Returns when to ask so that the answer comes in time, for a lock whose at-most is used up at `limit`.
    fn first_query(&self, limit: Moment) -> Moment {
        self.query_by(limit) - self.timing.query_ahead
    }

    /// Asks for the lock's end. No renewal waits for long behind a backend that does not answer: it is not asked again
    /// once one is due.
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
            // After a standstill it may have ended because its time was up, as the job's is.
            Ok(Ownership::Gone) if late => {}
            Ok(Ownership::Gone) => {
                let kind = NoticeKind::of_lost(self.lease_end, now);
                self.on_lost(kind, now, todo);
            }
            Ok(Ownership::Ours { until: Some(until), left }) => {
                self.on_lock_end(*until, (*left).min(FOR_EVER), sent, now, todo);
            }
            Ok(Ownership::Ours { until: None, .. }) => {}
            // As long as there is time, it is asked again.
            Err(_) => self.set_query(LockQuery::Due(now + self.timing.query_ahead / 4)),
        }
    }

    /// Takes over a later end: the lock is ours for `left` from `sent` on at least. An end that our own renewals can
    /// have set is no extension.
    fn on_lock_end(&mut self, until: Timestamp, left: Duration, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        let Some(extension) = self.extension else { return };
        // By the backend's clock, which has set both times; and by ours, since a renewal that took long makes a lock end later
        // than was meant.
        if until < extension.until + EXTENDED || sent + left < extension.reach + EXTENDED {
            return;
        }
        // Or one of our own, carried out just now.
        if !extension.stray.is_zero() && left < extension.stray + EXTENDED {
            return;
        }
        let limit = sent + left - self.timing.drift_beyond(left);
        let query = LockQuery::Due(self.first_query(limit));
        self.extension = Some(Extension { until, reach: now + left, query, ..extension });
        self.limit = Some(limit);
        self.lease_end = match self.policy.renews() {
            true => self.lease_end.max(sent + self.policy.term(Some(sent + left)).from(sent)),
            false => limit,
        };
        todo.push(Action::Emit(Notice::Extended(until)));
        if self.is_watched() && !self.is_in_flight() {
            self.renewal = Renewal::Due(self.timing.renew_at(sent));
        }
        if self.policy.guarded {
            todo.push(Action::Guard(self.guard_at()));
        }
    }
}
