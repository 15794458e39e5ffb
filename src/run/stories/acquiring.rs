//! Stories of a run until its job: acquiring the lock, handing it over, starting the job.

use super::*;

// Acquiring, running, releasing.

#[test]
fn the_job_runs_under_the_lock_which_is_then_released() {
    let mut story = Story {
        run: Run::new(policy(), "test:".to_owned(), t(0)),
        emitted: Vec::new(),
        recorded: Vec::new(),
        notified: Vec::new(),
        closed: Vec::new(),
        looks: Vec::new(),
    };
    assert_eq!(story.run.deadline(), None);
    assert_eq!(story.on(0, Event::Begin), [acquire(10_000, WhenFull::Retry)]);
    assert_eq!(story.on(5, granted(1)), [spawn()]);
    assert_eq!(story.on(6, Event::Spawned), []);
    assert_eq!(story.on(3_000, exited(0)), [release(0, 13_000)]);
    assert_eq!(story.on(3_005, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(0)));
    assert_eq!(story.run.deadline(), None);
    assert_eq!(story.tick(99_000), []);
}

#[test]
fn the_exit_code_is_the_jobs_own() {
    for (end, reason) in
        [(JobEnd::Exited(7), ExitReason::Exited(7)), (JobEnd::Killed(Signal::INT), ExitReason::Killed(Signal::INT))]
    {
        let mut story = Story::running(policy());
        assert_eq!(story.on(1_000, Event::JobEnded(end)), [release(0, 11_000)]);
        assert_eq!(story.on(1_001, Event::Released(Ok(StillHeld::Held))), exit(reason));
    }
}

#[test]
fn after_a_normal_end_what_the_job_left_running_is_left_alone() {
    let mut story = Story::running(policy());
    assert_eq!(story.on(1_000, exited(0)), [release(0, 11_000)]);
    assert_eq!(story.on(1_001, Event::OrphanEnded(JobEnd::Exited(0))), []);
    assert_eq!(story.on(1_002, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(0)));
}

#[test]
fn a_held_lock_is_a_skip() {
    let mut story = Story::begun(policy());
    assert_eq!(story.on(5, held(60_000, 0)), exit(ExitReason::Skipped));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Held(_))), 1);
}

#[test]
fn at_least_counts_from_the_acquisition() {
    let mut story = Story::running(Policy { at_least: ms(30_000), ..policy() });
    assert_eq!(story.on(1_000, exited(0)), [release(30_000, 11_000)]);
}

#[test]
fn every_counts_from_the_firing_before_splay_and_wait() {
    let wait = WaitLimit::UpTo(ms(300_000));
    let mut story = Story::begun(Policy { every: Some(Every(ms(3_600_000))), splay: ms(2_000), wait, ..policy() });
    story.tick(2_000);
    story.on(2_000, held(60_000, 2_000));
    let at = story.due();
    story.tick(at);
    // WasGranted 20 s after the firing.
    assert_eq!(story.on(20_010, granted(20_000)), [spawn()]);
    story.on(20_010, Event::Spawned);
    assert_eq!(story.on(30_000, exited(0)), [release(3_240_000 - 20_000, 40_000)]);
}

// Handing over.

#[test]
fn a_lock_that_is_handed_over_stays_taken() {
    let mut story = Story::begun(policy());
    assert_eq!(story.on(5, granted(0)), [spawn()]);
    assert_eq!(story.on(5, Event::HandedOver), exit(ExitReason::Exited(0)));
    assert_eq!(story.run.deadline(), None);
    assert!(story.closed.is_empty());
}

#[test]
fn a_lock_that_nobody_takes_over_goes_back_unused() {
    let mut story = Story::begun(Policy { at_least: ms(50_000), on_failure: OnFailure::Hold, ..policy() });
    story.on(5, granted(0));
    assert_eq!(story.on(6, Event::NotHandedOver("no".to_owned())), [release(0, 10_006)]);
    assert_eq!(story.closed, [Closing::Undone]);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotHandedOver(_))), 1);
    assert_eq!(story.on(7, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Failed));
}

#[test]
fn a_lock_that_came_too_late_is_not_handed_over() {
    let mut story = Story::begun(policy());
    assert_eq!(story.on(50_001, granted(0)), [release(0, 60_001)]);
    assert_eq!(story.on(50_002, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Failed));
}

// The start of the job.

#[test]
fn a_command_that_could_not_be_started_frees_the_lock_at_once() {
    for (kind, reason) in [
        (SpawnErrorKind::NotFound, ExitReason::NotFound),
        (SpawnErrorKind::CannotExecute, ExitReason::CannotExecute),
        (SpawnErrorKind::NoProcess, ExitReason::Failed),
    ] {
        let policy =
            Policy { at_least: ms(60_000), every: Some(Every(ms(3_600_000))), on_failure: OnFailure::Hold, ..policy() };
        let mut story = Story::begun(policy);
        story.on(5, granted(0));
        assert_eq!(story.on(6, not_started(kind)), [release(0, 10_006)]);
        assert_eq!(story.on(7, Event::Released(Ok(StillHeld::Held))), exit(reason));

        let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..self::policy() });
        story.on(5, refused(0));
        assert_eq!(story.on(6, not_started(kind)), exit(reason));
    }
}

// Stop signals before the job.

#[test]
fn a_stop_signal_while_sleeping_or_waiting_ends_us_with_128_plus_n() {
    for signal in STOP_SIGNALS.into_iter().chain([Signal::USR1, Signal::from_number(40)]) {
        let mut splaying = Story::begun(Policy { splay: ms(5_000), ..policy() });
        assert_eq!(splaying.on(100, signalled(signal)), exit(ExitReason::Stopped(signal)));

        let mut waiting = Story::begun(Policy { wait: WaitLimit::Forever, ..policy() });
        waiting.on(5, held(60_000, 0));
        assert_eq!(waiting.on(6, signalled(signal)), exit(ExitReason::Stopped(signal)));
        assert_eq!(waiting.tick(99_000), [], "nothing is asked any more");
    }
}

#[test]
fn a_stop_signal_while_asking_gives_back_what_the_answer_brings() {
    for signal in STOP_SIGNALS {
        let mut story = Story::begun(policy());
        assert_eq!(story.on(100, signalled(signal)), [Action::StopTrying]);
        assert_eq!(story.on(200, granted(50)), [release(0, 1_100)]);
        assert_eq!(story.on(210, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Stopped(signal)));
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
    assert_eq!(story.tick(1_100), exit(ExitReason::Stopped(Signal::TERM)));

    let mut story = Story::begun(policy());
    story.on(100, signalled(Signal::TERM));
    story.on(1_000, granted(50));
    assert_eq!(story.due(), 1_100, "the giving back shares the second");
    assert_eq!(story.tick(1_100), exit(ExitReason::Stopped(Signal::TERM)));
}

#[test]
fn a_stop_signal_while_asking_ends_us_when_there_is_nothing_to_give_back() {
    for answer in [held(60_000, 50), refused(50)] {
        let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
        story.on(100, signalled(Signal::INT));
        assert_eq!(story.on(200, answer), exit(ExitReason::Stopped(Signal::INT)));
    }
}

#[test]
fn a_second_stop_signal_leaves_what_may_have_been_taken_its_second() {
    let mut story = Story::begun(policy());
    story.on(100, signalled(Signal::TERM));
    assert_eq!(story.on(101, signalled(Signal::HUP)), []);
    assert_eq!(story.due(), 1_100);
    assert_eq!(story.on(200, granted(50)), [release(0, 1_100)]);
    assert_eq!(story.on(201, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Stopped(Signal::TERM)));
}

#[test]
fn a_stop_signal_while_a_grant_that_came_too_late_goes_back_lets_it_go_back() {
    let policy = Policy { on_backend_error: OnBackendError::Run, backend_timeout: ms(90_000), ..policy() };
    let mut story = Story::begun(policy);
    assert_eq!(story.on(60_000, granted(0)), [release(0, 150_000)]);
    assert_eq!(story.on(60_100, signalled(Signal::TERM)), []);
    assert_eq!(story.due(), 61_000);
    assert_eq!(story.on(60_200, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Stopped(Signal::TERM)));
}

#[test]
fn a_stop_signal_does_not_change_how_we_end_once_that_is_decided() {
    let mut troubled = Story::begun(policy());
    troubled.tick(10_250);
    assert_eq!(troubled.on(10_300, signalled(Signal::TERM)), []);
    assert_eq!(troubled.on(10_400, granted(0)), [release(0, 11_250)]);
    assert_eq!(troubled.on(10_500, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Failed));

    let mut without = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
    without.tick(10_250);
    without.on(10_250, Event::Spawned);
    without.on(11_000, exited(4));
    assert_eq!(without.on(11_100, signalled(Signal::TERM)), []);
    assert_eq!(without.tick(12_000), exit(ExitReason::Exited(4)));
}

#[test]
fn signals_that_do_not_terminate_change_nothing() {
    for signal in [Signal::WINCH, Signal::CONT] {
        let mut story = Story::begun(policy());
        assert_eq!(story.on(100, signalled(signal)), []);
        assert_eq!(story.on(200, granted(0)), [spawn()]);
    }
}

// Nested runs.

#[test]
fn a_lock_that_an_enclosing_run_holds_is_no_obstacle_and_stays_with_it() {
    let record = LockState { owner: "host:1:0a".to_owned(), since: None, until: None, left: ms(60_000) };
    let enclosing = vec!["host:9:0b".to_owned(), record.owner.clone()];
    let held = |record: &LockState| Event::Acquired {
        answer: Ok(Acquired::Held(record.clone())),
        sent: t(0),
        ambiguous: false,
    };
    let mut story = Story::begun(Policy { enclosing: enclosing.clone(), ..policy() });
    assert_eq!(story.on(0, held(&record)), [Action::Spawn(Under::Enclosing(record.clone()))]);
    story.on(0, Event::Spawned);
    assert_eq!(story.due(), STOP_AT, "its own at-most counts for it");
    assert_eq!(story.on(1_000, exited(4)), exit(ExitReason::Exited(4)));

    let ended = LockState { owner: "host:1:0a:ended".to_owned(), ..record };
    let mut over = Story::begun(Policy { enclosing, ..policy() });
    assert_eq!(over.on(0, held(&ended)), exit(ExitReason::Skipped), "that run is over");
}

#[test]
fn an_answer_that_took_longer_than_half_of_the_lease_is_given_back() {
    let mut story = Story::begun(leased());
    assert_eq!(story.on(15_001, granted(0)), [release(0, 25_001)]);
    let mut story = Story::begun(leased());
    assert!(matches!(story.on(15_000, granted(0))[..], [Action::Spawn(_)]));
}
