//! The contract of the fencing tokens.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::requests::{
    MINUTE, WAIT_LIMIT, claim, grows, open, persist, record, refused, release, renew, take, take_when_free, tokens,
    wait_until_over,
};
use crate::lock::{Acquired, Claim, StillHeld};
use servers::stores::Store;

pub(crate) fn tokens_grow_with_every_acquisition(store: &dyn Store) {
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
pub(crate) fn tokens_of_racing_takers_grow_in_the_order_of_the_acquisitions(store: &dyn Store) {
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
                        assert!(begun.elapsed() < WAIT_LIMIT, "it never becomes free");
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

pub(crate) fn a_skip_and_a_renewal_use_no_token(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    let grant = take(&mut *backend, &first);
    let before = store.history("job");
    for owner in 2..=4 {
        refused(&mut *open(store), &claim("job", owner, MINUTE));
        assert_eq!(renew(&mut *backend, &first), StillHeld::Held);
        assert_eq!(release(&mut *open(store), &claim("job", owner, MINUTE), Duration::ZERO), StillHeld::Lost);
    }
    assert_eq!(store.history("job"), before);
    assert_eq!(tokens(store, "job"), [grant.token.unwrap()]);
}

pub(crate) fn taking_again_has_a_larger_token_and_one_record(store: &dyn Store) {
    let earlier = claim("job", 9, MINUTE);
    let mut backend = open(store);
    let mut last = 0;
    grows(&mut last, &take(&mut *backend, &earlier));
    release(&mut *backend, &earlier, Duration::ZERO);
    let before = record(store, &earlier);
    let first = claim("job", 1, MINUTE);
    for _ in 0..3 {
        // The answer to the last acquisition was lost.
        grows(&mut last, &take(&mut *open(store), &first));
        let run = record(store, &first);
        assert_eq!((run.token, run.ended), (last, None));
    }
    assert_eq!((record(store, &earlier), tokens(store, "job").len()), (before, 2));
    release(&mut *backend, &first, Duration::ZERO);
    assert_eq!(record(store, &first).outcome.as_deref(), Some("success"));
}

/// The answer to the first acquisition was lost, its lease has ended, and another owner was faster than the second acquisition.
pub(crate) fn taking_again_after_another_s_run_leaves_one_record(store: &dyn Store) {
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
