//! A connection to one server: logs in, sends statements, and reads their results.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::auth::{self, Plugin};
use super::wire::{
    self, Capabilities, Column, Completed, FirstPacket, LoginStep, NextPacket, ProtocolError, ServerError,
};
use crate::backend::net::bounds::{ANSWER_BYTES, LISTING_BYTES};
use crate::backend::net::stream::Stream;
use crate::backend::sql::engine;
use crate::lock::BackendError;
use crate::system::Moment;

/// Says why a connection could not be opened or used.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// The server's own error. After the login the connection can be used on.
    Answer(ServerError),
    Network(io::Error),
    /// The server breaks the protocol, or is no MySQL server.
    Protocol(ProtocolError),
    /// TLS is a must, and the server offers none.
    NoTls,
    /// The server wants a kind of login that shedlock does not know.
    Login(String),
    /// An error that shedlock itself has found.
    Backend(BackendError),
}

/// Holds an open connection.
pub(crate) struct Link {
    packets: Packets,
    state: State,
    /// Time limit for one server to answer.
    share: Duration,
    /// Set if the server can say with a result what has changed in the session.
    pub(crate) tells_changes: bool,
}

/// Says how long the answer to statements may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A few rows, within the share of one server.
    Answer,
    /// As many rows as a table has. They have to come without a pause that is as long as the share.
    Listing,
}

/// The longest time that a listing may take.
const MAX_LISTING_TIME: Duration = Duration::from_secs(600);

/// Says what the server has to send next.
#[derive(Clone, Copy)]
enum State {
    Nothing,
    Result,
    /// Rows with so many columns.
    Rows(usize),
}

/// Holds a part of the answer to statements.
pub(crate) enum AnswerPart {
    /// A statement without rows is done.
    Completed(Completed),
    /// The columns of a statement's rows.
    Columns(Vec<Column>),
    Row(engine::Row),
    /// The rows have ended, and with them the statement.
    End,
}

/// Says how to log in.
pub(crate) struct Opening<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
    /// The database that statements are about; empty if there is none.
    pub(crate) database: &'a str,
    /// TLS, with the name that the certificate is to have.
    pub(crate) tls: Option<(&'a str, Arc<ClientConfig>)>,
    /// Set if the connection goes on in the clear where the server offers no TLS.
    pub(crate) may_do_without: bool,
    /// Set if no other host can listen, as on a Unix socket.
    pub(crate) is_private: bool,
}

impl Link {
    /// Logs in on a stream that has just been connected, within its limits. Then each read may wait for `share`.
    pub(crate) fn open(stream: Stream, opening: Opening<'_>, share: Duration) -> Result<Self, LinkError> {
        let mut packets = Packets { stream, unread: Vec::new(), read: 0, number: 0 };
        let greeting = wire::read_greeting(packets.receive()?)??;
        let capabilities = Capabilities::new(&greeting, !opening.database.is_empty(), opening.tls.is_some());
        if let Some((name, config)) = opening.tls {
            if capabilities.has_tls() {
                packets = packets.secure(capabilities, name, config)?;
            } else if !opening.may_do_without {
                return Err(LinkError::NoTls);
            }
        }
        let plugin = Plugin::from_name(&greeting.plugin).unwrap_or(Plugin::Native);
        let answer = plugin.answer(opening.password, &greeting.nonce);
        packets.send(&wire::login(capabilities, opening.user, opening.database, plugin.name(), &answer))?;
        let is_private = opening.is_private || capabilities.has_tls();
        let login = Login { password: opening.password, plugin, nonce: greeting.nonce, is_private };
        login.finish(&mut packets)?;
        packets.stream.limit_each(share)?;
        Ok(Self { packets, state: State::Nothing, share, tells_changes: capabilities.tells_changes() })
    }

    /// Sends statements in one message. A connection that has not brought all of an answer is not asked again: what comes late
    /// would be taken for the next answer.
    pub(crate) fn ask(&mut self, statements: &str, extent: Extent) -> Result<(), LinkError> {
        if !matches!(self.state, State::Nothing) {
            return Err(io::Error::from(io::ErrorKind::NotConnected).into());
        }
        let (most, limit) = match extent {
            Extent::Answer => (ANSWER_BYTES, self.share),
            Extent::Listing => (LISTING_BYTES, self.share.max(MAX_LISTING_TIME)),
        };
        self.packets.stream.limit_answer(most, Moment::now() + limit);
        (self.packets.number, self.state) = (0, State::Result);
        Ok(self.packets.send(&wire::query(statements))?)
    }

    /// Waits for the next part of the answer; `None` after the last one.
    pub(crate) fn next(&mut self) -> Result<Option<AnswerPart>, LinkError> {
        let part = self.part();
        if matches!(part, Err(LinkError::Answer(_))) {
            self.state = State::Nothing;
        }
        part
    }

    fn part(&mut self) -> Result<Option<AnswerPart>, LinkError> {
        let (part, state) = match self.state {
            State::Nothing => return Ok(None),
            State::Result => match wire::read_first(self.packets.receive()?)?? {
                FirstPacket::Completed(done) => (AnswerPart::Completed(done), State::after(done.more)),
                FirstPacket::Rows(count) => (AnswerPart::Columns(self.columns(count)?), State::Rows(count)),
            },
            State::Rows(count) => match wire::read_next(self.packets.receive()?, count)?? {
                NextPacket::Row(row) => (AnswerPart::Row(row), State::Rows(count)),
                NextPacket::End(more) => (AnswerPart::End, State::after(more)),
            },
        };
        self.state = state;
        Ok(Some(part))
    }

    fn columns(&mut self, count: usize) -> Result<Vec<Column>, LinkError> {
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(wire::read_column(self.packets.receive()?)??);
        }
        wire::read_end_of_columns(self.packets.receive()?)??;
        Ok(columns)
    }
}

impl State {
    fn after(more: bool) -> Self {
        if more { Self::Result } else { Self::Nothing }
    }
}

/// Servers log a connection that ends without a farewell as an error.
impl Drop for Link {
    fn drop(&mut self) {
        self.packets.number = 0;
        // Nothing waits for this, and a server that is gone needs none.
        let _ = self.packets.send(wire::QUIT);
    }
}

/// Carries a login on after its first message.
struct Login<'a> {
    password: &'a str,
    plugin: Plugin,
    nonce: [u8; wire::NONCE],
    is_private: bool,
}

impl Login<'_> {
    /// Answers what the server asks, until it accepts or refuses. A server may ask for another plugin once.
    fn finish(mut self, packets: &mut Packets) -> Result<(), LinkError> {
        let mut step = wire::read_login_step(packets.receive()?)??;
        if let LoginStep::Switch(plugin, data) = step {
            self.plugin =
                Plugin::from_name(&plugin).ok_or_else(|| LinkError::Login(explain_unknown_plugin(&plugin)))?;
            self.nonce = wire::nonce_from(&data);
            packets.send(&self.plugin.answer(self.password, &self.nonce))?;
            step = wire::read_login_step(packets.receive()?)??;
        }
        match (self.plugin, step) {
            (_, LoginStep::LoggedIn) => Ok(()),
            (Plugin::CachingSha2, LoginStep::More(said)) => self.finish_caching(packets, &said),
            _ => Err(UNEXPECTED.into()),
        }
    }

    /// Answers the server, which has said whether it has cached the password's hash.
    fn finish_caching(&self, packets: &mut Packets, said: &[u8]) -> Result<(), LinkError> {
        match said {
            [HASH_IS_CACHED] => {}
            [PASSWORD_NEEDED] if self.is_private => packets.send(&[self.password.as_bytes(), &[0]].concat())?,
            [PASSWORD_NEEDED] => {
                packets.send(&[REQUEST_KEY])?;
                let LoginStep::More(key) = wire::read_login_step(packets.receive()?)?? else {
                    return Err(UNEXPECTED.into());
                };
                let sealed = auth::encrypt(self.password, &self.nonce, &key);
                packets.send(&sealed.ok_or(ProtocolError("its key for passwords is none"))?)?;
            }
            _ => return Err(UNEXPECTED.into()),
        }
        match wire::read_login_step(packets.receive()?)?? {
            LoginStep::LoggedIn => Ok(()),
            _ => Err(UNEXPECTED.into()),
        }
    }
}

const UNEXPECTED: ProtocolError = ProtocolError("unexpected packet");
/// The server has cached the password's hash, and accepts the answer.
const HASH_IS_CACHED: u8 = 3;
/// The server needs the password itself.
const PASSWORD_NEEDED: u8 = 4;
/// Asks for the key with which the password is encrypted.
const REQUEST_KEY: u8 = 2;

fn explain_unknown_plugin(plugin: &str) -> String {
    match plugin {
        "mysql_old_password" => "`old_mysql_password` plugin is insecure and disabled by default".to_owned(),
        other => format!("unknown authentication protocol: `{}`", other.chars().take(64).collect::<String>()),
    }
}

/// Sends and receives packets over a stream.
struct Packets {
    stream: Stream,
    unread: Vec<u8>,
    /// Number of bytes in `unread` that belong to packets that were read.
    read: usize,
    /// The number of the next packet, in either direction.
    number: u8,
}

impl Packets {
    fn send(&mut self, body: &[u8]) -> io::Result<()> {
        self.stream.send(&wire::packets(body, self.number))?;
        let count = body.len() / wire::MAX_PACKET_BODY + 1;
        self.number = self.number.wrapping_add(u8::try_from(count % 256).unwrap_or(0));
        Ok(())
    }

    /// Receives the body of a packet. Memory grows with what has come, not with what was announced.
    fn receive(&mut self) -> Result<&[u8], LinkError> {
        loop {
            if let Some((length, number)) = wire::head(&self.unread[self.read..]) {
                if number != self.number {
                    return Err(ProtocolError("packets out of sync").into());
                }
                if length > wire::MAX_PACKET {
                    return Err(ProtocolError("a packet is longer than any that shedlock needs").into());
                }
                let from = self.read + wire::HEAD_LENGTH;
                if self.unread.len() - from >= length {
                    self.read = from + length;
                    self.number = self.number.wrapping_add(1);
                    return Ok(&self.unread[from..self.read]);
                }
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.unread.drain(..self.read);
        self.read = 0;
        let mut part = [0; 8192];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.unread.extend_from_slice(&part[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Speaks TLS from here on. What came in the clear after the greeting is not from the server.
    fn secure(mut self, capabilities: Capabilities, name: &str, config: Arc<ClientConfig>) -> Result<Self, LinkError> {
        if self.read < self.unread.len() {
            return Err(UNEXPECTED.into());
        }
        self.send(&wire::tls_request(capabilities))?;
        let stream = self.stream.secure(name, config).map_err(LinkError::Backend)?;
        Ok(Self { stream, ..self })
    }
}

impl From<ServerError> for LinkError {
    fn from(complaint: ServerError) -> Self {
        Self::Answer(complaint)
    }
}

impl From<ProtocolError> for LinkError {
    fn from(strange: ProtocolError) -> Self {
        Self::Protocol(strange)
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Network(error)
    }
}

#[cfg(test)]
mod tests;
