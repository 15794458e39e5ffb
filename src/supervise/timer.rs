//! Wakes the supervisor at deadlines, and detects that it slept through one.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::system::Moment;

/// The longest wait before everything is checked again. A failing wait, a timer that cannot be set or a lost SIGCHLD delays
/// nothing for longer.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(1);
/// The delay that counts as a stall: a host that is merely busy does not delay shedlock for that long.
const MIN_STALL: Duration = Duration::from_secs(1);

/// A timer on the boot clock: a deadline that passed during a suspend fires on waking, which a timeout of poll(2) would not.
pub(crate) struct BootTimer {
    timer: TimerFd,
    at: Option<Moment>,
    /// The timer could not be set, and may fire although nothing is due.
    is_broken: bool,
    suspended: Duration,
}

impl BootTimer {
    /// Creates a disarmed timer.
    pub(crate) fn new() -> nix::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
        Ok(Self { timer, at: None, is_broken: false, suspended: Moment::suspended() })
    }

    /// Sets the timer to `at`, which may be in the past; disarms it with `None`. If that fails, [`BootTimer::timeout`] ends
    /// the wait instead.
    pub(crate) fn set(&mut self, at: Option<Moment>) {
        if self.at == at && !self.is_broken && at.is_none_or(|at| at > Moment::now()) {
            return;
        }
        self.at = at;
        let set = match at {
            None => self.timer.unset(),
            Some(at) => {
                // Zero would disarm it.
                let at = at.since_boot().max(Duration::from_nanos(1));
                self.timer.set(Expiration::OneShot(TimeSpec::from_duration(at)), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            }
        };
        self.is_broken = set.is_err();
    }

    /// Returns how long to wait for the timer and everything else.
    pub(crate) fn timeout(&self) -> Duration {
        let left = self.at.filter(|_| self.is_broken).map_or(MAX_WAIT, |at| at.since(Moment::now()));
        left.min(MAX_WAIT)
    }

    /// Returns whether a stall happened since the last call: the host was suspended, or shedlock was stopped.
    pub(crate) fn has_stalled(&mut self) -> bool {
        let suspended = Moment::suspended();
        let slept = suspended.saturating_sub(std::mem::replace(&mut self.suspended, suspended));
        let late = self.at.map_or(Duration::ZERO, |at| Moment::now().since(at));
        slept > MIN_STALL || late > MIN_STALL
    }

    /// Returns the descriptor, readable once the timer fires; `None` without a timer.
    pub(crate) fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_broken).then(|| self.timer.as_fd())
    }
}
