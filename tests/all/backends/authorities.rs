//! The authorities of the system, which vouch for a server where the URL names none.

use std::fs;
use std::process::Command;

use crate::support::fixtures::by_root;
use crate::support::process::under;
use crate::support::{Finished, Place, finish};
use servers::{MariaDbDatabase, PostgresDatabase, RedisDatabase};

/// Returns a database on a server of each kind. Their certificates are for `localhost` and from a test authority.
fn secure() -> (PostgresDatabase, MariaDbDatabase, RedisDatabase) {
    (
        servers::postgres_tls().database_of("clerk").login("clerk:s3cret"),
        servers::mariadb_tls().database().login("clerk:s3cret"),
        servers::redis_tls().database(),
    )
}

/// Returns the URLs of the databases with these parameters.
fn urls((postgres, mariadb, redis): &(PostgresDatabase, MariaDbDatabase, RedisDatabase), query: &str) -> [String; 3] {
    [postgres.url_at("localhost"), mariadb.url_at("localhost"), redis.url_at("localhost")]
        .map(|url| format!("{url}?{query}"))
}

/// Returns a run with that backend and without a word from the caller on authorities.
fn run(place: &Place, url: &str) -> Command {
    let mut command = place.shedlock(["run", "--name", "job", "--at-most", "1m", "-E", "75", "true"]);
    command.env("SHEDLOCK_BACKEND", url).env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
    command
}

fn is_refused(finished: &Finished) {
    finished.complains(125, "authority that is not trusted");
    assert!(finished.stderr.contains("sslrootcert=FILE"), "{finished:?}");
}

/// Returns a directory with the authority behind a certificate that cannot be read, beside files that are as broken.
fn directory(place: &Place) -> String {
    let whole = fs::read_to_string(servers::certificates().authority()).unwrap();
    let odd = whole.replace("\nMII", "\nAAA");
    assert_ne!(odd, whole);
    fs::create_dir_all(place.path("authorities/directory")).unwrap();
    for (name, text) in [("a.pem", &*odd), ("b.pem", &whole[..100]), ("c.pem", &format!("{odd}{whole}")), ("d.pem", "")]
    {
        fs::write(place.path(&format!("authorities/{name}")), text).unwrap();
    }
    place.path("authorities").display().to_string()
}

#[test]
fn the_authorities_of_the_system_vouch_for_a_server() {
    let (place, databases, certificates) = (Place::new(), secure(), servers::certificates());
    let directory = directory(&place);
    for url in ["sslmode=verify-full", "sslrootcert=system"].iter().flat_map(|query| urls(&databases, query)) {
        for (variable, value) in [
            ("SSL_CERT_FILE", certificates.authority()),
            ("SSL_CERT_FILE", format!("{directory}/c.pem")),
            ("SSL_CERT_DIR", directory.clone()),
            ("SSL_CERT_DIR", format!("/no/such/directory:{directory}")),
        ] {
            println!("{url} {variable}={value}");
            finish(run(&place, &url).env(variable, value)).is_silent_with(0);
        }
        // A broken file is no reason to say anything else than that nobody vouches for the server.
        for file in ["/no/such/file".to_owned(), format!("{directory}/b.pem"), certificates.stranger()] {
            is_refused(&finish(run(&place, &url).env("SSL_CERT_FILE", file)));
        }
        is_refused(&finish(&mut run(&place, &url)));
    }
}

#[test]
fn distributions_keep_authorities_in_a_file_that_is_known() {
    let (place, databases) = (Place::new(), secure());
    fs::create_dir_all(place.path("ssl/certs")).unwrap();
    fs::copy(servers::certificates().authority(), place.path("ssl/certs/ca-certificates.crt")).unwrap();
    let script = format!("mount --bind {} /etc/ssl && exec \"$@\"", place.path("ssl").display());
    for url in urls(&databases, "sslmode=verify-full") {
        let words = ["unshare", "--mount", "sh", "-c", &script, "sh"];
        finish(&mut by_root(&words, &run(&place, &url))).is_silent_with(0);
    }
}

#[test]
fn authorities_are_read_only_where_they_are_asked() {
    let (place, databases, certificates) = (Place::new(), secure(), servers::certificates());
    let named = format!("sslmode=verify-full&sslrootcert={}", certificates.authority());
    let plain = servers::postgres().database();
    let own = format!("sqlite:{}", place.path("own.db").display());
    let without = urls(&databases, &named).into_iter().chain(urls(&databases, "sslmode=require"));
    let cases = without.chain([own, plain.url()]).map(|url| (url, false));
    let cases = cases.chain(urls(&databases, "sslmode=verify-full").map(|url| (url, true)));
    for (url, is_read) in cases {
        let mut command = run(&place, &url);
        command.env("SSL_CERT_FILE", "/no/such/bundle").env("SSL_CERT_DIR", "/no/such/directory");
        let words = ["strace", "-f", "-qq", "-e", "trace=%file", "-o", "trace"];
        let finished = finish(&mut under(&words, &command));
        assert_eq!(finished.code(), Some(if is_read { 125 } else { 0 }), "{url} {finished:?}");
        let trace = place.read("trace");
        assert!(trace.contains("exec"), "{trace}");
        for file in ["/no/such/bundle", "/no/such/directory"] {
            assert_eq!(trace.contains(file), is_read, "{url} {trace}");
        }
        for directory in ["/etc/ssl", "/etc/pki", "/usr/share/ca", "/usr/lib/ssl", "/usr/local/share"] {
            assert!(!trace.contains(directory), "{url} {trace}");
        }
    }
}

#[test]
fn the_list_is_read_once() {
    let (place, databases, certificates) = (Place::new(), secure(), servers::certificates());
    for url in urls(&databases, "sslmode=verify-full") {
        let words = ["strace", "-f", "-qq", "-e", "trace=open,openat", "-o", "trace"];
        let mut command = run(&place, &url);
        finish(&mut under(&words, command.env("SSL_CERT_FILE", certificates.authority()))).is_silent_with(0);
        let trace = place.read("trace");
        assert_eq!(trace.matches(&certificates.authority()).count(), 1, "{url} {trace}");
    }
}

/// The driver for PostgreSQL asks for them in a way of its own, and panics.
#[test]
fn a_driver_that_gets_no_random_numbers_says_so() {
    let (place, databases, certificates) = (Place::new(), secure(), servers::certificates());
    for (url, code) in urls(&databases, "sslmode=verify-full").iter().zip([125, 0, 0]) {
        let inject = "inject=getrandom:error=EPERM";
        let words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=getrandom", "-e", inject];
        let mut command = place.shedlock(["status"]);
        command.env("SHEDLOCK_BACKEND", url).env("SSL_CERT_FILE", certificates.authority());
        let finished = finish(&mut under(&words, &command));
        match code {
            0 => assert_eq!(finished.code(), Some(0), "{finished:?}"),
            code => finished.complains(code, "the system returned no random number: operation not permitted"),
        }
    }
}
