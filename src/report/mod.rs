//! What people and their tools read: lines on stderr, as text or as JSON, and metrics in a file.

mod line;
mod metrics;
mod reporter;
mod tally;
mod textfile;

pub(crate) use line::Verbosity;
pub(crate) use metrics::{Metrics, THREAD as METRICS_THREAD};
pub(crate) use reporter::{Format, Reporter, error};
pub(crate) use tally::Counted;
