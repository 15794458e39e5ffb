//! What is distributed, as those who install it get it. The packages have to be built before, by `packaging/build`.
//!
//! These tests make namespaces and other root directories, so they need root.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod container;
mod empty_root;
mod image;
mod manifests;
mod name_server;
mod root;
#[path = "../servers/mod.rs"]
#[expect(dead_code, reason = "the other tests ask for more")]
mod servers;
#[path = "../all/support/mod.rs"]
#[expect(dead_code, reason = "the other tests ask for more")]
mod support;
