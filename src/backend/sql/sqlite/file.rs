//! The file of a SQLite database: finds it, describes it, and creates it whole.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::libc;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, LinkatFlags, access, geteuid, linkat};
use rusqlite::Connection;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::checkpoint::Log;
use super::mount;
use super::path_check::PathEntry;
use crate::lock::BackendError;

/// Number of symbolic links that are followed, as many as the kernel does.
const MAX_LINKS: usize = 40;

/// Directory that belongs to the system and to no single user.
const SYSTEM_DIRECTORY: &str = "/var";

/// Says whether the file's directory may be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directory {
    MustExist,
    Create,
}

/// Names the file of a database, which may not exist yet.
pub(crate) struct File {
    path: PathBuf,
    /// Permission bits for a file that shedlock creates; `None` means 0600.
    mode: Option<u32>,
    directory: Directory,
}

/// Parses an octal mode such as `0660`; the error text is the end of a sentence.
pub(crate) fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode & !0o666 == 0 && mode & 0o600 == 0o600 => Ok(mode),
        _ => Err(format!("has mode={text}; write an octal file mode such as 0660")),
    }
}

impl File {
    /// Names a file, by a path that may be relative to the current directory.
    pub(crate) fn new(path: PathBuf, mode: Option<u32>, directory: Directory) -> Self {
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { path, mode, directory }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces a symbolic link by its target, which need not exist yet: SQLite puts its log beside the target and
    /// not beside the link. Refuses a path that cannot be a database of locks.
    pub(crate) fn follow_links(&mut self) -> Result<(), BackendError> {
        for _ in 0..MAX_LINKS {
            let Some(entry) = PathEntry::at(&self.path) else { return Ok(()) };
            if !entry.is_symbolic_link() {
                return entry.refuse(&self.path);
            }
            let Ok(target) = fs::read_link(&self.path) else { return Ok(()) };
            self.path = self.directory().join(target);
        }
        Ok(())
    }

    /// Returns the URL of this file, valid from any directory.
    pub(crate) fn address(&self) -> String {
        let path = self.path.to_string_lossy().replace('%', "%25").replace('?', "%3F");
        format!("sqlite:{path}")
    }

    pub(crate) fn is_missing(&self) -> bool {
        matches!(fs::symlink_metadata(&self.path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Returns true if the modes and the file system let this process write to the file.
    pub(crate) fn is_writable(&self) -> bool {
        access(&self.path, AccessFlags::R_OK | AccessFlags::W_OK).is_ok()
    }

    /// Returns the write-ahead log beside the file.
    pub(crate) fn log(&self) -> Log {
        Log(self.beside("-wal"))
    }

    /// Refuses a file on a network file system, where locks between hosts cannot be relied on.
    pub(crate) fn refuse_network(&self) -> Result<(), BackendError> {
        match mount::network(&self.path, self.directory()) {
            None => Ok(()),
            Some(name) => Err(BackendError::permanent(format!(
                "SQLite is refused on the network file system {name}, where its locks do not hold"
            ))
            .hint("name a file on a local disk; several hosts need a server as backend")),
        }
    }

    /// Returns the type of the file's file system, or of the one it would be on, as mount(8) names it.
    pub(crate) fn file_system(&self) -> Option<String> {
        mount::kind(&self.path)
    }

    /// Returns the free bytes of its file system that this process may use.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        let stat = statvfs(&self.path).ok().or_else(|| statvfs(self.directory()).ok())?;
        Some(stat.blocks_available() * stat.fragment_size())
    }

    /// Returns the file's permission bits and the user id of its owner.
    pub(crate) fn mode_and_owner(&self) -> Option<(u32, u32)> {
        let data = fs::metadata(&self.path).ok()?;
        Some((data.mode() & 0o7777, data.uid()))
    }

    /// Creates the file, complete or not at all: runs `sql` in memory and moves the result into place. If several
    /// processes do so at once, one wins and the others use the winner's file.
    ///
    /// A database created in place could be seen half made, and switching a new file to WAL fails for a process that
    /// opens it at that moment.
    pub(crate) fn create(&self, sql: &str) -> Result<(), BackendError> {
        self.refuse_umask()?;
        if self.directory == Directory::Create {
            self.make_directory().map_err(|error| self.explain_creation_error(&error))?;
        }
        let image = image(sql).map_err(|error| self.explain_creation_error(&io::Error::other(error)))?;
        match self.put_into_place(&image) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(self.explain_creation_error(&error)),
            _ => Ok(()),
        }
    }

    /// Refuses to create a file or directory that its own user could not use and that would stay in the way. Modes do
    /// not restrict root.
    fn refuse_umask(&self) -> Result<(), BackendError> {
        let needed = match (self.directory, self.mode) {
            _ if geteuid().is_root() => 0,
            (Directory::Create, _) if !self.directory().exists() => 0o700,
            // A mode given in the URL is set whatever the umask is.
            (_, Some(_)) => 0,
            (_, None) => 0o600,
        };
        let Some(umask) = crate::system::umask().filter(|umask| umask & needed != 0) else { return Ok(()) };
        Err(BackendError::permanent(format!("with the umask {umask:04o} not even its owner could use it"))
            .hint("set another umask before shedlock, such as `umask 077`"))
    }

    /// Creates the directory for its user only. Missing directories above it are for all users if they are the
    /// system's: an empty container lacks even /var, and other programs may need it too. Those missing in a home
    /// belong to its user.
    fn make_directory(&self) -> io::Result<()> {
        let directory = self.directory();
        if let (true, Some(parent)) = (directory.starts_with(SYSTEM_DIRECTORY), directory.parent()) {
            DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
        }
        DirBuilder::new().recursive(true).mode(0o700).create(directory)
    }

    /// Writes the file without a name and then links it. Falls back to a temporary name, because some file systems
    /// lack unnamed files or link(2), and without /proc an unnamed file cannot be linked. The file never has two
    /// names, which other processes would refuse.
    fn put_into_place(&self, image: &[u8]) -> io::Result<()> {
        match self.make_unnamed(image) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => self.make_named(image),
            made => made,
        }
    }

    fn make_unnamed(&self, image: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).custom_flags(libc::O_TMPFILE).mode(self.new_mode()).open(self.directory())?;
        self.fill(&mut file, image)?;
        let source = format!("/proc/self/fd/{}", file.as_raw_fd());
        let here = nix::fcntl::AT_FDCWD;
        Ok(linkat(here, source.as_str(), here, &self.path, LinkatFlags::AT_SYMLINK_FOLLOW)?)
    }

    /// Writes the file under a random temporary name. Two containers that share the directory may share a pid as
    /// well, and overwriting the other's file would destroy a database that may already be in use.
    fn make_named(&self, image: &[u8]) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{:016x}.new", getrandom::u64().map_err(io::Error::other)?));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(self.new_mode()).open(&name)?;
        let made = self.fill(&mut file, image).and_then(|()| self.rename(Path::new(&name)));
        if made.is_err() {
            fs::remove_file(&name)?;
        }
        made
    }

    /// Renames the file, unless the target exists by now.
    fn rename(&self, from: &Path) -> io::Result<()> {
        match renameat_with(CWD, from, CWD, &self.path, RenameFlags::NOREPLACE) {
            Err(error) if error != rustix::io::Errno::EXIST => {}
            renamed => return Ok(renamed?),
        }
        // Most file systems in user space lack that flag. A lock on the directory then makes the processes take
        // turns.
        let directory = fs::File::open(self.directory())?;
        directory.try_lock()?;
        match self.is_missing() {
            true => fs::rename(from, &self.path),
            false => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    /// Returns the permission bits for a new file, before the umask.
    fn new_mode(&self) -> u32 {
        self.mode.unwrap_or(0o600)
    }

    fn fill(&self, file: &mut fs::File, image: &[u8]) -> io::Result<()> {
        file.write_all(image)?;
        if let Some(mode) = self.mode {
            // A mode given in the URL is not narrowed by the umask.
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        file.sync_all()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Fails if the directory is missing and shedlock would not create it, so that a listing reports that too.
    pub(crate) fn check_directory(&self) -> Result<(), BackendError> {
        match self.directory == Directory::MustExist && !self.directory().exists() {
            true => Err(self.explain_creation_error(&io::ErrorKind::NotFound.into())),
            false => Ok(()),
        }
    }

    /// Returns the path of a file beside this one, with `end` appended to its name.
    pub(crate) fn beside(&self, end: &str) -> PathBuf {
        let mut beside = self.path.clone().into_os_string();
        beside.push(end);
        beside.into()
    }
}

/// Returns a whole database in WAL mode, as the bytes of its file.
fn image(sql: &str) -> rusqlite::Result<Vec<u8>> {
    let mut memory = Connection::open_in_memory()?;
    memory.execute_batch(sql)?;
    let mut image = memory.serialize("main")?.to_vec();
    // The two format version bytes of the header; 2 is WAL.
    for version in image.iter_mut().skip(18).take(2) {
        *version = 2;
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal_and_lets_the_owner_in() {
        assert_eq!(parse_mode("0660"), Ok(0o660));
        assert_eq!(parse_mode("600"), Ok(0o600));
        for bad in ["0777", "0060", "rw", "", "660660"] {
            assert!(parse_mode(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_new_database_is_whole_and_in_wal_mode() {
        let directory = tempfile::tempdir().unwrap();
        let file = File::new(directory.path().join("a?b%.db"), None, Directory::MustExist);
        file.create("PRAGMA page_size = 1024; CREATE TABLE t (x)").unwrap();
        file.create("CREATE TABLE other (x)").unwrap();
        let mode: String =
            Connection::open(file.path()).unwrap().query_row("PRAGMA journal_mode", (), |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
        assert_eq!(fs::metadata(file.path()).unwrap().mode() & 0o777, 0o600);
        assert!(file.address().ends_with("/a%3Fb%25.db"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn of_many_that_make_the_file_under_another_name_first_one_wins_and_it_never_has_two_names() {
        for _ in 0..50 {
            let directory = tempfile::tempdir().unwrap();
            let file = File::new(directory.path().join("locks.db"), None, Directory::MustExist);
            let won = std::thread::scope(|scope| {
                let makers: Vec<_> = (0..4).map(|_| scope.spawn(|| file.make_named(b"image"))).collect();
                while file.is_missing() {}
                for _ in 0..100 {
                    PathEntry::at(file.path()).unwrap().refuse(file.path()).unwrap();
                }
                makers.into_iter().map(|maker| maker.join().unwrap()).filter(Result::is_ok).count()
            });
            assert_eq!(won, 1);
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        }
    }
}
