//! PostgreSQL.

use std::fs;
use std::ops::Deref;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::certificates::certificates;
use super::directory::Directory;
use super::program;
use super::server::{Plan, Server};

/// A server that trusts everybody who comes through its socket, and `postgres` on 127.0.0.1 unless it has TLS.
pub struct Postgres {
    server: Server,
}

/// A database of a server, and who works in it.
#[derive(Debug, Clone)]
pub struct PostgresDatabase {
    pub name: String,
    /// The directory of the server's socket, and the server's port, which is in the socket's name.
    socket: (String, u16),
    /// The port that the URL has.
    port: u16,
    /// User, and password if there is one, as they stand in the URL.
    login: String,
}

/// Whom a server with TLS lets in on 127.0.0.1.
const ACCESS: &str = "
local     all all                  trust
hostssl   all jobs    127.0.0.1/32 cert
hostssl   all all     127.0.0.1/32 scram-sha-256
hostnossl all clerk   127.0.0.1/32 scram-sha-256
";

const ROLES: &str = "
create role clerk login password 's3cret';
create role jobs login;
alter role postgres password 's3cret';
";

impl Postgres {
    /// A server of a test's own. Settings are such as `max_connections=20`.
    pub fn fresh(settings: &[&str]) -> Self {
        Self { server: Server::new(|directory, port| plan(directory, port, settings)) }
    }

    /// A server that listens on its usual port, at every address of a network of the test's own. It lets in nobody but the
    /// superuser, through its socket.
    pub fn in_a_network() -> Self {
        let server = Server::at(5432, |directory, port| {
            let plan = plan(directory, port, &["listen_addresses=*"]);
            fs::write(directory.file("data/pg_hba.conf"), "local all postgres trust\n").unwrap();
            plan
        });
        Self { server }
    }

    /// A server whose clock is off by so much, such as `-1h`.
    pub fn with_clock(offset: &str) -> Self {
        Self { server: Server::new(|directory, port| plan(directory, port, &[]).with_clock(offset)) }
    }

    /// A server whose clock can be moved, with `set_clock`.
    pub fn with_moving_clock() -> Self {
        Self { server: Server::new(|directory, port| plan(directory, port, &[]).with_moving_clock(directory)) }
    }

    /// A server with TLS. Over TLS it lets in `jobs` with the client certificate, everybody else (`clerk`, `postgres`) with
    /// the password `s3cret`; without TLS only `clerk`, with the password.
    pub fn fresh_with_tls(settings: &[&str]) -> Self {
        let certificates = certificates();
        let tls = [
            "ssl=on",
            &format!("ssl_cert_file={}", certificates.server()),
            &format!("ssl_key_file={}", certificates.server_key()),
            &format!("ssl_ca_file={}", certificates.authority()),
            "password_encryption=scram-sha-256",
        ];
        let settings = [&tls, settings].concat();
        let server = Server::new(|directory, port| {
            let plan = plan(directory, port, &settings);
            fs::write(directory.file("data/pg_hba.conf"), ACCESS).unwrap();
            plan
        });
        let server = Self { server };
        server.psql(ROLES);
        server
    }

    /// A server of a test's own that can only be read, with an empty database of this name.
    pub fn only_read(database: &str) -> Self {
        let server = Self::fresh(&[]);
        server.psql(&format!("create database {database}"));
        server.psql("alter system set default_transaction_read_only = on");
        server.psql("select pg_reload_conf()");
        let begun = Instant::now();
        while server.psql("show default_transaction_read_only") != "on" {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not read its settings");
        }
        server
    }

    /// A copy of this server that follows it.
    pub fn standby(&self) -> Self {
        let standby = Self::fresh(&[]);
        standby.stop();
        let copy = format!(
            "rm -rf data && PATH=$PATH:$(dirname /usr/lib/postgresql/*/bin/postgres) pg_basebackup -R -D data -c fast \
             -X stream -h {} -p {} -U postgres",
            self.path().display(),
            self.port()
        );
        standby.directory().run("sh", &["-c", &copy]);
        standby.start();
        standby
    }

    /// A new, empty database.
    pub fn database(&self) -> PostgresDatabase {
        self.database_of("postgres")
    }

    /// A new, empty database that belongs to a role.
    pub fn database_of(&self, owner: &str) -> PostgresDatabase {
        let name = program::unique("test");
        self.psql(&format!("create database {name} owner {owner}"));
        PostgresDatabase { name, ..self.own_database() }
    }

    /// The database of this name, which exists.
    pub fn database_named(&self, name: &str) -> PostgresDatabase {
        PostgresDatabase { name: name.to_owned(), ..self.own_database() }
    }

    /// What psql answers as the superuser in the database `postgres`.
    #[track_caller]
    pub fn psql(&self, sql: &str) -> String {
        self.own_database().psql(sql)
    }

    /// The database `postgres`, as the superuser.
    fn own_database(&self) -> PostgresDatabase {
        PostgresDatabase {
            name: "postgres".to_owned(),
            socket: (self.path().display().to_string(), self.port()),
            port: self.port(),
            login: "postgres".to_owned(),
        }
    }
}

impl PostgresDatabase {
    /// `postgres://postgres@127.0.0.1:PORT/NAME`, with the login that was set.
    pub fn url(&self) -> String {
        self.url_at("127.0.0.1")
    }

    /// The same with another name of the host, such as `localhost`.
    pub fn url_at(&self, host: &str) -> String {
        format!("postgres://{}@{host}:{}/{}", self.login, self.port, self.name)
    }

    /// `postgres://postgres@%2Ftmp%2F…:PORT/NAME`: through the server's socket.
    pub fn socket_url(&self) -> String {
        self.url_at(&self.socket.0.replace('/', "%2F"))
    }

    /// The same database for `USER` or `USER:PASSWORD`, percent-encoded where need be. It is for the URL only.
    pub fn login(&self, login: &str) -> Self {
        Self { login: login.to_owned(), ..self.clone() }
    }

    /// The same database at another port, such as PgBouncer's. It is for the URL only.
    pub fn at_port(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }

    /// What psql answers as the superuser, through the socket: rows as lines, columns with `|` between them.
    #[track_caller]
    pub fn psql(&self, sql: &str) -> String {
        self.try_psql(sql).unwrap_or_else(|complaint| panic!("{complaint}"))
    }

    /// Like `psql`; what it complains of if it fails.
    pub fn try_psql(&self, sql: &str) -> Result<String, String> {
        self.try_psql_as("postgres", sql)
    }

    /// Like `try_psql`, as another user, without a password, since the socket is trusted.
    pub fn try_psql_as(&self, user: &str, sql: &str) -> Result<String, String> {
        let (directory, port) = &self.socket;
        let mut client = program::command("psql");
        client.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", directory, "-p", &port.to_string()]);
        program::output(client.args(["-U", user, "-d", &self.name, "-c", sql]))
    }
}

/// Prepares the data and says how the server is started.
fn plan(directory: &Directory, port: u16, settings: &[&str]) -> Plan {
    static TEMPLATE: OnceLock<Directory> = OnceLock::new();
    let template = TEMPLATE.get_or_init(|| {
        let template = Directory::new();
        let data = template.file("data");
        let access = ["-U", "postgres", "-A", "trust"];
        let cheap = ["--no-sync", "--no-instructions", "--locale=C", "-E", "UTF8", "--wal-segsize=1"];
        template.run("initdb", &[&["-D", &data], access.as_slice(), &cheap].concat());
        template
    });
    directory.run("cp", &["-a", &template.file("data"), "."]);
    let (socket, port) = (directory.path().display().to_string(), port.to_string());
    let always = [
        "listen_addresses=127.0.0.1",
        &format!("port={port}"),
        &format!("unix_socket_directories={socket}"),
        "max_connections=300",
        "shared_buffers=16MB",
        // Nothing in /dev/shm that a killed server would leave there.
        "dynamic_shared_memory_type=mmap",
        "fsync=off",
        "timezone=UTC",
        "log_connections=on",
        // The database, so that a test finds its own lines.
        "log_line_prefix=%m [%p] %q[%u@%d] ",
    ];
    let settings = always.iter().chain(settings).flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]);
    let start = ["postgres".to_owned(), "-D".to_owned(), directory.file("data")].into_iter().chain(settings).collect();
    let ask = ["psql", "-X", "-h", &socket, "-p", &port, "-U", "postgres", "-c", "select 1"];
    // SIGINT is what PostgreSQL calls a fast shutdown: it does not wait for its clients.
    Plan { start, ask: ask.map(str::to_owned).into(), stop: Signal::SIGINT }
}

impl Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
