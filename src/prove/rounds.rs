//! The rounds: in each, the clients play their parts on new locks, and what they recorded is judged and dropped.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::client::{Client, Round};
use super::figures::Figures;
use super::history::Call;
use super::judge::{Clock, Judgement, judge};
use super::long_locks::LongLocks;
use super::names::{Names, remove_leftovers};
use super::plan::parts;
use super::relay::Relay;
use super::scene::Scene;
use crate::backend::{Finding, Opened};
use crate::lock::{BackendError, ErrorClass, LockName, Owner};
use crate::system::Moment;

/// The longest round: most end much earlier, with the scenes.
const LONGEST_ROUND: Duration = Duration::from_secs(8);
/// With so many connections, one is spared for the client that has a frozen one.
const SPARING: usize = 4;
/// How often the caller is asked whether to go on.
const TURN: Duration = Duration::from_millis(20);
/// How long a round of races alone lasts.
const RACE_TIME: Duration = Duration::from_millis(1_500);
/// The pauses between the tries of what is done before and after a round.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// What to try.
pub(crate) struct Order {
    pub(crate) seed: u64,
    pub(crate) lasting: Duration,
    /// How long to try to reach the server at the start, and to clean up at the end.
    pub(crate) timeout: Duration,
    pub(crate) host: String,
    /// A random number for the names.
    pub(crate) random: u64,
}

/// How far it has come, for a person who waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) round: u64,
    pub(crate) takings: u64,
    pub(crate) left: Duration,
}

/// What was found.
pub(crate) struct Outcome {
    pub(crate) judgement: Judgement,
    pub(crate) figures: Figures,
    pub(crate) rounds: u64,
    /// How many names earlier ones had left.
    pub(crate) leftovers: usize,
    /// What could not be removed: how many names, their beginning, and why.
    pub(crate) left: Option<(usize, String, Option<BackendError>)>,
    /// Whether the clients' connections went through a relay.
    pub(crate) is_relayed: bool,
    /// The findings about a provider's functions; empty without a provider.
    pub(crate) functions: Vec<Finding>,
}

/// A trial over its rounds.
struct Trial<'a> {
    order: &'a Order,
    start: Moment,
    /// At least two. The first also does what is done between the rounds.
    clients: Vec<Client>,
    names: Names,
    long: LongLocks,
    clock: Clock,
    outcome: Outcome,
}

/// Asked all the time whether to go on.
type GoOn<'a> = &'a mut dyn FnMut(Progress) -> bool;

/// Tries the rules until the time is over or `go_on` says no. An error means that nothing could be asked at all.
pub(crate) fn prove(order: &Order, opened: Vec<(Opened, Relay)>, go_on: GoOn<'_>) -> Result<Outcome, BackendError> {
    let mut trial = Trial::new(order, opened);
    trial.begin(go_on)?;
    let end = Moment::now() + order.lasting;
    // A frozen connection stays open beside the one that undoes what it asked.
    let spared = usize::from(trial.clients[0].is_relayed() && trial.clients.len() >= SPARING);
    let most = trial.clients.len() - spared;
    let mut active = most;
    loop {
        trial.look_after_locks();
        let Some(round) = trial.next_round(active, end, spared > 0) else { break };
        let goes_on = trial.play(active, &round, end, go_on);
        let is_full = round.is_full.load(Ordering::Relaxed);
        active = if is_full { (active / 2).max(2) } else { (active + 1).min(most) };
        trial.clients.iter_mut().skip(active).for_each(|idle| idle.backend().disconnect());
        trial.remove(round.names);
        if !goes_on || Moment::now() >= end {
            break;
        }
    }
    Ok(trial.finish())
}

impl<'a> Trial<'a> {
    fn new(order: &'a Order, opened: Vec<(Opened, Relay)>) -> Self {
        let start = Moment::now();
        let clients = opened.into_iter().map(|(opened, relay)| Client::new(opened, relay, &order.host));
        let owner = Owner::new(&order.host, std::process::id(), order.random);
        Self {
            order,
            start,
            clients: clients.collect(),
            names: Names::new(order.random, owner),
            long: LongLocks::default(),
            clock: Clock::default(),
            outcome: Outcome {
                judgement: Judgement::default(),
                figures: Figures::new(start),
                rounds: 0,
                leftovers: 0,
                left: None,
                is_relayed: false,
                functions: Vec::new(),
            },
        }
    }

    /// Reaches the server, and removes what earlier ones have left.
    fn begin(&mut self, go_on: GoOn<'_>) -> Result<(), BackendError> {
        let (names, backend) = (&self.names, self.clients[0].backend());
        let waits = || go_on(Progress { round: 0, takings: 0, left: self.order.lasting });
        insist(self.start + self.order.timeout, waits, || names.mark(backend))?;
        // They harm nothing, and the next one tries again.
        self.outcome.leftovers = remove_leftovers(backend).unwrap_or_default();
        self.outcome.functions = backend.try_functions();
        Ok(())
    }

    /// Renews what is held over several rounds. What fails here is tried again before the next round.
    fn look_after_locks(&mut self) {
        let _ = self.names.mark(self.clients[0].backend());
        let owner = getrandom::u64().map(|random| Owner::new(&self.order.host, std::process::id(), random));
        let new = self.names.next().zip(owner.ok());
        self.turn_long_locks(new);
    }

    fn turn_long_locks(&mut self, new: Option<(LockName, Owner)>) {
        let Outcome { figures, judgement, .. } = &mut self.outcome;
        let over = self.long.turn(&mut self.clients[0], new, (figures, judgement), self.start);
        self.remove(over);
    }

    fn remove(&mut self, names: Vec<LockName>) {
        let _ = self.names.remove(self.clients[0].backend(), names);
    }

    /// Makes the next round for so many clients.
    fn next_round(&mut self, active: usize, end: Moment, may_freeze: bool) -> Option<Round> {
        let locks = parts(self.order.seed, self.outcome.rounds, active).iter().map(|part| part.lock + 1).max()?;
        Some(Round {
            names: (0..locks).map(|_| self.names.next()).collect::<Option<_>>()?,
            is_over: AtomicBool::new(false),
            deadline: (Moment::now() + LONGEST_ROUND).min(end),
            is_full: AtomicBool::new(false),
            may_freeze: AtomicBool::new(may_freeze),
        })
    }

    /// Lets the clients play a round, and judges what they recorded. Returns whether to go on.
    fn play(&mut self, active: usize, round: &Round, end: Moment, go_on: GoOn<'_>) -> bool {
        let parts = parts(self.order.seed, self.outcome.rounds, active);
        let actors = AtomicUsize::new(parts.iter().filter(|part| part.scene != Scene::Race).count());
        // A round of races alone has no scene that ends it.
        let race_end = (actors.load(Ordering::Relaxed) == 0).then(|| Moment::now() + RACE_TIME);
        let running = AtomicUsize::new(active);
        let (takings, number) = (self.outcome.figures.takings.count, self.outcome.rounds + 1);
        let mut goes_on = true;
        let mut calls: Vec<Call> = thread::scope(|scope| {
            let mut playing = Vec::new();
            for (client, part) in self.clients.iter_mut().zip(parts) {
                let (actors, running) = (&actors, &running);
                playing.push(scope.spawn(move || {
                    let is_actor = part.scene != Scene::Race;
                    let calls = client.play(part, round);
                    if is_actor && actors.fetch_sub(1, Ordering::Relaxed) == 1 {
                        round.is_over.store(true, Ordering::Relaxed);
                    }
                    running.fetch_sub(1, Ordering::Relaxed);
                    calls
                }));
            }
            while running.load(Ordering::Relaxed) > 0 {
                goes_on &= go_on(Progress { round: number, takings, left: end.since(Moment::now()) });
                let is_full = round.is_full.load(Ordering::Relaxed);
                if !goes_on || is_full || race_end.is_some_and(|end| Moment::now() >= end) {
                    round.is_over.store(true, Ordering::Relaxed);
                }
                thread::sleep(TURN);
            }
            playing.into_iter().flat_map(|client| client.join().unwrap_or_default()).collect()
        });
        calls.sort_by_key(|call| call.answered);
        for call in &calls {
            self.outcome.figures.add(call);
            self.clock.add(call, self.start);
        }
        self.outcome.judgement.merge(judge(&calls, self.start));
        self.outcome.rounds += 1;
        goes_on
    }

    /// Cleans up, and returns what was found.
    fn finish(mut self) -> Outcome {
        self.turn_long_locks(None);
        self.outcome.figures.finish(Moment::now());
        let decides = self.clients[0].backend().ends_locks_by_its_clock();
        self.outcome.judgement.merge(self.clock.judgement(decides));
        self.outcome.is_relayed = self.clients.iter().any(Client::is_relayed);
        self.clients.iter_mut().skip(1).for_each(|client| client.backend().disconnect());
        let (names, backend) = (&mut self.names, self.clients[0].backend());
        let result = insist(Moment::now() + self.order.timeout, || true, || names.finish(backend));
        if result.is_err() || names.left() > 0 {
            let why = result.err().or(names.refused.take());
            self.outcome.left = Some((names.left(), names.pattern(), why));
        }
        self.outcome
    }
}

/// Asks until there is an answer, until the deadline, or until `waits` says no.
fn insist<T>(
    deadline: Moment,
    mut waits: impl FnMut() -> bool,
    mut ask: impl FnMut() -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    loop {
        match ask() {
            Err(error) if error.class != ErrorClass::Permanent && Moment::now() + RETRY_PAUSE < deadline && waits() => {
                thread::sleep(RETRY_PAUSE.max(error.respite.unwrap_or_default().min(RETRY_PAUSE * 5)));
            }
            answer => return answer,
        }
    }
}
