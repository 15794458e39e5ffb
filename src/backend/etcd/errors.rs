//! The meaning of the errors that etcd answers with.

use serde_json::{Value, json};

use crate::backend::net::http::{Answer, one_line};
use crate::lock::{BackendError, ErrorClass};

/// etcd's words for a lease that was revoked, has ended, or never was.
pub(crate) const NO_LEASE: &str = "requested lease not found";
/// etcd's words for a lease that is granted under an id that has one.
pub(crate) const LEASE_EXISTS: &str = "lease already exists";

/// The message of a request for keys to which the user has no rights.
const NO_RIGHTS: &str = "the user lacks rights: permission denied";
/// Remedy for a user who lacks rights.
pub(crate) const ROLE_HINT: &str = "`shedlock schema etcd` shows the role that a user needs";

/// Errors after which etcd may have carried out the request. It carries out the request that exceeds its space, and no later one.
const AMBIGUOUS_ERRORS: [&str; 5] =
    ["request timed out", "leader changed", "server stopped", "request is too slow", "space"];

/// Errors that pass, with their messages.
const TRANSIENT_ERRORS: [(&str, &str); 11] = [
    ("no leader", "the cluster has no leader"),
    ("request timed out", "the cluster did not agree in time"),
    ("leader changed", "the cluster changed its leader"),
    ("not leader", "the cluster changed its leader"),
    ("server stopped", "the server is stopping"),
    ("unhealthy cluster", "the cluster is unhealthy"),
    ("raft proposal dropped", "the cluster dropped the request"),
    ("learner", LEARNER),
    ("revision of auth store is old", "the users of the cluster have just changed"),
    ("mvcc: database space exceeded", NO_SPACE),
    ("etcdserver: no space", NO_SPACE),
];

/// Remedies for errors that do not always pass by themselves.
fn advice(sign: &str) -> Option<&'static str> {
    Some(match sign {
        "no leader" | "unhealthy cluster" | "request timed out" => {
            "check its members with etcdctl endpoint health --cluster: more than half of them must be up"
        }
        "learner" => "name all members in the URL, separated by commas",
        sign if sign.contains("space") => {
            "compact and defragment it, then clear the alarm: etcdctl compact REVISION, etcdctl defrag, etcdctl alarm disarm"
        }
        _ => return None,
    })
}

/// The message of an error about space.
const NO_SPACE: &str = "the server has no space left for its data (quota-backend-bytes)";

/// The message of a member that has no vote, and forwards nothing.
const LEARNER: &str = "the server is a learner, and grants no locks";

/// Returns the name of the server in the error of a learner.
pub(crate) fn learner(error: &BackendError) -> Option<&str> {
    error.message.strip_suffix(LEARNER)?.strip_suffix(": ")
}

/// Returns whether the server refused to write because it has no space.
pub(crate) fn is_out_of_space(error: &BackendError) -> bool {
    error.message.ends_with(NO_SPACE)
}

/// Returns whether the server refused a request because the user lacks a right.
pub(crate) fn is_missing_rights(error: &BackendError) -> bool {
    error.message.ends_with(NO_RIGHTS)
}

/// Returns whether etcd has forgotten the login of this connection.
pub(crate) fn is_forgotten(answer: &Answer) -> bool {
    let text = error_text(&answer.body);
    text.contains("invalid auth token") || text.contains("revision of auth store is old")
}

/// Returns the text of an error of etcd's; `None` for an answer of another program, such as a proxy's page.
fn etcd_message(body: &Value) -> Option<&str> {
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    body.get("code").filter(|code| code.is_number())?;
    text("message").or_else(|| text("error"))
}

fn error_text(body: &Value) -> &str {
    etcd_message(body).unwrap_or_default()
}

/// Returns the part of the answer to a login that may be shown: etcd's own message. Anything else may contain the password or
/// a token.
pub(crate) fn shown_of_login(body: &Value) -> Value {
    etcd_message(body).map_or(Value::Null, |text| json!({"message": text, "code": 0}))
}

/// Explains an answer that is an error.
pub(crate) fn from_answer(answer: &Answer) -> BackendError {
    let Some(text) = etcd_message(&answer.body) else { return from_page(answer).ambiguous() };
    let has = |part: &str| text.contains(part);
    if let Some((sign, meaning)) = TRANSIENT_ERRORS.iter().find(|(sign, _)| has(sign)) {
        let error = BackendError::transient(*meaning).hint(advice(sign).unwrap_or_default());
        return if AMBIGUOUS_ERRORS.iter().any(|text| sign.contains(text)) { error.ambiguous() } else { error };
    }
    if has("too many requests") {
        return BackendError::new(ErrorClass::Overloaded, "the server is overloaded")
            .hint("spread the starts with --splay");
    }
    if has(NO_LEASE) {
        return BackendError::transient(NO_LEASE);
    }
    let login = "set user and password in a --backend-file as USER:PASSWORD@ before the host, or the password in SHEDLOCK_BACKEND_PASSWORD";
    if has("invalid user ID or password") {
        return BackendError::permanent("the server rejects this user and password")
            .hint("the password comes from the URL or from SHEDLOCK_BACKEND_PASSWORD")
            .refusing_login();
    }
    if has("authentication is not enabled") {
        return BackendError::permanent("the server has no users, but the URL names one")
            .hint("leave user and password out, or turn on etcdctl auth enable");
    }
    if has("user name is empty") || has("user name not found") {
        return BackendError::permanent("the server requires a user and a password").hint(login).refusing_login();
    }
    if has("permission denied") {
        return BackendError::permanent(NO_RIGHTS).hint(ROLE_HINT);
    }
    if has("lease TTL") {
        return BackendError::permanent("etcd grants no lease for so long").hint("choose a shorter duration");
    }
    if has(LEASE_EXISTS) {
        return BackendError::permanent(LEASE_EXISTS);
    }
    if answer.status == 404 {
        return no_gateway(answer.status);
    }
    // The gateway is a client of its own server, to which it shows the server's certificate.
    if has("connection closed") || has("transport") || has("SubConns") {
        return BackendError::transient("the server's gateway does not reach its own server")
            .hint("if etcd requires client certificates, the server's own has to be for clients as well (clientAuth)")
            .ambiguous();
    }
    let shown = one_line(text);
    let shown = if shown.is_empty() { format!("status {}", answer.status) } else { shown };
    match answer.status {
        // The gateway answers 408 if it has given the request up.
        408 | 500.. => BackendError::transient(format!("the server fails: {shown}")).ambiguous(),
        429 => BackendError::transient(format!("the server fails: {shown}")),
        _ => BackendError::permanent(format!("the server refuses: {shown}")),
    }
}

/// Explains an answer of another program than etcd, which may have passed the request on before.
fn from_page(answer: &Answer) -> BackendError {
    match answer.status {
        408 => BackendError::transient("a proxy did not get the answer in time (status 408)"),
        429 => BackendError::new(ErrorClass::Overloaded, "a proxy limits its clients (status 429)")
            .hint("spread the starts with --splay"),
        500.. => {
            let shown = one_line(answer.body.as_str().unwrap_or_default());
            let shown = if shown.is_empty() { format!("status {}", answer.status) } else { shown };
            BackendError::transient(format!("the server fails: {shown}"))
        }
        status => no_gateway(status),
    }
}

fn no_gateway(status: u16) -> BackendError {
    BackendError::permanent(format!("not an etcd server with the v3 JSON gateway (status {status})"))
        .hint("check the port, and that etcd is 3.4 or later and has its gateway turned on (enable-grpc-gateway)")
}

/// Explains an answer without the server's time.
pub(crate) fn without_date() -> BackendError {
    BackendError::permanent("the answer does not tell the time: its header `Date` is missing or not a time")
        .hint("etcd sends it; a proxy in between must leave it as it is")
        .ambiguous()
}

/// Explains an answer that breaks etcd's protocol.
pub(crate) fn unexpected_answer(body: &Value) -> BackendError {
    BackendError::permanent(format!("not an answer of etcd: {}", one_line(&body.to_string())))
        .hint("check host and port")
        .ambiguous()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, text: &str) -> BackendError {
        from_answer(&Answer { status, date: None, retry_after: None, body: json!({"error": text, "code": 1}) })
    }

    #[test]
    fn what_passes_is_tried_again_and_what_stays_says_what_to_do() {
        for (status, text, ambiguous) in [
            (503, "etcdserver: no leader", false),
            (503, "etcdserver: request timed out", true),
            (503, "etcdserver: request timed out, possibly due to previous leader failure", true),
            (503, "etcdserver: leader changed", true),
            (503, "etcdserver: rpc not supported for learner", false),
            (429, "etcdserver: mvcc: database space exceeded", true),
            (500, "panic", true),
            (503, "connection closed", true),
        ] {
            let error = of(status, text);
            assert_eq!((error.class, error.ambiguous), (ErrorClass::Transient, ambiguous), "{text}: {error:?}");
        }
        assert_eq!(of(429, "etcdserver: too many requests").class, ErrorClass::Overloaded);
        assert!(!of(400, "etcdserver: duplicate key given in txn request").ambiguous);
        for (status, text) in [
            (400, "etcdserver: authentication failed, invalid user ID or password"),
            (400, "etcdserver: user name is empty"),
            (412, "etcdserver: authentication is not enabled"),
            (403, "etcdserver: permission denied"),
            (404, "Not Found"),
        ] {
            let error = of(status, text);
            assert!(error.class == ErrorClass::Permanent && error.hint.is_some(), "{text}: {error:?}");
        }
    }

    /// A proxy may have passed the request on before it answered.
    #[test]
    fn after_a_page_of_a_proxy_s_nobody_knows_what_became_of_the_request() {
        let page = |status, body| from_answer(&Answer { status, date: None, retry_after: None, body });
        for body in [json!("<html>no</html>"), json!(null), json!({"message": "etcdserver: permission denied"})] {
            for (status, class) in [
                (302, ErrorClass::Permanent),
                (403, ErrorClass::Permanent),
                (404, ErrorClass::Permanent),
                (413, ErrorClass::Permanent),
                (408, ErrorClass::Transient),
                (429, ErrorClass::Overloaded),
                (502, ErrorClass::Transient),
            ] {
                let error = page(status, body.clone());
                assert_eq!((error.class, error.ambiguous), (class, true), "{status} {body}: {error:?}");
            }
        }
    }

    #[test]
    fn what_a_login_was_answered_is_shown_only_in_the_words_of_etcd() {
        for body in [json!("s3cret"), json!({"token": "s3cret"}), json!({"message": "s3cret"}), json!(["s3cret"])] {
            for status in [400, 403, 500, 502] {
                let error = from_answer(&Answer { status, date: None, retry_after: None, body: shown_of_login(&body) });
                assert!(!error.message.contains("s3cret"), "{error:?}");
            }
        }
        let words = json!({"error": "etcdserver: user name is empty", "code": 3, "details": ["s3cret"]});
        let error = from_answer(&Answer { status: 400, date: None, retry_after: None, body: shown_of_login(&words) });
        assert!(error.message.contains("requires a user"), "{error:?}");
    }
}
