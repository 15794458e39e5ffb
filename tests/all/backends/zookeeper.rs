//! The ZooKeeper backend, against real servers: what lies in them, who may write it, and what becomes of a run when a server
//! is not as it should be.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::fixtures::Holder;
use crate::support::per_backend::Site;
use crate::support::process::write_script;
use crate::support::{Place, finish, markdown, wait_until};
use servers::stores::{Store, ZooKeeperLocks, ZooKeeperStore};
use servers::{ZooKeeper, ZooKeeperEnsemble, certificates, zookeeper, zookeeper_mutual_tls, zookeeper_tls};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns `shedlock run --name NAME --at-most 1m ARGUMENTS` on this URL.
fn on(place: &Place, url: &str, name: &str, arguments: &[&str]) -> Command {
    let mut command = place.run(name, arguments);
    command.env("SHEDLOCK_BACKEND", url);
    command
}

/// Runs `true` under a lock; it says nothing and succeeds.
#[track_caller]
fn works(place: &Place, url: &str) {
    finish(&mut on(place, url, "works", &["-E", "75", "true"])).is_silent_with(0);
}

/// Asserts that a run fails with this message, and a hint that has this in it.
#[track_caller]
fn fails(url: &str, message: &str, hint: &str) {
    let place = Place::new();
    let ended = finish(&mut on(&place, url, "job", &["--backend-timeout", "1s", "touch", "ran"]));
    ended.complains(125, message);
    assert!(ended.stderr.lines().nth(1).is_some_and(|line| line.contains(hint)), "{hint} is not in {ended:?}");
    assert!(!place.path("ran").exists());
}

/// Returns a chroot of the shared server, and the URL after the login.
fn space() -> (String, String) {
    let server = zookeeper();
    let chroot = server.chroot();
    let place = format!("127.0.0.1:{}{chroot}", server.port());
    (chroot, place)
}

fn rights(path: &str) -> Value {
    zookeeper().client().request(&json!(["rights", path]))
}

/// Lets only these users do something with a node: `USER:PASSWORD` and the sum of 1 to read, 2 to write, 4 to create, 8 to
/// delete and 16 to change that.
fn protect(path: &str, users: &[(&str, i32)]) {
    let users = users.iter().map(|(user, rights)| json!(["login", user, rights]));
    // So that the tests may change it again.
    let users: Vec<Value> = users.chain([json!(["world", "anyone", 16])]).collect();
    zookeeper().client().request(&json!(["protect", path, users]));
}

#[test]
fn the_lock_of_a_java_application_has_no_owner_and_frees_when_it_is_released() {
    let site = Site::new(ZooKeeperStore::new());
    assert!(site.store.java_take("job", "", MINUTE));
    finish(&mut site.run("job", &["-v", "-E", "75", "true"])).complains(75, "the lock is held by unknown since");
    site.store.java_release("job", "", Duration::ZERO);
    finish(&mut site.run("job", &["-E", "75", "true"])).is_silent_with(0);
    assert!(site.store.java_take("job", "", MINUTE));
}

/// Its release is unconditional: nothing protects the next holder, who learns of it at the next renewal.
#[test]
fn a_java_application_that_releases_too_late_frees_the_lock_and_the_job_is_stopped() {
    let site = Site::new(ZooKeeperStore::new());
    let holder = Holder::start(&site.place, &mut site.run("job", &["--lease", "3s"]), "true");
    site.store.java_release("job", "", Duration::ZERO);
    assert!(!site.is_held("job"));
    holder.finish().complains(123, "the lock was lost, so the job is stopped");
}

#[test]
fn a_slash_in_a_name_leads_to_a_deeper_node_and_leaves_the_upper_lock_free_for_java() {
    let site = Site::new(ZooKeeperStore::new());
    finish(&mut site.run("reports/daily", &["true"])).is_silent_with(0);
    let client = zookeeper().client();
    let root = format!("{}/shedlock", site.store.chroot());
    let children = |path: &str| client.request(&json!(["children", format!("{root}{path}")]));
    assert_eq!((children(""), children("/reports")), (json!(["reports"]), json!(["daily"])));
    let status = finish(&mut site.shedlock(&["status", "--json"])).stdout;
    assert!(status.contains("\"reports/daily\"") && !status.contains("\"reports\""), "{status}");
    assert!(site.store.java_take("reports", "", MINUTE));
    assert!(site.store.java_take("reports/daily", "", MINUTE));
    let status = finish(&mut site.shedlock(&["status", "--json"])).stdout;
    assert!(status.contains("\"reports/daily\"") && status.contains("\"reports\""), "{status}");
}

/// As an early version of the Java library left it.
#[test]
fn a_node_without_a_time_is_held_until_a_person_frees_it() {
    let site = Site::new(ZooKeeperStore::new());
    zookeeper().client().request(&json!(["create", format!("{}/shedlock/job", site.store.chroot()), ""]));
    finish(&mut site.run("job", &["-E", "75", "true"])).is_silent_with(75);
    assert_eq!(finish(&mut site.shedlock(&["unlock", "--force", "job"])).code(), Some(0));
    finish(&mut site.run("job", &["-E", "75", "true"])).is_silent_with(0);
}

#[test]
fn another_path_has_other_locks() {
    let (chroot, place) = space();
    let site = Place::new();
    let url = format!("zookeeper://{place}?path=/ops/locks");
    assert_eq!(finish(site.shedlock(["init"]).env("SHEDLOCK_BACKEND", &url)).code(), Some(0));
    works(&site, &url);
    let found = zookeeper().client().request(&json!(["get", format!("{chroot}/ops/locks/works")]));
    assert!(found["data"].as_str().unwrap().ends_with('Z'), "{found}");
    assert!(zookeeper().client().request(&json!(["get", format!("{chroot}/shedlock")])).is_null());
}

#[test]
fn a_missing_chroot_is_an_error_and_init_makes_it() {
    let place = Place::new();
    let chroot = format!("/{}/deep", servers::unique("missing"));
    let url = format!("zookeeper://127.0.0.1:{}{chroot}", zookeeper().port());
    fails(&url, &format!("the node {chroot} does not exist"), "shedlock init");
    let made = finish(place.shedlock(["init"]).env("SHEDLOCK_BACKEND", &url));
    assert_eq!((made.code(), made.stderr.as_str()), (Some(0), ""), "{made:?}");
    assert!(made.stdout.contains(&format!("created the node {chroot}/shedlock")), "{made:?}");
    works(&place, &url);
}

#[test]
fn tls_verifies_the_server() {
    let server = zookeeper_tls();
    let files = certificates();
    let url = |host: &str, query: &str| format!("zookeeper://{host}:{}{}?{query}", server.port(), server.chroot());
    let place = Place::new();
    works(&place, &url("localhost", &format!("sslmode=verify-full&sslrootcert={}", files.authority())));
    works(&place, &url("127.0.0.1", &format!("sslrootcert={}", files.authority())));
    works(&place, &url("127.0.0.1", "sslmode=require"));
    fails(
        &url("localhost", &format!("sslmode=verify-full&sslrootcert={}", files.stranger())),
        "an authority that is not trusted",
        "sslrootcert=FILE",
    );
    fails(&url("127.0.0.1", ""), "the server closed the connection before it answered", "speak TLS on this port");
    let plain = format!("zookeeper://127.0.0.1:{}?sslmode=require", server.plain_port());
    fails(&plain, "before the TLS handshake was over", "secureClientPort");
}

#[test]
fn a_client_certificate_is_shown_to_a_server_that_wants_one() {
    let server = zookeeper_mutual_tls();
    let files = certificates();
    let url = format!(
        "zookeeper://localhost:{}{}?sslmode=verify-full&sslrootcert={}",
        server.port(),
        server.chroot(),
        files.authority()
    );
    works(&Place::new(), &format!("{url}&sslcert={}&sslkey={}", files.client(), files.client_key()));
    fails(&url, "the server requires a client certificate", "sslcert=FILE&sslkey=FILE");
}

#[test]
fn what_a_user_makes_only_this_user_may_write() {
    let (chroot, place) = space();
    let url = format!("zookeeper://clerk:s3cret@{place}");
    works(&Place::new(), &url);
    for path in ["", "/works", "/works/.shedlock"] {
        let [right, reading] = &rights_as(&format!("{chroot}/shedlock{path}"))[..] else { panic!("there are not two") };
        assert_eq!((&right[0], &right[2], reading), (&json!("digest"), &json!(31), &json!(["world", "anyone", 1])));
        assert!(right[1].as_str().unwrap().starts_with("clerk:"), "{right}");
    }
    let root = format!("{chroot}/shedlock");
    fails(
        &format!("zookeeper://{place}"),
        &format!("a client without a login lacks rights to the node {root}"),
        "log in",
    );
    fails(&format!("zookeeper://clerk:wrong@{place}"), "the user lacks rights to the node", "password");
    // The password may come from elsewhere.
    let site = Place::new();
    let mut run = on(&site, &format!("zookeeper://clerk@{place}"), "works", &["true"]);
    finish(run.env("SHEDLOCK_BACKEND_PASSWORD", "s3cret")).is_silent_with(0);
}

fn rights_as(path: &str) -> Vec<Value> {
    let client = zookeeper().client_of("clerk:s3cret");
    client.request(&json!(["rights", path])).as_array().unwrap().clone()
}

#[test]
fn what_nobody_is_logged_in_for_is_open_as_java_s() {
    let (chroot, place) = space();
    works(&Place::new(), &format!("zookeeper://{place}"));
    for path in ["", "/works", "/works/.shedlock"] {
        assert_eq!(rights(&format!("{chroot}/shedlock{path}")), json!([["world", "anyone", 31]]));
    }
}

/// The commands of docs/security.md, carried out by the server's own client.
#[test]
fn the_rights_in_zookeeper_are_enough() {
    let (chroot, place) = space();
    let (root, site) = (format!("{chroot}/shedlock"), Place::new());
    let [commands] = &markdown::run_by("docs/security.md", "the_rights_in_zookeeper_are_enough")[..] else {
        panic!("there is not one block")
    };
    write_script(&site, "zkCli.sh", &zookeeper().command_line_client());
    let commands = commands.replace("HOST:2181", &place.replace(&chroot, "")).replace("/shedlock", &root);
    let path = format!("{}:{}", site.path("").display(), std::env::var("PATH").unwrap());
    let carried_out = finish(Command::new("sh").args(["-ec", &commands]).env("PATH", path));
    assert_eq!(carried_out.code(), Some(0), "{carried_out:?}");

    let url = |user: &str| format!("zookeeper://{user}@{place}");
    works(&site, &url("jobs:PASSWORD"));
    let looks = |user: &str| finish(site.shedlock(["status"]).env("SHEDLOCK_BACKEND", url(user)));
    for user in ["jobs:PASSWORD", "watcher:PASSWORD"] {
        assert!(looks(user).stdout.contains("works"), "{:?}", looks(user));
    }
    looks("stranger:PASSWORD").complains(125, &format!("the user lacks rights to the node {root}"));
    for other in ["watcher:PASSWORD", "stranger:PASSWORD"] {
        fails(&url(other), "the user lacks rights to the node", "getAcl");
    }
}

/// Less than docs/security.md grants is not enough.
#[test]
fn the_rights_to_write_and_to_create_are_both_needed() {
    let (chroot, place) = space();
    let (root, site) = (format!("{chroot}/shedlock"), Place::new());
    let url = format!("zookeeper://clerk:s3cret@{place}");
    zookeeper().client().request(&json!(["create", root, ""]));
    let (write, create) = (2, 4);
    for lacking in [write, create] {
        protect(&root, &[("clerk:s3cret", lacking)]);
        fails(&url, "the user lacks rights to the node", "getAcl");
    }
    protect(&root, &[("clerk:s3cret", write | create)]);
    works(&site, &url);
    // A lock that exists needs no right to create.
    protect(&root, &[("clerk:s3cret", write)]);
    works(&site, &url);
}

/// Of the rights that only this takes, one is the parent's and one belongs to the user who made the lock.
#[test]
fn to_forget_a_lock_takes_the_right_to_delete_and_the_user_who_made_it() {
    let (chroot, place) = space();
    let (root, site) = (format!("{chroot}/shedlock"), Place::new());
    zookeeper().client().request(&json!(["create", root, ""]));
    let (read, write, create, delete) = (1, 2, 4, 8);
    let jobs = read | write | create;
    let forget = |user: &str| {
        let url = format!("zookeeper://{user}:s3cret@{place}");
        finish(site.shedlock(["forget", "works"]).env("SHEDLOCK_BACKEND", url))
    };
    protect(&root, &[("clerk:s3cret", jobs), ("other:s3cret", jobs | delete)]);
    works(&site, &format!("zookeeper://clerk:s3cret@{place}"));
    for user in ["clerk", "other"] {
        let denied = forget(user);
        denied.complains(125, "the user lacks rights to the node");
        assert!(denied.stderr.contains("delete to forget a lock"), "{denied:?}");
    }
    protect(&root, &[("clerk:s3cret", jobs | delete)]);
    let done = forget("clerk");
    assert_eq!((done.code(), done.stdout.as_str()), (Some(0), "forgot `works`: the lock and 1 run\n"), "{done:?}");
    zookeeper().client().request(&json!(["protect", root, [["world", "anyone", read]]]));
    assert_eq!(zookeeper().client().request(&json!(["children", root])), json!([]));
}

/// The node stays, because those of other locks are below it, and is a free lock for Java.
#[test]
fn a_lock_above_others_is_forgotten_and_they_stay() {
    let site = Site::new(ZooKeeperStore::new());
    for name in ["reports", "reports/daily"] {
        finish(&mut site.run(name, &["true"])).is_silent_with(0);
    }
    assert_eq!(finish(&mut site.shedlock(&["forget", "reports"])).code(), Some(0));
    let status = finish(&mut site.shedlock(&["status", "--json"])).stdout;
    assert!(status.contains("\"reports/daily\"") && !status.contains("\"reports\""), "{status}");
    assert_eq!(site.store.history("reports/daily").len(), 1);
    assert!(site.store.java_take("reports", "", MINUTE));
}

#[test]
fn who_may_only_read_sees_the_locks() {
    let site = Site::new(ZooKeeperStore::new());
    finish(&mut site.run("job", &["true"])).is_silent_with(0);
    let root = format!("{}/shedlock", site.store.chroot());
    zookeeper().client().request(&json!(["protect", root, [["world", "anyone", 1]]]));
    let seen = finish(&mut site.shedlock(&["status"]));
    assert_eq!((seen.code(), seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    assert!(seen.stdout.contains("job") && seen.stdout.contains("success"), "{seen:?}");
}

#[test]
fn a_server_with_too_many_connections_is_told_with_the_setting() {
    let server = ZooKeeper::fresh(&["maxClientCnxns=1"]);
    // The connection of the tests is the one that the server allows.
    let chroot = server.chroot();
    fails(
        &format!("zookeeper://127.0.0.1:{}{chroot}", server.port()),
        "the server closed the connection",
        "maxClientCnxns",
    );
}

#[test]
fn a_job_outlives_the_leader_of_its_ensemble() {
    let ensemble = ZooKeeperEnsemble::fresh();
    let url = format!("zookeeper://{}", ensemble.hosts());
    let place = Place::new();
    works(&place, &url);
    let options = ["--lease", "9s", "--backend-timeout", "20s"];
    let holder = Holder::start(&place, &mut on(&place, &url, "job", &options), "true");
    let lock = || {
        let member = ensemble.members.iter().find(|member| member.four_letters("srvr").contains("Mode:"))?;
        ZooKeeperLocks { client: member.client(), chroot: "" }.stored("job")
    };
    let before = lock().unwrap();
    ensemble.leader().kill();
    // Another leads, and the lock is renewed there.
    let after = wait_until("a renewal", || lock().filter(|lock| lock.until > before.until));
    assert_eq!((after.owner, after.since), (before.owner, before.since));
    finish(&mut on(&place, &url, "job", &["-E", "75", "--backend-timeout", "20s", "true"])).is_silent_with(75);
    holder.end().is_silent_with(0);
    finish(&mut on(&place, &url, "job", &["-E", "75", "--backend-timeout", "20s", "true"])).is_silent_with(0);
    // Without a majority nobody gets a lock.
    ensemble.leader().kill();
    let rest = ensemble.members.iter().find(|member| !member.processes().is_empty()).unwrap();
    let url = format!("zookeeper://127.0.0.1:{}", rest.plain_port());
    fails(&url, "the server closed the connection before it answered", "majority");
}
