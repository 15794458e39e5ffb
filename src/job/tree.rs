//! All that came of the job: every living descendant of this process, found in /proc.
//!
//! As a child subreaper we stay the ancestor of a daemon that has left its parent, its group and its session behind.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl::set_pdeathsig;
use rustix::process::PidfdFlags;

use super::signals::kill;
use super::wait;
use crate::system::Signal;

/// The most processes that a 64-bit kernel can be told to have.
const MOST_PIDS: i32 = 1 << 22;
/// How long numbers are asked for before signals and deadlines get their turn.
const SEARCH: Duration = Duration::from_millis(100);

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: Id,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// The kernel's letter for what it is doing.
    pub(super) state: u8,
    /// It has ended, and was not reaped yet.
    pub(super) dead: bool,
}

/// One process, and never one that got its number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) pid: i32,
    /// When it was started, in the kernel's ticks since boot. An exec does not change it.
    pub(super) start: u64,
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Sent,
    /// The process has ended.
    Gone,
    /// It is not ours to signal.
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
    /// Whether a signal has stopped it.
    pub(super) const fn is_stopped(&self) -> bool {
        self.state == b'T'
    }

    /// Whether it is on its way back to its own code, or can be at any time; not so in a system call that no signal ends,
    /// such as that of the parent in vfork(2).
    pub(super) const fn is_awake(&self) -> bool {
        matches!(self.state, b'R' | b'S')
    }

    /// The living process of this number.
    pub(super) fn find(pid: i32) -> Option<Self> {
        parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// The process that has this number, living or not yet reaped.
pub(super) fn holder_of(pid: i32) -> Option<Id> {
    Some(read(&fs::read(format!("/proc/{pid}/stat")).ok()?)?.id)
}

/// Makes orphaned descendants our children instead of init's.
pub(crate) fn adopt_orphans() {
    // Kernels since 3.4 can; without it, daemons of the job are out of reach, and nothing else is lost.
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Whether /proc shows our processes by our numbers: one of another pid namespace would name strangers.
pub(super) fn is_visible() -> bool {
    let shown = fs::read_link("/proc/self").ok();
    shown.is_some_and(|link| link.to_str().and_then(|pid| pid.parse().ok()) == Some(std::process::id()))
}

/// Returns every living process that we can see. Zombies are dead, and threads are no processes. `None` if /proc is of no
/// use.
pub(super) fn all() -> Option<Vec<Process>> {
    Some(with_zombies()?.into_iter().filter(|process| !process.dead).collect())
}

/// Returns every process that we can see, zombies too.
pub(super) fn with_zombies() -> Option<Vec<Process>> {
    if !is_visible() {
        return None;
    }
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Some(pids.filter_map(|pid: i32| read(&fs::read(format!("/proc/{pid}/stat")).ok()?)).collect())
}

/// Finds every living descendant of this process, but for those below the children in `except`.
pub(super) fn descendants(except: &[i32]) -> Option<Vec<Process>> {
    let ourselves = i32::try_from(std::process::id()).ok()?;
    Some(below(&all()?, &[ourselves], except))
}

/// Finds the children that this process has already, from before it became shedlock. A script that starts something in the
/// background and then `exec`s us leaves us such. One that is not found in time counts as the job's.
pub(super) fn children_from_before() -> Vec<i32> {
    if wait::has_children() { known_children().unwrap_or_else(numbered_children) } else { Vec::new() }
}

/// Returns our children, living or not yet reaped: one that has ended stays until we reap it, and by then its own children
/// are ours. So when only known children are here, nothing else descends from us. `None` if /proc does not tell.
pub(super) fn known_children() -> Option<Vec<i32>> {
    listed_children().or_else(shown_children)
}

/// Returns our children, if the kernel has a list of them.
pub(super) fn listed_children() -> Option<Vec<i32>> {
    if is_visible() { children_of(i32::try_from(std::process::id()).ok()?) } else { None }
}

/// Returns the children of a process in the order in which it got them, also those of other users, which a /proc with
/// `hidepid` does not show. `None` if the kernel has no such list.
pub(super) fn children_of(pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    // Each thread has its own.
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let list = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        children.extend(list.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(children)
}

/// The kernel's list of the children of a process, which gets the orphans of its descendants too, the newest last.
pub(super) struct ChildList(File);

impl ChildList {
    /// Opens the list of a process in our pid namespace, if the kernel has such lists.
    pub(super) fn open(pid: i32) -> Option<Self> {
        // Orphans become children of the first thread.
        let file = is_visible().then(|| File::open(format!("/proc/{pid}/task/{pid}/children")))?;
        file.ok().map(Self)
    }

    /// Returns who is on it now.
    pub(super) fn read(&self) -> Option<Vec<i32>> {
        let (mut text, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            match self.0.read_at(&mut piece, text.len() as u64).ok()? {
                0 => break,
                length => text.extend_from_slice(&piece[..length]),
            }
        }
        let pids = text.split(|byte| *byte == b' ').filter_map(|pid| std::str::from_utf8(pid).ok()?.parse().ok());
        Some(pids.collect())
    }
}

/// Returns the number that the kernel has given last to a process or a thread, in our pid namespace.
pub(super) fn newest() -> Option<i32> {
    fs::read_to_string("/proc/loadavg").ok()?.trim_end().rsplit(' ').next()?.parse().ok()
}

/// Searches all processes for our children; `None` if some may be hidden.
fn shown_children() -> Option<Vec<i32>> {
    let parent = i32::try_from(std::process::id()).ok()?;
    let all = with_zombies()?;
    let children = all.iter().filter(|process| process.parent == parent).map(|process| process.id.pid);
    shows_all(&all).then(|| children.collect())
}

/// Asks the kernel, number by number, for our children: it needs no /proc, but is bounded, since all numbers take long.
fn numbered_children() -> Vec<i32> {
    let ourselves = i32::try_from(std::process::id()).unwrap_or_default();
    let began = Instant::now();
    let in_time = |_: &i32| began.elapsed() < SEARCH;
    // Who was started by this process has a number after ours, mostly.
    (ourselves..=most_pids()).chain(1..ourselves).take_while(in_time).filter(|pid| wait::is_child(*pid)).collect()
}

/// A search for children, number by number, which goes on where it was left off.
#[derive(Debug, Default)]
pub(super) struct Search(Cell<i32>);

impl Search {
    /// Searches on for a while; true when every number was asked and none but `known` is our child. It holds for all of the
    /// search as long as nothing is reaped in its course.
    pub(super) fn finds_none_but(&self, known: &[i32]) -> bool {
        let (began, most) = (Instant::now(), most_pids());
        while began.elapsed() < SEARCH {
            let pid = self.0.get() + 1;
            if pid > most {
                return true;
            }
            if wait::is_child(pid) && !known.contains(&pid) {
                self.restart();
                return false;
            }
            self.0.set(pid);
        }
        false
    }

    pub(super) fn restart(&self) {
        self.0.set(0);
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.0.get() > 0
    }
}

/// The largest number that a process may have.
fn most_pids() -> i32 {
    let most = fs::read_to_string("/proc/sys/kernel/pid_max").ok();
    most.and_then(|most| most.trim().parse().ok()).unwrap_or(MOST_PIDS)
}

/// Whether /proc shows every process, and not only those that we may look into: then it shows init.
pub(super) fn shows_all(all: &[Process]) -> bool {
    all.iter().any(|process| process.id.pid == 1)
}

/// Those of `all` that descend from `ancestors`, but for the processes in `except` and what is below these.
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

/// Reads `/proc/PID/stat`. A process is dead when not only its first thread has ended. The name in the line may hold blanks and
/// brackets.
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
    fn each_way_of_asking_for_children_finds_a_zombie_too() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let began = Instant::now();
        while Process::find(pid).is_some() {
            assert!(began.elapsed().as_secs() < 20);
        }
        let ways = || [listed_children().unwrap(), shown_children().unwrap(), numbered_children()];
        assert!(ways().iter().all(|children| children.contains(&pid)));
        let search = Search::default();
        let searched = |known: &[i32]| {
            // It is left off, and goes on.
            while !search.finds_none_but(known) && search.is_under_way() {}
            search.is_under_way()
        };
        // Other tests have children of their own meanwhile.
        assert!(!searched(&[]));
        assert!(!search.is_under_way());
        assert!(searched(&(1..=most_pids()).collect::<Vec<_>>()));
        child.wait().unwrap();
        assert!(!ways().iter().any(|children| children.contains(&pid)));
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
