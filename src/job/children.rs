//! The children of this process, which every orphan of the job's becomes: as the kernel lists them, as /proc shows them, or
//! asked for number by number.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::tree::{is_visible, shows_all, with_zombies};
use super::wait;
use crate::system::Helpers;

/// The largest number of processes that a 64-bit kernel can be set to.
const MAX_PIDS: i32 = 1 << 22;
/// The longest search by number before signals and deadlines get their turn.
const MAX_SEARCH_TIME: Duration = Duration::from_millis(100);

/// Finds the children that this process has already, from before it became shedlock. A script that starts something in
/// the background and then `exec`s shedlock leaves it children. One that is not found in time counts as the job's.
/// Helpers are none of them: their numbers are known for as long as they live.
pub(super) fn children_from_before(helpers: &Helpers) -> Vec<i32> {
    if !wait::has_children() {
        return Vec::new();
    }
    let mut children = known_children().unwrap_or_else(children_by_number);
    children.retain(|child| !helpers.contains(*child));
    children
}

/// Returns shedlock's children, living or not yet reaped: one that has ended stays until shedlock reaps it, and by then its own
/// children are shedlock's. So when only known children are here, nothing else descends from shedlock. `None` if /proc does not
/// tell.
pub(super) fn known_children() -> Option<Vec<i32>> {
    listed_children().or_else(children_in_proc)
}

/// Returns shedlock's children, if the kernel has a list of them.
pub(super) fn listed_children() -> Option<Vec<i32>> {
    if is_visible() { children_of(i32::try_from(std::process::id()).ok()?) } else { None }
}

/// Returns the children of a process in the order in which it got them, also those of other users, which a /proc with
/// `hidepid` does not show. `None` if the kernel has no such list.
fn children_of(pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    // Each thread has its own.
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let list = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        children.extend(list.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(children)
}

/// The kernel's list of a process's children and of the orphans that it adopted, the newest last.
pub(super) struct ChildList(File);

impl ChildList {
    /// Opens the list of a process in shedlock's pid namespace, if the kernel has such lists.
    pub(super) fn open(pid: i32) -> Option<Self> {
        // Orphans become children of the first thread.
        let file = is_visible().then(|| File::open(format!("/proc/{pid}/task/{pid}/children")))?;
        file.ok().map(Self)
    }

    /// Returns the children that are on the list now.
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

/// Searches all processes for shedlock's children; `None` if some may be hidden.
fn children_in_proc() -> Option<Vec<i32>> {
    let parent = i32::try_from(std::process::id()).ok()?;
    let all = with_zombies()?;
    let children = all.iter().filter(|process| process.parent == parent).map(|process| process.id.pid);
    shows_all(&all).then(|| children.collect())
}

/// Asks the kernel, number by number, for shedlock's children: it needs no /proc. It is bounded: all numbers take long.
fn children_by_number() -> Vec<i32> {
    let ourselves = i32::try_from(std::process::id()).unwrap_or_default();
    let began = Instant::now();
    let in_time = |_: &i32| began.elapsed() < MAX_SEARCH_TIME;
    // A process that this one started has a higher number, mostly.
    (ourselves..=most_pids()).chain(1..ourselves).take_while(in_time).filter(|pid| wait::is_child(*pid)).collect()
}

/// Searches for children number by number, over several calls.
#[derive(Debug, Default)]
pub(super) struct Search(Cell<i32>);

impl Search {
    /// Searches on for a while; true when every number was asked and none but `known` is shedlock's child. It holds for all
    /// of the search as long as nothing is reaped in its course.
    pub(super) fn finds_none_but(&self, known: &[i32]) -> bool {
        let (began, most) = (Instant::now(), most_pids());
        while began.elapsed() < MAX_SEARCH_TIME {
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

/// Returns the largest number that a process may have.
fn most_pids() -> i32 {
    let most = fs::read_to_string("/proc/sys/kernel/pid_max").ok();
    most.and_then(|most| most.trim().parse().ok()).unwrap_or(MAX_PIDS)
}

#[cfg(test)]
mod tests {
    use super::super::tree::Process;
    use super::*;

    #[test]
    fn each_way_of_asking_for_children_finds_a_zombie_too() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let began = Instant::now();
        while Process::find(pid).is_some() {
            assert!(began.elapsed().as_secs() < 20);
        }
        // There is no list while a thread ends, whose children go to another one: other tests have such.
        let listed = || std::iter::repeat_with(listed_children).take(1000).flatten().next().unwrap();
        let ways = || [listed(), children_in_proc().unwrap(), children_by_number()];
        // The search by number has its time, which a busy machine may take from it.
        while !children_by_number().contains(&pid) {
            assert!(began.elapsed().as_secs() < 20);
        }
        assert!(ways()[..2].iter().all(|children| children.contains(&pid)));
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
}
