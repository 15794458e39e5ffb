//! Locks in Redis or Valkey: one server, one behind sentinels, or a cluster.
//!
//! The layout is the Java library's: the key `PREFIX:ENVIRONMENT:NAME` holds `ADDED:TIME@OWNER` and expires with the
//! lock. Every operation is one script on that key, by the server's clock. The keys `{KEY}:token` and `{KEY}:history`
//! lie beside it, and a cluster keeps them on the same node; if they are unavailable, the same script works without
//! them.
//!
//! A lock that Redis loses is free: if its key was flushed, evicted or lost in a failover, the next taking gets it.

mod answer;
mod check;
mod connect;
mod errors;
mod link;
mod listing;
mod route;
mod scan;

use std::slice;
use std::time::Duration;

use ::redis::Value;

use super::network::Authority;
use super::tls::Tls;
use super::{Access, Acquired, Backend, BackendError, Credentials, Kept, Opened, Remark, Reply, Url};
use crate::lock::{Claim, Closing, Locks, Purpose};
use answer::SHOWN;
use connect::{Call, Network};
use link::Terms;
use route::{Kind, Route};

/// Joins the parts of a script.
macro_rules! script {
    ($($part:literal),*) => { concat!(include_str!("common.lua"), $(include_str!($part)),*) };
}

const ACQUIRE: &str = script!("lock.lua", "history.lua", "acquire.lua");
const RENEW: &str = script!("lock.lua", "renew.lua");
const RELEASE: &str = script!("lock.lua", "history.lua", "release.lua", "close.lua");
const CLOSE: &str = script!("history.lua", "close.lua");
const LIST: &str = script!("list.lua");
const CHANGE: &str = script!("lock.lua", "change.lua");
const FORGET: &str = script!("lock.lua", "forget.lua");

/// A backend that keeps the locks in Redis.
pub(crate) struct Redis {
    network: Network,
    /// The part of a key before the lock's name.
    space: String,
    address: String,
    /// The owner of the last release that may have been executed. If it deleted the key, the server cannot tell a
    /// repeated release from one that comes too late.
    released: Option<String>,
    /// Set once a taking was sent, and so may have been recorded.
    asked: bool,
    /// Set if a taking may still be on its way, because its answer was lost.
    doubtful: bool,
    /// The error on the keys beside the lock: the user has no rights to them, and gets none while this process lives.
    denied: Option<BackendError>,
}

/// The kinds of keys beside a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    History,
    Token,
    /// A mark that an owner's takings are void; the owner follows in the key.
    Void,
}

impl Beside {
    fn key(self, lock: &str) -> String {
        format!("{{{lock}{}", self.suffix())
    }

    const fn suffix(self) -> &'static str {
        match self {
            Self::History => "}:history",
            Self::Token => "}:token",
            Self::Void => "}:void:",
        }
    }
}

impl Redis {
    /// Parses the URL, without connecting to the server.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        let authority = Authority::parse(url)?;
        let tls = route::tls(url)?;
        let (user, password) = (authority.user.clone(), authority.password.clone());
        let (route, database) = Route::of_url(url, authority)?;
        let prefix = url.take("prefix").unwrap_or_else(|| "job-lock".to_owned());
        let environment = url.take("environment").unwrap_or_else(|| "default".to_owned());
        if route.kind == Kind::Cluster && [&prefix, &environment].iter().any(|text| has_braces(text)) {
            return Err("has a brace in its prefix or environment, which has a special meaning on a cluster".to_owned());
        }
        url.nothing_left(&[["db", "prefix", "environment"].as_slice(), &Tls::PARAMETERS].concat())?;
        let terms = Terms {
            user,
            password: password.or_else(|| access.password.clone()),
            database,
            tls,
            timeout: Network::share(access.patience, route.places()),
        };
        let redis = Self {
            network: Network::new(route, terms, access.patience),
            space: format!("{prefix}:{environment}:"),
            address: url.public(),
            released: None,
            asked: false,
            doubtful: false,
            denied: None,
        };
        Ok(Opened::server(redis, url))
    }

    /// Runs a script on the lock's key and those beside it. If the server refuses the others, runs it on the lock's
    /// key alone and returns the reason.
    fn run(
        &mut self,
        script: &'static str,
        beside: &[Beside],
        claim: &Claim,
        more: &[&str],
    ) -> Result<(Value, Option<BackendError>), BackendError> {
        let key = self.key(claim.name.as_str())?;
        let arguments = [&[claim.owner.as_str()], more].concat();
        let alone = Call { script, keys: slice::from_ref(&key), arguments: &arguments };
        // A pause is not a run: it leaves no record and draws no token.
        if beside.is_empty() || self.denied.is_some() || claim.purpose == Purpose::Pause {
            let why = self.denied.clone().filter(|_| claim.purpose == Purpose::Run);
            return Ok((self.network.run(&alone)?, why));
        }
        let mut keys = vec![key.clone()];
        keys.extend(beside.iter().map(|beside| match beside {
            Beside::Void => beside.key(&key) + claim.owner.as_str(),
            _ => beside.key(&key),
        }));
        let refusal = match self.network.run(&Call { keys: &keys, ..alone })? {
            Value::ServerError(refusal) => refusal,
            answer => return Ok((answer, None)),
        };
        let answer = self.network.run(&alone)?;
        let why = self.no_history(&key, &errors::of_answer(&refusal).message);
        if errors::code(&refusal) == "NOPERM" {
            self.denied = Some(why.clone());
        }
        Ok((answer, Some(why)))
    }

    /// Closes a record by itself: while a slot is moving, the lock and the keys beside it may be on two nodes.
    fn close(&mut self, claim: &Claim, more: &[&str]) -> Result<Value, BackendError> {
        let history = Beside::History.key(&self.key(claim.name.as_str())?);
        let arguments = [&[claim.owner.as_str()], more].concat();
        // The first key decides where the script runs; the second is the history.
        let call = Call { script: CLOSE, keys: &[history.clone(), history], arguments: &arguments };
        self.network.run_unless(&call, |_| false)
    }

    fn key(&self, name: &str) -> Result<String, BackendError> {
        if self.network.is_cluster() && has_braces(name) {
            return Err(BackendError::permanent(format!(
                "the lock's name `{name}` has a brace, which has a special meaning on a cluster"
            ))
            .hint("choose a name without { and }"));
        }
        Ok(format!("{}{name}", self.space))
    }

    fn no_history(&self, key: &str, why: &str) -> BackendError {
        errors::of_history(key, &self.space, why).named(&self.address)
    }

    fn kept(&self, answer: &Value) -> Result<Kept, BackendError> {
        match answer {
            Value::Int(1) => Ok(Kept::Kept),
            Value::Int(0) => Ok(Kept::Lost),
            other => Err(self.strange(other)),
        }
    }

    fn strange(&self, answer: &Value) -> BackendError {
        strange(&self.address, answer)
    }
}

fn strange(address: &str, answer: &Value) -> BackendError {
    let shown: String = format!("{answer:?}").chars().take(SHOWN).collect();
    BackendError::permanent(format!("backend {address}: not an answer to a script: {shown}")).ambiguous()
}

impl Backend for Redis {
    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.network.log_in_with(login);
        // What the last user was not allowed to do, this one may be.
        self.denied = None;
        true
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError> {
        let lease = millis(claim.lease);
        let record = match (claim.keep, self.asked) {
            (0, _) => "0",
            (_, false) => "1",
            // A search through all records takes the server longer than everything else in the script.
            (_, true) => "2",
        };
        self.asked = true;
        let (lease_text, record_and_name) = (lease.to_string(), format!("{record}{}", claim.name));
        let more = [lease_text.as_str(), record_and_name.as_str()];
        let beside = [Beside::History, Beside::Token, Beside::Void];
        let (answer, mut unrecorded) =
            self.run(ACQUIRE, &beside, claim, &more).inspect_err(|error| self.doubtful |= error.ambiguous)?;
        if answer == Value::Array(vec![Value::Int(2)]) {
            return Err(BackendError::given_up().named(&self.address));
        }
        let (acquired, failure) = answer::of_acquire(&answer, lease).ok_or_else(|| self.strange(&answer))?;
        if matches!(acquired, Acquired::Granted(_)) {
            self.released = None;
        }
        if let Some(failure) = failure {
            unrecorded = Some(self.no_history(&self.key(claim.name.as_str())?, &failure));
        }
        Ok(Reply { answer: acquired, remark: Remark { unrecorded, cut: None } })
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<Kept>, BackendError> {
        let (answer, _) = self.run(RENEW, &[], claim, &[&millis(claim.lease).to_string()])?;
        Ok(self.kept(&answer)?.into())
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, BackendError> {
        let (ended, hold, keep) = (claim.owner.ended(), millis(hold).to_string(), claim.keep.to_string());
        let mark = match (closing == Closing::GivenUp || self.doubtful, self.asked) {
            (true, _) => "1",
            // A command released the lock by its handle; the run has to learn of it.
            (false, false) => "2",
            (false, true) => "",
        };
        let beside: &[Beside] = match mark.is_empty() && claim.keep > 0 {
            true => &[Beside::History],
            false => &[Beside::History, Beside::Void],
        };
        let closing = match closing {
            Closing::Ended { verdict, exit_code } => {
                let code = exit_code.map(|code| format!("\"exit_code\":{code},")).unwrap_or_default();
                format!("{code}\"outcome\":\"{}\"", verdict.as_str())
            }
            Closing::Unused | Closing::GivenUp => String::new(),
        };
        let more = [ended.as_str(), &hold, &keep, &closing, mark];
        let owner = claim.owner.as_str();
        let again = self.released.as_deref() == Some(owner);
        let answer = self.run(RELEASE, beside, claim, &more).inspect_err(|error| {
            if error.ambiguous {
                self.released = Some(owner.to_owned());
            }
        });
        let (answer, mut unrecorded) = answer?;
        if unrecorded.is_some() && self.network.is_cluster() && self.close(claim, &more).is_ok() {
            unrecorded = None;
        }
        let mut answer = self.kept(&answer)?;
        if answer == Kept::Kept {
            self.released = Some(owner.to_owned());
        } else if again {
            answer = Kept::Kept;
        }
        Ok(Reply { answer, remark: Remark { unrecorded, cut: None } })
    }

    fn disconnect(&mut self) {
        self.network.disconnect();
    }

    fn locks(&mut self, names: &[&str]) -> Result<Locks, BackendError> {
        self.list(names)
    }
}

/// Returns true for braces: on a cluster they mark the part of a key that decides its slot.
fn has_braces(text: &str) -> bool {
    text.contains(['{', '}'])
}

/// Converts to milliseconds, rounded up.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::backend::conformance::conformance!(servers::stores::RedisStore::new);

    #[test]
    fn a_server_whose_clock_was_ahead_has_forgotten_it_soon() {
        let server = servers::Redis::with_moving_clock();
        let store = servers::stores::RedisStore::of(server.database());
        let set = |offset: &str| server.set_clock(offset);
        crate::backend::conformance::a_server_whose_clock_was_ahead_has_forgotten_it_soon(&store, &set);
    }

    #[test]
    fn a_time_zone_is_no_clock_that_was_ahead() {
        crate::backend::conformance::a_time_zone_is_no_clock_that_was_ahead(&servers::stores::RedisStore::new());
    }

    #[test]
    fn every_run_of_a_long_history_is_listed() {
        crate::backend::conformance::every_run_of_a_long_history_is_listed(&servers::stores::RedisStore::new());
    }

    #[test]
    fn a_taking_that_was_given_up_takes_nothing() {
        let store = || servers::stores::RedisStore::new();
        crate::backend::conformance::a_taking_that_comes_after_it_was_given_back_takes_nothing(&store());
        crate::backend::conformance::a_taking_beside_its_giving_back_takes_nothing(&store());
    }

    fn open(text: &str) -> Result<Opened, String> {
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
        assert_eq!(open("redis://u:pw@db/2?prefix=p").unwrap().address, "redis://u@db/2?prefix=p");
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
            ("rediss://db?sslmode=prefer", "Redis does not support"),
            ("redis://db?sslmode=allow", "Redis does not support"),
            ("rediss://db?sslmode=disable", "redis://"),
            ("redis://db?sslmode=disable&sslrootcert=ca.pem", "certificates, and sslmode=disable"),
            ("redis+unix:///x?sslrootcert=ca.pem", "unix socket"),
        ] {
            let error = open(bad).err().unwrap_or_else(|| panic!("{bad} is accepted"));
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
