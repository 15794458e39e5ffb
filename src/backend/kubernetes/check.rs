//! The diagnosis of `check`: whether this host can lock in this namespace.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::answer::{Effect, Told, told};
use super::{Kubernetes, clock};
use crate::backend::http::Verb;
use crate::backend::probe::{self, Distance, Tell};
use crate::backend::{BackendError, Finding, Reached};
use crate::duration::brief;
use crate::system::Moment;

/// The rights that a run needs on Leases.
const NEEDED: [&str; 3] = ["get", "create", "update"];
/// Number of times that the server's clock is read.
const TRIPS: usize = 7;
const SECOND: u64 = 1000;

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

/// Sends the question about ourselves that everybody may ask.
fn review(store: &mut Kubernetes, group: &str, kind: &str, spec: &Value) -> Result<Value, BackendError> {
    let path = format!("/apis/{group}.k8s.io/v1/{}s", kind.to_lowercase());
    let body = json!({"apiVersion": format!("{group}.k8s.io/v1"), "kind": kind, "spec": spec});
    let answer = store.send(Verb::Post, &path, Some(&body))?;
    match told(&answer, kind, Effect::Reads)? {
        Told::Object(answer) => Ok(answer),
        Told::Missing | Told::Conflict => Err(BackendError::permanent("the API server knows no such question")),
    }
}

fn login(store: &mut Kubernetes) -> Result<Finding, BackendError> {
    match review(store, "authentication", "SelfSubjectReview", &json!({})) {
        Ok(answer) => Ok(match answer["status"]["userInfo"]["username"].as_str() {
            Some("system:anonymous") | None => Finding::unwise("login", "as nobody", "name a token with token-file"),
            Some(user) => Finding::good("login", format!("as {user}")),
        }),
        Err(error) if error.message.contains("401") => Err(error),
        // Servers before 1.28 do not know this question.
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
    let (mut trips, mut least, mut most) = (Vec::new(), i128::MIN, i128::MAX);
    for _ in 0..TRIPS {
        let (begun, before) = (Moment::now(), millis());
        let answer = store.ask(Verb::Get, "/shedlock-check", None)?;
        trips.push(Moment::now().since(begun));
        let server = i128::from(clock(&answer)?.0);
        // The answer was given between `before` and now, at any time of the server's second.
        least = least.max(server - i128::from(millis()));
        most = most.min(server + i128::from(SECOND) - i128::from(before));
    }
    trips.sort_unstable();
    tell(probe::round_trip(trips[TRIPS / 2]));
    tell(difference(least, most));
    Ok(())
}

fn millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Judges the clocks; the server's is ahead by at least and at most so many milliseconds.
fn difference(least: i128, most: i128) -> Finding {
    if least <= 0 && most >= 0 {
        return Finding::good("clock", "the server's and this host's agree, to within a second");
    }
    let apart = Duration::from_millis(u64::try_from(least.unsigned_abs().min(most.unsigned_abs())).unwrap_or(u64::MAX));
    let side = if least > 0 { "ahead of" } else { "behind" };
    let seen = format!("the server's is at least {} {side} this host's", brief(apart));
    match apart > Duration::from_secs(1) {
        false => Finding::good("clock", seen),
        true => Finding::unwise("clock", seen, probe::APART),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Grade;

    #[test]
    fn clocks_that_differ_by_more_than_a_second_are_unwise() {
        assert_eq!(difference(-400, 600).grade, Grade::Good);
        let ahead = difference(3_599_500, 3_600_400);
        assert_eq!((ahead.grade, ahead.seen.contains("1h ahead of")), (Grade::Unwise, true), "{ahead:?}");
        let behind = difference(-3_600_900, -3_600_000);
        assert_eq!((behind.grade, behind.seen.contains("1h behind")), (Grade::Unwise, true), "{behind:?}");
        assert_eq!(difference(100, 900).grade, Grade::Good);
    }
}
