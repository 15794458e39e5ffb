//! A running job and its lock: what is known of both, and what follows from each event.
//!
//! Only the data, the order of things and what more than one part needs are here. The parts are the job's processes
//! (`processes`), its end by force (`killing`), and its lock (`renewing`, `extending`, `stall`).

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use super::event::{Action, Event, JobEnd};
use super::notice::Notice;
use super::policy::{OnExpiry, Policy, Term};
use super::timing::Timing;
use crate::exit::ExitReason;
use crate::lock::BackendError;
use crate::lock::Grant;
use crate::system::{Moment, Timestamp};

/// Describes a lock that was granted to this run.
#[derive(Debug, Clone, Copy)]
pub(super) struct GrantedLock {
    pub(super) grant: Grant,
    /// The moment before the request that was granted was sent.
    pub(super) requested: Moment,
}

/// Holds everything that is known of a running job and its lock.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) policy: Rc<Policy>,
    pub(super) timing: Timing,
    /// The moment at which the run began.
    pub(super) started: Moment,
    pub(super) job_started: Moment,
    pub(super) lease: Option<GrantedLock>,
    /// The moment until which the lock is held, as far as is known.
    pub(super) lease_end: Moment,
    /// The moment at which at-most is used up; `None` if that has no consequence.
    pub(super) limit: Option<Moment>,
    /// The extension of `limit`, where the backend can be asked for that.
    pub(super) extension: Option<Extension>,
    /// The lock is certainly lost.
    pub(super) lost: bool,
    /// The loss of the lock was reported; it is not renewed any more.
    pub(super) loss_reported: bool,
    /// The end of at-most was reported, and the job runs on.
    pub(super) expiry_reported: bool,
    pub(super) renewal: Renewal,
    /// The error of the last renewal, if it failed; it was reported.
    pub(super) renewal_error: Option<BackendError>,
    /// The end of `--stop-timeout`.
    pub(super) stop_timeout_at: Option<Moment>,
    pub(super) killing: Option<Killing>,
    /// The end of the command; its leftovers may still live.
    pub(super) exit: Option<JobEnd>,
    /// The next check whether the leftovers that the run waits for are gone.
    pub(super) recheck_leftovers_at: Option<Moment>,
    /// The job is frozen until a renewal that was asked for after this moment is answered.
    pub(super) frozen: Option<Moment>,
    /// The moment at which the job was last frozen for a check of the lock.
    pub(super) last_check: Option<Moment>,
    /// The notice that says why the job is being ended, or could not be executed.
    pub(super) explanation: Option<Notice>,
    /// A SIGCONT is to be passed on to the job once it is not frozen any more.
    pub(super) cont_pending: bool,
}

/// Says when the lease is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    Off,
    Due(Moment),
    /// A renewal was due at `due`, requested at `requested` for this term, and sent to the backend at `sent`.
    InFlight {
        due: Moment,
        requested: Moment,
        sent: Option<Moment>,
        term: Term,
    },
}

/// Describes how the job is being killed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Killing {
    pub(super) why: KillReason,
    pub(super) kill_at: Moment,
    pub(super) killed: bool,
    /// The pause until SIGKILL is repeated.
    pub(super) pause: Duration,
    /// Whether the warning that SIGKILL has not ended the job was reported.
    pub(super) reported: bool,
}

/// Gives the reason for which the job is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KillReason {
    Expired,
    Lost,
    StopTimeout,
}

/// Describes when at-most ends by the backend, and when that is queried next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extension {
    /// The time at which at-most is used up by the backend's clock.
    pub(super) until: Timestamp,
    /// The latest moment at which the lock ends by shedlock's own requests, for all shedlock knows.
    pub(super) latest_end: Moment,
    /// The longest renewal that was not answered: a server that stood still may carry it out at any time.
    pub(super) unanswered: Duration,
    pub(super) query: LockQuery,
}

/// Says when the lock's end is queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockQuery {
    Due(Moment),
    InFlight,
    /// The lock's end is not queried any more, or not at all.
    Over,
}

/// Describes a job that is over.
#[derive(Debug)]
pub(super) struct JobResult {
    pub(super) reason: ExitReason,
    /// How long the job ran; `None` if it was never executed.
    pub(super) job_time: Option<Duration>,
    /// The notice that says why the job ended.
    pub(super) explanation: Option<Notice>,
    /// `None` if the job ran without a lock of this run.
    pub(super) lock: Option<LockAtEnd>,
}

/// Describes the lock of a job that is over.
#[derive(Debug)]
pub(super) struct LockAtEnd {
    /// The lock is still held, as far as is known.
    pub(super) is_ours: bool,
    /// The time that the lock is to stay held, counted from its acquisition.
    pub(super) hold: Duration,
    /// The moment until which the lock was held, as far as is known.
    pub(super) lease_end: Moment,
}

impl Running {
    /// Makes the job that was started at `now` under a lease, or without one.
    pub(super) fn new(
        policy: Rc<Policy>,
        timing: Timing,
        started: Moment,
        lease: Option<GrantedLock>,
        now: Moment,
    ) -> Self {
        let taken = lease.map_or(now, |lease| lease.requested);
        let (lease_end, limit) = (taken + policy.first_lease(), policy.limit(taken));
        let mut running = Self {
            policy,
            timing,
            started,
            job_started: now,
            lease,
            lease_end,
            limit,
            extension: None,
            lost: false,
            loss_reported: false,
            expiry_reported: false,
            renewal: Renewal::Off,
            renewal_error: None,
            stop_timeout_at: None,
            killing: None,
            exit: None,
            recheck_leftovers_at: None,
            frozen: None,
            last_check: None,
            explanation: None,
            cont_pending: false,
        };
        running.extension = lease.zip(limit).map(|(lease, limit)| running.initial_extension(lease.grant, limit));
        if running.needs_renewal() {
            running.renewal = Renewal::Due(running.timing.renew_at(taken));
        }
        running
    }

    /// Takes in what happened, at `now`, and adds what is to be done about it to `todo`.
    pub(super) fn on(&mut self, event: Event, now: Moment, todo: &mut Vec<Action>) -> ControlFlow<JobResult> {
        match event {
            Event::Signalled { signal, sender } => self.on_signal(signal, sender, now, todo),
            Event::Renewing(sent) => self.on_renewing(sent),
            Event::Renewed { answer, sent } => self.on_renewed(answer, sent, now, todo),
            Event::Queried { answer, sent } => self.on_queried(&answer, sent, now, todo),
            Event::JobStopped(signal) => self.on_job_stopped(signal, todo),
            Event::Stalled => self.on_stalled(now, todo),
            Event::Tick => self.on_time(now, todo),
            Event::SpawnFailed(error) => return self.on_spawn_failed(error, now, todo),
            Event::JobEnded(end) => return self.on_job_ended(end, now, todo),
            Event::OrphanEnded(end) => return self.on_orphan_ended(end, now, todo),
            Event::LeftoversGone => return self.on_leftovers_gone(now, todo),
            Event::Begin
            | Event::Acquired { .. }
            | Event::BackendReached
            | Event::BackendLeft
            | Event::Tried(_)
            | Event::RunNotRecorded(..)
            | Event::RecordNotClosed(_)
            | Event::EndShortened(_)
            | Event::Released(_)
            | Event::Spawned
            | Event::HandedOver
            | Event::NotHandedOver(_) => {}
        }
        ControlFlow::Continue(())
    }

    /// Returns when the next thing is due while the job lives.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let renewal = match self.renewal {
            Renewal::Due(at) => Some(at),
            Renewal::Off | Renewal::InFlight { .. } => None,
        };
        let limit = match (self.policy.on_expiry, self.limit) {
            _ if self.killing.is_some() => Some(self.kill_at()),
            (OnExpiry::Kill, Some(limit)) => Some(self.timing.before_limit.stop_at(limit)),
            (OnExpiry::Ignore, Some(limit)) if !self.expiry_reported => Some(limit),
            _ => None,
        };
        let lost = self.needs_renewal().then(|| self.give_up_at());
        [renewal, limit, lost, self.stop_timeout_at, self.recheck_leftovers_at, self.query_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due by `now`.
    pub(super) fn on_time(&mut self, now: Moment, todo: &mut Vec<Action>) {
        if self.stop_timeout_at.is_some_and(|at| now >= at) {
            self.stop_timeout_at = None;
            self.on_stop_timeout(now, todo);
        }
        if self.recheck_leftovers_at.is_some_and(|at| now >= at) {
            self.recheck_leftovers_at = None;
            self.check_leftovers(now, todo);
        }
        match (self.policy.on_expiry, self.limit) {
            _ if self.killing.is_some() => {}
            (OnExpiry::Kill, Some(limit)) if now >= self.timing.before_limit.stop_at(limit) => {
                self.emit_explanation(Notice::Expired(self.policy.at_most, self.extended()), todo);
                self.decide_to_kill(KillReason::Expired, self.timing.before_limit.kill_at(limit), now);
                self.send_first_signal(now, todo);
            }
            (OnExpiry::Ignore, Some(limit)) if now >= limit && !self.expiry_reported => {
                todo.push(Action::Emit(Notice::ExpiredButRunning(self.policy.at_most, self.extended())));
                self.expiry_reported = true;
                self.thaw(todo);
            }
            _ => {}
        }
        if self.query_at().is_some_and(|at| now >= at) {
            self.query_lock(now, todo);
        }
        if self.needs_renewal() && now >= self.give_up_at() {
            self.lose_lock(self.renewal_loss_cause(now), now, todo);
        }
        if self.killing.is_some() {
            // After a stall more than one thing may be due.
            self.on_kill_time(now, todo);
        }
        self.forward_pending_cont(todo);
        if matches!(self.renewal, Renewal::Due(at) if now >= at) {
            self.renew(now, todo);
        }
    }

    /// Reports why the job is being ended, and keeps it for the notification of the end.
    pub(super) fn emit_explanation(&mut self, notice: Notice, todo: &mut Vec<Action>) {
        self.explanation = Some(notice.clone());
        todo.push(Action::Emit(notice));
    }

    /// Returns when the guardian is to kill the job because shedlock has not; `None` if the job may outlive its lock.
    pub(super) fn guard_at(&self) -> Option<Moment> {
        self.timing.guard_at(&self.policy, self.lease_end, self.limit)
    }

    /// Returns whether the lock is still held, as far as is known.
    pub(super) fn holds(&self, now: Moment) -> bool {
        self.lease.is_some() && !self.lost && !self.is_abandoned(now)
    }

    /// Returns whether at-most is used up and the job runs on without the lock.
    pub(super) fn is_abandoned(&self, now: Moment) -> bool {
        self.policy.on_expiry == OnExpiry::Ignore && self.limit.is_some_and(|limit| now >= limit)
    }

    /// Returns whether the lock lasts until at-most is used up without another renewal.
    pub(super) fn lasts_to_limit(&self) -> bool {
        self.limit.is_some_and(|limit| self.lease_end >= limit)
    }

    /// Returns whether a renewal was asked for and not answered.
    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.renewal, Renewal::InFlight { .. })
    }
}
