//! The tests that run the program: one binary, a family of modules for each thing that can be asked about it. Every test starts
//! real processes and looks at what they did from outside. What they share is in `support`.
//!
//! `feature = "default"` marks what needs every backend of the default build.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod backends;
mod config;
mod documents;
mod faults;
mod operator;
mod output;
mod run;
mod support;
