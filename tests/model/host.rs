//! A host: one shedlock with its run, the job, the guardian, and the host's own clock.
//!
//! In the program: the run is `src/run/`, the worker with its one request at a time is `src/supervise/worker.rs`, the job and
//! its processes are `src/job/`. Everything here is counted by this host's clock, and as what is left of a time, so that
//! a world looks the same whenever it is.

use crate::rules::{LONGEST_DELAY, REACTION, Rules};
use crate::store::{Answer, Grant, Owner, Request};

/// One host. Between two runs it is as new, but for who it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Host {
    /// Which run it is or was the last, of all; 0 before the first.
    pub(crate) owner: Owner,
    pub(crate) phase: Phase,
    pub(crate) shedlock: Shedlock,
    pub(crate) stall: Stall,
    /// The request that the worker waits for.
    pub(crate) flight: Option<Flight>,
    /// The answer to an acquisition was lost, and none since says whether the lock is ours.
    pub(crate) unclear: bool,
    pub(crate) job: Job,
    pub(crate) lease: Lease,
    /// A request of this run was given up, and the store may carry it out whenever it likes.
    pub(crate) has_strayed: bool,
    /// It died with a lock, and has not run since.
    pub(crate) crashed: bool,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Phase {
    /// There is no run.
    #[default]
    Idle,
    /// An acquisition is under way, or has just met trouble.
    Asking,
    /// The lock is held by another; it is asked for again in every tick.
    Waiting {
        asked: bool,
    },
    /// We gave up while an acquisition was under way, and wait so long for its answer.
    GivingBack {
        left: u8,
    },
    Running,
    /// The release is tried for so long.
    Releasing {
        left: u8,
        hold: u8,
    },
}

/// What signals have made of shedlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Shedlock {
    #[default]
    Alive,
    /// SIGSTOP. Its job, its guardian and the host go on.
    Stopped,
    /// SIGKILL.
    Dead,
}

/// What stands still is the whole host, with all of its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Stall {
    #[default]
    No,
    /// CLOCK_BOOTTIME goes on: a suspended laptop, a stopped process group.
    Visible,
    /// It does not: a virtual machine that was paused, or is being moved.
    Invisible,
}

/// A request on its way, and then its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) request: Request,
    /// Since the moment before it was sent.
    pub(crate) age: u8,
    /// What our clock has lost in that time.
    pub(crate) clock_lost: u8,
    /// It may take longer than this tick.
    pub(crate) slow: bool,
    pub(crate) answer: Option<Answer>,
}

/// The command and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Job {
    pub(crate) command: bool,
    /// A descendant in a session of its own, which no signal to the command's group reaches.
    pub(crate) daemon: bool,
    /// It got its first signal, which it may ignore.
    pub(crate) told: bool,
    /// SIGKILL goes around, for so many ticks.
    pub(crate) killed: Option<u8>,
    /// After a stall, it was not let go on yet.
    pub(crate) held: bool,
}

/// What the run knows of its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Lease {
    pub(crate) grant: Grant,
    /// Until it ends, unless it is renewed.
    pub(crate) left: u8,
    /// Until at-most is used up.
    pub(crate) at_most: u8,
    /// Until the latest end that we have asked for ourselves, if it was carried out before we knew of it.
    pub(crate) reach: u8,
    /// The longest that was asked for without an answer.
    pub(crate) stray: u8,
    /// Its end was asked for.
    pub(crate) looked: bool,
    /// What our clock has lost since before it was asked for.
    pub(crate) clock_lost: u8,
    /// The store said that it is not ours any more.
    pub(crate) lost: bool,
}

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It owes nothing: its last request was answered, or there was none.
    Clean,
    /// Giving back took too long, which one line on stderr says.
    InDoubt,
}

impl Job {
    pub(crate) fn lives(self) -> bool {
        self.command || self.daemon
    }

    pub(crate) fn kill(&mut self) {
        self.told = true;
        self.killed.get_or_insert(0);
    }
}

impl Host {
    /// Returns whether the host's job could do something in this moment.
    pub(crate) fn has_job_that_runs(&self) -> bool {
        self.job.lives() && !self.job.held && self.stall == Stall::No
    }

    /// Returns whether shedlock sees what happens.
    pub(crate) fn is_awake(&self) -> bool {
        self.phase != Phase::Idle && self.shedlock == Shedlock::Alive && self.stall == Stall::No
    }

    /// Returns whether shedlock wants the lock and does all it can to get it.
    pub(crate) fn waits(&self) -> bool {
        self.is_awake() && matches!(self.phase, Phase::Asking | Phase::Waiting { .. })
    }

    /// Lets the guardian act: it learns of shedlock's death from a pipe, and of a shedlock that is stopped from its own look at
    /// the lease.
    pub(crate) fn guard(&mut self, rules: Rules) {
        let needed = match self.shedlock {
            Shedlock::Alive => false,
            Shedlock::Stopped => self.lease.left <= rules.margin,
            Shedlock::Dead => true,
        };
        if rules.guardian && needed && self.job.lives() {
            self.job.kill();
        }
    }

    /// Takes in the end of the command, or of the daemon.
    pub(crate) fn on_end(&mut self, rules: Rules) -> Option<Exit> {
        if !self.job.lives() {
            (self.job.killed, self.job.held) = (None, false);
        }
        self.react(rules)
    }

    /// Takes in that SIGKILL has come through. Without a walk through the tree it finds the command and its group.
    pub(crate) fn die(&mut self, rules: Rules) -> Option<Exit> {
        self.job.command = false;
        self.job.daemon &= !rules.whole_tree;
        self.job.killed = None;
        self.job.held = false;
        self.react(rules)
    }

    /// Returns whether something has to happen here before time goes on.
    pub(crate) fn is_busy(&self) -> bool {
        let answerable = match self.flight {
            Some(Flight { answer: None, slow: false, .. }) => true,
            Some(Flight { slow, age, .. }) => self.is_awake() && (!slow || age >= LONGEST_DELAY),
            None => false,
        };
        let undecided = match self.phase {
            Phase::Asking => self.flight.is_none(),
            Phase::Waiting { asked } => !asked,
            Phase::Running => self.job.held && self.job.killed.is_none() && self.flight.is_none(),
            _ => false,
        };
        answerable || self.is_awake() && undecided
    }

    /// Returns whether the host's clock may lose a tick: so much within every lease, counted from before the lease was asked
    /// for.
    pub(crate) fn may_lose_time(&self, rules: Rules) -> bool {
        match (self.phase, self.flight) {
            (Phase::Running, _) => self.lease.clock_lost < rules.drift,
            (Phase::Asking, Some(flight)) => flight.clock_lost < rules.drift,
            _ => false,
        }
    }

    /// Lets a tick of the true time pass, in which this host's clock may stand still.
    pub(crate) fn tick(&mut self, rules: Rules, clock_loses: bool) -> Option<Exit> {
        if clock_loses {
            self.lease.clock_lost += 1;
            if let Some(flight) = &mut self.flight {
                flight.clock_lost += 1;
            }
        }
        if self.stall != Stall::Invisible && !clock_loses {
            self.lease.left = self.lease.left.saturating_sub(1);
            self.lease.at_most = self.lease.at_most.saturating_sub(1);
            self.lease.reach = self.lease.reach.saturating_sub(1);
            if let Some(flight) = &mut self.flight {
                flight.age = (flight.age + 1).min(LONGEST_DELAY);
            }
            if let Phase::GivingBack { left } | Phase::Releasing { left, .. } = &mut self.phase {
                *left = left.saturating_sub(1);
            }
        }
        if let Phase::Waiting { asked } = &mut self.phase {
            *asked = false;
        }
        if self.stall == Stall::No
            && let Some(since) = &mut self.job.killed
        {
            *since += 1;
            if *since >= REACTION {
                return self.die(rules);
            }
        }
        self.react(rules)
    }
}
