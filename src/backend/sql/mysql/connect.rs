//! Connects to a MySQL or MariaDB server: reads the URL, and tries the hosts in order.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::errors;
use super::link::{Link, Opening};
use crate::backend::net::hosts::{Bound, Hosts, first_of};
use crate::backend::net::network::{self, Authority, Host};
use crate::backend::net::stream::Stream;
use crate::backend::net::tls::{Checks, Mode, Tls};
use crate::backend::{Access, Credentials, Detour, Url};
use crate::lock::BackendError;

pub(crate) const PORT: u16 = 3306;
/// Sockets of Debian's server and of MySQL's own default.
const SOCKETS: [&str; 2] = ["/run/mysqld/mysqld.sock", "/tmp/mysql.sock"];
/// Minimum time limit of a statement.
const MIN_STATEMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum wait for a row that another session is writing, before the next attempt. A run that gives up waits at least
/// this long for the answer to its last request: a request that no client waits for would acquire the lock for no one.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(1);

/// Holds the servers of a URL and the login to them.
pub(crate) struct Servers {
    pub(crate) hosts: Hosts,
    pub(crate) login: Login,
    /// Name of the servers in messages.
    pub(crate) label: String,
}

/// Parameters of the login, the same for each of the servers.
pub(crate) struct Login {
    /// Name of the user.
    pub(crate) user: String,
    password: String,
    /// The database that statements are about; empty if the table's name says it.
    database: String,
    pub(crate) tls: Tls,
    /// Time limit for one server to answer a statement.
    pub(crate) share: Duration,
    detour: Detour,
}

impl Servers {
    /// Parameters of the URL that this backend understands.
    pub(crate) const PARAMETERS: [&str; 1] = ["socket"];

    /// Checks the URL. It must name a database unless the table's name does.
    pub(crate) fn from_url(url: &Url, access: &Access, table_has_database: bool) -> Result<Self, String> {
        let Authority { user, password, mut hosts, path } = Authority::parse(url)?;
        if path.is_empty() && !table_has_database {
            return Err(format!("names no database; write {}://HOST/DATABASE", url.scheme()));
        }
        let label = format!("backend {}://{}/{path}", url.scheme(), network::list(&hosts));
        if let Some(socket) = url.take("socket") {
            if !hosts.iter().all(|host| host.name == "localhost") {
                return Err(format!("has socket={socket} and a host; give only one of them"));
            }
            hosts = vec![Host { name: absolute(&socket)?, port: None }];
        }
        if hosts.is_empty() {
            let socket = SOCKETS.iter().find(|socket| Path::new(socket).exists()).unwrap_or(&SOCKETS[0]);
            hosts.push(Host { name: (*socket).to_owned(), port: None });
        }
        let user = user.or_else(crate::system::user::name).ok_or_else(|| {
            format!("names no user, and the current user has no name; write {}://USER@HOST/DATABASE", url.scheme())
        })?;
        let tls = Tls::take(url, |_| None, Mode::Disable, access.timeout)?;
        let share = access.timeout / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let login = Login {
            user,
            password: password.or_else(|| access.password.clone()).unwrap_or_default(),
            database: path,
            tls,
            share: share.max(MIN_STATEMENT_TIMEOUT),
            detour: access.detour.clone(),
        };
        Ok(Self { hosts: Hosts::new(hosts, access.timeout).noting(&access.contact), login, label })
    }

    /// Returns how long the server may wait for another session's lock: less than shedlock waits for the server.
    pub(crate) fn lock_wait(&self) -> Duration {
        (self.login.share / 2).min(MAX_LOCK_WAIT)
    }

    /// Connects to the first host that accepts the login.
    pub(crate) fn connect(&mut self) -> Result<Link, BackendError> {
        let Self { hosts, login, .. } = self;
        hosts.connect(|host, bound| login.log_in(host, bound))
    }
}

impl Login {
    /// Uses another user and password.
    pub(crate) fn replace(&mut self, new: &Credentials) {
        if let Some(user) = &new.user {
            self.user.clone_from(user);
        }
        self.password.clone_from(&new.password);
    }

    /// Connects to the first address of a host that accepts, and logs in.
    fn log_in(&self, host: &Host, bound: Bound) -> Result<Link, BackendError> {
        if host.is_path() {
            let stream = Stream::unix(Path::new(&host.name), bound.each(1));
            return self.open(stream.map_err(|error| errors::explain_unreached(&error))?, None, true);
        }
        let addresses = host.addresses(PORT)?;
        let limit = bound.each(addresses.len());
        let tls = match self.tls.mode {
            Mode::Disable => None,
            _ => Some(Arc::new(self.tls.config()?)),
        };
        first_of(addresses, |address| {
            let stream =
                Stream::tcp(address, &self.detour, limit).map_err(|error| errors::explain_unreached(&error))?;
            // A name that is not verified need not be one that a certificate can have.
            let name = if self.tls.checks() == Checks::Name { host.name.clone() } else { address.ip().to_string() };
            self.open(stream, tls.clone().map(|config| (name.as_str(), config)), false)
        })
    }

    fn open(
        &self,
        stream: Stream,
        tls: Option<(&str, Arc<ClientConfig>)>,
        is_private: bool,
    ) -> Result<Link, BackendError> {
        let opening = Opening {
            user: &self.user,
            password: &self.password,
            database: &self.database,
            tls,
            may_do_without: matches!(self.tls.mode, Mode::Allow | Mode::Prefer),
            is_private,
        };
        Link::open(stream, opening, self.share).map_err(|trouble| errors::explain_connecting(&self.user, trouble))
    }
}

fn absolute(socket: &str) -> Result<String, String> {
    if socket.starts_with('/') {
        Ok(socket.to_owned())
    } else {
        Err(format!("has socket={socket}; write its absolute path"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(text: &str) -> Result<Servers, String> {
        Servers::from_url(&Url::parse(text).unwrap(), &Access::default(), false)
    }

    #[test]
    fn a_socket_is_a_parameter_or_a_path_in_the_hosts_place() {
        for text in ["mysql:///x?socket=/run/s", "mysql://localhost/x?socket=/run/s", "mysql://%2Frun%2Fs/x"] {
            let host = Host { name: "/run/s".to_owned(), port: None };
            assert_eq!(servers(text).unwrap().hosts.all, [host], "{text}");
        }
        assert!(servers("mysql:///x").unwrap().hosts.all[0].is_path());
        assert!(!servers("mysql://localhost/x").unwrap().hosts.all[0].is_path());
        assert!(servers("mysql://db/x?socket=/run/s").err().unwrap().contains("one of them"));
        assert!(servers("mysql:///x?socket=run").err().unwrap().contains("absolute path"));
    }

    #[test]
    fn a_file_of_tls_without_a_mode_means_that_all_is_checked() {
        let mode = |query: &str| servers(&format!("mysql://db/x?{query}")).unwrap().login.tls.mode;
        assert_eq!(mode(""), Mode::Disable);
        assert_eq!(mode("sslrootcert=ca.pem"), Mode::VerifyFull);
        assert_eq!(mode("sslcert=a&sslkey=b"), Mode::VerifyFull);
        assert_eq!(mode("sslrootcert=ca.pem&sslmode=verify-ca"), Mode::VerifyCa);
        assert_eq!(mode("sslrootcert=ca.pem&sslmode=disable"), Mode::Disable);
    }

    #[test]
    fn a_message_names_the_server_without_who_logs_in() {
        assert_eq!(servers("mariadb://u:pw@a:1,b/x").unwrap().label, "backend mariadb://a:1,b/x");
    }
}
