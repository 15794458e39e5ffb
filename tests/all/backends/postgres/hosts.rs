//! Several servers in one URL: one that is down, frozen, full or a standby is passed over.

use std::time::{Duration, Instant};

use super::{Site, row};
use crate::support::process::Started;
use crate::support::wait_until;
use servers::Postgres;

/// Returns a port on which nobody listens.
fn dead_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_dead_server_is_passed_over() {
    let database = servers::postgres().database();
    let (dead, live) = (dead_port(), servers::postgres().port());
    let name = &database.name;
    for url in [
        format!("postgres://postgres@127.0.0.1:{dead},127.0.0.1:{live}/{name}"),
        format!("postgres://postgres@127.0.0.1:{live},127.0.0.1:{dead}/{name}"),
        format!("postgres://postgres@127.0.0.1,127.0.0.1/{name}?port={dead},{live}"),
        format!("postgres://postgres@/{name}?host=127.0.0.1,127.0.0.1&port={dead},{live}"),
        format!("postgres://postgres@no.such.host.invalid,127.0.0.1:{live}/{name}?target_session_attrs=read-write"),
        format!("postgres://postgres@[::1]:{dead},localhost:{live}/{name}"),
    ] {
        Site::new(&url).works();
    }
}

/// As with psql: the port stays that of the URL.
#[test]
fn the_parameter_host_replaces_the_hosts_and_leaves_the_ports() {
    let database = servers::postgres().database();
    let (dead, live) = (dead_port(), servers::postgres().port());
    let name = &database.name;
    for url in [
        format!("postgres://postgres@no.such.host.invalid:{live}/{name}?host=127.0.0.1"),
        format!("postgres://postgres@a.invalid:{live}/{name}?host=127.0.0.1,localhost"),
        format!("postgres://postgres@a.invalid:{dead},b.invalid:{live}/{name}?host=127.0.0.1,localhost"),
        format!("postgres://postgres@a.invalid:{dead}/{name}?host=127.0.0.1&port={live}"),
    ] {
        Site::new(&url).works();
    }
}

#[test]
fn when_all_are_dead_the_message_names_them() {
    let (one, other) = (dead_port(), dead_port());
    let url = format!("postgres://clerk:s3cret@127.0.0.1:{one},localhost:{other}/ops");
    let begun = Instant::now();
    let finished = Site::new(&url).fails(["--backend-timeout", "1s"], "connection refused");
    assert!(begun.elapsed() >= Duration::from_millis(400), "it was tried only once");
    assert!(finished.stderr.contains(&format!("postgres://127.0.0.1:{one},localhost:{other}/ops")), "{finished:?}");
}

#[test]
fn a_frozen_server_is_passed_over() {
    let frozen = Postgres::fresh(&[]);
    frozen.freeze();
    let database = servers::postgres().database();
    let (frozen_port, live) = (frozen.port(), servers::postgres().port());
    for (one, other) in [(frozen_port, live), (live, frozen_port)] {
        let url = format!("postgres://postgres@127.0.0.1:{one},127.0.0.1:{other}/{}", database.name);
        super::works(&mut Site::new(url).run("job", ["--backend-timeout", "5s", "true"]));
    }
    frozen.thaw();
}

#[test]
fn a_server_that_can_only_be_read_is_passed_over_in_either_order() {
    let primary = servers::postgres();
    let database = primary.database();
    let standby = Postgres::only_read(&database.name);
    for (one, other) in [(standby.port(), primary.port()), (primary.port(), standby.port())] {
        let url = format!("postgres://postgres@127.0.0.1:{one},127.0.0.1:{other}/{}", database.name);
        let site = Site::new(url);
        let job = site.job("job", [""; 0]);
        assert_eq!(row(&database, "job").owner, job.owner);
        assert!(!site.is_free("job"));
        job.end(0).is_silent_with(0);
        assert!(!row(&database, "job").held);
    }
}

#[test]
fn a_failover_to_a_standby_is_followed() {
    let primary = Postgres::fresh(&[]);
    let database = primary.database();
    let bare = Site::new(database.url());
    bare.works();
    let standby = primary.standby();
    assert_eq!(standby.psql("select pg_is_in_recovery()"), "t");
    let ports = [standby.port(), primary.port()].map(|port| format!("127.0.0.1:{port}")).join(",");
    let site = Site::new(format!("postgres://postgres@{ports}/{}", database.name));
    site.works();
    assert!(row(&database, "job").owner.ends_with(":ended"));

    // Alone the standby is no place for a lock.
    let alone = Site::new(format!("postgres://postgres@127.0.0.1:{}/{}", standby.port(), database.name));
    let finished = alone.fails(["--backend-timeout", "500ms"], "cannot execute");
    assert!(finished.stderr.contains("hint: a lock needs a writable server"), "{finished:?}");

    // A job that began before the failover gives its lock back after it; one that begins in between waits for it.
    let job = site.job("long", [""; 0]);
    let owner = job.owner.clone();
    let arrived = || standby.psql("select pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()") == "t";
    wait_until("the row on the standby", || {
        let copy = std::process::Command::new("psql")
            .args(["-XqAt", "-h", &standby.path().display().to_string(), "-p", &standby.port().to_string()])
            .args(["-U", "postgres", "-d", &database.name, "-c", "select locked_by from shedlock where name = 'long'"])
            .output()
            .unwrap();
        (arrived() && String::from_utf8_lossy(&copy.stdout).trim() == owner).then_some(())
    });
    primary.kill();
    let mut early = site.run("early", ["--backend-timeout", "25s", "sh", "-c", "echo > early"]);
    let early = Started::new(&site.place, "early", &mut early);
    wait_until("tries on the standby", || standby.log().contains("read-only transaction").then_some(()));
    standby.psql("select pg_promote()");
    early.finish().is_silent_with(0);
    assert_eq!(site.place.lines("early").len(), 1);
    job.end(0).is_silent_with(0);
    assert!(site.is_free("long"));
}
