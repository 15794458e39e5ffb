//! Variables that begin like those of options: a misspelt one is an error of every command, since without a word it would
//! give each host a lock of its own; those of others are left alone, and listed where somebody wants to know.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;

use crate::support::fixtures::names_in;
use crate::support::{Place, finish};

/// A command line of every command that reads settings.
const COMMANDS: [&[&str]; 14] = [
    &["run", "--name", "a", "--at-most", "1m", "touch", "ran"],
    &["acquire", "--name", "a", "--at-most", "1m"],
    &["release", "a@host:1:0000000000000001"],
    &["extend", "1m", "a@host:1:0000000000000001"],
    &["verify", "a@host:1:0000000000000001"],
    &["status"],
    &["history"],
    &["unlock", "--force", "a"],
    &["pause", "a"],
    &["resume", "a"],
    &["forget", "a"],
    &["check"],
    &["init"],
    &["schema"],
];

#[test]
fn a_misspelt_variable_is_an_error_of_every_command() {
    let place = Place::new();
    for words in COMMANDS {
        for (typed, known) in [
            ("SHEDLOCK_BACKND", "SHEDLOCK_BACKEND"),
            ("SHEDLOCK_BACKEND_URL", "SHEDLOCK_BACKEND"),
            ("SHEDLOCK_BACKEND_PASSWROD", "SHEDLOCK_BACKEND_PASSWORD"),
        ] {
            let url = "postgres://jobs:hunter2@db.example/ops";
            let finished = finish(place.shedlock(words).env_remove("SHEDLOCK_BACKEND").env(typed, url));
            finished.complains(125, &format!("unknown variable `{typed}`"));
            assert!(finished.stderr.contains(&format!("hint: did you mean `{known}`?")), "{}", finished.stderr);
            assert!(!finished.stderr.contains("hunter2"), "{}", finished.stderr);
        }
    }
    assert_eq!(names_in(&place.path("")), [""; 0]);
}

#[test]
fn inside_a_job_a_misspelt_variable_is_an_error_too() {
    let place = Place::new();
    let shedlock = env!("CARGO_BIN_EXE_shedlock");
    for inner in ["verify", "run --name a --at-most 1m true", "run --name b --at-most 1m true"] {
        let script = format!("SHEDLOCK_BACKND=x {shedlock} {inner}");
        finish(&mut place.run("a", ["sh", "-c", &script])).complains(125, "unknown variable `SHEDLOCK_BACKND`");
        // With what a run tells its job there is nothing wrong.
        finish(&mut place.run("a", ["sh", "-c", &format!("{shedlock} {inner}")])).is_silent_with(0);
    }
}

#[test]
fn an_empty_variable_is_no_slip_and_one_whose_name_or_value_is_no_text_is() {
    let place = Place::new();
    finish(place.run("a", ["true"]).env("SHEDLOCK_BACKND", "").env("SHEDLOCK_NMAE", "")).is_silent_with(0);
    let bytes = OsStr::from_bytes(b"\xff\xfe");
    finish(place.run("a", ["true"]).env("SHEDLOCK_BACKND", bytes)).complains(125, "unknown variable `SHEDLOCK_BACKND`");
    let name = OsStr::from_bytes(b"SHEDLOCK_BACK\xffND");
    finish(place.run("a", ["true"]).env(name, "x")).complains(125, "unknown variable `SHEDLOCK_BACK\u{fffd}ND`");
    let name = "SHEDLOCK_BACKEN\u{1b}[D";
    let finished = finish(place.run("a", ["true"]).env(name, "x"));
    finished.complains(125, "unknown variable `SHEDLOCK_BACKEN\\u{1b}[D`");
}

/// As a pod has them beside services called `shedlock`, `shedlock-backend` and `shedlock-name`, with others that are not ours.
const OTHERS: [(&str, &str); 12] = [
    ("SHEDLOCK_BACKEND_PORT", "tcp://10.0.0.1:5432"),
    ("SHEDLOCK_BACKEND_PORT_5432_TCP", "tcp://10.0.0.1:5432"),
    ("SHEDLOCK_BACKEND_PORT_5432_TCP_ADDR", "10.0.0.1"),
    ("SHEDLOCK_BACKEND_PORT_5432_TCP_PORT", "5432"),
    ("SHEDLOCK_BACKEND_PORT_5432_TCP_PROTO", "tcp"),
    ("SHEDLOCK_BACKEND_SERVICE_HOST", "10.0.0.1"),
    ("SHEDLOCK_BACKEND_SERVICE_PORT", "5432"),
    ("SHEDLOCK_BACKEND_SERVICE_PORT_HTTP", "5432"),
    ("SHEDLOCK_NAME_PORT", "tcp://10.0.0.2:80"),
    ("SHEDLOCK_NAME_SERVICE_HOST", "10.0.0.2"),
    ("SHEDLOCK_PORT", "tcp://10.0.0.3:80"),
    ("SHEDLOCK_SERVICE_HOST", "10.0.0.3"),
];

#[test]
fn variables_of_others_are_left_alone_and_the_job_has_them() {
    let place = Place::new();
    let others = OTHERS.iter().copied().chain([("SHEDLOCK_URL", "x"), ("shedlock_backend", "y")]);
    finish(place.run("a", ["sh", "-c", "env | grep -i ^shedlock_ > seen"]).envs(others.clone())).is_silent_with(0);
    let seen = place.lines("seen");
    for (name, value) in others {
        assert!(seen.contains(&format!("{name}={value}")), "{name} is not in {seen:?}");
    }
}

#[test]
fn check_and_vv_list_the_variables_that_set_nothing() {
    let place = Place::new();
    let finding = |others: &[(&str, &str)]| {
        let finished = finish(place.shedlock(["check", "--json"]).envs(others.iter().copied()));
        assert_eq!((finished.code(), &finished.stderr[..]), (Some(0), ""));
        let lines: Vec<Value> = serde_json::from_str(&finished.stdout).unwrap();
        let found = lines.into_iter().find(|line| line["subject"] == "variables");
        found.map(|line| (line["grade"].as_str().unwrap().to_owned(), line["seen"].as_str().unwrap().to_owned()))
    };
    let all = OTHERS.map(|(name, _)| name).join(", ");
    assert_eq!(finding(&[]), None);
    let of_services = format!("{all} set nothing: Kubernetes sets them for services");
    assert_eq!(finding(&OTHERS), Some(("good".to_owned(), of_services)));
    let url = ("SHEDLOCK_URL", "postgres://jobs:hunter2@db.example/ops");
    assert_eq!(finding(&[url]), Some(("unwise".to_owned(), "SHEDLOCK_URL set nothing".to_owned())));

    let acquire = ["acquire", "--name", "b", "--at-most", "1m"];
    for command in [&mut place.run("a", ["-vv", "true"]), place.shedlock(acquire).arg("-vv")] {
        let finished = finish(command.envs(OTHERS));
        let first = finished.stderr.lines().next().unwrap();
        assert!(first.ends_with(&format!(": {all} set nothing")), "{first}");
    }
    let finished = finish(place.run("a", ["-v", "true"]).envs(OTHERS));
    assert!(!finished.stderr.contains("set nothing"), "{}", finished.stderr);
}

#[test]
fn a_grant_names_the_backend_without_its_password() {
    let place = Place::new();
    let address = format!("sqlite:{}", place.database().display());
    for words in [&["run", "--name", "a", "--at-most", "1m"][..], &["acquire", "--name", "b", "--at-most", "1m"]] {
        let granted = |options: &[&str]| {
            let end: &[&str] = if words[0] == "run" { &["true"] } else { &[] };
            let finished = finish(&mut place.shedlock([words, options, end].concat()));
            let line = finished.stderr.lines().find(|line| line.contains("is taken until")).unwrap().to_owned();
            finish(&mut place.shedlock(["unlock", "--force", "b"]));
            line
        };
        assert!(granted(&["-v"]).ends_with(&format!(", in {address}")));
        let event: Value = serde_json::from_str(&granted(&["-v", "--log-format", "json"])).unwrap();
        assert_eq!((&event["event"], &event["backend"]), (&"granted".into(), &address.as_str().into()));
    }
}

// The word that turns the default backend off

#[test]
fn none_in_a_file_turns_the_default_backend_off() {
    let place = Place::new();
    std::fs::write(place.path("c.toml"), "backend = 'none'\n[jobs.b]\nbackend = 'sqlite:b.db'\n").unwrap();
    let complaint = "no backend is named, and c.toml:1: `backend` `none` turns the default one off";
    for words in COMMANDS {
        let mut command = place.shedlock(words);
        let finished = finish(command.env("SHEDLOCK_CONFIG", "c.toml").env_remove("SHEDLOCK_BACKEND"));
        finished.complains(125, complaint);
        assert!(finished.stderr.contains("hint: name one with --backend"), "{}", finished.stderr);
    }
    assert_eq!(names_in(&place.path("")), ["c.toml"]);
    let run = |name| {
        let mut command = place.run(name, ["--config", "c.toml"]);
        command.env_remove("SHEDLOCK_BACKEND");
        command
    };
    // Whoever names one gets it.
    finish(run("b").arg("true")).is_silent_with(0);
    finish(run("a").args(["--backend", "sqlite:a.db", "true"])).is_silent_with(0);
    finish(run("a").arg("true").env("SHEDLOCK_BACKEND", "sqlite:c.db")).is_silent_with(0);
    std::fs::write(place.path("url"), "sqlite:d.db").unwrap();
    finish(run("a").arg("true").env("SHEDLOCK_BACKEND_FILE", "url")).is_silent_with(0);
    for database in ["a.db", "b.db", "c.db", "d.db"] {
        assert!(place.path(database).exists(), "{database}");
    }
    // An empty one is none.
    finish(run("a").arg("true").env("SHEDLOCK_BACKEND", "")).complains(125, complaint);
    // Within a job the run's own backend is known.
    let verify = format!("{} verify --config c.toml", env!("CARGO_BIN_EXE_shedlock"));
    finish(run("a").args(["--backend", "sqlite:a.db", "sh", "-c", &verify])).is_silent_with(0);
}
