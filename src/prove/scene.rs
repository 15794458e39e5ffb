//! The scenes that clients play, each as a list of beats. Together they give every rule a chance to be broken.

use std::time::Duration;

use super::history::Fault;
use super::random::Random;

/// What one client does with one lock in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scene {
    /// Acquires and releases as fast as the others let it, until the round is over.
    Race,
    /// Acquires a lock and leaves it to its time; when another has it, tries to renew, release and change it.
    Abandon,
    /// Releases a lock that stays held for a while.
    Hold,
    /// Renews before the lease is over, then with a shorter one than is left, and leaves the lock to its time.
    Renew,
    /// Gives its lock another end, as an operator does.
    Change,
    /// Loses its connection while it acquires, undoes that, and looks whether it stays undone.
    Cut,
    /// Loses its connection while it renews and releases.
    CutRelease,
    /// Waits for the lock of one of the scenes above.
    Watch,
}

/// One thing to do. A script is a list of beats, the first at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Acquires the lock for a new owner.
    Acquire {
        lease: Duration,
        fault: Option<Fault>,
    },
    /// Acquires it for the same owner.
    Again {
        lease: Duration,
    },
    Renew {
        lease: Duration,
        fault: Option<Fault>,
    },
    /// Releases the lock, and tries that again if the answer is missing.
    Release {
        hold: Duration,
        tries: u32,
    },
    CutRelease {
        fault: Fault,
    },
    Undo {
        tries: u32,
    },
    /// A release was sent; its answer decides whether to send it again.
    Released {
        hold: Duration,
        undo: bool,
        tries: u32,
    },
    Change {
        left: Duration,
    },
    List,
    Runs,
    Thaw,
    Pause {
        least: Duration,
        most: Duration,
    },
    /// Lists the lock until somebody has it.
    UntilHeld {
        tries: u32,
    },
    /// Lists the lock until another than the newest owner has it.
    UntilOthers {
        tries: u32,
    },
    /// Acquires the lock until it is granted.
    UntilGranted {
        lease: Duration,
        tries: u32,
    },
}

const MS: fn(u64) -> Duration = Duration::from_millis;
/// The tries of what waits for another client: some seconds, with the pauses between them.
const WAIT_TRIES: u32 = 300;
/// The tries of a release.
const TRIES: u32 = 8;

/// The scenes of pairs in the order in which they are played: the first four try every rule.
const OF_PAIRS: [Scene; 6] = [Scene::Abandon, Scene::Cut, Scene::Renew, Scene::Hold, Scene::CutRelease, Scene::Change];

impl Scene {
    /// Returns the scene of the pair with this number, counted over all rounds; the second of a pair watches.
    pub(crate) fn of_pair(number: u64, first: bool) -> Self {
        let count = u64::try_from(OF_PAIRS.len()).unwrap_or(1);
        let scene = OF_PAIRS[usize::try_from(number % count).unwrap_or_default()];
        if first { scene } else { Self::Watch }
    }

    /// Returns whether this client leaves its lock to its time.
    pub(crate) fn abandons(self) -> bool {
        matches!(self, Self::Abandon | Self::Renew | Self::Change)
    }

    /// Returns whether the scene is nothing without its lock.
    pub(crate) fn is_of_actor(self) -> bool {
        !matches!(self, Self::Race | Self::Watch)
    }
}

/// Writes the beats of a scene, the first at the end.
pub(crate) fn script(scene: Scene, random: &mut Random) -> Vec<Beat> {
    let mut beats = beats(scene, random);
    beats.reverse();
    beats
}

fn beats(scene: Scene, random: &mut Random) -> Vec<Beat> {
    let pause = |least, most| Beat::Pause { least: MS(least), most: MS(most) };
    let acquire = |lease| Beat::Acquire { lease: MS(lease), fault: None };
    let renew = |lease| Beat::Renew { lease: MS(lease), fault: None };
    let release = |hold| Beat::Release { hold: MS(hold), tries: TRIES };
    let until_others = Beat::UntilOthers { tries: WAIT_TRIES };
    match scene {
        Scene::Race => race(random),
        Scene::Abandon => {
            let mut late = vec![renew(1_000), release(0), Beat::Change { left: MS(2_000) }, release(1_000)];
            for place in (1..late.len()).rev() {
                late.swap(place, random.below(place + 1));
            }
            let mut all = vec![acquire(1_000), Beat::List];
            if random.percent(50) {
                all.push(Beat::Again { lease: MS(1_000) });
            }
            all.push(until_others);
            all.extend(late);
            all.extend([Beat::List, Beat::Runs]);
            all
        }
        Scene::Hold => {
            let hold = 1_000 + random.within(0..800);
            vec![
                acquire(4_000),
                pause(0, 100),
                renew(3_000),
                release(hold),
                release(hold),
                renew(2_000),
                Beat::List,
                Beat::Runs,
                until_others,
            ]
        }
        Scene::Renew => {
            vec![acquire(1_000), pause(300, 600), renew(2_000), renew(1_000), Beat::List, until_others, renew(1_000)]
        }
        Scene::Change => vec![
            acquire(4_000),
            Beat::Change { left: MS(3_000) },
            Beat::List,
            Beat::Change { left: MS(1_000) },
            Beat::List,
            until_others,
        ],
        // The list opens the connection, so that the first request that is kept is the acquisition.
        Scene::Cut => {
            let faults = [Fault::Freeze { after: 0 }, any_fault(random), any_fault(random)];
            [Beat::List].into_iter().chain(faults.into_iter().flat_map(cut)).collect()
        }
        Scene::CutRelease => (0..2).flat_map(|_| cut_release(random)).collect(),
        Scene::Watch => vec![
            Beat::UntilHeld { tries: 30 },
            Beat::UntilGranted { lease: MS(2_000), tries: WAIT_TRIES },
            pause(20, 60),
            renew(2_000),
            pause(20, 60),
            renew(2_000),
            pause(20, 60),
            Beat::List,
            renew(2_000),
            pause(40, 120),
            renew(2_000),
            release(0),
            Beat::Runs,
        ],
    }
}

/// One turn of a race: the lock is acquired, perhaps used, and released.
fn race(random: &mut Random) -> Vec<Beat> {
    let fault = |random: &mut Random| random.percent(4).then(|| quick_fault(random));
    let mut all = vec![Beat::Acquire { lease: MS(3_000), fault: fault(random) }];
    if random.percent(10) {
        all.push(Beat::Again { lease: MS(3_000) });
    }
    if random.percent(15) {
        all.push(Beat::Renew {
            lease: MS(random.pick(&[1_000, 2_000, 4_000]).copied().unwrap_or(1_000)),
            fault: fault(random),
        });
    }
    if random.percent(10) {
        all.push(Beat::List);
    }
    if random.percent(30) {
        all.push(Beat::Pause { least: MS(1), most: MS(8) });
    }
    match fault(random) {
        Some(fault) => all.push(Beat::CutRelease { fault }),
        None => all.push(Beat::Release { hold: Duration::ZERO, tries: TRIES }),
    }
    if random.percent(5) {
        all.push(Beat::Runs);
    }
    all.push(Beat::Thaw);
    all.push(Beat::Pause { least: MS(0), most: MS(4) });
    all
}

/// An acquisition that loses its connection.
fn cut(fault: Fault) -> Vec<Beat> {
    vec![
        Beat::Acquire { lease: MS(3_000), fault: Some(fault) },
        Beat::List,
        Beat::Release { hold: Duration::ZERO, tries: TRIES },
        Beat::Thaw,
        Beat::Pause { least: MS(5), most: MS(50) },
        Beat::List,
    ]
}

/// A renewal and a release that lose their connection; what was kept arrives after the lock is free.
fn cut_release(random: &mut Random) -> Vec<Beat> {
    vec![
        Beat::Acquire { lease: MS(3_000), fault: None },
        Beat::Renew { lease: MS(4_000), fault: Some(any_fault(random)) },
        Beat::CutRelease { fault: any_fault(random) },
        Beat::Thaw,
        Beat::Pause { least: MS(5), most: MS(50) },
        Beat::List,
        Beat::Runs,
    ]
}

/// Harm that does not make the client wait: only one connection may be frozen at a time, and the scenes of cuts need that.
fn quick_fault(random: &mut Random) -> Fault {
    match any_fault(random) {
        Fault::Freeze { after } => Fault::CutRequest { after },
        fault => fault,
    }
}

/// Any harm that the relay can do. A request takes some hundred bytes, or some thousand if it is several: a cut falls before, into
/// or behind one.
fn any_fault(random: &mut Random) -> Fault {
    let most = random.pick(&[60, 400, 3_000]).copied().unwrap_or(400);
    let after = random.below(most);
    match random.below(8) {
        0..3 => Fault::CutRequest { after },
        3..5 => Fault::CutAnswer { after: after / 4 },
        5 => Fault::Delay { by: random.between(MS(5), MS(200)) },
        _ => Fault::Freeze { after },
    }
}
