//! Writes a run's events to stderr, as text or as JSON, without ever waiting for the reader.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{ErrorKind, IsTerminal, stderr};
use std::os::fd::AsFd;

use nix::libc::PIPE_BUF;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Map, Value};

use super::event_text::{AboutRun, EventText, Subcommand};
use super::report::Report;
use super::verbosity::Verbosity;
use crate::lock::Claim;
use crate::report::messages::{escaped_json, message_text, printable};
use crate::report::secrets::without_secrets;
use crate::run::Notice;
use crate::system::{Timestamp, write_without_waiting};

/// The format of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// How long, in milliseconds, to wait for each of the last lines to be written.
const LAST_LINE_TIMEOUT: u16 = 500;

/// Prints the events of one run. It never waits for the reader: an idle pager, or a terminal after ^S, must not keep a job
/// alive beyond its lease.
pub(crate) struct Reporter {
    verbosity: Verbosity,
    format: Format,
    claim: Claim,
    subcommand: Subcommand,
    /// The URL of the backend, without the password.
    backend: String,
    /// Whether there is a controlling terminal, which stderr may be.
    has_terminal: bool,
    /// Lines that could not be written yet.
    pending: RefCell<VecDeque<Vec<u8>>>,
}

impl Reporter {
    pub(crate) fn new(verbosity: Verbosity, format: Format, claim: Claim, backend: &str) -> Self {
        let backend = without_secrets(backend).into_owned();
        Self {
            verbosity,
            format,
            claim,
            subcommand: Subcommand::Run,
            backend,
            has_terminal: false,
            pending: RefCell::default(),
        }
    }

    /// Tells a person who waits at a terminal also why nothing was run.
    pub(crate) fn on_terminal(self, has_terminal: bool) -> Self {
        Self { has_terminal, ..self }
    }

    /// Creates the reporter of `shedlock acquire`.
    pub(crate) fn for_acquire(verbosity: Verbosity, format: Format, claim: Claim, backend: &str) -> Self {
        Self { subcommand: Subcommand::Acquire, ..Self::new(verbosity, format, claim, backend) }
    }

    /// Prints the notice, if its level is high enough.
    pub(crate) fn emit(&self, notice: &Notice) {
        let to_person = matches!(notice, Notice::Held(_)) && self.tells_person();
        let is_wanted = |report: &Report| report.level() <= self.verbosity || to_person;
        let Some(report) = self.report(notice, to_person).filter(is_wanted) else { return };
        let line = match self.format {
            Format::Text => {
                let level = if report.level() == Verbosity::Warnings { "warning: " } else { "" };
                message_text(
                    &format!("{}: {level}{}", self.claim.name, report.text.message),
                    report.text.hint.as_deref(),
                )
            }
            Format::Json => self.json(report),
        };
        self.pending.borrow_mut().push_back(line.into_bytes());
        self.write(PollTimeout::ZERO);
    }

    /// Returns the notice's message as one printable line, at any level.
    pub(crate) fn message(&self, notice: &Notice) -> String {
        self.report(notice, false).map(|report| printable(&report.text.message)).unwrap_or_default()
    }

    fn report(&self, notice: &Notice, to_person: bool) -> Option<Report> {
        let name = to_person.then(|| self.claim.name.as_str());
        Report::new(notice, &AboutRun { subcommand: self.subcommand, backend: &self.backend, name })
    }

    /// Returns whether somebody waits at the terminal who wants to hear something. A terminal is asked for only if there is one.
    fn tells_person(&self) -> bool {
        let wants = self.verbosity > Verbosity::Errors && self.format == Format::Text;
        wants && self.has_terminal && stderr().is_terminal()
    }

    /// Writes the pending lines, which may take a moment. Call it only when no job is left.
    pub(crate) fn finish(&self) {
        self.write(LAST_LINE_TIMEOUT.into());
    }

    /// Writes the pending lines while stderr has room, waiting up to `timeout` for each.
    fn write(&self, timeout: PollTimeout) {
        let mut pending = self.pending.borrow_mut();
        while let Some(line) = pending.front_mut() {
            let stderr = stderr();
            let mut room = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
            if !poll(&mut room, timeout).is_ok_and(|ready| ready > 0) {
                return;
            }
            // A writable pipe has room for PIPE_BUF bytes, but the job may fill it in between.
            let part = &line[..line.len().min(PIPE_BUF)];
            match write_without_waiting(stderr.as_fd(), part) {
                Ok(count) => _ = line.drain(..count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A closed stderr has no reader.
                Err(_) => line.clear(),
            }
            if line.is_empty() {
                pending.pop_front();
            }
        }
    }

    /// Returns the line of a report as JSON.
    pub(super) fn json(&self, report: Report) -> String {
        let (level, EventText { message, hint, fields, .. }) = (report.level(), report.text);
        let mut object = Map::new();
        object.insert("time".to_owned(), Timestamp::now().to_string().into());
        object.insert("level".to_owned(), level.name().into());
        object.insert("event".to_owned(), report.event.name.into());
        object.insert("name".to_owned(), self.claim.name.as_str().into());
        object.insert("owner".to_owned(), self.claim.owner.as_str().into());
        object.insert("message".to_owned(), without_secrets(&message).into());
        object.extend(hint.map(|hint| ("hint".to_owned(), without_secrets(&hint).into())));
        object.extend(fields.into_iter().map(|(key, value)| (key.to_owned(), value)));
        escaped_json(format!("{}\n", Value::Object(object)))
    }
}
