//! Signals at every moment of a run's beginning: before its first line, while it takes the lock, while it starts the job.

use std::os::unix::process::ExitStatusExt;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::sweep;
use crate::support::fixtures::Holder;
use crate::support::process::{Started, is_held, under, wait_for_end};
use crate::support::{Finished, Place, finish, is_alive};

/// A run is started within this, together with what it is started by.
const SPAN: Duration = Duration::from_millis(20);
/// How many moments of it are tried with each signal.
const MOMENTS: u32 = 24;
const SIGNALS: [Signal; 5] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGKILL];

struct Case {
    options: &'static [&'static str],
    signal: Signal,
    after: Duration,
}

impl Case {
    fn name(&self) -> String {
        format!("{} after {:?} {}", self.signal, self.after, self.options.join(" "))
    }
}

fn cases(options: &'static [&'static str]) -> Vec<Case> {
    let moments = (0..MOMENTS).map(|moment| SPAN * moment / MOMENTS);
    moments.flat_map(|after| SIGNALS.map(|signal| Case { options, signal, after })).collect()
}

/// Starts a run of a job that would sleep, and sends it the signal when it is time; how it ended, and the job if it came to
/// be.
fn signalled(place: &Place, case: &Case) -> (Finished, Option<i32>) {
    let mut run = place.shedlock(["run", "--name", "job", "--at-most", "2s"]);
    run.args(case.options).args(["/bin/sh", "-c", "echo $$ > pid; exec sleep 60"]);
    // No core, wherever the signal strikes.
    let launcher = ["setsid", "env", "--default-signal", "prlimit", "--core=0:0"];
    let started = Started::new(place, "run", &mut under(&launcher, &run));
    thread::sleep(case.after);
    kill(Pid::from_raw(started.pid()), case.signal).unwrap();
    let finished = started.finish();
    (finished, place.read("pid").trim().parse().ok())
}

fn judge(case: &Case, finished: &Finished) -> Result<(), String> {
    let number = case.signal as i32;
    let ended = finished.status.signal() == Some(number) || finished.code() == Some(128 + number);
    if ended && finished.stdout.is_empty() && finished.stderr.is_empty() {
        Ok(())
    } else {
        Err(format!("{finished:?}"))
    }
}

/// Checks that the run has ended by the signal, and its job with it; the lock is free at once, or after a SIGKILL in time.
fn attempt(case: &Case) -> Result<(), String> {
    let place = Place::new();
    let (finished, job) = signalled(&place, case);
    judge(case, &finished)?;
    let wait = if case.signal == Signal::SIGKILL {
        // The kernel sends it a signal, and that may take a moment.
        job.into_iter().for_each(wait_for_end);
        "4s"
    } else {
        "0"
    };
    if job.is_some_and(is_alive) {
        return Err(format!("the job outlived its run: {finished:?}"));
    }
    let then = finish(&mut under(&["setsid"], &place.run("job", ["--wait", wait, "-E", "75", "true"])));
    if (then.code(), then.stderr.as_str()) == (Some(0), "") { Ok(()) } else { Err(format!("and then: {then:?}")) }
}

#[test]
fn a_signal_at_any_moment_of_the_start_ends_the_run_and_leaves_nothing() {
    sweep(&cases(&[]), Case::name, attempt);
}

#[test]
fn a_signal_at_any_moment_of_the_start_of_a_leased_run_ends_it_and_leaves_nothing() {
    sweep(&cases(&["--lease", "1s"]), Case::name, attempt);
}

#[test]
fn a_signal_at_any_moment_before_a_splay_ends_the_run_and_leaves_nothing() {
    sweep(&cases(&["--splay", "300days"]), Case::name, attempt);
}

#[test]
fn a_signal_at_any_moment_of_waiting_ends_the_run_and_the_holder_keeps_its_lock() {
    let place = Place::new();
    // As long as all of them take on a busy machine.
    let mut held = place.shedlock(["run", "--name", "job", "--at-most", "10m"]);
    let holder = Holder::start(&place, &mut held, "true");
    let row = place.row("job");
    // All of them ask for the one lock.
    for case in cases(&["--wait", "forever"]) {
        let (finished, job) = signalled(&place, &case);
        let verdict = judge(&case, &finished);
        assert!(verdict.is_ok() && job.is_none(), "{}: {verdict:?}", case.name());
    }
    is_held(&place, "job");
    assert_eq!(place.row("job"), row);
    holder.end().is_silent_with(0);
}
