//! Programs that shedlock starts for itself and talks to through their standard streams.
//!
//! Such a helper is shedlock's child and none of the job's: it leads a session of its own, gets no descriptor but its streams, and
//! the kernel kills it when the thread that started it ends. [`Helpers`] knows the living ones, so that whatever counts or signals
//! the job's processes leaves them out.

#![cfg_attr(not(feature = "provider"), expect(dead_code, reason = "no backend of this build starts a program"))]

use std::ffi::{CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, pipe2};

use super::Moment;
use super::environ::Environment;
use super::launch::{execve, launch};
use super::signal::Signal;

/// The longest wait for a helper to execute its program.
const EXEC_TIMEOUT: Duration = Duration::from_millis(300);
/// The time in which a helper has to end after its stdin.
const END_GRACE: Duration = Duration::from_secs(1);
/// The longest wait for a helper that was killed.
const KILL_TIMEOUT: Duration = Duration::from_millis(100);
/// The most processes that are searched below a helper.
const MAX_DESCENDANTS: usize = 1000;
/// The pause between looks at a helper that is ending.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// The ends that are remembered for those who ask later.
const REMEMBERED_ENDS: usize = 8;
/// The first and the last descriptor that a helper must not have, where the kernel cannot close all at once.
const OTHER_DESCRIPTORS: std::ops::Range<RawFd> = 3..1024;

/// Knows the helpers that live. Its copies are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Helpers(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    living: Vec<i32>,
    /// The helpers that ended last, and how.
    ended: Vec<(i32, HelperEnd)>,
    /// The number of helpers that have ended.
    ends: u64,
}

/// Says how a helper has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HelperEnd {
    Exited(i32),
    Killed(Signal),
    Unknown,
}

/// A program that shedlock has started. It is to be ended by [`Helper::finish`] or [`Helper::kill`].
pub(crate) struct Helper {
    pid: Pid,
    helpers: Helpers,
    /// `None` once it was closed.
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// Holds all that the child uses until it executes the program: it must not allocate.
struct Plan {
    /// The descriptors that become 0, 1 and 2.
    streams: [RawFd; 3],
    parent: i32,
    file: CString,
    argv: [*const libc::c_char; 2],
    envp: Vec<*const libc::c_char>,
    _environment: Environment,
}

impl Helpers {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // A thread that panicked left whole numbers behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the living helpers. Ask after a look at the processes: a helper that the look has seen is known by then.
    pub(crate) fn living(&self) -> Vec<i32> {
        self.lock().living.clone()
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.lock().living.is_empty()
    }

    pub(crate) fn contains(&self, pid: i32) -> bool {
        self.lock().living.contains(&pid)
    }

    /// Returns how many helpers have ended.
    pub(crate) fn ends(&self) -> u64 {
        self.lock().ends
    }

    /// Notes that a child was reaped. Returns whether it was a helper; what is left of that one's group is killed then.
    pub(crate) fn note_end(&self, pid: i32, end: HelperEnd) -> bool {
        self.lock().note_end(pid, end)
    }

    /// Kills all helpers with their groups and what they have started.
    pub(crate) fn kill(&self) {
        for pid in &self.lock().living {
            let started = descendants(*pid);
            kill_group(*pid);
            started.iter().for_each(Process::kill);
        }
    }

    /// Starts a program with no argument, with shedlock's environment.
    pub(crate) fn start(&self, program: &Path) -> io::Result<Helper> {
        let file = CString::new(program.as_os_str().as_bytes()).map_err(io::Error::other)?;
        let [(stdin, ours_in), (ours_out, stdout), (ours_err, stderr)] =
            [pipe2(OFlag::O_CLOEXEC)?, pipe2(OFlag::O_CLOEXEC)?, pipe2(OFlag::O_CLOEXEC)?];
        for ours in [&ours_in, &ours_out, &ours_err] {
            fcntl(ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        let environment = Environment::inherited();
        let plan = Plan {
            streams: [stdin.as_raw_fd(), stdout.as_raw_fd(), stderr.as_raw_fd()],
            parent: i32::try_from(std::process::id()).unwrap_or_default(),
            argv: [file.as_ptr(), ptr::null()],
            envp: environment.entries().iter().map(|entry| entry.as_ptr()).chain([ptr::null()]).collect(),
            file,
            _environment: environment,
        };
        // Nobody looks at the processes and then asks for the helpers while this one is in between.
        let mut known = self.lock();
        let launched = launch(become_helper, plan, Duration::ZERO)?;
        known.living.push(launched.pid.as_raw());
        drop(known);
        launched.wait(EXEC_TIMEOUT);
        let helper = Helper {
            pid: launched.pid,
            helpers: self.clone(),
            stdin: Some(ours_in),
            stdout: ours_out,
            stderr: ours_err,
        };
        match launched.error() {
            None => Ok(helper),
            Some(error) => {
                helper.kill();
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }
}

impl Known {
    fn note_end(&mut self, pid: i32, end: HelperEnd) -> bool {
        let Some(place) = self.living.iter().position(|living| *living == pid) else { return false };
        self.living.swap_remove(place);
        // While its group has members, the number is no other's; and if it has none, nobody has got it in this moment. Of an end that
        // nobody saw the moment is not known.
        if end != HelperEnd::Unknown {
            kill_group(pid);
        }
        if self.ended.len() == REMEMBERED_ENDS {
            self.ended.remove(0);
        }
        self.ended.push((pid, end));
        self.ends += 1;
        true
    }

    /// Reaps the helper if it has ended. Another thread may have reaped it and be about to note its end; `is_last`: nobody has.
    fn reap(&mut self, pid: Pid, is_last: bool) {
        if !self.living.contains(&pid.as_raw()) {
            return;
        }
        let end = match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => HelperEnd::Exited(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => HelperEnd::Killed(Signal::from_number(signal as c_int)),
            Err(Errno::ECHILD) if is_last => HelperEnd::Unknown,
            _ => return,
        };
        self.note_end(pid.as_raw(), end);
    }
}

impl Helper {
    /// Returns how the helper has ended, if it ends within this time.
    pub(crate) fn end_within(&self, timeout: Duration) -> Option<HelperEnd> {
        let until = Moment::now() + timeout;
        loop {
            let is_last = Moment::now() >= until;
            let mut known = self.helpers.lock();
            known.reap(self.pid, is_last);
            if !known.living.contains(&self.pid.as_raw()) {
                let end = known.ended.iter().rev().find(|(pid, _)| *pid == self.pid.as_raw());
                return Some(end.map_or(HelperEnd::Unknown, |(_, end)| *end));
            }
            drop(known);
            if is_last {
                return None;
            }
            std::thread::sleep(END_CHECK_INTERVAL);
        }
    }

    /// Closes the helper's stdin, and kills it if it has not ended a second later. Waits for that on a thread of its own. What it
    /// has started is killed after it: it would be shedlock's child then, which counts as the job's.
    pub(crate) fn finish(mut self) {
        let started = descendants(self.pid.as_raw());
        self.stdin = None;
        // A helper that has ended already costs no thread.
        if self.end_within(Duration::ZERO).is_some() {
            started.iter().for_each(Process::kill);
            return;
        }
        let (pid, helpers) = (self.pid, self.helpers.clone());
        let waiting = std::thread::Builder::new().name("helper".to_owned()).spawn(move || {
            if self.end_within(END_GRACE).is_none() {
                Self::kill_pid(self.pid, &self.helpers);
                self.end_within(KILL_TIMEOUT);
            }
            started.iter().for_each(Process::kill);
        });
        if waiting.is_err() {
            Self::kill_pid(pid, &helpers);
        }
    }

    /// Sends a signal to the helper and its group, if it has not ended.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let known = self.helpers.lock();
        // As long as it is known it was not reaped, so the number is no other's.
        if known.living.contains(&self.pid.as_raw()) {
            let _ = nix::sys::signal::kill(Pid::from_raw(-self.pid.as_raw()), signal);
        }
    }

    /// Kills the helper at once, with its group and what it has started.
    pub(crate) fn kill(self) {
        let started = descendants(self.pid.as_raw());
        Self::kill_pid(self.pid, &self.helpers);
        self.end_within(KILL_TIMEOUT);
        started.iter().for_each(Process::kill);
    }

    fn kill_pid(pid: Pid, helpers: &Helpers) {
        let known = helpers.lock();
        // As long as it is known it was not reaped, so the number is no other's.
        if known.living.contains(&pid.as_raw()) {
            kill_group(pid.as_raw());
        }
    }
}

/// A process that a helper has started.
struct Process {
    pid: i32,
    /// Its start in the kernel's ticks, which no later process with its number shares.
    start: String,
}

impl Process {
    /// Finds a process that lives.
    fn find(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let is_dead = matches!(fields.next()?, "Z" | "X");
        let start = fields.nth(18)?.to_owned();
        (!is_dead).then_some(Self { pid, start })
    }

    fn kill(&self) {
        if Self::find(self.pid).is_some_and(|found| found.start == self.start) {
            let _ = nix::sys::signal::kill(Pid::from_raw(self.pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// Returns what came of a process and lives, as far as the kernel lists children. Orphans are the process's own.
fn descendants(pid: i32) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        let threads = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let list = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            for child in list.split_whitespace().filter_map(|pid| pid.parse().ok()) {
                if found.len() < MAX_DESCENDANTS && found.iter().all(|known| known.pid != child) {
                    found.extend(Process::find(child));
                    parents.push(child);
                }
            }
        }
    }
    found
}

fn kill_group(pid: i32) {
    let _ = nix::sys::signal::kill(Pid::from_raw(-pid), nix::sys::signal::Signal::SIGKILL);
}

/// Runs in the child: leaves shedlock's session, and becomes the program. Returns only in failure.
fn become_helper(plan: &mut Plan) -> i32 {
    let _ = nix::unistd::setsid();
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    if nix::unistd::getppid().as_raw() != plan.parent {
        // Shedlock was killed before the kernel knew that the child was to die with it.
        return libc::ESRCH;
    }
    // The orphans of what it starts become its own children, and not shedlock's, where they would count as the job's.
    let _ = nix::sys::prctl::set_child_subreaper(true);
    for (to, from) in (0..).zip(plan.streams) {
        #[expect(unsafe_code, reason = "the libraries' form wants owners of descriptors, which the child has none of")]
        // SAFETY: the call takes two numbers, and the child's table of descriptors is its own.
        unsafe {
            libc::dup2(from, to);
        }
    }
    #[expect(unsafe_code, reason = "no library of ours has it")]
    // SAFETY: nothing of the child uses another descriptor, and its table of descriptors is its own.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, OTHER_DESCRIPTORS.start, libc::c_uint::MAX, 0) };
    if closed != 0 {
        for descriptor in OTHER_DESCRIPTORS {
            #[expect(unsafe_code, reason = "kernels before 5.9 cannot close all at once")]
            // SAFETY: as above.
            unsafe {
                libc::close(descriptor);
            }
        }
    }
    let none: u64 = 0;
    #[expect(unsafe_code, reason = "the C libraries keep some signals for themselves")]
    // SAFETY: the set is of the size that is named, and lives through the call.
    unsafe {
        let unused = ptr::null_mut::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const none, unused, size_of::<u64>());
    }
    execve(plan.file.as_ptr(), &plan.argv, &plan.envp)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Returns a program with this text, which lies in a directory that is removed with the first value.
    fn program(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        // Written by another process: one that forks meanwhile would keep the file open for writing.
        let mut writer = std::process::Command::new("sh");
        let wrote = writer.args(["-c", "printf '%s' \"$1\" >\"$0\""]).arg(&path).arg(text).status().unwrap();
        assert!(wrote.success());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (directory, path)
    }

    fn all_of(stream: &OwnedFd) -> String {
        fcntl(stream, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
        let mut text = String::new();
        fs::File::from(stream.try_clone().unwrap()).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_helper_has_its_streams_and_a_session_of_its_own_and_nothing_else() {
        let (_directory, program) = program(
            "#!/bin/sh\ncd /proc/$$/fd && echo [0-9]*\nset -- $(cat /proc/$$/stat)\n[ $1 = $5 ] && [ $1 = $6 ] && echo leads\n\
             grep SigBlk /proc/$$/status\necho no >&2\nexit 7\n",
        );
        let helpers = Helpers::default();
        // As a caller's `78>file`, which the job inherits.
        let file = fs::File::open("/dev/null").unwrap();
        #[expect(unsafe_code, reason = "the libraries' form makes a descriptor that closes on exec")]
        // SAFETY: the number is no descriptor of this process yet.
        let copied = unsafe { libc::dup2(file.as_raw_fd(), 78) };
        assert_eq!(copied, 78);
        let helper = helpers.start(&program).unwrap();
        assert_eq!(helpers.living(), [helper.pid.as_raw()]);
        let said = all_of(&helper.stdout);
        let (open, rest) = said.split_once('\n').unwrap();
        assert!(open.starts_with("0 1") && !open.contains("78"), "{open}");
        assert_eq!(rest, "leads\nSigBlk:\t0000000000000000\n");
        assert_eq!(all_of(&helper.stderr), "no\n");
        assert_eq!(helper.end_within(Duration::from_secs(60)), Some(HelperEnd::Exited(7)));
        assert_eq!((helpers.is_empty(), helpers.ends()), (true, 1));
    }

    #[test]
    fn what_cannot_be_executed_is_an_error_and_no_helper() {
        let helpers = Helpers::default();
        for (path, wanted) in [("/no/such/program", libc::ENOENT), ("/tmp", libc::EACCES)] {
            let error = helpers.start(Path::new(path)).err().unwrap();
            assert_eq!((error.raw_os_error(), helpers.is_empty()), (Some(wanted), true));
        }
    }

    #[test]
    fn a_helper_that_ignores_the_end_of_its_stdin_is_killed_with_its_group() {
        let (_directory, program) = program("#!/bin/sh\nsleep 1000 &\necho $!\nwait\n");
        let helpers = Helpers::default();
        let helper = helpers.start(&program).unwrap();
        let mut line = [0; 16];
        let read = loop {
            match nix::unistd::read(&helper.stdout, &mut line) {
                Ok(read) => break read,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let child: i32 = std::str::from_utf8(&line[..read]).unwrap().trim().parse().unwrap();
        helper.finish();
        let is_gone = |pid: i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.rsplit(") ").next().unwrap().starts_with('Z'))
        };
        while !helpers.is_empty() || !is_gone(child) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
