//! The contract that each backend keeps, as two traits: [`Backend`] for runs, and [`Admin`] for the operators' commands.

use std::collections::BTreeSet;
use std::time::Duration;

use super::credentials::Credentials;
use super::finding::{Finding, FindingSink, LockTest};
use crate::lock::{
    Acquired, BackendError, Change, Claim, Closing, Forgotten, Locks, Removal, Reply, RunQuery, Runs, StillHeld,
};

/// Keeps locks. Granted, held, kept and lost are answers; an error means that the request failed.
///
/// Every operation is one atomic step by the backend's own clock. It connects if necessary, blocks, and returns the first
/// error: the caller tries again.
pub(crate) trait Backend: Send {
    /// Acquires the lock if it is free or already has this owner, and records the run, from which the token comes. Each
    /// acquisition has its own token; a repeated one leaves one record.
    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError>;

    /// Extends the lock to `claim.lease` from now, if this owner still holds it. Never shortens the lock.
    fn renew(&mut self, claim: &Claim) -> Result<Reply<StillHeld>, BackendError>;

    /// Releases the lock if this owner still holds it. The lock stays held until `hold` after it was acquired, with the owner
    /// marked as ended; a repeated release gets the same answer. Closes the run's record even if the lock is lost. Removes the
    /// oldest records beyond `claim.keep`, at least when [`Claim::prunes`].
    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<StillHeld>, BackendError>;

    /// Closes the connection. The next operation opens another.
    fn disconnect(&mut self);

    /// Uses this login from the next connection on. Returns false if the backend has no login, or if the login decides which
    /// locks are meant, as where the database is named after the user.
    fn log_in_with(&mut self, _: &Credentials) -> bool {
        false
    }

    /// Returns the locks of these names that exist, or all, sorted by name. Creates nothing, and asks a server that accepts
    /// writes, since a replica may be behind.
    fn locks(&mut self, names: &[&str]) -> Result<Locks, BackendError>;
}

/// Serves the operators' commands, which list, change and remove locks.
pub(crate) trait Admin: Backend {
    /// Returns runs of the history: none if there is no history yet, and an error if it may not be read.
    fn runs(&mut self, wanted: &RunQuery) -> Result<Runs, BackendError>;

    /// Gives a lock another end or another owner, if the named owner holds it. Deletes nothing that the Java library relies on.
    /// From then on the lock goes by the wall clock, and outlives a reboot.
    fn change(&mut self, change: &Change) -> Result<StillHeld, BackendError>;

    /// Returns the names of locks that the backend knows. A backend that lists no free locks looks into its history, too.
    fn names(&mut self) -> Result<BTreeSet<String>, BackendError> {
        Ok(self.locks(&[])?.locks.into_iter().map(|lock| lock.name).collect())
    }

    /// Returns whether a lock that another program has released leaves nothing behind, so that a name in use may be unknown.
    fn drops_free_locks(&self) -> bool {
        false
    }

    /// Returns whether a lock ends by the clock that the backend shows, so that one which runs wrong ends it wrongly.
    fn ends_locks_by_its_clock(&self) -> bool {
        true
    }

    /// Removes a lock and all that shedlock keeps of it, if the lock is free and has no other owner than the one seen. A
    /// repeated removal finds nothing left, which is no error. Creates nothing.
    fn forget(&mut self, removal: &Removal) -> Result<Forgotten, BackendError>;

    /// Creates the missing tables and files, and returns a line for each: its name, and whether it existed before.
    fn create_missing(&mut self) -> Result<Vec<String>, BackendError>;

    /// Returns the statements that create everything needed, with comments, for a person to run. Does not connect.
    fn schema(&mut self) -> Result<String, BackendError>;

    /// Tries what another program does for this backend, on a lock of its own, and returns what was found: nothing if there is no
    /// such program.
    fn try_functions(&mut self) -> Vec<Finding> {
        Vec::new()
    }

    /// Checks what a run needs, and reports each result at once. Acquires no lock: the command does that afterwards, in the
    /// same way on every backend. A new backend that has nothing of its own to check can leave this out.
    fn check(&mut self, _: FindingSink<'_>) -> LockTest {
        LockTest::Possible
    }
}
