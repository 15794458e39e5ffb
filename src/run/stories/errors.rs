//! Stories of a run whose backend cannot be asked.

use super::*;

#[test]
fn backend_trouble_is_125_or_a_skip_or_a_run_without_a_lock() {
    for (choice, todo) in [
        (OnBackendError::Fail, Action::Exit(ExitReason::Failed)),
        (OnBackendError::Skip, Action::Exit(ExitReason::Skipped)),
        (OnBackendError::Run, Action::Spawn(Under::Nothing)),
    ] {
        let mut story = Story::begun(Policy { on_backend_error: choice, ..policy() });
        assert_eq!(story.on(5, refused(0)), [todo]);
        assert!(matches!(&story.emitted[..], [Notice::Backend(_, told, None)] if *told == choice));
    }
}

#[test]
fn a_run_without_a_lock_has_nothing_to_release() {
    let mut story = Story::running_without(policy());
    assert_eq!(story.on(1_000, exited(3)), exit(ExitReason::Exited(3)));
}

#[test]
fn a_silent_backend_counts_as_trouble_after_backend_timeout() {
    for (choice, reason) in [(OnBackendError::Fail, ExitReason::Failed), (OnBackendError::Skip, ExitReason::Skipped)] {
        let mut story = Story::begun(Policy { on_backend_error: choice, ..policy() });
        assert_eq!(story.due(), 10_250);
        assert_eq!(story.tick(10_249), []);
        assert_eq!(story.tick(10_250), [Action::StopTrying]);
        // The request may yet be executed, and is then undone.
        assert_eq!(story.on(10_500, granted(10_000)), [release(0, 11_250)]);
        assert!(story.emitted.is_empty(), "what is left held is part of the line");
        assert_eq!(story.on(10_600, Event::Released(Ok(StillHeld::Held))), exit(reason));
        assert!(matches!(&story.emitted[..], [Notice::Released, Notice::Backend(_, told, None)] if *told == choice));
    }
    let mut story = Story::begun(policy());
    story.tick(10_250);
    assert_eq!(story.tick(11_250), exit(ExitReason::Failed), "it gets a second");
    assert!(matches!(&story.emitted[..], [Notice::Backend(_, _, Some(_))]), "{:?}", story.emitted);
}

#[test]
fn a_late_grant_is_given_back_while_the_job_runs_without_a_lock() {
    let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
    assert_eq!(story.tick(10_250), [Action::Spawn(Under::Nothing)]);
    story.on(10_250, Event::Spawned);
    assert_eq!(story.on(12_000, granted(0)), [release(0, 22_000)]);
    assert_eq!(story.on(12_010, Event::Released(Ok(StillHeld::Held))), []);
    assert_eq!(story.on(13_000, exited(0)), exit(ExitReason::Exited(0)));
}

#[test]
fn the_end_of_a_job_without_a_lock_waits_a_second_for_a_late_grant_to_go_back() {
    let giving_back = || {
        let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
        story.tick(10_250);
        story.on(10_250, Event::Spawned);
        assert_eq!(story.on(12_000, granted(0)), [release(0, 22_000)]);
        story.emitted.clear();
        story
    };
    let mut story = giving_back();
    assert_eq!(story.on(12_100, exited(4)), []);
    assert_eq!(story.due(), 13_100);
    assert_eq!(story.on(12_200, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(4)));

    let mut story = giving_back();
    story.on(12_100, exited(4));
    assert_eq!(story.tick(13_100), exit(ExitReason::Exited(4)));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotReleased(_))), 1);

    let mut story = giving_back();
    assert_eq!(story.on(12_100, Event::Released(Err(BackendError::transient("down")))), []);
    assert_eq!(
        story.emitted(|notice| matches!(notice, Notice::NotReleased(_))),
        1,
        "the lock stays held, and a line says so"
    );
    assert_eq!(story.on(13_000, exited(4)), exit(ExitReason::Exited(4)));
}

#[test]
fn a_command_that_could_not_be_executed_frees_the_lock_also_if_that_took_long() {
    for (kind, reason) in
        [(SpawnErrorKind::NotFound, ExitReason::NotFound), (SpawnErrorKind::CannotExecute, ExitReason::CannotExecute)]
    {
        let policy = Policy { at_least: ms(50_000), on_failure: OnFailure::Hold, ..policy() };
        let mut story = Story::running(policy);
        assert_eq!(story.on(20_000, not_started(kind)), [release(0, 30_000)]);
        assert_eq!(story.on(20_001, Event::Released(Ok(StillHeld::Held))), exit(reason));
        assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotStarted(_))), 1);
        assert_eq!(story.emitted(|notice| matches!(notice, Notice::Ended(..))), 0);
    }
    // Why it was ended counts more.
    let mut story = Story::running(policy());
    story.tick(STOP_AT);
    story.on(STOP_AT + 10, not_started(SpawnErrorKind::CannotExecute));
    story.on(STOP_AT + 11, Event::LeftoversGone);
    assert_eq!(story.on(STOP_AT + 20, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Expired));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotStarted(_))), 0);
}

#[test]
fn it_is_no_news_that_a_lock_was_lost_under_which_no_job_ran() {
    let policy = || Policy { backend_timeout: ms(300_000), ..policy() };
    let mut late = Story::begun(policy());
    late.on(200_000, granted(0));
    assert_eq!(late.on(200_001, Event::Released(Ok(StillHeld::Lost))), exit(ExitReason::Failed));
    assert!(matches!(&late.emitted[..], [Notice::Backend(..)]), "{:?}", late.emitted);

    let mut unstarted = Story::begun(policy());
    unstarted.on(1, granted(0));
    unstarted.on(2, not_started(SpawnErrorKind::NotFound));
    unstarted.on(200_001, Event::Released(Ok(StillHeld::Lost)));
    assert!(matches!(&unstarted.emitted[..], [Notice::Granted(_), Notice::NotStarted(_)]), "{:?}", unstarted.emitted);
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
    assert_eq!(story.on(11_600, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(4)));

    let mut story = without();
    story.on(11_000, exited(4));
    assert_eq!(story.tick(12_000), exit(ExitReason::Exited(4)));

    let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
    story.tick(10_250);
    assert_eq!(story.on(10_250, not_started(SpawnErrorKind::NotFound)), [Action::StopTrying]);
    assert_eq!(story.on(10_300, granted(0)), [release(0, 11_250)]);
    assert_eq!(story.on(10_310, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::NotFound));
}

#[test]
fn an_answer_that_took_longer_than_half_of_at_most_is_given_back_and_counts_as_trouble() {
    for (choice, then) in [
        (OnBackendError::Fail, Action::Exit(ExitReason::Failed)),
        (OnBackendError::Skip, Action::Exit(ExitReason::Skipped)),
        (OnBackendError::Run, Action::Spawn(Under::Nothing)),
    ] {
        let policy = Policy { on_backend_error: choice, backend_timeout: ms(90_000), ..policy() };
        let mut story = Story::begun(policy.clone());
        assert_eq!(story.on(50_001, granted(0)), [release(0, 140_001)]);
        assert_eq!(story.on(50_100, Event::Released(Ok(StillHeld::Held))), std::slice::from_ref(&then));
        let told = |notice: &Notice| matches!(notice, Notice::Backend(_, told, None) if *told == choice);
        assert_eq!((story.emitted(told), story.emitted.len()), (1, 2), "{:?}", story.emitted);

        let mut story = Story::begun(policy);
        story.on(50_001, granted(0));
        let due = story.due();
        assert_eq!(due, if choice == OnBackendError::Run { 51_001 } else { 140_251 }, "a job does not wait for it");
        assert_eq!(story.tick(due), [then]);
    }
}

#[test]
fn that_a_lock_which_came_too_late_could_not_be_given_back_is_told_once() {
    let policy = Policy { on_backend_error: OnBackendError::Run, backend_timeout: ms(90_000), ..policy() };
    let mut story = Story::begun(policy);
    story.on(50_001, granted(0));
    assert_eq!(story.tick(51_001), [Action::Spawn(Under::Nothing)]);
    story.on(51_001, Event::Spawned);
    assert_eq!(story.on(51_100, Event::Released(Err(BackendError::transient("down")))), []);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotReleased(_))), 1);
    assert_eq!(story.on(52_000, exited(0)), exit(ExitReason::Exited(0)));
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
