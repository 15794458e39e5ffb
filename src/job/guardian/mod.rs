//! The guardian: a small process that outlives shedlock, and ends the job when shedlock cannot.
//!
//! `parent.rs` is shedlock's side, `child.rs` the guardian's own, and `message.rs` what goes through the pipe between
//! them. The guardian decides nothing but what belongs to the job: when to kill is sent to it.

mod child;
mod descriptors;
mod message;
mod parent;

pub(crate) use child::run_guardian;
pub(crate) use parent::{GUARDIAN_NAME, Guardian};
