//! Sweeps: the same short run again and again, with one thing wrong that is another each time. What holds of every
//! one of them: at most one job ran, the code is one of the manual's, what is said is a line and a hint, nothing hangs or is
//! left behind, and the lock is free in time. Where the whole would take minutes, a sample that is always the same is tried,
//! and the whole is a test that is ignored.

mod codes;
mod directory;
mod injected;
mod limits;
mod other_cron_daemons;
mod peer_suites;
mod shells;
mod signals_to_groups;
mod startup;

use std::fs;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::process::Started;
use crate::support::{Finished, Place, is_alive};

/// No run of a sweep takes so long unless it hangs, on however busy a machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// What has been killed is gone after this.
const GRACE: Duration = Duration::from_secs(20);
/// How many runs of a sweep there are at once.
const ABREAST: usize = 3;

/// Tries each case, a few at once, and fails with all that was wrong.
fn sweep<C: Sync>(cases: &[C], name: impl Fn(&C) -> String + Sync, attempt: impl Fn(&C) -> Result<(), String> + Sync) {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..ABREAST {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = attempt(case) {
                        wrong.lock().unwrap().push(format!("{}: {why}", name(case)));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} runs went wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Returns the end of a command; `None` if it did not end in time, and then it is killed.
fn finish_in_time(place: &Place, command: &mut Command) -> Option<Finished> {
    let mut started = Started::new(place, "swept", command);
    let begun = Instant::now();
    while !started.has_ended() {
        if begun.elapsed() > DEADLINE {
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
    Some(started.finish())
}

/// Returns the processes that are still there when all of them should be gone.
fn left_over(pids: &[i32]) -> Vec<i32> {
    let begun = Instant::now();
    loop {
        let left: Vec<i32> = pids.iter().copied().filter(|pid| is_alive(*pid)).collect();
        if left.is_empty() || begun.elapsed() > GRACE {
            return left;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Ends those that are still there, which may end by themselves meanwhile.
fn kill_all(pids: &[i32]) {
    for pid in pids.iter().filter(|pid| is_alive(**pid)) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), nix::sys::signal::Signal::SIGKILL);
    }
}

/// Checks that stderr has at most one line of shedlock and one hint, and no fault of the program's.
fn is_said_well(stderr: &str) -> Result<(), String> {
    let lines: Vec<&str> = stderr.lines().collect();
    let well = match lines[..] {
        [] => true,
        [line] => line.starts_with("shedlock: "),
        [line, hint] => line.starts_with("shedlock: ") && hint.starts_with("hint: "),
        _ => false,
    };
    let fault = ["internal error", "panicked", "memory allocation of", "backtrace"];
    if well && !fault.iter().any(|fault| stderr.contains(fault)) { Ok(()) } else { Err(format!("said {stderr:?}")) }
}

/// Returns how often the job ran, by its own log.
fn runs(place: &Place) -> usize {
    fs::read_to_string(place.path("ran")).unwrap_or_default().lines().count()
}
