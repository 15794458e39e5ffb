//! The contract with applications of the Java library, which share the locks.

use std::time::{Duration, Instant};

use super::requests::{
    MINUTE, ROUNDING, WAIT_LIMIT, claim, close_to, is_held, open, refused, refused_until_free, release, renew, stored,
    take,
};
use crate::lock::{Claim, StillHeld};
use servers::stores::Store;

pub(crate) fn java_s_lock_refuses_us_until_it_is_released(store: &dyn Store) {
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

pub(crate) fn our_lock_refuses_java_until_it_is_released(store: &dyn Store) {
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

pub(crate) fn neither_frees_the_other_s_lock(store: &dyn Store) {
    let mut backend = open(store);
    let (ours, late) = (claim("ours", 1, MINUTE), claim("java", 2, Duration::from_millis(50)));
    take(&mut *backend, &ours);
    if store.java_frees_only_its_own() {
        store.java_release("ours", "java-host", Duration::ZERO);
        assert!(is_held(store, "ours"));
    } else {
        // The Java application frees shedlock's lock; then the run must not go on as if it held it.
        store.java_release("ours", "java-host", MINUTE / 2);
        assert_eq!(renew(&mut *backend, &ours), StillHeld::Lost);
        assert_eq!(release(&mut *backend, &ours, Duration::ZERO), StillHeld::Lost);
        assert!(is_held(store, "ours"));
    }
    take(&mut *backend, &late);
    let begun = Instant::now();
    while !store.java_take("java", "java-host", MINUTE) {
        assert!(begun.elapsed() < WAIT_LIMIT, "java never gets the lock");
    }
    assert_eq!(release(&mut *backend, &late, Duration::ZERO), StillHeld::Lost);
    assert_eq!(renew(&mut *backend, &late), StillHeld::Lost);
    assert_eq!(stored(store, "java").owner, store.java_owner("java-host"));
    assert!(is_held(store, "java"));
}

pub(crate) fn a_table_made_for_java_works(store: &dyn Store) {
    store.make_table();
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    close_to(stored(store, "job").span(), MINUTE + store.grain(), ROUNDING + 50);
    assert_eq!(renew(&mut *backend, &Claim { lease: MINUTE * 2, ..first.clone() }), StillHeld::Held);
    assert_eq!(release(&mut *backend, &first, MINUTE / 2), StillHeld::Held);
    close_to(stored(store, "job").span(), MINUTE / 2 + store.grain(), ROUNDING + 50);
    assert!(!store.java_take("job", "java-host", MINUTE));
    assert!(store.java_take("other", "java-host", MINUTE));
    refused(&mut *backend, &claim("other", 2, MINUTE));
}
