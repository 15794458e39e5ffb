//! A run until its job: acquires the lock, and undoes an acquisition that no job will use.

use std::time::Duration;

use super::event::{Action, Under, WhenFull};
use super::notice::{Notice, SpawnError};
use super::policy::OnBackendError;
use super::running::GrantedLock;
use super::{AfterRelease, Phase, Run, UNDO_TIMEOUT, Unanswered, WORKER_GRACE, WasGranted};
use crate::exit::ExitReason;
use crate::lock::{Acquired, BackendError, ErrorClass};
use crate::lock::{Closing, Grant, LockState};
use crate::system::Moment;

impl Run {
    pub(super) fn acquire(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let deadline = now + self.policy.backend_timeout;
        let when_full = if self.policy.wait.waits() { WhenFull::Answer } else { WhenFull::Retry };
        todo.push(Action::Acquire { deadline, when_full });
        self.unanswered = Unanswered::Acquisition;
        self.phase = Phase::Acquiring { give_up: deadline + WORKER_GRACE };
    }

    pub(super) fn on_acquired(
        &mut self,
        answer: Result<Acquired, BackendError>,
        sent: Moment,
        now: Moment,
        todo: &mut Vec<Action>,
    ) {
        self.unanswered = Unanswered::Nothing;
        // The release of a granted lock makes every request before it void. That another owner holds the lock now says nothing
        // of a request that the network still delays.
        self.ambiguous &= !matches!(answer, Ok(Acquired::Granted(_)));
        match (&self.phase, answer) {
            (Phase::Acquiring { .. }, Ok(Acquired::Granted(grant))) => self.on_granted(grant, sent, now, todo),
            (Phase::Acquiring { .. }, Ok(Acquired::Held(state))) => self.on_held(state, sent, now, todo),
            (Phase::Acquiring { .. }, Err(error))
                if error.class == ErrorClass::Overloaded && self.policy.wait.waits() =>
            {
                self.on_full(error, sent, now, todo);
            }
            (Phase::Acquiring { .. }, Err(error)) => self.on_trouble(error, now, todo),
            // A lock that is granted after the run gave up is released.
            (Phase::Undoing { until, then }, answer) => {
                let (until, then) = (*until, *then);
                match self.was_granted(&answer) {
                    Some(was_granted) => {
                        self.undo(was_granted, until, todo);
                        self.phase = Phase::Releasing { until, then: AfterRelease::Exit(then) };
                    }
                    None => self.exit(then, todo),
                }
            }
            (Phase::Running(_) | Phase::Spawning { .. }, answer) => {
                if let Some(was_granted) = self.was_granted(&answer) {
                    self.undo(was_granted, now + self.policy.backend_timeout, todo);
                }
            }
            _ => {}
        }
    }

    /// Returns whether an answer leaves an acquisition to undo.
    fn was_granted(&self, answer: &Result<Acquired, BackendError>) -> Option<WasGranted> {
        match answer {
            Ok(Acquired::Granted(_)) => Some(WasGranted::Yes),
            Ok(Acquired::Held(_)) | Err(_) if self.ambiguous => Some(WasGranted::Maybe),
            Ok(Acquired::Held(_)) | Err(_) => None,
        }
    }

    fn on_held(&mut self, state: LockState, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        if self.policy.enclosing.contains(&state.owner) {
            self.undo_beside_job(now, todo);
            self.account.leave_to_enclosing_run();
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

    /// Waits for room on a full server, which for a waiter is no error. When its time is over, what shedlock last knew of the
    /// lock counts: that it was held, or else nothing, and then the backend could not be asked.
    fn on_full(&mut self, error: BackendError, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        self.waiting.answered(now.since(sent));
        match (self.waiting.next_try_when_full(now, self.holder.is_some(), error.respite), self.holder.take()) {
            (Some(again), holder) => {
                self.holder = holder;
                todo.push(Action::Emit(Notice::ServerFull(error)));
                self.phase = Phase::Waiting { again };
            }
            (None, Some(state)) => self.skip(state, now, todo),
            (None, None) => self.on_trouble(error, now, todo),
        }
    }

    fn skip(&mut self, state: LockState, now: Moment, todo: &mut Vec<Action>) {
        self.emit_explanation(Notice::Held(state), todo);
        self.end_without_lock(ExitReason::Skipped, now, todo);
    }

    fn on_granted(&mut self, grant: Grant, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        let age = now.since(sent);
        if age <= self.policy.lease() / 2 {
            let lease = GrantedLock { grant, requested: sent };
            self.account.set_token(grant.token);
            self.emit_explanation(Notice::Granted(grant), todo);
            // Before there is a command: shedlock may be stopped at any moment.
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
        self.undo(WasGranted::Yes, deadline, todo);
        let error =
            BackendError::transient(format!("the backend took {} to grant the lock", crate::duration::format(age)))
                .hint(match self.policy.lease {
                    Some(_) => "more than half of --lease was gone, so the lock was released",
                    None => "more than half of --at-most was gone, so the lock was released",
                });
        let then = self.on_backend_error(error, todo);
        // A job that needs no lock has waited long enough; the lock is released beside it.
        let until = if matches!(then, AfterRelease::RunWithout) { now + UNDO_TIMEOUT } else { deadline + WORKER_GRACE };
        self.phase = Phase::Releasing { until, then };
    }

    pub(super) fn on_trouble(&mut self, error: BackendError, now: Moment, todo: &mut Vec<Action>) {
        match self.on_backend_error(error, todo) {
            AfterRelease::Exit(reason) => self.end_without_lock(reason, now, todo),
            AfterRelease::RunWithout => {
                self.undo_beside_job(now, todo);
                self.run_without(todo);
            }
        }
    }

    /// Undoes an acquisition whose answer was lost while a job runs that needs no lock: the job has waited for the backend long
    /// enough, and the undo gets more time.
    fn undo_beside_job(&mut self, now: Moment, todo: &mut Vec<Action>) {
        if self.ambiguous && self.unanswered == Unanswered::Nothing {
            self.undo(WasGranted::Maybe, now + self.policy.backend_timeout, todo);
        }
    }

    pub(super) fn run_without(&mut self, todo: &mut Vec<Action>) {
        todo.push(Action::Spawn(Under::Nothing));
        self.phase = Phase::Spawning { lease: None };
    }

    pub(super) fn on_spawn_failed(&mut self, error: SpawnError, now: Moment, todo: &mut Vec<Action>) {
        let kind = error.kind;
        let Phase::Spawning { lease } = self.phase else { return };
        let reason = kind.exit_reason();
        self.emit_explanation(Notice::NotStarted(error), todo);
        match lease {
            Some(_) => {
                let deadline = now + self.policy.backend_timeout;
                let closing = self.policy.closing(reason);
                todo.push(Action::Release { hold: Duration::ZERO, closing, deadline });
                self.unanswered = Unanswered::Undo(WasGranted::Yes);
                self.phase = Phase::Releasing { until: deadline + WORKER_GRACE, then: AfterRelease::Exit(reason) };
            }
            None => self.end_without_lock(reason, now, todo),
        }
    }

    /// Ends a run without a job: the reader of the handle releases the lock, or its time ends it.
    pub(super) fn on_handed_over(&mut self, todo: &mut Vec<Action>) {
        if let Phase::Spawning { lease: Some(_) } = &self.phase {
            self.exit(ExitReason::Exited(0), todo);
        }
    }

    pub(super) fn on_not_handed_over(&mut self, why: String, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Spawning { lease: Some(_) } = &self.phase else { return };
        todo.push(Action::Emit(Notice::NotHandedOver(why)));
        let deadline = now + self.policy.backend_timeout;
        self.undo(WasGranted::Yes, deadline, todo);
        self.phase = Phase::Releasing { until: deadline + WORKER_GRACE, then: AfterRelease::Exit(ExitReason::Failed) };
    }

    /// Decides what follows when the backend cannot be asked. A run that ends reports it at the end, when it is known whether
    /// anything was left held: that is one line.
    fn on_backend_error(&mut self, error: BackendError, todo: &mut Vec<Action>) -> AfterRelease {
        let then = match self.policy.on_backend_error {
            OnBackendError::Fail => AfterRelease::Exit(ExitReason::Failed),
            OnBackendError::Skip => AfterRelease::Exit(ExitReason::Skipped),
            OnBackendError::Run => AfterRelease::RunWithout,
        };
        self.unreported_error = Some(error);
        if matches!(then, AfterRelease::RunWithout) {
            self.report_backend_error(None, todo);
        }
        then
    }

    /// Reports the backend's error, if it was not reported yet, and for how long a lock may be held whose acquisition was not
    /// undone.
    pub(super) fn report_backend_error(&mut self, held: Option<Duration>, todo: &mut Vec<Action>) {
        if let Some(error) = self.unreported_error.take() {
            self.emit_explanation(Notice::Backend(error, self.policy.on_backend_error, held), todo);
        }
    }

    /// Reports how the run begins or ends, and keeps it for the notifications.
    fn emit_explanation(&mut self, notice: Notice, todo: &mut Vec<Action>) {
        self.account.explain(notice.clone());
        todo.push(Action::Emit(notice));
    }

    /// Gives up while a request is in flight: it may yet be granted, and then the lock is released.
    pub(super) fn undo_in_flight(&mut self, then: ExitReason, now: Moment, todo: &mut Vec<Action>) {
        todo.push(Action::StopTrying);
        self.phase = Phase::Undoing { until: now + UNDO_TIMEOUT, then };
    }

    /// Ends a run that has no lock, once nothing is left to undo.
    pub(super) fn end_without_lock(&mut self, then: ExitReason, now: Moment, todo: &mut Vec<Action>) {
        match self.unanswered {
            Unanswered::Nothing if self.ambiguous => {
                let until = self.undo_deadline(then, now);
                self.undo(WasGranted::Maybe, until, todo);
                self.phase = Phase::Releasing { until, then: AfterRelease::Exit(then) };
            }
            Unanswered::Nothing => self.exit(then, todo),
            Unanswered::Acquisition => self.undo_in_flight(then, now, todo),
            Unanswered::Undo(_) => {
                self.phase = Phase::Releasing { until: now + UNDO_TIMEOUT, then: AfterRelease::Exit(then) }
            }
        }
    }

    /// Returns until when to try to undo an acquisition: for what it has left of `--backend-timeout`, and a second at least;
    /// after a stop signal, a second.
    fn undo_deadline(&self, then: ExitReason, now: Moment) -> Moment {
        match self.phase {
            Phase::Acquiring { give_up } if !matches!(then, ExitReason::Stopped(_)) => give_up.max(now + UNDO_TIMEOUT),
            _ => now + UNDO_TIMEOUT,
        }
    }

    /// Releases a lock under which no job has run, or an acquisition that may yet be granted.
    pub(super) fn undo(&mut self, was_granted: WasGranted, deadline: Moment, todo: &mut Vec<Action>) {
        todo.push(Action::Release { hold: Duration::ZERO, closing: Closing::Undone, deadline });
        self.unanswered = Unanswered::Undo(was_granted);
        self.ambiguous = false;
    }
}
