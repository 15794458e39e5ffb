//! A running job after a stall of shedlock or of the machine: it is frozen until the lock was checked.

use std::time::Duration;

use super::event::Action;
use super::notice::Notice;
use super::policy::Sender;
use super::running::{Renewal, Running};
use crate::system::Moment;
use crate::system::Signal;

/// The time after a check in which a SIGCONT needs no other: the clock shows that shedlock was not stopped for longer.
/// Without this a storm of SIGCONT would hold the job for as long as it lasts.
const STALL_CHECK_INTERVAL: Duration = Duration::from_secs(1);

impl Running {
    /// Freezes the job after a stall, until the backend says that the lock is still held. The events and
    /// deadlines of the meantime come first; the renewal is asked for with the next tick.
    pub(super) fn on_stalled(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let over = self.killing.is_some() || self.loss_reported;
        if over || !self.holds(now) || !self.policy.renews() {
            return;
        }
        self.last_check = Some(now);
        if self.frozen.replace(now).is_none() {
            todo.push(Action::Emit(Notice::JobFrozen));
            todo.push(Action::Freeze);
        }
        self.renewal = match self.renewal {
            Renewal::Due(at) => Renewal::Due(at.min(now)),
            Renewal::Off => Renewal::Due(now),
            requested @ Renewal::InFlight { .. } => requested,
        };
    }

    /// Checks the lock after a SIGCONT, because shedlock may have been stopped; the job is continued too if its time is
    /// not up.
    pub(super) fn on_continued(&mut self, sender: Sender, now: Moment, todo: &mut Vec<Action>) {
        if self.frozen.is_some() {
            // The sender of the SIGCONT may have continued the job too.
            todo.push(Action::Freeze);
        }
        if self.last_check.is_none_or(|at| now.since(at) >= STALL_CHECK_INTERVAL) {
            self.on_stalled(now, todo);
        }
        self.cont_pending |= self.policy.placement.passes_on(Signal::CONT, sender);
    }

    /// Thaws the job, and passes on the SIGCONT that it was to get.
    pub(super) fn thaw(&mut self, todo: &mut Vec<Action>) {
        if self.frozen.take().is_some() {
            todo.push(Action::Thaw);
        }
        self.forward_pending_cont(todo);
    }

    /// Passes on a SIGCONT that came while the job was frozen.
    pub(super) fn forward_pending_cont(&mut self, todo: &mut Vec<Action>) {
        if self.frozen.is_none() && std::mem::take(&mut self.cont_pending) {
            todo.push(Action::Forward(Signal::CONT));
        }
    }
}
