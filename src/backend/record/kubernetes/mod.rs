//! Kubernetes as a store of records: each lock is a Lease of one namespace. The clock is the `Date` of the API server's answers.
//!
//! Nothing here decides when a lock is free; a Lease of another program must not be changed beyond the fields of a lock.

mod api_address;
mod api_result;
mod check;
mod client;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod lease;
mod lease_name;

use std::time::Duration;

use serde_json::json;

use crate::backend::net::http::Verb;
use crate::backend::record::engine::{ReadResult, Record, RecordLocks, RecordSink, RecordStore, WriteResult};
use crate::backend::{Access, FindingSink, LockTest, Opened, Url};
use crate::lock::BackendError;
use crate::system::Timestamp;
use api_address::ApiAddress;
use api_result::{ApiResult, RequestKind, classify_answer};
pub(crate) use client::Kubernetes;
use client::{LEASES_PER_PAGE, clock};
use lease::Lease;

/// The manifest that gives a service account the rights that it needs.
const MANIFEST: &str = include_str!("../../../../packaging/kubernetes/rbac.yaml");

impl Kubernetes {
    /// Parses the URL, without connecting to the server.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        let address = ApiAddress::parse(url, access, |name| std::env::var(name).ok())?;
        let store = Self::new(address, access);
        Ok(Opened::server(RecordLocks::new(store), url, access))
    }
}

impl RecordStore for Kubernetes {
    type Version = Lease;

    fn clock_resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn label(&self) -> String {
        match &self.session {
            Some(session) => session.http.server(),
            None => "backend kubernetes".to_owned(),
        }
    }

    fn read(&mut self, lock: &str) -> Result<ReadResult<Lease>, BackendError> {
        let answer = self.ask(Verb::Get, &format!("/{}", lease_name::lease_name(lock)), None)?;
        let now = clock(&answer);
        let result = classify_answer(answer, "Lease", RequestKind::Read)?;
        let now = now?;
        let ApiResult::Object(body) = result else {
            return Ok(ReadResult { now, min_token: 0, found: None });
        };
        // A write without a version would replace whatever is there.
        if !body["metadata"]["resourceVersion"].is_string() {
            return Err(BackendError::permanent("the API server's answer has a Lease without a resourceVersion"));
        }
        let record = lease::read_record(&body, lock);
        let min_token = if record.token == 0 { lease::first_token(&body, now) } else { 0 };
        Ok(ReadResult { now, min_token, found: Some((record, Lease { body, read: now })) })
    }

    fn write(&mut self, lock: &str, record: &Record, version: Option<&Lease>) -> Result<WriteResult, BackendError> {
        let namespace = self.address.namespace()?;
        let lease = lease::with_record(record, &namespace, lock, version);
        let (method, subpath) = match version {
            None => (Verb::Post, String::new()),
            Some(_) => (Verb::Put, format!("/{}", lease_name::lease_name(lock))),
        };
        let answer = self.ask(method, &subpath, Some(&lease))?;
        match classify_answer(answer, "Lease", RequestKind::Write)? {
            ApiResult::Missing | ApiResult::Conflict => Ok(WriteResult::Conflict),
            ApiResult::Object(stored) => check_stored(&lease::read_record(&stored, lock), record),
        }
    }

    fn remove(&mut self, lock: &str, version: &Lease) -> Result<WriteResult, BackendError> {
        let metadata = &version.body["metadata"];
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        });
        let answer = self.ask(Verb::Delete, &format!("/{}", lease_name::lease_name(lock)), Some(&options))?;
        if answer.status < 300 && answer.body["kind"] == "Lease" {
            let error =
                BackendError::permanent(format!("the Lease {} is deleted but stays", lease_name::lease_name(lock)));
            return Err(error.hint("it has finalizers of another program, which has to remove them"));
        }
        match classify_answer(answer, "Status", RequestKind::Write)? {
            ApiResult::Missing | ApiResult::Conflict => Ok(WriteResult::Conflict),
            ApiResult::Object(_) => Ok(WriteResult::Done),
        }
    }

    fn list(&mut self, sink: RecordSink<'_>) -> Result<Timestamp, BackendError> {
        self.list_in_pages(LEASES_PER_PAGE, sink)
    }

    fn disconnect(&mut self) {
        if let Some(session) = &mut self.session {
            session.http.disconnect();
            session.is_stale = true;
        }
    }

    fn create_missing(&mut self) -> Result<Vec<String>, BackendError> {
        self.list(&mut |_, _| {})?;
        Ok(vec![format!("the namespace {} is there; each lock makes its Lease itself", self.address.namespace()?)])
    }

    fn schema(&mut self) -> Result<String, BackendError> {
        Ok(MANIFEST.to_owned())
    }

    fn check(&mut self, report: FindingSink<'_>) -> LockTest {
        check::check(self, report)
    }
}

/// Judges what the server has stored: something before it, such as an admission webhook, may have changed it.
fn check_stored(stored: &Record, wanted: &Record) -> Result<WriteResult, BackendError> {
    if (&stored.owner, stored.until) == (&wanted.owner, wanted.until) || wanted.owner.is_empty() {
        return Ok(WriteResult::Done);
    }
    Err(BackendError::permanent("the API server has stored another owner or end than it was sent")
        .hint("look for an admission webhook that changes Leases")
        .ambiguous())
}

#[cfg(test)]
mod tests {
    use super::client::without_token;
    use super::*;
    use crate::backend::net::http::Answer;
    use crate::lock::ErrorClass;
    use servers::stores::{KubernetesStore, Store};

    crate::backend::testing::conformance::conformance!(
        #[ignore = "needs a server: --include-ignored"]
        servers::stores::KubernetesStore::new
    );

    fn store_of(url: &str) -> Kubernetes {
        let access = Access { timeout: Duration::from_secs(10), ..Access::default() };
        let address = ApiAddress::parse(&Url::parse(url).unwrap(), &access, |_| None).unwrap();
        Kubernetes::new(address, &access)
    }

    fn held() -> Record {
        Record {
            owner: "web1:1:00000000000000ff".to_owned(),
            until: Some(Timestamp(9_999_999_999_000)),
            ..Record::default()
        }
    }

    #[test]
    fn a_token_that_a_proxy_repeats_is_not_shown() {
        let token = "eyJhbGciOiJSUzI1NiJ9.secret";
        for body in [json!(format!("sent: Bearer {token}")), json!({"message": format!("sent: Bearer {token}")})] {
            for status in [401, 403, 502] {
                let answer = Answer { status, date: None, retry_after: None, body: body.clone() };
                let error =
                    classify_answer(without_token(answer, Some(token)), "Lease", RequestKind::Read).unwrap_err();
                assert!(error.message.contains("sent: Bearer ...") && !error.message.contains("eyJ"), "{error:?}");
            }
        }
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn a_write_to_what_another_has_written_is_a_conflict() {
        let server = KubernetesStore::new();
        let mut store = store_of(&server.url());
        assert_eq!(store.write("job", &held(), None), Ok(WriteResult::Done));
        assert_eq!(store.write("job", &held(), None), Ok(WriteResult::Conflict));
        let (_, old) = store.read("job").unwrap().found.unwrap();
        // A write that changes nothing counts as well: it has to keep out one that was given up and is still on its way.
        assert_eq!(store.write("job", &held(), Some(&old)), Ok(WriteResult::Done));
        assert_eq!(store.write("job", &held(), Some(&old)), Ok(WriteResult::Conflict));
        // A late write does not bring back a Lease that was deleted either, nor replace one that was made anew.
        let (_, old) = store.read("job").unwrap().found.unwrap();
        server.delete("job");
        assert_eq!(store.write("job", &held(), Some(&old)), Ok(WriteResult::Conflict));
        assert!(server.stored("job").is_none());
        assert_eq!(store.write("job", &Record::default(), None), Ok(WriteResult::Done));
        assert_eq!(store.write("job", &held(), Some(&old)), Ok(WriteResult::Conflict));
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn all_pages_of_a_list_are_read_and_no_lease_of_others() {
        let server = KubernetesStore::new();
        let mut store = store_of(&server.url());
        let other = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"}});
        server.0.request("POST", &server.0.leases(""), &other.to_string());
        // A chart has made this Lease, and shedlock uses it for a lock.
        let chart = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "of-a-chart", "labels": {"app.kubernetes.io/managed-by": "Helm"}},
        });
        server.0.request("POST", &server.0.leases(""), &chart.to_string());
        let (_, made) = store.read("of-a-chart").unwrap().found.unwrap();
        let listed = |store: &mut Kubernetes| {
            let mut names = Vec::new();
            store.list_in_pages(2, &mut |name, _| names.push(name)).unwrap();
            names.sort();
            names
        };
        assert_eq!(listed(&mut store), [""; 0]);
        assert_eq!(store.write("of-a-chart", &held(), Some(&made)), Ok(WriteResult::Done));
        for name in ["a", "B", "c", "d d"] {
            assert_eq!(store.write(name, &held(), None), Ok(WriteResult::Done));
        }
        // `status --watch` lists again and again.
        store.session().unwrap().http.fill_list();
        assert_eq!(listed(&mut store), ["B", "a", "c", "d d", "of-a-chart"]);
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn what_another_program_leads_is_held() {
        let server = KubernetesStore::new();
        let mut store = store_of(&server.url());
        assert!(server.java_take("leader", "pod-1", Duration::from_secs(15)));
        let ReadResult { now, found, .. } = store.read("leader").unwrap();
        let (record, _) = found.unwrap();
        assert_eq!(record.owner, "pod-1");
        assert!(record.until.unwrap() > now + Duration::from_secs(10), "{record:?} {now}");
    }

    /// A token that Kubernetes has replaced is read again, once.
    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn a_token_that_is_no_longer_known_is_read_again() {
        let server = KubernetesStore::new();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, servers::KEEPER).unwrap();
        let address = format!("127.0.0.1:{}", server.0.port());
        let mut store = store_of(&server.0.url_at(&address, file.to_str().unwrap()));
        assert!(store.read("job").is_ok());
        store.session().unwrap().token = Some("of-yesterday".to_owned());
        assert!(store.read("job").is_ok());
        std::fs::write(&file, "of-yesterday").unwrap();
        store.disconnect();
        let error = store.read("job").err().unwrap();
        assert_eq!(error.class, ErrorClass::Permanent);
        assert!(error.message.contains("does not know this client") && error.hint.unwrap().contains("token-file"));
    }
}
