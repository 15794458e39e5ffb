//! The job as processes: started, signalled, held, reaped, ended. This layer decides nothing.
//!
//! All `unsafe` of the program is in this folder. Only the main thread starts, reaps and signals processes: a
//! parent-death signal is tied to the thread that forked, and a pid is certain only for who reaps it.

mod environ;
mod guard;
mod guardian;
mod hold;
mod process;
#[cfg(test)]
mod scene;
mod signals;
mod spawn;
mod tree;
mod wait;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

pub(crate) use environ::Environment;
pub(crate) use guard::guard;
pub(crate) use guardian::Guardian;
pub(crate) use guardian::NAME as GUARDIAN;
use nix::unistd::{Pid, getpgid, getpgrp};
pub(crate) use process::{arguments, exit, fill_standard_descriptors, stdout_was_closed};
pub(crate) use signals::{Inherited, Signals, ignore_pipe, raise_and_die, stop_ourselves};
pub(crate) use spawn::Command;

use crate::run::{Event, Group, Rest};
use crate::signal::Signal;
use hold::Held;

/// A command that was started.
pub(crate) struct Job {
    pid: Pid,
    group: Group,
    reaped: bool,
    /// Children of ours that are none of the job's: those from before, and the guardian.
    strangers: Vec<i32>,
    held: Option<Held>,
    /// A SIGCONT came while the job was held.
    continue_later: Cell<bool>,
    /// What the last signal to all of the tree has reached.
    seen: RefCell<Vec<tree::Process>>,
}

/// How often a tree is searched anew for what was born meanwhile, before other events get their turn.
const ROUNDS: usize = 10;

impl Job {
    fn new(pid: Pid, group: Group, strangers: Vec<i32>) -> Self {
        Self {
            pid,
            group,
            reaped: false,
            strangers,
            held: None,
            continue_later: Cell::new(false),
            seen: RefCell::default(),
        }
    }

    /// Sends a signal to the job's own group, or to the command alone where the group is shared with others. Once the
    /// command was reaped, the rest of the group gets it, or in a shared group the rest of the tree. SIGCONT waits
    /// until the job is let go.
    pub(crate) fn signal(&self, signal: Signal) {
        if signal == Signal::CONT && self.held.is_some() {
            self.continue_later.set(true);
        } else if self.reaped {
            self.signal_rest(signal, &self.descendants().unwrap_or_default());
        } else {
            self.signal_command(signal);
        }
    }

    /// Sends a signal to the command, its own group, and every descendant of ours.
    pub(crate) fn signal_tree(&self, signal: Signal) {
        // Whom we know comes before the walk: on a machine that is overloaded it takes its time.
        if !self.reaped {
            self.signal_command(signal);
        }
        let seen = self.seen.take();
        if matches!(signal, Signal::KILL | Signal::CONT) {
            for process in seen.iter().filter(|process| self.reaped || !self.is_reached(process)) {
                process.id.signal(signal);
            }
        }
        if signal == Signal::CONT && !seen.is_empty() {
            // It is for those who got the signal that it follows.
            self.seen.replace(seen);
            return;
        }
        let mut rest = self.descendants();
        if rest.is_none() && std::process::id() == 1 && self.strangers.is_empty() {
            // Init of a container without /proc: all there is came from us.
            let _ = signals::kill(-1, signal);
        }
        let mut known: HashSet<tree::Id> = HashSet::new();
        for round in 0..ROUNDS {
            let Some(found) = rest else { return };
            let new: Vec<_> = found.iter().filter(|process| known.insert(process.id)).collect();
            if new.is_empty() {
                return;
            }
            let in_group = |process: &tree::Process| process.group == self.pid.as_raw();
            if self.group == Group::Own && (self.reaped || round > 0) && new.iter().any(|process| in_group(process)) {
                // Nothing can be born between the members' deaths; and while it has members, the number is the job's.
                let _ = signals::kill(-self.pid.as_raw(), signal);
            }
            for process in new.iter().filter(|process| !self.is_reached(process)) {
                process.id.signal(signal);
            }
            if signal != Signal::KILL {
                self.seen.replace(found);
                return;
            }
            // A process that forks while we walk has left a child that we have not seen.
            rest = self.descendants();
        }
    }

    /// Whether the command and the rest of its group, or of all that came of it, is gone.
    pub(crate) fn rest_is_gone(&self, rest: Rest) -> bool {
        self.reaped
            && match (rest, self.group) {
                (Rest::Tree, _) => self.tree_is_gone(),
                (Rest::Group, Group::Own) => self.own_group_is_gone(),
                // Our caller and its pipeline are in it too.
                (Rest::Group, Group::Shared) => self.descendants().map_or_else(
                    || self.tree_is_gone(),
                    |rest| !rest.iter().any(|process| process.group == getpgrp().as_raw()),
                ),
            }
    }

    /// Every descendant that loses its parent becomes our child, so there is none when we have no child.
    fn tree_is_gone(&self) -> bool {
        if self.strangers.is_empty() {
            return !wait::has_children();
        }
        tree::children().map_or_else(
            || self.descendants().is_some_and(|rest| rest.is_empty()),
            |children| children.iter().all(|child| self.strangers.contains(child)),
        )
    }

    fn own_group_is_gone(&self) -> bool {
        let group = self.pid.as_raw();
        // What has not been reaped yet still counts as a member.
        !signals::group_exists(group)
            || tree::all().is_some_and(|all| tree::shows_all(&all) && !all.iter().any(|process| process.group == group))
    }

    fn signal_command(&self, signal: Signal) {
        if self.group == Group::Own {
            let _ = signals::kill(-self.pid.as_raw(), signal);
        }
        // Not twice; but a command may leave the group that we made for it.
        if self.group == Group::Shared || getpgid(Some(self.pid)) != Ok(self.pid) {
            let _ = signals::kill(self.pid.as_raw(), signal);
        }
    }

    fn signal_rest(&self, signal: Signal, rest: &[tree::Process]) {
        match self.group {
            // As long as it has members that came of the command, the group's number is not another's.
            Group::Own if rest.iter().any(|process| process.group == self.pid.as_raw()) => {
                let _ = signals::kill(-self.pid.as_raw(), signal);
            }
            Group::Own => {}
            Group::Shared => {
                for process in rest {
                    process.id.signal(signal);
                }
            }
        }
    }

    fn descendants(&self) -> Option<Vec<tree::Process>> {
        tree::descendants(&self.strangers)
    }

    /// Whether a signal to the command, or to its own group, reaches this too.
    fn is_reached(&self, process: &tree::Process) -> bool {
        self.is_command(process) || self.group == Group::Own && process.group == self.pid.as_raw()
    }

    /// Whether this is the command, which [`Job::signal_command`] reached.
    fn is_command(&self, process: &tree::Process) -> bool {
        !self.reaped && process.id.pid == self.pid.as_raw()
    }
}

/// Reaps whatever of our children has ended, and tells what became of them; the job's end comes as the job's, and after that
/// of the others: when it is heard it is asked whether anything is left, and then how the rest has ended would be too late.
pub(crate) fn reap(job: &mut Option<Job>) -> Vec<Event> {
    let (mut orphans, mut events) = (Vec::new(), Vec::new());
    while let Some(change) = wait::next_change() {
        let ours = job.as_mut().filter(|job| job.pid.as_raw() == change.pid && !job.reaped);
        match (change.what, ours) {
            (wait::What::Ended(end), Some(job)) => {
                job.reaped = true;
                events.push(Event::JobEnded(end));
            }
            (wait::What::Ended(end), None) => {
                if let Some(job) = job {
                    // The number may become one of the job's.
                    job.strangers.retain(|stranger| *stranger != change.pid);
                }
                orphans.push(Event::OrphanEnded(end));
            }
            // That we hold it is no news.
            (wait::What::Stopped(Signal::STOP), Some(job)) if job.held.is_some() => {}
            (wait::What::Stopped(signal), Some(_)) => events.push(Event::JobStopped(signal)),
            (wait::What::Stopped(_), None) => {}
        }
    }
    orphans.extend(events);
    orphans
}

#[cfg(test)]
mod tests {
    use super::scene::{Scene, lives, wait_until};

    /// A command that leaves a process in its group and one with its own session behind.
    const LEAVES: &str = "(sh linger member & setsid sh linger daemon &)
        until [ -e member ] && [ -e daemon ]; do sleep 0.01; done";

    #[test]
    fn the_rest_of_an_own_group_is_waited_for_and_gets_signals() {
        let mut scene = Scene::new("own", LEAVES);
        let [member, daemon] = ["member", "daemon"].map(|file| scene.process(file));
        assert_eq!(scene.say("gone group"), "false");
        scene.see_the_end();
        assert_eq!((scene.say("gone group"), scene.say("gone tree")), ("false".into(), "false".into()));
        scene.say("signal 15");
        wait_until("the group is gone", || scene.say("gone group") == "true");
        assert!(!lives(&member) && lives(&daemon));
        // There is no group any more to send anything to.
        scene.say("signal 9");
        assert!(lives(&daemon));
        assert_eq!(scene.say("gone tree"), "false");
        scene.say("tree 9");
        wait_until("the tree is gone", || scene.say("gone tree") == "true");
        assert!(!lives(&daemon) && scene.has_spared_the_stranger());
    }

    #[test]
    fn of_a_shared_group_only_what_came_of_the_command_counts() {
        let mut scene = Scene::new("shared", LEAVES);
        let [member, daemon] = ["member", "daemon"].map(|file| scene.process(file));
        scene.see_the_end();
        assert_eq!(scene.say("gone group"), "false");
        member.id.signal(crate::signal::Signal::KILL);
        // The test and the stranger are in it still.
        wait_until("the group is gone", || scene.say("gone group") == "true");
        assert_eq!((lives(&daemon), scene.say("gone tree")), (true, "false".into()));
        scene.say("signal 15");
        wait_until("the tree is gone", || scene.say("gone tree") == "true");
        assert!(scene.has_spared_the_stranger());
    }

    #[test]
    fn one_kill_ends_a_job_that_breeds_as_we_look() {
        // Every child leads a session of its own and is soon an orphan, so each has to be found.
        let script = "perl -MPOSIX -e 'open(F, \">breeding\"); for (1..3000) { last unless -d $ENV{HERE}; \
            fork or do { setsid(); sleep 100; exit }; select(undef, undef, undef, 0.0005) }; sleep 100' & \
            echo $$ > command; wait";
        let mut scene = Scene::new("own", &format!("setsid sh -c '{}' & wait", script.replace('\'', "'\\''")));
        scene.process("command");
        wait_until("it breeds", || scene.rest().len() > 20);
        scene.say("tree 9");
        wait_until("nothing is left", || scene.rest().is_empty());
    }
}
