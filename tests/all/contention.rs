//! Many processes at once, on one lock and on many.

#[cfg(feature = "kubernetes")]
use std::collections::HashMap;
use std::process::{Child, Stdio};
#[cfg(feature = "kubernetes")]
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
#[cfg(feature = "kubernetes")]
use std::sync::{Arc, Mutex};

#[cfg(feature = "kubernetes")]
use super::relay::{Act, Relay};
use super::support::{Place, finish_child, start, turn_of_a_herd};
#[cfg(feature = "kubernetes")]
use super::support::{finish, process::under};
#[cfg(feature = "kubernetes")]
use servers::stores::{KubernetesStore, Store};

/// Starts `count` processes as close together as the machine can.
fn stampede(count: usize, launch: impl Fn(usize) -> Child) -> Vec<Child> {
    (0..count).map(launch).collect()
}

#[test]
fn of_200_processes_on_one_name_one_runs_its_job() {
    let _turn = turn_of_a_herd();
    let place = Place::new();
    let job = "echo $$ >> runs; while [ ! -e done ]; do sleep 0.02; done";
    let mut children = stampede(200, |_| start(&mut place.run("herd", ["sh", "-c", job])));
    // The job runs until all others have had their answer.
    let others = 199;
    let mut answered = 0;
    while answered < others {
        answered = children.iter_mut().filter_map(|child| child.try_wait().unwrap()).count();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::fs::write(place.path("done"), "").unwrap();
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    assert_eq!(place.lines("runs").len(), 1);
}

#[test]
fn of_200_processes_on_200_names_all_run_their_jobs() {
    let _turn = turn_of_a_herd();
    let place = Place::new();
    let children = stampede(200, |index| {
        start(&mut place.run(&format!("job-{index}"), ["sh", "-c", &format!("echo {index} >> runs")]))
    });
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    let mut runs: Vec<usize> = place.lines("runs").iter().map(|line| line.parse().unwrap()).collect();
    runs.sort_unstable();
    assert_eq!(runs, (0..200).collect::<Vec<_>>());
}

#[test]
fn a_counter_without_any_protection_but_the_lock_is_exact() {
    let (processes, rounds) = (16, 10);
    let place = Place::new();
    std::fs::write(place.path("counter"), "0\n").unwrap();
    let shedlock = env!("CARGO_BIN_EXE_shedlock");
    let increment = "read n < counter; echo $((n + 1)) > counter";
    let script = format!(
        "i=0; while [ $i -lt {rounds} ]; do {shedlock} run --name counter --at-most 1m --wait 5m -E 99 sh -c '{increment}' || exit; i=$((i+1)); done"
    );
    let children = stampede(processes, |_| {
        let mut shell = place.shedlock::<_, &str>([]);
        let environment: Vec<_> = shell.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
        let mut command = std::process::Command::new("sh");
        for (key, value) in environment {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        shell.stdin(Stdio::null());
        start(command.args(["-c", &script]).current_dir(place.path("")))
    });
    for child in children {
        finish_child(child).is_silent_with(0);
    }
    assert_eq!(place.read("counter"), format!("{}\n", processes * rounds));
}

/// Takes one lock many times from several shells. Each run has a lease of one to three seconds and a job of 50
/// milliseconds, whose log shows that nobody else was inside.
#[cfg(feature = "kubernetes")]
#[track_caller]
fn contend(url: &str, shells: usize, rounds: usize) {
    let place = Place::new();
    let job = "echo begin $$ >> log; sleep 0.05; echo end $$ >> log";
    let children = stampede(shells, |shell| {
        let lease = format!("{}s", 1 + shell % 3);
        let mut run = place.run("contended", ["--lease", &lease, "--wait", "5m", "-E", "99", "sh", "-c", job]);
        run.env("SHEDLOCK_BACKEND", url);
        let script = format!("i=0; while [ $i -lt {rounds} ]; do \"$@\" || exit; i=$((i+1)); done");
        start(&mut under(&["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()], &run))
    });
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

#[cfg(feature = "kubernetes")]
#[test]
fn a_clock_of_whole_seconds_lets_no_two_in() {
    let _turn = turn_of_a_herd();
    contend(&KubernetesStore::new().url(), 4, 50);
}

/// The store's clock is an hour ahead of that of all clients, and then an hour behind.
#[cfg(feature = "kubernetes")]
#[test]
fn a_clock_of_whole_seconds_that_is_an_hour_off_lets_no_two_in() {
    let _turn = turn_of_a_herd();
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

/// A time of HTTP, so many hours later.
#[cfg(feature = "kubernetes")]
fn shifted(date: &str, hours: i64) -> String {
    let mut command = std::process::Command::new("date");
    command.args(["-u", "-d", &format!("{date} {hours:+} hours"), "+%a, %d %b %Y %H:%M:%S GMT"]);
    let said = finish(command.env("LC_ALL", "C")).stdout.trim().to_owned();
    assert_eq!(said.len(), date.len(), "{said}");
    said
}
