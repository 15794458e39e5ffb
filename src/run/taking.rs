//! A run until its job: asking for the lock, and giving back what nobody will use.

use std::time::Duration;

use super::event::{Action, Under, WhenFull};
use super::notice::{Notice, SpawnError};
use super::policy::OnBackendError;
use super::running::Lease;
use super::{GIVE_BACK, GRACE, Phase, Run, Taken, Then, Unanswered};
use crate::backend::{Acquired, BackendError, ErrorClass};
use crate::exit::ExitReason;
use crate::lock::{Closing, Grant, LockState};
use crate::system::Moment;

impl Run {
    pub(super) fn acquire(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let deadline = now + self.policy.backend_timeout;
        let when_full = if self.policy.wait.waits() { WhenFull::Answer } else { WhenFull::Retry };
        todo.push(Action::Acquire { deadline, when_full });
        self.unanswered = Unanswered::Taking;
        self.phase = Phase::Asking { give_up: deadline + GRACE };
    }

    pub(super) fn on_acquired(
        &mut self,
        answer: Result<Acquired, BackendError>,
        sent: Moment,
        now: Moment,
        todo: &mut Vec<Action>,
    ) {
        self.unanswered = Unanswered::Nothing;
        // With the release of a lock that is ours every request before it is void. That another holds it now says nothing of
        // one that the network keeps.
        self.ambiguous &= !matches!(answer, Ok(Acquired::Granted(_)));
        match (&self.phase, answer) {
            (Phase::Asking { .. }, Ok(Acquired::Granted(grant))) => self.on_granted(grant, sent, now, todo),
            (Phase::Asking { .. }, Ok(Acquired::Held(state))) => self.on_held(state, sent, now, todo),
            (Phase::Asking { .. }, Err(error)) if error.class == ErrorClass::Overloaded && self.policy.wait.waits() => {
                self.on_full(error, sent, now, todo);
            }
            (Phase::Asking { .. }, Err(error)) => self.on_trouble(error, now, todo),
            // A lock that is granted after the run gave up goes back.
            (Phase::GivingBack { until, then }, answer) => {
                let (until, then) = (*until, *then);
                match self.taken(&answer) {
                    Some(taken) => {
                        self.return_unused(taken, until, todo);
                        self.phase = Phase::Releasing { until, then: Then::Exit(then) };
                    }
                    None => self.exit(then, todo),
                }
            }
            (Phase::Running(_) | Phase::Spawning { .. }, answer) => {
                if let Some(taken) = self.taken(&answer) {
                    self.return_unused(taken, now + self.policy.backend_timeout, todo);
                }
            }
            _ => {}
        }
    }

    /// Returns whether an answer leaves a lock to give back.
    fn taken(&self, answer: &Result<Acquired, BackendError>) -> Option<Taken> {
        match answer {
            Ok(Acquired::Granted(_)) => Some(Taken::Surely),
            Ok(Acquired::Held(_)) | Err(_) if self.ambiguous => Some(Taken::Perhaps),
            Ok(Acquired::Held(_)) | Err(_) => None,
        }
    }

    fn on_held(&mut self, state: LockState, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        if self.policy.enclosing.contains(&state.owner) {
            self.return_beside(now, todo);
            todo.push(Action::Emit(Notice::Nested(state.clone())));
            todo.push(Action::Spawn(Under::Enclosing(state)));
            self.phase = Phase::Spawning { lease: None };
            return;
        }
        self.waiting.answered(now.since(sent));
        match self.waiting.next_try(now, state.left) {
            Some(again) => {
                self.holder = Some(state.clone());
                todo.push(Action::Emit(Notice::Waiting(state)));
                self.phase = Phase::Waiting { again };
            }
            None => self.skip(state, now, todo),
        }
    }

    /// Waits for room on a full server, which for a waiter is no error. When its time is over, what we last knew of the
    /// lock counts: that it was held, or else nothing, and then the backend could not be asked.
    fn on_full(&mut self, error: BackendError, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        self.waiting.answered(now.since(sent));
        match (self.waiting.next_try_when_full(now, self.holder.is_some(), error.respite), self.holder.take()) {
            (Some(again), holder) => {
                self.holder = holder;
                todo.push(Action::Emit(Notice::Full(error)));
                self.phase = Phase::Waiting { again };
            }
            (None, Some(state)) => self.skip(state, now, todo),
            (None, None) => self.on_trouble(error, now, todo),
        }
    }

    fn skip(&mut self, state: LockState, now: Moment, todo: &mut Vec<Action>) {
        todo.push(Action::Emit(Notice::Held(state)));
        self.leave(ExitReason::Skipped, now, todo);
    }

    fn on_granted(&mut self, grant: Grant, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        let age = now.since(sent);
        if age <= self.policy.lease() / 2 {
            let lease = Lease { grant, taken: sent };
            todo.push(Action::Emit(Notice::Granted(grant)));
            // Before there is a command: we may be stopped at any moment.
            if self.policy.guarded {
                let (end, limit) = (sent + self.policy.first_lease(), self.policy.limit(sent));
                todo.push(Action::Guard(self.timing.guard_at(&self.policy, end, limit)));
            }
            todo.push(Action::Spawn(Under::Lock { grant, until: grant.locked_at + self.policy.at_most }));
            self.phase = Phase::Spawning { lease: Some(lease) };
            return;
        }
        // Too much of the time is gone: the job could be stopped before it did anything, or worse, outlive the lock.
        let deadline = now + self.policy.backend_timeout;
        self.return_unused(Taken::Surely, deadline, todo);
        let error =
            BackendError::transient(format!("the backend took {} to grant the lock", crate::duration::format(age)))
                .hint(match self.policy.lease {
                    Some(_) => "more than half of --lease was gone, so the lock was released",
                    None => "more than half of --at-most was gone, so the lock was released",
                });
        let then = self.complain(error, todo);
        // A job that needs no lock has waited long enough; the lock goes back beside it.
        let until = if matches!(then, Then::RunWithout) { now + GIVE_BACK } else { deadline + GRACE };
        self.phase = Phase::Releasing { until, then };
    }

    pub(super) fn on_trouble(&mut self, error: BackendError, now: Moment, todo: &mut Vec<Action>) {
        match self.complain(error, todo) {
            Then::Exit(outcome) => self.leave(outcome, now, todo),
            Then::RunWithout => {
                self.return_beside(now, todo);
                self.run_without(todo);
            }
        }
    }

    /// Returns what may have been taken while a job runs that needs none of it: it has waited for the backend long enough,
    /// and meanwhile the giving back has more time.
    fn return_beside(&mut self, now: Moment, todo: &mut Vec<Action>) {
        if self.ambiguous && self.unanswered == Unanswered::Nothing {
            self.return_unused(Taken::Perhaps, now + self.policy.backend_timeout, todo);
        }
    }

    pub(super) fn run_without(&mut self, todo: &mut Vec<Action>) {
        todo.push(Action::Spawn(Under::Nothing));
        self.phase = Phase::Spawning { lease: None };
    }

    pub(super) fn on_spawn_failed(&mut self, error: SpawnError, now: Moment, todo: &mut Vec<Action>) {
        let kind = error.kind;
        let Phase::Spawning { lease } = self.phase else { return };
        let outcome = kind.outcome();
        todo.push(Action::Emit(Notice::NotStarted(error)));
        match lease {
            Some(_) => {
                let deadline = now + self.policy.backend_timeout;
                let closing = self.policy.closing(outcome);
                todo.push(Action::Release { hold: Duration::ZERO, closing, deadline });
                self.unanswered = Unanswered::Return(Taken::Surely);
                self.phase = Phase::Releasing { until: deadline + GRACE, then: Then::Exit(outcome) };
            }
            None => self.leave(outcome, now, todo),
        }
    }

    /// Ends a run without a job: the reader of the handle gives the lock back, or its time ends it.
    pub(super) fn on_handed_over(&mut self, todo: &mut Vec<Action>) {
        if let Phase::Spawning { lease: Some(_) } = &self.phase {
            self.exit(ExitReason::Exited(0), todo);
        }
    }

    pub(super) fn on_not_handed_over(&mut self, why: String, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Spawning { lease: Some(_) } = &self.phase else { return };
        todo.push(Action::Emit(Notice::NotHandedOver(why)));
        let deadline = now + self.policy.backend_timeout;
        self.return_unused(Taken::Surely, deadline, todo);
        self.phase = Phase::Releasing { until: deadline + GRACE, then: Then::Exit(ExitReason::Failed) };
    }

    /// Says that the backend cannot be asked, and what comes of it. A run that ends says so at the end, when it is known whether
    /// anything was left held: that is one line.
    fn complain(&mut self, error: BackendError, todo: &mut Vec<Action>) -> Then {
        let then = match self.policy.on_backend_error {
            OnBackendError::Fail => Then::Exit(ExitReason::Failed),
            OnBackendError::Skip => Then::Exit(ExitReason::Skipped),
            OnBackendError::Run => Then::RunWithout,
        };
        self.complaint = Some(error);
        if matches!(then, Then::RunWithout) {
            self.emit_complaint(None, todo);
        }
        then
    }

    /// Tells the complaint, if it was not told yet, and for how long a lock may be held that was not given back.
    pub(super) fn emit_complaint(&mut self, held: Option<Duration>, todo: &mut Vec<Action>) {
        if let Some(error) = self.complaint.take() {
            todo.push(Action::Emit(Notice::Backend(error, self.policy.on_backend_error, held)));
        }
    }

    /// Gives up while a request is in flight: it may yet be granted, and then it goes back.
    pub(super) fn give_back(&mut self, then: ExitReason, now: Moment, todo: &mut Vec<Action>) {
        todo.push(Action::StopTrying);
        self.phase = Phase::GivingBack { until: now + GIVE_BACK, then };
    }

    /// Ends a run that has no lock, as soon as it owes none.
    pub(super) fn leave(&mut self, then: ExitReason, now: Moment, todo: &mut Vec<Action>) {
        match self.unanswered {
            Unanswered::Nothing if self.ambiguous => {
                let until = self.give_back_until(then, now);
                self.return_unused(Taken::Perhaps, until, todo);
                self.phase = Phase::Releasing { until, then: Then::Exit(then) };
            }
            Unanswered::Nothing => self.exit(then, todo),
            Unanswered::Taking => self.give_back(then, now, todo),
            Unanswered::Return(_) => self.phase = Phase::Releasing { until: now + GIVE_BACK, then: Then::Exit(then) },
        }
    }

    /// Returns until when to try to give back what may have been taken: for what the taking has left of `--backend-timeout`,
    /// and a second at least; after a stop signal, a second.
    fn give_back_until(&self, then: ExitReason, now: Moment) -> Moment {
        match self.phase {
            Phase::Asking { give_up } if !matches!(then, ExitReason::Stopped(_)) => give_up.max(now + GIVE_BACK),
            _ => now + GIVE_BACK,
        }
    }

    /// Returns a lock under which no job has run.
    pub(super) fn return_unused(&mut self, taken: Taken, deadline: Moment, todo: &mut Vec<Action>) {
        todo.push(Action::Release { hold: Duration::ZERO, closing: Closing::GivenUp, deadline });
        self.unanswered = Unanswered::Return(taken);
        self.ambiguous = false;
    }
}
