//! Lists of locks and of runs, changes and removal, against real servers.

use std::slice;
use std::time::Duration;

use super::Redis;
use crate::backend::testing::conformance::requests::{claim_for_a_minute as claim, take_token as take};
use crate::backend::{Access, Admin, Backend, Url};
use crate::lock::{Acquired, BackendError, ErrorClass, Lock, StillHeld};
use crate::lock::{Change, Claim, Closing, LockName, RunOutcome, RunQuery, RunRecord};
use crate::system::Timestamp;
use servers::{Redis as Server, RedisCluster, RedisDatabase};

const MINUTE: Duration = Duration::from_secs(60);

fn open(url: &str) -> Box<dyn Admin> {
    let access = Access { timeout: Duration::from_secs(10), ..Access::default() };
    Redis::open(&Url::parse(url).unwrap(), &access).unwrap().backend
}

#[track_caller]
fn release(backend: &mut dyn Backend, claim: &Claim) {
    let closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
    assert_eq!(backend.release(claim, Duration::ZERO, closing).unwrap().answer, StillHeld::Held);
}

fn change(backend: &mut dyn Admin, name: &str, from: &str, to: &str, left: Duration) -> StillHeld {
    let (name, from, to) = (LockName::new(name).unwrap(), from.to_owned(), to.to_owned());
    backend.change(&Change { name, from, to, left }).unwrap()
}

/// Lists locks as names and owners; a free lock has an empty owner.
#[track_caller]
fn listed(backend: &mut dyn Admin, names: &[&str]) -> Vec<(String, String)> {
    let locks = backend.locks(names).unwrap().locks;
    for lock in &locks {
        assert_eq!(lock.is_held(), !lock.state.owner.is_empty(), "{lock:?}");
    }
    locks.into_iter().map(|lock| (lock.name, lock.state.owner)).collect()
}

fn these(locks: &[(&str, &str)]) -> Vec<(String, String)> {
    locks.iter().map(|(name, owner)| ((*name).to_owned(), (*owner).to_owned())).collect()
}

fn all() -> RunQuery {
    RunQuery::default()
}

fn of(name: &str) -> RunQuery {
    RunQuery { names: vec![name.to_owned()], ..all() }
}

/// A prefix and an environment with characters that have a meaning in a pattern.
const ODD: &str = "a*b?[c]\\^-";

#[test]
#[ignore = "needs a server: --include-ignored"]
fn the_locks_of_the_space_are_listed_and_nothing_else_that_is_like_them() {
    let database = servers::redis().database();
    for (prefix, query) in [("job-lock", String::new()), (ODD, format!("?prefix={}", ODD.replace('?', "%3F")))] {
        let mut backend = open(&(database.url() + &query));
        let key = |name: &str| format!("{prefix}:default:{name}");
        let first = claim("taken", 1);
        take(&mut *backend, &first);
        take(&mut *backend, &claim("over", 2));
        release(&mut *backend, &claim("over", 2));
        database.cli(&["set", &key("bare"), "some host", "px", "60000"]);
        database.cli(&["set", &key("for-ever"), "ADDED:soon@h@h"]);
        database.cli(&["set", &key("{b}*"), "ADDED:2026-01-31T18:00:00.000Z@h", "px", "60000"]);
        database.cli(&["zadd", &format!("{{{}}}:history", key("history")), "1", "odd"]);
        for odd in ["hash", "{x}:token"] {
            database.cli(&["hset", &key(odd), "a", "b"]);
        }
        for other in ["x".to_owned() + &key("x"), format!("{prefix}:other:x"), "axbyc\\^-:default:x".to_owned()] {
            database.cli(&["set", &other, "ADDED:2026-01-31T18:00:00.000Z@other", "px", "60000"]);
        }
        let owner = first.owner.as_str();
        let found = [
            ("bare", "some host"),
            ("for-ever", "h@h"),
            ("history", ""),
            ("over", ""),
            ("taken", owner),
            ("{b}*", "h"),
        ];
        assert_eq!(listed(&mut *backend, &[]), these(&found));
        let named: Vec<&str> = found.iter().map(|lock| lock.0).chain(["hash", "nobody's"]).collect();
        // Without a token, only a scan finds the traces of a free lock.
        assert_eq!(listed(&mut *backend, &named), these(&[&found[..2], &found[3..]].concat()));
        assert_eq!(listed(&mut *backend, &["hash"]), []);
        let for_ever = backend.locks(&["for-ever"]).unwrap().locks.remove(0).state;
        assert_eq!((for_ever.left, for_ever.since, for_ever.until), (crate::lock::ENDLESS, None, None));
    }
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_long_list_is_complete_and_has_nothing_twice() {
    let database = servers::redis().database();
    let script = "for i = 1, 5000 do redis.call('SET', 'job-lock:default:' .. i, 'ADDED:x@h' .. i, 'PX', 60000) \
                  redis.call('SET', 'other:' .. i, i) \
                  redis.call('ZADD', '{job-lock:default:' .. i .. '}:history', i, '{\"token\":' .. i .. '}') end";
    database.cli(&["eval", script, "0"]);
    let mut backend = open(&database.url());
    let mut wanted: Vec<_> = (1..=5000).map(|i: u32| (i.to_string(), format!("h{i}"))).collect();
    wanted.sort();
    assert_eq!(listed(&mut *backend, &[]), wanted);
    let runs = backend.runs(&RunQuery { newest_per_lock: Some(1), ..all() }).unwrap().runs;
    assert_eq!(runs.iter().map(|run| run.token).collect::<Vec<_>>(), (1..=5000).rev().collect::<Vec<_>>());
}

/// A job that is about to be stopped waits for this listing.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_lock_that_is_named_costs_one_script() {
    let server = Server::fresh(&[]);
    let mut backend = open(&server.database().url());
    take(&mut *backend, &claim("job", 1));
    backend.locks(&["job"]).unwrap();
    server.cli(&["config", "resetstat"]);
    assert_eq!(backend.locks(&["job"]).unwrap().locks.len(), 1);
    let counted = server.cli(&["info", "commandstats"]);
    let calls = |line: &str| line.split_once(":calls=")?.1.split(',').next()?.parse::<u32>().ok();
    let count =
        |command: &str| counted.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:"))).and_then(calls);
    assert_eq!((count("evalsha"), count("eval"), count("select")), (Some(1), None, None), "{counted}");
    // Commands inside the script are counted too.
    assert_eq!((count("get"), count("pttl"), count("time")), (Some(2), Some(1), Some(1)), "{counted}");
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_cluster_is_asked_as_a_whole() {
    let cluster = servers::redis_cluster();
    let url = format!("{}?prefix={}", cluster.url(), servers::unique("locks"));
    let mut backend = open(&url);
    let names: Vec<String> = (10..40).map(|i| format!("job {i}")).collect();
    let mut wanted = Vec::new();
    for (number, name) in (0..).zip(&names) {
        let claim = claim(name, number);
        take(&mut *backend, &claim);
        if number % 2 == 0 {
            release(&mut *backend, &claim);
        }
        let owner = if number % 2 == 0 { "" } else { claim.owner.as_str() };
        wanted.push((name.clone(), owner.to_owned()));
    }
    assert_eq!(listed(&mut *open(&url), &[]), wanted);
    let named: Vec<&str> = names.iter().map(String::as_str).chain(["nobody's"]).collect();
    assert_eq!(listed(&mut *open(&url), &named), wanted);
    let held: Vec<_> = wanted.iter().filter(|lock| !lock.1.is_empty()).cloned().collect();
    for lock in &wanted[..6] {
        assert_eq!(listed(&mut *open(&url), &[&lock.0]), slice::from_ref(lock));
    }
    // Some runs began in the same millisecond.
    let ran = |wanted: &RunQuery| {
        let runs: Vec<RunRecord> = open(&url).runs(wanted).unwrap().runs.iter().collect();
        assert!(runs.is_sorted_by_key(|run| std::cmp::Reverse(run.started_at)), "{runs:?}");
        let mut names: Vec<_> = runs.into_iter().map(|run| run.name).collect();
        names.sort();
        names
    };
    assert_eq!(ran(&all()), names);
    let some = RunQuery { names: names[3..23].to_vec(), ..all() };
    assert_eq!(ran(&some), names[3..23]);
    assert_eq!(ran(&RunQuery { limit: Some(15), ..some }).len(), 15);
    for (name, owner) in &held {
        assert_eq!(change(&mut *backend, name, owner, owner, Duration::ZERO), StillHeld::Held);
    }
    assert!(listed(&mut *backend, &[]).iter().all(|lock| lock.1.is_empty()));
    assert!(backend.locks(&["a{b"]).unwrap_err().message.contains("brace"));
    assert_eq!(backend.create_missing().unwrap().len(), 1);
}

/// The lock's keys are partly on one node and partly on another.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_lock_that_is_on_its_way_to_another_node_is_listed() {
    let cluster = RedisCluster::fresh();
    let (mut backend, owner) = (open(&cluster.url()), claim("here", 1).owner);
    take(&mut *backend, &claim("here", 1));
    take(&mut *backend, &claim("there", 2));
    let slot = cluster.cli(&["cluster", "keyslot", "job-lock:default:here"]);
    let has = |node: &&Server| node.cli(&["cluster", "countkeysinslot", &slot]) == "3";
    let from = cluster.nodes.iter().find(has).unwrap();
    let to = cluster.nodes.iter().find(|node| !has(node)).unwrap();
    to.cli(&["cluster", "setslot", &slot, "importing", &from.cli(&["cluster", "myid"])]);
    from.cli(&["cluster", "setslot", &slot, "migrating", &to.cli(&["cluster", "myid"])]);
    from.cli(&["migrate", "127.0.0.1", &to.port().to_string(), "job-lock:default:here", "0", "1000"]);
    let wanted = these(&[("here", owner.as_str()), ("there", claim("there", 2).owner.as_str())]);
    assert_eq!(listed(&mut *open(&cluster.url()), &[]), wanted);
    assert_eq!(listed(&mut *open(&cluster.url()), &["there", "here"]), wanted);
    assert_eq!(listed(&mut *open(&cluster.url()), &["here"]), wanted[..1]);
    assert_eq!(backend.runs(&all()).unwrap().runs.len(), 2);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn only_a_master_is_asked() {
    let sentinel = servers::redis_sentinel();
    let database = sentinel.master.database();
    let first = claim("job", 1);
    take(&mut *open(&database.url()), &first);
    let replica = sentinel.replica.database_number(database.number);
    let hosts = format!("redis://127.0.0.1:{},127.0.0.1:{}", sentinel.replica.port(), sentinel.master.port());
    let url = format!("{hosts}/{}", database.number);
    for url in [url, sentinel.url(&database)] {
        for names in [["job"].as_slice(), &[]] {
            assert_eq!(listed(&mut *open(&url), names), these(&[("job", first.owner.as_str())]));
        }
        assert_eq!(open(&url).runs(&of("job")).unwrap().runs.len(), 1);
        assert_eq!(open(&url).runs(&all()).unwrap().runs.len(), 1);
        assert_eq!(
            change(&mut *open(&url), "job", first.owner.as_str(), first.owner.as_str(), MINUTE),
            StillHeld::Held
        );
    }
    let mut lone = open(&replica.url());
    for error in [
        lone.locks(&["job"]).unwrap_err(),
        lone.locks(&[]).unwrap_err(),
        lone.runs(&of("job")).unwrap_err(),
        lone.create_missing().unwrap_err(),
    ] {
        assert!(error.class == ErrorClass::Transient && error.message.contains("is a replica"), "{error:?}");
    }
}

/// Returns the login of a user with these rights.
fn user(server: &Server, rules: &[&str]) -> RedisDatabase {
    let user = servers::unique("user");
    server.cli(&[&["acl", "setuser", &user, "on", ">pw"], rules].concat());
    server.database_number(0).login(&format!("{user}:pw"))
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn who_may_only_read_sees_locks_and_runs() {
    let server = Server::fresh_with_users();
    let clerk = server.database_number(0).login("clerk:s3cret").url();
    let (first, second) = (claim("a", 1), claim("b", 2));
    take(&mut *open(&clerk), &first);
    take(&mut *open(&clerk), &second);
    release(&mut *open(&clerk), &second);
    server.cli(&["hset", "job-lock:default:odd", "a", "b"]);
    let locks = these(&[("a", first.owner.as_str()), ("b", "")]);
    let reader = server.database_number(0).login("reader:s3cret");
    let script = user(&server, &["~job-lock:*", "+@read", "+eval", "+evalsha", "+time", "-setrange"]);
    let mut narrow = vec!["%R~job-lock:*", "%R~{job-lock:*"];
    narrow.extend(["+get", "+pttl", "+zrange", "+scan"]);
    let narrow = user(&server, &narrow);
    for user in [&reader, &narrow] {
        let mut backend = open(&user.url());
        assert_eq!(listed(&mut *backend, &[]), locks);
        assert_eq!(listed(&mut *backend, &["a"]), locks[..1]);
        assert_eq!(listed(&mut *backend, &["b", "nobody's", "a", "odd"]), locks);
        assert_eq!(backend.runs(&all()).unwrap().runs.len(), 2);
        assert_eq!(backend.runs(&of("a")).unwrap().runs.len(), 1);
        let now = backend.locks(&[]).unwrap().now;
        assert!(now.0.abs_diff(Timestamp::now().0) < 20_000);
        let name = LockName::new("a").unwrap();
        let owner = first.owner.as_str().to_owned();
        let error = backend.change(&Change { name, from: owner.clone(), to: owner, left: MINUTE }).unwrap_err();
        assert!(error.message.contains("lacks rights"), "{error:?}");
    }
    assert_eq!(listed(&mut *open(&script.url()), &["a"]), locks[..1]);
    // The user has no rights to the keys beside the locks.
    let error = open(&script.url()).runs(&of("a")).unwrap_err();
    assert!(error.message.contains("no history in {job-lock:default:a}:history: NOPERM"), "{error:?}");
    assert!(error.hint.unwrap().contains("+zrange"));
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn the_user_of_the_schema_can_do_all_that_is_needed_and_needs_all_of_it() {
    let server = Server::fresh_with_users();
    for query in ["", "?environment=a*b"] {
        let url = server.database_number(3).login("jobs:PASSWORD").url() + query;
        let schema = open(&url).schema().unwrap();
        let line = schema.lines().find_map(|line| line.strip_prefix("# ACL SETUSER ")).unwrap().to_owned();
        let rules: Vec<&str> = line.split(' ').collect();
        assert_eq!(rules[0], "jobs");
        let rights: Vec<&str> = rules.iter().copied().filter(|rule| rule.starts_with('+')).collect();
        for left_out in rights.iter().map(Some).chain([None]) {
            server.cli(&["script", "flush"]);
            server.cli(&["flushall"]);
            server.cli(&["acl", "deluser", "jobs"]);
            let rules: Vec<&str> = rules.iter().copied().filter(|rule| Some(rule) != left_out).collect();
            server.cli(&[&["acl", "setuser"], rules.as_slice()].concat());
            assert_eq!(everything(&url).is_ok(), left_out.is_none(), "{left_out:?}: {:?}", everything(&url));
        }
    }
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn the_user_of_a_cluster_s_schema_can_do_all_that_is_needed() {
    let cluster = servers::redis_cluster();
    let user = servers::unique("user");
    let url = cluster.url().replace("://", &format!("://{user}:PASSWORD@"));
    let url = format!("{url}?prefix={}", servers::unique("locks"));
    let schema = open(&url).schema().unwrap();
    let line = schema.lines().find_map(|line| line.strip_prefix("# ACL SETUSER ")).unwrap();
    for (leaving_out, works) in [(" +cluster|slots", false), ("", true)] {
        for node in &cluster.nodes {
            node.cli(&["acl", "deluser", &user]);
            let line = if leaving_out.is_empty() { line.to_owned() } else { line.replace(leaving_out, "") };
            node.cli(&[&["acl", "setuser"], line.split(' ').collect::<Vec<_>>().as_slice()].concat());
        }
        assert_eq!(everything(&url).is_ok(), works, "{:?}", everything(&url));
    }
}

/// The URL of a cluster may name a lone server; an acquisition accepts it too.
#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_cluster_may_be_a_server_that_is_none() {
    let server = Server::fresh(&[]);
    everything(&format!("redis-cluster://127.0.0.1:{}", server.port())).unwrap();
}

/// Runs every operation on an empty backend.
fn everything(url: &str) -> Result<(), String> {
    let mut backend = open(url);
    let told = |error: BackendError| format!("{error:?}");
    let (first, second) = (claim("job", 1), claim("job", 2));
    backend.create_missing().map_err(told)?;
    for claim in [&first, &second] {
        let Acquired::Granted(grant) = backend.acquire(claim).map_err(told)?.answer else {
            return Err("held".to_owned());
        };
        grant.token.ok_or("no token")?;
        backend.renew(claim).map_err(told)?;
        let owner = claim.owner.as_str().to_owned();
        let name = claim.name.clone();
        backend.change(&Change { name, from: owner.clone(), to: owner, left: MINUTE }).map_err(told)?;
        if !backend.locks(&[]).map_err(told)?.locks.iter().any(Lock::is_held) {
            return Err("it is not listed".to_owned());
        }
        backend.locks(&["job"]).map_err(told)?;
        let closing = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
        let reply = backend.release(&Claim { keep: 1, ..claim.clone() }, Duration::ZERO, closing).map_err(told)?;
        let runs = backend.runs(&all()).map_err(told)?.runs;
        let closed: Vec<bool> = runs.iter().map(|run| run.ended_at.is_some()).collect();
        if reply.remark.unrecorded.is_some() || closed != [true] {
            return Err("no history".to_owned());
        }
    }
    Ok(())
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn what_is_missing_to_see_all_locks_is_told() {
    let server = Server::fresh_with_users();
    let user = user(&server, &["~job-lock:*", "~{job-lock:*", "+@all", "-scan"]);
    for error in [open(&user.url()).locks(&[]).unwrap_err(), open(&user.url()).runs(&all()).unwrap_err()] {
        assert!(error.message.contains("lacks rights"), "{error:?}");
        assert!(error.hint.unwrap().contains("+scan"));
    }
    assert_eq!(listed(&mut *open(&user.url()), &["job"]), []);
    // The server refuses an overlong command of a client without a login for its length.
    let names: Vec<String> = (0..20).map(|i| i.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let error = open(&server.database_number(0).url()).locks(&names).unwrap_err();
    assert!(error.message.contains("requires a password"), "{error:?}");
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_history_that_is_something_else_is_trouble_and_odd_records_are_not() {
    let database = servers::redis().database();
    let mut backend = open(&database.url());
    let token = take(&mut *backend, &claim("job", 1)).unwrap();
    let history = "{job-lock:default:job}:history";
    for odd in ["", "{}", "[1]", "null", "{\"token\":\"7\"}", "\u{e4}"] {
        database.cli(&["zadd", history, "1", odd]);
    }
    let odd = "{\"token\":7,\"name\":3,\"started_at\":\"soon\",\"exit_code\":\"x\",\"more\":[{}]}";
    database.cli(&["zadd", history, "7", odd]);
    let runs = backend.runs(&of("job")).unwrap().runs;
    assert_eq!(runs.iter().map(|run| run.token).collect::<Vec<_>>(), [token, 7]);
    let odd = runs.get(1);
    assert_eq!((odd.name.as_str(), odd.started_at, odd.exit_code), ("job", None, None));
    // A run without an end may be older than one that ended before the time.
    for record in ["{\"token\":1}", "{\"token\":2,\"ended_at\":\"2026-01-31T18:00:00.000Z\"}"] {
        database.cli(&["zadd", "{job-lock:default:lost}:history", &record[9..10], record]);
    }
    let since = Timestamp::parse("2026-01-31T18:00:00.001Z");
    let runs = backend.runs(&RunQuery { since, newest_per_lock: Some(1), ..of("lost") }).unwrap().runs;
    assert_eq!(runs.iter().map(|run| run.token).collect::<Vec<_>>(), [1]);
    database.cli(&["set", "{job-lock:default:other}:history", "mine"]);
    let error = backend.runs(&of("other")).unwrap_err();
    assert_eq!(error.class, ErrorClass::Permanent);
    assert!(error.message.contains("no history in {job-lock:default:other}:history: WRONGTYPE"), "{error:?}");
    assert!(error.hint.unwrap().contains("redis-cli TYPE"));
    // A listing of all locks skips the foreign key.
    assert_eq!(backend.runs(&all()).unwrap().runs.len(), 4);
    assert_eq!(backend.runs(&of("job")).unwrap().runs.len(), 2);
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_value_that_is_not_of_our_form_is_changed_as_a_whole() {
    let database = servers::redis().database();
    let mut backend = open(&database.url());
    let key = "job-lock:default:job";
    let value = "a host:of@another kind";
    database.cli(&["set", key, value]);
    assert_eq!(change(&mut *backend, "job", "another kind", "x", MINUTE), StillHeld::Lost);
    assert_eq!(change(&mut *backend, "job", value, value, MINUTE), StillHeld::Held);
    assert_eq!(database.cli(&["get", key]), value);
    let left: i64 = database.cli(&["pttl", key]).parse().unwrap();
    assert!((30_000..=60_000).contains(&left), "{left}");
    for _ in 0..2 {
        // The answer to the first change was lost.
        assert_eq!(change(&mut *backend, "job", value, "next", MINUTE), StillHeld::Held);
    }
    let changed = database.cli(&["get", key]);
    assert!(changed.starts_with("ADDED:2") && changed.ends_with("Z@next"), "{changed}");
    assert_eq!(change(&mut *backend, "job", "next", "nobody", Duration::ZERO), StillHeld::Held);
    assert_eq!(database.cli(&["exists", key]), "0");
    database.cli(&["hset", key, "a", "b"]);
    let name = LockName::new("job").unwrap();
    let change = Change { name, from: "a".to_owned(), to: "b".to_owned(), left: MINUTE };
    assert!(backend.change(&change).unwrap_err().message.contains("something other than a lock"));
}

#[test]
#[ignore = "needs a server: --include-ignored"]
fn a_server_without_memory_lists_and_changes_locks() {
    let server = Server::fresh(&[]);
    let mut backend = open(&server.database_number(0).url());
    let first = claim("job", 1);
    let owner = first.owner.as_str();
    take(&mut *backend, &first);
    server.cli(&["config", "set", "maxmemory", "1"]);
    for names in [["job"].as_slice(), &[]] {
        assert_eq!(listed(&mut *backend, names), these(&[("job", owner)]));
    }
    assert_eq!(backend.runs(&all()).unwrap().runs.len(), 1);
    assert_eq!(change(&mut *backend, "job", owner, "next", MINUTE), StillHeld::Held);
    assert_eq!(change(&mut *backend, "job", "next", "next", Duration::ZERO), StillHeld::Held);
}
