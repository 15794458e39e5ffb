//! A gate between the program and its store, where a request for the lock, or the answer to it, can be held in flight:
//! a relay before a server, or a connection that holds the write lock of a SQLite file.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use crate::support::process::has_open;
use crate::support::{PATIENCE, wait_until};

/// What is held of a request for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// The server does not get it.
    Request,
    /// The server has done it, and nobody hears of it.
    Answer,
}

/// What becomes of what was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes on its way.
    Passed,
    /// Its connection breaks.
    Broken,
}

pub(super) enum Gate {
    Relay(Relay),
    File(FileGate),
}

impl Gate {
    /// Holds what concerns the lock from now on. A file can only hold requests.
    pub(super) fn close(&mut self, hold: Hold) {
        match self {
            Self::Relay(relay) => relay.state.lock().closed = Some(hold),
            Self::File(file) => file.close(),
        }
    }

    /// Waits until something is held; for a file, until the program needs its path no more to ask for what it cannot have: it
    /// opens the index last.
    pub(super) fn wait_until_held(&self, pid: i32) {
        match self {
            Self::Relay(relay) => relay.state.wait_for("a request at the gate", |state| state.held > 0),
            Self::File(file) => wait_until("a request for the file", || has_open(pid, &file.index()).then_some(())),
        }
    }

    /// Lets go what is held, and whatever comes later.
    pub(super) fn open(&mut self, fate: Fate) {
        match self {
            Self::Relay(relay) => {
                let mut state = relay.state.lock();
                state.closed = None;
                if fate == Fate::Broken && state.held > 0 {
                    state.broken = state.number;
                }
                drop(state);
                relay.state.changed.notify_all();
            }
            Self::File(file) => file.open(),
        }
    }
}

/// The write lock of a SQLite file.
pub(super) struct FileGate {
    path: PathBuf,
    connection: Connection,
}

impl FileGate {
    pub(super) fn new(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        Self { path: path.to_owned(), connection }
    }

    fn is_closed(&self) -> bool {
        !self.connection.is_autocommit()
    }

    fn close(&self) {
        if !self.is_closed() {
            self.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        }
    }

    fn open(&self) {
        if self.is_closed() {
            self.connection.execute_batch("COMMIT").unwrap();
        }
    }

    /// Changes the file, behind the gate if it is closed.
    pub(super) fn change(&self, sql: &str) {
        self.connection.execute_batch(sql).unwrap();
    }

    fn index(&self) -> PathBuf {
        self.path.with_extension("db-shm")
    }

    /// Returns whether a process has the file open.
    pub(super) fn is_open_in(&self, pid: i32) -> bool {
        has_open(pid, &self.path)
    }
}

/// A port that leads to a server, as long as the test lives.
pub(super) struct Relay {
    pub(super) port: u16,
    state: Arc<Shared>,
}

#[derive(Default)]
struct State {
    closed: Option<Hold>,
    /// How many pieces are held.
    held: usize,
    /// The number of the last piece that was ever held, and up to which all of them break.
    number: usize,
    broken: usize,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn wait_for(&self, what: &str, is_so: impl Fn(&State) -> bool) {
        let (state, late) = self.changed.wait_timeout_while(self.lock(), PATIENCE, |state| !is_so(state)).unwrap();
        drop(state);
        assert!(!late.timed_out(), "waited in vain for {what}");
    }

    /// Stays while the gate is closed to this, and says what becomes of what came.
    fn pass(&self, hold: Hold) -> Fate {
        let mut state = self.lock();
        if state.closed != Some(hold) {
            return Fate::Passed;
        }
        state.held += 1;
        state.number += 1;
        let number = state.number;
        self.changed.notify_all();
        let mut state =
            self.changed.wait_while(state, |state| state.closed.is_some()).unwrap_or_else(PoisonError::into_inner);
        state.held -= 1;
        if number <= state.broken { Fate::Broken } else { Fate::Passed }
    }
}

impl Relay {
    /// Makes a gate; `needle` is in every request for the lock, and in no other message.
    pub(super) fn new(address: IpAddr, server: u16, needle: Vec<u8>) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Shared::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (needle, shared) = (needle.clone(), Arc::clone(&shared));
                thread::spawn(move || relay(&client, server, &needle, &shared));
            }
        });
        Self { port, state }
    }
}

/// Relays one connection until it ends or is broken. A server that is not there breaks it at once.
fn relay(client: &TcpStream, server: u16, needle: &[u8], shared: &Shared) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { return };
    let end = || {
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    };
    let asked = Mutex::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 65_536];
            while let Ok(length @ 1..) = (&server).read(&mut buffer) {
                let is_answer = *asked.lock().unwrap();
                if is_answer && shared.pass(Hold::Answer) == Fate::Broken {
                    break;
                }
                if (&*client).write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            end();
        });
        let mut buffer = [0; 65_536];
        loop {
            match (&*client).read(&mut buffer) {
                Ok(length @ 1..) => {
                    let request = &buffer[..length];
                    if request.windows(needle.len()).any(|part| part == needle) {
                        *asked.lock().unwrap() = true;
                        if shared.pass(Hold::Request) == Fate::Broken {
                            break;
                        }
                    }
                    // What was sent by one who is gone by now is lost, as in a network that broke.
                    if is_gone(client) || (&server).write_all(request).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        end();
    });
}

fn is_gone(client: &TcpStream) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let gone = match client.peek(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    client.set_read_timeout(None).unwrap();
    gone
}
