//! Properties of every run, tried in made-up worlds: a backend, a job and its processes, and people who send signals,
//! all with latencies, failures and losses at random.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;
use crate::lock::{Acquired, ErrorClass, StillHeld};
use crate::lock::{Grant, LockState};
use crate::system::Timestamp;

const GRANT: Grant =
    Grant { locked_at: Timestamp(1_769_882_458_900), until: Timestamp(1_769_882_558_900), token: Some(7) };
/// When the world begins.
const DAWN: Moment = Moment::at(Duration::from_secs(1_000));
/// More steps than any run here takes, unless it turns in circles.
const STEPS: usize = 50_000;

/// The plan of a world: what happens in it before the run adds its part.
#[derive(Debug, Clone)]
struct RunState {
    /// What the requests meet, one by one. After the last one all goes well.
    replies: Vec<Reply>,
    signals: Vec<(Duration, Signal, Sender)>,
    spawn: Result<(), SpawnErrorKind>,
    /// There is no job: the lock is handed over, or nobody takes it.
    handover: Option<bool>,
    /// The first one is the command.
    processes: Vec<Process>,
    code: u8,
    stops: Vec<Duration>,
    /// When somebody takes shedlock's lock away, after it was granted.
    robbed: Option<Duration>,
    /// When somebody extends the lock, for how long from then on.
    extensions: Vec<(Duration, Duration)>,
    /// How late every tick comes.
    late: Duration,
    /// Shedlock is frozen from when for how long.
    frozen: Option<(Duration, Duration)>,
}

/// What a request meets.
#[derive(Debug, Clone)]
struct Reply {
    /// How long passing trouble lasts first.
    error: Duration,
    /// Of an acquisition, a first try whose answer is lost, and whether it was carried out all the same.
    lost: Option<bool>,
    took: Duration,
    kind: ReplyKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyKind {
    Good,
    /// The lock is another's for so long; to a renewal or a release it is good.
    Held(Duration),
    /// The server is full for so long, if it is tried again; then it is good.
    Full(Duration),
    Lasting,
}

/// A process of the job.
#[derive(Debug, Clone)]
struct Process {
    /// It ends by itself after so long.
    lives: Duration,
    /// It ends so long after a signal that terminates; `None` for one that ignores them.
    obeys: Option<Duration>,
    /// It ends so long after SIGKILL.
    dies: Duration,
}

fn ms(range: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    range.prop_map(Duration::from_millis)
}

fn seconds(choices: &'static [u64]) -> impl Strategy<Value = Duration> {
    prop::sample::select(choices).prop_map(Duration::from_secs)
}

fn a_signal() -> impl Strategy<Value = Signal> {
    prop::sample::select(
        &[Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1, Signal::WINCH, Signal::CONT, Signal::TSTP][..],
    )
}

fn a_policy() -> impl Strategy<Value = Policy> {
    let times = (
        seconds(&[1, 2, 10, 60, 600]),
        seconds(&[0, 1]),
        option::of(seconds(&[1, 60, 3600])),
        prop_oneof![seconds(&[0, 0, 2, 30]).prop_map(WaitLimit::UpTo), Just(WaitLimit::Forever)],
        seconds(&[0, 0, 3]),
        seconds(&[0, 1, 10]),
        option::of(seconds(&[0, 1, 5])),
        seconds(&[0, 1, 10, 30]),
        option::of(seconds(&[1, 3, 30])),
    );
    let choices = (
        prop::sample::select(&[OnExpiry::Kill, OnExpiry::Kill, OnExpiry::Extend, OnExpiry::Ignore][..]),
        prop::sample::select(&[OnLost::Kill, OnLost::Kill, OnLost::Ignore][..]),
        prop::sample::select(&[OnFailure::Release, OnFailure::AtLeast, OnFailure::Hold][..]),
        prop::sample::select(&[OnBackendError::Fail, OnBackendError::Skip, OnBackendError::Run][..]),
        prop::sample::select(&[Signal::TERM, Signal::TERM, Signal::KILL][..]),
        any::<bool>(),
        any::<u64>(),
        prop::sample::select(
            &[
                WaitFor::Child,
                WaitFor::Child,
                WaitFor::Leftovers(Leftovers::Group),
                WaitFor::Leftovers(Leftovers::Tree),
            ][..],
        ),
        any::<bool>(),
    );
    (times, choices).prop_map(|(times, choices)| {
        let (at_most, at_least, every, wait, splay, kill_after, stop_timeout, backend_timeout, lease) = times;
        let (on_expiry, on_lost, on_failure, on_backend_error, signal, terminal, seed, wait_for, guarded) = choices;
        let group = if terminal { Group::Shared } else { Group::Own };
        Policy {
            at_most,
            at_least,
            lease,
            every: every.map(Every),
            wait,
            splay,
            on_expiry,
            on_lost,
            wait_for,
            guarded: guarded && lease.is_some(),
            signal,
            kill_after,
            stop_timeout,
            on_failure,
            on_backend_error,
            backend_timeout,
            placement: Placement { group, terminal, session_leader: false },
            seed,
            ..Policy::plain()
        }
    })
}

fn a_reply() -> impl Strategy<Value = Reply> {
    let error = prop_oneof![4 => Just(Duration::ZERO), 1 => ms(0..60_000)];
    let took = prop_oneof![6 => ms(0..30), 2 => ms(0..2_000), 1 => ms(0..60_000)];
    let kind = prop_oneof![
        5 => Just(ReplyKind::Good),
        2 => ms(0..20_000).prop_map(ReplyKind::Held),
        2 => ms(0..20_000).prop_map(ReplyKind::Full),
        1 => Just(ReplyKind::Lasting),
    ];
    let lost = option::weighted(0.2, any::<bool>());
    (error, lost, took, kind).prop_map(|(error, lost, took, kind)| Reply { error, lost, took, kind })
}

fn a_process() -> impl Strategy<Value = Process> {
    let lives = prop_oneof![ms(0..3_000), ms(0..1_500_000)];
    let dies = prop_oneof![8 => ms(0..20), 1 => ms(0..4_000)];
    (lives, option::of(ms(0..3_000)), dies).prop_map(|(lives, obeys, dies)| Process { lives, obeys, dies })
}

fn a_fate() -> impl Strategy<Value = RunState> {
    let sender = prop::sample::select(&[Sender::Process, Sender::Terminal][..]);
    let when = || prop_oneof![ms(0..4_000), ms(0..100_000)];
    let spawn = prop_oneof![
        9 => Just(Ok(())),
        1 => Just(Err(SpawnErrorKind::NotFound)),
        1 => Just(Err(SpawnErrorKind::NoProcess)),
    ];
    let handover = option::weighted(0.1, any::<bool>());
    let job = (spawn, handover, vec(a_process(), 1..4), any::<u8>(), vec(when(), 0..2));
    let extensions = vec((when(), prop_oneof![ms(1_000..20_000), ms(1_000..700_000)]), 0..3);
    let people = (vec((when(), a_signal(), sender), 0..4), option::weighted(0.2, when()), extensions);
    let us = (ms(0..20), option::weighted(0.2, (when(), ms(0..200_000))));
    (vec(a_reply(), 0..8), job, people, us).prop_map(|(replies, job, people, us)| {
        let ((spawn, handover, processes, code, stops), (signals, robbed, extensions), (late, frozen)) =
            (job, people, us);
        RunState { replies, signals, spawn, handover, processes, code, stops, robbed, extensions, late, frozen }
    })
}

/// Something that the world does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happening {
    Signal(Signal, Sender),
    Stop,
    Death(usize),
    Robbery,
    Extension(Duration),
    /// The backend carries out the request of this number, or answers it; or a try of it whose answer is lost.
    LostTry(usize),
    Execution(usize),
    Answer(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Acquire(WhenFull),
    Renew(Duration, Option<Moment>),
    Look,
    Release,
}

/// A request on its way through worker and backend.
#[derive(Debug, Clone)]
struct Request {
    what: What,
    deadline: Moment,
    /// When the try that is answered is sent; after the deadline none is.
    sent: Moment,
    reply: Reply,
    /// The answer to a try was lost.
    ambiguous: bool,
    answer: Option<Answer>,
    started: bool,
    done: bool,
}

impl Request {
    fn is_taking(&self) -> bool {
        matches!(self.what, What::Acquire(_))
    }

    fn is_release(&self) -> bool {
        self.what == What::Release
    }
}

/// An answer that the backend has decided.
#[derive(Debug, Clone)]
enum Answer {
    Acquired(Result<Acquired, BackendError>),
    Kept(Result<StillHeld, BackendError>),
    Seen(Result<Ownership, BackendError>),
}

struct Living {
    ends: Moment,
    alive: bool,
    end: JobEnd,
}

/// A world with one run in it.
struct World {
    run: Run,
    policy: Policy,
    fate: RunState,
    now: Moment,
    to_come: Vec<(Moment, Happening)>,
    replies: VecDeque<Reply>,
    requests: Vec<Request>,
    /// Until when the backend holds the lock for shedlock.
    held: Option<Moment>,
    /// The last request that took it, and when.
    taken_by: usize,
    taken_at: Moment,
    /// Somebody made its end later since shedlock last knew.
    extended: bool,
    /// When the guardian ends the job, as it was last told.
    guard: Option<Moment>,
    /// The freeze is over.
    thawed: bool,
    tree: Vec<Living>,
    seen: Seen,
}

/// What was seen of the run.
#[derive(Debug, Default)]
struct Seen {
    spawns: usize,
    running: bool,
    /// The lease of the job that runs: its end as the run may believe it.
    lease: Option<Moment>,
    job_end: Option<JobEnd>,
    /// When at-most is used up.
    limit: Option<Moment>,
    /// What the last look showed, and when it was sent.
    sight: Option<(Moment, Duration)>,
    /// When shedlock last woke from a stall, and when the last renewal was sent that was answered well.
    stalled: Option<Moment>,
    checked: Option<Moment>,
    holding: bool,
    /// Shedlock has begun to end the job.
    ending: bool,
    killed: bool,
    /// Granted, and not asked back yet.
    granted: bool,
    ever_granted: bool,
    /// Somebody else minds the lock.
    handed_over: bool,
    /// An acquisition ended without an answer, none came later, and nothing was undone.
    ambiguous: bool,
    /// Some answer said that another holds the lock.
    held: bool,
    lost: bool,
    release_failed: bool,
    signals: Vec<Signal>,
    stopped_trying: Option<(Moment, usize)>,
    emitted: Vec<Notice>,
    recorded: Option<RunMetrics>,
    notified: Vec<NotifyEvent>,
    exit: Option<ExitReason>,
}

impl World {
    fn new(policy: &Policy, fate: &RunState) -> Self {
        let mut to_come: Vec<_> =
            fate.signals.iter().map(|(at, signal, sender)| (DAWN + *at, Happening::Signal(*signal, *sender))).collect();
        to_come.extend(fate.stops.iter().map(|at| (DAWN + *at, Happening::Stop)));
        to_come.extend(fate.extensions.iter().map(|(at, by)| (DAWN + *at, Happening::Extension(*by))));
        to_come.extend(fate.robbed.map(|at| (DAWN + at, Happening::Robbery)));
        Self {
            run: Run::new(policy.clone(), "test:".to_owned(), DAWN),
            policy: policy.clone(),
            replies: fate.replies.clone().into(),
            fate: fate.clone(),
            now: DAWN,
            to_come,
            requests: Vec::new(),
            held: None,
            taken_by: 0,
            taken_at: DAWN,
            extended: false,
            guard: None,
            thawed: false,
            tree: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Lives the run through, and returns what was seen.
    fn live(mut self) -> Seen {
        self.feed(Event::BackendReached);
        self.feed(Event::Begin);
        for _ in 0..STEPS {
            if self.seen.exit.is_some() {
                return self.seen;
            }
            let events = self.wait();
            for event in events {
                self.feed(event);
                if self.seen.exit.is_some() {
                    return self.seen;
                }
            }
            if let Some(deadline) = self.run.deadline() {
                assert!(deadline > self.now, "the deadline {deadline:?} is over at {:?}", self.now);
            }
            self.check_exclusion();
        }
        panic!("the run does not end: {:?} at {:?}", self.run.phase, self.now);
    }

    /// Waits for the next events, as the supervisor does: signals, the ends of processes, answers, and the tick.
    fn wait(&mut self) -> Vec<Event> {
        let deadline = self.run.deadline().map(|at| at + self.fate.late);
        let next = self.to_come.iter().map(|(at, _)| *at).chain(deadline).min();
        let mut now = self.now.max(next.expect("something is always to come"));
        if let Some((from, long)) = self.fate.frozen
            && now >= DAWN + from
        {
            now = now.max(DAWN + from + long);
        }
        let stalled = now > self.now && self.fate.frozen.is_some() && now > next.expect("see above") && !self.thawed;
        if stalled {
            self.thawed = true;
            self.guard(now);
        }
        let (mut signals, mut ends, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        while let Some((at, happening)) = self.next_happening(now) {
            self.now = self.now.max(at);
            match happening {
                Happening::Signal(signal, sender) => signals.push(Event::Signalled { signal, sender }),
                Happening::Stop if self.is_alive(0) => ends.push(Event::JobStopped(Signal::TSTP)),
                Happening::Stop => {}
                Happening::Death(index) => ends.extend(self.die(index, at)),
                Happening::Robbery => self.held = None,
                Happening::Extension(by) => self.extend(by, at),
                Happening::LostTry(number) => self.take(number, at),
                Happening::Execution(number) => self.execute(number, at),
                Happening::Answer(number) => answers.extend(self.answer(number, at)),
            }
        }
        self.now = now;
        let stalled = stalled.then_some(Event::Stalled);
        ends.into_iter().chain(stalled).chain(signals).chain(answers).chain([Event::Tick]).collect()
    }

    /// Does what the guardian was told, while shedlock is frozen until `thaw`.
    fn guard(&mut self, thaw: Moment) {
        let Some(at) = self.guard.filter(|at| *at <= thaw && self.seen.running) else { return };
        let now = self.now;
        self.now = at.max(now);
        self.signal(0..self.tree.len(), Signal::KILL);
        self.now = now;
    }

    fn next_happening(&mut self, now: Moment) -> Option<(Moment, Happening)> {
        let (index, _) =
            self.to_come.iter().enumerate().filter(|(_, (at, _))| *at <= now).min_by_key(|(_, (at, _))| *at)?;
        Some(self.to_come.remove(index))
    }

    /// Feeds an event, and performs what is to be done about it, as the supervisor does.
    fn feed(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            self.note(&event);
            let todo = self.run.on(event, self.now);
            for action in todo {
                assert_eq!(self.seen.exit, None, "{action:?} after the exit");
                events.extend(self.perform(action));
            }
            if self.seen.exit.is_some() {
                return;
            }
        }
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Signalled { signal, .. } => self.seen.signals.push(*signal),
            Event::Acquired { answer, ambiguous, .. } => {
                let granted = matches!(answer, Ok(Acquired::Granted(_)));
                self.seen.granted |= granted;
                self.seen.ever_granted |= granted;
                self.seen.held |= matches!(answer, Ok(Acquired::Held(_)));
                self.seen.ambiguous = !granted && (*ambiguous || self.seen.ambiguous);
            }
            Event::Renewed { answer: Ok(StillHeld::Held), sent } => {
                let renewal = |request: &&Request| request.done && matches!(request.what, What::Renew(..));
                let limit = match self.requests.iter().rfind(renewal).map(|request| request.what) {
                    Some(What::Renew(_, limit)) => limit,
                    other => panic!("{other:?} was renewed"),
                };
                let lease = self.policy.lease();
                let end = *sent + limit.map_or(lease, |limit| lease.min(limit.since(*sent)));
                self.seen.checked = Some(*sent);
                self.seen.lease = self.seen.lease.map(|before| before.max(end));
            }
            Event::Renewed { answer: Ok(StillHeld::Lost), .. } => self.seen.lost = true,
            Event::Queried { answer: Ok(Ownership::Held { left, .. }), sent } => self.seen.sight = Some((*sent, *left)),
            Event::JobEnded(end) => self.seen.job_end = Some(*end),
            Event::Spawned => self.seen.running = true,
            Event::Stalled => self.seen.stalled = Some(self.now),
            _ => {}
        }
    }

    fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Acquire { deadline, when_full } => self.ask(What::Acquire(when_full), deadline),
            Action::Renew { term: Term { lease, limit }, deadline } => {
                assert!(self.seen.lease.is_some() && !self.seen.lost, "a renewal without a lock");
                assert_eq!(lease, self.policy.lease());
                self.ask(What::Renew(lease, limit), deadline);
            }
            Action::QueryLock { deadline } => {
                assert!(self.seen.lease.is_some() && !self.seen.ending, "a look without a lock");
                assert!(!self.in_flight(|request| request.what == What::Look), "two looks at once");
                assert!(deadline <= self.seen.limit.expect("there is a lock"), "a look that comes too late");
                self.ask(What::Look, deadline);
            }
            Action::Release { deadline, .. } => {
                self.check_release();
                assert!(!self.seen.handed_over, "what was handed over is another's to give back");
                self.seen.granted = false;
                self.seen.ambiguous = false;
                self.ask(What::Release, deadline);
            }
            Action::StopTrying => self.stop_trying(),
            Action::Guard(at) => {
                assert!(self.policy.guarded && self.seen.exit.is_none());
                self.guard = at;
            }
            Action::Spawn(under) => return Some(self.spawn(&under)),
            Action::Freeze => {
                let continued = self.seen.signals.last() == Some(&Signal::CONT);
                assert!((!self.seen.holding || continued) && self.seen.running, "it is held twice");
                self.seen.holding = true;
            }
            Action::Thaw => {
                assert!(self.seen.holding, "it was not held");
                let checked = self.seen.checked >= self.seen.stalled || self.policy.on_lost == OnLost::Ignore;
                let ends = self.seen.job_end.is_some() || self.seen.signals.iter().any(|signal| signal.asks_to_stop());
                let abandoned = self.policy.on_expiry == OnExpiry::Ignore && self.seen.limit <= Some(self.now);
                assert!(checked || ends || abandoned, "it goes on without a check");
                self.seen.holding = false;
            }
            Action::Forward(signal) => {
                self.check_signal(&action);
                self.signal(0..1, signal);
            }
            Action::SignalTree(signal) => {
                self.check_signal(&action);
                self.seen.ending = true;
                self.seen.holding = false;
                self.signal(0..self.tree.len(), signal);
            }
            Action::KillTree => {
                self.check_signal(&action);
                self.seen.ending = true;
                self.seen.killed = true;
                self.seen.holding = false;
                self.signal(0..self.tree.len(), Signal::KILL);
                return self.check_leftovers();
            }
            Action::CheckLeftovers(_) => return self.check_leftovers(),
            Action::StopOurselves(_) => {}
            Action::RecordMetrics(metrics) => {
                let is_end = matches!(metrics, RunMetrics::Ended { .. });
                assert_eq!((self.seen.recorded, self.seen.running || is_end), (None, true), "{metrics:?} is recorded");
                self.seen.recorded = is_end.then_some(metrics);
            }
            Action::FinishMetrics => {}
            Action::Notify(notification) => self.seen.notified.push(notification.event),
            Action::Emit(notice) => {
                if let Notice::Extended(_) = notice {
                    self.note_extension();
                }
                self.seen.lost |= matches!(notice, Notice::Lost(LossCause::Gone | LossCause::Late, _));
                self.seen.release_failed |= matches!(
                    notice,
                    Notice::NotReleased(_)
                        | Notice::NotUndone(..)
                        | Notice::RecordNotClosed(_)
                        | Notice::Backend(_, _, Some(_))
                );
                self.seen.emitted.push(notice);
            }
            Action::Exit(reason) => {
                self.check_exit(reason);
                assert!(!self.seen.holding, "what is left stands still for ever");
                self.seen.exit = Some(reason);
            }
        }
        None
    }

    // The job.

    fn spawn(&mut self, under: &Under) -> Event {
        let locked = matches!(under, Under::Lock { .. });
        self.seen.spawns += 1;
        assert_eq!(self.seen.spawns, 1, "the command is started once");
        assert!(!locked || self.seen.granted);
        if let (true, Some(taken)) = (locked, self.fate.handover) {
            self.seen.handed_over = taken;
            return if taken { Event::HandedOver } else { Event::NotHandedOver("no".to_owned()) };
        }
        if let Err(kind) = self.fate.spawn {
            return Event::SpawnFailed(SpawnError { command: "x".into(), kind, reason: "no".to_owned(), hint: None });
        }
        let taken = self.requests.iter().rfind(|request| request.is_taking()).expect("it was asked for").sent;
        self.seen.lease = locked.then(|| taken + self.policy.first_lease());
        self.seen.limit = locked.then(|| taken + self.policy.at_most);
        let now = self.now;
        for (index, process) in self.fate.processes.iter().enumerate() {
            let ends = now + process.lives;
            self.tree.push(Living { ends, alive: true, end: JobEnd::Exited(self.fate.code) });
            self.to_come.push((ends, Happening::Death(index)));
        }
        Event::Spawned
    }

    fn is_alive(&self, index: usize) -> bool {
        self.tree.get(index).is_some_and(|process| process.alive)
    }

    fn signal(&mut self, whom: std::ops::Range<usize>, signal: Signal) {
        for index in whom {
            let process = &self.fate.processes[index];
            let ends = match process.obeys {
                _ if signal == Signal::KILL => self.now + process.dies,
                Some(obeys) if signal.terminates() => self.now + obeys,
                _ => continue,
            };
            let living = &mut self.tree[index];
            if living.alive && ends < living.ends {
                living.ends = ends;
                living.end = JobEnd::Killed(signal);
                self.to_come.push((ends, Happening::Death(index)));
            }
        }
    }

    /// Ends a process. The processes of the job that outlive the command are shedlock's children.
    fn die(&mut self, index: usize, at: Moment) -> Option<Event> {
        let orphaned = !self.is_alive(0);
        let living = &mut self.tree[index];
        if !living.alive || living.ends != at {
            return None;
        }
        living.alive = false;
        let matters = self.seen.job_end.is_none() || self.seen.ending;
        if let (Some(end), true) = (self.seen.lease, matters && self.policy.guarded && self.is_bound()) {
            assert!(at <= end || self.seen.killed || self.spares(), "the guardian has let it live until {at:?}");
        }
        let living = &self.tree[index];
        match index {
            0 => Some(Event::JobEnded(living.end)),
            _ => orphaned.then_some(Event::OrphanEnded(living.end)),
        }
    }

    fn check_leftovers(&self) -> Option<Event> {
        self.tree.iter().all(|process| !process.alive).then_some(Event::LeftoversGone)
    }

    // The backend.

    fn ask(&mut self, what: What, deadline: Moment) {
        let reply = self.replies.pop_front().unwrap_or(Reply {
            error: Duration::ZERO,
            lost: None,
            took: Duration::from_millis(1),
            kind: ReplyKind::Good,
        });
        self.requests.push(Request {
            what,
            deadline,
            sent: self.now,
            reply,
            ambiguous: false,
            answer: None,
            started: false,
            done: false,
        });
        self.start_next(self.now);
    }

    /// Starts the next request: requests are answered one by one.
    fn start_next(&mut self, now: Moment) {
        let Some(number) = self.requests.iter().position(|request| !request.done) else { return };
        let request = &mut self.requests[number];
        if request.started {
            return;
        }
        request.started = true;
        if let (true, Some(carried_out)) = (request.is_taking(), request.reply.lost) {
            request.ambiguous = true;
            self.to_come.extend(carried_out.then_some((now, Happening::LostTry(number))));
        }
        let (full, over) = match (request.reply.kind, request.what) {
            (kind @ ReplyKind::Full(_), What::Acquire(WhenFull::Answer)) => (Duration::ZERO, kind),
            (kind @ ReplyKind::Full(full), _) => (full, kind),
            // It is tried whatever the error.
            (kind @ ReplyKind::Lasting, What::Release) => (request.deadline.since(now), kind),
            _ => (Duration::ZERO, ReplyKind::Lasting),
        };
        let error = request.reply.error + full;
        request.sent = now + error;
        if error > Duration::ZERO && request.sent >= request.deadline {
            request.sent = now.max(request.deadline);
            request.reply.kind = over;
            request.reply.took = Duration::ZERO;
        } else if full > Duration::ZERO {
            request.reply.kind = ReplyKind::Good;
        }
        let (sent, took) = (request.sent, request.reply.took);
        self.to_come.push((sent + took / 2, Happening::Execution(number)));
        self.to_come.push((sent + took, Happening::Answer(number)));
    }

    fn stop_trying(&mut self) {
        let (now, stops) = (self.now, self.stop_signals());
        self.seen.stopped_trying = Some((now, stops));
        let Some(number) = self.requests.iter().position(|request| !request.done) else { return };
        let request = &mut self.requests[number];
        if request.sent > now {
            request.sent = now;
            request.reply = Reply { took: Duration::ZERO, kind: ReplyKind::Lasting, ..request.reply.clone() };
            self.to_come
                .retain(|(_, what)| !matches!(what, Happening::Execution(n) | Happening::Answer(n) if *n == number));
            self.to_come.extend([(now, Happening::Execution(number)), (now, Happening::Answer(number))]);
        }
    }

    fn execute(&mut self, number: usize, at: Moment) {
        let ours = self.held.is_some_and(|until| until > at);
        let request = &self.requests[number];
        let kind = match request.reply.kind {
            ReplyKind::Full(_) => ErrorClass::Overloaded,
            _ => ErrorClass::Permanent,
        };
        let error = BackendError { ambiguous: request.ambiguous, ..BackendError::new(kind, "no") };
        let answer = match (request.what, request.reply.kind) {
            (What::Acquire(_), ReplyKind::Lasting | ReplyKind::Full(_)) => Answer::Acquired(Err(error)),
            (What::Look, ReplyKind::Lasting | ReplyKind::Full(_)) => Answer::Seen(Err(error)),
            (What::Look, _) => Answer::Seen(Ok(match self.held.filter(|_| ours) {
                None => Ownership::Gone,
                Some(until) => {
                    let end = GRANT.locked_at + until.since(self.taken_at);
                    Ownership::Held { until: Some(end), left: until.since(at) }
                }
            })),
            (_, ReplyKind::Lasting | ReplyKind::Full(_)) => Answer::Kept(Err(error)),
            (What::Acquire(_), ReplyKind::Held(left)) if !ours => Answer::Acquired(Ok(Acquired::Held(LockState {
                owner: "other".to_owned(),
                since: None,
                until: None,
                left,
            }))),
            (What::Acquire(_), _) => {
                self.take(number, at);
                let until = GRANT.locked_at + self.policy.first_lease();
                Answer::Acquired(Ok(Acquired::Granted(Grant { until, ..GRANT })))
            }
            (What::Renew(lease, limit), _) if ours => {
                let sent = self.requests[number].sent;
                let lease = limit.map_or(lease, |limit| lease.min(limit.since(sent)));
                self.held = self.held.max(Some(at + lease));
                Answer::Kept(Ok(StillHeld::Held))
            }
            (What::Release, _) if ours => {
                self.held = None;
                Answer::Kept(Ok(StillHeld::Held))
            }
            (What::Renew(..) | What::Release, _) => Answer::Kept(Ok(StillHeld::Lost)),
        };
        self.requests[number].answer = Some(answer);
    }

    fn take(&mut self, number: usize, at: Moment) {
        self.held = Some(at + self.policy.first_lease());
        self.taken_by = number;
        self.taken_at = at;
        self.extended = false;
    }

    /// Extends the lock: as with `renew`, never to an earlier end.
    fn extend(&mut self, by: Duration, at: Moment) {
        let Some(held) = self.held.filter(|held| *held > at && at + by > *held) else { return };
        self.extended = true;
        self.held = Some(held.max(at + by));
    }

    /// Notes that the run counts the lock as extended.
    fn note_extension(&mut self) {
        let (sent, left) = self.seen.sight.expect("it has looked");
        assert!(self.extended, "nobody has extended it");
        let limit = sent + left - left.saturating_sub(self.policy.at_most) / 2000;
        assert!(self.held >= Some(limit) || self.fate.robbed.is_some(), "the lock ends before {limit:?}");
        assert!(Some(limit) > self.seen.limit, "it was made shorter");
        self.seen.limit = Some(limit);
        let end = if self.policy.renews() { sent + left.min(self.policy.lease()) } else { limit };
        self.seen.lease = self.seen.lease.max(Some(end));
    }

    fn answer(&mut self, number: usize, at: Moment) -> Option<Event> {
        let request = &mut self.requests[number];
        request.done = true;
        let (sent, what, ambiguous, answer) = (request.sent, request.what, request.ambiguous, request.answer.take());
        self.start_next(at);
        Some(match (answer?, what) {
            (Answer::Acquired(answer), _) => Event::Acquired { answer, sent, ambiguous },
            (Answer::Seen(answer), _) => Event::Queried { answer, sent },
            (Answer::Kept(answer), What::Renew(..)) => Event::Renewed { answer, sent },
            (Answer::Kept(answer), _) => Event::Released(answer),
        })
    }

    fn in_flight(&self, is: fn(&Request) -> bool) -> bool {
        self.requests.iter().any(|request| is(request) && !request.done)
    }

    // The properties.

    fn stop_signals(&self) -> usize {
        self.seen.signals.iter().filter(|signal| signal.terminates()).count()
    }

    fn is_in_time(&self) -> bool {
        self.fate.frozen.is_none()
    }

    /// Checks that nothing is sent to a job that was not started, or that has ended by itself.
    fn check_signal(&self, action: &Action) {
        assert!(self.seen.running, "{action:?} before the job");
        let waits = self.policy.wait_for != WaitFor::Child || self.policy.guarded;
        assert!(self.seen.job_end.is_none() || self.seen.ending || waits, "{action:?} after the job");
    }

    /// Checks that a lock is released only after its job, and after all of the job if shedlock has ended it.
    fn check_release(&self) {
        if self.seen.lease.is_some() {
            assert!(self.seen.job_end.is_some(), "the lock is released under its job");
            let rest = self.tree.iter().any(|process| process.alive);
            let waits = self.seen.ending || self.policy.wait_for != WaitFor::Child;
            assert!(!waits || !rest, "the lock is released before all that has to end is dead");
        }
    }

    /// Returns whether the job may not outlive its lock.
    fn is_bound(&self) -> bool {
        match self.policy.on_expiry {
            OnExpiry::Kill => self.policy.lease.is_none() || self.policy.on_lost == OnLost::Kill,
            OnExpiry::Extend => self.policy.on_lost == OnLost::Kill,
            OnExpiry::Ignore => false,
        }
    }

    fn is_mortal(&self) -> bool {
        self.fate.processes.iter().all(|process| process.dies <= Duration::from_millis(20))
    }

    /// Returns whether something excuses a job that is not killed in time.
    fn spares(&self) -> bool {
        !self.is_mortal() || self.seen.lost || self.fate.robbed.is_some()
    }

    /// Checks that the job does not outlive its lock.
    fn check_exclusion(&self) {
        let Some(end) = self.seen.lease else { return };
        // What was left running after a normal end is left alone.
        let alive = match self.seen.ending || self.policy.wait_for != WaitFor::Child {
            true => self.tree.iter().any(|process| process.alive),
            false => self.is_alive(0),
        };
        if !alive || !self.is_bound() || !self.is_in_time() {
            return;
        }
        assert!(self.now < end || self.seen.killed, "SIGKILL comes before the lease ends at {end:?}");
        if self.is_mortal() && !self.seen.lost && self.fate.robbed.is_none() {
            assert!(self.held.is_some_and(|until| self.now < until), "the job lives at {:?}, without a lock", self.now);
        }
    }

    fn check_exit(&self, reason: ExitReason) {
        let seen = &self.seen;
        if seen.handed_over {
            assert_eq!((reason, seen.spawns), (ExitReason::Exited(0), 1));
            assert!(self.held.is_some_and(|until| until > self.now) || self.fate.robbed.is_some(), "it was lost");
            return;
        }
        // No lock is forgotten.
        let let_go = self.policy.on_expiry == OnExpiry::Ignore && seen.limit.is_some_and(|end| self.now >= end);
        assert!(!seen.holding || seen.job_end.is_some(), "the job is left standing still");
        assert!(!seen.granted || seen.lost || let_go, "a granted lock was not given back");
        // An undo would have had to wait for what was not answered in time.
        let unanswered = self.in_flight(Request::is_taking);
        assert!(!seen.ambiguous || unanswered, "what may have been taken was not given back");
        let ours = self.held.is_some_and(|until| until > self.now);
        let returned = self.requests.iter().skip(self.taken_by).any(Request::is_release);
        assert!(!ours || returned || unanswered || seen.lost || let_go, "a lock was taken, and forgotten");
        assert!(
            !self.in_flight(Request::is_release) || seen.release_failed,
            "a release was not waited for, and no line says so"
        );
        if self.in_flight(Request::is_taking) {
            let (at, stops) = seen.stopped_trying.expect("a request in flight is told not to be tried again");
            let impatient = matches!(reason, ExitReason::Stopped(_)) && self.stop_signals() > stops;
            assert!(self.now >= at + UNDO_TIMEOUT || impatient, "the answer to the acquisition was not waited for");
        }
        let rest = self.tree.iter().any(|process| process.alive);
        assert!(!seen.ending || !rest, "what we had to end outlives us");
        // How it ended is what happened.
        let told = |is: fn(&Notice) -> bool| seen.emitted.iter().filter(|notice| is(notice)).count();
        let expired = told(|notice| matches!(notice, Notice::Expired(..)));
        let lost = told(|notice| matches!(notice, Notice::Lost(_, OnLost::Kill)));
        if seen.running {
            match reason {
                ExitReason::Exited(code) => assert_eq!(seen.job_end, Some(JobEnd::Exited(code))),
                ExitReason::Killed(signal) => assert_eq!(seen.job_end, Some(JobEnd::Killed(signal))),
                ExitReason::Expired => assert_eq!(expired, 1),
                ExitReason::Lost => assert_eq!(lost, 1),
                other => panic!("{other:?} after the job ran"),
            }
            assert!(seen.job_end.is_some(), "the job outlives us");
        } else {
            match reason {
                ExitReason::Stopped(signal) => assert!(seen.signals.contains(&signal)),
                ExitReason::NotFound => assert_eq!(self.fate.spawn, Err(SpawnErrorKind::NotFound)),
                ExitReason::Skipped | ExitReason::Failed => {}
                other => panic!("{other:?} without a job"),
            }
        }
        // The metrics and the notifications say what happened.
        let started = usize::from(seen.running);
        let is_known = !matches!(reason, ExitReason::Stopped(_));
        let code = reason.exit(0).code;
        match seen.recorded {
            Some(RunMetrics::Ended { exit_code, .. }) => assert_eq!((is_known, exit_code), (true, code)),
            other => assert!(!is_known, "{other:?} is recorded of {reason:?}"),
        }
        assert_eq!(seen.notified.len(), started + usize::from(is_known), "{:?} of {reason:?}", seen.notified);
        assert!(seen.notified[..started].iter().all(|event| *event == NotifyEvent::Start));
        // Full is no error while there is waiting, and one line tells an error.
        let full = told(|notice| matches!(notice, Notice::Backend(error, ..) if error.class == ErrorClass::Overloaded));
        assert!(full == 0 || !seen.held && self.policy.wait != WaitLimit::Forever, "full is an error to a waiter");
        let not_released = told(|notice| matches!(notice, Notice::NotReleased(_)));
        assert!(not_released == 0 || seen.ever_granted, "a line about a lock that was perhaps never taken");
        // Nothing is told twice.
        for (what, times) in [
            ("expired", expired),
            ("lost", told(|notice| matches!(notice, Notice::Lost(..)))),
            ("unkillable", told(|notice| matches!(notice, Notice::Unkillable))),
            ("stop-timeout", told(|notice| matches!(notice, Notice::StopTimeout(_)))),
            ("runs on", told(|notice| matches!(notice, Notice::ExpiredButRunning(..)))),
            ("not released", not_released),
            ("not given back", told(|notice| matches!(notice, Notice::NotUndone(..)))),
            ("backend", told(|notice| matches!(notice, Notice::Backend(..)))),
        ] {
            assert!(times <= 1, "{what} was told {times} times");
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 4_000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn every_run_ends_and_keeps_its_promises(policy in a_policy(), fate in a_fate()) {
        World::new(&policy, &fate).live();
    }
}
