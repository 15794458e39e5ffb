//! The owner of a lock.

use std::fmt;
use std::time::Duration;

use super::holder::{self, Holder};
use crate::duration;
use crate::system::Timestamp;

/// The identity of one run, `HOST:PID:RANDOM`. It is unique per run, so that no run can free another's lock, not even one on
/// the same host with a recycled pid. The owner of a lock from `acquire` also contains its at-least, `HOST:PID:RANDOM:30s`,
/// since no process remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner(String);

impl Owner {
    /// The suffix of the stored owner of a lock that is still held although its run has ended.
    pub(crate) const ENDED_SUFFIX: &str = holder::ENDED_SUFFIX;
    pub(super) const PAUSE_REFUSAL: &str = "belongs to a pause, which `shedlock resume` ends";
    /// The width of the column in the Java library's tables.
    #[cfg(test)]
    const MAX_LENGTH: usize = 255;

    /// Creates the owner for a run on `host`. Spaces and colons in the host's name, which no real host name has, would break
    /// the form and become `_`; a very long name is cut.
    pub(crate) fn new(host: &str, pid: u32, random: u64) -> Self {
        Self(format!("{}:{pid}:{random:016x}", part(host, 128)))
    }

    /// Creates the owner for `acquire`, with its at-least.
    pub(crate) fn with_at_least(self, at_least: Duration) -> Self {
        match at_least.is_zero() {
            true => self,
            false => Self(format!("{}:{}", self.0, duration::format(at_least))),
        }
    }

    /// Returns the random part.
    #[cfg(any(test, feature = "sqlite", feature = "postgres", feature = "mysql", feature = "etcd"))]
    pub(super) fn random(&self) -> u64 {
        let part = self.0.split(':').nth(2);
        part.and_then(|part| u64::from_str_radix(part, 16).ok()).unwrap_or_default()
    }

    /// Parses the owner of a run; the error is the end of a sentence that begins with the owner's source.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if Holder::parse(text).pause().is_some() {
            return Err(Self::PAUSE_REFUSAL.to_owned());
        }
        if text.ends_with(Self::ENDED_SUFFIX) {
            return Err("belongs to a run that has ended; its lock frees when its time is up".to_owned());
        }
        let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
        let is_random = |part: &str| part.len() == 16 && part.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
        let is_written =
            |part: &str| duration::parse(part).is_ok_and(|read| !read.is_zero() && duration::format(read) == part);
        let good = match text.split(':').collect::<Vec<_>>()[..] {
            [host, pid, random] => part(host, 128) == host && is_number(pid) && is_random(random),
            [host, pid, random, at_least] => {
                part(host, 128) == host && is_number(pid) && is_random(random) && is_written(at_least)
            }
            _ => false,
        };
        match good {
            true => Ok(Self(text.to_owned())),
            false => Err("does not end with an owner such as web1:4711:00c0ffee00c0ffee".to_owned()),
        }
    }

    /// Returns the at-least that the owner contains.
    pub(crate) fn at_least(&self) -> Duration {
        let text = self.0.split(':').nth(3).filter(|_| !self.is_pause());
        text.and_then(|text| duration::parse(text).ok()).unwrap_or_default()
    }

    /// Creates the owner of a pause, `paused:USER@HOST:REASON:KEPT_UNTIL:RANDOM`, readable in any tool that shows the lock.
    /// `kept_until` is the end of the last run's at-least or every.
    pub(crate) fn for_pause(user: &str, host: &str, random: u64, kept_until: Option<Timestamp>, reason: &str) -> Self {
        let (user, host) = (part(user, 32), part(host, 64));
        let kept_until = kept_until.map(|until| until.0.to_string()).unwrap_or_default();
        Self(format!("{}{user}@{host}:{reason}:{kept_until}:{random:016x}", holder::PAUSE_PREFIX))
    }

    /// The most characters of a pause's reason.
    pub(crate) const MAX_REASON: usize = 100;

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this is the owner of a pause.
    pub(crate) fn is_pause(&self) -> bool {
        Holder::parse(&self.0).is_paused()
    }

    /// Returns the owner to store once the run has ended and the lock stays held.
    pub(crate) fn ended(&self) -> String {
        format!("{}{}", self.0, Self::ENDED_SUFFIX)
    }
}

/// Replaces the characters of a user's or host's name that have a meaning in an owner, and cuts a very long name.
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
        assert_eq!(Holder::parse(Owner::new("a:b c", 1, 0).as_str()).host(), "a_b_c");
    }

    #[test]
    fn the_owner_of_a_lock_that_was_handed_over_tells_its_at_least() {
        let owner = Owner::new("web1", 42, 255);
        assert_eq!(owner.clone().with_at_least(Duration::ZERO), owner);
        assert_eq!(owner.at_least(), Duration::ZERO);
        for millis in [1, 30_000, 5_400_500, 10 * 365 * 86_400_000] {
            let at_least = Duration::from_millis(millis);
            let kept = owner.clone().with_at_least(at_least);
            assert_eq!(Owner::parse(kept.as_str()), Ok(kept.clone()));
            assert_eq!((kept.at_least(), Holder::parse(kept.as_str()).host()), (at_least, "web1"));
            assert_eq!(Holder::parse(&kept.ended()).owner(), kept.as_str());
            assert!(Holder::parse(&kept.ended()).has_ended() && !kept.is_pause());
        }
    }

    #[test]
    fn only_what_was_an_owner_is_read_as_one() {
        let good = "web_1.example:42:00000000000000ff";
        for text in [good, "paused:1:0123456789abcdef", ":1:0123456789abcdef", &format!("{good}:30s")] {
            assert_eq!(Owner::parse(text).map(|owner| owner.0).as_deref(), Ok(text));
        }
        for text in [
            "",
            "java-host",
            "web1:42",
            "web1:x:00000000000000ff",
            "web1:42:ff",
            "web1:42:00000000000000FF",
            "a b:42:00000000000000ff",
            "web1:42:00000000000000ff:",
            "web1:42:00000000000000ff:soon",
            "web1:42:00000000000000ff:0s",
            "web1:42:00000000000000ff:30s:30s",
            "web1:42:00000000000000ff\n",
        ] {
            let why = Owner::parse(text).unwrap_err();
            assert!(why.contains("such as"), "{text}: {why}");
        }
        assert!(Owner::parse(&format!("{good}:ended")).unwrap_err().contains("has ended"));
        assert!(Owner::parse(&format!("{good}:30s:ended")).unwrap_err().contains("has ended"));
        let pause = Owner::for_pause("ada", "web1", 7, None, "disk");
        assert!(Owner::parse(pause.as_str()).unwrap_err().contains("shedlock resume"));
    }

    #[test]
    fn an_owner_fits_the_column_of_255_characters() {
        let longest = Duration::new(10 * 365 * 86_400 - 1, 999_999_999);
        let handed_over = Owner::new(&"h".repeat(300), u32::MAX, u64::MAX).with_at_least(longest);
        assert!(handed_over.ended().len() <= Owner::MAX_LENGTH, "{}", handed_over.ended().len());
        assert!(Owner::new(&"h".repeat(300), u32::MAX, u64::MAX).ended().len() < Owner::MAX_LENGTH);
        let long = "x".repeat(300);
        let reason = "r".repeat(Owner::MAX_REASON);
        let pause = Owner::for_pause(&long, &long, u64::MAX, Some(Timestamp(9_999_999_999_999)), &reason);
        assert!(pause.ended().len() <= Owner::MAX_LENGTH, "{}", pause.ended().len());
    }
}
