//! The servers that a URL names, the number of their database, and the TLS settings.

use std::time::Duration;

use super::super::Url;
use crate::backend::net::network::{Authority, Host};
use crate::backend::net::tls::{Mode, Tls};

/// Lists the servers that a URL names, and says of which kind they are.
pub(crate) struct ServerList {
    pub(crate) kind: ServerKind,
    pub(crate) hosts: Vec<Host>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// Servers, one of which is the master.
    Servers,
    /// Sentinels, which are queried for this master.
    Sentinels(String),
    /// Nodes of a cluster.
    Cluster,
}

impl ServerList {
    /// Returns the number of servers that share the time of one attempt.
    pub(crate) fn server_count(&self) -> usize {
        self.hosts.len() + usize::from(matches!(self.kind, ServerKind::Sentinels(_)))
    }

    /// Parses the servers of a URL, and the number of their database.
    pub(crate) fn from_url(url: &Url, authority: Authority) -> Result<(Self, i64), String> {
        let (scheme, database) = (url.scheme(), url.take("db"));
        let Authority { hosts, path, .. } = authority;
        let (kind, number) = match scheme {
            "redis+unix" if !hosts.is_empty() || path.is_empty() => {
                return Err("names no socket; write redis+unix:///PATH".to_owned());
            }
            "redis+unix" => {
                let socket = Host { name: format!("/{path}"), port: None };
                return Ok((Self { kind: ServerKind::Servers, hosts: vec![socket] }, number(database.as_deref())?));
            }
            _ if hosts.is_empty() => return Err(format!("names no host; write {scheme}://HOST")),
            _ if hosts.iter().any(Host::is_path) => {
                return Err("has a path instead of a host; write redis+unix:///PATH for a socket".to_owned());
            }
            "redis-sentinel" if path.is_empty() => {
                return Err("names no master; write redis-sentinel://HOST,HOST/MASTER".to_owned());
            }
            "redis-sentinel" => (ServerKind::Sentinels(path), number(database.as_deref())?),
            "redis-cluster"
                if !matches!(path.as_str(), "" | "0") || database.as_ref().is_some_and(|number| number != "0") =>
            {
                return Err("names a database, but a cluster has only one".to_owned());
            }
            "redis-cluster" => (ServerKind::Cluster, 0),
            _ if !path.is_empty() && database.is_some() => {
                return Err("names the database twice, after the host and as db=".to_owned());
            }
            _ => (ServerKind::Servers, number(Some(path).filter(|path| !path.is_empty()).or(database).as_deref())?),
        };
        Ok((Self { kind, hosts }, number))
    }
}

fn number(text: Option<&str>) -> Result<i64, String> {
    let Some(text) = text else { return Ok(0) };
    let number =
        text.parse::<u32>().map_err(|_| format!("has the database {text}; it must be a number, usually from 0 to 15"));
    number.map(i64::from)
}

/// Takes the TLS parameters from the URL.
pub(crate) fn tls(url: &Url, timeout: Duration) -> Result<Option<Tls>, String> {
    let scheme = url.scheme();
    let (secure, socket) = (scheme == "rediss", scheme == "redis+unix");
    let tls = Tls::take(url, |_| None, if secure { Mode::VerifyFull } else { Mode::Disable }, timeout)?;
    let with_files = tls.roots.is_some() || tls.identity.is_some();
    match tls.mode {
        Mode::Allow | Mode::Prefer => {
            Err("has an sslmode that leaves the choice to the server, which Redis does not support; write require or verify-full"
                .to_owned())
        }
        Mode::Disable if secure => Err("has sslmode=disable; write redis:// for a connection without TLS".to_owned()),
        Mode::Disable if with_files => Err("has certificates, and sslmode=disable".to_owned()),
        Mode::Disable => Ok(None),
        _ if socket => Err("asks for TLS on a unix socket, which never leaves the host".to_owned()),
        _ => Ok(Some(tls)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_had_by_scheme_by_mode_or_by_naming_an_authority() {
        let mode = |text| tls(&Url::parse(text).unwrap(), Duration::ZERO).unwrap().map(|tls| tls.mode);
        assert_eq!(mode("redis://db"), None);
        assert_eq!(mode("redis-cluster://db?sslmode=disable"), None);
        assert_eq!(mode("rediss://db"), Some(Mode::VerifyFull));
        assert_eq!(mode("redis-sentinel://db/m?sslmode=require"), Some(Mode::Require));
        assert_eq!(mode("redis://db?sslrootcert=ca.pem"), Some(Mode::VerifyFull));
        assert_eq!(mode("redis://db?sslcert=a&sslkey=b"), Some(Mode::VerifyFull));
    }
}
