//! The life of one run as a pure state machine: events and the time go in, actions come out.
//!
//! It knows no process, no file, no socket and no clock, so that every story of a run can be told in a test. Every way
//! out of *running* with a lock leads through *releasing*, or through a lease that is knowingly given up.
//!
//! ```text
//!   splaying → asking ⇄ waiting       asking: a request to the backend is in flight
//!                │ granted            waiting: the lock is held, or the server is full
//!                ▼                    giving back: we gave up while one was in flight, and it may yet be granted
//!             spawning → running → releasing → done
//! ```
//!
//! A request whose answer was lost may have taken the lock. Until a later answer clears that up, every way out leads
//! through one release, as for a lock that was granted too late; a job that is to run without a lock does not wait for
//! it.

mod ending;
mod event;
mod extending;
mod notice;
mod notify;
mod outline;
mod policy;
#[cfg(test)]
mod properties;
mod releasing;
mod renewing;
mod running;
mod standstill;
#[cfg(test)]
mod stories;
mod taking;
mod timing;
mod waiting;
mod watching;

use std::rc::Rc;
use std::time::Duration;

use crate::backend::BackendError;
use crate::duration;
use crate::exit::ExitReason;
use crate::lock::{Closing, LockState, RunOutcome};
use crate::system::Moment;
use crate::system::Signal;
pub(crate) use event::{Action, Event, JobEnd, Ownership, Under, WhenFull};
pub(crate) use notice::{MetricsError, Notice, NoticeKind, SpawnError, SpawnErrorKind};
pub(crate) use notify::{Notify, NotifyEvent};
pub(crate) use outline::{Outline, outline};
pub(crate) use policy::{
    Every, Group, Leftovers, OnBackendError, OnExpiry, OnFailure, OnLost, Patience, Placement, Policy, Sender, Term,
    WaitFor,
};
use running::{Flow, Lease, Running};
use timing::Timing;
pub(crate) use waiting::Waiting;

/// The time for giving back a request that is in flight when a stop signal comes.
const GIVE_BACK: Duration = Duration::from_secs(1);
/// The time beyond `--backend-timeout` that we wait for the worker, which keeps to that timeout too.
const GRACE: Duration = Duration::from_millis(250);

/// The life of one run.
pub(crate) struct Run {
    policy: Rc<Policy>,
    timing: Timing,
    waiting: Waiting,
    started: Moment,
    phase: Phase,
    unanswered: Unanswered,
    /// The answer to a taking was lost, and it may yet be carried out: no lock was granted since, and nothing given
    /// back.
    ambiguous: bool,
    /// The error of the last try, while no answer has come.
    tried: Option<BackendError>,
    /// The error of the backend, until it is reported.
    complaint: Option<BackendError>,
    /// The reason for which the current giving back leaves no mark that refuses a late taking.
    unmarked: Option<BackendError>,
    /// The holder of the lock in the last answer.
    holder: Option<LockState>,
    /// The end of our lease, once the job has ended.
    end: Option<Moment>,
    /// The release of an ended job's lock, while it may be tried for longer than `--backend-timeout`.
    longer: Option<(Duration, Closing)>,
}

/// The request, if any, that has not been answered and is about a lock under which no job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unanswered {
    Nothing,
    Taking,
    Return(Taken),
}

/// Says whether a lock under which no job runs was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Surely,
    Perhaps,
    /// The lock was lost or given up; only its record has to be closed.
    NoMore,
}

#[derive(Debug)]
enum Phase {
    New,
    Splaying { until: Moment },
    Asking { give_up: Moment },
    Waiting { again: Moment },
    GivingBack { until: Moment, then: ExitReason },
    Spawning { lease: Option<Lease> },
    Running(Box<Running>),
    Releasing { until: Moment, then: Then },
    Done,
}

/// Says what follows once the lock was given back.
#[derive(Debug, Clone, Copy)]
enum Then {
    Exit(ExitReason),
    /// The lock came too late, and the job is to run without.
    RunWithout,
}

impl Run {
    /// Makes a run that started at `started`: the moment of firing, and the first moment of every deadline.
    pub(crate) fn new(policy: Policy, started: Moment) -> Self {
        let timing = Timing::new(&policy);
        let waiting = Waiting::new(policy.wait, policy.backend_timeout, policy.seed);
        let (phase, unanswered) = (Phase::New, Unanswered::Nothing);
        Self {
            policy: Rc::new(policy),
            timing,
            waiting,
            started,
            phase,
            unanswered,
            ambiguous: false,
            tried: None,
            complaint: None,
            unmarked: None,
            holder: None,
            end: None,
            longer: None,
        }
    }

    /// Takes in what happened, at `now`, and returns what is to be done about it.
    pub(crate) fn on(&mut self, event: Event, now: Moment) -> Vec<Action> {
        let mut todo = Vec::new();
        let tried = if event.is_answer() { self.tried.take() } else { None };
        match event {
            Event::Tried(error) => self.tried = Some(error),
            Event::Acquired { answer, sent, ambiguous } => {
                self.ambiguous |= ambiguous;
                self.on_acquired(answer, sent, now, &mut todo);
            }
            Event::Released(answer) => self.on_released(answer, tried, now, &mut todo),
            Event::Unrecorded(error, token) => todo.push(Action::Emit(Notice::Unrecorded(error, token))),
            Event::Unclosed(error) if self.unanswered == Unanswered::Return(Taken::Perhaps) => {
                self.unmarked = Some(error);
            }
            Event::Unclosed(error) => todo.push(Action::Emit(Notice::Unclosed(error))),
            Event::Cut(until) => todo.push(Action::Emit(Notice::Cut(until))),
            event => match &mut self.phase {
                Phase::Running(running) => match running.on(event, now, &mut todo) {
                    Flow::Stay => {}
                    Flow::Leave(over) => self.on_job_over(&over, now, &mut todo),
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
            Event::Spawned => self.on_spawned(now),
            Event::SpawnFailed(error) => self.on_spawn_failed(error, now, todo),
            Event::HandedOver => self.on_handed_over(todo),
            Event::NotHandedOver(why) => self.on_not_handed_over(why, now, todo),
            Event::Tick => self.on_time(now, todo),
            // An answer or an end that comes after the job was given up.
            _ => {}
        }
    }

    /// Returns the outcome that the history records.
    pub(crate) fn verdict(&self, outcome: ExitReason) -> RunOutcome {
        self.policy.verdict(outcome)
    }

    /// Returns when a job that is being started must not begin any more, since its lock is over; `None` without one of
    /// ours.
    pub(crate) fn start_before(&self) -> Option<Moment> {
        match &self.phase {
            Phase::Spawning { lease: Some(lease) } => Some(lease.taken + self.policy.first_lease()),
            _ => None,
        }
    }

    /// Returns when [`Event::Tick`] is due; `None` means that only other events matter.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        match &self.phase {
            Phase::New | Phase::Spawning { .. } | Phase::Done => None,
            Phase::Splaying { until: at } | Phase::Asking { give_up: at } | Phase::Waiting { again: at } => Some(*at),
            Phase::GivingBack { until, .. } | Phase::Releasing { until, .. } => Some(*until),
            Phase::Running(running) => running.deadline(),
        }
    }

    fn on_signal(&mut self, signal: Signal, now: Moment, todo: &mut Vec<Action>) {
        match &mut self.phase {
            _ if signal.stops() => todo.push(Action::StopOurselves(signal)),
            _ if !signal.terminates() => {}
            Phase::Asking { .. } => self.give_back(ExitReason::Stopped(signal), now, todo),
            // Service managers signal the job and us together. Then the job's end can be seen before our signal, and
            // the release deserves its second.
            Phase::Releasing { until, then: Then::Exit(_) } if signal.asks_to_stop() => {
                *until = (*until).min(now + GIVE_BACK);
                self.longer = None;
            }
            // The lock that came too late still goes back, but there will be no job.
            Phase::Releasing { then: then @ Then::RunWithout, .. } => *then = Then::Exit(ExitReason::Stopped(signal)),
            Phase::New | Phase::Splaying { .. } | Phase::Waiting { .. } => {
                self.leave(ExitReason::Stopped(signal), now, todo);
            }
            // How we end is decided, and within a second; service managers may send a second signal right after the
            // first. Spawning is over before anything else is looked at.
            Phase::GivingBack { .. }
            | Phase::Releasing { .. }
            | Phase::Spawning { .. }
            | Phase::Running(_)
            | Phase::Done => {}
        }
    }

    fn on_spawned(&mut self, now: Moment) {
        let Phase::Spawning { lease } = self.phase else { return };
        let running = Running::new(Rc::clone(&self.policy), self.timing.clone(), self.started, lease, now);
        self.phase = Phase::Running(Box::new(running));
    }

    /// Does what is due by `now`, before the job runs or after it.
    fn on_time(&mut self, now: Moment, todo: &mut Vec<Action>) {
        match &self.phase {
            Phase::Splaying { until } if now >= *until => self.acquire(now, todo),
            Phase::Waiting { again } if now >= *again => self.acquire(now, todo),
            Phase::Asking { give_up } if now >= *give_up => {
                let error = self.tried.take().unwrap_or_else(|| {
                    let (backend, limit) = (&self.policy.backend, duration::format(self.policy.backend_timeout));
                    let error = BackendError::transient(format!("backend {backend} did not answer within {limit}"));
                    error.hint("--backend-timeout sets how long to try")
                });
                self.on_trouble(error, now, todo);
            }
            Phase::GivingBack { until, then } if now >= *until => {
                let then = *then;
                let error = self.unanswered_in_time();
                self.emit_not_released(error, todo);
                self.exit(then, todo);
            }
            Phase::Releasing { until, then } if now >= *until => {
                let then = *then;
                let error = self.unanswered_in_time();
                self.emit_not_released(error, todo);
                self.unanswered = Unanswered::Nothing;
                self.after_release(then, todo);
            }
            _ => {}
        }
    }

    fn exit(&mut self, outcome: ExitReason, todo: &mut Vec<Action>) {
        self.emit_complaint(None, todo);
        todo.push(Action::Exit(outcome));
        self.phase = Phase::Done;
    }
}
