//! TLS settings by libpq's names (`sslmode`, `sslrootcert`, `sslcert`, `sslkey`), the same for every backend.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::authorities;
use crate::backend::Url;
use crate::lock::BackendError;
use crate::system::{error_text, file};

/// The part of a request's time for reading one file, so that the reason is reported before the request is given up.
const FILE_TIME_SHARE: f64 = 0.75;

/// Names the TLS mode, from none to a server that proves its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Disable,
    /// TLS only if the server refuses a connection without it.
    Allow,
    /// TLS if the server offers it.
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Holds the TLS parameters of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) mode: Mode,
    pub(crate) roots: Option<Roots>,
    pub(crate) identity: Option<Identity>,
    /// The time for one request, in which the files are read.
    pub(crate) timeout: Duration,
}

/// Names the trusted certificate authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Roots {
    /// The system's authorities, as without the parameter.
    System,
    /// The authorities in a file.
    File(PathBuf),
}

/// Names the files of the client's certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

const MODES: [(&str, Mode); 6] = [
    ("disable", Mode::Disable),
    ("allow", Mode::Allow),
    ("prefer", Mode::Prefer),
    ("require", Mode::Require),
    ("verify-ca", Mode::VerifyCa),
    ("verify-full", Mode::VerifyFull),
];

impl Tls {
    /// The names of the parameters.
    pub(crate) const PARAMETERS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

    /// Takes the parameters from a URL; `default_for` supplies those that it lacks. `mode` is the default mode; if that
    /// is `Disable` and a file is named, everything is verified.
    pub(crate) fn take(
        url: &Url,
        default_for: impl Fn(&str) -> Option<String>,
        mode: Mode,
        timeout: Duration,
    ) -> Result<Self, String> {
        let find = |key| url.take(key).filter(|value| !value.is_empty()).or_else(|| default_for(key));
        let named = find("sslmode");
        let roots = find("sslrootcert").map(|roots| match roots.as_str() {
            "system" => Roots::System,
            path => Roots::File(PathBuf::from(path)),
        });
        let identity = match (find("sslcert"), find("sslkey")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(Identity { certificate: certificate.into(), key: key.into() }),
            (Some(_), None) => return Err("has sslcert without sslkey".to_owned()),
            (None, Some(_)) => return Err("has sslkey without sslcert".to_owned()),
        };
        let mode = match &named {
            None if roots == Some(Roots::System) => Mode::VerifyFull,
            None if mode == Mode::Disable && (roots.is_some() || identity.is_some()) => Mode::VerifyFull,
            None => mode,
            Some(name) => MODES.iter().find(|(known, _)| known == name).map(|(_, mode)| *mode).ok_or_else(|| {
                let known: Vec<_> = MODES.iter().map(|(known, _)| *known).collect();
                format!("has sslmode={name}; known are {}", known.join(", "))
            })?,
        };
        if roots == Some(Roots::System) && mode != Mode::VerifyFull {
            return Err("has sslrootcert=system, which needs sslmode=verify-full: \
                        anybody can get a certificate from a public authority"
                .to_owned());
        }
        Ok(Self { mode, roots, identity, timeout })
    }

    /// Takes the parameters from the URL of a backend whose servers do not negotiate: its port speaks TLS, or does not.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(crate) fn from_parameters(url: &Url, program: &str, timeout: Duration) -> Result<Option<Self>, String> {
        Self::take(url, |_| None, Mode::Disable, timeout)?.without_negotiation(program)
    }

    /// Returns the parameters for a backend whose servers do not negotiate TLS; `None` for a connection without TLS.
    #[cfg(any(feature = "etcd", feature = "kubernetes", feature = "zookeeper"))]
    pub(crate) fn without_negotiation(self, program: &str) -> Result<Option<Self>, String> {
        match self.mode {
            Mode::Allow | Mode::Prefer => Err(format!(
                "has an sslmode that leaves the choice to the server, which {program} does not support; write require or \
                 verify-full"
            )),
            Mode::Disable if self.roots.is_some() || self.identity.is_some() => {
                Err("has certificates, and sslmode=disable".to_owned())
            }
            Mode::Disable => Ok(None),
            _ => Ok(Some(self)),
        }
    }

    /// Returns how far the server's certificate is verified. Like libpq, verifies against named authorities in every
    /// mode.
    pub(crate) fn checks(&self) -> Checks {
        match (self.mode, &self.roots) {
            (Mode::VerifyFull, _) => Checks::Name,
            (Mode::VerifyCa, _) | (_, Some(_)) => Checks::Authority,
            _ => Checks::Nothing,
        }
    }

    /// Returns the authorities in PEM; `None` stands for the built-in ones, or if nothing is verified.
    pub(crate) fn authorities(&self) -> Result<Option<Cow<'static, [u8]>>, BackendError> {
        match &self.roots {
            Some(Roots::File(path)) => self.read("sslrootcert", path).map(|pem| Some(Cow::Owned(pem))),
            _ if self.checks() == Checks::Nothing => Ok(None),
            _ => Ok(authorities::system_authorities().map(Cow::Borrowed)),
        }
    }

    /// Builds the configuration of rustls.
    pub(crate) fn config(&self) -> Result<ClientConfig, BackendError> {
        let provider = Arc::new(ring::default_provider());
        let broken = |error: Error| BackendError::permanent(format!("TLS cannot be set up: {error}"));
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(broken)?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(&provider)?);
        match &self.identity {
            None => Ok(builder.with_no_client_auth()),
            Some(identity) => {
                let (chain, key) = self.load(identity)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    let (path, key) = (identity.certificate.display(), identity.key.display());
                    match error {
                        Error::InconsistentKeys(_) => {
                            BackendError::permanent(format!("{key} is not the key of {path}"))
                        }
                        error => {
                            BackendError::permanent(format!("the client certificate {path} cannot be used: {error}"))
                        }
                    }
                    .hint("sslkey must be the key of the certificate in sslcert")
                })
            }
        }
    }

    /// Reads the file that a parameter names.
    pub(crate) fn read(&self, parameter: &str, path: &Path) -> Result<Vec<u8>, BackendError> {
        file::read(path, self.timeout.mul_f64(FILE_TIME_SHARE)).map_err(|error| {
            let why = match error.kind() {
                std::io::ErrorKind::NotFound => "no such file".to_owned(),
                std::io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
                _ => error_text(&error),
            };
            BackendError::permanent(format!("{parameter} {} cannot be read: {why}", path.display()))
                .hint(file::remedy(&error).unwrap_or_default())
        })
    }

    /// Reads the client's certificate and key.
    fn load(
        &self,
        identity: &Identity,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), BackendError> {
        let chain = CertificateDer::pem_slice_iter(&self.read("sslcert", &identity.certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .ok()
            .filter(|chain| !chain.is_empty())
            .ok_or_else(|| {
                BackendError::permanent(format!("sslcert {} contains no certificate", identity.certificate.display()))
            })?;
        let key = PrivateKeyDer::from_pem_slice(&self.read("sslkey", &identity.key)?).map_err(|_| {
            BackendError::permanent(format!("sslkey {} contains no usable key", identity.key.display()))
                .hint("it must be in PEM and without a passphrase")
        })?;
        Ok((chain, key))
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<Verifier>, BackendError> {
        let checks = self.checks();
        let mut inner = None;
        if checks != Checks::Nothing {
            let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(self.store()?), Arc::clone(provider));
            let built = builder.build();
            inner = Some(built.map_err(|error| BackendError::permanent(format!("TLS cannot be set up: {error}")))?);
        }
        Ok(Arc::new(Verifier { checks, inner, provider: Arc::clone(provider) }))
    }

    fn store(&self) -> Result<RootCertStore, BackendError> {
        let mut store = RootCertStore::empty();
        let Some(pem) = self.authorities()? else {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            return Ok(store);
        };
        let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>().unwrap_or_default();
        match (store.add_parsable_certificates(found).0, &self.roots) {
            (0, Some(Roots::File(path))) => {
                Err(BackendError::permanent(format!("sslrootcert {} contains no certificate", path.display()))
                    .hint("it must be a PEM file, which begins with -----BEGIN CERTIFICATE-----"))
            }
            _ => Ok(store),
        }
    }
}

/// Says how far shedlock verifies the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checks {
    Nothing,
    Authority,
    Name,
}

/// Explains an error of rustls without naming the server; returns `None` for an unknown error.
pub(crate) fn complaint(text: &str) -> Option<BackendError> {
    let has = |part: &str| text.contains(part);
    Some(if has("UnknownIssuer") {
        BackendError::permanent("the server's certificate is from an authority that is not trusted")
            .hint("name the file of the authority that signed it with sslrootcert=FILE")
    } else if has("not valid for name") || has("NotValidForName") {
        BackendError::permanent("the server's certificate is for another name than the URL's")
            .hint("use the name in the certificate, or sslmode=verify-ca, which does not check the name")
    } else if has("Expired") || has("certificate expired") {
        BackendError::permanent("the server's certificate has expired").hint("renew the server's certificate")
    } else if has("CaUsedAsEndEntity") {
        BackendError::permanent("the server's certificate is an authority's, not a server's")
            .hint("use a certificate that this authority signed, or sslmode=require, which verifies none")
    } else if has("CertificateRequired") || has("HandshakeFailure") {
        BackendError::permanent("the server requires a client certificate")
            .hint("name one with sslcert=FILE&sslkey=FILE")
    } else if has("invalid peer certificate") {
        BackendError::permanent(format!("the server's certificate cannot be verified: {text}"))
    } else if has("received fatal alert") {
        BackendError::permanent(format!("the server refuses the TLS connection: {text}"))
    } else {
        return None;
    })
}

/// Checks as much of a server's certificate as libpq does.
#[derive(Debug)]
struct Verifier {
    checks: Checks,
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The verifier checks the name last, after the authority.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.checks == Checks::Authority => Ok(ServerCertVerified::assertion()),
            answer => answer,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(query: &str) -> Result<Tls, String> {
        Tls::take(&Url::parse(&format!("x://db/x?{query}")).unwrap(), |_| None, Mode::Prefer, Duration::ZERO)
    }

    #[test]
    fn the_parameters_mean_what_they_mean_to_libpq() {
        assert_eq!(take("").unwrap(), Tls { mode: Mode::Prefer, roots: None, identity: None, timeout: Duration::ZERO });
        assert_eq!(take("").unwrap().checks(), Checks::Nothing);
        assert_eq!(take("sslmode=require").unwrap().checks(), Checks::Nothing);
        assert_eq!(take("sslmode=require&sslrootcert=ca.pem").unwrap().checks(), Checks::Authority);
        assert_eq!(take("sslmode=verify-ca&sslrootcert=ca.pem").unwrap().checks(), Checks::Authority);
        assert_eq!(take("sslmode=verify-full&sslrootcert=ca.pem").unwrap().checks(), Checks::Name);
        assert_eq!(take("sslrootcert=system").unwrap().mode, Mode::VerifyFull);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (query, why) in [
            ("sslmode=on", "known are disable, allow"),
            ("sslmode=require&sslrootcert=system", "verify-full"),
            ("sslcert=a", "without sslkey"),
            ("sslkey=a", "without sslcert"),
        ] {
            let error = take(query).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_the_url_does_not_say_comes_from_elsewhere() {
        let url = Url::parse("x://db/x?sslrootcert=ca.pem").unwrap();
        let elsewhere = |key: &str| Some(if key == "sslmode" { "verify-ca" } else { "elsewhere" }.to_owned());
        let tls = Tls::take(&url, elsewhere, Mode::Prefer, Duration::ZERO).unwrap();
        assert_eq!((tls.mode, tls.roots), (Mode::VerifyCa, Some(Roots::File("ca.pem".into()))));
        assert_eq!(tls.identity.unwrap().key, Path::new("elsewhere"));
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let here = tempfile::tempdir().unwrap();
        let empty = here.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        for query in [
            format!("sslmode=verify-ca&sslrootcert={}", empty.display()),
            format!("sslcert={0}&sslkey={0}", empty.display()),
        ] {
            let error = take(&query).unwrap().config().unwrap_err();
            assert!(error.message.contains("empty.pem contains no certificate"), "{error:?}");
        }
        let missing = take("sslmode=verify-ca&sslrootcert=/no/such/file").unwrap().config().unwrap_err();
        assert_eq!(missing.message, "sslrootcert /no/such/file cannot be read: no such file");
    }
}
