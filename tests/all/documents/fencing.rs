//! The examples of shedlock-fencing(7): a resource refuses the token of a run whose lock has passed on.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[cfg(feature = "postgres")]
use crate::support::finish;
use crate::support::{Finished, Place, finish_child, start, wait_until};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/examples").join(name)
}

/// Asserts that the example ended with an error that contains `text`.
#[track_caller]
fn refuses(finished: &Finished, text: &str) {
    assert!(finished.code().is_some_and(|code| code != 0) && finished.stderr.contains(text), "{finished:?}");
}

/// Returns the writer of the place's `report.txt`, which waits for its text of this many bytes.
fn writer(place: &Place, token: &str, size: usize) -> Child {
    let mut command = Command::new(example("fenced-file.sh"));
    start(command.arg(place.path("report.txt")).arg(token).arg(size.to_string()).stdin(Stdio::piped()))
}

fn writes(mut writer: Child, text: &str) -> Finished {
    // Who refuses at once does not read it.
    let _ = writer.stdin.take().unwrap().write_all(text.as_bytes());
    finish_child(writer)
}

fn write(place: &Place, token: &str, text: &str) -> Finished {
    writes(writer(place, token, text.len()), text)
}

/// Returns the names of the files of the report.
fn files(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("report.txt")).collect();
    names.sort();
    names
}

#[test]
fn a_file_refuses_an_older_token_that_arrives_late() {
    let place = Place::new();
    write(&place, "33", "the first\n").is_silent_with(0);
    // It has begun to write and is slow; meanwhile its lock has passed on.
    let late = "the first again\n";
    let slow = writer(&place, "33", late.len());
    wait_until("the slow writer", || (files(&place).len() == 4).then_some(()));
    write(&place, "34", "the second\n").is_silent_with(0);
    refuses(&writes(slow, late), "token 33 is older than 34");
    assert_eq!(place.read("report.txt"), "the second\n");
    assert_eq!(files(&place), ["report.txt", "report.txt.lock", "report.txt.token"], "nothing is left behind");

    write(&place, "34", "the second again\n").is_silent_with(0);
    assert_eq!(place.read("report.txt"), "the second again\n");
    // A token of Redis.
    write(&place, "1763721792000", "the third\n").is_silent_with(0);
    refuses(&write(&place, "35", "late\n"), "token 35 is older");
    refuses(&write(&place, "", "without\n"), "there is no token");
    assert_eq!(place.read("report.txt"), "the third\n");
}

#[test]
fn a_file_refuses_a_text_whose_sender_was_killed() {
    let place = Place::new();
    write(&place, "33", "whole\n").is_silent_with(0);
    let whole = "whole again\n";
    for came in ["", "whole ag"] {
        refuses(&writes(writer(&place, "34", whole.len()), came), "not all of the text has come");
    }
    assert_eq!((place.read("report.txt"), place.read("report.txt.token")), ("whole\n".into(), "33\n".into()));
    assert_eq!(files(&place), ["report.txt", "report.txt.lock", "report.txt.token"], "nothing is left behind");
}

#[test]
fn a_file_refuses_what_is_no_token_on_both_sides() {
    let place = Place::new();
    write(&place, "34", "the newest\n").is_silent_with(0);
    for odd in ["12x", "x", "-1", "+99", " 99", "9 9", "99\n", "0x63", "1e9", "٣٥", "9*", ""] {
        refuses(&write(&place, odd, "odd\n"), if odd.is_empty() { "there is no token" } else { "is no token" });
    }
    assert_eq!((place.read("report.txt"), place.read("report.txt.token")), ("the newest\n".into(), "34\n".into()));
    // What is stored: after a power cut, or by a hand that slipped.
    for odd in ["", "\n", "12x\n", "34\n35\n", "-34\n", "34 \n"] {
        fs::write(place.path("report.txt.token"), odd).unwrap();
        for token in ["33", "34", "1763721792000"] {
            refuses(&write(&place, token, "late\n"), "report.txt.token `");
        }
        assert_eq!((place.read("report.txt"), place.read("report.txt.token")), ("the newest\n".into(), odd.into()));
    }
    // One that cannot be read is not one that is missing.
    fs::remove_file(place.path("report.txt.token")).unwrap();
    fs::create_dir(place.path("report.txt.token")).unwrap();
    refuses(&write(&place, "33", "late\n"), "report.txt.token");
    fs::remove_dir(place.path("report.txt.token")).unwrap();
    std::os::unix::fs::symlink("nowhere", place.path("report.txt.token")).unwrap();
    refuses(&write(&place, "33", "late\n"), "report.txt.token");
    assert_eq!(place.read("report.txt"), "the newest\n");
    assert_eq!(files(&place), ["report.txt", "report.txt.lock", "report.txt.token"], "nothing is left behind");
}

#[test]
fn a_file_compares_tokens_of_any_length_as_numbers() {
    let place = Place::new();
    let largest = u64::MAX.to_string();
    let longer = format!("1{}", "0".repeat(40));
    // Each is newer than those before, whatever its text looks like.
    let tokens = ["0", "9", "010", "00099", "100", "9223372036854775807", "9223372036854775808", &largest, &longer];
    for (place_in_list, token) in tokens.iter().enumerate() {
        write(&place, token, token).is_silent_with(0);
        write(&place, &format!("000{token}"), token).is_silent_with(0);
        for older in &tokens[..place_in_list] {
            refuses(&write(&place, older, "late"), "is older than");
        }
        assert_eq!(place.read("report.txt"), *token);
    }
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
    for odd in ["12x", "35 OR true", "token", "1e9", "35; DELETE FROM report"] {
        refuses(&report("22", odd), "invalid input syntax");
    }
    assert_eq!(row(), "21|34");
}
