//! A lease, what becomes of a job whose lock is lost, and the guardian.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::support::fixtures::{by_nobody, by_root, change, edit, open, open_to_nobody};
use crate::support::process::{
    Leftover, Started, beside, detached, heartbeat, is_free, is_held, last_beat, limited, millis, pid_in, stat,
    stop_at_rest, under, until_exists, wait_for_child, wait_for_end, wait_for_more, wait_for_state, wait_until_free,
    wait_until_held,
};
use crate::support::{Place, finish, is_alive, kill, wait_until};

/// Returns `shedlock run --name job --at-most 1m --lease LEASE OPTIONS sh -c SCRIPT`.
fn leased(place: &Place, lease: &str, options: &[&str], script: &str) -> Command {
    let words = [&["--lease", lease], options, &["bash", "-c", script]].concat();
    limited(place, "job", "1m", words)
}

/// Returns a job that beats by itself, by a child in its group, and by a child that has its own session, and that ignores TERM.
fn three_hearts() -> String {
    format!(
        "echo $$ > pid; trap '' TERM; ({}) & setsid bash -c 'echo $$ > daemon; {}' & {}",
        heartbeat("child"),
        heartbeat("far"),
        heartbeat("near")
    )
}

const HEARTS: [&str; 3] = ["near", "child", "far"];

fn wait_for_hearts(place: &Place) {
    for heart in HEARTS {
        wait_for_more(place, heart);
    }
}

/// Asserts that nothing of the job beats any more.
fn all_is_dead(place: &Place) {
    for file in ["pid", "daemon"] {
        wait_for_end(pid_in(place, file));
    }
    let beats = HEARTS.map(|heart| place.lines(heart).len());
    is_free(place, "other");
    assert_eq!(HEARTS.map(|heart| place.lines(heart).len()), beats);
}

/// Returns when the last of the hearts beat, in milliseconds.
fn last_of_all(place: &Place) -> i64 {
    HEARTS.map(|heart| last_beat(place, heart)).into_iter().max().unwrap()
}

/// Returns the guardian of a run, if it has one.
fn guardian(wrapper: i32) -> Option<i32> {
    crate::support::process::children(wrapper).iter().map(|child| child.pid).find(|pid| is_guardian(*pid))
}

fn is_guardian(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"shedlock-guardian\0")
}

fn wait_for_guardian(started: &Started) -> i32 {
    wait_until("the guardian", || guardian(started.pid()))
}

#[test]
fn a_lease_is_renewed_while_the_job_runs_and_given_back_after_it() {
    let place = Place::new();
    let started = detached(&place, "run", &leased(&place, "1s", &[], &until_exists("done")));
    let first = wait_until_held(&place, "job");
    assert!(millis(&first.lock_until) - millis(&first.locked_at) <= 1_000, "{first:?}");
    let later = wait_until("three leases", || {
        place.row("job").filter(|row| millis(&row.lock_until) > millis(&first.lock_until) + 2_000)
    });
    assert!(later.held && later.locked_at == first.locked_at && later.locked_by == first.locked_by, "{later:?}");
    crate::support::process::touch(&place, "done");
    started.finish().is_silent_with(0);
    is_free(&place, "job");
}

#[test]
fn a_lease_lasts_no_longer_than_at_most() {
    let place = Place::new();
    let command = limited(&place, "job", "2s", ["--lease", "1s", "--kill-after", "100ms", "bash", "-c", "sleep 60"]);
    let started = detached(&place, "run", &command);
    let first = wait_until_held(&place, "job");
    let mut last = first.clone();
    let finished = started.finish();
    finished.complains(124, "--at-most 2s is used up");
    last.lock_until = place.row("job").unwrap().lock_until;
    assert!(millis(&last.lock_until) - millis(&first.locked_at) <= 2_000, "{last:?}");
}

#[test]
fn the_job_is_told_the_end_of_at_most_and_not_that_of_the_lease() {
    let place = Place::new();
    let started = detached(&place, "run", &leased(&place, "2s", &[], "echo $SHEDLOCK_LOCK_UNTIL > until; sleep 60"));
    let until = place.wait_for_lines("until", 1).remove(0);
    let row = place.row("job").unwrap();
    assert_eq!(millis(&until) - millis(&row.locked_at), 60_000);
    kill(started.pid(), "TERM");
    started.finish();
}

#[test]
fn until_at_least_is_over_a_dead_host_keeps_its_lock() {
    let place = Place::new();
    let started = detached(&place, "run", &leased(&place, "1s", &["--at-least", "30s"], "sleep 60"));
    let row = wait_until_held(&place, "job");
    assert_eq!(millis(&row.lock_until) - millis(&row.locked_at), 30_000);
    kill(started.pid(), "KILL");
    is_held(&place, "job");
}

#[test]
fn the_lock_of_a_run_that_was_killed_is_free_within_the_lease() {
    let place = Place::new();
    let started = detached(&place, "run", &leased(&place, "1s", &[], "sleep 60"));
    wait_until_held(&place, "job");
    kill(started.pid(), "KILL");
    let row = place.row("job").unwrap();
    finish(&mut limited(
        &place,
        "job",
        "1m",
        ["--wait", "20s", "-E", "75", "bash", "-c", "echo $EPOCHREALTIME > next"],
    ))
    .is_silent_with(0);
    assert!(last_beat(&place, "next") >= millis(&row.lock_until), "not before it");
}

#[test]
fn a_job_whose_lock_was_taken_away_is_stopped_with_123() {
    let place = Place::new();
    let started = detached(&place, "run", &leased(&place, "1s", &[], &three_hearts()));
    wait_for_hearts(&place);
    edit(&place, "UPDATE shedlock SET locked_by = 'thief' WHERE name = 'job'");
    let stolen = place.row("job").unwrap();
    started.finish().complains(123, "the lock was lost, so the job is stopped");
    assert!(last_of_all(&place) < millis(&stolen.lock_until), "it is dead before the lease would have ended");
    all_is_dead(&place);
    assert_eq!(place.row("job").unwrap(), place.row("job").filter(|row| row.locked_by == "thief").unwrap());
}

#[test]
fn with_on_lost_ignore_a_job_whose_lock_was_taken_away_runs_on() {
    let place = Place::new();
    let script = format!("{}; exit 7", until_exists("done"));
    let started = detached(&place, "run", &leased(&place, "1s", &["--on-lost", "ignore"], &script));
    wait_until_held(&place, "job");
    edit(&place, "UPDATE shedlock SET locked_by = 'thief' WHERE name = 'job'");
    wait_until("the warning", || started.stderr().contains("the job runs on without it").then_some(()));
    crate::support::process::touch(&place, "done");
    started.finish().complains(7, "warning: the lock was lost");
}

#[test]
fn a_lock_that_cannot_be_renewed_stops_the_job_before_the_lease_ends() {
    let place = Place::new();
    let options = ["--kill-after", "100ms", "--backend-timeout", "200ms"];
    let started = detached(&place, "run", &leased(&place, "2s", &options, &three_hearts()));
    wait_for_hearts(&place);
    let writer = open(&place);
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let row = place.row("job").unwrap();
    let finished = started.finish();
    assert_eq!(finished.code(), Some(123), "{finished:?}");
    let lines: Vec<&str> = finished.stderr.lines().filter(|line| !line.starts_with("hint: ")).collect();
    assert!(matches!(lines[..], [_, _]), "{finished:?}");
    assert!(lines[0].contains("warning: ") && lines[0].contains("the database is locked"), "it says why: {lines:?}");
    assert!(lines[1].contains("could not be renewed in time, so the job is stopped"), "{lines:?}");
    assert!(last_of_all(&place) < millis(&row.lock_until), "it is dead before the lease ends");
    writer.execute_batch("ROLLBACK").unwrap();
    all_is_dead(&place);
}

#[test]
fn a_lease_shorter_than_a_second_is_refused() {
    finish(&mut leased(&Place::new(), "900ms", &[], "true")).complains(125, "`900ms` is shorter than 1s");
}

#[test]
fn only_a_run_with_a_lease_has_a_guardian() {
    let place = Place::new();
    for options in [&[][..], &["--lease", "10s", "--no-die-with-shedlock"]] {
        let words = [options, &["bash", "-c", "echo $$ > running; exec sleep 60"]].concat();
        let started = detached(&place, "run", &limited(&place, "job", "1m", &words));
        place.wait_for_lines("running", 1);
        assert_eq!(guardian(started.pid()), None, "{options:?}");
        kill(started.pid(), "TERM");
        started.finish();
        fs::remove_file(place.path("running")).unwrap();
    }
}

#[test]
fn the_guardian_is_apart_from_the_job_and_gone_with_the_run() {
    let place = Place::new();
    let started = detached(&place, "run", &leased(&place, "10s", &[], "echo $$ > pid; exec sleep 60"));
    let job = pid_in(&place, "pid");
    let guardian = wait_for_guardian(&started);
    let (watching, watched, ours) = (stat(guardian).unwrap(), stat(job).unwrap(), stat(started.pid()).unwrap());
    assert_eq!(watching.session, guardian, "{watching:?}");
    assert!(watching.session != watched.session && watching.session != ours.session);
    wait_until("the guardian to let go of what it was started with", || {
        let descriptors = fs::read_dir(format!("/proc/{guardian}/fd")).ok()?.flatten();
        let targets: Vec<_> = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
        let foreign = |target: &std::path::PathBuf| {
            let name = target.to_string_lossy();
            !(name.starts_with("pipe:") || name.starts_with("anon_inode:") || name == "/dev/null")
        };
        (!targets.iter().any(foreign)).then_some(())
    });
    assert_eq!(fs::read_link(format!("/proc/{guardian}/cwd")).unwrap().to_str(), Some("/"));
    assert!(fs::read(format!("/proc/{guardian}/environ")).unwrap().is_empty());
    kill(started.pid(), "TERM");
    assert_eq!(started.finish().code(), Some(143));
    assert!(!is_alive(guardian), "it is gone when we are");
}

#[test]
fn a_guardian_that_is_killed_is_replaced_at_the_next_renewal() {
    for (tag, caller) in
        [("run", "exec \"$@\""), ("with a child", "sleep 60 > /dev/null 2>&1 & echo $! > before; exec \"$@\"")]
    {
        let place = Place::new();
        let started = Started::new(
            &place,
            "run",
            &mut under(&["setsid", "sh", "-c", caller, "sh"], &leased(&place, "2s", &["-v"], &three_hearts())),
        );
        wait_for_hearts(&place);
        kill(wait_for_guardian(&started), "KILL");
        wait_until("the message", || {
            started.stderr().contains("the guardian was lost: it was killed; another was").then_some(())
        });
        let guardian = wait_for_guardian(&started);
        kill(started.pid(), "KILL");
        all_is_dead(&place);
        wait_for_end(guardian);
        if tag != "run" {
            assert!(is_alive(Leftover(pid_in(&place, "before")).0), "what is none of the job's is spared");
        }
    }
}

/// The fault comes at each message in turn: the owner, a child from before, the deadline, the job, a later deadline.
#[test]
fn a_guardian_that_could_not_be_told_all_does_no_harm() {
    // strace waits for it too.
    let before = until_exists("over");
    let caller = format!("({before}) > /dev/null 2>&1 & echo $! > before; exec \"$@\"");
    let job = "until [ -e renewed ]; do sleep 0.02; done; exit 7";
    // The first is what the caller writes.
    for message in 2..=6 {
        let place = Place::new();
        finish(&mut place.run("first", ["true"])).is_silent_with(0);
        let inject = format!("inject=write:error=EIO:when={message}");
        let tracer = ["setsid", "strace", "-f", "-qq", "-o", "trace", "-e", "trace=write", "-e", &inject];
        let words = [&tracer[..], &["sh", "-c", &caller, "sh"]].concat();
        let started = Started::new(&place, "run", &mut under(&words, &leased(&place, "1s", &[], job)));
        let before = Leftover(pid_in(&place, "before"));
        let first = wait_until_held(&place, "job").lock_until;
        wait_until("a renewal", || place.row("job").filter(|row| row.lock_until > first));
        let shedlock = wait_for_child(started.pid());
        // At the latest the next renewal has started another.
        wait_until("a guardian", || guardian(shedlock));
        crate::support::process::touch(&place, "renewed");
        wait_until_free(&place, "job");
        assert!(is_alive(before.0), "what is none of the job's is spared");
        crate::support::process::touch(&place, "over");
        started.finish().is_silent_with(7);
        let trace = place.lines("trace");
        assert!(trace.iter().any(|line| line.contains("EIO")), "{message}");
        for pid in trace.iter().filter_map(|line| line.split_whitespace().next()?.parse().ok()) {
            assert!(!is_alive(pid), "{message}: {pid} is left over");
        }
    }
}

#[test]
fn a_guardian_whose_program_cannot_be_read_keeps_no_lock() {
    let place = Place::new();
    let command = leased(&place, "2s", &["--wait-for", "tree"], &until_exists("done"));
    let started = detached(&place, "run", &command);
    let first = wait_for_guardian(&started);
    // What is killed under a tracer ends when that comes to it.
    let _tracer = trace(&place, started.pid(), &["-e", "trace=execve", "-e", "inject=execve:delay_enter=60000000"]);
    kill(first, "KILL");
    wait_until("the warning", || started.stderr().contains("its program could not be read in time").then_some(()));
    crate::support::process::touch(&place, "done");
    started.finish().complains(0, "there is no guardian any more: it was killed, and no other could be started");
    is_free(&place, "job");
}

/// Under a tracer that is in no hurry the first guardian cannot be started in time. The next renewal starts another.
#[test]
fn a_run_whose_guardian_could_not_be_started_gets_one_later() {
    let place = Place::new();
    let holder = detached(&place, "holder", &limited(&place, "job", "1m", ["sh", "-c", &until_exists("go")]));
    wait_until_held(&place, "job");
    let started = detached(&place, "run", &leased(&place, "6s", &["-v", "--wait", "1m"], &three_hearts()));
    let slow = ["-e", "trace=execve", "-e", "inject=execve:delay_enter=1500000"];
    let tracer = trace(&place, started.pid(), &slow);
    crate::support::process::touch(&place, "go");
    holder.finish().is_silent_with(0);
    wait_until("the message", || {
        started.stderr().contains("there is no guardian: its program could not").then_some(())
    });
    wait_for_hearts(&place);
    assert_eq!(guardian(started.pid()), None);
    // Without its tracer the machine is as fast as ever.
    kill(tracer.pid(), "INT");
    let guardian = wait_for_guardian(&started);
    kill(started.pid(), "KILL");
    all_is_dead(&place);
    wait_for_end(guardian);
}

/// Starts strace of a process and what it starts, and returns once it traces it.
fn trace(place: &Place, pid: i32, options: &[&str]) -> Started {
    let pid = pid.to_string();
    let words = [&["strace", "-f", "-qq", "-o", "trace", "-p", &pid], options].concat();
    let tracer = Started::new(place, "tracer", &mut beside(place, &words));
    wait_until("the tracer", || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.contains(&format!("TracerPid:\t{}\n", tracer.pid())).then_some(())
    });
    tracer
}

#[test]
fn a_guardian_that_is_stopped_ends_the_job_all_the_same_when_we_are_killed() {
    let place = Place::new();
    let started = detached(&place, "run", &leased(&place, "10s", &[], &three_hearts()));
    wait_for_hearts(&place);
    let guardian = wait_for_guardian(&started);
    kill(guardian, "STOP");
    wait_for_state(guardian, "T");
    kill(started.pid(), "KILL");
    all_is_dead(&place);
    wait_for_end(guardian);
}

/// cron reads what the job prints until everybody has closed it.
#[test]
fn nobody_waits_for_the_guardian() {
    let place = Place::new();
    let mut command = leased(&place, "10s", &[], "echo $$ > pid; trap 'exit 0' TERM; while :; do sleep 0.02; done");
    let child = crate::support::start(&mut command);
    pid_in(&place, "pid");
    kill(i32::try_from(child.id()).unwrap(), "KILL");
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout.is_empty());
}

#[test]
fn when_we_are_killed_the_guardian_ends_the_whole_job() {
    let place = Place::new();
    let started = detached(&place, "run", &leased(&place, "10s", &[], &three_hearts()));
    wait_for_hearts(&place);
    let guardian = wait_for_guardian(&started);
    kill(started.pid(), "KILL");
    all_is_dead(&place);
    wait_for_end(guardian);
    is_held(&place, "job");
}

#[test]
fn when_we_are_stopped_the_guardian_ends_the_whole_job_before_the_lease_ends() {
    let place = Place::new();
    let started = detached(&place, "run", &leased(&place, "2s", &[], &three_hearts()));
    wait_for_hearts(&place);
    stop_at_rest(&place, started.pid());
    let row = place.row("job").unwrap();
    all_is_dead(&place);
    assert!(last_of_all(&place) < millis(&row.lock_until), "{} {row:?}", last_of_all(&place));
    finish(&mut limited(&place, "job", "1m", ["--wait", "20s", "-E", "75", "true"])).is_silent_with(0);
    kill(started.pid(), "CONT");
    started.finish().complains(123, "the lock could not be renewed in time");
}

#[test]
fn a_rest_of_the_job_that_the_guardian_had_to_end_was_lost_too() {
    let place = Place::new();
    let script =
        "(setsid bash -c 'echo $$ > daemon; sleep 60' &); until [ -s daemon ]; do sleep 0.02; done; echo > over";
    let started = detached(&place, "run", &leased(&place, "1s", &["--wait-for", "tree"], script));
    place.wait_for_lines("over", 1);
    kill(started.pid(), "STOP");
    wait_for_end(pid_in(&place, "daemon"));
    kill(started.pid(), "CONT");
    started.finish().complains(123, "the lock could not be renewed in time");
}

#[test]
fn what_a_job_left_behind_at_its_normal_end_the_guardian_leaves_alone() {
    let place = Place::new();
    let left = format!("setsid bash -c 'echo $$ > left; {}' > /dev/null 2>&1 &", heartbeat("beats"));
    let script = format!("{left} {}", until_exists("beats"));
    finish(&mut leased(&place, "1s", &[], &script)).is_silent_with(0);
    let left = Leftover(pid_in(&place, "left"));
    wait_for_more(&place, "beats");
    assert!(is_alive(left.0));
}

#[test]
fn after_a_standstill_the_job_is_held_until_the_lock_is_checked() {
    let place = Place::new();
    let started = detached(&place, "run", &leased(&place, "10s", &[], &three_hearts()));
    wait_for_hearts(&place);
    let writer = open(&place);
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    kill(started.pid(), "STOP");
    wait_for_state(started.pid(), "T");
    kill(started.pid(), "CONT");
    for file in ["pid", "daemon"] {
        wait_for_state(pid_in(&place, file), "T");
    }
    let beats = HEARTS.map(|heart| place.lines(heart).len());
    assert_eq!(HEARTS.map(|heart| place.lines(heart).len()), beats);
    writer.execute_batch("ROLLBACK").unwrap();
    wait_for_hearts(&place);
    kill(started.pid(), "KILL");
    all_is_dead(&place);
}

#[test]
fn after_a_standstill_a_job_whose_lock_was_taken_away_does_not_go_on() {
    let place = Place::new();
    let started = detached(&place, "run", &leased(&place, "10s", &["--signal", "KILL"], &three_hearts()));
    wait_for_hearts(&place);
    stop_at_rest(&place, started.pid());
    edit(&place, "UPDATE shedlock SET locked_by = 'thief' WHERE name = 'job'");
    kill(started.pid(), "CONT");
    started.finish().complains(123, "the lock was lost");
    all_is_dead(&place);
}

// What the command leaves behind.

/// Returns a command that ends with code 3 and leaves a child in its group and one in a session of its own.
fn leaving() -> String {
    format!(
        "trap 'echo usr1 >> signals' USR1; (trap 'echo usr1 >> signals' USR1; {}) & \
         setsid bash -c '{}' & while [ ! -e child ] || [ ! -e far ]; do sleep 0.01; done; echo over > over; exit 3",
        heartbeat_until("child", "child-may-go"),
        heartbeat_until("far", "far-may-go")
    )
}

fn heartbeat_until(file: &str, sign: &str) -> String {
    format!("while [ ! -e {sign} ] && echo $EPOCHREALTIME >> {file}; do sleep 0.02; done 2> /dev/null")
}

#[test]
fn the_lock_is_kept_until_what_is_waited_for_has_ended() {
    for (what, beats) in [("group", "child"), ("tree", "far")] {
        let place = Place::new();
        let words = ["--wait-for", what, "bash", "-c", &leaving()].map(str::to_owned);
        let mut started = detached(&place, "run", &limited(&place, "job", "1m", words));
        place.wait_for_lines("over", 1);
        if what == "tree" {
            crate::support::process::touch(&place, "child-may-go");
        }
        wait_for_more(&place, beats);
        is_held(&place, "job");
        assert!(!started.has_ended());
        if what == "group" {
            kill(started.pid(), "USR1");
            assert_eq!(place.wait_for_lines("signals", 1)[0], "usr1", "signals go to what is left");
            crate::support::process::touch(&place, "child-may-go");
        } else {
            crate::support::process::touch(&place, "far-may-go");
        }
        started.finish().is_silent_with(3);
        crate::support::process::touch(&place, "far-may-go");
    }
}

#[test]
fn what_the_command_left_behind_is_ended_at_at_most() {
    let place = Place::new();
    let script = leaving();
    let words = ["--wait-for", "tree", "--kill-after", "100ms", "bash", "-c", &script];
    let finished = detached(&place, "run", &limited(&place, "job", "2s", words)).finish();
    finished.complains(124, "--at-most 2s is used up");
    let beats = [place.lines("child").len(), place.lines("far").len()];
    is_free(&place, "job");
    assert_eq!([place.lines("child").len(), place.lines("far").len()], beats);
}

/// sudo(8) in a job, on a host where users do not see each other's processes.
#[test]
fn what_another_user_runs_for_the_job_keeps_the_lock_though_proc_hides_it() {
    for options in [&["--lease", "1s"][..], &["--wait-for", "group"], &["--wait-for", "tree", "--lease", "1s"]] {
        let place = Place::new();
        let home = open_to_nobody(&place, "home");
        let sudo = place.path("sudo");
        change("cp", "/usr/bin/setpriv", &sudo);
        change("chmod", "4755", &sudo);
        // In the group, and after the command's end; or in another one, beside the command.
        let (apart, end) = if options.contains(&"group") { ("", "") } else { ("setsid", "sleep 60") };
        let hidden = "sh -c 'echo > lives; while [ ! -e may-end ]; do sleep 0.02; done' > /dev/null 2>&1";
        let wait = "until [ -e lives ]; do sleep 0.02; done";
        let script = format!("../sudo --reuid 0 {apart} {hidden} & {wait}; {end}");
        let words = [&["--kill-after", "100ms"], options, &["bash", "-c", &script]].concat();
        let mut command = limited(&place, "job", "2s", &words);
        command.current_dir(&home).env("SHEDLOCK_BACKEND", "sqlite:locks.db").env("HOME", &home);
        // Init belongs to root.
        let hide = "mount -t proc -o hidepid=2 proc /proc && \"$@\"; exit $?";
        let unshare = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", hide, "sh"];
        let started = detached(&place, "run", &by_root(&unshare, &by_nobody(&command)));
        wait_until("the warning", || started.stderr().contains("SIGKILL has not ended the whole job").then_some(()));
        let row = crate::support::row(&home.join("locks.db"), "job").unwrap();
        assert!(row.held, "{row:?}");
        crate::support::process::touch(&place, "home/may-end");
        assert_eq!(started.finish().code(), Some(124), "{options:?}");
    }
}

/// Returns Perl that leaves a chain of `generations` behind: each process forks, leads a session of its own, beats, lives for
/// `pause` seconds, and ends.
fn chain(generations: &str, pause: &str) -> String {
    format!(
        "use POSIX; my $us = getppid; open(B, '>>beats'); for (1..{generations}) {{ last unless -e 'locks.db'; \
         fork and POSIX::_exit(0); setsid(); syswrite(B, \"x\\n\") unless $_ % 10; \
         select(undef, undef, undef, {pause}) }} select(undef, undef, undef, 0.1); open(F, '>over') if getppid == $us"
    )
}

#[test]
fn a_job_that_forks_and_ends_as_fast_as_it_can_is_dead_before_its_lock_frees() {
    for pause in ["0.0001", "0"] {
        let place = Place::new();
        let breed = "setsid perl -e \"$0\" & sleep 60";
        let words = ["--lease", "1s", "--kill-after", "100ms", "sh", "-c", breed, &chain("1e9", pause)];
        let started = detached(&place, "run", &limited(&place, "job", "2s", words));
        wait_for_more(&place, "beats");
        assert_eq!(started.finish().code(), Some(124));
        let beats = place.lines("beats").len();
        is_free(&place, "job");
        assert_eq!(place.lines("beats").len(), beats, "with {pause}");
    }
}

#[test]
fn a_job_that_forks_and_ends_as_fast_as_it_can_does_not_outlive_its_lease_without_us() {
    for (signal, pause) in [("KILL", "0.0001"), ("KILL", "0"), ("STOP", "0.0001"), ("STOP", "0")] {
        let place = Place::new();
        let breed = "setsid perl -e \"$0\" & sleep 60";
        let words = ["--lease", "2s", "sh", "-c", breed, &chain("1e9", pause)];
        let started = detached(&place, "run", &limited(&place, "job", "1m", words));
        wait_for_more(&place, "beats");
        let guardian = wait_for_guardian(&started);
        kill(started.pid(), signal);
        wait_until_free(&place, "job");
        if signal == "STOP" {
            // On a busy machine the guardian's margin may not be enough for what breeds; but it does not let go of it.
            let beats = || place.lines("beats").len();
            wait_until("the chain to end", || {
                let before = beats();
                std::thread::sleep(Duration::from_millis(300));
                (beats() == before).then_some(())
            });
            kill(started.pid(), "CONT");
            assert_eq!(started.finish().code(), Some(123));
        } else {
            wait_until("the guardian to be gone", || (!is_alive(guardian)).then_some(()));
        }
        let beats = place.lines("beats").len();
        is_free(&place, "job");
        assert_eq!(place.lines("beats").len(), beats, "after {signal}, with {pause}");
    }
}

#[test]
fn after_a_standstill_a_job_that_forks_and_ends_as_fast_as_it_can_is_held_until_the_lock_is_checked() {
    for pause in ["0.0001", "0"] {
        let place = Place::new();
        let breed = "setsid perl -e \"$0\" & echo $$ > pid; exec sleep 60";
        let words = ["--lease", "10s", "sh", "-c", breed, &chain("1e9", pause)];
        let started = detached(&place, "run", &limited(&place, "job", "1m", words));
        wait_for_more(&place, "beats");
        let writer = open(&place);
        writer.execute_batch("BEGIN IMMEDIATE").unwrap();
        kill(started.pid(), "STOP");
        wait_for_state(started.pid(), "T");
        kill(started.pid(), "CONT");
        let beats = || place.lines("beats").len();
        wait_until("the chain to stand still", || {
            let before = beats();
            std::thread::sleep(Duration::from_millis(300));
            (beats() == before).then_some(())
        });
        // It has not been ended.
        assert_eq!(stat(pid_in(&place, "pid")).map(|job| job.state), Some('T'), "with {pause}");
        writer.execute_batch("ROLLBACK").unwrap();
        wait_for_more(&place, "beats");
        kill(started.pid(), "TERM");
        started.finish();
        is_free(&place, "job");
    }
}

#[test]
fn a_tree_that_forks_and_ends_all_the_time_keeps_the_lock_until_its_last_generation() {
    for guarded in [&["--lease", "30s"][..], &[]] {
        let place = Place::new();
        // Without a guardian there is a child from before.
        let chain = chain("500", "0.001");
        let words = [&["--wait-for", "tree"], guarded, &["perl", "-e", &chain]].concat();
        let command = limited(&place, "job", "1m", &words);
        let with_child = ["sh", "-c", "sleep 60 > /dev/null 2>&1 & exec setsid \"$@\"", "sh"];
        finish(&mut under(&with_child, &command)).is_silent_with(0);
        assert!(place.path("over").exists(), "the last was left alone, with {guarded:?}");
    }
}

/// A middle process ends between the look at the list of children and the look at itself.
#[test]
fn a_daemon_keeps_the_lock_though_each_look_takes_long() {
    for pause in ["0.03", "0.06", "0.09", "0.12", "0.15"] {
        let place = Place::new();
        let daemon = format!(
            "use POSIX; my $us = getppid; fork and POSIX::_exit(0); setsid(); select(undef, undef, undef, {pause}); \
             fork and POSIX::_exit(0); select(undef, undef, undef, 0.3); open(F, '>over') if getppid == $us"
        );
        let words = ["--wait-for", "tree", "--lease", "30s", "perl", "-e", &daemon];
        let slow = ["-e", "trace=openat", "-e", "inject=openat:delay_enter=20000"];
        let tracer = [&["setsid", "strace", "-f", "-qq", "-o", "trace"], &slow[..]].concat();
        finish(&mut under(&tracer, &limited(&place, "job", "1m", words))).is_silent_with(0);
        assert!(place.path("over").exists(), "the daemon was left alone, with {pause}");
    }
}

#[test]
fn a_job_is_ended_and_found_dead_although_nothing_can_be_opened_any_more() {
    let place = Place::new();
    let options = ["--stop-timeout", "100ms", "--backend-timeout", "1s"];
    let run = detached(&place, "run", &leased(&place, "1m", &options, &three_hearts()));
    wait_for_hearts(&place);
    let limit = [format!("--pid={}", run.pid()), "--nofile=3:3".to_owned()];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    kill(run.pid(), "TERM");
    let finished = run.finish();
    assert!(finished.stderr.contains("it did not end within --stop-timeout 100ms"), "{finished:?}");
    assert!(!finished.stderr.contains("SIGKILL has not ended"), "{finished:?}");
    all_is_dead(&place);
}
