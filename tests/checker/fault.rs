//! What goes wrong, at random: now, and what follows later.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::aftermath::Later;
use super::host::Host;
use super::log::{Log, MILLI, now};
use super::random::Random;
use super::record::{JobRecord, Record, RunRecord};
use super::store::{Blow, Part, Store};
use super::world::{self, Freezer};

/// What can go wrong, and how often in comparison.
const KINDS: [(&str, u64); 17] = [
    ("kill-shedlock", 5),
    ("stop-shedlock", 4),
    ("kill-job", 2),
    ("term-shedlock", 1),
    ("freeze-host", 4),
    ("stall", 9),
    ("steal", 2),
    ("forget", 1),
    ("cut-link", 3),
    ("kill-server", 2),
    ("restart-server", 1),
    ("freeze-server", 3),
    ("kill-member", 12),
    ("restart-member", 2),
    ("freeze-member", 5),
    ("set-clock", 3),
    ("busy", 3),
];

/// Bad luck.
pub(crate) struct Faults {
    random: Random,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) hosts: Vec<Host>,
    pub(crate) freezers: Vec<Option<Freezer>>,
    /// Hosts of which something is the matter.
    pub(crate) struck: Vec<bool>,
    /// Something is the matter with the store.
    pub(crate) ailing: bool,
    pub(crate) later: Vec<(u64, Later)>,
    next: u64,
}

impl Faults {
    pub(crate) fn new(seed: u64, log: Log, store: Store, hosts: Vec<Host>) -> Self {
        let freezers: Vec<_> = hosts.iter().map(|host| Freezer::of(host.pid())).collect();
        if freezers.iter().any(Option::is_none) {
            println!("checker: there is no writable cgroup2 here, so no host is frozen");
        }
        let struck = vec![false; hosts.len()];
        let random = Random::new(seed, u64::MAX);
        Self {
            random,
            log,
            store,
            hosts,
            freezers,
            struck,
            ailing: false,
            later: Vec::new(),
            next: now() + 500 * MILLI,
        }
    }

    /// Does what is due.
    pub(crate) fn strike(&mut self, record: &Record) {
        self.follow_up(now());
        if now() >= self.next {
            let kind = self.draw();
            if self.cause(kind, record) {
                self.next = now() + self.random.within(800..4_000) * MILLI;
            }
        }
    }

    fn draw(&mut self) -> &'static str {
        let mut left = self.random.within(0..KINDS.iter().map(|(_, weight)| weight).sum());
        for (kind, weight) in KINDS {
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        unreachable!("the number is less than the sum")
    }

    /// Causes a fault of this kind, if there is anything that it can strike.
    fn cause(&mut self, kind: &'static str, record: &Record) -> bool {
        match kind {
            "kill-shedlock" | "stop-shedlock" | "term-shedlock" | "kill-job" => self.strike_run(kind, record),
            "freeze-host" => self.healthy_host().is_some_and(|host| self.freeze_host(host)),
            "stall" => self.stall(record),
            "cut-link" => {
                let Some(host) = self.healthy_host().filter(|_| self.store.is_remote()) else { return false };
                self.unplug(host);
                let length = self.random.within(300..4_000);
                self.after(length, Later::Plug(host));
                true
            }
            "steal" if !self.ailing && self.store.steal() => self.once("steal", 0, "-"),
            "forget" => self.forget(),
            "set-clock" => {
                // The first stays ahead of the others.
                let (member, behind) = (self.random.within(1..3), self.random.within(1..7));
                self.store.set_clock(member, behind) && self.once("set-clock", 0, "-")
            }
            "busy" => {
                let length = self.random.within(200..3_000);
                let busy = !self.ailing && self.keep_busy();
                if busy {
                    self.after(length, Later::LetGo);
                }
                busy
            }
            "kill-server" | "restart-server" | "freeze-server" if !self.ailing && self.store.is_remote() => {
                self.strike_server(kind, Part::All)
            }
            "kill-member" | "restart-member" | "freeze-member" if !self.ailing && self.store.members() > 0 => {
                // The first is asked first, and etcd's has a clock that is ahead. Each leader that goes lets etcd's leases begin
                // anew, so that a lock whose holder has died stays; the first one leads no more once it was struck.
                let first = self.random.percent(85);
                let others = 1..u64::try_from(self.store.members()).unwrap();
                let member = if first { 0 } else { self.random.within(others) };
                self.strike_server(kind, Part::Member(usize::try_from(member).unwrap()))
            }
            _ => false,
        }
    }

    fn strike_run(&mut self, kind: &'static str, record: &Record) -> bool {
        let place = |run: &RunRecord| self.hosts.iter().position(|host| host.name == run.host);
        // Where one is stopped that has no lease, nobody watches over its job.
        let fits = |run: &RunRecord| kind != "stop-shedlock" || run.terms.lease.is_some();
        let running = |name: &str| record.jobs.values().find(|job| job.run == name);
        let only_running = kind == "kill-job" || self.random.percent(70);
        let candidates: Vec<_> = record
            .runs
            .iter()
            .filter(|(name, run)| run.ended.is_none() && fits(run) && (!only_running || running(name).is_some()))
            .filter_map(|(name, run)| Some((name.clone(), run.pid, place(run)?)))
            .filter(|(_, pid, host)| !self.struck[*host] && self.hosts[*host].has_shedlock(*pid))
            .collect();
        let Some((name, shedlock, host)) = self.random.pick(&candidates).cloned() else { return false };
        let (pid, signal) = match (kind, running(&name)) {
            ("kill-job", Some(job)) if job.end.is_none() => (job.command, Signal::SIGKILL),
            ("kill-job", _) => return false,
            ("kill-shedlock", _) => (shedlock, Signal::SIGKILL),
            ("term-shedlock", _) => (shedlock, Signal::SIGTERM),
            _ => (shedlock, Signal::SIGSTOP),
        };
        self.log.say("FAULT", pid, &name, kind);
        let _ = kill_one(pid, signal);
        if kind == "stop-shedlock" {
            let length = self.random.within(300..7_000);
            self.after(length, Later::Continue { pid, run: name, host });
        } else {
            self.log.say("HEAL", pid, &name, kind);
        }
        true
    }

    fn strike_server(&mut self, kind: &'static str, part: Part) -> bool {
        let length = self.random.within(100..3_500);
        let (blow, length) = match kind {
            "freeze-server" | "freeze-member" => (Blow::Freeze, length),
            "kill-server" | "kill-member" => (Blow::Kill, length),
            _ => (Blow::Stop, 0),
        };
        self.log.say("FAULT", 0, "-", kind);
        self.store.strike(part, blow);
        self.ailing = true;
        self.after(length, Later::Mend { kind, part, blow });
        true
    }

    fn freeze_host(&mut self, host: usize) -> bool {
        let length = self.random.within(200..6_000);
        let frozen = self.freeze(host);
        if frozen {
            self.after(length, Later::Thaw(host));
        }
        frozen
    }

    fn freeze(&mut self, host: usize) -> bool {
        let Some(freezer) = &self.freezers[host] else { return false };
        self.log.say("FAULT", 0, &self.hosts[host].name, "freeze-host");
        freezer.freeze();
        self.struck[host] = true;
        true
    }

    /// Freezes a host while its job runs; the lock is forgotten and another run acquires it; the host is thawed before its
    /// lease ends by its own clock, and cannot ask. Its job must not go on.
    fn stall(&mut self, record: &Record) -> bool {
        // With a renewal to come that can be late.
        let renews =
            |job: &JobRecord, run: &RunRecord| job.start + (run.terms.at_most - 200) * MILLI > now() + 6_000 * MILLI;
        let live = record.runs.iter().filter(|(name, run)| {
            let mut jobs = record.jobs.values().filter(|job| job.run == **name && job.end.is_none());
            run.ended.is_none() && run.terms.lease == Some(6_000) && jobs.any(|job| renews(job, run))
        });
        let host = live.filter_map(|(_, run)| self.hosts.iter().position(|host| host.name == run.host)).next();
        let Some(host) = host.filter(|host| !self.struck[*host] && !self.ailing) else { return false };
        let frozen = self.freeze(host);
        if frozen {
            self.after(50, Later::Forget);
            self.after(2_000 + 1_200, Later::ThawInTheDark(host));
        }
        frozen
    }

    pub(crate) fn forget(&mut self) -> bool {
        if self.ailing {
            return false;
        }
        // Whoever was there before may not know it; to be told too early is no harm.
        self.store.forget() && self.once("forget", 0, "-")
    }

    pub(crate) fn keep_busy(&mut self) -> bool {
        let busy = self.store.keep_busy();
        if busy {
            self.ailing = true;
            self.log.say("FAULT", 0, "-", "busy");
        }
        busy
    }

    pub(crate) fn unplug(&mut self, host: usize) {
        self.log.say("FAULT", 0, &self.hosts[host].name, "cut-link");
        world::unplug(self.hosts[host].number);
        self.struck[host] = true;
    }

    /// Notes a fault that is over at once.
    fn once(&self, kind: &str, pid: i32, whom: &str) -> bool {
        self.log.say("FAULT", pid, whom, kind);
        self.log.say("HEAL", pid, whom, kind);
        true
    }

    fn healthy_host(&mut self) -> Option<usize> {
        let healthy: Vec<_> = (0..self.hosts.len()).filter(|host| !self.struck[*host]).collect();
        self.random.pick(&healthy).copied()
    }
}

/// Sends a signal. The process may be gone already.
pub(crate) fn kill_one(pid: i32, signal: Signal) -> nix::Result<()> {
    kill(Pid::from_raw(pid), signal)
}

/// How often the checker looks around.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
