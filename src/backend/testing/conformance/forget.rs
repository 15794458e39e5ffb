//! The contract of a removal: a free lock goes with all that shedlock keeps of it, and no other. The list of the tests is that
//! of [`super`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::requests::{
    MINUTE, WAIT_LIMIT, claim, odd_names, open, persist, refused, release, renew, take, tokens, wait_until_over,
};
use crate::backend::Admin;
use crate::lock::{Acquired, Forgotten, StillHeld};
use crate::lock::{Change, Claim, Lock, LockName, Owner, Purpose, Removal, RunQuery};
#[cfg(feature = "provider")]
use crate::system::Timestamp;
use servers::stores::Store;

const NOTHING: Forgotten = Forgotten::Gone { lock: false, runs: 0 };

#[track_caller]
pub(crate) fn forget(backend: &mut dyn Admin, name: &str, seen: &str) -> Forgotten {
    let removal = Removal::new(LockName::from_stored(name).unwrap(), seen.to_owned());
    persist(|| backend.forget(&removal))
}

/// Returns the last owner as listed; empty if there is none.
#[track_caller]
fn seen(backend: &mut dyn Admin, name: &str) -> String {
    let lock: Option<Lock> = persist(|| backend.locks(&[name])).locks.into_iter().next();
    lock.map(|lock| lock.state.owner).unwrap_or_default()
}

/// Acquires the lock and releases it, and returns the token.
#[track_caller]
fn run(store: &dyn Store, name: &str, owner: u64) -> u64 {
    let (mut backend, claim) = (open(store), claim(name, owner, MINUTE));
    let token = take(&mut *backend, &claim).token;
    assert_eq!(release(&mut *backend, &claim, Duration::ZERO), StillHeld::Held);
    token.expect("there is no token")
}

/// Returns the names of all locks.
#[track_caller]
fn all(store: &dyn Store) -> Vec<String> {
    persist(|| open(store).locks(&[])).locks.into_iter().map(|lock| lock.name).collect()
}

/// Returns what the store has, in one order.
fn things(store: &dyn Store) -> Vec<String> {
    let mut things = store.things();
    things.sort();
    things
}

#[track_caller]
fn is_gone(store: &dyn Store, name: &str) {
    let mut backend = open(store);
    assert!(store.stored(name).is_none());
    assert_eq!(store.history(name), []);
    assert_eq!(persist(|| backend.locks(&[name])).locks, []);
    let wanted = RunQuery { names: vec![name.to_owned()], ..RunQuery::default() };
    assert!(persist(|| backend.runs(&wanted)).runs.is_empty());
}

pub(crate) fn a_free_lock_is_forgotten_with_its_history(store: &dyn Store) {
    run(store, "other", 1);
    let before = things(store);
    run(store, "job", 2);
    run(store, "job", 3);
    let mut backend = open(store);
    let owner = seen(&mut *backend, "job");
    assert_eq!(forget(&mut *backend, "job", &owner), Forgotten::Gone { lock: true, runs: 2 });
    is_gone(store, "job");
    assert_eq!((all(store), tokens(store, "other").len()), (vec!["other".to_owned()], 1));
    assert_eq!(things(store), before, "something is left");
    // The answer was lost, and the request is repeated.
    assert_eq!(forget(&mut *backend, "job", &owner), NOTHING);
    assert_eq!(forget(&mut *open(store), "never", ""), NOTHING);
    let token = run(store, "job", 4);
    assert_eq!(tokens(store, "job"), [token]);
}

pub(crate) fn a_lock_that_is_held_or_kept_or_paused_is_not_forgotten(store: &dyn Store) {
    let mut backend = open(store);
    let pause = Claim {
        owner: Owner::for_pause("ada", "web1", 3, None, ""),
        purpose: Purpose::Pause,
        ..claim("paused", 3, MINUTE)
    };
    let held = claim("held", 1, MINUTE);
    for claim in [&held, &claim("kept", 2, MINUTE), &pause] {
        take(&mut *backend, claim);
    }
    release(&mut *open(store), &claim("kept", 2, MINUTE), MINUTE);
    for name in ["held", "kept", "paused"] {
        let (owner, runs) = (seen(&mut *backend, name), store.history(name));
        for seen in [owner.as_str(), "", "another"] {
            assert_eq!(forget(&mut *backend, name, seen), Forgotten::InUse, "{name} {seen}");
        }
        assert_eq!(store.history(name), runs, "{name}");
        refused(&mut *open(store), &claim(name, 4, MINUTE));
    }
    assert_eq!(renew(&mut *backend, &held), StillHeld::Held);
    let owner = pause.owner.as_str().to_owned();
    let end = Change { name: pause.name.clone(), from: owner.clone(), to: owner, left: Duration::ZERO };
    assert_eq!(persist(|| backend.change(&end)), StillHeld::Held);
    let owner = seen(&mut *backend, "paused");
    assert!(matches!(forget(&mut *backend, "paused", &owner), Forgotten::Gone { .. }));
    is_gone(store, "paused");
}

pub(crate) fn a_lock_that_had_another_owner_since_is_not_forgotten(store: &dyn Store) {
    run(store, "job", 1);
    let mut backend = open(store);
    let before = seen(&mut *backend, "job");
    let next = claim("job", 2, MINUTE);
    take(&mut *open(store), &next);
    assert_eq!(forget(&mut *backend, "job", &before), Forgotten::InUse);
    assert_eq!(release(&mut *open(store), &next, Duration::ZERO), StillHeld::Held);
    // Where a free lock leaves no owner, the removal compares none.
    if !store.deletes_free_locks() {
        assert_eq!(forget(&mut *backend, "job", &before), Forgotten::InUse);
        assert_eq!(forget(&mut *backend, "job", ""), Forgotten::InUse);
        assert_eq!(tokens(store, "job").len(), 2);
    }
    let after = seen(&mut *backend, "job");
    assert_eq!(forget(&mut *backend, "job", &after), Forgotten::Gone { lock: true, runs: 2 });
}

pub(crate) fn tokens_grow_although_the_lock_was_forgotten(store: &dyn Store) {
    let mut last = run(store, "job", 1);
    for owner in 2..5 {
        // Some more, so that a number that begins anew is noticed, and as fast as they come: a token that is a time runs ahead
        // of the clock.
        let mut backend = open(store);
        for more in 0..20 {
            let claim = claim("job", owner * 100 + more, MINUTE);
            last = take(&mut *backend, &claim).token.expect("there is no token").max(last);
            assert_eq!(release(&mut *backend, &claim, Duration::ZERO), StillHeld::Held);
        }
        let seen = seen(&mut *backend, "job");
        assert!(matches!(forget(&mut *backend, "job", &seen), Forgotten::Gone { .. }));
        let token = run(store, "job", owner);
        assert!(token > last, "{token} {last}");
        last = token;
    }
}

/// Checks a store whose tokens are times and that is too slow to run ahead of its clock by itself.
#[cfg(feature = "provider")]
pub(crate) fn a_removal_waits_until_the_clock_has_passed_the_last_token(store: &dyn Store, set_token: &dyn Fn(u64)) {
    run(store, "job", 1);
    let ahead = Timestamp::now().0 + 300;
    set_token(ahead);
    let mut backend = open(store);
    let owner = seen(&mut *backend, "job");
    assert_eq!(forget(&mut *backend, "job", &owner), Forgotten::Gone { lock: true, runs: 1 });
    let token = run(store, "job", 2);
    assert!(token > ahead, "{token} {ahead}");
}

pub(crate) fn a_lock_of_any_name_is_forgotten_and_no_other(store: &dyn Store) {
    let mut names = odd_names();
    names.extend(["a", "a/b", "a/b/c", "ab"].map(str::to_owned));
    names.sort();
    names.dedup();
    for (owner, name) in (0..).zip(&names) {
        run(store, name, owner);
    }
    let mut backend = open(store);
    while let Some(name) = names.first().cloned() {
        names.remove(0);
        let owner = seen(&mut *backend, &name);
        assert_eq!(forget(&mut *backend, &name, &owner), Forgotten::Gone { lock: true, runs: 1 }, "{name}");
        assert_eq!(all(store), names);
    }
}

pub(crate) fn java_s_lock_is_forgotten_once_it_is_free(store: &dyn Store) {
    let mut backend = open(store);
    run(store, "first", 1);
    assert!(store.java_take("job", "java-host", MINUTE));
    let owner = seen(&mut *backend, "job");
    assert_eq!(owner, store.java_owner("java-host"));
    assert_eq!(forget(&mut *backend, "job", &owner), Forgotten::InUse);
    store.java_release("job", "java-host", Duration::ZERO);
    let owner = seen(&mut *backend, "job");
    let lock = !store.deletes_free_locks();
    assert_eq!(forget(&mut *backend, "job", &owner), Forgotten::Gone { lock, runs: 0 });
    is_gone(store, "job");
    assert!(store.java_take("job", "java-host", MINUTE));
}

pub(crate) fn a_history_without_a_lock_is_forgotten(store: &dyn Store) {
    run(store, "job", 1);
    store.delete("job");
    let runs = tokens(store, "job").len() as u64;
    let mut backend = open(store);
    let owner = seen(&mut *backend, "job");
    let Forgotten::Gone { runs: found, .. } = forget(&mut *backend, "job", &owner) else { panic!() };
    assert_eq!(found, runs);
    is_gone(store, "job");
    assert_eq!(all(store), Vec::<String>::new());
}

pub(crate) fn a_lock_in_a_table_made_for_java_is_forgotten(store: &dyn Store) {
    store.make_table();
    assert!(store.java_take("other", "java-host", MINUTE));
    let before = things(store);
    assert!(store.java_take("job", "java-host", MINUTE));
    store.java_release("job", "java-host", Duration::ZERO);
    let mut backend = open(store);
    let owner = seen(&mut *backend, "job");
    let lock = !store.deletes_free_locks();
    assert_eq!(forget(&mut *backend, "job", &owner), Forgotten::Gone { lock, runs: 0 });
    assert!(store.stored("job").is_none());
    assert_eq!((all(store), things(store)), (vec!["other".to_owned()], before));
}

/// The run is overdue: its lock is free, and is forgotten while it goes on.
pub(crate) fn a_run_that_lost_its_lock_brings_nothing_back(store: &dyn Store) {
    for (name, owner) in [("released", 1), ("renewed", 2)] {
        let (mut backend, overdue) = (open(store), claim(name, owner, Duration::from_millis(50)));
        take(&mut *backend, &overdue);
        wait_until_over(store, name);
        let mut operator = open(store);
        let owner = seen(&mut *operator, name);
        assert_eq!(forget(&mut *operator, name, &owner), Forgotten::Gone { lock: true, runs: 1 });
        let before = things(store);
        if name == "renewed" {
            assert_eq!(renew(&mut *backend, &overdue), StillHeld::Lost);
        }
        assert_eq!(release(&mut *backend, &overdue, MINUTE), StillHeld::Lost);
        is_gone(store, name);
        assert_eq!(things(store), before);
    }
}

pub(crate) fn forgetting_makes_nothing(store: &dyn Store) {
    assert_eq!(forget(&mut *open(store), "job", ""), NOTHING);
    assert_eq!(things(store), Vec::<String>::new());
}

/// Counts a thread that runs, until it ends or fails.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs threads: some acquire the lock and check that it and their record are there while they have it; others forget it all the
/// time.
pub(crate) fn what_is_held_is_never_forgotten_however_they_race(store: &dyn Store) {
    const RUNS: u64 = 40;
    let (running, last, forgotten) = (AtomicUsize::new(3), Mutex::new(0), AtomicUsize::new(0));
    let begun = Instant::now();
    run(store, "job", 999_999);
    thread::scope(|scope| {
        for runner in 0..3 {
            let (running, last, forgotten) = (&running, &last, &forgotten);
            scope.spawn(move || {
                let _running = Running(running);
                let mut backend = open(store);
                // A store that is quick may be done before anything was forgotten.
                let is_enough = |number| number >= RUNS && forgotten.load(Ordering::SeqCst) > 0;
                for number in (0..).take_while(|number| !is_enough(*number) && begun.elapsed() < WAIT_LIMIT) {
                    let claim = claim("job", runner * 1_000_000 + number, MINUTE);
                    let grant = loop {
                        match persist(|| backend.acquire(&claim)).answer {
                            Acquired::Granted(grant) => break grant,
                            Acquired::Held(_) => thread::sleep(Duration::from_millis(1)),
                        }
                    };
                    {
                        let mut last = last.try_lock().expect("two have the lock at once");
                        assert!(grant.token.unwrap() > *last, "{grant:?} {last}");
                        *last = grant.token.unwrap();
                        assert_eq!(renew(&mut *backend, &claim), StillHeld::Held);
                        let wanted = RunQuery { names: vec!["job".to_owned()], limit: Some(1), ..RunQuery::default() };
                        let newest = persist(|| backend.runs(&wanted)).runs;
                        assert_eq!((newest.len(), newest.get(0).owner.as_str()), (1, claim.owner.as_str()));
                    }
                    assert_eq!(release(&mut *backend, &claim, Duration::ZERO), StillHeld::Held);
                    // A thread that has done enough makes room for the one that forgets, more and more.
                    thread::sleep(Duration::from_millis(number.saturating_sub(RUNS)));
                }
            });
        }
        let (running, forgotten) = (&running, &forgotten);
        scope.spawn(move || {
            let mut backend = open(store);
            while running.load(Ordering::SeqCst) > 0 {
                let owner = seen(&mut *backend, "job");
                if matches!(forget(&mut *backend, "job", &owner), Forgotten::Gone { lock: true, .. }) {
                    forgotten.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    });
    assert!(forgotten.load(Ordering::SeqCst) > 0, "nothing was ever forgotten");
}
