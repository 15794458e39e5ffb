//! What people and their tools read: lines on stderr as text or as JSON, and on stdout tables, JSON and pictures.

mod line;
mod past;
mod picture;
mod reporter;
mod screen;
mod standing;
mod svg;
mod table;
mod timeline;
mod times;

pub(crate) use line::Verbosity;
pub(crate) use past::{past, runs_json, runs_table};
pub(crate) use picture::{By, Picture};
pub(crate) use reporter::{Format, Reporter, error};
pub(crate) use screen::Screen;
pub(crate) use standing::{Standing, locks_json, locks_table, standings};
pub(crate) use svg::drawn;
pub(crate) use timeline::timeline;
pub(crate) use times::Zone;
