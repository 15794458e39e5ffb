//! A run while its job lives: after a standstill the job is held until the lock was checked.

use std::time::Duration;

use super::running::Renewal;
use super::{Action, Notice, Phase, Run, Sender};
use crate::clock::Moment;
use crate::signal::Signal;

/// A SIGCONT so soon after the last check needs no other: the clock shows that we were not stopped for longer. Without this a
/// storm of SIGCONT would hold the job for as long as it lasts.
const RECENT: Duration = Duration::from_secs(1);

impl Run {
    /// Time has passed that we did not notice. The job stands still until the backend says that the lock is ours yet. What
    /// else has happened in the meantime, and what the clock says of it, is looked at before anything is asked.
    pub(super) fn on_stalled(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        let over = running.ending.is_some() || running.lost_told;
        if over || !self.holds(running, now) || !self.policy.renews() {
            return;
        }
        let Phase::Running(running) = &mut self.phase else { return };
        running.checked = Some(now);
        if running.held.replace(now).is_none() {
            todo.push(Action::Tell(Notice::Checking));
            todo.push(Action::Hold);
        }
        running.renewal = match running.renewal {
            Renewal::Due(at) => Renewal::Due(at.min(now)),
            Renewal::Off => Renewal::Due(now),
            asked @ Renewal::InFlight { .. } => asked,
        };
    }

    /// We were continued, and perhaps had been stopped. The job is continued too if its time is not up.
    pub(super) fn on_continued(&mut self, sender: Sender, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        if running.held.is_some() {
            // Whoever continued us may have continued the job too.
            todo.push(Action::Hold);
        }
        if running.checked.is_none_or(|at| now.since(at) >= RECENT) {
            self.on_stalled(now, todo);
        }
        let Phase::Running(running) = &mut self.phase else { return };
        running.withheld |= self.policy.placement.passes_on(Signal::CONT, sender);
    }

    /// The job goes on.
    pub(super) fn let_go(&mut self, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        if running.held.take().is_some() {
            todo.push(Action::LetGo);
        }
        self.forward_withheld(todo);
    }

    pub(super) fn forward_withheld(&mut self, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        if running.held.is_none() && std::mem::take(&mut running.withheld) {
            todo.push(Action::Forward(Signal::CONT));
        }
    }
}
