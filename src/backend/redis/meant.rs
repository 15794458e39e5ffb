//! Which servers a URL means, which of their databases, and whether they are spoken to with TLS.

use super::super::Url;
use super::super::network::{Authority, Host};
use super::super::tls::{Mode, Tls};
use super::connect::Route;

/// Which servers the URL means, and which of their databases.
pub(super) fn route(url: &Url, authority: &Authority) -> Result<(Route, i64), String> {
    let scheme = url.scheme();
    let database = url.take("db");
    let hosts = authority.hosts.clone();
    if scheme == "redis+unix" {
        if !hosts.is_empty() || authority.path.is_empty() {
            return Err("names no socket; write redis+unix:///PATH".to_owned());
        }
        let socket = Host { name: format!("/{}", authority.path), port: None };
        return Ok((Route::Servers(vec![socket]), number(database.as_deref())?));
    }
    if hosts.is_empty() {
        return Err(format!("names no host; write {scheme}://HOST"));
    }
    if hosts.iter().any(Host::is_path) {
        return Err("has a path instead of a host; write redis+unix:///PATH for a socket".to_owned());
    }
    match scheme {
        "redis-sentinel" => {
            let master = authority.path.clone();
            if master.is_empty() {
                return Err("names no master; write redis-sentinel://HOST,HOST/MASTER".to_owned());
            }
            Ok((Route::Sentinels { hosts, master }, number(database.as_deref())?))
        }
        "redis-cluster" => {
            if !matches!(authority.path.as_str(), "" | "0") || database.is_some_and(|database| database != "0") {
                return Err("names a database, but a cluster has only one".to_owned());
            }
            Ok((Route::Cluster(hosts), 0))
        }
        _ => {
            let path = Some(authority.path.as_str()).filter(|path| !path.is_empty());
            if path.is_some() && database.is_some() {
                return Err("names the database twice, after the host and as db=".to_owned());
            }
            Ok((Route::Servers(hosts), number(path.or(database.as_deref()))?))
        }
    }
}

fn number(text: Option<&str>) -> Result<i64, String> {
    let Some(text) = text else { return Ok(0) };
    let number =
        text.parse::<u32>().map_err(|_| format!("has the database {text}; it must be a number, usually from 0 to 15"));
    number.map(i64::from)
}

/// Takes what the URL says of TLS.
pub(super) fn tls(url: &Url) -> Result<Option<Tls>, String> {
    let scheme = url.scheme();
    let (secure, socket) = (scheme == "rediss", scheme == "redis+unix");
    let named = url.take("sslmode");
    let mode = if secure { Mode::VerifyFull } else { Mode::Disable };
    let mut tls = Tls::take(url, |key| named.clone().filter(|_| key == "sslmode"), mode)?;
    let with_files = tls.roots.is_some() || tls.identity.is_some();
    if named.is_none() && with_files {
        tls.mode = Mode::VerifyFull;
    }
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
        let mode = |text| tls(&Url::parse(text).unwrap()).unwrap().map(|tls| tls.mode);
        assert_eq!(mode("redis://db"), None);
        assert_eq!(mode("redis-cluster://db?sslmode=disable"), None);
        assert_eq!(mode("rediss://db"), Some(Mode::VerifyFull));
        assert_eq!(mode("redis-sentinel://db/m?sslmode=require"), Some(Mode::Require));
        assert_eq!(mode("redis://db?sslrootcert=ca.pem"), Some(Mode::VerifyFull));
        assert_eq!(mode("redis://db?sslcert=a&sslkey=b"), Some(Mode::VerifyFull));
    }
}
