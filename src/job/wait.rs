//! Waits for children, by number: the libraries' types have no room for a death by a real-time signal.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

use crate::run::JobEnd;
use crate::system::Signal;

/// How often a wait that was interrupted is tried again before the next glance at the children.
const MAX_INTERRUPTS: usize = 10;
/// The interval at which a child that is about to end is checked.
const CHECK_INTERVAL: Duration = Duration::from_micros(50);

/// A child that changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) pid: i32,
    pub(super) kind: ChangeKind,
}

/// How a child changed.
#[derive(Debug, Clone, Copy)]
pub(super) enum ChangeKind {
    Ended(JobEnd),
    Stopped(Signal),
}

/// Returns a child of shedlock that ended or stopped, and reaps it; `None` if there is no more.
pub(super) fn next_change() -> Option<Change> {
    change_of(-1, libc::WUNTRACED)
}

/// Returns how this child has ended, and reaps it; `None` while it lives.
pub(super) fn end_of(pid: Pid) -> Option<JobEnd> {
    match change_of(pid.as_raw(), 0)?.kind {
        ChangeKind::Ended(end) => Some(end),
        ChangeKind::Stopped(_) => None,
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
    let pid = (0..MAX_INTERRUPTS).map(wait).find(|pid| *pid != Err(Errno::EINTR))?.ok()?;
    (pid > 0).then(|| Change { pid, kind: read(status) })
}

/// Reaps this child if it ends soon.
pub(super) fn reap_within(pid: Pid, timeout: Duration) -> bool {
    let began = Instant::now();
    while waitpid(pid, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive) {
        if began.elapsed() > timeout {
            return false;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    true
}

/// Returns whether shedlock has any child, living or not yet reaped.
pub(super) fn has_children() -> bool {
    exists(Id::All)
}

/// Returns whether a process is shedlock's child, living or not yet reaped.
pub(super) fn is_child(pid: i32) -> bool {
    exists(Id::Pid(Pid::from_raw(pid)))
}

fn exists(child: Id<'_>) -> bool {
    let only_look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(child, only_look) != Err(Errno::ECHILD)
}

fn read(status: i32) -> ChangeKind {
    if libc::WIFSTOPPED(status) {
        ChangeKind::Stopped(Signal::from_number(libc::WSTOPSIG(status)))
    } else if libc::WIFSIGNALED(status) {
        ChangeKind::Ended(JobEnd::Killed(Signal::from_number(libc::WTERMSIG(status))))
    } else {
        ChangeKind::Ended(JobEnd::Exited(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX)))
    }
}
