//! Tries the rules of a lock on a server: clients contend for locks with made-up names, through a relay that cuts and freezes
//! their connections, and a judge reads what they recorded.
//!
//! ```text
//!  plan ── what a client does next ──► client ── requests ──► relay ── cut, delayed, frozen ──► server
//!   ▲ seed                               │
//!                                        ▼ calls and answers, with times of the boot clock
//!                                     history ──► judge ──► a verdict for each rule
//!                                        └──────► figures: rates, latencies, the longest stall, errors
//! ```
//!
//! A round is short: its history is judged and dropped, so memory is bounded however long it all takes. This room prints
//! nothing.

mod client;
mod figures;
mod findings;
mod history;
mod judge;
mod long_locks;
mod names;
mod plan;
mod random;
mod relay;
mod rounds;
mod rules;
mod scene;

pub(crate) use figures::{Figures, Latency};
pub(crate) use findings::findings;
pub(crate) use relay::Relay;
pub(crate) use rounds::{Order, Outcome, Progress, prove};
