//! The user that shedlock runs as: the home directory, and the entry in /etc/passwd.
//!
//! The C library would also load the modules in /etc/nsswitch.conf. Modules built for another C library than the one linked in,
//! such as systemd's, crash this program when asked for an unknown user.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, geteuid};

/// A user's entry in /etc/passwd.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    home: PathBuf,
}

/// Returns the user's home directory. After sudo(8) HOME can be another user's: a file created there would be in that user's
/// way, and one found there cannot be trusted.
pub(crate) fn home() -> Option<PathBuf> {
    let ours = geteuid();
    let named = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && !is_anothers(home, ours));
    // In a user namespace, /etc/passwd has the home of the real root, who is another user there.
    let is_usable =
        |home: &PathBuf| home.metadata().is_ok_and(|data| data.is_dir() && [0, ours.as_raw()].contains(&data.uid()));
    named.or_else(|| entry(ours).map(|entry| entry.home).filter(is_usable))
}

/// Returns the name of the user that shedlock runs as.
pub(crate) fn name() -> Option<String> {
    entry(geteuid()).map(|entry| entry.name)
}

/// Returns the name of a user, or the number of one without a name.
#[cfg(feature = "sqlite")]
pub(crate) fn name_of(user: u32) -> String {
    entry(Uid::from_raw(user)).map_or_else(|| user.to_string(), |entry| entry.name)
}

/// Returns whether a path exists and belongs to another user.
pub(crate) fn is_anothers(path: &Path, ours: Uid) -> bool {
    path.metadata().is_ok_and(|data| data.uid() != ours.as_raw())
}

fn entry(user: Uid) -> Option<Entry> {
    find(&fs::read("/etc/passwd").ok()?, user)
}

fn find(passwd: &[u8], user: Uid) -> Option<Entry> {
    passwd.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        let [name, _, number, _, _, home, ..] = fields[..] else { return None };
        let number: u32 = str::from_utf8(number).ok()?.parse().ok()?;
        let name = str::from_utf8(name).ok().filter(|name| !name.is_empty())?.to_owned();
        (number == user.as_raw()).then(|| Entry { name, home: OsString::from_vec(home.to_vec()).into() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_whole_line_with_the_users_number_counts() {
        let passwd = b"# 7\nshort:x:7\n:x:7:7::/nameless:/bin/sh\nada:x:7:8:Ada L.:/home/ada:/bin/sh\nother:x:7:7::/:\n+::::::\n";
        let entry = |name: &str, home: &str| Some(Entry { name: name.to_owned(), home: home.into() });
        assert_eq!(find(passwd, Uid::from_raw(7)), entry("ada", "/home/ada"));
        assert_eq!(find(passwd, Uid::from_raw(8)), None);
    }
}
