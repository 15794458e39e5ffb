//! The protocol between shedlock and a provider, which is a program that keeps locks in a store of its own.
//!
//! shedlock starts a provider and writes one request a line to its stdin; the provider writes one answer a line to its stdout,
//! in JSON. All rules of a lock are shedlock's: a provider reads a record with its version, writes it if the store still has
//! that version, and lists. So a provider in Rust is a [`Store`], and a `main` that calls [`serve`].
//!
//! ```no_run
//! use std::collections::BTreeMap;
//! use std::time::SystemTime;
//!
//! use shedlock_provider::{Listing, Open, Opened, Reading, Record, Store, StoreError, serve};
//!
//! /// Keeps records for as long as this process lives, which is of no use but to show the five functions.
//! #[derive(Default)]
//! struct Memory {
//!     records: BTreeMap<String, (String, Record)>,
//!     writes: u64,
//! }
//!
//! fn now() -> u64 {
//!     let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
//!     since.as_millis() as u64
//! }
//!
//! impl Memory {
//!     fn version(&self, name: &str) -> Option<&str> {
//!         self.records.get(name).map(|(version, _)| version.as_str())
//!     }
//! }
//!
//! impl Store for Memory {
//!     fn open(request: &Open) -> Result<(Self, Opened), StoreError> {
//!         Ok((Self::default(), Opened { label: request.url.clone(), ..Opened::default() }))
//!     }
//!
//!     fn read(&mut self, name: &str) -> Result<Reading, StoreError> {
//!         Ok(Reading { now: now(), floor: 0, found: self.records.get(name).cloned() })
//!     }
//!
//!     fn write(&mut self, name: &str, version: Option<&str>, record: &Record) -> Result<bool, StoreError> {
//!         let fits = self.version(name) == version;
//!         if fits {
//!             self.writes += 1;
//!             self.records.insert(name.to_owned(), (self.writes.to_string(), record.clone()));
//!         }
//!         Ok(fits)
//!     }
//!
//!     fn remove(&mut self, name: &str, version: &str) -> Result<bool, StoreError> {
//!         let fits = self.version(name) == Some(version);
//!         if fits {
//!             self.records.remove(name);
//!         }
//!         Ok(fits)
//!     }
//!
//!     fn list(&mut self, listing: Listing<'_>) -> Result<u64, StoreError> {
//!         let now = now();
//!         for (name, (_, record)) in &self.records {
//!             listing(name, record).map_err(|error| StoreError::transient(error.to_string()))?;
//!         }
//!         Ok(now)
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     serve::<Memory>(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
//! }
//! ```

mod answer;
mod json;
mod record;
mod request;
mod serve;

pub use answer::{Class, Finding, Grade, Item, Made, Opened, Reading, Removed, Schema, StoreError, Written};
pub use json::Malformed;
pub use record::{Record, Run};
pub use request::{Open, Request};
pub use serve::{Listing, Store, serve};

/// Number of this protocol, which `open` names.
pub const PROTOCOL: u64 = 1;
