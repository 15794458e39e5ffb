//! A Spring application with the Java library as the other party: its statements as its documentation has them, sent by
//! psql.

use super::{Site, row};
use crate::support::finish;
use servers::PostgresDatabase;

const NOW: &str = "timezone('utc', CURRENT_TIMESTAMP)";

/// One instance of the application.
struct Java<'a> {
    database: &'a PostgresDatabase,
    host: &'a str,
}

impl Java<'_> {
    /// Takes the lock as the library does the first time: with an INSERT.
    fn insert(&self, name: &str, seconds: u32) -> bool {
        let host = self.host;
        let until = format!("{NOW} + cast('{seconds} seconds' as interval)");
        self.changes(&format!(
            "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES('{name}', {until}, {NOW}, '{host}') \
             ON CONFLICT (name) DO UPDATE SET lock_until = {until}, locked_at = {NOW}, locked_by = '{host}' \
             WHERE shedlock.name = '{name}' AND shedlock.lock_until <= {NOW} RETURNING 1"
        ))
    }

    /// Takes it as the library does once it knows that the row is there.
    fn update(&self, name: &str, seconds: u32) -> bool {
        let host = self.host;
        self.changes(&format!(
            "UPDATE shedlock SET lock_until = {NOW} + cast('{seconds} seconds' as interval), locked_at = {NOW}, \
             locked_by = '{host}' WHERE name = '{name}' AND lock_until <= {NOW} RETURNING 1"
        ))
    }

    fn extend(&self, name: &str, seconds: u32) -> bool {
        self.changes(&format!(
            "UPDATE shedlock SET lock_until = {NOW} + cast('{seconds} seconds' as interval) WHERE name = '{name}' AND \
             locked_by = '{}' AND lock_until > {NOW} RETURNING 1",
            self.host
        ))
    }

    fn unlock(&self, name: &str, at_least: u32) -> bool {
        let least = format!("locked_at + cast('{at_least} seconds' as interval)");
        self.changes(&format!(
            "UPDATE shedlock SET lock_until = CASE WHEN {least} > {NOW} THEN {least} ELSE {NOW} END \
             WHERE name = '{name}' AND locked_by = '{}' RETURNING 1",
            self.host
        ))
    }

    fn changes(&self, sql: &str) -> bool {
        match self.database.psql(sql).as_str() {
            "1" => true,
            "" => false,
            other => panic!("{other}"),
        }
    }
}

/// A table by the library's DDL, and a role that may only do what the library does.
const DDL: &str = "CREATE TABLE shedlock(name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL, \
    locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))";

fn site_beside_java() -> (PostgresDatabase, Site) {
    let database = servers::postgres().database();
    let role = servers::unique("app");
    database.psql(&format!("{DDL}; create role {role} login; grant select, insert, update on shedlock to {role}"));
    let url = database.login(&role).socket_url();
    (database, Site::new(url))
}

#[test]
fn each_sees_the_others_lock_and_frees_only_its_own() {
    let (database, site) = site_beside_java();
    let java = Java { database: &database, host: "spring-1" };

    assert!(java.insert("job", 60));
    assert!(!site.is_free("job"));
    finish(&mut site.run("job", ["-v", "true"])).complains(75, "held by spring-1 since");
    assert_eq!(row(&database, "job").owner, "spring-1");
    assert!(java.extend("job", 120));
    assert!(row(&database, "job").left > 60);
    assert!(java.unlock("job", 0));
    assert!(site.is_free("job"));

    let job = site.job("job", [""; 0]);
    assert!(!java.insert("job", 60) && !java.update("job", 60));
    assert!(!java.extend("job", 600) && !java.unlock("job", 0));
    assert_eq!((row(&database, "job").owner, row(&database, "job").held), (job.owner.clone(), true));
    job.end(0).is_silent_with(0);
    assert!(java.update("job", 60));
    assert!(!site.is_free("job"));
    assert!(java.unlock("job", 0) && java.insert("job", 60));
}

/// A running application remembers that there is a row, and only updates it.
#[test]
fn an_application_that_remembers_a_forgotten_row_never_gets_the_lock_again() {
    let (database, site) = site_beside_java();
    let java = Java { database: &database, host: "spring-1" };
    let forget = |words: &[&str]| finish(site.place.shedlock(words).env("SHEDLOCK_BACKEND", database.socket_url()));
    assert!(java.insert("job", 60));
    for words in [&["forget", "job"][..], &["forget", "--force", "job"]] {
        forget(words).complains(1, "the lock `job` is held by spring-1 since");
    }
    assert!(java.unlock("job", 0));
    forget(&["forget", "job"]).complains(1, "its last holder, spring-1, was not shedlock");
    assert!(java.update("job", 60) && java.unlock("job", 0));
    assert_eq!(forget(&["forget", "--force", "job"]).code(), Some(0));
    assert!(!java.update("job", 60));
    // One that has just started, and a run of shedlock, make the row anew.
    assert!(site.is_free("job"));
    assert!(java.update("job", 60));
}

#[test]
fn each_keeps_the_others_at_least() {
    let (database, site) = site_beside_java();
    let java = Java { database: &database, host: "spring-1" };

    assert!(java.insert("theirs", 60));
    assert!(java.unlock("theirs", 30));
    assert!(row(&database, "theirs").held);
    assert!(!site.is_free("theirs"));

    finish(&mut site.run("ours", ["--at-least", "30s", "true"])).is_silent_with(0);
    assert!(!java.insert("ours", 60) && !java.update("ours", 60) && !java.unlock("ours", 0));
    assert!(row(&database, "ours").held);
}

#[test]
fn a_lock_that_ran_out_goes_to_the_other() {
    let (database, site) = site_beside_java();
    let java = Java { database: &database, host: "spring-1" };
    let run_out = |name: &str| {
        database.psql(&format!("update shedlock set lock_until = {NOW} - interval '1 ms' where name = '{name}'"));
    };

    assert!(java.insert("theirs", 60));
    run_out("theirs");
    let job = site.job("theirs", [""; 0]);
    // Their late release finds our owner.
    assert!(!java.unlock("theirs", 0));
    assert!(row(&database, "theirs").held);
    job.end(0).is_silent_with(0);

    let job = site.job("ours", [""; 0]);
    run_out("ours");
    assert!(java.update("ours", 60));
    job.end(3).complains(3, "no longer ours");
    let row = row(&database, "ours");
    assert_eq!((row.owner.as_str(), row.held), ("spring-1", true));
}

#[test]
fn waiting_for_java_ends_with_its_release() {
    let (database, site) = site_beside_java();
    let java = Java { database: &database, host: "spring-1" };
    assert!(java.insert("job", 60));
    let mut waiting = crate::support::start(&mut site.run("job", ["-vv", "--wait", "30s", "true"]));
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(waiting.stderr.take().unwrap()));
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("waiting") || line.contains("held by spring-1"), "{line}");
    assert!(java.unlock("job", 0));
    assert!(waiting.wait().unwrap().success());
}
