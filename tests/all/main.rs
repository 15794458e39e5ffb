//! The tests that run the program: one binary, one module per topic. Every test starts real processes and looks at
//! what they did from outside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod contention;
mod init;
mod job;
mod signals;
mod support;
mod terminal;
