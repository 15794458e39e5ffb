//! The two nodes of a lock: the record that they hold together, and the versions that a write expects of them.

use super::wire::{ANY_VERSION, Node};
use crate::backend::net::json;
use crate::backend::record::engine::Record;
use crate::lock::BackendError;
use crate::system::Timestamp;

/// The owner of a lock that another client has written. The Java library leaves no name.
pub(crate) const UNKNOWN: &str = "unknown";
/// The record's field with the name of the node that says when it was created.
const CREATION_FIELD: &str = "birth";

/// Holds the versions that a write expects: those of the lock's node and of that with the record, if there is one.
///
/// Versions begin at 0 in every new node, so those of a lock that was deleted and acquired anew can be the same. A node below the
/// record, which is named for the acquisition that created it, makes the difference.
pub(crate) struct Version {
    pub(crate) lock: i32,
    pub(crate) state: Option<i32>,
    /// The name of the node below the record that says when the record was created.
    pub(crate) creation_mark: Option<String>,
}

impl Version {
    /// Returns the versions of the nodes as they were read.
    pub(crate) fn from_nodes(lock: &Node, state: Option<&Node>) -> Result<Self, BackendError> {
        let creation_mark = state.and_then(|state| creation_mark(&state.data));
        let state = state.map(|state| comparable(state.stat.version)).transpose()?;
        Ok(Self { lock: comparable(lock.stat.version)?, state, creation_mark })
    }

    /// Returns the versions after a write of both nodes.
    pub(crate) fn next(&self, creation_mark: Option<String>) -> Result<Self, BackendError> {
        let state = self.state.map_or(Ok(0), |state| comparable(state.wrapping_add(1)))?;
        Ok(Self { lock: comparable(self.lock.wrapping_add(1))?, state: Some(state), creation_mark })
    }
}

/// Returns a version that a write can be compared with. They grow beyond 2^31 into the negative numbers, of which one stands
/// for any version: a write with it would replace whatever is there.
fn comparable(version: i32) -> Result<i32, BackendError> {
    match version {
        ANY_VERSION => {
            Err(BackendError::permanent("the lock's node was written so often that its version is -1, which means any")
                .hint("delete the node with zkCli.sh deleteall while no job of this lock runs"))
        }
        version => Ok(version),
    }
}

/// Writes the record, and the name of the node that says when it was created.
pub(crate) fn to_text(record: &Record, creation_mark: Option<&str>) -> String {
    let text = record.to_json();
    match creation_mark {
        Some(creation_mark) => format!("{{\"{CREATION_FIELD}\":\"{creation_mark}\",{}", text.trim_start_matches('{')),
        None => text,
    }
}

/// Reads the name of the node that says when a record was created.
fn creation_mark(data: &[u8]) -> Option<String> {
    let read = json::parse(data)?;
    let creation_mark = read.get(CREATION_FIELD)?.as_str()?;
    creation_mark
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| creation_mark.to_owned())
        .filter(|creation_mark| !creation_mark.is_empty())
}

/// Returns whether another client wrote the lock between the readings of its two nodes, that of the lock first: what is known of it
/// is no state that it had. shedlock writes both nodes in one transaction, and the Java library only that of the lock.
pub(crate) fn is_torn(lock: &Node, state: Option<&Node>) -> bool {
    state.is_some_and(|state| state.stat.written_by > lock.stat.written_by)
}

/// Reads a lock. shedlock's own record counts if it was written in the same transaction as the lock; otherwise another client has
/// written the lock since, and only the token and the runs count.
pub(crate) fn read_record(name: &str, lock: &Node, state: Option<&Node>) -> Record {
    let stored = state.and_then(|state| Record::parse(&String::from_utf8_lossy(&state.data), name));
    match (stored, state) {
        (Some(stored), Some(state)) if state.stat.written_by == lock.stat.written_by => stored,
        (stored, _) => Record {
            owner: UNKNOWN.to_owned(),
            since: Some(lock.stat.written_at),
            // The Java library takes a lock without a time for one that is held.
            until: Timestamp::parse(&String::from_utf8_lossy(&lock.data)),
            set_at: None,
            ..stored.unwrap_or_default()
        },
    }
}
