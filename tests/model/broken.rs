//! The protocol with one rule broken at a time: the explorer has to find what comes of it.
//!
//! A rule whose absence goes unnoticed would be a rule that the model does not contain, or one that is not needed.

use crate::explore::Question;
use crate::properties::{PROMISE, PUNCTUAL, Property};
use crate::rules::{Believed, CountedFrom, DRIFT, Faults, REACTION, Release, Removal, Renewal, Rules, Token};

/// Returns the first thing that goes wrong; without a daemon and slow clocks unless `faults` has them.
fn first_wrong(rules: Rules, faults: Faults, firings: u8) -> Property {
    let findings = Question { rules, faults, firings, writes: false, never: PROMISE }.explore();
    let (property, story) = findings.violation.unwrap_or_else(|| panic!("nothing is wrong with {rules:?}"));
    println!("{property:?} after\n{story}");
    property
}

#[test]
fn without_a_margin_the_job_outlives_its_lease() {
    assert_eq!(first_wrong(Rules { margin: 0, ..Rules::KEPT }, Faults::NONE, 2), Property::TwoAtOnce);
}

#[test]
fn the_margin_needs_both_of_its_parts_and_no_more() {
    let slow = Faults { drift: true, ..Faults::NONE };
    assert_eq!(first_wrong(Rules { margin: REACTION, ..Rules::KEPT }, slow, 2), Property::TwoAtOnce);
    let rules = Rules { margin: REACTION, ..Rules::KEPT };
    let exact = Question { rules, faults: Faults::NONE, firings: 2, writes: false, never: PROMISE }.explore();
    assert!(exact.violation.is_none(), "with exact clocks the other part is not needed: {exact:?}");
}

#[test]
fn a_clock_that_loses_more_than_the_margin_allows_breaks_the_promise() {
    let slow = Faults { drift: true, ..Faults::NONE };
    assert_eq!(first_wrong(Rules { drift: DRIFT + 1, ..Rules::KEPT }, slow, 2), Property::TwoAtOnce);
}

#[test]
fn a_daemon_that_is_not_killed_with_its_command_runs_beside_the_next_job() {
    let daemon = Faults { daemons: 1, ..Faults::NONE };
    assert_eq!(first_wrong(Rules { whole_tree: false, ..Rules::KEPT }, daemon, 2), Property::TwoAtOnce);
}

#[test]
fn a_release_that_does_not_look_at_the_owner_frees_the_lock_of_another() {
    for release in [Release::ByAnybody, Release::DeletesTheRow] {
        let rules = Rules { release, ..Rules::KEPT };
        let stopped = Faults { stops: 1, ..Faults::NONE };
        assert_eq!(first_wrong(rules, stopped, 3), Property::TwoAtOnce, "a shedlock that is continued too late");
        let network = Faults { network: 1, ..Faults::NONE };
        assert_eq!(first_wrong(rules, network, 3), Property::TwoAtOnce, "a release that is carried out too late");
    }
}

#[test]
fn a_renewal_that_does_not_look_at_the_owner_lets_a_job_go_on_without_its_lock() {
    let suspended = Faults { suspensions: 1, ..Faults::NONE };
    assert_eq!(first_wrong(Rules { renewal: Renewal::ByAnybody, ..Rules::KEPT }, suspended, 2), Property::TwoAtOnce);
}

#[test]
fn a_renewal_after_the_end_brings_back_a_lock_that_was_free() {
    let rules = Rules { renewal: Renewal::AlsoExpired, ..Rules::KEPT };
    for faults in [Faults { suspensions: 1, ..Faults::NONE }, Faults { network: 1, ..Faults::NONE }] {
        assert_eq!(first_wrong(rules, faults, 2), Property::Revived);
    }
}

#[test]
fn a_job_that_is_not_held_after_a_stall_runs_beside_the_next_one() {
    let suspended = Faults { suspensions: 1, ..Faults::NONE };
    assert_eq!(first_wrong(Rules { checked_after_stall: false, ..Rules::KEPT }, suspended, 2), Property::TwoAtOnce);
}

#[test]
fn a_lease_that_is_counted_from_the_answer_ends_too_late() {
    let network = Faults { network: 1, ..Faults::NONE };
    let rules = Rules { counted_from: CountedFrom::TheAnswer, ..Rules::KEPT };
    assert_eq!(first_wrong(rules, network, 2), Property::TwoAtOnce);
}

#[test]
fn a_job_that_is_started_on_a_late_answer_has_no_lock() {
    let network = Faults { network: 1, ..Faults::NONE };
    assert_eq!(first_wrong(Rules { too_late_goes_back: false, ..Rules::KEPT }, network, 2), Property::TwoAtOnce);
}

#[test]
fn an_unclear_taking_that_is_not_given_back_stays_held() {
    let network = Faults { network: 1, ..Faults::NONE };
    assert_eq!(first_wrong(Rules { unclear_goes_back: false, ..Rules::KEPT }, network, 2), Property::Leaked);
}

#[test]
fn an_acquisition_that_is_given_back_and_not_void_takes_the_lock_for_nobody() {
    let network = Faults { network: 1, ..Faults::NONE };
    assert_eq!(first_wrong(Rules { given_up_is_void: false, ..Rules::KEPT }, network, 1), Property::TakenLate);
}

#[test]
fn an_acquisition_that_is_forgotten_since_another_holds_the_lock_takes_it_for_nobody_later() {
    let network = Faults { network: 1, ..Faults::NONE };
    assert_eq!(first_wrong(Rules { held_clears_up: true, ..Rules::KEPT }, network, 2), Property::TakenLate);
}

#[test]
fn without_a_guardian_a_job_outlives_a_shedlock_that_is_killed_or_stopped() {
    let rules = Rules { guardian: false, ..Rules::KEPT };
    let killed = Faults { kills: 1, daemons: 1, ..Faults::NONE };
    assert_eq!(first_wrong(rules, killed, 2), Property::TwoAtOnce);
    let stopped = Faults { stops: 1, ..Faults::NONE };
    assert_eq!(first_wrong(rules, stopped, 2), Property::TwoAtOnce);
}

#[test]
fn a_lock_without_an_end_is_stuck_once_its_holder_has_died() {
    let rules = Rules { expires: false, ..Rules::KEPT };
    let ask = |faults| Question { rules, faults, firings: 2, writes: false, never: &[] }.explore().longest_wait;
    assert_eq!(ask(Faults { crashes: 1, ..Faults::NONE }), None, "somebody waits for ever");
    assert!(ask(Faults::NONE).is_some(), "as long as nobody dies nobody does");
}

#[test]
fn an_extension_that_is_counted_from_the_answer_ends_too_late() {
    let faults = Faults { network: 1, extensions: 1, drift: true, ..Faults::NONE };
    let rules = Rules { seen_from: CountedFrom::TheAnswer, ..Rules::LOOKING };
    assert_eq!(first_wrong(rules, faults, 2), Property::TwoAtOnce);
}

#[test]
fn silence_that_is_taken_for_an_extension_lets_a_job_go_on_without_its_lock() {
    let network = Faults { network: 1, ..Faults::NONE };
    let rules = Rules { believed: Believed::Silence, ..Rules::LOOKING };
    assert_eq!(first_wrong(rules, network, 2), Property::TwoAtOnce);
}

#[test]
fn a_renewal_of_our_own_that_is_carried_out_late_would_be_taken_for_an_extension() {
    let network = Faults { network: 1, ..Faults::NONE };
    let ask =
        |rules| Question { rules, faults: network, firings: 1, writes: false, never: PUNCTUAL }.explore().violation;
    let believed = ask(Rules { believed: Believed::BeyondAnswered, ..Rules::EXACT });
    assert_eq!(believed.map(|(property, _)| property), Some(Property::Overran));
    assert_eq!(ask(Rules::EXACT), None);
}

#[test]
fn a_token_that_is_only_counted_goes_back_when_the_store_forgets() {
    let flushed = Faults { flushes: 1, ..Faults::NONE };
    let rules = Rules { token: Token::AboveLast, ..Rules::KEPT };
    for property in [&[Property::TokenWentBack], &[Property::Overwritten]] {
        let findings = Question { rules, faults: flushed, firings: 3, writes: true, never: property }.explore();
        assert_eq!(findings.violation.map(|(property, _)| property), Some(property[0]));
    }
    let forgotten = Faults { forgets: 1, ..Faults::NONE };
    let findings = Question { rules, faults: forgotten, firings: 2, writes: false, never: &[Property::TokenWentBack] };
    assert_eq!(findings.explore().violation.map(|(property, _)| property), Some(Property::TokenWentBack));
}

#[test]
fn a_held_lock_that_is_forgotten_is_taken_by_the_next() {
    let forgotten = Faults { forgets: 1, ..Faults::NONE };
    assert_eq!(first_wrong(Rules { removal: Removal::Any, ..Rules::KEPT }, forgotten, 2), Property::TwoAtOnce);
}
