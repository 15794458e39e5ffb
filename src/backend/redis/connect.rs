//! The choice of the server: one of a list, the master that a sentinel names, or the cluster's node that has the
//! lock.
//!
//! The driver's own clients for sentinels and clusters are not used. Before the first command, they connect to every
//! node and request the whole map; here a redirection leads to the one node that has the lock.

use std::time::Duration;

use ::redis::{Script, ServerError, Value, cmd};

use super::super::hosts::{Bound, Hosts};
use super::super::network::Host;
use super::super::probe::{self, Distance, Tell};
use super::super::{BackendError, Credentials, ErrorClass};
use super::errors;
use super::link::{self, Link, Login, Peer, Terms};
use super::route::{Kind, Route};
use crate::system::Moment;

/// Number of redirections followed within one request.
pub(super) const REDIRECTIONS: usize = 5;

/// Refusals that a call with one key cannot meet: the user has no rights to the other keys; their slot is being
/// moved, and some of them are on one node, some on another; braces in the lock's name put them into another slot.
const DISPENSABLE: [&str; 3] = ["NOPERM", "TRYAGAIN", "CROSSSLOT"];

/// Returns true if the same call may succeed with its first keys alone.
pub(super) fn is_dispensable(error: &ServerError) -> bool {
    DISPENSABLE.contains(&errors::code(error))
}

/// A script, its keys and its arguments. The first key is the lock's, and the script can do without the others. With
/// all keys, a taking is a command of ten parts: to a longer one, a server that requires a password would not say
/// that it does.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) script: &'static str,
    pub(super) keys: &'a [String],
    pub(super) arguments: &'a [&'a str],
}

/// The servers of the URL, with at most one open connection.
pub(super) struct Network {
    kind: Kind,
    /// The hosts in the order they are tried; the one that failed last is tried last.
    hosts: Hosts,
    /// Number of servers that share the time of one attempt.
    places: usize,
    terms: Terms,
    link: Option<Link>,
    /// The cluster's node that had the lock last.
    node: Option<Host>,
    /// The connection attempt in progress. It ends with the first answer, because Redis sends nothing unasked.
    attempt: Option<Bound>,
}

impl Network {
    /// Creates the network without connecting; one of the servers must answer within `patience`.
    pub(super) fn new(route: Route, terms: Terms, patience: Duration) -> Self {
        let (places, hosts) = (route.places(), Hosts::new(route.hosts, patience));
        Self { kind: route.kind, hosts, places, terms, link: None, node: None, attempt: None }
    }

    /// Lets the next connection attempt use all the time there is.
    pub(super) fn make_one_attempt(&mut self) {
        self.hosts.attempts.make_one();
    }

    /// Returns the time limit of each server, for this number of servers.
    pub(super) fn share(patience: Duration, servers: usize) -> Duration {
        (patience / u32::try_from(servers.max(1)).unwrap_or(u32::MAX)).max(Duration::from_secs(1))
    }

    /// Returns true for a cluster, where braces in a name have a meaning.
    pub(super) fn is_cluster(&self) -> bool {
        self.kind == Kind::Cluster
    }

    pub(super) fn disconnect(&mut self) {
        self.link = None;
    }

    /// Reports which of the URL's hosts can be reached: servers, sentinels or nodes.
    pub(super) fn look(&self, tell: Tell<'_>) -> Distance {
        let peer = if let Kind::Sentinels(_) = self.kind { Peer::Sentinel(Login::Without) } else { Peer::Server };
        let (hosts, port) = (&self.hosts.all, link::port_of(peer));
        probe::hosts(hosts, port, self.terms.timeout, |host| host.name.clone().into(), tell)
    }

    /// Returns the name of the master that the sentinels are queried for.
    pub(super) fn master(&self) -> Option<&str> {
        if let Kind::Sentinels(master) = &self.kind { Some(master) } else { None }
    }

    /// Returns the number of servers that can replace each other.
    pub(super) fn count(&self) -> usize {
        if self.kind == Kind::Servers { self.hosts.count() } else { 1 }
    }

    /// Takes the open connection, or opens one. A caller that does not pass it back to `keep` closes it.
    pub(super) fn link(&mut self) -> Result<Link, BackendError> {
        match self.link.take() {
            Some(link) => Ok(link),
            None => self.connect(),
        }
    }

    /// Keeps a connection for the next request, after the server has answered on it.
    pub(super) fn keep(&mut self, link: Link) {
        self.link = Some(link);
        self.attempt = None;
        self.hosts.attempts.succeeded();
    }

    /// Uses another user and password from the next connection on.
    pub(super) fn log_in_with(&mut self, login: &Credentials) {
        self.terms.user.clone_from(&login.user);
        self.terms.password = Some(login.password.clone());
        self.link = None;
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Runs a script on the server that has the lock. Returns a refusal about keys that the script can do without as
    /// an answer.
    pub(super) fn run(&mut self, call: &Call<'_>) -> Result<Value, BackendError> {
        self.run_unless(call, |error| call.keys.len() > 1 && is_dispensable(error))
    }

    /// Runs a script on the server that has the lock. Returns a refusal as an answer if `is_answer` accepts it.
    pub(super) fn run_unless(
        &mut self,
        call: &Call<'_>,
        is_answer: impl Fn(&ServerError) -> bool,
    ) -> Result<Value, BackendError> {
        let mut replicas = 0;
        let mut redirections = 0;
        let mut asking = Asking::No;
        loop {
            let mut link = match self.link.take() {
                Some(link) => link,
                None if redirections > 0 => self.follow()?,
                None => self.connect()?,
            };
            let answer = run_script(&mut link, call, asking).inspect_err(|_| self.look_elsewhere())?;
            let Value::ServerError(error) = &answer else {
                self.keep(link);
                return Ok(answer);
            };
            let code = errors::code(error);
            if is_answer(error) {
                self.keep(link);
                return Ok(answer);
            }
            match (&self.kind, code) {
                (Kind::Cluster, "MOVED" | "ASK") if redirections < REDIRECTIONS => {
                    redirections += 1;
                    asking = if code == "ASK" { Asking::Yes } else { Asking::No };
                    self.node = redirection(error.details().unwrap_or_default(), link.host());
                }
                (Kind::Cluster, "MOVED" | "ASK") => {
                    self.node = None;
                    return Err(
                        BackendError::transient("the cluster's nodes redirect back and forth").named(link.name())
                    );
                }
                (Kind::Servers, "READONLY" | "MASTERDOWN" | "LOADING") if replicas + 1 < self.hosts.count() => {
                    replicas += 1;
                    self.look_elsewhere();
                }
                _ => {
                    self.look_elsewhere();
                    return link.check(answer);
                }
            }
        }
    }

    /// Lets the next connection try another host: this one may be frozen, or no longer be the master.
    pub(super) fn look_elsewhere(&mut self) {
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
        self.attempt.get_or_insert_with(|| self.hosts.attempts.begin(Moment::now())).each(self.places)
    }

    /// Connects to the node that the cluster redirected to; if that fails, no other node can help.
    fn follow(&mut self) -> Result<Link, BackendError> {
        let Some(node) = self.node.take() else { return self.connect() };
        let limit = self.limit();
        let link = Link::open(&node, Peer::Server, &self.terms, limit)?;
        self.node = Some(node);
        Ok(link)
    }

    fn connect(&mut self) -> Result<Link, BackendError> {
        // The node that had the lock last may still have it, or may be gone.
        if self.node.is_some()
            && let Ok(link) = self.follow()
        {
            return Ok(link);
        }
        let limit = self.limit();
        let mut met = None;
        for _ in 0..self.hosts.count() {
            let host = self.hosts.first();
            let found = match self.master() {
                Some(master) => ask_sentinel(host, master, &self.terms, limit),
                None => Link::open(host, Peer::Server, &self.terms, limit),
            };
            match found {
                Ok(link) => return Ok(link),
                Err(error) => met = Some(both(met, error)),
            }
            self.hosts.pass_over();
        }
        self.fail();
        Err(met.unwrap_or_else(|| BackendError::permanent("the URL names no host")))
    }
}

/// Merges the errors of two servers. That of an overloaded server comes first; otherwise the result is transient if one
/// of them is, with the text of the permanent one.
fn both(one: Option<BackendError>, other: BackendError) -> BackendError {
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
pub(super) enum Asking {
    No,
    Yes,
}

/// Runs a script in one round trip; in two if the server has not seen it since its start.
fn run_script(link: &mut Link, call: &Call<'_>, asking: Asking) -> Result<Value, BackendError> {
    let mut ask = |command: &str, script: &str| {
        let mut evaluate = cmd(command);
        evaluate.arg(script).arg(call.keys.len()).arg(call.keys).arg(call.arguments);
        let commands = match asking {
            Asking::Yes => vec![cmd("ASKING"), evaluate],
            Asking::No => vec![evaluate],
        };
        link.ask(&commands).map(|mut answers| answers.pop().unwrap_or_default())
    };
    let answer = ask("EVALSHA", Script::new(call.script).get_hash())?;
    match &answer {
        Value::ServerError(error) if errors::code(error) == "NOSCRIPT" => ask("EVAL", call.script),
        _ => Ok(answer),
    }
}

/// Parses `SLOT HOST:PORT`. A node that does not know its own name omits the host; then it is the one that answered.
pub(super) fn redirection(text: &str, from: &Host) -> Option<Host> {
    let (_, place) = text.split_once(' ')?;
    let (name, port) = place.rsplit_once(':')?;
    let name = if name.is_empty() || name == "?" { from.name.clone() } else { name.to_owned() };
    Some(Host { name, port: Some(port.parse().ok()?) })
}

/// Connects to the master that this sentinel names.
fn ask_sentinel(host: &Host, master: &str, terms: &Terms, limit: Duration) -> Result<Link, BackendError> {
    let question = || cmd("SENTINEL").arg("get-master-addr-by-name").arg(master).clone();
    let mut link = Link::open(host, Peer::Sentinel(Login::Without), terms, limit)?;
    let mut answer = link.one(question())?;
    if matches!(&answer, Value::ServerError(error) if errors::code(error) == "NOAUTH") {
        link = Link::open(host, Peer::Sentinel(Login::With), terms, limit)?;
        answer = link.one(question())?;
    }
    let answer = link.check(answer)?;
    match ::redis::from_redis_value::<Option<(String, u16)>>(answer) {
        Ok(Some((name, port))) => Link::open(&Host { name, port: Some(port) }, Peer::Server, terms, limit),
        Ok(None) => Err(BackendError::permanent(format!("the sentinel knows no master `{master}`"))
            .hint("list its masters with redis-cli SENTINEL MASTERS")
            .named(link.name())),
        Err(_) => Err(BackendError::permanent("the sentinel names no master").named(link.name())),
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
    fn a_redirection_names_a_host_or_means_the_same() {
        let from = host("db", 1);
        assert_eq!(redirection("3999 127.0.0.1:6381", &from), Some(host("127.0.0.1", 6381)));
        assert_eq!(redirection("3999 ::1:6381", &from), Some(host("::1", 6381)));
        assert_eq!(redirection("3999 :6381", &from), Some(host("db", 6381)));
        assert_eq!(redirection("3999", &from), None);
        assert_eq!(redirection("3999 db:x", &from), None);
    }

    #[test]
    fn of_two_troubles_the_one_that_stays_is_told_and_the_one_that_passes_is_tried_again() {
        let (passing, lasting) = (BackendError::transient("down"), BackendError::permanent("wrong password"));
        let full = BackendError::new(ErrorClass::Overloaded, "full");
        let told = BackendError::transient("wrong password");
        assert_eq!(both(Some(passing.clone()), lasting.clone()), told);
        assert_eq!(both(Some(lasting.clone()), passing.clone()), told);
        assert_eq!(both(Some(lasting.clone()), lasting.clone()), lasting);
        assert_eq!(both(Some(passing), full.clone()), full);
        assert_eq!(both(Some(full.clone()), lasting), full);
        assert_eq!(both(None, full.clone()), full);
    }

    #[test]
    fn every_server_gets_its_share_of_the_time_and_at_least_a_second() {
        assert_eq!(Network::share(Duration::from_secs(10), 2), Duration::from_secs(5));
        assert_eq!(Network::share(Duration::from_secs(2), 5), Duration::from_secs(1));
        assert_eq!(Network::share(Duration::from_secs(2), 0), Duration::from_secs(2));
    }
}
