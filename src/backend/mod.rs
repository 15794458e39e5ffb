//! Backends, where the locks live, and the contract that each of them keeps. A new backend implements [`Backend`] and
//! [`Admin`], and is one line in the table of [`kinds`].

#[cfg(feature = "tls")]
mod authorities;
#[cfg(any(test, feature = "cas"))]
mod cas;
#[cfg(test)]
mod conformance;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod finding;
#[cfg(feature = "tls")]
mod hosts;
#[cfg(feature = "http")]
mod http;
mod kinds;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod login;
#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "tls")]
mod network;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "tls")]
mod probe;
#[cfg(feature = "redis")]
mod redis;
mod retry;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(feature = "tls")]
mod tls;
#[cfg(test)]
mod trial;
mod url;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::lock::{Change, Claim, Closing, Grant, LockState, Locks, Removal, Runs, Wanted};
use crate::system::Timestamp;
pub(crate) use error::{BackendError, ErrorClass};
pub(crate) use finding::{Finding, Grade, Reached, Tell};
pub(crate) use kinds::{from_url, kinds, of_kind, password};
pub(crate) use login::{Credentials, Rotation, is_same_place};
#[cfg(test)]
pub(crate) use retry::RESPITE;
pub(crate) use retry::Retry;
pub(crate) use url::Url;

/// Says whether this process reached its backend: a server accepted the login, or a file was opened.
static REACHED: AtomicBool = AtomicBool::new(false);

/// Notes that the backend was reached, and that a request may follow.
fn note_reached() {
    REACHED.store(true, Ordering::Relaxed);
}

/// Returns whether a request may have reached the backend, for a caller that cannot wait for the answer.
pub(crate) fn was_reached() -> bool {
    REACHED.load(Ordering::Relaxed)
}

/// Keeps locks. Granted, held, kept and lost are answers; an error means that the request failed.
///
/// Every operation is one atomic step by the backend's own clock. It connects if necessary, blocks, and returns the first
/// error: the caller tries again.
pub(crate) trait Backend: Send {
    /// Takes the lock if it is free or already has this owner, and records the run, from which the token comes. Each taking has
    /// its own token; a repeated taking leaves one record.
    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError>;

    /// Extends the lock to `claim.lease` from now, if this owner still holds it. Never shortens the lock.
    fn renew(&mut self, claim: &Claim) -> Result<Reply<Kept>, BackendError>;

    /// Gives the lock back if this owner still holds it. The lock stays held until `hold` after it was taken, with the owner
    /// marked as ended; a repeated release gets the same answer. Closes the run's record even if the lock is lost. Removes the
    /// oldest records beyond `claim.keep`, at least when [`Claim::prunes`].
    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, BackendError>;

    /// Closes the connection. The next operation opens another.
    fn disconnect(&mut self);

    /// Uses this login from the next connection on. Returns false if the backend has none, or if the login decides what is
    /// locked, as a user does after whom the database is named.
    fn log_in_with(&mut self, _: &Credentials) -> bool {
        false
    }

    /// Returns the locks of these names that exist, or all, sorted by name. Creates nothing, and asks a server that accepts
    /// writes, since a replica may be behind.
    fn locks(&mut self, names: &[&str]) -> Result<Locks, BackendError>;
}

/// A backend whose URL was parsed and that has not connected yet.
pub(crate) struct Opened {
    pub(crate) backend: Box<dyn Admin>,
    /// The backend's URL, valid from any directory; never with a password.
    pub(crate) address: String,
    pub(crate) pace: Pace,
    /// Where the login is read again that the server refuses; `None` if it is not from a file.
    pub(crate) rotation: Option<Rotation>,
}

impl Opened {
    /// Wraps a backend to which a connection costs some milliseconds.
    #[cfg(feature = "tls")]
    fn server(backend: impl Admin + 'static, url: &Url) -> Self {
        Self { backend: Box::new(backend), address: url.public(), pace: Pace::OF_SERVERS, rotation: None }
    }
}

/// Serves the operators' commands.
pub(crate) trait Admin: Backend {
    /// Returns runs of the history: none if there is no history yet, and an error if it may not be read.
    fn runs(&mut self, wanted: &Wanted) -> Result<Runs, BackendError>;

    /// Gives a lock another end or another owner, if the named owner holds it. Deletes nothing that the Java library relies on.
    /// From then on the lock goes by the wall clock, and outlives a reboot.
    fn change(&mut self, change: &Change) -> Result<Kept, BackendError>;

    /// Returns the names of locks that the backend knows. One that lists no free locks looks into its history, too.
    fn names(&mut self) -> Result<BTreeSet<String>, BackendError> {
        Ok(self.locks(&[])?.locks.into_iter().map(|lock| lock.name).collect())
    }

    /// Returns whether a lock that another program has given back leaves nothing behind, so that a name in use may be unknown.
    fn drops_free_locks(&self) -> bool {
        false
    }

    /// Removes a lock and all that shedlock keeps of it, if the lock is free and has no other owner than the one seen. A
    /// repeated removal finds nothing left, which is no error. Creates nothing.
    fn forget(&mut self, removal: &Removal) -> Result<Forgotten, BackendError>;

    /// Creates the missing tables and files, and returns a line for each: its name, and whether it existed before.
    fn make(&mut self) -> Result<Vec<String>, BackendError>;

    /// Returns the statements that create everything needed, with comments, for a person to run. Does not connect.
    fn schema(&self) -> String;

    /// Tries what a run needs, and reports each result at once. Takes no lock: the command does that afterwards, in the same way on
    /// every backend. A new backend that has nothing of its own to check can leave this out.
    fn check(&mut self, _: Tell<'_>) -> Reached {
        Reached::Yes
    }
}

/// The answer to a taking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acquired {
    Granted(Grant),
    Held(LockState),
}

/// The answer to a renewal or a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Kept,
    /// The owner no longer holds the lock.
    Lost,
}

/// The answer to a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgotten {
    /// Nothing is left. Says what there was.
    Gone { lock: bool, runs: u64 },
    /// The lock is held, or another owner has had it in the meantime.
    InUse,
}

/// An answer of the backend, with a remark for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply<T> {
    pub(crate) answer: T,
    pub(crate) remark: Remark,
}

/// The faults of a request that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Remark {
    /// The reason why a taking has no record and mostly no token, or why a release did not close its record.
    pub(crate) unrecorded: Option<BackendError>,
    /// The lock's end, if it is sooner than requested because the backend can store no later time.
    pub(crate) cut: Option<Timestamp>,
}

impl<T> From<T> for Reply<T> {
    fn from(answer: T) -> Self {
        Self { answer, remark: Remark::default() }
    }
}

/// Waits until a clock that read `now` is past the last token of a lock that is removed, where the next token is the time: it
/// has to be larger. Both are in milliseconds. Returns false if nothing was to be waited for, also not for a token that is far
/// ahead: it was drawn before the clock was set back.
#[cfg(any(test, feature = "sqlite", feature = "cas"))]
fn wait_past(token: u64, now: u64) -> bool {
    let ahead = token.saturating_add(1).saturating_sub(now);
    let is_soon = (1..=1000).contains(&ahead);
    if is_soon {
        std::thread::sleep(Duration::from_millis(ahead));
    }
    is_soon
}

/// The name of the thread that does SQLite's checkpoints. A run can do without it.
pub(crate) const FOLDER: &str = "folder";

impl Kept {
    #[cfg(any(test, feature = "postgres", feature = "mysql", feature = "cas"))]
    fn if_so(ours: bool) -> Self {
        if ours { Self::Kept } else { Self::Lost }
    }
}

/// A taking that lies further in the future than this comes from a clock that was ahead.
pub(crate) const CLOCK_WAS_AHEAD: Duration = Duration::from_secs(60);

/// The time that a lock without an end counts as held: ten years. Only people and other programs make such locks.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How far local time can be ahead of UTC. An application of the Java library may write such times, and judges its lock by
/// them.
#[cfg(any(feature = "postgres", feature = "sqlite", all(test, any(feature = "mysql", feature = "redis"))))]
const EASTERNMOST: Duration = Duration::from_secs(14 * 3600);

/// Returns how far in the future a taking by this owner lies at least if it comes from a clock that was ahead. The owners of
/// shedlock have three parts or more.
#[cfg(any(feature = "postgres", feature = "sqlite", all(test, any(feature = "mysql", feature = "redis"))))]
fn ahead_of(owner: &str) -> Duration {
    if owner.matches(':').count() > 1 { CLOCK_WAS_AHEAD } else { EASTERNMOST }
}

/// The pause between tries doubles from `first` to `longest`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Pace {
    /// Suits a backend to which a connection costs some milliseconds.
    #[cfg(any(test, feature = "tls"))]
    pub(crate) const OF_SERVERS: Self = Self { first: Duration::from_millis(20), longest: Duration::from_millis(500) };
}

/// The settings that a backend needs in addition to its URL.
#[derive(Clone, Default)]
pub(crate) struct Access {
    /// The password for a URL without one.
    pub(crate) password: Option<String>,
    /// The time for one try, all servers of the URL together.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "a file is opened at once or not at all"))]
    pub(crate) patience: Duration,
}
