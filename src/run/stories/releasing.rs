//! Stories of a run whose job has ended: how long the lock stays held, the release, and the history.

use super::*;

// How long the lock stays held.

/// Returns how long the lock is held after a job of at-least 10 s that ended so.
fn hold_after(end: JobEnd, policy: Policy) -> Duration {
    let mut story = Story::running(Policy { at_least: ms(10_000), ..policy });
    match &story.on(1_000, Event::JobEnded(end))[..] {
        [Action::Release { hold, .. }] => *hold,
        other => panic!("{other:?}"),
    }
}

#[test]
fn on_failure_says_how_long_the_lock_is_held_after_a_failure() {
    let hour = Some(Every(ms(3_600_000)));
    for (on_failure, every, hold) in [
        (OnFailure::Release, None, 0),
        (OnFailure::Release, hour, 0),
        (OnFailure::AtLeast, None, 10_000),
        (OnFailure::AtLeast, hour, 3_240_000),
        (OnFailure::Hold, None, 100_000),
        (OnFailure::Hold, hour, 3_240_000),
        (OnFailure::Hold, Some(Every(ms(60_000))), 100_000),
    ] {
        let policy = Policy { on_failure, every, ..policy() };
        for end in [JobEnd::Exited(1), JobEnd::Killed(Signal::TERM)] {
            assert_eq!(hold_after(end, policy.clone()), ms(hold), "{on_failure:?} {every:?} {end:?}");
        }
        let success = every.map_or(10_000, |every| if Some(every) == hour { 3_240_000 } else { 54_000 });
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
    assert_eq!(story.on(88_000, Event::LeftoversGone), [release(0, 98_000)]);
}

// Releasing.

#[test]
fn trouble_with_the_release_never_changes_the_code() {
    for answer in [Ok(StillHeld::Lost), Err(BackendError::permanent("no")), Err(BackendError::transient("down"))] {
        let mut story = Story::running(policy());
        story.on(1_000, exited(6));
        story.emitted.clear();
        assert_eq!(story.on(2_000, Event::Released(answer)), exit(ExitReason::Exited(6)));
        assert!(matches!(&story.emitted[..], [Notice::FoundLost(_) | Notice::NotReleased(_)]), "one line says so");
    }
}

#[test]
fn the_release_is_tried_for_backend_timeout() {
    let mut story = Story::running(policy());
    story.on(1_000, exited(6));
    assert_eq!(story.due(), 11_250);
    assert_eq!(story.tick(11_249), []);
    assert_eq!(story.tick(11_250), exit(ExitReason::Exited(6)));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotReleased(_))), 1);
}

#[test]
fn a_release_that_a_pooler_refuses_for_a_time_of_its_own_is_tried_for_longer_once() {
    let refused =
        || Event::Released(Err(BackendError { lingers: true, ..BackendError::transient("server_login_retry") }));
    let mut story = Story::running(policy());
    story.on(1_000, exited(6));
    assert!(matches!(story.on(11_000, refused())[..], [Action::Release { .. }]));
    assert_eq!((story.due(), story.emitted(|notice| matches!(notice, Notice::NotReleased(_)))), (31_250, 0));
    assert_eq!(story.on(20_000, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(6)));
    // A second time it is the last word, and so it is after a stop signal.
    let mut story = Story::running(policy());
    story.on(1_000, exited(6));
    story.on(11_000, refused());
    story.on(12_000, signalled(Signal::TERM));
    assert_eq!(story.due(), 13_000);
    assert_eq!(story.on(12_500, refused()), exit(ExitReason::Exited(6)));
    let mut story = Story::running(policy());
    story.on(1_000, exited(6));
    story.on(2_000, signalled(Signal::TERM));
    assert_eq!(story.on(2_500, refused()), exit(ExitReason::Exited(6)));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotReleased(_))), 1);
}

#[test]
fn a_lock_whose_time_ran_out_while_its_release_was_refused_says_why_it_was_refused() {
    for (released, why) in [(99_000, false), (100_001, true)] {
        let mut story = Story::running(policy());
        story.on(1_000, exited(6));
        story.on(1_100, Event::Tried(BackendError::permanent("the user lacks rights")));
        story.emitted.clear();
        assert_eq!(story.on(released, Event::Released(Ok(StillHeld::Lost))), exit(ExitReason::Exited(6)));
        assert_eq!(matches!(&story.emitted[..], [Notice::NotReleased(_)]), why, "{:?}", story.emitted);
    }
}

#[test]
fn a_stop_signal_gives_the_release_a_second() {
    for signal in STOP_SIGNALS {
        let mut story = Story::running(policy());
        story.on(1_000, exited(6));
        // It goes on trying: the backend may only be busy, because a host that is shut down stops all its jobs at once.
        assert_eq!(story.on(2_000, signalled(signal)), []);
        assert_eq!(story.due(), 3_000);
        assert_eq!(story.on(2_500, signalled(signal)), []);
        assert_eq!(story.due(), 3_000);
        assert_eq!(story.tick(3_000), exit(ExitReason::Exited(6)));
        assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotReleased(_))), 1);
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

// What the history is told.

#[test]
fn the_history_is_told_how_the_run_ended() {
    let ended = |outcome, exit_code| vec![Closing::Ended { outcome, exit_code: Some(exit_code) }];
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
    assert_eq!(closed(&[exited(0)]), ended(RunOutcome::Success, 0));
    assert_eq!(closed(&[exited(3)]), ended(RunOutcome::Success, 3));
    assert_eq!(closed(&[exited(1)]), ended(RunOutcome::Failure, 1));
    assert_eq!(closed(&[Event::JobEnded(JobEnd::Killed(Signal::TERM))]), ended(RunOutcome::Failure, 143));

    let mut missing = Story::begun(policy());
    missing.on(0, granted(0));
    missing.on(0, not_started(SpawnErrorKind::NotFound));
    assert_eq!(missing.closed, ended(RunOutcome::Error, 127));

    let mut late = Story::begun(policy());
    late.on(60_000, granted(0));
    assert_eq!(late.closed, [Closing::Undone], "nothing has run");
}
