//! Hosts and servers that are not as one would like: clocks that differ, names that only a file knows, nobody there.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::fixtures::{Holder, among_mounts};
use crate::support::{Place, finish};
use servers::stores::{MariaDbStore, PostgresStore, Store};
use servers::{MariaDb, Postgres};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

fn run(place: &Place, url: &str, arguments: &[&str]) -> Command {
    let mut command = place.run("job", arguments);
    command.env("SHEDLOCK_BACKEND", url);
    command
}

/// Asserts that the server's clock alone counts: the lock lasts as long as it should by that clock, and the job is told its end
/// by it.
fn the_servers_clock_counts(store: &dyn Store, off_by: i64) {
    let place = Place::new();
    let ours = || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        i64::try_from(now.as_millis()).unwrap()
    };
    let close = |found: i64, wanted: i64| assert!((found - wanted).abs() < 20_000, "{found} {wanted}");
    let job = "echo $SHEDLOCK_LOCK_UNTIL > until";
    let holder = Holder::start(&place, &mut run(&place, &store.url(), &["--at-least", "30s"]), job);
    let stored = store.stored("job").unwrap();
    close(stored.now, ours() + off_by);
    close(stored.since, stored.now);
    assert!((stored.span() - MINUTE).abs() < 100, "{stored:?}");
    finish(&mut run(&place, &store.url(), &["-E", "75", "true"])).is_silent_with(75);
    holder.end().is_silent_with(0);
    let until = humantime::parse_rfc3339(place.read("until").trim()).unwrap();
    let until = until.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!((i64::try_from(until.as_millis()).unwrap() - stored.until).abs() < 100);
    let stored = store.stored("job").unwrap();
    assert!(stored.is_held() && (stored.span() - MINUTE / 2).abs() < 100, "{stored:?}");
    finish(&mut run(&place, &store.url(), &["-E", "75", "true"])).is_silent_with(75);
}

#[test]
fn a_postgresql_whose_clock_is_an_hour_late_locks_for_as_long_as_any() {
    let server = Postgres::with_clock("-1h");
    the_servers_clock_counts(&PostgresStore(server.database()), -HOUR);
}

#[test]
fn a_mariadb_whose_clock_is_an_hour_early_locks_for_as_long_as_any() {
    let server = MariaDb::with_clock("+1h");
    the_servers_clock_counts(&MariaDbStore(server.database()), HOUR);
}

/// Modules for name lookup that this machine does not have, and that a static program must not load.
#[test]
fn a_name_is_looked_up_in_the_hosts_file_whatever_modules_are_named() {
    let place = Place::new();
    fs::write(place.path("hosts"), "127.0.0.1 locks.example\n").unwrap();
    fs::write(place.path("nsswitch.conf"), "hosts: nonesuch mdns4_minimal [NOTFOUND=return] files\n").unwrap();
    let setup = "mount --bind hosts /etc/hosts; mount --bind nsswitch.conf /etc/nsswitch.conf";
    let (postgres, mariadb, redis) =
        (servers::postgres().database(), servers::mariadb().database(), servers::redis().database());
    for url in [postgres.url_at("locks.example"), mariadb.url_at("locks.example"), redis.url_at("locks.example")] {
        let inner = run(&place, &url, &["-E", "75", "true"]);
        finish(&mut among_mounts(setup, &inner)).is_silent_with(0);
        let unknown = run(&place, &url.replace("locks.", "nobody."), &["--backend-timeout", "1s", "true"]);
        finish(&mut among_mounts(setup, &unknown)).complains(125, "has no address");
    }
}

/// Each of them may have to be waited for.
#[test]
fn of_a_name_with_very_many_addresses_the_first_are_tried() {
    let place = Place::new();
    let hosts: String = (0..400).map(|n| format!("127.1.{}.{} locks.example\n", n / 200, n % 200 + 1)).collect();
    fs::write(place.path("hosts"), hosts).unwrap();
    let listener = TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let met = Arc::new(Mutex::new(BTreeSet::new()));
    let addresses = Arc::clone(&met);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            addresses.lock().unwrap().insert(client.local_addr().unwrap().ip());
        }
    });
    let url = format!("zookeeper://locks.example:{port}");
    let inner = place.shedlock(["status", "job", "--backend", &url, "--backend-timeout", "1s"]);
    finish(&mut among_mounts("mount --bind hosts /etc/hosts", &inner)).complains(125, "closed the connection");
    let met = met.lock().unwrap().len();
    assert!((2..=16).contains(&met), "{met} addresses");
}

#[test]
fn a_server_that_is_not_there_is_an_error_a_skip_or_no_reason_not_to_run() {
    let place = Place::new();
    for url in ["postgres://jobs@127.0.0.1:1/ops", "mysql://jobs@127.0.0.1:1/ops", "redis://127.0.0.1:1"] {
        let asked = |policy| {
            let job = ["--backend-timeout", "300ms", "--on-backend-error", policy, "touch", policy];
            finish(&mut run(&place, url, &job))
        };
        asked("fail").complains(125, "127.0.0.1:1");
        asked("skip").complains(0, "connection refused; the job is not run");
        asked("run").complains(0, "connection refused; the job runs without a lock");
        assert!(!place.path("fail").exists() && !place.path("skip").exists());
        fs::remove_file(place.path("run")).unwrap();
    }
}
