//! The guardian of a run: started, sent new deadlines, replaced when it is lost, and dismissed.

use std::io::ErrorKind;

use crate::job::{Guardian, Job};
use crate::run::Notice;
use crate::system::{Helpers, Moment, error_text};

/// The guardian of a run, and whether another may be started.
pub(super) enum GuardianState {
    /// No guardian was needed so far.
    Unneeded,
    Running(Guardian),
    /// The guardian was lost or could not be started, and no other could be started so far.
    Lost,
    /// The guardian was dismissed: there will be no other.
    Over,
}

impl GuardianState {
    /// Returns the guardian that runs.
    pub(super) fn running(&self) -> Option<&Guardian> {
        match self {
            Self::Running(guardian) => Some(guardian),
            _ => None,
        }
    }

    /// Starts the guardian, sends it a new deadline, or replaces a lost one, and returns what to report. If that fails, the
    /// job runs on without a guardian.
    pub(super) fn set(
        &mut self,
        at: Option<Moment>,
        owner: &str,
        mut job: Option<&mut Job>,
        helpers: &Helpers,
    ) -> Option<Notice> {
        let (lost, reported) = match self {
            Self::Running(guardian) => match guardian.kill_at(at).map_err(|error| (error.kind(), error)) {
                Ok(()) => return None,
                Err((ErrorKind::BrokenPipe, _)) => (Some("it was killed".to_owned()), false),
                Err((ErrorKind::WouldBlock, _)) => (Some("it was stopped".to_owned()), false),
                Err((_, error)) => (Some(error_text(&error)), false),
            },
            Self::Over => return None,
            Self::Unneeded => (None, false),
            Self::Lost => (None, true),
        };
        self.dismiss(job.as_deref_mut());
        let (state, notice) = match (Guardian::start(owner, job, at, helpers), lost) {
            (Ok(guardian), lost) => (Self::Running(guardian), lost.map(Notice::GuardianReplaced)),
            (Err(error), Some(why)) => {
                let why = format!("{why}, and no other could be started: {}", error_text(&error));
                (Self::Lost, Some(Notice::GuardianLost(why)))
            }
            (Err(_), None) if reported => (Self::Lost, None),
            (Err(error), None) => (Self::Lost, Some(Notice::GuardianNotStarted(error_text(&error)))),
        };
        *self = state;
        notice
    }

    /// Dismisses the guardian when the job is over, or did not start.
    pub(super) fn dismiss(&mut self, job: Option<&mut Job>) {
        match std::mem::replace(self, Self::Over) {
            Self::Running(guardian) => {
                if let Some(job) = job {
                    job.forget_child(guardian.pid());
                }
                guardian.dismiss();
            }
            other => *self = other,
        }
    }
}
