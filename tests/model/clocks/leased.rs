//! A store whose own lease makes a lock end, as etcd's: it counts, and is one for all servers. The times that are stored are
//! for showing.
//!
//! In the program: `src/backend/etcd/`, where a lease is granted and the key bound to it in two requests.

use super::rules::{Hold, Renewal, Rules};
use super::store::{Answer, Owner, Request, Store};

impl Store {
    pub(super) fn serve_leased(&mut self, rules: Rules, owner: Owner, request: Request, clock: i8) -> Answer {
        let exists = self.lease > 0;
        let is_held_by_it = exists && self.owner == owner && !self.ended;
        match request {
            Request::Take { span } => {
                let is_over = self.ended && rules.hold == Hold::ShownTime && self.until <= clock;
                if exists && !is_held_by_it && !is_over {
                    return Answer::Held;
                }
                (self.owner, self.ended, self.reach) = (owner, false, span);
                self.show(rules, clock, clock + span.cast_signed());
                self.bind(span);
                Answer::Granted
            }
            Request::Renew { .. } | Request::Release { .. } if exists && self.owner == owner && self.ended => {
                Answer::Kept
            }
            Request::Renew { .. } | Request::Release { .. } if !is_held_by_it => Answer::Lost,
            Request::Renew { lease, sure, granted } => {
                let until = clock + lease.cast_signed();
                let lease = match rules.renewal {
                    Renewal::ByBootClock => lease.max(granted),
                    Renewal::ByShownTime if self.until >= until => return Answer::Kept,
                    Renewal::IfNotSure if sure >= lease => return Answer::Kept,
                    Renewal::ByShownTime | Renewal::IfNotSure | Renewal::Shortens => lease,
                };
                self.show(rules, self.since, until);
                self.bind(lease);
                Answer::Kept
            }
            Request::Release { hold, rest } => {
                let (since, rest) = if rules.hold == Hold::ShownTime {
                    let since = self.since.min(clock);
                    (since, u8::try_from(since + hold.cast_signed() - clock).unwrap_or(0))
                } else {
                    (self.since, rest)
                };
                if hold == 0 || rest == 0 {
                    self.delete();
                } else {
                    self.ended = true;
                    self.show(rules, since, clock + rest.cast_signed());
                    self.bind(rest);
                }
                Answer::Kept
            }
        }
    }

    fn show(&mut self, rules: Rules, since: i8, until: i8) {
        if rules.looks_at_times() {
            (self.since, self.until) = (since, until);
        }
    }
}
