//! The thread that talks to the backend, so that a hanging backend is only a missed deadline for all others.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::backend::{Backend, Contact, Pace, Retry, Rotation};
use crate::lock::{Acquired, BackendError, ErrorClass, Remark, Reply};
use crate::lock::{Claim, Closing, Locks};
use crate::run::{Event, Ownership, Term, WhenFull};
use crate::system::Moment;

/// The idle time after which a connection is closed: a job may run for hours, and there may be many hosts.
const IDLE_TIMEOUT: Duration = Duration::from_millis(200);
/// The thread's name.
pub(crate) const THREAD: &str = "worker";
/// The interval at which a pause between tries checks whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The tries to write to the eventfd before it counts as broken.
const WAKE_RETRIES: usize = 10;
/// The part of a renewal's time after which a transient error is reported, so that the user sees it before the lock is lost.
/// The renewal is then requested again.
const RENEW_REPORT_SHARE: f64 = 0.75;

/// A request to the backend.
#[derive(Debug)]
pub(crate) enum Request {
    Acquire(Claim, WhenFull),
    Renew(Claim, Term),
    /// Finds out which owner holds the lock, and until when.
    Query(Claim),
    Release(Claim, Duration, Closing),
}

/// A queued request. Requests are numbered from 1.
struct QueuedRequest {
    number: u64,
    request: Request,
    deadline: Moment,
}

/// The handle to the thread, which answers requests one by one, in order.
pub(crate) struct BackendWorker {
    requests: Sender<QueuedRequest>,
    answers: Receiver<Event>,
    awake: Arc<EventFd>,
    last: Cell<u64>,
    /// Requests up to this number are not retried.
    given_up: Arc<AtomicU64>,
    contact: Contact,
    /// The contact that [`BackendWorker::contact_change`] saw last.
    was_reached: Cell<bool>,
}

impl BackendWorker {
    /// Starts the thread. It ends with the process; nothing waits for it, because it may hang.
    pub(crate) fn start(
        backend: Box<dyn Backend>,
        rotation: Option<Rotation>,
        pace: Pace,
        contact: Contact,
    ) -> anyhow::Result<Self> {
        let workers_contact = contact.clone();
        let awake = Arc::new(EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let given_up = Arc::new(AtomicU64::new(0));
        let (requests, inbox) = channel();
        let (outbox, answers) = channel();
        let mut thread =
            WorkerThread { backend, rotation, pace, outbox: outbox.clone(), given_up: Arc::clone(&given_up) };
        let wake = Arc::clone(&awake);
        thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            let (mut reported, mut cut, mut unclear) = (false, None, false);
            while let Some(queued) = thread.next(&inbox) {
                if let Request::Renew(..) = queued.request {
                    // Sent without a wake-up: it only matters if no answer comes in time.
                    let _ = outbox.send(Event::Renewing(Moment::now()));
                }
                let (answer, remark) = thread.answer(&queued);
                let held = matches!(answer, Event::Acquired { answer: Ok(Acquired::Held(_)), .. });
                unclear |= matches!(answer, Event::Acquired { ambiguous: true, .. });
                let grant = match &answer {
                    Event::Acquired { answer: Ok(Acquired::Granted(grant)), .. } => Some(grant),
                    _ => None,
                };
                // A run without a record has nothing to close.
                if let Some(error) = remark.unrecorded.filter(|_| !held && !reported) {
                    reported = true;
                    let _ = outbox.send(match grant {
                        Some(grant) => Event::RunNotRecorded(error, grant.token),
                        None => Event::RecordNotClosed(error),
                    });
                }
                if let Some(until) = remark.cut.filter(|until| cut.replace(*until) != Some(*until)) {
                    let _ = outbox.send(Event::EndShortened(until));
                }
                if outbox.send(answer).is_err() {
                    return;
                }
                // If the eventfd cannot be written, the main thread finds the answer at its next check.
                let _ = (0..WAKE_RETRIES).any(|_| wake.write(1).is_ok());
                // A waiter keeps no connection: the connections of many waiters would fill the server, and leave no room for
                // the holder's release. Reconnecting costs the server more than that only in the first two or three pauses,
                // which are short.
                if held {
                    thread.backend.disconnect();
                    if !unclear {
                        workers_contact.left();
                    }
                }
            }
        })?;
        Ok(Self { requests, answers, awake, last: Cell::new(0), given_up, contact, was_reached: Cell::new(false) })
    }

    /// Sends a request; the answer arrives through [`BackendWorker::answer`]. Transient errors are retried until `deadline`.
    pub(crate) fn send(&self, request: Request, deadline: Moment) {
        let number = self.last.get() + 1;
        self.last.set(number);
        // If the thread has died, the answer never comes, and the deadline passes.
        let _ = self.requests.send(QueuedRequest { number, request, deadline });
    }

    /// Stops the retries of all requests so far; the try in flight is the last.
    pub(crate) fn stop_trying(&self) {
        self.given_up.store(self.last.get(), Ordering::Relaxed);
    }

    /// Returns an answer, if one has arrived. The eventfd becomes readable again only for later answers.
    pub(crate) fn answer(&self) -> Option<Event> {
        // Drained before the check, so that an answer that arrives in between makes it readable again.
        let _ = self.awake.read();
        self.answers.try_recv().ok()
    }

    /// Returns whether the backend was reached, or left, since the last call. It can be reached while no answer comes.
    pub(crate) fn contact_change(&self) -> Option<Event> {
        let is_reached = self.contact.is_reached();
        match (self.was_reached.replace(is_reached), is_reached) {
            (false, true) => Some(Event::BackendReached),
            (true, false) => Some(Event::BackendLeft),
            _ => None,
        }
    }

    /// Returns the descriptor, readable once an answer has arrived.
    pub(crate) fn ready_fd(&self) -> BorrowedFd<'_> {
        self.awake.as_fd()
    }
}

/// The result of the tries.
struct Tried<T> {
    answer: Result<T, BackendError>,
    /// The moment before the try that brought the answer.
    sent: Moment,
    /// The answer to one of the tries was lost, so the backend may still carry it out.
    ambiguous: bool,
}

struct WorkerThread {
    backend: Box<dyn Backend>,
    rotation: Option<Rotation>,
    pace: Pace,
    outbox: Sender<Event>,
    given_up: Arc<AtomicU64>,
}

impl WorkerThread {
    /// Waits for a request; `None` if there will be no more.
    fn next(&mut self, inbox: &Receiver<QueuedRequest>) -> Option<QueuedRequest> {
        match inbox.recv_timeout(IDLE_TIMEOUT) {
            Ok(queued) => Some(queued),
            Err(RecvTimeoutError::Timeout) => {
                self.backend.disconnect();
                inbox.recv().ok()
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn answer(&mut self, queued: &QueuedRequest) -> (Event, Remark) {
        match &queued.request {
            Request::Acquire(claim, when_full) => {
                let retry = Retry::new(self.pace, queued.deadline);
                let Tried { answer, sent, ambiguous } =
                    self.retry(queued.number, retry, *when_full, |backend| backend.acquire(claim));
                let (answer, remark) = part(answer);
                (Event::Acquired { answer, sent, ambiguous }, remark)
            }
            Request::Renew(claim, term) => {
                let now = Moment::now();
                let retry = Retry::new(self.pace, now + queued.deadline.since(now).mul_f64(RENEW_REPORT_SHARE));
                let Tried { answer, sent, .. } = self.retry(queued.number, retry, WhenFull::Retry, |backend| {
                    backend.renew(&Claim { lease: term.from(Moment::now()), ..claim.clone() })
                });
                let (answer, remark) = part(answer);
                (Event::Renewed { answer, sent }, remark)
            }
            Request::Query(claim) => {
                let retry = Retry::new(self.pace, queued.deadline);
                let Tried { answer, sent, .. } = self.retry(queued.number, retry, WhenFull::Retry, |backend| {
                    backend.locks(&[claim.name.as_str()]).map(|found| ownership(claim, &found))
                });
                (Event::Queried { answer, sent }, Remark::default())
            }
            Request::Release(claim, hold, closing) => {
                let retry = Retry::new(self.pace, queued.deadline).retrying_permanent();
                let tried = self
                    .retry(queued.number, retry, WhenFull::Retry, |backend| backend.release(claim, *hold, *closing));
                let (answer, remark) = part(tried.answer);
                (Event::Released(answer), remark)
            }
        }
    }

    /// Tries until success, or for as long as `retry` allows. The error is ambiguous, or lingers, if that of any try did.
    fn retry<T>(
        &mut self,
        number: u64,
        mut retry: Retry,
        when_full: WhenFull,
        mut request: impl FnMut(&mut dyn Backend) -> Result<T, BackendError>,
    ) -> Tried<T> {
        let (mut ambiguous, mut lingers) = (false, false);
        loop {
            let sent = Moment::now();
            let error = match request(self.backend.as_mut()) {
                Ok(answer) => return Tried { answer: Ok(answer), sent, ambiguous },
                Err(error) => error,
            };
            ambiguous |= error.ambiguous;
            lingers |= error.lingers;
            if let Some(rotation) = &mut self.rotation
                && rotation.log_in_again(self.backend.as_mut(), &error)
            {
                continue;
            }
            let is_answer = error.class == ErrorClass::Overloaded && when_full == WhenFull::Answer;
            retry.note_requested_pause(error.respite);
            match retry.pause(error.class, sent, Moment::now()).filter(|_| !is_answer) {
                Some(pause) if self.sleep(pause, number) => {
                    // Sent without a wake-up: it only matters if no answer comes in time.
                    let _ = self.outbox.send(Event::Tried(error));
                }
                _ => return Tried { answer: Err(BackendError { ambiguous, lingers, ..error }), sent, ambiguous },
            }
        }
    }

    /// Sleeps, and returns whether to retry the request with this number.
    fn sleep(&self, wait: Duration, number: u64) -> bool {
        let until = Moment::now() + wait;
        loop {
            if number <= self.given_up.load(Ordering::Relaxed) {
                return false;
            }
            let left = until.since(Moment::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(STOP_CHECK_INTERVAL));
        }
    }
}

/// Separates an answer from its remark.
fn part<T>(reply: Result<Reply<T>, BackendError>) -> (Result<T, BackendError>, Remark) {
    match reply {
        Ok(Reply { answer, remark }) => (Ok(answer), remark),
        Err(error) => (Err(error), Remark::default()),
    }
}

/// Returns whether the claim owns its lock, which is the only one that `found` may list.
fn ownership(claim: &Claim, found: &Locks) -> Ownership {
    match found.locks.first() {
        Some(lock) if lock.is_held() && lock.state.owner == claim.owner.as_str() => {
            Ownership::Held { until: lock.state.until, left: lock.state.left }
        }
        _ => Ownership::Gone,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;
    use crate::backend::{Credentials, OVERLOAD_PAUSE_FACTOR};
    use crate::lock::StillHeld;
    use crate::lock::{Grant, Lock, LockName, LockState, Owner, Purpose};
    use crate::system::Timestamp;

    const HOUR: Duration = Duration::from_secs(3600);
    const TERM: Term = Term { lease: HOUR, limit: None };
    const QUICK: Pace = Pace { first: Duration::from_millis(1), longest: Duration::from_millis(4) };
    const GRANT: Grant = Grant { locked_at: Timestamp(1), until: Timestamp(2), token: None };

    #[derive(Debug, PartialEq, Eq)]
    enum Call {
        Acquire(Moment),
        Renew,
        Release(Duration),
        Locks,
        Disconnect,
    }

    /// A backend that reports every call, and fails as planned.
    struct Fake {
        calls: Sender<Call>,
        /// The errors of the next calls; later calls succeed.
        errors: VecDeque<BackendError>,
        /// The duration of a call that fails.
        slow: Duration,
        /// Another holds the lock.
        held: bool,
        /// The passwords that the backend is told to use.
        passwords: Sender<String>,
    }

    impl Fake {
        fn answer<T>(&mut self, call: Call, good: T) -> Result<T, BackendError> {
            self.calls.send(call).unwrap();
            let Some(error) = self.errors.pop_front() else { return Ok(good) };
            thread::sleep(self.slow);
            Err(error)
        }
    }

    impl Backend for Fake {
        fn acquire(&mut self, _: &Claim) -> Result<Reply<Acquired>, BackendError> {
            let other = LockState { owner: "other".to_owned(), since: None, until: None, left: HOUR };
            let answer = if self.held { Acquired::Held(other) } else { Acquired::Granted(GRANT) };
            self.answer(Call::Acquire(Moment::now()), answer.into())
        }

        fn renew(&mut self, _: &Claim) -> Result<Reply<StillHeld>, BackendError> {
            self.answer(Call::Renew, StillHeld::Held.into())
        }

        fn release(&mut self, _: &Claim, hold: Duration, _: Closing) -> Result<Reply<StillHeld>, BackendError> {
            self.answer(Call::Release(hold), StillHeld::Held.into())
        }

        fn locks(&mut self, _: &[&str]) -> Result<Locks, BackendError> {
            self.answer(Call::Locks, Locks { now: Timestamp(1), locks: Vec::new() })
        }

        fn disconnect(&mut self) {
            self.calls.send(Call::Disconnect).unwrap();
        }

        fn log_in_with(&mut self, login: &Credentials) -> bool {
            let _ = self.passwords.send(login.password.clone());
            true
        }
    }

    fn worker(errors: impl IntoIterator<Item = BackendError>, pace: Pace) -> (BackendWorker, Receiver<Call>) {
        worker_of(errors, pace, |_| {})
    }

    fn worker_of(
        errors: impl IntoIterator<Item = BackendError>,
        pace: Pace,
        change: impl FnOnce(&mut Fake),
    ) -> (BackendWorker, Receiver<Call>) {
        let (calls, called) = channel();
        let errors = errors.into_iter().collect();
        let mut fake = Fake { calls, errors, slow: Duration::ZERO, held: false, passwords: channel().0 };
        change(&mut fake);
        (BackendWorker::start(Box::new(fake), None, pace, Contact::default()).unwrap(), called)
    }

    fn full() -> BackendError {
        BackendError::new(ErrorClass::Overloaded, "too many clients")
    }

    fn acquire() -> Request {
        Request::Acquire(claim(), WhenFull::Retry)
    }

    fn moments(called: &Receiver<Call>) -> Vec<Moment> {
        let moment = |call| match call {
            Call::Acquire(at) => Some(at),
            _ => None,
        };
        called.try_iter().filter_map(moment).collect()
    }

    fn transient(times: usize) -> Vec<BackendError> {
        vec![BackendError::transient("busy"); times]
    }

    fn claim() -> Claim {
        Claim {
            name: LockName::new("a").unwrap(),
            owner: Owner::new("host", 1, 2),
            lease: HOUR,
            keep: 100,
            purpose: Purpose::Run,
        }
    }

    /// Returns the next answer, waiting for the eventfd.
    fn answer(worker: &BackendWorker) -> Event {
        loop {
            match worker.answer() {
                Some(Event::Renewing(_) | Event::Tried(_)) => continue,
                Some(event) => return event,
                None => {}
            }
            let mut ready = [PollFd::new(worker.ready_fd(), PollFlags::POLLIN)];
            assert_eq!(poll(&mut ready, PollTimeout::from(20_000_u16)), Ok(1), "no answer came");
        }
    }

    fn next(called: &Receiver<Call>) -> Call {
        called.recv_timeout(Duration::from_secs(20)).expect("the backend is called")
    }

    fn acquired(event: Event) -> (Result<Acquired, BackendError>, Moment) {
        match event {
            Event::Acquired { answer, sent, .. } => (answer, sent),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn passing_trouble_is_tried_again_and_sent_is_from_before_the_try_that_was_answered() {
        let (worker, called) = worker(transient(2), QUICK);
        worker.send(acquire(), Moment::now() + HOUR);
        let (answer, sent) = acquired(answer(&worker));
        assert_eq!(answer, Ok(Acquired::Granted(GRANT)));
        let tries: Vec<_> = called.try_iter().collect();
        let [_, Call::Acquire(second), Call::Acquire(third)] = tries[..] else { panic!("{tries:?}") };
        assert!(second < sent && sent <= third, "{second:?} {sent:?} {third:?}");
    }

    #[test]
    fn passing_trouble_is_tried_until_the_deadline() {
        let (worker, called) = worker(transient(100_000), QUICK);
        worker.send(acquire(), Moment::now() + Duration::from_millis(500));
        assert_eq!(acquired(answer(&worker)).0, Err(BackendError::transient("busy")));
        assert!(called.try_iter().count() > 1);
    }

    #[test]
    fn the_last_try_is_made_at_the_deadline_however_long_the_pauses_have_become() {
        let (worker, called) = worker(transient(100_000), Pace { first: HOUR, longest: HOUR });
        let deadline = Moment::now() + Duration::from_millis(500);
        worker.send(acquire(), deadline);
        assert_eq!(acquired(answer(&worker)).0, Err(BackendError::transient("busy")));
        let tries = moments(&called);
        assert!(tries.len() > 1 && deadline.since(tries[tries.len() - 1]) < Duration::from_millis(100), "{tries:?}");
    }

    #[test]
    fn a_last_try_that_is_as_slow_as_the_one_before_is_answered_by_the_deadline() {
        let slow = Duration::from_millis(400);
        let (worker, called) = worker_of(transient(100), Pace { first: HOUR, longest: HOUR }, |fake| fake.slow = slow);
        let deadline = Moment::now() + Duration::from_secs(3);
        worker.send(acquire(), deadline);
        assert_eq!(acquired(answer(&worker)).0, Err(BackendError::transient("busy")));
        let last = *moments(&called).last().unwrap();
        assert!(deadline.since(last) > slow / 4, "{last:?} {deadline:?}");
    }

    #[test]
    fn a_try_without_an_answer_makes_trouble_unclear_whatever_the_others_met() {
        let lost = BackendError::transient("connection reset").ambiguous();
        let (worker, _called) = worker([lost.clone(), BackendError::permanent("refused")], QUICK);
        worker.send(acquire(), Moment::now() + HOUR);
        assert_eq!(acquired(answer(&worker)).0, Err(BackendError::permanent("refused").ambiguous()));
        worker.send(acquire(), Moment::now() + HOUR);
        assert_eq!(acquired(answer(&worker)).0, Ok(Acquired::Granted(GRANT)));

        let (worker, _called) = worker_of([lost], QUICK, |fake| fake.held = true);
        worker.send(acquire(), Moment::now() + HOUR);
        assert!(matches!(acquired(answer(&worker)).0, Ok(Acquired::Held(_))));
    }

    #[test]
    fn of_each_request_the_trouble_is_its_own() {
        let (worker, _called) =
            worker([BackendError::permanent("reset").ambiguous(), BackendError::permanent("refused")], QUICK);
        for error in [BackendError::permanent("reset").ambiguous(), BackendError::permanent("refused")] {
            worker.send(acquire(), Moment::now() + HOUR);
            assert_eq!(acquired(answer(&worker)).0, Err(error));
        }
    }

    #[test]
    fn to_a_waiter_full_is_the_answer_and_to_others_passing_trouble() {
        let (worker, _called) = worker([full(), full(), full()], QUICK);
        worker.send(Request::Acquire(claim(), WhenFull::Answer), Moment::now() + HOUR);
        assert_eq!(acquired(answer(&worker)).0, Err(full()));
        worker.send(acquire(), Moment::now() + HOUR);
        assert_eq!(acquired(answer(&worker)).0, Ok(Acquired::Granted(GRANT)));
    }

    #[test]
    fn a_server_that_is_slow_to_say_that_it_is_full_is_given_respite() {
        let slow = Duration::from_millis(50);
        for (error, least) in
            [(full(), slow * (1 + OVERLOAD_PAUSE_FACTOR / 2)), (BackendError::transient("busy"), slow)]
        {
            let (worker, called) = worker_of([error], QUICK, |fake| fake.slow = slow);
            worker.send(acquire(), Moment::now() + HOUR);
            answer(&worker);
            let tries = moments(&called);
            assert!(tries[1].since(tries[0]) >= least, "{tries:?}");
        }
    }

    #[test]
    fn who_does_not_get_the_lock_keeps_no_connection() {
        let (worker, called) = worker_of([], QUICK, |fake| fake.held = true);
        for _ in 0..2 {
            worker.send(acquire(), Moment::now() + HOUR);
        }
        for _ in 0..2 {
            assert!(matches!(next(&called), Call::Acquire(_)));
            assert_eq!(next(&called), Call::Disconnect);
        }
    }

    #[test]
    fn a_release_soon_after_the_acquisition_uses_its_connection() {
        let (worker, called) = worker([], QUICK);
        worker.send(acquire(), Moment::now() + HOUR);
        worker.send(Request::Release(claim(), HOUR, Closing::Unused), Moment::now() + HOUR);
        assert!(matches!(next(&called), Call::Acquire(_)));
        assert_eq!(next(&called), Call::Release(HOUR));
    }

    #[test]
    fn one_try_is_made_even_if_its_time_is_over() {
        let (worker, _called) = worker([], QUICK);
        worker.send(acquire(), Moment::now());
        assert_eq!(acquired(answer(&worker)).0, Ok(Acquired::Granted(GRANT)));
    }

    #[test]
    fn lasting_trouble_is_an_error_at_once() {
        let (worker, called) = worker([BackendError::permanent("wrong password")], QUICK);
        worker.send(acquire(), Moment::now() + HOUR);
        assert_eq!(acquired(answer(&worker)).0, Err(BackendError::permanent("wrong password")));
        assert_eq!(called.try_iter().count(), 1);
    }

    #[test]
    fn a_release_is_tried_until_its_deadline_whatever_the_error() {
        let release = || Request::Release(claim(), HOUR, Closing::Unused);
        let refused = |times| vec![BackendError::permanent("wrong password"); times];
        let (worker, called) = worker(refused(3), QUICK);
        worker.send(release(), Moment::now() + HOUR);
        assert!(matches!(answer(&worker), Event::Released(Ok(StillHeld::Held))));
        assert_eq!(called.try_iter().filter(|call| matches!(call, Call::Release(_))).count(), 4);

        let (worker, _called) = self::worker(refused(100_000), QUICK);
        worker.send(release(), Moment::now() + Duration::from_millis(300));
        assert!(matches!(answer(&worker), Event::Released(Err(error)) if error == refused(1)[0]));

        // A stop signal ends the tries.
        let (worker, called) = self::worker(refused(2), Pace { first: HOUR, longest: HOUR });
        worker.send(release(), Moment::now() + HOUR * 10);
        next(&called);
        worker.stop_trying();
        assert!(matches!(answer(&worker), Event::Released(Err(_))));
    }

    #[test]
    fn after_a_refused_login_the_file_is_read_again_and_another_login_used() {
        let refused = || BackendError::permanent("wrong password").refusing_login();
        // A password that is refused as well, nothing new, and at last one that is accepted.
        const FILES: &[&str] = &["redis://:second@db", "redis://:second@db", "redis://:third@db"];
        let worker = |files: &'static [&'static str], errors: Vec<BackendError>| {
            let (calls, _called) = channel();
            let (passwords, told) = channel();
            let fake = Fake { calls, errors: errors.into(), slow: Duration::ZERO, held: false, passwords };
            let mut files = files.iter();
            let rotation = Rotation::new("redis://:first@db".to_owned(), move || files.next().map(ToString::to_string));
            let worker = BackendWorker::start(Box::new(fake), Some(rotation), QUICK, Contact::default()).unwrap();
            (worker, told, _called)
        };
        let (running, told, _called) = worker(FILES, vec![refused(), refused(), refused()]);
        let hour = Moment::now() + HOUR;
        running.send(acquire(), hour);
        assert_eq!(acquired(answer(&running)).0, Err(refused()), "what has not changed is not tried again");
        running.send(acquire(), hour);
        assert_eq!(acquired(answer(&running)).0, Ok(Acquired::Granted(GRANT)));
        assert_eq!(told.try_iter().collect::<Vec<_>>(), ["second", "third"]);

        // Another server is none of this run's, and another error has nothing to do with the login.
        let (running, told, _called) = worker(&["redis://:second@other"], vec![refused()]);
        running.send(acquire(), hour);
        assert_eq!(acquired(answer(&running)).0, Err(refused()));
        let (running, others, _called) = worker(FILES, vec![BackendError::permanent("no such table")]);
        running.send(acquire(), hour);
        assert!(acquired(answer(&running)).0.is_err());
        assert_eq!(told.try_iter().chain(others.try_iter()).count(), 0);
    }

    #[test]
    fn stop_trying_ends_the_pause_between_tries() {
        let (worker, called) = worker(transient(2), Pace { first: HOUR, longest: HOUR });
        worker.send(acquire(), Moment::now() + HOUR * 10);
        next(&called);
        worker.stop_trying();
        assert_eq!(acquired(answer(&worker)).0, Err(BackendError::transient("busy")));
        assert_eq!(called.try_iter().count(), 0);
    }

    #[test]
    fn what_is_asked_after_stop_trying_is_tried_again() {
        let second = Duration::from_secs(1);
        let (worker, called) = worker(transient(2), Pace { first: second, longest: second });
        let deadline = Moment::now() + HOUR * 10;
        worker.send(Request::Renew(claim(), TERM), deadline);
        next(&called);
        worker.stop_trying();
        // This is asked before that is answered.
        worker.send(Request::Release(claim(), HOUR, Closing::Unused), deadline);
        assert!(matches!(answer(&worker), Event::Renewed { answer: Err(_), .. }));
        assert!(matches!(answer(&worker), Event::Released(Ok(StillHeld::Held))));
        assert_eq!(called.try_iter().count(), 2);
    }

    #[test]
    fn a_lock_is_seen_to_be_ours_only_while_its_owner_is_our_own_and_it_is_held() {
        let seen = |owner: &str, left| {
            let until = Some(Timestamp(9));
            let record = LockState { owner: owner.to_owned(), since: None, until, left: Duration::from_secs(left) };
            let locks = vec![Lock { name: "a".to_owned(), state: record }];
            ownership(&claim(), &Locks { now: Timestamp(1), locks })
        };
        let owner = claim().owner;
        let ours = Ownership::Held { until: Some(Timestamp(9)), left: Duration::from_secs(3) };
        assert_eq!(seen(owner.as_str(), 3), ours);
        for (owner, left) in [(owner.as_str(), 0), ("other", 3), (&owner.ended(), 3)] {
            assert_eq!(seen(owner, left), Ownership::Gone, "{owner}");
        }
        // The fake has none.
        let (worker, called) = worker(transient(1), QUICK);
        worker.send(Request::Query(claim()), Moment::now() + HOUR);
        assert!(matches!(answer(&worker), Event::Queried { answer: Ok(Ownership::Gone), .. }));
        assert_eq!((next(&called), next(&called)), (Call::Locks, Call::Locks));
    }

    #[test]
    fn requests_are_answered_in_order() {
        let (worker, called) = worker([], QUICK);
        let deadline = Moment::now() + HOUR;
        worker.send(Request::Renew(claim(), TERM), deadline);
        worker.send(Request::Release(claim(), HOUR, Closing::Unused), deadline);
        assert!(matches!(answer(&worker), Event::Renewed { answer: Ok(StillHeld::Held), .. }));
        assert!(matches!(answer(&worker), Event::Released(Ok(StillHeld::Held))));
        assert_eq!((next(&called), next(&called)), (Call::Renew, Call::Release(HOUR)));
        assert!(worker.answer().is_none());
    }

    #[test]
    fn an_idle_connection_is_closed_and_the_next_request_opens_one() {
        let (worker, called) = worker([], QUICK);
        worker.send(Request::Renew(claim(), TERM), Moment::now() + HOUR);
        answer(&worker);
        assert_eq!((next(&called), next(&called)), (Call::Renew, Call::Disconnect));
        worker.send(Request::Release(claim(), HOUR, Closing::Unused), Moment::now() + HOUR);
        assert!(matches!(answer(&worker), Event::Released(Ok(StillHeld::Held))));
        assert_eq!((next(&called), next(&called)), (Call::Release(HOUR), Call::Disconnect));
    }
}
