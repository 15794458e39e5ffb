//! The contract of the history: a record of each run, closed at its end, and as many as are to be kept.

use std::time::Duration;

use super::requests::{
    MINUTE, ROUNDING, claim, grows, odd_names, open, persist, record, release, stored, take, take_when_free, tokens,
    wait_for_age, wait_until_over,
};
use crate::backend::{Admin, Backend};
use crate::lock::{Claim, Closing, RunOutcome, StillHeld};
use servers::stores::{Run, Store};

pub(crate) fn a_run_is_recorded_and_closed(store: &dyn Store) {
    let mut backend = open(store);
    let endings = [
        (RunOutcome::Success, Some(0)),
        (RunOutcome::Failure, Some(3)),
        (RunOutcome::Expired, Some(124)),
        (RunOutcome::Lost, Some(123)),
        (RunOutcome::Error, Some(255)),
        (RunOutcome::Success, None),
    ];
    for (number, (outcome, exit_code)) in (1..).zip(endings) {
        let claim = claim("job", number, MINUTE);
        let grant = take(&mut *backend, &claim);
        let locked_at = i64::try_from(grant.locked_at.0).unwrap();
        let run = record(store, &claim);
        assert!((run.started - locked_at).abs() <= ROUNDING, "{run:?} {grant:?}");
        let open = Run {
            token: grant.token.unwrap(),
            owner: claim.owner.as_str().to_owned(),
            host: "host".to_owned(),
            started: run.started,
            ended: None,
            exit_code: None,
            outcome: None,
        };
        assert_eq!(run, open);
        let before = wait_for_age(store, "job", 20).now;
        assert_eq!(
            persist(|| backend.release(&claim, MINUTE / 2, Closing::Ended { outcome, exit_code })).answer,
            StillHeld::Held
        );
        let run = record(store, &claim);
        let ended = run.ended.unwrap();
        assert!((before - ROUNDING..=stored(store, "job").now + ROUNDING).contains(&ended), "{before} {run:?}");
        let outcome = Some(outcome.as_str().to_owned());
        assert_eq!(run, Run { ended: Some(ended), exit_code: exit_code.map(i64::from), outcome, ..open });
        store.delete("job");
    }
    assert!(tokens(store, "job").is_sorted_by(|one, next| one > next));
}

pub(crate) fn a_record_is_closed_also_when_the_lock_was_lost(store: &dyn Store) {
    type BackendRef<'a> = (&'a str, &'a dyn Fn(&str));
    let lost = Closing::Ended { outcome: RunOutcome::Lost, exit_code: Some(123) };
    let ways: [BackendRef<'_>; 4] = [
        ("expired", &|_| {}),
        ("stolen", &|name| store.steal(name, "somebody")),
        ("deleted", &|name| store.delete(name)),
        ("taken", &|name| {
            take_when_free(&mut *open(store), &claim(name, 2, MINUTE));
        }),
    ];
    for (name, lose) in ways {
        if name == "deleted" && store.in_one_record() {
            continue;
        }
        let mut backend = open(store);
        let lease = if ["expired", "taken"].contains(&name) { Duration::from_millis(50) } else { MINUTE };
        let ours = claim(name, 1, lease);
        take(&mut *backend, &ours);
        let open = record(store, &ours);
        if name == "expired" {
            wait_until_over(store, name);
        }
        lose(name);
        let others = store.history(name).into_iter().filter(|run| run.owner != ours.owner.as_str()).collect::<Vec<_>>();
        assert_eq!(persist(|| backend.release(&ours, Duration::ZERO, lost)).answer, StillHeld::Lost, "{name}");
        let run = record(store, &ours);
        assert!(run.ended.is_some_and(|ended| ended >= run.started - ROUNDING), "{name}: {run:?}");
        let closed = Run { ended: run.ended, exit_code: Some(123), outcome: Some("lost".to_owned()), ..open };
        assert_eq!(run, closed, "{name}");
        assert_eq!(store.history(name).len(), others.len() + 1, "{name}");
        for other in others {
            assert_eq!(record(store, &claim(name, 2, MINUTE)), other, "another's record is none of ours");
        }
    }
}

pub(crate) fn an_unused_acquisition_leaves_no_record(store: &dyn Store) {
    let mut backend = open(store);
    let (first, unused) = (claim("job", 1, MINUTE), claim("job", 2, MINUTE));
    let mut last = 0;
    grows(&mut last, &take(&mut *backend, &first));
    release(&mut *backend, &first, Duration::ZERO);
    let before = store.history("job");
    for closing in [Closing::Unused, Closing::Undone] {
        take(&mut *backend, &unused);
        assert_eq!(tokens(store, "job").len(), 2);
        for _ in 0..2 {
            assert_eq!(persist(|| backend.release(&unused, Duration::ZERO, closing)).answer, StillHeld::Held);
            assert_eq!(store.history("job"), before);
        }
    }
    let unused = claim("job", 4, MINUTE);
    take(&mut *backend, &unused);
    store.delete("job");
    assert_eq!(persist(|| backend.release(&unused, Duration::ZERO, Closing::Unused)).answer, StillHeld::Lost);
    assert_eq!(store.history("job"), if store.in_one_record() { Vec::new() } else { before });
    grows(&mut last, &take(&mut *backend, &claim("job", 3, MINUTE)));
}

/// Runs under the lock and returns the token.
#[track_caller]
fn run(backend: &mut dyn Backend, claim: &Claim) -> u64 {
    let grant = take(backend, claim);
    release(backend, claim, Duration::ZERO);
    grant.token.expect("there is no token")
}

pub(crate) fn only_the_last_runs_are_kept(store: &dyn Store) {
    let mut backend = open(store);
    let mut others: Vec<u64> = (1..=4).map(|owner| run(&mut *backend, &claim("other", owner, MINUTE))).collect();
    others.reverse();
    let mut runs = Vec::new();
    for owner in 1..=6 {
        runs.insert(0, run(&mut *backend, &Claim { keep: 3, ..claim("job", owner, MINUTE) }));
        runs.truncate(3);
        assert_eq!(tokens(store, "job"), runs);
    }
    // An acquisition that led to no run removes no record.
    let unused = Claim { keep: 3, ..claim("job", 7, MINUTE) };
    take(&mut *backend, &unused);
    persist(|| backend.release(&unused, Duration::ZERO, Closing::Unused));
    assert_eq!(tokens(store, "job"), runs);
    let last = run(&mut *backend, &Claim { keep: 0, ..claim("job", 8, MINUTE) });
    let left = tokens(store, "job");
    assert!(left == [last] || left.is_empty() && (store.in_one_record() || store.deletes_free_locks()), "{left:?}");
    assert!(run(&mut *backend, &Claim { keep: 0, ..claim("job", 9, MINUTE) }) > last);
    assert_eq!(tokens(store, "other"), others);
}

pub(crate) fn a_late_release_keeps_no_more_runs_than_another(store: &dyn Store) {
    let mut backend = open(store);
    let late = Claim { keep: 1, ..claim("job", 1, Duration::from_millis(50)) };
    take(&mut *backend, &late);
    wait_until_over(store, "job");
    let next = take(&mut *open(store), &claim("job", 2, MINUTE));
    release(&mut *backend, &late, Duration::ZERO);
    assert_eq!(tokens(store, "job"), [next.token.unwrap()]);
}

pub(crate) fn a_long_history_is_pruned_now_and_then(store: &dyn Store) {
    // The chance is one in two, and the owner's number decides.
    const KEEP: u32 = 40;
    let mut backend = open(store);
    let run = |backend: &mut dyn Admin, owner| run(backend, &Claim { keep: KEEP, ..claim("job", owner, MINUTE) });
    let mut runs: Vec<u64> = (1..=40).map(|owner| run(&mut *backend, owner)).collect();
    runs.reverse();
    assert_eq!(tokens(store, "job"), runs);
    // Pruning costs nothing where all runs are in one record, or in a set that knows their ranks.
    let each_time = store.in_one_record() || store.url().starts_with("redis");
    for (owner, surplus) in [(41, 1), (43, 2), (42, 0), (44, 0), (45, 1), (46, 0)] {
        runs.insert(0, run(&mut *backend, owner));
        let kept = KEEP as usize + if each_time { 0 } else { surplus };
        assert_eq!(tokens(store, "job"), runs[..kept], "after {owner}");
        runs.truncate(kept);
    }
    // A release that comes late, and has nothing to close, prunes as well.
    for owner in [47, 49] {
        runs.insert(0, run(&mut *backend, owner));
    }
    let late = Claim { keep: KEEP, ..claim("job", 48, Duration::from_millis(50)) };
    let token = take(&mut *backend, &late).token.unwrap();
    runs.insert(0, token);
    wait_until_over(store, "job");
    runs.insert(0, run(&mut *open(store), 51));
    release(&mut *backend, &late, Duration::ZERO);
    assert_eq!(tokens(store, "job"), runs[..KEEP as usize]);
    assert_eq!(record(store, &late).outcome.as_deref(), Some("success"));
}

pub(crate) fn a_history_gets_shorter_when_fewer_runs_are_to_be_kept(store: &dyn Store) {
    let mut backend = open(store);
    let mut runs: Vec<u64> =
        (1..=14).map(|owner| run(&mut *backend, &Claim { keep: 1000, ..claim("job", owner, MINUTE) })).collect();
    assert_eq!(tokens(store, "job").len(), 14);
    runs.push(run(&mut *backend, &Claim { keep: 10, ..claim("job", 15, MINUTE) }));
    runs.reverse();
    assert_eq!(tokens(store, "job"), runs[..10]);
}

pub(crate) fn hosts_that_keep_different_numbers_of_runs_agree_on_the_newest(store: &dyn Store) {
    let (mut many, mut few) = (open(store), open(store));
    let mut runs = Vec::new();
    let mut next = 0;
    for (keep, left) in [(1000, [1, 2, 3]), (2, [2; 3]), (1000, [3, 4, 5])] {
        let backend = if keep == 2 { &mut few } else { &mut many };
        for left in left {
            next += 1;
            runs.insert(0, run(&mut **backend, &Claim { keep, ..claim("job", next, MINUTE) }));
            runs.truncate(left);
            assert_eq!(tokens(store, "job"), runs, "after {next}");
        }
    }
}

pub(crate) fn releasing_again_changes_no_record(store: &dyn Store) {
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    take(&mut *backend, &first);
    release(&mut *backend, &first, MINUTE / 2);
    let before = store.history("job");
    wait_for_age(store, "job", 100);
    let failure = Closing::Ended { outcome: RunOutcome::Failure, exit_code: Some(1) };
    assert_eq!(persist(|| open(store).release(&first, MINUTE / 2, failure)).answer, StillHeld::Held);
    assert_eq!(store.history("job"), before);
}

pub(crate) fn names_have_histories_of_their_own(store: &dyn Store) {
    let mut backend = open(store);
    let names = odd_names();
    let claims: Vec<Claim> =
        (0..).zip(&names).map(|(owner, name)| Claim { keep: 1, ..claim(name, owner, MINUTE) }).collect();
    let first: Vec<u64> = claims.iter().map(|claim| run(&mut *backend, claim)).collect();
    for (claim, token) in claims.iter().zip(first) {
        assert_eq!(tokens(store, claim.name.as_str()), [token], "{}", claim.name);
        assert_eq!(record(store, claim).outcome.as_deref(), Some("success"), "{}", claim.name);
    }
}

pub(crate) fn a_missing_history_is_made_beside_a_table_made_for_java(store: &dyn Store) {
    store.make_table();
    let mut backend = open(store);
    let first = claim("job", 1, MINUTE);
    let token = run(&mut *backend, &first);
    let run = record(store, &first);
    assert_eq!((run.token, run.outcome.as_deref()), (token, Some("success")));
}
