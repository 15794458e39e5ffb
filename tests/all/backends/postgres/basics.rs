//! Acquiring, skipping, releasing, and what psql sees of it.

use super::{Row, Site, quoted, row, row_in};
use crate::support::{finish, finish_child, start, wait_until};
use servers::{PgBouncer, Postgres};

#[test]
fn a_lock_is_a_row_that_is_taken_and_given_back() {
    let database = servers::postgres().database();
    let site = Site::new(database.url());
    let job = site.job("nightly", [""; 0]);

    let held = row(&database, "nightly");
    assert_eq!((&held.owner, held.held), (&job.owner, true));
    assert!((30..=60).contains(&held.left), "{held:?}");
    let parts: Vec<&str> = held.owner.rsplitn(3, ':').collect();
    assert_eq!(parts[1], job.started.pid().to_string(), "HOST:PID:RANDOM");
    finish(&mut site.run("nightly", ["echo", "no"])).is_silent_with(75);
    let mut plain = site.place.shedlock(["run", "--name", "nightly", "--at-most", "1m", "echo", "no"]);
    finish(plain.env("SHEDLOCK_BACKEND", &site.url)).is_silent_with(0);
    assert_eq!(row(&database, "nightly").owner, job.owner);

    let owner = job.owner.clone();
    job.end(0).is_silent_with(0);
    let free = row(&database, "nightly");
    assert_eq!((free.owner, free.held), (format!("{owner}:ended"), false));
    assert!(site.is_free("nightly"));
    assert_eq!(database.psql("select count(*) from shedlock"), "1");
}

#[test]
fn the_table_that_is_made_is_the_java_librarys() {
    let database = servers::postgres().database();
    Site::new(database.url()).works();
    let columns = "select column_name, data_type, character_maximum_length, is_nullable from information_schema.columns \
                   where table_name = 'shedlock' order by ordinal_position";
    assert_eq!(
        database.psql(columns),
        "name|character varying|64|NO\nlock_until|timestamp without time zone||NO\n\
         locked_at|timestamp without time zone||NO\nlocked_by|character varying|255|NO"
    );
    assert_eq!(database.psql("select contype from pg_constraint where conrelid = 'shedlock'::regclass"), "p");
}

#[test]
fn at_least_and_every_keep_the_lock_after_the_job() {
    let database = servers::postgres().database();
    let site = Site::new(database.url());
    finish(&mut site.run("least", ["--at-least", "30s", "true"])).is_silent_with(0);
    let Row { owner, held, left } = row(&database, "least");
    assert!(owner.ends_with(":ended") && held && (1..=30).contains(&left), "{owner} {held} {left}");
    assert!(!site.is_free("least"));

    finish(&mut site.run("every", ["--every", "1h", "true"])).is_silent_with(0);
    let left = row(&database, "every").left;
    assert!((3140..=3240).contains(&left), "{left}");
    finish(&mut site.run("failed", ["--at-least", "30s", "--on-failure", "release", "false"])).is_silent_with(1);
    assert!(site.is_free("failed"));
}

#[test]
fn another_table_is_named_in_the_url() {
    let database = servers::postgres().database();
    database.psql("create schema ops");
    let site = Site::new(format!("{}?table=ops.locks", database.url()));
    let job = site.job("job", [""; 0]);
    assert_eq!(row_in(&database, "ops.locks", "job").owner, job.owner);
    job.end(0).is_silent_with(0);
    assert_eq!(database.psql("select count(*) from pg_tables where tablename = 'shedlock'"), "0");
    // What is a word of SQL is a table all the same, or an error; never something else.
    for table in ["user", "select", "order"] {
        let site = Site::new(format!("{}?table={table}", database.url()));
        let finished = finish(&mut site.run("job", ["true"]));
        if finished.code() != Some(0) {
            finished.complains(125, "");
        }
    }
}

#[test]
fn a_table_in_a_schema_that_does_not_exist_is_an_error_with_the_statement() {
    let database = servers::postgres().database();
    let site = Site::new(format!("{}?table=nowhere.locks", database.url()));
    let finished = site.fails_at_once("there is no schema nowhere for the table nowhere.locks");
    assert!(
        finished.stderr.contains("CREATE SCHEMA nowhere; CREATE TABLE IF NOT EXISTS nowhere.locks (name VARCHAR(64)"),
        "{finished:?}"
    );
}

#[test]
fn a_run_costs_one_connection_and_one_statement_each_way() {
    let server = Postgres::fresh(&["log_statement=all", "log_min_duration_statement=0"]);
    let database = server.database();
    let site = Site::new(database.url());
    site.works();
    let mark = server.log().len();
    let seen = |what: &str| {
        let log = server.log();
        let ours = log[mark..].lines().filter(|line| line.contains(&format!("@{}]", database.name)));
        ours.filter(|line| line.contains(what)).count()
    };
    let costs = |times: usize| {
        for (what, count) in [
            ("parse <unnamed>: WITH", 2),
            ("bind <unnamed>: WITH", 2),
            ("execute <unnamed>: WITH", 2),
            (" parse ", 2),
            (" bind ", 2),
            ("LOG:  execute ", 2),
            // Of the simple protocol, and what SQL can do to a transaction from outside of a statement.
            ("LOG:  statement:", 0),
            ("ERROR", 0),
        ] {
            assert_eq!(seen(what), count * times, "{what}:\n{}", server.log());
        }
    };
    site.works();
    costs(1);
    assert_eq!(seen("connection authorized"), 1);
    // The connection of a job that outlives the idle time is closed, and another one is opened.
    finish(&mut site.run("job", ["sleep", "1.2"])).is_silent_with(0);
    costs(2);
    assert_eq!(seen("connection authorized"), 3);
}

#[test]
fn while_jobs_run_they_have_no_connection() {
    let database = servers::postgres().database();
    let site = Site::new(database.url());
    let jobs: Vec<_> = (0..10).map(|index| site.job(&format!("job {index}"), [""; 0])).collect();
    let connections = || {
        database.psql(
            "select count(*) from pg_stat_activity where application_name = 'shedlock' and datname = current_database()",
        )
    };
    wait_until("the end of all connections", || (connections() == "0").then_some(()));
    assert_eq!(database.psql("select count(*) from shedlock where lock_until > timezone('utc', now())"), "10");
    for job in jobs {
        job.end(0).is_silent_with(0);
    }
    assert_eq!(database.psql("select count(*) from shedlock where lock_until > timezone('utc', now())"), "0");
}

#[test]
fn pgbouncer_in_transaction_mode_is_no_obstacle() {
    let pooler = PgBouncer::fresh(servers::postgres().port(), &["default_pool_size=2"]);
    let database = servers::postgres().database();
    let site = Site::new(pooler.url(&database));
    let children: Vec<_> = (0..40)
        .map(|index| {
            let name = format!("job {index}");
            start(&mut site.run(&name, ["--at-least", "30s", "sh", "-c", &format!("echo {index} >> runs")]))
        })
        .collect();
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    assert_eq!(site.place.lines("runs").len(), 40);
    let herd: Vec<_> =
        (0..20).map(|_| start(&mut site.run("herd", ["--at-least", "30s", "sh", "-c", "echo >> herd"]))).collect();
    for child in herd {
        let finished = finish_child(child);
        assert!(matches!(finished.code(), Some(0 | 75)) && finished.stderr.is_empty(), "{finished:?}");
    }
    assert_eq!(site.place.lines("herd").len(), 1);
    assert!(row(&database, "herd").held);
    // The time zone was set for the transactions only, and no prepared statement is left.
    let through = std::process::Command::new("psql")
        .args(["-XqAt", "-d", &site.url, "-c", "select count(*) from pg_prepared_statements", "-c", "show timezone"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&through.stdout), "0\nUTC\n");
}

#[test]
fn names_are_told_apart_to_the_byte() {
    let database = servers::postgres().database();
    let site = Site::new(database.url());
    let widest = "\u{1F512}".repeat(64);
    let names = [
        "Job",
        "job",
        "a b",
        "a  b",
        "a:b",
        "a/b",
        "a#b",
        "it's",
        "a\"b",
        "a\\b",
        "a%sb",
        "100%",
        "$1",
        "Größe",
        "GRÖSSE",
        "\u{e9}",
        "e\u{301}",
        "\u{1F512}",
        &"x".repeat(64),
        &widest,
        "{table}",
        "';drop table shedlock;--",
        "-",
        "*",
    ];
    for name in names {
        finish(&mut site.run(name, ["--at-least", "30s", "true"])).is_silent_with(0);
    }
    for name in names {
        assert!(!site.is_free(name), "{name}");
        let count = database.psql(&format!("select count(*) from shedlock where name = {}", quoted(name)));
        assert_eq!(count, "1", "{name}");
    }
    assert_eq!(database.psql("select count(*) from shedlock"), names.len().to_string());
    finish(&mut site.run(&"x".repeat(65), ["true"])).complains(125, "at most 64");
}

#[test]
fn a_row_that_was_deleted_or_stolen_is_a_warning_and_the_jobs_code_stays() {
    let database = servers::postgres().database();
    let site = Site::new(database.url());
    for (name, sql) in [
        ("deleted", "delete from shedlock where name = 'deleted'"),
        ("stolen", "update shedlock set locked_by = 'thief' where name = 'stolen'"),
        ("expired", "update shedlock set lock_until = locked_at - interval '1 s' where name = 'expired'"),
    ] {
        let job = site.job(name, [""; 0]);
        database.psql(sql);
        let before = database.psql("select * from shedlock order by name");
        job.end(7).complains(7, "no longer ours");
        assert_eq!(database.psql("select * from shedlock order by name"), before, "it was not ours to touch");
    }
}

#[test]
fn a_lock_without_an_end_is_held() {
    let database = servers::postgres().database();
    let site = Site::new(database.url());
    site.works();
    for (until, at) in [("infinity", "-infinity"), ("9999-12-31", "0044-03-15 BC"), ("infinity", "infinity")] {
        database.psql(&format!("update shedlock set lock_until = '{until}', locked_at = '{at}', locked_by = 'cleo'"));
        finish(&mut site.run("job", ["true"])).is_silent_with(75);
        finish(&mut site.run("job", ["-v", "true"])).complains(75, "held by cleo");
        finish(&mut site.run("job", ["--wait", "1s", "true"])).is_silent_with(75);
    }
    database.psql("update shedlock set lock_until = '-infinity'");
    site.works();
}

#[test]
fn a_table_of_another_kind_is_a_clear_error() {
    let database = servers::postgres().database();
    database.psql(
        "create table bare (name varchar(64), lock_until timestamp, locked_at timestamp, locked_by varchar(255));
         create table short (name varchar(64) primary key, lock_until timestamp, locked_by varchar(255));
         create table dated (name varchar(64) primary key, lock_until text, locked_at text, locked_by varchar(255));
         create table stamped (name varchar(64) primary key, lock_until int8, locked_at int8, locked_by varchar(255));
         create view seen as select name, lock_until, locked_at, locked_by from bare group by 1, 2, 3, 4",
    );
    for (table, text) in [
        ("bare", "ON CONFLICT"),
        ("short", "locked_at"),
        ("dated", "dated"),
        ("stamped", "stamped"),
        ("seen", "seen"),
        ("pg_class", "pg_class"),
    ] {
        Site::new(format!("{}?table={table}", database.url())).fails_at_once(text);
    }
}

#[test]
fn a_table_in_which_a_lock_would_end_before_its_job_is_an_error_and_nothing_stays_held() {
    // The fraction of a second decides whether so few digits lose any of it, and how much.
    for (kind, all) in [("timestamp(0)", false), ("timestamptz(1)", false), ("date", true)] {
        let database = servers::postgres().database();
        database.psql(&format!(
            "create table shedlock (name varchar(64) primary key, lock_until {kind}, locked_at timestamp, locked_by varchar(255))"
        ));
        let site = Site::new(database.url());
        let until = "select extract(epoch from lock_until - locked_at) from shedlock";
        let mut refused = 0;
        for _ in 0..20 {
            let finished = finish(&mut site.run("job", ["--at-least", "1m", "true"]));
            if finished.code() == Some(0) {
                let held: f64 = database.psql(until).parse().unwrap();
                assert!(held >= 60.0 - 0.001, "{kind}: {held}");
            } else {
                finished.complains(125, "stores no milliseconds");
                refused += 1;
            }
            database.psql("update shedlock set lock_until = now() - interval '3 day'");
        }
        assert!(refused == 20 || refused > 0 && !all, "{kind}: {refused}");
    }
}
