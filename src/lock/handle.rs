//! What `acquire` prints, and `release`, `extend` and `verify` take.

use std::fmt;

use super::{LockName, Owner};

/// A lock and the run, or the script, whose it is: `NAME@OWNER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
}

impl Handle {
    /// Reads a handle; the error is the end of a sentence that begins with where it came from.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // A name may have an @ in it. An owner has none, or it is that of a pause.
        let pause = text.find(&format!("@{}", Owner::PAUSED)).filter(|at| Owner::parse(&text[at + 1..]).is_err());
        let (name, owner) = match pause {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => text.rsplit_once('@').ok_or("is no handle; `shedlock acquire` prints one, NAME@OWNER")?,
        };
        Ok(Self { name: LockName::new(name)?, owner: Owner::parse(owner)? })
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.owner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_handle_is_read_as_it_was_printed() {
        for name in ["job", "a@b", "@", "x@paused:1", "-v", "Überweisung 1"] {
            for at_least in [0, 30] {
                let owner = Owner::new("me@web1", 7, 9).with_at_least(Duration::from_secs(at_least));
                let handle = Handle { name: LockName::new(name).unwrap(), owner };
                assert_eq!(Handle::parse(&handle.to_string()), Ok(handle));
            }
        }
    }

    #[test]
    fn what_is_no_handle_says_why() {
        let pause = Owner::of_pause("ada", "web1", 7, None, "disk @ 90:%");
        let owner = "web1:1:0123456789abcdef";
        for (text, why) in [
            ("", "is no handle"),
            ("job", "is no handle"),
            (owner, "is no handle"),
            ("@web1:1:0123456789abcdef", "is empty"),
            ("job@java-host", "does not end with an owner"),
            ("job@", "does not end with an owner"),
            (" job@web1:1:0123456789abcdef", "begins or ends with a blank"),
            ("job@web1:1:0123456789abcdef:ended", "has ended"),
            (&format!("job@{pause}"), "shedlock resume"),
            (&format!("{}@{owner}", "x".repeat(65)), "65 characters"),
        ] {
            let found = Handle::parse(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }
}
