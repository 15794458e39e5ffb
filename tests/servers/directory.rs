//! A short-lived directory of a server's own, and the janitor that ends whatever runs in it and removes it.
//!
//! The janitor is a shell that waits for the end of a pipe, whose other end only this process has: so it learns of our
//! end, however it came, SIGKILL included. What runs in the directory it knows by its working directory, which a process
//! inherits and a server keeps. There is no moment in which it could miss one: a child that has not yet called exec(2)
//! still holds the pipe open, and afterwards it is already in the directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use nix::sys::statvfs::statvfs;

use super::program;

/// Who the servers run as if the tests are root: PostgreSQL and PgBouncer refuse that. Debian's nobody and nogroup.
const NOBODY: u32 = 65534;

/// The longest base that leaves room for the name of a socket, of whose path the kernel takes 107 bytes.
const LONGEST_BASE: usize = 60;

/// Bytes that a dozen servers and their templates fit into several times over.
const ROOM: u64 = 2 << 30;

/// Everything is killed, since what a clean end would save is removed at once. All that a killed server leaves outside
/// is PostgreSQL's segment of shared memory, by which it knows whether its data are in use.
const JANITOR: &str = r#"
trap '' HUP INT TERM
while read -r _; do :; done
here() { find /proc -maxdepth 2 -name cwd \( -lname "$1" -o -lname "$1/*" \) 2>/dev/null | cut -d/ -f3; }
for _ in $(seq 500); do
    pids=$(here "$1")
    [ -n "$pids" ] || break
    kill -9 $pids 2>/dev/null
    sleep 0.01
done
for file in "$1"/*/postmaster.pid; do
    segment=$(sed -n '7s/.* //p' "$file" 2>/dev/null)
    [ -z "$segment" ] || ipcrm -m "$segment" 2>/dev/null
done
rm -rf "$1"
"#;

/// A directory that is gone, with all that runs in it, soon after it is dropped or this process has ended.
pub struct Directory {
    path: PathBuf,
    /// The janitor waits for its end.
    _pipe: ChildStdin,
}

impl Directory {
    pub fn new() -> Self {
        let path = tempfile::Builder::new().prefix("shl").tempdir_in(base()).unwrap();
        let mut janitor = Command::new(program::find("setsid"))
            .args(["--fork", "sh", "-c", JANITOR, "janitor"])
            .arg(path.path())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pipe = janitor.stdin.take().unwrap();
        // With --fork this is not the janitor, but what leaves it to init.
        janitor.wait().unwrap();
        let path = path.keep();
        if is_root() {
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        // libpq and the other clients have to reach the sockets, whoever they run as.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self { path, _pipe: pipe }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in the directory, as text for an argument; nothing is made.
    pub fn file(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    /// A command that runs in this directory as the servers' user. A program with a path was built for the tests, and may
    /// be where only we can go.
    pub fn command(&self, program: &str) -> Command {
        let mut command = program::command(program);
        command.current_dir(&self.path).env("HOME", &self.path);
        if is_root() && !program.starts_with('/') {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Runs a program to its end; its output without the last line's end, or what it complains of.
    pub fn try_run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        program::output(self.command(program).args(arguments))
    }

    /// Like `try_run`, for what has to succeed.
    #[track_caller]
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        self.try_run(program, arguments).unwrap_or_else(|complaint| panic!("{program} {arguments:?}: {complaint}"))
    }

    /// The processes whose working directory is here.
    pub fn processes(&self) -> Vec<i32> {
        let is_here =
            |pid: &i32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&self.path));
        let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.to_str()?.parse().ok()).filter(is_here).collect()
    }
}

/// Where the directories are. In memory if nobody wished for another place and there is room for a dozen servers: a
/// PostgreSQL database is three hundred files, and a disk may take a millisecond for each.
fn base() -> PathBuf {
    let is_wide = |memory: &&str| statvfs(*memory).is_ok_and(|it| it.blocks_available() * it.fragment_size() > ROOM);
    let wish = std::env::var_os("TMPDIR").map(PathBuf::from).filter(|wish| wish.as_os_str().len() <= LONGEST_BASE);
    wish.unwrap_or_else(|| Some("/dev/shm").filter(is_wide).unwrap_or("/tmp").into())
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
