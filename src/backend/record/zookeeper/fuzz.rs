//! The target of the fuzzer that gives ZooKeeper's answers.

use super::{Access, RecordLocks, Url, ZooKeeper, path, wire};
use crate::backend::testing::fuzz_operations;
use crate::lock::LockName;

pub(crate) fn fuzz(input: &[u8]) {
    let _ = (wire::read_greeting(input), wire::read_rights(input));
    let url = Url::parse("zookeeper://db.example").expect("it is a URL");
    let Ok(mut store) = ZooKeeper::from_url(&url, &Access::default()) else { return };
    let mut answers: Vec<_> =
        messages(input).filter_map(|message| Some(wire::read_reply(message.to_vec())?.1)).collect();
    answers.reverse();
    store.fake_answers = Some(answers);
    fuzz_operations::operate(&mut RecordLocks::new(store), input);
}

/// Cuts bytes into messages, of which the last may be cut off.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let message;
        (message, bytes) = rest.split_at(length.min(rest.len()));
        Some(message)
    })
}

/// Checks that different locks have different nodes.
pub(crate) fn name(lock: &LockName) {
    let node = path::node_name(lock.as_str());
    assert!(node.split('/').all(|part| path::is_node(part) && part != path::STATE_NODE), "{node}");
    assert_eq!(path::lock_name(&node), lock.as_str());
}
