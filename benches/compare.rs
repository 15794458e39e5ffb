//! What shedlock costs beside its peers: `cargo bench --bench compare [-- ROUNDS]`.
//!
//! With `BEFORE=/path/to/shedlock` that one is measured, too, in the same rounds.
//!
//! Every round runs every command once, one after the other, so that a machine that gets slower or faster does so for
//! all of them. Times are from the start of a process to its end, as a shell would see them. Needs flock(1) and
//! timeout(1), that is util-linux and coreutils.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run says so by panicking")]

mod measure;

use measure::{
    JOB, SHEDLOCK, before, copied, hold, measure, print_machine, print_waiting, quantile, run, run_of, words,
};

const ROUNDS: usize = 300;
const WARM_UP: usize = 10;
const LOCKS: &str = "sqlite:locks.db";

/// What is measured of one command.
struct Subject {
    name: String,
    /// The subject that its ratio is to.
    peer: usize,
    arguments: Box<dyn Fn(usize) -> Vec<String>>,
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
        hold(&run(LOCKS, "held", &["cat"])),
        hold(&run(LOCKS, "leased", &["--lease", "1m", "cat"])),
    ];
    let mut subjects = vec![
        Subject::new("/bin/true", FLOCK, |_| words(JOB)),
        Subject::new("flock -n FILE /bin/true", FLOCK, |_| words(&format!("flock -n free.lock {JOB}"))),
        Subject::new("flock -n FILE, held", HELD_FLOCK, |_| words(&format!("flock -n held.lock {JOB}"))),
        Subject::new("timeout 60 /bin/true", FLOCK, |_| words(&format!("timeout 60 {JOB}"))),
    ];
    subjects.extend(of_shedlock("shedlock", copied(SHEDLOCK, "shedlock")));
    subjects.extend(before().into_iter().flat_map(|binary| of_shedlock("before", binary)));
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
    println!("\nratios are to `flock -n FILE /bin/true`, those to flock's on a held lock are in a row of their own\n");
    print_waiting(["flock", "shedlock", "shedlock, with --lease"].into_iter().zip(holders));
}

/// The places of those that the ratios are to.
const FLOCK: usize = 1;
const HELD_FLOCK: usize = 2;

/// Returns the rows of one shedlock.
fn of_shedlock(name: &str, binary: String) -> Vec<Subject> {
    let subject = |what: &str, peer, lock: &'static str, options: &'static [&'static str]| {
        let (name, binary) = (name.to_owned(), binary.clone());
        Subject::new(&format!("{name} {what}"), peer, move |round| {
            // No other binary's, which would have made it in the same round.
            let lock = lock.replace("{fresh}", &format!("{name}-{round}"));
            run_of(&binary, LOCKS, &lock, &[options, &[JOB]].concat())
        })
    };
    vec![
        subject("run, a fresh name", FLOCK, "{fresh}", &[]),
        subject("run, the same name", FLOCK, "same", &[]),
        subject("run, with --lease", FLOCK, "lease", &["--lease", "1m"]),
        subject("run, held (a skip)", FLOCK, "held", &[]),
        subject("the skip to flock's", HELD_FLOCK, "held", &[]),
        Subject::new(&format!("{name} --version"), FLOCK, move |_| vec![binary.clone(), "--version".to_owned()]),
    ]
}

impl Subject {
    fn new(name: &str, peer: usize, arguments: impl Fn(usize) -> Vec<String> + 'static) -> Self {
        Self { name: name.to_owned(), peer, arguments: Box::new(arguments), times: Vec::new(), peak_kib: Vec::new() }
    }
}
