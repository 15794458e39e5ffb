//! Limits in bytes of what a server may send, whatever length it announces.
//!
//! They are enforced where bytes arrive: for Redis, MySQL and ZooKeeper in `net/stream.rs`, where `limit_answer` sets the bound
//! of each answer; for PostgreSQL in `sql/postgres/read_limit.rs`, before its driver reads; for etcd and Kubernetes in
//! `net/http/connector.rs`.

use std::{fmt, io};

use crate::lock::BackendError;

/// Bytes that a server may send before the login.
pub(crate) const GREETING_BYTES: usize = 64 << 10;
/// Bytes of the longest answer that a run needs.
pub(crate) const ANSWER_BYTES: usize = 1 << 20;
/// Bytes of the longest answer that lists locks or runs.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "http", feature = "provider"))]
pub(crate) const LISTING_BYTES: usize = 1 << 30;

/// Reports a peer that sends, or announces, more than so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong(pub(crate) usize);

#[cfg(any(feature = "mysql", feature = "redis", feature = "http", feature = "zookeeper"))]
impl TooLong {
    /// Returns whether a read failed because the peer sent too much.
    pub(crate) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

impl std::error::Error for TooLong {}

impl From<TooLong> for io::Error {
    fn from(error: TooLong) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            most if most < 1 << 20 => write!(f, "the server sent more than {} KiB", most >> 10),
            most => write!(f, "the server sent more than {} MiB", most >> 20),
        }
    }
}

/// Returns the error for a peer that sends more than an answer can have.
pub(crate) fn too_long(error: &io::Error) -> BackendError {
    BackendError::permanent(error.to_string())
        .hint("no answer to shedlock is that long: check that host and port are those of the right server")
}
