//! The meaning of the errors that the driver and the server report.

use std::io;
use std::time::Duration;

use ::redis::ServerError;

use super::resp::ParseError;
use crate::backend::net::bounds::{self, TooLong};
use crate::backend::net::tls;
use crate::lock::{BackendError, ErrorClass};

/// Hint with the rights that suffice with the default prefix.
const RIGHTS: &str = "give the user these rights: ACL SETUSER USER on >PASSWORD ~job-lock:* ~{job-lock:* \
                      +eval +evalsha +select +time +get +set +setrange +del +pttl +pexpire \
                      +zadd +zrange +zrem +zremrangebyrank";

/// Error codes that are transient, with their messages.
const TRANSIENT_ERRORS: [(&str, &str); 11] = [
    ("READONLY", "the server is a replica, and grants no locks"),
    ("LOADING", "the server is starting, and still loading its data"),
    ("BUSY", "the server is busy with another client's script"),
    ("MASTERDOWN", "the server is a replica that has lost its master"),
    ("CLUSTERDOWN", "the cluster is down"),
    ("TRYAGAIN", "the cluster is moving the lock to another node"),
    ("NOREPLICAS", "the server has fewer replicas than it requires (min-replicas-to-write)"),
    ("MISCONF", "the server cannot write to its disk, so it grants no locks"),
    ("OOM", "the server is out of memory (maxmemory)"),
    ("UNBLOCKED", "the server has become a replica"),
    ("UNKILLABLE", "the server is busy with another client's script"),
];

impl BackendError {
    /// Prefixes the message with the backend's name, unless it has one.
    pub(crate) fn named(self, name: &str) -> Self {
        self.naming(&format!("backend {name}"))
    }
}

/// Returns the code of a server's error. Redis 6 puts the error that a script met after the script's name, or into
/// another error's text, and Valkey has a text of its own for a right that a script lacks.
pub(crate) fn code(error: &ServerError) -> &str {
    let text = error.details().unwrap_or_default();
    if text.starts_with("ACL failure in script") {
        return "NOPERM";
    }
    if error.code() == "@user_script:" || error.code() == "ERR" && text.contains("@user_script") {
        let known = TRANSIENT_ERRORS.iter().map(|(code, _)| *code).chain(["WRONGTYPE", "NOPERM"]);
        return known.into_iter().find(|code| text.contains(&format!("-{code} "))).unwrap_or("ERR");
    }
    error.code()
}

/// Returns true if a user with more rights would get an answer.
pub(crate) fn is_denied(error: &ServerError) -> bool {
    let text = error.details().unwrap_or_default();
    code(error) == "NOPERM" || text.contains("executing the script can't")
}

/// Returns a remedy for errors that do not always pass by themselves.
fn advice(code: &str) -> Option<&'static str> {
    Some(match code {
        "READONLY" | "MASTERDOWN" | "UNBLOCKED" => {
            "name all servers in the URL, separated by commas, or ask sentinels with redis-sentinel://"
        }
        "CLUSTERDOWN" => "find the missing nodes with redis-cli CLUSTER NODES",
        "NOREPLICAS" => "check its replicas with redis-cli INFO replication",
        "MISCONF" => "check its disk and its log",
        "OOM" => "give it more memory, or let its other keys expire",
        _ => return None,
    })
}

/// Explains an error that the server answered with.
pub(crate) fn from_answer(error: &ServerError) -> BackendError {
    let (code, text) = (code(error), error.details().unwrap_or_default());
    if let Some((_, meaning)) = TRANSIENT_ERRORS.iter().find(|(known, _)| *known == code) {
        let error = BackendError::transient(*meaning);
        return match advice(code) {
            Some(advice) => error.hint(advice),
            None => error,
        };
    }
    let has = |part: &str| text.to_ascii_lowercase().contains(part);
    // The rest names the script by its hash, and the line in it.
    let before_script = text.split_once(" script: ").map_or(text, |(before_script, _)| before_script);
    let server_text = || one_line(&format!("{} {before_script}", error.code()));
    if let Some(command) = renamed(text) {
        return BackendError::permanent(format!("the server does not know {command}, which locks need"))
            .hint(format!("it may have been renamed: see `rename-command {command}` in the server's configuration"));
    }
    match code {
        "WRONGPASS" => BackendError::permanent("the server rejects this user and password")
            .hint("the password comes from the URL or from SHEDLOCK_BACKEND_PASSWORD")
            .refusing_login(),
        // A server that requires a password does not even parse a long command.
        _ if code == "NOAUTH" || has("unauthenticated") => BackendError::permanent("the server requires a password")
            .hint("set it in SHEDLOCK_BACKEND_PASSWORD, or in a --backend-file as :PASSWORD@ or USER:PASSWORD@ before the host")
            .refusing_login(),
        "NOPERM" => BackendError::permanent(format!("the user lacks rights: {}", server_text())).hint(RIGHTS),
        "WRONGTYPE" => BackendError::permanent("the lock's key holds something other than a lock")
            .hint("inspect it with redis-cli TYPE, and choose another name or ?prefix="),
        "MOVED" | "ASK" | "CROSSSLOT" => {
            BackendError::permanent("the server is a node of a cluster").hint("write redis-cluster://HOST,HOST")
        }
        "DENIED" => BackendError::permanent("the server accepts no connections from other hosts (protected mode)")
            .hint("set a password on the server, or turn its `protected-mode` off"),
        _ if has("max number of clients") => {
            BackendError::new(ErrorClass::Overloaded, "the server has no room for another client (maxclients)")
                .hint("raise the server's maxclients, or spread the starts with --splay")
        }
        _ if has("executing the script can't") || has("has no permissions") => {
            BackendError::permanent(format!("the user lacks rights: {}", server_text())).hint(RIGHTS)
        }
        _ if has("db index") => BackendError::permanent("the server has no database with this number")
            .hint("numbers start at 0; `databases` in its configuration says how many there are"),
        _ if has("select is not allowed in cluster") => {
            BackendError::permanent("the server is a node of a cluster, which has only database 0")
                .hint("write redis-cluster://HOST,HOST")
        }
        _ if has("without any password configured") => {
            BackendError::permanent("the server has no password, but one is set").hint("leave the password out")
        }
        _ if has("unknown command") && has("sentinel") => {
            BackendError::permanent("the server is not a sentinel").hint("write redis://HOST for the server itself")
        }
        _ if has("unknown command") => BackendError::permanent("the server does not support EVALSHA or EVAL, which locks need")
            .hint("for a sentinel write redis-sentinel://HOST/MASTER; otherwise the server has its scripts turned off"),
        _ => BackendError::permanent(format!("the server refuses: {}", server_text())),
    }
}

/// Returns the command that the server does not know, other than one that another kind of server lacks.
fn renamed(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("unknown command '")?;
    let (command, _) = rest.split_once('\'')?;
    (!["EVAL", "EVALSHA", "SENTINEL"].contains(&command)).then_some(command)
}

/// Explains why the history of the lock with this key cannot be written; `key_prefix` is the prefix of all locks' keys.
pub(crate) fn from_history(key: &str, key_prefix: &str, why: &str) -> BackendError {
    let error = BackendError::permanent(format!("no history in {{{key}}}:history: {}", one_line(why)));
    if why.contains("WRONGTYPE") || why.contains("no number") {
        return error.hint(format!(
            "inspect it and {{{key}}}:token with redis-cli TYPE, and delete the key that shedlock did not write"
        ));
    }
    if why.contains("moving") {
        return error.hint("the history continues once the slot has moved");
    }
    error.hint(format!(
        "give the user the rights for the history: ACL SETUSER USER ~{{{key_prefix}* +get +set +zadd +zrange +zrem +zremrangebyrank"
    ))
}

/// Explains why a connection could not be opened.
pub(crate) fn from_connecting(error: &io::Error, limit: Duration) -> BackendError {
    if is_timeout(error) {
        return BackendError::transient(silence(limit))
            .hint("check that the server is healthy, that no firewall is in between, and whether the port needs TLS");
    }
    from_io(error)
}

/// Explains why an open connection broke.
pub(crate) fn from_connection(error: &io::Error, limit: Duration) -> BackendError {
    if is_timeout(error) {
        return BackendError::transient(format!(
            "{}: the server accepted the connection but did not reply",
            silence(limit)
        ))
        .hint("check that the server is healthy and not overloaded, and whether the port needs TLS");
    }
    from_io(error)
}

/// Returns true if the server sent nothing in time.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn silence(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs_f64().round())
}

fn from_io(error: &io::Error) -> BackendError {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotFound, PermissionDenied, UnexpectedEof,
    };
    if TooLong::is(error) {
        return bounds::too_long(error);
    }
    if ParseError::caused(error) {
        return BackendError::permanent("not a Redis server").hint("check the port; a TLS port needs rediss://");
    }
    let text = one_line(&error.to_string());
    if let Some(error) = from_tls(&text) {
        return error;
    }
    match error.kind() {
        ConnectionRefused => {
            BackendError::transient("connection refused").hint("check that the server is running there")
        }
        NotFound => BackendError::transient("the socket does not exist")
            .hint("check that the server is running, and its `unixsocket`"),
        PermissionDenied => {
            BackendError::permanent("permission denied").hint("check the socket's mode, and `unixsocketperm`")
        }
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => {
            BackendError::transient("the server closed the connection")
                .hint("check that host and port are right; a TLS port needs rediss://")
        }
        _ => BackendError::transient(text),
    }
}

/// Returns true if the connection broke before a command could have been sent.
pub(crate) fn is_handshake(error: &io::Error) -> bool {
    from_tls(&error.to_string()).is_some()
}

fn from_tls(text: &str) -> Option<BackendError> {
    if text.contains("corrupt message") {
        return Some(
            BackendError::permanent("the server does not speak TLS")
                .hint("write redis:// for a connection without TLS"),
        );
    }
    tls::complaint(text)
}

/// Explains that a server names another one by something else than a host and a port. A password goes to no such place.
pub(crate) fn from_redirection(place: &str) -> BackendError {
    BackendError::transient(format!("the server redirects to `{}`, which is not a host and a port", one_line(place)))
        .hint("check the addresses that the servers announce: redis-cli CLUSTER NODES, or SENTINEL MASTERS")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> ServerError {
        let Ok(::redis::Value::ServerError(error)) = ::redis::parse_redis_value(format!("-{text}\r\n").as_bytes())
        else {
            panic!("{text} is no refusal");
        };
        error
    }

    #[test]
    fn what_a_script_meets_is_found_whichever_way_the_server_tells_it() {
        for text in [
            "READONLY You can't write against a read only replica. script: 308f, on @user_script:5.",
            "@user_script: 5: -READONLY You can't write against a read only replica.",
            "ERR Error running script (call to f_308f): @user_script:5: @user_script: 5: -READONLY You can't write.",
        ] {
            assert_eq!(code(&refusal(text)), "READONLY");
            assert_eq!(from_answer(&refusal(text)).class, ErrorClass::Transient);
        }
        assert_eq!(code(&refusal("ERR Error running script (call to f_1): @user_script:5: BUSY nothing")), "ERR");
    }

    #[test]
    fn what_passes_is_tried_again_and_what_stays_says_what_to_do() {
        for text in ["LOADING Redis is loading the dataset in memory", "CLUSTERDOWN The cluster is down", "MISCONF x"] {
            assert_eq!(from_answer(&refusal(text)).class, ErrorClass::Transient, "{text}");
        }
        assert_eq!(from_answer(&refusal("ERR max number of clients reached")).class, ErrorClass::Overloaded);
        for text in [
            "WRONGPASS invalid username-password pair or user is disabled.",
            "NOAUTH Authentication required.",
            "NOPERM this user has no permissions to run the 'eval' command",
            "ERR The user executing the script can't run this command or subcommand",
            "ERR ACL failure in script: User a has no permissions to run the 'setrange' command script",
            "ERR DB index is out of range",
            "ERR unknown command 'EVALSHA', with args beginning with: ",
            "DENIED Redis is running in protected mode",
            "MOVED 1 127.0.0.1:1",
        ] {
            let error = from_answer(&refusal(text));
            assert!(error.class == ErrorClass::Permanent && error.hint.is_some(), "{text}");
        }
    }
}
