//! ZooKeeper: alone, with TLS, and an ensemble of three.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use super::certificates::certificates;
use super::directory::Directory;
use super::program::{self, unique};
use super::redis::ClientCertificates;
use super::script::Script;
use super::server::{CommandLine, Plan, Server};

/// Where Debian keeps the libraries of Java, and those that the server needs.
const LIBRARIES: &str = "/usr/share/java";
const JARS: [&str; 14] = [
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-simple",
    "metrics-core",
    "snappy-java",
    // What TLS is done with; Debian's netty-all has not all of it.
    "netty-buffer",
    "netty-codec",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
    "netty-transport-native-epoll",
    "netty-transport-native-unix-common",
];

/// What every server is configured with. A tick is the unit of its timeouts.
const ALWAYS: &str = "tickTime=200\nadmin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n\
                      preAllocSize=1024\nforceSync=no\nclientPortAddress=127.0.0.1\n";

/// How long an ensemble may take to choose a leader.
const PATIENCE: Duration = Duration::from_secs(90);

/// The helper of the tests, which speaks to a server by the Python library Kazoo. A client of the server's own, zkCli.sh,
/// starts a JVM for each request, which takes a second.
const CLIENT: &str = include_str!("zookeeper.py");

/// A server. Its data outlive `stop` and `kill`.
pub struct ZooKeeper {
    server: Server,
    /// The port without TLS.
    plain: u16,
    client: OnceLock<Arc<Script>>,
}

/// Three servers that elect one of them.
pub struct ZooKeeperEnsemble {
    pub members: Vec<ZooKeeper>,
}

impl ZooKeeper {
    /// A server of a test's own. Lines of its configuration are such as `maxClientCnxns=3`.
    pub fn fresh(lines: &[&str]) -> Self {
        Self::new(|_, port| (port, format!("clientPort={port}\n{}\n", lines.join("\n"))), |plan, _| plan)
    }

    /// A server whose clock can be moved, with `set_clock`.
    pub fn with_moving_clock() -> Self {
        Self::new(|_, port| (port, format!("clientPort={port}\n")), Plan::of_java_with_moving_clock)
    }

    /// A server that speaks TLS on its port, and wants a certificate from its clients or not.
    pub fn fresh_with_tls(clients: ClientCertificates) -> Self {
        let certificates = certificates();
        let clients = match clients {
            ClientCertificates::Required => "need",
            ClientCertificates::Ignored => "none",
        };
        let configure = |directory: &Directory, port| {
            let plain = program::free_port();
            let pem = |name: &str, files: &[String]| {
                let text: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
                let file = directory.file(name);
                fs::write(&file, text).unwrap();
                file
            };
            let own = pem("server.pem", &[certificates.server(), certificates.server_key()]);
            let trusted = pem("trusted.pem", &[certificates.authority()]);
            let text = format!(
                "clientPort={plain}\nsecureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
                 serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
                 ssl.keyStore.location={own}\nssl.keyStore.type=PEM\nssl.trustStore.location={trusted}\n\
                 ssl.trustStore.type=PEM\nssl.clientAuth={clients}\n"
            );
            (plain, text)
        };
        Self::new(configure, |plan, _| plan)
    }

    /// `configure` returns the port without TLS and its part of the configuration.
    fn new(configure: impl Fn(&Directory, u16) -> (u16, String), change: impl Fn(Plan, &Directory) -> Plan) -> Self {
        let port_without_tls = Mutex::new(0);
        let server = Server::new(|directory, port| {
            let (plain, lines) = configure(directory, port);
            *port_without_tls.lock().unwrap() = plain;
            let start = start(directory, &lines);
            change(Plan { start, ask: ask(plain, "srvr", "Mode:"), stop: Signal::SIGTERM }, directory)
        });
        Self { server, plain: port_without_tls.into_inner().unwrap(), client: OnceLock::new() }
    }

    /// A server of an ensemble: its number, and the lines that name all members. It answers that it runs before it has a
    /// leader.
    fn member(number: usize, port: u16, members: &str) -> Self {
        let server = Server::new(|directory, _| {
            let lines = format!("clientPort={port}\ninitLimit=50\nsyncLimit=25\n{members}");
            let start = start(directory, &lines);
            fs::write(directory.path().join("data/myid"), number.to_string()).unwrap();
            Plan { start, ask: ask(port, "ruok", "imok"), stop: Signal::SIGTERM }
        });
        Self { server, plain: port, client: OnceLock::new() }
    }

    /// The port for connections without TLS; that of a server with TLS is `port()`.
    pub fn plain_port(&self) -> u16 {
        self.plain
    }

    /// What the tests ask of it, at its root.
    pub fn client(&self) -> &Arc<Script> {
        self.client.get_or_init(|| Arc::new(Script::new(CLIENT, &[&format!("127.0.0.1:{}", self.plain)])))
    }

    /// A client of the tests that is logged in, as `USER:PASSWORD`.
    pub fn client_of(&self, login: &str) -> Script {
        Script::new(CLIENT, &[&format!("127.0.0.1:{}", self.plain), login])
    }

    /// A node that no other test uses, as the chroot of a URL.
    pub fn chroot(&self) -> String {
        let path = format!("/{}", unique("space"));
        self.client().request(&json!(["create", path, ""]));
        path
    }

    /// A script that is the server's own client for the command line, whose name is zkCli.sh.
    pub fn command_line_client(&self) -> String {
        let jars = [jars(), vec![format!("{LIBRARIES}/commons-cli.jar")]].concat().join(":");
        format!("#!/bin/sh\nexec java -Xmx64m -cp {jars} org.apache.zookeeper.ZooKeeperMain \"$@\"\n")
    }

    /// What it answers to a command of four letters.
    pub fn four_letters(&self, command: &str) -> String {
        let ask = format!("exec 3<>/dev/tcp/127.0.0.1/{} && printf {command} >&3 && cat <&3", self.plain);
        self.directory().try_run("timeout", &["2", "bash", "-c", &ask]).unwrap_or_default()
    }
}

impl ZooKeeperEnsemble {
    /// An ensemble of a test's own, which has a leader.
    pub fn fresh() -> Self {
        Self::with("")
    }

    /// One that listens on every address.
    pub fn for_everybody() -> Self {
        Self::with("clientPortAddress=0.0.0.0\n")
    }

    fn with(lines: &str) -> Self {
        let mut members = lines.to_owned();
        let ports: Vec<u16> = (0..3).map(|_| program::free_port()).collect();
        for number in 1..=3 {
            let (quorum, election) = (program::free_port(), program::free_port());
            members += &format!("server.{number}=127.0.0.1:{quorum}:{election}\n");
        }
        let members = ports.iter().enumerate().map(|(place, port)| ZooKeeper::member(place + 1, *port, &members));
        let ensemble = Self { members: members.collect() };
        ensemble.wait_until_all_serve();
        ensemble
    }

    /// `HOST,HOST,HOST`.
    pub fn hosts(&self) -> String {
        let hosts: Vec<String> = self.members.iter().map(|member| format!("127.0.0.1:{}", member.plain)).collect();
        hosts.join(",")
    }

    /// What the tests ask of it, at its root, by whichever member is up.
    pub fn client(&self) -> Script {
        Script::new(CLIENT, &[&self.hosts()])
    }

    /// The member that leads now.
    pub fn leader(&self) -> &ZooKeeper {
        self.wait_for("a leader", || {
            self.members.iter().find(|member| member.four_letters("srvr").contains("Mode: leader"))
        })
    }

    fn wait_until_all_serve(&self) {
        for member in &self.members {
            self.wait_for("a member", || member.four_letters("srvr").contains("Mode: ").then_some(()));
        }
    }

    fn wait_for<T>(&self, what: &str, find: impl Fn() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = find() {
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}; its log:\n{}", self.members[0].log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Deref for ZooKeeper {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// The command line of a server, whose configuration this writes.
fn start(directory: &Directory, lines: &str) -> CommandLine {
    let data = directory.file("data");
    directory.run("mkdir", &["-p", "data"]);
    let file = directory.file("zoo.cfg");
    fs::write(&file, format!("{ALWAYS}dataDir={data}\n{lines}")).unwrap();
    let small = "-Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Djava.net.preferIPv4Stack=true \
                 -Dorg.slf4j.simpleLogger.showDateTime=true";
    let start =
        format!("java {small} -cp {} org.apache.zookeeper.server.quorum.QuorumPeerMain {file}", jars().join(":"));
    start.split(' ').map(str::to_owned).collect()
}

fn jars() -> Vec<String> {
    let jars: Vec<String> = JARS.iter().map(|jar| format!("{LIBRARIES}/{jar}.jar")).collect();
    for jar in &jars {
        assert!(Path::new(jar).exists(), "{jar} is not installed; tests/run installs what the tests need");
    }
    jars
}

/// A client that succeeds when the answer to a command of four letters has this in it.
fn ask(port: u16, command: &str, answer: &str) -> CommandLine {
    let ask = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && printf {command} >&3 && grep -q {answer} <&3");
    // A server that is starting may accept a connection and forget it.
    ["timeout", "1", "bash", "-c", &ask].map(str::to_owned).into()
}
