//! The lock as it is stored, and what was promised of it, which only the properties know.

use super::host::Flight;
use super::rules::{Ahead, BOUND, EVERY, Engine, HALF, LEASE, ROUNDING, Rules};
use super::search::Seen;

/// One run's identity.
pub(crate) type Owner = u8;

/// Times are kept as differences from the true time, and those that have long passed are all alike.
pub(crate) const LONG_PAST: i8 = -24;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Take {
        span: u8,
    },
    /// For `lease` from now. What the acquisition was granted reaches so far by this process's own clock: if it was granted as soon
    /// as it was asked for, and if as late as it was answered.
    Renew {
        lease: u8,
        sure: u8,
        granted: u8,
    },
    /// To stay held until `hold` after the acquisition, of which `rest` is left by this process's own clock. Neither: it is given
    /// back.
    Release {
        hold: u8,
        rest: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Granted,
    Held,
    Kept,
    Lost,
}

/// A lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Store {
    pub(crate) owner: Owner,
    /// It was released and is only kept.
    pub(crate) ended: bool,
    /// By the clock that showed it, as a difference from the true time of now.
    pub(crate) since: i8,
    pub(crate) until: i8,
    /// How far from now its end can be: what it was taken for, and after the run what it is kept for.
    pub(crate) reach: u8,
    /// What its lease has left, and what it was granted for. The store deletes a lock whose lease has ended.
    pub(crate) lease: u8,
    pub(crate) granted: u8,
    late: bool,
    pub(crate) promise: Promise,
}

/// What was promised of the lock as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Promise {
    /// How long ago it was taken.
    age: u8,
    /// How much its clock was set back since.
    set_back: u8,
    /// For so long nobody else may be granted it.
    pub(crate) held: u8,
    /// For so long it may be refused, as far as nobody holds it.
    allowed: u8,
    /// Its taking came to lie in the future, and no taking has met it since.
    unmet: bool,
    pub(crate) too_short: bool,
    pub(crate) stuck: bool,
}

impl Store {
    /// Does what the owner of this flight asks for, by a server with this clock.
    pub(crate) fn serve(&mut self, rules: Rules, owner: Owner, flight: Flight, clock: i8, seen: &mut Seen) -> Answer {
        let before = self.clone();
        let answer = match rules.engine {
            Engine::Leased => self.serve_leased(rules, owner, flight.request, clock),
            Engine::Dated => self.serve_dated(rules, owner, flight.request, clock),
        };
        self.note(&before, rules, flight, answer, clock, seen);
        answer
    }

    /// Notes what is promised from now on, and what was and is not kept.
    fn note(&mut self, before: &Self, rules: Rules, flight: Flight, answer: Answer, clock: i8, seen: &mut Seen) {
        let rounding = if rules.engine == Engine::Leased { ROUNDING } else { 0 };
        let mut promise = self.promise.clone();
        match (answer, flight.request) {
            (Answer::Granted, Request::Take { span }) => {
                let is_new = before.owner != self.owner;
                promise.too_short |= is_new && promise.held > 0;
                *seen |= Seen::PASSED_ON.only_if(is_new && before.owner != 0);
                let from_the_future = before.ended && before.until > clock && before.is_ahead(Ahead::ByEndToo, clock);
                *seen |= Seen::FREED_FROM_THE_FUTURE.only_if(from_the_future);
                let at_least = if span > LEASE { span } else { 0 };
                (promise.age, promise.set_back) = (0, 0);
                // An acquisition that is repeated does not shorten.
                promise.unmet = rules.engine == Engine::Dated && self.is_ahead(Ahead::ByEndToo, clock);
                let before = if is_new { 0 } else { promise.allowed };
                (promise.held, promise.allowed) = (at_least, before.max(span + rounding));
            }
            (Answer::Held, _) => {
                if std::mem::take(&mut promise.unmet) {
                    // What the clock has come to meanwhile ends later by no more than the bound.
                    let late = if before.is_ahead(Ahead::ByEndToo, clock) { 0 } else { BOUND.unsigned_abs() };
                    promise.allowed = before.reach + late;
                    if before.since != self.since {
                        // From now on it seems to have been taken now.
                        promise.set_back += promise.age;
                        *seen |= Seen::MOVED;
                    }
                }
                promise.stuck |= promise.allowed == 0;
            }
            (Answer::Kept, Request::Renew { lease, .. }) => {
                // What it was granted before is counted from when that was answered.
                let rest = if promise.held > 0 { promise.held + HALF + flight.age } else { 0 };
                promise.allowed = promise.allowed.max(lease.max(rest) + rounding);
                *seen |= Seen::RENEWED;
            }
            (Answer::Kept, Request::Release { hold, .. }) if !before.ended => {
                promise.held = hold.saturating_sub(promise.age);
                let late = if rounding > 0 { HALF + flight.age } else { promise.set_back };
                let longest = if hold == 0 { 0 } else { (promise.held + late).min(hold) };
                promise.allowed = longest + rounding;
                promise.unmet = false;
                *seen |= Seen::KEPT.only_if(self.ended && promise.held > 0);
            }
            _ => {}
        }
        self.promise = promise;
    }

    /// Takes in that a clock by which the lock goes was set back by so much.
    pub(crate) fn on_set_back(&mut self, by: u8, clock: i8) {
        self.promise.set_back += by;
        self.promise.allowed += by;
        if self.is_ahead(Ahead::ByEndToo, clock) {
            self.promise.unmet = true;
            if self.ended {
                self.promise.held = 0;
            }
        }
    }

    /// Takes in that another server leads: every lease begins anew.
    pub(crate) fn on_leader(&mut self) {
        if self.lease > 0 {
            self.lease = self.granted;
            self.promise.allowed = self.promise.allowed.max(self.granted + ROUNDING);
        }
    }

    /// Returns whether the lock's lease, which is over with the next tick, may end a tick later.
    pub(crate) fn may_be_late(&self) -> bool {
        self.lease == 1 && !self.late
    }

    /// Lets a tick of the true time pass. A lease that is late is not over with it.
    pub(crate) fn tick(&mut self, rules: Rules, late: bool) {
        self.late |= late;
        self.since = (self.since - 1).max(LONG_PAST);
        self.until = (self.until - 1).max(LONG_PAST);
        self.lease = self.lease.saturating_sub(u8::from(!late));
        if rules.engine == Engine::Leased && self.lease == 0 {
            self.delete();
        }
        let Promise { age, held, allowed, .. } = &mut self.promise;
        (*age, *held, *allowed) = ((*age + 1).min(EVERY), held.saturating_sub(1), allowed.saturating_sub(1));
    }

    /// Binds it to a new lease.
    pub(super) fn bind(&mut self, lease: u8) {
        (self.lease, self.granted, self.late) = (lease, lease, false);
    }

    /// Its key goes. Whose it was only the properties know.
    pub(super) fn delete(&mut self) {
        (self.ended, self.since, self.until, self.reach) = (true, LONG_PAST, LONG_PAST, 0);
        self.bind(0);
    }

    /// Returns whether the lock comes from a clock that was ahead of this one.
    pub(super) fn is_ahead(&self, ahead: Ahead, clock: i8) -> bool {
        let ends_late = self.until > clock + self.reach.cast_signed() + BOUND;
        self.since > clock + BOUND || ahead == Ahead::ByEndToo && ends_late
    }
}
