//! Leases, as kubectl and other programs that elect a leader see them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Run, Shift, Store, Stored, epoch};
use crate::sockets::connections;
use crate::{Namespace, kubernetes};

/// A namespace of the shared API server of Kubernetes.
pub struct KubernetesStore(pub Namespace);

/// The label by which Leases are listed.
const LABEL: &str = "app.kubernetes.io/managed-by";

impl KubernetesStore {
    pub fn new() -> Self {
        Self(kubernetes().namespace())
    }

    /// The same by a port without TLS.
    pub fn plain() -> Self {
        Self(kubernetes().plain_namespace())
    }

    /// The Lease of a lock, found by what it says of itself.
    pub fn lease(&self, name: &str) -> Option<Value> {
        let (status, lease) = self.0.try_request("GET", &self.0.leases(&format!("/{}", lease_name(name))), "");
        if status == 200 {
            return Some(lease);
        }
        // The name is too long to be written out.
        let list = self.0.request("GET", &self.0.leases(""), "");
        list["items"]
            .as_array()?
            .iter()
            .find(|lease| lease["metadata"]["annotations"]["shedlock/name"] == name)
            .cloned()
    }

    /// Gives a lock that is held to another owner, if the server answers and nobody else writes; says `done` if it did.
    pub fn try_steal(&self, name: &str, owner: &str) -> Result<String, String> {
        self.try_change(name, |lease| {
            let held = Self::read(lease).is_some_and(|lock| lock.is_held());
            lease["spec"]["holderIdentity"] = json!(owner);
            held
        })
    }

    /// Has the server forget that a lock is held, as a person does.
    pub fn try_free(&self, name: &str) -> Result<String, String> {
        self.try_change(name, |lease| {
            lease["spec"]["holderIdentity"] = json!("");
            true
        })
    }

    fn try_change(&self, name: &str, change: impl Fn(&mut Value) -> bool) -> Result<String, String> {
        let path = self.0.leases(&format!("/{}", lease_name(name)));
        let (status, mut lease) = self.0.ask("GET", &path, "")?;
        if status != 200 || !change(&mut lease) {
            return Ok(String::new());
        }
        match self.0.ask("PUT", &path, &lease.to_string())? {
            (200, _) => Ok("done".to_owned()),
            (status, answer) => Err(format!("{status} {answer}")),
        }
    }

    fn read(lease: &Value) -> Option<Stored> {
        let spec = &lease["spec"];
        let renewed = epoch(spec["renewTime"].as_str()?);
        Some(Stored {
            owner: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
            since: epoch(spec["acquireTime"].as_str()?),
            until: renewed + spec["leaseDurationSeconds"].as_i64()? * 1000,
            now: whole_second(now()),
        })
    }

    /// Has a Lease changed, as by an editor: whatever it is now.
    fn change(&self, name: &str, change: impl Fn(&mut Value)) {
        loop {
            let mut lease = self.lease(name).unwrap();
            change(&mut lease);
            let path = self.0.leases(&format!("/{}", lease["metadata"]["name"].as_str().unwrap()));
            match self.0.try_request("PUT", &path, &lease.to_string()) {
                (200, _) => return,
                (409, _) => {}
                (status, answer) => panic!("{status} {answer}"),
            }
        }
    }
}

impl Store for KubernetesStore {
    fn url(&self) -> String {
        self.0.url()
    }

    fn in_one_record(&self) -> bool {
        true
    }

    fn grain(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        Self::read(&self.lease(name)?)
    }

    fn delete(&self, name: &str) {
        let lease = self.lease(name).unwrap();
        self.0.request("DELETE", &self.0.leases(&format!("/{}", lease["metadata"]["name"].as_str().unwrap())), "");
    }

    fn steal(&self, name: &str, owner: &str) {
        self.change(name, |lease| lease["spec"]["holderIdentity"] = json!(owner));
    }

    fn shift(&self, name: &str, by: Shift) {
        self.change(name, |lease| {
            for key in ["acquireTime", "renewTime"] {
                let time = epoch(lease["spec"][key].as_str().unwrap());
                lease["spec"][key] = json!(micro_time(time + by.millis()));
            }
            let note = &mut lease["metadata"]["annotations"]["shedlock/record"];
            let Some(mut record) = note.as_str().map(|text| serde_json::from_str::<Value>(text).unwrap()) else {
                return;
            };
            for key in ["since", "until", "set"] {
                if let Some(time) = record[key].as_i64() {
                    record[key] = json!(time + by.millis());
                }
            }
            *note = json!(record.to_string());
        });
    }

    /// The server does not tell, but the kernel: those of the processes that have this namespace in their environment.
    fn connections(&self) -> usize {
        connections(self.0.port(), &self.0.name)
    }

    fn make_table(&self) {}

    /// Another program's leader election takes the Lease, which it has labelled so that it is listed.
    fn java_take(&self, name: &str, owner: &str, at_most: Duration) -> bool {
        let metadata = json!({
            "name": lease_name(name),
            "labels": {LABEL: "shedlock"},
            "annotations": {"shedlock/name": name},
        });
        let path = self.0.leases("");
        let new = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
        let mut lease = self.lease(name).unwrap_or_else(|| new.clone());
        let spec = &lease["spec"];
        let number = |value: &Value| value.as_i64().unwrap_or_default();
        let held = |renewed: &str| epoch(renewed) + number(&spec["leaseDurationSeconds"]) * 1000 > now();
        if spec["renewTime"].as_str().is_some_and(held) && spec["holderIdentity"] != "" {
            return false;
        }
        // It has whole seconds only, which its clock makes up for.
        let (millis, now) = (i64::try_from(at_most.as_millis()).unwrap(), now());
        let seconds = (millis + 999) / 1000;
        lease["spec"] = json!({
            "holderIdentity": owner,
            "leaseDurationSeconds": seconds,
            "acquireTime": micro_time(now),
            "renewTime": micro_time(now + millis - seconds * 1000),
            "leaseTransitions": number(&spec["leaseTransitions"]) + 1,
        });
        let is_new = lease["metadata"]["resourceVersion"].is_null();
        let (method, path) = if is_new { ("POST", path) } else { ("PUT", format!("{path}/{}", lease_name(name))) };
        match self.0.try_request(method, &path, &lease.to_string()) {
            (200 | 201, _) => true,
            (409, _) => false,
            (status, answer) => panic!("{status} {answer}"),
        }
    }

    fn java_release(&self, name: &str, owner: &str, rest: Duration) {
        if self.lease(name).is_none_or(|lease| lease["spec"]["holderIdentity"] != owner) {
            return;
        }
        let seconds = i64::try_from(rest.as_millis().div_ceil(1000)).unwrap().max(1);
        let end = whole_second(now()) + i64::try_from(rest.as_millis()).unwrap();
        self.change(name, |lease| {
            lease["spec"]["leaseDurationSeconds"] = json!(seconds);
            lease["spec"]["renewTime"] = json!(micro_time(end - seconds * 1000));
        });
    }

    fn history(&self, name: &str) -> Vec<Run> {
        let Some(lease) = self.lease(name) else { return Vec::new() };
        let Some(text) = lease["metadata"]["annotations"]["shedlock/record"].as_str() else { return Vec::new() };
        let record: Value = serde_json::from_str(text).unwrap();
        let read = |run: &Value| Run {
            token: run[0].as_u64().unwrap(),
            owner: run[1].as_str().unwrap().to_owned(),
            host: run[1].as_str().unwrap().split(':').next().unwrap().to_owned(),
            started: run[2].as_i64().unwrap(),
            ended: run[3].as_i64(),
            exit_code: run[4].as_i64(),
            outcome: run[5].as_str().map(str::to_owned),
        };
        record["runs"].as_array().unwrap().iter().rev().map(read).collect()
    }

    /// What a person has made there; each lock makes its Lease itself.
    fn things(&self) -> Vec<String> {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles", self.0.name);
        let roles = self.0.request("GET", &path, "");
        roles["items"].as_array().unwrap().iter().map(|role| role["metadata"]["name"].to_string()).collect()
    }

    fn carry_out(&self, schema: &str) {
        self.0.apply(schema);
    }
}

/// The name of a Lease as the manual has it, for names that are not too long.
fn lease_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.chars().all(|c| is_plain(c) || c == '-') && name.starts_with(is_plain) && name.ends_with(is_plain) {
        return name.to_owned();
    }
    let written = name.bytes().map(|byte| match char::from(byte) {
        c if is_plain(c) => c.to_string(),
        _ => format!("-{byte:02x}"),
    });
    format!("lock--{}", written.collect::<String>())
}

/// The time as the server tells it.
fn whole_second(millis: i64) -> i64 {
    millis - millis % 1000
}

/// This machine's clock, which is the server's too.
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// `2026-01-31T18:00:00.000000Z`.
fn micro_time(millis: i64) -> String {
    let since = Duration::from_millis(u64::try_from(millis).unwrap());
    humantime::format_rfc3339_micros(std::time::UNIX_EPOCH + since).to_string()
}
