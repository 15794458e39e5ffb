//! `prove` on servers that are full, away or restarted: it is no burden, and errors are lived through.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use super::{Report, command, prove};
use crate::support::{Place, finish, finish_child, kill, start, wait_until};
use servers::Postgres;

/// Returns how many open connections a process has to a port of this host. The server's own count would have those, too, whose end
/// it has not noticed yet.
fn connections(pid: u32, port: u16) -> usize {
    let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links: Vec<String> =
        links.filter_map(|link| Some(fs::read_link(link.path()).ok()?.to_string_lossy().into_owned())).collect();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let is_open = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[2].ends_with(&format!(":{port:04X}"))
            && fields[3] == "01"
            && links.contains(&format!("socket:[{}]", fields[9]))
    };
    table.lines().skip(1).filter(is_open).count()
}

#[test]
fn it_has_no_more_connections_than_clients() {
    let (place, database) = (Place::new(), servers::postgres().database());
    let mut child = start(&mut command(&place, &database.url(), &["--for", "6s", "--clients", "4"]));
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most.max(connections(child.id(), servers::postgres().port()));
        std::thread::sleep(Duration::from_millis(2));
    }
    Report::of(finish_child(child)).is_kept();
    assert!((2..=4).contains(&most), "{most} connections at once");
}

#[test]
fn a_full_server_is_lived_through() {
    let server = Postgres::fresh(&["max_connections=6", "superuser_reserved_connections=3", "max_wal_senders=0"]);
    server.psql("create role clerk login");
    let database = server.database_of("clerk");
    let report = prove(&Place::new(), &database.login("clerk").url(), &["--for", "10s"]);
    report.is_kept();
    assert!(report.figure("errors").as_u64() > Some(0), "{:?}", report.finished);
    assert!(report.figure("takings")["count"].as_u64() > Some(5), "{:?}", report.finished);
    let refused = server.log().matches("FATAL:  remaining connection slots").count();
    assert!(refused < 60, "it slows down: {refused} refusals");
}

#[test]
fn a_server_that_is_away_cannot_be_asked() {
    let place = Place::new();
    let url = "postgres://clerk@127.0.0.1:1/x";
    let mut command = place.shedlock(["prove", "--backend", url, "--backend-timeout", "1s"]);
    let finished = finish(&mut command);
    assert_eq!(finished.code(), Some(125), "{finished:?}");
    assert!(finished.stderr.starts_with("shedlock: backend postgres://"), "{finished:?}");

    let mut command = place.shedlock(["prove", "--backend", url, "--backend-timeout", "1h"]);
    let child = start(&mut command);
    let pid = i32::try_from(child.id()).unwrap();
    let status = || fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    wait_until("signals that are blocked", || {
        status().lines().any(|line| line.starts_with("SigBlk:") && !line.ends_with("0000000000000000")).then_some(())
    });
    let begun = Instant::now();
    kill(pid, "INT");
    assert_eq!(finish_child(child).status.signal(), Some(2));
    assert!(begun.elapsed() < Duration::from_secs(60), "it does not wait for the server: {:?}", begun.elapsed());
}

#[test]
fn a_server_that_is_restarted_is_lived_through() {
    let server = Postgres::fresh(&[]);
    let (place, database) = (Place::new(), server.database());
    let child = start(&mut command(&place, &database.url(), &["--for", "12s"]));
    let count = "select count(*) from shedlock_history where outcome is distinct from 'void'";
    wait_until("runs", || (database.try_psql(count).ok()?.trim().parse::<u64>().ok()? > 20).then_some(()));
    server.stop();
    server.start();
    let report = Report::of(finish_child(child));
    report.is_kept();
    assert_eq!(report.forgotten(), 0);
    assert!(report.figure("errors").as_u64() > Some(0), "{:?}", report.finished);
    assert_eq!(database.psql(count).trim(), "0");
}
