//! A running job that has to end: the first signal, then SIGKILL until all of it is dead. The lock is kept for processes that not
//! even SIGKILL can end.

use std::time::Duration;

use super::event::Action;
use super::notice::Notice;
use super::policy::OnLost;
use super::running::{KillReason, Killing, Renewal, Running};
use crate::system::Moment;
use crate::system::Signal;

/// The pause until SIGKILL is repeated, because the job may be forking. It doubles up to [`MAX_KILL_INTERVAL`]: a process that
/// is not dead by then may live for hours, and each time the whole process table is read.
const MIN_KILL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_KILL_INTERVAL: Duration = Duration::from_secs(1);

impl Running {
    /// Kills a job that was asked to stop and has not.
    pub(super) fn on_stop_timeout(&mut self, now: Moment, todo: &mut Vec<Action>) {
        match &mut self.killing {
            Some(killing) if killing.killed => return,
            Some(killing) => killing.kill_at = killing.kill_at.min(now),
            None => self.decide_to_kill(KillReason::StopTimeout, now, now),
        }
        todo.push(Action::Emit(Notice::StopTimeout(self.policy.stop_timeout.unwrap_or_default())));
    }

    /// Decides that the job is to end. What not even SIGKILL can end keeps the lock: it is renewed while anything of
    /// the job lives.
    pub(super) fn decide_to_kill(&mut self, why: KillReason, kill_at: Moment, now: Moment) {
        let holds = self.holds(now);
        self.killing = Some(Killing { why, kill_at, killed: false, pause: MIN_KILL_INTERVAL, reported: false });
        // The first signals reach a frozen job too.
        self.frozen = None;
        self.cont_pending = false;
        if holds && self.renewal == Renewal::Off {
            self.renewal = Renewal::Due(self.timing.before_end.unkillable_at(self.lease_end));
        }
    }

    /// Returns when the job gets SIGKILL, or gets it again. A lock that is not renewed in the meantime brings it
    /// forward.
    pub(super) fn kill_at(&self) -> Moment {
        let Some(killing) = self.killing else { return self.lease_end };
        let leased = self.lease.is_some() && !self.lost && self.policy.on_lost == OnLost::Kill;
        match leased && !killing.killed {
            true => killing.kill_at.min(self.timing.before_end.kill_at(self.lease_end)),
            false => killing.kill_at,
        }
    }

    /// Sends the first signal, and lets a stopped job see it; unless there is no time for that any more.
    pub(super) fn send_first_signal(&self, now: Moment, todo: &mut Vec<Action>) {
        if now >= self.kill_at() {
            return;
        }
        todo.push(Action::SignalTree(self.policy.signal));
        if self.policy.signal != Signal::KILL {
            todo.push(Action::SignalTree(Signal::CONT));
        }
    }

    /// Sends SIGKILL if it is due by `now`, and reports a job that it has not ended.
    pub(super) fn on_kill_time(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let kill_at = self.kill_at();
        let before_end = self.timing.before_end;
        let Running { killing: Some(killing), renewal, lease_end, .. } = self else { return };
        if now >= kill_at {
            if let (Renewal::Due(at), false) = (&mut *renewal, killing.killed) {
                // It may be due already, and SIGKILL has not had the time to end anything.
                let unkillable = before_end
                    .unkillable_after(now)
                    .min(before_end.unkillable_at(*lease_end))
                    .max(now + MIN_KILL_INTERVAL);
                *at = (*at).max(unkillable);
            }
            killing.killed = true;
            killing.kill_at = now + killing.pause;
            killing.pause = (killing.pause * 2).min(MAX_KILL_INTERVAL);
            todo.push(Action::KillTree);
        }
        let unkillable = matches!(*renewal, Renewal::Due(at) if killing.killed && now >= at);
        if unkillable && !std::mem::replace(&mut killing.reported, true) {
            todo.push(Action::Emit(Notice::Unkillable));
        }
    }
}
