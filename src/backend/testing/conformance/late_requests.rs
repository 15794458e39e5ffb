//! The contract of requests that the network delivers late.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use super::requests::{MINUTE, claim, grows, is_held, open, persist, release, take, tokens};
use crate::lock::{Claim, Closing, StillHeld};
use servers::stores::Store;

/// Checks a backend whose time is that of the start of a request: a slow request with a lost answer is executed after a later
/// one.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) fn taking_again_shortens_nothing(store: &dyn Store) {
    let mut backend = open(store);
    take(&mut *backend, &claim("job", 1, MINUTE));
    let before = super::requests::stored(store, "job");
    take(&mut *backend, &claim("job", 1, MINUTE / 2));
    assert_eq!(super::requests::stored(store, "job").until, before.until);
    // An ended lock has no part in this.
    release(&mut *backend, &claim("job", 1, MINUTE / 2), Duration::ZERO);
    take(&mut *backend, &claim("job", 2, Duration::from_secs(5)));
    assert_eq!(super::requests::stored(store, "job").span(), 5_000);
}

/// Checks a backend on a network: an acquisition that was given up arrives late.
pub(crate) fn an_acquisition_that_comes_after_it_was_given_back_takes_nothing(store: &dyn Store) {
    let (first, late) = (claim("job", 1, MINUTE), claim("job", 2, MINUTE));
    take(&mut *open(store), &first);
    release(&mut *open(store), &first, Duration::ZERO);
    let before = store.history("job");
    for keep in [100, 1] {
        let late = Claim { keep, ..late.clone() };
        persist(|| open(store).release(&late, Duration::ZERO, Closing::Undone));
        let error = open(store).acquire(&late).unwrap_err();
        assert!(error.message.contains("was given up"), "{error:?}");
        assert!(!is_held(store, "job"), "{:?}", store.stored("job"));
        assert_eq!(store.history("job"), before);
        let wanted = crate::lock::RunQuery { names: vec!["job".to_owned()], ..crate::lock::RunQuery::default() };
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
    assert_eq!(persist(|| open(store).release(&other, Duration::ZERO, Closing::Undone)).answer, StillHeld::Lost);
    open(store).acquire(&other).unwrap_err();
    assert!(!is_held(store, "other"));
}

/// Sends an acquisition and the release that undoes it at the same instant, in either order.
pub(crate) fn an_acquisition_beside_its_giving_back_takes_nothing(store: &dyn Store) {
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
            persist(|| giver.release(&given_up, Duration::ZERO, Closing::Undone));
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
