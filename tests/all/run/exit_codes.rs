//! Every exit code of `shedlock run`.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;

use crate::support::fixtures::{
    Holder, bare, by_root, edit, hold, is_expired, wait_until_open, wait_until_signals_are_caught,
};
use crate::support::{Place, finish, finish_child, is_alive, kill, start, wait_until};

fn write_executable(place: &Place, name: &str, text: &str) {
    std::fs::write(place.path(name), text).unwrap();
    crate::support::fixtures::change("chmod", "0755", &place.path(name));
}

#[test]
fn the_jobs_own_code_is_ours() {
    let place = Place::new();
    // Also where it is one that we have a meaning for.
    for code in [0, 1, 42, 75, 123, 124, 125, 126, 127, 128, 137, 255] {
        finish(&mut place.run("a", ["sh", "-c", &format!("exit {code}")])).is_silent_with(code);
    }
}

#[test]
fn a_job_that_died_of_a_signal_makes_128_and_its_number() {
    let place = Place::new();
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("HUP", 129), ("SEGV", 139), ("USR1", 138), ("64", 192)] {
        finish(&mut place.run("a", ["sh", "-c", &format!("ulimit -c 0; kill -{signal} $$")])).is_silent_with(code);
    }
}

#[test]
fn a_job_that_died_of_int_or_quit_makes_us_die_of_it_without_a_core() {
    for (signal, number) in [("INT", 2), ("QUIT", 3)] {
        let place = Place::new();
        // The job leaves no core; where we are allowed to, we leave none either.
        let command = place.run("a", ["sh", "-c", &format!("ulimit -Sc 0; kill -{signal} $$")]);
        let words = ["sh", "-c", "ulimit -Sc unlimited 2> /dev/null; exec \"$@\"", "sh"];
        let finished = finish(&mut by_root(&words, &command));
        assert_eq!((finished.status.signal(), finished.status.core_dumped()), (Some(number), false), "{finished:?}");
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("", ""));
    }
}

#[test]
fn where_int_is_ignored_we_exit_with_130_instead_of_dying_of_it() {
    let place = Place::new();
    let inner = place.run("a", ["env", "--default-signal=INT", "sh", "-c", "kill -INT $$"]);
    let finished = finish(&mut by_root(&["env", "--ignore-signal=INT"], &inner));
    finished.is_silent_with(130);
}

#[test]
fn as_pid_1_we_exit_with_130() {
    let place = Place::new();
    let inner = place.run("a", ["sh", "-c", "kill -INT $$"]);
    finish(&mut by_root(&["unshare", "--pid", "--fork"], &inner)).is_silent_with(130);
}

#[test]
fn a_stop_signal_while_waiting_makes_128_and_its_number_and_the_job_is_not_run() {
    let place = Place::new();
    let holder = hold(&place, "a");
    for (signal, code) in [("TERM", 143), ("HUP", 129), ("USR1", 138), ("ALRM", 142)] {
        let waiter = start(&mut place.run("a", ["-w", "forever", "touch", "ran"]));
        let pid = i32::try_from(waiter.id()).unwrap();
        wait_until_signals_are_caught(pid);
        wait_until_open(pid, &place.database());
        kill(pid, signal);
        finish_child(waiter).is_silent_with(code);
    }
    for (signal, number) in [("INT", 2), ("QUIT", 3)] {
        let waiter = start(&mut place.run("a", ["-w", "forever", "touch", "ran"]));
        let pid = i32::try_from(waiter.id()).unwrap();
        wait_until_open(pid, &place.database());
        kill(pid, signal);
        assert_eq!(finish_child(waiter).status.signal(), Some(number));
    }
    holder.end().is_silent_with(0);
    assert!(!place.path("ran").exists());
}

#[test]
fn a_held_lock_makes_0_or_the_chosen_code() {
    let place = Place::new();
    let holder = hold(&place, "a");
    finish(&mut place.run("a", ["touch", "ran"])).is_silent_with(0);
    for code in [0, 1, 75, 255] {
        finish(&mut place.run("a", ["-E", &code.to_string(), "touch", "ran"])).is_silent_with(code);
    }
    holder.end().is_silent_with(0);
    assert!(!place.path("ran").exists());
}

#[test]
fn a_lost_lock_stops_the_job_and_makes_123() {
    let place = Place::new();
    let mut command = bare(&place, ["--name", "a", "--at-most", "2s", "--on-expiry", "extend"]);
    let holder = Holder::start(&place, &mut command, "true");
    let job = holder.job();
    let thief = "UPDATE shedlock SET locked_by = 'thief', lock_until = '2099-01-01T00:00:00.000Z', boot_id = NULL, boot_until = NULL";
    edit(&place, thief);
    holder.finish().complains(123, "the lock was lost, so the job is stopped");
    assert!(!is_alive(job));
    let row = place.row("a").unwrap();
    assert_eq!((row.locked_by.as_str(), row.lock_until.as_str()), ("thief", "2099-01-01T00:00:00.000Z"));
}

#[test]
fn a_job_that_reaches_at_most_is_stopped_and_makes_124() {
    let place = Place::new();
    for job in ["exec sleep 1000", "trap 'exit 0' TERM; while :; do sleep 0.01; done", "trap '' TERM; exec sleep 1000"]
    {
        let job = format!("exec 2> /dev/null; echo $$ > pid; {job}");
        let finished = finish(&mut bare(&place, ["--name", "a", "--at-most", "1s", "sh", "-c", &job]));
        is_expired(&finished, "1s");
        assert!(!is_alive(place.read("pid").trim().parse().unwrap()));
        // It was given back, since the job is dead.
        assert!(!place.row("a").unwrap().held);
    }
}

#[test]
fn what_fails_before_the_job_makes_125() {
    let place = Place::new();
    let run = |words: &[&str]| bare(&place, words);
    finish(&mut run(&["--name", "a", "--at-most", "never", "true"])).complains(125, "--at-most `never`");
    finish(&mut run(&["--at-most", "1m", "true"])).complains(125, "--name is missing");
    finish(&mut run(&["--name", "a", "true"])).complains(125, "--at-most is missing");
    finish(&mut run(&["--name", "a", "--at-most", "1m"])).complains(125, "no command is given");
    finish(&mut run(&["--name", "a", "--at-most", "1m", "--"])).complains(125, "no command is given");
    finish(&mut place.shedlock(["frobnicate"])).complains(125, "unknown command `frobnicate`");
    finish(&mut place.shedlock::<_, &str>([])).complains(125, "no command is given");
    finish(place.run("a", ["true"]).env("SHEDLOCK_CONFIG", place.path("missing.toml")))
        .complains(125, "missing.toml cannot be read");
    finish(place.run("a", ["true"]).env("SHEDLOCK_BACKEND", "nowhere:x")).complains(125, "unknown scheme");
    std::fs::write(place.path("file"), "this is no database, but longer than the header of one would be: ".repeat(20))
        .unwrap();
    finish(place.run("a", ["true"]).env("SHEDLOCK_BACKEND", "sqlite:file")).complains(125, "is not a SQLite database");
}

#[test]
fn a_command_that_cannot_be_executed_makes_126() {
    let place = Place::new();
    std::fs::write(place.path("text"), "true\n").unwrap();
    std::fs::create_dir(place.path("directory")).unwrap();
    let text = finish(&mut place.run("a", ["./text"]));
    text.complains(126, "cannot run `./text`: permission denied");
    assert!(text.stderr.contains("hint: make it executable"), "{}", text.stderr);
    let directory = finish(&mut place.run("a", ["./directory"]));
    directory.complains(126, "cannot run `./directory`: permission denied");
    assert!(directory.stderr.contains("hint: it is a directory"), "{}", directory.stderr);
    // A file that is found in PATH, but may not be executed.
    finish(place.run("a", ["text"]).env("PATH", place.path(""))).complains(126, "cannot run `text`: permission denied");
    // A program of no known kind is not given to the shell if it is none of ours to read as text.
    write_executable(&place, "loop", "#!./loop\n");
    finish(&mut place.run("a", ["./loop"])).complains(126, "cannot run `./loop`");
}

#[test]
fn a_command_that_is_not_found_makes_127() {
    let place = Place::new();
    let missing = finish(&mut place.run("a", ["no-such-command"]));
    missing.complains(127, "cannot run `no-such-command`: no such file or directory");
    assert!(missing.stderr.contains("hint: shedlock searches PATH"), "{}", missing.stderr);
    finish(&mut place.run("a", ["./no-such-file"]))
        .complains(127, "cannot run `./no-such-file`: no such file or directory");
    finish(&mut place.run("a", ["./text/job"])).complains(127, "cannot run `./text/job`");
    finish(&mut place.run("a", [""])).complains(127, "cannot run ``");
    let words = finish(&mut place.run("a", ["echo hello"]));
    words.complains(127, "cannot run `echo hello`");
    assert!(words.stderr.contains("sh -c"), "{}", words.stderr);
    let lines = finish(&mut place.run("a", ["set -e\nclear \u{1b}[2J"]));
    lines.complains(127, "cannot run `set -e\\nclear \\u{1b}[2J`");
}

#[test]
fn a_long_message_that_nobody_reads_keeps_nothing() {
    let place = Place::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    // Room for one page, which is enough for poll(2) to call the pipe writable.
    writer.write_all(&[b'x'; 65_536 - 4_096]).unwrap();
    let mut command = place.run("a", ["y".repeat(20_000)]);
    let mut child = command.stderr(writer).spawn().unwrap();
    let status = wait_until("the end of shedlock", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(126));
    drop(reader);
    assert!(!place.row("a").unwrap().held);
}

#[test]
fn a_script_whose_interpreter_is_missing_makes_127_and_says_so() {
    let place = Place::new();
    write_executable(&place, "script", "#!/no/such/interpreter\n");
    let finished = finish(&mut place.run("a", ["./script"]));
    finished.complains(127, "cannot run `./script`: no such file or directory");
    assert!(finished.stderr.contains("hint: the file exists, but the interpreter"), "{}", finished.stderr);
}

#[test]
fn a_script_without_interpreter_runs_under_sh() {
    let place = Place::new();
    write_executable(&place, "script", "exit \"$1\"\n");
    finish(&mut place.run("a", ["./script", "9"])).is_silent_with(9);
}

#[test]
fn trouble_with_the_backend_after_the_start_does_not_change_the_jobs_code() {
    let place = Place::new();
    for (last, code) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143)] {
        let directory = place.path("moved");
        std::fs::create_dir(&directory).unwrap();
        let mut command = place.run("a", ["--backend-timeout", "200ms"]);
        command.env("SHEDLOCK_BACKEND", format!("sqlite:{}", directory.join("locks.db").display()));
        let holder = Holder::start(&place, &mut command, last);
        std::fs::remove_dir_all(&directory).unwrap();
        // The worker closes its connection when it has had nothing to do for a while.
        wait_until("the connection to be closed", || {
            let open = std::fs::read_dir(format!("/proc/{}/fd", holder.pid())).unwrap().flatten();
            let mut targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            (!targets.any(|target| target.starts_with(&directory))).then_some(())
        });
        holder.end().complains(code, "warning: ");
        assert!(!directory.exists());
    }
}

#[test]
fn help_lists_the_codes() {
    let place = Place::new();
    let help = finish(&mut place.shedlock(["run", "--help"]));
    assert_eq!((help.code(), help.stderr.as_str()), (Some(0), ""));
    for code in ["the job's own", "128+n", "0, or -E N", "123", "124", "125", "126, 127"] {
        assert!(help.stdout.lines().any(|line| line.trim_start().starts_with(code)), "{code}");
    }
}

/// Each error number of execve(2) as the kernel would have it, in a command given with a slash and in a plain name.
#[test]
fn a_command_that_cannot_be_executed_has_the_code_that_timeout_gives_it() {
    let place = Place::new();
    write_executable(&place, "file", "text");
    std::fs::create_dir(place.path("directory")).unwrap();
    std::os::unix::fs::symlink("loop", place.path("loop")).unwrap();
    write_executable(&place, "locked", "#!/bin/sh\n");
    crate::support::fixtures::change("chmod", "0644", &place.path("locked"));
    let (long, long_path) = ("n".repeat(300), format!("./{}", "d/".repeat(3000)));
    let directory = place.path("").display().to_string();
    let (file_in_path, locked_in_path) = (format!("/bin:{directory}/file"), format!("{directory}:/bin"));
    for (command, path, words) in [
        ("./file/x", None, "not a directory"),
        ("./nothing/x", None, "no such file or directory"),
        ("./nothing", None, "no such file or directory"),
        ("./directory", None, "permission denied"),
        ("./locked", None, "permission denied"),
        ("./loop", None, "too many levels of symbolic links"),
        (&format!("./{long}"), None, "file name too long"),
        (&long_path, None, "file name too long"),
        (&long, None, "file name too long"),
        ("nothing", None, "no such file or directory"),
        ("nothing", Some("/nowhere"), "no such file or directory"),
        ("nothing", Some(&file_in_path), "not a directory"),
        ("locked", Some(&locked_in_path), "permission denied"),
    ] {
        let mut theirs = std::process::Command::new("/usr/bin/timeout");
        theirs.args(["10", command]).current_dir(place.path(""));
        let mut ours = place.run("a", [command]);
        if let Some(path) = path {
            theirs.env("PATH", path);
            ours.env("PATH", path);
        }
        let code = finish(&mut theirs).code().unwrap();
        finish(&mut ours).complains(code, words);
        // It is free again.
        finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);
    }
}

#[test]
fn only_a_file_that_is_not_there_is_127() {
    let program = std::fs::canonicalize("/bin/true").unwrap();
    let program = program.to_str().unwrap();
    for (error, code, words) in [
        ("ESTALE", 126, "stale file handle"),
        ("ENODEV", 126, "no such device"),
        ("ETIMEDOUT", 126, "connection timed out"),
        ("EIO", 126, "input/output error"),
        ("ETXTBSY", 126, "text file busy"),
        ("E2BIG", 126, "argument list too long"),
        ("ENOMEM", 126, "cannot allocate memory"),
        ("EPERM", 126, "operation not permitted"),
        ("ENOENT", 127, "no such file or directory"),
    ] {
        let place = Place::new();
        let inject = format!("inject=execve:error={error}:when=1");
        let tracer = ["strace", "-f", "-qq", "-o", "trace", "-e", "trace=execve", "-e", &inject, "-P", program];
        finish(&mut crate::support::process::under(&tracer, &place.run("a", [program]))).complains(code, words);
        finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);
    }
}
