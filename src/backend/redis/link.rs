//! A connection to one server: how it is opened, and how commands and answers go over it.

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

/// How to open a connection, whichever the server.
pub(super) struct Terms {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
    /// `None` for a connection in the clear.
    pub(super) tls: Option<Tls>,
    /// How long one server may take whose connection is no attempt among several.
    pub(super) timeout: Duration,
}

/// Whom a connection is opened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Server,
    Sentinel(Login),
}

/// Whether a sentinel is told who we are. Most know no users, and then refuse to hear of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Login {
    Without,
    With,
}

/// An open connection. It is dropped after any trouble, lest an answer that comes late be taken for the next one.
pub(super) struct Link {
    connection: Connection,
    host: Host,
    /// For messages.
    name: String,
    /// How long each answer may take.
    limit: Duration,
}

impl Link {
    /// Connects, logs in and selects the database. Nothing is asked of the server that is not needed for that.
    pub(super) fn open(host: &Host, peer: Peer, terms: &Terms, limit: Duration) -> Result<Self, BackendError> {
        let name = terms.name(host, peer);
        let within = |error: &RedisError| errors::of_connecting(error, limit).named(&name);
        let connect = || {
            let info = address(host, peer, terms)?.into_connection_info().map_err(|error| within(&error))?;
            host.prepare_lookup();
            // The driver's own greeting is left out: its answer to a login hides what the server said.
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

    /// Sends commands in one go and returns as many answers; a refusal by the server is among them.
    pub(super) fn ask(&mut self, commands: &[Cmd]) -> Result<Vec<Value>, BackendError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
        if let Err(error) = self.connection.send_packed_command(&packed) {
            // Half a command is never carried out. A server that has hung up may have said why.
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
                // What a server says before it hangs up is said once, whatever it was asked.
                Err(_) if matches!(answers.last(), Some(Value::ServerError(_))) => break,
                Err(error) => {
                    let named = errors::of_connection(&error, self.limit).named(&self.name);
                    return Err(if errors::is_handshake(&error) { named } else { named.ambiguous() });
                }
            }
        }
        Ok(answers)
    }

    /// Sends one command and returns its answer, which may be a refusal.
    pub(super) fn one(&mut self, command: Cmd) -> Result<Value, BackendError> {
        Ok(self.ask(&[command])?.pop().unwrap_or_default())
    }

    /// Makes trouble of a server's refusal.
    pub(super) fn check(&self, answer: Value) -> Result<Value, BackendError> {
        match answer {
            Value::ServerError(error) => Err(errors::of_answer(&error).named(&self.name)),
            answer => Ok(answer),
        }
    }
}

impl Terms {
    /// The server as it is named in messages.
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

/// The port of a host that names none.
pub(super) fn port_of(peer: Peer) -> u16 {
    if peer == Peer::Server { 6379 } else { 26379 }
}

fn with_port(host: &Host, peer: Peer) -> Host {
    Host { port: Some(port(host, peer)), ..host.clone() }
}

/// The address in the driver's words.
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
