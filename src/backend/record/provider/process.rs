//! A provider that runs: sends it a line, and waits for the line that answers. Whatever it does, time and memory are bounded.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::{self, ThreadId};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::{read, write};
use serde_json::Value;
use shedlock_provider::Request;

use crate::backend::net::bounds::{ANSWER_BYTES, LISTING_BYTES};
use crate::backend::{Detour, Harm};
use crate::system::{Helper, HelperEnd, Helpers, Moment, error_text, without_pipe_signal, write_without_waiting};

/// The bytes that are read at once.
const PIECE: usize = 64 << 10;
/// The end of a provider's stderr that is kept for a message.
const KEPT_STDERR: usize = 4 << 10;
/// The characters that a message shows of a line that is no JSON.
const SHOWN_CHARACTERS: usize = 60;
/// The time in which a provider that closed its stdout has to end, so that a message can say how it did.
const END_TIMEOUT: Duration = Duration::from_millis(200);

/// The running provider.
pub(super) struct Process {
    helper: Helper,
    /// The thread that started it.
    thread: ThreadId,
    /// Holds what was read of its stdout and is not used yet.
    input: Vec<u8>,
    /// The part of `input` in which no line ends.
    searched: usize,
    /// The bytes of this answer so far, all its lines together.
    answered: usize,
    /// The end of what it wrote to its stderr.
    stderr: Vec<u8>,
    stderr_is_open: bool,
    shows_stderr: bool,
    /// Does harm to it in a trial.
    detour: Detour,
    /// Says that it was stopped, and goes on after it was given up here.
    is_frozen: bool,
}

/// Says why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    Late,
    Ended,
    Malformed(String),
    TooLong(usize),
    System(String),
}

impl Failure {
    /// Returns whether the request may have been carried out. All of it may have been read in any case but that of a provider
    /// that could not be written to.
    pub(super) fn may_be_carried_out(&self) -> bool {
        !matches!(self, Self::System(_))
    }
}

/// Says how a provider ended.
pub(super) struct End {
    /// The end of a sentence.
    pub(super) how: String,
    /// It ended by itself, and not by a signal.
    pub(super) is_own: bool,
    /// The last line that it wrote to its stderr.
    pub(super) last_line: Option<String>,
}

impl Process {
    pub(super) fn start(helpers: &Helpers, program: &Path, shows_stderr: bool, detour: Detour) -> io::Result<Self> {
        let helper = helpers.start(program)?;
        let (input, stderr) = (Vec::new(), Vec::new());
        Ok(Self {
            helper,
            thread: thread::current().id(),
            input,
            searched: 0,
            answered: 0,
            stderr,
            stderr_is_open: true,
            shows_stderr,
            detour,
            is_frozen: false,
        })
    }

    /// Returns whether the current thread has started it.
    pub(super) fn is_of_this_thread(&self) -> bool {
        self.thread == thread::current().id()
    }

    /// Sends a request, and returns its only answer.
    pub(super) fn ask(&mut self, request: &Request, until: Moment) -> Result<Value, Failure> {
        let answer = self.ask_for_many(request, until)?;
        self.expect_nothing_more()?;
        Ok(answer)
    }

    /// Sends a request, and returns the first line of its answer.
    pub(super) fn ask_for_many(&mut self, request: &Request, until: Moment) -> Result<Value, Failure> {
        self.read_stdout()?;
        self.expect_nothing_more()?;
        self.answered = 0;
        let mut line = request.to_json().to_string().into_bytes();
        line.push(b'\n');
        let changes = matches!(request, Request::Write { version: Some(_), .. } | Request::Remove { .. });
        match self.detour.way().map_or(Harm::None, |way| way.on_request(line.len(), changes)) {
            Harm::None => self.send(&line, until)?,
            Harm::Kill { after, later } => {
                self.send(&line[..after.min(line.len())], until)?;
                thread::sleep(later);
                self.helper.signal(Signal::SIGKILL);
                return Err(Failure::Ended);
            }
            // It waits for this request, so it is stopped before it has read any of it.
            Harm::Stop { time } => {
                self.helper.signal(Signal::SIGSTOP);
                let sent = self.send(&line, until);
                thread::sleep(time);
                self.helper.signal(Signal::SIGCONT);
                sent?;
            }
            Harm::Freeze => {
                self.helper.signal(Signal::SIGSTOP);
                self.is_frozen = true;
                self.send(&line, until)?;
            }
        }
        self.next(until)
    }

    /// Fails if there is more than was asked for: what it answers then may be the answer to something else.
    pub(super) fn expect_nothing_more(&self) -> Result<(), Failure> {
        match self.input.is_empty() {
            true => Ok(()),
            false => Err(Failure::Malformed("it has answered what was not asked".to_owned())),
        }
    }

    /// Returns the next line of the answer.
    pub(super) fn next(&mut self, until: Moment) -> Result<Value, Failure> {
        loop {
            if let Some(length) = self.input[self.searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.input.split_off(self.searched + length + 1);
                let line = std::mem::replace(&mut self.input, rest);
                self.searched = 0;
                return serde_json::from_slice(&line).map_err(|error| {
                    let start: String = String::from_utf8_lossy(&line).chars().take(SHOWN_CHARACTERS).collect();
                    Failure::Malformed(format!("{error}; the line begins with `{}`", start.trim_end()))
                });
            }
            self.searched = self.input.len();
            if self.input.len() > ANSWER_BYTES {
                return Err(Failure::TooLong(ANSWER_BYTES));
            }
            self.wait(false, until)?;
            self.read_stdout()?;
        }
    }

    fn send(&mut self, mut line: &[u8], until: Moment) -> Result<(), Failure> {
        while !line.is_empty() {
            let Some(stdin) = &self.helper.stdin else { return Err(Failure::Ended) };
            match without_pipe_signal(|| write(stdin, line)) {
                Ok(written) => line = &line[written..],
                Err(Errno::EAGAIN) => self.wait(true, until)?,
                Err(Errno::EINTR) => {}
                // It reads no more, and may say why.
                Err(Errno::EPIPE) => return Err(Failure::Ended),
                Err(error) => return Err(Failure::System(error_text(&error.into()))),
            }
        }
        Ok(())
    }

    /// Waits until the provider has written something, or can be written to, and reads its stderr meanwhile.
    fn wait(&mut self, to_write: bool, until: Moment) -> Result<(), Failure> {
        loop {
            let left = until.since(Moment::now());
            if left.is_zero() {
                return Err(Failure::Late);
            }
            // Rounded up, so that less than a millisecond causes no busy loop.
            let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            let (is_ready, has_stderr) = {
                let stdin = self.helper.stdin.as_ref().filter(|_| to_write);
                let stderr = Some(&self.helper.stderr).filter(|_| self.stderr_is_open);
                let mut ready = vec![PollFd::new(self.helper.stdout.as_fd(), PollFlags::POLLIN)];
                ready.extend(stdin.map(|stdin| PollFd::new(stdin.as_fd(), PollFlags::POLLOUT)));
                ready.extend(stderr.map(|stderr| PollFd::new(stderr.as_fd(), PollFlags::POLLIN)));
                match poll(&mut ready, timeout) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(error) => return Err(Failure::System(error_text(&error.into()))),
                }
                let is_ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
                let streams = 1 + usize::from(stdin.is_some());
                (ready[..streams].iter().any(is_ready), ready[streams..].iter().any(is_ready))
            };
            if has_stderr {
                self.read_stderr();
            }
            if is_ready {
                return Ok(());
            }
        }
    }

    /// Reads what is there of the provider's stdout.
    fn read_stdout(&mut self) -> Result<(), Failure> {
        let mut piece = vec![0; PIECE];
        match read(&self.helper.stdout, &mut piece) {
            Ok(0) => Err(Failure::Ended),
            Ok(length) if self.detour.way().is_some_and(|way| way.kills_on_answer(length)) => {
                self.helper.signal(Signal::SIGKILL);
                Err(Failure::Ended)
            }
            Ok(length) => {
                self.answered += length;
                if self.answered > LISTING_BYTES {
                    return Err(Failure::TooLong(LISTING_BYTES));
                }
                self.input.extend_from_slice(&piece[..length]);
                Ok(())
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(()),
            Err(error) => Err(Failure::System(error_text(&error.into()))),
        }
    }

    /// Reads a piece of the provider's stderr, and keeps its end.
    fn read_stderr(&mut self) {
        let mut piece = [0; KEPT_STDERR];
        match read(&self.helper.stderr, &mut piece) {
            Ok(0) => self.stderr_is_open = false,
            Ok(length) => {
                if self.shows_stderr {
                    // What does not fit in is lost, as for every message.
                    let _ = write_without_waiting(io::stderr().as_fd(), &piece[..length]);
                }
                self.stderr.extend_from_slice(&piece[..length]);
                let extra = self.stderr.len().saturating_sub(KEPT_STDERR);
                self.stderr.drain(..extra);
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => self.stderr_is_open = false,
        }
    }

    /// Reads what is left of the provider's stderr, as far as it is there now and a message needs it.
    fn read_last_stderr(&mut self) {
        for _ in 0..PIECE / KEPT_STDERR {
            let mut ready = [PollFd::new(self.helper.stderr.as_fd(), PollFlags::POLLIN)];
            if !self.stderr_is_open || poll(&mut ready, PollTimeout::ZERO) != Ok(1) {
                return;
            }
            self.read_stderr();
        }
    }

    /// Ends the provider by the end of its stdin.
    pub(super) fn end(mut self) {
        if self.shows_stderr {
            self.read_last_stderr();
        }
        self.helper.finish();
    }

    /// Kills the provider, unless it has ended, and says how it ended and what its last words were.
    pub(super) fn kill(mut self) -> End {
        if self.is_frozen
            && let Some(way) = self.detour.way()
        {
            way.keep(self.helper);
            return End { how: "was stopped".to_owned(), is_own: false, last_line: None };
        }
        let has_ended = is_closed(&self.helper.stdout);
        let end = has_ended.then(|| self.helper.end_within(END_TIMEOUT)).flatten();
        self.read_last_stderr();
        let text = String::from_utf8_lossy(&self.stderr);
        let last_line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
        let (how, is_own) = match end {
            Some(HelperEnd::Exited(code)) => (format!("ended with exit code {code}"), true),
            Some(HelperEnd::Killed(signal)) => (format!("was killed by {signal}"), false),
            Some(HelperEnd::Unknown) => ("ended".to_owned(), false),
            None => ("closed its streams".to_owned(), false),
        };
        self.helper.kill();
        End { how, is_own, last_line }
    }
}

/// Returns whether nobody can write to this pipe any more.
fn is_closed(stream: &OwnedFd) -> bool {
    let mut ready = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    poll(&mut ready, PollTimeout::ZERO) == Ok(1)
        && ready[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP))
}
