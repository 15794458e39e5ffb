//! The table of events: their levels, their fields in JSON, and what they mean. The manual page and the JSON schema are
//! generated from it, and every line that is printed is checked against it.

use super::line::Line;
use super::verbosity::Verbosity;
use Presence::{Always, Sometimes};
use Verbosity::{Debug, Errors, Info, Warnings};

/// An event, with its name in JSON.
#[derive(Clone, Copy)]
pub(crate) struct Event {
    pub(crate) name: &'static str,
    /// The levels at which it can be printed.
    levels: &'static [Verbosity],
    /// Its own fields, besides those that every event has.
    fields: &'static [(&'static str, Presence)],
    pub(crate) meaning: &'static str,
}

/// A field of an event's object.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The type of its values, as JSON Schema.
    #[cfg_attr(not(test), expect(dead_code, reason = "the schema is written by a test"))]
    kind: &'static str,
    pub(crate) meaning: &'static str,
}

/// The presence of a field in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Always,
    Sometimes,
}

const TIME: &str = r#"{"type": "string", "format": "date-time", "pattern": "Z$"}"#;
const PERHAPS_A_TIME: &str = r#"{"type": ["string", "null"], "format": "date-time", "pattern": "Z$"}"#;
const TEXT: &str = r#"{"type": "string", "minLength": 1}"#;

/// The fields of every event; `hint` is optional.
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

const HOLDER: &[(&str, Presence)] = &[("holder", Always), ("since", Always), ("until", Always)];

/// The fields of a held lock that may be paused.
const HELD: &[(&str, Presence)] =
    &[("holder", Always), ("since", Always), ("until", Always), ("paused", Sometimes), ("reason", Sometimes)];

const fn event(name: &'static str, levels: &'static [Verbosity], meaning: &'static str) -> Event {
    Event { name, levels, fields: &[], meaning }
}

const fn with(fields: &'static [(&'static str, Presence)], event: Event) -> Event {
    Event { fields, ..event }
}

/// All events, in the order of a run's life.
pub(crate) const EVENTS: &[Event] = &[
    event("unknown_variables", &[Debug], "environment variables that begin with SHEDLOCK_ set nothing"),
    event("splaying", &[Info], "the run begins after a random part of --splay"),
    with(HELD, event("held", &[Info], "the lock is held, so the job is not run")),
    with(
        &[
            ("holder", Sometimes),
            ("since", Sometimes),
            ("until", Sometimes),
            ("paused", Sometimes),
            ("reason", Sometimes),
        ],
        event(
            "waiting",
            &[Debug],
            "the run waits because the lock is held, or because the server has no free connection; then there is no holder",
        ),
    ),
    with(HOLDER, event("nested", &[Info], "an enclosing run holds the lock, so the job runs as part of it")),
    with(
        &[("until", Sometimes)],
        event(
            "backend_error",
            &[Errors, Warnings],
            "the backend could not be asked; a warning if --on-backend-error is `skip` or `run`. `until` is there if a \
             request without a reply may have taken the lock and could not be undone: the lock may be held until then",
        ),
    ),
    with(
        &[("backend", Always), ("until", Always), ("token", Sometimes)],
        event("granted", &[Info], "the backend granted the lock, and the job starts"),
    ),
    with(
        &[("until", Always)],
        event(
            "cut",
            &[Info],
            "the lock ends at `until`, sooner than requested, because the backend cannot store a later time",
        ),
    ),
    event("unrecorded", &[Info], "this run is not in the history and, except on etcd, has no token"),
    event(
        "unclosed",
        &[Info],
        "the end of this run could not be recorded in the history, and no older run was removed",
    ),
    event(
        "unguarded",
        &[Info, Warnings],
        "there is no guardian, or there was none for a while; a warning if the guardian died and could not be replaced",
    ),
    event("not_started", &[Errors], "the command could not be started"),
    event("not_handed_over", &[Errors], "`shedlock acquire` could not write its handle, and releases the lock"),
    event("renewed", &[Debug], "the lock was renewed"),
    event("not_renewed", &[Warnings], "a renewal failed, and shedlock retries"),
    event("checking", &[Debug], "the job is frozen after a stall, until the lock is checked"),
    with(
        &[("until", Always)],
        event("extended", &[Info], "the lock was extended, see shedlock-extend(1), and the job runs on"),
    ),
    event("lost", &[Errors, Warnings], "the lock was lost; a warning if the job runs on or has already ended"),
    event("expired", &[Errors], "--at-most is used up, so the job is stopped"),
    event("runs_on", &[Warnings], "--at-most is used up, and the job runs on without the lock"),
    event("stop_timeout", &[Warnings], "the job did not end within --stop-timeout, so it is killed"),
    event("undead", &[Warnings], "SIGKILL did not end every process of the job, so the lock is renewed"),
    with(&[("exit_code", Always), ("duration", Always)], event("ended", &[Info], "the job has ended")),
    event("released", &[Debug], "the lock was released"),
    event("not_released", &[Warnings], "the lock could not be released, and frees when its time is up"),
    with(
        &[("until", Always)],
        event(
            "not_given_back",
            &[Warnings],
            "a request without a reply may have taken the lock, and could not be undone",
        ),
    ),
    event("metrics", &[Warnings], "the metrics could not be written correctly, see --metrics-dir"),
    event("notified", &[Debug], "the command of --notify has ended"),
    event("not_notified", &[Warnings], "the command of --notify could not be started, failed, or was killed"),
];

/// Returns whether the table lists this line with its level and its fields.
pub(super) fn knows(line: &Line) -> bool {
    let Some(event) = EVENTS.iter().find(|event| event.name == line.event) else { return false };
    let has = |field: &str| line.fields.iter().any(|(name, _)| *name == field);
    event.levels.contains(&line.level)
        && event.fields.iter().all(|(field, presence)| *presence == Sometimes || has(field))
        && line.fields.iter().all(|(name, _)| event.fields.iter().any(|(field, _)| field == name))
}

impl Event {
    /// Returns its levels, by their names in JSON.
    pub(crate) fn levels(&self) -> impl Iterator<Item = &'static str> {
        self.levels.iter().map(|level| level.name())
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|(field, _)| *field)
    }
}

/// Returns the JSON Schema of the events.
#[cfg(test)]
pub(crate) fn schema() -> serde_json::Value {
    use serde_json::{Map, Value, json};
    let property = |field: &Field| {
        let mut kind: Map<String, Value> = serde_json::from_str(field.kind).unwrap();
        kind.insert("description".to_owned(), sentence(field.meaning).into());
        (field.name.to_owned(), Value::Object(kind))
    };
    let one = |event: &Event| {
        let properties = FIELDS.iter().filter(|field| event.fields().any(|name| name == field.name));
        let mut properties: Map<String, Value> = properties.map(property).collect();
        properties.insert("event".to_owned(), json!({ "const": event.name }));
        properties.insert("level".to_owned(), json!({ "enum": event.levels().collect::<Vec<_>>() }));
        let required = event.fields.iter().filter(|(_, presence)| *presence == Always).map(|(field, _)| *field);
        json!({
            "description": sentence(event.meaning),
            "properties": properties,
            "required": required.collect::<Vec<_>>(),
        })
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of shedlock run",
        "description": "An object that shedlock run --log-format json writes to stderr, one on each line.",
        "type": "object",
        "properties": COMMON.iter().map(property).collect::<Map<String, Value>>(),
        "required": COMMON.iter().map(|field| field.name).filter(|name| *name != "hint").collect::<Vec<_>>(),
        "oneOf": EVENTS.iter().map(one).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
fn sentence(meaning: &str) -> String {
    let (first, rest) = meaning.trim_start_matches('`').split_at(1);
    format!("{}{}.", first.to_uppercase(), rest.replace('`', ""))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::backend::BackendError;
    use crate::exit::ExitReason;
    use crate::lock::{Claim, Grant, LockName, LockState, Owner, Purpose};
    use crate::report::{Format, Reporter};
    use crate::run::{
        MetricsError, Notice, NoticeKind, NotifyEvent, OnBackendError, OnLost, SpawnError, SpawnErrorKind,
    };
    use crate::system::Signal;
    use crate::system::Timestamp;

    /// Every notice, in each way that tells it differently.
    fn notices() -> Vec<Notice> {
        let error = BackendError::transient("backend x: no".to_owned()).hint("try again");
        let record =
            |time| LockState { owner: "host:1:0".to_owned(), since: time, until: time, left: Duration::from_secs(1) };
        let grant = |token| Grant { locked_at: Timestamp(0), until: Timestamp(1), token };
        let not_started = SpawnError {
            command: "x".into(),
            kind: SpawnErrorKind::NotFound,
            reason: "no such file".to_owned(),
            hint: None,
        };
        let second = Duration::from_secs(1);
        let mut all = vec![
            Notice::Splaying(Duration::from_millis(1_500)),
            Notice::Unknown(vec!["SHEDLOCK_X".to_owned()]),
            Notice::Granted(grant(None)),
            Notice::Granted(grant(Some(7))),
            Notice::Cut(Timestamp(1)),
            Notice::Unrecorded(error.clone(), None),
            Notice::Unclosed(error.clone()),
            Notice::Full(error.clone()),
            Notice::Unguarded("it was killed".to_owned()),
            Notice::Reguarded("it was killed".to_owned()),
            Notice::GuardianLost("it was killed".to_owned()),
            Notice::Checking,
            Notice::NotHandedOver("no space left".to_owned()),
            Notice::Extended(Timestamp(1)),
            Notice::NotStarted(not_started),
            Notice::Expired(second, None),
            Notice::RunsOn(second, None),
            Notice::StopTimeout(second),
            Notice::Renewed,
            Notice::NotRenewed(error.clone()),
            Notice::LostUnnoticed(NoticeKind::Gone),
            Notice::LostUnnoticed(NoticeKind::Late),
            Notice::Unkillable,
            Notice::Released,
            Notice::NotReleased(error.clone()),
            Notice::NotGivenBack(error.clone(), Duration::from_secs(60)),
            Notice::Metrics(MetricsError::NotWritten("d".to_owned(), "no".to_owned())),
            Notice::Metrics(MetricsError::TooSlow("d".to_owned())),
            Notice::Metrics(MetricsError::Foreign("f".to_owned())),
            Notice::Notified(NotifyEvent::Start),
            Notice::NotNotified(NotifyEvent::Skipped, "exited with code 1".to_owned()),
        ];
        for time in [None, Some(Timestamp(0))] {
            all.extend([Notice::Held(record(time)), Notice::Waiting(record(time)), Notice::Nested(record(time))]);
        }
        for reason in ["", "disk"] {
            let pause = Owner::of_pause("ada", "web1", 1, None, reason);
            let paused = LockState { owner: pause.as_str().to_owned(), ..record(None) };
            all.extend([Notice::Held(paused.clone()), Notice::Waiting(paused)]);
        }
        for policy in [OnBackendError::Fail, OnBackendError::Skip, OnBackendError::Run] {
            all.push(Notice::Backend(error.clone(), policy, None));
            all.push(Notice::Backend(error.clone(), policy, Some(Duration::from_secs(60))));
        }
        for on_lost in [OnLost::Kill, OnLost::Ignore] {
            all.extend(
                [
                    NoticeKind::Gone,
                    NoticeKind::Late,
                    NoticeKind::NotRenewed(None),
                    NoticeKind::NotRenewed(Some(error.clone())),
                    NoticeKind::NotAsked(Duration::from_secs(2)),
                ]
                .map(|kind| Notice::Lost(kind, on_lost)),
            );
        }
        for outcome in
            [ExitReason::Exited(255), ExitReason::Killed(Signal::KILL), ExitReason::Expired, ExitReason::Lost]
        {
            all.push(Notice::Ended(outcome, Duration::from_millis(1_250)));
        }
        all
    }

    #[test]
    fn every_line_that_can_be_told_is_in_the_table_and_every_event_is_told() {
        let lines: Vec<Line> = notices().iter().map(Line::of).collect();
        for line in &lines {
            assert!(knows(line), "{} {:?}", line.event, line.level);
        }
        let told = lines.iter().map(|line| (line.event, line.level.name())).collect::<BTreeSet<_>>();
        let listed = EVENTS.iter().flat_map(|event| event.levels().map(|level| (event.name, level)));
        assert_eq!(told, listed.collect());
        let has = |field: &str| lines.iter().any(|line| line.fields.iter().any(|(name, _)| *name == field));
        assert!(FIELDS.iter().all(|field| has(field.name)));
    }

    #[test]
    fn every_line_is_valid_by_the_schema_and_by_that_of_its_own_event_alone() {
        let claim = Claim {
            name: LockName::new("job").unwrap(),
            owner: Owner::new("host", 1, 2),
            lease: Duration::from_secs(1),
            keep: 0,
            purpose: Purpose::Run,
        };
        // A later version may add fields, so that the schema does not forbid them.
        let mut schema = schema();
        schema["unevaluatedProperties"] = false.into();
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        let reporter = Reporter::new(Debug, Format::Json, claim, "sqlite:/x");
        for notice in notices() {
            let mut line: serde_json::Value = serde_json::from_str(&reporter.json(Line::of(&notice))).unwrap();
            let errors: Vec<String> = validator.iter_errors(&line).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{line} {errors:?}");
            line["more"] = 1.into();
            assert!(!validator.is_valid(&line), "a field that is not in the table");
        }
    }
}
