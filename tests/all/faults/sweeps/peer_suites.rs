//! What the suites of timeout, flock, tini and dumb-init ask of their programs, and shedlock's tests had not: signals that are
//! blocked or ignored from the start, many at once, a directory that is gone, a command line that is nearly too long.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::process::{Started, beside, detached, is_free, limited, under};
use crate::support::{Place, finish, wait_until};

/// As of timeout(1), whose alarm once never came.
#[test]
fn the_time_runs_out_also_where_every_signal_is_blocked_or_ignored() {
    for option in ["--block-signal", "--ignore-signal"] {
        for lease in [&[][..], &["--lease", "2s"]] {
            let place = Place::new();
            let run = limited(&place, "job", "2s", lease.iter().copied().chain(["sleep", "60"]));
            finish(&mut under(&["setsid", "env", option], &run)).complains(124, "--at-most 2s is used up");
            is_free(&place, "job");
        }
    }
}

#[test]
fn a_storm_of_signals_hides_nothing() {
    for signal in
        [Signal::SIGUSR1, Signal::SIGTERM, Signal::SIGCONT, Signal::SIGTSTP, Signal::SIGCHLD, Signal::SIGWINCH]
    {
        for lease in [&[][..], &["--lease", "10s"]] {
            let place = Place::new();
            let deaf = "$SIG{$_} = 'IGNORE' for grep { !/^(KILL|STOP|CHLD|CLD|NUM32|NUM33)$/ } keys %SIG; \
                        open(F, '>', 'ready'); print F \"\\n\"; close F; select(undef, undef, undef, 0.3); exit 6";
            let run = place.run("job", lease.iter().copied().chain(["perl", "-e", deaf]));
            let mut started: Started = detached(&place, "run", &run);
            place.wait_for_lines("ready", 1);
            let us = Pid::from_raw(started.pid());
            wait_until(&format!("the end in a storm of {signal} {lease:?}"), || {
                for _ in 0..50 {
                    let _ = kill(us, signal);
                }
                started.has_ended().then_some(())
            });
            started.finish().is_silent_with(6);
            is_free(&place, "job");
        }
    }
}

/// Real-time signals queue, and these come faster than we read them.
#[test]
fn a_storm_of_signals_does_not_delay_the_kill_at_expiry() {
    let place = Place::new();
    // It would end by itself, and well, if the kill were delayed.
    let deaf = "$SIG{NUM40} = 'IGNORE'; open(F, '>', 'ready'); print F \"\\n\"; close F; sleep 25";
    // All processes of a user share what may be queued: strace, in a test beside this, could start no timer.
    let few = ["prlimit", "--sigpending=10000"];
    let started = detached(&place, "run", &under(&few, &limited(&place, "job", "5s", ["perl", "-e", deaf])));
    place.wait_for_lines("ready", 1);
    let storm = ["perl", "-e", "1 while kill(40, $ARGV[0]) || kill 0, $ARGV[0]", &started.pid().to_string()];
    let storms = ["storm", "gale"].map(|tag| Started::new(&place, tag, &mut beside(&place, &storm)));
    let finished = started.finish();
    drop(storms);
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(124), ""), "{finished:?}");
    let mut lines = finished.stderr.lines();
    assert!(lines.next().is_some_and(|line| line.contains("--at-most 5s is used up")), "{finished:?}");
    // A machine that is busy with more than the storm may be late with what follows, and that is said.
    let late =
        ["SIGKILL has not ended the whole job", "the lock's time ran out before", "the lock frees when its time is up"];
    assert!(
        lines.all(|line| line.starts_with("hint: ") || late.iter().any(|late| line.contains(late))),
        "{finished:?}"
    );
}

#[test]
fn a_directory_that_is_gone_is_no_obstacle_but_for_a_relative_path() {
    let place = Place::new();
    fs::create_dir(place.path("gone")).unwrap();
    let script = "cd gone && rmdir ../gone && exec \"$@\"";
    let launcher = ["sh", "-c", script, "sh"];
    for lease in [&[][..], &["--lease", "30s"]] {
        fs::create_dir_all(place.path("gone")).unwrap();
        let job = lease.iter().copied().chain(["/bin/true"]);
        finish(&mut under(&launcher, &place.run("job", job))).is_silent_with(0);
    }
    fs::create_dir_all(place.path("gone")).unwrap();
    let mut run = place.run("job", ["/bin/true"]);
    run.env("SHEDLOCK_BACKEND", "sqlite:locks.db");
    finish(&mut under(&launcher, &run)).complains(125, "the directory that shedlock was started in is gone");
}

/// Ours has room on the command line for what the job's has not, since a few variables are added to its environment.
#[test]
fn a_command_line_that_is_just_too_long_is_an_error_that_leaves_the_lock_free() {
    let place = Place::new();
    let words = vec!["x".repeat(1000); 3000];
    let starts = |count: usize, pad: usize| -> Option<i32> {
        let mut command = place.run("job", ["-E", "75", "/bin/true"]);
        command.args(&words[..count]).env("PAD", "y".repeat(pad)).stderr(std::process::Stdio::null());
        command.status().ok().and_then(|status| status.code())
    };
    let count = (0..3000).collect::<Vec<_>>().partition_point(|count| starts(*count, 0).is_some()) - 1;
    // Byte by byte to the end: it runs, then it cannot be executed, then we cannot.
    let codes: Vec<Option<i32>> = (0..1200).step_by(100).map(|pad| starts(count, pad)).collect();
    assert!(codes.iter().all(|code| matches!(code, None | Some(0 | 126))), "{codes:?}");
    assert!(codes.contains(&Some(126)), "{codes:?}");
    is_free(&place, "job");
}
