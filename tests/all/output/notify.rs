//! The command of `--notify`: what it is told, when it runs, and what ends it; and the recipes for it in docs/running.md.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crate::support::fixtures::{by_root, edit};
use crate::support::process::{
    Leftover, Started, beside, children, detached, heartbeat, is_free, is_held, limited, pid_in, touch, until_exists,
    wait_for_end, wait_for_more, wait_for_state, wait_until_free, wait_until_held,
};
use crate::support::pty::Terminal;
use crate::support::repository::{ROOT, text};
use crate::support::{Finished, PATIENCE, Place, finish, kill, markdown, wait_until};

/// A command that appends what it is told, a line for each variable, to the file `told`.
const TELLS: &str = r#"for v in EVENT LOCK_NAME LOCK_OWNER LOCK_TOKEN EXIT_CODE DURATION MESSAGE; do
    eval "printf '%s=%s\n' $v \"\${SHEDLOCK_$v-unset}\"" >> told; done"#;

/// Returns `shedlock run --name job --at-most 1m --notify NOTIFY OPTIONS sh -c SCRIPT`.
fn notifying(place: &Place, notify: &str, options: &[&str], script: &str) -> Command {
    place.run("job", [&["--notify", notify], options, &["sh", "-c", script]].concat())
}

/// Returns a message about the end of a job, without how long that took.
fn without_time(message: &str) -> &str {
    message.split_once(" after ").map_or(message, |(before, _)| before)
}

/// Returns the messages about the ends of jobs.
fn ends(place: &Place) -> Vec<String> {
    told(place, "MESSAGE").iter().map(|message| without_time(message).to_owned()).collect()
}

/// Returns the value that the command of `--notify` got under this name, each time.
fn told(place: &Place, name: &str) -> Vec<String> {
    let lines = place.lines("told");
    lines.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned).collect()
}

/// Returns the events that the command of `--notify` got, with the exit codes.
fn events(place: &Place) -> Vec<String> {
    let codes = told(place, "EXIT_CODE");
    told(place, "EVENT").iter().zip(codes).map(|(event, code)| format!("{event} {code}")).collect()
}

/// Runs the command for every event.
fn with_all(place: &Place, limit: &str, words: &[&str]) -> Started {
    let options = ["--notify", TELLS, "--notify-on", "all"];
    detached(place, "run", &limited(place, "job", limit, [&options, words].concat()))
}

#[test]
fn start_and_success_are_told_with_the_token_and_the_duration() {
    let place = Place::new();
    with_all(&place, "1m", &["sh", "-c", "echo $SHEDLOCK_LOCK_OWNER $SHEDLOCK_LOCK_TOKEN > mine; sleep 1"])
        .finish()
        .is_silent_with(0);
    assert_eq!(events(&place), ["start unset", "success 0"]);
    assert_eq!(told(&place, "DURATION"), ["unset", "1"]);
    assert_eq!(told(&place, "LOCK_NAME"), ["job", "job"]);
    let mine = format!("{} {}", told(&place, "LOCK_OWNER")[0], told(&place, "LOCK_TOKEN")[0]);
    assert_eq!(place.lines("mine"), [mine]);
    let messages = told(&place, "MESSAGE");
    assert!(messages[0].starts_with("the lock is taken until 20"), "{messages:?}");
    assert_eq!(without_time(&messages[1]), "the job exited with code 0");
}

#[test]
fn what_is_in_the_command_stands_on_no_command_line() {
    let place = Place::new();
    let notify = "token=t0ken; for pid in $$ $PPID; do tr '\\0' ' ' < /proc/$pid/cmdline; echo; done > lines; \
        env > environment; echo \"$0 $#\" > words; exit 3";
    let mut run = place.run("job", ["--notify-on", "success", "true"]);
    let finished = finish(run.env("SHEDLOCK_NOTIFY", notify));
    finished.complains(0, "the command of --notify for `success` exited with code 3");
    let lines = place.lines("lines");
    assert!(lines[0].starts_with("/bin/sh -c ") && lines[1].starts_with("shedlock-notify "), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("t0ken")), "{lines:?}");
    assert_eq!(place.lines("words"), ["/bin/sh 0"]);
    // It finds what the job finds, and no variable beside.
    let ours =
        place.lines("environment").into_iter().filter(|line| line.starts_with("SHEDLOCK_") && line.contains("t0ken"));
    assert_eq!(ours.count(), 1);
    assert!(place.read("environment").contains("SHEDLOCK_NOTIFY=token=t0ken"));
}

#[test]
fn a_failure_is_told_with_the_code_of_the_job() {
    let place = Place::new();
    let finished = finish(&mut notifying(&place, TELLS, &[], "exit 7"));
    finished.is_silent_with(7);
    assert_eq!((events(&place), ends(&place)), (vec!["failure 7".into()], vec!["the job exited with code 7".into()]));
    finish(&mut notifying(&place, TELLS, &["--success-codes", "0,7", "--notify-on", "success"], "exit 7"));
    assert_eq!(events(&place)[1], "success 7");
}

#[test]
fn an_expired_job_is_told_when_it_is_dead() {
    let place = Place::new();
    with_all(&place, "1s", &["sleep", "60"]).finish().complains(124, "--at-most 1s is used up");
    assert_eq!(events(&place), ["start unset", "expired 124"]);
    assert_eq!(told(&place, "MESSAGE")[1], "the job is stopped because --at-most 1s is used up");
}

#[test]
fn a_lost_lock_is_told() {
    let place = Place::new();
    let started = with_all(&place, "1m", &["--lease", "1s", "sleep", "60"]);
    place.wait_for_lines("told", 7);
    edit(&place, "UPDATE shedlock SET locked_by = 'thief' WHERE name = 'job'");
    started.finish().complains(123, "the lock was lost");
    assert_eq!(events(&place), ["start unset", "lost 123"]);
    assert_eq!(told(&place, "MESSAGE")[1], "the lock was lost, so the job is stopped");
}

#[test]
fn an_error_is_told_whether_the_backend_or_the_command_made_it() {
    let place = Place::new();
    with_all(&place, "1m", &["--backend", "sqlite:/nonexistent/locks.db", "true"])
        .finish()
        .complains(125, "/nonexistent");
    with_all(&place, "1m", &["./nonexistent"]).finish().complains(127, "no such file");
    assert_eq!(events(&place), ["error 125", "error 127"]);
    assert_eq!(told(&place, "LOCK_TOKEN")[0], "unset");
    assert!(told(&place, "MESSAGE")[0].contains("the directory /nonexistent does not exist"));
}

#[test]
fn a_skip_is_told_with_its_code_and_the_holder() {
    let place = Place::new();
    with_all(&place, "1m", &["--at-least", "1m", "true"]).finish().is_silent_with(0);
    with_all(&place, "1m", &["-E", "75", "true"]).finish().is_silent_with(75);
    assert_eq!(events(&place)[2], "skipped 75");
    assert!(told(&place, "MESSAGE")[2].ends_with("; the job is not run"), "{:?}", told(&place, "MESSAGE"));
    assert_eq!(told(&place, "LOCK_TOKEN")[2], "unset");
}

#[test]
fn without_notify_on_only_what_went_wrong_is_told() {
    let place = Place::new();
    finish(&mut notifying(&place, TELLS, &["--at-least", "1m"], "true")).is_silent_with(0);
    finish(&mut notifying(&place, TELLS, &[], "true")).is_silent_with(0);
    assert_eq!(place.read("told"), "");
}

#[test]
fn a_run_that_was_stopped_while_it_waited_tells_nothing() {
    let place = Place::new();
    finish(&mut place.run("job", ["--at-least", "1m", "true"])).is_silent_with(0);
    let waiting = with_all(&place, "1m", &["--wait", "1m", "-vv", "true"]);
    wait_until("the wait", || waiting.stderr().contains("; waiting").then_some(()));
    kill(waiting.pid(), "TERM");
    assert_eq!(waiting.finish().code(), Some(143));
    assert_eq!(place.read("told"), "");
}

#[test]
fn the_lock_is_free_while_the_command_runs() {
    let place = Place::new();
    let notify = format!("touch began; {}", until_exists("go"));
    let mut started = detached(&place, "run", &notifying(&place, &notify, &[], "exit 3"));
    wait_until("the command", || place.path("began").exists().then_some(()));
    is_free(&place, "job");
    assert!(!started.has_ended());
    touch(&place, "go");
    started.finish().is_silent_with(3);
}

#[test]
fn the_job_does_not_wait_for_the_command_of_its_start_and_nor_does_its_lock() {
    let place = Place::new();
    let notify = format!("touch began; {}", until_exists("go"));
    let job = format!("{}; touch done", until_exists("began"));
    let options = ["--wait-for", "tree", "--notify-on", "start"];
    let mut started = detached(&place, "run", &notifying(&place, &notify, &options, &job));
    wait_until("the end of the job", || place.path("done").exists().then_some(()));
    wait_until_free(&place, "job");
    // The command of the end must not overtake it, so it is waited for.
    assert!(!started.has_ended());
    touch(&place, "go");
    started.finish().is_silent_with(0);
}

#[test]
fn what_the_command_of_the_start_leaves_in_its_group_is_not_the_jobs() {
    let place = Place::new();
    let notify = format!("({}) & echo $! > left", until_exists("go"));
    let job = until_exists("left");
    let options = ["--wait-for", "tree", "--notify-on", "start", "--notify-timeout", "1m"];
    let started = detached(&place, "run", &notifying(&place, &notify, &options, &job));
    let _left = Leftover(pid_in(&place, "left"));
    wait_until_free(&place, "job");
    touch(&place, "go");
    started.finish().is_silent_with(0);
}

#[test]
fn the_command_of_the_start_outlives_a_job_that_is_killed_with_all_of_its_tree() {
    let place = Place::new();
    let notify = format!("touch began; {}; echo whole > end", until_exists("go"));
    let words = ["--lease", "1s", "--notify", &notify, "--notify-on", "start", "sh", "-c", "trap '' TERM; sleep 60"];
    let started = detached(&place, "run", &limited(&place, "job", "4s", words));
    wait_until_held(&place, "job");
    wait_until_free(&place, "job");
    touch(&place, "go");
    started.finish().complains(124, "--at-most 4s is used up");
    assert_eq!(place.read("end"), "whole\n");
}

#[test]
fn the_guardian_spares_the_command_of_the_start() {
    let place = Place::new();
    let notify = format!("echo $$ > notifier; {}; echo whole > end", until_exists("go"));
    let words = ["--lease", "1s", "--notify", &notify, "--notify-on", "start", "--notify-timeout", "1m"];
    let job = ["bash", "-c", "echo $$ > pid; sleep 60"];
    let started = detached(&place, "run", &limited(&place, "job", "1m", [&words[..], &job].concat()));
    let _notifier = Leftover(pid_in(&place, "notifier"));
    let job = pid_in(&place, "pid");
    kill(started.pid(), "STOP");
    wait_for_state(job, "ZX");
    kill(started.pid(), "CONT");
    touch(&place, "go");
    assert_eq!(started.finish().code(), Some(123));
    assert_eq!(place.read("end"), "whole\n");
}

/// In a pid namespace of its own, where the next number can be chosen.
#[test]
fn the_guardian_spares_no_process_that_got_the_number_of_an_ended_command() {
    let place = Place::new();
    let job = format!(
        "until grep -q 'for `start` has ended' init.stderr; do sleep 0.02; done
        echo $(($(cat notifier) - 1)) > /proc/sys/kernel/ns_last_pid; setsid bash -c 'echo $$ > reused; {}' &
        until [ -s reused ]; do sleep 0.02; done; kill -9 $PPID",
        heartbeat("beats")
    );
    let words =
        ["-vv", "--lease", "20s", "--notify", "echo $PPID > notifier", "--notify-on", "start", "bash", "-c", &job];
    let inner = limited(&place, "job", "1m", words);
    let init = "\"$@\"; while [ -e notifier ] && kill -0 $(cat reused); do sleep 0.02; done; touch over";
    let launcher = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", init, "sh"];
    let _started = Started::new(&place, "init", &mut by_root(&launcher, &inner));
    wait_until("the end of all of the job", || place.path("over").exists().then_some(()));
    assert_eq!(place.read("notifier"), place.read("reused"));
}

#[test]
fn at_its_timeout_the_whole_group_of_the_command_is_killed() {
    let place = Place::new();
    let notify = format!("echo $$ > pid; trap '' TERM; bash -c '{}' & sleep 60", heartbeat("beats"));
    let run = notifying(&place, &notify, &["--notify-timeout", "1s"], "exit 3");
    // A file takes its output: what it left running could keep a pipe open.
    detached(&place, "run", &run).finish().complains(
        3,
        "warning: the command of --notify for `failure` was killed because it did not end within --notify-timeout 1s",
    );
    wait_for_end(pid_in(&place, "pid"));
    let beats = place.lines("beats").len();
    assert!(beats > 0);
    is_free(&place, "other");
    assert_eq!(place.lines("beats").len(), beats);
}

#[test]
fn a_command_that_fails_is_one_warning_and_the_code_is_the_jobs() {
    let place = Place::new();
    finish(&mut notifying(&place, "exit 9", &[], "exit 3"))
        .complains(3, "shedlock: job: warning: the command of --notify for `failure` exited with code 9");
    finish(&mut notifying(&place, "kill -9 $$", &["--notify-on", "success"], "true"))
        .complains(0, "the command of --notify for `success` exited with code 137");
    finish(&mut notifying(&place, "exit 9", &["-q"], "exit 3")).is_silent_with(3);
    let finished = finish(&mut notifying(&place, "exit 9", &["--log-format", "json", "--notify-on", "all"], "true"));
    let said: Vec<serde_json::Value> =
        finished.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> =
        said.iter().map(|line| (line["event"].as_str().unwrap(), line["level"].as_str().unwrap())).collect();
    assert_eq!((finished.code(), events), (Some(0), vec![("not_notified", "warning"); 2]));
}

#[test]
fn a_failed_command_of_the_start_is_reported_while_the_job_runs() {
    let place = Place::new();
    let started =
        detached(&place, "run", &notifying(&place, "exit 9", &["--notify-on", "start"], &until_exists("done")));
    wait_until("the warning", || started.stderr().contains("for `start` exited with code 9").then_some(()));
    touch(&place, "done");
    started.finish().complains(0, "for `start` exited with code 9");
}

#[test]
fn its_output_goes_to_stderr_and_its_input_is_empty() {
    let place = Place::new();
    let finished = finish(&mut notifying(&place, "cat; echo said; echo again >&2", &[], "echo job; exit 1"));
    assert_eq!(
        (finished.code(), finished.stdout.as_str(), finished.stderr.as_str()),
        (Some(1), "job\n", "said\nagain\n")
    );
}

#[test]
fn a_stop_signal_to_shedlock_ends_the_command_soon_and_changes_no_code() {
    for (signal, says) in [("TERM", "SIGTERM"), ("INT", "SIGINT")] {
        let place = Place::new();
        let notify = "echo $$ > pid; trap '' TERM INT; sleep 60";
        let started = detached(&place, "run", &notifying(&place, notify, &["--notify-timeout", "1m"], "exit 3"));
        let pid = pid_in(&place, "pid");
        kill(started.pid(), signal);
        started.finish().complains(3, &format!("for `failure` was killed 1s after {says}"));
        wait_for_end(pid);
    }
}

#[test]
fn a_job_that_a_stop_signal_ended_is_told() {
    let place = Place::new();
    let started = detached(&place, "run", &notifying(&place, TELLS, &[], "echo $$ > pid; exec sleep 60"));
    pid_in(&place, "pid");
    kill(started.pid(), "TERM");
    started.finish().is_silent_with(143);
    assert_eq!(
        (events(&place), ends(&place)),
        (vec!["failure 143".into()], vec!["the job was killed by SIGTERM".into()])
    );
}

#[test]
fn when_shedlock_is_killed_nothing_of_the_command_outlives_its_timeout() {
    for on in ["start", "failure"] {
        let place = Place::new();
        let notify = format!("echo $$ > pid; bash -c '{}' & sleep 60", heartbeat("beats"));
        let job = if on == "start" { "sleep 60" } else { "exit 3" };
        let options = ["--notify-on", on, "--notify-timeout", "2s"];
        let started = detached(&place, "run", &notifying(&place, &notify, &options, job));
        let pid = pid_in(&place, "pid");
        wait_for_more(&place, "beats");
        let notifier = wait_until("what bounds the command", || {
            let is_it = |pid: i32| {
                fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"shedlock-notify\0"))
            };
            children(started.pid()).iter().map(|child| child.pid).find(|pid| is_it(*pid))
        });
        kill(started.pid(), "KILL");
        // It lives on, and ends the rest.
        wait_for_more(&place, "beats");
        wait_for_end(notifier);
        wait_for_end(pid);
        let beats = place.lines("beats").len();
        is_free(&place, "other");
        assert_eq!(place.lines("beats").len(), beats, "{on}");
    }
}

#[test]
fn names_and_messages_are_never_shell_text() {
    let place = Place::new();
    let name = "$(touch hacked) `touch hacked` '; touch hacked; \" \\";
    let options = ["--notify", TELLS, "--notify-on", "all", "--", "./$(touch hacked)\n'"];
    finish(&mut place.run(name, options));
    assert_eq!((told(&place, "LOCK_NAME"), events(&place)), (vec![name.to_owned()], vec!["error 127".to_owned()]));
    assert_eq!(told(&place, "MESSAGE"), ["cannot run `./$(touch hacked)\\n'`: no such file or directory"]);
    assert!(!place.path("hacked").exists());
}

#[test]
fn a_nested_run_for_the_same_lock_leaves_the_telling_to_the_outer_one() {
    let place = Place::new();
    let inner = "$PROGRAM run --name job --at-most 1m false";
    let mut run = place.run("job", ["sh", "-c", inner]);
    run.env("SHEDLOCK_NOTIFY", TELLS).env("SHEDLOCK_NOTIFY_ON", "all").env("PROGRAM", env!("CARGO_BIN_EXE_shedlock"));
    finish(&mut run).is_silent_with(1);
    assert_eq!(events(&place), ["start unset", "failure 1"]);
}

#[test]
fn a_nested_run_for_another_lock_tells_of_itself() {
    let place = Place::new();
    let mut run = place.run("outer", ["sh", "-c", "$PROGRAM run --name inner --at-most 1m false"]);
    run.env("SHEDLOCK_NOTIFY", TELLS).env("PROGRAM", env!("CARGO_BIN_EXE_shedlock"));
    finish(&mut run).is_silent_with(1);
    assert_eq!(told(&place, "LOCK_NAME"), ["inner", "outer"]);
}

#[test]
fn a_run_within_the_command_tells_nothing() {
    let place = Place::new();
    let notify = "echo told >> told; $PROGRAM run --name mail --at-most 1m --every 1h -- sh -c 'echo mail >> told; exit 1'; true";
    let mut run = place.run("job", ["false"]);
    run.env("SHEDLOCK_NOTIFY", notify).env("PROGRAM", env!("CARGO_BIN_EXE_shedlock"));
    finish(&mut run).is_silent_with(1);
    assert_eq!(place.lines("told"), ["told", "mail"]);
}

#[test]
fn the_command_does_not_run_under_the_lock() {
    let place = Place::new();
    let notify = "env | grep ^SHEDLOCK_LOCK_ | cut -d= -f1 | sort > names";
    finish(&mut notifying(&place, notify, &["--notify-on", "start"], "true")).is_silent_with(0);
    assert_eq!(place.lines("names"), ["SHEDLOCK_LOCK_NAME", "SHEDLOCK_LOCK_OWNER", "SHEDLOCK_LOCK_TOKEN"]);
}

#[cfg(feature = "postgres")]
#[test]
fn no_password_reaches_the_command_that_was_not_in_the_environment_before() {
    let place = Place::new();
    fs::write(place.path("backend"), "postgres://u:hush@127.0.0.1:1/x").unwrap();
    let words = ["run", "--name", "job", "--at-most", "1m", "--backend-timeout", "100ms"];
    let mut run = place.shedlock(words);
    run.args(["--backend", "postgres://u:hush@127.0.0.1:1/x", "--notify", "env > environment", "true"]);
    assert_eq!(finish(&mut run).code(), Some(125));
    let mut run = place.shedlock(words);
    run.env_remove("SHEDLOCK_BACKEND").env("SHEDLOCK_BACKEND_FILE", place.path("backend"));
    run.args(["--notify", "env >> environment", "true"]);
    assert_eq!(finish(&mut run).code(), Some(125));
    let environment = place.read("environment");
    assert_eq!(environment.matches("SHEDLOCK_EVENT=error").count(), 2, "{environment}");
    assert!(!environment.contains("hush"), "{environment}");
}

#[test]
fn signals_directory_and_umask_are_those_of_the_job() {
    let place = Place::new();
    let shows = "grep -E '^Sig(Blk|Ign)|^Shd|^Umask' /proc/$$/status; pwd";
    let script = format!("({shows}) > ours; exit 1");
    let run = notifying(&place, &format!("({shows}) > theirs"), &[], &script);
    let words: Vec<_> = run.get_args().map(|word| word.to_str().unwrap().to_owned()).collect();
    let launcher = ["sh", "-c", "umask 027; trap '' USR1 PIPE CHLD; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_shedlock")];
    let words: Vec<&str> = launcher.into_iter().chain(words.iter().map(String::as_str)).collect();
    finish(&mut beside(&place, &words)).is_silent_with(1);
    assert_eq!(place.lines("ours"), place.lines("theirs"));
    assert!(place.read("ours").contains("0027"), "{}", place.read("ours"));
}

#[test]
fn it_has_no_terminal_and_neither_the_jobs_group_nor_its_session() {
    let place = Place::new();
    let shows = "ps -o pgid=,sid=,tty= -p $$";
    let finished: Finished = finish(&mut notifying(&place, shows, &[], "ps -o pgid=,sid= -p $$; exit 1"));
    let numbers = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (job, command) = (numbers(&finished.stdout), numbers(&finished.stderr));
    assert!(job[0] != command[0] && job[1] != command[1] && command[0] != command[1], "{finished:?}");
    assert_eq!(command[2], "?");
}

#[test]
fn a_terminal_neither_stops_nor_interrupts_the_command_and_ctrl_c_ends_the_wait_for_it() {
    let place = Place::new();
    let mut terminal = Terminal::bash(&place);
    let notify = r#"echo "shown"; echo $? > written; trap "" INT TERM; sleep 60; echo > late"#;
    terminal.type_line(&format!(
        "stty tostop; $PROGRAM run --name job --at-most 1m --notify '{notify}' --notify-timeout 1m sh -c 'exit 3'; echo $? > code"
    ));
    assert_eq!(place.wait_for_lines("written", 1), ["0"]);
    assert!(terminal.screen().contains("shown"));
    terminal.type_keys("\x03");
    assert_eq!(place.wait_for_lines("code", 1), ["3"]);
    assert!(terminal.screen().contains("was killed 1s after SIGINT"));
    assert!(!place.path("late").exists());
}

#[test]
fn as_pid_1_it_tells_too_and_bounds_the_command() {
    let place = Place::new();
    let inner = notifying(&place, &format!("{TELLS}; sleep 60"), &["--notify-timeout", "1s"], "exit 3");
    let finished = finish(&mut by_root(&["unshare", "--pid", "--fork", "--mount-proc"], &inner));
    finished.complains(3, "did not end within --notify-timeout 1s");
    assert_eq!(events(&place), ["failure 3"]);
}

#[test]
fn without_proc_the_command_cannot_be_started_which_is_one_warning() {
    let place = Place::new();
    let inner = notifying(&place, TELLS, &[], "exit 3");
    let words = ["unshare", "--mount", "sh", "-c", "umount -l /proc && exec \"$@\"", "sh"];
    finish(&mut by_root(&words, &inner))
        .complains(3, "the command of --notify for `failure` could not be started: no such file");
}

#[test]
fn each_job_has_its_own_in_a_file_and_an_empty_one_is_none() {
    let place = Place::new();
    fs::create_dir_all(place.path("config/shedlock")).unwrap();
    let config = "notify = 'echo for-all >> told'\nnotify-timeout = '5s'\n[jobs.own]\nnotify = 'echo own >> told'\n\
                  notify-on = 'success,failure'\n[jobs.none]\nnotify = ''\n";
    fs::write(place.path("config/shedlock/config.toml"), config).unwrap();
    for name in ["job", "own", "none"] {
        finish(&mut place.run(name, ["false"])).is_silent_with(1);
        finish(&mut place.run(name, ["true"])).is_silent_with(0);
    }
    assert_eq!(place.lines("told"), ["for-all", "own", "own"]);
}

#[test]
fn bad_values_are_refused_before_anything_runs() {
    let place = Place::new();
    let known = "known are start, success, failure, expired, lost, error, skipped, all";
    for (options, complaint) in [
        (["--notify-on", "failed"], format!("--notify-on `failed` is not an event; {known}")),
        (["--notify-on", "failure,"], format!("--notify-on `` is not an event; {known}")),
        (["--notify-timeout", "0"], "--notify-timeout `0` is shorter than 1s".to_owned()),
    ] {
        finish(&mut notifying(&place, TELLS, &options, "touch ran")).complains(125, &complaint);
    }
    fs::write(place.path("nul.toml"), "notify = \"a\\u0000b\"\n").unwrap();
    let mut run = place.run("job", ["touch", "ran"]);
    finish(run.env("SHEDLOCK_CONFIG", place.path("nul.toml")))
        .complains(125, "nul.toml:1: `notify` contains a NUL byte");
    assert!(!place.path("ran").exists() && !place.path("told").exists());
}

#[test]
fn the_lock_of_a_job_beside_which_the_command_runs_is_held() {
    let place = Place::new();
    let notify = format!("touch began; {}", until_exists("go"));
    let started = detached(&place, "run", &notifying(&place, &notify, &["--notify-on", "start"], &until_exists("go")));
    wait_until("the command", || place.path("began").exists().then_some(()));
    is_held(&place, "job");
    touch(&place, "go");
    started.finish().is_silent_with(0);
}

/// Returns `shedlock run --name NAME WORDS`, with the configuration that the document has for a test, where each text is
/// replaced by another.
fn with_recipe(place: &Place, test: &str, replaced: &[(&str, &str)], name: &str, words: &[&str]) -> Command {
    let mut config = markdown::run_by("docs/running.md", test).concat();
    for (old, new) in replaced {
        assert!(config.contains(old), "{config}");
        config = config.replace(old, new);
    }
    fs::write(place.path("recipe.toml"), config).unwrap();
    let mut command = place.shedlock(["run", "--name", name, "--at-most", "1m"]);
    command.args(words).env("SHEDLOCK_CONFIG", place.path("recipe.toml"));
    command
}

/// Returns the beginning of the command of a recipe, and the one that runs the example.
fn example(name: &str) -> [String; 2] {
    [format!("/usr/local/lib/shedlock/{name} "), format!("sh {ROOT}/packaging/examples/{name} ")]
}

/// Returns a server that takes every request, and hands on the first line and the body of each.
fn listener() -> (String, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            if sender.send(request(stream.unwrap())).is_err() {
                return;
            }
        }
    });
    (address, requests)
}

fn request(mut stream: TcpStream) -> (String, String) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut piece).unwrap();
        bytes.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let is_length = |line: &str| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok();
        if body.len() >= head.lines().find_map(is_length).unwrap_or(0) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok").unwrap();
            return (head.lines().next().unwrap().to_owned(), body.to_owned());
        }
    }
}

#[test]
fn the_recipe_for_mail_sends_one() {
    let place = Place::new();
    let script = text("packaging/examples/notify-mail");
    let sendmail = format!("echo \"$*\" > {0}/arguments; cat > {0}/mail", place.path("").display());
    crate::support::process::write_script(&place, "sendmail", &format!("#!/bin/sh\n{sendmail}\n"));
    let stand_in = place.path("sendmail").display().to_string();
    assert!(script.contains("/usr/sbin/sendmail"));
    fs::write(place.path("notify-mail"), script.replace("/usr/sbin/sendmail", &stand_in)).unwrap();
    let [old, _] = example("notify-mail");
    let new = format!("sh {} ", place.path("notify-mail").display());
    let name = "a \"$(touch hacked)\" `job`";
    let test = "the_recipe_for_mail_sends_one";
    finish(&mut with_recipe(&place, test, &[(&old, &new)], name, &["sh", "-c", "exit 3"])).is_silent_with(3);
    assert_eq!(place.read("arguments"), "-i -t\n");
    let mail = place.lines("mail");
    let host = finish(Command::new("uname").arg("-n")).stdout;
    assert_eq!(mail[..2], ["To: root".to_owned(), format!("Subject: {name} on {}: failure", host.trim_end())]);
    assert!(mail[5].is_empty() && without_time(&mail[6]) == "the job exited with code 3", "{mail:?}");
    assert!(mail[8].starts_with("Exit code 3, after 0 s; owner "), "{mail:?}");
    assert!(!place.path("hacked").exists());
}

#[test]
fn the_recipe_for_a_ping_tells_start_success_and_failure() {
    let place = Place::new();
    let (address, requests) = listener();
    let [old, new] = example("notify-ping");
    let replaced = [(old.as_str(), new.as_str()), ("https://hc-ping.com", address.as_str())];
    let run = |words: &[&str]| {
        let test = "the_recipe_for_a_ping_tells_start_success_and_failure";
        finish(&mut with_recipe(&place, test, &replaced, "nightly-report", words))
    };
    let next = || {
        let (line, body) = requests.recv_timeout(PATIENCE).unwrap();
        (line, without_time(&body).to_owned())
    };
    run(&["true"]).is_silent_with(0);
    let (start, _) = next();
    assert_eq!(
        (start.as_str(), next()),
        ("POST /UUID/start HTTP/1.1", ("POST /UUID HTTP/1.1".to_owned(), "the job exited with code 0".to_owned()),)
    );
    run(&["sh", "-c", "exit 3"]).is_silent_with(3);
    next();
    assert_eq!(next(), ("POST /UUID/fail HTTP/1.1".to_owned(), "the job exited with code 3".to_owned()));
    run(&["./missing"]).complains(127, "no such file");
    assert_eq!(next().0, "POST /UUID/fail HTTP/1.1");
    // A monitor that is away is a warning.
    drop(requests);
    let away = [(old.as_str(), new.as_str()), ("https://hc-ping.com", "http://127.0.0.1:1")];
    let test = "the_recipe_for_a_ping_tells_start_success_and_failure";
    let finished = finish(&mut with_recipe(&place, test, &away, "nightly-report", &["--notify-on", "success", "true"]));
    assert_eq!(finished.code(), Some(0));
    assert!(finished.stderr.contains("for `success` exited with code 7"), "{finished:?}");
}

#[test]
fn the_recipe_for_a_chat_sends_valid_json() {
    let place = Place::new();
    let (address, requests) = listener();
    fs::write(place.path("webhook"), format!("url = \"{address}/services/secret\"\n")).unwrap();
    let webhook = place.path("webhook").display().to_string();
    let [old, new] = example("notify-chat");
    let replaced = [
        (old.as_str(), new.as_str()),
        ("/etc/shedlock/webhook", webhook.as_str()),
        ("jobs.nightly-report", "jobs.'\"a \\\"b\"'"),
    ];
    let test = "the_recipe_for_a_chat_sends_valid_json";
    finish(&mut with_recipe(&place, test, &replaced, "\"a \\\"b\"", &["false"])).is_silent_with(1);
    let (line, body) = requests.recv_timeout(PATIENCE).unwrap();
    assert_eq!(line, "POST /services/secret HTTP/1.1");
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    let text = without_time(json["text"].as_str().unwrap());
    assert_eq!(text, "\"a \\\"b\": failure: the job exited with code 1");
}

#[test]
fn the_recipe_for_the_log_writes_a_line() {
    let place = Place::new();
    let log = UnixDatagram::bind(place.path("log")).unwrap();
    log.set_read_timeout(Some(PATIENCE)).unwrap();
    let logger = format!("logger --socket {} ", place.path("log").display());
    let test = "the_recipe_for_the_log_writes_a_line";
    let replaced = [("logger ", logger.as_str())];
    finish(&mut with_recipe(&place, test, &replaced, "nightly-report", &["false"])).is_silent_with(1);
    let mut line = [0; 4096];
    let length = log.recv(&mut line).unwrap();
    let line = String::from_utf8_lossy(&line[..length]).into_owned();
    assert!(line.contains(" shedlock: nightly-report: failure: the job exited with code 1"), "{line}");
}
