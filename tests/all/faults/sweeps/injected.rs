//! Every system call of a run on SQLite fails, is slow, or brings a signal, by strace(1): the first one of its name, a later
//! one, or each. The calls are those that a good run makes here and now.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use super::{finish_in_time, is_said_well, kill_all, left_over, runs, sweep};
use crate::support::fixtures::hold;
use crate::support::process::{DETACHED, under};
use crate::support::{Finished, Place, finish};

/// Calls that cannot fail, or of which the standard library is sure, those that do not come back, and brk(2), which fails by
/// another address than was asked for, as strace cannot: memory that is short is in `limits.rs`.
const SURE: [&str; 10] =
    ["brk", "clock_nanosleep", "execve", "exit", "exit_group", "geteuid", "getpid", "getppid", "getsid", "getuid"];
/// What futex(2) can say to who waits for a word of its own: at anything else the C library ends the process.
const OF_A_FUTEX: [&str; 2] = ["EINTR", "EAGAIN"];
const AT_MOST: i64 = 3000;

/// One run with one thing wrong.
struct Case {
    lease: bool,
    /// Another run has the lock.
    held: bool,
    call: String,
    /// As strace's `inject` has it.
    what: String,
}

impl Case {
    fn name(&self) -> String {
        let Self { lease, held, call, what } = self;
        format!("{call}:{what}{}{}", if *lease { " lease" } else { "" }, if *held { " held" } else { "" })
    }
}

/// Returns `shedlock run` of a job that writes a line and exits with 3, under strace with these options; its log is `trace`.
fn traced(place: &Place, lease: bool, options: &[&str]) -> Command {
    let mut run = place.shedlock(["run", "--name", "job", "--at-most", "3s", "--backend-timeout", "300ms", "-E", "75"]);
    if lease {
        run.args(["--lease", "1s"]);
    }
    run.args(["/bin/sh", "-c", "echo $$ >> ran; exit 3"]);
    let tracer = ["strace", "-f", "-b", "execve", "-qq", "-o", "trace"];
    under(&[&DETACHED[..], &tracer, options].concat(), &run)
}

/// Returns each system call of a good run: how often the C library makes it before shedlock's first line, where there is no
/// program yet that could say what is wrong, and how often it is made in all, in whichever of the threads makes it most often.
fn calls(lease: bool, held: bool) -> BTreeMap<String, (usize, usize)> {
    let place = Place::new();
    let holder = held.then(|| hold(&place, "job"));
    finish(&mut traced(&place, lease, &[])).is_silent_with(if held { 75 } else { 3 });
    if let Some(holder) = holder {
        holder.end().is_silent_with(0);
    }
    let lines = place.lines("trace");
    let main = lines.iter().position(|line| line.contains("fcntl(0, F_GETFD")).unwrap();
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut calls: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (number, line) in lines.iter().enumerate() {
        let (pid, rest) = line.split_once(' ').unwrap();
        let Some((call, _)) = rest.trim_start().split_once('(').filter(|(call, _)| !call.contains(' ')) else {
            continue;
        };
        let count = counts.entry((pid, call)).or_default();
        *count += 1;
        let (before, most) = calls.entry(call.to_owned()).or_default();
        *most = (*most).max(*count);
        if number < main {
            *before = *count;
        }
    }
    calls
}

/// Returns the processes that were made, by strace's log.
fn made(place: &Place) -> Vec<i32> {
    let text = fs::read(place.path("trace")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut pids: Vec<i32> = text
        .lines()
        .filter_map(|line| line.split_once(' ')?.0.parse().ok())
        .chain(
            text.lines()
                .filter(|line| {
                    [" clone(", " clone3(", " clone resumed", " clone3 resumed"].iter().any(|call| line.contains(call))
                })
                .filter_map(|line| line.rsplit_once(" = ")?.1.parse().ok()),
        )
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Tries a case, and again if strace had no timer to delay a call by: a test beside this one that sends a storm of signals uses
/// up what the user may have of both.
fn attempt(case: &Case) -> Result<(), String> {
    match attempt_once(case) {
        Err(why) if why.contains("strace: timer_create: ") => attempt_once(case),
        verdict => verdict,
    }
}

fn attempt_once(case: &Case) -> Result<(), String> {
    let place = Place::new();
    let holder = case.held.then(|| hold(&place, "job"));
    let trace = format!("trace=clone,clone3,{}", case.call);
    let inject = format!("inject={}:{}", case.call, case.what);
    let finished = finish_in_time(&place, &mut traced(&place, case.lease, &["-e", &trace, "-e", &inject]));
    let verdict = judge(&place, case, finished);
    kill_all(&made(&place));
    if let Some(holder) = holder {
        holder.end().is_silent_with(0);
    }
    verdict
}

fn judge(place: &Place, case: &Case, finished: Option<Finished>) -> Result<(), String> {
    let finished = finished.ok_or("it hangs")?;
    // strace itself may find that a thread has died of the end of the process.
    let ours = finished.stderr.lines().filter(|line| !line.starts_with("strace: "));
    let ours: String = ours.map(|line| format!("{line}\n")).collect();
    is_said_well(&ours).map_err(|why| format!("{:?} {why}", finished.status))?;
    let (ran, code) = (runs(place), finished.code());
    let stopped = case.what.contains("signal=");
    let known = match (case.held, ran, code) {
        (true, 0, Some(75 | 125)) | (false, 0, Some(125..=127)) | (false, 1, Some(3)) => true,
        // The job may be stopped before it has written its line, or when it has.
        (false, 0 | 1, Some(123)) => case.lease,
        (_, 0, Some(143)) | (false, 1, Some(143)) => stopped,
        // It came before we could hold it back.
        (_, 0, None) => stopped && finished.status.signal() == Some(15),
        _ => false,
    };
    if !known || !finished.stdout.is_empty() {
        return Err(format!("the job ran {ran} times: {finished:?}"));
    }
    let left = left_over(&made(place));
    if !left.is_empty() {
        return Err(format!("{left:?} live on: {finished:?}"));
    }
    if case.held {
        return Ok(());
    }
    free_in_time(place, &finished)
}

/// Checks that the lock is free, or that a message says it is not, and that it is in time; and that the file is whole.
fn free_in_time(place: &Place, finished: &Finished) -> Result<(), String> {
    let next = |wait: &str| finish(&mut under(&DETACHED, &place.run("job", ["--wait", wait, "-E", "75", "true"])));
    let mut then = next("0");
    if then.code() == Some(75) {
        if finished.stderr.is_empty() {
            return Err(format!("the lock is kept without a word: {finished:?}"));
        }
        then = next(&format!("{AT_MOST}ms"));
    }
    if (then.code(), then.stderr.as_str()) == (Some(0), "") { Ok(()) } else { Err(format!("and then: {then:?}")) }
}

const ERRORS: [&str; 8] = ["EINTR", "ENOMEM", "EACCES", "EIO", "EAGAIN", "ENOSYS", "ENOSPC", "EPERM"];

/// Returns the cases of a sweep: every one, or a sample that has every call.
fn cases(whole: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for (lease, held) in [(false, false), (true, false), (false, true)] {
        for (number, (call, (before, count))) in calls(lease, held).into_iter().enumerate() {
            if SURE.contains(&call.as_str()) || before == count {
                continue;
            }
            let first = before + 1;
            let last = if whole { count } else { first };
            let mut add = |what: String| cases.push(Case { lease, held, call: call.clone(), what });
            let few = if lease || held { 1 } else { 2 };
            for (index, error) in ERRORS.into_iter().enumerate() {
                if call == "futex" && !OF_A_FUTEX.contains(&error) {
                    continue;
                }
                if whole || (index + 3 * number) % ERRORS.len() < few {
                    // An interruption is tried again, for ever if need be; and who may wait for nobody never learns of an end.
                    if error != "EINTR" && call != "wait4" {
                        add(format!("error={error}:when={first}+"));
                    }
                    (first..=last).for_each(|when| add(format!("error={error}:when={when}")));
                }
            }
            (first..=last).for_each(|when| add(format!("signal=TERM:when={when}")));
            if whole || few == 2 {
                add(format!("delay_exit=20000:when={first}"));
            }
        }
    }
    cases
}

#[test]
fn a_sample_of_injected_faults() {
    sweep(&cases(false), Case::name, attempt);
}

#[test]
#[ignore = "takes minutes: every call, each time that it is made, with each error"]
fn all_injected_faults() {
    sweep(&cases(true), Case::name, attempt);
}
