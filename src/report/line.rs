//! The line of each event: level, message, hint, and fields in JSON.

use std::time::Duration;

use serde_json::Value;

use super::holding::holding;
use super::skew::skew;
use super::verbosity::Verbosity;
use crate::backend::BackendError;
use crate::duration::{self, brief};
use crate::exit::ExitReason;
use crate::lock::{Holder, LockState};
use crate::run::{MetricsError, Notice, NoticeKind, OnBackendError, OnLost};
use crate::system::Timestamp;

/// The purpose of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Job,
    /// A script gets the lock's handle, from `shedlock acquire`.
    Script,
}

impl Subject {
    /// Returns the consequence shown when another owner holds the lock.
    fn undone(self) -> &'static str {
        match self {
            Self::Job => "the job is not run",
            Self::Script => "it is not acquired",
        }
    }
}

const TAKEN_AWAY: &str =
    "somebody freed or took the lock while the job ran, or the server lost it in a failover or a flush";
const TOO_LATE: &str =
    "perhaps nobody else took the lock: this host was too busy, or shedlock stalled; choose a longer time";
const SILENT: &str =
    "the backend did not answer for most of the lease; choose a lease several times as long as its outages";

/// The line that reports an event.
pub(super) struct Line {
    pub(super) level: Verbosity,
    /// The event's stable name in JSON.
    pub(super) event: &'static str,
    pub(super) message: String,
    pub(super) hint: Option<String>,
    /// Its own fields in the JSON object.
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl Line {
    /// Returns the line for a notice of `shedlock run`.
    #[cfg(test)]
    pub(super) fn of(notice: &Notice) -> Self {
        Self::of_subject(notice, Subject::Job, "sqlite:/x")
    }

    /// Returns the line for a notice about a lock in this backend.
    pub(super) fn of_subject(notice: &Notice, subject: Subject, backend: &str) -> Self {
        match notice {
            Notice::Unknown(variables) => {
                Line::new(Verbosity::Debug, "unknown_variables", format!("{} set nothing", variables.join(", ")))
            }
            Notice::Granted(grant) => {
                let token = grant.token.map(|token| format!(", with token {token}")).unwrap_or_default();
                let message = format!("the lock is ours until {}{token}, in {backend}", grant.until);
                let line = Line::new(Verbosity::Info, "granted", message)
                    .field("backend", backend)
                    .field("until", grant.until.to_string());
                match grant.token {
                    Some(token) => line.field("token", token),
                    None => line,
                }
            }
            Notice::Cut(until) => {
                let message = format!("the lock ends at {until}, the latest time that the backend can store");
                Line::new(Verbosity::Info, "cut", message).field("until", until.to_string())
            }
            Notice::Unrecorded(error, token) => {
                let consequence = if token.is_some() { "" } else { "; there is no token" };
                Line::error(Verbosity::Info, "unrecorded", error, consequence)
            }
            Notice::Unclosed(error) => {
                let consequence = "; the end of this run is not recorded, and no older run is removed";
                Line::error(Verbosity::Info, "unclosed", error, consequence)
            }
            Notice::Held(record) => Line::held("held", record, subject.undone()),
            Notice::Waiting(record) => {
                let line = Line::held("waiting", record, "waiting");
                Line { level: Verbosity::Debug, ..line }
            }
            Notice::Nested(record) => Line::held("nested", record, "this run is part of that one"),
            Notice::Unguarded(why) => {
                let message =
                    format!("there is no guardian: {why}; if shedlock is killed, only the command dies with it");
                Line::new(Verbosity::Info, "unguarded", message)
            }
            Notice::Reguarded(why) => {
                Line::new(Verbosity::Info, "unguarded", format!("the guardian was lost: {why}; another was started"))
            }
            Notice::GuardianLost(why) => {
                let message = format!(
                    "there is no guardian any more: {why}; if shedlock is killed, only the command dies with it"
                );
                Line::new(Verbosity::Warnings, "unguarded", message)
            }
            Notice::Checking => {
                Line::new(Verbosity::Debug, "checking", "after a stall the job is frozen until the lock is checked")
            }
            Notice::Full(error) => Line::error(Verbosity::Debug, "waiting", error, "; waiting"),
            Notice::Backend(error, policy, held) => {
                let (level, consequence) = match policy {
                    OnBackendError::Fail => (Verbosity::Errors, String::new()),
                    OnBackendError::Skip => (Verbosity::Warnings, format!("; {}", subject.undone())),
                    OnBackendError::Run => (Verbosity::Warnings, "; the job runs without a lock".to_owned()),
                };
                match held {
                    None => Line::error(level, "backend_error", error, &consequence),
                    Some(held) => Line::doubtful(level, "backend_error", error, &consequence, *held),
                }
            }
            Notice::NotStarted(error) => {
                let command = error.command.to_string_lossy();
                let line =
                    Line::new(Verbosity::Errors, "not_started", format!("cannot run `{command}`: {}", error.reason));
                Line { hint: error.hint.clone(), ..line }
            }
            Notice::NotHandedOver(why) => Line::new(
                Verbosity::Errors,
                "not_handed_over",
                format!("cannot write the handle to stdout: {why}, so the lock is released"),
            ),
            Notice::Expired(at_most, extended) => {
                let limit = limit(*at_most, *extended);
                Line::new(
                    Verbosity::Errors,
                    "expired",
                    format!("the job is stopped because --at-most {limit} is used up"),
                )
            }
            Notice::RunsOn(at_most, extended) => {
                let limit = limit(*at_most, *extended);
                Line::new(
                    Verbosity::Warnings,
                    "runs_on",
                    format!("the job runs on without the lock because --at-most {limit} is used up"),
                )
            }
            Notice::Extended(until) => Line::new(
                Verbosity::Info,
                "extended",
                format!("the lock was extended until {until}, and so was the job"),
            )
            .field("until", until.to_string()),
            Notice::StopTimeout(timeout) => {
                let limit = duration::format(*timeout);
                Line::new(
                    Verbosity::Warnings,
                    "stop_timeout",
                    format!("the job is killed because it did not end within --stop-timeout {limit}"),
                )
            }
            Notice::Renewed => Line::new(Verbosity::Debug, "renewed", "the lock was renewed"),
            Notice::NotRenewed(error) => {
                Line::error(Verbosity::Warnings, "not_renewed", error, "; the lock is not renewed yet")
            }
            Notice::Lost(kind, on_lost) => {
                let not_renewed = "the lock could not be renewed in time";
                let (how, hint) = match kind {
                    NoticeKind::Gone => ("the lock was lost", Some(TAKEN_AWAY.to_owned())),
                    NoticeKind::Late => ("the lock's time ran out before it was renewed", Some(TOO_LATE.to_owned())),
                    NoticeKind::NotRenewed(None) => (not_renewed, Some(SILENT.to_owned())),
                    NoticeKind::NotRenewed(Some(error)) => (not_renewed, error.hint.clone()),
                    NoticeKind::NotAsked(late) => (not_renewed, Some(starved(*late))),
                };
                let why = match kind {
                    NoticeKind::NotRenewed(Some(error)) => format!(": {}", error.message),
                    _ => String::new(),
                };
                let line = match on_lost {
                    OnLost::Kill => Line::new(Verbosity::Errors, "lost", format!("{how}, so the job is stopped{why}")),
                    OnLost::Ignore => {
                        Line::new(Verbosity::Warnings, "lost", format!("{how}, and the job runs on without it{why}"))
                    }
                };
                Line { hint, ..line }
            }
            Notice::LostUnnoticed(kind) => {
                let (message, hint) = match kind {
                    NoticeKind::Gone => ("the lock was no longer ours when the job ended", TAKEN_AWAY),
                    NoticeKind::Late | NoticeKind::NotRenewed(_) | NoticeKind::NotAsked(_) => {
                        ("the lock's time ran out before it could be released", TOO_LATE)
                    }
                };
                Line::new(Verbosity::Warnings, "lost", message).hint(hint)
            }
            Notice::Unkillable => Line::new(
                Verbosity::Warnings,
                "undead",
                "SIGKILL has not ended the whole job, so the lock is kept while it lives",
            )
            .hint("find the process with `ps -eo pid,user,stat,args`: it is in uninterruptible sleep (D), or belongs to another user"),
            Notice::Splaying(splay) => {
                Line::new(Verbosity::Info, "splaying", format!("the run begins in {}, because of --splay", brief(*splay)))
            }
            Notice::Ended(outcome, lasted) => {
                let how = match outcome {
                    ExitReason::Exited(code) => format!("the job exited with code {code}"),
                    ExitReason::Killed(signal) => format!("the job was killed by {signal}"),
                    _ => "the job was stopped".to_owned(),
                };
                let code = outcome.exit(0).code;
                let how = format!("{how} after {}", brief(*lasted));
                let seconds = lasted.as_millis() as f64 / 1000.0;
                Line::new(Verbosity::Info, "ended", how).field("exit_code", code).field("duration", seconds)
            }
            Notice::Released => Line::new(Verbosity::Debug, "released", "the lock was released"),
            Notice::NotReleased(error) => {
                Line::error(Verbosity::Warnings, "not_released", error, "; the lock frees when its time is up")
            }
            Notice::NotGivenBack(error, held) => {
                Line::doubtful(Verbosity::Warnings, "not_given_back", error, "", *held)
            }
            Notice::Metrics(error) => Line::metrics(error),
            Notice::Notified(event) => {
                let message = format!("the command of --notify for `{}` has ended", event.as_str());
                Line::new(Verbosity::Debug, "notified", message)
            }
            Notice::NotNotified(event, how) => {
                let message = format!("the command of --notify for `{}` {how}", event.as_str());
                Line::new(Verbosity::Warnings, "not_notified", message)
            }
        }
    }

    fn new(level: Verbosity, event: &'static str, message: impl Into<String>) -> Self {
        Self { level, event, message: message.into(), hint: None, fields: Vec::new() }
    }

    fn error(level: Verbosity, event: &'static str, error: &BackendError, consequence: &str) -> Self {
        let line = Self::new(level, event, format!("{}{consequence}", error.message));
        Self { hint: error.hint.clone(), ..line }
    }

    /// Returns the line for an error that may leave a lock held. A request that was carried out before now expires within
    /// `held` from now.
    fn doubtful(
        level: Verbosity,
        event: &'static str,
        error: &BackendError,
        consequence: &str,
        held: Duration,
    ) -> Self {
        let (until, lease) = (Timestamp::now() + held, duration::format(held));
        let doubt = format!("; the lock may be held until {until}, or for {lease} after a late request arrives");
        Self::error(level, event, error, &format!("{consequence}{doubt}")).field("until", until.to_string())
    }

    fn held(event: &'static str, record: &LockState, consequence: &str) -> Self {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let message = format!("the lock {}; {consequence}", holding(record, None));
        let hint = skew(record).map(|skew| format!("the lock {skew}; see shedlock-backends(7)"));
        let line = Self { hint, ..Self::new(Verbosity::Info, event, message) }
            .field("holder", record.owner.as_str())
            .field("since", time(record.since))
            .field("until", time(record.until));
        let holder = Holder::of(&record.owner);
        match holder.pause().filter(|_| holder.is_paused()) {
            Some(pause) if pause.reason.is_empty() => line.field("paused", true),
            Some(pause) => line.field("paused", true).field("reason", pause.reason),
            None => line,
        }
    }

    fn metrics(error: &MetricsError) -> Self {
        let warning = |message| Self::new(Verbosity::Warnings, "metrics", message);
        match error {
            MetricsError::NotWritten(place, why) => warning(format!("the metrics in {place} were not written: {why}"))
                .hint("--metrics-dir must be an existing directory that this user can read and write"),
            MetricsError::TooSlow(place) => warning(format!("the metrics in {place} were not written in time")),
            MetricsError::Foreign(file) => {
                warning(format!("{file} was damaged or not from shedlock, so its counters start over"))
            }
        }
    }

    fn hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }

    fn field(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((key, value.into()));
        self
    }
}

/// Explains a renewal that was sent late, rounded down to tenths of a second.
fn starved(late: Duration) -> String {
    let late = duration::format(late - Duration::from_nanos(u64::from(late.subsec_nanos() % 100_000_000)));
    format!("shedlock sent the request {late} late: this host was too busy, or shedlock stalled; choose a longer lease")
}

/// Formats an at-most, and until when it was extended.
fn limit(at_most: Duration, extended: Option<Timestamp>) -> String {
    let at_most = duration::format(at_most);
    extended.map_or_else(|| at_most.clone(), |until| format!("{at_most}, extended until {until},"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Grant, Owner};

    #[test]
    fn a_lock_without_times_is_shown_all_the_same() {
        let record = LockState { owner: "host".to_owned(), since: None, until: None, left: Duration::MAX };
        let line = Line::of(&Notice::Held(record));
        assert_eq!(line.message, "the lock is held by host since unknown until unknown; the job is not run");
    }

    #[test]
    fn a_run_that_finds_its_lock_paused_is_told_by_whom_and_why() {
        let owner = Owner::of_pause("ada", "web1", 7, None, "disk: replaced").as_str().to_owned();
        let until = Some(Timestamp(3_600_000));
        let record = LockState { owner, since: Some(Timestamp(0)), until, left: Duration::from_secs(9) };
        let line = Line::of_subject(&Notice::Held(record.clone()), Subject::Script, "");
        assert!(line.message.ends_with("; it is not acquired"), "{}", line.message);
        let line = Line::of(&Notice::Held(record.clone()));
        let told = "the lock is paused by ada@web1 since 1970-01-01T00:00:00.000Z until 1970-01-01T01:00:00.000Z: \
                    disk: replaced; the job is not run";
        assert_eq!(line.message, told);
        let field =
            |line: &Line, key| line.fields.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone());
        assert_eq!(
            (field(&line, "paused"), field(&line, "reason")),
            (Some(true.into()), Some("disk: replaced".into()))
        );
        assert!(line.hint.is_none());
        let line = Line::of(&Notice::Held(LockState { owner: format!("{}:ended", record.owner), ..record }));
        assert!(
            line.message.starts_with("the lock is kept after its last run, as before the pause by ada@web1, since"),
            "{}",
            line.message
        );
        assert_eq!(field(&line, "paused"), None);
    }

    #[test]
    fn the_token_is_told_with_the_grant() {
        let grant = Grant { locked_at: Timestamp(0), until: Timestamp(1_000), token: Some(34) };
        let line = Line::of(&Notice::Granted(grant));
        assert_eq!(line.message, "the lock is ours until 1970-01-01T00:00:01.000Z, with token 34, in sqlite:/x");
        let line = Line::of(&Notice::Granted(Grant { token: None, ..grant }));
        assert_eq!(line.message, "the lock is ours until 1970-01-01T00:00:01.000Z, in sqlite:/x");
    }

    #[test]
    fn whoever_loses_a_lock_is_told_how_that_may_have_happened() {
        let refused = BackendError::permanent("backend x: the column is too coarse").hint("make it a finer one");
        let kinds = [
            (NoticeKind::Gone, "somebody"),
            (NoticeKind::Late, "too busy"),
            (NoticeKind::NotAsked(Duration::from_micros(1_401_137)), "the request 1.4s late"),
            (NoticeKind::NotRenewed(None), "did not answer"),
            (NoticeKind::NotRenewed(Some(refused)), "finer"),
        ];
        for (kind, word) in kinds {
            for on_lost in [OnLost::Kill, OnLost::Ignore] {
                let line = Line::of(&Notice::Lost(kind.clone(), on_lost));
                assert!(line.hint.is_some_and(|hint| hint.contains(word)));
                let coarse = line.message.ends_with(": backend x: the column is too coarse");
                assert_eq!(coarse, matches!(kind, NoticeKind::NotRenewed(Some(_))));
            }
        }
    }

    #[test]
    fn waiting_for_a_full_server_is_told_only_to_those_who_want_everything() {
        let line = Line::of(&Notice::Full(BackendError::transient("backend x: too many clients")));
        assert_eq!((line.level, &line.message[..]), (Verbosity::Debug, "backend x: too many clients; waiting"));
    }
}
