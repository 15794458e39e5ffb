//! What docs/compatibility.md promises of an upgrade, and of old kernels.

use std::process::Command;

use crate::support::process::{
    copy_program, detached, heartbeat, limited, pid_in, stat, under, wait_for_end, wait_for_more, wait_until_held,
};
use crate::support::{Place, finish, is_alive, kill};

/// Returns the same command, of a copy of the program in this place.
fn of_a_copy(place: &Place, command: &Command) -> Command {
    let copy = place.path("copy");
    copy_program(command.get_program(), &copy);
    let mut copied = Command::new(copy);
    copied.args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        copied.current_dir(directory);
    }
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => copied.env(key, value),
            None => copied.env_remove(key),
        };
    }
    copied
}

/// Puts another program in the copy's place, as a package does: the old one stays until nobody runs it.
const REPLACE: &str = "printf '#!/bin/sh\\necho new\\n' > new; chmod +x new; mv new copy; ./copy > version";

#[test]
fn a_run_goes_on_with_the_program_that_it_was_started_with() {
    let place = Place::new();
    // Two renewals of the old program come after the new one is there.
    let script = format!("{REPLACE}; sleep 1");
    let command = limited(&place, "job", "1m", ["--lease", "1s", "sh", "-c", &script]);
    finish(&mut of_a_copy(&place, &command)).is_silent_with(0);
    assert_eq!(place.read("version"), "new\n");
    finish(&mut limited(&place, "job", "1m", ["-E", "75", "true"])).is_silent_with(0);
}

#[test]
fn the_guardian_of_a_program_that_was_replaced_ends_the_whole_job() {
    let place = Place::new();
    let script = format!("setsid bash -c 'echo $$ > daemon; {}' & {REPLACE}; sleep 60", heartbeat("far"));
    let command = limited(&place, "job", "1m", ["--lease", "10s", "bash", "-c", &script]);
    let started = detached(&place, "run", &of_a_copy(&place, &command));
    wait_for_more(&place, "far");
    place.wait_for_lines("version", 1);
    wait_until_held(&place, "job");
    kill(started.pid(), "KILL");
    wait_for_end(pid_in(&place, "daemon"));
}

#[test]
fn a_kernel_without_pidfds_and_without_close_range_is_enough() {
    let place = Place::new();
    let script =
        "setsid bash -c 'echo $$ > daemon; exec sleep 60' & until [ -s daemon ]; do sleep 0.02; done; sleep 60";
    let calls = "pidfd_open,pidfd_send_signal,close_range";
    let (trace, inject) = (format!("trace={calls}"), format!("inject={calls}:error=ENOSYS"));
    let old = ["strace", "-f", "-qq", "-o", "trace", "-e", &trace, "-e", &inject];
    let job = limited(&place, "job", "4s", ["--lease", "3s", "bash", "-c", script]);
    finish(&mut under(&old, &job)).complains(124, "--at-most 4s is used up");
    let trace = place.read("trace");
    for call in calls.split(',').filter(|call| *call != "pidfd_send_signal") {
        assert!(trace.lines().any(|line| line.contains(call) && line.contains("(INJECTED)")), "{call}: {trace}");
    }
    let daemon = pid_in(&place, "daemon");
    assert!(!is_alive(daemon) || stat(daemon).is_none(), "{daemon}");
}
