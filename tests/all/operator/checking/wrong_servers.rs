//! What is between, in the place of, or beside the server that was meant.
#![cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};

use super::{checked, on};
use crate::support::{Place, finish, finish_in_time};

/// Returns a URL for each kind that was built in.
fn urls(at: &str) -> Vec<String> {
    let kinds = [
        #[cfg(feature = "postgres")]
        "postgres",
        #[cfg(feature = "mysql")]
        "mysql",
        #[cfg(feature = "redis")]
        "redis",
    ];
    kinds.iter().map(|kind| format!("{kind}://u@{at}/0")).collect()
}

#[test]
fn a_web_server_is_none_that_can_lock() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                // Only who is asked answers; the server of MySQL speaks first, and so does nobody here.
                if stream.read(&mut [0; 512]).is_ok_and(|read| read > 0) {
                    let _ =
                        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                    let _ = stream.shutdown(Shutdown::Write);
                    // What is closed unread may be gone on the other side, too.
                    let _ = stream.read_to_end(&mut Vec::new());
                }
            });
        }
    });
    for url in urls(&at.to_string()) {
        let place = Place::new();
        let found = checked(&finish_in_time(&mut on(&place, &url, &["check", "--json", "--backend-timeout", "1s"])));
        found.says("good", "address", &format!("{at} answers"));
        assert_eq!(found.subjects(), ["backend", "address", "login"], "{url}: {found:?}");
        found.says("bad", "login", "port");
        let seen = &found.found[2][2];
        let known = ["not a PostgreSQL server", "no answer in time", "not a Redis server"];
        assert!(known.iter().any(|known| seen.contains(known)), "{url}: {found:?}");
    }
}

/// As behind a firewall that drops what it does not want: there is a way, but at its end is nobody.
#[test]
fn a_host_that_says_nothing_at_all_is_waited_for_no_longer_than_wanted() {
    let way = "ip link add way type veth peer name nowhere && ip link set nowhere up && ip link set way up && \
               ip address add 10.213.0.1/24 dev way && \
               ip neighbour add 10.213.0.2 lladdr 02:00:00:00:00:02 dev way && exec \"$@\"";
    for url in urls("10.213.0.2") {
        let place = Place::new();
        let check = on(&place, &url, &["check", "--json", "--backend-timeout", "1s"]);
        let launcher = ["unshare", "--map-root-user", "--user", "--net", "sh", "-c", way, "sh"];
        let found = checked(&finish_in_time(&mut crate::support::process::under(&launcher, &check)));
        found.says("bad", "address", "10.213.0.2:");
        found.says("bad", "address", "does not answer: connection timed out");
        assert_eq!(found.subjects(), ["backend", "address"], "{url}");
    }
}

/// The certificate is of `localhost` and 127.0.0.1, but not of the same address as it is written in IPv6.
#[cfg(feature = "postgres")]
#[test]
fn a_certificate_of_another_name_is_in_the_way() {
    use servers::{certificates, postgres_tls};
    let database = postgres_tls().database_of("clerk").login("clerk:s3cret");
    let url = database.url_at("[::ffff:127.0.0.1]");
    let wanted = format!("sslrootcert={}", certificates().authority());
    super::check(&format!("{url}?sslmode=verify-full&{wanted}")).says("bad", "TLS", "name");
    super::check(&format!("{url}?sslmode=verify-ca&{wanted}")).says("good", "TLS", "not its name");
}

#[test]
fn checks_at_once_wait_for_each_other() {
    let place = Place::new();
    let urls = [
        format!("sqlite:{}", place.database().display()),
        #[cfg(feature = "postgres")]
        servers::postgres().database().url(),
        #[cfg(feature = "mysql")]
        servers::mariadb().database().url(),
        #[cfg(feature = "redis")]
        servers::redis().database().url(),
    ];
    for url in urls {
        let check = |_| on(&place, &url, &["check", "--json"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let checks: Vec<_> = (0..4).map(check).collect();
        for check in checks {
            let out = check.wait_with_output().unwrap();
            assert!(out.status.success(), "{url}: {}", String::from_utf8_lossy(&out.stdout));
        }
        let history = finish(&mut on(&place, &url, &["history", "--json"]));
        assert_eq!(history.stdout.trim(), "[]", "no record of a check stays at {url}");
    }
}
