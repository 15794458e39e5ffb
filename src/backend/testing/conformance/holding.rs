//! The contract of acquiring, renewing and releasing a lock.

use std::time::{Duration, Instant};

use super::requests::{
    MINUTE, ROUNDED_UP, ROUNDING, claim, close_to, is_held, open, refused, refused_until_free, release, renew, stored,
    take, take_when_free, wait_for_age,
};
use crate::lock::{Claim, StillHeld};
use servers::stores::Store;

pub(crate) fn a_free_lock_is_granted(store: &dyn Store) {
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

pub(crate) fn a_second_owner_is_refused_and_learns_who_holds_it(store: &dyn Store) {
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

pub(crate) fn locks_of_different_names_are_independent(store: &dyn Store) {
    let mut backend = open(store);
    let (one, other) = (claim("one", 1, MINUTE), claim("other", 2, MINUTE));
    take(&mut *backend, &one);
    take(&mut *backend, &other);
    release(&mut *backend, &one, Duration::ZERO);
    assert!(!is_held(store, "one") && is_held(store, "other"));
}

pub(crate) fn the_same_owner_takes_again(store: &dyn Store) {
    let first = claim("job", 1, MINUTE);
    take(&mut *open(store), &first);
    take(&mut *open(store), &Claim { lease: MINUTE * 2, ..first.clone() });
    close_to(stored(store, "job").span(), MINUTE * 2 + store.grain(), ROUNDING + 50);
    assert_eq!(release(&mut *open(store), &first, Duration::ZERO), StillHeld::Held);
    assert!(!is_held(store, "job"));
}

pub(crate) fn a_lock_frees_when_its_lease_ends_and_not_before(store: &dyn Store) {
    let (mut ours, mut others) = (open(store), open(store));
    let lease = Duration::from_millis(300);
    refused_until_free(&mut *others);
    let asked = Instant::now();
    take(&mut *ours, &claim("job", 1, lease));
    take_when_free(&mut *others, &claim("job", 2, MINUTE));
    // The lease begins between the request and the answer.
    assert!(asked.elapsed() >= lease, "{:?}", asked.elapsed());
}

pub(crate) fn a_released_lock_is_free_at_once(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    let aged = wait_for_age(store, "job", 100);
    assert_eq!(release(&mut *backend, &first, Duration::ZERO), StillHeld::Held);
    let released = store.stored("job");
    assert!(released.is_none_or(|lock| !lock.is_held() && lock.until >= aged.now), "it ends when it was released");
    take(&mut *open(store), &claim("job", 2, MINUTE));
}

pub(crate) fn a_released_lock_stays_held_until_hold_after_it_was_taken(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    // Part of the hold has passed when the lock is released.
    let before = wait_for_age(store, "job", 300);
    assert_eq!(release(&mut *backend, &first, MINUTE / 2), StillHeld::Held);
    let after = stored(store, "job");
    assert_eq!(after.owner, first.owner.ended());
    assert_eq!((after.since - before.since).abs().max(ROUNDING), ROUNDING);
    close_to(after.span(), MINUTE / 2 + store.grain(), ROUNDING + 50);
    let record = refused(&mut *open(store), &claim("job", 2, MINUTE));
    assert_eq!(record.owner, first.owner.ended());
    refused(&mut *open(store), &first);
}

pub(crate) fn a_hold_may_be_longer_than_the_lease(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    assert_eq!(release(&mut *backend, &first, MINUTE * 60), StillHeld::Held);
    close_to(stored(store, "job").span(), MINUTE * 60 + store.grain(), ROUNDING + 50);
}

pub(crate) fn releasing_again_is_kept_and_changes_nothing(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    release(&mut *backend, &first, MINUTE / 2);
    let after = stored(store, "job");
    assert_eq!(release(&mut *open(store), &first, MINUTE * 5), StillHeld::Held);
    let again = stored(store, "job");
    assert_eq!((again.owner, again.since), (after.owner, after.since));
    assert!((again.until - after.until).abs() < 50, "{} {}", again.until, after.until);
}

pub(crate) fn a_renewed_lock_is_held_for_the_lease_from_now(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    assert_eq!(renew(&mut *backend, &Claim { lease: MINUTE * 3, ..first.clone() }), StillHeld::Held);
    let stored = stored(store, "job");
    close_to(stored.until - stored.now, MINUTE * 3, 10_000);
    assert_eq!(stored.owner, first.owner.as_str());
}

pub(crate) fn a_renewal_never_shortens(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    let before = stored(store, "job");
    assert_eq!(renew(&mut *backend, &Claim { lease: Duration::from_secs(1), ..first }), StillHeld::Held);
    assert!((stored(store, "job").until - before.until).abs() < 50);
}
