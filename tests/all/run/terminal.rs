//! Runs on a terminal, where a shell, the kernel and people send signals to whole groups. What shells may do differently stands
//! in `sweeps/shells.rs`, for bash too.

use std::fs;

use crate::support::process::{
    children, is_free, is_held, logger, pid_in, stat, touch, wait_for_child, wait_for_end, wait_for_more,
    wait_until_free,
};
use crate::support::pty::Terminal;
use crate::support::{Place, is_alive, kill};

/// What a person types before a command.
const RUN: &str = "$PROGRAM run --name job --at-most 1m";

/// Returns the pid of the shedlock that bash has started.
fn wrapper(terminal: &Terminal) -> i32 {
    wait_for_child(terminal.pid())
}

/// Starts `./logger log` on a terminal by `command`, and returns the pids of shedlock and of the job.
fn start_logger(place: &Place, terminal: &mut Terminal, command: &str) -> (i32, i32) {
    terminal.type_line(command);
    place.wait_for_lines("log", 1);
    let wrapper = wrapper(terminal);
    (wrapper, wait_for_child(wrapper))
}

#[test]
fn ctrl_backslash_ends_the_job_and_us() {
    let place = Place::new();
    let mut terminal = Terminal::bash(&place);
    terminal.type_line(&format!("{RUN} sh -c 'echo > ready; exec sleep 60'; echo $? > code"));
    place.wait_for_lines("ready", 1);
    terminal.type_keys("\x1c");
    assert_eq!(place.wait_for_lines("code", 1), ["131"]);
    is_free(&place, "job");
}

#[test]
fn ctrl_z_that_the_job_does_not_mind_does_not_stop_us() {
    for option in ["", "--new-group"] {
        let place = Place::new();
        let mut terminal = Terminal::bash(&place);
        let (wrapper, _) = start_logger(&place, &mut terminal, &format!("{RUN} {option} ./logger log; echo $? > code"));
        terminal.type_keys("\x1a");
        place.wait_for_lines("log", 2);
        // If we were stopped we would not pass this on.
        kill(wrapper, "USR1");
        assert_eq!(place.wait_for_lines("log", 3), ["ready", "TSTP", "USR1"], "{option}");
        touch(&place, "done");
        assert_eq!(place.wait_for_lines("code", 1), ["0"]);
    }
}

#[test]
fn a_job_that_stops_itself_gives_the_prompt_back() {
    for signal in ["STOP", "TSTP", "TTIN"] {
        let place = Place::new();
        let mut terminal = Terminal::bash(&place);
        terminal.type_line(&format!("{RUN} sh -c 'kill -s {signal} $$; echo on > went'; echo > stopped"));
        place.wait_for_lines("stopped", 1);
        assert_eq!(place.lines("went"), [""; 0], "{signal}");
        terminal.type_line("fg; echo $? > code");
        assert_eq!(place.wait_for_lines("code", 1), ["0"]);
        assert_eq!(place.lines("went"), ["on"], "{signal}");
    }
}

#[test]
fn after_a_stop_past_at_most_the_job_is_ended() {
    let place = Place::new();
    let mut terminal = Terminal::bash(&place);
    let job = "echo $$ > pid; while echo >> beats; do sleep 0.02; done";
    terminal.type_line(&format!("$PROGRAM run --name job --at-most 2s bash -c '{job}'; echo > stopped"));
    let job = pid_in(&place, "pid");
    terminal.type_keys("\x1a");
    place.wait_for_lines("stopped", 1);
    wait_until_free(&place, "job");
    terminal.type_line("fg; echo $? > code");
    assert_eq!(place.wait_for_lines("code", 1), ["124"]);
    assert!(!is_alive(job));
}

#[test]
fn after_a_stop_past_its_lease_the_job_has_been_ended() {
    let place = Place::new();
    let mut terminal = Terminal::bash(&place);
    let job = "echo $$ > pid; while echo >> beats; do sleep 0.02; done";
    terminal.type_line(&format!("$PROGRAM run --name job --at-most 1m --lease 1s bash -c '{job}'; echo > stopped"));
    let job = pid_in(&place, "pid");
    terminal.type_keys("\x1a");
    place.wait_for_lines("stopped", 1);
    wait_for_end(job);
    wait_until_free(&place, "job");
    terminal.type_line("fg; echo $? > code");
    assert_eq!(place.wait_for_lines("code", 1), ["123"]);
}

#[test]
fn with_a_lease_a_job_goes_on_after_ctrl_z_once_its_lock_is_checked() {
    let place = Place::new();
    let mut terminal = Terminal::bash(&place);
    let job = "while echo >> beats && [ ! -e done ]; do sleep 0.02; done; exit 3";
    terminal.type_line(&format!("$PROGRAM run --name job --at-most 1m --lease 30s bash -c '{job}'; echo > stopped"));
    place.wait_for_lines("beats", 1);
    terminal.type_keys("\x1a");
    place.wait_for_lines("stopped", 1);
    terminal.type_line("fg; echo $? > code");
    wait_for_more(&place, "beats");
    touch(&place, "done");
    assert_eq!(place.wait_for_lines("code", 1), ["3"]);
}

#[test]
fn the_job_reads_from_the_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::bash(&place);
    terminal.type_line(&format!("{RUN} sh -c 'echo > ready; read line; echo $line > got'"));
    place.wait_for_lines("ready", 1);
    terminal.type_line("from the keyboard");
    assert_eq!(place.wait_for_lines("got", 1), ["from the keyboard"]);
}

#[test]
fn the_job_shares_our_group_in_the_foreground() {
    for (option, shared) in [("", true), ("--foreground", true), ("--new-group", false)] {
        let place = Place::new();
        let mut terminal = Terminal::bash(&place);
        let (us, job) = start_logger(&place, &mut terminal, &format!("{RUN} {option} ./logger log"));
        let (us, job) = (stat(us).unwrap(), stat(job).unwrap());
        assert_eq!((job.group == us.group, job.group == job.pid), (shared, !shared), "{option}");
        assert_eq!((us.foreground, job.session), (us.group, us.session), "{option}");
        touch(&place, "done");
    }
}

#[test]
fn a_terminal_counts_also_when_no_descriptor_is_on_it() {
    let place = Place::new();
    let mut terminal = Terminal::bash(&place);
    let (us, job) = start_logger(&place, &mut terminal, &format!("{RUN} ./logger log < /dev/null > out 2>&1"));
    assert_eq!(stat(us).unwrap().group, stat(job).unwrap().group);
    touch(&place, "done");
}

#[test]
fn a_change_of_size_reaches_the_job_once() {
    for option in ["", "--new-group"] {
        let place = Place::new();
        let mut terminal = Terminal::bash(&place);
        let (wrapper, _) = start_logger(&place, &mut terminal, &format!("{RUN} {option} ./logger log"));
        terminal.resize(111);
        place.wait_for_lines("log", 2);
        terminal.resize(112);
        place.wait_for_lines("log", 3);
        kill(wrapper, "USR1");
        assert_eq!(place.wait_for_lines("log", 4), ["ready", "WINCH", "WINCH", "USR1"], "{option}");
        touch(&place, "done");
    }
}

#[test]
fn a_hang_up_that_only_we_got_reaches_the_job() {
    let place = Place::new();
    // We lead the session ourselves, as a terminal window's only command.
    let mut terminal = Terminal::start(&place.run("job", logger("log")));
    place.wait_for_lines("log", 1);
    terminal.hang_up();
    // The kernel lets a CONT follow it; the lower number comes first.
    assert_eq!(place.wait_for_lines("log", 3), ["ready", "HUP", "CONT"]);
    is_held(&place, "job");
    touch(&place, "done");
    assert_eq!(terminal.finish().code(), Some(0));
    is_free(&place, "job");
}

#[test]
fn a_hang_up_ends_the_job_of_an_interactive_shell() {
    let place = Place::new();
    let mut terminal = Terminal::bash(&place);
    terminal.type_line(&format!("{RUN} sh -c 'echo $$ > pid; exec sleep 60'"));
    let job = pid_in(&place, "pid");
    terminal.hang_up();
    wait_for_end(job);
    wait_until_free(&place, "job");
}

#[test]
fn an_alarm_that_was_set_before_us_is_no_key_of_the_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::bash(&place);
    let alarm = "perl -e 'alarm 1; exec @ARGV'";
    start_logger(&place, &mut terminal, &format!("{alarm} {RUN} ./logger log; echo $? > code"));
    assert_eq!(place.wait_for_lines("log", 2), ["ready", "ALRM"]);
    touch(&place, "done");
    assert_eq!(place.wait_for_lines("code", 1), ["0"]);
}

/// Types a pipeline of which the job is the middle, and waits until all three run. Returns the pid of shedlock and those
/// of its neighbours.
fn start_pipeline(place: &Place, terminal: &mut Terminal, run: &str) -> (i32, Vec<i32>) {
    terminal
        .type_line(&format!("./logger left | {run} ./logger log | ./logger right; echo ${{PIPESTATUS[@]}} > codes"));
    for file in ["left", "log", "right"] {
        place.wait_for_lines(file, 1);
    }
    let program = fs::canonicalize(env!("CARGO_BIN_EXE_shedlock")).unwrap();
    let is_ours = |pid: &i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
    let members = children(terminal.pid()).into_iter().map(|member| member.pid);
    let (us, neighbours): (Vec<i32>, _) = members.partition(is_ours);
    (us[0], neighbours)
}

/// Asserts that both neighbours have logged nothing but this last signal.
fn neighbours_saw_nothing(place: &Place, neighbours: &[i32]) {
    for pid in neighbours {
        kill(*pid, "USR1");
    }
    for file in ["left", "right"] {
        assert_eq!(place.wait_for_lines(file, 2), ["ready", "USR1"], "{file}");
    }
}

#[test]
fn a_term_to_us_reaches_the_command_and_not_the_pipeline() {
    for option in ["", "--new-group"] {
        let place = Place::new();
        let mut terminal = Terminal::bash(&place);
        let (wrapper, neighbours) = start_pipeline(&place, &mut terminal, &format!("{RUN} {option}"));
        kill(wrapper, "TERM");
        assert_eq!(place.wait_for_lines("log", 3), ["ready", "TERM", "CONT"], "{option}");
        neighbours_saw_nothing(&place, &neighbours);
        touch(&place, "done");
        assert_eq!(place.wait_for_lines("codes", 1), ["0 0 0"], "{option}");
    }
}

#[test]
fn at_expiry_the_pipeline_is_left_alone() {
    for option in ["", "--new-group"] {
        let place = Place::new();
        let mut terminal = Terminal::bash(&place);
        let (_, neighbours) =
            start_pipeline(&place, &mut terminal, &format!("$PROGRAM run --name job --at-most 2s {option}"));
        wait_until_free(&place, "job");
        neighbours_saw_nothing(&place, &neighbours);
        touch(&place, "done");
        assert_eq!(place.wait_for_lines("codes", 1), ["0 124 0"], "{option}");
    }
}

#[test]
fn at_expiry_a_stopped_run_is_not_stopped_again_by_its_job() {
    let place = Place::new();
    let mut terminal = Terminal::bash(&place);
    // On the first signal it stops itself, and only SIGKILL ends it.
    let job = "trap 'kill -s STOP $$' TERM; echo > ready; while [ -e ready ]; do sleep 0.02; done";
    terminal.type_line(&format!(
        "$PROGRAM run --name job --at-most 1s sh -c \"{}\"; echo $? > code",
        job.replace('$', "\\$")
    ));
    assert_eq!(place.wait_for_lines("code", 1), ["124"]);
    is_free(&place, "job");
}

/// Returns what the screen shows of a command line, from its beginning to its exit code.
fn shown(place: &Place, terminal: &mut Terminal, line: &str) -> String {
    let codes = place.lines("codes").len();
    terminal.screen();
    terminal.type_line(&format!("{line}; echo $? >> codes"));
    place.wait_for_lines("codes", codes + 1);
    terminal.screen().replace('\r', "")
}

#[test]
fn a_person_is_told_why_nothing_ran_and_nobody_else_is() {
    let place = Place::new();
    let mut terminal = Terminal::bash(&place);
    let skip = format!("{RUN} touch ran");
    let mut holder = place.shedlock(["run", "--name", "job", "--at-most", "1m", "sh", "-c", "echo >> held; cat fifo"]);
    nix::unistd::mkfifo(&place.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut holder = holder.spawn().unwrap();
    place.wait_for_lines("held", 1);
    let told = shown(&place, &mut terminal, &skip);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].starts_with("shedlock: job: the lock is held by ") && lines[0].contains(" since "), "{told}");
    assert!(lines[0].ends_with("; the job is not run"), "{told}");
    assert_eq!(lines[1], "hint: --wait DURATION waits for its end");
    // Whoever wants silence, a file, and a program that reads JSON.
    for silent in
        [format!("{RUN} -q touch ran"), format!("{skip} 2> file"), format!("{RUN} --log-format json touch ran")]
    {
        assert_eq!(shown(&place, &mut terminal, &silent), "", "{silent}");
    }
    assert_eq!(place.lines("file"), [""; 0]);
    fs::write(place.path("fifo"), "").unwrap();
    assert!(holder.wait().unwrap().success());

    shown(&place, &mut terminal, "$PROGRAM run --name job --at-most 1m --at-least 1m true");
    let told = shown(&place, &mut terminal, &skip);
    assert!(told.contains("the lock is kept after the run of ") && told.contains(" until "), "{told}");
    assert!(told.ends_with("hint: `shedlock unlock job` frees it; then the next firing finds it free too\n"), "{told}");
    shown(&place, &mut terminal, "$PROGRAM unlock --force job");

    shown(&place, &mut terminal, "$PROGRAM pause job --reason 'new disk'");
    let told = shown(&place, &mut terminal, &skip);
    assert!(told.contains("the lock is paused by ") && told.contains(": new disk; the job is not run\n"), "{told}");
    assert!(told.ends_with("hint: `shedlock resume job` ends the pause\n"), "{told}");
    // `acquire` too, whose reader may be a script; its message goes to the person all the same.
    let told = shown(&place, &mut terminal, "$PROGRAM acquire --name job --at-most 1m");
    assert!(told.contains("; it is not acquired\n"), "{told}");
    assert_eq!(place.lines("codes"), ["0", "0", "0", "0", "0", "0", "0", "0", "0", "1"]);
    assert!(!place.path("ran").exists());
}
