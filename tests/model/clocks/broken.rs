//! The rules of a lock in a store whose clocks differ and are set, with one broken at a time.

use super::kept::{DIFFERENT, PROMISE, SET_BACK, STEPS};
use super::rules::{Ahead, Clocks, Faults, Future, Hold, Renewal, Rules, Setting, Terms};
use super::search::Question;
use super::world::Property;

/// Returns the first thing that goes wrong.
fn first_wrong(rules: Rules, terms: Terms, clocks: Clocks, faults: Faults) -> Option<Property> {
    let question = Question { rules, terms, clocks, faults, firings: 2, never: PROMISE };
    let (property, story) = question.explore().violation?;
    println!("{property:?} with {rules:?} after\n{story}");
    Some(property)
}

#[test]
fn a_renewal_that_is_left_out_by_the_time_of_a_server_that_is_behind_lets_two_run() {
    let rules = Rules { renewal: Renewal::ByShownTime, ..Rules::LEASED };
    assert_eq!(first_wrong(rules, Terms::Plain, DIFFERENT, Faults::NONE), Some(Property::TwoAtOnce));
    let same = Clocks { first: [3, 3], ..DIFFERENT };
    assert_eq!(first_wrong(rules, Terms::Plain, same, Faults::NONE), None, "while all clocks show the same");
    let jumps = Faults { jumps: 1, ..Faults::NONE };
    assert_eq!(first_wrong(rules, Terms::Plain, same, jumps), Some(Property::TwoAtOnce), "one of them is set back");
}

#[test]
fn a_clock_that_is_ahead_by_half_a_lease_needs_a_late_renewal_to_let_two_run() {
    let rules = Rules { renewal: Renewal::ByShownTime, ..Rules::LEASED };
    let half = Clocks { first: [2, 0], places: &[], ..DIFFERENT };
    let late = Faults { network: 1, ..Faults::NONE };
    assert_eq!(first_wrong(rules, Terms::Plain, half, late), Some(Property::TwoAtOnce));
}

#[test]
fn a_renewal_that_knows_nothing_of_at_least_cuts_it() {
    let crash = Faults { crashes: 1, ..Faults::NONE };
    for renewal in [Renewal::Shortens, Renewal::ByShownTime] {
        let rules = Rules { renewal, ..Rules::LEASED };
        let behind = Clocks { first: [0, 3], ..DIFFERENT };
        assert_eq!(first_wrong(rules, Terms::AtLeast, behind, crash), Some(Property::HeldTooShort), "{renewal:?}");
    }
}

#[test]
fn a_renewal_that_counts_what_was_granted_from_before_it_was_asked_for_cuts_at_least() {
    let rules = Rules { renewal: Renewal::IfNotSure, ..Rules::LEASED };
    let faults = Faults { network: 1, crashes: 1, ..Faults::NONE };
    assert_eq!(first_wrong(rules, Terms::AtLeast, DIFFERENT, faults), Some(Property::HeldTooShort));
}

#[test]
fn a_hold_that_goes_by_the_time_of_whoever_is_asked_ends_early() {
    let rules = Rules { hold: Hold::ShownTime, ..Rules::LEASED };
    for terms in [Terms::AtLeast, Terms::Every] {
        assert_eq!(first_wrong(rules, terms, DIFFERENT, Faults::NONE), Some(Property::HeldTooShort), "{terms:?}");
    }
}

#[test]
fn a_hold_that_is_counted_from_before_the_lock_was_asked_for_ends_early() {
    let rules = Rules { hold: Hold::LeaseSinceAsked, ..Rules::LEASED };
    let late = Faults { network: 1, ..Faults::NONE };
    assert_eq!(first_wrong(rules, Terms::Every, DIFFERENT, late), Some(Property::HeldTooShort));
}

#[test]
fn a_release_that_counts_from_an_acquisition_in_the_future_keeps_the_lock_for_longer() {
    let rules = Rules { clamped: false, ..Rules::DATED };
    let faults = Faults { jumps: 1, ..Faults::NONE };
    for terms in [Terms::AtLeast, Terms::Every] {
        let question = Question { rules, terms, clocks: SET_BACK, faults, firings: 2, never: &[Property::Stuck] };
        assert_eq!(question.explore().violation.map(|(property, _)| property), Some(Property::Stuck), "{terms:?}");
    }
}

#[test]
fn a_lock_of_the_future_that_stays_is_stuck() {
    let rules = Rules { future: Future::Stays, ..Rules::DATED };
    let faults = Faults { jumps: 1, crashes: 1, ..Faults::NONE };
    assert_eq!(first_wrong(rules, Terms::Plain, SET_BACK, faults), Some(Property::Stuck), "its holder is dead");
    let jump = Faults { jumps: 1, ..Faults::NONE };
    assert_eq!(first_wrong(rules, Terms::Every, SET_BACK, jump), Some(Property::Stuck), "it is only kept");
}

#[test]
fn a_held_lock_of_the_future_that_is_taken_for_free_lets_two_run() {
    let rules = Rules { future: Future::Free, ..Rules::DATED };
    let jump = Faults { jumps: 1, ..Faults::NONE };
    assert_eq!(first_wrong(rules, Terms::Plain, SET_BACK, jump), Some(Property::TwoAtOnce));
}

#[test]
fn a_lock_of_the_future_is_not_always_known_by_its_acquisition() {
    let rules = Rules { ahead: Ahead::ByTaking, ..Rules::DATED };
    let faults = Faults { network: 1, jumps: 1, crashes: 1, ..Faults::NONE };
    assert_eq!(
        first_wrong(rules, Terms::Plain, SET_BACK, faults),
        Some(Property::Stuck),
        "an acquisition that was repeated"
    );
}

#[test]
fn what_let_two_run_on_etcd_is_found_at_random() {
    let clocks = Clocks { first: [0, 0], places: &[-3, -2, -1, 0, 1, 2, 3], set: Setting::Each };
    let faults = Faults { network: 2, crashes: 1, leaders: 1, jumps: 3 };
    let found = |terms, property, seed| {
        let never =
            if property == Property::TwoAtOnce { &[Property::TwoAtOnce] } else { &[Property::HeldTooShort][..] };
        let question = Question { rules: Rules::AS_IT_WAS, terms, clocks, faults, firings: 4, never };
        let found = question.hunt(seed, STEPS);
        println!("{property:?} with seed {seed} in step {}", found.count);
        found.violation.map(|(property, _)| property)
    };
    for seed in 1..=3 {
        assert_eq!(found(Terms::Plain, Property::TwoAtOnce, seed), Some(Property::TwoAtOnce), "a renewal is left out");
        assert_eq!(found(Terms::AtLeast, Property::HeldTooShort, seed), Some(Property::HeldTooShort), "a hold is cut");
    }
}
