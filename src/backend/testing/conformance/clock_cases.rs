//! The table of cases in which the store's clock is set: one for all engines, so that none has rules of its own.
//! Where a store measures time in another way, the table says so.

use std::time::Duration;

pub(crate) const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// For how long a run acquires the lock, and then renews it.
pub(crate) const LEASE: Duration = minutes(10);
pub(crate) const RENEWAL: Duration = minutes(15);
/// For how long the lock stays held from its acquisition on, after the run has ended.
pub(crate) const HOLD: Duration = minutes(30);
/// For how long a person wants the lock.
pub(crate) const TERM: Duration = minutes(20);

/// A correction by which no clock counts as having been ahead.
pub(crate) const SMALL_CORRECTION: Duration = Duration::from_secs(30);
/// Less than a lease.
pub(crate) const LESS_THAN_LEASE: Duration = minutes(4);
/// More than a lease, and less than a hold.
pub(crate) const MORE_THAN_LEASE: Duration = minutes(20);
pub(crate) const HOUR: Duration = minutes(60);
/// The time by which the clock was ahead when the lock was acquired, before it was set right.
pub(crate) const YEAR: Duration = minutes(365 * 24 * 60);

/// The most by which a lease of etcd is longer than asked for: it counts in whole seconds, from when it is granted.
pub(crate) const MAX_LEASE_ROUNDING: Duration = Duration::from_secs(3);

/// Describes a step of a case: a request of the run that holds the lock, or a change of the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// The run acquires the lock; the second time, because the answer was lost.
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
    /// Another run asks for the lock, and is refused.
    AskAsAnother,
    /// The store's clock is set.
    Back(Duration),
    Ahead(Duration),
}

/// Names the answer to the last step that asks for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Granted,
    Refused,
    Kept,
    Lost,
    Gone,
    InUse,
}

/// Describes the answer to another run that asks for the lock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seen {
    Free,
    /// Held by this owner for at least and at most so long.
    Held(Party, Duration, Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Party {
    Run,
    /// The run after its end.
    Ended,
    Pause,
}

pub(crate) type Expected = (Answer, Seen);

/// Describes a case of the table: the steps, and the expectation where a held lock's time is measured by the store's clock, by
/// the clock of the host's boot, and by a lease that the store counts down.
pub(crate) struct Case {
    pub(crate) steps: &'static [Step],
    pub(crate) expected: [Expected; 3],
}

/// Returns a case that is the same for all stores.
pub(crate) const fn all(steps: &'static [Step], told: Answer, seen: Seen) -> Case {
    Case { steps, expected: [(told, seen); 3] }
}

/// Returns a case with the same answer, but other times.
pub(crate) const fn seen(steps: &'static [Step], told: Answer, [clock, boot, lease]: [Seen; 3]) -> Case {
    Case { steps, expected: [(told, clock), (told, boot), (told, lease)] }
}

/// Returns a case in which the lock has ended by the store's clock, and by nothing else.
pub(crate) const fn lost(steps: &'static [Step], told: Answer, [boot, lease]: [Seen; 2]) -> Case {
    Case { steps, expected: [(Answer::Lost, Free), (told, boot), (told, lease)] }
}

pub(crate) const fn held(who: Party, time: Duration) -> Seen {
    Seen::Held(who, time, time)
}

pub(crate) const RUNNING: Seen = held(Run, LEASE);
pub(crate) const RENEWED: Seen = held(Run, RENEWAL);
pub(crate) const EXTENDED: Seen = held(Run, TERM);
pub(crate) const PAUSED: Seen = held(Party::Pause, TERM);
pub(crate) const KEPT: Seen = held(Ended, HOLD);

/// Expects that after a short step back the time from before may go on.
pub(crate) const fn longer(who: Party, time: Duration) -> Seen {
    Seen::Held(who, time, Duration::from_secs(time.as_secs() + SMALL_CORRECTION.as_secs()))
}

pub(crate) const fn shorter(who: Party, time: Duration, by: Duration) -> Seen {
    held(who, Duration::from_secs(time.as_secs() - by.as_secs()))
}

/// Expects a hold that the lease carries: from the acquisition on, by any clock that knows when that was.
pub(crate) const fn hold_with_lease(by: Duration) -> Seen {
    Seen::Held(Ended, Duration::from_secs(HOLD.as_secs() - by.as_secs()), HOLD)
}

use Party::{Ended, Run};
use Seen::Free;
use Step::{Ahead, AskAsAnother, Back, Extend, Forget, Pause, PauseHeld, Release, Renew, Take, Unlock};

pub(crate) const NO_HOLD: Duration = Duration::ZERO;

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
    // Acquiring.
    all(&[Take], Answer::Granted, RUNNING),
    seen(&[Take, Back(SMALL_CORRECTION)], Answer::Granted, [longer(Run, LEASE), RUNNING, RUNNING]),
    all(&[Take, Back(HOUR)], Answer::Granted, RUNNING),
    all(&[Take, Back(YEAR)], Answer::Granted, RUNNING),
    seen(&[Take, Ahead(LESS_THAN_LEASE)], Answer::Granted, [shorter(Run, LEASE, LESS_THAN_LEASE), RUNNING, RUNNING]),
    seen(&[Take, Ahead(MORE_THAN_LEASE)], Answer::Granted, [Free, RUNNING, RUNNING]),
    // Acquiring again.
    all(&[Take, Take], Answer::Granted, RUNNING),
    all(&[Take, Back(SMALL_CORRECTION), Take], Answer::Granted, longer(Run, LEASE)),
    all(&[Take, Back(HOUR), Take], Answer::Granted, RUNNING),
    all(&[Take, Back(YEAR), Take], Answer::Granted, RUNNING),
    all(&[Take, Ahead(LESS_THAN_LEASE), Take], Answer::Granted, RUNNING),
    all(&[Take, Ahead(MORE_THAN_LEASE), Take], Answer::Granted, RUNNING),
    // Renewing.
    all(&[Take, Renew], Answer::Kept, RENEWED),
    all(&[Take, Back(SMALL_CORRECTION), Renew], Answer::Kept, RENEWED),
    all(&[Take, Back(HOUR), Renew], Answer::Kept, RENEWED),
    all(&[Take, Back(YEAR), Renew], Answer::Kept, RENEWED),
    all(&[Take, Ahead(LESS_THAN_LEASE), Renew], Answer::Kept, RENEWED),
    lost(&[Take, Ahead(MORE_THAN_LEASE), Renew], Answer::Kept, [RENEWED, RENEWED]),
    // Releasing without a hold.
    all(&[Take, Release(NO_HOLD)], Answer::Kept, Free),
    all(&[Take, Back(SMALL_CORRECTION), Release(NO_HOLD)], Answer::Kept, Free),
    all(&[Take, Back(HOUR), Release(NO_HOLD)], Answer::Kept, Free),
    all(&[Take, Back(YEAR), Release(NO_HOLD)], Answer::Kept, Free),
    all(&[Take, Ahead(LESS_THAN_LEASE), Release(NO_HOLD)], Answer::Kept, Free),
    lost(&[Take, Ahead(MORE_THAN_LEASE), Release(NO_HOLD)], Answer::Kept, [Free, Free]),
    // Releasing with a hold.
    all(&[Take, Release(HOLD)], Answer::Kept, KEPT),
    all(&[Take, Back(SMALL_CORRECTION), Release(HOLD)], Answer::Kept, KEPT),
    all(&[Take, Back(HOUR), Release(HOLD)], Answer::Kept, KEPT),
    all(&[Take, Back(YEAR), Release(HOLD)], Answer::Kept, KEPT),
    seen(&[Take, Ahead(LESS_THAN_LEASE), Release(HOLD)], Answer::Kept,
        [shorter(Ended, HOLD, LESS_THAN_LEASE), shorter(Ended, HOLD, LESS_THAN_LEASE), hold_with_lease(LESS_THAN_LEASE)]),
    lost(&[Take, Ahead(MORE_THAN_LEASE), Release(HOLD)], Answer::Kept, [shorter(Ended, HOLD, MORE_THAN_LEASE), hold_with_lease(MORE_THAN_LEASE)]),
    // Changing.
    all(&[Take, Extend], Answer::Kept, EXTENDED),
    all(&[Take, Back(SMALL_CORRECTION), Extend], Answer::Kept, EXTENDED),
    all(&[Take, Back(HOUR), Extend], Answer::Kept, EXTENDED),
    all(&[Take, Back(YEAR), Extend], Answer::Kept, EXTENDED),
    all(&[Take, Ahead(LESS_THAN_LEASE), Extend], Answer::Kept, EXTENDED),
    lost(&[Take, Ahead(MORE_THAN_LEASE), Extend], Answer::Kept, [EXTENDED, EXTENDED]),
    all(&[Take, Unlock], Answer::Kept, Free),
    all(&[Take, Back(SMALL_CORRECTION), Unlock], Answer::Kept, Free),
    all(&[Take, Back(HOUR), Unlock], Answer::Kept, Free),
    all(&[Take, Back(YEAR), Unlock], Answer::Kept, Free),
    all(&[Take, Ahead(LESS_THAN_LEASE), Unlock], Answer::Kept, Free),
    lost(&[Take, Ahead(MORE_THAN_LEASE), Unlock], Answer::Kept, [Free, Free]),
    all(&[Take, PauseHeld], Answer::Kept, PAUSED),
    all(&[Take, Back(SMALL_CORRECTION), PauseHeld], Answer::Kept, PAUSED),
    all(&[Take, Back(HOUR), PauseHeld], Answer::Kept, PAUSED),
    all(&[Take, Back(YEAR), PauseHeld], Answer::Kept, PAUSED),
    all(&[Take, Ahead(LESS_THAN_LEASE), PauseHeld], Answer::Kept, PAUSED),
    lost(&[Take, Ahead(MORE_THAN_LEASE), PauseHeld], Answer::Kept, [PAUSED, PAUSED]),
    // Locks that were released with a hold, extended or paused, when the clock is set afterwards. No job runs under the first: if
    // the clock was ahead, it is unknown how much of the hold is left.
    all(&[Take, Release(HOLD), Back(SMALL_CORRECTION)], Answer::Kept, longer(Ended, HOLD)),
    seen(&[Take, Release(HOLD), Back(HOUR)], Answer::Kept, [Free, Free, KEPT]),
    seen(&[Take, Release(HOLD), Back(YEAR)], Answer::Kept, [Free, Free, KEPT]),
    seen(&[Take, Release(HOLD), Ahead(LESS_THAN_LEASE)], Answer::Kept,
        [shorter(Ended, HOLD, LESS_THAN_LEASE), shorter(Ended, HOLD, LESS_THAN_LEASE), hold_with_lease(LESS_THAN_LEASE)]),
    seen(&[Take, Release(HOLD), Ahead(HOUR)], Answer::Kept, [Free, Free, KEPT]),
    seen(&[Take, Extend, Back(SMALL_CORRECTION)], Answer::Kept, [longer(Run, TERM), longer(Run, TERM), EXTENDED]),
    all(&[Take, Extend, Back(HOUR)], Answer::Kept, EXTENDED),
    seen(&[Take, Extend, Ahead(LESS_THAN_LEASE)], Answer::Kept,
        [shorter(Run, TERM, LESS_THAN_LEASE), shorter(Run, TERM, LESS_THAN_LEASE), EXTENDED]),
    seen(&[Pause, Back(SMALL_CORRECTION)], Answer::Granted, [longer(Party::Pause, TERM), longer(Party::Pause, TERM), PAUSED]),
    all(&[Pause, Back(HOUR)], Answer::Granted, PAUSED),
    all(&[Pause, Back(YEAR)], Answer::Granted, PAUSED),
    seen(&[Pause, Ahead(LESS_THAN_LEASE)], Answer::Granted,
        [shorter(Party::Pause, TERM, LESS_THAN_LEASE), shorter(Party::Pause, TERM, LESS_THAN_LEASE), PAUSED]),
    seen(&[Pause, Ahead(HOUR)], Answer::Granted, [Free, Free, PAUSED]),
    all(&[Take, Release(NO_HOLD), Back(HOUR)], Answer::Kept, Free),
    all(&[Take, Unlock, Back(HOUR)], Answer::Kept, Free),
    // A lock that was moved to the present, or written by the present clock, goes by it from then on.
    seen(&[Take, Back(YEAR), AskAsAnother, Ahead(LESS_THAN_LEASE)], Answer::Refused, [shorter(Run, LEASE, LESS_THAN_LEASE), RUNNING, RUNNING]),
    seen(&[Take, Back(YEAR), AskAsAnother, Ahead(MORE_THAN_LEASE)], Answer::Refused, [Free, RUNNING, RUNNING]),
    all(&[Take, Back(HOUR), AskAsAnother, Renew], Answer::Kept, RENEWED),
    all(&[Take, Back(HOUR), AskAsAnother, Release(HOLD)], Answer::Kept, KEPT),
    seen(&[Take, Back(HOUR), Renew, Ahead(LESS_THAN_LEASE)], Answer::Kept, [shorter(Run, RENEWAL, LESS_THAN_LEASE), RENEWED, RENEWED]),
    seen(&[Take, Back(HOUR), Release(HOLD), Ahead(LESS_THAN_LEASE)], Answer::Kept,
        [shorter(Ended, HOLD, LESS_THAN_LEASE), shorter(Ended, HOLD, LESS_THAN_LEASE), hold_with_lease(LESS_THAN_LEASE)]),
    seen(&[Take, Back(HOUR), Extend, Ahead(LESS_THAN_LEASE)], Answer::Kept,
        [shorter(Run, TERM, LESS_THAN_LEASE), shorter(Run, TERM, LESS_THAN_LEASE), EXTENDED]),
    seen(&[Take, Ahead(LESS_THAN_LEASE), Renew, Back(LESS_THAN_LEASE)], Answer::Kept,
        [Seen::Held(Run, RENEWAL, minutes(19)), RENEWED, RENEWED]),
    // Two servers that stand for one, and whose clocks differ: what the one that is behind is asked shortens nothing.
    all(&[Take, Back(LESS_THAN_LEASE), AskAsAnother, Ahead(LESS_THAN_LEASE)], Answer::Refused, RUNNING),
    seen(&[Take, Back(LESS_THAN_LEASE), AskAsAnother], Answer::Refused, [Seen::Held(Run, LEASE, minutes(14)), RUNNING, RUNNING]),
    // Every request that asks whether a lock is held.
    seen(&[Take, Release(HOLD), Back(HOUR), Release(HOLD)], Answer::Kept, [Free, Free, KEPT]),
    Case { steps: &[Take, Release(HOLD), Back(YEAR), Unlock],
           expected: [(Answer::Lost, Free), (Answer::Lost, Free), (Answer::Kept, Free)] },
    Case { steps: &[Take, Release(HOLD), Back(YEAR), Forget],
           expected: [(Answer::Gone, Free), (Answer::Gone, Free), (Answer::InUse, KEPT)] },
    all(&[Take, Back(YEAR), Forget], Answer::InUse, RUNNING),
];
