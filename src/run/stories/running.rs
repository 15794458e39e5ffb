//! Stories of a run while its job lives: signals, and what the command leaves behind.

use super::*;

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
    assert_eq!(story.on(2_001, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(5)));
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
        assert_eq!(story.emitted(|notice| matches!(notice, Notice::StopTimeout(_))), 1);
        assert_eq!(
            story.on(6_010, Event::JobEnded(JobEnd::Killed(Signal::KILL))),
            [Action::CheckLeftovers(Leftovers::Tree)]
        );
        assert_eq!(story.tick(6_050), [Action::KillTree], "a daemon is left");
        assert_eq!(story.on(6_051, Event::LeftoversGone), [release(0, 16_051)]);
        assert_eq!(story.on(6_060, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Killed(Signal::KILL)));
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
    assert_eq!(story.on(89_001, Event::LeftoversGone), [release(0, 99_001)]);
    assert_eq!(story.on(89_002, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Expired));
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
    let mut story = Story::begun(Policy { wait: WaitLimit::Forever, ..policy() });
    story.on(5, held(60_000, 0));
    assert_eq!(story.on(6, signalled(Signal::TSTP)), [Action::StopOurselves(Signal::TSTP)]);
}

// What the command leaves behind.

#[test]
fn the_job_has_ended_when_what_it_is_waited_for_has() {
    for leftovers in [Leftovers::Group, Leftovers::Tree] {
        let mut story = Story::running(Policy { wait_for: WaitFor::Leftovers(leftovers), ..policy() });
        assert_eq!(story.on(1_000, exited(3)), [Action::CheckLeftovers(leftovers)]);
        assert_eq!(story.on(1_500, Event::OrphanEnded(JobEnd::Exited(0))), [Action::CheckLeftovers(leftovers)]);
        assert_eq!(story.on(1_600, signalled(Signal::USR1)), [Action::Forward(Signal::USR1)], "the rest may want it");
        assert_eq!(story.on(1_700, Event::LeftoversGone), [release(0, 11_700)]);
        assert_eq!(story.on(1_701, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(3)));
    }
}

#[test]
fn a_process_that_leaves_the_group_is_missed_within_a_second() {
    let mut story = Story::running(Policy { wait_for: WaitFor::Leftovers(Leftovers::Group), ..policy() });
    story.on(1_000, exited(0));
    assert_eq!(story.due(), 2_000);
    assert_eq!(story.tick(2_000), [Action::CheckLeftovers(Leftovers::Group)]);
    assert_eq!(story.due(), 3_000);
}

#[test]
fn what_the_command_left_behind_is_ended_at_at_most() {
    let mut story = Story::running(Policy { wait_for: WaitFor::Leftovers(Leftovers::Tree), ..policy() });
    story.on(1_000, exited(0));
    assert_eq!(story.tick(STOP_AT), first_signals());
    assert_eq!(story.tick(KILL_AT), [Action::KillTree]);
    assert_eq!(story.on(97_960, Event::OrphanEnded(JobEnd::Exited(0))), [Action::CheckLeftovers(Leftovers::Tree)]);
    story.on(97_960, Event::LeftoversGone);
    assert_eq!(story.on(97_961, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Expired));
}
