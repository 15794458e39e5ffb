//! The renewals of a running job's lock, and what follows if they fail.

use std::time::Duration;

use super::event::Action;
use super::notice::{LossCause, Notice};
use super::policy::OnLost;
use super::running::{KillReason, Renewal, Running};
use crate::lock::{BackendError, ErrorClass, StillHeld};
use crate::system::Moment;

/// The time after which a renewal may have been sent more than once.
const RESEND_AFTER: Duration = Duration::from_secs(1);

impl Running {
    /// Returns whether the lock would be lost if it were not renewed.
    pub(super) fn needs_renewal(&self) -> bool {
        let over = self.loss_reported || self.killing.is_some();
        self.lease.is_some() && self.policy.renews() && !over && !self.lasts_to_limit()
    }

    /// Returns when the lock is given up if it was not renewed by then.
    pub(super) fn give_up_at(&self) -> Moment {
        match (self.policy.on_lost, self.killing) {
            (OnLost::Kill, None) => self.timing.before_end.stop_at(self.lease_end),
            _ => self.lease_end,
        }
    }

    /// Asks for a renewal; also of a lock that lasts long enough, because the answer says whether it is lost.
    pub(super) fn renew(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let killed = self.killing.is_some_and(|killing| killing.killed);
        let (limit, deadline) = match killed {
            true => (None, now + self.policy.backend_timeout),
            false => (self.limit, self.give_up_at()),
        };
        let term = self.policy.term(limit);
        todo.push(Action::Renew { term, deadline });
        let due = match self.renewal {
            Renewal::Due(at) => at.min(now),
            Renewal::Off | Renewal::InFlight { .. } => now,
        };
        self.renewal = Renewal::InFlight { due, requested: now, sent: None, term };
    }

    /// Notes when the worker thread has sent the renewal, which takes long on a busy host.
    pub(super) fn on_renewing(&mut self, since: Moment) {
        if let Renewal::InFlight { requested, sent, .. } = &mut self.renewal
            && since >= *requested
        {
            *sent = Some(since);
        }
    }

    /// Returns why a lock that is given up at `now` was not renewed.
    pub(super) fn renewal_loss_cause(&self, now: Moment) -> LossCause {
        if let Some(error) = &self.renewal_error {
            return LossCause::NotRenewed(Some(error.clone()));
        }
        let give_up = self.give_up_at();
        let overslept = now.since(give_up);
        match self.renewal {
            Renewal::Due(due) => LossCause::NotAsked(now.since(due)),
            Renewal::InFlight { due, sent: None, .. } => LossCause::NotAsked(now.since(due)),
            // Most of the time was lost before the backend was asked.
            Renewal::InFlight { due, sent: Some(sent), .. } if give_up.since(sent) <= sent.since(due) + overslept => {
                LossCause::NotAsked(sent.since(due) + overslept)
            }
            Renewal::InFlight { .. } | Renewal::Off => LossCause::NotRenewed(None),
        }
    }

    pub(super) fn on_renewed(
        &mut self,
        answer: Result<StillHeld, BackendError>,
        sent: Moment,
        now: Moment,
        todo: &mut Vec<Action>,
    ) {
        let abandoned = self.killing.is_none() && self.is_abandoned(now);
        match answer {
            // It was asked for to check a lock that the job runs on without by now.
            Ok(StillHeld::Lost) | Err(_) if abandoned => self.renewal = Renewal::Off,
            // Held or lost is true whenever the answer comes.
            Ok(StillHeld::Held) => self.on_still_held(sent, now, todo),
            Ok(StillHeld::Lost) => {
                let kind = LossCause::from_end(self.lease_end, now);
                self.lose_lock(kind, now, todo);
            }
            Err(_) if !self.is_in_flight() => {}
            Err(error) => {
                let first = self.renewal_error.replace(error.clone()).is_none();
                if let Some(extension) = &mut self.extension {
                    let term = self.policy.term(self.limit);
                    // It may have been carried out all the same, or will be.
                    extension.renewed(term.from(sent), now);
                    if let (Renewal::InFlight { requested, .. }, true) = (self.renewal, error.ambiguous) {
                        extension.may_still_renew(term.from(requested));
                    }
                }
                let left = self.give_up_at().since(now);
                let pause = self.timing.renew_again(left, error.class == ErrorClass::Permanent);
                self.renewal = Renewal::Due(now + pause);
                if first {
                    todo.push(Action::Emit(Notice::NotRenewed(error)));
                }
            }
        }
    }

    fn on_still_held(&mut self, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        self.renewal_error = None;
        let (requested, term) = match self.renewal {
            Renewal::InFlight { requested, term, .. } => (requested, term),
            Renewal::Off | Renewal::Due(_) => (sent, self.policy.term(self.limit)),
        };
        let granted = term.from(sent);
        self.lease_end = self.lease_end.max(sent + granted);
        if let Some(extension) = &mut self.extension {
            extension.renewed(granted, now);
            // This was not the first try, and of another there was no answer.
            if term.limit.is_some() && sent.since(requested) >= RESEND_AFTER {
                extension.may_still_renew(term.from(requested));
            }
        }
        todo.push(Action::Emit(Notice::Renewed));
        if self.renewal != Renewal::Off {
            self.renewal = match self.killing {
                Some(killing) if killing.killed => Renewal::Due(self.timing.renew_at(sent)),
                _ if !self.lasts_to_limit() => Renewal::Due(self.timing.renew_at(sent)),
                Some(_) => Renewal::Due(self.timing.before_end.unkillable_at(self.lease_end)),
                None => Renewal::Off,
            };
        }
        match self.frozen {
            Some(since) if sent >= since => self.thaw(todo),
            // It was asked for before the stall.
            Some(_) if self.killing.is_none() => self.renew(now, todo),
            _ => {}
        }
        if self.policy.guarded {
            todo.push(Action::Guard(self.guard_at()));
        }
    }

    /// Gives up a lock that is lost, or that cannot be renewed in time.
    pub(super) fn lose_lock(&mut self, kind: LossCause, now: Moment, todo: &mut Vec<Action>) {
        self.lost |= matches!(kind, LossCause::Gone | LossCause::Late);
        self.renewal = Renewal::Off;
        if !std::mem::replace(&mut self.loss_reported, true) {
            let notice = Notice::Lost(kind, self.policy.on_lost);
            match self.policy.on_lost {
                OnLost::Kill => self.emit_explanation(notice, todo),
                OnLost::Ignore => todo.push(Action::Emit(notice)),
            }
        }
        if self.policy.on_lost == OnLost::Ignore {
            // It was tried until the end.
            self.lost = true;
            self.thaw(todo);
            return;
        }
        let before_end = self.timing.before_end;
        let kill_at = before_end.kill_at(self.lease_end).min(now + before_end.kill_after);
        match &mut self.killing {
            Some(killing) if killing.killed => return,
            Some(killing) => killing.kill_at = killing.kill_at.min(kill_at),
            None => {
                self.decide_to_kill(KillReason::Lost, kill_at, now);
                self.send_first_signal(now, todo);
            }
        }
        if self.policy.guarded {
            todo.push(Action::Guard(Some(before_end.guard_after(kill_at))));
        }
    }
}
