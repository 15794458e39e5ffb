//! Stories of runs, told with made-up instants: each is a sentence of the manual.
//!
//! Unless a story says otherwise at-most is 100 s. Then its job gets the first signal after 87.95 s and SIGKILL after
//! 97.95 s.

mod account;
mod acquiring;
mod errors;
mod extending;
mod guardian;
mod killing;
mod lost_answers;
mod releasing;
mod renewing;
mod running;
mod stall;
mod waiting;

use super::*;
use crate::lock::{Acquired, ErrorClass, StillHeld};
use crate::lock::{Closing, Grant, LockState, RunOutcome};
use crate::system::Timestamp;

const GRANT: Grant =
    Grant { locked_at: Timestamp(1_769_882_458_900), until: Timestamp(1_769_882_558_900), token: Some(7) };
const STOP_SIGNALS: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
/// The times of the first signal and of SIGKILL, in milliseconds.
const STOP_AT: u64 = 87_950;
const KILL_AT: u64 = 97_950;
/// The times at which a lease of 30 s that is not renewed ends its job, in milliseconds.
const LEASE_STOP_AT: u64 = 22_485;
const LEASE_KILL_AT: u64 = 28_485;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the moment `millis` after the run began.
fn t(millis: u64) -> Moment {
    Moment::at(ms(1_000_000 + millis))
}

fn policy() -> Policy {
    Policy::plain()
}

/// Returns a policy that renews the lock for as long as the job lives.
fn extend() -> Policy {
    Policy { on_expiry: OnExpiry::Extend, ..policy() }
}

/// Returns a policy with a lease of 30 s.
fn leased() -> Policy {
    Policy { lease: Some(ms(30_000)), ..policy() }
}

fn granted(sent: u64) -> Event {
    Event::Acquired { answer: Ok(Acquired::Granted(GRANT)), sent: t(sent), ambiguous: false }
}

fn held(left: u64, sent: u64) -> Event {
    let record = LockState { owner: "other:1:2".to_owned(), since: None, until: None, left: ms(left) };
    Event::Acquired { answer: Ok(Acquired::Held(record)), sent: t(sent), ambiguous: false }
}

/// Returns the answer of a try which found that another owner holds the lock, after the network lost the answer before.
fn unclear_and_held(left: u64, sent: u64) -> Event {
    match held(left, sent) {
        Event::Acquired { answer, sent, .. } => Event::Acquired { answer, sent, ambiguous: true },
        other => other,
    }
}

fn refused(sent: u64) -> Event {
    Event::Acquired { answer: Err(BackendError::permanent("no such database")), sent: t(sent), ambiguous: false }
}

/// Returns the answer of a server that was full.
fn full(sent: u64) -> Event {
    Event::Acquired {
        answer: Err(BackendError::new(ErrorClass::Overloaded, "too many clients")),
        sent: t(sent),
        ambiguous: false,
    }
}

/// Returns the error after the network lost an answer, and the backend could not be asked again.
fn ambiguous(sent: u64) -> Event {
    Event::Acquired {
        answer: Err(BackendError::transient("connection reset").ambiguous()),
        sent: t(sent),
        ambiguous: true,
    }
}

/// Returns the answer of a server that was full, after the network lost the answer before.
fn unclear_and_full(sent: u64) -> Event {
    Event::Acquired {
        answer: Err(BackendError::new(ErrorClass::Overloaded, "too many clients").ambiguous()),
        sent: t(sent),
        ambiguous: true,
    }
}

fn acquire(deadline: u64, when_full: WhenFull) -> Action {
    Action::Acquire { deadline: t(deadline), when_full }
}

fn renewed(answer: Result<StillHeld, BackendError>, sent: u64) -> Event {
    Event::Renewed { answer, sent: t(sent) }
}

/// Returns the answer that the lock is held for `left` yet, and until `until` by the backend's clock.
fn seen(until: Timestamp, left: u64, sent: u64) -> Event {
    Event::Queried { answer: Ok(Ownership::Held { until: Some(until), left: ms(left) }), sent: t(sent) }
}

fn signalled(signal: Signal) -> Event {
    Event::Signalled { signal, sender: Sender::Process }
}

fn exited(code: u8) -> Event {
    Event::JobEnded(JobEnd::Exited(code))
}

fn not_started(kind: SpawnErrorKind) -> Event {
    Event::SpawnFailed(SpawnError { command: "x".into(), kind, reason: "no".to_owned(), hint: None })
}

fn release(hold: u64, deadline: u64) -> Action {
    // A story finds in `closed` what the history is told.
    Action::Release { hold: ms(hold), closing: Closing::Unused, deadline: t(deadline) }
}

fn spawn() -> Action {
    Action::Spawn(Under::Lock { grant: GRANT, until: GRANT.until })
}

fn renew(deadline: u64) -> Action {
    Action::Renew { term: Term { lease: ms(100_000), limit: None }, deadline: t(deadline) }
}

fn renew_leased(deadline: u64) -> Action {
    Action::Renew { term: Term { lease: ms(30_000), limit: Some(t(100_000)) }, deadline: t(deadline) }
}

/// Returns the actions that begin the job's end.
fn first_signals() -> Vec<Action> {
    vec![Action::SignalTree(Signal::TERM), Action::SignalTree(Signal::CONT)]
}

fn exit(reason: ExitReason) -> Vec<Action> {
    vec![Action::Exit(reason)]
}

/// A run, and what it has told its user.
struct Story {
    run: Run,
    emitted: Vec<Notice>,
    closed: Vec<Closing>,
    /// What the metrics and the command of `--notify` were told.
    recorded: Vec<RunMetrics>,
    notified: Vec<Notification>,
    /// The deadlines of the looks for the lock's end.
    looks: Vec<Moment>,
}

impl Story {
    fn begun(policy: Policy) -> Self {
        let mut story = Self {
            run: Run::new(policy, "test:".to_owned(), t(0)),
            emitted: Vec::new(),
            closed: Vec::new(),
            looks: Vec::new(),
            recorded: Vec::new(),
            notified: Vec::new(),
        };
        story.on(0, Event::BackendReached);
        story.on(0, Event::Begin);
        story
    }

    /// Begins a run whose lock was granted at once, and whose job runs.
    fn running(policy: Policy) -> Self {
        let mut story = Self::begun(policy);
        let todo = story.on(0, granted(0));
        assert!(matches!(todo.last(), Some(Action::Spawn(Under::Lock { .. }))), "{todo:?}");
        assert_eq!(story.on(0, Event::Spawned), []);
        story
    }

    /// Begins a run whose job runs although the backend could not be asked.
    fn running_without(policy: Policy) -> Self {
        let mut story = Self::begun(Policy { on_backend_error: OnBackendError::Run, ..policy });
        assert_eq!(story.on(0, refused(0)), [Action::Spawn(Under::Nothing)]);
        story.on(0, Event::Spawned);
        story.emitted.clear();
        story
    }

    /// Feeds an event, and returns what is to be done, without reports and queries of the lock's end.
    fn on(&mut self, at: u64, event: Event) -> Vec<Action> {
        let mut todo = Vec::new();
        for action in self.run.on(event, t(at)) {
            match action {
                Action::Emit(notice) => self.emitted.push(notice),
                Action::RecordMetrics(metrics) => self.recorded.push(metrics),
                Action::Notify(notification) => self.notified.push(notification),
                Action::FinishMetrics => {}
                Action::QueryLock { deadline } => self.looks.push(deadline),
                Action::Release { hold, closing, deadline } => {
                    self.closed.push(closing);
                    todo.push(Action::Release { hold, closing: Closing::Unused, deadline });
                }
                action => todo.push(action),
            }
        }
        if todo.iter().any(|action| matches!(action, Action::Renew { .. })) {
            self.run.on(Event::Renewing(t(at)), t(at));
        }
        todo
    }

    fn tick(&mut self, at: u64) -> Vec<Action> {
        self.on(at, Event::Tick)
    }

    /// Returns when the next tick is due, rounded up. A query of the lock's end that is due before finds nothing new.
    fn due(&mut self) -> u64 {
        while self.would_query() {
            let at = self.next();
            assert_eq!(self.tick(at), [], "a look");
            self.on(at, seen(GRANT.until, 0, at));
        }
        self.next()
    }

    fn next(&self) -> u64 {
        let at = self.run.deadline().expect("a deadline");
        u64::try_from(at.since(t(0)).as_nanos().div_ceil(1_000_000)).unwrap()
    }

    /// Returns whether a query of the lock's end comes next.
    fn would_query(&self) -> bool {
        let Phase::Running(running) = &self.run.phase else { return false };
        running.query_at().is_some_and(|at| Some(at) == self.run.deadline())
    }

    fn emitted(&self, is: impl Fn(&Notice) -> bool) -> usize {
        self.emitted.iter().filter(|notice| is(notice)).count()
    }
}
