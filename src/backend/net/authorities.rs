//! The system's certificate authorities, for servers whose URL names none.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::system::file::Input;

/// Files in which distributions keep all authorities; the first that has any counts.
const AUTHORITY_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
const END: &[u8] = b"-----END CERTIFICATE-----";

/// Returns the system's authorities in PEM, without the unusable ones; `None` if there are none. The first call reads
/// them: reading takes longer than connecting, and every connection attempt needs them.
pub(crate) fn system_authorities() -> Option<&'static [u8]> {
    static READ: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    READ.get_or_init(read).as_deref()
}

fn read() -> Option<Vec<u8>> {
    let named = |variable| env::var_os(variable).filter(|value| !value.is_empty());
    let pem = match (named("SSL_CERT_FILE"), named("SSL_CERT_DIR")) {
        (None, None) => AUTHORITY_FILES.iter().map(|path| usable(Path::new(path))).find(|pem| !pem.is_empty())?,
        (file, directories) => {
            named_files(file.as_deref(), directories.as_deref()).iter().flat_map(|path| usable(path)).collect()
        }
    };
    (!pem.is_empty()).then_some(pem)
}

/// Returns the file, and all files in the colon-separated directories, as OpenSSL does.
fn named_files(file: Option<&OsStr>, directories: Option<&OsStr>) -> Vec<PathBuf> {
    let mut files: Vec<_> = file.map(PathBuf::from).into_iter().collect();
    for directory in directories.into_iter().flat_map(env::split_paths) {
        files.extend(directory.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()));
    }
    files
}

/// Returns the usable certificates of a file, of a very long one those at its beginning; the drivers reject a file with one
/// unusable certificate. Skips a path that is no file.
fn usable(path: &Path) -> Vec<u8> {
    let input = Input::open(path).ok().filter(Input::is_regular);
    let text = input.and_then(|input| input.read_start(Duration::ZERO).ok()).unwrap_or_default();
    blocks(&text).filter(|block| is_usable(block)).flat_map(|block| [block, b"\n"].concat()).collect()
}

/// Splits a text into its certificates, by lines. A truncated one ends where the next begins.
fn blocks(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let find = |text: &[u8], what: &[u8]| text.windows(what.len()).position(|part| part == what);
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let block = &rest[find(rest, BEGIN)?..];
            let inner = &block[BEGIN.len()..];
            let next = find(inner, BEGIN).map_or(block.len(), |at| BEGIN.len() + at);
            rest = &block[next..];
            if let Some(end) = find(&block[..next], END) {
                return Some(&block[..end + END.len()]);
            }
        }
    })
}

fn is_usable(block: &[u8]) -> bool {
    CertificateDer::from_pem_slice(block).is_ok_and(|certificate| RootCertStore::empty().add(certificate).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_cut_short_takes_no_other_with_it() {
        let [begin, end] = [BEGIN, END].map(|mark| String::from_utf8_lossy(mark));
        let text = format!("# one\n{begin}\ncut\n{begin}\nwhole\n{end}\nbetween\n{begin}\nlast\n{end}\n{begin}\n");
        let found: Vec<_> = blocks(text.as_bytes()).map(String::from_utf8_lossy).collect();
        assert_eq!(found, [format!("{begin}\nwhole\n{end}"), format!("{begin}\nlast\n{end}")]);
        assert!(!is_usable(found[0].as_bytes()));
    }

    #[test]
    fn the_file_and_all_files_of_all_directories_are_read() {
        let here = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| here.path().join(name));
        for directory in [&one, &two] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("ca.pem"), "").unwrap();
        }
        let both = env::join_paths([&one, Path::new("/no/such/directory"), &two]).unwrap();
        let files = named_files(Some(OsStr::new("/a.pem")), Some(&both));
        assert_eq!(files, [PathBuf::from("/a.pem"), one.join("ca.pem"), two.join("ca.pem")]);
    }
}
