//! A job that runs: after a standstill the job is held until the lock was checked.

use std::time::Duration;

use super::event::Action;
use super::notice::Notice;
use super::policy::Sender;
use super::running::{Renewal, Running};
use crate::clock::Moment;
use crate::signal::Signal;

/// A SIGCONT so soon after the last check needs no other: the clock shows that we were not stopped for longer. Without this a
/// storm of SIGCONT would hold the job for as long as it lasts.
const RECENT: Duration = Duration::from_secs(1);

impl Running {
    /// Time has passed that we did not notice. The job stands still until the backend says that the lock is ours yet. What
    /// else has happened in the meantime, and what the clock says of it, is looked at before anything is asked.
    pub(super) fn on_stalled(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let over = self.killing.is_some() || self.lost_told;
        if over || !self.holds(now) || !self.policy.renews() {
            return;
        }
        self.checked = Some(now);
        if self.frozen.replace(now).is_none() {
            todo.push(Action::Tell(Notice::Checking));
            todo.push(Action::Freeze);
        }
        self.renewal = match self.renewal {
            Renewal::Due(at) => Renewal::Due(at.min(now)),
            Renewal::Off => Renewal::Due(now),
            asked @ Renewal::InFlight { .. } => asked,
        };
    }

    /// We were continued, and perhaps had been stopped. The job is continued too if its time is not up.
    pub(super) fn on_continued(&mut self, sender: Sender, now: Moment, todo: &mut Vec<Action>) {
        if self.frozen.is_some() {
            // Whoever continued us may have continued the job too.
            todo.push(Action::Freeze);
        }
        if self.checked.is_none_or(|at| now.since(at) >= RECENT) {
            self.on_stalled(now, todo);
        }
        self.cont_owed |= self.policy.placement.passes_on(Signal::CONT, sender);
    }

    /// The job goes on.
    pub(super) fn thaw(&mut self, todo: &mut Vec<Action>) {
        if self.frozen.take().is_some() {
            todo.push(Action::Thaw);
        }
        self.forward_withheld(todo);
    }

    pub(super) fn forward_withheld(&mut self, todo: &mut Vec<Action>) {
        if self.frozen.is_none() && std::mem::take(&mut self.cont_owed) {
            todo.push(Action::Forward(Signal::CONT));
        }
    }
}
