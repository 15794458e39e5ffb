//! What goes into the state machine of a run, and what comes out.

use std::time::Duration;

use super::notice::{Notice, SpawnError, SpawnErrorKind};
use super::policy::{Leftovers, Sender, Term};
use crate::backend::{Acquired, BackendError, Kept};
use crate::exit::ExitReason;
use crate::lock::{Closing, Grant, LockState};
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
    /// The request that is answered next failed for this reason, and is tried again.
    Tried(BackendError),
    /// The taking that is answered next is not recorded, for this reason. It may have a token.
    Unrecorded(BackendError, Option<u64>),
    /// The release that is answered next did not close its record, for this reason.
    Unclosed(BackendError),
    /// The lock whose taking, renewal or release is answered next ends at this time, the last that the backend can
    /// store.
    Cut(Timestamp),
    /// The backend is being asked for what [`Action::Renew`] wants, since this moment.
    Renewing(Moment),
    /// The backend's answer to [`Action::Renew`].
    Renewed { answer: Result<Kept, BackendError>, sent: Moment },
    /// The backend's answer to [`Action::QueryLock`].
    Queried { answer: Result<Ownership, BackendError>, sent: Moment },
    /// The backend's answer to [`Action::Release`].
    Released(Result<Kept, BackendError>),
    /// The command was started.
    Spawned,
    /// The command could not be started. This may come while the run already counts it as running, since an execution
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
    /// Some other process that had become our child ended and was reaped.
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

/// Says whether the lock is still ours, by the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The lock is ours for `left`, until `until` by the backend's clock if that is a time.
    Ours { until: Option<Timestamp>, left: Duration },
    /// Another owner holds the lock, or nobody does.
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
    /// Our own lock; at-most is used up at `until`, by the backend's clock.
    Lock {
        grant: Grant,
        until: Timestamp,
    },
    /// The lock of a run that we are part of.
    Enclosing(LockState),
}

/// Says what is to be done. Actions are performed in order, and each at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask the backend for the lock, trying again until `deadline`.
    Acquire { deadline: Moment, when_full: WhenFull },
    /// Ask the backend to make the lock ours for this term.
    Renew { term: Term, deadline: Moment },
    /// Ask the backend for the lock's end.
    QueryLock { deadline: Moment },
    /// Give the lock back, to stay held until `hold` after it was taken, and close the history's record.
    Release { hold: Duration, closing: Closing, deadline: Moment },
    /// Let the request that is in flight be the last try.
    StopTrying,
    /// Have the job killed when we are dead, and at this moment also if we live: we may be stopped. It replaces the
    /// moment that was named before.
    Guard(Option<Moment>),
    /// Start the command, or hand the lock over.
    Spawn(Under),
    /// Send a signal to the job's group, or on a terminal to the command.
    Forward(Signal),
    /// Send a signal to the command and all that came of it, as a beginning of its end.
    SignalTree(Signal),
    /// Send SIGKILL to all of the job, and check whether anything is left.
    KillTree,
    /// Check whether anything of the job is left; [`Event::LeftoversGone`] says that nothing is.
    CheckLeftovers(Leftovers),
    /// Stop the job until [`Action::Thaw`].
    Freeze,
    /// Continue what [`Action::Freeze`] stopped.
    Thaw,
    /// Stop ourselves as this signal does, until we are continued.
    StopOurselves(Signal),
    /// Report to the user.
    Emit(Notice),
    /// End the process.
    Exit(ExitReason),
}
