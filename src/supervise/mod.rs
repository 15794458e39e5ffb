//! Performs the decisions of the state machine: the program's only wait, where all events meet.

mod guard;
mod handover;
mod notify;
mod timer;
mod worker;

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::backend::{self, Opened};
use crate::exit::ExitReason;
use crate::job::{self, Command, Environment, Inherited, Job, Signals};
use crate::lock::{Claim, Handle};
use crate::report::{Metrics, Reporter};
use crate::run::{Action, Event, Leftovers, Notice, Notify, Run, Under};
use crate::system::Moment;
use crate::variables::{self, BackendRef};
use guard::Guard;
use notify::Notifications;
use timer::{BootTimer, GLANCE};
pub(crate) use worker::THREAD;
use worker::{BackendWorker, Request};

/// The pause after a wait that failed, or after two that brought nothing, because the next one may return at once, too.
const BREATH: Duration = Duration::from_millis(5);

/// The most signals read before deadlines get their turn: queued real-time signals may come faster than they can be read.
const HEARING: usize = 64;

/// Everything that a run acts on.
pub(crate) struct Supervisor {
    run: Run,
    claim: Claim,
    work: Work,
    worker: BackendWorker,
    address: String,
    signals: Signals,
    inherited: Inherited,
    timer: BootTimer,
    /// When children were last checked.
    looked: Moment,
    job: Option<Job>,
    guard: Guard,
    reporter: Reporter,
    /// `None` without --metrics-dir, and in a nested run, because the outer run counts.
    metrics: Option<Metrics>,
    /// `None` without --notify, and in a nested run, because the outer run notifies.
    notifications: Option<Notifications>,
}

/// The work under the lock.
pub(crate) enum Work {
    Job(Rc<Command>, BackendRef),
    /// The handle of the lock is written to stdout, alone or in a JSON object.
    Handover {
        json: bool,
    },
}

impl Supervisor {
    /// Prepares a run, without a request to the backend yet. From here on signals arrive as events.
    pub(crate) fn new(
        run: Run,
        claim: Claim,
        work: Work,
        backend: Opened,
        reporter: Reporter,
        metrics: Option<Metrics>,
    ) -> anyhow::Result<Self> {
        // Catches signals first, because the worker's thread inherits the mask.
        let (signals, inherited) = Signals::catch().context("cannot receive signals")?;
        let Opened { backend, address, pace, rotation } = backend;
        let worker = BackendWorker::start(backend, rotation, pace)
            .context("cannot start the thread that talks to the backend")?;
        let timer = BootTimer::new().context("cannot create a timer")?;
        Ok(Self {
            run,
            claim,
            work,
            worker,
            address,
            signals,
            inherited,
            timer,
            looked: Moment::now(),
            job: None,
            guard: Guard::Unneeded,
            reporter,
            metrics,
            notifications: None,
        })
    }

    /// Adds the notifications, which name `conflict` as the exit code of a skip.
    pub(crate) fn notifying(mut self, notify: Option<Notify>, conflict: u8) -> Self {
        self.notifications = notify.map(|notify| Notifications::new(notify, conflict));
        self
    }

    /// Runs to the end. A failing wait never ends the run, because a job may be running under the lock.
    pub(crate) fn supervise(mut self) -> ExitReason {
        let (mut events, mut came_to_nothing) = (vec![Event::Begin], false);
        loop {
            for event in events.drain(..) {
                if let Some(outcome) = self.feed(event) {
                    self.notify_of_end(outcome);
                    self.reporter.finish();
                    // The kernel frees it. Dropped here, it would wake the worker, to race with the end of the process.
                    std::mem::forget(self);
                    return outcome;
                }
            }
            self.timer.set(self.run.deadline());
            self.wait();
            // Handles the end of the job before anything that would be done to it. Then signals: a stop that arrives together
            // with the grant keeps the job from starting.
            let stalled = self.timer.has_stalled();
            let signals = self.read_signals(&mut events);
            events.extend(stalled.then_some(Event::Stalled));
            events.extend(signals);
            events.extend(std::iter::from_fn(|| self.worker.answer()));
            let nothing = events.is_empty() && self.run.deadline().is_none_or(|at| at > Moment::now());
            // An eventfd that cannot be drained stays readable. Once is no sign of that: an answer may be read before its bell.
            if nothing && came_to_nothing {
                std::thread::sleep(BREATH);
            }
            came_to_nothing = nothing;
            events.push(Event::Tick);
        }
    }

    /// Feeds an event to the state machine, and performs the resulting actions.
    fn feed(&mut self, event: Event) -> Option<ExitReason> {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let has_spawned = matches!(event, Event::Spawned);
            for action in self.run.on(event, Moment::now()) {
                match self.perform(action) {
                    Done::Exit(outcome) => return Some(outcome),
                    Done::Event(event) => events.push(event),
                    Done::Nothing => {}
                }
            }
            // Only now, because it takes a moment, and the job's time counts already.
            if has_spawned {
                self.notify_of_start();
            }
        }
        None
    }

    fn perform(&mut self, action: Action) -> Done {
        match action {
            Action::Acquire { deadline, when_full } => {
                self.worker.send(Request::Acquire(self.claim.clone(), when_full), deadline);
            }
            Action::Renew { term, deadline } => self.worker.send(Request::Renew(self.claim.clone(), term), deadline),
            Action::QueryLock { deadline } => self.worker.send(Request::Query(self.claim.clone()), deadline),
            Action::Release { hold, closing, deadline } => {
                self.guard.dismiss(self.job.as_mut());
                self.worker.send(Request::Release(self.claim.clone(), hold, closing), deadline);
            }
            Action::StopTrying => self.worker.stop_trying(),
            Action::Guard(at) => {
                if let Some(notice) = self.guard.set(at, self.claim.owner.as_str(), self.job.as_mut()) {
                    self.reporter.emit(&notice);
                }
            }
            Action::Spawn(under) => return Done::Event(self.spawn(&under)),
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
                    job.signal_tree(crate::system::Signal::KILL);
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
            // A run that was stopped before it reached the backend has requested nothing.
            Action::Emit(Notice::NotGivenBack(..)) if !backend::was_reached() => {}
            Action::Emit(notice) => {
                if let Notice::Ended(outcome, _) = notice {
                    self.count(outcome);
                }
                if let Some(notifications) = &mut self.notifications {
                    notifications.note(&notice, &self.reporter);
                }
                self.reporter.emit(&notice);
            }
            Action::Exit(outcome) => {
                self.guard.dismiss(self.job.as_mut());
                self.count(outcome);
                if let Some(error) = self.metrics.take().and_then(Metrics::finish) {
                    self.reporter.emit(&Notice::Metrics(error));
                }
                return Done::Exit(outcome);
            }
        }
        Done::Nothing
    }

    fn spawn(&mut self, under: &Under) -> Event {
        let (command, way) = match &self.work {
            Work::Job(command, way) => (command, way),
            Work::Handover { json } => return self.hand_over(under, *json),
        };
        command.free_reserve();
        let mut environment = Environment::inherited();
        let (claim, backend) = (&self.claim, (self.address.as_str(), way));
        match under {
            Under::Nothing => variables::forget(&mut environment),
            Under::Lock { grant, until } => variables::describe(claim, grant, *until, backend, &mut environment),
            Under::Enclosing(record) => {
                (self.metrics, self.notifications) = (None, None);
                variables::describe_enclosing(claim, record, backend, &mut environment);
            }
        }
        match command.start(environment, self.inherited, self.run.start_before(), self.guard.guardian()) {
            Ok(job) => {
                self.job = Some(job);
                if let Some(metrics) = &mut self.metrics {
                    metrics.started();
                }
                Event::Spawned
            }
            Err(error) => Event::SpawnFailed(error),
        }
    }

    fn hand_over(&self, under: &Under, json: bool) -> Event {
        let handle = Handle { name: self.claim.name.clone(), owner: self.claim.owner.clone() };
        let text = match under {
            Under::Lock { grant, until } if json => handover::object(&handle, grant, *until),
            _ => format!("{handle}\n"),
        };
        match handover::hand_over(&text) {
            Ok(()) => Event::HandedOver,
            Err(why) => Event::NotHandedOver(why),
        }
    }

    /// Counts the run once: when its job has ended, while the lock is being released, or else at the end of the run. A run that
    /// was stopped before the answer counts neither as run nor as skipped.
    fn count(&mut self, outcome: ExitReason) {
        let counted = match outcome {
            ExitReason::Stopped(_) => return,
            ExitReason::Skipped => None,
            outcome => Some(self.run.verdict(outcome)),
        };
        if let Some(metrics) = &mut self.metrics {
            metrics.ended(counted, outcome.exit(0).code);
        }
    }

    fn check_leftovers(&mut self, leftovers: Leftovers) -> Done {
        match &self.job {
            Some(job) if job.leftovers_are_gone(leftovers) => Done::Event(Event::LeftoversGone),
            _ => Done::Nothing,
        }
    }

    /// Waits until something has happened, or may have happened.
    fn wait(&self) {
        let bells = [Some(self.signals.bell()), Some(self.worker.bell()), self.timer.bell()];
        let mut bells: Vec<_> = bells.into_iter().flatten().map(|bell| PollFd::new(bell, PollFlags::POLLIN)).collect();
        // Rounded up, so that a deadline less than a millisecond away does not cause a busy loop.
        let patience = self.timer.patience() + Duration::from_millis(1);
        let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
        if poll(&mut bells, patience).is_err_and(|error| error != Errno::EINTR) {
            std::thread::sleep(BREATH);
        }
    }

    /// Returns the signals that arrived; ends of children go into `events`.
    fn read_signals(&mut self, events: &mut Vec<Event>) -> Vec<Event> {
        let (mut child, mut signals) = (false, Vec::new());
        for received in std::iter::from_fn(|| self.signals.next()).take(HEARING) {
            if received.signal == crate::system::Signal::CHLD {
                child = true;
            } else {
                signals.push(Event::Signalled { signal: received.signal, sender: received.sender });
            }
        }
        // One SIGCHLD may stand for several children, may have arrived before the command was started, or may be lost.
        let now = Moment::now();
        if child || now.since(self.looked) >= GLANCE {
            self.looked = now;
            events.extend(job::reap(&mut self.job));
            self.check_notifier();
        }
        signals
    }
}

enum Done {
    Nothing,
    Event(Event),
    Exit(ExitReason),
}
