//! The store's side of the protocol in more detail: a lock in a store of several servers, each with a clock of its own that
//! differs from the others' and is set while the lock is held.
//!
//! Hosts are simpler here than in [`crate::world`]: their clocks are exact and their jobs end at once. [`rules`] has the
//! numbers and what can go wrong, [`host`] what a run does, [`store`] the lock and what is promised of it, [`leased`] a
//! store that lets a lease of its own run out (etcd), [`dated`] one that compares times (the others), [`world`] what can
//! happen, [`search`] looks at every world or goes at random, [`kept`] asks whether the rules keep the promise.
//!
//! ```text
//!   host 0 ──▶ ┌──────────┐       each answer is given by one server, by its clock;
//!              │ server 0 │─┐     the lock is one
//!   host 1 ──▶ ├──────────┤ ├─ lock: owner, since, until;  lease: time to live
//!              │ server 1 │─┘
//!              └──────────┘
//! ```

mod broken;
pub(crate) mod dated;
pub(crate) mod host;
pub(crate) mod kept;
pub(crate) mod leased;
pub(crate) mod rules;
pub(crate) mod search;
pub(crate) mod store;
pub(crate) mod world;
