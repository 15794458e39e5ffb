//! The program alone in an empty root directory: no C library, no /proc, no /dev, no /etc, no /tmp.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::name_server::{Manner, NameServer, leave_the_network};
use super::root::{RUN, Root, programs};
use super::support::process::{Started, children, stat, wait_for_child, wait_for_end, wait_until_it_listens};
use super::support::{Finished, Place, finish, is_alive, kill, wait_until};
use servers::{CLUSTER, ClientCertificates, MariaDb, Postgres, Redis, SERVICE};

/// The shortest job there is where nothing else can be executed.
const JOB: [&str; 3] = ["--", "/shedlock", "--version"];
const VERSION: &str = concat!("shedlock ", env!("CARGO_PKG_VERSION"), "\n");

/// The job ran, and there was nothing to say of it.
#[track_caller]
fn ran(finished: &Finished) {
    assert_eq!((finished.code(), finished.stdout.as_str(), finished.stderr.as_str()), (Some(0), VERSION, ""));
}

fn mode(root: &Root, name: &str) -> u32 {
    fs::metadata(root.path(name)).unwrap().permissions().mode() & 0o7777
}

#[test]
fn it_tells_of_itself() {
    for program in programs() {
        let root = Root::with(&program);
        for (words, begin) in [
            (&["--version"][..], VERSION),
            (&["--help"], "Run a command under a named lock"),
            (&["man", "shedlock-run"], ".ie"),
            (&["completions", "bash"], "__shedlock_words()"),
            (&["schema", "postgres"], "-- The tables that shedlock needs in a PostgreSQL database"),
        ] {
            let finished = finish(&mut root.shedlock(words));
            assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{words:?}");
            assert!(finished.stdout.starts_with(begin), "{words:?}: {}", finished.stdout);
        }
        assert_eq!(fs::read_dir(root.path("")).unwrap().count(), 1);
    }
}

#[test]
fn a_job_runs_under_a_lock_in_the_default_file() {
    for program in programs() {
        let root = Root::with(&program);
        ran(&finish(root.run(["--at-least", "1m"]).args(JOB)));
        finish(root.run(["-E", "75"]).args(JOB)).is_silent_with(75);
        // Others may have something to do below /var, but not with the locks.
        assert_eq!(["var", "var/lib", "var/lib/shedlock"].map(|name| mode(&root, name)), [0o755, 0o755, 0o700]);
        for (words, text) in [
            (&["status"][..], "kept"),
            (&["history", "--local", "--timeline"], "success"),
            (&["check"], "mount /proc where jobs run"),
        ] {
            let finished = finish(&mut root.shedlock(words));
            assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{words:?}");
            assert!(finished.stdout.contains(text), "{words:?}: {}", finished.stdout);
        }
    }
}

#[test]
fn a_user_whom_no_file_knows_needs_a_directory_to_write_to() {
    for program in programs() {
        let root = Root::with(&program);
        let somebody = ["--setuid=65532", "--setgid=65532"];
        let by_somebody = |url: &str| finish(root.unshare(&somebody, RUN).args(JOB).env("SHEDLOCK_BACKEND", url));
        by_somebody("").complains(125, "no home directory for the default one");
        by_somebody("sqlite:/locks.db").complains(125, "/locks.db");
        fs::create_dir(root.path("locks")).unwrap();
        std::os::unix::fs::chown(root.path("locks"), Some(65532), Some(65532)).unwrap();
        ran(&by_somebody("sqlite:/locks/locks.db"));
        let home = finish(root.unshare(&somebody, RUN).args(JOB).env("HOME", "/locks"));
        ran(&home);
        assert_eq!(mode(&root, "locks/.local/state/shedlock"), 0o700);
    }
}

/// A run as the first process of a namespace, and the file that ends the job.
struct Init {
    started: Started,
    pid: i32,
}

impl Init {
    /// `job` is a script; the place is for the output.
    fn start(place: &Place, root: &Root, options: &[&str], job: &str) -> Self {
        Self::start_for("1m", place, root, options, job)
    }

    fn start_for(limit: &str, place: &Place, root: &Root, options: &[&str], job: &str) -> Self {
        let mut command = root.as_init(["run", "--name", "job", "--at-most", limit]);
        command.args(options);
        let started = Started::new(place, "init", command.args(["--", "/busybox", "sh", "-c", job]));
        let pid = wait_for_child(started.pid());
        wait_until("the job to have begun", || root.path("begun").exists().then_some(()));
        Self { started, pid }
    }

    fn finish(self) -> Finished {
        let finished = self.started.finish();
        assert!(!is_alive(self.pid));
        finished
    }
}

fn root_with_shell(program: &std::path::Path) -> Root {
    let root = Root::with(program);
    root.add_shell();
    root.write("dev/null", "");
    root
}

#[test]
fn as_the_first_process_it_passes_signals_on_and_ends_with_the_jobs_code() {
    for program in programs() {
        let (place, root) = (Place::new(), root_with_shell(&program));
        let job = "trap 'exit 7' TERM; echo $PPID > /begun; while :; do /busybox sleep 0.02; done";
        let init = Init::start(&place, &root, &[], job);
        wait_until_it_listens(init.pid);
        wait_until("its parent", || (root.read("begun") == "1\n").then_some(()));
        kill(init.pid, "TERM");
        let finished = init.finish();
        assert_eq!(finished.code(), Some(7), "{finished:?}");
        ran(&finish(root.run(["-E", "75"]).args(JOB)));
    }
}

#[test]
fn as_the_first_process_it_reaps_what_others_have_left() {
    for program in programs() {
        let (place, root) = (Place::new(), root_with_shell(&program));
        // The inner shell's child is an orphan at once, and then a zombie unless somebody reaps it.
        let job = "/busybox sh -c '/busybox sh -c \"until [ -e /die ]; do /busybox sleep 0.02; done\" & :'; \
                   echo > /begun; until [ -e /go ]; do /busybox sleep 0.02; done";
        let init = Init::start(&place, &root, &[], job);
        let all = |parent: i32| {
            let pids = fs::read_dir("/proc").unwrap().flatten();
            let stats = pids.filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?));
            stats.filter(|stat| stat.parent == parent).count()
        };
        wait_until("the orphan to be ours", || (children(init.pid).len() == 2).then_some(()));
        root.write("die", "");
        wait_until("the orphan to be gone", || (all(init.pid) == 1).then_some(()));
        root.write("go", "");
        finish_silently(init, 0);
    }
}

#[track_caller]
fn finish_silently(init: Init, code: i32) {
    init.finish().is_silent_with(code);
}

#[test]
fn as_the_first_process_it_ends_all_of_a_job_whose_time_is_up() {
    for program in programs() {
        let (place, root) = (Place::new(), root_with_shell(&program));
        let daemon = "trap : TERM; echo > /begun; while :; do /busybox sleep 0.02; done";
        let job = format!("/busybox setsid /busybox sh -c '{daemon}' & wait");
        // There is no /proc in which the daemon could be found.
        let options = ["--wait-for", "tree", "--kill-after", "100ms"];
        let init = Init::start_for("2s", &place, &root, &options, &job);
        let daemons = children(wait_for_child(init.pid));
        let finished = init.finish();
        assert_eq!(finished.code(), Some(124), "{finished:?}");
        assert!(daemons.iter().all(|daemon| !is_alive(daemon.pid)));
    }
}

#[test]
fn a_job_with_a_lease_ends_with_the_first_process_that_is_killed() {
    for program in programs() {
        let (place, root) = (Place::new(), root_with_shell(&program));
        let job = "/busybox setsid /busybox sh -c 'echo > /begun; exec /busybox sleep 1000' & wait";
        let init = Init::start(&place, &root, &["--lease", "10s", "-v"], job);
        // The kernel ends what is in a namespace together with its first process, so nobody misses the guardian.
        assert!(
            init.started.stderr().contains("there is no guardian: /proc is not mounted"),
            "{}",
            init.started.stderr()
        );
        let job = wait_for_child(init.pid);
        let daemon = wait_for_child(job);
        kill(init.pid, "KILL");
        wait_for_end(job);
        wait_for_end(daemon);
        init.finish();
    }
}

/// A file for /etc/hosts.
const HOSTS: &str = "127.0.0.1 locks-db\n";

/// The servers' URLs by the name of their certificate, without TLS parameters.
fn by_name(postgres: &Postgres, mariadb: &MariaDb, redis: &Redis) -> [String; 3] {
    let postgres = postgres.database_of("clerk").login("clerk:s3cret").url_at(SERVICE);
    let mariadb = mariadb.database().login("clerk:s3cret").url_at(SERVICE);
    [postgres, mariadb, redis.database().url_at(SERVICE)]
}

fn with(url: &str, parameters: &str) -> String {
    let mark = if url.contains('?') { '&' } else { '?' };
    format!("{url}{mark}{parameters}")
}

fn at(root: &Root, url: &str, options: &[&str]) -> Command {
    let mut command = root.run(options);
    command.args(JOB).env("SHEDLOCK_BACKEND", url);
    command
}

#[test]
fn servers_are_reached_by_tls_and_a_name_in_the_hosts_file() {
    let urls = by_name(servers::postgres_tls(), servers::mariadb_tls(), servers::redis_tls());
    for program in programs() {
        let root = Root::with(&program);
        root.copy(servers::certificates().authority().as_ref(), "ca.crt");
        root.copy(servers::certificates().stranger().as_ref(), "stranger.crt");
        for url in &urls {
            let whole = with(url, "sslmode=verify-full&sslrootcert=/ca.crt");
            finish(&mut at(&root, &whole, &["--backend-timeout", "100ms"])).complains(125, "locks-db");
            root.write("etc/hosts", HOSTS);
            ran(&finish(&mut at(&root, &whole, &["--lease", "10s"])));
            // As the first process, as in a container.
            ran(&finish(root.as_init(RUN).args(["--lease", "10s"]).args(JOB).env("SHEDLOCK_BACKEND", &whole)));
            for (parameters, text) in [
                // The authorities that the program brings along do not have this one, and none is looked for elsewhere.
                ("sslmode=verify-full", "sslrootcert"),
                ("sslmode=verify-full&sslrootcert=/stranger.crt", "certificate"),
                ("sslmode=verify-full&sslrootcert=/nowhere.crt", "/nowhere.crt"),
            ] {
                let finished = finish(&mut at(&root, &with(url, parameters), &[]));
                finished.complains(125, "");
                assert!(finished.stderr.contains(text), "{parameters}: {}", finished.stderr);
            }
            fs::remove_file(root.path("etc/hosts")).unwrap();
        }
    }
}

/// As in a pod of Kubernetes.
const RESOLV: &str = "search ops.svc.cluster.example svc.cluster.example cluster.example\n\
                      nameserver 127.0.0.1\noptions ndots:5\n";

#[test]
fn servers_are_reached_by_tls_and_a_name_that_dns_knows() {
    leave_the_network();
    let full = format!("{SERVICE}.{CLUSTER}");
    let names = NameServer::start(&[&full]);
    let servers = (
        Postgres::fresh_with_tls(&[]),
        MariaDb::fresh_with_tls(&[]),
        Redis::fresh_with_tls(ClientCertificates::Ignored),
    );
    let urls = by_name(&servers.0, &servers.1, &servers.2);
    for program in programs() {
        let root = Root::with(&program);
        root.copy(servers::certificates().authority().as_ref(), "ca.crt");
        root.write("etc/resolv.conf", RESOLV);
        for url in urls.iter().map(|url| with(url, "sslmode=verify-full&sslrootcert=/ca.crt")) {
            for (manner, way) in [(Manner::Whole, "udp"), (Manner::Truncated, "tcp")] {
                names.set(manner);
                ran(&finish(&mut at(&root, &url, &[])));
                let asked = names.asked();
                assert!(asked.contains(&format!("{way} {full}")), "{program:?} {manner:?}: {asked:?}");
            }
            names.set(Manner::Whole);
            // One that is written out in full has few dots too, so the search comes first.
            let whole = url.replacen(SERVICE, &full, 1);
            ran(&finish(&mut at(&root, &whole, &[])));
            let asked = names.asked();
            assert!(
                asked[0].starts_with(&format!("udp {full}.ops.svc")) && asked.contains(&format!("udp {full}")),
                "{asked:?}"
            );
        }
    }
}

#[test]
fn a_name_that_does_not_exist_is_an_error_in_time() {
    leave_the_network();
    let names = NameServer::start(&[]);
    for program in programs() {
        let root = Root::with(&program);
        root.write("etc/resolv.conf", RESOLV);
        for scheme in ["postgres", "mysql", "redis"] {
            let url = format!("{scheme}://jobs@no-such-db.example/0");
            finish(&mut at(&root, &url, &["--backend-timeout", "500ms"])).complains(125, "no-such-db.example");
            assert!(names.asked().contains(&"udp no-such-db.example".to_owned()));
        }
    }
}

#[test]
fn a_name_server_that_is_silent_holds_nothing_up() {
    leave_the_network();
    let names = NameServer::start(&[SERVICE]);
    names.set(Manner::Silent);
    for program in programs() {
        let root = Root::with(&program);
        // It would be asked for five minutes.
        root.write("etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n");
        for scheme in ["postgres", "mysql", "redis"] {
            let url = format!("{scheme}://jobs@{SERVICE}/0");
            let place = Place::new();
            let mut command = at(&root, &url, &["--backend-timeout", "500ms"]);
            // Waits no longer than the tests' patience.
            Started::new(&place, "silent", &mut command).finish().complains(125, SERVICE);
            assert_eq!(names.asked(), [format!("udp {SERVICE}")]);
        }
    }
}

#[test]
fn a_name_server_that_falls_silent_keeps_no_job_beyond_its_lease() {
    leave_the_network();
    let names = NameServer::start(&[SERVICE]);
    let redis = Redis::fresh_with_tls(ClientCertificates::Ignored);
    let url = with(&redis.database().url_at(SERVICE), "sslmode=verify-full&sslrootcert=/ca.crt");
    for program in programs() {
        for (lease, code) in [(true, 123), (false, 9)] {
            let (place, root) = (Place::new(), root_with_shell(&program));
            root.copy(servers::certificates().authority().as_ref(), "ca.crt");
            root.write("etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n");
            names.set(Manner::Whole);
            let job = "echo > /begun; until [ -e /go ]; do /busybox sleep 0.02; done; exit 9";
            let mut command = root.as_init(RUN);
            command.args(["--backend-timeout", "500ms"]).env("SHEDLOCK_BACKEND", &url).args(if lease {
                &["--lease", "3s"][..]
            } else {
                &[]
            });
            let started = Started::new(&place, "init", command.args(["--", "/busybox", "sh", "-c", job]));
            wait_until("the job to have begun", || root.path("begun").exists().then_some(()));
            // An open connection needs no name.
            wait_until("it to hang up", || (redis.cli(&["client", "list"]).lines().count() == 1).then_some(()));
            names.set(Manner::Silent);
            if !lease {
                root.write("go", "");
            }
            let finished = started.finish();
            assert_eq!(finished.code(), Some(code), "{finished:?}");
            let text = if lease { "could not be renewed in time" } else { "did not answer in time" };
            assert!(finished.stderr.contains(text), "{finished:?}");
            redis.cli(&["flushall"]);
        }
    }
}
