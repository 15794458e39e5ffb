//! Connects to a PostgreSQL server: reads libpq's URL and environment variables, and tries the hosts in order.

use std::path::Path;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::errors;
use super::failure::Failure;
use super::passfile::{self, Found};
use super::session::{Server, Session};
use super::socket::Address;
use crate::backend::net::hosts::{Bound, Hosts, first_of};
use crate::backend::net::network::{self, Authority, Host};
use crate::backend::net::tls::{Mode, Tls};
use crate::backend::{Access, Credentials, Detour, Url};
use crate::lock::{BackendError, ErrorClass};

pub(crate) const PORT: u16 = 5432;
/// Socket directories of Debian's server and of PostgreSQL's own default.
const SOCKETS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
/// Minimum time limit of an attempt to connect.
const MIN_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// PgBouncer's database about itself, its console.
const CONSOLE_DATABASE: &str = "pgbouncer";

/// Holds the servers of a URL and the login to them.
pub(crate) struct Servers {
    pub(crate) hosts: Hosts,
    pub(crate) login: Login,
    /// Name of the servers in messages.
    pub(crate) label: String,
}

/// Parameters of the login, the same for each of the servers.
pub(crate) struct Login {
    config: Config,
    /// Maximum time for a server to accept the login.
    pub(crate) timeout: Duration,
    /// Name of the user.
    pub(crate) user: String,
    database: String,
    password: Option<String>,
    pub(crate) tls: Tls,
    detour: Detour,
}

impl Servers {
    /// Checks the URL, and adds what libpq's variables say.
    pub(crate) fn from_url(url: &Url, access: &Access) -> Result<Self, String> {
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
        let other = |key: &str| variable(&format!("PG{}", key.to_ascii_uppercase()));
        let tls = Tls::take(url, other, Mode::Prefer, access.timeout)?;
        let user = user.or_else(|| url.take("user")).or_else(|| variable("PGUSER")).or_else(crate::system::user::name);
        let user =
            user.ok_or("names no user, and the current user has no name; write postgres://USER@HOST/DATABASE")?;
        let path = Some(path).filter(|path| !path.is_empty());
        let database = path.or_else(|| url.take("dbname")).or_else(|| variable("PGDATABASE"));
        let mut config = Config::new();
        let share = access.timeout / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let timeout = match url.take("connect_timeout") {
            None => share.max(MIN_CONNECT_TIMEOUT),
            Some(secs) => Duration::from_secs(number("connect_timeout", &secs)?).max(MIN_CONNECT_TIMEOUT),
        };
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
            // A lock can only be acquired in a session that can write; read-only servers are skipped anyway.
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
        let login = Login { config, timeout, user, database, password, tls, detour: access.detour.clone() };
        Ok(Self { hosts: Hosts::new(hosts, access.timeout).noting(&access.contact), login, label })
    }

    /// Parameters of the URL that this backend understands.
    pub(crate) const PARAMETERS: [&str; 10] = [
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
    pub(crate) fn connect(&mut self) -> Result<Session, BackendError> {
        let Self { hosts, login, .. } = self;
        hosts.connect(|host, bound| login.connect_to(host, &login.config, bound))
    }

    /// Connects to a pooler's console. A server has no database of this name.
    pub(crate) fn connect_to_console(&mut self) -> Result<Session, BackendError> {
        let Self { hosts, login, .. } = self;
        let mut config = login.config.clone();
        config.dbname(CONSOLE_DATABASE);
        hosts.connect(|host, bound| login.connect_to(host, &config, bound))
    }
}

impl Login {
    /// Uses another user and password; returns false where the database is named after the user.
    pub(crate) fn replace(&mut self, new: &Credentials) -> bool {
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
        let mut ignored = None;
        if let Some(password) = &self.password {
            config.password(password);
        } else {
            let wanted = passfile::Login { host: &host.name, port, database: &self.database, user: &self.user };
            match passfile::find(std::env::var_os("PGPASSFILE").map(Into::into), &wanted) {
                Found::Password(password) => _ = config.password(password),
                Found::Ignored(hint) => ignored = Some(hint),
                Found::Nothing => {}
            }
        }
        let explain = |failure: Failure| match (errors::explain_connecting(&self.user, &failure), &ignored) {
            (error, Some(hint)) if error.class == ErrorClass::Permanent && !matches!(failure, Failure::Backend(_)) => {
                error.hint(hint)
            }
            (error, _) => error,
        };
        if host.is_path() {
            let address = Address::Unix(Path::new(&host.name).join(format!(".s.PGSQL.{port}")));
            config.ssl_mode(SslMode::Disable);
            return Session::open(&config, &self.server(address, host), bound.each(1).min(self.timeout))
                .map_err(explain);
        }
        let addresses = host.addresses(PORT)?;
        let limit = bound.each(addresses.len()).min(self.timeout);
        first_of(addresses, |address| {
            self.negotiate(&mut config.clone(), &self.server(Address::Tcp(address), host), limit).map_err(explain)
        })
    }

    /// Connects with as much TLS as the mode wants. `allow` and `prefer` have two ways, and take the second one where
    /// the first one is barred, as libpq does.
    fn negotiate(&self, config: &mut Config, server: &Server, limit: Duration) -> Result<Session, Failure> {
        let plain = |config: &mut Config| Session::open(config.ssl_mode(SslMode::Disable), server, limit);
        let secure = |config: &mut Config, mode: SslMode| {
            let server = Server { tls: Some(MakeRustlsConnect::new(self.tls.config()?)), ..server.clone() };
            Session::open(config.ssl_mode(mode), &server, limit)
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

    /// Returns a server without TLS.
    fn server(&self, address: Address, host: &Host) -> Server {
        Server { address, name: host.name.clone(), tls: None, timeout: self.timeout, detour: self.detour.clone() }
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
