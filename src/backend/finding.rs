//! The findings of `shedlock check`: each is about one thing, and says what to do if it is not good.

use std::borrow::Cow;

use crate::lock::{BackendError, ErrorClass};

/// Says whether the lock that the command acquires after a backend's own checks can still be tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockTest {
    Possible,
    /// The findings so far mean that no lock can be acquired.
    Pointless,
}

/// Receives each finding of a check as soon as it is known.
pub(crate) type FindingSink<'a> = &'a mut dyn FnMut(Finding);

/// Says what a check found about one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) grade: Grade,
    /// The thing that was checked, in a word or two.
    pub(crate) subject: Cow<'static, str>,
    /// The result.
    pub(crate) seen: String,
    /// Names the remedy, if the result is not good.
    pub(crate) advice: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grade {
    Good,
    /// Locks work, and something may go wrong later.
    Unwise,
    /// Locks do not work, or not reliably.
    Bad,
}

impl Finding {
    pub(crate) fn good(subject: impl Into<Cow<'static, str>>, seen: impl Into<String>) -> Self {
        Self { grade: Grade::Good, subject: subject.into(), seen: seen.into(), advice: None }
    }

    pub(crate) fn unwise(
        subject: impl Into<Cow<'static, str>>,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { grade: Grade::Unwise, subject: subject.into(), seen: seen.into(), advice: Some(advice.into()) }
    }

    pub(crate) fn bad(
        subject: impl Into<Cow<'static, str>>,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { grade: Grade::Bad, subject: subject.into(), seen: seen.into(), advice: Some(advice.into()) }
    }

    /// Turns an error into a bad finding, without the name of the backend, which the check has printed already.
    pub(crate) fn from_error(subject: impl Into<Cow<'static, str>>, error: BackendError) -> Self {
        let said = error.message.strip_prefix("backend ").and_then(|rest| rest.split_once(": "));
        let seen = said.map_or(error.message.as_str(), |(_, said)| said).to_owned();
        let advice = error.hint.or_else(|| match error.class {
            ErrorClass::Permanent => None,
            ErrorClass::Transient | ErrorClass::Overloaded => {
                Some("it may be temporary: try again, and check that the backend is healthy".to_owned())
            }
        });
        Self { grade: Grade::Bad, subject: subject.into(), seen, advice }
    }

    /// Returns the finding for a query that the backend refuses, which leaves the matter open.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
    pub(crate) fn refused(subject: &'static str, error: BackendError) -> Self {
        let seen = format!("it cannot be checked: {}", Self::from_error(subject, error).seen);
        Self::unwise(subject, seen, "the test of a lock below shows whether locks work")
    }
}
