//! A client for backends that are reached by HTTP: requests and answers in JSON, through ureq.
//!
//! ureq opens the connections and speaks HTTP/1.1. Names are looked up and TLS is spoken as for every other backend.
//! No proxy is used and no redirection is followed: a request for a lock goes to a host of the URL or to none.

mod connector;

use std::io;
use std::time::Duration;

use serde_json::Value;
use ureq::config::Config;
use ureq::http::{HeaderMap, Method, Request as Message, Response};
use ureq::{Agent, Body, Timeout};

use super::hosts::{Bound, Hosts};
use super::network::{self, Host};
use super::probe::{self, Distance, Tell};
use super::tls::{self, Tls};
use super::{BackendError, ErrorClass};
use crate::system::{Moment, Timestamp, error_text};
use connector::{Connector, Names, Progress};

/// Bytes of the longest answer that is read.
const LONGEST_ANSWER: u64 = 64 << 20;
/// Bytes of an answer's header, and of each buffer of a connection.
const BUFFER: usize = 32 << 10;
/// Characters shown of an answer that is not JSON.
const SHOWN: usize = 300;
/// The longest time without requests that a server is granted.
const LONGEST_RESPITE: Duration = Duration::from_secs(30);

/// A client of several servers that can replace each other, with at most one idle connection to each.
pub(super) struct Http {
    hosts: Hosts,
    /// The port of a host that names none.
    port: u16,
    tls: Option<Tls>,
    /// The scheme of the backend's URL, for messages.
    scheme: &'static str,
    /// The open connections; `None` before the first request.
    agent: Option<Agent>,
    progress: Progress,
    /// The attempt to reach a server that is in progress. It ends with the first answer.
    attempt: Option<Bound>,
}

/// A request. The path begins with a slash and may have a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) method: Verb,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: Option<&'a Value>,
}

/// The method of a request.
#[cfg_attr(not(feature = "kubernetes"), expect(dead_code, reason = "etcd is asked by POST alone"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

/// An answer with any status.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The server's clock, in whole seconds.
    pub(super) date: Option<Timestamp>,
    /// The time after which the server wants to be asked again, half a minute at most.
    pub(super) retry_after: Option<Duration>,
    /// The answer's JSON; of any other text its beginning; null if it is empty.
    pub(super) body: Value,
}

impl Http {
    /// Creates a client without connecting; one of the hosts must answer within `patience`.
    pub(super) fn new(scheme: &'static str, hosts: Vec<Host>, port: u16, tls: Option<Tls>, patience: Duration) -> Self {
        let hosts = Hosts::new(hosts, patience);
        Self { hosts, port, tls, scheme, agent: None, progress: Progress::default(), attempt: None }
    }

    /// Sends a request to the first host that accepts it, and returns its answer. After an error that leaves open
    /// whether the request was carried out, no other host is asked.
    pub(super) fn request(&mut self, request: &Request<'_>) -> Result<Answer, BackendError> {
        let bound = *self.attempt.get_or_insert_with(|| self.hosts.attempts.begin(Moment::now()));
        let limit = bound.each(self.hosts.count());
        let mut met: Option<BackendError> = None;
        for _ in 0..self.hosts.count() {
            match self.ask(request, limit) {
                Ok(answer) => {
                    self.attempt = None;
                    self.hosts.attempts.succeeded();
                    return Ok(answer);
                }
                Err(error) => {
                    let is_last = error.ambiguous || error.class == ErrorClass::Permanent;
                    met = Some(BackendError { message: format!("{}: {}", self.server(), error.message), ..error });
                    self.hosts.pass_over();
                    if is_last {
                        break;
                    }
                }
            }
        }
        self.failed();
        Err(met.unwrap_or_else(|| BackendError::permanent("the URL names no host")))
    }

    /// Lets the next request try another host: this one may be cut off from the others, or must not be written to.
    #[cfg(feature = "etcd")]
    pub(super) fn look_elsewhere(&mut self) {
        self.hosts.pass_over();
        self.failed();
    }

    /// Closes the connections.
    pub(super) fn disconnect(&mut self) {
        self.agent = None;
    }

    /// Lets the next attempt use all the time there is, for a caller that makes only one.
    pub(super) fn make_one_attempt(&mut self) {
        self.hosts.attempts.make_one();
    }

    /// Reports which of the hosts can be reached.
    pub(super) fn look(&self, limit: Duration, tell: Tell<'_>) -> Distance {
        probe::hosts(&self.hosts.all, self.port, limit, |host| host.name.clone().into(), tell)
    }

    /// Returns the TLS version of the connection that was opened last.
    pub(super) fn tls_version(&self) -> Option<&'static str> {
        self.progress.tls_version()
    }

    pub(super) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Returns the name of the first server to ask, for messages.
    pub(super) fn server(&self) -> String {
        format!("backend {}://{}", self.scheme, self.place())
    }

    fn failed(&mut self) {
        if let Some(bound) = self.attempt.take() {
            self.hosts.attempts.failed(bound, Moment::now());
        }
    }

    fn place(&self) -> Host {
        let host = self.hosts.first();
        Host { port: Some(host.port.unwrap_or(self.port)), ..host.clone() }
    }

    fn ask(&mut self, request: &Request<'_>, limit: Duration) -> Result<Answer, BackendError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let uri = format!("{scheme}://{}{}", self.place(), request.path);
        let agent = self.agent()?;
        self.progress.begin();
        let answered = send(&agent, request, &uri, limit).and_then(|mut response| {
            let body = response.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec()?;
            Ok((response, body))
        });
        match answered {
            Ok((response, body)) => answer(&response, &body),
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// Returns the open connections; those that there are not yet will have the files that the URL names.
    fn agent(&mut self) -> Result<Agent, BackendError> {
        if let Some(agent) = &self.agent {
            return Ok(agent.clone());
        }
        let config = self.tls.as_ref().map(Tls::config).transpose()?;
        let agent = Agent::with_parts(
            Config::builder()
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .proxy(None)
                .user_agent("shedlock")
                .accept("application/json")
                .max_response_header_size(BUFFER)
                .input_buffer_size(BUFFER)
                .output_buffer_size(BUFFER)
                .max_idle_connections_per_host(1)
                .build(),
            Connector::new(config, self.progress.clone()),
            Names { default_port: self.port },
        );
        Ok(self.agent.insert(agent).clone())
    }

    /// Explains an error of TLS; returns `None` for any other.
    fn of_tls(&self, text: &str) -> Option<BackendError> {
        if text.contains("corrupt message") {
            return Some(
                BackendError::permanent("the server does not speak TLS")
                    .hint("check the port, or leave the parameters of TLS out of the URL"),
            );
        }
        // Servers written in Go before 1.21 say so of a certificate that is missing.
        let has_none = self.tls.as_ref().is_some_and(|tls| tls.identity.is_none());
        tls::complaint(if has_none && text.contains("BadCertificate") { "CertificateRequired" } else { text })
    }

    /// Explains why there is no answer.
    fn explain(&self, error: &ureq::Error) -> BackendError {
        let sent = self.progress.is_connected();
        let found = match error {
            ureq::Error::HostNotFound => return network::no_address(self.hosts.first()),
            ureq::Error::Timeout(Timeout::Connect) if self.progress.is_accepted() => return network::said_nothing(),
            ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => return network::silence(),
            ureq::Error::Timeout(_) => network::said_nothing(),
            ureq::Error::Io(error) => match self.of_tls(&error.to_string()) {
                // The handshake ends with the first answer: in TLS 1.3 a server refuses a client only then.
                Some(complaint) => return complaint,
                None if sent => of_connection(error),
                None => {
                    network::of_system(error.kind(), "").unwrap_or_else(|| BackendError::transient(error_text(error)))
                }
            },
            ureq::Error::BodyExceedsLimit(_) => BackendError::permanent("the answer is too long"),
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
                return BackendError::permanent("the URL's host is not a name").hint("check the host in the URL");
            }
            error => BackendError::permanent(format!("not an HTTP server: {}", one_line(&error.to_string())))
                .hint("check the port; a TLS port needs sslmode=verify-full"),
        };
        if sent { found.ambiguous() } else { found }
    }
}

fn send(agent: &Agent, request: &Request<'_>, uri: &str, limit: Duration) -> Result<Response<Body>, ureq::Error> {
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
        return agent.run(limited(agent, message, limit));
    };
    let message = message.header("content-type", "application/json").body(body.to_string())?;
    agent.run(limited(agent, message, limit))
}

/// Bounds each step of a request: a server that accepts and says nothing, or sends a byte at a time, is left.
fn limited<S: ureq::AsSendBody>(agent: &Agent, message: Message<S>, limit: Duration) -> Message<S> {
    let limit = Some(limit);
    agent
        .configure_request(message)
        .timeout_connect(limit)
        .timeout_send_request(limit)
        .timeout_send_body(limit)
        .timeout_recv_response(limit)
        .timeout_recv_body(limit)
        .build()
}

fn answer(response: &Response<Body>, body: &[u8]) -> Result<Answer, BackendError> {
    let headers = response.headers();
    let body = match serde_json::from_slice(body) {
        Ok(body) => body,
        Err(_) if body.is_empty() => Value::Null,
        Err(_) => Value::String(one_line(&String::from_utf8_lossy(body))),
    };
    if body.as_str().is_some_and(|text| text.contains("HTTP request to an HTTPS server")) {
        return Err(BackendError::permanent("the server requires TLS")
            .hint("add sslmode=verify-full, with sslrootcert=FILE or sslrootcert=system, to the URL"));
    }
    Ok(Answer {
        status: response.status().as_u16(),
        date: text(headers, "date").and_then(date),
        retry_after: text(headers, "retry-after").and_then(respite),
        body,
    })
}

/// Parses the seconds of a `Retry-After`. A wrong number would keep a waiter out for good.
fn respite(text: &str) -> Option<Duration> {
    text.trim().parse().ok().map(|seconds| Duration::from_secs(seconds).min(LONGEST_RESPITE))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Parses the time of a header: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<Timestamp> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.trim().split_once(", ")?;
    let [day, month, year, time, "GMT"] = rest.split(' ').collect::<Vec<_>>()[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    Timestamp::parse(&format!("{year}-{month:02}-{day}T{time}Z"))
}

/// Explains why an open connection broke.
fn of_connection(error: &io::Error) -> BackendError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            BackendError::transient("the server closed the connection")
                .hint("check that host and port are right; a TLS port needs sslmode=verify-full")
        }
        io::ErrorKind::TimedOut => network::said_nothing(),
        _ => BackendError::transient(error_text(error)),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread::{self, JoinHandle};

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::server::WebPkiClientVerifier;
    use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
    use serde_json::json;

    use super::super::Url;
    use super::super::tls::Mode;
    use super::*;

    /// Time for each request of a test; a test of silence waits for it.
    const PATIENCE: Duration = Duration::from_secs(1);
    const PING: Request<'static> = Request { method: Verb::Get, path: "/ping", headers: &[], body: None };

    /// A server that accepts connections one after the other, gives these answers on each, and closes it.
    struct Fixture {
        port: u16,
        requests: JoinHandle<Vec<String>>,
    }

    impl Fixture {
        fn new(connections: &'static [&'static [&'static str]]) -> Self {
            Self::with(connections.len(), |stream, number| {
                let mut stream = BufReader::new(stream);
                connections[number].iter().map(|text| exchange(&mut stream, text)).collect()
            })
        }

        fn with(count: usize, serve: impl Fn(TcpStream, usize) -> Vec<String> + Send + 'static) -> Self {
            // 127.0.0.2 is a host of another name.
            let listener = TcpListener::bind("0.0.0.0:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let requests = thread::spawn(move || {
                (0..count).flat_map(|number| serve(listener.accept().unwrap().0, number)).collect()
            });
            Self { port, requests }
        }

        fn host(&self) -> Host {
            Host { name: "127.0.0.1".to_owned(), port: Some(self.port) }
        }

        fn http(&self) -> Http {
            Http::new("etcd", vec![self.host()], 1, None, PATIENCE)
        }

        #[track_caller]
        fn requests(self) -> Vec<String> {
            self.requests.join().unwrap()
        }
    }

    /// Reads a request and answers it.
    fn exchange(stream: &mut BufReader<impl Read + Write>, answer: &str) -> String {
        let (mut request, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return request;
            }
            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
            request += &line;
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let _ = stream.get_mut().write_all(answer.as_bytes());
        request + std::str::from_utf8(&body).unwrap()
    }

    /// A port at which nothing listens.
    fn nobody() -> Host {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Host { name: "127.0.0.1".to_owned(), port: Some(listener.local_addr().unwrap().port()) }
    }

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

    #[test]
    fn a_request_is_answered_and_the_next_one_uses_the_same_connection() {
        let fixture = Fixture::new(&[&[
            "HTTP/1.1 201 Created\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nno \r\n4\r\nroom\r\n0\r\n\r\n",
        ]]);
        let mut http = fixture.http();
        let body = json!({"key": "a b"});
        let headers = [("authorization", "secret")];
        let request = Request { method: Verb::Post, path: "/v3/x?y=1", headers: &headers, body: Some(&body) };
        let answer = http.request(&request).unwrap();
        let date = Timestamp::parse("1994-11-06T08:49:37Z");
        assert_eq!(answer, Answer { status: 201, date, retry_after: None, body: json!({"a": 1}) });
        let answer = http.request(&PING).unwrap();
        let retry_after = Some(Duration::from_secs(7));
        assert_eq!(answer, Answer { status: 429, date: None, retry_after, body: json!("no room") });
        let requests = fixture.requests();
        assert!(requests[0].starts_with("POST /v3/x?y=1 HTTP/1.1\r\n"), "{requests:?}");
        assert!(requests[0].contains("authorization: secret\r\n") && requests[0].ends_with("{\"key\":\"a b\"}"));
        assert!(requests[1].starts_with("GET /ping HTTP/1.1\r\n"), "{requests:?}");
    }

    #[test]
    fn a_host_that_refuses_is_passed_over_and_the_one_that_answered_is_asked_first() {
        let fixture = Fixture::new(&[&[OK, OK]]);
        let mut http = Http::new("etcd", vec![nobody(), fixture.host()], 1, None, PATIENCE);
        for _ in 0..2 {
            assert_eq!(http.request(&PING).unwrap().status, 200);
            assert_eq!(http.server(), format!("backend etcd://{}", fixture.host()));
        }
        fixture.requests();
        let error = Http::new("etcd", vec![nobody(), nobody()], 1, None, PATIENCE).request(&PING).unwrap_err();
        assert_eq!((error.class, error.ambiguous), (ErrorClass::Transient, false), "{error:?}");
        assert!(error.message.contains("connection refused"), "{error:?}");
    }

    #[test]
    fn a_name_without_an_address_is_transient() {
        let host = Host { name: "no.such.host.invalid".to_owned(), port: None };
        let error = Http::new("etcd", vec![host], 1, None, PATIENCE).request(&PING).unwrap_err();
        assert_eq!((error.class, error.ambiguous), (ErrorClass::Transient, false), "{error:?}");
        assert!(error.message.contains("no.such.host.invalid has no address"), "{error:?}");
    }

    #[test]
    fn an_answer_that_is_missing_or_cut_leaves_open_what_happened() {
        for cut in ["", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"a\":"] {
            let connections: &[&[&str]] = Box::leak(Box::new([&*Box::leak(Box::new([cut])) as &[_]]));
            let fixture = Fixture::new(connections);
            let error = fixture.http().request(&PING).unwrap_err();
            assert_eq!((error.class, error.ambiguous), (ErrorClass::Transient, true), "{cut:?}: {error:?}");
            fixture.requests();
        }
    }

    #[test]
    fn a_server_that_says_nothing_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = Host { name: "127.0.0.1".to_owned(), port: Some(listener.local_addr().unwrap().port()) };
        let mut http = Http::new("etcd", vec![host], 1, None, PATIENCE);
        let error = http.request(&PING).unwrap_err();
        assert_eq!((error.class, error.ambiguous), (ErrorClass::Transient, true), "{error:?}");
        assert!(error.message.contains("did not reply"), "{error:?}");
    }

    /// A server that sends a byte now and then would otherwise keep a request waiting for ever.
    #[test]
    fn a_server_that_trickles_is_left() {
        let fixture = Fixture::with(1, |mut stream, _| {
            let mut bytes = "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n".bytes().chain(std::iter::repeat(b' '));
            while stream.write_all(&[bytes.next().unwrap()]).is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
            Vec::new()
        });
        let error = fixture.http().request(&PING).unwrap_err();
        assert_eq!((error.class, error.ambiguous), (ErrorClass::Transient, true), "{error:?}");
        fixture.requests();
    }

    #[test]
    fn an_answer_without_an_end_is_left_before_it_fills_the_memory() {
        let fixture = Fixture::with(1, |mut stream, _| {
            let chunk = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            let sent = (0..4096).take_while(|_| stream.write_all(chunk.as_bytes()).is_ok()).count();
            vec![sent.to_string()]
        });
        let mut http = Http::new("etcd", vec![fixture.host()], 1, None, Duration::from_secs(60));
        let error = http.request(&PING).unwrap_err();
        assert!(error.ambiguous && error.message.contains("the answer is too long"), "{error:?}");
        drop(http);
        let sent: u64 = fixture.requests()[0].parse().unwrap();
        assert!(sent < 2 * (LONGEST_ANSWER >> 20), "{sent} MiB were sent");
    }

    #[test]
    fn what_is_not_http_says_so() {
        for garbage in ["-ERR unknown command\r\n", "SSH-2.0-OpenSSH\r\n\r\n", "\0\0\0\x12\x04\0\0\0\0\0\r\n\r\n"] {
            let connections: &[&[&str]] = Box::leak(Box::new([&*Box::leak(Box::new([garbage])) as &[_]]));
            let fixture = Fixture::new(connections);
            let error = fixture.http().request(&PING).unwrap_err();
            assert!(error.ambiguous, "{error:?}");
            assert!(error.message.contains("not an HTTP server"), "{garbage:?}: {error:?}");
            fixture.requests();
        }
    }

    #[test]
    fn a_redirection_is_an_answer_and_is_not_followed() {
        let fixture = Fixture::new(&[&[
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        ]]);
        let body = json!({});
        let answer = fixture.http().request(&Request { method: Verb::Post, body: Some(&body), ..PING }).unwrap();
        assert_eq!((answer.status, answer.body), (307, Value::Null));
        assert_eq!(fixture.requests().len(), 1);
    }

    #[test]
    fn a_server_that_wants_tls_says_what_to_write() {
        let fixture =
            Fixture::new(&[&["HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"]]);
        let error = fixture.http().request(&PING).unwrap_err();
        assert!(error.message.contains("the server requires TLS"), "{error:?}");
        fixture.requests();
    }

    /// Serves two requests on each connection, with TLS.
    fn secure(count: usize, clients: bool) -> Fixture {
        let certificates = servers::certificates();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificates.authority()).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            true => builder.with_client_cert_verifier(verifier.build().unwrap()),
            false => builder.with_no_client_auth(),
        };
        let chain = vec![CertificateDer::from_pem_file(certificates.server()).unwrap()];
        let key = PrivateKeyDer::from_pem_file(certificates.server_key()).unwrap();
        let config = Arc::new(builder.with_single_cert(chain, key).unwrap());
        Fixture::with(count, move |stream, _| {
            let conn = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = BufReader::new(StreamOwned::new(conn, stream));
            (0..2).map(|_| exchange(&mut stream, OK)).filter(|request| !request.is_empty()).collect()
        })
    }

    fn ask_securely(fixture: &Fixture, name: &str, parameters: &str) -> Result<Answer, BackendError> {
        let url = Url::parse(&format!("etcd://x?{parameters}")).unwrap();
        let tls = Tls::take(&url, |_| None, Mode::Disable).unwrap();
        let hosts = vec![Host { name: name.to_owned(), port: Some(fixture.port) }];
        let mut http = Http::new("etcd", hosts, 1, Some(tls), PATIENCE);
        let answer = http.request(&PING)?;
        assert_eq!(http.tls_version(), Some("TLSv1_3"));
        http.request(&PING)?;
        Ok(answer)
    }

    #[test]
    fn tls_verifies_as_much_as_the_url_says() {
        let certificates = servers::certificates();
        let (authority, stranger) = (certificates.authority(), certificates.stranger());
        for (name, parameters, complaint) in [
            ("localhost", format!("sslrootcert={authority}"), None),
            ("127.0.0.1", format!("sslrootcert={authority}"), None),
            ("127.0.0.2", format!("sslrootcert={authority}&sslmode=verify-ca"), None),
            ("127.0.0.2", "sslmode=require".to_owned(), None),
            ("127.0.0.2", format!("sslrootcert={authority}"), Some("another name")),
            ("localhost", format!("sslrootcert={stranger}"), Some("not trusted")),
            ("localhost", "sslmode=verify-full".to_owned(), Some("not trusted")),
        ] {
            let fixture = secure(1, false);
            let answer = ask_securely(&fixture, name, &parameters);
            match (answer, complaint) {
                (Ok(answer), None) => assert_eq!(answer.status, 200),
                (Err(error), Some(complaint)) => {
                    assert!(error.message.contains(complaint), "{error:?}");
                    assert_eq!((error.class, error.ambiguous), (ErrorClass::Permanent, false), "{error:?}");
                }
                (answer, _) => panic!("{name}, {parameters}: {answer:?}"),
            }
            fixture.requests();
        }
    }

    #[test]
    fn a_server_may_require_a_client_certificate() {
        let certificates = servers::certificates();
        let authority = format!("sslrootcert={}", certificates.authority());
        let fixture = secure(2, true);
        let error = ask_securely(&fixture, "localhost", &authority).unwrap_err();
        assert!(error.message.contains("requires a client certificate"), "{error:?}");
        let identity = format!("&sslcert={}&sslkey={}", certificates.client(), certificates.client_key());
        assert_eq!(ask_securely(&fixture, "localhost", &(authority + &identity)).unwrap().status, 200);
        assert_eq!(fixture.requests().len(), 2);
    }

    #[test]
    fn a_server_without_tls_is_told_apart() {
        let fixture = Fixture::with(1, |mut stream, _| {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = stream.read(&mut [0; 64]);
            Vec::new()
        });
        let error = ask_securely(&fixture, "localhost", "sslmode=require").unwrap_err();
        assert!(error.message.contains("does not speak TLS"), "{error:?}");
        fixture.requests();
    }

    #[test]
    fn a_server_is_left_alone_for_half_a_minute_at_most() {
        assert_eq!(respite(" 2 "), Some(Duration::from_secs(2)));
        assert_eq!(respite("18446744073709551615"), Some(LONGEST_RESPITE));
        assert_eq!((respite("-1"), respite("Sun, 22 Nov 2026 11:37:01 GMT")), (None, None));
    }

    #[test]
    fn a_date_is_that_of_a_header() {
        assert_eq!(date("Sun, 22 Nov 2026 11:37:01 GMT"), Timestamp::parse("2026-11-22T11:37:01Z"));
        for wrong in
            ["", "Sunday", "Sun, 22 Nov 2026 11:37:01 CET", "Sun, 22 Foo 2026 11:37:01 GMT", "Sun, x Nov y z GMT"]
        {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }
}
