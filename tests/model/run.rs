//! What shedlock of a host does: its run, from the request for the lock to the release.
//!
//! In the program: the state machine in `src/run/`, and the worker with its one request at a time in `src/supervise/worker.rs`.

use crate::host::{Exit, Flight, Host, Job, Lease, Phase, Shedlock, Stall};
use crate::rules::{AT_LEAST, AT_MOST, Believed, CountedFrom, EXTENSION, GIVE_BACK, HALF, LEASE, Rules, THIRD};
use crate::store::{Answer, Owner, Request};

impl Host {
    /// Begins a run.
    pub(crate) fn start(&mut self, owner: Owner) {
        *self = Self { owner, job: self.job, ..Self::default() };
        self.ask();
    }

    pub(crate) fn ask(&mut self) {
        self.phase = Phase::Asking;
        self.send(Request::Take);
    }

    fn send(&mut self, request: Request) {
        self.flight = Some(Flight { request, age: 0, clock_lost: 0, slow: false, answer: None });
    }

    /// Takes in an answer (`Run::on_acquired`, `on_renewed`, `on_released`).
    pub(crate) fn on_answer(&mut self, rules: Rules, flight: Flight, answer: Answer) -> Option<Exit> {
        self.flight = None;
        let since = match rules.counted_from {
            CountedFrom::TheRequest => flight.age,
            CountedFrom::TheAnswer => 0,
        };
        match (answer, flight.request) {
            (Answer::Granted(grant), _) => {
                self.unclear = false;
                let too_late = rules.too_late_goes_back && since > HALF;
                if self.phase == Phase::Asking && !too_late {
                    let (left, at_most) = (LEASE.saturating_sub(since), AT_MOST.saturating_sub(since));
                    let reach = if rules.looks { at_most } else { 0 };
                    self.lease =
                        Lease { grant, left, at_most, reach, clock_lost: flight.clock_lost, ..Lease::default() };
                    self.job = Job { command: true, ..self.job };
                    self.phase = Phase::Running;
                } else {
                    self.phase = Phase::Releasing { left: GIVE_BACK, hold: 0 };
                }
            }
            (Answer::Held, _) => {
                self.unclear &= !rules.held_clears_up;
                if self.phase == Phase::Asking {
                    self.phase = Phase::Waiting { asked: true };
                } else if self.unclear {
                    return self.give_up(rules);
                } else {
                    return Some(self.exit(Exit::Clean));
                }
            }
            (Answer::Kept, Request::Renew { lease }) => {
                self.reach_for(rules, lease);
                let left = lease.saturating_sub(since);
                if left > self.lease.left {
                    (self.lease.left, self.lease.clock_lost) = (left, flight.clock_lost);
                }
                if self.job.held {
                    self.go_on(rules);
                }
            }
            (Answer::Ours { left }, _) => self.on_end_seen(rules, flight, left),
            (Answer::Lost, Request::Renew { .. } | Request::Look) => {
                self.lease.lost = true;
                self.lease.left = self.lease.left.min(rules.stop_with());
            }
            (Answer::Kept | Answer::Lost, _) => return Some(self.exit(Exit::Clean)),
        }
        self.react(rules)
    }

    /// Takes in that no answer came, and none will.
    pub(crate) fn on_trouble(&mut self, rules: Rules) -> Option<Exit> {
        let flight = self.flight.take()?;
        match (flight.request, self.phase) {
            (Request::Take, Phase::GivingBack { .. }) => self.give_up(rules),
            (Request::Take, _) => {
                self.unclear = true;
                None
            }
            (Request::Look, Phase::Running) => {
                self.lease.looked = false;
                if rules.believed == Believed::Silence {
                    self.on_end_seen(rules, flight, EXTENSION + flight.age);
                }
                self.react(rules)
            }
            (Request::Renew { lease }, _) => {
                self.reach_for(rules, lease);
                if rules.looks && rules.believed == Believed::BeyondOurs {
                    self.lease.stray = self.lease.stray.max(lease);
                }
                self.react(rules)
            }
            _ => self.react(rules),
        }
    }

    /// Notes that a renewal for `lease` was carried out, or may have been.
    fn reach_for(&mut self, rules: Rules, lease: u8) {
        if rules.looks {
            self.lease.reach = self.lease.reach.max(lease);
        }
    }

    /// Takes in that this run held the lock for `left` (`Run::on_end_seen`).
    fn on_end_seen(&mut self, rules: Rules, flight: Flight, left: u8) {
        let since = match rules.seen_from {
            CountedFrom::TheRequest => flight.age,
            CountedFrom::TheAnswer => 0,
        };
        let ours = left.saturating_sub(since);
        if self.phase != Phase::Running || self.job.told || ours <= self.lease.reach || left <= self.lease.stray {
            return;
        }
        (self.lease.at_most, self.lease.reach, self.lease.looked) = (ours, left, false);
        if ours.min(LEASE) > self.lease.left {
            (self.lease.left, self.lease.clock_lost) = (ours.min(LEASE), flight.clock_lost);
        }
    }

    /// Gives up asking: an acquisition that may have been granted is undone.
    pub(crate) fn give_up(&mut self, rules: Rules) -> Option<Exit> {
        if self.flight.is_some() {
            self.phase = Phase::GivingBack { left: GIVE_BACK };
        } else if rules.unclear_goes_back {
            self.phase = Phase::Releasing { left: GIVE_BACK, hold: 0 };
            return self.react(rules);
        } else {
            return Some(self.exit(Exit::Clean));
        }
        None
    }

    pub(crate) fn exit(&mut self, exit: Exit) -> Exit {
        // What a broken variant has left alive lives on.
        let job = Job { daemon: self.job.daemon, ..Job::default() };
        *self = Self { owner: self.owner, job, has_strayed: self.has_strayed, ..Self::default() };
        exit
    }

    fn must_stop(&self, rules: Rules) -> bool {
        self.lease.left <= rules.stop_with()
    }

    /// Does what is due by itself, without a choice: the guardian's part, and shedlock's `Run::on_time`.
    pub(crate) fn react(&mut self, rules: Rules) -> Option<Exit> {
        if self.stall != Stall::No {
            return None;
        }
        self.guard(rules);
        match self.shedlock {
            Shedlock::Stopped => return None,
            Shedlock::Dead => return (!self.job.lives()).then(|| self.exit(Exit::InDoubt)),
            Shedlock::Alive => {}
        }
        if self.phase == Phase::Running {
            if self.is_over(rules) {
                if self.lease.lost {
                    return Some(self.exit(Exit::Clean));
                }
                (self.phase, self.lease) = (Phase::Releasing { left: GIVE_BACK, hold: AT_LEAST }, Lease::default());
            } else {
                self.mind_the_lease(rules);
            }
        }
        match self.phase {
            Phase::Releasing { left: 0, .. } | Phase::GivingBack { left: 0 } => Some(self.exit(Exit::InDoubt)),
            Phase::Releasing { hold, .. } if self.flight.is_none() => {
                self.send(Request::Release { hold });
                None
            }
            _ => None,
        }
    }

    /// Returns whether the job is over, so that the lock is released. With `--wait-for tree`, the strictest: all of it is dead.
    fn is_over(&self, rules: Rules) -> bool {
        if rules.whole_tree { !self.job.lives() } else { !self.job.command }
    }

    /// Does what shedlock does while the job lives (`Run::on_running_time`).
    fn mind_the_lease(&mut self, rules: Rules) {
        if self.job.held {
            // What is to be done is a choice, and made elsewhere.
            if self.lease.lost {
                self.job.kill();
            }
            return;
        }
        self.job.told |= self.must_stop(rules);
        if self.lease.left <= rules.margin {
            self.job.kill();
        }
        let due = self.lease.left <= LEASE - THIRD && self.lease.left < self.lease.at_most;
        if due && !self.job.told && self.flight.is_none() {
            self.renew();
        }
        let soon = rules.looks && !self.lease.looked && self.lease.at_most <= rules.look_with();
        if soon && !self.job.told && self.flight.is_none() {
            self.lease.looked = true;
            self.send(Request::Look);
        }
    }

    /// Asks for a whole lease, or as much of it as at-most allows.
    pub(crate) fn renew(&mut self) {
        self.send(Request::Renew { lease: LEASE.min(self.lease.at_most) });
    }

    /// Goes on after the whole host stood still.
    pub(crate) fn thaw(&mut self, rules: Rules) -> Option<Exit> {
        let visible = std::mem::take(&mut self.stall) == Stall::Visible;
        if visible && rules.checked_after_stall && self.phase == Phase::Running {
            self.job.held = self.job.lives() && self.must_stop(rules);
        }
        self.react(rules)
    }

    /// Lets a job that is held after a stall go on, unless there is no time left for it all the same.
    fn go_on(&mut self, rules: Rules) {
        if self.must_stop(rules) {
            self.job.kill();
        } else {
            self.job.held = false;
        }
    }
}
