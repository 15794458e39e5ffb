//! What a server lies to shedlock that seems to be ZooKeeper.

use super::{Case, First, NAME, Phase, Protocol, Then, http, later};
use servers::stores::ZooKeeperStore;

fn message(body: &[u8]) -> Vec<u8> {
    [u32::try_from(body.len()).unwrap().to_be_bytes().as_slice(), body].concat()
}

/// Returns a reply to a request of this number; -1 is an event, -2 the end of a ping, -4 a login.
fn reply(number: i32, body: &[u8]) -> Vec<u8> {
    message(&[number.to_be_bytes().as_slice(), &[0; 12], body].concat())
}

/// A time at which the lock below is free.
const LATER: i64 = 1_900_000_000_000;

/// Returns the answer that a session is open, and what follows.
fn session(rest: &[Vec<u8>]) -> Vec<u8> {
    let greeting = [b"\0\0\0\0\0\0\x0f\xa0\0\0\0\0\0\0\0\x01\0\0\0\x10".as_slice(), &[7; 16], b"\0"].concat();
    [message(&greeting), rest.concat()].concat()
}

/// Returns the metadata of a node, with this time.
fn stat(millis: i64) -> Vec<u8> {
    let numbers = [1, 2, 3, millis].map(i64::to_be_bytes).concat();
    [numbers, vec![0; 36]].concat()
}

/// Returns a node with these data.
fn node(data: &[u8]) -> Vec<u8> {
    [message(data), stat(1)].concat()
}

/// Returns lies that never end. The first three are told before the login as well, where 64 KiB are believed.
fn without_end() -> Vec<Case> {
    let all = [
        ("zeros", vec![], vec![0; 4096]),
        ("a message of two gigabytes", b"\x7f\xff\xff\xff".to_vec(), vec![0; 4096]),
        ("a message of sixteen megabytes", b"\x01\0\0\0".to_vec(), vec![0; 4096]),
        ("events", vec![], reply(-1, &[0; 64])),
        ("pings", vec![], reply(-2, b"")),
        ("logins", vec![], reply(-4, b"")),
        ("a message of less than nothing", b"\xff\xff\xff\xff".to_vec(), vec![0; 4096]),
    ];
    let cases = all.into_iter().map(|(what, head, part)| {
        let (what, then) = (format!("{what} without end"), Then::Repeat(part));
        let opened = [session(&[]), head.clone()].concat();
        let first = [head.clone(), opened].map(|head| Case::new(Phase::Connecting, &what, head, then.clone()));
        [first.to_vec(), later(&what, &head, &then).into()].concat()
    });
    cases.flatten().collect()
}

/// Returns answers to the requests that open a session: the time, the lock and its record.
fn wrong() -> Vec<Case> {
    let lock = || node(b"2026-01-31T18:00:00.000Z");
    let many = |part: &str| format!("[{}0]", part.repeat(1_800_000 / part.len()));
    let with = |record: &[u8]| session(&[reply(1, &stat(LATER)), reply(2, &lock()), reply(3, &node(record))]);
    let all = [
        ("a node of two gigabytes", session(&[reply(1, &stat(LATER)), reply(2, b"\x7f\xff\xff\xff"), reply(3, b"")])),
        (
            "a node of less than nothing",
            session(&[reply(1, &stat(LATER)), reply(2, b"\xff\xff\xff\xfb"), reply(3, b"")]),
        ),
        ("a time that no clock tells", session(&[reply(1, &stat(i64::MAX)), reply(2, &lock()), reply(3, &lock())])),
        ("a record of many objects", with(many("{},").as_bytes())),
        ("a record of many lists", with(many("[],").as_bytes())),
        ("a record of lists in lists", with(&vec![b'['; 1_800_000])),
        ("a record of many runs", with(format!("{{\"runs\":{}}}", many("[],")).as_bytes())),
        ("a record of one long word", with(&vec![b'"'; 1_800_000])),
    ];
    all.into_iter().map(|(what, head)| Case::new(Phase::Taking, what, head, Then::Silence)).collect()
}

fn protocol<'a>(store: &'a ZooKeeperStore, alone: &'a (dyn Fn(u16) -> String + Sync)) -> Protocol<'a> {
    Protocol { first: First::Client, alone, store, needle: NAME.as_bytes().to_vec() }
}

#[test]
fn a_server_that_lies_is_borne() {
    let alone = |port| format!("zookeeper://jobs:secret@127.0.0.1:{port}");
    protocol(&ZooKeeperStore::new(), &alone).is_safe_from([without_end(), wrong()].concat());
}

#[test]
fn a_server_that_lies_in_the_handshake_is_borne() {
    let alone = |port| format!("zookeeper://jobs:secret@127.0.0.1:{port}?sslmode=require");
    protocol(&ZooKeeperStore::new(), &alone).is_safe_from(http::of_tls());
}
