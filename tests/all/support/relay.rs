//! A port that leads to a real server, and does with what passes what a test wants: pass it on, cut the connection, or freeze
//! it, as a network does that loses its way and finds it again.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use servers::Port;

/// Some bytes that one side has sent and the other has not got yet.
pub(crate) struct Chunk<'a> {
    /// Connections are counted from 0.
    pub(crate) connection: usize,
    /// How many bytes have passed before, on all connections and both ways.
    pub(crate) passed: usize,
    /// Whether the server has sent them.
    pub(crate) is_answer: bool,
    pub(crate) bytes: &'a [u8],
}

impl Chunk<'_> {
    pub(crate) fn has(&self, needle: &[u8]) -> bool {
        self.bytes.windows(needle.len()).any(|part| part == needle)
    }
}

/// What becomes of a chunk.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Pass,
    /// These bytes pass in its place.
    Instead(Vec<u8>),
    /// Passes so many bytes, and then breaks the connection.
    Cut(usize),
    /// Passes so many bytes, and keeps all others of this connection until the relay is thawed.
    Freeze(usize),
    /// The same with the chunk and all after it, and its sender sees the connection break at once.
    Strand,
}

type Plan = dyn Fn(&Chunk<'_>) -> Act + Send + Sync;

/// The port, as long as the test lives.
pub(crate) struct Relay {
    pub(crate) port: u16,
    _listening: Port,
    state: Arc<State>,
}

struct State {
    server: u16,
    plan: Box<Plan>,
    passed: AtomicUsize,
    connections: AtomicUsize,
    ended: AtomicUsize,
    /// How many connections are frozen; none will be again once all were thawed.
    frozen: AtomicUsize,
    thawed: Mutex<bool>,
    thaw: Condvar,
}

impl Relay {
    pub(crate) fn new(server: u16, plan: impl Fn(&Chunk<'_>) -> Act + Send + Sync + 'static) -> Self {
        let state = Arc::new(State {
            server,
            plan: Box::new(plan),
            passed: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            frozen: AtomicUsize::new(0),
            thawed: Mutex::new(false),
            thaw: Condvar::new(),
        });
        let shared = Arc::clone(&state);
        let listening = Port::new("127.0.0.1", move |number, client| {
            shared.connections.fetch_add(1, Ordering::SeqCst);
            shared.relay(number, client);
        });
        Self { port: listening.number, _listening: listening, state }
    }

    /// Returns the URL of a server on 127.0.0.1, and a relay before it.
    pub(crate) fn before(url: &str, plan: impl Fn(&Chunk<'_>) -> Act + Send + Sync + 'static) -> (String, Self) {
        let port = url.split("127.0.0.1:").nth(1).unwrap().split(['/', '?']).next().unwrap();
        let relay = Self::new(port.parse().unwrap(), plan);
        (url.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{}", relay.port)), relay)
    }

    /// Returns how many bytes have passed, on all connections and both ways.
    pub(crate) fn passed(&self) -> usize {
        self.state.passed.load(Ordering::SeqCst)
    }

    /// Returns how many connections there have been.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Returns how many of the connections have ended on both sides.
    pub(crate) fn ended(&self) -> usize {
        self.state.ended.load(Ordering::SeqCst)
    }

    /// Returns how many connections have been frozen.
    pub(crate) fn frozen(&self) -> usize {
        self.state.frozen.load(Ordering::SeqCst)
    }

    /// Lets pass what was kept, and all that comes.
    pub(crate) fn thaw(&self) {
        *self.state.thawed.lock().unwrap() = true;
        self.state.thaw.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.thaw();
    }
}

impl State {
    fn relay(&self, number: usize, client: &TcpStream) {
        if let Ok(server) = TcpStream::connect(("127.0.0.1", self.server)) {
            let frozen = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| self.pump((number, true), &server, client, &frozen));
                self.pump((number, false), client, &server, &frozen);
            });
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Passes on what one side sends, until it or the relay ends that.
    fn pump(
        &self,
        (connection, is_answer): (usize, bool),
        mut from: &TcpStream,
        mut to: &TcpStream,
        frozen: &AtomicBool,
    ) {
        let mut buffer = [0; 65_536];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let (mut bytes, mut cut) = (&buffer[..length], false);
            let instead;
            if !frozen.load(Ordering::SeqCst) {
                let passed = self.passed.load(Ordering::SeqCst);
                let act = if self.is_thawed() {
                    Act::Pass
                } else {
                    (self.plan)(&Chunk { connection, passed, is_answer, bytes })
                };
                let now = match act {
                    Act::Pass => bytes.len(),
                    Act::Instead(others) => {
                        instead = others;
                        bytes = &instead;
                        bytes.len()
                    }
                    Act::Cut(now) => {
                        cut = true;
                        now
                    }
                    Act::Freeze(now) => {
                        frozen.store(true, Ordering::SeqCst);
                        self.frozen.fetch_add(1, Ordering::SeqCst);
                        now
                    }
                    Act::Strand => {
                        frozen.store(true, Ordering::SeqCst);
                        self.frozen.fetch_add(1, Ordering::SeqCst);
                        let _ = from.shutdown(Shutdown::Both);
                        0
                    }
                };
                self.passed.fetch_add(now, Ordering::SeqCst);
                if to.write_all(&bytes[..now]).is_err() {
                    break;
                }
                bytes = &bytes[now..];
            }
            if cut {
                let _ = from.shutdown(Shutdown::Both);
                break;
            }
            if frozen.load(Ordering::SeqCst) {
                self.wait_for_thaw();
                if to.write_all(bytes).is_err() {
                    break;
                }
            }
        }
        // Nor does the network pass on that one side has hung up.
        if frozen.load(Ordering::SeqCst) {
            self.wait_for_thaw();
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    fn is_thawed(&self) -> bool {
        *self.thawed.lock().unwrap()
    }

    fn wait_for_thaw(&self) {
        drop(self.thaw.wait_while(self.thawed.lock().unwrap(), |thawed| !*thawed).unwrap());
    }
}
