//! Writes a run's metrics in a thread of its own: a directory that hangs, is full or is missing must not delay the job or the
//! exit.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::counters::{Ended, Entry};
use super::textfile::{Found, Textfile};
use crate::lock::{LockName, RunOutcome};
use crate::run::MetricsError;
use crate::system::error_text;
use crate::system::{Moment, Timestamp};

/// How long the end of a run waits for the file. On a small host, some hundred runs that end at once can write it one by one
/// within this time.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);
/// The name of the thread that writes metrics.
pub(crate) const THREAD: &str = "metrics";

/// The metrics of one run, and the thread that writes them.
pub(crate) struct Metrics {
    entry: Entry,
    /// When the job was started, by the boot clock.
    since: Option<Moment>,
    directory: String,
    thread: Thread,
}

enum Thread {
    /// Started with the first write: by then the main thread has blocked the signals.
    Idle(Textfile),
    Busy {
        entries: Sender<Entry>,
        answers: Receiver<Option<MetricsError>>,
        sent: usize,
    },
    Failed(MetricsError),
}

impl Metrics {
    /// Prepares the metrics without starting the thread.
    pub(crate) fn new(directory: PathBuf, name: LockName, at_most: Duration) -> Self {
        let textfile = Textfile::new(directory, name);
        let directory = textfile.directory().display().to_string();
        let entry = Entry { at_most, started: None, ended: None };
        Self { entry, since: None, directory, thread: Thread::Idle(textfile) }
    }

    /// Records that the job has just started.
    pub(crate) fn started(&mut self) {
        self.since = Some(Moment::now());
        self.entry.started = Some(Timestamp::now());
        self.write();
    }

    /// Records that the run, or its job, has just ended. Only the first call counts.
    pub(crate) fn ended(&mut self, outcome: Option<RunOutcome>, exit_code: u8) {
        if self.entry.ended.is_none() {
            let lasted = self.since.map(|since| Moment::now().since(since));
            self.entry.ended = Some(Ended { outcome, exit_code, lasted });
            self.write();
        }
    }

    /// Waits a moment for pending writes, and returns the first problem.
    pub(crate) fn finish(self) -> Option<MetricsError> {
        let (entries, answers, sent) = match self.thread {
            Thread::Idle(_) => return None,
            Thread::Failed(error) => return Some(error),
            Thread::Busy { entries, answers, sent } => (entries, answers, sent),
        };
        let until = Moment::now() + FINISH_TIMEOUT;
        let mut first = None;
        for _ in 0..sent {
            match answers.recv_timeout(until.since(Moment::now())) {
                Ok(error) => first = first.or(error),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    first = first.or(Some(MetricsError::TooSlow(self.directory)));
                    break;
                }
            }
        }
        // The thread ends when its channel closes.
        drop(entries);
        first
    }

    fn write(&mut self) {
        if let Thread::Idle(_) = self.thread {
            self.start();
        }
        if let Thread::Busy { entries, sent, .. } = &mut self.thread {
            // If the thread has died, the missing answer is noticed at the end.
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
                if outbox.send(update(&textfile, &entry)).is_err() {
                    return;
                }
            }
        };
        if let Err(error) = thread::Builder::new().name(THREAD.to_owned()).spawn(work) {
            self.thread = Thread::Failed(MetricsError::NotWritten(self.directory.clone(), error_text(&error)));
        }
    }
}

fn update(textfile: &Textfile, entry: &Entry) -> Option<MetricsError> {
    match textfile.enter(entry) {
        Ok(Found::Metrics) => None,
        Ok(Found::Foreign) => Some(MetricsError::CountersReset(textfile.path().display().to_string())),
        // A directory is in the place of the file.
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            Some(MetricsError::NotWritten(textfile.path().display().to_string(), error_text(&error)))
        }
        Err(error) => Some(MetricsError::NotWritten(textfile.directory().display().to_string(), error_text(&error))),
    }
}
