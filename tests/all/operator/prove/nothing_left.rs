//! `prove` leaves nothing behind, however it ends, and touches no other name.

use std::os::unix::process::ExitStatusExt;
use std::process::Child;

use super::{Report, command, prove};
use crate::support::{Place, finish, finish_child, kill, start, wait_until};
use servers::PostgresDatabase;

/// The rows of any `prove` in this database.
const ROWS: &str = "select count(*) from shedlock where name like 'shedlock-prove-%'";
/// Its runs. A mark of an acquisition that was undone stays for as long as a network could delay that.
const RUNS: &str = "select count(*) from shedlock_history where name like 'shedlock-prove-%'";
const HELD: &str =
    "select count(*) from shedlock where name like 'shedlock-prove-%' and lock_until > timezone('utc', now())";

/// A `prove` that runs.
struct Running(Child);

impl Running {
    /// Starts one, and waits until it plays in this database.
    fn start(place: &Place, database: &PostgresDatabase, options: &[&str]) -> Self {
        let child = start(&mut command(place, &database.url(), options));
        wait_until("locks that are held", || {
            let count = database.try_psql(HELD).ok()?.trim().parse::<u64>().ok()?;
            (count > 1).then_some(())
        });
        Self(child)
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    fn end(self) -> Report {
        Report::of(finish_child(self.0))
    }
}

#[track_caller]
fn is_empty(database: &PostgresDatabase) {
    assert_eq!((database.psql(ROWS).trim(), database.psql(RUNS).trim()), ("0", "0"));
}

#[test]
fn a_signal_stops_it_and_it_reports_and_leaves_nothing() {
    let place = Place::new();
    for (signal, code, raised) in [("INT", None, Some(2)), ("TERM", Some(143), None), ("HUP", Some(129), None)] {
        let database = servers::postgres().database();
        let running = Running::start(&place, &database, &["--for", "1h"]);
        kill(running.pid(), signal);
        let report = running.end();
        let status = report.finished.status;
        assert_eq!((status.code(), status.signal()), (code, raised), "{:?}", report.finished);
        assert_eq!(report.lines("bad"), Vec::<&str>::new(), "{:?}", report.finished);
        is_empty(&database);
    }
}

#[test]
fn a_killed_one_frees_all_within_a_minute_and_the_next_one_removes_it() {
    let (place, database) = (Place::new(), servers::postgres().database());
    let mut running = Running::start(&place, &database, &["--for", "1h"]);
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    let longest = "select coalesce(extract(epoch from max(lock_until) - timezone('utc', now())), 0) < 60 from shedlock";
    assert_eq!(database.psql(longest).trim(), "t", "all is free within a minute");
    // What marks the names as in use frees by itself; an operator does not want to wait for that here.
    database.psql("update shedlock set lock_until = timezone('utc', now()) where name like 'shedlock-prove-%-0'");
    let report = prove(&place, &database.url(), &["--for", "1s"]);
    report.is_kept();
    assert!(report.line("leftovers").1.starts_with("removed "), "{:?}", report.finished);
    is_empty(&database);
}

#[test]
fn two_at_once_do_not_disturb_each_other() {
    let (place, database) = (Place::new(), servers::postgres().database());
    let first = Running::start(&place, &database, &["--for", "8s", "--clients", "4"]);
    let second = prove(&place, &database.url(), &["--for", "3s", "--clients", "4"]);
    second.is_kept();
    assert!(!second.subjects().contains(&"leftovers"), "{:?}", second.finished);
    first.end().is_kept();
    is_empty(&database);
}

#[test]
fn names_of_others_stay_as_they_are() {
    let (place, database) = (Place::new(), servers::postgres().database());
    place.make_lock("report", &database.url());
    let others = ["shedlock-prove", "shedlock-prove-x-1", "shedlock-prove-0000000000000007-01", "my-shedlock-prove-1"];
    for name in others {
        let until = "timezone('utc', now()) - interval '1 day'";
        database.psql(&format!("insert into shedlock values ('{name}', {until}, {until}, 'java')"));
    }
    let all = "select * from shedlock order by name";
    let before = database.psql(all);
    prove(&place, &database.url(), &["--for", "2s"]).is_kept();
    assert_eq!(database.psql(all), before);
}

#[test]
fn without_the_right_to_delete_it_leaves_a_few_free_rows_and_says_so() {
    let (place, database) = (Place::new(), servers::postgres().database());
    let ended = finish(place.run("report", ["true"]).env("SHEDLOCK_BACKEND", database.url()));
    ended.is_silent_with(0);
    let role = servers::unique("clerk");
    database.psql(&format!(
        "create role {role} login; grant select, insert, update on shedlock to {role}; \
         grant select, insert, update, delete on shedlock_history to {role}; \
         grant usage on all sequences in schema public to {role}"
    ));
    let report = prove(&place, &database.login(&role).url(), &["--for", "10s"]);
    report.is_kept();
    let (grade, seen) = report.line("names");
    assert_eq!(grade, "unwise", "{seen}");
    let rows = database.psql(ROWS);
    assert!(seen.starts_with(&format!("{} free locks shedlock-prove-", rows.trim())), "{seen}: {rows}");
    assert!(rows.trim().parse::<u64>().unwrap() < 12, "they are used again: {rows}");
    assert_eq!(database.psql(HELD).trim(), "0");
}
