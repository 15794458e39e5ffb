//! The world: two hosts, the store, the network between them, and everything that can happen next.

use crate::action::Action;
use crate::host::{Exit, Flight, Host, Phase, Shedlock, Stall};
use crate::resource::Resource;
use crate::rules::{Faults, Rules};
use crate::store::{Owner, Request, Store};

/// How many hosts there are.
pub(crate) const HOSTS: usize = 2;

/// All there is to know of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) hosts: [Host; HOSTS],
    /// A request whose sender has given it up, and which the store may yet carry out. There is room for one; where there is
    /// none, the next such request is lost.
    stray: Option<Stray>,
    /// How many runs may still begin.
    firings: u8,
    runs: u8,
    faults: Faults,
    pub(crate) resource: Resource,
    /// A run has ended in an orderly way, and its lock stayed held.
    pub(crate) leaked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stray {
    owner: Owner,
    request: Request,
}

impl World {
    pub(crate) fn new(firings: u8, faults: Faults) -> Self {
        Self {
            store: Store::default(),
            hosts: Default::default(),
            stray: None,
            firings,
            runs: 0,
            faults,
            resource: Resource::default(),
            leaked: false,
        }
    }

    /// Returns everything that can happen next.
    pub(crate) fn actions(&self, rules: Rules, writes: bool) -> Vec<Action> {
        let mut all = Vec::with_capacity(16);
        for number in 0..HOSTS {
            self.host_actions(number, writes, &mut all);
        }
        if self.stray.is_some() {
            all.extend([Action::ServeStray, Action::LoseStray]);
        }
        if self.store.left > 0 {
            all.extend((self.faults.flushes > 0).then_some(Action::Flush));
            all.extend((self.faults.unlocks > 0).then_some(Action::Unlock));
            all.extend((self.faults.extensions > 0 && self.store.is_somebodys()).then_some(Action::Extend));
        }
        all.extend((self.faults.forgets > 0 && self.store.may_be_forgotten(rules)).then_some(Action::Forget));
        let busy = self.hosts.iter().any(Host::is_busy);
        if !busy {
            let may_lose = |host: &Host| self.faults.drift && host.may_lose_time(rules);
            let [first, second] = &self.hosts;
            all.push(Action::Tick([false, false]));
            all.extend(may_lose(first).then_some(Action::Tick([true, false])));
            all.extend(may_lose(second).then_some(Action::Tick([false, true])));
        }
        all
    }

    fn host_actions(&self, number: usize, writes: bool, all: &mut Vec<Action>) {
        let host = &self.hosts[number];
        let faults = &self.faults;
        let mut may = |action: fn(usize) -> Action, condition: bool| {
            if condition {
                all.push(action(number));
            }
        };
        if host.job.daemon && host.stall == Stall::No && !host.job.held {
            may(Action::DaemonEnds, true);
        }
        if host.phase == Phase::Idle {
            // Which host is the first makes no difference.
            may(Action::Fire, self.firings > 0 && (number == 0 || self.runs > 0));
            return;
        }
        let awake = host.is_awake();
        if let Some(flight) = &host.flight {
            let lossy = faults.network > 0;
            may(Action::Serve, flight.answer.is_none());
            may(Action::Arrive, flight.answer.is_some() && awake);
            may(Action::LoseRequest, flight.answer.is_none() && lossy && awake);
            may(Action::LoseAnswer, lossy && awake);
            may(Action::Delay, !flight.slow && lossy);
            may(Action::TimeOut, flight.slow && flight.age > 0 && awake);
        }
        let unasked = host.phase == Phase::Asking && host.flight.is_none();
        may(Action::AskAgain, awake && (unasked || host.phase == Phase::Waiting { asked: false }));
        may(Action::GiveUp, host.waits());
        if host.has_job_that_runs() {
            may(Action::CommandEnds, host.job.command);
            may(Action::DaemonStarts, host.job.command && !host.job.daemon && faults.daemons > 0);
            may(Action::Write, writes && self.resource.would_change(host));
        }
        let check = awake && host.job.held && host.job.killed.is_none() && host.flight.is_none();
        may(Action::CheckHeld, check);
        may(Action::EndHeld, check);
        may(Action::KillWrapper, host.shedlock != Shedlock::Dead && faults.kills > 0);
        may(Action::StopWrapper, awake && faults.stops > 0);
        may(Action::ContinueWrapper, host.shedlock == Shedlock::Stopped && host.stall == Stall::No);
        may(Action::Crash, faults.crashes > 0);
        may(Action::Suspend, host.stall == Stall::No && faults.suspensions > 0);
        may(Action::Pause, host.stall == Stall::No && faults.pauses > 0);
        may(Action::Thaw, host.stall != Stall::No);
    }

    /// Returns the world after `action`.
    pub(crate) fn after(&self, action: Action, rules: Rules) -> Self {
        let mut world = self.clone();
        world.perform(action, rules);
        world
    }

    fn perform(&mut self, action: Action, rules: Rules) {
        match action {
            Action::Tick(losing) => self.tick(rules, losing),
            Action::Fire(n) => {
                self.firings -= 1;
                self.runs += 1;
                self.hosts[n].start(self.runs);
            }
            Action::AskAgain(n) => self.hosts[n].ask(),
            Action::GiveUp(n) => self.finish(n, |host| match host.phase {
                Phase::Waiting { .. } if !host.unclear => Some(host.exit(Exit::Clean)),
                _ => host.give_up(rules),
            }),
            Action::Serve(n) => self.serve(n, rules),
            Action::Arrive(n) => self.arrive(n, rules),
            Action::LoseRequest(n) => {
                self.faults.network -= 1;
                self.finish(n, |host| host.on_trouble(rules));
            }
            Action::LoseAnswer(n) => {
                self.faults.network -= 1;
                self.answer(n, rules);
                self.finish(n, |host| host.on_trouble(rules));
            }
            Action::Delay(n) => {
                self.faults.network -= 1;
                if let Some(flight) = &mut self.hosts[n].flight {
                    flight.slow = true;
                }
            }
            Action::TimeOut(n) => {
                self.let_stray(n);
                self.finish(n, |host| host.on_trouble(rules));
            }
            Action::ServeStray => {
                if let Some(Stray { owner, request, .. }) = self.stray.take() {
                    self.store.serve(rules, owner, request);
                }
            }
            Action::LoseStray => self.stray = None,
            Action::CommandEnds(n) => {
                self.hosts[n].job.command = false;
                self.finish(n, |host| host.on_end(rules));
            }
            Action::DaemonStarts(n) => {
                self.faults.daemons -= 1;
                self.hosts[n].job.daemon = true;
            }
            Action::DaemonEnds(n) => {
                self.hosts[n].job.daemon = false;
                self.finish(n, |host| host.on_end(rules));
            }
            Action::KillWrapper(n) => {
                self.faults.kills -= 1;
                self.let_stray(n);
                let host = &mut self.hosts[n];
                // The parent-death signal.
                host.job.command = false;
                host.flight = None;
                host.shedlock = Shedlock::Dead;
                self.finish(n, |host| host.react(rules));
            }
            Action::StopWrapper(n) => {
                self.faults.stops -= 1;
                self.hosts[n].shedlock = Shedlock::Stopped;
                self.finish(n, |host| host.react(rules));
            }
            Action::ContinueWrapper(n) => {
                self.hosts[n].shedlock = Shedlock::Alive;
                self.finish(n, |host| host.react(rules));
            }
            Action::Crash(n) => {
                self.faults.crashes -= 1;
                self.let_stray(n);
                let owner = self.hosts[n].owner;
                self.hosts[n] = Host { owner, crashed: self.store.is_held_by(owner), ..Host::default() };
            }
            Action::Suspend(n) => {
                self.faults.suspensions -= 1;
                self.hosts[n].stall = Stall::Visible;
            }
            Action::Pause(n) => {
                self.faults.pauses -= 1;
                self.hosts[n].stall = Stall::Invisible;
            }
            Action::Thaw(n) => self.finish(n, |host| host.thaw(rules)),
            Action::CheckHeld(n) => self.hosts[n].renew(),
            Action::EndHeld(n) => {
                self.hosts[n].job.kill();
            }
            Action::Flush => {
                self.faults.flushes -= 1;
                self.store.flush();
            }
            Action::Unlock => {
                self.faults.unlocks -= 1;
                self.store.unlock();
            }
            Action::Forget => {
                self.faults.forgets -= 1;
                self.store.forget();
            }
            Action::Extend => {
                self.faults.extensions -= 1;
                self.store.extend();
            }
            Action::Write(n) => self.resource.write(&self.hosts[n]),
        }
    }

    fn tick(&mut self, rules: Rules, losing: [bool; HOSTS]) {
        self.store.tick(rules);
        for (n, loses) in losing.into_iter().enumerate() {
            self.finish(n, |host| host.tick(rules, loses));
        }
    }

    /// Answers a request: the answer is under way, and a host that is awake has it at once, unless it is slow.
    fn serve(&mut self, n: usize, rules: Rules) {
        self.answer(n, rules);
        let host = &self.hosts[n];
        if host.is_awake() && host.flight.is_some_and(|flight| !flight.slow) {
            self.arrive(n, rules);
        }
    }

    fn answer(&mut self, n: usize, rules: Rules) {
        let host = &mut self.hosts[n];
        if let Some(Flight { request, answer: answer @ None, .. }) = &mut host.flight {
            *answer = Some(self.store.serve(rules, host.owner, *request));
        }
    }

    fn arrive(&mut self, n: usize, rules: Rules) {
        if let Some(flight @ Flight { answer: Some(answer), .. }) = self.hosts[n].flight {
            self.finish(n, |host| host.on_answer(rules, flight, answer));
        }
    }

    /// Has the sender of a request that is under way give it up, or die.
    fn let_stray(&mut self, n: usize) {
        let host = &self.hosts[n];
        if let (Some(Flight { request, answer: None, .. }), None) = (host.flight, &self.stray) {
            self.stray = Some(Stray { owner: host.owner, request });
        }
        self.hosts[n].has_strayed |= self.hosts[n].flight.is_some();
    }

    /// Lets something happen at a host, and looks at what a run leaves that ends by it.
    fn finish(&mut self, n: usize, happen: impl FnOnce(&mut Host) -> Option<Exit>) {
        let before = self.hosts[n].flight;
        let Some(exit) = happen(&mut self.hosts[n]) else { return };
        let owner = self.hosts[n].owner;
        let gone = std::mem::replace(&mut self.hosts[n].flight, before.filter(|_| exit == Exit::InDoubt));
        debug_assert!(gone.is_none(), "a run that has ended waits for nothing");
        self.let_stray(n);
        self.hosts[n].flight = None;
        let astray = std::mem::take(&mut self.hosts[n].has_strayed);
        self.leaked |= exit == Exit::Clean && !astray && self.store.is_held_by(owner);
        if exit == Exit::Clean {
            self.store.on_end(owner);
        }
    }
}
