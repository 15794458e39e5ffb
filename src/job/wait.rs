//! Waiting for children, by number: the libraries' types have no room for a death by a real-time signal.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use crate::run::JobEnd;
use crate::system::Signal;

/// How often a wait that was interrupted is tried again before the next glance at the children.
const TRIES: usize = 10;
/// Between two looks whether a child has ended that is about to.
const PAUSE: Duration = Duration::from_micros(50);

/// A child that changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) pid: i32,
    pub(super) what: What,
}

/// What became of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Ended(JobEnd),
    Stopped(Signal),
}

/// Returns a child of ours that ended or stopped, and reaps it; `None` if there is no more.
pub(super) fn next_change() -> Option<Change> {
    change_of(-1, libc::WUNTRACED)
}

/// Returns how this child has ended, and reaps it; `None` while it lives.
pub(super) fn end_of(pid: Pid) -> Option<JobEnd> {
    match change_of(pid.as_raw(), 0)?.what {
        What::Ended(end) => Some(end),
        What::Stopped(_) => None,
    }
}

fn change_of(child: i32, options: i32) -> Option<Change> {
    let mut status = 0;
    let wait = |_| {
        #[expect(unsafe_code, reason = "no library reports every status, see above")]
        // SAFETY: the pointer is to a local integer, and the call touches nothing else.
        let pid = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG | options) };
        Errno::result(pid)
    };
    let pid = (0..TRIES).map(wait).find(|pid| *pid != Err(Errno::EINTR))?.ok()?;
    (pid > 0).then(|| Change { pid, what: read(status) })
}

/// Reaps this child if it ends soon.
pub(super) fn reap_within(pid: Pid, patience: Duration) -> bool {
    let began = Instant::now();
    while waitpid(pid, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive) {
        if began.elapsed() > patience {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

/// Whether we have any child, living or not yet reaped.
pub(super) fn has_children() -> bool {
    exists(Id::All)
}

/// Whether a process is our child, living or not yet reaped.
pub(super) fn is_child(pid: i32) -> bool {
    exists(Id::Pid(Pid::from_raw(pid)))
}

fn exists(child: Id<'_>) -> bool {
    let only_look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(child, only_look) != Err(Errno::ECHILD)
}

fn read(status: i32) -> What {
    if libc::WIFSTOPPED(status) {
        What::Stopped(Signal::from_number(libc::WSTOPSIG(status)))
    } else if libc::WIFSIGNALED(status) {
        What::Ended(JobEnd::Killed(Signal::from_number(libc::WTERMSIG(status))))
    } else {
        What::Ended(JobEnd::Exited(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX)))
    }
}
