//! Performs the actions of the state machine, each at once: nothing here waits for anything but a handle's reader and the
//! end of a run.

use super::handover;
use super::supervisor::{Performed, Supervisor, Work};
use super::worker::Request;
use crate::job::{self, Guardian, Job};
use crate::lock::Handle;
use crate::report::Metrics;
use crate::run::{Action, Event, Leftovers, Notice, RunMetrics, Under};
use crate::system::{Environment, Signal};
use crate::variables;

impl Supervisor {
    /// Performs one action, and returns what came of it at once.
    pub(super) fn perform(&mut self, action: Action) -> Performed {
        match action {
            Action::Acquire { deadline, when_full } => {
                self.worker.send(Request::Acquire(self.claim.clone(), when_full), deadline);
            }
            Action::Renew { term, deadline } => self.worker.send(Request::Renew(self.claim.clone(), term), deadline),
            Action::QueryLock { deadline } => self.worker.send(Request::Query(self.claim.clone()), deadline),
            Action::Release { hold, closing, deadline } => {
                self.guardian.dismiss(self.job.as_mut());
                self.worker.send(Request::Release(self.claim.clone(), hold, closing), deadline);
            }
            Action::StopTrying => self.worker.stop_trying(),
            Action::Guard(at) => {
                if let Some(notice) = self.guardian.set(at, self.claim.owner.as_str(), self.job.as_mut(), &self.helpers)
                {
                    self.reporter.emit(&notice);
                }
            }
            Action::Spawn(under) => return Performed::Event(self.spawn(&under)),
            Action::Forward(signal) => {
                if let Some(job) = &self.job {
                    job.signal(signal);
                }
            }
            Action::SignalTree(signal) => {
                if let Some(job) = &mut self.job {
                    job.signal_tree(signal);
                }
            }
            Action::KillTree => {
                if let Some(job) = &mut self.job {
                    job.signal_tree(Signal::KILL);
                }
                return self.check_leftovers(Leftovers::Tree);
            }
            Action::CheckLeftovers(leftovers) => return self.check_leftovers(leftovers),
            Action::Freeze => {
                if let Some(job) = &mut self.job {
                    job.freeze();
                }
            }
            Action::Thaw => {
                if let Some(job) = &mut self.job {
                    job.thaw();
                }
            }
            Action::StopOurselves(signal) => job::stop_ourselves(&self.signals, signal),
            Action::Emit(notice) => self.reporter.emit(&notice),
            Action::RecordMetrics(metrics) => self.record(metrics),
            Action::FinishMetrics => {
                if let Some(error) = self.metrics.take().and_then(Metrics::finish) {
                    self.reporter.emit(&Notice::Metrics(error));
                }
            }
            Action::Notify(notification) => self.notify(&notification),
            Action::Exit(reason) => {
                self.guardian.dismiss(self.job.as_mut());
                self.await_notifier();
                self.helpers.kill();
                return Performed::Exit(reason);
            }
        }
        Performed::Nothing
    }

    fn spawn(&mut self, under: &Under) -> Event {
        let (command, backend_ref) = match &self.work {
            Work::Job(command, backend_ref) => (command, backend_ref),
            Work::Handover { json } => return self.hand_over(under, *json),
        };
        command.free_reserve();
        let mut environment = Environment::inherited();
        let (claim, backend) = (&self.claim, (self.address.as_str(), backend_ref));
        match under {
            Under::Nothing => variables::remove_lock(&mut environment),
            Under::Lock { grant, until } => variables::describe_lock(claim, grant, *until, backend, &mut environment),
            Under::Enclosing(state) => variables::describe_enclosing(claim, state, backend, &mut environment),
        }
        let guardian = self.guardian.running();
        let unrelated_children = guardian.map(Guardian::unrelated_children);
        let (start_before, helpers) = (self.run.start_before(), self.helpers.clone());
        match Job::start(command, environment, self.inherited, start_before, unrelated_children, helpers) {
            Ok(job) => {
                if let Some(guardian) = guardian {
                    guardian.set_job(&job);
                }
                self.job = Some(job);
                Event::Spawned
            }
            Err(error) => Event::SpawnFailed(error),
        }
    }

    fn hand_over(&self, under: &Under, json: bool) -> Event {
        let handle = Handle { name: self.claim.name.clone(), owner: self.claim.owner.clone() };
        let text = match under {
            Under::Lock { grant, until } if json => handover::json_object(&handle, grant, *until),
            _ => format!("{handle}\n"),
        };
        match handover::hand_over(&text) {
            Ok(()) => Event::HandedOver,
            Err(why) => Event::NotHandedOver(why),
        }
    }

    fn record(&mut self, run: RunMetrics) {
        let Some(metrics) = &mut self.metrics else { return };
        match run {
            RunMetrics::Started => metrics.started(),
            RunMetrics::Ended { outcome, exit_code } => metrics.ended(outcome, exit_code),
        }
    }

    fn check_leftovers(&mut self, leftovers: Leftovers) -> Performed {
        match &self.job {
            Some(job) if job.leftovers_are_gone(leftovers) => Performed::Event(Event::LeftoversGone),
            _ => Performed::Nothing,
        }
    }
}
