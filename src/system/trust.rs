//! Judges whether somebody else could have written a file: the file itself, and each directory and symbolic link on the way to
//! it, because a user that may write a directory can put another file in the place of one in it.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::geteuid;
use rustix::io::Errno;

use super::user;
use crate::text;

/// The most symbolic links that are followed; the kernel's limit.
const MAX_LINKS: usize = 40;
/// In a directory with this bit, only its owner and that of an entry can remove or rename the entry.
const STICKY: u32 = 0o1000;
const GROUP: u32 = 0o020;
const EVERYBODY: u32 = 0o002;
/// The attribute of a file that gives more users rights than its mode says.
const ACCESS_LIST: &str = "system.posix_acl_access";
/// The directory where descriptors of processes look like files.
const PROC: &str = "/proc";

/// How a file was found, which decides the rules for it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found<'a> {
    /// Somebody named the file, and so trusts its owner and its group. What everybody may write is refused.
    Named,
    /// Nobody named the file: from this directory down, all must belong to shedlock or to root, and nobody else may write it.
    Below(&'a Path),
    /// Nobody named the file: the rules are those of `Below`, for a directory of the system. In a user namespace, its owner may
    /// be a user without a number.
    OfSystem(&'a Path),
}

/// The reason why a path is not trusted.
#[derive(Debug)]
pub(crate) struct Doubt {
    path: PathBuf,
    mode: u32,
    /// The owner, if that is the reason; otherwise it is the mode.
    owner: Option<u32>,
    /// The user that should be the owner.
    rightful: u32,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, mode) = (self.path.display(), self.mode & 0o7777);
        match self.owner {
            Some(owner) => write!(f, "{path} belongs to user {}, and its mode is {mode:04o}", user::name_of(owner)),
            None => write!(f, "other users may write to {path}, whose mode is {mode:04o}"),
        }
    }
}

impl Doubt {
    /// Returns the command that removes the reason, for a user who trusts the file as it is now; `None` if the directory is
    /// meant for everybody.
    pub(crate) fn remedy(&self) -> Option<String> {
        let path = self.path.to_string_lossy();
        let path = text::shell_word(&path);
        match self.owner {
            Some(_) => Some(format!("chown -h {} {path}", user::name_of(self.rightful))),
            None => (self.mode & STICKY == 0).then(|| format!("chmod go-w {path}")),
        }
    }
}

impl Found<'_> {
    /// Judges the way to a file; a missing part of it is not doubted.
    pub(crate) fn judge_way(self, path: &Path) -> Result<(), Doubt> {
        match self {
            Self::Named => Rules { strict: false, sticky: true, system: false }.follow(Path::new("/"), path),
            Self::Below(base) => Rules { strict: true, sticky: false, system: false }.follow(base, path),
            Self::OfSystem(base) => Rules { strict: true, sticky: false, system: true }.follow(base, path),
        }
    }

    /// Judges the file that was opened.
    pub(crate) fn judge_open(self, path: &Path, data: &Metadata) -> Result<(), Doubt> {
        let (strict, system) = (!matches!(self, Self::Named), matches!(self, Self::OfSystem(_)));
        Rules { strict, sticky: false, system }.judge(path, data, false).map(drop)
    }
}

/// Returns whether no other user could have put the file at this path, or the file that a link at this path leads to.
pub(crate) fn is_nobody_elses(path: &Path) -> bool {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().unwrap_or(&path);
    Rules { strict: true, sticky: true, system: false }.follow(directory, &path).is_ok()
}

/// Returns the parts of a path, the first one last.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).filter(|part| part != "/").collect()
}

/// The rules for each file, directory and link on the way.
struct Rules {
    /// All must belong to shedlock or to root, and no group may write it.
    strict: bool,
    /// A directory with the sticky bit may be everybody's.
    sticky: bool,
    /// The owner of the root directory counts as root.
    system: bool,
}

impl Rules {
    /// Follows a path below a directory, and judges all that it leads through.
    fn follow(mut self, base: &Path, path: &Path) -> Result<(), Doubt> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (mut here, mut left, mut links) = (base.to_owned(), parts(path.strip_prefix(base).unwrap_or(&path)), 0);
        let mut is_shared = match fs::metadata(base) {
            Ok(data) => self.judge(base, &data, false)?,
            Err(_) => return Ok(()),
        };
        while let Some(part) = left.pop() {
            let next = here.join(part);
            let Ok(data) = fs::symlink_metadata(&next) else { break };
            let next_is_shared = self.judge(&next, &data, is_shared)?;
            if !data.is_symlink() {
                (here, is_shared) = (next, next_is_shared);
                if here == Path::new(PROC) {
                    break;
                }
                continue;
            }
            links += 1;
            let Some(target) = fs::read_link(&next).ok().filter(|_| links <= MAX_LINKS) else { break };
            left.extend(parts(&target));
            if target.is_absolute() {
                (here, is_shared) = (PathBuf::from("/"), false);
                self.sticky = true;
            }
        }
        Ok(())
    }

    /// Judges an entry. Returns whether it is a directory that others may write to, but in which they can replace only what is
    /// theirs: then what is in it must be shedlock's or root's. `is_shared` says so of the directory that it is in.
    fn judge(&self, path: &Path, data: &Metadata, is_shared: bool) -> Result<bool, Doubt> {
        let doubt = |owner| self.doubt(path, data, owner);
        if (self.strict || is_shared) && !self.is_trusted(data.uid()) {
            return Err(doubt(Some(data.uid())));
        }
        // The mode of a link means nothing, and what is written to a device is not what is read from it. A file without a name
        // is reached by nobody but those to whom it was given.
        let kind = data.file_type();
        if kind.is_symlink() || kind.is_char_device() || !self.strict && data.nlink() == 0 {
            return Ok(false);
        }
        let is_open =
            data.mode() & EVERYBODY != 0 || self.strict && data.mode() & GROUP != 0 && !is_private(path, data);
        if !is_open {
            return Ok(false);
        }
        if !self.strict && (data.is_dir() || is_read_only(path)) {
            return Ok(data.is_dir() && data.mode() & STICKY != 0);
        }
        // As a ConfigMap of Kubernetes is mounted, whose directory has mode 0777.
        let is_kept = || self.sticky && data.mode() & STICKY != 0 || is_read_only(path);
        if data.is_dir() && is_kept() { Ok(true) } else { Err(doubt(None)) }
    }

    fn doubt(&self, path: &Path, data: &Metadata, owner: Option<u32>) -> Doubt {
        let rightful = if self.system { 0 } else { geteuid().as_raw() };
        Doubt { path: path.to_owned(), mode: data.mode(), owner, rightful }
    }

    fn is_trusted(&self, owner: u32) -> bool {
        let is_of_system = || fs::metadata("/").is_ok_and(|root| root.uid() == owner);
        owner == 0 || owner == geteuid().as_raw() || self.system && is_of_system()
    }
}

/// Returns whether only the owner is in the group, and no list gives others rights. Root's group is not root's alone: in
/// containers, programs of any user run in it.
fn is_private(path: &Path, data: &Metadata) -> bool {
    let has_list = || match rustix::fs::getxattr(path, ACCESS_LIST, &mut [0; 0]) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => false,
        Ok(_) | Err(_) => true,
    };
    data.uid() != 0 && user::is_private_group(data.gid(), data.uid()) && !has_list()
}

fn is_read_only(path: &Path) -> bool {
    statvfs(path).is_ok_and(|system| system.flags().contains(FsFlags::ST_RDONLY))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A home with a configuration, `home/.config/shedlock/config.toml`.
    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            let home = Self(tempfile::tempdir().unwrap());
            let directory = home.path("home/.config/shedlock");
            fs::create_dir_all(&directory).unwrap();
            fs::write(home.file(), "").unwrap();
            for path in directory.ancestors().take(3) {
                set_mode(path, 0o755);
            }
            set_mode(&home.file(), 0o644);
            home
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn file(&self) -> PathBuf {
            self.path("home/.config/shedlock/config.toml")
        }

        fn doubt(&self, found: Found<'_>) -> Option<String> {
            found.judge_way(&self.file()).err().map(|doubt| doubt.to_string())
        }

        fn found(&self) -> Option<String> {
            self.doubt(Found::Below(&self.path("home")))
        }

        fn named(&self) -> Option<String> {
            self.doubt(Found::Named)
        }
    }

    #[test]
    fn what_nobody_named_may_be_written_by_its_owner_alone() {
        let home = Home::new();
        assert_eq!((home.found(), home.named()), (None, None));
        let file = home.file();
        for path in file.ancestors().take(4) {
            let mode = fs::metadata(path).unwrap().mode() & 0o7777;
            set_mode(path, mode | 0o002);
            let said = format!("other users may write to {}, whose mode is {:04o}", path.display(), mode | 0o002);
            // A user who names a file answers for the directory that it is in.
            let named = Some(said.clone()).filter(|_| path == file);
            assert_eq!((home.found(), home.named()), (Some(said), named));
            set_mode(path, mode);
        }
        // A missing file is none that others have written.
        fs::remove_file(&file).unwrap();
        assert_eq!(home.found(), None);
    }

    #[test]
    fn in_a_sticky_directory_a_named_file_is_used_and_no_other() {
        let home = Home::new();
        set_mode(&home.path("home"), 0o1777);
        assert!(home.found().is_some_and(|said| said.contains("1777")));
        assert_eq!(home.named(), None);
    }

    #[test]
    fn a_remedy_gives_what_is_the_systems_to_root_and_can_be_run_as_it_is() {
        let doubt = |path: &str, system| {
            let data = fs::metadata("/dev/null").unwrap();
            let rules = Rules { strict: true, sticky: false, system };
            rules.doubt(Path::new(path), &data, Some(data.uid() + 1)).remedy().unwrap()
        };
        let us = user::name_of(geteuid().as_raw());
        assert_eq!(doubt("/home/a b", false), format!("chown -h {us} '/home/a b'"));
        assert_eq!(doubt("/etc/shedlock", true), "chown -h root /etc/shedlock");
        let home = Home::new();
        let shared = home.path("home/a b");
        fs::create_dir(&shared).unwrap();
        set_mode(&shared, 0o777);
        let doubt = Found::Below(&home.path("home")).judge_way(&shared).unwrap_err();
        assert_eq!(doubt.remedy().unwrap(), format!("chmod go-w '{}'", shared.display()));
    }

    #[test]
    fn links_are_followed_and_the_directories_behind_them_judged() {
        let home = Home::new();
        let (file, other) = (home.file(), home.path("other"));
        fs::create_dir(&other).unwrap();
        fs::rename(&file, other.join("config.toml")).unwrap();
        for target in [PathBuf::from("../../../other/config.toml"), other.join("config.toml")] {
            symlink(target, &file).unwrap();
            set_mode(&other, 0o755);
            assert_eq!((home.found(), home.named()), (None, None));
            set_mode(&other, 0o777);
            assert!(home.found().is_some_and(|said| said.contains("/other, whose mode is 0777")), "{:?}", home.found());
            assert_eq!(home.named(), None);
            fs::remove_file(&file).unwrap();
        }
        // Nor does a link to itself keep shedlock.
        symlink("config.toml", &file).unwrap();
        assert_eq!(home.found(), None);
    }

    #[test]
    fn a_device_is_nobodys_file_and_a_descriptor_is_its_callers() {
        for path in ["/dev/null", "/dev/fd/0", "/proc/self/fd/0"] {
            assert!(Found::Named.judge_way(Path::new(path)).is_ok(), "{path}");
        }
        let home = Home::new();
        let fifo = home.path("fifo");
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        let judge = || Found::Named.judge_open(&fifo, &fs::metadata(&fifo).unwrap());
        assert!(judge().is_ok());
        set_mode(&fifo, 0o666);
        assert!(judge().is_err());
    }
}
