//! A run while its job lives: the lease is kept, and the job ended where it has to be.

use std::time::Duration;

use super::ending::{Ending, Why};
use super::extending::{Extent, Look};
use super::{Action, GRACE, JobEnd, Notice, OnExpiry, OnLost, Phase, Rest, Run, Taken, Then, Unanswered, WaitFor};
use crate::backend::Trouble;
use crate::clock::Moment;
use crate::exit::Outcome;
use crate::lock::Grant;
use crate::signal::Signal;

/// A process may leave its group without ending, and nobody tells us.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

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
    pub(super) lease: Option<Lease>,
    /// Until when the lock is ours, for all we know.
    pub(super) end: Moment,
    /// When at-most is used up; `None` if that has no consequence.
    pub(super) limit: Option<Moment>,
    /// What is known of that end where the backend can be asked for it.
    pub(super) extent: Option<Extent>,
    /// The lock is certainly not ours any more.
    pub(super) lost: bool,
    /// That the lock is lost was told; it is not renewed any more.
    pub(super) lost_told: bool,
    /// That at-most is used up and the job runs on was told.
    expired_told: bool,
    pub(super) renewal: Renewal,
    /// What the last renewal met, if it failed; that was told.
    pub(super) unrenewed: Option<Trouble>,
    /// When `--stop-timeout` is over.
    stop_at: Option<Moment>,
    pub(super) ending: Option<Ending>,
    /// How the command ended; what it left behind may live.
    pub(super) ended: Option<JobEnd>,
    /// When to look again whether what we wait for is gone.
    look_at: Option<Moment>,
    /// The job stands still until a renewal that was asked for after this moment is answered.
    pub(super) held: Option<Moment>,
    /// When the job was last held for such a check.
    pub(super) checked: Option<Moment>,
    /// A CONT that the job is to get unless something is in the way.
    pub(super) withheld: bool,
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

impl Running {
    /// Notes that the job was asked to stop and has until `at`; the first time counts.
    pub(super) fn stop_by(&mut self, at: Moment) {
        self.stop_at.get_or_insert(at);
    }

    /// Nothing keeps the job from going on any more, and a CONT that it was to get is another's affair.
    pub(super) fn release_hold(&mut self) {
        self.held = None;
        self.withheld = false;
    }

    /// Whether the job stands still because the lock is being checked.
    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Whether the lock, as it is now, lasts until at-most is used up.
    pub(super) fn lasts(&self) -> bool {
        self.limit.is_some_and(|limit| self.end >= limit)
    }

    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.renewal, Renewal::InFlight { .. })
    }
}

impl Run {
    /// When something is due while the job lives.
    pub(super) fn running_deadline(&self, running: &Running) -> Option<Moment> {
        let renewal = match running.renewal {
            Renewal::Due(at) => Some(at),
            Renewal::Off | Renewal::InFlight { .. } => None,
        };
        let limit = match (self.policy.on_expiry, running.limit) {
            _ if running.ending.is_some() => Some(self.kill_at(running)),
            (OnExpiry::Kill, Some(limit)) => Some(self.timing.before_limit.stop_at(limit)),
            (OnExpiry::Ignore, Some(limit)) if !running.expired_told => Some(limit),
            _ => None,
        };
        let lost = self.is_watched(running).then(|| self.give_up_at(running));
        [renewal, limit, lost, running.stop_at, running.look_at, self.look_at(running)].into_iter().flatten().min()
    }

    /// When at-most is used up that counts from `start`.
    pub(super) fn limit(&self, start: Moment) -> Option<Moment> {
        (self.policy.on_expiry != OnExpiry::Extend).then(|| start + self.policy.at_most)
    }

    /// When somebody else is to kill the job because we have not; `None` if it is not to be killed then.
    pub(super) fn guard_at(&self, end: Moment, limit: Option<Moment>) -> Option<Moment> {
        let kills = match limit {
            Some(limit) if end >= limit => self.policy.on_expiry == OnExpiry::Kill,
            _ => self.policy.on_lost == OnLost::Kill,
        };
        kills.then(|| self.timing.before_end.undead_at(end))
    }

    pub(super) fn on_spawned(&mut self, now: Moment) {
        let Phase::Spawning { lease } = &self.phase else { return };
        let lease = *lease;
        let taken = lease.map_or(now, |lease| lease.taken);
        let (end, limit) = (taken + self.policy.first_lease(), self.limit(taken));
        let extent = lease.zip(limit).map(|(lease, limit)| self.extent(lease.grant, end, limit));
        let mut running = Running {
            lease,
            end,
            limit,
            extent,
            lost: false,
            lost_told: false,
            expired_told: false,
            renewal: Renewal::Off,
            unrenewed: None,
            stop_at: None,
            ending: None,
            ended: None,
            look_at: None,
            held: None,
            checked: None,
            withheld: false,
        };
        if self.is_watched(&running) {
            running.renewal = Renewal::Due(self.timing.renew_at(taken));
        }
        self.phase = Phase::Running(Box::new(running));
    }

    pub(super) fn on_job_stopped(&self, signal: Signal, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        if self.policy.placement.terminal && running.ending.is_none() && running.held.is_none() {
            todo.push(Action::StopOurselves(signal));
        }
    }

    pub(super) fn on_job_ended(&mut self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        running.ended = Some(end);
        self.on_part_ended(end, now, todo);
        self.look_for_rest(now, todo);
    }

    pub(super) fn on_orphan_ended(&mut self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        // After a standstill it comes before the end of the command that left it behind.
        if running.ended.is_some() || matches!(self.policy.wait_for, WaitFor::Rest(_)) {
            self.on_part_ended(end, now, todo);
        }
        self.look_for_rest(now, todo);
    }

    /// We may have been stopped for so long that somebody else has done what we should have.
    fn on_part_ended(&mut self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        let overdue = self.policy.guarded && self.guard_at(running.end, running.limit).is_some_and(|at| now >= at);
        if running.ending.is_none() && running.lease.is_some() && overdue && end == JobEnd::Killed(Signal::KILL) {
            self.on_running_time(now, todo);
        }
    }

    /// The job is over: the lock goes back, if it is ours to give.
    pub(super) fn finish(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        let why = running.ending.map(|ending| ending.why);
        let outcome = match (why, running.ended) {
            (Some(Why::Expired), _) => Outcome::Expired,
            (Some(Why::Lost), _) => Outcome::Lost,
            (_, Some(JobEnd::Exited(code))) => Outcome::Exited(code),
            (_, Some(JobEnd::Killed(signal))) => Outcome::Killed(signal),
            (_, Some(JobEnd::NotStarted(kind))) => kind.outcome(),
            (_, None) => return,
        };
        if running.held.is_some() {
            // What the command left behind is left alone, and does not stand still for ever.
            todo.push(Action::LetGo);
        }
        if !matches!(running.ended, Some(JobEnd::NotStarted(_))) {
            todo.push(Action::Tell(Notice::Ended(outcome)));
        }
        if running.is_in_flight() || running.extent.is_some_and(|extent| extent.look == Look::InFlight) {
            // The release comes after it.
            todo.push(Action::StopTrying);
        }
        let Some(lease) = running.lease else {
            self.leave(outcome, now, todo);
            return;
        };
        if !self.holds(running, now) || why == Some(Why::Lost) {
            self.unanswered = Unanswered::Return(Taken::NoMore);
        }
        let hold = self.hold(running, outcome, lease);
        let deadline = now + self.policy.backend_timeout;
        let closing = self.policy.closing(outcome);
        todo.push(Action::Release { hold, closing, deadline });
        self.longer = Some((hold, closing));
        self.end = Some(running.end);
        self.phase = Phase::Releasing { until: deadline + GRACE, then: Then::Exit(outcome) };
    }

    /// Whether the lock is ours, for all we know.
    pub(super) fn holds(&self, running: &Running, now: Moment) -> bool {
        running.lease.is_some() && !running.lost && !self.is_abandoned(running, now)
    }

    /// Whether at-most is used up, and the job runs on without the lock.
    pub(super) fn is_abandoned(&self, running: &Running, now: Moment) -> bool {
        self.policy.on_expiry == OnExpiry::Ignore && running.limit.is_some_and(|limit| now >= limit)
    }

    /// Once the command has ended: what it left behind may have to end too before the job has.
    pub(super) fn look_for_rest(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        if running.ended.is_none() {
            return;
        }
        match (running.ending, self.policy.wait_for) {
            (Some(_), _) => todo.push(Action::LookForRest(Rest::Tree)),
            (None, WaitFor::Child) => self.finish(now, todo),
            (None, WaitFor::Rest(rest)) => {
                running.look_at = (rest == Rest::Group).then(|| now + LOOK_AGAIN);
                todo.push(Action::LookForRest(rest));
            }
        }
    }

    pub(super) fn on_rest_gone(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        if running.ended.is_some() {
            self.finish(now, todo);
        }
    }

    /// What the clock brings about while the job lives.
    pub(super) fn on_running_time(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        if running.stop_at.is_some_and(|at| now >= at) {
            running.stop_at = None;
            self.on_stop_timeout(now, todo);
        }
        let Phase::Running(running) = &mut self.phase else { return };
        if running.look_at.is_some_and(|at| now >= at) {
            running.look_at = None;
            self.look_for_rest(now, todo);
        }
        let Phase::Running(running) = &self.phase else { return };
        match (self.policy.on_expiry, running.limit) {
            _ if running.ending.is_some() => {}
            (OnExpiry::Kill, Some(limit)) if now >= self.timing.before_limit.stop_at(limit) => {
                todo.push(Action::Tell(Notice::Expired(self.policy.at_most, self.extended(running))));
                self.end_job(Why::Expired, self.timing.before_limit.kill_at(limit), now);
                self.begin_the_end(now, todo);
            }
            (OnExpiry::Ignore, Some(limit)) if now >= limit && !running.expired_told => {
                todo.push(Action::Tell(Notice::RunsOn(self.policy.at_most, self.extended(running))));
                let Phase::Running(running) = &mut self.phase else { return };
                running.expired_told = true;
                self.let_go(todo);
            }
            _ => {}
        }
        let Phase::Running(running) = &self.phase else { return };
        if self.look_at(running).is_some_and(|at| now >= at) {
            self.look(now, todo);
        }
        let Phase::Running(running) = &self.phase else { return };
        if self.is_watched(running) && now >= self.give_up_at(running) {
            self.on_lost(self.why_not_renewed(running, now), now, todo);
        }
        let Phase::Running(running) = &self.phase else { return };
        if running.ending.is_some() {
            // After a stall more than one thing may be due.
            self.on_ending_time(now, todo);
        }
        self.forward_withheld(todo);
        let Phase::Running(running) = &self.phase else { return };
        if matches!(running.renewal, Renewal::Due(at) if now >= at) {
            self.renew(now, todo);
        }
    }
}
