//! The connection to one server: opening it, sending commands and reading answers.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value, cmd};

use super::super::{Contact, Detour};
use super::errors;
use super::resp::AnswerReader;
use crate::backend::net::bounds::{ANSWER_BYTES, GREETING_BYTES};
use crate::backend::net::network::Host;
use crate::backend::net::stream::Stream;
use crate::backend::net::tls::Tls;
use crate::lock::BackendError;
use crate::system::Moment;

/// Bytes that are read at a time.
const READ_BYTES: usize = 16 << 10;
/// Bytes of an answer that the time limit is for: a long list may take several times as long.
const BYTES_PER_TIMEOUT: usize = 64 << 10;

/// Holds the settings that connections to all servers share.
pub(crate) struct ConnectionSettings {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
    /// The TLS settings; `None` for a connection without TLS.
    pub(crate) tls: Option<Tls>,
    /// Time limit of a connection to one server that is not one of several attempts.
    pub(crate) timeout: Duration,
    pub(crate) contact: Contact,
    pub(crate) detour: Detour,
}

/// Names the role of the server that a connection is opened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Server,
    Sentinel(SentinelLogin),
}

/// Says whether to log in at a sentinel with the user's name. Most sentinels have no users, and refuse such a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentinelLogin {
    Without,
    With,
}

/// Holds an open connection. shedlock closes it after any error, so that a late answer is not taken for the next one.
pub(crate) struct Connection {
    stream: Stream,
    /// The bytes that were read beyond the last answer.
    unparsed: Vec<u8>,
    host: Host,
    /// The server's name in messages.
    name: String,
    /// Time limit of each answer.
    limit: Duration,
}

impl Connection {
    /// Connects, logs in and selects the database, and sends no command beyond these.
    pub(crate) fn open(
        host: &Host,
        peer: Peer,
        settings: &ConnectionSettings,
        limit: Duration,
    ) -> Result<Self, BackendError> {
        let name = settings.name(host, peer);
        let begun = Moment::now();
        let stream = connect(host, peer, settings, limit).map_err(|error| error.named(&name))?;
        // Until here a read may wait for what connecting has left of the limit. Where that is most of it, two system calls
        // are spared.
        if Moment::now().since(begun) > limit / 8 {
            stream.limit_each(limit).map_err(|error| errors::from_connecting(&error, limit).named(&name))?;
        }
        let mut connection = Self { stream, unparsed: Vec::new(), host: host.clone(), name, limit };
        connection.greet(peer, settings).map_err(|error| BackendError { ambiguous: false, ..error })?;
        settings.contact.reached();
        Ok(connection)
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn greet(&mut self, peer: Peer, settings: &ConnectionSettings) -> Result<(), BackendError> {
        let mut greeting = Vec::new();
        if peer != Peer::Sentinel(SentinelLogin::Without) && (settings.user.is_some() || settings.password.is_some()) {
            let mut login = cmd("AUTH");
            if let Some(user) = &settings.user {
                login.arg(user);
            }
            login.arg(settings.password.as_deref().unwrap_or_default());
            greeting.push(login);
        }
        if peer == Peer::Server && settings.database != 0 {
            greeting.push(cmd("SELECT").arg(settings.database).clone());
        }
        for answer in self.ask(&greeting, GREETING_BYTES)? {
            self.check(answer)?;
        }
        Ok(())
    }

    /// Sends commands in one go and returns as many answers, of this many bytes together at most; a server's error is one
    /// of them.
    pub(crate) fn ask(&mut self, commands: &[Cmd], max_bytes: usize) -> Result<Vec<Value>, BackendError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
        let mut reader = AnswerReader::new(max_bytes);
        self.stream.limit_answer(max_bytes, Moment::now() + self.limit);
        if let Err(error) = self.stream.send(&packed) {
            // A server never executes half a command. If it closed the connection, its last answer may say why.
            if !errors::is_timeout(&error)
                && let Ok(refusal @ Value::ServerError(_)) = self.receive(&mut reader)
            {
                return Ok(vec![refusal]);
            }
            return Err(errors::from_connection(&error, self.limit).named(&self.name));
        }
        let mut answers = Vec::new();
        for _ in commands {
            match self.receive(&mut reader) {
                Ok(answer) => answers.push(answer),
                // A server answers once before it closes the connection, whatever the number of commands.
                Err(_) if matches!(answers.last(), Some(Value::ServerError(_))) => break,
                Err(error) => {
                    let named = errors::from_connection(&error, self.limit).named(&self.name);
                    return Err(if errors::is_handshake(&error) { named } else { named.ambiguous() });
                }
            }
        }
        Ok(answers)
    }

    /// Receives one answer; each stretch of it has the time limit.
    fn receive(&mut self, reader: &mut AnswerReader) -> io::Result<Value> {
        self.stream.wait_until(Moment::now() + self.limit);
        let (mut piece, mut stretch) = ([0; READ_BYTES], 0);
        loop {
            let (used, answer) = reader.read(&self.unparsed)?;
            self.unparsed.drain(..used);
            if let Some(answer) = answer {
                return Ok(answer);
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.unparsed.extend_from_slice(&piece[..count]);
                    stretch += count;
                    if stretch >= BYTES_PER_TIMEOUT {
                        stretch = 0;
                        self.stream.wait_until(Moment::now() + self.limit);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends one command and returns its answer, which may be an error of the server.
    pub(crate) fn ask_one(&mut self, command: Cmd) -> Result<Value, BackendError> {
        Ok(self.ask(&[command], ANSWER_BYTES)?.pop().unwrap_or_default())
    }

    /// Returns the version of TLS that was negotiated.
    pub(crate) fn tls_version(&self) -> Option<&'static str> {
        self.stream.tls_version()
    }

    /// Turns a server's error into a `BackendError`.
    pub(crate) fn check(&self, answer: Value) -> Result<Value, BackendError> {
        match answer {
            Value::ServerError(error) => Err(errors::from_answer(&error).named(&self.name)),
            answer => Ok(answer),
        }
    }
}

impl ConnectionSettings {
    /// Returns the server's name in messages.
    fn name(&self, host: &Host, peer: Peer) -> String {
        match peer {
            _ if host.is_path() => format!("redis+unix://{}", host.name),
            Peer::Sentinel(_) => format!("redis-sentinel://{}", with_port(host, peer)),
            Peer::Server if self.tls.is_some() => format!("rediss://{}", with_port(host, peer)),
            Peer::Server => format!("redis://{}", with_port(host, peer)),
        }
    }
}

fn port(host: &Host, peer: Peer) -> u16 {
    host.port.unwrap_or(port_of(peer))
}

/// Returns the default port.
pub(crate) fn port_of(peer: Peer) -> u16 {
    if peer == Peer::Server { 6379 } else { 26379 }
}

fn with_port(host: &Host, peer: Peer) -> Host {
    Host { port: Some(port(host, peer)), ..host.clone() }
}

/// Connects to the first address that accepts.
fn connect(host: &Host, peer: Peer, settings: &ConnectionSettings, limit: Duration) -> Result<Stream, BackendError> {
    let within = |error: &io::Error| errors::from_connecting(error, limit);
    if host.is_path() {
        return Stream::unix(Path::new(&host.name), limit).map_err(|error| within(&error));
    }
    let config = settings.tls.as_ref().map(Tls::config).transpose()?;
    let mut last_error = None;
    for address in host.addresses(port_of(peer))? {
        match Stream::tcp(address, &settings.detour, limit) {
            Ok(stream) => {
                return match config {
                    Some(config) => stream.secure(&host.name, Arc::new(config)),
                    None => Ok(stream),
                };
            }
            Err(error) => last_error = Some(error),
        }
    }
    Err(within(&last_error.unwrap_or_else(|| io::ErrorKind::NotFound.into())))
}
