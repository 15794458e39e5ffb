//! What is special to MongoDB: TLS, logins, rights, replica sets. The servers are stand-ins, one of which has users and steps
//! down.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::fixtures::Holder;
use crate::support::markdown::run_by;
use crate::support::{Finished, Place, finish, wait_until};
use servers::stores::{MongoDbStore, Store};
use servers::{Disguise, MongoDb, certificates, mongodb, mongodb_mutual_tls, mongodb_tls, mongodb_users, unique};

fn on(place: &Place, url: &str, name: &str, arguments: &[&str]) -> Command {
    let mut command = place.run(name, arguments);
    command.env("SHEDLOCK_BACKEND", url).env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
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
    complains(&finish(&mut on(&place, url, "job", &["--backend-timeout", "5s", "touch", "ran"])), message, hint);
    assert!(!place.path("ran").exists());
}

#[track_caller]
fn complains(ended: &Finished, message: &str, hint: &str) {
    ended.complains(125, message);
    assert!(ended.stderr.lines().nth(1).is_some_and(|line| line.contains(hint)), "{hint} is not in {ended:?}");
}

#[test]
fn tls_verifies_the_server() {
    let (files, place, database) = (certificates(), Place::new(), unique("tls"));
    let url = |host: &str, query: &str| format!("mongodb://{host}:{}/{database}?{query}", mongodb_tls().port());
    works(&place, &url("localhost", &format!("sslmode=verify-full&sslrootcert={}", files.authority())));
    works(&place, &url("127.0.0.1", &format!("tls=true&sslrootcert={}", files.authority())));
    works(&place, &url("127.0.0.1", "sslmode=require"));
    let untrusted = "an authority that is not trusted";
    fails(&url("localhost", &format!("sslrootcert={}", files.stranger())), untrusted, "sslrootcert=FILE");
    let nowhere = url("localhost", "sslrootcert=/no/such/file");
    finish(&mut on(&place, &nowhere, "job", &["true"])).complains(125, "sslrootcert /no/such/file cannot be read");
    fails(&url("127.0.0.1", ""), "the server closed the connection", "need tls=true");
    let plain = format!("mongodb://127.0.0.1:{}/{database}?sslmode=require", mongodb().port());
    fails(&plain, "no answer in time", "that the port is right");
}

/// Not those that the driver brings along.
#[test]
fn the_authorities_of_the_system_vouch_for_a_server() {
    let (files, place) = (certificates(), Place::new());
    let url = format!("mongodb://localhost:{}/{}?tls=true", mongodb_tls().port(), unique("tls"));
    let mut run = on(&place, &url, "works", &["true"]);
    finish(run.env("SSL_CERT_FILE", files.authority())).is_silent_with(0);
    let mut run = on(&place, &url, "works", &["true"]);
    complains(
        &finish(run.env("SSL_CERT_FILE", files.stranger())),
        "an authority that is not trusted",
        "sslrootcert=FILE",
    );
    complains(
        &finish(&mut on(&place, &url, "works", &["true"])),
        "an authority that is not trusted",
        "sslrootcert=FILE",
    );
}

#[test]
fn a_client_certificate_is_shown_to_a_server_that_wants_one() {
    let files = certificates();
    let url = format!("mongodb://localhost:{}/tls?sslrootcert={}", mongodb_mutual_tls().port(), files.authority());
    works(&Place::new(), &format!("{url}&sslcert={}&sslkey={}", files.client(), files.client_key()));
    fails(&url, "the server requires a client certificate", "sslcert=FILE&sslkey=FILE");
    let another = format!("{url}&sslcert={}&sslkey={}", files.client(), files.server_key());
    fails(&another, "is not the key of", "sslkey must be the key");
}

/// Returns a database of the server with users, and its URL before the parameters for a login such as `jobs:s3cret@`.
fn guarded() -> (MongoDbStore, impl Fn(&str) -> String) {
    let server: &MongoDb = mongodb_users();
    let store = MongoDbStore::of(server);
    let address = format!("127.0.0.1:{}/{}", server.port(), store.database());
    (store, move |login: &str| format!("mongodb://{login}{address}"))
}

/// Makes a user of the database with a password and these rights on the locks.
fn user(store: &MongoDbStore, name: &str, rights: &[&str]) {
    let resource = json!({"db": store.database(), "collection": "shedLock"});
    let privileges = json!([{"resource": resource, "actions": rights}]);
    store.command("createRole", name, &json!({"roles": [], "privileges": privileges}));
    store.command("createUser", name, &json!({"pwd": "s3cret", "roles": [name]}));
}

const ENOUGH: [&str; 3] = ["find", "insert", "update"];

#[test]
fn only_who_may_remove_forgets() {
    let (store, url) = guarded();
    user(&store, "jobs", &ENOUGH);
    user(&store, "operator", &["find", "remove"]);
    let place = Place::new();
    works(&place, &url("jobs:s3cret@"));
    let forget = |login: &str| finish(place.shedlock(["forget", "works"]).env("SHEDLOCK_BACKEND", url(login)));
    complains(&forget("jobs:s3cret@"), "the user lacks rights", "it needs the action remove");
    let done = forget("operator:s3cret@");
    assert_eq!((done.code(), done.stdout.as_str()), (Some(0), "forgot `works`: the lock and 1 run\n"), "{done:?}");
}

#[test]
fn a_user_of_the_database_logs_in() {
    let (store, url) = guarded();
    user(&store, "jobs", &ENOUGH);
    let place = Place::new();
    works(&place, &url("jobs:s3cret@"));
    let mut run = on(&place, &url("jobs@"), "works", &["true"]);
    finish(run.env("SHEDLOCK_BACKEND_PASSWORD", "s3cret")).is_silent_with(0);
    works(&place, &format!("{}?authSource=admin", url("root:r00t@")));
    let rejected = "the server rejects this user and password";
    fails(&url("jobs:wrong@"), rejected, "SHEDLOCK_BACKEND_PASSWORD");
    fails(&url("jobs@"), rejected, "SHEDLOCK_BACKEND_PASSWORD");
    fails(&url("stranger:s3cret@"), rejected, "SHEDLOCK_BACKEND_PASSWORD");
    fails(&format!("{}?authSource=admin", url("jobs:s3cret@")), rejected, "authSource");
    fails(&url(""), "the server requires a user and password", "mongodb://USER@HOST/DATABASE");
    let check = finish(place.shedlock(["check"]).env("SHEDLOCK_BACKEND", url("jobs:s3cret@")));
    assert!(check.code() == Some(0) && check.stdout.contains("as jobs"), "{check:?}");
}

/// The commands of docs/security.md, of which `shedlock schema` prints some.
#[test]
fn the_rights_in_mongodb_are_enough() {
    let (store, url) = guarded();
    let site = Place::new();
    let [commands] = &run_by("docs/security.md", "the_rights_in_mongodb_are_enough")[..] else {
        panic!("there is not one block")
    };
    let schema = finish(site.shedlock(["schema"]).env("SHEDLOCK_BACKEND", "mongodb://jobs@HOST/ops")).stdout;
    let is_there = |line: &str| line.starts_with("//") || commands.contains(line);
    assert!(schema.lines().count() > 4 && schema.lines().all(is_there), "{schema}");
    let commands = commands.replace("\"ops\"", &format!("\"{}\"", store.database()));
    for line in commands.lines().filter(|line| line.contains("({")) {
        carry_out(&store, line);
    }
    works(&site, &url("jobs:s3cret@"));
    for user in ["jobs", "watcher"] {
        let status =
            site.shedlock(["status", "works"]).env("SHEDLOCK_BACKEND", url(&format!("{user}:s3cret@"))).output();
        let status = String::from_utf8(status.unwrap().stdout).unwrap();
        assert!(status.contains("free"), "{user}: {status}");
    }
    fails(&url("watcher:s3cret@"), "the user lacks rights: not authorized", "`shedlock schema` prints the role");
}

/// Carries out a line for MongoDB's shell, which knows functions, and words without quotation marks.
fn carry_out(store: &MongoDbStore, line: &str) {
    let (function, text) = line.strip_prefix("db.").unwrap().split_once('(').unwrap();
    let mut text = text.trim_end_matches(')').replace("passwordPrompt()", "\"s3cret\"");
    for word in ["role", "roles", "privileges", "resource", "db", "collection", "actions", "user", "pwd"] {
        text = text.replace(&format!("{{{word}: "), &format!("{{\"{word}\": "));
        text = text.replace(&format!(", {word}: "), &format!(", \"{word}\": "));
    }
    let Value::Object(mut fields) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
    let name = fields.remove(function.trim_start_matches("create").to_lowercase().as_str()).unwrap();
    store.command(function, name.as_str().unwrap(), &Value::Object(fields));
}

#[test]
fn each_of_these_rights_is_needed() {
    let (store, url) = guarded();
    for lacking in ENOUGH {
        let rest: Vec<_> = ENOUGH.into_iter().filter(|right| *right != lacking).collect();
        user(&store, lacking, &rest);
        // A document that is there needs no inserting.
        let url = url(&format!("{lacking}:s3cret@"));
        if lacking == "update" {
            user(&store, "first", &ENOUGH);
            finish(&mut on(&Place::new(), &url.replace("update:", "first:"), "job", &["true"])).is_silent_with(0);
        }
        fails(&url, "the user lacks rights: not authorized", "`shedlock schema` prints the role");
        if lacking == "insert" {
            assert_eq!(store.stored("job").map(|stored| stored.owner), None);
        }
    }
}

#[test]
fn members_of_a_replica_set_are_found() {
    let (store, _) = guarded();
    let url = |hosts: &str, set: &str| {
        let hosts = hosts.replace("HERE", &format!("127.0.0.1:{}", mongodb_users().port()));
        format!("mongodb://root:r00t@{hosts}/{}?authSource=admin&replicaSet={set}", store.database())
    };
    let place = Place::new();
    for hosts in ["HERE", "127.0.0.1:1,HERE", "HERE,no-such-host.invalid"] {
        works(&place, &url(hosts, "secantus"));
    }
    fails(&url("HERE", "another"), "no host of the URL is a member of the replica set", "rs.status() shows the name");
    fails(&url("127.0.0.1:1,127.0.0.1:2", "secantus"), "connection refused", "check that the server is running");
    fails(&url("no-such-host.invalid", "secantus"), "a host of the URL has no address", "getent hosts");
}

/// The only member is no primary for a while, as in an election.
#[test]
fn a_job_outlives_a_step_down_and_an_acquisition_waits_for_it() {
    let server = MongoDb::with_users();
    let store = MongoDbStore::of(&server);
    let url = format!(
        "mongodb://root:r00t@127.0.0.1:{}/{}?authSource=admin&replicaSet=secantus",
        server.port(),
        store.database()
    );
    let place = Place::new();
    works(&place, &url);
    let holder =
        Holder::start(&place, &mut on(&place, &url, "job", &["--lease", "12s", "--backend-timeout", "20s"]), "true");
    let before = store.stored("job").unwrap();
    server.client().request(&json!(["command", "admin", "replSetStepDown", 5, {"force": true}]));
    // Meanwhile nobody gets a lock.
    let refused = finish(&mut on(&place, &url, "other", &["--backend-timeout", "1s", "true"]));
    complains(&refused, "no server can be written to: there is no primary server", "rs.status()");
    finish(&mut on(&place, &url, "other", &["--backend-timeout", "20s", "true"])).is_silent_with(0);
    let after = wait_until("a renewal", || store.stored("job").filter(|lock| lock.until > before.until));
    assert_eq!((after.owner, after.since), (before.owner, before.since));
    finish(&mut on(&place, &url, "job", &["-E", "75", "true"])).is_silent_with(75);
    holder.end().is_silent_with(0);
    finish(&mut on(&place, &url, "job", &["-E", "75", "true"])).is_silent_with(0);
}

#[test]
fn ferretdb_whose_updates_are_not_atomic_is_refused_by_its_name() {
    let server = MongoDb::ferretdb();
    is_refused(server.port(), "FerretDB 1.24.2");
    // A program that has FerretDB in itself does not know its version.
    let embedded = Disguise::new(server.port(), "v1.24.2", "unknown");
    is_refused(embedded.port(), "FerretDB of an unknown version");
}

/// Asserts that no run starts on what listens at this port, and that `check` says why.
#[track_caller]
fn is_refused(port: u16, name: &str) {
    let url = format!("mongodb://127.0.0.1:{port}/locks");
    let refused = format!("the server is {name}, whose updates are not atomic, so it cannot lock");
    fails(&url, &refused, "use MongoDB, or another backend");
    let checked = finish(Place::new().shedlock(["check"]).env("SHEDLOCK_BACKEND", &url));
    assert_eq!(checked.code(), Some(1), "{checked:?}");
    assert!(checked.stdout.lines().any(|line| line.starts_with("✗") && line.contains(&refused)), "{checked:?}");
}
