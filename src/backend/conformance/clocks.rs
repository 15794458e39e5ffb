//! What becomes of a lock when the store's clock is set: one table of cases for all engines, so that none has rules of its
//! own. Where a store measures time in another way, the table says so.

#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
use std::ops::RangeBounds;
use std::time::{Duration, Instant};

use super::{MINUTE, SUCCESS, claim, open, operate, persist};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
use super::{PATIENCE, release, renew, take};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis"))]
use super::{refused, refused_until_free, stored};
use crate::backend::{Acquired, Admin, Forgotten, Kept};
use crate::lock::{Change, Claim, LockState, Owner, Purpose, Removal};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
use crate::system::Timestamp;
use servers::stores::{Measure, Shift, Store};

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// For how long a run takes the lock, and then renews it.
const LEASE: Duration = minutes(10);
const RENEWAL: Duration = minutes(15);
/// For how long the lock stays held from its taking on, after the run has ended.
const HOLD: Duration = minutes(30);
/// For how long a person wants it.
const TERM: Duration = minutes(20);

/// A correction by which no clock counts as having been ahead.
const MOMENT: Duration = Duration::from_secs(30);
/// Less than a lease.
const LITTLE: Duration = minutes(4);
/// More than a lease, and less than a hold.
const MUCH: Duration = minutes(20);
const HOUR: Duration = minutes(60);
/// By which the clock was ahead when the lock was taken, and set right afterwards.
const YEAR: Duration = minutes(365 * 24 * 60);

/// The most by which a lease of etcd is longer than asked for: it counts in whole seconds, from when it is granted.
const ROUNDED: Duration = Duration::from_secs(3);

/// A step of a case: a request of the run that holds the lock, or a change of the clock.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The run takes it; the second time, because the answer was lost.
    Take,
    Renew,
    /// The run has ended.
    Release(Duration),
    /// A person pauses the free lock for [`TERM`].
    Pause,
    /// A person changes the end of the lock to [`TERM`] from now, its owner to a pause for as long, or frees it.
    Extend,
    PauseHeld,
    Unlock,
    Forget,
    /// Another run asks for it, and is refused.
    Meet,
    /// The store's clock is set.
    Back(Duration),
    Ahead(Duration),
}

/// The answer to the last step that asks for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Granted,
    Refused,
    Kept,
    Lost,
    Gone,
    InUse,
}

/// The answer to another run that asks for the lock.
#[derive(Debug, Clone, Copy)]
enum Met {
    Free,
    /// Held by this owner for at least and at most so long.
    Held(Who, Duration, Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Run,
    /// The run after its end.
    Ended,
    Pause,
}

type Expected = (Told, Met);

/// A case of the table: the steps, and the expectation where a held lock's time is measured by the store's clock, by the clock of
/// the host's boot, and by a lease that the store counts down.
struct Case {
    steps: &'static [Step],
    expected: [Expected; 3],
}

/// A case that is the same for all.
const fn all(steps: &'static [Step], told: Told, met: Met) -> Case {
    Case { steps, expected: [(told, met); 3] }
}

/// A case with the same answer, but other times.
const fn met(steps: &'static [Step], told: Told, [clock, boot, lease]: [Met; 3]) -> Case {
    Case { steps, expected: [(told, clock), (told, boot), (told, lease)] }
}

/// A case in which the lock has ended by the store's clock, and by nothing else.
const fn lost(steps: &'static [Step], told: Told, [boot, lease]: [Met; 2]) -> Case {
    Case { steps, expected: [(Told::Lost, Free), (told, boot), (told, lease)] }
}

const fn held(who: Who, time: Duration) -> Met {
    Met::Held(who, time, time)
}

const RUNNING: Met = held(Run, LEASE);
const RENEWED: Met = held(Run, RENEWAL);
const EXTENDED: Met = held(Run, TERM);
const PAUSED: Met = held(Who::Pause, TERM);
const KEPT: Met = held(Ended, HOLD);

/// After a short step back, the time from before may go on.
const fn longer(who: Who, time: Duration) -> Met {
    Met::Held(who, time, Duration::from_secs(time.as_secs() + MOMENT.as_secs()))
}

const fn shorter(who: Who, time: Duration, by: Duration) -> Met {
    held(who, Duration::from_secs(time.as_secs() - by.as_secs()))
}

/// A hold that the lease carries: from the taking on, by any clock that knows when that was.
const fn carried(by: Duration) -> Met {
    Met::Held(Ended, Duration::from_secs(HOLD.as_secs() - by.as_secs()), HOLD)
}

use Met::Free;
use Step::{Ahead, Back, Extend, Forget, Meet, Pause, PauseHeld, Release, Renew, Take, Unlock};
use Who::{Ended, Run};

const NO_HOLD: Duration = Duration::ZERO;

#[rustfmt::skip]
const CASES: &[Case] = &[
    // Taking.
    all(&[Take], Told::Granted, RUNNING),
    met(&[Take, Back(MOMENT)], Told::Granted, [longer(Run, LEASE), RUNNING, RUNNING]),
    all(&[Take, Back(HOUR)], Told::Granted, RUNNING),
    all(&[Take, Back(YEAR)], Told::Granted, RUNNING),
    met(&[Take, Ahead(LITTLE)], Told::Granted, [shorter(Run, LEASE, LITTLE), RUNNING, RUNNING]),
    met(&[Take, Ahead(MUCH)], Told::Granted, [Free, RUNNING, RUNNING]),
    // Taking again.
    all(&[Take, Take], Told::Granted, RUNNING),
    all(&[Take, Back(MOMENT), Take], Told::Granted, longer(Run, LEASE)),
    all(&[Take, Back(HOUR), Take], Told::Granted, RUNNING),
    all(&[Take, Back(YEAR), Take], Told::Granted, RUNNING),
    all(&[Take, Ahead(LITTLE), Take], Told::Granted, RUNNING),
    all(&[Take, Ahead(MUCH), Take], Told::Granted, RUNNING),
    // Renewing.
    all(&[Take, Renew], Told::Kept, RENEWED),
    all(&[Take, Back(MOMENT), Renew], Told::Kept, RENEWED),
    all(&[Take, Back(HOUR), Renew], Told::Kept, RENEWED),
    all(&[Take, Back(YEAR), Renew], Told::Kept, RENEWED),
    all(&[Take, Ahead(LITTLE), Renew], Told::Kept, RENEWED),
    lost(&[Take, Ahead(MUCH), Renew], Told::Kept, [RENEWED, RENEWED]),
    // Releasing without a hold.
    all(&[Take, Release(NO_HOLD)], Told::Kept, Free),
    all(&[Take, Back(MOMENT), Release(NO_HOLD)], Told::Kept, Free),
    all(&[Take, Back(HOUR), Release(NO_HOLD)], Told::Kept, Free),
    all(&[Take, Back(YEAR), Release(NO_HOLD)], Told::Kept, Free),
    all(&[Take, Ahead(LITTLE), Release(NO_HOLD)], Told::Kept, Free),
    lost(&[Take, Ahead(MUCH), Release(NO_HOLD)], Told::Kept, [Free, Free]),
    // Releasing with a hold.
    all(&[Take, Release(HOLD)], Told::Kept, KEPT),
    all(&[Take, Back(MOMENT), Release(HOLD)], Told::Kept, KEPT),
    all(&[Take, Back(HOUR), Release(HOLD)], Told::Kept, KEPT),
    all(&[Take, Back(YEAR), Release(HOLD)], Told::Kept, KEPT),
    met(&[Take, Ahead(LITTLE), Release(HOLD)], Told::Kept,
        [shorter(Ended, HOLD, LITTLE), shorter(Ended, HOLD, LITTLE), carried(LITTLE)]),
    lost(&[Take, Ahead(MUCH), Release(HOLD)], Told::Kept, [shorter(Ended, HOLD, MUCH), carried(MUCH)]),
    // Changing.
    all(&[Take, Extend], Told::Kept, EXTENDED),
    all(&[Take, Back(MOMENT), Extend], Told::Kept, EXTENDED),
    all(&[Take, Back(HOUR), Extend], Told::Kept, EXTENDED),
    all(&[Take, Back(YEAR), Extend], Told::Kept, EXTENDED),
    all(&[Take, Ahead(LITTLE), Extend], Told::Kept, EXTENDED),
    lost(&[Take, Ahead(MUCH), Extend], Told::Kept, [EXTENDED, EXTENDED]),
    all(&[Take, Unlock], Told::Kept, Free),
    all(&[Take, Back(MOMENT), Unlock], Told::Kept, Free),
    all(&[Take, Back(HOUR), Unlock], Told::Kept, Free),
    all(&[Take, Back(YEAR), Unlock], Told::Kept, Free),
    all(&[Take, Ahead(LITTLE), Unlock], Told::Kept, Free),
    lost(&[Take, Ahead(MUCH), Unlock], Told::Kept, [Free, Free]),
    all(&[Take, PauseHeld], Told::Kept, PAUSED),
    all(&[Take, Back(MOMENT), PauseHeld], Told::Kept, PAUSED),
    all(&[Take, Back(HOUR), PauseHeld], Told::Kept, PAUSED),
    all(&[Take, Back(YEAR), PauseHeld], Told::Kept, PAUSED),
    all(&[Take, Ahead(LITTLE), PauseHeld], Told::Kept, PAUSED),
    lost(&[Take, Ahead(MUCH), PauseHeld], Told::Kept, [PAUSED, PAUSED]),
    // What was released with a hold, extended or paused, when the clock is set afterwards. No job runs under the first: if
    // the clock was ahead, nobody knows how much of the hold is left.
    all(&[Take, Release(HOLD), Back(MOMENT)], Told::Kept, longer(Ended, HOLD)),
    met(&[Take, Release(HOLD), Back(HOUR)], Told::Kept, [Free, Free, KEPT]),
    met(&[Take, Release(HOLD), Back(YEAR)], Told::Kept, [Free, Free, KEPT]),
    met(&[Take, Release(HOLD), Ahead(LITTLE)], Told::Kept,
        [shorter(Ended, HOLD, LITTLE), shorter(Ended, HOLD, LITTLE), carried(LITTLE)]),
    met(&[Take, Release(HOLD), Ahead(HOUR)], Told::Kept, [Free, Free, KEPT]),
    met(&[Take, Extend, Back(MOMENT)], Told::Kept, [longer(Run, TERM), longer(Run, TERM), EXTENDED]),
    all(&[Take, Extend, Back(HOUR)], Told::Kept, EXTENDED),
    met(&[Take, Extend, Ahead(LITTLE)], Told::Kept,
        [shorter(Run, TERM, LITTLE), shorter(Run, TERM, LITTLE), EXTENDED]),
    met(&[Pause, Back(MOMENT)], Told::Granted, [longer(Who::Pause, TERM), longer(Who::Pause, TERM), PAUSED]),
    all(&[Pause, Back(HOUR)], Told::Granted, PAUSED),
    all(&[Pause, Back(YEAR)], Told::Granted, PAUSED),
    met(&[Pause, Ahead(LITTLE)], Told::Granted,
        [shorter(Who::Pause, TERM, LITTLE), shorter(Who::Pause, TERM, LITTLE), PAUSED]),
    met(&[Pause, Ahead(HOUR)], Told::Granted, [Free, Free, PAUSED]),
    all(&[Take, Release(NO_HOLD), Back(HOUR)], Told::Kept, Free),
    all(&[Take, Unlock, Back(HOUR)], Told::Kept, Free),
    // A lock that was moved to the present, or written by the present clock, goes by it from then on.
    met(&[Take, Back(YEAR), Meet, Ahead(LITTLE)], Told::Refused, [shorter(Run, LEASE, LITTLE), RUNNING, RUNNING]),
    met(&[Take, Back(YEAR), Meet, Ahead(MUCH)], Told::Refused, [Free, RUNNING, RUNNING]),
    all(&[Take, Back(HOUR), Meet, Renew], Told::Kept, RENEWED),
    all(&[Take, Back(HOUR), Meet, Release(HOLD)], Told::Kept, KEPT),
    met(&[Take, Back(HOUR), Renew, Ahead(LITTLE)], Told::Kept, [shorter(Run, RENEWAL, LITTLE), RENEWED, RENEWED]),
    met(&[Take, Back(HOUR), Release(HOLD), Ahead(LITTLE)], Told::Kept,
        [shorter(Ended, HOLD, LITTLE), shorter(Ended, HOLD, LITTLE), carried(LITTLE)]),
    met(&[Take, Back(HOUR), Extend, Ahead(LITTLE)], Told::Kept,
        [shorter(Run, TERM, LITTLE), shorter(Run, TERM, LITTLE), EXTENDED]),
    met(&[Take, Ahead(LITTLE), Renew, Back(LITTLE)], Told::Kept,
        [Met::Held(Run, RENEWAL, minutes(19)), RENEWED, RENEWED]),
    // Two servers that stand for one, and whose clocks differ: what the one that is behind is asked shortens nothing.
    all(&[Take, Back(LITTLE), Meet, Ahead(LITTLE)], Told::Refused, RUNNING),
    met(&[Take, Back(LITTLE), Meet], Told::Refused, [Met::Held(Run, LEASE, minutes(14)), RUNNING, RUNNING]),
    // Whatever asks whether a lock is held.
    met(&[Take, Release(HOLD), Back(HOUR), Release(HOLD)], Told::Kept, [Free, Free, KEPT]),
    Case { steps: &[Take, Release(HOLD), Back(YEAR), Unlock],
           expected: [(Told::Lost, Free), (Told::Lost, Free), (Told::Kept, Free)] },
    Case { steps: &[Take, Release(HOLD), Back(YEAR), Forget],
           expected: [(Told::Gone, Free), (Told::Gone, Free), (Told::InUse, KEPT)] },
    all(&[Take, Back(YEAR), Forget], Told::InUse, RUNNING),
];

/// The parties of one case: a run, a person, and another run.
struct Scene<'a> {
    store: &'a dyn Store,
    run: Box<dyn Admin>,
    others: Box<dyn Admin>,
    claim: Claim,
    pause: Claim,
    other: Claim,
}

impl<'a> Scene<'a> {
    fn new(store: &'a dyn Store, number: usize) -> Self {
        let name = format!("case-{number}");
        let owner = Owner::of_pause("ada", "web1", 3, None, "the disk");
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

    fn owner(&self, who: Who) -> String {
        match who {
            Run => self.claim.owner.as_str().to_owned(),
            Ended => self.claim.owner.ended(),
            Who::Pause => self.pause.owner.as_str().to_owned(),
        }
    }

    /// Returns the lock as it is listed.
    fn listed(&self) -> Option<LockState> {
        operate::list(self.store, &[self.name()]).locks.into_iter().next().map(|lock| lock.state)
    }

    /// Does a step, and returns the answer.
    fn step(&mut self, step: Step) -> Option<Told> {
        let kept = |kept: Kept| if kept == Kept::Kept { Told::Kept } else { Told::Lost };
        Some(match step {
            Take => granted(&mut *self.run, &self.claim).map_or(Told::Refused, |()| Told::Granted),
            Pause => granted(&mut *self.others, &self.pause).map_or(Told::Refused, |()| Told::Granted),
            Meet => granted(&mut *self.others, &self.other).map_or(Told::Refused, |()| Told::Granted),
            Renew => kept(persist(|| self.run.renew(&Claim { lease: RENEWAL, ..self.claim.clone() })).answer),
            Release(hold) => kept(persist(|| self.run.release(&self.claim, hold, SUCCESS)).answer),
            Extend => kept(self.change(&self.owner(Run), TERM)),
            PauseHeld => kept(self.change(&self.owner(Who::Pause), TERM)),
            Unlock => kept(self.change(&self.owner(Ended), Duration::ZERO)),
            Forget => {
                let seen = self.listed().map(|state| state.owner).unwrap_or_default();
                let removal = Removal { name: self.claim.name.clone(), seen };
                match persist(|| self.others.forget(&removal)) {
                    Forgotten::Gone { .. } => Told::Gone,
                    Forgotten::InUse => Told::InUse,
                }
            }
            Back(by) => return self.shift(Shift::Later(by)),
            Ahead(by) => return self.shift(Shift::Earlier(by)),
        })
    }

    fn change(&mut self, to: &str, left: Duration) -> Kept {
        let from = self.listed().map(|state| state.owner).unwrap_or_default();
        let change = Change { name: self.claim.name.clone(), from, to: to.to_owned(), left };
        persist(|| self.others.change(&change))
    }

    /// Sets the store's clock, which is the same as to move the times that it has, if it has any.
    fn shift(&self, by: Shift) -> Option<Told> {
        if self.listed().is_some_and(|state| state.since.is_some()) {
            self.store.shift(self.name(), by);
        }
        None
    }

    /// Does all steps, and returns what is wrong.
    fn play(&mut self, case: &Case) -> Result<(), String> {
        let (told, met) = case.expected[self.store.measure() as usize];
        let begun = Instant::now();
        let answer = case.steps.iter().filter_map(|step| self.step(*step)).last();
        if answer != Some(told) {
            return Err(format!("the answer is {answer:?}, and not {told:?}"));
        }
        let listed = self.listed().filter(|state| !state.left.is_zero()).map(|state| state.owner);
        let asked = persist(|| self.others.acquire(&self.other)).answer;
        let (who, least, most) = match met {
            Free if listed.is_some() => return Err(format!("it is listed as held by {listed:?}")),
            Free if matches!(asked, Acquired::Granted(_)) => return Ok(()),
            Free => return Err(format!("it is not free: {asked:?}")),
            Met::Held(who, least, most) => (self.owner(who), least, most),
        };
        if listed.as_ref() != Some(&who) {
            return Err(format!("it is listed as held by {listed:?}, and not by {who}"));
        }
        let Acquired::Held(state) = asked else { return Err("another run got it".to_owned()) };
        let left = self.store.left(self.name()).unwrap_or(state.left);
        let (passed, grain) = (begun.elapsed(), self.store.grain());
        let unseen = grain + if self.store.measure() == Measure::Lease { ROUNDED } else { Duration::from_millis(1) };
        if state.owner != who || left + passed + unseen < least || left > most + passed + grain + unseen {
            return Err(format!("it is not held by {who} for {least:?} to {most:?}, but for {left:?}: {state:?}"));
        }
        Ok(())
    }
}

/// On a server whose clock `set` moves, by as much from the right time: what [`CASES`] plays by moving the stored times.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
pub(in crate::backend) fn a_server_whose_clock_was_ahead_has_forgotten_it_soon(store: &dyn Store, set: &dyn Fn(&str)) {
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
    // A job that runs goes on, and one that has died is in nobody's way for longer than it had asked for.
    assert_eq!(renew(&mut *backend, &renewed), Kept::Kept);
    for name in ["held", "renewed"] {
        let state = refused(&mut *backend, &claim(name, 2, MINUTE));
        assert!(state.left <= LEASE + MINUTE && state.left > LEASE / 2, "{name}: {state:?}");
        let since = state.since.unwrap();
        assert!(since.0.abs_diff(Timestamp::now().0) < 60_000, "{name}: {since} is not now");
    }
    take(&mut *backend, &claim("kept", 2, MINUTE));
    assert_eq!(release(&mut *backend, &held, HOLD), Kept::Kept);
    let state = refused(&mut *backend, &claim("held", 2, MINUTE));
    assert!(state.left > LEASE && state.left <= HOLD + MINUTE, "{state:?}");
}

/// Waits until the server's clock is ahead of this machine's by as much.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
fn wait_for_clock(backend: &mut dyn Admin, ahead: impl RangeBounds<Duration>) {
    let begun = Instant::now();
    while !ahead.contains(&persist(|| backend.locks(&["none"])).now.since(Timestamp::now())) {
        assert!(begun.elapsed() < PATIENCE, "the server's clock is not set");
    }
}

/// For a store of the Java library's whose applications may write the times of their own zone.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql", feature = "redis"))]
pub(in crate::backend) fn a_time_zone_is_no_clock_that_was_ahead(store: &dyn Store) {
    let mut backend = open(store);
    refused_until_free(&mut *backend);
    assert!(store.java_take("job", "java-host", TERM));
    // Its other hosts judge the lock by these times, and must not find it free.
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

/// The table. Among its cases: if the server's clock is set back between taking and renewing, the lock still ends no sooner
/// than promised, and no later than that from then on.
pub(in crate::backend) fn a_lock_ends_as_promised_whatever_the_server_s_clock_is_set_to(store: &dyn Store) {
    let wrong: Vec<String> = CASES
        .iter()
        .enumerate()
        .filter_map(|(number, case)| {
            let result = Scene::new(store, number).play(case);
            result.err().map(|why| format!("{number} {:?}: {why}", case.steps))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}
