//! The choice of the server: one of a list, the master that a sentinel names, or the cluster's node that has the
//! lock.
//!
//! The driver's own clients for sentinels and clusters are not used. Before the first command, they connect to every
//! node and request the whole map; here a redirection leads to the one node that has the lock.

use std::net::IpAddr;
use std::time::Duration;

use ::redis::{Script, ServerError, Value, cmd};

use super::super::Credentials;
use super::super::diagnose::{self, Distance, FindingSink};
use super::connection::{self, Connection, ConnectionSettings, Peer, SentinelLogin};
use super::errors;
use super::scripts::LIST;
use super::server_list::{ServerKind, ServerList};
use crate::backend::net::bounds::{ANSWER_BYTES, LISTING_BYTES};
use crate::backend::net::hosts::{Bound, Hosts};
use crate::backend::net::network::Host;
use crate::lock::{BackendError, ErrorClass};
use crate::system::Moment;

/// Number of redirections followed within one request.
pub(crate) const REDIRECTIONS: usize = 5;

/// Refusals that a call with one key cannot meet: the user has no rights to the other keys; their slot is being
/// moved, and some of them are on one node, some on another; braces in the lock's name put them into another slot.
const MULTI_KEY_REFUSALS: [&str; 3] = ["NOPERM", "TRYAGAIN", "CROSSSLOT"];

/// Returns true if the same call may succeed with its first keys alone.
pub(crate) fn is_dispensable(error: &ServerError) -> bool {
    MULTI_KEY_REFUSALS.contains(&errors::code(error))
}

/// Holds a script, its keys and its arguments. The first key is the lock's, and the script can do without the others. With all
/// keys, an acquisition is a command of ten parts: to a longer one, a server that requires a password would not say that it does.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'static str,
    pub(crate) keys: &'a [String],
    pub(crate) arguments: &'a [&'a str],
}

impl Call<'_> {
    /// Returns the bytes that an answer may have.
    fn max_answer_bytes(&self) -> usize {
        if self.script == LIST { LISTING_BYTES } else { ANSWER_BYTES }
    }
}

/// Names the servers of the URL, and holds at most one open connection.
pub(crate) struct Client {
    kind: ServerKind,
    /// The hosts in the order they are tried; the one that failed last is tried last.
    hosts: Hosts,
    /// Number of servers that share the time of one attempt.
    server_count: usize,
    settings: ConnectionSettings,
    connection: Option<Connection>,
    /// The cluster's node that had the lock last.
    node: Option<Host>,
    /// The connection attempt in progress. It ends with the first answer, because Redis sends nothing unasked.
    attempt: Option<Bound>,
}

impl Client {
    /// Creates the network without connecting; one of the servers must answer within `timeout`.
    pub(crate) fn new(server_list: ServerList, settings: ConnectionSettings, timeout: Duration) -> Self {
        let (server_count, hosts) = (server_list.server_count(), Hosts::new(server_list.hosts, timeout));
        Self { kind: server_list.kind, hosts, server_count, settings, connection: None, node: None, attempt: None }
    }

    /// Lets the next connection attempt use all the time there is.
    pub(crate) fn use_all_time_at_once(&mut self) {
        self.hosts.attempts.make_one();
    }

    /// Returns the time limit of each server if this many share the time.
    pub(crate) fn time_per_server(timeout: Duration, servers: usize) -> Duration {
        (timeout / u32::try_from(servers.max(1)).unwrap_or(u32::MAX)).max(Duration::from_secs(1))
    }

    /// Returns true for a cluster, where braces in a name have a meaning.
    pub(crate) fn is_cluster(&self) -> bool {
        self.kind == ServerKind::Cluster
    }

    pub(crate) fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Reports which of the URL's hosts can be reached: servers, sentinels or nodes.
    pub(crate) fn report_reachable_hosts(&self, report: FindingSink<'_>) -> Distance {
        let peer = if let ServerKind::Sentinels(_) = self.kind {
            Peer::Sentinel(SentinelLogin::Without)
        } else {
            Peer::Server
        };
        let (hosts, port) = (&self.hosts.all, connection::port_of(peer));
        diagnose::hosts(hosts, port, self.settings.timeout, |host| host.name.clone().into(), report)
    }

    /// Returns the name of the master that the sentinels are queried for.
    pub(crate) fn master(&self) -> Option<&str> {
        if let ServerKind::Sentinels(master) = &self.kind { Some(master) } else { None }
    }

    /// Returns the number of servers that can replace each other.
    pub(crate) fn host_count(&self) -> usize {
        if self.kind == ServerKind::Servers { self.hosts.count() } else { 1 }
    }

    /// Takes the open connection, or opens one. A caller that does not pass it back to `put_back` closes it.
    pub(crate) fn connection(&mut self) -> Result<Connection, BackendError> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => self.connect(),
        }
    }

    /// Keeps a connection for the next request, after the server has answered on it.
    pub(crate) fn put_back(&mut self, connection: Connection) {
        self.connection = Some(connection);
        self.attempt = None;
        self.hosts.attempts.succeeded();
    }

    /// Uses another user and password from the next connection on.
    pub(crate) fn log_in_with(&mut self, login: &Credentials) {
        self.settings.user.clone_from(&login.user);
        self.settings.password = Some(login.password.clone());
        self.connection = None;
    }

    pub(crate) fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    /// Runs a script on the server that has the lock. Returns a refusal about keys that the script can do without as
    /// an answer.
    pub(crate) fn run(&mut self, call: &Call<'_>) -> Result<Value, BackendError> {
        self.run_unless(call, |error| call.keys.len() > 1 && is_dispensable(error))
    }

    /// Runs a script on the server that has the lock. Returns a refusal as an answer if `is_answer` accepts it.
    pub(crate) fn run_unless(
        &mut self,
        call: &Call<'_>,
        is_answer: impl Fn(&ServerError) -> bool,
    ) -> Result<Value, BackendError> {
        let mut replicas = 0;
        let mut redirections = 0;
        let mut asking = Asking::No;
        loop {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None if redirections > 0 => self.follow()?,
                None => self.connect()?,
            };
            let answer = run_script(&mut connection, call, asking).inspect_err(|_| self.try_next_host())?;
            let Value::ServerError(error) = &answer else {
                self.put_back(connection);
                return Ok(answer);
            };
            let code = errors::code(error);
            if is_answer(error) {
                self.put_back(connection);
                return Ok(answer);
            }
            match (&self.kind, code) {
                (ServerKind::Cluster, "MOVED" | "ASK") if redirections < REDIRECTIONS => {
                    redirections += 1;
                    asking = if code == "ASK" { Asking::Yes } else { Asking::No };
                    match redirection(error, connection.host()) {
                        Ok(node) => self.node = Some(node),
                        Err(error) => {
                            self.try_next_host();
                            return Err(error.named(connection.name()));
                        }
                    }
                }
                (ServerKind::Cluster, "MOVED" | "ASK") => {
                    self.node = None;
                    return Err(
                        BackendError::transient("the cluster's nodes redirect back and forth").named(connection.name())
                    );
                }
                (ServerKind::Servers, "READONLY" | "MASTERDOWN" | "LOADING") if replicas + 1 < self.hosts.count() => {
                    replicas += 1;
                    self.try_next_host();
                }
                _ => {
                    self.try_next_host();
                    return connection.check(answer);
                }
            }
        }
    }

    /// Lets the next connection try another host: this one may be frozen, or no longer be the master.
    pub(crate) fn try_next_host(&mut self) {
        self.hosts.pass_over();
        self.node = None;
        self.fail();
    }

    /// Records that the connection attempt in progress has failed.
    fn fail(&mut self) {
        if let Some(bound) = self.attempt.take() {
            self.hosts.attempts.failed(bound, Moment::now());
        }
    }

    /// Returns the time limit of each server.
    fn limit(&mut self) -> Duration {
        self.attempt.get_or_insert_with(|| self.hosts.attempts.begin(Moment::now())).each(self.server_count)
    }

    /// Connects to the node that the cluster redirected to; if that fails, no other node can help.
    fn follow(&mut self) -> Result<Connection, BackendError> {
        let Some(node) = self.node.take() else { return self.connect() };
        let limit = self.limit();
        let connection = Connection::open(&node, Peer::Server, &self.settings, limit)?;
        self.node = Some(node);
        Ok(connection)
    }

    fn connect(&mut self) -> Result<Connection, BackendError> {
        // The node that had the lock last may still have it, or may be gone.
        if self.node.is_some()
            && let Ok(connection) = self.follow()
        {
            return Ok(connection);
        }
        let limit = self.limit();
        let mut last_error = None;
        for _ in 0..self.hosts.count() {
            let host = self.hosts.first();
            let found = match self.master() {
                Some(master) => connect_by_sentinel(host, master, &self.settings, limit),
                None => Connection::open(host, Peer::Server, &self.settings, limit),
            };
            match found {
                Ok(connection) => return Ok(connection),
                Err(error) => last_error = Some(merge_errors(last_error, error)),
            }
            self.hosts.pass_over();
        }
        self.fail();
        Err(last_error.unwrap_or_else(|| BackendError::permanent("the URL names no host")))
    }
}

/// Merges the errors of two servers. That of an overloaded server comes first; otherwise the result is transient if one
/// of them is, with the text of the permanent one.
fn merge_errors(one: Option<BackendError>, other: BackendError) -> BackendError {
    let Some(one) = one else { return other };
    match (one.class, other.class) {
        (_, ErrorClass::Overloaded) => other,
        (ErrorClass::Permanent, ErrorClass::Transient) => BackendError { class: ErrorClass::Transient, ..one },
        (ErrorClass::Transient, ErrorClass::Permanent) => BackendError { class: ErrorClass::Transient, ..other },
        _ => one,
    }
}

/// Says whether ASKING precedes a command, as a node expects after an ASK redirection, while a slot is moving to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    No,
    Yes,
}

/// Runs a script in one round trip; in two if the server has not seen it since its start.
fn run_script(connection: &mut Connection, call: &Call<'_>, asking: Asking) -> Result<Value, BackendError> {
    let mut ask = |command: &str, script: &str| {
        let mut evaluate = cmd(command);
        evaluate.arg(script).arg(call.keys.len()).arg(call.keys).arg(call.arguments);
        let commands = match asking {
            Asking::Yes => vec![cmd("ASKING"), evaluate],
            Asking::No => vec![evaluate],
        };
        connection.ask(&commands, call.max_answer_bytes()).map(|mut answers| answers.pop().unwrap_or_default())
    };
    let answer = ask("EVALSHA", Script::new(call.script).get_hash())?;
    match &answer {
        Value::ServerError(error) if errors::code(error) == "NOSCRIPT" => ask("EVAL", call.script),
        _ => Ok(answer),
    }
}

/// Returns the node of a redirection, `SLOT HOST:PORT`.
pub(crate) fn redirection(error: &ServerError, from: &Host) -> Result<Host, BackendError> {
    let text = error.details().unwrap_or_default();
    let place = text.split_once(' ').map_or(text, |(_, place)| place);
    let node = place.rsplit_once(':').and_then(|(name, port)| redirect_target(name, port.parse().ok()?, from));
    node.ok_or_else(|| errors::from_redirection(place))
}

/// Returns the server that another one names, to which the login will be sent. It has to be a host and a port: no path of
/// a socket, and no address that stands for this host. A node that does not know its own name omits it; then it is the
/// one that answered.
pub(crate) fn redirect_target(name: &str, port: u16, from: &Host) -> Option<Host> {
    let name = if name.is_empty() || name == "?" { &from.name } else { name };
    let is_host = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte))
        && !name.parse().is_ok_and(|address: IpAddr| address.is_unspecified());
    (is_host && port > 0).then(|| Host { name: name.to_owned(), port: Some(port) })
}

/// Connects to the master that this sentinel names.
fn connect_by_sentinel(
    host: &Host,
    master: &str,
    settings: &ConnectionSettings,
    limit: Duration,
) -> Result<Connection, BackendError> {
    let question = || cmd("SENTINEL").arg("get-master-addr-by-name").arg(master).clone();
    let mut connection = Connection::open(host, Peer::Sentinel(SentinelLogin::Without), settings, limit)?;
    let mut answer = connection.ask_one(question())?;
    if matches!(&answer, Value::ServerError(error) if errors::code(error) == "NOAUTH") {
        connection = Connection::open(host, Peer::Sentinel(SentinelLogin::With), settings, limit)?;
        answer = connection.ask_one(question())?;
    }
    let answer = connection.check(answer)?;
    match ::redis::from_redis_value::<Option<(String, u16)>>(answer) {
        Ok(Some((name, port))) => match redirect_target(&name, port, host).filter(|_| !name.is_empty()) {
            Some(master) => Connection::open(&master, Peer::Server, settings, limit),
            None => Err(errors::from_redirection(&format!("{name}:{port}")).named(connection.name())),
        },
        Ok(None) => Err(BackendError::permanent(format!("the sentinel knows no master `{master}`"))
            .hint("list its masters with redis-cli SENTINEL MASTERS")
            .named(connection.name())),
        Err(_) => Err(BackendError::permanent("the sentinel names no master").named(connection.name())),
    }
    .map_err(|error| BackendError { ambiguous: false, ..error })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, port: u16) -> Host {
        Host { name: name.to_owned(), port: Some(port) }
    }

    #[test]
    fn a_redirection_names_a_host_and_a_port_or_means_the_same_host() {
        let moved = |place: &str| {
            let answer = ::redis::parse_redis_value(format!("-MOVED 3999{place}\r\n").as_bytes()).unwrap();
            let Value::ServerError(error) = answer else { panic!("{place}") };
            redirection(&error, &host("db", 1)).map_err(|error| error.message)
        };
        assert_eq!(moved(" 127.0.0.1:6381"), Ok(host("127.0.0.1", 6381)));
        assert_eq!(moved(" ::1:6381"), Ok(host("::1", 6381)));
        assert_eq!(moved(" my_db-1.example:1"), Ok(host("my_db-1.example", 1)));
        assert_eq!(moved(" :6381"), Ok(host("db", 6381)));
        assert_eq!(moved(" ?:6381"), Ok(host("db", 6381)));
        for place in [
            "",
            " ",
            " db",
            " db:x",
            " db:0",
            " db:65536",
            " /run/sock:1",
            " ./sock:1",
            " a b:1",
            " u@db:1",
            " [::1",
            " 0.0.0.0:1",
            " :::1",
            " d\u{e4}:1",
            " db\0:1",
        ] {
            let message = moved(place).unwrap_err();
            assert!(message.ends_with("which is not a host and a port"), "{message}");
        }
    }

    #[test]
    fn of_two_troubles_the_one_that_stays_is_told_and_the_one_that_passes_is_tried_again() {
        let (passing, lasting) = (BackendError::transient("down"), BackendError::permanent("wrong password"));
        let full = BackendError::new(ErrorClass::Overloaded, "full");
        let told = BackendError::transient("wrong password");
        assert_eq!(merge_errors(Some(passing.clone()), lasting.clone()), told);
        assert_eq!(merge_errors(Some(lasting.clone()), passing.clone()), told);
        assert_eq!(merge_errors(Some(lasting.clone()), lasting.clone()), lasting);
        assert_eq!(merge_errors(Some(passing), full.clone()), full);
        assert_eq!(merge_errors(Some(full.clone()), lasting), full);
        assert_eq!(merge_errors(None, full.clone()), full);
    }

    #[test]
    fn every_server_gets_its_share_of_the_time_and_at_least_a_second() {
        assert_eq!(Client::time_per_server(Duration::from_secs(10), 2), Duration::from_secs(5));
        assert_eq!(Client::time_per_server(Duration::from_secs(2), 5), Duration::from_secs(1));
        assert_eq!(Client::time_per_server(Duration::from_secs(2), 0), Duration::from_secs(2));
    }
}
