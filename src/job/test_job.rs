//! For the tests of this folder: a process of its own that starts a job beside a guardian, does as it is told, and can be
//! killed. It is this test program under another name, as the guardian is.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::tree::{Process, all, below};
use super::{Command, GUARDIAN_NAME, Guardian, Job, Signals, reap, run_guardian};
use crate::run::{Event, Group, Leftovers};
use crate::system::{Environment, Helpers, Moment, Signal};

const NAME: &str = "shedlock-test-job";

#[expect(unsafe_code, reason = "the test's main function is not ours, and would run the tests again")]
#[used]
// SAFETY: the C library calls the functions of this section once, before main, with arguments that this one ignores.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = become_another;

extern "C" fn become_another() {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    match words[0].as_str() {
        GUARDIAN_NAME => run_guardian(),
        NAME => play(&words[1], &words[2], &words[3]),
        _ => {}
    }
}

/// Plays the other process: starts the job and obeys.
fn play(owner: &str, group: &str, script: &str) -> ! {
    #[expect(clippy::zombie_processes, reason = "it is reaped like any child")]
    let _before = std::process::Command::new("sh").args(["linger", "before"]).stdin(Stdio::null()).spawn().unwrap();
    // As a script's `9> file`, which is the job's but not the guardian's.
    let _open = nix::unistd::dup(std::io::stdin()).unwrap();
    // Before the signals are blocked, because a guardian does that itself.
    let mut guardian = Some(Guardian::start(owner, None, None, &Helpers::default()).unwrap());
    let (_signals, inherited) = Signals::catch().unwrap();
    let group = if group == "own" { Group::Own } else { Group::Shared };
    let mut environment = Environment::inherited();
    environment.set("SHEDLOCK_LOCK_OWNERS", format!("outer:1:1 {owner}"));
    let words = ["sh", "-c", script].map(Into::into);
    let command = Command::new(&words, group, true).unwrap();
    let unrelated_children = guardian.as_ref().map(Guardian::unrelated_children);
    let job = Job::start(&Rc::new(command), environment, inherited, None, unrelated_children, Helpers::default())
        .unwrap_or_else(|_| super::exit(9));
    guardian.as_ref().unwrap().set_job(&job);
    let mut job = Some(job);
    println!("{} {}", guardian.as_ref().unwrap().pid(), job.as_ref().unwrap().pid);
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        println!("{}", obey(&line, &mut job, &mut guardian));
    }
    super::exit(0)
}

fn obey(line: &str, job: &mut Option<Job>, guardian: &mut Option<Guardian>) -> String {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let number = || Signal::from_number(rest.parse().unwrap());
    let ours = job.as_mut().unwrap();
    match word {
        "deadline" => {
            let at = rest.parse().ok().map(|millis| Moment::now() + Duration::from_millis(millis));
            return format!("{:?}", guardian.as_ref().unwrap().kill_at(at).is_ok());
        }
        "dismiss" => guardian.take().unwrap().dismiss(),
        "hold" => ours.freeze(),
        "let-go" => ours.thaw(),
        "signal" => ours.signal(number()),
        "tree" => ours.signal_tree(number()),
        "gone" => {
            // A zombie counts, and shedlock is told of each.
            if ours.reaped {
                reap(job, &Helpers::default());
            }
            let rest = if rest == "group" { Leftovers::Group } else { Leftovers::Tree };
            return job.as_ref().unwrap().leftovers_are_gone(rest).to_string();
        }
        "reap" => {
            let events = reap(job, &Helpers::default());
            return format!("{:?}", events.iter().map(name).collect::<Vec<_>>());
        }
        _ => panic!("{line}"),
    }
    "done".to_owned()
}

fn name(event: &Event) -> String {
    format!("{event:?}").split(['(', ' ']).next().unwrap().to_owned()
}

/// The test's side of the process that has the job.
pub(super) struct TestJob {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    place: tempfile::TempDir,
    pub(super) owner: String,
    pub(super) guardian: i32,
    pub(super) job: i32,
    /// A child that is none of the job's.
    pub(super) before: Option<Process>,
}

/// A script that writes its pid to a file, and lives for as long as the test.
const LINGER: &str = "echo $$ > $1.new; mv $1.new $1; while [ -d \"$HERE\" ]; do sleep 0.05; done";
/// How long to wait for what should come soon.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

impl TestJob {
    /// Starts a job in a directory of its own, where `sh linger FILE` is a process that the test can look at.
    pub(super) fn new(group: &str, script: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let place = tempfile::tempdir().unwrap();
        let owner = format!("unit:{}:{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        std::fs::write(place.path().join("linger"), LINGER).unwrap();
        let mut command = std::process::Command::new("/proc/self/exe");
        command.arg0(NAME).args([&owner, group, &format!("exec < /dev/null; {script}")]);
        command.current_dir(place.path()).env("HERE", place.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut test_job = Self { child, stdin, stdout, place, owner, guardian: 0, job: 0, before: None };
        let pids = test_job.answer();
        let (guardian, job) = pids.split_once(' ').unwrap();
        (test_job.guardian, test_job.job) = (guardian.parse().unwrap(), job.parse().unwrap());
        test_job.before = Some(test_job.process("before"));
        test_job
    }

    pub(super) fn say(&mut self, line: &str) -> String {
        writeln!(self.stdin, "{line}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(super) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(super) fn place(&self) -> &Path {
        self.place.path()
    }

    /// Returns the process whose number a script wrote to `file`.
    pub(super) fn process(&self, file: &str) -> Process {
        let mut process = None;
        wait_until(file, || {
            let pid = std::fs::read_to_string(self.place().join(file)).unwrap_or_default();
            process = pid.trim().parse().ok().and_then(Process::find);
            process.is_some()
        });
        process.unwrap()
    }

    /// Returns the processes of the job that live.
    pub(super) fn rest(&self) -> Vec<Process> {
        let before = self.before.as_ref().unwrap().id.pid;
        below(&all().unwrap(), &[self.pid()], &[self.guardian, before])
    }

    /// Returns whether the child from before lives.
    pub(super) fn has_spared_the_unrelated_child(&self) -> bool {
        lives(self.before.as_ref().unwrap())
    }

    /// Waits until the command was reaped.
    pub(super) fn see_the_end(&mut self) {
        wait_until("the command has ended", || self.say("reap").contains("JobEnded"));
    }

    /// Kills the process that has the guardian, and reaps it.
    pub(super) fn die(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for TestJob {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether a process lives, and is no other of the same number.
pub(super) fn lives(process: &Process) -> bool {
    Process::find(process.id.pid).is_some_and(|now| now.id == process.id)
}

/// Waits for an event that should come soon.
pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WAIT_TIMEOUT, "it did not come to this: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
