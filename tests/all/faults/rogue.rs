//! Servers that lie: whatever one sends, and whenever, memory and time are bounded, the message is short, and neither a job that
//! runs nor its exit code suffers. A file per protocol has the table of its lies.

mod etcd;
mod http;
mod kubernetes;
mod mariadb;
#[cfg(feature = "provider")]
mod mongodb;
mod postgres;
mod redis;
mod zookeeper;

use std::process::Command;
use std::sync::Mutex;
use std::thread;

use crate::support::process::{Started, touch};
use crate::support::{Finished, Place, finish, finish_in_time, wait_until};
use servers::stores::Store;
use servers::{First, Lie, Rogue, Then};

/// When a lie is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Before the login, by nobody's port.
    Connecting,
    /// In the place of each answer to an acquisition.
    Taking,
    /// Once, in the place of an answer to a renewal.
    Renewing,
    /// In the place of each answer to a release.
    Releasing,
}

/// A lie, and when it is told.
#[derive(Clone)]
struct Case {
    phase: Phase,
    what: String,
    lie: Lie,
}

impl Case {
    fn new(phase: Phase, what: &str, head: impl Into<Vec<u8>>, then: Then) -> Self {
        Self { phase, what: what.to_owned(), lie: Lie { head: head.into(), then } }
    }
}

/// Returns the same lie in each phase after the login.
fn later(what: &str, head: &[u8], then: &Then) -> [Case; 3] {
    [Phase::Taking, Phase::Renewing, Phase::Releasing].map(|phase| Case::new(phase, what, head, then.clone()))
}

const NAME: &str = "told-a-lie";
/// Most memory that a run may ever have had, in KiB.
const MOST: u64 = 100 << 10;
/// Runs a command, and writes the most memory that a process of it has had into a file. The kernel counts what the one had that
/// starts a process, so this has to be a small one.
const METER: &str = "import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)";

/// A protocol, and a real server that speaks it.
struct Protocol<'a> {
    first: First,
    /// The URL of a server at this port that is none.
    alone: &'a (dyn Fn(u16) -> String + Sync),
    store: &'a (dyn Store + 'a),
    /// Is in each request for the lock of [`NAME`].
    needle: Vec<u8>,
}

impl Protocol<'_> {
    /// Tells all of the lies, some at a time, and says of each that was not borne what became of it.
    #[track_caller]
    fn is_safe_from(&self, cases: Vec<Case>) {
        let place = Place::new();
        finish(place.run("warm", ["true"]).env("SHEDLOCK_BACKEND", self.store.url())).is_silent_with(0);
        let (left, failed) = (Mutex::new(cases), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    while let Some(case) = { left.lock().unwrap().pop() } {
                        // A real server may be too slow for a run, which then asks nothing.
                        let told = (0..5).map(|_| self.bears(&case)).find(|borne| *borne != Ok(false));
                        let told = told.unwrap_or_else(|| Err("no lie was told".to_owned()));
                        if let Err(why) = told {
                            failed.lock().unwrap().push(format!("{:?}, {}: {why}", case.phase, case.what));
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner().unwrap();
        assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    }

    /// Tells a lie, and says what is wrong with what became of it; returns false if there was no request to tell it to.
    fn bears(&self, case: &Case) -> Result<bool, String> {
        let place = Place::new();
        if case.phase == Phase::Connecting {
            let rogue = Rogue::alone(self.first, case.lie.clone());
            let url = (self.alone)(rogue.port());
            let finished = finish_in_time(&mut metered(&place, &url, "a", &["true"]));
            return judge(&place, &finished, 125).map(|()| true);
        }
        let url = self.store.url();
        let port = url.split("127.0.0.1:").nth(1).unwrap().split(['/', '?']).next().unwrap();
        let rogue = Rogue::before(port.parse().unwrap());
        let url = url.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{}", rogue.port()));
        // A name of its own for each run, and in each request the bytes that all of them share.
        let name = servers::unique(NAME);
        if case.phase == Phase::Taking {
            rogue.lie(&self.needle, case.lie.clone(), usize::MAX);
            let finished = finish_in_time(&mut metered(&place, &url, &name, &["true"]));
            return if rogue.told() == 0 { Ok(false) } else { judge(&place, &finished, 125).map(|()| true) };
        }
        let job = "touch started; while [ ! -e end ] && [ -e started ]; do sleep 0.05; done; exit 7";
        let lease: &[&str] = if case.phase == Phase::Renewing { &["--lease", "12s"] } else { &[] };
        let arguments = [lease, &["--", "sh", "-c", job]].concat();
        let mut run = Started::new(&place, "run", &mut metered(&place, &url, &name, &arguments));
        let is_there = || place.path("started").exists();
        wait_until("the job", || (is_there() || run.has_ended()).then_some(()));
        if !is_there() {
            return Ok(false);
        }
        let times = if case.phase == Phase::Renewing { 1 } else { usize::MAX };
        rogue.lie(&self.needle, case.lie.clone(), times);
        if case.phase == Phase::Renewing {
            // A run that has ended is judged as every other.
            wait_until("the next renewal", || (rogue.passed() > 0 || run.has_ended()).then_some(()));
        }
        touch(&place, "end");
        let finished = run.finish();
        if rogue.told() == 0 { Ok(false) } else { judge(&place, &finished, 7).map(|()| true) }
    }
}

/// Returns a run under the meter.
fn metered(place: &Place, url: &str, name: &str, arguments: &[&str]) -> Command {
    let inner = [&["--backend-timeout", "2s"], arguments].concat();
    let inner = place.run(name, inner);
    let peak = place.path("peak").display().to_string();
    let mut command = crate::support::process::under(&["python3", "-c", METER, &peak], &inner);
    command.env("SHEDLOCK_BACKEND", url);
    command
}

/// Says what is wrong with how a run has ended.
fn judge(place: &Place, finished: &Finished, code: i32) -> Result<(), String> {
    let peak: u64 = place.read("peak").parse().unwrap_or(u64::MAX);
    let lines: Vec<&str> = finished.stderr.lines().collect();
    let is_told = lines.len() <= 2
        && lines.first().is_none_or(|line| line.starts_with("shedlock: "))
        && lines.get(1).is_none_or(|line| line.starts_with("hint: "))
        && finished.stderr.len() < 1500;
    match finished.code() == Some(code) && is_told && peak < MOST {
        true => Ok(()),
        false => Err(format!("{peak} KiB, {finished:?}")),
    }
}
