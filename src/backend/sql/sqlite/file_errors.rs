//! Explains why the file cannot be created or used: file modes, the umask, the limit on file sizes, the disk.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io, mem};

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::unistd::{AccessFlags, access, geteuid};

use super::file::File;
use crate::lock::{BackendError, ErrorClass};
use crate::system::{error_text, user};

/// Bytes that one run adds to any of the files, and more.
const MAX_GROWTH: u64 = 64 * 1024;

impl File {
    /// Explains why the file could not be created.
    pub(crate) fn explain_creation_error(&self, error: &io::Error) -> BackendError {
        let directory = self.directory();
        let named = directory.display();
        match error.kind() {
            // `File::new` makes a path absolute unless the current directory is missing.
            io::ErrorKind::NotFound if self.path().is_relative() => {
                BackendError::permanent("the directory that shedlock was started in is gone")
                    .hint("name the file with its absolute path, sqlite:///DIRECTORY/FILE")
            }
            io::ErrorKind::NotFound if !directory.exists() => {
                BackendError::permanent(format!("the directory {named} does not exist"))
                    .hint(format!("create it with `mkdir -p -m 0700 {named}`"))
            }
            io::ErrorKind::WouldBlock => {
                BackendError::transient(format!("another process is making it, or has {named} locked"))
            }
            io::ErrorKind::PermissionDenied => self.explain_mode().unwrap_or_else(|| {
                BackendError::permanent(format!("no permission to create it in {named}")).hint(
                    "name a file of your own with --backend sqlite:PATH, or make the directory writable for this user",
                )
            }),
            io::ErrorKind::FileTooLarge if file_size_limit().is_some() => too_large(),
            _ => {
                let passes = matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EIO));
                let class = if passes { ErrorClass::Transient } else { ErrorClass::Permanent };
                BackendError::new(class, format!("it cannot be created: {}", error_text(error)))
            }
        }
    }

    /// Explains why SQLite may not read or write the file.
    pub(crate) fn explain_open_error(&self) -> BackendError {
        let (path, directory) = (self.path().display(), self.directory().display());
        let owner = match fs::metadata(self.path()) {
            Ok(data) => data.uid(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return BackendError::transient("the file is gone");
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return self.explain_mode().unwrap_or_else(|| {
                    BackendError::permanent("no permission to enter its directory")
                        .hint("run as a user who may, or name a file of your own with --backend sqlite:PATH")
                });
            }
            Err(error) => return BackendError::permanent(error_text(&error)),
        };
        if self.path().is_dir() {
            return BackendError::permanent("is a directory").hint("name a file in it");
        }
        match may_use(self.path()) {
            Err(Errno::EROFS) => BackendError::permanent("its file system is mounted read-only"),
            Err(_) => self.explain_mode().unwrap_or_else(|| {
                let owner = user::name_of(owner);
                BackendError::permanent(format!("no permission to read and write it; it belongs to user {owner}"))
                    .hint("run as that user, or share a file created with sqlite:PATH?mode=0660")
            }),
            Ok(()) if access(self.directory(), AccessFlags::W_OK).is_err() => {
                self.explain_mode().unwrap_or_else(|| {
                    let message = format!("no permission to write to {directory}, where its -wal and -shm files go");
                    BackendError::permanent(message)
                })
            }
            Ok(()) => {
                // Another user's process, such as root's, creates the files beside it before it gives them to their
                // owner.
                let may_use_all = ["-wal", "-shm"]
                    .iter()
                    .all(|end| matches!(may_use(&self.beside(end)), Ok(()) | Err(Errno::ENOENT)));
                let class = if may_use_all { ErrorClass::Transient } else { ErrorClass::Permanent };
                BackendError::new(class, "it cannot be opened or is read-only").hint(format!(
                    "check the modes of {path}, {path}-wal and {path}-shm, the free space, and the limit of open files"
                ))
            }
        }
    }

    /// Explains an I/O error. It is transient: space may be freed, or the disk may recover.
    pub(crate) fn explain_io_error(&self, error: &rusqlite::Error) -> BackendError {
        let sizes = ["", "-wal", "-shm"].map(|end| fs::metadata(self.beside(end)).map_or(0, |data| data.len()));
        let needed = sizes.into_iter().max().unwrap_or_default() + MAX_GROWTH;
        if file_size_limit().is_some_and(|limit| limit < needed) {
            return too_large();
        }
        BackendError::transient(error.to_string()).hint("the disk may be full or failing; see `dmesg` and `df`")
    }

    /// Explains that a file mode denies access to the user's own file or directory, if that is the reason. Checks the
    /// file and then the directories above it.
    fn explain_mode(&self) -> Option<BackendError> {
        // The last directory is written to; the others are only passed.
        let mut of_directory = 0o300;
        let mut there = self.path().ancestors().filter_map(|place| Some((place, fs::metadata(place).ok()?)));
        let (place, mode) = there.find_map(|(place, data)| {
            let needed = if data.is_dir() { mem::replace(&mut of_directory, 0o100) } else { 0o600 };
            let is_shut = data.uid() == geteuid().as_raw() && data.mode() & needed != needed;
            is_shut.then(|| (place.display(), data.mode() & 0o7777))
        })?;
        Some(
            BackendError::permanent(format!("the mode {mode:04o} of {place} gives its owner too few rights"))
                .hint(format!("chmod u+rwX {place}; it may have been created with another umask")),
        )
    }
}

fn may_use(path: &Path) -> nix::Result<()> {
    access(path, AccessFlags::R_OK | AccessFlags::W_OK)
}

/// Explains that the limit on file sizes is too small for the file or one beside it.
fn too_large() -> BackendError {
    let limit = file_size_limit().unwrap_or_default() / 1024;
    BackendError::permanent(format!("files are limited to {limit} KiB here, which is too little"))
        .hint("raise the limit with `ulimit -f`")
}

/// Returns the largest size, in bytes, of a file that this process may write; `None` without a limit.
fn file_size_limit() -> Option<u64> {
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE).ok()?;
    (limit != RLIM_INFINITY).then_some(limit)
}
