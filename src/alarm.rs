//! What wakes the supervisor when a deadline comes.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::clock::Moment;

/// A timer on the boot clock: a deadline that passed during a suspend rings on waking, which a timeout of poll(2)
/// would not.
pub(crate) struct Alarm {
    timer: TimerFd,
    at: Option<Moment>,
}

impl Alarm {
    /// Makes one that does not ring.
    pub(crate) fn new() -> nix::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags)?;
        Ok(Self { timer, at: None })
    }

    /// Rings at `at`, also if that has passed; never with `None`.
    pub(crate) fn set(&mut self, at: Option<Moment>) -> nix::Result<()> {
        if self.at == at && at.is_none_or(|at| at > Moment::now()) {
            return Ok(());
        }
        self.at = at;
        match at {
            None => self.timer.unset(),
            Some(at) => {
                // Zero would disarm it.
                let at = at.since_boot().max(Duration::from_nanos(1));
                self.timer.set(Expiration::OneShot(TimeSpec::from_duration(at)), TimerSetTimeFlags::TFD_TIMER_ABSTIME)
            }
        }
    }

    /// How long ago it was to ring.
    pub(crate) fn late(&self) -> Duration {
        self.at.map_or(Duration::ZERO, |at| Moment::now().since(at))
    }

    /// Readable once it rings.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
