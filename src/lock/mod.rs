//! The nouns of locking. They are checked when they are made, so that no other module checks them again.

mod claim;
mod handle;
mod holder;
mod listing;
mod name;
mod owner;

pub(crate) use claim::{Change, Claim, Closing, Grant, LockState, Purpose, RunOutcome};
pub(crate) use handle::Handle;
pub(crate) use holder::Holder;
pub(crate) use listing::{Lock, Locks, RunRecord, Runs, Wanted};
pub(crate) use name::LockName;
pub(crate) use owner::Owner;
