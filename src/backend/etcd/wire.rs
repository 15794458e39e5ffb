//! Requests to etcd by its JSON gateway, and their answers. Keys and values are in base64, numbers of 64 bits are texts.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::Credentials;
use super::{errors, operations};
use crate::backend::net::http::{Answer, AnswerKind, Http, Request, Verb};
use crate::lock::{BackendError, ErrorClass};
use crate::system::Timestamp;

/// The seconds of the longest lease that etcd grants.
const LONGEST_LEASE: u64 = 9_000_000_000;
/// Bytes of a login by which it is recognised; the answer that has it may be cut.
const LOGIN_PREFIX_BYTES: usize = 8;

/// Asks etcd over a connection, with a login if the URL has one.
pub(crate) struct Client {
    pub(crate) http: Http,
    login: Option<(String, String)>,
    /// The token of the login, which etcd forgets after some minutes or when it restarts.
    token: Option<String>,
}

/// Holds the answer to a request that succeeded, and the server's clock, if the answer has it.
pub(crate) struct Response {
    pub(crate) body: Value,
    date: Option<Timestamp>,
}

/// Describes a lease of etcd's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    /// The time that the lease has left at least: etcd cuts the last second.
    pub(crate) left: Duration,
    /// The time that the lease was granted for, and has again after a change of the leader.
    pub(crate) granted: Duration,
}

/// Holds the time at which a server answered, in whole seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// The earliest time that the server's clock can have shown.
    pub(crate) earliest: Timestamp,
    /// The most probable time: this host's, as far as the server's second allows.
    pub(crate) now: Timestamp,
}

impl Clock {
    fn new(earliest: Timestamp, here: Timestamp) -> Self {
        let latest = Timestamp(earliest.0.saturating_add(999));
        Self { earliest, now: here.max(earliest).min(latest) }
    }
}

/// Holds a key with its value, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// The revision of the store when the key was written first, and last.
    pub(crate) created: u64,
    pub(crate) modified: u64,
    /// The lease that it is bound to; zero for none.
    pub(crate) lease: i64,
}

/// Holds the answer to a range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Range {
    pub(crate) entries: Vec<Entry>,
    /// The number of keys, also of those beyond the limit.
    pub(crate) count: u64,
}

/// Holds the answer to a transaction.
pub(crate) struct TransactionResult {
    pub(crate) succeeded: bool,
    /// The revision of the store afterwards.
    pub(crate) revision: u64,
    /// The answers to the ranges of the branch that was carried out, in their order.
    pub(crate) ranges: Vec<Range>,
    pub(crate) clock: Clock,
}

impl Client {
    pub(crate) fn new(http: Http, login: Option<(String, String)>) -> Self {
        Self { http, login, token: None }
    }

    pub(crate) fn http(&mut self) -> &mut Http {
        &mut self.http
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.login.as_ref().map(|(user, _)| user.as_str())
    }

    pub(crate) fn disconnect(&mut self) {
        self.http.disconnect();
    }

    /// Grants a lease under an id that shedlock chooses, so that shedlock can revoke it although its answer was lost. Returns the
    /// store's revision as well.
    pub(crate) fn grant(&mut self, id: i64, seconds: u64) -> Result<(u64, Clock), BackendError> {
        let seconds = seconds.clamp(1, LONGEST_LEASE).to_string();
        let response = match self.ask("/v3/lease/grant", &json!({"ID": id.to_string(), "TTL": seconds})) {
            // Nobody else has this id: a proxy before etcd has sent the request twice.
            Err(error) if error.message.ends_with(errors::LEASE_EXISTS) => self.ask_lease(id),
            answer => answer,
        };
        let answer = response
            .and_then(|response| Ok((self.number(&response.body["header"]["revision"])?, self.clock(&response)?)));
        // A lease alone holds nothing, and ends by itself.
        answer.map_err(|error| BackendError { ambiguous: false, ..error })
    }

    /// Revokes a lease, and thereby deletes the keys that are bound to it; succeeds for one that does not exist as well.
    pub(crate) fn revoke(&mut self, id: i64) -> Result<(), BackendError> {
        match self.about_lease("/v3/lease/revoke", id) {
            Err(error) if error.message.ends_with(errors::NO_LEASE) => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Returns the times of a lease; `None` if it does not exist.
    pub(crate) fn lease(&mut self, id: i64) -> Result<Option<Lease>, BackendError> {
        let body = self.ask_lease(id)?.body;
        // Zero is left out, and less stands for no lease.
        let seconds = |key: &str| body.get(key).map_or(Some("0"), Value::as_str)?.parse::<i64>().ok();
        let (Some(left), Some(granted)) = (seconds("TTL"), seconds("grantedTTL")) else {
            return Err(self.unexpected_answer(&body));
        };
        let duration = |seconds: i64| Duration::from_secs(seconds.unsigned_abs());
        Ok((left >= 0).then(|| Lease { left: duration(left), granted: duration(granted) }))
    }

    fn ask_lease(&mut self, id: i64) -> Result<Response, BackendError> {
        self.about_lease("/v3/lease/timetolive", id)
    }

    /// Renews a lease for the whole of its time, and returns that; `None` if it does not exist. A server without space does this,
    /// too.
    pub(crate) fn keep_alive(&mut self, id: i64) -> Result<Option<Duration>, BackendError> {
        let body = self.about_lease("/v3/lease/keepalive", id)?.body;
        match body["result"].get("TTL").map_or(Some("0"), Value::as_str).and_then(|text| text.parse().ok()) {
            Some(seconds) => Ok(Some(Duration::from_secs(seconds)).filter(|left| !left.is_zero())),
            None => Err(self.unexpected_answer(&body)),
        }
    }

    /// Carries out one of two lists of operations, as one atomic step.
    pub(crate) fn transact(
        &mut self,
        compare: &[Value],
        success: &[Value],
        failure: &[Value],
    ) -> Result<TransactionResult, BackendError> {
        let body = json!({"compare": compare, "success": success, "failure": failure});
        let answer_kind = if success.iter().any(operations::lists) { AnswerKind::Page } else { AnswerKind::Answer };
        let response = self.ask_for(answer_kind, "/v3/kv/txn", &body)?;
        let responses = response.body["responses"].as_array().map(Vec::as_slice).unwrap_or_default();
        let succeeded = response.body["succeeded"].as_bool().unwrap_or(false);
        if responses.len() != if succeeded { success } else { failure }.len() {
            return Err(self.unexpected_answer(&response.body));
        }
        let ranges = responses.iter().filter_map(|response| response.get("response_range")).map(range);
        let ranges = ranges.collect::<Option<Vec<_>>>().ok_or_else(|| self.unexpected_answer(&response.body))?;
        let clock = self.clock(&response)?;
        Ok(TransactionResult { succeeded, revision: self.number(&response.body["header"]["revision"])?, ranges, clock })
    }

    /// Sends a request whose answer is short.
    pub(crate) fn ask(&mut self, path: &str, body: &Value) -> Result<Response, BackendError> {
        self.ask_for(AnswerKind::Answer, path, body)
    }

    /// Sends a request, with a login if there is one; logs in again if etcd has forgotten it.
    fn ask_for(&mut self, answer_kind: AnswerKind, path: &str, body: &Value) -> Result<Response, BackendError> {
        if self.login.is_some() && self.token.is_none() {
            self.log_in()?;
        }
        let answer = match self.send(answer_kind, path, body)? {
            answer if answer.status == 200 || self.login.is_none() => answer,
            answer if errors::is_forgotten(&answer) => {
                self.log_in()?;
                self.send(answer_kind, path, body)?
            }
            answer => answer,
        };
        self.check_response(answer)
    }

    /// Uses another user and password; returns false for a URL without a user.
    pub(crate) fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.token = None;
        self.login = login.user.clone().map(|user| (user, login.password.clone()));
        self.login.is_some()
    }

    fn log_in(&mut self) -> Result<(), BackendError> {
        self.token = None;
        let Some((name, password)) = &self.login else { return Ok(()) };
        let body = json!({"name": name, "password": password});
        // A login changes nothing.
        let answer = self
            .send(AnswerKind::Login, "/v3/auth/authenticate", &body)
            .map_err(|error| BackendError { ambiguous: false, ..error })?;
        let token = match answer.status {
            200 => answer.body["token"].as_str().map(str::to_owned).ok_or_else(|| self.unexpected_answer(&Value::Null)),
            _ => Err(self.refused(&Answer { body: errors::shown_of_login(&answer.body), ..answer })),
        };
        self.token = Some(token.map_err(|error| BackendError { ambiguous: false, ..error })?);
        Ok(())
    }

    fn send(&mut self, answer_kind: AnswerKind, path: &str, body: &Value) -> Result<Answer, BackendError> {
        let token = self.token.clone().unwrap_or_default();
        let headers = [("authorization", token.as_str())];
        let headers = if token.is_empty() { &[] } else { headers.as_slice() };
        self.http.request(&Request { method: Verb::Post, path, headers, body: Some(body), answer_kind })
    }

    fn check_response(&mut self, answer: Answer) -> Result<Response, BackendError> {
        if answer.status != 200 {
            return Err(self.refused(&answer));
        }
        // A page with this status is none of etcd's.
        match answer.body.is_object() {
            true => Ok(Response { body: answer.body, date: answer.date }),
            false => Err(self.unexpected_answer(&answer.body)),
        }
    }

    /// Returns an answer that has etcd's header; those about a lease have nothing else that is always there.
    fn about_lease(&mut self, path: &str, id: i64) -> Result<Response, BackendError> {
        let response = self.ask(path, &json!({"ID": id.to_string()}))?;
        let is_of_etcd =
            [&response.body["header"], &response.body["result"]["header"]].iter().any(|header| header.is_object());
        if is_of_etcd { Ok(response) } else { Err(self.unexpected_answer(&response.body)) }
    }

    /// Explains an answer that is an error.
    fn refused(&mut self, answer: &Answer) -> BackendError {
        let error = self.explained(errors::from_answer(answer)).respite(answer.retry_after);
        if error.class != ErrorClass::Permanent {
            self.http.try_next_host();
        }
        error
    }

    /// Names the server in an error. Cuts the text at a login of this connection, which a proxy may repeat.
    fn explained(&self, error: BackendError) -> BackendError {
        let login = self.token.as_ref().and_then(|token| token.get(..LOGIN_PREFIX_BYTES));
        let shown = login.and_then(|login| error.message.split_once(login)).map(|(before, _)| format!("{before}..."));
        BackendError { message: shown.unwrap_or_else(|| error.message.clone()), ..error }.naming(&self.http.server())
    }

    fn clock(&self, response: &Response) -> Result<Clock, BackendError> {
        let clock = response.date.map(|date| Clock::new(date, Timestamp::now()));
        clock.ok_or_else(|| self.explained(errors::without_date()))
    }

    fn number(&self, value: &Value) -> Result<u64, BackendError> {
        value.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| self.unexpected_answer(value))
    }

    fn unexpected_answer(&self, body: &Value) -> BackendError {
        self.explained(errors::unexpected_answer(body))
    }
}

fn range(response: &Value) -> Option<Range> {
    let number = |value: &Value, key: &str| value.get(key).map_or(Some("0"), Value::as_str)?.parse::<i64>().ok();
    let revision = |value: &Value, key: &str| u64::try_from(number(value, key)?).ok();
    let bytes = |value: &Value, key: &str| STANDARD.decode(value.get(key).map_or(Some(""), Value::as_str)?).ok();
    let entries = response.get("kvs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let entries = entries.iter().map(|entry| {
        Some(Entry {
            key: bytes(entry, "key")?,
            value: bytes(entry, "value")?,
            created: revision(entry, "create_revision")?,
            modified: revision(entry, "mod_revision")?,
            lease: number(entry, "lease")?,
        })
    });
    Some(Range { entries: entries.collect::<Option<_>>()?, count: revision(response, "count")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::net::network::Host;

    #[test]
    fn a_clock_fills_up_the_second_of_the_server_and_no_more() {
        let server = Timestamp(5_000);
        for (here, now) in [(5_123, 5_123), (5_000, 5_000), (9_000, 5_999), (1_000, 5_000)] {
            let clock = Clock::new(server, Timestamp(here));
            assert_eq!((clock.earliest, clock.now), (server, Timestamp(now)));
        }
    }

    #[test]
    fn a_server_that_wants_respite_says_so_in_the_error() {
        let host = || Host { name: "h".to_owned(), port: None };
        let respite = Some(Duration::from_secs(7));
        for (status, class) in [(429, ErrorClass::Overloaded), (503, ErrorClass::Transient)] {
            let answer = Answer { status, date: None, retry_after: respite, body: json!({}) };
            let error = Client::new(Http::new("etcd", vec![host()], 2379, None, Duration::ZERO), None)
                .check_response(answer)
                .err()
                .unwrap();
            assert_eq!((error.class, error.respite), (class, respite), "{error:?}");
        }
    }

    #[test]
    fn a_range_that_makes_no_sense_is_none() {
        let entry = json!({"key": "YQ==", "value": "Yg==", "create_revision": "2", "mod_revision": "3", "lease": "-4"});
        let found = range(&json!({"kvs": [entry], "count": "7"})).unwrap();
        assert_eq!(found.count, 7);
        let entry = Entry { key: b"a".to_vec(), value: b"b".to_vec(), created: 2, modified: 3, lease: -4 };
        assert_eq!(found.entries, [entry]);
        assert_eq!(range(&json!({})), Some(Range::default()));
        for odd in [
            json!({"count": 7}),
            json!({"kvs": [{"key": 7}]}),
            json!({"kvs": [{"key": "?"}]}),
            json!({"kvs": [{"mod_revision": "x"}]}),
        ] {
            assert_eq!(range(&odd), None, "{odd}");
        }
    }
}
