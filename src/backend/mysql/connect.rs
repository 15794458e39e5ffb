//! Connects to a MySQL or MariaDB server: reads the URL, and tries the hosts in order.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql::{ClientIdentity, Conn, DriverError, Error, OptsBuilder, SslOpts};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::super::hosts::{Bound, Hosts, first_of};
use super::super::network::{self, Authority, Host};
use super::super::tls::{self, Checks, Mode, Roots, Tls};
use super::super::{Access, BackendError, Credentials, Url};
use super::errors;
use crate::system::{error_text, net};

pub(super) const PORT: u16 = 3306;
/// Sockets of Debian's server and of MySQL's own default.
const SOCKETS: [&str; 2] = ["/run/mysqld/mysqld.sock", "/tmp/mysql.sock"];
/// Minimum time limit of a statement.
const SHORTEST: Duration = Duration::from_secs(2);
/// Maximum wait for a row that another session is writing, before the next attempt. A run that gives up waits at least
/// this long for the answer to its last request: a request that no client waits for would take the lock for no one.
const LONGEST: Duration = Duration::from_secs(1);
/// Maximum size of a packet, more than any statement of shedlock's. Without this value the driver asks the server for
/// it.
const PACKET: usize = 1 << 20;

/// The servers of a URL and the login to them.
pub(super) struct Servers {
    pub(super) hosts: Hosts,
    pub(super) login: Login,
    /// Name of the servers in messages.
    pub(super) label: String,
}

/// Parameters of the login, the same for each of the servers.
pub(super) struct Login {
    options: OptsBuilder,
    /// Name of the user who logs in.
    pub(super) user: String,
    pub(super) tls: Tls,
    /// Time limit for one server to answer a statement.
    pub(super) share: Duration,
}

impl Servers {
    /// Parameters of the URL that this backend understands.
    pub(super) const PARAMETERS: [&str; 1] = ["socket"];

    /// Checks the URL. It must name a database unless the table's name does.
    pub(super) fn of_url(url: &Url, access: &Access, table_has_database: bool) -> Result<Self, String> {
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
        let tls = Tls::take(url, |_| None, Mode::Disable)?;
        let share = access.patience / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let share = share.max(SHORTEST);
        let options = OptsBuilder::new()
            .user(Some(&user))
            .pass(password.or_else(|| access.password.clone()))
            .db_name(Some(path).filter(|path| !path.is_empty()))
            .write_timeout(Some(share))
            // Both settings save a query of the driver's to the server.
            .prefer_socket(false)
            .max_allowed_packet(Some(PACKET))
            .stmt_cache_size(0)
            .connect_attrs(Some([("program_name", "shedlock")].into()));
        Ok(Self { hosts: Hosts::new(hosts, access.patience), login: Login { options, user, tls, share }, label })
    }

    /// Returns how long the server may wait for another session's lock: less than shedlock waits for the server.
    pub(super) fn patience(&self) -> Duration {
        (self.login.share / 2).min(LONGEST)
    }

    /// Connects to the first host that accepts the login.
    pub(super) fn connect(&mut self) -> Result<Conn, BackendError> {
        let Self { hosts, login, .. } = self;
        hosts.connect(|host, bound| login.connect_to(host, bound))
    }
}

impl Login {
    /// Uses another user and password.
    pub(super) fn replace(&mut self, new: &Credentials) {
        if let Some(user) = &new.user {
            self.user.clone_from(user);
        }
        self.options = self.options.clone().user(Some(&self.user)).pass(Some(&new.password));
    }

    /// Connects and logs in. The driver has one limit for every answer on a connection; after the login it is raised to
    /// that of a statement.
    fn connect_to(&self, host: &Host, bound: Bound) -> Result<Conn, BackendError> {
        let connection = self.log_in(host, bound)?;
        net::limit_reading(&connection, self.share).map_err(|error| BackendError::transient(error_text(&error)))?;
        Ok(connection)
    }

    fn log_in(&self, host: &Host, bound: Bound) -> Result<Conn, BackendError> {
        let options = self.options.clone().tcp_port(host.port.unwrap_or(PORT));
        if host.is_path() {
            return self.open(options.socket(Some(&host.name)).read_timeout(Some(bound.each(1))), None);
        }
        let addresses = host.addresses(PORT)?;
        let limit = Some(bound.each(addresses.len()));
        let options = options.tcp_connect_timeout(limit).read_timeout(limit);
        // The driver opens the file of the authorities at each attempt, so the file must outlive them all.
        let believed;
        let ssl = match self.tls.mode {
            Mode::Disable => None,
            _ => {
                believed = self.believed()?;
                Some(self.ssl(believed.as_ref()))
            }
        };
        if self.tls.checks() != Checks::Name {
            return first_of(addresses, |address| {
                let ip = if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() };
                self.open(options.clone().ip_or_hostname(Some(ip)), ssl.as_ref())
            });
        }
        // The driver must know the name to verify it. It then looks up the name itself and tries only the first
        // address, unless it is bound to a local address: then it tries the addresses of the same family.
        let mut families: Vec<IpAddr> = Vec::new();
        for address in addresses {
            let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            if !families.contains(&any) {
                families.push(any);
            }
        }
        let name = if host.name.contains(':') { format!("[{}]", host.name) } else { host.name.clone() };
        let options = options.ip_or_hostname(Some(name));
        first_of(families, |any| self.open(options.clone().bind_address(Some(SocketAddr::new(any, 0))), ssl.as_ref()))
    }

    /// Opens a connection with as much TLS as the mode wants.
    fn open(&self, options: OptsBuilder, ssl: Option<&SslOpts>) -> Result<Conn, BackendError> {
        let may_do_without = matches!(self.tls.mode, Mode::Allow | Mode::Prefer);
        match Conn::new(options.clone().ssl_opts(ssl.cloned())) {
            Err(Error::DriverError(DriverError::TlsNotSupported)) if may_do_without => Conn::new(options),
            answer => answer,
        }
        .map_err(|error| errors::of_connecting(&self.user, error))
    }

    /// Returns the file of the authorities to trust; `None` where the URL names a file or nothing is verified.
    fn believed(&self) -> Result<Option<File>, BackendError> {
        tls::install_provider();
        self.tls.judge_files()?;
        match &self.tls.roots {
            Some(Roots::File(_)) => Ok(None),
            _ => self
                .tls
                .authorities()?
                .map(|pem| in_memory(&pem))
                .transpose()
                .map_err(|error| BackendError::transient(format!("TLS cannot be set up: {}", error_text(&error)))),
        }
    }

    /// Translates the TLS settings for the driver. It trusts the public authorities beside the given ones: with
    /// verify-ca, where names do not count, any certificate from a public authority is accepted.
    fn ssl(&self, believed: Option<&File>) -> SslOpts {
        let in_memory = believed.map(|file| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())));
        let roots = match &self.tls.roots {
            Some(Roots::File(path)) => Some(path.clone()),
            // Without /proc the built-in authorities must do.
            _ => in_memory.filter(|path| path.exists()),
        };
        let identity = self.tls.identity.as_ref();
        let checks = self.tls.checks();
        SslOpts::default()
            .with_danger_accept_invalid_certs(checks == Checks::Nothing)
            .with_danger_skip_domain_validation(checks == Checks::Authority)
            .with_root_cert_path(roots)
            .with_client_identity(identity.map(|one| ClientIdentity::new(one.certificate.clone(), one.key.clone())))
    }
}

/// Creates a file in memory, for a driver that requires a path.
fn in_memory(text: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("authorities", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text)?;
    Ok(file)
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
        Servers::of_url(&Url::parse(text).unwrap(), &Access::default(), false)
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
