//! A release that is refused, by a proxy that answers in the server's place or by the server itself, as if that would last: it is
//! tried again until it succeeds, for --backend-timeout.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use crate::support::fixtures::Holder;
use crate::support::relay::{Act, Chunk, Relay};
use crate::support::{Finished, Place, finish, wait_until};
use servers::stores::{EtcdStore, KubernetesStore, Store};

/// Answers of a proxy, each with its status.
const PAGES: [(&str, &str); 6] = [
    ("404 Not Found", ""),
    ("403 Forbidden", ""),
    ("413 Request Entity Too Large", ""),
    ("401 Unauthorized", "WWW-Authenticate: Basic\r\n"),
    ("302 Found", "Location: http://127.0.0.1:1/login\r\n"),
    ("200 OK", ""),
];

/// Returns a page of HTML as the answer.
fn page((status, header): (&str, &str)) -> Vec<u8> {
    let body = format!("<html><body>{status}</body></html>");
    let date = "Date: Sun, 22 Nov 2026 12:00:00 GMT\r\n";
    let head = format!("HTTP/1.1 {status}\r\n{date}{header}Content-Type: text/html\r\nContent-Length: {}", body.len());
    format!("{head}\r\n\r\n{body}").into_bytes()
}

/// Returns a relay's plan: from when `sign` exists, so many requests do not reach the server (they ask it for a path that it
/// does not have), and are answered with a page. `path` is how the path of each request begins.
fn refuses(
    path: &'static str,
    answer: Vec<u8>,
    sign: PathBuf,
    times: usize,
) -> impl Fn(&Chunk<'_>) -> Act + Send + Sync + 'static {
    let (refused, awaited) = (AtomicUsize::new(0), AtomicBool::new(false));
    move |chunk| {
        let is_answer = chunk.bytes.starts_with(b"HTTP/1.");
        if is_answer && awaited.swap(false, SeqCst) {
            return Act::Instead(answer.clone());
        }
        if is_answer || !chunk.has(path.as_bytes()) || !sign.exists() || refused.load(SeqCst) == times {
            return Act::Pass;
        }
        refused.fetch_add(1, SeqCst);
        awaited.store(true, SeqCst);
        let place = chunk.bytes.windows(path.len()).position(|part| part == path.as_bytes()).unwrap();
        let mut bytes = chunk.bytes.to_vec();
        bytes[place + 1] = b'X';
        Act::Instead(bytes)
    }
}

fn run(place: &Place, url: &str, words: &[&str]) -> Command {
    let mut run = place.shedlock([&["run", "--name", "job", "--at-most", "1h"], words].concat());
    run.env("SHEDLOCK_BACKEND", url);
    run
}

fn is_free(place: &Place, url: &str) {
    finish(&mut run(place, url, &["-E", "75", "true"])).is_silent_with(0);
}

/// Asserts that a job's lock, and that of a handle, is released after the release was answered with this page once.
fn is_released_after(url: &str, path: &'static str, answer: &[u8]) {
    for handle in [false, true] {
        let place = Place::new();
        let (relayed, _relay) = Relay::before(url, refuses(path, answer.to_vec(), place.path("over"), 1));
        let long = ["--backend-timeout", "1m"];
        if handle {
            let acquire = ["acquire", "--name", "job", "--at-most", "1h"];
            let acquired = finish(place.shedlock(acquire).env("SHEDLOCK_BACKEND", &relayed));
            std::fs::write(place.path("over"), "").unwrap();
            let release = [&["release", acquired.stdout.trim()], &long[..]].concat();
            finish(place.shedlock(release).env("SHEDLOCK_BACKEND", &relayed)).is_silent_with(0);
        } else {
            let job = [&long[..], &["sh", "-c", "touch over; exit 7"]].concat();
            finish(&mut run(&place, &relayed, &job)).is_silent_with(7);
        }
        is_free(&place, url);
    }
}

#[test]
fn a_release_that_a_proxy_before_etcd_refuses_is_tried_again() {
    for answer in PAGES {
        is_released_after(&EtcdStore::new().url(), "/v3/", &page(answer));
    }
}

#[test]
fn a_release_that_a_proxy_before_kubernetes_refuses_is_tried_again() {
    for answer in PAGES {
        is_released_after(&KubernetesStore::plain().url(), "/apis/", &page(answer));
    }
}

/// What is said in the end is the last refusal; and a stop signal ends the tries.
#[test]
fn a_release_that_is_refused_for_good_says_why() {
    let says = |finished: &Finished| {
        assert_eq!(finished.code(), Some(7), "{finished:?}");
        assert!(finished.stderr.contains("404") && finished.stderr.lines().count() <= 2, "{finished:?}");
    };
    let url = EtcdStore::new().url();
    let refuses = |place: &Place| refuses("/v3/", page(PAGES[0]), place.path("over"), usize::MAX);
    let place = Place::new();
    let (relayed, _relay) = Relay::before(&url, refuses(&place));
    says(&finish(&mut run(&place, &relayed, &["--backend-timeout", "1s", "sh", "-c", "touch over; exit 7"])));

    let (url, place) = (EtcdStore::new().url(), Place::new());
    let (relayed, relay) = Relay::before(&url, refuses(&place));
    let holder = Holder::start(&place, &mut run(&place, &relayed, &["--backend-timeout", "1h"]), "touch over; exit 7");
    let (pid, passed) = (holder.pid(), relay.passed());
    let ended = std::thread::spawn(move || holder.end());
    wait_until("the first refusal", || (relay.passed() > passed).then_some(()));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM).unwrap();
    says(&ended.join().unwrap());
}
