//! What the options of a run mean to its state machine.

use std::time::Duration;

use crate::exit::ExitReason;
use crate::lock::{Closing, RunOutcome};
use crate::system::Moment;
use crate::system::Signal;

/// The time that a renewal asks for: `lease` from when it is sent, but not beyond `limit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) lease: Duration,
    pub(crate) limit: Option<Moment>,
}

impl Term {
    /// Returns for how long a renewal that is sent at `start` extends the lock.
    pub(crate) fn from(self, start: Moment) -> Duration {
        self.limit.map_or(self.lease, |limit| self.lease.min(limit.since(start)))
    }
}

/// Holds everything that decides how a run goes.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    pub(crate) at_most: Duration,
    pub(crate) at_least: Duration,
    /// The duration for which the lock is acquired and renewed; `None` acquires it for at-most.
    pub(crate) lease: Option<Duration>,
    pub(crate) every: Option<Every>,
    pub(crate) wait: WaitLimit,
    /// The random delay before the run, already drawn.
    pub(crate) splay: Duration,
    pub(crate) on_expiry: OnExpiry,
    pub(crate) on_lost: OnLost,
    pub(crate) wait_for: WaitFor,
    /// A guardian process ends the job if shedlock dies or is stopped.
    pub(crate) guarded: bool,
    /// The owners of the enclosing runs.
    pub(crate) enclosing: Vec<String>,
    pub(crate) signal: Signal,
    pub(crate) kill_after: Duration,
    pub(crate) stop_timeout: Option<Duration>,
    pub(crate) on_failure: OnFailure,
    pub(crate) success_codes: Vec<u8>,
    pub(crate) on_backend_error: OnBackendError,
    pub(crate) backend_timeout: Duration,
    pub(crate) placement: Placement,
    /// The seed of the random delays.
    pub(crate) seed: u64,
}

impl Policy {
    /// Returns for how long the lock is held unless it is renewed.
    pub(crate) fn lease(&self) -> Duration {
        self.lease.unwrap_or(self.at_most).min(self.at_most)
    }

    /// Returns for how long the lock is acquired at first: until at-least no other run gets in, whatever becomes of this
    /// one.
    pub(crate) fn first_lease(&self) -> Duration {
        self.lease().max(self.at_least)
    }

    /// Returns whether the lock is renewed while the job runs.
    pub(super) fn renews(&self) -> bool {
        self.lease.is_some() || self.on_expiry == OnExpiry::Extend
    }

    /// Returns how long one request to the backend may take. A renewal that meets silence must leave the time for
    /// another try, and it is not begun before a third of the lease is over.
    pub(crate) fn request_timeout(&self) -> Duration {
        match self.renews() {
            true => self.backend_timeout.min(self.lease() / 5),
            false => self.backend_timeout,
        }
    }

    /// Returns the term of a renewal that may not reach beyond `limit`.
    pub(super) fn term(&self, limit: Option<Moment>) -> Term {
        Term { lease: self.lease(), limit }
    }

    /// Returns when at-most is used up that counts from `start`; `None` if that has no consequence.
    pub(super) fn limit(&self, start: Moment) -> Option<Moment> {
        (self.on_expiry != OnExpiry::Extend).then(|| start + self.at_most)
    }

    /// Returns whether the user counts this end of a run as a success.
    pub(super) fn is_success(&self, reason: ExitReason) -> bool {
        matches!(reason, ExitReason::Exited(code) if self.success_codes.contains(&code))
    }

    /// Returns how the history records a run that came to `reason`.
    pub(super) fn closing(&self, reason: ExitReason) -> Closing {
        Closing::Ended { outcome: self.run_outcome(reason), exit_code: Some(reason.exit(0).code) }
    }

    /// Returns the word that the history has for `reason`.
    pub(super) fn run_outcome(&self, reason: ExitReason) -> RunOutcome {
        match reason {
            ExitReason::Lost => RunOutcome::Lost,
            ExitReason::Expired => RunOutcome::Expired,
            ExitReason::NotFound | ExitReason::CannotExecute | ExitReason::Failed => RunOutcome::Error,
            _ if self.is_success(reason) => RunOutcome::Success,
            _ => RunOutcome::Failure,
        }
    }
}

#[cfg(test)]
impl Policy {
    /// Returns the defaults, without a terminal, and an at-most of 100 s.
    pub(super) fn plain() -> Self {
        Self {
            at_most: Duration::from_secs(100),
            at_least: Duration::ZERO,
            lease: None,
            every: None,
            wait: WaitLimit::UpTo(Duration::ZERO),
            splay: Duration::ZERO,
            on_expiry: OnExpiry::Kill,
            on_lost: OnLost::Kill,
            wait_for: WaitFor::Child,
            guarded: false,
            enclosing: Vec::new(),
            signal: Signal::TERM,
            kill_after: Duration::from_secs(10),
            stop_timeout: None,
            on_failure: OnFailure::AtLeast,
            success_codes: vec![0],
            on_backend_error: OnBackendError::Fail,
            backend_timeout: Duration::from_secs(10),
            placement: Placement { group: Group::Own, terminal: false, session_leader: false },
            seed: 1,
        }
    }
}

/// Says how long to wait for a lock that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitLimit {
    UpTo(Duration),
    Forever,
}

impl WaitLimit {
    /// Returns whether the run waits at all.
    pub(crate) fn waits(self) -> bool {
        self != Self::UpTo(Duration::ZERO)
    }
}

/// Says what happens to a job that is still running when at-most is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnExpiry {
    Kill,
    Extend,
    Ignore,
}

/// Says what happens to a job whose lock is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLost {
    Kill,
    Ignore,
}

/// Names what the command may leave behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leftovers {
    /// Its process group.
    Group,
    /// Every descendant.
    Tree,
}

/// Says when the job counts as ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// Ends with the command.
    Child,
    /// Ends when nothing is left of these processes either.
    Leftovers(Leftovers),
}

/// Says how long the lock stays held when the job failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Release,
    AtLeast,
    Hold,
}

/// Says what the run does when the backend cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnBackendError {
    Fail,
    Skip,
    Run,
}

/// At most one run per this duration, give or take a tenth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Every(pub(crate) Duration);

impl Every {
    /// Returns how long the lock stays held after its acquisition, which was `waited` after the firing. A tenth of the duration
    /// is left out, so that the next firing finds the lock free although it comes early: this one came late, the clocks of two
    /// hosts differ, or the night has 23 hours.
    pub(crate) fn hold(self, waited: Duration) -> Duration {
        (self.0 - self.0 / 10).saturating_sub(waited)
    }
}

/// Says whose process group the job is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Shedlock's own group, which it shares with its caller and the caller's pipeline.
    Shared,
    Own,
}

/// The source of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The kernel, most often on behalf of the terminal.
    Terminal,
    Process,
}

/// Says where the job and shedlock stand among the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) group: Group,
    /// There is a controlling terminal.
    pub(crate) terminal: bool,
    /// Shedlock leads the session, so a hang-up comes to shedlock alone.
    pub(crate) session_leader: bool,
}

impl Placement {
    /// Returns whether a signal that came to shedlock is to be passed on to the job.
    ///
    /// The terminal sends ^C, ^\, ^Z and changes of its size to the whole foreground group. In a shared group the job
    /// has got them already, and a second one would not be the same (many programs take the second ^C as "now!"). A
    /// hang-up, and the CONT that comes with it, goes to the session's leader alone. Whatever else the kernel sends,
    /// such as the alarm that the caller set before it became shedlock, has nothing to do with the terminal.
    pub(crate) fn passes_on(self, signal: Signal, sender: Sender) -> bool {
        let wanted = signal.terminates()
            || matches!(signal, Signal::WINCH | Signal::CONT | Signal::TSTP | Signal::TTIN | Signal::TTOU);
        let to_the_group = match signal {
            Signal::INT | Signal::QUIT | Signal::TSTP | Signal::TTIN | Signal::TTOU | Signal::WINCH => true,
            Signal::HUP | Signal::CONT => !self.session_leader,
            _ => false,
        };
        let had_it = self.group == Group::Shared && sender == Sender::Terminal && to_the_group;
        wanted && !had_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_holds_the_lock_for_nine_tenths_counted_from_the_firing() {
        let hold = |every: &str, waited: &str| {
            let read = |text| crate::duration::parse(text).unwrap();
            crate::duration::format(Every(read(every)).hold(read(waited)))
        };
        for (every, waited, left) in [
            ("1h", "0", "54m"),
            ("1h", "3m", "51m"),
            ("1h", "2h", "0s"),
            ("1d", "0", "21h36m"),
            ("90s", "500ms", "80.5s"),
        ] {
            assert_eq!(hold(every, waited), crate::duration::format(crate::duration::parse(left).unwrap()), "{every}");
        }
    }

    #[test]
    fn the_next_firing_gets_in_although_it_comes_early() {
        let hour = Duration::from_secs(3600);
        let day = Every(24 * hour);
        // At 02:30 in the night in which the clocks go forward, and again the day after: 23 hours.
        assert!(day.hold(Duration::ZERO) < 23 * hour);
        // A pod of the last firing was started half an hour late, and its acquisition waited for a minute.
        let minute = hour / 60;
        assert!(30 * minute + minute + day.hold(minute) < 24 * hour);
    }

    #[test]
    fn the_terminal_reaches_a_shared_group_itself() {
        let at = |group, session_leader| Placement { group, terminal: true, session_leader };
        for signal in [Signal::INT, Signal::QUIT, Signal::TSTP, Signal::WINCH, Signal::HUP] {
            assert!(!at(Group::Shared, false).passes_on(signal, Sender::Terminal), "{signal}");
            assert!(at(Group::Shared, false).passes_on(signal, Sender::Process), "{signal}");
            assert!(at(Group::Own, false).passes_on(signal, Sender::Terminal), "{signal}");
        }
        for signal in [Signal::HUP, Signal::CONT, Signal::TERM, Signal::PIPE] {
            assert!(at(Group::Shared, true).passes_on(signal, Sender::Terminal), "{signal}");
        }
        assert!(!at(Group::Own, false).passes_on(Signal::CHLD, Sender::Process));
    }
}
