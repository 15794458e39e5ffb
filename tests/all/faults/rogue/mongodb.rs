//! What a server lies to shedlock that seems to be MongoDB. Its driver believes messages of 48 MB, and what a server says of the
//! longest; only what that leaves is tried.

use super::{Case, First, NAME, Phase, Protocol, Then, later};
use servers::stores::MongoDbStore;

/// Returns a message of this kind that says it has this length.
fn message(length: u32, kind: u32, body: &[u8]) -> Vec<u8> {
    let head = [length, 9, 1, kind].map(u32::to_le_bytes).concat();
    [head.as_slice(), body].concat()
}

/// Returns documents in documents, to this depth.
fn deep(depth: u32) -> Vec<u8> {
    let mut document: Vec<u8> =
        (1..=depth).rev().flat_map(|left| [&(8 * left + 5).to_le_bytes()[..], b"\x03a\0"].concat()).collect();
    document.extend([5, 0, 0, 0, 0]);
    document.extend(vec![0; depth as usize]);
    document
}

fn lies() -> Vec<Case> {
    let reply = |document: &[u8]| {
        let body = [[0; 16].as_slice(), &1_u32.to_le_bytes(), document].concat();
        message(u32::try_from(16 + body.len()).unwrap(), 1, &body)
    };
    let all = [
        ("zeros", vec![]),
        ("a message of two gigabytes", message(0x7fff_ffff, 2013, b"")),
        ("a message of less than nothing", message(u32::MAX, 2013, b"")),
        ("documents in documents", reply(&deep(100_000))),
        ("a document of two gigabytes", reply(b"\xff\xff\xff\x7f\x02a\0")),
    ];
    let cases = all.into_iter().map(|(what, head)| {
        let (what, then) = (format!("{what} without end"), Then::Repeat(vec![0; 4096]));
        let first = Case::new(Phase::Connecting, &what, head.clone(), then.clone());
        [vec![first], later(&what, &head, &then).into()].concat()
    });
    cases.flatten().collect()
}

#[test]
fn a_server_that_lies_is_borne() {
    let protocol = Protocol {
        first: First::Client,
        alone: &|port| format!("mongodb://127.0.0.1:{port}/x"),
        store: &MongoDbStore::new(),
        needle: NAME.as_bytes().to_vec(),
    };
    protocol.is_safe_from(lies());
}
