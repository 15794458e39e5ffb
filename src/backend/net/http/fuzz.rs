//! Answers of servers from the bytes of the fuzzer.

use ureq::Body;
use ureq::http::Response;

use super::super::network::Host;
use super::answer::{MAX_RESPITE, read_answer};
use super::{Answer, AnswerKind, Http};

/// The beginning of an answer. Its head and its body are as a server sends them.
const START: &str = "HTTP/1.1 ";

/// Reads answers that follow each other. ureq itself would see to the length of a body; here it is all up to the next answer.
fn answers(input: &[u8]) -> Vec<Answer> {
    let text = String::from_utf8_lossy(input);
    text.split(START).skip(1).filter_map(one).collect()
}

fn one(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let mut lines = head.split("\r\n");
    let mut response = Response::builder().status(lines.next()?.split(' ').next()?);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        response = response.header(name, value.trim());
    }
    read_answer(&response.body(Body::builder().data("")).ok()?, body.trim().as_bytes(), AnswerKind::Page).ok()
}

/// Checks that any answer has a body and its times, and that a body other than JSON is shown on one short line.
pub(crate) fn fuzz(input: &[u8]) {
    for answer in answers(input) {
        assert!(answer.retry_after.is_none_or(|respite| respite <= MAX_RESPITE));
        assert!(answer.date.is_none_or(|date| date.to_string().len() == 24));
    }
}

/// Returns a client of a server that gives these answers, one after the other.
pub(crate) fn client(input: &[u8]) -> Http {
    let host = Host { name: "db.example".to_owned(), port: None };
    let mut http = Http::new("fuzz", vec![host], 1, None, std::time::Duration::ZERO);
    http.fake_answers = Some(answers(input).into_iter().rev().collect());
    http
}
