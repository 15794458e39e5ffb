//! A job whose lock is extended lives on, and holds the lock for all that time.

use super::*;
use crate::support::process::{heartbeat, last_beat};

on_every_backend! {
    an_extended_job_lives_on_under_its_lock_with_a_lease_and_without
    an_extension_from_outside_counts_too
    a_job_that_was_not_extended_is_stopped_in_time
    a_job_whose_lock_was_taken_away_is_stopped_before_its_time
}

/// Lives beyond at-most, is stopped at the end of the extension, and the lock was held at every moment in between.
fn lives_on<S: Store>(site: &Site<S>, name: &str, options: &[&str]) {
    let words = ["run", "--name", name, "--at-most", "6s", "-v", "-k", "0"];
    let [begun, beats] = ["begun", "beats"].map(|what| format!("{what}-{name}"));
    let script = format!("$PROGRAM extend 12s && date +%s%3N > {begun}; {}", heartbeat(&beats));
    let mut run = site.shedlock(&words);
    run.args(options).args(["bash", "-c", &script]).env("PROGRAM", env!("CARGO_BIN_EXE_shedlock"));
    let mut started = detached(&site.place, name, &run);
    site.place.wait_for_lines(&beats, 1);
    let begun: i64 = site.place.read(&begun).trim().parse().unwrap();
    // For as long as there are beats, a look before finds the lock held.
    while !started.has_ended() {
        let held = site.is_held(name);
        assert!(held || last_beat(&site.place, &beats) > begun + 9_000, "the lock is not held");
        std::thread::sleep(Duration::from_millis(20));
    }
    let finished = started.finish();
    assert_eq!(finished.code(), Some(124), "{finished:?}");
    assert!(finished.stderr.contains("the lock was extended until 20"), "{finished:?}");
    assert!(finished.stderr.contains("stopped because --at-most 6s, extended until 20"), "{finished:?}");
    let lived = last_beat(&site.place, &beats) - begun;
    assert!((7_000..12_000 + site.grain()).contains(&lived), "it lived for {lived} ms");
    assert!(!site.is_held(name));
}

fn an_extended_job_lives_on_under_its_lock_with_a_lease_and_without<S: Store>(site: &Site<S>) {
    std::thread::scope(|scope| {
        scope.spawn(|| lives_on(site, "leased", &["--lease", "2s"]));
        lives_on(site, "plain", &[]);
    });
}

fn an_extension_from_outside_counts_too<S: Store>(site: &Site<S>) {
    let mut run = site.shedlock(&["run", "--name", "job", "--at-most", "6s"]);
    let holder = Holder::start(&site.place, &mut run, "true");
    let stored = site.stored("job");
    site.tell(&["extend", "1m", &format!("job@{}", stored.owner)]).is_silent_with(0);
    wait_until("the end that at-most would have had", || (site.stored("job").now > stored.until).then_some(()));
    assert!(site.is_held("job"));
    holder.end().is_silent_with(0);
    assert!(!site.is_held("job"));
}

/// It asks for less than it has, also where a busy machine is slow to start it.
fn a_job_that_was_not_extended_is_stopped_in_time<S: Store>(site: &Site<S>) {
    let mut run = site.shedlock(&["run", "--name", "job", "--at-most", "8s", "-k", "0"]);
    let script = format!("$PROGRAM extend 1s; {}", heartbeat("beats"));
    run.args(["bash", "-c", &script]).env("PROGRAM", env!("CARGO_BIN_EXE_shedlock"));
    let started = detached(&site.place, "run", &run);
    site.place.wait_for_lines("beats", 1);
    let stored = site.stored("job");
    let finished = started.finish();
    finished.complains(124, "the job is stopped because --at-most 8s is used up");
    let last = last_beat(&site.place, "beats");
    assert!(last < stored.until, "{last} {stored:?}");
}

fn a_job_whose_lock_was_taken_away_is_stopped_before_its_time<S: Store>(site: &Site<S>) {
    let mut run = site.shedlock(&["run", "--name", "job", "--at-most", "6s"]);
    let holder = Holder::start(&site.place, &mut run, "true");
    site.store.steal("job", "java");
    holder.finish().complains(123, "the lock was lost, so the job is stopped");
    assert_eq!(site.stored("job").owner, "java");
}

#[cfg(feature = "postgres")]
mod frozen {
    use super::*;
    use crate::support::finish_in_time;
    use servers::Postgres;
    use servers::stores::PostgresStore;

    #[test]
    fn a_server_that_is_frozen_keeps_no_job_from_being_stopped_in_time() {
        let server = Postgres::fresh(&[]);
        let site = Site::new(PostgresStore(server.database()));
        let start = |name: &str, lease: &[&str]| {
            let mut run =
                site.shedlock(&["run", "--name", name, "--at-most", "4s", "--backend-timeout", "2s", "-k", "0"]);
            run.args(lease).args(["bash", "-c", &heartbeat(&format!("beats-{name}"))]);
            detached(&site.place, name, &run)
        };
        let runs = [("plain", start("plain", &[])), ("leased", start("leased", &["--lease", "10s"]))];
        let runs = runs.map(|(name, run)| {
            site.place.wait_for_lines(&format!("beats-{name}"), 1);
            (name, site.stored(name), run)
        });
        server.freeze();
        let ends = runs.map(|(name, stored, run)| (name, stored, run.finish()));
        server.thaw();
        for (name, stored, finished) in ends {
            assert_eq!(finished.code(), Some(124), "{finished:?}");
            let last = last_beat(&site.place, &format!("beats-{name}"));
            assert!(last < stored.until, "{last} {stored:?}");
            wait_until("the end of the lock", || (!site.is_held(name)).then_some(()));
        }
    }

    #[test]
    fn who_asks_a_server_that_is_frozen_is_told_in_time() {
        let server = Postgres::fresh(&[]);
        let site = Site::new(PostgresStore(server.database()));
        let handle = site.acquired("job", &[]);
        server.freeze();
        for words in [&["extend", "1m", &handle][..], &["verify", &handle], &["release", &handle]] {
            let mut command = site.shedlock(words);
            finish_in_time(command.args(["--backend-timeout", "1s"])).complains(125, "backend ");
        }
        server.thaw();
        site.tell(&["release", &handle]).is_silent_with(0);
    }
}
