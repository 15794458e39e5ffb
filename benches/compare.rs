//! What shedlock costs beside its peers: `cargo bench --bench compare [-- ROUNDS]`.
//!
//! Every round runs every command once, one after the other, so that a machine that gets slower or faster does so for
//! all of them. Times are from the start of a process to its end, as a shell would see them. Needs flock(1) and
//! timeout(1), that is util-linux and coreutils.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run says so by panicking")]

mod measure;

use measure::{hold, measure, print_machine, print_waiting, quantile, words};

const ROUNDS: usize = 300;
const WARM_UP: usize = 10;

/// What is measured of one command.
struct Subject {
    name: &'static str,
    /// The subject that its ratio is to.
    peer: usize,
    arguments: fn(round: usize) -> Vec<String>,
    times: Vec<f64>,
    peak_kib: Vec<i64>,
}

fn main() {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let place = tempfile::tempdir().unwrap();
    std::env::set_current_dir(place.path()).unwrap();
    print_machine(place.path());

    let holders = [
        hold(&words("flock -n held.lock cat")),
        hold(&run("held", &["cat"])),
        hold(&run("leased", &["--lease", "1m", "cat"])),
    ];
    let mut subjects = [
        Subject::new("true", 1, |_| words("true")),
        Subject::new("flock -n FILE true", 1, |_| words("flock -n free.lock true")),
        Subject::new("timeout 60 true", 1, |_| words("timeout 60 true")),
        Subject::new("shedlock run, a fresh name", 1, |round| run(&format!("fresh-{round}"), &["true"])),
        Subject::new("shedlock run, the same name", 1, |_| run("same", &["true"])),
        Subject::new("shedlock run, with --lease", 1, |_| run("lease", &["--lease", "1m", "true"])),
        Subject::new("flock -n FILE, held", 6, |_| words("flock -n held.lock true")),
        Subject::new("shedlock run, held (a skip)", 6, |_| run("held", &["true"])),
    ];
    for round in 0..WARM_UP + rounds {
        for subject in &mut subjects {
            let (time, peak) = measure(&(subject.arguments)(round));
            if round >= WARM_UP {
                subject.times.push(time.as_secs_f64() * 1e3);
                subject.peak_kib.push(peak);
            }
        }
    }
    println!("\n{rounds} rounds, interleaved\n");
    println!(
        "{:<30} {:>10} {:>21} {:>22} {:>10}",
        "", "median ms", "10th to 90th", "ratio, median of pairs", "peak MB"
    );
    for subject in &subjects {
        let pairs =
            subject.times.iter().zip(&subjects[subject.peer].times).map(|(ours, theirs)| ours / theirs).collect();
        println!(
            "{:<30} {:>10.3} {:>9.3} to {:>8.3} {:>22.2} {:>10.1}",
            subject.name,
            quantile(subject.times.clone(), 0.5),
            quantile(subject.times.clone(), 0.1),
            quantile(subject.times.clone(), 0.9),
            quantile(pairs, 0.5),
            subject.peak_kib.iter().max().copied().unwrap_or_default() as f64 / 1024.0,
        );
    }
    println!("\nratios are to `flock -n FILE true`, those of held locks to flock's on a held lock\n");
    print_waiting(["flock", "shedlock", "shedlock, with --lease"].into_iter().zip(holders));
}

impl Subject {
    fn new(name: &'static str, peer: usize, arguments: fn(usize) -> Vec<String>) -> Self {
        Self { name, peer, arguments, times: Vec::new(), peak_kib: Vec::new() }
    }
}

fn run(name: &str, job: &[&str]) -> Vec<String> {
    measure::run("sqlite:locks.db", name, job)
}
