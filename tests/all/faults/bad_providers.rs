//! What only a provider can do wrong. The job runs once or not at all, its exit code is its own, the lock does not stick, and
//! nothing of the provider is left.

use std::path::PathBuf;
use std::process::Command;

use crate::support::process::{copy_program, write_script};
use crate::support::{Finished, Place, finish, wait_until};
use servers::processes_with;
use servers::stores::{ExampleStore, Store, program};

/// The provider that misbehaves.
const BAD: &str = include_str!("../../servers/bad_provider.py");

/// A place with the provider that misbehaves, and the store that it keeps its locks in.
struct Stage {
    place: Place,
    store: ExampleStore,
}

impl Stage {
    fn new() -> Self {
        let (place, store) = (Place::new(), ExampleStore::new());
        write_script(&place, "bad", BAD);
        copy_program(program("shedlock-provider-example"), place.path("example"));
        Self { place, store }
    }

    /// Returns the URL of a provider that does this wrong with the next request of this kind.
    fn url(&self, mode: &str, op: &str) -> String {
        let (bad, directory) = (self.place.path("bad"), self.store.locks());
        format!("exec:{}?mode={mode}&op={op}&directory={}", bad.display(), directory.display())
    }

    /// Returns the file that says that the provider has misbehaved.
    fn mark(&self) -> PathBuf {
        self.store.locks().with_file_name("misbehaved")
    }

    /// Returns `shedlock WORDS` with this backend.
    fn shedlock(&self, url: &str, words: &[&str]) -> Command {
        let mut command = self.place.shedlock(words);
        command.env("SHEDLOCK_BACKEND", url);
        command
    }

    /// Returns `shedlock run` of a job that notes that it ran, and exits with 7.
    fn run(&self, url: &str, options: &[&str]) -> Command {
        let words = ["run", "--name", "a", "--at-most", "1m", "--backend-timeout", "3s"];
        self.shedlock(url, &[&words, options, &["sh", "-c", "echo ran >> log; exit 7"]].concat())
    }

    /// Fails unless the lock can be taken at once, and nothing of a provider of these URLs is left.
    #[track_caller]
    fn is_free(&self, url: &str) {
        let words = ["run", "--name", "a", "--at-most", "1m", "-E", "75", "true"];
        finish(&mut self.shedlock(&self.store.url(), &words)).is_silent_with(0);
        wait_until("the provider to be gone", || (self.processes(url) == 0).then_some(()));
    }

    /// Counts the processes, shedlock's and any other, that have the URL in their environment.
    fn processes(&self, url: &str) -> usize {
        processes_with("", url)
    }
}

/// The faults after which another provider is started and asked again.
const PASSING: [&str; 5] = ["dies-after", "is-killed", "is-stopped", "half-a-line", "late"];

/// The faults that another try would meet again.
const LASTING: [&str; 5] = ["twice", "no-json", "no-utf-8", "no-field", "endless-line"];

#[test]
fn a_provider_that_fails_once_is_replaced_and_the_job_runs_once() {
    for op in ["read", "write"] {
        for mode in PASSING.into_iter().chain(["dies-before"]) {
            let stage = Stage::new();
            stage.place.make_lock("a", &stage.store.url());
            let url = stage.url(mode, op);
            let ran = finish(&mut stage.run(&url, &[]));
            assert_eq!((ran.code(), stage.place.lines("log").len()), (Some(7), 1), "{mode} {op}: {ran:?}");
            assert!(stage.mark().exists(), "{mode} {op}");
            stage.is_free(&url);
        }
    }
}

#[test]
fn an_answer_that_makes_no_sense_ends_a_run_before_its_job_and_leaves_the_lock_free() {
    for op in ["open", "read", "write"] {
        for mode in LASTING {
            let stage = Stage::new();
            stage.place.make_lock("a", &stage.store.url());
            let url = stage.url(mode, op);
            let ran = finish(&mut stage.run(&url, &[]));
            ran.complains(125, "bad ");
            assert_eq!(stage.place.lines("log"), Vec::<String>::new(), "{mode} {op}: {ran:?}");
            stage.is_free(&url);
        }
    }
}

/// Runs a job whose release meets this fault every time.
fn release_fails(mode: &str) -> Finished {
    let stage = Stage::new();
    stage.place.make_lock("a", &stage.store.url());
    let url = format!("{}&always=1", stage.url(mode, "write"));
    // The mark is there from the beginning, and goes when the job runs: so the acquisition is spared.
    let mark = stage.mark();
    let spared = url.replace("&always=1", "");
    std::fs::write(&mark, "").unwrap();
    let script = format!("rm {}; echo ran >> log; exit 7", mark.display());
    let words = ["run", "--name", "a", "--at-most", "1m", "--backend-timeout", "2s", "sh", "-c", &script];
    let ran = finish(&mut stage.shedlock(&spared, &words));
    assert_eq!((ran.code(), stage.place.lines("log").len()), (Some(7), 1), "{mode}: {ran:?}");
    wait_until("the provider to be gone", || (stage.processes(&spared) == 0).then_some(()));
    stage.is_free(&spared);
    ran
}

#[test]
fn a_job_keeps_its_exit_code_whatever_the_provider_does_at_the_release() {
    for mode in PASSING.into_iter().chain(LASTING) {
        release_fails(mode);
    }
}

#[test]
fn a_provider_that_never_reads_is_given_up_in_time() {
    let stage = Stage::new();
    let url = format!("{}&always=1", stage.url("never-reads", "open"));
    let ran = finish(&mut stage.run(&url, &[]));
    ran.complains(125, "bad did not answer within");
    stage.is_free(&url);
}

#[test]
fn what_a_provider_says_last_is_in_the_message_and_all_of_it_with_vv() {
    let stage = Stage::new();
    let url = format!("{}&always=1", stage.url("dies-before", "read"));
    let ran = finish(&mut stage.run(&url, &[]));
    ran.complains(125, "bad ended with exit code 3; its last words: no more of this");
    assert!(ran.stderr.contains("\nhint: `") && ran.stderr.contains("`run -vv` shows"), "{ran:?}");
    let check = finish(&mut stage.shedlock(&url.replace("op=read", "op=check"), &["check"]));
    assert!(check.stdout.contains("provider      bad ended with exit code 3"), "{check:?}");
    let loud = finish(&mut stage.run(&url, &["-vv"]));
    assert!(loud.stderr.lines().any(|line| line == "no more of this"), "{loud:?}");
    let other = finish(&mut stage.run(&stage.url("other-protocol", "none"), &[]));
    assert_eq!(other.code(), Some(125), "{other:?}");
    stage.is_free(&url);
}

#[test]
fn a_provider_that_writes_to_stderr_for_ever_harms_nobody() {
    let stage = Stage::new();
    let url = stage.url("noisy", "read");
    let ran = finish(&mut stage.run(&url, &[]));
    assert_eq!((ran.code(), ran.stderr.as_str()), (Some(7), ""));
    stage.is_free(&url);
}

#[test]
fn a_provider_has_no_terminal_and_its_children_go_with_it() {
    for mode in ["leaves-children", "opens-the-terminal", "ignores-the-end"] {
        let stage = Stage::new();
        let url = stage.url(mode, "read");
        let mut inner = stage.run(&url, &["--wait-for", "tree"]);
        let ran = finish(&mut inner);
        assert_eq!((ran.code(), ran.stderr.as_str()), (Some(7), ""), "{mode}");
        assert!(!stage.mark().with_file_name("has-terminal").exists());
        stage.is_free(&url);
    }
}

#[test]
fn what_cannot_be_started_is_named_with_the_way_out() {
    let place = Place::new();
    let run = |url: &str| {
        let mut command = place.run("a", ["true"]);
        command.env("SHEDLOCK_BACKEND", url);
        finish(&mut command)
    };
    let url = |name: &str| format!("exec:{}?x=1", place.path(name).display());
    let missing = run(&url("missing"));
    missing.complains(125, "cannot be started: no such file");
    std::fs::write(place.path("plain"), "#!/bin/sh\n").unwrap();
    let plain = run(&url("plain"));
    plain.complains(125, "cannot be started: permission denied");
    assert!(plain.stderr.contains(&format!("hint: chmod +x {}", place.path("plain").display())), "{plain:?}");
    std::fs::create_dir(place.path("directory")).unwrap();
    let directory = run(&url("directory"));
    assert!(directory.stderr.contains("hint: it is a directory"), "{directory:?}");
    std::fs::create_dir(place.path("shedlock-provider-folder")).unwrap();
    let mut command = place.run("a", ["true"]);
    let path = format!("/usr/bin:/bin:{}", place.path("").display());
    let folder = finish(command.env("SHEDLOCK_BACKEND", "folder:x").env("PATH", path));
    folder.complains(125, "shedlock-provider-folder is a directory");
    write_script(&place, "no-interpreter", "#!/no/such/interpreter\n");
    let interpreter = run(&url("no-interpreter"));
    assert!(interpreter.stderr.contains("the interpreter in its first line does not"), "{interpreter:?}");
    write_script(&place, "no-first-line", "exit 0\n");
    assert!(run(&url("no-first-line")).stderr.contains("a script needs a first line"));
    let unknown = run("oracle://scott:tiger@db/x");
    unknown.complains(125, "or a program shedlock-provider-oracle");
    assert!(!unknown.stderr.contains("tiger"), "{unknown:?}");
}

#[test]
fn a_provider_is_not_looked_for_in_the_current_directory() {
    let place = Place::new();
    write_script(&place, "shedlock-provider-here", "#!/bin/sh\ntouch was-here\n");
    let path = |path: String| {
        let mut command = place.run("a", ["true"]);
        command.env("SHEDLOCK_BACKEND", "here:x").env("PATH", path);
        finish(&mut command)
    };
    path(":.:/usr/bin:/bin".to_owned()).complains(125, "or a program shedlock-provider-here");
    assert!(!place.path("was-here").exists());
    let found = path(format!("/usr/bin:/bin:{}", place.path("").display()));
    found.complains(125, "shedlock-provider-here ended with exit code 0");
    assert!(place.path("was-here").exists());
}

#[test]
fn a_provider_that_repeats_its_url_shows_no_password() {
    let place = Place::new();
    write_script(
        &place,
        "shedlock-provider-echo",
        "#!/bin/sh\nread -r request\nprintf '%s\\n' \"no: $request\" >&2\nexit 1\n",
    );
    for url in ["echo://jobs:hunt%40er@db/x", "echo:thin:jobs/hunt%40er@db", "echo://jobs@db/x?password=hunt%40er"] {
        let mut command = place.run("a", ["true"]);
        let path = format!("/usr/bin:/bin:{}", place.path("").display());
        command.env("SHEDLOCK_BACKEND", url).env("PATH", path).env("SHEDLOCK_BACKEND_PASSWORD", "se\\cret");
        let finished = finish(&mut command);
        finished.complains(125, "ended with exit code 1; its last words: no:");
        assert!(!finished.stderr.contains("hunt") && !finished.stderr.contains("cret"), "{url}: {finished:?}");
    }
}
