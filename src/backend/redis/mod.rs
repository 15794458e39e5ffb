//! Locks in Redis or Valkey: one server, one behind sentinels, or a cluster.
//!
//! The layout is the Java library's: the key `PREFIX:ENVIRONMENT:NAME` holds `ADDED:TIME@OWNER` and expires with the
//! lock. Every operation is one script on that key, by the server's clock. The keys `{KEY}:token` and `{KEY}:history`
//! lie beside it, and a cluster keeps them on the same node; if they are unavailable, the same script works without
//! them.
//!
//! A lock that Redis loses is free: if its key was flushed, evicted or lost in a failover, the next acquisition gets it.
//!
//! The rules of a lock are in the scripts; nothing here decides whether a lock is free.

mod admin;
#[cfg(test)]
mod admin_tests;
mod bulk_read;
mod check;
mod client;
mod connection;
mod decode;
mod errors;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod listing;
mod resp;
mod scripts;
mod server_list;

use std::slice;
use std::time::Duration;

use ::redis::Value;

use super::{Access, Backend, Credentials, Opened, Url};
use crate::backend::net::network::Authority;
use crate::backend::net::tls::Tls;
use crate::lock::{Acquired, BackendError, Remark, Reply, StillHeld};
use crate::lock::{Claim, Closing, Locks, Purpose};
use client::{Call, Client};
use connection::ConnectionSettings;
use decode::SHOWN_CHARACTERS;
use scripts::{ACQUIRE, CLOSE, RELEASE, RENEW};
use server_list::{ServerKind, ServerList};

/// Keeps locks in Redis.
pub(crate) struct Redis {
    client: Client,
    /// The part of a key before the lock's name.
    key_prefix: String,
    address: String,
    /// The owner of the last release that may have been executed. If it deleted the key, the server cannot tell a
    /// repeated release from one that comes too late.
    released: Option<String>,
    /// Set once an acquisition was sent, and so may have been recorded.
    has_tried: bool,
    /// Set if an acquisition may still be on its way, because its answer was lost.
    is_in_doubt: bool,
    /// The error on the keys beside the lock: the user has no rights to them, and gets none while this process lives.
    history_denied: Option<BackendError>,
}

/// Names the kinds of keys that lie beside a lock's own key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CompanionKey {
    History,
    Token,
    /// A mark that an owner's acquisitions are void; the owner follows in the key.
    Void,
}

impl CompanionKey {
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
        let tls = server_list::tls(url, access.timeout)?;
        let (user, password) = (authority.user.clone(), authority.password.clone());
        let (server_list, database) = ServerList::from_url(url, authority)?;
        let prefix = url.take("prefix").unwrap_or_else(|| "job-lock".to_owned());
        let environment = url.take("environment").unwrap_or_else(|| "default".to_owned());
        if server_list.kind == ServerKind::Cluster && [&prefix, &environment].iter().any(|text| has_braces(text)) {
            return Err("has a brace in its prefix or environment, which has a special meaning on a cluster".to_owned());
        }
        url.nothing_left(&[["db", "prefix", "environment"].as_slice(), &Tls::PARAMETERS].concat())?;
        let settings = ConnectionSettings {
            user,
            password: password.or_else(|| access.password.clone()),
            database,
            tls,
            timeout: Client::time_per_server(access.timeout, server_list.server_count()),
            contact: access.contact.clone(),
            detour: access.detour.clone(),
        };
        let redis = Self {
            client: Client::new(server_list, settings, access.timeout),
            key_prefix: format!("{prefix}:{environment}:"),
            address: url.public(),
            released: None,
            has_tried: false,
            is_in_doubt: false,
            history_denied: None,
        };
        Ok(Opened::server(redis, url, access))
    }

    /// Runs a script on the lock's key and those beside it, in the order that [`scripts`] says. If the server refuses the
    /// others, runs it on the lock's key alone and returns the reason.
    fn run(
        &mut self,
        script: &'static str,
        companions: &[CompanionKey],
        claim: &Claim,
        more: &[&str],
    ) -> Result<(Value, Option<BackendError>), BackendError> {
        let key = self.key(claim.name.as_str())?;
        let arguments = [&[claim.owner.as_str()], more].concat();
        let lock_only = Call { script, keys: slice::from_ref(&key), arguments: &arguments };
        // A pause is not a run: it leaves no record and draws no token.
        if companions.is_empty() || self.history_denied.is_some() || claim.purpose == Purpose::Pause {
            let reason = self.history_denied.clone().filter(|_| claim.purpose == Purpose::Run);
            return Ok((self.client.run(&lock_only)?, reason));
        }
        let mut keys = vec![key.clone()];
        keys.extend(companions.iter().map(|companion| match companion {
            CompanionKey::Void => companion.key(&key) + claim.owner.as_str(),
            _ => companion.key(&key),
        }));
        let refusal = match self.client.run(&Call { keys: &keys, ..lock_only })? {
            Value::ServerError(refusal) => refusal,
            answer => return Ok((answer, None)),
        };
        let answer = self.client.run(&lock_only)?;
        let reason = self.history_error(&key, &errors::from_answer(&refusal).message);
        if errors::code(&refusal) == "NOPERM" {
            self.history_denied = Some(reason.clone());
        }
        Ok((answer, Some(reason)))
    }

    /// Closes a record by itself: while a slot is moving, the lock and the keys beside it may be on two nodes.
    fn close(&mut self, claim: &Claim, more: &[&str]) -> Result<Value, BackendError> {
        let history = CompanionKey::History.key(&self.key(claim.name.as_str())?);
        let arguments = [&[claim.owner.as_str()], more].concat();
        // The first key decides where the script runs; the second is the history.
        let call = Call { script: CLOSE, keys: &[history.clone(), history], arguments: &arguments };
        self.client.run_unless(&call, |_| false)
    }

    fn key(&self, name: &str) -> Result<String, BackendError> {
        if self.client.is_cluster() && has_braces(name) {
            return Err(BackendError::permanent(format!(
                "the lock's name `{name}` has a brace, which has a special meaning on a cluster"
            ))
            .hint("choose a name without { and }"));
        }
        Ok(format!("{}{name}", self.key_prefix))
    }

    fn history_error(&self, key: &str, reason: &str) -> BackendError {
        errors::from_history(key, &self.key_prefix, reason).named(&self.address)
    }

    fn decode_still_held(&self, answer: &Value) -> Result<StillHeld, BackendError> {
        match answer {
            Value::Int(1) => Ok(StillHeld::Held),
            Value::Int(0) => Ok(StillHeld::Lost),
            other => Err(self.unexpected_answer(other)),
        }
    }

    fn unexpected_answer(&self, answer: &Value) -> BackendError {
        unexpected_answer(&self.address, answer)
    }
}

fn unexpected_answer(address: &str, answer: &Value) -> BackendError {
    let shown: String = format!("{answer:?}").chars().take(SHOWN_CHARACTERS).collect();
    BackendError::permanent(format!("backend {address}: not an answer to a script: {shown}")).ambiguous()
}

impl Backend for Redis {
    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.client.log_in_with(login);
        // The new user may have the rights that the last one lacked.
        self.history_denied = None;
        true
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError> {
        let lease = millis(claim.lease);
        let record = match (claim.keep, self.has_tried) {
            (0, _) => "0",
            (_, false) => "1",
            // A search through all records takes the server longer than everything else in the script.
            (_, true) => "2",
        };
        self.has_tried = true;
        let (lease_text, record_and_name) = (lease.to_string(), format!("{record}{}", claim.name));
        let more = [lease_text.as_str(), record_and_name.as_str()];
        let companions = [CompanionKey::History, CompanionKey::Token, CompanionKey::Void];
        let (answer, mut unrecorded) =
            self.run(ACQUIRE, &companions, claim, &more).inspect_err(|error| self.is_in_doubt |= error.ambiguous)?;
        if answer == Value::Array(vec![Value::Int(2)]) {
            return Err(BackendError::undone().named(&self.address));
        }
        let (acquired, failure) =
            decode::decode_acquisition(&answer, lease).ok_or_else(|| self.unexpected_answer(&answer))?;
        if matches!(acquired, Acquired::Granted(_)) {
            self.released = None;
        }
        if let Some(failure) = failure {
            unrecorded = Some(self.history_error(&self.key(claim.name.as_str())?, &failure));
        }
        Ok(Reply { answer: acquired, remark: Remark { unrecorded, cut: None } })
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<StillHeld>, BackendError> {
        let (answer, _) = self.run(RENEW, &[], claim, &[&millis(claim.lease).to_string()])?;
        Ok(self.decode_still_held(&answer)?.into())
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<StillHeld>, BackendError> {
        let (ended, hold, keep) = (claim.owner.ended(), millis(hold).to_string(), claim.keep.to_string());
        let mark = match (closing == Closing::Undone || self.is_in_doubt, self.has_tried) {
            (true, _) => "1",
            // A command released the lock by its handle; the run has to learn of it.
            (false, false) => "2",
            (false, true) => "",
        };
        let companions: &[CompanionKey] = match mark.is_empty() && claim.keep > 0 {
            true => &[CompanionKey::History],
            false => &[CompanionKey::History, CompanionKey::Void],
        };
        let closing = match closing {
            Closing::Ended { outcome, exit_code } => {
                let code = exit_code.map(|code| format!("\"exit_code\":{code},")).unwrap_or_default();
                format!("{code}\"outcome\":\"{}\"", outcome.as_str())
            }
            Closing::Unused | Closing::Undone => String::new(),
        };
        let more = [ended.as_str(), &hold, &keep, &closing, mark];
        let owner = claim.owner.as_str();
        let is_repeated = self.released.as_deref() == Some(owner);
        let answer = self.run(RELEASE, companions, claim, &more).inspect_err(|error| {
            if error.ambiguous {
                self.released = Some(owner.to_owned());
            }
        });
        let (answer, mut unrecorded) = answer?;
        if unrecorded.is_some() && self.client.is_cluster() && self.close(claim, &more).is_ok() {
            unrecorded = None;
        }
        let mut answer = self.decode_still_held(&answer)?;
        if answer == StillHeld::Held {
            self.released = Some(owner.to_owned());
        } else if is_repeated {
            answer = StillHeld::Held;
        }
        Ok(Reply { answer, remark: Remark { unrecorded, cut: None } })
    }

    fn disconnect(&mut self) {
        self.client.disconnect();
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

    crate::backend::testing::conformance::conformance!(
        #[ignore = "needs a server: --include-ignored"]
        servers::stores::RedisStore::new
    );

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn a_server_whose_clock_was_ahead_has_forgotten_it_soon() {
        let server = servers::Redis::with_moving_clock();
        let store = servers::stores::RedisStore::of(server.database());
        let set = |offset: &str| server.set_clock(offset);
        crate::backend::testing::conformance::a_server_whose_clock_was_ahead_has_forgotten_it_soon(&store, &set);
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn a_time_zone_is_no_clock_that_was_ahead() {
        crate::backend::testing::conformance::a_time_zone_is_no_clock_that_was_ahead(
            &servers::stores::RedisStore::new(),
        );
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn every_run_of_a_long_history_is_listed() {
        crate::backend::testing::conformance::every_run_of_a_long_history_is_listed(&servers::stores::RedisStore::new());
    }

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn an_acquisition_that_was_given_up_takes_nothing() {
        let store = || servers::stores::RedisStore::new();
        crate::backend::testing::conformance::an_acquisition_that_comes_after_it_was_given_back_takes_nothing(&store());
        crate::backend::testing::conformance::an_acquisition_beside_its_giving_back_takes_nothing(&store());
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
        for (bad, reason) in [
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
            assert!(error.contains(reason), "{bad}: {error}");
        }
    }
}
