//! What wakes the supervisor when a deadline comes, and tells whether it slept through one.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::system::Moment;

/// The longest wait without looking at everything anew. A wait that fails, a timer that cannot be set or a SIGCHLD that got lost
/// delays nothing for longer.
pub(crate) const GLANCE: Duration = Duration::from_secs(1);
/// A machine that is merely busy does not keep us waiting for so long.
const STALL: Duration = Duration::from_secs(1);

/// A timer on the boot clock: a deadline that passed during a suspend rings on waking, which a timeout of poll(2)
/// would not.
pub(crate) struct BootTimer {
    timer: TimerFd,
    at: Option<Moment>,
    /// The timer could not be set, and may ring although nothing is due.
    is_broken: bool,
    suspended: Duration,
}

impl BootTimer {
    /// Makes one that does not ring.
    pub(crate) fn new() -> nix::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
        Ok(Self { timer, at: None, is_broken: false, suspended: Moment::suspended() })
    }

    /// Rings at `at`, also if that has passed; never with `None`. If the timer fails, [`BootTimer::patience`] ends the wait instead.
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
    pub(crate) fn patience(&self) -> Duration {
        let left = self.at.filter(|_| self.is_broken).map_or(GLANCE, |at| at.since(Moment::now()));
        left.min(GLANCE)
    }

    /// Whether time has passed since it was asked last that we did not live through: the machine slept, or we were stopped.
    pub(crate) fn has_stalled(&mut self) -> bool {
        let suspended = Moment::suspended();
        let slept = suspended.saturating_sub(std::mem::replace(&mut self.suspended, suspended));
        let late = self.at.map_or(Duration::ZERO, |at| Moment::now().since(at));
        slept > STALL || late > STALL
    }

    /// Readable once it rings; `None` if it cannot.
    pub(crate) fn bell(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_broken).then(|| self.timer.as_fd())
    }
}
