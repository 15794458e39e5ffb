//! Servers that accept a connection and say nothing, as one does whose accept queue overflowed: the client's kernel believes in
//! a connection that the server has dropped. Each attempt to get in has a bound of its own.

use std::thread;
use std::time::Duration;

use crate::support::relay::{Act, Chunk, Relay};
use crate::support::{Place, finish};
use servers::stores::{EtcdStore, KubernetesStore, MariaDbStore, PostgresStore, RedisStore, Store, ZooKeeperStore};
#[cfg(feature = "provider")]
use servers::stores::{MongoDbStore, WireStore};

macro_rules! on_every_server {
    ($($test:ident)*) => {
        on_every_server!(postgres: PostgresStore, $($test)*);
        on_every_server!(mariadb: MariaDbStore, $($test)*);
        on_every_server!(redis: RedisStore, $($test)*);
        on_every_server!(etcd: EtcdStore, $($test)*);
        on_every_server!(kubernetes: KubernetesStore, $($test)*);
        on_every_server!(zookeeper: ZooKeeperStore, $($test)*);
        #[cfg(feature = "provider")]
        on_every_server!(mongodb: MongoDbStore, $($test)*);
        #[cfg(feature = "provider")]
        on_every_server!(example: WireStore, $($test)*);
    };
    ($server:ident: $store:ident, $($test:ident)*) => {
        mod $server {
            use super::$store;
            $(
                #[test]
                fn $test() {
                    super::$test(&$store::new());
                }
            )*
        }
    };
}

on_every_server! {
    connections_that_nobody_answers_are_left_for_new_ones
    a_server_that_is_slow_to_let_in_is_reached
    a_server_that_never_speaks_is_said_to_have_said_nothing
}

/// Runs `true` through a relay, on a server where no table is missing.
fn run(store: &impl Store, arguments: &[&str], plan: impl Fn(&Chunk<'_>) -> Act + Send + Sync + 'static) -> Ran {
    let place = Place::new();
    finish(place.run("warm", ["true"]).env("SHEDLOCK_BACKEND", store.url())).is_silent_with(0);
    let (url, relay) = Relay::before(&store.url(), plan);
    let arguments = [arguments, &["-E", "75", "true"]].concat();
    let ended = finish(place.run("a", &arguments).env("SHEDLOCK_BACKEND", url));
    Ran { ended, frozen: relay.frozen() }
}

struct Ran {
    ended: crate::support::Finished,
    frozen: usize,
}

/// Two in a row: after the first the next has more time. A provider has half of the time, so that there is one of them.
fn connections_that_nobody_answers_are_left_for_new_ones(store: &impl Store) {
    let silent = if is_provider(store) { 1 } else { 2 };
    let ran = run(store, &[], move |chunk| if chunk.connection < silent { Act::Freeze(0) } else { Act::Pass });
    ran.ended.is_silent_with(0);
    assert_eq!(ran.frozen, silent);
    assert!(store.history("a").iter().all(|run| run.outcome.as_deref() == Some("success")));
}

/// Returns whether it is the provider itself that says nothing, and not the server that it asks.
fn is_provider(store: &impl Store) -> bool {
    store.url().starts_with("wire:")
}

/// It answers every connection for the first time after three seconds.
fn a_server_that_is_slow_to_let_in_is_reached(store: &impl Store) {
    let met = std::sync::Mutex::new(std::collections::BTreeSet::new());
    // MongoDB's driver makes two connections, one after the other.
    let patience = if store.url().starts_with("mongodb:") { "30s" } else { "10s" };
    let ran = run(store, &["--backend-timeout", patience], move |chunk| {
        if met.lock().unwrap().insert(chunk.connection) && chunk.connection < 6 {
            thread::sleep(Duration::from_secs(3));
        }
        Act::Pass
    });
    ran.ended.is_silent_with(0);
}

fn a_server_that_never_speaks_is_said_to_have_said_nothing(store: &impl Store) {
    let ran = run(store, &["--backend-timeout", "4s"], |_| Act::Freeze(0));
    let (said, hint) = if is_provider(store) {
        ("shedlock-provider-wire did not answer within", "")
    } else if store.url().starts_with("mongodb:") {
        // Its driver does not tell which of its steps had no answer.
        ("no answer in time", "hint: check that the server is healthy, and that the port is right")
    } else {
        ("accepted the connection but did not reply", "hint: check that the server is healthy and not overloaded")
    };
    ran.ended.complains(125, said);
    assert!(ran.ended.stderr.contains(hint), "{:?}", ran.ended);
    assert!(ran.frozen >= 2, "it was tried {} times", ran.frozen);
}
