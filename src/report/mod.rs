//! Output for people and tools: lines on stderr as text or as JSON, metrics in a file, and tables, JSON and pictures on stdout.

mod counters;
mod events;
mod exposition;
mod findings;
mod holding;
mod line;
mod metrics;
mod page;
mod past;
mod picture;
mod pieces;
mod rehearsal;
mod reporter;
mod screen;
mod skew;
mod standing;
mod success;
mod svg;
mod table;
mod textfile;
mod timeline;
mod times;
mod verbosity;

#[cfg(test)]
pub(crate) use events::schema;
pub(crate) use events::{COMMON, EVENTS, Event, FIELDS, Field};
pub(crate) use exposition::{Exposed, exposition};
pub(crate) use findings::Findings;
pub(crate) use holding::{holding, until};
pub(crate) use metrics::{Metrics, THREAD as METRICS_THREAD};
pub(crate) use page::Page;
pub(crate) use past::{Past, past, runs_json, runs_table};
pub(crate) use picture::{By, Picture};
pub(crate) use rehearsal::{Setting, quoted, rehearsal};
pub(crate) use reporter::{Format, Reporter, error, harmless, unwritten};
pub(crate) use screen::Screen;
pub(crate) use skew::{SKEW_HINT, skew};
pub(crate) use standing::{Standing, locks_json, locks_table, standings};
pub(crate) use success::{Succeeded, last_success};
pub(crate) use svg::drawn;
pub(crate) use timeline::timeline;
pub(crate) use times::Zone;
pub(crate) use verbosity::Verbosity;
