//! The name of a lock.

use std::fmt;

/// A lock's name: 1 to 64 characters, no control characters, no space at either end.
///
/// 64 is the width of the column in the Java library's tables. Some servers cut longer names silently, which would turn two
/// locks into one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockName(String);

impl LockName {
    const LONGEST: usize = 64;

    /// Checks a name; the error is the end of a sentence that begins with the name's source.
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let length = name.chars().count();
        if name.is_empty() {
            return Err("is empty; a lock needs a name".to_owned());
        }
        if length > Self::LONGEST {
            return Err(format!("has {length} characters; a lock's name has at most {}", Self::LONGEST));
        }
        if name.contains(char::is_control) {
            return Err(format!("{name:?} contains a control character"));
        }
        if name.trim() != name {
            return Err(format!("`{name}` begins or ends with a space"));
        }
        Ok(Self(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
        }
        for good in ["a b", "a:b/c#d", "Überweisung", "{x}", "-v"] {
            assert_eq!(LockName::new(good).unwrap().as_str(), good);
        }
    }
}
