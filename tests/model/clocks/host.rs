//! A host with its run. It counts by a clock of its own, which is exact.

use super::rules::{AT_MOST, EVERY, HALF, Hold, LEASE, PATIENCE, RENEW_WITH, Rules, Terms};
use super::store::{Answer, Owner, Request};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Host {
    /// Which run it is or was the last, of all; 0 before the first.
    pub(crate) owner: Owner,
    pub(crate) phase: Phase,
    pub(crate) flight: Option<Flight>,
    /// Until the lease ends, counted from before it was asked for.
    pub(crate) left: u8,
    at_most: u8,
    /// Since the acquisition was asked for.
    asked: u8,
    /// Since its answer came.
    answered: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// It wants the lock.
    Asking,
    /// The lock is held; it is asked for again in the next tick.
    Waiting,
    Running,
    /// The release is tried for so long.
    Releasing {
        left: u8,
        hold: bool,
    },
}

/// A request, and then its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) request: Request,
    pub(crate) age: u8,
    /// It may take longer than this tick.
    pub(crate) slow: bool,
    pub(crate) answer: Option<Answer>,
}

impl Host {
    pub(crate) fn start(&mut self, owner: Owner, terms: Terms) {
        *self = Self { owner, phase: Phase::Asking, ..Self::default() };
        self.send(Request::Take { span: terms.span() });
    }

    pub(crate) fn has_job(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Returns whether something has to happen here before time goes on.
    pub(crate) fn is_busy(&self) -> bool {
        self.flight.is_some_and(|flight| !flight.slow || flight.age >= PATIENCE)
    }

    fn send(&mut self, request: Request) {
        self.flight = Some(Flight { request, age: 0, slow: false, answer: None });
    }

    pub(crate) fn on_answer(&mut self, rules: Rules, terms: Terms) {
        let Some(Flight { request, age, answer: Some(answer), .. }) = self.flight.take() else { return };
        match (answer, request) {
            (Answer::Granted, _) if age > HALF => self.phase = Phase::Releasing { left: PATIENCE, hold: false },
            (Answer::Granted, _) => {
                self.phase = Phase::Running;
                (self.left, self.at_most) = (LEASE - age, AT_MOST - age);
                (self.asked, self.answered) = (age, 0);
            }
            (Answer::Held, _) => self.phase = Phase::Waiting,
            (Answer::Kept, Request::Renew { lease, .. }) => self.left = self.left.max(lease.saturating_sub(age)),
            (Answer::Lost, Request::Renew { .. }) => self.exit(),
            (Answer::Kept | Answer::Lost, _) => self.exit(),
        }
        self.react(rules, terms);
    }

    /// Takes in that no answer came, and none will.
    pub(crate) fn on_trouble(&mut self, rules: Rules, terms: Terms) {
        if let Some(Flight { request: Request::Take { .. }, .. }) = self.flight.take() {
            self.phase = Phase::Waiting;
        }
        self.react(rules, terms);
    }

    pub(crate) fn end_job(&mut self, rules: Rules, terms: Terms) {
        self.phase = Phase::Releasing { left: PATIENCE, hold: true };
        self.flight = None;
        self.react(rules, terms);
    }

    pub(crate) fn tick(&mut self, rules: Rules, terms: Terms) {
        self.left = self.left.saturating_sub(1);
        self.at_most = self.at_most.saturating_sub(1);
        if let Some(flight) = &mut self.flight {
            flight.age += 1;
        }
        match &mut self.phase {
            Phase::Idle => return,
            Phase::Waiting => self.phase = Phase::Asking,
            Phase::Asking => {}
            Phase::Releasing { left: 0, .. } => return self.exit(),
            Phase::Releasing { left, .. } => *left -= 1,
            Phase::Running => {}
        }
        if matches!(self.phase, Phase::Running | Phase::Releasing { .. }) {
            (self.asked, self.answered) = ((self.asked + 1).min(EVERY), (self.answered + 1).min(EVERY));
        }
        if self.has_job() && self.left.min(self.at_most) == 0 {
            return self.end_job(rules, terms);
        }
        self.react(rules, terms);
    }

    /// Sends what is due.
    fn react(&mut self, rules: Rules, terms: Terms) {
        if self.flight.is_some() {
            return;
        }
        match self.phase {
            Phase::Asking => self.send(Request::Take { span: terms.span() }),
            Phase::Running if self.left <= RENEW_WITH && self.left < self.at_most => {
                let lease = LEASE.min(self.at_most);
                let [sure, granted] = [self.asked, self.answered].map(|since| terms.span().saturating_sub(since));
                self.send(Request::Renew { lease, sure, granted });
            }
            Phase::Releasing { hold: false, .. } => self.send(Request::Release { hold: 0, rest: 0 }),
            Phase::Releasing { hold: true, .. } => {
                let since = if rules.hold == Hold::LeaseSinceAsked { self.asked } else { self.answered };
                let hold = terms.hold();
                self.send(Request::Release { hold, rest: hold.saturating_sub(since) });
            }
            Phase::Idle | Phase::Waiting | Phase::Running => {}
        }
    }

    fn exit(&mut self) {
        *self = Self { owner: self.owner, ..Self::default() };
    }
}
