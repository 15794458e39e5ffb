//! Launches a child that shares shedlock's memory until it executes another program, as posix_spawn(3) does it, so that it
//! starts fast however large shedlock is.
//!
//! Unlike posix_spawn(3) and vfork(2) shedlock does not stop for all of that time: execve(2) takes for ever if its file lies on
//! a server that does not answer. So the child must leave alone what shedlock uses meanwhile, errno first of all.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

/// The size of the child's stack.
pub(crate) const STACK_SIZE: usize = 64 * 1024;

/// The flags of clone(2). Where [`execve`] does not leave errno alone, they stop shedlock after all.
const FLAGS: c_int = if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
    libc::CLONE_VM | libc::SIGCHLD
} else {
    VFORK_FLAGS
};
const VFORK_FLAGS: c_int = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;

/// A child that was launched. The memory that it shares with shedlock is freed once it has left it, and otherwise never.
pub(crate) struct Launched<P> {
    pub(crate) pid: Pid,
    shared: NonNull<Shared<P>>,
}

/// The memory that the child shares with shedlock.
struct Shared<P> {
    progress: Progress,
    action: fn(&mut P) -> i32,
    plan: P,
    stack: Vec<u128>,
}

/// The progress of the child.
struct Progress {
    /// 1 until the child has left shedlock's memory; the kernel then makes it 0, and wakes the thread that waits for that.
    inside: AtomicU32,
    /// The error number that the child leaves behind when it could not execute anything.
    error: AtomicI32,
}

/// Starts a child that runs `action` on `plan`, and waits until it is another program or has ended, but not longer than
/// `timeout`. The action makes system calls only, allocates nothing, leaves errno alone, and returns an error number.
pub(crate) fn launch<P>(action: fn(&mut P) -> i32, plan: P, timeout: Duration) -> io::Result<Launched<P>> {
    // Not filled: only the pages that the child uses are ever there.
    let mut stack = Vec::new();
    stack.try_reserve_exact(STACK_SIZE / size_of::<u128>()).map_err(|_| Errno::ENOMEM)?;
    let progress = Progress { inside: AtomicU32::new(1), error: AtomicI32::new(0) };
    let shared = Shared { progress, action, plan, stack };
    let mut launched = Launched { pid: Pid::from_raw(0), shared: NonNull::from(Box::leak(Box::new(shared))) };
    let mut flags = FLAGS;
    let mut result = launched.clone(flags);
    if result == Err(Errno::EINVAL) {
        // An emulator of another processor knows no other way.
        flags = VFORK_FLAGS;
        result = launched.clone(flags);
    }
    if flags == VFORK_FLAGS || result.is_err() {
        // Nobody else is there any more, but an emulator does not say so.
        launched.progress().inside.store(0, Ordering::Release);
    }
    launched.pid = Pid::from_raw(result?);
    launched.wait(timeout);
    Ok(launched)
}

impl<P> Launched<P> {
    fn clone(&mut self, flags: c_int) -> nix::Result<i32> {
        #[expect(unsafe_code, reason = "the child does not run yet")]
        // SAFETY: the memory was allocated by `launch`, and nobody else uses it now.
        let shared = unsafe { self.shared.as_mut() };
        let top = shared.stack.spare_capacity_mut().as_mut_ptr_range().end.cast();
        #[expect(
            unsafe_code,
            reason = "the only way to have a child do something before it executes, without copying our pages"
        )]
        // SAFETY: the stack and the plan are freed only after the child has left shedlock's memory, and until then only the child
        // uses them. Both libraries give it registers of its own, and keep nothing of it.
        let pid = unsafe { libc::clone(enter::<P>, top, flags, self.shared.as_ptr().cast()) };
        Errno::result(pid)
    }

    /// Waits until the child has left shedlock's memory, but not for ever.
    pub(crate) fn wait(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        while !self.has_left() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let left = nix::sys::time::TimeSpec::from_duration(left);
            let none = ptr::null::<u32>();
            #[expect(unsafe_code, reason = "no library of ours has it")]
            // SAFETY: the word and the time live through the call, which reads them only. It returns at once if the word is 0.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    ptr::from_ref(&self.progress().inside),
                    libc::FUTEX_WAIT,
                    1,
                    left.as_ref(),
                    none,
                    0,
                );
            }
        }
    }

    /// Returns whether the child is another program by now, or has ended.
    pub(crate) fn has_left(&self) -> bool {
        self.progress().inside.load(Ordering::Acquire) == 0
    }

    /// Returns the number of the error, if the child could not become another program.
    pub(crate) fn error(&self) -> Option<i32> {
        let error = &self.progress().error;
        Some(error.load(Ordering::Acquire)).filter(|error| *error != 0)
    }

    /// Returns the plan, once the child does not use it any more.
    pub(crate) fn plan(&self) -> Option<&P> {
        #[expect(unsafe_code, reason = "see `Launched`")]
        // SAFETY: the memory is there until `self` is dropped, and the child, which had it too, is in shedlock's memory no more.
        self.has_left().then(|| unsafe { &(*self.shared.as_ptr()).plan })
    }

    fn progress(&self) -> &Progress {
        #[expect(unsafe_code, reason = "see `Launched`")]
        // SAFETY: the memory is there until `self` is dropped, and the child and the kernel change this part of it as atomics,
        // too.
        unsafe {
            &(*self.shared.as_ptr()).progress
        }
    }
}

impl<P> Drop for Launched<P> {
    fn drop(&mut self) {
        if self.has_left() {
            #[expect(unsafe_code, reason = "see `Launched`")]
            // SAFETY: `launch` allocated it as a box, and the child, which had it too, is in shedlock's memory no more.
            drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
        }
    }
}

/// Runs in the child: has the kernel report when it leaves shedlock's memory, and does its work. Returns only in failure.
extern "C" fn enter<P>(shared: *mut c_void) -> c_int {
    let shared = shared.cast::<Shared<P>>();
    #[expect(unsafe_code, reason = "see launch()")]
    // SAFETY: `launch` allocated it, and it is there for as long as the child uses it. The other side uses these atomics only.
    let progress = unsafe { &(*shared).progress };
    #[expect(unsafe_code, reason = "see launch()")]
    // SAFETY: as above.
    let action = unsafe { (*shared).action };
    #[expect(unsafe_code, reason = "musl's clone(2) does not do it")]
    // SAFETY: the word is there until the kernel has cleared it. This call cannot fail.
    unsafe {
        libc::syscall(libc::SYS_set_tid_address, ptr::from_ref(&progress.inside));
    }
    #[expect(unsafe_code, reason = "see launch()")]
    // SAFETY: as above, and only the child uses the plan while it is here.
    let plan = unsafe { &mut (*shared).plan };
    // A success does not come back.
    progress.error.store(action(plan), Ordering::Release);
    1
}

/// Executes `file`, and returns the error number if that failed. Leaves errno alone, see [`FLAGS`].
///
/// The arrays hold C strings and end with a null pointer.
pub(crate) fn execve(file: *const libc::c_char, argv: &[*const libc::c_char], envp: &[*const libc::c_char]) -> i32 {
    let (argv, envp) = (argv.as_ptr(), envp.as_ptr());
    #[cfg(target_arch = "x86_64")]
    let result = {
        let result: libc::c_long;
        #[expect(unsafe_code, reason = "the C library's would set errno, which the parent has too")]
        // SAFETY: it is a system call, by the kernel's convention; the three pointers are what execve(2) wants.
        unsafe {
            std::arch::asm!("syscall", inlateout("rax") libc::SYS_execve => result, in("rdi") file, in("rsi") argv,
                in("rdx") envp, lateout("rcx") _, lateout("r11") _, options(nostack));
        }
        -result
    };
    #[cfg(target_arch = "aarch64")]
    let result = {
        let result: libc::c_long;
        #[expect(unsafe_code, reason = "the C library's would set errno, which the parent has too")]
        // SAFETY: it is a system call, by the kernel's convention; the three pointers are what execve(2) wants.
        unsafe {
            std::arch::asm!("svc 0", in("x8") libc::SYS_execve, inlateout("x0") file => result, in("x1") argv,
                in("x2") envp, options(nostack));
        }
        -result
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let result = {
        #[expect(unsafe_code, reason = "the libraries' exec wants other types, made by allocation")]
        // SAFETY: the file is a C string, and both arrays hold C strings and end with a null pointer.
        unsafe {
            libc::execve(file, argv, envp);
        }
        Errno::last_raw()
    };
    i32::try_from(result).unwrap_or(libc::EIO)
}
