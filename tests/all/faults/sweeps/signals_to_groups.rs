//! How often the job sees a signal, whichever process or group it goes to: a C program that counts, in a group of its own and
//! in one that is shared, with a terminal and without.

use std::fs;
use std::process::Command;

use crate::support::process::{Started, detached, pid_in, stat, touch};
use crate::support::pty::Terminal;
use crate::support::{Place, kill, wait_until};

/// Writes its pid and its parent's, and then the number of every signal that it gets, until the file `done` is there.
const COUNTER: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static int log_file;
static void note(int number) {
    char line[] = { '0' + number / 10, '0' + number % 10, '\n' };
    (void)!write(log_file, line, sizeof line);
}
int main(void) {
    struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART };
    sigfillset(&action.sa_mask);
    log_file = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (int number = 1; number <= 64; number++)
        if (number != SIGCHLD)
            sigaction(number, &action, NULL);
    FILE *pids = fopen("pids.draft", "w");
    fprintf(pids, "%d\n%d\n", getpid(), getppid());
    fclose(pids);
    rename("pids.draft", "pids");
    while (access("done", F_OK) != 0 && access("pids", F_OK) == 0)
        usleep(5000);
    return 7;
}
"#;

/// Comes after all others that are pending, and so after what came twice.
const LAST: &str = "64";

/// Where the job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Without a terminal, in a group of its own.
    Detached,
    /// Without a terminal, in our group.
    DetachedShared,
    /// On a terminal, in our group.
    Shared,
    /// On a terminal, in a group of its own.
    Own,
}

/// Whom the signal is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Us,
    Job,
    OurGroup,
    JobsGroup,
}

/// Keeps what is run alive.
enum Stage {
    Detached(Started),
    Terminal {
        /// Hung up when it is dropped.
        _terminal: Terminal,
    },
}

struct Scene {
    place: Place,
    stage: Stage,
    job: i32,
    us: i32,
}

impl Scene {
    fn new(standing: Standing) -> Self {
        let place = Place::new();
        fs::write(place.path("counter.c"), COUNTER).unwrap();
        let compiled = Command::new("cc").args(["-o", "counter", "counter.c"]).current_dir(place.path("")).status();
        assert!(compiled.unwrap().success());
        let option = match standing {
            Standing::Detached | Standing::Shared => None,
            Standing::DetachedShared => Some("--foreground"),
            Standing::Own => Some("--new-group"),
        };
        let run = place.run("job", option.into_iter().chain(["./counter"]));
        let stage = match standing {
            Standing::Detached | Standing::DetachedShared => Stage::Detached(detached(&place, "run", &run)),
            Standing::Shared | Standing::Own => {
                let mut terminal = Terminal::bash(&place);
                let option = option.unwrap_or_default();
                terminal.type_line(&format!("$PROGRAM run --name job --at-most 1m {option} ./counter; echo $? > code"));
                Stage::Terminal { _terminal: terminal }
            }
        };
        let job = pid_in(&place, "pids");
        let us = place.wait_for_lines("pids", 2)[1].parse().unwrap();
        Self { place, stage, job, us }
    }

    fn send(&self, signal: &str, to: To) {
        let target = match to {
            To::Us => self.us,
            To::Job => self.job,
            To::OurGroup => -stat(self.us).unwrap().group,
            To::JobsGroup => -stat(self.job).unwrap().group,
        };
        kill(target, signal);
    }

    /// Returns how often the job has seen this signal since `seen` lines were in its log.
    fn count(&self, number: i32, seen: usize) -> usize {
        let word = format!("{number:02}");
        self.place.lines("log")[seen..].iter().filter(|line| **line == word).count()
    }

    /// Sends a signal, and returns how often the job saw it.
    fn tally(&self, name: &str, number: i32, to: To) -> usize {
        let seen = self.place.lines("log").len();
        self.send(name, to);
        wait_until("the first of them", || (self.count(number, seen) > 0).then_some(()));
        let last = LAST.parse().unwrap();
        self.send(LAST, To::Us);
        wait_until("the last one", || (self.count(last, seen) > 0).then_some(()));
        self.count(number, seen)
    }

    fn end(mut self) {
        touch(&self.place, "done");
        match &mut self.stage {
            Stage::Detached(started) => wait_until("its end", || started.has_ended().then_some(())),
            Stage::Terminal { .. } => assert_eq!(self.place.wait_for_lines("code", 1), ["7"]),
        }
    }
}

const SIGNALS: [(&str, i32); 7] =
    [("INT", 2), ("TERM", 15), ("QUIT", 3), ("HUP", 1), ("USR1", 10), ("WINCH", 28), ("TSTP", 20)];

/// Sends each signal to each of the targets, and returns how often the job saw them, with their names.
fn counts(standing: Standing, targets: &[To]) -> Vec<(To, &'static str, usize)> {
    let scene = Scene::new(standing);
    let tally = |to| SIGNALS.map(|(name, number)| (to, name, scene.tally(name, number, to)));
    let counts = targets.iter().flat_map(|to| tally(*to)).collect();
    scene.end();
    counts
}

#[test]
fn a_signal_to_us_to_the_job_or_to_a_group_reaches_the_job_exactly_once() {
    for (standing, targets) in [
        (Standing::Detached, &[To::Us, To::Job, To::OurGroup, To::JobsGroup][..]),
        (Standing::DetachedShared, &[To::Us, To::Job]),
        (Standing::Shared, &[To::Us, To::Job]),
        (Standing::Own, &[To::Us, To::Job, To::OurGroup, To::JobsGroup]),
    ] {
        let counts = counts(standing, targets);
        assert!(counts.iter().all(|(.., count)| *count == 1), "{standing:?} {counts:?}");
    }
}

/// The kernel does not say whether a process has signalled us alone or all of our group. What the terminal sends it marks,
/// and that reaches the job once: `shells::ctrl_c_reaches_the_job_exactly_once`.
#[test]
fn a_signal_of_a_process_to_a_shared_group_reaches_the_job_and_at_most_twice() {
    for standing in [Standing::DetachedShared, Standing::Shared] {
        let counts = counts(standing, &[To::OurGroup]);
        assert!(counts.iter().all(|(.., count)| matches!(count, 1 | 2)), "{standing:?} {counts:?}");
    }
}
