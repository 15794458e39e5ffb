//! The nouns of locking, and the answers and errors of a backend. They are checked when they are made, so that no other module
//! checks them again. It must not know a backend, a run or a process.

mod answer;
mod claim;
mod error;
mod handle;
mod holder;
mod listed_locks;
mod name;
mod owner;
mod run_list;
mod run_query;

pub(crate) use answer::{Acquired, Forgotten, Remark, Reply, StillHeld};
pub(crate) use claim::{Change, Claim, Closing, ENDLESS, Grant, LockState, Purpose, Removal, RunOutcome};
pub(crate) use error::{BackendError, ErrorClass};
pub(crate) use handle::Handle;
pub(crate) use holder::Holder;
pub(crate) use listed_locks::{Lock, Locks};
pub(crate) use name::LockName;
pub(crate) use owner::Owner;
pub(crate) use run_list::{RunList, RunRecord};
#[cfg(any(test, feature = "redis", feature = "etcd", feature = "record"))]
pub(crate) use run_query::Order;
pub(crate) use run_query::{RunQuery, Runs};
