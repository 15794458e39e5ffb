//! A port that lies: nobody is behind it, or a real server whose requests pass until a lie is told in the place of an answer.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::port::Port;

/// What is sent in the place of an answer.
#[derive(Debug, Clone)]
pub struct Lie {
    pub head: Vec<u8>,
    pub then: Then,
}

/// What comes after the head of a lie.
#[derive(Debug, Clone)]
pub enum Then {
    Silence,
    Close,
    /// These bytes again and again, until nobody hears them.
    Repeat(Vec<u8>),
    /// What is sent after each further request; silence after the last.
    Converse(Vec<Vec<u8>>),
}

/// Who begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    Client,
    Server,
}

/// The port. It is closed with this value.
pub struct Rogue {
    port: Port,
    state: Arc<State>,
}

struct State {
    /// The server behind the port, if there is one.
    server: Option<u16>,
    first: First,
    /// The lie that is told to a request with these bytes in it, and how often.
    plan: Mutex<Option<(Vec<u8>, Lie, usize)>>,
    told: AtomicUsize,
    /// Requests with those bytes that passed since a lie was told.
    passed: AtomicUsize,
}

impl Rogue {
    /// Nobody is behind it: every connection gets the lie.
    pub fn alone(first: First, lie: Lie) -> Self {
        Self::new(None, first, Some((Vec::new(), lie, usize::MAX)))
    }

    /// Stands before the server at this port of 127.0.0.1.
    pub fn before(server: u16) -> Self {
        Self::new(Some(server), First::Client, None)
    }

    /// Lies from here on to the next so many requests with these bytes in them; all others pass.
    pub fn lie(&self, needle: &[u8], lie: Lie, times: usize) {
        *self.state.plan.lock().unwrap() = Some((needle.to_vec(), lie, times));
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// How often a lie was told.
    pub fn told(&self) -> usize {
        self.state.told.load(Ordering::SeqCst)
    }

    /// How many requests with the bytes of the plan have passed after a lie.
    pub fn passed(&self) -> usize {
        self.state.passed.load(Ordering::SeqCst)
    }

    fn new(server: Option<u16>, first: First, plan: Option<(Vec<u8>, Lie, usize)>) -> Self {
        let state = Arc::new(State {
            server,
            first,
            plan: Mutex::new(plan),
            told: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        let port = Port::new("127.0.0.1", move |_, client| {
            match shared.server {
                None => shared.serve(client),
                Some(server) => shared.relay(client, server),
            }
            let _ = client.shutdown(Shutdown::Both);
        });
        Self { port, state }
    }
}

impl State {
    fn serve(&self, client: &TcpStream) {
        if (self.first == First::Server || heard(client).is_some())
            && let Some(lie) = self.lie_to(&[])
        {
            tell(client, &lie);
        }
    }

    fn relay(&self, client: &TcpStream, server: u16) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { return };
        let lying = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while let Some(answer) = heard(&server) {
                    if lying.load(Ordering::SeqCst) || (&*client).write_all(&answer).is_err() {
                        break;
                    }
                }
                if !lying.load(Ordering::SeqCst) {
                    let _ = client.shutdown(Shutdown::Both);
                }
            });
            while let Some(request) = heard(client) {
                if let Some(lie) = self.lie_to(&request) {
                    lying.store(true, Ordering::SeqCst);
                    let _ = server.shutdown(Shutdown::Both);
                    tell(client, &lie);
                    break;
                }
                if (&server).write_all(&request).is_err() {
                    break;
                }
            }
            let _ = server.shutdown(Shutdown::Both);
        });
    }

    /// Returns the lie for this request, if one is due.
    fn lie_to(&self, request: &[u8]) -> Option<Lie> {
        let mut plan = self.plan.lock().unwrap();
        let (needle, lie, times) = plan.as_mut()?;
        if !needle.is_empty() && !request.windows(needle.len()).any(|part| part == needle) {
            return None;
        }
        if *times == 0 {
            self.passed.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        *times = times.saturating_sub(1);
        self.told.fetch_add(1, Ordering::SeqCst);
        Some(lie.clone())
    }
}

/// Returns what the peer sends next; `None` once it has hung up.
fn heard(mut peer: &TcpStream) -> Option<Vec<u8>> {
    let mut buffer = [0; 65_536];
    loop {
        match peer.read(&mut buffer) {
            Ok(length @ 1..) => return Some(buffer[..length].to_vec()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return None,
        }
    }
}

/// Tells a lie until the client has hung up.
fn tell(mut client: &TcpStream, lie: &Lie) {
    if client.write_all(&lie.head).is_err() {
        return;
    }
    match &lie.then {
        Then::Close => return,
        Then::Silence => {}
        Then::Repeat(part) => {
            let part = part.repeat(1 + (1 << 16) / part.len());
            // A client that hears no more and stays is left after a while.
            let _ = client.set_write_timeout(Some(Duration::from_secs(60)));
            while client.write_all(&part).is_ok() {}
            return;
        }
        Then::Converse(answers) => {
            for answer in answers {
                if heard(client).is_none() || client.write_all(answer).is_err() {
                    return;
                }
            }
        }
    }
    while heard(client).is_some() {}
}
