//! Freezes the job while it is not known whether the lock is lost, and thaws it afterwards.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::children::ChildList;
use super::limits::{MAX_HUNT, MAX_REAPED, MAX_SEARCHES};
use super::running::{Frozen, Job};
use super::signals;
use super::tree::{Delivery, Id, Process};
use super::wait::{Change, next_change};
use crate::system::Signal;

/// The time after which a stopped process has left the processor.
const STOP_DELAY: Duration = Duration::from_millis(1);

impl Job {
    /// Stops the command and all that came of it, except the processes that are stopped already. [`Job::signal_tree`] still
    /// reaches these.
    pub(crate) fn freeze(&mut self) {
        let mut ours = match self.frozen.replace(Frozen::Processes(HashSet::new())) {
            Some(Frozen::Processes(ids)) => ids,
            _ => HashSet::new(),
        };
        // A shell that continues shedlock continues the job in the same breath, perhaps after shedlock looked first.
        let mut quiet = 0;
        for round in 0..2 * MAX_SEARCHES {
            let mut is_quiet = self.corner(&mut ours);
            let Some(found) = self.descendants() else {
                self.frozen = None;
                if !self.reaped {
                    self.signal_command(Signal::STOP);
                    self.frozen = Some(Frozen::Blindly);
                }
                return;
            };
            for process in found.iter().filter(|process| is_running(process, &ours)).collect::<Vec<_>>() {
                is_quiet = false;
                // Again to one that was stopped already: it may have been continued meanwhile.
                if process.id.signal(Signal::STOP) == Delivery::Sent {
                    ours.insert(process.id);
                }
            }
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet == 2 {
                break;
            }
            // What was born while shedlock looked is stopped at once; the rest takes a moment to stop.
            if round > 0 {
                std::thread::sleep(STOP_DELAY);
            }
        }
        self.frozen = Some(Frozen::Processes(ours));
    }

    /// Stops whatever becomes shedlock's child, as [`Job::chase`] kills it: what forks and ends as fast as it can is gone
    /// before a walk through /proc reaches it. Returns whether all of shedlock's children stood still from the first look on.
    fn corner(&mut self, ours: &mut HashSet<Id>) -> bool {
        let began = Instant::now();
        for look in 0.. {
            let Some(mut children) = self.children().and_then(ChildList::read) else { return look == 0 };
            children.retain(|child| !self.is_unrelated(*child));
            let mut is_quiet = true;
            for child in children.into_iter().rev() {
                let process = Process::find(child);
                // What has ended may have left a child that was not on the list yet.
                is_quiet &= process.is_some_and(|process| !is_running(&process, ours));
                if let Some(process) = process.filter(|process| is_running(process, ours)) {
                    // No other process can have the number before shedlock reaps.
                    if signals::kill(child, Signal::STOP).is_ok() {
                        ours.insert(process.id);
                    }
                }
            }
            if is_quiet || began.elapsed() > MAX_HUNT {
                return is_quiet && look == 0;
            }
            let reaped: Vec<Change> = std::iter::from_fn(next_change).take(MAX_REAPED).collect();
            if reaped.is_empty() {
                std::thread::yield_now();
            }
            reaped.into_iter().for_each(|change| self.note(change));
        }
        false
    }

    /// Continues what [`Job::freeze`] stopped.
    pub(crate) fn thaw(&mut self) {
        match self.frozen.take() {
            Some(Frozen::Processes(ids)) => {
                for id in ids {
                    id.signal(Signal::CONT);
                }
            }
            Some(Frozen::Blindly) if !self.reaped => self.signal_command(Signal::CONT),
            Some(Frozen::Blindly) | None => {}
        }
        if self.cont_pending.take() {
            self.signal(Signal::CONT);
        }
    }
}

/// Returns whether a process has yet to be stopped, or has been continued since.
fn is_running(process: &Process, ours: &HashSet<Id>) -> bool {
    match ours.contains(&process.id) {
        true => process.is_awake(),
        false => !process.is_stopped(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_job::{TestJob, wait_until};
    use super::*;

    /// A command that never stops starting others, a daemon of it, and a process that has stopped itself.
    const BUSY: &str = "(setsid sh linger daemon &); (sh -c 'echo $$ > stopped; kill -STOP $$; exec sh linger later' &)
        echo $$ > command; while [ -d \"$HERE\" ]; do sh -c :; done";

    fn busy() -> TestJob {
        let test_job = TestJob::new("own", BUSY);
        let _ = ["daemon", "command"].map(|file| test_job.process(file));
        wait_until("it has stopped itself", || test_job.process("stopped").is_stopped());
        test_job
    }

    /// Returns whether none of the job can do anything.
    fn stands_still(test_job: &TestJob) -> bool {
        test_job.rest().iter().all(|process| !process.is_awake())
    }

    #[test]
    fn a_job_that_is_frozen_stands_still_until_it_is_thawed() {
        let mut test_job = busy();
        test_job.say("hold");
        assert!(stands_still(&test_job), "{:?}", test_job.rest());
        assert_eq!(test_job.say("reap"), "[]");
        assert!(test_job.has_spared_the_unrelated_child());
        test_job.say("let-go");
        wait_until("it goes on", || {
            !["daemon", "command"].map(|file| test_job.process(file)).iter().any(Process::is_stopped)
        });
        // This was none of shedlock's doing.
        assert!(test_job.process("stopped").is_stopped());
    }

    #[test]
    fn a_job_that_is_frozen_twice_is_thawed_once() {
        let mut test_job = busy();
        test_job.say("hold");
        test_job.say("hold");
        assert!(stands_still(&test_job), "{:?}", test_job.rest());
        test_job.say("let-go");
        wait_until("it goes on", || {
            !["daemon", "command"].map(|file| test_job.process(file)).iter().any(Process::is_stopped)
        });
    }

    #[test]
    fn a_sigcont_for_a_job_that_is_frozen_waits() {
        let mut test_job = busy();
        test_job.say("hold");
        test_job.say("signal 18");
        assert!(stands_still(&test_job), "{:?}", test_job.rest());
        test_job.say("let-go");
        // It goes to the whole group.
        test_job.process("later");
    }

    #[test]
    fn a_job_that_is_frozen_can_be_ended() {
        let mut test_job = busy();
        test_job.say("hold");
        test_job.say("tree 9");
        test_job.see_the_end();
        wait_until("nothing is left", || test_job.rest().is_empty());
        test_job.say("let-go");
    }
}
