//! Parses the values of single options. Each error is the end of a sentence that begins with the option.

use std::path::PathBuf;
use std::time::Duration;

use crate::duration;
use crate::run::{NotifyEvent, WaitLimit};

/// Parses a duration of at least a second.
pub(crate) fn parse_from_one_second(text: &str) -> Result<Duration, String> {
    let parsed = duration::parse(text)?;
    if parsed < Duration::from_secs(1) {
        return Err(format!("`{text}` is shorter than 1s"));
    }
    Ok(parsed)
}

/// Parses a time to wait, or `forever`.
pub(crate) fn parse_wait_limit(text: &str) -> Result<WaitLimit, String> {
    if text == "forever" {
        return Ok(WaitLimit::Forever);
    }
    duration::parse(text).map(WaitLimit::UpTo)
}

/// Parses an exit code.
pub(crate) fn exit_code(text: &str) -> Result<u8, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not an exit code; write a number from 0 to 255"))
}

pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    if text.trim().is_empty() { Err("is empty; name a directory".to_owned()) } else { Ok(PathBuf::from(text)) }
}

pub(super) fn shell_command(text: &str) -> Result<String, String> {
    if text.contains('\0') { Err("contains a NUL byte".to_owned()) } else { Ok(text.to_owned()) }
}

pub(super) fn notify_events(text: &str) -> Result<Vec<NotifyEvent>, String> {
    let named = |word: &str| match NotifyEvent::ALL.iter().find(|event| event.as_str() == word) {
        Some(event) => Ok(vec![*event]),
        None if word == "all" => Ok(NotifyEvent::ALL.to_vec()),
        None => {
            let known = NotifyEvent::ALL.map(NotifyEvent::as_str).join(", ");
            Err(format!("`{word}` is not an event; known are {known}, all"))
        }
    };
    Ok(text.split(',').map(|word| named(word.trim())).collect::<Result<Vec<_>, _>>()?.concat())
}

pub(super) fn exit_codes(text: &str) -> Result<Vec<u8>, String> {
    text.split(',').map(exit_code).collect()
}

/// Parses a flag, or its count.
pub(super) fn count(text: &str) -> Result<u8, String> {
    match text {
        "true" | "yes" | "on" => Ok(1),
        "false" | "no" | "off" => Ok(0),
        text => text.parse().map_err(|_| format!("is `{text}`; write true or false")),
    }
}
