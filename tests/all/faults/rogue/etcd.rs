//! What a server lies to shedlock that seems to be etcd.

use super::{Case, First, Phase, Protocol, Then, http};
use servers::stores::EtcdStore;

/// Returns answers that etcd could give, with values that it does not.
fn odd() -> Vec<Case> {
    let huge = "18446744073709551615";
    let text = "eA==".repeat(400_000);
    let range = |kvs: &str, count: &str| {
        let range = format!("{{\"response_range\":{{\"kvs\":{kvs},\"count\":\"{count}\"}}}}");
        format!("{{\"header\":{{\"revision\":\"7\"}},\"succeeded\":true,\"responses\":[{range},{range}]}}")
    };
    let bodies = [
        ("a revision that no store has", format!("{{\"header\":{{\"revision\":\"{huge}\"}},\"succeeded\":true}}")),
        (
            "a lease without end",
            format!("{{\"header\":{{\"revision\":\"1\"}},\"TTL\":\"{huge}\",\"grantedTTL\":\"{huge}\"}}"),
        ),
        ("more keys than there are", range("[]", huge)),
        ("a value of a megabyte", range(&format!("[{{\"key\":\"eA==\",\"value\":\"{text}\"}}]"), "1")),
        ("many empty keys", range(&format!("[{}{{}}]", "{},".repeat(300_000)), "1")),
        ("a record that is many objects", {
            // `[{},{},…`, as a value.
            let value = "W3t9LHt9".to_owned() + &"LHt9".repeat(400_000);
            range(&format!("[{{\"key\":\"eA==\",\"value\":\"{value}\"}}]"), "1")
        }),
    ];
    let cases =
        bodies.iter().map(|(what, body)| Case::new(Phase::Taking, what, http::answer("200 OK", body), Then::Silence));
    cases.collect()
}

fn protocol<'a>(store: &'a EtcdStore, alone: &'a (dyn Fn(u16) -> String + Sync)) -> Protocol<'a> {
    Protocol { first: First::Client, alone, store, needle: b"/v3/kv/txn".to_vec() }
}

#[test]
fn a_server_that_lies_is_borne() {
    let store = EtcdStore::new();
    protocol(&store, &|port| format!("etcd://127.0.0.1:{port}")).is_safe_from([http::lies(), odd()].concat());
}

#[test]
fn a_server_that_lies_before_the_login_is_borne() {
    let (store, login) = (EtcdStore::new(), |case: &Case| case.phase == Phase::Connecting);
    let lies = http::lies().into_iter().filter(login).collect();
    protocol(&store, &|port| format!("etcd://jobs:secret@127.0.0.1:{port}")).is_safe_from(lies);
}

#[test]
fn a_server_that_lies_in_the_handshake_is_borne() {
    let alone = |port| format!("etcd://127.0.0.1:{port}?sslmode=require");
    protocol(&EtcdStore::new(), &alone).is_safe_from(http::of_tls());
}
