//! MariaDB, or in its place the MySQL server that `TESTS_MYSQLD` names.

use std::fs::{self, Permissions};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;

use nix::sys::signal::Signal;

use super::certificates::certificates;
use super::directory::Directory;
use super::program;
use super::server::{Plan, Server};

/// A server whose `root` has no password.
pub struct MariaDb {
    server: Server,
}

/// A database of a server, and who works in it.
#[derive(Debug, Clone)]
pub struct MariaDbDatabase {
    pub name: String,
    port: u16,
    /// The server's socket.
    socket: String,
    /// User, and password if there is one, as they stand in the URL.
    login: String,
}

const USERS: &str = "
create user clerk@'127.0.0.1' identified by 's3cret' require ssl;
create user jobs@'127.0.0.1' require x509;
grant all on *.* to clerk@'127.0.0.1';
grant all on *.* to jobs@'127.0.0.1';
";

const ROOT: &str = "create user root@'127.0.0.1'; grant all on *.* to root@'127.0.0.1' with grant option;";

/// Arguments that `mariadb-install-db` and the server have to agree on. They keep the data small, and do without what a
/// file system in memory may not offer.
const DATA: [&str; 3] = ["--no-defaults", "--innodb-flush-method=fsync", "--innodb-use-native-aio=0"];

impl MariaDb {
    /// A server of a test's own. Arguments are such as `--max-connections=20`.
    pub fn fresh(arguments: &[&str]) -> Self {
        Self { server: Server::new(|directory, port| plan(directory, port, arguments)) }
    }

    /// A server that is MariaDB in any case, with a script of this name in its PATH. It can be used once it reads a table, which
    /// a node that has not joined its cluster does not.
    pub(crate) fn of_mariadb((name, script): (&str, &str), arguments: &[&str]) -> Self {
        let plan = |directory: &Directory, port| {
            let mut plan = plan_of(None, directory, port, arguments);
            fs::write(directory.file(name), script).unwrap();
            fs::set_permissions(directory.file(name), Permissions::from_mode(0o755)).unwrap();
            plan.start[0] = program::find(&plan.start[0]).display().to_string();
            let path = format!("PATH={}:{}", directory.path().display(), std::env::var("PATH").unwrap_or_default());
            plan.start.splice(0..0, ["env".to_owned(), path]);
            plan.ask.pop();
            plan.ask.push("select count(*) from mysql.user".to_owned());
            plan
        };
        Self { server: Server::new(plan) }
    }

    /// A server whose clock is off by so much, such as `-1h`.
    pub fn with_clock(offset: &str) -> Self {
        Self { server: Server::new(|directory, port| plan(directory, port, &[]).with_clock(offset)) }
    }

    /// A server whose clock began at this time, such as `2037-01-01 12:00:00`, and a day has as many seconds there as here.
    pub fn started_at(time: &str, arguments: &[&str]) -> Self {
        let clock = format!("@{time}");
        Self { server: Server::new(|directory, port| plan(directory, port, arguments).with_clock(&clock)) }
    }

    /// A server whose clock can be moved, with `set_clock`.
    pub fn with_moving_clock() -> Self {
        Self { server: Server::new(|directory, port| plan(directory, port, &[]).with_moving_clock(directory)) }
    }

    /// A server whose system is in a time zone, as the variable TZ has it, and which goes by that.
    pub fn in_zone(zone: &str) -> Self {
        let in_zone = |mut plan: Plan| {
            plan.start[0] = program::find(&plan.start[0]).display().to_string();
            plan.start.splice(0..0, ["env".to_owned(), format!("TZ={zone}")]);
            plan
        };
        Self { server: Server::new(|directory, port| in_zone(plan(directory, port, &["--default-time-zone=SYSTEM"]))) }
    }

    /// A server with TLS. `root` may do without it; `clerk` with the password `s3cret` may not, and `jobs` needs the
    /// client certificate.
    pub fn fresh_with_tls(arguments: &[&str]) -> Self {
        let certificates = certificates();
        let tls = [
            &format!("--ssl-cert={}", certificates.server()),
            &format!("--ssl-key={}", certificates.server_key()),
            &format!("--ssl-ca={}", certificates.authority()),
        ];
        let server = Self::fresh(&[&tls.map(String::as_str), arguments].concat());
        server.mariadb(USERS);
        server
    }

    /// A new, empty database.
    pub fn database(&self) -> MariaDbDatabase {
        let name = program::unique("test");
        self.mariadb(&format!("create database {name}"));
        MariaDbDatabase { name, ..self.own_database() }
    }

    /// What the client answers as root in the database `mysql`.
    #[track_caller]
    pub fn mariadb(&self, sql: &str) -> String {
        self.own_database().mariadb(sql)
    }

    /// The database `mysql`, as root.
    fn own_database(&self) -> MariaDbDatabase {
        MariaDbDatabase {
            name: "mysql".to_owned(),
            port: self.port(),
            socket: self.directory().file("socket"),
            login: "root".to_owned(),
        }
    }
}

impl MariaDbDatabase {
    /// `mysql://root@127.0.0.1:PORT/NAME`, with the login that was set.
    pub fn url(&self) -> String {
        self.url_at("127.0.0.1")
    }

    /// The same with another name of the host, such as `localhost`.
    pub fn url_at(&self, host: &str) -> String {
        format!("mysql://{}@{host}:{}/{}", self.login, self.port, self.name)
    }

    /// The server's socket.
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// The same database for `USER` or `USER:PASSWORD`, percent-encoded where need be. It is for the URL only. The server
    /// knows users by address and resolves no names: create them as `name@'127.0.0.1'`.
    pub fn login(&self, login: &str) -> Self {
        Self { login: login.to_owned(), ..self.clone() }
    }

    /// What the client answers as root, through the socket: rows as lines, columns with a tab between them.
    #[track_caller]
    pub fn mariadb(&self, sql: &str) -> String {
        self.try_mariadb(sql).unwrap_or_else(|complaint| panic!("{complaint}"))
    }

    /// A table of the numbers from 1 to `count` in its column `seq`, in order. MySQL has none of its own.
    pub fn numbers(count: u64) -> String {
        let digit = (1..10).fold("SELECT 0 AS n".to_owned(), |all, digit| format!("{all} UNION ALL SELECT {digit}"));
        let places: Vec<_> = (0..5).map(|place| format!("({digit}) AS d{place}")).collect();
        format!(
            "(SELECT * FROM (SELECT 1 + d0.n + 10 * d1.n + 100 * d2.n + 1000 * d3.n + 10000 * d4.n AS seq FROM {}) AS every \
             WHERE seq <= {count} ORDER BY seq) AS numbers",
            places.join(", ")
        )
    }

    /// Like `mariadb`; what it complains of if it fails.
    pub fn try_mariadb(&self, sql: &str) -> Result<String, String> {
        let mut client = program::command("mariadb");
        client.args(["--no-defaults", "-N", "-B", "--socket", &self.socket, "-u", "root"]);
        program::output(client.args(["-D", &self.name, "-e", sql]))
    }
}

/// Prepares the data and says how the server is started.
fn plan(directory: &Directory, port: u16, arguments: &[&str]) -> Plan {
    plan_of(program::instead("TESTS_MYSQLD").as_deref(), directory, port, arguments)
}

/// The same of this MySQL server, or of MariaDB.
fn plan_of(mysqld: Option<&str>, directory: &Directory, port: u16, arguments: &[&str]) -> Plan {
    static TEMPLATES: [OnceLock<Directory>; 2] = [const { OnceLock::new() }; 2];
    let log_size = if mysqld.is_some() { "--innodb-redo-log-capacity=8M" } else { "--innodb-log-file-size=4M" };
    let template = TEMPLATES[usize::from(mysqld.is_some())].get_or_init(|| {
        let template = Directory::new();
        let data = format!("--datadir={}", template.file("data"));
        let tmpdir = format!("--tmpdir={}", template.path().display());
        // MySQL knows root only by the name localhost, and resolves no names here.
        fs::write(template.file("root.sql"), ROOT).unwrap();
        let root = format!("--init-file={}", template.file("root.sql"));
        let (program, install): (&str, &[&str]) = match &mysqld {
            Some(mysqld) => (mysqld, &["--user=root", "--initialize-insecure", &root]),
            None => (
                "mariadb-install-db",
                &["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", log_size],
            ),
        };
        template.run(program, &[DATA.as_slice(), &[&data, &tmpdir], install].concat());
        template
    });
    // What has a path runs as root, if we are root.
    directory.run(if mysqld.is_some() { "/bin/cp" } else { "cp" }, &["-a", &template.file("data"), "."]);
    // MySQL's identity, which each server has of its own.
    let _ = fs::remove_file(format!("{}/auto.cnf", directory.file("data")));
    let socket = directory.file("socket");
    let always = [
        format!("--datadir={}", directory.file("data")),
        // A server that starts deletes what it takes for leftovers in there: others' tables, if it were shared.
        format!("--tmpdir={}", directory.path().display()),
        format!("--port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--socket={socket}"),
        format!("--pid-file={}", directory.file("pid")),
        "--max-connections=300".to_owned(),
        log_size.to_owned(),
        "--default-time-zone=+00:00".to_owned(),
        "--innodb-flush-log-at-trx-commit=0".to_owned(),
        "--innodb-buffer-pool-size=16M".to_owned(),
        "--innodb-doublewrite=0".to_owned(),
        "--performance-schema=0".to_owned(),
        "--skip-name-resolve".to_owned(),
        "--skip-log-bin".to_owned(),
    ];
    let program = [mysqld.unwrap_or("mariadbd")].into_iter().chain(DATA).map(str::to_owned);
    let root = mysqld.iter().map(|_| "--user=root".to_owned());
    let start =
        program.chain(root).chain(always).chain(arguments.iter().map(|argument| (*argument).to_owned())).collect();
    let ask = ["mariadb", "--no-defaults", "--socket", &socket, "-u", "root", "-e", "select 1"];
    Plan { start, ask: ask.map(str::to_owned).into(), stop: Signal::SIGTERM }
}

impl Deref for MariaDb {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
