//! The notifications of a run: their settings, the command that runs, and how its end is reported.

use std::time::Duration;

use crate::duration;
use crate::job::{Notifier, STOP_GRACE};
use crate::run::{JobEnd, Notice, Notify, NotifyEvent};
use crate::system::{Moment, Signal};

/// The time beyond the command's own that the process which bounds the command has to do so.
pub(super) const NOTIFIER_GRACE: Duration = Duration::from_secs(1);

/// The notifications of one run.
pub(super) struct Notifications {
    pub(super) notify: Notify,
    /// The exit code of a run that finds the lock held.
    pub(super) conflict: u8,
    pub(super) running: Option<RunningNotifier>,
    /// The stop signal that came after the end of the run.
    pub(super) stop_signal: Option<Signal>,
}

/// A command of `--notify` that runs.
pub(super) struct RunningNotifier {
    pub(super) event: NotifyEvent,
    pub(super) notifier: Notifier,
    pub(super) until: Moment,
}

impl Notifications {
    pub(super) fn new(notify: Notify, conflict: u8) -> Self {
        Self { notify, conflict, running: None, stop_signal: None }
    }

    /// Says how a command has ended.
    pub(super) fn report(&self, running: &RunningNotifier, end: Option<JobEnd>) -> Notice {
        let how = match (end, self.stop_signal) {
            (Some(JobEnd::Exited(0)), _) => return Notice::Notified(running.event),
            (Some(JobEnd::Exited(code)), _) => format!("exited with code {code}"),
            (Some(JobEnd::Killed(signal)), _) if Moment::now() < running.until => format!("was killed by {signal}"),
            (_, Some(signal)) => format!("was killed {} after {signal}", duration::format(STOP_GRACE)),
            _ => {
                let timeout = duration::format(self.notify.timeout);
                format!("was killed because it did not end within --notify-timeout {timeout}")
            }
        };
        Notice::NotNotified(running.event, how)
    }
}
