//! Limits of the system, from none at all to enough: a run is good, or says in a line what is wrong, and leaves nothing.

use std::fs;
use std::process::Command;

use super::{finish_in_time, is_said_well, runs, sweep};
use crate::support::fixtures::{by_root, change};
use crate::support::process::{DETACHED, under};
use crate::support::{Finished, Place, finish};

/// One run under one limit.
struct Case {
    /// As prlimit(1) calls it.
    limit: &'static str,
    value: u64,
    lease: bool,
}

impl Case {
    fn name(&self) -> String {
        format!("{}={}{}", self.limit, self.value, if self.lease { " lease" } else { "" })
    }
}

/// Returns a case for each of the values, without a lease and with one.
fn each(limit: &'static str, values: impl IntoIterator<Item = u64>) -> Vec<Case> {
    values.into_iter().flat_map(|value| [false, true].map(|lease| Case { limit, value, lease })).collect()
}

/// Returns `shedlock run` of a job that writes a line and exits with 3.
fn run(place: &Place, lease: bool) -> Command {
    let mut run = place.shedlock(["run", "--name", "job", "--at-most", "1h", "--backend-timeout", "2s"]);
    if lease {
        run.args(["--lease", "30m"]);
    }
    // The shell needs descriptors of its own to write to a file.
    run.args(["/bin/sh", "-c", "ulimit -S -n 64; echo $$ >> ran; exit 3"]);
    run
}

fn limited(place: &Place, case: &Case) -> Option<Finished> {
    let limit = format!("--{}={}:", case.limit, case.value);
    finish_in_time(
        place,
        &mut under(&[&DETACHED[..], &["prlimit", "--core=0:0", &limit]].concat(), &run(place, case.lease)),
    )
}

/// Checks that the run ran the job, or said why not; or that too little was left to load a program of this size, and nothing
/// was taken.
fn judge(place: &Place, finished: Option<Finished>) -> Result<(), String> {
    let finished = finished.ok_or("it hangs")?;
    is_said_well(&finished.stderr).map_err(|why| format!("{:?} {why}", finished.status))?;
    match (runs(place), finished.code()) {
        (0, None) if finished.stderr.is_empty() && !place.database().exists() => return Ok(()),
        (0, Some(125)) if !finished.stderr.is_empty() => {}
        (1, Some(3)) if finished.stderr.is_empty() => {}
        (ran, _) => return Err(format!("the job ran {ran} times: {finished:?}")),
    }
    let then = finish(&mut under(&DETACHED, &place.run("job", ["-E", "75", "true"])));
    if (then.code(), then.stderr.as_str()) == (Some(0), "") { Ok(()) } else { Err(format!("and then: {then:?}")) }
}

fn attempt(case: &Case) -> Result<(), String> {
    let place = Place::new();
    let finished = limited(&place, case);
    judge(&place, finished)
}

/// Returns the fewest pages that are enough, by the limit, for a run to come so far.
fn fewest(limit: &'static str, is_enough: impl Fn(&Place) -> bool) -> u64 {
    let (mut less, mut enough) = (0, 1 << 18);
    while enough - less > 1 {
        let middle = u64::midpoint(less, enough);
        let place = Place::new();
        let finished = limited(&place, &Case { limit, value: middle << 12, lease: false });
        // A busy machine says nothing of the limit.
        if finished.is_none_or(|finished| finished.stderr.contains("did not answer")) {
            continue;
        }
        *(if is_enough(&place) { &mut enough } else { &mut less }) = middle;
    }
    enough
}

#[test]
fn with_too_little_memory_a_run_is_an_error_or_good() {
    for limit in ["as", "data"] {
        let (begins, least) =
            (fewest(limit, |place| place.database().exists()), fewest(limit, |place| runs(place) == 1));
        // Of the pages between the first with which the database is opened and the last with which the job is not run, one
        // alone may be too few for what follows.
        let close = begins.saturating_sub(4)..least + 8;
        assert!(close.end - close.start < 500, "{limit}: {close:?}");
        // The thread's stack is two megabytes of those before.
        let far = (0..20).map(|step| least.saturating_sub(step * 27));
        let tiny = (0..6).map(|power| 1 << (2 + 2 * power));
        sweep(&each(limit, close.chain(far).chain(tiny).map(|pages| pages << 12)), Case::name, attempt);
    }
}

#[test]
fn with_a_small_stack_a_run_is_an_error_or_good() {
    sweep(&each("stack", (0..20).map(|step| step * (12 << 10))), Case::name, attempt);
}

#[test]
fn with_too_few_descriptors_a_run_is_an_error_or_good() {
    sweep(&each("nofile", 0..=20), Case::name, attempt);
}

#[test]
fn where_files_must_stay_small_a_run_is_an_error_or_good() {
    // What is said goes to a pipe: a file would be too small for it as well.
    sweep(&each("fsize", (0..40).map(|step| step * 1000)), Case::name, |case| {
        let place = Place::new();
        let limit = format!("--fsize={}", case.value);
        let launcher = [&DETACHED[..], &["prlimit", "--core=0:0", &limit]].concat();
        judge(&place, Some(finish(&mut under(&launcher, &run(&place, case.lease)))))
    });
}

#[test]
fn with_too_few_processes_a_run_is_an_error_or_good() {
    // A user who has no processes but these, since all of a user's count.
    let user = (100_000 + std::process::id()).to_string();
    let program = Place::new();
    change("chmod", "0755", &program.path(""));
    let copy = program.path("shedlock");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_shedlock")).arg(&copy).status().unwrap().success());
    for case in each("nproc", 0..=6) {
        let place = Place::new();
        change("chown", &user, &place.path(""));
        let limit = format!("--nproc={}", case.value);
        let identity = [format!("--reuid={user}"), format!("--regid={user}")];
        let launcher = ["setsid", "prlimit", &limit, "setpriv", &identity[0], &identity[1], "--clear-groups"];
        let inner = run(&place, case.lease);
        let mut command = Command::new(&copy);
        command.args(inner.get_args()).current_dir(place.path(""));
        for (key, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        let finished = finish(&mut by_root(&launcher, &command));
        let verdict = judge(&place, Some(finished));
        assert!(verdict.is_ok(), "{}: {verdict:?}", case.name());
    }
}

#[test]
fn what_a_running_wrapper_has_no_more_does_not_change_the_jobs_code() {
    let limits =
        ["nofile=6:6", "nofile=8:8", "as=1:1", "data=0:0", "fsize=0", "stack=0:0", "nproc=0:0", "sigpending=0:0"];
    let cases: Vec<(&str, bool)> = limits.into_iter().flat_map(|limit| [(limit, false), (limit, true)]).collect();
    sweep(
        &cases,
        |(limit, lease)| format!("{limit} {lease}"),
        |(limit, lease)| {
            let place = Place::new();
            let mut run = place.shedlock(["run", "--name", "job", "--at-most", "3s", "--backend-timeout", "300ms"]);
            if *lease {
                run.args(["--lease", "2s"]);
            }
            // The worker closes its file in between, and has to open it anew.
            run.args(["sh", "-c", &format!("prlimit --pid $PPID --{limit}; sleep 0.4; echo >> ran; exit 3")]);
            let finished = finish(&mut under(&DETACHED, &run));
            is_said_well(&finished.stderr)?;
            if (finished.code(), runs(&place)) != (Some(3), 1) {
                return Err(format!("{finished:?}"));
            }
            let held = place.row("job").is_some_and(|row| row.held);
            if held == finished.stderr.is_empty() {
                return Err(format!("held: {held}, {finished:?}"));
            }
            let then = finish(&mut under(&DETACHED, &place.run("job", ["--wait", "5s", "-E", "75", "true"])));
            if then.code() == Some(0) { Ok(()) } else { Err(format!("and then: {then:?}")) }
        },
    );
}

#[test]
fn a_full_device_for_stderr_changes_nothing() {
    let place = Place::new();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (word, code) in [("true", 0), ("no-such-command", 127)] {
        let mut child = place.run("job", ["-vv", word]).stderr(full()).spawn().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert!(!place.row("job").unwrap().held);
    }
}
