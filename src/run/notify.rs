//! The settings of `--notify`, and the events that it can name.

use std::time::Duration;

use crate::lock::RunOutcome;

/// The settings of `--notify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notify {
    /// The command line for `/bin/sh -c`.
    pub(crate) command: String,
    pub(crate) on: Vec<NotifyEvent>,
    pub(crate) timeout: Duration,
}

/// An event that `--notify-on` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotifyEvent {
    Start,
    Ended(RunOutcome),
    Skipped,
}

impl NotifyEvent {
    pub(crate) const ALL: [Self; 7] = [
        Self::Start,
        Self::Ended(RunOutcome::Success),
        Self::Ended(RunOutcome::Failure),
        Self::Ended(RunOutcome::Expired),
        Self::Ended(RunOutcome::Lost),
        Self::Ended(RunOutcome::Error),
        Self::Skipped,
    ];

    /// Returns the event's name; that of an end is the outcome in the history.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Ended(outcome) => outcome.as_str(),
            Self::Skipped => "skipped",
        }
    }
}
