//! What people and their tools read: lines on stderr, as text or as JSON.

mod line;

pub(crate) use line::{Format, Reporter, Verbosity, error};
