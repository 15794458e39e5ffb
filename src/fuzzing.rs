//! The targets of the fuzzer: a function for each parser, which takes any bytes and panics if the parser breaks a rule.
//!
//! `.ci/fuzz` runs them with ever new inputs; the tests run them with those in `fuzz/corpus/`.

use std::path::Path;

use crate::backend::testing::fuzz_targets::{self, Target};
use crate::backend::{Access, Url, from_url};
use crate::lock::{Handle, Holder, LockName, Owner};
use crate::system::Timestamp;
use crate::{config, duration, text};

/// The targets that do not belong to one backend.
const TARGETS: &[Target] = &[
    ("configuration", configuration),
    ("duration", duration),
    ("handle", handle),
    ("name", name),
    ("time", time),
    ("url", url),
];

/// Returns the target of this name.
#[cfg(fuzzing)]
pub(crate) fn target(name: &str) -> Option<fn(&[u8])> {
    all_targets().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

fn all_targets() -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().chain(fuzz_targets::TARGETS)
}

/// The password that no printed form of a URL may contain.
const SECRET: &str = "hunter2";

/// Checks that a duration is printed in a form that is read as the same.
fn duration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match duration::parse(text) {
        Ok(read) => {
            assert!(read <= duration::MAX);
            let printed = duration::format(read);
            assert_eq!(duration::parse(&printed), Ok(read), "{printed}");
            assert!(!duration::brief(read).is_empty());
        }
        Err(why) => assert!(!why.is_empty()),
    }
}

/// Checks that a time is printed in a form that is read as the same.
fn time(input: &[u8]) {
    let Some(read) = std::str::from_utf8(input).ok().and_then(Timestamp::parse) else { return };
    assert_eq!(Timestamp::parse(&read.to_string()), Some(read));
}

/// Checks that the name of a lock is kept as it is, and that its printed form controls no terminal.
fn name(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for shown in [text::printable_name(text), text::shell_word(text), text::escape_hidden(text)] {
        assert!(!shown.contains(text::is_hidden), "{shown:?}");
    }
    if let Ok(name) = LockName::new(text) {
        assert_eq!(name.as_str(), text);
        assert!(!name.is_invalid_for_run());
        fuzz_targets::name(&name);
    }
}

/// Checks that a handle is printed as it was given, and that its owner has its parts.
fn handle(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(handle) = Handle::parse(text) {
        assert_eq!(handle.to_string(), text);
        assert_eq!(Owner::parse(handle.owner.as_str()).as_ref(), Ok(&handle.owner));
        let at_least = handle.owner.at_least();
        assert_eq!(text.matches(':').count() >= 3 + handle.name.as_str().matches(':').count(), !at_least.is_zero());
        let ended = handle.owner.ended();
        let holder = Holder::parse(&ended);
        assert!(holder.has_ended() && holder.owner() == handle.owner.as_str());
        assert!(Owner::parse(&ended).is_err());
    }
    // What a store has for an owner may be anything.
    let holder = Holder::parse(text);
    assert!(text.starts_with(holder.owner()) && text.contains(holder.host()));
    assert!(!(holder.process().is_some() && holder.pause().is_some()));
    if let Some(pause) = holder.pause() {
        assert!(pause.by.contains('@') && text.contains(pause.reason));
    }
}

/// Checks that a configuration is read, or refused with a line that it has.
fn configuration(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(mistake) = config::fuzz(text, Path::new("x.toml")) {
        let line = mistake.message.strip_prefix("x.toml:").and_then(|rest| rest.split(':').next()?.parse().ok());
        assert!(line.is_none_or(|line: usize| (1..=text.split('\n').count()).contains(&line)), "{mistake}");
    }
}

/// Checks that the address of a URL leads to the same backend, and that a password is in no address and in no error.
fn url(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // An unknown scheme is shown in lower case.
    if text.to_ascii_lowercase().contains(SECRET) {
        return;
    }
    // Blanks around a URL do not count, which those before a password do.
    let is_plain = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if let Some(opened) = from_url(text, &Access::default()).ok().filter(|_| is_plain) {
        let again = from_url(&opened.address, &Access::default());
        let again = again.map(|opened| opened.address);
        assert_eq!(again.as_ref(), Ok(&opened.address));
    }
    for text in with_secret(text) {
        let shown = match from_url(&text, &Access::default()) {
            Ok(opened) => opened.address,
            Err(error) => error,
        };
        assert!(!shown.contains(SECRET), "{text}: {shown}");
        let Ok(url) = Url::parse(&text) else { continue };
        assert!(url.user().is_none_or(|user| !user.contains(SECRET)));
    }
}

/// Returns the URL with the secret in its password, if it has one: before the host, or as a parameter.
fn with_secret(text: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut insert_at = |place: usize| texts.push(format!("{}{SECRET}{}", &text[..place], &text[place..]));
    let rest = text.split('?').next().unwrap_or_default();
    if let Some(start) = rest.find("://").map(|place| place + 3)
        && let Some(end) = rest[start..].rfind('@').map(|place| start + place)
        && let Some(colon) = text[start..end].find(':').map(|place| start + place)
    {
        insert_at(colon + 1);
        insert_at(end);
    }
    if let Some(query) = text.find('?') {
        for (place, parameter) in text[query..].match_indices("password=") {
            insert_at(query + place + parameter.len());
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Tries the inputs that the fuzzer has found once.
    #[test]
    fn every_kept_input_keeps_the_rules() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        for (name, target) in all_targets() {
            let mut inputs: Vec<_> =
                fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
            inputs.sort();
            assert!(!inputs.is_empty(), "{name}");
            for input in inputs {
                println!("{}", input.display());
                target(&fs::read(&input).unwrap());
            }
        }
    }
}
