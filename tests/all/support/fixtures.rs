//! What the tests of options, codes and files set up before the program comes on: a lock that is held, a row that is
//! older than it is, another user, another root directory.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rusqlite::Connection;

use super::process::has_open;
use super::{Finished, PATIENCE, Place, finish_child, is_alive, start, wait_until};

/// A job that holds its lock until it is told to end, or until its place is gone.
pub(crate) struct Holder {
    child: Child,
    going: PathBuf,
    started: PathBuf,
}

impl Holder {
    /// Starts `shedlock ARGUMENTS JOB` in `command`, and returns when the job runs. When told to end, the job runs `last`.
    pub(crate) fn start(place: &Place, command: &mut Command, last: &str) -> Self {
        let files = (0..).map(|number| ["going", "started"].map(|what| place.path(&format!("{what}-{number}"))));
        let [going, started] = files.into_iter().find(|[_, started]| !started.exists()).unwrap();
        fs::write(&going, "").unwrap();
        let script = "echo $$ > \"$2\"; while [ -e \"$1\" ]; do sleep 0.03; done; ";
        let mut child =
            start(command.arg("sh").arg("-c").arg(format!("{script}{last}")).arg("job").args([&going, &started]));
        let runs = || fs::read_to_string(&started).is_ok_and(|pid| pid.ends_with('\n'));
        wait_until("the job that holds the lock", || (runs() || child.try_wait().unwrap().is_some()).then_some(()));
        if !runs() {
            panic!("the job does not run: {:?}", finish_child(child));
        }
        Self { child, going, started }
    }

    /// Returns the pid of shedlock.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Returns the pid of the job.
    pub(crate) fn job(&self) -> i32 {
        fs::read_to_string(&self.started).unwrap().trim().parse().unwrap()
    }

    /// Ends the job, and waits for shedlock.
    pub(crate) fn end(self) -> Finished {
        fs::remove_file(&self.going).unwrap();
        finish_child(self.child)
    }

    /// Waits for shedlock, which ends although the test has not told the job to.
    pub(crate) fn finish(self) -> Finished {
        let pid = self.pid();
        wait_until("shedlock to end by itself", || (!is_alive(pid)).then_some(()));
        finish_child(self.child)
    }
}

/// Starts a job that holds the lock, for at most a minute.
pub(crate) fn hold(place: &Place, name: &str) -> Holder {
    Holder::start(place, &mut place.run::<_, &str>(name, []), "true")
}

/// Returns a connection of the test's own to the place's database.
pub(crate) fn open(place: &Place) -> Connection {
    let connection = Connection::open(place.database()).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    connection
}

/// Runs a statement that must change exactly one row.
pub(crate) fn edit(place: &Place, sql: &str) {
    assert_eq!(open(place).execute(sql, ()).unwrap(), 1, "{sql}");
}

/// Returns what a query finds, one number or text.
pub(crate) fn find<T: rusqlite::types::FromSql>(place: &Place, sql: &str) -> T {
    open(place).query_row(sql, (), |row| row.get(0)).unwrap()
}

/// Returns the time from the acquisition of a lock to its end, in milliseconds, by its row.
pub(crate) fn span(place: &Place, name: &str) -> i64 {
    let sql = "SELECT CAST(round((julianday(lock_until) - julianday(locked_at)) * 86400000) AS INTEGER) FROM shedlock WHERE name = ?1";
    open(place).query_row(sql, [name], |row| row.get(0)).unwrap()
}

/// Lets `by` (such as `1 hour`) go by for a lock: its row says the same of a time so much earlier.
pub(crate) fn pass_time(place: &Place, name: &str, by: &str) {
    let sql = format!(
        "UPDATE shedlock SET lock_until = strftime('%Y-%m-%dT%H:%M:%fZ', lock_until, '-{by}'), \
                             locked_at = strftime('%Y-%m-%dT%H:%M:%fZ', locked_at, '-{by}'), \
                             boot_for = locked_by || ' ' || strftime('%Y-%m-%dT%H:%M:%fZ', lock_until, '-{by}'), \
                             boot_until = boot_until - (strftime('%s', 'now', '{by}') - strftime('%s', 'now')) * 1000 \
         WHERE name = '{name}'"
    );
    edit(place, &sql);
}

/// Waits until a process has a file open. One that waits for a lock has it open for a millisecond at a time, so there is no
/// pause between two looks.
pub(crate) fn wait_until_open(pid: i32, file: &Path) {
    let begun = Instant::now();
    while !has_open(pid, file) {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {} to be open", file.display());
        std::thread::yield_now();
    }
}

/// Waits until a process takes its signals in itself, so that none ends it before it has begun.
pub(crate) fn wait_until_signals_are_caught(pid: i32) {
    wait_until("signals to be caught", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?.trim();
        (u64::from_str_radix(blocked, 16).unwrap() & (1 << 14) != 0).then_some(())
    });
}

/// Returns the command, started by another that only root can run, such as setpriv(1) or unshare(1). A user other than root
/// needs sudo(8) without a password.
pub(crate) fn by_root(words: &[&str], inner: &Command) -> Command {
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut command = Command::new(if root { words[0] } else { "sudo" });
    for (key, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    if !root {
        command.args(["-n", "env"]);
        command.args(inner.get_envs().filter_map(|(key, value)| {
            let mut pair = OsString::from(key);
            pair.push("=");
            pair.push(value?);
            Some(pair)
        }));
        command.arg(words[0]);
    }
    command.args(&words[1..]).arg(inner.get_program()).args(inner.get_args()).stdin(Stdio::null());
    if let Some(directory) = inner.get_current_dir() {
        command.current_dir(directory);
    }
    command
}

/// Returns the command, run as the user nobody.
pub(crate) fn by_nobody(inner: &Command) -> Command {
    by_root(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], inner)
}

/// Returns the command, run after `setup`, a shell script that may mount what it likes: nobody else sees it.
pub(crate) fn among_mounts(setup: &str, inner: &Command) -> Command {
    let script = format!("{setup}\nexec \"$@\"");
    by_root(&["unshare", "--mount", "--propagation", "private", "sh", "-ec", &script, "sh"], inner)
}

/// Lets every user into the place, and makes a directory in it that belongs to nobody.
pub(crate) fn open_to_nobody(place: &Place, directory: &str) -> PathBuf {
    let path = place.path(directory);
    fs::create_dir(&path).unwrap();
    change("chmod", "0755", &place.path(""));
    change("chown", "65534:65534", &path);
    path
}

/// Changes a file with a command of the system, as root: chmod(1), chown(1).
pub(crate) fn change(program: &str, to: &str, path: &Path) {
    let status = by_root(&["env"], Command::new(program).arg(to).arg(path)).status().unwrap();
    assert!(status.success(), "{program} {to} {}", path.display());
}

/// Returns the permission bits of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// Returns the names in a directory, sorted.
pub(crate) fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// Returns `shedlock run ARGUMENTS` with this place's database.
pub(crate) fn bare<A: AsRef<OsStr>>(place: &Place, arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = place.shedlock(["run"]);
    command.args(arguments);
    command
}

/// Asserts that the job was stopped because its at-most was used up. On a busy machine the dead may take longer to be gone than
/// a lease of a second leaves them, and then that is told as well.
#[track_caller]
pub(crate) fn is_expired(finished: &Finished, at_most: &str) {
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(124), ""), "{finished:?}");
    let mut lines = finished.stderr.lines();
    let expired = format!("the job is stopped because --at-most {at_most} is used up");
    assert!(lines.next().is_some_and(|line| line.ends_with(&expired)), "{finished:?}");
    let known = ["SIGKILL has not ended the whole job", "hint: find the process with"];
    assert!(lines.all(|line| known.iter().any(|known| line.contains(known))), "{finished:?}");
}
