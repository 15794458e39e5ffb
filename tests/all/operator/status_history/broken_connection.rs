//! A connection that breaks in the midst of a long listing: the command asks again, and shows each run once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::support::relay::{Act, Relay};
use crate::support::{Place, finish};
use servers::stores::{PostgresStore, Store};

/// Runs enough for an answer that comes in many parts, and places at which the connection breaks.
const RUNS: usize = 2000;
const PLACES: usize = 16;

#[test]
fn postgres_lists_each_run_once_after_a_break() {
    let (place, store) = (Place::new(), PostgresStore::new());
    finish(place.run("job", ["true"]).env("SHEDLOCK_BACKEND", store.url())).is_silent_with(0);
    store.0.psql(&format!(
        "INSERT INTO shedlock_history (name, owner, host, started_at) \
         SELECT 'job', 'h:1:' || n, 'h', now() FROM generate_series(2, {RUNS}) AS n"
    ));
    let tokens = |url: &str| {
        let words = ["history", "--json", "--limit", "10000"];
        let finished = finish(place.shedlock(words).env("SHEDLOCK_BACKEND", url));
        assert_eq!((finished.code(), &finished.stderr[..]), (Some(0), ""));
        let runs: Value = serde_json::from_str(&finished.stdout).unwrap();
        let tokens = runs.as_array().unwrap().iter().map(|run| run["token"].as_u64().unwrap());
        (runs.as_array().unwrap().len(), tokens.collect::<BTreeSet<_>>().len())
    };
    let (url, relay) = Relay::before(&store.url(), |_| Act::Pass);
    assert_eq!(tokens(&url), (RUNS, RUNS));
    let bytes = relay.passed();
    let mut again = 0;
    for at in (0..bytes).step_by(bytes / PLACES) {
        let done = AtomicBool::new(false);
        let (url, relay) = Relay::before(&store.url(), move |chunk| match at.checked_sub(chunk.passed) {
            Some(here) if here < chunk.bytes.len() && !done.swap(true, Ordering::SeqCst) => Act::Cut(here),
            _ => Act::Pass,
        });
        assert_eq!(tokens(&url), (RUNS, RUNS), "broken after {at} of {bytes} bytes");
        again += usize::from(relay.connections() > 1);
    }
    assert!(again >= PLACES / 2, "asked again {again} times");
}
