//! Decides what the metrics record of a run, and of what the command of `--notify` is told, so that nothing has to read it
//! out of messages for people.

use std::time::Duration;

use super::event::{Action, Notification, RunMetrics};
use super::notice::Notice;
use super::notify::NotifyEvent;
use super::policy::Policy;
use crate::exit::ExitReason;

/// Collects what metrics and notifications say of a run.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// An enclosing run holds the lock: that one counts and notifies.
    nested: bool,
    /// The end was recorded.
    recorded: bool,
    token: Option<u64>,
    /// How long the job ran.
    job_time: Duration,
    /// The last notice about how the run began or ended.
    explanation: Option<Notice>,
}

impl Account {
    /// Notes that an enclosing run counts and notifies instead of this one.
    pub(super) fn leave_to_enclosing_run(&mut self) {
        self.nested = true;
    }

    /// Notes the token of the lock that was granted.
    pub(super) fn set_token(&mut self, token: Option<u64>) {
        self.token = token;
    }

    /// Notes the notice that explains how the run begins, or how it ends.
    pub(super) fn explain(&mut self, notice: Notice) {
        self.explanation = Some(notice);
    }

    /// Records that the job was started, and notifies of it.
    pub(super) fn job_started(&self, todo: &mut Vec<Action>) {
        if !self.nested {
            todo.push(Action::RecordMetrics(RunMetrics::Started));
            todo.push(Action::Notify(self.notification(NotifyEvent::Start, None)));
        }
    }

    /// Records the end of a job that ran for `job_time`, while its lock has yet to be released.
    pub(super) fn job_ended(
        &mut self,
        reason: ExitReason,
        job_time: Duration,
        policy: &Policy,
        todo: &mut Vec<Action>,
    ) {
        self.job_time = job_time;
        self.record_end(reason, policy, todo);
    }

    /// Records the end of the run, and notifies of it. No lock of this run is held any more. A run that was stopped before
    /// the backend answered counts neither as run nor as skipped.
    pub(super) fn run_ended(&mut self, reason: ExitReason, policy: &Policy, todo: &mut Vec<Action>) {
        self.record_end(reason, policy, todo);
        todo.push(Action::FinishMetrics);
        let event = match reason {
            _ if self.nested => return,
            ExitReason::Stopped(_) => return,
            ExitReason::Skipped => NotifyEvent::Skipped,
            reason => NotifyEvent::Ended(policy.run_outcome(reason)),
        };
        todo.push(Action::Notify(self.notification(event, Some(reason))));
    }

    fn record_end(&mut self, reason: ExitReason, policy: &Policy, todo: &mut Vec<Action>) {
        let outcome = match reason {
            _ if self.nested || self.recorded => return,
            ExitReason::Stopped(_) => return,
            ExitReason::Skipped => None,
            reason => Some(policy.run_outcome(reason)),
        };
        self.recorded = true;
        todo.push(Action::RecordMetrics(RunMetrics::Ended { outcome, exit_code: reason.exit(0).code }));
    }

    fn notification(&self, event: NotifyEvent, reason: Option<ExitReason>) -> Notification {
        Notification {
            event,
            token: self.token,
            end: reason.map(|reason| (reason, self.job_time)),
            explanation: self.explanation.clone(),
        }
    }
}
