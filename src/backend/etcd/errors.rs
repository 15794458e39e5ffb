//! The meaning of the errors that etcd answers with.

use serde_json::Value;

use super::super::http::Answer;
use super::super::{BackendError, ErrorClass};

/// etcd's word for a lease that was revoked, has ended, or never was.
pub(super) const NO_LEASE: &str = "requested lease not found";

/// The message of a request for keys to which the user has no rights.
const NO_RIGHTS: &str = "the user lacks rights: permission denied";
/// Remedy for a user who lacks rights.
pub(super) const ROLE: &str = "`shedlock schema etcd` shows the role that a user needs";

/// Errors of etcd after which a request may have been carried out.
const UNCLEAR: [&str; 4] = ["request timed out", "leader changed", "server stopped", "request is too slow"];

/// Errors that pass, with their messages.
const PASSING: [(&str, &str); 11] = [
    ("no leader", "the cluster has no leader"),
    ("request timed out", "the cluster did not agree in time"),
    ("leader changed", "the cluster changed its leader"),
    ("not leader", "the cluster changed its leader"),
    ("server stopped", "the server is stopping"),
    ("unhealthy cluster", "the cluster is unhealthy"),
    ("raft proposal dropped", "the cluster dropped the request"),
    ("learner", "the server is a learner, and grants no locks"),
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

/// Returns whether the server refused to write because it has no space.
pub(super) fn is_of_space(error: &BackendError) -> bool {
    error.message.ends_with(NO_SPACE)
}

/// Returns whether the user may not do something of what was requested.
pub(super) fn is_of_rights(error: &BackendError) -> bool {
    error.message.ends_with(NO_RIGHTS)
}

/// Returns whether etcd has forgotten the login of this connection.
pub(super) fn is_forgotten(answer: &Answer) -> bool {
    let said = said(&answer.body);
    said.contains("invalid auth token") || said.contains("revision of auth store is old")
}

/// Returns the text of an error.
fn said(body: &Value) -> &str {
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    text("message").or_else(|| text("error")).or_else(|| body.as_str()).unwrap_or_default()
}

/// Explains an answer that is an error.
pub(super) fn of_answer(answer: &Answer) -> BackendError {
    let said = said(&answer.body);
    let has = |part: &str| said.contains(part);
    if let Some((sign, meaning)) = PASSING.iter().find(|(sign, _)| has(sign)) {
        let error = BackendError::transient(*meaning).hint(advice(sign).unwrap_or_default());
        return if UNCLEAR.contains(sign) { error.ambiguous() } else { error };
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
            .of_login();
    }
    if has("authentication is not enabled") {
        return BackendError::permanent("the server has no users, but the URL names one")
            .hint("leave user and password out, or turn on etcdctl auth enable");
    }
    if has("user name is empty") || has("user name not found") {
        return BackendError::permanent("the server requires a user and a password").hint(login).of_login();
    }
    if has("permission denied") {
        return BackendError::permanent(NO_RIGHTS).hint(ROLE);
    }
    if has("lease TTL") {
        return BackendError::permanent("etcd grants no lease for so long").hint("choose a shorter duration");
    }
    if answer.status == 404 || !answer.body.is_object() && answer.status < 500 {
        return BackendError::permanent(format!(
            "not an etcd server with the v3 JSON gateway (status {})",
            answer.status
        ))
        .hint("check the port, and that etcd is 3.4 or later and has its gateway turned on (enable-grpc-gateway)");
    }
    // The gateway is a client of its own server, to which it shows the server's certificate.
    if has("connection closed") || has("transport") || has("SubConns") {
        return BackendError::transient("the server's gateway does not reach its own server")
            .hint("if etcd requires client certificates, the server's own has to be for clients as well (clientAuth)")
            .ambiguous();
    }
    let shown = one_line(said);
    let shown = if shown.is_empty() { format!("status {}", answer.status) } else { shown };
    // A proxy between us and etcd may answer for it when it has sent the request on.
    if answer.status >= 500 || answer.status == 429 {
        return BackendError::transient(format!("the server fails: {shown}")).ambiguous();
    }
    BackendError::permanent(format!("the server refuses: {shown}"))
}

/// Explains an answer that etcd does not give.
pub(super) fn strange(body: &Value) -> BackendError {
    BackendError::permanent(format!("not an answer of etcd: {}", one_line(&body.to_string())))
        .hint("check host and port")
        .ambiguous()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(255).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(status: u16, said: &str) -> BackendError {
        of_answer(&Answer { status, date: None, retry_after: None, body: json!({"error": said, "code": 1}) })
    }

    #[test]
    fn what_passes_is_tried_again_and_what_stays_says_what_to_do() {
        for (status, said, ambiguous) in [
            (503, "etcdserver: no leader", false),
            (503, "etcdserver: request timed out", true),
            (503, "etcdserver: request timed out, possibly due to previous leader failure", true),
            (503, "etcdserver: leader changed", true),
            (503, "etcdserver: rpc not supported for learner", false),
            (429, "etcdserver: mvcc: database space exceeded", false),
            (502, "bad gateway", true),
            (503, "connection closed", true),
        ] {
            let error = of(status, said);
            assert_eq!((error.class, error.ambiguous), (ErrorClass::Transient, ambiguous), "{said}: {error:?}");
        }
        assert_eq!(of(429, "etcdserver: too many requests").class, ErrorClass::Overloaded);
        for (status, said) in [
            (400, "etcdserver: authentication failed, invalid user ID or password"),
            (400, "etcdserver: user name is empty"),
            (412, "etcdserver: authentication is not enabled"),
            (403, "etcdserver: permission denied"),
            (404, "Not Found"),
        ] {
            let error = of(status, said);
            assert!(error.class == ErrorClass::Permanent && error.hint.is_some(), "{said}: {error:?}");
        }
    }
}
