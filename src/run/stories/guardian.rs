//! Stories of a run whose job is watched over by a guardian.

use super::*;

fn guarded() -> Policy {
    Policy { guarded: true, ..leased() }
}

/// Returns the deadline that the guardian gets for a lease that ends at `end`, in milliseconds.
fn guard(end: u64) -> Action {
    Action::Guard(Some(Moment::at(ms(1_000_000 + end) - Duration::from_micros(1_136_250))))
}

#[test]
fn a_guardian_is_there_before_the_command_and_learns_of_every_renewal() {
    let mut story = Story::begun(guarded());
    let todo = story.on(0, granted(0));
    assert_eq!(todo[0], guard(30_000));
    assert!(matches!(todo[1..], [Action::Spawn(_)]));
    story.on(0, Event::Spawned);
    story.tick(10_000);
    assert_eq!(story.on(10_010, renewed(Ok(StillHeld::Held), 10_000)), [guard(40_000)]);
}

#[test]
fn the_guardian_kills_nothing_that_may_outlive_its_lock() {
    let ignoring = Policy { on_lost: OnLost::Ignore, ..guarded() };
    assert_eq!(Story::begun(ignoring).on(0, granted(0))[0], Action::Guard(None));
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Ignore, ..guarded() });
    story.tick(70_000);
    assert_eq!(story.on(70_000, renewed(Ok(StillHeld::Held), 70_000)), [Action::Guard(None)], "it lasts until at-most");
}

#[test]
fn a_job_that_the_guardian_had_to_kill_was_lost_or_had_expired() {
    for (renewed_at, reason) in [(None, ExitReason::Lost), (Some(75_000), ExitReason::Expired)] {
        let mut story = Story::running(guarded());
        let mut end = 30_000;
        if let Some(at) = renewed_at {
            story.tick(at - 60_000);
            story.on(at, renewed(Ok(StillHeld::Held), at));
            end = 100_000;
        }
        let killed = Event::JobEnded(JobEnd::Killed(Signal::KILL));
        // It may have missed something that shedlock finds.
        let todo = story.on(end + 50_000, killed);
        assert!(todo.contains(&Action::KillTree), "{todo:?}");
        let todo = story.on(end + 50_000, Event::LeftoversGone);
        assert!(matches!(todo.last(), Some(Action::Release { .. })), "{todo:?}");
        story.on(end + 50_001, Event::Released(Ok(StillHeld::Lost)));
        assert!(matches!(story.run.phase, Phase::Done));
        let outcome = if reason == ExitReason::Lost { RunOutcome::Lost } else { RunOutcome::Expired };
        assert_eq!(story.closed, [Closing::Ended { outcome, exit_code: Some(reason.exit(0).code) }]);
    }
}

#[test]
fn a_rest_of_the_job_that_the_guardian_had_to_kill_was_lost_too() {
    let wait_for = WaitFor::Leftovers(Leftovers::Tree);
    for (end, code) in [(JobEnd::Killed(Signal::KILL), ExitReason::Lost), (JobEnd::Exited(0), ExitReason::Exited(3))] {
        let mut story = Story::running(Policy { wait_for, ..guarded() });
        story.on(1_000, exited(3));
        story.on(60_000, Event::OrphanEnded(end));
        story.on(60_000, Event::LeftoversGone);
        assert_eq!(story.on(60_010, Event::Released(Ok(StillHeld::Lost))), exit(code));
        // The command had ended by itself, but shedlock was stopped and hears of both at once.
        let mut story = Story::running(Policy { wait_for, ..guarded() });
        story.on(60_000, Event::OrphanEnded(end));
        story.on(60_000, exited(3));
        story.on(60_000, Event::LeftoversGone);
        assert_eq!(story.on(60_010, Event::Released(Ok(StillHeld::Lost))), exit(code));
    }
}

#[test]
fn a_job_that_ended_by_itself_while_we_were_stopped_keeps_its_code() {
    let mut story = Story::running(guarded());
    assert_eq!(story.on(80_000, exited(5)), [release(0, 90_000)]);
    story.on(80_001, Event::Released(Ok(StillHeld::Lost)));
    assert_eq!(story.closed, [Closing::Ended { outcome: RunOutcome::Failure, exit_code: Some(5) }]);
}

#[test]
fn a_job_whose_lock_is_lost_is_killed_by_the_guardian_if_not_by_us() {
    let mut story = Story::running(guarded());
    story.tick(10_000);
    let todo = story.on(10_010, renewed(Ok(StillHeld::Lost), 10_000));
    let after_our_own = Moment::at(ms(1_000_000 + 16_010) + Duration::from_micros(378_750));
    assert_eq!(todo, [first_signals(), vec![Action::Guard(Some(after_our_own))]].concat());
}

#[test]
fn a_job_that_was_killed_by_somebody_else_was_killed() {
    let mut story = Story::running(guarded());
    assert_eq!(story.on(5_000, Event::JobEnded(JobEnd::Killed(Signal::KILL))), [release(0, 15_000)]);
    assert_eq!(story.on(5_001, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Killed(Signal::KILL)));
}
