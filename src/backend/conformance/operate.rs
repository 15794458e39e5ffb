//! The contract of the commands that people run on a backend. The list of the tests is that of [`super`].

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd"))]
use std::collections::BTreeSet;
use std::time::Duration;

use super::{
    MINUTE, ROUNDING, claim, close_to, is_held, millis, odd_names, open, persist, record, refused, refused_until_free,
    release, renew, stored, take, tokens, wait_for_age, wait_until_over,
};
use crate::backend::{Acquired, Admin, Backend, Kept, Remark, Reply};
use crate::lock::{
    Change, Claim, Closing, Lock, LockName, LockState, Locks, Owner, Purpose, RunOutcome, RunRecord, Runs, Wanted,
};
use crate::system::Timestamp;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd"))]
use servers::stores::Past;
use servers::stores::{Run, Shift, Store};

/// Lists the locks of these names, or all of them.
#[track_caller]
pub(super) fn list(store: &dyn Store, names: &[&str]) -> Locks {
    let mut backend = open(store);
    persist(|| backend.locks(names))
}

pub(super) fn names(locks: &Locks) -> Vec<&str> {
    locks.locks.iter().map(|lock| lock.name.as_str()).collect()
}

/// Returns the only lock of this name.
#[track_caller]
pub(super) fn listed(store: &dyn Store, name: &str) -> Lock {
    let [lock] = <[Lock; 1]>::try_from(list(store, &[name]).locks).unwrap();
    assert_eq!(lock.name, name);
    lock
}

/// Returns true if the lock is listed as held; a backend may have forgotten a free one.
fn is_listed_as_held(store: &dyn Store, name: &str) -> bool {
    list(store, &[name]).locks.iter().any(Lock::is_held)
}

/// Checks that a held lock is listed as it is stored.
#[track_caller]
fn agrees(store: &dyn Store, lock: &Lock) {
    let stored = stored(store, &lock.name);
    let time = |time: Option<Timestamp>| i64::try_from(time.unwrap().0).unwrap();
    let record = &lock.state;
    assert_eq!(record.owner, stored.owner);
    assert!((time(record.since) - stored.since).abs() <= ROUNDING, "{lock:?} {stored:?}");
    let uncertain = store.uncertainty(&stored);
    assert!((time(record.until) - stored.until).abs() < 50 + uncertain, "{lock:?} {stored:?}");
    assert!(lock.is_held() && stored.is_held(), "{lock:?} {stored:?}");
    let left = millis(record.left) - (stored.until - stored.now);
    let least = -50 - uncertain - millis(store.grain());
    assert!((least..20_000).contains(&left), "{lock:?} {stored:?}");
}

pub(in crate::backend) fn an_empty_store_has_nothing_to_list_and_stays_empty(store: &dyn Store) {
    let mut backend = open(store);
    assert_eq!(persist(|| backend.locks(&[])).locks, []);
    assert_eq!(persist(|| backend.locks(&["job", "other"])).locks, []);
    assert_eq!(persist(|| backend.runs(&Wanted::default())).runs, [][..]);
    let named = Wanted { names: vec!["job".to_owned()], limit: Some(1), of_each: Some(1), since: Some(Timestamp(0)) };
    assert_eq!(persist(|| backend.runs(&named)).runs, [][..]);
    assert_eq!(change(&mut *backend, "job", "somebody", "somebody", MINUTE), Kept::Lost);
    assert!(!backend.schema().is_empty());
    assert_eq!(store.things(), Vec::<String>::new());
}

pub(in crate::backend) fn locks_are_listed_by_name(store: &dyn Store) {
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

pub(in crate::backend) fn only_the_locks_that_are_named_are_listed(store: &dyn Store) {
    let mut backend = open(store);
    for (owner, name) in (1..).zip(["a", "b", "c", "d"]) {
        take(&mut *backend, &claim(name, owner, MINUTE));
    }
    assert_eq!(names(&list(store, &["d", "nobody's", "a", "d", "b", "A"])), ["a", "b", "d"]);
    assert_eq!(names(&list(store, &["nobody's"])), [""; 0]);
    agrees(store, &listed(store, "c"));
}

/// Includes a name that shedlock refuses: other programs write here too.
pub(in crate::backend) fn a_lock_of_any_name_is_listed(store: &dyn Store) {
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

pub(in crate::backend) fn what_is_not_held_has_no_time_left(store: &dyn Store) {
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

pub(in crate::backend) fn what_stays_held_is_listed_as_ended(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    release(&mut *backend, &first, MINUTE * 2);
    let lock = listed(store, "job");
    agrees(store, &lock);
    assert_eq!(lock.state.owner, first.owner.ended());
    assert!(lock.state.left > MINUTE, "{lock:?}");
}

pub(in crate::backend) fn locks_of_a_table_made_for_java_are_listed_and_changed(store: &dyn Store) {
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
    assert_eq!(change(&mut *backend, "job", &java, &java, MINUTE * 2), Kept::Kept);
    let lock = listed(store, "job");
    agrees(store, &lock);
    assert!(lock.state.left > MINUTE, "{lock:?}");
    assert_eq!(change(&mut *backend, "job", &java, &java, Duration::ZERO), Kept::Kept);
    assert!(!is_listed_as_held(store, "job") && !is_held(store, "job"));
    assert_eq!(persist(|| backend.runs(&Wanted::default())).runs, [][..]);
    // In Redis and etcd the lock itself is a key.
    assert!(store.things() == things || store.deletes_free_locks());
}

#[track_caller]
fn runs(store: &dyn Store, wanted: &Wanted) -> Vec<RunRecord> {
    let mut backend = open(store);
    let Runs { now, runs } = persist(|| backend.runs(wanted));
    assert!(now.0.abs_diff(Timestamp::now().0) < 20_000, "the store's clock is that of this machine: {now}");
    runs.iter().collect()
}

/// Runs under the lock for some milliseconds, so that the times of runs differ.
#[track_caller]
fn run(store: &dyn Store, name: &str, owner: u64, verdict: RunOutcome, exit_code: u8) -> u64 {
    let mut backend = open(store);
    let claim = claim(name, owner, MINUTE);
    let grant = take(&mut *backend, &claim);
    wait_for_age(store, name, 5);
    persist(|| backend.release(&claim, Duration::ZERO, Closing::Ended { verdict, exit_code: Some(exit_code) }));
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

pub(in crate::backend) fn runs_are_listed_newest_first(store: &dyn Store) {
    run(store, "one", 1, RunOutcome::Success, 0);
    run(store, "other", 2, RunOutcome::Failure, 3);
    run(store, "one", 3, RunOutcome::Lost, 123);
    run(store, "it's", 4, RunOutcome::Error, 127);
    take(&mut *open(store), &claim("other", 5, MINUTE));
    let found = runs(store, &Wanted::default());
    assert_eq!(which(&found), these(&[("other", 5), ("it's", 4), ("one", 3), ("other", 2), ("one", 1)]));
    for name in ["one", "other", "it's"] {
        let of_name: Vec<Run> = found.iter().filter(|run| run.name == name).map(as_stored).collect();
        assert_eq!(of_name, store.history(name));
    }
    assert_eq!((found[0].ended_at, found[0].exit_code, found[0].outcome.as_deref()), (None, None, None));
    assert_eq!((found[1].exit_code, found[1].outcome.as_deref()), (Some(127), Some("error")));
}

pub(in crate::backend) fn the_newest_runs_are_listed(store: &dyn Store) {
    for (owner, name) in (1..).zip(["a", "b", "a", "c", "a", "b"]) {
        run(store, name, owner, RunOutcome::Success, 0);
    }
    let wanted = |names: &[&str], limit: Option<u32>, of_each: Option<u32>| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        which(&runs(store, &Wanted { names, limit, of_each, since: None }))
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
pub(in crate::backend) fn runs_since_a_time_are_those_that_had_not_ended(store: &dyn Store) {
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
    let wanted = Wanted { since, ..Wanted::default() };
    let found = which(&runs(store, &wanted));
    assert_eq!(found, these(&[("late", 5), ("late", 4), ("across", 3), ("endless", 2)]));
    let found = which(&runs(store, &Wanted { limit: Some(3), of_each: Some(1), ..wanted }));
    assert_eq!(found, these(&[("late", 5), ("across", 3), ("endless", 2)]));
    // The comparison is exact to the millisecond: the end itself is not before the time.
    let ended = store.history("early")[0].ended.unwrap();
    for (since, count) in [(ended, 1), (ended + 1 + ROUNDING, 0)] {
        let since = Some(Timestamp(u64::try_from(since).unwrap()));
        assert_eq!(runs(store, &Wanted { names: vec!["early".to_owned()], since, ..Wanted::default() }).len(), count);
    }
}

/// For a backend whose history has no bound of its own: all runs are listed, however many requests that takes.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis", feature = "etcd"))]
pub(in crate::backend) fn every_run_of_a_long_history_is_listed(store: &dyn Past) {
    /// More than is read at once of any store.
    const COUNT: u64 = 12_000;
    run(store, "job", 0, RunOutcome::Success, 0);
    store.add_runs("job", COUNT);
    let owners = |wanted: &Wanted| -> BTreeSet<u64> {
        let found = runs(store, wanted);
        let owners: BTreeSet<u64> = which(&found).into_iter().map(|(_, number)| number).collect();
        assert_eq!(found.len(), owners.len(), "none is listed twice");
        owners
    };
    let job = || Wanted { names: vec!["job".to_owned()], ..Wanted::default() };
    let all: BTreeSet<u64> = (0..=COUNT).collect();
    let half = Timestamp::parse("2026-01-01T00:00:00.000Z").unwrap() + Duration::from_secs(COUNT / 2);
    let of_half: BTreeSet<u64> = [0].into_iter().chain(COUNT / 2 - 1..=COUNT).collect();
    for wanted in [Wanted::default(), job()] {
        assert!(owners(&wanted) == all, "without --since");
        assert!(owners(&Wanted { since: Some(Timestamp(1)), ..wanted.clone() }) == all, "since 1970");
        assert!(owners(&Wanted { since: Some(half), ..wanted.clone() }) == of_half, "since the half");
        for limit in [1, 5_000, COUNT, COUNT + 9] {
            let since = Some(Timestamp(1)).filter(|_| limit % 2 == 0);
            let limited = Wanted { limit: u32::try_from(limit).ok(), since, ..wanted.clone() };
            assert_eq!(owners(&limited).len() as u64, limit.min(COUNT + 1), "{limited:?}");
        }
    }
}

#[track_caller]
pub(super) fn change(backend: &mut dyn Admin, name: &str, from: &str, to: &str, left: Duration) -> Kept {
    let name = LockName::stored(name).unwrap();
    let change = Change { name, from: from.to_owned(), to: to.to_owned(), left };
    persist(|| backend.change(&change))
}

pub(in crate::backend) fn another_end_is_counted_from_now(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE * 2);
    let owner = first.owner.as_str();
    take(&mut *backend, &first);
    let before = wait_for_age(store, "job", 100);
    // A later end, and an earlier one.
    for left in [MINUTE * 10, MINUTE] {
        assert_eq!(change(&mut *backend, "job", owner, owner, left), Kept::Kept);
        let after = stored(store, "job");
        assert_eq!(after.owner, owner);
        assert!((after.since - before.since).abs() <= ROUNDING, "{before:?} {after:?}");
        assert!(after.until - before.now >= millis(left) - ROUNDING, "{before:?} {after:?}");
        close_to(after.until - after.now, left, 10_000);
        agrees(store, &listed(store, "job"));
    }
    refused(&mut *open(store), &claim("job", 2, MINUTE));
    let years = Duration::from_secs(10 * 365 * 86_400);
    assert_eq!(change(&mut *backend, "job", owner, owner, years), Kept::Kept);
    let after = stored(store, "job");
    close_to(after.until - after.now, years, 10_000);
    agrees(store, &listed(store, "job"));
}

pub(in crate::backend) fn another_owner_holds_it_from_now(store: &dyn Store) {
    let mut backend = open(store);
    let (first, next) = (claim("job", 1, MINUTE), claim("job", 2, MINUTE));
    take(&mut *backend, &first);
    take(&mut *backend, &claim("other", 3, MINUTE));
    let other = stored(store, "other");
    let before = wait_for_age(store, "job", 100);
    assert_eq!(change(&mut *backend, "job", first.owner.as_str(), next.owner.as_str(), MINUTE * 3), Kept::Kept);
    let after = stored(store, "job");
    assert_eq!(after.owner, next.owner.as_str());
    assert!(after.since >= before.now - ROUNDING, "{before:?} {after:?}");
    close_to(after.span(), MINUTE * 3 + store.grain(), ROUNDING + 50);
    agrees(store, &listed(store, "job"));
    assert_eq!(renew(&mut *backend, &first), Kept::Lost);
    assert_eq!(stored(store, "job").owner, next.owner.as_str());
    let unchanged = stored(store, "other");
    assert_eq!((unchanged.owner, unchanged.since), (other.owner, other.since), "a lock of another name");
}

pub(in crate::backend) fn what_is_changed_to_nothing_is_free(store: &dyn Store) {
    let mut backend = open(store);
    let (kept, marked) = (claim("kept", 1, MINUTE), claim("marked", 2, MINUTE));
    for (claim, to) in [(&kept, kept.owner.as_str().to_owned()), (&marked, marked.owner.ended())] {
        let name = claim.name.as_str();
        take(&mut *backend, claim);
        let before = wait_for_age(store, name, 20);
        assert_eq!(change(&mut *backend, name, claim.owner.as_str(), &to, Duration::ZERO), Kept::Kept);
        assert!(!is_held(store, name) && !is_listed_as_held(store, name));
        let after = store.stored(name);
        assert!(
            after.as_ref().is_none_or(|after| after.owner == to && after.until >= before.now),
            "{before:?} {after:?}"
        );
        assert!(after.is_some() || store.deletes_free_locks(), "a row is never deleted");
        assert_eq!(renew(&mut *backend, claim), Kept::Lost);
        assert!(!is_held(store, name));
    }
    take(&mut *open(store), &claim("kept", 3, MINUTE));
    assert!(store.java_take("marked", "java-host", MINUTE));
}

pub(in crate::backend) fn only_the_lock_of_the_one_who_is_named_is_changed(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    let before = stored(store, "job");
    for from in ["somebody", "", &first.owner.ended(), &first.owner.as_str().to_uppercase(), "host"] {
        assert_eq!(change(&mut *backend, "job", from, "thief", MINUTE * 9), Kept::Lost, "{from}");
        assert_eq!(change(&mut *backend, "job", from, from, Duration::ZERO), Kept::Lost, "{from}");
    }
    let after = stored(store, "job");
    assert_eq!((&after.owner, after.since), (&before.owner, before.since));
    assert!((after.until - before.until).abs() < 50, "{before:?} {after:?}");
    assert_eq!(renew(&mut *backend, &first), Kept::Kept);
}

pub(in crate::backend) fn what_is_not_held_is_not_changed(store: &dyn Store) {
    let mut backend = open(store);
    let (released, expired) = (claim("released", 1, MINUTE), claim("expired", 2, Duration::from_millis(50)));
    take(&mut *backend, &released);
    release(&mut *backend, &released, Duration::ZERO);
    take(&mut *backend, &expired);
    wait_until_over(store, "expired");
    let ended = released.owner.ended();
    for (name, owner) in [
        ("released", released.owner.as_str()),
        ("released", ended.as_str()),
        ("expired", expired.owner.as_str()),
        ("nobody's", expired.owner.as_str()),
    ] {
        let before = store.stored(name).map(|stored| (stored.owner, stored.since, stored.until));
        for to in [owner, "thief"] {
            assert_eq!(change(&mut *backend, name, owner, to, MINUTE), Kept::Lost, "{name} {owner}");
            assert_eq!(change(&mut *backend, name, owner, to, Duration::ZERO), Kept::Lost, "{name} {owner}");
        }
        assert_eq!(store.stored(name).map(|stored| (stored.owner, stored.since, stored.until)), before, "{name}");
    }
    take(&mut *backend, &claim("expired", 3, MINUTE));
}

/// The answer to the first change was lost.
pub(in crate::backend) fn a_change_that_is_repeated_is_kept(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    assert_eq!(change(&mut *backend, "job", first.owner.as_str(), "next", MINUTE * 2), Kept::Kept);
    let before = wait_for_age(store, "job", 50);
    assert_eq!(change(&mut *open(store), "job", first.owner.as_str(), "next", MINUTE * 2), Kept::Kept);
    let after = stored(store, "job");
    assert_eq!((after.owner.as_str(), after.since), ("next", before.since));
    close_to(after.until - before.until, Duration::ZERO, 10_000);
    // Another owner has taken the lock since.
    store.steal("job", "another");
    assert_eq!(change(&mut *open(store), "job", first.owner.as_str(), "next", MINUTE * 2), Kept::Lost);
    assert_eq!(stored(store, "job").owner, "another");
}

/// A run closes its own record, even if the lock was lost; a change leaves the history alone.
pub(in crate::backend) fn who_lost_the_lock_to_a_change_closes_the_record(store: &dyn Store) {
    let mut backend = open(store);
    let (freed, moved) = (claim("freed", 1, MINUTE), claim("moved", 2, MINUTE));
    for (claim, to, left) in [(&freed, freed.owner.ended(), Duration::ZERO), (&moved, "next".to_owned(), MINUTE)] {
        let name = claim.name.as_str();
        take(&mut *backend, claim);
        let before = store.history(name);
        assert_eq!(change(&mut *open(store), name, claim.owner.as_str(), &to, left), Kept::Kept);
        assert_eq!(store.history(name), before);
    }
    take(&mut *open(store), &claim("freed", 3, MINUTE));
    let lost = Closing::Ended { verdict: RunOutcome::Lost, exit_code: Some(123) };
    for claim in [&freed, &moved] {
        assert_eq!(persist(|| backend.release(claim, Duration::ZERO, lost)).answer, Kept::Lost);
        assert_eq!(record(store, claim).outcome.as_deref(), Some("lost"));
        assert!(is_held(store, claim.name.as_str()));
    }
}

pub(in crate::backend) fn a_changed_lock_is_renewed_and_released_by_its_owner(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    assert_eq!(change(&mut *open(store), "job", first.owner.as_str(), first.owner.as_str(), MINUTE * 3), Kept::Kept);
    assert_eq!(renew(&mut *backend, &first), Kept::Kept);
    let after = stored(store, "job");
    close_to(after.until - after.now, MINUTE * 3, 10_000);
    assert_eq!(renew(&mut *backend, &Claim { lease: MINUTE * 5, ..first.clone() }), Kept::Kept);
    agrees(store, &listed(store, "job"));
    assert!(listed(store, "job").state.left > MINUTE * 4);
    assert_eq!(release(&mut *backend, &first, Duration::ZERO), Kept::Kept);
    assert!(!is_held(store, "job"));
    take(&mut *backend, &claim("job", 2, MINUTE));
}

pub(in crate::backend) fn java_s_lock_can_be_changed(store: &dyn Store) {
    let mut backend = open(store);
    refused_until_free(&mut *backend);
    assert!(store.java_take("job", "java-host", MINUTE));
    let [java, other] = ["java-host", "other-host"].map(|owner| store.java_owner(owner));
    assert_eq!(change(&mut *backend, "job", &java, &java, MINUTE * 2), Kept::Kept);
    let after = stored(store, "job");
    close_to(after.until - after.now, MINUTE * 2, 10_000);
    assert_eq!(change(&mut *backend, "job", &java, &java, Duration::ZERO), Kept::Kept);
    assert!(store.java_take("job", "other-host", MINUTE));
    let pause = pause(1);
    assert_eq!(change(&mut *backend, "job", &other, pause.as_str(), MINUTE * 2), Kept::Kept);
    // The Java application is not told, and frees nothing.
    if store.java_frees_only_its_own() {
        store.java_release("job", "other-host", Duration::ZERO);
    }
    assert!(!store.java_take("job", "java-host", MINUTE));
    let lock = listed(store, "job");
    assert_eq!(lock.state.owner, pause.as_str());
    agrees(store, &lock);
}

fn pause(random: u64) -> Owner {
    Owner::of_pause("ada", "web1", random, None, "the disk: is \"full\"")
}

/// Returns the claim of a person who pauses a job.
fn pausing(name: &str, random: u64, lease: Duration) -> Claim {
    Claim { owner: pause(random), purpose: Purpose::Pause, ..claim(name, random, lease) }
}

pub(in crate::backend) fn a_pause_refuses_everybody(store: &dyn Store) {
    let mut backend = open(store);
    let paused = pausing("job", 1, Duration::from_secs(10 * 365 * 86_400));
    take(&mut *backend, &paused);
    let record = refused(&mut *open(store), &claim("job", 2, MINUTE));
    assert_eq!(record.owner, paused.owner.as_str());
    refused(&mut *open(store), &pausing("job", 3, MINUTE));
    assert!(!store.java_take("job", "java-host", MINUTE));
    agrees(store, &listed(store, "job"));
    // A pause can be shortened and ended.
    assert_eq!(change(&mut *backend, "job", paused.owner.as_str(), paused.owner.as_str(), MINUTE), Kept::Kept);
    refused(&mut *open(store), &claim("job", 2, MINUTE));
    let ended = paused.owner.ended();
    assert_eq!(change(&mut *backend, "job", paused.owner.as_str(), &ended, Duration::ZERO), Kept::Kept);
    take(&mut *open(store), &claim("job", 2, MINUTE));
    refused(&mut *backend, &pausing("job", 4, MINUTE));
}

pub(in crate::backend) fn a_pause_is_no_run_and_has_no_token(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    let before = take(&mut *backend, &first).token.unwrap();
    release(&mut *backend, &first, Duration::ZERO);
    let runs = store.history("job");
    let paused = pausing("job", 2, MINUTE);
    for _ in 0..2 {
        // The answer to the first taking was lost.
        let Reply { answer: Acquired::Granted(grant), remark } = persist(|| backend.acquire(&paused)) else { panic!() };
        assert_eq!((grant.token, remark), (None, Remark::default()), "nothing is missing");
    }
    assert_eq!(store.history("job"), runs);
    assert_eq!(change(&mut *backend, "job", paused.owner.as_str(), "nobody", Duration::ZERO), Kept::Kept);
    let after = take(&mut *backend, &claim("job", 3, MINUTE)).token.unwrap();
    assert!(after > before);
    assert_eq!(tokens(store, "job"), [after, before]);
}

#[track_caller]
fn make(backend: &mut dyn Admin) -> Vec<String> {
    persist(|| backend.make())
}

/// Takes and releases a lock, which must leave a run and no warning.
#[track_caller]
fn works(store: &dyn Store, backend: &mut dyn Backend) {
    let first = claim("works", 1, MINUTE);
    let grant = take(backend, &first);
    assert_eq!(release(backend, &first, Duration::ZERO), Kept::Kept);
    assert_eq!(tokens(store, "works"), [grant.token.unwrap()]);
}

pub(in crate::backend) fn what_is_needed_is_made_once(store: &dyn Store) {
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

pub(in crate::backend) fn making_harms_no_lock(store: &dyn Store) {
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
    assert_eq!(renew(&mut *backend, &first), Kept::Kept);
}

pub(in crate::backend) fn the_schema_is_all_that_is_needed(store: &dyn Store) {
    let mut backend = open(store);
    let schema = backend.schema();
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
