//! The connections under HTTP: name lookup and TLS as for every other backend.

use std::fmt;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector as Connect, LazyBuffers, NextTimeout, TcpConnector, Transport,
    TransportAdapter,
};

use super::super::bounds::{GREETING_BYTES, TooLong};
use super::super::detour::Detour;
use super::super::network::Host;
use crate::backend::Contact;

/// Follows the progress of the present request, which an error of ureq does not have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Set while a connection is opened: the request was not sent yet.
    connecting: AtomicBool,
    /// Set once the server, or its kernel, has accepted the connection.
    accepted: AtomicBool,
    /// Bytes that the server may send as long as the request lasts, and how many of those that it may send now are left.
    max_bytes: AtomicUsize,
    left: AtomicUsize,
    tls_version: Mutex<Option<&'static str>>,
    contact: Contact,
}

impl Progress {
    /// Creates the progress of requests that note in `contact` when a connection was opened.
    pub(crate) fn noting(contact: &Contact) -> Self {
        Self(Arc::new(State { contact: contact.clone(), ..State::default() }))
    }

    /// Notes that a request begins, and how many bytes its answer may have. It may use an open connection.
    pub(crate) fn begin(&self, max_bytes: usize) {
        self.0.connecting.store(false, Ordering::Relaxed);
        self.0.max_bytes.store(max_bytes, Ordering::Relaxed);
        self.0.left.store(max_bytes, Ordering::Relaxed);
    }

    /// Returns whether the request may have been sent.
    pub(crate) fn is_connected(&self) -> bool {
        !self.0.connecting.load(Ordering::Relaxed)
    }

    /// Returns whether the connection was accepted, so that silence is the server's.
    pub(crate) fn is_accepted(&self) -> bool {
        self.0.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn tls_version(&self) -> Option<&'static str> {
        *self.0.tls_version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connecting(&self) {
        self.0.connecting.store(true, Ordering::Relaxed);
        self.0.accepted.store(false, Ordering::Relaxed);
        self.0.left.store(GREETING_BYTES, Ordering::Relaxed);
    }

    fn accepted(&self) {
        self.0.accepted.store(true, Ordering::Relaxed);
    }

    fn connected(&self, tls_version: Option<&'static str>) {
        *self.0.tls_version.lock().unwrap_or_else(PoisonError::into_inner) = tls_version;
        self.0.connecting.store(false, Ordering::Relaxed);
        self.0.left.store(self.0.max_bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.0.contact.reached();
    }

    /// Fails if the server has sent all that it may.
    fn check_limit(&self) -> Result<(), Error> {
        if self.0.left.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let most = if self.is_connected() { self.0.max_bytes.load(Ordering::Relaxed) } else { GREETING_BYTES };
        Err(Error::Io(io::Error::new(io::ErrorKind::InvalidData, TooLong(most))))
    }

    fn received(&self, count: usize) {
        let left = self.0.left.load(Ordering::Relaxed);
        self.0.left.store(left.saturating_sub(count), Ordering::Relaxed);
    }
}

/// Looks names up as for every other backend.
#[derive(Debug)]
pub(crate) struct HostResolver {
    pub(crate) default_port: u16,
}

impl Resolver for HostResolver {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.authority().and_then(|authority| Host::parse(authority.as_str()).ok());
        let found = host.ok_or(Error::HostNotFound)?.addresses(self.default_port).map_err(|_| Error::HostNotFound)?;
        let mut addresses = self.empty();
        // ureq has room for sixteen addresses.
        found.into_iter().take(16).for_each(|address| addresses.push(address));
        Ok(addresses)
    }
}

/// Opens connections, with TLS if there is a configuration.
pub(crate) struct Connector {
    tcp: TcpConnector,
    tls: Option<Arc<ClientConfig>>,
    progress: Progress,
    detour: Detour,
}

impl Connector {
    pub(crate) fn new(tls: Option<ClientConfig>, progress: Progress, detour: Detour) -> Self {
        Self { tcp: TcpConnector::default(), tls: tls.map(Arc::new), progress, detour }
    }

    fn connect_tcp(&self, details: &ConnectionDetails<'_>) -> Result<Option<Box<dyn Transport>>, Error> {
        if self.detour.is_none() {
            return Ok(self.tcp.connect(details, None::<()>)?.map(Transport::boxed));
        }
        let addresses = u32::try_from(details.addrs.len()).unwrap_or(u32::MAX).max(1);
        let limit = *details.timeout.after / addresses;
        let mut found = Err(io::ErrorKind::NotFound.into());
        for address in &details.addrs {
            found = self.detour.to(*address, limit);
            if found.is_ok() {
                break;
            }
        }
        let mut addrs = details.resolver.empty();
        addrs.push(found.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Error::Timeout(details.timeout.reason),
            _ => Error::Io(error),
        })?);
        let details = ConnectionDetails {
            addrs,
            uri: details.uri,
            config: details.config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: details.now,
            timeout: details.timeout,
            current_time: Arc::clone(&details.current_time),
            run_connector: Arc::clone(&details.run_connector),
            register_shutdown: Arc::clone(&details.register_shutdown),
        };
        Ok(self.tcp.connect(&details, None::<()>)?.map(Transport::boxed))
    }
}

impl Connect for Connector {
    type Out = Box<dyn Transport>;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Self::Out>, Error> {
        self.progress.connecting();
        let Some(tcp) = self.connect_tcp(details)? else { return Ok(None) };
        let tcp = CountingTransport { tcp, progress: self.progress.clone() }.boxed();
        self.progress.accepted();
        let Some(config) = &self.tls else {
            self.progress.connected(None);
            return Ok(Some(tcp));
        };
        let secure = TlsTransport::open(tcp, Arc::clone(config), details)?;
        let version = secure.stream.conn.protocol_version().and_then(|version| version.as_str());
        self.progress.connected(version.or(Some("on")));
        Ok(Some(secure.boxed()))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// Counts what the server sends over a connection. Under TLS it counts the handshake too.
#[derive(Debug)]
struct CountingTransport {
    tcp: Box<dyn Transport>,
    progress: Progress,
}

impl Transport for CountingTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.tcp.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.tcp.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.progress.check_limit()?;
        let before = self.tcp.buffers().input().len();
        let goes_on = self.tcp.await_input(timeout)?;
        self.progress.received(self.tcp.buffers().input().len().saturating_sub(before));
        Ok(goes_on)
    }

    fn is_open(&mut self) -> bool {
        self.tcp.is_open()
    }
}

/// Carries a connection with TLS.
pub(crate) struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl TlsTransport {
    fn open(
        tcp: Box<dyn Transport>,
        config: Arc<ClientConfig>,
        details: &ConnectionDetails<'_>,
    ) -> Result<Self, Error> {
        let host = details.uri.host().unwrap_or_default();
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(|error| Error::BadUri(error.to_string()))?;
        let mut conn = ClientConnection::new(config, name).map_err(|error| Error::Other(error.into()))?;
        let mut sock = TransportAdapter::new(tcp, Arc::clone(&details.current_time));
        sock.set_timeout(details.timeout);
        conn.complete_io(&mut sock)?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Self { buffers, stream: StreamOwned { conn, sock } })
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        Ok(self.stream.write_all(&self.buffers.output()[..amount])?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secure")
    }
}
