//! Lives a run through: waits, feeds events to the state machine in `run`, and performs the actions that come out.
//!
//! It decides nothing about a run. It must not wait anywhere but in its one poll(2): a job may be running under a lock.
//!
//! ```text
//!    signalfd: signals, ends of children ──┐
//!    eventfd:  answers of the worker ──────┤  supervisor: one poll(2)       worker: a thread with the backend
//!    timerfd:  the next deadline ──────────┘       │ events                     ▲ requests
//!                                                  ▼                            │
//!                                             run::Run::on ── actions ──► actions, notify
//!                                                                               │
//!              job: start, signal, freeze, kill ◄── guardian, handover ◄────────┤
//!              report: messages, metrics ◄──────────────────────────────────────┘
//! ```

mod actions;
mod guardian;
mod handover;
mod notifications;
mod notify;
mod supervisor;
mod timer;
mod worker;

pub(crate) use supervisor::{Supervisor, Work};
pub(crate) use worker::THREAD;
