//! A connection that breaks, or freezes, after so many bytes: at a sample of places in the usual run, at each one by hand:
//! `cargo test --test all relay_sweep -- --ignored`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::support::relay::{Act, Relay};
use crate::support::{Place, finish, wait_until};
use servers::stores::{EtcdStore, KubernetesStore, MariaDbStore, PostgresStore, RedisStore, Store, ZooKeeperStore};
#[cfg(feature = "provider")]
use servers::stores::{MongoDbStore, WireStore};

/// How many places the usual run tries, for each kind of harm.
const SAMPLE: usize = 24;
/// Runs at once. Most of their time is waiting.
const AT_ONCE: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    Cut,
    Freeze,
}

macro_rules! sweeps {
    ($($store:ident: $sample:ident, $all:ident;)*) => {
        $(
            #[test]
            fn $sample() {
                sweep(&$store::new(), |bytes| bytes.div_ceil(SAMPLE));
            }

            #[test]
            #[ignore = "takes many minutes: each byte of a run, twice"]
            fn $all() {
                sweep(&$store::new(), |_| 1);
            }
        )*
    };
}

sweeps! {
    PostgresStore: postgres_survives_harm_at_a_sample_of_places, postgres_survives_harm_after_each_byte;
    MariaDbStore: mariadb_survives_harm_at_a_sample_of_places, mariadb_survives_harm_after_each_byte;
    RedisStore: redis_survives_harm_at_a_sample_of_places, redis_survives_harm_after_each_byte;
    EtcdStore: etcd_survives_harm_at_a_sample_of_places, etcd_survives_harm_after_each_byte;
    KubernetesStore: kubernetes_survives_harm_at_a_sample_of_places, kubernetes_survives_harm_after_each_byte;
    ZooKeeperStore: zookeeper_survives_harm_at_a_sample_of_places, zookeeper_survives_harm_after_each_byte;
}

#[cfg(feature = "provider")]
sweeps! {
    MongoDbStore: mongodb_survives_harm_at_a_sample_of_places, mongodb_survives_harm_after_each_byte;
    WireStore: a_provider_survives_harm_at_a_sample_of_places, a_provider_survives_harm_after_each_byte;
}

fn sweep(store: &impl Store, step: impl Fn(usize) -> usize) {
    let place = Place::new();
    let run = |name: &str, url: &str| {
        let mut command = place.run(name, ["--backend-timeout", "3s", "-E", "75", "sh", "-c"]);
        command.arg(format!("echo >> '{name}'")).env("SHEDLOCK_BACKEND", url);
        finish(&mut command)
    };
    run("warm", &store.url()).is_silent_with(0);
    let (url, relay) = Relay::before(&store.url(), |_| Act::Pass);
    run("measure", &url).is_silent_with(0);
    let bytes = relay.passed();
    assert!(bytes > 100, "a run sends and gets {bytes} bytes only");

    let places: Vec<(usize, Harm)> =
        (0..bytes).step_by(step(bytes)).flat_map(|at| [(at, Harm::Cut), (at, Harm::Freeze)]).collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((at, harm)) = places.get(next.fetch_add(1, Ordering::SeqCst)).copied() {
                    let name = format!("{harm:?} {at:05}");
                    if let Err(what) = survives(store, &place, &name, at, harm, run) {
                        wrong.lock().unwrap().push(format!("{name}: {what}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), places.len(), wrong.join("\n"));
}

fn survives(
    store: &impl Store,
    place: &Place,
    name: &str,
    at: usize,
    harm: Harm,
    run: impl Fn(&str, &str) -> crate::support::Finished,
) -> Result<(), String> {
    // One connection suffers.
    let done = AtomicBool::new(false);
    let (url, relay) = Relay::before(&store.url(), move |chunk| match at.checked_sub(chunk.passed) {
        Some(here) if here < chunk.bytes.len() && !done.swap(true, Ordering::SeqCst) => match harm {
            Harm::Cut => Act::Cut(here),
            Harm::Freeze => Act::Freeze(here),
        },
        _ => Act::Pass,
    });
    let ended = run(name, &url);
    relay.thaw();
    wait_until("all that was kept to have come", || (relay.ended() == relay.connections()).then_some(()));

    let ran = place.lines(name).len();
    let good = match ended.code() {
        Some(0) => ran == 1,
        Some(125) => ran == 0,
        _ => false,
    };
    if !good {
        return Err(format!("the job ran {ran} times: {ended:?}"));
    }
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let is_form = |line: &str, begin: &str| line.starts_with(begin);
    if !matches!(lines[..], []) && !is_form(lines[0], "shedlock: ") || lines.len() > 2 {
        return Err(format!("more than a line and a hint: {ended:?}"));
    }
    if lines.get(1).is_some_and(|line| !is_form(line, "hint: ")) {
        return Err(format!("what follows the line is no hint: {ended:?}"));
    }
    let says = ["the lock frees when its time is up", "the lock may be held until"];
    let said = says.iter().any(|text| ended.stderr.contains(text));
    match store.stored(name) {
        Some(stored) if stored.is_held() && !said => Err(format!("held by nobody who says so: {stored:?}, {ended:?}")),
        _ => Ok(()),
    }
}
