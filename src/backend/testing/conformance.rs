//! Tests the contract of a backend on real servers. `conformance!(store)` gives a backend all of them; `store`
//! returns a [`Store`] of its own, which plays the other party: a person with the server's client, or a Java
//! application.
//!
//! A test waits until the backend reports that time has passed; it never sleeps for the time that something should
//! take.

mod changes;
mod clock_cases;
mod clocks;
mod creation;
mod forget;
mod history;
mod holding;
mod java;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
mod late_requests;
mod listing;
mod losing;
mod names;
pub(crate) mod requests;
mod tokens;

/// Gives a backend the suite: `conformance!(STORE)`, where `STORE()` returns an empty store. Before a store that needs a server
/// stands the attribute that leaves its tests out unless they are asked for.
macro_rules! conformance {
    ($store:path) => {
        $crate::backend::testing::conformance::conformance!(#[cfg(test)] $store);
    };
    (#$attribute:tt $store:path) => {
        $crate::backend::testing::conformance::conformance!(
            #$attribute $store;
            a_free_lock_is_granted
            a_second_owner_is_refused_and_learns_who_holds_it
            locks_of_different_names_are_independent
            the_same_owner_takes_again
            a_lock_frees_when_its_lease_ends_and_not_before
            a_released_lock_is_free_at_once
            a_released_lock_stays_held_until_hold_after_it_was_taken
            a_hold_may_be_longer_than_the_lease
            releasing_again_is_kept_and_changes_nothing
            a_renewed_lock_is_held_for_the_lease_from_now
            a_renewal_never_shortens
            an_expired_lock_cannot_be_renewed_or_released
            a_late_owner_touches_nothing_of_the_next
            an_ended_lock_cannot_be_renewed
            a_stolen_lock_is_lost
            a_deleted_lock_is_lost_and_can_be_taken
            nothing_is_ever_deleted_that_java_relies_on
            an_answer_that_was_lost_locks_nobody_out
            what_may_have_been_taken_can_be_given_back
            a_renewal_or_a_release_makes_nothing
            any_name_is_a_lock_of_its_own
            the_longest_durations_are_taken_literally
            a_closed_connection_is_opened_again
            many_first_acquisitions_at_once_give_one_lock
            a_racy_counter_counts_right_under_the_lock
            java_s_lock_refuses_us_until_it_is_released
            our_lock_refuses_java_until_it_is_released
            neither_frees_the_other_s_lock
            a_table_made_for_java_works
            tokens_grow_with_every_acquisition
            tokens_of_racing_takers_grow_in_the_order_of_the_acquisitions
            a_skip_and_a_renewal_use_no_token
            taking_again_has_a_larger_token_and_one_record
            taking_again_after_another_s_run_leaves_one_record
            a_run_is_recorded_and_closed
            a_record_is_closed_also_when_the_lock_was_lost
            an_unused_acquisition_leaves_no_record
            only_the_last_runs_are_kept
            a_late_release_keeps_no_more_runs_than_another
            a_long_history_is_pruned_now_and_then
            a_history_gets_shorter_when_fewer_runs_are_to_be_kept
            hosts_that_keep_different_numbers_of_runs_agree_on_the_newest
            releasing_again_changes_no_record
            names_have_histories_of_their_own
            a_missing_history_is_made_beside_a_table_made_for_java
            an_empty_store_has_nothing_to_list_and_stays_empty
            locks_are_listed_by_name
            only_the_locks_that_are_named_are_listed
            a_lock_of_any_name_is_listed
            what_is_not_held_has_no_time_left
            what_stays_held_is_listed_as_ended
            locks_of_a_table_made_for_java_are_listed_and_changed
            runs_are_listed_newest_first
            the_newest_runs_are_listed
            runs_since_a_time_are_those_that_had_not_ended
            another_end_is_counted_from_now
            another_owner_holds_it_from_now
            what_is_changed_to_nothing_is_free
            only_the_lock_of_the_one_who_is_named_is_changed
            what_is_not_held_is_not_changed
            a_change_that_is_repeated_is_kept
            who_lost_the_lock_to_a_change_closes_the_record
            a_changed_lock_is_renewed_and_released_by_its_owner
            java_s_lock_can_be_changed
            a_pause_refuses_everybody
            a_pause_is_no_run_and_has_no_token
            what_is_needed_is_made_once
            making_harms_no_lock
            the_schema_is_all_that_is_needed
            a_free_lock_is_forgotten_with_its_history
            a_lock_that_is_held_or_kept_or_paused_is_not_forgotten
            a_lock_that_had_another_owner_since_is_not_forgotten
            tokens_grow_although_the_lock_was_forgotten
            a_lock_of_any_name_is_forgotten_and_no_other
            java_s_lock_is_forgotten_once_it_is_free
            a_history_without_a_lock_is_forgotten
            a_lock_in_a_table_made_for_java_is_forgotten
            a_lock_of_a_name_that_no_job_may_have_is_changed_and_forgotten
            a_name_with_a_space_too_many_is_not_that_of_another_lock
            a_run_that_lost_its_lock_brings_nothing_back
            forgetting_makes_nothing
            what_is_held_is_never_forgotten_however_they_race
            a_lock_ends_as_promised_whatever_the_server_s_clock_is_set_to
        );
    };
    (#$attribute:tt $store:path; $($test:ident)*) => {
        mod conformance {
            $(
                #[test]
                #$attribute
                fn $test() {
                    $crate::backend::testing::conformance::$test(&$store());
                }
            )*
        }
    };
}

pub(crate) use changes::*;
pub(crate) use clocks::*;
pub(crate) use conformance;
pub(crate) use creation::*;
pub(crate) use forget::*;
pub(crate) use history::*;
pub(crate) use holding::*;
pub(crate) use java::*;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) use late_requests::*;
pub(crate) use listing::*;
pub(crate) use losing::*;
pub(crate) use names::*;
pub(crate) use tokens::*;
