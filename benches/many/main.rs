//! Measures what looking at many locks and runs costs: `cargo bench --bench many [-- LOCKS RUNS BACKEND...]`.
//!
//! Each backend is filled with so many locks, each with so many runs, by statements of its own or, where a lock and its runs
//! are one record, by running. Then the commands that look at all of them run once, from start to end. Nothing is asserted.
//! `benches/README.md` has results.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run says so by panicking")]

mod fill;
#[path = "../measure/mod.rs"]
#[expect(dead_code, reason = "other benchmarks need more of it")]
mod measure;

use measure::{SHEDLOCK, measure, print_machine};

/// The commands, and what they say.
const COMMANDS: [&str; 9] = [
    "status",
    "status --json",
    "status --prometheus",
    "history --limit 50",
    "history --since 30d",
    "history --since 30d --json",
    "history --since 30d --timeline",
    "history --since 30d --svg runs.svg",
    "history --since 30d --html runs.html",
];

/// A backend and what fills it.
struct Place {
    name: &'static str,
    /// Starts its server, fills it, and returns its URL.
    filled: fn(locks: usize, runs: usize) -> String,
    /// The most runs that it keeps of a lock.
    most: usize,
}

const PLACES: [Place; 8] = [
    Place { name: "SQLite", filled: fill::sqlite, most: usize::MAX },
    Place { name: "PostgreSQL", filled: fill::postgres, most: usize::MAX },
    Place { name: "MariaDB", filled: fill::mariadb, most: usize::MAX },
    Place { name: "Redis", filled: fill::redis, most: usize::MAX },
    Place { name: "etcd", filled: fill::etcd, most: usize::MAX },
    Place { name: "ZooKeeper", filled: fill::zookeeper, most: 100 },
    Place { name: "Kubernetes", filled: fill::kubernetes, most: 100 },
    Place { name: "MongoDB", filled: fill::mongodb, most: 100 },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let mut numbers = words.iter().filter_map(|word| word.parse().ok());
    let (locks, runs) = (numbers.next().unwrap_or(100), numbers.next().unwrap_or(1000));
    let names: Vec<&String> = words.iter().filter(|word| word.parse::<usize>().is_err()).collect();
    let directory = tempfile::tempdir().unwrap();
    std::env::set_current_dir(directory.path()).unwrap();
    print_machine(directory.path());
    for place in &PLACES {
        let is_meant = names.iter().any(|name| name.eq_ignore_ascii_case(place.name));
        if names.is_empty() || is_meant {
            print(place, locks, runs.min(place.most));
        }
    }
}

fn print(place: &Place, locks: usize, runs: usize) {
    let url = (place.filled)(locks, runs);
    println!(
        "\n{:<42} {:>9} {:>9}",
        format!("{}, {locks} locks, {runs} runs of each", place.name),
        "seconds",
        "peak MB"
    );
    let commands = COMMANDS.map(|command| (command, [command, " --backend-timeout 10m"].concat()));
    // It gives up after half a second.
    let names = ("names for completions", "__names job-00 shedlock status".to_owned());
    for (name, line) in commands.into_iter().chain([names]) {
        let words = [SHEDLOCK].into_iter().chain(line.split(' ')).chain(["--backend", &url]);
        let (time, peak) = measure(&words.map(str::to_owned).collect::<Vec<_>>());
        println!("{name:<42} {:>9.2} {:>9.1}", time.as_secs_f64(), peak as f64 / 1024.0);
    }
}
