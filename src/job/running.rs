//! A job that was started: the command and all that came of it. It is signalled, reaped and killed here.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Instant;

use nix::unistd::{Pid, getpgid, getpid};

use super::children::{self, ChildList, Search};
use super::limits::{MAX_HUNT, MAX_REAPED, MAX_SEARCHES, QUIET_AFTER};
use super::signals::{self, Inherited};
use super::spawn::{Command, Plan};
use super::{tree, wait};
use crate::run::{Event, Group, JobEnd, SpawnError};
use crate::system::Environment;
use crate::system::launch::Launched;
use crate::system::{HelperEnd, Helpers, Moment, Signal};

/// A command that was started.
pub(crate) struct Job {
    pub(super) pid: Pid,
    /// The command's identity, once a guardian knows it.
    pub(super) id: Cell<Option<tree::Id>>,
    pub(super) group: Group,
    pub(super) reaped: bool,
    /// The child that is to become the command, and may not be it yet.
    launched: Launched<Plan>,
    /// Children of shedlock that are not part of the job: those from before, the guardian, and what runs the command of
    /// `--notify`.
    pub(super) unrelated_children: Vec<i32>,
    /// The programs of shedlock's own, which come and go.
    helpers: Helpers,
    /// The helpers' ends that were noted.
    helper_ends: u64,
    /// The unrelated children that were reaped, and how they ended.
    pub(super) ended: Vec<(i32, JobEnd)>,
    /// The kernel's list of shedlock's children. It stays open: somebody may take away shedlock's right to open files.
    children: OnceCell<ChildList>,
    /// Searches for children of the job where /proc does not show them.
    pub(super) search: Search,
    pub(super) frozen: Option<Frozen>,
    /// A SIGCONT came while the job was frozen.
    pub(super) cont_pending: Cell<bool>,
    /// The processes that the last signal to the whole tree reached.
    last_signalled: RefCell<Vec<tree::Process>>,
    /// The events of the command, and the end of an orphan, that were not returned yet.
    pending_events: Vec<Event>,
    orphan: Option<JobEnd>,
}

/// The processes that shedlock stopped.
pub(super) enum Frozen {
    /// These processes, and no other: a process that stopped itself is not continued.
    Processes(HashSet<tree::Id>),
    /// Everything that [`Job::signal_command`] reaches, where there is no /proc.
    Blindly,
}

impl Job {
    /// Starts the command with `environment`, and with the signals as shedlock found them. If it takes long to execute,
    /// that it cannot be comes as the job's end. `unrelated_children` are none of the job's: those that a guardian has
    /// found, or without one those that are found now.
    pub(crate) fn start(
        command: &Rc<Command>,
        environment: Environment,
        inherited: Inherited,
        start_before: Option<Moment>,
        unrelated_children: Option<Vec<i32>>,
        helpers: Helpers,
    ) -> Result<Self, SpawnError> {
        tree::adopt_orphans();
        // Nothing else was started since the guardian looked.
        let unrelated_children = unrelated_children.unwrap_or_else(|| children::children_from_before(&helpers));
        let launched = command.launch(environment, inherited, start_before)?;
        Ok(Self::new(launched, command.group(), unrelated_children, helpers))
    }

    fn new(launched: Launched<Plan>, group: Group, unrelated_children: Vec<i32>, helpers: Helpers) -> Self {
        let helper_ends = helpers.ends();
        let job = Self {
            pid: launched.pid,
            id: Cell::new(None),
            group,
            reaped: false,
            launched,
            unrelated_children,
            helpers,
            helper_ends,
            ended: Vec::new(),
            children: OnceCell::new(),
            search: Search::default(),
            frozen: None,
            cont_pending: Cell::new(false),
            last_signalled: RefCell::default(),
            pending_events: Vec::new(),
            orphan: None,
        };
        if !job.unrelated_children.is_empty() {
            // Where all children are the job's, nothing has to be told apart.
            job.children();
        }
        job
    }

    /// Returns the kernel's list of shedlock's children, if it has one.
    pub(super) fn children(&self) -> Option<&ChildList> {
        match self.children.get() {
            None => ChildList::open(getpid().as_raw()).map(|list| self.children.get_or_init(|| list)),
            list => list,
        }
    }

    /// Sends a signal to the job's own group, or to the command alone where the group is shared with others. Once the
    /// command was reaped, the rest of the group gets it, or in a shared group the rest of the tree. SIGCONT waits
    /// until the job is let go.
    pub(crate) fn signal(&self, signal: Signal) {
        if signal == Signal::CONT && self.frozen.is_some() {
            self.cont_pending.set(true);
        } else if self.reaped {
            self.signal_rest(signal, &self.descendants().unwrap_or_default());
        } else {
            self.signal_command(signal);
        }
    }

    /// Sends a signal to the command, its own group, and every descendant of shedlock.
    pub(crate) fn signal_tree(&mut self, signal: Signal) {
        // The known processes come before the walk, which takes its time on an overloaded machine.
        if !self.reaped {
            self.signal_command(signal);
        }
        let seen = self.last_signalled.take();
        if matches!(signal, Signal::KILL | Signal::CONT) {
            for process in seen.iter().filter(|process| self.reaped || !self.is_signalled_with_command(process)) {
                process.id.signal(signal);
            }
        }
        if signal == Signal::CONT && !seen.is_empty() {
            // It is for the processes that got the signal before.
            self.last_signalled.replace(seen);
            return;
        }
        let mut rest = self.descendants();
        if rest.is_none() && std::process::id() == 1 && self.unrelated_children.is_empty() {
            // Init of a container without /proc: all there is came from shedlock.
            let _ = signals::kill(-1, signal);
        }
        let mut known: HashSet<tree::Id> = HashSet::new();
        let mut began = Instant::now();
        for round in 0..MAX_SEARCHES {
            let Some(found) = rest else {
                if signal == Signal::KILL {
                    self.chase(Instant::now());
                }
                return;
            };
            let new: Vec<_> = found.iter().filter(|process| known.insert(process.id)).collect();
            let none_new = new.is_empty();
            let in_group = |process: &tree::Process| process.group == self.pid.as_raw();
            if self.group == Group::Own && (self.reaped || round > 0) && new.iter().any(|process| in_group(process)) {
                // Nothing can be born between the members' deaths; and while it has members, the number is the job's.
                let _ = signals::kill(-self.pid.as_raw(), signal);
            }
            for process in new.iter().filter(|process| !self.is_signalled_with_command(process)) {
                process.id.signal(signal);
            }
            if signal != Signal::KILL {
                self.last_signalled.replace(found);
                return;
            }
            if round == 0 {
                began = Instant::now();
            }
            if self.chase(began) || none_new || began.elapsed() > MAX_HUNT {
                return;
            }
            rest = self.descendants();
        }
    }

    /// Forgets a guardian that is gone: its number may become one of the job's.
    pub(crate) fn forget_child(&mut self, guardian: Pid) {
        self.unrelated_children.retain(|unrelated| *unrelated != guardian.as_raw());
    }

    /// Kills and reaps whatever becomes shedlock's child. A process that forks and ends as fast as it can is gone before a
    /// walk through /proc reaches it; but its orphan is shedlock's newest child, and the list of these is read in an instant.
    /// Returns whether nothing is left.
    pub(super) fn chase(&mut self, began: Instant) -> bool {
        let mut killed = HashSet::new();
        let mut born = Instant::now();
        while began.elapsed() < MAX_HUNT && born.elapsed() < QUIET_AFTER {
            let Some(mut ours) = self.children().and_then(ChildList::read) else { return false };
            ours.retain(|child| !self.is_unrelated(*child));
            if ours.is_empty() {
                return true;
            }
            for child in ours.iter().rev().filter(|child| killed.insert(**child)) {
                // No other process can have the number before shedlock reaps.
                let _ = signals::kill(*child, Signal::KILL);
                born = Instant::now();
            }
            let reaped: Vec<wait::Change> = std::iter::from_fn(wait::next_change).take(MAX_REAPED).collect();
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

    /// Notes what became of a child. All orphans are one event, because after each the same is asked; that one of them
    /// was killed is what matters.
    pub(super) fn note(&mut self, change: wait::Change) {
        let is_command = change.pid == self.pid.as_raw() && !self.reaped;
        match change.kind {
            wait::ChangeKind::Ended(end) if is_command => {
                self.reaped = true;
                self.search.restart();
                self.pending_events.push(self.launched.spawn_error().map_or(Event::JobEnded(end), Event::SpawnFailed));
            }
            // That something has ended is noted with the next look at the helpers.
            wait::ChangeKind::Ended(end) if self.helpers.note_end(change.pid, helper_end(end)) => {}
            wait::ChangeKind::Ended(end) => {
                self.search.restart();
                if let Some(place) = self.unrelated_children.iter().position(|unrelated| *unrelated == change.pid) {
                    // The number may become one of the job's.
                    self.unrelated_children.remove(place);
                    self.ended.push((change.pid, end));
                }
                if self.orphan.is_none() || end == JobEnd::Killed(Signal::KILL) {
                    self.orphan = Some(end);
                }
            }
            // That shedlock froze it is no news.
            wait::ChangeKind::Stopped(Signal::STOP) if self.frozen.is_some() => {}
            wait::ChangeKind::Stopped(signal) if is_command => self.pending_events.push(Event::JobStopped(signal)),
            wait::ChangeKind::Stopped(_) => {}
        }
    }

    pub(super) fn signal_command(&self, signal: Signal) {
        if self.group == Group::Own {
            let _ = signals::kill(-self.pid.as_raw(), signal);
        }
        // Not twice; but a command may leave the group that shedlock made for it.
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

    pub(super) fn descendants(&self) -> Option<Vec<tree::Process>> {
        tree::descendants(|| self.all_unrelated())
    }

    /// Returns all children that are not part of the job. Ask after a look at the processes, see [`Helpers::living`].
    pub(super) fn all_unrelated(&self) -> Vec<i32> {
        [self.unrelated_children.as_slice(), &self.helpers.living()].concat()
    }

    /// Returns whether a child that was seen is not part of the job.
    pub(super) fn is_unrelated(&self, child: i32) -> bool {
        self.unrelated_children.contains(&child) || self.helpers.contains(child)
    }

    /// Returns whether a signal to the command, or to its own group, reaches this process too.
    fn is_signalled_with_command(&self, process: &tree::Process) -> bool {
        self.is_command(process) || self.group == Group::Own && process.group == self.pid.as_raw()
    }

    /// Returns whether a process is the command, which [`Job::signal_command`] reached.
    fn is_command(&self, process: &tree::Process) -> bool {
        !self.reaped && process.id.pid == self.pid.as_raw()
    }
}

fn helper_end(end: JobEnd) -> HelperEnd {
    match end {
        JobEnd::Exited(code) => HelperEnd::Exited(code.into()),
        JobEnd::Killed(signal) => HelperEnd::Killed(signal),
        JobEnd::NotStarted(_) => HelperEnd::Unknown,
    }
}

/// Reaps what has ended of shedlock's children, and returns what became of them. The job's end comes last: when it is heard
/// it is asked whether anything is left, and then how the rest has ended would be too late.
pub(crate) fn reap(job: &mut Option<Job>, helpers: &Helpers) -> Vec<Event> {
    let changes: Vec<wait::Change> = std::iter::from_fn(wait::next_change).take(MAX_REAPED).collect();
    if changes.len() == MAX_REAPED {
        // Signals and deadlines get their turn, and then this comes again.
        let _ = signals::kill(getpid().as_raw(), Signal::CHLD);
    }
    let Some(job) = job else {
        for change in changes {
            if let wait::ChangeKind::Ended(end) = change.kind {
                helpers.note_end(change.pid, helper_end(end));
            }
        }
        return Vec::new();
    };
    for change in changes {
        job.note(change);
    }
    let helper_ends = job.helpers.ends();
    if std::mem::replace(&mut job.helper_ends, helper_ends) != helper_ends {
        // Whoever reaped it: it may have been all that was left beside the job.
        job.search.restart();
        job.orphan.get_or_insert(JobEnd::Exited(0));
    }
    if job.search.is_under_way() {
        // It is looked again whether anything is left.
        job.orphan.get_or_insert(JobEnd::Exited(0));
    }
    let orphan = job.orphan.take().map(Event::OrphanEnded);
    orphan.into_iter().chain(job.pending_events.drain(..)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::test_job::{TestJob, lives, wait_until};

    /// A command that leaves a process in its group and one with its own session behind.
    const LEAVES: &str = "(sh linger member & setsid sh linger daemon &)
        until [ -e member ] && [ -e daemon ]; do sleep 0.01; done";

    #[test]
    fn the_rest_of_an_own_group_is_waited_for_and_gets_signals() {
        let mut test_job = TestJob::new("own", LEAVES);
        let [member, daemon] = ["member", "daemon"].map(|file| test_job.process(file));
        assert_eq!(test_job.say("gone group"), "false");
        test_job.see_the_end();
        assert_eq!((test_job.say("gone group"), test_job.say("gone tree")), ("false".into(), "false".into()));
        test_job.say("signal 15");
        wait_until("the group is gone", || test_job.say("gone group") == "true");
        assert!(!lives(&member) && lives(&daemon));
        // There is no group any more to send anything to.
        test_job.say("signal 9");
        assert!(lives(&daemon));
        assert_eq!(test_job.say("gone tree"), "false");
        test_job.say("tree 9");
        wait_until("the tree is gone", || test_job.say("gone tree") == "true");
        assert!(!lives(&daemon) && test_job.has_spared_the_unrelated_child());
    }

    #[test]
    fn of_a_shared_group_only_what_came_of_the_command_counts() {
        let mut test_job = TestJob::new("shared", LEAVES);
        let [member, daemon] = ["member", "daemon"].map(|file| test_job.process(file));
        test_job.see_the_end();
        assert_eq!(test_job.say("gone group"), "false");
        member.id.signal(crate::system::Signal::KILL);
        // The test and the unrelated are in it still.
        wait_until("the group is gone", || test_job.say("gone group") == "true");
        assert_eq!((lives(&daemon), test_job.say("gone tree")), (true, "false".into()));
        test_job.say("signal 15");
        wait_until("the tree is gone", || test_job.say("gone tree") == "true");
        assert!(test_job.has_spared_the_unrelated_child());
    }

    #[test]
    fn one_kill_ends_a_job_that_breeds_as_we_look() {
        // Every child leads a session of its own and is soon an orphan, so each has to be found.
        let script = "perl -MPOSIX -e 'open(F, \">breeding\"); for (1..3000) { last unless -d $ENV{HERE}; \
            fork or do { setsid(); sleep 100; exit }; select(undef, undef, undef, 0.0005) }; sleep 100' & \
            echo $$ > command; wait";
        let mut test_job = TestJob::new("own", &format!("setsid sh -c '{}' & wait", script.replace('\'', "'\\''")));
        test_job.process("command");
        wait_until("it breeds", || test_job.rest().len() > 20);
        test_job.say("tree 9");
        wait_until("nothing is left", || test_job.rest().is_empty());
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
        let mut test_job = TestJob::new("own", &chain("500"));
        test_job.see_the_end();
        wait_until("the tree is gone", || test_job.say("gone tree") == "true");
        assert!(test_job.place().join("over").exists());
        assert!(test_job.has_spared_the_unrelated_child());
    }

    #[test]
    fn a_tree_that_forks_and_ends_all_the_time_is_dead_when_it_is_gone() {
        let mut test_job = TestJob::new("own", &chain("1e9"));
        test_job.see_the_end();
        wait_until("the tree is gone", || {
            test_job.say("tree 9");
            test_job.say("gone tree") == "true"
        });
        let beats = || std::fs::metadata(test_job.place().join("beats")).unwrap().len();
        let before = beats();
        // Hundreds of generations would live in that time.
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(beats(), before);
        assert!(test_job.has_spared_the_unrelated_child());
    }

    #[test]
    fn what_is_reaped_at_once_is_bounded_and_the_rest_is_announced() {
        let script = "for i in $(seq 600); do (setsid sh -c 'echo >> orphans; exit' &) ; done; echo > over";
        let mut test_job = TestJob::new("own", script);
        wait_until("all orphans", || {
            std::fs::read_to_string(test_job.place().join("orphans")).is_ok_and(|all| all.len() == 600)
        });
        wait_until("the end", || test_job.place().join("over").exists());
        wait_until("all are zombies", || test_job.rest().is_empty());
        let told = [(); 4].map(|()| test_job.say("reap"));
        assert_eq!(told, ["[\"OrphanEnded\", \"JobEnded\"]", "[\"OrphanEnded\"]", "[\"OrphanEnded\"]", "[]"]);
        assert_eq!(test_job.say("gone tree"), "true");
    }
}
