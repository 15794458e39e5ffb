//! The recorded history of a round: each request that a client sent, and the answer, with times of the boot clock. The judge
//! sees nothing else.

use std::time::Duration;

use crate::lock::{ErrorClass, LockState, RunRecord, StillHeld};
use crate::system::{Moment, Timestamp};

/// Records one request and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The lock's number within the round, from 0.
    pub(crate) lock: usize,
    /// The owner as sent: unique for each acquisition that is not a repetition.
    pub(crate) owner: String,
    pub(crate) request: Request,
    /// The moment before the request was handed to the backend, and the one after its answer came.
    pub(crate) sent: Moment,
    pub(crate) answered: Moment,
    pub(crate) answer: Answer,
    /// The harm that the relay did to the connection meanwhile.
    pub(crate) fault: Option<Fault>,
}

/// Names a request to the backend, with its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    Acquire {
        lease: Duration,
    },
    Renew {
        lease: Duration,
    },
    /// The lock stays held until `hold` after it was acquired. `undo`: the acquisition is undone after an unclear answer.
    Release {
        hold: Duration,
        undo: bool,
    },
    /// An operator's change of the end: the lock is held for `left` from now on.
    Change {
        left: Duration,
    },
    /// Lists the lock.
    List,
    /// Reads the lock's runs.
    Runs,
}

/// Holds the answer to a request.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Granted {
        token: Option<u64>,
    },
    /// The acquisition was refused: another owner holds the lock.
    Refused(LockState),
    /// The answer to a renewal, a release or a change.
    StillHeld(StillHeld),
    /// The lock as listed, with the store's time.
    Listed {
        now: Timestamp,
        state: Option<LockState>,
    },
    Runs(Vec<RunRecord>),
    Failed {
        class: ErrorClass,
        ambiguous: bool,
        message: String,
    },
}

/// Names the harm that the relay does to a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Closes the connection after so many more bytes to the server.
    CutRequest { after: usize },
    /// Closes the connection after so many more bytes from the server: the request is carried out, and its answer lost.
    CutAnswer { after: usize },
    /// Delays what goes in both directions.
    Delay { by: Duration },
    /// Keeps what goes to the server after so many more bytes, until the relay thaws; it arrives then, even if the client has
    /// closed the connection.
    Freeze { after: usize },
}
