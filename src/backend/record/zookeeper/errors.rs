//! The meaning of the errors that the network and the server report.

use std::io;

use crate::backend::net::bounds::{self, TooLong};
use crate::backend::net::network;
use crate::backend::net::tls::{self, Tls};
use crate::lock::{BackendError, ErrorClass};
use crate::system::error_text;

pub(crate) const NO_NODE: i32 = -101;
pub(crate) const NO_AUTH: i32 = -102;
pub(crate) const BAD_VERSION: i32 = -103;
pub(crate) const EPHEMERAL: i32 = -108;
pub(crate) const NODE_EXISTS: i32 = -110;
pub(crate) const NOT_EMPTY: i32 = -111;

/// The first bytes of a TLS alert.
const TLS_ALERT: [u8; 2] = [21, 3];
/// Hint where the server closes a connection before it has answered.
const CLOSED_HINT: &str = "the server may be starting, lack a majority of its ensemble, have too many connections from this \
                      host (maxClientCnxns), or speak TLS on this port; name all servers of the ensemble in the URL";

/// Explains why the system cannot connect.
pub(crate) fn from_connecting(error: &io::Error) -> BackendError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => network::silence(),
        // The server was so quick that the system knows of it before it says that it is connected.
        kind if is_closed(kind) => closed(),
        kind => network::system_error(kind, "").unwrap_or_else(|| BackendError::transient(error_text(error))),
    }
}

/// Explains an error before the session was open.
pub(crate) fn from_greeting(error: &io::Error, tls: Option<&Tls>) -> BackendError {
    let with_tls = tls.is_some();
    match error.kind() {
        // TLS 1.2 reports a missing certificate in this way.
        _ if tls.is_some_and(|tls| tls.identity.is_none()) && error.to_string().contains("BadCertificate") => {
            BackendError::permanent("the server requires a client certificate")
                .hint("name one with sslcert=FILE&sslkey=FILE")
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => network::said_nothing(),
        kind if is_closed(kind) && with_tls => {
            BackendError::transient("the server closed the connection before the TLS handshake was over")
                .hint("check that the port is that for TLS, secureClientPort")
        }
        kind if is_closed(kind) => closed(),
        _ => from_connection(error),
    }
}

/// Explains an error of an open connection.
pub(crate) fn from_connection(error: &io::Error) -> BackendError {
    let text = error.to_string();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => network::silence(),
        kind if is_closed(kind) => BackendError::transient("the server closed the connection"),
        io::ErrorKind::InvalidData if text == TLS_SPOKEN => {
            BackendError::permanent(TLS_SPOKEN).hint("add sslmode=verify-full, or use the port without TLS, clientPort")
        }
        io::ErrorKind::InvalidData if text == TOO_LONG => unexpected_answer(),
        io::ErrorKind::InvalidData if TooLong::is(error) => bounds::too_long(error),
        io::ErrorKind::InvalidData => {
            tls::complaint(&text).unwrap_or_else(|| BackendError::transient(format!("TLS failed: {text}")))
        }
        _ => BackendError::transient(error_text(error)),
    }
}

const TLS_SPOKEN: &str = "the server speaks TLS on this port";
const TOO_LONG: &str = "too long";

/// Returns the meaning of four bytes that cannot be a length.
pub(crate) fn too_long(length: [u8; 4]) -> &'static str {
    if length.starts_with(&TLS_ALERT) { TLS_SPOKEN } else { TOO_LONG }
}

fn closed() -> BackendError {
    BackendError::transient("the server closed the connection before it answered").hint(CLOSED_HINT)
}

fn is_closed(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

/// Returns the error for an answer that breaks ZooKeeper's protocol.
pub(crate) fn unexpected_answer() -> BackendError {
    BackendError::permanent("the server does not speak ZooKeeper's protocol")
        .hint("check that host and port are those of ZooKeeper's clientPort")
}

/// Returns the error for a lock that was written each time that it was read.
pub(crate) fn keeps_changing() -> BackendError {
    BackendError::transient("other clients keep writing this lock")
}

pub(crate) fn read_only() -> BackendError {
    BackendError::transient("the server has lost its ensemble and may only be read")
        .hint("name all servers of the ensemble in the URL")
}

pub(crate) fn refused_login() -> BackendError {
    BackendError::permanent("the server refuses the login with user and password (scheme digest)")
        .hint("the password comes from the URL or from SHEDLOCK_BACKEND_PASSWORD")
        .refusing_login()
}

/// Explains an error that the server answered with, about a node.
pub(crate) fn from_code(code: i32, node: &str, logged_in: bool) -> BackendError {
    match code {
        NO_AUTH => {
            let who = if logged_in { "the user" } else { "a client without a login" };
            // The server checks the password at each node, and only there.
            BackendError::permanent(format!("{who} lacks rights to the node {node}")).refusing_login().hint(match logged_in {
                true => "check user and password, and the node's rights with zkCli.sh getAcl: create, read and write are needed, and delete to forget a lock",
                false => "log in with USER:PASSWORD@ before the host, or see the node's rights with zkCli.sh getAcl",
            })
        }
        NO_NODE => BackendError::permanent(format!("the node {node} does not exist"))
            .hint("create it with shedlock init, or see shedlock schema zookeeper"),
        EPHEMERAL => BackendError::permanent(format!("the node {node} is ephemeral, and can have no nodes below it"))
            .hint("an early version of the Java library made it; it goes with its session"),
        -115 | -124 => refused_login(),
        -119 => read_only(),
        -125 => BackendError::permanent(format!("the quota of the node {node} is used up"))
            .hint("raise it with zkCli.sh setquota"),
        -127 => BackendError::new(ErrorClass::Overloaded, "the server throttles requests")
            .hint("spread the starts with --splay"),
        -4 | -7 | -112 | -118 | -122 => {
            BackendError::transient(format!("the server gave the request up (code {code})"))
        }
        -6 => BackendError::permanent("the server does not know a request that shedlock needs")
            .hint("use ZooKeeper 3.5 or later"),
        -8 => BackendError::permanent(format!("the server does not accept the node {node}")),
        _ => BackendError::transient(format!("the server refuses a request for the node {node} (code {code})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_permanent_and_what_passes_is_tried_again() {
        for code in [NO_AUTH, NO_NODE, -115, -125] {
            let error = from_code(code, "/shedlock", true);
            assert_eq!(error.class, ErrorClass::Permanent, "{error:?}");
            assert!(error.hint.is_some(), "{error:?}");
        }
        for code in [-4, -112, -118, -119, -1, 7] {
            assert_eq!(from_code(code, "/shedlock", true).class, ErrorClass::Transient, "{code}");
        }
        assert_eq!(from_code(-127, "/", true).class, ErrorClass::Overloaded);
        assert!(from_code(NO_AUTH, "/shedlock", false).hint.unwrap().contains("log in"));
    }

    #[test]
    fn a_length_that_is_a_tls_alert_is_said_to_be_tls() {
        let explained = |length| from_connection(&io::Error::new(io::ErrorKind::InvalidData, too_long(length)));
        assert!(explained([21, 3, 3, 0]).message.contains("speaks TLS"));
        assert!(explained(*b"HTTP").message.contains("does not speak ZooKeeper's protocol"));
    }

    #[test]
    fn a_server_that_hangs_up_at_once_is_told_alike_wherever_that_shows() {
        let quick = from_connecting(&io::ErrorKind::BrokenPipe.into());
        assert_eq!(quick, from_greeting(&io::ErrorKind::UnexpectedEof.into(), None));
        assert!(quick.hint.unwrap().contains("maxClientCnxns"));
    }
}
