//! The contract of a lock that was lost, of answers that were lost, and of races.

use std::sync::Barrier;
use std::time::Duration;
use std::{fs, thread};

use super::requests::{
    MINUTE, ROUNDING, SUCCESS, claim, close_to, is_held, odd_names, open, persist, release, renew, stored, take,
    take_when_free, wait_until_over,
};
use crate::lock::{Acquired, Claim, Closing, ErrorClass, StillHeld};
use servers::stores::Store;

pub(crate) fn an_expired_lock_cannot_be_renewed_or_released(store: &dyn Store) {
    let (mut backend, mut others) = (open(store), open(store));
    let short = claim("job", 1, Duration::from_millis(50));
    take(&mut *backend, &short);
    wait_until_over(store, "job");
    let expired = store.stored("job");
    assert_eq!(renew(&mut *backend, &Claim { lease: MINUTE, ..short.clone() }), StillHeld::Lost);
    assert_eq!(release(&mut *backend, &short, MINUTE), StillHeld::Lost);
    assert_eq!(store.stored("job").map(|stored| stored.until), expired.map(|stored| stored.until));
    take(&mut *others, &claim("job", 2, MINUTE));
}

pub(crate) fn a_late_owner_touches_nothing_of_the_next(store: &dyn Store) {
    let (mut late, mut next) = (open(store), open(store));
    let first = claim("job", 1, Duration::from_millis(50));
    take(&mut *late, &first);
    take_when_free(&mut *next, &claim("job", 2, MINUTE));
    let before = stored(store, "job");
    assert_eq!(renew(&mut *late, &Claim { lease: MINUTE * 9, ..first.clone() }), StillHeld::Lost);
    assert_eq!(release(&mut *late, &first, Duration::ZERO), StillHeld::Lost);
    assert_eq!(release(&mut *late, &first, MINUTE * 9), StillHeld::Lost);
    let after = stored(store, "job");
    assert_eq!((after.owner, after.since), (before.owner, before.since));
    assert!((after.until - before.until).abs() < 50);
}

pub(crate) fn an_ended_lock_cannot_be_renewed(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    release(&mut *backend, &first, MINUTE);
    assert_eq!(renew(&mut *backend, &Claim { lease: MINUTE * 9, ..first }), StillHeld::Lost);
    close_to(stored(store, "job").span(), MINUTE + store.grain(), ROUNDING + 50);
}

pub(crate) fn a_stolen_lock_is_lost(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    store.steal("job", "somebody");
    assert_eq!(renew(&mut *backend, &first), StillHeld::Lost);
    assert_eq!(release(&mut *backend, &first, Duration::ZERO), StillHeld::Lost);
    assert_eq!(stored(store, "job").owner, "somebody");
    assert!(is_held(store, "job"));
}

pub(crate) fn a_deleted_lock_is_lost_and_can_be_taken(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    store.delete("job");
    assert_eq!(renew(&mut *backend, &first), StillHeld::Lost);
    assert_eq!(release(&mut *backend, &first, MINUTE), StillHeld::Lost);
    assert_eq!(store.stored("job"), None, "a lost lock is not made again");
    take(&mut *open(store), &claim("job", 2, MINUTE));
}

pub(crate) fn nothing_is_ever_deleted_that_java_relies_on(store: &dyn Store) {
    let mut backend = open(store);
    for round in 0..20 {
        let claim = claim("job", round, MINUTE);
        take(&mut *backend, &claim);
        assert_eq!(release(&mut *backend, &claim, Duration::ZERO), StillHeld::Held);
        // Redis and etcd delete the key of a free lock, and nothing else of it shows here.
        assert!(store.stored("job").is_some() || store.deletes_free_locks());
    }
    take(&mut *backend, &claim("job", 99, MINUTE));
}

pub(crate) fn an_answer_that_was_lost_locks_nobody_out(store: &dyn Store) {
    let first = claim("job", 1, MINUTE);
    take(&mut *open(store), &first);
    // The answer was lost; another connection acquires the lock again, and its lease counts.
    let mut backend = open(store);
    let grant = take(&mut *backend, &first);
    assert_eq!((i64::try_from(grant.locked_at.0).unwrap() - stored(store, "job").since).abs().max(ROUNDING), ROUNDING);
    assert_eq!(release(&mut *backend, &first, Duration::ZERO), StillHeld::Held);
    assert!(!is_held(store, "job"));
}

pub(crate) fn what_may_have_been_taken_can_be_given_back(store: &dyn Store) {
    let first = claim("job", 1, MINUTE);
    // The lock was not acquired, and there may be no table yet.
    assert_eq!(
        persist(|| open(store).release(&claim("job", 3, MINUTE), Duration::ZERO, Closing::Undone)).answer,
        StillHeld::Lost
    );
    // The lock was acquired.
    take(&mut *open(store), &first);
    assert_eq!(release(&mut *open(store), &first, Duration::ZERO), StillHeld::Held);
    // Another owner holds the lock.
    take(&mut *open(store), &claim("job", 2, MINUTE));
    assert_eq!(release(&mut *open(store), &first, Duration::ZERO), StillHeld::Lost);
    assert!(is_held(store, "job"));
}

pub(crate) fn a_renewal_or_a_release_makes_nothing(store: &dyn Store) {
    let (first, before) = (claim("job", 1, MINUTE), store.things());
    for answer in [open(store).renew(&first), open(store).release(&first, Duration::ZERO, SUCCESS)] {
        let is_trouble = answer.as_ref().is_err_and(|error| error.class == ErrorClass::Permanent);
        assert!(is_trouble || answer.as_ref().is_ok_and(|reply| reply.answer == StillHeld::Lost), "{answer:?}");
    }
    assert_eq!(store.things(), before);
}

pub(crate) fn any_name_is_a_lock_of_its_own(store: &dyn Store) {
    let names = odd_names();
    let mut backend = open(store);
    for (owner, name) in (0..).zip(&names) {
        take(&mut *backend, &claim(name, owner, MINUTE));
    }
    for (owner, name) in (0..).zip(&names) {
        let found = claim(name, owner, MINUTE);
        assert_eq!(stored(store, name).owner, found.owner.as_str(), "{name}");
        assert_eq!(release(&mut *backend, &found, Duration::ZERO), StillHeld::Held, "{name}");
        assert!(!is_held(store, name), "{name}");
    }
}

pub(crate) fn the_longest_durations_are_taken_literally(store: &dyn Store) {
    let mut backend = open(store);
    let years = Duration::from_secs(10 * 365 * 86_400);
    let first = claim("job", 1, years);
    let grant = take(&mut *backend, &first);
    close_to(i64::try_from(grant.until.0 - grant.locked_at.0).unwrap(), years + store.grain(), ROUNDING);
    assert_eq!(renew(&mut *backend, &first), StillHeld::Held);
    assert_eq!(release(&mut *backend, &first, years), StillHeld::Held);
    close_to(stored(store, "job").span(), years + store.grain(), ROUNDING + 50);
}

pub(crate) fn a_closed_connection_is_opened_again(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    backend.disconnect();
    assert_eq!(renew(&mut *backend, &first), StillHeld::Held);
    backend.disconnect();
    backend.disconnect();
    assert_eq!(release(&mut *backend, &first, Duration::ZERO), StillHeld::Held);
}

pub(crate) fn many_first_acquisitions_at_once_give_one_lock(store: &dyn Store) {
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
pub(crate) fn a_racy_counter_counts_right_under_the_lock(store: &dyn Store) {
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
                    assert_eq!(release(&mut *backend, &claim, Duration::ZERO), StillHeld::Held);
                }
            });
        }
    });
    assert_eq!(fs::read_to_string(&file).unwrap(), (WORKERS * ROUNDS).to_string());
}
