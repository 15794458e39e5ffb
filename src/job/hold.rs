//! Holding the job: it is stopped while it is not known whether we still have the lock, and then goes on.

use std::collections::HashSet;
use std::time::Duration;

use super::tree::{Delivery, Id, Process};
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
    /// Stops the command and all that came of it, but for what is stopped already. [`Job::signal_tree`] still reaches it.
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
            let is_running = |process: &&Process| match ours.contains(&process.id) {
                true => process.is_awake(),
                false => !process.is_stopped(),
            };
            let running: Vec<Id> = found.iter().filter(is_running).map(|process| process.id).collect();
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
            // What was born while we looked is stopped at once; the rest takes a moment to stop.
            if round > 0 {
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

#[cfg(test)]
mod tests {
    use super::super::scene::{Scene, wait_until};
    use super::*;

    /// A command that never stops starting others, a daemon of it, and a process that has stopped itself.
    const BUSY: &str = "(setsid sh linger daemon &); (sh -c 'echo $$ > stopped; kill -STOP $$; exec sh linger later' &)
        echo $$ > command; while [ -d \"$HERE\" ]; do sh -c :; done";

    fn busy() -> Scene {
        let scene = Scene::new("own", BUSY);
        let _ = ["daemon", "command"].map(|file| scene.process(file));
        wait_until("it has stopped itself", || scene.process("stopped").is_stopped());
        scene
    }

    /// Whether none of the job can do anything.
    fn stands_still(scene: &Scene) -> bool {
        scene.rest().iter().all(|process| !process.is_awake())
    }

    #[test]
    fn a_job_that_is_held_stands_still_until_it_is_let_go() {
        let mut scene = busy();
        scene.say("hold");
        assert!(stands_still(&scene), "{:?}", scene.rest());
        assert_eq!(scene.say("reap"), "[]");
        assert!(scene.has_spared_the_stranger());
        scene.say("let-go");
        wait_until("it goes on", || {
            !["daemon", "command"].map(|file| scene.process(file)).iter().any(Process::is_stopped)
        });
        // This was none of our doing.
        assert!(scene.process("stopped").is_stopped());
    }

    #[test]
    fn a_job_that_is_held_twice_is_let_go_of_once() {
        let mut scene = busy();
        scene.say("hold");
        scene.say("hold");
        assert!(stands_still(&scene), "{:?}", scene.rest());
        scene.say("let-go");
        wait_until("it goes on", || {
            !["daemon", "command"].map(|file| scene.process(file)).iter().any(Process::is_stopped)
        });
    }

    #[test]
    fn a_sigcont_for_a_job_that_is_held_waits() {
        let mut scene = busy();
        scene.say("hold");
        scene.say("signal 18");
        assert!(stands_still(&scene), "{:?}", scene.rest());
        scene.say("let-go");
        // It goes to the whole group.
        scene.process("later");
    }

    #[test]
    fn a_job_that_is_held_can_be_ended() {
        let mut scene = busy();
        scene.say("hold");
        scene.say("tree 9");
        scene.see_the_end();
        wait_until("nothing is left", || scene.rest().is_empty());
        scene.say("let-go");
    }
}
