//! Stories of runs, told with made-up instants: each is a sentence of the manual.
//!
//! Unless a story says otherwise at-most is 100 s. Then its job gets the first signal after 87.95 s and SIGKILL after
//! 97.95 s.

use super::*;
use crate::backend::{Acquired, TroubleKind};
use crate::clock::Timestamp;
use crate::lock::{Closing, Grant, Record, Verdict};

const GRANT: Grant =
    Grant { locked_at: Timestamp(1_769_882_458_900), until: Timestamp(1_769_882_558_900), token: Some(7) };
const STOP_SIGNALS: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
/// The first signal, and SIGKILL, in milliseconds.
const STOP_AT: u64 = 87_950;
const KILL_AT: u64 = 97_950;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The moment `millis` after the run began.
fn t(millis: u64) -> Moment {
    Moment::at(ms(1_000_000 + millis))
}

fn policy() -> Policy {
    Policy::plain()
}

fn granted(sent: u64) -> Event {
    Event::Acquired { answer: Ok(Acquired::Granted(GRANT)), sent: t(sent), unclear: false }
}

fn held(left: u64, sent: u64) -> Event {
    let record = Record { owner: "other:1:2".to_owned(), since: None, until: None, left: ms(left) };
    Event::Acquired { answer: Ok(Acquired::Held(record)), sent: t(sent), unclear: false }
}

/// An answer was lost on the network, and the next try found that another holds the lock.
fn unclear_and_held(left: u64, sent: u64) -> Event {
    match held(left, sent) {
        Event::Acquired { answer, sent, .. } => Event::Acquired { answer, sent, unclear: true },
        other => other,
    }
}

fn refused(sent: u64) -> Event {
    Event::Acquired { answer: Err(Trouble::lasting("no such database")), sent: t(sent), unclear: false }
}

/// The server was full.
fn full(sent: u64) -> Event {
    Event::Acquired { answer: Err(Trouble::new(TroubleKind::Full, "too many clients")), sent: t(sent), unclear: false }
}

/// An answer was lost on the network, and the backend could not be asked again.
fn unclear(sent: u64) -> Event {
    Event::Acquired { answer: Err(Trouble::passing("connection reset").unclear()), sent: t(sent), unclear: true }
}

/// An answer was lost on the network, and then the server was full.
fn unclear_and_full(sent: u64) -> Event {
    Event::Acquired {
        answer: Err(Trouble::new(TroubleKind::Full, "too many clients").unclear()),
        sent: t(sent),
        unclear: true,
    }
}

fn acquire(deadline: u64, when_full: WhenFull) -> Action {
    Action::Acquire { deadline: t(deadline), when_full }
}

fn renewed(answer: Result<Kept, Trouble>, sent: u64) -> Event {
    Event::Renewed { answer, sent: t(sent) }
}

/// The lock is ours for `left` yet, and until then by the backend's clock.
fn seen(until: Timestamp, left: u64, sent: u64) -> Event {
    Event::Seen { answer: Ok(Sight::Ours { until: Some(until), left: ms(left) }), sent: t(sent) }
}

fn signalled(signal: Signal) -> Event {
    Event::Signalled { signal, sender: Sender::Process }
}

fn exited(code: u8) -> Event {
    Event::JobEnded(JobEnd::Exited(code))
}

fn not_started(kind: SpawnTroubleKind) -> Event {
    Event::SpawnFailed(SpawnTrouble { command: "x".into(), kind, reason: "no".to_owned(), hint: None })
}

fn release(hold: u64, deadline: u64) -> Action {
    // What the history is told, a story finds in `closed`.
    Action::Release { hold: ms(hold), closing: Closing::Unused, deadline: t(deadline) }
}

fn spawn() -> Action {
    Action::Spawn(Under::Lock { grant: GRANT, until: GRANT.until })
}

fn renew(deadline: u64) -> Action {
    Action::Renew { lease: ms(100_000), limit: None, deadline: t(deadline) }
}

/// The beginning of the job's end.
fn first_signals() -> Vec<Action> {
    vec![Action::SignalTree(Signal::TERM), Action::SignalTree(Signal::CONT)]
}

fn exit(outcome: Outcome) -> Vec<Action> {
    vec![Action::Exit(outcome)]
}

/// A run, and what it has told its user.
struct Story {
    run: Run,
    told: Vec<Notice>,
    closed: Vec<Closing>,
    /// The deadlines of the looks for the lock's end.
    looks: Vec<Moment>,
}

impl Story {
    fn begun(policy: Policy) -> Self {
        let mut story = Self { run: Run::new(policy, t(0)), told: Vec::new(), closed: Vec::new(), looks: Vec::new() };
        story.on(0, Event::Begin);
        story
    }

    /// The lock was granted at once, and the job runs.
    fn running(policy: Policy) -> Self {
        let mut story = Self::begun(policy);
        let todo = story.on(0, granted(0));
        assert!(matches!(todo.last(), Some(Action::Spawn(Under::Lock { .. }))), "{todo:?}");
        assert_eq!(story.on(0, Event::Spawned), []);
        story
    }

    /// The backend could not be asked, and the job runs all the same.
    fn running_without(policy: Policy) -> Self {
        let mut story = Self::begun(Policy { on_backend_error: OnBackendError::Run, ..policy });
        assert_eq!(story.on(0, refused(0)), [Action::Spawn(Under::Nothing)]);
        story.on(0, Event::Spawned);
        story.told.clear();
        story
    }

    /// Feeds an event, and returns what is to be done but for the telling and the looks.
    fn on(&mut self, at: u64, event: Event) -> Vec<Action> {
        let mut todo = Vec::new();
        for action in self.run.on(event, t(at)) {
            match action {
                Action::Tell(notice) => self.told.push(notice),
                Action::Look { deadline } => self.looks.push(deadline),
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

    /// When the next tick is due, rounded up. A look for the lock's end that is due before finds nothing new.
    fn due(&mut self) -> u64 {
        while self.would_look() {
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

    /// Whether a look for the lock's end comes next.
    fn would_look(&self) -> bool {
        let Phase::Running(running) = &self.run.phase else { return false };
        self.run.look_at(running).is_some_and(|at| Some(at) == self.run.deadline())
    }

    fn told(&self, is: impl Fn(&Notice) -> bool) -> usize {
        self.told.iter().filter(|notice| is(notice)).count()
    }
}

// Taking, running, releasing.

#[test]
fn the_job_runs_under_the_lock_which_is_then_released() {
    let mut story = Story { run: Run::new(policy(), t(0)), told: Vec::new(), closed: Vec::new(), looks: Vec::new() };
    assert_eq!(story.run.deadline(), None);
    assert_eq!(story.on(0, Event::Begin), [acquire(10_000, WhenFull::Retry)]);
    assert_eq!(story.on(5, granted(1)), [spawn()]);
    assert_eq!(story.on(6, Event::Spawned), []);
    assert_eq!(story.on(3_000, exited(0)), [release(0, 13_000)]);
    assert_eq!(story.on(3_005, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(0)));
    assert_eq!(story.run.deadline(), None);
    assert_eq!(story.tick(99_000), []);
}

#[test]
fn the_exit_code_is_the_jobs_own() {
    for (end, outcome) in
        [(JobEnd::Exited(7), Outcome::Exited(7)), (JobEnd::Killed(Signal::INT), Outcome::Killed(Signal::INT))]
    {
        let mut story = Story::running(policy());
        assert_eq!(story.on(1_000, Event::JobEnded(end)), [release(0, 11_000)]);
        assert_eq!(story.on(1_001, Event::Released(Ok(Kept::Kept))), exit(outcome));
    }
}

#[test]
fn after_a_normal_end_what_the_job_left_running_is_left_alone() {
    let mut story = Story::running(policy());
    assert_eq!(story.on(1_000, exited(0)), [release(0, 11_000)]);
    assert_eq!(story.on(1_001, Event::OrphanEnded(JobEnd::Exited(0))), []);
    assert_eq!(story.on(1_002, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(0)));
}

#[test]
fn a_held_lock_is_a_skip() {
    let mut story = Story::begun(policy());
    assert_eq!(story.on(5, held(60_000, 0)), exit(Outcome::Skipped));
    assert_eq!(story.told(|notice| matches!(notice, Notice::Held(_))), 1);
}

#[test]
fn at_least_counts_from_the_taking() {
    let mut story = Story::running(Policy { at_least: ms(30_000), ..policy() });
    assert_eq!(story.on(1_000, exited(0)), [release(30_000, 11_000)]);
}

#[test]
fn every_counts_from_the_firing_before_splay_and_wait() {
    let wait = Patience::UpTo(ms(300_000));
    let mut story = Story::begun(Policy { every: Some(Every(ms(3_600_000))), splay: ms(2_000), wait, ..policy() });
    story.tick(2_000);
    story.on(2_000, held(60_000, 2_000));
    let at = story.due();
    story.tick(at);
    // Fired at 18:00:38.9, taken 20 s later by the backend's clock: the next one gets in at 19:00:00.
    assert_eq!(story.on(20_010, granted(20_000)), [spawn()]);
    story.on(20_010, Event::Spawned);
    let until_19 = 3_600_000 - 58_900;
    assert_eq!(story.on(30_000, exited(0)), [release(until_19, 40_000)]);
}

// Handing over.

#[test]
fn a_lock_that_is_handed_over_stays_taken() {
    let mut story = Story::begun(policy());
    assert_eq!(story.on(5, granted(0)), [spawn()]);
    assert_eq!(story.on(5, Event::HandedOver), exit(Outcome::Exited(0)));
    assert_eq!(story.run.deadline(), None);
    assert!(story.closed.is_empty());
}

#[test]
fn a_lock_that_nobody_takes_over_goes_back_unused() {
    let mut story = Story::begun(Policy { at_least: ms(50_000), on_failure: OnFailure::Hold, ..policy() });
    story.on(5, granted(0));
    assert_eq!(story.on(6, Event::NotHandedOver("no".to_owned())), [release(0, 10_006)]);
    assert_eq!(story.closed, [Closing::GivenUp]);
    assert_eq!(story.told(|notice| matches!(notice, Notice::NotHandedOver(_))), 1);
    assert_eq!(story.on(7, Event::Released(Ok(Kept::Kept))), exit(Outcome::Failed));
}

#[test]
fn a_lock_that_came_too_late_is_not_handed_over() {
    let mut story = Story::begun(policy());
    assert_eq!(story.on(50_001, granted(0)), [release(0, 51_001)]);
    assert_eq!(story.on(50_002, Event::Released(Ok(Kept::Kept))), exit(Outcome::Failed));
}

// Splaying and waiting.

#[test]
fn splay_sleeps_before_anything_is_asked() {
    let mut story = Story {
        run: Run::new(Policy { splay: ms(5_000), ..policy() }, t(0)),
        told: Vec::new(),
        closed: Vec::new(),
        looks: Vec::new(),
    };
    assert_eq!(story.on(0, Event::Begin), []);
    assert_eq!(story.due(), 5_000);
    assert_eq!(story.tick(4_999), []);
    assert_eq!(story.tick(5_000), [acquire(15_000, WhenFull::Retry)]);
}

#[test]
fn a_waiter_gets_in_when_the_lock_is_free() {
    let mut story = Story::begun(Policy { wait: Patience::UpTo(ms(60_000)), ..policy() });
    assert_eq!(story.on(5, held(60_000, 0)), []);
    let again = story.due();
    assert_eq!(story.tick(again - 1), []);
    assert_eq!(story.tick(again), [acquire(again + 10_000, WhenFull::Answer)]);
    assert_eq!(story.on(again + 5, granted(again)), [spawn()]);
    story.on(again + 5, Event::Spawned);
    assert_eq!(story.due(), again + STOP_AT);
}

#[test]
fn a_waiter_gives_up_when_its_time_is_over() {
    let mut story = Story::begun(Policy { wait: Patience::UpTo(ms(3_000)), ..policy() });
    let mut now = 5;
    while story.on(now, held(60_000, now)).is_empty() {
        now = story.due();
        assert!(now <= 3_005, "{now}");
        story.tick(now);
    }
    assert_eq!(now, 3_005, "the last try is at the end of the wait");
    assert_eq!(story.told(|notice| matches!(notice, Notice::Held(_))), 1);
}

#[test]
fn a_waiter_tries_within_a_second_and_after_a_minute_within_five() {
    let mut story = Story::begun(Policy { wait: Patience::Forever, ..policy() });
    let (mut asked, mut now) = (0, 20);
    while now < 200_000 {
        assert_eq!(story.on(now, held(1_000_000, asked)), []);
        asked = story.due();
        let longest = if now < 60_020 { 1_000 } else { 5_000 };
        assert!(asked > now, "{asked} after {now}");
        assert_eq!(story.tick(asked), [acquire(asked + 10_000, WhenFull::Answer)]);
        // The server takes a while, and all of the time from try to answer counts.
        assert!(asked + 20 - now <= longest, "{asked} after {now}");
        now = asked + 20;
    }
}

#[test]
fn a_waiter_tries_as_soon_as_the_holders_time_is_up() {
    let mut story = Story::begun(Policy { wait: Patience::Forever, ..policy() });
    for now in [0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000] {
        story.on(now, held(10, now));
        let again = story.due();
        assert!((now + 5..=now + 40).contains(&again), "{again} after {now}");
        story.tick(again);
    }
}

#[test]
fn a_waiter_takes_full_for_no_error() {
    let mut story = Story::begun(Policy { wait: Patience::Forever, ..policy() });
    let mut now = 0;
    while now < 200_000 {
        assert_eq!(story.on(now + 5, full(now)), []);
        let asked = story.due();
        let longest = if now < 60_000 { 1_000 } else { 5_000 };
        assert!(asked > now + 100 && asked <= now + longest, "{asked} after {now}");
        assert_eq!(story.tick(asked), [acquire(asked + 10_000, WhenFull::Answer)]);
        now = asked;
    }
    assert_eq!(story.told(|notice| !matches!(notice, Notice::Full(_))), 0);
    assert_eq!(story.on(now + 5, granted(now)), [spawn()]);
}

#[test]
fn a_wait_for_a_lock_that_was_held_ends_as_for_a_held_lock_though_the_server_is_full() {
    let mut story = Story::begun(Policy { wait: Patience::UpTo(ms(3_000)), ..policy() });
    assert_eq!(story.on(0, full(0)), []);
    let mut now = story.due();
    story.tick(now);
    assert_eq!(story.on(now, held(60_000, now)), []);
    loop {
        now = story.due();
        story.tick(now);
        let todo = story.on(now, full(now));
        if !todo.is_empty() {
            assert_eq!(todo, exit(Outcome::Skipped));
            break;
        }
    }
    assert_eq!(now, 3_000);
    assert_eq!(story.told(|notice| matches!(notice, Notice::Held(_))), 1);
    assert_eq!(story.told(|notice| matches!(notice, Notice::Backend(..))), 0);
}

#[test]
fn a_server_that_was_full_all_the_time_is_an_error_after_the_wait_or_backend_timeout_if_that_is_longer() {
    for (wait, over) in [(3_000, 10_000), (30_000, 30_000)] {
        for (choice, outcome) in [(OnBackendError::Fail, Outcome::Failed), (OnBackendError::Skip, Outcome::Skipped)] {
            let wait = Patience::UpTo(ms(wait));
            let mut story = Story::begun(Policy { wait, on_backend_error: choice, ..policy() });
            let mut now = 0;
            let todo = loop {
                let todo = story.on(now, full(now));
                if !todo.is_empty() {
                    break todo;
                }
                now = story.due();
                story.tick(now);
            };
            assert_eq!((now, todo), (over, exit(outcome)));
            assert_eq!(story.told(|notice| matches!(notice, Notice::Backend(..))), 1);
        }
    }
}

#[test]
fn without_a_wait_full_is_trouble_that_has_been_tried_until_backend_timeout() {
    let mut story = Story::begun(policy());
    assert_eq!(story.on(10_000, full(9_990)), exit(Outcome::Failed));
    assert_eq!(story.told(|notice| matches!(notice, Notice::Backend(..))), 1);
}

#[test]
fn to_a_waiter_too_any_other_trouble_is_an_error() {
    for answer in [refused(0), Event::Acquired { answer: Err(Trouble::passing("down")), sent: t(0), unclear: false }] {
        let mut story = Story::begun(Policy { wait: Patience::Forever, ..policy() });
        assert_eq!(story.on(5, answer), exit(Outcome::Failed));
    }
}

// Stop signals before the job.

#[test]
fn a_stop_signal_while_sleeping_or_waiting_ends_us_with_128_plus_n() {
    for signal in STOP_SIGNALS.into_iter().chain([Signal::USR1, Signal::from_number(40)]) {
        let mut splaying = Story::begun(Policy { splay: ms(5_000), ..policy() });
        assert_eq!(splaying.on(100, signalled(signal)), exit(Outcome::Stopped(signal)));

        let mut waiting = Story::begun(Policy { wait: Patience::Forever, ..policy() });
        waiting.on(5, held(60_000, 0));
        assert_eq!(waiting.on(6, signalled(signal)), exit(Outcome::Stopped(signal)));
        assert_eq!(waiting.tick(99_000), [], "nothing is asked any more");
    }
}

#[test]
fn a_stop_signal_while_asking_gives_back_what_the_answer_brings() {
    for signal in STOP_SIGNALS {
        let mut story = Story::begun(policy());
        assert_eq!(story.on(100, signalled(signal)), [Action::StopTrying]);
        assert_eq!(story.on(200, granted(50)), [release(0, 1_100)]);
        assert_eq!(story.on(210, Event::Released(Ok(Kept::Kept))), exit(Outcome::Stopped(signal)));
    }
}

#[test]
fn a_stop_signal_that_comes_with_the_grant_keeps_the_job_from_being_started() {
    let mut story = Story::begun(policy());
    story.on(100, signalled(Signal::TERM));
    assert_eq!(story.on(100, granted(50)), [release(0, 1_100)]);
}

#[test]
fn a_stop_signal_while_asking_waits_for_the_answer_no_longer_than_a_second() {
    let mut story = Story::begun(policy());
    story.on(100, signalled(Signal::TERM));
    assert_eq!(story.due(), 1_100);
    assert_eq!(story.tick(1_099), []);
    assert_eq!(story.tick(1_100), exit(Outcome::Stopped(Signal::TERM)));

    let mut story = Story::begun(policy());
    story.on(100, signalled(Signal::TERM));
    story.on(1_000, granted(50));
    assert_eq!(story.due(), 1_100, "the giving back shares the second");
    assert_eq!(story.tick(1_100), exit(Outcome::Stopped(Signal::TERM)));
}

#[test]
fn a_stop_signal_while_asking_ends_us_when_there_is_nothing_to_give_back() {
    for answer in [held(60_000, 50), refused(50)] {
        let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
        story.on(100, signalled(Signal::INT));
        assert_eq!(story.on(200, answer), exit(Outcome::Stopped(Signal::INT)));
    }
}

#[test]
fn a_second_stop_signal_leaves_what_may_have_been_taken_its_second() {
    let mut story = Story::begun(policy());
    story.on(100, signalled(Signal::TERM));
    assert_eq!(story.on(101, signalled(Signal::HUP)), []);
    assert_eq!(story.due(), 1_100);
    assert_eq!(story.on(200, granted(50)), [release(0, 1_100)]);
    assert_eq!(story.on(201, Event::Released(Ok(Kept::Kept))), exit(Outcome::Stopped(Signal::TERM)));
}

#[test]
fn a_stop_signal_while_a_grant_that_came_too_late_goes_back_lets_it_go_back() {
    let policy = Policy { on_backend_error: OnBackendError::Run, backend_timeout: ms(90_000), ..policy() };
    let mut story = Story::begun(policy);
    assert_eq!(story.on(60_000, granted(0)), [release(0, 61_000)]);
    assert_eq!(story.on(60_100, signalled(Signal::TERM)), []);
    assert_eq!(story.due(), 61_000);
    assert_eq!(story.on(60_200, Event::Released(Ok(Kept::Kept))), exit(Outcome::Stopped(Signal::TERM)));
}

#[test]
fn a_stop_signal_does_not_change_how_we_end_once_that_is_decided() {
    let mut troubled = Story::begun(policy());
    troubled.tick(10_250);
    assert_eq!(troubled.on(10_300, signalled(Signal::TERM)), []);
    assert_eq!(troubled.on(10_400, granted(0)), [release(0, 11_250)]);
    assert_eq!(troubled.on(10_500, Event::Released(Ok(Kept::Kept))), exit(Outcome::Failed));

    let mut without = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
    without.tick(10_250);
    without.on(10_250, Event::Spawned);
    without.on(11_000, exited(4));
    assert_eq!(without.on(11_100, signalled(Signal::TERM)), []);
    assert_eq!(without.tick(12_000), exit(Outcome::Exited(4)));
}

#[test]
fn signals_that_do_not_terminate_change_nothing() {
    for signal in [Signal::WINCH, Signal::CONT] {
        let mut story = Story::begun(policy());
        assert_eq!(story.on(100, signalled(signal)), []);
        assert_eq!(story.on(200, granted(0)), [spawn()]);
    }
}

// Backend trouble before the job.

#[test]
fn backend_trouble_is_125_or_a_skip_or_a_run_without_a_lock() {
    for (choice, todo) in [
        (OnBackendError::Fail, Action::Exit(Outcome::Failed)),
        (OnBackendError::Skip, Action::Exit(Outcome::Skipped)),
        (OnBackendError::Run, Action::Spawn(Under::Nothing)),
    ] {
        let mut story = Story::begun(Policy { on_backend_error: choice, ..policy() });
        assert_eq!(story.on(5, refused(0)), [todo]);
        assert!(matches!(&story.told[..], [Notice::Backend(_, told, None)] if *told == choice));
    }
}

#[test]
fn a_run_without_a_lock_has_nothing_to_release() {
    let mut story = Story::running_without(policy());
    assert_eq!(story.on(1_000, exited(3)), exit(Outcome::Exited(3)));
}

#[test]
fn a_silent_backend_counts_as_trouble_after_backend_timeout() {
    for (choice, outcome) in [(OnBackendError::Fail, Outcome::Failed), (OnBackendError::Skip, Outcome::Skipped)] {
        let mut story = Story::begun(Policy { on_backend_error: choice, ..policy() });
        assert_eq!(story.due(), 10_250);
        assert_eq!(story.tick(10_249), []);
        assert_eq!(story.tick(10_250), [Action::StopTrying]);
        // The request may yet be executed, and what it takes goes back.
        assert_eq!(story.on(10_500, granted(10_000)), [release(0, 11_250)]);
        assert!(story.told.is_empty(), "what is left held is part of the line");
        assert_eq!(story.on(10_600, Event::Released(Ok(Kept::Kept))), exit(outcome));
        assert!(matches!(&story.told[..], [Notice::Released, Notice::Backend(_, told, None)] if *told == choice));
    }
    let mut story = Story::begun(policy());
    story.tick(10_250);
    assert_eq!(story.tick(11_250), exit(Outcome::Failed), "it gets a second");
    assert!(matches!(&story.told[..], [Notice::Backend(_, _, Some(_))]), "{:?}", story.told);
}

#[test]
fn a_late_grant_is_given_back_while_the_job_runs_without_a_lock() {
    let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
    assert_eq!(story.tick(10_250), [Action::Spawn(Under::Nothing)]);
    story.on(10_250, Event::Spawned);
    assert_eq!(story.on(12_000, granted(0)), [release(0, 22_000)]);
    assert_eq!(story.on(12_010, Event::Released(Ok(Kept::Kept))), []);
    assert_eq!(story.on(13_000, exited(0)), exit(Outcome::Exited(0)));
}

#[test]
fn the_end_of_a_job_without_a_lock_waits_a_second_for_a_late_grant_to_go_back() {
    let giving_back = || {
        let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
        story.tick(10_250);
        story.on(10_250, Event::Spawned);
        assert_eq!(story.on(12_000, granted(0)), [release(0, 22_000)]);
        story.told.clear();
        story
    };
    let mut story = giving_back();
    assert_eq!(story.on(12_100, exited(4)), []);
    assert_eq!(story.due(), 13_100);
    assert_eq!(story.on(12_200, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(4)));

    let mut story = giving_back();
    story.on(12_100, exited(4));
    assert_eq!(story.tick(13_100), exit(Outcome::Exited(4)));
    assert_eq!(story.told(|notice| matches!(notice, Notice::NotReleased(_))), 1);

    let mut story = giving_back();
    assert_eq!(story.on(12_100, Event::Released(Err(Trouble::passing("down")))), []);
    assert_eq!(
        story.told(|notice| matches!(notice, Notice::NotReleased(_))),
        1,
        "the lock stays held, and a line says so"
    );
    assert_eq!(story.on(13_000, exited(4)), exit(Outcome::Exited(4)));
}

#[test]
fn a_command_that_could_not_be_executed_frees_the_lock_also_if_that_took_long() {
    for (kind, outcome) in
        [(SpawnTroubleKind::NotFound, Outcome::NotFound), (SpawnTroubleKind::CannotExecute, Outcome::CannotExecute)]
    {
        let policy = Policy { at_least: ms(50_000), on_failure: OnFailure::Hold, ..policy() };
        let mut story = Story::running(policy);
        assert_eq!(story.on(20_000, not_started(kind)), [release(0, 30_000)]);
        assert_eq!(story.on(20_001, Event::Released(Ok(Kept::Kept))), exit(outcome));
        assert_eq!(story.told(|notice| matches!(notice, Notice::NotStarted(_))), 1);
        assert_eq!(story.told(|notice| matches!(notice, Notice::Ended(_))), 0);
    }
    // Why it was ended counts more.
    let mut story = Story::running(policy());
    story.tick(STOP_AT);
    story.on(STOP_AT + 10, not_started(SpawnTroubleKind::CannotExecute));
    story.on(STOP_AT + 11, Event::RestGone);
    assert_eq!(story.on(STOP_AT + 20, Event::Released(Ok(Kept::Kept))), exit(Outcome::Expired));
    assert_eq!(story.told(|notice| matches!(notice, Notice::NotStarted(_))), 0);
}

#[test]
fn it_is_no_news_that_a_lock_was_lost_under_which_no_job_ran() {
    let policy = || Policy { backend_timeout: ms(300_000), ..policy() };
    let mut late = Story::begun(policy());
    late.on(200_000, granted(0));
    assert_eq!(late.on(200_001, Event::Released(Ok(Kept::Lost))), exit(Outcome::Failed));
    assert!(matches!(&late.told[..], [Notice::Backend(..)]), "{:?}", late.told);

    let mut unstarted = Story::begun(policy());
    unstarted.on(1, granted(0));
    unstarted.on(2, not_started(SpawnTroubleKind::NotFound));
    unstarted.on(200_001, Event::Released(Ok(Kept::Lost)));
    assert!(matches!(&unstarted.told[..], [Notice::Granted(_), Notice::NotStarted(_)]), "{:?}", unstarted.told);
}

#[test]
fn the_end_of_a_job_without_a_lock_waits_a_second_for_a_grant_that_may_yet_come() {
    let without = || {
        let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
        story.tick(10_250);
        story.on(10_250, Event::Spawned);
        story
    };
    let mut story = without();
    assert_eq!(story.on(11_000, exited(4)), [Action::StopTrying]);
    assert_eq!(story.on(11_500, granted(0)), [release(0, 12_000)]);
    assert_eq!(story.on(11_600, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(4)));

    let mut story = without();
    story.on(11_000, exited(4));
    assert_eq!(story.tick(12_000), exit(Outcome::Exited(4)));

    let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
    story.tick(10_250);
    assert_eq!(story.on(10_250, not_started(SpawnTroubleKind::NotFound)), [Action::StopTrying]);
    assert_eq!(story.on(10_300, granted(0)), [release(0, 11_250)]);
    assert_eq!(story.on(10_310, Event::Released(Ok(Kept::Kept))), exit(Outcome::NotFound));
}

#[test]
fn an_answer_that_took_longer_than_half_of_at_most_is_given_back_and_counts_as_trouble() {
    for (choice, then) in [
        (OnBackendError::Fail, Action::Exit(Outcome::Failed)),
        (OnBackendError::Skip, Action::Exit(Outcome::Skipped)),
        (OnBackendError::Run, Action::Spawn(Under::Nothing)),
    ] {
        let policy = Policy { on_backend_error: choice, backend_timeout: ms(90_000), ..policy() };
        let mut story = Story::begun(policy.clone());
        assert_eq!(story.on(50_001, granted(0)), [release(0, 51_001)]);
        assert_eq!(story.on(50_100, Event::Released(Ok(Kept::Kept))), std::slice::from_ref(&then));
        let told = |notice: &Notice| matches!(notice, Notice::Backend(_, told, None) if *told == choice);
        assert_eq!((story.told(told), story.told.len()), (1, 2), "{:?}", story.told);

        let mut story = Story::begun(policy);
        story.on(50_001, granted(0));
        assert_eq!(story.tick(51_001), [then], "giving back gets a second");
    }
}

#[test]
fn that_a_lock_which_came_too_late_could_not_be_given_back_is_told_once() {
    let policy = Policy { on_backend_error: OnBackendError::Run, backend_timeout: ms(90_000), ..policy() };
    let mut story = Story::begun(policy);
    story.on(50_001, granted(0));
    assert_eq!(story.tick(51_001), [Action::Spawn(Under::Nothing)]);
    story.on(51_001, Event::Spawned);
    assert_eq!(story.on(51_100, Event::Released(Err(Trouble::passing("down")))), []);
    assert_eq!(story.told(|notice| matches!(notice, Notice::NotReleased(_))), 1);
    assert_eq!(story.on(52_000, exited(0)), exit(Outcome::Exited(0)));
}

#[test]
fn an_answer_that_took_half_of_at_most_is_good() {
    let mut story = Story::begun(Policy { backend_timeout: ms(90_000), ..policy() });
    assert_eq!(story.on(50_000, granted(0)), [spawn()]);
    story.on(50_000, Event::Spawned);
    assert_eq!(story.due(), STOP_AT, "time counts from before the request");
}

#[test]
fn an_answer_counts_from_the_try_that_brought_it() {
    let mut story = Story::begun(Policy { backend_timeout: ms(90_000), ..policy() });
    assert_eq!(story.on(80_000, granted(79_000)), [spawn()]);
    story.on(80_000, Event::Spawned);
    assert_eq!(story.due(), 79_000 + STOP_AT);
}

// Answers that were lost.

#[test]
fn what_an_unanswered_request_may_have_taken_is_given_back_before_we_end() {
    for (choice, outcome) in [(OnBackendError::Fail, Outcome::Failed), (OnBackendError::Skip, Outcome::Skipped)] {
        let begun = || Story::begun(Policy { on_backend_error: choice, ..policy() });
        for answer in [Ok(Kept::Kept), Ok(Kept::Lost), Err(Trouble::passing("down").unclear())] {
            let mut story = begun();
            assert_eq!(story.on(5_000, unclear(4_000)), [release(0, 6_000)]);
            assert_eq!(story.on(5_100, Event::Released(answer)), exit(outcome), "one release is enough");
        }
        let mut story = begun();
        story.on(5_000, unclear(4_000));
        assert_eq!(story.due(), 6_000);
        assert_eq!(story.on(5_500, signalled(Signal::TERM)), []);
        assert_eq!(story.tick(6_000), exit(outcome), "it gets a second");
    }
}

#[test]
fn that_it_could_not_be_given_back_is_part_of_the_complaint() {
    let told = |release: Option<Event>| {
        let mut story = Story::begun(policy());
        story.on(5_000, unclear(4_000));
        match release {
            Some(event) => story.on(5_100, event),
            None => story.tick(6_000),
        };
        story.told
    };
    for release in [Some(Event::Released(Err(Trouble::passing("down")))), None] {
        assert!(matches!(told(release)[..], [Notice::Backend(_, _, Some(_))]));
    }
    assert!(matches!(told(Some(Event::Released(Ok(Kept::Lost))))[..], [Notice::Backend(..)]));
}

#[test]
fn a_job_that_is_to_run_without_a_lock_does_not_wait_for_the_giving_back() {
    let without = || {
        let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
        assert_eq!(story.on(5_000, unclear(4_000)), [release(0, 15_000), Action::Spawn(Under::Nothing)]);
        story.on(5_000, Event::Spawned);
        story
    };
    let mut story = without();
    assert_eq!(story.on(5_100, Event::Released(Ok(Kept::Kept))), []);
    assert_eq!(story.on(6_000, exited(3)), exit(Outcome::Exited(3)));

    let mut story = without();
    assert_eq!(story.on(5_100, exited(3)), []);
    assert_eq!(story.tick(6_100), exit(Outcome::Exited(3)), "at the end it gets a second");
    assert_eq!(story.told(|notice| matches!(notice, Notice::NotReleased(_))), 0);
}

#[test]
fn an_answer_that_was_lost_after_we_gave_up_is_given_back_in_the_rest_of_the_second() {
    let mut stopped = Story::begun(policy());
    stopped.on(100, signalled(Signal::TERM));
    assert_eq!(stopped.on(200, unclear(50)), [release(0, 1_100)]);
    assert_eq!(stopped.due(), 1_100);
    assert_eq!(stopped.on(210, Event::Released(Ok(Kept::Kept))), exit(Outcome::Stopped(Signal::TERM)));

    let mut silent = Story::begun(policy());
    assert_eq!(silent.tick(10_250), [Action::StopTrying]);
    assert_eq!(silent.on(10_500, unclear(0)), [release(0, 11_250)]);
    assert_eq!(silent.tick(11_250), exit(Outcome::Failed));

    let mut without = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
    without.tick(10_250);
    without.on(10_250, Event::Spawned);
    assert_eq!(without.on(12_000, unclear(0)), [release(0, 22_000)]);
    assert_eq!(without.on(12_010, Event::Released(Ok(Kept::Lost))), []);
    assert_eq!(without.on(13_000, exited(0)), exit(Outcome::Exited(0)));
}

fn waiting_unclear() -> Story {
    let mut story = Story::begun(Policy { wait: Patience::UpTo(ms(20_000)), ..policy() });
    assert_eq!(story.on(5, unclear_and_full(0)), []);
    story
}

#[test]
fn a_waiter_forgets_no_answer_that_was_lost() {
    let mut stopped = waiting_unclear();
    assert_eq!(stopped.on(6, signalled(Signal::INT)), [release(0, 1_006)]);
    assert_eq!(stopped.on(7, Event::Released(Ok(Kept::Kept))), exit(Outcome::Stopped(Signal::INT)));

    let mut asking = waiting_unclear();
    let now = asking.due();
    asking.tick(now);
    assert_eq!(asking.on(now, signalled(Signal::INT)), [Action::StopTrying]);
    assert_eq!(asking.on(now, full(now)), [release(0, now + 1_000)]);

    let mut failed = waiting_unclear();
    let now = failed.due();
    failed.tick(now);
    assert_eq!(failed.on(now, refused(now)), [release(0, now + 1_000)]);

    let mut skipped = Story::begun(Policy { wait: Patience::UpTo(ms(20_000)), ..policy() });
    skipped.on(0, held(60_000, 0));
    let mut todo = Vec::new();
    while todo.is_empty() {
        let now = skipped.due();
        skipped.tick(now);
        todo = skipped.on(now, unclear_and_full(now));
    }
    assert_eq!(todo, [release(0, 21_000)]);
    assert_eq!(skipped.on(20_100, Event::Released(Ok(Kept::Lost))), exit(Outcome::Skipped));
}

#[test]
fn a_job_without_a_lock_waits_for_the_request_in_flight_before_an_earlier_one_is_given_back() {
    let mut story = waiting_unclear();
    story.run.policy.on_backend_error = OnBackendError::Run;
    let now = story.due();
    story.tick(now);
    let silent = now + 10_250;
    assert_eq!(story.tick(silent), [Action::Spawn(Under::Nothing)]);
    story.on(silent, Event::Spawned);
    assert_eq!(story.on(silent + 1, full(now)), [release(0, silent + 10_001)]);
    assert_eq!(story.on(silent + 2, exited(0)), []);
    assert_eq!(story.on(silent + 3, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(0)));
}

#[test]
fn a_later_grant_clears_up_what_became_of_a_request() {
    let mut ours = waiting_unclear();
    let now = ours.due();
    ours.tick(now);
    assert_eq!(ours.on(now, granted(now)), [spawn()]);
    ours.on(now, Event::Spawned);
    assert_eq!(ours.on(now + 50, exited(0)), [release(0, now + 10_050)]);
    assert_eq!(ours.on(now + 60, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(0)));
}

/// The network may yet deliver it, when the other has given the lock back.
#[test]
fn that_another_holds_the_lock_does_not_clear_up_what_became_of_a_request() {
    for answer in [Ok(Kept::Lost), Ok(Kept::Kept)] {
        let mut skipped = Story::begun(policy());
        assert_eq!(skipped.on(50, unclear_and_held(60_000, 40)), [release(0, 1_050)]);
        assert_eq!(skipped.on(60, Event::Released(answer)), exit(Outcome::Skipped));
        assert_eq!(skipped.told(|notice| matches!(notice, Notice::NotGivenBack(..))), 0);
    }

    let mut stopped = waiting_unclear();
    let now = stopped.due();
    stopped.tick(now);
    assert_eq!(stopped.on(now, held(60_000, now)), [], "while it waits nothing is void");
    assert_eq!(stopped.on(now, signalled(Signal::INT)), [release(0, now + 1_000)]);
    assert_eq!(stopped.on(now + 1, Event::Released(Ok(Kept::Lost))), exit(Outcome::Stopped(Signal::INT)));

    let mut ours = waiting_unclear();
    let now = ours.due();
    ours.tick(now);
    ours.on(now, unclear_and_held(100, now));
    let now = ours.due();
    ours.tick(now);
    assert_eq!(ours.on(now, granted(now)), [spawn()]);

    let mut giving_back = Story::begun(policy());
    giving_back.on(100, signalled(Signal::TERM));
    assert_eq!(giving_back.on(200, unclear_and_held(60_000, 150)), [release(0, 1_100)]);
}

#[test]
fn a_nested_run_gives_back_beside_its_job_what_may_have_been_taken() {
    let record = Record { owner: "web1:1:outer".to_owned(), since: None, until: None, left: ms(60_000) };
    let mut story = Story::begun(Policy { enclosing: vec![record.owner.clone()], ..policy() });
    let answer = Event::Acquired { answer: Ok(Acquired::Held(record.clone())), sent: t(0), unclear: true };
    assert_eq!(story.on(5, answer), [release(0, 10_005), Action::Spawn(Under::Enclosing(record))]);
    story.on(5, Event::Spawned);
    assert_eq!(story.on(10, Event::Released(Ok(Kept::Lost))), []);
    assert_eq!(story.on(50, exited(0)), exit(Outcome::Exited(0)));
}

#[test]
fn a_run_that_leaves_a_lock_held_perhaps_says_so_in_one_line() {
    let doubtful = |notice: &Notice| matches!(notice, Notice::NotGivenBack(_, held) if *held == ms(100_000));
    // No answer to the giving back, trouble, and an answer that left no mark.
    for unmarked in [false, true] {
        for answer in [None, Some(Err(Trouble::passing("down"))), Some(Ok(Kept::Lost)), Some(Ok(Kept::Kept))] {
            let told = !matches!(answer, Some(Ok(_))) || unmarked && answer != Some(Ok(Kept::Kept));
            let mut story = Story::begun(policy());
            story.on(50, unclear_and_held(60_000, 40));
            if unmarked {
                story.on(60, Event::Unclosed(Trouble::lasting("no history")));
            }
            let todo = match answer {
                Some(answer) => story.on(60, Event::Released(answer)),
                None => story.tick(1_050),
            };
            assert_eq!((todo, story.told(doubtful)), (exit(Outcome::Skipped), usize::from(told)));
        }
    }
    let mut stopped = Story::begun(policy());
    stopped.on(100, signalled(Signal::TERM));
    stopped.tick(1_100);
    assert_eq!(stopped.told(doubtful), 1);
}

// The start of the job.

#[test]
fn a_command_that_could_not_be_started_frees_the_lock_at_once() {
    for (kind, outcome) in [
        (SpawnTroubleKind::NotFound, Outcome::NotFound),
        (SpawnTroubleKind::CannotExecute, Outcome::CannotExecute),
        (SpawnTroubleKind::NoProcess, Outcome::Failed),
    ] {
        let policy =
            Policy { at_least: ms(60_000), every: Some(Every(ms(3_600_000))), on_failure: OnFailure::Hold, ..policy() };
        let mut story = Story::begun(policy);
        story.on(5, granted(0));
        assert_eq!(story.on(6, not_started(kind)), [release(0, 10_006)]);
        assert_eq!(story.on(7, Event::Released(Ok(Kept::Kept))), exit(outcome));

        let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..self::policy() });
        story.on(5, refused(0));
        assert_eq!(story.on(6, not_started(kind)), exit(outcome));
    }
}

// Expiry.

#[test]
fn at_expiry_the_job_is_signalled_kill_after_and_a_margin_before_the_end_and_killed_the_margin_before() {
    let mut story = Story::running(policy());
    assert_eq!(story.due(), STOP_AT);
    assert_eq!(story.tick(STOP_AT - 1), []);
    assert_eq!(story.tick(STOP_AT), first_signals());
    assert_eq!(story.told(|notice| matches!(notice, Notice::Expired(..))), 1);
    assert_eq!(story.due(), KILL_AT);
    assert_eq!(story.tick(KILL_AT - 1), []);
    for again in [KILL_AT, KILL_AT + 50, KILL_AT + 150] {
        assert_eq!(story.due(), again, "SIGKILL is repeated: the job may be forking");
        assert_eq!(story.tick(again), [Action::KillTree]);
    }
    assert_eq!(story.on(98_160, Event::JobEnded(JobEnd::Killed(Signal::KILL))), [Action::LookForRest(Rest::Tree)]);
    assert_eq!(story.on(98_160, Event::RestGone), [release(0, 108_160)]);
    assert_eq!(story.on(98_170, Event::Released(Ok(Kept::Kept))), exit(Outcome::Expired));
}

#[test]
fn kill_after_is_at_most_a_fifth_of_at_most() {
    let mut story = Story::running(Policy { kill_after: ms(3_600_000), ..policy() });
    assert_eq!(story.due(), KILL_AT - 20_000);
    story.tick(KILL_AT - 20_000);
    assert_eq!(story.due(), KILL_AT);
}

#[test]
fn the_first_signal_can_be_chosen() {
    let mut story = Story::running(Policy { signal: Signal::INT, ..policy() });
    assert_eq!(story.tick(STOP_AT), [Action::SignalTree(Signal::INT), Action::SignalTree(Signal::CONT)]);
    let mut story = Story::running(Policy { signal: Signal::KILL, ..policy() });
    assert_eq!(story.tick(STOP_AT), [Action::SignalTree(Signal::KILL)]);
}

#[test]
fn a_job_that_ends_on_the_first_signal_was_stopped_all_the_same() {
    let mut story = Story::running(policy());
    story.tick(STOP_AT);
    assert_eq!(story.on(88_000, exited(0)), [Action::LookForRest(Rest::Tree)]);
    assert_eq!(story.on(88_000, Event::RestGone), [release(0, 98_000)]);
    assert_eq!(story.on(88_001, Event::Released(Ok(Kept::Kept))), exit(Outcome::Expired));
}

#[test]
fn the_lock_is_not_released_before_all_that_the_job_left_is_dead() {
    let mut story = Story::running(policy());
    story.tick(STOP_AT);
    assert_eq!(story.on(88_000, exited(0)), [Action::LookForRest(Rest::Tree)]);
    // A daemon is left; another one dies, and it is not all.
    assert_eq!(story.on(88_100, Event::OrphanEnded(JobEnd::Exited(0))), [Action::LookForRest(Rest::Tree)]);
    assert_eq!(story.tick(KILL_AT), [Action::KillTree]);
    assert_eq!(story.on(97_960, Event::OrphanEnded(JobEnd::Exited(0))), [Action::LookForRest(Rest::Tree)]);
    assert_eq!(story.on(97_960, Event::RestGone), [release(0, 107_960)]);
}

#[test]
fn nothing_is_over_before_the_command_itself_was_reaped() {
    let mut story = Story::running(policy());
    story.tick(STOP_AT);
    assert_eq!(story.on(88_000, Event::OrphanEnded(JobEnd::Exited(0))), []);
    assert_eq!(story.on(88_000, Event::RestGone), []);
    assert_eq!(story.on(88_001, exited(0)), [Action::LookForRest(Rest::Tree)]);
}

#[test]
fn after_a_stall_past_the_end_the_job_is_killed_at_once() {
    let mut story = Story::running(policy());
    assert_eq!(story.tick(500_000), [Action::KillTree], "a first signal would only give it time");
    assert_eq!(story.told(|notice| matches!(notice, Notice::Undead)), 0, "SIGKILL has hardly been sent");
}

#[test]
fn a_job_without_a_lock_is_stopped_at_at_most_too() {
    let mut story = Story::running_without(policy());
    assert_eq!(story.due(), STOP_AT);
    assert_eq!(story.tick(STOP_AT), first_signals());
    assert_eq!(story.tick(KILL_AT), [Action::KillTree]);
    story.on(97_960, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(story.on(97_960, Event::RestGone), exit(Outcome::Expired));
}

#[test]
fn a_job_that_ends_in_time_was_not_stopped() {
    let mut story = Story::running(policy());
    assert_eq!(story.on(STOP_AT, exited(0)), [release(0, STOP_AT + 10_000)]);
    assert_eq!(story.on(STOP_AT + 1, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(0)));
}

#[test]
fn on_expiry_ignore_warns_once_and_lets_the_lock_go() {
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Ignore, at_least: ms(60_000), ..policy() });
    assert_eq!(story.due(), 100_000);
    assert_eq!(story.tick(100_000), []);
    assert_eq!(story.told(|notice| matches!(notice, Notice::RunsOn(..))), 1);
    assert_eq!(story.run.deadline(), None);
    assert_eq!(story.tick(200_000), []);
    assert_eq!(
        story.on(300_000, exited(0)),
        [release(60_000, 310_000)],
        "for the record, since the lock may be another's"
    );
    assert_eq!(story.on(300_001, Event::Released(Ok(Kept::Lost))), exit(Outcome::Exited(0)));
    assert_eq!(story.told(|notice| matches!(notice, Notice::LostUnnoticed(_))), 0, "that is known");
    assert_eq!(story.told(|notice| matches!(notice, Notice::RunsOn(..))), 1);
}

#[test]
fn a_lock_whose_time_ran_out_is_told_from_one_that_another_took() {
    for (answered, kind) in [(99_990, NoticeKind::Gone), (100_000, NoticeKind::Late)] {
        let mut story = Story::running(policy());
        story.on(60_000, exited(0));
        story.on(answered, Event::Released(Ok(Kept::Lost)));
        assert_eq!(story.told(|notice| *notice == Notice::LostUnnoticed(kind.clone())), 1, "{kind:?}");
        let mut story = Story::running(extend());
        story.tick(66_667);
        story.on(answered, renewed(Ok(Kept::Lost), 66_670));
        assert_eq!(story.told(|notice| matches!(notice, Notice::Lost(told, _) if *told == kind)), 1, "{kind:?}");
    }
}

#[test]
fn on_expiry_ignore_releases_what_is_still_ours() {
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Ignore, ..policy() });
    assert_eq!(story.on(99_999, exited(0)), [release(0, 109_999)]);
}

// Extension.

fn extend() -> Policy {
    Policy { on_expiry: OnExpiry::Extend, ..policy() }
}

#[test]
fn on_expiry_extend_renews_for_as_long_as_the_job_lives() {
    let mut story = Story::running(extend());
    assert_eq!(story.due(), 33_334);
    assert_eq!(story.tick(33_334), [renew(STOP_AT)]);
    assert_eq!(story.due(), STOP_AT);
    assert_eq!(story.on(33_400, renewed(Ok(Kept::Kept), 33_340)), []);
    assert_eq!(story.due(), 33_340 + 33_334);
    assert_eq!(story.tick(66_674), [renew(33_340 + STOP_AT)]);
    story.on(66_700, renewed(Ok(Kept::Kept), 66_680));
    assert_eq!(story.on(99_000, exited(0)), [release(0, 109_000)]);
    assert_eq!(story.on(190_001, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(0)));
}

#[test]
fn a_renewal_never_shortens() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    // An answer to a request from before the taking cannot come, but the end would stay where it is.
    story.on(66_700, Event::Renewed { answer: Ok(Kept::Kept), sent: t(0) - ms(50_000) });
    story.tick(66_701);
    assert_eq!(story.due(), STOP_AT);
}

#[test]
fn a_lock_that_was_lost_ends_the_job_with_123() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    assert_eq!(story.on(66_700, renewed(Ok(Kept::Lost), 66_670)), first_signals());
    assert_eq!(story.told(|notice| matches!(notice, Notice::Lost(NoticeKind::Gone, _))), 1);
    assert_eq!(story.due(), 76_700, "SIGKILL follows after kill-after");
    assert_eq!(story.tick(76_700), [Action::KillTree]);
    assert_eq!(story.on(76_710, Event::JobEnded(JobEnd::Killed(Signal::KILL))), [Action::LookForRest(Rest::Tree)]);
    assert_eq!(story.on(76_710, Event::RestGone), [release(0, 86_710)], "for the record");
    assert_eq!(story.closed, [Closing::Ended { verdict: Verdict::Lost, exit_code: Some(123) }]);
    assert_eq!(story.on(76_711, Event::Released(Ok(Kept::Lost))), exit(Outcome::Lost));
}

#[test]
fn a_job_whose_lock_was_lost_is_killed_before_the_lease_would_have_ended() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    // After a stall, the answer is seen first.
    assert_eq!(story.on(95_000, renewed(Ok(Kept::Lost), 66_670)), first_signals());
    assert_eq!(story.due(), KILL_AT);
}

#[test]
fn with_on_lost_ignore_the_job_runs_on() {
    let mut story = Story::running(Policy { on_lost: OnLost::Ignore, ..extend() });
    story.tick(66_667);
    assert_eq!(story.on(66_700, renewed(Ok(Kept::Lost), 66_670)), []);
    assert_eq!(story.run.deadline(), None);
    assert_eq!(story.tick(200_000), []);
    assert_eq!(story.on(300_000, exited(0)), [release(0, 310_000)], "for the record");
    assert_eq!(story.on(300_001, Event::Released(Ok(Kept::Lost))), exit(Outcome::Exited(0)));
}

#[test]
fn a_renewal_that_failed_is_tried_again() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    assert_eq!(story.on(67_000, renewed(Err(Trouble::lasting("no right")), 66_670)), []);
    let again = story.due();
    assert!((67_050..STOP_AT).contains(&again), "{again}");
    assert_eq!(story.tick(again), [renew(STOP_AT)]);
    story.on(again + 10, renewed(Ok(Kept::Kept), again));
    assert_eq!(story.due(), again + 33_334);
}

#[test]
fn a_lock_that_could_not_be_renewed_in_time_ends_the_job_before_the_lease_ends() {
    for answers in [false, true] {
        let mut story = Story::running(extend());
        story.tick(33_334);
        if answers {
            story.on(STOP_AT - 1, renewed(Err(Trouble::passing("down")), 33_340));
        }
        assert_eq!(story.due(), STOP_AT);
        assert_eq!(story.tick(STOP_AT), first_signals());
        assert_eq!(story.told(|notice| matches!(notice, Notice::Lost(NoticeKind::NotRenewed(_), _))), 1);
        assert_eq!(story.due(), KILL_AT);
        assert_eq!(story.tick(KILL_AT), [Action::KillTree]);
        story.on(97_960, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
        assert_eq!(story.on(97_960, Event::RestGone), [release(0, 107_960)], "for all we know it is still ours");
        assert_eq!(story.on(97_970, Event::Released(Ok(Kept::Kept))), exit(Outcome::Lost));
    }
}

#[test]
fn that_the_lock_is_not_renewed_yet_is_told_once() {
    let mut story = Story::running(extend());
    for (now, told) in [(66_667, 1), (70_000, 1), (75_000, 1)] {
        story.tick(now);
        story.on(now, renewed(Err(Trouble::passing("down")), now));
        assert_eq!(story.told(|notice| matches!(notice, Notice::NotRenewed(_))), told);
    }
    story.tick(80_000);
    story.on(80_000, renewed(Ok(Kept::Kept), 80_000));
    story.tick(150_000);
    story.on(150_000, renewed(Err(Trouble::passing("down")), 150_000));
    assert_eq!(story.told(|notice| matches!(notice, Notice::NotRenewed(_))), 2);
}

#[test]
fn the_release_does_not_wait_for_a_renewal_that_is_tried_again_and_again() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    assert_eq!(story.on(67_000, exited(0)), [Action::StopTrying, release(0, 77_000)]);
    assert_eq!(story.on(67_001, renewed(Err(Trouble::passing("down")), 66_670)), []);
    assert_eq!(story.on(67_002, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(0)));
}

#[test]
fn a_job_without_a_lock_has_nothing_to_extend() {
    let mut story = Story::running_without(extend());
    assert_eq!(story.run.deadline(), None);
    assert_eq!(story.tick(1_000_000), []);
    assert_eq!(story.on(1_000_001, exited(0)), exit(Outcome::Exited(0)));
}

// What SIGKILL cannot end.

#[test]
fn what_sigkill_cannot_end_keeps_the_lock() {
    let mut story = Story::running(policy());
    let mut end = 100_000;
    for _ in 0..3 {
        let sent = loop {
            let now = story.due();
            assert!(now < end, "the lease ended at {end}");
            if story.tick(now).contains(&renew(now + 10_000)) {
                break now;
            }
        };
        story.on(sent + 5, renewed(Ok(Kept::Kept), sent));
        end = sent + 100_000;
    }
    assert_eq!(story.told(|notice| matches!(notice, Notice::Undead)), 1);
    story.on(end - 50_000, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(story.on(end - 50_000, Event::RestGone), [release(0, end - 40_000)]);
    assert_eq!(story.on(end - 49_990, Event::Released(Ok(Kept::Kept))), exit(Outcome::Expired));
}

#[test]
fn what_sigkill_cannot_end_keeps_the_shortest_lock_too() {
    let mut run = Story::running(Policy { at_most: ms(1_000), ..policy() }).run;
    let mut end = t(1_000);
    for _ in 0..3 {
        let sent = loop {
            let now = run.deadline().expect("there is always more to do");
            assert!(now + ms(30) < end, "{now:?} is too late to renew what ends at {end:?}");
            if run.on(Event::Tick, now).iter().any(|action| matches!(action, Action::Renew { .. })) {
                break now;
            }
        };
        run.on(Event::Renewed { answer: Ok(Kept::Kept), sent }, sent + ms(5));
        end = sent + ms(1_000);
    }
}

#[test]
fn what_sigkill_cannot_end_is_told_once_whatever_the_backend_says() {
    let mut story = Story::running(policy());
    let mut requests = 0;
    let mut now = STOP_AT;
    while now < 110_000 {
        now = story.due();
        if story.tick(now).iter().any(|action| matches!(action, Action::Renew { .. })) {
            requests += 1;
            story.on(now, renewed(Err(Trouble::lasting("no right")), now));
        }
    }
    assert!((2..30).contains(&requests), "{requests}");
    assert_eq!(story.told(|notice| matches!(notice, Notice::Undead)), 1);
    assert_eq!(story.told(|notice| matches!(notice, Notice::NotRenewed(_))), 1);
}

#[test]
fn that_the_lock_was_lost_is_told_once() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    story.tick(STOP_AT);
    story.tick(KILL_AT);
    let now = story.due().max(99_000);
    assert!(story.tick(now).contains(&renew(now + 10_000)), "it could not be renewed, and cannot be killed");
    story.on(now + 1, renewed(Ok(Kept::Lost), now));
    assert_eq!(story.told(|notice| matches!(notice, Notice::Lost(..))), 1);
    story.on(now + 2, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(story.on(now + 2, Event::RestGone), [release(0, now + 10_002)]);
    assert_eq!(story.on(now + 3, Event::Released(Err(Trouble::passing("down")))), exit(Outcome::Lost));
    assert_eq!(story.told(|notice| matches!(notice, Notice::NotReleased(_))), 0, "there was nothing to release");
}

#[test]
fn a_late_answer_to_a_renewal_counts() {
    // It could not be renewed in time, and the answer comes when the job is being ended already.
    let mut gone = Story::running(extend());
    gone.tick(66_667);
    gone.tick(STOP_AT);
    gone.on(90_000, renewed(Ok(Kept::Lost), 66_670));
    gone.on(90_001, exited(0));
    assert_eq!(gone.on(90_001, Event::RestGone), [release(0, 100_001)]);
    gone.on(90_002, Event::Released(Ok(Kept::Lost)));
    assert_eq!(gone.told(|notice| matches!(notice, Notice::LostUnnoticed(_))), 0, "there was nothing to release");

    let mut kept = Story::running(extend());
    kept.tick(66_667);
    kept.tick(STOP_AT);
    kept.on(90_000, renewed(Ok(Kept::Kept), 66_670));
    for now in [KILL_AT, 98_500, 99_500] {
        assert_eq!(kept.tick(now), [Action::KillTree], "there is no hurry to renew it again");
    }

    let mut refused = Story::running(extend());
    refused.tick(66_667);
    refused.tick(STOP_AT);
    refused.on(STOP_AT + 1, renewed(Err(Trouble::passing("down")), 66_670));
    assert_eq!(refused.tick(KILL_AT), [Action::KillTree]);
    assert_eq!(refused.tick(98_500), [Action::KillTree], "SIGKILL has its time");
    assert!(refused.tick(99_500).contains(&renew(109_500)));
}

#[test]
fn what_sigkill_cannot_end_does_not_get_back_a_lock_that_was_let_go() {
    let mut story = Story::running(Policy { stop_timeout: Some(ms(5_000)), on_expiry: OnExpiry::Ignore, ..policy() });
    story.tick(100_000);
    story.on(150_000, signalled(Signal::TERM));
    for now in [155_000, 155_050, 155_150, 155_350] {
        assert_eq!(story.tick(now), [Action::KillTree]);
    }
    assert_eq!(story.told(|notice| matches!(notice, Notice::Undead)), 0);
    story.on(155_360, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(story.on(155_360, Event::RestGone), [release(0, 165_360)], "for the record");
}

// At-most is extended.

/// When the lock's end is asked for.
const LOOK_AT: u64 = STOP_AT - 2_000;

/// So long after the grant, by the backend's clock.
fn until(millis: u64) -> Timestamp {
    GRANT.locked_at + ms(millis)
}

#[test]
fn shortly_before_the_job_is_stopped_the_locks_end_is_asked_for_once() {
    let mut story = Story::running(policy());
    assert_eq!(story.next(), LOOK_AT);
    assert_eq!((story.tick(LOOK_AT - 1), story.looks.len()), (vec![], 0));
    assert_eq!((story.tick(LOOK_AT), &story.looks[..]), (vec![], &[t(STOP_AT)][..]));
    assert_eq!(story.next(), STOP_AT);
    assert_eq!(story.on(LOOK_AT + 9, seen(until(100_000), 14_000, LOOK_AT + 1)), []);
    assert_eq!(story.next(), STOP_AT);
    assert_eq!(story.tick(STOP_AT), first_signals());
    assert_eq!((story.looks.len(), story.told(|notice| matches!(notice, Notice::Extended(_)))), (1, 0));
}

#[test]
fn a_job_whose_lock_was_extended_lives_on_and_the_new_end_is_asked_for_too() {
    let mut story = Story::running(policy());
    story.tick(LOOK_AT);
    assert_eq!(story.on(86_000, seen(until(180_000), 94_100, 85_960)), []);
    assert_eq!(story.told, [Notice::Granted(GRANT), Notice::Extended(until(180_000))]);
    // From before the request that showed it.
    let end = 85_960 + 94_100;
    assert_eq!(story.next(), end - 100_000 + LOOK_AT);
    assert_eq!(story.tick(STOP_AT), []);
    assert_eq!(story.tick(end - 100_000 + LOOK_AT), []);
    assert_eq!(story.looks, [t(STOP_AT), t(end - 100_000 + STOP_AT)]);
    story.on(166_010, seen(until(180_000), 14_000, 166_000));
    assert_eq!(story.tick(end - 100_000 + STOP_AT), first_signals());
    assert_eq!(story.tick(end - 100_000 + KILL_AT), [Action::KillTree]);
}

#[test]
fn an_extension_that_is_longer_than_at_most_leaves_room_for_what_the_clocks_differ_by() {
    let mut story = Story::running(policy());
    story.tick(LOOK_AT);
    story.on(86_000, seen(until(20_185_960), 20_100_000, 85_960));
    // 500 ppm of what is beyond at-most.
    assert_eq!(story.next(), 85_960 + 20_100_000 - 10_000 - 100_000 + LOOK_AT);
}

#[test]
fn an_end_that_is_hardly_later_was_not_extended() {
    for (later, extended) in [(999, 0), (1_000, 1)] {
        let mut story = Story::running(policy());
        story.tick(LOOK_AT);
        story.on(86_000, seen(until(100_000 + later), 100_000 + later - 85_960, 85_960));
        assert_eq!(story.told(|notice| matches!(notice, Notice::Extended(_))), extended, "{later}");
    }
    // Our clock is fast: in a day it may gain more than that.
    let mut story = Story::running(policy());
    story.tick(LOOK_AT);
    story.on(86_000, seen(until(100_000), 18_000, 85_960));
    assert_eq!(story.told(|notice| matches!(notice, Notice::Extended(_))), 0);
}

#[test]
fn a_backend_that_cannot_be_asked_for_the_end_keeps_nobody_from_stopping_the_job() {
    let mut story = Story::running(policy());
    story.tick(LOOK_AT);
    // It is asked again while there is time.
    story.on(LOOK_AT + 10, Event::Seen { answer: Err(Trouble::lasting("down")), sent: t(LOOK_AT) });
    assert_eq!(story.next(), LOOK_AT + 510);
    assert_eq!((story.tick(LOOK_AT + 510), story.looks.len()), (vec![], 2));
    assert_eq!(story.next(), STOP_AT);
    assert_eq!(story.tick(STOP_AT), first_signals());
    // What is learnt now comes too late.
    assert_eq!(story.on(STOP_AT + 1, seen(until(200_000), 112_000, LOOK_AT + 510)), []);
    assert_eq!(story.told(|notice| matches!(notice, Notice::Extended(_))), 0);
    assert_eq!(story.next(), KILL_AT);
    assert_eq!(story.on(STOP_AT + 2, exited(0)), [Action::LookForRest(Rest::Tree)]);
    assert_eq!(story.on(STOP_AT + 2, Event::RestGone), [release(0, STOP_AT + 10_002)]);
}

#[test]
fn a_look_that_is_under_way_when_the_job_ends_is_not_tried_again() {
    let mut story = Story::running(policy());
    story.tick(LOOK_AT);
    assert_eq!(story.on(LOOK_AT + 1, exited(0)), [Action::StopTrying, release(0, LOOK_AT + 10_001)]);
    assert_eq!(story.on(LOOK_AT + 2, seen(until(200_000), 114_000, LOOK_AT)), []);
    assert_eq!(story.on(LOOK_AT + 3, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(0)));
}

#[test]
fn a_job_whose_lock_is_seen_to_be_lost_is_stopped() {
    let mut story = Story::running(policy());
    story.tick(LOOK_AT);
    let gone = || Event::Seen { answer: Ok(Sight::Gone), sent: t(LOOK_AT) };
    assert_eq!(story.on(LOOK_AT + 10, gone()), first_signals());
    assert_eq!(story.told(|notice| matches!(notice, Notice::Lost(NoticeKind::Gone, OnLost::Kill))), 1);
    story.on(LOOK_AT + 20, exited(0));
    story.on(LOOK_AT + 20, Event::RestGone);
    assert_eq!(story.on(LOOK_AT + 30, Event::Released(Ok(Kept::Lost))), exit(Outcome::Lost));

    let mut ignored = Story::running(Policy { on_lost: OnLost::Ignore, ..policy() });
    ignored.tick(LOOK_AT);
    assert_eq!(ignored.on(LOOK_AT + 10, gone()), []);
    assert_eq!(ignored.tick(STOP_AT), first_signals());

    // After a standstill: its time is up, and that is all.
    let mut late = Story::running(policy());
    late.tick(LOOK_AT);
    assert_eq!(late.on(150_000, gone()), []);
    assert_eq!(late.tick(150_000), [Action::KillTree]);
    assert_eq!(late.told(|notice| matches!(notice, Notice::Lost(..))), 0);
    assert_eq!(late.told(|notice| matches!(notice, Notice::Expired(..))), 1);
}

#[test]
fn a_job_that_may_run_on_keeps_its_extended_lock_until_the_new_end() {
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Ignore, ..policy() });
    assert_eq!(story.next(), 98_000);
    assert_eq!((story.tick(98_000), &story.looks[..]), (vec![], &[t(100_000)][..]));
    story.on(98_010, seen(until(150_000), 51_950, 98_005));
    assert_eq!(story.tick(100_000), []);
    assert_eq!(story.told(|notice| matches!(notice, Notice::RunsOn(..))), 0);
    assert_eq!(story.next(), 149_955 - 2_000);
    story.tick(149_955 - 2_000);
    story.on(148_000, seen(until(150_000), 2_000, 147_960));
    assert_eq!(story.tick(149_955), []);
    assert_eq!(story.told(|notice| matches!(notice, Notice::RunsOn(..))), 1);
}

#[test]
fn a_failed_job_holds_its_lock_until_the_end_of_an_extended_at_most() {
    let mut story = Story::running(Policy { on_failure: OnFailure::Hold, ..policy() });
    story.tick(LOOK_AT);
    story.on(86_000, seen(until(200_000), 114_100, 85_960));
    assert_eq!(story.on(90_000, exited(1)), [release(200_000, 100_000)]);
}

#[test]
fn a_run_that_has_no_end_or_no_lock_does_not_ask_for_it() {
    let mut extend = Story::running(Policy { on_expiry: OnExpiry::Extend, ..policy() });
    extend.tick(66_667);
    extend.on(66_680, renewed(Ok(Kept::Kept), 66_670));
    extend.tick(LOOK_AT);
    let mut without = Story::running_without(policy());
    assert_eq!(without.next(), STOP_AT);
    without.tick(LOOK_AT);
    assert!(extend.looks.is_empty() && without.looks.is_empty());
}

#[test]
fn a_leased_lock_is_renewed_on_after_an_extension_and_the_guardian_is_told() {
    let lease = Policy { lease: Some(ms(30_000)), guarded: true, ..policy() };
    let mut story = Story::running(lease);
    let mut now = 10_000;
    while now < LOOK_AT {
        story.tick(now);
        story.on(now + 5, renewed(Ok(Kept::Kept), now));
        now += 10_000;
    }
    // It lasts until at-most is used up.
    assert_eq!(story.next(), LOOK_AT);
    assert_eq!((story.tick(LOOK_AT), story.looks.len()), (vec![], 1));
    let guard = story.on(LOOK_AT + 10, seen(until(180_000), 94_045, LOOK_AT + 5));
    let lease_end = LOOK_AT + 5 + 30_000;
    let undead = story.run.timing.before_end.undead_at(t(lease_end));
    assert_eq!(guard, [Action::Guard(Some(undead))]);
    assert_eq!(story.next(), LOOK_AT + 5 + 10_000);
    let todo = story.tick(LOOK_AT + 5 + 10_000);
    let limit = Some(t(LOOK_AT + 5 + 94_045));
    assert!(matches!(todo[..], [Action::Renew { limit: found, .. }] if found == limit), "{todo:?}");
    // Unless that is answered the job ends with the lease.
    assert_eq!(story.next(), lease_end - 30_000 + LEASE_STOP_AT);
}

#[test]
fn a_renewal_that_took_long_is_no_extension() {
    let lease = Policy { lease: Some(ms(30_000)), ..policy() };
    let mut story = Story::running(lease);
    let mut now = 10_000;
    while now < LOOK_AT {
        story.tick(now);
        story.on(now + 4_000, renewed(Ok(Kept::Kept), now));
        now += 10_000;
    }
    story.tick(LOOK_AT);
    // Carried out just before it was answered, for as long as was left when it was sent.
    story.on(LOOK_AT + 10, seen(until(104_000), 104_000 - LOOK_AT, LOOK_AT));
    assert_eq!(story.told(|notice| matches!(notice, Notice::Extended(_))), 0);
    assert_eq!(story.tick(STOP_AT), first_signals());
}

#[test]
fn a_renewal_that_a_frozen_server_carries_out_late_is_no_extension() {
    let lease = Policy { lease: Some(ms(30_000)), ..policy() };
    // Either the run is told of the silence, or a second try of the same renewal is answered.
    for silence in [true, false] {
        for (left, extended) in [(29_990, 0), (30_990, 0), (31_000, 1)] {
            let mut story = Story::running(lease.clone());
            for now in (10_000..=60_000).step_by(10_000) {
                story.tick(now);
                story.on(now + 5, renewed(Ok(Kept::Kept), now));
            }
            story.tick(70_000);
            if !silence {
                story.on(76_000, renewed(Ok(Kept::Kept), 75_900));
            } else {
                story.on(76_000, renewed(Err(Trouble::passing("timed out").unclear()), 70_000));
                let again = story.next();
                story.tick(again);
                story.on(again + 10, renewed(Ok(Kept::Kept), again));
            }
            assert_eq!((story.next(), story.tick(LOOK_AT)), (LOOK_AT, vec![]));
            // The first one was carried out a moment ago; or somebody has extended the lock to more than that gives.
            story.on(LOOK_AT + 10, seen(until(LOOK_AT + left), left, LOOK_AT));
            let told = story.told(|notice| matches!(notice, Notice::Extended(_)));
            assert_eq!(told, extended, "{left} {silence}");
        }
    }
}

#[test]
fn what_is_told_of_the_end_names_an_extension() {
    for (on_expiry, expired) in [(OnExpiry::Kill, true), (OnExpiry::Ignore, false)] {
        for extension in [None, Some(until(180_000))] {
            let mut story = Story::running(Policy { on_expiry, ..policy() });
            let look = if expired { LOOK_AT } else { 98_000 };
            story.tick(look);
            if let Some(until) = extension {
                story.on(look + 10, seen(until, 180_000 - look, look));
            }
            story.tick(200_000);
            let told = match expired {
                true => Notice::Expired(ms(100_000), extension),
                false => Notice::RunsOn(ms(100_000), extension),
            };
            assert!(story.told.contains(&told), "{:?}", story.told);
        }
    }
}

#[test]
fn a_look_keeps_no_renewal_waiting() {
    let lease = Policy { lease: Some(ms(9_000)), ..policy() };
    let renewed_until = |last| {
        let mut story = Story::running(lease.clone());
        for now in (3_000..=last).step_by(3_000) {
            story.tick(now);
            story.on(now + 5, renewed(Ok(Kept::Kept), now));
        }
        story
    };
    let mut due = renewed_until(84_000);
    assert_eq!((due.next(), due.tick(LOOK_AT), &due.looks[..]), (LOOK_AT, vec![], &[t(87_000)][..]));
    assert_eq!(due.next(), 87_000);
    assert!(matches!(due.tick(87_000)[..], [Action::Renew { .. }]), "it waits for no answer");

    let mut under_way = renewed_until(81_000);
    under_way.tick(84_000);
    assert!(under_way.next() > LOOK_AT);
    assert_eq!((under_way.tick(LOOK_AT), under_way.looks.len()), (vec![], 0));
    under_way.on(86_000, renewed(Ok(Kept::Kept), 85_500));
    assert_eq!((under_way.tick(86_000), under_way.looks.len()), (vec![], 1));
}

// Signals while the job runs.

#[test]
fn a_stop_signal_is_passed_on_and_the_lock_released_after_the_job() {
    let mut story = Story::running(policy());
    assert_eq!(
        story.on(1_000, signalled(Signal::TERM)),
        [Action::Forward(Signal::TERM), Action::Forward(Signal::CONT)]
    );
    assert_eq!(story.on(1_500, signalled(Signal::USR1)), [Action::Forward(Signal::USR1)]);
    assert_eq!(story.due(), STOP_AT, "we wait for the job");
    assert_eq!(story.on(2_000, exited(5)), [release(0, 12_000)]);
    assert_eq!(story.on(2_001, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(5)));
}

#[test]
fn what_the_terminal_has_sent_to_the_whole_group_is_not_sent_again() {
    let placement = Placement { group: Group::Shared, terminal: true, session_leader: false };
    let mut story = Story::running(Policy { placement, ..policy() });
    let interrupt = Event::Signalled { signal: Signal::INT, sender: Sender::Terminal };
    assert_eq!(story.on(1_000, interrupt), []);
    assert_eq!(story.on(1_001, signalled(Signal::INT)), [Action::Forward(Signal::INT)]);
}

#[test]
fn stop_timeout_kills_the_job_that_was_told_to_stop() {
    for signal in STOP_SIGNALS {
        let mut story = Story::running(Policy { stop_timeout: Some(ms(5_000)), ..policy() });
        story.on(1_000, signalled(signal));
        assert_eq!(story.due(), 6_000);
        story.on(3_000, signalled(signal));
        assert_eq!(story.due(), 6_000, "the first stop signal counts");
        assert_eq!(story.tick(5_999), []);
        assert_eq!(story.tick(6_000), [Action::KillTree]);
        assert_eq!(story.due(), 6_050);
        assert_eq!(story.told(|notice| matches!(notice, Notice::StopTimeout(_))), 1);
        assert_eq!(story.on(6_010, Event::JobEnded(JobEnd::Killed(Signal::KILL))), [Action::LookForRest(Rest::Tree)]);
        assert_eq!(story.tick(6_050), [Action::KillTree], "a daemon is left");
        assert_eq!(story.on(6_051, Event::RestGone), [release(0, 16_051)]);
        assert_eq!(story.on(6_060, Event::Released(Ok(Kept::Kept))), exit(Outcome::Killed(Signal::KILL)));
    }
}

#[test]
fn stop_timeout_is_for_stop_signals() {
    let mut story = Story::running(Policy { stop_timeout: Some(ms(5_000)), ..policy() });
    story.on(1_000, signalled(Signal::USR1));
    assert_eq!(story.due(), STOP_AT);
}

#[test]
fn stop_timeout_hastens_an_expiry() {
    let mut story = Story::running(Policy { stop_timeout: Some(ms(1_000)), ..policy() });
    story.tick(STOP_AT);
    story.on(88_000, signalled(Signal::TERM));
    assert_eq!(story.tick(89_000), [Action::KillTree]);
    story.on(89_001, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(story.on(89_001, Event::RestGone), [release(0, 99_001)]);
    assert_eq!(story.on(89_002, Event::Released(Ok(Kept::Kept))), exit(Outcome::Expired));
}

#[test]
fn with_a_terminal_we_stop_with_the_job() {
    let placement = Placement { group: Group::Shared, terminal: true, session_leader: false };
    let mut story = Story::running(Policy { placement, ..policy() });
    let from_terminal = Event::Signalled { signal: Signal::TSTP, sender: Sender::Terminal };
    assert_eq!(story.on(1_000, from_terminal), [], "the job has got it already");
    assert_eq!(story.on(1_001, Event::JobStopped(Signal::TSTP)), [Action::StopOurselves(Signal::TSTP)]);
    assert_eq!(story.on(9_000, signalled(Signal::CONT)), []);
    assert_eq!(story.tick(9_000), [Action::Forward(Signal::CONT)], "once it is clear that its time is not up");
    assert_eq!(story.due(), STOP_AT, "its time has run on");
    story.tick(STOP_AT);
    assert_eq!(story.on(88_000, Event::JobStopped(Signal::TSTP)), [], "we have to end it");
}

#[test]
fn without_a_terminal_we_do_not_stop() {
    let mut story = Story::running(policy());
    assert_eq!(story.on(1_001, Event::JobStopped(Signal::TSTP)), []);
}

#[test]
fn before_the_job_a_stop_of_the_terminal_stops_us() {
    let mut story = Story::begun(Policy { wait: Patience::Forever, ..policy() });
    story.on(5, held(60_000, 0));
    assert_eq!(story.on(6, signalled(Signal::TSTP)), [Action::StopOurselves(Signal::TSTP)]);
}

// How long the lock stays held.

/// How long the lock is held after a job of at-least 10 s that ended so.
fn hold_after(end: JobEnd, policy: Policy) -> Duration {
    let mut story = Story::running(Policy { at_least: ms(10_000), ..policy });
    match &story.on(1_000, Event::JobEnded(end))[..] {
        [Action::Release { hold, .. }] => *hold,
        other => panic!("{other:?}"),
    }
}

#[test]
fn on_failure_says_how_long_the_lock_is_held_after_a_failure() {
    // The firing was at 18:00:58.9, so that is cut to the next full hour.
    let hour = Some(Every(ms(3_600_000)));
    let until_19 = 3_600_000 - 58_900;
    for (on_failure, every, hold) in [
        (OnFailure::Release, None, 0),
        (OnFailure::Release, hour, 0),
        (OnFailure::AtLeast, None, 10_000),
        (OnFailure::AtLeast, hour, until_19),
        (OnFailure::Hold, None, 100_000),
        (OnFailure::Hold, hour, until_19),
        (OnFailure::Hold, Some(Every(ms(60_000))), 100_000),
    ] {
        let policy = Policy { on_failure, every, ..policy() };
        for end in [JobEnd::Exited(1), JobEnd::Killed(Signal::TERM)] {
            assert_eq!(hold_after(end, policy.clone()), ms(hold), "{on_failure:?} {every:?} {end:?}");
        }
        let success = if every == hour { until_19 } else { 10_000 };
        assert_eq!(hold_after(JobEnd::Exited(0), policy), ms(success), "{on_failure:?} {every:?}");
    }
}

#[test]
fn success_codes_are_those_that_are_named() {
    let policy = Policy { success_codes: vec![3, 4], on_failure: OnFailure::Release, ..policy() };
    for (code, hold) in [(0, 0), (3, 10_000), (4, 10_000), (5, 0)] {
        assert_eq!(hold_after(JobEnd::Exited(code), policy.clone()), ms(hold), "{code}");
    }
}

#[test]
fn a_job_that_was_stopped_has_failed() {
    let mut story = Story::running(Policy { at_least: ms(90_000), on_failure: OnFailure::Release, ..policy() });
    story.tick(STOP_AT);
    story.on(88_000, exited(0));
    assert_eq!(story.on(88_000, Event::RestGone), [release(0, 98_000)]);
}

// Releasing.

#[test]
fn trouble_with_the_release_never_changes_the_code() {
    for answer in [Ok(Kept::Lost), Err(Trouble::lasting("no")), Err(Trouble::passing("down"))] {
        let mut story = Story::running(policy());
        story.on(1_000, exited(6));
        story.told.clear();
        assert_eq!(story.on(2_000, Event::Released(answer)), exit(Outcome::Exited(6)));
        assert!(matches!(&story.told[..], [Notice::LostUnnoticed(_) | Notice::NotReleased(_)]), "one line says so");
    }
}

#[test]
fn the_release_is_tried_for_backend_timeout() {
    let mut story = Story::running(policy());
    story.on(1_000, exited(6));
    assert_eq!(story.due(), 11_250);
    assert_eq!(story.tick(11_249), []);
    assert_eq!(story.tick(11_250), exit(Outcome::Exited(6)));
    assert_eq!(story.told(|notice| matches!(notice, Notice::NotReleased(_))), 1);
}

#[test]
fn a_release_that_a_pooler_refuses_for_a_time_of_its_own_is_tried_for_longer_once() {
    let refused = || Event::Released(Err(Trouble { lingers: true, ..Trouble::passing("server_login_retry") }));
    let mut story = Story::running(policy());
    story.on(1_000, exited(6));
    assert!(matches!(story.on(11_000, refused())[..], [Action::Release { .. }]));
    assert_eq!((story.due(), story.told(|notice| matches!(notice, Notice::NotReleased(_)))), (31_250, 0));
    assert_eq!(story.on(20_000, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(6)));
    // A second time it is the last word, and so it is after a stop signal.
    let mut story = Story::running(policy());
    story.on(1_000, exited(6));
    story.on(11_000, refused());
    story.on(12_000, signalled(Signal::TERM));
    assert_eq!(story.due(), 13_000);
    assert_eq!(story.on(12_500, refused()), exit(Outcome::Exited(6)));
    let mut story = Story::running(policy());
    story.on(1_000, exited(6));
    story.on(2_000, signalled(Signal::TERM));
    assert_eq!(story.on(2_500, refused()), exit(Outcome::Exited(6)));
    assert_eq!(story.told(|notice| matches!(notice, Notice::NotReleased(_))), 1);
}

#[test]
fn a_stop_signal_gives_the_release_a_second() {
    for signal in STOP_SIGNALS {
        let mut story = Story::running(policy());
        story.on(1_000, exited(6));
        // It goes on trying: the backend may only be busy, since a host that is shut down stops all its jobs at once.
        assert_eq!(story.on(2_000, signalled(signal)), []);
        assert_eq!(story.due(), 3_000);
        assert_eq!(story.on(2_500, signalled(signal)), []);
        assert_eq!(story.due(), 3_000);
        assert_eq!(story.tick(3_000), exit(Outcome::Exited(6)));
        assert_eq!(story.told(|notice| matches!(notice, Notice::NotReleased(_))), 1);
    }
    let mut story = Story::running(policy());
    story.on(1_000, exited(6));
    story.on(11_000, signalled(Signal::TERM));
    assert_eq!(story.due(), 11_250, "it prolongs nothing");
}

#[test]
fn signals_that_do_not_ask_to_stop_do_not_hasten_the_release() {
    for signal in [Signal::USR1, Signal::CONT, Signal::WINCH] {
        let mut story = Story::running(policy());
        story.on(1_000, exited(6));
        assert_eq!(story.on(2_000, signalled(signal)), []);
        assert_eq!(story.due(), 11_250);
    }
}

// Stalls.

#[test]
fn an_answer_that_came_while_we_were_stopped_counts() {
    // What we find on waking is a signal, an answer and a timer, in this order.
    let mut asking = Story::begun(policy());
    assert_eq!(asking.on(30_000, signalled(Signal::CONT)), []);
    assert_eq!(asking.on(30_000, granted(0)), [spawn()]);

    let mut extended = Story::running(extend());
    extended.tick(66_667);
    assert_eq!(extended.on(95_000, signalled(Signal::CONT)), [Action::Hold]);
    let deadline = 66_670 + STOP_AT;
    assert_eq!(extended.on(95_000, renewed(Ok(Kept::Kept), 66_670)), [renew(deadline)], "it was asked for before");
    assert_eq!(extended.tick(95_000), []);
    assert_eq!(extended.on(95_100, renewed(Ok(Kept::Kept), 95_001)), [Action::LetGo, Action::Forward(Signal::CONT)]);

    let mut releasing = Story::running(policy());
    releasing.on(1_000, exited(0));
    assert_eq!(releasing.on(60_000, signalled(Signal::CONT)), []);
    assert_eq!(releasing.on(60_000, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(0)));
}

#[test]
fn a_job_that_was_stopped_past_its_time_is_not_continued_before_it_is_killed() {
    let mut story = Story::running(policy());
    assert_eq!(story.on(99_000, signalled(Signal::CONT)), []);
    assert_eq!(story.tick(99_000), [Action::KillTree]);
}

#[test]
fn after_a_stall_the_job_is_held_until_the_lock_is_checked() {
    for stall in [Event::Stalled, signalled(Signal::CONT)] {
        let continued = matches!(stall, Event::Signalled { .. });
        let mut story = Story::running(leased());
        assert_eq!(story.on(5_000, stall), [Action::Hold]);
        assert_eq!(story.on(5_000, Event::JobStopped(Signal::STOP)), [], "that was us");
        assert_eq!(story.tick(5_000), [renew_leased(LEASE_STOP_AT)]);
        assert_eq!(story.on(5_001, Event::Stalled), [], "it is held already");
        assert_eq!(
            story.on(5_010, renewed(Ok(Kept::Kept), 5_000)),
            [renew_leased(5_000 + LEASE_STOP_AT)],
            "not for the second one"
        );
        let goes_on = [vec![Action::LetGo], vec![Action::Forward(Signal::CONT); usize::from(continued)]].concat();
        assert_eq!(story.on(5_020, renewed(Ok(Kept::Kept), 5_011)), goes_on);
    }
}

#[test]
fn on_a_terminal_a_job_that_is_held_does_not_stop_us() {
    let placement = Placement { group: Group::Shared, terminal: true, session_leader: false };
    let mut story = Story::running(Policy { placement, ..leased() });
    story.on(5_000, Event::Stalled);
    assert_eq!(story.on(5_000, Event::JobStopped(Signal::STOP)), []);
    story.tick(5_000);
    story.on(5_010, renewed(Ok(Kept::Kept), 5_001));
    assert_eq!(story.on(6_000, Event::JobStopped(Signal::TSTP)), [Action::StopOurselves(Signal::TSTP)]);
}

#[test]
fn after_a_stall_a_job_whose_lock_is_lost_is_ended_and_not_continued() {
    let mut story = Story::running(leased());
    story.on(5_000, signalled(Signal::CONT));
    story.tick(5_000);
    assert_eq!(story.on(5_010, renewed(Ok(Kept::Lost), 5_000)), first_signals());
    let mut ignoring = Story::running(Policy { on_lost: OnLost::Ignore, ..leased() });
    ignoring.on(5_000, Event::Stalled);
    ignoring.tick(5_000);
    assert_eq!(ignoring.on(5_010, renewed(Ok(Kept::Lost), 5_000)), [Action::LetGo]);
}

#[test]
fn what_a_command_left_behind_that_ends_while_it_is_held_goes_on() {
    let mut story = Story::running(leased());
    story.on(5_000, Event::Stalled);
    story.tick(5_000);
    let todo = story.on(5_010, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(todo[..2], [Action::LetGo, Action::StopTrying]);
    assert!(matches!(todo[2..], [Action::Release { .. }]), "{todo:?}");
}

#[test]
fn after_a_stall_a_job_whose_lock_cannot_be_checked_is_ended_in_time() {
    let mut story = Story::running(leased());
    story.on(5_000, Event::Stalled);
    story.tick(5_000);
    story.on(5_010, renewed(Err(Trouble::passing("down")), 5_000));
    assert!(story.due() < LEASE_STOP_AT);
    assert_eq!(story.tick(LEASE_STOP_AT), first_signals());
}

#[test]
fn a_job_that_is_continued_while_it_is_held_is_held_again() {
    let mut story = Story::running(leased());
    story.on(5_000, signalled(Signal::CONT));
    story.tick(5_000);
    // ^Z and fg while the backend is silent.
    assert_eq!(story.on(6_000, signalled(Signal::CONT)), [Action::Hold]);
    story.on(6_010, renewed(Ok(Kept::Kept), 5_000));
    assert_eq!(story.on(6_020, renewed(Ok(Kept::Kept), 6_010)), [Action::LetGo, Action::Forward(Signal::CONT)]);
}

#[test]
fn a_storm_of_sigcont_holds_the_job_for_one_check_a_second() {
    let mut story = Story::running(leased());
    story.on(5_000, signalled(Signal::CONT));
    story.tick(5_000);
    // A shell that continues us continues the job, which is held all the same.
    assert_eq!(story.on(5_005, signalled(Signal::CONT)), [Action::Hold]);
    assert_eq!(story.on(5_010, renewed(Ok(Kept::Kept), 5_001)), [Action::LetGo, Action::Forward(Signal::CONT)]);
    assert_eq!(story.on(5_999, signalled(Signal::CONT)), []);
    assert_eq!(story.tick(5_999), [Action::Forward(Signal::CONT)]);
    assert_eq!(story.on(6_000, signalled(Signal::CONT)), [Action::Hold]);
}

#[test]
fn a_job_that_is_held_is_let_go_by_a_stop_signal() {
    let mut story = Story::running(leased());
    story.on(5_000, Event::Stalled);
    story.tick(5_000);
    assert_eq!(story.on(5_010, signalled(Signal::USR1)), [Action::Forward(Signal::USR1)]);
    let stop = [Action::Forward(Signal::TERM), Action::Forward(Signal::CONT), Action::LetGo];
    assert_eq!(story.on(5_020, signalled(Signal::TERM)), stop, "the backend may take its time");
    assert_eq!(story.on(5_030, renewed(Ok(Kept::Lost), 5_000)), first_signals());

    let placement = Placement { group: Group::Shared, terminal: true, session_leader: false };
    let mut shared = Story::running(Policy { placement, ..leased() });
    shared.on(5_000, Event::Stalled);
    let typed = Event::Signalled { signal: Signal::INT, sender: Sender::Terminal };
    assert_eq!(shared.on(5_010, typed), [Action::LetGo], "the job has got it already");
}

#[test]
fn on_a_terminal_a_stop_while_the_job_is_held_stops_us() {
    let placement = Placement { group: Group::Shared, terminal: true, session_leader: false };
    let mut story = Story::running(Policy { placement, ..leased() });
    let typed = || Event::Signalled { signal: Signal::TSTP, sender: Sender::Terminal };
    assert_eq!(story.on(4_000, typed()), [], "the job stops first");
    story.on(5_000, Event::Stalled);
    assert_eq!(story.on(5_010, typed()), [Action::StopOurselves(Signal::TSTP)]);
    assert_eq!(story.on(6_000, signalled(Signal::CONT)), [Action::Hold]);
}

#[test]
fn what_a_command_left_behind_that_ended_while_it_was_held_goes_on() {
    let mut story = Story::running(leased());
    story.on(5_000, Event::Stalled);
    story.tick(5_000);
    let todo = story.on(5_010, exited(0));
    assert_eq!(todo.first(), Some(&Action::LetGo), "{todo:?}");
}

#[test]
fn a_job_that_runs_on_without_its_lock_is_not_held_for_it() {
    let ignoring = || Policy { on_expiry: OnExpiry::Ignore, ..leased() };
    let at_most = 100_000;
    let kept_until = |end: u64| {
        let mut story = Story::running(ignoring());
        while story.due() < end {
            let now = story.due();
            story.tick(now);
            story.on(now, renewed(Ok(Kept::Kept), now));
        }
        story
    };
    let mut after = kept_until(at_most);
    after.tick(at_most);
    assert_eq!(after.on(110_000, Event::Stalled), []);
    assert_eq!(after.on(110_000, signalled(Signal::CONT)), []);
    assert_eq!(after.tick(110_000), [Action::Forward(Signal::CONT)]);

    // It is used up while the lock is checked.
    for answer in [Ok(Kept::Lost), Err(Trouble::passing("down"))] {
        let mut before = kept_until(at_most);
        assert_eq!(before.on(99_000, Event::Stalled), [Action::Hold]);
        before.tick(99_000);
        assert_eq!(before.tick(at_most), [Action::LetGo]);
        assert_eq!(before.on(100_010, renewed(answer, 99_000)), []);
        assert_eq!(before.run.deadline(), None);
    }
}

#[test]
fn without_a_lease_there_is_nothing_to_check_after_a_stall() {
    let mut story = Story::running(policy());
    assert_eq!(story.on(5_000, Event::Stalled), []);
    assert_eq!(story.tick(5_000), []);
    let mut without = Story::running_without(leased());
    assert_eq!(without.on(5_000, Event::Stalled), []);
}

// Leases.

/// A lease of 30 s.
fn leased() -> Policy {
    Policy { lease: Some(ms(30_000)), ..policy() }
}

/// When a lease of 30 s that is not renewed ends its job, in milliseconds.
const LEASE_STOP_AT: u64 = 22_485;
const LEASE_KILL_AT: u64 = 28_485;

fn renew_leased(deadline: u64) -> Action {
    Action::Renew { lease: ms(30_000), limit: Some(t(100_000)), deadline: t(deadline) }
}

#[test]
fn a_lease_is_renewed_every_third_of_it_and_never_past_at_most() {
    let mut story = Story::running(leased());
    let mut renewals = Vec::new();
    let mut now = 0;
    while now < STOP_AT {
        now = story.due();
        if story.tick(now).iter().any(|action| matches!(action, Action::Renew { .. })) {
            renewals.push(now);
            story.on(now, renewed(Ok(Kept::Kept), now));
        }
    }
    // The seventh lasts until at-most is used up.
    assert_eq!(renewals, [10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000]);
    assert_eq!(story.told(|notice| matches!(notice, Notice::Expired(..))), 1, "and then at-most is used up");
    assert_eq!(story.due(), KILL_AT);
}

#[test]
fn a_lease_that_cannot_be_renewed_ends_the_job_before_it_ends() {
    let mut story = Story::running(leased());
    assert_eq!(story.tick(10_000), [renew_leased(LEASE_STOP_AT)]);
    assert_eq!(story.due(), LEASE_STOP_AT);
    assert_eq!(story.tick(LEASE_STOP_AT), first_signals());
    assert_eq!(story.told(|notice| matches!(notice, Notice::Lost(NoticeKind::NotRenewed(_), OnLost::Kill))), 1);
    assert_eq!(story.due(), LEASE_KILL_AT);
    assert!(story.tick(LEASE_KILL_AT).contains(&Action::KillTree));
    story.on(28_490, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(story.on(28_490, Event::RestGone), [release(0, 38_490)]);
    assert_eq!(story.on(28_500, Event::Released(Ok(Kept::Lost))), exit(Outcome::Lost));
    assert_eq!(story.told(|notice| matches!(notice, Notice::LostUnnoticed(_))), 0, "it was noticed");
}

#[test]
fn a_backend_that_does_not_answer_is_told_from_a_run_that_did_not_ask() {
    let told = |story: &Story, wanted: &NoticeKind| {
        assert_eq!(story.told(|notice| matches!(notice, Notice::Lost(kind, _) if kind == wanted)), 1, "{wanted:?}");
    };
    // (asked at, given up at)
    for (asked, gave_up, kind) in [
        (10_000, LEASE_STOP_AT, NoticeKind::NotRenewed(None)),
        (15_000, LEASE_STOP_AT, NoticeKind::NotRenewed(None)),
        (17_000, LEASE_STOP_AT, NoticeKind::NotAsked(ms(7_000))),
        (10_000, LEASE_STOP_AT + 13_000, NoticeKind::NotAsked(ms(13_000))),
    ] {
        let mut story = Story::running(leased());
        story.tick(asked);
        story.tick(gave_up);
        told(&story, &kind);
    }
    let mut stalled = Story::running(leased());
    stalled.tick(LEASE_STOP_AT);
    told(&stalled, &NoticeKind::NotAsked(ms(LEASE_STOP_AT - 10_000)));
    // The thread that asks got no processor.
    let mut starved = Story::running(leased());
    starved.run.on(Event::Tick, t(10_000));
    starved.tick(LEASE_STOP_AT);
    told(&starved, &NoticeKind::NotAsked(ms(LEASE_STOP_AT - 10_000)));

    let mut troubled = Story::running(leased());
    let (first, last) = (Trouble::lasting("away"), Trouble::lasting("coarse"));
    troubled.tick(10_000);
    troubled.on(10_010, renewed(Err(first), 10_000));
    let again = troubled.due();
    troubled.tick(again);
    troubled.on(again, renewed(Err(last.clone()), again));
    troubled.tick(LEASE_STOP_AT);
    told(&troubled, &NoticeKind::NotRenewed(Some(last)));
}

#[test]
fn with_on_lost_ignore_a_renewal_is_tried_until_the_lease_has_ended() {
    let mut story = Story::running(Policy { on_lost: OnLost::Ignore, ..leased() });
    assert_eq!(story.tick(10_000), [renew_leased(30_000)]);
    assert_eq!(story.due(), 30_000);
    assert_eq!(story.tick(30_000), []);
    assert_eq!(story.told(|notice| matches!(notice, Notice::Lost(NoticeKind::NotRenewed(_), OnLost::Ignore))), 1);
    assert_eq!(story.due(), STOP_AT, "at-most is the longest that a job may run all the same");
    assert_eq!(story.tick(STOP_AT), first_signals());
}

#[test]
fn until_at_least_the_lock_is_taken_for_more_than_a_lease() {
    let mut story = Story::running(Policy { at_least: ms(60_000), ..leased() });
    assert_eq!(story.tick(10_000), [renew_leased(45_000 + 7_485)], "whether it is ours is asked for all the same");
    story.on(10_010, renewed(Ok(Kept::Kept), 10_000));
    assert_eq!(story.due(), 20_000);
    story.tick(20_000);
    assert_eq!(story.due(), 52_485, "it lasts for a minute");
}

#[test]
fn a_lease_of_more_than_at_most_is_one_of_at_most() {
    let mut story = Story::running(Policy { lease: Some(ms(300_000)), ..policy() });
    assert_eq!(story.run.policy.first_lease(), ms(100_000));
    assert_eq!(story.due(), STOP_AT, "there is nothing to renew");
    assert_eq!(story.tick(STOP_AT), first_signals());
}

#[test]
fn while_a_job_is_being_ended_its_lease_is_renewed() {
    let mut story = Story::running(Policy { kill_after: ms(20_000), ..leased() });
    let stop_at = 77_950;
    let mut last = 0;
    while last < 70_000 {
        last = story.due();
        story.tick(last);
        // One that is short of the limit, as of a server that was slow to answer.
        story.on(last, renewed(Ok(Kept::Kept), last.min(69_000)));
    }
    assert_eq!(story.tick(stop_at), first_signals());
    assert_eq!(story.tick(79_000), [renew_leased(99_000)]);
    assert_eq!(story.due(), 97_485, "if it is not renewed SIGKILL comes before the lease ends");
    story.on(79_100, renewed(Ok(Kept::Kept), 79_001));
    assert_eq!(story.due(), KILL_AT);
    assert!(story.tick(KILL_AT).contains(&Action::KillTree));
    assert_eq!(story.tick(98_500), [Action::KillTree], "SIGKILL has its time");
    let kept = Action::Renew { lease: ms(30_000), limit: None, deadline: t(109_243) };
    assert!(story.tick(99_243).contains(&kept), "what not even that ends keeps the lock, which ends with at-most");
}

#[test]
fn a_lock_that_is_lost_while_the_job_is_being_ended_hastens_its_end() {
    let mut story = Story::running(Policy { kill_after: ms(20_000), ..leased() });
    let mut last = 0;
    while last < 70_000 {
        last = story.due();
        story.tick(last);
        story.on(last, renewed(Ok(Kept::Kept), last.min(69_000)));
    }
    story.tick(77_950);
    story.tick(79_000);
    story.on(79_100, renewed(Ok(Kept::Lost), 79_001));
    assert_eq!(story.due(), 85_100);
}

#[test]
fn what_sigkill_cannot_end_is_not_called_lost_if_its_lock_cannot_be_kept() {
    let mut story = Story::running(leased());
    let mut now = 0;
    while now < 200_000 {
        now = story.due();
        let renews = story.tick(now).iter().any(|action| matches!(action, Action::Renew { .. }));
        let answer = if now < STOP_AT { Ok(Kept::Kept) } else { Err(Trouble::passing("down")) };
        if renews {
            story.on(now, renewed(answer, now));
        }
    }
    assert_eq!(story.told(|notice| matches!(notice, Notice::Undead)), 1);
    assert_eq!(story.told(|notice| matches!(notice, Notice::Lost(..))), 0);
}

#[test]
fn an_answer_that_took_longer_than_half_of_the_lease_is_given_back() {
    let mut story = Story::begun(leased());
    assert_eq!(story.on(15_001, granted(0)), [release(0, 16_001)]);
    let mut story = Story::begun(leased());
    assert!(matches!(story.on(15_000, granted(0))[..], [Action::Spawn(_)]));
}

#[test]
fn with_on_expiry_extend_a_lease_is_renewed_for_as_long_as_the_job_lives() {
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Extend, ..leased() });
    for third in 1..30 {
        let now = third * 10_000;
        let renewal = Action::Renew { lease: ms(30_000), limit: None, deadline: t(now - 10_000 + LEASE_STOP_AT) };
        assert_eq!(story.tick(now), [renewal]);
        story.on(now, renewed(Ok(Kept::Kept), now));
    }
}

#[test]
fn with_on_expiry_ignore_a_lease_is_renewed_until_at_most_and_then_let_go() {
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Ignore, ..leased() });
    let mut now = 0;
    while now < 100_000 {
        now = story.due();
        if story.tick(now).iter().any(|action| matches!(action, Action::Renew { .. })) {
            story.on(now, renewed(Ok(Kept::Kept), now));
        }
    }
    assert_eq!(now, 100_000);
    assert_eq!(story.told(|notice| matches!(notice, Notice::RunsOn(..))), 1);
    assert_eq!(story.run.deadline(), None);
}

// The guardian.

fn guarded() -> Policy {
    Policy { guarded: true, ..leased() }
}

/// When the guardian kills, in milliseconds, for a lease that ends at `end`.
fn guard(end: u64) -> Action {
    Action::Guard(Some(Moment::at(ms(1_000_000 + end) - Duration::from_micros(757_500))))
}

#[test]
fn a_guardian_is_there_before_the_command_and_learns_of_every_renewal() {
    let mut story = Story::begun(guarded());
    let todo = story.on(0, granted(0));
    assert_eq!(todo[0], guard(30_000));
    assert!(matches!(todo[1..], [Action::Spawn(_)]));
    story.on(0, Event::Spawned);
    story.tick(10_000);
    assert_eq!(story.on(10_010, renewed(Ok(Kept::Kept), 10_000)), [guard(40_000)]);
}

#[test]
fn the_guardian_kills_nothing_that_may_outlive_its_lock() {
    let ignoring = Policy { on_lost: OnLost::Ignore, ..guarded() };
    assert_eq!(Story::begun(ignoring).on(0, granted(0))[0], Action::Guard(None));
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Ignore, ..guarded() });
    story.tick(70_000);
    assert_eq!(story.on(70_000, renewed(Ok(Kept::Kept), 70_000)), [Action::Guard(None)], "it lasts until at-most");
}

#[test]
fn a_job_that_the_guardian_had_to_kill_was_lost_or_had_expired() {
    for (renewed_at, outcome) in [(None, Outcome::Lost), (Some(75_000), Outcome::Expired)] {
        let mut story = Story::running(guarded());
        let mut end = 30_000;
        if let Some(at) = renewed_at {
            story.tick(at - 60_000);
            story.on(at, renewed(Ok(Kept::Kept), at));
            end = 100_000;
        }
        let killed = Event::JobEnded(JobEnd::Killed(Signal::KILL));
        // It may have missed something that we find.
        let todo = story.on(end + 50_000, killed);
        assert!(todo.contains(&Action::KillTree), "{todo:?}");
        let todo = story.on(end + 50_000, Event::RestGone);
        assert!(matches!(todo.last(), Some(Action::Release { .. })), "{todo:?}");
        story.on(end + 50_001, Event::Released(Ok(Kept::Lost)));
        assert!(matches!(story.run.phase, Phase::Done));
        let verdict = if outcome == Outcome::Lost { Verdict::Lost } else { Verdict::Expired };
        assert_eq!(story.closed, [Closing::Ended { verdict, exit_code: Some(outcome.exit(0).code) }]);
    }
}

#[test]
fn a_rest_of_the_job_that_the_guardian_had_to_kill_was_lost_too() {
    let wait_for = WaitFor::Rest(Rest::Tree);
    for (end, code) in [(JobEnd::Killed(Signal::KILL), Outcome::Lost), (JobEnd::Exited(0), Outcome::Exited(3))] {
        let mut story = Story::running(Policy { wait_for, ..guarded() });
        story.on(1_000, exited(3));
        story.on(60_000, Event::OrphanEnded(end));
        story.on(60_000, Event::RestGone);
        assert_eq!(story.on(60_010, Event::Released(Ok(Kept::Lost))), exit(code));
        // The command had ended by itself, but we were stopped and hear of both at once.
        let mut story = Story::running(Policy { wait_for, ..guarded() });
        story.on(60_000, Event::OrphanEnded(end));
        story.on(60_000, exited(3));
        story.on(60_000, Event::RestGone);
        assert_eq!(story.on(60_010, Event::Released(Ok(Kept::Lost))), exit(code));
    }
}

#[test]
fn a_job_that_ended_by_itself_while_we_were_stopped_keeps_its_code() {
    let mut story = Story::running(guarded());
    assert_eq!(story.on(80_000, exited(5)), [release(0, 90_000)]);
    story.on(80_001, Event::Released(Ok(Kept::Lost)));
    assert_eq!(story.closed, [Closing::Ended { verdict: Verdict::Failure, exit_code: Some(5) }]);
}

#[test]
fn a_job_whose_lock_is_lost_is_killed_by_the_guardian_if_not_by_us() {
    let mut story = Story::running(guarded());
    story.tick(10_000);
    let todo = story.on(10_010, renewed(Ok(Kept::Lost), 10_000));
    let undead = Moment::at(ms(1_000_000 + 16_010) + Duration::from_micros(757_500));
    assert_eq!(todo, [first_signals(), vec![Action::Guard(Some(undead))]].concat());
}

#[test]
fn a_job_that_was_killed_by_somebody_else_was_killed() {
    let mut story = Story::running(guarded());
    assert_eq!(story.on(5_000, Event::JobEnded(JobEnd::Killed(Signal::KILL))), [release(0, 15_000)]);
    assert_eq!(story.on(5_001, Event::Released(Ok(Kept::Kept))), exit(Outcome::Killed(Signal::KILL)));
}

// What the command leaves behind.

#[test]
fn the_job_has_ended_when_what_it_is_waited_for_has() {
    for rest in [Rest::Group, Rest::Tree] {
        let mut story = Story::running(Policy { wait_for: WaitFor::Rest(rest), ..policy() });
        assert_eq!(story.on(1_000, exited(3)), [Action::LookForRest(rest)]);
        assert_eq!(story.on(1_500, Event::OrphanEnded(JobEnd::Exited(0))), [Action::LookForRest(rest)]);
        assert_eq!(story.on(1_600, signalled(Signal::USR1)), [Action::Forward(Signal::USR1)], "the rest may want it");
        assert_eq!(story.on(1_700, Event::RestGone), [release(0, 11_700)]);
        assert_eq!(story.on(1_701, Event::Released(Ok(Kept::Kept))), exit(Outcome::Exited(3)));
    }
}

#[test]
fn a_process_that_leaves_the_group_is_missed_within_a_second() {
    let mut story = Story::running(Policy { wait_for: WaitFor::Rest(Rest::Group), ..policy() });
    story.on(1_000, exited(0));
    assert_eq!(story.due(), 2_000);
    assert_eq!(story.tick(2_000), [Action::LookForRest(Rest::Group)]);
    assert_eq!(story.due(), 3_000);
}

#[test]
fn what_the_command_left_behind_is_ended_at_at_most() {
    let mut story = Story::running(Policy { wait_for: WaitFor::Rest(Rest::Tree), ..policy() });
    story.on(1_000, exited(0));
    assert_eq!(story.tick(STOP_AT), first_signals());
    assert_eq!(story.tick(KILL_AT), [Action::KillTree]);
    assert_eq!(story.on(97_960, Event::OrphanEnded(JobEnd::Exited(0))), [Action::LookForRest(Rest::Tree)]);
    story.on(97_960, Event::RestGone);
    assert_eq!(story.on(97_961, Event::Released(Ok(Kept::Kept))), exit(Outcome::Expired));
}

// Nested runs.

#[test]
fn a_lock_that_an_enclosing_run_holds_is_no_obstacle_and_stays_with_it() {
    let record = Record { owner: "host:1:0a".to_owned(), since: None, until: None, left: ms(60_000) };
    let enclosing = vec!["host:9:0b".to_owned(), record.owner.clone()];
    let held =
        |record: &Record| Event::Acquired { answer: Ok(Acquired::Held(record.clone())), sent: t(0), unclear: false };
    let mut story = Story::begun(Policy { enclosing: enclosing.clone(), ..policy() });
    assert_eq!(story.on(0, held(&record)), [Action::Spawn(Under::Enclosing(record.clone()))]);
    story.on(0, Event::Spawned);
    assert_eq!(story.due(), STOP_AT, "its own at-most counts for it");
    assert_eq!(story.on(1_000, exited(4)), exit(Outcome::Exited(4)));

    let ended = Record { owner: "host:1:0a:ended".to_owned(), ..record };
    let mut over = Story::begun(Policy { enclosing, ..policy() });
    assert_eq!(over.on(0, held(&ended)), exit(Outcome::Skipped), "that run is over");
}

// What the history is told.

#[test]
fn the_history_is_told_how_the_run_ended() {
    let ended = |verdict, exit_code| vec![Closing::Ended { verdict, exit_code: Some(exit_code) }];
    let closed = |events: &[Event]| {
        let mut story = Story::running(Policy { success_codes: vec![0, 3], ..policy() });
        for event in events {
            match event {
                Event::JobEnded(end) => story.on(1_000, Event::JobEnded(*end)),
                _ => unreachable!(),
            };
        }
        story.closed
    };
    assert_eq!(closed(&[exited(0)]), ended(Verdict::Success, 0));
    assert_eq!(closed(&[exited(3)]), ended(Verdict::Success, 3));
    assert_eq!(closed(&[exited(1)]), ended(Verdict::Failure, 1));
    assert_eq!(closed(&[Event::JobEnded(JobEnd::Killed(Signal::TERM))]), ended(Verdict::Failure, 143));

    let mut missing = Story::begun(policy());
    missing.on(0, granted(0));
    missing.on(0, not_started(SpawnTroubleKind::NotFound));
    assert_eq!(missing.closed, ended(Verdict::Error, 127));

    let mut late = Story::begun(policy());
    late.on(60_000, granted(0));
    assert_eq!(late.closed, [Closing::GivenUp], "nothing has run");
}
