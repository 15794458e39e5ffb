//! Holding the job: it is stopped while it is not known whether we still have the lock, and then goes on.

use std::collections::HashSet;
use std::time::Duration;

use super::tree::{Delivery, Id};
use super::{Job, ROUNDS};
use crate::signal::Signal;

/// What we stopped.
pub(super) enum Held {
    /// These processes, and no other: one that stopped itself stays as it is.
    Processes(HashSet<Id>),
    /// All that [`Job::signal_command`] reaches, since /proc is not there.
    Blindly,
}

/// A stopped process has left the processor after this.
const PAUSE: Duration = Duration::from_millis(1);

impl Job {
    /// Stops the command and all that came of it, but for what is stopped already.
    pub(crate) fn hold(&mut self) {
        let mut ours = match self.held.take() {
            Some(Held::Processes(ids)) => ids,
            _ => HashSet::new(),
        };
        // A shell that continues us continues the job in the same breath, perhaps after we looked first.
        let mut quiet = 0;
        for round in 0..2 * ROUNDS {
            let Some(found) = self.descendants() else {
                if !self.reaped {
                    self.signal_command(Signal::STOP);
                    self.held = Some(Held::Blindly);
                }
                return;
            };
            let running: Vec<Id> = found.iter().filter(|process| !process.stopped).map(|process| process.id).collect();
            quiet = if running.is_empty() { quiet + 1 } else { 0 };
            if quiet == 2 {
                break;
            }
            for id in running {
                // Again to one that is ours already: it may have been continued meanwhile.
                if id.signal(Signal::STOP) == Delivery::Sent {
                    ours.insert(id);
                }
            }
            if round > 0 || quiet > 0 {
                std::thread::sleep(PAUSE);
            }
        }
        self.held = Some(Held::Processes(ours));
    }

    /// Continues what [`Job::hold`] stopped.
    pub(crate) fn let_go(&mut self) {
        match self.held.take() {
            Some(Held::Processes(ids)) => {
                for id in ids {
                    id.signal(Signal::CONT);
                }
            }
            Some(Held::Blindly) if !self.reaped => self.signal_command(Signal::CONT),
            Some(Held::Blindly) | None => {}
        }
        if self.continue_later.take() {
            self.signal(Signal::CONT);
        }
    }
}
