//! The holder of a lock, parsed from the stored owner.

use crate::system::Timestamp;

/// The suffix of the stored owner of a lock that is still held although its run has ended.
pub(super) const ENDED_SUFFIX: &str = ":ended";
/// The prefix of a pause's owner.
pub(super) const PAUSE_PREFIX: &str = "paused:";

/// A parsed owner. A Java application's is its host's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder<'a> {
    /// The owner without the mark of an ended run.
    owner: &'a str,
    ended: bool,
}

/// A pause, parsed from its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause<'a> {
    /// `USER@HOST`.
    pub(crate) by: &'a str,
    /// The reason; empty if none was given.
    pub(crate) reason: &'a str,
    /// The end of the last run's at-least or every, by the backend's clock, if the lock was kept when the pause began.
    pub(crate) kept_until: Option<Timestamp>,
}

impl<'a> Holder<'a> {
    pub(crate) fn parse(stored: &'a str) -> Self {
        let owner = stored.strip_suffix(ENDED_SUFFIX);
        Self { owner: owner.unwrap_or(stored), ended: owner.is_some() }
    }

    /// Returns the owner without the mark of an ended run.
    pub(crate) fn owner(&self) -> &'a str {
        self.owner
    }

    /// Returns whether the lock is kept, for at-least or every, after its run or pause has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns the pause, which holds the lock or has ended.
    pub(crate) fn pause(&self) -> Option<Pause<'a>> {
        let (by, rest) = self.owner.strip_prefix(PAUSE_PREFIX)?.split_once(':')?;
        let (rest, _random) = rest.rsplit_once(':')?;
        let (reason, kept_until) = rest.rsplit_once(':')?;
        by.contains('@').then(|| Pause { by, reason, kept_until: kept_until.parse().ok().map(Timestamp) })
    }

    /// Returns whether a pause holds the lock.
    pub(crate) fn is_paused(&self) -> bool {
        !self.ended && self.pause().is_some()
    }

    /// Returns host and pid of the shedlock process that took the lock; `None` for an owner of another form, such as a Java
    /// application's.
    pub(crate) fn process(&self) -> Option<(&'a str, &'a str)> {
        let mut parts = self.owner.split(':');
        let (host, pid, random) = (parts.next()?, parts.next()?, parts.next()?);
        // The at-least of a lock from `acquire` may follow.
        let ours = parts.nth(1).is_none() && pid.parse::<u32>().is_ok();
        (ours && random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some((host, pid))
    }

    /// Returns whether another program, such as a Java application, took the lock.
    pub(crate) fn is_foreign(&self) -> bool {
        let is_known = self.ended || !self.owner.is_empty();
        is_known && self.process().is_none() && self.pause().is_none()
    }

    /// Returns the holder's host, if the owner contains it.
    pub(crate) fn host(&self) -> &'a str {
        match self.pause() {
            Some(pause) => pause.by.rsplit('@').next().unwrap_or_default(),
            None => self.owner.split(':').next().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Owner;
    use super::*;

    #[test]
    fn a_pause_is_read_as_it_was_written() {
        for (reason, kept_until) in
            [("disk: replaced :ended", Some(Timestamp(1_234))), ("", None), (":::", Some(Timestamp(0)))]
        {
            let owner = Owner::for_pause("ada", "web1", 7, kept_until, reason);
            let holder = Holder::parse(owner.as_str());
            assert_eq!(holder.pause(), Some(Pause { by: "ada@web1", reason, kept_until }));
            assert!(holder.is_paused() && owner.is_pause());
            assert_eq!(holder.host(), "web1");
            let ended = owner.ended();
            assert!(!Holder::parse(&ended).is_paused());
            assert_eq!(Holder::parse(&ended).pause(), holder.pause());
        }
    }

    #[test]
    fn a_run_on_a_host_of_that_name_is_no_pause() {
        let owner = Owner::new("paused", 1, 2);
        assert!(!owner.is_pause() && Holder::parse(owner.as_str()).pause().is_none());
        assert_eq!(Holder::parse(owner.as_str()).host(), "paused");
    }

    #[test]
    fn only_a_run_has_a_process() {
        assert_eq!(Holder::parse("web1:42:00000000000000ff").process(), Some(("web1", "42")));
        assert_eq!(Holder::parse("web1:42:00000000000000ff:ended").process(), Some(("web1", "42")));
        assert_eq!(Holder::parse("web1:42:00000000000000ff:30s").process(), Some(("web1", "42")));
        for other in ["java-host", "", "a:b:00000000000000ff", "web1:42:ff", "web1:42:00000000000000ff:30s:x"] {
            assert_eq!(Holder::parse(other).process(), None, "{other}");
        }
        assert_eq!(Holder::parse(Owner::for_pause("a", "b", 1, None, "").as_str()).process(), None);
    }

    #[test]
    fn an_owner_of_another_form_is_foreign() {
        let run = Owner::new("web1", 42, 7);
        let pause = Owner::for_pause("ada", "web1", 7, None, "disk: full");
        for ours in ["", run.as_str(), &run.ended(), pause.as_str(), &pause.ended()] {
            assert!(!Holder::parse(ours).is_foreign(), "{ours}");
        }
        for foreign in ["java-host", "unknown", "web1:42", ":ended", "paused:"] {
            assert!(Holder::parse(foreign).is_foreign(), "{foreign}");
        }
    }

    #[test]
    fn any_owner_has_a_host() {
        for (stored, host, ended) in [
            ("web1.example:42:00000000000000ff", "web1.example", false),
            ("web1:42:00000000000000ff:ended", "web1", true),
            ("java-host", "java-host", false),
            ("", "", false),
            (":ended", "", true),
            ("paused:", "paused", false),
        ] {
            let holder = Holder::parse(stored);
            assert_eq!((holder.host(), holder.has_ended()), (host, ended), "{stored}");
        }
    }
}
