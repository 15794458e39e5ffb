//! Rows that shedlock would not write, and tables that are not shedlock's.

use super::{MINUTE, Site};
use crate::support::{Place, finish};
#[cfg(feature = "mysql")]
use servers::stores::MariaDbStore;
#[cfg(feature = "postgres")]
use servers::stores::PostgresStore;
use servers::stores::{SqliteStore, Store};

#[test]
fn a_stored_text_does_nothing_to_a_terminal() {
    let site = Site::new(SqliteStore::new());
    site.store.make_table();
    assert!(site.store.java_take("a\x1b[2J\nb\u{202e}", "host\x07", MINUTE));
    let printed = site.printed(&["status"]);
    assert_eq!(printed.lines().count(), 2);
    assert!(printed.contains(r"$'a\033[2J\nb\342\200\256'  held   host\u{7}  "), "{printed}");
    // By its name, and in JSON as it is.
    assert_eq!(site.status("a\x1b[2J\nb\u{202e}")["owner"], "host\x07");
}

#[test]
fn a_stored_text_does_nothing_to_a_terminal_in_json_either() {
    let site = Site::new(SqliteStore::new());
    site.store.make_table();
    assert!(site.store.java_take("job", "host\u{9b}2J\u{202e}", MINUTE));
    let skipped = finish(&mut site.run("job", &["-v", "--log-format", "json", "true"]));
    for shown in [site.printed(&["status", "--json"]), skipped.stderr] {
        assert!(shown.contains("host\\u009b2J\\u202e"), "{shown}");
        assert!(!shown.contains(['\u{9b}', '\u{202e}']), "{shown}");
    }
    assert_eq!(site.status("job")["owner"], "host\u{9b}2J\u{202e}");
}

/// A history that is none of ours.
fn without_a_history_that_can_be_read_the_locks_are_shown<S: Store>(site: &Site<S>) {
    site.ran("job", &["true"]).is_silent_with(0);
    site.store
        .carry_out("DROP TABLE shedlock_history; CREATE TABLE shedlock_history (year INTEGER, event VARCHAR(9));");
    let finished = finish(&mut site.shedlock(&["status"]));
    assert_eq!(finished.code(), Some(0));
    assert!(finished.stdout.lines().nth(1).unwrap().starts_with("job   free   "), "{finished:?}");
    assert!(finished.stderr.starts_with("shedlock: the last runs are not shown: "), "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    finish(&mut site.shedlock(&["history"])).complains(125, "shedlock_history");
}

#[test]
fn without_a_history_in_sqlite_the_locks_are_shown() {
    without_a_history_that_can_be_read_the_locks_are_shown(&Site::new(SqliteStore::new()));
}

#[cfg(feature = "postgres")]
#[test]
fn without_a_history_in_postgres_the_locks_are_shown() {
    without_a_history_that_can_be_read_the_locks_are_shown(&Site::new(PostgresStore::new()));
}

#[cfg(feature = "mysql")]
#[test]
fn without_a_history_in_mariadb_the_locks_are_shown() {
    without_a_history_that_can_be_read_the_locks_are_shown(&Site::new(MariaDbStore::new()));
}

#[test]
fn rows_that_make_no_sense_are_shown_as_far_as_they_do() {
    let site = Site::new(SqliteStore::new());
    site.ran("job", &["true"]).is_silent_with(0);
    site.store.carry_out(
        "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('odd', 'soon', 'earlier', ''); \
         INSERT INTO shedlock_history (id, name, owner, host, started_at, ended_at, exit_code, outcome) \
         VALUES (5, 'odd', 'x', '', 'once', 'later', -1, 'gelungen'), (9, 'never', 'y', 'h', '2031-01-01T00:00:00.000Z', NULL, NULL, NULL);",
    );
    for words in [&["status"][..], &["history"]] {
        let rows = site.json(words);
        assert!(rows.iter().any(|row| row["name"] == "odd"), "{rows:?}");
        assert!(site.printed(words).contains("odd"));
    }
    let picture = site.printed(&["history", "--timeline"]);
    assert!(picture.contains("job") && !picture.contains("never  "), "what is to come is no part of it: {picture}");
    assert!(site.printed(&["history", "--svg", "-"]).contains("job on "));
}

#[test]
fn a_long_text_of_somebody_else_is_cut_for_people_and_whole_for_programs() {
    let place = Place::new();
    finish(&mut place.run("job", ["true"])).is_silent_with(0);
    let long = "x".repeat(400_000);
    let held = "locked_by = ?1, locked_at = strftime('%Y-%m-%dT%H:%M:%fZ'), lock_until = '2999-01-01T00:00:00.000Z'";
    let database = rusqlite::Connection::open(place.database()).unwrap();
    database.execute(&format!("UPDATE shedlock SET {held}"), [&long]).unwrap();
    database.execute("UPDATE shedlock_history SET host = ?1, outcome = ?1", [&long]).unwrap();
    for (words, code) in [
        (&["run", "-v", "--name", "job", "--at-most", "1m", "-E", "75", "true"][..], 75),
        (&["status"], 0),
        (&["status", "job"], 0),
        (&["status", "--max-age", "1h", "job"], 1),
        (&["history"], 0),
        (&["history", "--timeline"], 0),
        (&["unlock", "job"], 1),
        (&["verify", "job@web1:1:00c0ffee00c0ffee"], 1),
        (&["check"], 0),
    ] {
        let finished = finish(&mut place.shedlock(words));
        assert_eq!(finished.code(), Some(code), "{words:?}: {:.2000}", finished.stderr);
        let said = finished.stdout + &finished.stderr;
        assert!(said.lines().all(|line| line.chars().count() < 2000), "{words:?}: {said:.2000}");
        let is_shown = said.contains("xxx");
        assert!(!is_shown || said.contains("x… (400000 characters)"), "{words:?}: {said:.2000}");
    }
    let json = finish(&mut place.shedlock(["status", "--json"])).stdout;
    assert!(json.contains(&long));
}
