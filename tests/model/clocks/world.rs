//! Two hosts, two servers of one store with their clocks, and everything that can happen next.

use super::host::{Flight, Host, Phase};
use super::rules::{Engine, Faults, Setting};
use super::search::{Question, Seen};
use super::store::Store;

pub(crate) const HOSTS: usize = 2;
pub(crate) const SERVERS: usize = 2;

/// What must never be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Property {
    /// Two jobs run at once.
    TwoAtOnce,
    /// Two jobs run at once for more ticks than the clocks of two servers differ by.
    TwoForLong,
    /// Another was granted a lock that was promised to stay held.
    HeldTooShort,
    /// Somebody was refused a lock whose time was up.
    Stuck,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) hosts: [Host; HOSTS],
    /// What the servers' clocks show, as a difference from the true time.
    pub(crate) clocks: [i8; SERVERS],
    firings: u8,
    runs: u8,
    faults: Faults,
    /// For how many ticks two jobs have run at once.
    overlap: u8,
}

/// The number is the host's, the second one the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// The true time goes on. The store's lease may be late to end.
    Tick {
        late: bool,
    },
    Fire(usize),
    /// A server carries out what was asked; the answer arrives at once if nothing is slow.
    Serve(usize, usize),
    Arrive(usize),
    Delay(usize),
    /// No answer comes. What was not carried out by then is lost.
    TimeOut(usize),
    EndJob(usize),
    Crash(usize),
    /// Another server leads.
    Leader,
    /// A server's clock is set.
    SetClock(usize, i8),
}

impl World {
    pub(crate) fn new(question: &Question) -> Self {
        Self {
            store: Store::default(),
            hosts: Default::default(),
            clocks: question.clocks.first,
            firings: question.firings,
            runs: 0,
            faults: question.faults,
            overlap: 0,
        }
    }

    pub(crate) fn violated(&self, question: &Question) -> impl Iterator<Item = Property> {
        [
            (Property::TwoAtOnce, self.jobs() > 1),
            (Property::TwoForLong, self.overlap > question.clocks.difference()),
            (Property::HeldTooShort, self.store.promise.too_short),
            (Property::Stuck, self.store.promise.stuck),
        ]
        .into_iter()
        .filter_map(|(property, wrong)| wrong.then_some(property))
    }

    fn jobs(&self) -> usize {
        self.hosts.iter().filter(|host| host.has_job()).count()
    }

    /// Returns everything that can happen next.
    pub(crate) fn actions(&self, question: &Question) -> Vec<Action> {
        let mut all = Vec::with_capacity(16);
        for (n, host) in self.hosts.iter().enumerate() {
            if host.phase == Phase::Idle {
                // Which host is the first makes no difference.
                all.extend((self.firings > 0 && (n == 0 || self.runs > 0)).then_some(Action::Fire(n)));
                continue;
            }
            if let Some(Flight { answer, slow, age, .. }) = host.flight {
                let servers = if question.clocks.set == Setting::Each { SERVERS } else { 1 };
                all.extend((0..servers).filter(|_| answer.is_none()).map(|server| Action::Serve(n, server)));
                all.extend(answer.is_some().then_some(Action::Arrive(n)));
                all.extend((!slow && answer.is_none() && self.faults.network > 0).then_some(Action::Delay(n)));
                all.extend((slow && age > 0).then_some(Action::TimeOut(n)));
            }
            all.extend(host.has_job().then_some(Action::EndJob(n)));
            all.extend((self.faults.crashes > 0).then_some(Action::Crash(n)));
        }
        all.extend((self.faults.leaders > 0 && self.store.lease > 0).then_some(Action::Leader));
        if self.faults.jumps > 0 {
            self.settings(question, &mut all);
        }
        if !self.hosts.iter().any(Host::is_busy) {
            all.push(Action::Tick { late: false });
            all.extend(self.store.may_be_late().then_some(Action::Tick { late: true }));
        }
        all
    }

    fn settings(&self, question: &Question, all: &mut Vec<Action>) {
        let clocks = question.clocks;
        let servers = if clocks.set == Setting::Each { SERVERS } else { 1 };
        for server in 0..servers {
            let now = self.clocks[server];
            let fits = |place: &i8| if clocks.set == Setting::OneBack { *place < now } else { *place != now };
            all.extend(clocks.places.iter().copied().filter(fits).map(|place| Action::SetClock(server, place)));
        }
    }

    /// Returns the world after `action`.
    pub(crate) fn after(&self, action: Action, question: &Question) -> (Self, Seen) {
        let (mut world, mut seen) = (self.clone(), Seen::default());
        world.perform(action, question, &mut seen);
        (world, seen)
    }

    fn perform(&mut self, action: Action, question: &Question, seen: &mut Seen) {
        let (rules, terms) = (question.rules, question.terms);
        match action {
            Action::Tick { late } => {
                self.store.tick(rules, late);
                self.hosts.iter_mut().for_each(|host| host.tick(rules, terms));
                self.overlap = if self.jobs() > 1 { self.overlap + 1 } else { 0 };
            }
            Action::Fire(n) => {
                self.firings -= 1;
                self.runs += 1;
                self.hosts[n].start(self.runs, terms);
            }
            Action::Serve(n, server) => {
                let host = &mut self.hosts[n];
                let Some(flight) = &mut host.flight else { return };
                flight.answer = Some(self.store.serve(rules, host.owner, *flight, self.clocks[server], seen));
                if !flight.slow {
                    host.on_answer(rules, terms);
                }
            }
            Action::Arrive(n) => self.hosts[n].on_answer(rules, terms),
            Action::Delay(n) => {
                self.faults.network -= 1;
                if let Some(flight) = &mut self.hosts[n].flight {
                    flight.slow = true;
                }
            }
            Action::TimeOut(n) => self.hosts[n].on_trouble(rules, terms),
            Action::EndJob(n) => self.hosts[n].end_job(rules, terms),
            Action::Crash(n) => {
                self.faults.crashes -= 1;
                self.hosts[n] = Host::default();
            }
            Action::Leader => {
                self.faults.leaders -= 1;
                self.store.on_leader();
            }
            Action::SetClock(server, to) => {
                self.faults.jumps -= 1;
                let by = self.clocks[server] - to;
                self.clocks[server] = to;
                if question.clocks.set != Setting::Each {
                    self.clocks = [to; SERVERS];
                }
                if rules.engine == Engine::Dated
                    && let Ok(by @ 1..) = u8::try_from(by)
                {
                    self.store.on_set_back(by, to);
                }
            }
        }
    }
}
