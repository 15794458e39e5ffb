//! The settings with which a backend is opened, and the opened backend. Opening parses the URL; it does not connect.

use std::path::PathBuf;
use std::time::Duration;

use super::contact::Contact;
use super::contract::Admin;
use super::net::detour::Detour;
#[cfg(any(test, feature = "tls"))]
use super::net::url::Url;
use super::rotation::Rotation;
use crate::system::Helpers;

/// Holds a backend that has not connected yet, with what its caller needs to know of it.
pub(crate) struct Opened {
    pub(crate) backend: Box<dyn Admin>,
    /// The backend's URL, valid from any directory; never with a password.
    pub(crate) address: String,
    pub(crate) pace: Pace,
    /// Reads the login again after the server has refused it; `None` if it is not from a file.
    pub(crate) rotation: Option<Rotation>,
    /// Notes whether a request may have reached the backend.
    pub(crate) contact: Contact,
    /// Knows the programs that the backend has started.
    pub(crate) helpers: Helpers,
    /// The provider: the program that asks the store, if it is not linked in.
    pub(crate) provider: Option<PathBuf>,
}

impl Opened {
    /// Wraps a backend to which a connection costs some milliseconds.
    #[cfg(any(test, feature = "tls"))]
    pub(crate) fn server(backend: impl Admin + 'static, url: &Url, access: &Access) -> Self {
        let contact = access.contact.clone();
        Self {
            backend: Box::new(backend),
            address: url.public(),
            pace: Pace::OF_SERVERS,
            rotation: None,
            contact,
            helpers: access.helpers.clone(),
            provider: None,
        }
    }

    /// Returns the backend's name in messages: its URL without the parameters.
    pub(crate) fn name(&self) -> String {
        self.address.split('?').next().unwrap_or_default().to_owned()
    }
}

/// Sets the pauses between tries: they double from `first` to `longest`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Pace {
    /// Suits a backend to which a connection costs some milliseconds.
    #[cfg(any(test, feature = "tls"))]
    pub(crate) const OF_SERVERS: Self = Self { first: Duration::from_millis(20), longest: Duration::from_millis(500) };
}

/// Holds the settings that a backend needs in addition to its URL.
#[derive(Clone, Default)]
pub(crate) struct Access {
    /// The password for a URL without one.
    pub(crate) password: Option<String>,
    /// The time for one try, all servers of the URL together.
    pub(crate) timeout: Duration,
    /// Says whether a request may have come to the backend. The connections note it.
    pub(crate) contact: Contact,
    /// Starts the programs of a backend that has some.
    #[cfg_attr(
        not(any(test, feature = "tls")),
        expect(dead_code, reason = "no backend of this build starts a program")
    )]
    pub(crate) helpers: Helpers,
    /// Shows what such a program writes to its stderr.
    #[cfg_attr(not(feature = "provider"), expect(dead_code, reason = "no backend of this build starts a program"))]
    pub(crate) shows_stderr: bool,
    /// Leads connections by TCP to a relay, and does harm to providers.
    #[cfg_attr(
        not(any(
            feature = "postgres",
            feature = "mysql",
            feature = "redis",
            feature = "http",
            feature = "zookeeper",
            feature = "provider"
        )),
        expect(dead_code, reason = "nothing goes to a server or a provider")
    )]
    pub(crate) detour: Detour,
}
