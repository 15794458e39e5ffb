//! The connection to one server: opening it, sending commands and reading answers.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use ::redis::io::tcp::TcpSettings;
use ::redis::{
    Client, ClientTlsConfig, Cmd, Connection, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, RedisError,
    TlsCertificates, Value, cmd,
};

use super::super::network::Host;
use super::super::tls::{self, Checks, Tls};
use super::super::{BackendError, note_reached};
use super::errors;

/// The settings that connections to all servers share.
pub(super) struct Terms {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
    /// The TLS settings; `None` for a connection without TLS.
    pub(super) tls: Option<Tls>,
    /// Time limit of a connection to one server that is not one of several attempts.
    pub(super) timeout: Duration,
}

/// The role of the server that a connection is opened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Server,
    Sentinel(Login),
}

/// Says whether to log in at a sentinel with the user's name. Most sentinels have no users, and refuse such a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Login {
    Without,
    With,
}

/// An open connection. It is closed after any error, so that a late answer is not taken for the next one.
pub(super) struct Link {
    connection: Connection,
    host: Host,
    /// The server's name in messages.
    name: String,
    /// Time limit of each answer.
    limit: Duration,
}

impl Link {
    /// Connects, logs in and selects the database, and sends no command beyond these.
    pub(super) fn open(host: &Host, peer: Peer, terms: &Terms, limit: Duration) -> Result<Self, BackendError> {
        let name = terms.name(host, peer);
        let within = |error: &RedisError| errors::of_connecting(error, limit).named(&name);
        let connect = || {
            let info = address(host, peer, terms)?.into_connection_info().map_err(|error| within(&error))?;
            host.prepare_lookup();
            // The driver's own greeting is disabled: its answer to a login hides the server's.
            let info = info
                .set_redis_settings(RedisConnectionInfo::default().set_skip_set_lib_name())
                .set_tcp_settings(TcpSettings::default().set_nodelay(true));
            let client = Client::open(info).map_err(|error| within(&error))?;
            let connection = client.get_connection_with_timeout(limit).map_err(|error| within(&error))?;
            connection.set_read_timeout(Some(limit)).map_err(|error| within(&error))?;
            connection.set_write_timeout(Some(limit)).map_err(|error| within(&error))?;
            Ok(connection)
        };
        let connection = connect().map_err(|error: BackendError| error.named(&name))?;
        let mut link = Self { connection, host: host.clone(), name, limit };
        link.greet(peer, terms).map_err(|error| BackendError { ambiguous: false, ..error })?;
        note_reached();
        Ok(link)
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn greet(&mut self, peer: Peer, terms: &Terms) -> Result<(), BackendError> {
        let mut greeting = Vec::new();
        if peer != Peer::Sentinel(Login::Without) && (terms.user.is_some() || terms.password.is_some()) {
            let mut login = cmd("AUTH");
            if let Some(user) = &terms.user {
                login.arg(user);
            }
            login.arg(terms.password.as_deref().unwrap_or_default());
            greeting.push(login);
        }
        if peer == Peer::Server && terms.database != 0 {
            greeting.push(cmd("SELECT").arg(terms.database).clone());
        }
        for answer in self.ask(&greeting)? {
            self.check(answer)?;
        }
        Ok(())
    }

    /// Sends commands in one go and returns as many answers; a server's error is one of them.
    pub(super) fn ask(&mut self, commands: &[Cmd]) -> Result<Vec<Value>, BackendError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
        if let Err(error) = self.connection.send_packed_command(&packed) {
            // A server never executes half a command. If it closed the connection, its last answer may say why.
            if !error.is_timeout()
                && let Ok(refusal @ Value::ServerError(_)) = self.connection.recv_response()
            {
                return Ok(vec![refusal]);
            }
            return Err(errors::of_connection(&error, self.limit).named(&self.name));
        }
        let mut answers = Vec::new();
        for _ in commands {
            match self.connection.recv_response() {
                Ok(answer) => answers.push(answer),
                // A server answers once before it closes the connection, whatever the number of commands.
                Err(_) if matches!(answers.last(), Some(Value::ServerError(_))) => break,
                Err(error) => {
                    let named = errors::of_connection(&error, self.limit).named(&self.name);
                    return Err(if errors::is_handshake(&error) { named } else { named.ambiguous() });
                }
            }
        }
        Ok(answers)
    }

    /// Sends one command and returns its answer, which may be an error of the server.
    pub(super) fn one(&mut self, command: Cmd) -> Result<Value, BackendError> {
        Ok(self.ask(&[command])?.pop().unwrap_or_default())
    }

    /// Turns a server's error into a `BackendError`.
    pub(super) fn check(&self, answer: Value) -> Result<Value, BackendError> {
        match answer {
            Value::ServerError(error) => Err(errors::of_answer(&error).named(&self.name)),
            answer => Ok(answer),
        }
    }
}

impl Terms {
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
pub(super) fn port_of(peer: Peer) -> u16 {
    if peer == Peer::Server { 6379 } else { 26379 }
}

fn with_port(host: &Host, peer: Peer) -> Host {
    Host { port: Some(port(host, peer)), ..host.clone() }
}

/// Converts the address for the driver.
fn address(host: &Host, peer: Peer, terms: &Terms) -> Result<ConnectionAddr, BackendError> {
    let port = port(host, peer);
    if host.is_path() {
        return Ok(ConnectionAddr::Unix(PathBuf::from(&host.name)));
    }
    let Some(tls) = &terms.tls else { return Ok(ConnectionAddr::Tcp(host.name.clone(), port)) };
    tls::install_provider();
    tls.judge_files()?;
    let certificates = TlsCertificates {
        client_tls: match &tls.identity {
            None => None,
            Some(identity) => Some(ClientTlsConfig {
                client_cert: tls::read("sslcert", &identity.certificate)?,
                client_key: tls::read("sslkey", &identity.key)?,
            }),
        },
        root_cert: tls.authorities()?.map(Cow::into_owned),
    };
    let insecure = tls.checks() == Checks::Nothing;
    let bare = ConnectionAddr::TcpTls { host: host.name.clone(), port, insecure, tls_params: None };
    let built = bare.into_connection_info().and_then(|info| Client::build_with_tls(info, certificates));
    let mut address =
        built.map_err(|error| errors::of_connecting(&error, terms.timeout))?.get_connection_info().addr().clone();
    address.set_danger_accept_invalid_hostnames(tls.checks() == Checks::Authority);
    Ok(address)
}
