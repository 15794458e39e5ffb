//! An answer: its status, its times and its JSON.

use std::time::Duration;

use serde_json::Value;
use ureq::Body;
use ureq::http::{HeaderMap, Response};

use super::super::json;
use super::request::AnswerKind;
use crate::lock::BackendError;
use crate::system::Timestamp;

/// Bytes of an answer's header, and of each buffer of a connection.
pub(crate) const BUFFER_BYTES: usize = 32 << 10;
/// Characters shown of a text from an answer.
const SHOWN_CHARACTERS: usize = 300;
/// Remedy for a list that is too long.
pub(crate) const LIST_FEWER_HINT: &str =
    "check that host and port are those of the right server; of a list that long, ask for single locks by name";
/// The longest time without requests that a server is granted.
pub(crate) const MAX_RESPITE: Duration = Duration::from_secs(30);

/// Holds an answer with any status.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The server's clock, in whole seconds.
    pub(crate) date: Option<Timestamp>,
    /// The time after which the server wants to be asked again, half a minute at most.
    pub(crate) retry_after: Option<Duration>,
    /// The answer's JSON; of any other text its beginning; null if it is empty.
    pub(crate) body: Value,
}

/// Reads an answer whose body was received.
pub(crate) fn read_answer(
    response: &Response<Body>,
    body: &[u8],
    answer_kind: AnswerKind,
) -> Result<Answer, BackendError> {
    let headers = response.headers();
    if json::memory_bytes(body) > answer_kind.max_value_bytes() {
        let error = BackendError::permanent("the server sent JSON with more values than an answer has")
            .hint("check that host and port are those of the right server");
        return Err(too_long(error, answer_kind).ambiguous());
    }
    let body = match serde_json::from_slice(body) {
        Ok(body) => body,
        Err(_) if body.is_empty() => Value::Null,
        Err(_) => Value::String(one_line(&String::from_utf8_lossy(&body[..body.len().min(BUFFER_BYTES)]))),
    };
    if body.as_str().is_some_and(|text| text.contains("HTTP request to an HTTPS server")) {
        return Err(BackendError::permanent("the server requires TLS")
            .hint("add sslmode=verify-full, with sslrootcert=FILE or sslrootcert=system, to the URL"));
    }
    Ok(Answer {
        status: response.status().as_u16(),
        date: text(headers, "date").and_then(date),
        retry_after: text(headers, "retry-after").and_then(retry_after),
        body,
    })
}

/// Parses the seconds of a `Retry-After`. A wrong number would keep a waiter out for good.
pub(crate) fn retry_after(text: &str) -> Option<Duration> {
    text.trim().parse().ok().map(|seconds| Duration::from_secs(seconds).min(MAX_RESPITE))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Parses the time of a header: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn date(text: &str) -> Option<Timestamp> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.trim().split_once(", ")?;
    let [day, month, year, time, "GMT"] = rest.split(' ').collect::<Vec<_>>()[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    Timestamp::parse(&format!("{year}-{month:02}-{day}T{time}Z"))
}

/// Returns the beginning of a text from an answer, on one line.
pub(crate) fn one_line(text: &str) -> String {
    let spaced = text.split_whitespace().flat_map(|word| word.chars().chain([' ']));
    spaced.take(SHOWN_CHARACTERS).collect::<String>().trim_end().to_owned()
}

/// Explains an answer that is longer than any to this request.
pub(crate) fn too_long(error: BackendError, answer_kind: AnswerKind) -> BackendError {
    if answer_kind == AnswerKind::Page { error.hint(LIST_FEWER_HINT) } else { error }
}
