//! What the job sees, and how it is ended.

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::geteuid;

use crate::support::fixtures::open;
use crate::support::process::{
    DETACHED, Leftover, Started, Stat, beside, detached, heartbeat, is_free, is_held, last_beat, limited, logger,
    millis, pid_in, stat, touch, under, until_exists, wait_for_more, wait_until_free, wait_until_held, write_script,
};
use crate::support::{Finished, Place, finish, is_alive, wait_until};

/// Returns the output of a command that is started by `launcher`, without shedlock and with shedlock.
fn bare_and_under_us(place: &Place, launcher: &[&str], words: &[&str]) -> [String; 2] {
    let bare = finish(&mut beside(place, &[launcher, words].concat()));
    let ours = finish(&mut under(launcher, &place.run("job", words)));
    for finished in [&bare, &ours] {
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{launcher:?}");
        assert_ne!(finished.stdout, "");
    }
    [bare.stdout, ours.stdout]
}

#[track_caller]
fn sees_the_same(launcher: &[&str], words: &[&str]) {
    let [bare, ours] = bare_and_under_us(&Place::new(), launcher, words);
    assert_eq!(bare, ours, "{launcher:?}");
}

#[test]
fn the_mask_and_the_dispositions_are_those_we_were_started_with() {
    // posix_spawn(3), by which the tests start commands, leaves those ignored that the C library has for its threads.
    for options in [
        &["--default-signal"][..],
        &["--ignore-signal=PIPE"],
        &["--ignore-signal=CHLD"],
        &["--ignore-signal=PIPE,CHLD,HUP,INT,QUIT,TERM,TSTP,TTIN,TTOU,WINCH,CONT,URG"],
        &["--ignore-signal=RTMIN,RTMIN+3,RTMAX"],
        &["--ignore-signal"],
        &["--block-signal=HUP,TERM,PIPE"],
        &["--block-signal=CHLD"],
        &["--block-signal=RTMIN,RTMIN+3,RTMAX"],
        &["--block-signal"],
        &["--ignore-signal=PIPE,USR1", "--block-signal=PIPE,USR2,CHLD,RTMAX"],
        &["--ignore-signal", "--block-signal"],
    ] {
        let launcher = [&["setsid", "env", "--default-signal"], options].concat();
        sees_the_same(&launcher, &["grep", "^Sig[BIC]", "/proc/self/status"]);
    }
}

#[test]
fn a_job_whose_end_is_ignored_by_its_caller_is_waited_for() {
    let place = Place::new();
    let launcher = ["setsid", "env", "--default-signal", "--ignore-signal=CHLD", "--block-signal=CHLD"];
    finish(&mut under(&launcher, &place.run("job", ["sh", "-c", "exit 7"]))).is_silent_with(7);
}

#[test]
fn a_script_without_an_interpreter_runs_under_sh() {
    let place = Place::new();
    write_script(&place, "script", "printf '%s|' \"$0\" \"$@\"\nreadlink /proc/$$/exe\n");
    let shell = fs::canonicalize("/bin/sh").unwrap().display().to_string();
    let finished = finish(&mut under(&DETACHED, &place.run("job", ["./script", "a b", "-c"])));
    assert_eq!((finished.code(), finished.stdout), (Some(0), format!("./script|a b|-c|{shell}\n")));
    // Found in PATH, it is given to the shell by its path.
    let directory = place.path("script").parent().unwrap().display().to_string();
    let finished =
        finish(under(&DETACHED, &place.run("job", ["script"])).env("PATH", format!("{directory}:/usr/bin:/bin")));
    assert_eq!(finished.stdout, format!("{}|{shell}\n", place.path("script").display()));
}

#[test]
fn options_end_at_the_command() {
    let place = Place::new();
    let words = ["sh", "-c", "printf '%s|' \"$@\"", "-v", "--name", "other", "--at-most", "--", "-q", "--help"];
    let finished = finish(&mut under(&DETACHED, &place.run("job", words)));
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), "--name|other|--at-most|--|-q|--help|"));
    // The first `--` is ours, and the job's own are its.
    let finished = finish(&mut under(&DETACHED, &place.run("job", ["--", "printf", "%s|", "--", "-v"])));
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), "--|-v|"));
    assert_eq!(place.row("other"), None);
}

#[test]
fn arguments_that_are_no_text_arrive() {
    let place = Place::new();
    let odd = OsStr::from_bytes(b"\xff\xfe a\n\x80");
    let words = [OsStr::new("sh"), OsStr::new("-c"), OsStr::new("printf %s \"$1\" > got"), OsStr::new("sh"), odd];
    finish(&mut under(&DETACHED, &place.run("job", words))).is_silent_with(0);
    assert_eq!(fs::read(place.path("got")).unwrap(), odd.as_bytes());
}

/// Runs a file with exactly this environment, which need not be what a library would make of it.
fn spawn_with(environment: &[&[u8]], words: &[&OsStr]) {
    let strings =
        |list: Vec<&[u8]>| -> Vec<CString> { list.into_iter().map(|text| CString::new(text).unwrap()).collect() };
    let arguments = strings(words.iter().map(|word| word.as_bytes()).collect());
    let actions = PosixSpawnFileActions::init().unwrap();
    let attributes = PosixSpawnAttr::init().unwrap();
    let pid = posix_spawn(arguments[0].as_c_str(), &actions, &attributes, &arguments, &strings(environment.to_vec()))
        .unwrap();
    assert_eq!(waitpid(pid, None), Ok(WaitStatus::Exited(pid, 0)));
}

fn entries(place: &Place, file: &str) -> Vec<Vec<u8>> {
    let bytes = fs::read(place.path(file)).unwrap();
    bytes.split_inclusive(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

#[test]
fn the_environment_is_ours_byte_by_byte_and_the_locks_variables() {
    let place = Place::new();
    let backend = format!("SHEDLOCK_BACKEND=sqlite:{}", place.database().display());
    let config = format!("XDG_CONFIG_HOME={}", place.path("config").display());
    let given: [&[u8]; 14] = [
        b"Z=1",
        b"A=1",
        b"A=2",
        b"odd",
        b"=x",
        b"",
        b"BYTES=\xff\xfe",
        b"\xff=name",
        b"A=1",
        b"EMPTY=",
        b"SHEDLOCK_LOCKS=not the lock's",
        b"odd",
        backend.as_bytes(),
        config.as_bytes(),
    ];
    let (bare, ours) = (place.path("bare"), place.path("ours"));
    let copy = |to| [OsStr::new("/bin/cp"), OsStr::new("/proc/self/environ"), to];
    spawn_with(&given, &copy(bare.as_os_str()));
    let run = ["--name", "job", "--at-most", "1m", "--"].map(OsStr::new);
    let shedlock = [OsStr::new(env!("CARGO_BIN_EXE_shedlock")), OsStr::new("run")];
    spawn_with(&given, &[&shedlock[..], &run, &copy(ours.as_os_str())].concat());
    let (bare, ours) = (entries(&place, "bare"), entries(&place, "ours"));
    assert_eq!(bare.len(), given.len());
    let (locks, rest): (Vec<_>, Vec<_>) = ours.into_iter().partition(|entry| entry.starts_with(b"SHEDLOCK_LOCK_"));
    assert_eq!(rest, bare);
    let mut names: Vec<_> =
        locks.iter().map(|entry| String::from_utf8_lossy(entry).split('=').next().unwrap().to_owned()).collect();
    names.sort();
    let suffixes = ["BACKEND", "NAME", "OWNER", "OWNERS", "TOKEN", "TOKENS", "UNTIL"];
    assert_eq!(names, suffixes.map(|suffix| format!("SHEDLOCK_LOCK_{suffix}")));
}

#[test]
fn the_job_knows_its_lock() {
    let place = Place::new();
    let job =
        "for v in NAME OWNER OWNERS UNTIL BACKEND; do eval echo \\$SHEDLOCK_LOCK_$v; done > variables; exec sleep 60";
    let started = detached(&place, "run", &place.run("job", ["sh", "-c", job]));
    let variables = place.wait_for_lines("variables", 5);
    let row = place.row("job").unwrap();
    let backend = format!("sqlite:{}", place.database().display());
    assert_eq!(variables, ["job", &row.locked_by, &row.locked_by, &row.lock_until, &backend]);
    let parts: Vec<&str> = row.locked_by.rsplitn(3, ':').collect();
    assert_eq!(parts[1], started.pid().to_string());
}

#[test]
fn an_inner_run_names_the_inner_lock_and_lists_both_owners() {
    let place = Place::new();
    let inner = "echo $SHEDLOCK_LOCK_NAME $SHEDLOCK_LOCK_OWNER; echo $SHEDLOCK_LOCK_OWNERS";
    let outer = format!("echo $SHEDLOCK_LOCK_OWNER; \"$PROGRAM\" run --name inner --at-most 1m sh -c '{inner}'");
    let program = env!("CARGO_BIN_EXE_shedlock");
    let finished = finish(under(&DETACHED, &place.run("outer", ["sh", "-c", &outer])).env("PROGRAM", program));
    let lines: Vec<&str> = finished.stdout.lines().collect();
    let (name, owner) = lines[1].split_once(' ').unwrap();
    assert_eq!((name, lines[2]), ("inner", format!("{} {owner}", lines[0]).as_str()));
    assert_ne!(lines[0], owner);
}

#[test]
fn descriptors_arrive_and_none_of_ours_leaks() {
    let place = Place::new();
    fs::write(place.path("seven"), "through\n").unwrap();
    let launcher = ["setsid", "bash", "-c", "exec 7< seven; exec \"$@\"", "bash"];
    let [bare, ours] = bare_and_under_us(&place, &launcher, &["sh", "-c", "ls /proc/self/fd; cat <&7"]);
    assert!(bare.contains("\n7\nthrough"), "{bare}");
    assert_eq!(bare, ours);
}

#[test]
fn no_descriptor_of_ours_leaks_after_we_have_waited() {
    let place = Place::new();
    let holder = detached(&place, "holder", &place.run("job", ["sh", "-c", &until_exists("done")]));
    wait_until_held(&place, "job");
    let waiter = detached(&place, "waiter", &place.run("job", ["--wait", "forever", "ls", "/proc/self/fd"]));
    touch(&place, "done");
    holder.finish().is_silent_with(0);
    let bare = finish(&mut beside(&place, &["setsid", "ls", "/proc/self/fd"]));
    assert_eq!(waiter.finish().stdout, bare.stdout);
}

#[test]
fn standard_descriptors_that_were_closed_are_dev_null() {
    let place = Place::new();
    let look = "for n in 0 1 2; do readlink /proc/$1/fd/$n >> links; done";
    let job = format!("rm -f links; sh -c '{look}' sh $$; exit 4");
    for (redirection, closed) in [("<&-", &[0][..]), (">&-", &[1]), ("2>&-", &[2]), ("<&- >&- 2>&-", &[0, 1, 2])] {
        let launcher = ["setsid", "bash", "-c", &format!("exec \"$@\" {redirection}"), "bash"];
        assert_eq!(finish(&mut under(&launcher, &place.run("job", ["bash", "-c", &job]))).code(), Some(4));
        let links = place.lines("links");
        assert!(closed.iter().all(|number: &usize| links[*number] == "/dev/null"), "{redirection}: {links:?}");
    }
}

#[test]
fn limits_mask_directory_and_niceness_are_unchanged() {
    let shell = "cd / && umask 027 && ulimit -n 77 -c 0 && ulimit -S -t 900 && exec nice -n 5 \"$@\"";
    let look = "umask; pwd; nice; cat /proc/self/limits /proc/self/cgroup /proc/self/oom_score_adj; \
                grep -E '^(Umask|Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status";
    sees_the_same(&["setsid", "bash", "-c", shell, "bash"], &["sh", "-c", look]);
}

/// Starts a job that waits, and returns what /proc says of shedlock and of it.
fn placement(options: &[&str]) -> [Stat; 2] {
    let place = Place::new();
    let job = format!("echo $$ > pid; {}", until_exists("done"));
    let started = detached(&place, "run", place.run("job", options).args(["sh", "-c", &job]));
    // From its own hand: a child takes its place in a group only some time after it was made.
    let job = pid_in(&place, "pid");
    let both = [stat(started.pid()).unwrap(), stat(job).unwrap()];
    touch(&place, "done");
    started.finish().is_silent_with(0);
    both
}

#[test]
fn without_a_terminal_the_job_has_a_group_of_its_own_unless_told_otherwise() {
    for (options, own) in [(&[][..], true), (&["--new-group"], true), (&["--foreground"], false)] {
        let [us, job] = placement(options);
        assert_eq!(job.group, if own { job.pid } else { us.group }, "{options:?}");
        assert_eq!(job.session, us.session, "{options:?}");
    }
}

/// Returns shell text, for bash, of a whole tree that beats: a daemon in a session of its own whose parent is gone, a child in
/// the background, and the command. None of them minds what can be ignored, if `deaf`.
fn family(deaf: bool) -> String {
    let (daemon, child, command) = (heartbeat("daemon"), heartbeat("child"), heartbeat("command"));
    let ears = if deaf { "trap '' TERM HUP INT;" } else { "" };
    format!(
        "{ears} (setsid bash -c 'echo $$ > daemon.pid; {daemon}' &) ; ({child}) & echo $! > child.pid; echo $$ > command.pid; {command}"
    )
}

const FAMILY: [&str; 3] = ["daemon", "child", "command"];

/// Runs a family into its expiry: all of it is dead, and was before the lock would have freed by itself, when shedlock released
/// it.
fn expires(options: &[&str], deaf: bool) {
    let place = Place::new();
    let run = limited(&place, "job", "5s", options.iter().copied().chain(["bash", "-c", &family(deaf)]));
    let started = detached(&place, "run", &run);
    let pids = FAMILY.map(|name| pid_in(&place, &format!("{name}.pid")));
    for name in FAMILY {
        place.wait_for_lines(name, 1);
    }
    let until = millis(&place.row("job").unwrap().lock_until);
    started.finish().complains(124, "the job is stopped because --at-most 5s is used up");
    for (name, pid) in FAMILY.into_iter().zip(pids) {
        assert!(!is_alive(pid), "{name}");
    }
    let released = millis(&place.row("job").unwrap().lock_until);
    assert!(released < until, "released at {released}, {until} would have been its time");
    for name in FAMILY {
        assert!(last_beat(&place, name) <= released, "{name}");
    }
    is_free(&place, "job");
}

#[test]
fn at_expiry_the_whole_tree_is_dead_before_the_lock_frees() {
    expires(&[], false);
}

#[test]
fn a_tree_that_ignores_term_is_killed_before_the_lock_frees() {
    expires(&[], true);
}

#[test]
fn without_kill_after_the_tree_is_dead_before_the_lock_frees_too() {
    expires(&["--kill-after", "0"], true);
}

#[test]
fn with_sigkill_at_once_the_tree_is_dead_before_the_lock_frees_too() {
    expires(&["--signal", "KILL"], true);
}

#[test]
fn in_a_shared_group_the_tree_is_dead_before_the_lock_frees_too() {
    expires(&["--foreground"], true);
}

#[test]
fn signal_is_what_the_job_gets_first() {
    for (name, logged) in [("USR1", "USR1"), ("SIGINT", "INT"), ("15", "TERM"), ("RTMIN+1", "NUM35")] {
        let place = Place::new();
        let run = limited(&place, "job", "1s", ["--signal", name].into_iter().chain(logger("log")));
        let started = detached(&place, "run", &run);
        // When both are pending the kernel delivers the lower number first.
        assert!(place.wait_for_lines("log", 3).iter().any(|line| line == logged), "{name}");
        assert_eq!(started.finish().code(), Some(124));
    }
}

/// Returns how long before the lock's end the job gets its first signal, of which it dies, in milliseconds, with at-most 20s.
fn first_signal_before_the_end(options: &[&str]) -> i64 {
    let place = Place::new();
    let job = ["bash", "-c", &heartbeat("beats")];
    let started = detached(&place, "run", &limited(&place, "job", "20s", options.iter().copied().chain(job)));
    let until = millis(&wait_until_held(&place, "job").lock_until);
    assert_eq!(started.finish().code(), Some(124));
    until - last_beat(&place, "beats")
}

#[test]
fn kill_after_is_the_time_to_clean_up_and_at_most_a_fifth() {
    let (whole, short, none) = std::thread::scope(|scope| {
        let measure = |options: &'static [&str]| scope.spawn(|| first_signal_before_the_end(options));
        let (whole, short) = (measure(&[]), measure(&["--kill-after", "2s"]));
        let none = first_signal_before_the_end(&["--kill-after", "0"]);
        (whole.join().unwrap(), short.join().unwrap(), none)
    });
    // And the margin of a second; each has another one, for a machine that is busy.
    assert!((4_000..7_000).contains(&whole), "{whole}");
    assert!((2_000..4_000).contains(&short), "{short}");
    assert!((0..2_000).contains(&none), "{none}");
}

#[test]
fn a_job_that_ends_itself_in_time_is_not_killed() {
    let place = Place::new();
    let job = "trap 'sleep 0.1; echo > cleaned; exit 3' TERM; echo > ready; while [ -e ready ]; do sleep 0.02; done";
    let started = detached(&place, "run", &limited(&place, "job", "3s", ["bash", "-c", job]));
    assert_eq!(started.finish().code(), Some(124));
    assert!(place.path("cleaned").exists());
}

#[test]
fn what_a_job_left_running_at_its_normal_end_is_left_alone() {
    let place = Place::new();
    let (daemon, child) = (heartbeat("daemon"), heartbeat("child"));
    let job = format!(
        "setsid bash -c '{daemon}' & ({child}) & while ! [ -s daemon -a -s child ]; do sleep 0.02; done; exit 3"
    );
    finish_in_files(&place, &place.run("job", ["bash", "-c", &job])).is_silent_with(3);
    is_free(&place, "job");
    wait_for_more(&place, "daemon");
    wait_for_more(&place, "child");
}

fn finish_in_files(place: &Place, command: &Command) -> Finished {
    detached(place, "run", command).finish()
}

#[test]
fn children_from_before_we_were_executed_are_none_of_the_jobs() {
    let place = Place::new();
    let before = format!(
        "(trap 'echo TERM >> before' TERM; {}) & ({}) & echo $! > stranger.pid",
        heartbeat("before"),
        heartbeat("plain")
    );
    let script = format!(
        "{before}; exec \"$PROGRAM\" run --name job --at-most 1s bash -c '{}'",
        family(false).replace('\'', "'\\''")
    );
    let launcher = [&DETACHED[..], &["bash", "-c", &script]].concat();
    let started = Started::new(&place, "run", &mut beside(&place, &launcher));
    let stranger = Leftover(pid_in(&place, "stranger.pid"));
    let pids = FAMILY.map(|name| pid_in(&place, &format!("{name}.pid")));
    started.finish().complains(124, "--at-most 1s");
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    assert!(is_alive(stranger.0));
    wait_for_more(&place, "before");
    wait_for_more(&place, "plain");
    assert!(!place.read("before").contains("TERM"));
}

#[test]
fn extend_renews_while_the_job_lives() {
    let place = Place::new();
    let run = limited(
        &place,
        "job",
        "3s",
        ["--on-expiry", "extend", "sh", "-c", &format!("{}; exit 5", until_exists("done"))],
    );
    let started = detached(&place, "run", &run);
    let first = wait_until_held(&place, "job");
    let end = millis(&first.lock_until) + 3000;
    let later = wait_until("two renewals", || place.row("job").filter(|row| millis(&row.lock_until) > end));
    assert_eq!((&later.locked_by, &later.locked_at), (&first.locked_by, &first.locked_at));
    touch(&place, "done");
    started.finish().is_silent_with(5);
    is_free(&place, "job");
}

#[test]
fn a_lock_that_was_taken_from_us_ends_an_extended_job_with_123() {
    let place = Place::new();
    let run = limited(&place, "job", "2s", ["--on-expiry", "extend", "bash", "-c", &family(true)]);
    let started = detached(&place, "run", &run);
    let pids = FAMILY.map(|name| pid_in(&place, &format!("{name}.pid")));
    let theft = "UPDATE shedlock SET locked_by = 'thief', lock_until = '2999-01-01T00:00:00.000Z', boot_id = NULL";
    rusqlite::Connection::open(place.database()).unwrap().execute(theft, []).unwrap();
    let stolen = place.row("job");
    started.finish().complains(123, "the lock was lost, so the job is stopped");
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
    assert_eq!(place.row("job"), stolen);
}

#[test]
fn ignore_warns_once_and_leaves_the_lock_to_others() {
    let place = Place::new();
    let job = format!("{}; exit 6", until_exists("done"));
    let mut started =
        detached(&place, "run", &limited(&place, "job", "1s", ["--on-expiry", "ignore", "sh", "-c", &job]));
    wait_until_held(&place, "job");
    wait_until_free(&place, "job");
    wait_until("a warning", || started.stderr().contains('\n').then_some(()));
    finish(&mut under(&DETACHED, &place.run("job", ["--at-least", "1m", "touch", "other"]))).is_silent_with(0);
    let other = place.row("job");
    assert!(place.path("other").exists() && !started.has_ended());
    touch(&place, "done");
    started.finish().only_warns(6, "the job runs on without the lock because --at-most 1s is used up");
    assert_eq!(place.row("job"), other);
}

impl Finished {
    /// Asserts that the exit code is `code`, and stderr has this warning and no other.
    #[track_caller]
    fn only_warns(&self, code: i32, text: &str) {
        assert_eq!((self.code(), self.stderr.lines().count()), (Some(code), 1), "{self:?}");
        assert!(self.stderr.starts_with("shedlock: job: warning: ") && self.stderr.contains(text), "{self:?}");
    }
}

/// Runs a command as root, by sudo(8) if the tests are not root; anything else is an error.
fn as_root(words: &[&OsStr]) {
    let sudo = ["sudo", "-n"].map(OsStr::new);
    let words = if geteuid().is_root() { words.to_vec() } else { [&sudo, words].concat() };
    let status = Command::new(words[0]).args(&words[1..]).status().unwrap();
    assert!(status.success(), "this test makes a set-user-id program, so it needs root or sudo: {words:?}");
}

/// Returns the words that run a command as a user who is not root: nobody, or the user of the tests.
fn plain_user() -> Vec<&'static str> {
    if geteuid().is_root() { vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] } else { Vec::new() }
}

#[test]
fn what_sigkill_cannot_end_keeps_the_lock_with_one_warning() {
    let place = Place::new();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let (program, setpriv) = (place.path("shedlock"), place.path("setpriv"));
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_shedlock")).arg(&program).status().unwrap().success());
    let install = ["install", "-o", "root", "-m", "4755", "/usr/bin/setpriv"].map(OsStr::new);
    as_root(&[&install[..], &[setpriv.as_os_str()]].concat());
    // Of five seconds, a quarter of one is left between the kill and the end of the lock, and a busy machine renews it in time.
    let job = format!("id -u > uid; echo $$ > pid; {}", until_exists("done"));
    let words = ["run", "--name", "job", "--at-most", "5s", "./setpriv", "--reuid=0", "--regid=0", "--clear-groups"];
    let script = [&DETACHED[..], &plain_user(), &["./shedlock"], &words, &["sh", "-c", &job]].concat();
    let mut started = Started::new(&place, "run", &mut beside(&place, &script));
    let pid = pid_in(&place, "pid");
    assert_eq!(place.lines("uid"), ["0"]);
    // A connection that stays open: each look would be the last to close the file, and keep the renewal out for a moment.
    let reader = open(&place);
    assert_eq!(reader.query_row("SELECT count(*) FROM shedlock", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    let end = millis(&place.row("job").unwrap().lock_until);
    let renewed = wait_until("two renewals", || {
        assert!(!started.has_ended(), "{}", started.stderr());
        place.row("job").filter(|row| millis(&row.lock_until) > end + 5000)
    });
    assert!(renewed.held && is_alive(pid) && !started.has_ended());
    drop(reader);
    is_held(&place, "job");
    touch(&place, "done");
    let finished = started.finish();
    assert!(!is_alive(pid));
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert_eq!((finished.code(), lines.len()), (Some(124), 3), "{lines:?}");
    assert!(lines[0].contains("--at-most 5s is used up"), "{lines:?}");
    assert!(lines[1].contains("SIGKILL has not ended the whole job"), "{lines:?}");
    assert!(lines[2].starts_with("hint: "), "{lines:?}");
    is_free(&place, "job");
}

#[test]
fn a_host_that_stands_still_until_the_lock_is_over_starts_nothing() {
    for limits in [&["--at-most", "1s"][..], &["--at-most", "1m", "--lease", "1s"]] {
        let place = Place::new();
        let words = [&["run", "--name", "job"], limits, &["--", "sh", "-c", "echo >> ran"]].concat();
        let tracer =
            [&DETACHED[..], &["strace", "-f", "-qq", "-b", "execve", "-o", "trace", "-e", "trace=clone"]].concat();
        let late = [&tracer[..], &["-e", "inject=clone:delay_enter=1500000"]].concat();
        let finished = finish(&mut under(&late, &place.shedlock(words)));
        finished.complains(125, "cannot run `sh`: the lock's time was up before it began");
        assert!(!place.path("ran").exists(), "{limits:?}: {finished:?}");
        is_free(&place, "job");
    }
}

#[test]
fn a_process_table_that_is_slow_to_read_does_not_delay_the_kill() {
    let place = Place::new();
    let job = format!("trap '' TERM; {}", heartbeat("beats"));
    let words = ["run", "--name", "slow", "--at-most", "20s", "--kill-after", "1500ms", "--", "bash", "-c", &job];
    // Each reading of /proc takes two of these calls. The job gets TERM 2.5 seconds before the end, and SIGKILL one second.
    let tracer = ["strace", "-qq", "-o", "trace", "-e", "trace=getdents64"];
    let slow = [tracer.as_slice(), &["-e", "inject=getdents64:delay_enter=500000"]].concat();
    let finished = finish(&mut under(&slow, &place.shedlock(words)));
    assert_eq!(finished.code(), Some(124), "{finished:?}");
    let beats: Vec<f64> = place.lines("beats").iter().map(|beat| beat.parse().unwrap()).collect();
    assert!(beats[beats.len() - 1] - beats[0] < 20.0, "{beats:?}");
}
