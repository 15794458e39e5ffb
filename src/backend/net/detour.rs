//! Another way to a store, by a relay of this process: `prove` cuts and freezes connections there, and kills and stops providers.
//! Names, TLS and messages stay those of the store.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "provider")]
use crate::system::Helper;

/// Stands between a client and its store.
pub(crate) trait Way: Send + Sync {
    /// Connects to a server within a limit, and returns an address that leads there.
    fn connect(&self, address: SocketAddr, limit: Duration) -> io::Result<SocketAddr>;

    /// Says what happens to a provider that is sent a request of so many bytes; `changes`: it is to change one that
    /// is there.
    #[cfg(feature = "provider")]
    fn on_request(&self, bytes: usize, changes: bool) -> Harm;

    /// Returns whether a provider is killed before these bytes of its answer are read.
    #[cfg(feature = "provider")]
    fn kills_on_answer(&self, bytes: usize) -> bool;

    /// Takes a provider that was stopped and is given up. It is to carry out what it was sent, as if that had been on its way.
    #[cfg(feature = "provider")]
    fn keep(&self, helper: Helper);
}

/// Harm that a trial does to a provider when it gets a request.
#[cfg(feature = "provider")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    None,
    /// Sends it the beginning of the request, and kills it so much later.
    Kill {
        after: usize,
        later: Duration,
    },
    /// Stops it for a while.
    Stop {
        time: Duration,
    },
    /// Stops it until it is given up, when [`Way::keep`] takes it.
    Freeze,
}

/// The way of a client; the default leads to the store itself.
#[derive(Clone, Default)]
pub(crate) struct Detour(Option<Arc<dyn Way>>);

impl Detour {
    /// Goes this way for each connection. Its error is that of the server: the relay has connected before it returns.
    pub(crate) fn new(way: Arc<dyn Way>) -> Self {
        Self(Some(way))
    }

    /// Returns the address to connect to instead of this one. Each answer is good for one connection.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "http", feature = "zookeeper")),
        expect(dead_code, reason = "no backend of this build connects by TCP")
    )]
    pub(crate) fn to(&self, address: SocketAddr, limit: Duration) -> io::Result<SocketAddr> {
        match &self.0 {
            None => Ok(address),
            Some(way) => way.connect(address, limit),
        }
    }

    /// Returns the way, unless the client leads to the store itself.
    #[cfg(feature = "provider")]
    pub(crate) fn way(&self) -> Option<&dyn Way> {
        self.0.as_deref()
    }

    /// Returns whether connections lead to the servers themselves.
    #[cfg(feature = "http")]
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for Detour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Detour" } else { "no detour" })
    }
}
