//! The contract of creating what a backend needs.

use std::time::Duration;

use super::requests::{MINUTE, agrees, claim, listed, open, persist, release, renew, take, tokens};
use crate::backend::{Admin, Backend};
use crate::lock::StillHeld;
use servers::stores::Store;

#[track_caller]
fn make(backend: &mut dyn Admin) -> Vec<String> {
    persist(|| backend.create_missing())
}

/// Acquires and releases a lock, which must leave a run and no warning.
#[track_caller]
fn works(store: &dyn Store, backend: &mut dyn Backend) {
    let first = claim("works", 1, MINUTE);
    let grant = take(backend, &first);
    assert_eq!(release(backend, &first, Duration::ZERO), StillHeld::Held);
    assert_eq!(tokens(store, "works"), [grant.token.unwrap()]);
}

pub(crate) fn what_is_needed_is_made_once(store: &dyn Store) {
    let mut backend = open(store);
    let first = make(&mut *backend);
    let things = store.things();
    let again = make(&mut *open(store));
    assert_eq!(store.things(), things);
    assert!(!first.is_empty() && !again.is_empty());
    // The report tells a created store from an existing one.
    assert!(first != again || things.is_empty(), "{first:?}");
    assert!(again.iter().all(|line| !line.starts_with("created")), "{again:?}");
    assert!(first.iter().chain(&again).all(|line| !line.is_empty() && !line.contains('\n')), "{first:?} {again:?}");
    works(store, &mut *backend);
    assert!(store.things() == things || things.is_empty());
}

pub(crate) fn making_harms_no_lock(store: &dyn Store) {
    store.make_table();
    assert!(store.java_take("java", "java-host", MINUTE));
    make(&mut *open(store));
    agrees(store, &listed(store, "java"));
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    let runs = store.history("job");
    make(&mut *open(store));
    agrees(store, &listed(store, "job"));
    assert_eq!(store.history("job"), runs);
    assert_eq!(renew(&mut *backend, &first), StillHeld::Held);
}

pub(crate) fn the_schema_is_all_that_is_needed(store: &dyn Store) {
    let mut backend = open(store);
    let schema = backend.schema().unwrap();
    assert!(schema.ends_with('\n'), "{schema}");
    store.carry_out(&schema);
    let things = store.things();
    // Repeating it does no harm.
    store.carry_out(&schema);
    let made = make(&mut *backend);
    assert!(made.iter().all(|line| !line.starts_with("created")), "{made:?}");
    works(store, &mut *backend);
    assert!(store.things() == things || store.deletes_free_locks());
}
