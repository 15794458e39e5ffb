//! Real answers that come altered, to a whole run: cut off, or with a bit flipped. `src/backend/testing/altered.rs` makes far more of
//! them, without the program around.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::process::Started;
use crate::support::relay::{Act, Chunk, Relay};
use crate::support::{Finished, Place, finish, finish_in_time, wait_until};
use servers::stores::{EtcdStore, KubernetesStore, MariaDbStore, PostgresStore, RedisStore, Store, ZooKeeperStore};
#[cfg(feature = "provider")]
use servers::stores::{MongoDbStore, WireStore};

/// How many runs of each backend. The variable `SHEDLOCK_ALTERED_SEED` has one of them alone.
const RUNS: u64 = 24;
/// Runs at once. Most of their time is waiting.
const AT_ONCE: usize = 8;
/// The exit code of the job.
const CODE: i32 = 7;

/// When an answer is altered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Taking,
    Renewing,
    Releasing,
}

macro_rules! altered {
    ($($test:ident: $store:expr;)*) => {
        $(
            #[test]
            fn $test() {
                alter(&$store);
            }
        )*
    };
}

altered! {
    an_altered_answer_of_postgres_harms_no_job: PostgresStore::new();
    an_altered_answer_of_mariadb_harms_no_job: MariaDbStore::new();
    an_altered_answer_of_redis_harms_no_job: RedisStore::new();
    an_altered_answer_of_etcd_harms_no_job: EtcdStore::new();
    an_altered_answer_of_kubernetes_harms_no_job: KubernetesStore::plain();
    an_altered_answer_of_zookeeper_harms_no_job: ZooKeeperStore::new();
}

#[cfg(feature = "provider")]
altered! {
    an_altered_answer_of_mongodb_harms_no_job: MongoDbStore::new();
    an_altered_answer_of_a_provider_harms_no_job: WireStore::new();
}

/// What is altered next: this many bytes after those that the server has sent already.
struct Alteration {
    left: usize,
    /// The bits that change; none for an answer that is cut off.
    bits: u8,
}

fn alter(store: &impl Store) {
    let place = Place::new();
    finish(place.run("warm", ["true"]).env("SHEDLOCK_BACKEND", store.url())).is_silent_with(0);
    let length = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&length);
    let (url, _relay) = Relay::before(&store.url(), move |chunk| {
        counted.fetch_add(if chunk.is_answer { chunk.bytes.len() } else { 0 }, Ordering::SeqCst);
        Act::Pass
    });
    finish(place.run("measure", ["true"]).env("SHEDLOCK_BACKEND", url)).is_silent_with(0);
    // Taking and releasing are about half of it each.
    let length = length.load(Ordering::SeqCst) / 2;
    let seeds = match std::env::var("SHEDLOCK_ALTERED_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..RUNS).collect::<Vec<u64>>(),
    };
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::SeqCst)) {
                    if let Err(what) = run(store, &place, *seed, length) {
                        wrong.lock().unwrap().push(format!("SHEDLOCK_ALTERED_SEED={seed}: {what}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn run(store: &impl Store, place: &Place, seed: u64, length: usize) -> Result<(), String> {
    let random = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    let phase = [Phase::Taking, Phase::Renewing, Phase::Releasing][usize::try_from(seed % 3).unwrap()];
    let left = usize::try_from(random >> 32).unwrap() % length;
    let alteration = Alteration { left, bits: if seed % 4 == 3 { 0 } else { 1 << (random % 8) } };
    let next = Arc::new(Mutex::new(None));
    let planned = Arc::clone(&next);
    let (url, _relay) = Relay::before(&store.url(), move |chunk| plan(&mut planned.lock().unwrap(), chunk));
    let name = format!("altered-{seed}");
    let (lease, timeout) = match phase {
        Phase::Taking => ("10m", "5s"),
        Phase::Renewing => ("10s", "30s"),
        Phase::Releasing => ("10m", "30s"),
    };
    let script = format!("echo >> ran-{seed}; until [ -e go-{seed} ]; do sleep 0.1; done; exit {CODE}");
    let mut command = place.shedlock(["run", "--name", &name, "--at-most", "20m", "--lease", lease, "-E", "75"]);
    command.args(["--backend-timeout", timeout, "sh", "-c", &script]).env("SHEDLOCK_BACKEND", url);
    let go = || fs::write(place.path(&format!("go-{seed}")), "").unwrap();
    if phase == Phase::Taking {
        *next.lock().unwrap() = Some(alteration);
        go();
        return judge(place, seed, phase, &finish_in_time(&mut command));
    }
    let mut started = Started::new(place, &name, &mut command);
    let has_run = || !place.lines(&format!("ran-{seed}")).is_empty();
    wait_until("the job to run", || (has_run() || started.has_ended()).then_some(()));
    *next.lock().unwrap() = Some(alteration);
    if phase == Phase::Renewing {
        wait_until("the renewal to be answered", || next.lock().unwrap().is_none().then_some(()));
    }
    go();
    judge(place, seed, phase, &started.finish())
}

fn plan(next: &mut Option<Alteration>, chunk: &Chunk<'_>) -> Act {
    match next {
        Some(alteration) if chunk.is_answer && alteration.left >= chunk.bytes.len() => {
            alteration.left -= chunk.bytes.len();
            Act::Pass
        }
        Some(Alteration { left, bits }) if chunk.is_answer => {
            let act = match bits {
                0 => Act::Cut(*left),
                bits => {
                    let mut bytes = chunk.bytes.to_vec();
                    bytes[*left] ^= *bits;
                    Act::Instead(bytes)
                }
            };
            *next = None;
            act
        }
        _ => Act::Pass,
    }
}

/// Checks that the job keeps its exit code, unless the altered answer says that there is no lock.
fn judge(place: &Place, seed: u64, phase: Phase, ended: &Finished) -> Result<(), String> {
    let ran = place.lines(&format!("ran-{seed}")).len();
    let good = match (ended.code(), phase) {
        (Some(CODE), _) | (Some(123), Phase::Renewing) => ran == 1,
        (Some(75 | 125), Phase::Taking) => ran == 0,
        _ => false,
    };
    if !good {
        return Err(format!("{phase:?}: the job ran {ran} times: {ended:?}"));
    }
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let is_form = lines.iter().all(|line| line.starts_with("shedlock: ") || line.starts_with("hint: "));
    let messages = lines.iter().filter(|line| line.starts_with("shedlock: ")).count();
    match is_form && messages <= 2 && lines.len() <= 2 * messages && !ended.stderr.contains("internal error") {
        true => Ok(()),
        false => Err(format!("{phase:?}: not two messages with hints at most: {ended:?}")),
    }
}
