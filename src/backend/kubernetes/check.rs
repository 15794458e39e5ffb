//! The diagnosis of `check`: whether this host can lock in this namespace.

use serde_json::{Value, json};

use super::answer::{Effect, Told, told};
use super::{Kubernetes, clock};
use crate::backend::http::Verb;
use crate::backend::probe::{self, Distance, Tell};
use crate::backend::{BackendError, Finding, Reached};

/// The rights that a run needs on Leases.
const NEEDED: [&str; 3] = ["get", "create", "update"];

/// Tries everything that a run needs.
pub(super) fn check(store: &mut Kubernetes, tell: Tell<'_>) -> Reached {
    match probe(store, tell) {
        Ok(reached) => reached,
        Err(error) => {
            tell(Finding::of_trouble(probe::subject(&error), error));
            Reached::No
        }
    }
}

fn probe(store: &mut Kubernetes, tell: Tell<'_>) -> Result<Reached, BackendError> {
    let patience = store.patience;
    let client = store.client()?;
    client.http.make_one_attempt();
    let distance = client.http.look(patience, tell);
    if distance == Distance::Unreached {
        return Ok(Reached::No);
    }
    let version = store.send(Verb::Get, "/version", None)?;
    let http = &store.client()?.http;
    tell(probe::tls(http.tls(), http.tls_version(), distance));
    if let Some(version) = version.body["gitVersion"].as_str() {
        tell(Finding::good("server", format!("Kubernetes {version}")));
    }
    tell(login(store)?);
    tell(Finding::good("namespace", store.place.namespace()?));
    let reached = rights(store, tell)?;
    if reached == Reached::Yes {
        watch_clock(store, tell)?;
    }
    Ok(reached)
}

/// Requests a review of shedlock's own login or rights, which every client may do.
fn review(store: &mut Kubernetes, group: &str, kind: &str, spec: &Value) -> Result<Value, BackendError> {
    let path = format!("/apis/{group}.k8s.io/v1/{}s", kind.to_lowercase());
    let body = json!({"apiVersion": format!("{group}.k8s.io/v1"), "kind": kind, "spec": spec});
    let answer = store.send(Verb::Post, &path, Some(&body))?;
    match told(&answer, kind, Effect::Reads)? {
        Told::Object(answer) => Ok(answer),
        Told::Missing | Told::Conflict => {
            Err(BackendError::permanent("the API server does not know this kind of review"))
        }
    }
}

fn login(store: &mut Kubernetes) -> Result<Finding, BackendError> {
    match review(store, "authentication", "SelfSubjectReview", &json!({})) {
        Ok(answer) => Ok(match answer["status"]["userInfo"]["username"].as_str() {
            Some("system:anonymous") | None => Finding::unwise("login", "as nobody", "name a token with token-file"),
            Some(user) => Finding::good("login", format!("as {user}")),
        }),
        Err(error) if error.message.contains("401") => Err(error),
        // Servers before 1.28 do not know this review.
        Err(_) => Ok(Finding::good("login", "the API server does not say as whom")),
    }
}

fn rights(store: &mut Kubernetes, tell: Tell<'_>) -> Result<Reached, BackendError> {
    let namespace = store.place.namespace()?;
    let mut lacking = Vec::new();
    for verb in NEEDED.into_iter().chain(["list"]) {
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
        tell(Finding::good("rights", "get, create, update and list on Leases"));
    } else if lacking == ["list"] {
        tell(Finding::unwise(
            "rights",
            "no right to list Leases: status and history work for named locks only",
            advice,
        ));
    } else {
        tell(Finding::bad("rights", format!("no right to {} Leases", lacking.join(", ")), advice));
        return Ok(Reached::No);
    }
    Ok(Reached::Yes)
}

/// Reports the round trip and the difference of the clocks; the server's shows whole seconds only.
fn watch_clock(store: &mut Kubernetes, tell: Tell<'_>) -> Result<(), BackendError> {
    let mut last = None;
    let ask = || {
        let answer = store.ask(Verb::Get, "/shedlock-check", None)?;
        last = Some(clock(&answer)?);
        Ok(())
    };
    probe::round_trips(ask, tell)?;
    if let Some(last) = last {
        tell(probe::whole_seconds(last));
    }
    Ok(())
}
