//! Signals to shedlock where there is no terminal: under cron, a service manager, in CI.

use std::os::unix::process::ExitStatusExt;

use crate::support::process::{
    DETACHED, Started, beside, children, detached, heartbeat, is_free, is_held, limited, logger, millis, pid_in, stat,
    touch, under, until_exists, wait_for_child, wait_for_end, wait_for_more, wait_for_state, wait_until_free,
    wait_until_held, wait_until_it_listens,
};
use crate::support::{Place, finish, is_alive, kill};

/// Every signal that ends a process by default but SIGKILL, as kill(1) and perl name it. Of the real-time ones, some.
const ENDING: [(&str, &str); 29] = [
    ("HUP", "HUP"),
    ("INT", "INT"),
    ("QUIT", "QUIT"),
    ("ILL", "ILL"),
    ("TRAP", "TRAP"),
    ("ABRT", "ABRT"),
    ("BUS", "BUS"),
    ("FPE", "FPE"),
    ("USR1", "USR1"),
    ("SEGV", "SEGV"),
    ("USR2", "USR2"),
    ("PIPE", "PIPE"),
    ("ALRM", "ALRM"),
    ("STKFLT", "STKFLT"),
    ("XCPU", "XCPU"),
    ("XFSZ", "XFSZ"),
    ("VTALRM", "VTALRM"),
    ("PROF", "PROF"),
    ("IO", "IO"),
    ("PWR", "PWR"),
    ("SYS", "SYS"),
    ("34", "RTMIN"),
    ("35", "NUM35"),
    ("37", "NUM37"),
    ("48", "NUM48"),
    ("49", "NUM49"),
    ("50", "NUM50"),
    ("63", "NUM63"),
    ("64", "RTMAX"),
];

/// Sends signals to a process one by one, each when the one before is in the log, and returns the log. The last one
/// shows that what came before it came once.
fn log_after(place: &Place, pid: i32, signals: &[&str]) -> Vec<String> {
    for signal in signals {
        let before = place.lines("log").len();
        kill(pid, signal);
        place.wait_for_lines("log", before + 1);
    }
    place.lines("log")
}

/// Starts a job that logs its signals, and waits until it does.
fn start_logger(place: &Place, options: &[&str]) -> Started {
    let started = detached(place, "run", place.run("job", options).args(logger("log")));
    place.wait_for_lines("log", 1);
    started
}

/// Ends the job of [`start_logger`], as if it had done its work.
fn end_logger(place: &Place, started: Started) {
    touch(place, "done");
    started.finish().is_silent_with(0);
}

#[test]
fn every_signal_that_ends_a_process_reaches_the_job_once() {
    let place = Place::new();
    let started = start_logger(&place, &[]);
    let signals: Vec<&str> = ENDING.iter().map(|(signal, _)| *signal).chain(["USR1"]).collect();
    let expected: Vec<&str> =
        ["ready"].into_iter().chain(ENDING.iter().map(|(_, name)| *name)).chain(["USR1"]).collect();
    assert_eq!(log_after(&place, started.pid(), &signals), expected);
    end_logger(&place, started);
}

#[test]
fn a_change_of_size_and_a_continuation_reach_the_job_once() {
    let place = Place::new();
    let started = start_logger(&place, &[]);
    assert_eq!(log_after(&place, started.pid(), &["WINCH", "CONT", "USR1"]), ["ready", "WINCH", "CONT", "USR1"]);
    end_logger(&place, started);
}

#[test]
fn signals_that_end_nobody_stay_with_us() {
    let place = Place::new();
    let started = start_logger(&place, &[]);
    kill(started.pid(), "URG");
    kill(started.pid(), "CHLD");
    assert_eq!(log_after(&place, started.pid(), &["USR1"]), ["ready", "USR1"]);
    end_logger(&place, started);
}

#[test]
fn a_continuation_follows_a_term() {
    let place = Place::new();
    let started = start_logger(&place, &[]);
    kill(started.pid(), "TERM");
    assert_eq!(place.wait_for_lines("log", 3), ["ready", "TERM", "CONT"]);
    end_logger(&place, started);
}

#[test]
fn a_stopped_job_sees_a_term() {
    let place = Place::new();
    let started = start_logger(&place, &[]);
    let job = wait_for_child(started.pid());
    kill(job, "STOP");
    wait_for_state(job, "T");
    kill(started.pid(), "TERM");
    // While it is stopped both are pending, and the order in which it then sees them is the kernel's.
    let mut log = place.wait_for_lines("log", 3);
    log.sort();
    assert_eq!(log, ["CONT", "TERM", "ready"]);
    end_logger(&place, started);
}

#[test]
fn a_signal_reaches_the_whole_group_of_the_job() {
    let place = Place::new();
    let script = "\"$@\" below & \"$@\" log";
    let words = logger("log");
    let started = detached(&place, "run", place.run("job", ["sh", "-c", script, "sh"]).args(&words[..3]));
    place.wait_for_lines("log", 1);
    place.wait_for_lines("below", 1);
    kill(started.pid(), "HUP");
    // The shell between them dies of it.
    assert_eq!(started.finish().code(), Some(129));
    assert_eq!(place.wait_for_lines("log", 2), ["ready", "HUP"]);
    assert_eq!(place.wait_for_lines("below", 2), ["ready", "HUP"]);
    touch(&place, "done");
}

#[test]
fn a_terminal_stop_goes_to_the_job_and_we_do_not_stop() {
    for signal in ["TSTP", "TTIN", "TTOU"] {
        let place = Place::new();
        // Nothing that makes children by vfork(2), as dash does: one that is stopped too early keeps its parent from stopping.
        let job = "echo $$ > pid; exec sleep 60";
        // Were its group an orphan, the kernel would not stop it.
        let started = detached(&place, "run", &place.run("job", ["sh", "-c", job]));
        let pid = pid_in(&place, "pid");
        kill(started.pid(), signal);
        wait_for_state(pid, "T");
        // A stopped process would not see this.
        kill(started.pid(), "TERM");
        assert_eq!(started.finish().code(), Some(143), "{signal}");
    }
}

#[test]
fn time_runs_on_for_a_job_that_stops_itself() {
    let place = Place::new();
    let started =
        detached(&place, "run", &limited(&place, "job", "1s", ["sh", "-c", "echo $$ > pid; kill -s STOP $$"]));
    wait_for_state(pid_in(&place, "pid"), "T");
    started.finish().complains(124, "--at-most 1s is used up");
}

#[test]
fn a_signal_that_was_ignored_at_our_start_is_not_passed_on() {
    let place = Place::new();
    let launcher = ["setsid", "env", "--default-signal", "--ignore-signal=HUP,INT,TERM,USR1,PIPE,34,64"];
    let mut command = under(&launcher, place.run("job", ["--stop-timeout", "1ms"]).args(logger("log")));
    let started = Started::new(&place, "run", &mut command);
    place.wait_for_lines("log", 1);
    for signal in ["HUP", "INT", "TERM", "USR1", "PIPE", "34", "64"] {
        kill(started.pid(), signal);
    }
    assert_eq!(log_after(&place, started.pid(), &["USR2"]), ["ready", "USR2"]);
    end_logger(&place, started);
}

#[test]
fn nohup_holds() {
    let place = Place::new();
    let run = place
        .run("job", ["sh", "-c", "echo > ready; while [ ! -e done ] && [ -e locks.db ]; do sleep 0.02; done; exit 9"]);
    let mut command = under(&[&DETACHED[..], &["nohup"]].concat(), &run);
    let started = Started::new(&place, "run", &mut command);
    place.wait_for_lines("ready", 1);
    let job = wait_for_child(started.pid());
    kill(started.pid(), "HUP");
    kill(job, "HUP");
    touch(&place, "done");
    started.finish().is_silent_with(9);
}

#[test]
fn the_exit_code_is_128_and_the_number_of_the_signal_that_the_job_died_of() {
    let place = Place::new();
    for number in [1, 4, 6, 9, 11, 13, 14, 15, 31, 34, 37, 64] {
        let job = format!("ulimit -c 0; kill -{number} $$");
        let finished = finish(&mut under(&DETACHED, &place.run("job", ["bash", "-c", &job])));
        finished.is_silent_with(128 + number);
        is_free(&place, "job");
    }
}

#[test]
fn we_die_of_int_and_quit_as_the_job_did_and_leave_no_core() {
    let place = Place::new();
    for (name, number) in [("INT", 2), ("QUIT", 3)] {
        let job = format!("ulimit -c 0; kill -s {name} $$");
        let run = place.run("job", ["sh", "-c", &job]);
        let cores = ["sh", "-c", "ulimit -c unlimited; exec \"$@\"", "sh"];
        finish(&mut under(&[&DETACHED[..], &cores].concat(), &run)).died_of(number);
        is_free(&place, "job");
    }
}

#[test]
fn we_exit_with_130_where_int_was_ignored() {
    let place = Place::new();
    for (name, code) in [("INT", 130), ("QUIT", 131)] {
        // The job has its own mind about it.
        let job = format!("$SIG{{{name}}} = 'DEFAULT'; kill {name} => $$; sleep 60");
        let run = place.run("job", ["sh", "-c", "ulimit -c 0; exec \"$@\"", "sh", "perl", "-e", &job]);
        let ignore = format!("--ignore-signal={name}");
        finish(&mut under(&["setsid", "env", "--default-signal", &ignore], &run)).is_silent_with(code);
    }
}

/// Starts a job that holds the lock until `done` is there.
fn start_holder(place: &Place) -> Started {
    let holder = detached(place, "holder", &place.run("job", ["sh", "-c", &until_exists("done")]));
    wait_until_held(place, "job");
    holder
}

#[test]
fn a_signal_while_we_wait_for_the_lock_ends_us_with_nothing_held() {
    let place = Place::new();
    let holder = start_holder(&place);
    let row = place.row("job");
    for (signal, number) in [("HUP", 1), ("USR1", 10), ("PIPE", 13), ("ALRM", 14), ("TERM", 15), ("34", 34), ("64", 64)]
    {
        let waiter = detached(&place, "waiter", &place.run("job", ["--wait", "forever", "touch", "ran"]));
        wait_until_it_listens(waiter.pid());
        kill(waiter.pid(), signal);
        waiter.finish().is_silent_with(128 + number);
    }
    for (signal, number) in [("INT", 2), ("QUIT", 3)] {
        let waiter = detached(&place, "waiter", &place.run("job", ["--wait", "forever", "touch", "ran"]));
        wait_until_it_listens(waiter.pid());
        kill(waiter.pid(), signal);
        waiter.finish().died_of(number);
    }
    assert_eq!(place.row("job"), row);
    touch(&place, "done");
    holder.finish().is_silent_with(0);
    is_free(&place, "job");
    assert!(!place.path("ran").exists());
}

#[test]
fn what_ends_nobody_leaves_us_waiting() {
    let place = Place::new();
    let holder = start_holder(&place);
    let run = place.run("job", ["--wait", "forever", "touch", "ran"]);
    let mut waiter = Started::new(
        &place,
        "waiter",
        &mut under(&["setsid", "env", "--default-signal", "--ignore-signal=TERM"], &run),
    );
    wait_until_it_listens(waiter.pid());
    for signal in ["WINCH", "CONT", "URG", "CHLD", "TERM"] {
        kill(waiter.pid(), signal);
    }
    assert!(!waiter.has_ended());
    touch(&place, "done");
    holder.finish().is_silent_with(0);
    waiter.finish().is_silent_with(0);
    assert!(place.path("ran").exists());
}

#[test]
fn a_signal_during_the_splay_ends_us_with_nothing_held() {
    let place = Place::new();
    for (signal, number) in [("HUP", 1), ("TERM", 15), ("USR2", 12), ("37", 37)] {
        // A thousandth of it would do.
        let sleeper = detached(&place, "sleeper", &place.run("job", ["--splay", "300days", "touch", "ran"]));
        wait_until_it_listens(sleeper.pid());
        kill(sleeper.pid(), signal);
        sleeper.finish().is_silent_with(128 + number);
        is_free(&place, "job");
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn stop_timeout_kills_the_whole_job() {
    for signal in ["TERM", "HUP", "INT", "QUIT"] {
        let place = Place::new();
        let job =
            format!("trap '' TERM HUP INT QUIT; setsid bash -c '{}' & {}", heartbeat("daemon"), heartbeat("beats"));
        let started = detached(&place, "run", &place.run("job", ["--stop-timeout", "100ms", "bash", "-c", &job]));
        place.wait_for_lines("beats", 1);
        place.wait_for_lines("daemon", 1);
        let below = children(wait_for_child(started.pid()));
        kill(started.pid(), signal);
        started.finish().complains(137, "it did not end within --stop-timeout 100ms");
        assert!(below.iter().all(|process| !is_alive(process.pid)));
        is_free(&place, "job");
    }
}

#[test]
fn without_stop_timeout_we_wait_and_release_only_after_the_job_is_dead() {
    let place = Place::new();
    let job = format!(
        "trap 'echo TERM >> log; {}; echo end >> log; exit 3' TERM; echo $$ > pid; {}",
        until_exists("go"),
        until_exists("never")
    );
    let started = detached(&place, "run", &place.run("job", ["sh", "-c", &job]));
    let pid = pid_in(&place, "pid");
    let next = format!("[ -e /proc/{pid} ] && echo alive >> log; echo next >> log");
    let waiter = detached(&place, "waiter", &place.run("job", ["--wait", "forever", "sh", "-c", &next]));
    wait_until_it_listens(waiter.pid());
    kill(started.pid(), "TERM");
    place.wait_for_lines("log", 1);
    is_held(&place, "job");
    touch(&place, "go");
    // The shell says of its `sleep` that it was terminated.
    assert_eq!(started.finish().code(), Some(3));
    waiter.finish().is_silent_with(0);
    assert_eq!(place.lines("log"), ["TERM", "end", "next"]);
}

#[test]
fn the_lock_comes_back_when_a_service_manager_signals_us_and_the_job_at_once() {
    let place = Place::new();
    for round in 0..21 {
        let pid_file = format!("pid-{round}");
        let job = format!("echo $$ > {pid_file}; exec sleep 60");
        let started = detached(&place, "run", &place.run("job", ["sh", "-c", &job]));
        let (job, us) = (pid_in(&place, &pid_file), started.pid());
        match round % 3 {
            0 => terminate(&[job, us]),
            // The job may be gone before its turn, by our hand.
            1 => terminate(&[us, job]),
            // Both are there when we look.
            _ => {
                kill(us, "STOP");
                wait_for_state(us, "T");
                terminate(&[job, us]);
                wait_for_state(job, "Z");
                kill(us, "CONT");
            }
        }
        started.finish().is_silent_with(143);
        is_free(&place, "job");
    }
}

/// Sends SIGTERM to processes, some of which may have ended.
fn terminate(pids: &[i32]) {
    for pid in pids {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), nix::sys::signal::Signal::SIGTERM);
    }
}

#[test]
fn after_a_stall_past_at_most_the_job_is_ended_and_the_next_owner_keeps_its_lock() {
    let place = Place::new();
    let job = format!("echo $$ > pid; {}", heartbeat("beats"));
    let started = detached(&place, "run", &limited(&place, "job", "1s", ["bash", "-c", &job]));
    let pid = pid_in(&place, "pid");
    kill(started.pid(), "STOP");
    wait_until_free(&place, "job");
    let next = start_holder(&place);
    let row = place.row("job");
    kill(started.pid(), "CONT");
    assert_eq!(started.finish().code(), Some(124));
    assert!(!is_alive(pid));
    assert_eq!(place.row("job"), row);
    touch(&place, "done");
    next.finish().is_silent_with(0);
}

#[test]
fn when_we_are_killed_the_command_is_killed_and_the_lock_stays_until_its_time() {
    let place = Place::new();
    let job = format!("echo $$ > pid; {}", heartbeat("beats"));
    let started = detached(&place, "run", &limited(&place, "job", "3s", ["bash", "-c", &job]));
    let pid = pid_in(&place, "pid");
    let row = wait_until_held(&place, "job");
    kill(started.pid(), "KILL");
    assert_eq!(started.finish().status.signal(), Some(9));
    wait_for_end(pid);
    assert_eq!(place.row("job"), Some(row.clone()));
    is_held(&place, "job");
    let next = place.run("job", ["--wait", "forever", "--at-least", "1m", "true"]);
    detached(&place, "next", &next).finish().is_silent_with(0);
    // The two clocks that a lock is judged by tick at different moments of a millisecond.
    assert!(millis(&place.row("job").unwrap().locked_at) >= millis(&row.lock_until) - 1);
}

#[test]
fn with_no_die_with_shedlock_the_command_lives_on_when_we_are_killed() {
    let place = Place::new();
    let run = place.run("job", ["--no-die-with-shedlock", "bash", "-c", &heartbeat("beats")]);
    let started = detached(&place, "run", &run);
    place.wait_for_lines("beats", 1);
    kill(started.pid(), "KILL");
    assert_eq!(started.finish().status.signal(), Some(9));
    wait_for_more(&place, "beats");
    is_held(&place, "job");
}

#[test]
fn in_a_pipeline_the_job_meets_sigpipe_as_without_us() {
    let place = Place::new();
    for (before, codes) in [("", "141 0"), ("trap '' PIPE;", "1 0")] {
        let script = format!(
            "{before} $PROGRAM run --name job --at-most 1m yes 2>/dev/null | head -1 > line; echo ${{PIPESTATUS[@]}}"
        );
        let finished = finish(&mut beside(&place, &[&DETACHED[..], &["bash", "-c", &script]].concat()));
        assert_eq!(finished.stdout.trim(), codes);
        assert_eq!(place.lines("line"), ["y"]);
        is_free(&place, "job");
    }
}

#[test]
fn the_job_of_a_detached_run_is_in_a_group_of_its_own_and_in_our_session() {
    let place = Place::new();
    let started = start_logger(&place, &[]);
    let (us, job) = (stat(started.pid()).unwrap(), stat(wait_for_child(started.pid())).unwrap());
    assert_eq!((job.group, job.session), (job.pid, us.session));
    end_logger(&place, started);
}

#[test]
fn a_log_that_may_not_grow_is_none_of_the_jobs_business() {
    let place = Place::new();
    // With the limit that cron jobs of some hosts have; the log is longer than that already.
    let script = "truncate -s 2M log; ulimit -f 1024; exec \"$PROGRAM\" run --name a --at-most 1m -v sh -c 'sleep 0.3; exit 3' 2>> log";
    let finished = finish(&mut beside(&place, &["bash", "-c", script]));
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(3), ""), "{finished:?}");
    let mistaken = "ulimit -f 1024; exec \"$PROGRAM\" run --nmae a 2>> log";
    assert_eq!(finish(&mut beside(&place, &["bash", "-c", mistaken])).code(), Some(125));
    is_free(&place, "a");
}
