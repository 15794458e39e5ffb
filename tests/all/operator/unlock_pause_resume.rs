//! `unlock`, `pause` and `resume` on every backend: what they say, what becomes of the runs, and what the store has.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::support::fixtures::wait_until_signals_are_caught;
use crate::support::per_backend::{Site, on_every_backend};
use crate::support::process::{DETACHED, Started, under, wait_for_state};
use crate::support::pty::Terminal;
use crate::support::{Finished, Place, finish, finish_child, finish_in_time, is_alive, kill, row, start, wait_until};
#[cfg(feature = "postgres")]
use servers::stores::PostgresStore;
use servers::stores::{SqliteStore, Store, Stored};
#[cfg(any(feature = "postgres", feature = "redis"))]
use servers::unique;
#[cfg(feature = "redis")]
use servers::{redis, stores::RedisStore};

const MINUTE: Duration = Duration::from_secs(60);
/// How far, in milliseconds, a time in the store may be from the one that is wanted, since commands lie between.
const NEAR: i64 = 5_000;

impl<S: Store> Site<S> {
    /// Returns whether a free lock stays stored.
    fn remembers(&self) -> bool {
        !self.store.deletes_free_locks()
    }

    /// Returns `shedlock ARGUMENTS` in this store, by ada.
    fn by_ada(&self, arguments: &[&str]) -> Command {
        let mut command = self.shedlock(arguments);
        command.env("SUDO_USER", "ada");
        command
    }

    fn finish(&self, arguments: &[&str]) -> Finished {
        finish(&mut self.by_ada(arguments))
    }

    /// Asserts that another run gets in.
    #[track_caller]
    fn is_open(&self, name: &str) {
        finish(&mut self.run_or_75(name, &["true"])).is_silent_with(0);
    }

    /// Asserts that another run does not get in.
    #[track_caller]
    fn is_shut(&self, name: &str) {
        finish(&mut self.run_or_75(name, &["true"])).is_silent_with(75);
    }

    /// Asserts that the lock is free, and that its row is still there where there are rows.
    #[track_caller]
    fn is_freed(&self, name: &str, owner: &str) {
        match self.store.stored(name) {
            Some(stored) => assert!(!stored.is_held() && stored.owner == owner, "{stored:?}"),
            None => assert!(!self.remembers(), "{name} is not stored any more"),
        }
    }
}

/// Asserts that the command said yes, in lines that contain these texts, and nothing on stderr.
#[track_caller]
fn says(finished: &Finished, texts: &[&str]) {
    assert_eq!((finished.code(), finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(lines.len(), texts.len(), "{finished:?}");
    for (line, text) in lines.iter().zip(texts) {
        assert!(line.contains(text), "`{text}` is not in `{line}`");
    }
}

/// Asserts that the command said no, with this hint.
#[track_caller]
fn refuses(finished: &Finished, text: &str, hint: &str) {
    finished.complains(1, text);
    let found = finished.stderr.lines().nth(1).unwrap_or_default();
    assert!(found.contains(hint) && found.is_empty() == hint.is_empty(), "`{hint}` is not in {}", finished.stderr);
}

/// Returns the parts of a stored lock that a look at the clock does not change.
fn timeless(stored: Stored) -> Stored {
    Stored { now: 0, ..stored }
}

on_every_backend! {
    a_job_without_a_lease_goes_on_when_its_lock_is_freed
    a_job_with_a_lease_is_stopped_when_its_lock_is_freed
    the_lock_of_a_java_application_is_freed
    a_lock_that_is_kept_after_its_run_is_freed
    what_is_not_held_is_not_freed
    without_force_and_without_a_terminal_nothing_is_freed
    who_is_asked_decides
    what_was_not_shown_is_not_freed
    a_pause_keeps_every_run_out_until_it_is_resumed
    a_pause_ends_by_itself
    a_pause_waits_for_the_end_of_a_job
    a_job_that_runs_is_not_paused
    who_gives_up_waiting_leaves_nothing_paused
    who_is_stopped_while_pausing_has_paused_it_or_not
    a_pause_of_a_kept_lock_restores_what_it_was_kept_for
    a_pause_is_not_paused_again
    of_many_pauses_at_once_one_wins
    only_a_pause_is_resumed
    a_pause_can_be_unlocked
    a_run_waits_for_the_end_of_a_pause
    a_name_that_nobody_has_used_is_paused_with_a_warning
    a_pause_is_told_to_the_owner_that_was_there_before
    where_nothing_is_yet_nothing_is_made_but_by_a_pause
    a_run_gets_more_time_by_its_lock_s_name
}

fn a_run_gets_more_time_by_its_lock_s_name<S: Store>(site: &Site<S>) {
    refuses(&site.finish(&["extend", "3h", "job"]), "the lock `job` is free", "");
    let holder = site.hold("job", &[], "exit 7");
    let before = site.stored("job");
    let held = format!("the lock `job` is held by {} since 20", before.owner);
    refuses(&site.finish(&["extend", "3h", "job"]), &held, "--force extends it without asking");
    assert!(site.stored("job").until <= before.until + NEAR);
    says(&site.finish(&["extend", "3h", "--force", "job"]), &["`job` is held until 20"]);
    let after = site.stored("job");
    assert_eq!(after.owner, before.owner);
    assert!((after.until - after.now - 3 * 3_600_000).abs() < NEAR, "{after:?}");
    // It never shortens a lock.
    says(&site.finish(&["extend", "5s", "--force", "job"]), &["`job` is held until 20"]);
    assert!((site.stored("job").until - after.until).abs() < NEAR);
    holder.end().is_silent_with(7);
    // Neither a pause nor a run that has ended, nor an application, gets more time.
    says(&site.finish(&["pause", "job"]), &["`job`"]);
    let paused = site.finish(&["extend", "3h", "--force", "job"]);
    refuses(&paused, "the lock `job` is paused by ada@", "only a run of shedlock can be given more time");
    says(&site.finish(&["resume", "job"]), &["`job`"]);
    finish(&mut site.run_or_75("kept", &["--at-least", "30s", "true"])).is_silent_with(0);
    let kept = site.finish(&["extend", "3h", "--force", "kept"]);
    refuses(&kept, "the lock `kept` is kept after the run of", "only a run of shedlock can be given more time");
}

fn a_job_without_a_lease_goes_on_when_its_lock_is_freed<S: Store>(site: &Site<S>) {
    let holder = site.hold("job", &[], "exit 7");
    let owner = site.stored("job").owner;
    let freed = site.finish(&["unlock", "--force", "job"]);
    let (was, pid) = (format!("`job` is free now; it was held by {owner} since 20"), format!(", pid {}", holder.pid()));
    says(&freed, &[&was, &pid]);
    assert!(freed.stdout.contains(") until 20") && freed.stdout.contains("without --lease does not notice"));
    site.is_freed("job", &owner);
    assert!(is_alive(holder.job()));
    site.is_open("job");
    holder.end().complains(7, "the lock was no longer ours when the job ended");
}

fn a_job_with_a_lease_is_stopped_when_its_lock_is_freed<S: Store>(site: &Site<S>) {
    let lease = if site.store.starts_programs() { "15s" } else { "2s" };
    let holder = site.hold("job", &["--lease", lease], "exit 7");
    let job = holder.job();
    says(&site.finish(&["unlock", "--force", "job"]), &["`job` is free now", "within about a third of the lease"]);
    holder.finish().complains(123, "the lock was lost, so the job is stopped");
    assert!(!is_alive(job));
    site.is_open("job");
}

fn the_lock_of_a_java_application_is_freed<S: Store>(site: &Site<S>) {
    site.store.make_table();
    assert!(site.store.java_take("job", "java-host", MINUTE));
    let java = site.store.java_owner("java-host");
    refuses(&site.finish(&["unlock", "job"]), &format!("the lock `job` is held by {java} since"), "--force");
    let freed = site.finish(&["unlock", "job", "--force"]);
    says(&freed, &[&format!("`job` is free now; it was held by {java} since"), "such as one in Java, does not notice"]);
    site.is_freed("job", &java);
    site.taken_by("job", "odd \u{1b}[31m host", MINUTE);
    let freed = site.finish(&["unlock", "job", "--force"]);
    says(&freed, &["it was held by odd \\u{1b}[31m host since", "such as one in Java"]);
}

fn a_lock_that_is_kept_after_its_run_is_freed<S: Store>(site: &Site<S>) {
    finish(&mut site.run_or_75("job", &["--at-least", "30s", "true"])).is_silent_with(0);
    let owner = site.stored("job").owner;
    site.is_shut("job");
    let was = format!("`job` is free now; it was kept after the run of {}", owner.strip_suffix(":ended").unwrap());
    says(&site.finish(&["unlock", "--force", "job"]), &[&was, "no job runs under it"]);
    site.is_freed("job", &owner);
    site.is_open("job");
}

fn what_is_not_held_is_not_freed<S: Store>(site: &Site<S>) {
    site.is_open("job");
    let holder = site.hold("jobs", &[], "true");
    // What is held is more likely to be meant, even by the name of one that is there.
    for name in ["job", "jobz"] {
        for arguments in [&["unlock", name][..], &["unlock", "--force", name]] {
            let refused = site.finish(arguments);
            refuses(&refused, &format!("the lock `{name}` is free"), "did you mean `jobs`?");
        }
    }
    refuses(&site.finish(&["unlock", "something else"]), "the lock `something else` is free", "");
    assert!(site.is_held("jobs"));
    holder.end().is_silent_with(0);
}

fn without_force_and_without_a_terminal_nothing_is_freed<S: Store>(site: &Site<S>) {
    let holder = site.hold("job", &[], "true");
    let before = timeless(site.stored("job"));
    refuses(&site.finish(&["unlock", "job"]), &format!("the lock `job` is held by {}", before.owner), "--force");
    // A yes in a pipe is none.
    let mut piped = under(&["sh", "-c", "yes | \"$@\"", "sh"], &site.by_ada(&["unlock", "job"]));
    refuses(&finish(&mut piped), "without a terminal to ask on, it is left unchanged", "--force");
    let after = timeless(site.stored("job"));
    // Where the end is what is left from now on, it may differ by the rounding.
    assert_eq!(after, if site.remembers() { before } else { Stored { owner: before.owner, ..after.clone() } });
    assert!(site.is_held("job"));
    holder.end().is_silent_with(0);
}

/// Starts `shedlock unlock job` on a terminal, and returns at its question.
fn asked<S: Store>(site: &Site<S>) -> (Terminal, String) {
    let mut terminal = Terminal::start(&site.by_ada(&["unlock", "job"]));
    let mut shown = String::new();
    wait_until("the question", || {
        shown += &terminal.screen();
        shown.ends_with("free it? [y/N] ").then_some(())
    });
    (terminal, shown)
}

/// Types the answer, and returns the exit code with what was on the screen then.
fn answer(mut terminal: Terminal, keys: &str) -> (Option<i32>, String) {
    terminal.type_keys(keys);
    let pid = terminal.pid();
    wait_until("unlock to end", || (!is_alive(pid)).then_some(()));
    let shown = terminal.screen();
    (terminal.finish().code(), shown)
}

fn who_is_asked_decides<S: Store>(site: &Site<S>) {
    let holder = site.hold("job", &[], "exit 7");
    let owner = site.stored("job").owner;
    for keys in ["n\n", "\n", "yesterday\n", "\x04"] {
        let (terminal, shown) = asked(site);
        assert!(shown.contains(&format!("the lock `job` is held by {owner} since 20")), "{shown}");
        assert!(shown.contains(&format!(", pid {}", holder.pid())), "{shown}");
        wait_until("the connection to be closed", || (site.store.connections() == 0).then_some(()));
        let (code, shown) = answer(terminal, keys);
        assert_eq!(code, Some(1), "{keys:?}: {shown}");
        assert!(shown.contains("\nshedlock: the lock `job` is left unchanged\r\n"), "{keys:?}: {shown:?}");
        assert!(site.is_held("job"));
    }
    let (code, shown) = answer(asked(site).0, "Yes\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("`job` is free now; it was held by"), "{shown}");
    site.is_freed("job", &owner);
    holder.end().complains(7, "the lock was no longer ours");
}

fn what_was_not_shown_is_not_freed<S: Store>(site: &Site<S>) {
    site.store.make_table();
    assert!(site.store.java_take("job", "one", MINUTE));
    let (terminal, _) = asked(site);
    site.store.steal("job", "another");
    let (code, shown) = answer(terminal, "y\n");
    assert_eq!(code, Some(1), "{shown}");
    assert!(
        shown.contains("has changed hands in the meantime and is left unchanged: it is held by another since"),
        "{shown}"
    );
    assert!(site.is_held("job"));
    // Who gave it back meanwhile has freed it.
    let (terminal, _) = asked(site);
    site.store.java_release("job", "another", Duration::ZERO);
    let (code, shown) = answer(terminal, "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("`job` is free now"), "{shown}");
}

fn a_pause_keeps_every_run_out_until_it_is_resumed<S: Store>(site: &Site<S>) {
    site.is_open("job");
    let runs = site.store.history("job");
    let reason = "disk 'a' \"b\": ä@ü, 100 %? |:";
    says(&site.finish(&["pause", "job", "--reason", reason]), &["paused `job` until it is resumed"]);
    let stored = site.stored("job");
    assert!(stored.owner.starts_with("paused:ada@") && stored.owner.contains(reason), "{stored:?}");
    assert!(stored.span() > 9 * 365 * 86_400_000, "{stored:?}");
    site.is_shut("job");
    assert!(!site.store.java_take("job", "java-host", MINUTE));
    let told = finish(&mut site.run_or_75("job", &["-v", "true"]));
    told.complains(75, "the lock is paused by ada@");
    assert!(told.stderr.ends_with(&format!("until it is resumed: {reason}; the job is not run\n")), "{told:?}");
    let told = finish(&mut site.run_or_75("job", &["-v", "--log-format", "json", "true"])).stderr;
    let event: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&event["event"], &event["paused"], &event["reason"]), (&"held".into(), &true.into(), &reason.into()));
    assert_eq!(site.store.history("job"), runs, "a pause is no run");
    says(&site.finish(&["resume", "job"]), &["`job` is no longer paused; it is free"]);
    site.is_freed("job", &format!("{}:ended", stored.owner));
    assert!(site.store.java_take("job", "java-host", MINUTE));
    site.store.java_release("job", "java-host", Duration::ZERO);
    site.is_open("job");
}

fn a_pause_ends_by_itself<S: Store>(site: &Site<S>) {
    site.is_open("job");
    // Long enough to be seen before it is over.
    let paused = site.finish(&["pause", "--for", "3s", "job"]);
    says(&paused, &["paused `job` until 20"]);
    let stored = site.stored("job");
    assert!((stored.span() - site.grain() - 3000).abs() < 100, "{stored:?}");
    finish_in_time(&mut site.run_or_75("job", &["--wait", "1h", "true"])).is_silent_with(0);
    refuses(&site.finish(&["resume", "job"]), "the lock `job` is not paused: it is free", "");
}

/// Waits until shedlock has looked, and sleeps.
fn wait_until_it_waits(child: &Child) {
    let pid = i32::try_from(child.id()).unwrap();
    wait_for_state(pid, "S");
}

fn a_pause_waits_for_the_end_of_a_job<S: Store>(site: &Site<S>) {
    let holder = site.hold("job", &[], "exit 3");
    let waiter = start(&mut site.by_ada(&["pause", "job", "--wait", "1m"]));
    let forever = start(&mut site.by_ada(&["pause", "job", "--wait", "forever"]));
    wait_until_it_waits(&waiter);
    wait_until_it_waits(&forever);
    refuses(&site.finish(&["pause", "job", "--wait", "300ms"]), "the lock `job` is held by", "--wait forever");
    wait_until("the waiters to have no connection", || (site.store.connections() == 0).then_some(()));
    assert!(is_alive(holder.job()));
    holder.end().is_silent_with(3);
    let mut ends = [finish_child(waiter), finish_child(forever)];
    ends.sort_by_key(Finished::code);
    says(&ends[0], &["paused `job` until it is resumed"]);
    refuses(&ends[1], "the lock `job` is paused by ada@", "resume");
    assert!(site.stored("job").owner.starts_with("paused:ada@"));
    site.is_shut("job");
}

fn a_job_that_runs_is_not_paused<S: Store>(site: &Site<S>) {
    let holder = site.hold("job", &[], "true");
    let owner = site.stored("job").owner;
    refuses(&site.finish(&["pause", "job"]), &format!("the lock `job` is held by {owner} since 20"), "--wait DURATION");
    assert_eq!(site.stored("job").owner, owner);
    holder.end().is_silent_with(0);
    assert!(site.store.java_take("job", "java-host", MINUTE));
    let java = site.store.java_owner("java-host");
    refuses(&site.finish(&["pause", "job"]), &format!("the lock `job` is held by {java} since"), "--wait");
}

fn who_gives_up_waiting_leaves_nothing_paused<S: Store>(site: &Site<S>) {
    let holder = site.hold("job", &[], "true");
    for signal in ["TERM", "INT"] {
        let waits = site.by_ada(&["pause", "job", "--wait", "forever"]);
        let waiter = Started::new(&site.place, signal, &mut under(&DETACHED, &waits));
        wait_for_state(waiter.pid(), "S");
        kill(waiter.pid(), signal);
        let end = waiter.finish();
        assert_eq!((end.code(), end.stdout.as_str(), end.stderr.as_str()), (None, "", ""), "{end:?}");
    }
    holder.end().is_silent_with(0);
    assert!(!site.is_held("job"));
    site.is_open("job");
}

/// At whatever it is stopped, it says that the lock is paused if and only if it is.
fn who_is_stopped_while_pausing_has_paused_it_or_not<S: Store>(site: &Site<S>) {
    site.is_open("job");
    for step in 0..30 {
        let command = under(&DETACHED, &site.by_ada(&["pause", "job"]));
        let pause = Started::new(&site.place, &format!("pause-{step}"), &mut { command });
        let until = Instant::now() + Duration::from_millis(2 * step);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pause.pid()), nix::sys::signal::Signal::SIGTERM);
        let end = pause.finish();
        let paused = site.is_held("job");
        assert_eq!(
            (end.code() == Some(0), end.stdout.contains("paused `job`")),
            (paused, paused),
            "{step} ms: {end:?}"
        );
        if paused {
            says(&site.finish(&["resume", "job"]), &["it is free"]);
        }
    }
}

fn a_pause_of_a_kept_lock_restores_what_it_was_kept_for<S: Store>(site: &Site<S>) {
    finish(&mut site.run_or_75("job", &["--every", "90m", "true"])).is_silent_with(0);
    let kept = site.stored("job");
    // A pause that ends sooner does not let a run in sooner.
    says(&site.finish(&["pause", "--for", "1s", "job"]), &["): until then it is kept after its last run anyway"]);
    let paused = site.stored("job");
    assert!((paused.until - kept.until).abs() < NEAR && paused.owner.starts_with("paused:"), "{kept:?} {paused:?}");
    says(&site.finish(&["resume", "job"]), &["`job` is no longer paused; it stays kept after its last run until 20"]);
    let resumed = site.stored("job");
    assert!((resumed.until - kept.until).abs() < NEAR, "{kept:?} {resumed:?}");
    assert_eq!(resumed.owner, format!("{}:ended", paused.owner));
    site.is_shut("job");
    // And again, from what a pause has left.
    says(&site.finish(&["pause", "job", "--reason", "x"]), &["paused `job` until it is resumed"]);
    assert!(site.stored("job").until - kept.until > 86_400_000);
    says(&site.finish(&["resume", "job"]), &["it stays kept after its last run until 20"]);
    let resumed = site.stored("job");
    assert!((resumed.until - kept.until).abs() < NEAR, "{kept:?} {resumed:?}");
    assert!(!site.store.java_take("job", "java-host", MINUTE));
    finish(&mut site.run_or_75("job", &["-v", "true"]))
        .complains(75, "the lock is kept after its last run, as before the pause by ada@");
    refuses(
        &site.finish(&["resume", "job"]),
        "is not paused: it is kept after its last run, as before the pause by ada@",
        "",
    );
}

fn a_pause_is_not_paused_again<S: Store>(site: &Site<S>) {
    assert_eq!(site.finish(&["pause", "job", "--reason", "disk"]).code(), Some(0));
    for more in [&[][..], &["--wait", "1m"], &["--for", "1s", "--reason", "mine"]] {
        let mut arguments = vec!["pause", "job"];
        arguments.extend(more);
        let again = site.finish(&arguments);
        refuses(&again, "the lock `job` is paused by ada@", "`shedlock resume job` ends");
        assert!(again.stderr.contains("until it is resumed: disk\n"), "{again:?}");
    }
}

fn of_many_pauses_at_once_one_wins<S: Store>(site: &Site<S>) {
    finish(&mut site.run_or_75("kept", &["--at-least", "30s", "true"])).is_silent_with(0);
    site.is_open("free");
    for name in ["kept", "free"] {
        let all: Vec<Child> = (0..6).map(|_| start(&mut site.by_ada(&["pause", name]))).collect();
        let mut codes: Vec<_> = all.into_iter().map(|child| finish_child(child).code()).collect();
        codes.sort_unstable();
        assert_eq!(codes, [Some(0), Some(1), Some(1), Some(1), Some(1), Some(1)], "{name}");
    }
}

fn only_a_pause_is_resumed<S: Store>(site: &Site<S>) {
    let holder = site.hold("job", &[], "true");
    let owner = site.stored("job").owner;
    refuses(&site.finish(&["resume", "job"]), &format!("the lock `job` is not paused: it is held by {owner}"), "");
    assert!(site.is_held("job"));
    holder.end().is_silent_with(0);
    refuses(&site.finish(&["resume", "job"]), "the lock `job` is not paused: it is free", "");
    finish(&mut site.run_or_75("job", &["--at-least", "30s", "true"])).is_silent_with(0);
    refuses(&site.finish(&["resume", "job"]), "is not paused: it is kept after the run of", "");
    assert!(site.is_held("job"));
    assert!(site.store.java_take("java", "java-host", MINUTE));
    let java = site.store.java_owner("java-host");
    refuses(&site.finish(&["resume", "java"]), &format!("is not paused: it is held by {java}"), "");
    assert_eq!(site.finish(&["pause", "night shift"]).code(), Some(0));
    refuses(&site.finish(&["resume", "nightshift"]), "is not paused: it is free", "did you mean `night shift`?");
}

fn a_pause_can_be_unlocked<S: Store>(site: &Site<S>) {
    assert_eq!(site.finish(&["pause", "job"]).code(), Some(0));
    let owner = site.stored("job").owner;
    let freed = site.finish(&["unlock", "--force", "job"]);
    says(&freed, &["`job` is free now; it was paused by ada@", "`shedlock resume job` ends a pause more gently"]);
    site.is_freed("job", &owner);
    site.is_open("job");
}

fn a_run_waits_for_the_end_of_a_pause<S: Store>(site: &Site<S>) {
    assert_eq!(site.finish(&["pause", "job"]).code(), Some(0));
    let waiter = start(&mut site.run_or_75("job", &["--wait", "1m", "touch", "ran"]));
    finish(&mut site.run_or_75("job", &["--wait", "300ms", "true"])).is_silent_with(75);
    assert!(!site.place.path("ran").exists());
    says(&site.finish(&["resume", "job"]), &["it is free"]);
    finish_child(waiter).is_silent_with(0);
    assert!(site.place.path("ran").exists());
}

fn a_name_that_nobody_has_used_is_paused_with_a_warning<S: Store>(site: &Site<S>) {
    site.is_open("nightly");
    assert_eq!(site.finish(&["pause", "nightly"]).stderr, "");
    let paused = site.finish(&["pause", "nihgtly"]);
    assert_eq!((paused.code(), paused.stdout.as_str()), (Some(0), "paused `nihgtly` until it is resumed\n"));
    assert_eq!(paused.stderr, "shedlock: warning: no run of `nihgtly` is known\nhint: did you mean `nightly`?\n");
    assert!(site.is_held("nihgtly"));
    // A name that was only paused is as unknown as before, also where a row remains of it.
    for _ in 0..2 {
        assert_eq!(site.finish(&["pause", "x"]).stderr, "shedlock: warning: no run of `x` is known\n");
        says(&site.finish(&["resume", "x"]), &["it is free"]);
        refuses(&site.finish(&["history", "x"]), "no run of `x` is known", "");
        assert_eq!(site.finish(&["status", "x"]).stderr, "shedlock: there is no lock `x` yet\n");
    }
}

fn a_pause_is_told_to_the_owner_that_was_there_before<S: Store>(site: &Site<S>) {
    let taken = site.finish(&["acquire", "--name", "job", "--at-most", "1h"]);
    let handle = taken.stdout.trim();
    assert_eq!(site.finish(&["unlock", "--force", "job"]).code(), Some(0));
    assert_eq!(site.finish(&["pause", "job", "--reason", "disk"]).code(), Some(0));
    for (words, told) in [
        (&["verify", handle][..], "the lock `job` is not ours: it is paused by ada@"),
        (&["release", handle], "the lock `job` is no longer ours: it is paused by ada@"),
        (&["extend", "1m", handle], "the lock `job` is no longer ours: it is paused by ada@"),
    ] {
        let refused = site.finish(words);
        refuses(&refused, told, "");
        assert!(refused.stderr.trim_end().ends_with(": disk") && !refused.stderr.contains("paused:"), "{refused:?}");
    }
    says(&site.finish(&["resume", "job"]), &["it is free"]);
    let refused = site.finish(&["verify", handle]);
    refuses(&refused, "the lock `job` is not ours: it is free", "");
    assert!(!refused.stderr.contains("paused:"), "{refused:?}");
}

fn where_nothing_is_yet_nothing_is_made_but_by_a_pause<S: Store>(site: &Site<S>) {
    refuses(&site.finish(&["unlock", "--force", "job"]), "the lock `job` is free", "");
    refuses(&site.finish(&["resume", "job"]), "the lock `job` is not paused: it is free", "");
    if site.remembers() {
        // Which fails where there is a table already.
        site.store.make_table();
    }
    assert_eq!(site.finish(&["pause", "job"]).code(), Some(0));
    site.is_shut("job");
}

#[test]
fn who_is_stopped_while_the_backend_is_busy_does_not_wait_for_it() {
    let site = Site::new(SqliteStore::new());
    site.is_open("job");
    let url = site.store.url();
    let writer = rusqlite::Connection::open(url.strip_prefix("sqlite:").unwrap()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let command = site.by_ada(&["pause", "job", "--backend-timeout", "1h"]);
    let pause = Started::new(&site.place, "pause", &mut under(&DETACHED, &command));
    wait_until_signals_are_caught(pause.pid());
    kill(pause.pid(), "TERM");
    pause.finish().is_silent_with(128 + 15);
    writer.execute_batch("COMMIT").unwrap();
    site.is_open("job");
}

#[test]
fn who_is_stopped_once_it_is_paused_says_so_all_the_same() {
    let site = Site::new(SqliteStore::new());
    site.is_open("job");
    // There is no room for the answer yet.
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'\n'; 65_536]).unwrap();
    let mut child = under(&DETACHED, &site.by_ada(&["pause", "job"])).stdout(writer).spawn().unwrap();
    wait_until("the pause", || site.is_held("job").then_some(()));
    let pid = i32::try_from(child.id()).unwrap();
    wait_for_state(pid, "S");
    kill(pid, "TERM");
    let mut answer = String::new();
    reader.read_to_string(&mut answer).unwrap();
    assert_eq!((child.wait().unwrap().code(), answer.trim()), (Some(0), "paused `job` until it is resumed"));
}

/// Returns a user of the database with these rights on the table of locks, and no other.
#[cfg(feature = "postgres")]
fn humble(store: &PostgresStore, rights: &str) -> String {
    let role = unique("humble");
    store.0.psql(&format!("create role {role} login; grant {rights} on shedlock to {role}"));
    role
}

#[cfg(feature = "redis")]
#[test]
fn a_history_that_may_not_be_read_is_no_reason_to_doubt_the_name() {
    let site = Site::new(RedisStore::new());
    site.is_open("nightly");
    let user = unique("clerk");
    let allow = ["acl", "setuser", &user, "on", ">s3cret", "~[^{]*", "+@all"];
    redis().cli(&allow);
    let url = site.store.url().replace("redis://", &format!("redis://{user}:s3cret@"));
    let paused = finish(site.shedlock(&["pause", "nightly"]).env("SHEDLOCK_BACKEND", &url));
    redis().cli(&["acl", "deluser", &user]);
    assert_eq!((paused.code(), paused.stderr.as_str()), (Some(0), ""), "{paused:?}");
}

#[cfg(feature = "postgres")]
#[test]
fn who_may_only_read_changes_nothing_and_is_told_the_right_that_is_missing() {
    let site = Site::new(PostgresStore::new());
    site.store.make_table();
    let reader = humble(&site.store, "select");
    assert!(site.store.java_take("job", "java-host", MINUTE));
    assert_eq!(site.finish(&["pause", "paused"]).code(), Some(0));
    let before = ["job", "paused"].map(|name| timeless(site.stored(name)));
    let url = site.store.0.login(&reader).url();
    for arguments in [&["unlock", "--force", "job"][..], &["resume", "paused"], &["pause", "other"]] {
        let refused = finish(site.by_ada(arguments).env("SHEDLOCK_BACKEND", &url));
        refused.complains(125, "permission denied for table shedlock");
        assert!(refused.stderr.contains(&format!("hint: {reader} needs SELECT, INSERT and UPDATE")), "{refused:?}");
    }
    // What is only looked at needs no more than that.
    let refused = finish(site.by_ada(&["pause", "job"]).env("SHEDLOCK_BACKEND", &url));
    refuses(&refused, "the lock `job` is held by java-host", "--wait");
    assert_eq!(["job", "paused"].map(|name| timeless(site.stored(name))), before);
    assert_eq!(site.store.stored("other"), None);
}

#[cfg(feature = "postgres")]
#[test]
fn the_rights_of_a_java_application_are_enough() {
    let site = Site::new(PostgresStore::new());
    site.store.make_table();
    let role = humble(&site.store, "select, insert, update");
    let url = site.store.0.login(&role).url();
    for (arguments, said) in [
        (&["pause", "job"][..], "paused `job` until it is resumed"),
        (&["resume", "job"], "it is free"),
        (&["pause", "job", "--for", "1h"], "(in 1h)"),
        (&["unlock", "--force", "job"], "`job` is free now; it was paused by"),
    ] {
        if arguments[0] == "pause" {
            // The name is known by that.
            assert!(site.store.java_take("job", "java-host", MINUTE));
            site.store.java_release("job", "java-host", Duration::ZERO);
        }
        let done = finish(site.by_ada(arguments).env("SHEDLOCK_BACKEND", &url));
        assert_eq!((done.code(), done.stderr.as_str()), (Some(0), ""), "{done:?}");
        assert!(done.stdout.contains(said), "{done:?}");
    }
}

#[test]
fn a_pause_is_of_no_boot_of_the_machine() {
    let site = Site::new(SqliteStore::new());
    let url = site.store.url();
    let boot = |name| row(Path::new(url.strip_prefix("sqlite:").unwrap()), name).unwrap().boot_id;
    finish(&mut site.run_or_75("kept", &["--at-least", "30s", "true"])).is_silent_with(0);
    for name in ["free", "kept"] {
        assert_eq!(site.finish(&["pause", name]).code(), Some(0));
        assert_eq!(boot(name), None, "{name}");
    }
}

#[test]
fn what_a_pause_cannot_be_is_bad_usage() {
    let place = Place::new();
    for (arguments, complaint) in [
        (&["pause"][..], "NAME"),
        (&["pause", ""], "NAME is empty"),
        (&["pause", "job", "--for", "500ms"], "--for `500ms` is shorter than 1s"),
        (&["pause", "job", "--for", "forever"], "--for `forever` is not a duration"),
        (&["pause", "job", "--wait", "soon"], "--wait `soon` is not a duration"),
        (&["pause", "job", "--reason", "a\nb"], "--reason \"a\\nb\" is more than one line"),
        (&["unlock", "job", "other"], "other"),
        (&["pause", "job", "--backend", "sqlite:/no/such/directory/x.db"], "/no/such/directory"),
        (&["resume", ""], "NAME is empty"),
    ] {
        finish(&mut place.shedlock(arguments)).complains(125, complaint);
    }
    let long = "x".repeat(101);
    finish(&mut place.shedlock(["pause", "job", "--reason", &long])).complains(125, "--reason has 101 characters");
    assert!(!place.database().exists());
}
