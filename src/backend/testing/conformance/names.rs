//! Locks whose names no job may have, because another program made them.

use super::forget::forget;
use super::requests::{MINUTE, change, claim, is_held, list, listed, names, open, persist, release, take};
use crate::backend::Admin;
use crate::lock::{Acquired, Forgotten, StillHeld};
use crate::lock::{Claim, LockName, Owner, Purpose, RunQuery};
use servers::stores::Store;
use std::time::Duration;

/// Names as the Java library allows them. The last one is longer than the column of its documented table.
fn names_of_java() -> Vec<String> {
    let long = "0123456789".repeat(8);
    ["report ", " report", "a\tb", "a\nb", "\u{1b}[2J", "\u{a0}x", "%\u{7f}", &long].map(str::to_owned).into()
}

fn pause(name: &str) -> Claim {
    let owner = Owner::for_pause("ada", "web1", 7, None, "");
    Claim { name: LockName::from_stored(name).unwrap(), owner, lease: MINUTE, keep: 0, purpose: Purpose::Pause }
}

/// Returns the owner of a lock as listed.
#[track_caller]
fn owner(store: &dyn Store, name: &str) -> String {
    listed(store, name).state.owner
}

pub(crate) fn a_lock_of_a_name_that_no_job_may_have_is_changed_and_forgotten(store: &dyn Store) {
    store.make_table();
    store.widen();
    let mut wanted = names_of_java();
    let java = store.java_owner("java-host");
    for name in &wanted {
        assert!(LockName::new(name).is_err());
        assert!(store.java_take(name, "java-host", MINUTE), "{name:?}");
    }
    wanted.sort();
    assert_eq!(names(&list(store, &[])), wanted);
    let mut backend = open(store);
    let paused = pause("x").owner;
    for name in &wanted {
        assert_eq!(owner(store, name), java, "{name:?}");
        assert_eq!(change(&mut *backend, name, "another", paused.as_str(), MINUTE), StillHeld::Lost, "{name:?}");
        assert_eq!(change(&mut *backend, name, &java, paused.as_str(), MINUTE * 2), StillHeld::Held, "{name:?}");
        assert!(!store.java_take(name, "java-host", MINUTE), "{name:?}");
        assert_eq!(owner(store, name), paused.as_str(), "{name:?}");
        assert_eq!(change(&mut *backend, name, paused.as_str(), &paused.ended(), Duration::ZERO), StillHeld::Held);
        assert!(store.java_take(name, "java-host", MINUTE), "{name:?}");
        assert_eq!(change(&mut *backend, name, &java, &java, Duration::ZERO), StillHeld::Held, "{name:?}");
        // A pause of a free lock.
        let answer = persist(|| backend.acquire(&pause(name))).answer;
        assert!(matches!(answer, Acquired::Granted(_)), "{name:?}: {answer:?}");
        assert!(is_held(store, name) && !store.java_take(name, "java-host", MINUTE), "{name:?}");
        assert_eq!(forget(&mut *backend, name, paused.as_str()), Forgotten::InUse, "{name:?}");
        assert_eq!(change(&mut *backend, name, paused.as_str(), &paused.ended(), Duration::ZERO), StillHeld::Held);
        let forgotten = forget(&mut *backend, name, &paused.ended());
        assert!(matches!(forgotten, Forgotten::Gone { runs: 0, .. }), "{name:?}: {forgotten:?}");
        assert!(store.stored(name).is_none(), "{name:?}");
    }
    assert_eq!(names(&list(store, &[])), [""; 0]);
}

/// Some servers ignore spaces at the end of a name.
pub(crate) fn a_name_with_a_space_too_many_is_not_that_of_another_lock(store: &dyn Store) {
    let (mut backend, first) = (open(store), claim("report", 1, MINUTE));
    take(&mut *backend, &first);
    let (ours, java) = (first.owner.as_str(), store.java_owner("java-host"));
    let is_apart = store.java_take("report ", "java-host", MINUTE);
    let wanted: &[&str] = if is_apart { &["report "] } else { &[] };
    assert_eq!(names(&list(store, &["report "])), wanted);
    assert_eq!(change(&mut *backend, "report ", ours, ours, Duration::ZERO), StillHeld::Lost);
    if is_apart {
        assert_eq!(change(&mut *backend, "report ", &java, &java, Duration::ZERO), StillHeld::Held);
    }
    assert!(is_held(store, "report") && owner(store, "report") == ours);
    assert_eq!(release(&mut *backend, &first, Duration::ZERO), StillHeld::Held);
    let of = |name: &str| RunQuery { names: vec![name.to_owned()], ..RunQuery::default() };
    let runs = |backend: &mut dyn Admin, name| persist(|| backend.runs(&of(name))).runs.len();
    assert_eq!((runs(&mut *backend, "report "), runs(&mut *backend, "report")), (0, 1));
    let seen = if is_apart && !store.deletes_free_locks() { &java[..] } else { "" };
    assert!(matches!(forget(&mut *backend, "report ", seen), Forgotten::Gone { runs: 0, .. }));
    assert_eq!((runs(&mut *backend, "report "), runs(&mut *backend, "report")), (0, 1));
    assert_eq!(store.history("report").len(), 1);
    assert!(store.deletes_free_locks() || owner(store, "report") == first.owner.ended());
}
