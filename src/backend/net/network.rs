//! The servers in a URL, the lookup of their names, and the errors of connecting to them.

use std::fmt;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "http", feature = "zookeeper"))]
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::url::percent_decode;
use crate::backend::Url;
use crate::lock::BackendError;
use crate::system::net;

/// Addresses of a name that are tried, each of which may take a second.
const MAX_ADDRESSES: usize = 16;

/// Holds the user, the servers and the path of a URL: `//USER:PASSWORD@HOST:PORT,HOST:PORT/PATH`, all of it optional.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) hosts: Vec<Host>,
    /// The text after the hosts' first slash, percent-decoded.
    pub(crate) path: String,
}

/// Holds the address of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// A name, an address, or the path of a Unix socket or of its directory.
    pub(crate) name: String,
    pub(crate) port: Option<u16>,
}

impl Authority {
    /// Parses the text after the scheme's colon; the error is the end of a sentence and shows no password.
    pub(crate) fn parse(url: &Url) -> Result<Self, String> {
        let scheme = url.scheme();
        let Some(rest) = url.rest().strip_prefix("//") else {
            return Err(format!("has no // after `{scheme}:`; write {scheme}://HOST"));
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err("has a slash before its @; in a password, write it as %2F".to_owned());
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (decode_part(user, "user")?, decode_part(password, "password")?),
            None => (None, None),
        };
        let hosts = hosts.split(',').filter(|host| !host.is_empty()).map(Host::parse).collect::<Result<_, _>>()?;
        let path = decode_part(path, "path")?.unwrap_or_default();
        Ok(Self { user, password, hosts, path })
    }
}

impl Host {
    /// Parses `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, port)) => (name, Some(port.strip_prefix(':').ok_or("has something after the ] of a host")?)),
            None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
        };
        let port =
            port.map(|port| port.parse().map_err(|_| "has a port that is not a number from 1 to 65535".to_owned()));
        let name = decode_part(name, "host")?.ok_or("has a port without a host")?;
        Ok(Self { name, port: port.transpose()? })
    }

    /// Looks the name up, and returns the first of its addresses; a failed lookup is transient.
    pub(crate) fn addresses(&self, default_port: u16) -> Result<Vec<SocketAddr>, BackendError> {
        self.prepare_lookup();
        let found = (self.name.as_str(), self.port.unwrap_or(default_port)).to_socket_addrs();
        match found.map(|all| all.take(MAX_ADDRESSES).collect::<Vec<_>>()) {
            Ok(addresses) if !addresses.is_empty() => Ok(addresses),
            _ => Err(no_address(self)),
        }
    }

    /// Prepares the process for a lookup of the name. Does nothing for an address, because even the preparation reads
    /// a file.
    pub(crate) fn prepare_lookup(&self) {
        if self.name.parse::<IpAddr>().is_err() {
            net::look_up_without_modules();
        }
    }

    /// Returns true for the path of a Unix socket, or of its directory.
    pub(crate) fn is_path(&self) -> bool {
        self.name.starts_with('/')
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        let bare = if name.contains(':') { format!("[{name}]") } else { name.clone() };
        match self.port {
            Some(port) => write!(f, "{bare}:{port}"),
            None => f.write_str(&bare),
        }
    }
}

/// Returns the error for a host that could not be looked up.
pub(crate) fn no_address(host: &Host) -> BackendError {
    BackendError::transient(format!("the host {} has no address", host.name))
        .hint("check the name with `getent hosts NAME`")
}

/// Formats the hosts for messages.
#[cfg(any(test, feature = "postgres", feature = "mysql", feature = "zookeeper"))]
pub(crate) fn list(hosts: &[Host]) -> String {
    hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the error for a server that, itself or by its kernel, accepted the connection but has not replied.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "http", feature = "zookeeper"))]
pub(crate) fn said_nothing() -> BackendError {
    BackendError::transient("no answer in time: the server accepted the connection but did not reply").hint(
        "check that the server is healthy and not overloaded, and that the port is right; --backend-timeout sets how long to try",
    )
}

/// Returns the error for a server that has not answered a request.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "http", feature = "zookeeper"))]
pub(crate) fn silence() -> BackendError {
    BackendError::transient("no answer in time")
        .hint("check that the server is healthy, and that the port is right; --backend-timeout sets how long to try")
}

/// Explains why the system cannot connect; `socket` says how a URL names another socket.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "http", feature = "zookeeper"))]
pub(crate) fn system_error(kind: io::ErrorKind, socket: &str) -> Option<BackendError> {
    Some(match kind {
        io::ErrorKind::PermissionDenied => BackendError::permanent("no permission to use the server's socket"),
        io::ErrorKind::NotFound => BackendError::transient("no server is listening on its socket")
            .hint(format!("check that the server is running; {socket}")),
        io::ErrorKind::ConnectionRefused => BackendError::transient("connection refused")
            .hint("check that the server is running, and that host and port are right"),
        io::ErrorKind::TimedOut => silence(),
        _ => return None,
    })
}

/// Decodes percent-encoding; returns `None` for an empty text.
fn decode_part(text: &str, what: &str) -> Result<Option<String>, String> {
    let text = percent_decode(text).map_err(|_| format!("has a {what} that is not text"))?;
    if text.contains('\0') {
        return Err(format!("has a {what} with a zero byte"));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Authority, String> {
        Authority::parse(&Url::parse(text).unwrap())
    }

    fn host(name: &str, port: Option<u16>) -> Host {
        Host { name: name.to_owned(), port }
    }

    #[test]
    fn user_password_hosts_and_path_are_told_apart() {
        let full = parse("postgres://j%40b:p%2F:w@db1:5433,[::1]:5434,db2/o%20ps").unwrap();
        assert_eq!((full.user.as_deref(), full.password.as_deref()), (Some("j@b"), Some("p/:w")));
        assert_eq!(full.hosts, [host("db1", Some(5433)), host("::1", Some(5434)), host("db2", None)]);
        assert_eq!(full.path, "o ps");
        let bare = parse("postgres:///ops").unwrap();
        assert!(bare.user.is_none() && bare.password.is_none() && bare.hosts.is_empty());
        assert_eq!(parse("postgres://%2Frun%2Fpg:1/x").unwrap().hosts, [host("/run/pg", Some(1))]);
        assert_eq!(list(&full.hosts), "db1:5433,[::1]:5434,db2");
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        for wrong in ["postgres:db", "postgres://u:se/cret@db/x", "postgres://u:secret@db:port/x", "redis://:secret@:1"]
        {
            let error = parse(wrong).err().unwrap();
            assert!(!error.contains("cret"), "{error}");
        }
    }

    #[test]
    fn this_host_has_an_address_and_no_name_has_none() {
        assert!(host("localhost", None).addresses(1).unwrap().iter().all(|address| address.ip().is_loopback()));
        assert_eq!(host("127.0.0.1", Some(7)).addresses(1).unwrap(), ["127.0.0.1:7".parse().unwrap()]);
        let error = host("no.such.host.invalid", None).addresses(1).unwrap_err();
        assert!(error.message.contains("no.such.host.invalid"), "{error:?}");
    }
}
