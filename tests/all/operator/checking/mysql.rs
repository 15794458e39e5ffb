//! Checks of MariaDB.

use super::{a_run_fails, a_run_works, check, checked, on};
use crate::support::{Place, finish};
use servers::{MariaDb, MariaDbDatabase, certificates};

/// The tests' servers do not wait for the disk.
const ALWAYS: &str = "writable";

/// Returns a user who may log in and nothing else, and the URL for it.
fn clerk(database: &MariaDbDatabase) -> (String, String) {
    let user = servers::unique("clerk");
    database.mariadb(&format!("create user {user}@'127.0.0.1'"));
    let url = database.login(&user).url();
    (user, url)
}

const LAYOUT: &str = "create table shedlock (name varchar(64) character set utf8mb4 collate utf8mb4_bin not null primary key, \
                      lock_until timestamp(3) not null default now(3), locked_at timestamp(3) not null default now(3), \
                      locked_by varchar(255) not null)";

#[test]
fn a_healthy_server_is_good_also_before_its_tables_are_made() {
    let database = servers::mariadb().database();
    for made in ["was missing and has been created", "is there"] {
        let checked = check(&database.url());
        checked.can_lock_but(&[ALWAYS]);
        checked.says("good", "table", made);
        checked.says("good", "history", made);
        assert_eq!(
            checked.subjects(),
            [
                "backend",
                "address",
                "TLS",
                "login",
                "version",
                "round trip",
                "clock",
                "writable",
                "table",
                "columns",
                "time zone",
                "rights",
                "history",
                "take",
                "renew",
                "refuse",
                "verify",
                "again",
                "release"
            ]
        );
    }
    assert_eq!(database.mariadb("select count(*) from shedlock_history"), "0");
    let safe = MariaDb::fresh(&["--innodb-flush-log-at-trx-commit=1"]);
    check(&safe.database().url()).can_lock_but(&[]);
}

#[test]
fn a_half_migrated_table_is_in_the_way_or_unwise() {
    let text = |from: &str, to: &str| LAYOUT.replace(from, to);
    for (create, grade, subject, said) in [
        (text(", locked_by varchar(255) not null", ""), "bad", "columns", "no column locked_by"),
        (text(" primary key", ""), "bad", "key", "ADD PRIMARY KEY (name)"),
        (
            text("lock_until timestamp(3) not null default now(3)", "lock_until timestamp not null"),
            "bad",
            "columns",
            "without milliseconds",
        ),
        (text("locked_by v", "note int not null, locked_by v"), "bad", "columns", "note requires a value"),
        (text("varchar(64)", "varchar(20)"), "unwise", "columns", "too short: 20 characters instead of 64"),
        (text("collate utf8mb4_bin", ""), "unwise", "columns", "`Job` and `job` as one lock"),
        (text("utf8mb4 collate utf8mb4_bin", "latin1 collate latin1_bin"), "unwise", "columns", "name is in latin1"),
        (
            text("default now(3), locked_at", "default now(3) on update now(3), locked_at"),
            "unwise",
            "columns",
            "is set to the current time by every update",
        ),
    ] {
        let database = servers::mariadb().database();
        database.mariadb(&create);
        let checked = check(&database.url());
        checked.says(grade, subject, said);
        match grade {
            "bad" => assert_eq!(checked.code, Some(1)),
            _ => {
                checked.can_lock_but(&[ALWAYS, subject]);
                a_run_works(&database.url());
            }
        }
        if grade == "bad" && subject == "columns" {
            a_run_fails(&database.url());
        }
    }
    let database = servers::mariadb().database();
    database.mariadb(&format!("{LAYOUT} engine = myisam"));
    check(&database.url()).says("bad", "table", "uses MyISAM");
}

#[test]
fn the_case_of_a_columns_name_does_not_matter() {
    let database = servers::mariadb().database();
    // As the Java library has them that was told withDbUpperCase(true).
    database.mariadb(
        "create table shedlock (NAME varchar(64) character set utf8mb4 collate utf8mb4_bin not null, \
         LOCK_UNTIL timestamp(3) not null, LOCKED_AT timestamp(3) not null default current_timestamp(3), \
         LOCKED_BY varchar(255) not null, primary key (NAME))",
    );
    check(&database.url()).can_lock_but(&[ALWAYS]);
    database.mariadb("alter table shedlock modify LOCK_UNTIL timestamp not null, modify NAME varchar(20) not null");
    let checked = check(&database.url());
    checked.says("bad", "columns", "lock_until is timestamp, without milliseconds");
    checked.says("unwise", "columns", "name is varchar(20), which is too short: 20 characters instead of 64");
}

#[test]
fn a_trigger_that_changes_what_is_written_is_in_the_way() {
    let ended = "new.locked_by like '%:ended'";
    for (event, action, subject, said) in [
        ("insert", "new.lock_until = new.locked_at".to_owned(), "take", "stores the lock for no time instead of 10s"),
        ("update", "new.lock_until = utc_timestamp(3) + interval 1 second".to_owned(), "renew", "instead of 10s"),
        (
            "update",
            format!("new.lock_until = if({ended}, old.lock_until, new.lock_until)"),
            "release",
            "although it was released",
        ),
    ] {
        let database = servers::mariadb().database();
        database
            .mariadb(&format!("{LAYOUT}; create trigger meddler before {event} on shedlock for each row set {action}"));
        let checked = check(&database.url());
        checked.says("bad", subject, said);
        checked.says("bad", subject, "SHOW TRIGGERS LIKE 'shedlock'");
    }
}

#[test]
fn job_and_job_are_one_lock_where_the_collation_says_so() {
    let database = servers::mariadb().database();
    database.mariadb(&LAYOUT.replace("collate utf8mb4_bin", "collate utf8mb4_general_ci"));
    let checked = check(&database.url());
    checked.says("unwise", "columns", "`Job` and `job` as one lock");
    let [.., advice] =
        checked.found.iter().find(|[grade, subject, ..]| grade == "unwise" && subject == "columns").unwrap();
    database.mariadb(advice);
    check(&database.url()).can_lock_but(&[ALWAYS]);
}

#[test]
fn a_zone_with_daylight_saving_is_in_the_way_if_times_pass_through_it() {
    let server = MariaDb::fresh(&[]);
    // Clocks are put forward in three months, and back half a year later.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let (spring, autumn) = (now + 90 * 86_400, now + 270 * 86_400);
    server.mariadb(&format!(
        "insert into time_zone values (1, 'N'); insert into time_zone_name values ('Europe/Berlin', 1); \
         insert into time_zone_transition_type values (1, 0, 3600, 0, 'CET'), (1, 1, 7200, 1, 'CEST'); \
         insert into time_zone_transition values (1, 0, 0), (1, {spring}, 1), (1, {autumn}, 0); \
         set global time_zone = 'Europe/Berlin'"
    ));
    let database = server.database();
    let checked = check(&database.url());
    checked.says(
        "bad",
        "time zone",
        "Europe/Berlin has daylight saving: no lock can be taken in the hour that it skips",
    );
    checked.says("good", "release", "");
    let lost = format!("update shedlock set lock_until = '1970-01-01' + interval {spring} + 5400 second");
    assert!(database.try_mariadb(&lost).unwrap_err().contains("Incorrect datetime value"));
    let database = server.database();
    database.mariadb(&LAYOUT.replace("timestamp(3)", "datetime(3)"));
    check(&database.url()).says("good", "time zone", "which no time zone affects");
    let system = MariaDb::in_zone("CET-1CEST,M3.5.0,M10.5.0/3");
    check(&system.database().url()).says(
        "bad",
        "time zone",
        "the time zone of the server's system, CET has daylight saving",
    );
    let system = MariaDb::in_zone("CET-1");
    check(&system.database().url()).says(
        "good",
        "time zone",
        "the time zone of the server's system, CET, without daylight saving",
    );
    check(&servers::mariadb_tls().database().url()).says("good", "time zone", "+02:00, without daylight saving");
}

#[test]
fn rights_that_are_missing_are_named() {
    let database = servers::mariadb().database();
    a_run_works(&database.url());
    let (user, url) = clerk(&database);
    let (name, whom) = (&database.name, format!("{user}@'127.0.0.1'"));
    check(&url).says("bad", "login", "denied");
    database.mariadb(&format!("grant select, update on {name}.shedlock to {whom}"));
    let found = check(&url);
    found.says("bad", "rights", &format!("GRANT INSERT ON shedlock TO {user}"));
    found.says("unwise", "history", "locks work without tokens");
    a_run_fails(&url);
    database.mariadb(&format!("grant insert on {name}.shedlock to {whom}"));
    check(&url).can_lock_but(&[ALWAYS, "history", "take"]);
    database.mariadb(&format!("grant select, insert, delete on {name}.shedlock_history to {whom}"));
    let found = check(&url);
    found.says("unwise", "history", "no right to UPDATE on shedlock_history; locks have tokens, but");
    found.can_lock_but(&[ALWAYS, "history"]);
    database.mariadb(&format!("grant select, insert, update, delete on {name}.shedlock_history to {whom}"));
    check(&url).can_lock_but(&[ALWAYS]);
}

#[test]
fn a_missing_table_that_cannot_be_made_is_in_the_way() {
    let database = servers::mariadb().database();
    let (user, url) = clerk(&database);
    database.mariadb(&format!("grant select, insert, update, delete on {}.* to {user}@'127.0.0.1'", database.name));
    let checked = check(&url);
    checked.says("bad", "table", "ask the database's owner to run: CREATE TABLE IF NOT EXISTS `shedlock` ");
    checked.says("unwise", "history", "ask the database's owner to run: CREATE TABLE IF NOT EXISTS `shedlock_history`");
    a_run_fails(&url);
}

#[test]
fn a_history_of_anothers_costs_the_token_only() {
    let database = servers::mariadb().database();
    database.mariadb("create table shedlock_history (id int, what text)");
    let checked = check(&database.url());
    checked.says("unwise", "history", "is not a table of runs");
    checked.can_lock_but(&[ALWAYS, "history", "take"]);
}

#[test]
fn a_server_that_is_not_there_or_does_not_let_us_in_is_in_the_way() {
    let server = MariaDb::fresh(&[]);
    let database = server.database();
    let wrong = check(&database.login("root:wrong").url());
    wrong.says("bad", "login", "password");
    assert_eq!(wrong.subjects(), ["backend", "address", "login"]);
    server.freeze();
    let place = Place::new();
    let frozen = checked(&finish(&mut on(&place, &database.url(), &["check", "--json", "--backend-timeout", "1s"])));
    frozen.says("bad", "login", "no answer in time");
    server.thaw();
    server.stop();
    check(&database.url()).says("bad", "address", "connection refused");
}

#[test]
fn tls_that_verifies_nothing_is_unwise() {
    let database = servers::mariadb_tls().database().login("clerk:s3cret");
    let with = |query: &str| check(&format!("{}?{query}", database.url_at("127.0.0.1")));
    let authority = certificates().authority();
    let verified = with(&format!("sslmode=verify-full&sslrootcert={authority}"));
    verified.can_lock_but(&[ALWAYS]);
    verified.says("good", "TLS", "TLSv1.3; the server's certificate and name are verified");
    with("sslmode=require").can_lock_but(&["TLS", ALWAYS]);
    with(&format!("sslmode=verify-full&sslrootcert={}", certificates().stranger())).says("bad", "TLS", "not trusted");
}

#[test]
fn a_server_that_is_set_otherwise_than_it_should_be_is_told_of() {
    let server = MariaDb::fresh(&["--sql-mode=", "--wait-timeout=5", "--innodb-flush-log-at-trx-commit=1"]);
    let database = server.database();
    check(&database.url()).can_lock_but(&["sql_mode", "wait_timeout"]);
    // Who may do everything may write all the same, and thinks that all is well.
    server.mariadb("set global read_only = 1");
    check(&database.url()).says("bad", "writable", "the server is read-only");
    let late = MariaDb::with_clock("-1h");
    check(&late.database().url()).says("unwise", "clock", "1h behind this host's");
}
