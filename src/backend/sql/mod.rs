//! Backends that are SQL databases. `engine` is the part that all share; each database brings its statements, which keep the
//! rules of a lock. Nothing here knows another kind of backend.

pub(crate) mod engine;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
