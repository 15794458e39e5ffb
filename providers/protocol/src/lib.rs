//! The protocol between shedlock and a provider, which is a program that keeps locks in a store of its own.
//!
//! shedlock starts a provider and writes one request a line to its stdin; the provider writes one answer a line to its stdout,
//! in JSON. All rules of a lock are shedlock's: a provider reads a record with its version, writes it if the store still has
//! that version, and lists. So a provider in Rust is a [`Store`], and a `main` that calls [`serve`].
//!
//! ```no_run
//! use shedlock_provider::{Listing, Open, Opened, Reading, Record, Store, StoreError, serve};
//!
//! struct Memory;
//!
//! impl Store for Memory {
//!     fn open(request: &Open) -> Result<(Self, Opened), StoreError> {
//!         Ok((Self, Opened { label: request.url.clone(), ..Opened::default() }))
//!     }
//!     fn read(&mut self, _name: &str) -> Result<Reading, StoreError> {
//!         todo!("return the record, its version, and the store's clock")
//!     }
//!     fn write(&mut self, _name: &str, _version: Option<&str>, _record: &Record) -> Result<bool, StoreError> {
//!         todo!("write the record if the store still has the version")
//!     }
//!     fn remove(&mut self, _name: &str, _version: &str) -> Result<bool, StoreError> {
//!         todo!("remove the record if the store still has the version")
//!     }
//!     fn list(&mut self, _listing: Listing<'_>) -> Result<u64, StoreError> {
//!         todo!("pass on each record, and return the store's clock")
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
