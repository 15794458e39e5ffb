//! A server that speaks MongoDB's protocol. It is not MongoDB, which no registry has.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use nix::sys::signal::Signal;

use super::certificates::certificates;
use super::directory::Directory;
use super::redis::ClientCertificates;
use super::script::Script;
use super::server::{Plan, Server};

/// The client of the tests.
const CLIENT: &str = include_str!("mongodb.py");

/// A server. Its data outlive `stop` and `kill`.
pub struct MongoDb {
    server: Server,
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

    fn new(address: &str, certificates: &[String], change: impl Fn(Plan, &Directory) -> Plan) -> Self {
        let server = Server::new(|directory, port| {
            let (place, data) = (built().display().to_string(), directory.file("data"));
            let start = format!(
                "java -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp {place}/jars/*:{place} \
                 Serve {address} {port} {data}"
            );
            let ask = format!("bash -c 3<>/dev/tcp/127.0.0.1/{port}");
            let start = start.split(' ').map(str::to_owned).chain(certificates.iter().cloned());
            let plan = Plan {
                start: start.collect(),
                ask: ask.splitn(3, ' ').map(str::to_owned).collect(),
                stop: Signal::SIGTERM,
            };
            change(plan, directory)
        });
        Self { server, client: OnceLock::new() }
    }

    /// What the tests ask of it.
    pub fn client(&self) -> &Arc<Script> {
        self.client.get_or_init(|| Arc::new(Script::new(CLIENT, &[&format!("mongodb://127.0.0.1:{}", self.port())])))
    }
}

impl Deref for MongoDb {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// The directory that tests/mongo-server/build has made.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut places = test.ancestors().map(|above| above.join("mongo-server"));
    places.find(|path| path.join("complete").is_file()).unwrap_or_else(|| {
        panic!("the server is not here; tests/run fetches it, or: tests/mongo-server/build target/mongo-server")
    })
}
