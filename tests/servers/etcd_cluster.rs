//! Three members of etcd whose clocks differ, as far as a client can see.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::etcd::{EtcdClient, EtcdCluster};
use super::program;

/// What stands before the time in the head of an answer, and how long the time is.
const DATE: &[u8] = b"Date: ";
const LENGTH: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Three members, each behind a relay that changes the time in its answers.
///
/// faketime does nothing to etcd: Go asks the kernel, and not the C library. But the `Date` of its answers is all that a
/// client sees of a member's clock, and etcd's leases go by clocks that count.
pub struct EtcdClocks {
    cluster: EtcdCluster,
    relays: Vec<Relay>,
}

/// The way to a member. It is closed while the member is down, so that connections are refused, as by a host without it.
struct Relay {
    address: SocketAddr,
    member: SocketAddr,
    /// In seconds.
    ahead: Arc<AtomicI64>,
    opened: Mutex<Option<Opened>>,
}

struct Opened {
    goes_on: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl EtcdClocks {
    /// A cluster that is reached at this address of the host, such as `127.0.0.1`. The clock of each member is ahead of the
    /// true time by so many seconds.
    pub fn fresh(address: &str, ahead: [i64; 3]) -> Self {
        let cluster = EtcdCluster::fresh();
        let relay = |number: usize| Relay {
            address: SocketAddr::new(address.parse().unwrap(), program::free_port()),
            member: SocketAddr::from(([127, 0, 0, 1], cluster.members[number].port())),
            ahead: Arc::new(AtomicI64::new(ahead[number])),
            opened: Mutex::new(None),
        };
        let relays: Vec<Relay> = (0..3).map(relay).collect();
        relays.iter().for_each(Relay::open);
        Self { cluster, relays }
    }

    /// The URL with the members in their order, which is the order in which shedlock asks them.
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.relays.iter().map(|relay| relay.address.to_string()).collect();
        format!("etcd://{}", hosts.join(","))
    }

    /// Sets a member's clock to so many seconds ahead of the true time.
    pub fn set_clock(&self, member: usize, ahead: i64) {
        self.relays[member].ahead.store(ahead, Ordering::SeqCst);
    }

    /// A client that sees no time.
    pub fn client(&self, member: usize) -> EtcdClient {
        self.cluster.members[member].client()
    }

    /// Ends a member with SIGKILL.
    pub fn kill(&self, member: usize) {
        self.relays[member].close();
        self.cluster.members[member].kill();
    }

    /// Ends a member in an orderly way.
    pub fn stop(&self, member: usize) {
        self.relays[member].close();
        self.cluster.members[member].stop();
    }

    /// Starts a member again. It may take a while until it has joined the others.
    pub fn start(&self, member: usize) {
        self.cluster.members[member].start();
        self.relays[member].open();
    }

    pub fn freeze(&self, member: usize) {
        self.cluster.members[member].freeze();
    }

    pub fn thaw(&self, member: usize) {
        self.cluster.members[member].thaw();
    }

    /// The number of the member that leads; waits until there is one.
    pub fn leader(&self) -> usize {
        self.cluster.leader()
    }
}

impl Relay {
    fn open(&self) {
        let listener = TcpListener::bind(self.address).unwrap();
        let goes_on = Arc::new(AtomicBool::new(true));
        let (member, ahead, open) = (self.member, Arc::clone(&self.ahead), Arc::clone(&goes_on));
        let thread = thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if !open.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(server) = TcpStream::connect(member) else { continue };
                let (Ok(to_server), Ok(to_client)) = (server.try_clone(), client.try_clone()) else { continue };
                let ahead = Arc::clone(&ahead);
                thread::spawn(move || pass(client, to_server, |_| 0));
                thread::spawn(move || pass(server, to_client, |bytes| shift(bytes, ahead.load(Ordering::SeqCst))));
            }
        });
        *self.opened() = Some(Opened { goes_on, thread });
    }

    fn close(&self) {
        if let Some(Opened { goes_on, thread }) = self.opened().take() {
            goes_on.store(false, Ordering::SeqCst);
            // It waits for a connection.
            drop(TcpStream::connect(self.address));
            thread.join().unwrap();
        }
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, Option<Opened>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.close();
    }
}

/// Passes on what comes until one of them ends. `change` says how many bytes at the end have to wait for others.
fn pass(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&mut [u8]) -> usize) {
    let mut bytes = Vec::new();
    let mut more = [0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut more) {
        bytes.extend_from_slice(&more[..count]);
        let waiting = change(&mut bytes);
        let ready = bytes.len() - waiting;
        if to.write_all(&bytes[..ready]).is_err() {
            break;
        }
        bytes.drain(..ready);
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Puts another time into the head of each answer. Returns how many bytes at the end are the begin of a time that has not
/// come to its end. The bodies are JSON without blanks, with values in base64, and have none.
fn shift(bytes: &mut [u8], ahead: i64) -> usize {
    let mut from = 0;
    while let Some(place) = bytes[from..].windows(DATE.len()).position(|part| part == DATE) {
        let (begin, end) = (from + place, from + place + DATE.len() + LENGTH);
        if end > bytes.len() {
            return bytes.len() - begin;
        }
        bytes[begin + DATE.len()..end].copy_from_slice(date(ahead).as_bytes());
        from = end;
    }
    (1..DATE.len()).rev().find(|length| bytes[from..].ends_with(&DATE[..*length])).unwrap_or(0)
}

/// The true time and so many seconds, as HTTP writes it.
fn date(ahead: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let seconds = now.saturating_add_signed(ahead);
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
    let weekday = DAYS[usize::try_from(seconds / 86_400 % 7).unwrap()];
    let month = MONTHS[time[5..7].parse::<usize>().unwrap() - 1];
    format!("{weekday}, {} {month} {} {} GMT", &time[8..10], &time[..4], &time[11..19])
}
