//! A request, and the bounds of the answer that it may get.

use std::time::Duration;

use serde_json::Value;
use ureq::http::{Method, Request as Message, Response};
use ureq::{Agent, Body};

use super::super::{bounds, json};

/// Describes a request. The path begins with a slash and may have a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) method: Verb,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a Value>,
    pub(crate) answer_kind: AnswerKind,
}

/// Says which kind of answer a request wants. The kind bounds what the server may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// A login.
    #[cfg(feature = "etcd")]
    Login,
    /// The answer to a run. A record in a store has 1.5 MB at most, which is two thirds of an answer in base64.
    Answer,
    /// A page of a list.
    Page,
}

impl AnswerKind {
    /// Returns the bytes of the longest answer, with its header and the records of TLS.
    pub(crate) const fn max_bytes(self) -> usize {
        match self {
            #[cfg(feature = "etcd")]
            Self::Login => bounds::GREETING_BYTES,
            Self::Answer => 2 * bounds::ANSWER_BYTES,
            Self::Page => 8 * bounds::ANSWER_BYTES,
        }
    }

    /// Returns the bytes that the answer's values may take.
    pub(crate) const fn max_value_bytes(self) -> usize {
        if matches!(self, Self::Page) { 4 * json::VALUES_BYTES } else { json::VALUES_BYTES }
    }
}

/// Names the method of a request.
#[cfg_attr(not(feature = "kubernetes"), expect(dead_code, reason = "etcd is asked by POST alone"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

/// Sends a request, and returns the head of the answer.
pub(crate) fn send(
    agent: &Agent,
    request: &Request<'_>,
    uri: &str,
    limit: Duration,
    wait: Duration,
) -> Result<Response<Body>, ureq::Error> {
    let method = match request.method {
        Verb::Get => Method::GET,
        Verb::Post => Method::POST,
        Verb::Put => Method::PUT,
        Verb::Delete => Method::DELETE,
    };
    let mut message = Message::builder().method(method).uri(uri);
    for (name, value) in request.headers {
        message = message.header(*name, *value);
    }
    let Some(body) = request.body else {
        let message = message.body(())?;
        return agent.run(limited(agent, message, limit, wait));
    };
    let message = message.header("content-type", "application/json").body(body.to_string())?;
    agent.run(limited(agent, message, limit, wait))
}

/// Bounds each step of a request: a server that accepts and says nothing, or sends a byte at a time, is left.
fn limited<S: ureq::AsSendBody>(agent: &Agent, message: Message<S>, limit: Duration, wait: Duration) -> Message<S> {
    let (limit, wait) = (Some(limit), Some(wait));
    agent
        .configure_request(message)
        .timeout_connect(limit)
        .timeout_send_request(limit)
        .timeout_send_body(limit)
        .timeout_recv_response(wait)
        .timeout_recv_body(wait)
        .build()
}
