//! The order in which the hosts of a URL are tried, and the time that each of them gets.

use std::time::Duration;

use super::network::Host;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "zookeeper"))]
use crate::backend::Contact;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "zookeeper"))]
use crate::lock::{BackendError, ErrorClass};
use crate::system::Moment;

/// Time limit of the first connection attempt, and the minimum for any attempt.
const FIRST_ATTEMPT: Duration = Duration::from_secs(1);
/// Factor by which the limit grows after an attempt that used its time up.
const ATTEMPT_GROWTH: f64 = 1.5;
/// Greatest part of its limit that an attempt gets in addition, at random.
const ATTEMPT_JITTER: f64 = 0.5;

/// Lists the hosts of a URL in the order in which shedlock tries them.
pub(crate) struct Hosts {
    pub(crate) all: Vec<Host>,
    /// The index of the first host to try: the one that worked last.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "http", feature = "zookeeper")),
        expect(dead_code, reason = "a provider tries the hosts itself")
    )]
    first: usize,
    pub(crate) attempts: Attempts,
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "zookeeper"))]
    contact: Contact,
}

impl Hosts {
    /// Creates the hosts of a URL; one of them must accept a connection within `timeout`.
    pub(crate) fn new(all: Vec<Host>, timeout: Duration) -> Self {
        Self {
            all,
            first: 0,
            attempts: Attempts::new(timeout),
            #[cfg(any(feature = "postgres", feature = "mysql", feature = "zookeeper"))]
            contact: Contact::default(),
        }
    }

    /// Notes in `contact` when a host has accepted a connection.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "zookeeper"))]
    pub(crate) fn noting(self, contact: &Contact) -> Self {
        Self { contact: contact.clone(), ..self }
    }

    #[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "http", feature = "zookeeper"))]
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    #[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "http", feature = "zookeeper"))]
    /// Makes the next host the first to try, because the present one cannot be written to.
    pub(crate) fn pass_over(&mut self) {
        self.first = (self.first + 1) % self.all.len();
    }

    /// Returns the first host to try.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "http"))]
    pub(crate) fn first(&self) -> &Host {
        &self.all[self.first]
    }

    /// Connects to the first host that accepts, and tries that one first from now on.
    #[cfg(any(feature = "postgres", feature = "mysql", feature = "zookeeper"))]
    pub(crate) fn connect<T>(
        &mut self,
        connect: impl Fn(&Host, Bound) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let (count, bound) = (self.count(), self.attempts.begin(Moment::now()));
        let bound = Bound { hosts: count, ..bound };
        let places = (self.first..self.first + count).map(|place| place % count);
        let opened = first_of(places, |place| connect(&self.all[place], bound).map(|connection| (place, connection)));
        let (place, connection) = opened.inspect_err(|_| self.attempts.failed(bound, Moment::now()))?;
        self.contact.reached();
        self.first = place;
        self.attempts.succeeded();
        Ok(connection)
    }
}

/// Returns the first connection that succeeds. A permanent refusal ends the search, because the other hosts or
/// addresses lead to copies of the same data.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "zookeeper"))]
pub(crate) fn first_of<P, T>(
    places: impl IntoIterator<Item = P>,
    mut connect: impl FnMut(P) -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    let mut last_error = BackendError::transient("there is no server to connect to");
    for place in places {
        match connect(place) {
            Err(error) if error.class == ErrorClass::Permanent => return Err(error),
            // An overloaded server matters more than another that is down.
            Err(error) if last_error.class != ErrorClass::Overloaded => last_error = error,
            Err(_) => {}
            connected => return connected,
        }
    }
    Err(last_error)
}

/// Sets the time limits for connection attempts: shedlock leaves a server that accepts but stays silent, and tries it again. If a
/// server speaks first, as MySQL does, and its accept queue overflows, the client waits on a connection that exists for the
/// client only.
///
/// The first attempt gets a second. After an attempt that used its time up the next gets half as much again, so that
/// a slow server is reached too; the last one gets all the time left. Up to a half is added at random: clients that
/// were refused together would come back together, and overrun the server again.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// Time for all attempts of one request.
    timeout: Duration,
    /// The start of the first attempt that failed since a server last accepted a connection.
    begun: Option<Moment>,
    bound: Duration,
}

/// Holds the time limit of one attempt, through all hosts of the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    started: Moment,
    wanted: Duration,
    left: Duration,
    /// Number of hosts that share the time.
    hosts: usize,
}

impl Attempts {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, begun: None, bound: FIRST_ATTEMPT }
    }

    /// Lets the next attempt use all the time there is, for a caller that makes only one.
    pub(crate) fn make_one(&mut self) {
        (self.begun, self.bound) = (Some(Moment::now()), self.timeout);
    }

    /// Starts an attempt and returns its time limit.
    pub(crate) fn begin(&mut self, now: Moment) -> Bound {
        let begun = match self.begun {
            Some(begun) if now.since(begun) < self.timeout => begun,
            _ => {
                self.bound = FIRST_ATTEMPT;
                *self.begun.insert(now)
            }
        };
        let wanted = self.bound.mul_f64(1.0 + ATTEMPT_JITTER * random_fraction(now));
        Bound { started: now, wanted, left: (begun + self.timeout).since(now), hosts: 1 }
    }

    /// Records that the attempt failed. A refusal is quick, and says nothing about the time that a server needs.
    pub(crate) fn failed(&mut self, bound: Bound, now: Moment) {
        if now.since(bound.started) >= FIRST_ATTEMPT {
            self.bound = self.bound.mul_f64(ATTEMPT_GROWTH);
        }
    }

    /// Records that a server accepted the connection.
    pub(crate) fn succeeded(&mut self) {
        (self.begun, self.bound) = (None, FIRST_ATTEMPT);
    }
}

/// Returns a random number from 0 to 1 without a system call: the last digits of the clock.
fn random_fraction(now: Moment) -> f64 {
    f64::from(now.since_boot().subsec_nanos() % 1000) / 1000.0
}

impl Bound {
    /// Returns the time limit of each address, for a host with this number of them.
    pub(crate) fn each(self, addresses: usize) -> Duration {
        let places = self.hosts.max(1) * addresses.max(1);
        let share = self.left / u32::try_from(places).unwrap_or(u32::MAX);
        // If the rest is too short for another attempt, this one gets it all.
        if share < self.wanted * 2 { share.max(FIRST_ATTEMPT) } else { self.wanted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bounds of attempts that all use their time up, in milliseconds.
    fn bounds(timeout: u64, places: usize) -> Vec<u128> {
        let secs = Duration::from_secs;
        let (start, mut now) = (Moment::at(secs(100)), Moment::at(secs(100)));
        let mut attempts = Attempts::new(secs(timeout));
        let mut bounds = Vec::new();
        while now.since(start) < secs(timeout) {
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
}
