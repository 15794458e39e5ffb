//! Job control under each shell.

use crate::support::process::{
    beside, is_free, is_held, stat, touch, until_exists, wait_for_child, wait_for_more, wait_for_state,
    wait_until_held, wait_until_it_listens,
};
use crate::support::pty::{BASH, Terminal};
use crate::support::{Place, kill, wait_until};

/// Without the line editors, which would draw on the terminal, and without anybody's settings.
const SHELLS: [&[&str]; 3] = [&BASH, &["dash", "-i"], &["zsh", "-f", "-i", "+Z"]];

/// What a person types before a command.
const RUN: &str = "$PROGRAM run --name job --at-most 1m";

#[test]
fn ctrl_c_reaches_the_job_exactly_once() {
    for shell in SHELLS {
        for option in ["", "--new-group", "--foreground"] {
            let place = Place::new();
            let mut terminal = Terminal::shell(&place, shell);
            terminal.type_line(&format!("{RUN} {option} ./logger log; echo $? > code"));
            place.wait_for_lines("log", 1);
            let wrapper = wait_for_child(terminal.pid());
            for (keys, count) in [("\x03", 2), ("\x1c", 3), ("\x03", 4)] {
                terminal.type_keys(keys);
                place.wait_for_lines("log", count);
            }
            // What came twice would be in the log before this.
            kill(wrapper, "USR1");
            let log = place.wait_for_lines("log", 5);
            assert_eq!(log, ["ready", "INT", "QUIT", "INT", "USR1"], "{shell:?} {option}");
            touch(&place, "done");
            assert_eq!(place.wait_for_lines("code", 1), ["0"], "{shell:?} {option}");
            is_free(&place, "job");
        }
    }
}

#[test]
fn ctrl_c_ends_the_loop_of_the_shell() {
    for shell in SHELLS {
        for option in ["", "--new-group"] {
            let place = Place::new();
            let mut terminal = Terminal::shell(&place, shell);
            let job = format!("echo ready >> log; {}", until_exists("never"));
            terminal.type_line(&format!("for n in 1 2 3; do {RUN} {option} sh -c '{job}'; echo after >> log; done"));
            place.wait_for_lines("log", 1);
            terminal.type_keys("\x03");
            terminal.type_line("echo $? prompt >> log");
            assert_eq!(place.wait_for_lines("log", 2), ["ready", "130 prompt"], "{shell:?} {option}");
            is_free(&place, "job");
        }
    }
}

#[test]
fn ctrl_c_while_we_wait_ends_the_loop_of_the_shell() {
    for shell in SHELLS {
        let place = Place::new();
        let mut holder = Terminal::shell(&place, shell);
        holder.type_line(&format!("{RUN} sh -c '{}'", until_exists("done")));
        wait_until_held(&place, "job");
        let mut terminal = Terminal::shell(&place, shell);
        terminal
            .type_line(&format!("for n in 1 2 3; do {RUN} --wait forever echo ran >> log; echo after >> log; done"));
        wait_until_it_listens(wait_for_child(terminal.pid()));
        terminal.type_keys("\x03");
        terminal.type_line("echo $? prompt >> log");
        assert_eq!(place.wait_for_lines("log", 1), ["130 prompt"], "{shell:?}");
        touch(&place, "done");
    }
}

#[test]
fn ctrl_z_gives_the_prompt_back_and_fg_and_bg_go_on() {
    for shell in SHELLS {
        for option in ["", "--new-group"] {
            let place = Place::new();
            let mut terminal = Terminal::shell(&place, shell);
            // Not sh: dash makes its children by vfork(2), and a ^Z just then stops the child and not dash, with or without us.
            let job = "while echo >> beats && [ ! -e done ]; do sleep 0.02; done; exit 3";
            terminal.type_line(&format!("{RUN} {option} bash -c '{job}'"));
            place.wait_for_lines("beats", 1);
            let wrapper = wait_for_child(terminal.pid());
            let job = wait_for_child(wrapper);

            terminal.type_keys("\x1a");
            wait_for_state(wrapper, "T");
            wait_for_state(job, "T");
            terminal.type_line("echo $? >> stopped; jobs > jobs; echo >> jobs");
            assert_eq!(place.wait_for_lines("stopped", 1), ["148"], "{shell:?} {option}");
            place.wait_for_lines("jobs", 2);
            let jobs = place.read("jobs");
            assert!(jobs.to_lowercase().contains("s") && jobs.contains("[1]"), "{shell:?} {option}: {jobs}");
            is_held(&place, "job");

            terminal.type_line("fg");
            wait_for_more(&place, "beats");
            terminal.type_keys("\x1a");
            wait_for_state(job, "T");
            wait_for_state(wrapper, "T");
            terminal.type_line("echo $? >> stopped");
            assert_eq!(place.wait_for_lines("stopped", 2), ["148", "148"], "{shell:?} {option}");

            terminal.type_line("bg; echo prompt > background");
            place.wait_for_lines("background", 1);
            wait_for_more(&place, "beats");
            // A job that has ended before the shell waits for it is none to zsh.
            terminal.type_line("echo > waits; wait %1; echo $? > code");
            place.wait_for_lines("waits", 1);
            touch(&place, "done");
            assert_eq!(place.wait_for_lines("code", 1), ["3"], "{shell:?} {option}");
            is_free(&place, "job");
        }
    }
}

#[test]
fn in_the_background_a_run_is_not_reached_by_the_keys_and_comes_back_by_fg() {
    for shell in SHELLS {
        let place = Place::new();
        let mut terminal = Terminal::shell(&place, shell);
        terminal.type_line(&format!("{RUN} ./logger log &"));
        place.wait_for_lines("log", 1);
        terminal.type_keys("\x03");
        // The kernel throws away what is typed about when the key is.
        wait_until("the prompt after ^C", || {
            terminal.type_line("echo > prompted");
            std::thread::sleep(std::time::Duration::from_millis(50));
            place.path("prompted").exists().then_some(())
        });
        let wrapper = wait_for_child(terminal.pid());
        kill(wrapper, "USR1");
        assert_eq!(place.wait_for_lines("log", 2), ["ready", "USR1"], "{shell:?}");
        terminal.type_line("fg; echo $? > code");
        // Only now is it the terminal's.
        wait_until("it to be in the foreground", || {
            let line = stat(wrapper)?;
            (line.foreground == line.group).then_some(())
        });
        terminal.type_keys("\x03");
        // `fg` continues the whole group, which may be heard twice.
        let heard = || place.lines("log").into_iter().filter(|line| line != "CONT").collect::<Vec<_>>();
        wait_until("^C to be heard", || (heard().len() == 3).then_some(()));
        assert_eq!(heard(), ["ready", "USR1", "INT"], "{shell:?}");
        touch(&place, "done");
        assert_eq!(place.wait_for_lines("code", 1), ["0"], "{shell:?}");
    }
}

#[test]
fn a_script_with_job_control_runs_it_like_any_command() {
    // zsh gives the terminal to nobody unless it is interactive.
    for shell in ["bash", "dash"] {
        let place = Place::new();
        // It writes the logger.
        drop(Terminal::bash(&place));
        let script = format!(
            "set -m; {RUN} ./logger log; echo $? > code; {RUN} sh -c 'echo >> behind; exec sleep 60' & \
             until [ -e behind ]; do sleep 0.02; done; kill -s TERM %1; wait %1; echo $? > killed"
        );
        let command = beside(&place, &[shell, "-c", &script]);
        let mut terminal = Terminal::start(&command);
        place.wait_for_lines("log", 1);
        terminal.type_keys("\x03");
        place.wait_for_lines("log", 2);
        kill(wait_for_child(terminal.pid()), "USR1");
        assert_eq!(place.wait_for_lines("log", 3), ["ready", "INT", "USR1"], "{shell}");
        touch(&place, "done");
        assert_eq!(place.wait_for_lines("code", 1), ["0"], "{shell}");
        assert_eq!(place.wait_for_lines("killed", 1), ["143"], "{shell}");
        is_free(&place, "job");
    }
}
