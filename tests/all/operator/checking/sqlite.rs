//! Checks of a file.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::{check, checked, on};
use crate::support::fixtures::{among_mounts, by_nobody, open_to_nobody};
use crate::support::{Place, finish};

fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// Returns what a file system in memory makes unwise; the tests' directories may be on one.
fn unwise(place: &Place) -> &'static [&'static str] {
    let kind = finish(std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(place.path(""))).stdout;
    if ["tmpfs", "overlayfs"].contains(&kind.trim()) { &["file system"] } else { &[] }
}

#[test]
fn a_file_that_is_not_there_yet_is_made_and_can_be_locked_in() {
    let place = Place::new();
    for seen in ["was missing and has been created", "has mode 0600"] {
        let checked = check(&url(&place.path("new.db")));
        checked.can_lock_but(unwise(&place));
        checked.says("good", "file", seen);
        checked.says("good", "backend", "from SHEDLOCK_BACKEND");
    }
    let rows: i64 = rusqlite::Connection::open(place.path("new.db"))
        .unwrap()
        .query_row("SELECT count(*) FROM shedlock_history", (), |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 0, "a check leaves no run in the history");
}

#[test]
fn a_table_of_the_java_library_is_good_and_gets_our_columns() {
    let place = Place::new();
    let database = rusqlite::Connection::open(place.database()).unwrap();
    let create = "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL PRIMARY KEY, lock_until TEXT NOT NULL, \
                  locked_at TEXT NOT NULL, locked_by VARCHAR(255) NOT NULL)";
    database.execute_batch(create).unwrap();
    let checked = check(&url(&place.database()));
    checked.says("good", "columns", "added to the table shedlock: boot_id, boot_until, boot_for");
    // It was not made in the mode in which readers wait for nobody.
    checked.says("unwise", "version", "journal in delete mode");
    assert_eq!(checked.code, Some(0));
}

#[test]
fn a_table_without_a_column_or_a_key_is_in_the_way() {
    for (columns, subject, text) in [
        (
            "name TEXT NOT NULL PRIMARY KEY, lock_until TEXT NOT NULL, locked_at TEXT NOT NULL",
            "columns",
            "no column locked_by",
        ),
        (
            "name TEXT NOT NULL, lock_until TEXT NOT NULL, locked_at TEXT NOT NULL, locked_by TEXT NOT NULL",
            "key",
            "(name)",
        ),
        ("id INTEGER PRIMARY KEY, name TEXT, value TEXT NOT NULL", "columns", "value requires a value"),
    ] {
        let place = Place::new();
        let database = rusqlite::Connection::open(place.database()).unwrap();
        database.execute_batch(&format!("CREATE TABLE shedlock ({columns})")).unwrap();
        drop(database);
        check(&url(&place.database())).says("bad", subject, text);
        super::a_run_fails(&url(&place.database()));
    }
}

/// What a catalog does not tell: somebody's trigger frees every lock as soon as it is taken.
#[test]
fn a_store_that_does_not_keep_a_lock_is_in_the_way() {
    let place = Place::new();
    check(&url(&place.database()));
    let database = rusqlite::Connection::open(place.database()).unwrap();
    let free = "UPDATE shedlock SET lock_until = '2000-01-01T00:00:00.000Z'";
    for event in ["INSERT", "UPDATE OF locked_by"] {
        let name = event.split(' ').next().unwrap();
        database
            .execute_batch(&format!("CREATE TRIGGER on_{name} AFTER {event} ON shedlock BEGIN {free}; END"))
            .unwrap();
    }
    let checked = check(&url(&place.database()));
    checked.says("bad", "take", "did not keep the lock as it was taken");
    super::a_run_fails(&url(&place.database()));
}

#[test]
fn a_history_of_anothers_costs_the_token_only() {
    let place = Place::new();
    let database = rusqlite::Connection::open(place.database()).unwrap();
    database.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE shedlock_history (what TEXT)").unwrap();
    let checked = check(&url(&place.database()));
    checked.says("unwise", "history", "is not a table of runs");
    checked.says("unwise", "take", "without a token");
    assert_eq!(checked.code, Some(0));
}

#[test]
fn a_view_a_damaged_file_and_a_directory_are_in_the_way() {
    let place = Place::new();
    let database = rusqlite::Connection::open(place.path("view.db")).unwrap();
    database.execute_batch("CREATE VIEW shedlock AS SELECT 1 AS name").unwrap();
    drop(database);
    check(&url(&place.path("view.db"))).says("bad", "table", "a view");
    fs::write(place.path("text.db"), "this is no database at all".repeat(100)).unwrap();
    check(&url(&place.path("text.db"))).says("bad", "file", "damaged or is not a SQLite database");
    fs::create_dir(place.path("directory")).unwrap();
    check(&url(&place.path("directory"))).says("bad", "file", "is a directory");
    check(&url(&place.path("none/locks.db"))).says("bad", "file", "does not exist");
}

#[test]
fn a_directory_that_cannot_be_written_is_in_the_way() {
    let place = Place::new();
    let home = open_to_nobody(&place, "home");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o555)).unwrap();
    let inner = on(&place, &url(&home.join("locks.db")), &["check", "--json"]);
    let finished = finish(&mut by_nobody(&inner));
    checked(&finished).says("bad", "file", "the mode 0555 of");
}

#[test]
fn a_file_that_everybody_may_write_is_unwise() {
    let place = Place::new();
    check(&url(&place.database()));
    fs::set_permissions(place.database(), fs::Permissions::from_mode(0o666)).unwrap();
    symlink(place.database(), place.path("link.db")).unwrap();
    check(&url(&place.path("link.db"))).says("unwise", "file", "every user on this host");
}

#[test]
fn a_network_file_system_is_in_the_way_and_one_in_memory_is_unwise() {
    let place = Place::new();
    for name in ["far", "near", "memory"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    let script = "mkfifo pipe\n\
                  /usr/lib/openssh/sftp-server < pipe | sshfs -f -o passive :\"$PWD/far\" near > pipe 2> sshfs.log &\n\
                  tries=0\n\
                  until mountpoint -q near; do tries=$((tries + 1)); [ $tries -lt 1000 ]; sleep 0.01; done\n\
                  code=0; \"$@\" || code=$?\n\
                  umount near; wait; exit $code";
    let inner = on(&place, "sqlite:near/new.db", &["check", "--json"]);
    let found = checked(&finish(&mut among_mounts(script, &inner)));
    found.says("bad", "file system", "fuse.sshfs");
    assert_eq!(found.subjects(), ["backend", "file system"]);
    assert!(!place.path("far/new.db").exists());
    let script = "mount -t tmpfs -o size=1m none memory; code=0; \"$@\" || code=$?; umount memory; exit $code";
    let inner = on(&place, "sqlite:memory/new.db", &["check", "--json"]);
    let found = checked(&finish(&mut among_mounts(script, &inner)));
    found.says("unwise", "file system", "tmpfs: a reboot loses");
    found.says("unwise", "space", "are free");
    found.says("good", "release", "");
}

#[test]
fn a_host_that_does_not_know_its_boot_is_unwise() {
    let place = Place::new();
    let inner = on(&place, &url(&place.database()), &["check", "--json"]);
    let script = "touch empty; mount --bind empty /proc/sys/kernel/random/boot_id";
    let found = checked(&finish(&mut among_mounts(script, &inner)));
    found.says("unwise", "boot", "boot_id cannot be read");
    found.says("good", "release", "");
}

#[test]
fn a_container_with_a_boot_id_of_its_own_is_unwise() {
    let place = Place::new();
    fs::write(place.path("id"), "11111111-1111-4111-8111-111111111111\n").unwrap();
    let inner = on(&place, &url(&place.database()), &["check", "--json"]);
    let found = checked(&finish(&mut among_mounts("mount --bind id /proc/sys/kernel/random/boot_id", &inner)));
    found.says("unwise", "boot", "something is mounted at /proc/sys/kernel/random/boot_id");
    found.says("good", "release", "");
    check(&url(&place.database())).says("good", "boot", "this boot has an id");
}

#[test]
fn a_file_with_two_names_and_a_device_are_in_the_way() {
    let place = Place::new();
    check(&url(&place.database()));
    fs::hard_link(place.database(), place.path("link.db")).unwrap();
    check(&url(&place.database())).says("bad", "file", "2 names (hard links)");
    fs::remove_file(place.path("link.db")).unwrap();
    let inner = on(&place, &url(&place.database()), &["check", "--json"]);
    let mount = "mount --bind locks.db locks.db";
    checked(&finish(&mut among_mounts(mount, &inner))).says("bad", "file", "the file itself is mounted there");
    check("sqlite:/dev/null").says("bad", "file", "is a device, not a file");
}
