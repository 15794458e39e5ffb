//! The name of a lock.

use std::borrow::Cow;
use std::fmt;

use crate::text::{printable_name, shell_word};

/// A lock's name. That of a job has 1 to 64 characters, no control characters, and no space at either end.
///
/// 64 is the width of the column in the Java library's tables. Some servers cut longer names silently, which would turn two
/// locks into one. The Java library checks no more than that a name is not empty, and a store may hold a longer one, or one
/// with a tab in it: an operator has to be able to free, pause and forget such a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockName(String);

impl LockName {
    const MAX_LENGTH: usize = 64;

    /// Checks the name of a job's lock; the error is the end of a sentence that begins with the name's source.
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let length = name.chars().count();
        let checked = Self::from_stored(name)?;
        if length > Self::MAX_LENGTH {
            return Err(format!("has {length} characters; a lock's name has at most {}", Self::MAX_LENGTH));
        }
        if name.contains(char::is_control) {
            return Err(format!("{name:?} contains a control character"));
        }
        if name.trim() != name {
            return Err(format!("`{name}` begins or ends with a space"));
        }
        Ok(checked)
    }

    /// Accepts the name of a lock as a store may hold it, for an operator.
    pub(crate) fn from_stored(name: &str) -> Result<Self, String> {
        match name.is_empty() {
            true => Err("is empty; a lock needs a name".to_owned()),
            false => Ok(Self(name.to_owned())),
        }
    }

    /// Returns whether no job may have this name.
    pub(crate) fn is_invalid_for_run(&self) -> bool {
        Self::new(&self.0).is_err()
    }

    /// Returns the name as one word of a command line: as it is shown, or in quotes where a shell would split or expand that.
    pub(crate) fn shell_word(&self) -> Cow<'_, str> {
        let name = printable_name(&self.0);
        if name == self.0 { shell_word(&self.0) } else { name }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Formats the name for people; [`LockName::as_str`] is the name itself.
impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable_name(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_to_64_characters() {
        assert!(LockName::new("").is_err());
        assert!(LockName::new(&"ä".repeat(64)).is_ok());
        assert!(LockName::new(&"ä".repeat(65)).unwrap_err().contains("65 characters"));
    }

    #[test]
    fn control_characters_and_outer_blanks_are_refused() {
        for bad in ["a\nb", "a\0", "\u{7f}", " a", "a ", "\u{a0}a"] {
            assert!(LockName::new(bad).is_err(), "{bad:?}");
            assert!(LockName::from_stored(bad).unwrap().is_invalid_for_run(), "{bad:?}");
        }
        assert!(LockName::from_stored("").is_err());
        for good in ["a b", "a:b/c#d", "Überweisung", "{x}", "-v"] {
            assert_eq!(LockName::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_name_has_one_form_to_be_copied() {
        for (name, text, word) in [
            ("job", "job", "job"),
            ("night shift", "night shift", "'night shift'"),
            ("report ", "$'report '", "$'report '"),
            ("a\tb", r"$'a\tb'", r"$'a\tb'"),
        ] {
            let name = LockName::from_stored(name).unwrap();
            assert_eq!((name.to_string().as_str(), &*name.shell_word()), (text, word));
        }
    }
}
