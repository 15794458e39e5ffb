//! Leases on a real API server: rights, tokens, what others do with a Lease, and what the program says about trouble.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::support::fixtures::Holder;
use crate::support::process::under;
use crate::support::relay::{Act, Relay};
use crate::support::{Finished, Place, finish, finish_child, start, wait_until};
use servers::stores::{KubernetesStore, Store};
use servers::{Kubernetes, Namespace, STRANGER, certificates};

const RIGHTS: &str = include_str!("../../../packaging/kubernetes/rbac.yaml");

/// Returns `shedlock WORDS` with this URL.
fn shedlock(place: &Place, url: &str, words: &[&str]) -> Command {
    let mut command = place.shedlock(words);
    command.env("SHEDLOCK_BACKEND", url);
    command
}

fn run(place: &Place, url: &str, words: &[&str]) -> Finished {
    finish(&mut shedlock(place, url, &[&["run", "--name", "job", "--at-most", "1m"], words].concat()))
}

/// Returns the URL of the account `shedlock` of the namespace, with a token as a pod has it.
fn of_account(place: &Place, namespace: &Namespace) -> String {
    fs::write(place.path("token"), namespace.token_of("shedlock")).unwrap();
    namespace.url_at(&format!("127.0.0.1:{}", namespace.port()), place.path("token").to_str().unwrap())
}

#[test]
fn the_role_has_all_rights_that_are_needed_and_no_more() {
    let (place, namespace) = (Place::new(), servers::kubernetes().namespace());
    let printed = finish(&mut shedlock(&place, "", &["schema", "kubernetes"]));
    assert_eq!((printed.code(), printed.stdout.as_str()), (Some(0), RIGHTS));
    namespace.apply(&printed.stdout);
    let url = of_account(&place, &namespace);
    run(&place, &url, &["--lease", "2s", "sleep", "2.5"]).is_silent_with(0);
    run(&place, &url, &["--at-least", "30s", "true"]).is_silent_with(0);
    run(&place, &url, &["-E", "75", "true"]).is_silent_with(75);
    for words in [
        &["status"][..],
        &["history"],
        &["check"],
        &["init"],
        &["unlock", "--force", "job"],
        &["pause", "job"],
        &["resume", "job"],
    ] {
        let finished = finish(&mut shedlock(&place, &url, words));
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{words:?}: {finished:?}");
    }
    // Each verb is needed: without it something fails, and says which rights there have to be.
    let without = |verb: &str| RIGHTS.replace(&format!("{verb}, "), "").replace(&format!(", {verb}]"), "]");
    for (verb, name, words) in [
        ("get", "a", &["run", "--name", "a", "--at-most", "1m", "true"][..]),
        ("create", "b", &["run", "--name", "b", "--at-most", "1m", "true"]),
        ("update", "job", &["run", "--name", "job", "--at-most", "1m", "true"]),
        ("list", "", &["status"]),
    ] {
        let namespace = servers::kubernetes().namespace();
        if name == "job" {
            run(&place, &namespace.url(), &["true"]).is_silent_with(0);
        }
        let rights = without(verb);
        assert_ne!(rights, RIGHTS);
        namespace.apply(&rights);
        let refused = finish(&mut shedlock(&place, &of_account(&place, &namespace), words));
        refused.complains(125, &format!("cannot {verb} resource \"leases\""));
        assert!(refused.stderr.contains("hint: the service account needs the verbs get, create, update and list"));
    }
}

#[test]
fn check_says_what_is_missing() {
    let (place, namespace) = (Place::new(), servers::kubernetes().namespace());
    let check = |url: &str| {
        let finished = finish(&mut shedlock(&place, url, &["check", "--json"]));
        let found: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|why| panic!("{why}: {finished:?}"));
        found
    };
    let says = |found: &Value, grade: &str, subject: &str, seen: &str| {
        let is_it = |one: &Value| {
            (one["grade"] == grade && one["subject"] == subject) && one["seen"].as_str().unwrap().contains(seen)
        };
        assert!(found.as_array().unwrap().iter().any(is_it), "{grade} {subject} {seen}: {found:#}");
    };
    let good = check(&namespace.url());
    for (subject, seen) in [
        ("address", "answers"),
        ("TLS", "certificate and name are verified"),
        ("server", "Kubernetes v"),
        ("login", "as keeper"),
        ("namespace", &namespace.name),
        ("rights", "get, create, update and list"),
        ("clock", "agree"),
        ("take", ""),
        ("release", ""),
    ] {
        says(&good, "good", subject, seen);
    }
    let address = format!("127.0.0.1:{}", namespace.port());
    let token = |name: &str, text: &str| {
        fs::write(place.path(name), text).unwrap();
        namespace.url_at(&address, place.path(name).to_str().unwrap())
    };
    says(&check(&token("stranger", STRANGER)), "bad", "rights", "no right to get, create, update, list Leases");
    says(&check(&token("nobody", "of-nobody")), "bad", "login", "does not know this client");
    let rights = servers::kubernetes().namespace();
    rights.apply(&RIGHTS.replace(", list]", "]"));
    says(&check(&of_account(&place, &rights)), "unwise", "rights", "no right to list");
    let missing = check(&namespace.url().replace(&namespace.name, "no-such-namespace"));
    says(&missing, "bad", "take", "namespaces \"no-such-namespace\" not found");
    let strange = namespace.url().replace(&certificates().authority(), &certificates().stranger());
    says(&check(&strange), "bad", "TLS", "certificate");
    says(&check("kubernetes:jobs"), "bad", "login", "this is not a pod");
}

/// Kubernetes writes a pod's token anew before the old one expires; a job with a lease outlives its first token.
#[test]
fn a_token_that_expires_while_the_job_runs_is_read_again() {
    let (place, namespace) = (Place::new(), servers::kubernetes().namespace());
    namespace.apply(RIGHTS);
    let url = of_account(&place, &namespace);
    let account = format!("/api/v1/namespaces/{}/serviceaccounts/shedlock", namespace.name);
    let words = [
        "run",
        "--name",
        "job",
        "--at-most",
        "1m",
        "--lease",
        "2s",
        "sh",
        "-c",
        "until [ -e go ]; do sleep 0.05; done",
    ];
    let job = start(&mut shedlock(&place, &url, &words));
    let store = KubernetesStore(namespace.clone());
    let taken = wait_until("the acquisition", || store.stored("job"));
    // The tokens of an account that is deleted are void at once.
    namespace.request("DELETE", &account, "");
    namespace.apply(RIGHTS);
    fs::write(place.path("next"), namespace.token_of("shedlock")).unwrap();
    fs::rename(place.path("next"), place.path("token")).unwrap();
    wait_until("two renewals", || (store.stored("job")?.until > taken.until + 2000).then_some(()));
    fs::write(place.path("go"), "").unwrap();
    finish_child(job).is_silent_with(0);
    assert_eq!(store.history("job")[0].outcome.as_deref(), Some("success"));
}

/// A pod has nothing but what Kubernetes gives it: the variables, and here the files of the test.
#[test]
fn in_a_pod_the_server_is_known() {
    let (place, namespace) = (Place::new(), servers::kubernetes().namespace());
    let store = KubernetesStore(namespace.clone());
    let files = store.url().split_once('?').unwrap().1.to_owned();
    let url = format!("kubernetes:{}?{files}", namespace.name);
    let mut command = shedlock(&place, &url, &["run", "--name", "job", "--at-most", "1m", "--", "sh", "-c"]);
    command.arg("test -n \"$SHEDLOCK_LOCK_TOKEN\" && shedlock verify || exit 9");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_shedlock")).parent().unwrap();
    command.env("PATH", format!("{}:{}", program.display(), std::env::var("PATH").unwrap()));
    command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", namespace.port().to_string());
    finish(&mut command).is_silent_with(0);
    assert_eq!(store.history("job").len(), 1);
    // Outside of a pod there is no such server, and without its files no login.
    run(&place, &url, &["true"]).complains(125, "this is not a pod");
    let bare = finish(
        shedlock(&place, "kubernetes:", &["run", "--name", "job", "--at-most", "1m", "true"])
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
    );
    bare.complains(125, "/var/run/secrets/kubernetes.io/serviceaccount");
    assert!(bare.stderr.contains("automountServiceAccountToken"), "{bare:?}");
}

/// What a kubelet puts into a pod: the account's files, in a mount namespace of their own.
const POD: &str = r#"
    mount -t tmpfs none /run
    [ -d /var/run ] || ln -s /run /var/run
    mkdir -p /var/run/secrets/kubernetes.io
    ln -s "$1" /var/run/secrets/kubernetes.io/serviceaccount
    shift
    exec "$@"
"#;

#[test]
fn the_cron_job_of_the_examples_works_in_a_pod_with_the_role() {
    let (place, namespace) = (Place::new(), servers::kubernetes().namespace());
    namespace.apply(RIGHTS);
    let manifest = include_str!("../../../packaging/kubernetes/cronjob.yaml");
    let (_, rest) = manifest.split_once("command: [shedlock, ").unwrap();
    let (words, rest) = rest.split_once("--, report]").unwrap();
    let words: Vec<&str> = words.split([',', ' ', '\n']).filter(|word| !word.is_empty()).collect();
    assert!(rest.contains("- name: SHEDLOCK_BACKEND\n                  value: \"kubernetes:\"\n"));
    assert!(manifest.contains("serviceAccountName: shedlock ") && RIGHTS.contains("kind: ServiceAccount"));
    for (file, text) in [("token", namespace.token_of("shedlock")), ("namespace", namespace.name.clone())] {
        fs::write(place.path(file), text).unwrap();
    }
    fs::copy(certificates().authority(), place.path("ca.crt")).unwrap();
    let in_pod = |words: &[&str]| {
        let mut command = shedlock(&place, "kubernetes:", words);
        command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
        command.env("KUBERNETES_SERVICE_PORT", namespace.port().to_string());
        let account = place.path("");
        let launcher = ["unshare", "--mount", "sh", "-ec", POD, "sh", account.to_str().unwrap()];
        finish(&mut crate::support::fixtures::by_root(&launcher, &command))
    };
    let pod = |job: &[&str]| in_pod(&[&words, &["--"][..], job].concat());
    let probe = include_str!("../../../packaging/kubernetes/monitor.yaml")
        .split_once("command: [shedlock, status, --max")
        .unwrap();
    let probe = format!("status, --max{}", probe.1.split(']').next().unwrap());
    let probe: Vec<&str> = probe.split(", ").collect();
    assert_eq!(in_pod(&probe).code(), Some(1), "nothing has succeeded yet");
    let done = pod(&["sh", "-c", "echo done by $SHEDLOCK_LOCK_NAME"]);
    assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (Some(0), "done by nightly-report\n", ""));
    // The pod of the same firing on another node.
    pod(&["echo", "never"]).is_silent_with(0);
    assert_eq!(in_pod(&probe).code(), Some(0), "the job has succeeded");
    assert_eq!(KubernetesStore(namespace).history("nightly-report").len(), 1);
}

/// Everything is known to the API server, and nothing is missing.
#[test]
fn the_api_server_takes_the_manifests() {
    let namespace = servers::kubernetes().namespace();
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/kubernetes")).unwrap() {
        let file = entry.unwrap().path();
        for manifest in fs::read_to_string(&file).unwrap().split("\n---\n") {
            let kind = manifest.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap();
            let group = match kind {
                "CronJob" => "/apis/batch/v1",
                "Deployment" => "/apis/apps/v1",
                "Role" | "RoleBinding" => "/apis/rbac.authorization.k8s.io/v1",
                _ => "/api/v1",
            };
            let path = format!(
                "{group}/namespaces/{}/{}s?fieldValidation=Strict&dryRun=All",
                namespace.name,
                kind.to_lowercase()
            );
            let (status, answer) = namespace.try_request("POST", &path, manifest);
            assert_eq!(status, 201, "{}: {answer}", file.display());
            let (status, _) = namespace.try_request("POST", &path, &manifest.replacen("metadata:", "metadatum:", 1));
            assert_eq!(status, 400, "the server is strict");
        }
    }
}

/// Also `kubectl edit`: what others have written into the Lease stays in it.
#[test]
fn a_lease_keeps_what_others_have_added() {
    let (place, namespace) = (Place::new(), servers::kubernetes().namespace());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "job", "labels": {"team": "ops"}, "annotations": {"note": "ours"}},
    });
    namespace.request("POST", &namespace.leases(""), &lease.to_string());
    run(&place, &namespace.url(), &["true"]).is_silent_with(0);
    let lease = namespace.request("GET", &namespace.leases("/job"), "");
    let metadata = &lease["metadata"];
    assert_eq!((&metadata["labels"]["team"], &metadata["annotations"]["note"]), (&json!("ops"), &json!("ours")));
    assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "shedlock");
    let listed = finish(&mut shedlock(&place, &namespace.url(), &["status"]));
    assert!(listed.stdout.contains("job"), "{listed:?}");
}

/// Kubernetes deletes such a Lease when the last of the finalizers is gone.
#[test]
fn a_lease_that_stays_because_of_a_finalizer_is_not_said_to_be_forgotten() {
    let (place, store) = (Place::new(), KubernetesStore::new());
    run(&place, &store.url(), &["true"]).is_silent_with(0);
    let (namespace, path) = (&store.0, store.0.leases("/job"));
    let finalizers = |list: Value| {
        let mut lease = namespace.request("GET", &path, "");
        lease["metadata"]["finalizers"] = list;
        namespace.request("PUT", &path, &lease.to_string());
    };
    finalizers(json!(["example.com/keep"]));
    let stays = finish(&mut shedlock(&place, &store.url(), &["forget", "job"]));
    stays.complains(125, "the Lease job is deleted but stays");
    assert!(stays.stderr.contains("it has finalizers"), "{stays:?}");
    finalizers(json!([]));
    assert_eq!(finish(&mut shedlock(&place, &store.url(), &["status", "--json"])).stdout, "[]\n");
}

/// Returns a server that has these answers for one request after the other, and then the last again.
fn answering(answers: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let next = AtomicUsize::new(0);
    thread::spawn(move || {
        let next = &next;
        thread::scope(|scope| {
            for stream in listener.incoming().flatten() {
                scope.spawn(move || {
                    let mut stream = BufReader::new(stream);
                    loop {
                        let (mut line, mut length) = (String::from("x"), 0);
                        while line.trim() != "" {
                            line.clear();
                            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                                return;
                            }
                            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                                length = number.trim().parse().unwrap();
                            }
                        }
                        let _ = stream.read_exact(&mut vec![0; length]);
                        let number = next.fetch_add(1, SeqCst);
                        let (head, body) = answers[number.min(answers.len() - 1)].split_once('|').unwrap();
                        let date = humantime_date();
                        let length = body.len();
                        let text = format!("HTTP/1.1 {head}\r\nDate: {date}\r\nContent-Length: {length}\r\n\r\n{body}");
                        if stream.get_mut().write_all(text.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
    });
    format!("kubernetes://{address}/jobs?sslmode=disable")
}

/// Returns the time in the form of HTTP; date(1) has it.
fn humantime_date() -> String {
    let text = finish(Command::new("date").args(["-u", "+%a, %d %b %Y %H:%M:%S GMT"]).env("LC_ALL", "C"));
    text.stdout.trim().to_owned()
}

const FREE: &str = r#"200 OK|{"kind":"Lease","metadata":{"name":"job","resourceVersion":"7"},"spec":{}}"#;
const NONE: &str = r#"404 Not Found|{"kind":"Status","reason":"NotFound","details":{"kind":"leases"},"code":404}"#;

#[test]
fn what_the_server_refuses_is_told_with_its_reason() {
    let place = Place::new();
    let status = r#"{"kind":"Status","message":"because"}"#;
    for (answer, said, hint) in [
        ("401 Unauthorized", "the API server does not know this client", "token-file"),
        ("403 Forbidden", "answers 403: because", "get, create, update and list"),
        ("422 Unprocessable Entity", "answers 422: because", ""),
        ("500 Internal Server Error", "answers 500: because", ""),
        ("503 Service Unavailable", "answers 503: because", ""),
        ("429 Too Many Requests", "answers 429: because", "FlowSchemas"),
        ("410 Gone", "answers 410: because", ""),
    ] {
        let answers: &'static [&'static str] = Box::leak(Box::new([&*format!("{answer}|{status}").leak() as &str]));
        let finished = run(&place, &answering(answers), &["--backend-timeout", "1s", "touch", "ran"]);
        finished.complains(125, said);
        assert!(finished.stderr.contains(hint), "{finished:?}");
    }
    run(&place, &answering(&["200 OK|<html>"]), &["--backend-timeout", "1s", "touch", "ran"])
        .complains(125, "is not a Kubernetes API server");
    assert!(!place.path("ran").exists());
}

/// The server is overloaded for a moment, loses its leader after that, and is then well.
#[test]
fn a_server_that_is_busy_is_asked_again_when_it_wants_to_be() {
    let made = r#"201 Created|{"kind":"Lease","metadata":{"name":"job"},"spec":{}}"#;
    let busy = "429 Too Many Requests\r\nRetry-After: 1|{\"kind\":\"Status\"}";
    let answers: &'static [&'static str] =
        Box::leak(Box::new([busy, "503 Service Unavailable|{\"kind\":\"Status\"}", NONE, made, FREE, FREE]));
    let began = std::time::Instant::now();
    // What it says that it has stored is not what it was sent.
    let place = Place::new();
    let finished = run(&place, &answering(answers), &["--backend-timeout", "5s", "touch", "ran"]);
    finished.complains(125, "has stored another owner or end than it was sent");
    assert!(began.elapsed() >= std::time::Duration::from_secs(1), "it asked before the second was over");
    assert!(!place.path("ran").exists());
}

/// One answer is 429 in the place of the server's, which is well again at once: to the acquisition, the renewal and the release.
#[test]
fn a_server_that_wants_half_a_minute_for_itself_costs_no_lock_and_no_job() {
    let (place, store) = (Place::new(), KubernetesStore(servers::kubernetes().plain_namespace()));
    // The job and the test say with this file when the next reading of a Lease is to be refused.
    let (armed, refused) = (place.path("armed"), Arc::new(AtomicUsize::new(0)));
    let (is_next, count) = (Mutex::new(false), Arc::clone(&refused));
    let flag = armed.clone();
    let (url, _relay) = Relay::before(&store.url(), move |chunk| {
        let mut is_next = is_next.lock().unwrap();
        if chunk.bytes.starts_with(b"GET /apis/coordination") {
            *is_next |= fs::remove_file(&flag).is_ok();
        } else if *is_next && chunk.bytes.starts_with(b"HTTP/1.1 ") {
            *is_next = false;
            count.fetch_add(1, SeqCst);
            let body = r#"{"kind":"Status","message":"too many requests"}"#;
            let head = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nConnection: close\r\nContent-Length:";
            return Act::Instead(format!("{head} {}\r\n\r\n{body}", body.len()).into_bytes());
        }
        Act::Pass
    });
    fs::write(&armed, "").unwrap();
    run(&place, &url, &["--backend-timeout", "3s", "touch", "armed"]).is_silent_with(0);
    assert_eq!(refused.load(SeqCst), 2, "the acquisition and the release");
    assert!(!store.stored("job").unwrap().is_held());
    // It lives longer than its first lease.
    let job = "touch armed; while [ -e armed ]; do sleep 0.05; done; sleep 6; touch ran";
    run(&place, &url, &["--lease", "6s", "sh", "-c", job]).is_silent_with(0);
    assert_eq!(refused.load(SeqCst), 3);
    assert!(place.path("ran").exists());
}

/// The manual's limit: an API server whose clock is ahead by more than the lock's time is not told from one that is right.
#[test]
fn two_api_servers_may_be_out_of_step_by_less_than_the_time_of_the_lock() {
    let store = KubernetesStore(servers::kubernetes().plain_namespace());
    let place = Place::new();
    let ahead = |seconds: i64| {
        Relay::before(&store.url(), move |chunk| {
            let head = String::from_utf8_lossy(chunk.bytes);
            let date = head.split("\r\nDate: ").nth(1).and_then(|rest| rest.get(..29));
            match date.filter(|_| chunk.bytes.starts_with(b"HTTP/1.1 ")) {
                Some(date) => Act::Instead(head.replacen(date, &later(date, seconds), 1).into_bytes()),
                None => Act::Pass,
            }
        })
    };
    let first = ["run", "--name", "job", "--at-most", "5m"];
    let holder = Holder::start(&place, &mut shedlock(&place, &store.url(), &first), "true");
    for (seconds, code) in [(-240, 75), (240, 75), (302, 0)] {
        let (url, _relay) = ahead(seconds);
        let again = ["run", "--name", "job", "--at-most", "5m", "-E", "75", "true"];
        finish(&mut shedlock(&place, &url, &again)).is_silent_with(code);
    }
    // The manual names the limit: the second has written the Lease meanwhile.
    let first = holder.end();
    assert!(first.stderr.contains("no longer ours"), "{first:?}");
}

#[test]
fn a_server_that_is_killed_and_started_again_has_the_lock() {
    let server = Kubernetes::fresh(&[]);
    let (place, store) = (Place::new(), KubernetesStore(server.namespace()));
    run(&place, &store.url(), &["--at-least", "1m", "true"]).is_silent_with(0);
    server.kill();
    run(&place, &store.url(), &["--backend-timeout", "1s", "true"]).complains(125, "connection refused");
    server.start();
    run(&place, &store.url(), &["-E", "75", "true"]).is_silent_with(75);
}

/// Takes one lock many times from several shells. Each run has a lease of three to five seconds and a job of 50
/// milliseconds, whose log shows that nobody else was inside.
#[track_caller]
fn contend(url: &str, shells: usize, rounds: usize) {
    let place = Place::new();
    let job = "echo begin $$ >> log; sleep 0.05; echo end $$ >> log";
    let start_shell = |shell: usize| {
        let lease = format!("{}s", 3 + shell % 3);
        let mut run = place.run("contended", ["--lease", &lease, "--wait", "5m", "-E", "99", "sh", "-c", job]);
        run.env("SHEDLOCK_BACKEND", url);
        let script = format!("i=0; while [ $i -lt {rounds} ]; do \"$@\" || exit; i=$((i+1)); done");
        start(&mut under(&["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()], &run))
    };
    let children: Vec<_> = (0..shells).map(start_shell).collect();
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    let log = place.lines("log");
    assert_eq!(log.len(), 2 * shells * rounds);
    for pair in log.chunks(2) {
        let job = pair[0].strip_prefix("begin ").unwrap_or_else(|| panic!("two at once: {log:?}"));
        assert_eq!(pair[1], format!("end {job}"), "two at once: {log:?}");
    }
}

#[test]
fn a_clock_of_whole_seconds_lets_no_two_in() {
    contend(&KubernetesStore::new().url(), 4, 50);
}

/// The store's clock is an hour ahead of that of all clients, and then an hour behind.
#[test]
fn a_clock_of_whole_seconds_that_is_an_hour_off_lets_no_two_in() {
    for hours in [1, -1] {
        let store = KubernetesStore(servers::kubernetes().plain_namespace());
        let (seen, moved) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (Arc::clone(&seen), Arc::clone(&moved));
        let dates = Mutex::new(HashMap::new());
        let (url, _relay) = Relay::before(&store.url(), move |chunk| {
            if !chunk.bytes.starts_with(b"HTTP/1.1 ") {
                return Act::Pass;
            }
            counts.0.fetch_add(1, SeqCst);
            let head = String::from_utf8_lossy(chunk.bytes);
            let Some(date) = head.split("\r\nDate: ").nth(1).and_then(|rest| rest.get(..29)) else { return Act::Pass };
            counts.1.fetch_add(1, SeqCst);
            let mut dates = dates.lock().unwrap();
            let other = dates.entry(date.to_owned()).or_insert_with(|| shifted(date, hours));
            Act::Instead(head.replacen(date, other, 1).into_bytes())
        });
        contend(&url, 4, 15);
        assert!(seen.load(SeqCst) > 120 && seen.load(SeqCst) == moved.load(SeqCst), "{seen:?} {moved:?}");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let ahead = store.stored("contended").unwrap().since - i64::try_from(now.as_millis()).unwrap();
        assert!((ahead - hours * 3_600_000).abs() < 1_800_000, "the runs went by another clock: {ahead} ms");
    }
}

/// Returns a time of HTTP, so many hours later.
fn shifted(date: &str, hours: i64) -> String {
    later(date, hours * 3600)
}

fn later(date: &str, seconds: i64) -> String {
    let mut command = Command::new("date");
    command.args(["-u", "-d", &format!("{date} {seconds:+} seconds"), "+%a, %d %b %Y %H:%M:%S GMT"]);
    let said = finish(command.env("LC_ALL", "C")).stdout.trim().to_owned();
    assert_eq!(said.len(), date.len(), "{said}");
    said
}
