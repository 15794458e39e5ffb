//! The connection to one server: its session, and requests that are sent together.
//!
//! Nothing of shedlock's depends on a session. It is opened with the first requests, in one round trip, and its end
//! frees no lock.

use std::io::{self, Read};
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::errors;
use super::wire::{self, Answer, Greeting, Request};
use crate::backend::net::hosts::{Bound, first_of};
use crate::backend::net::network::Host;
use crate::backend::net::stream::Stream;
use crate::backend::net::tls::Tls;
use crate::backend::{Contact, Detour};
use crate::lock::BackendError;
use crate::system::Moment;

/// The default port, with TLS or without.
pub(crate) const PORT: u16 = 2181;
/// The time after which a server may end a silent session. Servers allow a part of it, from two to twenty ticks.
const SESSION_MS: i32 = 30_000;

/// Holds the settings that connections to all servers share.
pub(crate) struct ConnectionSettings {
    /// User and password of the scheme `digest`.
    pub(crate) login: Option<(String, String)>,
    pub(crate) tls: Option<Tls>,
    /// Time limit for one server to answer.
    pub(crate) answer_timeout: Duration,
    pub(crate) contact: Contact,
    pub(crate) detour: Detour,
}

/// Holds an open connection. shedlock closes it after any error, so that a late answer is not taken for the next one.
pub(crate) struct Connection {
    stream: Stream,
    /// The number of the last request.
    last_number: i32,
    /// The bytes that were read beyond the last message.
    unread: Vec<u8>,
}

impl Connection {
    /// Connects to the first address of a host that accepts, and opens a session with these requests.
    pub(crate) fn open(
        host: &Host,
        settings: &ConnectionSettings,
        bound: Bound,
        requests: &[Request],
    ) -> Result<(Self, Vec<Answer>), BackendError> {
        let addresses = host.addresses(PORT)?;
        let limit = bound.each(addresses.len());
        first_of(addresses, |address| Self::open_at(address, host, settings, limit, requests))
    }

    fn open_at(
        address: SocketAddr,
        host: &Host,
        settings: &ConnectionSettings,
        limit: Duration,
        requests: &[Request],
    ) -> Result<(Self, Vec<Answer>), BackendError> {
        let deadline = Moment::now() + limit;
        let mut stream =
            Stream::tcp(address, &settings.detour, limit).map_err(|error| errors::from_connecting(&error))?;
        if let Some(tls) = &settings.tls {
            stream = stream.secure(&host.name, Arc::new(tls.config()?))?;
        }
        let mut connection = Self { stream, last_number: 0, unread: Vec::new() };
        let mut opening = wire::greeting(SESSION_MS);
        if let Some((user, password)) = &settings.login {
            opening.extend(wire::login(user, password));
        }
        // The server reads no further until it has opened the session.
        opening.extend(connection.messages(requests));
        connection.stream.send(&opening).map_err(|error| errors::from_greeting(&error, settings.tls.as_ref()))?;
        let answer = connection.receive();
        let answer = answer.map_err(|error| errors::from_greeting(&error, settings.tls.as_ref()))?;
        match wire::read_greeting(&answer) {
            Some(Greeting::Session) => settings.contact.reached(),
            Some(Greeting::ReadOnly) => return Err(errors::read_only()),
            Some(Greeting::Expired) => return Err(BackendError::transient("the server opens no session")),
            None => return Err(errors::unexpected_answer()),
        }
        let answers = connection.answers(requests, deadline)?;
        connection.stream.limit_each(settings.answer_timeout).map_err(|error| errors::from_connection(&error))?;
        Ok((connection, answers))
    }

    /// Sends requests in one go and returns as many answers. Every error but that of a request comes from the network.
    pub(crate) fn ask(&mut self, requests: &[Request], limit: Duration) -> Result<Vec<Answer>, BackendError> {
        let messages = self.messages(requests);
        self.stream.send(&messages).map_err(|error| errors::from_connection(&error))?;
        self.answers(requests, Moment::now() + limit)
    }

    /// Ends the session, without a wait for the answer.
    pub(crate) fn close(mut self) {
        let message = Request::close().message(self.last_number + 1);
        // A session that is not ended in this way ends by itself.
        let _ = self.stream.send(&message);
    }

    fn messages(&mut self, requests: &[Request]) -> Vec<u8> {
        requests
            .iter()
            .flat_map(|request| {
                self.last_number = self.last_number.wrapping_add(1).max(1);
                request.message(self.last_number)
            })
            .collect()
    }

    fn answers(&mut self, requests: &[Request], deadline: Moment) -> Result<Vec<Answer>, BackendError> {
        self.stream.limit_answer(wire::longest_answers(requests), deadline);
        let count = requests.len();
        let first = self.last_number - i32::try_from(count).unwrap_or(0) + 1;
        let mut answers = Vec::with_capacity(count);
        let mut expected = first;
        while answers.len() < count {
            let message = self.receive().map_err(|error| errors::from_connection(&error))?;
            match wire::read_reply(message).ok_or_else(errors::unexpected_answer)? {
                (wire::LOGIN_ID, Ok(_)) => {}
                (wire::LOGIN_ID, Err(_)) => return Err(errors::refused_login()),
                (number, _) if wire::UNSOLICITED_IDS.contains(&number) => {}
                (number, answer) if number == expected => {
                    answers.push(answer);
                    expected += 1;
                }
                _ => return Err(errors::unexpected_answer()),
            }
        }
        Ok(answers)
    }

    /// Reads a message without its length. Memory grows with what has come, not with what was announced.
    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut part = [0; 4096];
        loop {
            if let Some((length, rest)) = self.unread.split_first_chunk() {
                let Some(end) =
                    usize::try_from(i32::from_be_bytes(*length)).ok().filter(|end| *end <= wire::MAX_ANSWER_BYTES)
                else {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, errors::too_long(*length)));
                };
                if rest.len() >= end {
                    let (head, rest) = (length.len(), self.unread.split_off(length.len() + end));
                    let mut message = mem::replace(&mut self.unread, rest);
                    message.drain(..head);
                    return Ok(message);
                }
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
    pub(crate) fn tls_version(&self) -> Option<&'static str> {
        self.stream.tls_version()
    }
}
