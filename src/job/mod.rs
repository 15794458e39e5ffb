//! The job as processes: started, signalled, frozen, reaped, ended. This layer decides nothing.
//!
//! All `unsafe` of the program is in this folder. Only the main thread starts, reaps and signals processes: a
//! parent-death signal is tied to the thread that forked, and a pid is certain only for who reaps it.

mod children;
mod environ;
mod freeze;
mod guard;
mod guardian;
mod launch;
mod leftovers;
mod notifier;
mod process;
#[cfg(test)]
mod scene;
mod signals;
mod spawn;
mod tree;
mod wait;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::time::{Duration, Instant};

pub(crate) use environ::Environment;
pub(crate) use guard::guard;
pub(crate) use guardian::Guardian;
pub(crate) use guardian::NAME as GUARDIAN;
use nix::unistd::{Pid, getpgid, getpid};
pub(crate) use notifier::{HURRY, NAME as NOTIFIER, Notifier, notify};
pub(crate) use process::{arguments, exit, fill_standard_descriptors, stdout_was_closed, write_now};
pub(crate) use signals::{Inherited, Signals, ignore_pipe, raise_and_die, stop_ourselves};
pub(crate) use spawn::Command;
use spawn::Plan;

use crate::run::{Event, Group, JobEnd};
use crate::system::Signal;
use children::{ChildList, Search};
use freeze::Frozen;
use launch::Launched;

/// A command that was started.
pub(crate) struct Job {
    pid: Pid,
    /// The command's identity, once a guardian knows it.
    id: Cell<Option<tree::Id>>,
    group: Group,
    reaped: bool,
    /// The child that is to become the command, and may not be it yet.
    launched: Launched<Plan>,
    /// Children of ours that are not part of the job: those from before, the guardian, and what runs the command of
    /// `--notify`.
    unrelated_children: Vec<i32>,
    /// Those of them that were reaped.
    ended: Vec<(i32, JobEnd)>,
    /// Searches for children of the job where /proc does not show them.
    search: Search,
    frozen: Option<Frozen>,
    /// A SIGCONT came while the job was frozen.
    continue_later: Cell<bool>,
    /// The processes that the last signal to the whole tree reached.
    seen: RefCell<Vec<tree::Process>>,
    /// The events of the command, and the end of an orphan, that were not returned yet.
    untold: Vec<Event>,
    orphan: Option<JobEnd>,
}

/// The number of searches for newly born descendants before other events get their turn.
const ROUNDS: usize = 10;
/// The number of children that are reaped before other events get their turn.
const BATCH: usize = 256;
/// The time for chasing descendants that fork before other events get their turn, and the time without a birth after
/// which /proc is walked again.
const CHASE: Duration = Duration::from_millis(40);
const CALM: Duration = Duration::from_millis(5);

impl Job {
    fn new(launched: Launched<Plan>, group: Group, unrelated_children: Vec<i32>) -> Self {
        Self {
            pid: launched.pid,
            id: Cell::new(None),
            group,
            reaped: false,
            launched,
            unrelated_children,
            ended: Vec::new(),
            search: Search::default(),
            frozen: None,
            continue_later: Cell::new(false),
            seen: RefCell::default(),
            untold: Vec::new(),
            orphan: None,
        }
    }

    /// Sends a signal to the job's own group, or to the command alone where the group is shared with others. Once the
    /// command was reaped, the rest of the group gets it, or in a shared group the rest of the tree. SIGCONT waits
    /// until the job is let go.
    pub(crate) fn signal(&self, signal: Signal) {
        if signal == Signal::CONT && self.frozen.is_some() {
            self.continue_later.set(true);
        } else if self.reaped {
            self.signal_rest(signal, &self.descendants().unwrap_or_default());
        } else {
            self.signal_command(signal);
        }
    }

    /// Sends a signal to the command, its own group, and every descendant of ours.
    pub(crate) fn signal_tree(&mut self, signal: Signal) {
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
        if rest.is_none() && std::process::id() == 1 && self.unrelated_children.is_empty() {
            // Init of a container without /proc: all there is came from us.
            let _ = signals::kill(-1, signal);
        }
        let mut known: HashSet<tree::Id> = HashSet::new();
        let mut began = Instant::now();
        for round in 0..ROUNDS {
            let Some(found) = rest else { return };
            let new: Vec<_> = found.iter().filter(|process| known.insert(process.id)).collect();
            let none_new = new.is_empty();
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
            if round == 0 {
                began = Instant::now();
            }
            if self.chase(began) || none_new || began.elapsed() > CHASE {
                return;
            }
            rest = self.descendants();
        }
    }

    /// Forgets a guardian that is gone: its number may become one of the job's.
    pub(crate) fn forget(&mut self, guardian: Pid) {
        self.unrelated_children.retain(|stranger| *stranger != guardian.as_raw());
    }

    /// Kills and reaps whatever becomes our child. A process that forks and ends as fast as it can is gone before a
    /// walk through /proc reaches it; but its orphan is our newest child, and the list of these is read in an instant.
    /// Returns whether nothing is left.
    fn chase(&mut self, began: Instant) -> bool {
        let Some(list) = ChildList::open(getpid().as_raw()) else { return false };
        let mut killed = HashSet::new();
        let mut born = Instant::now();
        while began.elapsed() < CHASE && born.elapsed() < CALM {
            let Some(mut ours) = list.read() else { return false };
            ours.retain(|child| !self.unrelated_children.contains(child));
            if ours.is_empty() {
                return true;
            }
            for child in ours.iter().rev().filter(|child| killed.insert(**child)) {
                // Nobody else can have the number before we reap.
                let _ = signals::kill(*child, Signal::KILL);
                born = Instant::now();
            }
            let reaped: Vec<wait::Change> = std::iter::from_fn(wait::next_change).take(BATCH).collect();
            if reaped.is_empty() {
                std::thread::yield_now();
            }
            for change in reaped {
                killed.remove(&change.pid);
                self.note(change);
            }
        }
        false
    }

    /// Notes what became of a child. All orphans are one event, since after each the same is asked; that one of them
    /// was killed is what matters.
    fn note(&mut self, change: wait::Change) {
        let is_command = change.pid == self.pid.as_raw() && !self.reaped;
        match change.what {
            wait::What::Ended(end) if is_command => {
                self.reaped = true;
                self.search.restart();
                self.untold.push(self.launched.spawn_error().map_or(Event::JobEnded(end), Event::SpawnFailed));
            }
            wait::What::Ended(end) => {
                self.search.restart();
                if let Some(place) = self.unrelated_children.iter().position(|stranger| *stranger == change.pid) {
                    // The number may become one of the job's.
                    self.unrelated_children.remove(place);
                    self.ended.push((change.pid, end));
                }
                if self.orphan.is_none() || end == JobEnd::Killed(Signal::KILL) {
                    self.orphan = Some(end);
                }
            }
            // That we froze it is no news.
            wait::What::Stopped(Signal::STOP) if self.frozen.is_some() => {}
            wait::What::Stopped(signal) if is_command => self.untold.push(Event::JobStopped(signal)),
            wait::What::Stopped(_) => {}
        }
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
        tree::descendants(&self.unrelated_children)
    }

    /// Returns whether a signal to the command, or to its own group, reaches this process too.
    fn is_reached(&self, process: &tree::Process) -> bool {
        self.is_command(process) || self.group == Group::Own && process.group == self.pid.as_raw()
    }

    /// Returns whether a process is the command, which [`Job::signal_command`] reached.
    fn is_command(&self, process: &tree::Process) -> bool {
        !self.reaped && process.id.pid == self.pid.as_raw()
    }
}

/// Reaps what has ended of our children, and returns what became of them. The job's end comes last: when it is heard
/// it is asked whether anything is left, and then how the rest has ended would be too late.
pub(crate) fn reap(job: &mut Option<Job>) -> Vec<Event> {
    let changes: Vec<wait::Change> = std::iter::from_fn(wait::next_change).take(BATCH).collect();
    if changes.len() == BATCH {
        // Signals and deadlines get their turn, and then this comes again.
        let _ = signals::kill(getpid().as_raw(), Signal::CHLD);
    }
    let Some(job) = job else { return Vec::new() };
    for change in changes {
        job.note(change);
    }
    if job.search.is_under_way() {
        // It is looked again whether anything is left.
        job.orphan.get_or_insert(JobEnd::Exited(0));
    }
    let orphan = job.orphan.take().map(Event::OrphanEnded);
    orphan.into_iter().chain(job.untold.drain(..)).collect()
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
        member.id.signal(crate::system::Signal::KILL);
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

    /// A job that leaves a chain of generations behind: each process forks, leads a session of its own, beats, and
    /// ends.
    fn chain(until: &str) -> String {
        let perl = format!(
            "perl -MPOSIX -e '$SIG{{CHLD}} = \"IGNORE\"; $| = 1; open(B, \">>beats\"); for (1..{until}) {{ \
             last unless -d $ENV{{HERE}}; my $pid = fork; POSIX::_exit(0) if $pid; setsid(); syswrite(B, \".\"); \
             select(undef, undef, undef, 0.0005) }} open(F, \">over\")' &"
        );
        format!("{perl} until [ -s beats ]; do sleep 0.01; done")
    }

    #[test]
    fn a_tree_that_forks_and_ends_all_the_time_is_not_gone_before_its_last_generation() {
        let mut scene = Scene::new("own", &chain("500"));
        scene.see_the_end();
        wait_until("the tree is gone", || scene.say("gone tree") == "true");
        assert!(scene.place().join("over").exists());
        assert!(scene.has_spared_the_stranger());
    }

    #[test]
    fn a_tree_that_forks_and_ends_all_the_time_is_dead_when_it_is_gone() {
        let mut scene = Scene::new("own", &chain("1e9"));
        scene.see_the_end();
        wait_until("the tree is gone", || {
            scene.say("tree 9");
            scene.say("gone tree") == "true"
        });
        let beats = || std::fs::metadata(scene.place().join("beats")).unwrap().len();
        let before = beats();
        // Hundreds of generations would live in that time.
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(beats(), before);
        assert!(scene.has_spared_the_stranger());
    }

    #[test]
    fn what_is_reaped_at_once_is_bounded_and_the_rest_is_announced() {
        let script = "for i in $(seq 600); do (setsid sh -c 'echo >> orphans; exit' &) ; done; echo > over";
        let mut scene = Scene::new("own", script);
        wait_until("all orphans", || {
            std::fs::read_to_string(scene.place().join("orphans")).is_ok_and(|all| all.len() == 600)
        });
        wait_until("the end", || scene.place().join("over").exists());
        wait_until("all are zombies", || scene.rest().is_empty());
        let told = [(); 4].map(|()| scene.say("reap"));
        assert_eq!(told, ["[\"OrphanEnded\", \"JobEnded\"]", "[\"OrphanEnded\"]", "[\"OrphanEnded\"]", "[]"]);
        assert_eq!(scene.say("gone tree"), "true");
    }
}
