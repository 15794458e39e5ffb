//! Another way to a server, by a relay of this process: `prove` cuts and freezes connections there. Names, TLS and messages
//! stay those of the server.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Connects a relay to a server within a limit, and returns the relay's address.
type Way = dyn Fn(SocketAddr, Duration) -> io::Result<SocketAddr> + Send + Sync;

/// Leads connections to a relay; the default leads to the servers themselves.
#[derive(Clone, Default)]
pub(crate) struct Detour(Option<Arc<Way>>);

impl Detour {
    /// Asks `way` for each connection. Its error is that of the server: the relay has connected before it returns.
    pub(crate) fn new(way: impl Fn(SocketAddr, Duration) -> io::Result<SocketAddr> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(way)))
    }

    /// Returns the address to connect to instead of this one. Each answer is good for one connection.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "http", feature = "zookeeper"))]
    pub(crate) fn to(&self, address: SocketAddr, limit: Duration) -> io::Result<SocketAddr> {
        match &self.0 {
            None => Ok(address),
            Some(way) => way(address, limit),
        }
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
