//! Kubernetes: each lock is a Lease of one namespace. The clock is the `Date` of the API server's answers.

mod answer;
mod check;
mod lease;
mod name;
mod place;

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::cas::{CasLocks, CasStore, Read, Record, Take, Written};
use super::http::{Answer, Http, Request, Verb};
use super::{Access, BackendError, Opened, Reached, Tell, Url, note_reached};
use crate::system::Timestamp;
use answer::{Effect, Told, told};
use lease::Lease;
use place::Place;

/// The manifest that gives a service account the rights that it needs.
const MANIFEST: &str = include_str!("../../../packaging/kubernetes/rbac.yaml");
/// Leases in one answer to a list.
const PAGE: u32 = 500;
/// Bytes of a token by which it is recognised; the answer that has it may be cut.
const TOKEN: usize = 8;

/// The Leases of a namespace.
pub(super) struct Kubernetes {
    place: Place,
    /// The time for one try.
    patience: Duration,
    client: Option<Client>,
}

/// The connections to the API server, and the login.
struct Client {
    http: Http,
    /// The path of the namespace's Leases.
    leases: String,
    token: Option<String>,
    /// Set when the connections were closed: the token is read again then, since Kubernetes replaces it before it expires.
    is_stale: bool,
}

impl Kubernetes {
    pub(super) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        let place = Place::parse(url, access, |name| std::env::var(name).ok())?;
        let store = Self { place, patience: access.patience, client: None };
        Ok(Opened::server(CasLocks::new(store), url))
    }

    /// Returns the client; that of a new connection has a token that was just read.
    fn client(&mut self) -> Result<&mut Client, BackendError> {
        let client = match self.client.take() {
            Some(client) if client.is_stale => Client { token: self.place.token.read()?, is_stale: false, ..client },
            Some(client) => client,
            None => self.new_client()?,
        };
        Ok(self.client.insert(client))
    }

    fn new_client(&mut self) -> Result<Client, BackendError> {
        let Some(host) = self.place.host.clone() else {
            return Err(BackendError::permanent(
                "no API server is named, and this is not a pod: KUBERNETES_SERVICE_HOST is not set",
            )
            .hint("outside of a pod, use kubernetes://HOST:PORT/NAMESPACE?token-file=FILE&sslrootcert=FILE"));
        };
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.place.namespace()?);
        let token = self.place.token.read()?;
        let http = Http::new("kubernetes", vec![host], place::PORT, self.place.tls.clone(), self.patience);
        Ok(Client { http, leases, token, is_stale: false })
    }

    /// Sends a request to a path below that of the namespace's Leases.
    fn ask(&mut self, method: Verb, below: &str, body: Option<&Value>) -> Result<Answer, BackendError> {
        let path = format!("{}{below}", self.client()?.leases);
        self.send(method, &path, body)
    }

    /// Lists the Leases that shedlock has written, this many at a time: others are no locks. The server cannot select them,
    /// since the label is another program's where that has made the Lease.
    fn list_by(&mut self, page: u32, take: Take<'_>) -> Result<Timestamp, BackendError> {
        let query = format!("?limit={page}");
        let mut next = String::new();
        loop {
            let answer = self.ask(Verb::Get, &format!("{query}{next}"), None)?;
            let Told::Object(list) = told(&answer, "LeaseList", Effect::Reads)? else {
                return Err(BackendError::permanent("the API server knows no Leases"));
            };
            let now = clock(&answer)?;
            let leases = list["items"].as_array().into_iter().flatten();
            let leases = leases.filter(|lease| lease::is_lock(lease));
            for (lease, lock) in leases.filter_map(|lease| Some((lease, lease::lock(lease)?))) {
                let record = lease::record(lease, &lock);
                take(lock, record);
            }
            match list["metadata"]["continue"].as_str() {
                Some(more) if !more.is_empty() => {
                    next = format!("&continue={}", utf8_percent_encode(more, NON_ALPHANUMERIC));
                }
                _ => return Ok(now),
            }
        }
    }

    /// Sends a request, and once more with a new token if the server does not know the old one.
    fn send(&mut self, method: Verb, path: &str, body: Option<&Value>) -> Result<Answer, BackendError> {
        let answer = self.client()?.send(method, path, body)?;
        note_reached();
        if answer.status == 401 {
            let fresh = self.place.token.read()?;
            let client = self.client()?;
            if client.token != fresh {
                client.token = fresh;
                return client.send(method, path, body);
            }
        }
        Ok(answer)
    }
}

impl Client {
    fn send(&mut self, method: Verb, path: &str, body: Option<&Value>) -> Result<Answer, BackendError> {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        let answer = self.http.request(&Request { method, path, headers: &headers, body })?;
        Ok(if answer.status < 300 { answer } else { without_token(answer, self.token.as_deref()) })
    }
}

/// Ends the words of an error at the token, which a proxy may repeat.
fn without_token(mut answer: Answer, token: Option<&str>) -> Answer {
    let Some(token) = token.and_then(|token| token.get(..TOKEN)) else { return answer };
    let cut = |text: &mut Value| {
        if let Some((before, _)) = text.as_str().and_then(|text| text.split_once(token)) {
            *text = json!(format!("{before}..."));
        }
    };
    cut(&mut answer.body);
    answer.body.get_mut("message").into_iter().for_each(cut);
    answer
}

/// Returns the server's clock, which every answer has.
fn clock(answer: &Answer) -> Result<Timestamp, BackendError> {
    answer.date.ok_or_else(|| {
        BackendError::permanent("the API server's answer has no Date, which is the clock of the locks")
            .hint("a proxy before it may have taken it away")
    })
}

impl CasStore for Kubernetes {
    type Version = Lease;

    const GRAIN: Duration = Duration::from_secs(1);

    fn label(&self) -> String {
        match &self.client {
            Some(client) => client.http.server(),
            None => "backend kubernetes".to_owned(),
        }
    }

    fn read(&mut self, lock: &str) -> Result<Read<Lease>, BackendError> {
        let answer = self.ask(Verb::Get, &format!("/{}", name::of_lock(lock)), None)?;
        let told = told(&answer, "Lease", Effect::Reads)?;
        let now = clock(&answer)?;
        let Told::Object(body) = told else {
            return Ok(Read { now, floor: 0, found: None });
        };
        // A write without it would replace whatever is there.
        if !body["metadata"]["resourceVersion"].is_string() {
            return Err(BackendError::permanent("the API server's answer has a Lease without a resourceVersion"));
        }
        let record = lease::record(&body, lock);
        let floor = if record.token == 0 { lease::first_token(&body, now) } else { 0 };
        Ok(Read { now, floor, found: Some((record, Lease { body, read: now })) })
    }

    fn write(&mut self, lock: &str, record: &Record, version: Option<&Lease>) -> Result<Written, BackendError> {
        let namespace = self.place.namespace()?;
        let lease = lease::with(record, &namespace, lock, version);
        let (method, below) = match version {
            None => (Verb::Post, String::new()),
            Some(_) => (Verb::Put, format!("/{}", name::of_lock(lock))),
        };
        let answer = self.ask(method, &below, Some(&lease))?;
        match told(&answer, "Lease", Effect::Writes)? {
            Told::Missing | Told::Conflict => Ok(Written::Conflict),
            Told::Object(stored) => as_written(&lease::record(&stored, lock), record),
        }
    }

    fn remove(&mut self, lock: &str, version: &Lease) -> Result<Written, BackendError> {
        let metadata = &version.body["metadata"];
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
        });
        let answer = self.ask(Verb::Delete, &format!("/{}", name::of_lock(lock)), Some(&options))?;
        if answer.status < 300 && answer.body["kind"] == "Lease" {
            let error = BackendError::permanent(format!("the Lease {} is deleted but stays", name::of_lock(lock)));
            return Err(error.hint("it has finalizers of another program, which has to remove them"));
        }
        match told(&answer, "Status", Effect::Writes)? {
            Told::Missing | Told::Conflict => Ok(Written::Conflict),
            Told::Object(_) => Ok(Written::Done),
        }
    }

    fn list(&mut self, take: Take<'_>) -> Result<Timestamp, BackendError> {
        self.list_by(PAGE, take)
    }

    fn disconnect(&mut self) {
        if let Some(client) = &mut self.client {
            client.http.disconnect();
            client.is_stale = true;
        }
    }

    fn make(&mut self) -> Result<Vec<String>, BackendError> {
        self.list(&mut |_, _| {})?;
        Ok(vec![format!("the namespace {} is there; each lock makes its Lease itself", self.place.namespace()?)])
    }

    fn schema(&self) -> String {
        MANIFEST.to_owned()
    }

    fn check(&mut self, tell: Tell<'_>) -> Reached {
        check::check(self, tell)
    }
}

/// Judges what the server has stored: something before it, such as an admission webhook, may have changed it.
fn as_written(stored: &Record, wanted: &Record) -> Result<Written, BackendError> {
    if (&stored.owner, stored.until) == (&wanted.owner, wanted.until) || wanted.owner.is_empty() {
        return Ok(Written::Done);
    }
    Err(BackendError::permanent("the API server has stored another owner or end than it was sent")
        .hint("look for an admission webhook that changes Leases")
        .ambiguous())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::backend::ErrorClass;
    use servers::stores::{KubernetesStore, Store};

    crate::backend::conformance::conformance!(servers::stores::KubernetesStore::new);

    fn store_of(url: &str) -> Kubernetes {
        let access = Access { password: None, patience: Duration::from_secs(10) };
        let place = Place::parse(&Url::parse(url).unwrap(), &access, |_| None).unwrap();
        Kubernetes { place, patience: access.patience, client: None }
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
                let error = told(&without_token(answer, Some(token)), "Lease", Effect::Reads).unwrap_err();
                assert!(error.message.contains("sent: Bearer ...") && !error.message.contains("eyJ"), "{error:?}");
            }
        }
    }

    #[test]
    fn a_write_to_what_another_has_written_is_a_conflict() {
        let theirs = KubernetesStore::new();
        let mut store = store_of(&theirs.url());
        assert_eq!(store.write("job", &held(), None), Ok(Written::Done));
        assert_eq!(store.write("job", &held(), None), Ok(Written::Conflict));
        let (_, old) = store.read("job").unwrap().found.unwrap();
        // A write that changes nothing counts as well: it has to keep out one that was given up and is still on its way.
        assert_eq!(store.write("job", &held(), Some(&old)), Ok(Written::Done));
        assert_eq!(store.write("job", &held(), Some(&old)), Ok(Written::Conflict));
        // Nor does a late write bring back what was deleted, or replace what was made anew.
        let (_, old) = store.read("job").unwrap().found.unwrap();
        theirs.delete("job");
        assert_eq!(store.write("job", &held(), Some(&old)), Ok(Written::Conflict));
        assert!(theirs.stored("job").is_none());
        assert_eq!(store.write("job", &Record::default(), None), Ok(Written::Done));
        assert_eq!(store.write("job", &held(), Some(&old)), Ok(Written::Conflict));
    }

    #[test]
    fn all_pages_of_a_list_are_read_and_no_lease_of_others() {
        let theirs = KubernetesStore::new();
        let mut store = store_of(&theirs.url());
        let other = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"}});
        theirs.0.request("POST", &theirs.0.leases(""), &other.to_string());
        // A chart has made this one, and shedlock has taken it.
        let chart = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "of-a-chart", "labels": {"app.kubernetes.io/managed-by": "Helm"}},
        });
        theirs.0.request("POST", &theirs.0.leases(""), &chart.to_string());
        let (_, made) = store.read("of-a-chart").unwrap().found.unwrap();
        let listed = |store: &mut Kubernetes| {
            let mut names = Vec::new();
            store.list_by(2, &mut |name, _| names.push(name)).unwrap();
            names.sort();
            names
        };
        assert_eq!(listed(&mut store), [""; 0]);
        assert_eq!(store.write("of-a-chart", &held(), Some(&made)), Ok(Written::Done));
        for name in ["a", "B", "c", "d d"] {
            assert_eq!(store.write(name, &held(), None), Ok(Written::Done));
        }
        assert_eq!(listed(&mut store), ["B", "a", "c", "d d", "of-a-chart"]);
    }

    #[test]
    fn what_another_program_leads_is_held() {
        let theirs = KubernetesStore::new();
        let mut store = store_of(&theirs.url());
        assert!(theirs.java_take("leader", "pod-1", Duration::from_secs(15)));
        let Read { now, found, .. } = store.read("leader").unwrap();
        let (record, _) = found.unwrap();
        assert_eq!(record.owner, "pod-1");
        assert!(record.until.unwrap() > now + Duration::from_secs(10), "{record:?} {now}");
    }

    /// A token that Kubernetes has replaced is read again, once.
    #[test]
    fn a_token_that_is_no_longer_known_is_read_again() {
        let theirs = KubernetesStore::new();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, servers::KEEPER).unwrap();
        let address = format!("127.0.0.1:{}", theirs.0.port());
        let mut store = store_of(&theirs.0.url_at(&address, file.to_str().unwrap()));
        assert!(store.read("job").is_ok());
        store.client().unwrap().token = Some("of-yesterday".to_owned());
        assert!(store.read("job").is_ok());
        std::fs::write(&file, "of-yesterday").unwrap();
        store.disconnect();
        let error = store.read("job").err().unwrap();
        assert_eq!(error.class, ErrorClass::Permanent);
        assert!(error.message.contains("does not know this client") && error.hint.unwrap().contains("token-file"));
    }
}
