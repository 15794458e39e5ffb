//! Acquisitions that a network delivers late: it freezes one connection, the run gives up and ends, and then it thaws.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::process::touch;
use crate::support::relay::{Act, Chunk, Relay};
use crate::support::{Finished, Place, finish, finish_child, start, wait_until};
use servers::stores::{EtcdStore, KubernetesStore, MariaDbStore, PostgresStore, RedisStore, Store, ZooKeeperStore};
#[cfg(feature = "provider")]
use servers::stores::{MongoDbStore, WireStore};

const NAME: &str = "late";
/// In every acquisition, and only there: for MySQL in hexadecimal digits.
const DIGITS: &[u8] = b"6c617465";
/// etcd gets the name in base64; a write is an acquisition, or comes on a later connection.
const WRITE: &[u8] = b"request_put";
/// In every write to ZooKeeper, where a lock is read before: the begin of a transaction.
const TRANSACTION: &[u8] = b"\0\0\0\x0e\0\0\0";

/// The begin of every write to a Lease that is there, and of every one of a new Lease; in no answer.
const PUT: &[u8] = b"PUT /";
const POST: &[u8] = b"POST /";
/// In every write to a document that is there, and in every one of a new document; in no answer.
#[cfg(feature = "provider")]
const SET: &[u8] = b"$set";
#[cfg(feature = "provider")]
const INSERT: &[u8] = b"\x02insert\0";
/// In every request to a provider that writes a record.
#[cfg(feature = "provider")]
const ASKING_TO_WRITE: &[u8] = br#""op":"write""#;

macro_rules! stories {
    ($($story:ident: $postgres:ident, $mariadb:ident, $redis:ident, $etcd:ident;)*) => {
        $(
            #[test]
            fn $postgres() {
                $story(&PostgresStore::new(), NAME.as_bytes());
            }

            #[test]
            fn $mariadb() {
                $story(&MariaDbStore::new(), DIGITS);
            }

            #[test]
            fn $redis() {
                $story(&RedisStore::new(), NAME.as_bytes());
            }

            #[test]
            fn $etcd() {
                $story(&EtcdStore::new(), WRITE);
            }
        )*
    };
}

stories! {
    is_refused:
        postgres_refuses_an_acquisition_that_was_given_up,
        mariadb_refuses_an_acquisition_that_was_given_up,
        redis_refuses_an_acquisition_that_was_given_up,
        etcd_refuses_an_acquisition_that_was_given_up;
    is_refused_after_a_skip:
        postgres_refuses_an_acquisition_whose_second_try_found_the_lock_held,
        mariadb_refuses_an_acquisition_whose_second_try_found_the_lock_held,
        redis_refuses_an_acquisition_whose_second_try_found_the_lock_held,
        etcd_refuses_an_acquisition_whose_second_try_found_the_lock_held;
    is_refused_after_a_wait:
        postgres_lets_a_waiter_in_whose_first_acquisition_is_still_on_its_way,
        mariadb_lets_a_waiter_in_whose_first_acquisition_is_still_on_its_way,
        redis_lets_a_waiter_in_whose_first_acquisition_is_still_on_its_way,
        etcd_lets_a_waiter_in_whose_first_acquisition_is_still_on_its_way;
    says_so_after_a_skip:
        postgres_skips_and_says_that_it_left_an_acquisition_on_its_way,
        mariadb_skips_and_says_that_it_left_an_acquisition_on_its_way,
        redis_skips_and_says_that_it_left_an_acquisition_on_its_way,
        etcd_skips_and_says_that_it_left_an_acquisition_on_its_way;
    says_so_after_trouble:
        postgres_fails_and_says_that_it_left_an_acquisition_on_its_way,
        mariadb_fails_and_says_that_it_left_an_acquisition_on_its_way,
        redis_fails_and_says_that_it_left_an_acquisition_on_its_way,
        etcd_fails_and_says_that_it_left_an_acquisition_on_its_way;
}

/// A store that reads a lock before it writes it sends no taking while another holds the lock, so that there are fewer stories.
#[test]
fn zookeeper_refuses_an_acquisition_that_was_given_up() {
    is_refused(&ZooKeeperStore::new(), TRANSACTION);
}

#[test]
fn zookeeper_fails_and_says_that_it_left_an_acquisition_on_its_way() {
    let store = ZooKeeperStore::new();
    // Where the first node is missing, the clock is read by a transaction as well.
    store.make_table();
    says_so_after_trouble(&store, TRANSACTION);
}

#[test]
fn kubernetes_refuses_an_acquisition_that_was_given_up() {
    is_refused(&KubernetesStore::plain(), PUT);
}

#[test]
fn kubernetes_fails_and_says_that_it_left_an_acquisition_on_its_way() {
    says_so_after_trouble(&KubernetesStore::plain(), POST);
}

#[cfg(feature = "provider")]
#[test]
fn mongodb_refuses_an_acquisition_that_was_given_up() {
    is_refused(&MongoDbStore::new(), SET);
}

#[cfg(feature = "provider")]
#[test]
fn mongodb_fails_and_says_that_it_left_an_acquisition_on_its_way() {
    says_so_after_trouble(&MongoDbStore::new(), INSERT);
}

#[cfg(feature = "provider")]
#[test]
fn example_refuses_an_acquisition_that_was_given_up() {
    is_refused(&WireStore::new(), ASKING_TO_WRITE);
}

#[cfg(feature = "provider")]
#[test]
fn example_fails_and_says_that_it_left_an_acquisition_on_its_way() {
    says_so_after_trouble(&WireStore::new(), ASKING_TO_WRITE);
}

fn run(place: &Place, url: &str, arguments: &[&str]) -> Command {
    let mut command = place.run(NAME, arguments);
    command.env("SHEDLOCK_BACKEND", url);
    command
}

/// Returns a relay that does `act` with the first acquisition, and `rest` with what comes on connections after that one.
fn relay(
    store: &impl Store,
    needle: &'static [u8],
    act: Act,
    rest: impl Fn(&Chunk<'_>) -> Act + Send + Sync + 'static,
) -> (String, Relay) {
    let met = AtomicBool::new(false);
    Relay::before(&store.url(), move |chunk| match chunk.has(needle) && !met.swap(true, Ordering::SeqCst) {
        true => act.clone(),
        false if met.load(Ordering::SeqCst) => rest(chunk),
        false => Act::Pass,
    })
}

/// Asserts that, once the network wakes up, the server has the late acquisition, and nobody has the lock.
fn is_free_after_the_thaw(store: &impl Store, place: &Place, relay: &Relay) {
    assert_eq!(relay.frozen(), 1);
    relay.thaw();
    wait_until("the server to have had the late acquisition", || (relay.ended() == relay.connections()).then_some(()));
    assert!(!store.stored(NAME).is_some_and(|stored| stored.is_held()), "{:?}", store.stored(NAME));
    finish(&mut run(place, &store.url(), &["-E", "75", "true"])).is_silent_with(0);
}

/// Asserts that a late acquisition is refused. The relay has read all of the request and passes on nothing of it, nor that the
/// client has hung up, until the run has ended. The undo of the acquisition comes by another connection.
fn is_refused(store: &impl Store, needle: &'static [u8]) {
    let place = Place::new();
    // So that the history is there, and the lock once was.
    finish(&mut run(&place, &store.url(), &["true"])).is_silent_with(0);
    let before = store.history(NAME);
    let (url, relay) = relay(store, needle, Act::Freeze(0), |_| Act::Pass);
    // Where a second try is made in time it is answered, and the job runs.
    let ended = finish(&mut run(&place, &url, &["--backend-timeout", "2s", "touch", "ran"]));
    if ended.code() == Some(125) {
        ended.complains(125, "backend");
        assert!(!ended.stderr.contains("may be held"), "{ended:?}");
        assert!(!place.path("ran").exists());
    }
    is_free_after_the_thaw(store, &place, &relay);
    assert!(store.history(NAME).len() <= before.len() + 2);
}

/// Holds the lock with another run while `meanwhile` runs, and has released it when it returns the result.
fn while_held(store: &impl Store, place: &Place, meanwhile: impl FnOnce(&dyn Fn()) -> Finished) -> Finished {
    let job = "touch began; while [ ! -e over ] && [ -e began ]; do sleep 0.02; done";
    let holder = start(&mut run(place, &store.url(), &["sh", "-c", job]));
    wait_until("the other to hold the lock", || place.path("began").exists().then_some(()));
    let ended = meanwhile(&|| touch(place, "over"));
    touch(place, "over");
    finish_child(holder).is_silent_with(0);
    ended
}

/// Asserts that a first acquisition that was stranded is refused, after the second found that another run holds the lock.
fn is_refused_after_a_skip(store: &impl Store, needle: &'static [u8]) {
    let place = Place::new();
    let (url, relay) = relay(store, needle, Act::Strand, |_| Act::Pass);
    while_held(store, &place, |_| finish(&mut run(&place, &url, &["-E", "75", "touch", "ran"]))).is_silent_with(75);
    is_free_after_the_thaw(store, &place, &relay);
    assert!(!place.path("ran").exists());
}

/// Asserts that the mark which refuses the first acquisition does not refuse the later ones of the same run.
fn is_refused_after_a_wait(store: &impl Store, needle: &'static [u8]) {
    let place = Place::new();
    let (url, relay) = relay(store, needle, Act::Strand, |_| Act::Pass);
    let waiter = while_held(store, &place, |end| {
        let waiter = start(&mut run(&place, &url, &["--wait", "60s", "-E", "75", "touch", "ran"]));
        wait_until("it to have asked again", || (relay.frozen() == 1 && relay.connections() > 1).then_some(()));
        end();
        finish_child(waiter)
    });
    waiter.is_silent_with(0);
    assert!(place.path("ran").exists());
    is_free_after_the_thaw(store, &place, &relay);
}

/// Asserts that the run says so if its undo does not come through either.
fn says_so_after_a_skip(store: &impl Store, needle: &'static [u8]) {
    let place = Place::new();
    let rest = |chunk: &Chunk<'_>| if chunk.connection < 2 { Act::Pass } else { Act::Freeze(0) };
    let (url, _relay) = relay(store, needle, Act::Strand, rest);
    let arguments = ["-E", "75", "touch", "ran"];
    let ended = while_held(store, &place, |_| finish(&mut run(&place, &url, &arguments)));
    says_until_when(&ended, 75, "shedlock: late: warning: backend ");
    assert!(!place.path("ran").exists());
}

/// Asserts that the run says so in the usual case, in which nothing comes through any more.
fn says_so_after_trouble(store: &impl Store, needle: &'static [u8]) {
    let place = Place::new();
    let (url, _relay) = relay(store, needle, Act::Freeze(0), |_| Act::Freeze(0));
    let ended = finish(&mut run(&place, &url, &["--backend-timeout", "2s", "touch", "ran"]));
    says_until_when(&ended, 125, "shedlock: late: backend ");
    assert!(!place.path("ran").exists());
}

/// Asserts that the run says until when the lock is held, in one line and at most a hint.
fn says_until_when(ended: &Finished, code: i32, begin: &str) {
    assert_eq!(ended.code(), Some(code), "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let (said, hints) = lines.split_first().expect("a line");
    assert!(said.starts_with(begin), "{ended:?}");
    let (_, until) = said.split_once("; the lock may be held until ").expect("until when");
    assert!(until.ends_with("Z, or for 1m after a late request arrives"), "{ended:?}");
    assert!(hints.len() <= 1 && hints.iter().all(|line| line.starts_with("hint: ")), "{ended:?}");
}
