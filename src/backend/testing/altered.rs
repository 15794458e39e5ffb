//! Alters real answers of real servers: cuts them off, or flips a bit. Each operation then has an answer or an error, in
//! time, and the program goes on.
//!
//! The alterations are chosen by a seed, which a failure shows, and `SHEDLOCK_ALTERED_SEED` repeats. `SHEDLOCK_ALTERED`
//! says how many there are.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use servers::Port;
use servers::stores::Store;

use crate::backend::{Access, Admin, from_url};
use crate::lock::{Acquired, BackendError};
use crate::lock::{Claim, Closing, LockName, Owner, Purpose};

/// Number of alterations that each test makes, and of those at once: most of the time each waits for bytes that do not come.
const DEFAULT_COUNT: u64 = 1_000;
const CONCURRENT_RUNS: u64 = 8;
/// The time for one try of an operation; and the time after which it hangs.
const TRY_TIMEOUT: Duration = Duration::from_secs(1);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Describes a change of the bytes that the server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alteration {
    None,
    /// After so many bytes the connection breaks.
    Cut(usize),
    /// The byte in this place is changed by these bits, and then the connection goes on or breaks.
    Flip {
        place: usize,
        bits: u8,
        breaks: bool,
    },
}

/// Holds the state that all connections of a relay share.
struct State {
    alteration: Alteration,
    /// The bytes that have come from the server since the alteration was chosen.
    passed: usize,
}

/// Relays the connections of a port to a server.
struct Relay {
    port: Port,
    state: Arc<Mutex<State>>,
}

impl Relay {
    fn new(server: u16) -> Self {
        let state = Arc::new(Mutex::new(State { alteration: Alteration::None, passed: 0 }));
        let shared = Arc::clone(&state);
        let port = Port::new("127.0.0.1", move |_, client| {
            let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { return };
            thread::scope(|scope| {
                scope.spawn(|| pump(client, &server, |_| false));
                pump(&server, client, |bytes| shared.lock().unwrap().alter(bytes));
            });
        });
        Self { port, state }
    }

    /// Chooses the alteration of the next bytes; returns how many have come since the last choice.
    fn choose(&self, alteration: Alteration) -> usize {
        let mut state = self.state.lock().unwrap();
        state.alteration = alteration;
        std::mem::take(&mut state.passed)
    }
}

impl State {
    /// Alters bytes of the server's; returns true if the connection breaks behind them.
    fn alter(&mut self, bytes: &mut Vec<u8>) -> bool {
        let (before, now) = (self.passed, bytes.len());
        self.passed += now;
        match self.alteration {
            Alteration::Cut(place) if place < self.passed => {
                bytes.truncate(place.saturating_sub(before));
                true
            }
            Alteration::Flip { place, bits, breaks } if (before..before + now).contains(&place) => {
                bytes[place - before] ^= bits;
                breaks
            }
            _ => false,
        }
    }
}

/// Passes on what one side sends.
fn pump(mut from: &TcpStream, mut to: &TcpStream, alter: impl Fn(&mut Vec<u8>) -> bool) {
    let mut buffer = [0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let mut bytes = buffer[..length].to_vec();
        let breaks = alter(&mut bytes);
        if to.write_all(&bytes).is_err() || breaks {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Names the operations of a run, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Taking,
    Renewing,
    Releasing,
}

const OPERATIONS: [Operation; 3] = [Operation::Taking, Operation::Renewing, Operation::Releasing];

impl Operation {
    /// Carries out the operation, and returns its result in a word.
    fn carry_out(self, backend: &mut dyn Admin, claim: &Claim) -> Result<&'static str, BackendError> {
        Ok(match self {
            Self::Taking => match backend.acquire(claim)?.answer {
                Acquired::Granted(_) => "granted",
                Acquired::Held(_) => "held",
            },
            Self::Renewing => {
                if backend.renew(claim)?.answer == crate::lock::StillHeld::Held {
                    "kept"
                } else {
                    "lost"
                }
            }
            Self::Releasing => {
                let released = backend.release(claim, Duration::ZERO, Closing::Unused)?;
                if released.answer == crate::lock::StillHeld::Held { "kept" } else { "lost" }
            }
        })
    }
}

/// Describes one alteration, in one operation of one run.
#[derive(Debug, Clone, Copy)]
struct Case {
    seed: u64,
    operation: Operation,
    /// Whether the operation opens a connection.
    anew: bool,
    /// Which part of what the server sends is altered, in 2^-32 of it.
    part: u64,
    kind: u64,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let operation = OPERATIONS[usize::try_from(next() % 3).unwrap()];
        Self { seed, operation, anew: next().is_multiple_of(2), part: next() >> 32, kind: next() }
    }

    /// Returns the alteration, of an operation in which the server sends so many bytes.
    fn alteration(&self, length: usize) -> Alteration {
        let place = usize::try_from((length as u64 * self.part) >> 32).unwrap();
        match self.kind % 4 {
            0 => Alteration::Cut(place),
            kind => Alteration::Flip { place, bits: 1 << ((self.kind >> 8) % 8), breaks: kind < 3 },
        }
    }
}

/// Makes runs through a relay, under a lock of its own.
struct Runs {
    relay: Relay,
    backend: Box<dyn Admin>,
    name: LockName,
    /// How many bytes the server sends in each operation, and with a new connection.
    lengths: BTreeMap<(Operation, bool), usize>,
}

impl Runs {
    fn new(url: &str, number: u64) -> Self {
        let port = url.split("127.0.0.1:").nth(1).unwrap().split(['/', '?']).next().unwrap();
        let relay = Relay::new(port.parse().unwrap());
        let url = url.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{}", relay.port.number));
        let backend = from_url(&url, &Access { timeout: TRY_TIMEOUT, ..Access::default() }).unwrap().backend;
        let name = LockName::new(&format!("altered-{number}")).unwrap();
        let mut runs = Self { relay, backend, name, lengths: BTreeMap::new() };
        // The first run creates what is missing.
        for anew in [true, false, true] {
            for operation in OPERATIONS {
                let claim = runs.claim(u64::from(anew));
                // A busy machine may need longer than one try.
                let mut tries = (0..20).map(|_| runs.carry_out(operation, &claim, anew, Alteration::None));
                tries.find(Result::is_ok).expect("the server answers").expect("it is no error");
                let length = runs.relay.choose(Alteration::None);
                runs.lengths.insert((operation, anew), length);
            }
        }
        runs
    }

    fn claim(&self, random: u64) -> Claim {
        let owner = Owner::new("host", 1, random);
        Claim { name: self.name.clone(), owner, lease: Duration::from_secs(30), keep: 3, purpose: Purpose::Run }
    }

    fn carry_out(
        &mut self,
        operation: Operation,
        claim: &Claim,
        anew: bool,
        alteration: Alteration,
    ) -> Result<&'static str, BackendError> {
        if anew {
            self.backend.disconnect();
        }
        self.relay.choose(alteration);
        operation.carry_out(&mut *self.backend, claim)
    }

    /// Makes a run of which one operation is answered with altered bytes, and returns the result.
    fn run(&mut self, case: &Case) -> &'static str {
        let claim = self.claim(case.seed + 10);
        let mut found = "";
        for operation in OPERATIONS {
            let is_altered = operation == case.operation;
            let alteration = match is_altered {
                true => case.alteration(self.lengths[&(operation, case.anew)]),
                false => Alteration::None,
            };
            let answer = self.carry_out(operation, &claim, is_altered && case.anew, alteration);
            if !is_altered {
                continue;
            }
            // The answer to the altered operation may be on its way for the next one, as with any error.
            self.backend.disconnect();
            found = answer.unwrap_or_else(|error| {
                assert!(!error.message.is_empty() && error.message.len() < 2_000, "{case:?}: {error:?}");
                assert!(error.message.contains("backend "), "{case:?}: {error:?}");
                "error"
            });
        }
        // The next run gets the lock.
        self.relay.choose(Alteration::None);
        (0..5).find(|_| Operation::Releasing.carry_out(&mut *self.backend, &claim).is_ok()).expect("it is released");
        found
    }
}

/// Alters many answers of a server.
fn alter(store: &dyn Store) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (first, count) = match number("SHEDLOCK_ALTERED_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("SHEDLOCK_ALTERED").unwrap_or(DEFAULT_COUNT)),
    };
    let (tell, told) = channel();
    for number in 0..CONCURRENT_RUNS.min(count) {
        let (url, tell) = (store.url(), tell.clone());
        thread::spawn(move || {
            let mut runs = Runs::new(&url, number);
            for case in
                (first + number..first + count).step_by(usize::try_from(CONCURRENT_RUNS).unwrap()).map(Case::new)
            {
                let found = catch_unwind(AssertUnwindSafe(|| runs.run(&case))).map_err(|_| case);
                let is_broken = found.is_err();
                tell.send(found.map(|found| (case.operation, found))).unwrap();
                if is_broken {
                    runs = Runs::new(&url, number + 1_000 + case.seed);
                }
            }
        });
    }
    drop(tell);
    judge(&told, count);
}

fn judge(told: &Receiver<Result<(Operation, &'static str), Case>>, count: u64) {
    let (mut found, mut broken) = (BTreeMap::new(), Vec::new());
    for number in 0..count {
        match told.recv_timeout(ANSWER_TIMEOUT) {
            Ok(Ok(answer)) => *found.entry(answer).or_insert(0) += 1,
            Ok(Err(case)) => broken.push(case),
            Err(error) => panic!("after {number} alterations: {error}"),
        }
    }
    println!("{found:?}");
    let repeat = "SHEDLOCK_ALTERED_SEED=SEED";
    assert!(broken.is_empty(), "to repeat one of these: {repeat}: {broken:#?}");
}

/// Gives each server the test.
macro_rules! altered {
    ($($feature:literal: $server:ident, $store:ident, $new:ident;)*) => {
        $(
            #[cfg(feature = $feature)]
            mod $server {
                #[test]
                #[ignore = "needs a server: --include-ignored"]
                fn an_altered_answer_is_an_answer_or_an_error() {
                    super::alter(&servers::stores::$store::$new());
                }
            }
        )*
    };
}
altered! {
    "postgres": postgres, PostgresStore, new;
    "mysql": mysql, MariaDbStore, new;
    "redis": redis, RedisStore, new;
    "etcd": etcd, EtcdStore, new;
    "kubernetes": kubernetes, KubernetesStore, plain;
    "zookeeper": zookeeper, ZooKeeperStore, new;
    "provider": mongodb, MongoDbStore, new;
}
