//! A store that compares the end of a lock, which is stored, with the clock of the server that is asked.
//!
//! In the program: the statements of PostgreSQL, MySQL and SQLite, Redis's scripts, and `src/backend/record/engine/record.rs`.

use super::rules::{Future, Rules};
use super::store::{Answer, Owner, Request, Store};

impl Store {
    pub(super) fn serve_dated(&mut self, rules: Rules, owner: Owner, request: Request, clock: i8) -> Answer {
        let is_held = self.owner != 0 && self.until > clock;
        let is_held_by_it = is_held && self.owner == owner && !self.ended;
        match request {
            Request::Take { span } => {
                if is_held && !is_held_by_it && !self.is_free_although(rules, clock) {
                    return Answer::Held;
                }
                let until = clock + span.cast_signed();
                let until = if is_held_by_it { self.until.max(until) } else { until };
                (self.owner, self.ended, self.reach) = (owner, false, span);
                (self.since, self.until) = (clock, until);
                Answer::Granted
            }
            Request::Renew { .. } | Request::Release { .. } if is_held && self.owner == owner && self.ended => {
                Answer::Kept
            }
            Request::Renew { .. } | Request::Release { .. } if !is_held_by_it => Answer::Lost,
            Request::Renew { lease, .. } => {
                self.until = self.until.max(clock + lease.cast_signed());
                Answer::Kept
            }
            Request::Release { hold, .. } => {
                let since = if rules.clamped { self.since.min(clock) } else { self.since };
                let until = since + hold.cast_signed();
                (self.ended, self.reach) = (true, hold);
                (self.since, self.until) = (since, if hold > 0 { until.max(clock) } else { clock });
                Answer::Kept
            }
        }
    }

    /// Returns whether a lock that another owner holds or keeps is free all the same, because it comes from a clock that was
    /// ahead. A held one is moved to the present.
    fn is_free_although(&mut self, rules: Rules, clock: i8) -> bool {
        if !self.is_ahead(rules.ahead, clock) {
            return false;
        }
        match rules.future {
            Future::Stays => false,
            Future::FreeOrMoved if !self.ended => {
                (self.since, self.until) = (clock, clock + self.reach.cast_signed());
                false
            }
            Future::FreeOrMoved | Future::Free => true,
        }
    }
}
