//! A root directory with nothing in it but the program, and what a test puts beside it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::made::SHEDLOCK;

/// A run that is limited to a minute.
pub(crate) const RUN: [&str; 5] = ["run", "--name", "job", "--at-most", "1m"];

pub(crate) struct Root {
    directory: TempDir,
}

/// The programs that have to work alone: what cargo has built for these tests, and the one that is distributed, which has
/// another C library.
pub(crate) fn programs() -> Vec<PathBuf> {
    vec![env!("CARGO_BIN_EXE_shedlock").into(), SHEDLOCK.binary()]
}

/// The top of the sources.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Root {
    /// Only `/shedlock` is in it.
    pub(crate) fn with(program: &Path) -> Self {
        assert!(nix::unistd::geteuid().is_root(), "another root directory needs root");
        let root = Self { directory: tempfile::tempdir().unwrap() };
        // Others than root are to find their way too.
        fs::set_permissions(root.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        root.copy(program, "shedlock");
        root
    }

    /// A path in it, seen from outside.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Copies a file into it. Not with this process's own hands: a sibling test that forks meanwhile would have it open for
    /// writing, and then it cannot be executed.
    pub(crate) fn copy(&self, file: &Path, name: &str) {
        let copied = Command::new("cp").arg(file).arg(self.path(name)).status().unwrap();
        assert!(copied.success(), "{}", file.display());
    }

    /// Adds the static shell and its programs, as `/busybox`.
    pub(crate) fn add_shell(&self) {
        let busybox = Path::new("/bin/busybox");
        assert!(busybox.is_file(), "busybox-static is not installed; tests/run installs what the tests need");
        self.copy(busybox, "busybox");
    }

    /// Writes a file that is not to be executed.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// `/shedlock ARGUMENTS` in it, without any variable.
    pub(crate) fn shedlock<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        self.unshare(&[], arguments)
    }

    /// `/shedlock run --name job --at-most 1m ARGUMENTS` in it.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.shedlock(RUN);
        command.args(arguments);
        command
    }

    /// `/shedlock ARGUMENTS` as the first process of a pid namespace: the child of the command, which dies with it.
    pub(crate) fn as_init<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        self.unshare(&["--pid", "--fork", "--kill-child"], arguments)
    }

    /// `/shedlock ARGUMENTS` started by unshare(1) with these options.
    pub(crate) fn unshare<A: AsRef<OsStr>>(&self, options: &[&str], arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new("/usr/bin/unshare");
        command.env_clear().args(options).arg("--root").arg(self.directory.path()).arg("/shedlock").args(arguments);
        command.stdin(Stdio::null());
        command
    }
}
