//! Locks in etcd, by the JSON gateway of its members.
//!
//! The layout is the Java library's: the key `PREFIX:ENVIRONMENT:NAME` holds `ADDED:TIME@OWNER`, and an etcd lease deletes it.
//! Every write is a transaction that holds if the key is as it was read, so that a request which arrives late does nothing. The
//! lease alone decides when the lock frees. This host's clock decides how long one of shedlock's leases lasts at least. Each
//! member of a cluster has a clock of its own, so that their `Date` is only shown: the key `PREFIX-state:ENVIRONMENT:NAME` beside
//! the lock has the exact times.
//!
//! An acquisition is two round trips: etcd grants a lease, then the transaction binds the key to it. shedlock chooses the id of
//! each lease and uses it once: revoking it undoes an acquisition whose answer was lost.
//!
//! Nothing here decides by a server's `Date` whether a lock is free.

mod acquire;
mod admin;
mod check;
mod errors;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod granted_leases;
mod layout;
mod leases;
mod listing;
mod lock_access;
mod operations;
mod release;
mod renew;
mod rights;
mod runs;
mod snapshot;
mod wire;

use std::time::Duration;

use super::{Access, Backend, Credentials, Opened, Url};
use crate::backend::net::http::Http;
use crate::backend::net::network::{Authority, Host};
use crate::backend::net::tls::Tls;
use crate::lock::{Acquired, BackendError, Remark, Reply, StillHeld};
use crate::lock::{Claim, Closing, Locks, Purpose};
use granted_leases::{GrantedLease, RecordedRun};
use layout::KeySpace;
use operations::Keys;
use snapshot::Snapshot;
use wire::Client;

/// The port of a host that names none.
const PORT: u16 = 2379;
/// Maximum number of transactions of one operation. Each may find that another client has just changed the lock.
const MAX_TRANSACTIONS: usize = 8;

/// Keeps locks in etcd.
pub(crate) struct Etcd {
    client: Client,
    space: KeySpace,
    timeout: Duration,
    /// The cached state of the lock that this process holds: its name, and the keys as they were stored last.
    cached: Option<(String, Snapshot)>,
    /// The leases that this process was granted and that may not have ended.
    granted_leases: Vec<GrantedLease>,
    /// The lease of the present hold, if that is the lease under which the job ran.
    hold_lease: Option<i64>,
    /// The runs of this process: one, except in tests.
    runs: Vec<RecordedRun>,
    /// The leases of acquisitions whose answers were lost: one of them may still be on its way.
    ambiguous_leases: Vec<i64>,
    /// The keys to which the user has rights, as far as is known.
    permitted_keys: Keys,
    /// The owner whose key this process has asked etcd to delete.
    freed_owner: Option<String>,
    /// Set once an acquisition was refused. The next one reads first, and leaves no lease if it is refused again.
    was_refused: bool,
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
        let tls = Tls::from_parameters(url, "etcd", access.timeout)?;
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
        let http = Http::new("etcd", hosts, PORT, tls, access.timeout).noting(&access.contact).by(&access.detour);
        let etcd = Self::new(Client::new(http, login), KeySpace { prefix, environment }, access.timeout);
        Ok(Opened::server(etcd, url, access))
    }

    fn new(client: Client, space: KeySpace, timeout: Duration) -> Self {
        Self {
            client,
            space,
            timeout,
            cached: None,
            granted_leases: Vec::new(),
            hold_lease: None,
            runs: Vec::new(),
            ambiguous_leases: Vec::new(),
            permitted_keys: Keys::Runs,
            freed_owner: None,
            was_refused: false,
        }
    }

    fn too_many_conflicts(&mut self) -> BackendError {
        BackendError::transient("other clients keep changing the lock").naming(&self.client.http().server())
    }
}

/// Marks the error of a read as unambiguous: a request that changes nothing is never carried out too late.
fn without_ambiguity(error: BackendError) -> BackendError {
    BackendError { ambiguous: false, ..error }
}

impl Backend for Etcd {
    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.client.log_in_with(login)
    }

    fn acquire(&mut self, claim: &Claim) -> Result<Reply<Acquired>, BackendError> {
        let name = claim.name.as_str();
        let mut snapshot = Snapshot::default();
        if self.was_refused || claim.purpose == Purpose::Pause {
            let (seen, clock) = self.read_lock(name)?;
            if seen.lock.is_some() && !seen.is_of(&claim.owner) {
                self.undo_lost_acquisitions()?;
                if let Some(state) = self.describe(&seen, clock)? {
                    return Ok(Acquired::Held(state).into());
                }
            }
            snapshot = seen;
        }
        let granted = self.grant(claim.lease)?;
        let lease = granted.id;
        let acquisition = self.acquire_lock(claim, snapshot, granted).inspect_err(|error| {
            if error.ambiguous {
                self.ambiguous_leases.push(lease);
            }
        })?;
        let (snapshot, clock) = match acquisition {
            Ok(grant) => {
                let remark = Remark { unrecorded: self.unrecorded(claim), cut: None };
                return Ok(Reply { answer: Acquired::Granted(grant), remark });
            }
            Err(held) => held,
        };
        self.was_refused = true;
        self.undo_lost_acquisitions()?;
        let state = self.describe(&snapshot, clock)?;
        // A lease that is left ends by itself.
        let _ = self.client.revoke(lease);
        match state {
            Some(state) => Ok(Acquired::Held(state).into()),
            None => Err(self.too_many_conflicts()),
        }
    }

    fn renew(&mut self, claim: &Claim) -> Result<Reply<StillHeld>, BackendError> {
        Ok(self.renew_lock(claim)?.into())
    }

    fn release(&mut self, claim: &Claim, hold: Duration, closing: Closing) -> Result<Reply<StillHeld>, BackendError> {
        self.release_lock(claim, hold, closing)
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
    crate::backend::testing::conformance::conformance!(
        #[ignore = "needs a server: --include-ignored"]
        servers::stores::EtcdStore::new
    );

    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn every_run_of_a_long_history_is_listed() {
        crate::backend::testing::conformance::every_run_of_a_long_history_is_listed(&servers::stores::EtcdStore::new());
    }

    /// Lists more than two pages of locks and of runs, and a page that is full at the end.
    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn a_long_list_is_complete_and_has_nothing_twice() {
        use base64::Engine;
        use base64::engine::general_purpose::STANDARD;
        use serde_json::json;
        use servers::stores::Store;

        use crate::lock::RunQuery;

        let (store, client) = (servers::stores::EtcdStore::new(), servers::etcd().client());
        let environment = store.url().split_once("environment=").unwrap().1.to_owned();
        let time = "2026-01-31T18:00:00.000Z";
        let state = json!({"owner": "h:1:0", "since": time, "until": time, "run": 1}).to_string();
        let run = json!({"started_at": time}).to_string();
        let put = |key: String, value: &str| json!({"request_put": {"key": STANDARD.encode(key), "value": STANDARD.encode(value)}});
        let access = crate::backend::Access { timeout: std::time::Duration::from_secs(20), ..Default::default() };
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
                backend.runs(&RunQuery::default()).unwrap().runs.iter().map(|run| run.name).collect();
            runs.sort();
            assert_eq!(runs, names);
            let newest = RunQuery { limit: Some(3), ..RunQuery::default() };
            assert_eq!(backend.runs(&newest).unwrap().runs.len(), 3);
        }
    }

    /// `status --watch` lists again and again.
    #[test]
    #[ignore = "needs a server: --include-ignored"]
    fn what_was_listed_before_does_not_count() {
        use super::{Authority, Client, Etcd, Http, KeySpace, PORT};
        use crate::backend::Admin;
        use crate::lock::RunQuery;

        let hosts = Authority::parse(&crate::backend::Url::parse(&servers::etcd().url()).unwrap()).unwrap().hosts;
        let timeout = std::time::Duration::from_secs(20);
        let space = KeySpace { prefix: "watched".to_owned(), environment: "default".to_owned() };
        let mut etcd = Etcd::new(Client::new(Http::new("etcd", hosts, PORT, None, timeout), None), space, timeout);
        etcd.client.http.fill_list();
        assert!(etcd.list(&[]).is_ok());
        etcd.client.http.fill_list();
        assert!(etcd.runs(&RunQuery::default()).is_ok());
    }
}
