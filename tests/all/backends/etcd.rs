//! What is special to etcd: members that fail, logins that end, TLS, leases.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::fixtures::Holder;
use crate::support::per_backend::Site;
use crate::support::{Place, finish};
use servers::stores::{EtcdStore, Store};
use servers::{ClientCertificates, Etcd, EtcdCluster};

fn run(place: &Place, url: &str, arguments: &[&str]) -> Command {
    let mut command = place.run("job", arguments);
    command.env("SHEDLOCK_BACKEND", url);
    command
}

/// Returns the URL with a user and a password.
fn with_login(server: &Etcd, login: &str) -> String {
    server.url().replace("//", &format!("//{login}@"))
}

/// One of three members is enough to find the others gone, and two are enough for locks.
#[test]
fn a_job_does_not_notice_that_the_leader_dies() {
    let (place, cluster) = (Place::new(), EtcdCluster::fresh());
    let url = cluster.url();
    let holder = Holder::start(&place, &mut run(&place, &url, &["--lease", "6s"]), "exit 7");
    let leader = cluster.leader();
    let before = cluster.members[leader].client().get("shedlock:default:job").unwrap().lease;
    cluster.members[leader].kill();
    let survivor = &cluster.members[(leader + 1) % 3];
    // The lock is renewed by the other members.
    crate::support::wait_until("a renewal", || {
        let entry = survivor.client().try_get("shedlock:default:job").ok().flatten()?;
        (entry.lease != before).then_some(())
    });
    finish(&mut run(&place, &url, &["-E", "75", "true"])).is_silent_with(75);
    holder.end().is_silent_with(7);
    finish(&mut run(&place, &url, &["-E", "75", "true"])).is_silent_with(0);
    // Without a majority no lock is granted, and the reason is said.
    cluster.members[(leader + 1) % 3].kill();
    let ended = finish(&mut run(&place, &url, &["--backend-timeout", "2s", "true"]));
    assert_eq!(ended.code(), Some(125), "{ended:?}");
    assert!(ended.stderr.contains("backend etcd://127.0.0.1:"), "{ended:?}");
}

/// etcd forgets a login that is not used, here after two seconds.
#[test]
fn a_login_that_etcd_has_forgotten_is_renewed() {
    let schema = finish(&mut Place::new().shedlock(["schema", "etcd://clerk@x"])).stdout;
    let (place, server) = (Place::new(), Etcd::fresh_with_users(&schema));
    let url = with_login(&server, "clerk:s3cret");
    finish(&mut run(&place, &url, &["sleep", "4"])).is_silent_with(0);
    finish(&mut run(&place, &url, &["--lease", "9s", "sleep", "7"])).is_silent_with(0);
    let history = finish(place.shedlock(["history", "job"]).env("SHEDLOCK_BACKEND", &url));
    assert_eq!(history.stdout.matches("success").count(), 2, "{history:?}");
}

/// Rights to the keys of the locks alone are enough for locks.
#[test]
fn a_user_without_rights_to_the_history_gets_locks() {
    let schema = finish(&mut Place::new().shedlock(["schema", "etcd://clerk@x"])).stdout;
    for lacking in [&["shedlock-history:"][..], &["shedlock-history:", "shedlock-state:"]] {
        let granted: Vec<_> = schema.lines().filter(|line| !lacking.iter().any(|key| line.contains(key))).collect();
        let (place, server) = (Place::new(), Etcd::fresh_with_users(&granted.join("\n")));
        let url = with_login(&server, "clerk:s3cret");
        let shedlock = |words: &[&str]| finish(place.shedlock(words).env("SHEDLOCK_BACKEND", &url));
        let has_token = "test -n \"$SHEDLOCK_LOCK_TOKEN\"";
        finish(&mut run(&place, &url, &["sh", "-c", has_token])).is_silent_with(0);
        // The reason is said once, although the lock is renewed and released.
        let told = finish(&mut run(&place, &url, &["-v", "--lease", "3s", "sleep", "1.5"]));
        assert_eq!((told.code(), told.stderr.matches("lacks rights").count()), (Some(0), 1), "{told:?}");
        assert!(lacking.iter().all(|key| told.stderr.contains(key)) && !told.stderr.contains("no token"), "{told:?}");

        let holder = Holder::start(&place, &mut run(&place, &url, &["--lease", "9s"]), "exit 7");
        finish(&mut run(&place, &url, &["-E", "75", "true"])).is_silent_with(75);
        holder.end().is_silent_with(7);
        finish(&mut run(&place, &url, &["-E", "75", "--at-least", "1m", "true"])).is_silent_with(0);
        finish(&mut run(&place, &url, &["-E", "75", "true"])).is_silent_with(75);
        assert!(shedlock(&["status", "job"]).stdout.contains("kept"));
        assert_eq!(shedlock(&["unlock", "--force", "job"]).code(), Some(0));
        finish(&mut run(&place, &url, &["-E", "75", "--history-keep", "0", "true"])).is_silent_with(0);

        let handle = shedlock(&["acquire", "--name", "other", "--at-most", "10m"]).stdout;
        shedlock(&["verify", handle.trim()]).is_silent_with(0);
        // A renewal does not shorten the lock.
        assert_eq!(shedlock(&["extend", "1m", handle.trim()]).code(), Some(0));
        let listed = shedlock(&["status", "other"]);
        assert!([" 9m ", " 10m "].iter().any(|left| listed.stdout.contains(left)), "{listed:?}");
        shedlock(&["release", handle.trim()]).is_silent_with(0);
        for words in [["pause", "job"], ["resume", "job"]] {
            assert_eq!(shedlock(&words).code(), Some(0), "{words:?}");
        }
        let checked = shedlock(&["check"]);
        assert!(checked.code() == Some(0) && checked.stdout.contains("! take"), "{checked:?}");
        shedlock(&["history", "job"]).complains(125, "the user lacks rights: permission denied");
    }
}

#[test]
fn who_may_not_log_in_is_told_why_and_no_password_is_shown() {
    let (place, server) = (Place::new(), Etcd::fresh_with_users(""));
    for (url, why) in [
        (with_login(&server, "root:hunter2"), "rejects this user and password"),
        (with_login(&server, "nobody:hunter2"), "rejects this user and password"),
        (server.url(), "requires a user and a password"),
        (with_login(servers::etcd(), "root:hunter2"), "has no users"),
    ] {
        let ended = finish(&mut run(&place, &url, &["true"]));
        ended.complains(125, why);
        assert!(!ended.stderr.contains("hunter2") && ended.stderr.contains("hint: "), "{ended:?}");
    }
    let mut by_variable = run(&place, &with_login(&server, "root"), &["true"]);
    finish(by_variable.env("SHEDLOCK_BACKEND_PASSWORD", "s3cret")).is_silent_with(0);
}

#[test]
fn tls_and_a_client_s_certificate_are_used() {
    let (place, server) = (Place::new(), servers::etcd_mutual_tls());
    let files = servers::certificates();
    let url = format!("etcd://localhost:{}", server.port());
    let authority = format!("{url}?sslrootcert={}", files.authority());
    let client = format!("{authority}&sslcert={}&sslkey={}", files.client(), files.client_key());
    finish(&mut run(&place, &client, &["true"])).is_silent_with(0);
    let checked = finish(place.shedlock(["check"]).env("SHEDLOCK_BACKEND", &client));
    assert!(checked.stdout.contains("certificate and name are verified"), "{checked:?}");
    finish(&mut run(&place, &authority, &["true"])).complains(125, "requires a client certificate");
    let stranger = client.replace(&files.authority(), &files.stranger());
    finish(&mut run(&place, &stranger, &["true"])).complains(125, "an authority that is not trusted");
    let plain = run(&place, &url, &["--backend-timeout", "1s", "true"]);
    let ended = finish(&mut { plain });
    assert!(ended.code() == Some(125) && ended.stderr.contains("TLS"), "{ended:?}");
    let other = Etcd::fresh_with_tls(ClientCertificates::Ignored);
    let url = format!("etcd://127.0.0.1:{}?sslmode=verify-full&sslrootcert={}", other.port(), files.authority());
    finish(&mut run(&place, &url, &["true"])).is_silent_with(0);
}

/// A request for a lock goes to a host of the URL, whatever the environment says of proxies.
#[test]
fn no_proxy_is_used() {
    let place = Place::new();
    let mut command = run(&place, &EtcdStore::new().url(), &["true"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(name, "http://127.0.0.1:1");
    }
    finish(&mut command).is_silent_with(0);
}

/// The lease alone decides, for whole seconds that are rounded up.
#[test]
fn a_lock_that_is_kept_after_its_job_is_held_until_its_lease_ends() {
    let site = Site::new(EtcdStore::new());
    let begun = Instant::now();
    finish(&mut site.run("job", &["--at-least", "1500ms", "true"])).is_silent_with(0);
    loop {
        let next = finish(&mut site.run_or_75("job", &["true"]));
        if next.code() == Some(0) {
            assert!(begun.elapsed() >= Duration::from_millis(1500), "{:?}", begun.elapsed());
            return;
        }
        next.is_silent_with(75);
    }
}

#[test]
fn neither_a_run_nor_a_skip_leaves_a_lease() {
    let (place, server) = (Place::new(), Etcd::fresh());
    let holder = Holder::start(&place, &mut run(&place, &server.url(), &[]), "true");
    assert_eq!(server.client().leases(), 1);
    for _ in 0..3 {
        finish(&mut run(&place, &server.url(), &["-E", "75", "true"])).is_silent_with(75);
    }
    assert_eq!(server.client().leases(), 1);
    holder.end().is_silent_with(0);
    assert_eq!(server.client().leases(), 0);
}

/// It refuses every lease and every write but a deletion, and one within another transaction.
#[test]
fn a_server_without_space_says_so_and_still_frees_and_renews_locks() {
    let (place, server) = (Place::new(), Etcd::with(&["--quota-backend-bytes=200000"]));
    let (url, client) = (server.url(), server.client());
    let command = |name: &str, options: &[&str]| {
        let mut command = place.run(name, options);
        command.env("SHEDLOCK_BACKEND", &url);
        command
    };
    let shedlock = |words: &[&str]| finish(place.shedlock(words).env("SHEDLOCK_BACKEND", &url));
    let hold = |name: &str, options: &[&str]| Holder::start(&place, &mut command(name, options), "exit 7");
    let (plain, leased) = (hold("plain", &[]), hold("leased", &["--lease", "6s"]));
    let (kept, lost) = (hold("kept", &["--at-least", "30s"]), hold("lost", &[]));
    let handle = shedlock(&["acquire", "--name", "handle", "--at-most", "10m"]).stdout;
    assert_eq!(shedlock(&["pause", "paused"]).code(), Some(0));
    let filler = "x".repeat(20_000);
    while client.try_put("filler", &filler).is_ok() {}

    finish(&mut command("other", &["--backend-timeout", "1s", "true"])).complains(125, "no space left");
    let entry = |name: &str| client.get(&format!("shedlock:default:{name}"));
    let mut least = i64::MAX;
    crate::support::wait_until("two renewals", || {
        let left = client.time_left(entry("leased")?.lease)?;
        least = least.min(left);
        (left > least).then_some(())
    });
    leased.end().is_silent_with(7);
    plain.end().is_silent_with(7);
    kept.end().is_silent_with(7);
    shedlock(&["release", handle.trim()]).is_silent_with(0);
    for words in [["resume", "paused"].as_slice(), &["unlock", "--force", "lost"]] {
        let ended = shedlock(words);
        assert_eq!(ended.code(), Some(0), "{ended:?}");
    }
    // Rather for longer than not for long enough.
    let stays = entry("kept").unwrap();
    assert!(stays.value.ends_with(":ended") && client.time_left(stays.lease) <= Some(60), "{stays:?}");
    for name in ["plain", "leased", "handle", "paused", "lost"] {
        assert_eq!(entry(name), None);
    }
    for name in ["plain", "leased", "kept", "handle"] {
        let history = shedlock(&["history", name]);
        assert!(!history.stdout.contains("never") && history.stdout.lines().count() >= 2, "{history:?}");
    }
    assert_eq!(lost.end().code(), Some(7));
}

/// As many operations in one transaction as such a server takes.
#[test]
fn a_server_that_takes_few_operations_at_once_lists_many_locks() {
    let (place, server) = (Place::new(), Etcd::with(&["--max-txn-ops=32"]));
    let state = r#"{"owner":"h:1:0","since":"2026-01-31T18:00:00.000Z","until":"2026-01-31T18:01:00.000Z","run":1}"#;
    let names: Vec<String> = (10..60).map(|number| format!("job-{number}")).collect();
    for name in &names {
        server.client().put(&format!("shedlock-state:default:{name}"), state, 0);
    }
    finish(&mut run(&place, &server.url(), &["true"])).is_silent_with(0);
    let status =
        |names: &[String]| finish(place.shedlock(["status"]).args(names).env("SHEDLOCK_BACKEND", server.url()));
    for listed in [status(&[]), status(&names)] {
        assert_eq!((listed.code(), listed.stdout.matches("job-").count()), (Some(0), 50), "{listed:?}");
    }
}
