//! Writes the file that an option of a command names.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::output::print;
use crate::config::Mistake;
use crate::exit::Exit;
use crate::system::{error_text, trust};

/// Writes a file atomically; `-` is stdout.
pub(super) fn save(file: &str, text: &[u8]) -> anyhow::Result<Exit> {
    if file == "-" {
        return print(text);
    }
    replace(Path::new(file), text)
        .map_err(|error| Mistake::new(format!("{file} cannot be written: {}", error_text(&error))))?;
    Ok(Exit { code: 0, raise: None })
}

/// Replaces the target of a link, and writes to a device or a pipe in place. What another user could have put there is itself
/// replaced, if the directory allows it: their link could lead anywhere.
fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let mut target = file.to_owned();
    if trust::is_nobody_elses(file) {
        target = fs::canonicalize(file).unwrap_or(target);
        if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
            // For a directory this fails with the right error.
            return OpenOptions::new().write(true).open(&target)?.write_all(text);
        }
    }
    let name = target.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
    let draft: PathBuf = target.with_file_name(format!(".{name}.{}", std::process::id()));
    let before =
        fs::symlink_metadata(&target).ok().filter(|found| found.is_file() && found.uid() == geteuid().as_raw());
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&draft)?;
        if let Some(before) = &before {
            file.set_permissions(before.permissions())?;
        }
        file.write_all(text)?;
        fs::rename(&draft, &target)
    };
    // Reports the first error, not that of the removal.
    write().inspect_err(|_| drop(fs::remove_file(&draft)))
}
