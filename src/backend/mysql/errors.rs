//! Explains errors of MySQL and MariaDB in one line: class, cause and remedy.

use std::error::Error as _;
use std::io;

use mysql::{DriverError, Error, MySqlError};

use super::super::sql::Table;
use super::super::{BackendError, ErrorClass, network, tls};
use super::statements::Step;

/// A failure after the login.
pub(in crate::backend) enum Failure {
    /// Error from the server or the driver.
    Said(Error, Step),
    Ours(BackendError),
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Self::Ours(error)
    }
}

impl Failure {
    pub(super) fn new(error: Error, step: Step) -> Self {
        Self::Said(error, step)
    }

    /// Returns the failure for a server that reports itself read-only, even if this user may write.
    pub(super) fn of_read_only() -> Self {
        let (state, message) = ("HY000".to_owned(), "The server is read only".to_owned());
        Self::new(Error::MySqlError(MySqlError { state, code: READ_ONLY[0], message }), Step::Lock)
    }

    /// Returns whether the lock can be taken all the same: the history is missing, has another shape or refuses this
    /// user, and will still do so at the next request.
    pub(super) fn spares_the_lock(&self) -> bool {
        let Self::Said(Error::MySqlError(answer), Step::History) = self else { return false };
        of_answer("", answer).class == ErrorClass::Permanent && !EXHAUSTED.contains(&answer.code)
    }

    /// Returns whether the server has answered, if only with an error.
    pub(super) fn is_answer(&self) -> bool {
        self.code().is_some()
    }

    /// Returns whether the server answered with one of these codes.
    pub(super) fn is(&self, codes: &[u16]) -> bool {
        self.code().is_some_and(|code| codes.contains(&code))
    }

    /// Returns the table that the statement was about.
    pub(super) fn table(&self) -> Table {
        if matches!(self, Self::Said(_, Step::Lock)) { Table::Locks } else { Table::Runs }
    }

    /// Returns the cause without the driver's words around it.
    pub(super) fn cause(&self) -> String {
        match self {
            Self::Said(error, _) => cause(error),
            Self::Ours(error) => error.message.clone(),
        }
    }

    fn code(&self) -> Option<u16> {
        match self {
            Self::Said(Error::MySqlError(answer), _) => Some(answer.code),
            _ => None,
        }
    }
}

pub(super) const NO_TABLE: u16 = 1146;
pub(super) const NO_DATABASE: u16 = 1049;
/// Code for a row or a table that another session kept locked while the server waited for it.
pub(super) const LOCKED: u16 = 1205;

/// Codes for a missing right.
pub(super) const DENIED: [u16; 4] = [1044, 1142, 1143, 1227];

/// Codes for a wrong password, an unknown or a locked user, and a password that has expired.
const REFUSED_LOGIN: [u16; 4] = [1045, 1698, 3118, 1862];

/// Codes for an exhausted resource: disk, memory, locks, places for transactions.
const EXHAUSTED: [u16; 8] = [1021, 1037, 1038, 1041, 1114, 1206, 1637, 3];

/// Codes of a read-only server, such as a replica.
pub(super) const READ_ONLY: [u16; 3] = [1290, 1792, 1836];

/// Codes of a cluster's node that executes nothing now: Galera's (1047), and those of a member of group replication that is
/// joining, cut off, offline or leaving, or that rolled a transaction back as it was to commit.
pub(super) const UNREADY: [u16; 8] = [1047, 3032, 3100, 3101, 3796, 3797, 3798, 3799];

/// Codes for too many connections: of all, of this user, or in this hour; and for no thread for another one.
const FULL: [u16; 4] = [1040, 1203, 1226, 1135];

/// Codes for the end of the server, of the connection or of a COMMIT, perhaps after the request was executed.
const GOODBYE: [u16; 5] = [1053, 1927, 1180, 2006, 2013];

/// Codes for faults that pass: a conflict with another transaction or an ALTER, a statement that was ended, a connection
/// that was idle for too long.
const PASSING: [u16; 12] = [LOCKED, 1213, 1020, 1317, 1969, 3024, 1158, 1159, 1160, 1161, 1412, 4031];

/// Explains an error that came before any request.
pub(super) fn of_connecting(user: &str, error: Error) -> BackendError {
    let error = match error {
        Error::MySqlError(answer) => return of_answer(user, &answer),
        error => error,
    };
    if let Some(error) = tls_error(&error) {
        let said = lower(&error.to_string());
        let complaint = tls::complaint(&said)
            .unwrap_or_else(|| BackendError::permanent(said).hint("check that host and port are right"));
        return complaint.of("TLS failed");
    }
    match &error {
        Error::DriverError(DriverError::TlsNotSupported) => BackendError::permanent("the server offers no TLS")
            .hint("sslmode=prefer works without TLS if the server has none"),
        Error::DriverError(DriverError::ConnectTimeout) => network::silence(),
        Error::DriverError(DriverError::CouldNotConnect(found)) => {
            let kind = found.as_ref().map_or(io::ErrorKind::Other, |(.., kind)| *kind);
            network::of_system(kind, "socket=PATH sets another socket")
                .unwrap_or_else(|| BackendError::transient(cause(&error)))
        }
        Error::DriverError(
            DriverError::UnknownAuthPlugin(_)
            | DriverError::OldMysqlPasswordDisabled
            | DriverError::CleartextPluginDisabled,
        ) => BackendError::permanent(format!("{user} cannot log in: {}", cause(&error)))
            .hint("use mysql_native_password or caching_sha2_password for this user"),
        _ if is_timeout(&error) => network::said_nothing(),
        _ if io_error(&error).is_some_and(|error| error.kind() != io::ErrorKind::InvalidData) => {
            BackendError::transient("the server closed the connection")
        }
        _ => BackendError::permanent(format!("not a MySQL server: {}", cause(&error)))
            .hint("check that host and port are right"),
    }
}

/// Explains an error that came after the request was sent.
pub(super) fn of_asking(user: &str, failure: &Failure) -> BackendError {
    let (error, step) = match failure {
        Failure::Said(error, step) => (error, *step),
        Failure::Ours(error) => return error.clone(),
    };
    match error {
        Error::MySqlError(answer) => {
            let error = of_answer(user, answer);
            if step != Step::Lock || GOODBYE.contains(&answer.code) { error.ambiguous() } else { error }
        }
        error if is_timeout(error) => network::silence().ambiguous(),
        _ => BackendError::transient("the connection was lost").ambiguous(),
    }
}

/// Classifies an error that the server answered.
fn of_answer(user: &str, answer: &MySqlError) -> BackendError {
    use ErrorClass::{Overloaded, Permanent, Transient};
    let (class, hint) = match answer.code {
        code if FULL.contains(&code) => {
            (Overloaded, "raise the server's max_connections, or spread the starts with --splay")
        }
        code if READ_ONLY.contains(&code) => {
            (Transient, "a lock needs a writable server; name all servers in the URL, separated by commas")
        }
        code if UNREADY.contains(&code) => {
            (Transient, "the node of the cluster is not ready; name all nodes in the URL, separated by commas")
        }
        code if PASSING.contains(&code) || GOODBYE.contains(&code) => (Transient, ""),
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
        1054 | 1471 => (Permanent, COLUMNS),
        1267 | 1366 | 1406 | 3988 => (Permanent, "change the columns `name` and `locked_by` to CHARACTER SET utf8mb4"),
        1292 if is_late(&answer.message) => (Permanent, DATETIME),
        1292 => (Permanent, "the server's time zone skips this hour; set its default_time_zone to '+00:00'"),
        3159 | 4151 => (Permanent, "the server requires TLS; add sslmode=verify-full to the URL"),
        _ => (Permanent, ""),
    };
    let error = BackendError::new(class, said(answer)).hint(hint.replace("{user}", user));
    if REFUSED_LOGIN.contains(&answer.code) { error.of_login() } else { error }
}

/// Hint for a `TIMESTAMP` that ends too early.
pub(super) const DATETIME: &str =
    "a TIMESTAMP ends in January 2038; change the columns `lock_until` and `locked_at` to DATETIME(3)";

/// Returns whether the time in a message is after the end of a `TIMESTAMP`. Times less than a day before it count too,
/// because of the session's time zone.
fn is_late(message: &str) -> bool {
    message.split('\'').nth(1).is_some_and(|time| time.starts_with("20") && time >= "2038-01-18")
}

const COLUMNS: &str = "it needs the columns name, lock_until, locked_at and locked_by, and no others without a default";

/// Returns the server's words. Before the handshake they begin with the state, which is removed.
fn said(answer: &MySqlError) -> String {
    let text = answer.message.as_str();
    let text = text.strip_prefix('#').and_then(|rest| rest.get(5..)).unwrap_or(text);
    lower(&text.replace(['\n', '\r'], " "))
}

fn tls_error(error: &Error) -> Option<&rustls::Error> {
    match error {
        Error::TlsError(mysql::error::tls::TlsError::Tls(error)) => Some(error),
        error => io_error(error)?.get_ref()?.downcast_ref(),
    }
}

fn io_error(error: &Error) -> Option<&io::Error> {
    match error {
        Error::IoError(error) => Some(error),
        Error::CodecError(error) => error.source()?.downcast_ref(),
        _ => None,
    }
}

fn is_timeout(error: &Error) -> bool {
    io_error(error).is_some_and(|error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut))
}

/// Returns only the cause, in one line.
fn cause(error: &Error) -> String {
    let text = match error {
        Error::MySqlError(answer) => return said(answer),
        Error::DriverError(DriverError::CouldNotConnect(Some((_, text, _)))) => text.clone(),
        Error::DriverError(error) => error.to_string(),
        Error::CodecError(error) if error.source().is_none() => error.to_string(),
        error => io_error(error).map_or_else(|| error.to_string(), ToString::to_string),
    };
    // A system error ends with its number, which says nothing more.
    lower(text.split(" (os error").next().unwrap_or_default())
}

/// Puts the first letter in lower case, unless the word is all in capitals.
fn lower(text: &str) -> String {
    let mut characters = text.chars();
    match (characters.next(), characters.clone().next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => first.to_lowercase().chain(characters).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, message: &str) -> Error {
        Error::MySqlError(MySqlError { state: "HY000".to_owned(), code, message: message.to_owned() })
    }

    #[test]
    fn what_may_pass_is_told_from_what_stays() {
        let class = |code| of_connecting("u", answer(code, "x")).class;
        for code in FULL {
            assert_eq!(class(code), ErrorClass::Overloaded, "{code}");
        }
        for code in PASSING.iter().chain(&GOODBYE).chain(&READ_ONLY).chain(&UNREADY) {
            assert_eq!(class(*code), ErrorClass::Transient, "{code}");
        }
        for code in [1044, 1045, 1049, 1054, 1064, 1129, 1130, 1142, 1227, 1292, 1698] {
            assert_eq!(class(code), ErrorClass::Permanent, "{code}");
        }
    }

    #[test]
    fn an_answer_is_unclear_only_if_the_row_may_have_been_written() {
        let ambiguous = |error, step| of_asking("u", &Failure::new(error, step)).ambiguous;
        assert!(!ambiguous(answer(1213, "Deadlock found"), Step::Lock));
        assert!(ambiguous(answer(1213, "Deadlock found"), Step::History), "in a table without transactions");
        assert!(ambiguous(answer(1267, "Illegal mix of collations"), Step::Commit));
        assert!(ambiguous(answer(1053, "Server shutdown in progress"), Step::Lock));
        assert!(ambiguous(Error::server_disconnected(), Step::Lock));
        assert!(ambiguous(io::Error::from(io::ErrorKind::WouldBlock).into(), Step::Lock));
    }

    #[test]
    fn only_what_stays_and_concerns_the_history_alone_makes_us_go_without_it() {
        let spares = |code, step| Failure::new(answer(code, "x"), step).spares_the_lock();
        for code in [1044, 1054, 1142, 1143, 1146, 1364, 1366] {
            assert!(spares(code, Step::History) && !spares(code, Step::Lock) && !spares(code, Step::Commit), "{code}");
        }
        for code in FULL.iter().chain(&PASSING).chain(&GOODBYE).chain(&READ_ONLY).chain(&UNREADY).chain(&EXHAUSTED) {
            assert!(!spares(*code, Step::History), "{code}");
        }
        assert!(!Failure::new(Error::server_disconnected(), Step::History).spares_the_lock());
    }

    #[test]
    fn the_end_of_a_column_is_told_from_an_hour_that_a_zone_leaves_out() {
        let hint = |value: &str| {
            let message = format!("Incorrect datetime value: '{value}' for column `d`.`shedlock`.`locked_at` at row 1");
            of_connecting("u", answer(1292, &message)).hint.unwrap()
        };
        assert_eq!(hint("2038-01-18 23:14:07.000"), DATETIME);
        assert!(hint("2027-03-28 02:30:00.000").contains("skips this hour"));
    }

    #[test]
    fn the_servers_words_begin_small_and_without_their_state() {
        let error = of_connecting("u", answer(1040, "#08004Too many connections"));
        assert_eq!(error.message, "too many connections");
        assert_eq!(lower("INSERT command denied"), "INSERT command denied");
    }
}
