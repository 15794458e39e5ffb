//! The meaning of the errors that the driver and the server report.

use std::io;

use mongodb::bson::Document;
use mongodb::error::{Error, ErrorKind, SYSTEM_OVERLOADED_ERROR, WriteFailure};
use mongodb::event::sdam::SdamEvent;
use shedlock_provider::{Class, StoreError};

use crate::document;

/// Characters shown of a text of the driver's.
const SHOWN_CHARACTERS: usize = 300;
const DUPLICATE_KEY: i32 = 11000;
const NAMESPACE_EXISTS: i32 = 48;
/// The server takes no more requests for now, and in Azure's Cosmos DB.
const TOO_MANY_REQUESTS: [i32; 2] = [462, 16500];
const OUT_OF_DISK_SPACE: i32 = 14031;

/// Says whether an operation reads or writes: one that writes may be carried out although its answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Write,
}

/// Returns the server's clock, in milliseconds since 1970.
pub(crate) fn clock(hello: &Document) -> Result<u64, StoreError> {
    let time = document::time(hello, "localTime");
    time.ok_or_else(|| StoreError::permanent("the server does not tell its time (localTime)"))
}

/// Returns the error for a driver that cannot be run.
pub(crate) fn no_runtime(why: &str) -> StoreError {
    StoreError::transient(format!("the driver cannot be started: {why}"))
}

/// Returns the error for a server that, itself or by its kernel, accepted the connection but has not replied.
pub(crate) fn said_nothing() -> StoreError {
    StoreError::transient("no answer in time: the server accepted the connection but did not reply").hint(
        "check that the server is healthy and not overloaded, and that the port is right; --backend-timeout sets how long to try",
    )
}

/// Returns the error for a server that has not answered a request.
fn silence() -> StoreError {
    StoreError::transient("no answer in time")
        .hint("check that the server is healthy, and that the port is right; --backend-timeout sets how long to try")
}

/// Returns the error for a cluster of which the DNS does not tell the servers.
pub(crate) fn no_members(why: &str) -> StoreError {
    let error = match why.contains("no records found") {
        true => "the DNS lists no servers for the name in the URL".to_owned(),
        false => format!("the DNS does not tell the servers of the cluster: {}", one_line(why)),
    };
    StoreError::transient(error).hint("check its records with `dig SRV _mongodb._tcp.NAME` and `dig TXT NAME`")
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
    matches!(&*error.kind, ErrorKind::Command(_) | ErrorKind::Write(_)) && open_kind(error).class == Class::Permanent
}

/// Explains why an operation failed.
pub(crate) fn explain(error: &Error, kind: RequestKind) -> StoreError {
    let found = open_kind(error);
    // A connection is found before anything is sent.
    let is_sent = !matches!(&*error.kind, ErrorKind::ServerSelection { .. } | ErrorKind::Authentication { .. });
    if kind == RequestKind::Write && is_sent && !is_answer(error) { found.sent() } else { found }
}

fn open_kind(error: &Error) -> StoreError {
    match &*error.kind {
        ErrorKind::Authentication { .. } => rejected(),
        ErrorKind::ServerSelection { message, .. } => from_selection(message),
        // The driver itself gives this label to connections that fail.
        ErrorKind::Command(command) if error.contains_label(SYSTEM_OVERLOADED_ERROR) => overloaded(&command.message),
        ErrorKind::Command(error) => from_command(error.code, &error.message),
        ErrorKind::Write(WriteFailure::WriteConcernError(error)) => no_majority(&error.message),
        ErrorKind::Write(WriteFailure::WriteError(error)) => from_command(error.code, &error.message),
        ErrorKind::Io(error) => from_network(error),
        ErrorKind::ConnectionPoolCleared { .. } => closed(),
        ErrorKind::DnsResolve { message, .. } => no_members(message),
        ErrorKind::InvalidTlsConfig { message, .. } => {
            StoreError::permanent(format!("TLS cannot be set up: {}", one_line(message)))
        }
        ErrorKind::InvalidResponse { .. } => StoreError::transient("the server does not answer as a MongoDB does")
            .hint("check that host and port are those of a MongoDB"),
        kind => {
            StoreError::permanent(one_line(&kind.to_string())).hint("check that host and port are those of a MongoDB")
        }
    }
}

/// Explains why none of the servers can be reached, if that is what an event says. The driver itself would go on trying, and
/// a lock that it gets in the end would be believed to have been asked for at the beginning.
pub(crate) fn unreachable(event: &SdamEvent, has_certificate: bool) -> Option<StoreError> {
    let SdamEvent::TopologyDescriptionChanged(changed) = event else { return None };
    let servers = changed.new_description.servers();
    let errors = servers.iter().map(|(address, server)| Some((address.to_string(), open_kind(server.error()?))));
    let mut errors: Vec<_> = errors.collect::<Option<_>>()?;
    // This order makes the error the same each time; a refusal that will stay matters most.
    errors.sort_by_key(|(address, error)| (error.class != Class::Permanent, address.clone()));
    let error = errors.into_iter().next().map(|(_, error)| error)?;
    Some(match !has_certificate && error.error.contains("BadCertificate") {
        // Java reports a missing certificate in this way.
        true => tls_complaint("CertificateRequired").unwrap_or(error),
        false => error,
    })
}

/// Explains why there is no server to write to: the driver lists what each of them said.
fn from_selection(message: &str) -> StoreError {
    let has = |text| message.contains(text);
    if let Some(complaint) = tls_complaint(message) {
        complaint
    } else if has("Authentication failed") || has("SCRAM failure") {
        rejected()
    } else if has("reports wire version") {
        StoreError::permanent(one_line(message)).hint("MongoDB 4.4 or later is needed")
    } else if has("Set Name: ") && !has("Address: ") {
        StoreError::transient("no host of the URL is a member of the replica set that replicaSet names")
            .hint("rs.status() shows the name; leave replicaSet out for a server that is in no replica set")
    } else if has("Secondary") || has("Type: Other") || has("Error: ") {
        StoreError::transient("no server can be written to: there is no primary server")
            .hint("check the members of the replica set with rs.status(), and that the URL names all of them")
    } else {
        silence()
    }
}

/// Explains an error of a connection, open or not.
fn from_network(error: &io::Error) -> StoreError {
    let said = error.to_string();
    if let Some(complaint) = tls_complaint(&said) {
        return complaint;
    }
    if said.starts_with("failed to lookup address") {
        return StoreError::transient("a host of the URL has no address")
            .hint("check the names with `getent hosts NAME`");
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected => closed(),
        io::ErrorKind::ConnectionRefused => StoreError::transient("connection refused")
            .hint("check that the server is running, and that host and port are right"),
        io::ErrorKind::TimedOut => silence(),
        _ => StoreError::transient(error_text(error)),
    }
}

/// Explains an error of rustls; returns `None` for what is none.
fn tls_complaint(text: &str) -> Option<StoreError> {
    let has = |part: &str| text.contains(part);
    Some(if has("UnknownIssuer") {
        StoreError::permanent("the server's certificate is from an authority that is not trusted")
            .hint("name the file of the authority that signed it with sslrootcert=FILE")
    } else if has("not valid for name") || has("NotValidForName") {
        StoreError::permanent("the server's certificate is for another name than the URL's")
            .hint("use the name in the certificate, or sslmode=require, which verifies none")
    } else if has("Expired") || has("certificate expired") {
        StoreError::permanent("the server's certificate has expired").hint("renew the server's certificate")
    } else if has("CaUsedAsEndEntity") {
        StoreError::permanent("the server's certificate is an authority's, not a server's")
            .hint("use a certificate that this authority signed, or sslmode=require, which verifies none")
    } else if has("CertificateRequired") || has("HandshakeFailure") {
        StoreError::permanent("the server requires a client certificate").hint("name one with sslcert=FILE&sslkey=FILE")
    } else if has("invalid peer certificate") {
        StoreError::permanent(format!("the server's certificate cannot be verified: {}", one_line(text)))
    } else if has("received fatal alert") {
        StoreError::permanent(format!("the server refuses the TLS connection: {}", one_line(text)))
    } else {
        return None;
    })
}

/// Explains that this server cannot lock: of several updates of one version of a document, more than one succeeds.
pub(crate) fn ferretdb(name: &str) -> StoreError {
    StoreError::permanent(format!("the server is {name}, whose updates are not atomic, so it cannot lock"))
        .hint("use MongoDB, or another backend, such as PostgreSQL, which FerretDB may be using itself")
}

fn rejected() -> StoreError {
    StoreError::permanent("the server rejects this user and password")
        .hint(
            "the password comes from the URL or from SHEDLOCK_BACKEND_PASSWORD; authSource names the user's database if that \
             is another one",
        )
        .refusing_login()
}

fn closed() -> StoreError {
    StoreError::transient("the server closed the connection")
        .hint("the server may be starting, or speak TLS on this port and need tls=true, or not speak it")
}

fn no_majority(said: &str) -> StoreError {
    StoreError::transient(format!("the write did not reach a majority in time: {}", one_line(said)))
        .hint("check the members of the replica set with rs.status()")
}

fn overloaded(said: &str) -> StoreError {
    StoreError::overloaded(format!("the server asks for fewer requests: {}", one_line(said)))
}

fn from_command(code: i32, said: &str) -> StoreError {
    let said = one_line(said);
    match code {
        13 if said.contains("requires authentication") => StoreError::permanent(
            "the server requires a user and password",
        )
        .hint("write mongodb://USER@HOST/DATABASE; the password comes from the URL or from SHEDLOCK_BACKEND_PASSWORD")
        .refusing_login(),
        13 => StoreError::permanent(format!("the user lacks rights: {said}"))
            .hint("`shedlock schema` prints the role that the user needs; to forget a lock, it needs the action remove as well"),
        18 => rejected(),
        // Stepping down, shutting down, recovering, or out of time.
        50 | 91 | 189 | 10058 | 10107 | 11600 | 11602 | 13435 | 13436 => {
            StoreError::transient(format!("the server grants no locks now: {said}"))
        }
        64 | 79 | 100 => no_majority(&said),
        code if TOO_MANY_REQUESTS.contains(&code) => overloaded(&said),
        OUT_OF_DISK_SPACE => StoreError::overloaded(format!("the server's disk is full: {said}")),
        _ => StoreError::permanent(format!("the server refuses: {said}")),
    }
}

/// Returns the text of an error of the system, as it stands within a sentence: without its number.
pub(crate) fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    match (characters.next(), characters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(characters).collect(),
        _ => text.to_owned(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{DateTime, doc};

    use super::*;

    #[test]
    fn the_clock_is_the_servers_or_an_error() {
        assert_eq!(clock(&doc! { "localTime": DateTime::from_millis(5) }), Ok(5));
        assert_eq!(clock(&doc! { "localTime": "now" }).unwrap_err().class, Class::Permanent);
    }

    #[test]
    fn an_error_of_the_network_passes_and_a_write_may_have_been_carried_out() {
        for (kind, said) in [
            (io::ErrorKind::ConnectionRefused, "connection refused"),
            (io::ErrorKind::ConnectionReset, "the server closed the connection"),
            (io::ErrorKind::TimedOut, "no answer in time"),
        ] {
            let error = Error::from(io::Error::from(kind));
            let [read, write] = [RequestKind::Read, RequestKind::Write].map(|kind| explain(&error, kind));
            assert_eq!((read.error.as_str(), read.class, read.sent), (said, Class::Transient, false));
            assert_eq!(write, read.sent());
            assert!(!is_answer(&error));
        }
    }

    #[test]
    fn what_the_server_answers_passes_or_stays() {
        let class = |code| from_command(code, "why\n not").class;
        assert_eq!([10107, 91, 64].map(class), [Class::Transient; 3]);
        assert_eq!([462, 16500, 14031].map(class), [Class::Overloaded; 3]);
        assert_eq!([13, 18, 121].map(class), [Class::Permanent; 3]);
        assert_eq!(from_command(121, "why\n not").error, "the server refuses: why not");
        assert!(from_command(18, "").login_refused && !from_command(13, "not authorized").login_refused);
        assert!(from_command(13, "command find requires authentication").login_refused);
    }

    #[test]
    fn a_selection_that_failed_says_why() {
        for (message, said) in [
            ("Error: invalid peer certificate: UnknownIssuer", "an authority that is not trusted"),
            ("Error: invalid peer certificate: certificate not valid for name \"a\"", "is for another name"),
            ("Error: SCRAM failure: bad", "rejects this user and password"),
            ("Topology: { Type: Unknown, Set Name: rs0 }", "no host of the URL is a member"),
            ("Servers: [ { Address: a:1, Type: Secondary } ]", "there is no primary server"),
            ("Servers: [ { Address: a:1, Type: Unknown } ]", "no answer in time"),
        ] {
            let error = from_selection(message);
            assert!(error.error.contains(said), "{message}: {error:?}");
        }
    }

    #[test]
    fn a_cluster_that_the_dns_does_not_know_is_told_from_a_dns_that_is_silent() {
        assert_eq!(
            no_members("DNS error: no records found for X").error,
            "the DNS lists no servers for the name in the URL"
        );
        assert!(no_members("no answer in time").error.ends_with("of the cluster: no answer in time"));
    }

    #[test]
    fn a_text_of_the_system_is_without_its_number() {
        assert_eq!(error_text(&io::Error::from_raw_os_error(28)), "no space left on device");
        assert_eq!(error_text(&io::Error::other("TLS is off")), "TLS is off");
    }
}
