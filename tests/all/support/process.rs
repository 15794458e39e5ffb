//! Processes as the tests see them: started in a known state, watched through /proc, and gone when the test is.
//!
//! Every job here ends by itself when its directory is gone, so that a test that fails leaves nothing behind either.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::{Finished, PATIENCE, Place, Row, finish, is_alive, kill, wait_until};

/// Starts what follows without a controlling terminal and with every signal as the kernel sets it, as cron does.
pub(crate) const DETACHED: [&str; 3] = ["setsid", "env", "--default-signal"];

/// A job that appends `ready`, and then the name of every signal that it gets, to the file given, until the file
/// `done` is there. Perl names the real-time signals RTMIN, NUM35, …, RTMAX.
pub(super) const LOGGER: &str = r#"
    my $file = shift;
    open(LOG, '>>', $file) or die;
    sub note { syswrite LOG, "$_[0]\n" }
    $SIG{$_} = \&note for grep { !/^(KILL|STOP|CHLD|CLD|IOT|POLL|NUM32|NUM33)$/ } keys %SIG;
    note('ready');
    select(undef, undef, undef, 0.02) until -e 'done' || !-e $file;
"#;

/// Returns the words of a command that logs its signals to `file`.
pub(crate) fn logger(file: &str) -> [&str; 4] {
    ["perl", "-e", LOGGER, file]
}

/// Returns shell text that writes the time to `file`, in seconds, again and again; bash only. It waits without a process.
pub(crate) fn heartbeat(file: &str) -> String {
    format!("exec 9<> <(:); while echo $EPOCHREALTIME >> {file}; do read -rt 0.02 -u 9; done 2> /dev/null")
}

/// Returns shell text that waits until a file is there, or the test is over.
pub(crate) fn until_exists(file: &str) -> String {
    format!("while [ ! -e {file} ] && [ -e locks.db ]; do sleep 0.05; done")
}

/// Returns `command`, started by `launcher`, with the same environment and in the same directory.
pub(crate) fn under<A: AsRef<OsStr>>(launcher: &[A], command: &Command) -> Command {
    let mut whole = Command::new(&launcher[0]);
    whole.args(&launcher[1..]).arg(command.get_program()).args(command.get_args());
    surround_like(command, &mut whole);
    whole
}

/// Returns a command of other words, with the environment and in the directory of this place's shedlock, which is `$PROGRAM`.
pub(crate) fn beside<A: AsRef<OsStr>>(place: &Place, words: &[A]) -> Command {
    let shedlock = place.shedlock::<_, &str>([]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    surround_like(&shedlock, &mut command);
    command.env("PROGRAM", shedlock.get_program());
    command
}

fn surround_like(model: &Command, command: &mut Command) {
    for (key, value) in model.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    if let Some(directory) = model.get_current_dir() {
        command.current_dir(directory);
    }
    command.stdin(std::process::Stdio::null());
}

/// A child of the test, whose output goes to files: what it leaves running cannot keep a pipe open.
pub(crate) struct Started {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Started {
    /// Starts a command; `tag` names the files of its output.
    pub(crate) fn new(place: &Place, tag: &str, command: &mut Command) -> Self {
        let (stdout, stderr) = (place.path(&format!("{tag}.stdout")), place.path(&format!("{tag}.stderr")));
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        Self { child: command.spawn().unwrap(), stdout, stderr }
    }

    /// Returns the pid; of a program that was started by [`DETACHED`] too, which only ever execute.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end.
    pub(crate) fn finish(mut self) -> Finished {
        let what = format!("the end of {}", self.pid());
        let status = wait_until(&what, || self.child.try_wait().unwrap());
        Finished { status, stdout: fs::read_to_string(&self.stdout).unwrap(), stderr: self.stderr() }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that is not ours to wait for, and that the test must not leave behind.
pub(crate) struct Leftover(pub(crate) i32);

impl Drop for Leftover {
    fn drop(&mut self) {
        if is_alive(self.0) {
            kill(self.0, "KILL");
        }
    }
}

/// Starts `shedlock run` without a terminal.
pub(crate) fn detached(place: &Place, tag: &str, command: &Command) -> Started {
    Started::new(place, tag, &mut under(&DETACHED, command))
}

/// Returns `shedlock run --name NAME --at-most LIMIT ARGUMENTS`.
pub(crate) fn limited<A: AsRef<OsStr>>(
    place: &Place,
    name: &str,
    limit: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Command {
    let mut command = place.shedlock(["run", "--name", name, "--at-most", limit]);
    command.args(arguments);
    command
}

impl Finished {
    /// Asserts that the process died of this signal, and left no core.
    #[track_caller]
    pub(crate) fn died_of(&self, signal: i32) {
        assert_eq!((self.status.signal(), self.status.core_dumped()), (Some(signal), false), "{self:?}");
    }
}

/// A process's line in /proc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    pub(crate) state: char,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// The terminal's foreground group; -1 without a terminal.
    pub(crate) foreground: i32,
}

/// Reads the line; `None` once there is no such process.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    let mut number = || fields.next()?.parse().ok();
    let (parent, group, session, _terminal, foreground) = (number()?, number()?, number()?, number()?, number()?);
    Some(Stat { pid, state, parent, group, session, foreground })
}

/// Waits until a process is in one of these states.
pub(crate) fn wait_for_state(pid: i32, states: &str) {
    wait_until(&format!("{pid} to be {states}"), || stat(pid).filter(|stat| states.contains(stat.state)));
}

pub(crate) fn wait_for_end(pid: i32) {
    wait_until(&format!("the end of {pid}"), || (!is_alive(pid)).then_some(()));
}

/// Returns the living children of a process.
pub(crate) fn children(pid: i32) -> Vec<Stat> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let all = entries.filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?));
    all.filter(|stat| stat.parent == pid && !"ZX".contains(stat.state)).collect()
}

/// Waits for a process's only child.
pub(crate) fn wait_for_child(pid: i32) -> i32 {
    wait_until(&format!("a child of {pid}"), || children(pid).first().map(|child| child.pid))
}

/// Waits until shedlock holds back the signals that it will read, so that none can end it in the system's way. What
/// forks it holds them back for a moment too, and so does musl when it makes a thread, but for 34, the first that counts here.
pub(crate) fn wait_until_it_listens(pid: i32) {
    wait_until("shedlock to block its signals", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let value = |key| status.lines().find_map(|line: &str| line.strip_prefix(key)).map(str::trim);
        let blocked = u64::from_str_radix(value("SigBlk:")?, 16).ok()?;
        (value("Name:") == Some("shedlock") && blocked >> 33 & 1 == 1).then_some(())
    });
}

/// Returns whether a process has a file open.
pub(crate) fn has_open(pid: i32, file: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.into_iter().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == file))
}

/// Waits until a process has a file open no more.
pub(crate) fn wait_until_closed(pid: i32, file: &Path) {
    wait_until(&format!("{} to be closed", file.display()), || (!has_open(pid, file)).then_some(()));
}

/// Stops a run while it has its file closed: within a transaction it would keep everybody else out until it goes on.
pub(crate) fn stop_at_rest(place: &Place, pid: i32) {
    wait_until("a run that stands still with its file closed", || {
        wait_until_closed(pid, &place.database());
        kill(pid, "STOP");
        wait_for_state(pid, "T");
        if has_open(pid, &place.database()) {
            kill(pid, "CONT");
            return None;
        }
        Some(())
    });
}

/// Waits until a process that writes to `file` has done so some more.
pub(crate) fn wait_for_more(place: &Place, file: &str) {
    place.wait_for_lines(file, place.lines(file).len() + 3);
}

/// Returns the pid in the first line of a file.
pub(crate) fn pid_in(place: &Place, file: &str) -> i32 {
    place.wait_for_lines(file, 1)[0].trim().parse().unwrap()
}

/// Returns the last time in a file that [`heartbeat`] wrote, in milliseconds.
pub(crate) fn last_beat(place: &Place, file: &str) -> i64 {
    let text = place.read(file);
    let line = text.lines().last().unwrap();
    let (seconds, micros) = line.split_once('.').unwrap();
    seconds.parse::<i64>().unwrap() * 1000 + micros.parse::<i64>().unwrap() / 1000
}

/// Returns a time of the table in milliseconds.
pub(crate) fn millis(time: &str) -> i64 {
    let clock = rusqlite::Connection::open_in_memory().unwrap();
    clock.query_row("SELECT CAST(round(unixepoch(?1, 'subsec') * 1000) AS INTEGER)", [time], |row| row.get(0)).unwrap()
}

/// Waits until the lock is held, and returns the row.
pub(crate) fn wait_until_held(place: &Place, name: &str) -> Row {
    wait_until(&format!("{name} to be held"), || held_row(place, name))
}

/// Waits until the lock is free by its row.
pub(crate) fn wait_until_free(place: &Place, name: &str) {
    wait_until(&format!("{name} to be free"), || place.row(name).filter(|row| !row.held));
}

/// Returns the row of a lock that is held. Before the first run there is not even a table.
fn held_row(place: &Place, name: &str) -> Option<Row> {
    place.database().exists().then_some(())?;
    let connection = rusqlite::Connection::open(place.database()).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    let table = "SELECT count(*) FROM sqlite_master WHERE name = 'shedlock'";
    let exists: i64 = connection.query_row(table, [], |row| row.get(0)).ok()?;
    (exists == 1).then(|| place.row(name)).flatten().filter(|row| row.held)
}

/// Asserts that another run gets the lock at once.
#[track_caller]
pub(crate) fn is_free(place: &Place, name: &str) {
    finish(&mut under(&DETACHED, &place.run(name, ["-E", "75", "true"]))).is_silent_with(0);
}

/// Asserts that another run does not get the lock.
#[track_caller]
pub(crate) fn is_held(place: &Place, name: &str) {
    finish(&mut under(&DETACHED, &place.run(name, ["-E", "75", "true"]))).is_silent_with(75);
}

/// Writes an executable file. Not with this process's own hands: a sibling test that forks meanwhile would have it
/// open for writing, and then it cannot be executed.
pub(crate) fn write_script(place: &Place, name: &str, text: &str) {
    let mut command = Command::new("sh");
    let arguments = ["-c", "printf %s \"$2\" > \"$1\" && chmod +x \"$1\"", "sh"];
    assert!(command.args(arguments).arg(place.path(name)).arg(text).status().unwrap().success());
}

/// Copies a program, by another process for the reason that [`write_script`] gives.
pub(crate) fn copy_program(program: impl AsRef<OsStr>, to: impl AsRef<OsStr>) {
    assert!(Command::new("cp").arg(program).arg(to).status().unwrap().success());
}

/// Writes an empty file: a sign for a job.
pub(crate) fn touch(place: &Place, name: &str) {
    File::create(place.path(name)).unwrap();
}
