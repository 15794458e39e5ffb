//! What follows on a fault after a while; at the latest everything is well again.

use nix::sys::signal::Signal;

use super::fault::{Faults, kill_one};
use super::log::{MILLI, now};
use super::store::{Blow, Part};
use super::world;

/// What comes of a fault after a while.
#[derive(Debug, Clone)]
pub(crate) enum Later {
    Mend {
        kind: &'static str,
        part: Part,
        blow: Blow,
    },
    LetGo,
    Continue {
        pid: i32,
        run: String,
        host: usize,
    },
    Thaw(usize),
    Plug(usize),
    /// While a host is frozen the lock is forgotten; when it is thawed, nobody can say so.
    Forget,
    ThawInTheDark(usize),
}

impl Faults {
    /// Ends whatever lasts.
    pub(crate) fn heal(&mut self) {
        // What follows may be followed by something.
        while !self.later.is_empty() {
            self.follow_up(u64::MAX);
        }
    }

    /// Does what is due at this time.
    pub(crate) fn follow_up(&mut self, at: u64) {
        let due: Vec<_> = self.later.extract_if(.., |(when, _)| *when <= at).collect();
        for (_, later) in due {
            match later {
                Later::Mend { kind, part, blow } => {
                    self.store.mend(part, blow);
                    self.recovered(kind);
                }
                Later::LetGo => {
                    self.store.let_go();
                    self.recovered("busy");
                }
                Later::Continue { pid, run, host } => {
                    if self.hosts[host].has_shedlock(pid) {
                        let _ = kill_one(pid, Signal::SIGCONT);
                    }
                    self.log.say("HEAL", pid, &run, "stop-shedlock");
                }
                Later::Thaw(host) => self.thaw(host),
                Later::Plug(host) => {
                    world::plug(self.hosts[host].number);
                    self.log.say("HEAL", 0, &self.hosts[host].name, "cut-link");
                    self.struck[host] = false;
                }
                Later::Forget => {
                    self.forget();
                }
                Later::ThawInTheDark(host) => {
                    let remote = self.store.is_remote();
                    if remote {
                        self.unplug(host);
                    } else if !self.ailing {
                        self.keep_busy();
                    }
                    self.thaw(host);
                    if remote {
                        self.struck[host] = true;
                        self.after(1_200, Later::Plug(host));
                    } else if self.ailing {
                        self.after(1_200, Later::LetGo);
                    }
                }
            }
        }
    }

    fn thaw(&mut self, host: usize) {
        // Before: what goes on has gone on after this.
        self.log.say("HEAL", 0, &self.hosts[host].name, "freeze-host");
        self.freezers[host].as_ref().expect("it was frozen").thaw();
        self.struck[host] = false;
    }

    fn recovered(&mut self, kind: &str) {
        self.log.say("HEAL", 0, "-", kind);
        self.ailing = false;
    }

    /// Has something follow in so many milliseconds.
    pub(crate) fn after(&mut self, millis: u64, later: Later) {
        self.later.push((now() + millis * MILLI, later));
    }
}
