//! The life of one run as a pure state machine: events and the time go in, actions come out.
//!
//! It knows no process, no file, no socket and no clock, so that every story of a run can be told in a test. Every way
//! out of *running* with a lock leads through *releasing*, or through a lease that is knowingly given up.
//!
//! ```text
//!   splaying → acquiring ⇄ waiting    acquiring: a request to the backend is in flight
//!                │ granted            waiting: the lock is held, or the server is full
//!                ▼                    undoing: the run gave up while a request was in flight that may yet be granted
//!             spawning → running → releasing → done
//! ```
//!
//! A request whose answer was lost may have acquired the lock. Until a later answer clears that up, every way out leads
//! through one release, as for a lock that was granted too late; a job that is to run without a lock does not wait for
//! it.

mod account;
mod acquiring;
mod event;
mod extending;
mod forecast;
mod killing;
mod notice;
mod notify;
mod policy;
mod processes;
#[cfg(test)]
mod properties;
mod releasing;
mod renewing;
mod running;
mod stall;
#[cfg(test)]
mod stories;
mod timing;
mod waiting;

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use crate::duration;
use crate::exit::ExitReason;
use crate::lock::BackendError;
use crate::lock::{Closing, LockState};
use crate::system::Moment;
use crate::system::Signal;
use account::Account;
pub(crate) use event::{Action, Event, JobEnd, Notification, Ownership, RunMetrics, Under, WhenFull};
pub(crate) use forecast::{Forecast, forecast};
pub(crate) use notice::{LossCause, MetricsError, Notice, SpawnError, SpawnErrorKind};
pub(crate) use notify::{Notify, NotifyEvent};
pub(crate) use policy::{
    Every, Group, Leftovers, OnBackendError, OnExpiry, OnFailure, OnLost, Placement, Policy, Sender, Term, WaitFor,
    WaitLimit,
};
use running::{GrantedLock, Running};
use timing::Timing;
pub(crate) use waiting::Waiting;

/// The time for undoing an acquisition that is in flight when a stop signal comes.
const UNDO_TIMEOUT: Duration = Duration::from_secs(1);
/// The time beyond `--backend-timeout` that a run waits for the worker, which keeps to that timeout too.
const WORKER_GRACE: Duration = Duration::from_millis(250);

/// Decides what one run does, from its beginning to its exit.
pub(crate) struct Run {
    policy: Rc<Policy>,
    /// The backend's name in messages.
    backend: String,
    timing: Timing,
    waiting: Waiting,
    started: Moment,
    phase: Phase,
    unanswered: Unanswered,
    /// The answer to an acquisition was lost, and it may yet be carried out: no lock was granted since, and nothing was
    /// undone.
    ambiguous: bool,
    /// A request may have come to the backend.
    backend_reached: bool,
    account: Account,
    /// The error of the last try, while no answer has come.
    last_error: Option<BackendError>,
    /// The error of the backend, until it is reported.
    unreported_error: Option<BackendError>,
    /// The reason why the present undo leaves no mark that refuses a late acquisition.
    mark_error: Option<BackendError>,
    /// The holder of the lock in the last answer.
    holder: Option<LockState>,
    /// The end of the lease, once the job has ended.
    last_lease_end: Option<Moment>,
    /// The release of an ended job's lock, while it may be tried for longer than `--backend-timeout`.
    pooler_retry: Option<(Duration, Closing)>,
}

/// Says which request about a lock without a job is not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unanswered {
    Nothing,
    Acquisition,
    Undo(WasGranted),
}

/// Says whether a lock that is undone was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WasGranted {
    Yes,
    /// The answer was lost.
    Maybe,
    /// The lock was lost or given up; only its record has to be closed.
    NoLonger,
}

/// The phases of a run, as the diagram has them.
#[derive(Debug)]
enum Phase {
    New,
    Splaying { until: Moment },
    Acquiring { give_up: Moment },
    Waiting { again: Moment },
    Undoing { until: Moment, then: ExitReason },
    Spawning { lease: Option<GrantedLock> },
    Running(Box<Running>),
    Releasing { until: Moment, then: AfterRelease },
    Done,
}

/// Says what follows a release.
#[derive(Debug, Clone, Copy)]
enum AfterRelease {
    Exit(ExitReason),
    /// The lock came too late, and the job is to run without.
    RunWithout,
}

impl Run {
    /// Makes a run that started at `started`: the moment of firing, and the first moment of every deadline. `backend` is the
    /// backend's name in messages.
    pub(crate) fn new(policy: Policy, backend: String, started: Moment) -> Self {
        let timing = Timing::new(&policy);
        let waiting = Waiting::new(policy.wait, policy.backend_timeout, policy.seed);
        let (phase, unanswered) = (Phase::New, Unanswered::Nothing);
        Self {
            policy: Rc::new(policy),
            backend,
            timing,
            waiting,
            started,
            phase,
            unanswered,
            ambiguous: false,
            backend_reached: false,
            account: Account::default(),
            last_error: None,
            unreported_error: None,
            mark_error: None,
            holder: None,
            last_lease_end: None,
            pooler_retry: None,
        }
    }

    /// Takes in what happened, at `now`, and returns what is to be done about it.
    pub(crate) fn on(&mut self, event: Event, now: Moment) -> Vec<Action> {
        let mut todo = Vec::new();
        let tried = if event.is_answer() { self.last_error.take() } else { None };
        match event {
            Event::BackendReached => self.backend_reached = true,
            Event::BackendLeft => self.backend_reached = false,
            Event::Tried(error) => self.last_error = Some(error),
            Event::Acquired { answer, sent, ambiguous } => {
                self.ambiguous |= ambiguous;
                self.on_acquired(answer, sent, now, &mut todo);
            }
            Event::Released(answer) => self.on_released(answer, tried, now, &mut todo),
            Event::RunNotRecorded(error, token) => todo.push(Action::Emit(Notice::RunNotRecorded(error, token))),
            Event::RecordNotClosed(error) if self.unanswered == Unanswered::Undo(WasGranted::Maybe) => {
                self.mark_error = Some(error);
            }
            Event::RecordNotClosed(error) => todo.push(Action::Emit(Notice::RecordNotClosed(error))),
            Event::EndShortened(until) => todo.push(Action::Emit(Notice::EndShortened(until))),
            event => match &mut self.phase {
                Phase::Running(running) => match running.on(event, now, &mut todo) {
                    ControlFlow::Continue(()) => {}
                    ControlFlow::Break(over) => self.on_job_over(over, now, &mut todo),
                },
                _ => self.on_without_job(event, now, &mut todo),
            },
        }
        todo
    }

    /// Takes in what happens before the job runs, or after it.
    fn on_without_job(&mut self, event: Event, now: Moment, todo: &mut Vec<Action>) {
        match event {
            Event::Begin if self.policy.splay.is_zero() => self.acquire(now, todo),
            Event::Begin => {
                self.phase = Phase::Splaying { until: now + self.policy.splay };
                todo.push(Action::Emit(Notice::Splaying(self.policy.splay)));
            }
            Event::Signalled { signal, .. } => self.on_signal(signal, now, todo),
            Event::Spawned => self.on_spawned(now, todo),
            Event::SpawnFailed(error) => self.on_spawn_failed(error, now, todo),
            Event::HandedOver => self.on_handed_over(todo),
            Event::NotHandedOver(why) => self.on_not_handed_over(why, now, todo),
            Event::Tick => self.on_time(now, todo),
            // An answer or an end that comes after the job was given up.
            _ => {}
        }
    }

    /// Returns when a job that is being started must not begin any more, because its lock is over; `None` without a lock of
    /// this run.
    pub(crate) fn start_before(&self) -> Option<Moment> {
        match &self.phase {
            Phase::Spawning { lease: Some(lease) } => Some(lease.requested + self.policy.first_lease()),
            _ => None,
        }
    }

    /// Returns when [`Event::Tick`] is due; `None` means that only other events matter.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        match &self.phase {
            Phase::New | Phase::Spawning { .. } | Phase::Done => None,
            Phase::Splaying { until: at } | Phase::Acquiring { give_up: at } | Phase::Waiting { again: at } => {
                Some(*at)
            }
            Phase::Undoing { until, .. } | Phase::Releasing { until, .. } => Some(*until),
            Phase::Running(running) => running.deadline(),
        }
    }

    fn on_signal(&mut self, signal: Signal, now: Moment, todo: &mut Vec<Action>) {
        match &mut self.phase {
            _ if signal.stops() => todo.push(Action::StopOurselves(signal)),
            _ if !signal.terminates() => {}
            Phase::Acquiring { .. } => self.undo_in_flight(ExitReason::Stopped(signal), now, todo),
            // Service managers signal the job and shedlock together. Then the job's end can be seen before shedlock's own
            // signal, and the release deserves its second.
            Phase::Releasing { until, then: AfterRelease::Exit(_) } if signal.asks_to_stop() => {
                *until = (*until).min(now + UNDO_TIMEOUT);
                self.pooler_retry = None;
            }
            // The lock that came too late is still released, but there will be no job.
            Phase::Releasing { then: then @ AfterRelease::RunWithout, .. } => {
                *then = AfterRelease::Exit(ExitReason::Stopped(signal));
            }
            Phase::New | Phase::Splaying { .. } | Phase::Waiting { .. } => {
                self.end_without_lock(ExitReason::Stopped(signal), now, todo);
            }
            // How the run ends is decided, and within a second; service managers may send a second signal right after the
            // first. Spawning is over before anything else is looked at.
            Phase::Undoing { .. }
            | Phase::Releasing { .. }
            | Phase::Spawning { .. }
            | Phase::Running(_)
            | Phase::Done => {}
        }
    }

    fn on_spawned(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Spawning { lease } = self.phase else { return };
        let running = Running::new(Rc::clone(&self.policy), self.timing.clone(), self.started, lease, now);
        self.phase = Phase::Running(Box::new(running));
        self.account.job_started(todo);
    }

    /// Does what is due by `now`, before the job runs or after it.
    fn on_time(&mut self, now: Moment, todo: &mut Vec<Action>) {
        match &self.phase {
            Phase::Splaying { until } if now >= *until => self.acquire(now, todo),
            Phase::Waiting { again } if now >= *again => self.acquire(now, todo),
            Phase::Acquiring { give_up } if now >= *give_up => {
                let error = self.last_error.take().unwrap_or_else(|| {
                    let (backend, limit) = (&self.backend, duration::format(self.policy.backend_timeout));
                    let error = BackendError::transient(format!("backend {backend} did not answer within {limit}"));
                    error.hint("--backend-timeout sets how long to try")
                });
                self.on_trouble(error, now, todo);
            }
            Phase::Undoing { until, then } if now >= *until => {
                let then = *then;
                let error = self.no_answer_error();
                self.report_not_released(error, todo);
                self.exit(then, todo);
            }
            Phase::Releasing { until, then } if now >= *until => {
                let then = *then;
                let error = self.no_answer_error();
                self.report_not_released(error, todo);
                self.unanswered = Unanswered::Nothing;
                self.after_release(then, todo);
            }
            _ => {}
        }
    }

    fn exit(&mut self, reason: ExitReason, todo: &mut Vec<Action>) {
        self.report_backend_error(None, todo);
        self.account.run_ended(reason, &self.policy, todo);
        todo.push(Action::Exit(reason));
        self.phase = Phase::Done;
    }
}
