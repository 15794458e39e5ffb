//! Which servers are believed: every `sslmode`, with the right name and another, a certificate that is valid and one that has
//! expired, and an authority that signed it, another one, and none, on each server that speaks TLS.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::support::{Place, finish, finish_in_time};
use servers::stores::{EtcdStore, KubernetesStore, RedisStore, Store, ZooKeeperStore};
use servers::{MariaDb, Postgres, Server, certificates, tls_before};

const MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
/// A name of 127.0.0.1 that the certificates have, and one that they have not.
const NAMES: [&str; 2] = ["localhost", "[::ffff:127.0.0.1]"];
/// Cells at once.
const AT_ONCE: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Authority {
    Known,
    Unknown,
    None,
}

/// What a server does if the client leaves the choice to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// It wants TLS.
    Tls,
    /// The same, and a client with `prefer` that does not believe it comes again without, as libpq does.
    TlsOrNone,
    /// It has none, and the URL is refused.
    Refused,
}

/// One of the cells.
#[derive(Debug, Clone, Copy)]
struct Cell {
    mode: &'static str,
    is_named: bool,
    has_expired: bool,
    authority: Authority,
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for mode in MODES {
            for (is_named, has_expired) in [(true, false), (true, true), (false, false), (false, true)] {
                for authority in [Authority::Known, Authority::Unknown, Authority::None] {
                    cells.push(Self { mode, is_named, has_expired, authority });
                }
            }
        }
        cells
    }

    /// Returns why the server is refused, in words of the message; several faults may be there, of which one is named. Empty if
    /// it is believed.
    fn faults(self, choice: Choice) -> Vec<&'static str> {
        let mode = match (self.mode, choice, self.authority) {
            ("disable", ..) => return vec![""],
            ("allow" | "prefer", Choice::Refused, _) => return vec!["leaves the choice to the server"],
            ("allow" | "prefer" | "require", _, Authority::None) => return Vec::new(),
            // A named authority counts in every mode.
            ("allow" | "prefer" | "require", ..) => "verify-ca",
            (mode, ..) => mode,
        };
        let faults = [
            (self.authority != Authority::Known, "authority that is not trusted"),
            (self.has_expired, "has expired"),
            (mode == "verify-full" && !self.is_named, "for another name"),
        ];
        let faults: Vec<_> = faults.into_iter().filter_map(|(is_fault, words)| is_fault.then_some(words)).collect();
        let comes_again = (self.mode, choice) == ("prefer", Choice::TlsOrNone) && !faults.is_empty();
        if comes_again { vec!["no encryption"] } else { faults }
    }

    fn query(self) -> String {
        let files = certificates();
        match self.authority {
            Authority::Known => format!("sslmode={}&sslrootcert={}", self.mode, files.authority()),
            Authority::Unknown => format!("sslmode={}&sslrootcert={}", self.mode, files.stranger()),
            Authority::None => format!("sslmode={}", self.mode),
        }
    }
}

/// Tries all cells with a run. `url` returns the URL at a host, of the server whose certificate is valid or has expired.
fn judge(choice: Choice, url: impl Fn(&str, bool) -> String + Sync) {
    let (place, cells) = (Place::new(), Cell::all());
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let works = |cell: &Cell| {
        let url = url(NAMES[usize::from(!cell.is_named)], cell.has_expired);
        let url = format!("{url}{}{}", if url.contains('?') { '&' } else { '?' }, cell.query());
        // A server that speaks TLS may have nothing to say to a client that does not.
        let timeout = if cell.mode == "disable" { "1s" } else { "1m" };
        let mut command = place.run("job", ["--backend-timeout", timeout, "-E", "75", "--wait", "5m", "true"]);
        command.env("SHEDLOCK_BACKEND", &url).env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
        let ended = finish_in_time(&mut command);
        let faults = cell.faults(choice);
        let is_right = match ended.code() {
            Some(0) => faults.is_empty() && ended.stderr.is_empty(),
            Some(125) => faults.iter().any(|fault| ended.stderr.contains(fault)),
            _ => false,
        };
        if !is_right {
            wrong.lock().unwrap().push(format!("{cell:?}: {url}: expected {faults:?}: {ended:?}"));
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::SeqCst)) {
                    works(cell);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cells.len(), wrong.join("\n"));
}

/// Tries all cells at ports with TLS before a store's server.
fn judge_before(store: &impl Store, strip: &str) {
    let plain = store.url().replace(strip, "");
    let port = plain.split("127.0.0.1:").nth(1).unwrap().split(['/', '?']).next().unwrap().to_owned();
    let files = certificates();
    let front = |certificate: &str, key: &str| tls_before(port.parse().unwrap(), certificate, key);
    let fronts: [Server; 2] =
        [front(&files.server(), &files.server_key()), front(&files.expired(), &files.expired_key())];
    judge(Choice::Refused, |host, has_expired| {
        plain.replace(&format!("127.0.0.1:{port}"), &format!("{host}:{}", fronts[usize::from(has_expired)].port()))
    });
}

#[test]
fn postgres_is_believed_as_sslmode_says() {
    let files = certificates();
    let (cert, key) = (format!("ssl_cert_file={}", files.expired()), format!("ssl_key_file={}", files.expired_key()));
    let expired = Postgres::fresh_with_tls(&[&cert, &key]);
    // Who may not connect without TLS.
    let databases = [servers::postgres_tls(), &expired].map(|server| server.database().login("postgres:s3cret"));
    judge(Choice::TlsOrNone, |host, has_expired| databases[usize::from(has_expired)].url_at(host));
}

#[test]
fn mariadb_is_believed_as_sslmode_says() {
    let files = certificates();
    let (cert, key) = (format!("--ssl-cert={}", files.expired()), format!("--ssl-key={}", files.expired_key()));
    let expired = MariaDb::fresh_with_tls(&[&cert, &key]);
    let databases = [servers::mariadb_tls(), &expired].map(|server| server.database().login("clerk:s3cret"));
    judge(Choice::Tls, |host, has_expired| databases[usize::from(has_expired)].url_at(host));
}

#[test]
fn redis_is_believed_as_sslmode_says() {
    judge_before(&RedisStore::new(), "");
}

#[test]
fn etcd_is_believed_as_sslmode_says() {
    judge_before(&EtcdStore::new(), "");
}

#[test]
fn zookeeper_is_believed_as_sslmode_says() {
    judge_before(&ZooKeeperStore::new(), "");
}

#[test]
fn kubernetes_is_believed_as_sslmode_says() {
    judge_before(&KubernetesStore::plain(), "sslmode=disable&");
}

/// Kubernetes mounts a Secret as links to files that everybody may read, so that their mode says nothing.
#[test]
fn a_client_key_may_have_any_mode_that_lets_it_be_read() {
    let (place, files) = (Place::new(), certificates());
    let key = place.path("..2026_11_24/tls.key");
    fs::create_dir(place.path("..2026_11_24")).unwrap();
    fs::copy(files.client_key(), &key).unwrap();
    symlink("..2026_11_24", place.path("..data")).unwrap();
    symlink("..data/tls.key", place.path("tls.key")).unwrap();
    let postgres = servers::postgres_tls().database_of("jobs").login("jobs").url_at("127.0.0.1");
    let redis = servers::redis_mutual_tls().database().url();
    for mode in [0o400, 0o600, 0o640, 0o644, 0o666] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        for url in [&postgres, &redis] {
            let (authority, certificate) = (files.authority(), files.client());
            let link = place.path("tls.key");
            let query =
                format!("sslmode=verify-full&sslrootcert={authority}&sslcert={certificate}&sslkey={}", link.display());
            finish(place.run("job", ["true"]).env("SHEDLOCK_BACKEND", format!("{url}?{query}"))).is_silent_with(0);
        }
    }
}
