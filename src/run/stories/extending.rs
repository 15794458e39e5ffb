//! Stories of a run whose at-most is extended while its job lives.

use super::*;

/// The time at which shedlock queries the lock's end, in milliseconds.
const LOOK_AT: u64 = STOP_AT - 2_000;

/// Returns the time so many milliseconds after the grant, by the backend's clock.
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
    assert_eq!((story.looks.len(), story.emitted(|notice| matches!(notice, Notice::Extended(_)))), (1, 0));
}

#[test]
fn a_job_whose_lock_was_extended_lives_on_and_the_new_end_is_asked_for_too() {
    let mut story = Story::running(policy());
    story.tick(LOOK_AT);
    assert_eq!(story.on(86_000, seen(until(180_000), 94_100, 85_960)), []);
    assert_eq!(story.emitted, [Notice::Granted(GRANT), Notice::Extended(until(180_000))]);
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
        assert_eq!(story.emitted(|notice| matches!(notice, Notice::Extended(_))), extended, "{later}");
    }
    // Shedlock's clock is fast: in a day it may gain more than that.
    let mut story = Story::running(policy());
    story.tick(LOOK_AT);
    story.on(86_000, seen(until(100_000), 18_000, 85_960));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Extended(_))), 0);
}

#[test]
fn a_backend_that_cannot_be_asked_for_the_end_keeps_nobody_from_stopping_the_job() {
    let mut story = Story::running(policy());
    story.tick(LOOK_AT);
    // It is asked again while there is time.
    story.on(LOOK_AT + 10, Event::Queried { answer: Err(BackendError::permanent("down")), sent: t(LOOK_AT) });
    assert_eq!(story.next(), LOOK_AT + 510);
    assert_eq!((story.tick(LOOK_AT + 510), story.looks.len()), (vec![], 2));
    assert_eq!(story.next(), STOP_AT);
    assert_eq!(story.tick(STOP_AT), first_signals());
    // An answer now comes too late.
    assert_eq!(story.on(STOP_AT + 1, seen(until(200_000), 112_000, LOOK_AT + 510)), []);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Extended(_))), 0);
    assert_eq!(story.next(), KILL_AT);
    assert_eq!(story.on(STOP_AT + 2, exited(0)), [Action::CheckLeftovers(Leftovers::Tree)]);
    assert_eq!(story.on(STOP_AT + 2, Event::LeftoversGone), [release(0, STOP_AT + 10_002)]);
}

#[test]
fn a_look_that_is_under_way_when_the_job_ends_is_not_tried_again() {
    let mut story = Story::running(policy());
    story.tick(LOOK_AT);
    assert_eq!(story.on(LOOK_AT + 1, exited(0)), [Action::StopTrying, release(0, LOOK_AT + 10_001)]);
    assert_eq!(story.on(LOOK_AT + 2, seen(until(200_000), 114_000, LOOK_AT)), []);
    assert_eq!(story.on(LOOK_AT + 3, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(0)));
}

#[test]
fn a_job_whose_lock_is_seen_to_be_lost_is_stopped() {
    let mut story = Story::running(policy());
    story.tick(LOOK_AT);
    let gone = || Event::Queried { answer: Ok(Ownership::Gone), sent: t(LOOK_AT) };
    assert_eq!(story.on(LOOK_AT + 10, gone()), first_signals());
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Lost(LossCause::Gone, OnLost::Kill))), 1);
    story.on(LOOK_AT + 20, exited(0));
    story.on(LOOK_AT + 20, Event::LeftoversGone);
    assert_eq!(story.on(LOOK_AT + 30, Event::Released(Ok(StillHeld::Lost))), exit(ExitReason::Lost));

    let mut ignored = Story::running(Policy { on_lost: OnLost::Ignore, ..policy() });
    ignored.tick(LOOK_AT);
    assert_eq!(ignored.on(LOOK_AT + 10, gone()), []);
    assert_eq!(ignored.tick(STOP_AT), first_signals());

    // After a stall: its time is up, and that is all.
    let mut late = Story::running(policy());
    late.tick(LOOK_AT);
    assert_eq!(late.on(150_000, gone()), []);
    assert_eq!(late.tick(150_000), [Action::KillTree]);
    assert_eq!(late.emitted(|notice| matches!(notice, Notice::Lost(..))), 0);
    assert_eq!(late.emitted(|notice| matches!(notice, Notice::Expired(..))), 1);
}

#[test]
fn a_job_that_may_run_on_keeps_its_extended_lock_until_the_new_end() {
    let mut story = Story::running(Policy { on_expiry: OnExpiry::Ignore, ..policy() });
    assert_eq!(story.next(), 98_000);
    assert_eq!((story.tick(98_000), &story.looks[..]), (vec![], &[t(100_000)][..]));
    story.on(98_010, seen(until(150_000), 51_950, 98_005));
    assert_eq!(story.tick(100_000), []);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::ExpiredButRunning(..))), 0);
    assert_eq!(story.next(), 149_955 - 2_000);
    story.tick(149_955 - 2_000);
    story.on(148_000, seen(until(150_000), 2_000, 147_960));
    assert_eq!(story.tick(149_955), []);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::ExpiredButRunning(..))), 1);
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
    extend.on(66_680, renewed(Ok(StillHeld::Held), 66_670));
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
        story.on(now + 5, renewed(Ok(StillHeld::Held), now));
        now += 10_000;
    }
    // It lasts until at-most is used up.
    assert_eq!(story.next(), LOOK_AT);
    assert_eq!((story.tick(LOOK_AT), story.looks.len()), (vec![], 1));
    let guard = story.on(LOOK_AT + 10, seen(until(180_000), 94_045, LOOK_AT + 5));
    let lease_end = LOOK_AT + 5 + 30_000;
    let before_end = story.run.timing.before_end;
    assert_eq!(guard, [Action::Guard(Some(before_end.guard_after(before_end.kill_at(t(lease_end)))))]);
    assert_eq!(story.next(), LOOK_AT + 5 + 10_000);
    let todo = story.tick(LOOK_AT + 5 + 10_000);
    let limit = Some(t(LOOK_AT + 5 + 94_045));
    assert!(matches!(todo[..], [Action::Renew { term, .. }] if term.limit == limit), "{todo:?}");
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
        story.on(now + 4_000, renewed(Ok(StillHeld::Held), now));
        now += 10_000;
    }
    story.tick(LOOK_AT);
    // Carried out just before it was answered, for as long as was left when it was sent.
    story.on(LOOK_AT + 10, seen(until(104_000), 104_000 - LOOK_AT, LOOK_AT));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Extended(_))), 0);
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
                story.on(now + 5, renewed(Ok(StillHeld::Held), now));
            }
            story.tick(70_000);
            if !silence {
                story.on(76_000, renewed(Ok(StillHeld::Held), 75_900));
            } else {
                story.on(76_000, renewed(Err(BackendError::transient("timed out").ambiguous()), 70_000));
                let again = story.next();
                story.tick(again);
                story.on(again + 10, renewed(Ok(StillHeld::Held), again));
            }
            assert_eq!((story.next(), story.tick(LOOK_AT)), (LOOK_AT, vec![]));
            // The first one was carried out a moment ago; or somebody has extended the lock to more than that gives.
            story.on(LOOK_AT + 10, seen(until(LOOK_AT + left), left, LOOK_AT));
            let told = story.emitted(|notice| matches!(notice, Notice::Extended(_)));
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
                false => Notice::ExpiredButRunning(ms(100_000), extension),
            };
            assert!(story.emitted.contains(&told), "{:?}", story.emitted);
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
            story.on(now + 5, renewed(Ok(StillHeld::Held), now));
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
    under_way.on(86_000, renewed(Ok(StillHeld::Held), 85_500));
    assert_eq!((under_way.tick(86_000), under_way.looks.len()), (vec![], 1));
}
