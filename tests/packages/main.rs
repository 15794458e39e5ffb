//! What is distributed, as those who install it get it, and the files that say how it is run: packages, units, crontabs,
//! recipes. Not among all tests, since the packages have to be made before:
//!
//! ```text
//! packaging/test
//! ```
//!
//! They need root, or sudo without a password: they make other root directories and namespaces.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod archive;
mod build;
mod ci;
mod container;
mod contents;
mod crates;
mod crontabs;
mod deb;
mod debian;
mod empty_root;
mod image;
mod install;
mod made;
mod manifests;
mod name_server;
mod provider;
mod recipes;
mod releasing;
mod root;
mod rpm;
#[path = "../all/support/mod.rs"]
#[expect(dead_code, unused_imports, unused_macros, reason = "the other tests ask for more")]
mod support;
mod systemd;
mod third_party;
mod units;

use std::fs;
use std::path::Path;

/// A file of this repository.
fn text(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file))
        .unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// One of packaging/examples.
fn example(name: &str) -> String {
    text(&format!("packaging/examples/{name}"))
}
