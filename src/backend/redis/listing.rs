//! Lists of locks.
//!
//! Read-only users cannot run scripts; they get a listing by plain read commands, from the first server in the URL
//! that answers: only a script can tell a master from a replica.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::redis::{ServerError, Value, cmd, from_redis_value};

use super::bulk_read::VALUES_PER_READ;
use super::client::{Call, is_dispensable};
use super::decode::{decode_lock, decode_value};
use super::scripts::LIST;
use super::{CompanionKey, Redis, errors};
use crate::lock::{BackendError, Lock, LockState, Locks};
use crate::system::Timestamp;

impl Redis {
    /// Lists the locks of these names, or all of them. A free lock has no key; its token or its history shows that it
    /// exists.
    pub(crate) fn list(&mut self, names: &[&str]) -> Result<Locks, BackendError> {
        let names: Vec<&str> = names.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let mut listing = if names.is_empty() { self.list_all()? } else { self.list_named(&names)? };
        listing.locks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(listing)
    }

    /// Lists named locks, with one script if all keys are on one server.
    fn list_named(&mut self, names: &[&str]) -> Result<Locks, BackendError> {
        let keys = names.iter().map(|name| self.key(name)).collect::<Result<Vec<_>, _>>()?;
        if !self.client.is_cluster() || names.len() == 1 {
            let with_tokens: Vec<String> =
                keys.iter().cloned().chain(keys.iter().map(|key| CompanionKey::Token.key(key))).collect();
            let history_denied = self.history_denied.is_some();
            for keys in [with_tokens.as_slice(), keys.as_slice()].iter().skip(usize::from(history_denied)) {
                let call = Call { script: LIST, keys, arguments: &[&names.len().to_string()] };
                // The listing needs the tokens only to find free locks.
                let spare = |refusal: &ServerError| keys.len() > names.len() && is_dispensable(refusal);
                let answer = self.client.run_unless(&call, |refusal| errors::is_denied(refusal) || spare(refusal))?;
                if !matches!(answer, Value::ServerError(_)) {
                    return decode_list(&answer, names).ok_or_else(|| self.unexpected_answer(&answer));
                }
            }
        }
        let now = self.now()?;
        let tokens: Vec<String> = keys.iter().map(|key| CompanionKey::Token.key(key)).collect();
        let mut evidence: BTreeMap<String, Evidence> =
            names.iter().map(|name| ((*name).to_owned(), Evidence::None)).collect();
        let question = |key: &str| vec![cmd("GET").arg(key).clone()];
        self.client.read(&tokens, VALUES_PER_READ, question, |place, token| {
            if let [Value::BulkString(_)] = token.as_slice() {
                evidence.insert(names[place].to_owned(), Evidence::PastRun);
            }
            Ok(())
        })?;
        self.read_states(now, evidence)
    }

    fn list_all(&mut self) -> Result<Locks, BackendError> {
        let now = self.now()?;
        let mut evidence = BTreeMap::new();
        for key in self.client.find_keys(&self.key_prefix)? {
            if let Some(name) = key.strip_prefix(&self.key_prefix) {
                evidence.entry(name.to_owned()).or_insert(Evidence::None);
            } else if let Some(name) = self.companion_lock_name(&key, &[CompanionKey::Token, CompanionKey::History]) {
                evidence.insert(name.to_owned(), Evidence::PastRun);
            }
        }
        self.read_states(now, evidence)
    }

    /// Reads the locks of these names.
    fn read_states(&mut self, now: Timestamp, evidence: BTreeMap<String, Evidence>) -> Result<Locks, BackendError> {
        let evidence: Vec<(String, Evidence)> = evidence.into_iter().collect();
        let keys = evidence.iter().map(|(name, _)| self.key(name)).collect::<Result<Vec<_>, _>>()?;
        let question = |key: &str| vec![cmd("GET").arg(key).clone(), cmd("PTTL").arg(key).clone()];
        let mut locks = Vec::new();
        self.client.read(&keys, VALUES_PER_READ, question, |place, answer| {
            let (name, evidence) = &evidence[place];
            let state = match answer.first() {
                Some(Value::ServerError(refusal)) if errors::code(refusal) != "WRONGTYPE" => {
                    return Err(errors::from_answer(refusal).named(&self.address));
                }
                _ => decode_lock(now, &answer).or_else(|| (*evidence == Evidence::PastRun).then(free)),
            };
            locks.extend(state.map(|state| Lock { name: name.clone(), state }));
            Ok(())
        })?;
        Ok(Locks { now, locks })
    }

    /// Reads the server's clock. Afterwards the connection is to a server that can be written to, if the user may run
    /// scripts.
    pub(crate) fn now(&mut self) -> Result<Timestamp, BackendError> {
        let keys = [self.key_prefix.clone()];
        let call = Call { script: LIST, keys: &keys, arguments: &["0"] };
        let answer = self.client.run_unless(&call, errors::is_denied)?;
        if let Some(locks) = decode_list(&answer, &[]) {
            return Ok(locks.now);
        }
        let mut connection = self.client.connection()?;
        let answer = connection.ask_one(cmd("TIME"))?;
        self.client.put_back(connection);
        let time = from_redis_value::<(u64, u64)>(answer).ok();
        // A user without the right to TIME sees this host's clock; the time left is right all the same.
        Ok(time.map_or_else(Timestamp::now, |(seconds, micros)| {
            Timestamp(seconds.saturating_mul(1000).saturating_add(micros / 1000))
        }))
    }

    /// Returns the name of the lock that this key belongs to.
    pub(crate) fn companion_lock_name<'a>(&self, key: &'a str, kinds: &[CompanionKey]) -> Option<&'a str> {
        let rest = key.strip_prefix('{')?.strip_prefix(&self.key_prefix)?;
        kinds.iter().find_map(|kind| rest.strip_suffix(kind.suffix()))
    }
}

/// Says whether a lock without a key exists, and so is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// No key shows the lock: it may never have existed.
    None,
    /// The lock's token or its history is there.
    PastRun,
}

/// Returns the state of a free lock.
fn free() -> LockState {
    LockState { owner: String::new(), since: None, until: None, left: Duration::ZERO }
}

/// Decodes the answer of the script.
pub(crate) fn decode_list(answer: &Value, names: &[&str]) -> Option<Locks> {
    let Value::Array(answer) = answer else { return None };
    let [Value::Int(now), locks @ ..] = answer.as_slice() else { return None };
    let now = u64::try_from(*now).ok()?;
    let mut found = Vec::new();
    for (name, lock) in names.iter().zip(locks) {
        let Value::Array(lock) = lock else { return None };
        let state = match lock.as_slice() {
            [Value::BulkString(value), Value::Int(left), _] => {
                decode_value(now, *left, &String::from_utf8_lossy(value))
            }
            [_, _, Value::Int(1)] => free(),
            _ => continue,
        };
        found.push(Lock { name: (*name).to_owned(), state });
    }
    Some(Locks { now: Timestamp(now), locks: found })
}
