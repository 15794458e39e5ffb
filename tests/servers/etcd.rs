//! etcd, or in its place the server that `TESTS_ETCD` names: one member or three, with TLS, with users; and a client of its own for the JSON gateway.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::certificates::certificates;
use super::front::Front;
use super::program;
use super::redis::ClientCertificates;
use super::server::{Plan, Server};

/// A cluster of one.
pub struct Etcd {
    server: Server,
}

/// A client of the JSON gateway at a port of 127.0.0.1, without a user.
#[derive(Debug, Clone, Copy)]
pub struct EtcdClient {
    pub port: u16,
}

/// Three members; a lock is granted while two are up.
pub struct EtcdCluster {
    pub members: Vec<Etcd>,
}

impl Etcd {
    pub fn fresh() -> Self {
        Self::with(&[])
    }

    /// With further arguments of etcd.
    pub fn with(arguments: &[&str]) -> Self {
        Self { server: Server::new(|directory, port| plan(&directory.file("data"), port, arguments)) }
    }

    /// With TLS, and nothing without.
    pub fn fresh_with_tls(clients: ClientCertificates) -> Self {
        let server = Server::new(|directory, port| {
            let files = certificates();
            let (cert, key, authority) = (files.server(), files.server_key(), files.authority());
            let mut plan = plan(&directory.file("data"), port, &[]);
            for argument in &mut plan.start {
                if argument.contains("client-urls") {
                    *argument = argument.replace("http://", "https://");
                }
            }
            plan.start.extend([format!("--cert-file={cert}"), format!("--key-file={key}")]);
            if clients == ClientCertificates::Required {
                plan.start.extend([format!("--trusted-ca-file={authority}"), "--client-cert-auth".to_owned()]);
            }
            let url = format!("https://127.0.0.1:{port}");
            let (client, client_key) = (files.client(), files.client_key());
            let ask = ["etcdctl", "--endpoints", &url, "--cacert", &authority, "--cert", &client, "--key", &client_key];
            plan.ask = ask.into_iter().chain(["endpoint", "health"]).map(str::to_owned).collect();
            plan
        });
        Self { server }
    }

    /// With users: `root:s3cret`, and `clerk:s3cret` with the rights that `schema` gives to a user, as `etcdctl` commands.
    /// Logins end when they are not used for two seconds.
    pub fn fresh_with_users(schema: &str) -> Self {
        let etcd = Self::with(&["--auth-token-ttl=2"]);
        for command in ["role add root", "user add root:s3cret", "user grant-role root root"] {
            etcd.etcdctl(&command.split(' ').collect::<Vec<_>>());
        }
        for line in schema.lines().filter_map(|line| line.strip_prefix("# etcdctl ")) {
            let line = line.replace("user add clerk", "user add clerk:s3cret").replace('\'', "");
            etcd.etcdctl(&line.split(' ').collect::<Vec<_>>());
        }
        etcd.etcdctl(&["auth", "enable"]);
        etcd
    }

    /// A new member of this server's cluster, which has no vote.
    pub fn learner(&self) -> Self {
        let added = |peer: &str| {
            let peers = format!("--peer-urls={peer}");
            let answer = self.etcdctl(&["member", "add", "learner", "--learner", &peers]);
            let all = answer.lines().find_map(|line| line.strip_prefix("ETCD_INITIAL_CLUSTER=")).unwrap();
            all.trim_matches('"').to_owned()
        };
        let server = Server::new(|directory, port| {
            let mut plan = plan(&directory.file("data"), port, &["--initial-cluster-state=existing"]);
            let peer = plan.start.iter().find_map(|argument| argument.strip_prefix("--listen-peer-urls="));
            let all = added(peer.unwrap());
            for argument in &mut plan.start {
                match argument.split_once('=').map(|(option, _)| option) {
                    Some("--name") => *argument = "--name=learner".to_owned(),
                    Some("--initial-cluster") => *argument = format!("--initial-cluster={all}"),
                    _ => {}
                }
            }
            // It does not answer what `health` asks.
            "status".clone_into(plan.ask.last_mut().unwrap());
            plan
        });
        Self { server }
    }

    pub fn url(&self) -> String {
        format!("etcd://127.0.0.1:{}", self.port())
    }

    /// Runs etcdctl on it, without a user.
    #[track_caller]
    pub fn etcdctl(&self, arguments: &[&str]) -> String {
        let endpoints = format!("http://127.0.0.1:{}", self.port());
        self.directory().run("etcdctl", &[["--endpoints", &endpoints].as_slice(), arguments].concat())
    }

    /// A client of its gateway.
    pub fn client(&self) -> EtcdClient {
        EtcdClient { port: self.port() }
    }
}

impl EtcdClient {
    /// Sends a request to the gateway; the error is etcd's.
    pub fn try_ask(&self, path: &str, body: &Value) -> Result<Value, String> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| error.to_string())?;
        let head = format!(
            "POST /v3/{path} HTTP/1.0\r\nHost: etcd\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        let answer: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {answer}"))?;
        // Under `error` as well, up to etcd 3.5.
        match answer.get("message") {
            Some(error) => Err(error.to_string()),
            None => Ok(answer),
        }
    }

    #[track_caller]
    pub fn ask(&self, path: &str, body: &Value) -> Value {
        self.try_ask(path, body).unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    /// Gives a key with a lock to another owner until the same time, if it is there; the answer says so.
    pub fn try_steal(&self, key: &str, owner: &str) -> Result<String, String> {
        let entry = self.try_ask("kv/range", &json!({"key": encoded(key)}))?;
        let Some(entry) = entry["kvs"].get(0).map(EtcdEntry::of) else { return Ok(String::new()) };
        let value = format!("{}@{owner}", entry.value.split_once('@').unwrap().0);
        let put = json!({"key": encoded(key), "value": encoded(&value), "lease": entry.lease.to_string()});
        self.try_ask("kv/put", &put).map(|_| "done".to_owned())
    }

    pub fn try_delete(&self, key: &str) -> Result<String, String> {
        self.try_ask("kv/deleterange", &json!({"key": encoded(key)})).map(|answer| answer.to_string())
    }

    /// The keys from this one to before `end`, with their values.
    #[track_caller]
    pub fn range(&self, key: &str, end: &str) -> Vec<EtcdEntry> {
        let answer = self.ask("kv/range", &json!({"key": encoded(key), "range_end": encoded(end)}));
        answer["kvs"].as_array().into_iter().flatten().map(EtcdEntry::of).collect()
    }

    /// One key.
    #[track_caller]
    pub fn get(&self, key: &str) -> Option<EtcdEntry> {
        let answer = self.ask("kv/range", &json!({"key": encoded(key)}));
        answer["kvs"].as_array().into_iter().flatten().map(EtcdEntry::of).next()
    }

    pub fn try_get(&self, key: &str) -> Result<Option<EtcdEntry>, String> {
        let answer = self.try_ask("kv/range", &json!({"key": encoded(key)}))?;
        Ok(answer["kvs"].get(0).map(EtcdEntry::of))
    }

    pub fn try_put(&self, key: &str, value: &str) -> Result<Value, String> {
        self.try_ask("kv/put", &json!({"key": encoded(key), "value": encoded(value)}))
    }

    /// Two keys at one instant.
    #[track_caller]
    pub fn get_both(&self, one: &str, other: &str) -> (Option<EtcdEntry>, Option<EtcdEntry>) {
        let ask = [one, other].map(|key| json!({"request_range": {"key": encoded(key)}}));
        let answer = self.ask("kv/txn", &json!({"success": ask}));
        let entry = |place: usize| answer["responses"][place]["response_range"]["kvs"].get(0).map(EtcdEntry::of);
        (entry(0), entry(1))
    }

    /// Writes a key, bound to a lease unless that is zero.
    #[track_caller]
    pub fn put(&self, key: &str, value: &str, lease: i64) {
        self.ask("kv/put", &json!({"key": encoded(key), "value": encoded(value), "lease": lease.to_string()}));
    }

    #[track_caller]
    /// Writes keys, as many at once as the server takes.
    pub fn put_all(&self, entries: impl Iterator<Item = (String, String)>) {
        let puts: Vec<Value> = entries
            .map(|(key, value)| json!({"request_put": {"key": encoded(&key), "value": encoded(&value)}}))
            .collect();
        for puts in puts.chunks(128) {
            self.ask("kv/txn", &json!({"success": puts}));
        }
    }

    pub fn delete(&self, key: &str) {
        self.ask("kv/deleterange", &json!({"key": encoded(key)}));
    }

    /// Grants a lease for so many seconds.
    #[track_caller]
    pub fn grant(&self, seconds: u64) -> i64 {
        let answer = self.ask("lease/grant", &json!({"TTL": seconds.to_string()}));
        answer["ID"].as_str().unwrap().parse().unwrap()
    }

    #[track_caller]
    pub fn revoke(&self, lease: i64) {
        self.ask("lease/revoke", &json!({"ID": lease.to_string()}));
    }

    /// The seconds that a lease has left; none if there is none.
    #[track_caller]
    pub fn time_left(&self, lease: i64) -> Option<i64> {
        let answer = self.ask("lease/timetolive", &json!({"ID": lease.to_string()}));
        let left: i64 = answer["TTL"].as_str().unwrap_or("0").parse().unwrap();
        (left >= 0).then_some(left)
    }

    /// The number of leases that have not ended.
    #[track_caller]
    pub fn leases(&self) -> usize {
        self.ask("lease/leases", &json!({}))["leases"].as_array().map_or(0, Vec::len)
    }
}

/// A key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdEntry {
    pub key: String,
    pub value: String,
    /// The revision at which it was written first.
    pub created: u64,
    pub lease: i64,
}

impl EtcdEntry {
    fn of(entry: &Value) -> Self {
        let text = |key: &str| String::from_utf8(STANDARD.decode(entry[key].as_str().unwrap_or("")).unwrap()).unwrap();
        let number = |key: &str| entry[key].as_str().unwrap_or("0").parse::<i64>().unwrap();
        let created = number("create_revision").try_into().unwrap();
        Self { key: text("key"), value: text("value"), created, lease: number("lease") }
    }
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

fn plan(data: &str, port: u16, arguments: &[&str]) -> Plan {
    let peer = program::free_port();
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
    let program = program::instead("TESTS_ETCD").unwrap_or_else(|| "etcd".to_owned());
    let start = format!(
        "{program} --name=bench --unsafe-no-fsync --data-dir={data} --listen-client-urls={client} \
         --advertise-client-urls={client} --listen-peer-urls={peer} --initial-advertise-peer-urls={peer} \
         --initial-cluster=bench={peer}"
    );
    let ask = ["etcdctl", "--endpoints", &client, "endpoint", "health"];
    Plan {
        start: start
            .split(' ')
            .map(str::to_owned)
            .chain(arguments.iter().map(|argument| (*argument).to_owned()))
            .collect(),
        ask: ask.map(str::to_owned).into(),
        stop: Signal::SIGTERM,
    }
}

impl EtcdCluster {
    pub fn fresh() -> Self {
        let peers: Vec<u16> = (0..3).map(|_| program::free_port()).collect();
        let cluster = |number: usize| format!("m{number}=http://127.0.0.1:{}", peers[number]);
        let all = [cluster(0), cluster(1), cluster(2)].join(",");
        let member = |number: usize| {
            let server = Server::new(|directory, port| {
                let mut plan = plan(&directory.file("data"), port, &[]);
                let peer = format!("http://127.0.0.1:{}", peers[number]);
                for argument in &mut plan.start {
                    let replacement = match argument.split_once('=').map(|(option, _)| option) {
                        Some("--name") => format!("--name=m{number}"),
                        Some(option @ ("--listen-peer-urls" | "--initial-advertise-peer-urls")) => {
                            format!("{option}={peer}")
                        }
                        Some("--initial-cluster") => format!("--initial-cluster={all}"),
                        _ => continue,
                    };
                    *argument = replacement;
                }
                // One member alone is not healthy before the others are there.
                plan.ask = vec!["true".to_owned()];
                plan
            });
            Etcd { server }
        };
        let cluster = Self { members: (0..3).map(member).collect() };
        cluster.leader();
        cluster
    }

    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.members.iter().map(|member| format!("127.0.0.1:{}", member.port())).collect();
        format!("etcd://{}", hosts.join(","))
    }

    /// A port before each member, in their order.
    pub fn fronts(&self, address: &str) -> Vec<Front> {
        self.members.iter().map(|member| Front::new(address, member.port())).collect()
    }

    /// The number of the member that leads; waits until there is one.
    #[track_caller]
    pub fn leader(&self) -> usize {
        let begun = Instant::now();
        loop {
            for (number, member) in self.members.iter().enumerate() {
                let Ok(status) = member.client().try_ask("maintenance/status", &json!({})) else { continue };
                let leads = status["leader"].as_str().filter(|leader| *leader != "0");
                if leads.is_some() && leads == status["header"]["member_id"].as_str() {
                    return number;
                }
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "the cluster finds no leader");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Deref for Etcd {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
