//! What the tests need to run the program in a place of its own and to see what it did.

mod dispositions;
pub(crate) mod fixtures;
pub(crate) mod markdown;
pub(crate) mod per_backend;
pub(crate) mod process;
pub(crate) mod prometheus;
pub(crate) mod pty;
#[cfg(feature = "default")]
pub(crate) mod relay;
pub(crate) mod repository;
pub(crate) mod schema;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a sign may take before the test gives up. Nothing waits so long unless something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A directory of a test's own, with a database in it that nothing else uses.
pub(crate) struct Place {
    directory: TempDir,
}

/// What a finished command left behind.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        dispositions::are_default_in_children();
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// Returns a path in the directory; nothing is made.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the database file.
    pub(crate) fn database(&self) -> PathBuf {
        self.path("locks.db")
    }

    /// Returns `shedlock ARGUMENTS` with this place's database, no configuration and nothing of the caller's SHEDLOCK_
    /// variables. No terminal is asked for or taken away; stdin is empty.
    pub(crate) fn shedlock<I: IntoIterator<Item = A>, A: AsRef<OsStr>>(&self, arguments: I) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shedlock"));
        for (key, _) in std::env::vars_os() {
            if key.to_string_lossy().starts_with("SHEDLOCK_") {
                command.env_remove(key);
            }
        }
        command
            .args(arguments)
            .env("SHEDLOCK_BACKEND", format!("sqlite:{}", self.database().display()))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("RUST_BACKTRACE")
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Returns `shedlock run --name=NAME --at-most 1m ARGUMENTS`. The name is attached, because a lock may be called `--`.
    pub(crate) fn run<I: IntoIterator<Item = A>, A: AsRef<OsStr>>(&self, name: &str, arguments: I) -> Command {
        let mut command = self.shedlock(["run", &format!("--name={name}"), "--at-most", "1m"]);
        command.args(arguments);
        command
    }

    /// Makes a free lock that has had no run.
    #[cfg(feature = "default")]
    pub(crate) fn make_lock(&self, name: &str, backend: &str) {
        for command in ["pause", "resume"] {
            let ended = finish(self.shedlock([command, name]).env("SHEDLOCK_BACKEND", backend));
            assert_eq!(ended.code(), Some(0), "{ended:?}");
        }
    }

    /// Returns the text of a file in the directory; empty if it is not there.
    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns the lines of a file in the directory.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_owned).collect()
    }

    /// Waits until a file in the directory has at least `count` lines, and returns them.
    pub(crate) fn wait_for_lines(&self, name: &str, count: usize) -> Vec<String> {
        wait_until(&format!("{count} lines in {name}"), || {
            let text = self.read(name);
            (text.matches('\n').count() >= count).then(|| text.lines().map(str::to_owned).collect())
        })
    }

    /// Returns the row of a lock, as `(locked_by, held, boot_id is set)`, judged by the wall clock only.
    pub(crate) fn row(&self, name: &str) -> Option<Row> {
        row(&self.database(), name)
    }
}

/// A row of the table, as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) locked_by: String,
    pub(crate) locked_at: String,
    pub(crate) lock_until: String,
    /// By the wall clock.
    pub(crate) held: bool,
    pub(crate) boot_id: Option<String>,
}

/// Reads a lock's row with a connection of its own.
pub(crate) fn row(database: &Path, name: &str) -> Option<Row> {
    let connection = rusqlite::Connection::open(database).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    let sql = "SELECT locked_by, locked_at, lock_until, lock_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), boot_id \
               FROM shedlock WHERE name = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Row {
            locked_by: row.get(0)?,
            locked_at: row.get(1)?,
            lock_until: row.get(2)?,
            held: row.get(3)?,
            boot_id: row.get(4)?,
        })
    };
    match connection.query_row(sql, [name], read) {
        Ok(row) => Some(row),
        Err(rusqlite::Error::QueryReturnedNoRows) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Asks again and again until there is an answer.
pub(crate) fn wait_until<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the turn of a test that starts hundreds of processes. Several herds at once would be a load that neither they nor
/// the tests beside them are about.
pub(crate) fn turn_of_a_herd() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A herd that failed is no reason for the next one to fail.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns `sh -eu -c SCRIPT`, with shedlock in PATH.
pub(crate) fn script(place: &Place, script: &str) -> Command {
    let directory = Path::new(env!("CARGO_BIN_EXE_shedlock")).parent().unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let ours = place.shedlock::<_, &str>([]);
    let mut command = Command::new("sh");
    for (key, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command.args(["-eu", "-c", script]).env("PATH", path).current_dir(place.path(""));
    command
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Finished {
    command.output().unwrap().into()
}

/// Runs a command that could hang to its end: one that does is killed, and fails the test.
#[track_caller]
pub(crate) fn finish_in_time(command: &mut Command) -> Finished {
    finish_within(PATIENCE, command)
}

/// Runs a command that could hang to its end, with as much time as a command of many steps may need.
#[track_caller]
pub(crate) fn finish_within(patience: Duration, command: &mut Command) -> Finished {
    let child = start(command);
    let pid = i32::try_from(child.id()).unwrap();
    let (ended, end) = mpsc::channel();
    thread::spawn(move || ended.send(child.wait_with_output()));
    let Ok(output) = end.recv_timeout(patience) else {
        kill(pid, "KILL");
        panic!("waited in vain for the end of {command:?}");
    };
    output.unwrap().into()
}

/// Waits for a child that was started with piped output.
pub(crate) fn finish_child(child: Child) -> Finished {
    child.wait_with_output().unwrap().into()
}

/// Starts a command with its output piped.
pub(crate) fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Finished {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Asserts that the exit code is `code`, and nothing was printed.
    #[track_caller]
    pub(crate) fn is_silent_with(&self, code: i32) {
        assert_eq!((self.code(), self.stdout.as_str(), self.stderr.as_str()), (Some(code), "", ""));
    }

    /// Asserts that the exit code is `code`, nothing is on stdout, and stderr is one line from shedlock that contains `text`,
    /// with at most one hint under it.
    #[track_caller]
    pub(crate) fn complains(&self, code: i32, text: &str) {
        assert_eq!(self.code(), Some(code), "{self:?}");
        assert_eq!(self.stdout, "");
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert!(
            lines.first().is_some_and(|line| line.starts_with("shedlock: ") && line.contains(text)),
            "{text} is not in {}",
            self.stderr
        );
        assert!(matches!(lines.get(1..), Some([] | [_])), "{}", self.stderr);
        assert!(lines.get(1).is_none_or(|hint| hint.starts_with("hint: ")), "{}", self.stderr);
    }
}

/// Returns whether a process lives; a zombie does not.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Sends a signal by its name or number, with the kill of bash, which knows all of them and is everywhere.
pub(crate) fn kill(pid: i32, signal: &str) {
    let words = ["-c", "kill -s \"$0\" -- \"$1\"", signal, &pid.to_string()];
    assert!(Command::new("bash").args(words).status().unwrap().success(), "kill -s {signal} {pid}");
}
