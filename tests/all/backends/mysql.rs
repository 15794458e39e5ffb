//! The MySQL backend, against real servers: what lies in the table, who excludes whom, and what becomes of a run when
//! the server is not as it should be.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::fixtures::Holder;
use crate::support::{Finished, Place, finish, finish_child, finish_in_time, start, wait_until};
use servers::{MariaDb, MariaDbDatabase};

/// The Java library's table.
const JAVA_TABLE: &str = "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP(3) NOT NULL, \
    locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))";

/// Returns `shedlock run --name NAME --at-most 1m -E 75 ARGUMENTS` on this URL.
fn on(place: &Place, url: &str, name: &str, arguments: &[&str]) -> Command {
    let mut command = place.run(name, ["-E", "75"]);
    command.args(arguments).env("SHEDLOCK_BACKEND", url);
    command
}

/// Runs `true` under the lock `a`, with these options.
fn run(url: &str, options: &[&str]) -> Finished {
    finish(&mut on(&Place::new(), url, "a", &[options, &["--", "true"]].concat()))
}

fn hold(place: &Place, url: &str) -> Holder {
    Holder::start(place, &mut on(place, url, "a", &[]), "true")
}

/// A job that notes its token, or that it has none.
const NOTE: [&str; 4] = ["--", "sh", "-c", "echo ${SHEDLOCK_LOCK_TOKEN-none} >>tokens"];

/// Runs a job under the lock `a` that notes its token, with these options.
fn note(place: &Place, url: &str, options: &[&str]) -> Finished {
    finish(&mut on(place, url, "a", &[options, &NOTE].concat()))
}

/// Asserts that a run is told once that the table of locks has none for the history beside it.
#[track_caller]
fn tells_of_no_history(place: &Place, url: &str, table: &str, why: &str) -> String {
    note(place, url, &[]).is_silent_with(0);
    let told = note(place, url, &["-v"]);
    assert_eq!(told.code(), Some(0), "{told:?}");
    let lines: Vec<&str> = told.stderr.lines().filter(|line| line.contains("no history in the table")).collect();
    assert!(
        matches!(lines[..], [line] if line.contains(&format!("the table {table}: ")) && line.contains(why)),
        "{told:?}"
    );
    assert!(lines[0].ends_with("; there is no token"), "{told:?}");
    assert!(place.lines("tokens").iter().rev().take(2).all(|token| token == "none"));
    told.stderr.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap().to_owned()
}

/// Returns the answer to a query about the lock `a`.
fn ask(database: &MariaDbDatabase, what: &str) -> String {
    database.mariadb(&format!("select {what} from shedlock where name = 'a'")).trim().to_owned()
}

fn is_held(database: &MariaDbDatabase) -> bool {
    ask(database, "lock_until > utc_timestamp(3)") == "1"
}

/// Returns a login of the database that may do this; `rights` are such as `select, insert on`.
fn user(server: &MariaDb, database: &MariaDbDatabase, login: &str, rights: &str) -> MariaDbDatabase {
    let (name, password) = login.split_once(':').unwrap_or((login, ""));
    server.mariadb(&format!(
        "create user {name}@'127.0.0.1' identified by '{password}'; grant {rights} {}.* to {name}@'127.0.0.1'",
        database.name
    ));
    database.login(login)
}

/// A session of another program that runs these statements and stays until it is dropped.
struct Session(Child);

impl Session {
    /// Returns when the session sleeps at the end of its statements.
    fn start(database: &MariaDbDatabase, sql: &str) -> Self {
        let mark = servers::unique("mark");
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "-S", database.socket(), "-u", "root", "-D", &database.name]);
        client.args(["-e", &format!("{sql}; select sleep(600) as {mark}")]);
        let session = Self(client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_until("the other session", || {
            let running = database.try_mariadb(&format!(
                "select 1 from information_schema.processlist where info like '%{mark}' and info like 'select sleep%'"
            ));
            running.is_ok_and(|rows| rows.starts_with('1')).then_some(())
        });
        session
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// What lies in the table

#[test]
fn the_row_is_the_java_librarys() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    let holder = hold(&place, &database.url());
    let row = ask(
        &database,
        "timestampdiff(second, locked_at, lock_until), abs(timestampdiff(second, locked_at, utc_timestamp())) < 30",
    );
    assert_eq!(row, "60\t1");
    let owner = ask(&database, "locked_by");
    assert!(owner.contains(&format!(":{}:", holder.pid())), "{owner}");
    run(&database.url(), &[]).is_silent_with(75);
    holder.end().is_silent_with(0);
    assert!(!is_held(&database));
    assert_eq!(ask(&database, "locked_by"), format!("{owner}:ended"));
    run(&database.url(), &["--at-least", "30s"]).is_silent_with(0);
    assert_eq!(ask(&database, "timestampdiff(second, locked_at, lock_until)"), "30");
    run(&database.url(), &[]).is_silent_with(75);
}

#[test]
fn a_table_in_another_database_is_used() {
    let (database, other) = (servers::mariadb().database(), servers::mariadb().database());
    run(&format!("{}?table={}.locks", database.url(), other.name), &[]).is_silent_with(0);
    assert_eq!(other.mariadb("select name from locks"), "a");
    assert_eq!(other.mariadb("select name from locks_history"), "a");
    let bare = database.url();
    let bare = bare.strip_suffix(&format!("/{}", database.name)).unwrap();
    run(&format!("{bare}?table={}.locks", other.name), &[]).is_silent_with(0);
    run(bare, &[]).complains(125, "names no database; write mysql://HOST/DATABASE");
}

#[test]
fn names_that_could_end_a_statement_are_names() {
    let database = servers::mariadb().database();
    let longest = "ä".repeat(64);
    let names =
        ["it's", "a\"b", "a\\", "a\\' b", "a`b", "--", "a;b", "a/b#c:d e", "%_", "x'41'", "ÄÖ 日本 🦀", &longest];
    for name in names {
        finish(&mut on(&Place::new(), &database.url(), name, &["--at-least", "1m", "--", "true"])).is_silent_with(0);
    }
    for name in names {
        finish(&mut on(&Place::new(), &database.url(), name, &["--", "true"])).is_silent_with(75);
    }
    let kept = database.mariadb("set names utf8mb4; select hex(name) from shedlock order by hex(name)");
    let mut hexadecimal: Vec<String> =
        names.iter().map(|name| name.bytes().map(|byte| format!("{byte:02X}")).collect()).collect();
    hexadecimal.sort();
    assert_eq!(kept.lines().collect::<Vec<_>>(), hexadecimal);
}

#[test]
fn names_that_differ_in_case_are_one_lock_in_a_table_made_for_java_and_two_in_ours() {
    for (table, code) in [("", 0), (JAVA_TABLE, 75)] {
        let (place, database) = (Place::new(), servers::mariadb().database());
        database.mariadb(&format!("select 1; {table}"));
        let holder = hold(&place, &database.url());
        finish(&mut on(&place, &database.url(), "A", &["--", "true"])).is_silent_with(code);
        holder.end().is_silent_with(0);
    }
}

#[test]
fn a_name_that_the_table_cannot_keep_is_an_error_and_no_other_lock() {
    for mode in ["", "STRICT_ALL_TABLES"] {
        let server = MariaDb::fresh(&[&format!("--sql-mode={mode}")]);
        let database = server.database();
        database.mariadb(&format!("{JAVA_TABLE} character set latin1"));
        let at = |name: &str| finish(&mut on(&Place::new(), &database.url(), name, &["--", "touch", "ran"]));
        at("größe").is_silent_with(0);
        let finished = at("日本");
        finished.complains(125, "backend mysql://");
        assert!(finished.stderr.contains("CHARACTER SET utf8mb4"), "{mode}: {}", finished.stderr);
    }
}

#[test]
fn a_table_without_a_primary_key_is_an_error() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    database.mariadb(&JAVA_TABLE.replace(", PRIMARY KEY (name)", ""));
    let holder = hold(&place, &database.url());
    let finished = run(&database.url(), &[]);
    finished.complains(125, "has two rows with the lock's name");
    assert!(finished.stderr.contains("hint: make `name` its primary key"), "{}", finished.stderr);
    holder.end().is_silent_with(0);
}

#[test]
fn a_table_of_another_kind_is_an_error() {
    let database = servers::mariadb().database();
    database.mariadb("create table shedlock (name varchar(64) primary key, value int)");
    run(&database.url(), &[]).complains(125, "unknown column 'lock_until'");
}

#[test]
fn a_table_in_which_a_lock_would_end_before_its_job_is_an_error_and_nothing_stays_held() {
    for kind in ["TIMESTAMP", "DATETIME(2)", "DATE"] {
        let database = servers::mariadb().database();
        database.mariadb(&JAVA_TABLE.replace("lock_until TIMESTAMP(3)", &format!("lock_until {kind}")));
        let finished = run(&database.url(), &[]);
        finished.complains(125, "the table stores no milliseconds");
        assert!(finished.stderr.contains("hint: change its columns"), "{kind}: {}", finished.stderr);
        assert!(!is_held(&database), "{kind}");
        // What another holds is held all the same.
        database.mariadb("update shedlock set lock_until = utc_timestamp() + interval 3 day, locked_by = 'java'");
        run(&database.url(), &[]).is_silent_with(75);
    }
}

#[test]
fn a_beginning_without_milliseconds_is_an_error_too() {
    let database = servers::mariadb().database();
    database.mariadb(
        &JAVA_TABLE.replace("locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)", "locked_at DATETIME"),
    );
    run(&database.url(), &[]).complains(125, "the table stores no milliseconds");
    assert!(!is_held(&database));
}

#[test]
fn a_column_that_loses_its_milliseconds_while_a_job_runs_is_refused_at_the_next_renewal() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    let holder = Holder::start(&place, &mut on(&place, &database.url(), "a", &["--lease", "3s"]), "true");
    database.mariadb("alter table shedlock modify lock_until timestamp not null");
    let finished = holder.finish();
    assert_eq!(finished.code(), Some(123), "{finished:?}");
    assert!(finished.stderr.contains("the table stores no milliseconds"), "{finished:?}");
}

// Triggers

/// Makes a trigger before each insert and each update.
fn trigger(database: &MariaDbDatabase, action: &str) {
    database.mariadb(JAVA_TABLE);
    for event in ["insert", "update"] {
        let action = if event == "insert" { action.replace("old.", "new.") } else { action.to_owned() };
        database.mariadb(&format!("create trigger on_{event} before {event} on shedlock for each row {action}"));
    }
}

#[test]
fn a_trigger_that_shortens_a_lock_is_an_error_that_says_so() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    trigger(&database, "set new.lock_until = new.locked_at + interval 900000 microsecond");
    let finished = finish(&mut on(&place, &database.url(), "a", &["--", "touch", "ran"]));
    finished.complains(125, "the table shedlock stores the lock for ");
    assert!(finished.stderr.contains(" instead of 1m"), "{finished:?}");
    assert!(finished.stderr.contains("hint: check its triggers: SHOW TRIGGERS LIKE 'shedlock'"), "{finished:?}");
    assert!(!place.path("ran").exists());
}

#[test]
fn a_trigger_that_undoes_renewals_ends_the_job_before_its_lock() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    trigger(&database, "set new.lock_until = if(new.locked_by = old.locked_by, old.lock_until, new.lock_until)");
    let holder = Holder::start(&place, &mut on(&place, &database.url(), "a", &["--lease", "3s"]), "true");
    let finished = holder.finish();
    assert_eq!(finished.code(), Some(123), "{finished:?}");
    assert!(finished.stderr.contains("the table shedlock stores the lock for "), "{finished:?}");
}

#[test]
fn a_trigger_that_undoes_a_release_is_told_and_nobody_is_said_to_have_freed_the_lock() {
    for action in [
        "set new.lock_until = if(new.locked_by like '%:ended', old.lock_until, new.lock_until)",
        "set new.lock_until = if(new.locked_by like '%:ended', old.lock_until, new.lock_until), \
         new.locked_by = if(new.locked_by like '%:ended', old.locked_by, new.locked_by)",
    ] {
        let database = servers::mariadb().database();
        trigger(&database, action);
        let finished = run(&database.url(), &[]);
        finished.complains(0, "the table shedlock keeps the lock held although it was released");
        assert!(finished.stderr.contains("hint: check its triggers"), "{finished:?}");
        run(&database.url(), &[]).is_silent_with(75);
    }
}

#[test]
fn columns_that_the_server_sets_by_itself_keep_what_we_wrote() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    database.mariadb(&JAVA_TABLE.replace(
        "lock_until TIMESTAMP(3) NOT NULL, locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)",
        "lock_until TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), \
         locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)",
    ));
    let holder = Holder::start(&place, &mut on(&place, &database.url(), "a", &["--at-least", "30s"]), "true");
    let taken = ask(&database, "locked_at");
    run(&database.url(), &[]).is_silent_with(75);
    holder.end().is_silent_with(0);
    assert_eq!(ask(&database, "locked_at"), taken);
    assert_eq!(ask(&database, "timestampdiff(second, locked_at, lock_until)"), "30");
}

// The end of time

/// Returns `shedlock ARGUMENTS` with this backend.
fn shedlock(place: &Place, url: &str, arguments: &[&str]) -> Finished {
    finish(place.shedlock(arguments).env("SHEDLOCK_BACKEND", url))
}

/// Returns the table of the Java library with columns that hold any time.
fn datetime_table() -> String {
    JAVA_TABLE.replace("TIMESTAMP(3) NOT NULL", "DATETIME(3) NOT NULL")
}

#[test]
fn a_lock_never_ends_later_than_its_column_can_hold_and_that_is_said() {
    for (time, zone, mode, limit) in [
        ("2028-06-01 12:00:00", "+02:00", "STRICT_TRANS_TABLES", "2038-01-19 05:14:07"),
        ("2028-06-01 12:00:00", "-05:00", "", "2038-01-18 22:14:07"),
        ("2037-06-01 12:00:00", "+02:00", "", "2038-01-19 05:14:07"),
        ("2037-06-01 12:00:00", "-05:00", "STRICT_TRANS_TABLES", "2038-01-18 22:14:07"),
    ] {
        let zoned = format!("--default-time-zone={zone}");
        let server = MariaDb::started_at(time, &[&zoned, &format!("--sql-mode={mode}")]);
        let (place, database) = (Place::new(), server.database());
        let url = database.url();
        let ends = || ask(&database, "lock_until");
        let ends_last = || assert_eq!(ends(), format!("{limit}.000"), "{time} {zone} {mode}");
        let is_paused = || {
            let paused = shedlock(&place, &url, &["pause", "a"]);
            assert_eq!((paused.code(), paused.stderr.as_str()), (Some(0), ""), "{paused:?}");
            assert!(paused.stdout.contains(&format!("until {}.000Z", limit.replace(' ', "T"))), "{paused:?}");
            assert!(paused.stdout.contains("the latest time that the backend can store"), "{paused:?}");
            ends_last();
            run(&url, &[]).is_silent_with(75);
            assert_eq!(shedlock(&place, &url, &["resume", "a"]).code(), Some(0));
        };
        run(&url, &[]).is_silent_with(0);
        is_paused();
        run(&url, &["--at-least", "30s"]).is_silent_with(0);
        assert_eq!(ask(&database, "timestampdiff(second, locked_at, lock_until)"), "30");
        assert_eq!(shedlock(&place, &url, &["unlock", "a", "--force"]).code(), Some(0));

        // A run, a renewal, and what is kept after a run. As many days reach beyond it from each of the years.
        let told = |finished: &Finished, code| {
            assert_eq!(finished.code(), Some(code), "{finished:?}");
            let said =
                finished.stderr.lines().filter(|line| line.contains("the latest time that the backend can store"));
            assert!(matches!(said.collect::<Vec<_>>()[..], [line] if line.contains(&limit[..10])), "{finished:?}");
        };
        let long = |arguments: &[&str]| {
            let mut command = place.shedlock([&["run", "--name=a", "--at-most=3600d", "-E75"], arguments].concat());
            command.env("SHEDLOCK_BACKEND", &url);
            command
        };
        told(&finish(&mut long(&["-v", "--", "true"])), 0);
        let holder = Holder::start(&place, &mut long(&[]), "true");
        ends_last();
        run(&url, &[]).is_silent_with(75);
        holder.end().is_silent_with(0);
        let acquired = shedlock(&place, &url, &["acquire", "--name", "a", "--at-most", "1m"]);
        let handle = acquired.stdout.trim();
        shedlock(&place, &url, &["extend", "2m", handle]).is_silent_with(0);
        told(&shedlock(&place, &url, &["extend", "3600d", handle]), 0);
        ends_last();
        assert_eq!(shedlock(&place, &url, &["release", handle]).code(), Some(0));
        told(&finish(&mut long(&["-v", "--at-least", "3600d", "--", "true"])), 0);
        ends_last();
        run(&url, &[]).is_silent_with(75);
        is_paused();
        // It is kept on, but for the time that it took to look.
        assert_eq!(ask(&database, &format!("timestampdiff(second, lock_until, '{limit}') < 10")), "1");
        assert_eq!(shedlock(&place, &url, &["unlock", "a", "--force"]).code(), Some(0));

        // In columns that hold later times it ends when it should.
        database.mariadb(&format!("drop table shedlock; {}", datetime_table()));
        let lasts = || ask(&database, "round(timestampdiff(second, utc_timestamp(3), lock_until) / 86400)");
        let paused = shedlock(&place, &url, &["pause", "a"]);
        assert!(paused.code() == Some(0) && !paused.stdout.contains("as long"), "{paused:?}");
        assert_eq!(lasts(), "3650", "{time} {zone} {mode}");
        assert_eq!(shedlock(&place, &url, &["resume", "a"]).code(), Some(0));
        let holder = Holder::start(&place, &mut long(&["--at-least", "3600d"]), "true");
        holder.end().is_silent_with(0);
        run(&url, &[]).is_silent_with(75);
        assert_eq!(shedlock(&place, &url, &["pause", "a"]).code(), Some(0));
        assert_eq!(lasts(), "3650", "{time} {zone} {mode}");
        let taken = ["acquire", "--name=b", "--at-most=3600d", "--at-least=3600d"];
        let handle = shedlock(&place, &url, &taken).stdout;
        assert_eq!(shedlock(&place, &url, &["release", handle.trim()]).code(), Some(0));
        let kept = "timestampdiff(second, locked_at, lock_until) / 86400, locked_by like '%ended'";
        assert_eq!(database.mariadb(&format!("select {kept} from shedlock where name = 'b'")), "3600.0000\t1");
    }
}

#[test]
fn past_the_last_time_of_a_column_no_job_runs_and_the_message_says_why() {
    for mode in ["", "STRICT_TRANS_TABLES"] {
        // Ten minutes before the seconds since 1970 are used up, and hours after a column's last time in this zone.
        let begin = "--init-connect=set timestamp = 2147483000";
        let server = MariaDb::fresh(&[begin, "--default-time-zone=-05:00", &format!("--sql-mode={mode}")]);
        let database = server.database();
        let database = user(&server, &database, "jobs", "all on");
        let finished = run(&database.url(), &[]);
        assert_eq!(finished.code(), Some(125), "{mode}: {finished:?}");
        assert!(finished.stderr.contains("hint: a TIMESTAMP ends in January 2038"), "{mode}: {finished:?}");
        database.mariadb(&format!("drop table shedlock; {}", datetime_table()));
        run(&database.url(), &["--at-least", "30s"]).is_silent_with(0);
        assert_eq!(ask(&database, "timestampdiff(second, locked_at, lock_until)"), "30");
        run(&database.url(), &[]).is_silent_with(75);
    }
}

#[test]
fn a_table_in_a_database_that_does_not_exist_is_an_error_that_says_so() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    let url = format!("{}?table=nowhere.locks", database.url());
    let finished = finish(&mut on(&place, &url, "a", &["true"]));
    finished.complains(125, "unknown database 'nowhere'");
    assert!(!finished.stderr.contains("there is no table"), "{}", finished.stderr);
    assert!(finished.stderr.contains("hint: create the database, or name another one"), "{}", finished.stderr);
}

// Tokens and the history

#[test]
fn a_job_has_the_token_of_its_record() {
    let (place, database, other) = (Place::new(), servers::mariadb().database(), servers::mariadb().database());
    let url = format!("{}?table={}.locks", database.url(), other.name);
    for code in ["0", "3"] {
        let job = format!("{}; exit {code}", NOTE[3]);
        finish(&mut on(&place, &url, "a", &["--", "sh", "-c", &job])).is_silent_with(code.parse().unwrap());
    }
    let tokens = place.lines("tokens");
    let records = other.mariadb(
        "select id, name, host = substring_index(owner, ':', 1), abs(timestampdiff(second, started_at, utc_timestamp())) < 30, \
         ended_at >= started_at, exit_code, outcome from locks_history order by id",
    );
    let expected = [format!("{}\ta\t1\t1\t1\t0\tsuccess", tokens[0]), format!("{}\ta\t1\t1\t1\t3\tfailure", tokens[1])];
    assert_eq!(records.lines().collect::<Vec<_>>(), expected);
    assert_eq!(database.mariadb("show tables"), "");
}

#[test]
fn a_skip_draws_no_number() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    let holder = hold(&place, &database.url());
    for _ in 0..5 {
        run(&database.url(), &[]).is_silent_with(75);
    }
    holder.end().is_silent_with(0);
    run(&database.url(), &[]).is_silent_with(0);
    assert_eq!(database.mariadb("select group_concat(id order by id) from shedlock_history"), "1,2");
}

#[test]
fn the_tokens_of_racing_runs_grow_in_the_order_of_their_jobs() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    let arguments = [["--wait", "1m"].as_slice(), &NOTE].concat();
    let runs: Vec<_> = (0..20).map(|_| start(&mut on(&place, &database.url(), "a", &arguments))).collect();
    for run in runs {
        finish_child(run).is_silent_with(0);
    }
    let tokens: Vec<u64> = place.lines("tokens").iter().map(|token| token.parse().unwrap()).collect();
    assert!(tokens.len() == 20 && tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[test]
fn names_that_are_one_lock_in_a_table_made_for_java_have_tokens_that_grow() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    database.mariadb(JAVA_TABLE);
    for name in ["a", "A", "a"] {
        finish(&mut on(&place, &database.url(), name, &NOTE)).is_silent_with(0);
    }
    assert_eq!(place.lines("tokens"), ["1", "2", "3"]);
    assert_eq!(database.mariadb("select group_concat(name order by id) from shedlock_history"), "a,A,a");
}

#[test]
fn who_has_no_rights_to_the_history_has_the_lock_and_is_shown_the_statements() {
    let server = servers::mariadb();
    let (place, database) = (Place::new(), server.database());
    database.mariadb(JAVA_TABLE);
    let name = servers::unique("jobs");
    let (jobs, account) = (database.login(&name), format!("{name}@'127.0.0.1'"));
    database.mariadb(&format!("create user {account}; grant select, insert, update on shedlock to {account}"));
    let hint = tells_of_no_history(&place, &jobs.url(), "shedlock_history", "command denied to user");
    let holder = hold(&place, &jobs.url());
    run(&jobs.url(), &[]).is_silent_with(75);
    holder.end().is_silent_with(0);
    assert!(!is_held(&database));
    // With some of the rights it is no other.
    let statement = hint.strip_prefix("ask the database's owner to run: ").unwrap().replace("HOST", "127.0.0.1");
    let (create, grant) = statement.split_once("; ").unwrap();
    database.mariadb(create);
    for right in ["delete", "insert", "update", "select"] {
        database.mariadb(grant);
        let before = place.lines("tokens").len();
        note(&place, &jobs.url(), &["-v"]);
        assert_ne!(place.lines("tokens")[before], "none", "{right}");
        database.mariadb(&format!("revoke {right} on shedlock_history from {account}"));
        if right != "update" {
            tells_of_no_history(&place, &jobs.url(), "shedlock_history", "command denied to user");
        }
        if right == "update" {
            let told = note(&place, &jobs.url(), &["-v"]).stderr;
            let lines: Vec<&str> = told.lines().filter(|line| line.contains("no history in the table")).collect();
            let end = "; the end of this run is not recorded, and no older run is removed";
            assert!(matches!(lines[..], [line] if line.ends_with(end)) && !told.contains("no token"), "{told}");
            assert!(told.contains("\nhint: ask the database's owner to run: "), "{told}");
        }
        // What only the release needs is missed by nobody but the history.
        note(&place, &jobs.url(), &[]).is_silent_with(0);
        assert!(!is_held(&database), "{right}");
    }
}

#[test]
fn who_may_not_make_the_history_has_the_lock_and_is_shown_the_statement() {
    let server = servers::mariadb();
    let (place, database) = (Place::new(), server.database());
    database.mariadb(JAVA_TABLE);
    let jobs = user(server, &database, &servers::unique("jobs"), "select, insert, update, delete on");
    let hint = tells_of_no_history(&place, &jobs.url(), "shedlock_history", "CREATE command denied");
    let (create, _) = hint.strip_prefix("ask the database's owner to run: ").unwrap().split_once("; ").unwrap();
    database.mariadb(create);
    note(&place, &jobs.url(), &[]).is_silent_with(0);
    assert_eq!(place.lines("tokens").last().unwrap(), "1");
}

#[test]
fn a_table_in_the_historys_place_that_is_another_is_left_alone() {
    for (columns, why) in [
        ("id int, index name (id)", "unknown column"),
        ("id int auto_increment primary key, name text", "key 'name' doesn't exist"),
        (
            "id int, name varchar(64), index name (name), owner text, host text, started_at datetime, ended_at datetime, exit_code int, outcome text",
            "generates no number",
        ),
        (
            "id int auto_increment primary key, name varchar(64), index name (name, id), owner text, host text, started_at datetime, ended_at datetime, outcome text, more int not null",
            "'more'",
        ),
    ] {
        let (place, database) = (Place::new(), servers::mariadb().database());
        database.mariadb(&format!("create table shedlock_history ({columns}); set sql_mode = ''"));
        let hint = tells_of_no_history(&place, &database.url(), "shedlock_history", why);
        assert!(hint.contains("?table="), "{hint}");
        assert!(!is_held(&database));
        let holder = hold(&place, &database.url());
        run(&database.url(), &[]).is_silent_with(75);
        holder.end().is_silent_with(0);
    }
}

#[test]
fn a_history_that_another_session_has_locked_is_waited_for_and_not_given_up() {
    let (place, database) = (Place::new(), servers::mariadb().database());
    note(&place, &database.url(), &[]).is_silent_with(0);
    let session = Session::start(&database, "lock tables shedlock_history write");
    // The server waits for a second, and its answer is to be there before the time is up.
    let finished = run(&database.url(), &["--backend-timeout", "1500ms"]);
    finished.complains(125, "another session has locked the table shedlock_history: lock wait timeout exceeded");
    assert!(finished.stderr.contains("\nhint: end its transaction"), "{finished:?}");
    assert!(!is_held(&database));
    drop(session);
    database.mariadb(
        "select concat('kill ', id, ';') into @kill from information_schema.processlist \
                      where info like 'select sleep%' and db = database() limit 1; execute immediate @kill",
    );
    note(&place, &database.url(), &["--backend-timeout", "30s"]).is_silent_with(0);
    assert_eq!(place.lines("tokens").len(), 2);
    assert!(!place.read("tokens").contains("none"));
}

// Settings of the server

#[test]
fn a_server_in_another_zone_without_autocommit_shares_its_locks_with_java() {
    let place = Place::new();
    let server = MariaDb::fresh(&["--default-time-zone=+02:00", "--autocommit=0"]);
    let database = server.database();
    database.mariadb(JAVA_TABLE);
    let take = "insert ignore into shedlock(name, lock_until, locked_at, locked_by) values('a', \
         timestampadd(microsecond, 60000000, utc_timestamp(3)), utc_timestamp(3), 'java'); select row_count(); \
         update shedlock set lock_until = timestampadd(microsecond, 60000000, utc_timestamp(3)), \
         locked_at = utc_timestamp(3), locked_by = 'java' where name = 'a' and lock_until <= utc_timestamp(3); \
         select row_count(); commit";
    let release = "update shedlock set lock_until = utc_timestamp(3) where name = 'a' and locked_by = 'java'; commit";

    let holder = hold(&place, &database.url());
    assert_eq!(database.mariadb(take), "0\n0");
    database.mariadb(release);
    assert!(is_held(&database));
    holder.end().is_silent_with(0);
    assert_eq!(database.mariadb(take), "0\n1");
    let finished = run(&database.url(), &["-v"]);
    assert_eq!(finished.code(), Some(75));
    assert!(finished.stderr.contains("java"), "{}", finished.stderr);
    assert_eq!(ask(&database, "locked_by"), "java");
    database.mariadb(release);
    run(&database.url(), &[]).is_silent_with(0);
    assert!(!is_held(&database));
    let records =
        "select group_concat(outcome), min(abs(timestampdiff(second, started_at, utc_timestamp())) < 60) from";
    assert_eq!(database.mariadb(&format!("{records} shedlock_history")), "success,success\t1");
}

#[test]
fn any_sql_mode_will_do() {
    for mode in
        ["ANSI,NO_BACKSLASH_ESCAPES", "TRADITIONAL,PAD_CHAR_TO_FULL_LENGTH", "ORACLE,SIMULTANEOUS_ASSIGNMENT", ""]
    {
        let server = MariaDb::fresh(&[&format!("--sql-mode={mode}"), "--explicit-defaults-for-timestamp=0"]);
        let (place, database) = (Place::new(), server.database());
        let holder = hold(&place, &database.url());
        run(&database.url(), &[]).is_silent_with(75);
        holder.end().is_silent_with(0);
        run(&database.url(), &[]).is_silent_with(0);
        let records = database.mariadb("select group_concat(concat(id, outcome) order by id) from shedlock_history");
        assert_eq!(records, "1success,2success", "{mode}");
    }
}

#[test]
fn whatever_the_server_does_after_a_commit_a_run_works() {
    for kind in ["RELEASE", "CHAIN"] {
        for autocommit in ["0", "1"] {
            let server = MariaDb::fresh(&[&format!("--completion-type={kind}"), &format!("--autocommit={autocommit}")]);
            let (place, database) = (Place::new(), server.database());
            let url = database.url();
            let holder = Holder::start(&place, &mut on(&place, &url, "a", &["--lease", "30s"]), "true");
            run(&url, &[]).is_silent_with(75);
            holder.end().is_silent_with(0);
            // With another history the run goes on after a statement that failed.
            database.mariadb("drop table shedlock_history; create table shedlock_history (x int); commit");
            run(&url, &[]).is_silent_with(0);
            database.mariadb("drop table shedlock_history; commit");
            for arguments in [&["status"][..], &["history"], &["pause", "a"], &["resume", "a"], &["check"]] {
                let finished = shedlock(&place, &url, arguments);
                assert_eq!(finished.code(), Some(0), "{kind} {autocommit}: {finished:?}");
            }
        }
    }
}

#[test]
fn an_hour_that_the_servers_zone_leaves_out_is_an_error_that_says_so() {
    // Half an hour after a zone's clocks were put forward; those who may do everything are spared what init-connect says.
    let forward = 1_774_749_600;
    let server = MariaDb::fresh(&[&format!("--init-connect=set timestamp = {}", forward + 1800)]);
    let database = server.database();
    server.mariadb(&format!(
        "insert into time_zone values (1, 'N'); insert into time_zone_name values ('Spring', 1); \
         insert into time_zone_transition_type values (1, 0, 0, 0, 'A'), (1, 1, 3600, 1, 'B'); \
         insert into time_zone_transition values (1, 0, 0), (1, {forward}, 1); set global time_zone = 'Spring'"
    ));
    let database = user(&server, &database, "jobs", "all on");
    let finished = run(&database.url(), &[]);
    finished.complains(125, "incorrect datetime value");
    assert!(finished.stderr.contains("default_time_zone to '+00:00'"), "{}", finished.stderr);
}

#[test]
fn one_run_sends_two_requests_and_a_skip_one() {
    let server = MariaDb::fresh(&[]);
    let (place, database) = (Place::new(), server.database());
    run(&database.url(), &[]).is_silent_with(0);
    let alone = || {
        wait_until("the connections to end", || {
            let connections = "select count(*) from information_schema.processlist where db like 'test%'";
            (server.mariadb(connections) == "0").then_some(())
        });
    };
    let heard = |options: &[&str], code| {
        alone();
        server.mariadb(
            "set global general_log = 0; truncate general_log; set global log_output = 'table', general_log = 1",
        );
        run(&database.url(), options).is_silent_with(code);
        alone();
        let rows = server.mariadb("select command_type from general_log where user_host like '%[127.0.0.1]'");
        rows.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(heard(&[], 0), ["Connect", "Query", "Query", "Quit"]);
    let holder = hold(&place, &database.url());
    // Whether a connection is closed in time would otherwise depend on which thread is quicker.
    for _ in 0..5 {
        assert_eq!(heard(&[], 75), ["Connect", "Query", "Quit"]);
    }
    holder.end().is_silent_with(0);
    assert!(!server.log().contains("Aborted connection"), "{}", server.log());
}

#[test]
fn no_connection_is_kept_while_the_job_runs() {
    let server = MariaDb::fresh(&[]);
    let (place, database) = (Place::new(), server.database());
    let holder = hold(&place, &database.url());
    let connections = "select count(*) from information_schema.processlist where db like 'test%'";
    wait_until("the connection to close", || (server.mariadb(connections) == "0").then_some(()));
    holder.end().is_silent_with(0);
}

// Rights and logins

#[test]
fn select_insert_and_update_are_rights_enough() {
    let server = servers::mariadb();
    let (place, database) = (Place::new(), server.database());
    database.mariadb(JAVA_TABLE);
    let jobs = user(server, &database, &servers::unique("jobs"), "select, insert, update on");
    let holder = hold(&place, &jobs.url());
    run(&jobs.url(), &[]).is_silent_with(75);
    holder.end().is_silent_with(0);
    run(&jobs.url(), &[]).is_silent_with(0);
}

#[test]
fn who_may_not_make_the_table_is_shown_the_statement() {
    let server = servers::mariadb();
    let database = server.database();
    let jobs = user(server, &database, &servers::unique("jobs"), "select, insert, update on");
    let finished = run(&jobs.url(), &[]);
    finished.complains(125, "there is no table shedlock, and it cannot be created: CREATE command denied");
    let (_, statement) = finished.stderr.split_once("hint: ask the database's owner to run: ").unwrap();
    database.mariadb(statement);
    run(&jobs.url(), &[]).is_silent_with(0);
}

#[test]
fn who_may_not_write_is_told_what_is_needed() {
    let server = servers::mariadb();
    let database = server.database();
    database.mariadb(JAVA_TABLE);
    let reader = user(server, &database, &servers::unique("reader"), "select on");
    let finished = run(&reader.url(), &[]);
    finished.complains(125, "command denied to user");
    assert!(finished.stderr.contains("needs SELECT, INSERT and UPDATE"), "{}", finished.stderr);
    // To a user without any right to a table the server does not say whether it is there.
    database.mariadb("drop table shedlock");
    database.mariadb("create table other (x int)");
    let name = servers::unique("stranger");
    database.mariadb(&format!("create user {name}@'127.0.0.1'; grant select on other to {name}@'127.0.0.1'"));
    let finished = run(&database.login(&name).url(), &[]);
    finished.complains(125, "command denied to user");
    assert!(
        finished.stderr.contains("if the table is missing, `shedlock schema` prints the statements to create it"),
        "{finished:?}"
    );
}

#[test]
fn a_login_that_is_refused_is_an_error_at_once() {
    let server = servers::mariadb();
    let database = server.database();
    let name = servers::unique("clerk");
    user(server, &database, &format!("{name}:s3cret"), "all on");
    let at_once =
        |url: &str| finish_in_time(&mut on(&Place::new(), url, "a", &["--backend-timeout", "1h", "--", "true"]));
    for login in [&format!("{name}:wr0ng"), &name, "nobody"] {
        let finished = at_once(&database.login(login).url());
        finished.complains(125, "access denied for user");
        assert!(finished.stderr.contains("hint: check the password"), "{}", finished.stderr);
        assert!(!finished.stderr.contains("wr0ng"), "{}", finished.stderr);
    }
    let nowhere = database.url().replace(&database.name, "nowhere");
    at_once(&nowhere).complains(125, "unknown database 'nowhere'");
}

/// Returns a port that greets, and answers the login with a wish for another plugin. What it hears comes out of the channel.
fn wishing(plugin: &'static str) -> (u16, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        let mut greeting = b"\x0a9.7.0\0\x01\0\0\0abcdefgh\0\xff\xf7\x2d\x02\0\xff\x81\x15".to_vec();
        greeting.extend([0; 10]);
        greeting.extend(b"abcdefghijkl\0mysql_native_password\0");
        let packet = |number, body: &[u8]| [&[u8::try_from(body.len()).unwrap(), 0, 0, number], body].concat();
        client.write_all(&packet(0, &greeting)).unwrap();
        let mut heard = vec![0; 4096];
        let length = client.read(&mut heard).unwrap();
        heard.truncate(length);
        client.write_all(&packet(2, &[b"\xfe", plugin.as_bytes(), b"\0abcdefghijklmnopqrst\0"].concat())).unwrap();
        // Whether the client hangs up or resets the connection does not matter.
        let _ = client.read_to_end(&mut heard);
        send.send(heard).unwrap();
    });
    (port, receive)
}

#[test]
fn no_server_gets_the_password_itself_or_another_proof_than_is_known() {
    for (plugin, told) in [
        ("mysql_clear_password", "unknown authentication protocol: `mysql_clear_password`"),
        ("dialog", "unknown authentication protocol: `dialog`"),
        ("sha256_password", "unknown authentication protocol: `sha256_password`"),
        ("mysql_old_password", "`old_mysql_password` plugin is insecure"),
    ] {
        let (port, heard) = wishing(plugin);
        let finished = run(&format!("mysql://jobs:s3cret@127.0.0.1:{port}/x"), &[]);
        finished.complains(125, &format!("jobs cannot log in: {told}"));
        assert!(finished.stderr.contains("\nhint: use mysql_native_password or caching_sha2_password"), "{finished:?}");
        let heard = heard.recv().unwrap();
        assert!(heard.windows(4).any(|part| part == b"jobs"), "{heard:?}");
        assert!(!heard.windows(6).any(|part| part == b"s3cret"), "{plugin}: {heard:?}");
    }
}

#[test]
fn a_password_comes_from_the_environment_or_a_file_and_is_shown_nowhere() {
    let server = servers::mariadb();
    let (place, database) = (Place::new(), server.database());
    let name = servers::unique("clerk");
    let login = user(server, &database, &format!("{name}:s3cret%2F"), "all on");
    server.mariadb(&format!("set password for {name}@'127.0.0.1' = password('s3cret/')"));
    let bare = database.login(&name).url();
    let file = place.path("url");
    fs::write(&file, login.url()).unwrap();

    let mut by_variable = on(&place, &bare, "a", &["-vv"]);
    by_variable.env("SHEDLOCK_BACKEND_PASSWORD", "s3cret/");
    let mut by_file = on(&place, "", "b", &["-vv", "--backend-file", file.to_str().unwrap()]);
    for command in [&mut by_variable, &mut by_file] {
        let holder = Holder::start(&place, command, "true");
        for pid in [holder.pid(), holder.job()] {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
            assert!(!String::from_utf8_lossy(&line).contains("s3cret"));
        }
        let finished = holder.end();
        assert_eq!(finished.code(), Some(0), "{finished:?}");
        assert!(!format!("{finished:?}").contains("s3cret"), "{finished:?}");
    }
}

#[test]
fn a_socket_will_do() {
    let database = servers::mariadb().database();
    for host in ["", "localhost"] {
        run(&format!("mysql://root@{host}/{}?socket={}", database.name, database.socket()), &[]).is_silent_with(0);
    }
    let host = database.socket().replace('/', "%2F");
    run(&format!("mariadb://root@{host}/{}", database.name), &[]).is_silent_with(0);
    let nowhere = format!("mysql://root@/{}?socket=/no/such", database.name);
    run(&nowhere, &["--backend-timeout", "100ms"]).complains(125, "no server is listening on its socket");
}

// Servers that are down, full, or read-only

/// Returns a port on which nobody listens.
fn dead_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_server_that_is_down_is_tried_again_until_the_timeout() {
    let url = format!("mysql://root:s3cret@127.0.0.1:{}/x", dead_port());
    let begun = Instant::now();
    let finished = run(&url, &["--backend-timeout", "600ms"]);
    finished.complains(125, "connection refused");
    assert!(!finished.stderr.contains("s3cret"), "{}", finished.stderr);
    assert!(begun.elapsed() > Duration::from_millis(200));
}

#[test]
fn a_server_that_comes_up_in_time_is_used() {
    let server = MariaDb::fresh(&[]);
    let (place, database) = (Place::new(), server.database());
    server.stop();
    let child = start(&mut on(&place, &database.url(), "a", &["--backend-timeout", "30s", "--", "true"]));
    server.start();
    finish_child(child).is_silent_with(0);
}

#[test]
fn a_lock_survives_a_server_that_is_killed() {
    let server = MariaDb::fresh(&["--innodb-flush-log-at-trx-commit=1"]);
    let (place, database) = (Place::new(), server.database());
    let holder = Holder::start(&place, &mut on(&place, &database.url(), "a", &["--backend-timeout", "30s"]), "true");
    server.kill();
    server.start();
    run(&database.url(), &[]).is_silent_with(75);
    holder.end().is_silent_with(0);
    assert!(!is_held(&database));
}

#[test]
fn of_several_hosts_the_first_that_can_be_written_is_used() {
    let (writable, reader) = (MariaDb::fresh(&[]), MariaDb::fresh(&["--read-only"]));
    let database = writable.database();
    for server in [&writable, &reader] {
        server.mariadb(&format!("create database if not exists {}", database.name));
        server.mariadb(
            "create user jobs@'127.0.0.1'; grant all on *.* to jobs@'127.0.0.1'; \
                        revoke super, read only admin on *.* from jobs@'127.0.0.1'",
        );
    }
    let url = |hosts: &[u16]| {
        let hosts: Vec<_> = hosts.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("mysql://jobs@{}/{}", hosts.join(","), database.name)
    };
    let finished = run(&url(&[reader.port()]), &["--backend-timeout", "500ms"]);
    finished.complains(125, "--read-only");
    assert!(finished.stderr.contains("hint: a lock needs a writable server"), "{}", finished.stderr);
    reader.mariadb(&format!("use {}; {JAVA_TABLE}", database.name));
    run(&url(&[reader.port()]), &["--backend-timeout", "500ms"]).complains(125, "--read-only");
    run(&url(&[dead_port(), reader.port(), writable.port()]), &[]).is_silent_with(0);
    assert_eq!(database.mariadb("select name from shedlock"), "a");
}

#[test]
fn a_server_that_is_full_is_waited_for_until_the_timeout() {
    let server = MariaDb::fresh(&[]);
    let (place, database) = (Place::new(), server.database());
    let jobs = user(&server, &database, "jobs", "all on");
    server.mariadb("alter user jobs@'127.0.0.1' with max_user_connections 1");
    let mut other = Command::new("mariadb");
    other.args(["--no-defaults", "-h", "127.0.0.1", "-P", &server.port().to_string(), "-u", "jobs"]);
    let mut other =
        other.args(["-e", "select sleep(600)"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the other connection", || {
        (server.mariadb("select count(*) from information_schema.processlist where user = 'jobs'") == "1").then_some(())
    });
    let finished = run(&jobs.url(), &["--backend-timeout", "500ms"]);
    finished.complains(125, "max_user_connections");
    let child = start(&mut on(&place, &jobs.url(), "a", &["--backend-timeout", "30s", "--", "true"]));
    server.mariadb("select concat('kill ', id) from information_schema.processlist where user = 'jobs'");
    other.kill().unwrap();
    other.wait().unwrap();
    server.mariadb("alter user jobs@'127.0.0.1' with max_user_connections 0");
    finish_child(child).is_silent_with(0);
}

#[test]
fn of_100_processes_at_a_server_for_10_that_meet_no_table_one_runs_its_job() {
    let server = MariaDb::fresh(&["--max-connections=10"]);
    let (place, database) = (Place::new(), server.database());
    let job = ["--at-least", "1m", "--backend-timeout", "60s", "--", "sh", "-c", "echo $$ >> runs"];
    let children: Vec<_> = (0..100).map(|_| start(&mut on(&place, &database.url(), "a", &job))).collect();
    let codes: Vec<_> = children
        .into_iter()
        .map(|child| {
            let finished = finish_child(child);
            assert_eq!(finished.stderr, "");
            finished.code().unwrap()
        })
        .collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 75).count(), 99, "{codes:?}");
    assert_eq!(place.lines("runs").len(), 1);
}

#[test]
fn a_row_that_another_transaction_keeps_is_waited_for_until_the_timeout() {
    let database = servers::mariadb().database();
    run(&database.url(), &[]).is_silent_with(0);
    let session = Session::start(&database, "begin; select * from shedlock where name = 'a' for update");
    // The server waits for a second each time. Two of these fit, and none is begun that would be answered too late.
    let finished =
        finish_in_time(&mut on(&Place::new(), &database.url(), "a", &["--backend-timeout", "2500ms", "--", "true"]));
    finished.complains(125, "another session has locked a row of the table shedlock, or all of it: lock wait timeout");
    assert!(finished.stderr.contains("\nhint: end its transaction"), "{finished:?}");
    let place = Place::new();
    let child = start(&mut on(&place, &database.url(), "a", &["--backend-timeout", "30s", "--", "true"]));
    wait_until("the statement that waits", || {
        // innodb_trx would go stale: who reads it more often than ten times in a second reads the same again.
        let waiting = "select count(*) from information_schema.processlist \
                       where info like '%INSERT INTO%' and db = database() and id <> connection_id()";
        (database.mariadb(waiting) == "1").then_some(())
    });
    drop(session);
    database.mariadb(
        "select concat('kill ', id, ';') into @kill from information_schema.processlist \
                      where info like 'select sleep%' and db = database() limit 1; execute immediate @kill",
    );
    finish_child(child).is_silent_with(0);
}

#[test]
fn an_acquisition_that_waits_for_a_row_when_the_time_is_up_takes_nothing_later() {
    let database = servers::mariadb().database();
    run(&database.url(), &[]).is_silent_with(0);
    let session = Session::start(&database, "begin; select * from shedlock for update");
    // In seven seconds a wait for half of them fits twice, and a third one does not.
    run(&database.url(), &["--backend-timeout", "7s"]).complains(125, "");
    database.mariadb(
        "select concat('kill ', id, ';') into @kill from information_schema.processlist \
                      where info like 'select sleep%' and db = database() limit 1; execute immediate @kill",
    );
    drop(session);
    wait_until("the others to be gone", || {
        let others =
            "select count(*) from information_schema.processlist where db = database() and id <> connection_id()";
        (database.mariadb(others) == "0").then_some(())
    });
    assert!(!is_held(&database));
}

#[test]
fn a_server_that_hangs_is_given_up_at_the_timeout() {
    let server = MariaDb::fresh(&[]);
    let database = server.database();
    run(&database.url(), &[]).is_silent_with(0);
    server.freeze();
    let finished =
        finish_in_time(&mut on(&Place::new(), &database.url(), "a", &["--backend-timeout", "1s", "--", "true"]));
    assert_eq!(finished.code(), Some(125), "{finished:?}");
    server.thaw();
    wait_until("a free lock", || (!is_held(&database)).then_some(()));
}

// TLS

#[test]
fn tls_is_as_strict_as_it_is_asked_to_be() {
    let (server, certificates) = (servers::mariadb_tls(), servers::certificates());
    let database = server.database();
    let clerk = database.login("clerk:s3cret");
    let (authority, stranger) = (certificates.authority(), certificates.stranger());
    for host in ["127.0.0.1", "localhost"] {
        run(&format!("{}?sslrootcert={authority}", clerk.url_at(host)), &[]).is_silent_with(0);
    }
    for query in [
        "sslmode=require".to_owned(),
        "sslmode=prefer".to_owned(),
        format!("sslmode=verify-ca&sslrootcert={authority}"),
        format!("sslmode=require&sslrootcert={authority}"),
    ] {
        run(&format!("{}?{query}", clerk.url()), &[]).is_silent_with(0);
    }
    run(&clerk.url(), &[]).complains(125, "access denied");
    for mode in ["verify-full", "verify-ca", "require"] {
        let finished = run(&format!("{}?sslmode={mode}&sslrootcert={stranger}", clerk.url()), &[]);
        finished.complains(125, "TLS failed");
        assert!(finished.stderr.contains("sslrootcert=FILE"), "{}", finished.stderr);
    }
    run(&format!("{}?sslmode=verify-full", clerk.url()), &[]).complains(125, "TLS failed");
    run(&format!("{}?sslrootcert=/no/such/file", clerk.url()), &[])
        .complains(125, "sslrootcert /no/such/file cannot be read: no such file");
}

#[test]
fn a_certificate_for_another_name_is_refused_unless_names_do_not_count() {
    let server = MariaDb::fresh_with_tls(&["--bind-address=127.0.0.2"]);
    server.mariadb("create user abroad@'%' require ssl; grant all on *.* to abroad@'%'");
    let url = server.database().login("abroad").url_at("127.0.0.2");
    let authority = servers::certificates().authority();
    let finished = run(&format!("{url}?sslrootcert={authority}"), &[]);
    finished.complains(125, "TLS failed");
    assert!(finished.stderr.contains("certificate is for another name"), "{}", finished.stderr);
    run(&format!("{url}?sslrootcert={authority}&sslmode=verify-ca"), &[]).is_silent_with(0);
}

#[test]
fn a_client_may_log_in_by_its_certificate() {
    let certificates = servers::certificates();
    let jobs = servers::mariadb_tls().database().login("jobs");
    let authority = certificates.authority();
    let own = format!("sslcert={}&sslkey={}", certificates.client(), certificates.client_key());
    run(&format!("{}?sslrootcert={authority}&{own}", jobs.url()), &[]).is_silent_with(0);
    run(&format!("{}?sslrootcert={authority}", jobs.url()), &[]).complains(125, "access denied");
    let mixed = format!("sslcert={}&sslkey={}", certificates.client(), certificates.server_key());
    let finished = run(&format!("{}?sslrootcert={authority}&{mixed}", jobs.url()), &[]);
    finished.complains(125, "is not the key of");
}

#[test]
fn a_server_without_tls_is_refused_unless_tls_is_only_preferred() {
    let database = servers::mariadb().database();
    run(&format!("{}?sslmode=require", database.url()), &[]).complains(125, "the server offers no TLS");
    for mode in ["prefer", "allow", "disable"] {
        run(&format!("{}?sslmode={mode}", database.url()), &[]).is_silent_with(0);
    }
}
