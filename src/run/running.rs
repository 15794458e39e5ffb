//! A job that runs, and its lock: what is known of both, and what each event brings about.
//!
//! Only the data, the order of things and what more than one part needs are here. The parts are the job's processes
//! (`watching`), its end by force (`ending`), and its lock (`renewing`, `extending`, `standstill`).

use std::rc::Rc;
use std::time::Duration;

use super::event::{Action, Event, JobEnd};
use super::notice::Notice;
use super::policy::{OnExpiry, Policy};
use super::timing::Timing;
use crate::backend::Trouble;
use crate::clock::{Moment, Timestamp};
use crate::exit::Outcome;
use crate::lock::Grant;

/// The lock while it is ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    pub(super) grant: Grant,
    /// From before the request that was granted.
    pub(super) taken: Moment,
}

/// The job that runs, and its lock.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) policy: Rc<Policy>,
    pub(super) timing: Timing,
    /// When the run began.
    pub(super) started: Moment,
    pub(super) lease: Option<Lease>,
    /// Until when the lock is ours, for all we know.
    pub(super) lease_end: Moment,
    /// When at-most is used up; `None` if that has no consequence.
    pub(super) limit: Option<Moment>,
    /// What is known of that end where the backend can be asked for it.
    pub(super) extension: Option<Extension>,
    /// The lock is certainly not ours any more.
    pub(super) lost: bool,
    /// That the lock is lost was told; it is not renewed any more.
    pub(super) lost_told: bool,
    /// That at-most is used up and the job runs on was told.
    pub(super) expired_told: bool,
    pub(super) renewal: Renewal,
    /// What the last renewal met, if it failed; that was told.
    pub(super) unrenewed: Option<Trouble>,
    /// When `--stop-timeout` is over.
    pub(super) stop_at: Option<Moment>,
    pub(super) killing: Option<Killing>,
    /// How the command ended; what it left behind may live.
    pub(super) exit: Option<JobEnd>,
    /// When to look again whether what we wait for is gone.
    pub(super) recheck_leftovers_at: Option<Moment>,
    /// The job stands still until a renewal that was asked for after this moment is answered.
    pub(super) frozen: Option<Moment>,
    /// When the job was last held for such a check.
    pub(super) checked: Option<Moment>,
    /// A CONT that the job is to get unless something is in the way.
    pub(super) cont_owed: bool,
}

/// When the lease is made longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    Off,
    Due(Moment),
    /// It was due at `due`, and asked for at `asked` and for no longer than until `limit`; the backend was asked at `sent`.
    InFlight {
        due: Moment,
        asked: Moment,
        sent: Option<Moment>,
        limit: Option<Moment>,
    },
}

/// We are ending the job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Killing {
    pub(super) why: Why,
    pub(super) kill_at: Moment,
    pub(super) killed: bool,
    /// Until SIGKILL is repeated.
    pub(super) pause: Duration,
    /// That SIGKILL has not ended it was told.
    pub(super) told: bool,
}

/// Why we end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Expired,
    Lost,
    StopTimeout,
}

/// What is known of the end of at-most, and what is done to know it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extension {
    /// When at-most is used up by the backend's clock.
    pub(super) until: Timestamp,
    /// No later than this, for all we know, does the lock end by what we have asked for ourselves.
    pub(super) reach: Moment,
    /// The longest that was asked for without an answer: a server that stood still may carry it out whenever it likes.
    pub(super) stray: Duration,
    pub(super) look: Look,
}

/// When the lock's end is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Due(Moment),
    InFlight,
    /// Not any more, or not at all.
    Over,
}

/// Says whether the job runs on after an event.
#[derive(Debug)]
#[must_use]
pub(super) enum Flow {
    Stay,
    /// The job is over, and so is what the run waited for besides.
    Leave(Over),
}

/// How a job is over.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) outcome: Outcome,
    /// `None` if the job ran without a lock of ours.
    pub(super) lock: Option<Owed>,
}

/// The lock of a job that is over.
#[derive(Debug)]
pub(super) struct Owed {
    /// The lock is ours, for all we know.
    pub(super) is_ours: bool,
    /// How long after it was taken it is to stay held.
    pub(super) hold: Duration,
    /// Until when it was ours, for all we know.
    pub(super) lease_end: Moment,
}

impl Running {
    /// Makes the job that was started at `now` under a lease, or without one.
    pub(super) fn new(policy: Rc<Policy>, timing: Timing, started: Moment, lease: Option<Lease>, now: Moment) -> Self {
        let taken = lease.map_or(now, |lease| lease.taken);
        let (lease_end, limit) = (taken + policy.first_lease(), policy.limit(taken));
        let mut running = Self {
            policy,
            timing,
            started,
            lease,
            lease_end,
            limit,
            extension: None,
            lost: false,
            lost_told: false,
            expired_told: false,
            renewal: Renewal::Off,
            unrenewed: None,
            stop_at: None,
            killing: None,
            exit: None,
            recheck_leftovers_at: None,
            frozen: None,
            checked: None,
            cont_owed: false,
        };
        running.extension = lease.zip(limit).map(|(lease, limit)| running.first_extension(lease.grant, limit));
        if running.is_watched() {
            running.renewal = Renewal::Due(running.timing.renew_at(taken));
        }
        running
    }

    /// Takes in what happened, at `now`, and adds what is to be done about it to `todo`.
    pub(super) fn on(&mut self, event: Event, now: Moment, todo: &mut Vec<Action>) -> Flow {
        match event {
            Event::Signalled { signal, sender } => self.on_signal(signal, sender, now, todo),
            Event::Renewing(since) => self.on_renewing(since),
            Event::Renewed { answer, sent } => self.on_renewed(answer, sent, now, todo),
            Event::Seen { answer, sent } => self.on_seen(&answer, sent, now, todo),
            Event::JobStopped(signal) => self.on_job_stopped(signal, todo),
            Event::Stalled => self.on_stalled(now, todo),
            Event::Tick => self.on_time(now, todo),
            Event::SpawnFailed(trouble) => return self.on_spawn_failed(trouble, now, todo),
            Event::JobEnded(end) => return self.on_job_ended(end, now, todo),
            Event::OrphanEnded(end) => return self.on_orphan_ended(end, now, todo),
            Event::LeftoversGone => return self.on_leftovers_gone(now, todo),
            Event::Begin
            | Event::Acquired { .. }
            | Event::Unrecorded(_)
            | Event::Unclosed(_)
            | Event::Cut(_)
            | Event::Released(_)
            | Event::Spawned
            | Event::HandedOver
            | Event::NotHandedOver(_) => {}
        }
        Flow::Stay
    }

    /// When something is due while the job lives.
    pub(super) fn deadline(&self) -> Option<Moment> {
        let renewal = match self.renewal {
            Renewal::Due(at) => Some(at),
            Renewal::Off | Renewal::InFlight { .. } => None,
        };
        let limit = match (self.policy.on_expiry, self.limit) {
            _ if self.killing.is_some() => Some(self.kill_at()),
            (OnExpiry::Kill, Some(limit)) => Some(self.timing.before_limit.stop_at(limit)),
            (OnExpiry::Ignore, Some(limit)) if !self.expired_told => Some(limit),
            _ => None,
        };
        let lost = self.is_watched().then(|| self.give_up_at());
        [renewal, limit, lost, self.stop_at, self.recheck_leftovers_at, self.ask_lock_end_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// What the clock brings about while the job lives.
    pub(super) fn on_time(&mut self, now: Moment, todo: &mut Vec<Action>) {
        if self.stop_at.is_some_and(|at| now >= at) {
            self.stop_at = None;
            self.on_stop_timeout(now, todo);
        }
        if self.recheck_leftovers_at.is_some_and(|at| now >= at) {
            self.recheck_leftovers_at = None;
            self.look_for_leftovers(now, todo);
        }
        match (self.policy.on_expiry, self.limit) {
            _ if self.killing.is_some() => {}
            (OnExpiry::Kill, Some(limit)) if now >= self.timing.before_limit.stop_at(limit) => {
                todo.push(Action::Tell(Notice::Expired(self.policy.at_most, self.extended())));
                self.end_job(Why::Expired, self.timing.before_limit.kill_at(limit), now);
                self.begin_the_end(now, todo);
            }
            (OnExpiry::Ignore, Some(limit)) if now >= limit && !self.expired_told => {
                todo.push(Action::Tell(Notice::RunsOn(self.policy.at_most, self.extended())));
                self.expired_told = true;
                self.thaw(todo);
            }
            _ => {}
        }
        if self.ask_lock_end_at().is_some_and(|at| now >= at) {
            self.look(now, todo);
        }
        if self.is_watched() && now >= self.give_up_at() {
            self.on_lost(self.why_not_renewed(now), now, todo);
        }
        if self.killing.is_some() {
            // After a stall more than one thing may be due.
            self.on_ending_time(now, todo);
        }
        self.forward_withheld(todo);
        if matches!(self.renewal, Renewal::Due(at) if now >= at) {
            self.renew(now, todo);
        }
    }

    /// Returns when somebody else is to kill the job because we have not; `None` if it is not to be killed then.
    pub(super) fn guard_at(&self) -> Option<Moment> {
        self.timing.guard_at(&self.policy, self.lease_end, self.limit)
    }

    /// Whether the lock is ours, for all we know.
    pub(super) fn holds(&self, now: Moment) -> bool {
        self.lease.is_some() && !self.lost && !self.is_abandoned(now)
    }

    /// Whether at-most is used up, and the job runs on without the lock.
    pub(super) fn is_abandoned(&self, now: Moment) -> bool {
        self.policy.on_expiry == OnExpiry::Ignore && self.limit.is_some_and(|limit| now >= limit)
    }

    /// Whether the lock, as it is now, lasts until at-most is used up.
    pub(super) fn lasts(&self) -> bool {
        self.limit.is_some_and(|limit| self.lease_end >= limit)
    }

    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.renewal, Renewal::InFlight { .. })
    }
}
