//! A run after its job: giving the lock back, and what is said of it if that fails.

use std::time::Duration;

use super::event::Action;
use super::notice::{Notice, NoticeKind};
use super::running::Over;
use super::{GRACE, Phase, Run, Taken, Then, Unanswered};
use crate::backend::{BackendError, Kept};
use crate::system::Moment;

/// The extra time for a release that a pooler refuses for a while, as PgBouncer does for 15 seconds.
const LONGER: Duration = Duration::from_secs(20);

impl Run {
    /// Gives back the lock of a job that is over, if there was one.
    pub(super) fn on_job_over(&mut self, over: &Over, now: Moment, todo: &mut Vec<Action>) {
        let outcome = over.outcome;
        let Some(lock) = &over.lock else { return self.leave(outcome, now, todo) };
        if !lock.is_ours {
            self.unanswered = Unanswered::Return(Taken::NoMore);
        }
        let (hold, closing, deadline) = (lock.hold, self.policy.closing(outcome), now + self.policy.backend_timeout);
        todo.push(Action::Release { hold, closing, deadline });
        self.longer = Some((hold, closing));
        self.end = Some(lock.lease_end);
        self.phase = Phase::Releasing { until: deadline + GRACE, then: Then::Exit(outcome) };
    }

    /// Takes in the answer to a release; `tried` is the error of the try before.
    pub(super) fn on_released(
        &mut self,
        answer: Result<Kept, BackendError>,
        tried: Option<BackendError>,
        now: Moment,
        todo: &mut Vec<Action>,
    ) {
        let unused = match self.unanswered {
            Unanswered::Return(taken) => Some(taken),
            Unanswered::Nothing | Unanswered::Taking => None,
        };
        let then = match &self.phase {
            Phase::Releasing { then, .. } => Some(*then),
            Phase::Running(_) if unused.is_some() => None,
            _ => return,
        };
        if let (Err(error), Some(Then::Exit(_))) = (&answer, then)
            && error.lingers
            && let Some((hold, closing)) = self.longer.take()
            && let Phase::Releasing { until, .. } = &mut self.phase
        {
            let deadline = now + LONGER;
            *until = deadline + GRACE;
            todo.push(Action::Release { hold, closing, deadline });
            return;
        }
        match answer {
            Ok(Kept::Kept) => todo.push(Action::Emit(Notice::Released)),
            Ok(Kept::Lost) if unused.is_some() => {
                if let Some(error) = self.unmarked.take() {
                    self.emit_not_released(error, todo);
                }
            }
            Ok(Kept::Lost) => {
                let kind = self.end.map_or(NoticeKind::Gone, |end| NoticeKind::of_lost(end, now));
                todo.push(Action::Emit(match tried {
                    // Its time ran out while it was tried in vain, which is what the user can mend.
                    Some(error) if matches!(kind, NoticeKind::Late) => Notice::NotReleased(error),
                    _ => Notice::LostUnnoticed(kind),
                }));
            }
            Err(error) => self.emit_not_released(error, todo),
        }
        self.unanswered = Unanswered::Nothing;
        if let Some(then) = then {
            self.after_release(then, todo);
        }
    }

    /// Says that a lock was not given back: in the line that the backend could not be asked, if that is to come.
    pub(super) fn emit_not_released(&mut self, error: BackendError, todo: &mut Vec<Action>) {
        let held = self.policy.first_lease();
        match self.unanswered {
            Unanswered::Return(Taken::NoMore) => todo.push(Action::Emit(Notice::Unclosed(error))),
            Unanswered::Return(_) | Unanswered::Taking if self.complaint.is_some() => {
                self.emit_complaint(Some(held), todo);
            }
            Unanswered::Return(Taken::Perhaps) | Unanswered::Taking => {
                todo.push(Action::Emit(Notice::NotGivenBack(error, held)));
            }
            Unanswered::Return(Taken::Surely) | Unanswered::Nothing => {
                todo.push(Action::Emit(Notice::NotReleased(error)));
            }
        }
    }

    /// Returns the reason why a release has no answer: that of its last try, if one has failed.
    pub(super) fn unanswered_in_time(&mut self) -> BackendError {
        let silence = || BackendError::transient(format!("backend {} did not answer in time", self.policy.backend));
        self.tried.take().unwrap_or_else(silence)
    }

    pub(super) fn after_release(&mut self, then: Then, todo: &mut Vec<Action>) {
        match then {
            Then::Exit(outcome) => self.exit(outcome, todo),
            Then::RunWithout => self.run_without(todo),
        }
    }
}
