//! Values from the operating system: clocks, signals as values, the user, files that somebody names and who else may write
//! them, the network, and the text of its errors.
//! It must not know a lock, a job or a run.

mod clock;
mod error_text;
pub(crate) mod file;
#[cfg(feature = "tls")]
pub(crate) mod net;
mod output;
mod signal;
pub(crate) mod trust;
#[cfg(feature = "sqlite")]
mod umask;
pub(crate) mod user;

pub(crate) use clock::{Moment, Timestamp};
pub(crate) use error_text::error_text;
pub(crate) use output::write_without_waiting;
pub(crate) use signal::Signal;
#[cfg(feature = "sqlite")]
pub(crate) use umask::umask;
