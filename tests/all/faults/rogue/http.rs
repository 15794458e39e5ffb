//! What a server lies by HTTP, whatever is asked by it, and in a handshake of TLS.

use super::{Case, Phase, Then, later};

/// Bytes of a body that is just short enough to be read.
const LONG: usize = 1_900_000;

/// Returns the start of an answer that tells the time.
fn head(status: &str, rest: &str) -> String {
    format!("HTTP/1.1 {status}\r\nDate: Sun, 22 Nov 2026 12:00:00 GMT\r\n{rest}\r\n")
}

/// Returns a whole answer.
pub(super) fn answer(status: &str, body: &str) -> Vec<u8> {
    (head(status, &format!("Content-Length: {}\r\n", body.len())) + body).into_bytes()
}

/// Returns lies that never end, in every phase.
fn without_end() -> Vec<Case> {
    let (ok, chunked) = (head("200 OK", ""), head("200 OK", "Transfer-Encoding: chunked\r\n"));
    let start = "HTTP/1.1 200 OK\r\n";
    let all = [
        ("headers", start.to_owned(), "X: y\r\n"),
        ("one header", format!("{start}X: "), "x"),
        ("100 Continue", String::new(), "HTTP/1.1 100 Continue\r\n\r\n"),
        ("102 Processing", String::new(), "HTTP/1.1 102 Processing\r\nX: y\r\n\r\n"),
        ("an extension of a chunk", format!("{chunked}1;"), "x"),
        ("extensions of chunks", chunked.clone(), "1;x=y\r\n \r\n"),
        ("chunks of a byte", chunked.clone(), "1\r\n \r\n"),
        ("a chunk of more bytes than there are", format!("{chunked}ffffffffffffffff\r\n"), " "),
        ("trailers", format!("{chunked}2\r\n{{}}\r\n0\r\n"), "X: y\r\n"),
        ("a body of HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\n".to_owned(), " "),
        ("a body of sixty megabytes", head("200 OK", "Content-Length: 60000001\r\n") + "[", "[],"),
        ("objects", head("200 OK", "Content-Length: 60000001\r\n") + "[", "{\"a\":{}},"),
        ("a body in gzip", head("200 OK", "Content-Encoding: gzip\r\n"), "\x1f\u{8}\u{8}\0\0"),
        ("a string", format!("{ok}\""), "x"),
        ("answers", String::new(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    ];
    let cases = all.map(|(what, head, part)| {
        let (what, then) = (format!("{what} without end"), Then::Repeat(part.as_bytes().to_vec()));
        let first = Case::new(Phase::Connecting, &what, head.clone(), then.clone());
        [vec![first], later(&what, head.as_bytes(), &then).into()].concat()
    });
    cases.concat()
}

/// Returns answers that are whole and wrong. They are told where they are asked for most.
fn wrong() -> Vec<Case> {
    let many = |part: &str, last: &str| format!("[{}{last}]", part.repeat(LONG / part.len()));
    let fields = |part: &str| format!("{{{}\"z\":0}}", part.repeat(LONG / part.len()));
    let header = |count: usize| "X: y\r\n".repeat(count) + "Content-Length: 2\r\n";
    let words = "a ".repeat(LONG / 2);
    let said =
        |status: &str, key: &str| answer(status, &format!("{{\"code\":3,\"kind\":\"Status\",\"{key}\":\"{words}\"}}"));
    let mut all = vec![
        ("many numbers", answer("200 OK", &many("0,", "0"))),
        ("many lists", answer("200 OK", &many("[],", "0"))),
        ("many objects", answer("200 OK", &many("{\"\":0},", "0"))),
        ("many objects in objects", answer("200 OK", &many("{\"a\":{}},", "0"))),
        ("many texts", answer("200 OK", &many("\"\",", "0"))),
        ("many fields", answer("200 OK", &fields("\"\":0,"))),
        ("lists in lists", answer("200 OK", &"[".repeat(LONG))),
        ("objects in objects", answer("200 OK", &"{\"\":".repeat(LONG / 4))),
        ("a number that is none", answer("200 OK", "1e400")),
        ("a number of many digits", answer("200 OK", &"1".repeat(LONG))),
        ("one long text", answer("200 OK", &format!("\"{words}\""))),
        ("many words that are no JSON", answer("200 OK", &words)),
        ("an error of many words", said("400 Bad Request", "message")),
        ("a failure of many words", said("503 Service Unavailable", "message")),
        ("a field of many words", said("200 OK", "revision")),
        ("a page of many words", answer("502 Bad Gateway", &words)),
        ("many headers", [head("200 OK", &header(1000)).as_bytes(), b"{}"].concat()),
        ("more headers than are read", [head("200 OK", &header(6000)).as_bytes(), b"{}"].concat()),
        ("a length too short", [head("200 OK", "Content-Length: 1\r\n").as_bytes(), b"{}"].concat()),
        ("two lengths", [head("200 OK", "Content-Length: 2\r\nContent-Length: 3\r\n").as_bytes(), b"{} "].concat()),
        ("no length that is a number", [head("200 OK", "Content-Length: -1\r\n").as_bytes(), b"{}"].concat()),
        ("two answers at once", answer("200 OK", "{}").repeat(2)),
        ("a switch of protocols", head("101 Switching Protocols", "Upgrade: h2c\r\n").into_bytes()),
    ];
    let mut bytes = answer("200 OK", &" ".repeat(LONG));
    bytes[200..].fill(0xff);
    all.push(("a body that is no text", bytes));
    let cases = all.into_iter().map(|(what, told)| {
        [Phase::Connecting, Phase::Taking].map(|phase| Case::new(phase, what, told.clone(), Then::Silence))
    });
    cases.flatten().collect()
}

/// Returns the lies that are the same whatever is asked by HTTP.
pub(super) fn lies() -> Vec<Case> {
    [without_end(), wrong()].concat()
}

/// Returns lies in a handshake of TLS.
pub(super) fn of_tls() -> Vec<Case> {
    let record = |kind: u8, body: &[u8]| {
        [&[kind, 3, 3], u16::try_from(body.len()).unwrap().to_be_bytes().as_slice(), body].concat()
    };
    let all = [
        ("warnings", record(21, &[1, 0])),
        ("changes of the cipher", record(20, &[1])),
        ("empty records", record(22, &[])),
        ("data before the handshake", record(23, &[0; 64])),
        ("requests for a hello", record(22, &[0; 4])),
        ("a certificate", [record(22, &[11, 0xff, 0xff, 0xff]), record(22, &[7; 16_000])].concat()),
        ("a hello", record(22, &[2, 0, 0xff, 0xff, 3, 3])),
    ];
    let repeated = all
        .into_iter()
        .map(|(what, told)| Case::new(Phase::Connecting, &format!("{what} without end"), "", Then::Repeat(told)));
    let silent = Case::new(Phase::Connecting, "half a record", [22, 3, 3, 0x40], Then::Silence);
    repeated.chain([silent]).collect()
}
