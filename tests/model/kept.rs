//! The protocol as it is: every world that it can come to keeps the promise, with every kind of fault that the promise
//! covers; and what is left of it with those that it does not.

use crate::explore::{Findings, Question};
use crate::properties::{Moments, PROMISE, PUNCTUAL, Property};
use crate::rules::{AT_MOST, Faults, LEASE, Rules};

/// Explores the protocol, and finds nothing wrong.
fn keeps(never: &'static [Property], faults: Faults, firings: u8) -> Findings {
    keeps_by(Rules::KEPT, never, faults, firings)
}

/// Explores the protocol where at-most may be extended once, and finds nothing wrong.
fn keeps_extended(never: &'static [Property], faults: Faults, firings: u8) -> Findings {
    let rules = if faults.drift { Rules::LOOKING } else { Rules::EXACT };
    keeps_by(rules, never, Faults { extensions: 1, ..faults }, firings)
}

fn keeps_by(rules: Rules, never: &'static [Property], faults: Faults, firings: u8) -> Findings {
    let findings = Question { rules, faults, firings, writes: faults.pauses + faults.flushes > 0, never }.explore();
    println!("{firings} runs, {faults:?}: {} worlds, longest wait {:?}", findings.states, findings.longest_wait);
    if let Some((property, story)) = &findings.violation {
        panic!("{property:?} after\n{story}");
    }
    let wait = findings.longest_wait.expect("nobody waits for ever");
    assert!(wait <= longest_wait(faults), "somebody waits for {wait} ticks while no job begins");
    findings
}

/// Returns the longest wait: a job begins within the at-most of the run that has the lock, and what slow clocks add to it. A
/// run that dies costs a lease more, also if it had only just asked. A message that is lost or late costs a lease of waiting
/// for its answer, and an acquisition that is carried out too late another.
fn longest_wait(faults: Faults) -> u32 {
    let leases = 1 + faults.kills + faults.crashes + 2 * faults.network + faults.extensions;
    u32::from(AT_MOST + leases * LEASE)
}

/// Fails unless all of this was seen.
fn has_seen(findings: &Findings, moments: &[(Moments, &str)]) {
    for (moment, name) in moments {
        assert!(findings.moments.contains(*moment), "never seen: {name}");
    }
}

#[test]
fn without_faults_every_host_gets_its_turn() {
    let findings = keeps(PROMISE, Faults::EVERY_DAY, 3);
    has_seen(
        &findings,
        &[
            (Moments::JOB_RUNS, "a job runs"),
            (Moments::FIRST_HOST, "on the first host"),
            (Moments::SECOND_HOST, "on the second host"),
            (Moments::RENEWED, "a lease is renewed"),
            (Moments::KILLED_WITH_DAEMON, "a job that ignores its signal is killed, and its daemon too"),
            (Moments::AT_LEAST, "a lock stays held for at-least"),
        ],
    );
    assert!(!findings.moments.contains(Moments::LEFT_TO_ITS_TIME), "every lock is given back");
}

#[test]
fn lost_and_late_messages_break_nothing() {
    let findings = keeps(PROMISE, Faults { network: 1, drift: true, ..Faults::NONE }, 3);
    has_seen(
        &findings,
        &[
            (Moments::LATE_ANSWER_GOES_BACK, "a late answer is given back"),
            (Moments::STRAY_TAKING, "an acquisition is carried out after its sender has gone"),
            (Moments::LEFT_TO_ITS_TIME, "a lock that could not be given back is left to its time"),
        ],
    );
}

#[test]
fn a_shedlock_that_is_killed_and_a_host_that_dies_pass_the_lock_on() {
    let findings = keeps(PROMISE, Faults { kills: 1, crashes: 1, ..Faults::EVERY_DAY }, 2);
    has_seen(
        &findings,
        &[
            (Moments::GUARDIAN_AFTER_DEATH, "the guardian ends what a dead shedlock has left"),
            (Moments::CRASH_PASSES_ON, "a crash passes the lock on"),
        ],
    );
}

#[test]
fn a_shedlock_that_is_stopped_past_its_lease_breaks_nothing() {
    let findings = keeps(PROMISE, Faults { stops: 1, ..Faults::EVERY_DAY }, 2);
    has_seen(
        &findings,
        &[
            (Moments::GUARDIAN_IN_STOP, "the guardian ends the job of a stopped shedlock"),
            (Moments::LATE_RELEASE, "a release comes too late, and frees nothing"),
        ],
    );
}

#[test]
fn a_suspended_host_holds_its_job_until_the_lease_was_checked() {
    let findings = keeps(PROMISE, Faults { suspensions: 1, ..Faults::EVERY_DAY }, 2);
    has_seen(
        &findings,
        &[
            (Moments::HELD_GOES_ON, "the lock is still ours and the job goes on"),
            (Moments::HELD_ENDS, "it is not, and the job ends"),
            (Moments::LOSS_NOTICED, "a lost lock is noticed"),
        ],
    );
}

#[test]
fn a_job_that_is_extended_lives_on_under_its_lock_and_no_longer() {
    let findings = keeps_extended(PUNCTUAL, Faults { network: 1, ..Faults::NONE }, 2);
    has_seen(&findings, &[(Moments::EXTENDED, "an extension is seen")]);
    let lost = keeps_extended(TOKENS, Faults { unlocks: 1, ..Faults::NONE }, 2);
    has_seen(&lost, &[(Moments::LOSS_SEEN, "a lock that was freed is seen to be lost")]);
    has_seen(&keeps_extended(PROMISE, Faults::EVERY_DAY, 2), &[(Moments::EXTENDED, "with a slow clock")]);
}

#[test]
fn a_job_that_is_extended_while_something_stands_still_breaks_nothing() {
    for faults in [Faults { stops: 1, ..Faults::NONE }, Faults { suspensions: 1, ..Faults::NONE }] {
        has_seen(&keeps_extended(PUNCTUAL, faults, 2), &[(Moments::EXTENDED, "an extension is seen")]);
    }
}

const TOKENS: &[Property] = &[Property::TokenWentBack, Property::Overwritten];

#[test]
fn a_pause_that_no_clock_shows_breaks_the_lock_and_not_the_fence() {
    let faults = Faults { pauses: 1, ..Faults::NONE };
    let broken = Question { rules: Rules::KEPT, faults, firings: 2, writes: true, never: PROMISE }.explore();
    assert_eq!(broken.violation.map(|(property, _)| property), Some(Property::TwoAtOnce), "no lock can help it");
    let findings = keeps(TOKENS, faults, 2);
    has_seen(&findings, &[(Moments::REFUSED, "the resource refuses the write of the one that was paused")]);
}

#[test]
fn a_store_that_forgets_breaks_the_lock_and_not_the_fence() {
    let faults = Faults { flushes: 1, ..Faults::NONE };
    let broken = Question { rules: Rules::KEPT, faults, firings: 2, writes: true, never: PROMISE }.explore();
    assert_eq!(broken.violation.map(|(property, _)| property), Some(Property::TwoAtOnce), "it was forgotten");
    let findings = keeps(TOKENS, faults, 3);
    has_seen(
        &findings,
        &[
            (Moments::REFUSED, "the older write is refused"),
            (Moments::LOSS_NOTICED, "a renewal says that the lock is gone"),
        ],
    );
}

#[test]
fn a_lock_that_a_person_frees_is_lost_and_that_is_noticed() {
    let faults = Faults { unlocks: 1, ..Faults::NONE };
    let broken = Question { rules: Rules::KEPT, faults, firings: 2, writes: false, never: PROMISE }.explore();
    assert_eq!(broken.violation.map(|(property, _)| property), Some(Property::TwoAtOnce), "it was asked for");
    has_seen(&keeps(TOKENS, faults, 3), &[(Moments::LOSS_NOTICED, "a renewal says that the lock is gone")]);
}

#[test]
fn a_lock_that_is_forgotten_while_it_is_free_breaks_nothing() {
    keeps(PROMISE, Faults { forgets: 2, ..Faults::EVERY_DAY }, 3);
    keeps(PROMISE, Faults { forgets: 1, network: 1, ..Faults::NONE }, 2);
    keeps(PROMISE, Faults { forgets: 1, stops: 1, ..Faults::NONE }, 2);
    keeps(TOKENS, Faults { forgets: 1, pauses: 1, ..Faults::NONE }, 3);
}

/// With several faults in one story there are millions of worlds.
#[test]
#[ignore = "takes some minutes, and a gigabyte: cargo test --test model -- --ignored --nocapture"]
fn several_faults_in_one_story_break_nothing() {
    let every_day = Faults::EVERY_DAY;
    keeps(PROMISE, Faults { network: 2, drift: true, ..Faults::NONE }, 2);
    keeps(PROMISE, Faults { network: 1, stops: 1, ..every_day }, 2);
    keeps(PROMISE, Faults { network: 1, kills: 1, crashes: 1, ..every_day }, 2);
    keeps(PROMISE, Faults { kills: 1, crashes: 1, ..every_day }, 3);
    keeps(PROMISE, Faults { network: 1, suspensions: 1, ..every_day }, 2);
    keeps(PROMISE, Faults { stops: 1, kills: 1, ..every_day }, 3);
    keeps(PROMISE, Faults { stops: 1, suspensions: 1, ..Faults::NONE }, 2);
    keeps(TOKENS, Faults { network: 1, pauses: 1, ..Faults::NONE }, 2);
    keeps_extended(PROMISE, Faults { network: 1, drift: true, ..Faults::NONE }, 2);
    keeps_extended(PUNCTUAL, Faults { network: 1, stops: 1, ..Faults::NONE }, 2);
    keeps_extended(PUNCTUAL, Faults { network: 1, suspensions: 1, ..Faults::NONE }, 2);
}
