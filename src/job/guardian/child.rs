//! The guardian's side: it waits for shedlock's death, or for a deadline, and then ends the whole job.
//!
//! It knows the job's processes in four ways: the command's own group; the processes that have the run's owner in their
//! environment, wherever they went; whatever descends from these; and, while shedlock lives, all that descends from
//! shedlock. A process with other rights is out of its reach, and one that left the group, lost its parent and cleared
//! its environment is not found after shedlock's death.

use std::collections::HashSet;
use std::fs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::getppid;

use super::super::limits::{MAX_HUNT, MAX_SEARCHES, QUIET_AFTER};
use super::super::tree::{self, Delivery, Id, Process};
use super::super::{process, signals};
use super::descriptors::{close_listed, close_others};
use super::message::Message;
use crate::run::Group;
use crate::system::Moment;
use crate::system::Signal;

/// The variable with the owners of all runs that enclose a process.
const OWNERS: &[u8] = b"SHEDLOCK_LOCK_OWNERS=";
/// The pause after a kill: the first, the longest, and that for processes which do not vanish.
const FIRST_KILL_PAUSE: Duration = Duration::from_millis(5);
const LONG_KILL_PAUSE: Duration = Duration::from_millis(50);
const STUCK_KILL_PAUSE: Duration = Duration::from_secs(1);
/// The number of newest pids that are searched when a job keeps forking.
const NEWEST_PIDS: i32 = 32;

/// Describes the job that the guardian watches, and until when it may live.
struct Watch {
    ourselves: Id,
    parent: i32,
    owner: Vec<u8>,
    unrelated_children: Vec<i32>,
    job: Option<(Id, Group)>,
    deadline: Option<Duration>,
    /// Processes that refused a signal.
    refused: HashSet<Id>,
}

/// Runs the guardian until its shedlock kills it because the job has ended.
pub(crate) fn run_guardian() -> ! {
    // A `killall shedlock` does not find it, because that is when it is needed.
    let _ = nix::sys::prctl::set_name(c"guardian");
    // Root's guardian is let in first on a busy machine, where its margin is the shortest. Others may not ask for that.
    let _ = rustix::process::nice(-20);
    if close_others().is_err() {
        close_listed();
    }
    let pid = i32::try_from(std::process::id()).unwrap_or_default();
    let done = Process::find(pid).ok_or(Errno::ENOENT).and_then(|process| Watch::new(process.id).watch());
    process::exit(u8::from(done.is_err()))
}

impl Watch {
    fn new(ourselves: Id) -> Self {
        let (owner, unrelated_children, refused) = (Vec::new(), Vec::new(), HashSet::new());
        Self { ourselves, parent: 0, owner, unrelated_children, job: None, deadline: None, refused }
    }

    /// Waits for shedlock's messages, and ends the job when its deadline comes or shedlock dies.
    fn watch(mut self) -> nix::Result<()> {
        // On the boot clock, as the lease is: it goes on while the machine sleeps.
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        let mut unread = Vec::new();
        loop {
            // First, because a deadline that has passed may have been renewed in time.
            let open = read_available(&mut unread);
            while let Some(message) = Message::take(&mut unread) {
                self.apply(message);
            }
            if !open {
                self.end_job();
                return Ok(());
            }
            if self.deadline.is_some_and(|deadline| deadline <= Moment::now().since_boot()) {
                self.end_job();
                self.deadline = None;
                continue;
            }
            match self.deadline {
                None => timer.unset()?,
                Some(at) => {
                    let at = Expiration::OneShot(TimeSpec::from_duration(at));
                    timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
                }
            }
            let pipe = std::io::stdin();
            let mut ready =
                [PollFd::new(pipe.as_fd(), PollFlags::POLLIN), PollFd::new(timer.as_fd(), PollFlags::POLLIN)];
            if let Err(error) = poll(&mut ready, PollTimeout::NONE)
                && error != Errno::EINTR
            {
                return Err(error);
            }
        }
    }

    fn apply(&mut self, message: Message) {
        match message {
            Message::Owner { parent, owner } => (self.parent, self.owner) = (parent, owner),
            Message::UnrelatedChild(pid) => self.unrelated_children.push(pid),
            Message::ChildEnded(pid) => self.unrelated_children.retain(|child| *child != pid),
            Message::Job { id, group } => self.job = Some((id, group)),
            Message::Deadline(nanos) => self.deadline = nanos.map(Duration::from_nanos),
        }
    }

    /// Kills until nothing of the job is found. What hangs in the kernel is tried again for as long as it does.
    fn end_job(&mut self) {
        let mut known = HashSet::new();
        let (mut quiet, mut rounds_with_new, mut rounds_without) = (0, 0, 0);
        loop {
            let left = self.kill_what_is_found();
            let found_new = left.iter().filter(|id| known.insert(**id)).count() > 0;
            if left.is_empty() {
                // Once more: while a process executes another program, it shows no environment.
                quiet += 1;
                if quiet == 2 {
                    return;
                }
            } else {
                quiet = 0;
            }
            (rounds_with_new, rounds_without) =
                if found_new { (rounds_with_new + 1, 0) } else { (0, rounds_without + 1) };
            // A job that forks meanwhile is not given time for it.
            if !found_new || rounds_with_new % MAX_SEARCHES == 0 {
                std::thread::sleep(match rounds_without {
                    0..=3 => FIRST_KILL_PAUSE * 2_u32.pow(rounds_without),
                    4..=20 => LONG_KILL_PAUSE,
                    _ => STUCK_KILL_PAUSE,
                });
            }
        }
    }

    /// Kills all of the job that can be found, and returns what that was.
    fn kill_what_is_found(&mut self) -> Vec<Id> {
        let group = self.own_group();
        if let Some(group) = group {
            // At once, and no member can be born meanwhile.
            let _ = signals::kill(-group, Signal::KILL);
        }
        let Some(all) = tree::all() else { return Vec::new() };
        let mut except = self.unrelated_children.clone();
        except.push(self.ourselves.pid);
        let mut job: Vec<Process> = Vec::new();
        // As long as the guardian is its child, the number is shedlock's.
        if getppid().as_raw() == self.parent {
            except.push(self.parent);
            job.extend(tree::below(&all, &[self.parent], &except));
        }
        job.extend(all.iter().filter(|process| self.is_command_or_group(process, group)));
        let mut left = self.kill(&job);
        // Only now: to read an environment can take long, if its process hangs.
        let carriers = all.iter().filter(|process| !except.contains(&process.id.pid) && self.carries_owner(process));
        job.extend(carriers);
        let roots: Vec<i32> = job.iter().map(|process| process.id.pid).collect();
        job.extend(tree::below(&all, &roots, &except));
        left.extend(self.kill(&job));
        left.extend(self.chase(&except));
        left
    }

    /// Kills those of the job that were born last, and returns them. A process that forks and ends as fast as
    /// it can is gone before the walk through /proc reaches it; but the kernel says which number it gave last.
    fn chase(&mut self, except: &[i32]) -> Vec<Id> {
        let mut killed = Vec::new();
        let Some(mut last) = tree::newest().map(|newest| newest - NEWEST_PIDS) else { return killed };
        let (began, mut born) = (Instant::now(), Instant::now());
        while began.elapsed() < MAX_HUNT && born.elapsed() < QUIET_AFTER {
            let Some(newest) = tree::newest() else { break };
            // Numbers start anew from below.
            let first = if newest < last { 1 } else { last + 1 };
            let found = (first.max(newest - NEWEST_PIDS)..=newest).rev().filter_map(Process::find);
            for process in found.filter(|process| !except.contains(&process.id.pid)) {
                let is_child = process.parent == self.parent && getppid().as_raw() == self.parent;
                if is_child || self.carries_owner(&process) {
                    born = Instant::now();
                    killed.extend(self.kill(&[process]));
                }
            }
            last = newest;
        }
        killed
    }

    /// Kills processes, and returns those that lived.
    fn kill(&mut self, processes: &[Process]) -> Vec<Id> {
        let ids: HashSet<Id> = processes.iter().map(|process| process.id).collect();
        let mut left = Vec::new();
        for id in ids.difference(&self.refused.clone()) {
            match id.signal(Signal::KILL) {
                Delivery::Sent => left.push(*id),
                Delivery::Gone => {}
                Delivery::Refused => {
                    self.refused.insert(*id);
                }
            }
        }
        left
    }

    /// Returns the command's own group; `None` if another process has that number by now, which may lead a group of
    /// its own.
    fn own_group(&self) -> Option<i32> {
        let (id, _) = self.job.filter(|(_, group)| *group == Group::Own)?;
        tree::holder_of(id.pid).is_none_or(|holder| holder == id).then_some(id.pid)
    }

    /// Returns whether a process is the command, or in its group.
    fn is_command_or_group(&self, process: &Process, group: Option<i32>) -> bool {
        self.job.is_some_and(|(id, _)| process.id == id) || group == Some(process.group)
    }

    /// Returns whether a process's environment names this run. Such a process is younger than the guardian, or, if this one
    /// replaced another guardian, than the command.
    fn carries_owner(&self, process: &Process) -> bool {
        let oldest = self.job.map_or(self.ourselves.start, |(id, _)| id.start.min(self.ourselves.start));
        if self.owner.is_empty() || process.id.start < oldest {
            return false;
        }
        let environment = fs::read(format!("/proc/{}/environ", process.id.pid)).unwrap_or_default();
        let lists = environment.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(OWNERS));
        lists.flat_map(|list| list.split(|byte| *byte == b' ')).any(|owner| owner == self.owner)
    }
}

/// Reads what is there, and returns whether more may come.
fn read_available(unread: &mut Vec<u8>) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match nix::unistd::read(std::io::stdin(), &mut bytes) {
            Ok(0) => return false,
            Ok(count) => unread.extend_from_slice(&bytes[..count]),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return true,
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::test_job::{TestJob, lives, wait_until};
    use super::*;

    fn gone(all: &[Process]) -> bool {
        !all.iter().any(lives)
    }

    #[test]
    fn when_we_are_killed_the_group_and_what_bears_our_name_dies_too() {
        let mut test_job = TestJob::new(
            "own",
            "(env -u SHEDLOCK_LOCK_OWNERS sh linger member & setsid sh linger daemon &); exec sh linger command",
        );
        let job = ["member", "daemon", "command"].map(|file| test_job.process(file));
        let guardian = Process::find(test_job.guardian).unwrap();
        test_job.die();
        wait_until("the job is dead", || gone(&job));
        wait_until("the guardian is gone", || !lives(&guardian));
    }

    #[test]
    fn when_we_are_killed_what_descends_from_a_marked_process_dies_too() {
        let mut test_job = TestJob::new(
            "own",
            "(setsid sh -c 'echo $$ > marked; env -u SHEDLOCK_LOCK_OWNERS setsid sh linger unmarked & wait' &); exec sh linger command",
        );
        let job = ["marked", "unmarked"].map(|file| test_job.process(file));
        test_job.die();
        wait_until("the job is dead", || gone(&job));
    }

    #[test]
    fn what_is_none_of_the_jobs_outlives_us() {
        let mut test_job = TestJob::new("shared", "exec sh linger command");
        let job = [test_job.process("command")];
        // In the same group; and the owner is a part of a word, or the word of another variable.
        let lists =
            [("SHEDLOCK_LOCK_OWNERS", format!("outer:1:1 {}0", test_job.owner)), ("OWNERS", test_job.owner.clone())];
        let mut other = std::process::Command::new("sleep").arg("100").envs(lists).spawn().unwrap();
        let stranger = Process::find(i32::try_from(other.id()).unwrap()).unwrap();
        let guardian = Process::find(test_job.guardian).unwrap();
        test_job.die();
        wait_until("the job is dead", || gone(&job));
        wait_until("the guardian is gone", || !lives(&guardian));
        assert!(lives(&stranger) && test_job.has_spared_the_unrelated_child());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn past_the_deadline_the_whole_job_dies_although_we_live() {
        let mut test_job =
            TestJob::new("own", "(env -u SHEDLOCK_LOCK_OWNERS setsid sh linger orphan &); exec sh linger command");
        let job = ["orphan", "command"].map(|file| test_job.process(file));
        let [guardian, ourselves] = [test_job.guardian, test_job.pid()].map(|pid| Process::find(pid).unwrap());
        assert_eq!(test_job.say("deadline 200"), "true");
        ourselves.id.signal(Signal::STOP);
        wait_until("the job is dead", || gone(&job));
        assert!(lives(&guardian) && lives(&ourselves));
        ourselves.id.signal(Signal::CONT);
        test_job.see_the_end();
        wait_until("nothing is left", || test_job.say("gone tree") == "true");
        assert!(test_job.has_spared_the_unrelated_child());
        // It waits for what is next.
        assert_eq!(test_job.say("deadline 3600000"), "true");
        wait_until("it has set its timer", || timer_of(test_job.guardian).is_some_and(|seconds| seconds > 3000));
        assert_eq!(test_job.say("dismiss"), "done");
        assert!(!lives(&guardian));
    }

    #[test]
    fn a_deadline_that_was_moved_in_time_is_none_even_if_the_guardian_slept() {
        let mut test_job = TestJob::new("own", "exec sh linger command");
        let command = test_job.process("command");
        let guardian = Process::find(test_job.guardian).unwrap();
        guardian.id.signal(Signal::STOP);
        wait_until("it is stopped", || Process::find(test_job.guardian).unwrap().is_stopped());
        test_job.say("deadline 0");
        test_job.say("deadline 3600000");
        guardian.id.signal(Signal::CONT);
        wait_until("it has set its timer", || timer_of(test_job.guardian).is_some_and(|seconds| seconds > 3000));
        assert!(lives(&command));
        test_job.say("deadline none");
        wait_until("it has no timer", || timer_of(test_job.guardian) == Some(0));
        assert!(lives(&command));
        test_job.say("deadline 0");
        wait_until("the job is dead", || !lives(&command));
    }

    /// Returns the seconds left on a process's timer.
    fn timer_of(pid: i32) -> Option<u64> {
        let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?.flatten();
        let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
        texts.filter_map(|text| text.split_once("it_value: (")?.1.split_once(',')?.0.parse().ok()).next()
    }

    #[test]
    fn a_guardian_that_is_dismissed_is_gone_and_has_touched_nothing() {
        let mut test_job = TestJob::new("own", "exec sh linger command");
        let command = test_job.process("command");
        assert_eq!(test_job.say("dismiss"), "done");
        assert!(fs::metadata(format!("/proc/{}", test_job.guardian)).is_err());
        assert!(lives(&command));
    }

    #[test]
    fn a_guardian_shares_nothing_with_us() {
        let test_job = TestJob::new("own", "exec sh linger command");
        let of = |file: &str| format!("/proc/{}/{file}", test_job.guardian);
        wait_until("it waits", || fs::read_link(of("fd/3")).is_ok_and(|link| link.ends_with("anon_inode:[timerfd]")));
        let mut files: Vec<(String, String)> = fs::read_dir(of("fd"))
            .unwrap()
            .map(|file| file.unwrap())
            .map(|file| (file.file_name(), fs::read_link(file.path()).unwrap()))
            .map(|(number, link)| (number.into_string().unwrap(), link.to_str().unwrap().to_owned()))
            .collect();
        files.sort();
        assert_eq!(files.len(), 4, "{files:?}");
        assert!(files[0].1.starts_with("pipe:"), "{files:?}");
        assert_eq!((files[1].1.as_str(), files[2].1.as_str()), ("/dev/null", "/dev/null"));
        // Nobody but shedlock has the other end, or shedlock's death would not be noticed.
        let holders = fs::read_dir(format!("/proc/{}/fd", test_job.job)).unwrap().flatten();
        assert!(
            holders.filter_map(|file| fs::read_link(file.path()).ok()).all(|link| link.to_str() != Some(&files[0].1))
        );
        assert_eq!(fs::read_link(of("cwd")).unwrap(), std::path::Path::new("/"));
        assert_eq!(fs::read(of("environ")).unwrap(), b"");
        assert_eq!(fs::read(of("cmdline")).unwrap(), b"shedlock-guardian\0");
        assert_eq!(Process::find(test_job.guardian).unwrap().group, test_job.guardian);
        let status = fs::read_to_string(of("status")).unwrap();
        assert!(status.contains("SigBlk:\tfffffffe7ffbfeff"), "{status}");
    }

    #[test]
    fn a_guardian_has_its_own_session_and_ignores_who_asks_it_to_end() {
        let test_job = TestJob::new("own", "exec sh linger command");
        let session = nix::unistd::getsid(Some(nix::unistd::Pid::from_raw(test_job.guardian))).unwrap();
        assert_eq!(session.as_raw(), test_job.guardian);
        let guardian = Process::find(test_job.guardian).unwrap();
        guardian.id.signal(Signal::TERM);
        assert!(lives(&guardian));
    }
}
