//! The parts of a URL. The errors are ends of sentences that begin with `the URL`, and show no password.

use mongodb::options::ServerAddress;
use percent_encoding::percent_decode_str;

/// Holds `SCHEME://USER:PASSWORD@HOST:PORT,HOST/PATH?KEY=VALUE&…`, percent-decoded.
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) path: String,
    /// The parameters that nobody has taken yet.
    parameters: Vec<(String, String)>,
}

/// Holds the address of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: Option<u16>,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (front, query) = split(text);
        let (scheme, rest) = front.split_once(':').ok_or("has no scheme")?;
        let scheme = scheme.to_ascii_lowercase();
        let rest =
            rest.strip_prefix("//").ok_or_else(|| format!("has no // after `{scheme}:`; write {scheme}://HOST"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err("has a slash before its @; in a password, write it as %2F".to_owned());
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (login, hosts),
            None => ("", authority),
        };
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        Ok(Self {
            scheme,
            user: decode(user, "user")?,
            password: decode(password, "password")?,
            hosts: hosts.split(',').filter(|host| !host.is_empty()).map(Host::parse).collect::<Result<_, _>>()?,
            path: decode(path, "path")?.unwrap_or_default(),
            parameters: parameters(query)?,
        })
    }

    /// Takes a parameter; one without a value counts as none.
    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        let place = self.parameters.iter().position(|(known, _)| known == key)?;
        Some(self.parameters.remove(place).1).filter(|value| !value.is_empty())
    }

    /// Refuses the URL if parameters are left.
    pub(crate) fn nothing_left(&self, known: &[&str]) -> Result<(), String> {
        match self.parameters.first() {
            None => Ok(()),
            Some((key, _)) => Err(format!("has the unknown parameter `{key}`; known are {}", known.join(", "))),
        }
    }
}

/// Replaces an error that may repeat a part of a password, which a question mark in it cuts off.
pub(crate) fn hide_password(text: &str, error: String) -> String {
    match split(text).1.contains('@') {
        true => "is wrong after its question mark; in a password, write it as %3F".to_owned(),
        false => error,
    }
}

fn split(text: &str) -> (&str, &str) {
    text.trim().split_once('?').unwrap_or((text.trim(), ""))
}

fn parameters(query: &str) -> Result<Vec<(String, String)>, String> {
    let mut parameters: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or("has a parameter without a value after its `?`")?;
        if parameters.iter().any(|(known, _)| known == key) {
            return Err(format!("has the parameter `{key}` twice"));
        }
        let value = percent_decode_str(value).decode_utf8();
        let value = value.map_err(|_| "has bytes that are not text after its `?`")?.into_owned();
        // Something else than & stands before it: as a part of another value the password would be shown.
        if value.contains("password=") {
            return Err("has `password=` within another parameter; write & between parameters".to_owned());
        }
        parameters.push((key.to_owned(), value));
    }
    Ok(parameters)
}

impl Host {
    /// Parses `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
    fn parse(text: &str) -> Result<Self, String> {
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, port)) => (name, Some(port.strip_prefix(':').ok_or("has something after the ] of a host")?)),
            None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
        };
        let port = port.map(|port| port.parse().map_err(|_| "has a port that is not a number from 1 to 65535"));
        let name = decode(name, "host")?.ok_or("has a port without a host")?;
        Ok(Self { name, port: port.transpose()? })
    }

    pub(crate) fn address(&self, port: u16) -> ServerAddress {
        ServerAddress::Tcp { host: self.name.clone(), port: Some(self.port.unwrap_or(port)) }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.name.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.name),
            (true, None) => write!(f, "[{}]", self.name),
            (false, Some(port)) => write!(f, "{}:{port}", self.name),
            (false, None) => f.write_str(&self.name),
        }
    }
}

/// Decodes sequences such as `%20`; returns `None` for an empty text.
fn decode(text: &str, what: &str) -> Result<Option<String>, String> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| format!("has a {what} that is not text"))?;
    if text.contains('\0') {
        return Err(format!("has a {what} with a zero byte"));
    }
    Ok(Some(text.into_owned()).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_password_hosts_and_path_are_told_apart() {
        let full = Url::parse("MongoDB://j%40b:p%2F:w@db1:5433,[::1]:5434,db2/o%20ps?a=%31&b=").unwrap();
        assert_eq!((full.scheme.as_str(), full.path.as_str()), ("mongodb", "o ps"));
        assert_eq!((full.user.as_deref(), full.password.as_deref()), (Some("j@b"), Some("p/:w")));
        let shown: Vec<_> = full.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["db1:5433", "[::1]:5434", "db2"]);
        assert_eq!(full.hosts[2].address(7).to_string(), "db2:7");
    }

    #[test]
    fn a_parameter_is_taken_once_and_the_rest_is_refused() {
        let mut url = Url::parse("mongodb://a/b?x=%31&y=&z=2").unwrap();
        assert_eq!((url.take("x"), url.take("y"), url.take("x")), (Some("1".to_owned()), None, None));
        assert_eq!(url.nothing_left(&["x", "y"]).unwrap_err(), "has the unknown parameter `z`; known are x, y");
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        for (wrong, said) in [
            ("secret", "has no scheme"),
            ("mongodb:secret", "write mongodb://HOST"),
            ("mongodb://u:se/cret@db/x", "has a slash before its @"),
            ("mongodb://u:secret@db:port/x", "a port that is not a number"),
            ("mongodb://:secret@:1", "a port without a host"),
            ("mongodb://u:se?cret@db/x", "is wrong after its question mark"),
            ("mongodb://u:se?cret=1@db/x", "is wrong after its question mark"),
            ("mongodb://u:s@e?cret=1@db/x", "is wrong after its question mark"),
            ("mongodb://db/x?cret", "without a value"),
            ("mongodb://db/x?a=cret&a=cret", "has the parameter `a` twice"),
            ("mongodb://db/x?a=b;password=cret", "has `password=` within another parameter"),
            ("mongodb://%ffcret@db/x", "has a user that is not text"),
        ] {
            let error = Url::parse(wrong).and_then(|url| url.nothing_left(&[])).unwrap_err();
            let error = hide_password(wrong, error);
            assert!(error.contains(said) && !error.contains("cret"), "{wrong}: {error}");
        }
    }
}
