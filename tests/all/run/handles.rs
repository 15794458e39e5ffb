//! Locks that a script takes and releases itself, and what a job asks of its own.

mod backend_of_a_run;
mod extending;

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::fixtures::Holder;
use crate::support::per_backend::{Site, on_every_backend};
use crate::support::process::{DETACHED, detached, under, wait_until_it_listens};
use crate::support::schema::Schema;
use crate::support::{Finished, Place, finish, finish_child, kill, start, wait_until};
use servers::stores::{SqliteStore, Store};

impl<S: Store> Site<S> {
    /// Returns `shedlock acquire --name NAME --at-most 1m OPTIONS`.
    fn acquire(&self, name: &str, options: &[&str]) -> Command {
        let mut command = self.shedlock(&["acquire", "--name", name, "--at-most", "1m"]);
        command.args(options);
        command
    }

    /// Acquires a lock, and returns its handle.
    #[track_caller]
    fn acquired(&self, name: &str, options: &[&str]) -> String {
        let finished = finish(&mut self.acquire(name, options));
        assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
        let handle = finished.stdout.strip_suffix('\n').unwrap();
        assert!(handle.starts_with(&format!("{name}@")) && !handle.contains('\n'), "{handle}");
        handle.to_owned()
    }

    fn tell(&self, words: &[&str]) -> Finished {
        finish(&mut self.shedlock(words))
    }
}

on_every_backend! {
    a_lock_is_acquired_excludes_everybody_and_is_given_back
    a_program_gets_the_handle_with_the_token_and_the_times
    of_many_who_acquire_at_once_one_gets_a_handle
    at_least_is_kept_after_a_release
    a_handle_that_cannot_be_written_gives_the_lock_back
    who_waits_gets_the_handle_when_the_lock_is_free
    who_is_told_to_stop_while_waiting_holds_nothing
    a_lock_that_is_another_s_by_now_is_left_alone
    a_lock_whose_time_is_up_is_not_ours
    the_history_says_how_it_went
    a_job_can_ask_for_its_own_lock
}

fn a_lock_is_acquired_excludes_everybody_and_is_given_back<S: Store>(site: &Site<S>) {
    let handle = site.acquired("night shift@home", &[]);
    let name = "night shift@home";
    let stored = site.stored(name);
    assert_eq!(handle, format!("{name}@{}", stored.owner));
    assert!(stored.is_held() && (stored.span() - site.grain() - 60_000).abs() <= 100, "{stored:?}");
    finish(&mut site.run_or_75(name, &["touch", "ran"])).is_silent_with(75);
    finish(&mut site.acquire(name, &[])).is_silent_with(1);
    finish(&mut site.acquire(name, &["-E", "9"])).is_silent_with(9);
    assert!(!site.store.java_take(name, "java", Duration::from_secs(60)));
    site.tell(&["verify", &handle]).is_silent_with(0);
    site.tell(&["extend", "10m", &handle]).is_silent_with(0);
    let stored = site.stored(name);
    assert!((stored.until - stored.now - 600_000).abs() <= 20_000, "{stored:?}");
    // It is not made shorter.
    site.tell(&["extend", "1s", &handle]).is_silent_with(0);
    assert!((site.stored(name).until - stored.until).abs() <= 10);
    site.tell(&["release", &handle]).is_silent_with(0);
    assert!(!site.is_held(name) && !site.place.path("ran").exists());
    site.tell(&["verify", &handle]).complains(1, &format!("the lock `{name}` is not ours: it "));
    site.tell(&["extend", "1m", &handle]).complains(1, &format!("the lock `{name}` is no longer ours: it "));
    assert!(!site.is_held(name));
    assert!(site.store.java_take(name, "java", Duration::from_secs(60)));
    let refused = finish(&mut site.acquire(name, &["-v"]));
    refused.complains(1, &format!("the lock is held by {}", site.store.java_owner("java")));
    assert!(refused.stderr.ends_with("; it is not acquired\n"), "{refused:?}");
}

fn a_program_gets_the_handle_with_the_token_and_the_times<S: Store>(site: &Site<S>) {
    let finished = finish(&mut site.acquire("a \"b\"", &["--json"]));
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    let printed: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    Schema::of("acquire").accepts(&printed);
    let stored = site.stored("a \"b\"");
    assert_eq!(printed["owner"], stored.owner);
    assert_eq!(printed["handle"], format!("a \"b\"@{}", stored.owner));
    assert_eq!(printed["token"], site.store.history("a \"b\"")[0].token);
    let millis = |field: &str| {
        let time = humantime::parse_rfc3339(printed[field].as_str().unwrap()).unwrap();
        i64::try_from(time.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()).unwrap()
    };
    assert!((millis("since") - stored.since).abs() <= 1_000 && (millis("until") - stored.until).abs() <= 2_000);
    assert_eq!(millis("until") - millis("since"), 60_000);
    site.tell(&["release", printed["handle"].as_str().unwrap()]).is_silent_with(0);
    // Who does not get it prints nothing.
    let held = site.hold("held", &[], "true");
    finish(&mut site.acquire("held", &["--json"])).is_silent_with(1);
    held.end().is_silent_with(0);
}

fn of_many_who_acquire_at_once_one_gets_a_handle<S: Store>(site: &Site<S>) {
    let herd: Vec<_> = (0..8).map(|_| start(&mut site.acquire("job", &[]))).collect();
    let ended: Vec<Finished> = herd.into_iter().map(finish_child).collect();
    let (got, refused): (Vec<_>, Vec<_>) = ended.into_iter().partition(|finished| finished.code() == Some(0));
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!(got[0].stdout, format!("job@{}\n", site.stored("job").owner));
    for finished in refused {
        finished.is_silent_with(1);
    }
}

fn at_least_is_kept_after_a_release<S: Store>(site: &Site<S>) {
    let handle = site.acquired("job", &["--at-least", "20s"]);
    assert!(handle.ends_with(":20s"), "{handle}");
    for _ in 0..2 {
        site.tell(&["release", &handle]).is_silent_with(0);
        let stored = site.stored("job");
        assert!(stored.is_held() && (stored.span() - site.grain() - 20_000).abs() <= 100, "{stored:?}");
    }
    site.tell(&["verify", &handle]).complains(1, "the lock `job` is not ours: it was released, and is kept until 20");
    finish(&mut site.run_or_75("job", &["true"])).is_silent_with(75);
    assert!(!site.store.java_take("job", "java", Duration::from_secs(60)));
}

fn a_handle_that_cannot_be_written_gives_the_lock_back<S: Store>(site: &Site<S>) {
    // The reader of the pipe is gone before anything is written to it.
    let (waits, leaves) = ("until [ -e gone ]; do sleep 0.01; done;", "| { exec <&-; touch gone; }");
    for (number, (first, redirection, why)) in
        [("", "> /dev/full", "no space left on device"), ("", ">&-", "it is closed"), (waits, leaves, "broken pipe")]
            .into_iter()
            .enumerate()
    {
        let name = format!("job-{number}");
        let script = format!("{{ {first} \"$@\"; echo $? > code; }} {redirection}");
        let acquire = site.acquire(&name, &["--at-least", "50s"]);
        let finished = finish(&mut under(&["bash", "-c", &script, "bash"], &acquire));
        assert_eq!(site.place.read("code").trim(), "125", "{finished:?}");
        let told = format!("shedlock: {name}: cannot write the handle to stdout: {why}, so the lock is released\n");
        assert_eq!((finished.stdout.as_str(), finished.stderr), ("", told));
        assert!(!site.is_held(&name));
        assert_eq!(site.store.history(&name), []);
    }
}

fn who_waits_gets_the_handle_when_the_lock_is_free<S: Store>(site: &Site<S>) {
    let first = site.acquired("job", &[]);
    let waiter = start(&mut site.acquire("job", &["--wait", "30s", "-vv"]));
    wait_until("the waiter to have asked", || (site.store.connections() == 0).then_some(()));
    site.tell(&["release", &first]).is_silent_with(0);
    let second = finish_child(waiter);
    assert_eq!((second.code(), second.stdout), (Some(0), format!("job@{}\n", site.stored("job").owner)));
    site.tell(&["verify", &first]).complains(1, "the lock `job` is not ours: it is held by ");
}

fn who_is_told_to_stop_while_waiting_holds_nothing<S: Store>(site: &Site<S>) {
    let handle = site.acquired("job", &[]);
    let waiter = start(&mut site.acquire("job", &["--wait", "forever"]));
    let pid = i32::try_from(waiter.id()).unwrap();
    wait_until_it_listens(pid);
    kill(pid, "TERM");
    finish_child(waiter).is_silent_with(143);
    site.tell(&["release", &handle]).is_silent_with(0);
    assert!(!site.is_held("job"));
}

fn a_lock_that_is_another_s_by_now_is_left_alone<S: Store>(site: &Site<S>) {
    let handle = site.acquired("job", &["--at-least", "30s"]);
    site.store.steal("job", "java");
    let before = site.stored("job");
    for words in [&["verify", &handle][..], &["extend", "1h", &handle], &["release", &handle]] {
        site.tell(words).complains(1, "ours: it is held by java since 20");
    }
    let after = site.stored("job");
    let uncertain = site.store.uncertainty(&after);
    assert_eq!((after.owner, after.since), (before.owner, before.since));
    assert!((after.until - before.until).abs() <= 10 + uncertain);
    // One that was never given out.
    let foreign = "job@web1:1:0123456789abcdef";
    site.tell(&["verify", foreign]).complains(1, "the lock `job` is not ours: it is held by java");
    site.tell(&["verify", "other@web1:1:0123456789abcdef"]).complains(1, "the lock `other` is not ours: it is free");
    site.tell(&["release", "other@web1:1:0123456789abcdef"]).complains(1, "is no longer ours: it is free");
    site.store.delete("job");
    site.tell(&["verify", &handle]).complains(1, "the lock `job` is not ours: it is free");
}

fn a_lock_whose_time_is_up_is_not_ours<S: Store>(site: &Site<S>) {
    let acquired = finish(&mut site.shedlock(&["acquire", "--name", "job", "--at-most", "4s"]));
    let handle = acquired.stdout.trim();
    wait_until("the end of the lock", || (!site.is_held("job")).then_some(()));
    let told = site.tell(&["verify", handle]);
    told.complains(1, "the lock `job` is not ours: it");
    assert!(told.stderr.ends_with("it is free\n") || told.stderr.contains("its time was up at 20"), "{told:?}");
    site.tell(&["extend", "1m", handle]).complains(1, "the lock `job` is no longer ours: it");
    site.tell(&["release", handle]).complains(1, "the lock `job` is no longer ours: it");
    finish(&mut site.run_or_75("job", &["true"])).is_silent_with(0);
}

fn the_history_says_how_it_went<S: Store>(site: &Site<S>) {
    for (options, code, outcome) in [
        (&[][..], None, "success"),
        (&["--exit-code", "0"], Some(0), "success"),
        (&["--exit-code", "3"], Some(3), "failure"),
    ] {
        let handle = site.acquired("job", &[]);
        let open = site.store.history("job").remove(0);
        assert!(handle.ends_with(&open.owner), "{open:?}");
        assert_eq!((open.ended, open.exit_code, open.outcome), (None, None, None));
        let words: Vec<&str> = ["release"].into_iter().chain(options.iter().copied()).chain([&handle[..]]).collect();
        site.tell(&words).is_silent_with(0);
        let closed = site.store.history("job").remove(0);
        assert!(closed.owner == open.owner && closed.ended.is_some(), "{closed:?}");
        assert_eq!((closed.exit_code, closed.outcome.as_deref()), (code, Some(outcome)));
    }
    assert_eq!(site.store.history("job").len(), 3);
    // Nobody knows how the one went that did not come back in time.
    let handle = site.acquired("job", &[]);
    site.store.steal("job", "java");
    site.tell(&["release", "--history-keep", "2", &handle]).complains(1, "is no longer ours");
    assert_eq!(site.store.history("job").len(), 2);
}

fn a_job_can_ask_for_its_own_lock<S: Store>(site: &Site<S>) {
    let script = "$PROGRAM verify && echo ours; $PROGRAM extend 5m && echo extended; $PROGRAM verify \
                  $SHEDLOCK_LOCK_NAME@$SHEDLOCK_LOCK_OWNER && echo by its handle; touch ready; \
                  while [ ! -e stolen ]; do sleep 0.02; done; $PROGRAM verify; echo $?";
    let mut run = site.run_or_75("job", &["bash", "-c", script]);
    // The backend is that of the run whatever else the job would find.
    run.env("PROGRAM", env!("CARGO_BIN_EXE_shedlock")).args::<[&str; 0], _>([]);
    let started = detached(&site.place, "run", &run);
    wait_until("the job", || site.place.path("ready").exists().then_some(()));
    let stored = site.stored("job");
    assert!((stored.until - stored.now - 300_000).abs() <= 20_000, "{stored:?}");
    site.store.steal("job", "java");
    crate::support::process::touch(&site.place, "stolen");
    let finished = started.finish();
    assert_eq!(finished.stdout, "ours\nextended\nby its handle\n1\n", "{finished:?}");
    assert!(
        finished.stderr.contains("shedlock: the lock `job` is not ours: it is held by java since 20"),
        "{finished:?}"
    );
}

#[test]
fn who_has_no_handle_is_told_what_one_is() {
    let site = Site::new(SqliteStore::new());
    let handle = "job@web1:1:0123456789abcdef";
    for (words, message) in [
        (&["verify"][..], "no HANDLE is given, and this is not a job of `shedlock run`"),
        (&["extend", "1m"], "no HANDLE is given"),
        (&["release"], "HANDLE is missing"),
        (&["release", "job"], "HANDLE `job` is not a handle"),
        (&["verify", "job@java-host"], "HANDLE `job@java-host` does not end with an owner such as web1:4711:"),
        (&["verify", "@web1:1:0123456789abcdef"], "is empty; a lock needs a name"),
        (&["release", "job@web1:1:0123456789abcdef:ended"], "belongs to a run that has ended"),
        (
            &["release", "job@paused:ada@web1:disk::0123456789abcdef"],
            "belongs to a pause, which `shedlock resume` ends",
        ),
        (&["extend", "0.5s", handle], "DURATION `0.5s` is shorter than 1s"),
        (&["extend", "soon", handle], "DURATION "),
        (&["release", "--exit-code", "256", handle], "--exit-code `256` is not an exit code"),
        (&["acquire", "--name", "job", "--at-most", "1m", "--on-backend-error", "run"], "--on-backend-error is `run`"),
        (&["acquire", "--name", "job", "--at-most", "1m", "-E", "0"], "--conflict-exit-code is 0"),
        (&["acquire", "--at-most", "1m"], "--name is missing"),
        (&["acquire", "--name", "job"], "--at-most is missing"),
    ] {
        site.tell(words).complains(125, message);
    }
    assert_eq!(site.store.stored("job"), None);
}

#[test]
fn a_backend_that_cannot_be_asked_is_no_answer() {
    let site = Site::new(SqliteStore::new());
    let handle = site.acquired("job", &[]);
    let elsewhere = |words: &[&str]| {
        let mut command = site.shedlock(words);
        command.env("SHEDLOCK_BACKEND", "sqlite:missing/locks.db");
        finish(&mut command)
    };
    for words in [&["release", &handle][..], &["extend", "1m", &handle]] {
        elsewhere(words).complains(125, "missing");
    }
    elsewhere(&["acquire", "--name", "job", "--at-most", "1m"]).complains(125, "missing");
    let skip = ["acquire", "--name", "job", "--at-most", "1m", "--on-backend-error", "skip"];
    let skipped = elsewhere(&skip);
    skipped.complains(1, "missing");
    assert!(skipped.stderr.contains("; it is not acquired\n"), "{skipped:?}");
}

#[test]
fn a_conflict_exit_code_of_zero_that_is_set_for_run_is_one_for_acquire() {
    let site = Site::new(SqliteStore::new());
    site.acquired("job", &[]);
    std::fs::write(site.place.path("config.toml"), "conflict-exit-code = 0\n").unwrap();
    finish(&mut site.acquire("job", &["--config", "config.toml"])).is_silent_with(1);
    finish(site.acquire("job", &[]).env("SHEDLOCK_CONFLICT_EXIT_CODE", "0")).is_silent_with(1);
    finish(site.acquire("job", &[]).env("SHEDLOCK_CONFLICT_EXIT_CODE", "9")).is_silent_with(9);
    finish(site.acquire("free", &[]).env("SHEDLOCK_CONFLICT_EXIT_CODE", "0"));
    assert!(site.is_held("free"));
}

#[test]
fn what_is_said_of_a_job_in_a_file_is_not_for_acquire() {
    let site = Site::new(SqliteStore::new());
    let text = "lease = '5s'\nevery = '1h'\nsplay = '1h'\non-expiry = 'extend'\n[jobs.job]\nat-most = '30s'\n";
    std::fs::write(site.place.path("config.toml"), text).unwrap();
    let acquired = site.tell(&["acquire", "--name", "job", "--config", "config.toml"]);
    let stored = site.stored("job");
    assert!((stored.span() - 30_000).abs() <= 100, "{stored:?}");
    site.tell(&["release", "--config", "config.toml", acquired.stdout.trim()]).is_silent_with(0);
    assert!(!site.is_held("job"));
}

#[test]
fn nothing_but_time_holds_an_acquired_lock() {
    let site = Site::new(SqliteStore::new());
    // The shell that took it is gone, and its whole session.
    let mut shell = under(&DETACHED, &site.acquire("job", &[]));
    let child = shell.stdout(Stdio::piped()).spawn().unwrap();
    let finished = finish_child(child);
    assert!(site.is_held("job"));
    site.tell(&["release", finished.stdout.trim()]).is_silent_with(0);
}

#[test]
fn the_exit_code_is_the_answer_also_where_nobody_reads_what_is_said() {
    let site = Site::new(SqliteStore::new());
    let handle = "job@web1:1:0123456789abcdef";
    for (words, code) in [
        (&["verify", handle][..], 1),
        (&["release", handle], 1),
        (&["extend", "1m", handle], 1),
        (&["status"], 0),
        (&["status", "job"], 0),
        (&["history"], 0),
        (&["history", "job"], 1),
        (&["unlock", "--force", "job"], 1),
        (&["resume", "job"], 1),
        (&["pause", "job"], 0),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(finish(site.shedlock(words).stderr(writer)).code(), Some(code), "{words:?}");
    }
}
