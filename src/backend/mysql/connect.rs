//! Reaching a MySQL or MariaDB server: what stands in a URL, and the hosts in their order.

use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql::{ClientIdentity, Conn, DriverError, Error, OptsBuilder, SslOpts};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::super::network::{self, Authority, Bound, Host, Hosts};
use super::super::probe::{self, Distance, Tell};
use super::super::tls::{self, Checks, Mode, Roots, Tls};
use super::super::{Access, BackendError, Url};
use super::errors;
use crate::system::{Moment, error_text, net};

const PORT: u16 = 3306;
/// Where Debian's server and MySQL's own default have their socket.
const SOCKETS: [&str; 2] = ["/run/mysqld/mysqld.sock", "/tmp/mysql.sock"];
/// No statement is given less than this.
const SHORTEST: Duration = Duration::from_secs(2);
/// No longer than this is waited for a row that another is writing, before trying again: no more than a run that gives up
/// waits for the answer to its last request. A request that nobody waits for would take the lock for nobody.
const LONGEST: Duration = Duration::from_secs(1);
/// Longer than any statement of ours. The driver asks the server for it unless it is told.
const PACKET: usize = 1 << 20;

/// The servers of a URL and how to log in.
pub(super) struct Servers {
    pub(super) hosts: Hosts,
    options: OptsBuilder,
    /// Names the user who logs in.
    pub(super) user: String,
    pub(super) tls: Tls,
    /// How long one server may take to answer a statement.
    share: Duration,
    /// How the server is named in messages.
    pub(super) label: String,
}

impl Servers {
    /// The parameters of the URL that are understood here.
    pub(super) const PARAMETERS: [&str; 1] = ["socket"];

    /// Checks the URL. Where the table has no database in its own name, the URL must name one.
    pub(super) fn of_url(url: &Url, access: &Access, table_has_database: bool) -> Result<Self, String> {
        let Authority { user, password, mut hosts, path } = Authority::parse(url)?;
        if path.is_empty() && !table_has_database {
            return Err(format!("names no database; write {}://HOST/DATABASE", url.scheme()));
        }
        let label = format!("backend {}://{}/{path}", url.scheme(), network::list(&hosts));
        if let Some(socket) = url.take("socket") {
            if !hosts.iter().all(|host| host.name == "localhost") {
                return Err(format!("has socket={socket} and a host; one of them is enough"));
            }
            hosts = vec![Host { name: absolute(&socket)?, port: None }];
        }
        if hosts.is_empty() {
            let socket = SOCKETS.iter().find(|socket| Path::new(socket).exists()).unwrap_or(&SOCKETS[0]);
            hosts.push(Host { name: (*socket).to_owned(), port: None });
        }
        let user = user.or_else(crate::system::user::name).ok_or_else(|| {
            format!("names no user, and this one has no name; write {}://USER@HOST/DATABASE", url.scheme())
        })?;
        let tls = take_tls(url)?;
        let share = access.patience / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let share = share.max(SHORTEST);
        let options = OptsBuilder::new()
            .user(Some(&user))
            .pass(password.or_else(|| access.password.clone()))
            .db_name(Some(path).filter(|path| !path.is_empty()))
            .write_timeout(Some(share))
            // Both keep the driver from asking the server something first.
            .prefer_socket(false)
            .max_allowed_packet(Some(PACKET))
            .stmt_cache_size(0)
            .connect_attrs(Some([("program_name", "shedlock")].into()));
        Ok(Self { hosts: Hosts::new(hosts, access.patience), options, user, tls, share, label })
    }

    /// How long the server may wait for what another holds: less than we wait for the server.
    pub(super) fn patience(&self) -> Duration {
        (self.share / 2).min(LONGEST)
    }

    /// Connects to the first host that lets us in.
    pub(super) fn connect(&mut self) -> Result<Conn, BackendError> {
        let bound = self.hosts.attempts.begin(Moment::now());
        let answer = self.hosts.try_each(&self.label, |host| self.connect_to(host, bound));
        self.hosts.tried(bound, answer)
    }

    /// Tells which hosts can be reached.
    pub(super) fn look(&self, tell: Tell<'_>) -> Distance {
        probe::hosts(&self.hosts.all, PORT, self.share, |host| host.name.clone().into(), tell)
    }

    /// Connects and logs in. The driver has one limit for every answer on a connection; a server that has let us in gets
    /// longer for a statement.
    fn connect_to(&self, host: &Host, bound: Bound) -> Result<Conn, BackendError> {
        let connection = self.log_in(host, bound)?;
        net::limit_reading(&connection, self.share)
            .map_err(|error| BackendError::transient(format!("{}: {}", self.label, error_text(&error))))?;
        Ok(connection)
    }

    fn log_in(&self, host: &Host, bound: Bound) -> Result<Conn, BackendError> {
        let explain = |error: Error| errors::of_connecting(&self.label, &self.user, error);
        let options = self.options.clone().tcp_port(host.port.unwrap_or(PORT));
        if host.is_path() {
            let limit = bound.each(self.hosts.count());
            return Conn::new(options.socket(Some(&host.name)).read_timeout(Some(limit))).map_err(explain);
        }
        let addresses = host.addresses(PORT).map_err(|error| error.of(&self.label))?;
        let limit = Some(bound.each(self.hosts.count() * addresses.len()));
        let options = options.tcp_connect_timeout(limit).read_timeout(limit);
        if self.tls.mode == Mode::Disable {
            return dial(&options, &addresses).map_err(explain);
        }
        match self.dial_with_tls(options.clone(), host, &addresses)? {
            Err(Error::DriverError(DriverError::TlsNotSupported))
                if matches!(self.tls.mode, Mode::Allow | Mode::Prefer) =>
            {
                dial(&options, &addresses)
            }
            answer => answer,
        }
        .map_err(explain)
    }

    /// The outer error is our own: a file that cannot be read.
    fn dial_with_tls(
        &self,
        options: OptsBuilder,
        host: &Host,
        addresses: &[SocketAddr],
    ) -> Result<Result<Conn, Error>, BackendError> {
        tls::install_provider();
        self.tls.judge_files().map_err(|error| error.of(&self.label))?;
        let checks = self.tls.checks();
        let mut ssl = SslOpts::default()
            .with_danger_accept_invalid_certs(checks == Checks::Nothing)
            .with_danger_skip_domain_validation(checks == Checks::Authority);
        // The driver believes the public authorities beside these. Where names do not count, as with verify-ca, a certificate
        // that anybody has from one of them will do.
        // It opens the file at each attempt.
        let believed;
        if let Some(Roots::File(path)) = &self.tls.roots {
            ssl = ssl.with_root_cert_path(Some(path.clone()));
        } else if let Some(pem) = self.tls.authorities().map_err(|error| error.of(&self.label))? {
            let failed = |error| {
                BackendError::transient(format!("{}: TLS cannot be set up: {}", self.label, error_text(&error)))
            };
            believed = in_memory(&pem).map_err(failed)?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", believed.as_raw_fd()));
            // Without /proc those that are built in have to do.
            ssl = ssl.with_root_cert_path(path.exists().then_some(path));
        }
        if let Some(identity) = &self.tls.identity {
            let identity = ClientIdentity::new(identity.certificate.clone(), identity.key.clone());
            ssl = ssl.with_client_identity(Some(identity));
        }
        let options = options.ssl_opts(ssl);
        if checks != Checks::Name {
            return Ok(dial(&options, addresses));
        }
        // The driver has to know the name, looks it up itself, and then tries the first address only, unless it is bound to an
        // address of our own: then it tries those of the same family.
        let mut families: Vec<IpAddr> = Vec::new();
        for address in addresses {
            let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            if !families.contains(&any) {
                families.push(any);
            }
        }
        let name = if host.name.contains(':') { format!("[{}]", host.name) } else { host.name.clone() };
        Ok(first_of(families, |any| {
            Conn::new(options.clone().ip_or_hostname(Some(&name)).bind_address(Some(SocketAddr::new(any, 0))))
        }))
    }
}

/// A file that is nowhere, for a driver that wants a path.
fn in_memory(text: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("authorities", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text)?;
    Ok(file)
}

/// Connects to the first of the addresses that listens.
fn dial(options: &OptsBuilder, addresses: &[SocketAddr]) -> Result<Conn, Error> {
    first_of(addresses, |address| {
        let ip = if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() };
        Conn::new(options.clone().ip_or_hostname(Some(ip)))
    })
}

/// The first connection that is made; an error other than that nobody listens or speaks ends the search.
fn first_of<T>(ways: impl IntoIterator<Item = T>, connect: impl Fn(T) -> Result<Conn, Error>) -> Result<Conn, Error> {
    let mut met = Err(Error::DriverError(DriverError::CouldNotConnect(None)));
    for way in ways {
        met = connect(way);
        if !met.as_ref().is_err_and(errors::is_of_address) {
            break;
        }
    }
    met
}

/// Takes the parameters of TLS. Who names a file of theirs and no mode wants it all checked.
fn take_tls(url: &Url) -> Result<Tls, String> {
    let mode = url.take("sslmode").filter(|mode| !mode.is_empty());
    let mut tls = Tls::take(url, |key| mode.clone().filter(|_| key == "sslmode"), Mode::Disable)?;
    if mode.is_none() && (tls.roots.is_some() || tls.identity.is_some()) {
        tls.mode = Mode::VerifyFull;
    }
    Ok(tls)
}

fn absolute(socket: &str) -> Result<String, String> {
    if socket.starts_with('/') {
        Ok(socket.to_owned())
    } else {
        Err(format!("has socket={socket}; write its path from the root"))
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
        assert!(servers("mysql:///x?socket=run").err().unwrap().contains("from the root"));
    }

    #[test]
    fn a_file_of_tls_without_a_mode_means_that_all_is_checked() {
        let mode = |query: &str| servers(&format!("mysql://db/x?{query}")).unwrap().tls.mode;
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
