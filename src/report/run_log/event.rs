//! The columns of the table of events.

use super::event_text::{AboutRun, EventText};
use super::fields::{OwnFields, Presence::Sometimes};
use super::verbosity::Verbosity;
use crate::run::Notice;

/// A row of the table of events.
pub(crate) struct EventKind {
    /// The name of the event in JSON.
    pub(crate) name: &'static str,
    /// The levels at which the event can be printed; the first one, unless its text has another.
    pub(super) levels: &'static [Verbosity],
    /// The fields of the event, besides those that every event has.
    pub(super) fields: OwnFields,
    #[cfg_attr(not(test), expect(dead_code, reason = "the manual page and the schema are written by tests"))]
    pub(crate) meaning: &'static str,
    /// Returns the words for a notice, if the notice is this event.
    pub(super) text: fn(&Notice, &AboutRun<'_>) -> Option<EventText>,
}

impl EventKind {
    /// Returns whether the row lists the level and the fields of this text.
    pub(super) fn allows(&self, text: &EventText) -> bool {
        let has = |field: &str| text.fields.iter().any(|(name, _)| *name == field);
        text.level.is_none_or(|level| self.levels.contains(&level))
            && self.fields.iter().all(|(field, presence)| *presence == Sometimes || has(field))
            && text.fields.iter().all(|(name, _)| self.fields.iter().any(|(field, _)| field == name))
    }
}

#[cfg(test)]
impl EventKind {
    /// Returns the names of its levels in JSON.
    pub(crate) fn levels(&self) -> impl Iterator<Item = &'static str> {
        self.levels.iter().map(|level| level.name())
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|(field, _)| *field)
    }
}
