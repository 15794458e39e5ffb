//! The contract of an operator's changes: another end, another owner, a pause.

use std::time::Duration;

use super::requests::{
    MINUTE, ROUNDING, agrees, change, claim, close_to, is_held, is_listed_as_held, listed, millis, open, persist,
    record, refused, refused_until_free, release, renew, stored, take, tokens, wait_for_age, wait_until_over,
};
use crate::lock::{Acquired, Claim, Closing, Owner, Purpose, Remark, Reply, RunOutcome, StillHeld};
use servers::stores::Store;

pub(crate) fn another_end_is_counted_from_now(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE * 2);
    let owner = first.owner.as_str();
    take(&mut *backend, &first);
    let before = wait_for_age(store, "job", 100);
    // A later end, and an earlier one.
    for left in [MINUTE * 10, MINUTE] {
        assert_eq!(change(&mut *backend, "job", owner, owner, left), StillHeld::Held);
        let after = stored(store, "job");
        assert_eq!(after.owner, owner);
        assert!((after.since - before.since).abs() <= ROUNDING, "{before:?} {after:?}");
        assert!(after.until - before.now >= millis(left) - ROUNDING, "{before:?} {after:?}");
        close_to(after.until - after.now, left, 10_000);
        agrees(store, &listed(store, "job"));
    }
    refused(&mut *open(store), &claim("job", 2, MINUTE));
    let years = Duration::from_secs(10 * 365 * 86_400);
    assert_eq!(change(&mut *backend, "job", owner, owner, years), StillHeld::Held);
    let after = stored(store, "job");
    close_to(after.until - after.now, years, 10_000);
    agrees(store, &listed(store, "job"));
}

pub(crate) fn another_owner_holds_it_from_now(store: &dyn Store) {
    let mut backend = open(store);
    let (first, next) = (claim("job", 1, MINUTE), claim("job", 2, MINUTE));
    take(&mut *backend, &first);
    take(&mut *backend, &claim("other", 3, MINUTE));
    let other = stored(store, "other");
    let before = wait_for_age(store, "job", 100);
    assert_eq!(change(&mut *backend, "job", first.owner.as_str(), next.owner.as_str(), MINUTE * 3), StillHeld::Held);
    let after = stored(store, "job");
    assert_eq!(after.owner, next.owner.as_str());
    assert!(after.since >= before.now - ROUNDING, "{before:?} {after:?}");
    close_to(after.span(), MINUTE * 3 + store.grain(), ROUNDING + 50);
    agrees(store, &listed(store, "job"));
    assert_eq!(renew(&mut *backend, &first), StillHeld::Lost);
    assert_eq!(stored(store, "job").owner, next.owner.as_str());
    let unchanged = stored(store, "other");
    assert_eq!((unchanged.owner, unchanged.since), (other.owner, other.since), "a lock of another name");
}

pub(crate) fn what_is_changed_to_nothing_is_free(store: &dyn Store) {
    let mut backend = open(store);
    let (kept, marked) = (claim("kept", 1, MINUTE), claim("marked", 2, MINUTE));
    for (claim, to) in [(&kept, kept.owner.as_str().to_owned()), (&marked, marked.owner.ended())] {
        let name = claim.name.as_str();
        take(&mut *backend, claim);
        let before = wait_for_age(store, name, 20);
        assert_eq!(change(&mut *backend, name, claim.owner.as_str(), &to, Duration::ZERO), StillHeld::Held);
        assert!(!is_held(store, name) && !is_listed_as_held(store, name));
        let after = store.stored(name);
        assert!(
            after.as_ref().is_none_or(|after| after.owner == to && after.until >= before.now),
            "{before:?} {after:?}"
        );
        assert!(after.is_some() || store.deletes_free_locks(), "a row is never deleted");
        assert_eq!(renew(&mut *backend, claim), StillHeld::Lost);
        assert!(!is_held(store, name));
    }
    take(&mut *open(store), &claim("kept", 3, MINUTE));
    assert!(store.java_take("marked", "java-host", MINUTE));
}

pub(crate) fn only_the_lock_of_the_one_who_is_named_is_changed(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    let before = stored(store, "job");
    for from in ["somebody", "", &first.owner.ended(), &first.owner.as_str().to_uppercase(), "host"] {
        assert_eq!(change(&mut *backend, "job", from, "thief", MINUTE * 9), StillHeld::Lost, "{from}");
        assert_eq!(change(&mut *backend, "job", from, from, Duration::ZERO), StillHeld::Lost, "{from}");
    }
    let after = stored(store, "job");
    assert_eq!((&after.owner, after.since), (&before.owner, before.since));
    assert!((after.until - before.until).abs() < 50, "{before:?} {after:?}");
    assert_eq!(renew(&mut *backend, &first), StillHeld::Held);
}

pub(crate) fn what_is_not_held_is_not_changed(store: &dyn Store) {
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
            assert_eq!(change(&mut *backend, name, owner, to, MINUTE), StillHeld::Lost, "{name} {owner}");
            assert_eq!(change(&mut *backend, name, owner, to, Duration::ZERO), StillHeld::Lost, "{name} {owner}");
        }
        assert_eq!(store.stored(name).map(|stored| (stored.owner, stored.since, stored.until)), before, "{name}");
    }
    take(&mut *backend, &claim("expired", 3, MINUTE));
}

/// The answer to the first change was lost.
pub(crate) fn a_change_that_is_repeated_is_kept(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    assert_eq!(change(&mut *backend, "job", first.owner.as_str(), "next", MINUTE * 2), StillHeld::Held);
    let before = wait_for_age(store, "job", 50);
    assert_eq!(change(&mut *open(store), "job", first.owner.as_str(), "next", MINUTE * 2), StillHeld::Held);
    let after = stored(store, "job");
    assert_eq!((after.owner.as_str(), after.since), ("next", before.since));
    close_to(after.until - before.until, Duration::ZERO, 10_000);
    // Another owner has acquired the lock since.
    store.steal("job", "another");
    assert_eq!(change(&mut *open(store), "job", first.owner.as_str(), "next", MINUTE * 2), StillHeld::Lost);
    assert_eq!(stored(store, "job").owner, "another");
}

/// A run closes its own record, even if the lock was lost; a change leaves the history alone.
pub(crate) fn who_lost_the_lock_to_a_change_closes_the_record(store: &dyn Store) {
    let mut backend = open(store);
    let (freed, moved) = (claim("freed", 1, MINUTE), claim("moved", 2, MINUTE));
    for (claim, to, left) in [(&freed, freed.owner.ended(), Duration::ZERO), (&moved, "next".to_owned(), MINUTE)] {
        let name = claim.name.as_str();
        take(&mut *backend, claim);
        let before = store.history(name);
        assert_eq!(change(&mut *open(store), name, claim.owner.as_str(), &to, left), StillHeld::Held);
        assert_eq!(store.history(name), before);
    }
    take(&mut *open(store), &claim("freed", 3, MINUTE));
    let lost = Closing::Ended { outcome: RunOutcome::Lost, exit_code: Some(123) };
    for claim in [&freed, &moved] {
        assert_eq!(persist(|| backend.release(claim, Duration::ZERO, lost)).answer, StillHeld::Lost);
        assert_eq!(record(store, claim).outcome.as_deref(), Some("lost"));
        assert!(is_held(store, claim.name.as_str()));
    }
}

pub(crate) fn a_changed_lock_is_renewed_and_released_by_its_owner(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    assert_eq!(
        change(&mut *open(store), "job", first.owner.as_str(), first.owner.as_str(), MINUTE * 3),
        StillHeld::Held
    );
    assert_eq!(renew(&mut *backend, &first), StillHeld::Held);
    let after = stored(store, "job");
    close_to(after.until - after.now, MINUTE * 3, 10_000);
    assert_eq!(renew(&mut *backend, &Claim { lease: MINUTE * 5, ..first.clone() }), StillHeld::Held);
    agrees(store, &listed(store, "job"));
    assert!(listed(store, "job").state.left > MINUTE * 4);
    assert_eq!(release(&mut *backend, &first, Duration::ZERO), StillHeld::Held);
    assert!(!is_held(store, "job"));
    take(&mut *backend, &claim("job", 2, MINUTE));
}

pub(crate) fn java_s_lock_can_be_changed(store: &dyn Store) {
    let mut backend = open(store);
    refused_until_free(&mut *backend);
    assert!(store.java_take("job", "java-host", MINUTE));
    let [java, other] = ["java-host", "other-host"].map(|owner| store.java_owner(owner));
    assert_eq!(change(&mut *backend, "job", &java, &java, MINUTE * 2), StillHeld::Held);
    let after = stored(store, "job");
    close_to(after.until - after.now, MINUTE * 2, 10_000);
    assert_eq!(change(&mut *backend, "job", &java, &java, Duration::ZERO), StillHeld::Held);
    assert!(store.java_take("job", "other-host", MINUTE));
    let pause = pause(1);
    assert_eq!(change(&mut *backend, "job", &other, pause.as_str(), MINUTE * 2), StillHeld::Held);
    // The Java application does not learn of it, and frees nothing.
    if store.java_frees_only_its_own() {
        store.java_release("job", "other-host", Duration::ZERO);
    }
    assert!(!store.java_take("job", "java-host", MINUTE));
    let lock = listed(store, "job");
    assert_eq!(lock.state.owner, pause.as_str());
    agrees(store, &lock);
}

fn pause(random: u64) -> Owner {
    Owner::for_pause("ada", "web1", random, None, "the disk: is \"full\"")
}

/// Returns the claim of a pause.
fn pausing(name: &str, random: u64, lease: Duration) -> Claim {
    Claim { owner: pause(random), purpose: Purpose::Pause, ..claim(name, random, lease) }
}

pub(crate) fn a_pause_refuses_everybody(store: &dyn Store) {
    let mut backend = open(store);
    let paused = pausing("job", 1, Duration::from_secs(10 * 365 * 86_400));
    take(&mut *backend, &paused);
    let record = refused(&mut *open(store), &claim("job", 2, MINUTE));
    assert_eq!(record.owner, paused.owner.as_str());
    refused(&mut *open(store), &pausing("job", 3, MINUTE));
    assert!(!store.java_take("job", "java-host", MINUTE));
    agrees(store, &listed(store, "job"));
    // A pause can be shortened and ended.
    assert_eq!(change(&mut *backend, "job", paused.owner.as_str(), paused.owner.as_str(), MINUTE), StillHeld::Held);
    refused(&mut *open(store), &claim("job", 2, MINUTE));
    let ended = paused.owner.ended();
    assert_eq!(change(&mut *backend, "job", paused.owner.as_str(), &ended, Duration::ZERO), StillHeld::Held);
    take(&mut *open(store), &claim("job", 2, MINUTE));
    refused(&mut *backend, &pausing("job", 4, MINUTE));
}

pub(crate) fn a_pause_is_no_run_and_has_no_token(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    let before = take(&mut *backend, &first).token.unwrap();
    release(&mut *backend, &first, Duration::ZERO);
    let runs = store.history("job");
    let paused = pausing("job", 2, MINUTE);
    for _ in 0..2 {
        // The answer to the first acquisition was lost.
        let Reply { answer: Acquired::Granted(grant), remark } = persist(|| backend.acquire(&paused)) else { panic!() };
        assert_eq!((grant.token, remark), (None, Remark::default()), "nothing is missing");
    }
    assert_eq!(store.history("job"), runs);
    assert_eq!(change(&mut *backend, "job", paused.owner.as_str(), "nobody", Duration::ZERO), StillHeld::Held);
    let after = take(&mut *backend, &claim("job", 3, MINUTE)).token.unwrap();
    assert!(after > before);
    assert_eq!(tokens(store, "job"), [after, before]);
}
