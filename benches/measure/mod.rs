//! What the benchmarks have in common: processes are measured from their start to their end, as a shell would see them.

use std::fs;
use std::io::Error;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const SHEDLOCK: &str = env!("CARGO_BIN_EXE_shedlock");
/// The job of every party, by its full path: to look it up in PATH takes longer the later its directory stands there.
pub(crate) const JOB: &str = "/bin/true";

/// The words of a line, of which none has a blank.
pub(crate) fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// The path of another shedlock that is measured in the same rounds, such as the one before a change.
pub(crate) fn before() -> Option<String> {
    std::env::var("BEFORE").ok().map(|binary| copied(&binary, "before"))
}

/// Copies a binary into the working directory, and returns its path. How a file was written decides how it lies in the page
/// cache, which is up to a tenth of a run, so all that are compared are written the same way.
pub(crate) fn copied(binary: &str, name: &str) -> String {
    let path = std::env::current_dir().unwrap().join(name);
    fs::copy(binary, &path).unwrap();
    path.display().to_string()
}

/// `shedlock run` with a lock's name and a job.
pub(crate) fn run(backend: &str, name: &str, job: &[&str]) -> Vec<String> {
    run_of(SHEDLOCK, backend, name, job)
}

/// The same of this binary.
pub(crate) fn run_of(binary: &str, backend: &str, name: &str, job: &[&str]) -> Vec<String> {
    let head = [binary, "run", "--backend", backend, "--name", name, "--at-most", "1h"];
    head.iter().chain(job).map(|word| (*word).to_owned()).collect()
}

pub(crate) fn command(arguments: &[String]) -> Command {
    let mut command = Command::new(&arguments[0]);
    command.args(&arguments[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    command
}

/// Runs a command to its end; returns its time and the peak memory, in KiB, of its largest process.
pub(crate) fn measure(arguments: &[String]) -> (Duration, i64) {
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

pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}

/// Starts what holds a lock while its job, which has to be `cat`, waits for the end of its input: with us it ends too.
/// The lock is held once the job is there.
pub(crate) fn hold(arguments: &[String]) -> Child {
    let mut holder = command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    while fs::read_to_string(format!("/proc/{0}/task/{0}/children", holder.id())).unwrap_or_default().is_empty() {
        assert!(holder.try_wait().unwrap().is_none(), "{arguments:?} ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    holder
}

/// Prints what the holders of a lock use while their jobs run, and ends them.
pub(crate) fn print_waiting<'a>(holders: impl IntoIterator<Item = (&'a str, Child)>) {
    println!("{:<30} {:>12} {:>14} {:>8}", "while the job runs", "resident MB", "of it own MB", "threads");
    for (name, holder) in holders {
        print_process(name, holder.id());
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", holder.id())).unwrap();
        for child in children.split_whitespace().map(|child| child.parse().unwrap()) {
            if fs::read(format!("/proc/{child}/cmdline")).is_ok_and(|line| line.starts_with(b"shedlock-guardian")) {
                print_process("its guardian", child);
            }
        }
        end(holder);
    }
}

fn print_process(name: &str, pid: u32) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |key: &str| -> f64 {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let (resident, own) = (field("VmRSS:") / 1024.0, field("RssAnon:") / 1024.0);
    println!("{name:<30} {resident:>12.1} {own:>14.1} {:>8}", field("Threads:"));
}

/// Ends what holds a lock, in good order.
pub(crate) fn end(mut holder: Child) {
    drop(holder.stdin.take());
    holder.wait().unwrap();
}

/// Prints what runs the benchmark, and how busy it was before.
pub(crate) fn print_machine(place: &Path) {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let output = Command::new("stat").args(["-f", "-c", "%T"]).arg(place).output().unwrap();
    let file_system = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let cores = std::thread::available_parallelism().unwrap();
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    let load = load.split(' ').next().unwrap_or_default();
    println!("{model}, {cores} cores, load {load}, Linux {}, files on {file_system}", kernel.trim());
}
