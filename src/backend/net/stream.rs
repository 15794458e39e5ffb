//! The connection under a protocol that shedlock speaks itself: TCP or a Unix socket, with TLS or without. What a peer may send
//! is bounded, whatever it claims: so many bytes before the login, so many for each answer, and until a deadline.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::bounds::{GREETING_BYTES, TooLong};
use super::detour::Detour;
use crate::lock::BackendError;
use crate::system::Moment;

/// Limits every read of a connection in time and in bytes. The limits count what comes from the network, so they hold for a TLS
/// handshake too.
pub(crate) struct Stream(Transport);

enum Transport {
    Plain(Bounded),
    Tls(Box<StreamOwned<ClientConnection, Bounded>>),
}

struct Bounded {
    socket: Socket,
    /// Bytes that may still come.
    bytes_left: usize,
    /// Bytes that might come when the limit was set, for the error.
    max_bytes: usize,
    deadline: Moment,
}

enum Socket {
    Tcp(TcpStream),
    #[cfg_attr(
        not(any(feature = "mysql", feature = "redis")),
        expect(dead_code, reason = "ZooKeeper has no such sockets")
    )]
    Unix(UnixStream),
}

impl Stream {
    /// Connects to an address, or by the detour, within the limit, which is also that of the greeting.
    pub(crate) fn tcp(address: SocketAddr, detour: &Detour, limit: Duration) -> io::Result<Self> {
        let deadline = Moment::now() + limit;
        let socket = TcpStream::connect_timeout(&detour.to(address, limit)?, limit)?;
        socket.set_nodelay(true)?;
        Self::new(Socket::Tcp(socket), deadline)
    }

    /// Connects to a Unix socket; the limit is that of the greeting.
    #[cfg(any(feature = "mysql", feature = "redis"))]
    pub(crate) fn unix(path: &std::path::Path, limit: Duration) -> io::Result<Self> {
        Self::new(Socket::Unix(UnixStream::connect(path)?), Moment::now() + limit)
    }

    fn new(socket: Socket, deadline: Moment) -> io::Result<Self> {
        let socket = Bounded { socket, bytes_left: GREETING_BYTES, max_bytes: GREETING_BYTES, deadline };
        socket.limit_each(deadline.since(Moment::now()))?;
        Ok(Self(Transport::Plain(socket)))
    }

    /// Speaks TLS from here on. The handshake takes place with the next read or write.
    pub(crate) fn secure(self, host: &str, config: Arc<ClientConfig>) -> Result<Self, BackendError> {
        let Transport::Plain(socket) = self.0 else { return Ok(self) };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| BackendError::permanent(format!("{host} cannot be the name in a certificate")))?;
        let connection = ClientConnection::new(config, name)
            .map_err(|error| BackendError::permanent(format!("TLS cannot be set up: {error}")))?;
        Ok(Self(Transport::Tls(Box::new(StreamOwned::new(connection, socket)))))
    }

    /// Sets how long each read and write may wait from now on. Takes two system calls.
    pub(crate) fn limit_each(&self, limit: Duration) -> io::Result<()> {
        self.bounded().limit_each(limit)
    }

    /// Sets what the peer may send from here on, and until when. Takes no system call.
    pub(crate) fn limit_answer(&mut self, max_bytes: usize, deadline: Moment) {
        let bounded = self.bounded_mut();
        (bounded.bytes_left, bounded.max_bytes, bounded.deadline) = (max_bytes, max_bytes, deadline);
    }

    /// Sets until when the peer may send from here on, and leaves how much. Takes no system call.
    #[cfg(feature = "redis")]
    pub(crate) fn wait_until(&mut self, deadline: Moment) {
        self.bounded_mut().deadline = deadline;
    }

    /// Sends all of these bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Transport::Plain(socket) => socket.write_all(bytes),
            Transport::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    /// Returns the version of TLS that was negotiated.
    #[cfg(any(feature = "redis", feature = "zookeeper"))]
    pub(crate) fn tls_version(&self) -> Option<&'static str> {
        let Transport::Tls(stream) = &self.0 else { return None };
        stream.conn.protocol_version().and_then(|version| version.as_str())
    }

    fn bounded(&self) -> &Bounded {
        match &self.0 {
            Transport::Plain(socket) => socket,
            Transport::Tls(stream) => &stream.sock,
        }
    }

    fn bounded_mut(&mut self) -> &mut Bounded {
        match &mut self.0 {
            Transport::Plain(socket) => socket,
            Transport::Tls(stream) => &mut stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Transport::Plain(socket) => socket.read(part),
            Transport::Tls(stream) => stream.read(part),
        }
    }
}

impl Bounded {
    fn limit_each(&self, limit: Duration) -> io::Result<()> {
        // Zero would mean none.
        let limit = Some(limit.max(Duration::from_millis(1)));
        match &self.socket {
            Socket::Tcp(socket) => socket.set_read_timeout(limit).and_then(|()| socket.set_write_timeout(limit)),
            Socket::Unix(socket) => socket.set_read_timeout(limit).and_then(|()| socket.set_write_timeout(limit)),
        }
    }
}

impl Read for Bounded {
    fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
        if self.bytes_left == 0 {
            return Err(TooLong(self.max_bytes).into());
        }
        // The socket's own limit is for each read: a peer that sends a byte now and then would never meet it.
        if Moment::now() >= self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let max_bytes = part.len().min(self.bytes_left);
        let part = &mut part[..max_bytes];
        let read = match &mut self.socket {
            Socket::Tcp(socket) => socket.read(part),
            Socket::Unix(socket) => socket.read(part),
        }?;
        self.bytes_left -= read;
        Ok(read)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.socket {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::bounds::ANSWER_BYTES;
    use super::*;

    /// Returns a stream whose peer has sent these bytes and closed the connection.
    fn stream_with(bytes: &[u8]) -> Stream {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = Stream::tcp(listener.local_addr().unwrap(), &Detour::default(), Duration::from_secs(60)).unwrap();
        listener.accept().unwrap().0.write_all(bytes).unwrap();
        stream
    }

    #[test]
    fn a_peer_is_believed_so_many_bytes_and_no_more() {
        let mut stream = stream_with(&vec![7; GREETING_BYTES + 1]);
        let error = stream.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(TooLong::is(&error) && error.to_string() == "the server sent more than 64 KiB", "{error}");
        // The bytes that came before the next answer are not counted.
        stream.limit_answer(ANSWER_BYTES, Moment::now() + Duration::from_secs(60));
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 1);
    }

    #[test]
    fn a_deadline_holds_for_bytes_that_are_there() {
        let mut stream = stream_with(b"late");
        stream.limit_answer(ANSWER_BYTES, Moment::now());
        assert_eq!(stream.read(&mut [0; 4]).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
