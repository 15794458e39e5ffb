//! The life of one run as a pure state machine: events and the time go in, actions come out.
//!
//! It knows no process, no file, no socket and no clock, so that every story of a run can be told in a test. Every way
//! out of *running* with a lock leads through *releasing*, or through a lease that is knowingly given up.
//!
//! ```text
//!   splaying → asking ⇄ waiting       asking: a request to the backend is in flight
//!                │ granted            giving back: we gave up while it was, and it may yet be granted
//!                ▼
//!             spawning → running → releasing → done
//! ```

mod notice;
mod policy;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod stories;
mod timing;

use std::time::Duration;

use crate::backend::{Acquired, Kept, Trouble, TroubleKind};
use crate::clock::Moment;
use crate::exit::Outcome;
use crate::lock::Grant;
use crate::signal::Signal;
pub(crate) use notice::{Notice, NoticeKind, SpawnTrouble, SpawnTroubleKind};
pub(crate) use policy::{Every, Group, OnBackendError, OnExpiry, OnFailure, OnLost, Patience, Placement, Policy};
use timing::Timing;

/// How long a request that is in flight when we are told to stop may take to be given back.
const GIVE_BACK: Duration = Duration::from_secs(1);
/// How much longer than `--backend-timeout` we wait for the keeper, who minds that time too.
const GRACE: Duration = Duration::from_millis(250);

/// What happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// The run begins. It comes first, and once.
    Begin,
    /// A signal came to us.
    Signalled { signal: Signal, sender: Sender },
    /// The backend's answer to [`Action::Acquire`]; `sent` is from before the request that was answered.
    Acquired { answer: Result<Acquired, Trouble>, sent: Moment },
    /// The backend's answer to [`Action::Renew`].
    Renewed { answer: Result<Kept, Trouble>, sent: Moment },
    /// The backend's answer to [`Action::Release`].
    Released(Result<Kept, Trouble>),
    /// The command was started.
    Spawned,
    /// It was not.
    SpawnFailed(SpawnTrouble),
    /// The command stopped itself, or was stopped.
    JobStopped(Signal),
    /// The command ended and was reaped.
    JobEnded(JobEnd),
    /// Some other process that had become our child ended and was reaped.
    OrphanEnded,
    /// Nothing of the job lives.
    TreeGone,
    /// The time that [`Run::deadline`] named has come.
    Tick,
}

/// Where a signal came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The kernel, most often on behalf of the terminal.
    Terminal,
    Process,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobEnd {
    Exited(u8),
    Killed(Signal),
}

/// What is to be done. Actions are performed in order, and each at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask the backend for the lock, trying again until `deadline`.
    Acquire { deadline: Moment },
    /// Ask the backend to make the lock ours for `lease` from now.
    Renew { lease: Duration, deadline: Moment },
    /// Give the lock back, to stay held until `hold` after it was taken.
    Release { hold: Duration, deadline: Moment },
    /// Let the request that is in flight be the last try.
    StopTrying,
    /// Start the command; `None` without a lock.
    Spawn(Option<Grant>),
    /// Send a signal to the job's group, or on a terminal to the command.
    Forward(Signal),
    /// Send a signal to the command and all that came of it, as a beginning of its end.
    SignalTree(Signal),
    /// SIGKILL all of the job, and look whether anything is left.
    KillTree,
    /// Look whether anything of the job is left; [`Event::TreeGone`] says that nothing is.
    LookForRest,
    /// Stop ourselves as this signal does, until we are continued.
    StopOurselves(Signal),
    /// Tell the user.
    Tell(Notice),
    /// End the process.
    Exit(Outcome),
}

/// One run.
pub(crate) struct Run {
    policy: Policy,
    timing: Timing,
    started: Moment,
    phase: Phase,
    /// A request for the lock has not been answered yet.
    unanswered: bool,
}

#[derive(Debug)]
enum Phase {
    New,
    Splaying { until: Moment },
    Asking { give_up: Moment },
    Waiting { again: Moment },
    GivingBack { until: Moment, then: Outcome },
    Spawning { lease: Option<Lease> },
    Running(Running),
    Releasing { until: Moment, then: Then },
    Done,
}

/// What comes after the lock was given back.
#[derive(Debug, Clone, Copy)]
enum Then {
    Exit(Outcome),
    /// The lock came too late, and the job is to run without.
    RunWithout,
}

/// The lock while it is ours.
#[derive(Debug, Clone, Copy)]
struct Lease {
    grant: Grant,
    /// From before the request that was granted.
    taken: Moment,
    end: Moment,
}

#[derive(Debug)]
struct Running {
    lease: Option<Lease>,
    /// When at-most is used up; the end of the lease, where there is one.
    end: Moment,
    /// The lock is certainly not ours any more.
    lost: bool,
    told: bool,
    renewal: Renewal,
    /// When `--stop-timeout` is over.
    stop_at: Option<Moment>,
    ending: Option<Ending>,
    ended: Option<JobEnd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Renewal {
    Off,
    Due(Moment),
    InFlight,
}

/// We are ending the job.
#[derive(Debug, Clone, Copy)]
struct Ending {
    why: Why,
    kill_at: Moment,
    killed: bool,
    told: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Expired,
    Lost,
    StopTimeout,
}

impl Run {
    /// Makes a run that started at `started`: the moment of firing, and the first moment of every deadline.
    pub(crate) fn new(policy: Policy, started: Moment) -> Self {
        let timing = Timing::new(&policy);
        Self { policy, timing, started, phase: Phase::New, unanswered: false }
    }

    /// Takes in what happened, at `now`, and returns what is to be done about it.
    pub(crate) fn on(&mut self, event: Event, now: Moment) -> Vec<Action> {
        let mut todo = Vec::new();
        match event {
            Event::Begin if self.policy.splay.is_zero() => self.ask(now, &mut todo),
            Event::Begin => self.phase = Phase::Splaying { until: now + self.policy.splay },
            Event::Signalled { signal, sender } => self.on_signal(signal, sender, now, &mut todo),
            Event::Acquired { answer, sent } => self.on_acquired(answer, sent, now, &mut todo),
            Event::Renewed { answer, sent } => self.on_renewed(answer, sent, now, &mut todo),
            Event::Released(answer) => self.on_released(answer, &mut todo),
            Event::Spawned => self.on_spawned(now),
            Event::SpawnFailed(trouble) => self.on_spawn_failed(trouble, now, &mut todo),
            Event::JobStopped(signal) => self.on_job_stopped(signal, &mut todo),
            Event::JobEnded(end) => self.on_job_ended(end, now, &mut todo),
            Event::OrphanEnded => self.look_for_rest(&mut todo),
            Event::TreeGone => self.on_tree_gone(now, &mut todo),
            Event::Tick => {}
        }
        self.on_time(now, &mut todo);
        todo
    }

    /// When [`Event::Tick`] is due; `None` means that only other events matter.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        match &self.phase {
            Phase::New | Phase::Spawning { .. } | Phase::Done => None,
            Phase::Splaying { until: at } | Phase::Asking { give_up: at } | Phase::Waiting { again: at } => Some(*at),
            Phase::GivingBack { until, .. } | Phase::Releasing { until, .. } => Some(*until),
            Phase::Running(running) => {
                let renewal = match running.renewal {
                    Renewal::Due(at) if running.ending.is_none() => Some(at),
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
        }
    }

    fn ask(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let deadline = now + self.policy.backend_timeout;
        todo.push(Action::Acquire { deadline });
        self.unanswered = true;
        self.phase = Phase::Asking { give_up: deadline + GRACE };
    }

    fn on_acquired(&mut self, answer: Result<Acquired, Trouble>, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        self.unanswered = false;
        match (&self.phase, answer) {
            (Phase::Asking { .. }, Ok(Acquired::Granted(grant))) => self.on_granted(grant, sent, now, todo),
            (Phase::Asking { .. }, Ok(Acquired::Held(record))) => {
                self.timing.answered(now.since(sent));
                match self.timing.next_try(now, record.left) {
                    Some(again) => {
                        todo.push(Action::Tell(Notice::Waiting(record)));
                        self.phase = Phase::Waiting { again };
                    }
                    None => {
                        todo.push(Action::Tell(Notice::Held(record)));
                        self.exit(Outcome::Skipped, todo);
                    }
                }
            }
            (Phase::Asking { .. }, Err(trouble)) => self.on_trouble(trouble, now, todo),
            // Whatever we gave up waiting for and got all the same goes back.
            (Phase::GivingBack { until, then }, Ok(Acquired::Granted(_))) => {
                let (until, then) = (*until, *then);
                todo.push(Action::Release { hold: Duration::ZERO, deadline: until });
                self.phase = Phase::Releasing { until, then: Then::Exit(then) };
            }
            (Phase::GivingBack { then, .. }, _) => {
                let then = *then;
                self.exit(then, todo);
            }
            (Phase::Running(_) | Phase::Spawning { .. }, Ok(Acquired::Granted(_))) => {
                todo.push(Action::Release { hold: Duration::ZERO, deadline: now + self.policy.backend_timeout });
            }
            _ => {}
        }
    }

    fn on_granted(&mut self, grant: Grant, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        let age = now.since(sent);
        if age <= self.policy.at_most / 2 {
            todo.push(Action::Tell(Notice::Granted(grant)));
            todo.push(Action::Spawn(Some(grant)));
            let lease = Lease { grant, taken: sent, end: sent + self.policy.at_most };
            self.phase = Phase::Spawning { lease: Some(lease) };
            return;
        }
        // Too much of the time is gone: the job could be stopped before it did anything, or worse, outlive the lock.
        todo.push(Action::Release { hold: Duration::ZERO, deadline: now + GIVE_BACK });
        let trouble = Trouble::passing(format!("the backend took {} to grant the lock", crate::duration::format(age)))
            .hint("more than half of --at-most was gone, so the lock was given back");
        let then = self.tell_trouble(trouble, todo);
        self.phase = Phase::Releasing { until: now + GIVE_BACK, then };
    }

    fn on_trouble(&mut self, trouble: Trouble, now: Moment, todo: &mut Vec<Action>) {
        match self.tell_trouble(trouble, todo) {
            Then::Exit(outcome) if self.unanswered => self.give_back(outcome, now, todo),
            Then::Exit(outcome) => self.exit(outcome, todo),
            Then::RunWithout => {
                todo.push(Action::Spawn(None));
                self.phase = Phase::Spawning { lease: None };
            }
        }
    }

    /// Says that the backend cannot be asked, and what comes of it.
    fn tell_trouble(&self, trouble: Trouble, todo: &mut Vec<Action>) -> Then {
        let policy = self.policy.on_backend_error;
        todo.push(Action::Tell(Notice::Backend(trouble, policy)));
        match policy {
            OnBackendError::Fail => Then::Exit(Outcome::Failed),
            OnBackendError::Skip => Then::Exit(Outcome::Skipped),
            OnBackendError::Run => Then::RunWithout,
        }
    }

    /// Gives up while a request is in flight: it may yet be granted, and then it goes back.
    fn give_back(&mut self, then: Outcome, now: Moment, todo: &mut Vec<Action>) {
        todo.push(Action::StopTrying);
        self.phase = Phase::GivingBack { until: now + GIVE_BACK, then };
    }

    fn on_signal(&mut self, signal: Signal, sender: Sender, now: Moment, todo: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Running(running) => {
                if self.policy.placement.passes_on(signal, sender) {
                    todo.push(Action::Forward(signal));
                    if signal == Signal::TERM {
                        todo.push(Action::Forward(Signal::CONT));
                    }
                }
                if let (true, Some(timeout)) = (signal.asks_to_stop(), self.policy.stop_timeout) {
                    running.stop_at.get_or_insert(now + timeout);
                }
            }
            _ if signal.stops() => todo.push(Action::StopOurselves(signal)),
            _ if !signal.terminates() => {}
            Phase::Asking { .. } => self.give_back(Outcome::Stopped(signal), now, todo),
            // Service managers signal the job and us together. Then the job's end can be seen before our signal, and
            // the release deserves its second.
            Phase::Releasing { until, then: Then::Exit(_) } if signal.asks_to_stop() => {
                *until = (*until).min(now + GIVE_BACK);
                todo.push(Action::StopTrying);
            }
            Phase::Releasing { then: Then::Exit(_), .. } | Phase::Done => {}
            Phase::New | Phase::Splaying { .. } | Phase::Waiting { .. } | Phase::GivingBack { .. } | Phase::Spawning { .. } | Phase::Releasing { .. } => {
                self.exit(Outcome::Stopped(signal), todo);
            }
        }
    }

    fn on_spawned(&mut self, now: Moment) {
        let Phase::Spawning { lease } = &self.phase else { return };
        let lease = *lease;
        let end = lease.map_or(now + self.policy.at_most, |lease| lease.end);
        let renewal = match (lease, self.policy.on_expiry) {
            (Some(lease), OnExpiry::Extend) => Renewal::Due(self.timing.renew_at(lease.taken)),
            _ => Renewal::Off,
        };
        let running = Running { lease, end, lost: false, told: false, renewal, stop_at: None, ending: None, ended: None };
        self.phase = Phase::Running(running);
    }

    fn on_spawn_failed(&mut self, trouble: SpawnTrouble, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Spawning { lease } = &self.phase else { return };
        let lease = *lease;
        let outcome = trouble.outcome();
        todo.push(Action::Tell(Notice::NotStarted(trouble)));
        match lease {
            Some(_) => self.release(Duration::ZERO, outcome, now, todo),
            None if self.unanswered => self.give_back(outcome, now, todo),
            None => self.exit(outcome, todo),
        }
    }

    fn on_job_stopped(&self, signal: Signal, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        if self.policy.placement.terminal && running.ending.is_none() {
            todo.push(Action::StopOurselves(signal));
        }
    }

    fn on_job_ended(&mut self, end: JobEnd, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        running.ended = Some(end);
        match running.ending {
            None => self.finish(now, todo),
            Some(_) => self.look_for_rest(todo),
        }
    }

    fn look_for_rest(&self, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        if running.ending.is_some() && running.ended.is_some() {
            todo.push(Action::LookForRest);
        }
    }

    fn on_tree_gone(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        if running.ending.is_some() && running.ended.is_some() {
            self.finish(now, todo);
        }
    }

    /// The job is over: the lock goes back, if it is ours to give.
    fn finish(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &self.phase else { return };
        let outcome = match (running.ending.map(|ending| ending.why), running.ended) {
            (Some(Why::Expired), _) => Outcome::Expired,
            (Some(Why::Lost), _) => Outcome::Lost,
            (_, Some(JobEnd::Exited(code))) => Outcome::Exited(code),
            (_, Some(JobEnd::Killed(signal))) => Outcome::Killed(signal),
            (_, None) => return,
        };
        todo.push(Action::Tell(Notice::Ended(outcome)));
        let abandoned = self.policy.on_expiry == OnExpiry::Ignore && now >= running.end;
        match running.lease {
            Some(lease) if !running.lost && !abandoned => {
                let hold = self.timing.hold(&self.policy, outcome, lease.grant, lease.taken.since(self.started));
                self.release(hold, outcome, now, todo);
            }
            None if self.unanswered => self.give_back(outcome, now, todo),
            _ => self.exit(outcome, todo),
        }
    }

    fn release(&mut self, hold: Duration, then: Outcome, now: Moment, todo: &mut Vec<Action>) {
        let deadline = now + self.policy.backend_timeout;
        todo.push(Action::Release { hold, deadline });
        self.phase = Phase::Releasing { until: deadline + GRACE, then: Then::Exit(then) };
    }

    fn on_released(&mut self, answer: Result<Kept, Trouble>, todo: &mut Vec<Action>) {
        let Phase::Releasing { then, .. } = &self.phase else { return };
        let then = *then;
        match answer {
            Ok(Kept::Kept) => todo.push(Action::Tell(Notice::Released)),
            Ok(Kept::Lost) => todo.push(Action::Tell(Notice::LostUnnoticed)),
            Err(trouble) => todo.push(Action::Tell(Notice::NotReleased(trouble))),
        }
        self.after_release(then, todo);
    }

    fn after_release(&mut self, then: Then, todo: &mut Vec<Action>) {
        match then {
            Then::Exit(outcome) => self.exit(outcome, todo),
            Then::RunWithout => {
                todo.push(Action::Spawn(None));
                self.phase = Phase::Spawning { lease: None };
            }
        }
    }

    fn on_renewed(&mut self, answer: Result<Kept, Trouble>, sent: Moment, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        if running.renewal != Renewal::InFlight {
            return;
        }
        let stop_at = self.timing.stop_at(running.end);
        match answer {
            Ok(Kept::Kept) => {
                let end = running.end.max(sent + self.policy.at_most);
                running.end = end;
                if let Some(lease) = &mut running.lease {
                    lease.end = end;
                }
                running.renewal = Renewal::Due(self.timing.renew_at(sent));
                todo.push(Action::Tell(Notice::Renewed));
            }
            Ok(Kept::Lost) => self.on_lost(NoticeKind::Gone, now, todo),
            Err(trouble) => {
                let pause = self.timing.renew_again(stop_at.since(now), trouble.kind == TroubleKind::Lasting);
                running.renewal = Renewal::Due(now + pause);
                todo.push(Action::Tell(Notice::NotRenewed(trouble)));
            }
        }
    }

    /// The lock is not ours any more, or cannot be kept.
    fn on_lost(&mut self, kind: NoticeKind, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        running.lost |= kind == NoticeKind::Gone;
        running.renewal = Renewal::Off;
        running.told = true;
        todo.push(Action::Tell(Notice::Lost(kind, self.policy.on_lost)));
        if self.policy.on_lost == OnLost::Kill && running.ending.is_none() {
            let kill_at = self.timing.kill_at(running.end).min(now + self.timing.kill_after);
            running.ending = Some(Ending { why: Why::Lost, kill_at, killed: false, told: false });
            self.begin_the_end(todo);
        }
    }

    fn begin_the_end(&self, todo: &mut Vec<Action>) {
        todo.push(Action::SignalTree(self.policy.signal));
        if self.policy.signal != Signal::KILL {
            todo.push(Action::SignalTree(Signal::CONT));
        }
    }

    /// What the clock brings about.
    fn on_time(&mut self, now: Moment, todo: &mut Vec<Action>) {
        match &self.phase {
            Phase::Splaying { until } if now >= *until => self.ask(now, todo),
            Phase::Waiting { again } if now >= *again => self.ask(now, todo),
            Phase::Asking { give_up } if now >= *give_up => {
                let limit = crate::duration::format(self.policy.backend_timeout);
                let trouble = Trouble::passing(format!("the backend did not answer within {limit}"));
                self.on_trouble(trouble.hint("--backend-timeout sets how long to try"), now, todo);
            }
            Phase::GivingBack { until, then } if now >= *until => {
                let then = *then;
                self.exit(then, todo);
            }
            Phase::Releasing { until, then } if now >= *until => {
                let then = *then;
                todo.push(Action::Tell(Notice::NotReleased(Trouble::passing("the backend did not answer in time"))));
                self.after_release(then, todo);
            }
            Phase::Running(_) => self.on_running_time(now, todo),
            _ => {}
        }
    }

    fn on_running_time(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        if running.stop_at.is_some_and(|at| now >= at) {
            running.stop_at = None;
            if running.ending.is_none_or(|ending| !ending.killed) {
                todo.push(Action::Tell(Notice::StopTimeout(self.policy.stop_timeout.unwrap_or_default())));
            }
            let ending = running.ending.get_or_insert(Ending { why: Why::StopTimeout, kill_at: now, killed: false, told: false });
            ending.kill_at = ending.kill_at.min(now);
        }
        if let Some(ending) = &mut running.ending {
            if now >= ending.kill_at {
                ending.killed = true;
                ending.kill_at = self.timing.kill_again(now, running.end);
                todo.push(Action::KillTree);
                self.hold_for_undead(now, todo);
            }
            return;
        }
        match running.renewal {
            Renewal::Due(at) if now >= at && now < self.timing.stop_at(running.end) => {
                running.renewal = Renewal::InFlight;
                todo.push(Action::Renew { lease: self.policy.at_most, deadline: self.timing.stop_at(running.end) });
            }
            _ => {}
        }
        if running.told {
            return;
        }
        match self.policy.on_expiry {
            OnExpiry::Kill if now >= self.timing.stop_at(running.end) => {
                let kill_at = self.timing.kill_at(running.end);
                running.ending = Some(Ending { why: Why::Expired, kill_at, killed: false, told: false });
                todo.push(Action::Tell(Notice::Expired(self.policy.at_most)));
                self.begin_the_end(todo);
                // After a stall both may be due.
                self.on_time(now, todo);
            }
            OnExpiry::Ignore if now >= running.end => {
                running.told = true;
                todo.push(Action::Tell(Notice::RunsOn(self.policy.at_most)));
            }
            OnExpiry::Extend if running.lease.is_some() && now >= self.timing.stop_at(running.end) => {
                self.on_lost(NoticeKind::NotRenewed, now, todo);
                self.on_time(now, todo);
            }
            _ => {}
        }
    }

    /// What not even SIGKILL can end keeps the lock: it is renewed while anything of the job lives.
    fn hold_for_undead(&mut self, now: Moment, todo: &mut Vec<Action>) {
        let Phase::Running(running) = &mut self.phase else { return };
        let Some(ending) = &mut running.ending else { return };
        let ours = running.lease.is_some() && !running.lost;
        let late = now >= self.timing.undead_at(running.end);
        if ours && late && running.renewal != Renewal::InFlight {
            running.renewal = Renewal::InFlight;
            todo.push(Action::Renew { lease: self.policy.at_most, deadline: now + self.policy.backend_timeout });
            if !std::mem::replace(&mut ending.told, true) {
                todo.push(Action::Tell(Notice::Undead));
            }
        }
    }

    fn exit(&mut self, outcome: Outcome, todo: &mut Vec<Action>) {
        todo.push(Action::Exit(outcome));
        self.phase = Phase::Done;
    }
}
