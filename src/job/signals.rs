//! Signals as the system knows them: those that shedlock was started with, receives, and sends.
//!
//! Shedlock installs no handler. Every signal is blocked and read from a descriptor, except those that were ignored when it
//! started: these stay ignored. So all that has to be undone for the job is the mask and few dispositions: that of SIGCHLD,
//! which must not be ignored if shedlock is to reap, and those that a C library takes for its threads. (Rust's runtime, which
//! ignores SIGPIPE, is not started.)

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::getpid;

use crate::run::Sender;
use crate::system::Signal;

/// A set of signals as the kernel has it: the lowest bit is signal 1. Each C library hides the signals from shedlock that it
/// keeps for itself, and musl 34 too, which glibc calls SIGRTMIN: it would end shedlock and not reach the job.
type Mask = u64;

/// The size of a set of signals for the kernel, in bytes.
const MASK_SIZE: usize = size_of::<Mask>();

/// A disposition as the kernel has it: first the handler, then flags, perhaps a restorer, and a mask.
type Action = [libc::sighandler_t; 8];

/// The signals that the threads of both C libraries need. glibc's posix_spawn(3) leaves them ignored, and its first thread
/// takes one of them.
const THREAD_SIGNALS: Mask = 0b11 << 31;

/// The signal that musl unblocks with the first thread, although only the job should receive it.
const HIDDEN_BY_MUSL: Mask = 1 << 33;

/// A size that no process has memory for.
const IMPOSSIBLE_STACK: usize = 1 << 60;

/// The signal state that shedlock was started with, and that the job is to be started with.
#[derive(Clone, Copy)]
pub(crate) struct Inherited {
    pub(super) mask: Mask,
    /// Those signals that were ignored and are not ignored by shedlock.
    pub(super) ignored: Mask,
}

impl Inherited {
    /// Makes the signals of this process those that shedlock was started with. Async-signal-safe.
    pub(super) fn restore(&self) {
        for signal in signals_of(self.ignored) {
            set_disposition(signal, libc::SIG_IGN);
        }
        let _ = set_mask(libc::SIG_SETMASK, &self.mask);
    }
}

/// The incoming signals.
pub(crate) struct Signals {
    descriptor: OwnedFd,
    watched: Mask,
}

/// A signal that came in.
pub(crate) struct Received {
    pub(crate) signal: Signal,
    pub(crate) sender: Sender,
}

impl Signals {
    /// Blocks every signal that is not ignored, for this thread and those it starts, and opens the descriptor that
    /// they are read from.
    pub(crate) fn catch() -> std::io::Result<(Self, Inherited)> {
        let changed = signals_of(THREAD_SIGNALS).chain([Signal::CHLD]);
        let ignored = changed.filter(|signal| is_ignored(*signal)).fold(0, |set, signal| set | bit(signal));
        if ignored & bit(Signal::CHLD) != 0 {
            // The kernel reaps the children of a process that ignores it, and shedlock would never learn how the job ended.
            set_disposition(Signal::CHLD, libc::SIG_DFL);
        }
        let (signals, mask) = Self::block(Signal::all())?;
        Ok((signals, Inherited { mask, ignored }))
    }

    /// Blocks the signals that ask shedlock to stop, until [`Signals::unblock`], and opens the descriptor from which they are
    /// read.
    pub(crate) fn block_stop_signals() -> std::io::Result<(Self, Inherited)> {
        let (signals, mask) = Self::block(Signal::all().filter(|signal| signal.asks_to_stop()))?;
        Ok((signals, Inherited { mask, ignored: 0 }))
    }

    /// Lets the blocked signals in again.
    pub(crate) fn unblock(self, inherited: &Inherited) {
        inherited.restore();
    }

    /// Blocks those of the signals that are not ignored; returns the mask before, too.
    fn block(signals: impl Iterator<Item = Signal>) -> std::io::Result<(Self, Mask)> {
        let watched = signals.filter(|signal| !is_ignored(*signal)).fold(0, |watched, signal| watched | bit(signal));
        let mask = set_mask(libc::SIG_BLOCK, &watched)?;
        if cfg!(target_env = "musl") && watched & HIDDEN_BY_MUSL != 0 {
            // It does so once and for all when the first thread is asked for, also if there is no memory for its stack.
            let _ = std::thread::Builder::new().stack_size(IMPOSSIBLE_STACK).spawn(|| ());
            set_mask(libc::SIG_BLOCK, &watched)?;
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        #[expect(unsafe_code, reason = "see `Mask`")]
        // SAFETY: -1 asks for a new descriptor, and the set is of the size that is named and lives through the call.
        let number = unsafe { libc::syscall(libc::SYS_signalfd4, -1, &raw const watched, MASK_SIZE, flags) };
        let number = Errno::result(i32::try_from(number).unwrap_or(-1))?;
        #[expect(unsafe_code, reason = "the call above returns a number")]
        // SAFETY: the descriptor was made just now, and nobody else has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        Ok((Self { descriptor, watched }, mask))
    }

    /// Returns the descriptor that is readable once a signal has come.
    pub(crate) fn ready_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Returns a signal, if one has come.
    pub(crate) fn next(&self) -> Option<Received> {
        let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
        let length = nix::unistd::read(&self.descriptor, &mut record).ok()?;
        if length < record.len() {
            return None;
        }
        #[expect(unsafe_code, reason = "the kernel hands out the record as bytes")]
        // SAFETY: the kernel wrote a whole record, which is plain numbers; it may lie at any address.
        let info = unsafe { ptr::read_unaligned(record.as_ptr().cast::<libc::signalfd_siginfo>()) };
        let signal = Signal::from_number(i32::try_from(info.ssi_signo).ok()?);
        let from_us = info.ssi_pid == std::process::id();
        if matches!(signal, Signal::PIPE | Signal::XFSZ) && from_us {
            // Shedlock's own write to a stderr that nobody reads, or that may not grow; the job has nothing to do with it.
            return self.next();
        }
        // In a container the sender's pid can be 0, so only the code says what sent it.
        let sender = if info.ssi_code > 0 { Sender::Terminal } else { Sender::Process };
        Some(Received { signal, sender })
    }
}

/// Lets writes to a closed pipe, or beyond the limit of a file's size, fail instead of killing shedlock. For a process that
/// will start no job; one that does has the signals blocked, to the same effect.
pub(crate) fn ignore_pipe() {
    set_disposition(Signal::PIPE, libc::SIG_IGN);
    set_disposition(Signal::XFSZ, libc::SIG_IGN);
}

/// Sends a signal to a process, or to the group `-target`. That it is gone already is seldom news.
pub(super) fn kill(target: i32, signal: Signal) -> nix::Result<()> {
    #[expect(unsafe_code, reason = "the libraries' signals have no real-time signals")]
    // SAFETY: kill(2) takes two numbers and touches no memory.
    let result = unsafe { libc::kill(target, signal.number()) };
    Errno::result(result).map(drop)
}

/// Returns whether any process is in the group, living or not yet reaped.
pub(super) fn group_exists(group: i32) -> bool {
    #[expect(unsafe_code, reason = "as above")]
    // SAFETY: kill(2) takes two numbers and touches no memory.
    let result = unsafe { libc::kill(-group, 0) };
    Errno::result(result) != Err(Errno::ESRCH)
}

/// Stops this process as `signal` does by default, and returns once it is continued.
///
/// The kernel does not let the terminal's stop signals stop a group that no shell watches. SIGSTOP, which it would,
/// becomes SIGTSTP for that reason: nobody might ever continue shedlock.
pub(crate) fn stop_ourselves(signals: &Signals, signal: Signal) {
    let signal = if signal == Signal::STOP { Signal::TSTP } else { signal };
    if signals.watched & bit(signal) != 0 {
        raise(signal);
    }
}

/// Ends this process by `signal`, without a core dump. Returns if that is impossible: as PID 1, or where the signal
/// was ignored when shedlock started.
pub(crate) fn raise_and_die(signal: Signal) {
    if getpid().as_raw() == 1 || is_ignored(signal) {
        return;
    }
    // The limit does not count where cores go to a program, such as systemd's, and the other counts there only.
    let _ = nix::sys::prctl::set_dumpable(false);
    if setrlimit(Resource::RLIMIT_CORE, 0, 0).is_ok() {
        raise(signal);
    }
}

/// Sends `signal` to this process, lets it in, and blocks it again.
fn raise(signal: Signal) {
    let _ = kill(getpid().as_raw(), signal);
    // Neither call can fail on a valid set; if one did, shedlock would merely go on.
    if let Ok(before) = set_mask(libc::SIG_UNBLOCK, &bit(signal)) {
        let _ = set_mask(libc::SIG_SETMASK, &before);
    }
}

fn is_ignored(signal: Signal) -> bool {
    let mut action = Action::default();
    let none = ptr::null::<Action>();
    #[expect(unsafe_code, reason = "see `Mask`; and no library reads a disposition without changing it")]
    // SAFETY: without a new action the call only writes the present one to the place given, which has room for it.
    let failed =
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal.number(), none, &raw mut action, MASK_SIZE) } != 0;
    !failed && action[0] == libc::SIG_IGN
}

/// Sets a disposition to SIG_DFL or SIG_IGN. Async-signal-safe.
fn set_disposition(signal: Signal, disposition: libc::sighandler_t) {
    let mut action = Action::default();
    action[0] = disposition;
    let none = ptr::null_mut::<Action>();
    #[expect(unsafe_code, reason = "see `Mask`")]
    // SAFETY: only the two constants that are no functions are ever given here, and the action lives through the call.
    unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal.number(), &raw const action, none, MASK_SIZE);
    }
}

/// Changes this thread's mask, and returns the one before. Async-signal-safe.
fn set_mask(how: i32, set: &Mask) -> std::io::Result<Mask> {
    let mut before: Mask = 0;
    #[expect(unsafe_code, reason = "see `Mask`")]
    // SAFETY: both pointers are to sets of the size that is named, which live through the call.
    let result =
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, ptr::from_ref(set), &raw mut before, MASK_SIZE) };
    Ok(Errno::result(result).map(|_| before)?)
}

/// Blocks every signal for the calling thread. Async-signal-safe.
pub(super) fn block_all() {
    let _ = set_mask(libc::SIG_SETMASK, &!THREAD_SIGNALS);
}

/// Returns the signals of a set.
fn signals_of(set: Mask) -> impl Iterator<Item = Signal> {
    (1..=Mask::BITS.cast_signed()).map(Signal::from_number).filter(move |signal| set & bit(*signal) != 0)
}

/// Returns the set of this signal alone.
fn bit(signal: Signal) -> Mask {
    1 << (signal.number() - 1)
}
