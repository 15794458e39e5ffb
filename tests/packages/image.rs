//! The image, somebody's own image with the program in it, and the example for docker compose.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::container::{Store, everything_in, texts, yaml};
use super::support::process::Started;
use super::support::{Place, finish, wait_until};

const COMPOSE: &str = "packaging/container/compose.yaml";
const VERSION: &str = concat!("shedlock ", env!("CARGO_PKG_VERSION"), "\n");

#[test]
fn the_image_has_nothing_but_the_program() {
    let store = Store::new();
    store.build_program();
    let container = store.buildah(&["from", "shedlock"]);
    let place = store.buildah(&["mount", &container]);
    let expected = ["usr 755 0", "usr/local 755 0", "usr/local/bin 755 0", "usr/local/bin/shedlock 755 0"];
    assert_eq!(everything_in(Path::new(&place)), expected);
    let finished = finish(&mut store.run(&["--network", "none", "--read-only", "shedlock", "--version"]));
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), VERSION), "{finished:?}");
    // There is no place for a file of its own, in which a container would lock nobody out.
    let job = ["run", "--name", "job", "--at-most", "1m", "--", "/usr/local/bin/shedlock", "--version"];
    let run = |options: &[&str]| finish(&mut store.run(&[options, &["shedlock"], &job].concat()));
    for options in [&["--network", "none", "--read-only"][..], &["--network", "none"]] {
        let finished = run(options);
        assert_eq!(finished.code(), Some(125), "{finished:?}");
        // Whose / is depends on what made the container.
        let reasons = ["/.local/state/shedlock/shedlock.db: it cannot be created", "this user has no home directory"];
        assert!(reasons.iter().any(|reason| finished.stderr.contains(reason)), "{}", finished.stderr);
    }
    let locks = tempfile::tempdir().unwrap();
    fs::set_permissions(locks.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mount = format!("{}:/locks", locks.path().display());
    let options =
        ["--network", "none", "--read-only", "-v", &mount, "-e", "SHEDLOCK_BACKEND=sqlite:/locks/shedlock.db"];
    let finished = run(&options);
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), VERSION), "{finished:?}");
}

/// The store, and the options of a container of the compose file's host, with the files that it needs.
struct Hosts {
    place: Place,
    store: Store,
    compose: serde_json::Value,
}

impl Hosts {
    /// `report` is the job, in the place of the one of the example.
    fn new(url: &str, report: Option<&str>) -> Self {
        let (place, store, compose) = (Place::new(), Store::new(), yaml(COMPOSE));
        store.build_program();
        store.make_busybox();
        let build = &compose["services"]["host1"]["build"];
        let context = place.path("context");
        assert!(Command::new("cp").args(["-r", "packaging/container"]).arg(&context).status().unwrap().success());
        if let Some(report) = report {
            fs::write(context.join("report"), report).unwrap();
        }
        let file = context.join(build["dockerfile"].as_str().unwrap());
        store.build(file.to_str().unwrap(), &["-t", "job"], context.to_str().unwrap());
        fs::write(place.path("backend"), url).unwrap();
        fs::set_permissions(place.path("backend"), fs::Permissions::from_mode(0o444)).unwrap();
        Self { place, store, compose }
    }

    /// Starts a service as the file says, but for the network, which is this host's.
    fn start(&self, name: &str) -> Started {
        let service = &self.compose["services"][name];
        let text = |key: &str| service[key].as_str().unwrap();
        let mut command = self.store.run(&["--network", "host", "--add-host", "db:127.0.0.1", "--name", name]);
        command.args(["--env", &format!("HOSTNAME={}", text("hostname"))]);
        assert_eq!(service["read_only"], true);
        command.arg("--read-only");
        for (key, option) in [("cap_drop", "--cap-drop"), ("security_opt", "--security-opt")] {
            command.args(texts(&service[key]).iter().flat_map(|value| [option, *value]));
        }
        for (key, value) in service["environment"].as_object().unwrap() {
            command.args(["--env", &format!("{key}={}", value.as_str().unwrap())]);
        }
        for secret in texts(&service["secrets"]) {
            command.args(["-v", &format!("{}:/run/secrets/{secret}:ro", self.place.path(secret).display())]);
        }
        command.arg("job").args(texts(&service["command"]));
        Started::new(&self.place, name, &mut command)
    }
}

#[test]
fn of_two_hosts_of_the_compose_file_one_runs_the_job() {
    let database = servers::postgres().database();
    let hosts = Hosts::new(&database.url_at("db"), None);
    let both = ["host1", "host2"].map(|name| hosts.start(name)).map(Started::finish);
    for finished in &both {
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""));
    }
    let printed = both.iter().map(|finished| finished.stdout.as_str()).collect::<String>();
    assert!(
        ["host1", "host2"].iter().any(|host| printed == format!("the report, by {host}, with token 1\n")),
        "{printed}"
    );
    // One that comes when the job has ended is too late as well.
    hosts.start("host1").finish().is_silent_with(0);
    assert_eq!(database.psql("select count(*), min(outcome) from shedlock_history"), "1|success");
}

#[test]
fn stopping_a_container_of_the_compose_file_ends_the_job_and_frees_the_lock() {
    let database = servers::postgres().database();
    let report = "#!/bin/sh\ntrap 'echo ended; exit 3' TERM\necho begun\nwhile :; do sleep 0.05; done\n";
    let hosts = Hosts::new(&database.url_at("db"), Some(report));
    let started = hosts.start("host1");
    wait_until("the job to have begun", || (hosts.place.read("host1.stdout") == "begun\n").then_some(()));
    let stopped = finish(&mut hosts.store.podman(&["kill", "--signal", "TERM", "host1"]));
    assert!(stopped.status.success(), "{stopped:?}");
    let finished = started.finish();
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(3), "begun\nended\n"), "{finished:?}");
    assert_eq!(database.psql("select exit_code, outcome from shedlock_history"), "3|failure");
}

#[test]
fn the_compose_file_gives_the_database_what_the_job_asks_for() {
    let compose = yaml(COMPOSE);
    let environment = &compose["services"]["db"]["environment"];
    assert_eq!(
        (environment["POSTGRES_USER"].as_str(), environment["POSTGRES_DB"].as_str()),
        (Some("jobs"), Some("ops"))
    );
    let text = fs::read_to_string(COMPOSE).unwrap();
    assert!(text.contains("# postgres://jobs:PASSWORD@db/ops\n"));
    for service in compose["services"].as_object().unwrap().values() {
        // Who may look at a container sees its variables.
        let variables = service["environment"].as_object().unwrap();
        assert!(variables.values().all(|value| !value.as_str().unwrap().contains("://")), "{variables:?}");
        assert!(variables.keys().all(|name| !name.ends_with("PASSWORD")), "{variables:?}");
        for secret in texts(&service["secrets"]) {
            assert!(compose["secrets"][secret]["file"].is_string(), "{secret}");
        }
    }
}
