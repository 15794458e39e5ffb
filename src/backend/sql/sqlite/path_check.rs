//! Refuses a path at which no database of locks can be. SQLite keeps its log beside the file,
//! under the file's name: a file with two names has two logs, whose writers do not see each other.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, StatxAttributes, StatxFlags, statx};

use super::mount;
use crate::lock::BackendError;

/// Describes what is at a path, which need not be a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathEntry {
    kind: FileType,
    links: u32,
    is_mount: bool,
}

impl PathEntry {
    /// Looks up a path without following a symbolic link; returns `None` if nothing is there or the lookup fails.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let asked = StatxFlags::TYPE | StatxFlags::NLINK;
        match statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, asked) {
            Ok(found) => {
                let known = found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
                let is_root = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
                // Linux before 5.8 does not report mount points.
                let is_mount = if known { is_root } else { mount::is_point(path) };
                Some(Self { kind: FileType::from_raw_mode(found.stx_mode.into()), links: found.stx_nlink, is_mount })
            }
            Err(rustix::io::Errno::NOENT) => None,
            // The call is forbidden, as in some containers, or unknown to the kernel.
            Err(_) => {
                let data = fs::symlink_metadata(path).ok()?;
                let links = u32::try_from(data.nlink()).unwrap_or(u32::MAX);
                Some(Self { kind: FileType::from_raw_mode(data.mode()), links, is_mount: mount::is_point(path) })
            }
        }
    }

    pub(crate) fn is_symbolic_link(self) -> bool {
        self.kind == FileType::Symlink
    }

    /// Refuses an entry that is not a file, and a file that has, or may have, another name. Opening refuses a
    /// directory.
    pub(crate) fn refuse(self, path: &Path) -> Result<(), BackendError> {
        let kind = match self.kind {
            FileType::Fifo => "a FIFO",
            FileType::Socket => "a socket",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            _ => return self.refuse_second_name(path),
        };
        Err(BackendError::permanent(format!("is {kind}, not a file"))
            .hint("name a file; shedlock creates it if it does not exist"))
    }

    fn refuse_second_name(self, path: &Path) -> Result<(), BackendError> {
        if self.kind != FileType::RegularFile {
            return Ok(());
        }
        if self.is_mount {
            let message = "the file itself is mounted there, so other processes use another log";
            return Err(BackendError::permanent(message)
                .hint("mount the file's directory instead, in each container that uses the lock"));
        }
        if self.links > 1 {
            let (path, links) = (path.display(), self.links);
            let message = format!("the file has {links} names (hard links), each with a log of its own");
            return Err(BackendError::permanent(message).hint(format!(
                "`find DIRECTORY -xdev -samefile {path}` lists them; remove all but the one that jobs use"
            )));
        }
        Ok(())
    }
}
