//! Explains errors of MySQL and MariaDB in one line: class, cause and remedy.

use std::io;

use super::link::LinkError;
use super::wire::{ProtocolError, ServerError};
use crate::backend::net::bounds::{self, TooLong};
use crate::backend::net::{network, tls};
use crate::backend::sql::engine::Table;
use crate::lock::{BackendError, ErrorClass};
use crate::system::error_text;
use crate::text::begin_lowercase;

/// Says to which part of an operation a statement belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The lock's row, or what comes before it.
    Lock,
    History,
    /// The end of the transaction, and the reading of the row.
    Commit,
}

/// Says why an operation failed after the login.
pub(crate) enum Failure {
    /// An error of the connection or the server, at this stage.
    Link(LinkError, Stage),
    /// An error that shedlock itself has found.
    Backend(BackendError),
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}

impl Failure {
    pub(crate) fn new(error: LinkError, stage: Stage) -> Self {
        Self::Link(error, stage)
    }

    /// Returns the failure for a server that reports itself read-only, even if this user may write.
    pub(crate) fn read_only() -> Self {
        let message = "The server is read only".to_owned();
        Self::new(ServerError { code: READ_ONLY[0], message }.into(), Stage::Lock)
    }

    /// Returns whether the lock can be acquired all the same: the history is missing, has another shape or refuses this
    /// user, and will still do so at the next request.
    pub(crate) fn concerns_history_alone(&self) -> bool {
        let Self::Link(LinkError::Answer(answer), Stage::History) = self else { return false };
        explain_answer("", answer).class == ErrorClass::Permanent && !NO_RESOURCES.contains(&answer.code)
    }

    /// Returns whether the server has answered, if only with an error.
    pub(crate) fn is_answer(&self) -> bool {
        self.code().is_some()
    }

    /// Returns whether the server answered with one of these codes.
    pub(crate) fn is(&self, codes: &[u16]) -> bool {
        self.code().is_some_and(|code| codes.contains(&code))
    }

    /// Returns the table that the statement was about.
    pub(crate) fn table(&self) -> Table {
        if matches!(self, Self::Link(_, Stage::Lock)) { Table::Locks } else { Table::Runs }
    }

    /// Returns the server's words, or what came in their place.
    pub(crate) fn server_words(&self) -> String {
        match self {
            Self::Link(LinkError::Answer(answer), _) => server_words(answer),
            failure => explain_request("", failure).message,
        }
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Link(LinkError::Answer(answer), _) => Some(answer.code),
            _ => None,
        }
    }
}

pub(crate) const NO_TABLE: u16 = 1146;
pub(crate) const NO_DATABASE: u16 = 1049;
/// Code for a row or a table that another session kept locked while the server waited for it.
pub(crate) const LOCKED: u16 = 1205;

/// Codes for a missing right.
pub(crate) const DENIED: [u16; 4] = [1044, 1142, 1143, 1227];

/// Codes for a wrong password, an unknown or a locked user, and a password that has expired.
const REFUSED_LOGIN: [u16; 4] = [1045, 1698, 3118, 1862];

/// Codes for a variable that the server does not know, or not with this value.
pub(crate) const UNKNOWN_VARIABLE: [u16; 2] = [1193, 1231];

/// Codes for an exhausted resource: disk, memory, locks, places for transactions.
const NO_RESOURCES: [u16; 8] = [1021, 1037, 1038, 1041, 1114, 1206, 1637, 3];

/// Codes of a read-only server, such as a replica.
pub(crate) const READ_ONLY: [u16; 3] = [1290, 1792, 1836];

/// Codes of a cluster's node that executes nothing now: Galera's (1047), and those of a member of group replication that is
/// joining, cut off, offline or leaving, or that rolled a transaction back as it was to commit.
pub(crate) const NOT_READY: [u16; 8] = [1047, 3032, 3100, 3101, 3796, 3797, 3798, 3799];

/// Codes for too many connections: of all, of this user, or in this hour; and for no thread for another one.
const TOO_MANY_CONNECTIONS: [u16; 4] = [1040, 1203, 1226, 1135];

/// Codes for the end of the server, of the connection or of a COMMIT, perhaps after the request was executed.
const ENDS_CONNECTION: [u16; 5] = [1053, 1927, 1180, 2006, 2013];

/// Codes for temporary faults: a conflict with another transaction or an ALTER, a statement that was ended, a connection
/// that was idle for too long.
const TEMPORARY: [u16; 12] = [LOCKED, 1213, 1020, 1317, 1969, 3024, 1158, 1159, 1160, 1161, 1412, 4031];

/// Explains why the system cannot connect.
pub(crate) fn explain_unreached(error: &io::Error) -> BackendError {
    match error.kind() {
        io::ErrorKind::WouldBlock => network::silence(),
        kind => network::system_error(kind, "socket=PATH sets another socket")
            .unwrap_or_else(|| BackendError::transient(error_text(error))),
    }
}

/// Explains an error that came before any request.
pub(crate) fn explain_connecting(user: &str, trouble: LinkError) -> BackendError {
    let error = match trouble {
        LinkError::Network(error) => error,
        LinkError::Answer(answer) => return explain_answer(user, &answer),
        LinkError::Backend(error) => return error,
        LinkError::Protocol(ProtocolError(why)) => return not_mysql(why),
        LinkError::NoTls => {
            return BackendError::permanent("the server offers no TLS")
                .hint("sslmode=prefer works without TLS if the server has none");
        }
        LinkError::Login(why) => {
            return BackendError::permanent(format!("{user} cannot log in: {why}"))
                .hint("use mysql_native_password or caching_sha2_password for this user");
        }
    };
    if let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        let said = begin_lowercase(&error.to_string()).into_owned();
        let complaint = tls::complaint(&said)
            .unwrap_or_else(|| BackendError::permanent(said).hint("check that host and port are right"));
        return complaint.naming("TLS failed");
    }
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => network::said_nothing(),
        io::ErrorKind::InvalidData if TooLong::is(&error) => bounds::too_long(&error),
        io::ErrorKind::InvalidData => not_mysql(&error_text(&error)),
        _ => BackendError::transient("the server closed the connection"),
    }
}

fn not_mysql(why: &str) -> BackendError {
    BackendError::permanent(format!("not a MySQL server: {why}")).hint("check that host and port are right")
}

/// Explains an error that came after the request was sent.
pub(crate) fn explain_request(user: &str, failure: &Failure) -> BackendError {
    let (trouble, stage) = match failure {
        Failure::Link(trouble, stage) => (trouble, *stage),
        Failure::Backend(error) => return error.clone(),
    };
    match trouble {
        LinkError::Answer(answer) => {
            let error = explain_answer(user, answer);
            if stage != Stage::Lock || ENDS_CONNECTION.contains(&answer.code) { error.ambiguous() } else { error }
        }
        LinkError::Network(error) if is_timeout(error) => network::silence().ambiguous(),
        LinkError::Network(error) if TooLong::is(error) => bounds::too_long(error).ambiguous(),
        _ => BackendError::transient("the connection was lost").ambiguous(),
    }
}

/// Classifies an error that the server answered.
fn explain_answer(user: &str, answer: &ServerError) -> BackendError {
    use ErrorClass::{Overloaded, Permanent, Transient};
    let (class, hint) = match answer.code {
        code if TOO_MANY_CONNECTIONS.contains(&code) => {
            (Overloaded, "raise the server's max_connections, or spread the starts with --splay")
        }
        code if READ_ONLY.contains(&code) => {
            (Transient, "a lock needs a writable server; name all servers in the URL, separated by commas")
        }
        code if NOT_READY.contains(&code) => {
            (Transient, "the node of the cluster is not ready; name all nodes in the URL, separated by commas")
        }
        code if TEMPORARY.contains(&code) || ENDS_CONNECTION.contains(&code) => (Transient, ""),
        1045 | 1698 => (
            Permanent,
            "check the password of {user}, in SHEDLOCK_BACKEND_PASSWORD or a --backend-file, \
             and whether {user} may come from this host, or only with TLS (sslmode=verify-full)",
        ),
        // The server does not say whether the table exists.
        code if DENIED.contains(&code) => (
            Permanent,
            "{user} needs SELECT, INSERT and UPDATE on the table; if the table is missing, `shedlock schema` prints the statements to create it",
        ),
        NO_DATABASE => {
            (Permanent, "create the database, or name another one, at the end of the URL or in ?table=DATABASE.TABLE")
        }
        1129 => (Permanent, "once the network works again, run FLUSH HOSTS on the server"),
        1364 => (
            Permanent,
            "give the column a default, or name another table with ?table=, if this is not a table of locks",
        ),
        1054 | 1471 => (Permanent, COLUMNS_HINT),
        1267 | 1366 | 1406 | 3988 => (Permanent, "change the columns `name` and `locked_by` to CHARACTER SET utf8mb4"),
        1292 if is_after_2038(&answer.message) => (Permanent, DATETIME_HINT),
        1292 => (Permanent, "the server's time zone skips this hour; set its default_time_zone to '+00:00'"),
        3159 | 4151 => (Permanent, "the server requires TLS; add sslmode=verify-full to the URL"),
        _ => (Permanent, ""),
    };
    let error = BackendError::new(class, server_words(answer)).hint(hint.replace("{user}", user));
    if REFUSED_LOGIN.contains(&answer.code) { error.refusing_login() } else { error }
}

/// Hint for a `TIMESTAMP` that ends too early.
pub(crate) const DATETIME_HINT: &str =
    "a TIMESTAMP ends in January 2038; change the columns `lock_until` and `locked_at` to DATETIME(3)";

/// Returns whether the time in a message is after the end of a `TIMESTAMP`. Times less than a day before it count too,
/// because of the session's time zone.
fn is_after_2038(message: &str) -> bool {
    message.split('\'').nth(1).is_some_and(|time| time.starts_with("20") && time >= "2038-01-18")
}

const COLUMNS_HINT: &str =
    "it needs the columns name, lock_until, locked_at and locked_by, and no others without a default";

/// Returns the server's words in one line.
fn server_words(answer: &ServerError) -> String {
    begin_lowercase(&answer.message.replace(['\n', '\r'], " ")).into_owned()
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, message: &str) -> LinkError {
        ServerError { code, message: message.to_owned() }.into()
    }

    fn closed() -> LinkError {
        io::Error::from(io::ErrorKind::UnexpectedEof).into()
    }

    #[test]
    fn what_may_pass_is_told_from_what_stays() {
        let class = |code| explain_connecting("u", answer(code, "x")).class;
        for code in TOO_MANY_CONNECTIONS {
            assert_eq!(class(code), ErrorClass::Overloaded, "{code}");
        }
        for code in TEMPORARY.iter().chain(&ENDS_CONNECTION).chain(&READ_ONLY).chain(&NOT_READY) {
            assert_eq!(class(*code), ErrorClass::Transient, "{code}");
        }
        for code in [1044, 1045, 1049, 1054, 1064, 1129, 1130, 1142, 1227, 1292, 1698] {
            assert_eq!(class(code), ErrorClass::Permanent, "{code}");
        }
    }

    #[test]
    fn an_answer_is_unclear_only_if_the_row_may_have_been_written() {
        let ambiguous = |error, step| explain_request("u", &Failure::new(error, step)).ambiguous;
        assert!(!ambiguous(answer(1213, "Deadlock found"), Stage::Lock));
        assert!(ambiguous(answer(1213, "Deadlock found"), Stage::History), "in a table without transactions");
        assert!(ambiguous(answer(1267, "Illegal mix of collations"), Stage::Commit));
        assert!(ambiguous(answer(1053, "Server shutdown in progress"), Stage::Lock));
        assert!(ambiguous(closed(), Stage::Lock));
        assert!(ambiguous(io::Error::from(io::ErrorKind::WouldBlock).into(), Stage::Lock));
    }

    #[test]
    fn only_what_stays_and_concerns_the_history_alone_makes_us_go_without_it() {
        let spares = |code, step| Failure::new(answer(code, "x"), step).concerns_history_alone();
        for code in [1044, 1054, 1142, 1143, 1146, 1364, 1366] {
            assert!(
                spares(code, Stage::History) && !spares(code, Stage::Lock) && !spares(code, Stage::Commit),
                "{code}"
            );
        }
        for code in TOO_MANY_CONNECTIONS
            .iter()
            .chain(&TEMPORARY)
            .chain(&ENDS_CONNECTION)
            .chain(&READ_ONLY)
            .chain(&NOT_READY)
            .chain(&NO_RESOURCES)
        {
            assert!(!spares(*code, Stage::History), "{code}");
        }
        assert!(!Failure::new(closed(), Stage::History).concerns_history_alone());
    }

    #[test]
    fn the_end_of_a_column_is_told_from_an_hour_that_a_zone_leaves_out() {
        let hint = |value: &str| {
            let message = format!("Incorrect datetime value: '{value}' for column `d`.`shedlock`.`locked_at` at row 1");
            explain_connecting("u", answer(1292, &message)).hint.unwrap()
        };
        assert_eq!(hint("2038-01-18 23:14:07.000"), DATETIME_HINT);
        assert!(hint("2027-03-28 02:30:00.000").contains("skips this hour"));
    }

    #[test]
    fn the_servers_words_begin_small() {
        let error = explain_connecting("u", answer(1040, "Too many connections"));
        assert_eq!(error.message, "too many connections");
        let error = explain_connecting("u", answer(1142, "INSERT command denied"));
        assert!(error.message.contains("INSERT command denied"), "{}", error.message);
    }
}
