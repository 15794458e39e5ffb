//! Answers that never come: between the program and a real server stands a relay that lets a request through, waits for
//! its answer, and breaks the connection instead of passing it on.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::support::{Place, finish};
use servers::stores::{
    EtcdStore, KubernetesStore, MariaDbStore, PostgresStore, RedisStore, Run, Store, ZooKeeperStore,
};
#[cfg(feature = "provider")]
use servers::stores::{MongoDbStore, WireStore};

/// Which requests for the lock lose their answers, counted from 0.
type Plan = fn(usize) -> bool;

/// A port that leads to another one, as long as the test lives.
struct Relay {
    port: u16,
    /// How many requests for the lock have come.
    requests: Arc<AtomicUsize>,
}

impl Relay {
    /// Makes a relay; `needle` is in every request for the lock, and in no other message.
    fn new(server: u16, needle: Vec<u8>, plan: Plan) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (needle, count) = (needle.clone(), Arc::clone(&count));
                thread::spawn(move || relay(&client, server, &needle, plan, &count));
            }
        });
        Self { port, requests }
    }
}

/// Relays one connection until it ends or is broken.
fn relay(client: &TcpStream, server: u16, needle: &[u8], plan: Plan, count: &AtomicUsize) {
    let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
    // The answers go through as long as nobody says that the next one is to be lost.
    let cut = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 65_536];
            while let Ok(length @ 1..) = (&server).read(&mut buffer) {
                if cut.load(Ordering::SeqCst) || (&*client).write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        });
        let mut buffer = [0; 65_536];
        loop {
            match (&*client).read(&mut buffer) {
                Ok(length @ 1..) => {
                    let request = &buffer[..length];
                    if request.windows(needle.len()).any(|part| part == needle)
                        && plan(count.fetch_add(1, Ordering::SeqCst))
                    {
                        cut.store(true, Ordering::SeqCst);
                    }
                    if (&server).write_all(request).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let _ = server.shutdown(Shutdown::Both);
    });
}

struct Site<S> {
    place: Place,
    store: S,
    relay: Relay,
    url: String,
}

const NAME: &str = "behind-the-relay";

impl<S: Store> Site<S> {
    fn new(store: S, needle: Vec<u8>, plan: Plan) -> Self {
        let url = store.url();
        let port = url.split("127.0.0.1:").nth(1).unwrap().split(['/', '?']).next().unwrap();
        let relay = Relay::new(port.parse().unwrap(), needle, plan);
        let url = url.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{}", relay.port));
        // So that no request is about a missing table.
        let place = Place::new();
        finish(place.run("warm", ["true"]).env("SHEDLOCK_BACKEND", store.url())).is_silent_with(0);
        if store.in_one_record() {
            // Nor one that makes the record.
            place.make_lock(NAME, &store.url());
        }
        Self { place, store, relay, url }
    }

    fn run(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.run(NAME, arguments);
        command.env("SHEDLOCK_BACKEND", &self.url);
        command
    }

    /// Returns a command beside `run`.
    fn operate(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.shedlock(arguments);
        command.env("SHEDLOCK_BACKEND", &self.url);
        command
    }

    fn is_held(&self) -> bool {
        self.store.stored(NAME).is_some_and(|stored| stored.is_held())
    }

    #[track_caller]
    fn only_record(&self) -> Run {
        let runs = self.store.history(NAME);
        let [run] = &runs[..] else { panic!("there is not one: {runs:?}") };
        run.clone()
    }

    /// Returns whether a second try looks first, and finds without a write what the one before has done.
    fn looks_first(&self) -> bool {
        self.store.in_one_record() || self.url.starts_with("etcd:")
    }

    /// Returns how long to try: each try may start programs, which takes its time on a busy machine.
    fn patience(&self) -> &'static str {
        if self.store.starts_programs() { "6s" } else { "1s" }
    }

    fn requests(&self) -> usize {
        self.relay.requests.load(Ordering::SeqCst)
    }
}

fn plain() -> Vec<u8> {
    NAME.as_bytes().to_vec()
}

/// Returns the bytes that each request has once, and the record of a Lease does not.
fn asking() -> Vec<u8> {
    b"authorization: ".to_vec()
}

/// Returns the bytes in each write of a Lease.
fn holding() -> Vec<u8> {
    b"holderIdentity".to_vec()
}

/// Returns the name in hexadecimal digits, as MySQL gets it.
fn in_digits() -> Vec<u8> {
    NAME.bytes().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

/// Returns the bytes in every request that writes a lock in ZooKeeper, where it is read before.
fn writing() -> Vec<u8> {
    b"\"owner\":".to_vec()
}

macro_rules! on_server {
    ($server:ident: $store:expr; $($test:ident: $needle:ident, $plan:expr;)*) => {
        mod $server {
            use super::*;
            $(
                #[test]
                fn $test() {
                    super::$test(&Site::new($store, $needle(), $plan));
                }
            )*
        }
    };
}

macro_rules! on_every_server {
    ($($test:ident: $plan:expr;)*) => {
        on_server!(postgres: PostgresStore::new(); $($test: plain, $plan;)*);
        on_server!(mariadb: MariaDbStore::new(); $($test: in_digits, $plan;)*);
        on_server!(redis: RedisStore::new(); $($test: plain, $plan;)*);
    };
}

on_every_server! {
    an_acquisition_whose_answer_is_lost_is_found_to_be_ours: |request| request == 0;
    an_acquisition_that_is_given_up_is_given_back: |_| true;
    a_release_whose_answer_is_lost_is_repeated_without_a_word: |request| request == 1;
    a_release_whose_answers_are_all_lost_has_freed_the_lock: |request| request >= 1;
    a_person_does_not_notice_that_answers_are_lost: |request| request % 2 == 1;
    who_does_not_know_whether_it_is_paused_is_told_so: |request| request >= 1;
}

on_server! {
    kubernetes: KubernetesStore::plain();
    an_acquisition_whose_answer_is_lost_is_found_to_be_ours: holding, |request| request == 0;
    an_acquisition_that_is_given_up_is_given_back: holding, |_| true;
    a_release_whose_answer_is_lost_is_repeated_without_a_word: holding, |request| request == 1;
    // An acquisition is two requests, and the third reads what is to be released.
    a_release_whose_answers_are_all_lost_has_freed_the_lock: asking, |request| request >= 3;
    a_person_does_not_notice_that_answers_are_lost: holding, |request| request % 2 == 1;
    who_does_not_know_whether_it_is_paused_is_told_so: asking, |request| request >= 2;
}

/// Returns the bytes in every request that writes a lock in etcd, which gets the name in base64.
fn putting() -> Vec<u8> {
    b"request_put".to_vec()
}

on_server! {
    etcd: EtcdStore::new();
    an_acquisition_whose_answer_is_lost_is_found_to_be_ours: putting, |request| request == 0;
    an_acquisition_that_is_given_up_is_given_back: putting, |_| true;
    a_release_whose_answer_is_lost_is_repeated_without_a_word: putting, |request| request == 1;
    a_release_whose_answers_are_all_lost_has_freed_the_lock: putting, |request| request >= 1;
    a_person_does_not_notice_that_answers_are_lost: putting, |request| request % 2 == 1;
    who_does_not_know_whether_it_is_paused_is_told_so: putting, |_| true;
}

on_server! {
    zookeeper: ZooKeeperStore::new();
    an_acquisition_whose_answer_is_lost_is_found_to_be_ours: writing, |request| request == 0;
    an_acquisition_that_is_given_up_is_given_back: writing, |_| true;
    a_release_whose_answer_is_lost_is_repeated_without_a_word: writing, |request| request == 1;
    // An acquisition is two requests, and the third reads what is to be released.
    a_release_whose_answers_are_all_lost_has_freed_the_lock: plain, |request| request >= 3;
    a_person_does_not_notice_that_answers_are_lost: writing, |request| request % 2 == 1;
    who_does_not_know_whether_it_is_paused_is_told_so: plain, |request| request >= 2;
}

/// Returns the bytes in every request that writes a document.
#[cfg(feature = "provider")]
fn locking() -> Vec<u8> {
    b"lockedBy".to_vec()
}

#[cfg(feature = "provider")]
on_server! {
    mongodb: MongoDbStore::new();
    an_acquisition_whose_answer_is_lost_is_found_to_be_ours: locking, |request| request == 0;
    an_acquisition_that_is_given_up_is_given_back: locking, |_| true;
    a_release_whose_answer_is_lost_is_repeated_without_a_word: locking, |request| request == 1;
    // An acquisition is two requests, and the third reads what is to be released.
    a_release_whose_answers_are_all_lost_has_freed_the_lock: plain, |request| request >= 3;
    a_person_does_not_notice_that_answers_are_lost: locking, |request| request % 2 == 1;
    who_does_not_know_whether_it_is_paused_is_told_so: plain, |request| request >= 2;
}

/// Returns the bytes in every request to a provider that writes a record.
#[cfg(feature = "provider")]
fn asking_to_write() -> Vec<u8> {
    br#""op":"write""#.to_vec()
}

#[cfg(feature = "provider")]
on_server! {
    example: WireStore::new();
    an_acquisition_whose_answer_is_lost_is_found_to_be_ours: asking_to_write, |request| request == 0;
    an_acquisition_that_is_given_up_is_given_back: asking_to_write, |_| true;
    a_release_whose_answer_is_lost_is_repeated_without_a_word: asking_to_write, |request| request == 1;
    // An acquisition is two requests, and the third reads what is to be released.
    a_release_whose_answers_are_all_lost_has_freed_the_lock: plain, |request| request >= 3;
    a_person_does_not_notice_that_answers_are_lost: asking_to_write, |request| request % 2 == 1;
    who_does_not_know_whether_it_is_paused_is_told_so: plain, |request| request >= 2;
}

fn an_acquisition_whose_answer_is_lost_is_found_to_be_ours<S: Store>(site: &Site<S>) {
    finish(&mut site.run(&["-E", "75", "sh", "-c", "echo $SHEDLOCK_LOCK_TOKEN >> runs"])).is_silent_with(0);
    // In etcd the second acquisition meets the first, and is written again once it has seen whose that was.
    let writes = if site.url.starts_with("etcd:") { 4 } else { 3 };
    assert_eq!(site.requests(), writes, "two to take and one to release");
    assert!(!site.is_held());
    let run = site.only_record();
    assert_eq!(site.place.lines("runs"), [run.token.to_string()]);
    assert_eq!((run.exit_code, run.outcome.as_deref()), (Some(0), Some("success")));
}

fn an_acquisition_that_is_given_up_is_given_back<S: Store>(site: &Site<S>) {
    let ended = finish(&mut site.run(&["--backend-timeout", site.patience(), "touch", "ran"]));
    ended.complains(125, "backend");
    assert!(!site.place.path("ran").exists());
    assert!(site.requests() >= 2);
    assert!(!site.is_held(), "{:?}", site.store.stored(NAME));
    assert!(site.store.stored(NAME).is_none_or(|stored| stored.owner.ends_with(":ended")), "it had been taken");
    assert_eq!(site.store.history(NAME), [], "there was no run");
}

fn a_release_whose_answer_is_lost_is_repeated_without_a_word<S: Store>(site: &Site<S>) {
    finish(&mut site.run(&["-E", "75", "sh", "-c", "exit 7"])).is_silent_with(7);
    // The second release may need no writing.
    let writes = if site.looks_first() { 2 } else { 3 };
    assert_eq!(site.requests(), writes, "one to take and two to release");
    assert!(!site.is_held());
    let run = site.only_record();
    assert_eq!((run.exit_code, run.outcome.as_deref()), (Some(7), Some("failure")));
}

fn a_release_whose_answers_are_all_lost_has_freed_the_lock<S: Store>(site: &Site<S>) {
    let ended = finish(&mut site.run(&["--backend-timeout", site.patience(), "sh", "-c", "exit 7"]));
    match site.url.starts_with("etcd:") {
        // A look finds it free.
        true => ended.is_silent_with(7),
        false => ended.complains(7, "the lock frees when its time is up"),
    }
    assert!(!site.is_held());
}

fn a_person_does_not_notice_that_answers_are_lost<S: Store>(site: &Site<S>) {
    // Its name is known then.
    finish(site.place.run(NAME, ["true"]).env("SHEDLOCK_BACKEND", site.store.url())).is_silent_with(0);
    for (arguments, says, held) in [
        (&["pause", NAME][..], "until it is resumed", true),
        (&["resume", NAME], "it is free", false),
        (&["pause", NAME], "until it is resumed", true),
        (&["unlock", "--force", NAME], "is free now; it was paused by", false),
        (&["forget", NAME], "forgot `", false),
    ] {
        let ended = finish(&mut site.operate(arguments));
        assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{arguments:?}: {ended:?}");
        assert!(ended.stdout.contains(says), "{arguments:?}: {ended:?}");
        assert_eq!(site.is_held(), held, "{arguments:?}: {:?}", site.store.stored(NAME));
    }
    // As long as the relay has lost some.
    let least = if site.looks_first() { 4 } else { 12 };
    assert!(site.requests() >= least, "{}", site.requests());
}

fn who_does_not_know_whether_it_is_paused_is_told_so<S: Store>(site: &Site<S>) {
    let ended = finish(&mut site.operate(&["pause", NAME, "--backend-timeout", site.patience()]));
    ended.complains(125, "backend");
    assert!(ended.stderr.contains("hint: the lock may be paused anyway"), "{ended:?}");
    assert!(site.is_held());
}
