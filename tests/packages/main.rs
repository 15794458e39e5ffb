//! What is distributed, as those who install it get it: the packages that `packaging/build` makes, on systems that have
//! nothing else of ours. Not among all tests, since the packages have to be made before:
//!
//! ```text
//! packaging/build deb && packaging/build rpm && packaging/build archive
//! cargo test --test packages
//! ```
//!
//! They need root, or sudo without a password: they make other root directories and namespaces.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod archive;
mod deb;
mod debian;
mod made;
mod rpm;
mod third_party;
