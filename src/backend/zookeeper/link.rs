//! The connection to one server: its session, and requests that are sent together.
//!
//! Nothing of shedlock's depends on a session. It is opened with the first requests, in one round trip, and its end
//! frees no lock.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use super::super::hosts::{Bound, first_of};
use super::super::network::Host;
use super::super::tls::Tls;
use super::super::{BackendError, note_reached};
use super::errors;
use super::wire::{self, Answer, Greeting, Request};
use crate::system::Moment;

/// The default port, with TLS or without.
pub(super) const PORT: u16 = 2181;
/// The time after which a server may end a silent session. Servers allow a part of it, from two to twenty ticks.
const SESSION: i32 = 30_000;

/// The settings that connections to all servers share.
pub(super) struct Terms {
    /// User and password of the scheme `digest`.
    pub(super) login: Option<(String, String)>,
    pub(super) tls: Option<Tls>,
    /// Time limit for one server to answer.
    pub(super) share: Duration,
}

/// An open connection. It is closed after any error, so that a late answer is not taken for the next one.
pub(super) struct Link {
    stream: Stream,
    /// The number of the last request.
    last: i32,
    /// What was read beyond the last message.
    unread: Vec<u8>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Link {
    /// Connects to the first address of a host that accepts, and opens a session with these requests.
    pub(super) fn open(
        host: &Host,
        terms: &Terms,
        bound: Bound,
        requests: &[Request],
    ) -> Result<(Self, Vec<Answer>), BackendError> {
        let addresses = host.addresses(PORT)?;
        let limit = bound.each(addresses.len());
        first_of(addresses, |address| Self::open_at(address, host, terms, limit, requests))
    }

    fn open_at(
        address: SocketAddr,
        host: &Host,
        terms: &Terms,
        limit: Duration,
        requests: &[Request],
    ) -> Result<(Self, Vec<Answer>), BackendError> {
        let deadline = Moment::now() + limit;
        let socket = TcpStream::connect_timeout(&address, limit).map_err(|error| errors::of_connecting(&error))?;
        let left = deadline.since(Moment::now()).max(Duration::from_millis(1));
        let set_up = socket.set_nodelay(true).and_then(|()| limit_answers(&socket, left));
        set_up.map_err(|error| errors::of_connecting(&error))?;
        let mut link = Self { stream: Stream::new(socket, host, terms)?, last: 0, unread: Vec::new() };
        let mut opening = wire::greeting(SESSION);
        if let Some((user, password)) = &terms.login {
            opening.extend(wire::login(user, password));
        }
        // The server reads no further until it has opened the session.
        opening.extend(link.messages(requests));
        link.stream.send(&opening).map_err(|error| errors::of_greeting(&error, terms.tls.as_ref()))?;
        let answer = link.receive(deadline);
        let answer = answer.map_err(|error| errors::of_greeting(&error, terms.tls.as_ref()))?;
        match wire::read_greeting(&answer) {
            Some(Greeting::Session) => note_reached(),
            Some(Greeting::ReadOnly) => return Err(errors::read_only()),
            Some(Greeting::Expired) => return Err(BackendError::transient("the server opens no session")),
            None => return Err(errors::strange()),
        }
        let answers = link.answers(requests.len(), deadline)?;
        limit_answers(link.stream.socket(), terms.share).map_err(|error| errors::of_connection(&error))?;
        Ok((link, answers))
    }

    /// Sends requests in one go and returns as many answers. Every error but that of a request comes from the network.
    pub(super) fn ask(&mut self, requests: &[Request], limit: Duration) -> Result<Vec<Answer>, BackendError> {
        let messages = self.messages(requests);
        self.stream.send(&messages).map_err(|error| errors::of_connection(&error))?;
        self.answers(requests.len(), Moment::now() + limit)
    }

    /// Ends the session, without a wait for the answer.
    pub(super) fn close(mut self) {
        let message = Request::close().message(self.last + 1);
        // A session that is not ended in this way ends by itself.
        let _ = self.stream.send(&message);
    }

    fn messages(&mut self, requests: &[Request]) -> Vec<u8> {
        requests
            .iter()
            .flat_map(|request| {
                self.last = self.last.wrapping_add(1).max(1);
                request.message(self.last)
            })
            .collect()
    }

    fn answers(&mut self, count: usize, deadline: Moment) -> Result<Vec<Answer>, BackendError> {
        let first = self.last - i32::try_from(count).unwrap_or(0) + 1;
        let mut answers = Vec::with_capacity(count);
        let mut expected = first;
        while answers.len() < count {
            let message = self.receive(deadline).map_err(|error| errors::of_connection(&error))?;
            match wire::read_reply(&message).ok_or_else(errors::strange)? {
                (wire::LOGIN, Ok(_)) => {}
                (wire::LOGIN, Err(_)) => return Err(errors::refused_login()),
                (number, _) if wire::UNASKED.contains(&number) => {}
                (number, answer) if number == expected => {
                    answers.push(answer);
                    expected += 1;
                }
                _ => return Err(errors::strange()),
            }
        }
        Ok(answers)
    }

    /// Reads a message without its length. The time limit of the socket is for each read; a server that sends a byte or
    /// an event now and then meets the deadline. Memory grows with what has come, not with what was announced.
    fn receive(&mut self, deadline: Moment) -> io::Result<Vec<u8>> {
        let mut part = [0; 4096];
        loop {
            if let Some((length, rest)) = self.unread.split_first_chunk() {
                let Some(end) = usize::try_from(i32::from_be_bytes(*length)).ok().filter(|end| *end <= wire::LONGEST)
                else {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, errors::too_long(*length)));
                };
                if let Some(message) = rest.get(..end).map(<[u8]>::to_vec) {
                    self.unread.drain(..length.len() + end);
                    return Ok(message);
                }
            }
            if Moment::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.stream.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.unread.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the version of TLS that was negotiated.
    pub(super) fn tls_version(&self) -> Option<&'static str> {
        let Stream::Tls(stream) = &self.stream else { return None };
        stream.conn.protocol_version().and_then(|version| version.as_str())
    }
}

impl Stream {
    fn new(socket: TcpStream, host: &Host, terms: &Terms) -> Result<Self, BackendError> {
        let Some(tls) = &terms.tls else { return Ok(Self::Plain(socket)) };
        let name = ServerName::try_from(host.name.clone())
            .map_err(|_| BackendError::permanent(format!("{} cannot be the name in a certificate", host.name)))?;
        let connection = ClientConnection::new(Arc::new(tls.config()?), name)
            .map_err(|error| BackendError::permanent(format!("TLS cannot be set up: {error}")))?;
        Ok(Self::Tls(Box::new(StreamOwned::new(connection, socket))))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes),
            Self::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(part),
            Self::Tls(stream) => stream.read(part),
        }
    }
}

fn limit_answers(socket: &TcpStream, limit: Duration) -> io::Result<()> {
    socket.set_read_timeout(Some(limit)).and_then(|()| socket.set_write_timeout(Some(limit)))
}
