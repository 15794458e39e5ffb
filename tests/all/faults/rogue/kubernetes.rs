//! What a server lies to shedlock that seems to be the API server of Kubernetes.

use super::{Case, First, NAME, Phase, Protocol, Then, http};
use servers::stores::KubernetesStore;

/// Returns leases that an API server could have, with values that it does not.
fn odd() -> Vec<Case> {
    let lease = |rest: &str| {
        let metadata = "\"metadata\":{\"name\":\"told-a-lie\",\"resourceVersion\":\"7\"";
        format!("{{\"kind\":\"Lease\",{metadata}{rest}}}")
    };
    let record = |text: &str| lease(&format!(",\"annotations\":{{\"shedlock/record\":\"{text}\"}}}}"));
    let fields = format!(",\"managedFields\":[{}{{}}]}}", "{\"f:a\":{}},".repeat(150_000));
    let bodies = [
        ("fields of a Lease that are many objects", lease(&fields)),
        ("a record that is many objects", record(&format!("[{}0]", "{},".repeat(600_000)))),
        ("a record that is lists in lists", record(&"[".repeat(1_800_000))),
        ("another kind", "{\"kind\":\"Pod\",\"metadata\":{}}".to_owned()),
    ];
    let cases =
        bodies.iter().map(|(what, body)| Case::new(Phase::Taking, what, http::answer("200 OK", body), Then::Silence));
    cases.collect()
}

#[test]
fn a_server_that_lies_is_borne() {
    let protocol = Protocol {
        first: First::Client,
        alone: &|port| format!("kubernetes://127.0.0.1:{port}/jobs?sslmode=disable"),
        store: &KubernetesStore::plain(),
        needle: NAME.as_bytes().to_vec(),
    };
    protocol.is_safe_from([http::lies(), odd()].concat());
}
