//! The contract of a backend as tests, on real servers. `conformance!(store)` gives a backend all of them; `store`
//! returns a [`Store`] of its own, which plays the other party: a person with the server's client, or a Java
//! application.
//!
//! A test waits until the backend reports that time has passed; it never sleeps for the time that something should
//! take.

mod clocks;
mod forget;
mod names;
mod operate;

use std::fs;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::{Access, Acquired, Admin, Backend, BackendError, ErrorClass, Kept, from_url};
use crate::lock::{Claim, Closing, Grant, Lock, LockName, LockState, Owner, Purpose, RunOutcome};
use servers::stores::{Run, Store, Stored};

const MINUTE: Duration = Duration::from_secs(60);
/// Time after which a wait has failed; nothing takes so long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(90);
const SUCCESS: Closing = Closing::Ended { verdict: RunOutcome::Success, exit_code: Some(0) };
/// Milliseconds by which a backend may round times.
const ROUNDING: i64 = 1;
/// What is left of a lease of a minute within the millisecond in which it began, since it is never shorter than was asked for.
pub(super) const ROUNDED_UP: Duration = Duration::from_millis(60_001);

/// Gives a backend the suite: `conformance!(STORE)`, where `STORE()` returns an empty store.
macro_rules! conformance {
    ($store:path) => {
        $crate::backend::conformance::conformance!(
            $store;
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
            many_first_takings_at_once_give_one_lock
            a_racy_counter_counts_right_under_the_lock
            java_s_lock_refuses_us_until_it_is_released
            our_lock_refuses_java_until_it_is_released
            neither_frees_the_other_s_lock
            a_table_made_for_java_works
            tokens_grow_with_every_taking
            tokens_of_racing_takers_grow_in_the_order_of_the_takings
            a_skip_and_a_renewal_use_no_token
            taking_again_has_a_larger_token_and_one_record
            taking_again_after_another_s_run_leaves_one_record
            a_run_is_recorded_and_closed
            a_record_is_closed_also_when_the_lock_was_lost
            an_unused_taking_leaves_no_record
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
    ($store:path; $($test:ident)*) => {
        mod conformance {
            $(
                #[test]
                fn $test() {
                    $crate::backend::conformance::$test(&$store());
                }
            )*
        }
    };
}
pub(super) use clocks::*;
pub(super) use conformance;
pub(super) use forget::*;
pub(super) use names::*;
pub(super) use operate::*;

fn open(store: &dyn Store) -> Box<dyn Admin> {
    from_url(&store.url(), &Access { password: None, patience: Duration::from_secs(10) }).unwrap().backend
}

fn claim(name: &str, owner: u64, lease: Duration) -> Claim {
    Claim {
        name: LockName::new(name).unwrap(),
        owner: Owner::new("host", 1, owner),
        lease,
        keep: 100,
        purpose: Purpose::Run,
    }
}

/// Returns the claim of a run of this number for a minute, for the backends' own tests.
#[cfg(any(feature = "mysql", feature = "redis"))]
pub(super) fn claim_of(name: &str, number: u64) -> Claim {
    claim(name, number, MINUTE)
}

/// Takes a free lock and returns its token; for the backends' own tests.
#[cfg(any(feature = "mysql", feature = "redis"))]
#[track_caller]
pub(super) fn token_of(backend: &mut dyn Backend, claim: &Claim) -> Option<u64> {
    take(backend, claim).token
}

/// Repeats a request until it succeeds; repeats all but permanent errors, as the worker does.
#[track_caller]
fn persist<T>(mut ask: impl FnMut() -> Result<T, BackendError>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) if error.class == ErrorClass::Permanent || begun.elapsed() > PATIENCE => panic!("{error:?}"),
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

#[track_caller]
fn take(backend: &mut dyn Backend, claim: &Claim) -> Grant {
    match persist(|| backend.acquire(claim)).answer {
        Acquired::Granted(grant) => grant,
        Acquired::Held(record) => panic!("held by {record:?}"),
    }
}

#[track_caller]
fn refused(backend: &mut dyn Backend, claim: &Claim) -> LockState {
    match persist(|| backend.acquire(claim)).answer {
        Acquired::Held(record) => record,
        Acquired::Granted(grant) => panic!("{grant:?} was granted to {}", claim.owner),
    }
}

/// Takes the lock once it is free.
#[track_caller]
fn take_when_free(backend: &mut dyn Backend, claim: &Claim) {
    let begun = Instant::now();
    while let Acquired::Held(_) = persist(|| backend.acquire(claim)).answer {
        assert!(begun.elapsed() < PATIENCE, "it never becomes free");
        thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn renew(backend: &mut dyn Backend, claim: &Claim) -> Kept {
    persist(|| backend.renew(claim)).answer
}

#[track_caller]
fn release(backend: &mut dyn Backend, claim: &Claim, hold: Duration) -> Kept {
    persist(|| backend.release(claim, hold, SUCCESS)).answer
}

#[track_caller]
fn stored(store: &dyn Store, name: &str) -> Stored {
    store.stored(name).unwrap_or_else(|| panic!("{name} is not stored"))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

#[track_caller]
fn close_to(found: i64, wanted: Duration, by: i64) {
    assert!((found - millis(wanted)).abs() <= by, "{found} is not {wanted:?}");
}

fn is_held(store: &dyn Store, name: &str) -> bool {
    store.stored(name).is_some_and(|stored| stored.is_held())
}

pub(super) fn a_free_lock_is_granted(store: &dyn Store) {
    let claim = claim("job", 1, MINUTE);
    let grant = take(&mut *open(store), &claim);
    let stored = stored(store, "job");
    assert_eq!(stored.owner, claim.owner.as_str());
    assert!(stored.is_held());
    close_to(stored.span(), MINUTE + store.grain(), ROUNDING + 50);
    assert_eq!(
        (i64::try_from(grant.locked_at.0).unwrap() - stored.since).abs().max(ROUNDING),
        ROUNDING,
        "{grant:?} {stored:?}"
    );
    close_to(i64::try_from(grant.until.0 - grant.locked_at.0).unwrap(), MINUTE + store.grain(), ROUNDING);
    assert!((stored.now - stored.since).abs() < 20_000, "the times are UTC, and the server's: {stored:?}");
}

pub(super) fn a_second_owner_is_refused_and_learns_who_holds_it(store: &dyn Store) {
    let first = claim("job", 1, MINUTE);
    let grant = take(&mut *open(store), &first);
    let record = refused(&mut *open(store), &claim("job", 2, MINUTE));
    assert_eq!(record.owner, first.owner.as_str());
    assert_eq!(record.since, Some(grant.locked_at));
    let until = record.until.unwrap().0.abs_diff(grant.until.0);
    assert!(until < 50, "{record:?} {grant:?}");
    assert!(record.left <= ROUNDED_UP && record.left > MINUTE / 2, "{record:?}");
    assert_eq!(stored(store, "job").owner, first.owner.as_str());
}

pub(super) fn locks_of_different_names_are_independent(store: &dyn Store) {
    let mut backend = open(store);
    let (one, other) = (claim("one", 1, MINUTE), claim("other", 2, MINUTE));
    take(&mut *backend, &one);
    take(&mut *backend, &other);
    release(&mut *backend, &one, Duration::ZERO);
    assert!(!is_held(store, "one") && is_held(store, "other"));
}

pub(super) fn the_same_owner_takes_again(store: &dyn Store) {
    let first = claim("job", 1, MINUTE);
    take(&mut *open(store), &first);
    take(&mut *open(store), &Claim { lease: MINUTE * 2, ..first.clone() });
    close_to(stored(store, "job").span(), MINUTE * 2 + store.grain(), ROUNDING + 50);
    assert_eq!(release(&mut *open(store), &first, Duration::ZERO), Kept::Kept);
    assert!(!is_held(store, "job"));
}

pub(super) fn a_lock_frees_when_its_lease_ends_and_not_before(store: &dyn Store) {
    let (mut ours, mut others) = (open(store), open(store));
    let lease = Duration::from_millis(300);
    refused_until_free(&mut *others);
    let asked = Instant::now();
    take(&mut *ours, &claim("job", 1, lease));
    take_when_free(&mut *others, &claim("job", 2, MINUTE));
    // The lease begins between the request and the answer.
    assert!(asked.elapsed() >= lease, "{:?}", asked.elapsed());
}

/// Opens the connection and creates the table, so that later times measure the lock alone.
fn refused_until_free(backend: &mut dyn Backend) {
    let warm = claim("warm", 9, MINUTE);
    take(backend, &warm);
}

pub(super) fn a_released_lock_is_free_at_once(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    let aged = wait_for_age(store, "job", 100);
    assert_eq!(release(&mut *backend, &first, Duration::ZERO), Kept::Kept);
    let released = store.stored("job");
    assert!(released.is_none_or(|lock| !lock.is_held() && lock.until >= aged.now), "it ends when it was released");
    take(&mut *open(store), &claim("job", 2, MINUTE));
}

/// Waits until the lock was taken this number of milliseconds ago.
fn wait_for_age(store: &dyn Store, name: &str, age: i64) -> Stored {
    loop {
        let stored = stored(store, name);
        if stored.now - stored.since >= age {
            return stored;
        }
    }
}

pub(super) fn a_released_lock_stays_held_until_hold_after_it_was_taken(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    // Part of the hold has passed when the lock is released.
    let before = wait_for_age(store, "job", 300);
    assert_eq!(release(&mut *backend, &first, MINUTE / 2), Kept::Kept);
    let after = stored(store, "job");
    assert_eq!(after.owner, first.owner.ended());
    assert_eq!((after.since - before.since).abs().max(ROUNDING), ROUNDING);
    close_to(after.span(), MINUTE / 2 + store.grain(), ROUNDING + 50);
    let record = refused(&mut *open(store), &claim("job", 2, MINUTE));
    assert_eq!(record.owner, first.owner.ended());
    refused(&mut *open(store), &first);
}

pub(super) fn a_hold_may_be_longer_than_the_lease(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    assert_eq!(release(&mut *backend, &first, MINUTE * 60), Kept::Kept);
    close_to(stored(store, "job").span(), MINUTE * 60 + store.grain(), ROUNDING + 50);
}

pub(super) fn releasing_again_is_kept_and_changes_nothing(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    release(&mut *backend, &first, MINUTE / 2);
    let after = stored(store, "job");
    assert_eq!(release(&mut *open(store), &first, MINUTE * 5), Kept::Kept);
    let again = stored(store, "job");
    assert_eq!((again.owner, again.since), (after.owner, after.since));
    assert!((again.until - after.until).abs() < 50, "{} {}", again.until, after.until);
}

pub(super) fn a_renewed_lock_is_held_for_the_lease_from_now(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    assert_eq!(renew(&mut *backend, &Claim { lease: MINUTE * 3, ..first.clone() }), Kept::Kept);
    let stored = stored(store, "job");
    close_to(stored.until - stored.now, MINUTE * 3, 10_000);
    assert_eq!(stored.owner, first.owner.as_str());
}

pub(super) fn a_renewal_never_shortens(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    let before = stored(store, "job");
    assert_eq!(renew(&mut *backend, &Claim { lease: Duration::from_secs(1), ..first }), Kept::Kept);
    assert!((stored(store, "job").until - before.until).abs() < 50);
}

pub(super) fn an_expired_lock_cannot_be_renewed_or_released(store: &dyn Store) {
    let (mut backend, mut others) = (open(store), open(store));
    let short = claim("job", 1, Duration::from_millis(50));
    take(&mut *backend, &short);
    wait_until_over(store, "job");
    let expired = store.stored("job");
    assert_eq!(renew(&mut *backend, &Claim { lease: MINUTE, ..short.clone() }), Kept::Lost);
    assert_eq!(release(&mut *backend, &short, MINUTE), Kept::Lost);
    assert_eq!(store.stored("job").map(|stored| stored.until), expired.map(|stored| stored.until));
    take(&mut *others, &claim("job", 2, MINUTE));
}

pub(super) fn a_late_owner_touches_nothing_of_the_next(store: &dyn Store) {
    let (mut late, mut next) = (open(store), open(store));
    let first = claim("job", 1, Duration::from_millis(50));
    take(&mut *late, &first);
    take_when_free(&mut *next, &claim("job", 2, MINUTE));
    let before = stored(store, "job");
    assert_eq!(renew(&mut *late, &Claim { lease: MINUTE * 9, ..first.clone() }), Kept::Lost);
    assert_eq!(release(&mut *late, &first, Duration::ZERO), Kept::Lost);
    assert_eq!(release(&mut *late, &first, MINUTE * 9), Kept::Lost);
    let after = stored(store, "job");
    assert_eq!((after.owner, after.since), (before.owner, before.since));
    assert!((after.until - before.until).abs() < 50);
}

pub(super) fn an_ended_lock_cannot_be_renewed(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    release(&mut *backend, &first, MINUTE);
    assert_eq!(renew(&mut *backend, &Claim { lease: MINUTE * 9, ..first }), Kept::Lost);
    close_to(stored(store, "job").span(), MINUTE + store.grain(), ROUNDING + 50);
}

pub(super) fn a_stolen_lock_is_lost(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    store.steal("job", "somebody");
    assert_eq!(renew(&mut *backend, &first), Kept::Lost);
    assert_eq!(release(&mut *backend, &first, Duration::ZERO), Kept::Lost);
    assert_eq!(stored(store, "job").owner, "somebody");
    assert!(is_held(store, "job"));
}

pub(super) fn a_deleted_lock_is_lost_and_can_be_taken(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    store.delete("job");
    assert_eq!(renew(&mut *backend, &first), Kept::Lost);
    assert_eq!(release(&mut *backend, &first, MINUTE), Kept::Lost);
    assert_eq!(store.stored("job"), None, "a lost lock is not made again");
    take(&mut *open(store), &claim("job", 2, MINUTE));
}

pub(super) fn nothing_is_ever_deleted_that_java_relies_on(store: &dyn Store) {
    let mut backend = open(store);
    for round in 0..20 {
        let claim = claim("job", round, MINUTE);
        take(&mut *backend, &claim);
        assert_eq!(release(&mut *backend, &claim, Duration::ZERO), Kept::Kept);
        // Redis and etcd delete the key of a free lock, and nothing else of it shows here.
        assert!(store.stored("job").is_some() || store.deletes_free_locks());
    }
    take(&mut *backend, &claim("job", 99, MINUTE));
}

pub(super) fn an_answer_that_was_lost_locks_nobody_out(store: &dyn Store) {
    let first = claim("job", 1, MINUTE);
    take(&mut *open(store), &first);
    // The answer was lost; another connection takes again, and its lease counts.
    let mut backend = open(store);
    let grant = take(&mut *backend, &first);
    assert_eq!((i64::try_from(grant.locked_at.0).unwrap() - stored(store, "job").since).abs().max(ROUNDING), ROUNDING);
    assert_eq!(release(&mut *backend, &first, Duration::ZERO), Kept::Kept);
    assert!(!is_held(store, "job"));
}

pub(super) fn what_may_have_been_taken_can_be_given_back(store: &dyn Store) {
    let first = claim("job", 1, MINUTE);
    // The lock was not taken, and there may be no table yet.
    assert_eq!(
        persist(|| open(store).release(&claim("job", 3, MINUTE), Duration::ZERO, Closing::GivenUp)).answer,
        Kept::Lost
    );
    // The lock was taken.
    take(&mut *open(store), &first);
    assert_eq!(release(&mut *open(store), &first, Duration::ZERO), Kept::Kept);
    // Another owner holds the lock.
    take(&mut *open(store), &claim("job", 2, MINUTE));
    assert_eq!(release(&mut *open(store), &first, Duration::ZERO), Kept::Lost);
    assert!(is_held(store, "job"));
}

pub(super) fn a_renewal_or_a_release_makes_nothing(store: &dyn Store) {
    let (first, before) = (claim("job", 1, MINUTE), store.things());
    for answer in [open(store).renew(&first), open(store).release(&first, Duration::ZERO, SUCCESS)] {
        let is_trouble = answer.as_ref().is_err_and(|error| error.class == ErrorClass::Permanent);
        assert!(is_trouble || answer.as_ref().is_ok_and(|reply| reply.answer == Kept::Lost), "{answer:?}");
    }
    assert_eq!(store.things(), before);
}

/// Returns names that differ in one respect each, or that have a special meaning somewhere.
fn odd_names() -> Vec<String> {
    let long = "x".repeat(64);
    let wide = "日".repeat(64);
    [
        "job",
        "Job",
        "JOB",
        "jób",
        "job a",
        "job  a",
        "job:a",
        "job/a",
        "job#a",
        "job%41",
        "job'a",
        "job\"a",
        "job`a",
        "job\\a",
        "job\\",
        "'; DROP TABLE shedlock; --",
        "${name}",
        "$1",
        "?",
        "{table}",
        "job_",
        "日本語",
        "🦀",
        "ß",
        "ss",
        &long,
        &wide,
    ]
    .map(str::to_owned)
    .into()
}

pub(super) fn any_name_is_a_lock_of_its_own(store: &dyn Store) {
    let names = odd_names();
    let mut backend = open(store);
    for (owner, name) in (0..).zip(&names) {
        take(&mut *backend, &claim(name, owner, MINUTE));
    }
    for (owner, name) in (0..).zip(&names) {
        let found = claim(name, owner, MINUTE);
        assert_eq!(stored(store, name).owner, found.owner.as_str(), "{name}");
        assert_eq!(release(&mut *backend, &found, Duration::ZERO), Kept::Kept, "{name}");
        assert!(!is_held(store, name), "{name}");
    }
}

pub(super) fn the_longest_durations_are_taken_literally(store: &dyn Store) {
    let mut backend = open(store);
    let years = Duration::from_secs(10 * 365 * 86_400);
    let first = claim("job", 1, years);
    let grant = take(&mut *backend, &first);
    close_to(i64::try_from(grant.until.0 - grant.locked_at.0).unwrap(), years + store.grain(), ROUNDING);
    assert_eq!(renew(&mut *backend, &first), Kept::Kept);
    assert_eq!(release(&mut *backend, &first, years), Kept::Kept);
    close_to(stored(store, "job").span(), years + store.grain(), ROUNDING + 50);
}

pub(super) fn a_closed_connection_is_opened_again(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    backend.disconnect();
    assert_eq!(renew(&mut *backend, &first), Kept::Kept);
    backend.disconnect();
    backend.disconnect();
    assert_eq!(release(&mut *backend, &first, Duration::ZERO), Kept::Kept);
}

pub(super) fn many_first_takings_at_once_give_one_lock(store: &dyn Store) {
    const TAKERS: u64 = 16;
    let start = Barrier::new(usize::try_from(TAKERS).unwrap());
    let granted = thread::scope(|scope| {
        let takers: Vec<_> = (0..TAKERS)
            .map(|owner| {
                let start = &start;
                scope.spawn(move || {
                    let mut backend = open(store);
                    start.wait();
                    matches!(persist(|| backend.acquire(&claim("job", owner, MINUTE))).answer, Acquired::Granted(_))
                })
            })
            .collect();
        takers.into_iter().filter(|_| true).map(|taker| taker.join().unwrap()).filter(|granted| *granted).count()
    });
    assert_eq!(granted, 1);
}

/// Each thread reads the number, lets the others run, and writes the number plus one. Without the lock most
/// increments are lost.
pub(super) fn a_racy_counter_counts_right_under_the_lock(store: &dyn Store) {
    const WORKERS: u64 = 4;
    const ROUNDS: u64 = 10;
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("counter");
    fs::write(&file, "0").unwrap();
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let file = &file;
            scope.spawn(move || {
                let mut backend = open(store);
                for round in 0..ROUNDS {
                    let claim = claim("job", worker * ROUNDS + round, MINUTE);
                    take_when_free(&mut *backend, &claim);
                    let count: u64 = fs::read_to_string(file).unwrap().parse().unwrap();
                    thread::sleep(Duration::from_micros(300));
                    fs::write(file, (count + 1).to_string()).unwrap();
                    assert_eq!(release(&mut *backend, &claim, Duration::ZERO), Kept::Kept);
                }
            });
        }
    });
    assert_eq!(fs::read_to_string(&file).unwrap(), (WORKERS * ROUNDS).to_string());
}

pub(super) fn java_s_lock_refuses_us_until_it_is_released(store: &dyn Store) {
    let mut backend = open(store);
    refused_until_free(&mut *backend);
    assert!(store.java_take("job", "java-host", MINUTE));
    let record = refused(&mut *backend, &claim("job", 1, MINUTE));
    assert_eq!(record.owner, store.java_owner("java-host"));
    assert!(record.left <= MINUTE && record.left > MINUTE / 2, "{record:?}");
    // The at-least of the Java application is not over.
    store.java_release("job", "java-host", MINUTE / 2);
    let record = refused(&mut *backend, &claim("job", 1, MINUTE));
    assert!(record.left <= MINUTE / 2, "{record:?}");
    store.java_release("job", "java-host", Duration::ZERO);
    take(&mut *backend, &claim("job", 1, MINUTE));
}

pub(super) fn our_lock_refuses_java_until_it_is_released(store: &dyn Store) {
    let mut backend = open(store);
    let (plain, kept) = (claim("plain", 1, MINUTE), claim("kept", 2, MINUTE));
    take(&mut *backend, &plain);
    take(&mut *backend, &kept);
    assert!(!store.java_take("plain", "java-host", MINUTE) && !store.java_take("kept", "java-host", MINUTE));
    release(&mut *backend, &plain, Duration::ZERO);
    release(&mut *backend, &kept, MINUTE / 2);
    assert!(store.java_take("plain", "java-host", MINUTE));
    assert!(!store.java_take("kept", "java-host", MINUTE), "at-least of ours is not over");
    assert_eq!(stored(store, "plain").owner, store.java_owner("java-host"));
}

pub(super) fn neither_frees_the_other_s_lock(store: &dyn Store) {
    let mut backend = open(store);
    let (ours, late) = (claim("ours", 1, MINUTE), claim("java", 2, Duration::from_millis(50)));
    take(&mut *backend, &ours);
    if store.java_frees_only_its_own() {
        store.java_release("ours", "java-host", Duration::ZERO);
        assert!(is_held(store, "ours"));
    } else {
        // Then we do not go on as if the lock were ours.
        store.java_release("ours", "java-host", MINUTE / 2);
        assert_eq!(renew(&mut *backend, &ours), Kept::Lost);
        assert_eq!(release(&mut *backend, &ours, Duration::ZERO), Kept::Lost);
        assert!(is_held(store, "ours"));
    }
    take(&mut *backend, &late);
    let begun = Instant::now();
    while !store.java_take("java", "java-host", MINUTE) {
        assert!(begun.elapsed() < PATIENCE, "java never gets the lock");
    }
    assert_eq!(release(&mut *backend, &late, Duration::ZERO), Kept::Lost);
    assert_eq!(renew(&mut *backend, &late), Kept::Lost);
    assert_eq!(stored(store, "java").owner, store.java_owner("java-host"));
    assert!(is_held(store, "java"));
}

pub(super) fn a_table_made_for_java_works(store: &dyn Store) {
    store.make_table();
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    close_to(stored(store, "job").span(), MINUTE + store.grain(), ROUNDING + 50);
    assert_eq!(renew(&mut *backend, &Claim { lease: MINUTE * 2, ..first.clone() }), Kept::Kept);
    assert_eq!(release(&mut *backend, &first, MINUTE / 2), Kept::Kept);
    close_to(stored(store, "job").span(), MINUTE / 2 + store.grain(), ROUNDING + 50);
    assert!(!store.java_take("job", "java-host", MINUTE));
    assert!(store.java_take("other", "java-host", MINUTE));
    refused(&mut *backend, &claim("other", 2, MINUTE));
}

/// Checks that a token is greater than `last`, and makes it the last.
#[track_caller]
fn grows(last: &mut u64, grant: &Grant) {
    let token = grant.token.expect("there is no token");
    assert!(token > *last, "{token} follows {last}");
    *last = token;
}

fn tokens(store: &dyn Store, name: &str) -> Vec<u64> {
    store.history(name).iter().map(|run| run.token).collect()
}

/// Waits until a lock has expired by the clock of the server and by that of the backend, which may differ.
fn wait_until_over(store: &dyn Store, name: &str) {
    let begun = Instant::now();
    let mut backend = open(store);
    while is_held(store, name) || persist(|| backend.locks(&[name])).locks.iter().any(Lock::is_held) {
        assert!(begun.elapsed() < PATIENCE, "it never expires");
    }
}

/// Returns the only record of this owner.
#[track_caller]
fn record(store: &dyn Store, claim: &Claim) -> Run {
    let runs = store.history(claim.name.as_str());
    let ours: Vec<_> = runs.iter().filter(|run| run.owner == claim.owner.as_str()).collect();
    let [run] = ours[..] else { panic!("{} is not there once: {runs:?}", claim.owner) };
    run.clone()
}

pub(super) fn tokens_grow_with_every_taking(store: &dyn Store) {
    let mut backend = open(store);
    let mut last = 0;
    for owner in 1..=5 {
        let claim = claim("job", owner, MINUTE);
        grows(&mut last, &take(&mut *backend, &claim));
        release(&mut *backend, &claim, Duration::ZERO);
    }
    grows(&mut last, &take(&mut *backend, &claim("job", 6, Duration::from_millis(50))));
    wait_until_over(store, "job");
    backend.disconnect();
    grows(&mut last, &take(&mut *backend, &claim("job", 7, MINUTE)));
    store.steal("job", "somebody");
    store.java_release("job", "somebody", Duration::ZERO);
    assert!(store.java_take("job", "java-host", MINUTE));
    store.java_release("job", "java-host", Duration::ZERO);
    grows(&mut last, &take(&mut *open(store), &claim("job", 8, MINUTE)));
    store.delete("job");
    grows(&mut last, &take(&mut *open(store), &claim("job", 9, MINUTE)));
    assert_eq!(tokens(store, "job").first(), Some(&last));
}

/// Each thread records its token while it has the lock.
pub(super) fn tokens_of_racing_takers_grow_in_the_order_of_the_takings(store: &dyn Store) {
    const WORKERS: u64 = 5;
    const ROUNDS: u64 = 20;
    let noted = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let noted = &noted;
            scope.spawn(move || {
                let mut backend = open(store);
                for round in 0..ROUNDS {
                    let claim = claim("job", worker * ROUNDS + round, MINUTE);
                    let begun = Instant::now();
                    let grant = loop {
                        match persist(|| backend.acquire(&claim)).answer {
                            Acquired::Granted(grant) => break grant,
                            Acquired::Held(_) => thread::sleep(Duration::from_millis(1)),
                        }
                        assert!(begun.elapsed() < PATIENCE, "it never becomes free");
                    };
                    noted.lock().unwrap().push(grant.token.expect("there is no token"));
                    release(&mut *backend, &claim, Duration::ZERO);
                }
            });
        }
    });
    let noted = noted.into_inner().unwrap();
    assert_eq!(noted.len() as u64, WORKERS * ROUNDS);
    assert!(noted.is_sorted_by(|one, next| one < next), "{noted:?}");
    assert_eq!(tokens(store, "job"), noted.into_iter().rev().collect::<Vec<_>>());
}

pub(super) fn a_skip_and_a_renewal_use_no_token(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    let grant = take(&mut *backend, &first);
    let before = store.history("job");
    for owner in 2..=4 {
        refused(&mut *open(store), &claim("job", owner, MINUTE));
        assert_eq!(renew(&mut *backend, &first), Kept::Kept);
        assert_eq!(release(&mut *open(store), &claim("job", owner, MINUTE), Duration::ZERO), Kept::Lost);
    }
    assert_eq!(store.history("job"), before);
    assert_eq!(tokens(store, "job"), [grant.token.unwrap()]);
}

pub(super) fn taking_again_has_a_larger_token_and_one_record(store: &dyn Store) {
    let earlier = claim("job", 9, MINUTE);
    let mut backend = open(store);
    let mut last = 0;
    grows(&mut last, &take(&mut *backend, &earlier));
    release(&mut *backend, &earlier, Duration::ZERO);
    let before = record(store, &earlier);
    let first = claim("job", 1, MINUTE);
    for _ in 0..3 {
        // The answer to the last taking was lost.
        grows(&mut last, &take(&mut *open(store), &first));
        let run = record(store, &first);
        assert_eq!((run.token, run.ended), (last, None));
    }
    assert_eq!((record(store, &earlier), tokens(store, "job").len()), (before, 2));
    release(&mut *backend, &first, Duration::ZERO);
    assert_eq!(record(store, &first).outcome.as_deref(), Some("success"));
}

/// For a backend whose time is that of the start of a request: a slow request with a lost answer is executed after a
/// later one.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn taking_again_shortens_nothing(store: &dyn Store) {
    let mut backend = open(store);
    take(&mut *backend, &claim("job", 1, MINUTE));
    let before = stored(store, "job");
    take(&mut *backend, &claim("job", 1, MINUTE / 2));
    assert_eq!(stored(store, "job").until, before.until);
    // An ended lock has no part in this.
    release(&mut *backend, &claim("job", 1, MINUTE / 2), Duration::ZERO);
    take(&mut *backend, &claim("job", 2, Duration::from_secs(5)));
    assert_eq!(stored(store, "job").span(), 5_000);
}

/// For a backend on a network: a taking that was given up arrives late.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(super) fn a_taking_that_comes_after_it_was_given_back_takes_nothing(store: &dyn Store) {
    let (first, late) = (claim("job", 1, MINUTE), claim("job", 2, MINUTE));
    take(&mut *open(store), &first);
    release(&mut *open(store), &first, Duration::ZERO);
    let before = store.history("job");
    for keep in [100, 1] {
        let late = Claim { keep, ..late.clone() };
        persist(|| open(store).release(&late, Duration::ZERO, Closing::GivenUp));
        let error = open(store).acquire(&late).unwrap_err();
        assert!(error.message.contains("was given up"), "{error:?}");
        assert!(!is_held(store, "job"), "{:?}", store.stored("job"));
        assert_eq!(store.history("job"), before);
        let wanted = crate::lock::Wanted { names: vec!["job".to_owned()], ..crate::lock::Wanted::default() };
        assert_eq!(persist(|| open(store).runs(&wanted)).runs.len(), 1);
    }
    // Other owners' runs come and go, and the mark stays.
    let mut last = 0;
    for number in 3..6 {
        let next = Claim { keep: 1, ..claim("job", number, MINUTE) };
        grows(&mut last, &take(&mut *open(store), &next));
        release(&mut *open(store), &next, Duration::ZERO);
    }
    assert_eq!(tokens(store, "job").len(), 1);
    open(store).acquire(&late).unwrap_err();
    assert!(!is_held(store, "job"));
    // A lock that never existed works the same.
    let other = claim("other", 1, MINUTE);
    assert_eq!(persist(|| open(store).release(&other, Duration::ZERO, Closing::GivenUp)).answer, Kept::Lost);
    open(store).acquire(&other).unwrap_err();
    assert!(!is_held(store, "other"));
}

/// The taking and the release that gives it up are on their way at the same instant, in either order.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(super) fn a_taking_beside_its_giving_back_takes_nothing(store: &dyn Store) {
    let warm = claim("job", 0, MINUTE);
    take(&mut *open(store), &warm);
    release(&mut *open(store), &warm, Duration::ZERO);
    let (mut taker, mut giver) = (open(store), open(store));
    let (mut refused, mut taken) = (0, 0);
    for number in 1..=200 {
        let given_up = claim("job", number, MINUTE);
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            let late = scope.spawn(|| {
                barrier.wait();
                taker.acquire(&given_up)
            });
            barrier.wait();
            persist(|| giver.release(&given_up, Duration::ZERO, Closing::GivenUp));
            match late.join().unwrap() {
                Ok(_) => taken += 1,
                Err(_) => refused += 1,
            }
        });
        assert!(
            !is_held(store, "job"),
            "{:?} after {refused} that were refused and {taken} taken",
            store.stored("job")
        );
        assert_eq!(tokens(store, "job").len(), 1);
    }
    println!("{refused} were refused, {taken} were taken and given back");
}

/// The answer to the first taking was lost, its lease has ended, and another owner was faster than the second taking.
pub(super) fn taking_again_after_another_s_run_leaves_one_record(store: &dyn Store) {
    let mut backend = open(store);
    let (unanswered, other) = (claim("job", 1, Duration::from_millis(50)), claim("job", 2, MINUTE));
    take(&mut *backend, &unanswered);
    take_when_free(&mut *backend, &other);
    release(&mut *backend, &other, Duration::ZERO);
    let between = record(store, &other);
    let first = Claim { lease: MINUTE, ..unanswered };
    let grant = take(&mut *backend, &first);
    assert_eq!(tokens(store, "job"), [grant.token.unwrap(), between.token]);
    release(&mut *backend, &first, Duration::ZERO);
    assert_eq!(record(store, &first).outcome.as_deref(), Some("success"));
    assert_eq!((record(store, &other), tokens(store, "job").len()), (between, 2));
}

pub(super) fn a_run_is_recorded_and_closed(store: &dyn Store) {
    let mut backend = open(store);
    let endings = [
        (RunOutcome::Success, Some(0)),
        (RunOutcome::Failure, Some(3)),
        (RunOutcome::Expired, Some(124)),
        (RunOutcome::Lost, Some(123)),
        (RunOutcome::Error, Some(255)),
        (RunOutcome::Success, None),
    ];
    for (number, (verdict, exit_code)) in (1..).zip(endings) {
        let claim = claim("job", number, MINUTE);
        let grant = take(&mut *backend, &claim);
        let locked_at = i64::try_from(grant.locked_at.0).unwrap();
        let run = record(store, &claim);
        assert!((run.started - locked_at).abs() <= ROUNDING, "{run:?} {grant:?}");
        let open = Run {
            token: grant.token.unwrap(),
            owner: claim.owner.as_str().to_owned(),
            host: "host".to_owned(),
            started: run.started,
            ended: None,
            exit_code: None,
            outcome: None,
        };
        assert_eq!(run, open);
        let before = wait_for_age(store, "job", 20).now;
        assert_eq!(
            persist(|| backend.release(&claim, MINUTE / 2, Closing::Ended { verdict, exit_code })).answer,
            Kept::Kept
        );
        let run = record(store, &claim);
        let ended = run.ended.unwrap();
        assert!((before - ROUNDING..=stored(store, "job").now + ROUNDING).contains(&ended), "{before} {run:?}");
        let outcome = Some(verdict.as_str().to_owned());
        assert_eq!(run, Run { ended: Some(ended), exit_code: exit_code.map(i64::from), outcome, ..open });
        store.delete("job");
    }
    assert!(tokens(store, "job").is_sorted_by(|one, next| one > next));
}

pub(super) fn a_record_is_closed_also_when_the_lock_was_lost(store: &dyn Store) {
    type BackendRef<'a> = (&'a str, &'a dyn Fn(&str));
    let lost = Closing::Ended { verdict: RunOutcome::Lost, exit_code: Some(123) };
    let ways: [BackendRef<'_>; 4] = [
        ("expired", &|_| {}),
        ("stolen", &|name| store.steal(name, "somebody")),
        ("deleted", &|name| store.delete(name)),
        ("taken", &|name| {
            take_when_free(&mut *open(store), &claim(name, 2, MINUTE));
        }),
    ];
    for (name, lose) in ways {
        if name == "deleted" && store.in_one_record() {
            continue;
        }
        let mut backend = open(store);
        let lease = if ["expired", "taken"].contains(&name) { Duration::from_millis(50) } else { MINUTE };
        let ours = claim(name, 1, lease);
        take(&mut *backend, &ours);
        let open = record(store, &ours);
        if name == "expired" {
            wait_until_over(store, name);
        }
        lose(name);
        let others = store.history(name).into_iter().filter(|run| run.owner != ours.owner.as_str()).collect::<Vec<_>>();
        assert_eq!(persist(|| backend.release(&ours, Duration::ZERO, lost)).answer, Kept::Lost, "{name}");
        let run = record(store, &ours);
        assert!(run.ended.is_some_and(|ended| ended >= run.started - ROUNDING), "{name}: {run:?}");
        let closed = Run { ended: run.ended, exit_code: Some(123), outcome: Some("lost".to_owned()), ..open };
        assert_eq!(run, closed, "{name}");
        assert_eq!(store.history(name).len(), others.len() + 1, "{name}");
        for other in others {
            assert_eq!(record(store, &claim(name, 2, MINUTE)), other, "another's record is none of ours");
        }
    }
}

pub(super) fn an_unused_taking_leaves_no_record(store: &dyn Store) {
    let mut backend = open(store);
    let (first, unused) = (claim("job", 1, MINUTE), claim("job", 2, MINUTE));
    let mut last = 0;
    grows(&mut last, &take(&mut *backend, &first));
    release(&mut *backend, &first, Duration::ZERO);
    let before = store.history("job");
    for closing in [Closing::Unused, Closing::GivenUp] {
        take(&mut *backend, &unused);
        assert_eq!(tokens(store, "job").len(), 2);
        for _ in 0..2 {
            assert_eq!(persist(|| backend.release(&unused, Duration::ZERO, closing)).answer, Kept::Kept);
            assert_eq!(store.history("job"), before);
        }
    }
    let unused = claim("job", 4, MINUTE);
    take(&mut *backend, &unused);
    store.delete("job");
    assert_eq!(persist(|| backend.release(&unused, Duration::ZERO, Closing::Unused)).answer, Kept::Lost);
    assert_eq!(store.history("job"), if store.in_one_record() { Vec::new() } else { before });
    grows(&mut last, &take(&mut *backend, &claim("job", 3, MINUTE)));
}

/// Runs under the lock and returns the token.
#[track_caller]
fn run(backend: &mut dyn Backend, claim: &Claim) -> u64 {
    let grant = take(backend, claim);
    release(backend, claim, Duration::ZERO);
    grant.token.expect("there is no token")
}

pub(super) fn only_the_last_runs_are_kept(store: &dyn Store) {
    let mut backend = open(store);
    let mut others: Vec<u64> = (1..=4).map(|owner| run(&mut *backend, &claim("other", owner, MINUTE))).collect();
    others.reverse();
    let mut runs = Vec::new();
    for owner in 1..=6 {
        runs.insert(0, run(&mut *backend, &Claim { keep: 3, ..claim("job", owner, MINUTE) }));
        runs.truncate(3);
        assert_eq!(tokens(store, "job"), runs);
    }
    // A taking that led to no run removes no record.
    let unused = Claim { keep: 3, ..claim("job", 7, MINUTE) };
    take(&mut *backend, &unused);
    persist(|| backend.release(&unused, Duration::ZERO, Closing::Unused));
    assert_eq!(tokens(store, "job"), runs);
    let last = run(&mut *backend, &Claim { keep: 0, ..claim("job", 8, MINUTE) });
    let left = tokens(store, "job");
    assert!(left == [last] || left.is_empty() && (store.in_one_record() || store.deletes_free_locks()), "{left:?}");
    assert!(run(&mut *backend, &Claim { keep: 0, ..claim("job", 9, MINUTE) }) > last);
    assert_eq!(tokens(store, "other"), others);
}

pub(super) fn a_late_release_keeps_no_more_runs_than_another(store: &dyn Store) {
    let mut backend = open(store);
    let late = Claim { keep: 1, ..claim("job", 1, Duration::from_millis(50)) };
    take(&mut *backend, &late);
    wait_until_over(store, "job");
    let next = take(&mut *open(store), &claim("job", 2, MINUTE));
    release(&mut *backend, &late, Duration::ZERO);
    assert_eq!(tokens(store, "job"), [next.token.unwrap()]);
}

pub(super) fn a_long_history_is_pruned_now_and_then(store: &dyn Store) {
    // The chance is one in two, and the owner's number decides.
    const KEEP: u32 = 40;
    let mut backend = open(store);
    let run = |backend: &mut dyn Admin, owner| run(backend, &Claim { keep: KEEP, ..claim("job", owner, MINUTE) });
    let mut runs: Vec<u64> = (1..=40).map(|owner| run(&mut *backend, owner)).collect();
    runs.reverse();
    assert_eq!(tokens(store, "job"), runs);
    // Pruning costs nothing where all runs are in one record, or in a set that knows their ranks.
    let each_time = store.in_one_record() || store.url().starts_with("redis");
    for (owner, surplus) in [(41, 1), (43, 2), (42, 0), (44, 0), (45, 1), (46, 0)] {
        runs.insert(0, run(&mut *backend, owner));
        let kept = KEEP as usize + if each_time { 0 } else { surplus };
        assert_eq!(tokens(store, "job"), runs[..kept], "after {owner}");
        runs.truncate(kept);
    }
    // One that comes late, and has nothing to close, prunes as well.
    for owner in [47, 49] {
        runs.insert(0, run(&mut *backend, owner));
    }
    let late = Claim { keep: KEEP, ..claim("job", 48, Duration::from_millis(50)) };
    let token = take(&mut *backend, &late).token.unwrap();
    runs.insert(0, token);
    wait_until_over(store, "job");
    runs.insert(0, run(&mut *open(store), 51));
    release(&mut *backend, &late, Duration::ZERO);
    assert_eq!(tokens(store, "job"), runs[..KEEP as usize]);
    assert_eq!(record(store, &late).outcome.as_deref(), Some("success"));
}

pub(super) fn a_history_gets_shorter_when_fewer_runs_are_to_be_kept(store: &dyn Store) {
    let mut backend = open(store);
    let mut runs: Vec<u64> =
        (1..=14).map(|owner| run(&mut *backend, &Claim { keep: 1000, ..claim("job", owner, MINUTE) })).collect();
    assert_eq!(tokens(store, "job").len(), 14);
    runs.push(run(&mut *backend, &Claim { keep: 10, ..claim("job", 15, MINUTE) }));
    runs.reverse();
    assert_eq!(tokens(store, "job"), runs[..10]);
}

pub(super) fn hosts_that_keep_different_numbers_of_runs_agree_on_the_newest(store: &dyn Store) {
    let (mut many, mut few) = (open(store), open(store));
    let mut runs = Vec::new();
    let mut next = 0;
    for (keep, left) in [(1000, [1, 2, 3]), (2, [2; 3]), (1000, [3, 4, 5])] {
        let backend = if keep == 2 { &mut few } else { &mut many };
        for left in left {
            next += 1;
            runs.insert(0, run(&mut **backend, &Claim { keep, ..claim("job", next, MINUTE) }));
            runs.truncate(left);
            assert_eq!(tokens(store, "job"), runs, "after {next}");
        }
    }
}

pub(super) fn releasing_again_changes_no_record(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    release(&mut *backend, &first, MINUTE / 2);
    let before = store.history("job");
    wait_for_age(store, "job", 100);
    let failure = Closing::Ended { verdict: RunOutcome::Failure, exit_code: Some(1) };
    assert_eq!(persist(|| open(store).release(&first, MINUTE / 2, failure)).answer, Kept::Kept);
    assert_eq!(store.history("job"), before);
}

pub(super) fn names_have_histories_of_their_own(store: &dyn Store) {
    let mut backend = open(store);
    let names = odd_names();
    let claims: Vec<Claim> =
        (0..).zip(&names).map(|(owner, name)| Claim { keep: 1, ..claim(name, owner, MINUTE) }).collect();
    let first: Vec<u64> = claims.iter().map(|claim| run(&mut *backend, claim)).collect();
    for (claim, token) in claims.iter().zip(first) {
        assert_eq!(tokens(store, claim.name.as_str()), [token], "{}", claim.name);
        assert_eq!(record(store, claim).outcome.as_deref(), Some("success"), "{}", claim.name);
    }
}

pub(super) fn a_missing_history_is_made_beside_a_table_made_for_java(store: &dyn Store) {
    store.make_table();
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    let token = run(&mut *backend, &first);
    let run = record(store, &first);
    assert_eq!((run.token, run.outcome.as_deref()), (token, Some("success")));
}
