//! Stories of a run that was stopped, or whose machine was.

use super::*;

#[test]
fn an_answer_that_came_while_we_were_stopped_counts() {
    // What shedlock finds on waking is a signal, an answer and a timer, in this order.
    let mut asking = Story::begun(policy());
    assert_eq!(asking.on(30_000, signalled(Signal::CONT)), []);
    assert_eq!(asking.on(30_000, granted(0)), [spawn()]);

    let mut extended = Story::running(extend());
    extended.tick(66_667);
    assert_eq!(extended.on(95_000, signalled(Signal::CONT)), [Action::Freeze]);
    let deadline = 66_670 + STOP_AT;
    assert_eq!(extended.on(95_000, renewed(Ok(StillHeld::Held), 66_670)), [renew(deadline)], "it was asked for before");
    assert_eq!(extended.tick(95_000), []);
    assert_eq!(
        extended.on(95_100, renewed(Ok(StillHeld::Held), 95_001)),
        [Action::Thaw, Action::Forward(Signal::CONT)]
    );

    let mut releasing = Story::running(policy());
    releasing.on(1_000, exited(0));
    assert_eq!(releasing.on(60_000, signalled(Signal::CONT)), []);
    assert_eq!(releasing.on(60_000, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(0)));
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
        assert_eq!(story.on(5_000, stall), [Action::Freeze]);
        assert_eq!(story.on(5_000, Event::JobStopped(Signal::STOP)), [], "that was us");
        assert_eq!(story.tick(5_000), [renew_leased(LEASE_STOP_AT)]);
        assert_eq!(story.on(5_001, Event::Stalled), [], "it is held already");
        assert_eq!(
            story.on(5_010, renewed(Ok(StillHeld::Held), 5_000)),
            [renew_leased(5_000 + LEASE_STOP_AT)],
            "not for the second one"
        );
        let goes_on = [vec![Action::Thaw], vec![Action::Forward(Signal::CONT); usize::from(continued)]].concat();
        assert_eq!(story.on(5_020, renewed(Ok(StillHeld::Held), 5_011)), goes_on);
    }
}

#[test]
fn on_a_terminal_a_job_that_is_held_does_not_stop_us() {
    let placement = Placement { group: Group::Shared, terminal: true, session_leader: false };
    let mut story = Story::running(Policy { placement, ..leased() });
    story.on(5_000, Event::Stalled);
    assert_eq!(story.on(5_000, Event::JobStopped(Signal::STOP)), []);
    story.tick(5_000);
    story.on(5_010, renewed(Ok(StillHeld::Held), 5_001));
    assert_eq!(story.on(6_000, Event::JobStopped(Signal::TSTP)), [Action::StopOurselves(Signal::TSTP)]);
}

#[test]
fn after_a_stall_a_job_whose_lock_is_lost_is_ended_and_not_continued() {
    let mut story = Story::running(leased());
    story.on(5_000, signalled(Signal::CONT));
    story.tick(5_000);
    assert_eq!(story.on(5_010, renewed(Ok(StillHeld::Lost), 5_000)), first_signals());
    let mut ignoring = Story::running(Policy { on_lost: OnLost::Ignore, ..leased() });
    ignoring.on(5_000, Event::Stalled);
    ignoring.tick(5_000);
    assert_eq!(ignoring.on(5_010, renewed(Ok(StillHeld::Lost), 5_000)), [Action::Thaw]);
}

#[test]
fn what_a_command_left_behind_that_ends_while_it_is_held_goes_on() {
    let mut story = Story::running(leased());
    story.on(5_000, Event::Stalled);
    story.tick(5_000);
    let todo = story.on(5_010, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(todo[..2], [Action::Thaw, Action::StopTrying]);
    assert!(matches!(todo[2..], [Action::Release { .. }]), "{todo:?}");
}

#[test]
fn after_a_stall_a_job_whose_lock_cannot_be_checked_is_ended_in_time() {
    let mut story = Story::running(leased());
    story.on(5_000, Event::Stalled);
    story.tick(5_000);
    story.on(5_010, renewed(Err(BackendError::transient("down")), 5_000));
    assert!(story.due() < LEASE_STOP_AT);
    assert_eq!(story.tick(LEASE_STOP_AT), first_signals());
}

#[test]
fn a_job_that_is_continued_while_it_is_held_is_held_again() {
    let mut story = Story::running(leased());
    story.on(5_000, signalled(Signal::CONT));
    story.tick(5_000);
    // ^Z and fg while the backend is silent.
    assert_eq!(story.on(6_000, signalled(Signal::CONT)), [Action::Freeze]);
    story.on(6_010, renewed(Ok(StillHeld::Held), 5_000));
    assert_eq!(story.on(6_020, renewed(Ok(StillHeld::Held), 6_010)), [Action::Thaw, Action::Forward(Signal::CONT)]);
}

#[test]
fn a_storm_of_sigcont_holds_the_job_for_one_check_a_second() {
    let mut story = Story::running(leased());
    story.on(5_000, signalled(Signal::CONT));
    story.tick(5_000);
    // A shell that continues shedlock continues the job, which is held all the same.
    assert_eq!(story.on(5_005, signalled(Signal::CONT)), [Action::Freeze]);
    assert_eq!(story.on(5_010, renewed(Ok(StillHeld::Held), 5_001)), [Action::Thaw, Action::Forward(Signal::CONT)]);
    assert_eq!(story.on(5_999, signalled(Signal::CONT)), []);
    assert_eq!(story.tick(5_999), [Action::Forward(Signal::CONT)]);
    assert_eq!(story.on(6_000, signalled(Signal::CONT)), [Action::Freeze]);
}

#[test]
fn a_job_that_is_held_is_let_go_by_a_stop_signal() {
    let mut story = Story::running(leased());
    story.on(5_000, Event::Stalled);
    story.tick(5_000);
    assert_eq!(story.on(5_010, signalled(Signal::USR1)), [Action::Forward(Signal::USR1)]);
    let stop = [Action::Forward(Signal::TERM), Action::Forward(Signal::CONT), Action::Thaw];
    assert_eq!(story.on(5_020, signalled(Signal::TERM)), stop, "the backend may take its time");
    assert_eq!(story.on(5_030, renewed(Ok(StillHeld::Lost), 5_000)), first_signals());

    let placement = Placement { group: Group::Shared, terminal: true, session_leader: false };
    let mut shared = Story::running(Policy { placement, ..leased() });
    shared.on(5_000, Event::Stalled);
    let typed = Event::Signalled { signal: Signal::INT, sender: Sender::Terminal };
    assert_eq!(shared.on(5_010, typed), [Action::Thaw], "the job has got it already");
}

#[test]
fn on_a_terminal_a_stop_while_the_job_is_held_stops_us() {
    let placement = Placement { group: Group::Shared, terminal: true, session_leader: false };
    let mut story = Story::running(Policy { placement, ..leased() });
    let typed = || Event::Signalled { signal: Signal::TSTP, sender: Sender::Terminal };
    assert_eq!(story.on(4_000, typed()), [], "the job stops first");
    story.on(5_000, Event::Stalled);
    assert_eq!(story.on(5_010, typed()), [Action::StopOurselves(Signal::TSTP)]);
    assert_eq!(story.on(6_000, signalled(Signal::CONT)), [Action::Freeze]);
}

#[test]
fn what_a_command_left_behind_that_ended_while_it_was_held_goes_on() {
    let mut story = Story::running(leased());
    story.on(5_000, Event::Stalled);
    story.tick(5_000);
    let todo = story.on(5_010, exited(0));
    assert_eq!(todo.first(), Some(&Action::Thaw), "{todo:?}");
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
            story.on(now, renewed(Ok(StillHeld::Held), now));
        }
        story
    };
    let mut after = kept_until(at_most);
    after.tick(at_most);
    assert_eq!(after.on(110_000, Event::Stalled), []);
    assert_eq!(after.on(110_000, signalled(Signal::CONT)), []);
    assert_eq!(after.tick(110_000), [Action::Forward(Signal::CONT)]);

    // It is used up while the lock is checked.
    for answer in [Ok(StillHeld::Lost), Err(BackendError::transient("down"))] {
        let mut before = kept_until(at_most);
        assert_eq!(before.on(99_000, Event::Stalled), [Action::Freeze]);
        before.tick(99_000);
        assert_eq!(before.tick(at_most), [Action::Thaw]);
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
