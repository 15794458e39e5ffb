//! Servers that speak MongoDB's protocol. None of them is MongoDB, which no registry has.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use nix::sys::signal::Signal;

use super::certificates::certificates;
use super::directory::Directory;
use super::program;
use super::redis::ClientCertificates;
use super::script::Script;
use super::server::{CommandLine, Plan, Server};

/// The client of the tests.
const CLIENT: &str = include_str!("mongodb.py");

/// A server with users: the program.
const USERS: &str = include_str!("mongodb_users.py");

/// A server. Its data outlive `stop` and `kill`.
pub struct MongoDb {
    server: Server,
    /// The user and password of the tests.
    login: &'static str,
    client: OnceLock<Arc<Script>>,
}

impl MongoDb {
    /// A server of a test's own.
    pub fn fresh() -> Self {
        Self::new("127.0.0.1", &[], |plan, _| plan)
    }

    /// A server that hosts other than this one reach.
    pub fn for_everybody() -> Self {
        Self::new("0.0.0.0", &[], |plan, _| plan)
    }

    /// A server whose clock can be moved, with `set_clock`.
    pub fn with_moving_clock() -> Self {
        Self::new("127.0.0.1", &[], Plan::of_java_with_moving_clock)
    }

    /// A server that speaks TLS, and wants a certificate from its clients or not.
    pub fn fresh_with_tls(clients: ClientCertificates) -> Self {
        let files = certificates();
        let mut own = vec![files.server(), files.server_key()];
        if clients == ClientCertificates::Required {
            own.push(files.authority());
        }
        Self::new("127.0.0.1", &own, |plan, _| plan)
    }

    /// A server with users, as which it shows whether they may do what they ask: the primary of the replica set `secantus`.
    pub fn with_users() -> Self {
        let server = Server::new(|directory, port| {
            let python = built("mongo-server").join("secantus/bin/python").display().to_string();
            let start = [python, "-c".to_owned(), USERS.to_owned(), port.to_string(), directory.file("data")];
            plan(start.to_vec(), port)
        });
        Self { server, login: "root:r00t@", client: OnceLock::new() }
    }

    /// FerretDB 1 with SQLite. It answers everything, but of two updates of one version of a document both may succeed.
    pub fn ferretdb() -> Self {
        let server = Server::new(|directory, port| {
            let (program, own) = (built("ferretdb").join("ferretdb"), directory.path().display());
            let start = format!(
                "{} --handler=sqlite --sqlite-url=file:{own}/ --listen-addr=127.0.0.1:{port} --state-dir={own} \
                 --telemetry=disable --debug-addr=-",
                program.display()
            );
            plan(start.split(' ').map(str::to_owned).collect(), port)
        });
        Self { server, login: "", client: OnceLock::new() }
    }

    /// The one in Java, or SecantusDB where its program is named.
    fn new(address: &str, certificates: &[String], change: impl Fn(Plan, &Directory) -> Plan) -> Self {
        let server = Server::new(|directory, port| {
            let (place, data) = (built("mongo-server").display().to_string(), directory.file("data"));
            let (start, stop) = match program::instead("TESTS_MONGODB") {
                // On SIGTERM, its main thread may wait for ever for a lock that it has itself.
                Some(program) => (
                    format!(
                        "{program} --host {address} --port {port} --storage-path {data} --standalone \
                         --sync-on-commit --cache-size 64M"
                    ),
                    Signal::SIGKILL,
                ),
                None => (
                    format!(
                        "java -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
                         -cp {place}/jars/*:{place} Serve {address} {port} {data}"
                    ),
                    Signal::SIGTERM,
                ),
            };
            let start = start.split(' ').map(str::to_owned).chain(certificates.iter().cloned());
            change(Plan { stop, ..plan(start.collect(), port) }, directory)
        });
        Self { server, login: "", client: OnceLock::new() }
    }

    /// What the tests ask of it.
    pub fn client(&self) -> &Arc<Script> {
        let url = format!("mongodb://{}127.0.0.1:{}", self.login, self.port());
        self.client.get_or_init(|| Arc::new(Script::new(CLIENT, &[&url])))
    }
}

/// A server that can be used when it accepts connections.
fn plan(start: CommandLine, port: u16) -> Plan {
    let ask = format!("bash -c 3<>/dev/tcp/127.0.0.1/{port}");
    Plan { start, ask: ask.splitn(3, ' ').map(str::to_owned).collect(), stop: Signal::SIGTERM }
}

impl Deref for MongoDb {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// The directory of this name that the script of this name has filled.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut places = test.ancestors().map(|above| above.join(name));
    places.find(|path| path.join("complete").is_file()).unwrap_or_else(|| {
        panic!("{name} is not here; tests/run fetches or builds it, or: tests/{name}/build target/{name}")
    })
}
