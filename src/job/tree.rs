//! All that came of the job: every living descendant of this process, found in /proc.
//!
//! As a child subreaper we stay the ancestor of a daemon that has left its parent, its group and its session behind.

use std::collections::HashMap;
use std::fs;

use nix::libc;

/// A process that lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
}

/// Makes orphaned descendants our children instead of init's.
pub(crate) fn adopt_orphans() {
    // Kernels since 3.4 can; without it, daemons of the job are out of reach, and nothing else is lost.
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Finds every living descendant of this process, but for those below the children in `except`. Zombies are dead, and
/// threads are no processes. `None` if /proc is not there or is that of another pid namespace, whose numbers would
/// name strangers.
pub(super) fn descendants(except: &[i32]) -> Option<Vec<Process>> {
    let ourselves = i32::try_from(std::process::id()).ok()?;
    if fs::read_link("/proc/self").ok()?.to_str()?.parse::<i32>().ok()? != ourselves {
        return None;
    }
    let all: Vec<Process> = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| parse(&fs::read(format!("/proc/{pid}/stat")).ok()?))
        .filter(|process| !except.contains(&process.pid))
        .collect();
    Some(below(&all, ourselves))
}

/// Finds the children that this process has already, from before it became shedlock. A script that starts something in the
/// background and then `exec`s us leaves us such.
pub(super) fn children_from_before() -> Vec<i32> {
    if !super::wait::has_children() {
        return Vec::new();
    }
    let ourselves = i32::try_from(std::process::id()).unwrap_or_default();
    let all = descendants(&[]).unwrap_or_default();
    all.iter().filter(|process| process.parent == ourselves).map(|process| process.pid).collect()
}

/// The living descendants of `ancestor`.
fn below(all: &[Process], ancestor: i32) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut found = Vec::new();
    let mut ancestors = vec![ancestor];
    while let Some(parent) = ancestors.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            ancestors.push(process.pid);
            found.push(process);
        }
    }
    found
}

/// The place of the number of threads in `/proc/PID/stat`, counted from the field after the group.
const NUM_THREADS: usize = 14;

/// Reads `/proc/PID/stat`; `None` for a zombie, unless only its first thread has ended. The name in it may hold blanks
/// and brackets.
fn parse(stat: &[u8]) -> Option<Process> {
    let stat = String::from_utf8_lossy(stat);
    let pid = stat.split(' ').next()?.parse().ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let threads: u32 = fields.nth(NUM_THREADS).and_then(|field| field.parse().ok()).unwrap_or(1);
    let dead = matches!(state, "Z" | "X" | "x") && threads <= 1;
    (!dead).then_some(Process { pid, parent, group })
}

/// Asks the kernel to kill the calling process when its parent dies. Async-signal-safe.
pub(super) fn die_with_parent() -> bool {
    #[expect(unsafe_code, reason = "called between fork and exec, where a library's wrapper would promise too little")]
    // SAFETY: this operation takes a number and touches no memory.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    result == 0
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
        assert_eq!((process.pid, process.parent, process.group), (42, 7, 9));
        assert_eq!(parse(line("Z", 1).as_bytes()), None);
        assert!(parse(line("Z", 2).as_bytes()).is_some());
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let process = |pid, parent| Process { pid, parent, group: 1 };
        let all = [process(5, 4), process(2, 1), process(3, 2), process(4, 3), process(9, 8)];
        let mut found: Vec<i32> = below(&all, 2).iter().map(|process| process.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4, 5]);
    }
}
