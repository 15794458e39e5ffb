//! A run while its job lives: the lease is kept, and the job ended where it has to be.

use super::ending::{Ending, Why};
use super::{Action, GRACE, JobEnd, Notice, NoticeKind, OnExpiry, OnLost, Phase, Run, Then};
use crate::backend::{Kept, Trouble, TroubleKind};
use crate::clock::Moment;
use crate::exit::Outcome;
use crate::lock::Grant;
use crate::signal::Signal;

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
    /// When at-most is used up; the end of the lease, where there is one.
    pub(super) end: Moment,
    /// The lock is certainly not ours any more.
    lost: bool,
    /// That the lock is lost, or that the job runs on without, was told; at-most is no limit any more.
    told: bool,
    pub(super) renewal: Renewal,
    /// The last renewal failed, and that was told.
    unrenewed: bool,
    /// When `--stop-timeout` is over.
    stop_at: Option<Moment>,
    pub(super) ending: Option<Ending>,
    /// How the command ended; what it left behind may live.
    pub(super) ended: Option<JobEnd>,
}

/// When the lease is made longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    Off,
    Due(Moment),
    InFlight,
}

impl Running {
    /// Notes that the job was asked to stop and has until `at`; the first time counts.
    pub(super) fn stop_by(&mut self, at: Moment) {
        self.stop_at.get_or_insert(at);
    }
}

impl Run {
    /// When something is due while the job lives.
    pub(super) fn running_deadline(&self, running: &Running) -> Option<Moment> {
        let renewal = match running.renewal {
            Renewal::Due(at) if running.ending.is_none_or(|ending| ending.killed) => Some(at),
            _ => None,
        };
        let limit = match (running.ending, self.policy.on_expiry) {
            (Some(ending), _) => Some(ending.kill_at),
            (None, _) if running.told => None,
            (None, OnExpiry::Ignore) => Some(running.end),
            (None, OnExpiry::Extend) if running.lease.is_none() => None,
            (None, OnExpiry::Kill | OnExpiry::Extend) => Some(self.timing.stop_at(running.end)),
        };
        [renewal, limit, running.stop_at].into_iter().flatten().min()
    }

    pub(super) fn on_spawned(&mut self, now: Moment) {
        let Phase::Spawning { lease } = &self.phase else { return };
        let lease = *lease;
        let end = lease.map_or(now, |lease| lease.taken) + self.policy.at_most;
        let renewal = match (lease, self.policy.on_expiry) {
            (Some(lease), OnExpiry::Extend) => Renewal::Due(self.timing.renew_at(lease.taken)),
            _ => Renewal::Off,
        };
        let running = Running {
            lease,
            end,
            lost: false,
            told: false,
            renewal,
            unrenewed: false,
            stop_at: None,
            ending: None,
            ended: None,
        };
        self.phase = Phase::Running(running);
    }

    pub(super) fn on_job_stopped(&self, signal: Signal, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        if self.policy.placement.terminal && running.ending.is_none() {
            todo.push(Action::StopOurselves(signal));
        }
    }

    pub(super) fn on_job_ended(&mut self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        running.ended = Some(end);
        match running.ending {
            None => self.finish(now, todo),
            Some(_) => self.look_for_rest(todo),
        }
    }

    /// The job is over: the lock goes back, if it is ours to give.
    pub(super) fn finish(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        let outcome = match (running.ending.map(|ending| ending.why), running.ended) {
            (Some(Why::Expired), _) => Outcome::Expired,
            (Some(Why::Lost), _) => Outcome::Lost,
            (_, Some(JobEnd::Exited(code))) => Outcome::Exited(code),
            (_, Some(JobEnd::Killed(signal))) => Outcome::Killed(signal),
            (_, None) => return,
        };
        todo.push(Action::Tell(Notice::Ended(outcome)));
        if running.renewal == Renewal::InFlight {
            // The release comes after it.
            todo.push(Action::StopTrying);
        }
        match running.lease {
            Some(lease) if self.holds(running, now) => {
                let hold = self.timing.hold(&self.policy, outcome, lease.grant, lease.taken.since(self.started));
                let deadline = now + self.policy.backend_timeout;
                todo.push(Action::Release { hold, closing: self.policy.closing(outcome), deadline });
                self.phase = Phase::Releasing { until: deadline + GRACE, then: Then::Exit(outcome) };
            }
            Some(_) => self.exit(outcome, todo),
            None => self.leave(outcome, now, todo),
        }
    }

    /// Whether the lock is ours, for all we know.
    pub(super) fn holds(&self, running: &Running, now: Moment) -> bool {
        let abandoned = self.policy.on_expiry == OnExpiry::Ignore && now >= running.end;
        running.lease.is_some() && !running.lost && !abandoned
    }

    pub(super) fn on_renewed(
        &mut self,
        answer: Result<Kept, Trouble>,
        sent: Moment,
        now: Moment,
        todo: &mut Vec<Action>,
    ) {
        let Phase::Running(running) = &mut self.phase else { return };
        match answer {
            // Kept or lost is true whenever we learn of it.
            Ok(Kept::Kept) => {
                running.unrenewed = false;
                running.end = running.end.max(sent + self.policy.at_most);
                if running.renewal != Renewal::Off {
                    running.renewal = Renewal::Due(self.timing.renew_at(sent));
                }
                todo.push(Action::Tell(Notice::Renewed));
            }
            Ok(Kept::Lost) => self.on_lost(NoticeKind::Gone, now, todo),
            Err(_) if running.renewal != Renewal::InFlight => {}
            Err(trouble) => {
                let limit = if running.ending.is_some() { running.end } else { self.timing.stop_at(running.end) };
                let pause = self.timing.renew_again(limit.since(now), trouble.kind == TroubleKind::Lasting);
                running.renewal = Renewal::Due(now + pause);
                if !std::mem::replace(&mut running.unrenewed, true) {
                    todo.push(Action::Tell(Notice::NotRenewed(trouble)));
                }
            }
        }
    }

    /// The lock is not ours any more, or cannot be kept.
    fn on_lost(&mut self, kind: NoticeKind, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        running.lost |= kind == NoticeKind::Gone;
        running.renewal = Renewal::Off;
        if !std::mem::replace(&mut running.told, true) {
            todo.push(Action::Tell(Notice::Lost(kind, self.policy.on_lost)));
        }
        if self.policy.on_lost == OnLost::Kill && running.ending.is_none() {
            let kill_at = self.timing.kill_at(running.end).min(now + self.timing.kill_after);
            self.end_job(Why::Lost, kill_at, now);
            self.begin_the_end(todo);
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
        if running.ending.is_some() {
            self.on_ending_time(now, todo);
            return;
        }
        let stop_at = self.timing.stop_at(running.end);
        match running.renewal {
            Renewal::Due(at) if now >= at && now < stop_at => {
                running.renewal = Renewal::InFlight;
                todo.push(Action::Renew { lease: self.policy.at_most, deadline: stop_at });
            }
            _ => {}
        }
        if running.told {
            return;
        }
        match self.policy.on_expiry {
            OnExpiry::Kill if now >= stop_at => {
                let kill_at = self.timing.kill_at(running.end);
                todo.push(Action::Tell(Notice::Expired(self.policy.at_most)));
                self.end_job(Why::Expired, kill_at, now);
                self.begin_the_end(todo);
                // After a stall both may be due.
                self.on_ending_time(now, todo);
            }
            OnExpiry::Ignore if now >= running.end => {
                running.told = true;
                todo.push(Action::Tell(Notice::RunsOn(self.policy.at_most)));
            }
            OnExpiry::Extend if running.lease.is_some() && now >= stop_at => {
                self.on_lost(NoticeKind::NotRenewed, now, todo);
                self.on_ending_time(now, todo);
            }
            _ => {}
        }
    }
}
