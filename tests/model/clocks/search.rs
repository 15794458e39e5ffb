//! Two ways through the worlds: every one, breadth first, so that what is found first is the shortest story; and at random,
//! for more of everything than could be gone through.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::hash::BuildHasherDefault;

use super::rules::{Clocks, Faults, Rules, Terms};
use super::world::{Action, Property, World};
use crate::explore::Fold;

/// After so many steps a walk at random begins again.
const WALK: usize = 80;

/// What is to be looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub(crate) rules: Rules,
    pub(crate) terms: Terms,
    pub(crate) clocks: Clocks,
    pub(crate) faults: Faults,
    /// How many runs begin.
    pub(crate) firings: u8,
    /// What must never be.
    pub(crate) never: &'static [Property],
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Found {
    /// Worlds, or steps of the walks.
    pub(crate) count: usize,
    /// The first that must not be, and the story that leads to it.
    pub(crate) violation: Option<(Property, String)>,
    pub(crate) seen: Seen,
}

/// What has been seen to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Seen(u8);

impl Seen {
    pub(crate) const RENEWED: Self = Self(1);
    /// A run had the lock after another.
    pub(crate) const PASSED_ON: Self = Self(1 << 1);
    /// A lock stayed held after its run.
    pub(crate) const KEPT: Self = Self(1 << 2);
    /// A held lock that was taken in the future was moved to the present.
    pub(crate) const MOVED: Self = Self(1 << 3);
    /// A kept lock that was taken in the future was free.
    pub(crate) const FREED_FROM_THE_FUTURE: Self = Self(1 << 4);

    pub(crate) fn only_if(self, condition: bool) -> Self {
        if condition { self } else { Self::default() }
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Seen {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Seen {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Question {
    /// Explores every world, or all until the first that must not be.
    pub(crate) fn explore(&self) -> Found {
        let mut known: HashMap<World, (), BuildHasherDefault<Fold>> = HashMap::default();
        let mut reached = vec![(0, Action::Tick { late: false })];
        let mut seen = Seen::default();
        let first = World::new(self);
        known.insert(first.clone(), ());
        let mut edge = VecDeque::from([(first, 0)]);
        while let Some((world, number)) = edge.pop_front() {
            for action in world.actions(self) {
                let (next, noticed) = world.after(action, self);
                seen |= noticed;
                if known.contains_key(&next) {
                    continue;
                }
                known.insert(next.clone(), ());
                reached.push((number, action));
                let place = reached.len() - 1;
                if let Some(property) = self.wrong(&next) {
                    let mut actions = Vec::new();
                    let mut at = place;
                    while at != 0 {
                        actions.push(reached[at].1);
                        at = reached[at].0;
                    }
                    actions.reverse();
                    return Found { count: place, violation: Some((property, self.story(&actions))), seen };
                }
                edge.push_back((next, place));
            }
        }
        Found { count: reached.len(), violation: None, seen }
    }

    /// Walks at random for so many steps, or until the first world that must not be. The same seed walks the same way.
    pub(crate) fn hunt(&self, seed: u64, steps: usize) -> Found {
        let (mut random, mut seen) = (seed, Seen::default());
        let (mut world, mut actions) = (World::new(self), Vec::new());
        for count in 0..steps {
            let all = world.actions(self);
            let Some(action) = pick(&all, &mut random).filter(|_| actions.len() < WALK) else {
                (world, actions) = (World::new(self), Vec::new());
                continue;
            };
            let (after, noticed) = world.after(action, self);
            actions.push(action);
            seen |= noticed;
            if let Some(property) = self.wrong(&after) {
                return Found { count, violation: Some((property, self.story(&actions))), seen };
            }
            world = after;
        }
        Found { count: steps, violation: None, seen }
    }

    fn wrong(&self, world: &World) -> Option<Property> {
        world.violated(self).find(|property| self.never.contains(property))
    }

    /// Returns the steps that happened, a line for each tick, and the world in which they end.
    fn story(&self, actions: &[Action]) -> String {
        let mut world = World::new(self);
        let mut text = String::new();
        for action in actions {
            world = world.after(*action, self).0;
            let end = if matches!(action, Action::Tick { .. }) { "\n" } else { " " };
            let _ = write!(text, "{action:?}{end}");
        }
        let _ = write!(text, "\n{world:#?}");
        text
    }
}

/// Returns one of the actions. What ends a run, or is a fault, comes less often: otherwise no run would last.
fn pick(all: &[Action], random: &mut u64) -> Option<Action> {
    let mut below = |count: usize| usize::try_from(number(random) >> 1).map_or(0, |number| number % count);
    (!all.is_empty()).then(|| {
        loop {
            let action = all[below(all.len())];
            let is_common =
                matches!(action, Action::Tick { .. } | Action::Fire(_) | Action::Serve(..) | Action::Arrive(_));
            if is_common || below(8) == 0 {
                break action;
            }
        }
    })
}

/// Returns the next of a stream of numbers (splitmix64).
fn number(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
