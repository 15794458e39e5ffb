//! shedlock as PID 1 of a container.

use std::process::Command;

use nix::unistd::geteuid;

use crate::support::process::{
    Started, beside, children, detached, heartbeat, is_free, limited, logger, stat, touch, under, until_exists,
    wait_for_child, wait_for_more, wait_until_held, wait_until_it_listens,
};
use crate::support::{Place, kill};

/// What becomes of /proc in the new pid namespace.
#[derive(Clone, Copy)]
enum Proc {
    /// It shows the namespace, as in a container.
    Own,
    /// It still shows the processes outside, under numbers that mean others inside.
    Foreign,
}

/// Returns the words that start what follows as PID 1 of a pid namespace, which dies with them. Root may do that; others need a
/// user namespace, and where those are forbidden the test fails.
fn unshare(proc: Proc) -> Vec<&'static str> {
    let mut words = vec!["setsid", "env", "--default-signal", "unshare"];
    if !geteuid().is_root() {
        words.push("--map-root-user");
    }
    words.extend(["--pid", "--fork", "--kill-child"]);
    if let Proc::Own = proc {
        words.push("--mount-proc");
    }
    words
}

/// Starts shedlock as PID 1.
fn start(place: &Place, proc: Proc, command: &Command) -> Started {
    Started::new(place, "run", &mut under(&unshare(proc), command))
}

/// Returns the number that PID 1 has outside of its namespace.
fn init_of(started: &Started) -> i32 {
    wait_for_child(started.pid())
}

#[test]
fn as_pid_1_we_exit_with_the_jobs_code() {
    let place = Place::new();
    let ours = "[ $PPID = 1 ] && exit 7";
    start(&place, Proc::Own, &place.run("job", ["sh", "-c", ours])).finish().is_silent_with(7);
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("34", 162)] {
        let job = format!("kill -s {signal} $$");
        let finished = start(&place, Proc::Own, &place.run("job", ["bash", "-c", &job])).finish();
        finished.is_silent_with(code);
    }
    is_free(&place, "job");
}

#[test]
fn as_pid_1_we_exit_with_130_and_131_and_raise_nothing() {
    let place = Place::new();
    for (signal, code) in [("INT", 130), ("QUIT", 131)] {
        let job = format!("ulimit -c 0; kill -s {signal} $$");
        start(&place, Proc::Own, &place.run("job", ["sh", "-c", &job])).finish().is_silent_with(code);
        is_free(&place, "job");
    }
}

#[test]
fn as_pid_1_we_pass_signals_on_from_outside_and_from_inside() {
    let place = Place::new();
    let started = start(&place, Proc::Own, &place.run("job", logger("log")));
    place.wait_for_lines("log", 1);
    let init = init_of(&started);
    for (count, signal) in ["HUP", "INT", "QUIT", "USR1", "USR2", "WINCH", "CONT", "64", "TERM"].iter().enumerate() {
        kill(init, signal);
        place.wait_for_lines("log", count + 2);
    }
    let log = place.wait_for_lines("log", 11);
    let expected = ["ready", "HUP", "INT", "QUIT", "USR1", "USR2", "WINCH", "CONT", "RTMAX", "TERM", "CONT"];
    assert_eq!(log, expected);
    touch(&place, "done");
    started.finish().is_silent_with(0);

    let job = "trap 'exit 9' USR1; kill -s USR1 1; while [ -e locks.db ]; do sleep 0.02; done";
    let finished = start(&place, Proc::Own, &place.run("job", ["bash", "-c", job])).finish();
    assert_eq!(finished.code(), Some(9));
    is_free(&place, "job");
}

#[test]
fn as_pid_1_a_stop_while_we_wait_ends_us() {
    let place = Place::new();
    let holder = detached(&place, "holder", &place.run("job", ["sh", "-c", &until_exists("done")]));
    wait_until_held(&place, "job");
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let started = start(&place, Proc::Own, &place.run("job", ["--wait", "forever", "touch", "ran"]));
        let init = init_of(&started);
        wait_until_it_listens(init);
        kill(init, signal);
        started.finish().is_silent_with(code);
    }
    touch(&place, "done");
    holder.finish().is_silent_with(0);
    assert!(!place.path("ran").exists());
}

#[test]
fn as_pid_1_we_reap_orphans() {
    let place = Place::new();
    // Each orphan's parent ends at once; the job then looks until none of them is left, dead or alive.
    let job = "for n in $(seq 20); do (sh -c 'echo $$ >> orphans; [ $PPID ] && exec sleep 0.05' &); done
        while [ \"$(wc -l < orphans)\" -lt 20 ]; do sleep 0.02; done
        for pid in $(cat orphans); do while [ -e /proc/$pid ] && [ -e locks.db ]; do sleep 0.02; done; done; echo > reaped";
    start(&place, Proc::Own, &place.run("job", ["bash", "-c", job])).finish().is_silent_with(0);
    assert_eq!(place.lines("reaped"), [""]);
}

#[test]
fn an_orphans_end_is_not_taken_for_the_jobs() {
    let place = Place::new();
    let job = "(sh -c 'exit 5' &); (sh -c 'kill -s KILL $$' &); sleep 0.1; exit 6";
    start(&place, Proc::Own, &place.run("job", ["sh", "-c", job])).finish().is_silent_with(6);
}

/// Returns a job that beats, with a daemon in a session of its own that beats too.
fn with_daemon() -> String {
    let (daemon, job) = (heartbeat("daemon"), heartbeat("job"));
    format!("trap '' TERM; (setsid bash -c \"{daemon}\" &); {job}")
        .replace("$EPOCHREALTIME >> daemon", "\\$EPOCHREALTIME >> daemon")
}

/// Starts a process outside that logs its signals.
fn start_bystander(place: &Place) -> Started {
    let words = [&["setsid"][..], &logger("bystander")].concat();
    let bystander = Started::new(place, "bystander", &mut beside(place, &words));
    place.wait_for_lines("bystander", 1);
    bystander
}

#[test]
fn as_pid_1_we_end_the_whole_job_at_expiry_and_nobody_outside() {
    for proc in [Proc::Own, Proc::Foreign] {
        let place = Place::new();
        let mut bystander = start_bystander(&place);
        let run = limited(&place, "job", "2s", ["bash", "-c", &with_daemon()]);
        let started = start(&place, proc, &run);
        place.wait_for_lines("job", 1);
        place.wait_for_lines("daemon", 1);
        let init = init_of(&started);
        let members = children(init);
        let until = place.row("job").unwrap().lock_until;
        started.finish().complains(124, "--at-most 2s is used up");
        // The lock was given back, which is done when all is dead.
        assert!(place.row("job").unwrap().lock_until < until);
        assert!(members.iter().all(|member| stat(member.pid).is_none_or(|now| now.parent != init)));
        assert_eq!(place.lines("bystander"), ["ready"]);
        assert!(!bystander.has_ended());
        touch(&place, "done");
        is_free(&place, "job");
    }
}

#[test]
fn as_pid_1_without_a_matching_proc_signals_go_to_the_job_alone() {
    let place = Place::new();
    let _bystander = start_bystander(&place);
    let started = start(&place, Proc::Foreign, &place.run("job", logger("log")));
    place.wait_for_lines("log", 1);
    kill(init_of(&started), "TERM");
    assert_eq!(place.wait_for_lines("log", 3), ["ready", "TERM", "CONT"]);
    touch(&place, "done");
    started.finish().is_silent_with(0);
    assert_eq!(place.lines("bystander"), ["ready"]);
}

#[test]
fn what_a_job_left_running_ends_with_pid_1() {
    let place = Place::new();
    let daemon = format!("echo > ready; {}", heartbeat("daemon"));
    let job = "(setsid bash -c \"$1\" &); while [ ! -e ready ]; do sleep 0.02; done; exit 3";
    let started = start(&place, Proc::Own, &place.run("job", ["sh", "-c", job, "sh", &daemon]));
    started.finish().is_silent_with(3);
    is_free(&place, "job");
    let count = place.lines("daemon").len();
    let other = detached(&place, "other", &place.run("other", ["bash", "-c", &heartbeat("clock")]));
    wait_for_more(&place, "clock");
    assert_eq!(place.lines("daemon").len(), count);
    drop(other);
}
