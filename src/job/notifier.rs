//! The command of `--notify`, and the process that bounds it.
//!
//! That process is this program under another name, in a session of its own. It kills the command's process group when its time
//! is up, also if shedlock is dead by then. The command's orphans become its children, not shedlock's, where they would count as
//! the job's.

use std::ffi::{CString, OsString};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{Pid, getpid};

use super::process::{self, OWN_PROGRAM};
use super::running::{Job, reap};
use super::signals::{self, Inherited, Signals};
use super::spawn::Command;
use super::wait;
use crate::exit::ExitReason;
use crate::run::{Event, Group, JobEnd, Leftovers};
use crate::system::Environment;
use crate::system::launch::{Launched, execve, launch};
use crate::system::{Helpers, Moment, Signal, error_text};

/// The first of its arguments.
pub(crate) const NOTIFIER_NAME: &str = "shedlock-notify";
/// The time that a command is left after a stop signal.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(1);
/// The variable that brings the command to its shell. Every user of the host can read command lines, and a command may have a
/// token in it.
const COMMAND_VARIABLE: &str = "SHEDLOCK_NOTIFIED_COMMAND";
/// The script that the shell runs. The command does not see the variable.
const SCRIPT: &str = "eval \"unset SHEDLOCK_NOTIFIED_COMMAND; $SHEDLOCK_NOTIFIED_COMMAND\"";
/// The longest wait for the execution of shedlock's own program.
const EXEC_TIMEOUT: Duration = Duration::from_millis(100);
/// The longest wait before everything is checked again.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// A command that was started. Dropping it leaves it alone.
pub(crate) struct Notifier(Launched<Plan>);

/// Holds all that the child uses until it executes the notifier: it must not allocate.
struct Plan {
    null: RawFd,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    /// The memory that the pointers point into.
    _words: Vec<CString>,
    _environment: Environment,
}

impl Notifier {
    /// Starts `/bin/sh -c COMMAND`, with the signals as shedlock found them, for at most `timeout`. Returns why it could not
    /// be started.
    pub(crate) fn start(
        command: &str,
        timeout: Duration,
        mut environment: Environment,
        inherited: Inherited,
    ) -> Result<Self, String> {
        let [mask, ignored] = [inherited.mask, inherited.ignored].map(|number| number.to_string());
        let millis = timeout.as_millis().to_string();
        environment.set(COMMAND_VARIABLE, command);
        let words = [NOTIFIER_NAME, &mask, &ignored, &millis].into_iter().map(CString::new);
        let words = words.collect::<Result<Vec<_>, _>>().map_err(|error| error_text(&error.into()))?;
        let pointers = |strings: &[CString]| strings.iter().map(|one| one.as_ptr()).chain([ptr::null()]).collect();
        let null = OpenOptions::new().read(true).open("/dev/null").map_err(|error| error_text(&error))?;
        let plan = Plan {
            null: null.as_raw_fd(),
            argv: pointers(&words),
            envp: pointers(environment.entries()),
            _words: words,
            _environment: environment,
        };
        let launched = launch(become_notifier, plan, EXEC_TIMEOUT).map_err(|error| error_text(&error))?;
        match launched.error() {
            None => Ok(Self(launched)),
            Some(error) => {
                wait::reap_within(launched.pid, EXEC_TIMEOUT);
                Err(error_text(&io::Error::from_raw_os_error(error)))
            }
        }
    }

    /// Returns the process that bounds the command. It is shedlock's child and none of the job's.
    pub(crate) fn pid(&self) -> Pid {
        self.0.pid
    }

    /// Returns the command's end, if it has come. Reaps the process.
    pub(crate) fn end(&self) -> Option<JobEnd> {
        wait::end_of(self.pid())
    }

    /// Has the command end within [`STOP_GRACE`].
    pub(crate) fn stop_soon(&self) {
        let _ = signals::kill(self.pid().as_raw(), Signal::TERM);
    }

    /// Ends a process that has not bounded its command: it was stopped, or hangs. The command's shell dies with it.
    pub(crate) fn kill(&self) {
        let _ = signals::kill(self.pid().as_raw(), Signal::KILL);
        wait::reap_within(self.pid(), EXEC_TIMEOUT);
    }
}

/// Runs in the child: leaves shedlock's session, in which a terminal would stop or interrupt the command. Returns only in
/// failure.
fn become_notifier(plan: &mut Plan) -> i32 {
    let _ = nix::unistd::setsid();
    signals::block_all();
    for (from, to) in [(plan.null, 0), (2, 1)] {
        #[expect(unsafe_code, reason = "the libraries' form wants owners of descriptors, which the child has none of")]
        // SAFETY: the call takes two numbers, and the child's table of descriptors is its own.
        unsafe {
            libc::dup2(from, to);
        }
    }
    execve(OWN_PROGRAM.as_ptr(), &plan.argv, &plan.envp)
}

/// Runs the command, for as long as the words after [`NOTIFIER_NAME`] say, and exits with its code; or kills it when its time
/// is up, and itself.
pub(crate) fn run_notifier(words: &[OsString]) -> ! {
    let _ = nix::sys::prctl::set_name(c"shedlock-notify");
    process::exit(run(words).unwrap_or(ExitReason::Failed).exit(0).code)
}

fn run(words: &[OsString]) -> Option<ExitReason> {
    let [mask, ignored, millis] = words else { return None };
    let number = |word: &OsString| word.to_str()?.parse::<u64>().ok();
    let inherited = Inherited { mask: number(mask)?, ignored: number(ignored)? };
    let mut until = Moment::now() + Duration::from_millis(number(millis)?);
    let (incoming, _) = Signals::catch().ok()?;
    let command = Command::new(&["/bin/sh", "-c", SCRIPT].map(OsString::from), Group::Own, true).ok()?;
    let started = Job::start(&Rc::new(command), Environment::inherited(), inherited, None, None, Helpers::default());
    let mut job = Some(started.ok()?);
    let mut end = None;
    loop {
        for event in reap(&mut job, &Helpers::default()) {
            match event {
                Event::JobEnded(JobEnd::Exited(code)) => end = Some(ExitReason::Exited(code)),
                Event::JobEnded(JobEnd::Killed(signal)) => end = Some(ExitReason::Killed(signal)),
                Event::SpawnFailed(_) => return None,
                _ => {}
            }
        }
        let job = job.as_mut()?;
        if end.is_some() && job.leftovers_are_gone(Leftovers::Group) {
            return end;
        }
        let now = Moment::now();
        if now >= until {
            job.signal_tree(Signal::KILL);
            let _ = signals::kill(getpid().as_raw(), Signal::KILL);
        }
        let timeout = until.since(now).min(MAX_WAIT) + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO);
        let _ = poll(&mut [PollFd::new(incoming.ready_fd(), PollFlags::POLLIN)], timeout);
        for received in std::iter::from_fn(|| incoming.next()) {
            if received.signal.asks_to_stop() {
                until = until.min(Moment::now() + STOP_GRACE);
            }
        }
    }
}

impl Job {
    /// Excludes a child of shedlock from the job's processes.
    pub(crate) fn exclude(&mut self, pid: Pid) {
        self.unrelated_children.push(pid.as_raw());
        self.children();
    }

    /// Returns how a child that is none of the job's has ended, if it was reaped since.
    pub(crate) fn end_of(&self, pid: Pid) -> Option<JobEnd> {
        self.ended.iter().find(|(ended, _)| *ended == pid.as_raw()).map(|(_, end)| *end)
    }
}
