//! The contract of the lists of locks and of runs.

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd"))]
use std::collections::BTreeSet;
use std::time::Duration;

use super::requests::{
    MINUTE, ROUNDING, agrees, change, claim, is_held, is_listed_as_held, list, listed, names, odd_names, open, persist,
    release, stored, take, wait_for_age, wait_until_over,
};
use crate::lock::{Closing, Lock, LockName, LockState, RunOutcome, RunQuery, RunRecord, Runs, StillHeld};
use crate::system::Timestamp;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd"))]
use servers::stores::Past;
use servers::stores::{Run, Shift, Store};

pub(crate) fn an_empty_store_has_nothing_to_list_and_stays_empty(store: &dyn Store) {
    let mut backend = open(store);
    assert_eq!(persist(|| backend.locks(&[])).locks, []);
    assert_eq!(persist(|| backend.locks(&["job", "other"])).locks, []);
    assert_eq!(persist(|| backend.runs(&RunQuery::default())).runs, [][..]);
    let named =
        RunQuery { names: vec!["job".to_owned()], limit: Some(1), newest_per_lock: Some(1), since: Some(Timestamp(0)) };
    assert_eq!(persist(|| backend.runs(&named)).runs, [][..]);
    assert_eq!(change(&mut *backend, "job", "somebody", "somebody", MINUTE), StillHeld::Lost);
    assert!(!backend.schema().unwrap().is_empty());
    assert_eq!(store.things(), Vec::<String>::new());
}

pub(crate) fn locks_are_listed_by_name(store: &dyn Store) {
    let mut backend = open(store);
    for (owner, name) in (1..).zip(["b", "a b", "C", "a"]) {
        take(&mut *backend, &claim(name, owner, MINUTE * 2));
    }
    assert!(store.java_take("Java", "java-host", MINUTE));
    let found = list(store, &[]);
    assert_eq!(names(&found), ["C", "Java", "a", "a b", "b"]);
    for lock in &found.locks {
        agrees(store, lock);
    }
    assert_eq!(found.locks[1].state.owner, store.java_owner("java-host"));
    let now = stored(store, "a").now;
    assert!((now - i64::try_from(found.now.0).unwrap()).abs() < 20_000, "{now} {found:?}");
    // An open connection works as well.
    assert_eq!(names(&persist(|| backend.locks(&[]))), names(&found));
}

pub(crate) fn only_the_locks_that_are_named_are_listed(store: &dyn Store) {
    let mut backend = open(store);
    for (owner, name) in (1..).zip(["a", "b", "c", "d"]) {
        take(&mut *backend, &claim(name, owner, MINUTE));
    }
    assert_eq!(names(&list(store, &["d", "nobody's", "a", "d", "b", "A"])), ["a", "b", "d"]);
    assert_eq!(names(&list(store, &["nobody's"])), [""; 0]);
    agrees(store, &listed(store, "c"));
}

/// Includes a name that shedlock refuses: other programs write here too.
pub(crate) fn a_lock_of_any_name_is_listed(store: &dyn Store) {
    let mut backend = open(store);
    let mut wanted = odd_names();
    for (owner, name) in (0..).zip(&wanted) {
        take(&mut *backend, &claim(name, owner, MINUTE));
    }
    let no_name = " of\tJava";
    assert!(LockName::new(no_name).is_err());
    assert!(store.java_take(no_name, "java-host", MINUTE));
    wanted.push(no_name.to_owned());
    wanted.sort();
    assert_eq!(names(&list(store, &[])), wanted);
    let all: Vec<&str> = wanted.iter().map(String::as_str).collect();
    assert_eq!(names(&list(store, &all)), wanted);
    for name in &wanted {
        assert_eq!(listed(store, name).state.owner, stored(store, name).owner, "{name}");
    }
    // The row is as if written by an application in another time zone.
    store.shift(no_name, Shift::Later(MINUTE * 60));
    let found = list(store, &[no_name]);
    assert!(found.locks[0].state.since.unwrap() > found.now, "{found:?}");
}

pub(crate) fn what_is_not_held_has_no_time_left(store: &dyn Store) {
    let mut backend = open(store);
    take(&mut *backend, &claim("held", 1, MINUTE));
    take(&mut *backend, &claim("released", 2, MINUTE));
    release(&mut *backend, &claim("released", 2, MINUTE), Duration::ZERO);
    assert!(store.java_take("java", "java-host", MINUTE));
    store.java_release("java", "java-host", Duration::ZERO);
    take(&mut *backend, &claim("expired", 3, Duration::from_millis(50)));
    wait_until_over(store, "expired");
    let found = list(store, &[]);
    let held: Vec<&str> = found.locks.iter().filter(|lock| lock.is_held()).map(|lock| lock.name.as_str()).collect();
    assert_eq!(held, ["held"]);
    let is_deleted = store.deletes_free_locks();
    for lock in found.locks.iter().filter(|lock| !lock.is_held()) {
        if is_deleted {
            // Redis and etcd delete the key of a free lock; its runs alone show that it exists.
            let record = LockState { owner: String::new(), since: None, until: None, left: Duration::ZERO };
            assert_eq!(*lock, Lock { name: lock.name.clone(), state: record });
            assert_eq!(listed(store, &lock.name), *lock);
            continue;
        }
        let stored = stored(store, &lock.name);
        assert_eq!((lock.state.left, &lock.state.owner), (Duration::ZERO, &stored.owner));
        let until = i64::try_from(lock.state.until.unwrap().0).unwrap();
        assert!((until - stored.until).abs() <= ROUNDING, "{lock:?} {stored:?}");
    }
    // A lock of the Java application leaves nothing behind.
    let free = if is_deleted { 2 } else { 3 };
    assert_eq!(found.locks.len(), 1 + free, "{found:?}");
}

pub(crate) fn what_stays_held_is_listed_as_ended(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    release(&mut *backend, &first, MINUTE * 2);
    let lock = listed(store, "job");
    agrees(store, &lock);
    assert_eq!(lock.state.owner, first.owner.ended());
    assert!(lock.state.left > MINUTE, "{lock:?}");
}

pub(crate) fn locks_of_a_table_made_for_java_are_listed_and_changed(store: &dyn Store) {
    store.make_table();
    let things = store.things();
    assert_eq!(list(store, &[]).locks, []);
    assert!(store.java_take("job", "java-host", MINUTE));
    assert!(store.java_take("free", "java-host", MINUTE));
    store.java_release("free", "java-host", Duration::ZERO);
    agrees(store, &listed(store, "job"));
    assert!(!is_listed_as_held(store, "free"));
    let mut backend = open(store);
    let java = store.java_owner("java-host");
    assert_eq!(change(&mut *backend, "job", &java, &java, MINUTE * 2), StillHeld::Held);
    let lock = listed(store, "job");
    agrees(store, &lock);
    assert!(lock.state.left > MINUTE, "{lock:?}");
    assert_eq!(change(&mut *backend, "job", &java, &java, Duration::ZERO), StillHeld::Held);
    assert!(!is_listed_as_held(store, "job") && !is_held(store, "job"));
    assert_eq!(persist(|| backend.runs(&RunQuery::default())).runs, [][..]);
    // In Redis and etcd the lock itself is a key.
    assert!(store.things() == things || store.deletes_free_locks());
}

#[track_caller]
fn runs(store: &dyn Store, wanted: &RunQuery) -> Vec<RunRecord> {
    let mut backend = open(store);
    let Runs { now, runs } = persist(|| backend.runs(wanted));
    assert!(now.0.abs_diff(Timestamp::now().0) < 20_000, "the store's clock is that of this machine: {now}");
    runs.iter().collect()
}

/// Runs under the lock for some milliseconds, so that the times of runs differ.
#[track_caller]
fn run(store: &dyn Store, name: &str, owner: u64, outcome: RunOutcome, exit_code: u8) -> u64 {
    let mut backend = open(store);
    let claim = claim(name, owner, MINUTE);
    let grant = take(&mut *backend, &claim);
    wait_for_age(store, name, 5);
    persist(|| backend.release(&claim, Duration::ZERO, Closing::Ended { outcome, exit_code: Some(exit_code) }));
    grant.token.expect("there is no token")
}

/// Converts a run to the form that the store reads.
fn as_stored(run: &RunRecord) -> Run {
    let time = |time: Timestamp| i64::try_from(time.0).unwrap();
    Run {
        token: run.token,
        owner: run.owner.clone(),
        host: run.host.clone(),
        started: time(run.started_at.unwrap()),
        ended: run.ended_at.map(time),
        exit_code: run.exit_code,
        outcome: run.outcome.clone(),
    }
}

/// Returns the names of the runs and the numbers of their owners.
fn which(runs: &[RunRecord]) -> Vec<(String, u64)> {
    let number = |owner: &str| u64::from_str_radix(owner.rsplit(':').next().unwrap(), 16).unwrap();
    runs.iter().map(|run| (run.name.clone(), number(&run.owner))).collect()
}

fn these(runs: &[(&str, u64)]) -> Vec<(String, u64)> {
    runs.iter().map(|(name, owner)| ((*name).to_owned(), *owner)).collect()
}

pub(crate) fn runs_are_listed_newest_first(store: &dyn Store) {
    run(store, "one", 1, RunOutcome::Success, 0);
    run(store, "other", 2, RunOutcome::Failure, 3);
    run(store, "one", 3, RunOutcome::Lost, 123);
    run(store, "it's", 4, RunOutcome::Error, 127);
    take(&mut *open(store), &claim("other", 5, MINUTE));
    let found = runs(store, &RunQuery::default());
    assert_eq!(which(&found), these(&[("other", 5), ("it's", 4), ("one", 3), ("other", 2), ("one", 1)]));
    for name in ["one", "other", "it's"] {
        let of_name: Vec<Run> = found.iter().filter(|run| run.name == name).map(as_stored).collect();
        assert_eq!(of_name, store.history(name));
    }
    assert_eq!((found[0].ended_at, found[0].exit_code, found[0].outcome.as_deref()), (None, None, None));
    assert_eq!((found[1].exit_code, found[1].outcome.as_deref()), (Some(127), Some("error")));
}

pub(crate) fn the_newest_runs_are_listed(store: &dyn Store) {
    for (owner, name) in (1..).zip(["a", "b", "a", "c", "a", "b"]) {
        run(store, name, owner, RunOutcome::Success, 0);
    }
    let wanted = |names: &[&str], limit: Option<u32>, newest_per_lock: Option<u32>| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        which(&runs(store, &RunQuery { names, limit, newest_per_lock, since: None }))
    };
    assert_eq!(wanted(&[], Some(2), None), these(&[("b", 6), ("a", 5)]));
    assert_eq!(wanted(&["a"], None, None), these(&[("a", 5), ("a", 3), ("a", 1)]));
    assert_eq!(wanted(&["a"], Some(2), None), these(&[("a", 5), ("a", 3)]));
    assert_eq!(wanted(&["c", "nobody's", "b", "c"], None, None), these(&[("b", 6), ("c", 4), ("b", 2)]));
    assert_eq!(wanted(&["nobody's", "A"], None, None), []);
    assert_eq!(wanted(&[], None, Some(1)), these(&[("b", 6), ("a", 5), ("c", 4)]));
    assert_eq!(wanted(&["a", "c"], None, Some(2)), these(&[("a", 5), ("c", 4), ("a", 3)]));
    assert_eq!(wanted(&[], Some(1), Some(2)), these(&[("b", 6)]));
    assert_eq!(wanted(&[], Some(0), None), []);
}

/// A run that spans the time counts, and so does one without an end.
pub(crate) fn runs_since_a_time_are_those_that_had_not_ended(store: &dyn Store) {
    run(store, "early", 1, RunOutcome::Success, 0);
    take(&mut *open(store), &claim("endless", 2, MINUTE));
    let across = claim("across", 3, MINUTE);
    take(&mut *open(store), &across);
    let since = wait_for_age(store, "across", 20).now;
    wait_for_age(store, "across", 40);
    release(&mut *open(store), &across, Duration::ZERO);
    run(store, "late", 4, RunOutcome::Success, 0);
    run(store, "late", 5, RunOutcome::Success, 0);
    let since = Some(Timestamp(u64::try_from(since).unwrap()));
    let wanted = RunQuery { since, ..RunQuery::default() };
    let found = which(&runs(store, &wanted));
    assert_eq!(found, these(&[("late", 5), ("late", 4), ("across", 3), ("endless", 2)]));
    let found = which(&runs(store, &RunQuery { limit: Some(3), newest_per_lock: Some(1), ..wanted }));
    assert_eq!(found, these(&[("late", 5), ("across", 3), ("endless", 2)]));
    // The comparison is exact to the millisecond: the end itself is not before the time.
    let ended = store.history("early")[0].ended.unwrap();
    for (since, count) in [(ended, 1), (ended + 1 + ROUNDING, 0)] {
        let since = Some(Timestamp(u64::try_from(since).unwrap()));
        assert_eq!(
            runs(store, &RunQuery { names: vec!["early".to_owned()], since, ..RunQuery::default() }).len(),
            count
        );
    }
}

/// Checks a backend whose history has no bound of its own: all runs are listed, however many requests that takes.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd"))]
pub(crate) fn every_run_of_a_long_history_is_listed(store: &dyn Past) {
    /// More than is read at once of any store.
    const COUNT: u64 = 12_000;
    run(store, "job", 0, RunOutcome::Success, 0);
    store.add_runs("job", COUNT);
    let owners = |wanted: &RunQuery| -> BTreeSet<u64> {
        let found = runs(store, wanted);
        let owners: BTreeSet<u64> = which(&found).into_iter().map(|(_, number)| number).collect();
        assert_eq!(found.len(), owners.len(), "none is listed twice");
        owners
    };
    let job = || RunQuery { names: vec!["job".to_owned()], ..RunQuery::default() };
    let all: BTreeSet<u64> = (0..=COUNT).collect();
    let half = Timestamp::parse("2026-01-01T00:00:00.000Z").unwrap() + Duration::from_secs(COUNT / 2);
    let of_half: BTreeSet<u64> = [0].into_iter().chain(COUNT / 2 - 1..=COUNT).collect();
    for wanted in [RunQuery::default(), job()] {
        assert!(owners(&wanted) == all, "without --since");
        assert!(owners(&RunQuery { since: Some(Timestamp(1)), ..wanted.clone() }) == all, "since 1970");
        assert!(owners(&RunQuery { since: Some(half), ..wanted.clone() }) == of_half, "since the half");
        for limit in [1, 5_000, COUNT, COUNT + 9] {
            let since = Some(Timestamp(1)).filter(|_| limit % 2 == 0);
            let limited = RunQuery { limit: u32::try_from(limit).ok(), since, ..wanted.clone() };
            assert_eq!(owners(&limited).len() as u64, limit.min(COUNT + 1), "{limited:?}");
        }
    }
}
