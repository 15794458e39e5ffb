//! Stories of a run that lost the answer to a request.

use super::*;

#[test]
fn what_an_unanswered_request_may_have_taken_is_given_back_before_we_end() {
    for (choice, reason) in [(OnBackendError::Fail, ExitReason::Failed), (OnBackendError::Skip, ExitReason::Skipped)] {
        let begun = || Story::begun(Policy { on_backend_error: choice, ..policy() });
        for answer in [Ok(StillHeld::Held), Ok(StillHeld::Lost), Err(BackendError::transient("down").ambiguous())] {
            let mut story = begun();
            assert_eq!(story.on(5_000, ambiguous(4_000)), [release(0, 10_250)]);
            assert_eq!(story.on(5_100, Event::Released(answer)), exit(reason), "one release is enough");
        }
        let mut story = begun();
        story.on(5_000, ambiguous(4_000));
        assert_eq!(story.due(), 10_250, "it gets what is left of --backend-timeout");
        assert_eq!(story.on(5_500, signalled(Signal::TERM)), []);
        assert_eq!(story.due(), 6_500, "and after a stop signal a second");
        assert_eq!(story.tick(6_500), exit(reason));
        let mut late = begun();
        assert_eq!(late.on(10_000, ambiguous(4_000)), [release(0, 11_000)], "and a second at least");
    }
}

#[test]
fn where_no_answer_comes_the_last_try_says_why() {
    let refusal = |text: &str| BackendError::transient(text);
    let mut story = Story::begun(policy());
    story.on(1_000, Event::Tried(refusal("refused")));
    story.on(2_000, Event::Tried(refusal("silent")));
    // What the run may have acquired is undone before it reports the error.
    for _ in 0..2 {
        let due = story.due();
        story.tick(due);
    }
    let said = format!("{:?}", story.emitted);
    assert!(said.contains("silent") && !said.contains("refused"), "{said}");
    // The acquisition was answered, and the release is not.
    let mut story = Story::begun(policy());
    story.on(1_000, Event::Tried(refusal("refused")));
    story.on(2_000, granted(2_000));
    story.on(2_000, Event::Spawned);
    story.on(3_000, Event::JobEnded(JobEnd::Exited(0)));
    let due = story.due();
    story.tick(due);
    let said = format!("{:?}", story.emitted);
    assert!(said.contains("did not answer in time") && !said.contains("refused"), "{said}");
}

#[test]
fn that_it_could_not_be_given_back_is_part_of_the_complaint() {
    let told = |release: Option<Event>| {
        let mut story = Story::begun(policy());
        story.on(5_000, ambiguous(4_000));
        match release {
            Some(event) => story.on(5_100, event),
            None => story.tick(10_250),
        };
        story.emitted
    };
    for release in [Some(Event::Released(Err(BackendError::transient("down")))), None] {
        assert!(matches!(told(release)[..], [Notice::Backend(_, _, Some(_))]));
    }
    assert!(matches!(told(Some(Event::Released(Ok(StillHeld::Lost))))[..], [Notice::Backend(..)]));
}

#[test]
fn a_job_that_is_to_run_without_a_lock_does_not_wait_for_the_giving_back() {
    let without = || {
        let mut story = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
        assert_eq!(story.on(5_000, ambiguous(4_000)), [release(0, 15_000), Action::Spawn(Under::Nothing)]);
        story.on(5_000, Event::Spawned);
        story
    };
    let mut story = without();
    assert_eq!(story.on(5_100, Event::Released(Ok(StillHeld::Held))), []);
    assert_eq!(story.on(6_000, exited(3)), exit(ExitReason::Exited(3)));

    let mut story = without();
    assert_eq!(story.on(5_100, exited(3)), []);
    assert_eq!(story.tick(6_100), exit(ExitReason::Exited(3)), "at the end it gets a second");
    assert_eq!(story.emitted(|notice| matches!(notice, Notice::NotReleased(_))), 0);
}

#[test]
fn an_answer_that_was_lost_after_we_gave_up_is_given_back_in_the_rest_of_the_second() {
    let mut stopped = Story::begun(policy());
    stopped.on(100, signalled(Signal::TERM));
    assert_eq!(stopped.on(200, ambiguous(50)), [release(0, 1_100)]);
    assert_eq!(stopped.due(), 1_100);
    assert_eq!(stopped.on(210, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Stopped(Signal::TERM)));

    let mut silent = Story::begun(policy());
    assert_eq!(silent.tick(10_250), [Action::StopTrying]);
    assert_eq!(silent.on(10_500, ambiguous(0)), [release(0, 11_250)]);
    assert_eq!(silent.tick(11_250), exit(ExitReason::Failed));

    let mut without = Story::begun(Policy { on_backend_error: OnBackendError::Run, ..policy() });
    without.tick(10_250);
    without.on(10_250, Event::Spawned);
    assert_eq!(without.on(12_000, ambiguous(0)), [release(0, 22_000)]);
    assert_eq!(without.on(12_010, Event::Released(Ok(StillHeld::Lost))), []);
    assert_eq!(without.on(13_000, exited(0)), exit(ExitReason::Exited(0)));
}

fn waiting_unclear() -> Story {
    let mut story = Story::begun(Policy { wait: WaitLimit::UpTo(ms(20_000)), ..policy() });
    assert_eq!(story.on(5, unclear_and_full(0)), []);
    story
}

#[test]
fn a_waiter_forgets_no_answer_that_was_lost() {
    let mut stopped = waiting_unclear();
    assert_eq!(stopped.on(6, signalled(Signal::INT)), [release(0, 1_006)]);
    assert_eq!(stopped.on(7, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Stopped(Signal::INT)));

    let mut asking = waiting_unclear();
    let now = asking.due();
    asking.tick(now);
    assert_eq!(asking.on(now, signalled(Signal::INT)), [Action::StopTrying]);
    assert_eq!(asking.on(now, full(now)), [release(0, now + 1_000)]);

    let mut failed = waiting_unclear();
    let now = failed.due();
    failed.tick(now);
    assert_eq!(failed.on(now, refused(now)), [release(0, now + 10_250)]);

    let mut skipped = Story::begun(Policy { wait: WaitLimit::UpTo(ms(20_000)), ..policy() });
    skipped.on(0, held(60_000, 0));
    let mut todo = Vec::new();
    while todo.is_empty() {
        let now = skipped.due();
        skipped.tick(now);
        todo = skipped.on(now, unclear_and_full(now));
    }
    assert_eq!(todo, [release(0, 30_250)]);
    assert_eq!(skipped.on(20_100, Event::Released(Ok(StillHeld::Lost))), exit(ExitReason::Skipped));
}

#[test]
fn a_job_without_a_lock_waits_for_the_request_in_flight_before_an_earlier_one_is_given_back() {
    let mut story = waiting_unclear();
    Rc::make_mut(&mut story.run.policy).on_backend_error = OnBackendError::Run;
    let now = story.due();
    story.tick(now);
    let silent = now + 10_250;
    assert_eq!(story.tick(silent), [Action::Spawn(Under::Nothing)]);
    story.on(silent, Event::Spawned);
    assert_eq!(story.on(silent + 1, full(now)), [release(0, silent + 10_001)]);
    assert_eq!(story.on(silent + 2, exited(0)), []);
    assert_eq!(story.on(silent + 3, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(0)));
}

#[test]
fn a_later_grant_clears_up_what_became_of_a_request() {
    let mut ours = waiting_unclear();
    let now = ours.due();
    ours.tick(now);
    assert_eq!(ours.on(now, granted(now)), [spawn()]);
    ours.on(now, Event::Spawned);
    assert_eq!(ours.on(now + 50, exited(0)), [release(0, now + 10_050)]);
    assert_eq!(ours.on(now + 60, Event::Released(Ok(StillHeld::Held))), exit(ExitReason::Exited(0)));
}

/// The network may yet deliver the request, when the other owner has released the lock.
#[test]
fn that_another_holds_the_lock_does_not_clear_up_what_became_of_a_request() {
    for answer in [Ok(StillHeld::Lost), Ok(StillHeld::Held)] {
        let mut skipped = Story::begun(policy());
        assert_eq!(skipped.on(50, unclear_and_held(60_000, 40)), [release(0, 10_250)]);
        assert_eq!(skipped.on(60, Event::Released(answer)), exit(ExitReason::Skipped));
        assert_eq!(skipped.emitted(|notice| matches!(notice, Notice::NotUndone(..))), 0);
    }

    let mut stopped = waiting_unclear();
    let now = stopped.due();
    stopped.tick(now);
    assert_eq!(stopped.on(now, held(60_000, now)), [], "while it waits nothing is void");
    assert_eq!(stopped.on(now, signalled(Signal::INT)), [release(0, now + 1_000)]);
    assert_eq!(stopped.on(now + 1, Event::Released(Ok(StillHeld::Lost))), exit(ExitReason::Stopped(Signal::INT)));

    let mut ours = waiting_unclear();
    let now = ours.due();
    ours.tick(now);
    ours.on(now, unclear_and_held(100, now));
    let now = ours.due();
    ours.tick(now);
    assert_eq!(ours.on(now, granted(now)), [spawn()]);

    let mut giving_back = Story::begun(policy());
    giving_back.on(100, signalled(Signal::TERM));
    assert_eq!(giving_back.on(200, unclear_and_held(60_000, 150)), [release(0, 1_100)]);
}

#[test]
fn a_nested_run_gives_back_beside_its_job_what_may_have_been_taken() {
    let record = LockState { owner: "web1:1:outer".to_owned(), since: None, until: None, left: ms(60_000) };
    let mut story = Story::begun(Policy { enclosing: vec![record.owner.clone()], ..policy() });
    let answer = Event::Acquired { answer: Ok(Acquired::Held(record.clone())), sent: t(0), ambiguous: true };
    assert_eq!(story.on(5, answer), [release(0, 10_005), Action::Spawn(Under::Enclosing(record))]);
    story.on(5, Event::Spawned);
    assert_eq!(story.on(10, Event::Released(Ok(StillHeld::Lost))), []);
    assert_eq!(story.on(50, exited(0)), exit(ExitReason::Exited(0)));
}

#[test]
fn a_run_that_leaves_a_lock_held_perhaps_says_so_in_one_line() {
    let doubtful = |notice: &Notice| matches!(notice, Notice::NotUndone(_, held) if *held == ms(100_000));
    // No answer to the undo, trouble, and an answer that left no mark.
    for mark_error in [false, true] {
        for answer in
            [None, Some(Err(BackendError::transient("down"))), Some(Ok(StillHeld::Lost)), Some(Ok(StillHeld::Held))]
        {
            let told = !matches!(answer, Some(Ok(_))) || mark_error && answer != Some(Ok(StillHeld::Held));
            let mut story = Story::begun(policy());
            story.on(50, unclear_and_held(60_000, 40));
            if mark_error {
                story.on(60, Event::RecordNotClosed(BackendError::permanent("no history")));
            }
            let todo = match answer {
                Some(answer) => story.on(60, Event::Released(answer)),
                None => story.tick(10_250),
            };
            assert_eq!((todo, story.emitted(doubtful)), (exit(ExitReason::Skipped), usize::from(told)));
        }
    }
    let mut stopped = Story::begun(policy());
    stopped.on(100, signalled(Signal::TERM));
    stopped.tick(1_100);
    assert_eq!(stopped.emitted(doubtful), 1);
}
