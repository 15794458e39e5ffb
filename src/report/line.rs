//! One line, or one JSON object, per event, on stderr.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{Write, stderr};
use std::os::fd::AsFd;

use nix::libc::PIPE_BUF;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Map, Value};

use crate::backend::Trouble;
use crate::clock::Timestamp;
use crate::duration;
use crate::exit::Outcome;
use crate::lock::{Claim, Record};
use crate::run::{Notice, NoticeKind, OnBackendError, OnLost};

/// How much is told; each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verbosity {
    Errors,
    Warnings,
    Info,
    Debug,
}

/// How an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// How long, in milliseconds, each of the last lines may take to be written.
const FAREWELL: u16 = 500;

/// Tells the user of one run's events. It never waits for who reads them: a pager that is not scrolled, or a terminal
/// after ^S, must not keep a job alive beyond its lease.
pub(crate) struct Reporter {
    verbosity: Verbosity,
    format: Format,
    claim: Claim,
    /// Lines that could not be written yet.
    pending: RefCell<VecDeque<Vec<u8>>>,
}

/// An event as it is told.
struct Line {
    level: Verbosity,
    /// The event's stable name in JSON.
    event: &'static str,
    message: String,
    hint: Option<String>,
    /// More fields of the JSON object.
    fields: Vec<(&'static str, Value)>,
}

/// Writes an error that is no run's: bad usage, bad configuration.
pub(crate) fn error(message: &str, hint: Option<&str>) {
    write(text(message, hint).as_bytes());
}

fn text(message: &str, hint: Option<&str>) -> String {
    let mut text = format!("shedlock: {}\n", visible(&without_passwords(message)));
    if let Some(hint) = hint {
        text += &format!("hint: {}\n", visible(hint));
    }
    text
}

/// The text without the password of any URL in it: whoever types one in the wrong place need not read it in a log.
fn without_passwords(text: &str) -> Cow<'_, str> {
    let Some((before, after)) = text.split_once("://") else { return Cow::Borrowed(text) };
    let authority = after.split([' ', '`', '\'']).next().unwrap_or_default();
    let kept = match authority.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?.0, host))) {
        Some((user, host)) => format!("{user}:***@{host}"),
        None => authority.to_owned(),
    };
    Cow::Owned(format!("{before}://{kept}{}", without_passwords(&after[authority.len()..])))
}

/// Control characters, as a path or a command may have them, in Rust's notation: a message stays one line, and does
/// nothing to a terminal.
fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let show = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(show).collect()
}

impl Reporter {
    pub(crate) fn new(verbosity: Verbosity, format: Format, claim: Claim) -> Self {
        Self { verbosity, format, claim, pending: RefCell::default() }
    }

    /// Writes the notice, if it is loud enough.
    pub(crate) fn tell(&self, notice: &Notice) {
        let line = describe(notice);
        if line.level > self.verbosity {
            return;
        }
        let text = match self.format {
            Format::Text => {
                let level = if line.level == Verbosity::Warnings { "warning: " } else { "" };
                text(&format!("{}: {level}{}", self.claim.name, line.message), line.hint.as_deref())
            }
            Format::Json => self.json(line),
        };
        self.pending.borrow_mut().push_back(text.into_bytes());
        self.write(PollTimeout::ZERO);
    }

    /// Writes what could not be written before, which may take a moment. Nothing may be left to supervise.
    pub(crate) fn finish(&self) {
        self.write(FAREWELL.into());
    }

    /// Writes the lines that stderr has room for, each time waiting for it no longer than `patience`.
    fn write(&self, patience: PollTimeout) {
        let mut pending = self.pending.borrow_mut();
        while let Some(line) = pending.front_mut() {
            let stderr = stderr();
            let mut room = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
            if !poll(&mut room, patience).is_ok_and(|ready| ready > 0) {
                return;
            }
            // A pipe that has room has it for so much, and more would wait for the reader after all.
            let rest = line.split_off(line.len().min(PIPE_BUF));
            write(line);
            *line = rest;
            if line.is_empty() {
                pending.pop_front();
            }
        }
    }

    fn json(&self, line: Line) -> String {
        let mut object = Map::new();
        object.insert("time".to_owned(), Timestamp::now().to_string().into());
        object.insert("level".to_owned(), level_name(line.level).into());
        object.insert("event".to_owned(), line.event.into());
        object.insert("name".to_owned(), self.claim.name.as_str().into());
        object.insert("owner".to_owned(), self.claim.owner.as_str().into());
        object.insert("message".to_owned(), without_passwords(&line.message).into());
        object.extend(line.hint.map(|hint| ("hint".to_owned(), hint.into())));
        object.extend(line.fields.into_iter().map(|(key, value)| (key.to_owned(), value)));
        format!("{}\n", Value::Object(object))
    }
}

/// In one write, so that the lines of many processes on one descriptor do not mix.
fn write(text: &[u8]) {
    // Who has closed our stderr does not want to know.
    let _ = stderr().write_all(text);
}

fn level_name(level: Verbosity) -> &'static str {
    match level {
        Verbosity::Errors => "error",
        Verbosity::Warnings => "warning",
        Verbosity::Info => "info",
        Verbosity::Debug => "debug",
    }
}

fn describe(notice: &Notice) -> Line {
    match notice {
        Notice::Granted(grant) => {
            let line = Line::new(Verbosity::Info, "granted", format!("the lock is ours until {}", grant.until));
            let line = line.field("until", grant.until.to_string());
            match grant.token {
                Some(token) => line.field("token", token),
                None => line,
            }
        }
        Notice::Unrecorded(trouble) => Line::trouble(Verbosity::Info, "unrecorded", trouble, "; there is no token"),
        Notice::Held(record) => Line::held("held", record, "the job is not run"),
        Notice::Waiting(record) => {
            let line = Line::held("waiting", record, "waiting");
            Line { level: Verbosity::Debug, ..line }
        }
        Notice::Nested(record) => Line::held("nested", record, "this run is part of that one"),
        Notice::Unguarded(why) => {
            let message = format!("if shedlock is killed, only the command ends with it: {why}");
            Line::new(Verbosity::Info, "unguarded", message)
        }
        Notice::Checking => {
            Line::new(Verbosity::Debug, "checking", "after a standstill the job is held until the lock is checked")
        }
        Notice::Full(trouble) => Line::trouble(Verbosity::Debug, "waiting", trouble, "; waiting"),
        Notice::Backend(trouble, policy) => {
            let (level, event, consequence) = match policy {
                OnBackendError::Fail => (Verbosity::Errors, "backend_error", ""),
                OnBackendError::Skip => (Verbosity::Warnings, "backend_error", "; the job is not run"),
                OnBackendError::Run => (Verbosity::Warnings, "backend_error", "; the job runs without a lock"),
            };
            Line::trouble(level, event, trouble, consequence)
        }
        Notice::NotStarted(trouble) => {
            let command = trouble.command.to_string_lossy();
            let line =
                Line::new(Verbosity::Errors, "not_started", format!("cannot run `{command}`: {}", trouble.reason));
            Line { hint: trouble.hint.clone(), ..line }
        }
        Notice::Expired(at_most) => {
            let limit = duration::format(*at_most);
            Line::new(Verbosity::Errors, "expired", format!("the job is stopped because --at-most {limit} is used up"))
        }
        Notice::RunsOn(at_most) => {
            let limit = duration::format(*at_most);
            Line::new(
                Verbosity::Warnings,
                "runs_on",
                format!("the job runs on without the lock because --at-most {limit} is used up"),
            )
        }
        Notice::StopTimeout(timeout) => {
            let limit = duration::format(*timeout);
            Line::new(
                Verbosity::Warnings,
                "stop_timeout",
                format!("the job is killed because it did not end within --stop-timeout {limit}"),
            )
        }
        Notice::Renewed => Line::new(Verbosity::Debug, "renewed", "the lock was renewed"),
        Notice::NotRenewed(trouble) => {
            Line::trouble(Verbosity::Warnings, "not_renewed", trouble, "; the lock is not renewed yet")
        }
        Notice::Lost(kind, on_lost) => {
            let how = match kind {
                NoticeKind::Gone => "the lock was lost",
                NoticeKind::NotRenewed => "the lock could not be renewed in time",
            };
            match on_lost {
                OnLost::Kill => Line::new(Verbosity::Errors, "lost", format!("{how}, so the job is stopped")),
                OnLost::Ignore => {
                    Line::new(Verbosity::Warnings, "lost", format!("{how}, and the job runs on without it"))
                }
            }
        }
        Notice::LostUnnoticed => {
            Line::new(Verbosity::Warnings, "lost", "the lock was no longer ours when the job ended")
                .hint("somebody freed or took it while the job ran, or its row was changed by hand")
        }
        Notice::Undead => Line::new(
            Verbosity::Warnings,
            "undead",
            "SIGKILL has not ended all of the job, so the lock is kept while it lives",
        )
        .hint("look for a process in uninterruptible sleep or of another user with `ps -eo pid,user,stat,args`"),
        Notice::Ended(outcome) => {
            let how = match outcome {
                Outcome::Exited(code) => format!("the job exited with code {code}"),
                Outcome::Killed(signal) => format!("the job died of {signal}"),
                _ => "the job was stopped".to_owned(),
            };
            let code = outcome.exit(0).code;
            Line::new(Verbosity::Info, "ended", how).field("exit_code", code)
        }
        Notice::Released => Line::new(Verbosity::Debug, "released", "the lock was given back"),
        Notice::NotReleased(trouble) => {
            Line::trouble(Verbosity::Warnings, "not_released", trouble, "; the lock frees when its time is up")
        }
        Notice::NotGivenBack(trouble) => {
            let consequence = "; if the request that got no answer took the lock, it frees when its time is up";
            Line::trouble(Verbosity::Info, "not_given_back", trouble, consequence)
        }
    }
}

impl Line {
    fn new(level: Verbosity, event: &'static str, message: impl Into<String>) -> Self {
        Self { level, event, message: message.into(), hint: None, fields: Vec::new() }
    }

    fn trouble(level: Verbosity, event: &'static str, trouble: &Trouble, consequence: &str) -> Self {
        let line = Self::new(level, event, format!("{}{consequence}", trouble.message));
        Self { hint: trouble.hint.clone(), ..line }
    }

    fn held(event: &'static str, record: &Record, consequence: &str) -> Self {
        let time = |time: Option<Timestamp>| time.map_or_else(|| "unknown".to_owned(), |time| time.to_string());
        let owner = record.owner.strip_suffix(crate::lock::Owner::ENDED);
        let who = match owner {
            Some(owner) => format!("is kept after the run of {owner}"),
            None => format!("is held by {}", record.owner),
        };
        let (since, until) = (time(record.since), time(record.until));
        let message = format!("the lock {who} since {since} until {until}; {consequence}");
        Self::new(Verbosity::Info, event, message)
            .field("holder", record.owner.as_str())
            .field("since", since)
            .field("until", until)
    }

    fn hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }

    fn field(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((key, value.into()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_shows_the_password_of_a_url() {
        for (said, shown) in [
            ("cannot run `postgres://u:pw@db/x`: no", "cannot run `postgres://u:***@db/x`: no"),
            ("redis://:p/w@h:1 and mysql://u:p@@h", "redis://:***@h:1 and mysql://u:***@h"),
            ("http://host:80/x", "http://host:80/x"),
            ("sqlite:///a b", "sqlite:///a b"),
        ] {
            assert_eq!(without_passwords(said), shown);
        }
    }

    #[test]
    fn a_lock_without_times_is_shown_all_the_same() {
        let record = Record { owner: "host".to_owned(), since: None, until: None, left: std::time::Duration::MAX };
        let line = describe(&Notice::Held(record));
        assert_eq!(line.message, "the lock is held by host since unknown until unknown; the job is not run");
    }

    #[test]
    fn waiting_for_a_full_server_is_told_only_to_those_who_want_everything() {
        let line = describe(&Notice::Full(Trouble::passing("backend x: too many clients")));
        assert_eq!((line.level, &line.message[..]), (Verbosity::Debug, "backend x: too many clients; waiting"));
        let line = describe(&Notice::NotGivenBack(Trouble::passing("down")));
        assert_eq!(line.level, Verbosity::Info, "an error is one line");
    }

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(text("a\nb\u{1b}[1m", None), "shedlock: a\\nb\\u{1b}[1m\n");
    }
}
