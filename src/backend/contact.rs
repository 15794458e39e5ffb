//! Notes whether a request may have reached the backend, for a run that cannot wait for the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says whether a request may have come to the backend: a server accepted the login, or a file was opened. The connections
/// of a backend share it with the run that uses them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contact(Arc<AtomicBool>);

impl Contact {
    /// Notes that the backend was reached, and that a request may follow.
    #[cfg(any(feature = "tls", feature = "sqlite"))]
    pub(crate) fn reached(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Notes that the connection was closed and every request so far was answered: the next one has to reach the backend anew.
    pub(crate) fn left(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Returns whether a request may have come to the backend.
    pub(crate) fn is_reached(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
