//! Redis, or in its place the server that `TESTS_REDIS_SERVER` names: alone, with TLS, with users, as a cluster, and with
//! a sentinel.

use std::fs;
use std::ops::Deref;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::certificates::certificates;
use super::directory::Directory;
use super::program;
use super::server::{Plan, Server};

/// A server. Its data outlive `stop`; they outlive `kill` only with `--appendonly yes`.
pub struct Redis {
    server: Server,
    scheme: &'static str,
    /// How redis-cli logs in.
    keeper: &'static [&'static str],
    /// The next database that no test has had.
    next: AtomicU16,
}

/// A numbered database of a server, and who works in it.
#[derive(Debug, Clone)]
pub struct RedisDatabase {
    pub number: u16,
    port: u16,
    scheme: &'static str,
    keeper: &'static [&'static str],
    socket: String,
    /// `USER:PASSWORD@` as it stands in the URL, or nothing.
    login: String,
}

/// Three masters that share the slots, without replicas.
pub struct RedisCluster {
    pub nodes: Vec<Redis>,
}

/// A master, its replica, and one sentinel that suffices to make the replica the master.
pub struct RedisSentinel {
    pub master: Redis,
    pub replica: Redis,
    pub sentinel: Redis,
}

/// Enough for every test to have some of its own.
const DATABASES: u16 = 2000;

/// `clerk` may do everything, `reader` may read, both with the password `s3cret`; nobody does anything without one.
const ACL: &str = "
user default off
user keeper on >keeper ~* &* +@all
user clerk on >s3cret ~* &* +@all
user reader on >s3cret ~* &* -@all +@read +@connection
";

/// How redis-cli logs in where these users are.
const KEEPER: [&str; 5] = ["--user", "keeper", "--pass", "keeper", "--no-auth-warning"];

/// The sentinel's name for its master.
const MASTER: &str = "main";

/// How long a cluster or a sentinel may take to know its members.
const PATIENCE: Duration = Duration::from_secs(90);

impl Redis {
    /// A server of a test's own. Arguments are such as `--appendonly`, `yes`.
    pub fn fresh(arguments: &[&str]) -> Self {
        Self::new("redis", &[], |_, port| {
            [&["--port", port], arguments].concat().into_iter().map(str::to_owned).collect()
        })
    }

    /// A server whose clock can be moved, with `set_clock`.
    pub fn with_moving_clock() -> Self {
        let arguments = |_: &Directory, port: &str| vec!["--port".to_owned(), port.to_owned()];
        Self::with_plan("redis", &[], arguments, Plan::with_moving_clock)
    }

    /// A server that speaks only TLS, and wants a certificate from its clients or not.
    pub fn fresh_with_tls(clients: ClientCertificates) -> Self {
        let certificates = certificates();
        let clients = match clients {
            ClientCertificates::Required => "yes",
            ClientCertificates::Ignored => "no",
        };
        Self::new("rediss", &[], |_, port| {
            let arguments = [
                ["--port", "0"],
                ["--tls-port", port],
                ["--tls-auth-clients", clients],
                ["--tls-cert-file", &certificates.server()],
                ["--tls-key-file", &certificates.server_key()],
                ["--tls-ca-cert-file", &certificates.authority()],
            ];
            arguments.as_flattened().iter().map(|argument| (*argument).to_owned()).collect()
        })
    }

    /// A server that lets in `clerk` and, to read, `reader`, both with the password `s3cret`.
    pub fn fresh_with_users() -> Self {
        Self::new("redis", &KEEPER, |directory, port| {
            let file = directory.file("users.acl");
            fs::write(&file, ACL).unwrap();
            vec!["--port".to_owned(), port.to_owned(), "--aclfile".to_owned(), file]
        })
    }

    /// A server with a configuration file, which a sentinel needs, and the option that makes it one.
    fn sentinel_of(master: u16) -> Self {
        Self::new("redis", &[], |directory, port| {
            let file = directory.file("sentinel.conf");
            let text = format!(
                "port {port}\nsentinel monitor {MASTER} 127.0.0.1 {master} 1\n\
                 sentinel down-after-milliseconds {MASTER} 1000\nsentinel failover-timeout {MASTER} 5000\n"
            );
            // The sentinel writes what it learns into it, and replaces it for that.
            directory.run("sh", &["-c", "printf %s \"$1\" >\"$2\"", "sh", &text, &file]);
            vec![file, "--sentinel".to_owned()]
        })
    }

    /// The arguments begin with the configuration file if there is one.
    fn new(
        scheme: &'static str,
        keeper: &'static [&'static str],
        arguments: impl Fn(&Directory, &str) -> Vec<String>,
    ) -> Self {
        Self::with_plan(scheme, keeper, arguments, |plan, _| plan)
    }

    fn with_plan(
        scheme: &'static str,
        keeper: &'static [&'static str],
        arguments: impl Fn(&Directory, &str) -> Vec<String>,
        change: impl Fn(Plan, &Directory) -> Plan,
    ) -> Self {
        let server = Server::new(|directory, port| {
            let socket = directory.file("socket");
            let always =
                ["--bind", "127.0.0.1", "--unixsocket", &socket, "--unixsocketperm", "777", "--loglevel", "verbose"];
            // The point in time is only to say that a shutdown saves.
            let data = ["--save", "3600 1", "--databases", &DATABASES.to_string(), "--repl-diskless-sync-delay", "0"]
                .map(str::to_owned);
            let own = arguments(directory, &port.to_string());
            let is_sentinel = own.iter().any(|argument| argument == "--sentinel");
            let mut start = vec![program::instead("TESTS_REDIS_SERVER").unwrap_or_else(|| "redis-server".to_owned())];
            let (first, own) = own.split_at(usize::from(is_sentinel));
            start.extend_from_slice(first);
            start.extend(always.map(str::to_owned));
            if !is_sentinel {
                start.extend(data);
            }
            start.extend_from_slice(own);
            let ask = [&["redis-cli", "-e", "-s", &socket], keeper, &["ping"]].concat();
            let ask = ask.into_iter().map(str::to_owned).collect();
            change(Plan { start, ask, stop: Signal::SIGTERM }, directory)
        });
        Self { server, scheme, keeper, next: AtomicU16::new(1) }
    }

    /// A database that no other test uses.
    pub fn database(&self) -> RedisDatabase {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(number < DATABASES, "every database of this server has been given away");
        self.database_number(number)
    }

    /// A database that others may use as well.
    pub fn database_number(&self, number: u16) -> RedisDatabase {
        let (port, socket) = (self.port(), self.directory().file("socket"));
        RedisDatabase { number, port, scheme: self.scheme, keeper: self.keeper, socket, login: String::new() }
    }

    /// What redis-cli answers, in database 0.
    #[track_caller]
    pub fn cli(&self, arguments: &[&str]) -> String {
        self.database_number(0).cli(arguments)
    }
}

/// Whether a server with TLS refuses clients that have no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    Required,
    Ignored,
}

impl RedisDatabase {
    /// `redis://127.0.0.1:PORT/NUMBER`, or `rediss` for a server with TLS, with the login that was set.
    pub fn url(&self) -> String {
        self.url_at("127.0.0.1")
    }

    /// The same with another name of the host, such as `localhost`.
    pub fn url_at(&self, host: &str) -> String {
        format!("{}://{}{host}:{}/{}", self.scheme, self.login, self.port, self.number)
    }

    /// The same database for `USER:PASSWORD` or `:PASSWORD`, percent-encoded where need be. It is for the URL only.
    pub fn login(&self, login: &str) -> Self {
        Self { login: format!("{login}@"), ..self.clone() }
    }

    /// What redis-cli answers, through the socket: bare values, one per line, nothing for nil.
    #[track_caller]
    pub fn cli(&self, arguments: &[&str]) -> String {
        self.try_cli(arguments).unwrap_or_else(|complaint| panic!("{arguments:?}: {complaint}"))
    }

    /// Like `cli`; what the server complains of if it fails.
    pub fn try_cli(&self, arguments: &[&str]) -> Result<String, String> {
        let mut client = program::command("redis-cli");
        client.args(["-e", "-s", &self.socket]).args(self.keeper);
        // A sentinel knows no databases.
        if self.number != 0 {
            client.args(["-n", &self.number.to_string()]);
        }
        program::output(client.args(arguments))
    }
}

impl RedisCluster {
    /// A cluster of a test's own.
    pub fn fresh() -> Self {
        let node = || Redis::fresh(&["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]);
        let cluster = Self { nodes: [node(), node(), node()].into() };
        for ((node, slots), epoch) in
            cluster.nodes.iter().zip([["0", "5460"], ["5461", "10922"], ["10923", "16383"]]).zip(["1", "2", "3"])
        {
            node.cli(&["cluster", "addslotsrange", slots[0], slots[1]]);
            node.cli(&["cluster", "set-config-epoch", epoch]);
        }
        let [first, others @ ..] = cluster.nodes.as_slice() else { unreachable!() };
        for other in others {
            first.cli(&["cluster", "meet", "127.0.0.1", &other.port().to_string()]);
        }
        for node in &cluster.nodes {
            wait_for("the cluster", node, || {
                let info = node.cli(&["cluster", "info"]);
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            });
        }
        cluster
    }

    /// A replica of the first node.
    pub fn replica(&self) -> Redis {
        let replica = Redis::fresh(&["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]);
        let (first, master) = (&self.nodes[0], self.nodes[0].cli(&["cluster", "myid"]));
        first.cli(&["cluster", "meet", "127.0.0.1", &replica.port().to_string()]);
        wait_for("the replica", &replica, || {
            replica.cli(&["cluster", "nodes"]).contains(&master)
                && replica.cli(&["cluster", "replicate", &master]) == "OK"
        });
        wait_for("the copy", &replica, || replica.cli(&["info", "replication"]).contains("master_link_status:up"));
        replica
    }

    /// `redis-cluster://127.0.0.1:PORT,127.0.0.1:PORT,127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        let nodes: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis-cluster://{}", nodes.join(","))
    }

    /// What redis-cli answers, from the node that has the key.
    #[track_caller]
    pub fn cli(&self, arguments: &[&str]) -> String {
        let mut client = program::command("redis-cli");
        client.args(["-e", "-c", "-h", "127.0.0.1", "-p", &self.nodes[0].port().to_string()]);
        program::output(client.args(arguments)).unwrap_or_else(|complaint| panic!("{arguments:?}: {complaint}"))
    }
}

impl RedisSentinel {
    /// A master, a replica and a sentinel of a test's own.
    pub fn fresh() -> Self {
        let master = Redis::fresh(&[]);
        let replica = Redis::fresh(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
        // A sentinel asks its master for replicas when it starts, and then only every ten seconds.
        wait_for("the replica", &replica, || replica.cli(&["info", "replication"]).contains("master_link_status:up"));
        let sentinel = Redis::sentinel_of(master.port());
        wait_for("the sentinel", &sentinel, || {
            sentinel.cli(&["sentinel", "replicas", MASTER]).contains("master-link-status\nok")
        });
        Self { master, replica, sentinel }
    }

    /// `redis-sentinel://127.0.0.1:PORT/main?db=NUMBER`.
    pub fn url(&self, database: &RedisDatabase) -> String {
        format!("redis-sentinel://127.0.0.1:{}/{MASTER}?db={}", self.sentinel.port(), database.number)
    }

    /// The port of the server that the sentinel calls the master now.
    pub fn master_port(&self) -> u16 {
        let address = self.sentinel.cli(&["sentinel", "get-master-addr-by-name", MASTER]);
        address.lines().last().unwrap().parse().unwrap()
    }
}

/// Asks again and again, and shows the server's log if it is in vain.
fn wait_for(what: &str, server: &Redis, is_there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}; its log:\n{}", server.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Deref for Redis {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
