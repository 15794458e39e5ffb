//! The diagnosis of `check`: whether this host can lock in this namespace.

use serde_json::{Value, json};

use super::api_result::{ApiResult, RequestKind, classify_answer};
use super::client::{Kubernetes, clock};
use crate::backend::diagnose::{self, Distance, FindingSink};
use crate::backend::net::http::{AnswerKind, Verb, one_line};
use crate::backend::{Finding, LockTest};
use crate::lock::BackendError;

/// The rights that a run needs on Leases.
const NEEDED_VERBS: [&str; 3] = ["get", "create", "update"];

/// Tries everything that a run needs.
pub(crate) fn check(store: &mut Kubernetes, report: FindingSink<'_>) -> LockTest {
    match probe(store, report) {
        Ok(reached) => reached,
        Err(error) => {
            report(Finding::from_error(diagnose::connection_subject(&error), error));
            LockTest::Pointless
        }
    }
}

fn probe(store: &mut Kubernetes, report: FindingSink<'_>) -> Result<LockTest, BackendError> {
    let timeout = store.timeout;
    let session = store.session()?;
    session.http.use_all_time_at_once();
    let distance = session.http.report_reachable_hosts(timeout, report);
    if distance == Distance::Unreached {
        return Ok(LockTest::Pointless);
    }
    let version = store.send(Verb::Get, "/version", None, AnswerKind::Answer)?;
    let http = &store.session()?.http;
    report(diagnose::tls(http.tls(), http.tls_version(), distance));
    if let Some(version) = version.body["gitVersion"].as_str() {
        report(Finding::good("server", format!("Kubernetes {}", one_line(version))));
    }
    report(login(store)?);
    report(Finding::good("namespace", store.address.namespace()?));
    let reached = rights(store, report)?;
    if reached == LockTest::Possible {
        watch_clock(store, report)?;
    }
    Ok(reached)
}

/// Requests a review of shedlock's own login or rights, which every client may do.
fn review(store: &mut Kubernetes, group: &str, kind: &str, spec: &Value) -> Result<Value, BackendError> {
    let path = format!("/apis/{group}.k8s.io/v1/{}s", kind.to_lowercase());
    let body = json!({"apiVersion": format!("{group}.k8s.io/v1"), "kind": kind, "spec": spec});
    let answer = store.send(Verb::Post, &path, Some(&body), AnswerKind::Answer)?;
    match classify_answer(answer, kind, RequestKind::Read)? {
        ApiResult::Object(answer) => Ok(answer),
        ApiResult::Missing | ApiResult::Conflict => {
            Err(BackendError::permanent("the API server does not know this kind of review"))
        }
    }
}

fn login(store: &mut Kubernetes) -> Result<Finding, BackendError> {
    match review(store, "authentication", "SelfSubjectReview", &json!({})) {
        Ok(answer) => Ok(match answer["status"]["userInfo"]["username"].as_str() {
            Some("system:anonymous") | None => Finding::unwise("login", "as nobody", "name a token with token-file"),
            Some(user) => Finding::good("login", format!("as {}", one_line(user))),
        }),
        Err(error) if error.message.contains("401") => Err(error),
        // Servers before 1.28 do not know this review.
        Err(_) => Ok(Finding::good("login", "the API server does not say as whom")),
    }
}

fn rights(store: &mut Kubernetes, report: FindingSink<'_>) -> Result<LockTest, BackendError> {
    let namespace = store.address.namespace()?;
    let mut lacking = Vec::new();
    for verb in NEEDED_VERBS.into_iter().chain(["list"]) {
        let resource =
            json!({"namespace": namespace, "verb": verb, "group": "coordination.k8s.io", "resource": "leases"});
        let answer =
            review(store, "authorization", "SelfSubjectAccessReview", &json!({ "resourceAttributes": resource }))?;
        if answer["status"]["allowed"] != true {
            lacking.push(verb);
        }
    }
    let advice = "`shedlock schema kubernetes` prints a Role with the rights, and binds it to a service account";
    if lacking.is_empty() {
        report(Finding::good("rights", "get, create, update and list on Leases"));
    } else if lacking == ["list"] {
        report(Finding::unwise(
            "rights",
            "no right to list Leases: status and history work for named locks only",
            advice,
        ));
    } else {
        report(Finding::bad("rights", format!("no right to {} Leases", lacking.join(", ")), advice));
        return Ok(LockTest::Pointless);
    }
    Ok(LockTest::Possible)
}

/// Reports the round trip and the difference of the clocks; the server's shows whole seconds only.
fn watch_clock(store: &mut Kubernetes, report: FindingSink<'_>) -> Result<(), BackendError> {
    let mut last = None;
    let ask = || {
        let answer = store.ask(Verb::Get, "/shedlock-check", None)?;
        last = Some(clock(&answer)?);
        Ok(())
    };
    diagnose::round_trips(ask, report)?;
    if let Some(last) = last {
        report(diagnose::clock_in_seconds(last));
    }
    Ok(())
}
