//! Storage engines of MariaDB and MySQL without transactions: each is refused by its name, and nothing of the refused acquisition
//! stays.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::support::{Place, finish};
use servers::{MariaDb, MariaDbDatabase, Port};

const LOCKS: &str = "create table shedlock (name varchar(64) character set utf8mb4 collate utf8mb4_bin not null primary key, \
    lock_until timestamp(3) not null default current_timestamp(3), \
    locked_at timestamp(3) not null default current_timestamp(3), locked_by varchar(255) not null)";
const HISTORY: &str = "create table shedlock_history (id bigint unsigned not null auto_increment primary key, \
    name varchar(64) character set utf8mb4 collate utf8mb4_bin not null, \
    owner varchar(255) character set utf8mb4 collate utf8mb4_bin not null, host varchar(255) not null, \
    started_at datetime(3) not null, ended_at datetime(3), exit_code int, outcome varchar(16), index name (name, owner(160)))";

/// Returns the engines without transactions that this server has. Aria is MariaDB's alone.
fn engines(server: &MariaDb) -> Vec<String> {
    let all = "select engine from information_schema.engines where transactions = 'NO' and support <> 'NO' \
        and engine in ('MyISAM', 'Aria', 'MEMORY')";
    let engines: Vec<String> = server.mariadb(all).lines().map(str::to_owned).collect();
    assert!(engines.len() >= 2, "{engines:?}");
    engines
}

/// Returns a database whose tables are kept by these engines.
fn database(locks: &str, history: &str) -> MariaDbDatabase {
    let database = servers::mariadb().database();
    database.mariadb(&format!("{LOCKS} engine = {locks}; {HISTORY} engine = {history}"));
    database
}

fn on(place: &Place, database: &MariaDbDatabase, arguments: &[&str]) -> Command {
    let mut command = place.shedlock(arguments);
    command.env("SHEDLOCK_BACKEND", database.url());
    command
}

fn run(place: &Place, database: &MariaDbDatabase) -> Command {
    on(place, database, &["run", "--name", "a", "--at-most", "1m", "-E", "75", "--", "sh", "-c", "echo >>ran"])
}

/// Asserts that all who would take a lock are told why they may not, and that the lock is free and without a run.
#[track_caller]
fn is_refused(database: &MariaDbDatabase, table: &str, engine: &str) {
    let place = Place::new();
    let said = format!("the table {table} uses {engine}, which has no transactions");
    let remedy = format!("ALTER TABLE {table} ENGINE = InnoDB");
    for command in [
        run(&place, database),
        on(&place, database, &["acquire", "--name", "a", "--at-most", "1m"]),
        on(&place, database, &["pause", "a"]),
        on(&place, database, &["prove", "--for", "2s"]),
        on(&place, database, &["init"]),
    ] {
        // A pause has no record, and so nothing to do with the history.
        if table.ends_with("history") && command.get_args().any(|argument| argument == "pause") {
            continue;
        }
        let mut command = command;
        let refused = finish(&mut command);
        assert_eq!(refused.code(), Some(125), "{command:?}: {refused:?}");
        assert!(refused.stderr.contains(&said), "{command:?}: {refused:?}");
        assert!(refused.stderr.contains(&format!("\nhint: {remedy}\n")), "{command:?}: {refused:?}");
    }
    assert!(!place.path("ran").exists());
    let checked = finish(&mut on(&place, database, &["check"]));
    assert_eq!(checked.code(), Some(1), "{checked:?}");
    assert!(checked.stdout.replace("\n               ", "").contains(&remedy), "{checked:?}");
    assert_eq!(database.mariadb("select name from shedlock where lock_until > utc_timestamp(3)"), "");
    assert_eq!(database.mariadb("select * from shedlock_history where coalesce(outcome, '') <> 'void'"), "");

    // What the hint says helps.
    database.mariadb(&remedy);
    finish(&mut run(&place, database)).is_silent_with(0);
    assert_eq!(place.lines("ran").len(), 1);
    finish(&mut on(&place, database, &["init"]));
}

#[test]
fn a_table_of_locks_without_transactions_is_refused() {
    for engine in engines(servers::mariadb()) {
        is_refused(&database(&engine, "InnoDB"), "shedlock", &engine);
    }
}

#[test]
fn a_history_without_transactions_is_refused() {
    for engine in engines(servers::mariadb()) {
        is_refused(&database("InnoDB", &engine), "shedlock_history", &engine);
    }
}

/// A lock that was taken before, by an earlier version or a Java application, can still be seen and freed.
#[test]
fn a_lock_in_such_a_table_can_be_listed_and_freed() {
    let (place, database) = (Place::new(), database("MyISAM", "MyISAM"));
    database.mariadb("insert into shedlock values ('a', utc_timestamp(3) + interval 1 hour, utc_timestamp(3), 'java')");
    let listed = finish(&mut on(&place, &database, &["status", "a"]));
    assert!(listed.stdout.contains("java"), "{listed:?}");
    let freed = finish(&mut on(&place, &database, &["unlock", "--force", "a"]));
    assert_eq!(freed.code(), Some(0), "{freed:?}");
    assert_eq!(database.mariadb("select lock_until > utc_timestamp(3) from shedlock"), "0");
}

/// A trigger writes into a table without transactions: that is none of the lock's.
#[test]
fn a_trigger_that_writes_elsewhere_is_no_reason_to_refuse() {
    let (place, database) = (Place::new(), database("InnoDB", "InnoDB"));
    database.mariadb("create table audit (name varchar(64)) engine = myisam");
    for table in ["shedlock", "shedlock_history"] {
        database.mariadb(&format!(
            "create trigger on_{table} after insert on {table} for each row insert into audit values (new.name)"
        ));
    }
    finish(&mut run(&place, &database)).is_silent_with(0);
    assert_eq!(database.mariadb("select count(*) from audit"), "2");
}

/// Passes requests on to the server, which does not know one of their variables, as far as it can see. Returns how often that was.
fn without_a_variable(server: u16) -> (Port, Arc<AtomicUsize>) {
    const KNOWN: &[u8] = b"session_track_transaction_info";
    let count = Arc::new(AtomicUsize::new(0));
    let renamed = Arc::clone(&count);
    let port = Port::new("127.0.0.1", move |_, mut client| {
        let mut server = TcpStream::connect(("127.0.0.1", server)).unwrap();
        let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let answering = thread::spawn(move || {
            let _ = io::copy(&mut answers, &mut back);
        });
        let mut bytes = [0; 65536];
        // shedlock sends a request in one piece.
        while let Ok(length @ 1..) = client.read(&mut bytes) {
            if let Some(at) = bytes[..length].windows(KNOWN.len()).position(|part| part == KNOWN) {
                bytes[at] = b'x';
                renamed.fetch_add(1, Ordering::SeqCst);
            }
            server.write_all(&bytes[..length]).unwrap();
        }
        let _ = server.shutdown(Shutdown::Both);
        answering.join().unwrap();
    });
    (port, count)
}

#[test]
fn a_server_that_cannot_tell_grants_the_lock_and_check_finds_the_engine() {
    let port = servers::mariadb().port();
    for engine in ["InnoDB", "MyISAM"] {
        let (place, database) = (Place::new(), database(engine, engine));
        let (front, renamed) = without_a_variable(port);
        let url = database.url().replace(&format!(":{port}/"), &format!(":{}/", front.number));
        for ran in 1..3 {
            finish(run(&place, &database).env("SHEDLOCK_BACKEND", &url)).is_silent_with(0);
            assert_eq!(place.lines("ran").len(), ran);
            assert_eq!(renamed.load(Ordering::SeqCst), ran);
        }
        let checked = finish(on(&place, &database, &["check"]).env("SHEDLOCK_BACKEND", &url));
        assert_eq!(checked.stdout.contains("which has no transactions"), engine == "MyISAM", "{checked:?}");
    }
}
