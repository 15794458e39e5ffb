//! The connections under HTTP: name lookup and TLS as for every other backend.

use std::fmt;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
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

use super::super::network::Host;
use super::super::note_reached;

/// How far the present request has come, which an error of ureq does not say.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Set while a connection is opened: the request was not sent yet.
    connecting: AtomicBool,
    /// Set once the server, or its kernel, has accepted the connection.
    accepted: AtomicBool,
    tls_version: Mutex<Option<&'static str>>,
}

impl Progress {
    /// Notes that a request begins. It may use an open connection.
    pub(super) fn begin(&self) {
        self.0.connecting.store(false, Ordering::Relaxed);
    }

    /// Returns whether the request may have been sent.
    pub(super) fn is_connected(&self) -> bool {
        !self.0.connecting.load(Ordering::Relaxed)
    }

    /// Returns whether the connection was accepted, so that silence is the server's.
    pub(super) fn is_accepted(&self) -> bool {
        self.0.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn tls_version(&self) -> Option<&'static str> {
        *self.0.tls_version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connecting(&self) {
        self.0.connecting.store(true, Ordering::Relaxed);
        self.0.accepted.store(false, Ordering::Relaxed);
    }

    fn accepted(&self) {
        self.0.accepted.store(true, Ordering::Relaxed);
    }

    fn connected(&self, tls_version: Option<&'static str>) {
        *self.0.tls_version.lock().unwrap_or_else(PoisonError::into_inner) = tls_version;
        self.0.connecting.store(false, Ordering::Relaxed);
        note_reached();
    }
}

/// Looks names up as for every other backend.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) default_port: u16,
}

impl Resolver for Names {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.authority().and_then(|authority| Host::parse(authority.as_str()).ok());
        let found = host.ok_or(Error::HostNotFound)?.addresses(self.default_port).map_err(|_| Error::HostNotFound)?;
        let mut addresses = self.empty();
        // There is room for this many.
        found.into_iter().take(16).for_each(|address| addresses.push(address));
        Ok(addresses)
    }
}

/// Opens connections, with TLS if there is a configuration.
pub(super) struct Connector {
    tcp: TcpConnector,
    tls: Option<Arc<ClientConfig>>,
    progress: Progress,
}

impl Connector {
    pub(super) fn new(tls: Option<ClientConfig>, progress: Progress) -> Self {
        Self { tcp: TcpConnector::default(), tls: tls.map(Arc::new), progress }
    }
}

impl Connect for Connector {
    type Out = Box<dyn Transport>;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<Self::Out>, Error> {
        self.progress.connecting();
        let Some(tcp) = self.tcp.connect(details, None::<()>)?.map(Transport::boxed) else {
            return Ok(None);
        };
        self.progress.accepted();
        let Some(config) = &self.tls else {
            self.progress.connected(None);
            return Ok(Some(tcp));
        };
        let secure = Secure::open(tcp, Arc::clone(config), details)?;
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

/// A connection with TLS.
pub(super) struct Secure {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl Secure {
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

impl Transport for Secure {
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

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secure")
    }
}
