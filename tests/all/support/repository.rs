//! The files of this repository.

use std::fs;
use std::path::Path;

pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");

pub(crate) fn text(file: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(file)).unwrap()
}
