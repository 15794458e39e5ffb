//! Stores that keep each lock in one record with a version. The engine decides what to write: the rules of a lock stand there
//! and nowhere else. A store reads a record, writes it if the version is still the same, and lists; it must not judge what a
//! record says.

pub(crate) mod engine;
#[cfg(feature = "kubernetes")]
pub(crate) mod kubernetes;
#[cfg(feature = "provider")]
pub(crate) mod provider;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;
