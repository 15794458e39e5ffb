//! Locks in the tables of an SQL database: the part that is the same for every server.
//!
//! A [`Database`] brings its server's statements, which are written by hand, its sessions and its classes of errors.
//! [`SqlLocks`] makes a backend of it: it skips read-only servers, creates missing tables, goes on without a history where
//! there can be none, and reads the listed rows. Nothing here knows the SQL of a server.

mod columns;
mod database;
mod locks;
mod recovery;
mod rows;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod server_check;
mod table_check;

pub(crate) use columns::Dialect;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use columns::{Column, unknown_column_requires_value};
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) use database::LastRequest;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use database::TABLES;
pub(crate) use database::{CreateMissing, Database, Explanation, Facts, Fault, History, RowSink, Table};
pub(crate) use locks::SqlLocks;
#[cfg(feature = "postgres")]
pub(crate) use rows::micros;
pub(crate) use rows::{Cell, Row};
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use server_check::{ServerFacts, check_server, finding_unless_refused};
