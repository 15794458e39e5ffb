//! Locks in etcd, by the JSON gateway of its members.
//!
//! The layout is the Java library's: the key `PREFIX:ENVIRONMENT:NAME` holds `ADDED:TIME@OWNER`, and a lease of etcd's
//! deletes it. Every write is a transaction that holds if the key is as it was read, so that a request which arrives late
//! does nothing. A job is protected by the lease alone; the key `PREFIX-state:ENVIRONMENT:NAME` beside it has the exact
//! times, since a lease counts in seconds and ends late. They decide only when a lock frees whose job has ended.
//!
//! A taking is two round trips: a lease is granted, then the transaction binds the key to it. The id of each lease is
//! ours and is used once: revoking it makes a taking void whose answer was lost.

mod check;
mod errors;
mod layout;
mod listing;
mod look;
mod rights;
mod runs;
mod taking;
mod wire;

use std::time::Duration;

use super::http::Http;
use super::network::{Authority, Host};
use super::tls::Tls;
use super::{Access, Acquired, Backend, BackendError, Credentials, Kept, Opened, Remark, Reply, Url};
use crate::lock::{Claim, Closing, Locks, Purpose};
use layout::{Held, Space, State, taken, value};
use look::Look;
use rights::Keys;
use runs::Run;
use wire::Client;

/// The port of a host that names none.
const PORT: u16 = 2379;
/// Maximum number of transactions of one operation. Each may find that another client has just changed the lock.
const TRIES: usize = 8;

/// A backend that keeps the locks in etcd.
pub(crate) struct Etcd {
    client: Client,
    space: Space,
    patience: Duration,
    /// The lock that this process holds, as it was stored last.
    known: Option<(String, Look)>,
    /// The runs of this process: one, except in tests.
    runs: Vec<Run>,
    /// The leases of takings whose answers were lost: one of them may still be on its way.
    unclear: Vec<i64>,
    /// The keys to which the user has rights, as far as is known.
    permitted: Keys,
    /// The owner whose key this process has asked etcd to delete.
    freed: Option<String>,
    /// Set once a taking was refused. The next one looks first, and leaves no lease if it is refused again.
    refused: bool,
}

impl Etcd {
    /// Parses the URL, without connecting to the server.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        let Authority { user, password, hosts, path } = Authority::parse(url)?;
        if hosts.is_empty() {
            return Err("names no host; write etcd://HOST".to_owned());
        }
        if hosts.iter().any(Host::is_path) {
            return Err("names a path in the place of a host".to_owned());
        }
        if !path.is_empty() {
            return Err("has something after its hosts; ?prefix= and ?environment= name other keys".to_owned());
        }
        let tls = Tls::of_choice(url, "etcd")?;
        let prefix = url.take("prefix").unwrap_or_else(|| "shedlock".to_owned());
        let environment = url.take("environment").unwrap_or_else(|| "default".to_owned());
        if [&prefix, &environment].iter().any(|part| part.is_empty() || part.chars().any(char::is_control)) {
            return Err("has a prefix or an environment that is empty or has a control character".to_owned());
        }
        url.nothing_left(&[["prefix", "environment"].as_slice(), &Tls::PARAMETERS].concat())?;
        let password = password.or_else(|| access.password.clone());
        let login = match (user, password) {
            (Some(user), password) => Some((user, password.unwrap_or_default())),
            // A password from the environment is for a URL with a user.
            (None, _) => None,
        };
        let http = Http::new("etcd", hosts, PORT, tls, access.patience);
        let etcd = Self {
            client: Client::new(http, login),
            space: Space { prefix, environment },
            patience: access.patience,
            known: None,
            runs: Vec::new(),
            unclear: Vec::new(),
            permitted: Keys::Runs,
            freed: None,
            refused: false,
        };
        Ok(Opened::server(etcd, url))
    }

    fn forestalled(&mut self) -> BackendError {
        BackendError::transient("other clients keep changing the lock").of(&self.client.http().server())
    }
}

/// A request that changes nothing is never carried out too late.
fn only_read(error: BackendError) -> BackendError {
    BackendError { ambiguous: false, ..error }
}

impl Backend for Etcd {
    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.client.log_in_with(login)
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError> {
        let name = claim.name.as_str();
        let mut look = Look::default();
        if self.refused || claim.purpose == Purpose::Pause {
            let (seen, clock) = self.look(name)?;
            if seen.lock.is_some() && !seen.is_of(&claim.owner) && !seen.is_over(clock) {
                self.make_void()?;
                if let Some(state) = self.describe(&seen, clock)? {
                    return Ok(Acquired::Held(state).into());
                }
            }
            look = seen;
        }
        let granted = self.grant(claim.lease)?;
        let lease = granted.0;
        let taken = self.take(claim, look, granted).inspect_err(|error| {
            if error.ambiguous {
                self.unclear.push(lease);
            }
        })?;
        let (look, clock) = match taken {
            Ok(grant) => {
                let remark = Remark { unrecorded: self.unrecorded(claim), cut: None };
                return Ok(Reply { answer: Acquired::Granted(grant), remark });
            }
            Err(held) => held,
        };
        self.refused = true;
        self.make_void()?;
        let state = self.describe(&look, clock)?;
        // A lease that is left ends by itself.
        let _ = self.client.revoke(lease);
        match state {
            Some(state) => Ok(Acquired::Held(state).into()),
            None => Err(self.forestalled()),
        }
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<Kept>, BackendError> {
        let name = claim.name.as_str();
        let mut look = self.known_or_look(claim)?;
        let (lease, _, clock) = self.grant(claim.lease)?;
        let until = taken(claim, clock.now, None).until;
        for _ in 0..TRIES {
            if self.is_held_until(claim, &look, until, clock)? {
                // What was known of it may be out of date.
                look = self.look(name)?.0;
                if self.is_held_until(claim, &look, until, clock)? {
                    let _ = self.client.revoke(lease);
                    return Ok(Kept::Kept.into());
                }
            }
            let Some(lock) = look.lock.clone().filter(|lock| lock.is_of(claim.owner.as_str())) else {
                let _ = self.client.revoke(lease);
                return Ok(Kept::Lost.into());
            };
            let run = look.exact().and_then(|state| state.run);
            let since = lock.since.unwrap_or(clock.now);
            let state = State { owner: lock.owner.clone(), since, until, run };
            let operations = [
                (Keys::Locks, wire::put(&self.space.lock(name), &lock.value, lease)),
                (Keys::States, wire::put(&self.space.state(name), &state.to_json(), 0)),
            ];
            match self.write(name, &look, &operations)? {
                Err(now) => look = now,
                Ok(outcome) => {
                    let lock = Held { revision: outcome.revision, lease, ..lock };
                    self.known = Some((name.to_owned(), Look { lock: Some(lock), state: Some(state) }));
                    return Ok(Kept::Kept.into());
                }
            }
        }
        Err(self.forestalled())
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, BackendError> {
        self.make_void()?;
        let (name, ended) = (claim.name.as_str(), claim.owner.ended());
        let (mut look, mut clock) = self.look(name)?;
        for _ in 0..TRIES {
            let mut operations = self.closing(claim, &look, clock.now, closing)?;
            let records = !operations.is_empty();
            let held = look.lock.clone().filter(|lock| lock.is_of(claim.owner.as_str()));
            // Without the exact times nothing is left of a lock that was freed.
            let is_freed = || look.lock.is_none() && self.freed.as_deref() == Some(claim.owner.as_str());
            let kept = if look.was_released_by(&claim.owner) || self.permitted == Keys::Locks && is_freed() {
                return Ok(Kept::Kept.into());
            } else if let Some(lock) = &held {
                // The server's clock may have been set back after the taking.
                let since = lock.since.unwrap_or(clock.now).min(clock.now);
                let (run, until) = (look.exact().and_then(|state| state.run), since + hold);
                let is_held = until > clock.now && !hold.is_zero();
                let until = if is_held { until } else { clock.now };
                let state = State { owner: ended.clone(), since, until, run };
                let operation = match is_held {
                    false => {
                        self.freed = Some(claim.owner.as_str().to_owned());
                        wire::delete(&self.space.lock(name))
                    }
                    true => {
                        let (lease, _, _) = self.grant(until.since(clock.earliest))?;
                        wire::put(&self.space.lock(name), &value(since, &ended), lease)
                    }
                };
                operations.insert(0, (Keys::Locks, operation));
                operations.insert(1, (Keys::States, wire::put(&self.space.state(name), &state.to_json(), 0)));
                Kept::Kept
            } else if !records {
                return Ok(Kept::Lost.into());
            } else {
                Kept::Lost
            };
            let (written, unrecorded) = match self.write(name, &look, &operations) {
                // A server without space deletes, and writes nothing: the lock is freed, and its record stays open.
                Err(error) if errors::is_of_space(&error) && held.is_some() && hold.is_zero() => {
                    (self.write(name, &look, &operations[..1])?, Some(error))
                }
                answer => (answer?, None),
            };
            match written {
                Err(_) => (look, clock) = self.look(name)?,
                Ok(outcome) => {
                    self.known = None;
                    // The lock is free. What follows only tidies up.
                    if let Some(lock) = held {
                        let _ = self.client.revoke(lock.lease);
                    }
                    let _ = self.prune(claim, &outcome);
                    let has_ended = matches!(closing, Closing::Ended { .. });
                    let unrecorded = unrecorded.or_else(|| self.unrecorded(claim).filter(|_| has_ended));
                    return Ok(Reply { answer: kept, remark: Remark { unrecorded, cut: None } });
                }
            }
        }
        Err(self.forestalled())
    }

    fn disconnect(&mut self) {
        self.client.disconnect();
    }

    fn locks(&mut self, names: &[&str]) -> Result<Locks, BackendError> {
        self.list(names)
    }
}

#[cfg(test)]
mod tests {
    crate::backend::conformance::conformance!(servers::stores::EtcdStore::new);

    #[test]
    fn every_run_of_a_long_history_is_listed() {
        crate::backend::conformance::every_run_of_a_long_history_is_listed(&servers::stores::EtcdStore::new());
    }

    /// More than two pages of locks and of runs, and a page that is full at the end.
    #[test]
    fn a_long_list_is_complete_and_has_nothing_twice() {
        use base64::Engine;
        use base64::engine::general_purpose::STANDARD;
        use serde_json::json;
        use servers::stores::Store;

        use crate::lock::Wanted;

        let (store, client) = (servers::stores::EtcdStore::new(), servers::etcd().client());
        let environment = store.url().split_once("environment=").unwrap().1.to_owned();
        let time = "2026-01-31T18:00:00.000Z";
        let state = json!({"owner": "h:1:0", "since": time, "until": time, "run": 1}).to_string();
        let run = json!({"started_at": time}).to_string();
        let put = |key: String, value: &str| json!({"request_put": {"key": STANDARD.encode(key), "value": STANDARD.encode(value)}});
        let access = crate::backend::Access { patience: std::time::Duration::from_secs(20), ..Default::default() };
        let mut backend = crate::backend::from_url(&store.url(), &access).unwrap().backend;
        let mut written = 0;
        for count in [2_000, 4_000, 4_001] {
            let puts: Vec<_> = (written..count)
                .flat_map(|number: u32| {
                    let name = format!("{environment}:job-{number:04}");
                    let key = format!("shedlock-history:{name}\0{:020}\0h:1:0", 1);
                    [put(format!("shedlock-state:{name}"), &state), put(key, &run)]
                })
                .collect();
            puts.chunks(128).for_each(|puts| drop(client.ask("kv/txn", &json!({"success": puts}))));
            written = count;
            let names: Vec<String> = (0..count).map(|number| format!("job-{number:04}")).collect();
            let locks: Vec<String> = backend.locks(&[]).unwrap().locks.into_iter().map(|lock| lock.name).collect();
            assert_eq!(locks, names);
            let mut runs: Vec<String> =
                backend.runs(&Wanted::default()).unwrap().runs.iter().map(|run| run.name).collect();
            runs.sort();
            assert_eq!(runs, names);
            let newest = Wanted { limit: Some(3), ..Wanted::default() };
            assert_eq!(backend.runs(&newest).unwrap().runs.len(), 3);
        }
    }
}
