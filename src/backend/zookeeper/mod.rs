//! Locks in ZooKeeper: a node for each lock, as the Java library writes it, and a node below it with what is shedlock's own.
//!
//! The node `/shedlock/NAME` has the time of the lock's end. Below it `.shedlock` has the whole record. Both are written in
//! one transaction; if the numbers of their last transactions differ, another client has written the lock, and its owner is
//! unknown. The time is that of a write to `/shedlock` itself, which is sent together with the reading: a server carries out
//! the requests of a session in their order, so that nothing it reads afterwards is older.
//!
//! A session is only a connection: its loss frees no lock.

mod check;
mod errors;
mod link;
mod listing;
mod path;
#[cfg(test)]
mod tests;
mod wire;

use std::time::Duration;

use super::cas::{CasLocks, CasStore, Read, Record, Take, Written};
use super::hosts::Hosts;
use super::network::{self, Authority};
use super::tls::Tls;
use super::{Access, BackendError, Credentials, Opened, Reached, Tell, Url};
use crate::system::Timestamp;
use link::{Link, Terms};
use wire::{ANY, Answer, Node, Request, Stat};

/// The owner of a lock that another client has written. The Java library leaves no name.
pub(super) const UNKNOWN: &str = "unknown";
/// The node above the locks, by the Java library's default.
const ROOT: &str = "/shedlock";
/// The record's field with the name of the node that says when it was created.
const BIRTH: &str = "birth";
/// Minimum time limit of an answer.
const SHORTEST: Duration = Duration::from_secs(2);

/// The servers, the nodes of a URL, and at most one open connection.
pub(super) struct ZooKeeper {
    hosts: Hosts,
    terms: Terms,
    link: Option<Link>,
    /// The transaction that told the time last.
    last: Stat,
    /// The node under which everything of the URL is; empty for the root of ZooKeeper.
    chroot: String,
    /// The node above the locks.
    root: String,
    label: String,
}

/// The versions that a write expects: those of the lock's node and of that with the record, if there is one.
///
/// Versions begin at 0 in every new node, so those of a lock that was deleted and taken anew can be the same. A node below
/// the record, which is named for the taking that created it, makes the difference.
pub(super) struct Version {
    lock: i32,
    state: Option<i32>,
    /// The name of that node.
    birth: Option<String>,
}

impl Version {
    /// Returns the versions of the nodes as they were read.
    fn of(lock: &Node, state: Option<&Node>) -> Result<Self, BackendError> {
        let birth = state.and_then(|state| birth(&state.data));
        let state = state.map(|state| compared(state.stat.version)).transpose()?;
        Ok(Self { lock: compared(lock.stat.version)?, state, birth })
    }

    /// Returns the versions after a write of both nodes.
    fn next(&self, birth: Option<String>) -> Result<Self, BackendError> {
        let state = self.state.map_or(Ok(0), |state| compared(state.wrapping_add(1)))?;
        Ok(Self { lock: compared(self.lock.wrapping_add(1))?, state: Some(state), birth })
    }
}

/// Returns a version that a write can be compared with. They grow beyond 2^31 into the negative numbers, of which one stands
/// for any version: a write with it would replace whatever is there.
fn compared(version: i32) -> Result<i32, BackendError> {
    match version {
        ANY => {
            Err(BackendError::permanent("the lock's node was written so often that its version is -1, which means any")
                .hint("delete the node with zkCli.sh deleteall while no job of this lock runs"))
        }
        version => Ok(version),
    }
}

impl ZooKeeper {
    /// Parses the URL, without connecting to a server.
    pub(super) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        Ok(Opened::server(CasLocks::new(Self::of_url(url, access)?), url))
    }

    fn of_url(url: &Url, access: &Access) -> Result<Self, String> {
        let Authority { user, password, hosts, path } = Authority::parse(url)?;
        if hosts.is_empty() || hosts.iter().any(network::Host::is_path) {
            return Err("names no host; write zookeeper://HOST".to_owned());
        }
        let chroot =
            node(&path).ok_or("has a path that cannot be a node of ZooKeeper; write zookeeper://HOST/CHROOT")?;
        let own = url.take("path").unwrap_or_else(|| ROOT.to_owned());
        let own = node(&own).filter(|own| !own.is_empty());
        let own = own.ok_or("has a parameter path= that cannot be a node of ZooKeeper; write path=/shedlock")?;
        let tls = Tls::of_choice(url, "ZooKeeper")?;
        url.nothing_left(&[["path"].as_slice(), &Tls::PARAMETERS].concat())?;
        let share = access.patience / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let password = password.or_else(|| access.password.clone());
        if user.is_none() && password.is_some() {
            return Err("has a password and no user; write zookeeper://USER@HOST".to_owned());
        }
        Ok(Self {
            label: format!("backend zookeeper://{}{chroot}", network::list(&hosts)),
            hosts: Hosts::new(hosts, access.patience),
            terms: Terms {
                login: user.map(|user| (user, password.unwrap_or_default())),
                tls,
                share: share.max(SHORTEST),
            },
            link: None,
            last: Stat { written_by: 0, written_at: Timestamp(0), version: 0 },
            root: format!("{chroot}{own}"),
            chroot,
        })
    }

    /// Sends requests in one round trip, and returns their answers. An error on an open connection is ambiguous. The requests
    /// that open a connection change no lock, and are sent to the next server as well.
    fn ask(&mut self, requests: &[Request]) -> Result<Vec<Answer>, BackendError> {
        let (link, answers) = match self.link.take() {
            Some(mut link) => match link.ask(requests, self.terms.share) {
                Ok(answers) => (link, answers),
                Err(error) => {
                    // The server may be frozen, or cut off from the others.
                    self.hosts.pass_over();
                    return Err(error.ambiguous());
                }
            },
            None => {
                let Self { hosts, terms, .. } = self;
                hosts.connect(|host, bound| Link::open(host, terms, bound, requests))?
            }
        };
        self.link = Some(link);
        Ok(answers)
    }

    /// Sends one request and reads its answer.
    fn ask_one(&mut self, request: Request) -> Result<Answer, BackendError> {
        self.ask(&[request])?.pop().ok_or_else(errors::strange)
    }

    /// Explains the error of a request about a node.
    fn refused(&self, code: i32, node: &str) -> BackendError {
        errors::of_code(code, node, self.terms.login.is_some())
    }

    fn lock(&self, name: &str) -> String {
        format!("{}/{}", self.root, path::of_name(name))
    }

    /// Returns the rights of new nodes: those of the Java library's, or of the user who is logged in.
    fn access(&self) -> wire::Access {
        if self.terms.login.is_some() { wire::Access::Creator } else { wire::Access::Open }
    }

    /// Returns the request that leads to the server's time.
    fn clock(&self) -> Request {
        Request::set(&self.root, &[], ANY)
    }

    /// Returns the server's time and the number of the transaction, of a server without the root: the transaction creates
    /// it and removes it again.
    fn time_without_root(&mut self) -> Result<Stat, BackendError> {
        let create = Request::create(&self.root, &[], self.access());
        let transaction = Request::all(&[create, self.clock(), Request::delete(&self.root, ANY)]);
        let answer = self.ask_one(transaction)?.map_err(|code| self.refused(code, &self.root))?;
        match wire::read_all(&answer).ok_or_else(errors::strange)? {
            Ok(stat) => stat.ok_or_else(errors::strange),
            Err(refused) if refused.error == errors::NODE_EXISTS => {
                Err(BackendError::transient("another client has just created the first node"))
            }
            Err(refused) if refused.error == errors::NO_NODE => Err(self.refused(refused.error, &self.chroot)),
            Err(refused) => Err(self.refused(refused.error, &self.root)),
        }
    }

    /// Reads a node's answer; `None` if there is no such node.
    fn node(&self, answer: Answer, path: &str) -> Result<Option<Node>, BackendError> {
        match answer {
            Ok(body) => wire::read_node(&body).map(Some).ok_or_else(errors::strange),
            Err(errors::NO_NODE) => Ok(None),
            Err(code) => Err(self.refused(code, path)),
        }
    }

    /// Creates the nodes above a lock's that are missing. Those between the root and the lock have a time that has passed:
    /// to the Java library a node without a time is a lock that is held for ever.
    fn make_above(&mut self, lock: &str) -> Result<(), BackendError> {
        let below = lock.strip_prefix(&self.root).unwrap_or_default();
        let mut nodes = vec![(self.root.clone(), String::new())];
        for (place, _) in below.match_indices('/').skip(1) {
            nodes.push((format!("{}{}", self.root, &below[..place]), Timestamp(0).to_string()));
        }
        self.create_missing(nodes).map(drop)
    }

    /// Sends a transaction. Returns what it has set last, or the first request that failed in it.
    fn transact(&mut self, requests: &[Request]) -> Result<Result<Option<Stat>, wire::Refused>, BackendError> {
        match self.ask_one(Request::all(requests))? {
            Ok(body) => wire::read_all(&body).ok_or_else(errors::strange),
            Err(error) => Ok(Err(wire::Refused { place: 0, error })),
        }
    }
}

impl CasStore for ZooKeeper {
    type Version = Version;

    const GRAIN: Duration = Duration::from_millis(1);

    fn label(&self) -> String {
        self.label.clone()
    }

    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.link = None;
        self.terms.login = login.user.clone().map(|user| (user, login.password.clone()));
        self.terms.login.is_some()
    }

    fn read(&mut self, name: &str) -> Result<Read<Version>, BackendError> {
        let lock = self.lock(name);
        let own = format!("{lock}/{}", path::STATE);
        let answers = self.ask(&[self.clock(), Request::get(&lock), Request::get(&own)])?;
        let [time, found, state] = <[Answer; 3]>::try_from(answers).map_err(|_| errors::strange())?;
        let time = match time {
            Ok(body) => wire::read_stat(&body).ok_or_else(errors::strange)?,
            Err(errors::NO_NODE) => self.time_without_root()?,
            Err(code) => return Err(self.refused(code, &self.root)),
        };
        let (found, state) = (self.node(found, &lock)?, self.node(state, &own)?);
        let found = match found {
            Some(found) => Some((record(name, &found, state.as_ref()), Version::of(&found, state.as_ref())?)),
            None => None,
        };
        self.last = time;
        Ok(Read { now: time.written_at, floor: time.written_by, found })
    }

    fn write(&mut self, name: &str, record: &Record, version: Option<&Version>) -> Result<Written, BackendError> {
        let lock = self.lock(name);
        let own = format!("{lock}/{}", path::STATE);
        let end = record.until.unwrap_or(Timestamp(u64::MAX)).to_string();
        let is_new = version.is_none_or(|version| version.state.is_none());
        let birth = version
            .filter(|_| !is_new)
            .map_or_else(|| Some(format!("{:x}", self.last.written_by)), |version| version.birth.clone());
        let (end, text, access) = (end.as_bytes(), with_birth(record, birth.as_deref()), self.access());
        let mut both = vec![
            match version {
                None => Request::create(&lock, end, access),
                Some(version) => Request::set(&lock, end, version.lock),
            },
            match version.and_then(|version| version.state) {
                None => Request::create(&own, text.as_bytes(), access),
                Some(version) => Request::set(&own, text.as_bytes(), version),
            },
        ];
        both.extend(birth.as_ref().map(|birth| match is_new {
            true => Request::create(&format!("{own}/{birth}"), &[], access),
            false => Request::set(&format!("{own}/{birth}"), &[], ANY),
        }));
        let mut answer = self.transact(&both)?;
        if version.is_none() && answer.is_err_and(|refused| refused.place == 0 && refused.error == errors::NO_NODE) {
            self.make_above(&lock)?;
            answer = self.transact(&both)?;
        }
        match (answer, version, record.until) {
            // The clock was set back since the reading, by which the lock was to be free: it would be held until that time.
            (Ok(Some(stat)), Some(version), Some(until))
                if stat.written_at < until && until <= self.last.written_at =>
            {
                self.last = stat;
                let freed = Record { until: Some(stat.written_at), ..record.clone() };
                self.write(name, &freed, Some(&version.next(birth)?))
            }
            (Ok(_), ..) => Ok(Written::Done),
            (Err(refused), ..) => match refused.error {
                errors::BAD_VERSION | errors::NO_NODE | errors::NODE_EXISTS => Ok(Written::Conflict),
                // It is about the node above the one that cannot be made.
                errors::EPHEMERAL => Err(self.refused(errors::EPHEMERAL, above([&lock, &own][refused.place.min(1)]))),
                code => Err(self.refused(code, if refused.place == 0 { &lock } else { &own })),
            },
        }
    }

    /// Removes the node with all that is shedlock's own. A node above those of other locks stays, as one that only leads there.
    fn remove(&mut self, name: &str, version: &Version) -> Result<Written, BackendError> {
        let lock = self.lock(name);
        let own = format!("{lock}/{}", path::STATE);
        let mut ours = Vec::new();
        if let Some(state) = version.state {
            ours.extend(version.birth.as_ref().map(|birth| Request::delete(&format!("{own}/{birth}"), ANY)));
            ours.push(Request::delete(&own, state));
        }
        let free = Timestamp(0).to_string();
        let (delete, leave) =
            (Request::delete(&lock, version.lock), Request::set(&lock, free.as_bytes(), version.lock));
        let mut answer = self.transact(&[ours.as_slice(), &[delete]].concat())?;
        let is_above = |refused: wire::Refused| refused.error == errors::NOT_EMPTY && refused.place == ours.len();
        if answer.is_err_and(is_above) {
            answer = self.transact(&[ours.as_slice(), &[leave]].concat())?;
        }
        match answer.map_err(|refused| refused.error) {
            Ok(_) => Ok(Written::Done),
            Err(errors::BAD_VERSION | errors::NO_NODE) => Ok(Written::Conflict),
            Err(code) => Err(self.refused(code, &lock)),
        }
    }

    fn list(&mut self, take: Take<'_>) -> Result<Timestamp, BackendError> {
        self.list_all(take)
    }

    fn disconnect(&mut self) {
        if let Some(link) = self.link.take() {
            link.close();
        }
    }

    fn make(&mut self) -> Result<Vec<String>, BackendError> {
        self.make_nodes()
    }

    fn schema(&self) -> String {
        self.commands()
    }

    fn check(&mut self, tell: Tell<'_>) -> Reached {
        self.probe(tell)
    }
}

/// Writes the record, and the name of the node that says when it was created.
fn with_birth(record: &Record, birth: Option<&str>) -> String {
    let text = record.to_json();
    match birth {
        Some(birth) => format!("{{\"{BIRTH}\":\"{birth}\",{}", text.trim_start_matches('{')),
        None => text,
    }
}

/// Reads the name of the node that says when a record was created.
fn birth(data: &[u8]) -> Option<String> {
    let read: serde_json::Value = serde_json::from_slice(data).ok()?;
    let birth = read.get(BIRTH)?.as_str()?;
    birth.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| birth.to_owned()).filter(|birth| !birth.is_empty())
}

/// Reads a lock. What is shedlock's own counts if it was written in the same transaction as the lock; otherwise another
/// client has written the lock since, and only the token and the runs count.
fn record(name: &str, lock: &Node, state: Option<&Node>) -> Record {
    let own = state.and_then(|state| Record::parse(&String::from_utf8_lossy(&state.data), name));
    match (own, state) {
        (Some(own), Some(state)) if state.stat.written_by == lock.stat.written_by => own,
        (own, _) => Record {
            owner: UNKNOWN.to_owned(),
            since: Some(lock.stat.written_at),
            // The Java library takes a lock without a time for one that is held.
            until: Timestamp::parse(&String::from_utf8_lossy(&lock.data)),
            set_at: None,
            ..own.unwrap_or_default()
        },
    }
}

/// Returns the path of the node above this one.
fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(above, _)| above)
}

/// Returns the path of a node without a slash at its end, empty for the root of ZooKeeper; `None` if it cannot be one.
fn node(text: &str) -> Option<String> {
    let text = text.trim_matches('/');
    match text.is_empty() {
        true => Some(String::new()),
        false => text.split('/').all(path::is_node).then(|| format!("/{text}")),
    }
}
