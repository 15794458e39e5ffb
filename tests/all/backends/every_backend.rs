//! What the program promises on every backend, with real processes on real servers: what they did is read from the logs
//! that the jobs wrote, from the process table, and from the store through another client.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::support::fixtures::Holder;
use crate::support::per_backend::{Site, on_every_backend};
use crate::support::process::{DETACHED, detached, under, wait_for_end};
use crate::support::{Finished, finish, finish_child, finish_in_time, is_alive, kill, start, wait_until};
use servers::stores::Store;

const MINUTE: i64 = 60_000;

impl<S: Store> Site<S> {
    /// Returns `shedlock run --name NAME --at-most LIMIT ARGUMENTS` in this store.
    fn limited(&self, name: &str, limit: &str, arguments: &[&str]) -> Command {
        self.shedlock(&[&["run", "--name", name, "--at-most", limit], arguments].concat())
    }

    /// Waits until another run gets in, and returns when that was, by the store's clock.
    fn wait_for_turn(&self, name: &str) -> i64 {
        finish_in_time(&mut self.run(name, &["--wait", "30s", "-E", "75", "true"])).is_silent_with(0);
        self.store.history(name)[0].started
    }
}

#[track_caller]
fn close_to(found: i64, wanted: i64) {
    assert!((found - wanted).abs() <= 100, "{found} is not {wanted}");
}

on_every_backend! {
    while_the_job_runs_the_lock_is_stored_and_the_job_knows_it
    a_held_lock_is_a_silent_skip
    at_least_keeps_the_lock_and_every_does_too
    a_failed_job_frees_the_lock_at_once_if_it_is_told_to
    who_waits_gets_in_when_the_job_has_ended
    a_counter_is_exact_under_the_lock
    a_job_that_uses_up_at_most_is_dead_before_the_lock_frees
    a_lock_is_renewed_for_as_long_as_the_job_lives
    who_is_killed_blocks_nobody_beyond_at_most
    who_is_told_to_stop_gives_the_lock_back
    a_run_that_is_stopped_early_leaves_nothing_held
    a_lock_that_is_stolen_is_told_of_and_left_alone
    a_lock_that_is_deleted_is_told_of
    java_and_a_job_exclude_each_other
    a_sleeping_job_has_no_connection
    a_job_gets_none_of_our_descriptors
    a_herd_on_one_name_runs_one_job
    a_herd_on_many_names_runs_them_all
    a_job_that_gives_its_own_lock_back_has_lost_nothing
    the_history_has_the_token_that_the_job_knows
    tokens_of_racing_runs_grow_in_the_order_of_the_runs
}

fn while_the_job_runs_the_lock_is_stored_and_the_job_knows_it<S: Store>(site: &Site<S>) {
    let job = "env | grep ^SHEDLOCK_LOCK_ > known";
    let holder = Holder::start(&site.place, &mut site.run("night shift", &[]), job);
    let stored = site.stored("night shift");
    assert!(stored.is_held());
    close_to(stored.span(), MINUTE + site.grain());
    let (pid, owner) = (holder.pid(), stored.owner.clone());
    assert!(owner.contains(&format!(":{pid}:")), "{owner}");
    holder.end().is_silent_with(0);
    let known = site.place.read("known");
    assert!(known.contains(&format!("SHEDLOCK_LOCK_OWNER={owner}\n")), "{known}");
    assert!(known.contains("SHEDLOCK_LOCK_NAME=night shift\n"), "{known}");
    let until = known.lines().find_map(|line| line.strip_prefix("SHEDLOCK_LOCK_UNTIL=")).unwrap();
    let until = humantime::parse_rfc3339(until).unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    close_to(i64::try_from(until.as_millis()).unwrap() + site.grain(), stored.until);
    assert!(!site.is_held("night shift"));
}

fn a_held_lock_is_a_silent_skip<S: Store>(site: &Site<S>) {
    let holder = site.hold("job", &[], "true");
    let owner = site.stored("job").owner;
    finish(&mut site.run("job", &["touch", "ran"])).is_silent_with(0);
    finish(&mut site.run("job", &["-E", "75", "touch", "ran"])).is_silent_with(75);
    let told = finish(&mut site.run("job", &["-v", "touch", "ran"]));
    told.complains(0, &format!("the lock is held by {owner} since 20"));
    holder.end().is_silent_with(0);
    assert!(!site.place.path("ran").exists());
    finish(&mut site.run("job", &["touch", "ran"])).is_silent_with(0);
    assert!(site.place.path("ran").exists());
}

fn at_least_keeps_the_lock_and_every_does_too<S: Store>(site: &Site<S>) {
    finish(&mut site.run("least", &["--at-least", "30s", "true"])).is_silent_with(0);
    let stored = site.stored("least");
    close_to(stored.span(), MINUTE / 2 + site.grain());
    assert!(stored.owner.ends_with(":ended"), "{stored:?}");
    // Never earlier, however coarse the clock is.
    let fired = site.stored("least").now;
    finish(&mut site.run("every", &["--every", "1h", "true"])).is_silent_with(0);
    let stored = site.stored("every");
    assert!(stored.until >= fired + 54 * MINUTE, "{stored:?} {fired}");
    assert!(stored.span() <= 54 * MINUTE + 3_000, "{stored:?}");
    for name in ["least", "every"] {
        finish(&mut site.run(name, &["-E", "75", "touch", "ran"])).is_silent_with(75);
    }
}

fn a_job_that_gives_its_own_lock_back_has_lost_nothing<S: Store>(site: &Site<S>) {
    let handle = "\"$SHEDLOCK_LOCK_NAME@$SHEDLOCK_LOCK_OWNER\"";
    let script = format!("{0} release {handle} && {0} release {handle}", env!("CARGO_BIN_EXE_shedlock"));
    finish(&mut site.run("unrecorded", &["--history-keep", "0", "sh", "-c", &script])).is_silent_with(0);
    finish(&mut site.run("job", &["sh", "-c", &script])).is_silent_with(0);
    assert!(!site.is_held("job") && !site.is_held("unrecorded"));
    let history = finish(&mut site.shedlock(&["history", "job"]));
    assert!(history.stdout.contains("success"), "{history:?}");
}

fn a_failed_job_frees_the_lock_at_once_if_it_is_told_to<S: Store>(site: &Site<S>) {
    let arguments = ["--at-least", "30s", "--on-failure", "release", "sh", "-c", "exit 3"];
    finish(&mut site.run("job", &arguments)).is_silent_with(3);
    assert!(!site.is_held("job"));
    finish(&mut site.run("job", &["--at-least", "30s", "/no/such/command"])).complains(127, "cannot run");
    assert!(!site.is_held("job"));
}

fn who_waits_gets_in_when_the_job_has_ended<S: Store>(site: &Site<S>) {
    let holder = site.hold("job", &[], "true");
    let waiter = start(&mut site.run("job", &["--wait", "1m", "-E", "75", "touch", "ran"]));
    let skipped = finish(&mut site.run("job", &["--wait", "300ms", "-E", "75", "touch", "ran"]));
    skipped.is_silent_with(75);
    assert!(!site.place.path("ran").exists());
    holder.end().is_silent_with(0);
    finish_child(waiter).is_silent_with(0);
    assert!(site.place.path("ran").exists());
    // A second is promised, and the machine may be busy.
    let runs = site.store.history("job");
    let waited = runs[0].started - runs[1].ended.unwrap();
    assert!((0..10_000).contains(&waited), "{waited} ms, by the store's clock: {runs:?}");
}

fn a_counter_is_exact_under_the_lock<S: Store>(site: &Site<S>) {
    let (processes, rounds) = (6, 5);
    std::fs::write(site.place.path("counter"), "0\n").unwrap();
    let increment = "read n < counter; echo $((n + 1)) > counter";
    let script = format!(
        "i=0; while [ $i -lt {rounds} ]; do \"$@\" run --name counter --at-most 1m --wait 5m -E 99 sh -c '{increment}' || exit; i=$((i+1)); done"
    );
    let shedlock = site.place.shedlock::<_, &str>([]);
    let children: Vec<Child> = (0..processes)
        .map(|_| start(under(&["sh", "-c", &script, "sh"], &shedlock).env("SHEDLOCK_BACKEND", site.store.url())))
        .collect();
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    assert_eq!(site.place.read("counter"), format!("{}\n", processes * rounds));
}

fn a_job_that_uses_up_at_most_is_dead_before_the_lock_frees<S: Store>(site: &Site<S>) {
    let job = "echo $$ > pid; exec sleep 100";
    let run = detached(&site.place, "run", &site.limited("job", "2s", &["sh", "-c", job]));
    let pid: i32 = site.place.wait_for_lines("pid", 1)[0].parse().unwrap();
    // Another gets in as soon as it may.
    let next = finish(&mut site.run("job", &["--wait", "30s", "-E", "75", "sh", "-c", &format!("! kill -0 {pid}")]));
    assert_eq!(next.code(), Some(0), "the first job is dead when the second begins: {next:?}");
    assert_eq!(run.finish().code(), Some(124));
}

fn a_lock_is_renewed_for_as_long_as_the_job_lives<S: Store>(site: &Site<S>) {
    let (at_most, watched) = if site.store.starts_programs() { ("20s", 25_000) } else { ("2s", 6_000) };
    let run = site.limited("job", at_most, &["--on-expiry", "extend"]);
    let holder = Holder::start(&site.place, &mut under::<&str>(&DETACHED, &run), "true");
    let first = site.stored("job");
    let mut last = first.clone();
    // More than at-most, by the store's clock.
    wait_until("renewals", || {
        last = site.stored("job");
        assert!(last.is_held() && last.owner == first.owner, "{last:?}");
        (last.now - first.since > watched).then_some(())
    });
    finish(&mut site.run("job", &["-E", "75", "true"])).is_silent_with(75);
    holder.end().is_silent_with(0);
    assert!(!site.is_held("job"));
}

fn who_is_killed_blocks_nobody_beyond_at_most<S: Store>(site: &Site<S>) {
    let run = detached(&site.place, "run", &site.limited("job", "4s", &["sh", "-c", "echo $$ > pid; exec sleep 100"]));
    let pid: i32 = site.place.wait_for_lines("pid", 1)[0].parse().unwrap();
    kill(run.pid(), "KILL");
    wait_for_end(pid);
    let stored = site.stored("job");
    assert!(stored.is_held(), "nobody could give it back");
    close_to(stored.span(), 4_000 + site.grain());
    let next = site.wait_for_turn("job");
    assert!(next >= stored.until, "{next} {stored:?}");
}

fn who_is_told_to_stop_gives_the_lock_back<S: Store>(site: &Site<S>) {
    let job = "echo $$ > pid; exec sleep 100";
    let run = detached(&site.place, "run", &site.run("job", &["--at-least", "0", "sh", "-c", job]));
    let pid: i32 = site.place.wait_for_lines("pid", 1)[0].parse().unwrap();
    kill(run.pid(), "TERM");
    run.finish().is_silent_with(128 + 15);
    assert!(!is_alive(pid));
    assert!(!site.is_held("job"));
}

/// At whatever it is stopped, it ends as the signal says or with its job's code, and the lock is free.
fn a_run_that_is_stopped_early_leaves_nothing_held<S: Store>(site: &Site<S>) {
    // Has the table made.
    finish(&mut site.run("job", &["true"])).is_silent_with(0);
    for step in 0..20 {
        let run = detached(&site.place, &format!("run-{step}"), &site.run("job", &["true"]));
        let until = Instant::now() + Duration::from_millis(step);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(run.pid()), nix::sys::signal::Signal::SIGTERM);
        let finished = run.finish();
        assert_eq!(finished.stderr, "", "{finished:?}");
        assert!(!site.is_held("job"), "after {step} ms: {finished:?}");
    }
}

fn a_lock_that_is_stolen_is_told_of_and_left_alone<S: Store>(site: &Site<S>) {
    let holder = Holder::start(&site.place, &mut site.run("job", &[]), "exit 7");
    site.store.steal("job", "somebody");
    let before = site.stored("job");
    holder.end().complains(7, "the lock was no longer ours when the job ended");
    let after = site.stored("job");
    assert_eq!((after.owner.as_str(), after.since), ("somebody", before.since));
    assert!(after.is_held());
}

fn a_lock_that_is_deleted_is_told_of<S: Store>(site: &Site<S>) {
    let holder = Holder::start(&site.place, &mut site.run("job", &["--at-least", "30s"]), "exit 7");
    site.store.delete("job");
    holder.end().complains(7, "the lock was no longer ours when the job ended");
    assert_eq!(site.store.stored("job"), None);
    finish(&mut site.run("job", &["-E", "75", "true"])).is_silent_with(0);
}

fn java_and_a_job_exclude_each_other<S: Store>(site: &Site<S>) {
    let minute = Duration::from_secs(60);
    let holder = site.hold("job", &[], "true");
    assert!(!site.store.java_take("job", "java-host", minute));
    if site.store.java_frees_only_its_own() {
        site.store.java_release("job", "java-host", Duration::ZERO);
    }
    assert!(site.is_held("job"));
    holder.end().is_silent_with(0);
    assert!(site.store.java_take("job", "java-host", minute));
    let told = finish(&mut site.run("job", &["-v", "-E", "75", "touch", "ran"]));
    told.complains(75, &format!("the lock is held by {} since", site.store.java_owner("java-host")));
    let waiter = start(&mut site.run("job", &["--wait", "1m", "-E", "75", "touch", "ran"]));
    site.store.java_release("job", "java-host", minute / 2);
    finish(&mut site.run("job", &["-E", "75", "true"])).is_silent_with(75);
    site.store.java_release("job", "java-host", Duration::ZERO);
    finish_child(waiter).is_silent_with(0);
    assert!(site.place.path("ran").exists());
}

fn a_sleeping_job_has_no_connection<S: Store>(site: &Site<S>) {
    let jobs: Vec<Holder> = (0..10).map(|number| site.hold(&format!("job {number}"), &[], "true")).collect();
    wait_until("the connections to be closed", || (site.store.connections() == 0).then_some(()));
    assert!((0..10).all(|number| site.is_held(&format!("job {number}"))));
    for job in jobs {
        job.end().is_silent_with(0);
    }
    assert!((0..10).all(|number| !site.is_held(&format!("job {number}"))));
}

fn a_job_gets_none_of_our_descriptors<S: Store>(site: &Site<S>) {
    let links = finish(&mut site.run("job", &["sh", "-c", "readlink /proc/$$/fd/*"])).stdout;
    assert!(!links.is_empty(), "the job has some of its own");
    assert!(!["socket:", "anon_inode:", ".db"].iter().any(|ours| links.contains(ours)), "{links}");
}

fn a_herd_on_one_name_runs_one_job<S: Store>(site: &Site<S>) {
    let job = "echo $$ >> runs; while [ ! -e done ]; do sleep 0.02; done";
    let mut children: Vec<Child> = (0..60).map(|_| start(&mut site.run("herd", &["sh", "-c", job]))).collect();
    // The job runs until all others have had their answer.
    wait_until("59 answers", || {
        let answered = children.iter_mut().filter_map(|child| child.try_wait().unwrap()).count();
        (answered == 59).then_some(())
    });
    std::fs::write(site.place.path("done"), "").unwrap();
    let ends: Vec<Finished> = children.into_iter().map(finish_child).collect();
    ends.iter().for_each(|end| end.is_silent_with(0));
    assert_eq!(site.place.lines("runs").len(), 1);
}

fn a_herd_on_many_names_runs_them_all<S: Store>(site: &Site<S>) {
    let job = |number: usize| format!("echo {number} >> runs");
    let children: Vec<Child> =
        (0..60).map(|number| start(&mut site.run(&format!("job {number}"), &["sh", "-c", &job(number)]))).collect();
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    let mut runs: Vec<usize> = site.place.lines("runs").iter().map(|line| line.parse().unwrap()).collect();
    runs.sort_unstable();
    assert_eq!(runs, (0..60).collect::<Vec<_>>());
}

fn the_history_has_the_token_that_the_job_knows<S: Store>(site: &Site<S>) {
    let mut tokens = Vec::new();
    for (job, code, outcome) in [("true", 0, "success"), ("exit 3", 3, "failure")] {
        let job = format!("echo $SHEDLOCK_LOCK_TOKEN > token; echo $SHEDLOCK_LOCK_OWNER > owner; {job}");
        finish(&mut site.run("night shift", &["sh", "-c", &job])).is_silent_with(code);
        let run = site.store.history("night shift").remove(0);
        assert_eq!(run.token.to_string(), site.place.read("token").trim());
        assert_eq!(run.owner, site.place.read("owner").trim());
        assert!(run.owner.starts_with(&format!("{}:", run.host)) && run.ended >= Some(run.started), "{run:?}");
        assert_eq!((run.exit_code, run.outcome.as_deref()), (Some(code.into()), Some(outcome)));
        tokens.push(run.token);
    }
    assert!(tokens[0] < tokens[1], "{tokens:?}");
}

fn tokens_of_racing_runs_grow_in_the_order_of_the_runs<S: Store>(site: &Site<S>) {
    let arguments = ["--wait", "5m", "-E", "99", "sh", "-c", "echo $SHEDLOCK_LOCK_TOKEN >> tokens"];
    let children: Vec<Child> = (0..100).map(|_| start(&mut site.run("herd", &arguments))).collect();
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    let tokens: Vec<u64> = site.place.lines("tokens").iter().map(|token| token.parse().unwrap()).collect();
    assert_eq!(tokens.len(), 100);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}
