//! What the backends that are reached by network have in common: the servers in a URL, and name lookup.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use super::url::percent_decode;
use super::{BackendError, Url};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use super::{ErrorClass, note_reached};
use crate::system::{Moment, net};

/// Bound of the first attempt to connect, and the least that any attempt gets.
const FIRST: Duration = Duration::from_secs(1);
/// After an attempt that used its time up the next one gets so many times as much.
const GROWTH: f64 = 1.5;
/// The part of its time that an attempt may get more, at random.
const SPREAD: f64 = 0.5;

/// The part of a URL that says who logs in where: `//USER:PASSWORD@HOST:PORT,HOST:PORT/PATH`, all of it optional.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) hosts: Vec<Host>,
    /// What follows the first slash after the hosts, with percent-encoding undone.
    pub(super) path: String,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    /// A name, an address, or the path of a unix socket or of its directory.
    pub(super) name: String,
    pub(super) port: Option<u16>,
}

impl Authority {
    /// Cuts what follows the scheme's colon; the error is the end of a sentence and shows no password.
    pub(super) fn parse(url: &Url) -> Result<Self, String> {
        let scheme = url.scheme();
        let Some(rest) = url.rest().strip_prefix("//") else {
            return Err(format!("has no // after `{scheme}:`; write {scheme}://HOST"));
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err("has a slash before its @; in a password, write %2F for it".to_owned());
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (filled(user, "user")?, filled(password, "password")?),
            None => (None, None),
        };
        let hosts = hosts.split(',').filter(|host| !host.is_empty()).map(Host::parse).collect::<Result<_, _>>()?;
        let path = filled(path, "path")?.unwrap_or_default();
        Ok(Self { user, password, hosts, path })
    }
}

impl Host {
    /// Reads `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, port)) => (name, Some(port.strip_prefix(':').ok_or("has something after the ] of a host")?)),
            None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
        };
        let port = port.map(|port| port.parse().map_err(|_| "has a port that is no number from 1 to 65535".to_owned()));
        let name = filled(name, "host")?.ok_or("has a port without a host")?;
        Ok(Self { name, port: port.transpose()? })
    }

    /// Looks the name up; one that cannot be found now may be found later.
    pub(super) fn addresses(&self, default_port: u16) -> Result<Vec<SocketAddr>, BackendError> {
        self.prepare_lookup();
        let found = (self.name.as_str(), self.port.unwrap_or(default_port)).to_socket_addrs();
        match found.map(Iterator::collect::<Vec<_>>) {
            Ok(addresses) if !addresses.is_empty() => Ok(addresses),
            _ => Err(BackendError::transient(format!("the host {} has no address", self.name))
                .hint("look whether the name is right, with `getent hosts NAME`")),
        }
    }

    /// Makes ready for somebody to look the name up. An address is not looked up, and then even this would cost a file.
    pub(super) fn prepare_lookup(&self) {
        if self.name.parse::<IpAddr>().is_err() {
            net::look_up_without_modules();
        }
    }

    /// Whether this is the path of a unix socket, or of its directory.
    pub(super) fn is_path(&self) -> bool {
        self.name.starts_with('/')
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        let bare = if name.contains(':') { format!("[{name}]") } else { name.clone() };
        match self.port {
            Some(port) => write!(f, "{bare}:{port}"),
            None => f.write_str(&bare),
        }
    }
}

/// The hosts of a URL in the order in which they are tried.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) struct Hosts {
    pub(super) all: Vec<Host>,
    /// The one that comes first: the one that worked.
    first: usize,
    pub(super) attempts: Attempts,
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
impl Hosts {
    /// Makes the hosts of a URL, of which one is to let us in within `patience`.
    pub(super) fn new(all: Vec<Host>, patience: Duration) -> Self {
        Self { all, first: 0, attempts: Attempts::new(patience) }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Has the next host tried first, since the one that answered cannot be written.
    pub(super) fn pass_over(&mut self) {
        self.first = (self.first + 1) % self.all.len();
    }

    /// The host that is tried first.
    pub(super) fn first(&self) -> &Host {
        &self.all[self.first]
    }

    /// Notes how an attempt to connect ended, which [`Hosts::try_each`] made; the host that let us in is tried first from now on.
    pub(super) fn tried<T>(
        &mut self,
        bound: Bound,
        answer: Result<(usize, T), BackendError>,
    ) -> Result<T, BackendError> {
        match answer {
            Ok((place, connection)) => {
                note_reached();
                self.first = place;
                self.attempts.succeeded();
                Ok(connection)
            }
            Err(error) => {
                self.attempts.failed(bound, Moment::now());
                Err(error)
            }
        }
    }

    /// Connects to the first host that lets us in, and returns its place too. One that refuses us for good ends the search:
    /// the others are its copies.
    pub(super) fn try_each<T>(
        &self,
        label: &str,
        connect: impl Fn(&Host) -> Result<T, BackendError>,
    ) -> Result<(usize, T), BackendError> {
        let mut met: Option<BackendError> = None;
        for step in 0..self.all.len() {
            let place = (self.first + step) % self.all.len();
            match connect(&self.all[place]) {
                Ok(connection) => return Ok((place, connection)),
                Err(error) if error.class == ErrorClass::Permanent => return Err(error),
                // That one is full says more than that another is down.
                Err(error) if met.as_ref().is_none_or(|met| met.class != ErrorClass::Overloaded) => met = Some(error),
                Err(_) => {}
            }
        }
        Err(met.unwrap_or_else(|| BackendError::permanent(format!("{label}: there is no server to ask"))))
    }
}

/// Bounds each attempt to connect, so that a server which accepts and says nothing is left and tried again. A server that
/// speaks first, as MySQL does, and whose accept queue overflowed leaves its client waiting on a connection that only the
/// client believes in.
///
/// An attempt gets a second at first. After one that used its time up the next gets half as much again, so that a server that
/// is slow to let in is reached too; the last one gets all that is left. Up to a half is added at random: clients that were
/// turned away together would come back together, and overrun the server again.
#[derive(Debug)]
pub(super) struct Attempts {
    /// For all attempts of one request.
    patience: Duration,
    /// When the first of the attempts began that have failed since a server let us in.
    begun: Option<Moment>,
    bound: Duration,
}

/// How long one attempt may take, through all hosts of the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bound {
    started: Moment,
    wanted: Duration,
    left: Duration,
}

impl Attempts {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, begun: None, bound: FIRST }
    }

    /// Lets the next attempt take all the time there is, for a caller that makes only one.
    pub(super) fn make_one(&mut self) {
        (self.begun, self.bound) = (Some(Moment::now()), self.patience);
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, now: Moment) -> Bound {
        let begun = match self.begun {
            Some(begun) if now.since(begun) < self.patience => begun,
            _ => {
                self.bound = FIRST;
                *self.begun.insert(now)
            }
        };
        let wanted = self.bound.mul_f64(1.0 + SPREAD * chance(now));
        Bound { started: now, wanted, left: (begun + self.patience).since(now) }
    }

    /// Notes that the attempt failed. A refusal is quick, and says nothing about the time that a server needs.
    pub(super) fn failed(&mut self, bound: Bound, now: Moment) {
        if now.since(bound.started) >= FIRST {
            self.bound = self.bound.mul_f64(GROWTH);
        }
    }

    /// Notes that a server let us in.
    pub(super) fn succeeded(&mut self) {
        (self.begun, self.bound) = (None, FIRST);
    }
}

/// Returns a number from 0 to 1 at random, without a system call: the last digits of the clock.
fn chance(now: Moment) -> f64 {
    f64::from(now.since_boot().subsec_nanos() % 1000) / 1000.0
}

impl Bound {
    /// Returns how long each of so many places may take: hosts, or all of their addresses.
    pub(super) fn each(self, places: usize) -> Duration {
        let share = self.left / u32::try_from(places.max(1)).unwrap_or(u32::MAX);
        // What would be left for another attempt is too little for one.
        if share < self.wanted * 2 { share.max(FIRST) } else { self.wanted }
    }
}

/// The hosts as they are named in messages.
#[cfg(any(test, feature = "postgres", feature = "mysql"))]
pub(super) fn list(hosts: &[Host]) -> String {
    hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the error for a server that took the connection, or whose kernel did, and has not answered to it.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn said_nothing(label: &str) -> BackendError {
    BackendError::transient(format!("{label}: no answer in time: it accepted the connection and said nothing")).hint(
        "look whether the server is well and not overrun, and the port its own; --backend-timeout sets how long to try",
    )
}

/// Returns the error for a server that has not answered what it was asked.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn silence(label: &str) -> BackendError {
    BackendError::transient(format!("{label}: no answer in time"))
        .hint("look whether the server is well and the port its own; --backend-timeout sets how long to try")
}

/// Returns the error for a host on which no server listens.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn refused(label: &str) -> BackendError {
    BackendError::transient(format!("{label}: connection refused"))
        .hint("look whether the server runs, and whether host and port are right")
}

/// Returns the error for a socket that this user may not use.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn denied(label: &str) -> BackendError {
    BackendError::permanent(format!("{label}: permission to use the server's socket denied"))
}

/// Undoes percent-encoding; `None` for what is empty.
fn filled(text: &str, what: &str) -> Result<Option<String>, String> {
    let text = percent_decode(text).map_err(|_| format!("has a {what} that is no text"))?;
    if text.contains('\0') {
        return Err(format!("has a {what} with a zero byte"));
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Authority, String> {
        Authority::parse(&Url::parse(text).unwrap())
    }

    fn host(name: &str, port: Option<u16>) -> Host {
        Host { name: name.to_owned(), port }
    }

    #[test]
    fn user_password_hosts_and_path_are_told_apart() {
        let full = parse("postgres://j%40b:p%2F:w@db1:5433,[::1]:5434,db2/o%20ps").unwrap();
        assert_eq!((full.user.as_deref(), full.password.as_deref()), (Some("j@b"), Some("p/:w")));
        assert_eq!(full.hosts, [host("db1", Some(5433)), host("::1", Some(5434)), host("db2", None)]);
        assert_eq!(full.path, "o ps");
        let bare = parse("postgres:///ops").unwrap();
        assert!(bare.user.is_none() && bare.password.is_none() && bare.hosts.is_empty());
        assert_eq!(parse("postgres://%2Frun%2Fpg:1/x").unwrap().hosts, [host("/run/pg", Some(1))]);
        assert_eq!(list(&full.hosts), "db1:5433,[::1]:5434,db2");
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        for wrong in ["postgres:db", "postgres://u:se/cret@db/x", "postgres://u:secret@db:port/x", "redis://:secret@:1"]
        {
            let error = parse(wrong).err().unwrap();
            assert!(!error.contains("cret"), "{error}");
        }
    }

    /// The bounds of attempts that all use their time up, in milliseconds.
    fn bounds(patience: u64, places: usize) -> Vec<u128> {
        let secs = Duration::from_secs;
        let (start, mut now) = (Moment::at(secs(100)), Moment::at(secs(100)));
        let mut attempts = Attempts::new(secs(patience));
        let mut bounds = Vec::new();
        while now.since(start) < secs(patience) {
            let bound = attempts.begin(now);
            bounds.push(bound.each(places).as_millis());
            now = now + bound.each(places) * u32::try_from(places).unwrap();
            attempts.failed(bound, now);
        }
        bounds
    }

    #[test]
    fn attempts_that_meet_silence_grow_and_the_last_gets_what_is_left() {
        assert_eq!(bounds(10, 1), [1000, 1500, 2250, 5250]);
        assert_eq!(bounds(10, 2), [1000, 1500, 2500]);
        assert_eq!(bounds(2, 1), [1000, 1000]);
        assert_eq!(bounds(3, 5), [1000], "no place gets less than a second");
        assert!(bounds(60, 1).is_sorted() && bounds(60, 1).len() == 8, "{:?}", bounds(60, 1));
    }

    #[test]
    fn a_refusal_and_a_success_leave_the_next_attempt_a_second() {
        let (start, secs) = (Moment::at(Duration::from_secs(100)), Duration::from_secs);
        let mut attempts = Attempts::new(secs(60));
        let bound = attempts.begin(start);
        attempts.failed(bound, start + Duration::from_millis(5));
        assert_eq!(attempts.begin(start + secs(1)).each(1), secs(1));
        attempts.failed(bound, start + secs(1));
        assert_eq!(attempts.begin(start + secs(1)).each(1), Duration::from_millis(1500));
        attempts.succeeded();
        assert_eq!(attempts.begin(start + secs(2)).each(1), secs(1));
        attempts.make_one();
        assert_eq!(attempts.begin(Moment::now()).each(1).as_secs(), 59);
    }

    #[test]
    fn this_host_has_an_address_and_no_name_has_none() {
        assert!(host("localhost", None).addresses(1).unwrap().iter().all(|address| address.ip().is_loopback()));
        assert_eq!(host("127.0.0.1", Some(7)).addresses(1).unwrap(), ["127.0.0.1:7".parse().unwrap()]);
        let error = host("no.such.host.invalid", None).addresses(1).unwrap_err();
        assert!(error.message.contains("no.such.host.invalid"), "{error:?}");
    }
}
