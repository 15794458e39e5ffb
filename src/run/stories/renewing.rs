//! Stories of a run that renews its lock.

use super::*;

// Extension.

#[test]
fn on_expiry_extend_renews_for_as_long_as_the_job_lives() {
    let mut story = Story::running(extend());
    assert_eq!(story.due(), 33_334);
    assert_eq!(story.tick(33_334), [renew(STOP_AT)]);
    assert_eq!(story.due(), STOP_AT);
    assert_eq!(story.on(33_400, renewed(Ok(StillHeld::Held), 33_340)), []);
    assert_eq!(story.due(), 33_340 + 33_334);
    assert_eq!(story.tick(66_674), [renew(33_340 + STOP_AT)]);
    story.on(66_700, renewed(Ok(StillHeld::Held), 66_680));
    assert_eq!(story.on(99_000, exited(0)), [release(0, 109_000)]);
    assert_eq!(story.on(190_001, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(0)));
}

#[test]
fn a_renewal_never_shortens() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    // An answer to a request from before the acquisition cannot come, but the end would stay where it is.
    story.on(66_700, Event::Renewed { answer: Ok(StillHeld::Held), sent: t(0) - ms(50_000) });
    story.tick(66_701);
    assert_eq!(story.due(), STOP_AT);
}

#[test]
fn a_lock_that_was_lost_ends_the_job_with_123() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    assert_eq!(story.on(66_700, renewed(Ok(StillHeld::Lost), 66_670)), first_signals());
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Lost(LossCause::Gone, _))), 1);
    assert_eq!(story.due(), 76_700, "SIGKILL follows after kill-after");
    assert_eq!(story.tick(76_700), [Action::KillTree]);
    assert_eq!(
        story.on(76_710, Event::JobEnded(JobEnd::Killed(Signal::KILL))),
        [Action::CheckLeftovers(Leftovers::Tree)]
    );
    assert_eq!(story.on(76_710, Event::LeftoversGone), [release(0, 86_710)], "for the record");
    assert_eq!(story.closed, [Closing::Ended { outcome: RunOutcome::Lost, exit_code: Some(123) }]);
    assert_eq!(story.on(76_711, Event::Released(Ok(StillHeld::Lost))), exit(ExitReason::Lost));
}

#[test]
fn a_job_whose_lock_was_lost_is_killed_before_the_lease_would_have_ended() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    // After a stall, the answer is seen first.
    assert_eq!(story.on(95_000, renewed(Ok(StillHeld::Lost), 66_670)), first_signals());
    assert_eq!(story.due(), KILL_AT);
}

#[test]
fn with_on_lost_ignore_the_job_runs_on() {
    let mut story = Story::running(Policy { on_lost: OnLost::Ignore, ..extend() });
    story.tick(66_667);
    assert_eq!(story.on(66_700, renewed(Ok(StillHeld::Lost), 66_670)), []);
    assert_eq!(story.run.deadline(), None);
    assert_eq!(story.tick(200_000), []);
    assert_eq!(story.on(300_000, exited(0)), [release(0, 310_000)], "for the record");
    assert_eq!(story.on(300_001, Event::Released(Ok(StillHeld::Lost))), exit(ExitReason::Exited(0)));
}

#[test]
fn a_renewal_that_failed_is_tried_again() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    assert_eq!(story.on(67_000, renewed(Err(BackendError::permanent("no right")), 66_670)), []);
    let again = story.due();
    assert!((67_050..STOP_AT).contains(&again), "{again}");
    assert_eq!(story.tick(again), [renew(STOP_AT)]);
    story.on(again + 10, renewed(Ok(StillHeld::Held), again));
    assert_eq!(story.due(), again + 33_334);
}

#[test]
fn a_lock_that_could_not_be_renewed_in_time_ends_the_job_before_the_lease_ends() {
    for answers in [false, true] {
        let mut story = Story::running(extend());
        story.tick(33_334);
        if answers {
            story.on(STOP_AT - 1, renewed(Err(BackendError::transient("down")), 33_340));
        }
        assert_eq!(story.due(), STOP_AT);
        assert_eq!(story.tick(STOP_AT), first_signals());
        assert_eq!(story.emitted(|notice| matches!(notice, Notice::Lost(LossCause::NotRenewed(_), _))), 1);
        assert_eq!(story.due(), KILL_AT);
        assert_eq!(story.tick(KILL_AT), [Action::KillTree]);
        story.on(97_960, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
        assert_eq!(story.on(97_960, Event::LeftoversGone), [release(0, 107_960)], "for all we know it is still ours");
        assert_eq!(story.on(97_970, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Lost));
    }
}

#[test]
fn that_the_lock_is_not_renewed_yet_is_told_once() {
    let mut story = Story::running(extend());
    for (now, told) in [(66_667, 1), (70_000, 1), (75_000, 1)] {
        story.tick(now);
        story.on(now, renewed(Err(BackendError::transient("down")), now));
        assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotRenewed(_))), told);
    }
    story.tick(80_000);
    story.on(80_000, renewed(Ok(StillHeld::Held), 80_000));
    story.tick(150_000);
    story.on(150_000, renewed(Err(BackendError::transient("down")), 150_000));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotRenewed(_))), 2);
}

#[test]
fn the_release_does_not_wait_for_a_renewal_that_is_tried_again_and_again() {
    let mut story = Story::running(extend());
    story.tick(66_667);
    assert_eq!(story.on(67_000, exited(0)), [Action::StopTrying, release(0, 77_000)]);
    assert_eq!(story.on(67_001, renewed(Err(BackendError::transient("down")), 66_670)), []);
    assert_eq!(story.on(67_002, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(0)));
}

#[test]
fn a_job_without_a_lock_has_nothing_to_extend() {
    let mut story = Story::running_without(extend());
    assert_eq!(story.run.deadline(), None);
    assert_eq!(story.tick(1_000_000), []);
    assert_eq!(story.on(1_000_001, exited(0)), exit(ExitReason::Exited(0)));
}

// Leases.

#[test]
fn a_lease_is_renewed_every_third_of_it_and_never_past_at_most() {
    let mut story = Story::running(leased());
    let mut renewals = Vec::new();
    let mut now = 0;
    while now < STOP_AT {
        now = story.due();
        if story.tick(now).iter().any(|action| matches!(action, Action::Renew { .. })) {
            renewals.push(now);
            story.on(now, renewed(Ok(StillHeld::Held), now));
        }
    }
    // The seventh lasts until at-most is used up.
    assert_eq!(renewals, [10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 70_000]);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Expired(..))), 1, "and then at-most is used up");
    assert_eq!(story.due(), KILL_AT);
}

#[test]
fn a_lease_that_cannot_be_renewed_ends_the_job_before_it_ends() {
    let mut story = Story::running(leased());
    assert_eq!(story.tick(10_000), [renew_leased(LEASE_STOP_AT)]);
    assert_eq!(story.due(), LEASE_STOP_AT);
    assert_eq!(story.tick(LEASE_STOP_AT), first_signals());
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Lost(LossCause::NotRenewed(_), OnLost::Kill))), 1);
    assert_eq!(story.due(), LEASE_KILL_AT);
    assert!(story.tick(LEASE_KILL_AT).contains(&Action::KillTree));
    story.on(28_490, Event::JobEnded(JobEnd::Killed(Signal::KILL)));
    assert_eq!(story.on(28_490, Event::LeftoversGone), [release(0, 38_490)]);
    assert_eq!(story.on(28_500, Event::Released(Ok(StillHeld::Lost))), exit(ExitReason::Lost));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::FoundLost(_))), 0, "it was noticed");
}

#[test]
fn a_backend_that_does_not_answer_is_told_from_a_run_that_did_not_ask() {
    let told = |story: &Story, wanted: &LossCause| {
        assert_eq!(story.emitted(|notice| matches!(notice, Notice::Lost(kind, _) if kind == wanted)), 1, "{wanted:?}");
    };
    // (asked at, given up at)
    for (asked, gave_up, kind) in [
        (10_000, LEASE_STOP_AT, LossCause::NotRenewed(None)),
        (15_000, LEASE_STOP_AT, LossCause::NotRenewed(None)),
        (17_000, LEASE_STOP_AT, LossCause::NotAsked(ms(7_000))),
        (10_000, LEASE_STOP_AT + 13_000, LossCause::NotAsked(ms(13_000))),
    ] {
        let mut story = Story::running(leased());
        story.tick(asked);
        story.tick(gave_up);
        told(&story, &kind);
    }
    let mut stalled = Story::running(leased());
    stalled.tick(LEASE_STOP_AT);
    told(&stalled, &LossCause::NotAsked(ms(LEASE_STOP_AT - 10_000)));
    // The thread that asks got no processor.
    let mut starved = Story::running(leased());
    starved.run.on(Event::Tick, t(10_000));
    starved.tick(LEASE_STOP_AT);
    told(&starved, &LossCause::NotAsked(ms(LEASE_STOP_AT - 10_000)));

    let mut troubled = Story::running(leased());
    let (first, last) = (BackendError::permanent("away"), BackendError::permanent("coarse"));
    troubled.tick(10_000);
    troubled.on(10_010, renewed(Err(first), 10_000));
    let again = troubled.due();
    troubled.tick(again);
    troubled.on(again, renewed(Err(last.clone()), again));
    troubled.tick(LEASE_STOP_AT);
    told(&troubled, &LossCause::NotRenewed(Some(last)));
}

#[test]
fn with_on_lost_ignore_a_renewal_is_tried_until_the_lease_has_ended() {
    let mut story = Story::running(Policy { on_lost: OnLost::Ignore, ..leased() });
    assert_eq!(story.tick(10_000), [renew_leased(30_000)]);
    assert_eq!(story.due(), 30_000);
    assert_eq!(story.tick(30_000), []);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Lost(LossCause::NotRenewed(_), OnLost::Ignore))), 1);
    assert_eq!(story.due(), STOP_AT, "at-most is the longest that a job may run all the same");
    assert_eq!(story.tick(STOP_AT), first_signals());
}

#[test]
fn until_at_least_the_lock_is_taken_for_more_than_a_lease() {
    let mut story = Story::running(Policy { at_least: ms(60_000), ..leased() });
    assert_eq!(story.tick(10_000), [renew_leased(45_000 + 7_485)], "whether it is ours is asked for all the same");
    story.on(10_010, renewed(Ok(StillHeld::Held), 10_000));
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

/// Returns a run whose job got its first signal, with a lease that ends before at-most does.
fn being_ended() -> Story {
    let mut story = Story::running(Policy { kill_after: ms(20_000), ..leased() });
    let mut last = 0;
    while last < 70_000 {
        last = story.due();
        story.tick(last);
        // One that is short of the limit, as of a server that was slow to answer.
        story.on(last, renewed(Ok(StillHeld::Held), last.min(69_000)));
    }
    assert_eq!(story.tick(77_950), first_signals());
    story
}

#[test]
fn while_a_job_is_being_ended_its_lease_is_renewed() {
    let mut story = being_ended();
    assert_eq!(story.tick(79_000), [renew_leased(99_000)]);
    assert_eq!(story.due(), 97_485, "if it is not renewed SIGKILL comes before the lease ends");
    story.on(79_100, renewed(Ok(StillHeld::Held), 79_001));
    assert_eq!(story.due(), KILL_AT);
    assert!(story.tick(KILL_AT).contains(&Action::KillTree));
    assert_eq!(story.tick(98_500), [Action::KillTree], "SIGKILL has its time");
    let kept = Action::Renew { term: Term { lease: ms(30_000), limit: None }, deadline: t(109_243) };
    assert!(story.tick(99_243).contains(&kept), "what not even that ends keeps the lock, which ends with at-most");
}

#[test]
fn a_lock_that_is_lost_while_the_job_is_being_ended_hastens_its_end() {
    let mut story = being_ended();
    story.tick(79_000);
    story.on(79_100, renewed(Ok(StillHeld::Lost), 79_001));
    assert_eq!(story.due(), 85_100);
}

#[test]
fn what_sigkill_cannot_end_is_not_called_lost_if_its_lock_cannot_be_kept() {
    let mut story = Story::running(leased());
    let mut now = 0;
    while now < 200_000 {
        now = story.due();
        let renews = story.tick(now).iter().any(|action| matches!(action, Action::Renew { .. }));
        let answer = if now < STOP_AT { Ok(StillHeld::Held) } else { Err(BackendError::transient("down")) };
        if renews {
            story.on(now, renewed(answer, now));
        }
    }
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Unkillable)), 1);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Lost(..))), 0);
}

#[test]
fn with_on_expiry_extend_a_lease_is_renewed_for_as_long_as_the_job_lives() {
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Extend, ..leased() });
    for third in 1..30 {
        let now = third * 10_000;
        let renewal =
            Action::Renew { term: Term { lease: ms(30_000), limit: None }, deadline: t(now - 10_000 + LEASE_STOP_AT) };
        assert_eq!(story.tick(now), [renewal]);
        story.on(now, renewed(Ok(StillHeld::Held), now));
    }
}
