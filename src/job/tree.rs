//! Finds the processes that came of the job in /proc: every living descendant of shedlock.
//!
//! As a child subreaper shedlock stays the ancestor of a daemon that has left its parent, its group and its session behind.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl::set_pdeathsig;
use rustix::process::PidfdFlags;

use super::signals::kill;
use crate::system::Signal;

/// A process as /proc shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: Id,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// The kernel's letter for the state of the process.
    pub(super) state: u8,
    /// The process has ended, and was not reaped yet.
    pub(super) dead: bool,
}

/// The identity of a process, which no later process with its number shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) pid: i32,
    /// The start of the process, in the kernel's ticks since boot. An exec does not change it.
    pub(super) start: u64,
}

/// The result of sending a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Sent,
    /// The process has ended.
    Gone,
    /// Shedlock may not signal the process.
    Refused,
}

impl Id {
    /// Sends a signal, unless the number has become another process's.
    pub(super) fn signal(self, signal: Signal) -> Delivery {
        // The descriptor stays with the process that has the number now, whatever happens to the number after the look.
        let handle = pidfd_open(self.pid);
        if Process::find(self.pid).is_none_or(|process| process.id != self) {
            return Delivery::Gone;
        }
        if let Ok(handle) = handle
            && pidfd_send_signal(&handle, signal).is_ok()
        {
            return Delivery::Sent;
        }
        // Kernels before 5.3 have no such descriptors, and a sandbox may forbid them. Nothing was awaited since the look.
        match kill(self.pid, signal) {
            Ok(()) => Delivery::Sent,
            Err(Errno::ESRCH) => Delivery::Gone,
            Err(_) => Delivery::Refused,
        }
    }
}

impl Process {
    /// Returns whether a signal has stopped the process.
    pub(super) const fn is_stopped(&self) -> bool {
        self.state == b'T'
    }

    /// Returns whether the process runs, or can be woken at any time; not so in a system call that no signal ends,
    /// such as that of the parent in vfork(2).
    pub(super) const fn is_awake(&self) -> bool {
        matches!(self.state, b'R' | b'S')
    }

    /// Finds the living process with this number.
    pub(super) fn find(pid: i32) -> Option<Self> {
        parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// Returns the process that has this number, living or not yet reaped.
pub(super) fn holder_of(pid: i32) -> Option<Id> {
    Some(read(&fs::read(format!("/proc/{pid}/stat")).ok()?)?.id)
}

/// Makes orphaned descendants shedlock's children instead of init's.
pub(crate) fn adopt_orphans() {
    // Kernels since 3.4 can; without it, daemons of the job are out of reach, and nothing else is lost.
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Returns whether /proc is of shedlock's pid namespace. In another, the numbers are those of other processes.
pub(super) fn is_visible() -> bool {
    let shown = fs::read_link("/proc/self").ok();
    shown.is_some_and(|link| link.to_str().and_then(|pid| pid.parse().ok()) == Some(std::process::id()))
}

/// Returns every living process that shedlock can see. Zombies are dead, and threads are no processes. `None` if /proc is of
/// no use.
pub(super) fn all() -> Option<Vec<Process>> {
    Some(with_zombies()?.into_iter().filter(|process| !process.dead).collect())
}

/// Returns every process that shedlock can see, zombies too.
pub(super) fn with_zombies() -> Option<Vec<Process>> {
    if !is_visible() {
        return None;
    }
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Some(pids.filter_map(|pid: i32| read(&fs::read(format!("/proc/{pid}/stat")).ok()?)).collect())
}

/// Finds every living descendant of this process, but for those below the children that `except` returns after the look.
pub(super) fn descendants(except: impl FnOnce() -> Vec<i32>) -> Option<Vec<Process>> {
    let ourselves = i32::try_from(std::process::id()).ok()?;
    let all = all()?;
    Some(below(&all, &[ourselves], &except()))
}

/// Returns the number that the kernel has given last to a process or a thread, in shedlock's pid namespace.
pub(super) fn newest() -> Option<i32> {
    fs::read_to_string("/proc/loadavg").ok()?.trim_end().rsplit(' ').next()?.parse().ok()
}

/// Returns whether /proc shows every process, and not only those that shedlock may look into: then it shows init.
pub(super) fn shows_all(all: &[Process]) -> bool {
    all.iter().any(|process| process.id.pid == 1)
}

/// Returns those of `all` that descend from `ancestors`, except for the processes in `except` and their descendants.
pub(super) fn below(all: &[Process], ancestors: &[i32], except: &[i32]) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in all.iter().filter(|process| !except.contains(&process.id.pid)) {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut seen: HashSet<i32> = ancestors.iter().copied().collect();
    let mut ancestors = ancestors.to_vec();
    while let Some(parent) = ancestors.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            // An ancestor's descendant may be an ancestor too.
            if seen.insert(process.id.pid) {
                ancestors.push(process.id.pid);
            }
            found.push(*process);
        }
    }
    found
}

/// The places of the number of threads and of the start in `/proc/PID/stat`, each counted from the field after the one
/// that is read before it.
const NUM_THREADS: usize = 14;
const START: usize = 1;

/// Reads `/proc/PID/stat`; `None` for a process that is dead.
fn parse(stat: &[u8]) -> Option<Process> {
    read(stat).filter(|process| !process.dead)
}

/// Reads `/proc/PID/stat`. A process is dead when not only its first thread has ended. The name in the line may hold
/// blanks and brackets.
fn read(stat: &[u8]) -> Option<Process> {
    let stat = String::from_utf8_lossy(stat);
    let pid = stat.split(' ').next()?.parse().ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let threads: u32 = fields.nth(NUM_THREADS).and_then(|field| field.parse().ok()).unwrap_or(1);
    let start = fields.nth(START)?.parse().ok()?;
    let dead = matches!(state, "Z" | "X" | "x") && threads <= 1;
    Some(Process { id: Id { pid, start }, parent, group, state: state.bytes().next()?, dead })
}

/// Opens a descriptor of a process, which closes on exec.
fn pidfd_open(pid: i32) -> nix::Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(Errno::ESRCH)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(|error| Errno::from_raw(error.raw_os_error()))
}

fn pidfd_send_signal(handle: &OwnedFd, signal: Signal) -> nix::Result<()> {
    let (handle, number) = (handle.as_raw_fd(), signal.number());
    #[expect(unsafe_code, reason = "no library of ours has it")]
    // SAFETY: the call takes numbers, and the null pointer stands for the usual description of the sender.
    let result =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle, number, ptr::null::<libc::siginfo_t>(), 0) };
    Errno::result(result).map(drop)
}

/// Asks the kernel to kill the calling process when its parent dies. Async-signal-safe.
pub(super) fn die_with_parent() -> bool {
    set_pdeathsig(nix::sys::signal::Signal::SIGKILL).is_ok()
}

/// Asks the kernel to continue the calling process when its parent dies. Async-signal-safe.
pub(super) fn continue_at_parents_death() -> bool {
    set_pdeathsig(nix::sys::signal::Signal::SIGCONT).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_is_no_trap() {
        let line = |state: &str, threads: u32| {
            format!("42 (a) b (c) {state} 7 9 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 5 0 0")
        };
        let process = parse(line("S", 3).as_bytes()).unwrap();
        assert_eq!((process.id.pid, process.parent, process.group, process.id.start), (42, 7, 9, 5));
        assert_eq!(parse(line("Z", 1).as_bytes()), None);
        assert!(parse(line("Z", 2).as_bytes()).is_some());
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let process = |pid, parent| Process { id: Id { pid, start: 0 }, parent, group: 1, state: b'S', dead: false };
        let all = [process(5, 4), process(2, 1), process(3, 2), process(4, 3), process(9, 8)];
        let mut found: Vec<i32> = below(&all, &[2], &[]).iter().map(|process| process.id.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4, 5]);
    }

    #[test]
    fn a_signal_for_a_process_that_is_gone_does_not_reach_who_has_its_number_now() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let Process { id, .. } = Process::find(i32::try_from(child.id()).unwrap()).unwrap();
        assert_eq!(Id { start: id.start - 1, ..id }.signal(Signal::KILL), Delivery::Gone);
        assert!(Process::find(id.pid).is_some());
        assert_eq!(id.signal(Signal::KILL), Delivery::Sent);
        child.wait().unwrap();
        assert_eq!(id.signal(Signal::KILL), Delivery::Gone);
    }
}
