//! Values from the operating system: clocks, signals as values, the user, the environment, files that somebody names and who
//! else may write them, the network, and the text of its errors; how a child is launched, and shedlock's own helpers.
//! It must not know a lock, a job or a run.

mod clock;
mod environ;
mod error_text;
pub(crate) mod file;
mod helper;
pub(crate) mod launch;
#[cfg(feature = "tls")]
pub(crate) mod net;
mod output;
mod signal;
pub(crate) mod trust;
#[cfg(feature = "sqlite")]
mod umask;
pub(crate) mod user;

pub(crate) use clock::{Moment, Timestamp};
pub(crate) use environ::Environment;
pub(crate) use error_text::error_text;
#[cfg(feature = "provider")]
pub(crate) use helper::Helper;
pub(crate) use helper::{HelperEnd, Helpers};
#[cfg(feature = "provider")]
pub(crate) use output::without_pipe_signal;
pub(crate) use output::write_without_waiting;
pub(crate) use signal::Signal;
#[cfg(feature = "sqlite")]
pub(crate) use umask::umask;
