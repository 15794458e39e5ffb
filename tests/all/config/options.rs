//! Every option of `shedlock run`: what it does, and that it can be set on the command line, by its variable and in a
//! file.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::fixtures::{
    Holder, bare, edit, find, hold, is_expired, open, pass_time, span, wait_until_open, wait_until_signals_are_caught,
};
use crate::support::{Place, finish, finish_child, is_alive, kill, start, wait_until};

/// Where an option can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Flag,
    Variable,
    Key,
}

const WAYS: [Way; 3] = [Way::Flag, Way::Variable, Way::Key];

impl Way {
    /// Returns a lock name of this way's own.
    fn name(self) -> &'static str {
        match self {
            Self::Flag => "by-flag",
            Self::Variable => "by-variable",
            Self::Key => "by-key",
        }
    }

    /// Sets an option; with an empty value one that takes none.
    fn set<'a>(self, place: &Place, command: &'a mut Command, option: &str, value: &str) -> &'a mut Command {
        let given = if value.is_empty() { "true" } else { value };
        match self {
            Self::Flag if value.is_empty() => command.arg(format!("--{option}")),
            Self::Flag => command.arg(format!("--{option}={value}")),
            Self::Variable => command.env(variable(option), given),
            Self::Key => {
                let file = place.path(&format!("{option}.toml"));
                std::fs::write(&file, format!("{option} = \"{given}\"\n")).unwrap();
                command.env("SHEDLOCK_CONFIG", file)
            }
        }
    }
}

fn variable(option: &str) -> String {
    format!("SHEDLOCK_{}", option.replace('-', "_").to_uppercase())
}

/// Returns `shedlock run --name NAME --at-most 1m`, with the option set in this way.
fn with(place: &Place, way: Way, option: &str, value: &str) -> Command {
    let mut command = place.run::<_, &str>(way.name(), []);
    way.set(place, &mut command, option, value);
    command
}

fn held(place: &Place, name: &str) -> bool {
    place.row(name).unwrap().held
}

/// Returns the milliseconds since 1970 of a time in the table.
fn millis(place: &Place, name: &str, column: &str) -> i64 {
    find(
        place,
        &format!(
            "SELECT CAST(round((julianday({column}) - 2440587.5) * 86400000) AS INTEGER) FROM shedlock WHERE name = '{name}'"
        ),
    )
}

fn now_millis() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

// --name

#[test]
fn a_name_of_64_characters_is_the_longest() {
    let place = Place::new();
    let longest = "ä".repeat(64);
    finish(place.run(&longest, ["true"]).arg("x")).is_silent_with(0);
    assert!(place.row(&longest).is_some());
    finish(&mut place.run(&"a".repeat(65), ["touch", "ran"])).complains(125, "--name has 65 characters");
    assert!(!place.path("ran").exists());
}

#[test]
fn control_characters_and_blanks_at_the_ends_of_a_name_are_refused() {
    let place = Place::new();
    for name in ["", " a", "a ", "a\nb", "a\tb", "\u{7f}", "\u{1b}[1m", "\u{85}", "\u{a0}a", "\u{3000}"] {
        let finished = finish(&mut place.run(name, ["touch", "ran"]));
        finished.complains(125, "--name");
        assert!(!finished.stderr.contains(['\u{1b}', '\t']), "{finished:?}");
    }
    assert!(!place.path("ran").exists());
    assert!(!place.database().exists());
}

#[test]
fn names_that_differ_in_anything_are_different_locks() {
    let place = Place::new();
    let names = [
        "job",
        "Job",
        "JOB",
        "jöb",
        "jo\u{308}b",
        "job:1",
        "job/1",
        "job#1",
        "job 1",
        "%",
        "_",
        "'",
        "\"",
        "-v",
        "--",
        "{job}",
        "任务",
    ];
    let holders: Vec<_> = names.iter().map(|name| hold(&place, name)).collect();
    for name in names {
        finish(&mut place.run(name, ["-E", "75", "true"])).is_silent_with(75);
        assert_eq!(place.row(name).unwrap().locked_by.split(':').count(), 3);
    }
    assert_eq!(find::<i64>(&place, "SELECT count(*) FROM shedlock"), 17);
    for holder in holders {
        holder.end().is_silent_with(0);
    }
}

#[test]
fn the_name_can_be_set_by_a_variable_but_not_in_a_file() {
    let place = Place::new();
    finish(bare(&place, ["--at-most", "1m", "true"]).env("SHEDLOCK_NAME", "by-variable")).is_silent_with(0);
    assert!(place.row("by-variable").is_some());
    finish(Way::Key.set(&place, &mut bare(&place, ["--at-most", "1m"]), "name", "x").args(["--name", "y", "true"]))
        .complains(125, "name.toml:1: `name` cannot be set in a file");
    finish(&mut bare(&place, ["--at-most", "1m", "true"])).complains(125, "--name is missing");
}

// --at-most, --at-least, --every

#[test]
fn at_most_is_how_long_the_lock_is_taken_for() {
    let place = Place::new();
    for way in WAYS {
        let mut command = bare(&place, ["--name", way.name()]);
        let holder = Holder::start(&place, way.set(&place, &mut command, "at-most", "1h30m"), "true");
        assert_eq!(span(&place, way.name()), 5_400_000, "{way:?}");
        holder.end().is_silent_with(0);
    }
}

#[test]
fn at_most_is_required_and_at_least_a_second() {
    let place = Place::new();
    finish(&mut bare(&place, ["--name", "a", "true"])).complains(125, "--at-most is missing");
    finish(&mut bare(&place, ["--name", "a", "--at-most", "999ms", "true"]))
        .complains(125, "--at-most `999ms` is shorter than 1s");
    finish(&mut bare(&place, ["--name", "a", "--at-most", "0", "true"]))
        .complains(125, "--at-most `0` is shorter than 1s");
    assert!(!place.database().exists());
    finish(&mut bare(&place, ["--name", "a", "--at-most", "1s", "true"])).is_silent_with(0);
}

#[test]
fn a_lock_stays_held_for_at_least_counted_from_its_acquisition() {
    let place = Place::new();
    for way in WAYS {
        finish(with(&place, way, "at-least", "45s").arg("true")).is_silent_with(0);
        assert_eq!(span(&place, way.name()), 45_000, "{way:?}");
        finish(&mut place.run(way.name(), ["-E", "75", "touch", "ran"])).is_silent_with(75);
        pass_time(&place, way.name(), "46 seconds");
        finish(&mut place.run(way.name(), ["-E", "75", "true"])).is_silent_with(0);
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn at_least_does_not_prolong_a_lock_that_was_held_longer() {
    let place = Place::new();
    let holder = Holder::start(&place, &mut place.run("a", ["--at-least", "20s"]), "true");
    pass_time(&place, "a", "30 seconds");
    holder.end().is_silent_with(0);
    assert!(!held(&place, "a"));
    assert!(span(&place, "a") >= 30_000);
}

#[test]
fn without_at_least_a_lock_is_free_when_the_job_has_ended() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    assert!(!held(&place, "a"));
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);
}

#[test]
fn at_least_may_be_as_long_as_at_most_but_no_longer() {
    let place = Place::new();
    finish(&mut place.run("a", ["--at-least", "1m", "true"])).is_silent_with(0);
    assert_eq!(span(&place, "a"), 60_000);
    finish(&mut place.run("b", ["--at-least", "60.001s", "true"]))
        .complains(125, "--at-least 1m0.001s is longer than --at-most 1m");
    assert!(place.row("b").is_none());
}

#[test]
fn every_holds_the_lock_for_nine_tenths_counted_from_the_firing() {
    let place = Place::new();
    for way in WAYS {
        // Longer than at-most, which is a minute here.
        let fired = now_millis();
        finish(with(&place, way, "every", "1h").arg("true")).is_silent_with(0);
        let until = millis(&place, way.name(), "lock_until") - 54 * 60_000;
        let taken = millis(&place, way.name(), "locked_at");
        assert!((fired..=taken).contains(&until), "{way:?} {until} {fired} {taken}");
        finish(&mut place.run(way.name(), ["-E", "75", "touch", "ran"])).is_silent_with(75);
        pass_time(&place, way.name(), "54 minutes");
        finish(&mut place.run(way.name(), ["-E", "75", "true"])).is_silent_with(0);
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn the_next_firing_gets_in_in_a_night_of_23_hours_and_after_a_late_start() {
    let place = Place::new();
    for (name, passed) in [("summer-time", "23 hours"), ("late-pod", "21 hours 59 minutes")] {
        finish(&mut place.run(name, ["--every", "1d", "true"])).is_silent_with(0);
        // As many hours later it is fired again; a second line of the same firing finds it held.
        for part in passed.split_inclusive(' ').collect::<Vec<_>>().chunks(2) {
            pass_time(&place, name, part.concat().trim());
        }
        finish(&mut place.run(name, ["-E", "75", "--every", "1d", "true"])).is_silent_with(0);
        finish(&mut place.run(name, ["-E", "75", "--every", "1d", "true"])).is_silent_with(75);
    }
}

#[test]
fn every_counts_from_the_firing_and_not_from_the_end_of_the_wait() {
    let place = Place::new();
    let holder = hold(&place, "a");
    let waiter = start(&mut place.run("a", ["--every", "90s", "--wait", "1m", "true"]));
    wait_until_open(i32::try_from(waiter.id()).unwrap(), &place.database());
    let fired = now_millis();
    wait_until("two seconds to go by", || (now_millis() >= fired + 2_000).then_some(()));
    holder.end().is_silent_with(0);
    finish_child(waiter).is_silent_with(0);
    let until = millis(&place, "a", "lock_until") - 81_000;
    // The rest of it is rounded up to a millisecond.
    assert!(until <= fired + 1, "{until} is after the firing at {fired}");
    assert!(millis(&place, "a", "locked_at") >= fired + 1_000);
}

#[test]
fn the_later_of_at_least_and_every_counts() {
    let place = Place::new();
    finish(&mut place.run("a", ["--every", "1s", "--at-least", "1m", "true"])).is_silent_with(0);
    assert_eq!(span(&place, "a"), 60_000);
    finish(&mut place.run("b", ["--every", "10m", "--at-least", "1m", "true"])).is_silent_with(0);
    assert!(span(&place, "b") >= 8 * 60_000);
    finish(&mut place.run("c", ["--every", "0", "true"])).complains(125, "--every");
}

// --wait, --splay, -E

#[test]
fn a_waiter_gets_in_when_the_lock_is_released() {
    let place = Place::new();
    for way in WAYS {
        for patience in ["1m", "forever"] {
            let holder = hold(&place, way.name());
            let waiter = start(with(&place, way, "wait", patience).args(["sh", "-c", "echo ran > ran"]));
            wait_until_open(i32::try_from(waiter.id()).unwrap(), &place.database());
            assert!(!place.path("ran").exists());
            holder.end().is_silent_with(0);
            finish_child(waiter).is_silent_with(0);
            assert_eq!(place.read("ran"), "ran\n");
            std::fs::remove_file(place.path("ran")).unwrap();
        }
    }
}

#[test]
fn a_waiter_gives_up_when_its_time_is_over() {
    let place = Place::new();
    let holder = hold(&place, "a");
    let begun = Instant::now();
    finish(&mut place.run("a", ["-w", "700ms", "-E", "75", "touch", "ran"])).is_silent_with(75);
    assert!(begun.elapsed() >= Duration::from_millis(700));
    finish(&mut place.run("a", ["-w", "0", "-E", "76", "touch", "ran"])).is_silent_with(76);
    assert!(!place.path("ran").exists());
    holder.end().is_silent_with(0);
}

#[test]
fn a_waiter_gets_in_when_the_time_of_a_dead_holder_is_up() {
    let place = Place::new();
    let holder = hold(&place, "a");
    kill(holder.pid(), "KILL");
    assert_eq!(holder.finish().status.signal(), Some(9));
    let waiter = start(&mut place.run("a", ["--wait", "forever", "true"]));
    wait_until_open(i32::try_from(waiter.id()).unwrap(), &place.database());
    pass_time(&place, "a", "61 seconds");
    finish_child(waiter).is_silent_with(0);
}

#[test]
fn splay_sleeps_before_anything_is_asked() {
    for way in WAYS {
        let place = Place::new();
        let child = start(with(&place, way, "splay", "3650d").args(["touch", "ran"]));
        let pid = i32::try_from(child.id()).unwrap();
        wait_until_signals_are_caught(pid);
        kill(pid, "TERM");
        finish_child(child).is_silent_with(143);
        assert!(!place.path("ran").exists() && !place.database().exists(), "{way:?}");
    }
}

#[test]
fn after_the_splay_the_job_runs() {
    let place = Place::new();
    finish(&mut place.run("a", ["--splay", "20ms", "touch", "ran"])).is_silent_with(0);
    assert!(place.path("ran").exists());
}

#[test]
fn a_held_lock_is_answered_with_the_conflict_exit_code() {
    let place = Place::new();
    for way in WAYS {
        let holder = hold(&place, way.name());
        finish(with(&place, way, "conflict-exit-code", "75").args(["touch", "ran"])).is_silent_with(75);
        finish(&mut place.run(way.name(), ["touch", "ran"])).is_silent_with(0);
        holder.end().is_silent_with(0);
    }
    assert!(!place.path("ran").exists());
    for bad in ["256", "-1", "x", "1.5"] {
        finish(&mut place.run("a", ["-E", bad, "true"])).complains(125, &format!("--conflict-exit-code `{bad}`"));
    }
}

// --on-failure, --success-codes

#[test]
fn a_failed_job_frees_the_lock_at_once_if_told_so() {
    let place = Place::new();
    for way in WAYS {
        let mut command = with(&place, way, "on-failure", "release");
        finish(command.args(["--at-least", "30s", "--every", "1h", "sh", "-c", "exit 3"])).is_silent_with(3);
        assert!(!held(&place, way.name()), "{way:?}");
    }
}

#[test]
fn on_failure_release_leaves_the_lock_of_a_success_as_it_is() {
    let place = Place::new();
    finish(&mut place.run("a", ["--on-failure", "release", "--at-least", "30s", "true"])).is_silent_with(0);
    assert_eq!(span(&place, "a"), 30_000);
}

#[test]
fn the_lock_of_a_failed_job_stays_held_as_after_success_by_default() {
    let place = Place::new();
    finish(&mut place.run("a", ["--at-least", "30s", "false"])).is_silent_with(1);
    assert_eq!(span(&place, "a"), 30_000);
    for way in WAYS {
        finish(with(&place, way, "on-failure", "at-least").args(["--at-least", "30s", "false"])).is_silent_with(1);
        assert_eq!(span(&place, way.name()), 30_000, "{way:?}");
    }
}

#[test]
fn a_failed_job_can_hold_its_lock_until_at_most_or_every_if_later() {
    let place = Place::new();
    for way in WAYS {
        finish(with(&place, way, "on-failure", "hold").args(["--at-least", "30s", "--every", "1s", "false"]))
            .is_silent_with(1);
        assert_eq!(span(&place, way.name()), 60_000, "{way:?}");
    }
    finish(&mut place.run("every", ["--on-failure", "hold", "--every", "2h", "false"])).is_silent_with(1);
    assert!(span(&place, "every") >= 107 * 60_000);
}

#[test]
fn a_job_that_dies_of_a_signal_has_failed() {
    let place = Place::new();
    let words = ["--on-failure", "release", "--at-least", "30s", "--success-codes", "0,137", "sh", "-c", "kill -9 $$"];
    finish(&mut place.run("a", words)).is_silent_with(137);
    assert!(!held(&place, "a"));
}

#[test]
fn a_command_that_cannot_be_started_frees_the_lock_at_once() {
    let place = Place::new();
    std::fs::write(place.path("text"), "no program").unwrap();
    for policy in ["release", "at-least", "hold"] {
        for (command, code) in [("./missing", 127), ("./text", 126)] {
            let finished =
                finish(&mut place.run(policy, ["--on-failure", policy, "--at-least", "30s", "--every", "1h", command]));
            finished.complains(code, command);
            assert!(!held(&place, policy), "{policy} {command}");
        }
    }
}

#[test]
fn success_codes_count_as_success_and_0_only_if_named() {
    let place = Place::new();
    for way in WAYS {
        for (code, success) in [(0, false), (3, true), (4, true), (5, false)] {
            let mut command = with(&place, way, "success-codes", "3,4");
            command.args(["--on-failure", "release", "--at-least", "30s", "sh", "-c", &format!("exit {code}")]);
            finish(&mut command).is_silent_with(code);
            assert_eq!(held(&place, way.name()), success, "{way:?} {code}");
            pass_time(&place, way.name(), "1 hour");
        }
    }
    for bad in ["", "0,", "256", "0;1", "a"] {
        finish(&mut place.run("a", ["--success-codes", bad, "true"])).complains(125, "--success-codes");
    }
}

// --on-expiry, --signal, --kill-after, --stop-timeout

#[test]
fn a_job_that_outlives_at_most_is_killed_runs_on_or_has_its_lock_renewed() {
    let place = Place::new();
    // The job sees to the clock that the row is judged by itself.
    for way in WAYS {
        let mut command = bare(&place, ["--name", way.name(), "--at-most", "1s"]);
        let finished = finish(way.set(&place, &mut command, "on-expiry", "kill").args(["sleep", "1000"]));
        finished.complains(124, "the job is stopped because --at-most 1s is used up");

        let mut command = bare(&place, ["--name", way.name(), "--at-most", "1s"]);
        let holder = Holder::start(&place, way.set(&place, &mut command, "on-expiry", "ignore"), "exit 7");
        finish(&mut place.run(way.name(), ["--wait", "forever", "true"])).is_silent_with(0);
        holder.end().complains(7, "warning: the job runs on without the lock because --at-most 1s is used up");

        let mut command = bare(&place, ["--name", way.name(), "--at-most", "2s"]);
        let holder = Holder::start(&place, way.set(&place, &mut command, "on-expiry", "extend"), "exit 7");
        // One connection that stays open: closing the last one would keep writers out for a moment.
        let reader = open(&place);
        let sql = "SELECT julianday(lock_until) - julianday(locked_at) > 4.0 / 86400 FROM shedlock WHERE name = ?1";
        let renewed = || reader.query_row(sql, [way.name()], |row| row.get::<_, bool>(0)).unwrap();
        wait_until("the lock to be renewed past at-most", || renewed().then_some(()));
        finish(&mut place.run(way.name(), ["-E", "75", "true"])).is_silent_with(75);
        holder.end().is_silent_with(7);
    }
}

#[test]
fn the_first_signal_of_a_stop_can_be_chosen() {
    let place = Place::new();
    for way in WAYS {
        for signal in ["USR1", "SIGUSR1", "10"] {
            let mut command = bare(&place, ["--name", way.name(), "--at-most", "1s"]);
            // The shell would tell of its sleep's death.
            let job = "exec 2> /dev/null; trap 'echo USR1 > got; exit 0' USR1; while :; do sleep 0.01; done";
            way.set(&place, &mut command, "signal", signal).args(["sh", "-c", job]);
            finish(&mut command).complains(124, "--at-most 1s is used up");
            assert_eq!(place.read("got"), "USR1\n", "{way:?} {signal}");
            std::fs::remove_file(place.path("got")).unwrap();
        }
    }
    finish(&mut place.run("a", ["-s", "NONE", "true"])).complains(125, "--signal `NONE` is not a signal");
}

#[test]
fn kill_after_is_the_time_between_the_first_signal_and_the_kill_and_a_fifth_of_at_most() {
    // At most a second is used of the ten, so TERM does not come before 3.75 s; with zero it comes with the kill, after
    // 4.75 s, and may leave no time to write. The clock starts before the request for the lock, hence some room.
    let cells = WAYS.into_iter().flat_map(|way| [(way, "10s", 3500), (way, "0", 4600)]);
    std::thread::scope(|scope| {
        for (way, kill_after, earliest) in cells {
            scope.spawn(move || the_first_signal_comes_after(way, kill_after, earliest));
        }
    });
}

/// Asserts that a job of five seconds gets its first signal no earlier than `earliest`, in milliseconds.
fn the_first_signal_comes_after(way: Way, kill_after: &str, earliest: i64) {
    let place = Place::new();
    // A job that does not end on TERM, and writes when it comes.
    let job = "exec 2> /dev/null; trap 'date +%s%3N > got' TERM; while :; do sleep 0.1; done";
    let mut command = bare(&place, ["--name", way.name(), "--at-most", "5s"]);
    way.set(&place, &mut command, "kill-after", kill_after).args(["sh", "-c", job]);
    is_expired(&finish(&mut command), "5s");
    let got = place.read("got");
    assert!(kill_after == "0" || !got.is_empty(), "{way:?}");
    if let Ok(got) = got.trim().parse::<i64>() {
        let after = got - millis(&place, way.name(), "locked_at");
        assert!(after >= earliest, "{way:?} {kill_after} {after}");
    }
}

#[test]
fn a_job_that_ignores_our_stop_signal_is_killed_after_stop_timeout() {
    let place = Place::new();
    for way in WAYS {
        let mut command = with(&place, way, "stop-timeout", "50ms");
        let job = "trap '' TERM; echo $$ > ready; while :; do sleep 0.01; done";
        let child = start(command.args(["sh", "-c", job]));
        let pid: i32 = place.wait_for_lines("ready", 1)[0].parse().unwrap();
        kill(i32::try_from(child.id()).unwrap(), "TERM");
        finish_child(child).complains(137, "the job is killed because it did not end within --stop-timeout 50ms");
        assert!(!is_alive(pid) && !held(&place, way.name()), "{way:?}");
        std::fs::remove_file(place.path("ready")).unwrap();
    }
}

// --foreground, --new-group, --no-die-with-shedlock

#[test]
fn the_job_can_be_forced_into_our_group_or_its_own() {
    let place = Place::new();
    let groups = "echo $(ps -o pgid= -p $PPID) $(ps -o pgid= -p $$)";
    for way in WAYS {
        let shared = finish(with(&place, way, "foreground", "").args(["sh", "-c", groups]));
        let groups_of_two: Vec<&str> = shared.stdout.split_whitespace().collect();
        assert_eq!(groups_of_two[0], groups_of_two[1], "{way:?}");
        let own = finish(with(&place, way, "new-group", "").args(["sh", "-c", groups]));
        let groups_of_two: Vec<&str> = own.stdout.split_whitespace().collect();
        assert_ne!(groups_of_two[0], groups_of_two[1], "{way:?}");
    }
    finish(&mut place.run("a", ["--foreground", "--new-group", "true"]))
        .complains(125, "--foreground and --new-group exclude each other");
    // What is typed wins over a variable, also where the two exclude each other.
    let typed = finish(place.run("a", ["--foreground", "sh", "-c", groups]).env("SHEDLOCK_NEW_GROUP", "true"));
    let groups_of_two: Vec<&str> = typed.stdout.split_whitespace().collect();
    assert_eq!(groups_of_two[0], groups_of_two[1]);
}

#[test]
fn the_job_dies_with_us_unless_told_otherwise() {
    let place = Place::new();
    let holder = hold(&place, "a");
    let job = holder.job();
    kill(holder.pid(), "KILL");
    wait_until("the job to die with shedlock", || (!is_alive(job)).then_some(()));
    holder.finish();
    for way in WAYS {
        let holder = Holder::start(&place, &mut with(&place, way, "no-die-with-shedlock", ""), "echo lived > lived");
        let job = holder.job();
        kill(holder.pid(), "KILL");
        holder.end();
        assert_eq!(place.wait_for_lines("lived", 1), ["lived"], "{way:?}");
        wait_until("the job to end", || (!is_alive(job)).then_some(()));
        std::fs::remove_file(place.path("lived")).unwrap();
    }
}

// --on-backend-error, --backend-timeout

#[test]
fn a_backend_that_cannot_be_asked_is_an_error_by_default() {
    let place = Place::new();
    let missing = format!("sqlite:{}", place.path("missing/locks.db").display());
    finish(place.run("a", ["-E", "75", "touch", "ran"]).env("SHEDLOCK_BACKEND", &missing))
        .complains(125, "does not exist");
    for way in WAYS {
        let mut command = with(&place, way, "on-backend-error", "fail");
        finish(command.args(["touch", "ran"]).env("SHEDLOCK_BACKEND", &missing)).complains(125, "does not exist");
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn a_backend_that_cannot_be_asked_can_count_as_a_held_lock() {
    let place = Place::new();
    let missing = format!("sqlite:{}", place.path("missing/locks.db").display());
    for way in WAYS {
        let mut command = with(&place, way, "on-backend-error", "skip");
        let finished = finish(command.args(["-E", "75", "touch", "ran"]).env("SHEDLOCK_BACKEND", &missing));
        finished.complains(75, "warning: ");
        assert!(finished.stderr.contains("does not exist; the job is not run"), "{}", finished.stderr);
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn a_job_can_run_without_a_lock_when_the_backend_cannot_be_asked() {
    let place = Place::new();
    let missing = format!("sqlite:{}", place.path("missing/locks.db").display());
    for way in WAYS {
        let mut command = with(&place, way, "on-backend-error", "run");
        let finished =
            finish(command.args(["sh", "-c", "env > environment; exit 9"]).env("SHEDLOCK_BACKEND", &missing));
        finished.complains(9, "warning: ");
        assert!(finished.stderr.contains("the job runs without a lock"), "{}", finished.stderr);
        let environment = place.read("environment");
        assert!(environment.contains("SHEDLOCK_BACKEND=") && !environment.contains("SHEDLOCK_LOCK_"), "{environment}");
    }
}

#[test]
fn at_most_bounds_a_job_without_a_lock_too() {
    let place = Place::new();
    let missing = format!("sqlite:{}", place.path("missing/locks.db").display());
    let words =
        ["--name", "a", "--at-most", "1s", "--on-backend-error", "run", "sh", "-c", "echo $$ > pid; exec sleep 1000"];
    let finished = finish(bare(&place, words).env("SHEDLOCK_BACKEND", &missing));
    assert_eq!(finished.code(), Some(124), "{finished:?}");
    assert!(
        finished.stderr.contains("the job runs without a lock") && finished.stderr.contains("--at-most 1s is used up")
    );
    assert!(!is_alive(place.read("pid").trim().parse().unwrap()));
}

/// Makes the database, with a table, in rollback mode, where a writer keeps readers out as well.
fn make_rollback_database(place: &Place) {
    open(place)
        .execute_batch(
            "PRAGMA journal_mode = DELETE; CREATE TABLE shedlock (name VARCHAR(64) NOT NULL PRIMARY KEY, lock_until TEXT NOT NULL, \
             locked_at TEXT NOT NULL, locked_by VARCHAR(255) NOT NULL, boot_id TEXT, boot_until INTEGER, boot_for TEXT)",
        )
        .unwrap();
}

#[test]
fn a_database_that_stays_locked_is_an_error_after_backend_timeout() {
    for rollback in [false, true] {
        let place = Place::new();
        if rollback {
            make_rollback_database(&place);
        } else {
            finish(&mut place.run("first", ["true"])).is_silent_with(0);
        }
        let writer = open(&place);
        writer.execute_batch(if rollback { "BEGIN EXCLUSIVE" } else { "BEGIN IMMEDIATE" }).unwrap();
        for way in WAYS {
            let begun = Instant::now();
            let mut command = with(&place, way, "backend-timeout", "300ms");
            finish(command.args(["touch", "ran"])).complains(125, "the database is locked by another process");
            assert!(begun.elapsed() >= Duration::from_millis(250), "{way:?}");
            finish(with(&place, way, "backend-timeout", "300ms").args(["-w", "100ms", "touch", "ran"]))
                .complains(125, "the database is locked by another process");
        }
        assert!(!place.path("ran").exists());
    }
}

#[test]
fn a_run_gets_in_when_the_database_is_unlocked_in_time() {
    for rollback in [false, true] {
        for wait in ["0", "1m"] {
            let place = Place::new();
            if rollback {
                make_rollback_database(&place);
            } else {
                finish(&mut place.run("first", ["true"])).is_silent_with(0);
            }
            let writer = open(&place);
            writer.execute_batch(if rollback { "BEGIN EXCLUSIVE" } else { "BEGIN IMMEDIATE" }).unwrap();
            let child = start(&mut place.run("a", ["-w", wait, "--backend-timeout", "30s", "touch", "ran"]));
            wait_until_open(i32::try_from(child.id()).unwrap(), &place.database());
            assert!(!place.path("ran").exists());
            writer.execute_batch("COMMIT").unwrap();
            finish_child(child).is_silent_with(0);
            assert!(place.path("ran").exists());
        }
    }
}

#[test]
fn a_held_lock_is_seen_while_somebody_writes_to_the_database() {
    let place = Place::new();
    let holder = hold(&place, "a");
    let writer = open(&place);
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    finish(&mut place.run("a", ["-E", "75", "--backend-timeout", "1ms", "true"])).is_silent_with(75);
    writer.execute_batch("COMMIT").unwrap();
    holder.end().is_silent_with(0);
}

#[test]
fn a_database_that_is_locked_when_the_job_ends_does_not_change_its_code() {
    let place = Place::new();
    let holder = Holder::start(&place, &mut place.run("a", ["--backend-timeout", "300ms"]), "exit 7");
    let writer = open(&place);
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let finished = holder.end();
    finished.complains(7, "warning: ");
    assert!(
        finished.stderr.contains("locked by another process; the lock frees when its time is up"),
        "{}",
        finished.stderr
    );
}

// --backend, --backend-file, --config

#[test]
fn the_backend_can_be_named_or_read_from_a_file() {
    for way in WAYS {
        let place = Place::new();
        let url = format!("sqlite:{}", place.path("other.db").display());
        let mut command = with(&place, way, "backend", &url);
        if way != Way::Variable {
            command.env_remove("SHEDLOCK_BACKEND");
        }
        finish(command.arg("true")).is_silent_with(0);
        assert!(place.path("other.db").exists() && !place.database().exists(), "{way:?}");

        let secret = place.path("secret");
        std::fs::write(&secret, format!("  sqlite:{}\n", place.path("third.db").display())).unwrap();
        let mut command = with(&place, way, "backend-file", secret.to_str().unwrap());
        finish(command.env_remove("SHEDLOCK_BACKEND").arg("true")).is_silent_with(0);
        assert!(place.path("third.db").exists() && !place.database().exists(), "{way:?}");
    }
}

#[test]
fn the_configuration_file_can_be_named_by_option_or_variable() {
    let place = Place::new();
    std::fs::write(place.path("c.toml"), "at-most = '1h'\n").unwrap();
    for command in [
        &mut bare(&place, ["--config", "c.toml", "--name", "a"]),
        bare(&place, ["--name", "a"]).env("SHEDLOCK_CONFIG", "c.toml"),
    ] {
        let holder = Holder::start(&place, command, "true");
        assert_eq!(span(&place, "a"), 3_600_000);
        holder.end().is_silent_with(0);
    }
}

// -v, -q, --log-format

#[test]
fn nothing_is_printed_on_success_and_on_a_skip() {
    let place = Place::new();
    let holder = hold(&place, "held");
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    finish(&mut place.run("a", ["sh", "-c", "exit 4"])).is_silent_with(4);
    finish(&mut place.run("held", ["true"])).is_silent_with(0);
    finish(&mut place.run("held", ["-w", "50ms", "true"])).is_silent_with(0);
    holder.end().is_silent_with(0);
}

#[test]
fn verbose_tells_who_holds_a_lock_and_how_the_job_ended() {
    let place = Place::new();
    for way in WAYS {
        let finished = finish(with(&place, way, "verbose", "").args(["sh", "-c", "exit 4"]));
        assert_eq!((finished.code(), finished.stdout.as_str()), (Some(4), ""));
        let lines: Vec<&str> = finished.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{way:?} {lines:?}");
        assert!(lines[0].starts_with(&format!("shedlock: {}: the lock is taken until ", way.name())), "{lines:?}");
        assert!(lines[1].contains("the job exited with code 4 after "), "{lines:?}");
    }
    let holder = hold(&place, "held");
    let finished = finish(&mut place.run("held", ["-v", "true"]));
    let row = place.row("held").unwrap();
    assert_eq!(
        finished.stderr,
        format!(
            "shedlock: held: the lock is held by {} since {} until {}; the job is not run\n",
            row.locked_by, row.locked_at, row.lock_until
        )
    );
    holder.end().is_silent_with(0);
}

#[test]
fn verbose_twice_tells_everything() {
    let place = Place::new();
    for command in [
        &mut place.run("a", ["-vv"]),
        &mut place.run("a", ["-v", "-v"]),
        place.run::<_, &str>("a", []).env("SHEDLOCK_VERBOSE", "2"),
    ] {
        let finished = finish(command.arg("true"));
        assert!(finished.stderr.ends_with("the lock was released\n"), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 3);
    }
}

#[test]
fn quiet_leaves_warnings_out_but_not_errors() {
    let place = Place::new();
    let missing = format!("sqlite:{}", place.path("missing/locks.db").display());
    for way in WAYS {
        let mut command = with(&place, way, "quiet", "");
        command.env("SHEDLOCK_BACKEND", &missing).args(["--on-backend-error", "skip", "true"]);
        finish(&mut command).is_silent_with(0);
        finish(with(&place, way, "quiet", "").env("SHEDLOCK_BACKEND", &missing).arg("true"))
            .complains(125, "does not exist");
    }
    finish(&mut place.run("a", ["-q", "-v", "true"])).complains(125, "exclude each other");
}

/// Parses every line as an object with the fields that every event has.
fn events(stderr: &str, name: &str) -> Vec<Value> {
    let parse = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        for field in ["time", "level", "event", "name", "owner", "message"] {
            assert!(event[field].is_string(), "{field} is not in {line}");
        }
        assert_eq!(event["name"], name);
        assert!(event["time"].as_str().unwrap().ends_with('Z'));
        event
    };
    stderr.lines().map(parse).collect()
}

#[test]
fn json_is_one_object_per_event() {
    let place = Place::new();
    for way in WAYS {
        let finished = finish(with(&place, way, "log-format", "json").args(["-vv", "sh", "-c", "exit 4"]));
        let events = events(&finished.stderr, way.name());
        let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["granted", "ended", "released"], "{way:?}");
        assert_eq!(events[1]["exit_code"], 4);
        assert_eq!((&events[0]["level"], &events[2]["level"]), (&Value::from("info"), &Value::from("debug")));
        assert!(events.iter().all(|event| event["owner"] == events[0]["owner"]));
    }
}

#[test]
fn json_says_who_holds_the_lock_and_carries_hints_within() {
    let place = Place::new();
    let name = "a \"quoted\" näme";
    let holder = hold(&place, name);
    let skipped = finish(&mut place.run(name, ["-v", "--log-format", "json", "true"]));
    let row = place.row(name).unwrap();
    let event = &events(&skipped.stderr, name)[0];
    assert_eq!((&event["event"], &event["level"]), (&Value::from("held"), &Value::from("info")));
    assert_eq!(event["holder"], row.locked_by.as_str());
    assert_eq!((&event["since"], &event["until"]), (&Value::from(row.locked_at), &Value::from(row.lock_until)));
    holder.end().is_silent_with(0);

    let failed = finish(&mut place.run("b", ["--log-format", "json", "./missing"]));
    assert_eq!(failed.code(), Some(127));
    let told = events(&failed.stderr, "b");
    assert_eq!(
        (told.len(), &told[0]["event"], &told[0]["level"]),
        (1, &Value::from("not_started"), &Value::from("error"))
    );
    let missing = format!("sqlite:{}", place.path("missing/locks.db").display());
    let failed = finish(place.run("b", ["--log-format", "json", "true"]).env("SHEDLOCK_BACKEND", missing));
    let told = events(&failed.stderr, "b");
    assert_eq!((told.len(), &told[0]["event"]), (1, &Value::from("backend_error")));
    assert!(told[0]["hint"].is_string());
}

// All of them

/// Every option that takes a value, with one that is wrong.
const BAD_VALUES: &[(&str, &str)] = &[
    ("at-most", "soon"),
    ("at-least", "1month"),
    ("lease", "900ms"),
    ("history-keep", "-1"),
    ("on-lost", "cry"),
    ("wait-for", "godot"),
    ("every", "-5s"),
    ("on-failure", "never"),
    ("success-codes", "many"),
    ("wait", "3parsecs"),
    ("splay", "1..5s"),
    ("conflict-exit-code", "999"),
    ("on-expiry", "explode"),
    ("signal", "NONE"),
    ("kill-after", "1h 30"),
    ("stop-timeout", "99999999999999999999d"),
    ("foreground", "perhaps"),
    ("new-group", "perhaps"),
    ("no-die-with-shedlock", "perhaps"),
    ("backend", "oracle:x"),
    ("backend-file", "missing"),
    ("backend-timeout", "P1M"),
    ("on-backend-error", "shrug"),
    ("dry-run", "perhaps"),
    ("verbose", "loud"),
    ("quiet", "perhaps"),
    ("log-format", "xml"),
    ("metrics-dir", " "),
    ("notify-on", "fail"),
    ("notify-timeout", "0"),
];

const FLAGS: &[&str] = &["dry-run", "foreground", "new-group", "no-die-with-shedlock", "verbose", "quiet"];

#[test]
fn a_wrong_value_is_refused_with_the_option_the_variable_or_the_line_it_stands_in() {
    let place = Place::new();
    for (option, bad) in BAD_VALUES {
        for way in WAYS {
            let source = match way {
                Way::Flag if FLAGS.contains(option) => continue,
                Way::Flag => format!("--{option}"),
                Way::Variable => variable(option),
                Way::Key => format!("{option}.toml:1: `{option}`"),
            };
            let mut command = bare(&place, ["--name", "a"]);
            if *option != "at-most" {
                command.args(["--at-most", "1m"]);
            }
            if way != Way::Variable || option.starts_with("backend-f") {
                command.env_remove("SHEDLOCK_BACKEND");
            }
            way.set(&place, &mut command, option, bad);
            finish(command.args(["touch", "ran"])).complains(125, &source);
        }
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn every_option_of_the_help_is_among_those_that_are_tried_here() {
    let place = Place::new();
    let help = finish(&mut place.shedlock(["run", "--help"])).stdout;
    let words = help.lines().filter_map(|line| {
        let line = line.trim_start();
        let long = line
            .strip_prefix("--")
            .or_else(|| line.split_once(", --").filter(|(short, _)| short.len() == 2)?.1.into())?;
        long.split([' ', '.', '[']).next()
    });
    let unknown: Vec<&str> = words
        .filter(|word| {
            // Any text is a command.
            !["name", "config", "help", "notify"].contains(word) && !BAD_VALUES.iter().any(|(option, _)| option == word)
        })
        .collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn durations_are_read_as_the_manual_says() {
    let place = Place::new();
    for (text, millis) in [
        ("90", 90_000),
        ("90s", 90_000),
        ("1.5h", 5_400_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        ("1500ms", 1_500),
        ("5min", 300_000),
        ("2days", 172_800_000),
        ("1w", 604_800_000),
        ("PT1H30M", 5_400_000),
        ("3650d", 315_360_000_000),
    ] {
        finish(&mut bare(&place, ["--name", "a", "--at-most", text, "--at-least", text, "true"])).is_silent_with(0);
        assert_eq!(span(&place, "a"), millis, "{text}");
        edit(&place, "UPDATE shedlock SET lock_until = locked_at WHERE name = 'a'");
    }
}

#[test]
fn options_after_the_command_are_its_own() {
    let place = Place::new();
    let finished = finish(&mut place.run("a", ["sh", "-c", "echo \"$@\"", "sh", "-v", "--name", "b", "--", "-E", "9"]));
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), "-v --name b -- -E 9\n"));
    let finished = finish(&mut place.run("a", ["--", "echo", "--", "x"]));
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), "-- x\n"));
}
