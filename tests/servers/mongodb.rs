//! A server that speaks MongoDB's protocol. It is not MongoDB, which no registry has; it keeps everything in memory.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::OnceLock;

use nix::sys::signal::Signal;

use super::script::Script;
use super::server::{Plan, Server};

/// The client of the tests.
const CLIENT: &str = include_str!("mongodb.py");

/// A server, which forgets everything when it ends.
pub struct MongoDb {
    server: Server,
    client: OnceLock<Script>,
}

impl MongoDb {
    pub fn fresh() -> Self {
        let server = Server::new(|_, port| {
            let place = built().display().to_string();
            let start = format!(
                "java -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp {place}/jars/*:{place} Serve {port}"
            );
            let ask = format!("bash -c 3<>/dev/tcp/127.0.0.1/{port}");
            Plan {
                start: start.split(' ').map(str::to_owned).collect(),
                ask: ask.splitn(3, ' ').map(str::to_owned).collect(),
                stop: Signal::SIGTERM,
            }
        });
        Self { server, client: OnceLock::new() }
    }

    /// What the tests ask of it.
    pub fn client(&self) -> &Script {
        self.client.get_or_init(|| Script::new(CLIENT, &[&format!("mongodb://127.0.0.1:{}", self.port())]))
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
