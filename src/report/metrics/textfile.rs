//! Updates the file of one job for Prometheus' node_exporter. File access may block.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::libc;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::counters::{Counters, Entry};
use crate::lock::LockName;
use crate::system::Timestamp;

/// The longest lock name within a file name: with prefix and suffix, a file name has at most 255 bytes.
const MAX_NAME_LENGTH: usize = 200;
/// The longest file that is read; those of shedlock are shorter.
const MAX_FILE_SIZE: u64 = 65_536;

/// The file with one job's metrics.
pub(crate) struct Textfile {
    directory: PathBuf,
    name: LockName,
}

/// The content of the file before an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// An earlier run's metrics, or nothing.
    Metrics,
    /// Other content, which has been replaced.
    Foreign,
}

impl Textfile {
    pub(crate) fn new(directory: PathBuf, name: LockName) -> Self {
        Self { directory, name }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(format!("shedlock-{}.prom", encoded(&self.name)))
    }

    /// Adds the state of a run to the file, atomically: readers see the old or the new file, and a kill leaves the old one.
    ///
    /// Runs lock the directory itself, so no lock file is needed. Nothing is synced to disk: after a power cut the counters may
    /// start over, which Prometheus handles.
    pub(crate) fn enter(&self, entry: &Entry) -> io::Result<Found> {
        let directory = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(&self.directory)?;
        let _lock = Flock::lock(directory, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?;
        let now = Timestamp::now();
        let (mut counters, found) = match self.read()? {
            None => (Counters::new(now), Found::Metrics),
            Some(text) => match Counters::read(&text, &self.name) {
                Some(counters) => (counters, Found::Metrics),
                None => (Counters::new(now), Found::Foreign),
            },
        };
        counters.forget_future(now);
        counters.enter(entry);
        self.write(&counters.text(&self.name))?;
        Ok(found)
    }

    /// Reads the file; empty if it is not a regular file.
    fn read(&self) -> io::Result<Option<String>> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(self.path()) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            // Not a symbolic link, which could lead anywhere.
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Ok(Some(String::new())),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        if file.metadata()?.is_file() {
            file.take(MAX_FILE_SIZE).read_to_end(&mut bytes)?;
        }
        Ok(Some(String::from_utf8(bytes).unwrap_or_default()))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        // One draft name for all runs, so that the draft of a killed run is soon overwritten. It does not end in `.prom`.
        let draft = self.directory.join(format!(".shedlock-{}.prom.tmp", encoded(&self.name)));
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(&draft)?;
        let written = file
            .write_all(text.as_bytes())
            // node_exporter runs as another user.
            .and_then(|()| file.set_permissions(Permissions::from_mode(0o644)))
            .and_then(|()| fs::rename(&draft, self.path()));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }
}

/// The characters that are escaped in a file name: all but letters, digits, `.`, `_` and `-`.
const UNSAFE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b'-');

/// Returns the lock's name as part of a file name: other characters than letters, digits, `.`, `_` and `-` become `%` and two
/// digits for each byte. A very long name is cut and ends in a hash of the whole; it stays longer than any name that is not
/// cut.
fn encoded(name: &LockName) -> String {
    let name = name.as_str();
    let encoded = utf8_percent_encode(name, UNSAFE).to_string();
    if encoded.len() <= MAX_NAME_LENGTH {
        encoded
    } else {
        format!("{}-{:032x}", &encoded[..MAX_NAME_LENGTH], hash(name))
    }
}

/// Returns the 128-bit FNV-1a hash, which is the same in every version, unlike the standard library's.
fn hash(text: &str) -> u128 {
    let fold = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, fold)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> String {
        let path = Textfile::new(PathBuf::from("/d"), LockName::new(name).unwrap()).path();
        path.to_str().unwrap().strip_prefix("/d/").unwrap().to_owned()
    }

    #[test]
    fn the_files_name_has_no_more_than_letters_digits_and_three_marks() {
        assert_eq!(file("nightly-report_2.0"), "shedlock-nightly-report_2.0.prom");
        assert_eq!(file("../a b"), "shedlock-..%2Fa%20b.prom");
        assert_eq!(file("50%"), "shedlock-50%25.prom");
        assert_eq!(file("ü"), "shedlock-%C3%BC.prom");
    }

    #[test]
    fn two_names_never_share_a_file_and_none_is_too_long() {
        let long = "\u{1f512}".repeat(63);
        let names =
            [format!("{long}a"), format!("{long}b"), long, "ü".repeat(64), "a/b".to_owned(), "a%2Fb".to_owned()];
        let mut files: Vec<String> = names.iter().map(|name| file(name)).collect();
        for file in &files {
            assert!(file.len() + "..tmp".len() <= 255, "{file}");
        }
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), names.len());
        assert_eq!(hash("foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }
}
