//! Who holds a lock.

use std::fmt;

/// One run's identity, `HOST:PID:RANDOM`. Unique per run, so that no run can free another's lock, not even one on the
/// same host with a recycled pid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner(String);

impl Owner {
    /// Marks, at the end of the stored owner, a lock that is still held although its run has ended.
    pub(crate) const ENDED: &str = ":ended";

    /// Makes the identity of a run on `host`. Blanks and colons in the host's name, which no real host name has,
    /// would break the form, and become `_`; a very long name is cut.
    pub(crate) fn new(host: &str, pid: u32, random: u64) -> Self {
        let host: String = host
            .chars()
            .take(128)
            .map(|c| if c == ':' || c.is_whitespace() || c.is_control() { '_' } else { c })
            .collect();
        Self(format!("{host}:{pid}:{random:016x}"))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The host that it runs on, as far as an owner can say.
    pub(crate) fn host(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// What is stored instead of this owner once the run has ended and the lock stays held.
    pub(crate) fn ended(&self) -> String {
        format!("{}{}", self.0, Self::ENDED)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_host_pid_and_random() {
        assert_eq!(Owner::new("web1.example", 42, 255).as_str(), "web1.example:42:00000000000000ff");
        assert_eq!(Owner::new("a:b c", 1, 0).as_str(), "a_b_c:1:0000000000000000");
        assert_eq!(Owner::new("a:b c", 1, 0).host(), "a_b_c");
    }

    #[test]
    fn an_owner_fits_the_column_of_255_characters() {
        assert!(Owner::new(&"h".repeat(300), u32::MAX, u64::MAX).ended().len() < 255);
    }
}
