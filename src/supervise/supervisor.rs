//! The program's only wait, where all events of a run meet.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::guardian::GuardianState;
use super::notifications::Notifications;
use super::timer::{BootTimer, MAX_WAIT};
use super::worker::BackendWorker;
use crate::backend::Opened;
use crate::exit::ExitReason;
use crate::job::{self, Command, Inherited, Job, Signals};
use crate::lock::Claim;
use crate::report::{Metrics, Reporter};
use crate::run::{Event, Notify, Run};
use crate::system::{Helpers, Moment, Signal};
use crate::variables::BackendRef;

/// The pause after a wait that failed, or after two that brought nothing, because the next one may return at once, too.
const BUSY_LOOP_PAUSE: Duration = Duration::from_millis(5);

/// The most signals read before deadlines get their turn: queued real-time signals may come faster than they can be read.
pub(super) const SIGNALS_PER_TURN: usize = 64;

/// Holds everything that a run acts on.
pub(crate) struct Supervisor {
    pub(super) run: Run,
    pub(super) claim: Claim,
    pub(super) work: Work,
    pub(super) worker: BackendWorker,
    pub(super) address: String,
    pub(super) signals: Signals,
    pub(super) inherited: Inherited,
    pub(super) timer: BootTimer,
    /// The moment at which children were last checked.
    pub(super) children_checked: Moment,
    pub(super) job: Option<Job>,
    pub(super) guardian: GuardianState,
    /// The programs that the backend has started, which are none of the job's.
    pub(super) helpers: Helpers,
    pub(super) reporter: Reporter,
    /// `None` without --metrics-dir.
    pub(super) metrics: Option<Metrics>,
    /// `None` without --notify.
    pub(super) notifications: Option<Notifications>,
}

/// The work under the lock.
pub(crate) enum Work {
    Job(Rc<Command>, BackendRef),
    /// The handle of the lock is written to stdout, alone or in a JSON object.
    Handover {
        json: bool,
    },
}

impl Supervisor {
    /// Prepares a run, without a request to the backend yet. From here on signals arrive as events.
    pub(crate) fn new(
        run: Run,
        claim: Claim,
        work: Work,
        backend: Opened,
        reporter: Reporter,
        metrics: Option<Metrics>,
    ) -> anyhow::Result<Self> {
        // Catches signals first, because the worker's thread inherits the mask.
        let (signals, inherited) = Signals::catch().context("cannot receive signals")?;
        let Opened { backend, address, pace, rotation, contact, helpers, .. } = backend;
        let worker = BackendWorker::start(backend, rotation, pace, contact)
            .context("cannot start the thread that talks to the backend")?;
        let timer = BootTimer::new().context("cannot create a timer")?;
        Ok(Self {
            run,
            claim,
            work,
            worker,
            address,
            signals,
            inherited,
            timer,
            children_checked: Moment::now(),
            job: None,
            guardian: GuardianState::Unneeded,
            helpers,
            reporter,
            metrics,
            notifications: None,
        })
    }

    /// Adds the notifications, which name `conflict` as the exit code of a skip.
    pub(crate) fn notifying(mut self, notify: Option<Notify>, conflict: u8) -> Self {
        self.notifications = notify.map(|notify| Notifications::new(notify, conflict));
        self
    }

    /// Runs to the end. A failing wait never ends the run, because a job may be running under the lock.
    pub(crate) fn supervise(mut self) -> ExitReason {
        let (mut events, mut came_to_nothing) = (vec![Event::Begin], false);
        loop {
            for event in events.drain(..) {
                if let Some(reason) = self.feed(event) {
                    self.reporter.finish();
                    // The kernel frees it. Dropped here, it would wake the worker, to race with the end of the process.
                    std::mem::forget(self);
                    return reason;
                }
            }
            self.timer.set(self.run.deadline());
            self.wait();
            // Handles the end of the job before anything that would be done to it. Then signals: a stop that arrives together
            // with the grant keeps the job from starting.
            let stalled = self.timer.has_stalled();
            let signals = self.read_signals(&mut events);
            events.extend(stalled.then_some(Event::Stalled));
            events.extend(signals);
            let answers: Vec<Event> = std::iter::from_fn(|| self.worker.answer()).collect();
            // Read after the answers and fed before them, because they are judged by it.
            events.extend(self.worker.contact_change());
            events.extend(answers);
            let nothing = events.is_empty() && self.run.deadline().is_none_or(|at| at > Moment::now());
            // An eventfd that cannot be drained stays readable. Once is no sign of that: an answer may be read before the
            // eventfd.
            if nothing && came_to_nothing {
                std::thread::sleep(BUSY_LOOP_PAUSE);
            }
            came_to_nothing = nothing;
            events.push(Event::Tick);
        }
    }

    /// Feeds an event to the state machine, and performs the resulting actions.
    fn feed(&mut self, event: Event) -> Option<ExitReason> {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.run.on(event, Moment::now()) {
                match self.perform(action) {
                    Performed::Exit(reason) => return Some(reason),
                    Performed::Event(event) => events.push(event),
                    Performed::Nothing => {}
                }
            }
        }
        None
    }

    /// Waits until something has happened, or may have happened.
    pub(super) fn wait(&self) {
        let ready = [Some(self.signals.ready_fd()), Some(self.worker.ready_fd()), self.timer.ready_fd()];
        let mut ready: Vec<_> = ready.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Rounded up, so that a deadline less than a millisecond away does not cause a busy loop.
        let timeout = self.timer.timeout() + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO);
        if poll(&mut ready, timeout).is_err_and(|error| error != Errno::EINTR) {
            std::thread::sleep(BUSY_LOOP_PAUSE);
        }
    }

    /// Returns the signals that arrived; ends of children go into `events`.
    fn read_signals(&mut self, events: &mut Vec<Event>) -> Vec<Event> {
        let (mut child, mut signals) = (false, Vec::new());
        for received in std::iter::from_fn(|| self.signals.next()).take(SIGNALS_PER_TURN) {
            if received.signal == Signal::CHLD {
                child = true;
            } else {
                signals.push(Event::Signalled { signal: received.signal, sender: received.sender });
            }
        }
        // One SIGCHLD may stand for several children, may have arrived before the command was started, or may be lost.
        let now = Moment::now();
        if child || now.since(self.children_checked) >= MAX_WAIT {
            self.children_checked = now;
            events.extend(job::reap(&mut self.job, &self.helpers));
            self.check_notifier();
        }
        signals
    }
}

/// Says what came of an action at once.
pub(super) enum Performed {
    Nothing,
    Event(Event),
    Exit(ExitReason),
}
