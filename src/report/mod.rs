//! What people and their tools read: lines on stderr, as text or as JSON.

pub(crate) mod findings;
mod line;
mod reporter;

pub(crate) use line::Verbosity;
pub(crate) use reporter::{Format, Reporter, error};
