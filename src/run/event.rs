//! What goes into the state machine of a run, and what comes out.

use std::time::Duration;

use super::notice::{Notice, SpawnTrouble};
use crate::backend::{Acquired, Kept, Trouble};
use crate::clock::Moment;
use crate::exit::Outcome;
use crate::lock::{Closing, Grant};
use crate::signal::Signal;

/// What happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// The run begins. It comes first, and once.
    Begin,
    /// A signal came to us.
    Signalled { signal: Signal, sender: Sender },
    /// The backend's answer to [`Action::Acquire`]; `sent` is from before the request that was answered.
    Acquired { answer: Result<Acquired, Trouble>, sent: Moment },
    /// The taking that is answered next has no token, and why.
    Unrecorded(Trouble),
    /// The backend's answer to [`Action::Renew`].
    Renewed { answer: Result<Kept, Trouble>, sent: Moment },
    /// The backend's answer to [`Action::Release`].
    Released(Result<Kept, Trouble>),
    /// The command was started.
    Spawned,
    /// It was not.
    SpawnFailed(SpawnTrouble),
    /// The command stopped itself, or was stopped.
    JobStopped(Signal),
    /// The command ended and was reaped.
    JobEnded(JobEnd),
    /// Some other process that had become our child ended and was reaped.
    OrphanEnded,
    /// Nothing of the job lives.
    TreeGone,
    /// The time that [`Run::deadline`] named may have come. It comes after everything else that has happened: after a
    /// stall an answer may be there that makes up for a deadline that has passed.
    Tick,
}

/// Where a signal came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The kernel, most often on behalf of the terminal.
    Terminal,
    Process,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobEnd {
    Exited(u8),
    Killed(Signal),
}

/// What is waited for once the command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// The process group that the command was in; of one that is shared, only what came of the command.
    #[cfg_attr(not(test), expect(dead_code, reason = "the state machine is still to ask for it"))]
    Group,
    /// All that came of the command.
    Tree,
}

/// What becomes of a taking that meets a full server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It is tried again, like any passing trouble.
    Retry,
    /// That is the answer: the run waits for room at its own pace.
    Answer,
}

/// What is to be done. Actions are performed in order, and each at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask the backend for the lock, trying again until `deadline`.
    Acquire { deadline: Moment, when_full: WhenFull },
    /// Ask the backend to make the lock ours for `lease` from now.
    Renew { lease: Duration, deadline: Moment },
    /// Give the lock back, to stay held until `hold` after it was taken, and close the history's record.
    Release { hold: Duration, closing: Closing, deadline: Moment },
    /// Let the request that is in flight be the last try.
    StopTrying,
    /// Start the command; `None` without a lock.
    Spawn(Option<Grant>),
    /// Send a signal to the job's group, or on a terminal to the command.
    Forward(Signal),
    /// Send a signal to the command and all that came of it, as a beginning of its end.
    SignalTree(Signal),
    /// SIGKILL all of the job, and look whether anything is left.
    KillTree,
    /// Look whether anything of the job is left; [`Event::TreeGone`] says that nothing is.
    LookForRest,
    /// Stop ourselves as this signal does, until we are continued.
    StopOurselves(Signal),
    /// Tell the user.
    Tell(Notice),
    /// End the process.
    Exit(Outcome),
}
