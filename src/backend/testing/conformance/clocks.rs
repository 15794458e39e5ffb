//! Carries out the cases of [`clock_cases`](super::clock_cases) on a store whose clock can be set.

#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
use std::ops::RangeBounds;
use std::time::{Duration, Instant};

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis"))]
use super::clock_cases::HOUR;
use super::clock_cases::Party::{Ended, Run};
use super::clock_cases::Step::{
    Ahead, AskAsAnother, Back, Extend, Forget, Pause, PauseHeld, Release, Renew, Take, Unlock,
};
use super::clock_cases::{Answer, CASES, Case, LEASE, MAX_LEASE_ROUNDING, Party, RENEWAL, Seen, Step, TERM};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
use super::clock_cases::{HOLD, YEAR};
use super::requests::{MINUTE, SUCCESS, claim, list, open, persist};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
use super::requests::{WAIT_LIMIT, release, renew, take};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis"))]
use super::requests::{refused, refused_until_free, stored};
use crate::backend::Admin;
use crate::lock::{Acquired, Forgotten, StillHeld};
use crate::lock::{Change, Claim, LockState, Owner, Purpose, Removal};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
use crate::system::Timestamp;
use servers::stores::{Measure, Shift, Store};

/// Plays the parties of one case: a run, a person, and another run.
struct CaseRun<'a> {
    store: &'a dyn Store,
    run: Box<dyn Admin>,
    others: Box<dyn Admin>,
    claim: Claim,
    pause: Claim,
    other: Claim,
}

impl<'a> CaseRun<'a> {
    fn new(store: &'a dyn Store, number: usize) -> Self {
        let name = format!("case-{number}");
        let owner = Owner::for_pause("ada", "web1", 3, None, "the disk");
        Self {
            store,
            run: open(store),
            others: open(store),
            claim: claim(&name, 1, LEASE),
            pause: Claim { owner, purpose: Purpose::Pause, ..claim(&name, 3, TERM) },
            other: claim(&name, 2, MINUTE),
        }
    }

    fn name(&self) -> &str {
        self.claim.name.as_str()
    }

    fn owner(&self, who: Party) -> String {
        match who {
            Run => self.claim.owner.as_str().to_owned(),
            Ended => self.claim.owner.ended(),
            Party::Pause => self.pause.owner.as_str().to_owned(),
        }
    }

    /// Returns the lock as it is listed.
    fn listed(&self) -> Option<LockState> {
        list(self.store, &[self.name()]).locks.into_iter().next().map(|lock| lock.state)
    }

    /// Carries out a step, and returns the answer.
    fn step(&mut self, step: Step) -> Option<Answer> {
        let kept = |kept: StillHeld| if kept == StillHeld::Held { Answer::Kept } else { Answer::Lost };
        Some(match step {
            Take => granted(&mut *self.run, &self.claim).map_or(Answer::Refused, |()| Answer::Granted),
            Pause => granted(&mut *self.others, &self.pause).map_or(Answer::Refused, |()| Answer::Granted),
            AskAsAnother => granted(&mut *self.others, &self.other).map_or(Answer::Refused, |()| Answer::Granted),
            Renew => kept(persist(|| self.run.renew(&Claim { lease: RENEWAL, ..self.claim.clone() })).answer),
            Release(hold) => kept(persist(|| self.run.release(&self.claim, hold, SUCCESS)).answer),
            Extend => kept(self.change(&self.owner(Run), TERM)),
            PauseHeld => kept(self.change(&self.owner(Party::Pause), TERM)),
            Unlock => kept(self.change(&self.owner(Ended), Duration::ZERO)),
            Forget => {
                let seen = self.listed().map(|state| state.owner).unwrap_or_default();
                let removal = Removal::new(self.claim.name.clone(), seen);
                match persist(|| self.others.forget(&removal)) {
                    Forgotten::Gone { .. } => Answer::Gone,
                    Forgotten::InUse => Answer::InUse,
                }
            }
            Back(by) => return self.shift(Shift::Later(by)),
            Ahead(by) => return self.shift(Shift::Earlier(by)),
        })
    }

    fn change(&mut self, to: &str, left: Duration) -> StillHeld {
        let from = self.listed().map(|state| state.owner).unwrap_or_default();
        let change = Change { name: self.claim.name.clone(), from, to: to.to_owned(), left };
        persist(|| self.others.change(&change))
    }

    /// Sets the store's clock, which is the same as to move the times that it has, if it has any.
    fn shift(&self, by: Shift) -> Option<Answer> {
        if self.listed().is_some_and(|state| state.since.is_some()) {
            self.store.shift(self.name(), by);
        }
        None
    }

    /// Carries out all steps; the error says which answer or lock was not as expected.
    fn carry_out(&mut self, case: &Case) -> Result<(), String> {
        let (told, seen) = case.expected[self.store.measure() as usize];
        let begun = Instant::now();
        let answer = case.steps.iter().filter_map(|step| self.step(*step)).last();
        if answer != Some(told) {
            return Err(format!("the answer is {answer:?}, and not {told:?}"));
        }
        let listed = self.listed().filter(|state| !state.left.is_zero()).map(|state| state.owner);
        let asked = persist(|| self.others.acquire(&self.other)).answer;
        let (who, least, most) = match seen {
            Seen::Free if listed.is_some() => return Err(format!("it is listed as held by {listed:?}")),
            Seen::Free if matches!(asked, Acquired::Granted(_)) => return Ok(()),
            Seen::Free => return Err(format!("it is not free: {asked:?}")),
            Seen::Held(who, least, most) => (self.owner(who), least, most),
        };
        if listed.as_ref() != Some(&who) {
            return Err(format!("it is listed as held by {listed:?}, and not by {who}"));
        }
        let Acquired::Held(state) = asked else { return Err("another run got it".to_owned()) };
        let left = self.store.left(self.name()).unwrap_or(state.left);
        let (passed, grain) = (begun.elapsed(), self.store.grain());
        let unseen =
            grain + if self.store.measure() == Measure::Lease { MAX_LEASE_ROUNDING } else { Duration::from_millis(1) };
        if state.owner != who || left + passed + unseen < least || left > most + passed + grain + unseen {
            return Err(format!("it is not held by {who} for {least:?} to {most:?}, but for {left:?}: {state:?}"));
        }
        Ok(())
    }
}

/// Checks a server whose clock `set` moves by this much from the right time; [`CASES`] moves the stored times instead.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
pub(crate) fn a_server_whose_clock_was_ahead_has_forgotten_it_soon(store: &dyn Store, set: &dyn Fn(&str)) {
    let mut backend = open(store);
    let [kept, held, renewed] = ["kept", "held", "renewed"].map(|name| claim(name, 1, LEASE));
    refused_until_free(&mut *backend);
    set("+365d");
    wait_for_clock(&mut *backend, YEAR / 2..);
    take(&mut *backend, &kept);
    release(&mut *backend, &kept, HOLD);
    refused(&mut *backend, &claim("kept", 2, MINUTE));
    take(&mut *backend, &held);
    take(&mut *backend, &renewed);
    set("+0");
    wait_for_clock(&mut *backend, ..YEAR / 2);
    // A job that runs goes on, and one that has died blocks no other for longer than it had asked for.
    assert_eq!(renew(&mut *backend, &renewed), StillHeld::Held);
    for name in ["held", "renewed"] {
        let state = refused(&mut *backend, &claim(name, 2, MINUTE));
        assert!(state.left <= LEASE + MINUTE && state.left > LEASE / 2, "{name}: {state:?}");
        let since = state.since.unwrap();
        assert!(since.0.abs_diff(Timestamp::now().0) < 60_000, "{name}: {since} is not now");
    }
    take(&mut *backend, &claim("kept", 2, MINUTE));
    assert_eq!(release(&mut *backend, &held, HOLD), StillHeld::Held);
    let state = refused(&mut *backend, &claim("held", 2, MINUTE));
    assert!(state.left > LEASE && state.left <= HOLD + MINUTE, "{state:?}");
}

/// Waits until the server's clock is ahead of this machine's by as much.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
fn wait_for_clock(backend: &mut dyn Admin, ahead: impl RangeBounds<Duration>) {
    let begun = Instant::now();
    while !ahead.contains(&persist(|| backend.locks(&["none"])).now.since(Timestamp::now())) {
        assert!(begun.elapsed() < WAIT_LIMIT, "the server's clock is not set");
    }
}

/// Checks a store whose Java applications may write the times of their own zone.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis"))]
pub(crate) fn a_time_zone_is_no_clock_that_was_ahead(store: &dyn Store) {
    let mut backend = open(store);
    refused_until_free(&mut *backend);
    assert!(store.java_take("job", "java-host", TERM));
    // The Java application's other hosts judge the lock by these times, and must not find it free.
    store.shift("job", Shift::Later(HOUR * 12));
    let before = stored(store, "job");
    assert!(refused(&mut *backend, &claim("job", 1, MINUTE)).left > HOUR * 12);
    let after = stored(store, "job");
    assert_eq!((after.since, &after.owner), (before.since, &before.owner));
    assert!((after.until - before.until).abs() < 50, "{before:?} {after:?}");
    store.shift("job", Shift::Later(HOUR * 3));
    assert!(refused(&mut *backend, &claim("job", 1, MINUTE)).left <= TERM + MINUTE);
    assert_eq!(stored(store, "job").owner, before.owner);
}

/// Asks for the lock; `None` if another owner holds it.
fn granted(backend: &mut dyn Admin, claim: &Claim) -> Option<()> {
    matches!(persist(|| backend.acquire(claim)).answer, Acquired::Granted(_)).then_some(())
}

/// Plays the table. Among its cases: if the server's clock is set back between acquisition and renewal, the lock still ends no
/// sooner than promised, and no later than that from then on.
pub(crate) fn a_lock_ends_as_promised_whatever_the_server_s_clock_is_set_to(store: &dyn Store) {
    let wrong: Vec<String> = CASES
        .iter()
        .enumerate()
        .filter_map(|(number, case)| {
            let result = CaseRun::new(store, number).carry_out(case);
            result.err().map(|why| format!("{number} {:?}: {why}", case.steps))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}
