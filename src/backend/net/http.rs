//! A client for backends that are reached by HTTP: requests and answers in JSON, through ureq.
//!
//! ureq opens the connections and speaks HTTP/1.1. Names are looked up and TLS is spoken as for every other backend.
//! No proxy is used and no redirection is followed: a request for a lock goes to a host of the URL or to none.

mod answer;
mod connector;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod request;

use std::io;
use std::time::Duration;

use ureq::config::Config;
use ureq::{Agent, Timeout};

use super::bounds::{self, TooLong};
use super::detour::Detour;
use super::hosts::{Bound, Hosts};
use super::network::{self, Host};
use super::tls::{self, Tls};
use crate::backend::Contact;
use crate::backend::diagnose::{self, Distance, FindingSink};
use crate::lock::{BackendError, ErrorClass};
use crate::system::{Moment, error_text};
pub(crate) use answer::{Answer, one_line};
use answer::{BUFFER_BYTES, LIST_FEWER_HINT, read_answer, too_long};
use connector::{Connector, HostResolver, Progress};
use request::send;
pub(crate) use request::{AnswerKind, Request, Verb};

/// Bytes that a page of a list counts for at least: a list of empty pages ends too.
const MIN_PAGE_BYTES: usize = 64 << 10;

/// Asks several servers that can replace each other, with at most one idle connection to each.
pub(crate) struct Http {
    hosts: Hosts,
    /// The port of a host that names none.
    port: u16,
    tls: Option<Tls>,
    /// The scheme of the backend's URL, for messages.
    scheme: &'static str,
    /// The open connections; `None` before the first request.
    agent: Option<Agent>,
    progress: Progress,
    detour: Detour,
    /// The attempt to reach a server that is in progress. It ends with the first answer.
    attempt: Option<Bound>,
    /// The time for one try.
    timeout: Duration,
    /// Bytes that the pages of the present list have had.
    listed_bytes: usize,
    /// Answers in the place of a server's, for the fuzzer, the next one at the end.
    #[cfg(any(test, fuzzing))]
    fake_answers: Option<Vec<Answer>>,
}

impl Http {
    /// Creates a client without connecting; one of the hosts must answer within `timeout`.
    pub(crate) fn new(scheme: &'static str, hosts: Vec<Host>, port: u16, tls: Option<Tls>, timeout: Duration) -> Self {
        let hosts = Hosts::new(hosts, timeout);
        Self {
            hosts,
            port,
            tls,
            scheme,
            agent: None,
            progress: Progress::default(),
            detour: Detour::default(),
            attempt: None,
            timeout,
            listed_bytes: 0,
            #[cfg(any(test, fuzzing))]
            fake_answers: None,
        }
    }

    /// Notes in `contact` when a server has accepted a connection.
    pub(crate) fn noting(self, contact: &Contact) -> Self {
        Self { progress: Progress::noting(contact), ..self }
    }

    /// Connects by a detour.
    pub(crate) fn by(self, detour: &Detour) -> Self {
        Self { detour: detour.clone(), ..self }
    }

    /// Begins a list: its pages are counted, and those of the list before are not.
    pub(crate) fn begin_list(&mut self) {
        self.listed_bytes = 0;
    }

    /// Counts as many bytes of pages as a list may have.
    #[cfg(test)]
    pub(crate) fn fill_list(&mut self) {
        self.listed_bytes = bounds::LISTING_BYTES;
    }

    /// Sends a request to the first host that accepts it, and returns its answer. After an error that leaves open
    /// whether the request was carried out, no other host is asked.
    pub(crate) fn request(&mut self, request: &Request<'_>) -> Result<Answer, BackendError> {
        #[cfg(any(test, fuzzing))]
        if let Some(fake_answers) = &mut self.fake_answers {
            return fake_answers.pop().ok_or_else(|| BackendError::permanent("there are no more answers"));
        }
        self.listed_bytes = if request.answer_kind == AnswerKind::Page { self.listed_bytes } else { 0 };
        if self.listed_bytes >= bounds::LISTING_BYTES {
            let error = BackendError::permanent(format!("the list has more than {} MiB", bounds::LISTING_BYTES >> 20));
            return Err(error.hint(LIST_FEWER_HINT).naming(&self.server()));
        }
        let bound = *self.attempt.get_or_insert_with(|| self.hosts.attempts.begin(Moment::now()));
        let limit = bound.each(self.hosts.count());
        let mut last_error: Option<BackendError> = None;
        for _ in 0..self.hosts.count() {
            match self.ask_first_host(request, limit) {
                Ok(answer) => {
                    self.attempt = None;
                    self.hosts.attempts.succeeded();
                    return Ok(answer);
                }
                Err(error) => {
                    let is_last = error.ambiguous || error.class == ErrorClass::Permanent;
                    last_error =
                        Some(BackendError { message: format!("{}: {}", self.server(), error.message), ..error });
                    self.hosts.pass_over();
                    if is_last {
                        break;
                    }
                }
            }
        }
        self.end_attempt();
        Err(last_error.unwrap_or_else(|| BackendError::permanent("the URL names no host")))
    }

    /// Lets the next request try another host: this one may be cut off from the others, or must not be written to.
    #[cfg(feature = "etcd")]
    pub(crate) fn try_next_host(&mut self) {
        self.hosts.pass_over();
        self.end_attempt();
    }

    /// Closes the connections.
    pub(crate) fn disconnect(&mut self) {
        self.agent = None;
    }

    /// Lets the next attempt use all the time there is, for a caller that makes only one.
    pub(crate) fn use_all_time_at_once(&mut self) {
        self.hosts.attempts.make_one();
    }

    /// Reports which of the hosts can be reached.
    pub(crate) fn report_reachable_hosts(&self, limit: Duration, report: FindingSink<'_>) -> Distance {
        diagnose::hosts(&self.hosts.all, self.port, limit, |host| host.name.clone().into(), report)
    }

    /// Returns the TLS version of the connection that was opened last.
    pub(crate) fn tls_version(&self) -> Option<&'static str> {
        self.progress.tls_version()
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Returns the name of the first server to ask, for messages.
    pub(crate) fn server(&self) -> String {
        format!("backend {}://{}", self.scheme, self.first_address())
    }

    fn end_attempt(&mut self) {
        if let Some(bound) = self.attempt.take() {
            self.hosts.attempts.failed(bound, Moment::now());
        }
    }

    fn first_address(&self) -> Host {
        let host = self.hosts.first();
        Host { port: Some(host.port.unwrap_or(self.port)), ..host.clone() }
    }

    fn ask_first_host(&mut self, request: &Request<'_>, limit: Duration) -> Result<Answer, BackendError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let uri = format!("{scheme}://{}{}", self.first_address(), request.path);
        let agent = self.agent()?;
        self.progress.begin(request.answer_kind.max_bytes());
        // A store that sorts or counts many keys for a page takes its time.
        let wait = if request.answer_kind == AnswerKind::Page { limit.max(self.timeout) } else { limit };
        let answered = send(&agent, request, &uri, limit, wait).and_then(|mut response| {
            // The connection counts the bytes that come, with the header and everything else that is not of the body.
            let body = response.body_mut().with_config().limit(u64::MAX).read_to_vec()?;
            Ok((response, body))
        });
        match answered {
            Ok((response, body)) => {
                self.listed_bytes += body.len().max(MIN_PAGE_BYTES);
                read_answer(&response, &body, request.answer_kind)
            }
            Err(error) => Err(self.explain(&error, request.answer_kind)),
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
                .max_response_header_size(BUFFER_BYTES)
                .input_buffer_size(BUFFER_BYTES)
                .output_buffer_size(BUFFER_BYTES)
                .max_idle_connections_per_host(1)
                .build(),
            Connector::new(config, self.progress.clone(), self.detour.clone()),
            HostResolver { default_port: self.port },
        );
        Ok(self.agent.insert(agent).clone())
    }

    /// Explains an error of TLS; returns `None` for any other.
    fn tls_error(&self, text: &str) -> Option<BackendError> {
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
    fn explain(&self, error: &ureq::Error, answer_kind: AnswerKind) -> BackendError {
        let sent = self.progress.is_connected();
        let found = match error {
            ureq::Error::HostNotFound => return network::no_address(self.hosts.first()),
            ureq::Error::Timeout(Timeout::Connect) if self.progress.is_accepted() => return network::said_nothing(),
            ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => return network::silence(),
            ureq::Error::Timeout(_) => network::said_nothing(),
            ureq::Error::Io(error) if TooLong::is(error) => too_long(bounds::too_long(error), answer_kind),
            ureq::Error::Io(error) => match self.tls_error(&error.to_string()) {
                // The handshake ends with the first answer: in TLS 1.3 a server refuses a client only then.
                Some(complaint) => return complaint,
                None if sent => connection_error(error),
                None => network::system_error(error.kind(), "")
                    .unwrap_or_else(|| BackendError::transient(error_text(error))),
            },
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
                return BackendError::permanent("the URL's host is not a name").hint("check the host in the URL");
            }
            error => BackendError::permanent(format!("not an HTTP server: {}", one_line(&error.to_string())))
                .hint("check the port; a TLS port needs sslmode=verify-full"),
        };
        if sent { found.ambiguous() } else { found }
    }
}

/// Explains why an open connection broke.
fn connection_error(error: &io::Error) -> BackendError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            BackendError::transient("the server closed the connection")
                .hint("check that host and port are right; a TLS port needs sslmode=verify-full")
        }
        io::ErrorKind::TimedOut => network::said_nothing(),
        _ => BackendError::transient(error_text(error)),
    }
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
    use serde_json::{Value, json};

    use super::super::tls::Mode;
    use super::answer::{MAX_RESPITE, date, retry_after};
    use super::*;
    use crate::backend::Url;
    use crate::system::Timestamp;

    /// Time for each request of a test; a test of silence waits for it.
    const PATIENCE: Duration = Duration::from_secs(1);
    const PING: Request<'static> =
        Request { method: Verb::Get, path: "/ping", headers: &[], body: None, answer_kind: AnswerKind::Answer };

    /// Accepts connections one after the other, gives these answers on each, and closes it.
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

    /// Returns a port at which nothing listens.
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
        let request = Request {
            method: Verb::Post,
            path: "/v3/x?y=1",
            headers: &headers,
            body: Some(&body),
            answer_kind: AnswerKind::Answer,
        };
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
        for (answer_kind, said) in [
            #[cfg(feature = "etcd")]
            (AnswerKind::Login, "more than 64 KiB"),
            (AnswerKind::Answer, "more than 2 MiB"),
            (AnswerKind::Page, "more than 8 MiB"),
        ] {
            let fixture = Fixture::with(1, |mut stream, _| {
                let chunk = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                let sent = (0..4096).take_while(|_| stream.write_all(chunk.as_bytes()).is_ok()).count();
                vec![sent.to_string()]
            });
            let mut http = Http::new("etcd", vec![fixture.host()], 1, None, Duration::from_secs(60));
            let error = http.request(&Request { answer_kind, ..PING }).unwrap_err();
            assert!(error.ambiguous && error.message.contains(said), "{error:?}");
            drop(http);
            // The server also sent the bytes that the two kernels keep.
            let sent: u64 = fixture.requests()[0].parse().unwrap();
            assert!(sent < 64, "{sent} MiB were sent");
        }
    }

    #[test]
    fn a_list_ends_however_many_pages_there_are() {
        let fixture = Fixture::new(&[&[OK, OK, OK]]);
        let mut http = fixture.http();
        let page = Request { answer_kind: AnswerKind::Page, ..PING };
        http.listed_bytes = bounds::LISTING_BYTES - 2 * MIN_PAGE_BYTES;
        assert!(http.request(&page).is_ok() && http.request(&page).is_ok());
        let error = http.request(&page).unwrap_err();
        assert!(error.message.contains("the list has more than 1024 MiB"), "{error:?}");
        // Another request begins anew.
        assert!(http.request(&PING).is_ok());
        assert!(http.listed_bytes < bounds::LISTING_BYTES);
        fixture.requests();
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
        let tls = Tls::take(&url, |_| None, Mode::Disable, PATIENCE).unwrap();
        let hosts = vec![Host { name: name.to_owned(), port: Some(fixture.port) }];
        let mut http = Http::new("etcd", hosts, 1, Some(tls), PATIENCE);
        let answer = http.request(&PING)?;
        assert_eq!(http.tls_version(), Some("TLSv1_3"));
        http.request(&PING)?;
        Ok(answer)
    }

    #[test]
    #[ignore = "needs openssl: --include-ignored"]
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
    #[ignore = "needs openssl: --include-ignored"]
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
        assert_eq!(retry_after(" 2 "), Some(Duration::from_secs(2)));
        assert_eq!(retry_after("18446744073709551615"), Some(MAX_RESPITE));
        assert_eq!((retry_after("-1"), retry_after("Sun, 22 Nov 2026 11:37:01 GMT")), (None, None));
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
