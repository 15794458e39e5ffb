//! What a process was started with, and what keeps it from a file of its own: the umask, modes, the limit on the size of files.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, mem};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::unistd::geteuid;

/// The umask, where /proc tells it.
pub(super) fn umask() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let text = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(text.trim(), 8).ok()
}

/// Finds what is ours on the way to a file, or the file itself, and has a mode that keeps us out; the nearest, with its mode.
pub(super) fn shut(path: &Path) -> Option<(PathBuf, u32)> {
    // Into the last directory we write, and the others we only pass.
    let mut of_directory = 0o300;
    let mut there = path.ancestors().filter_map(|place| Some((place, fs::metadata(place).ok()?)));
    there.find_map(|(place, data)| {
        let needed = if data.is_dir() { mem::replace(&mut of_directory, 0o100) } else { 0o600 };
        let is_shut = data.uid() == geteuid().as_raw() && data.mode() & needed != needed;
        is_shut.then(|| (place.to_owned(), data.mode() & 0o7777))
    })
}

/// How many bytes a file may have that we write, if there is a limit.
pub(super) fn largest_file() -> Option<u64> {
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE).ok()?;
    (limit != RLIM_INFINITY).then_some(limit)
}
