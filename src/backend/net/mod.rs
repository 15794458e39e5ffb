//! The way to a server: its URL, its hosts, TLS and HTTP. Nothing here may know a lock, or a store. Whatever a server
//! sends, the time and the memory that it costs are bounded.

#[cfg(feature = "tls")]
pub(crate) mod authorities;
#[cfg(any(
    feature = "postgres",
    feature = "provider",
    feature = "mysql",
    feature = "redis",
    feature = "http",
    feature = "zookeeper"
))]
pub(crate) mod bounds;
pub(crate) mod detour;
#[cfg(feature = "tls")]
pub(crate) mod hosts;
#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(any(test, feature = "http", feature = "zookeeper"))]
pub(crate) mod json;
#[cfg(feature = "tls")]
pub(crate) mod network;
#[cfg(any(feature = "mysql", feature = "redis", feature = "zookeeper"))]
pub(crate) mod stream;
#[cfg(feature = "tls")]
pub(crate) mod tls;
pub(crate) mod url;
