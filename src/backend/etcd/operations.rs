//! The operations and comparisons of a transaction.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Locks or runs per request, if all are read.
pub(crate) const PAGE_ENTRIES: u64 = 2_000;

/// Names the kinds of keys, in the order in which a lock needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Keys {
    Locks,
    States,
    Runs,
}

/// Pairs an operation of a transaction with the kind of its key.
pub(crate) type Operation = (Keys, Value);

fn text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads one key.
pub(crate) fn get(key: &[u8]) -> Value {
    json!({"request_range": {"key": text(key)}})
}

/// Returns whether an operation may read many keys.
pub(crate) fn lists(operation: &Value) -> bool {
    operation.get("request_range").is_some_and(|range| range.get("range_end").is_some() && range["limit"] != "1")
}

/// Says which part of a range a request reads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RangePart {
    /// The first entries.
    First(u64),
    /// The keys of the first entries, without their values.
    FirstKeys(u64),
    /// The entries that were made last.
    Newest(u64),
}

/// Reads the keys from `from` to before `to`.
pub(crate) fn get_between(from: &[u8], to: &[u8], part: RangePart) -> Value {
    let mut range = json!({"key": text(from), "range_end": text(to)});
    match part {
        RangePart::First(limit) => range["limit"] = json!(limit.to_string()),
        RangePart::FirstKeys(limit) => {
            range["limit"] = json!(limit.to_string());
            range["keys_only"] = json!(true);
        }
        RangePart::Newest(limit) => {
            range["limit"] = json!(limit.to_string());
            range["sort_order"] = json!("DESCEND");
            range["sort_target"] = json!("CREATE");
        }
    }
    json!({"request_range": range})
}

/// Writes a key, bound to a lease; to none if that is zero.
pub(crate) fn put(key: &[u8], value: &[u8], lease: i64) -> Value {
    let mut put = json!({"key": text(key), "value": text(value)});
    if lease != 0 {
        put["lease"] = json!(lease.to_string());
    }
    json!({"request_put": put})
}

pub(crate) fn delete(key: &[u8]) -> Value {
    json!({"request_delete_range": {"key": text(key)}})
}

/// Returns whether an operation deletes.
pub(crate) fn deletes(operation: &Value) -> bool {
    operation.get("request_delete_range").is_some()
}

/// Deletes the keys from `from` to before `to`.
pub(crate) fn delete_between(from: &[u8], to: &[u8]) -> Value {
    json!({"request_delete_range": {"key": text(from), "range_end": text(to)}})
}

/// Carries out the operations if the key was written this number of times since its creation.
pub(crate) fn if_version(key: &[u8], version: u64, success: &[Value]) -> Value {
    let compare = json!({"key": text(key), "target": "VERSION", "result": "EQUAL", "version": version.to_string()});
    json!({"request_txn": {"compare": [compare], "success": success}})
}

/// Wraps an operation in a form that a server without space carries out: etcd counts what a transaction writes itself against
/// its quota, and not what a transaction within writes.
pub(crate) fn within(operation: &Value) -> Value {
    match operation.get("request_put") {
        Some(_) => json!({"request_txn": {"success": [operation]}}),
        None => operation.clone(),
    }
}

/// Compares the revision at which a key was written last; zero stands for a key that does not exist.
pub(crate) fn is_at(key: &[u8], revision: u64) -> Value {
    json!({"key": text(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string()})
}
