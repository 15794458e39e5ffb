//! The memory that `status` and `history` need for very many locks and runs. Without it a host with little memory could not
//! show what a backend for many hosts has.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::support::Place;

/// Makes a store with this many locks and runs.
fn fill(place: &Place, locks: u32, runs_of_each: u32) {
    assert!(place.run("first", ["true"]).status().unwrap().success());
    let sql = format!(
        "BEGIN; DELETE FROM shedlock; DELETE FROM shedlock_history;
        CREATE TEMP TABLE numbers AS WITH RECURSIVE numbers (n) AS
            (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {}) SELECT n FROM numbers;
        INSERT INTO shedlock (name, lock_until, locked_at, locked_by) SELECT
            printf('job-%06d', n), strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('%+d minutes', n % 2 * 120 - 60)),
            strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-61 minutes'), printf('web%d.example:%d:%016x', n % 20, n + 1, n)
            FROM numbers WHERE n < {locks};
        INSERT INTO shedlock_history (id, name, owner, host, started_at, ended_at, exit_code, outcome) SELECT
            n, printf('job-%06d', n / {runs_of_each}), printf('web%d.example:%d:%016x', n % 20, n + 1, n),
            printf('web%d.example', n % 20), strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%d seconds', n)),
            strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), n % 3, iif(n % 3, 'failure', 'success')
            FROM numbers WHERE n < {locks} * {runs_of_each};
        COMMIT",
        locks * runs_of_each.max(1)
    );
    rusqlite::Connection::open(place.database()).unwrap().execute_batch(&sql).unwrap();
}

/// Returns the most memory that a command has had, in KiB, and the number of lines that it has printed.
#[track_caller]
fn peak(place: &Place, words: &[&str]) -> (u64, usize) {
    let mut child = place.shedlock(words).stdout(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let (mut stdout, mut buffer) = (child.stdout.take().unwrap(), vec![0; 1 << 16]);
    let (mut peak, mut lines) = (0, 0);
    // As long as there is more to print than fits into the pipe, the process is there.
    while let length @ 1.. = stdout.read(&mut buffer).unwrap() {
        lines += buffer[..length].iter().filter(|byte| **byte == b'\n').count();
        let status = fs::read_to_string(&status).unwrap();
        let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        peak = value.map_or(peak, |value| value.parse().unwrap());
    }
    assert!(child.wait().unwrap().success());
    assert!(peak > 0, "it ended at once");
    (peak, lines)
}

/// Checks that a command needs at most this many bytes more for each further lock or run.
#[track_caller]
fn needs(words: &[&str], fill: impl Fn(&Place, u32), most: u64) {
    let [few, many] = [20_000_u32, 80_000].map(|count| {
        let place = Place::new();
        fill(&place, count);
        let (peak, lines) = peak(&place, words);
        assert!(lines >= count as usize, "{lines} lines of {count}");
        peak
    });
    // Of few, SQLite has not filled its caches.
    let each = many.saturating_sub(few) * 1024 / 60_000;
    assert!(each <= most, "{each} bytes for each: {few} KiB, and {many} KiB for 60,000 more");
}

#[test]
fn a_run_of_the_history_needs_less_than_a_hundred_bytes() {
    let thousands = |place: &Place, count: u32| fill(place, count / 1000, 1000);
    needs(&["history", "--since", "9d", "--json"], thousands, 100);
    needs(&["history", "--since", "9d"], thousands, 100);
}

#[test]
fn a_lock_in_the_status_needs_less_than_700_bytes() {
    needs(&["status", "--json"], |place, count| fill(place, count, 2), 700);
}
