//! An event that happened: its row in the table, and its words.

use super::event::EventKind;
use super::event_text::{AboutRun, EventText};
use super::events::EVENTS;
use super::verbosity::Verbosity;
use crate::run::Notice;

/// An event that happened, and its words.
pub(super) struct Report {
    pub(super) event: &'static EventKind,
    pub(super) text: EventText,
}

impl Report {
    /// Finds the event of a notice.
    pub(super) fn new(notice: &Notice, run: &AboutRun<'_>) -> Option<Self> {
        let report = EVENTS.iter().find_map(|event| Some(Self { event, text: (event.text)(notice, run)? }));
        debug_assert!(report.as_ref().is_some_and(|report| report.event.allows(&report.text)), "{notice:?}");
        report
    }

    pub(super) fn level(&self) -> Verbosity {
        self.text.level.unwrap_or(self.event.levels[0])
    }
}
