//! The examples of shedlock-fencing(7): a resource refuses the token of a run whose lock has passed on.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[cfg(feature = "postgres")]
use super::support::finish;
use super::support::{Finished, Place, finish_child, start, wait_until};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/examples").join(name)
}

/// The example ended with an error that contains `text`.
#[track_caller]
fn refuses(finished: &Finished, text: &str) {
    assert!(finished.code().is_some_and(|code| code != 0) && finished.stderr.contains(text), "{finished:?}");
}

/// The writer of the place's `report.txt`, which waits for its text.
fn writer(place: &Place, token: &str) -> Child {
    let mut command = Command::new(example("fenced-file.sh"));
    start(command.arg(place.path("report.txt")).arg(token).stdin(Stdio::piped()))
}

fn writes(mut writer: Child, text: &str) -> Finished {
    // Who refuses at once does not read it.
    let _ = writer.stdin.take().unwrap().write_all(text.as_bytes());
    finish_child(writer)
}

/// The names of the files of the report.
fn files(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("report.txt")).collect();
    names.sort();
    names
}

#[test]
fn a_file_refuses_an_older_token_that_arrives_late() {
    let place = Place::new();
    writes(writer(&place, "33"), "the first\n").is_silent_with(0);
    // It has begun to write and is slow; meanwhile its lock has passed on.
    let slow = writer(&place, "33");
    wait_until("the slow writer", || (files(&place).len() == 4).then_some(()));
    writes(writer(&place, "34"), "the second\n").is_silent_with(0);
    refuses(&writes(slow, "the first again\n"), "token 33 is older than 34");
    assert_eq!(place.read("report.txt"), "the second\n");
    assert_eq!(files(&place), ["report.txt", "report.txt.lock", "report.txt.token"], "nothing is left behind");

    writes(writer(&place, "34"), "the second again\n").is_silent_with(0);
    assert_eq!(place.read("report.txt"), "the second again\n");
    // A token of Redis.
    writes(writer(&place, "1763721792000"), "the third\n").is_silent_with(0);
    refuses(&writes(writer(&place, "35"), "late\n"), "token 35 is older");
    refuses(&writes(writer(&place, ""), "without\n"), "there is no token");
    assert_eq!(place.read("report.txt"), "the third\n");
}

#[cfg(feature = "postgres")]
#[test]
fn a_table_refuses_an_older_token_that_arrives_late() {
    let database = servers::postgres().database();
    database.psql(&fs::read_to_string(example("fenced-table.sql")).unwrap());
    let report = |total: &str, token: &str| {
        let mut command = Command::new(example("fenced-report.sh"));
        finish(command.arg(total).env("SHEDLOCK_LOCK_TOKEN", token).env("REPORT_DATABASE", database.url()))
    };
    let row = || database.psql("SELECT total, token FROM report");

    report("10", "33").is_silent_with(0);
    report("20", "34").is_silent_with(0);
    refuses(&report("11", "33"), "token 33 is older");
    assert_eq!(row(), "20|34");
    report("21", "34").is_silent_with(0);
    assert_eq!(row(), "21|34");
    refuses(&report("22", ""), "there is no token");
    assert_eq!(row(), "21|34");
}
