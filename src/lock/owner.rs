//! Whose a lock is.

use std::fmt;

use super::Holder;
use crate::clock::Timestamp;

/// One run's identity, `HOST:PID:RANDOM`. Unique per run, so that no run can free another's lock, not even one on the
/// same host with a recycled pid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner(String);

impl Owner {
    /// Marks, at the end of the stored owner, a lock that is still held although its run has ended.
    pub(crate) const ENDED: &str = ":ended";
    /// What the owner of a pause begins with.
    pub(super) const PAUSED: &str = "paused:";
    /// The width of the column in the Java library's tables.
    const LONGEST: usize = 255;

    /// Makes the identity of a run on `host`. Blanks and colons in the host's name, which no real host name has,
    /// would break the form, and become `_`; a very long name is cut.
    pub(crate) fn new(host: &str, pid: u32, random: u64) -> Self {
        Self(format!("{}:{pid}:{random:016x}", part(host, 128)))
    }

    /// Makes the identity of a pause, `paused:USER@HOST:REASON:KEPT_UNTIL:RANDOM`, which anybody can read who sees the
    /// lock, with whatever tool. `kept_until` is until when the lock was to stay held after its last run.
    pub(crate) fn of_pause(user: &str, host: &str, random: u64, kept_until: Option<Timestamp>, reason: &str) -> Self {
        let (user, host) = (part(user, 32), part(host, 64));
        let kept_until = kept_until.map(|until| until.0.to_string()).unwrap_or_default();
        Self(format!("{}{user}@{host}:{reason}:{kept_until}:{random:016x}", Self::PAUSED))
    }

    /// How many characters a pause's reason may have.
    pub(crate) const LONGEST_REASON: usize = 100;

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The host that it runs on, as far as an owner can say.
    pub(crate) fn host(&self) -> &str {
        self.0.split(':').next().unwrap_or_default()
    }

    /// Whether this is a pause and no run.
    pub(crate) fn is_pause(&self) -> bool {
        Holder::of(&self.0).is_paused()
    }

    /// What is stored instead of this owner once the run has ended and the lock stays held.
    pub(crate) fn ended(&self) -> String {
        format!("{}{}", self.0, Self::ENDED)
    }
}

/// A user's or a host's name without what has a meaning in an owner, and cut if it is very long.
fn part(name: &str, longest: usize) -> String {
    let odd = |c: char| matches!(c, ':' | '@') || c.is_whitespace() || c.is_control();
    name.chars().take(longest).map(|c| if odd(c) { '_' } else { c }).collect()
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
        assert!(Owner::new(&"h".repeat(300), u32::MAX, u64::MAX).ended().len() < Owner::LONGEST);
        let long = "x".repeat(300);
        let reason = "r".repeat(Owner::LONGEST_REASON);
        let pause = Owner::of_pause(&long, &long, u64::MAX, Some(Timestamp(9_999_999_999_999)), &reason);
        assert!(pause.ended().len() <= Owner::LONGEST, "{}", pause.ended().len());
    }
}
