//! A run until its job: asking for the lock, and giving back what nobody will use.

use std::time::Duration;

use super::running::Lease;
use super::{Action, GIVE_BACK, GRACE, Notice, OnBackendError, Phase, Run, SpawnTrouble, Then, Unanswered};
use crate::backend::{Acquired, Trouble};
use crate::clock::Moment;
use crate::exit::Outcome;
use crate::lock::Grant;

impl Run {
    pub(super) fn ask(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let deadline = now + self.policy.backend_timeout;
        todo.push(Action::Acquire { deadline });
        self.unanswered = Unanswered::Taking;
        self.phase = Phase::Asking { give_up: deadline + GRACE };
    }

    pub(super) fn on_acquired(
        &mut self,
        answer: Result<Acquired, Trouble>,
        sent: Moment,
        now: Moment,
        todo: &mut Vec<Action>,
    ) {
        self.unanswered = Unanswered::Nothing;
        match (&self.phase, answer) {
            (Phase::Asking { .. }, Ok(Acquired::Granted(grant))) => self.on_granted(grant, sent, now, todo),
            (Phase::Asking { .. }, Ok(Acquired::Held(record))) => {
                self.timing.answered(now.since(sent));
                match self.timing.next_try(now, record.left) {
                    Some(again) => {
                        todo.push(Action::Tell(Notice::Waiting(record)));
                        self.phase = Phase::Waiting { again };
                    }
                    None => {
                        todo.push(Action::Tell(Notice::Held(record)));
                        self.exit(Outcome::Skipped, todo);
                    }
                }
            }
            (Phase::Asking { .. }, Err(trouble)) => self.on_trouble(trouble, now, todo),
            // Whatever we gave up waiting for and got all the same goes back.
            (Phase::GivingBack { until, then }, Ok(Acquired::Granted(_))) => {
                let (until, then) = (*until, *then);
                self.return_unused(until, todo);
                self.phase = Phase::Releasing { until, then: Then::Exit(then) };
            }
            (Phase::GivingBack { then, .. }, _) => {
                let then = *then;
                self.exit(then, todo);
            }
            (Phase::Running(_) | Phase::Spawning { .. }, Ok(Acquired::Granted(_))) => {
                self.return_unused(now + self.policy.backend_timeout, todo);
            }
            _ => {}
        }
    }

    fn on_granted(&mut self, grant: Grant, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        let age = now.since(sent);
        if age <= self.policy.at_most / 2 {
            todo.push(Action::Tell(Notice::Granted(grant)));
            todo.push(Action::Spawn(Some(grant)));
            self.phase = Phase::Spawning { lease: Some(Lease { grant, taken: sent }) };
            return;
        }
        // Too much of the time is gone: the job could be stopped before it did anything, or worse, outlive the lock.
        self.return_unused(now + GIVE_BACK, todo);
        let trouble = Trouble::passing(format!("the backend took {} to grant the lock", crate::duration::format(age)))
            .hint("more than half of --at-most was gone, so the lock was given back");
        let then = self.tell_trouble(trouble, todo);
        self.phase = Phase::Releasing { until: now + GIVE_BACK, then };
    }

    pub(super) fn on_trouble(&mut self, trouble: Trouble, now: Moment, todo: &mut Vec<Action>) {
        match self.tell_trouble(trouble, todo) {
            Then::Exit(outcome) => self.leave(outcome, now, todo),
            Then::RunWithout => self.run_without(todo),
        }
    }

    pub(super) fn run_without(&mut self, todo: &mut Vec<Action>) {
        todo.push(Action::Spawn(None));
        self.phase = Phase::Spawning { lease: None };
    }

    pub(super) fn on_spawn_failed(&mut self, trouble: SpawnTrouble, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Spawning { lease } = &self.phase else { return };
        let lease = *lease;
        let outcome = trouble.outcome();
        todo.push(Action::Tell(Notice::NotStarted(trouble)));
        match lease {
            Some(_) => {
                let deadline = now + self.policy.backend_timeout;
                self.return_unused(deadline, todo);
                self.phase = Phase::Releasing { until: deadline + GRACE, then: Then::Exit(outcome) };
            }
            None => self.leave(outcome, now, todo),
        }
    }

    /// Says that the backend cannot be asked, and what comes of it.
    fn tell_trouble(&self, trouble: Trouble, todo: &mut Vec<Action>) -> Then {
        let policy = self.policy.on_backend_error;
        todo.push(Action::Tell(Notice::Backend(trouble, policy)));
        match policy {
            OnBackendError::Fail => Then::Exit(Outcome::Failed),
            OnBackendError::Skip => Then::Exit(Outcome::Skipped),
            OnBackendError::Run => Then::RunWithout,
        }
    }

    /// Gives up while a request is in flight: it may yet be granted, and then it goes back.
    pub(super) fn give_back(&mut self, then: Outcome, now: Moment, todo: &mut Vec<Action>) {
        todo.push(Action::StopTrying);
        self.phase = Phase::GivingBack { until: now + GIVE_BACK, then };
    }

    /// Ends a run that has no lock, as soon as it owes none.
    pub(super) fn leave(&mut self, then: Outcome, now: Moment, todo: &mut Vec<Action>) {
        match self.unanswered {
            Unanswered::Nothing => self.exit(then, todo),
            Unanswered::Taking => self.give_back(then, now, todo),
            Unanswered::Return => self.phase = Phase::Releasing { until: now + GIVE_BACK, then: Then::Exit(then) },
        }
    }

    /// Returns a lock under which no job has run.
    pub(super) fn return_unused(&mut self, deadline: Moment, todo: &mut Vec<Action>) {
        todo.push(Action::Release { hold: Duration::ZERO, deadline });
        self.unanswered = Unanswered::Return;
    }
}
