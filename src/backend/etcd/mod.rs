//! Locks in etcd, by the JSON gateway of its members.
//!
//! The layout is the Java library's: the key `PREFIX:ENVIRONMENT:NAME` holds `ADDED:TIME@OWNER`, and a lease of etcd's
//! deletes it. Every write is a transaction that holds if the key is as it was read, so that a request which arrives late
//! does nothing. The lease alone decides when the lock frees, and this host's clock how long a lease of ours lasts at least.
//! Each member of a cluster has a clock of its own, so that what they tell (`Date`) is only shown: the key
//! `PREFIX-state:ENVIRONMENT:NAME` beside the lock has the times that were meant.
//!
//! A taking is two round trips: a lease is granted, then the transaction binds the key to it. The id of each lease is
//! ours and is used once: revoking it makes a taking void whose answer was lost.

mod check;
mod errors;
mod layout;
mod leases;
mod listing;
mod look;
mod operations;
mod releasing;
mod renewing;
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
use layout::Space;
use leases::Granted;
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
    /// The leases that this process was granted and that may not have ended.
    granted: Vec<Granted>,
    /// The lease of the present hold, if it was that of the run before.
    held_by: Option<i64>,
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
            granted: Vec::new(),
            held_by: None,
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
            if seen.lock.is_some() && !seen.is_of(&claim.owner) {
                self.make_void()?;
                if let Some(state) = self.describe(&seen, clock)? {
                    return Ok(Acquired::Held(state).into());
                }
            }
            look = seen;
        }
        let granted = self.grant(claim.lease)?;
        let lease = granted.id;
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
        Ok(self.keep(claim)?.into())
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<Kept>, BackendError> {
        self.give_back(claim, hold, closing)
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
