//! Files that are no files: a FIFO into which nobody writes, a device without an end. They are read for `--backend-timeout` and a
//! mebibyte at most, whatever option names them.

use std::fs;
#[cfg(feature = "postgres")]
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

#[cfg(feature = "postgres")]
use crate::support::Finished;
#[cfg(feature = "postgres")]
use crate::support::fixtures::{by_root, change};
use crate::support::{Place, finish_in_time};

fn fifo(place: &Place, name: &str) -> PathBuf {
    let path = place.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    path
}

/// Returns the same command with 300 MB of memory, which is ten times what it needs.
fn bounded(inner: &Command) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 300000; exec \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args());
    for (key, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command.current_dir(inner.get_current_dir().unwrap()).stdin(std::process::Stdio::null());
    command
}

/// Returns a run within a second.
fn run(place: &Place) -> Command {
    let mut command = place.run("a", ["--backend-timeout", "1s", "touch", "ran"]);
    command.env_remove("SHEDLOCK_BACKEND");
    command
}

#[test]
fn a_file_without_an_end_is_left() {
    let place = Place::new();
    let fifo = fifo(&place, "fifo");
    for (variable, option) in [("SHEDLOCK_CONFIG", "--config"), ("SHEDLOCK_BACKEND_FILE", "--backend-file")] {
        for (file, why, hint) in [
            (fifo.as_path(), "its end did not come within 1s", "into which nobody writes: name a file"),
            (Path::new("/dev/zero"), "it has more than 1048576 bytes", "check the path"),
        ] {
            let named = |name: &str| format!("{name} {} cannot be read: {why}", file.display());
            let finished = finish_in_time(&mut bounded(run(&place).env(variable, file)));
            finished.complains(125, &named(variable));
            assert!(finished.stderr.contains(hint), "{finished:?}");
            let mut command = place.shedlock(["status", option]);
            command.arg(file).args(["--backend-timeout", "1s"]).env_remove("SHEDLOCK_BACKEND");
            finish_in_time(&mut bounded(&command)).complains(125, &named(option));
        }
    }
    assert!(!place.path("ran").exists());
}

#[test]
fn a_fifo_in_the_place_of_a_configuration_is_left() {
    let place = Place::new();
    fifo(&place, "config/shedlock/config.toml");
    let finished = finish_in_time(&mut run(&place));
    finished.complains(125, "config/shedlock/config.toml cannot be read: its end did not come within 1s");
}

#[test]
fn a_time_zone_is_a_file() {
    let place = Place::new();
    let fifo = fifo(&place, "fifo");
    for file in [fifo.as_path(), Path::new("/dev/zero")] {
        let zone = format!(":{}", file.display());
        let finished = finish_in_time(&mut bounded(place.shedlock(["status", "--local"]).env("TZ", &zone)));
        finished.complains(125, &format!("--local cannot be used: TZ is `{zone}`"));
    }
}

/// As a shell's `<(…)` passes it on.
#[test]
fn a_pipe_is_read_whenever_its_writer_comes() {
    let place = Place::new();
    for (option, text) in [("--config", "at-least = 0"), ("--backend-file", "sqlite:locks.db")] {
        for writer in ["", "sleep 0.3;", "sleep 0.1; printf ' '; sleep 0.1;"] {
            let line = format!("\"$0\" run --name a --at-most 1m {option} <({writer} echo '{text}') true");
            let mut command = Command::new("bash");
            command.args(["-c", &line, env!("CARGO_BIN_EXE_shedlock")]).current_dir(place.path(""));
            command.env("XDG_CONFIG_HOME", place.path("config")).env_remove("SHEDLOCK_BACKEND");
            if option == "--config" {
                command.env("SHEDLOCK_BACKEND", "sqlite:locks.db");
            }
            finish_in_time(&mut command).is_silent_with(0);
        }
    }
}

/// Returns the URLs of servers at a port, with a parameter that names a file.
#[cfg(feature = "default")]
fn urls(port: u16, file: &str) -> Vec<String> {
    let urls = |parameters: &str| {
        [
            format!("postgres://jobs@127.0.0.1:{port}/ops?{parameters}"),
            format!("mysql://jobs@127.0.0.1:{port}/ops?{parameters}"),
            format!("rediss://127.0.0.1:{port}?{parameters}"),
            format!("redis-sentinel://127.0.0.1:{port}/master?{parameters}"),
            format!("redis-cluster://127.0.0.1:{port}?{parameters}"),
            format!("etcd://127.0.0.1:{port}?{parameters}"),
            format!("zookeeper://127.0.0.1:{port}?{parameters}"),
            format!("kubernetes://127.0.0.1:{port}/jobs?{parameters}"),
            #[cfg(feature = "provider")]
            format!("mongodb://127.0.0.1:{port}/ops?{parameters}"),
        ]
    };
    let mut all = urls(&format!("sslmode=verify-full&sslrootcert={file}")).to_vec();
    all.extend(urls(&format!("sslmode=require&sslcert={file}&sslkey={file}")));
    all.push(format!("kubernetes://127.0.0.1:{port}/jobs?token-file={file}"));
    all
}

/// Asserts that nothing was sent, so nothing can be held.
#[cfg(feature = "postgres")]
#[track_caller]
fn was_not_sent(finished: &Finished, url: &str) {
    finished.complains(125, "");
    assert!(!finished.stderr.contains("may be held"), "{url}: {finished:?}");
}

#[cfg(feature = "default")]
#[test]
fn a_file_of_a_url_that_has_no_end_is_named_and_nothing_is_held() {
    let place = Place::new();
    let fifo = fifo(&place, "fifo");
    // It accepts, and says nothing.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let with = |url: &str| finish_in_time(&mut bounded(run(&place).env("SHEDLOCK_BACKEND", url)));
    std::thread::scope(|scope| {
        for file in [fifo.to_str().unwrap(), "/dev/zero"] {
            let with = &with;
            scope.spawn(move || {
                for url in urls(port, file) {
                    let finished = with(&url);
                    was_not_sent(&finished, &url);
                    let why = format!("{file} cannot be read: ");
                    assert!(finished.stderr.contains(&why), "{url}: {finished:?}");
                }
                for url in urls(closed, file) {
                    was_not_sent(&with(&url), &url);
                }
            });
        }
    });
    assert!(!place.path("ran").exists());
}

#[cfg(feature = "postgres")]
#[test]
fn a_password_file_that_is_none_is_ignored() {
    let place = Place::new();
    let fifo = fifo(&place, "fifo");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://jobs@127.0.0.1:{closed}/ops");
    for file in [fifo.as_path(), Path::new("/dev/zero")] {
        let finished = finish_in_time(&mut bounded(run(&place).env("SHEDLOCK_BACKEND", &url).env("PGPASSFILE", file)));
        was_not_sent(&finished, &url);
        assert!(finished.stderr.contains("connection refused"), "{finished:?}");
    }
}

/// A server for names that says nothing keeps the request from being sent.
#[cfg(feature = "postgres")]
#[test]
fn of_a_request_that_never_left_nothing_is_held() {
    let place = Place::new();
    fs::write(place.path("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
    let server = "import socket, sys, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('127.0.0.1', 53))\nopen('there', 'w')\ntime.sleep(600)\n";
    fs::write(place.path("names.py"), server).unwrap();
    let script = "PATH=$PATH:/usr/sbin:/sbin; ip link set lo up; mount --bind resolv.conf /etc/resolv.conf\n\
                  python3 names.py & names=$!; while [ ! -e there ]; do sleep 0.01; done\n\
                  code=0; \"$@\" || code=$?; kill $names; exit $code";
    let words = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", script, "sh"];
    change("chmod", "0755", &place.path(""));
    for url in [
        "postgres://jobs@db.example/ops",
        #[cfg(feature = "mysql")]
        "mysql://jobs@db.example/ops",
        #[cfg(feature = "redis")]
        "redis://db.example",
        #[cfg(feature = "etcd")]
        "etcd://db.example",
        #[cfg(feature = "zookeeper")]
        "zookeeper://db.example",
        #[cfg(feature = "kubernetes")]
        "kubernetes://db.example/jobs",
        #[cfg(feature = "provider")]
        "mongodb://db.example/ops",
    ] {
        let _ = fs::remove_file(place.path("there"));
        let finished = finish_in_time(&mut by_root(&words, run(&place).env("SHEDLOCK_BACKEND", url)));
        was_not_sent(&finished, url);
    }
}
