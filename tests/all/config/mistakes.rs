//! Mistakes as people type them, and what is said of each: the thing that is wrong, and the way out.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::support::fixtures::{among_mounts, by_nobody, change, names_in, open_to_nobody};
use crate::support::process::{beside, under, write_script};
use crate::support::{Finished, Place, finish};

/// What is typed after `shedlock`, cut at blanks; the message; and the hint, if there is one.
const TYPED: &[(&str, &str, &str)] = &[
    // A name of several words
    (
        "run --name my job --at-most 1m true",
        "--at-most is missing: it comes after the command, which is `job`",
        "if `job` is a part of the name, quote it: --name 'my job'",
    ),
    (
        "run --name a report --at-most=1m",
        "--at-most is missing: it comes after the command, which is `report`",
        "if `report` is a part of the name, quote it: --name 'a report'",
    ),
    (
        "acquire --name my job --at-most 1m",
        "unexpected argument `job`",
        "quote a name of several words, as in 'my job'; see shedlock acquire --help",
    ),
    (
        "pause my job",
        "unexpected argument `job`",
        "quote a name of several words, as in 'my job'; see shedlock pause --help",
    ),
    // An option without its value
    (
        "run --name a --at-most 1m --wait -- true",
        "--wait needs a duration",
        "`--` separates the options from the command",
    ),
    (
        "run --name a --at-most 1m --signal -- true",
        "--signal needs a value",
        "`--` separates the options from the command",
    ),
    ("run --name -- true", "--name needs a value", "`--` separates the options from the command"),
    ("run --name=-- --at-most 1m -w -- true", "--wait needs a duration", "`--` separates the options from the command"),
    ("run --name -- --at-most 1m env --name=--", "--name needs a value", "`--` separates the options from the command"),
    ("acquire --name --", "--name needs a value", "`--` separates the options from the command"),
    (
        "run --name a --at-most 1m --wait -v true",
        "--wait needs a duration, and `-v` is not one; write for example 90s, 1.5h, 1h30m, 2days or PT1H30M",
        "",
    ),
    (
        "run --name a --at-most 1m --wait true",
        "--wait `true` is not a duration; write for example 90s, 1.5h, 1h30m, 2days or PT1H30M",
        "",
    ),
    ("run --name a --at-most 10€ true", "--at-most `10€` has the unknown unit `€`; use ms, s, m, h, d or w", ""),
    // A path instead of a URL
    (
        "run --name a --at-most 1m --backend /x/y true",
        "--backend has a path and no scheme; write sqlite:PATH for a file",
        "",
    ),
    ("status --backend ./locks.db", "--backend has a path and no scheme; write sqlite:PATH for a file", ""),
    ("status --backend locks.db", "--backend has a path and no scheme; write sqlite:PATH for a file", ""),
    ("status --backend-file empty", "--backend-file empty is empty; write the backend's URL into it", ""),
    ("status --backend-file path", "--backend-file path has a path and no scheme; write sqlite:PATH for a file", ""),
    // A command that is another program's
    ("list", "unknown command `list`", "did you mean `status`?"),
    ("rn", "unknown command `rn`", "did you mean `run`?"),
    ("stauts", "unknown command `stauts`", "did you mean `status`?"),
    ("logs", "unknown command `logs`", "did you mean `history`?"),
    ("version", "unknown command `version`", "did you mean `--version`?"),
    ("frobnicate", "unknown command `frobnicate`", "see shedlock --help and shedlock run --help"),
    ("help list", "unknown command `list`", "did you mean `status`?"),
    (
        "completions tcsh",
        "SHELL `tcsh` is not known; known are bash, elvish, fish, powershell, zsh",
        "see shedlock completions --help",
    ),
    (
        "completions bsh",
        "SHELL `bsh` is not known; known are bash, elvish, fish, powershell, zsh",
        "did you mean `bash`?",
    ),
    ("completions", "SHELL is missing", "see shedlock completions --help"),
];

/// What people type who come from flock, timeout, cronlock, etcdctl, consul, docker and the Java library, and the hint.
const OF_OTHERS: &[(&str, &str)] = &[
    ("run --name a --lock-at-most 1h true", "did you mean `--at-most`?"),
    ("run --name a --lock-at-most-for 1h true", "did you mean `--at-most`?"),
    ("run --name a --lockAtMostFor 1h true", "did you mean `--at-most`?"),
    ("run --name a --lock_at_most_for 1h true", "did you mean `--at-most`?"),
    ("run --name a -lockAtMostFor 1h true", "did you mean `--at-most`?"),
    ("run --name a --defaultLockAtMostFor 1h true", "did you mean `--at-most`?"),
    ("run --name a -at-most 1h true", "did you mean `--at-most`?"),
    ("run --name a --at_most 1h true", "did you mean `--at-most`?"),
    ("run --name a --atMost 1h true", "did you mean `--at-most`?"),
    ("run --name a --max 1h true", "did you mean `--at-most`?"),
    ("run --name a --max-time 1h true", "did you mean `--at-most`?"),
    ("run --name a --max-runtime 1h true", "did you mean `--at-most`?"),
    ("run --name a --deadline 1h true", "did you mean `--at-most`?"),
    ("run --name a --activeDeadlineSeconds 1h true", "did you mean `--at-most`?"),
    ("run --name a --lock-at-least 1h true", "did you mean `--at-least`?"),
    ("run --name a --lockAtLeastFor 1h true", "did you mean `--at-least`?"),
    ("run --name a -at-least 1h true", "did you mean `--at-least`?"),
    (
        "run --name a --timeout 1h true",
        "--at-most DURATION limits the job, and --wait DURATION the wait for a held lock",
    ),
    (
        "run --name a -timeout 1h true",
        "--at-most DURATION limits the job, and --wait DURATION the wait for a held lock",
    ),
    ("run --name a -t 1h true", "--at-most DURATION limits the job, and --wait DURATION the wait for a held lock"),
    (
        "run --name a --time-limit 1h true",
        "--at-most DURATION limits the job, and --wait DURATION the wait for a held lock",
    ),
    (
        "run --name a --ttl 10 true",
        "--at-most DURATION limits lock and job; with --lease DURATION the lock of a dead host is free sooner",
    ),
    (
        "run --name a -ttl 10 true",
        "--at-most DURATION limits lock and job; with --lease DURATION the lock of a dead host is free sooner",
    ),
    (
        "run --name a --TTL 10 true",
        "--at-most DURATION limits lock and job; with --lease DURATION the lock of a dead host is free sooner",
    ),
    (
        "run --name a --session-ttl 10 true",
        "--at-most DURATION limits lock and job; with --lease DURATION the lock of a dead host is free sooner",
    ),
    (
        "run --name a --expire 10 true",
        "--at-most DURATION limits lock and job; with --lease DURATION the lock of a dead host is free sooner",
    ),
    ("acquire --name a --ttl 10", "did you mean `--at-most`?"),
    (
        "acquire --name a --timeout 10",
        "--at-most DURATION limits the job, and --wait DURATION the wait for a held lock",
    ),
    ("run --name a --no-wait true", "a held lock is not waited for unless --wait DURATION is given"),
    ("run --name a --nowait true", "a held lock is not waited for unless --wait DURATION is given"),
    ("run --name a --nonblock true", "a held lock is not waited for unless --wait DURATION is given"),
    ("run --name a --nb true", "a held lock is not waited for unless --wait DURATION is given"),
    ("run --name a --non-blocking true", "a held lock is not waited for unless --wait DURATION is given"),
    (
        "run --name a -n true",
        "--name NAME gives the name; a held lock is not waited for unless --wait DURATION is given",
    ),
    ("run --key a --at-most 1h true", "did you mean `--name`?"),
    ("run --lock a --at-most 1h true", "did you mean `--name`?"),
    ("run --lock-name a --at-most 1h true", "did you mean `--name`?"),
    ("run -name a --at-most 1h true", "did you mean `--name`?"),
    ("run --id a --at-most 1h true", "did you mean `--name`?"),
    ("run --job a --at-most 1h true", "did you mean `--name`?"),
    ("run --name a --url x true", "did you mean `--backend`?"),
    ("run --name a --dsn x true", "did you mean `--backend`?"),
    ("run --name a --endpoints x true", "did you mean `--backend`?"),
    ("run --name a --server x true", "did you mean `--backend`?"),
    ("run --name a --redis x true", "did you mean `--backend`?"),
    ("status --url x", "did you mean `--backend`?"),
    ("unlock --key a", "give the name without an option: shedlock unlock NAME"),
    ("pause --name a", "give the name without an option: shedlock pause NAME"),
    ("run --name a --interval 1h true", "did you mean `--every`?"),
    ("run --name a --period 1h true", "did you mean `--every`?"),
    ("run --name a --lock-timeout 1h true", "did you mean `--wait`?"),
    ("run --name a --acquire-timeout 1h true", "did you mean `--wait`?"),
    ("run --name a -try 1h true", "did you mean `--wait`?"),
    ("run --name a --heartbeat 1h true", "did you mean `--lease`?"),
    ("run --name a --keep-alive 1h true", "did you mean `--lease`?"),
    ("run --name a -lock-delay 1h true", "did you mean `--lease`?"),
    ("run --name a --jitter 5s true", "did you mean `--splay`?"),
    ("run --name a --exit-code 75 true", "did you mean `--conflict-exit-code`?"),
    ("run --name a --preserve-status true", "leave it out: the exit code is the job's own"),
    ("run --name a -child-exit-code true", "leave it out: the exit code is the job's own"),
    ("run --name a -pass-stdin true", "leave it out: the job has shedlock's stdin"),
    ("run --name a -x true", "leave it out: every lock has one holder"),
    ("run --name a --exclusive true", "leave it out: every lock has one holder"),
    ("run --name a -o true", "leave it out: shedlock stays beside the job, and passes no descriptor of its own on"),
    ("run --name a -c true", "a line for a shell comes last: -- sh -c 'COMMAND'"),
    ("run --name a --workdir /x true", "let a shell do it: -- sh -c 'cd DIRECTORY && exec COMMAND'"),
    ("run --name a --env A=1 true", "put it before the command: -- env VARIABLE=VALUE COMMAND"),
    ("run --name a -u www true", "put it before the command, for example: -- runuser -u USER -- COMMAND"),
    ("run --name a --mailto x true", "did you mean `--notify`?"),
    ("run --name a --webhook x true", "did you mean `--notify`?"),
    ("run --name a --on-fail x true", "did you mean `--notify`?"),
    ("run --name a --dryrun true", "did you mean `--dry-run`?"),
    ("run --name a -d true", "shedlock stays for as long as the job; a shell's & puts both into the background"),
    ("run --name a --log-file x true", "shedlock writes to stderr: redirect it, as in 2>>FILE"),
    ("run --name a --stop-signal x true", "did you mean `--signal`?"),
    ("run --name a --grace-period 5 true", "did you mean `--kill-after`?"),
    ("run --name a --silent true", "did you mean `--quiet`?"),
    ("ls", "did you mean `status`?"),
    ("ps", "did you mean `status`?"),
    ("show", "did you mean `status`?"),
    ("get", "did you mean `status`?"),
    ("holders", "did you mean `status`?"),
    ("events", "did you mean `history`?"),
    ("flock a", "did you mean `run`?"),
    ("exec a", "did you mean `run`?"),
    ("timeout a", "did you mean `run`?"),
    ("cronlock a", "did you mean `run`?"),
    ("lock a", "`shedlock run` runs a command under a lock, and `shedlock acquire` only acquires it"),
    ("try a", "`shedlock run` runs a command under a lock, and `shedlock acquire` only acquires it"),
    ("free a", "did you mean `unlock`?"),
    ("steal a", "did you mean `unlock`?"),
    ("delete a", "did you mean `forget`?"),
    ("rm a", "did you mean `forget`?"),
    ("purge a", "did you mean `forget`?"),
    ("renew a", "did you mean `extend`?"),
    ("touch a", "did you mean `extend`?"),
    ("suspend a", "did you mean `pause`?"),
    ("disable a", "did you mean `pause`?"),
    ("enable a", "did you mean `resume`?"),
    ("unpause a", "did you mean `resume`?"),
    ("doctor", "did you mean `check`?"),
    ("ping", "did you mean `check`?"),
    ("kill a", "shedlock stops no job on another host; `shedlock unlock` frees its lock"),
    ("watch", "shedlock status --watch"),
    ("ddl", "did you mean `schema`?"),
    ("run report -- true", "name the lock: shedlock run --name report --at-most DURATION -- COMMAND"),
    ("run report --at-most 1h -- true", "name the lock: shedlock run --name report --at-most DURATION -- COMMAND"),
];

#[test]
fn words_of_other_programs_are_understood() {
    let place = Place::new();
    for (typed, hint) in OF_OTHERS {
        let finished = finish(&mut place.shedlock(typed.split(' ')));
        let lines: Vec<&str> = finished.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "shedlock {typed}: {finished:?}");
        assert_eq!(lines[1], format!("hint: {hint}"), "shedlock {typed}");
        assert_eq!((finished.code(), &finished.stdout[..]), (Some(125), ""), "shedlock {typed}");
    }
    assert!(names_in(&place.path("")).is_empty());
}

#[test]
fn a_mistake_is_named_with_the_way_out() {
    let place = Place::new();
    fs::write(place.path("empty"), "\n").unwrap();
    fs::write(place.path("path"), "/var/lib/locks.db\n").unwrap();
    for (typed, message, hint) in TYPED {
        let mut command = place.shedlock(typed.split(' '));
        if typed.contains("--backend-file") {
            command.env_remove("SHEDLOCK_BACKEND");
        }
        let finished = finish(&mut command);
        let hint = if hint.is_empty() { String::new() } else { format!("hint: {hint}\n") };
        assert_eq!(finished.stderr, format!("shedlock: {message}\n{hint}"), "shedlock {typed}");
        assert_eq!((finished.code(), &finished.stdout[..]), (Some(125), ""), "shedlock {typed}");
    }
    assert_eq!(names_in(&place.path("")), ["empty", "path"]);
}

#[test]
fn what_is_not_utf_8_is_named_with_its_option() {
    let place = Place::new();
    let bytes = OsStr::from_bytes(b"\xff");
    let joined = OsStr::from_bytes(b"--at-least=\xff");
    for (words, last, complaint) in [
        (&["run", "--at-most", "1m", "--name"][..], bytes, "--name is not UTF-8 text"),
        (&["run", "--name", "a", "--at-most", "1m", "-w"], bytes, "-w is not UTF-8 text"),
        (&["run", "--name", "a", "--at-most", "1m"], joined, "--at-least is not UTF-8 text"),
        (&["status", "a"], bytes, "the argument `\u{fffd}` is not UTF-8 text"),
        (&["history", "--since=2h"], bytes, "the argument `\u{fffd}` is not UTF-8 text"),
    ] {
        finish(place.shedlock(words).arg(last)).complains(125, complaint);
    }
}

#[test]
fn help_and_man_know_a_command_by_its_name() {
    let place = Place::new();
    let stdout = |words: &[&str]| {
        let finished = finish(&mut place.shedlock(words));
        assert_eq!((finished.code(), &finished.stderr[..]), (Some(0), ""), "{words:?}");
        assert!(!finished.stdout.is_empty());
        finished.stdout
    };
    for command in ["run", "status", "acquire", "check"] {
        assert_eq!(stdout(&["help", command]), stdout(&[command, "--help"]));
        assert_eq!(stdout(&["man", command]), stdout(&["man", &format!("shedlock-{command}")]));
    }
    assert_eq!(stdout(&["help"]), stdout(&["--help"]));
    for page in ["json", "backends", "fencing"] {
        assert_eq!(stdout(&["man", page]), stdout(&["man", &format!("shedlock-{page}")]));
    }
    let finished = finish(&mut place.shedlock(["man", "histroy"]));
    finished.complains(125, "PAGE `histroy` is not known; known are shedlock, shedlock.toml, shedlock-run, ");
    assert!(finished.stderr.ends_with("hint: did you mean `history`?\n"), "{}", finished.stderr);
}

#[test]
fn a_file_that_is_read_once_leads_the_job_to_its_backend_if_no_password_is_in_it() {
    let place = Place::new();
    let shedlock = env!("CARGO_BIN_EXE_shedlock");
    let run = |url: &str| {
        // As a shell's <(echo URL): a pipe, of which the job inherits the empty rest.
        let script = format!("{shedlock} run --name a --at-most 1m --backend-file <(echo '{url}') {shedlock} verify");
        let mut command = Command::new("bash");
        command.args(["-c", &script]).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        finish(command.current_dir(place.path("")).env("HOME", place.path("")))
    };
    run(&format!("sqlite:{}", place.database().display())).is_silent_with(0);
    // A file that is gone cannot be read again.
    let file = place.path("url");
    fs::write(&file, format!("sqlite:{}", place.database().display())).unwrap();
    let inner = format!("rm url; {shedlock} verify");
    let mut command = place.run("a", ["--backend-file", "url", "sh", "-c", &inner]);
    let finished = finish(command.env_remove("SHEDLOCK_BACKEND"));
    finished.complains(125, &format!("the job's backend was read from {}, which no longer exists", file.display()));
    assert!(finished.stderr.contains("hint: give the run a permanent file"), "{}", finished.stderr);
}

#[test]
fn a_file_belongs_to_a_user_with_a_name() {
    let place = Place::new();
    let home = open_to_nobody(&place, "home");
    let file = home.join("locks.db");
    fs::write(&file, "").unwrap();
    change("chmod", "0600", &file);
    change("chown", "0:0", &file);
    let mut status = place.run("a", ["true"]);
    status.env("SHEDLOCK_BACKEND", format!("sqlite:{}", file.display())).current_dir(&home);
    finish(&mut by_nobody(&status)).complains(125, "no permission to read and write it; it belongs to user root");
}

/// As in `unshare --map-root-user`: this user is root by number, and /root is somebody else's.
#[test]
fn in_a_user_namespace_the_home_of_the_real_root_is_not_used() {
    let place = Place::new();
    let roots = place.path("root");
    fs::create_dir_all(roots.join(".config/shedlock")).unwrap();
    fs::write(roots.join(".config/shedlock/config.toml"), "frobnicate = 1\n").unwrap();
    let home = open_to_nobody(&place, "home");
    fs::create_dir_all(place.path("etc")).unwrap();
    fs::write(place.path("etc/passwd"), format!("root:x:0:0:root:{}:/bin/sh\n", roots.display())).unwrap();
    let mut inner = place.run("a", ["true"]);
    inner
        .env_remove("XDG_CONFIG_HOME")
        .env("HOME", &roots)
        .env("SHEDLOCK_BACKEND", "sqlite:locks.db")
        .current_dir(&home);
    let mut mapped = Command::new("unshare");
    mapped.arg("--map-root-user").arg(inner.get_program()).args(inner.get_args()).current_dir(&home);
    for (key, value) in inner.get_envs() {
        match value {
            Some(value) => mapped.env(key, value),
            None => mapped.env_remove(key),
        };
    }
    let etc = format!("mount --bind {} /etc", place.path("etc").display());
    finish(&mut among_mounts(&etc, &by_nobody(&mapped))).is_silent_with(0);
}

#[test]
fn what_cannot_be_run_says_what_to_do() {
    let place = Place::new();
    write_script(&place, "script", "#!/bin/sh\r\necho hello\r\n");

    for (words, code, said, hint) in [
        (&["./script"][..], 127, "cannot run `./script`: no such file or directory", "ends with a carriage return"),
        (&["cd", "/tmp"], 127, "cannot run `cd`: no such file or directory", "a shell built-in"),
        (&["export", "A=b"], 127, "cannot run `export`: no such file or directory", "a shell built-in"),
    ] {
        let finished = finish(&mut place.run("a", words));
        finished.complains(code, said);
        assert!(finished.stderr.contains(hint), "{finished:?}");
    }
    // Its directory is removed under it.
    let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$PROGRAM\" run --name a --at-most 1m ./script";
    let finished = finish(&mut beside(&place, &["sh", "-c", script]));
    finished.complains(127, "cannot run `./script`: no such file or directory");
    assert!(
        finished.stderr.contains("hint: the directory that shedlock was started in has been removed"),
        "{finished:?}"
    );
}

/// Returns a script of a user who is not root, with the directory `home` of this place; `$0` is shedlock.
fn nobody(place: &Place, script: &str) -> Finished {
    let home = place.path("home");
    let mut command = place.shedlock::<_, &str>([]);
    command.env_remove("SHEDLOCK_BACKEND").env_remove("XDG_STATE_HOME").env("HOME", &home).current_dir(&home);
    finish(&mut by_nobody(&under(&["sh", "-c", script], &command)))
}

const RUN: &str = "\"$0\" run --name a --at-most 1m";

#[test]
fn a_umask_that_takes_its_users_own_rights_is_named_and_nothing_is_left_behind() {
    for umask in ["0777", "0700", "0277"] {
        let place = Place::new();
        let home = open_to_nobody(&place, "home");
        for backend in ["", "--backend sqlite:locks.db"] {
            let finished = nobody(&place, &format!("umask {umask}; {RUN} {backend} true"));
            finished.complains(125, &format!("with the umask {umask} not even its owner could use it"));
            assert!(
                finished.stderr.contains("\nhint: set another umask before shedlock, such as `umask 077`"),
                "{finished:?}"
            );
            assert_eq!(names_in(&home), [""; 0]);
        }
        // A mode that is asked for by name is given.
        let mode = format!("umask {umask}; {RUN} --backend 'sqlite:locks.db?mode=0600' \"$0\" verify");
        nobody(&place, &mode).is_silent_with(0);
    }
}

#[test]
fn a_mode_that_keeps_out_its_own_user_is_named() {
    for (make, shut, mode) in [
        ("mkdir -p .local/state; chmod 0 .local", ".local", "0000"),
        ("mkdir -p .local/state/shedlock; chmod 0500 .local/state/shedlock", ".local/state/shedlock", "0500"),
        (
            "mkdir -p .local/state/shedlock; cd .local/state/shedlock; : >shedlock.db; chmod 0 shedlock.db",
            ".local/state/shedlock/shedlock.db",
            "0000",
        ),
    ] {
        let place = Place::new();
        let shut = open_to_nobody(&place, "home").join(shut).display().to_string();
        let finished = nobody(&place, &format!("({make}); {RUN} true"));
        finished.complains(125, &format!("the mode {mode} of {shut} gives its owner too few rights"));
        assert!(finished.stderr.contains(&format!("\nhint: chmod u+rwX {shut}; ")), "{finished:?}");
        nobody(&place, &format!("chmod u+rwX {shut}; {RUN} true")).is_silent_with(0);
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_named() {
    for blocks in [1, 4, 16] {
        let place = Place::new();
        for made_before in [false, true] {
            if made_before {
                finish(&mut place.run("a", ["true"])).is_silent_with(0);
            }
            let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
            let finished = finish(&mut under(&["bash", "-c", &script], &place.run("a", ["true"])));
            finished.complains(125, &format!("files are limited to {blocks} KiB here, which is too little"));
            assert!(finished.stderr.ends_with("hint: raise the limit with `ulimit -f`\n"), "{finished:?}");
        }
    }
}

#[test]
fn a_limit_on_open_files_is_named() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    for files in [4, 5] {
        let script = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        let finished = finish(&mut under(&["bash", "-c", &script], &place.run("a", ["true"])));
        finished.complains(125, ": too many open files");
        assert!(finished.stderr.ends_with("\nhint: raise the limit of open files with `ulimit -n`\n"), "{finished:?}");
    }
}

#[test]
fn a_limit_on_processes_is_named() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    let inject = "inject=clone,clone3:error=EAGAIN";
    let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=clone,clone3", "-e", inject];
    let finished = finish(&mut under(&strace, &place.run("a", ["true"])));
    finished.complains(125, "cannot start the thread that talks to the backend: resource temporarily unavailable");
    assert!(finished.stderr.contains("\nhint: this user, or its container, has too many processes"), "{finished:?}");
    assert!(!finished.stderr.contains("os error"), "{finished:?}");
}

#[test]
fn a_system_without_random_numbers_is_named() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    for error in ["ENOSYS", "EPERM"] {
        let inject = format!("inject=getrandom:error={error}");
        let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=getrandom", "-e", &inject];
        for words in [
            &["run", "--name", "a", "--at-most", "1m", "true"][..],
            &["acquire", "--name", "a", "--at-most", "1m"],
            &["pause", "a"],
        ] {
            let finished = finish(&mut under(&strace, &place.shedlock(words)));
            finished.complains(125, "the system returned no random number: ");
            assert!(finished.stderr.contains("\nhint: shedlock needs getrandom(2)"), "{finished:?}");
        }
        for words in [&["status"][..], &["history"], &["init"]] {
            let finished = finish(&mut under(&strace, &place.shedlock(words)));
            assert_eq!((finished.code(), &finished.stderr[..]), (Some(0), ""), "{words:?}");
        }
    }
}
