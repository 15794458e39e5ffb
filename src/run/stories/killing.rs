//! Stories of a run that has to end its job.

use super::*;

// Expiry.

#[test]
fn at_expiry_the_job_is_signalled_kill_after_and_a_margin_before_the_end_and_killed_the_margin_before() {
    let mut story = Story::running(policy());
    assert_eq!(story.due(), STOP_AT);
    assert_eq!(story.tick(STOP_AT - 1), []);
    assert_eq!(story.tick(STOP_AT), first_signals());
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Expired(..))), 1);
    assert_eq!(story.due(), KILL_AT);
    assert_eq!(story.tick(KILL_AT - 1), []);
    for again in [KILL_AT, KILL_AT + 50, KILL_AT + 150] {
        assert_eq!(story.due(), again, "SIGKILL is repeated: the job may be forking");
        assert_eq!(story.tick(again), [Action::KillTree]);
    }
    assert_eq!(
        story.on(98_160, Event::JobEnded(JobEnd::Killed(Signal::KILL))),
        [Action::CheckLeftovers(Leftovers::Tree)]
    );
    assert_eq!(story.on(98_160, Event::LeftoversGone), [release(0, 108_160)]);
    assert_eq!(story.on(98_170, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Expired));
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
    assert_eq!(story.on(88_000, exited(0)), [Action::CheckLeftovers(Leftovers::Tree)]);
    assert_eq!(story.on(88_000, Event::LeftoversGone), [release(0, 98_000)]);
    assert_eq!(story.on(88_001, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Expired));
}

#[test]
fn the_lock_is_not_released_before_all_that_the_job_left_is_dead() {
    let mut story = Story::running(policy());
    story.tick(STOP_AT);
    assert_eq!(story.on(88_000, exited(0)), [Action::CheckLeftovers(Leftovers::Tree)]);
    // A daemon is left; another one dies, and it is not all.
    assert_eq!(story.on(88_100, Event::OrphanEnded(JobEnd::Exited(0))), [Action::CheckLeftovers(Leftovers::Tree)]);
    assert_eq!(story.tick(KILL_AT), [Action::KillTree]);
    assert_eq!(story.on(97_960, Event::OrphanEnded(JobEnd::Exited(0))), [Action::CheckLeftovers(Leftovers::Tree)]);
    assert_eq!(story.on(97_960, Event::LeftoversGone), [release(0, 107_960)]);
}

#[test]
fn nothing_is_over_before_the_command_itself_was_reaped() {
    let mut story = Story::running(policy());
    story.tick(STOP_AT);
    assert_eq!(story.on(88_000, Event::OrphanEnded(JobEnd::Exited(0))), []);
    assert_eq!(story.on(88_000, Event::LeftoversGone), []);
    assert_eq!(story.on(88_001, exited(0)), [Action::CheckLeftovers(Leftovers::Tree)]);
}

#[test]
fn after_a_stall_past_the_end_the_job_is_killed_at_once() {
    let mut story = Story::running(policy());
    assert_eq!(story.tick(500_000), [Action::KillTree], "a first signal would only give it time");
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Unkillable)), 0, "SIGKILL has hardly been sent");
}

#[test]
fn a_job_without_a_lock_is_stopped_at_at_most_too() {
    let mut story = Story::running_without(policy());
    assert_eq!(story.due(), STOP_AT);
    assert_eq!(story.tick(STOP_AT), first_signals());
    assert_eq!(story.tick(KILL_AT), [Action::KillTree]);
    story.on(97_960, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(story.on(97_960, Event::LeftoversGone), exit(ExitReason::Expired));
}

#[test]
fn a_job_that_ends_in_time_was_not_stopped() {
    let mut story = Story::running(policy());
    assert_eq!(story.on(STOP_AT, exited(0)), [release(0, STOP_AT + 10_000)]);
    assert_eq!(story.on(STOP_AT + 1, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(0)));
}

#[test]
fn on_expiry_ignore_warns_once_and_lets_the_lock_go() {
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Ignore, at_least: ms(60_000), ..policy() });
    assert_eq!(story.due(), 100_000);
    assert_eq!(story.tick(100_000), []);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::ExpiredButRunning(..))), 1);
    assert_eq!(story.run.deadline(), None);
    assert_eq!(story.tick(200_000), []);
    assert_eq!(
        story.on(300_000, exited(0)),
        [release(60_000, 310_000)],
        "for the record, since the lock may be another's"
    );
    assert_eq!(story.on(300_001, Event::Released(Ok(StillHeld::Lost))), exit(ExitReason::Exited(0)));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::FoundLost(_))), 0, "that is known");
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::ExpiredButRunning(..))), 1);
}

#[test]
fn a_lock_whose_time_ran_out_is_told_from_one_that_another_took() {
    for (answered, kind) in [(99_990, LossCause::Gone), (100_000, LossCause::Late)] {
        let mut story = Story::running(policy());
        story.on(60_000, exited(0));
        story.on(answered, Event::Released(Ok(StillHeld::Lost)));
        assert_eq!(story.emitted(|notice| *notice == Notice::FoundLost(kind.clone())), 1, "{kind:?}");
        let mut story = Story::running(extend());
        story.tick(66_667);
        story.on(answered, renewed(Ok(StillHeld::Lost), 66_670));
        assert_eq!(story.emitted(|notice| matches!(notice, Notice::Lost(told, _) if *told == kind)), 1, "{kind:?}");
    }
}

#[test]
fn on_expiry_ignore_releases_what_is_still_ours() {
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Ignore, ..policy() });
    assert_eq!(story.on(99_999, exited(0)), [release(0, 109_999)]);
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
        story.on(sent + 5, renewed(Ok(StillHeld::Held), sent));
        end = sent + 100_000;
    }
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Unkillable)), 1);
    story.on(end - 50_000, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(story.on(end - 50_000, Event::LeftoversGone), [release(0, end - 40_000)]);
    assert_eq!(story.on(end - 49_990, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Expired));
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
        run.on(Event::Renewed { answer: Ok(StillHeld::Held), sent }, sent + ms(5));
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
            story.on(now, renewed(Err(BackendError::permanent("no right")), now));
        }
    }
    assert!((2..30).contains(&requests), "{requests}");
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Unkillable)), 1);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotRenewed(_))), 1);
}

#[test]
fn that_the_lock_was_lost_is_told_once() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    story.tick(STOP_AT);
    story.tick(KILL_AT);
    let now = story.due().max(99_000);
    assert!(story.tick(now).contains(&renew(now + 10_000)), "it could not be renewed, and cannot be killed");
    story.on(now + 1, renewed(Ok(StillHeld::Lost), now));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Lost(..))), 1);
    story.on(now + 2, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(story.on(now + 2, Event::LeftoversGone), [release(0, now + 10_002)]);
    assert_eq!(story.on(now + 3, Event::Released(Err(BackendError::transient("down")))), exit(ExitReason::Lost));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotReleased(_))), 0, "there was nothing to release");
}

#[test]
fn a_late_answer_to_a_renewal_counts() {
    // It could not be renewed in time, and the answer comes when the job is being ended already.
    let mut gone = Story::running(extend());
    gone.tick(66_667);
    gone.tick(STOP_AT);
    gone.on(90_000, renewed(Ok(StillHeld::Lost), 66_670));
    gone.on(90_001, exited(0));
    assert_eq!(gone.on(90_001, Event::LeftoversGone), [release(0, 100_001)]);
    gone.on(90_002, Event::Released(Ok(StillHeld::Lost)));
    assert_eq!(gone.emitted(|notice| matches!(notice, Notice::FoundLost(_))), 0, "there was nothing to release");

    let mut kept = Story::running(extend());
    kept.tick(66_667);
    kept.tick(STOP_AT);
    kept.on(90_000, renewed(Ok(StillHeld::Held), 66_670));
    for now in [KILL_AT, 98_500, 99_500] {
        assert_eq!(kept.tick(now), [Action::KillTree], "there is no hurry to renew it again");
    }

    let mut refused = Story::running(extend());
    refused.tick(66_667);
    refused.tick(STOP_AT);
    refused.on(STOP_AT + 1, renewed(Err(BackendError::transient("down")), 66_670));
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
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Unkillable)), 0);
    story.on(155_360, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(story.on(155_360, Event::LeftoversGone), [release(0, 165_360)], "for the record");
}

#[test]
fn with_on_expiry_ignore_a_lease_is_renewed_until_at_most_and_then_let_go() {
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Ignore, ..leased() });
    let mut now = 0;
    while now < 100_000 {
        now = story.due();
        if story.tick(now).iter().any(|action| matches!(action, Action::Renew { .. })) {
            story.on(now, renewed(Ok(StillHeld::Held), now));
        }
    }
    assert_eq!(now, 100_000);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::ExpiredButRunning(..))), 1);
    assert_eq!(story.run.deadline(), None);
}
