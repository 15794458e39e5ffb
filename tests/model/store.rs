//! The store: one lock's row and the token, with the three operations that a backend has.
//!
//! Each is one atomic step by the store's own clock, which is the true time of the model. In the program: the trait
//! `Backend` (`src/backend/mod.rs`), whose rules `src/backend/testing/conformance.rs` asks of every backend.

use crate::rules::{AT_LEAST, AT_MOST, EXTENSION, LEASE, Release, Removal, Renewal, Rules, Token};

/// One run's identity.
pub(crate) type Owner = u8;

/// A lock that was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Grant {
    pub(crate) token: u8,
    /// The how manyeth taking it was. Nobody in the protocol knows; the properties do.
    pub(crate) number: u8,
}

/// What a run asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Take,
    Renew {
        lease: u8,
    },
    /// Whose it is, and for how long.
    Look,
    /// To stay held until so long after the acquisition.
    Release {
        hold: u8,
    },
}

/// What the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Granted(Grant),
    Held,
    Kept,
    Lost,
    Ours { left: u8 },
}

/// A lock in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Store {
    /// The row's owner, also after it has expired: only a person who forgets the lock deletes the row.
    owner: Option<Owner>,
    /// The lock was given back and is held for at-least only.
    ended: bool,
    /// How long until `lock_until`; 0 is free.
    pub(crate) left: u8,
    /// How long ago it was taken; counted to at-least.
    age: u8,
    /// The last token.
    token: u8,
    /// How many acquisitions there were.
    acquisitions: u8,
    /// The highest token that was ever granted; like `acquisitions`, only the properties know it.
    highest: u8,
    /// A token was granted that is not larger than all before.
    pub(crate) went_back: bool,
    /// A lock that was free became held by something other than an acquisition.
    pub(crate) revived: bool,
    /// The owners that have given the lock back, a bit for each.
    given_back: u8,
    /// The owners whose runs have ended and owe nothing, a bit for each. Only the properties know it.
    gone: u8,
    /// An acquisition was carried out after it was given back, or after its run had ended and owed nothing.
    pub(crate) taken_late: bool,
    /// Until at-most is used up, or what it was extended to. Only the properties know it.
    pub(crate) allowed: u8,
}

impl Store {
    /// Does what `owner` asks for.
    pub(crate) fn serve(&mut self, rules: Rules, owner: Owner, request: Request) -> Answer {
        match request {
            Request::Take => self.take(rules, owner),
            Request::Renew { lease } => self.renew(rules, owner, lease),
            Request::Look if self.is_held_by(owner) => Answer::Ours { left: self.left },
            Request::Look => Answer::Lost,
            Request::Release { hold } => self.release(rules, owner, hold),
        }
    }

    /// Takes the lock if it is free, or was already taken by the same owner, whose answer may have been lost.
    fn take(&mut self, rules: Rules, owner: Owner) -> Answer {
        if self.left > 0 && (self.owner != Some(owner) || self.ended) {
            return Answer::Held;
        }
        if self.given_back & bit(owner) != 0 {
            if rules.given_up_is_void {
                return Answer::Held;
            }
            self.taken_late = true;
        }
        self.taken_late |= self.gone & bit(owner) != 0;
        self.acquisitions += 1;
        self.token = match rules.token {
            Token::AboveLast => self.token + 1,
            // The time has never stood still since the highest token, which is all that matters of it here.
            Token::AboveLastAndTime => self.token.max(self.highest) + 1,
        };
        self.went_back |= self.token <= self.highest;
        self.highest = self.highest.max(self.token);
        (self.owner, self.ended, self.age) = (Some(owner), false, 0);
        self.left = self.left.max(LEASE);
        self.allowed = AT_MOST;
        Answer::Granted(Grant { token: self.token, number: self.acquisitions })
    }

    /// Renews the lock for `lease` from now, if the owner still has it. It never shortens.
    fn renew(&mut self, rules: Rules, owner: Owner, lease: u8) -> Answer {
        let may = match rules.renewal {
            Renewal::ByOwner => self.is_held_by(owner),
            Renewal::ByAnybody => self.left > 0,
            Renewal::AlsoExpired => self.owner == Some(owner) && !self.ended,
        };
        if !may {
            return Answer::Lost;
        }
        self.revived |= self.left == 0;
        self.left = self.left.max(lease);
        Answer::Kept
    }

    /// Releases the lock if the owner still has it. It stays held until `hold` after its acquisition, marked as ended; the same
    /// release again is answered the same.
    fn release(&mut self, rules: Rules, owner: Owner, hold: u8) -> Answer {
        self.given_back |= bit(owner);
        if self.ended && self.owner == Some(owner) && self.left > 0 {
            return Answer::Kept;
        }
        let may = match rules.release {
            Release::ByOwner => self.is_held_by(owner),
            Release::ByAnybody | Release::DeletesTheRow => self.left > 0,
        };
        if !may {
            return Answer::Lost;
        }
        self.left = hold.saturating_sub(self.age).min(self.left);
        self.ended = self.left > 0;
        if rules.release == Release::DeletesTheRow {
            (self.owner, self.left, self.ended) = (None, 0, false);
        }
        Answer::Kept
    }

    /// Notes that a run has ended, and owes nothing.
    pub(crate) fn on_end(&mut self, owner: Owner) {
        self.gone |= bit(owner);
    }

    /// Frees the lock for a person: `shedlock unlock`, or an UPDATE by hand.
    pub(crate) fn unlock(&mut self) {
        (self.left, self.ended) = (0, false);
    }

    /// Returns whether the row goes when a person wants to forget it, and is there.
    pub(crate) fn may_be_forgotten(&self, rules: Rules) -> bool {
        self.owner.is_some() && (self.left == 0 || rules.removal == Removal::Any)
    }

    /// Removes the row, and the history with the last token. The marks of acquisitions that were undone stay.
    pub(crate) fn forget(&mut self) {
        (self.owner, self.ended, self.left, self.age, self.token) = (None, false, 0, 0, 0);
    }

    /// Extends the lock, for its owner or for a person who has the handle.
    pub(crate) fn extend(&mut self) {
        self.left = self.left.max(EXTENSION);
        self.allowed = self.allowed.max(EXTENSION);
    }

    /// Returns whether an owner has the lock, and it is not only kept.
    pub(crate) fn is_somebodys(&self) -> bool {
        self.owner.is_some_and(|owner| self.is_held_by(owner))
    }

    /// Loses its memory: FLUSHALL, or a restart without a file. What only the properties know stays.
    pub(crate) fn flush(&mut self) {
        let Self { acquisitions, highest, went_back, revived, taken_late, allowed, .. } = *self;
        *self = Self { acquisitions, highest, went_back, revived, taken_late, allowed, ..Self::default() };
    }

    /// Lets a tick of the store's clock pass.
    pub(crate) fn tick(&mut self, rules: Rules) {
        self.left = self.left.saturating_sub(u8::from(rules.expires || self.ended));
        self.age = (self.age + 1).min(AT_LEAST);
        self.allowed = self.allowed.saturating_sub(u8::from(rules.looks));
        if self.left == 0 {
            self.ended = false;
        }
    }

    /// Returns whether no request of this owner's run can change the lock any more, but another acquisition.
    pub(crate) fn has_passed_on(&self, owner: Owner) -> bool {
        self.left == 0 || self.owner != Some(owner)
    }

    /// Returns whether a run of this owner could go on under the lock.
    pub(crate) fn is_held_by(&self, owner: Owner) -> bool {
        self.owner == Some(owner) && self.left > 0 && !self.ended
    }
}

/// Returns the owner's place in a set of them.
fn bit(owner: Owner) -> u8 {
    1 << (owner % 8)
}
