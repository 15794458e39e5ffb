//! Makes the requests that the tests of the contract share, and reads back what the store has.

use std::thread;
use std::time::{Duration, Instant};

use crate::backend::{Access, Admin, Backend, from_url};
use crate::lock::{
    Acquired, BackendError, Change, Claim, Closing, ErrorClass, Grant, Lock, LockName, LockState, Locks, Owner,
    Purpose, RunOutcome, StillHeld,
};
use crate::system::Timestamp;
use servers::stores::{Run, Store, Stored};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// Time after which a wait has failed; nothing takes so long unless it is broken.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(90);
pub(crate) const SUCCESS: Closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
/// Milliseconds by which a backend may round times.
pub(crate) const ROUNDING: i64 = 1;
/// The time left of a lease of a minute within the millisecond in which it began, since it is never shorter than was asked for.
pub(crate) const ROUNDED_UP: Duration = Duration::from_millis(60_001);

pub(crate) fn open(store: &dyn Store) -> Box<dyn Admin> {
    from_url(&store.url(), &Access { timeout: Duration::from_secs(10), ..Access::default() }).unwrap().backend
}

pub(crate) fn claim(name: &str, owner: u64, lease: Duration) -> Claim {
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
pub(crate) fn claim_for_a_minute(name: &str, number: u64) -> Claim {
    claim(name, number, MINUTE)
}

/// Acquires a free lock and returns its token; for the backends' own tests.
#[cfg(any(feature = "mysql", feature = "redis"))]
#[track_caller]
pub(crate) fn take_token(backend: &mut dyn Backend, claim: &Claim) -> Option<u64> {
    take(backend, claim).token
}

/// Repeats a request until it succeeds; repeats all but permanent errors, as the worker does.
#[track_caller]
pub(crate) fn persist<T>(mut ask: impl FnMut() -> Result<T, BackendError>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) if error.class == ErrorClass::Permanent || begun.elapsed() > WAIT_LIMIT => panic!("{error:?}"),
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

#[track_caller]
pub(crate) fn take(backend: &mut dyn Backend, claim: &Claim) -> Grant {
    match persist(|| backend.acquire(claim)).answer {
        Acquired::Granted(grant) => grant,
        Acquired::Held(record) => panic!("held by {record:?}"),
    }
}

#[track_caller]
pub(crate) fn refused(backend: &mut dyn Backend, claim: &Claim) -> LockState {
    match persist(|| backend.acquire(claim)).answer {
        Acquired::Held(record) => record,
        Acquired::Granted(grant) => panic!("{grant:?} was granted to {}", claim.owner),
    }
}

/// Acquires the lock once it is free.
#[track_caller]
pub(crate) fn take_when_free(backend: &mut dyn Backend, claim: &Claim) {
    let begun = Instant::now();
    while let Acquired::Held(_) = persist(|| backend.acquire(claim)).answer {
        assert!(begun.elapsed() < WAIT_LIMIT, "it never becomes free");
        thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
pub(crate) fn renew(backend: &mut dyn Backend, claim: &Claim) -> StillHeld {
    persist(|| backend.renew(claim)).answer
}

#[track_caller]
pub(crate) fn release(backend: &mut dyn Backend, claim: &Claim, hold: Duration) -> StillHeld {
    persist(|| backend.release(claim, hold, SUCCESS)).answer
}

#[track_caller]
pub(crate) fn stored(store: &dyn Store, name: &str) -> Stored {
    store.stored(name).unwrap_or_else(|| panic!("{name} is not stored"))
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

#[track_caller]
pub(crate) fn close_to(found: i64, wanted: Duration, by: i64) {
    assert!((found - millis(wanted)).abs() <= by, "{found} is not {wanted:?}");
}

pub(crate) fn is_held(store: &dyn Store, name: &str) -> bool {
    store.stored(name).is_some_and(|stored| stored.is_held())
}

/// Opens the connection and creates the table, so that later times measure the lock alone.
pub(crate) fn refused_until_free(backend: &mut dyn Backend) {
    let warm = claim("warm", 9, MINUTE);
    take(backend, &warm);
}

/// Waits until the lock was acquired this number of milliseconds ago.
pub(crate) fn wait_for_age(store: &dyn Store, name: &str, age: i64) -> Stored {
    loop {
        let stored = stored(store, name);
        if stored.now - stored.since >= age {
            return stored;
        }
    }
}

/// Returns names that differ in one respect each, or that have a special meaning somewhere.
pub(crate) fn odd_names() -> Vec<String> {
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

/// Checks that a token is greater than `last`, and makes it the last.
#[track_caller]
pub(crate) fn grows(last: &mut u64, grant: &Grant) {
    let token = grant.token.expect("there is no token");
    assert!(token > *last, "{token} follows {last}");
    *last = token;
}

pub(crate) fn tokens(store: &dyn Store, name: &str) -> Vec<u64> {
    store.history(name).iter().map(|run| run.token).collect()
}

/// Waits until a lock has expired by the clock of the server and by that of the backend, which may differ.
pub(crate) fn wait_until_over(store: &dyn Store, name: &str) {
    let begun = Instant::now();
    let mut backend = open(store);
    while is_held(store, name) || persist(|| backend.locks(&[name])).locks.iter().any(Lock::is_held) {
        assert!(begun.elapsed() < WAIT_LIMIT, "it never expires");
    }
}

/// Returns the only record of this owner.
#[track_caller]
pub(crate) fn record(store: &dyn Store, claim: &Claim) -> Run {
    let runs = store.history(claim.name.as_str());
    let ours: Vec<_> = runs.iter().filter(|run| run.owner == claim.owner.as_str()).collect();
    let [run] = ours[..] else { panic!("{} is not there once: {runs:?}", claim.owner) };
    run.clone()
}

/// Lists the locks of these names, or all of them.
#[track_caller]
pub(crate) fn list(store: &dyn Store, names: &[&str]) -> Locks {
    let mut backend = open(store);
    persist(|| backend.locks(names))
}

pub(crate) fn names(locks: &Locks) -> Vec<&str> {
    locks.locks.iter().map(|lock| lock.name.as_str()).collect()
}

/// Returns the only lock of this name.
#[track_caller]
pub(crate) fn listed(store: &dyn Store, name: &str) -> Lock {
    let [lock] = <[Lock; 1]>::try_from(list(store, &[name]).locks).unwrap();
    assert_eq!(lock.name, name);
    lock
}

/// Checks that a held lock is listed as it is stored.
#[track_caller]
pub(crate) fn agrees(store: &dyn Store, lock: &Lock) {
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

#[track_caller]
pub(crate) fn change(backend: &mut dyn Admin, name: &str, from: &str, to: &str, left: Duration) -> StillHeld {
    let name = LockName::from_stored(name).unwrap();
    let change = Change { name, from: from.to_owned(), to: to.to_owned(), left };
    persist(|| backend.change(&change))
}

/// Returns true if the lock is listed as held; a backend may have forgotten a free one.
pub(crate) fn is_listed_as_held(store: &dyn Store, name: &str) -> bool {
    list(store, &[name]).locks.iter().any(Lock::is_held)
}
