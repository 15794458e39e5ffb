//! A port before a server that speaks HTTP, as a proxy is: what passes may be told by another clock, sent twice, or answered
//! otherwise. Every connection ends with its first answer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::port::Port;

/// What becomes of a request.
#[derive(Debug, Clone)]
pub enum Deed {
    Pass,
    /// This is passed on as its body.
    Rewritten(String),
    /// It is sent twice, and the second answer is passed on.
    Twice,
    /// It is passed on, and this is the answer, from its first line on.
    Instead(String),
    /// The answer is passed on, but not when it was given.
    WithoutDate,
}

type Plan = dyn Fn(&str, &str) -> Deed + Send + Sync;

/// The port. It is closed with this value.
pub struct Front {
    port: Port,
    state: Arc<State>,
}

struct State {
    server: u16,
    /// Seconds by which the server's clock seems to be ahead.
    ahead: AtomicI64,
    plan: Mutex<Arc<Plan>>,
    answered: AtomicUsize,
}

impl Front {
    /// Listens at a port of this address.
    pub fn new(address: &str, server: u16) -> Self {
        let state = Arc::new(State {
            server,
            ahead: AtomicI64::new(0),
            plan: Mutex::new(Arc::new(|_, _| Deed::Pass)),
            answered: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        let port = Port::new(address, move |_, client| {
            let _ = shared.serve(client);
            let _ = client.shutdown(Shutdown::Both);
        });
        Self { port, state }
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Has the server's clock seem to be ahead by so many seconds, or behind.
    pub fn set_clock(&self, ahead: i64) {
        self.state.ahead.store(ahead, Ordering::SeqCst);
    }

    /// Says what becomes of each request, by its path and body.
    pub fn set_plan(&self, plan: impl Fn(&str, &str) -> Deed + Send + Sync + 'static) {
        *self.state.plan.lock().unwrap() = Arc::new(plan);
    }

    /// How many requests have been answered.
    pub fn answered(&self) -> usize {
        self.state.answered.load(Ordering::SeqCst)
    }
}

impl State {
    fn serve(&self, mut client: &TcpStream) -> std::io::Result<()> {
        let mut request = Vec::new();
        let (head, body) = loop {
            let mut buffer = [0; 65_536];
            let length = client.read(&mut buffer)?;
            request.extend(&buffer[..length]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let parts = text.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()));
            if let Some((head, body)) = parts.filter(|(head, body)| body.len() >= length_of(head)) {
                break (head, body);
            }
            if length == 0 {
                return Ok(());
            }
        };
        let path = head.split(' ').nth(1).unwrap_or_default();
        let plan = Arc::clone(&self.plan.lock().unwrap());
        let deed = plan(path, &body);
        let body = if let Deed::Rewritten(body) = &deed { body } else { &body };
        let head = without(&without(&head, "connection:"), "content-length:");
        let request = format!("{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
        if matches!(deed, Deed::Twice) {
            self.ask(&request)?;
        }
        let answer = self.ask(&request)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let date = match deed {
            Deed::WithoutDate => String::new(),
            _ => format!("\r\nDate: {}", date(self.ahead.load(Ordering::SeqCst))),
        };
        let answer = match deed {
            Deed::Instead(answer) => answer,
            _ => format!("{}{date}\r\n\r\n{body}", without(head, "date:")),
        };
        // Before it passes, so that who has it is counted.
        self.answered.fetch_add(1, Ordering::SeqCst);
        client.write_all(answer.as_bytes())
    }

    /// Asks the server on a connection that it closes.
    fn ask(&self, request: &str) -> std::io::Result<String> {
        let mut server = TcpStream::connect(("127.0.0.1", self.server))?;
        // As long as a client of shedlock's waits at most.
        server.set_read_timeout(Some(Duration::from_secs(60)))?;
        server.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        String::from_utf8(answer).map_err(std::io::Error::other)
    }
}

fn length_of(head: &str) -> usize {
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned));
    length.and_then(|length| length.trim().parse().ok()).unwrap_or(0)
}

/// The head of a message without a field.
fn without(head: &str, field: &str) -> String {
    let lines = head.split("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with(field));
    lines.collect::<Vec<_>>().join("\r\n")
}

/// The time as HTTP has it, so many seconds ahead.
fn date(ahead: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let by = Duration::from_secs(ahead.unsigned_abs());
    let now = if ahead < 0 { SystemTime::now() - by } else { SystemTime::now() + by };
    let days = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 86_400;
    let text = humantime::format_rfc3339_seconds(now).to_string();
    let month = MONTHS[text[5..7].parse::<usize>().unwrap() - 1];
    let weekday = DAYS[usize::try_from(days % 7).unwrap()];
    format!("{weekday}, {} {month} {} {} GMT", &text[8..10], &text[..4], &text[11..19])
}
