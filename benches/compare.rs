//! What shedlock costs beside its peers: `cargo bench --bench compare [-- ROUNDS]`.
//!
//! Every round runs every command once, one after the other, so that a machine that gets slower or faster does so for
//! all of them. Times are from the start of a process to its end, as a shell would see them. Needs flock(1) and
//! timeout(1), that is util-linux and coreutils.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run says so by panicking")]

use std::fs;
use std::io::Error;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SHEDLOCK: &str = env!("CARGO_BIN_EXE_shedlock");
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

    let mut holders = [hold(&words("flock -n held.lock sleep 600")), hold(&run("held", &["sleep", "600"]))];
    // The locks are held once the jobs are there.
    for holder in &holders {
        wait_for_job(holder.id());
    }
    let mut subjects = [
        Subject::new("true", 1, |_| words("true")),
        Subject::new("flock -n FILE true", 1, |_| words("flock -n free.lock true")),
        Subject::new("timeout 60 true", 1, |_| words("timeout 60 true")),
        Subject::new("shedlock run, a fresh name", 1, |round| run(&format!("fresh-{round}"), &["true"])),
        Subject::new("shedlock run, the same name", 1, |_| run("same", &["true"])),
        Subject::new("flock -n FILE, held", 5, |_| words("flock -n held.lock true")),
        Subject::new("shedlock run, held (a skip)", 5, |_| run("held", &["true"])),
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
    print_waiting(&mut holders);
}

impl Subject {
    fn new(name: &'static str, peer: usize, arguments: fn(usize) -> Vec<String>) -> Self {
        Self { name, peer, arguments, times: Vec::new(), peak_kib: Vec::new() }
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn run(name: &str, job: &[&str]) -> Vec<String> {
    let head = [SHEDLOCK, "run", "--backend", "sqlite:locks.db", "--name", name, "--at-most", "1h"];
    head.iter().chain(job).map(|word| (*word).to_owned()).collect()
}

fn command(arguments: &[String]) -> Command {
    let mut command = Command::new(&arguments[0]);
    command.args(&arguments[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
}

/// Runs a command to its end; returns its time and the peak memory, in KiB, of its largest process.
fn measure(arguments: &[String]) -> (Duration, i64) {
    let mut command = command(arguments);
    let begun = Instant::now();
    #[expect(clippy::zombie_processes, reason = "it is waited for below, by its pid")]
    let child = command.spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid rusage, which is plain numbers.
    #[expect(unsafe_code, reason = "std does not report what a child used")]
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    #[expect(unsafe_code, reason = "std does not report what a child used")]
    // SAFETY: both pointers are to locals that live through the call.
    let reaped = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    let time = begun.elapsed();
    assert_eq!(reaped, pid, "{}", Error::last_os_error());
    (time, usage.ru_maxrss)
}

fn hold(arguments: &[String]) -> Child {
    command(arguments).spawn().unwrap()
}

/// Waits until a process has a child.
fn wait_for_job(pid: u32) {
    while fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}

/// What the holders of a lock use while their jobs sleep.
fn print_waiting(holders: &mut [Child; 2]) {
    println!("{:<30} {:>12} {:>14} {:>8}", "while the job sleeps", "resident MB", "of it own MB", "threads");
    for (name, holder) in ["flock", "shedlock"].iter().zip(holders) {
        let status = fs::read_to_string(format!("/proc/{}/status", holder.id())).unwrap();
        let field = |key: &str| -> f64 {
            let line = status.lines().find(|line| line.starts_with(key)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        println!(
            "{name:<30} {:>12.1} {:>14.1} {:>8}",
            field("VmRSS:") / 1024.0,
            field("RssAnon:") / 1024.0,
            field("Threads:")
        );
        // Also the sleeping job, which a killed flock would leave behind.
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", holder.id())).unwrap();
        Command::new("kill").args(children.split_whitespace()).status().unwrap();
        holder.wait().unwrap();
    }
}

fn print_machine(place: &Path) {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let output = Command::new("stat").args(["-f", "-c", "%T"]).arg(place).output().unwrap();
    let file_system = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let cores = std::thread::available_parallelism().unwrap();
    println!("{model}, {cores} cores, Linux {}, files on {file_system}", kernel.trim());
}
