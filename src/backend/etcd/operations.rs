//! The operations and comparisons of a transaction.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

fn text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads one key.
pub(super) fn get(key: &[u8]) -> Value {
    json!({"request_range": {"key": text(key)}})
}

/// The part of a range that is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    All,
    /// The first entries.
    First(u64),
    /// The keys of the first entries, without their values.
    FirstKeys(u64),
    /// The entries that were made last.
    Newest(u64),
}

/// Reads the keys from `from` to before `to`.
pub(super) fn get_between(from: &[u8], to: &[u8], part: Part) -> Value {
    let mut range = json!({"key": text(from), "range_end": text(to)});
    match part {
        Part::All => {}
        Part::First(limit) => range["limit"] = json!(limit.to_string()),
        Part::FirstKeys(limit) => {
            range["limit"] = json!(limit.to_string());
            range["keys_only"] = json!(true);
        }
        Part::Newest(limit) => {
            range["limit"] = json!(limit.to_string());
            range["sort_order"] = json!("DESCEND");
            range["sort_target"] = json!("CREATE");
        }
    }
    json!({"request_range": range})
}

/// Writes a key, bound to a lease; to none if that is zero.
pub(super) fn put(key: &[u8], value: &[u8], lease: i64) -> Value {
    let mut put = json!({"key": text(key), "value": text(value)});
    if lease != 0 {
        put["lease"] = json!(lease.to_string());
    }
    json!({"request_put": put})
}

pub(super) fn delete(key: &[u8]) -> Value {
    json!({"request_delete_range": {"key": text(key)}})
}

/// Returns whether an operation deletes.
pub(super) fn deletes(operation: &Value) -> bool {
    operation.get("request_delete_range").is_some()
}

/// Deletes the keys from `from` to before `to`.
pub(super) fn delete_between(from: &[u8], to: &[u8]) -> Value {
    json!({"request_delete_range": {"key": text(from), "range_end": text(to)}})
}

/// Carries out the operations if the key was written this number of times since it was made.
pub(super) fn if_version(key: &[u8], version: u64, success: &[Value]) -> Value {
    let compare = json!({"key": text(key), "target": "VERSION", "result": "EQUAL", "version": version.to_string()});
    json!({"request_txn": {"compare": [compare], "success": success}})
}

/// The same operation in a form that a server without space carries out: etcd counts what a transaction writes itself against
/// its quota, and not what a transaction within writes.
pub(super) fn within(operation: &Value) -> Value {
    match operation.get("request_put") {
        Some(_) => json!({"request_txn": {"success": [operation]}}),
        None => operation.clone(),
    }
}

/// Compares the revision at which a key was written last; zero stands for a key that does not exist.
pub(super) fn is_at(key: &[u8], revision: u64) -> Value {
    json!({"key": text(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string()})
}
