//! Stories of what the metrics and the command of `--notify` are told.

use super::*;

fn ended(outcome: RunOutcome, exit_code: u8) -> RunMetrics {
    RunMetrics::Ended { outcome: Some(outcome), exit_code }
}

#[test]
fn a_run_is_counted_and_notified_of_at_its_start_and_its_end() {
    let mut story = Story::running(policy());
    let start = &story.notified[0];
    assert_eq!((start.event, start.token, start.end), (NotifyEvent::Start, GRANT.token, None));
    assert_eq!(start.explanation, Some(Notice::Granted(GRANT)));
    story.on(5_000, exited(3));
    // The lock has yet to be released, and the end of the job is recorded already.
    assert_eq!(story.recorded, [RunMetrics::Started, ended(RunOutcome::Failure, 3)]);
    assert_eq!(story.notified.len(), 1);
    story.on(5_100, Event::Released(Ok(StillHeld::Held)));
    let end = &story.notified[1];
    let reason = ExitReason::Exited(3);
    assert_eq!((end.event, end.token), (NotifyEvent::Ended(RunOutcome::Failure), GRANT.token));
    assert_eq!(end.end, Some((reason, ms(5_000))));
    assert_eq!(end.explanation, Some(Notice::Ended(reason, ms(5_000))));
    assert_eq!(story.recorded.len(), 2);
}

#[test]
fn a_job_that_is_stopped_at_expiry_is_explained_by_that() {
    let mut story = Story::running(policy());
    story.tick(STOP_AT);
    story.on(STOP_AT + 100, Event::JobEnded(JobEnd::Killed(Signal::TERM)));
    story.on(STOP_AT + 100, Event::LeftoversGone);
    story.on(STOP_AT + 200, Event::Released(Ok(StillHeld::Held)));
    assert_eq!(story.recorded[1], ended(RunOutcome::Expired, 124));
    assert_eq!(story.notified[1].event, NotifyEvent::Ended(RunOutcome::Expired));
    assert!(matches!(story.notified[1].explanation, Some(Notice::Expired(..))), "{:?}", story.notified[1]);
}

#[test]
fn a_run_that_finds_the_lock_held_is_a_skip_and_one_that_is_stopped_before_is_nothing() {
    let mut story = Story::begun(policy());
    story.on(5, held(60_000, 0));
    assert_eq!(story.recorded, [RunMetrics::Ended { outcome: None, exit_code: 0 }]);
    assert_eq!(story.notified[0].event, NotifyEvent::Skipped);
    assert!(matches!(story.notified[0].explanation, Some(Notice::Held(_))));

    let mut stopped = Story::begun(Policy { splay: ms(5_000), ..policy() });
    assert_eq!(stopped.on(5, signalled(Signal::TERM)), exit(ExitReason::Stopped(Signal::TERM)));
    assert_eq!((stopped.recorded.len(), stopped.notified.len()), (0, 0));
}

#[test]
fn a_run_within_the_run_that_holds_the_lock_leaves_both_to_that_one() {
    let mut story = Story::begun(Policy { enclosing: vec!["other:1:2".to_owned()], ..policy() });
    story.on(5, held(60_000, 0));
    story.on(5, Event::Spawned);
    assert_eq!(story.on(50, exited(0)), exit(ExitReason::Exited(0)));
    assert_eq!((story.recorded.len(), story.notified.len()), (0, 0));
}

#[test]
fn a_backend_that_was_never_reached_holds_nothing_that_could_not_be_released() {
    for reached in [false, true] {
        let mut story = Story::begun(policy());
        if !reached {
            story.on(0, Event::BackendLeft);
        }
        story.on(100, signalled(Signal::TERM));
        story.tick(1_100);
        let told = story.emitted(|notice| matches!(notice, Notice::NotUndone(..)));
        assert_eq!(told, usize::from(reached));
    }
}
