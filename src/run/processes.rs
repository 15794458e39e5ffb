//! The processes of a running job, from the signals that they get to the last one that the run waits for.

use std::ops::ControlFlow;
use std::time::Duration;

use super::event::{Action, JobEnd};
use super::notice::{Notice, SpawnError};
use super::policy::{Leftovers, Sender, WaitFor};
use super::running::{JobResult, KillReason, LockAtEnd, LockQuery, Running};
use crate::exit::ExitReason;
use crate::system::Moment;
use crate::system::Signal;

/// The pause between checks of the process group: a process may leave it without ending, and then no signal comes.
const LEFTOVERS_INTERVAL: Duration = Duration::from_secs(1);

impl Running {
    pub(super) fn on_signal(&mut self, signal: Signal, sender: Sender, now: Moment, todo: &mut Vec<Action>) {
        // Shedlock may have been stopped until now.
        if signal == Signal::CONT {
            return self.on_continued(sender, now, todo);
        }
        // A frozen job does not report that the terminal stopped it, so shedlock stops itself.
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
                self.stop_timeout_at.get_or_insert(now + timeout);
            }
            // The job must see the signal, even if the backend does not answer.
            self.thaw(todo);
        }
    }

    /// Ends the run of a command that could not be executed, which became known only after a while.
    pub(super) fn on_spawn_failed(
        &mut self,
        error: SpawnError,
        now: Moment,
        todo: &mut Vec<Action>,
    ) -> ControlFlow<JobResult> {
        let kind = error.kind;
        // Why the job is killed was reported already; that it never began adds nothing.
        if self.killing.is_none() {
            self.emit_explanation(Notice::NotStarted(error), todo);
        }
        self.on_job_ended(JobEnd::NotStarted(kind), now, todo)
    }

    pub(super) fn on_job_stopped(&self, signal: Signal, todo: &mut Vec<Action>) {
        if self.policy.placement.terminal && self.killing.is_none() && self.frozen.is_none() {
            todo.push(Action::StopOurselves(signal));
        }
    }

    pub(super) fn on_job_ended(&mut self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) -> ControlFlow<JobResult> {
        self.exit = Some(end);
        self.on_part_ended(end, now, todo);
        self.finish_if_over(now, todo)
    }

    pub(super) fn on_orphan_ended(
        &mut self,
        end: JobEnd,
        now: Moment,
        todo: &mut Vec<Action>,
    ) -> ControlFlow<JobResult> {
        // After a stall it comes before the end of the command that left it behind.
        if self.exit.is_some() || matches!(self.policy.wait_for, WaitFor::Leftovers(_)) {
            self.on_part_ended(end, now, todo);
        }
        self.finish_if_over(now, todo)
    }

    /// Notes why a part of the job ended: if shedlock was stopped past a deadline, the guardian may have killed the
    /// job already.
    fn on_part_ended(&mut self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) {
        let overdue = self.policy.guarded && self.guard_at().is_some_and(|at| now >= at);
        if self.killing.is_none() && self.lease.is_some() && overdue && end == JobEnd::Killed(Signal::KILL) {
            self.on_time(now, todo);
        }
    }

    /// Ends the run once the command has ended, unless its leftovers have to end too.
    fn finish_if_over(&mut self, now: Moment, todo: &mut Vec<Action>) -> ControlFlow<JobResult> {
        match self.exit {
            None => ControlFlow::Continue(()),
            Some(end) if self.killing.is_none() && self.policy.wait_for == WaitFor::Child => {
                self.finish(end, now, todo)
            }
            Some(_) => {
                self.check_leftovers(now, todo);
                ControlFlow::Continue(())
            }
        }
    }

    /// Asks for a look at the leftovers of a command that has ended.
    pub(super) fn check_leftovers(&mut self, now: Moment, todo: &mut Vec<Action>) {
        match (self.killing, self.policy.wait_for) {
            (Some(_), _) => todo.push(Action::CheckLeftovers(Leftovers::Tree)),
            (None, WaitFor::Leftovers(leftovers)) => {
                self.recheck_leftovers_at = (leftovers == Leftovers::Group).then(|| now + LEFTOVERS_INTERVAL);
                todo.push(Action::CheckLeftovers(leftovers));
            }
            (None, WaitFor::Child) => {}
        }
    }

    pub(super) fn on_leftovers_gone(&self, now: Moment, todo: &mut Vec<Action>) -> ControlFlow<JobResult> {
        self.exit.map_or(ControlFlow::Continue(()), |end| self.finish(end, now, todo))
    }

    /// Reports how the job ended, and returns what follows for its lock.
    fn finish(&self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) -> ControlFlow<JobResult> {
        let why = self.killing.map(|killing| killing.why);
        let reason = match (why, end) {
            (Some(KillReason::Expired), _) => ExitReason::Expired,
            (Some(KillReason::Lost), _) => ExitReason::Lost,
            (_, JobEnd::Exited(code)) => ExitReason::Exited(code),
            (_, JobEnd::Killed(signal)) => ExitReason::Killed(signal),
            (_, JobEnd::NotStarted(kind)) => kind.exit_reason(),
        };
        if self.frozen.is_some() {
            // The leftovers are left alone, and must not stay frozen for ever.
            todo.push(Action::Thaw);
        }
        let was_executed = !matches!(end, JobEnd::NotStarted(_));
        let job_time = was_executed.then(|| now.since(self.job_started));
        let mut explanation = self.explanation.clone();
        if let Some(job_time) = job_time {
            let notice = Notice::Ended(reason, job_time);
            if matches!(reason, ExitReason::Exited(_) | ExitReason::Killed(_)) {
                explanation = Some(notice.clone());
            }
            todo.push(Action::Emit(notice));
        }
        if self.is_in_flight() || self.extension.is_some_and(|extension| extension.query == LockQuery::InFlight) {
            // The release waits for the request that is in flight.
            todo.push(Action::StopTrying);
        }
        let is_ours = self.holds(now) && why != Some(KillReason::Lost);
        let lock =
            self.lease.map(|lease| LockAtEnd { is_ours, hold: self.hold(reason, lease), lease_end: self.lease_end });
        ControlFlow::Break(JobResult { reason, job_time, explanation, lock })
    }
}
