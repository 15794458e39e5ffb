//! docs/troubleshooting.md: the messages in its headings are those of the program. Its commands are run with those of all
//! documents.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::generated::{ROOT, script, text};
use super::support::markdown::{Document, run_by};
use super::support::{Place, finish};
#[cfg(feature = "postgres")]
use servers::stores::PostgresStore;
use servers::stores::{SqliteStore, Store};

const DOCUMENT: &str = "docs/troubleshooting.md";

/// The messages that headings have, each with its line.
fn messages() -> Vec<String> {
    let document = text(DOCUMENT);
    let headings = document.lines().filter(|line| line.starts_with('#'));
    headings.flat_map(|line| line.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// What the program is made of, as its strings are when they are read: one that goes on in the next line is one text.
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
    read(&Path::new(ROOT).join("src"), &mut all);
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

/// Whether the parts stand in the text in this order, all of them.
fn has_in_order(text: &str, parts: &[&str]) -> bool {
    parts.iter().try_fold(text, |rest, part| rest.split_once(part).map(|(_, rest)| rest)).is_some()
}

/// The program puts messages together, mostly at a comma or a colon, so that it has their parts. What is not found like that is
/// printed by one of the document's own commands, or is a server's.
#[test]
fn every_message_in_a_heading_is_one_of_the_program() {
    let program = program();
    let printed: Vec<String> = Document::read(DOCUMENT)
        .blocks
        .into_iter()
        .filter(|block| block.is("text") && block.marks == ["complains"])
        .flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let of_servers = [
        "password authentication failed for user …",
        "FATAL: database \"pgbouncer\" does not exist",
        "server login has been failing, try again later (server_login_retry)",
        // What `forget` is refused with, on MySQL and on Kubernetes.
        "DELETE command denied …",
        "cannot delete resource …",
    ];
    let messages = messages();
    assert!(messages.len() > 60, "{}", messages.len());
    let mut unknown = Vec::new();
    for message in messages {
        let parts: Vec<&str> =
            message.split(['…', ',', ';', ':']).map(str::trim).filter(|part| part.len() > 2).collect();
        assert!(!parts.is_empty(), "{message}");
        let known = parts.iter().all(|part| program.contains(part))
            || printed.iter().any(|line| has_in_order(line, &parts))
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
    let looked =
        finish(&mut script(&place, &run_by(DOCUMENT, "troubleshooting::the_first_look_tells_what_it_should").concat()));
    assert_eq!((looked.code(), looked.stderr.as_str()), (Some(0), ""), "{looked:?}");
    let first = looked.stdout.lines().next().unwrap();
    assert!(first.contains("backend") && first.contains("locks.db, from SHEDLOCK_BACKEND"), "{first}");
    assert_eq!(looked.stdout.matches("success").count(), 2, "{looked:?}");
}

/// The row of a lock was deleted, as an application in Java that runs has not noticed.
fn comes_back(store: &impl Store) {
    store.make_table();
    assert!(store.java_take("report", "java-host", Duration::from_secs(60)));
    store.delete("report");
    let line = run_by(DOCUMENT, "troubleshooting::a_row_that_was_deleted_is_made_again").concat();
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
