//! Explains PostgreSQL's errors in one line: class, cause and remedy.

use std::error::Error as _;
use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use super::failure::Failure;
use super::read_limit::not_postgres;
use crate::backend::net::{network, tls};
use crate::backend::sql::engine::unknown_column_requires_value;
use crate::lock::{BackendError, ErrorClass};
use crate::text::begin_lowercase;

const OTHER_ENCRYPTION: &str = "28000";
pub(crate) const NO_TABLE: &str = "42P01";
pub(crate) const NO_SCHEMA: &str = "3F000";
/// Code for a missing right.
pub(crate) const DENIED: &str = "42501";
/// Code for a division by zero, with which an acquisition reports that it was undone before it arrived.
pub(crate) const GIVEN_UP: &str = "22012";
/// Code for a column that needs a value.
const NOT_NULL: &str = "23502";
/// Code for a key that exists already.
pub(crate) const DUPLICATE: &str = "23505";
/// Codes for a race between two processes that create a table: the key, the table or its type exists already.
pub(crate) const EXISTS_ALREADY: [&str; 3] = [DUPLICATE, "42P07", "42710"];
const READ_ONLY_CODE: &str = "25006";
/// Number of characters shown of a text from the server.
const MAX_SHOWN: usize = 300;

pub(crate) fn is(failure: &Failure, code: &str) -> bool {
    matches!(failure, Failure::Driver(error) if error.code().is_some_and(|found| found.code() == code))
}

/// Returns whether the server refused the connection because of its encryption: it wants TLS, or no TLS.
pub(crate) fn wants_other_encryption(failure: &Failure) -> bool {
    is(failure, OTHER_ENCRYPTION)
}

/// Returns whether TLS failed, as opposed to the messages sent through it.
pub(crate) fn is_of_tls(failure: &Failure) -> bool {
    matches!(failure, Failure::Driver(error) if is_handshake(error))
}

fn is_handshake(error: &Error) -> bool {
    error.to_string().starts_with("error performing TLS handshake")
}

/// Returns whether the server is read-only, as a standby is.
pub(crate) fn is_read_only(failure: &Failure) -> bool {
    matches!(failure, Failure::ReadOnly) || is(failure, READ_ONLY_CODE)
}

/// Returns whether the server has answered, if only with an error.
pub(crate) fn is_answer(failure: &Failure) -> bool {
    is_server_error(failure) || matches!(failure, Failure::Locked { .. } | Failure::Backend(_))
}

/// Returns whether the server answered with an error of its own.
pub(crate) fn is_server_error(failure: &Failure) -> bool {
    matches!(failure, Failure::Driver(error) if error.as_db_error().is_some())
}

/// Returns whether no answer came, in time or at all.
pub(crate) fn is_silence(failure: &Failure) -> bool {
    match failure {
        Failure::Silence => true,
        Failure::Driver(error) => error.as_db_error().is_none() && is_end_of_session(failure),
        _ => false,
    }
}

/// Returns whether the server has ended the session, as it does after too long an idle time.
pub(crate) fn is_end_of_session(failure: &Failure) -> bool {
    let Failure::Driver(error) = failure else { return false };
    match error.as_db_error() {
        Some(answer) => ends_session(answer.code()),
        None => error.is_closed() || io_kind(error).is_some(),
    }
}

/// Explains an error that came before any request.
pub(crate) fn explain_connecting(user: &str, failure: &Failure) -> BackendError {
    let error = match failure {
        Failure::Driver(error) => error,
        Failure::Unreached(error) => return explain_system_error(Some(error.kind()), &message_text(error)),
        Failure::Backend(error) => return error.clone(),
        _ => return network::said_nothing(),
    };
    if let Some(answer) = error.as_db_error() {
        return explain_answer(user, answer);
    }
    let (text, cause) = (error.to_string(), cause(error));
    if is_handshake(error) {
        if cause.contains("does not support TLS") {
            return BackendError::permanent("the server offers no TLS").hint(
                "turn it on there (ssl=on), or use sslmode=prefer, which works without TLS if the server has none",
            );
        }
        let complaint = tls::complaint(&cause).unwrap_or_else(|| {
            BackendError::permanent(cause).hint("check that host and port are right, and that the server has TLS")
        });
        return complaint.naming("TLS failed");
    }
    if text.starts_with("invalid configuration") && cause.contains("password") {
        return BackendError::permanent(format!("the server asks {user} for a password, but none is set"))
            .hint("set SHEDLOCK_BACKEND_PASSWORD or PGPASSWORD, or put it into ~/.pgpass or a --backend-file")
            .refusing_login();
    }
    if text.starts_with("authentication error") {
        return BackendError::permanent(format!("{user} could not log in: {cause}")).refusing_login();
    }
    let kind = io_kind(error);
    if kind == Some(io::ErrorKind::UnexpectedEof) || kind.is_none() && error.is_closed() {
        return BackendError::transient("the server closed the connection before the login")
            .hint("check its log, and that host and port are right");
    }
    // Another kind of server: its first bytes read as the length of a message that never comes.
    if cause == "bytes remaining on stream" {
        return not_postgres();
    }
    explain_system_error(kind, &cause)
}

/// Explains an error of the system, by its words if it is an unusual one.
fn explain_system_error(kind: Option<io::ErrorKind>, cause: &str) -> BackendError {
    let known =
        kind.and_then(|kind| network::system_error(kind, "host=/DIRECTORY sets another directory for its socket"));
    known.unwrap_or_else(|| {
        BackendError::transient(cause).hint("check that the server is running, and that host and port are right")
    })
}

/// Explains an error that came after the request was sent.
pub(crate) fn explain_request(user: &str, table: &str, failure: &Failure) -> BackendError {
    let error = match failure {
        Failure::Driver(error) => error,
        Failure::Silence | Failure::Unreached(_) => return network::silence().ambiguous(),
        Failure::PoolerSilence => {
            return BackendError::transient("no answer in time from the server behind the pooler")
                .hint(LOGIN_RETRY_HINT)
                .ambiguous();
        }
        Failure::Cancelled => return locked(&format!("a row of the table {table}, or all of it")),
        Failure::Locked { row: true, .. } => return locked(&format!("a row of the table {table}")),
        Failure::Locked { row: false, .. } => return locked(&format!("the table {table}")),
        Failure::ReadOnly => return BackendError::transient("the server is read-only").hint(READ_ONLY_HINT),
        Failure::SequenceBehind => return BackendError::permanent(server_words(failure)),
        Failure::Backend(error) => return error.clone(),
    };
    let not_of_locks = |why: &str| BackendError::permanent(format!("the table {table} is not a table of locks: {why}"));
    match error.as_db_error() {
        Some(_) if is(failure, GIVEN_UP) => BackendError::undone(),
        Some(answer) if is(failure, NOT_NULL) => {
            unknown_column_requires_value(table, cut(answer.column().unwrap_or_default()))
        }
        Some(answer) if is_of_another_table(answer.code()) => not_of_locks(cut(answer.message()))
            .hint("it needs the columns name, the primary key, lock_until, locked_at and locked_by"),
        Some(answer) => {
            let error = explain_answer(user, answer);
            // The server ends the session, perhaps after it executed the statement.
            if ends_session(answer.code()) { error.ambiguous() } else { error }
        }
        None if error.to_string().starts_with("error deserializing") => not_of_locks(&cause(error)),
        None => BackendError::transient("the connection was lost").ambiguous(),
    }
}

/// Explains that the server was told to stop waiting for its standby, which may lack the change.
pub(crate) fn unreplicated() -> BackendError {
    BackendError::transient("the server did not wait for its standby, so a failover would lose the lock")
        .hint("check that the standbys in synchronous_standby_names are running")
        .ambiguous()
}

/// Explains that the table stores no milliseconds, so the lock would be free before the job is dead. The lock was
/// acquired, and must be released.
pub(crate) fn no_milliseconds(table: &str) -> BackendError {
    BackendError::permanent(format!("the table {table} stores no milliseconds, so a lock would end too early"))
        .hint("change its columns lock_until and locked_at to TIMESTAMP, without a precision")
        .ambiguous()
}

/// Explains that the table stores an earlier end although its columns could store the requested one. The lock was
/// acquired, and must be released.
pub(crate) fn too_early(table: &str) -> BackendError {
    BackendError::permanent(format!("the table {table} stores an earlier end of the lock than requested"))
        .hint(format!("check its triggers and rules: psql -c '\\d {table}'"))
        .ambiguous()
}

/// Explains that the server accepted the statement but left the lock's row unchanged.
pub(crate) fn row_unchanged(table: &str) -> BackendError {
    BackendError::permanent(format!("the table {table} refuses changes to the lock's row"))
        .hint(format!("check its row security, triggers and rules: psql -c '\\d {table}'"))
}

/// Explains that the table has no place for a lock's name beside a stored name that it treats as the same.
pub(crate) fn spelt_otherwise(table: &str, name: &str, stored: &str) -> BackendError {
    BackendError::permanent(format!("the column name of {table} treats {name} and {stored} as one lock"))
        .hint(format!("use {stored}, or run: ALTER TABLE {table} ALTER COLUMN name TYPE VARCHAR(64)"))
}

/// Explains that the role, or the URL, makes its sessions read-only on every server.
pub(crate) fn explain_read_only(source: &str, role: &str, database: &str) -> BackendError {
    const SETTING: &str = "default_transaction_read_only";
    let (whose, hint) = match source {
        "client" => {
            ("the options of the URL have", format!("take {SETTING} out of `options` in the URL, or out of PGOPTIONS"))
        }
        "database user" => {
            ("the role has in this database", format!("run: ALTER ROLE {role} IN DATABASE {database} RESET {SETTING}"))
        }
        _ => ("the role has", format!("run: ALTER ROLE {role} RESET {SETTING}")),
    };
    BackendError::permanent(format!("sessions of {role} are read-only: {whose} {SETTING}=on")).hint(hint)
}

fn locked(what: &str) -> BackendError {
    BackendError::transient(format!("another session has locked {what}"))
        .hint("end its transaction; pg_stat_activity and pg_blocking_pids on the server show it")
}

/// Returns whether the code shows that the table is none of shedlock's: people made it with other columns, columns of
/// other types or no key, or it is no table.
fn is_of_another_table(code: &SqlState) -> bool {
    let columns = ["42703", "42804", "42809", "42883", "42P10"];
    // A view, a value that is missing or does not fit, a cast that fails.
    let values = ["55000", "23502", "23514", "22001", "22007", "22P02"];
    columns.contains(&code.code()) || values.contains(&code.code())
}

/// Returns a failure in the server's own words.
pub(crate) fn server_words(failure: &Failure) -> String {
    match failure {
        Failure::Driver(error) => {
            error.as_db_error().map_or_else(|| cause(error), |answer| cut(answer.message()).to_owned())
        }
        Failure::Unreached(error) => message_text(error),
        Failure::Silence | Failure::Cancelled | Failure::PoolerSilence => "no answer in time".to_owned(),
        Failure::ReadOnly => "the server is read-only".to_owned(),
        Failure::Locked { .. } => "another session has locked it".to_owned(),
        Failure::SequenceBehind => "its sequence is behind its ids, and cannot be advanced".to_owned(),
        Failure::Backend(error) => error.message.clone(),
    }
}

fn ends_session(code: &SqlState) -> bool {
    code.code().starts_with("57P") || code.code().starts_with("08")
}

/// Classifies an error that the server answered.
fn explain_answer(user: &str, answer: &DbError) -> BackendError {
    use ErrorClass::{Overloaded, Permanent, Transient};
    let (said, code) = (cut(answer.message()), answer.code().code());
    // PgBouncer has one code for everything that it refuses, permanently or for now.
    let pooler = |part: &str| code == "08P01" && said.contains(part);
    let is_full = code == "53300" || pooler("no more connections") || pooler("query_wait_timeout");
    let (class, hint) = match code {
        "28000" if said.ends_with("no encryption") => (
            Permanent,
            "the server's pg_hba.conf refuses {user} from this host, or requires TLS, which is sslmode=verify-full",
        ),
        "28P01" | "28000" => (
            Permanent,
            "check the password of {user}, and whether the server's pg_hba.conf allows {user} from this host",
        ),
        "3D000" => (Permanent, "create the database, or name another one at the end of the URL"),
        DENIED => (Permanent, "{user} needs SELECT, INSERT and UPDATE on the table"),
        _ if is_full => (Overloaded, FULL_HINT),
        "08P01" if is_refusal(said) => (Permanent, "check the user and the database in the URL"),
        // PgBouncer says this for a while after the server was away. Later versions add the server's words.
        "08P01" if said.contains("server_login_retry") => {
            return BackendError::transient(said).hint(LOGIN_RETRY_HINT).lingering();
        }
        READ_ONLY_CODE => (Transient, READ_ONLY_HINT),
        // No connection, a conflict with another transaction, too few resources, an operator's command, a system error.
        "55P03" => (Transient, ""),
        _ if ["08", "40", "53", "57", "58"].iter().any(|class| code.starts_with(class)) => (Transient, ""),
        _ => (Permanent, ""),
    };
    let error = BackendError::new(class, said).hint(hint.replace("{user}", user));
    match code {
        "28P01" | "28000" => error.refusing_login(),
        "08P01" if class == Permanent => error.refusing_login(),
        _ => error,
    }
}

const READ_ONLY_HINT: &str = "a lock needs a writable server; name all servers in the URL, separated by commas";

const FULL_HINT: &str =
    "raise the server's max_connections, put PgBouncer in front of it, or spread the starts with --splay";

const LOGIN_RETRY_HINT: &str = "after its server was away, PgBouncer refuses connections for its server_login_retry (15 s by default); set it to less than --backend-timeout";

fn is_refusal(said: &str) -> bool {
    let parts = ["password", "no such user", "no such database", "auth", "bouncer config", "not allowed"];
    parts.iter().any(|part| said.contains(part))
}

/// Returns the beginning of a server's text, as much as belongs into a line.
fn cut(text: &str) -> &str {
    text.char_indices().nth(MAX_SHOWN).map_or(text, |(end, _)| &text[..end])
}

/// Returns the innermost cause, in one line.
fn cause(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    message_text(cause)
}

/// Returns the words of an error, in lower case.
fn message_text(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    // A system error ends with its number, which says nothing more.
    begin_lowercase(text.split(" (os error").next().unwrap_or_default()).into_owned()
}

fn io_kind(error: &Error) -> Option<io::ErrorKind> {
    error.source()?.downcast_ref::<io::Error>().map(io::Error::kind)
}
