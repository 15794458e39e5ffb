//! Commands that take their time to be executed: on a file system that does not answer, and stopped on their way.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::fixtures::among_mounts;
use crate::support::process::{
    DETACHED, Started, children, is_free, touch, under, wait_for_child, wait_for_state, wait_until_held, write_script,
};
use crate::support::{Place, is_alive, kill, wait_until};

/// Returns a command beside a file system whose server is stopped as soon as it is mounted, until the file `thaw` is there or
/// the command has ended. What is stopped is either sshfs, of which no request has been read, or the server behind it, which
/// keeps a request and its process even from SIGKILL.
fn far_away(place: &Place, stopped: &str, command: &Command) -> Command {
    for program in ["/usr/bin/sshfs", "/usr/lib/openssh/sftp-server"] {
        assert!(Path::new(program).exists(), "{program} is missing; install sshfs and openssh-sftp-server");
    }
    for name in ["far", "near"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    write_script(place, "far/job", "#!/bin/sh\ntouch ran\nexit 7\n");
    write_script(place, "far/broken", "#!/no/such/interpreter\n");
    let script = format!(
        "mkfifo pipe\n\
         sh -c 'echo $$ > server; exec /usr/lib/openssh/sftp-server' < pipe |\n\
             sshfs -f -o passive :\"$PWD/far\" near > pipe 2> sshfs.log &\n\
         sshfs=$!; tries=0\n\
         until mountpoint -q near && [ -s server ]; do tries=$((tries + 1)); [ $tries -lt 1000 ]; sleep 0.01; done\n\
         server=$(cat server); echo ${stopped} > stopped; kill -STOP ${stopped}\n\
         \"$@\" & run=$!; echo $run > run\n\
         while kill -0 $run 2> /dev/null && [ ! -e thaw ] && [ -e pipe ]; do sleep 0.02; done\n\
         kill -CONT ${stopped}; code=0; wait $run || code=$?\n\
         umount near; kill $server 2> /dev/null || true; wait; exit $code"
    );
    // The last `exec` of the script is never reached.
    among_mounts(&script, command)
}

/// A server that is not to stay stopped: nothing would end what waits for it.
struct Thaw(i32);

impl Drop for Thaw {
    fn drop(&mut self) {
        if is_alive(self.0) {
            kill(self.0, "CONT");
        }
    }
}

/// Starts shedlock with such a command, and returns when that is being executed; with the pid of shedlock.
fn start(place: &Place, stopped: &str, words: &[&str]) -> (Started, i32, Thaw) {
    let command = place.shedlock([&["run", "--name", "a"], words].concat());
    let started = Started::new(place, "run", &mut under(&DETACHED, &far_away(place, stopped, &command)));
    wait_until_held(place, "a");
    let pid = place.wait_for_lines("run", 1)[0].parse().unwrap();
    (started, pid, Thaw(place.wait_for_lines("stopped", 1)[0].parse().unwrap()))
}

#[test]
fn a_stop_signal_reaches_a_command_whose_execution_hangs() {
    for (signal, code) in [("TERM", 143), ("USR1", 138)] {
        let place = Place::new();
        let (started, pid, _thaw) = start(&place, "sshfs", &["--at-most", "1m", "near/job"]);
        wait_for_child(pid);
        kill(pid, signal);
        started.finish().is_silent_with(code);
        assert!(!place.path("ran").exists() && !place.path("thaw").exists());
        is_free(&place, "a");
    }
}

#[test]
fn a_command_whose_execution_hangs_is_dead_when_its_lock_frees() {
    for words in [&["--at-most", "3s", "near/job"][..], &["--at-most", "3s", "--lease", "2s", "near/job"]] {
        let place = Place::new();
        let (started, _, _thaw) = start(&place, "sshfs", words);
        started.finish().complains(124, "--at-most 3s is used up");
        assert!(!place.path("ran").exists() && !place.path("thaw").exists());
        is_free(&place, "a");
    }
}

#[test]
fn a_command_whose_execution_not_even_sigkill_ends_keeps_the_lock() {
    let place = Place::new();
    let (started, pid, _thaw) = start(&place, "server", &["--at-most", "15s", "near/job"]);
    let child = wait_for_child(pid);
    let before = place.row("a").unwrap().lock_until;
    // The margin before the end grows with it, and a busy machine needs one.
    wait_until("SIGKILL to have no effect", || started.stderr().contains("SIGKILL has not ended").then_some(()));
    wait_for_state(child, "D");
    wait_until("a renewal", || place.row("a").filter(|row| row.held && row.lock_until > before));
    touch(&place, "thaw");
    let finished = started.finish();
    assert_eq!(finished.code(), Some(124), "{finished:?}");
    assert!(!place.path("ran").exists());
    is_free(&place, "a");
}

#[test]
fn an_execution_that_took_long_ends_as_any_other() {
    for (file, code, complaint) in [
        ("near/job", 7, ""),
        ("near/broken", 127, "cannot run `near/broken`: no such file or directory"),
        ("near/nothing", 127, "cannot run `near/nothing`: no such file or directory"),
        ("near/job/x", 126, "cannot run `near/job/x`: not a directory"),
    ] {
        let place = Place::new();
        let limits = if complaint.is_empty() {
            ["--at-most", "1m", "--lease", "3s", "--wait-for", "tree", file]
        } else {
            // That is for jobs that have run.
            ["--at-most", "1m", "--at-least", "40s", "--wait-for", "tree", file]
        };
        let (started, pid, _thaw) = start(&place, "server", &limits);
        wait_for_child(pid);
        if complaint.is_empty() {
            let before = place.row("a").unwrap().lock_until;
            wait_until("a renewal", || place.row("a").filter(|row| row.lock_until > before));
        }
        touch(&place, "thaw");
        let finished = started.finish();
        if complaint.is_empty() {
            finished.is_silent_with(code);
            assert!(place.path("ran").exists());
        } else {
            finished.complains(code, complaint);
        }
        is_free(&place, "a");
    }
}

#[test]
fn a_child_that_is_stopped_before_it_executes_does_not_stop_us() {
    for (signal, code) in [("KILL", 137), ("TERM", 143)] {
        let place = Place::new();
        // The tracer holds the child up, and then it stops on its way to the execution.
        let tracer = ["strace", "-f", "-qq", "-o", "trace", "-e", "trace=setpgid", "-e", "inject=setpgid:signal=STOP"];
        let command = place.run("a", ["touch", "ran"]);
        let mut started = Started::new(&place, "run", &mut under(&[&DETACHED[..], &tracer].concat(), &command));
        wait_until_held(&place, "a");
        let shedlock = wait_for_child(started.pid());
        let child = wait_until("the child", || children(shedlock).first().map(|child| child.pid));
        wait_for_state(child, "Tt");
        assert!(!started.has_ended());
        kill(if signal == "KILL" { child } else { shedlock }, signal);
        started.finish().is_silent_with(code);
        assert!(!place.path("ran").exists());
        is_free(&place, "a");
    }
}
