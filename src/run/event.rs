//! What goes into the state machine of a run, and what comes out.

use std::time::Duration;

use super::notice::{Notice, SpawnError, SpawnErrorKind};
use super::notify::NotifyEvent;
use super::policy::{Leftovers, Sender, Term};
use crate::exit::ExitReason;
use crate::lock::{Acquired, BackendError, StillHeld};
use crate::lock::{Closing, Grant, LockState, RunOutcome};
use crate::system::Signal;
use crate::system::{Moment, Timestamp};

/// Says what happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// The run begins. It comes first, and once.
    Begin,
    /// Shedlock received a signal.
    Signalled { signal: Signal, sender: Sender },
    /// The backend's answer to [`Action::Acquire`]; `sent` is from before the request that was answered. If it is
    /// `ambiguous` the answer to this request or to one before it was lost, and what was asked for may yet be carried
    /// out.
    Acquired { answer: Result<Acquired, BackendError>, sent: Moment, ambiguous: bool },
    /// A connection to the backend was opened: a request may have come to it.
    BackendReached,
    /// The connection was closed, and every request so far was answered: the next one has to reach the backend anew.
    BackendLeft,
    /// The request that is answered next failed for this reason, and is tried again.
    Tried(BackendError),
    /// The acquisition that is answered next is not recorded, for this reason. It may have a token.
    RunNotRecorded(BackendError, Option<u64>),
    /// The release that is answered next did not close its record, for this reason.
    RecordNotClosed(BackendError),
    /// The lock whose acquisition, renewal or release is answered next ends at this time, the last that the backend can
    /// store.
    EndShortened(Timestamp),
    /// The worker sent the request of [`Action::Renew`] at this moment.
    Renewing(Moment),
    /// The backend's answer to [`Action::Renew`].
    Renewed { answer: Result<StillHeld, BackendError>, sent: Moment },
    /// The backend's answer to [`Action::QueryLock`].
    Queried { answer: Result<Ownership, BackendError>, sent: Moment },
    /// The backend's answer to [`Action::Release`].
    Released(Result<StillHeld, BackendError>),
    /// The command was started.
    Spawned,
    /// The command could not be started. This may come while the run already counts it as running, because an execution
    /// can take long.
    SpawnFailed(SpawnError),
    /// The handle of the lock was written: its reader is responsible for the lock from now on.
    HandedOver,
    /// The handle could not be written, for this reason.
    NotHandedOver(String),
    /// The command stopped itself, or was stopped.
    JobStopped(Signal),
    /// The command ended and was reaped.
    JobEnded(JobEnd),
    /// Another process that had become shedlock's child ended and was reaped.
    OrphanEnded(JobEnd),
    /// [`Action::CheckLeftovers`] found no process.
    LeftoversGone,
    /// Shedlock or the machine was stopped for a while.
    Stalled,
    /// The time that [`Run::deadline`] named may have come. It comes after everything else that has happened: after a
    /// stall an answer may be there that makes up for a deadline that has passed.
    Tick,
}

impl Event {
    /// Returns whether the backend has answered a request, if only with an error.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Acquired { .. } | Self::Renewed { .. } | Self::Queried { .. } | Self::Released(_))
    }
}

/// Says how the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobEnd {
    Exited(u8),
    Killed(Signal),
    /// The command could not be executed, which took long to show.
    NotStarted(SpawnErrorKind),
}

/// Says whether the run still owns its lock, by the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The run owns the lock for `left`, until `until` by the backend's clock if that is a time.
    Held { until: Option<Timestamp>, left: Duration },
    /// Another owner holds the lock, or none does.
    Gone,
}

/// Says what to do when the server has no room for another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// Try again, as after any transient error.
    Retry,
    /// Answer that the server is full: the run waits for room at its own pace.
    Answer,
}

/// Names the lock under which the command is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Under {
    Nothing,
    /// Shedlock's own lock; at-most is used up at `until`, by the backend's clock.
    Lock {
        grant: Grant,
        until: Timestamp,
    },
    /// The lock of an enclosing run.
    Enclosing(LockState),
}

/// Says what is to be done. Actions are performed in order, and each at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask the backend for the lock, trying again until `deadline`.
    Acquire { deadline: Moment, when_full: WhenFull },
    /// Ask the backend to extend the lock by this term.
    Renew { term: Term, deadline: Moment },
    /// Ask the backend for the lock's end.
    QueryLock { deadline: Moment },
    /// Release the lock, to stay held until `hold` after its acquisition, and close the record. The guardian is dismissed before,
    /// because it would end what the job left behind.
    Release { hold: Duration, closing: Closing, deadline: Moment },
    /// Let the request that is in flight be the last try.
    StopTrying,
    /// Have the guardian kill the job when shedlock is dead, and at this moment also if shedlock lives: it may be stopped. The
    /// moment replaces the one before.
    Guard(Option<Moment>),
    /// Start the command, or hand the lock over.
    Spawn(Under),
    /// Send a signal to the job's group, or on a terminal to the command.
    Forward(Signal),
    /// Send a signal to the command and all its descendants, to begin the end of the job.
    SignalTree(Signal),
    /// Send SIGKILL to all of the job, and check whether anything is left.
    KillTree,
    /// Check whether anything of the job is left; [`Event::LeftoversGone`] says that nothing is.
    CheckLeftovers(Leftovers),
    /// Stop the job until [`Action::Thaw`].
    Freeze,
    /// Continue what [`Action::Freeze`] stopped.
    Thaw,
    /// Stop shedlock as this signal does, until it is continued.
    StopOurselves(Signal),
    /// Report to the user, as text or JSON.
    Emit(Notice),
    /// Record the run in the metrics, if there are any.
    RecordMetrics(RunMetrics),
    /// Wait a moment until the metrics are written.
    FinishMetrics,
    /// Run the command of `--notify`, if it is wanted for this event; at the end of a run wait for it.
    Notify(Notification),
    /// End the process.
    Exit(ExitReason),
}

/// Says what the metrics record of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunMetrics {
    /// The job was started just now.
    Started,
    /// The job, or a run without one, has ended just now. A run that found the lock held has no outcome.
    Ended { outcome: Option<RunOutcome>, exit_code: u8 },
}

/// Describes an event for the command of `--notify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notification {
    pub(crate) event: NotifyEvent,
    /// The token of the lock that was granted.
    pub(crate) token: Option<u64>,
    /// How the run ended, and how long its job ran; `None` for the start.
    pub(crate) end: Option<(ExitReason, Duration)>,
    /// The notice that says how the run began or ended.
    pub(crate) explanation: Option<Notice>,
}
