//! Our side of the guardian: a small process that outlives us, and ends the job when we cannot.
//!
//! It is this program under another name, in a session of its own, with nothing of ours but one end of a pipe. It reads
//! there what it has to know. That the pipe is closed tells it that we have died; its other side is in [`super::guard`].

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, pipe2};

use super::launch::{Launched, execve, launch};
use super::tree::{self, Delivery, Id, Process};
use super::wait::reap_within;
use super::{Job, signals};
use crate::run::Group;
use crate::system::Moment;
use crate::system::Signal;

/// The guardian's only argument, which has no word of the job's in it: who looks for those with `pkill -f` does not
/// find the guardian.
pub(crate) const NAME: &str = "shedlock-guardian";
const ARGUMENT: &std::ffi::CStr = c"shedlock-guardian";
pub(super) const PROGRAM: &std::ffi::CStr = c"/proc/self/exe";
/// The longest wait for a new guardian to execute its program. On an overloaded machine that takes longer than a tenth of
/// a second, and the job is worse off without a guardian than a third of a second late.
const PATIENCE: Duration = Duration::from_millis(300);
/// The longest wait for a killed guardian to end.
const FAREWELL: Duration = Duration::from_millis(100);

/// A guardian that was started. Dropping it without dismissing it ends the job.
pub(crate) struct Guardian {
    id: Id,
    pipe: OwnedFd,
    /// The children from before the guardian was started.
    unrelated_children: Vec<i32>,
}

/// A message to the guardian.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The lock's owner, and our pid. It is the first message.
    Owner { parent: i32, owner: Vec<u8> },
    /// A child of ours that is not part of the job.
    Stranger(i32),
    /// A stranger that has ended: its number may become one of the job's.
    Gone(i32),
    /// The command that was started.
    Job { id: Id, group: Group },
    /// The time at which the guardian kills the job even if we live, in nanoseconds on the boot clock.
    Deadline(Option<u64>),
}

/// Everything that the child uses until it is the guardian: it must not allocate.
struct Plan {
    pipe: RawFd,
    null: RawFd,
    argv: [*const libc::c_char; 2],
    envp: [*const libc::c_char; 1],
}

impl Guardian {
    /// Starts a guardian for the job of the run with this owner: before the job itself, or in the place of one that
    /// was lost. It ends the job at `at`, as with [`Guardian::kill_at`].
    pub(crate) fn start(owner: &str, job: Option<&mut Job>, at: Option<Moment>) -> io::Result<Self> {
        if !tree::is_visible() {
            return Err(io::Error::other("/proc is not mounted, or belongs to another pid namespace"));
        }
        let unrelated_children =
            job.as_ref().map_or_else(super::children::children_from_before, |job| job.unrelated_children.clone());
        // A guardian that is too slow to read must not hold us up.
        let (theirs, ours) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        let plan = Plan {
            pipe: theirs.as_raw_fd(),
            null: null.as_raw_fd(),
            argv: [ARGUMENT.as_ptr(), ptr::null()],
            envp: [ptr::null()],
        };
        let launched = launch(become_guardian, plan, PATIENCE)?;
        let pid = launched.pid.as_raw();
        let id = executed(&launched);
        let guardian = Self { id: *id.as_ref().unwrap_or(&Id { pid, start: 0 }), pipe: ours, unrelated_children };
        let begun = id.and_then(|_| guardian.instruct(owner, job.as_deref(), at));
        if begun.is_err() {
            // Before its pipe closes: it would end the job, and those of our children that it was not told of.
            let _ = signals::kill(pid, Signal::KILL);
        }
        let is_gone = begun.is_err() && reap_within(launched.pid, FAREWELL);
        if let Some(job) = job.filter(|_| !is_gone) {
            // It is our child, dead or not, and none of the job's.
            job.unrelated_children.push(pid);
        }
        begun.map(|()| guardian)
    }

    /// Tells it all that it has to know.
    fn instruct(&self, owner: &str, job: Option<&Job>, at: Option<Moment>) -> io::Result<()> {
        let parent = i32::try_from(std::process::id()).unwrap_or_default();
        self.tell(&Message::Owner { parent, owner: owner.as_bytes().to_vec() })?;
        for stranger in &self.unrelated_children {
            self.tell(&Message::Stranger(*stranger))?;
        }
        if let Some(job) = job {
            self.watch(job);
        }
        self.kill_at(at)
    }

    /// Its process, which is our child but none of the job's.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.id.pid)
    }

    /// Returns our children that are not part of the job.
    pub(super) fn unrelated_children(&self) -> Vec<i32> {
        self.unrelated_children.iter().copied().chain([self.id.pid]).collect()
    }

    /// Tells it of the command. That is done when the command is started.
    pub(super) fn watch(&self, job: &Job) {
        // A command that is gone has left nothing but what bears our owner's name.
        let unseen = || (!job.reaped).then(|| tree::holder_of(job.pid.as_raw())).flatten();
        job.id.set(job.id.get().or_else(unseen));
        if let Some(id) = job.id.get() {
            let _ = self.tell(&Message::Job { id, group: job.group });
        }
    }

    /// Tells it of a child that is not part of the job.
    pub(crate) fn spare(&self, pid: Pid) {
        let _ = self.tell(&Message::Stranger(pid.as_raw()));
    }

    /// Tells it that such a child has ended.
    pub(crate) fn forget(&self, pid: Pid) {
        let _ = self.tell(&Message::Gone(pid.as_raw()));
    }

    /// Has it end the job at `at` although we may live; with `None` only after our death. An error means that there is
    /// no guardian any more.
    pub(crate) fn kill_at(&self, at: Option<Moment>) -> io::Result<()> {
        let nanos = at.map(|at| u64::try_from(at.since_boot().as_nanos()).unwrap_or(u64::MAX));
        let told = self.tell(&Message::Deadline(nanos));
        if told.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            // It has been stopped for thousands of deadlines, and would go on with one that is long past.
            self.id.signal(Signal::KILL);
        }
        told
    }

    /// Ends it, without any harm to the job. It is gone when this returns.
    pub(crate) fn dismiss(self) {
        let sent = self.id.signal(Signal::KILL);
        let began = Instant::now();
        while let Ok(WaitStatus::StillAlive) = waitpid(self.pid(), Some(WaitPidFlag::WNOHANG)) {
            // It has been reaped, and the number is another's; or it hangs in the kernel, where it does no harm.
            if sent != Delivery::Sent || began.elapsed() > FAREWELL {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn tell(&self, message: &Message) -> io::Result<()> {
        // Records of this size are written whole or not at all.
        nix::unistd::write(&self.pipe, &message.encode())?;
        Ok(())
    }
}

impl Message {
    fn encode(&self) -> Vec<u8> {
        let (kind, body) = match self {
            Self::Owner { parent, owner } => (b'o', [&parent.to_le_bytes()[..], owner].concat()),
            Self::Stranger(pid) => (b's', pid.to_le_bytes().to_vec()),
            Self::Gone(pid) => (b'g', pid.to_le_bytes().to_vec()),
            Self::Job { id, group } => {
                let own = [u8::from(*group == Group::Own)];
                (b'j', [&id.pid.to_le_bytes()[..], &id.start.to_le_bytes(), &own].concat())
            }
            Self::Deadline(None) => (b'n', Vec::new()),
            Self::Deadline(Some(nanos)) => (b'd', nanos.to_le_bytes().to_vec()),
        };
        let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
        [&[kind], &length.to_le_bytes()[..], &body].concat()
    }

    /// Takes the first message out of `bytes`; `None` if there is no whole one.
    pub(super) fn take(bytes: &mut Vec<u8>) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length));
        let body = rest.get(..length)?;
        let message = Self::read(*kind, body);
        bytes.drain(..3 + length);
        message
    }

    fn read(kind: u8, body: &[u8]) -> Option<Self> {
        Some(match kind {
            b'o' => {
                let (parent, owner) = body.split_first_chunk()?;
                Self::Owner { parent: i32::from_le_bytes(*parent), owner: owner.to_vec() }
            }
            b's' => Self::Stranger(i32::from_le_bytes(body.try_into().ok()?)),
            b'g' => Self::Gone(i32::from_le_bytes(body.try_into().ok()?)),
            b'j' => {
                let (pid, rest) = body.split_first_chunk()?;
                let (start, own) = rest.split_first_chunk()?;
                let id = Id { pid: i32::from_le_bytes(*pid), start: u64::from_le_bytes(*start) };
                Self::Job { id, group: if own == [1] { Group::Own } else { Group::Shared } }
            }
            b'n' => Self::Deadline(None),
            b'd' => Self::Deadline(Some(u64::from_le_bytes(body.try_into().ok()?))),
            _ => return None,
        })
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

/// Runs in the child: leaves our session, directory and descriptors, and becomes the guardian. Returns only in
/// failure.
fn become_guardian(plan: &mut Plan) -> i32 {
    // What ends our group or our session, and a hang-up of the terminal, is not to reach it.
    let _ = nix::unistd::setsid();
    signals::block_all();
    // Whoever has stopped it is not to keep it from its work.
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
    execve(PROGRAM.as_ptr(), &plan.argv, &plan.envp)
}

/// Closes every descriptor but the first three. Async-signal-safe; kernels before 5.9 cannot.
pub(super) fn close_others() -> nix::Result<()> {
    #[expect(unsafe_code, reason = "no library of ours has it")]
    // SAFETY: nothing in the process that calls it, or in its memory, owns a descriptor that it would use again.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
    Errno::result(result).map(drop)
}
