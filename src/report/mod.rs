//! What people and their tools read: lines on stderr, as text or as JSON, and metrics in a file.

mod events;
mod line;
mod metrics;
mod reporter;
mod tally;
mod textfile;

#[cfg(test)]
pub(crate) use events::schema;
pub(crate) use events::{COMMON, EVENTS, Event, FIELDS, Field};
pub(crate) use line::Verbosity;
pub(crate) use metrics::{Metrics, THREAD as METRICS_THREAD};
pub(crate) use reporter::{Format, Reporter, error};
pub(crate) use tally::Counted;
