//! The fields of the JSON objects of events, with their types and meanings.

use Presence::{Always, Sometimes};

/// A field of an event's object.
#[cfg(test)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The type of its values, as JSON Schema.
    pub(super) kind: &'static str,
    pub(crate) meaning: &'static str,
}

/// The presence of a field in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Always,
    Sometimes,
}

#[cfg(test)]
const TIME: &str = r#"{"type": "string", "format": "date-time", "pattern": "Z$"}"#;
#[cfg(test)]
const PERHAPS_A_TIME: &str = r#"{"type": ["string", "null"], "format": "date-time", "pattern": "Z$"}"#;
#[cfg(test)]
const TEXT: &str = r#"{"type": "string", "minLength": 1}"#;

/// The fields of every event; `hint` is optional.
#[cfg(test)]
pub(crate) const COMMON: [Field; 7] = [
    Field { name: "time", kind: TIME, meaning: "the time of the event by this host's clock, in UTC" },
    Field { name: "level", kind: TEXT, meaning: "the level: `error`, `warning`, `info` or `debug`" },
    Field { name: "event", kind: TEXT, meaning: "the event, one of those below" },
    Field { name: "name", kind: TEXT, meaning: "the name of the lock" },
    Field { name: "owner", kind: TEXT, meaning: "the owner, which identifies this run" },
    Field { name: "message", kind: TEXT, meaning: "the message of the text format" },
    Field { name: "hint", kind: TEXT, meaning: "what to do about it; only in some events" },
];

/// The fields of some events.
#[cfg(test)]
pub(crate) const FIELDS: [Field; 9] = [
    Field { name: "backend", kind: TEXT, meaning: "the URL of the lock's backend, without the password" },
    Field {
        name: "holder",
        kind: TEXT,
        meaning: "the owner that holds the lock. An owner that ends with `:ended` is a run that has ended and left its lock held for --at-least or --every",
    },
    Field {
        name: "since",
        kind: PERHAPS_A_TIME,
        meaning: "since when the lock is held; null if the backend holds no valid time",
    },
    Field {
        name: "until",
        kind: PERHAPS_A_TIME,
        meaning: "until when the lock is held, unless it is renewed; null if the backend holds no valid time",
    },
    Field {
        name: "paused",
        kind: r#"{"const": true}"#,
        meaning: "true if the lock is paused, otherwise absent; see shedlock-pause(1)",
    },
    Field { name: "reason", kind: TEXT, meaning: "the reason for the pause, if one was given" },
    Field {
        name: "token",
        kind: r#"{"type": "integer", "minimum": 0}"#,
        meaning: "the fencing token, if there is one",
    },
    Field {
        name: "exit_code",
        kind: r#"{"type": "integer", "minimum": 0, "maximum": 255}"#,
        meaning: "the job's exit code; 128+n if signal n killed it; 124 or 123 if shedlock stopped it",
    },
    Field {
        name: "duration",
        kind: r#"{"type": "number", "minimum": 0}"#,
        meaning: "how long the job ran, in seconds",
    },
];

/// The names of an event's own fields, and whether each is always there.
pub(super) type OwnFields = &'static [(&'static str, Presence)];

/// The fields about the holder of the lock.
pub(super) const HOLDER: OwnFields = &[("holder", Always), ("since", Always), ("until", Always)];

/// The fields about the holder of a lock that may be paused.
pub(super) const HOLDER_OR_PAUSE: OwnFields =
    &[("holder", Always), ("since", Always), ("until", Always), ("paused", Sometimes), ("reason", Sometimes)];

/// The fields about the holder of the lock, in a wait that may also be for room in a full server.
pub(super) const PERHAPS_HOLDER: OwnFields =
    &[("holder", Sometimes), ("since", Sometimes), ("until", Sometimes), ("paused", Sometimes), ("reason", Sometimes)];
