//! What a run says on stderr: each event once in a table, with its level, its JSON fields and its words, and the reporter that
//! writes it as text or as JSON. It never waits for the reader, and decides nothing about the run.

mod event;
mod event_text;
mod events;
mod fields;
mod report;
mod reporter;
#[cfg(test)]
mod schema;
mod verbosity;

#[cfg(test)]
pub(crate) use event::EventKind;
#[cfg(test)]
pub(crate) use events::EVENTS;
#[cfg(test)]
pub(crate) use fields::{COMMON, FIELDS, Field};
pub(crate) use reporter::{Format, Reporter};
#[cfg(test)]
pub(crate) use schema::schema;
pub(crate) use verbosity::Verbosity;
