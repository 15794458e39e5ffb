//! TLS by the names of shedlock's other backends (`sslmode`, `sslrootcert`, `sslcert`, `sslkey`), for a driver that reads its
//! certificates from files and does not say which of them is wrong.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use mongodb::options::TlsOptions;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use shedlock_provider::StoreError;

use crate::errors::error_text;
use crate::url::Url;

/// The longest file in bytes.
const MAX_BYTES: usize = 1 << 20;
/// The part of a request's time for reading one file, so that the reason is reported before the request is given up.
const FILE_TIME_SHARE: f64 = 0.75;
const MODES: [&str; 3] = ["disable", "require", "verify-full"];
/// Files in which distributions keep all authorities; the first that has any counts.
const AUTHORITY_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Holds the TLS parameters of a URL whose connections use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    /// False: any certificate will do.
    pub(crate) verifies: bool,
    /// The file of the trusted authorities; `None` are the system's.
    roots: Option<PathBuf>,
    /// The files of the client's certificate and its key.
    identity: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// The names of the parameters.
    pub(crate) const PARAMETERS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

    /// Takes the parameters from a URL; `None` for connections without TLS. `by_default` says whether it is used if none of
    /// them is there; if it is not and a file is named, everything is verified.
    pub(crate) fn take(url: &mut Url, by_default: bool) -> Result<Option<Self>, String> {
        let mode = url.take("sslmode");
        let named = url.take("sslrootcert");
        let identity = match (url.take("sslcert"), url.take("sslkey")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (Some(_), None) => return Err("has sslcert without sslkey".to_owned()),
            (None, Some(_)) => return Err("has sslkey without sslcert".to_owned()),
        };
        let mode = match mode.as_deref() {
            Some(mode) if MODES.contains(&mode) => mode,
            Some(mode) => return Err(format!("has sslmode={mode}; known are {}", MODES.join(", "))),
            None if by_default || named.is_some() || identity.is_some() => "verify-full",
            None => "disable",
        };
        let roots = match named.as_deref() {
            Some("system") if mode != "verify-full" => {
                return Err("has sslrootcert=system, which needs sslmode=verify-full: \
                            anybody can get a certificate from a public authority"
                    .to_owned());
            }
            Some("system") => None,
            path => path.map(PathBuf::from),
        };
        // Named authorities are verified against in every mode, as libpq does.
        let verifies = mode == "verify-full" || roots.is_some();
        Ok((mode != "disable").then_some(Self { verifies, roots, identity }))
    }

    pub(crate) fn has_certificate(&self) -> bool {
        self.identity.is_some()
    }

    /// Reads the files within a part of this time. Returns the driver's options, with the files that it reads.
    pub(crate) fn options(&self, limit: Duration) -> Result<(TlsOptions, Vec<File>), StoreError> {
        let limit = limit.mul_f64(FILE_TIME_SHARE);
        let mut files = Vec::new();
        let mut file = |pem: &[u8]| {
            let file = in_memory(pem).map_err(|error| {
                StoreError::permanent(format!("TLS cannot be set up: no file in memory: {}", error_text(&error)))
            })?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            files.push(file);
            Ok::<_, StoreError>(path)
        };
        let authorities = match &self.roots {
            Some(path) => Some(authorities(path, limit)?),
            None if self.verifies => system_authorities(limit),
            None => None,
        };
        let identity =
            self.identity.as_ref().map(|(certificate, key)| identity(certificate, key, limit)).transpose()?;
        let mut options = TlsOptions::default();
        options.allow_invalid_certificates = Some(!self.verifies);
        options.ca_file_path = authorities.map(|pem| file(&pem)).transpose()?;
        options.cert_key_file_path = identity.map(|pem| file(&pem)).transpose()?;
        Ok((options, files))
    }
}

/// Returns the text of a file of authorities.
fn authorities(path: &Path, limit: Duration) -> Result<Vec<u8>, StoreError> {
    let pem = read_named("sslrootcert", path, limit)?;
    let mut store = rustls::RootCertStore::empty();
    match store.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).flatten()) {
        (0, _) => Err(StoreError::permanent(format!("sslrootcert {} contains no certificate", path.display()))
            .hint("it must be a PEM file, which begins with -----BEGIN CERTIFICATE-----")),
        _ => Ok(pem),
    }
}

/// Returns a text with the client's certificate and its key, which fit each other.
fn identity(certificate: &Path, key: &Path, limit: Duration) -> Result<Vec<u8>, StoreError> {
    let chain_pem = read_named("sslcert", certificate, limit)?;
    let key_pem = read_named("sslkey", key, limit)?;
    let chain = CertificateDer::pem_slice_iter(&chain_pem).collect::<Result<Vec<_>, _>>();
    let Some(chain) = chain.ok().filter(|chain| !chain.is_empty()) else {
        return Err(StoreError::permanent(format!("sslcert {} contains no certificate", certificate.display())));
    };
    let own_key = PrivateKeyDer::from_pem_slice(&key_pem).map_err(|_| {
        StoreError::permanent(format!("sslkey {} contains no usable key", key.display()))
            .hint("it must be in PEM and without a passphrase")
    })?;
    match CertifiedKey::from_der(chain, own_key, &ring::default_provider()) {
        Ok(_) => Ok([chain_pem, b"\n".to_vec(), key_pem].concat()),
        Err(error) => {
            let (path, key) = (certificate.display(), key.display());
            let error = match error {
                rustls::Error::InconsistentKeys(_) => format!("{key} is not the key of {path}"),
                error => format!("the client certificate {path} cannot be used: {error}"),
            };
            Err(StoreError::permanent(error).hint("sslkey must be the key of the certificate in sslcert"))
        }
    }
}

/// Returns the system's authorities, or those that OpenSSL's variables name; `None` if there are none, for those that the
/// driver brings along.
fn system_authorities(limit: Duration) -> Option<Vec<u8>> {
    let named = |variable| env::var_os(variable).filter(|value| !value.is_empty());
    let pem = match (named("SSL_CERT_FILE"), named("SSL_CERT_DIR")) {
        (None, None) => {
            AUTHORITY_FILES.iter().map(|path| certificates(Path::new(path), limit)).find(|pem| !pem.is_empty())
        }
        (file, directories) => {
            let mut paths: Vec<PathBuf> = file.map(PathBuf::from).into_iter().collect();
            for directory in directories.iter().flat_map(env::split_paths) {
                paths.extend(fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()));
            }
            Some(paths.iter().flat_map(|path| certificates(path, limit)).collect())
        }
    };
    pem.filter(|pem| !pem.is_empty())
}

/// Returns the usable certificates in a file, as PEM; none if it is no file.
fn certificates(path: &Path, limit: Duration) -> Vec<u8> {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    let pem = fs::metadata(path).ok().filter(fs::Metadata::is_file).and_then(|_| read(path, limit).ok());
    let pem = pem.unwrap_or_default();
    match pem.windows(BEGIN.len()).any(|part| part == BEGIN) {
        true => [pem, b"\n".to_vec()].concat(),
        false => Vec::new(),
    }
}

fn read_named(parameter: &str, path: &Path, limit: Duration) -> Result<Vec<u8>, StoreError> {
    read(path, limit).map_err(|error| {
        let (why, hint) = match error.kind() {
            ErrorKind::NotFound => ("no such file".to_owned(), None),
            ErrorKind::IsADirectory => ("it is a directory".to_owned(), None),
            ErrorKind::TimedOut => (
                "its end did not come in time".to_owned(),
                Some("it is a pipe or a device that is kept open, or into which nobody writes: name a file"),
            ),
            ErrorKind::FileTooLarge => (
                format!("it has more than {MAX_BYTES} bytes"),
                Some("check the path: no certificate is as long as that"),
            ),
            _ => (error_text(&error), None),
        };
        let error = StoreError::permanent(format!("{parameter} {} cannot be read: {why}", path.display()));
        StoreError { hint: hint.map(str::to_owned), ..error }
    })
}

/// Reads a file to its end, whatever it is: a FIFO into which nobody writes and a device without an end are left.
fn read(path: &Path, limit: Duration) -> io::Result<Vec<u8>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let deadline = Instant::now() + limit;
    // A FIFO that has no writer yet reads as if it were at its end.
    let mut is_ready = file.metadata()?.is_file();
    let mut bytes = Vec::new();
    loop {
        if !is_ready {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut files = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)];
            match poll(&mut files, Timespec::try_from(left).ok().as_ref()) {
                Ok(0) => return Err(ErrorKind::TimedOut.into()),
                Err(rustix::io::Errno::INTR) => continue,
                polled => polled?,
            };
        }
        let room = (MAX_BYTES + 1).saturating_sub(bytes.len());
        match (&file).take(room as u64).read_to_end(&mut bytes) {
            Ok(_) if bytes.len() > MAX_BYTES => return Err(ErrorKind::FileTooLarge.into()),
            Ok(_) => return Ok(bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => is_ready = false,
            Err(error) => return Err(error),
        }
    }
}

/// Returns a file with this text: the system's authorities may be many files, and a client's certificate and its key have to
/// be in one.
fn in_memory(text: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("certificates", MemfdFlags::CLOEXEC)?);
    file.write_all(text)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);

    fn take(query: &str) -> Result<Option<Tls>, String> {
        Tls::take(&mut Url::parse(&format!("mongodb://db/x?{query}")).unwrap(), false)
    }

    #[test]
    fn the_parameters_mean_what_they_mean_to_libpq() {
        let verifies = |query| take(query).unwrap().map(|tls| tls.verifies);
        assert_eq!([verifies(""), verifies("sslmode="), verifies("sslmode=disable")], [None; 3]);
        assert_eq!(verifies("sslmode=require"), Some(false));
        for query in
            ["sslmode=require&sslrootcert=ca.pem", "sslmode=verify-full", "sslrootcert=system", "sslrootcert=ca.pem"]
        {
            assert_eq!(verifies(query), Some(true), "{query}");
        }
        assert_eq!(take("sslrootcert=system").unwrap().unwrap().roots, None);
        assert!(take("sslcert=a&sslkey=b").unwrap().unwrap().has_certificate());
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (query, why) in [
            ("sslmode=prefer", "known are disable, require, verify-full"),
            ("sslmode=require&sslrootcert=system", "verify-full"),
            ("sslcert=a", "without sslkey"),
            ("sslkey=a", "without sslcert"),
        ] {
            let error = take(query).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let here = tempfile::tempdir().unwrap();
        let empty = here.path().join("empty.pem");
        fs::write(&empty, "").unwrap();
        let fifo = here.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        let (empty, fifo, here) = (empty.display(), fifo.display(), here.path().display());
        for (query, said) in [
            (format!("sslrootcert={empty}"), "empty.pem contains no certificate"),
            (format!("sslcert={empty}&sslkey={empty}"), "empty.pem contains no certificate"),
            ("sslrootcert=/no/such/file".to_owned(), "sslrootcert /no/such/file cannot be read: no such file"),
            (format!("sslrootcert={here}"), "cannot be read: it is a directory"),
            (format!("sslrootcert={fifo}"), "fifo cannot be read: its end did not come in time"),
            ("sslrootcert=/dev/zero".to_owned(), "/dev/zero cannot be read: it has more than 1048576 bytes"),
        ] {
            let error = take(&query).unwrap().unwrap().options(LIMIT).unwrap_err();
            assert!(error.error.contains(said), "{error:?}");
        }
    }

    #[test]
    fn a_certificate_and_its_key_are_passed_on_in_one_file() {
        let files = servers::certificates();
        let with = |key: &str| {
            let query = format!("sslrootcert={}&sslcert={}&sslkey={key}", files.authority(), files.client());
            take(&query).unwrap().unwrap().options(LIMIT)
        };
        let (options, open) = with(&files.client_key()).unwrap();
        assert_eq!((open.len(), options.allow_invalid_certificates), (2, Some(false)));
        let both = fs::read_to_string(options.cert_key_file_path.unwrap()).unwrap();
        assert!(both.contains("BEGIN CERTIFICATE") && both.contains("PRIVATE KEY"), "{both}");
        let error = with(&files.server_key()).unwrap_err();
        assert!(error.error.contains("is not the key of"), "{error:?}");
    }
}
