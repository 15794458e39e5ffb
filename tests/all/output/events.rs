//! `--log-format json`: the lines that real runs write, held against the schema that is documented; who holds a lock, on
//! every backend; and the examples of how to have all that in a log.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::fixtures::{Holder, edit, hold, open};
use crate::support::process::{beside, children, detached, limited, touch, until_exists, wait_until_held};
use crate::support::schema::Schema;
use crate::support::{Finished, PATIENCE, Place, finish, kill, wait_until};
#[cfg(all(feature = "postgres", feature = "mysql", feature = "redis"))]
use servers::stores::{MariaDbStore, PostgresStore, RedisStore};
use servers::stores::{SqliteStore, Store};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Returns the events in a text, each valid.
#[track_caller]
fn events(text: &str) -> Vec<Value> {
    let schema = Schema::of("event");
    let read = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        schema.accepts(&event);
        event
    };
    text.lines().map(read).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

/// Returns `shedlock run --name NAME --at-most LIMIT -vv --log-format json ARGUMENTS`.
fn told(place: &Place, name: &str, limit: &str, arguments: &[&str]) -> Command {
    let mut command = limited(place, name, limit, ["-vv", "--log-format", "json"]);
    command.args(arguments);
    command
}

/// What the runs of a test have told.
#[derive(Default)]
struct Seen(BTreeSet<(String, String)>);

impl Seen {
    #[track_caller]
    fn add(&mut self, finished: &Finished, code: i32, wanted: &[&str]) {
        assert_eq!(finished.code(), Some(code), "{finished:?}");
        let events = events(&finished.stderr);
        for wanted in wanted {
            assert!(names(&events).contains(wanted), "{wanted} is not in {events:?}");
        }
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        self.0.extend(events.iter().map(|event| (text(&event["event"]), text(&event["level"]))));
    }
}

#[test]
fn the_lines_of_runs_of_all_kinds_are_valid_by_the_schema() {
    let place = Place::new();
    let mut seen = Seen::default();
    seen.add(&finish(&mut told(&place, "a", "1m", &["true"])), 0, &["granted", "ended", "released"]);
    seen.add(&finish(&mut told(&place, "a", "1m", &["sh", "-c", "kill -9 $$"])), 137, &["ended"]);
    let mut beside_a_service = told(&place, "a", "1m", &["true"]);
    seen.add(&finish(beside_a_service.env("SHEDLOCK_SERVICE_HOST", "10.0.0.1")), 0, &["unknown_variables"]);
    let holder = hold(&place, "a");
    seen.add(&finish(&mut told(&place, "a", "1m", &["--wait", "200ms", "true"])), 0, &["waiting", "held"]);
    holder.end().is_silent_with(0);
    let inner = format!("{} run --name n --at-most 1m -vv --log-format json true", env!("CARGO_BIN_EXE_shedlock"));
    seen.add(&finish(&mut told(&place, "n", "1m", &["sh", "-c", &inner])), 0, &["nested"]);
    for (policy, code) in [("fail", 125), ("skip", 0), ("run", 0)] {
        let away = ["--backend", "sqlite:/no/such/directory/db", "--on-backend-error", policy, "true"];
        seen.add(&finish(&mut told(&place, "b", "1m", &away)), code, &["backend_error"]);
    }
    seen.add(&finish(&mut told(&place, "b", "1m", &["./missing"])), 127, &["not_started"]);
    seen.add(&finish(&mut told(&place, "b", "1m", &["--metrics-dir", "nowhere", "true"])), 0, &["metrics"]);
    seen.add(&finish(&mut told(&place, "c", "1s", &["sleep", "100"])), 124, &["expired", "ended"]);
    let on = ["--on-expiry", "ignore", "sleep", "1.2"];
    seen.add(&finish(&mut told(&place, "d", "1s", &on)), 0, &["runs_on"]);

    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut acquire = place.shedlock(["acquire", "--name", "f", "--at-most", "1m", "-vv", "--log-format", "json"]);
    seen.add(&finish(acquire.stdout(full)), 125, &["granted", "not_handed_over", "released"]);
    for (notify, event) in [("true", "notified"), ("false", "not_notified")] {
        let on = ["--notify", notify, "--notify-on", "all", "true"];
        seen.add(&finish(&mut told(&place, "a", "1m", &on)), 0, &[event]);
    }
    let longer = format!("{} extend 1m && sleep 2.2", env!("CARGO_BIN_EXE_shedlock"));
    seen.add(&finish(&mut told(&place, "g", "2s", &["sh", "-c", &longer])), 0, &["extended"]);

    let script = "trap '' TERM; echo > ready; while :; do sleep 0.02; done 2> /dev/null";
    let stubborn = detached(&place, "e", &told(&place, "e", "1m", &["--stop-timeout", "100ms", "sh", "-c", script]));
    place.wait_for_lines("ready", 1);
    kill(stubborn.pid(), "TERM");
    seen.add(&stubborn.finish(), 137, &["stop_timeout"]);

    for (policy, code) in [("kill", 123), ("ignore", 0)] {
        let job = until_exists(&format!("{policy}.done"));
        let run = told(&place, policy, "1m", &["--lease", "1s", "--on-lost", policy, "sh", "-c", &job]);
        let run = detached(&place, policy, &run);
        wait_until("a renewal", || run.stderr().contains("\"renewed\"").then_some(()));
        edit(&place, &format!("UPDATE shedlock SET locked_by = 'somebody' WHERE name = '{policy}'"));
        wait_until("the loss", || run.stderr().contains("\"lost\"").then_some(()));
        touch(&place, &format!("{policy}.done"));
        seen.add(&run.finish(), code, &["renewed", "lost"]);
    }

    let job = until_exists("unguarded.done");
    let run = detached(&place, "u", &told(&place, "u", "1m", &["--lease", "3s", "sh", "-c", &job]));
    wait_until_held(&place, "u");
    let is_guardian =
        |pid: i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().contains("guardian");
    let guardian = wait_until("the guardian", || children(run.pid()).into_iter().find(|child| is_guardian(child.pid)));
    kill(guardian.pid, "KILL");
    wait_until("that it is gone", || run.stderr().contains("\"unguarded\"").then_some(()));
    kill(run.pid(), "STOP");
    kill(run.pid(), "CONT");
    wait_until("the check", || run.stderr().contains("\"checking\"").then_some(()));
    touch(&place, "unguarded.done");
    seen.add(&run.finish(), 0, &["unguarded", "checking"]);

    let job = until_exists("lost.done");
    let run = detached(&place, "v", &told(&place, "v", "1m", &["--lease", "3s", "sh", "-c", &job]));
    wait_until_held(&place, "v");
    let guardian = wait_until("the guardian", || children(run.pid()).into_iter().find(|child| is_guardian(child.pid)));
    // It has its database open, and there is no room for another pipe.
    wait_until("a renewal", || run.stderr().contains("\"renewed\"").then_some(()));
    let files = fs::read_dir(format!("/proc/{}/fd", run.pid())).unwrap().count();
    let limit = [format!("--pid={}", run.pid()), format!("--nofile={files}")];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    kill(guardian.pid, "KILL");
    wait_until("the warning", || run.stderr().contains("there is no guardian any more: it was killed").then_some(()));
    touch(&place, "lost.done");
    seen.add(&run.finish(), 0, &["unguarded"]);

    seen.add(&finish(&mut told(&place, "s", "1m", &["--splay", "10ms", "true"])), 0, &["splaying", "ended"]);

    // Nobody else can read or write meanwhile.
    let job = until_exists("late.done");
    let run = told(&place, "l", "1m", &["--lease", "20s", "--backend-timeout", "300ms", "sh", "-c", &job]);
    let run = detached(&place, "l", &run);
    wait_until_held(&place, "l");
    let connection = open(&place);
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    touch(&place, "late.done");
    seen.add(&run.finish(), 0, &["not_released"]);
    drop(connection);

    let run = told(&place, "r", "1m", &["--lease", "1s", "sleep", "100"]);
    let run = detached(&place, "r", &run);
    wait_until_held(&place, "r");
    let connection = open(&place);
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    wait_until("the loss", || run.stderr().contains("\"lost\"").then_some(()));
    drop(connection);
    seen.add(&run.finish(), 123, &["not_renewed", "lost"]);

    let run = detached(&place, "c", &told(&place, "c", "1m", &["sh", "-c", &until_exists("closed.done")]));
    wait_until_held(&place, "c");
    open(&place).execute_batch("DROP TABLE shedlock_history; CREATE TABLE shedlock_history (x)").unwrap();
    touch(&place, "closed.done");
    seen.add(&run.finish(), 0, &["unclosed"]);
    seen.add(&finish(&mut told(&place, "h", "1m", &["true"])), 0, &["unrecorded"]);

    // Of all events that the schema knows, these take more than a test of lines should.
    let left = ["cut", "undead", "not_given_back"];
    let schema = Schema::of("event").text;
    let all = schema["oneOf"].as_array().unwrap().iter().flat_map(|one| {
        let levels = one["properties"]["level"]["enum"].as_array().unwrap().clone();
        let event = one["properties"]["event"]["const"].as_str().unwrap().to_owned();
        levels.into_iter().map(move |level| (event.clone(), level.as_str().unwrap().to_owned()))
    });
    let unseen: Vec<_> = all.filter(|one| !seen.0.contains(one)).map(|(event, _)| event).collect();
    assert_eq!(unseen, left);
}

#[test]
fn the_schema_refuses_what_is_no_event() {
    let place = Place::new();
    let line = finish(&mut told(&place, "a", "1m", &["true"])).stderr;
    let line = events(&line).swap_remove(0);
    let schema = Schema::of("event");
    let with = |field: &str, value: Value| {
        let mut line = line.clone();
        line[field] = value;
        schema.is_kept_by(&line)
    };
    assert!(with("hint", "x".into()) && with("message", "x".into()));
    assert!(!with("event", "greeted".into()) && !with("level", "debug".into()) && !with("time", "noon".into()));
    assert!(!with("until", 7.into()) && !with("exit_code", 7.into()) && !with("mood", "good".into()));
    // That a later version may have.
    let mut later = line.clone();
    later["mood"] = "good".into();
    assert!(schema.is_understood(&later));
    for field in ["time", "level", "event", "name", "owner", "message", "until"] {
        let mut line = line.clone();
        line.as_object_mut().unwrap().remove(field);
        assert!(!schema.is_kept_by(&line), "{field}");
    }
}

/// Returns a moment as the events have it.
fn moment(millis: i64) -> String {
    let since = Duration::from_millis(millis.try_into().unwrap());
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string()
}

/// Who is skipped is told who holds the lock, since when and until when: of a run, and of a Java application.
fn a_skip_says_who_holds_the_lock(store: &dyn Store) {
    let place = Place::new();
    let run = |name: &str, arguments: &[&str]| {
        let mut command = place.run(name, arguments);
        command.env("SHEDLOCK_BACKEND", store.url());
        command
    };
    let is_told = |name: &str| {
        let stored = store.stored(name).unwrap();
        let (since, until) = (moment(stored.since), moment(stored.until));
        let skipped = finish(&mut run(name, &["-v", "--log-format", "json", "-E", "75", "true"]));
        assert_eq!(skipped.code(), Some(75), "{skipped:?}");
        let event = events(&skipped.stderr).remove(0);
        assert_eq!((&event["event"], &event["level"]), (&"held".into(), &"info".into()), "{event}");
        assert_eq!(event["holder"], *stored.owner, "{event}");
        // Redis counts down, and knows the end to the millisecond or so.
        for (field, wanted) in [("since", &since), ("until", &until)] {
            let time = |text: &str| humantime::parse_rfc3339(text).unwrap();
            let (found, wanted) = (time(event[field].as_str().unwrap()), time(wanted));
            let apart = found.duration_since(wanted).or_else(|_| wanted.duration_since(found)).unwrap();
            assert!(apart < Duration::from_millis(100), "{field} {event} {stored:?}");
        }
        let skipped = finish(&mut run(name, &["-v", "-E", "75", "true"]));
        skipped.complains(75, &format!("{name}: the lock is held by {} since {}", stored.owner, &since[..19]));
        assert!(skipped.stderr.contains(&format!(" until {}", &until[..16])), "{skipped:?}");
        finish(&mut run(name, &["-E", "75", "true"])).is_silent_with(75);
        stored.owner
    };
    let holder = Holder::start(&place, &mut run("ours", &[]), "true");
    assert!(is_told("ours").contains(&format!(":{}:", holder.pid())));
    holder.end().is_silent_with(0);
    assert!(store.java_take("theirs", "app-7.example", Duration::from_secs(90)));
    assert_eq!(is_told("theirs"), "app-7.example");
}

#[test]
fn a_skip_says_who_holds_the_lock_in_a_file() {
    a_skip_says_who_holds_the_lock(&SqliteStore::new());
}

#[cfg(all(feature = "postgres", feature = "mysql", feature = "redis"))]
#[test]
fn a_skip_says_who_holds_the_lock_on_postgresql() {
    a_skip_says_who_holds_the_lock(&PostgresStore::new());
}

#[cfg(all(feature = "postgres", feature = "mysql", feature = "redis"))]
#[test]
fn a_skip_says_who_holds_the_lock_on_mariadb() {
    a_skip_says_who_holds_the_lock(&MariaDbStore::new());
}

#[cfg(all(feature = "postgres", feature = "mysql", feature = "redis"))]
#[test]
fn a_skip_says_who_holds_the_lock_on_redis() {
    a_skip_says_who_holds_the_lock(&RedisStore::new());
}

#[test]
fn a_mistake_is_text_whatever_the_format() {
    let place = Place::new();
    finish(&mut told(&place, " a", "1m", &["true"])).complains(125, "begins or ends with a space");
    finish(&mut told(&place, "a", "soon", &["true"])).complains(125, "soon");
}

/// Returns the lines of an example that are no comment.
fn example(file: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(ROOT).join("packaging/examples").join(file)).unwrap();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// Returns `sh -c SCRIPT` with shedlock and a job called `report` in PATH.
fn script(place: &Place, script: &str) -> Command {
    let bin = place.path("bin");
    fs::create_dir_all(&bin).unwrap();
    crate::support::process::write_script(place, "bin/report", "#!/bin/sh\necho the report\necho some trouble >&2\n");
    let directory = Path::new(env!("CARGO_BIN_EXE_shedlock")).parent().unwrap();
    let path = format!("{}:{}:{}", bin.display(), directory.display(), std::env::var("PATH").unwrap());
    let mut command = beside(place, &["sh", "-eu", "-c", script]);
    command.env("PATH", path);
    command
}

#[test]
fn the_example_with_logger_sends_every_event_to_the_log_and_the_jobs_output_to_a_file() {
    let place = Place::new();
    let socket = place.path("log.socket");
    let log = UnixDatagram::bind(&socket).unwrap();
    log.set_read_timeout(Some(PATIENCE)).unwrap();
    let lines = example("crontab-syslog");
    let line = lines.iter().find(|line| line.contains("shedlock run")).unwrap();
    let command = line.splitn(6, char::is_whitespace).nth(5).unwrap().trim();
    let private = format!("logger --socket '{}' ", socket.display());
    let command = command.replace("logger ", &private).replace("/var/log/", "");
    assert!(command.contains(&private) && command.contains(">>report.log"), "{command}");
    let receive = || {
        let mut buffer = [0; 4096];
        let length = log.recv(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let (head, object) = text.split_once(": {").unwrap_or_else(|| panic!("{text}"));
        assert!(head.ends_with(" shedlock"), "{head}");
        events(format!("{{{object}").trim_end_matches(['\0', '\n'])).remove(0)
    };
    finish(&mut script(&place, &command)).is_silent_with(0);
    assert_eq!(names(&[receive(), receive()]), ["granted", "ended"]);
    assert_eq!(place.read("report.log"), "the report\nsome trouble\n");
    let holder = hold(&place, "report");
    finish(&mut script(&place, &command)).is_silent_with(0);
    let skipped = receive();
    assert_eq!((&skipped["event"], &skipped["name"]), (&"held".into(), &"report".into()));
    holder.end().is_silent_with(0);
}

#[test]
fn the_examples_for_the_journal_write_events_that_it_can_be_asked_for() {
    let place = Place::new();
    let unit = example("report-logged.service");
    let start = unit.iter().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let start = start.replace("/usr/local/bin/", "");
    let finished = finish(&mut script(&place, &start));
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), "the report\n"));
    let ours: String =
        finished.stderr.lines().filter(|line| line.starts_with('{')).map(|line| format!("{line}\n")).collect();
    assert_eq!(names(&events(&ours)), ["granted", "ended"]);
    assert!(unit.contains(&"SyslogIdentifier=report".to_owned()));
    // systemd-cat needs a journal; what it would start is the rest of its line.
    let lines = example("crontab-syslog");
    let line = lines.iter().find(|line| line.contains("systemd-cat")).unwrap();
    let (_, command) = line.split_once("systemd-cat -t report ").unwrap();
    let finished = finish(&mut script(&place, command));
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    assert!(finish(&mut script(&place, &format!("sh -n -c '{command}'"))).stderr.is_empty());
}
