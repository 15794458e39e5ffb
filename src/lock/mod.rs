//! The nouns of locking. They are checked when they are made, so that no other module checks them again.

mod claim;
mod name;
mod owner;

pub(crate) use claim::{Claim, Closing, Grant, Record, Verdict};
pub(crate) use name::LockName;
pub(crate) use owner::Owner;
