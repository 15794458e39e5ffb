//! The handle that `acquire` prints, and that `release`, `extend` and `verify` take.

use std::fmt;

use super::{LockName, Owner};

/// A lock and its owner, a run or a script: `NAME@OWNER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
}

impl Handle {
    /// Parses a handle; the error is the end of a sentence that begins with the handle's source.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // A name may contain an @. The owner of a run never does, but that of a pause does.
        let (name, owner) =
            text.rsplit_once('@').ok_or("is not a handle; `shedlock acquire` prints one, NAME@OWNER")?;
        let owner = Owner::parse(owner).or_else(|why| {
            let mut pauses = text.match_indices('@').map(|(at, _)| Owner::parse(&text[at + 1..]));
            pauses.find(|found| *found == Err(Owner::PAUSE_REFUSAL.to_owned())).unwrap_or(Err(why))
        })?;
        Ok(Self { name: LockName::new(name)?, owner })
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name.as_str(), self.owner)
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
        let pause = Owner::for_pause("ada", "web1", 7, None, "disk @ 90:%");
        let owner = "web1:1:0123456789abcdef";
        for (text, why) in [
            ("", "is not a handle"),
            ("job", "is not a handle"),
            (owner, "is not a handle"),
            ("@web1:1:0123456789abcdef", "is empty"),
            ("job@java-host", "does not end with an owner"),
            ("job@", "does not end with an owner"),
            (" job@web1:1:0123456789abcdef", "begins or ends with a space"),
            ("job@web1:1:0123456789abcdef:ended", "has ended"),
            (&format!("job@{pause}"), "shedlock resume"),
            (&format!("{}@{owner}", "x".repeat(65)), "65 characters"),
        ] {
            let found = Handle::parse(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }
}
