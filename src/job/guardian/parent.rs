//! Starts the guardian, sends it what it has to know, and dismisses it: shedlock's side of it.
//!
//! It is this program under another name, in a session of its own, with nothing of shedlock's but one end of a pipe, from
//! which it reads. The pipe is closed when shedlock has died; its other side is in [`super::child`].

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, pipe2};

use super::super::process::OWN_PROGRAM;
use super::super::running::Job;
use super::super::tree::{self, Delivery, Id, Process};
use super::super::wait::reap_within;
use super::super::{children, signals};
use super::descriptors::close_others;
use super::message::Message;
use crate::system::launch::{Launched, execve, launch};
use crate::system::{Helpers, Moment, Signal};

/// The guardian's only argument, which has no word of the job's in it: a `pkill -f` that looks for those does not
/// find the guardian.
pub(crate) const GUARDIAN_NAME: &str = "shedlock-guardian";
const ARGUMENT: &std::ffi::CStr = c"shedlock-guardian";
/// The longest wait for a new guardian to execute its program. On an overloaded machine that takes longer than a tenth of
/// a second, and the job is worse off without a guardian than a third of a second late.
const EXEC_TIMEOUT: Duration = Duration::from_millis(300);
/// The longest wait for a killed guardian to end.
const KILL_TIMEOUT: Duration = Duration::from_millis(100);

/// A guardian that was started. Dropping it without dismissing it ends the job.
pub(crate) struct Guardian {
    id: Id,
    pipe: OwnedFd,
    /// The children from before the guardian was started.
    unrelated_children: Vec<i32>,
}

/// Holds all that the child uses until it is the guardian: it must not allocate.
struct Plan {
    pipe: RawFd,
    null: RawFd,
    argv: [*const libc::c_char; 2],
    envp: [*const libc::c_char; 1],
}

impl Guardian {
    /// Starts a guardian for the job of the run with this owner: before the job itself, or in the place of one that
    /// was lost. It ends the job at `at`, as with [`Guardian::kill_at`].
    pub(crate) fn start(owner: &str, job: Option<&mut Job>, at: Option<Moment>, helpers: &Helpers) -> io::Result<Self> {
        if !tree::is_visible() {
            return Err(io::Error::other("/proc is not mounted, or belongs to another pid namespace"));
        }
        let unrelated_children =
            job.as_ref().map_or_else(|| children::children_from_before(helpers), |job| job.unrelated_children.clone());
        // A guardian that is too slow to read must not hold shedlock up.
        let (theirs, ours) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        let plan = Plan {
            pipe: theirs.as_raw_fd(),
            null: null.as_raw_fd(),
            argv: [ARGUMENT.as_ptr(), ptr::null()],
            envp: [ptr::null()],
        };
        let launched = launch(become_guardian, plan, EXEC_TIMEOUT)?;
        let pid = launched.pid.as_raw();
        let id = executed(&launched);
        let guardian = Self { id: *id.as_ref().unwrap_or(&Id { pid, start: 0 }), pipe: ours, unrelated_children };
        let begun = id.and_then(|_| guardian.send_all(owner, job.as_deref(), at));
        if begun.is_err() {
            // Before its pipe closes: it would end the job, and those of shedlock's children that it does not know.
            let _ = signals::kill(pid, Signal::KILL);
        }
        let is_gone = begun.is_err() && reap_within(launched.pid, KILL_TIMEOUT);
        if let Some(job) = job.filter(|_| !is_gone) {
            // It is shedlock's child, dead or not, and none of the job's.
            job.unrelated_children.push(pid);
        }
        begun.map(|()| guardian)
    }

    /// Sends the guardian all that it has to know.
    fn send_all(&self, owner: &str, job: Option<&Job>, at: Option<Moment>) -> io::Result<()> {
        let parent = i32::try_from(std::process::id()).unwrap_or_default();
        self.send(&Message::Owner { parent, owner: owner.as_bytes().to_vec() })?;
        for child in &self.unrelated_children {
            self.send(&Message::UnrelatedChild(*child))?;
        }
        if let Some(job) = job {
            self.set_job(job);
        }
        self.kill_at(at)
    }

    /// Returns the guardian's process, which is shedlock's child but none of the job's.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.id.pid)
    }

    /// Returns shedlock's children that are not part of the job.
    pub(crate) fn unrelated_children(&self) -> Vec<i32> {
        self.unrelated_children.iter().copied().chain([self.id.pid]).collect()
    }

    /// Sends the guardian the command, which was just started.
    pub(crate) fn set_job(&self, job: &Job) {
        // Of a command that is gone, only processes are left that have the run's owner in their environment.
        let unseen = || (!job.reaped).then(|| tree::holder_of(job.pid.as_raw())).flatten();
        job.id.set(job.id.get().or_else(unseen));
        if let Some(id) = job.id.get() {
            let _ = self.send(&Message::Job { id, group: job.group });
        }
    }

    /// Sends the guardian a child that is not part of the job.
    pub(crate) fn exclude(&self, pid: Pid) {
        let _ = self.send(&Message::UnrelatedChild(pid.as_raw()));
    }

    /// Sends the guardian the end of a child that is not part of the job.
    pub(crate) fn forget(&self, pid: Pid) {
        let _ = self.send(&Message::ChildEnded(pid.as_raw()));
    }

    /// Has the guardian end the job at `at` although shedlock may live; with `None` only after shedlock's death. An error means
    /// that there is no guardian any more.
    pub(crate) fn kill_at(&self, at: Option<Moment>) -> io::Result<()> {
        let nanos = at.map(|at| u64::try_from(at.since_boot().as_nanos()).unwrap_or(u64::MAX));
        let sent = self.send(&Message::Deadline(nanos));
        if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            // The guardian was stopped for thousands of deadlines, and would go on with one that is long past.
            self.id.signal(Signal::KILL);
        }
        sent
    }

    /// Ends the guardian, without any harm to the job. It is gone when this returns.
    pub(crate) fn dismiss(self) {
        let sent = self.id.signal(Signal::KILL);
        let began = Instant::now();
        while let Ok(WaitStatus::StillAlive) = waitpid(self.pid(), Some(WaitPidFlag::WNOHANG)) {
            // It has been reaped, and the number is another's; or it hangs in the kernel, where it does no harm.
            if sent != Delivery::Sent || began.elapsed() > KILL_TIMEOUT {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn send(&self, message: &Message) -> io::Result<()> {
        // Records of this size are written whole or not at all.
        nix::unistd::write(&self.pipe, &message.encode())?;
        Ok(())
    }
}

/// Returns which process has become the guardian.
fn executed(launched: &Launched<Plan>) -> io::Result<Id> {
    if let Some(error) = launched.error() {
        return Err(io::Error::from_raw_os_error(error));
    }
    if !launched.has_left() {
        // It would guard nothing yet, and nobody would know when.
        return Err(io::Error::other("its program could not be read in time"));
    }
    let process = Process::find(launched.pid.as_raw()).ok_or_else(|| io::Error::other("it was killed"))?;
    Ok(process.id)
}

/// Runs in the child: leaves shedlock's session, directory and descriptors, and becomes the guardian. Returns only in
/// failure.
fn become_guardian(plan: &mut Plan) -> i32 {
    // A signal to shedlock's group or session, or a hang-up of the terminal, must not reach it.
    let _ = nix::unistd::setsid();
    signals::block_all();
    // A process that has stopped it must not keep it from its work.
    tree::continue_at_parents_death();
    for (from, to) in [(plan.pipe, 0), (plan.null, 1), (plan.null, 2)] {
        #[expect(unsafe_code, reason = "the libraries' form wants owners of descriptors, which the child has none of")]
        // SAFETY: the call takes two numbers, and the child's table of descriptors is its own.
        unsafe {
            libc::dup2(from, to);
        }
    }
    // Where that is impossible the guardian does it itself, one by one.
    let _ = close_others();
    #[expect(unsafe_code, reason = "the libraries' form may allocate")]
    // SAFETY: the path is a C string.
    unsafe {
        libc::chdir(c"/".as_ptr());
    }
    execve(OWN_PROGRAM.as_ptr(), &plan.argv, &plan.envp)
}
