//! A run inside a job.

use std::process::Command;

use crate::support::process::{detached, is_held, touch, until_exists};
use crate::support::{Finished, Place, finish, kill};

/// Runs `script` in bash under the lock `outer`; `$PROGRAM` is shedlock.
fn within(place: &Place, script: &str) -> Command {
    let mut command = place.run("outer", ["bash", "-c", script]);
    command.env("PROGRAM", env!("CARGO_BIN_EXE_shedlock"));
    command
}

const VARIABLES: &str = "for v in NAME OWNER TOKEN UNTIL; do eval echo $v=\\$SHEDLOCK_LOCK_$v; done";

fn lines(finished: &Finished) -> Vec<&str> {
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""));
    finished.stdout.lines().collect()
}

#[test]
fn a_run_for_the_lock_of_its_job_runs_at_once_and_leaves_the_lock_alone() {
    let place = Place::new();
    let inner = format!("$PROGRAM run --name outer --at-most 5s -E 75 bash -c '{VARIABLES}; exit 6'");
    let script = format!("{VARIABLES}; {inner}; echo code=$?; $PROGRAM run --name outer --at-most 5s echo again");
    let finished = finish(&mut within(&place, &script));
    let lines = lines(&finished);
    assert_eq!(lines[..4], lines[4..8], "the variables name the outer run's taking");
    assert_eq!(lines[8..], ["code=6", "again"]);
}

#[test]
fn the_lock_stays_held_after_a_nested_run_has_ended() {
    let place = Place::new();
    let script = format!("$PROGRAM run --name outer --at-most 5s true; touch over; {}", until_exists("done"));
    let started = detached(&place, "run", &within(&place, &script));
    crate::support::wait_until("the nested run", || place.path("over").exists().then_some(()));
    is_held(&place, "outer");
    touch(&place, "done");
    started.finish().is_silent_with(0);
}

#[test]
fn a_run_for_another_lock_names_that_one_and_lists_both_owners() {
    let place = Place::new();
    let inner = format!("{VARIABLES}; echo $SHEDLOCK_LOCK_OWNERS; echo $SHEDLOCK_LOCK_TOKENS");
    let script = format!("{VARIABLES}; $PROGRAM run --name inner --at-most 5s bash -c '{inner}'");
    let finished = finish(&mut within(&place, &script));
    let lines = lines(&finished);
    let value = |index: usize| lines[index].split_once('=').unwrap().1;
    assert_eq!((value(0), value(4)), ("outer", "inner"));
    assert_ne!(value(1), value(5));
    assert_eq!(lines[8], format!("{} {}", value(1), value(5)));
    assert_eq!(lines[9], format!("{} {}", value(2), value(6)));
    assert!(value(2).parse::<u64>().unwrap() > 0 && value(6).parse::<u64>().unwrap() > 0, "{lines:?}");
}

#[test]
fn from_within_an_inner_lock_the_outer_one_is_known_by_its_own_owner_and_token() {
    let place = Place::new();
    let innermost = format!("$PROGRAM run --name outer --at-most 5s bash -c \"{}\"", VARIABLES.replace('$', "\\$"));
    let script = format!("{VARIABLES}; $PROGRAM run --name inner --at-most 5s bash -c '{innermost}'");
    let finished = finish(&mut within(&place, &script.replace("\\\\$", "\\\\\\$")));
    let lines = lines(&finished);
    assert_eq!(lines[..3], lines[4..7], "{lines:?}");
}

#[test]
fn a_run_without_a_lock_does_not_show_the_outer_ones() {
    let place = Place::new();
    let shown = "env | grep ^SHEDLOCK_LOCK_ | cut -d= -f1 | sort";
    let options = "--at-most 5s --on-backend-error run -q --backend sqlite:missing/locks.db";
    let finished = finish(&mut within(&place, &format!("$PROGRAM run --name inner {options} bash -c '{shown}'")));
    assert_eq!(lines(&finished), ["SHEDLOCK_LOCK_OWNERS", "SHEDLOCK_LOCK_TOKENS"]);
}

#[test]
fn a_variable_alone_opens_no_lock() {
    let place = Place::new();
    let started =
        detached(&place, "run", &place.run("job", ["sh", "-c", "echo $SHEDLOCK_LOCK_OWNER > owner; exec sleep 60"]));
    let owner = place.wait_for_lines("owner", 1).remove(0);
    for (backend, owners) in [("locks.db", "host:1:0123456789abcdef"), ("locks.db", &format!("{owner}x")[..])] {
        let mut command = place.run("job", ["-E", "75", "true"]);
        command.env("SHEDLOCK_BACKEND", format!("sqlite:{backend}")).env("SHEDLOCK_LOCK_OWNERS", owners);
        command.env("SHEDLOCK_LOCK_NAME", "job").env("SHEDLOCK_LOCK_OWNER", owners);
        finish(&mut command).is_silent_with(75);
    }
    // In another backend the lock is another, and free: the run takes it.
    let mut command = place.run("job", ["-E", "75", "sh", "-c", "echo $SHEDLOCK_LOCK_OWNER"]);
    command.env("SHEDLOCK_BACKEND", "sqlite:others.db").env("SHEDLOCK_LOCK_OWNERS", &owner);
    let finished = finish(&mut command);
    assert!(finished.code() == Some(0) && finished.stdout.trim() != owner, "{finished:?}");
    kill(started.pid(), "TERM");
    started.finish();
}

#[test]
fn a_run_whose_outer_run_has_ended_finds_the_lock_held() {
    let place = Place::new();
    let script = "echo $SHEDLOCK_LOCK_OWNERS > owners";
    finish(&mut place.run("job", ["--at-least", "50s", "sh", "-c", script])).is_silent_with(0);
    let mut command = place.run("job", ["-E", "75", "true"]);
    command.env("SHEDLOCK_LOCK_OWNERS", place.read("owners").trim());
    finish(&mut command).is_silent_with(75);
}

#[test]
fn a_nested_run_is_bounded_by_its_own_at_most() {
    let place = Place::new();
    let inner = "$PROGRAM run --name outer --at-most 1s sleep 60; echo $?";
    let finished = finish(&mut within(&place, inner));
    assert_eq!(finished.stdout, "124\n", "{finished:?}");
}
