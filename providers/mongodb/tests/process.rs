//! The program as shedlock uses it: requests to its stdin, answers from its stdout. The servers are stand-ins for MongoDB.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use servers::stores::{MongoDbStore, Store};
use servers::{MongoDb, certificates, mongodb_mutual_tls, mongodb_tls, mongodb_users};

/// A provider that has been opened.
struct Provider {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Provider {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shedlock-provider-mongodb"));
        let command = command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (requests, answers) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, requests, answers }
    }

    fn open(url: &str) -> Self {
        let mut provider = Self::start();
        let opened = provider.ask(&opening(url, 5000));
        assert_eq!((&opened["grain"], &opened["runs"]), (&json!(1), &json!(100)), "{opened}");
        assert!(opened["version"].as_str().unwrap().starts_with("shedlock-provider-mongodb "), "{opened}");
        provider
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn ask(&mut self, request: &Value) -> Value {
        writeln!(self.requests.as_mut().unwrap(), "{request}").unwrap();
        self.answer()
    }

    fn read(&mut self, name: &str) -> Value {
        self.ask(&json!({"op": "read", "name": name}))
    }

    fn write(&mut self, name: &str, version: &Value, record: &Value) -> Value {
        self.ask(&json!({"op": "write", "name": name, "version": version, "record": record}))
    }

    fn list(&mut self) -> Vec<Value> {
        let mut items = vec![self.ask(&json!({"op": "list"}))];
        while items.last().unwrap()["name"].is_string() {
            items.push(self.answer());
        }
        items
    }

    /// Ends stdin, and returns how long the program lives on.
    fn end(mut self) -> Duration {
        let begun = Instant::now();
        drop(self.requests.take());
        assert!(self.process.wait().unwrap().success());
        begun.elapsed()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn opening(url: &str, timeout: u64) -> Value {
    json!({"op": "open", "protocol": 1, "url": url, "password": null, "timeout": timeout})
}

fn record(owner: &str, token: u64) -> Value {
    let run =
        json!({"token": token, "owner": owner, "started_at": 1000, "ended_at": null, "exit_code": -1, "outcome": "a"});
    json!({"owner": owner, "since": 1000, "until": 4_000_000_000_000_u64, "set_at": 1000, "token": token, "runs": [run]})
}

#[test]
fn a_record_is_written_only_if_it_is_still_the_same() {
    let store = MongoDbStore::new();
    let mut provider = Provider::open(&store.url());
    let empty = provider.read("job");
    assert_eq!((&empty["version"], &empty["record"], &empty["floor"]), (&Value::Null, &Value::Null, &empty["now"]));
    assert!(empty["now"].as_u64().unwrap() > 1_700_000_000_000, "{empty}");
    let (first, second) = (record("h:1:a", 7), record("h:2:b", 8));
    assert_eq!(provider.write("job", &Value::Null, &first), json!({"written": true}));
    assert_eq!(provider.write("job", &Value::Null, &second), json!({"written": false}));
    let found = provider.read("job");
    assert_eq!(found["record"], first);
    assert_eq!(provider.write("job", &found["version"], &second), json!({"written": true}));
    assert_eq!(provider.write("job", &found["version"], &first), json!({"written": false}));
    assert_eq!(
        provider.ask(&json!({"op": "remove", "name": "job", "version": found["version"]})),
        json!({"removed": false})
    );
    let found = provider.read("job");
    assert_eq!(found["record"], second);
    // Another process, and the Java library, find what was written.
    assert_eq!(Provider::open(&store.url()).read("job")["record"], second);
    assert_eq!(store.stored("job").unwrap().owner, "h:2:b");
    let items = provider.list();
    assert_eq!(items[0], json!({"name": "job", "record": second}));
    assert!(items.len() == 2 && items[1]["now"].as_u64() >= found["now"].as_u64(), "{items:?}");
    let removal = json!({"op": "remove", "name": "job", "version": found["version"]});
    assert_eq!(provider.ask(&removal), json!({"removed": true}));
    assert_eq!(provider.ask(&removal), json!({"removed": false}));
    assert_eq!(provider.list().len(), 1);
    assert!(provider.end() < Duration::from_secs(1));
    assert_eq!(store.connections(), 0);
}

#[test]
fn a_write_of_the_java_library_is_a_conflict_and_keeps_what_is_ours() {
    let store = MongoDbStore::new();
    let mut provider = Provider::open(&store.url());
    assert!(store.java_take("job", "java", Duration::from_secs(60)));
    let found = provider.read("job");
    assert_eq!((&found["record"]["owner"], &found["record"]["token"]), (&json!("java"), &json!(0)));
    store.java_release("job", "java", Duration::ZERO);
    assert_eq!(provider.write("job", &found["version"], &record("h:1:a", 7)), json!({"written": false}));
    let found = provider.read("job");
    assert_eq!(provider.write("job", &found["version"], &record("h:1:a", 7)), json!({"written": true}));
    store.java_release("job", "java", Duration::ZERO);
    let found = provider.read("job");
    assert_eq!((&found["record"]["owner"], &found["record"]["set_at"]), (&json!("unknown"), &Value::Null));
    assert_eq!(found["record"]["runs"], record("h:1:a", 7)["runs"]);
}

#[test]
fn the_collection_is_made_once_and_checked() {
    let store = MongoDbStore::new();
    let mut provider = Provider::open(&store.url());
    assert_eq!(provider.ask(&json!({"op": "make"})), json!({"made": ["created the collection shedLock"]}));
    assert_eq!(provider.ask(&json!({"op": "make"})), json!({"made": ["the collection shedLock is there"]}));
    let schema = provider.ask(&json!({"op": "schema"}));
    assert!(schema["schema"].as_str().unwrap().contains("db.createRole("), "{schema}");
    let check = provider.ask(&json!({"op": "check"}));
    let findings: Vec<_> =
        check["findings"].as_array().unwrap().iter().map(|it| (it["subject"].as_str(), it["grade"].as_str())).collect();
    let expected =
        [("address", "good"), ("TLS", "good"), ("server", "good"), ("replicas", "unwise"), ("login", "good")];
    assert_eq!(findings, expected.map(|(subject, grade)| (Some(subject), Some(grade))), "{check}");
}

/// Returns the error of a read, and how long it took.
fn fails(url: &str, timeout: u64) -> (Value, Duration) {
    let mut provider = Provider::start();
    assert!(provider.ask(&opening(url, timeout))["label"].is_string());
    let begun = Instant::now();
    let error = provider.read("job");
    let took = begun.elapsed();
    assert!(error["error"].is_string() && error["sent"] == json!(false), "{error}");
    assert!(provider.end() < Duration::from_secs(1));
    (error, took)
}

#[test]
fn who_does_not_answer_is_left_in_time_and_who_refuses_at_once() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("mongodb://{}/x", server.local_addr().unwrap());
    let (error, took) = fails(&url, 1000);
    assert_eq!((&error["class"], took < Duration::from_secs(1)), (&json!("transient"), true), "{error} {took:?}");
    assert!(error["error"].as_str().unwrap().starts_with("no answer in time"), "{error}");
    drop(server);
    let (error, took) = fails(&url, 60_000);
    assert_eq!((&error["class"], &error["error"]), (&json!("transient"), &json!("connection refused")));
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn a_wrong_login_is_permanent_and_a_right_one_has_rights() {
    let server: &MongoDb = mongodb_users();
    let store = MongoDbStore::of(server);
    let url =
        |login: &str, query: &str| format!("mongodb://{login}127.0.0.1:{}/{}{query}", server.port(), store.database());
    for (login, said) in [("root:wrong@", "rejects this user"), ("", "requires a user")] {
        let (error, _) = fails(&url(login, "?authSource=admin"), 5000);
        assert!(error["error"].as_str().unwrap().contains(said), "{error}");
        assert_eq!((&error["class"], &error["login_refused"]), (&json!("permanent"), &json!(true)), "{error}");
    }
    let mut provider = Provider::start();
    let mut request = opening(&url("root:wrong@", "?authSource=admin&authMechanism=SCRAM-SHA-256"), 5000);
    request["password"] = json!("r00t");
    provider.ask(&request);
    assert_eq!(provider.write("job", &Value::Null, &record("h:1:a", 7)), json!({"written": true}));
}

#[test]
fn a_server_proves_its_name_and_a_client_his() {
    let files = certificates();
    let url = |port: u16, query: &str| format!("mongodb://localhost:{port}/x?{query}");
    let own = format!("sslrootcert={}&sslcert={}&sslkey={}", files.authority(), files.client(), files.client_key());
    for good in [
        url(mongodb_tls().port(), &format!("sslrootcert={}", files.authority())),
        url(mongodb_tls().port(), "sslmode=require"),
        url(mongodb_mutual_tls().port(), &own),
    ] {
        let read = Provider::open(&good).read("job");
        assert!(read["now"].is_u64(), "{good}: {read}");
    }
    for (wrong, said) in [
        (url(mongodb_tls().port(), &format!("sslrootcert={}", files.stranger())), "an authority that is not trusted"),
        (url(mongodb_tls().port(), ""), "closed the connection"),
        (
            url(mongodb_mutual_tls().port(), &format!("sslrootcert={}", files.authority())),
            "requires a client certificate",
        ),
    ] {
        let (error, _) = fails(&wrong, 5000);
        assert!(error["error"].as_str().unwrap().contains(said), "{wrong}: {error}");
    }
}

#[test]
fn ferretdb_is_refused() {
    let server = MongoDb::ferretdb();
    let (error, _) = fails(&format!("mongodb://127.0.0.1:{}/x", server.port()), 5000);
    assert!(error["error"].as_str().unwrap().contains("is FerretDB 1."), "{error}");
    assert_eq!(error["class"], "permanent");
}

/// A DNS that lists one server for one cluster, at a port where nobody listens.
const NAMES: &str = r#"
import socket, struct
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("there", flush=True)
name = b"".join(bytes([len(part)]) + part for part in b"m1.example.test".split(b".")) + b"\0"
answers = {
    (b"_mongodb._tcp.locks.example.test", 33): struct.pack(">HHH", 0, 0, 1) + name,
    (b"locks.example.test", 16): b"\x10authSource=admin",
    (b"m1.example.test", 1): bytes([127, 0, 0, 1]),
}
while True:
    question, client = server.recvfrom(4096)
    at, parts = 12, []
    while question[at]:
        parts.append(question[at + 1:at + 1 + question[at]])
        at += question[at] + 1
    kind = struct.unpack(">H", question[at + 1:at + 3])[0]
    asked = b".".join(parts).lower()
    found = answers.get((asked, kind))
    known = any(asked == one for one, _ in answers)
    head = struct.pack(">HHHHH", 0x8580 if known else 0x8583, 1, 1 if found else 0, 0, 0)
    body = b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(found)) + found if found else b""
    server.sendto(question[:2] + head + question[12:at + 5] + body, client)
"#;

#[test]
fn the_dns_lists_the_servers_of_a_cluster() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let resolver = file("resolv.conf", "nameserver 127.0.0.1\n");
    let names = file("names.py", NAMES);
    let requests = |cluster: &str| {
        let url = format!("mongodb+srv://{cluster}.example.test/ops?tls=false");
        format!("{}\n{}\n", opening(&url, 5000), json!({"op": "read", "name": "job"}))
    };
    let requests = file("requests", &[requests("locks"), requests("nowhere")].concat());
    let script = "PATH=$PATH:/usr/sbin:/sbin; ip link set lo up; mount --bind \"$1\" /etc/resolv.conf\n\
                  coproc python3 \"$2\"; read -r _ <&\"${COPROC[0]}\"\n\
                  \"$3\" <\"$4\"; code=$?; kill \"$COPROC_PID\"; exit $code";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount", "--propagation", "private"]);
    command.args(["bash", "-c", script, "bash", &resolver, &names]);
    let output = command.args([env!("CARGO_BIN_EXE_shedlock-provider-mongodb"), &requests]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let errors: Vec<_> = answers.iter().filter_map(|answer| answer["error"].as_str()).collect();
    assert_eq!(answers[0]["label"], "mongodb+srv://locks.example.test/ops", "{said}");
    assert_eq!(errors, ["connection refused", "the DNS lists no servers for the name in the URL"], "{said}");
}
