//! etcd as another party sees it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::super::{Etcd, EtcdClient, EtcdEntry, etcd, unique};
use super::{Measure, Past, Run, Shift, Store, Stored, epoch, iso};
use crate::sockets::connections;

/// An environment of an etcd.
pub struct EtcdStore {
    url: String,
    etcd: EtcdClient,
    environment: String,
    /// The leases of what Java took, by the lock's name and its owner.
    leases: Mutex<BTreeMap<(String, String), i64>>,
}

impl EtcdStore {
    pub fn new() -> Self {
        Self::of(etcd())
    }

    /// An environment of another server.
    pub fn of(server: &Etcd) -> Self {
        let (url, etcd) = (server.url(), server.client());
        Self { url, etcd, environment: unique("locks"), leases: Mutex::default() }
    }

    fn key(&self, kind: &str, name: &str) -> String {
        format!("shedlock{kind}:{}:{name}", self.environment)
    }
}

/// How many milliseconds a request may take on a busy machine.
const ROUND_TRIP: i64 = 500;

impl Store for EtcdStore {
    fn url(&self) -> String {
        format!("{}?environment={}", self.url, self.environment)
    }

    fn deletes_free_locks(&self) -> bool {
        true
    }

    /// The end is the one that shedlock keeps beside the lock, which has to agree with the lease: etcd deletes the key not before
    /// it, and not much later. Java's locks have the end of their lease.
    fn stored(&self, name: &str) -> Option<Stored> {
        // At one instant, or a renewal between the two would count as the lock's.
        let (entry, state) = self.etcd.get_both(&self.key("", name), &self.key("-state", name));
        let entry = entry?;
        let now = millis_now();
        // The lease of a lock that was taken anew in between may be revoked already.
        let Some(left) = self.etcd.time_left(entry.lease) else { return self.stored(name) };
        let state: Value = state.map_or(Value::Null, |state| serde_json::from_str(&state.value).unwrap());
        let after = millis_now();
        let (since, owner) = entry.value.strip_prefix("ADDED:")?.split_once('@')?;
        let (since, freed) = (epoch(since), now + left * 1000);
        let until = match state["owner"] == json!(owner) {
            true => epoch(state["until"].as_str().unwrap()),
            false => freed,
        };
        // The time left is cut to seconds; a lease lasts two seconds at least. It begins when the server has the request, and
        // the end that is kept beside it counts from the answer.
        assert!(
            after + left * 1000 + 1000 + ROUND_TRIP >= until,
            "{name} ends in {left} s, and not at {until}: {entry:?} {state}"
        );
        assert!(freed <= until.max(now) + 4000, "{name} ends in {left} s, long after {until}: {entry:?} {state}");
        // It is held while its key is there.
        Some(Stored { owner: owner.to_owned(), since, until: until.max(now + 1), now })
    }

    fn uncertainty(&self, stored: &Stored) -> i64 {
        // What a lease has left is known in seconds that are cut; of Java's locks nothing else is.
        if stored.owner.contains(':') { 1000 } else { 2000 }
    }

    fn delete(&self, name: &str) {
        self.etcd.delete(&self.key("", name));
    }

    fn steal(&self, name: &str, owner: &str) {
        let entry = self.etcd.get(&self.key("", name)).unwrap();
        let added = entry.value.split_once('@').unwrap().0;
        self.etcd.put(&self.key("", name), &format!("{added}@{owner}"), entry.lease);
        self.leases.lock().unwrap().insert((name.to_owned(), owner.to_owned()), entry.lease);
    }

    /// The lease stays as it is: etcd counts it down by a clock that nobody sets.
    fn shift(&self, name: &str, by: Shift) {
        let (entry, state) = self.etcd.get_both(&self.key("", name), &self.key("-state", name));
        let entry = entry.unwrap();
        let (added, owner) = entry.value.strip_prefix("ADDED:").unwrap().split_once('@').unwrap();
        let moved = |time: &str| iso(epoch(time) + by.millis());
        self.etcd.put(&self.key("", name), &format!("ADDED:{}@{owner}", moved(added)), entry.lease);
        if let Some(state) = state {
            let mut state: Value = serde_json::from_str(&state.value).unwrap();
            for key in ["since", "until"] {
                state[key] = json!(moved(state[key].as_str().unwrap()));
            }
            self.etcd.put(&self.key("-state", name), &state.to_string(), 0);
        }
    }

    fn measure(&self) -> Measure {
        Measure::Lease
    }

    fn left(&self, name: &str) -> Option<Duration> {
        let seconds = self.etcd.time_left(self.etcd.get(&self.key("", name))?.lease)?;
        Some(Duration::from_secs(seconds.try_into().unwrap()))
    }

    fn connections(&self) -> usize {
        connections(self.etcd.port, &self.environment)
    }

    fn make_table(&self) {}

    fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool {
        let lease = self.etcd.grant(at_most.as_millis().div_ceil(1000).try_into().unwrap());
        let (key, value) = (encode(&self.key("", name)), encode(&format!("ADDED:{}@{owner}", iso(millis_now()))));
        let taken = self.etcd.ask(
            "kv/txn",
            &json!({
                "compare": [{"key": key, "target": "VERSION", "result": "EQUAL", "version": "0"}],
                "success": [{"request_put": {"key": key, "value": value, "lease": lease.to_string()}}],
                "failure": [{"request_range": {"key": key}}],
            }),
        );
        if taken["succeeded"] != json!(true) {
            self.etcd.revoke(lease);
            return false;
        }
        self.leases.lock().unwrap().insert((name.to_owned(), owner.to_owned()), lease);
        true
    }

    fn java_release(&self, name: &str, owner: &str, rest: Duration) {
        // Java knows the lease that it was granted, and nothing else.
        let mut leases = self.leases.lock().unwrap();
        let Some(lease) = leases.remove(&(name.to_owned(), owner.to_owned())) else { return };
        if !rest.is_zero() {
            let next = self.etcd.grant(rest.as_millis().div_ceil(1000).try_into().unwrap());
            self.etcd.put(&self.key("", name), &format!("ADDED:2026-01-31T18:00:00.000Z@{owner}"), next);
            leases.insert((name.to_owned(), owner.to_owned()), next);
        }
        if self.etcd.time_left(lease).is_some() {
            self.etcd.revoke(lease);
        }
    }

    fn history(&self, name: &str) -> Vec<Run> {
        let start = self.key("-history", name);
        let read = |entry: EtcdEntry| {
            let run: Value = serde_json::from_str(&entry.value).unwrap();
            let owner = entry.key.rsplit('\0').next().unwrap().to_owned();
            Run {
                token: entry.created,
                host: owner.split(':').next().unwrap().to_owned(),
                owner,
                started: epoch(run["started_at"].as_str().unwrap()),
                ended: run["ended_at"].as_str().map(epoch),
                exit_code: run["exit_code"].as_i64(),
                outcome: run["outcome"].as_str().map(str::to_owned),
            }
        };
        let mut runs: Vec<Run> =
            self.etcd.range(&format!("{start}\0"), &format!("{start}\x01")).into_iter().map(read).collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run.token));
        runs
    }

    fn things(&self) -> Vec<String> {
        let of_kind = |kind: &str| {
            let start = format!("shedlock{kind}:{}", self.environment);
            self.etcd.range(&format!("{start}:"), &format!("{start};"))
        };
        ["", "-state", "-history"].into_iter().flat_map(of_kind).map(|entry| entry.key).collect()
    }

    fn carry_out(&self, _: &str) {}
}

/// Text as the gateway of etcd has it.
fn encode(text: &str) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text)
}

/// Milliseconds since the epoch by this machine's clock.
fn millis_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

impl Past for EtcdStore {
    fn add_runs(&self, name: &str, count: u64) {
        let new_year = humantime::parse_rfc3339("2026-01-01T00:00:00Z").unwrap();
        let at = |seconds| humantime::format_rfc3339_millis(new_year + Duration::from_secs(seconds)).to_string();
        self.etcd.put_all((1..=count).map(|number| {
            let key = self.key("-history", &format!("{name}\0{number:020}\0host:1:{number:016x}"));
            let (started, ended) = (at(number), at(number + 1));
            let run = json!({"started_at": started, "ended_at": ended, "exit_code": 0, "outcome": "success"});
            (key, run.to_string())
        }));
    }
}
