//! What a run has to tell its user, as values; `report` makes lines of them.

use std::ffi::OsString;
use std::time::Duration;

use super::policy::{OnBackendError, OnLost};
use crate::backend::BackendError;
use crate::exit::ExitReason;
use crate::lock::{Grant, LockState};
use crate::system::{Moment, Timestamp};

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// These variables begin like those of options, and set nothing.
    Unknown(Vec<String>),
    Granted(Grant),
    /// There is no token, and no record of this run.
    Unrecorded(BackendError),
    /// The record of this run was not closed, and the oldest ones have not gone.
    Unclosed(BackendError),
    /// The lock ends then, sooner than was asked for, since the backend holds no later times.
    Cut(Timestamp),
    Held(LockState),
    Waiting(LockState),
    /// A run that we are part of holds the lock.
    Nested(LockState),
    /// There is no process that ends the job if we are killed, and why.
    Unguarded(String),
    /// The guardian was lost, and why; another was started.
    Reguarded(String),
    /// The guardian was lost, and why it was not replaced.
    GuardianLost(String),
    /// After a stall the job stands still while the lock is checked.
    Checking,
    /// The server is full, and we wait for room.
    Full(BackendError),
    /// The backend could not be asked; and how long a lock is held from when it is taken, if a request may have taken it, or may
    /// yet take it, that could not be given back.
    Backend(BackendError, OnBackendError, Option<Duration>),
    NotStarted(SpawnError),
    /// The handle of the lock could not be given to anybody, and why.
    NotHandedOver(String),
    /// At-most is used up; and until when it was extended, if it was.
    Expired(Duration, Option<Timestamp>),
    /// The same, and the job runs on.
    RunsOn(Duration, Option<Timestamp>),
    /// At-most is used up only then, by the backend's clock.
    Extended(Timestamp),
    StopTimeout(Duration),
    Renewed,
    NotRenewed(BackendError),
    Lost(NoticeKind, OnLost),
    /// The lock was found lost only when it was to be released.
    LostUnnoticed(NoticeKind),
    /// SIGKILL has not ended the job.
    Unkillable,
    Ended(ExitReason),
    Released,
    NotReleased(BackendError),
    /// What a request without an answer may have taken, or may yet take for so long, could not be given back.
    NotGivenBack(BackendError, Duration),
    Metrics(MetricsError),
}

/// Why the metrics are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MetricsError {
    /// They could not be written in this directory, and why.
    NotWritten(String, String),
    /// They were not written in time in this directory.
    TooSlow(String),
    /// In this file was something else, and the counters begin anew.
    Foreign(String),
}

/// How a lock was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// The backend says that it is not ours, and its time was not up.
    Gone,
    /// The backend says that it is not ours, and its time was up before that answer: shedlock was too late.
    Late,
    /// The backend was asked in time to renew it and did not, with the last trouble that it answered; without any it was silent.
    NotRenewed(Option<BackendError>),
    /// The backend was not asked in time: for so long shedlock stood still, or got no processor.
    NotAsked(Duration),
}

impl NoticeKind {
    /// What it means that the backend says *lost*, of a lock that lasted until `end`.
    pub(super) fn of_lost(end: Moment, now: Moment) -> Self {
        if now >= end { Self::Late } else { Self::Gone }
    }
}

/// Why the command could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpawnError {
    pub(crate) command: OsString,
    pub(crate) kind: SpawnErrorKind,
    /// The system's word for it, lower case.
    pub(crate) reason: String,
    pub(crate) hint: Option<String>,
}

/// What failed of the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnErrorKind {
    NotFound,
    CannotExecute,
    /// The system gave us no process.
    NoProcess,
}

impl SpawnErrorKind {
    /// What the run comes to.
    pub(super) fn outcome(self) -> ExitReason {
        match self {
            Self::NotFound => ExitReason::NotFound,
            Self::CannotExecute => ExitReason::CannotExecute,
            Self::NoProcess => ExitReason::Failed,
        }
    }
}
