//! The rules as they are keep the promise, whatever the clocks of a store's servers show; and what is left of it where a lock
//! goes by clocks that differ, or are set ahead.

use std::hash::{BuildHasher, RandomState};

use super::rules::{Clocks, Faults, Rules, Setting, Terms};
use super::search::{Found, Question, Seen};
use super::world::Property;

/// What is promised of one clock that is set back, and of a store whose lease decides.
pub(crate) const PROMISE: &[Property] = &[Property::TwoAtOnce, Property::HeldTooShort, Property::Stuck];

/// The clock of the first server is ahead, by three quarters of a lease.
pub(crate) const DIFFERENT: Clocks = Clocks { first: [3, 0], places: &[0, 3], set: Setting::Each };
/// One clock is ahead, and is set back by so little that its locks end later by that, or by more than the bound.
pub(crate) const SET_BACK: Clocks = Clocks { first: [6, 6], places: &[0, 4], set: Setting::OneBack };
/// Clocks that show anything at any time.
const ANYTHING: Clocks = Clocks { first: [5, -2], places: &[-6, -3, -1, 0, 1, 2, 4, 7], set: Setting::Each };

const ALL_TERMS: [Terms; 3] = [Terms::Plain, Terms::AtLeast, Terms::Every];

/// The steps of each search at random.
pub(crate) const STEPS: usize = 100_000;
/// A seed that repeats what a search at random has found.
const SEED: &str = "SHEDLOCK_MODEL_SEED";

fn keeps(question: &Question) -> Found {
    let found = question.explore();
    println!("{:?}, {:?}, {:?}: {} worlds", question.rules.engine, question.terms, question.faults, found.count);
    is_kept(question, "", found)
}

fn is_kept(question: &Question, how: &str, found: Found) -> Found {
    if let Some((property, story)) = &found.violation {
        panic!("{property:?} with {question:?}{how}, after\n{story}");
    }
    found
}

/// Goes at random through stories with more of everything.
fn hunts(question: &Question) -> Found {
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("{:?}, {:?}: at random, {SEED}={seed}", question.rules.engine, question.terms);
    is_kept(question, &format!(", {SEED}={seed}"), question.hunt(seed, STEPS))
}

/// Fails unless all of this was seen.
fn has_seen(found: &Found, moments: &[(Seen, &str)]) {
    for (moment, name) in moments {
        assert!(found.seen.contains(*moment), "never seen: {name}");
    }
}

#[test]
fn a_lock_with_a_lease_of_the_store_does_not_go_by_any_clock() {
    for terms in ALL_TERMS {
        for faults in [
            Faults { network: 1, crashes: 1, leaders: 1, ..Faults::NONE },
            Faults { network: 1, jumps: 1, ..Faults::NONE },
        ] {
            let question =
                Question { rules: Rules::LEASED, terms, clocks: DIFFERENT, faults, firings: 2, never: PROMISE };
            let found = keeps(&question);
            has_seen(&found, &[(Seen::RENEWED, "a renewal"), (Seen::PASSED_ON, "another run has the lock")]);
            if terms != Terms::Plain {
                has_seen(&found, &[(Seen::KEPT, "a lock stays held after its run")]);
            }
        }
    }
}

#[test]
fn a_clock_that_is_set_back_frees_no_lock_and_keeps_none_for_longer_than_that() {
    for terms in ALL_TERMS {
        for faults in [Faults { jumps: 2, crashes: 1, ..Faults::NONE }, Faults { jumps: 1, network: 1, ..Faults::NONE }]
        {
            let question =
                Question { rules: Rules::DATED, terms, clocks: SET_BACK, faults, firings: 2, never: PROMISE };
            let found = keeps(&question);
            has_seen(&found, &[(Seen::RENEWED, "a renewal"), (Seen::PASSED_ON, "another run has the lock")]);
            has_seen(&found, &[(Seen::MOVED, "a held lock is moved to the present")]);
            if terms != Terms::Plain {
                has_seen(&found, &[(Seen::FREED_FROM_THE_FUTURE, "a kept lock of the future is free")]);
            }
        }
    }
}

#[test]
fn servers_whose_clocks_differ_let_two_run_for_no_longer_than_they_differ() {
    let ask = |never| Question {
        rules: Rules::DATED,
        terms: Terms::Plain,
        clocks: Clocks { first: [2, 0], places: &[0, 2], set: Setting::Each },
        faults: Faults { jumps: 1, crashes: 1, ..Faults::NONE },
        firings: 2,
        never,
    };
    let broken = ask(&[Property::TwoAtOnce]).explore();
    assert_eq!(
        broken.violation.map(|(property, _)| property),
        Some(Property::TwoAtOnce),
        "one of them sees it end sooner"
    );
    keeps(&ask(&[Property::TwoForLong]));
}

#[test]
fn a_clock_that_is_set_ahead_ends_locks_early() {
    let clocks = Clocks { first: [0, 0], places: &[6], set: Setting::One };
    let faults = Faults { jumps: 1, ..Faults::NONE };
    let question = Question {
        rules: Rules::DATED,
        terms: Terms::Plain,
        clocks,
        faults,
        firings: 2,
        never: &[Property::TwoAtOnce],
    };
    assert_eq!(question.explore().violation.map(|(property, _)| property), Some(Property::TwoAtOnce));
}

#[test]
fn nothing_is_found_at_random_among_clocks_that_show_anything() {
    let faults = Faults { network: 3, crashes: 2, leaders: 2, jumps: 4 };
    for terms in ALL_TERMS {
        let leased = Question { rules: Rules::LEASED, terms, clocks: ANYTHING, faults, firings: 5, never: PROMISE };
        has_seen(&hunts(&leased), &[(Seen::RENEWED, "a renewal"), (Seen::PASSED_ON, "another run has the lock")]);
        let clocks = Clocks { first: [9, 9], places: &[-4, -1, 0, 2, 3, 5, 6, 8], set: Setting::OneBack };
        has_seen(&hunts(&Question { rules: Rules::DATED, clocks, ..leased }), &[(Seen::MOVED, "a held lock is moved")]);
    }
}
