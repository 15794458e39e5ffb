//! Checks whether a job's group, or its whole tree, is gone.

use nix::unistd::{getpgrp, getpid};

use super::children::{self, ChildList};
use super::running::Job;
use super::{signals, tree, wait};
use crate::run::{Group, Leftovers};

impl Job {
    /// Returns whether the command is gone, and with it the rest of its group or all of its descendants.
    pub(crate) fn leftovers_are_gone(&self, leftovers: Leftovers) -> bool {
        self.reaped
            && match (leftovers, self.group) {
                (Leftovers::Tree, _) => self.tree_is_gone(),
                (Leftovers::Group, Group::Own) => self.own_group_is_gone(),
                (Leftovers::Group, Group::Shared) => self.shared_group_is_gone(),
            }
    }

    /// Returns whether no descendant is left. One that loses its parent becomes shedlock's child, so none is left when
    /// shedlock has no child.
    fn tree_is_gone(&self) -> bool {
        if !wait::has_children() {
            return true;
        }
        if self.all_unrelated().is_empty() {
            return false;
        }
        match self.children().and_then(ChildList::read).or_else(children::known_children) {
            Some(children) => children.iter().all(|child| self.is_unrelated(*child)),
            None => self.search.finds_none_but(&self.all_unrelated()),
        }
    }

    fn own_group_is_gone(&self) -> bool {
        let group = self.pid.as_raw();
        // A zombie whose parent never reaps it is a member for ever.
        !signals::group_exists(group) || is_empty(group, || tree::with_zombies().filter(|all| tree::shows_all(all)))
    }

    /// Returns whether nothing of the job's is left in a group that the caller and its pipeline share.
    fn shared_group_is_gone(&self) -> bool {
        let ours = |all: Vec<_>| tree::below(&all, &[getpid().as_raw()], &self.all_unrelated());
        // Where nothing can be seen, a group of which nothing lives is gone for sure.
        is_empty(getpgrp().as_raw(), || tree::with_zombies().map(ours)) || self.tree_is_gone()
    }
}

/// Returns whether a group has no members left, all of which `look` finds. Shedlock's own zombies count: until one is reaped,
/// what it has left behind may not be shedlock's child yet. A second look finds a member that was born behind the back of the
/// first.
fn is_empty(group: i32, look: impl Fn() -> Option<Vec<tree::Process>>) -> bool {
    let ourselves = getpid().as_raw();
    let counts = |one: &tree::Process| one.group == group && (!one.dead || one.parent == ourselves);
    (0..2).all(|_| look().is_some_and(|all| !all.iter().any(counts)))
}
