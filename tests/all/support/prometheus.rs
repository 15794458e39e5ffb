//! Prometheus as the judge of metrics.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{finish_child, start};

/// Asserts that Prometheus' own parser accepts a text, and that its rules for names have nothing to say either.
#[track_caller]
pub(crate) fn is_accepted(text: &str) {
    let mut checker = Command::new("promtool");
    checker.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut checker = start(&mut checker);
    checker.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    finish_child(checker).is_silent_with(0);
}
