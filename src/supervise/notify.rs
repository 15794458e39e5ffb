//! Runs the command of `--notify`: beside the job when that has started, and after the run when the lock has been given back.

use std::time::Duration;

use super::{HEARING, Supervisor};
use crate::exit::ExitReason;
use crate::job::{self, Environment, HURRY, Notifier};
use crate::report::Reporter;
use crate::run::{JobEnd, Notice, Notify, NotifyEvent, OnLost};
use crate::system::{Moment, Signal};
use crate::{duration, variables};

/// The time beyond its own that the process which bounds the command has to do so.
const GRACE: Duration = Duration::from_secs(1);

/// The notifications of one run.
pub(super) struct Notifications {
    notify: Notify,
    /// The exit code of a run that finds the lock held.
    conflict: u8,
    token: Option<u64>,
    duration: Duration,
    /// The last message about the start or the end of the run.
    message: String,
    running: Option<Running>,
    /// The stop signal that came after the end of the run.
    stopped: Option<Signal>,
}

/// A command that runs.
struct Running {
    event: NotifyEvent,
    notifier: Notifier,
    until: Moment,
}

impl Notifications {
    pub(super) fn new(notify: Notify, conflict: u8) -> Self {
        let (token, duration, message) = (None, Duration::ZERO, String::new());
        Self { notify, conflict, token, duration, message, running: None, stopped: None }
    }

    /// Notes what a notice says about the start or the end of the run.
    pub(super) fn note(&mut self, notice: &Notice, reporter: &Reporter) {
        match notice {
            Notice::Granted(grant) => self.token = grant.token,
            Notice::Ended(_, lasted) => self.duration = *lasted,
            _ => {}
        }
        let tells = match notice {
            Notice::Granted(_) | Notice::Held(_) | Notice::Backend(..) | Notice::NotStarted(_) => true,
            Notice::Expired(..) | Notice::Lost(_, OnLost::Kill) => true,
            Notice::Ended(outcome, _) => matches!(outcome, ExitReason::Exited(_) | ExitReason::Killed(_)),
            _ => false,
        };
        if tells {
            self.message = reporter.message(notice);
        }
    }

    /// Says how a command has ended.
    fn report(&self, running: &Running, end: Option<JobEnd>) -> Notice {
        let how = match (end, self.stopped) {
            (Some(JobEnd::Exited(0)), _) => return Notice::Notified(running.event),
            (Some(JobEnd::Exited(code)), _) => format!("exited with code {code}"),
            (Some(JobEnd::Killed(signal)), _) if Moment::now() < running.until => format!("was killed by {signal}"),
            (_, Some(signal)) => format!("was killed {} after {signal}", duration::format(HURRY)),
            _ => {
                let timeout = duration::format(self.notify.timeout);
                format!("was killed because it did not end within --notify-timeout {timeout}")
            }
        };
        Notice::NotNotified(running.event, how)
    }
}

impl Supervisor {
    /// Runs the command for the start of the job, if that is wanted.
    pub(super) fn notify_of_start(&mut self) {
        self.notify(NotifyEvent::Start, None);
    }

    /// Runs the command for the end of the run, if that is wanted, and waits for it. No lock is ours any more.
    pub(super) fn notify_of_end(&mut self, outcome: ExitReason) {
        let Some(notifications) = &self.notifications else { return };
        let code = outcome.exit(notifications.conflict).code;
        // That of the start must not come after it.
        self.await_notifier();
        if let Some(event) = self.run.notify_event(outcome) {
            self.notify(event, Some(code));
            self.await_notifier();
        }
    }

    fn notify(&mut self, event: NotifyEvent, code: Option<u8>) {
        let Some(notifications) = self.notifications.as_mut().filter(|these| these.notify.on.contains(&event)) else {
            return;
        };
        let mut environment = Environment::inherited();
        let told = [
            (variables::EVENT, Some(event.as_str().to_owned())),
            (variables::EXIT_CODE, code.map(|code| code.to_string())),
            (variables::DURATION, code.map(|_| notifications.duration.as_secs().to_string())),
            (variables::MESSAGE, Some(notifications.message.clone())),
        ];
        variables::tell(&self.claim, notifications.token, &told, &mut environment);
        let timeout = notifications.notify.timeout;
        let timeout = notifications.stopped.map_or(timeout, |_| timeout.min(HURRY));
        match Notifier::start(&notifications.notify.command, timeout, environment, self.inherited) {
            Ok(notifier) => {
                if let Some(job) = &mut self.job {
                    job.leave_alone(notifier.pid());
                }
                if let Some(guardian) = self.guard.guardian() {
                    guardian.spare(notifier.pid());
                }
                notifications.running = Some(Running { event, notifier, until: Moment::now() + timeout });
            }
            Err(why) => self.reporter.emit(&Notice::NotNotified(event, format!("could not be started: {why}"))),
        }
    }

    /// Reports the end of a command beside the job, if it has come.
    pub(super) fn check_notifier(&mut self) {
        let (Some(notifications), Some(job)) = (&mut self.notifications, &self.job) else { return };
        let end_of = |running: &mut Running| job.end_of(running.notifier.pid());
        let Some(end) = notifications.running.as_mut().and_then(end_of) else { return };
        if let Some(running) = notifications.running.take() {
            if let Some(guardian) = self.guard.guardian() {
                guardian.forget(running.notifier.pid());
            }
            self.reporter.emit(&notifications.report(&running, Some(end)));
        }
    }

    /// Waits for the command that runs, if one does; a stop signal ends it soon.
    fn await_notifier(&mut self) {
        self.check_notifier();
        while let Some(notifications) = &mut self.notifications
            && let Some(running) = notifications.running.take()
        {
            let end = running.notifier.end();
            let last = running.until + GRACE;
            if end.is_some() || Moment::now() >= last {
                if end.is_none() {
                    running.notifier.kill();
                }
                self.reporter.emit(&notifications.report(&running, end));
                return;
            }
            notifications.running = Some(running);
            self.timer.set(Some(last));
            self.wait();
            // Late answers would keep their descriptor readable.
            while self.worker.answer().is_some() {}
            for received in std::iter::from_fn(|| self.signals.next()).take(HEARING).collect::<Vec<_>>() {
                if received.signal.stops() {
                    job::stop_ourselves(&self.signals, received.signal);
                } else if received.signal.asks_to_stop() {
                    self.hurry_notifier(received.signal);
                }
            }
        }
    }

    fn hurry_notifier(&mut self, signal: Signal) {
        let Some(notifications) = &mut self.notifications else { return };
        if let (None, Some(running)) = (notifications.stopped.replace(signal), &mut notifications.running) {
            running.until = running.until.min(Moment::now() + HURRY);
            running.notifier.hurry();
        }
    }
}
