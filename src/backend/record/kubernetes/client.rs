//! Requests to the API server about the Leases of one namespace, with the login that is valid at the time.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::api_address::{self, ApiAddress};
use super::api_result::{ApiResult, RequestKind, classify_answer};
use super::lease;
use crate::backend::net::http::{Answer, AnswerKind, Http, Request, Verb};
use crate::backend::record::engine::RecordSink;
use crate::backend::{Access, Contact, Detour};
use crate::lock::BackendError;
use crate::system::Timestamp;

/// Leases in one answer to a list. Each may have a history of a hundred runs, and much that other programs have added.
pub(crate) const LEASES_PER_PAGE: u32 = 100;
/// Bytes of a token by which it is recognised; the answer that has it may be cut.
const TOKEN_PREFIX_BYTES: usize = 8;

/// Stores records as the Leases of one namespace.
pub(crate) struct Kubernetes {
    pub(crate) address: ApiAddress,
    /// The time for one try.
    pub(crate) timeout: Duration,
    contact: Contact,
    detour: Detour,
    pub(crate) session: Option<ApiSession>,
}

/// Holds the connections to the API server, with the token of the login.
pub(crate) struct ApiSession {
    pub(crate) http: Http,
    /// The path of the namespace's Leases.
    pub(crate) leases: String,
    pub(crate) token: Option<String>,
    /// Set when the connections were closed: the token is read again then, since Kubernetes replaces it before it expires.
    pub(crate) is_stale: bool,
}

impl Kubernetes {
    pub(crate) fn new(address: ApiAddress, access: &Access) -> Self {
        let Access { timeout, contact, detour, .. } = access.clone();
        Self { address, timeout, contact, detour, session: None }
    }

    /// Returns the session; that of a new connection has a token that was just read.
    pub(crate) fn session(&mut self) -> Result<&mut ApiSession, BackendError> {
        let session = match self.session.take() {
            Some(session) if session.is_stale => {
                ApiSession { token: self.address.read_token()?, is_stale: false, ..session }
            }
            Some(session) => session,
            None => self.new_session()?,
        };
        Ok(self.session.insert(session))
    }

    fn new_session(&mut self) -> Result<ApiSession, BackendError> {
        let Some(host) = self.address.host.clone() else {
            return Err(BackendError::permanent(
                "no API server is named, and this is not a pod: KUBERNETES_SERVICE_HOST is not set",
            )
            .hint("outside of a pod, use kubernetes://HOST:PORT/NAMESPACE?token-file=FILE&sslrootcert=FILE"));
        };
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.address.namespace()?);
        let token = self.address.read_token()?;
        let http = Http::new("kubernetes", vec![host], api_address::PORT, self.address.tls.clone(), self.timeout)
            .noting(&self.contact)
            .by(&self.detour);
        Ok(ApiSession { http, leases, token, is_stale: false })
    }

    /// Sends a request to a path below that of the namespace's Leases.
    pub(crate) fn ask(&mut self, method: Verb, subpath: &str, body: Option<&Value>) -> Result<Answer, BackendError> {
        let path = format!("{}{subpath}", self.session()?.leases);
        self.send(method, &path, body, AnswerKind::Answer)
    }

    /// Lists the Leases that shedlock has written, this many at a time: other Leases are no locks. The server cannot select by
    /// the label, because a Lease that another program made has that program's label.
    pub(crate) fn list_in_pages(&mut self, page: u32, sink: RecordSink<'_>) -> Result<Timestamp, BackendError> {
        let query = format!("?limit={page}");
        let mut next = String::new();
        self.session()?.http.begin_list();
        loop {
            let path = format!("{}{query}{next}", self.session()?.leases);
            let answer = self.send(Verb::Get, &path, None, AnswerKind::Page)?;
            let now = clock(&answer);
            let ApiResult::Object(list) = classify_answer(answer, "LeaseList", RequestKind::Read)? else {
                return Err(BackendError::permanent("the API server knows no Leases"));
            };
            let now = now?;
            let leases = list["items"].as_array().into_iter().flatten();
            let leases = leases.filter(|lease| lease::is_lock(lease));
            for (lease, lock) in leases.filter_map(|lease| Some((lease, lease::read_name(lease)?))) {
                let record = lease::read_record(lease, &lock);
                sink(lock, record);
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
    pub(crate) fn send(
        &mut self,
        method: Verb,
        path: &str,
        body: Option<&Value>,
        answer_kind: AnswerKind,
    ) -> Result<Answer, BackendError> {
        let answer = self.session()?.send(method, path, body, answer_kind)?;
        self.contact.reached();
        if answer.status == 401 {
            let fresh = self.address.read_token()?;
            let session = self.session()?;
            if session.token != fresh {
                session.token = fresh;
                return session.send(method, path, body, answer_kind);
            }
        }
        Ok(answer)
    }
}

impl ApiSession {
    fn send(
        &mut self,
        method: Verb,
        path: &str,
        body: Option<&Value>,
        answer_kind: AnswerKind,
    ) -> Result<Answer, BackendError> {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        let answer = self.http.request(&Request { method, path, headers: &headers, body, answer_kind })?;
        Ok(if answer.status < 300 { answer } else { without_token(answer, self.token.as_deref()) })
    }
}

/// Ends the words of an error at the token, which a proxy may repeat.
pub(crate) fn without_token(mut answer: Answer, token: Option<&str>) -> Answer {
    let Some(token) = token.and_then(|token| token.get(..TOKEN_PREFIX_BYTES)) else { return answer };
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
pub(crate) fn clock(answer: &Answer) -> Result<Timestamp, BackendError> {
    answer.date.ok_or_else(|| {
        BackendError::permanent("the API server's answer has no Date, which is the clock of the locks")
            .hint("a proxy before it may have taken it away")
    })
}
