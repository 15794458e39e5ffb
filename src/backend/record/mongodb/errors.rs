//! The meaning of the errors that the driver and the server report.

use std::io;

use ::mongodb::bson::Document;
use ::mongodb::error::{CommandError, Error, ErrorKind, WriteFailure};
use ::mongodb::event::sdam::SdamEvent;

use super::document;
use crate::backend::net::{network, tls};
use crate::lock::{BackendError, ErrorClass};
use crate::system::{Timestamp, error_text};

/// Characters shown of a text of the driver's.
const SHOWN_CHARACTERS: usize = 300;
const DUPLICATE_KEY: i32 = 11000;
const NAMESPACE_EXISTS: i32 = 48;

/// Says whether an operation reads or writes: one that writes may be carried out although its answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Write,
}

/// Returns the server's clock.
pub(crate) fn clock(hello: &Document) -> Result<Timestamp, BackendError> {
    let time = hello.get_datetime("localTime").ok().and_then(document::timestamp);
    time.ok_or_else(|| BackendError::permanent("the server does not tell its time (localTime)"))
}

/// Returns the error for a driver that cannot be run.
pub(crate) fn no_runtime(why: &str) -> BackendError {
    BackendError::transient(format!("the driver cannot be started: {why}"))
}

/// Returns whether a document with this `_id` was there already.
pub(crate) fn is_duplicate(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Write(WriteFailure::WriteError(error)) if error.code == DUPLICATE_KEY)
}

/// Returns whether the collection was there already.
pub(crate) fn is_there(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Command(error) if error.code == NAMESPACE_EXISTS)
}

/// Returns whether the server has answered, so that the connection can go on.
pub(crate) fn is_answer(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Command(_) | ErrorKind::Write(_))
        && open_kind(error).class == ErrorClass::Permanent
}

/// Explains why an operation failed.
pub(crate) fn explain(error: &Error, kind: RequestKind) -> BackendError {
    let found = open_kind(error);
    // A connection is found before anything is sent.
    let is_sent = !matches!(&*error.kind, ErrorKind::ServerSelection { .. } | ErrorKind::Authentication { .. });
    if kind == RequestKind::Write && is_sent && !is_answer(error) { found.ambiguous() } else { found }
}

fn open_kind(error: &Error) -> BackendError {
    match &*error.kind {
        ErrorKind::Authentication { .. } => rejected(),
        ErrorKind::ServerSelection { message, .. } => from_selection(message),
        ErrorKind::Command(error) => from_command(error),
        ErrorKind::Write(WriteFailure::WriteConcernError(error)) => {
            BackendError::transient(format!("the write did not reach a majority in time: {}", one_line(&error.message)))
                .hint("check the members of the replica set with rs.status()")
        }
        ErrorKind::Write(WriteFailure::WriteError(error)) => {
            BackendError::permanent(format!("the server refuses: {}", one_line(&error.message)))
        }
        ErrorKind::Io(error) => from_network(error),
        ErrorKind::ConnectionPoolCleared { .. } => closed(),
        ErrorKind::DnsResolve { message, .. } => BackendError::transient(one_line(message)),
        ErrorKind::InvalidTlsConfig { message, .. } => {
            BackendError::permanent(format!("TLS cannot be set up: {}", one_line(message)))
        }
        ErrorKind::InvalidResponse { .. } => BackendError::transient("the server does not answer as a MongoDB does")
            .hint("check that host and port are those of a MongoDB"),
        kind => {
            BackendError::permanent(one_line(&kind.to_string())).hint("check that host and port are those of a MongoDB")
        }
    }
}

/// Explains why none of the servers can be reached, if that is what an event says. The driver itself would go on trying, and
/// a lock that it gets in the end would be believed to have been asked for at the beginning.
pub(crate) fn unreachable(event: &SdamEvent, has_certificate: bool) -> Option<BackendError> {
    let SdamEvent::TopologyDescriptionChanged(changed) = event else { return None };
    let servers = changed.new_description.servers();
    let errors = servers.iter().map(|(address, server)| Some((address.to_string(), open_kind(server.error()?))));
    let mut errors: Vec<_> = errors.collect::<Option<_>>()?;
    // This order makes the error the same each time; a refusal that will stay matters most.
    errors.sort_by_key(|(address, error)| (error.class != ErrorClass::Permanent, address.clone()));
    let error = errors.into_iter().next().map(|(_, error)| error)?;
    Some(match !has_certificate && error.message.contains("BadCertificate") {
        // Java reports a missing certificate in this way.
        true => tls::complaint("CertificateRequired").unwrap_or(error),
        false => error,
    })
}

/// Explains why there is no server to write to: the driver lists what each of them said.
fn from_selection(message: &str) -> BackendError {
    let has = |text| message.contains(text);
    if let Some(complaint) = tls::complaint(message) {
        complaint
    } else if has("Authentication failed") || has("SCRAM failure") {
        rejected()
    } else if has("reports wire version") {
        BackendError::permanent(one_line(message)).hint("MongoDB 4.4 or later is needed")
    } else if has("Set Name: ") && !has("Address: ") {
        BackendError::transient("no host of the URL is a member of the replica set that replicaSet names")
            .hint("rs.status() shows the name; leave replicaSet out for a server that is in no replica set")
    } else if has("Secondary") || has("Type: Other") || has("Error: ") {
        BackendError::transient("no server can be written to: there is no primary server")
            .hint("check the members of the replica set with rs.status(), and that the URL names all of them")
    } else {
        network::silence()
    }
}

/// Explains an error of a connection, open or not.
fn from_network(error: &io::Error) -> BackendError {
    let said = error.to_string();
    let is_closed = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected
    );
    if let Some(complaint) = tls::complaint(&said) {
        return complaint;
    }
    if said.starts_with("failed to lookup address") {
        return BackendError::transient("a host of the URL has no address")
            .hint("check the names with `getent hosts NAME`");
    }
    if is_closed {
        return closed();
    }
    network::system_error(error.kind(), "").unwrap_or_else(|| BackendError::transient(error_text(error)))
}

/// Explains that this server cannot lock: of several updates of one version of a document, more than one succeeds.
pub(crate) fn ferretdb(name: &str) -> BackendError {
    BackendError::permanent(format!("the server is {name}, whose updates are not atomic, so it cannot lock"))
        .hint("use MongoDB, or another backend, such as PostgreSQL, which FerretDB may be using itself")
}

fn rejected() -> BackendError {
    BackendError::permanent("the server rejects this user and password").hint(
        "the password comes from the URL or from SHEDLOCK_BACKEND_PASSWORD; authSource names the user's database if that is \
         another one",
    )
    .refusing_login()
}

fn closed() -> BackendError {
    BackendError::transient("the server closed the connection")
        .hint("the server may be starting, or speak TLS on this port and need tls=true, or not speak it")
}

fn from_command(error: &CommandError) -> BackendError {
    let said = one_line(&error.message);
    match error.code {
        13 if said.contains("requires authentication") => BackendError::permanent(
            "the server requires a user and password",
        )
        .hint("write mongodb://USER@HOST/DATABASE; the password comes from the URL or from SHEDLOCK_BACKEND_PASSWORD")
        .refusing_login(),
        13 => BackendError::permanent(format!("the user lacks rights: {said}"))
            .hint("`shedlock schema` prints the role that the user needs; to forget a lock, it needs the action remove as well"),
        18 => rejected(),
        // Stepping down, shutting down, recovering, or out of time.
        50 | 91 | 189 | 10058 | 10107 | 11600 | 11602 | 13435 | 13436 => {
            BackendError::transient(format!("the server grants no locks now: {said}"))
        }
        64 | 79 | 100 => BackendError::transient(format!("the write did not reach a majority in time: {said}")),
        _ => BackendError::permanent(format!("the server refuses: {said}")),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN_CHARACTERS).collect()
}
