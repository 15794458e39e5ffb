//! The explorer: every world that can be reached, breadth first, so that what is found first is the shortest story.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::hash::{BuildHasherDefault, Hasher};

use crate::action::Action;
use crate::properties::{Moments, Property, moments, violated};
use crate::rules::{Faults, Rules};
use crate::world::World;

/// What is to be explored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub(crate) rules: Rules,
    pub(crate) faults: Faults,
    /// How many runs begin, on any host and at any time.
    pub(crate) firings: u8,
    /// Whether the jobs write to a resource that knows tokens.
    pub(crate) writes: bool,
    /// What must never be.
    pub(crate) never: &'static [Property],
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Findings {
    pub(crate) states: usize,
    /// The first world that must not be, and the story that leads to it.
    pub(crate) violation: Option<(Property, String)>,
    pub(crate) moments: Moments,
    /// The longest time, in ticks, that somebody has waited while no job began; `None` if there is no longest.
    pub(crate) longest_wait: Option<u32>,
}

impl Question {
    /// Explores every world, or all until the first that must not be.
    pub(crate) fn explore(&self) -> Findings {
        let mut known: HashMap<World, u32, BuildHasherDefault<Fold>> = HashMap::default();
        let mut reached = vec![(0, Action::Tick([false; 2]))];
        let mut waits = Vec::new();
        let mut found = Moments::default();
        let first = World::new(self.firings, self.faults);
        known.insert(first.clone(), 0);
        let mut edge = VecDeque::from([(first, 0_u32)]);
        while let Some((world, number)) = edge.pop_front() {
            for action in world.actions(self.rules, self.writes) {
                let next = world.after(action, self.rules);
                found |= moments(&world, action, &next);
                let bad = violated(&next).find(|property| self.never.contains(property));
                let fresh = u32::try_from(reached.len()).expect("far fewer worlds than that fit in memory");
                let next_number = *known.entry(next.clone()).or_insert(fresh);
                if waits_on(&world, &next) {
                    waits.push((number, next_number, matches!(action, Action::Tick(_))));
                }
                if next_number == fresh {
                    reached.push((number, action));
                    if let Some(property) = bad {
                        let story = self.story(&reached, fresh);
                        let states = reached.len();
                        return Findings {
                            states,
                            violation: Some((property, story)),
                            moments: found,
                            longest_wait: None,
                        };
                    }
                    edge.push_back((next, fresh));
                }
            }
        }
        let longest_wait = longest(reached.len(), &waits);
        Findings { states: reached.len(), violation: None, moments: found, longest_wait }
    }

    /// Returns the steps that led to a world, a line for each tick.
    fn story(&self, reached: &[(u32, Action)], mut number: u32) -> String {
        let mut actions = Vec::new();
        while number != 0 {
            let (from, action) = reached[number as usize];
            actions.push(action);
            number = from;
        }
        let mut world = World::new(self.firings, self.faults);
        let mut text = String::new();
        for action in actions.into_iter().rev() {
            world = world.after(action, self.rules);
            let end = if matches!(action, Action::Tick(_)) { "\n" } else { " " };
            let _ = write!(text, "{action:?}{end}");
        }
        let _ = write!(text, "\n{world:#?}");
        text
    }
}

/// Returns whether somebody waits before and after, and no job begins in between.
fn waits_on(world: &World, next: &World) -> bool {
    let jobs = |world: &World| world.hosts.each_ref().map(|host| host.job.command.then_some(host.owner));
    let begun = jobs(next).into_iter().zip(jobs(world)).any(|(now, before)| now.is_some() && now != before);
    let waits = |world: &World| world.hosts.iter().any(crate::host::Host::waits);
    !begun && waits(world) && waits(next)
}

/// Returns the longest way through these steps, counted in ticks; `None` if a way comes back to where it was.
fn longest(worlds: usize, steps: &[(u32, u32, bool)]) -> Option<u32> {
    let mut coming = vec![0_u32; worlds];
    let mut begins = vec![0_u32; worlds + 1];
    for (from, to, _) in steps {
        coming[*to as usize] += 1;
        begins[*from as usize + 1] += 1;
    }
    for at in 0..worlds {
        begins[at + 1] += begins[at];
    }
    let mut sorted = vec![(0_u32, false); steps.len()];
    let mut at = begins.clone();
    for (from, to, tick) in steps {
        sorted[at[*from as usize] as usize] = (*to, *tick);
        at[*from as usize] += 1;
    }
    let mut ways = vec![0_u32; worlds];
    let mut ready: Vec<usize> = (0..worlds).filter(|world| coming[*world] == 0).collect();
    let mut done = 0;
    while let Some(world) = ready.pop() {
        done += 1;
        for (to, tick) in &sorted[begins[world] as usize..begins[world + 1] as usize] {
            let to = *to as usize;
            ways[to] = ways[to].max(ways[world] + u32::from(*tick));
            coming[to] -= 1;
            if coming[to] == 0 {
                ready.push(to);
            }
        }
    }
    (done == worlds).then(|| ways.into_iter().max().unwrap_or_default())
}

/// A hash that costs little in a build without optimization.
#[derive(Default)]
pub(crate) struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
