//! Requests to etcd by its JSON gateway, and their answers. Keys and values are in base64, numbers of 64 bits are texts.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::http::{Answer, Http, Request, Verb};
use super::super::{BackendError, Credentials, ErrorClass};
use super::errors;
use crate::system::Timestamp;

/// The seconds of the longest lease that etcd grants.
const LONGEST_LEASE: u64 = 9_000_000_000;
/// Bytes of a login by which it is recognised; the answer that has it may be cut.
const LOGIN: usize = 8;

/// A connection to etcd, with a login if the URL has one.
pub(super) struct Client {
    http: Http,
    login: Option<(String, String)>,
    /// The token of the login, which etcd forgets after some minutes or when it restarts.
    token: Option<String>,
}

/// The answer to a request that succeeded, and the server's clock, if the answer has it.
pub(super) struct Told {
    pub(super) body: Value,
    date: Option<Timestamp>,
}

/// A lease of etcd's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lease {
    /// The time that it has left at least: etcd cuts the last second.
    pub(super) left: Duration,
    /// The time that it was granted for, and has again after a change of the leader.
    pub(super) granted: Duration,
}

/// The time at which a server answered. It tells whole seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// The earliest time that it can have been.
    pub(super) earliest: Timestamp,
    /// The most probable time: this host's, as far as the server's second allows.
    pub(super) now: Timestamp,
}

impl Clock {
    fn new(earliest: Timestamp, here: Timestamp) -> Self {
        let latest = Timestamp(earliest.0.saturating_add(999));
        Self { earliest, now: here.max(earliest).min(latest) }
    }
}

/// A key with its value, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// The revision of the store when the key was written first, and last.
    pub(super) created: u64,
    pub(super) modified: u64,
    /// The lease that it is bound to; zero for none.
    pub(super) lease: i64,
}

/// The answer to a range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Range {
    pub(super) entries: Vec<Entry>,
    /// The number of keys, also of those beyond the limit.
    pub(super) count: u64,
}

/// The answer to a transaction.
pub(super) struct Outcome {
    pub(super) succeeded: bool,
    /// The revision of the store afterwards.
    pub(super) revision: u64,
    /// The answers to the ranges of the branch that was carried out, in their order.
    pub(super) ranges: Vec<Range>,
    pub(super) clock: Clock,
}

impl Client {
    pub(super) fn new(http: Http, login: Option<(String, String)>) -> Self {
        Self { http, login, token: None }
    }

    pub(super) fn http(&mut self) -> &mut Http {
        &mut self.http
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.login.as_ref().map(|(user, _)| user.as_str())
    }

    pub(super) fn disconnect(&mut self) {
        self.http.disconnect();
    }

    /// Grants a lease under an id of ours, so that it can be revoked although its answer was lost. Returns the store's
    /// revision as well.
    pub(super) fn grant(&mut self, id: i64, seconds: u64) -> Result<(u64, Clock), BackendError> {
        let seconds = seconds.clamp(1, LONGEST_LEASE).to_string();
        let told = match self.ask("/v3/lease/grant", &json!({"ID": id.to_string(), "TTL": seconds})) {
            // Nobody else has this id: what came between us and etcd has sent the request twice.
            Err(error) if error.message.ends_with(errors::LEASE_EXISTS) => self.ask_lease(id),
            answer => answer,
        };
        let answer = told.and_then(|told| Ok((self.number(&told.body["header"]["revision"])?, self.clock(&told)?)));
        // A lease alone holds nothing, and ends by itself.
        answer.map_err(|error| BackendError { ambiguous: false, ..error })
    }

    /// Revokes a lease, and thereby deletes what is bound to it; one that does not exist as well.
    pub(super) fn revoke(&mut self, id: i64) -> Result<(), BackendError> {
        match self.about_lease("/v3/lease/revoke", id) {
            Err(error) if error.message.ends_with(errors::NO_LEASE) => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Returns what a lease is like; `None` if it does not exist.
    pub(super) fn lease(&mut self, id: i64) -> Result<Option<Lease>, BackendError> {
        let body = self.ask_lease(id)?.body;
        // Zero is left out, and less stands for no lease.
        let seconds = |key: &str| body.get(key).map_or(Some("0"), Value::as_str)?.parse::<i64>().ok();
        let (Some(left), Some(granted)) = (seconds("TTL"), seconds("grantedTTL")) else {
            return Err(self.strange(&body));
        };
        let duration = |seconds: i64| Duration::from_secs(seconds.unsigned_abs());
        Ok((left >= 0).then(|| Lease { left: duration(left), granted: duration(granted) }))
    }

    fn ask_lease(&mut self, id: i64) -> Result<Told, BackendError> {
        self.about_lease("/v3/lease/timetolive", id)
    }

    /// Gives a lease its whole time again, and returns that; `None` if it does not exist. A server without space does this, too.
    pub(super) fn keep_alive(&mut self, id: i64) -> Result<Option<Duration>, BackendError> {
        let body = self.about_lease("/v3/lease/keepalive", id)?.body;
        match body["result"].get("TTL").map_or(Some("0"), Value::as_str).and_then(|text| text.parse().ok()) {
            Some(seconds) => Ok(Some(Duration::from_secs(seconds)).filter(|left| !left.is_zero())),
            None => Err(self.strange(&body)),
        }
    }

    /// Carries out one of two lists of operations, as one atomic step.
    pub(super) fn transact(
        &mut self,
        compare: &[Value],
        success: &[Value],
        failure: &[Value],
    ) -> Result<Outcome, BackendError> {
        let body = json!({"compare": compare, "success": success, "failure": failure});
        let told = self.ask("/v3/kv/txn", &body)?;
        let responses = told.body["responses"].as_array().map(Vec::as_slice).unwrap_or_default();
        let succeeded = told.body["succeeded"].as_bool().unwrap_or(false);
        if responses.len() != if succeeded { success } else { failure }.len() {
            return Err(self.strange(&told.body));
        }
        let ranges = responses.iter().filter_map(|response| response.get("response_range")).map(range);
        let ranges = ranges.collect::<Option<Vec<_>>>().ok_or_else(|| self.strange(&told.body))?;
        let clock = self.clock(&told)?;
        Ok(Outcome { succeeded, revision: self.number(&told.body["header"]["revision"])?, ranges, clock })
    }

    /// Sends a request, with a login if there is one; logs in again if etcd has forgotten it.
    pub(super) fn ask(&mut self, path: &str, body: &Value) -> Result<Told, BackendError> {
        if self.login.is_some() && self.token.is_none() {
            self.log_in()?;
        }
        let answer = match self.send(path, body)? {
            answer if answer.status == 200 || self.login.is_none() => answer,
            answer if errors::is_forgotten(&answer) => {
                self.log_in()?;
                self.send(path, body)?
            }
            answer => answer,
        };
        self.told(answer)
    }

    /// Uses another user and password; returns false for a URL without a user.
    pub(super) fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.token = None;
        self.login = login.user.clone().map(|user| (user, login.password.clone()));
        self.login.is_some()
    }

    fn log_in(&mut self) -> Result<(), BackendError> {
        self.token = None;
        let Some((name, password)) = &self.login else { return Ok(()) };
        let body = json!({"name": name, "password": password});
        // A login changes nothing.
        let answer =
            self.send("/v3/auth/authenticate", &body).map_err(|error| BackendError { ambiguous: false, ..error })?;
        let token = match answer.status {
            200 => answer.body["token"].as_str().map(str::to_owned).ok_or_else(|| self.strange(&Value::Null)),
            _ => Err(self.refused(&Answer { body: errors::shown_of_login(&answer.body), ..answer })),
        };
        self.token = Some(token.map_err(|error| BackendError { ambiguous: false, ..error })?);
        Ok(())
    }

    fn send(&mut self, path: &str, body: &Value) -> Result<Answer, BackendError> {
        let token = self.token.clone().unwrap_or_default();
        let headers = [("authorization", token.as_str())];
        let headers = if token.is_empty() { &[] } else { headers.as_slice() };
        self.http.request(&Request { method: Verb::Post, path, headers, body: Some(body) })
    }

    fn told(&mut self, answer: Answer) -> Result<Told, BackendError> {
        if answer.status != 200 {
            return Err(self.refused(&answer));
        }
        // A page with this status is none of etcd's.
        match answer.body.is_object() {
            true => Ok(Told { body: answer.body, date: answer.date }),
            false => Err(self.strange(&answer.body)),
        }
    }

    /// Returns an answer that has etcd's header; those about a lease have nothing else that is always there.
    fn about_lease(&mut self, path: &str, id: i64) -> Result<Told, BackendError> {
        let told = self.ask(path, &json!({"ID": id.to_string()}))?;
        let is_of_etcd = [&told.body["header"], &told.body["result"]["header"]].iter().any(|header| header.is_object());
        if is_of_etcd { Ok(told) } else { Err(self.strange(&told.body)) }
    }

    /// Explains an answer that is an error.
    fn refused(&mut self, answer: &Answer) -> BackendError {
        let error = self.explained(errors::of_answer(answer)).respite(answer.retry_after);
        if error.class != ErrorClass::Permanent {
            self.http.look_elsewhere();
        }
        error
    }

    /// Names the server in an error. A login of this connection, which a proxy may repeat, ends what is shown.
    fn explained(&self, error: BackendError) -> BackendError {
        let login = self.token.as_ref().and_then(|token| token.get(..LOGIN));
        let shown = login.and_then(|login| error.message.split_once(login)).map(|(before, _)| format!("{before}..."));
        BackendError { message: shown.unwrap_or_else(|| error.message.clone()), ..error }.of(&self.http.server())
    }

    fn clock(&self, told: &Told) -> Result<Clock, BackendError> {
        let clock = told.date.map(|date| Clock::new(date, Timestamp::now()));
        clock.ok_or_else(|| self.explained(errors::without_date()))
    }

    fn number(&self, value: &Value) -> Result<u64, BackendError> {
        value.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| self.strange(value))
    }

    fn strange(&self, body: &Value) -> BackendError {
        self.explained(errors::strange(body))
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
    use crate::backend::network::Host;

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
                .told(answer)
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
        for strange in [
            json!({"count": 7}),
            json!({"kvs": [{"key": 7}]}),
            json!({"kvs": [{"key": "?"}]}),
            json!({"kvs": [{"mod_revision": "x"}]}),
        ] {
            assert_eq!(range(&strange), None, "{strange}");
        }
    }
}
