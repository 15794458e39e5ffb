//! What a run reports to its user, as values; `report` makes text and JSON of them, and nothing else.

use std::ffi::OsString;
use std::time::Duration;

use super::notify::NotifyEvent;
use super::policy::{OnBackendError, OnLost};
use crate::exit::ExitReason;
use crate::lock::BackendError;
use crate::lock::{Grant, LockState};
use crate::system::{Moment, Timestamp};

/// A report for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// These variables begin like those of options, and set nothing.
    UnknownVariables(Vec<String>),
    Granted(Grant),
    /// The run has no record, and only on some backends a token.
    RunNotRecorded(BackendError, Option<u64>),
    /// The record of this run was not closed, and the oldest ones have not gone.
    RecordNotClosed(BackendError),
    /// The lock ends at this time, sooner than requested: the backend can store no later one.
    EndShortened(Timestamp),
    Held(LockState),
    Waiting(LockState),
    /// An enclosing run holds the lock.
    Nested(LockState),
    /// No guardian could be started, for this reason.
    GuardianNotStarted(String),
    /// The guardian was lost, for this reason, and another was started.
    GuardianReplaced(String),
    /// The guardian was lost, and was not replaced, for this reason.
    GuardianLost(String),
    /// The job is frozen after a stall, while the lock is checked.
    JobFrozen,
    /// The server is full, and shedlock waits for room.
    ServerFull(BackendError),
    /// The backend could not be asked; and how long a lock may be held, if a request may have acquired it, or may yet acquire
    /// it, and that could not be undone.
    Backend(BackendError, OnBackendError, Option<Duration>),
    NotStarted(SpawnError),
    /// The handle of the lock could not be written, for this reason.
    NotHandedOver(String),
    /// At-most is used up; and until when it was extended, if it was.
    Expired(Duration, Option<Timestamp>),
    /// At-most is used up, and the job runs on; and until when it was extended, if it was.
    ExpiredButRunning(Duration, Option<Timestamp>),
    /// The run begins after a random part of --splay.
    Splaying(Duration),
    /// At-most was extended until this time, by the backend's clock.
    Extended(Timestamp),
    StopTimeout(Duration),
    Renewed,
    NotRenewed(BackendError),
    Lost(LossCause, OnLost),
    /// The lock was found lost only when it was to be released.
    FoundLost(LossCause),
    /// SIGKILL has not ended the job.
    Unkillable,
    /// How the job ended, and how long it ran.
    Ended(ExitReason, Duration),
    Released,
    NotReleased(BackendError),
    /// The acquisition of a lock was not answered and could not be undone: the lock may be held for so long.
    NotUndone(BackendError, Duration),
    Metrics(MetricsError),
    /// The command of `--notify` has ended.
    Notified(NotifyEvent),
    /// The command of `--notify` has failed: the end of a sentence says how.
    NotNotified(NotifyEvent, String),
}

/// The trouble with the metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MetricsError {
    /// The metrics could not be written in this directory, for this reason.
    NotWritten(String, String),
    /// The metrics were not written in time in this directory.
    TooSlow(String),
    /// The file held something else, so the counters begin anew.
    CountersReset(String),
}

/// The way in which a lock was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LossCause {
    /// The backend says that another owner or none holds it, and its time was not up.
    Gone,
    /// The backend says that another owner or none holds it, and its time was up before that answer: shedlock was too late.
    Late,
    /// The backend was asked in time to renew it and did not, with the last trouble that it answered; without any it
    /// was silent.
    NotRenewed(Option<BackendError>),
    /// The backend was not asked in time: for so long shedlock stood still, or got no processor.
    NotAsked(Duration),
}

impl LossCause {
    /// Returns the meaning of the answer *lost*, for a lock that lasted until `end`.
    pub(super) fn from_end(end: Moment, now: Moment) -> Self {
        if now >= end { Self::Late } else { Self::Gone }
    }
}

/// The reason for which the command could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpawnError {
    pub(crate) command: OsString,
    pub(crate) kind: SpawnErrorKind,
    /// The system's error text, in lower case.
    pub(crate) reason: String,
    pub(crate) hint: Option<String>,
}

/// The kind of a failed start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnErrorKind {
    NotFound,
    CannotExecute,
    /// The system gave shedlock no process.
    NoProcess,
}

impl SpawnErrorKind {
    /// Returns how the run ends.
    pub(super) fn exit_reason(self) -> ExitReason {
        match self {
            Self::NotFound => ExitReason::NotFound,
            Self::CannotExecute => ExitReason::CannotExecute,
            Self::NoProcess => ExitReason::Failed,
        }
    }
}
