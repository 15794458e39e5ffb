//! Runs the command of `--notify`: beside the job when that has started, and after the run when the lock was released.

use super::notifications::{NOTIFIER_GRACE, RunningNotifier};
use super::supervisor::{SIGNALS_PER_TURN, Supervisor};
use crate::job::{self, Notifier, STOP_GRACE};
use crate::run::{Notice, Notification};
use crate::system::{Environment, Moment, Signal};
use crate::variables;

impl Supervisor {
    /// Runs the command for this event, if that is wanted. At the end of a run the command for the start comes first, and both
    /// are waited for.
    pub(super) fn notify(&mut self, notification: &Notification) {
        let is_end = notification.end.is_some();
        if is_end {
            self.await_notifier();
        }
        self.start_notifier(notification);
        if is_end {
            self.await_notifier();
        }
    }

    fn start_notifier(&mut self, notification: &Notification) {
        let event = notification.event;
        let Some(notifications) = self.notifications.as_mut().filter(|these| these.notify.on.contains(&event)) else {
            return;
        };
        let mut environment = Environment::inherited();
        let end = notification.end.map(|(reason, job_time)| (reason.exit(notifications.conflict).code, job_time));
        let message = notification.explanation.as_ref().map(|notice| self.reporter.message(notice));
        let values = [
            (variables::EVENT, Some(event.as_str().to_owned())),
            (variables::EXIT_CODE, end.map(|(code, _)| code.to_string())),
            (variables::DURATION, end.map(|(_, job_time)| job_time.as_secs().to_string())),
            (variables::MESSAGE, Some(message.unwrap_or_default())),
        ];
        variables::describe_event(&self.claim, notification.token, &values, &mut environment);
        let timeout = notifications.notify.timeout;
        let timeout = notifications.stop_signal.map_or(timeout, |_| timeout.min(STOP_GRACE));
        match Notifier::start(&notifications.notify.command, timeout, environment, self.inherited) {
            Ok(notifier) => {
                if let Some(job) = &mut self.job {
                    job.exclude(notifier.pid());
                }
                if let Some(guardian) = self.guardian.running() {
                    guardian.exclude(notifier.pid());
                }
                notifications.running = Some(RunningNotifier { event, notifier, until: Moment::now() + timeout });
            }
            Err(why) => self.reporter.emit(&Notice::NotNotified(event, format!("could not be started: {why}"))),
        }
    }

    /// Reports the end of a command beside the job, if it has come.
    pub(super) fn check_notifier(&mut self) {
        let (Some(notifications), Some(job)) = (&mut self.notifications, &self.job) else { return };
        let end_of = |running: &mut RunningNotifier| job.end_of(running.notifier.pid());
        let Some(end) = notifications.running.as_mut().and_then(end_of) else { return };
        if let Some(running) = notifications.running.take() {
            if let Some(guardian) = self.guardian.running() {
                guardian.forget(running.notifier.pid());
            }
            self.reporter.emit(&notifications.report(&running, Some(end)));
        }
    }

    /// Waits for the command that runs, if one does; a stop signal ends it soon.
    pub(super) fn await_notifier(&mut self) {
        self.check_notifier();
        while let Some(notifications) = &mut self.notifications
            && let Some(running) = notifications.running.take()
        {
            let end = running.notifier.end();
            let last = running.until + NOTIFIER_GRACE;
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
            for received in std::iter::from_fn(|| self.signals.next()).take(SIGNALS_PER_TURN).collect::<Vec<_>>() {
                if received.signal.stops() {
                    job::stop_ourselves(&self.signals, received.signal);
                } else if received.signal.asks_to_stop() {
                    self.stop_notifier_soon(received.signal);
                }
            }
        }
    }

    fn stop_notifier_soon(&mut self, signal: Signal) {
        let Some(notifications) = &mut self.notifications else { return };
        if let (None, Some(running)) = (notifications.stop_signal.replace(signal), &mut notifications.running) {
            running.until = running.until.min(Moment::now() + STOP_GRACE);
            running.notifier.stop_soon();
        }
    }
}
