//! A checker that lets several hosts run jobs under one lock, breaks whatever can break, and proves from what the jobs
//! wrote that no two of them ran at once, and that the lock was taken again soon after every death.
//!
//! ```text
//! cargo test --test checker -- --minutes 10 redis
//! ```
//!
//! `CONTRIBUTING.md` says what it does and what it proves. Among all tests, where nothing is asked for by name, it checks
//! SQLite for a few seconds.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod aftermath;
mod broken;
mod fault;
mod holds;
mod host;
mod job;
mod log;
mod operator;
mod options;
mod plan;
mod proof;
#[path = "../../src/prove/random.rs"]
#[expect(dead_code, reason = "the plan of `prove` needs more of it")]
mod random;
mod record;
mod store;
mod summary;
mod variant;
mod world;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fault::Faults;
use host::{Host, Orders};
use log::{Line, Log, SECOND, now};
use operator::Operator;
use options::Options;
use record::Record;
use store::Store;

/// How long it takes among all tests.
const BRIEF: Duration = Duration::from_secs(5);
/// How often the proof is tried meanwhile.
const PROVE: Duration = Duration::from_secs(2);
/// How long runs may take to end when no more are started, and then what they left behind.
const PATIENCE: Duration = Duration::from_secs(30);
/// The program that is checked.
const PROGRAM: &str = "SHEDLOCK_CHECKER_PROGRAM";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((role, words)) if role == "job" => return ExitCode::from(job::job(words)),
        Some((role, words)) if role == "host" => {
            host::host(words);
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let options = match Options::parse(&words) {
        Ok(Some(options)) => options,
        // A name of other tests, or an option for them.
        Ok(None) if !words.is_empty() && !words.iter().any(|word| word == "checker") => return ExitCode::SUCCESS,
        Ok(None) => Options { store: "sqlite".to_owned(), length: BRIEF, hosts: 2, seed: 1, broken: None },
        Err(complaint) => {
            eprintln!("checker: {complaint}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    let program = std::env::var_os(PROGRAM).map(PathBuf::from);
    let program = match (program, &options.broken) {
        (Some(program), _) => program,
        (None, None) => PathBuf::from(env!("CARGO_BIN_EXE_shedlock")),
        (None, Some(name)) => match variant::build(name) {
            Ok(program) => program,
            Err(complaint) => {
                eprintln!("checker: {complaint}");
                return ExitCode::from(2);
            }
        },
    };
    world::enter(&[(PROGRAM, &program)]);
    check(&options, &program)
}

/// Checks for as long as is asked for, or until something is wrong.
fn check(options: &Options, program: &Path) -> ExitCode {
    let Options { store, length, hosts, seed, broken } = options;
    let without = broken.as_ref().map(|name| format!(", without {name}")).unwrap_or_default();
    println!("checker: {store}, {hosts} hosts, seed {seed}, {} s{without}", length.as_secs());
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let mut directory = tempfile::Builder::new().prefix("checker").tempdir_in(base).unwrap();
    let path = directory.path().join("log");
    let store = Store::new(store, directory.path()).unwrap();
    // A build that comes meanwhile does not change what is checked.
    let copy = |program: &Path, name: &str| {
        let copy = directory.path().join(name);
        std::fs::copy(program, &copy).unwrap();
        copy
    };
    let (me, program) = (copy(&std::env::current_exe().unwrap(), "checker"), copy(program, "shedlock"));
    let url = store.url();
    let orders = Orders { me: &me, seed: *seed, directory: directory.path(), url: &url, shedlock: &program };
    let hosts: Vec<Host> = (1..=*hosts).map(|number| Host::new(number, &orders)).collect();
    let mut faults = Faults::new(*seed, Log::open(&path), store, hosts);
    let mut operator = Operator::new(&program, &url);
    let mut reader = Reader::new(&path);
    for host in &mut faults.hosts {
        host.begin();
    }
    let (begun, start) = (Instant::now(), now());
    let mut proved = Instant::now();
    let mut found = false;
    while begun.elapsed() < *length && !found {
        std::thread::sleep(fault::LOOK);
        reader.read();
        faults.strike(&reader.record);
        operator.work();
        if proved.elapsed() > PROVE {
            proved = Instant::now();
            // To be caught is to be seen beside another job, which is more than to end with a code that is odd.
            let violations = proof::prove(&reader.record, None).violations;
            found = violations.iter().any(|violation| broken.is_none() || violation.starts_with("overlap"));
        }
    }
    let over = now();
    for host in &mut faults.hosts {
        host.finish();
    }
    faults.heal();
    operator.finish();
    let mut left = wait_for_the_end(&mut faults);
    reader.read();
    let mut verdict = proof::prove(&reader.record, Some(over));
    verdict.violations.append(&mut left);
    verdict.violations.extend(panics(&directory.path().join("stderr")));
    println!("  took    {} s; an operator forgot the lock {} times", (over - start) / SECOND, operator.forgotten);
    summary::print(&reader.record, &verdict);
    if verdict.violations.is_empty() {
        println!("checker: no two jobs overlapped, tokens only grew, nothing was stuck, nothing is left");
        return ExitCode::SUCCESS;
    }
    for violation in verdict.violations.iter().take(20) {
        println!("VIOLATION {violation}");
    }
    directory.disable_cleanup(true);
    for copy in [me, program] {
        let _ = std::fs::remove_file(copy);
    }
    println!("checker: {} violations; the log is {}", verdict.violations.len(), path.display());
    ExitCode::FAILURE
}

/// Waits until all that was started is gone, and returns what is not.
fn wait_for_the_end(faults: &mut Faults) -> Vec<String> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let ended = faults.hosts.iter_mut().all(Host::has_ended);
        if ended && faults.hosts.iter().all(|host| host.processes().is_empty()) {
            return Vec::new();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let of = |host: &Host| {
        let name = host.name.clone();
        host.processes().into_iter().map(move |(pid, words)| format!("left: process {pid} on {name}: {words}"))
    };
    faults.hosts.iter().flat_map(of).collect()
}

/// Returns the lines on stderr that no run should say of itself.
fn panics(stderr: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(stderr).unwrap_or_default();
    text.lines().filter(|line| line.contains("panicked")).map(|line| format!("panic: {line}")).collect()
}

/// Reads the log as it grows.
struct Reader {
    file: BufReader<File>,
    rest: String,
    record: Record,
}

impl Reader {
    fn new(path: &Path) -> Self {
        Self { file: BufReader::new(File::open(path).unwrap()), rest: String::new(), record: Record::default() }
    }

    fn read(&mut self) {
        while self.file.read_line(&mut self.rest).unwrap() > 0 {
            if !self.rest.ends_with('\n') {
                break;
            }
            let line = Line::parse(self.rest.trim_end()).unwrap_or_else(|| panic!("not a line: {}", self.rest));
            self.record.add(&line);
            self.rest.clear();
        }
    }
}
