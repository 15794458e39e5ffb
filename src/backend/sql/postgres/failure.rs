//! Why a login or a statement failed, before it is explained to people.

use std::io;

use tokio_postgres::Error;

use crate::lock::BackendError;

/// Says why a login or a statement failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Error of the driver, with the server's own words or the system's.
    Driver(Error),
    /// The server cannot be connected to.
    Unreached(io::Error),
    /// No answer in time.
    Silence,
    /// Statement that took too long, which the server was told to cancel, and has cancelled.
    Cancelled,
    /// Answer of a read-only server, which may be outdated.
    ReadOnly,
    /// Silence or hang-up of a pooler, which may not have forwarded the request to a server.
    PoolerSilence,
    /// Lock of another session on a row or a table. `place` is the server's description of where, or the words of the
    /// statement there.
    Locked { row: bool, place: String },
    /// The history has ids as large as those that its sequence draws, and the sequence could not be advanced.
    SequenceBehind,
    /// An error that shedlock itself has found.
    Backend(BackendError),
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}
