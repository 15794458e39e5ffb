//! Reaching a PostgreSQL server: what libpq's users write in a URL and in the environment, and the hosts in their order.

use std::path::Path;
use std::time::Duration;

use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::super::network::{self, Authority, Bound, Host, Hosts};
use super::super::probe::{self, Distance, Tell};
use super::super::tls::{Mode, Tls};
use super::super::{Access, BackendError, ErrorClass, Url};
use super::errors;
use super::passfile::{self, Found, Login};
use super::session::{Failure, Session};
use crate::system::Moment;

const PORT: u16 = 5432;
/// Where Debian's server and PostgreSQL's own default have their sockets.
const SOCKETS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
/// No try is given less than this.
const SHORTEST: Duration = Duration::from_secs(1);
/// PgBouncer's database about itself.
const CONSOLE: &str = "pgbouncer";

/// The servers of a URL and how to log in.
pub(super) struct Servers {
    pub(super) hosts: Hosts,
    config: Config,
    /// The longest that one of them may take to let us in.
    patience: Duration,
    /// Names the user who logs in.
    pub(super) user: String,
    database: String,
    password: Option<String>,
    pub(super) tls: Tls,
    /// How the server is named in messages.
    pub(super) label: String,
}

impl Servers {
    pub(super) fn of_url(url: &Url, access: &Access) -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Authority { user, password, mut hosts, path } = Authority::parse(url)?;
        let named = hosts.clone();
        if let Some(list) = url.take("host").or_else(|| variable("PGHOST").filter(|_| hosts.is_empty())) {
            // The parameter wins, as it does with libpq; a port that stands alone before it stays.
            hosts = list
                .split(',')
                .map(|name| Ok(Host { name: name.to_owned(), port: None }))
                .collect::<Result<_, String>>()?;
        }
        let ports =
            url.take("port").or_else(|| variable("PGPORT").filter(|_| named.iter().all(|host| host.port.is_none())));
        if hosts.is_empty() {
            hosts.push(Host { name: local_socket(), port: None });
        }
        set_ports(&mut hosts, ports.as_deref())?;
        let tls = Tls::take(url, |key| variable(&format!("PG{}", key.to_ascii_uppercase())), Mode::Prefer)?;
        let user = user.or_else(|| url.take("user")).or_else(|| variable("PGUSER")).or_else(crate::system::user::name);
        let user = user.ok_or("names no user, and this one has no name; write postgres://USER@HOST/DATABASE")?;
        let path = Some(path).filter(|path| !path.is_empty());
        let database = path.or_else(|| url.take("dbname")).or_else(|| variable("PGDATABASE"));
        let mut config = Config::new();
        let share = access.patience / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let patience = match url.take("connect_timeout") {
            None => share.max(SHORTEST),
            Some(secs) => Duration::from_secs(number("connect_timeout", &secs)?).max(SHORTEST),
        };
        config.tcp_user_timeout(patience);
        // A server that is gone without a word, with its machine, is noticed while it owes an answer.
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
            // A lock can only be taken where one can write, and who cannot is passed over anyway.
            None | Some("any" | "read-write" | "primary") => {}
            Some(other) => {
                return Err(format!("has target_session_attrs={other}; a lock needs read-write, primary or any"));
            }
        }
        let password = password.or_else(|| url.take("password")).or_else(|| access.password.clone());
        let database = database.unwrap_or_else(|| user.clone());
        config.user(&user).dbname(&database);
        let label = format!("backend {}://{}/{database}", url.scheme(), network::list(&named));
        Ok(Self {
            hosts: Hosts::new(hosts, access.patience),
            config,
            patience,
            user,
            database,
            password: password.or_else(|| variable("PGPASSWORD")),
            tls,
            label,
        })
    }

    /// The parameters of the URL that are understood here.
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

    /// Connects to the first host that lets us in.
    pub(super) fn connect(&mut self) -> Result<Session, BackendError> {
        let bound = self.hosts.attempts.begin(Moment::now());
        let answer = self.hosts.try_each(&self.label, |host| self.connect_to(host, &self.config, bound));
        self.hosts.tried(bound, answer)
    }

    /// Connects to what a pooler calls its own database; a server has none of this name.
    pub(super) fn connect_to_console(&mut self) -> Result<Session, BackendError> {
        let mut config = self.config.clone();
        config.dbname(CONSOLE);
        let bound = self.hosts.attempts.begin(Moment::now());
        let answer = self.hosts.try_each(&self.label, |host| self.connect_to(host, &config, bound));
        self.hosts.tried(bound, answer)
    }

    /// Tells which hosts can be reached.
    pub(super) fn look(&self, tell: Tell<'_>) -> Distance {
        let socket = |host: &Host| Path::new(&host.name).join(format!(".s.PGSQL.{}", host.port.unwrap_or(PORT)));
        probe::hosts(&self.hosts.all, PORT, self.patience, socket, tell)
    }

    fn connect_to(&self, host: &Host, config: &Config, bound: Bound) -> Result<Session, BackendError> {
        let mut config = config.clone();
        let port = host.port.unwrap_or(PORT);
        config.port(port);
        let mut open = None;
        match &self.password {
            Some(password) => _ = config.password(password),
            None => match passfile::find(std::env::var_os("PGPASSFILE").map(Into::into), &self.login(&host.name, port))
            {
                Found::Password(password) => _ = config.password(password),
                Found::Open(path) => open = Some(path),
                Found::Nothing => {}
            },
        }
        let explain = |failure: &Failure| {
            let error = errors::of_connecting(&self.label, &self.user, failure);
            match &open {
                Some(path) if error.class == ErrorClass::Permanent => {
                    error.hint(format!("{0} is not used because others can read it; chmod 0600 {0}", path.display()))
                }
                _ => error,
            }
        };
        if host.is_path() {
            config.host_path(Path::new(&host.name)).ssl_mode(SslMode::Disable);
            let limit = bound.each(self.hosts.count()).min(self.patience);
            return Session::open(&mut config, NoTls, limit).map_err(|failure| explain(&failure));
        }
        let addresses = host.addresses(PORT).map_err(|error| error.of(&self.label))?;
        let mut met = None;
        let limit = bound.each(self.hosts.count() * addresses.len()).min(self.patience);
        for address in addresses {
            let mut config = config.clone();
            config.host(&host.name).hostaddr(address.ip());
            match self.negotiate(&mut config, limit, &explain)? {
                Ok(session) => return Ok(session),
                Err(error) if error.class == ErrorClass::Permanent => return Err(error),
                Err(error) => met = Some(error),
            }
        }
        Err(met.unwrap_or_else(|| BackendError::transient(format!("{}: the host has no address", self.label))))
    }

    /// Connects with as much of TLS as is wanted. `allow` and `prefer` have two ways, and take the second one where the first
    /// one is barred, as libpq does. The outer error is our own: a file that cannot be read.
    fn negotiate(
        &self,
        config: &mut Config,
        limit: Duration,
        explain: &impl Fn(&Failure) -> BackendError,
    ) -> Result<Result<Session, BackendError>, BackendError> {
        let plain = |config: &mut Config| Session::open(config.ssl_mode(SslMode::Disable), NoTls, limit);
        let secure = |config: &mut Config, mode: SslMode| -> Result<_, BackendError> {
            let tls = MakeRustlsConnect::new(self.tls.config().map_err(|error| error.of(&self.label))?);
            Ok(Session::open(config.ssl_mode(mode), tls, limit))
        };
        let first = match self.tls.mode {
            Mode::Disable | Mode::Allow => plain(config),
            Mode::Prefer => secure(config, SslMode::Prefer)?,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => secure(config, SslMode::Require)?,
        };
        let answer = match (first, self.tls.mode) {
            (Err(failure), Mode::Allow) if errors::wants_other_encryption(&failure) => {
                secure(config, SslMode::Require)?
            }
            (Err(failure), Mode::Prefer) if errors::is_of_tls(&failure) || errors::wants_other_encryption(&failure) => {
                plain(config)
            }
            (answer, _) => answer,
        };
        Ok(answer.map_err(|failure| explain(&failure)))
    }

    fn login<'a>(&'a self, host: &'a str, port: u16) -> Login<'a> {
        Login { host, port, database: &self.database, user: &self.user }
    }
}

/// Gives each host its port: one for all, or one each.
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

/// The directory of the socket when no host is named.
fn local_socket() -> String {
    let has_socket = |directory: &&&str| Path::new(directory).join(format!(".s.PGSQL.{PORT}")).exists();
    SOCKETS.iter().find(has_socket).unwrap_or(&SOCKETS[0]).to_string()
}

fn number<T: std::str::FromStr>(key: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("has {key}={text}, which is no number that fits"))
}
