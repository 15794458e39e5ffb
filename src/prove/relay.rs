//! A relay between a client and its servers, which cuts, delays and freezes what passes. One thread serves all connections of
//! a relay and never blocks. A provider has no connection of ours: it is killed and stopped instead, in the client's thread.

mod connection;
mod faults;
#[cfg(feature = "provider")]
mod provider;

use std::io::{self, Write};
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::history::Fault;
#[cfg(feature = "provider")]
use crate::backend::Harm;
use crate::backend::{Detour, Way};
#[cfg(feature = "provider")]
use crate::system::Helper;
use crate::system::Moment;
use connection::Connection;
use faults::Faults;

/// The time after which a connection is given up that the client asked for and did not open.
const OPENING_TIME: Duration = Duration::from_secs(10);
/// The shortest limit: the system takes none for an error.
const MIN_LIMIT: Duration = Duration::from_millis(1);
/// The pause of the thread where the system cannot poll, for want of memory.
const POLL_PAUSE: Duration = Duration::from_millis(100);

/// Relays the connections of one client. Its end closes them.
pub(crate) struct Relay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Tells that no connection is left whose client has gone.
    settled: Condvar,
    /// Wakes the thread.
    bell: UnixStream,
}

#[derive(Default)]
struct State {
    opening: Vec<Opening>,
    faults: Faults,
    /// Providers that are stopped, and given up by the client.
    #[cfg(feature = "provider")]
    frozen: Vec<Helper>,
    /// Set until the thread has let go what frozen connections keep.
    thaws: bool,
    /// Set until the thread has read all that clients have sent and closed so far.
    is_asked: bool,
    is_over: bool,
    was_used: bool,
    /// The number of connections whose client has gone.
    leaving: usize,
}

/// A connection that the client is about to open.
struct Opening {
    listener: TcpListener,
    server: TcpStream,
    until: Moment,
}

impl Relay {
    /// Starts the relay's thread.
    pub(crate) fn new() -> io::Result<Self> {
        let (bell, ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        let shared = Arc::new(Shared { state: Mutex::default(), settled: Condvar::new(), bell });
        let served = Arc::clone(&shared);
        let thread = thread::Builder::new().name("relay".to_owned()).spawn(move || served.serve(&ring))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Returns the way by this relay. A server's error to connect is the way's.
    pub(crate) fn detour(&self) -> Detour {
        Detour::new(Arc::clone(&self.shared) as Arc<dyn Way>)
    }

    /// Lets a fault strike once, from now on, whichever connection the bytes pass on. It takes the place of one that is armed.
    pub(crate) fn arm(&self, fault: Fault) {
        let mut state = self.shared.state();
        state.faults.arm(fault);
    }

    /// Ends a delay, and forgets a fault that has not struck. A frozen connection stays frozen.
    pub(crate) fn disarm(&self) {
        self.shared.state().faults.armed = None;
        self.shared.wake();
    }

    /// Delivers to the servers what frozen connections keep, and lets stopped providers carry out what they were sent; also
    /// forgets a fault that has not struck.
    pub(crate) fn thaw(&self) {
        let mut state = self.shared.state();
        state.faults.armed = None;
        state.thaws = true;
        #[cfg(feature = "provider")]
        let frozen = mem::take(&mut state.frozen);
        drop(state);
        self.shared.wake();
        #[cfg(feature = "provider")]
        frozen.into_iter().for_each(provider::thaw);
    }

    /// Waits until the connections that the client has closed are over, so that servers have what was sent on them; returns
    /// false if they are not within the limit.
    pub(crate) fn settle(&self, limit: Duration) -> bool {
        self.shared.state().is_asked = true;
        self.shared.wake();
        let is_busy = |state: &mut State| state.is_asked || state.leaving > 0;
        let waited = self.shared.settled.wait_timeout_while(self.shared.state(), limit, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Returns whether a connection went by this relay, or a request to a provider.
    pub(crate) fn was_used(&self) -> bool {
        self.shared.state().was_used
    }

    /// Returns whether the fault that was armed last has struck.
    pub(crate) fn struck(&self) -> bool {
        self.shared.state().faults.has_struck
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.wake();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A bell that is full will be heard.
        let _ = (&self.bell).write(&[0]);
    }

    /// Connects to a server, and returns an address that is good for one connection.
    fn open(&self, address: SocketAddr, limit: Duration) -> io::Result<SocketAddr> {
        let server = TcpStream::connect_timeout(&address, limit.max(MIN_LIMIT))?;
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut state = self.state();
        if state.is_over {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        state.was_used = true;
        state.opening.push(Opening { listener, server, until: Moment::now() + OPENING_TIME });
        drop(state);
        self.wake();
        Ok(address)
    }

    fn serve(&self, ring: &UnixStream) {
        let (mut opening, mut connections) = (Vec::new(), Vec::new());
        loop {
            self.wait(ring, &opening, &connections);
            let now = Moment::now();
            let mut state = self.state();
            if state.is_over {
                state.opening.clear();
                return;
            }
            opening.append(&mut state.opening);
            let thaws = mem::take(&mut state.thaws);
            for one in mem::take(&mut opening) {
                match one.listener.accept() {
                    Ok((client, _)) => connections.extend(Connection::new(client, one.server).ok()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && now < one.until => opening.push(one),
                    Err(_) => {}
                }
            }
            connections.retain_mut(|connection| {
                if thaws {
                    connection.thaw(now);
                }
                connection.pass(&mut state.faults, now);
                !connection.is_over(now)
            });
            state.leaving = connections.iter().filter(|connection| connection.is_leaving()).count();
            state.is_asked = false;
            self.settled.notify_all();
        }
    }

    /// Waits until a socket is ready or a time has come.
    fn wait(&self, mut ring: &UnixStream, opening: &[Opening], connections: &[Connection]) {
        let mut waited = vec![PollFd::new(ring.as_fd(), PollFlags::POLLIN)];
        waited.extend(opening.iter().map(|one| PollFd::new(one.listener.as_fd(), PollFlags::POLLIN)));
        connections.iter().for_each(|connection| connection.waits_for(&mut waited));
        let times = opening.iter().map(|one| one.until).chain(connections.iter().filter_map(Connection::next_time));
        let limit = times.min().map(|time| time.since(Moment::now()));
        // A millisecond more, since the time is cut to milliseconds.
        let limit = limit.map_or(PollTimeout::NONE, |limit| {
            PollTimeout::try_from(limit.as_millis() + 1).unwrap_or(PollTimeout::MAX)
        });
        if poll(&mut waited, limit).is_err_and(|error| error != nix::Error::EINTR) {
            thread::sleep(POLL_PAUSE);
        }
        let _ = io::Read::read(&mut ring, &mut [0; 64]);
    }
}

impl Way for Shared {
    fn connect(&self, address: SocketAddr, limit: Duration) -> io::Result<SocketAddr> {
        self.open(address, limit)
    }

    #[cfg(feature = "provider")]
    fn on_request(&self, bytes: usize, changes: bool) -> Harm {
        let mut state = self.state();
        state.was_used = true;
        state.faults.on_request(bytes, changes)
    }

    #[cfg(feature = "provider")]
    fn kills_on_answer(&self, bytes: usize) -> bool {
        self.state().faults.kills_on_answer(bytes)
    }

    #[cfg(feature = "provider")]
    fn keep(&self, helper: Helper) {
        self.state().frozen.push(helper);
    }
}

#[cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "etcd",
    feature = "kubernetes",
    feature = "zookeeper"
))]
mod server_tests;
#[cfg(feature = "http")]
mod tests;
