//! A host: a process in a network and a UTS namespace of its own, that starts runs as cron would.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use nix::unistd::sethostname;

use super::log::{Log, MILLI, now};
use super::plan;
use super::world::{self, ip};

/// More runs at once than this are not started; cron would, but there is no end to a server that is frozen.
const ENOUGH: usize = 8;

/// A host as the checker sees it.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) number: u64,
    process: Child,
    /// It goes on firing until this is closed.
    stdin: Option<ChildStdin>,
    /// What all its processes have in `/proc/PID/ns/net`.
    namespace: PathBuf,
}

/// What a host is to do.
pub(crate) struct Orders<'a> {
    pub(crate) me: &'a Path,
    pub(crate) seed: u64,
    pub(crate) directory: &'a Path,
    pub(crate) url: &'a str,
    pub(crate) shedlock: &'a Path,
}

impl Host {
    /// Makes a host, and joins it to the others. It does nothing yet.
    pub(crate) fn new(number: u64, orders: &Orders) -> Self {
        let name = format!("h{number}");
        let words = [&name, &number.to_string(), &orders.seed.to_string()].map(String::clone);
        let mut command = Command::new("unshare");
        command.args(["--net", "--uts", "--"]).arg(orders.me).arg("host").args(words);
        command.arg(orders.directory).arg(orders.shedlock).env("SHEDLOCK_BACKEND", orders.url);
        for (key, _) in std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("SHEDLOCK_")) {
            if key != "SHEDLOCK_BACKEND" {
                command.env_remove(key);
            }
        }
        command.env("XDG_CONFIG_HOME", orders.directory.join("config"));
        let mut process = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().unwrap());
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "made\n", "the host {name} cannot be made; network namespaces are needed");
        let namespace = fs::read_link(format!("/proc/{}/ns/net", process.id())).unwrap();
        world::join(number, process.id());
        Self { name, number, process, stdin, namespace }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Has the host begin.
    pub(crate) fn begin(&mut self) {
        writeln!(self.stdin.as_ref().unwrap(), "{}", now()).unwrap();
    }

    /// Has the host start nothing any more. It ends when all that it started has.
    pub(crate) fn finish(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Returns all processes on the host, wherever they went, with their command lines.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        let pids =
            fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_here = |pid: &i32| fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|it| it == self.namespace);
        let command = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let shown = |pid: i32| String::from_utf8_lossy(&command(pid)).replace('\0', " ");
        pids.filter(is_here).map(|pid| (pid, shown(pid))).collect()
    }

    /// Returns whether this is a `shedlock` of this host, and not another process that got its number.
    pub(crate) fn has_shedlock(&self, pid: i32) -> bool {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let here = fs::read_link(format!("/proc/{pid}/ns/net")).is_ok_and(|it| it == self.namespace);
        here && comm == "shedlock\n"
    }
}

/// Acts as a host: `NAME NUMBER SEED DIRECTORY SHEDLOCK`.
pub(crate) fn host(words: &[String]) {
    let [name, number, seed, directory, shedlock] = words else { panic!("not a host: {words:?}") };
    let (number, seed) = (number.parse().unwrap(), seed.parse().unwrap());
    let (directory, shedlock) = (Path::new(directory), Path::new(shedlock));
    sethostname(name).unwrap();
    println!("made");
    let mut stdin = BufReader::new(std::io::stdin());
    let mut line = String::new();
    stdin.read_line(&mut line).unwrap();
    let Ok(mut minute_at) = line.trim().parse::<u64>() else { return };
    ip(&format!("addr add {}/24 dev eth0", world::address(number)));
    ip("link set lo up");
    ip("link set eth0 up");
    let over = std::thread::spawn(move || stdin.read_to_end(&mut Vec::new()));
    let log = directory.join("log");
    let mut runs = Vec::new();
    for minute in 0.. {
        minute_at += plan::minute(seed, minute) * MILLI;
        while now() < minute_at && !over.is_finished() {
            std::thread::sleep(Duration::from_nanos(minute_at.saturating_sub(now())).min(Duration::from_millis(50)));
        }
        if over.is_finished() {
            break;
        }
        runs.retain(|run: &std::thread::JoinHandle<()>| !run.is_finished());
        let firing = plan::firing(seed, number, minute, &log, shedlock);
        if let Some(firing) = firing.filter(|_| runs.len() < ENOUGH) {
            let (name, directory, log) = (name.clone(), directory.to_owned(), log.clone());
            runs.push(std::thread::spawn(move || run(&format!("{name}-{minute}"), &name, &firing, &directory, &log)));
        }
    }
    for run in runs {
        run.join().unwrap();
    }
}

/// Starts a run, and waits for its end.
fn run(name: &str, host: &str, firing: &plan::Firing, directory: &Path, log: &Path) {
    let log = Log::open(log);
    let stderr = File::options().append(true).create(true).open(directory.join("stderr")).unwrap();
    let [program, arguments @ ..] = firing.words.as_slice() else { unreachable!() };
    let mut command = Command::new(program);
    command.args(arguments).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let fired = now();
    let mut child = command.spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    log.say_at(fired, "FIRE", pid, name, &format!("{host} {}", firing.terms.word()));
    let status = child.wait().unwrap();
    let end = status
        .code()
        .map_or_else(|| format!("signal:{}", status.signal().unwrap_or_default()), |code| format!("code:{code}"));
    log.say("EXIT", pid, name, &end);
}
