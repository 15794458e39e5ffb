//! `--metrics-dir`: what Prometheus reads, written by real runs, and that nothing about it is ever in their way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::fixtures::{
    Holder, among_mounts, by_nobody, edit, hold, is_expired, mode, names_in, open_to_nobody,
};
use crate::support::markdown::run_by;
use crate::support::process::{detached, limited, touch, under};
use crate::support::prometheus::is_accepted;
use crate::support::{Finished, PATIENCE, Place, finish, finish_child, finish_in_time, kill, start, wait_until};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const OUTCOMES: [&str; 6] = ["success", "failure", "skipped", "expired", "lost", "error"];

/// Returns a place with a directory for metrics, `metrics`.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("metrics")).unwrap();
    place
}

/// Returns `shedlock run --name NAME --at-most 1m --metrics-dir metrics ARGUMENTS`.
fn run(place: &Place, name: &str, arguments: &[&str]) -> Command {
    let mut command = place.run(name, ["--metrics-dir", "metrics"]);
    command.args(arguments);
    command
}

/// Returns the values in a text, by what stands before them.
fn values(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(series, value)| (series.to_owned(), value.parse().unwrap()))
        .collect()
}

fn text(place: &Place, name: &str) -> String {
    place.read(&format!("metrics/shedlock-{name}.prom"))
}

/// Returns the value of `shedlock_METRIC`, if there is one.
fn value(place: &Place, name: &str, metric: &str) -> Option<f64> {
    values(&text(place, name)).get(&format!("shedlock_{metric}{{name=\"{name}\"}}")).copied()
}

/// Returns how often each outcome was counted.
fn counted(text: &str) -> [f64; 6] {
    let values = values(text);
    OUTCOMES.map(|outcome| {
        let end = format!(",outcome=\"{outcome}\"}}");
        *values
            .iter()
            .find(|(series, _)| series.starts_with("shedlock_runs_total{") && series.ends_with(&end))
            .unwrap()
            .1
    })
}

/// Asserts that the run has one warning, and the job's own code.
#[track_caller]
fn warns(finished: &Finished, code: i32, what: &str) {
    finished.complains(code, &format!("warning: {what}"));
}

fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn every_outcome_is_counted_and_prometheus_accepts_the_file() {
    let place = place();
    let seen = |counts: [u8; 6], exit_code: u8| {
        let text = text(&place, "job");
        assert_eq!(counted(&text), counts.map(f64::from), "{text}");
        assert_eq!(value(&place, "job", "last_exit_code"), Some(exit_code.into()), "{text}");
        is_accepted(&text);
    };
    finish(&mut run(&place, "job", &["true"])).is_silent_with(0);
    seen([1, 0, 0, 0, 0, 0], 0);
    finish(&mut run(&place, "job", &["sh", "-c", "exit 4"])).is_silent_with(4);
    seen([1, 1, 0, 0, 0, 0], 4);
    finish(&mut run(&place, "job", &["sh", "-c", "kill -9 $$"])).is_silent_with(137);
    seen([1, 2, 0, 0, 0, 0], 137);
    finish(&mut run(&place, "job", &["--success-codes", "4", "sh", "-c", "exit 4"])).is_silent_with(4);
    seen([2, 2, 0, 0, 0, 0], 4);
    let holder = hold(&place, "job");
    finish(&mut run(&place, "job", &["-E", "75", "true"])).is_silent_with(75);
    seen([2, 2, 1, 0, 0, 0], 4);
    holder.end().is_silent_with(0);
    is_expired(&finish(limited(&place, "job", "1s", ["--metrics-dir", "metrics"]).args(["sleep", "100"])), "1s");
    seen([2, 2, 1, 1, 0, 0], 124);
    let holder = Holder::start(&place, &mut run(&place, "job", &["--lease", "1s"]), "true");
    edit(&place, "UPDATE shedlock SET locked_by = 'somebody' WHERE name = 'job'");
    assert_eq!(holder.finish().code(), Some(123));
    seen([2, 2, 1, 1, 1, 0], 123);
    edit(&place, "UPDATE shedlock SET lock_until = '2000-01-01T00:00:00.000Z' WHERE name = 'job'");
    finish(&mut run(&place, "job", &["/no/such/command"])).complains(127, "cannot run");
    seen([2, 2, 1, 1, 1, 1], 127);
    finish(&mut run(&place, "job", &["/"])).complains(126, "cannot run");
    seen([2, 2, 1, 1, 1, 2], 126);
    let mut away = run(&place, "job", &["--backend", "sqlite:/no/such/directory/db", "true"]);
    finish(&mut away).complains(125, "/no/such/directory");
    seen([2, 2, 1, 1, 1, 3], 125);
    let careful = under(&["sh", "-c", "umask 077; exec \"$@\"", "sh"], &run(&place, "job", &["true"]));
    finish(&mut { careful }).is_silent_with(0);
    assert_eq!(mode(&place.path("metrics/shedlock-job.prom")), 0o644, "node_exporter is another user");
    assert_eq!(names_in(&place.path("metrics")), ["shedlock-job.prom"], "nothing else is left there");
}

#[test]
fn the_times_are_those_of_the_job() {
    let place = place();
    let begun = now();
    let holder = Holder::start(&place, &mut run(&place, "job", &[]), "true");
    let first = wait_until("the start to be written", || value(&place, "job", "last_start_timestamp_seconds"));
    assert!((begun - 0.01..=now()).contains(&first), "{begun} {first}");
    let running = text(&place, "job");
    assert_eq!(values(&running).len(), 9, "a start, at-most, six counters, and their time: {running}");
    is_accepted(&running);
    assert_eq!(counted(&running), [0.0; 6]);
    assert_eq!(value(&place, "job", "at_most_seconds"), Some(60.0));
    let halfway = now();
    holder.end().is_silent_with(0);
    let end = value(&place, "job", "last_end_timestamp_seconds").unwrap();
    let duration = value(&place, "job", "last_duration_seconds").unwrap();
    assert!(end >= halfway - 0.01 && end <= now() + 0.01, "{halfway} {end}");
    // Two clocks are read, one after the other.
    assert!((end - first - duration).abs() < 0.1, "{end} {first} {duration}");
    assert_eq!(value(&place, "job", "last_success_timestamp_seconds"), Some(end));
    // A failure leaves the last success where it was.
    finish(&mut run(&place, "job", &["false"])).is_silent_with(1);
    assert_eq!(value(&place, "job", "last_success_timestamp_seconds"), Some(end));
    assert!(value(&place, "job", "last_end_timestamp_seconds").unwrap() > end);
}

#[test]
fn the_directory_can_be_named_by_an_option_a_variable_and_a_key() {
    let place = place();
    let directory = place.path("metrics");
    finish(&mut run(&place, "option", &["true"])).is_silent_with(0);
    finish(place.run("variable", ["true"]).env("SHEDLOCK_METRICS_DIR", &directory)).is_silent_with(0);
    let config = format!("[jobs.key]\nmetrics-dir = \"{}\"\n", directory.display());
    fs::write(place.path("config.toml"), config).unwrap();
    for name in ["key", "other"] {
        finish(place.run(name, ["true"]).env("SHEDLOCK_CONFIG", "config.toml")).is_silent_with(0);
    }
    finish(place.run("empty", ["true"]).env("SHEDLOCK_METRICS_DIR", "")).is_silent_with(0);
    assert_eq!(names_in(&directory), ["shedlock-key.prom", "shedlock-option.prom", "shedlock-variable.prom"]);
    finish(&mut place.run("job", ["--metrics-dir", "", "true"])).complains(125, "--metrics-dir is empty");
}

#[test]
fn odd_names_stay_in_the_directory_and_each_has_a_file() {
    let place = place();
    let long = "\u{1f512}".repeat(63);
    let (one, other) = (format!("{long}a"), format!("{long}b"));
    let names = ["a/b", "a%2Fb", "../a", "..", "a\\b", "a \"b\" {c}", "über", &one, &other, "-v"];
    for name in names {
        let mut command =
            place.shedlock(["run", &format!("--name={name}"), "--at-most", "1m", "--metrics-dir", "metrics", "true"]);
        finish(&mut command).is_silent_with(0);
        finish(&mut command).is_silent_with(0);
    }
    let files = names_in(&place.path("metrics"));
    assert_eq!(files.len(), names.len(), "{files:?}");
    let texts: Vec<String> = files.iter().map(|file| place.read(&format!("metrics/{file}"))).collect();
    for text in &texts {
        assert_eq!(counted(text)[0], 2.0, "{text}");
        is_accepted(text);
    }
    // What Prometheus must read as `\` and `"` is there as it wants it.
    assert!(texts.iter().any(|text| text.contains(r#"{name="a\\b"} "#)));
    assert!(texts.iter().any(|text| text.contains(r#"{name="a \"b\" {c}"} "#)));
    assert!(names_in(&place.path("")).iter().all(|name| !name.ends_with(".prom")));
}

#[test]
fn a_run_without_a_lock_counts_and_a_nested_one_and_a_stopped_one_do_not() {
    let place = place();
    let away = ["--backend", "sqlite:/no/such/directory/db", "--on-backend-error"];
    let asked = |policy: &str, name: &str| {
        let mut command = run(&place, name, &away);
        finish(command.args([policy, "true"]))
    };
    warns(&asked("run", "without"), 0, "");
    warns(&asked("skip", "skip"), 0, "");
    assert_eq!(counted(&text(&place, "without")), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(counted(&text(&place, "skip")), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(value(&place, "skip", "last_exit_code"), None);
    // Every run inside has the variable too.
    let script = "\"$0\" run --name outer --at-most 1m false; \"$0\" run --name inner --at-most 1m true";
    let mut outer = run(&place, "outer", &["sh", "-c", script, env!("CARGO_BIN_EXE_shedlock")]);
    finish(outer.env("SHEDLOCK_METRICS_DIR", "metrics")).is_silent_with(0);
    assert_eq!(counted(&text(&place, "outer")), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(counted(&text(&place, "inner")), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let holder = hold(&place, "stopped");
    let waiter = detached(&place, "waiter", &run(&place, "stopped", &["--wait", "forever", "-vv", "true"]));
    wait_until("the waiter to wait", || waiter.stderr().contains("waiting").then_some(()));
    kill(waiter.pid(), "TERM");
    assert_eq!(waiter.finish().code(), Some(143));
    holder.end().is_silent_with(0);
    assert_eq!(text(&place, "stopped"), "");
    // One that is stopped while its job runs is a run that failed.
    let run = detached(&place, "run", &run(&place, "stopped", &["sh", "-c", "echo > ready; exec sleep 100"]));
    place.wait_for_lines("ready", 1);
    kill(run.pid(), "TERM");
    run.finish().is_silent_with(143);
    assert_eq!(counted(&text(&place, "stopped")), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn runs_at_once_count_each_and_the_file_is_whole_at_any_moment() {
    let place = place();
    // Few enough that nobody has to wait for half a second, which would be a warning, on a machine that is busy.
    let herd = 16;
    let many: Vec<String> = (0..herd).map(|number| format!("job-{number}")).collect();
    let mut children: Vec<Child> = Vec::new();
    for name in &many {
        for name in ["one", name] {
            children.push(start(&mut run(&place, name, &["-E", "75", "sh", "-c", "sleep 0.0$(($$ % 10))"])));
        }
    }
    // Who reads as fast as it can meets many of the writings.
    let (over, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Also if nobody says so, since that has failed.
            let begun = Instant::now();
            while !over.load(Ordering::Relaxed) && begun.elapsed() < PATIENCE * 2 {
                // There is no file before the first of them.
                if let Ok(text) = fs::read_to_string(place.path("metrics/shedlock-one.prom")) {
                    assert!(counted(&text).iter().sum::<f64>() <= herd as f64 && text.ends_with('\n'), "{text}");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let ended = |child: &mut Child| child.try_wait().unwrap().is_some();
        wait_until("the herd to end", || children.iter_mut().all(ended).then_some(()));
        over.store(true, Ordering::Relaxed);
    });
    assert!(reads.load(Ordering::Relaxed) > herd);
    let ends: Vec<Finished> = children.into_iter().map(finish_child).collect();
    assert!(ends.iter().all(|end| end.stderr.is_empty()), "{ends:?}");
    let ran = ends.iter().filter(|end| end.code() == Some(0)).count() - herd;
    let [success, failure, skipped, expired, lost, error] = counted(&text(&place, "one"));
    assert_eq!((success as usize, skipped as usize), (ran, herd - ran));
    assert_eq!([failure, expired, lost, error], [0.0; 4]);
    for name in &many {
        assert_eq!(counted(&text(&place, name)), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], "{name}");
    }
    assert_eq!(names_in(&place.path("metrics")).len(), herd + 1);
    // node_exporter reads them all as one.
    let mut help = BTreeSet::new();
    for file in names_in(&place.path("metrics")) {
        help.extend(place.lines(&format!("metrics/{file}")).into_iter().filter(|line| line.starts_with('#')));
    }
    assert_eq!(help.len(), 16, "each metric is explained in one way: {help:?}");
}

#[test]
fn who_is_killed_while_it_writes_leaves_a_whole_file_and_no_lock() {
    let place = place();
    finish(&mut run(&place, "job", &["true"])).is_silent_with(0);
    let before = text(&place, "job");
    // Killed by the kernel when the new file is to take the place of the old one: SQLite renames nothing.
    let words = ["strace", "-f", "-qq", "-o", "trace", "-e", "trace=rename,renameat,renameat2"];
    let inject = ["-e", "inject=rename,renameat,renameat2:signal=KILL:when=1"];
    let killed = under(&[&words[..], &inject].concat(), &run(&place, "job", &["sleep", "100"]));
    assert_eq!(finish(&mut { killed }).code(), None);
    assert_eq!(text(&place, "job"), before);
    let left = names_in(&place.path("metrics"));
    assert_eq!(left, [".shedlock-job.prom.tmp", "shedlock-job.prom"], "{}", place.read("trace"));
    edit(&place, "UPDATE shedlock SET lock_until = '2000-01-01T00:00:00.000Z', boot_until = 0 WHERE name = 'job'");
    finish(&mut run(&place, "job", &["-E", "75", "true"])).is_silent_with(0);
    assert_eq!(counted(&text(&place, "job"))[0], 2.0);
    assert_eq!(names_in(&place.path("metrics")), ["shedlock-job.prom"], "what was left is gone");
}

#[test]
fn who_is_killed_at_whatever_moment_leaves_a_whole_file() {
    let place = place();
    finish(&mut run(&place, "job", &["true"])).is_silent_with(0);
    let mut last = counted(&text(&place, "job"))[0];
    for step in 0..40_u64 {
        let mut child = start(&mut run(&place, "job", &["--lease", "1s", "true"]));
        // Moments that differ, not one that is right.
        std::thread::sleep(Duration::from_micros(step * 700));
        let _ = child.kill();
        child.wait().unwrap();
        let text = text(&place, "job");
        assert!(counted(&text)[0] >= last && text.ends_with('\n'), "{text}");
        last = counted(&text)[0];
    }
    is_accepted(&text(&place, "job"));
    finish(&mut run(&place, "other", &["true"])).is_silent_with(0);
}

#[test]
fn what_is_no_file_of_ours_is_replaced_with_one_warning() {
    let place = place();
    let file = place.path("metrics/shedlock-job.prom");
    fs::write(place.path("precious"), "precious\n").unwrap();
    let foreign: [(&str, &dyn Fn()); 6] = [
        ("empty", &|| fs::write(&file, "").unwrap()),
        ("foreign", &|| fs::write(&file, "up 1\n").unwrap()),
        ("binary", &|| fs::write(&file, b"\xff\0\xfe\n").unwrap()),
        ("of another job", &|| fs::copy(place.path("metrics/shedlock-b.prom"), &file).map(drop).unwrap()),
        ("a link", &|| symlink(place.path("precious"), &file).unwrap()),
        ("a pipe", &|| assert!(Command::new("mkfifo").arg(&file).status().unwrap().success())),
    ];
    finish(&mut run(&place, "b", &["true"])).is_silent_with(0);
    for (what, put) in foreign {
        put();
        let finished = finish(&mut run(&place, "job", &["sh", "-c", "exit 3"]));
        warns(&finished, 3, &format!("{} was damaged", Path::new("metrics/shedlock-job.prom").display()));
        assert_eq!(counted(&text(&place, "job")), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0], "{what}");
        finish(&mut run(&place, "job", &["sh", "-c", "exit 3"])).is_silent_with(3);
        fs::remove_file(&file).unwrap();
    }
    assert_eq!(place.read("precious"), "precious\n");
    fs::create_dir(&file).unwrap();
    warns(
        &finish(&mut run(&place, "job", &["sh", "-c", "exit 3"])),
        3,
        "the metrics in metrics/shedlock-job.prom were not written: is a",
    );
    assert_eq!(names_in(&place.path("metrics")), ["shedlock-b.prom", "shedlock-job.prom"]);
}

#[test]
fn a_directory_that_is_missing_no_directory_forbidden_or_full_is_one_warning() {
    let place = place();
    let into = |directory: &str| place.run("job", ["--metrics-dir", directory, "sh", "-c", "exit 7"]);
    warns(&finish(&mut into("nowhere")), 7, "the metrics in nowhere were not written: no such file or directory");
    assert!(!place.path("nowhere").exists());
    fs::write(place.path("file"), "").unwrap();
    warns(&finish(&mut into("file")), 7, "the metrics in file were not written: not a directory");
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    warns(&finish(&mut into("pipe")), 7, "the metrics in pipe were not written: not a directory");
    let home = open_to_nobody(&place, "home");
    let mut inner = place.run("job", ["--metrics-dir", "metrics", "sh", "-c", "exit 7"]);
    inner.env("SHEDLOCK_BACKEND", format!("sqlite:{}/locks.db", home.display()));
    warns(&finish(&mut by_nobody(&inner)), 7, "the metrics in metrics were not written: permission denied");
    // Of a full file system the old file is left.
    let setup = "mount -t tmpfs -o size=8k none metrics; cp before metrics/shedlock-job.prom; \
                 dd if=/dev/zero of=metrics/filler bs=4k 2> dd.log || true; \"$@\"; code=$?; cp -r metrics after; exit $code; :";
    finish(&mut run(&place, "job", &["true"])).is_silent_with(0);
    fs::rename(place.path("metrics/shedlock-job.prom"), place.path("before")).unwrap();
    let setup = format!("set +e; {setup}");
    warns(&finish(&mut among_mounts(&setup, &into("metrics"))), 7, "the metrics in metrics were not written: no space");
    assert_eq!(place.read("after/shedlock-job.prom"), place.read("before"));
    assert_eq!(names_in(&place.path("after")), ["filler", "shedlock-job.prom"]);
    // It is no warning to those who want none, and an object to those who want objects.
    finish(place.run("job", ["-q", "--metrics-dir", "nowhere", "true"]).env("X", "")).is_silent_with(0);
    let told = finish(&mut place.run("job", ["--log-format", "json", "--metrics-dir", "nowhere", "true"]));
    let event: serde_json::Value = serde_json::from_str(&told.stderr).unwrap();
    assert_eq!((&event["event"], &event["level"]), (&"metrics".into(), &"warning".into()), "{event}");
}

#[test]
fn a_directory_that_hangs_delays_neither_the_job_nor_its_end() {
    let place = place();
    // Who holds the lock on the directory stands for a file system that does not answer.
    let mut locker = start(Command::new("flock").current_dir(place.path("")).args([
        "metrics",
        "sh",
        "-c",
        "echo > locked; while [ ! -e done ] && [ -e locked ]; do sleep 0.02; done",
    ]));
    place.wait_for_lines("locked", 1);
    let job = "$SIG{TERM} = sub { exit 7 }; open(my $f, '>', 'ready'); print $f qq(\n); close $f; sleep 100";
    let job = detached(&place, "run", &run(&place, "job", &["perl", "-e", job]));
    place.wait_for_lines("ready", 1);
    kill(job.pid(), "TERM");
    warns(&job.finish(), 7, "the metrics in metrics were not written in time");
    let skipped = hold(&place, "job");
    warns(
        &finish(&mut run(&place, "job", &["-E", "75", "true"])),
        75,
        "the metrics in metrics were not written in time",
    );
    skipped.end().is_silent_with(0);
    touch(&place, "done");
    locker.wait().unwrap();
    finish(&mut run(&place, "job", &["true"])).is_silent_with(0);
    assert_eq!(counted(&text(&place, "job")), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], "who was too slow has not counted later");
}

#[test]
fn a_file_system_that_is_stopped_does_not_delay_the_end_of_the_job() {
    let place = place();
    fs::create_dir(place.path("far")).unwrap();
    let script = "mkfifo pipe\n\
                  /usr/lib/openssh/sftp-server < pipe | sshfs -f -o passive :\"$PWD/far\" metrics > pipe 2> sshfs.log &\n\
                  sshfs=$!; tries=0\n\
                  until mountpoint -q metrics; do tries=$((tries + 1)); [ $tries -lt 1000 ]; sleep 0.01; done\n\
                  kill -STOP $sshfs\n\
                  code=0; \"$@\" || code=$?; echo > ended\n\
                  kill -CONT $sshfs; umount metrics; wait; exit $code";
    let finished = finish_in_time(&mut among_mounts(script, &run(&place, "job", &["sh", "-c", "exit 7"])));
    warns(&finished, 7, "the metrics in metrics were not written in time");
    assert!(place.path("ended").exists());
}

#[test]
fn only_who_wants_metrics_has_a_thread_for_them() {
    let place = place();
    let threads = |holder: &Holder| {
        let tasks = names_in(Path::new(&format!("/proc/{}/task", holder.pid())));
        let name = |task: &String| fs::read_to_string(format!("/proc/{}/task/{task}/comm", holder.pid())).unwrap();
        tasks.iter().map(name).map(|name| name.trim().to_owned()).collect::<Vec<_>>()
    };
    let without = hold(&place, "without");
    let with = Holder::start(&place, &mut run(&place, "with", &[]), "true");
    wait_until("the thread", || (threads(&with) == ["shedlock", "worker", "metrics"]).then_some(()));
    assert_eq!(threads(&without), ["shedlock", "worker"]);
    // It takes no signal that main is to read.
    let task = names_in(Path::new(&format!("/proc/{}/task", with.pid()))).pop().unwrap();
    let blocked = |task: &str| {
        let status = fs::read_to_string(format!("/proc/{}/task/{task}/status", with.pid())).unwrap();
        status.lines().find(|line| line.starts_with("SigBlk:")).unwrap().to_owned()
    };
    assert_eq!(blocked(&task), blocked(&with.pid().to_string()));
    for holder in [without, with] {
        holder.end().is_silent_with(0);
    }
}

#[test]
fn the_rules_are_accepted_and_do_what_they_say() {
    let directory = Path::new(ROOT).join("packaging/prometheus");
    for arguments in [["check", "rules", "shedlock.rules.yml"], ["test", "rules", "shedlock.rules.test.yml"]] {
        let finished = finish(Command::new("promtool").args(arguments).current_dir(&directory));
        assert_eq!(finished.code(), Some(0), "{finished:?}");
    }
}

#[test]
fn the_questions_of_the_readme_can_be_asked() {
    let place = Place::new();
    let questions = run_by("packaging/prometheus/README.md", "the_questions_of_the_readme_can_be_asked");
    let rules: String = questions
        .iter()
        .enumerate()
        .map(|(number, question)| {
            format!("      - record: question_{number}\n        expr: >-\n          {question}\n")
        })
        .collect();
    assert_eq!(rules.matches("expr").count(), 6);
    fs::write(place.path("rules.yml"), format!("groups:\n  - name: questions\n    rules:\n{rules}")).unwrap();
    let finished = finish(Command::new("promtool").args(["check", "rules"]).arg(place.path("rules.yml")));
    assert_eq!(finished.code(), Some(0), "{finished:?}");
}

/// By the documented model of dashboards: each panel has its own id and place, a data source that the reader chooses, and
/// expressions that Prometheus can parse.
#[test]
fn the_dashboard_is_one_for_grafana() {
    let place = Place::new();
    let text = fs::read_to_string(Path::new(ROOT).join("packaging/prometheus/dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(dashboard["id"].is_null() && dashboard["schemaVersion"].as_u64().unwrap() >= 36);
    assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource");
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut ids, mut cells, mut rules) = (BTreeSet::new(), BTreeSet::new(), String::new());
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(panel["title"].is_string() && panel["type"].is_string(), "{panel}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        let [x, y, width, height] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(x + width <= 24, "{panel}");
        for cell in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "two panels at {cell:?}: {panel}");
        }
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap().replace("$name", ".*").replace("$__range", "1d");
            rules += &format!("      - record: question\n        expr: >-\n          {expression}\n");
        }
    }
    fs::write(place.path("rules.yml"), format!("groups:\n  - name: panels\n    rules:\n{rules}")).unwrap();
    let finished =
        finish(Command::new("promtool").args(["check", "rules", "--lint=none"]).arg(place.path("rules.yml")));
    assert_eq!(finished.code(), Some(0), "{finished:?}");
}

#[test]
fn rules_and_explanation_name_the_metrics_that_are_written() {
    let place = place();
    finish(&mut run(&place, "job", &["true"])).is_silent_with(0);
    let hold = hold(&place, "job");
    let of_backend = finish(&mut place.shedlock(["status", "--prometheus"])).stdout;
    hold.end().is_silent_with(0);
    let text = text(&place, "job") + &of_backend;
    let written: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let named_in = |files: &[&str]| {
        let text: String = files.iter().map(|file| fs::read_to_string(Path::new(ROOT).join(file)).unwrap()).collect();
        let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        words.filter(|word| word.starts_with("shedlock_")).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let written: BTreeSet<String> = written.into_iter().map(str::to_owned).collect();
    for file in ["shedlock.rules.yml", "README.md", "dashboard.json"] {
        let named = named_in(&[&format!("packaging/prometheus/{file}")]);
        assert!(named.is_subset(&written), "{file}: {named:?}");
    }
    let explained = named_in(&["src/generate/shedlock-run.1.md", "src/generate/shedlock-status.1.md"]);
    assert!(explained.is_superset(&written), "the manual explains all of {written:?}");
}
