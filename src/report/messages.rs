//! Formats messages for stderr and text for output that a person may read: one line each, without secrets, and without
//! characters that a terminal obeys.

use std::io::{Write, stderr};

use super::secrets::without_secrets;
use crate::text::{escape_hidden, is_hidden};

/// Prints an error outside a run, such as bad usage or bad configuration.
pub(crate) fn print_error(message: &str, hint: Option<&str>) {
    // In one write(2), so that lines of several processes do not mix. If stderr is closed, nobody can be told.
    let _ = stderr().write_all(message_text(message, hint).as_bytes());
}

/// Returns the error of a command that cannot write to stdout.
pub(crate) fn stdout_error(error: &std::io::Error) -> anyhow::Error {
    let why = error.to_string();
    anyhow::anyhow!("cannot write to stdout: {}", why.split(" (os error").next().unwrap_or_default().to_lowercase())
}

/// Formats a message for stderr, with its hint in a line of its own.
pub(super) fn message_text(message: &str, hint: Option<&str>) -> String {
    let mut text = format!("shedlock: {}\n", printable(message));
    if let Some(hint) = hint {
        text += &format!("hint: {}\n", printable(hint));
    }
    text
}

/// Makes a sentence printable: every message of every command passes here. The result is one line without a password, which obeys
/// no terminal.
pub(crate) fn printable(sentence: &str) -> String {
    escape_hidden(&without_secrets(sentence)).into_owned()
}

/// Escapes the same characters as `escape_hidden` in JSON text, the way JSON does, so that a parser reads the same value.
pub(crate) fn escaped_json(json: String) -> String {
    // A line's end can only be one between values; within a text it has been escaped.
    let hidden = |c: char| is_hidden(c) && c != '\n';
    if !json.contains(hidden) {
        return json;
    }
    let units = |c: char| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect();
    json.chars().map(|c| if hidden(c) { units(c) } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(message_text("a\nb\u{1b}[1m", None), "shedlock: a\\nb\\u{1b}[1m\n");
        // The one changes the direction, and the other is in no XML.
        assert_eq!(message_text("a\u{202e}b\u{ffff}é", None), "shedlock: a\\u{202e}b\\u{ffff}é\n");
    }

    #[test]
    fn json_says_the_same_and_has_no_character_that_a_terminal_obeys() {
        let value = serde_json::json!({ "é\u{9b}2J": ["a\nb\u{7f}", "\u{202e}\u{e0041}\u{1f512}"] });
        for json in [format!("{value}\n"), format!("{value:#}\n")] {
            let shown = escaped_json(json);
            assert!(!shown.trim_end().chars().any(|c| is_hidden(c) && c != '\n'), "{shown}");
            assert!(shown.contains("é\\u009b2J") && shown.contains("\\u202e\\udb40\\udc41\u{1f512}"), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
