//! Checks, for `shedlock check`, what all servers on a network have: hosts, TLS, round trips and clocks.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::Finding;
pub(crate) use super::FindingSink;
use crate::backend::net::network::Host;
use crate::backend::net::tls::{Checks, Mode, Tls};
use crate::duration::brief;
use crate::lock::BackendError;
use crate::system::Moment;
#[cfg(feature = "http")]
use crate::system::Timestamp;
use crate::system::error_text;

/// Number of times that the server's clock is read.
const CLOCK_READINGS: usize = 7;
/// Difference of clocks from which two hosts may both run a job that only one should run.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);
/// Uncertainty below which no measurement is reported.
const MIN_UNCERTAINTY: Duration = Duration::from_micros(100);
/// Round trip from which a lease of some seconds is hard to keep.
const SLOW_ROUND_TRIP: Duration = Duration::from_millis(500);

/// Says how far away the hosts of a URL are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distance {
    /// No host answers.
    Unreached,
    /// All hosts that answer are on this machine.
    Here,
    /// A host that answers is another machine.
    Away,
}

/// Looks up each host, connects to it, disconnects and reports the result. Some servers note such a connection in their log.
/// `socket` turns a host's path into that of its socket.
pub(crate) fn hosts(
    hosts: &[Host],
    port: u16,
    limit: Duration,
    socket: impl Fn(&Host) -> PathBuf,
    tell: FindingSink<'_>,
) -> Distance {
    let mut distance = Distance::Unreached;
    for host in hosts {
        let found = match host.is_path() {
            true => connect_to_socket(&socket(host)),
            false => connect_to_host(host, port, limit),
        };
        match found {
            Ok((seen, here)) => {
                distance = if here && distance != Distance::Away { Distance::Here } else { Distance::Away };
                tell(Finding::good("address", seen));
            }
            Err((seen, advice)) if hosts.len() > 1 => tell(Finding::unwise("address", seen, advice)),
            Err((seen, advice)) => tell(Finding::bad("address", seen, advice)),
        }
    }
    if distance == Distance::Unreached && hosts.len() > 1 {
        tell(Finding::bad(
            "address",
            "no host answers",
            "check that the servers are running, and the network in between",
        ));
    }
    distance
}

/// Holds the result of an attempt to connect: the finding, and true if the host is on this machine; or the finding and the
/// remedy.
type Found = Result<(String, bool), (String, String)>;

fn connect_to_socket(path: &std::path::Path) -> Found {
    match UnixStream::connect(path) {
        Ok(_) => Ok((format!("the socket {} answers", path.display()), true)),
        Err(error) => Err((
            format!("the socket {} does not answer: {}", path.display(), error_text(&error)),
            "check that the server is running, and where its socket is".to_owned(),
        )),
    }
}

fn connect_to_host(host: &Host, port: u16, limit: Duration) -> Found {
    let addresses = host.addresses(port).map_err(|error| (error.message, error.hint.unwrap_or_default()))?;
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let mut why = String::new();
    for address in &addresses {
        match TcpStream::connect_timeout(address, share.max(Duration::from_secs(1))) {
            Ok(_) => return Ok((format!("{} answers", named(host, *address)), address.ip().is_loopback())),
            Err(error) => why = format!("{} does not answer: {}", named(host, *address), error_text(&error)),
        }
    }
    let advice = "check that the server is running, that host and port are right, and that no firewall is in between";
    Err((why, advice.to_owned()))
}

fn named(host: &Host, address: SocketAddr) -> String {
    match host.name.parse::<std::net::IpAddr>() {
        Ok(_) => format!("{address}"),
        Err(_) => format!("{}, which is {address},", host.name),
    }
}

/// Returns the subject of a finding about a connection error.
pub(crate) fn connection_subject(error: &BackendError) -> &'static str {
    if error.message.contains("TLS") || error.message.contains("certificate") { "TLS" } else { "login" }
}

/// Decides, from the finding about writing, whether `check` can test a lock: not on a read-only server, where the test would wait
/// for the server to become writable.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis"))]
pub(crate) fn lock_test_after(writing: &Finding) -> super::LockTest {
    if writing.grade == super::Grade::Bad { super::LockTest::Pointless } else { super::LockTest::Possible }
}

/// Judges the protection of a connection. `version` is the TLS version, if TLS is on.
pub(crate) fn tls(wanted: Option<&Tls>, version: Option<&str>, distance: Distance) -> Finding {
    let mode = wanted.map_or(Mode::Disable, |tls| tls.mode);
    let Some(version) = version else {
        return match distance {
            Distance::Here => Finding::good("TLS", "off; the connection stays on this host"),
            _ => Finding::unwise(
                "TLS",
                "off: the password and the locks cross the network unencrypted",
                "turn on TLS on the server, and use sslmode=verify-full with sslrootcert=FILE or sslrootcert=system",
            ),
        };
    };
    match wanted.map_or(Checks::Nothing, Tls::checks) {
        Checks::Name => Finding::good("TLS", format!("{version}; the server's certificate and name are verified")),
        Checks::Authority => {
            Finding::good("TLS", format!("{version}; the server's certificate is verified, but not its name"))
        }
        Checks::Nothing if distance == Distance::Here && mode < Mode::Require => {
            Finding::good("TLS", format!("{version}, without verification; the connection stays on this host"))
        }
        Checks::Nothing => Finding::unwise(
            "TLS",
            format!("{version}, but the server is not verified: an attacker in between could pose as it"),
            "use sslmode=verify-full with sslrootcert=FILE or sslrootcert=system",
        ),
    }
}

/// Reads the server's clock several times with `ask`, in microseconds since 1970, and reports the round trip and the
/// difference of the clocks.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "zookeeper", feature = "provider"))]
pub(crate) fn clock(
    mut ask: impl FnMut() -> Result<u64, BackendError>,
    tell: FindingSink<'_>,
) -> Result<(), BackendError> {
    let mut trips = Vec::new();
    for _ in 0..CLOCK_READINGS {
        let (begun, host) = (Moment::now(), host_micros());
        let server = ask()?;
        let took = Moment::now().since(begun);
        trips.push((took, i128::from(server) - i128::from(host) - i128::from(half_micros(took))));
    }
    trips.sort_unstable();
    tell(round_trip(trips[CLOCK_READINGS / 2].0));
    tell(difference(trips[0].1, trips[0].0 / 2));
    Ok(())
}

/// Does the same for a store whose clock is as coarse as that.
#[cfg(feature = "provider")]
pub(crate) fn clock_as_coarse_as(
    resolution: Duration,
    mut ask: impl FnMut() -> Result<u64, BackendError>,
    tell: FindingSink<'_>,
) -> Result<(), BackendError> {
    let latest = std::cell::Cell::new(0_u64);
    let middle = u64::try_from(resolution.as_micros() / 2).unwrap_or_default();
    clock(
        || {
            latest.set(ask()?.saturating_add(middle));
            Ok(latest.get())
        },
        &mut |finding| {
            let is_within = resolution > MIN_UNCERTAINTY && latest.get().abs_diff(host_micros()) <= 2 * middle;
            match finding.subject == "clock" && is_within {
                true => tell(Finding::good(
                    "clock",
                    format!("the store's and this host's agree, to within its {}", brief(resolution)),
                )),
                false => tell(finding),
            }
        },
    )
}

/// Measures the round trip of a request that reads, for a server whose clock comes with its answers.
#[cfg(feature = "http")]
pub(crate) fn round_trips(
    mut ask: impl FnMut() -> Result<(), BackendError>,
    tell: FindingSink<'_>,
) -> Result<(), BackendError> {
    let mut trips = Vec::new();
    for _ in 0..CLOCK_READINGS {
        let begun = Moment::now();
        ask()?;
        trips.push(Moment::now().since(begun));
    }
    trips.sort_unstable();
    tell(round_trip(trips[CLOCK_READINGS / 2]));
    Ok(())
}

/// Judges the clock of a server whose time has just come in whole seconds.
#[cfg(feature = "http")]
pub(crate) fn clock_in_seconds(server: Timestamp) -> Finding {
    difference_of_seconds(server, Timestamp::now())
}

#[cfg(feature = "http")]
fn difference_of_seconds(server: Timestamp, here: Timestamp) -> Finding {
    const SECOND: Duration = Duration::from_secs(1);
    let (ahead, behind) = (server.since(here), here.since(server + SECOND));
    match (ahead, behind) {
        (Duration::ZERO, Duration::ZERO) => {
            Finding::good("clock", "the server's and this host's agree, to within a second")
        }
        (ahead, Duration::ZERO) => difference(i128::try_from(ahead.as_micros()).unwrap_or(i128::MAX), SECOND / 2),
        (_, behind) => difference(-i128::try_from(behind.as_micros()).unwrap_or(i128::MAX), SECOND / 2),
    }
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "zookeeper", feature = "provider"))]
fn host_micros() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "redis", feature = "zookeeper", feature = "provider"))]
fn half_micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros() / 2).unwrap_or(u64::MAX)
}

fn round_trip(median: Duration) -> Finding {
    let seen = format!("{}, the median of {CLOCK_READINGS}", brief(median));
    match median > SLOW_ROUND_TRIP {
        false => Finding::good("round trip", seen),
        true => Finding::unwise("round trip", seen, "choose a --lease of a minute or more, or a closer server"),
    }
}

/// Judges the difference of the clocks; `ahead` is the microseconds that the server's clock is ahead of this host's.
fn difference(ahead: i128, uncertain: Duration) -> Finding {
    let apart = Duration::from_micros(u64::try_from(ahead.unsigned_abs()).unwrap_or(u64::MAX));
    let within = brief(uncertain.max(MIN_UNCERTAINTY));
    if apart <= uncertain {
        return Finding::good("clock", format!("the server's and this host's agree, to within {within}"));
    }
    let side = if ahead > 0 { "ahead of" } else { "behind" };
    let seen = format!("the server's is {} {side} this host's, give or take {within}", brief(apart));
    match apart > MAX_CLOCK_DIFFERENCE {
        false => Finding::good("clock", seen),
        true => Finding::unwise(
            "clock",
            seen,
            "locks go by the server's clock and stay safe, but cron on two hosts may fire one after the other: set the clocks by NTP, or make --at-least, or nine tenths of --every, longer than the difference",
        ),
    }
}

/// Parses the first number of a version, and the one after the first dot.
#[cfg(any(test, feature = "mysql", feature = "redis", feature = "etcd"))]
pub(crate) fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or_default());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::{Grade, Url};
    use super::*;

    #[test]
    fn a_connection_that_leaves_the_machine_needs_tls_that_verifies() {
        let wanted = |mode: &str| {
            let url = Url::parse(&format!(
                "x://db/x?sslmode={mode}&sslrootcert={}",
                if mode == "verify-full" { "a" } else { "" }
            ));
            Tls::take(&url.unwrap(), |_| None, Mode::Prefer, Duration::ZERO).unwrap()
        };
        let grade = |mode: &str, version, distance| tls(Some(&wanted(mode)), version, distance).grade;
        assert_eq!(grade("prefer", None, Distance::Here), Grade::Good);
        assert_eq!(grade("prefer", None, Distance::Away), Grade::Unwise);
        assert_eq!(grade("prefer", Some("TLSv1.3"), Distance::Here), Grade::Good);
        assert_eq!(grade("prefer", Some("TLSv1.3"), Distance::Away), Grade::Unwise);
        assert_eq!(grade("require", Some("TLSv1.3"), Distance::Here), Grade::Unwise);
        assert_eq!(grade("verify-full", Some("TLSv1.3"), Distance::Away), Grade::Good);
        assert_eq!(tls(None, None, Distance::Away).grade, Grade::Unwise);
    }

    #[test]
    fn clocks_that_differ_by_more_than_a_second_are_unwise() {
        let (ms, trip) = (1000, Duration::from_millis(1));
        assert_eq!(difference(0, trip).grade, Grade::Good);
        assert_eq!(difference(-999 * ms, trip).grade, Grade::Good);
        let late = difference(-3_600_000 * ms, trip);
        assert_eq!((late.grade, late.seen.contains("1h behind this host's")), (Grade::Unwise, true), "{late:?}");
        assert!(difference(1_200 * ms, trip).seen.contains("1.2 s ahead of"));
    }

    #[cfg(feature = "http")]
    #[test]
    fn a_clock_that_tells_whole_seconds_agrees_within_its_second() {
        let grade = |server, here| difference_of_seconds(Timestamp(server), Timestamp(here)).grade;
        for (server, here, wanted) in [
            (5_000, 5_000, Grade::Good),
            (5_000, 5_999, Grade::Good),
            (5_000, 3_000, Grade::Unwise),
            (5_000, 8_000, Grade::Unwise),
        ] {
            assert_eq!(grade(server, here), wanted, "{server} {here}");
        }
    }

    #[test]
    fn a_slow_server_is_unwise() {
        assert_eq!(round_trip(Duration::from_millis(80)).grade, Grade::Good);
        assert_eq!(round_trip(Duration::from_secs(1)).grade, Grade::Unwise);
    }

    #[test]
    fn a_version_begins_with_two_numbers() {
        assert_eq!(version("10.11.6-MariaDB-1:10.11.6+maria"), (10, 11));
        assert_eq!(version("8.0.36"), (8, 0));
        assert_eq!(version("x"), (0, 0));
    }
}
