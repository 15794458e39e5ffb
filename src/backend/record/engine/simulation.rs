//! The engine against a made-up store that loses answers, answers late, is written by other programs, and has several servers
//! with coarse clocks, which differ, are set back, and were once ahead.
//!
//! Time is that of the simulation: each request takes some of it. A client holds the lock from the answer to its acquisition
//! until the lease that it asked for has passed since before it asked, less the most by which the servers' clocks differ. The
//! tests check that no two clients hold the lock at once; that a hold is as long as was asked for, but for that difference; and
//! that a lock whose holder died is free when its time is up, later only by that difference and by the time that a clock was set
//! back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::*;
use crate::lock::{LockName, Owner, Purpose, RunOutcome};

const SECOND: Duration = Duration::from_secs(1);
/// Number of clients that want the lock.
const CLIENTS: usize = 3;
/// Number of servers, each of which has a clock.
const SERVERS: usize = 3;
/// Milliseconds that each client asks for.
const LEASE: u64 = 5000;
/// Milliseconds by which a lock may end late: once its end is written a second later, and once the time is up to a second
/// later than its answer says.
const MAX_DELAY_MS: u64 = 2000;

/// Says what happens to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    /// Carried out, and the answer is lost.
    Lost,
    /// Carried out later, if it still can be; the client gets no answer.
    Late,
    /// Lost on its way.
    Refused,
}

/// Holds a request on its way: the record to write, or none to remove it, and the version that it needs.
type Sent = (Option<Record>, Option<u64>);

#[derive(Default)]
struct World {
    millis: u64,
    record: Option<(Record, u64)>,
    version: u64,
    late: Vec<Sent>,
    /// The fates of the next writes; those beyond are answered.
    fates: VecDeque<(Fate, u64)>,
    /// Says whether another program writes between each of the next reads and its write.
    meddling: VecDeque<bool>,
    /// Happens after the next read.
    between: Option<Box<dyn FnOnce() + Send>>,
    /// Milliseconds by which the servers' clocks are ahead.
    clocks: [i64; SERVERS],
    /// The servers that answer the next requests, again and again.
    route: VecDeque<usize>,
    /// When the lock was read last.
    read_at: u64,
}

impl World {
    fn write(&mut self, (record, version): Sent) -> WriteResult {
        if self.record.as_ref().map(|(_, version)| *version) != version {
            return WriteResult::Conflict;
        }
        self.version += 1;
        self.record = record.map(|record| (record, self.version));
        WriteResult::Done
    }

    /// Carries a request out, or treats it as its fate says.
    fn receive(&mut self, sent: Sent) -> Result<WriteResult, BackendError> {
        let (fate, took) = self.fates.pop_front().unwrap_or((Fate::Answered, 1));
        self.millis += took;
        match fate {
            Fate::Answered => return Ok(self.write(sent)),
            Fate::Lost => {
                self.write(sent);
            }
            Fate::Late => self.late.push(sent),
            Fate::Refused => {}
        }
        Err(BackendError::transient("no answer").ambiguous())
    }

    /// Returns the time by the clock of the server that answers.
    fn clock(&mut self) -> Timestamp {
        let server = self.route.front().copied().unwrap_or_default();
        self.route.rotate_left(1.min(self.route.len()));
        Timestamp(self.millis.saturating_add_signed(self.clocks[server]) / 1000 * 1000)
    }

    /// Sets the clocks of all servers back.
    fn set_back(&mut self, millis: u64) {
        let back = i64::try_from(millis).unwrap();
        self.clocks = self.clocks.map(|ahead| ahead - back);
    }

    /// Acquires the lock if it is free, as a program does that knows nothing of the runs.
    fn meddle(&mut self) {
        let now = Timestamp(self.millis);
        let (record, _) = self.record.clone().unwrap_or_default();
        if record.until.is_some_and(|until| until <= now) {
            let until = Some(now + SECOND);
            self.version += 1;
            let owner = "another program".to_owned();
            self.record = Some((Record { owner, since: Some(now), until, set_at: None, ..record }, self.version));
        }
    }
}

/// Connects a client to the store.
#[derive(Clone)]
struct Connection(Arc<Mutex<World>>);

impl Connection {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    fn millis(&self) -> u64 {
        self.world().millis
    }
}

impl RecordStore for Connection {
    type Version = u64;

    fn clock_resolution(&self) -> Duration {
        SECOND
    }

    fn max_runs(&self) -> u32 {
        5
    }

    fn label(&self) -> String {
        "backend world".to_owned()
    }

    fn read(&mut self, _: &str) -> Result<ReadResult<u64>, BackendError> {
        let mut world = self.world();
        let found = world.record.clone();
        let now = world.clock();
        world.read_at = world.millis;
        if world.meddling.pop_front() == Some(true) {
            world.meddle();
        }
        // Each write makes the version larger, as in a store that counts its transactions.
        let min_token = world.version + 1;
        let between = world.between.take();
        drop(world);
        between.into_iter().for_each(|happens| happens());
        Ok(ReadResult { now, min_token, found })
    }

    fn write(&mut self, _: &str, record: &Record, version: Option<&u64>) -> Result<WriteResult, BackendError> {
        self.world().receive((Some(record.clone()), version.copied()))
    }

    fn remove(&mut self, _: &str, version: &u64) -> Result<WriteResult, BackendError> {
        self.world().receive((None, Some(*version)))
    }

    fn list(&mut self, sink: RecordSink<'_>) -> Result<Timestamp, BackendError> {
        let mut world = self.world();
        world.record.iter().for_each(|(record, _)| sink("job".to_owned(), record.clone()));
        Ok(world.clock())
    }

    fn disconnect(&mut self) {}

    fn create_missing(&mut self) -> Result<Vec<String>, BackendError> {
        Ok(Vec::new())
    }

    fn schema(&mut self) -> Result<String, BackendError> {
        Ok(String::new())
    }
}

/// Describes a step of a story.
#[derive(Debug, Clone)]
enum Step {
    /// A client acquires the lock, or renews it if it has it.
    Ask(usize),
    /// A client releases the lock, which stays held for so many milliseconds since its acquisition.
    Release(usize, u64),
    /// Requests that were on their way arrive.
    Arrive,
    Wait(u64),
    /// The fate of the next write, and the milliseconds that it takes.
    Fate(Fate, u64),
    Meddle,
    /// An operator looks at the lock and forgets it, with a write of a client in between or not.
    Forget(Option<usize>),
    /// The clock of a server is moved to another place between the earliest and the latest.
    Drift(usize, f64),
    /// The clocks of all servers are set back.
    SetBack(u64),
    /// The clocks of all servers, which were ahead, are set right.
    SetRight,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate = prop_oneof![Just(Fate::Answered), Just(Fate::Lost), Just(Fate::Late), Just(Fate::Refused)];
    let step = prop_oneof![
        4 => (0..CLIENTS).prop_map(Step::Ask),
        2 => (0..CLIENTS, prop_oneof![Just(0), 0..8000_u64]).prop_map(|(client, hold)| Step::Release(client, hold)),
        1 => Just(Step::Arrive),
        2 => (0..3000_u64).prop_map(Step::Wait),
        3 => (fate, 0..1500_u64).prop_map(|(fate, took)| Step::Fate(fate, took)),
        1 => Just(Step::Meddle),
        2 => proptest::option::of(0..CLIENTS).prop_map(Step::Forget),
    ];
    proptest::collection::vec(step, 1..40)
}

/// Describes the clocks of a story.
#[derive(Debug, Clone)]
struct Clocks {
    /// Milliseconds by which any two of them may differ.
    spread: u64,
    /// Milliseconds by which all were ahead at first.
    ahead: u64,
    route: Vec<usize>,
}

fn clocks() -> impl Strategy<Value = Clocks> {
    let route = proptest::collection::vec(0..SERVERS, 1..8);
    (prop_oneof![Just(0), Just(1500)], prop_oneof![Just(0), Just(3_600_000)], route)
        .prop_map(|(spread, ahead, route)| Clocks { spread, ahead, route })
}

/// Returns steps with clocks that move. No other program writes: its clock is its own affair.
fn steps_of_clocks() -> impl Strategy<Value = Vec<Step>> {
    let fate = prop_oneof![Just(Fate::Answered), Just(Fate::Lost), Just(Fate::Late), Just(Fate::Refused)];
    let hold = prop_oneof![Just(0), 0..8000_u64];
    let step = prop_oneof![
        5 => (0..CLIENTS).prop_map(Step::Ask),
        3 => (0..CLIENTS, hold).prop_map(|(client, hold)| Step::Release(client, hold)),
        1 => Just(Step::Arrive),
        4 => (0..4000_u64).prop_map(Step::Wait),
        1 => (fate, 0..1500_u64).prop_map(|(fate, took)| Step::Fate(fate, took)),
        1 => proptest::option::of(0..CLIENTS).prop_map(Step::Forget),
        3 => (0..SERVERS, 0.0..1.0).prop_map(|(server, place)| Step::Drift(server, place)),
        1 => (0..40_000_u64).prop_map(Step::SetBack),
        1 => Just(Step::SetRight),
    ];
    proptest::collection::vec(step, 1..50)
}

/// Describes a client and its run.
struct Client {
    locks: RecordLocks<Connection>,
    claim: Claim,
    /// The end of its lease, by the world's clock; `None` if it does not hold the lock.
    holds_until: Option<u64>,
    /// When the lock was read for its acquisition.
    taken_at: u64,
    runs: u64,
}

/// Plays a story of clients, and checks what must hold of them.
struct Story {
    world: Connection,
    clients: Vec<Client>,
    last_token: u64,
    /// The lock must not be granted before, because a released lock stays held.
    kept_until: u64,
    /// Milliseconds by which the clocks were set back since that release.
    back: u64,
    /// The lock must not be held any more afterwards, unless it is written; `None` if that is not known.
    free_by: Option<u64>,
    /// Whether the lock was released without a hold: it then stays free whatever the clocks are set to.
    is_free: bool,
    /// Milliseconds by which any two clocks may differ, and by which all are ahead until they are set right.
    spread: u64,
    ahead: u64,
    /// Milliseconds by which the clock that is least ahead may be ahead.
    base: i64,
}

impl Story {
    fn new() -> Self {
        Self::with(&Clocks { spread: 0, ahead: 0, route: Vec::new() })
    }

    fn with(clocks: &Clocks) -> Self {
        let world = Connection(Arc::default());
        {
            let mut world = world.world();
            // The clock begins late enough for a record without a time to have expired, and to be set back.
            world.millis = 1_000_000_000;
            world.clocks = [i64::try_from(clocks.ahead).unwrap(); SERVERS];
            world.route = clocks.route.iter().copied().collect();
        }
        let clients = (0..CLIENTS).map(|number| Client {
            locks: RecordLocks::new(world.clone()),
            claim: Claim {
                name: LockName::new("job").unwrap(),
                owner: Owner::new("host", u32::try_from(number).unwrap(), 0),
                lease: Duration::from_millis(LEASE),
                keep: 3,
                purpose: Purpose::Run,
            },
            holds_until: None,
            taken_at: 0,
            runs: 0,
        });
        let Clocks { spread, ahead, .. } = *clocks;
        let clients = clients.collect();
        Self {
            clients,
            world,
            last_token: 0,
            kept_until: 0,
            back: 0,
            free_by: None,
            is_free: false,
            spread,
            ahead,
            base: i64::try_from(ahead).unwrap(),
        }
    }

    /// Notes that the lock may be held for so long from now on.
    fn may_end_after(&mut self, millis: u64) {
        let end = self.latest_end(millis);
        self.is_free = false;
        self.free_by = self.free_by.and_then(|free_by| end.max(Some(free_by)));
    }

    /// Returns the latest end of a lock that is held for so long from now on.
    fn latest_end(&self, millis: u64) -> Option<u64> {
        Some(self.world.millis() + millis + MAX_DELAY_MS + self.spread)
    }

    fn set_back(&mut self, millis: u64) {
        self.world.world().set_back(millis);
        self.base -= i64::try_from(millis).unwrap();
        self.back += millis;
        if self.back >= 59_000 {
            // The lock counts as acquired by a clock that was ahead.
            self.kept_until = 0;
        }
    }

    fn perform(&mut self, step: &Step) {
        match *step {
            Step::Ask(client) if self.clients[client].holds_until.is_some() => self.renew(client),
            Step::Ask(client) => self.sink(client),
            Step::Release(client, hold) => self.release(client, Duration::from_millis(hold)),
            Step::Arrive => {
                let late = std::mem::take(&mut self.world.world().late);
                for sent in late {
                    self.world.world().write(sent);
                }
            }
            Step::Wait(millis) => self.world.world().millis += millis,
            Step::Fate(fate, took) => self.world.world().fates.push_back((fate, took)),
            Step::Meddle => self.world.world().meddling.push_back(true),
            Step::Forget(between) => self.forget(between),
            Step::Drift(server, place) => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "it is some number")]
                let drift = (place * self.spread as f64) as i64;
                self.world.world().clocks[server] = self.base + drift;
            }
            Step::SetBack(millis) => {
                self.set_back(millis);
                if !self.is_free {
                    self.free_by = self.free_by.map(|free_by| free_by + millis);
                }
            }
            Step::SetRight => {
                let ahead = std::mem::take(&mut self.ahead);
                self.set_back(ahead);
                self.free_by = self.free_by.filter(|_| ahead == 0 || self.is_free);
            }
        }
        let now = self.world.millis();
        for client in &mut self.clients {
            client.holds_until = client.holds_until.filter(|until| *until > now);
        }
    }

    /// Acquires the lock under a new owner, and undoes the acquisition if its answer was lost, as the worker does.
    fn sink(&mut self, number: usize) {
        let client = &mut self.clients[number];
        client.runs += 1;
        client.claim.owner = Owner::new("host", u32::try_from(number).unwrap(), client.runs);
        let asked = self.world.millis();
        match client.locks.acquire(&client.claim).map(|reply| reply.answer) {
            Ok(Acquired::Granted(grant)) => {
                client.holds_until = Some(asked + LEASE - self.spread);
                client.taken_at = self.world.world().read_at;
                let now = self.world.millis();
                (self.free_by, self.is_free) = (self.latest_end(LEASE), false);
                let holders = self.clients.iter().filter(|client| client.holds_until.is_some_and(|until| until > now));
                assert!(holders.count() <= 1, "two hold it");
                assert!(now >= self.kept_until, "it was still held");
                let token = grant.token.unwrap();
                assert!(token > self.last_token, "{token} follows {}", self.last_token);
                self.last_token = token;
            }
            Ok(Acquired::Held(state)) => {
                assert!(!state.left.is_zero(), "{state:?}");
                let is_late = self.free_by.is_some_and(|free_by| asked > free_by);
                assert!(!is_late || state.owner == "another program", "it is stuck: {state:?}");
                let others = self.clients.iter().any(|client| state.owner.starts_with(client.claim.owner.as_str()));
                let known = others || state.owner == "another program" || state.owner.ends_with(Owner::ENDED_SUFFIX);
                assert!(known || state.owner.starts_with("host:"), "{state:?}");
            }
            Err(error) => {
                assert!(error.ambiguous && error.message.starts_with("backend world: "), "{error:?}");
                self.may_end_after(LEASE);
                self.give_back(number);
            }
        }
    }

    /// Undoes an acquisition whose answer was lost. If that is answered, an acquisition still on its way has no effect.
    fn give_back(&mut self, number: usize) {
        let client = &mut self.clients[number];
        if client.locks.release(&client.claim, Duration::ZERO, Closing::Undone).is_ok() {
            self.perform(&Step::Arrive);
            let owner = self.clients[number].claim.owner.as_str();
            let record = self.world.world().record.clone().unwrap_or_default().0;
            assert_ne!(record.owner, owner, "an acquisition that was given up was carried out");
        }
    }

    /// Forgets the lock as it was seen. A client that asks in between wins.
    fn forget(&mut self, between: Option<usize>) {
        let mut operator = RecordLocks::new(self.world.clone());
        let lock = operator.locks(&["job"]).unwrap().locks.pop();
        let seen = lock.map(|lock| lock.state.owner).unwrap_or_default();
        if let Some(client) = between {
            self.perform(&Step::Ask(client));
        }
        let asked = self.world.millis();
        match operator.forget(&Removal::new(LockName::new("job").unwrap(), seen)) {
            Ok(Forgotten::Gone { lock: true, .. }) => {
                let is_held = |client: &Client| client.holds_until.is_some_and(|until| until > asked);
                assert!(!self.clients.iter().any(is_held), "a held lock was forgotten");
                assert!(asked >= self.kept_until, "it was still kept");
                assert_eq!(self.world.world().record, None);
            }
            Ok(_) => {}
            Err(error) => assert!(error.ambiguous, "{error:?}"),
        }
    }

    fn renew(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let asked = self.world.millis();
        let until = client.holds_until.unwrap();
        let answer = client.locks.renew(&client.claim).map(|reply| reply.answer);
        self.may_end_after(LEASE + 1000);
        let client = &mut self.clients[number];
        match answer {
            Ok(StillHeld::Held) => client.holds_until = Some((asked + LEASE - self.spread).max(until)),
            Ok(StillHeld::Lost) => assert!(self.world.millis() >= until, "a lock that is held was lost"),
            Err(error) => assert!(error.ambiguous, "{error:?}"),
        }
    }

    fn release(&mut self, number: usize, hold: Duration) {
        let client = &mut self.clients[number];
        let Some(until) = client.holds_until.take() else { return };
        let success = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
        let answer = client.locks.release(&client.claim, hold, success);
        let now = self.world.millis();
        match answer.map(|reply| reply.answer) {
            Ok(StillHeld::Held) => {
                let held = self.world.world().record.clone().unwrap().0;
                assert_eq!(held.owner, client.claim.owner.ended());
                let hold = u64::try_from(hold.as_millis()).unwrap();
                self.kept_until = self.kept_until.max((client.taken_at + hold).saturating_sub(self.spread));
                self.back = 0;
                (self.free_by, self.is_free) = (self.latest_end(hold), hold == 0);
            }
            Ok(StillHeld::Lost) => assert!(now >= until, "a lock that is held was lost"),
            // The lock frees when its lease ends, or after the hold.
            Err(error) => {
                assert!(error.ambiguous, "{error:?}");
                self.may_end_after(u64::try_from(hold.as_millis()).unwrap());
            }
        }
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(1000) })]

    #[test]
    fn no_two_clients_hold_the_lock(steps in steps()) {
        let mut story = Story::new();
        for step in &steps {
            story.perform(step);
        }
        // Whatever happened, the lock frees itself.
        story.world.world().fates.clear();
        story.perform(&Step::Arrive);
        story.perform(&Step::Wait(20_000));
        story.world.world().meddling.clear();
        story.sink(0);
        prop_assert!(story.clients[0].holds_until.is_some());
        let runs = story.world.world().record.clone().unwrap().0.runs;
        prop_assert!(runs.len() <= 5 && runs.is_sorted_by_key(|run| run.token));
    }

    /// Clocks that differ, that are set back by less than a minute, and that were an hour ahead and are set right.
    #[test]
    fn whatever_the_clocks_do_a_lock_is_held_as_long_as_promised_and_no_longer(
        clocks in clocks(), steps in steps_of_clocks()
    ) {
        let mut story = Story::with(&clocks);
        for step in &steps {
            story.perform(step);
        }
        // All holders have died. The next client to ask for the lock notices that the clock was ahead.
        story.world.world().fates.clear();
        story.perform(&Step::Arrive);
        story.perform(&Step::SetRight);
        story.sink(0);
        story.perform(&Step::Wait(60_000 + 8_000 + 1_000 + MAX_DELAY_MS + clocks.spread));
        story.sink(1);
        prop_assert!(story.clients[1].holds_until.is_some());
    }

    #[test]
    fn a_record_is_read_as_it_was_written(steps in steps()) {
        let mut story = Story::new();
        steps.iter().for_each(|step| story.perform(step));
        let (record, _) = story.world.world().record.clone().unwrap_or_default();
        prop_assert_eq!(Record::parse(&record.to_json(), "job"), Some(record));
    }

    #[test]
    fn any_text_is_a_record_or_none(text in ".*", inner in "[\\[\\]{}\"0-9,:a-z]*") {
        for text in [text, format!("{{\"owner\":\"a\",\"since\":1,\"until\":null,\"token\":3,\"runs\":[{inner}]}}")] {
            let _ = Record::parse(&text, "job");
        }
    }
}

/// Between the read and the write of an acquisition, another run has the lock, ends and is forgotten.
#[test]
fn a_token_is_larger_than_that_of_a_run_which_was_forgotten_in_between() {
    let Story { world, clients, .. } = Story::new();
    let [mut late, mut early, _] = <[Client; CLIENTS]>::try_from(clients).ok().unwrap();
    let mut operator = RecordLocks::new(world.clone());
    let (report, told) = std::sync::mpsc::channel();
    let token = |client: &mut Client| match client.locks.acquire(&client.claim).unwrap().answer {
        Acquired::Granted(grant) => grant.token.unwrap(),
        Acquired::Held(state) => panic!("{state:?}"),
    };
    world.world().between = Some(Box::new(move || {
        report.send(token(&mut early)).unwrap();
        early.locks.release(&early.claim, Duration::ZERO, Closing::Undone).unwrap();
        let removal = Removal::new(LockName::new("job").unwrap(), early.claim.owner.ended());
        assert_eq!(operator.forget(&removal), Ok(Forgotten::Gone { lock: true, runs: 0 }));
    }));
    let token = token(&mut late);
    assert!(token > told.recv().unwrap(), "{token}");
}

#[test]
fn a_lock_that_others_keep_writing_is_tried_again_later() {
    let story = Story::new();
    let mut locks = RecordLocks::new(story.world.clone());
    {
        let mut world = story.world.world();
        world.meddling = std::iter::repeat_n(true, 100).collect();
        world.fates = std::iter::repeat_n((Fate::Answered, 2000), 100).collect();
        // Another program's lock has always just ended when it is read, and that program acquires it again.
        world.record = Some((Record::default(), 0));
    }
    let error = locks.acquire(&story.clients[0].claim).unwrap_err();
    assert_eq!(error, BackendError::transient("backend world: other clients keep writing this lock"));
    assert_eq!(story.world.world().fates.len(), 100 - MAX_ATTEMPTS as usize);
}

#[test]
fn a_stored_end_that_is_no_time_holds_for_ever() {
    let clock = Clock { now: Timestamp(5000), resolution: SECOND };
    let odd = Record { owner: "x".to_owned(), until: None, ..Record::default() };
    assert!(odd.is_held(clock) && odd.state(clock).left == crate::lock::ENDLESS);
    assert!(!Record::default().is_held(clock));
}

/// The clock has been set back by an hour since the acquisition.
#[test]
fn a_release_without_a_hold_frees_the_lock_by_the_present_clock() {
    let claim = Story::new().clients[0].claim.clone();
    let clock = |now| Clock { now: Timestamp(now), resolution: SECOND };
    let (taken, _) = Record::default().acquired(&claim, clock(7_200_000), 0).unwrap();
    let released = taken.released(&claim, Duration::ZERO, Closing::Unused, clock(3_600_000));
    assert!(!released.is_held(clock(3_600_000)), "{released:?}");
}
