//! A job that runs: its processes, from the signals that they get to the last one that is waited for.

use std::time::Duration;

use super::event::{Action, JobEnd};
use super::notice::{Notice, SpawnTrouble};
use super::policy::{Leftovers, Sender, WaitFor};
use super::running::{Flow, Look, Over, Owed, Running, Why};
use crate::clock::Moment;
use crate::exit::Outcome;
use crate::signal::Signal;

/// A process may leave its group without ending, and nobody tells us.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Running {
    pub(super) fn on_signal(&mut self, signal: Signal, sender: Sender, now: Moment, todo: &mut Vec<Action>) {
        // It comes to those who were stopped.
        if signal == Signal::CONT {
            return self.on_continued(sender, now, todo);
        }
        // The job, which stands still, will not stop as we are used to.
        if signal.stops() && self.frozen.is_some() && self.policy.placement.terminal {
            return todo.push(Action::StopOurselves(signal));
        }
        if self.policy.placement.passes_on(signal, sender) {
            todo.push(Action::Forward(signal));
            if signal == Signal::TERM {
                todo.push(Action::Forward(Signal::CONT));
            }
        }
        if signal.asks_to_stop() {
            if let Some(timeout) = self.policy.stop_timeout {
                // The first time counts.
                self.stop_at.get_or_insert(now + timeout);
            }
            // A backend that does not answer keeps nobody from stopping the job.
            self.thaw(todo);
        }
    }

    /// The command could not be executed, which took long to show.
    pub(super) fn on_spawn_failed(&mut self, trouble: SpawnTrouble, now: Moment, todo: &mut Vec<Action>) -> Flow {
        let kind = trouble.kind;
        // Why a job is ended was told, and that it never began is of no interest then.
        if self.killing.is_none() {
            todo.push(Action::Tell(Notice::NotStarted(trouble)));
        }
        self.on_job_ended(JobEnd::NotStarted(kind), now, todo)
    }

    pub(super) fn on_job_stopped(&self, signal: Signal, todo: &mut Vec<Action>) {
        if self.policy.placement.terminal && self.killing.is_none() && self.frozen.is_none() {
            todo.push(Action::StopOurselves(signal));
        }
    }

    pub(super) fn on_job_ended(&mut self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) -> Flow {
        self.exit = Some(end);
        self.on_part_ended(end, now, todo);
        self.finish_if_over(now, todo)
    }

    pub(super) fn on_orphan_ended(&mut self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) -> Flow {
        // After a standstill it comes before the end of the command that left it behind.
        if self.exit.is_some() || matches!(self.policy.wait_for, WaitFor::Leftovers(_)) {
            self.on_part_ended(end, now, todo);
        }
        self.finish_if_over(now, todo)
    }

    /// We may have been stopped for so long that somebody else has done what we should have.
    fn on_part_ended(&mut self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) {
        let overdue = self.policy.guarded && self.guard_at().is_some_and(|at| now >= at);
        if self.killing.is_none() && self.lease.is_some() && overdue && end == JobEnd::Killed(Signal::KILL) {
            self.on_time(now, todo);
        }
    }

    /// Ends the run once the command has ended, unless what it left behind has to end too before the job has.
    fn finish_if_over(&mut self, now: Moment, todo: &mut Vec<Action>) -> Flow {
        match self.exit {
            None => Flow::Stay,
            Some(end) if self.killing.is_none() && self.policy.wait_for == WaitFor::Child => {
                self.finish(end, now, todo)
            }
            Some(_) => {
                self.look_for_leftovers(now, todo);
                Flow::Stay
            }
        }
    }

    /// Has somebody look for what the command, which has ended, has left behind.
    pub(super) fn look_for_leftovers(&mut self, now: Moment, todo: &mut Vec<Action>) {
        match (self.killing, self.policy.wait_for) {
            (Some(_), _) => todo.push(Action::LookForLeftovers(Leftovers::Tree)),
            (None, WaitFor::Leftovers(leftovers)) => {
                self.recheck_leftovers_at = (leftovers == Leftovers::Group).then(|| now + LOOK_AGAIN);
                todo.push(Action::LookForLeftovers(leftovers));
            }
            (None, WaitFor::Child) => {}
        }
    }

    pub(super) fn on_leftovers_gone(&self, now: Moment, todo: &mut Vec<Action>) -> Flow {
        self.exit.map_or(Flow::Stay, |end| self.finish(end, now, todo))
    }

    /// The job is over: the lock goes back, if it is ours to give.
    fn finish(&self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) -> Flow {
        let why = self.killing.map(|killing| killing.why);
        let outcome = match (why, end) {
            (Some(Why::Expired), _) => Outcome::Expired,
            (Some(Why::Lost), _) => Outcome::Lost,
            (_, JobEnd::Exited(code)) => Outcome::Exited(code),
            (_, JobEnd::Killed(signal)) => Outcome::Killed(signal),
            (_, JobEnd::NotStarted(kind)) => kind.outcome(),
        };
        if self.frozen.is_some() {
            // What the command left behind is left alone, and does not stand still for ever.
            todo.push(Action::Thaw);
        }
        if !matches!(end, JobEnd::NotStarted(_)) {
            todo.push(Action::Tell(Notice::Ended(outcome)));
        }
        if self.is_in_flight() || self.extension.is_some_and(|extension| extension.look == Look::InFlight) {
            // The release comes after it.
            todo.push(Action::StopTrying);
        }
        let is_ours = self.holds(now) && why != Some(Why::Lost);
        let lock = self.lease.map(|lease| Owed { is_ours, hold: self.hold(outcome, lease), lease_end: self.lease_end });
        Flow::Leave(Over { outcome, lock })
    }
}
