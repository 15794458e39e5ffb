//! A run after its job: releases the lock, and reports it if that fails.

use std::time::Duration;

use super::event::Action;
use super::notice::{LossCause, Notice};
use super::running::JobResult;
use super::{AfterRelease, Phase, Run, Unanswered, WORKER_GRACE, WasGranted};
use crate::lock::{BackendError, StillHeld};
use crate::system::Moment;

/// The extra time for a release that a pooler refuses for a while, as PgBouncer does for 15 seconds.
const POOLER_TIMEOUT: Duration = Duration::from_secs(20);

impl Run {
    /// Releases the lock of a job that is over, if there was one.
    pub(super) fn on_job_over(&mut self, result: JobResult, now: Moment, todo: &mut Vec<Action>) {
        let reason = result.reason;
        if let Some(notice) = result.explanation {
            self.account.explain(notice);
        }
        if let Some(job_time) = result.job_time {
            self.account.job_ended(reason, job_time, &self.policy, todo);
        }
        let Some(lock) = &result.lock else { return self.end_without_lock(reason, now, todo) };
        if !lock.is_ours {
            self.unanswered = Unanswered::Undo(WasGranted::NoLonger);
        }
        let (hold, closing, deadline) = (lock.hold, self.policy.closing(reason), now + self.policy.backend_timeout);
        todo.push(Action::Release { hold, closing, deadline });
        self.pooler_retry = Some((hold, closing));
        self.last_lease_end = Some(lock.lease_end);
        self.phase = Phase::Releasing { until: deadline + WORKER_GRACE, then: AfterRelease::Exit(reason) };
    }

    /// Takes in the answer to a release; `tried` is the error of the try before.
    pub(super) fn on_released(
        &mut self,
        answer: Result<StillHeld, BackendError>,
        tried: Option<BackendError>,
        now: Moment,
        todo: &mut Vec<Action>,
    ) {
        let unused = match self.unanswered {
            Unanswered::Undo(taken) => Some(taken),
            Unanswered::Nothing | Unanswered::Acquisition => None,
        };
        let then = match &self.phase {
            Phase::Releasing { then, .. } => Some(*then),
            Phase::Running(_) if unused.is_some() => None,
            _ => return,
        };
        if let (Err(error), Some(AfterRelease::Exit(_))) = (&answer, then)
            && error.lingers
            && let Some((hold, closing)) = self.pooler_retry.take()
            && let Phase::Releasing { until, .. } = &mut self.phase
        {
            let deadline = now + POOLER_TIMEOUT;
            *until = deadline + WORKER_GRACE;
            todo.push(Action::Release { hold, closing, deadline });
            return;
        }
        match answer {
            Ok(StillHeld::Held) => todo.push(Action::Emit(Notice::Released)),
            Ok(StillHeld::Lost) if unused.is_some() => {
                if let Some(error) = self.mark_error.take() {
                    self.report_not_released(error, todo);
                }
            }
            Ok(StillHeld::Lost) => {
                let kind = self.last_lease_end.map_or(LossCause::Gone, |end| LossCause::from_end(end, now));
                todo.push(Action::Emit(match tried {
                    // Its time ran out while it was tried in vain, which is what the user can mend.
                    Some(error) if matches!(kind, LossCause::Late) => Notice::NotReleased(error),
                    _ => Notice::FoundLost(kind),
                }));
            }
            Err(error) => self.report_not_released(error, todo),
        }
        self.unanswered = Unanswered::Nothing;
        if let Some(then) = then {
            self.after_release(then, todo);
        }
    }

    /// Reports that a lock was not released: together with the backend's error, if that is to be reported.
    pub(super) fn report_not_released(&mut self, error: BackendError, todo: &mut Vec<Action>) {
        // A lock that shedlock has not requested cannot be held.
        let held = self.backend_reached.then(|| self.policy.first_lease());
        match self.unanswered {
            Unanswered::Undo(WasGranted::NoLonger) => todo.push(Action::Emit(Notice::RecordNotClosed(error))),
            Unanswered::Undo(_) | Unanswered::Acquisition if self.unreported_error.is_some() => {
                self.report_backend_error(held, todo);
            }
            Unanswered::Undo(WasGranted::Maybe) | Unanswered::Acquisition => {
                todo.extend(held.map(|held| Action::Emit(Notice::NotUndone(error, held))));
            }
            Unanswered::Undo(WasGranted::Yes) | Unanswered::Nothing => {
                todo.push(Action::Emit(Notice::NotReleased(error)));
            }
        }
    }

    /// Returns the reason why a release has no answer: that of its last try, if one has failed.
    pub(super) fn no_answer_error(&mut self) -> BackendError {
        let silence = || BackendError::transient(format!("backend {} did not answer in time", self.backend));
        self.last_error.take().unwrap_or_else(silence)
    }

    pub(super) fn after_release(&mut self, then: AfterRelease, todo: &mut Vec<Action>) {
        match then {
            AfterRelease::Exit(reason) => self.exit(reason, todo),
            AfterRelease::RunWithout => self.run_without(todo),
        }
    }
}
