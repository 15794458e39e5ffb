//! The target of the fuzzer that gives the answers of Kubernetes' API server.

use serde_json::Value;

use super::api_address::ApiAddress;
use super::client::{ApiSession, Kubernetes};
use super::{Access, RecordLocks, Url, lease, lease_name};
use crate::backend::net::http;
use crate::backend::testing::fuzz_operations;
use crate::lock::LockName;
use crate::system::Timestamp;

pub(crate) fn fuzz(input: &[u8]) {
    // The client has refused a body that is no object before.
    if let Some(body) = serde_json::from_slice::<Value>(input).ok().filter(|body| body["metadata"].is_object()) {
        let lock = lease::read_name(&body).unwrap_or_default();
        let record = lease::read_record(&body, &lock);
        let now = Timestamp(1_790_000_000_000);
        let written = lease::with_record(&record, "jobs", &lock, Some(&lease::Lease { body, read: now }));
        let again = lease::read_record(&written, &lock);
        assert_eq!((again.owner, again.token, again.runs), (record.owner, record.token, record.runs));
    }
    let Ok(address) = Url::parse("kubernetes://db.example/jobs")
        .and_then(|url| ApiAddress::parse(&url, &Access::default(), |_| None))
    else {
        return;
    };
    let session =
        ApiSession { http: http::fuzz::client(input), leases: "/leases".to_owned(), token: None, is_stale: false };
    let mut store = Kubernetes::new(address, &Access::default());
    store.session = Some(session);
    fuzz_operations::operate(&mut RecordLocks::new(store), input);
}

/// Checks that different locks have different Leases.
pub(crate) fn name(lock: &LockName) {
    let lease = lease_name::lease_name(lock.as_str());
    assert!(lease.len() <= 253, "{lease}");
    assert_eq!(lease_name::lock_name(&lease, Some(lock.as_str())), lock.as_str());
}
