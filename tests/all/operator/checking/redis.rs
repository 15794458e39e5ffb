//! Checks of Redis.

use super::{a_run_fails, check, checked, on};
use crate::support::{Place, finish};
use servers::{Redis, certificates};

/// Returns a server whose locks outlive a restart.
fn safe(arguments: &[&str]) -> Redis {
    Redis::fresh(&[&["--appendonly", "yes"], arguments].concat())
}

#[test]
fn a_healthy_server_is_good() {
    let server = safe(&[]);
    let database = server.database();
    let checked = check(&database.url());
    checked.can_lock_but(&[]);
    assert_eq!(
        checked.subjects(),
        [
            "backend",
            "address",
            "TLS",
            "login",
            "version",
            "round trip",
            "clock",
            "writable",
            "rights",
            "history",
            "eviction",
            "persistence",
            "replicas",
            "take",
            "renew",
            "refuse",
            "verify",
            "again",
            "release"
        ]
    );
    assert_eq!(database.cli(&["keys", "*"]), "{job-lock:default:shedlock-check}:token", "only the last token is left");
    let socket = format!("redis+unix://{}", server.path().join("socket").display());
    check(&socket).says("good", "address", "the socket");
}

#[test]
fn a_policy_that_throws_locks_away_is_in_the_way() {
    for (policy, grade) in [("allkeys-lru", "bad"), ("volatile-ttl", "bad"), ("noeviction", "good")] {
        let server = safe(&["--maxmemory", "50mb", "--maxmemory-policy", policy]);
        check(&server.database().url()).says(grade, "eviction", policy);
    }
    let server = safe(&["--maxmemory-policy", "allkeys-lru"]);
    check(&server.database().url()).says("good", "eviction", "maxmemory is not set");
}

#[test]
fn a_server_that_forgets_with_a_restart_is_unwise() {
    let server = Redis::fresh(&["--save", ""]);
    let checked = check(&server.database().url());
    checked.says("unwise", "persistence", "a restart loses all locks");
    checked.can_lock_but(&["persistence"]);
    check(&servers::redis().database().url()).says("unwise", "persistence", "snapshots only");
}

#[test]
fn rights_that_are_missing_are_named() {
    let server = servers::redis_users();
    let database = server.database();
    let url = |login: &str| database.login(login).url();
    check(&url("clerk:s3cret")).says("good", "rights", "all that a lock needs");
    let reader = check(&url("reader:s3cret"));
    reader.says("bad", "rights", "the user may not EVAL, EVALSHA, ");
    reader.says("bad", "rights", "ACL SETUSER USER ~job-lock:default:* +eval +evalsha");
    a_run_fails(&url("reader:s3cret"));
    let rights = "on >s3cret ~job-lock:* +eval +evalsha +select +time +get +set +setrange +del +pttl +pexpire";
    let few = servers::unique("few");
    server.cli(&[&["acl", "setuser", &few], rights.split(' ').collect::<Vec<_>>().as_slice()].concat());
    let checked = check(&url(&format!("{few}:s3cret")));
    checked.says("good", "rights", "");
    checked.says("unwise", "history", "the user may not GET, SET, ZADD, ");
    checked.says("unwise", "version", "the user may not read it");
    checked.says("unwise", "take", "without a token");
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn a_server_that_is_not_there_or_does_not_let_us_in_is_in_the_way() {
    let users = servers::redis_users().database();
    let wrong = check(&users.login("clerk:wrong").url());
    wrong.says("bad", "login", "rejects this user and password");
    assert_eq!(wrong.subjects(), ["backend", "address", "login"]);
    check(&users.url()).says("bad", "login", "requires a password");
    let server = safe(&[]);
    let url = server.database().url();
    server.freeze();
    let place = Place::new();
    let frozen = checked(&finish(&mut on(&place, &url, &["check", "--json", "--backend-timeout", "1s"])));
    frozen.says("good", "address", "answers");
    frozen.says("bad", "login", "no answer within 1 s");
    server.thaw();
    server.stop();
    check(&url).says("bad", "address", "connection refused");
    a_run_fails(&url);
}

#[test]
fn tls_that_verifies_nothing_is_unwise() {
    let url = servers::redis_tls().database().url();
    let with = |query: &str| check(&format!("{url}?{query}"));
    with(&format!("sslrootcert={}", certificates().authority())).says("good", "TLS", "name are verified");
    with("sslmode=require").says("unwise", "TLS", "the server is not verified");
    with(&format!("sslrootcert={}", certificates().stranger())).says("bad", "TLS", "not trusted");
}

#[test]
fn a_clock_that_is_an_hour_off_is_unwise() {
    let server = Redis::with_moving_clock();
    server.set_clock("+1h");
    check(&server.database().url()).says("unwise", "clock", "1h ahead of this host's");
}

#[test]
fn a_replica_is_in_the_way_and_one_that_may_take_over_is_unwise() {
    let sentinels = servers::redis_sentinel();
    let database = sentinels.master.database();
    let checked = check(&sentinels.url(&database));
    checked.says("good", "sentinel", "the master main is redis://127.0.0.1:");
    checked.says("unwise", "replicas", "a failover can lose the locks");
    checked.says("good", "release", "");
    let [replica, master] =
        [&sentinels.replica, &sentinels.master].map(|server| format!("127.0.0.1:{}", server.port()));
    let alone = check(&format!("redis://{replica}"));
    alone.says("bad", "writable", "the server is a replica");
    a_run_fails(&format!("redis://{replica}"));
    let both = check(&format!("redis://{replica},{master}"));
    both.says("good", "writable", &format!("redis://{replica} is a replica, and is skipped"));
    assert_eq!(both.code, Some(0));
}

#[test]
fn a_cluster_is_asked_as_one() {
    let cluster = servers::redis_cluster();
    let checked = check(&cluster.url());
    checked.says("good", "cluster", "its state is ok");
    checked.says("good", "release", "");
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let node = check(&format!("redis://127.0.0.1:{}", cluster.nodes[0].port()));
    node.says("bad", "cluster", "write redis-cluster://HOST,HOST");
}
