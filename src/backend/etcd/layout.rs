//! The keys and values of a lock: the Java library's key, and shedlock's keys beside it: the exact times, and the runs.

use std::time::Duration;

use serde_json::{Value, json};

use super::wire::Entry;
use crate::backend::net::json;
use crate::lock::{Claim, Closing, RunRecord};
use crate::system::Timestamp;

/// Names the keys of one prefix and environment. No name of a lock has a control character in it, so that a zero byte ends it.
#[derive(Debug, Clone)]
pub(crate) struct KeySpace {
    pub(crate) prefix: String,
    pub(crate) environment: String,
}

impl KeySpace {
    /// Returns the start of the keys of the locks, which are the Java library's.
    pub(crate) fn locks(&self) -> String {
        format!("{}:{}:", self.prefix, self.environment)
    }

    /// Returns the start of the keys with the exact times of the locks.
    pub(crate) fn states(&self) -> String {
        format!("{}-state:{}:", self.prefix, self.environment)
    }

    /// Returns the start of the keys of the runs.
    pub(crate) fn runs(&self) -> String {
        format!("{}-history:{}:", self.prefix, self.environment)
    }

    pub(crate) fn lock(&self, name: &str) -> Vec<u8> {
        (self.locks() + name).into_bytes()
    }

    pub(crate) fn state(&self, name: &str) -> Vec<u8> {
        (self.states() + name).into_bytes()
    }

    /// Returns the first key of the runs of a lock, and the key after the last.
    pub(crate) fn runs_of(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        let start = self.runs() + name;
        (format!("{start}\0").into_bytes(), format!("{start}\x01").into_bytes())
    }

    /// Returns the key of a run. The revision of the store before the acquisition puts the runs of a lock in their order.
    pub(crate) fn run(&self, name: &str, revision: u64, owner: &str) -> Vec<u8> {
        format!("{}{name}\0{revision:020}\0{owner}", self.runs()).into_bytes()
    }

    /// Splits the key of a run into the lock's name, the revision and the owner.
    pub(crate) fn split_run_key<'a>(&self, key: &'a [u8]) -> Option<(&'a str, u64, &'a str)> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.runs())?;
        let mut parts = rest.rsplitn(3, '\0');
        let (owner, revision, name) = (parts.next()?, parts.next()?, parts.next()?);
        Some((name, revision.parse().ok()?, owner))
    }
}

/// Returns the key after all that begin with this one.
pub(crate) fn after(start: &str) -> Vec<u8> {
    let mut end = start.as_bytes().to_vec();
    // No prefix in UTF-8 ends with the largest byte.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// Holds the key of a lock, as the Java library writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredLock {
    pub(crate) owner: String,
    /// The time of the acquisition; `None` for a value that is in another form.
    pub(crate) since: Option<Timestamp>,
    pub(crate) value: Vec<u8>,
    pub(crate) revision: u64,
    pub(crate) lease: i64,
}

impl StoredLock {
    pub(crate) fn from_entry(entry: Entry) -> Self {
        let text = String::from_utf8_lossy(&entry.value);
        let parts = text.strip_prefix("ADDED:").and_then(|rest| rest.split_once('@'));
        let (since, owner) = parts.map_or((None, &*text), |(time, owner)| (Timestamp::parse(time), owner));
        Self { owner: owner.to_owned(), since, revision: entry.modified, lease: entry.lease, value: entry.value }
    }

    pub(crate) fn is_of(&self, owner: &str) -> bool {
        self.owner == owner
    }
}

/// Returns the value of a lock's key.
pub(crate) fn lock_value(since: Timestamp, owner: &str) -> Vec<u8> {
    format!("ADDED:{since}@{owner}").into_bytes()
}

/// Holds the exact times of a lock, which its lease rounds up to seconds. Their key stays when the lock is freed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredTimes {
    pub(crate) owner: String,
    pub(crate) since: Timestamp,
    pub(crate) until: Timestamp,
    /// The revision in the key of the last run, also of one without a record; `None` if there was none.
    pub(crate) run: Option<u64>,
}

impl StoredTimes {
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let state = json::parse(value)?;
        let time = |key: &str| Timestamp::parse(state.get(key)?.as_str()?);
        Some(Self {
            owner: state.get("owner")?.as_str()?.to_owned(),
            since: time("since")?,
            until: time("until")?,
            run: state.get("run").and_then(Value::as_u64),
        })
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut state = json!({
            "owner": self.owner, "since": self.since.to_string(), "until": self.until.to_string(),
        });
        if let Some(run) = self.run {
            state["run"] = json!(run);
        }
        state.to_string().into_bytes()
    }
}

/// Returns the record of a run that has begun.
pub(crate) fn begun_record(since: Timestamp) -> Value {
    json!({"started_at": since.to_string()})
}

/// Returns the record of a run that has ended; `None` if no job ran.
pub(crate) fn ended_record(mut record: Value, now: Timestamp, closing: Closing) -> Option<Value> {
    let Closing::Ended { outcome, exit_code } = closing else { return None };
    record["ended_at"] = json!(now.to_string());
    if let Some(code) = exit_code {
        record["exit_code"] = json!(code);
    }
    record["outcome"] = json!(outcome.as_str());
    Some(record)
}

/// Decodes a record; returns `None` if it is not one.
pub(crate) fn decode_run(space: &KeySpace, entry: &Entry) -> Option<RunRecord> {
    let (name, _, owner) = space.split_run_key(&entry.key)?;
    let record = json::parse(&entry.value)?;
    let time = |key: &str| Timestamp::parse(record.get(key)?.as_str()?);
    Some(RunRecord {
        token: entry.created,
        name: name.to_owned(),
        owner: owner.to_owned(),
        host: owner.split(':').next().unwrap_or_default().to_owned(),
        started_at: time("started_at"),
        ended_at: time("ended_at"),
        exit_code: record.get("exit_code").and_then(Value::as_i64),
        outcome: record.get("outcome").and_then(Value::as_str).map(str::to_owned),
    })
}

/// Returns a duration in whole seconds, rounded up.
pub(crate) fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

/// Returns the exact times that an acquisition writes.
pub(crate) fn acquired_times(claim: &Claim, since: Timestamp, run: Option<u64>) -> StoredTimes {
    // The part of a millisecond that the time leaves out ends no lease early.
    let lease = claim.lease + Duration::from_nanos(999_999);
    StoredTimes { owner: claim.owner.as_str().to_owned(), since, until: since + lease, run }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> KeySpace {
        KeySpace { prefix: "shedlock".to_owned(), environment: "default".to_owned() }
    }

    #[test]
    fn the_lock_s_key_and_value_are_the_java_library_s() {
        assert_eq!(space().lock("job"), b"shedlock:default:job");
        let since = Timestamp::parse("2026-01-31T18:00:00.000Z").unwrap();
        assert_eq!(lock_value(since, "web1"), b"ADDED:2026-01-31T18:00:00.000Z@web1");
        let entry = |value: &str| Entry { key: Vec::new(), value: value.into(), created: 1, modified: 2, lease: 3 };
        let held = StoredLock::from_entry(entry("ADDED:2026-01-31T18:00:00.000Z@me@home"));
        assert_eq!((held.owner.as_str(), held.since, held.revision, held.lease), ("me@home", Some(since), 2, 3));
        let held = StoredLock::from_entry(entry("somebody"));
        assert_eq!((held.owner.as_str(), held.since), ("somebody", None));
    }

    #[test]
    fn the_key_of_a_run_tells_what_it_is_and_belongs_to_one_lock() {
        let space = space();
        for (name, owner) in [("job", "h:1:0"), ("job a", "h:1:0"), ("job:a", "h:1:0:30s"), ("日本", "x")] {
            let key = space.run(name, 7, owner);
            assert_eq!(space.split_run_key(&key), Some((name, 7, owner)));
            let (from, to) = space.runs_of(name);
            assert!(from <= key && key < to);
            for other in ["jo", "job", "job a", "job:a", "job:"].into_iter().filter(|other| *other != name) {
                let (from, to) = space.runs_of(other);
                assert!(!(from <= key && key < to), "{other} {name}");
            }
        }
        assert!(space.run("job", 9, "z") < space.run("job", 10, "a"));
        assert_eq!(space.split_run_key(b"shedlock-history:default:job"), None);
        assert_eq!(after("ab:"), b"ab;");
    }

    #[test]
    fn a_state_reads_what_it_writes_and_nothing_else() {
        let (since, until) = (Timestamp(1_000), Timestamp(2_001));
        for run in [None, Some(7)] {
            let state = StoredTimes { owner: "h:1:\"0".to_owned(), since, until, run };
            assert_eq!(StoredTimes::parse(&state.to_json()), Some(state));
        }
        for odd in ["", "7", "{}", "{\"owner\":7}", "[]"] {
            assert_eq!(StoredTimes::parse(odd.as_bytes()), None);
        }
    }

    #[test]
    fn a_lease_is_never_shorter_than_the_lock() {
        for (millis, wanted) in [(1, 1), (999, 1), (1000, 1), (1001, 2)] {
            assert_eq!(seconds(Duration::from_millis(millis)), wanted);
        }
    }
}
