//! Stories of a run that sleeps, or waits for a lock that is held or for a server that is full.

use super::*;

#[test]
fn splay_sleeps_before_anything_is_asked() {
    let mut story = Story {
        run: Run::new(Policy { splay: ms(5_000), ..policy() }, "test:".to_owned(), t(0)),
        emitted: Vec::new(),
        recorded: Vec::new(),
        notified: Vec::new(),
        closed: Vec::new(),
        looks: Vec::new(),
    };
    assert_eq!(story.on(0, Event::Begin), []);
    assert_eq!(story.due(), 5_000);
    assert_eq!(story.tick(4_999), []);
    assert_eq!(story.tick(5_000), [acquire(15_000, WhenFull::Retry)]);
}

#[test]
fn a_waiter_gets_in_when_the_lock_is_free() {
    let mut story = Story::begun(Policy { wait: WaitLimit::UpTo(ms(60_000)), ..policy() });
    assert_eq!(story.on(5, held(60_000, 0)), []);
    let again = story.due();
    assert_eq!(story.tick(again - 1), []);
    assert_eq!(story.tick(again), [acquire(again + 10_000, WhenFull::Answer)]);
    assert_eq!(story.on(again + 5, granted(again)), [spawn()]);
    story.on(again + 5, Event::Spawned);
    assert_eq!(story.due(), again + STOP_AT);
}

#[test]
fn a_waiter_gives_up_when_its_time_is_over() {
    let mut story = Story::begun(Policy { wait: WaitLimit::UpTo(ms(3_000)), ..policy() });
    let mut now = 5;
    while story.on(now, held(60_000, now)).is_empty() {
        now = story.due();
        assert!(now <= 3_005, "{now}");
        story.tick(now);
    }
    assert_eq!(now, 3_005, "the last try is at the end of the wait");
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Held(_))), 1);
}

#[test]
fn a_waiter_tries_within_a_second_and_after_a_minute_within_five() {
    let mut story = Story::begun(Policy { wait: WaitLimit::Forever, ..policy() });
    let (mut asked, mut now) = (0, 20);
    while now < 200_000 {
        assert_eq!(story.on(now, held(1_000_000, asked)), []);
        asked = story.due();
        let longest = if now < 60_020 { 1_000 } else { 5_000 };
        assert!(asked > now, "{asked} after {now}");
        assert_eq!(story.tick(asked), [acquire(asked + 10_000, WhenFull::Answer)]);
        // The server takes a while, and all of the time from try to answer counts.
        assert!(asked + 20 - now <= longest, "{asked} after {now}");
        now = asked + 20;
    }
}

#[test]
fn a_waiter_tries_as_soon_as_the_holders_time_is_up() {
    let mut story = Story::begun(Policy { wait: WaitLimit::Forever, ..policy() });
    for now in [0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000] {
        story.on(now, held(10, now));
        let again = story.due();
        assert!((now + 5..=now + 40).contains(&again), "{again} after {now}");
        story.tick(again);
    }
}

#[test]
fn a_waiter_takes_full_for_no_error() {
    let mut story = Story::begun(Policy { wait: WaitLimit::Forever, ..policy() });
    let mut now = 0;
    while now < 200_000 {
        assert_eq!(story.on(now + 5, full(now)), []);
        let asked = story.due();
        let longest = if now < 60_000 { 1_000 } else { 5_000 };
        assert!(asked > now + 100 && asked <= now + longest, "{asked} after {now}");
        assert_eq!(story.tick(asked), [acquire(asked + 10_000, WhenFull::Answer)]);
        now = asked;
    }
    assert_eq!(story.emitted(|notice| !matches!(notice, Notice::ServerFull(_))), 0);
    assert_eq!(story.on(now + 5, granted(now)), [spawn()]);
}

#[test]
fn a_wait_for_a_lock_that_was_held_ends_as_for_a_held_lock_though_the_server_is_full() {
    let mut story = Story::begun(Policy { wait: WaitLimit::UpTo(ms(3_000)), ..policy() });
    assert_eq!(story.on(0, full(0)), []);
    let mut now = story.due();
    story.tick(now);
    assert_eq!(story.on(now, held(60_000, now)), []);
    loop {
        now = story.due();
        story.tick(now);
        let todo = story.on(now, full(now));
        if !todo.is_empty() {
            assert_eq!(todo, exit(ExitReason::Skipped));
            break;
        }
    }
    assert_eq!(now, 3_000);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Held(_))), 1);
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Backend(..))), 0);
}

#[test]
fn a_server_that_was_full_all_the_time_is_an_error_after_the_wait_or_backend_timeout_if_that_is_longer() {
    for (wait, over) in [(3_000, 10_000), (30_000, 30_000)] {
        for (choice, reason) in
            [(OnBackendError::Fail, ExitReason::Failed), (OnBackendError::Skip, ExitReason::Skipped)]
        {
            let wait = WaitLimit::UpTo(ms(wait));
            let mut story = Story::begun(Policy { wait, on_backend_error: choice, ..policy() });
            let mut now = 0;
            let todo = loop {
                let todo = story.on(now, full(now));
                if !todo.is_empty() {
                    break todo;
                }
                now = story.due();
                story.tick(now);
            };
            assert_eq!((now, todo), (over, exit(reason)));
            assert_eq!(story.emitted(|notice| matches!(notice, Notice::Backend(..))), 1);
        }
    }
}

#[test]
fn without_a_wait_full_is_trouble_that_has_been_tried_until_backend_timeout() {
    let mut story = Story::begun(policy());
    assert_eq!(story.on(10_000, full(9_990)), exit(ExitReason::Failed));
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::Backend(..))), 1);
}

#[test]
fn to_a_waiter_too_any_other_trouble_is_an_error() {
    for answer in
        [refused(0), Event::Acquired { answer: Err(BackendError::transient("down")), sent: t(0), ambiguous: false }]
    {
        let mut story = Story::begun(Policy { wait: WaitLimit::Forever, ..policy() });
        assert_eq!(story.on(5, answer), exit(ExitReason::Failed));
    }
}
