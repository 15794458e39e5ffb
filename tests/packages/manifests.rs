//! The manifests for Kubernetes: they are what its API takes, and what they start works as in a pod.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::container::{texts, yaml};
use super::made::SHEDLOCK;
use super::root::{Root, repository};
use super::support::process::{Started, wait_for_child, write_script};
use super::support::{Finished, Place, kill, wait_until};
use servers::PostgresDatabase;

const MANIFESTS: [&str; 3] = ["cronjob-database", "cronjob-image-volume", "cronjob-init-container"];

fn manifest(name: &str) -> Value {
    yaml(&format!("packaging/kubernetes/{name}.yaml"))
}

/// The template of a CronJob's pods, and the spec of its Jobs.
fn pod(manifest: &Value) -> (&Value, &Value) {
    let job = &manifest["spec"]["jobTemplate"]["spec"];
    (&job["template"]["spec"], job)
}

#[test]
fn the_api_of_kubernetes_takes_the_manifests() {
    let schema: Value = serde_json::from_str(include_str!("kubernetes.schema.json")).unwrap();
    let validator = |kind: &str| {
        let mut schema = schema.clone();
        schema["$ref"] = json!(format!("#/$defs/{kind}"));
        jsonschema::validator_for(&schema).unwrap()
    };
    for name in MANIFESTS.iter().chain(&["secret"]) {
        let manifest = manifest(name);
        let validator = validator(manifest["kind"].as_str().unwrap());
        let errors: Vec<String> = validator.iter_errors(&manifest).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
    // The schema is strict enough to see a mistake.
    let mut wrong = manifest("cronjob-database");
    wrong["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["enviroment"] = json!([]);
    assert!(!validator("CronJob").is_valid(&wrong));
    // The secret; and the rights, the monitor and the CronJob without a database, which tests/all/backends/kubernetes.rs gives to a real API server.
    assert_eq!(fs::read_dir("packaging/kubernetes").unwrap().count(), MANIFESTS.len() + 4);
}

#[test]
fn every_pod_has_the_settings_that_the_level_restricted_asks_for() {
    for name in MANIFESTS {
        let manifest = manifest(name);
        let (pod, _) = pod(&manifest);
        let security = &pod["securityContext"];
        assert_eq!(
            (&security["runAsNonRoot"], &security["seccompProfile"]["type"]),
            (&json!(true), &json!("RuntimeDefault"))
        );
        for field in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(pod[field].is_null(), "{name}: {field}");
        }
        let lists = ["containers", "initContainers"].map(|list| pod[list].as_array().cloned().unwrap_or_default());
        for container in lists.concat() {
            let security = &container["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false, "{name}: {container}");
            assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }), "{name}: {container}");
        }
    }
}

#[test]
fn the_manifests_differ_only_in_how_the_program_comes_into_the_pod() {
    let without_program = |name: &str| {
        let mut manifest = manifest(name);
        let pod = &mut manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"];
        pod.as_object_mut().unwrap().remove("initContainers");
        let is_other = |thing: &Value| thing["name"] != "program";
        pod["volumes"].as_array_mut().unwrap().retain(is_other);
        pod["containers"][0]["volumeMounts"].as_array_mut().unwrap().retain(is_other);
        pod["containers"][0]["command"][0] = json!("shedlock");
        manifest
    };
    for name in MANIFESTS {
        assert_eq!(without_program(name), without_program("cronjob-database"), "{name}");
    }
}

#[test]
fn a_pod_that_is_deleted_has_the_time_that_its_job_may_take() {
    let manifest = manifest("cronjob-database");
    let (pod, job) = pod(&manifest);
    let words = texts(&pod["containers"][0]["command"]);
    let stop = words.windows(2).find(|pair| pair[0] == "--stop-timeout").unwrap()[1].strip_suffix('s').unwrap();
    assert!(stop.parse::<u64>().unwrap() < pod["terminationGracePeriodSeconds"].as_u64().unwrap());
    // An end that is tried again needs a free lock, and podFailurePolicy needs pods that are not restarted.
    assert!(words.windows(2).any(|pair| pair == ["--on-failure", "release"]));
    assert_eq!((&job["backoffLimit"], &pod["restartPolicy"]), (&json!(2), &json!("Never")));
}

/// What a kubelet does for a container, and a container runtime: the root is read-only, and nothing is in it but the image,
/// the volumes, /proc and /dev.
const START: &str = r#"
    root=$1 user=$2
    shift 2
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --bind /dev/null "$root/dev/null"
    mount -o remount,bind,ro "$root"
    exec setpriv --no-new-privs chroot --userspec="$user:$user" --groups="$user" "$root" "$@"
"#;

/// A pod on its only node.
struct Node {
    place: Place,
    root: Root,
    manifest: Value,
    url: String,
}

impl Node {
    /// `report` is the job, which the image has.
    fn new(name: &str, database: &PostgresDatabase, report: &str) -> Self {
        let manifest = manifest(name);
        let (place, root) = (Place::new(), Root::with(&SHEDLOCK.binary()));
        root.add_shell();
        root.write("etc/hosts", "127.0.0.1 db.example\n");
        root.write("dev/null", "");
        for directory in ["proc", "etc/shedlock", "opt/shedlock", "usr/local/bin"] {
            fs::create_dir_all(root.path(directory)).unwrap();
        }
        write_script(&place, "report", &format!("#!/busybox sh\n{report}\n"));
        root.copy(&place.path("report"), "usr/local/bin/report");
        // Where the manifest looks for the program.
        let (pod, _) = pod(&manifest);
        let program = texts(&pod["containers"][0]["command"])[0];
        let file = if program.starts_with('/') { program.trim_start_matches('/') } else { "usr/local/bin/shedlock" };
        fs::create_dir_all(root.path(file).parent().unwrap()).unwrap();
        match pod["initContainers"][0]["command"].as_array() {
            Some(copies) => {
                let [copy, from, to] = [0, 1, 2].map(|word| copies[word].as_str().unwrap());
                assert_eq!((copy, from, to), ("cp", "/usr/local/bin/shedlock", "/opt/shedlock/"));
                root.copy(&SHEDLOCK.binary(), "opt/shedlock/shedlock");
            }
            None => root.copy(&SHEDLOCK.binary(), file),
        }
        fs::remove_file(root.path("shedlock")).unwrap();
        let url = database.url_at("db.example");
        Self { place, root, manifest, url }
    }

    fn start(&self, tag: &str) -> Started {
        let (pod, _) = pod(&self.manifest);
        let (container, security) = (&pod["containers"][0], &pod["securityContext"]);
        assert_eq!((&security["runAsNonRoot"], &security["runAsGroup"]), (&json!(true), &security["runAsUser"]));
        let expected = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] }, "readOnlyRootFilesystem": true });
        assert_eq!(container["securityContext"], expected);
        self.mount_secret();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", START, "sh"]);
        command.arg(self.root.path("")).arg(security["runAsUser"].to_string());
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        // A kubelet says so in every container.
        command.env("KUBERNETES_SERVICE_HOST", "10.0.0.1");
        for variable in container["env"].as_array().unwrap() {
            command.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
        }
        Started::new(&self.place, tag, command.args(texts(&container["command"])))
    }

    /// The Secret's keys as files with the mode that is asked for, of root and of the pod's group.
    fn mount_secret(&self) {
        let (pod, _) = pod(&self.manifest);
        let named = |list: &Value, name: &str| {
            list.as_array().unwrap().iter().find(|thing| thing["name"] == name).unwrap().clone()
        };
        let secret = named(&pod["volumes"], "shedlock")["secret"].clone();
        assert_eq!(secret["secretName"], manifest("secret")["metadata"]["name"]);
        let place = named(&pod["containers"][0]["volumeMounts"], "shedlock")["mountPath"].as_str().unwrap().to_owned();
        for key in manifest("secret")["stringData"].as_object().unwrap().keys() {
            let file = self.root.path(&format!("{}/{key}", place.trim_start_matches('/')));
            let _ = fs::remove_file(&file);
            fs::write(&file, &self.url).unwrap();
            let mode = u32::try_from(secret["defaultMode"].as_u64().unwrap()).unwrap();
            assert_eq!(mode & 0o27, 0, "only root and the pod's group read the password");
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            let group = u32::try_from(pod["securityContext"]["fsGroup"].as_u64().unwrap()).unwrap();
            std::os::unix::fs::chown(&file, Some(0), Some(group)).unwrap();
        }
    }

    fn run(&self) -> Finished {
        self.start("pod").finish()
    }
}

#[test]
fn a_pod_runs_the_job_once_for_all_clusters() {
    for name in MANIFESTS {
        let database = servers::postgres().database();
        let node = Node::new(name, &database, "echo done by $PPID; ! echo 2>/dev/null >/file");
        let finished = node.run();
        assert_eq!((finished.code(), finished.stdout.as_str()), (Some(0), "done by 1\n"), "{name}: {finished:?}");
        assert_eq!(finished.stderr, "");
        // Another cluster's pod, a little later.
        node.run().is_silent_with(0);
        assert_eq!(database.psql("select count(*), min(outcome) from shedlock_history"), "1|success");
    }
}

#[test]
fn a_pod_after_a_failed_one_tries_again() {
    let database = servers::postgres().database();
    let node = Node::new("cronjob-database", &database, "echo tried; exit 9");
    for _ in 0..2 {
        let finished = node.run();
        assert_eq!((finished.code(), finished.stdout.as_str()), (Some(9), "tried\n"), "{finished:?}");
    }
    // What podFailurePolicy speaks of: there is no such command.
    fs::remove_file(node.root.path("usr/local/bin/report")).unwrap();
    assert_eq!(node.run().code(), Some(127));
}

#[test]
fn a_pod_that_is_deleted_ends_its_job_and_frees_the_lock() {
    let database = servers::postgres().database();
    let report = "trap 'echo ended; exit 3' TERM; echo begun; while :; do /busybox sleep 0.02; done";
    let node = Node::new("cronjob-database", &database, report);
    let started = node.start("pod");
    wait_until("the job to have begun", || (node.place.read("pod.stdout") == "begun\n").then_some(()));
    kill(wait_for_child(started.pid()), "TERM");
    let finished = started.finish();
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(3), "begun\nended\n"), "{finished:?}");
    assert_eq!(database.psql("select lock_until <= timezone('utc', now()) from shedlock"), "t");
}

#[test]
fn without_a_backend_a_pod_is_told_that_a_file_excludes_nobody() {
    let database = servers::postgres().database();
    let mut node = Node::new("cronjob-database", &database, "echo never");
    node.manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["env"] = json!([]);
    node.run().complains(125, "in a Kubernetes pod there is no default");
}

#[test]
fn the_job_is_not_told_the_password() {
    let database = servers::postgres_tls().database_of("clerk");
    let node = Node::new("cronjob-database", &database, "/busybox env; /busybox cat /proc/1/cmdline");
    let node = Node { url: database.login("clerk:s3cret").url_at("db.example") + "?sslmode=require", ..node };
    let finished = node.run();
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    assert!(finished.stdout.contains("SHEDLOCK_LOCK_NAME=nightly-report") && !finished.stdout.contains("s3cret"));
}

#[test]
fn a_pod_after_one_that_was_killed_finds_the_lock_held_unless_it_waits() {
    for waits in [false, true] {
        let database = servers::postgres().database();
        let report = "echo begun; [ -e /opt/shedlock/once ] || exec /busybox sleep 1000";
        let mut node = Node::new("cronjob-database", &database, report);
        let pod = &mut node.manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"];
        let words = pod["containers"][0]["command"].as_array_mut().unwrap();
        let place = |words: &[Value], word: &str| words.iter().position(|other| other == word).unwrap();
        // A minute is long for a test.
        let lease = place(words, "--lease") + 1;
        assert_eq!(std::mem::replace(&mut words[lease], json!("3s")), "1m");
        if waits {
            let at_least = place(words, "--at-least");
            (words[at_least], words[at_least + 1]) = (json!("--wait"), json!("30s"));
        }
        let first = node.start("first");
        wait_until("the job to have begun", || (node.place.read("first.stdout") == "begun\n").then_some(()));
        kill(wait_for_child(first.pid()), "KILL");
        first.finish();
        node.root.write("opt/shedlock/once", "");
        let second = node.run();
        assert_eq!(
            (second.code(), second.stdout.as_str()),
            (Some(0), if waits { "begun\n" } else { "" }),
            "{second:?}"
        );
    }
}

/// The files that a page shows; SHEDLOCK_BLESS=1 writes the page anew.
#[test]
fn the_documents_show_the_files() {
    let page = repository().join("docs/running.md");
    let text = fs::read_to_string(&page).unwrap();
    let mut fresh = text.clone();
    for name in ["container/job.Dockerfile", "kubernetes/cronjob.yaml"] {
        let (begin, end) = (format!("<!-- generated: {name} -->\n"), "<!-- /generated -->");
        let (before, rest) = fresh.split_once(&begin).unwrap_or_else(|| panic!("{name} is not shown"));
        let after = rest.split_once(end).unwrap().1;
        let language = if name.ends_with(".yaml") { "yaml" } else { "dockerfile" };
        let file = fs::read_to_string(repository().join("packaging").join(name)).unwrap();
        fresh = format!("{before}{begin}```{language}\n{file}```\n{end}{after}");
    }
    if std::env::var_os("SHEDLOCK_BLESS").is_some() {
        fs::write(page, fresh).unwrap();
    } else {
        assert_eq!(
            text, fresh,
            "docs/running.md is stale; SHEDLOCK_BLESS=1 cargo test --test packages manifests:: writes it anew"
        );
    }
}
