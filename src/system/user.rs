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
    /// The primary group.
    group: u32,
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
pub(crate) fn name_of(user: u32) -> String {
    entry(Uid::from_raw(user)).map_or_else(|| user.to_string(), |entry| entry.name)
}

/// Returns whether a path exists and belongs to another user.
pub(crate) fn is_anothers(path: &Path, ours: Uid) -> bool {
    path.metadata().is_ok_and(|data| data.uid() != ours.as_raw())
}

/// Returns whether a group is the private one of a user, as many distributions make one for each: it is the user's primary
/// group, and nobody else is in it.
pub(crate) fn is_private_group(group: u32, user: u32) -> bool {
    let [passwd, groups] = ["/etc/passwd", "/etc/group"].map(|path| fs::read(path).unwrap_or_default());
    is_alone(&passwd, &groups, group, user)
}

fn is_alone(passwd: &[u8], groups: &[u8], group: u32, user: u32) -> bool {
    let Some(own) = find(passwd, Uid::from_raw(user)).filter(|own| own.group == group) else { return false };
    let mut others = entries(passwd).filter(|(number, _)| *number != user).map(|(_, entry)| entry.group);
    let mut members = lines(groups).filter_map(|fields| match fields[..] {
        [_, _, number, members, ..] if parsed(number) == Some(group) => Some(members),
        _ => None,
    });
    let is_own = |member: &[u8]| member.is_empty() || member == own.name.as_bytes();
    members.clone().next().is_some()
        && members.all(|members| members.split(|byte| *byte == b',').all(is_own))
        && others.all(|other| other != group)
}

fn entry(user: Uid) -> Option<Entry> {
    find(&fs::read("/etc/passwd").ok()?, user)
}

fn find(passwd: &[u8], user: Uid) -> Option<Entry> {
    entries(passwd).find_map(|(number, entry)| (number == user.as_raw()).then_some(entry))
}

/// Returns the users, each with its number.
fn entries(passwd: &[u8]) -> impl Iterator<Item = (u32, Entry)> {
    lines(passwd).filter_map(|fields| {
        let [name, _, number, group, _, home, ..] = fields[..] else { return None };
        let name = str::from_utf8(name).ok().filter(|name| !name.is_empty())?.to_owned();
        let home = OsString::from_vec(home.to_vec()).into();
        Some((parsed(number)?, Entry { name, group: parsed(group)?, home }))
    })
}

fn lines(text: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> + Clone {
    text.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b':').collect())
}

fn parsed(number: &[u8]) -> Option<u32> {
    str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_whole_line_with_the_users_number_counts() {
        let passwd = b"# 7\nshort:x:7\n:x:7:7::/nameless:/bin/sh\nada:x:7:8:Ada L.:/home/ada:/bin/sh\nother:x:7:7::/:\n+::::::\n";
        let entry = |name: &str, home: &str| Some(Entry { name: name.to_owned(), group: 8, home: home.into() });
        assert_eq!(find(passwd, Uid::from_raw(7)), entry("ada", "/home/ada"));
        assert_eq!(find(passwd, Uid::from_raw(8)), None);
    }

    #[test]
    fn a_private_group_has_one_member() {
        let passwd = b"root:x:0:0::/:\nada:x:7:7::/:\nbob:x:8:8::/:\neve:x:9:8::/:\nliz:x:10:100::/:\n";
        let groups = b"root:x:0:\nada:x:7:ada\nbob:x:8:\nstaff:x:50:ada\nusers:x:100:ada,liz\n";
        let is_private = |group, user| is_alone(passwd, groups, group, user);
        assert!(is_private(7, 7) && is_private(0, 0));
        // Another's primary group; not the user's own; with other members; without an entry; of a user without one.
        for (group, user) in [(8, 8), (50, 7), (100, 10), (7, 8), (11, 11)] {
            assert!(!is_private(group, user), "{group} {user}");
        }
        assert!(!is_alone(passwd, b"ada:x:7:bob\n", 7, 7) && !is_alone(passwd, b"", 7, 7));
    }
}
