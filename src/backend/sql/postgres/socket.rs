//! The socket under a session. The driver's own is out of reach for a bound on what comes from it.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::backend::Detour;

/// Time between probes of a silent connection, and their number.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_COUNT: u32 = 3;

/// Says where a server listens.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    /// The path of a socket.
    Unix(PathBuf),
}

/// Holds a connection over either kind of socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Address {
    /// Returns the address that the detour leads to.
    pub(crate) fn by(&self, detour: &Detour, limit: Duration) -> io::Result<Cow<'_, Self>> {
        match self {
            Self::Tcp(address) => detour.to(*address, limit).map(|address| Cow::Owned(Self::Tcp(address))),
            Self::Unix(_) => Ok(Cow::Borrowed(self)),
        }
    }

    /// Connects. The kernel ends the connection if the server has left data unacknowledged, or has shown no sign of life, for
    /// about `timeout`.
    pub(crate) async fn connect(&self, timeout: Duration) -> io::Result<Socket> {
        let stream = match self {
            Self::Tcp(address) => TcpStream::connect(address).await?,
            Self::Unix(path) => return UnixStream::connect(path).await.map(Socket::Unix),
        };
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        socket.set_tcp_user_timeout(Some(timeout))?;
        // Keepalives find a server that vanished with its machine while it owes an answer.
        let keepalive = TcpKeepalive::new().with_time(timeout).with_interval(PROBE_INTERVAL).with_retries(PROBE_COUNT);
        socket.set_tcp_keepalive(&keepalive)?;
        Ok(Socket::Tcp(stream))
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, into),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
