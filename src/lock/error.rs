//! The error of a backend: why a request failed, and whether trying again may help.

use std::time::Duration;

/// The reason why a request to a backend failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackendError {
    pub(crate) class: ErrorClass,
    /// The message: one line, in lower case, with the name of the backend.
    pub(crate) message: String,
    /// The remedy, for the `hint:` line.
    pub(crate) hint: Option<String>,
    /// Set if the request was sent but not answered: the backend may have executed it.
    pub(crate) ambiguous: bool,
    /// Set if a pooler may go on refusing after its server is back: then a release is tried for longer.
    pub(crate) lingers: bool,
    /// Set if the server refused the login, or what this login may do: another password may help.
    pub(crate) refuses_login: bool,
    /// The time for which the server wants no further request.
    pub(crate) respite: Option<Duration>,
}

/// The class of an error: it decides whether shedlock tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// The backend is busy, starting or failing over.
    Transient,
    /// The server works, and has no room for another client. A waiter waits for room as for a held lock.
    Overloaded,
    /// The error lasts until a person removes its cause.
    Permanent,
}

impl BackendError {
    pub(crate) fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            hint: None,
            ambiguous: false,
            lingers: false,
            refuses_login: false,
            respite: None,
        }
    }

    pub(crate) fn transient(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Transient, message)
    }

    pub(crate) fn permanent(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Permanent, message)
    }

    /// Returns the error for an acquisition that arrives after its owner has undone it.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
    pub(crate) fn undone() -> Self {
        Self::permanent("this request was given up before it arrived")
    }

    /// Marks the error as one after the request was sent.
    #[cfg(any(test, feature = "tls"))]
    pub(crate) fn ambiguous(self) -> Self {
        Self { ambiguous: true, ..self }
    }

    /// Marks the error as one that a pooler repeats after its server is back.
    #[cfg(feature = "postgres")]
    pub(crate) fn lingering(self) -> Self {
        Self { lingers: true, ..self }
    }

    /// Marks the error as one of the login.
    #[cfg(any(
        test,
        feature = "postgres",
        feature = "mysql",
        feature = "redis",
        feature = "etcd",
        feature = "zookeeper",
        feature = "provider"
    ))]
    pub(crate) fn refusing_login(self) -> Self {
        Self { refuses_login: true, ..self }
    }

    /// Notes the time for which the server wants no further request.
    #[cfg(feature = "http")]
    pub(crate) fn respite(self, respite: Option<Duration>) -> Self {
        Self { respite, ..self }
    }

    /// Puts `label`, such as `backend /var/lib/locks.db`, in front of the message, unless it names a backend already.
    #[cfg(any(test, feature = "tls", feature = "sqlite"))]
    pub(crate) fn naming(self, label: &str) -> Self {
        if self.message.starts_with("backend ") {
            return self;
        }
        Self { message: format!("{label}: {}", self.message), ..self }
    }

    /// Adds a hint with the remedy; an empty hint counts as none.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()).filter(|hint| !hint.is_empty()), ..self }
    }
}
