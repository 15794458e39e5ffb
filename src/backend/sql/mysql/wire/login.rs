//! The packets of a login: the server's greeting, the answers to it, and what both sides can do.

use super::fields::{CUT, END, ERROR, Fields, OK, ProtocolError, ServerError, UNEXPECTED, read_server_error};

/// The longest packet that is read, more than any row or message that shedlock asks for.
pub(crate) const MAX_PACKET: usize = 1 << 20;

/// Capabilities, as the protocol numbers them.
pub(crate) const DATABASE: u32 = 1 << 3;
pub(crate) const PROTOCOL_41: u32 = 1 << 9;
pub(crate) const TLS: u32 = 1 << 11;
/// Capability to read the length of the answer to a nonce before the answer.
pub(crate) const ANSWER_LENGTH: u32 = 1 << 15;
pub(crate) const PLUGINS: u32 = 1 << 19;
pub(crate) const ATTRIBUTES: u32 = 1 << 20;
/// Capability to say with a result what has changed in the session.
pub(crate) const CHANGES: u32 = 1 << 23;
/// Capabilities of shedlock that a server need not have: long flags of columns, transactions, an answer of 20 bytes to a nonce,
/// several statements in one text and several results of them, and what these change in the session. It sends no file, and compresses nothing.
pub(crate) const CAPABILITIES: u32 =
    1 << 2 | PROTOCOL_41 | 1 << 13 | ANSWER_LENGTH | 1 << 16 | 1 << 17 | PLUGINS | ATTRIBUTES | CHANGES;
/// Capabilities that are assumed of every server, since some proxies do not name them.
pub(crate) const ASSUMED: u32 = ANSWER_LENGTH | DATABASE;
/// The collation utf8mb4_general_ci, which all servers know.
pub(crate) const COLLATION: u8 = 45;

/// Holds what the server's first packet says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) capabilities: u32,
    pub(crate) plugin: String,
    pub(crate) nonce: [u8; NONCE],
}

/// Length of the nonce with which the password is hashed.
pub(crate) const NONCE: usize = 20;

/// Says how the server answered a packet of the login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoginStep {
    LoggedIn,
    /// The server wants another plugin, with these data.
    Switch(String, Vec<u8>),
    /// The plugin's own data.
    More(Vec<u8>),
}

/// Holds the capabilities that both sides have. With TLS they are sent twice, and have to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities(pub(crate) u32);

impl Capabilities {
    /// Returns the capabilities for a login, to a database if it names one.
    pub(crate) fn new(greeting: &Greeting, names_database: bool, tls: bool) -> Self {
        let wanted = [(DATABASE, names_database), (TLS, tls)].into_iter().filter(|(_, is_wanted)| *is_wanted);
        Self(wanted.fold(CAPABILITIES, |all, (capability, _)| all | capability) & (greeting.capabilities | ASSUMED))
    }

    /// Returns whether both sides speak TLS.
    pub(crate) fn has_tls(self) -> bool {
        self.0 & TLS != 0
    }

    /// Returns whether the server can say with a result what has changed in the session.
    pub(crate) fn tells_changes(self) -> bool {
        self.0 & CHANGES != 0
    }
}

/// Returns the body of the message that asks to speak TLS.
pub(crate) fn tls_request(capabilities: Capabilities) -> Vec<u8> {
    login_head(capabilities.0)
}

/// Returns the body of the message that logs in. `answer` is the plugin's to the nonce of the greeting.
pub(crate) fn login(
    Capabilities(capabilities): Capabilities,
    user: &str,
    database: &str,
    plugin: &str,
    answer: &[u8],
) -> Vec<u8> {
    let mut body = login_head(capabilities);
    body.extend_from_slice(user.as_bytes());
    body.push(0);
    put_text(&mut body, answer);
    if capabilities & DATABASE != 0 {
        body.extend_from_slice(database.as_bytes());
        body.push(0);
    }
    if capabilities & PLUGINS != 0 {
        body.extend_from_slice(plugin.as_bytes());
        body.push(0);
    }
    if capabilities & ATTRIBUTES != 0 {
        let mut attributes = Vec::new();
        put_text(&mut attributes, b"program_name");
        put_text(&mut attributes, b"shedlock");
        put_text(&mut body, &attributes);
    }
    body
}

/// Returns the bytes with which the request for TLS and the login begin.
fn login_head(capabilities: u32) -> Vec<u8> {
    let longest = u32::try_from(MAX_PACKET).unwrap_or(u32::MAX);
    let mut body = [capabilities.to_le_bytes(), longest.to_le_bytes()].concat();
    body.push(COLLATION);
    body.extend_from_slice(&[0; 23]);
    body
}

/// Appends a text of its own length, which is a short one.
fn put_text(body: &mut Vec<u8>, text: &[u8]) {
    body.push(u8::try_from(text.len()).unwrap_or(0));
    body.extend_from_slice(text);
}

/// Reads the greeting, or the error in its place.
pub(crate) fn read_greeting(body: &[u8]) -> Result<Result<Greeting, ServerError>, ProtocolError> {
    let mut rest = Fields(body);
    match rest.byte() {
        Some(ERROR) => return read_server_error(body).map(Err),
        Some(10) => {}
        _ => return Err(ProtocolError("unsupported protocol version")),
    }
    let greeting = read_greeting_fields(&mut rest).ok_or(CUT)?;
    match greeting.capabilities & PROTOCOL_41 {
        0 => Err(ProtocolError("the server must set CLIENT_PROTOCOL_41 flag")),
        _ => Ok(Ok(greeting)),
    }
}

/// Reads a message during the login, or the error in its place.
pub(crate) fn read_login_step(body: &[u8]) -> Result<Result<LoginStep, ServerError>, ProtocolError> {
    match body {
        [ERROR, ..] => read_server_error(body).map(Err),
        [OK, ..] => Ok(Ok(LoginStep::LoggedIn)),
        // A server from before plugins knows only one way to prove a password.
        [END] => Ok(Ok(LoginStep::Switch("mysql_old_password".to_owned(), Vec::new()))),
        [END, rest @ ..] => {
            let mut rest = Fields(rest);
            let plugin = rest.string();
            Ok(Ok(LoginStep::Switch(plugin, rest.0.to_vec())))
        }
        [1, more @ ..] => Ok(Ok(LoginStep::More(more.to_vec()))),
        _ => Err(UNEXPECTED),
    }
}

/// Reads the fields of a greeting, of which an old server leaves out the last.
fn read_greeting_fields(fields: &mut Fields<'_>) -> Option<Greeting> {
    let _version = fields.string();
    let _thread = fields.take(4)?;
    let mut nonce = fields.take(8)?.to_vec();
    fields.take(1)?;
    let low = fields.short()?;
    let Some(_) = fields.take(1 + 2) else {
        return Some(Greeting { capabilities: low.into(), plugin: String::new(), nonce: nonce_from(&nonce) });
    };
    let (high, length) = (fields.short()?, fields.byte()?);
    fields.take(10)?;
    let second = usize::from(length).saturating_sub(8).max(13);
    nonce.extend_from_slice(fields.take(second.min(fields.0.len()))?);
    let capabilities = u32::from(low) | u32::from(high) << 16;
    Some(Greeting { capabilities, plugin: fields.string(), nonce: nonce_from(&nonce) })
}

/// Returns the nonce without the zero at its end; missing bytes are zero.
pub(crate) fn nonce_from(bytes: &[u8]) -> [u8; NONCE] {
    let mut nonce = [0; NONCE];
    nonce.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    nonce
}
