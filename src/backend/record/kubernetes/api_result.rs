//! The results of requests to the API server: objects, conflicts, and errors with what to do about them.

use serde_json::Value;

use crate::backend::net::http::{Answer, one_line};
use crate::lock::{BackendError, ErrorClass};

/// Holds the result of a request for an object, such as a Lease.
#[derive(Debug, PartialEq)]
pub(crate) enum ApiResult {
    /// The object that the request has found or written.
    Object(Value),
    /// No such Lease exists.
    Missing,
    /// The object has another version: another client was faster.
    Conflict,
}

/// Says whether a request reads or writes: one that writes may have been executed although its answer is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Write,
}

/// Classifies an answer, which must contain an object of this kind.
pub(crate) fn classify_answer(
    answer: Answer,
    kind: &str,
    kind_of_request: RequestKind,
) -> Result<ApiResult, BackendError> {
    let Answer { status, retry_after, body, .. } = answer;
    let about = |kind: &str| body.pointer("/details/kind").and_then(Value::as_str) == Some(kind);
    match status {
        200 | 201 if body["kind"] == kind && body["metadata"].is_object() => Ok(ApiResult::Object(body)),
        404 if about("leases") => Ok(ApiResult::Missing),
        409 if body["kind"] == "Status" && kind_of_request == RequestKind::Write => Ok(ApiResult::Conflict),
        _ => {
            let error = error(status, &body).respite(retry_after);
            // A server that answers with a Status of 4xx has refused the request.
            let is_refused = body["kind"] == "Status" && status < 500 && status != 408;
            Err(if kind_of_request == RequestKind::Write && !is_refused && status != 429 {
                error.ambiguous()
            } else {
                error
            })
        }
    }
}

fn error(status: u16, body: &Value) -> BackendError {
    if body["kind"] != "Status" && !matches!(status, 401 | 403 | 408 | 429 | 500..=599) {
        return BackendError::permanent(format!("the server is not a Kubernetes API server (status {status})"))
            .hint("check host and port");
    }
    let has = |words: &str| body["message"].as_str().is_some_and(|text| text.contains(words));
    let (class, hint) = match status {
        401 => (ErrorClass::Permanent, LOGIN),
        403 if has("\"system:anonymous\"") => (
            ErrorClass::Permanent,
            "the request had no login: name a token with token-file=FILE, or a client certificate",
        ),
        403 if has("exceeded quota") => (ErrorClass::Permanent, "raise the namespace's ResourceQuota for Leases"),
        403 if has("being terminated") => {
            (ErrorClass::Permanent, "the namespace is being deleted: name another one in the URL")
        }
        403 if has("cannot delete") => (
            ErrorClass::Permanent,
            "to forget a lock, give the user the verb delete on leases of coordination.k8s.io, which jobs do not need: `shedlock schema kubernetes` prints a Role shedlock-forget",
        ),
        403 => (ErrorClass::Permanent, RIGHTS),
        404 => (
            ErrorClass::Permanent,
            "create the namespace with `kubectl create namespace NAME`, or name another one in the URL",
        ),
        408 | 410 | 500..=599 => (ErrorClass::Transient, ""),
        429 => (
            ErrorClass::Overloaded,
            "the API server limits its clients: see the FlowSchemas and PriorityLevelConfigurations of the cluster",
        ),
        _ => (ErrorClass::Permanent, ""),
    };
    BackendError::new(class, message(status, body)).hint(hint)
}

const LOGIN: &str =
    "the token or certificate is not accepted: check token-file, and that the service account exists in this cluster";
const RIGHTS: &str = "the service account needs the verbs get, create, update and list on leases of coordination.k8s.io; `shedlock schema kubernetes` prints a Role";

/// Returns the server's words, on one line.
fn message(status: u16, body: &Value) -> String {
    let text = body["message"].as_str().or(body.as_str()).unwrap_or_default();
    let text = one_line(text);
    match status {
        401 => format!("the API server does not know this client (401 {text})"),
        _ if text.is_empty() => format!("the API server answers {status}"),
        _ => format!("the API server answers {status}: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: u16, body: Value) -> Answer {
        Answer { status, date: None, retry_after: None, body }
    }

    fn status(code: u16, reason: &str, kind: &str) -> Answer {
        let details = json!({"name": "job", "group": "coordination.k8s.io", "kind": kind});
        answer(code, json!({"kind": "Status", "reason": reason, "message": "no\nway", "details": details}))
    }

    #[test]
    fn a_lease_its_absence_and_a_conflict_are_answers() {
        let lease = json!({"kind": "Lease", "metadata": {}});
        assert_eq!(
            classify_answer(answer(200, lease.clone()), "Lease", RequestKind::Read),
            Ok(ApiResult::Object(lease))
        );
        assert_eq!(
            classify_answer(status(404, "NotFound", "leases"), "Lease", RequestKind::Read),
            Ok(ApiResult::Missing)
        );
        for reason in ["AlreadyExists", "Conflict"] {
            assert_eq!(
                classify_answer(status(409, reason, "leases"), "Lease", RequestKind::Write),
                Ok(ApiResult::Conflict)
            );
        }
    }

    #[test]
    fn errors_are_classed_and_say_the_way_out() {
        use ErrorClass::{Overloaded, Permanent, Transient};
        for (code, class, hint) in [
            (400, Permanent, None),
            (401, Permanent, Some("token-file")),
            (403, Permanent, Some("get, create, update and list")),
            (404, Permanent, Some("create namespace")),
            (410, Transient, None),
            (422, Permanent, None),
            (429, Overloaded, Some("FlowSchemas")),
            (500, Transient, None),
            (503, Transient, None),
        ] {
            for kind_of_request in [RequestKind::Read, RequestKind::Write] {
                let error = classify_answer(status(code, "Any", "namespaces"), "Lease", kind_of_request).unwrap_err();
                assert_eq!(error.class, class, "{code}");
                assert_eq!(error.ambiguous, kind_of_request == RequestKind::Write && code >= 500, "{code}");
                let found = error.hint.unwrap_or_default();
                assert!(hint.map_or(found.is_empty(), |hint| found.contains(hint)), "{code}: {found}");
                assert!(error.message.contains("no way"), "{}", error.message);
            }
        }
    }

    #[test]
    fn a_refusal_for_another_reason_than_rights_has_another_hint() {
        for (text, hint) in [
            ("leases \"job\" is forbidden: User \"system:anonymous\" cannot get resource \"leases\"", "token-file"),
            ("leases \"job\" is forbidden: User \"ada\" cannot delete resource \"leases\"", "shedlock-forget"),
            ("leases \"job\" is forbidden: exceeded quota: few, requested: count/leases=1", "ResourceQuota"),
            ("unable to create new content in namespace jobs because it is being terminated", "being deleted"),
        ] {
            let answer = answer(403, json!({"kind": "Status", "message": text}));
            let error = classify_answer(answer.clone(), "Lease", RequestKind::Write).unwrap_err();
            assert!(error.hint.unwrap().contains(hint) && !error.ambiguous);
        }
    }

    #[test]
    fn what_is_no_api_server_is_told() {
        for (code, body) in [
            (200, json!("<html>")),
            (200, json!({"kind": "Pod"})),
            (200, json!({"kind": "Lease", "metadata": []})),
            (404, json!("404 page not found")),
            (302, json!(null)),
        ] {
            let error = classify_answer(answer(code, body), "Lease", RequestKind::Read).unwrap_err();
            assert!(error.message.contains("is not a Kubernetes API server"), "{error:?}");
        }
        // A proxy may have sent the request on before it answered for the server.
        for code in [200, 302, 404] {
            let answer = answer(code, json!("<html>"));
            assert!(!classify_answer(answer.clone(), "Lease", RequestKind::Read).unwrap_err().ambiguous);
            assert!(classify_answer(answer.clone(), "Lease", RequestKind::Write).unwrap_err().ambiguous, "{code}");
        }
        // A balancer answers for a server that is down.
        let error = classify_answer(answer(503, json!("<html>down</html>")), "Lease", RequestKind::Write).unwrap_err();
        assert_eq!((error.class, error.ambiguous), (ErrorClass::Transient, true));
    }
}
