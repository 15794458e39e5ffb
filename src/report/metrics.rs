//! What Prometheus is told of a run, from a thread of its own: a directory that hangs, is full or is not there must not
//! be in the way of the job, nor of its end.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::counters::{Counted, Ended, Entry};
use super::textfile::{Found, Textfile};
use crate::lock::LockName;
use crate::run::MetricsError;
use crate::system::error_text;
use crate::system::{Moment, Timestamp};

/// How long the end of a run waits for the file. Some hundred that end at once on a small machine write it within this time, one
/// after the other.
const FAREWELL: Duration = Duration::from_secs(2);
/// The thread's name.
pub(crate) const THREAD: &str = "metrics";

/// The metrics of one run.
pub(crate) struct Metrics {
    entry: Entry,
    /// When the job was started, by the clock that is never set.
    since: Option<Moment>,
    place: String,
    thread: Thread,
}

enum Thread {
    /// It is started once there is something to write: by then its maker has blocked the signals.
    Idle(Textfile),
    Busy {
        entries: Sender<Entry>,
        answers: Receiver<Option<MetricsError>>,
        sent: usize,
    },
    Failed(MetricsError),
}

impl Metrics {
    /// Gets ready; nothing is done yet.
    pub(crate) fn new(directory: PathBuf, name: LockName, at_most: Duration) -> Self {
        let textfile = Textfile::new(directory, name);
        let place = textfile.directory().display().to_string();
        let entry = Entry { at_most, started: None, ended: None };
        Self { entry, since: None, place, thread: Thread::Idle(textfile) }
    }

    /// The job has been started, just now.
    pub(crate) fn started(&mut self) {
        self.since = Some(Moment::now());
        self.entry.started = Some(Timestamp::now());
        self.write();
    }

    /// The run has come to its end, or its job has, just now. What is said of the end later does not count.
    pub(crate) fn ended(&mut self, counted: Counted, exit_code: u8) {
        if self.entry.ended.is_none() {
            let lasted = self.since.map(|since| Moment::now().since(since));
            self.entry.ended = Some(Ended { counted, exit_code, lasted });
            self.write();
        }
    }

    /// Waits a moment for what has been told to be written, and returns the first trouble with it.
    pub(crate) fn finish(self) -> Option<MetricsError> {
        let (entries, answers, sent) = match self.thread {
            Thread::Idle(_) => return None,
            Thread::Failed(error) => return Some(error),
            Thread::Busy { entries, answers, sent } => (entries, answers, sent),
        };
        let until = Moment::now() + FAREWELL;
        let mut first = None;
        for _ in 0..sent {
            match answers.recv_timeout(until.since(Moment::now())) {
                Ok(error) => first = first.or(error),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    first = first.or(Some(MetricsError::TooSlow(self.place)));
                    break;
                }
            }
        }
        // Only now: the thread ends when there is nobody to ask it.
        drop(entries);
        first
    }

    fn write(&mut self) {
        if let Thread::Idle(_) = self.thread {
            self.start();
        }
        if let Thread::Busy { entries, sent, .. } = &mut self.thread {
            // A thread that has died does not answer, which is noticed at the end.
            let _ = entries.send(self.entry.clone());
            *sent += 1;
        }
    }

    fn start(&mut self) {
        let (entries, inbox) = channel();
        let (outbox, answers) = channel();
        let busy = Thread::Busy { entries, answers, sent: 0 };
        let Thread::Idle(textfile) = std::mem::replace(&mut self.thread, busy) else { return };
        let work = move || {
            while let Ok(entry) = inbox.recv() {
                if outbox.send(enter(&textfile, &entry)).is_err() {
                    return;
                }
            }
        };
        if let Err(error) = thread::Builder::new().name(THREAD.to_owned()).spawn(work) {
            self.thread = Thread::Failed(MetricsError::NotWritten(self.place.clone(), error_text(&error)));
        }
    }
}

fn enter(textfile: &Textfile, entry: &Entry) -> Option<MetricsError> {
    match textfile.enter(entry) {
        Ok(Found::Own) => None,
        Ok(Found::Foreign) => Some(MetricsError::Foreign(textfile.path().display().to_string())),
        // In the place of the file.
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            Some(MetricsError::NotWritten(textfile.path().display().to_string(), error_text(&error)))
        }
        Err(error) => Some(MetricsError::NotWritten(textfile.directory().display().to_string(), error_text(&error))),
    }
}
