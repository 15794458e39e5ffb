//! The job as processes: started, signalled, reaped, ended. This layer decides nothing.
//!
//! All `unsafe` of the program is in this folder. Only the main thread starts, reaps and signals processes: a
//! parent-death signal is tied to the thread that forked, and a pid is certain only for who reaps it.

mod environ;
mod process;
mod signals;
mod spawn;
mod tree;
mod wait;

pub(crate) use environ::Environment;
use nix::unistd::{Pid, getpgid};
pub(crate) use process::{arguments, exit, fill_standard_descriptors};
pub(crate) use signals::{Inherited, Signals, ignore_pipe, raise_and_die, stop_ourselves};
pub(crate) use spawn::Command;

use crate::run::{Event, Group};
use crate::signal::Signal;

/// A command that was started.
pub(crate) struct Job {
    pid: Pid,
    group: Group,
    reaped: bool,
    /// Children of ours that are none of the job's.
    strangers: Vec<i32>,
}

impl Job {
    /// Sends a signal to the job's own group, or to the command alone where the group is shared with others. A job
    /// that was reaped gets none, since its pid may be another's by now.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.reaped {
            return;
        }
        if self.group == Group::Own {
            signals::kill(-self.pid.as_raw(), signal);
        }
        // Not twice; but a command may leave the group that we made for it.
        if self.group == Group::Shared || getpgid(Some(self.pid)) != Ok(self.pid) {
            signals::kill(self.pid.as_raw(), signal);
        }
    }

    /// Sends a signal to the command, its own group, and every descendant of ours.
    pub(crate) fn signal_tree(&self, signal: Signal) {
        let rest = tree::descendants(&self.strangers);
        self.signal(signal);
        match rest {
            Some(rest) => {
                for process in rest.iter().filter(|process| !self.has_signalled(process)) {
                    signals::kill(process.pid, signal);
                }
            }
            // Init of a container without /proc: all there is came from us.
            None if std::process::id() == 1 && self.strangers.is_empty() => signals::kill(-1, signal),
            None => {}
        }
    }

    /// Whether nothing of the job lives. Every descendant that loses its parent becomes our child, so there is none
    /// when we have no child.
    pub(crate) fn is_gone(&self) -> bool {
        let childless = || !wait::has_children();
        let none_found = || tree::descendants(&self.strangers).is_some_and(|rest| rest.is_empty());
        self.reaped && if self.strangers.is_empty() { childless() } else { none_found() }
    }

    /// Whether [`Job::signal`] reached this process.
    fn has_signalled(&self, process: &tree::Process) -> bool {
        let in_group = self.group == Group::Own && process.group == self.pid.as_raw();
        !self.reaped && (in_group || process.pid == self.pid.as_raw())
    }
}

/// Reaps whatever of our children has ended, and tells what became of them; the job's end comes as the job's.
pub(crate) fn reap(job: &mut Option<Job>) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(change) = wait::next_change() {
        let ours = job.as_mut().filter(|job| job.pid.as_raw() == change.pid);
        match (change.what, ours) {
            (wait::What::Ended(end), Some(job)) => {
                job.reaped = true;
                events.push(Event::JobEnded(end));
            }
            (wait::What::Ended(_), None) => events.push(Event::OrphanEnded),
            (wait::What::Stopped(signal), Some(_)) => events.push(Event::JobStopped(signal)),
            (wait::What::Stopped(_), None) => {}
        }
    }
    events
}
