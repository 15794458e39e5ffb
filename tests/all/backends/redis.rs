//! The Redis backend, against real servers: what lies in them, who excludes whom, and what becomes of a run when a
//! server is not as it should be.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::fixtures::Holder;
use crate::support::{Finished, Place, finish, finish_child, finish_in_time, start, wait_until};
use servers::{Redis, RedisCluster, RedisDatabase, RedisSentinel, unique};

/// Returns `shedlock run --name NAME --at-most 1m ARGUMENTS` on this URL.
fn on(place: &Place, url: &str, name: &str, arguments: &[&str]) -> Command {
    let mut command = place.run(name, arguments);
    command.env("SHEDLOCK_BACKEND", url);
    command
}

/// Runs `true` under a lock; it says nothing and succeeds.
#[track_caller]
fn works(place: &Place, url: &str) {
    ran(place, url, "works");
}

/// Asserts that the job under this lock is run.
#[track_caller]
fn ran(place: &Place, url: &str, name: &str) {
    finish(&mut on(place, url, name, &["-E", "75", "--", "true"])).is_silent_with(0);
}

/// Asserts that the job under this lock is not run, because another owner holds it.
#[track_caller]
fn skipped(place: &Place, url: &str, name: &str) {
    finish(&mut on(place, url, name, &["-E", "75", "--", "false"])).is_silent_with(75);
}

/// Holds a lock until the holder is ended.
fn hold(place: &Place, url: &str, name: &str) -> Holder {
    Holder::start(place, &mut on(place, url, name, &["--"]), "true")
}

/// Returns the key that a lock has unless the URL says otherwise.
fn key(name: &str) -> String {
    format!("job-lock:default:{name}")
}

fn value(database: &RedisDatabase, name: &str) -> String {
    database.cli(&["get", &key(name)])
}

/// Returns the milliseconds that a lock has left.
fn left(database: &RedisDatabase, name: &str) -> i64 {
    database.cli(&["pttl", &key(name)]).parse().unwrap()
}

/// A job that notes its token, or that it has none.
const NOTE: [&str; 4] = ["--", "sh", "-c", "echo ${SHEDLOCK_LOCK_TOKEN-none} >>tokens"];

/// Returns the tokens that jobs have noted.
fn noted(place: &Place) -> Vec<u64> {
    place.lines("tokens").iter().map(|token| token.parse().unwrap_or_else(|_| panic!("{token} is no token"))).collect()
}

/// Returns the keys beside a lock.
fn beside(name: &str) -> [String; 2] {
    ["token", "history"].map(|what| format!("{{{}}}:{what}", key(name)))
}

/// What the Java library writes.
const JAVA: &str = "ADDED:2026-01-31T18:00:00.000Z@host:0d5a3b8e-6f0e-4a52-9d68-0a1f6f2f0001";

/// A host that stands before a server, counts what it is asked, and may keep its answers to itself.
struct Proxy {
    port: u16,
    connections: Arc<AtomicUsize>,
    /// Every piece that a client sent.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Makes a proxy before the server at a port; `loses` says of each request whether the connection breaks before its answer.
    fn before(port: u16, loses: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy =
            Self { port: listener.local_addr().unwrap().port(), connections: Arc::default(), requests: Arc::default() };
        let (connections, requests) = (Arc::clone(&proxy.connections), Arc::clone(&proxy.requests));
        let loses = Arc::new(loses);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (requests, loses) = (Arc::clone(&requests), Arc::clone(&loses));
                std::thread::spawn(move || pass_on(client.unwrap(), port, &requests, loses.as_ref()));
            }
        });
        proxy
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Passes requests and answers to and fro, one by one.
fn pass_on(mut client: TcpStream, port: u16, requests: &Mutex<Vec<String>>, loses: &dyn Fn(&str) -> bool) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut piece = vec![0; 65536];
    while let Ok(size @ 1..) = client.read(&mut piece) {
        let request = String::from_utf8_lossy(&piece[..size]).into_owned();
        requests.lock().unwrap().push(request.clone());
        server.write_all(&piece[..size]).unwrap();
        let Ok(size @ 1..) = server.read(&mut piece) else { return };
        if loses(&request) || client.write_all(&piece[..size]).is_err() {
            return;
        }
    }
}

// What lies in the server

#[test]
fn a_running_job_has_a_key_with_its_owner_and_an_end() {
    let (place, database) = (Place::new(), servers::redis().database());
    let holder = hold(&place, &database.url(), "a");
    let (value, left) = (value(&database, "a"), left(&database, "a"));
    let (time, owner) = value.strip_prefix("ADDED:").unwrap().split_once('@').unwrap();
    assert!(time.len() == 24 && time.ends_with('Z'), "{value}");
    assert!(owner.contains(&format!(":{}:", holder.pid())), "{value}");
    assert!((30_000..=60_000).contains(&left), "{left}");
    // The server's clock says the same, to the second at least.
    let now = database.cli(&["time"]).lines().next().unwrap().parse::<u64>().unwrap();
    let date = Command::new("date").args(["-u", "-d", time, "+%s"]).output().unwrap();
    let added: u64 = String::from_utf8(date.stdout).unwrap().trim().parse().unwrap();
    assert!(added <= now && now - added < 20, "{added} {now}");
    skipped(&place, &database.url(), "a");
    ran(&place, &database.url(), "b");
    holder.end();
    assert_eq!(database.cli(&["keys", "job-lock:*"]), "");
    ran(&place, &database.url(), "a");
}

#[test]
fn at_least_is_kept_by_the_server_under_an_owner_that_has_ended() {
    let (place, database) = (Place::new(), servers::redis().database());
    finish(&mut on(&place, &database.url(), "a", &["--at-least", "20s", "--", "true"])).is_silent_with(0);
    assert!(value(&database, "a").ends_with(":ended"), "{}", value(&database, "a"));
    assert!((1..=20_000).contains(&left(&database, "a")));
    skipped(&place, &database.url(), "a");
    let short = ["--at-least", "1s", "-E", "75", "--", "true"];
    finish(&mut on(&place, &database.url(), "b", &short)).is_silent_with(0);
    wait_until("the end of at-least", || (value(&database, "b").is_empty()).then_some(()));
    ran(&place, &database.url(), "b");
}

#[test]
fn prefix_environment_and_database_keep_locks_apart() {
    let (place, database) = (Place::new(), servers::redis().database());
    let url = database.url() + "?prefix=p q&environment=test";
    let holder = hold(&place, &url, "a");
    assert_eq!(database.cli(&["keys", "p q:*"]), "p q:test:a");
    assert_eq!(database.cli(&["exists", "{p q:test:a}:token", "{p q:test:a}:history"]), "2");
    skipped(&place, &url, "a");
    ran(&place, &database.url(), "a");
    ran(&place, &servers::redis().database().url(), "a");
    holder.end();
}

#[test]
fn names_of_any_kind_are_locks_of_their_own() {
    let (place, database) = (Place::new(), servers::redis().database());
    let long = "ä".repeat(64);
    let names = ["Job", "job", "a b", "a:b", "a/b", "a#b", "Überweisung", "{a}", "a*", "%d", "a@b", "\"'\\", &long];
    let holders: Vec<Holder> = names.iter().map(|name| hold(&place, &database.url(), name)).collect();
    let mut keys: Vec<String> = database.cli(&["keys", "job-lock:*"]).lines().map(str::to_owned).collect();
    let mut wanted = names.map(key);
    keys.sort();
    wanted.sort();
    assert_eq!(keys, wanted);
    for (name, holder) in names.iter().zip(holders) {
        skipped(&place, &database.url(), name);
        holder.end();
        ran(&place, &database.url(), name);
    }
}

#[test]
fn an_extended_job_keeps_its_lock() {
    let (place, database) = (Place::new(), servers::redis().database());
    let mut command = place.shedlock(["run", "--name", "a", "--at-most", "2s", "--on-expiry", "extend", "--"]);
    command.env("SHEDLOCK_BACKEND", database.url());
    let begun = Instant::now();
    let holder = Holder::start(&place, &mut command, "true");
    while begun.elapsed() < Duration::from_secs(4) {
        assert!(left(&database, "a") > 0);
        std::thread::sleep(Duration::from_millis(50));
    }
    holder.end().is_silent_with(0);
    assert_eq!(value(&database, "a"), "");
}

#[test]
fn at_least_is_counted_from_the_acquisition_and_never_from_a_time_to_come() {
    for (time, least, most) in [("2199-01-01T00:00:00.000Z", 10_000, 20_000), ("2001-01-01T00:00:00.000Z", -2, -2)] {
        let (place, database) = (Place::new(), servers::redis().database());
        let holder = Holder::start(&place, &mut on(&place, &database.url(), "a", &["--at-least", "20s", "--"]), "true");
        let mine = value(&database, "a");
        let (_, owner) = mine.split_once('@').unwrap();
        database.cli(&["set", &key("a"), &format!("ADDED:{time}@{owner}"), "KEEPTTL"]);
        holder.end().is_silent_with(0);
        let left = left(&database, "a");
        assert!((least..=most).contains(&left), "{time}: {left}");
    }
}

#[test]
fn the_scripts_write_and_read_times_as_everybody_does() {
    let script = concat!(
        include_str!("../../../src/backend/redis/common.lua"),
        "return {iso(tonumber(ARGV[2])), whole(parse(ARGV[3]))}"
    );
    for (ms, text) in [
        ("0", "1970-01-01T00:00:00.000Z"),
        ("951782399999", "2000-02-28T23:59:59.999Z"),
        ("951782400000", "2000-02-29T00:00:00.000Z"),
        ("951868800000", "2000-03-01T00:00:00.000Z"),
        ("1709164800001", "2024-02-29T00:00:00.001Z"),
        ("1735689599999", "2024-12-31T23:59:59.999Z"),
        ("1769882400123", "2026-01-31T18:00:00.123Z"),
        ("2147483648000", "2038-01-19T03:14:08.000Z"),
        ("4107542399000", "2100-02-28T23:59:59.000Z"),
        ("4107542400000", "2100-03-01T00:00:00.000Z"),
        ("253402300799999", "9999-12-31T23:59:59.999Z"),
    ] {
        let answer = servers::redis().cli(&["eval", script, "1", "no such key", "x", ms, text]);
        assert_eq!(answer, format!("{text}\n{ms}"));
    }
}

#[test]
fn a_release_that_is_repeated_finds_its_mark_and_changes_nothing() {
    let common = concat!(
        include_str!("../../../src/backend/redis/common.lua"),
        include_str!("../../../src/backend/redis/lock.lua"),
        include_str!("../../../src/backend/redis/history.lua")
    );
    let script = |own| [common, own].concat();
    let close = include_str!("../../../src/backend/redis/close.lua");
    let release = script(include_str!("../../../src/backend/redis/release.lua")) + close;
    let acquire = script(include_str!("../../../src/backend/redis/acquire.lua"));
    let database = servers::redis().database();
    database.cli(&["eval", &acquire, "1", "a", "me", "60000"]);
    let release = |hold| database.cli(&["eval", &release, "1", "a", "me", "me:ended", hold]);
    assert_eq!(release("50000"), "1");
    let left: i64 = database.cli(&["pttl", "a"]).parse().unwrap();
    assert_eq!(release("20000"), "1");
    assert!(database.cli(&["get", "a"]).ends_with("@me:ended"));
    assert!(left - database.cli(&["pttl", "a"]).parse::<i64>().unwrap() < 25_000);
    // The owner that has ended is not the one that takes again.
    assert!(database.cli(&["eval", &acquire, "1", "a", "me", "60000"]).starts_with("0\n"));
}

// Tokens and the history

#[test]
fn a_job_has_the_token_of_its_record() {
    let (place, database) = (Place::new(), servers::redis().database());
    let [token, history] = beside("a");
    for code in ["0", "3"] {
        let job = format!("{}; exit {code}", NOTE[3]);
        finish(&mut on(&place, &database.url(), "a", &["--", "sh", "-c", &job])).is_silent_with(code.parse().unwrap());
    }
    let tokens = noted(&place);
    assert!(tokens[0] < tokens[1], "{tokens:?}");
    assert_eq!(database.cli(&["get", &token]), tokens[1].to_string());
    let records = database.cli(&["zrange", &history, "0", "-1"]);
    for ((record, token), end) in
        records.lines().zip(&tokens).zip([r#"0,"outcome":"success"}"#, r#"3,"outcome":"failure"}"#])
    {
        let head = format!(r#"{{"token":{token},"name":"a","owner":"#);
        assert!(record.starts_with(&head) && record.ends_with(&format!(r#""exit_code":{end}"#)), "{record}");
    }
    assert_eq!([database.cli(&["ttl", &token]), database.cli(&["ttl", &history])], ["-1", "-1"]);
}

#[test]
fn tokens_grow_also_when_the_server_has_forgotten_the_last_one_or_its_clock_is_behind_it() {
    let (place, server) = (Place::new(), Redis::fresh(&[]));
    let url = server.database_number(0).url();
    let note = || finish(&mut on(&place, &url, "a", &NOTE)).is_silent_with(0);
    note();
    note();
    server.cli(&["flushall"]);
    note();
    let ahead = noted(&place)[2] + 3_600_000;
    server.cli(&["set", &beside("a")[0], &ahead.to_string()]);
    note();
    let tokens = noted(&place);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    assert_eq!(tokens[3], ahead + 1);
}

#[test]
fn the_tokens_of_racing_runs_grow_in_the_order_of_their_jobs() {
    let (place, database) = (Place::new(), servers::redis().database());
    let arguments = [["--wait", "1m"].as_slice(), &NOTE].concat();
    let runs: Vec<_> = (0..20).map(|_| start(&mut on(&place, &database.url(), "a", &arguments))).collect();
    for run in runs {
        finish_child(run).is_silent_with(0);
    }
    let tokens = noted(&place);
    assert!(tokens.len() == 20 && tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[test]
fn keys_that_hold_something_else_are_left_alone_and_the_lock_works_without() {
    let (place, database) = (Place::new(), servers::redis().database());
    let [token, history] = beside("a");
    for (set, kept, why) in [
        (["set", &history, "mine"], ["get", &history], "WRONGTYPE"),
        (["set", &token, "mine"], ["get", &token], "the last token is no number"),
        (["set", &token, "9007199254740993"], ["get", &token], "the last token is no number"),
        (["sadd", &token, "mine"], ["smembers", &token], "WRONGTYPE"),
    ] {
        database.cli(&["flushdb"]);
        database.cli(&set);
        for verbosity in ["-q", "-v"] {
            let finished = finish(&mut on(&place, &database.url(), "a", &[[verbosity].as_slice(), &NOTE].concat()));
            assert_eq!(finished.code(), Some(0), "{finished:?}");
            let told =
                finished.stderr.lines().filter(|line| line.contains(&format!("no history in {history}"))).count();
            assert_eq!(told, usize::from(verbosity == "-v"), "{finished:?}");
            assert_eq!(finished.stderr.contains(why), verbosity == "-v", "{finished:?}");
        }
        assert_eq!(database.cli(&kept), set[2]);
        assert_eq!(value(&database, "a"), "");
    }
    assert!(place.lines("tokens").iter().all(|token| token == "none"));
}

#[test]
fn a_user_without_the_keys_beside_the_lock_has_the_lock_and_no_token() {
    let (place, server) = (Place::new(), Redis::fresh_with_users());
    let rights: Vec<&str> = RIGHTS.split(' ').collect();
    let proxy = Proxy::before(server.port(), |_| false);
    let url = format!("redis://jobs:pw@127.0.0.1:{}", proxy.port);
    let grant = |keys: &[&str], less: &str| {
        server.cli(&["acl", "deluser", "jobs"]);
        let rights: Vec<&str> = rights.iter().copied().filter(|right| *right != less).collect();
        server.cli(&[["acl", "setuser", "jobs", "on", ">pw"].as_slice(), keys, &rights].concat());
        server.cli(&["flushall"]);
    };
    let both = ["~job-lock:*", "~{job-lock:*"];
    grant(&both, "");
    finish(&mut on(&place, &url, "a", &NOTE)).is_silent_with(0);
    assert_eq!(noted(&place).len(), 1);
    let history: Vec<&str> = HISTORY_RIGHTS.split(' ').collect();
    for (keys, less) in [(&both[..1], ""), (&both, history[0]), (&both, history[1])] {
        grant(keys, less);
        let before = proxy.requests().len();
        finish(&mut on(&place, &url, "a", &NOTE)).is_silent_with(0);
        // It is refused once, and not asked for again.
        let requests = proxy.requests().split_off(before);
        let asked = requests.iter().filter(|request| request.contains("EVALSHA")).count();
        assert_eq!(asked, if less.is_empty() { 3 } else { 2 }, "{requests:?}");
        let loud = finish(&mut on(&place, &url, "a", &[["-v"].as_slice(), &NOTE].concat()));
        let hint = "ACL SETUSER USER ~{job-lock:default:* +get +set +zadd +zrange +zrem +zremrangebyrank";
        assert_eq!(loud.code(), Some(0), "{loud:?}");
        assert!(loud.stderr.contains("no history in {job-lock:default:a}:history: "), "{loud:?}");
        assert_eq!(loud.stderr.matches(hint).count(), 1, "{loud:?}");
    }
    assert_eq!(place.lines("tokens")[1..], ["none"; 6]);
    assert!(!server.cli(&["keys", "*"]).contains("token"));
}

#[test]
fn a_token_is_drawn_also_where_no_runs_are_remembered() {
    let script = |own| {
        let common = concat!(
            include_str!("../../../src/backend/redis/common.lua"),
            include_str!("../../../src/backend/redis/lock.lua"),
            include_str!("../../../src/backend/redis/history.lua")
        );
        [common, own].concat()
    };
    let acquire = script(include_str!("../../../src/backend/redis/acquire.lua"));
    let database = servers::redis().database();
    let take = |owner: &str| {
        database
            .cli(&["eval", &acquire, "3", "a", "h", "t", owner, "60000", "0", "name"])
            .lines()
            .nth(2)
            .unwrap()
            .to_owned()
    };
    let first = take("me");
    assert_eq!(database.cli(&["get", "t"]), first);
    assert!(take("me") > first);
    assert_eq!(database.cli(&["exists", "h"]), "0");
}

// The Java library, and whatever else may lie there

#[test]
fn a_java_application_and_we_exclude_each_other() {
    let (place, database) = (Place::new(), servers::redis().database());
    let lock = || database.cli(&["set", &key("a"), JAVA, "NX", "PX", "60000"]);
    assert_eq!(lock(), "OK");
    skipped(&place, &database.url(), "a");
    let verbose = finish(&mut on(&place, &database.url(), "a", &["-v", "--", "false"]));
    assert!(verbose.stderr.contains("held by host:0d5a"), "{verbose:?}");
    assert!(verbose.stderr.contains("since 2026-01-31T18:00:00.000Z"), "{verbose:?}");
    assert_eq!(value(&database, "a"), JAVA);
    // Its at-least.
    database.cli(&["set", &key("a"), JAVA, "XX", "PX", "50000"]);
    skipped(&place, &database.url(), "a");
    database.cli(&["del", &key("a")]);
    let holder = hold(&place, &database.url(), "a");
    assert_eq!(lock(), "");
    holder.end();
    assert_eq!(lock(), "OK");
}

#[test]
fn what_another_has_taken_meanwhile_is_left_alone() {
    for what in [&["del"] as &[&str], &["flushdb"]] {
        let (place, database) = (Place::new(), servers::redis().database());
        let holder = hold(&place, &database.url(), "a");
        if what == ["flushdb"] {
            database.cli(what);
        } else {
            database.cli(&["del", &key("a")]);
        }
        database.cli(&["set", &key("a"), JAVA, "NX", "PX", "60000"]);
        let ended = holder.end();
        assert!(ended.stderr.contains("no longer ours"), "{ended:?}");
        assert_eq!(value(&database, "a"), JAVA);
    }
}

#[test]
fn an_owner_that_only_ends_like_ours_is_another() {
    let (place, database) = (Place::new(), servers::redis().database());
    let holder = hold(&place, &database.url(), "a");
    let mine = value(&database, "a");
    let other = mine.replacen('@', "@x@", 1);
    database.cli(&["set", &key("a"), &other, "PX", "60000"]);
    let ended = holder.end();
    assert!(ended.stderr.contains("no longer ours"), "{ended:?}");
    assert_eq!(value(&database, "a"), other);
}

#[test]
fn a_flush_under_a_running_job_is_told_as_a_lost_lock() {
    let (place, database) = (Place::new(), servers::redis().database());
    let script = "redis-cli -s \"$0\" -n \"$1\" flushdb >flushed";
    let socket = servers::redis().path().join("socket");
    let number = database.number.to_string();
    let job = ["--", "sh", "-c", script, socket.to_str().unwrap(), &number];
    let finished = finish(&mut on(&place, &database.url(), "a", &job));
    assert_eq!(place.read("flushed"), "OK\n");
    assert!(finished.stderr.contains("no longer ours"), "{finished:?}");
    assert_eq!(value(&database, "a"), "");
}

#[test]
fn a_value_of_another_form_is_held_and_another_type_is_an_error() {
    let (place, database) = (Place::new(), servers::redis().database());
    database.cli(&["set", &key("a"), "mine"]);
    skipped(&place, &database.url(), "a");
    let verbose = finish(&mut on(&place, &database.url(), "a", &["-v", "--", "false"]));
    assert!(verbose.stderr.contains("held by mine"), "{verbose:?}");
    assert_eq!(left(&database, "a"), -1);
    database.cli(&["lpush", &key("b"), "x"]);
    finish(&mut on(&place, &database.url(), "b", &["true"])).complains(125, "holds something other than a lock");
}

// The network

#[test]
fn a_run_is_one_request_to_take_and_one_to_release() {
    let (place, database) = (Place::new(), servers::redis().database_number(0));
    let name = unique("count");
    ran(&place, &database.url(), &name);
    let proxy = Proxy::before(servers::redis().port(), |_| false);
    let url = format!("redis://127.0.0.1:{}", proxy.port);
    ran(&place, &url, &name);
    let requests = proxy.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(requests.iter().all(|request| request.contains("EVALSHA")), "{requests:?}");
    assert_eq!(proxy.connections.load(Ordering::SeqCst), 1);
    // A skip is one request.
    database.cli(&["set", &key(&name), JAVA, "PX", "60000"]);
    skipped(&place, &url, &name);
    assert_eq!(proxy.requests().len(), 3);
    database.cli(&["del", &key(&name)]);
}

#[test]
fn an_answer_that_is_lost_does_no_harm() {
    for (lost, at_least) in [(0, "0"), (1, "0"), (1, "10s")] {
        let (place, database) = (Place::new(), servers::redis().database());
        ran(&place, &database.url(), "warm");
        let asked = AtomicUsize::new(0);
        let proxy = Proxy::before(servers::redis().port(), move |request| {
            request.contains("EVALSHA") && asked.fetch_add(1, Ordering::SeqCst) == lost
        });
        let url = format!("redis://127.0.0.1:{}/{}", proxy.port, database.number);
        let job = ["--at-least", at_least, "-E", "75", "--", "sh", "-c", "echo >>job"];
        finish(&mut on(&place, &url, "a", &job)).is_silent_with(0);
        assert_eq!(place.lines("job").len(), 1);
        assert_eq!(value(&database, "a").is_empty(), at_least == "0", "{lost}");
        assert_eq!(proxy.connections.load(Ordering::SeqCst), 2);
    }
}

#[test]
fn a_unix_socket_leads_to_the_server() {
    let (place, database) = (Place::new(), servers::redis().database());
    let socket = servers::redis().path().join("socket");
    let url = format!("redis+unix://{}?db={}", socket.display(), database.number);
    let holder = hold(&place, &url, "a");
    assert!(value(&database, "a").starts_with("ADDED:"));
    skipped(&place, &database.url(), "a");
    holder.end();
    let users = servers::redis_users();
    let socket = users.path().join("socket");
    works(&place, &format!("redis+unix://clerk:s3cret@{}", socket.display()));
    let refused = finish(&mut on(&place, &format!("redis+unix://{}", socket.display()), "a", &["true"]));
    refused.complains(125, "requires a password");
    let missing = on(&place, "redis+unix:///no/such/socket", "a", &["--backend-timeout", "200ms", "true"]);
    finish(&mut { missing }).complains(125, "the socket does not exist");
}

#[test]
fn several_hosts_are_tried_and_the_master_is_found() {
    let place = Place::new();
    let master = Redis::fresh(&[]);
    let replica = Redis::fresh(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    wait_until("the replica", || replica.cli(&["info", "replication"]).contains("master_link_status:up").then_some(()));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("redis://127.0.0.1:{nobody},127.0.0.1:{},127.0.0.1:{}", replica.port(), master.port());
    works(&place, &url);
    // A replica that still shows a lock, or does not show it yet, has no say: neither held nor lost.
    master.cli(&["set", &key("a"), JAVA, "PX", "60000"]);
    wait_until("the copy", || (replica.cli(&["get", &key("a")]) == JAVA).then_some(()));
    let alone = format!("redis://127.0.0.1:{}", replica.port());
    for name in ["a", "b"] {
        let asked = finish(&mut on(&place, &alone, name, &["--backend-timeout", "300ms", "--", "true"]));
        asked.complains(125, "the server is a replica");
    }
}

#[test]
fn a_server_that_restarts_has_forgotten_the_scripts_and_is_taught_again() {
    let (place, server) = (Place::new(), Redis::fresh(&["--appendonly", "yes"]));
    let url = server.database_number(0).url();
    let holder = hold(&place, &url, "a");
    server.stop();
    server.start();
    skipped(&place, &url, "a");
    holder.end();
    ran(&place, &url, "a");
    // A connection that broke while the job ran is opened again for the release.
    let holder = hold(&place, &url, "a");
    server.cli(&["client", "kill", "type", "normal"]);
    server.cli(&["script", "flush"]);
    holder.end();
    ran(&place, &url, "a");
}

#[test]
fn a_server_that_is_down_is_waited_for_and_then_told() {
    let (place, server) = (Place::new(), Redis::fresh(&[]));
    let url = server.database_number(0).url();
    server.stop();
    let refused = finish_in_time(&mut on(&place, &url, "a", &["--backend-timeout", "500ms", "--", "true"]));
    refused.complains(125, "connection refused");
    let patient = start(&mut on(&place, &url, "a", &["--backend-timeout", "20s", "--", "true"]));
    server.start();
    finish_child(patient).is_silent_with(0);
}

#[test]
fn a_frozen_server_is_an_error_after_the_timeout() {
    let (place, server) = (Place::new(), Redis::fresh(&[]));
    server.freeze();
    let begun = Instant::now();
    let url = server.database_number(0).url();
    finish_in_time(&mut on(&place, &url, "a", &["--backend-timeout", "2s", "--", "true"])).complains(125, "no answer");
    assert!(begun.elapsed() > Duration::from_millis(1500), "{:?}", begun.elapsed());
    server.thaw();
    ran(&place, &url, "b");
}

#[test]
fn a_full_server_is_waited_for_like_a_held_lock() {
    let (place, server) = (Place::new(), Redis::fresh(&["--maxclients", "1"]));
    let database = server.database_number(0);
    for login in [database.clone(), database.login(":unused")] {
        let url = login.url();
        let guest = wait_until("a place", || {
            let mut guest = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
            let mut answer = [0; 5];
            (guest.write_all(b"PING\r\n").is_ok() && guest.read_exact(&mut answer).is_ok() && &answer == b"+PONG")
                .then_some(guest)
        });
        let full = finish(&mut on(&place, &url, "a", &["--backend-timeout", "500ms", "--", "true"]));
        full.complains(125, "no room for another client");
        if login.url() == database.url() {
            let patient = start(&mut on(&place, &url, "a", &["--backend-timeout", "20s", "--", "true"]));
            drop(guest);
            finish_child(patient).is_silent_with(0);
        }
    }
}

#[test]
fn a_server_without_memory_gives_locks_back_and_knows_who_holds_them() {
    let (place, server) = (Place::new(), Redis::fresh(&[]));
    let url = server.database_number(0).url();
    let holder = hold(&place, &url, "a");
    server.cli(&["config", "set", "maxmemory", "1"]);
    skipped(&place, &url, "a");
    let short = ["--backend-timeout", "300ms", "--", "true"];
    finish(&mut on(&place, &url, "b", &short)).complains(125, "out of memory");
    holder.end().is_silent_with(0);
    assert_eq!(server.cli(&["exists", &key("a")]), "0");
    let [token, history] = beside("a");
    let closed = || server.cli(&["zrange", &history, "-1", "-1"]).contains(r#""outcome":"success""#);
    assert!(closed() && server.cli(&["exists", &token]) == "1");
    // Also a lock that stays held, and one that somebody has deleted.
    for deleted in [false, true] {
        server.cli(&["config", "set", "maxmemory", "0"]);
        let arguments = ["--at-least", "30s", "--on-failure", "at-least", "--"];
        let holder = Holder::start(&place, &mut on(&place, &url, "a", &arguments), "true");
        server.cli(&["config", "set", "maxmemory", "1"]);
        if deleted {
            server.cli(&["del", &key("a")]);
            assert!(holder.end().stderr.contains("no longer ours"));
            assert_eq!(server.cli(&["exists", &key("a")]), "0");
        } else {
            holder.end().is_silent_with(0);
            assert!(server.cli(&["get", &key("a")]).ends_with(":ended"));
            server.cli(&["del", &key("a")]);
        }
        assert!(closed(), "{deleted}");
    }
}

// Users and passwords

/// The rights that the hint names.
const RIGHTS: &str =
    "+eval +evalsha +select +time +get +set +setrange +del +pttl +pexpire +zadd +zrange +zrem +zremrangebyrank";

/// Those among them without which locks work and nothing is recorded.
const HISTORY_RIGHTS: &str = "+zadd +zrange +zrem +zremrangebyrank";

#[test]
fn a_user_needs_the_rights_that_the_hint_names_and_all_of_them() {
    let (place, server) = (Place::new(), Redis::fresh_with_users());
    let rights: Vec<&str> = RIGHTS.split(' ').collect();
    let grant = |rights: &[&str]| {
        server.cli(&["acl", "deluser", "jobs"]);
        server.cli(&[["acl", "setuser", "jobs", "on", ">pw", "~job-lock:*"].as_slice(), rights].concat());
        server.cli(&["script", "flush"]);
        server.cli(&["flushall"]);
    };
    let url = server.database_number(1).login("jobs:pw").url();
    // Take, release, keep, skip and renew.
    let all = || -> Vec<Finished> {
        let mut long =
            place.shedlock(["run", "--name", "c", "--at-most", "1s", "--on-expiry", "extend", "sleep", "1.2"]);
        vec![
            finish(&mut on(&place, &url, "a", &["true"])),
            finish(&mut on(&place, &url, "b", &["--at-least", "10s", "true"])),
            finish(&mut on(&place, &url, "b", &["true"])),
            finish(long.env("SHEDLOCK_BACKEND", &url)),
        ]
    };
    grant(&rights);
    for finished in all() {
        finished.is_silent_with(0);
    }
    for left_out in rights.iter().filter(|right| !HISTORY_RIGHTS.contains(*right)) {
        let rest: Vec<&str> = rights.iter().copied().filter(|right| right != left_out).collect();
        grant(&rest);
        let complaints: Vec<Finished> = all().into_iter().filter(|finished| !finished.stderr.is_empty()).collect();
        assert!(!complaints.is_empty(), "{left_out} is not needed");
        for complaint in complaints {
            assert!(complaint.stderr.contains("lacks rights"), "{left_out}: {complaint:?}");
            assert!(
                complaint.stderr.contains(&format!("~job-lock:* ~{{job-lock:* {RIGHTS}")),
                "{left_out}: {complaint:?}"
            );
        }
    }
    grant(&rights);
    let elsewhere = finish(&mut on(&place, &(url + "?prefix=other"), "a", &["true"]));
    elsewhere.complains(125, "lacks rights");
}

#[test]
fn a_wrong_password_is_an_error_at_once_and_none_is_ever_shown() {
    let (place, server) = (Place::new(), servers::redis_users());
    let database = server.database_number(0);
    for (login, why) in [
        (database.login("clerk:wr0ng"), "rejects this user"),
        (database.login("nobody:wr0ng"), "rejects this user"),
        (database.clone(), "requires a password"),
        (database.login("reader:s3cret"), "lacks rights"),
    ] {
        let words = ["-vv", "--backend-timeout", "1h", "--", "true"];
        let finished = finish_in_time(&mut on(&place, &login.url(), "a", &words));
        assert_eq!(finished.code(), Some(125), "{finished:?}");
        assert!(finished.stderr.contains(why), "{finished:?}");
        assert!(!finished.stderr.contains("wr0ng") && !finished.stderr.contains("s3cret"), "{finished:?}");
    }
    finish(&mut on(&place, &servers::redis().database().login(":s3cret").url(), "a", &["true"]))
        .complains(125, "has no password");
    let url = format!("redis://clerk@127.0.0.1:{}", server.port());
    finish(on(&place, &url, "a", &["true"]).env("SHEDLOCK_BACKEND_PASSWORD", "s3cret")).is_silent_with(0);
    let holder = hold(&place, &database.login("clerk:s3cret").url(), "a");
    let line = std::fs::read(format!("/proc/{}/cmdline", holder.pid())).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains("s3cret"));
    let ended = holder.end();
    assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
}

#[test]
fn a_database_that_is_not_there_is_an_error() {
    let place = Place::new();
    let url = servers::redis().database_number(9999).url();
    finish(&mut on(&place, &url, "a", &["true"])).complains(125, "no database with this number");
}

// TLS

#[test]
fn the_servers_certificate_is_believed_only_if_it_should_be() {
    let (place, server, files) = (Place::new(), servers::redis_tls(), servers::certificates());
    let database = server.database();
    let (authority, stranger) = (files.authority(), files.stranger());
    let odd = "[::ffff:127.0.0.1]";
    for (host, query) in [
        ("localhost", format!("sslrootcert={authority}")),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={authority}")),
        (odd, format!("sslmode=verify-ca&sslrootcert={authority}")),
        (odd, format!("sslmode=require&sslrootcert={authority}")),
        (odd, "sslmode=require".to_owned()),
    ] {
        works(&place, &format!("{}?{query}", database.url_at(host)));
    }
    let redis = database.url_at("localhost").replacen("rediss", "redis", 1);
    works(&place, &format!("{redis}?sslmode=verify-full&sslrootcert={authority}"));
    for (host, query, why) in [
        ("localhost", "sslmode=verify-full".to_owned(), "authority that is not trusted"),
        ("localhost", format!("sslrootcert={stranger}"), "authority that is not trusted"),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={stranger}"), "authority that is not trusted"),
        ("localhost", format!("sslmode=require&sslrootcert={stranger}"), "authority that is not trusted"),
        (odd, format!("sslrootcert={authority}"), "for another name"),
        ("localhost", "sslrootcert=/no/such/file".to_owned(), "sslrootcert /no/such/file cannot be read"),
        ("localhost", "sslmode=prefer".to_owned(), "sslmode that leaves the choice to the server"),
    ] {
        let url = format!("{}?{query}", database.url_at(host));
        finish_in_time(&mut on(&place, &url, "a", &["--backend-timeout", "1h", "true"])).complains(125, why);
    }
    // A server without TLS waits for the end of what it takes for a line.
    let plain = format!("rediss://127.0.0.1:{}?sslmode=require", servers::redis().port());
    let silent = finish(&mut on(&place, &plain, "a", &["--backend-timeout", "1s", "--", "true"]));
    silent.complains(125, "no answer within 1 s");
    assert!(silent.stderr.contains("whether the port needs TLS"), "{silent:?}");
    let clear = on(&place, &redis, "a", &["--backend-timeout", "300ms", "--", "true"]);
    assert_eq!(finish(&mut { clear }).code(), Some(125));
}

#[test]
fn a_client_shows_its_certificate() {
    let (place, server, files) = (Place::new(), servers::redis_mutual_tls(), servers::certificates());
    let url = format!("{}?sslrootcert={}", server.database().url(), files.authority());
    works(&place, &format!("{url}&sslcert={}&sslkey={}", files.client(), files.client_key()));
    finish(&mut on(&place, &url, "a", &["true"])).complains(125, "requires a client certificate");
    finish(&mut on(&place, &format!("{url}&sslcert={0}&sslkey={0}", files.client()), "a", &["true"]))
        .complains(125, "contains no usable key");
}

// Sentinels

#[test]
fn sentinels_name_the_master_also_after_a_failover() {
    let (place, sentinel) = (Place::new(), RedisSentinel::fresh());
    let database = sentinel.master.database();
    let url = sentinel.url(&database);
    let holder = hold(&place, &url, "a");
    assert!(value(&database, "a").starts_with("ADDED:"));
    holder.end();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    works(&place, &url.replacen("//", &format!("//127.0.0.1:{nobody},"), 1));
    finish(&mut on(&place, &url.replace("/main", "/other"), "a", &["true"])).complains(125, "knows no master `other`");
    let url_of_other = url.replacen("//", &format!("//127.0.0.1:{nobody},"), 1).replace("/main", "/other");
    finish(&mut on(&place, &url_of_other, "a", &["--backend-timeout", "300ms", "--", "true"]))
        .complains(125, "knows no master `other`");
    let direct = format!("redis-sentinel://127.0.0.1:{}/main", sentinel.master.port());
    finish(&mut on(&place, &direct, "a", &["true"])).complains(125, "the server is not a sentinel");
    let wrong = format!("redis://127.0.0.1:{}", sentinel.sentinel.port());
    finish(&mut on(&place, &wrong, "a", &["true"])).complains(125, "does not support EVALSHA");

    sentinel.master.kill();
    // It waits for the sentinel to make the replica the master.
    finish(&mut on(&place, &url, "a", &["--backend-timeout", "30s", "--", "true"])).is_silent_with(0);
    assert_eq!(sentinel.master_port(), sentinel.replica.port());
    works(&place, &url);

    // A sentinel that asks who we are is told so, and hears nothing of it before.
    let user = ["acl", "setuser", "clerk", "on", ">s3cret", "+@all", "~*"];
    sentinel.replica.cli(&user);
    let login = url.replacen("//", "//clerk:s3cret@", 1);
    works(&place, &login);
    sentinel.sentinel.cli(&user[..6]);
    sentinel.sentinel.cli(&["acl", "setuser", "default", "off"]);
    works(&place, &login);
    finish(&mut on(&place, &url, "a", &["true"])).complains(125, "requires a password");
}

// The cluster

/// Returns names of locks whose keys lie on the first, the second and the third node.
fn spread(cluster: &RedisCluster) -> [String; 3] {
    [(0, 5460), (5461, 10922), (10923, 16383)].map(|(first, last)| {
        (0..)
            .map(|number| format!("job{number}"))
            .find(|name| {
                let slot: u32 = cluster.nodes[0].cli(&["cluster", "keyslot", &key(name)]).parse().unwrap();
                (first..=last).contains(&slot)
            })
            .unwrap()
    })
}

#[test]
fn a_cluster_has_locks_on_every_node() {
    let (place, cluster) = (Place::new(), servers::redis_cluster());
    for (name, node) in spread(cluster).iter().zip(&cluster.nodes) {
        let holder = hold(&place, &cluster.url(), name);
        assert!(node.cli(&["get", &key(name)]).starts_with("ADDED:"));
        skipped(&place, &cluster.url(), name);
        holder.end();
        assert_eq!(cluster.cli(&["get", &key(name)]), "");
        // One seed is enough, and the release goes straight to the node that has the lock.
        let proxy = Proxy::before(cluster.nodes[0].port(), |_| false);
        ran(&place, &format!("redis-cluster://127.0.0.1:{}", proxy.port), name);
        let here = name == &spread(cluster)[0];
        assert_eq!(proxy.requests().len(), if here { 2 } else { 1 }, "{:?}", proxy.requests());
    }
    let braces = finish(&mut on(&place, &cluster.url(), "a{b}", &["true"]));
    braces.complains(125, "`a{b}` has a brace");
    let far = spread(cluster)[2].clone();
    let plain = format!("redis://127.0.0.1:{}", cluster.nodes[0].port());
    finish(&mut on(&place, &plain, &far, &["true"])).complains(125, "a node of a cluster");
    // The braces of a name put what is beside its lock elsewhere.
    let slot = |key: &str| cluster.nodes[0].cli(&["cluster", "keyslot", key]).parse::<u32>().unwrap();
    let braced = (0..).map(|number| format!("{{{number}}}")).find(|name| slot(&key(name)) <= 5460).unwrap();
    finish(&mut on(&place, &plain, &braced, &NOTE)).is_silent_with(0);
    assert_eq!(place.lines("tokens"), ["none"]);
    finish(&mut on(&place, &(plain + "/1"), "a", &["true"])).complains(125, "a node of a cluster");
}

#[test]
fn a_lock_can_be_had_while_its_slot_moves() {
    let (place, cluster) = (Place::new(), RedisCluster::fresh());
    let [name, ..] = spread(&cluster);
    let [source, target, _] = cluster.nodes.as_slice() else { unreachable!() };
    let slot = source.cli(&["cluster", "keyslot", &key(&name)]);
    let (from, to) = (source.cli(&["cluster", "myid"]), target.cli(&["cluster", "myid"]));
    let held = hold(&place, &cluster.url(), &name);
    target.cli(&["cluster", "setslot", &slot, "importing", &from]);
    source.cli(&["cluster", "setslot", &slot, "migrating", &to]);
    skipped(&place, &cluster.url(), &name);
    let port = target.port().to_string();
    source.cli(&["migrate", "127.0.0.1", &port, &key(&name), "0", "5000"]);
    skipped(&place, &cluster.url(), &name);
    held.end();
    // What is beside it is on the other node still. The record is closed there.
    let records = source.cli(&["zrange", &beside(&name)[1], "0", "-1"]);
    assert!(records.contains("\"ended_at\":") && records.contains("\"outcome\":\"success\""), "{records}");
    let arguments = [["-v"].as_slice(), &NOTE].concat();
    let finished = finish(&mut on(&place, &cluster.url(), &name, &arguments));
    assert_eq!(finished.code(), Some(0), "{finished:?}");
    assert!(
        finished.stderr.contains("the cluster is moving the lock to another node; there is no token"),
        "{finished:?}"
    );
    assert_eq!(place.lines("tokens"), ["none"]);
    let holder = hold(&place, &cluster.url(), &name);
    assert_eq!(target.cli(&["cluster", "countkeysinslot", &slot]), "1");
    let beside = beside(&name);
    for key in &beside {
        assert_eq!(source.cli(&["migrate", "127.0.0.1", &port, key, "0", "5000"]), "OK");
    }
    for node in [target, source] {
        node.cli(&["cluster", "setslot", &slot, "node", &to]);
    }
    skipped(&place, &cluster.url(), &name);
    holder.end();
    let before: u64 = target.cli(&["get", &beside[0]]).parse().unwrap();
    finish(&mut on(&place, &cluster.url(), &name, &NOTE)).is_silent_with(0);
    assert!(place.lines("tokens")[1].parse::<u64>().unwrap() > before);
}

#[test]
fn a_cluster_without_a_node_has_the_locks_of_the_others_or_says_what_is_wrong() {
    let (place, cluster) = (Place::new(), RedisCluster::fresh());
    let [near, _, far] = spread(&cluster);
    cluster.nodes[2].kill();
    let short = ["--backend-timeout", "500ms", "--", "true"];
    finish(&mut on(&place, &cluster.url(), &far, &short))
        .complains(125, &format!("redis://127.0.0.1:{}: connection refused", cluster.nodes[2].port()));
    wait_until("the cluster to notice", || {
        cluster.nodes[0].cli(&["cluster", "info"]).contains("cluster_state:fail").then_some(())
    });
    finish(&mut on(&place, &cluster.url(), &near, &short)).complains(125, "the cluster is down");
}

#[test]
fn a_command_that_was_renamed_is_named() {
    let place = Place::new();
    for command in ["SELECT", "TIME", "SETRANGE"] {
        let server = Redis::fresh(&["--rename-command", command, "HIDDEN"]);
        let url = format!("redis://127.0.0.1:{}/1", server.port());
        let said = format!("the server does not know {command}, which locks need");
        let failed = finish(place.run("job", ["--", "touch", "ran"]).env("SHEDLOCK_BACKEND", &url));
        failed.complains(125, &said);
        assert!(failed.stderr.contains(&format!("`rename-command {command}`")), "{failed:?}");
        let checked = finish(place.shedlock(["check"]).env("SHEDLOCK_BACKEND", &url));
        assert_eq!(checked.code(), Some(1), "{checked:?}");
        assert!(checked.stdout.contains(&said), "{checked:?}");
    }
    assert!(!place.path("ran").exists());
}
