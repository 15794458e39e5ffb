//! Decides what each client does next. Pure: the seed, the client's part in the round and the answers so far decide, and
//! nothing here waits or sends.

use std::time::Duration;

use super::history::{Answer, Call, Fault, Request};
use super::random::Random;
use super::scene::{Beat, Scene, script};
use crate::lock::StillHeld;

/// What a client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sends a request for this client's owner of that number, while the relay does harm to the connection.
    Ask {
        owner: u32,
        request: Request,
        fault: Option<Fault>,
    },
    /// Delivers what the relay kept.
    Thaw,
    Pause(Duration),
    /// The part is over.
    Done,
}

/// A client's part in a round: the scene that it plays on one lock, and how far it has come.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) lock: usize,
    pub(crate) scene: Scene,
    random: Random,
    /// What is still to do, the next at the end.
    todo: Vec<Beat>,
    /// The owner of the newest acquisition; the next one gets the next number.
    owner: u32,
    /// Whether the last acquisition was granted and has not been released.
    holds: bool,
    /// Tries of the beat that is repeated until something is seen.
    tries: u32,
}

/// The most tries of a beat that waits for something, so that a broken store does not keep a round for ever.
const MOST_TRIES: u32 = 400;
/// The tries of an undoing or a release whose answer is missing.
const RELEASE_TRIES: u32 = 8;
const MS: fn(u64) -> Duration = Duration::from_millis;

/// Gives each of the clients a part: half of them race, and the others play scenes in pairs. With fewer than four, races and
/// scenes take turns.
pub(crate) fn parts(seed: u64, round: u64, clients: usize) -> Vec<Part> {
    let mut random = Random::new(seed, round);
    let racers = match clients {
        0..4 if round.is_multiple_of(2) => 0,
        0..4 => clients,
        _ => clients / 2,
    };
    let mut order: Vec<usize> = (0..clients).collect();
    for place in (1..clients).rev() {
        order.swap(place, random.below(place + 1));
    }
    let pairs = u64::try_from((clients - racers) / 2).unwrap_or(1).max(1);
    let scene = |place: usize| match place.checked_sub(racers) {
        None => (0, Scene::Race),
        Some(place) => {
            let turn = if clients < 4 { round / 2 } else { round };
            let number = turn * pairs + u64::try_from(place / 2).unwrap_or_default();
            (1 + place / 2, Scene::of_pair(number, place % 2 == 0))
        }
    };
    let mut parts: Vec<(usize, Part)> = order
        .into_iter()
        .enumerate()
        .map(|(place, client)| {
            let (lock, scene) = scene(place);
            let stream = round.wrapping_mul(64).wrapping_add(u64::try_from(client).unwrap_or_default());
            (client, Part::new(lock, scene, Random::new(!seed, stream)))
        })
        .collect();
    parts.sort_by_key(|(client, _)| *client);
    parts.into_iter().map(|(_, part)| part).collect()
}

impl Part {
    pub(crate) fn new(lock: usize, scene: Scene, mut random: Random) -> Self {
        let todo = script(scene, &mut random);
        Self { lock, scene, random, todo, owner: 0, holds: false, tries: 0 }
    }

    /// Returns what to do after the last call was answered; `over`: the round is over, and nothing new is begun.
    pub(crate) fn next(&mut self, last: Option<&Call>, over: bool) -> Step {
        if let Some(call) = last {
            self.learn(call);
        }
        if over {
            // The releases of later acquisitions would only keep the round going.
            let holds = self.holds;
            self.todo.retain(|beat| match beat {
                Beat::Release { .. } => holds,
                beat => matches!(beat, Beat::Undo { .. } | Beat::Thaw),
            });
            if self.todo.is_empty() && self.holds && !self.scene.abandons() {
                self.todo.push(Beat::Release { hold: Duration::ZERO, tries: 1 });
            }
        }
        if self.todo.is_empty() {
            if over || self.scene != Scene::Race {
                return Step::Done;
            }
            self.todo = script(self.scene, &mut self.random);
        }
        let Some(beat) = self.todo.pop() else { return Step::Done };
        self.step(beat)
    }

    /// Turns a beat into a step.
    fn step(&mut self, beat: Beat) -> Step {
        let (owner, fault) = (self.owner, None);
        match beat {
            Beat::Acquire { lease, fault } => {
                self.owner += 1;
                Step::Ask { owner: self.owner, request: Request::Acquire { lease }, fault }
            }
            Beat::Again { lease } => Step::Ask { owner, request: Request::Acquire { lease }, fault },
            Beat::Renew { lease, fault } => Step::Ask { owner, request: Request::Renew { lease }, fault },
            Beat::Release { hold, tries } => {
                self.todo.push(Beat::Released { hold, undo: false, tries });
                Step::Ask { owner, request: Request::Release { hold, undo: false }, fault }
            }
            Beat::CutRelease { fault } => {
                self.todo.push(Beat::Released { hold: Duration::ZERO, undo: false, tries: RELEASE_TRIES });
                Step::Ask { owner, request: Request::Release { hold: Duration::ZERO, undo: false }, fault: Some(fault) }
            }
            Beat::Undo { tries } => {
                self.todo.push(Beat::Released { hold: Duration::ZERO, undo: true, tries });
                Step::Ask { owner, request: Request::Release { hold: Duration::ZERO, undo: true }, fault }
            }
            Beat::Change { left } => Step::Ask { owner, request: Request::Change { left }, fault },
            Beat::List => Step::Ask { owner, request: Request::List, fault },
            Beat::Runs => Step::Ask { owner, request: Request::Runs, fault },
            Beat::Thaw => Step::Thaw,
            Beat::Pause { least, most } => Step::Pause(self.random.between(least, most)),
            Beat::UntilHeld { tries } | Beat::UntilOthers { tries } if tries == 0 => Step::Pause(Duration::ZERO),
            Beat::UntilHeld { .. } | Beat::UntilOthers { .. } => {
                self.todo.push(beat);
                Step::Ask { owner, request: Request::List, fault }
            }
            Beat::UntilGranted { lease, tries } => {
                if tries == 0 {
                    return Step::Pause(Duration::ZERO);
                }
                self.owner += 1;
                self.todo.push(beat);
                Step::Ask { owner: self.owner, request: Request::Acquire { lease }, fault }
            }
            Beat::Released { .. } => Step::Pause(Duration::ZERO),
        }
    }

    /// Changes what is still to do by an answer.
    fn learn(&mut self, call: &Call) {
        let failed = matches!(call.answer, Answer::Failed { .. });
        match (&call.request, &call.answer) {
            (Request::Acquire { .. }, Answer::Granted { .. }) => self.holds = true,
            (Request::Release { .. }, Answer::StillHeld(_)) => self.holds = false,
            (Request::Renew { .. } | Request::Change { .. }, Answer::StillHeld(StillHeld::Lost)) => self.holds = false,
            _ => {}
        }
        if let Some(Beat::Released { hold, undo, tries }) = self.todo.last().copied() {
            self.todo.pop();
            if failed && tries > 0 {
                let again = match undo {
                    true => Beat::Undo { tries: tries - 1 },
                    false => Beat::Release { hold, tries: tries - 1 },
                };
                self.todo.extend([again, Beat::Pause { least: MS(5), most: MS(40) }]);
            }
            return;
        }
        match (call.request, self.todo.last().copied()) {
            (Request::List, Some(Beat::UntilHeld { tries })) => {
                self.wait(
                    matches!(&call.answer, Answer::Listed { state: Some(_), .. }),
                    Beat::UntilHeld { tries: tries - 1 },
                );
            }
            (Request::List, Some(Beat::UntilOthers { tries })) => {
                let others = |owner: &str| owner != call.owner && !owner.starts_with(&call.owner);
                let seen = matches!(&call.answer, Answer::Listed { state: Some(state), .. }
                    if !state.left.is_zero() && others(&state.owner));
                self.wait(seen, Beat::UntilOthers { tries: tries - 1 });
            }
            (Request::Acquire { .. }, Some(Beat::UntilGranted { lease, tries })) => match &call.answer {
                Answer::Granted { .. } => drop(self.todo.pop()),
                Answer::Failed { ambiguous: true, .. } => {
                    self.todo.pop();
                    self.todo.push(Beat::UntilGranted { lease, tries: tries - 1 });
                    self.todo.push(Beat::Undo { tries: RELEASE_TRIES });
                }
                _ => self.wait(false, Beat::UntilGranted { lease, tries: tries - 1 }),
            },
            // What follows an acquisition is for its owner only.
            (Request::Acquire { .. }, _) if !matches!(call.answer, Answer::Granted { .. }) => {
                while self.todo.pop_if(|beat| !matches!(beat, Beat::Acquire { .. })).is_some() {}
                self.tries += 1;
                if self.todo.is_empty() && self.scene.is_of_actor() && self.tries < MOST_TRIES {
                    self.todo = script(self.scene, &mut self.random);
                }
                self.todo.push(Beat::Pause { least: MS(1), most: MS(10) });
                if matches!(call.answer, Answer::Failed { ambiguous: true, .. }) {
                    // It may be carried out late: what undoes it has to make it void first.
                    self.todo.extend([Beat::List, Beat::Pause { least: MS(5), most: MS(60) }, Beat::Thaw]);
                    self.todo.push(Beat::Undo { tries: RELEASE_TRIES });
                }
            }
            (Request::Renew { .. }, _) if failed => self.todo.push(Beat::Thaw),
            _ => {}
        }
    }

    /// Goes on with what is next if what was waited for is seen, and waits again otherwise.
    fn wait(&mut self, seen: bool, again: Beat) {
        self.todo.pop();
        if !seen {
            self.todo.extend([again, Beat::Pause { least: MS(10), most: MS(40) }]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Moment;

    /// Plays a part against a store that grants everything, and returns the steps.
    fn steps(mut part: Part) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut last: Option<Call> = None;
        for turn in 0..60 {
            let step = part.next(last.take().as_ref(), turn > 40);
            if let Step::Ask { owner, request, .. } = step {
                let answer = match request {
                    Request::Acquire { .. } => Answer::Granted { token: None },
                    Request::List => Answer::Listed { now: crate::system::Timestamp(0), state: None },
                    Request::Runs => Answer::Runs(Vec::new()),
                    _ => Answer::StillHeld(StillHeld::Held),
                };
                let now = Moment::at(Duration::ZERO);
                last = Some(Call {
                    lock: part.lock,
                    owner: owner.to_string(),
                    request,
                    sent: now,
                    answered: now,
                    answer,
                    fault: None,
                });
            }
            steps.push(step);
        }
        steps
    }

    fn rounds(seed: u64, clients: usize) -> Vec<Vec<Step>> {
        (0..8).flat_map(|round| parts(seed, round, clients)).map(steps).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_one_another() {
        assert_eq!(rounds(7, 8), rounds(7, 8));
        assert_ne!(rounds(7, 8), rounds(8, 8));
    }

    #[test]
    fn a_part_ends_when_the_round_is_over_and_has_released_its_lock() {
        for steps in rounds(7, 8) {
            assert_eq!(steps.last(), Some(&Step::Done), "{steps:?}");
        }
    }

    #[test]
    fn every_scene_is_played_in_the_first_rounds_however_few_the_clients() {
        for clients in 2..=64 {
            let scenes: Vec<Scene> =
                (0..14).flat_map(|round| parts(9, round, clients)).map(|part| part.scene).collect();
            let all = [
                Scene::Race,
                Scene::Abandon,
                Scene::Hold,
                Scene::Renew,
                Scene::Change,
                Scene::Cut,
                Scene::CutRelease,
                Scene::Watch,
            ];
            let missing: Vec<Scene> = all.into_iter().filter(|scene| !scenes.contains(scene)).collect();
            assert_eq!(missing, [], "with {clients} clients");
        }
    }
}
