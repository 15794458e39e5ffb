//! A client: it plays a part with a backend and a relay of its own, and records what it asked and what was answered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::history::{Answer, Call, Fault, Request};
use super::plan::{Part, Step};
use super::relay::Relay;
use crate::backend::{Admin, Opened};
use crate::lock::{
    Acquired, BackendError, Change, Claim, Closing, ErrorClass, LockName, Owner, Purpose, RunOutcome, RunQuery,
};
use crate::system::Moment;

/// The most requests of a client in a round, which bounds the memory.
const MAX_CALLS: usize = 5_000;
/// The runs that the history keeps of a lock.
const HISTORY_KEEP: u32 = 100;
/// The pauses after errors: they double.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The pause after the server has said that it is full.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// The time for a server to end a connection whose client has gone.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);

/// Shares the state of a round among its clients.
pub(crate) struct Round {
    /// The names of its locks.
    pub(crate) names: Vec<LockName>,
    /// Set when nothing new is begun.
    pub(crate) is_over: AtomicBool,
    /// When the round is over at the latest.
    pub(crate) deadline: Moment,
    /// Set if the server said that it has no room for another client.
    pub(crate) is_full: AtomicBool,
    /// Whether a connection may be frozen: not more than one at once, because its client needs another one beside it.
    pub(crate) may_freeze: AtomicBool,
}

/// Plays parts with a backend and a relay of its own.
pub(crate) struct Client {
    opened: Opened,
    relay: Relay,
    host: String,
}

impl Client {
    pub(crate) fn new(opened: Opened, relay: Relay, host: &str) -> Self {
        Self { opened, relay, host: host.to_owned() }
    }

    /// Returns the backend, for what is done between the rounds.
    pub(crate) fn backend(&mut self) -> &mut dyn Admin {
        self.opened.backend.as_mut()
    }

    /// Returns whether a connection went through the relay.
    pub(crate) fn is_relayed(&self) -> bool {
        self.relay.was_used()
    }

    /// Plays a part to its end, and returns what was recorded.
    pub(crate) fn play(&mut self, mut part: Part, round: &Round) -> Vec<Call> {
        let mut calls: Vec<Call> = Vec::new();
        let mut owners = HashMap::new();
        let mut is_answered = false;
        let mut freezes = false;
        let mut pause = FIRST_PAUSE;
        loop {
            let is_over = || round.is_over.load(Ordering::Relaxed) || Moment::now() >= round.deadline;
            let over = calls.len() >= MAX_CALLS || is_over();
            let last = calls.last().filter(|_| is_answered);
            is_answered = false;
            match part.next(last, over) {
                Step::Done => break,
                Step::Thaw => self.thaw(round, &mut freezes),
                Step::Pause(time) => thread::sleep(time),
                Step::Ask { owner, request, fault } => {
                    let Some(owner) = self.owner(&mut owners, owner) else { break };
                    let fault = fault.map(|fault| match fault {
                        Fault::Freeze { after } if freezes || !round.may_freeze.swap(false, Ordering::Relaxed) => {
                            Fault::CutRequest { after }
                        }
                        fault => fault,
                    });
                    freezes |= matches!(fault, Some(Fault::Freeze { .. }));
                    let call = self.ask(&round.names[part.lock], part.lock, &owner, request, fault);
                    if let Answer::Failed { class, .. } = &call.answer {
                        if !freezes {
                            // The server has to see the end of this connection before it gets another one.
                            self.relay.settle(SETTLE_LIMIT);
                        }
                        if *class == ErrorClass::Overloaded {
                            round.is_full.store(true, Ordering::Relaxed);
                            self.opened.backend.disconnect();
                            thread::sleep(FULL_PAUSE);
                        } else if call.fault.is_none() {
                            thread::sleep(pause);
                            pause = (pause * 2).min(LONGEST_PAUSE);
                        }
                        if over && Moment::now() >= round.deadline + LONGEST_PAUSE * 4 {
                            calls.push(call);
                            break;
                        }
                    } else {
                        pause = FIRST_PAUSE;
                    }
                    calls.push(call);
                    is_answered = true;
                }
            }
        }
        self.thaw(round, &mut freezes);
        if round.is_full.load(Ordering::Relaxed) {
            // A client that still holds its lock may need this place.
            self.opened.backend.disconnect();
        }
        calls
    }

    /// Delivers what the relay kept, and waits until the server has it. From then on another client may freeze a connection.
    fn thaw(&self, round: &Round, freezes: &mut bool) {
        self.relay.thaw();
        self.relay.settle(SETTLE_LIMIT);
        if std::mem::take(freezes) {
            round.may_freeze.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the owner of this number; `None` if the system has no random numbers.
    fn owner(&self, owners: &mut HashMap<u32, Owner>, number: u32) -> Option<Owner> {
        if let Some(owner) = owners.get(&number) {
            return Some(owner.clone());
        }
        let owner = Owner::new(&self.host, std::process::id(), getrandom::u64().ok()?);
        owners.insert(number, owner.clone());
        Some(owner)
    }

    /// Sends one request, and records it.
    pub(crate) fn ask(
        &mut self,
        name: &LockName,
        lock: usize,
        owner: &Owner,
        request: Request,
        fault: Option<Fault>,
    ) -> Call {
        if let Some(fault) = fault {
            self.relay.arm(fault);
        }
        let sent = Moment::now();
        let answer = self.send(name, owner, request);
        let answered = Moment::now();
        self.relay.disarm();
        let struck = fault.is_some() && self.relay.struck();
        if let Err(error) = &answer
            && let Some(rotation) = &mut self.opened.rotation
        {
            rotation.log_in_again(self.opened.backend.as_mut(), error);
        }
        let answer = answer.unwrap_or_else(|error| Answer::Failed {
            class: error.class,
            ambiguous: error.ambiguous,
            message: error.message,
        });
        let fault = fault.filter(|_| struck);
        Call { lock, owner: owner.as_str().to_owned(), request, sent, answered, answer, fault }
    }

    fn send(&mut self, name: &LockName, owner: &Owner, request: Request) -> Result<Answer, BackendError> {
        let backend = self.opened.backend.as_mut();
        let claim = |lease| Claim {
            name: name.clone(),
            owner: owner.clone(),
            lease,
            keep: HISTORY_KEEP,
            purpose: Purpose::Run,
        };
        Ok(match request {
            Request::Acquire { lease } => match backend.acquire(&claim(lease))?.answer {
                Acquired::Granted(grant) => Answer::Granted { token: grant.token },
                Acquired::Held(state) => Answer::Refused(state),
            },
            Request::Renew { lease } => Answer::StillHeld(backend.renew(&claim(lease))?.answer),
            Request::Release { hold, undo } => {
                let ended = Closing::Ended { outcome: RunOutcome::Success, exit_code: Some(0) };
                let closing = if undo { Closing::Undone } else { ended };
                Answer::StillHeld(backend.release(&claim(Duration::ZERO), hold, closing)?.answer)
            }
            Request::Change { left } => {
                let (from, to) = (owner.as_str().to_owned(), owner.as_str().to_owned());
                Answer::StillHeld(backend.change(&Change { name: name.clone(), from, to, left })?)
            }
            Request::List => {
                let locks = backend.locks(&[name.as_str()])?;
                let lock = locks.locks.into_iter().find(|lock| lock.name == name.as_str());
                Answer::Listed { now: locks.now, state: lock.map(|lock| lock.state) }
            }
            Request::Runs => {
                let runs = backend.runs(&RunQuery { names: vec![name.as_str().to_owned()], ..RunQuery::default() })?;
                Answer::Runs(runs.runs.iter().collect())
            }
        })
    }
}
