//! The home directory of the user whom we run as.

use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User, geteuid};

/// Finds it. After sudo(8) HOME can be another user's: a file made there would be in that user's way, and one found there
/// is not to be trusted.
pub(crate) fn directory() -> Option<PathBuf> {
    let ours = geteuid();
    let named = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute() && !is_anothers(home, ours));
    named.or_else(|| User::from_uid(ours).ok()?.map(|user| user.dir).filter(|home| home.is_dir()))
}

/// Whether a path is there and belongs to somebody else.
pub(crate) fn is_anothers(path: &Path, ours: Uid) -> bool {
    path.metadata().is_ok_and(|data| data.uid() != ours.as_raw())
}
