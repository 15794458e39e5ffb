//! The SQLite backend: how its file comes to be, what its rows say, and what happens when the file is not as it
//! should be.

mod containers;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rusqlite::Connection;

use crate::support::fixtures::{
    Holder, among_mounts, bare, by_nobody, by_root, change, edit, find, hold, mode, names_in, open, open_to_nobody,
    span, wait_until_open,
};
use crate::support::process::{under, wait_until_closed};
use crate::support::{Finished, Place, finish, finish_child, kill, start, wait_until};

/// Returns `shedlock run --name a --at-most 1m ARGUMENTS` on this URL.
fn on(place: &Place, url: &str, arguments: &[&str]) -> Command {
    let mut command = place.run("a", arguments);
    command.env("SHEDLOCK_BACKEND", url);
    command
}

fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// Returns a directory in the place, to hold a database and nothing else.
fn directory(place: &Place) -> std::path::PathBuf {
    let directory = place.path("db");
    fs::create_dir(&directory).unwrap();
    directory
}

// The file

#[test]
fn the_file_is_made_at_first_use_for_its_user_alone() {
    let place = Place::new();
    let directory = directory(&place);
    let file = directory.join("locks.db");
    let inner = on(&place, &url(&file), &["true"]);
    for umask in ["000", "022", "077", "777"] {
        finish(&mut by_root(&["sh", "-c", &format!("umask {umask}; exec \"$@\""), "sh"], &inner)).is_silent_with(0);
        let names = names_in(&directory);
        assert_eq!(names, ["locks.db", "locks.db-shm", "locks.db-wal"]);
        for name in names {
            // A umask may take away what is ours, and never adds.
            assert_eq!(mode(&directory.join(&name)) & !0o600, 0, "{umask} {name}");
            fs::remove_file(directory.join(name)).unwrap();
        }
    }
}

#[test]
fn a_mode_that_is_asked_for_is_given_whatever_the_umask() {
    let place = Place::new();
    let directory = directory(&place);
    let inner = on(&place, &(url(&directory.join("locks.db")) + "?mode=0660"), &["true"]);
    finish(&mut by_root(&["sh", "-c", "umask 077; exec \"$@\"", "sh"], &inner)).is_silent_with(0);
    for name in ["locks.db", "locks.db-shm", "locks.db-wal"] {
        assert_eq!(mode(&directory.join(name)), 0o660, "{name}");
    }
}

#[test]
fn modes_that_exist_are_kept() {
    let place = Place::new();
    let file = directory(&place).join("locks.db");
    finish(&mut on(&place, &url(&file), &["true"])).is_silent_with(0);
    change("chmod", "0644", &file);
    finish(&mut on(&place, &(url(&file) + "?mode=0660"), &["true"])).is_silent_with(0);
    assert_eq!(mode(&file), 0o644);
    change("chmod", "0751", &place.path("db"));
    finish(&mut on(&place, &url(&file), &["true"])).is_silent_with(0);
    assert_eq!((mode(&file), mode(&place.path("db"))), (0o644, 0o751));
}

#[test]
fn several_users_share_a_file_that_was_made_for_them() {
    let place = Place::new();
    let home = open_to_nobody(&place, "home");
    change("chown", "0:65534", &home);
    change("chmod", "2770", &home);
    let url = url(&home.join("locks.db")) + "?mode=0660";
    let holder = Holder::start(&place, &mut on(&place, &url, &[]), "true");
    let mut other = on(&place, &url, &["-E", "75", "true"]);
    other.current_dir("/");
    finish(&mut by_nobody(&other)).is_silent_with(75);
    holder.end().is_silent_with(0);
    finish(&mut by_nobody(&other)).is_silent_with(0);
    finish(&mut on(&place, &url, &["true"])).is_silent_with(0);
}

#[test]
fn a_directory_that_does_not_exist_is_an_error() {
    let place = Place::new();
    let finished = finish(&mut on(&place, "sqlite:no/such/locks.db", &["touch", "ran"]));
    finished.complains(125, "/no/such does not exist");
    assert!(finished.stderr.contains("hint: create it with `mkdir -p"), "{}", finished.stderr);
    assert_eq!(names_in(&place.path("")), [""; 0]);
}

#[test]
fn of_64_processes_that_meet_no_file_all_succeed_with_one() {
    let place = Place::new();
    let directory = directory(&place);
    let url = url(&directory.join("locks.db"));
    let children: Vec<_> = (0..64)
        .map(|number| {
            let job = format!("echo {number} >> runs");
            start(place.run(&format!("job-{number}"), ["sh", "-c", &job]).env("SHEDLOCK_BACKEND", &url))
        })
        .collect();
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    assert_eq!(place.lines("runs").len(), 64);
    assert_eq!(names_in(&directory), ["locks.db", "locks.db-shm", "locks.db-wal"]);
    let rows: i64 = Connection::open(directory.join("locks.db"))
        .unwrap()
        .query_row("SELECT count(*) FROM shedlock", (), |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 64);
}

#[test]
fn a_kill_at_any_instant_damages_nothing_and_blocks_nobody_else() {
    let place = Place::new();
    let mut killed = 0;
    // A new file every ten runs, so that its making is killed too.
    for round in 0..15 {
        let directory = place.path(&format!("round-{round}"));
        fs::create_dir(&directory).unwrap();
        let file = directory.join("locks.db");
        for victim in 0..10 {
            let mut child = start(place.run(&format!("victim-{victim}"), ["true"]).env("SHEDLOCK_BACKEND", url(&file)));
            // Chance is the point here: no sign is waited for.
            std::thread::sleep(Duration::from_micros(u64::from(getrandom::u32().unwrap() % 6_000)));
            child.kill().unwrap();
            killed += usize::from(child.wait().unwrap().code().is_none());
        }
        finish(place.run("bystander", ["true"]).env("SHEDLOCK_BACKEND", url(&file))).is_silent_with(0);
        assert_eq!(names_in(&directory), ["locks.db", "locks.db-shm", "locks.db-wal"]);
        for victim in 0..10 {
            let name = format!("victim-{victim}");
            let finished = finish(place.run(&name, ["-E", "75", "true"]).env("SHEDLOCK_BACKEND", url(&file)));
            assert!(matches!(finished.code(), Some(0 | 75)) && finished.stderr.is_empty(), "{finished:?}");
        }
        let verdict: String =
            Connection::open(&file).unwrap().query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
    }
    assert!(killed > 0, "none of the runs was killed in time");
}

#[test]
fn two_spellings_of_a_path_are_one_file() {
    let place = Place::new();
    let directory = place.path("a b%?");
    fs::create_dir(&directory).unwrap();
    let absolute = format!("{}/a%20b%25%3F/locks.db", place.path("").display());
    let holder = Holder::start(&place, &mut on(&place, &format!("sqlite:{absolute}"), &[]), "true");
    for spelling in [
        format!("sqlite://{absolute}"),
        "sqlite:a b%25%3f/locks.db".to_owned(),
        "SQLITE:./a%20b%%3F/../a%20b%%3F/locks.db".to_owned(),
    ] {
        finish(&mut on(&place, &spelling, &["-E", "75", "true"])).is_silent_with(75);
    }
    std::os::unix::fs::symlink(&directory, place.path("link")).unwrap();
    finish(&mut on(&place, "sqlite:link/locks.db", &["-E", "75", "true"])).is_silent_with(75);
    holder.end().is_silent_with(0);
    assert_eq!(names_in(&directory), ["locks.db", "locks.db-shm", "locks.db-wal"]);
}

#[test]
fn the_job_is_told_an_address_that_holds_in_any_directory() {
    let place = Place::new();
    finish(&mut on(&place, "sqlite:locks.db?table=mine", &["sh", "-c", "echo \"$SHEDLOCK_LOCK_BACKEND\" > address"]))
        .is_silent_with(0);
    assert_eq!(place.read("address"), format!("sqlite:{}?table=mine\n", place.database().display()));
}

// The table

#[test]
fn an_empty_database_gets_the_table() {
    let place = Place::new();
    open(&place)
        .execute_batch("PRAGMA user_version = 7; CREATE TABLE other (x); INSERT INTO other VALUES (1)")
        .unwrap();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    assert!(place.row("a").is_some());
    assert_eq!((find::<i64>(&place, "PRAGMA user_version"), find::<i64>(&place, "SELECT count(*) FROM other")), (7, 1));
    // So does a file without a byte in it.
    fs::write(place.path("empty.db"), "").unwrap();
    finish(&mut on(&place, "sqlite:empty.db", &["true"])).is_silent_with(0);
}

/// The statement of the Java library.
const JAVA: &str = "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL PRIMARY KEY, lock_until TIMESTAMP NOT NULL, \
                    locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL)";

#[test]
fn a_table_with_the_columns_of_the_java_library_gets_two_more() {
    let place = Place::new();
    let application = open(&place);
    application.execute_batch(JAVA).unwrap();
    let taken = "INSERT INTO shedlock VALUES ('java', '2099-01-01T00:00:00.000Z', '2026-01-31T18:00:00.000Z', 'app-server-1'), \
                 ('free', '2026-01-31T18:10:00.000Z', '2026-01-31T18:00:00.000Z', 'app-server-1')";
    application.execute_batch(taken).unwrap();
    let skipped = finish(&mut place.run("java", ["-v", "-E", "75", "true"]));
    assert_eq!(skipped.code(), Some(75));
    assert!(
        skipped.stderr.contains("held by app-server-1 since 2026-01-31T18:00:00.000Z until 2099-01-01T00:00:00.000Z"),
        "{skipped:?}"
    );
    finish(&mut place.run("free", ["--at-least", "30s", "true"])).is_silent_with(0);
    let columns: String =
        find(&place, "SELECT group_concat(name) FROM (SELECT name FROM pragma_table_info('shedlock') ORDER BY cid)");
    assert_eq!(columns, "name,lock_until,locked_at,locked_by,boot_id,boot_until,boot_for");
    // What the application does not know of does not disturb it.
    let statement = "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES ('new', '2099-01-01T00:00:00.000Z', '2026-01-31T18:00:00.000Z', 'x')";
    assert_eq!(application.execute(statement, ()).unwrap(), 1);
    finish(&mut place.run("new", ["-E", "75", "true"])).is_silent_with(75);
    assert_eq!(span(&place, "free"), 30_000);
}

#[test]
fn of_many_processes_that_meet_an_older_table_all_succeed() {
    let place = Place::new();
    open(&place).execute_batch(JAVA).unwrap();
    let children: Vec<_> = (0..16).map(|number| start(&mut place.run(&format!("job-{number}"), ["true"]))).collect();
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    assert_eq!(find::<i64>(&place, "SELECT count(*) FROM shedlock"), 16);
}

/// Notes the token, or that there is none.
const TOKEN: [&str; 3] = ["sh", "-c", "echo ${SHEDLOCK_LOCK_TOKEN-none} >> tokens"];

#[test]
fn a_file_made_for_java_or_by_an_earlier_version_gets_a_history() {
    let place = Place::new();
    open(&place).execute_batch(JAVA).unwrap();
    for _ in 0..2 {
        finish(&mut place.run("a", TOKEN)).is_silent_with(0);
        open(&place).execute_batch("ALTER TABLE shedlock_history RENAME TO earlier").unwrap();
        let sql = "SELECT id || ' ' || outcome FROM earlier";
        assert_eq!(find::<String>(&place, sql), format!("{} success", place.lines("tokens").pop().unwrap()));
        open(&place).execute_batch("DROP TABLE earlier").unwrap();
    }
}

#[test]
fn a_history_that_is_not_ours_is_left_alone_and_the_lock_works() {
    for history in [
        "TABLE shedlock_history (id INTEGER PRIMARY KEY, note TEXT)",
        "TABLE shedlock_history (id INTEGER, name, owner, host, started_at, ended_at, exit_code, outcome, kind NOT NULL, \
         PRIMARY KEY (name, owner))",
        "VIEW shedlock_history AS SELECT 1 AS id, '' AS name",
        "TABLE other (x); CREATE INDEX shedlock_history ON other (x)",
    ] {
        let place = Place::new();
        finish(&mut place.run("b", ["true"])).is_silent_with(0);
        open(&place).execute_batch(&format!("DROP TABLE shedlock_history; CREATE {history}")).unwrap();
        let holder = Holder::start(&place, &mut place.run("a", ["--at-least", "30s"]), "true");
        finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(75);
        holder.end().is_silent_with(0);
        assert_eq!(span(&place, "a"), 30_000, "{history}");
        finish(&mut place.run("b", TOKEN)).is_silent_with(0);
        assert_eq!(place.lines("tokens"), ["none"], "{history}");
        let told = finish(&mut place.run("b", ["-v", "true"])).stderr;
        assert_eq!(told.matches("no history in the table shedlock_history").count(), 1, "{history}: {told}");
        assert!(told.contains("; there is no token\nhint: rename it"), "{told}");
    }
}

#[test]
fn a_file_that_is_busy_is_no_reason_to_go_without_a_token() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    let other = open(&place);
    // In rollback mode, a reader lets a writer begin, and keeps it from committing: the lock can be written, and the table
    // of runs is found missing, and cannot be made.
    other
        .execute_batch("DROP TABLE shedlock_history; PRAGMA journal_mode = DELETE; BEGIN; SELECT * FROM shedlock")
        .unwrap();
    let refused = finish(&mut place.run("a", ["--backend-timeout", "300ms", "touch", "ran"]));
    is_refused(&place, &refused, "the database is locked by another process");
    let child = start(&mut place.run("a", TOKEN));
    wait_until_open(i32::try_from(child.id()).unwrap(), &place.database());
    other.execute_batch("COMMIT").unwrap();
    finish_child(child).is_silent_with(0);
    assert_eq!(place.lines("tokens"), [find::<i64>(&place, "SELECT id FROM shedlock_history").to_string()]);
}

#[test]
fn a_token_is_larger_than_the_last_also_after_the_clock_was_set_back() {
    let place = Place::new();
    finish(&mut place.run("a", TOKEN)).is_silent_with(0);
    let ahead = "UPDATE shedlock_history SET id = id + 3600000";
    open(&place).execute_batch(ahead).unwrap();
    let last: i64 = find(&place, "SELECT id FROM shedlock_history");
    for _ in 0..2 {
        finish(&mut place.run("a", TOKEN)).is_silent_with(0);
    }
    assert_eq!(place.lines("tokens")[1..], [(last + 1).to_string(), (last + 2).to_string()]);
    // Whoever lost the history, but not the time, has larger ones too.
    open(&place).execute_batch("DELETE FROM shedlock_history").unwrap();
    finish(&mut place.run("a", TOKEN)).is_silent_with(0);
    assert!(place.lines("tokens")[3] > place.lines("tokens")[0], "{:?}", place.lines("tokens"));
}

#[test]
fn a_lock_is_granted_only_when_the_new_columns_are_committed() {
    let place = Place::new();
    open(&place).execute_batch(JAVA).unwrap();
    // In rollback mode, a reader lets a writer begin, and keeps it from committing.
    let reader = open(&place);
    reader.execute_batch("BEGIN; SELECT count(*) FROM shedlock").unwrap();
    let finished = finish(&mut place.run("a", ["--backend-timeout", "300ms", "touch", "ran"]));
    is_refused(&place, &finished, "the database is locked by another process");
    let child = start(&mut place.run("a", ["touch", "ran"]));
    wait_until_open(i32::try_from(child.id()).unwrap(), &place.database());
    reader.execute_batch("COMMIT").unwrap();
    finish_child(child).is_silent_with(0);
    assert!(place.row("a").is_some());
}

#[test]
fn another_table_has_locks_of_its_own() {
    let place = Place::new();
    let holder = hold(&place, "a");
    finish(&mut on(&place, &(url(&place.database()) + "?table=mine"), &["--at-least", "30s", "-E", "75", "true"]))
        .is_silent_with(0);
    finish(&mut on(&place, &(url(&place.database()) + "?table=mine"), &["-E", "75", "true"])).is_silent_with(75);
    assert_eq!(find::<String>(&place, "SELECT group_concat(name) FROM mine"), "a");
    holder.end().is_silent_with(0);
    // A name that SQL has a meaning for is as good as any.
    finish(&mut on(&place, &(url(&place.database()) + "?table=select"), &["true"])).is_silent_with(0);
    finish(&mut on(&place, "sqlite:fresh.db?table=mine", &["true"])).is_silent_with(0);
    let tables: String = Connection::open(place.path("fresh.db"))
        .unwrap()
        .query_row("SELECT group_concat(name) FROM sqlite_master WHERE type = 'table'", (), |row| row.get(0))
        .unwrap();
    assert_eq!(tables, "mine,mine_history");
}

#[test]
fn a_row_has_the_form_that_the_java_library_reads() {
    let place = Place::new();
    let holder = hold(&place, "a");
    let row = place.row("a").unwrap();
    for time in [&row.locked_at, &row.lock_until] {
        let form: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(form, "0000-00-00T00:00:00.000Z");
    }
    let parts: Vec<&str> = row.locked_by.split(':').collect();
    assert_eq!((parts.len(), parts[1]), (3, holder.pid().to_string().as_str()), "{}", row.locked_by);
    assert!(row.boot_id.is_some_and(|id| fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim() == id));
    holder.end().is_silent_with(0);
    assert_eq!(find::<i64>(&place, "SELECT boot_until FROM shedlock"), 0);
}

#[test]
fn no_row_is_ever_deleted() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    open(&place)
        .execute_batch("CREATE TRIGGER keep BEFORE DELETE ON shedlock BEGIN SELECT RAISE(ABORT, 'deleted'); END")
        .unwrap();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    finish(&mut place.run("a", ["false"])).is_silent_with(1);
    finish(&mut place.run("a", ["--on-failure", "release", "--at-least", "1m", "false"])).is_silent_with(1);
    finish(&mut place.run("a", ["./missing"])).complains(127, "./missing");
    let expired = finish(&mut bare(&place, ["--name", "a", "--at-most", "1s", "sleep", "1000"]));
    assert_eq!(expired.code(), Some(124));
    let row = place.row("a").unwrap();
    assert!(!row.held && row.lock_until >= row.locked_at, "{row:?}");
}

#[test]
fn a_lock_that_stays_held_bears_its_owner_marked_as_ended() {
    let place = Place::new();
    let holder = Holder::start(&place, &mut place.run("a", ["--at-least", "30s"]), "true");
    let owner = place.row("a").unwrap().locked_by;
    holder.end().is_silent_with(0);
    assert_eq!(place.row("a").unwrap().locked_by, format!("{owner}:ended"));
}

// Who may touch a row

#[test]
fn a_late_release_does_not_touch_the_lock_of_the_next_owner() {
    let place = Place::new();
    let holder = Holder::start(&place, &mut place.run("a", ["--at-least", "1m"]), "exit 7");
    edit(
        &place,
        "UPDATE shedlock SET locked_by = 'thief', lock_until = '2099-01-01T00:00:00.000Z', boot_id = NULL, boot_until = NULL",
    );
    let stolen = place.row("a").unwrap();
    holder.end().complains(7, "warning: the lock was no longer ours when the job ended");
    assert_eq!(place.row("a").unwrap(), stolen);
}

#[test]
fn a_late_release_does_not_touch_a_running_thief_either() {
    let place = Place::new();
    let first = Holder::start(&place, &mut place.run::<_, &str>("a", []), "exit 7");
    edit(&place, "UPDATE shedlock SET boot_until = 0");
    let second = hold(&place, "a");
    let stolen = place.row("a").unwrap();
    first.end().complains(7, "warning: the lock was no longer ours when the job ended");
    assert_eq!(place.row("a").unwrap(), stolen);
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(75);
    second.end().is_silent_with(0);
}

#[test]
fn a_lock_that_has_expired_is_not_released_or_renewed_although_it_bears_our_name() {
    let place = Place::new();
    let holder = Holder::start(&place, &mut place.run("a", ["--at-least", "1m"]), "exit 7");
    edit(&place, "UPDATE shedlock SET boot_until = 0");
    let expired = place.row("a").unwrap();
    holder.end().complains(7, "warning: the lock was no longer ours when the job ended");
    assert_eq!(place.row("a").unwrap(), expired);

    let mut command = bare(&place, ["--name", "b", "--at-most", "2s", "--on-expiry", "extend"]);
    let holder = Holder::start(&place, &mut command, "true");
    edit(&place, "UPDATE shedlock SET boot_until = 0 WHERE name = 'b'");
    let expired = place.row("b").unwrap();
    holder.finish().complains(123, "the lock was lost");
    assert_eq!(place.row("b").unwrap(), expired);
}

#[test]
fn without_proc_the_file_is_made_as_well() {
    let place = Place::new();
    directory(&place);
    let bare = on(&place, &url(&place.path("db/locks.db")), &["touch", "ran"]);
    let hide = "mount -t tmpfs none /proc && exec \"$@\"";
    finish(&mut by_root(&["unshare", "--mount", "sh", "-c", hide, "sh"], &bare)).is_silent_with(0);
    assert!(place.path("ran").exists());
    assert!(names_in(&place.path("db")).iter().all(|name| !name.ends_with(".new")));
}

// Clocks and reboots

/// Leaves a lock whose holder was killed.
fn abandon(place: &Place, name: &str) {
    let holder = hold(place, name);
    kill(holder.pid(), "KILL");
    let job = holder.job();
    holder.finish();
    wait_until("the job to die with shedlock", || (!crate::support::is_alive(job)).then_some(()));
}

#[test]
fn a_reboot_frees_the_lock_of_a_running_job_at_once() {
    let place = Place::new();
    abandon(&place, "a");
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(75);
    edit(&place, "UPDATE shedlock SET boot_id = '00000000-0000-4000-8000-000000000000'");
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(75);
    set_clock(&place, "2099-01-01T00:00:00.000Z", "2026-01-31T18:00:00.000Z");
    assert!(place.row("a").unwrap().held);
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);
}

#[test]
fn a_run_has_two_commits_and_a_skip_none() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    // Who reads keeps the log from being folded.
    let reader = open(&place);
    reader.execute_batch("BEGIN; SELECT count(*) FROM shedlock").unwrap();
    // A frame of the log is 24 bytes and a page; its second number is not 0 in the last one of a commit.
    let commits = || {
        let log = fs::read(place.path("locks.db-wal")).unwrap();
        log[32..].chunks(24 + 1024).filter(|frame| frame[4..8] != [0; 4]).count()
    };
    let before = commits();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    assert_eq!(commits(), before + 2);
    let holder = hold(&place, "a");
    assert_eq!(commits(), before + 3);
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(75);
    assert_eq!(commits(), before + 3);
    holder.end().is_silent_with(0);
}

#[test]
fn the_write_ahead_log_stays_short() {
    let place = Place::new();
    let longest = (0..60)
        .map(|_| {
            finish(&mut place.run("a", ["true"])).is_silent_with(0);
            fs::metadata(place.path("locks.db-wal")).unwrap().len()
        })
        .max();
    // Some 15 commits of two pages each; 60 runs commit 120 times.
    assert!(longest.unwrap() < 40 * 1024, "{longest:?}");
}

/// Makes the log longer than a run leaves it, as leases do that are renewed for long. The last connection that closes would
/// fold the log, so this one stays open.
fn grow_log(place: &Place) -> Connection {
    let writer = open(place);
    writer.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    while log_size(place) < 64 * 1024 {
        // A row that stays as it is would not be written.
        let sql = "UPDATE shedlock SET locked_by = hex(randomblob(9)) || ':ended'";
        assert_eq!(writer.execute(sql, ()).unwrap(), 1);
    }
    writer
}

fn log_size(place: &Place) -> u64 {
    fs::metadata(place.path("locks.db-wal")).unwrap().len()
}

/// Has each fsync of a run of the lock `a` made only after so many milliseconds; `trace` shows those that have begun.
fn slow_to_sync(place: &Place, delay_ms: u64, arguments: &[&str]) -> Command {
    let inject = format!("inject=fsync,fdatasync:delay_enter={}", delay_ms * 1000);
    let tracer = ["strace", "-f", "-qq", "-o", "trace", "-e", "trace=fsync,fdatasync", "-e", &inject];
    under(&tracer, &place.run("a", arguments.iter().copied()))
}

/// Asserts that the run ends with this code. That it ends before its fsync is a remark of strace's own.
#[track_caller]
fn ends_with(code: i32, finished: &Finished) {
    let ours: Vec<&str> = finished.stderr.lines().filter(|line| !line.starts_with("strace: ")).collect();
    assert_eq!((finished.code(), ours), (Some(code), vec![]));
}

/// A job that runs until the file `runs` is gone.
const WHILE_RUNS: &str = "touch runs; while [ -e runs ]; do sleep 0.01; done; exit 7";

#[test]
fn a_long_write_ahead_log_is_emptied_while_a_job_runs() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    let _writer = grow_log(&place);
    let holder = hold(&place, "a");
    wait_until("the log to be short", || (log_size(&place) < 4 * 1024).then_some(()));
    holder.end().is_silent_with(0);
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);
}

#[test]
fn a_run_waits_for_the_disk_only_if_it_folds_the_log() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    let syncs: Vec<usize> = (0..30)
        .map(|_| {
            finish(&mut slow_to_sync(&place, 0, &["true"])).is_silent_with(0);
            place.read("trace").matches("sync(").count()
        })
        .collect();
    // The log, its directory, the file, and the next log. The next run finds nothing to sync.
    assert!(syncs.contains(&4) && syncs.iter().all(|count| [0, 4].contains(count)), "{syncs:?}");
    assert!(!syncs.windows(2).any(|pair| pair == [4, 4]), "{syncs:?}");
}

#[test]
fn a_lease_shorter_than_a_sync_of_the_disk_is_renewed() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    let _writer = grow_log(&place);
    let run = start(&mut slow_to_sync(&place, 3_000, &["--lease", "2s", "sh", "-c", WHILE_RUNS]));
    wait_until("the job", || place.path("runs").exists().then_some(()));
    wait_until("three leases", || (span(&place, "a") > 6_000).then_some(()));
    fs::remove_file(place.path("runs")).unwrap();
    ends_with(7, &finish_child(run));
    assert!(place.read("trace").contains("DELAYED"), "the log was being folded");
}

#[test]
fn a_lock_is_said_to_be_given_back_however_slow_the_disk() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    let _writer = grow_log(&place);
    ends_with(0, &finish(&mut slow_to_sync(&place, 6_000, &["true"])));
    assert!(place.read("trace").contains("sync("), "the log was to be folded");
    assert!(!place.row("a").unwrap().held);
}

#[test]
fn a_disk_that_is_slow_to_sync_keeps_no_other_run_waiting() {
    for is_alone in [false, true] {
        let place = Place::new();
        finish(&mut place.run("a", ["true"])).is_silent_with(0);
        let _writer = grow_log(&place);
        let slow = start(&mut slow_to_sync(&place, 2_000, &["sh", "-c", WHILE_RUNS]));
        let other = || finish(&mut place.run("b", ["--backend-timeout", "1s", "true"])).is_silent_with(0);
        // The log, its directory, and the file; if nobody has written meanwhile, the log is emptied, and the next one synced.
        let synced = || place.read("trace").matches("sync(").count();
        wait_until("a sync", || (place.path("trace").exists() && synced() > 0).then_some(()));
        if is_alone {
            wait_until("the log to be emptied", || (log_size(&place) < 4 * 1024).then_some(()));
            other();
        } else {
            wait_until("three syncs", || {
                other();
                (synced() > 2).then_some(())
            });
        }
        fs::remove_file(place.path("runs")).unwrap();
        ends_with(7, &finish_child(slow));
    }
}

/// Makes the row what it would be if the clock had been set after the acquisition: all of it is another time, and whole.
fn set_clock(place: &Place, lock_until: &str, locked_at: &str) {
    let row = format!(
        "boot_for = CASE boot_for WHEN locked_by || ' ' || lock_until THEN locked_by || ' ' || '{lock_until}' END, \
         lock_until = '{lock_until}', locked_at = '{locked_at}'"
    );
    edit(place, &format!("UPDATE shedlock SET {row}"));
}

#[test]
fn a_row_whose_times_have_another_form_is_an_error_and_not_a_free_lock() {
    for other in ["4102444800000", "'2099-01-01 00:00:00.000'", "x'00'", "'soon'"] {
        let place = Place::new();
        finish(&mut place.run("a", ["true"])).is_silent_with(0);
        edit(&place, &format!("UPDATE shedlock SET lock_until = {other}"));
        finish(&mut place.run("a", ["touch", "ran"])).complains(125, "not of the form 2026-01-31T18:00:00.000Z");
        assert!(!place.path("ran").exists(), "{other}");
    }
}

/// What opens a file: musl asks for the older call where there is one.
const OPENING: &str = "?open,openat";

#[test]
fn a_file_that_another_process_makes_while_we_open_it_is_used() {
    // The tracer holds shedlock for a moment after each try to open the file; in the first of these another run makes it.
    let was_late = (0..20).any(|_| {
        let place = Place::new();
        let run = place.run("a", ["touch", "ran"]);
        let mut tracer = Command::new("strace");
        tracer.args(["-f", "-o", "trace", "-e", &format!("trace={OPENING}")]);
        tracer.args(["-e", &format!("inject={OPENING}:delay_exit=300000"), "-P"]).arg(place.database());
        tracer.arg(run.get_program()).args(run.get_args()).current_dir(place.path(""));
        let variables = run.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let slow = start(tracer.envs(variables));
        wait_until("shedlock to be traced", || place.path("trace").exists().then_some(()));
        // There is no sign of the moment that counts. The trace tells afterwards whether this met it.
        std::thread::sleep(Duration::from_millis(100));
        finish(&mut place.run("b", ["true"])).is_silent_with(0);
        finish_child(slow).is_silent_with(0);
        assert!(place.path("ran").exists());
        place.read("trace").contains("ENOENT")
    });
    assert!(was_late, "the file was there before shedlock looked, each time");
}

#[test]
fn a_symbolic_link_is_followed_to_the_file_and_its_log() {
    let place = Place::new();
    fs::create_dir(place.path("real")).unwrap();
    std::os::unix::fs::symlink("real/locks.db", place.path("link.db")).unwrap();
    let url = format!("sqlite:{}", place.path("link.db").display());
    for _ in 0..30 {
        finish(place.run("a", ["true"]).env("SHEDLOCK_BACKEND", &url)).is_silent_with(0);
    }
    assert!(fs::metadata(place.path("real/locks.db-wal")).unwrap().len() < 40 * 1024);
    assert!(!place.path("link.db-wal").exists());
}

#[test]
fn a_row_that_a_java_application_took_over_is_judged_by_the_wall_clock() {
    let place = Place::new();
    abandon(&place, "a");
    // As its statements do it, once our lock has expired: the columns that it does not know stay as they are.
    edit(
        &place,
        "UPDATE shedlock SET lock_until = '2099-01-01T00:00:00.000Z', locked_at = '2026-01-31T18:00:00.000Z', locked_by = 'app'",
    );
    edit(&place, "UPDATE shedlock SET boot_until = 0");
    finish(&mut place.run("a", ["-E", "75", "touch", "ran"])).is_silent_with(75);
    assert!(!place.path("ran").exists());
    // And its release, or a person's.
    edit(&place, "UPDATE shedlock SET lock_until = '2026-01-31T18:01:00.000Z', boot_until = 9223372036854775807");
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);
}

#[test]
fn a_clock_that_was_set_forward_does_not_free_the_lock_of_a_running_job() {
    let place = Place::new();
    let holder = hold(&place, "a");
    set_clock(&place, "2001-01-01T00:01:00.000Z", "2001-01-01T00:00:00.000Z");
    finish(&mut place.run("a", ["-E", "75", "touch", "ran"])).is_silent_with(75);
    finish(&mut place.run("a", ["-E", "75", "-w", "100ms", "touch", "ran"])).is_silent_with(75);
    holder.end().is_silent_with(0);
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);
    assert!(!place.path("ran").exists());
}

#[test]
fn a_clock_that_was_set_back_does_not_prolong_the_lock_of_a_dead_job() {
    let place = Place::new();
    abandon(&place, "a");
    set_clock(&place, "2099-01-01T00:00:00.000Z", "2098-12-31T23:59:00.000Z");
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(75);
    edit(&place, "UPDATE shedlock SET boot_until = 0");
    assert!(place.row("a").unwrap().held);
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);
}

#[test]
fn in_a_container_with_a_boot_clock_of_its_own_the_lock_is_held_as_long() {
    let place = Place::new();
    let holder = hold(&place, "a");
    for offset in ["86400", "-1"] {
        let elsewhere = ["unshare", "--time", "--boottime", offset, "--fork"];
        let finished = finish(&mut by_root(&elsewhere, &place.run("a", ["-E", "75", "touch", "ran"])));
        finished.is_silent_with(75);
    }
    assert!(!place.path("ran").exists());
    holder.end().is_silent_with(0);
}

#[test]
fn a_clock_that_was_set_back_while_the_job_ran_does_not_prolong_its_lock() {
    let place = Place::new();
    let holder = hold(&place, "a");
    set_clock(&place, "2099-01-01T00:01:00.000Z", "2099-01-01T00:00:00.000Z");
    holder.end().is_silent_with(0);
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);

    let holder = Holder::start(&place, &mut place.run("a", ["--at-least", "30s"]), "true");
    set_clock(&place, "2099-01-01T00:01:00.000Z", "2099-01-01T00:00:00.000Z");
    holder.end().is_silent_with(0);
    let left = find::<i64>(&place, "SELECT unixepoch(lock_until) - unixepoch('now') FROM shedlock");
    assert!((0..=30).contains(&left), "{left}");
}

#[test]
fn a_clock_that_is_set_back_after_the_job_does_not_take_its_lock() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    set_clock(&place, "2099-01-01T00:00:01.000Z", "2099-01-01T00:00:00.000Z");
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);
    set_clock(&place, "2099-01-01T00:00:01.000Z", "2099-01-01T00:00:00.000Z");
    edit(&place, "UPDATE shedlock SET boot_id = '00000000-0000-4000-8000-000000000000'");
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);
}

#[test]
fn a_kept_lock_that_was_taken_by_a_clock_a_year_ahead_is_free_once_the_clock_is_right() {
    let place = Place::new();
    finish(&mut place.run("a", ["--every", "1d", "true"])).is_silent_with(0);
    let ahead = |by: &str| {
        let times = format!(
            "locked_at = strftime('%Y-%m-%dT%H:%M:%fZ', locked_at, '{by}'), \
             lock_until = strftime('%Y-%m-%dT%H:%M:%fZ', lock_until, '{by}')"
        );
        edit(&place, &format!("UPDATE shedlock SET {times}"));
    };
    // A clock that is corrected by a little is no reason to run again.
    ahead("+30 seconds");
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(75);
    ahead("+1 year");
    let status = finish(&mut place.shedlock(["status", "a"]));
    assert!(status.stdout.contains("free"), "{status:?}");
    finish(&mut place.run("a", ["-E", "75", "--every", "1d", "true"])).is_silent_with(0);
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(75);
    // A job that runs goes by the boot clock, and a pause is what a person has asked for.
    finish(&mut place.run("b", ["true"])).is_silent_with(0);
    let holder = hold(&place, "b");
    edit(&place, "UPDATE shedlock SET locked_at = '2098-12-31T23:59:00.000Z' WHERE name = 'b'");
    finish(&mut place.run("b", ["-E", "75", "true"])).is_silent_with(75);
    holder.end().is_silent_with(0);
    assert_eq!(finish(&mut place.shedlock(["pause", "b"])).code(), Some(0));
    edit(
        &place,
        "UPDATE shedlock SET locked_at = '2098-12-31T23:59:00.000Z', lock_until = '2099-01-01T00:00:00.000Z' WHERE name = 'b'",
    );
    finish(&mut place.run("b", ["-E", "75", "true"])).is_silent_with(75);
}

#[test]
fn at_least_and_every_survive_a_reboot_and_go_by_the_wall_clock() {
    let place = Place::new();
    finish(&mut place.run("a", ["--at-least", "1m", "true"])).is_silent_with(0);
    finish(&mut place.run("b", ["--every", "1h", "true"])).is_silent_with(0);
    for name in ["a", "b"] {
        let row = place.row(name).unwrap();
        assert!(row.held && row.boot_id.is_none(), "{row:?}");
    }
    edit(&place, "UPDATE shedlock SET lock_until = locked_at WHERE name = 'a'");
    finish(&mut place.run("a", ["-E", "75", "true"])).is_silent_with(0);
    finish(&mut place.run("b", ["-E", "75", "true"])).is_silent_with(75);
}

// What is wrong with the file

/// Asserts that the run fails with this complaint, and the job does not run.
#[track_caller]
fn is_refused(place: &Place, finished: &Finished, complaint: &str) {
    finished.complains(125, complaint);
    assert!(!place.path("ran").exists());
}

#[test]
fn what_is_no_database_is_refused_and_left_as_it_is() {
    let place = Place::new();
    let text = "this is no database, but longer than the header of one would be\n".repeat(20);
    fs::write(place.path("text.db"), &text).unwrap();
    let finished = finish(&mut on(&place, "sqlite:text.db", &["touch", "ran"]));
    is_refused(&place, &finished, "text.db: the file is damaged or is not a SQLite database");
    assert_eq!(place.read("text.db"), text);
    fs::create_dir(place.path("directory")).unwrap();
    let finished = finish(&mut on(&place, "sqlite:directory", &["touch", "ran"]));
    is_refused(&place, &finished, "directory: is a directory");
    let finished = finish(&mut on(&place, "sqlite:text.db/locks.db", &["touch", "ran"]));
    is_refused(&place, &finished, "text.db/locks.db: ");
    std::os::unix::fs::symlink("nowhere/locks.db", place.path("dangling")).unwrap();
    let finished = finish(&mut on(&place, "sqlite:dangling", &["touch", "ran"]));
    is_refused(&place, &finished, "nowhere does not exist");
}

#[test]
fn a_device_a_fifo_and_a_socket_are_refused_and_nothing_is_left_beside_them() {
    let place = Place::new();
    let directory = directory(&place);
    nix::unistd::mkfifo(&directory.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(directory.join("socket")).unwrap();
    std::os::unix::fs::symlink("/dev/null", directory.join("link")).unwrap();
    for (path, complaint) in [
        ("/dev/null", "/dev/null: is a device, not a file"),
        ("db/link", "/dev/null: is a device, not a file"),
        ("db/fifo", "db/fifo: is a FIFO, not a file"),
        ("db/socket", "db/socket: is a socket, not a file"),
    ] {
        let finished = finish(&mut on(&place, &format!("sqlite:{path}"), &["touch", "ran"]));
        is_refused(&place, &finished, complaint);
        assert!(finished.stderr.contains("hint: name a file"), "{finished:?}");
    }
    assert_eq!(names_in(&directory), ["fifo", "link", "socket"]);
    for end in ["-journal", "-wal", "-shm"] {
        assert!(!Path::new(&format!("/dev/null{end}")).exists(), "{end}");
    }
}

/// exFAT, in user space: it knows no link(2), no file without a name, and no rename that replaces nothing.
#[test]
fn on_a_file_system_without_hard_links_many_make_one_file() {
    for (program, package) in [("mkfs.exfat", "exfatprogs"), ("mount.exfat-fuse", "exfat-fuse"), ("losetup", "mount")] {
        let found = ["/sbin", "/usr/sbin"].iter().any(|directory| Path::new(directory).join(program).exists());
        assert!(found, "{program} is missing; install {package}");
    }
    let place = Place::new();
    directory(&place);
    let script = "PATH=$PATH:/usr/sbin:/sbin; truncate -s 8M disk; mkfs.exfat disk > log\n\
                  loop=$(losetup -f --show disk); trap 'umount --lazy db; losetup -d \"$loop\"' EXIT\n\
                  mount.exfat-fuse \"$loop\" db >> log 2>&1; touch db/file; ! ln db/file db/link 2>> log\n\
                  jobs=; for number in 1 2 3 4 5 6 7 8; do \"$@\" & jobs=\"$jobs $!\"; done\n\
                  code=0; for job in $jobs; do wait \"$job\" || code=$?; done; ls db > left; exit $code";
    let file = url(&place.path("db/locks.db"));
    let inner = on(&place, &file, &["-w", "30s", "sh", "-c", "echo ran >> runs"]);
    finish(&mut among_mounts(script, &inner)).is_silent_with(0);
    assert!(place.read("log").contains("failed to create hard link"), "{}", place.read("log"));
    assert_eq!(place.lines("runs").len(), 8);
    assert_eq!(place.lines("left"), ["file", "locks.db", "locks.db-shm", "locks.db-wal"]);
}

#[test]
fn a_damaged_database_is_refused() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    open(&place).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let file = fs::OpenOptions::new().write(true).open(place.database()).unwrap();
    let length = file.metadata().unwrap().len();
    file.write_all_at(&vec![0xff; usize::try_from(length - 100).unwrap()], 100).unwrap();
    let finished = finish(&mut place.run("a", ["touch", "ran"]));
    is_refused(&place, &finished, "locks.db: the file is damaged or is not a SQLite database");
    file.set_len(1024).unwrap();
    let finished = finish(&mut place.run("a", ["touch", "ran"]));
    is_refused(&place, &finished, "locks.db: the file is damaged or is not a SQLite database");
}

#[test]
fn a_database_that_is_damaged_while_the_job_runs_does_not_change_its_code() {
    let place = Place::new();
    let holder = Holder::start(&place, &mut place.run::<_, &str>("a", []), "exit 7");
    wait_until_closed(holder.pid(), &place.database());
    for name in ["locks.db-wal", "locks.db-shm"] {
        fs::remove_file(place.path(name)).unwrap();
    }
    fs::write(place.database(), "this is no database, but longer than the header of one would be\n".repeat(20))
        .unwrap();
    let finished = holder.end();
    finished.complains(7, "warning: ");
    assert!(
        finished.stderr.contains("is damaged or is not a SQLite database; the lock frees when its time is up"),
        "{finished:?}"
    );
}

/// Root's process, looking at another user's locks, makes a file beside the database and then gives it to its owner.
#[test]
fn a_file_that_is_another_users_for_a_moment_is_tried_again() {
    let place = Place::new();
    finish(&mut place.run("a", ["true"])).is_silent_with(0);
    let index = place.path("locks.db-shm");
    let (trace, inject) = (format!("trace={OPENING}"), format!("inject={OPENING}:error=EACCES:when=1..2"));
    let tracer = ["strace", "-f", "-qq", "-o", "trace", "-P", index.to_str().unwrap()];
    let refused = [&tracer[..], &["-e", &trace, "-e", &inject]].concat();
    finish(&mut under(&refused, &place.run("a", ["touch", "ran"]))).is_silent_with(0);
    assert!(place.path("ran").exists());
    assert!(place.read("trace").contains("EACCES"), "{}", place.read("trace"));
}

#[test]
fn while_the_job_runs_the_file_is_not_kept_open() {
    let place = Place::new();
    let child = start(&mut place.run("a", ["sh", "-c", "while [ ! -e end ]; do sleep 0.01; done"]));
    let pid = i32::try_from(child.id()).unwrap();
    wait_until_open(pid, &place.database());
    wait_until_closed(pid, &place.database());
    assert!(place.row("a").unwrap().held);
    fs::write(place.path("end"), "").unwrap();
    finish_child(child).is_silent_with(0);
    assert!(!place.row("a").unwrap().held);
}

#[test]
fn a_file_of_another_user_is_refused_with_what_to_do() {
    let place = Place::new();
    let home = open_to_nobody(&place, "home");
    let file = home.join("locks.db");
    finish(&mut on(&place, &url(&file), &["true"])).is_silent_with(0);
    for name in names_in(&home) {
        change("chown", "0:0", &home.join(name));
    }
    let mut inner = on(&place, &url(&file), &["touch", "ran"]);
    inner.current_dir("/");
    for mode in ["0444", "0600", "0000"] {
        change("chmod", mode, &file);
        let finished = finish(&mut by_nobody(&inner));
        is_refused(&place, &finished, "locks.db: no permission to read and write it; it belongs to user root");
        assert!(finished.stderr.contains("mode=0660"), "{}", finished.stderr);
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let place = Place::new();
    let home = open_to_nobody(&place, "home");
    change("chown", "0:0", &home);
    let file = home.join("locks.db");
    let mut inner = on(&place, &url(&file), &["touch", "ran"]);
    inner.current_dir("/");
    let finished = finish(&mut by_nobody(&inner));
    is_refused(&place, &finished, "locks.db: no permission to create it in ");
    Connection::open(&file).unwrap().execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE x (y)").unwrap();
    change("chmod", "0666", &file);
    let finished = finish(&mut by_nobody(&inner));
    is_refused(&place, &finished, "locks.db: no permission to write to ");
    change("chmod", "0700", &home);
    let finished = finish(&mut by_nobody(&inner));
    is_refused(&place, &finished, "locks.db: no permission to enter its directory");
}

#[test]
fn a_read_only_mount_is_refused() {
    let place = Place::new();
    let directory = directory(&place);
    let setup = format!("mount --bind {0} {0}; mount -o remount,bind,ro {0}", directory.display());
    let inner = on(&place, &url(&directory.join("locks.db")), &["touch", "ran"]);
    let finished = finish(&mut among_mounts(&setup, &inner));
    is_refused(&place, &finished, "locks.db: it cannot be created: read-only file system");
    finish(&mut on(&place, &url(&directory.join("locks.db")), &["true"])).is_silent_with(0);
    let finished = finish(&mut among_mounts(&setup, &inner));
    is_refused(&place, &finished, "locks.db: its file system is mounted read-only");
    for name in ["locks.db-shm", "locks.db-wal"] {
        fs::remove_file(directory.join(name)).unwrap();
    }
    let finished = finish(&mut among_mounts(&setup, &inner));
    is_refused(&place, &finished, "locks.db: its file system is mounted read-only");
}

/// Mounts a disk of a megabyte at `db`, with a database in it whose every commit needs a block more; `$FILL` fills it.
fn small_disk(place: &Place) -> String {
    let directory = directory(place);
    let seed = Connection::open(place.path("seed.db")).unwrap();
    seed.execute_batch("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; CREATE TABLE x (y)").unwrap();
    drop(seed);
    format!(
        "mount -t tmpfs -o size=1m,mode=0700 none {directory}; cp {seed} {directory}/locks.db; \
         fill() {{ ! dd if=/dev/zero of={directory}/fill bs=4k 2> /dev/null; }}",
        directory = directory.display(),
        seed = place.path("seed.db").display(),
    )
}

#[test]
fn a_full_disk_at_the_take_is_refused() {
    let place = Place::new();
    let disk = small_disk(&place);
    let inner = on(&place, &url(&place.path("db/locks.db")), &["--backend-timeout", "200ms", "touch", "ran"]);
    // With a database that nobody has open, and with one whose log and index are there already.
    for setup in [format!("{disk}; fill"), format!("{disk}; \"$@\"; rm ran; fill")] {
        let finished = finish(&mut among_mounts(&setup, &inner));
        finished.complains(125, "locks.db: ");
        assert!(finished.stderr.contains("full") || finished.stderr.contains("no space left"), "{}", finished.stderr);
        assert!(!place.path("ran").exists());
    }
    // Without any; nothing half made is left.
    let list = format!("ls -A {0} > left", place.path("db").display());
    let setup = format!("{disk}; rm {}/locks.db; fill; trap '{list}' EXIT; \"$@\"; exit", place.path("db").display());
    let finished = finish(&mut among_mounts(&setup, &inner));
    is_refused(&place, &finished, "locks.db: it cannot be created: no space left on device");
    assert_eq!(place.lines("left"), ["fill"]);
}

#[test]
fn a_full_disk_at_the_release_is_a_warning_and_the_jobs_code_is_kept() {
    let place = Place::new();
    let disk = small_disk(&place);
    let job = format!("dd if=/dev/zero of={}/fill bs=4k 2> /dev/null; exit 7", place.path("db").display());
    let inner = on(&place, &url(&place.path("db/locks.db")), &["--backend-timeout", "200ms", "sh", "-c", &job]);
    let finished = finish(&mut among_mounts(&disk, &inner));
    finished.complains(7, "warning: ");
    assert!(
        finished.stderr.contains("no space left on its disk; the lock frees when its time is up"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_full_disk_at_the_release_that_gets_room_a_second_later_ends_with_a_free_lock() {
    let place = Place::new();
    let disk = small_disk(&place);
    let fill = format!("{}/fill", place.path("db").display());
    let job = format!("dd if=/dev/zero of={fill} bs=4k 2> /dev/null; touch full; exit 7");
    let inner = on(&place, &url(&place.path("db/locks.db")), &["sh", "-c", &job]);
    let room = format!("(until [ -e full ]; do sleep 0.01; done; sleep 1; rm {fill}) & room=$!");
    let setup = format!("{disk}; {room}; code=0; \"$@\" || code=$?; wait $room; \"$1\" status a > status; exit $code");
    finish(&mut among_mounts(&setup, &inner)).is_silent_with(7);
    assert!(place.read("status").contains("free"), "{}", place.read("status"));
}

#[test]
fn an_input_output_error_at_the_release_is_tried_again() {
    let place = Place::new();
    let job = fs::canonicalize("/bin/true").unwrap();
    let job = job.to_str().unwrap();
    for _ in 0..2 {
        finish(&mut place.run("a", [job])).is_silent_with(0);
    }
    let log = place.path("locks.db-wal");
    let traced = |inject: &[&str]| {
        let tracer = ["strace", "-f", "-qq", "-o", "trace", "-P", log.to_str().unwrap(), "-P", job];
        let words = [&tracer[..], &["-e", "trace=pwrite64,execve"], inject].concat();
        finish(&mut under(&words, &place.run("a", [job]))).is_silent_with(0);
        place.lines("trace")
    };
    let taking = traced(&[]).iter().take_while(|line| !line.contains("execve")).count();
    let trace = traced(&["-e", &format!("inject=pwrite64:error=EIO:when={}..{}", taking + 1, taking + 3)]);
    assert_eq!(trace.iter().filter(|line| line.contains("EIO")).count(), 3, "{trace:?}");
    assert!(!place.row("a").unwrap().held);
}

#[test]
fn a_network_file_system_is_refused() {
    for program in ["/usr/bin/sshfs", "/usr/lib/openssh/sftp-server"] {
        assert!(Path::new(program).exists(), "{program} is missing; install sshfs and openssh-sftp-server");
    }
    let place = Place::new();
    for name in ["far", "near"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    finish(&mut on(&place, "sqlite:far/old.db", &["true"])).is_silent_with(0);
    // Both ends are here, and only the pipe between them stands for the network.
    let script = "mkfifo pipe\n\
                  /usr/lib/openssh/sftp-server < pipe | sshfs -f -o passive :\"$PWD/far\" near > pipe 2> sshfs.log &\n\
                  tries=0\n\
                  until mountpoint -q near; do tries=$((tries + 1)); [ $tries -lt 1000 ]; sleep 0.01; done\n\
                  code=0; \"$@\" || code=$?\n\
                  umount near; wait; exit $code";
    for file in ["near/new.db", "near/old.db"] {
        let inner = on(&place, &format!("sqlite:{file}"), &["touch", "ran"]);
        let finished = finish(&mut among_mounts(script, &inner));
        is_refused(&place, &finished, "SQLite is refused on the network file system fuse.sshfs");
        fs::remove_file(place.path("pipe")).unwrap();
    }
    assert!(!place.path("far/new.db").exists());
}
