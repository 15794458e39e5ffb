//! Locks in ZooKeeper: a node for each lock, as the Java library writes it, and a node below it with shedlock's record.
//!
//! The node `/shedlock/NAME` has the time of the lock's end. Below it `.shedlock` has the whole record. Both are written in
//! one transaction. If the lock's last transaction is a later one, another client has written the lock, and its owner is
//! unknown; if it is an earlier one, the lock was written between the readings of the two, and is read again. The time is that of a write to `/shedlock` itself, which is sent together with the reading: a server carries out
//! the requests of a session in their order, so that nothing it reads afterwards is older.
//!
//! A session is only a connection: its loss frees no lock. Nothing here decides when a lock is free.

mod check;
mod connection;
mod errors;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod listing;
mod parent_nodes;
mod path;
mod stored_record;
#[cfg(test)]
mod tests;
mod wire;

use std::time::Duration;

use crate::backend::net::hosts::Hosts;
use crate::backend::net::network::{self, Authority};
use crate::backend::net::tls::Tls;
use crate::backend::record::engine::{ReadResult, Record, RecordLocks, RecordSink, RecordStore, WriteResult};
use crate::backend::{Access, Credentials, FindingSink, LockTest, Opened, Url};
use crate::lock::BackendError;
use crate::system::Timestamp;
use connection::{Connection, ConnectionSettings};
use stored_record::{Version, is_torn, read_record, to_text};
use wire::{ANY_VERSION, Answer, Node, Request, Stat};

/// The node above the locks, by the Java library's default.
const DEFAULT_ROOT: &str = "/shedlock";
/// Readings of a lock that is written while it is read.
const MAX_READS: u32 = 16;
/// Minimum time limit of an answer.
const MIN_ANSWER_TIME: Duration = Duration::from_secs(2);

/// Holds the servers, the nodes of a URL, and at most one open connection.
pub(crate) struct ZooKeeper {
    hosts: Hosts,
    settings: ConnectionSettings,
    connection: Option<Connection>,
    /// The transaction whose time was read last.
    last_clock: Stat,
    /// The node under which everything of the URL is; empty for the root of ZooKeeper.
    chroot: String,
    /// The node above the locks.
    root: String,
    label: String,
    /// Answers in the place of a server's, for the fuzzer, the next one at the end.
    #[cfg(any(test, fuzzing))]
    fake_answers: Option<Vec<Answer>>,
}

impl ZooKeeper {
    /// Parses the URL, without connecting to a server.
    pub(crate) fn open(url: &Url, access: &Access) -> Result<Opened, String> {
        Ok(Opened::server(RecordLocks::new(Self::from_url(url, access)?), url, access))
    }

    fn from_url(url: &Url, access: &Access) -> Result<Self, String> {
        let Authority { user, password, hosts, path } = Authority::parse(url)?;
        if hosts.is_empty() || hosts.iter().any(network::Host::is_path) {
            return Err("names no host; write zookeeper://HOST".to_owned());
        }
        let chroot = normalize_path(&path)
            .ok_or("has a path that cannot be a node of ZooKeeper; write zookeeper://HOST/CHROOT")?;
        let root = url.take("path").unwrap_or_else(|| DEFAULT_ROOT.to_owned());
        let root = normalize_path(&root).filter(|root| !root.is_empty());
        let root = root.ok_or("has a parameter path= that cannot be a node of ZooKeeper; write path=/shedlock")?;
        let tls = Tls::from_parameters(url, "ZooKeeper", access.timeout)?;
        url.nothing_left(&[["path"].as_slice(), &Tls::PARAMETERS].concat())?;
        let answer_timeout = access.timeout / u32::try_from(hosts.len()).unwrap_or(u32::MAX);
        let password = password.or_else(|| access.password.clone());
        if user.is_none() && password.is_some() {
            return Err("has a password and no user; write zookeeper://USER@HOST".to_owned());
        }
        Ok(Self {
            label: format!("backend zookeeper://{}{chroot}", network::list(&hosts)),
            hosts: Hosts::new(hosts, access.timeout).noting(&access.contact),
            settings: ConnectionSettings {
                login: user.map(|user| (user, password.unwrap_or_default())),
                tls,
                answer_timeout: answer_timeout.max(MIN_ANSWER_TIME),
                contact: access.contact.clone(),
                detour: access.detour.clone(),
            },
            connection: None,
            last_clock: Stat { written_by: 0, written_at: Timestamp(0), version: 0 },
            root: format!("{chroot}{root}"),
            chroot,
            #[cfg(any(test, fuzzing))]
            fake_answers: None,
        })
    }

    /// Sends requests in one round trip, and returns their answers. An error on an open connection is ambiguous. The requests
    /// that open a connection change no lock, and are sent to the next server as well.
    fn ask(&mut self, requests: &[Request]) -> Result<Vec<Answer>, BackendError> {
        #[cfg(any(test, fuzzing))]
        if let Some(fake_answers) = &mut self.fake_answers {
            let none = || BackendError::permanent("there are no more answers");
            return requests.iter().map(|_| fake_answers.pop().ok_or_else(none)).collect();
        }
        let (connection, answers) = match self.connection.take() {
            Some(mut connection) => match connection.ask(requests, self.settings.answer_timeout) {
                Ok(answers) => (connection, answers),
                Err(error) => {
                    // The server may be frozen, or cut off from the others.
                    self.hosts.pass_over();
                    return Err(error.ambiguous());
                }
            },
            None => {
                let Self { hosts, settings, .. } = self;
                hosts.connect(|host, bound| Connection::open(host, settings, bound, requests))?
            }
        };
        self.connection = Some(connection);
        Ok(answers)
    }

    /// Sends one request and reads its answer.
    fn ask_one(&mut self, request: Request) -> Result<Answer, BackendError> {
        self.ask(&[request])?.pop().ok_or_else(errors::unexpected_answer)
    }

    /// Explains the error of a request about a node.
    fn node_error(&self, code: i32, node: &str) -> BackendError {
        errors::from_code(code, node, self.settings.login.is_some())
    }

    fn lock_path(&self, name: &str) -> String {
        format!("{}/{}", self.root, path::node_name(name))
    }

    /// Returns the rights of new nodes: those of the Java library's, or of the user who is logged in.
    fn new_node_access(&self) -> wire::Access {
        if self.settings.login.is_some() { wire::Access::Creator } else { wire::Access::Open }
    }

    /// Returns the request that leads to the server's time.
    fn clock_request(&self) -> Request {
        Request::set(&self.root, &[], ANY_VERSION)
    }

    /// Returns the server's time and the number of the transaction, of a server without the root: the transaction creates
    /// it and removes it again.
    fn time_without_root(&mut self) -> Result<Stat, BackendError> {
        let create = Request::create(&self.root, &[], self.new_node_access());
        let transaction =
            Request::transaction(&[create, self.clock_request(), Request::delete(&self.root, ANY_VERSION)]);
        let answer = self.ask_one(transaction)?.map_err(|code| self.node_error(code, &self.root))?;
        match wire::read_transaction(&answer).ok_or_else(errors::unexpected_answer)? {
            Ok(stat) => stat.ok_or_else(errors::unexpected_answer),
            Err(failed) if failed.code == errors::NODE_EXISTS => {
                Err(BackendError::transient("another client has just created the first node"))
            }
            Err(failed) if failed.code == errors::NO_NODE => Err(self.node_error(failed.code, &self.chroot)),
            Err(failed) => Err(self.node_error(failed.code, &self.root)),
        }
    }

    /// Reads a node's answer; `None` if there is no such node.
    fn optional_node(&self, answer: Answer, path: &str) -> Result<Option<Node>, BackendError> {
        match answer {
            Ok(body) => wire::read_node(&body).map(Some).ok_or_else(errors::unexpected_answer),
            Err(errors::NO_NODE) => Ok(None),
            Err(code) => Err(self.node_error(code, path)),
        }
    }

    /// Reads the answers about a lock's two nodes, that of the lock first. The outer `Option` is `None` if the lock was written between
    /// them, the inner one if there is no such lock.
    fn whole_lock(&self, lock: Answer, state: Answer, path: &str) -> Result<Option<Option<LockNodes>>, BackendError> {
        let Some(found) = self.optional_node(lock, path)? else { return Ok(Some(None)) };
        let state = self.optional_node(state, &state_path(path))?;
        Ok((!is_torn(&found, state.as_ref())).then_some(Some((found, state))))
    }

    /// Sends a transaction. Returns the metadata that it has set last, or the first request that failed in it.
    fn transact(&mut self, requests: &[Request]) -> Result<Result<Option<Stat>, wire::FailedRequest>, BackendError> {
        match self.ask_one(Request::transaction(requests))? {
            Ok(body) => wire::read_transaction(&body).ok_or_else(errors::unexpected_answer),
            Err(error) => Ok(Err(wire::FailedRequest { index: 0, code: error })),
        }
    }
}

impl RecordStore for ZooKeeper {
    type Version = Version;

    fn label(&self) -> String {
        self.label.clone()
    }

    fn log_in_with(&mut self, login: &Credentials) -> bool {
        self.connection = None;
        self.settings.login = login.user.clone().map(|user| (user, login.password.clone()));
        self.settings.login.is_some()
    }

    fn read(&mut self, name: &str) -> Result<ReadResult<Version>, BackendError> {
        let lock = self.lock_path(name);
        for _ in 0..MAX_READS {
            let answers = self.ask(&[self.clock_request(), Request::get(&lock), Request::get(&state_path(&lock))])?;
            let [time, found, state] = <[Answer; 3]>::try_from(answers).map_err(|_| errors::unexpected_answer())?;
            let time = match time {
                Ok(body) => wire::read_stat(&body).ok_or_else(errors::unexpected_answer)?,
                Err(errors::NO_NODE) => self.time_without_root()?,
                Err(code) => return Err(self.node_error(code, &self.root)),
            };
            let Some(nodes) = self.whole_lock(found, state, &lock)? else { continue };
            let found = match nodes {
                Some((found, state)) => {
                    Some((read_record(name, &found, state.as_ref()), Version::from_nodes(&found, state.as_ref())?))
                }
                None => None,
            };
            self.last_clock = time;
            return Ok(ReadResult { now: time.written_at, min_token: time.written_by, found });
        }
        Err(errors::keeps_changing())
    }

    fn write(&mut self, name: &str, record: &Record, version: Option<&Version>) -> Result<WriteResult, BackendError> {
        let lock = self.lock_path(name);
        let state_path = state_path(&lock);
        let end = record.until.unwrap_or(Timestamp(u64::MAX)).to_string();
        let is_new = version.is_none_or(|version| version.state.is_none());
        let creation_mark = version
            .filter(|_| !is_new)
            .map_or_else(|| Some(format!("{:x}", self.last_clock.written_by)), |version| version.creation_mark.clone());
        let (end, text, access) = (end.as_bytes(), to_text(record, creation_mark.as_deref()), self.new_node_access());
        let mut requests = vec![
            match version {
                None => Request::create(&lock, end, access),
                Some(version) => Request::set(&lock, end, version.lock),
            },
            match version.and_then(|version| version.state) {
                None => Request::create(&state_path, text.as_bytes(), access),
                Some(version) => Request::set(&state_path, text.as_bytes(), version),
            },
        ];
        requests.extend(creation_mark.as_ref().map(|creation_mark| match is_new {
            true => Request::create(&format!("{state_path}/{creation_mark}"), &[], access),
            false => Request::set(&format!("{state_path}/{creation_mark}"), &[], ANY_VERSION),
        }));
        let mut answer = self.transact(&requests)?;
        if version.is_none() && answer.is_err_and(|failed| failed.index == 0 && failed.code == errors::NO_NODE) {
            self.create_parents(&lock)?;
            answer = self.transact(&requests)?;
        }
        match (answer, version, record.until) {
            // The clock was set back since the reading, by which the lock was to be free: it would be held until that time.
            (Ok(Some(stat)), Some(version), Some(until))
                if stat.written_at < until && until <= self.last_clock.written_at =>
            {
                self.last_clock = stat;
                let freed = Record { until: Some(stat.written_at), ..record.clone() };
                self.write(name, &freed, Some(&version.next(creation_mark)?))
            }
            (Ok(_), ..) => Ok(WriteResult::Done),
            (Err(failed), ..) => match failed.code {
                errors::BAD_VERSION | errors::NO_NODE | errors::NODE_EXISTS => Ok(WriteResult::Conflict),
                // The error is about the node above the one that cannot be created.
                errors::EPHEMERAL => {
                    Err(self.node_error(errors::EPHEMERAL, parent([&lock, &state_path][failed.index.min(1)])))
                }
                code => Err(self.node_error(code, if failed.index == 0 { &lock } else { &state_path })),
            },
        }
    }

    /// Removes the node with all that is shedlock's own. A node above those of other locks stays, as one that only leads there.
    fn remove(&mut self, name: &str, version: &Version) -> Result<WriteResult, BackendError> {
        let lock = self.lock_path(name);
        let state_path = state_path(&lock);
        let mut state_requests = Vec::new();
        if let Some(state) = version.state {
            state_requests.extend(
                version
                    .creation_mark
                    .as_ref()
                    .map(|creation_mark| Request::delete(&format!("{state_path}/{creation_mark}"), ANY_VERSION)),
            );
            state_requests.push(Request::delete(&state_path, state));
        }
        let free = Timestamp(0).to_string();
        let (delete, mark_free) =
            (Request::delete(&lock, version.lock), Request::set(&lock, free.as_bytes(), version.lock));
        let mut answer = self.transact(&[state_requests.as_slice(), &[delete]].concat())?;
        let is_above =
            |failed: wire::FailedRequest| failed.code == errors::NOT_EMPTY && failed.index == state_requests.len();
        if answer.is_err_and(is_above) {
            answer = self.transact(&[state_requests.as_slice(), &[mark_free]].concat())?;
        }
        match answer.map_err(|failed| failed.code) {
            Ok(_) => Ok(WriteResult::Done),
            Err(errors::BAD_VERSION | errors::NO_NODE) => Ok(WriteResult::Conflict),
            Err(code) => Err(self.node_error(code, &lock)),
        }
    }

    fn list(&mut self, sink: RecordSink<'_>) -> Result<Timestamp, BackendError> {
        self.list_all(sink)
    }

    fn disconnect(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
    }

    fn create_missing(&mut self) -> Result<Vec<String>, BackendError> {
        self.create_root_nodes()
    }

    fn schema(&mut self) -> Result<String, BackendError> {
        Ok(self.setup_commands())
    }

    fn check(&mut self, report: FindingSink<'_>) -> LockTest {
        self.probe(report)
    }
}

/// Holds the node of a lock, and that with shedlock's record.
type LockNodes = (Node, Option<Node>);

/// Returns the path of the node with the record of the lock at this path.
fn state_path(lock: &str) -> String {
    format!("{lock}/{}", path::STATE_NODE)
}

/// Returns the path of the node above this one.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(above, _)| above)
}

/// Returns the path of a node without a slash at its end, empty for the root of ZooKeeper; `None` if it cannot be one.
fn normalize_path(text: &str) -> Option<String> {
    let text = text.trim_matches('/');
    match text.is_empty() {
        true => Some(String::new()),
        false => text.split('/').all(path::is_node).then(|| format!("/{text}")),
    }
}
