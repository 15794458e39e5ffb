//! Values from the operating system: clocks, signals as values, the user, the network, and the text of its errors.

mod clock;
mod error_text;
#[cfg(feature = "tls")]
pub(crate) mod net;
mod signal;
pub(crate) mod user;

pub(crate) use clock::{Moment, Timestamp};
pub(crate) use error_text::error_text;
pub(crate) use signal::Signal;
