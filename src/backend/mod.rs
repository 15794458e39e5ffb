//! Backends: the stores that keep locks. A new one implements [`Backend`] and [`Admin`], and is one line in the table of
//! [`registry`].
//!
//! A backend must not know a run: no option, no exit code, no message for people but its own errors.
//!
//! ```text
//!  command, worker ── URL ──► registry ── opens by its scheme ──► one backend, behind the contract:
//!                                                                 Backend (runs), Admin (operators)
//!
//!   sql/engine               record/engine                   redis   etcd      what a family of stores shares
//!    ▲     ▲       ▲          ▲          ▲         ▲           │       │
//!  sqlite  postgres  mysql   provider  kubernetes  zookeeper   │       │       how one store is asked
//!    │        │        │         │           │         │       │       │
//!   a file    │        │     a program       │         │       │       │
//!             └────────┴─────────────────────┴─────────┴───────┴───────┤
//!                                                                      ▼
//!                   net/: URL, hosts, TLS and HTTP, bounded in time and memory
//!
//!  diagnose, finding: what `check` asks of every server     testing/: the contract as tests
//! ```

pub(crate) mod clock;
mod contact;
mod contract;
mod credentials;
#[cfg(feature = "tls")]
mod diagnose;
#[cfg(feature = "etcd")]
mod etcd;
mod finding;
mod net;
mod opened;
#[cfg(any(test, feature = "record"))]
mod record;
#[cfg(feature = "redis")]
mod redis;
mod registry;
mod retry;
mod rotation;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) mod sql;
#[cfg(any(test, fuzzing))]
pub(crate) mod testing;

pub(crate) use contact::Contact;
pub(crate) use contract::{Admin, Backend};
#[cfg(any(test, fuzzing, feature = "sqlite", feature = "tls"))]
pub(crate) use credentials::Credentials;
#[cfg(any(test, fuzzing, feature = "sqlite", feature = "tls"))]
pub(crate) use finding::FindingSink;
pub(crate) use finding::{Finding, Grade, LockTest};
#[cfg(feature = "provider")]
pub(crate) use net::detour::Harm;
pub(crate) use net::detour::{Detour, Way};
#[cfg(any(test, fuzzing, feature = "sqlite", feature = "tls"))]
pub(crate) use net::url::Url;
pub(crate) use opened::{Access, Opened, Pace};
#[cfg(test)]
pub(crate) use registry::{Listed, listed};
pub(crate) use registry::{beginnings, from_url, kinds, open_kind, password};
#[cfg(test)]
pub(crate) use retry::OVERLOAD_PAUSE_FACTOR;
pub(crate) use retry::Retry;
pub(crate) use rotation::{Rotation, is_same_place};
#[cfg(feature = "sqlite")]
pub(crate) use sql::sqlite::CHECKPOINT_THREAD;
