//! The nouns of locking. They are checked when they are made, so that no other module checks them again.

mod claim;
mod handle;
mod holder;
mod listing;
mod name;
mod owner;
mod runs;

pub(crate) use claim::{Change, Claim, Closing, Grant, LockState, Purpose, Removal, RunOutcome};
pub(crate) use handle::Handle;
pub(crate) use holder::Holder;
#[cfg(any(test, feature = "redis", feature = "etcd", feature = "cas"))]
pub(crate) use listing::Order;
pub(crate) use listing::{Lock, Locks, RunRecord, Runs, Wanted};
pub(crate) use name::LockName;
pub(crate) use owner::Owner;
pub(crate) use runs::RunList;
