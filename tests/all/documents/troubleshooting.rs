//! docs/troubleshooting.md: the messages that it explains are those of the program. Its commands are run with those of all
//! documents.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::support::markdown::run_by;
use crate::support::repository::{ROOT, text};
use crate::support::script;
use crate::support::{Place, finish};
#[cfg(feature = "postgres")]
use servers::stores::PostgresStore;
use servers::stores::{SqliteStore, Store};

const DOCUMENT: &str = "docs/troubleshooting.md";

/// Returns the messages of the page: the text in backticks at the beginning of an item of a list, up to the colon.
fn messages() -> Vec<String> {
    let document = text(DOCUMENT);
    let items = document.lines().filter_map(|line| line.strip_prefix("* `"));
    let begins = items.map(|item| item.split_once("`:").unwrap_or_else(|| panic!("no colon after: {item}")).0);
    begins.flat_map(|messages| messages.split("`, `").map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Commands with the exit code of the last, the message of the page that it prints, and the line after it, if one is expected.
const PRINTED: &[(&str, i32, &str, &str)] = &[
    (
        "shedlock run --name backup --at-most 6h --every 1d -- true
        shedlock run -v --name backup --at-most 6h --every 1d -- true",
        0,
        "the lock is kept after the run of … since … until …; the job is not run",
        "",
    ),
    (
        "shedlock pause backup --reason 'new disk' > /dev/null
        shedlock run -v --name backup --at-most 6h -- true",
        0,
        "the lock is paused by … since … until it is resumed…; the job is not run",
        "",
    ),
    (
        "shedlock run --name report --at-most 30m -- '/usr/local/bin/report --yesterday'",
        127,
        "cannot run …: no such file or directory",
        "hint: the command and its arguments are separate words; a shell command line needs sh -c '…'",
    ),
    (
        "> report.sh; shedlock run --name report --at-most 30m -- ./report.sh",
        126,
        "cannot run …: permission denied",
        "hint: make it executable with chmod +x, or name the program that runs it",
    ),
    ("shedlock run --name slow --at-most 1s -- sleep 60", 124, "the job is stopped because --at-most … is used up", ""),
    ("shedlock status nightly", 0, "there is no lock … yet", ""),
    (
        "shedlock run report --name report --at-most 30m",
        125,
        "--name is missing",
        "hint: name the lock: shedlock run --name NAME --at-most DURATION COMMAND",
    ),
    (
        "shedlock run --backend sqlite:none/shared.db --name report --at-most 30m -- true",
        125,
        "the directory … does not exist",
        "hint: create it with `mkdir -p -m 0700 …/none`",
    ),
    (
        "shedlock run --backend sqlite:one.db --name report --at-most 30m -- true
        ln one.db two.db
        shedlock run --backend sqlite:two.db --name report --at-most 30m -- true",
        125,
        "the file has … names (hard links)…",
        "hint: …",
    ),
    (
        "echo 'not a database, but something else that is long enough to be looked at' > other.db
        shedlock run --backend sqlite:other.db --name report --at-most 30m -- true",
        125,
        "the file is damaged or is not a SQLite database",
        "hint: …",
    ),
    (
        "shedlock run --name report --at-most 30m --metrics-dir none -- true",
        0,
        "the metrics in … were not written: …",
        "hint: --metrics-dir must be an existing directory that this user can read and write",
    ),
    (
        "shedlock run --name report --at-most 30m --notify 'mial root' -- false",
        1,
        "the command of --notify for … exited with code …",
        "",
    ),
];

#[test]
fn the_commands_that_the_page_is_about_print_its_messages() {
    let messages = messages();
    for (commands, code, message, next) in PRINTED {
        assert!(messages.iter().any(|other| other == message), "{message} is not in {DOCUMENT}");
        let place = Place::new();
        let ran = finish(&mut script(&place, commands));
        assert_eq!(ran.code(), Some(*code), "{ran:?}");
        let parts: Vec<&str> = message.split('…').collect();
        let mut lines = ran.stderr.lines().skip_while(|line| !has_in_order(line, &parts));
        assert!(lines.next().is_some(), "{message}: {ran:?}");
        let next: Vec<&str> = next.split('…').collect();
        assert!(has_in_order(lines.next().unwrap_or_default(), &next), "{message}: {ran:?}");
    }
}

/// Returns the strings of the program and its providers as they are when they are read: one that goes on in the next line is one text.
fn program() -> String {
    fn read(directory: &Path, all: &mut String) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, all);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                // What only tests say is no message.
                let text = fs::read_to_string(&path).unwrap();
                *all += text.split("#[cfg(test)]\nmod tests").next().unwrap();
            }
        }
    }
    let mut all = String::new();
    for directory in ["src", "providers"] {
        read(&Path::new(ROOT).join(directory), &mut all);
    }
    let mut lines = all.lines();
    let mut joined = lines.next().unwrap().to_owned();
    for line in lines {
        match joined.strip_suffix('\\') {
            Some(begun) => joined = begun.to_owned() + line.trim_start(),
            None => joined = joined + "\n" + line,
        }
    }
    joined.replace("\\\"", "\"")
}

/// Returns whether the parts stand in the text in this order, all of them.
fn has_in_order(text: &str, parts: &[&str]) -> bool {
    parts.iter().try_fold(text, |rest, part| rest.split_once(part).map(|(_, rest)| rest)).is_some()
}

/// The program puts messages together, mostly at a comma or a colon, so that it has their parts. What is not found like that is
/// printed by one of the commands above, or is a server's.
#[test]
fn every_message_of_the_page_is_one_of_the_program() {
    let program = program();
    let of_servers = [
        "password authentication failed for user …",
        "FATAL: database \"pgbouncer\" does not exist",
        "server login has been failing, try again later (server_login_retry)",
        // What `forget` is refused with, on MySQL and on Kubernetes.
        "DELETE command denied …",
        "cannot delete resource …",
    ];
    let messages = messages();
    assert!(messages.len() > 100, "{}", messages.len());
    let mut unknown = Vec::new();
    for message in messages {
        let parts: Vec<&str> =
            message.split(['…', ',', ';', ':']).map(str::trim).filter(|part| part.len() > 2).collect();
        assert!(!parts.is_empty(), "{message}");
        let known = parts.iter().all(|part| program.contains(part))
            || PRINTED.iter().any(|(_, _, printed, _)| *printed == message)
            || of_servers.contains(&message.as_str());
        if !known {
            unknown.push(message);
        }
    }
    assert!(unknown.is_empty(), "the program does not say {unknown:#?}");
}

#[test]
fn a_message_that_nobody_says_would_be_noticed() {
    let program = program();
    assert!(program.contains("the server's certificate and name are verified"));
    assert!(!program.contains("the lock has gone fishing"));
    // It goes on in the next line there.
    assert!(program.contains("until shortly before its --at-most is used up, a "));
    assert!(has_in_order("the lock is held by a since b", &["the lock is held by", "since"]));
    assert!(!has_in_order("since the lock is held by a", &["the lock is held by", "since"]));
}

#[test]
fn the_first_look_tells_what_it_should() {
    let place = Place::new();
    finish(&mut place.run("report", ["true"])).is_silent_with(0);
    let looked = finish(&mut script(&place, &run_by(DOCUMENT, "the_first_look_tells_what_it_should").concat()));
    assert_eq!((looked.code(), looked.stderr.as_str()), (Some(0), ""), "{looked:?}");
    let first = looked.stdout.lines().next().unwrap();
    assert!(first.contains("backend") && first.contains("locks.db, from SHEDLOCK_BACKEND"), "{first}");
    assert_eq!(looked.stdout.matches("success").count(), 2, "{looked:?}");
}

/// Checks that a deleted row comes back, although a running application in Java has not noticed that it was deleted.
fn comes_back(store: &impl Store) {
    store.make_table();
    assert!(store.java_take("report", "java-host", Duration::from_secs(60)));
    store.delete("report");
    let line = run_by(DOCUMENT, "a_row_that_was_deleted_is_made_again").concat();
    let place = Place::new();
    finish(script(&place, &line).env("SHEDLOCK_BACKEND", store.url())).is_silent_with(0);
    assert!(store.stored("report").is_some_and(|row| !row.is_held()), "what only updates finds it");
}

#[test]
fn a_row_that_was_deleted_is_made_again() {
    comes_back(&SqliteStore::new());
    #[cfg(feature = "postgres")]
    comes_back(&PostgresStore::new());
}
