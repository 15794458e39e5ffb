//! The locks below a node of a ZooKeeper.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{Run, Shift, Store, Stored, epoch};
use crate::sockets::connections;
use crate::{Script, ZooKeeper, zookeeper};

/// The owner that shedlock shows for a lock of the Java library, which leaves no name.
const UNKNOWN: &str = "unknown";

/// The locks below a node that nobody else uses.
pub struct ZooKeeperStore {
    port: u16,
    client: Arc<Script>,
    chroot: String,
}

impl ZooKeeperStore {
    pub fn new() -> Self {
        Self::of(zookeeper())
    }

    pub fn of(server: &ZooKeeper) -> Self {
        Self { port: server.port(), client: Arc::clone(server.client()), chroot: server.chroot() }
    }

    pub fn chroot(&self) -> &str {
        &self.chroot
    }

    /// Makes a node that goes with its session, as early versions of the Java library did.
    pub fn make_ephemeral(&self, name: &str, until: &str) {
        let path = self.locks().path(name);
        self.client.request(&json!(["create_ephemeral", path, until]));
    }
}

/// What the tests do with the locks below a node of any server.
pub struct ZooKeeperLocks<'a> {
    pub client: &'a Script,
    pub chroot: &'a str,
}

/// The two nodes of a lock: what Java writes, and the record below it.
struct Nodes {
    lock: Value,
    state: Value,
}

impl Nodes {
    /// The record if it was written together with the lock.
    fn record(&self) -> Option<Value> {
        let is_current = self.state["mzxid"] == self.lock["mzxid"];
        is_current.then(|| serde_json::from_str(self.state["data"].as_str().unwrap()).unwrap())
    }

    fn until(&self) -> i64 {
        epoch(self.lock["data"].as_str().unwrap())
    }
}

impl ZooKeeperLocks<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}/shedlock/{}", self.chroot, node(name))
    }

    fn nodes(&self, name: &str) -> Option<Nodes> {
        let path = self.path(name);
        loop {
            let lock = self.client.request(&json!(["get", path]));
            let state = self.client.request(&json!(["get", format!("{path}/.shedlock")]));
            // A renewal may come between the two.
            if self.client.request(&json!(["get", path])) == lock {
                return (!lock.is_null()).then_some(Nodes { lock, state });
            }
        }
    }

    /// The server's clock, in milliseconds since the epoch.
    pub fn now(&self) -> i64 {
        self.client
            .request(&json!(["write", if self.chroot.is_empty() { "/" } else { self.chroot }, "", -1]))
            .as_i64()
            .unwrap()
    }

    pub fn stored(&self, name: &str) -> Option<Stored> {
        let nodes = self.nodes(name)?;
        let (until, now) = (nodes.until(), self.now());
        Some(match nodes.record() {
            Some(record) => {
                let owner = record["owner"].as_str().unwrap().to_owned();
                Stored { owner, since: record["since"].as_i64().unwrap_or_default(), until, now }
            }
            None => Stored { owner: UNKNOWN.to_owned(), since: nodes.lock["mtime"].as_i64().unwrap(), until, now },
        })
    }

    /// Writes both nodes as shedlock does, with another owner or other times.
    pub fn rewrite(&self, name: &str, owner: Option<&str>, by: Shift) {
        let (nodes, stored) = (self.nodes(name).unwrap(), self.stored(name).unwrap());
        let by = by.millis();
        let text = nodes.state["data"].as_str().unwrap_or(r#"{"token":0,"runs":[]}"#);
        let mut record: Value = serde_json::from_str(text).unwrap();
        record["owner"] = json!(owner.unwrap_or(&stored.owner));
        (record["since"], record["until"]) = (json!(stored.since + by), json!(stored.until + by));
        if let Some(time) = record["set"].as_i64() {
            record["set"] = json!(time + by);
        }
        let path = self.path(name);
        if nodes.state.is_null() {
            self.client.request(&json!(["create", format!("{path}/.shedlock"), ""]));
        }
        let both =
            [json!([path, time(stored.until + by), -1]), json!([format!("{path}/.shedlock"), record.to_string(), -1])];
        self.client.request(&json!(["write_all", both]));
    }

    /// Gives a lock that is held to another owner, unless it is written meanwhile; says `done`.
    pub fn try_steal(&self, name: &str, owner: &str) -> Result<String, String> {
        let Some(nodes) = self.nodes(name).filter(|nodes| nodes.until() > now()) else { return Ok(String::new()) };
        let Some(mut record) = nodes.record() else { return Ok(String::new()) };
        record["owner"] = json!(owner);
        let (path, versions) = (self.path(name), [&nodes.lock["version"], &nodes.state["version"]]);
        let both = [
            json!([path, nodes.lock["data"], versions[0]]),
            json!([format!("{path}/.shedlock"), record.to_string(), versions[1]]),
        ];
        self.client.try_request(&json!(["write_all", both])).map(|_| "done".to_owned())
    }

    /// Frees a lock, whoever holds it.
    pub fn try_free(&self, name: &str) -> Result<String, String> {
        self.client.try_request(&json!(["write", self.path(name), time(now()), -1])).map(|_| String::new())
    }

    pub fn delete(&self, name: &str) {
        self.client.request(&json!(["delete", self.path(name)]));
    }

    pub fn make_root(&self) {
        self.client.request(&json!(["create", format!("{}/shedlock", self.chroot), ""]));
    }

    /// As `ZookeeperCuratorLockProvider.lock`: by this host's clock, and by the version of the node.
    pub fn java_take(&self, name: &str, at_most: Duration) -> bool {
        let (path, now) = (self.path(name), now());
        let until = time(now + i64::try_from(at_most.as_millis()).unwrap());
        let found = self.client.request(&json!(["get", path]));
        if found.is_null() {
            return self.client.request(&json!(["create", path, until])) == json!(true);
        }
        let is_held = match found["data"].as_str() {
            None | Some("") => true,
            Some(text) => epoch(text) > now,
        };
        !is_held && self.client.try_request(&json!(["write", path, until, found["version"]])).is_ok()
    }

    /// As its `unlock`: whatever the node has by now.
    pub fn java_release(&self, name: &str, rest: Duration) {
        let until = time(now() + i64::try_from(rest.as_millis()).unwrap());
        self.client.request(&json!(["write", self.path(name), until, -1]));
    }

    pub fn history(&self, name: &str) -> Vec<Run> {
        let Some(Some(text)) = self.nodes(name).map(|nodes| nodes.state["data"].as_str().map(str::to_owned)) else {
            return Vec::new();
        };
        let record: Value = serde_json::from_str(&text).unwrap();
        let read = |run: &Value| {
            let owner = run[1].as_str().unwrap();
            Run {
                token: run[0].as_u64().unwrap(),
                owner: owner.to_owned(),
                host: owner.split(':').next().unwrap().to_owned(),
                started: run[2].as_i64().unwrap(),
                ended: run[3].as_i64(),
                exit_code: run[4].as_i64(),
                outcome: run[5].as_str().map(str::to_owned),
            }
        };
        record["runs"].as_array().unwrap().iter().rev().map(read).collect()
    }
}

impl ZooKeeperStore {
    pub fn locks(&self) -> ZooKeeperLocks<'_> {
        ZooKeeperLocks { client: &self.client, chroot: &self.chroot }
    }
}

impl Store for ZooKeeperStore {
    fn url(&self) -> String {
        format!("zookeeper://127.0.0.1:{}{}", self.port, self.chroot)
    }

    fn in_one_record(&self) -> bool {
        true
    }

    fn java_owner(&self, _: &str) -> String {
        UNKNOWN.to_owned()
    }

    fn java_frees_only_its_own(&self) -> bool {
        false
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        self.locks().stored(name)
    }

    fn delete(&self, name: &str) {
        self.locks().delete(name);
    }

    fn steal(&self, name: &str, owner: &str) {
        self.locks().rewrite(name, Some(owner), Shift::Later(Duration::ZERO));
    }

    fn shift(&self, name: &str, by: Shift) {
        self.locks().rewrite(name, None, by);
    }

    /// The server cannot tell the connections of its tests from each other, but the kernel can: those of processes that
    /// have this store's URL in their environment.
    fn connections(&self) -> usize {
        connections(self.port, &self.chroot)
    }

    fn make_table(&self) {
        self.locks().make_root();
    }

    fn java_take(&self, name: &str, _: &str, at_most: Duration) -> bool {
        self.locks().java_take(name, at_most)
    }

    fn java_release(&self, name: &str, _: &str, rest: Duration) {
        self.locks().java_release(name, rest);
    }

    fn history(&self, name: &str) -> Vec<Run> {
        self.locks().history(name)
    }

    fn things(&self) -> Vec<String> {
        let names = self.client.request(&json!(["children", self.chroot]));
        names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    fn carry_out(&self, schema: &str) {
        for path in schema.lines().filter_map(|line| line.strip_prefix("create ")?.strip_suffix(" \"\"")) {
            self.client.request(&json!(["create", path, ""]));
        }
    }
}

/// The name of a lock's node, by the documented rule: parts that ZooKeeper refuses, or that mean something else here, are
/// percent-encoded behind `%:`.
fn node(name: &str) -> String {
    let is_refused = |c: char| c.is_control() || matches!(c, '\u{e000}'..='\u{f8ff}') || c >= '\u{fff0}';
    let part = |part: &str| {
        let is_own = ["", ".", "..", ".shedlock"].contains(&part) || part.starts_with("%:");
        if !is_own && !part.chars().any(is_refused) {
            return part.to_owned();
        }
        let byte = |byte: u8| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        format!("%:{}", part.bytes().map(byte).collect::<String>())
    };
    name.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

fn time(millis: i64) -> String {
    let since = Duration::from_millis(u64::try_from(millis).unwrap());
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since).to_string()
}
