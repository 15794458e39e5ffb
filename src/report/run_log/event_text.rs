//! The words of an event: its message and hint, and the values of its fields.

use std::time::Duration;

use serde_json::Value;

use super::verbosity::Verbosity;
use crate::duration::{self, brief};
use crate::exit::ExitReason;
use crate::lock::{BackendError, Grant, Holder, LockState};
use crate::report::holding::describe_holder;
use crate::report::skew::skew;
use crate::run::{LossCause, MetricsError, OnBackendError, SpawnError};
use crate::system::Timestamp;
use crate::text::shell_word;

/// The command that takes the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subcommand {
    Run,
    Acquire,
}

impl Subcommand {
    /// Returns the consequence shown when another owner holds the lock.
    pub(super) fn if_held(self) -> &'static str {
        match self {
            Self::Run => "the job is not run",
            Self::Acquire => "it is not acquired",
        }
    }
}

/// The facts about a run on which the words of an event depend, besides the event's values.
pub(super) struct AboutRun<'a> {
    pub(super) subcommand: Subcommand,
    /// The URL of the backend, without the password.
    pub(super) backend: &'a str,
    /// The lock's name, if a person is told who may want to do something about it.
    pub(super) name: Option<&'a str>,
}

const FREED_OR_TAKEN: &str =
    "somebody freed or took the lock while the job ran, or the server lost it in a failover or a flush";
const TOO_LATE: &str =
    "perhaps nobody else took the lock: this host was too busy, or shedlock stalled; choose a longer time";
const BACKEND_SILENT: &str =
    "the backend did not answer for most of the lease; choose a lease several times as long as its outages";
pub(super) const FIND_UNKILLABLE: &str = "find the process with `ps -eo pid,user,stat,args`: it is in uninterruptible sleep (D), in a frozen cgroup, held by a debugger, or belongs to another user";

/// The words of an event, and the values of its fields.
pub(super) struct EventText {
    /// The level, if it is not the first one of the event.
    pub(super) level: Option<Verbosity>,
    pub(super) message: String,
    pub(super) hint: Option<String>,
    /// The values of the event's own fields in JSON.
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl EventText {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { level: None, message: message.into(), hint: None, fields: Vec::new() }
    }

    pub(super) fn at(self, level: Verbosity) -> Self {
        Self { level: Some(level), ..self }
    }

    pub(super) fn hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }

    pub(super) fn field(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((key, value.into()));
        self
    }

    /// Says why the backend could not be asked, and the consequence.
    pub(super) fn error(error: &BackendError, consequence: &str) -> Self {
        Self { hint: error.hint.clone(), ..Self::new(format!("{}{consequence}", error.message)) }
    }

    /// Reports an error that may leave a lock held. A request that was carried out before now expires within `held` from now.
    pub(super) fn doubtful(error: &BackendError, consequence: &str, held: Duration) -> Self {
        let (until, lease) = (Timestamp::now() + held, duration::format(held));
        let doubt = format!("; the lock may be held until {until}, or for {lease} after a late request arrives");
        Self::error(error, &format!("{consequence}{doubt}")).field("until", until.to_string())
    }

    /// Says why the backend could not be asked for the lock, what follows from `--on-backend-error`, and for how long the lock
    /// may be held.
    pub(super) fn backend_error(
        error: &BackendError,
        policy: OnBackendError,
        held: Option<Duration>,
        run: &AboutRun<'_>,
    ) -> Self {
        let (level, consequence) = match policy {
            OnBackendError::Fail => (Verbosity::Errors, String::new()),
            OnBackendError::Skip => (Verbosity::Warnings, format!("; {}", run.subcommand.if_held())),
            OnBackendError::Run => (Verbosity::Warnings, "; the job runs without a lock".to_owned()),
        };
        let text = match held {
            None => Self::error(error, &consequence),
            Some(held) => Self::doubtful(error, &consequence, held),
        };
        text.at(level)
    }

    /// Says until when the lock is granted, and where.
    pub(super) fn granted(grant: &Grant, run: &AboutRun<'_>) -> Self {
        let token = grant.token.map(|token| format!(", with token {token}")).unwrap_or_default();
        let message = format!("the lock is taken until {}{token}, in {}", grant.until, run.backend);
        let text = Self::new(message).field("backend", run.backend).field("until", grant.until.to_string());
        match grant.token {
            Some(token) => text.field("token", token),
            None => text,
        }
    }

    /// Describes the holder of the lock, and the consequence.
    pub(super) fn held(state: &LockState, consequence: &str) -> Self {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let message = format!("the lock {}; {consequence}", describe_holder(state, None));
        let hint = skew(state).map(|skew| format!("the lock {skew}; see shedlock-backends(7)"));
        let text = Self { hint, ..Self::new(message) }
            .field("holder", state.owner.as_str())
            .field("since", time(state.since))
            .field("until", time(state.until));
        let holder = Holder::parse(&state.owner);
        match holder.pause().filter(|_| holder.is_paused()) {
            Some(pause) if pause.reason.is_empty() => text.field("paused", true),
            Some(pause) => text.field("paused", true).field("reason", pause.reason),
            None => text,
        }
    }

    /// Describes the holder for which the job is not run; and tells a person how it would be.
    pub(super) fn skipped(state: &LockState, run: &AboutRun<'_>) -> Self {
        let text = Self::held(state, run.subcommand.if_held());
        let Some(name) = run.name.filter(|_| text.hint.is_none()) else { return text };
        let (holder, name) = (Holder::parse(&state.owner), shell_word(name));
        text.hint(&match (holder.is_paused(), holder.has_ended()) {
            (true, _) => format!("`shedlock resume {name}` ends the pause"),
            (false, true) => format!("`shedlock unlock {name}` frees it; then the next firing finds it free too"),
            (false, false) => "--wait DURATION waits for its end".to_owned(),
        })
    }

    /// Says that nothing ends the job if shedlock dies, and why.
    pub(super) fn unguarded(what: &str, why: &str) -> Self {
        Self::new(format!("there is {what}: {why}; if shedlock is killed, only the command dies with it"))
    }

    /// Says why the command could not be started.
    pub(super) fn not_started(error: &SpawnError) -> Self {
        let command = error.command.to_string_lossy();
        Self { hint: error.hint.clone(), ..Self::new(format!("cannot run `{command}`: {}", error.reason)) }
    }

    /// Says how the lock was lost while the job ran, and the consequence.
    pub(super) fn lost(cause: &LossCause, consequence: &str) -> Self {
        let not_renewed = "the lock could not be renewed in time";
        let (how, hint) = match cause {
            LossCause::Gone => ("the lock was lost", Some(FREED_OR_TAKEN.to_owned())),
            LossCause::Late => ("the lock's time ran out before it was renewed", Some(TOO_LATE.to_owned())),
            LossCause::NotRenewed(None) => (not_renewed, Some(BACKEND_SILENT.to_owned())),
            LossCause::NotRenewed(Some(error)) => (not_renewed, error.hint.clone()),
            LossCause::NotAsked(late) => (not_renewed, Some(sent_late(*late))),
        };
        let why = match cause {
            LossCause::NotRenewed(Some(error)) => format!(": {}", error.message),
            _ => String::new(),
        };
        Self { hint, ..Self::new(format!("{how}, {consequence}{why}")) }
    }

    /// Says how a lock was lost, if that was found only when it was to be released.
    pub(super) fn lost_unnoticed(cause: &LossCause) -> Self {
        match cause {
            LossCause::Gone => Self::new("the lock was no longer ours when the job ended").hint(FREED_OR_TAKEN),
            LossCause::Late | LossCause::NotRenewed(_) | LossCause::NotAsked(_) => {
                Self::new("the lock's time ran out before it could be released").hint(TOO_LATE)
            }
        }
    }

    /// Says how the job ended, and how long it ran.
    pub(super) fn ended(reason: ExitReason, lasted: Duration) -> Self {
        let how = match reason {
            ExitReason::Exited(code) => format!("the job exited with code {code}"),
            ExitReason::Killed(signal) => format!("the job was killed by {signal}"),
            _ => "the job was stopped".to_owned(),
        };
        let seconds = lasted.as_millis() as f64 / 1000.0;
        Self::new(format!("{how} after {}", brief(lasted)))
            .field("exit_code", reason.exit(0).code)
            .field("duration", seconds)
    }

    /// Says why the metrics were not written.
    pub(super) fn metrics(error: &MetricsError) -> Self {
        match error {
            MetricsError::NotWritten(path, why) => Self::new(format!("the metrics in {path} were not written: {why}"))
                .hint("--metrics-dir must be an existing directory that this user can read and write"),
            MetricsError::TooSlow(path) => Self::new(format!("the metrics in {path} were not written in time")),
            MetricsError::CountersReset(file) => {
                Self::new(format!("{file} was damaged or not from shedlock, so its counters start over"))
            }
        }
    }
}

/// Explains a renewal that was sent late, rounded down to tenths of a second.
fn sent_late(late: Duration) -> String {
    let late = duration::format(late - Duration::from_nanos(u64::from(late.subsec_nanos() % 100_000_000)));
    format!("shedlock sent the request {late} late: this host was too busy, or shedlock stalled; choose a longer lease")
}

/// Formats an at-most, and until when it was extended.
pub(super) fn limit(at_most: Duration, extended: Option<Timestamp>) -> String {
    let at_most = duration::format(at_most);
    extended.map_or_else(|| at_most.clone(), |until| format!("{at_most}, extended until {until},"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Owner;
    use crate::report::run_log::report::Report;
    use crate::report::run_log::verbosity::Verbosity;
    use crate::run::{Notice, OnLost};

    fn report(notice: &Notice, subcommand: Subcommand) -> Report {
        Report::new(notice, &AboutRun { subcommand, backend: "sqlite:/x", name: None }).unwrap()
    }

    #[test]
    fn a_lock_without_times_is_shown_all_the_same() {
        let record = LockState { owner: "host".to_owned(), since: None, until: None, left: Duration::MAX };
        let line = report(&Notice::Held(record), Subcommand::Run).text;
        assert_eq!(line.message, "the lock is held by host since unknown until unknown; the job is not run");
    }

    #[test]
    fn a_run_that_finds_its_lock_paused_is_told_by_whom_and_why() {
        let owner = Owner::for_pause("ada", "web1", 7, None, "disk: replaced").as_str().to_owned();
        let until = Some(Timestamp(3_600_000));
        let record = LockState { owner, since: Some(Timestamp(0)), until, left: Duration::from_secs(9) };
        let line = report(&Notice::Held(record.clone()), Subcommand::Acquire).text;
        assert!(line.message.ends_with("; it is not acquired"), "{}", line.message);
        let line = report(&Notice::Held(record.clone()), Subcommand::Run).text;
        let told = "the lock is paused by ada@web1 since 1970-01-01T00:00:00.000Z until 1970-01-01T01:00:00.000Z: \
                    disk: replaced; the job is not run";
        assert_eq!(line.message, told);
        let field =
            |line: &EventText, key| line.fields.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone());
        assert_eq!(
            (field(&line, "paused"), field(&line, "reason")),
            (Some(true.into()), Some("disk: replaced".into()))
        );
        assert!(line.hint.is_none());
        let line =
            report(&Notice::Held(LockState { owner: format!("{}:ended", record.owner), ..record }), Subcommand::Run)
                .text;
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
        let line = report(&Notice::Granted(grant), Subcommand::Run).text;
        assert_eq!(line.message, "the lock is taken until 1970-01-01T00:00:01.000Z, with token 34, in sqlite:/x");
        let line = report(&Notice::Granted(Grant { token: None, ..grant }), Subcommand::Run).text;
        assert_eq!(line.message, "the lock is taken until 1970-01-01T00:00:01.000Z, in sqlite:/x");
    }

    #[test]
    fn whoever_loses_a_lock_is_told_how_that_may_have_happened() {
        let refused = BackendError::permanent("backend x: the column is too coarse").hint("make it a finer one");
        let kinds = [
            (LossCause::Gone, "somebody"),
            (LossCause::Late, "too busy"),
            (LossCause::NotAsked(Duration::from_micros(1_401_137)), "the request 1.4s late"),
            (LossCause::NotRenewed(None), "did not answer"),
            (LossCause::NotRenewed(Some(refused)), "finer"),
        ];
        for (kind, word) in kinds {
            for on_lost in [OnLost::Kill, OnLost::Ignore] {
                let line = report(&Notice::Lost(kind.clone(), on_lost), Subcommand::Run).text;
                assert!(line.hint.is_some_and(|hint| hint.contains(word)));
                let coarse = line.message.ends_with(": backend x: the column is too coarse");
                assert_eq!(coarse, matches!(kind, LossCause::NotRenewed(Some(_))));
            }
        }
    }

    #[test]
    fn waiting_for_a_full_server_is_told_only_to_those_who_want_everything() {
        let report =
            report(&Notice::ServerFull(BackendError::transient("backend x: too many clients")), Subcommand::Run);
        assert_eq!(
            (report.level(), &report.text.message[..]),
            (Verbosity::Debug, "backend x: too many clients; waiting")
        );
    }
}
