//! Writes a run's events to stderr, as text or as JSON, without ever waiting for the reader.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{ErrorKind, Write, stderr};
use std::os::fd::AsFd;

use nix::libc::PIPE_BUF;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Map, Value};

use super::events;
use super::line::{Line, Subject};
use super::verbosity::Verbosity;
use crate::job::write_now;
use crate::lock::Claim;
use crate::run::Notice;
use crate::system::Timestamp;
use crate::text::{is_hidden, visible};

/// The format of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// How long, in milliseconds, to wait for each of the last lines to be written.
const FAREWELL: u16 = 500;

/// Prints the events of one run. It never waits for the reader: an idle pager, or a terminal after ^S, must not keep a job
/// alive beyond its lease.
pub(crate) struct Reporter {
    verbosity: Verbosity,
    format: Format,
    claim: Claim,
    subject: Subject,
    /// The URL of the backend, without the password.
    backend: String,
    /// Lines that could not be written yet.
    pending: RefCell<VecDeque<Vec<u8>>>,
}

/// Prints an error outside a run, such as bad usage or bad configuration.
pub(crate) fn error(message: &str, hint: Option<&str>) {
    write(text(message, hint).as_bytes());
}

/// Returns the error of a command that cannot write to stdout.
pub(crate) fn unwritten(error: &std::io::Error) -> anyhow::Error {
    let why = error.to_string();
    anyhow::anyhow!("cannot write to stdout: {}", why.split(" (os error").next().unwrap_or_default().to_lowercase())
}

fn text(message: &str, hint: Option<&str>) -> String {
    let mut text = format!("shedlock: {}\n", visible(&without_passwords(message)));
    if let Some(hint) = hint {
        text += &format!("hint: {}\n", visible(hint));
    }
    text
}

/// Removes the password of every URL in the text, so that a password typed in the wrong place is not logged.
fn without_passwords(text: &str) -> Cow<'_, str> {
    let Some((before, after)) = text.split_once("://") else { return Cow::Borrowed(text) };
    let authority = after.split([' ', '`', '\'']).next().unwrap_or_default();
    let kept = match authority.rsplit_once('@').and_then(|(user, host)| Some((user.split_once(':')?.0, host))) {
        Some((user, host)) => format!("{user}:***@{host}"),
        None => authority.to_owned(),
    };
    Cow::Owned(format!("{before}://{kept}{}", without_passwords(&after[authority.len()..])))
}

/// Escapes the same characters as `visible` in JSON text, the way JSON does, so that a parser reads the same value.
pub(crate) fn harmless(json: String) -> String {
    // A line's end can only be one between values; within a text it has been escaped.
    let hidden = |c: char| is_hidden(c) && c != '\n';
    if !json.contains(hidden) {
        return json;
    }
    let units = |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    json.chars().map(|c| if hidden(c) { units(c) } else { c.to_string() }).collect()
}

impl Reporter {
    pub(crate) fn new(verbosity: Verbosity, format: Format, claim: Claim, backend: &str) -> Self {
        let backend = backend.to_owned();
        Self { verbosity, format, claim, subject: Subject::Job, backend, pending: RefCell::default() }
    }

    /// Creates the reporter of `shedlock acquire`.
    pub(crate) fn of_acquire(verbosity: Verbosity, format: Format, claim: Claim, backend: &str) -> Self {
        Self { subject: Subject::Script, ..Self::new(verbosity, format, claim, backend) }
    }

    /// Prints the notice, if its level is high enough.
    pub(crate) fn emit(&self, notice: &Notice) {
        let line = Line::of_subject(notice, self.subject, &self.backend);
        debug_assert!(events::knows(&line), "the table of events has no such {}", line.event);
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

    /// Returns the notice's message as one line of harmless text, at any level.
    pub(crate) fn message(&self, notice: &Notice) -> String {
        let line = Line::of_subject(notice, self.subject, &self.backend);
        visible(&without_passwords(&line.message)).into_owned()
    }

    /// Writes the pending lines, which may take a moment. Call it only when no job is left.
    pub(crate) fn finish(&self) {
        self.write(FAREWELL.into());
    }

    /// Writes the pending lines while stderr has room, waiting up to `patience` for each.
    fn write(&self, patience: PollTimeout) {
        let mut pending = self.pending.borrow_mut();
        while let Some(line) = pending.front_mut() {
            let stderr = stderr();
            let mut room = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
            if !poll(&mut room, patience).is_ok_and(|ready| ready > 0) {
                return;
            }
            // A writable pipe has room for PIPE_BUF bytes, but the job may fill it in between.
            let part = &line[..line.len().min(PIPE_BUF)];
            match write_now(stderr.as_fd(), part) {
                Ok(count) => _ = line.drain(..count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // If stderr is closed, nobody can be told.
                Err(_) => line.clear(),
            }
            if line.is_empty() {
                pending.pop_front();
            }
        }
    }

    pub(super) fn json(&self, line: Line) -> String {
        let mut object = Map::new();
        object.insert("time".to_owned(), Timestamp::now().to_string().into());
        object.insert("level".to_owned(), line.level.name().into());
        object.insert("event".to_owned(), line.event.into());
        object.insert("name".to_owned(), self.claim.name.as_str().into());
        object.insert("owner".to_owned(), self.claim.owner.as_str().into());
        object.insert("message".to_owned(), without_passwords(&line.message).into());
        object.extend(line.hint.map(|hint| ("hint".to_owned(), hint.into())));
        object.extend(line.fields.into_iter().map(|(key, value)| (key.to_owned(), value)));
        harmless(format!("{}\n", Value::Object(object)))
    }
}

/// Writes the text in one write(2), so that lines of several processes do not mix.
fn write(text: &[u8]) {
    // If stderr is closed, nobody can be told.
    let _ = stderr().write_all(text);
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
    fn a_message_is_one_line() {
        assert_eq!(text("a\nb\u{1b}[1m", None), "shedlock: a\\nb\\u{1b}[1m\n");
        // The one changes the direction, and the other is in no XML.
        assert_eq!(text("a\u{202e}b\u{ffff}é", None), "shedlock: a\\u{202e}b\\u{ffff}é\n");
    }

    #[test]
    fn json_says_the_same_and_has_no_character_that_a_terminal_obeys() {
        let value = serde_json::json!({ "é\u{9b}2J": ["a\nb\u{7f}", "\u{202e}\u{e0041}\u{1f512}"] });
        for json in [format!("{value}\n"), format!("{value:#}\n")] {
            let shown = harmless(json);
            assert!(!shown.trim_end().chars().any(|c| is_hidden(c) && c != '\n'), "{shown}");
            assert!(shown.contains("é\\u009b2J") && shown.contains("\\u202e\\udb40\\udc41\u{1f512}"), "{shown}");
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        }
    }
}
