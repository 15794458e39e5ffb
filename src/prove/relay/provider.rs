//! Harm to a provider in the place of a connection. A cut kills it, at any moment until it has answered. A freeze stops
//! it with its request, which it carries out after the client has given it up: as a store does that gets a request late.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::faults::Faults;
use crate::backend::Harm;
use crate::prove::history::Fault;
use crate::system::Helper;

/// The time that each byte of a request's second half stands for, when a provider is killed while it works.
const TIME_OF_BYTE: Duration = Duration::from_micros(20);
/// The time that a provider has to carry out a late request, and the time to end then.
const LATE_ANSWER_TIME: Duration = Duration::from_secs(1);
const END_TIME: Duration = Duration::from_secs(1);

impl Faults {
    /// Returns what the armed fault does to a provider that is sent a request of so many bytes.
    pub(super) fn on_request(&mut self, bytes: usize, changes: bool) -> Harm {
        match &mut self.armed {
            Some(Fault::CutRequest { after }) if *after > bytes => {
                *after -= bytes;
                Harm::None
            }
            Some(Fault::CutRequest { after }) => {
                let after = *after;
                self.strike();
                // Half of a line does nothing; so the other half of the cuts fall behind it.
                match after.checked_sub(bytes / 2) {
                    None => Harm::Kill { after, later: Duration::ZERO },
                    Some(rest) => {
                        let later = TIME_OF_BYTE * u32::try_from(rest).unwrap_or(u32::MAX);
                        Harm::Kill { after: bytes, later: later.min(LATE_ANSWER_TIME) }
                    }
                }
            }
            Some(Fault::Delay { by }) => {
                let time = *by;
                self.strike();
                Harm::Stop { time }
            }
            // What only reads or creates an empty record does no harm when it is late.
            Some(Fault::Freeze { .. }) if changes => {
                self.strike();
                Harm::Freeze
            }
            _ => Harm::None,
        }
    }

    /// Returns whether the armed fault kills a provider with so many bytes of its answer.
    pub(super) fn kills_on_answer(&mut self, bytes: usize) -> bool {
        let Some(Fault::CutAnswer { after }) = &mut self.armed else { return false };
        *after = after.saturating_sub(bytes);
        let kills = *after == 0;
        if kills {
            self.strike();
        }
        kills
    }
}

/// Lets a stopped provider carry out what it was sent, and waits until it has ended.
pub(super) fn thaw(mut helper: Helper) {
    helper.signal(Signal::SIGCONT);
    // Some programs drop a request when their stdin ends.
    let limit = PollTimeout::try_from(LATE_ANSWER_TIME).unwrap_or(PollTimeout::MAX);
    let _ = poll(&mut [PollFd::new(helper.stdout.as_fd(), PollFlags::POLLIN)], limit);
    helper.stdin = None;
    helper.end_within(END_TIME);
    helper.kill();
}
