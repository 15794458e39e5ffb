//! The table of events. A row is all there is to say about an event: its name, its levels, its fields, its meaning, and its
//! text. Text and JSON on stderr, the manual page and the JSON schema are made of it.

use super::event::EventKind;
use super::event_text::{EventText, FIND_UNKILLABLE, limit};
use super::fields::Presence::{Always, Sometimes};
use super::fields::{HOLDER, HOLDER_OR_PAUSE, PERHAPS_HOLDER};
use super::verbosity::Verbosity::{Debug, Errors, Info, Warnings};
use crate::duration::{self, brief};
use crate::run::{Notice, OnLost};

/// All events, in the order of a run's life. Every notice belongs to one of them.
pub(crate) const EVENTS: &[EventKind] = &[
    EventKind {
        name: "unknown_variables",
        levels: &[Debug],
        fields: &[],
        meaning: "environment variables that begin with SHEDLOCK_ set nothing",
        text: |notice, _| match notice {
            Notice::UnknownVariables(variables) => {
                Some(EventText::new(format!("{} set nothing", variables.join(", "))))
            }
            _ => None,
        },
    },
    EventKind {
        name: "splaying",
        levels: &[Info],
        fields: &[],
        meaning: "the run begins after a random part of --splay",
        text: |notice, _| match notice {
            Notice::Splaying(splay) => {
                Some(EventText::new(format!("the run begins in {}, because of --splay", brief(*splay))))
            }
            _ => None,
        },
    },
    EventKind {
        name: "held",
        levels: &[Info],
        fields: HOLDER_OR_PAUSE,
        meaning: "the lock is held, so the job is not run",
        text: |notice, run| match notice {
            Notice::Held(state) => Some(EventText::skipped(state, run)),
            _ => None,
        },
    },
    EventKind {
        name: "waiting",
        levels: &[Debug],
        fields: PERHAPS_HOLDER,
        meaning: "the run waits because the lock is held, or because the server has no free connection; then there is no holder",
        text: |notice, _| match notice {
            Notice::Waiting(state) => Some(EventText::held(state, "waiting")),
            Notice::ServerFull(error) => Some(EventText::error(error, "; waiting")),
            _ => None,
        },
    },
    EventKind {
        name: "nested",
        levels: &[Info],
        fields: HOLDER,
        meaning: "an enclosing run holds the lock, so the job runs as part of it",
        text: |notice, _| match notice {
            Notice::Nested(state) => Some(EventText::held(state, "this run is part of that one")),
            _ => None,
        },
    },
    EventKind {
        name: "backend_error",
        levels: &[Errors, Warnings],
        fields: &[("until", Sometimes)],
        meaning: "the backend could not be asked; a warning if --on-backend-error is `skip` or `run`. `until` is there if a \
             request without a reply may have taken the lock and could not be undone: the lock may be held until then",
        text: |notice, run| match notice {
            Notice::Backend(error, policy, held) => Some(EventText::backend_error(error, *policy, *held, run)),
            _ => None,
        },
    },
    EventKind {
        name: "granted",
        levels: &[Info],
        fields: &[("backend", Always), ("until", Always), ("token", Sometimes)],
        meaning: "the backend granted the lock, and the job starts",
        text: |notice, run| match notice {
            Notice::Granted(grant) => Some(EventText::granted(grant, run)),
            _ => None,
        },
    },
    EventKind {
        name: "cut",
        levels: &[Info],
        fields: &[("until", Always)],
        meaning: "the lock ends at `until`, sooner than requested, because the backend cannot store a later time",
        text: |notice, _| match notice {
            Notice::EndShortened(until) => {
                let message = format!("the lock ends at {until}, the latest time that the backend can store");
                Some(EventText::new(message).field("until", until.to_string()))
            }
            _ => None,
        },
    },
    EventKind {
        name: "unrecorded",
        levels: &[Info],
        fields: &[],
        meaning: "this run is not in the history and, except on etcd, has no token",
        text: |notice, _| match notice {
            Notice::RunNotRecorded(error, token) => {
                Some(EventText::error(error, if token.is_some() { "" } else { "; there is no token" }))
            }
            _ => None,
        },
    },
    EventKind {
        name: "unclosed",
        levels: &[Info],
        fields: &[],
        meaning: "the end of this run could not be recorded in the history, and no older run was removed",
        text: |notice, _| match notice {
            Notice::RecordNotClosed(error) => {
                Some(EventText::error(error, "; the end of this run is not recorded, and no older run is removed"))
            }
            _ => None,
        },
    },
    EventKind {
        name: "unguarded",
        levels: &[Info, Warnings],
        fields: &[],
        meaning: "there is no guardian, or there was none for a while; a warning if the guardian died and could not be replaced",
        text: |notice, _| match notice {
            Notice::GuardianNotStarted(why) => Some(EventText::unguarded("no guardian", why)),
            Notice::GuardianReplaced(why) => {
                Some(EventText::new(format!("the guardian was lost: {why}; another was started")))
            }
            Notice::GuardianLost(why) => Some(EventText::unguarded("no guardian any more", why).at(Warnings)),
            _ => None,
        },
    },
    EventKind {
        name: "not_started",
        levels: &[Errors],
        fields: &[],
        meaning: "the command could not be started",
        text: |notice, _| match notice {
            Notice::NotStarted(error) => Some(EventText::not_started(error)),
            _ => None,
        },
    },
    EventKind {
        name: "not_handed_over",
        levels: &[Errors],
        fields: &[],
        meaning: "`shedlock acquire` could not write its handle, and releases the lock",
        text: |notice, _| match notice {
            Notice::NotHandedOver(why) => {
                Some(EventText::new(format!("cannot write the handle to stdout: {why}, so the lock is released")))
            }
            _ => None,
        },
    },
    EventKind {
        name: "renewed",
        levels: &[Debug],
        fields: &[],
        meaning: "the lock was renewed",
        text: |notice, _| match notice {
            Notice::Renewed => Some(EventText::new("the lock was renewed")),
            _ => None,
        },
    },
    EventKind {
        name: "not_renewed",
        levels: &[Warnings],
        fields: &[],
        meaning: "a renewal failed, and shedlock retries",
        text: |notice, _| match notice {
            Notice::NotRenewed(error) => Some(EventText::error(error, "; the lock is not renewed yet")),
            _ => None,
        },
    },
    EventKind {
        name: "checking",
        levels: &[Debug],
        fields: &[],
        meaning: "the job is frozen after a stall, until the lock is checked",
        text: |notice, _| match notice {
            Notice::JobFrozen => Some(EventText::new("after a stall the job is frozen until the lock is checked")),
            _ => None,
        },
    },
    EventKind {
        name: "extended",
        levels: &[Info],
        fields: &[("until", Always)],
        meaning: "the lock was extended, see shedlock-extend(1), and the job runs on",
        text: |notice, _| match notice {
            Notice::Extended(until) => Some(
                EventText::new(format!("the lock was extended until {until}, and so was the job"))
                    .field("until", until.to_string()),
            ),
            _ => None,
        },
    },
    EventKind {
        name: "lost",
        levels: &[Errors, Warnings],
        fields: &[],
        meaning: "the lock was lost; a warning if the job runs on or has already ended",
        text: |notice, _| match notice {
            Notice::Lost(cause, OnLost::Kill) => Some(EventText::lost(cause, "so the job is stopped").at(Errors)),
            Notice::Lost(cause, OnLost::Ignore) => {
                Some(EventText::lost(cause, "and the job runs on without it").at(Warnings))
            }
            Notice::FoundLost(cause) => Some(EventText::lost_unnoticed(cause).at(Warnings)),
            _ => None,
        },
    },
    EventKind {
        name: "expired",
        levels: &[Errors],
        fields: &[],
        meaning: "--at-most is used up, so the job is stopped",
        text: |notice, _| match notice {
            Notice::Expired(at_most, extended) => {
                let limit = limit(*at_most, *extended);
                Some(EventText::new(format!("the job is stopped because --at-most {limit} is used up")))
            }
            _ => None,
        },
    },
    EventKind {
        name: "runs_on",
        levels: &[Warnings],
        fields: &[],
        meaning: "--at-most is used up, and the job runs on without the lock",
        text: |notice, _| match notice {
            Notice::ExpiredButRunning(at_most, extended) => {
                let limit = limit(*at_most, *extended);
                Some(EventText::new(format!("the job runs on without the lock because --at-most {limit} is used up")))
            }
            _ => None,
        },
    },
    EventKind {
        name: "stop_timeout",
        levels: &[Warnings],
        fields: &[],
        meaning: "the job did not end within --stop-timeout, so it is killed",
        text: |notice, _| match notice {
            Notice::StopTimeout(timeout) => {
                let limit = duration::format(*timeout);
                let message = format!("the job is killed because it did not end within --stop-timeout {limit}");
                Some(EventText::new(message))
            }
            _ => None,
        },
    },
    EventKind {
        name: "undead",
        levels: &[Warnings],
        fields: &[],
        meaning: "SIGKILL did not end every process of the job, so the lock is renewed",
        text: |notice, _| match notice {
            Notice::Unkillable => Some(
                EventText::new("SIGKILL has not ended the whole job, so the lock is kept while it lives")
                    .hint(FIND_UNKILLABLE),
            ),
            _ => None,
        },
    },
    EventKind {
        name: "ended",
        levels: &[Info],
        fields: &[("exit_code", Always), ("duration", Always)],
        meaning: "the job has ended",
        text: |notice, _| match notice {
            Notice::Ended(reason, lasted) => Some(EventText::ended(*reason, *lasted)),
            _ => None,
        },
    },
    EventKind {
        name: "released",
        levels: &[Debug],
        fields: &[],
        meaning: "the lock was released",
        text: |notice, _| match notice {
            Notice::Released => Some(EventText::new("the lock was released")),
            _ => None,
        },
    },
    EventKind {
        name: "not_released",
        levels: &[Warnings],
        fields: &[],
        meaning: "the lock could not be released, and frees when its time is up",
        text: |notice, _| match notice {
            Notice::NotReleased(error) => Some(EventText::error(error, "; the lock frees when its time is up")),
            _ => None,
        },
    },
    EventKind {
        name: "not_given_back",
        levels: &[Warnings],
        fields: &[("until", Always)],
        meaning: "a request without a reply may have taken the lock, and could not be undone",
        text: |notice, _| match notice {
            Notice::NotUndone(error, held) => Some(EventText::doubtful(error, "", *held)),
            _ => None,
        },
    },
    EventKind {
        name: "metrics",
        levels: &[Warnings],
        fields: &[],
        meaning: "the metrics could not be written correctly, see --metrics-dir",
        text: |notice, _| match notice {
            Notice::Metrics(error) => Some(EventText::metrics(error)),
            _ => None,
        },
    },
    EventKind {
        name: "notified",
        levels: &[Debug],
        fields: &[],
        meaning: "the command of --notify has ended",
        text: |notice, _| match notice {
            Notice::Notified(event) => {
                Some(EventText::new(format!("the command of --notify for `{}` has ended", event.as_str())))
            }
            _ => None,
        },
    },
    EventKind {
        name: "not_notified",
        levels: &[Warnings],
        fields: &[],
        meaning: "the command of --notify could not be started, failed, or was killed",
        text: |notice, _| match notice {
            Notice::NotNotified(event, how) => {
                Some(EventText::new(format!("the command of --notify for `{}` {how}", event.as_str())))
            }
            _ => None,
        },
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::exit::ExitReason;
    use crate::lock::BackendError;
    use crate::lock::{Claim, Grant, LockName, LockState, Owner, Purpose};
    use crate::report::run_log::event_text::{AboutRun, Subcommand};
    use crate::report::run_log::fields::FIELDS;
    use crate::report::run_log::report::Report;
    use crate::report::{Format, Reporter};
    use crate::run::{
        LossCause, MetricsError, Notice, NotifyEvent, OnBackendError, OnLost, SpawnError, SpawnErrorKind,
    };
    use crate::system::Signal;
    use crate::system::Timestamp;

    /// Finds the row of a notice about a run of `shedlock run`.
    fn report(notice: &Notice) -> Report {
        let run = AboutRun { subcommand: Subcommand::Run, backend: "sqlite:/x", name: None };
        Report::new(notice, &run).expect("every notice has a row")
    }

    /// Does not compile without a new notice, which then has to be added to [`notices`], too.
    fn is_listed(notice: &Notice) -> bool {
        use Notice as N;
        match notice {
            N::UnknownVariables(_)
            | N::Granted(_)
            | N::RunNotRecorded(..)
            | N::RecordNotClosed(_)
            | N::EndShortened(_)
            | N::Held(_) => true,
            N::Waiting(_) | N::Nested(_) | N::GuardianNotStarted(_) | N::GuardianReplaced(_) | N::GuardianLost(_) => {
                true
            }
            N::JobFrozen | N::ServerFull(_) | N::Backend(..) | N::NotStarted(_) | N::NotHandedOver(_) => true,
            N::Expired(..) | N::ExpiredButRunning(..) | N::Splaying(_) | N::Extended(_) | N::StopTimeout(_) => true,
            N::Renewed | N::NotRenewed(_) | N::Lost(..) | N::FoundLost(_) | N::Unkillable => true,
            N::Ended(..) | N::Released | N::NotReleased(_) | N::NotUndone(..) | N::Metrics(_) => true,
            N::Notified(_) | N::NotNotified(..) => true,
        }
    }

    /// Returns every notice, in each way that tells it differently.
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
            Notice::UnknownVariables(vec!["SHEDLOCK_X".to_owned()]),
            Notice::Granted(grant(None)),
            Notice::Granted(grant(Some(7))),
            Notice::EndShortened(Timestamp(1)),
            Notice::RunNotRecorded(error.clone(), None),
            Notice::RecordNotClosed(error.clone()),
            Notice::ServerFull(error.clone()),
            Notice::GuardianNotStarted("it was killed".to_owned()),
            Notice::GuardianReplaced("it was killed".to_owned()),
            Notice::GuardianLost("it was killed".to_owned()),
            Notice::JobFrozen,
            Notice::NotHandedOver("no space left".to_owned()),
            Notice::Extended(Timestamp(1)),
            Notice::NotStarted(not_started),
            Notice::Expired(second, None),
            Notice::ExpiredButRunning(second, None),
            Notice::StopTimeout(second),
            Notice::Renewed,
            Notice::NotRenewed(error.clone()),
            Notice::FoundLost(LossCause::Gone),
            Notice::FoundLost(LossCause::Late),
            Notice::Unkillable,
            Notice::Released,
            Notice::NotReleased(error.clone()),
            Notice::NotUndone(error.clone(), Duration::from_secs(60)),
            Notice::Metrics(MetricsError::NotWritten("d".to_owned(), "no".to_owned())),
            Notice::Metrics(MetricsError::TooSlow("d".to_owned())),
            Notice::Metrics(MetricsError::CountersReset("f".to_owned())),
            Notice::Notified(NotifyEvent::Start),
            Notice::NotNotified(NotifyEvent::Skipped, "exited with code 1".to_owned()),
        ];
        for time in [None, Some(Timestamp(0))] {
            all.extend([Notice::Held(record(time)), Notice::Waiting(record(time)), Notice::Nested(record(time))]);
        }
        for reason in ["", "disk"] {
            let pause = Owner::for_pause("ada", "web1", 1, None, reason);
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
                    LossCause::Gone,
                    LossCause::Late,
                    LossCause::NotRenewed(None),
                    LossCause::NotRenewed(Some(error.clone())),
                    LossCause::NotAsked(Duration::from_secs(2)),
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
        assert!(notices().iter().all(is_listed));
        let reports: Vec<Report> = notices().iter().map(report).collect();
        for Report { event, text } in &reports {
            assert!(event.allows(text), "{} {:?}", event.name, text.level);
        }
        let told = reports.iter().map(|report| (report.event.name, report.level().name())).collect::<BTreeSet<_>>();
        let listed = EVENTS.iter().flat_map(|event| event.levels().map(|level| (event.name, level)));
        assert_eq!(told, listed.collect());
        let has = |field: &str| reports.iter().any(|report| report.text.fields.iter().any(|(name, _)| *name == field));
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
        let mut schema = crate::report::schema();
        schema["unevaluatedProperties"] = false.into();
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        let reporter = Reporter::new(Debug, Format::Json, claim, "sqlite:/x");
        for notice in notices() {
            let mut line: serde_json::Value = serde_json::from_str(&reporter.json(report(&notice))).unwrap();
            let errors: Vec<String> = validator.iter_errors(&line).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{line} {errors:?}");
            line["more"] = 1.into();
            assert!(!validator.is_valid(&line), "a field that is not in the table");
        }
    }
}
