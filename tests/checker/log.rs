//! The one file that everything is proved from: hosts, jobs and the checker append a line for all they do.
//!
//! ```text
//! FIRE  NANOSECONDS PID RUN HOST TERMS           a host has started `shedlock run`
//! EXIT  NANOSECONDS PID RUN code:N | signal:N    it has ended
//! START NANOSECONDS PID RUN ROLE TOKEN OWNER     a process of the job begins; BEAT: it lives; END: it ends by itself
//! FAULT NANOSECONDS PID RUN-OR-HOST KIND         the checker does something bad; HEAL: it is over
//! ```
//!
//! The clock is `CLOCK_BOOTTIME`, which is one for all namespaces.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use nix::time::{ClockId, clock_gettime};

/// A line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) kind: String,
    pub(crate) at: u64,
    pub(crate) pid: i32,
    /// The run; of a fault the host or `-` where it concerns no run.
    pub(crate) run: String,
    pub(crate) rest: Vec<String>,
}

/// The file, to append to.
pub(crate) struct Log(File);

impl Log {
    pub(crate) fn open(path: &Path) -> Self {
        Self(File::options().append(true).create(true).open(path).unwrap())
    }

    /// Appends a line with the time of now, which is returned. One write, so that lines stay whole.
    pub(crate) fn say(&self, kind: &str, pid: i32, run: &str, rest: &str) -> u64 {
        let at = now();
        self.say_at(at, kind, pid, run, rest);
        at
    }

    pub(crate) fn say_at(&self, at: u64, kind: &str, pid: i32, run: &str, rest: &str) {
        (&self.0).write_all(format!("{kind} {at} {pid} {run} {rest}\n").as_bytes()).unwrap();
    }
}

impl Line {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let kind = words.next()?.to_owned();
        let (at, pid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { kind, at, pid, run: words.next()?.to_owned(), rest: words.map(str::to_owned).collect() })
    }

    /// Returns the word at this place after the run; empty if there is none.
    pub(crate) fn word(&self, place: usize) -> &str {
        self.rest.get(place).map_or("", String::as_str)
    }
}

/// Returns the time on the boot clock, in nanoseconds.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).unwrap();
    u64::try_from(now.tv_sec()).unwrap() * SECOND + u64::try_from(now.tv_nsec()).unwrap()
}

pub(crate) const MILLI: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MILLI;
