//! The API server, the namespace and the login that a URL names, or that Kubernetes has put into a pod.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::super::network::{Authority, Host};
use super::super::tls::{Mode, Tls};
use super::super::{Access, BackendError, Url};
use crate::system::error_text;

/// The directory of a pod's token, namespace and certificate authority.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
pub(super) const PORT: u16 = 443;
/// Bytes of the longest token; that of a service account has about a thousand.
const LONGEST: u64 = 64 << 10;

/// The settings of a URL. What it leaves out comes from the pod.
pub(super) struct Place {
    /// `None` if the URL leaves it to the pod, and this is none.
    pub(super) host: Option<Host>,
    pub(super) tls: Option<Tls>,
    pub(super) token: Token,
    namespace: Option<String>,
}

/// The token by which the API server knows the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// In a file, which Kubernetes writes anew before the token expires.
    File(PathBuf),
    Given(String),
    /// The client has a certificate, or needs no login.
    None,
}

impl Place {
    /// Reads a URL. `variable` reads the environment. The error is the end of a sentence.
    pub(super) fn parse(url: &Url, access: &Access, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let is_named = url.rest().starts_with("//");
        let (host, namespace) = if is_named { named(url)? } else { (of_pod(variable)?, url.rest().to_owned()) };
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        if let Some(namespace) = namespace.as_deref().filter(|namespace| !is_namespace(namespace)) {
            return Err(format!(
                "has the namespace `{namespace}`; a namespace has up to 63 lower-case letters, digits and `-`"
            ));
        }
        if is_named && namespace.is_none() {
            return Err("names no namespace; write kubernetes://HOST:PORT/NAMESPACE".to_owned());
        }
        let in_pod = |file: &str| (!is_named).then(|| format!("{ACCOUNT}/{file}"));
        let tls = Tls::take(url, |key| (key == "sslrootcert").then(|| in_pod("ca.crt")).flatten(), Mode::VerifyFull)?;
        let token = match (url.take("token-file").filter(|path| !path.is_empty()), &access.password) {
            (Some(path), _) => Token::File(path.into()),
            (None, Some(token)) => Token::Given(token.clone()),
            (None, None) if tls.identity.is_some() => Token::None,
            (None, None) => in_pod("token").map_or(Token::None, |path| Token::File(path.into())),
        };
        url.nothing_left(&[&["token-file"], Tls::PARAMETERS.as_slice()].concat())?;
        Ok(Self { host, tls: Some(tls).filter(|tls| tls.mode > Mode::Prefer), token, namespace })
    }

    /// Returns the namespace: that of the URL, or the pod's own.
    pub(super) fn namespace(&mut self) -> Result<String, BackendError> {
        if let Some(namespace) = &self.namespace {
            return Ok(namespace.clone());
        }
        let namespace = read(&Path::new(ACCOUNT).join("namespace"), "namespace")?;
        if !is_namespace(&namespace) {
            return Err(BackendError::permanent(format!("{ACCOUNT}/namespace contains no namespace")));
        }
        Ok(self.namespace.insert(namespace).clone())
    }
}

impl Token {
    /// Returns the token; reads its file anew.
    pub(super) fn read(&self) -> Result<Option<String>, BackendError> {
        let token = match self {
            Self::None => return Ok(None),
            Self::Given(token) => token.trim().to_owned(),
            Self::File(path) => read(path, "token")?,
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
fn named(url: &Url) -> Result<(Option<Host>, String), String> {
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
fn of_pod(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Host>, String> {
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

/// Reads a file that has one value in it; of one that is too long for that, nothing.
fn read(path: &Path, what: &str) -> Result<String, BackendError> {
    let mut text = String::new();
    match File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text)) {
        Ok(length) if length as u64 > LONGEST => Ok(String::new()),
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => Err(BackendError::permanent(format!(
            "the {what} in {} cannot be read: {}",
            path.display(),
            error_text(&error)
        ))
        .hint(match path.starts_with(ACCOUNT) {
            true => "in a pod, Kubernetes makes this file unless automountServiceAccountToken is false; elsewhere, use kubernetes://HOST:PORT/NAMESPACE?token-file=FILE",
            false => "name a file that this user may read",
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Place, String> {
        let pod = |name: &str| match name {
            "KUBERNETES_SERVICE_HOST" => Some("10.0.0.1".to_owned()),
            "KUBERNETES_SERVICE_PORT" => Some("6443".to_owned()),
            _ => None,
        };
        Place::parse(&Url::parse(text).unwrap(), &Access::default(), pod)
    }

    fn refused(text: &str) -> String {
        parse(text).err().unwrap()
    }

    #[test]
    fn a_pod_knows_everything_itself() {
        let mut place = parse("kubernetes:").unwrap();
        assert_eq!(place.host, Some(Host { name: "10.0.0.1".to_owned(), port: Some(6443) }));
        assert_eq!(place.token, Token::File(format!("{ACCOUNT}/token").into()));
        let tls = place.tls.clone().unwrap();
        assert_eq!(tls.mode, Mode::VerifyFull);
        assert_eq!(tls.roots, Some(super::super::super::tls::Roots::File(format!("{ACCOUNT}/ca.crt").into())));
        let error = place.namespace().unwrap_err();
        assert!(error.message.contains("serviceaccount/namespace cannot be read"), "{error:?}");
        assert_eq!(parse("kubernetes:jobs").unwrap().namespace().unwrap(), "jobs");
    }

    #[test]
    fn what_the_url_says_counts_more() {
        let place = parse("kubernetes:jobs?token-file=/t&sslrootcert=/ca").unwrap();
        assert_eq!(place.token, Token::File("/t".into()));
        assert_eq!(place.tls.unwrap().roots, Some(super::super::super::tls::Roots::File("/ca".into())));
        let mut place = parse("kubernetes://[::1]:6443/jobs?sslcert=c&sslkey=k").unwrap();
        assert_eq!(place.host, Some(Host { name: "::1".to_owned(), port: Some(6443) }));
        assert_eq!((place.namespace().unwrap().as_str(), place.token), ("jobs", Token::None));
        assert_eq!(parse("kubernetes://localhost:8001/jobs?sslmode=disable").unwrap().tls, None);
    }

    #[test]
    fn outside_of_a_pod_a_url_without_a_server_can_be_read() {
        let place = Place::parse(&Url::parse("kubernetes:").unwrap(), &Access::default(), |_| None).unwrap();
        assert_eq!(place.host, None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("kubernetes:Jobs", "lower-case letters"),
            ("kubernetes:a/../b", "lower-case letters"),
            ("kubernetes://host:1/", "names no namespace"),
            ("kubernetes:///jobs", "names no host"),
            ("kubernetes://a,b/jobs", "several hosts"),
            ("kubernetes://u:p@a/jobs", "token-file"),
            ("kubernetes://a/jobs?token=x", "unknown parameter `token`"),
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
        assert!(token.read().unwrap_err().message.contains("no such file"));
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
            assert_eq!(token.read().ok().flatten().as_deref(), read);
        }
        assert_eq!(Token::None.read(), Ok(None));
    }
}
