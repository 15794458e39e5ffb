//! Connects to a PostgreSQL server: reads libpq's URL and environment variables, and tries the hosts in order.

use std::path::Path;
use std::time::Duration;

use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::super::hosts::{Bound, Hosts, first_of};
use super::super::network::{self, Authority, Host};
use super::super::tls::{Mode, Tls};
use super::super::{Access, BackendError, Credentials, ErrorClass, Url};
use super::errors;
use super::passfile::{self, Found};
use super::session::{Failure, Session};

pub(super) const PORT: u16 = 5432;
/// Socket directories of Debian's server and of PostgreSQL's own default.
const SOCKETS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
/// Minimum time limit of an attempt to connect.
const SHORTEST: Duration = Duration::from_secs(1);
/// PgBouncer's database about itself, its console.
const CONSOLE: &str = "pgbouncer";

/// The servers of a URL and the login to them.
pub(super) struct Servers {
    pub(super) hosts: Hosts,
    pub(super) login: Login,
    /// Name of the servers in messages.
    pub(super) label: String,
}

/// Parameters of the login, the same for each of the servers.
pub(super) struct Login {
    config: Config,
    /// Maximum time for a server to accept the login.
    pub(super) patience: Duration,
    /// Name of the user who logs in.
    pub(super) user: String,
    database: String,
    password: Option<String>,
    pub(super) tls: Tls,
}

impl Servers {
    pub(super) fn of_url(url: &Url, access: &Access) -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Authority { user, password, mut hosts, path } = Authority::parse(url)?;
        let named = hosts.clone();
        if let Some(list) = url.take("host").or_else(|| variable("PGHOST").filter(|_| hosts.is_empty())) {
            // As with libpq, the parameter replaces the hosts of the URL, and their ports stay.
            let names: Vec<&str> = list.split(',').collect();
            if named.len() > 1 && named.len() != names.len() {
                return Err(format!("names {} hosts, and {} in its parameter `host`", named.len(), names.len()));
            }
            let port = |at: usize| named.get(at).or(named.first()).and_then(|host| host.port);
            let names = names.iter().enumerate();
            hosts = names.map(|(at, name)| Host { name: (*name).to_owned(), port: port(at) }).collect();
        }
        let ports =
            url.take("port").or_else(|| variable("PGPORT").filter(|_| named.iter().all(|host| host.port.is_none())));
        if hosts.is_empty() {
            hosts.push(Host { name: local_socket(), port: None });
        }
        set_ports(&mut hosts, ports.as_deref())?;
        let tls = Tls::take(url, |key| variable(&format!("PG{}", key.to_ascii_uppercase())), Mode::Prefer)?;
        let user = user.or_else(|| url.take("user")).or_else(|| variable("PGUSER")).or_else(crate::system::user::name);
        let user =
            user.ok_or("names no user, and the current user has no name; write postgres://USER@HOST/DATABASE")?;
        let path = Some(path).filter(|path| !path.is_empty());
        let database = path.or_else(|| url.take("dbname")).or_else(|| variable("PGDATABASE"));
        let mut config = Config::new();
        let share = access.patience / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let patience = match url.take("connect_timeout") {
            None => share.max(SHORTEST),
            Some(secs) => Duration::from_secs(number("connect_timeout", &secs)?).max(SHORTEST),
        };
        config.tcp_user_timeout(patience);
        // Keepalives find a server that vanished with its machine while it owes an answer.
        config.keepalives_idle(patience).keepalives_interval(SHORTEST).keepalives_retries(3);
        config.application_name(url.take("application_name").unwrap_or_else(|| "shedlock".to_owned()));
        if let Some(options) = url.take("options").or_else(|| variable("PGOPTIONS")) {
            config.options(&options);
        }
        match url.take("channel_binding").as_deref() {
            None | Some("prefer") => {}
            Some("disable") => _ = config.channel_binding(ChannelBinding::Disable),
            Some("require") => _ = config.channel_binding(ChannelBinding::Require),
            Some(other) => return Err(format!("has channel_binding={other}; known are disable, prefer, require")),
        }
        match url.take("target_session_attrs").as_deref() {
            // A lock can only be taken in a session that can write; read-only servers are skipped anyway.
            None | Some("any" | "read-write" | "primary") => {}
            Some(other) => {
                return Err(format!("has target_session_attrs={other}; a lock needs read-write, primary or any"));
            }
        }
        let password = password.or_else(|| url.take("password")).or_else(|| access.password.clone());
        let database = database.unwrap_or_else(|| user.clone());
        config.user(&user).dbname(&database);
        let label = format!("backend {}://{}/{database}", url.scheme(), network::list(&named));
        let password = password.or_else(|| variable("PGPASSWORD"));
        let login = Login { config, patience, user, database, password, tls };
        Ok(Self { hosts: Hosts::new(hosts, access.patience), login, label })
    }

    /// Parameters of the URL that this backend understands.
    pub(super) const PARAMETERS: [&str; 10] = [
        "host",
        "port",
        "user",
        "password",
        "dbname",
        "connect_timeout",
        "application_name",
        "options",
        "channel_binding",
        "target_session_attrs",
    ];

    /// Connects to the first host that accepts the login.
    pub(super) fn connect(&mut self) -> Result<Session, BackendError> {
        let Self { hosts, login, .. } = self;
        hosts.connect(|host, bound| login.connect_to(host, &login.config, bound))
    }

    /// Connects to a pooler's console. A server has no database of this name.
    pub(super) fn connect_to_console(&mut self) -> Result<Session, BackendError> {
        let Self { hosts, login, .. } = self;
        let mut config = login.config.clone();
        config.dbname(CONSOLE);
        hosts.connect(|host, bound| login.connect_to(host, &config, bound))
    }
}

impl Login {
    /// Uses another user and password; returns false where the database is named after the user.
    pub(super) fn replace(&mut self, new: &Credentials) -> bool {
        if let Some(user) = new.user.as_ref().filter(|user| **user != self.user) {
            if self.database == self.user {
                return false;
            }
            self.config.user(user);
            self.user.clone_from(user);
        }
        self.password = Some(new.password.clone());
        true
    }

    fn connect_to(&self, host: &Host, config: &Config, bound: Bound) -> Result<Session, BackendError> {
        let mut config = config.clone();
        let port = host.port.unwrap_or(PORT);
        config.port(port);
        let mut open = None;
        if let Some(password) = &self.password {
            config.password(password);
        } else {
            let wanted = passfile::Login { host: &host.name, port, database: &self.database, user: &self.user };
            match passfile::find(std::env::var_os("PGPASSFILE").map(Into::into), &wanted) {
                Found::Password(password) => _ = config.password(password),
                Found::Open(path) => open = Some(path),
                Found::Nothing => {}
            }
        }
        let explain = |failure: Failure| match (errors::of_connecting(&self.user, &failure), &open) {
            (error, Some(path)) if error.class == ErrorClass::Permanent && !matches!(failure, Failure::Ours(_)) => {
                error.hint(format!("{0} is ignored because other users can read it; chmod 0600 {0}", path.display()))
            }
            (error, _) => error,
        };
        if host.is_path() {
            config.host_path(Path::new(&host.name)).ssl_mode(SslMode::Disable);
            return Session::open(&mut config, NoTls, bound.each(1).min(self.patience)).map_err(explain);
        }
        let addresses = host.addresses(PORT)?;
        let limit = bound.each(addresses.len()).min(self.patience);
        first_of(addresses, |address| {
            let mut config = config.clone();
            config.host(&host.name).hostaddr(address.ip());
            self.negotiate(&mut config, limit).map_err(explain)
        })
    }

    /// Connects with as much TLS as the mode wants. `allow` and `prefer` have two ways, and take the second one where
    /// the first one is barred, as libpq does.
    fn negotiate(&self, config: &mut Config, limit: Duration) -> Result<Session, Failure> {
        let plain = |config: &mut Config| Session::open(config.ssl_mode(SslMode::Disable), NoTls, limit);
        let secure = |config: &mut Config, mode: SslMode| {
            Session::open(config.ssl_mode(mode), MakeRustlsConnect::new(self.tls.config()?), limit)
        };
        let first = match self.tls.mode {
            Mode::Disable | Mode::Allow => plain(config),
            Mode::Prefer => secure(config, SslMode::Prefer),
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => secure(config, SslMode::Require),
        };
        match (first, self.tls.mode) {
            (Err(failure), Mode::Allow) if errors::wants_other_encryption(&failure) => secure(config, SslMode::Require),
            (Err(failure), Mode::Prefer) if errors::is_of_tls(&failure) || errors::wants_other_encryption(&failure) => {
                plain(config)
            }
            (answer, _) => answer,
        }
    }
}

/// Sets the port of each host: one port for all, or one each.
fn set_ports(hosts: &mut [Host], ports: Option<&str>) -> Result<(), String> {
    let Some(ports) = ports else { return Ok(()) };
    let ports: Vec<u16> = ports.split(',').map(|port| number("port", port)).collect::<Result<_, _>>()?;
    if ports.len() != 1 && ports.len() != hosts.len() {
        return Err(format!("has {} ports for {} hosts", ports.len(), hosts.len()));
    }
    for (host, port) in hosts.iter_mut().zip(ports.iter().cycle()) {
        host.port = Some(*port);
    }
    Ok(())
}

/// Returns the directory of the socket when no host is named.
fn local_socket() -> String {
    let has_socket = |directory: &&&str| Path::new(directory).join(format!(".s.PGSQL.{PORT}")).exists();
    SOCKETS.iter().find(has_socket).unwrap_or(&SOCKETS[0]).to_string()
}

fn number<T: std::str::FromStr>(key: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("has {key}={text}, which is not a valid number"))
}
