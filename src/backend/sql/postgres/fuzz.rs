//! Fuzzes libpq's password file, and the messages of PostgreSQL.

use super::passfile::{Login, search};
use super::read_limit;

/// Checks that a password that is found is in the file, and that one in the first line is found.
pub(crate) fn fuzz(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let login = Login { host: "db1", port: 5432, database: "ops", user: "jobs" };
    let found = search(text, &login);
    assert!(found.as_ref().is_none_or(|password| password.len() <= text.len()));
    let first = search(&format!("db1:5432:ops:jobs:a\\:b\n{text}"), &login);
    assert_eq!(first.as_deref(), Some("a:b"));
    assert!(!text.ends_with('\n') || search(&format!("{text}#*:*:*:*:none"), &login) == found);
}

/// Checks that messages pass or are refused alike, in whatever pieces they come.
pub(crate) fn messages(input: &[u8]) {
    assert_eq!(read_limit::passes(input, 7), read_limit::passes(input, usize::MAX));
}
