//! The thread that talks to the backend, so that a backend that hangs is, for everybody else, a deadline that passes.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::backend::{Backend, Trouble, TroubleKind};
use crate::clock::Moment;
use crate::lock::Claim;
use crate::run::Event;

/// A connection that nobody has used for so long is closed: a job may run for hours, and there are many hosts.
const IDLE: Duration = Duration::from_millis(500);
/// How long a pause between tries lasts before it looks whether to stop trying.
const GLANCE: Duration = Duration::from_millis(20);

/// What to ask the backend for.
#[derive(Debug)]
pub(crate) enum Request {
    Acquire(Claim),
    Renew(Claim),
    Release(Claim, Duration),
}

/// The way to the thread. Requests are answered one by one, in order.
pub(crate) struct Keeper {
    requests: Sender<(Request, Moment)>,
    answers: Receiver<Event>,
    awake: Arc<EventFd>,
    stop_trying: Arc<AtomicBool>,
}

impl Keeper {
    /// Starts the thread. It ends with the process; nothing waits for it, since it may hang.
    pub(crate) fn start(backend: Box<dyn Backend>) -> anyhow::Result<Self> {
        let awake = Arc::new(EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let stop_trying = Arc::new(AtomicBool::new(false));
        let (requests, inbox) = channel();
        let (outbox, answers) = channel();
        let mut work = Work { backend, stop_trying: Arc::clone(&stop_trying) };
        let bell = Arc::clone(&awake);
        thread::Builder::new().name("keeper".to_owned()).spawn(move || {
            while let Some((request, deadline)) = work.next(&inbox) {
                if outbox.send(work.answer(&request, deadline)).is_err() || bell.write(1).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { requests, answers, awake, stop_trying })
    }

    /// Asks; the answer comes through [`Keeper::answer`]. Passing trouble is tried again until `deadline`.
    pub(crate) fn ask(&self, request: Request, deadline: Moment) {
        // If the thread has died the answer never comes, which is what deadlines are for.
        let _ = self.requests.send((request, deadline));
    }

    /// Makes the try that is under way the last one.
    pub(crate) fn stop_trying(&self) {
        self.stop_trying.store(true, Ordering::Relaxed);
    }

    /// Returns an answer, if one has come.
    pub(crate) fn answer(&self) -> Option<Event> {
        // Silenced before the look, so that an answer that comes in between rings again.
        let _ = self.awake.read();
        self.answers.try_recv().ok()
    }

    /// Readable once an answer has come.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.awake.as_fd()
    }
}

struct Work {
    backend: Box<dyn Backend>,
    stop_trying: Arc<AtomicBool>,
}

impl Work {
    /// Waits for a request; `None` if there will be none.
    fn next(&mut self, inbox: &Receiver<(Request, Moment)>) -> Option<(Request, Moment)> {
        match inbox.recv_timeout(IDLE) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => {
                self.backend.disconnect();
                inbox.recv().ok()
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn answer(&mut self, request: &Request, deadline: Moment) -> Event {
        match request {
            Request::Acquire(claim) => {
                let (answer, sent) = self.persist(deadline, |backend| backend.acquire(claim));
                Event::Acquired { answer, sent }
            }
            Request::Renew(claim) => {
                let (answer, sent) = self.persist(deadline, |backend| backend.renew(claim));
                Event::Renewed { answer, sent }
            }
            Request::Release(claim, hold) => {
                Event::Released(self.persist(deadline, |backend| backend.release(claim, *hold)).0)
            }
        }
    }

    /// Tries until it works, until trouble is lasting, or until the deadline. Returns with the answer the moment
    /// before the try that brought it.
    fn persist<T>(
        &mut self,
        deadline: Moment,
        mut ask: impl FnMut(&mut dyn Backend) -> Result<T, Trouble>,
    ) -> (Result<T, Trouble>, Moment) {
        let pace = self.backend.pace();
        let mut pause = pace.first;
        loop {
            let sent = Moment::now();
            match ask(self.backend.as_mut()) {
                Err(trouble) if trouble.kind == TroubleKind::Passing => {
                    // Half of every pause is at random, lest those who collided collide again.
                    let wait = pause.mul_f64(0.5 + 0.5 * random());
                    if Moment::now() + wait >= deadline || !self.sleep(wait) {
                        return (Err(trouble), sent);
                    }
                    pause = (pause * 2).min(pace.longest);
                }
                answer => return (answer, sent),
            }
        }
    }

    /// Sleeps, and returns whether to go on trying.
    fn sleep(&self, wait: Duration) -> bool {
        let until = Moment::now() + wait;
        loop {
            if self.stop_trying.load(Ordering::Relaxed) {
                return false;
            }
            let left = until.since(Moment::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(GLANCE));
        }
    }
}

/// A number from 0 to 1; without randomness from the system, always 1.
fn random() -> f64 {
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}
