//! Takings that a network delivers late: it freezes one connection, the run gives up and ends, and then it thaws.

use super::relay::{Act, Relay};
use super::servers::stores::{MariaDbStore, PostgresStore, RedisStore, Store};
use super::support::{Place, finish, wait_until};

const NAME: &str = "late";
/// In every taking, and only there: for MySQL in hexadecimal digits.
const DIGITS: &str = "6c617465";

#[test]
fn postgres_refuses_a_taking_that_was_given_up() {
    is_refused(&PostgresStore::new(), NAME);
}

#[test]
fn mariadb_refuses_a_taking_that_was_given_up() {
    is_refused(&MariaDbStore::new(), DIGITS);
}

#[test]
fn redis_refuses_a_taking_that_was_given_up() {
    is_refused(&RedisStore::new(), NAME);
}

/// The relay has read all of the request and passes on nothing of it, nor that the client has hung up, until the run has ended.
/// What gives the taking back comes by another connection.
fn is_refused(store: &impl Store, needle: &'static str) {
    let place = Place::new();
    let run = |name: &str, url: &str, arguments: &[&str]| {
        let mut command = place.run(name, arguments);
        command.env("SHEDLOCK_BACKEND", url);
        finish(&mut command)
    };
    // So that the history is there, and the lock once was.
    run(NAME, &store.url(), &["true"]).is_silent_with(0);
    let before = store.history(NAME);
    let met = std::sync::atomic::AtomicBool::new(false);
    let (url, relay) = Relay::before(&store.url(), move |chunk| {
        let first = chunk.has(needle.as_bytes()) && !met.swap(true, std::sync::atomic::Ordering::SeqCst);
        if first { Act::Freeze(0) } else { Act::Pass }
    });
    // Where a second try is made in time it is answered, and the job runs.
    let ended = run(NAME, &url, &["--backend-timeout", "2s", "touch", "ran"]);
    assert_eq!(relay.frozen(), 1);
    if ended.code() == Some(125) {
        ended.complains(125, "backend");
        assert!(!place.path("ran").exists());
    }
    relay.thaw();
    wait_until("the server to have had the late taking", || (relay.ended() == relay.connections()).then_some(()));
    assert!(!store.stored(NAME).is_some_and(|stored| stored.is_held()), "{:?}", store.stored(NAME));
    assert!(store.history(NAME).len() <= before.len() + 1);
    run(NAME, &store.url(), &["-E", "75", "true"]).is_silent_with(0);
}
