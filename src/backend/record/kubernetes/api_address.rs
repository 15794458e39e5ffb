//! The API server, the namespace and the login that a URL names, or that Kubernetes has put into a pod.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backend::net::network::{Authority, Host};
use crate::backend::net::tls::{Mode, Tls};
use crate::backend::{Access, Url};
use crate::lock::BackendError;
use crate::system::{error_text, file};

/// The directory of a pod's token, namespace and certificate authority.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
pub(crate) const PORT: u16 = 443;
/// Bytes of the longest token; that of a service account has about a thousand.
const MAX_TOKEN_BYTES: usize = 64 << 10;
/// The part of a request's time for reading a file, so that the reason is reported before the request is given up.
const FILE_TIME_SHARE: f64 = 0.75;

/// Holds the settings of a URL. The pod supplies those that the URL leaves out.
pub(crate) struct ApiAddress {
    /// The API server; `None` if the URL names none, and this is no pod.
    pub(crate) host: Option<Host>,
    pub(crate) tls: Option<Tls>,
    pub(crate) token: Token,
    namespace: Option<String>,
    /// The time for reading a file.
    file_timeout: Duration,
}

/// Says where the token is by which the API server knows the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// In a file, which Kubernetes writes anew before the token expires.
    File(PathBuf),
    Given(String),
    /// The client has a certificate, or needs no login.
    None,
}

impl ApiAddress {
    /// Reads a URL. `variable` reads the environment. The error is the end of a sentence.
    pub(crate) fn parse(url: &Url, access: &Access, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let is_named = url.rest().starts_with("//");
        let (host, namespace) =
            if is_named { parse_named_server(url)? } else { (from_pod_environment(variable)?, url.rest().to_owned()) };
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        if let Some(namespace) = namespace.as_deref().filter(|namespace| !is_namespace(namespace)) {
            // Another URL behind the scheme may have a password in it.
            let named = match namespace.contains('@') {
                true => "a namespace that is none".to_owned(),
                false => format!("the namespace `{namespace}`"),
            };
            return Err(format!("has {named}; a namespace has up to 63 lower-case letters, digits and `-`"));
        }
        if is_named && namespace.is_none() {
            return Err("names no namespace; write kubernetes://HOST:PORT/NAMESPACE".to_owned());
        }
        let in_pod = |file: &str| (!is_named).then(|| format!("{ACCOUNT}/{file}"));
        let authority = |key: &str| (key == "sslrootcert").then(|| in_pod("ca.crt")).flatten();
        let tls = Tls::take(url, authority, Mode::VerifyFull, access.timeout)?;
        let token = match (url.take("token-file").filter(|path| !path.is_empty()), &access.password) {
            (Some(path), _) => Token::File(path.into()),
            (None, Some(token)) => Token::Given(token.clone()),
            (None, None) if tls.identity.is_some() => Token::None,
            (None, None) => in_pod("token").map_or(Token::None, |path| Token::File(path.into())),
        };
        url.nothing_left(&[&["token-file"], Tls::PARAMETERS.as_slice()].concat())?;
        Ok(Self {
            host,
            tls: tls.without_negotiation("Kubernetes")?,
            token,
            namespace,
            file_timeout: access.timeout.mul_f64(FILE_TIME_SHARE),
        })
    }

    /// Returns the token; reads its file anew.
    pub(crate) fn read_token(&self) -> Result<Option<String>, BackendError> {
        self.token.read(self.file_timeout)
    }

    /// Returns the namespace: that of the URL, or the pod's own.
    pub(crate) fn namespace(&mut self) -> Result<String, BackendError> {
        if let Some(namespace) = &self.namespace {
            return Ok(namespace.clone());
        }
        let namespace = read(&Path::new(ACCOUNT).join("namespace"), "namespace", self.file_timeout)?;
        if !is_namespace(&namespace) {
            return Err(BackendError::permanent(format!("{ACCOUNT}/namespace contains no namespace")));
        }
        Ok(self.namespace.insert(namespace).clone())
    }
}

impl Token {
    /// Returns the token; reads its file anew, for `timeout` at most.
    fn read(&self, timeout: Duration) -> Result<Option<String>, BackendError> {
        let token = match self {
            Self::None => return Ok(None),
            Self::Given(token) => token.trim().to_owned(),
            Self::File(path) => read(path, "token", timeout)?,
        };
        // Anything else would end the header in which it is sent.
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BackendError::permanent(match self {
                Self::File(path) => format!("{} contains no token", path.display()),
                _ => "SHEDLOCK_BACKEND_PASSWORD contains no token".to_owned(),
            }));
        }
        Ok(Some(token))
    }
}

/// Reads `//HOST:PORT/NAMESPACE`.
fn parse_named_server(url: &Url) -> Result<(Option<Host>, String), String> {
    let authority = Authority::parse(url)?;
    if authority.user.is_some() || authority.password.is_some() {
        return Err("has a user; a token is read from token-file=FILE".to_owned());
    }
    match <[Host; 1]>::try_from(authority.hosts) {
        Ok([host]) => Ok((Some(host), authority.path)),
        Err(hosts) if hosts.is_empty() => Err("names no host; write kubernetes://HOST:PORT/NAMESPACE".to_owned()),
        Err(_) => Err("names several hosts; name the address that all API servers share".to_owned()),
    }
}

/// Returns the API server that Kubernetes names to its pods; `None` outside of a pod.
fn from_pod_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Host>, String> {
    let find = |name: &str| variable(name).filter(|value| !value.is_empty());
    let Some(name) = find("KUBERNETES_SERVICE_HOST") else { return Ok(None) };
    let port = find("KUBERNETES_SERVICE_PORT").map(|port| {
        port.parse().map_err(|_| "needs KUBERNETES_SERVICE_PORT, which is not a number from 1 to 65535".to_owned())
    });
    Ok(Some(Host { name, port: port.transpose()? }))
}

fn is_namespace(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 63
        && text.starts_with(is_end)
        && text.ends_with(is_end)
        && text.chars().all(|c| is_end(c) || c == '-')
}

/// Reads a file that has one value in it. Returns an empty text for a file that is too long for that.
fn read(path: &Path, what: &str, timeout: Duration) -> Result<String, BackendError> {
    match file::Input::open(path).and_then(|input| input.read_text(timeout)) {
        Ok(text) if text.len() > MAX_TOKEN_BYTES => Ok(String::new()),
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => Err(BackendError::permanent(format!(
            "the {what} in {} cannot be read: {}",
            path.display(),
            error_text(&error)
        ))
        .hint(match path.starts_with(ACCOUNT) {
            true => "in a pod, Kubernetes makes this file unless automountServiceAccountToken is false; elsewhere, use kubernetes://HOST:PORT/NAMESPACE?token-file=FILE",
            false => file::remedy(&error).unwrap_or("name a file that this user may read"),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ApiAddress, String> {
        let pod = |name: &str| match name {
            "KUBERNETES_SERVICE_HOST" => Some("10.0.0.1".to_owned()),
            "KUBERNETES_SERVICE_PORT" => Some("6443".to_owned()),
            _ => None,
        };
        ApiAddress::parse(&Url::parse(text).unwrap(), &Access::default(), pod)
    }

    fn refused(text: &str) -> String {
        parse(text).err().unwrap()
    }

    #[test]
    fn a_pod_knows_everything_itself() {
        let mut address = parse("kubernetes:").unwrap();
        assert_eq!(address.host, Some(Host { name: "10.0.0.1".to_owned(), port: Some(6443) }));
        assert_eq!(address.token, Token::File(format!("{ACCOUNT}/token").into()));
        let tls = address.tls.clone().unwrap();
        assert_eq!(tls.mode, Mode::VerifyFull);
        assert_eq!(tls.roots, Some(crate::backend::net::tls::Roots::File(format!("{ACCOUNT}/ca.crt").into())));
        let error = address.namespace().unwrap_err();
        assert!(error.message.contains("serviceaccount/namespace cannot be read"), "{error:?}");
        assert_eq!(parse("kubernetes:jobs").unwrap().namespace().unwrap(), "jobs");
    }

    #[test]
    fn what_the_url_says_counts_more() {
        let address = parse("kubernetes:jobs?token-file=/t&sslrootcert=/ca").unwrap();
        assert_eq!(address.token, Token::File("/t".into()));
        assert_eq!(address.tls.unwrap().roots, Some(crate::backend::net::tls::Roots::File("/ca".into())));
        let mut address = parse("kubernetes://[::1]:6443/jobs?sslcert=c&sslkey=k").unwrap();
        assert_eq!(address.host, Some(Host { name: "::1".to_owned(), port: Some(6443) }));
        assert_eq!((address.namespace().unwrap().as_str(), address.token), ("jobs", Token::None));
        assert_eq!(parse("kubernetes://localhost:8001/jobs?sslmode=disable").unwrap().tls, None);
    }

    #[test]
    fn outside_of_a_pod_a_url_without_a_server_can_be_read() {
        let address = ApiAddress::parse(&Url::parse("kubernetes:").unwrap(), &Access::default(), |_| None).unwrap();
        assert_eq!(address.host, None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("kubernetes:Jobs", "lower-case letters"),
            ("kubernetes:a/../b", "lower-case letters"),
            ("kubernetes:postgres://u:p@a/jobs", "has a namespace that is none;"),
            ("kubernetes://host:1/", "names no namespace"),
            ("kubernetes:///jobs", "names no host"),
            ("kubernetes://a,b/jobs", "several hosts"),
            ("kubernetes://u:p@a/jobs", "token-file"),
            ("kubernetes://a/jobs?token=x", "unknown parameter `token`"),
            ("kubernetes://a/jobs?sslmode=prefer", "leaves the choice to the server"),
            ("kubernetes://a/jobs?sslmode=disable&sslrootcert=/ca", "has certificates, and sslmode=disable"),
        ] {
            let error = refused(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_token_is_read_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let token = Token::File(path.clone());
        assert!(token.read(Duration::ZERO).unwrap_err().message.contains("no such file"));
        let long = "x".repeat(100_000);
        for (text, read) in [
            ("one\n", Some("one")),
            ("two\r\n", Some("two")),
            ("", None),
            ("\n", None),
            ("a\r\nb", None),
            (&*long, None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(token.read(Duration::ZERO).ok().flatten().as_deref(), read);
        }
        assert_eq!(Token::None.read(Duration::ZERO), Ok(None));
    }
}
