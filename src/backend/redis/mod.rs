//! Locks in Redis or Valkey: one server, one behind sentinels, or a cluster.
//!
//! The layout is the Java library's: the key `PREFIX:ENVIRONMENT:NAME` holds `ADDED:TIME@OWNER` and expires with the
//! lock. Every operation is one script on that key, by the server's clock. What else a lock may come to have is to be
//! under `{KEY}:…`, which a cluster keeps on the same node.
//!
//! What Redis forgets is not locked: whoever takes a lock whose key was flushed, evicted or lost in a failover gets it.

mod connect;
mod link;
mod trouble;

use std::time::Duration;

use ::redis::Value;

use super::network::{Authority, Host};
use super::tls::{Mode, Tls};
use super::{Access, Acquired, Backend, FOR_EVER, Kept, Pace, Trouble, Url};
use crate::clock::Timestamp;
use crate::lock::{Claim, Closing, Grant, Record};
use connect::{Call, Network, Route};
use link::Terms;

const ACQUIRE: &str = concat!(include_str!("common.lua"), include_str!("acquire.lua"));
const RENEW: &str = concat!(include_str!("common.lua"), include_str!("renew.lua"));
const RELEASE: &str = concat!(include_str!("common.lua"), include_str!("release.lua"));

/// How much of a value is shown that is not of our form.
const SHOWN: usize = 255;

/// Locks in Redis.
pub(crate) struct Redis {
    network: Network,
    /// What stands before a lock's name in its key.
    space: String,
    address: String,
    /// The owner of the last release that may have been carried out: if it deleted the key, the server cannot tell a
    /// release that is repeated from one that comes too late.
    released: Option<String>,
}

impl Redis {
    /// Checks the URL, without reaching for the server.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Box<dyn Backend>, String> {
        let authority = Authority::parse(url)?;
        let tls = tls(url)?;
        let (route, database) = route(url, &authority)?;
        let prefix = url.take("prefix").unwrap_or_else(|| "job-lock".to_owned());
        let environment = url.take("environment").unwrap_or_else(|| "default".to_owned());
        if matches!(route, Route::Cluster(_)) && [&prefix, &environment].iter().any(|text| has_braces(text)) {
            return Err(
                "has a brace in its prefix or environment, which has a meaning of its own on a cluster".to_owned()
            );
        }
        url.nothing_left(&[["db", "prefix", "environment"].as_slice(), &Tls::PARAMETERS].concat())?;
        let servers = match &route {
            Route::Servers(hosts) | Route::Cluster(hosts) => hosts.len(),
            Route::Sentinels { hosts, .. } => hosts.len() + 1,
        };
        let terms = Terms {
            user: authority.user,
            password: authority.password.or_else(|| access.password.clone()),
            database,
            tls,
            timeout: Network::share(access.patience, servers),
        };
        Ok(Box::new(Self {
            network: Network::new(route, terms),
            space: format!("{prefix}:{environment}:"),
            address: url.public(),
            released: None,
        }))
    }

    fn run(&mut self, script: &'static str, claim: &Claim, more: &[&str]) -> Result<Value, Trouble> {
        let name = claim.name.as_str();
        if self.network.is_cluster() && has_braces(name) {
            return Err(Trouble::lasting(format!(
                "the lock's name `{name}` has a brace, which has a meaning of its own on a cluster"
            ))
            .hint("choose a name without { and }"));
        }
        let key = format!("{}{name}", self.space);
        let arguments = [&[claim.owner.as_str()], more].concat();
        self.network.run(&Call { script, key: &key, arguments: &arguments })
    }

    fn kept(&self, answer: &Value) -> Result<Kept, Trouble> {
        match answer {
            Value::Int(1) => Ok(Kept::Kept),
            Value::Int(0) => Ok(Kept::Lost),
            other => Err(self.strange(other)),
        }
    }

    fn strange(&self, answer: &Value) -> Trouble {
        let shown: String = format!("{answer:?}").chars().take(SHOWN).collect();
        Trouble::lasting(format!("backend {}: not an answer to a script: {shown}", self.address)).unclear()
    }
}

impl Backend for Redis {
    fn acquire(&mut self, claim: &Claim) -> Result<Acquired, Trouble> {
        let lease = millis(claim.lease);
        let answer = self.run(ACQUIRE, claim, &[&lease.to_string()])?;
        let acquired = read(&answer, lease).ok_or_else(|| self.strange(&answer))?;
        if matches!(acquired, Acquired::Granted(_)) {
            self.released = None;
        }
        Ok(acquired)
    }

    fn renew(&mut self, claim: &Claim) -> Result<Kept, Trouble> {
        let answer = self.run(RENEW, claim, &[&millis(claim.lease).to_string()])?;
        self.kept(&answer)
    }

    fn release(&mut self, claim: &Claim, hold: Duration, _: Closing) -> Result<Kept, Trouble> {
        let ended = claim.owner.ended();
        let answer = self.run(RELEASE, claim, &[&ended, &millis(hold).to_string()]);
        let owner = claim.owner.as_str();
        let again = self.released.as_deref() == Some(owner);
        match answer.and_then(|answer| self.kept(&answer)) {
            Ok(Kept::Lost) if again => Ok(Kept::Kept),
            Ok(Kept::Lost) => Ok(Kept::Lost),
            Ok(Kept::Kept) => {
                self.released = Some(owner.to_owned());
                Ok(Kept::Kept)
            }
            Err(trouble) => {
                if trouble.unclear {
                    self.released = Some(owner.to_owned());
                }
                Err(trouble)
            }
        }
    }

    fn disconnect(&mut self) {
        self.network.disconnect();
    }

    fn pace(&self) -> Pace {
        Pace { first: Duration::from_millis(20), longest: Duration::from_millis(500) }
    }

    fn address(&self) -> &str {
        &self.address
    }
}

/// Which servers the URL means, and which of their databases.
fn route(url: &Url, authority: &Authority) -> Result<(Route, i64), String> {
    let scheme = url.scheme();
    let database = url.take("db");
    let hosts = authority.hosts.clone();
    if scheme == "redis+unix" {
        if !hosts.is_empty() || authority.path.is_empty() {
            return Err("names no socket; write redis+unix:///PATH".to_owned());
        }
        let socket = Host { name: format!("/{}", authority.path), port: None };
        return Ok((Route::Servers(vec![socket]), number(database.as_deref())?));
    }
    if hosts.is_empty() {
        return Err(format!("names no host; write {scheme}://HOST"));
    }
    if hosts.iter().any(Host::is_path) {
        return Err("has a path for a host; write redis+unix:///PATH for a socket".to_owned());
    }
    match scheme {
        "redis-sentinel" => {
            let master = authority.path.clone();
            if master.is_empty() {
                return Err("names no master; write redis-sentinel://HOST,HOST/MASTER".to_owned());
            }
            Ok((Route::Sentinels { hosts, master }, number(database.as_deref())?))
        }
        "redis-cluster" => {
            if !matches!(authority.path.as_str(), "" | "0") || database.is_some_and(|database| database != "0") {
                return Err("names a database, and a cluster has only one".to_owned());
            }
            Ok((Route::Cluster(hosts), 0))
        }
        _ => {
            let path = Some(authority.path.as_str()).filter(|path| !path.is_empty());
            if path.is_some() && database.is_some() {
                return Err("names the database twice, after the host and as db=".to_owned());
            }
            Ok((Route::Servers(hosts), number(path.or(database.as_deref()))?))
        }
    }
}

fn number(text: Option<&str>) -> Result<i64, String> {
    let Some(text) = text else { return Ok(0) };
    let number =
        text.parse::<u32>().map_err(|_| format!("has the database {text}; it is a number, mostly from 0 to 15"));
    number.map(i64::from)
}

/// Takes what the URL says of TLS.
fn tls(url: &Url) -> Result<Option<Tls>, String> {
    let scheme = url.scheme();
    let (secure, socket) = (scheme == "rediss", scheme == "redis+unix");
    let named = url.take("sslmode");
    let mode = if secure { Mode::VerifyFull } else { Mode::Disable };
    let mut tls = Tls::take(url, |key| named.clone().filter(|_| key == "sslmode"), mode)?;
    let with_files = tls.roots.is_some() || tls.identity.is_some();
    if named.is_none() && with_files {
        tls.mode = Mode::VerifyFull;
    }
    match tls.mode {
        Mode::Allow | Mode::Prefer => {
            Err("has an sslmode that leaves TLS to the server, which Redis cannot; write require or verify-full"
                .to_owned())
        }
        Mode::Disable if secure => Err("has sslmode=disable; write redis:// for a connection without TLS".to_owned()),
        Mode::Disable if with_files => Err("has certificates, and sslmode=disable".to_owned()),
        Mode::Disable => Ok(None),
        _ if socket => Err("wants TLS on a unix socket, which never leaves the machine".to_owned()),
        _ => Ok(Some(tls)),
    }
}

/// On a cluster braces say what of a key decides where it is kept.
fn has_braces(text: &str) -> bool {
    text.contains(['{', '}'])
}

/// Reads the answer to a taking.
fn read(answer: &Value, lease: u64) -> Option<Acquired> {
    let Value::Array(answer) = answer else { return None };
    match answer.as_slice() {
        [Value::Int(1), Value::Int(now)] => {
            let now = u64::try_from(*now).ok()?;
            Some(Acquired::Granted(Grant {
                locked_at: Timestamp(now),
                until: Timestamp(now.saturating_add(lease)),
                token: None,
            }))
        }
        [Value::Int(0), Value::Int(now), Value::Int(left), Value::BulkString(value)] => {
            Some(Acquired::Held(record(u64::try_from(*now).ok()?, *left, &String::from_utf8_lossy(value))))
        }
        _ => None,
    }
}

/// What there is to say of somebody else's lock.
fn record(now: u64, left: i64, value: &str) -> Record {
    // A key without an end has -1.
    let left = u64::try_from(left).ok();
    let ours = value.strip_prefix("ADDED:").and_then(|rest| rest.split_once('@'));
    let (since, owner) = ours.map_or((None, value), |(time, owner)| (Timestamp::parse(time), owner));
    Record {
        owner: owner.chars().take(SHOWN).collect(),
        since,
        until: left.map(|left| Timestamp(now.saturating_add(left))),
        left: left.map_or(FOR_EVER, Duration::from_millis),
    }
}

/// In milliseconds, rounded up.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::backend::conformance::conformance!(crate::servers::stores::RedisStore::new);

    fn open(text: &str) -> Result<Box<dyn Backend>, String> {
        Redis::open(&Url::parse(text).unwrap(), &Access::default())
    }

    #[test]
    fn a_url_names_servers_and_a_database() {
        for good in [
            "redis://db",
            "redis://u:p@db:1/2?prefix=p&environment=e",
            "redis://db1,db2:7?db=3",
            "redis+unix:///run/redis.sock?db=1",
            "redis+unix://:pw@/run/redis.sock",
            "rediss://db?sslrootcert=ca.pem&sslmode=verify-ca",
            "redis-sentinel://h1,h2:26380/main?db=4",
            "redis-cluster://h1,h2?sslmode=verify-full",
        ] {
            assert!(open(good).is_ok(), "{good}: {:?}", open(good).err());
        }
        assert_eq!(open("redis://u:pw@db/2?prefix=p").unwrap().address(), "redis://u@db/2?prefix=p");
    }

    #[test]
    fn tls_is_had_by_scheme_by_mode_or_by_naming_an_authority() {
        let mode = |text| tls(&Url::parse(text).unwrap()).unwrap().map(|tls| tls.mode);
        assert_eq!(mode("redis://db"), None);
        assert_eq!(mode("redis-cluster://db?sslmode=disable"), None);
        assert_eq!(mode("rediss://db"), Some(Mode::VerifyFull));
        assert_eq!(mode("redis-sentinel://db/m?sslmode=require"), Some(Mode::Require));
        assert_eq!(mode("redis://db?sslrootcert=ca.pem"), Some(Mode::VerifyFull));
        assert_eq!(mode("redis://db?sslcert=a&sslkey=b"), Some(Mode::VerifyFull));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (bad, why) in [
            ("redis:db", "no // after"),
            ("redis://", "names no host"),
            ("redis://db/x", "the database x"),
            ("redis://db/-1", "the database -1"),
            ("redis://db/1?db=2", "twice"),
            ("redis://db?table=x", "unknown parameter `table`"),
            ("redis://%2Frun%2Fsock", "redis+unix"),
            ("redis+unix://db/x", "names no socket"),
            ("redis+unix:///x?sslmode=require", "unix socket"),
            ("redis-sentinel://h1", "names no master"),
            ("redis-cluster://h1/1", "only one"),
            ("redis-cluster://h1?db=1", "only one"),
            ("redis-cluster://h1?prefix=a{b", "brace"),
            ("redis-cluster://h1?environment=a}b", "brace"),
            ("rediss://db?sslmode=prefer", "Redis cannot"),
            ("redis://db?sslmode=allow", "Redis cannot"),
            ("rediss://db?sslmode=disable", "redis://"),
            ("redis://db?sslmode=disable&sslrootcert=ca.pem", "certificates, and sslmode=disable"),
            ("redis+unix:///x?sslrootcert=ca.pem", "unix socket"),
        ] {
            let error = open(bad).err().unwrap_or_else(|| panic!("{bad} is accepted"));
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn a_value_says_who_and_since_when_if_it_is_of_our_form() {
        let java = record(1000, 500, "ADDED:2026-01-31T18:00:00.000Z@web1:0d5a@x");
        assert_eq!(java.owner, "web1:0d5a@x");
        assert_eq!(java.since, Timestamp::parse("2026-01-31T18:00:00.000Z"));
        assert_eq!((java.until, java.left), (Some(Timestamp(1500)), Duration::from_millis(500)));
        let odd = record(1000, -1, &"x".repeat(1000));
        assert_eq!((odd.owner.len(), odd.since, odd.until, odd.left), (255, None, None, FOR_EVER));
        assert_eq!(record(0, 1, "ADDED:soon").owner, "ADDED:soon");
    }
}
