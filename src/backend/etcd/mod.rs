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
mod wire;

use std::time::Duration;

use serde_json::Value;

use super::http::Http;
use super::network::{Authority, Host};
use super::tls::{Mode, Tls};
use super::{Access, Acquired, Backend, BackendError, Kept, Opened, Remark, Reply, Url};
use crate::lock::{Claim, Closing, Grant, LockState, Locks, Purpose};
use crate::system::Timestamp;
use layout::{Held, Look, Space, State, seconds, taken, value};
use wire::{Client, Clock, Outcome, Part, Range};

/// The port of a host that names none.
const PORT: u16 = 2379;
/// Number of transactions of one operation that others may forestall.
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
    /// Set once a taking was refused. The next one looks first, and leaves no lease if it is refused again.
    refused: bool,
}

/// A run of this process, which has a record.
#[derive(Debug, Clone)]
struct Run {
    name: String,
    owner: String,
    /// The revision in the key of its record.
    revision: u64,
    since: Timestamp,
    /// The number of runs that are recorded, and the key of the oldest.
    all: u64,
    oldest: Option<Vec<u8>>,
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
        let tls = tls(url)?;
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
            refused: false,
        };
        Ok(Opened::server(etcd, url))
    }

    /// Reads a lock.
    fn look(&mut self, name: &str) -> Result<(Look, Clock), BackendError> {
        let outcome = self.client.transact(&[], &self.reading(name), &[]).map_err(only_read)?;
        self.seen(outcome)
    }

    fn reading(&self, name: &str) -> [Value; 2] {
        [wire::get(&self.space.lock(name)), wire::get(&self.space.state(name))]
    }

    /// Decodes the answer to `reading`.
    fn seen(&mut self, outcome: Outcome) -> Result<(Look, Clock), BackendError> {
        let mut ranges = outcome.ranges.into_iter();
        let mut first = || ranges.next().and_then(|range| range.entries.into_iter().next());
        let (lock, state) = (first(), first());
        let look = Look { lock: lock.map(Held::of), state: state.and_then(|entry| State::parse(&entry.value)) };
        Ok((look, outcome.clock))
    }

    /// Carries out the operations if the lock's key is as it was read; otherwise returns what it is now.
    fn write(&mut self, name: &str, look: &Look, operations: &[Value]) -> Result<Result<Outcome, Look>, BackendError> {
        let compare = [wire::is_at(&self.space.lock(name), look.revision())];
        let outcome = self.client.transact(&compare, operations, &self.reading(name))?;
        Ok(if outcome.succeeded { Ok(outcome) } else { Err(self.seen(outcome)?.0) })
    }

    /// Grants a lease for a lock. Returns its id, the revision of the store before the lock is written, and the time.
    fn grant(&mut self, duration: Duration) -> Result<(i64, u64, Clock), BackendError> {
        let random = getrandom::u64().map_err(|_| BackendError::transient("this host has no randomness"))?;
        let id = i64::try_from(random >> 1).unwrap_or(i64::MAX).max(1);
        let (revision, clock) = self.client.grant(id, seconds(duration))?;
        Ok((id, revision, clock))
    }

    /// Takes the lock with this lease if nobody holds it.
    fn take(
        &mut self,
        claim: &Claim,
        mut look: Look,
        (lease, revision, clock): (i64, u64, Clock),
    ) -> Result<Result<Grant, (Look, Clock)>, BackendError> {
        let name = claim.name.as_str();
        let is_run = claim.purpose == Purpose::Run;
        let mut state = taken(claim, clock.now, is_run.then_some(revision));
        let recorded = is_run && claim.keep > 0;
        for _ in 0..TRIES {
            if look.lock.is_some() && !look.is_of(&claim.owner) && !look.is_over(clock) {
                return Ok(Err((look, clock)));
            }
            // A pause is no run, and hides none.
            if !is_run {
                state.run = look.state.as_ref().and_then(|state| state.run);
            }
            let lock = value(state.since, claim.owner.as_str());
            let mut operations = vec![
                wire::put(&self.space.lock(name), &lock, lease),
                wire::put(&self.space.state(name), &state.to_json(), 0),
            ];
            operations.extend(self.former_run(claim, &look).map(|key| wire::delete(&key)));
            if recorded {
                let (from, to) = self.space.runs_of(name);
                let key = self.space.run(name, revision, claim.owner.as_str());
                operations.push(wire::put(&key, layout::begun(state.since).to_string().as_bytes(), 0));
                operations.push(wire::get_between(&from, &to, Part::FirstKeys(1)));
            }
            match self.write(name, &look, &operations)? {
                Err(now) => look = now,
                Ok(outcome) => {
                    self.note(claim, &state, lock, lease, revision, &outcome);
                    let token = is_run.then_some(outcome.revision);
                    return Ok(Ok(Grant { locked_at: state.since, until: state.since + claim.lease, token }));
                }
            }
        }
        Err(self.forestalled())
    }

    /// Returns the key of the record that an earlier taking by this owner left, whose answer was lost.
    fn former_run(&self, claim: &Claim, look: &Look) -> Option<Vec<u8>> {
        let owner = claim.owner.as_str();
        let stored = look.state.as_ref().filter(|state| state.owner == owner).and_then(|state| state.run);
        let revision = stored.or(self.run_of(claim).map(|run| run.revision))?;
        Some(self.space.run(claim.name.as_str(), revision, owner))
    }

    /// Returns what this process knows of the run of a claim.
    fn run_of(&self, claim: &Claim) -> Option<&Run> {
        self.runs.iter().find(|run| run.owner == claim.owner.as_str() && run.name == claim.name.as_str())
    }

    /// Remembers a lock that was taken.
    fn note(&mut self, claim: &Claim, state: &State, value: Vec<u8>, lease: i64, before: u64, outcome: &Outcome) {
        let (name, owner) = (claim.name.to_string(), claim.owner.as_str().to_owned());
        let held = Held { owner: owner.clone(), since: Some(state.since), value, revision: outcome.revision, lease };
        self.known = Some((name.clone(), Look { lock: Some(held), state: Some(state.clone()) }));
        let Range { entries, count } = outcome.ranges.first().cloned().unwrap_or_default();
        let oldest = entries.into_iter().next().map(|entry| entry.key);
        self.runs.retain(|run| run.owner != owner || run.name != name);
        if claim.purpose == Purpose::Run {
            self.runs.push(Run { name, owner, revision: before, since: state.since, all: count, oldest });
        }
    }

    /// Returns what is known of a lock, or reads it.
    fn known_or_look(&mut self, claim: &Claim) -> Result<Look, BackendError> {
        match self.known.take() {
            Some((name, look)) if name == claim.name.as_str() && look.is_of(&claim.owner) => Ok(look),
            _ => Ok(self.look(claim.name.as_str())?.0),
        }
    }

    /// Revokes the leases of takings whose answers were lost, so that none of them is carried out later.
    fn make_void(&mut self) -> Result<(), BackendError> {
        while let Some(lease) = self.unclear.last() {
            self.client.revoke(*lease).map_err(only_read)?;
            self.unclear.pop();
        }
        Ok(())
    }

    /// Describes a lock that another owner holds. Asks for the time left of a lease of the Java library's.
    fn describe(&mut self, look: &Look, clock: Clock) -> Result<Option<LockState>, BackendError> {
        let lease = look.lock.as_ref().filter(|lock| lock.lease != 0 && look.exact().is_none()).map(|lock| lock.lease);
        let left = match lease {
            None => None,
            // It ended just now: its key goes within the second.
            Some(lease) => Some(self.client.time_left(lease).map_err(only_read)?.unwrap_or_default()),
        };
        Ok(look.describe(clock, left))
    }

    /// Returns the operations that close the record of a run, and the number of records that are surplus then.
    fn closing(
        &mut self,
        claim: &Claim,
        look: &Look,
        now: Timestamp,
        closing: Closing,
    ) -> Result<Vec<Value>, BackendError> {
        let (name, owner) = (claim.name.as_str(), claim.owner.as_str());
        let ours = self.run_of(claim).cloned();
        let stored = look.state.as_ref().filter(|state| state.owner == owner);
        let (from, to) = self.space.runs_of(name);
        if claim.keep == 0 && matches!(closing, Closing::Ended { .. }) {
            return Ok(vec![wire::delete_between(&from, &to)]);
        }
        let (key, since) = match (&ours, stored) {
            (Some(run), _) => (self.space.run(name, run.revision, owner), run.since),
            (None, Some(State { run: Some(revision), since, .. })) => (self.space.run(name, *revision, owner), *since),
            // Another taking has replaced what is stored of this one.
            (None, None) if claim.keep > 0 => match self.find_run(name, owner)? {
                Some((key, since)) => (key, since),
                None => return Ok(Vec::new()),
            },
            _ => return Ok(Vec::new()),
        };
        let Some(record) = layout::ended(layout::begun(since), now, closing) else {
            return Ok(vec![wire::delete(&key)]);
        };
        let mut operations = vec![wire::if_version(&key, 1, &[wire::put(&key, record.to_string().as_bytes(), 0)])];
        let one = ours.filter(|run| run.all == u64::from(claim.keep) + 1).and_then(|run| run.oldest);
        operations.extend(one.filter(|oldest| *oldest != key).map(|oldest| wire::delete(&oldest)));
        operations.push(wire::get_between(&from, &to, Part::FirstKeys(1)));
        Ok(operations)
    }

    /// Finds the record of an owner of whom nothing else is known.
    fn find_run(&mut self, name: &str, owner: &str) -> Result<Option<(Vec<u8>, Timestamp)>, BackendError> {
        let (from, to) = self.space.runs_of(name);
        let read = [wire::get_between(&from, &to, Part::All)];
        let outcome = self.client.transact(&[], &read, &[]).map_err(only_read)?;
        let entries = outcome.ranges.into_iter().flat_map(|range| range.entries);
        let mut ours = entries.filter_map(|entry| Some((layout::run(&self.space, &entry)?, entry.key)));
        Ok(ours.find(|(run, _)| run.owner == owner).and_then(|(run, key)| Some((key, run.started_at?))))
    }

    fn forestalled(&mut self) -> BackendError {
        BackendError::transient("other clients keep changing the lock").of(&self.client.http().server())
    }

    /// Removes the oldest records, if there are more than the history keeps.
    fn prune(&mut self, claim: &Claim, outcome: &Outcome) -> Result<(), BackendError> {
        let surplus = outcome.ranges.last().map_or(0, |range| range.count).saturating_sub(u64::from(claim.keep));
        if surplus == 0 {
            return Ok(());
        }
        let (from, to) = self.space.runs_of(claim.name.as_str());
        let read = [wire::get_between(&from, &to, Part::FirstKeys(surplus + 1))];
        let found = self.client.transact(&[], &read, &[])?.ranges.into_iter().next().unwrap_or_default();
        // A record that is kept is the end of those that go.
        let end = usize::try_from(surplus).ok().and_then(|place| found.entries.get(place));
        let end = end.map_or(to, |entry| entry.key.clone());
        self.client.transact(&[], &[wire::delete_between(&from, &end)], &[]).map(drop)
    }
}

/// A request that changes nothing is never carried out too late.
fn only_read(error: BackendError) -> BackendError {
    BackendError { ambiguous: false, ..error }
}

/// Takes the TLS parameters from the URL.
fn tls(url: &Url) -> Result<Option<Tls>, String> {
    let tls = Tls::take(url, |_| None, Mode::Disable)?;
    match tls.mode {
        Mode::Allow | Mode::Prefer => {
            Err("has an sslmode that leaves the choice to the server, which etcd does not support; write require or verify-full"
                .to_owned())
        }
        Mode::Disable if tls.roots.is_some() || tls.identity.is_some() => {
            Err("has certificates, and sslmode=disable".to_owned())
        }
        Mode::Disable => Ok(None),
        _ => Ok(Some(tls)),
    }
}

impl Backend for Etcd {
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
            Ok(grant) => return Ok(Acquired::Granted(grant).into()),
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
            if look.is_of(&claim.owner) && look.exact().is_some_and(|state| state.until >= until) {
                // It is held for longer already. What was known of it may be out of date.
                look = self.look(name)?.0;
                if look.is_of(&claim.owner) && look.exact().is_some_and(|state| state.until >= until) {
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
                wire::put(&self.space.lock(name), &lock.value, lease),
                wire::put(&self.space.state(name), &state.to_json(), 0),
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
            let kept = if look.was_released_by(&claim.owner) {
                return Ok(Kept::Kept.into());
            } else if let Some(lock) = &held {
                // The server's clock may have been set back after the taking.
                let since = lock.since.unwrap_or(clock.now).min(clock.now);
                let (run, until) = (look.exact().and_then(|state| state.run), since + hold);
                let is_held = until > clock.now && !hold.is_zero();
                let until = if is_held { until } else { clock.now };
                let state = State { owner: ended.clone(), since, until, run };
                let operation = match is_held {
                    false => wire::delete(&self.space.lock(name)),
                    true => {
                        let (lease, _, _) = self.grant(until.since(clock.earliest))?;
                        wire::put(&self.space.lock(name), &value(since, &ended), lease)
                    }
                };
                operations.insert(0, operation);
                operations.insert(1, wire::put(&self.space.state(name), &state.to_json(), 0));
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
}
