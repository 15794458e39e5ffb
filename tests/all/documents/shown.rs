//! Compares a part of a document with what a test generates for it.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::support::repository::{ROOT, text};

/// Compares a document with what a test makes, between the marks of this name; SHEDLOCK_BLESS=1 writes it there instead.
#[track_caller]
pub(crate) fn is_shown(file: &str, name: &str, made: &str) {
    // One document may show what several tests make.
    static WRITING: Mutex<()> = Mutex::new(());
    let _turn = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let (document, begin) = (text(file), format!("<!-- generated: {name} -->\n"));
    let (before, rest) = document.split_once(&begin).unwrap_or_else(|| panic!("{file} has no `{name}`"));
    let (_, after) = rest.split_once("<!-- /generated -->").unwrap();
    let fresh = format!("{before}{begin}{made}<!-- /generated -->{after}");
    if std::env::var_os("SHEDLOCK_BLESS").is_some() {
        fs::write(Path::new(ROOT).join(file), fresh).unwrap();
    } else {
        assert!(document == fresh, "{file} is stale; SHEDLOCK_BLESS=1 and this test write it anew");
    }
}
