//! What people and their tools read: lines on stderr, as text or as JSON.

mod holding;
mod line;
mod reporter;

pub(crate) use holding::{holding, until};
pub(crate) use line::Verbosity;
pub(crate) use reporter::{Format, Reporter, error, visible};
