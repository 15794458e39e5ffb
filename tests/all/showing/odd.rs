//! Rows that we would not write, and tables that are not ours.

use super::super::support::finish;
use super::{MINUTE, Site};
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
